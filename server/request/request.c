/* server/request/request.c - see request.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/request.h"

#include <stddef.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/models/servable_run.h"

#define ARENA_LIMIT ((size_t)256 << 20) /* names and filters; tensors have their own limit */

enum td_code td_request_init(struct td_request *r, struct td_err *err)
{
    memset(r, 0, sizeof *r);
    r->signature = "";
    r->id = "";
    r->arena = td_arena_new(ARENA_LIMIT);
    if (r->arena == NULL) {
        return td_no_memory(err, ARENA_LIMIT, "a request");
    }
    return TD_OK;
}

static void clear_all(struct td_named *t, int n)
{
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&t[i].t);
    }
}

void td_request_fini(struct td_request *r)
{
    clear_all(r->in, r->n_in);
    clear_all(r->out, r->n_out);
    if (r->servable != NULL) {
        td_servable_unref(r->servable);
    }
    td_arena_free(r->arena);
    memset(r, 0, sizeof *r);
}

enum td_code td_request_resolve(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    if (r->sig != NULL) {
        return TD_OK;
    }
    if (r->servable == NULL) {
        TD_TRY(td_registry_find(reg, r->model, r->version, r->label, &r->servable, err));
    }
    r->sig = td_servable_signature(r->servable, r->signature);
    TD_FAIL_IF(r->sig == NULL, err, FAILED_PRECONDITION, "Serving signature key \"%s\" not found.",
               r->signature != NULL && *r->signature != '\0' ? r->signature : "serving_default");
    return TD_OK;
}

/* The request's batch size: 1 where the signature has none. */
static int64_t rows_of(const struct td_request *r)
{
    return r->n_in > 0 && r->in[0].t.shape.rank > 0 && td_model_config_has_rows(r->sig)
               ? r->in[0].t.shape.dim[0]
               : 1;
}

static struct td_servable_call call_of(const struct td_request *r, struct td_registry *reg)
{
    return (struct td_servable_call){
        .sig = r->sig,
        .in = r->in,
        .n_in = r->n_in,
        .filter = r->filter,
        .n_filter = r->n_filter,
        .strict_shapes = reg != NULL && td_registry_options(reg)->strict_shapes,
        .check_method = reg != NULL && td_registry_options(reg)->check_methods,
    };
}

/* The job is over: its outputs become the request's. */
static enum td_code conclude(struct td_request *r, enum td_code rc, struct td_err *err)
{
    const struct td_job *j = &r->job;
    err->code = rc;
    td_stats_request(td_servable_stats(r->servable), rc == TD_OK, rows_of(r), td_clock_ns() - r->since_ns,
                     &j->times);
    if (rc == TD_OK) {
        const struct td_servable_call call = call_of(r, NULL);
        td_metrics_runtime(td_metrics_model(td_servable_name(r->servable)), r->api, j->times.infer_ns / 1000);
        td_servable_deliver(&call, j->made, r->out, &r->n_out);
    }
    if (r->ended != NULL) {
        r->ended(r, err);
    }
    return err->code;
}

static struct td_request *request_of(struct td_job *j)
{
    return (struct td_request *)((char *)j - offsetof(struct td_request, job));
}

static void on_done(struct td_job *j, struct td_err *err)
{
    struct td_request *r = request_of(j);
    (void)conclude(r, err->code, err);
    r->done(r, err);
}

static void on_queued(struct td_job *j)
{
    struct td_request *r = request_of(j);
    r->queued(r);
}

/* Room for inputs in order, outputs as made and outputs as named. */
static enum td_code make_job(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    const size_t n_in = (size_t)r->sig->n_in, n_out = (size_t)r->sig->n_out;
    const size_t room = (n_out > (size_t)r->n_filter ? n_out : (size_t)r->n_filter) + 1;
    struct td_tensor *t = td_arena_alloc(r->arena, n_in + n_out + 1, sizeof *t);
    struct td_named *out = td_arena_alloc(r->arena, room, sizeof *out);
    if (t == NULL || out == NULL) {
        return td_no_memory(err, (n_in + n_out) * sizeof *t + room * sizeof *out, "the outputs of a request");
    }
    const struct td_servable_call call = call_of(r, reg);
    TD_TRY(td_servable_bind(r->servable, &call, t, err));
    clear_all(r->out, r->n_out);
    r->out = out;
    r->n_out = 0;
    r->job = (struct td_job){
        .servable = r->servable,
        .sig = r->sig,
        .in = t,
        .made = t + n_in,
        .run = {.stop = r->client != NULL ? r->client : &r->stop, .deadline_ns = r->deadline_ns},
        .arena = r->arena,
        .level = r->priority == 1 ? TD_LEVEL_HIGH : TD_LEVEL_NORMAL,
        .priority = r->priority,
        .borrowed = r->borrowed,
        .queued = r->queued != NULL ? on_queued : NULL,
        .done = r->done != NULL ? on_done : NULL,
    };
    return TD_OK;
}

/* Without workers: on this thread, alone. */
static enum td_code run_directly(struct td_request *r, struct td_err *err)
{
    const int64_t from_ns = td_clock_ns();
    TD_TRY(td_servable_compute(r->servable, r->sig, r->job.in, &r->job.run, r->job.made, err));
    r->job.times = (struct td_times){.infer_ns = td_clock_ns() - from_ns};
    td_stats_batch(td_servable_stats(r->servable), rows_of(r), &r->job.times);
    td_metrics_graph_run(r->job.times.infer_ns / 1000);
    return TD_OK;
}

enum td_code td_request_start(struct td_request *r, struct td_registry *reg, bool *later, struct td_err *err)
{
    struct td_workers *workers = td_registry_options(reg)->workers;
    *later = false;
    TD_TRY(td_request_resolve(r, reg, err));
    r->sig = td_servable_fewer_outputs(r->servable, r->sig, r->filter, r->n_filter);
    r->since_ns = td_clock_ns();
    if (make_job(r, reg, err)) {
        td_stats_request(td_servable_stats(r->servable), false, 0, 0, &r->job.times);
        return err->code;
    }
    const enum td_code rc =
        workers != NULL ? td_workers_run(workers, &r->job, later, err) : run_directly(r, err);
    return *later ? TD_OK : conclude(r, rc, err);
}

enum td_code td_request_run(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    bool later;
    r->done = NULL;
    return td_request_start(r, reg, &later, err);
}
