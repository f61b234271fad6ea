/* server/job_command.c - a job of a server, run as one by hand is (server/train_run.h), within what a job may
 * have of threads and memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/job_command.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buffer.h"
#include "core/base/log.h"
#include "server/base/memory_limits.h"
#include "server/base/options.h"
#include "server/base/state_quota.h"
#include "server/drain.h"
#include "server/jobs/child.h"
#include "server/jobs/job_process.h"
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

static enum td_code train(const struct td_options *o, const struct td_job_process *p,
                          struct td_train_outcome *out, struct td_fault *f)
{
    const struct td_job_todo todo = td_job_process_todo(p);
    uint64_t gpu_bytes;
    TD_TRY(td_fault_of(f, td_memory_parse("gpu_memory_limit", o->gpu_memory_limit, 0, &gpu_bytes, &f->err),
                       "invalid_value", ""));
    const struct td_train_run_opts opts = {
        .model = todo.model,
        .version = todo.version,
        .dir = todo.dir,
        .serving_dir = todo.serving_dir,
        .threads = o->job_cores < MOST_THREADS ? (int)o->job_cores : MOST_THREADS,
        .tags = o->saved_model_tags,
        .op_library = o->op_library,
        .devices = {.devices = o->devices, .module = o->device_module, .device = {.limit = gpu_bytes}},
        .train = todo.train,
    };
    return td_train_run(&opts, out, f);
}

int td_job_command(int argc, char *const *argv)
{
    struct td_options o;
    struct td_fault f = {0};
    struct td_train_outcome out = {0};
    struct td_job_process *p = NULL;
    if (set_up(&o, argc, argv, &f.err)) {
        td_log(TD_LOG_ERROR, NULL, "%s", f.err.msg);
        return TD_CHILD_FAILED;
    }
    enum td_code rc = td_job_process_open(o.state_dir, value_of(argv[2], "job"),
                                          strtoll(value_of(argv[3], "attempt"), NULL, 10), &p, &f);
    rc = rc ? rc : train(&o, p, &out, &f);
    /* past the bound: what is past the budget names the flag itself */
    if (rc == TD_RESOURCE_EXHAUSTED && o.job_memory > 0 && strstr(f.err.msg, "no memory") != NULL &&
        strstr(f.err.msg, "--job_memory") == NULL) {
        (void)td_err_wrap(&f.err, "--job_memory=%lld does not suffice", (long long)o.job_memory);
    }
    const int status = td_job_process_end(p, rc, &out, &f);
    json_decref(out.gate);
    return status;
}
