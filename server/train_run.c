/* server/train_run.c - what a job's process holds, made in this order and let go in the other: engine,
 * devices, op libraries, version (and the serving one), thread pool, sums over devices, signal thread.
 *
 * Signals are taken by a thread that waits for them (server/drain.h); it sets the stop word that the trainer
 * looks at. Its own end is a SIGHUP to itself alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train_run.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "kernels/dense/library_threads.h"
#include "kernels/ops.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "proto/bytes/mapping.h"
#include "server/drain.h"
#include "server/embed_pool.h"
#include "server/op_library.h"
#include "server/train/device_sums.h"
#include "server/train/head.h"
#include "server/train_processes.h"

/* ------------------------------------------------------------------ signals */

struct signals {
    td_stop pause, done;
    pthread_t thread;
};

/* As if nobody took signals. */
static void end_at_once(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    (void)signal(SIGTERM, SIG_DFL);
    (void)raise(SIGTERM);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *take_signals(void *arg)
{
    struct signals *s = arg;
    while (td_drain_wait(-1) != TD_WAKE_TIME && atomic_load(&s->done) == 0) {
        if (atomic_exchange(&s->pause, TD_CANCELLED) != 0) {
            td_log(TD_LOG_WARNING, NULL,
                   "ended by a second signal; the job goes on from what was saved last");
            end_at_once();
        }
        td_log(TD_LOG_INFO, NULL, "a signal: saving progress after the step in hand");
    }
    return NULL;
}

static enum td_code start_signals(struct signals *s, struct td_err *err)
{
    const int rc = pthread_create(&s->thread, NULL, take_signals, s);
    TD_FAIL_IF(rc != 0, err, RESOURCE_EXHAUSTED, "starting a thread for signals: %s", strerror(rc));
    return TD_OK;
}

static void stop_signals(struct signals *s)
{
    atomic_store(&s->done, 1);
    (void)pthread_kill(s->thread, SIGHUP);
    (void)pthread_join(s->thread, NULL);
}

/* ------------------------------------------------------------------ the process */

struct process {
    const struct td_train_run_opts *o;
    struct td_engine engine;
    struct td_op_libraries *libraries;
    struct td_devices *devices;
    struct td_device_sums *sums; /* of several processes with a GPU each; NULL: there are none */
    struct td_servable *servable, *serving;
    struct td_embed_pool *pool;
};

static enum td_code load(struct process *p, const char *dir, struct td_servable **out, struct td_err *err)
{
    const struct td_servable_opts opts = {.ops = p->engine.ops,
                                          .alone = true,
                                          .tags = p->o->tags,
                                          .kernels = TD_KERNELS_FAST,
                                          .devices = td_devices_opened(p->devices),
                                          .log_placement = p->o->log_placement};
    return td_servable_load(p->o->model, p->o->version, dir, &opts, out, err);
}

static enum td_code set_up(struct process *p, struct td_err *err)
{
    const struct td_train_run_opts *o = p->o;
    const int threads = o->threads > 0 ? o->threads : td_train_threads(o->train.spec);
    const struct td_devices_opts devices = td_train_devices(&o->devices, &o->train);
    const bool gate = o->train.spec->gate.on && o->serving_dir != NULL && strcmp(o->serving_dir, o->dir) != 0;
    td_threads_set(1);
    TD_TRY(td_engine_init(&p->engine, td_op_families, err));
    TD_TRY(td_devices_open(&devices, &p->engine, &p->devices, err));
    TD_TRY(td_op_libraries_open(o->op_library, &p->engine, &p->libraries, err));
    TD_TRY(load(p, o->dir, &p->servable, err));
    TD_TRY(gate ? load(p, o->serving_dir, &p->serving, err) : TD_OK);
    if (threads > 1) {
        TD_TRY(td_embed_pool_new(threads, &p->pool, err));
        td_embed_pool_of(p->pool)->steady = true; /* a job that goes on ends with the same bytes */
    }
    return TD_OK;
}

static void tear_down(struct process *p)
{
    td_device_sums_close(p->sums);
    td_embed_pool_free(p->pool);
    if (p->serving != NULL) {
        td_servable_unref(p->serving);
    }
    if (p->servable != NULL) {
        td_servable_unref(p->servable);
    }
    td_engine_fini(&p->engine);
    td_op_libraries_close(p->libraries);
    td_devices_close(p->devices);
}

/* The version becomes one with the job's new head, written to the job's own directory: the same bytes each
 * time, so that a job that goes on need not know whether an earlier process wrote all of it. */
static enum td_code put_head(struct process *p, struct td_job_spec *spec, struct td_fault *f)
{
    const char *work = p->o->train.work_dir;
    char dir[TD_FILE_PATH];
    struct td_servable *headed = NULL;
    const int put = snprintf(dir, sizeof dir, "%s/model", work);
    if (put < 0 || (size_t)put >= sizeof dir) {
        return TD_FAULT(f, "server_error", NULL, "%s: the path is too long", work);
    }
    TD_TRY(td_head_spec(p->servable, p->o->train.spec, spec, f));
    TD_TRY(td_fault_of(f, td_tree_remove(dir, &f->err), "server_error", NULL));
    TD_TRY(td_head_write(p->servable, p->o->train.spec, dir, f));
    TD_TRY(td_fault_of(f, load(p, dir, &headed, &f->err), "server_error", NULL));
    td_servable_unref(p->servable);
    p->servable = headed;
    return TD_OK;
}

static enum td_code train(struct process *p, struct td_train_outcome *out, struct td_fault *f)
{
    struct signals s = {0};
    struct td_train_opts opts = p->o->train;
    struct td_job_spec with_head;
    enum td_code made = td_fault_of(f, set_up(p, &f->err), "server_error", "");
    if (made == TD_OK && opts.spec->head.at != NULL) {
        made = put_head(p, &with_head, f);
        opts.spec = &with_head;
    }
    TD_TRY(td_ranks_agree(opts.ranks, made, f));
    made = td_device_sums_open(opts.ranks, p->devices, (int)opts.spec->gpus, &p->sums, &f->err);
    made = td_fault_of(f, made, made == TD_FAILED_PRECONDITION ? "invalid_value" : "server_error",
                       made == TD_FAILED_PRECONDITION ? "tensord.gpus" : "");
    TD_TRY(td_ranks_agree(opts.ranks, made, f));
    TD_TRY(td_fault_of(f, start_signals(&s, &f->err), "server_error", ""));
    opts.servable = p->servable;
    opts.serving = p->serving;
    opts.pool = td_embed_pool_of(p->pool);
    opts.pause = &s.pause;
    const enum td_code rc = td_train(&opts, out, f);
    stop_signals(&s);
    return rc;
}

enum td_code td_train_run(const struct td_train_run_opts *o, struct td_train_outcome *out, struct td_fault *f)
{
    struct process p = {.o = o};
    *out = (struct td_train_outcome){.end = TD_TRAIN_DONE};
    td_drain_init();
    td_mapping_install_handler();
    const enum td_code rc = train(&p, out, f);
    tear_down(&p);
    return rc;
}

int td_train_exit_status(enum td_code rc, const struct td_train_outcome *out, const struct td_fault *f)
{
    if (rc == TD_OK) {
        return out->end == TD_TRAIN_PAUSED ? TD_TRAIN_EXIT_PAUSED : TD_TRAIN_EXIT_DONE;
    }
    const bool own = strcmp(f->code, "server_error") == 0 || strcmp(f->code, "training_error") == 0;
    return own ? TD_TRAIN_EXIT_OTHER : TD_TRAIN_EXIT_BAD_JOB;
}
