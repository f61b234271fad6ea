/* server/job_command.c - a job of a server, run as one by hand is (server/train_run.h), within what a job may
 * have of threads and memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/job_command.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buffer.h"
#include "core/base/log.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "server/base/memory_limits.h"
#include "server/base/options.h"
#include "server/base/state_quota.h"
#include "server/drain.h"
#include "server/jobs/child.h"
#include "server/jobs/job_process.h"
#include "server/train_processes.h"
#include "server/train_run.h"

enum { OWN_ARGS = 5, MOST_ARGS = 64, MOST_THREADS = 16 };

static_assert((int)TD_TRAIN_EXIT_PAUSED == (int)TD_CHILD_PAUSED, "a paused job says so in one way");

/* The value of an argument "--name=..", or NULL. */
static const char *value_of(const char *arg, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(arg, "--", 2) == 0 && strncmp(arg + 2, name, n) == 0 && arg[n + 2] == '=' ? arg + n + 3
                                                                                             : NULL;
}

bool td_job_command_is(int argc, char *const *argv)
{
    return argc >= OWN_ARGS && strcmp(argv[1], "train") == 0 && value_of(argv[2], "job") != NULL &&
           value_of(argv[3], "attempt") != NULL && value_of(argv[4], "parent") != NULL;
}

static enum td_code set_up(struct td_options *o, int argc, char *const *argv, struct td_err *err)
{
    char *flags[MOST_ARGS] = {argv[0]};
    int n = 1;
    for (int i = OWN_ARGS; i < argc && n < MOST_ARGS; i++) {
        flags[n++] = argv[i];
    }
    TD_TRY(td_child_enter(strtoll(value_of(argv[4], "parent"), NULL, 10), err));
    TD_TRY(td_options_parse(o, n, flags, err));
    td_log_setup(strcmp(o->log_level, "debug") == 0 ? TD_LOG_DEBUG : TD_LOG_INFO, false);
    td_drain_init();             /* before the first thread */
    struct td_disk *disk = NULL; /* lives as long as the process */
    TD_TRY(td_state_quota_open(o->state_dir, o->state_quota, &disk, err));
    td_disk_set_default(disk);
    td_budget_limit((uint64_t)o->job_memory, "--job_memory");
    td_child_bound(o->job_memory);
    return TD_OK;
}

/* Of a process but the first: a folder of its own below the job's, and nobody whom it tells. */
static enum td_code step_aside(struct td_train_opts *train, char dir[TD_FILE_PATH], struct td_err *err)
{
    const int n = snprintf(dir, TD_FILE_PATH, "%s/rank-%d", train->work_dir, td_ranks_rank(train->ranks));
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH, err, INVALID_ARGUMENT, "%s: the path is too long",
               train->work_dir);
    train->work_dir = dir;
    train->sink = td_train_silence();
    return td_tree_make(dir, 0700, err);
}

/* In all processes of the job, as many as it wants GPUs. */
static enum td_code train(const struct td_options *o, struct td_job_todo todo, struct td_train_outcome *out,
                          struct td_fault *f)
{
    const int threads = o->job_cores < MOST_THREADS ? (int)o->job_cores : MOST_THREADS;
    uint64_t gpu_bytes, pinned;
    TD_TRY(td_fault_of(f, td_memory_parse("gpu_memory_limit", o->gpu_memory_limit, 0, &gpu_bytes, &f->err),
                       "invalid_value", ""));
    TD_TRY(td_fault_of(f, td_memory_parse("gpu_pinned_memory", o->gpu_pinned_memory, 0, &pinned, &f->err),
                       "invalid_value", ""));
    const struct td_train_run_opts opts = {
        .model = todo.model,
        .version = todo.version,
        .dir = todo.dir,
        .serving_dir = todo.serving_dir,
        .threads = threads > (int)todo.train.spec->gpus ? threads / (int)todo.train.spec->gpus : 1,
        .tags = o->saved_model_tags,
        .op_library = o->op_library,
        .devices = {.devices = o->devices,
                    .most = 1,
                    .module = o->device_module,
                    .device = {.limit = gpu_bytes,
                               .pinned = pinned,
                               .graph_run = (int)o->gpu_graph_run,
                               .tf32 = o->gpu_tf32}},
        .train = todo.train,
    };
    return td_train_run(&opts, out, f);
}

static enum td_code run(const struct td_options *o, const struct td_job_process *p, struct td_ranks *ranks,
                        struct td_train_outcome *out, struct td_fault *f)
{
    struct td_job_todo todo = td_job_process_todo(p);
    char aside[TD_FILE_PATH];
    struct td_err unsaid = {0};
    todo.train.ranks = ranks;
    TD_TRY(td_train_check_gpus(todo.train.spec, o->devices, f));
    if (td_ranks_rank(ranks) == 0) {
        return train(o, todo, out, f);
    }
    enum td_code rc = td_fault_of(f, step_aside(&todo.train, aside, &f->err), "server_error", "");
    rc = rc ? rc : train(o, todo, out, f);
    if (td_tree_remove(aside, &unsaid)) {
        td_log(TD_LOG_WARNING, NULL, "%s", unsaid.msg);
    }
    return rc;
}

/* As many processes as the job wants GPUs: before this one has threads, or the database. */
static enum td_code make_processes(const struct td_options *o, const char *job, struct td_ranks **ranks,
                                   struct td_fault *f)
{
    int gpus = 1;
    const bool may = o->job_gpus > 1 && strcmp(o->devices, "cpu") != 0;
    TD_TRY(may ? td_job_process_gpus(o->state_dir, job, &gpus, f) : TD_OK);
    gpus = gpus < o->job_gpus ? gpus : (int)o->job_gpus; /* it may have been created when there were more */
    return td_fault_of(f, td_ranks_open(gpus, ranks, &f->err), "server_error", "");
}

/* The first process writes down how the job ended. */
static int end(struct td_job_process *p, bool first, enum td_code rc, const struct td_train_outcome *out,
               struct td_fault *f)
{
    if (first) {
        return td_job_process_end(p, rc, out, f);
    }
    td_job_process_close(p);
    return td_train_exit_status(rc, out, f);
}

int td_job_command(int argc, char *const *argv)
{
    struct td_options o;
    struct td_fault f = {0};
    struct td_train_outcome out = {0};
    struct td_job_process *p = NULL;
    struct td_ranks *ranks = NULL;
    if (set_up(&o, argc, argv, &f.err)) {
        td_log(TD_LOG_ERROR, NULL, "%s", f.err.msg);
        return TD_CHILD_FAILED;
    }
    const char *job = value_of(argv[2], "job");
    const enum td_code made = make_processes(&o, job, &ranks, &f);
    const bool first = td_ranks_rank(ranks) == 0;
    const int64_t attempt = strtoll(value_of(argv[3], "attempt"), NULL, 10);
    struct td_fault opened = {0};
    enum td_code rc = td_job_process_open(o.state_dir, job, attempt, first, &p, made ? &opened : &f);
    rc = made ? made : rc;
    rc = rc ? rc : run(&o, p, ranks, &out, &f);
    /* past the bound: what is past the budget names the flag itself */
    if (rc == TD_RESOURCE_EXHAUSTED && o.job_memory > 0 && strstr(f.err.msg, "no memory") != NULL &&
        strstr(f.err.msg, "--job_memory") == NULL) {
        (void)td_err_wrap(&f.err, "--job_memory=%lld does not suffice", (long long)o.job_memory);
    }
    td_ranks_close(ranks);
    const int status = end(p, first, rc, &out, &f);
    json_decref(out.gate);
    return status;
}
