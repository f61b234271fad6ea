/* tests/sim/sim_load.c - what server/main.c starts, of it what schedules.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cuda/base/device.h"
#include "kernels/ops.h"

static void must(enum td_code rc, const struct td_err *err)
{
    if (rc != TD_OK) {
        fprintf(stderr, "sim_load: %s\n", err->msg);
        exit(1);
    }
}

void sim_load_start(struct sim_load *l, const struct sim_load_opts *o)
{
    struct td_err err = {0};
    *l = (struct sim_load){.kernels = o->kernels};
    sim_start(o->threads, o->seed);
    must(td_engine_init(&l->engine, td_op_families, &err), &err);
    l->device = sim_gpu_open(&o->costs, o->streams, o->limit);
    const struct td_workers_opts workers = {
        .workers = o->processors, .devices = 1, .device_runs = o->streams, .batching = !o->no_batching};
    must(td_workers_start(&workers, &l->workers, &err), &err);
}

void sim_load_stop(struct sim_load *l)
{
    td_workers_stop(l->workers);
    td_engine_fini(&l->engine);
    td_cuda_device_close(l->device);
    sim_stop();
}

struct td_servable *sim_load_model(struct sim_load *l, const char *name, const char *dir)
{
    struct td_err err = {0};
    struct td_servable *s = NULL;
    const struct td_servable_opts opts = {
        .ops = l->engine.ops, .devices = {{l->device}, 1}, .kernels = l->kernels};
    must(td_servable_load(name, 1, dir, &opts, &s, &err), &err);
    must(td_workers_admit(l->workers, s, &err), &err);
    return s;
}

/* ------------------------------------------------------------------ requests */

static void on_done(struct td_request *r, struct td_err *err)
{
    struct sim_ask *a = (struct sim_ask *)r;
    a->err = *err;
    a->took_ns = sim_now_ns() - a->from_ns;
    sem_post(&a->ended);
}

static int encoding; /* guarded by the clock's lock */

static void encodes(int by)
{
    sim_enter();
    encoding += by;
    sim_leave();
}

static enum td_code encode(struct td_request *r, struct td_err *err)
{
    (void)err;
    encodes(1);
    sim_sleep(((struct sim_ask *)r)->encode_ns);
    encodes(-1);
    return TD_OK;
}

int sim_load_encoding(void)
{
    return encoding;
}

void sim_ask_make(struct sim_ask *a, struct td_servable *s, const struct td_tensor *x, int64_t thread_ns)
{
    struct td_err err = {0};
    memset(a, 0, sizeof *a);
    sem_init(&a->ended, 0, 0);
    struct td_request *r = &a->r;
    td_request_init(r);
    must(td_request_open(r, &err), &err);
    r->servable = td_servable_ref(s);
    r->sig = td_servable_signature(s, "");
    a->in.name = r->sig->in[0].key;
    td_tensor_ref(&a->in.t, x);
    r->in = &a->in;
    r->n_in = 1;
    r->thread_ns = thread_ns;
    r->encode = encode;
    r->done = on_done;
    const struct td_servable_call call = td_request_call(r, NULL);
    must(td_request_bind(r, &call, &err), &err);
}

void sim_ask_enter(struct sim_load *l, struct sim_ask *a)
{
    struct td_err scratch = {0};
    a->from_ns = sim_now_ns();
    td_workers_run(l->workers, &a->r, &scratch);
}

enum td_code sim_ask_wait(struct sim_ask *a)
{
    while (sem_wait(&a->ended) != 0) {
    }
    return a->err.code;
}

enum td_code sim_ask_run(struct sim_load *l, struct sim_ask *a)
{
    sim_ask_enter(l, a);
    return sim_ask_wait(a);
}

void sim_ask_drop(struct sim_ask *a)
{
    td_request_fini(&a->r);
    sem_destroy(&a->ended);
}
