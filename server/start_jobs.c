/* server/start_jobs.c - a job's process reads its model as the server does: the flags that say how are handed
 * on, and no others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/start_jobs.h"

#include <stdio.h>
#include <string.h>

#include "core/base/disk.h"
#include "core/base/mem.h"
#include "server/base/cores.h"

static bool add(struct td_job_flags *f, int *n, const char *name, const char *value)
{
    const size_t room = strlen(name) + strlen(value) + 4;
    char *text = *n < TD_MAX_JOB_FLAGS ? td_calloc(room, 1) : NULL;
    if (text == NULL) {
        return false;
    }
    (void)snprintf(text, room, "--%s=%s", name, value);
    f->at[(*n)++] = text;
    return true;
}

static enum td_code make_flags(const struct td_options *o, struct td_job_flags *f, struct td_err *err)
{
    char quota[24], gpus[24], graph_run[24];
    int n = 0;
    (void)snprintf(gpus, sizeof gpus, "%lld", (long long)o->job_gpus);
    (void)snprintf(graph_run, sizeof graph_run, "%lld", (long long)o->gpu_graph_run);
    (void)snprintf(quota, sizeof quota, "%llu", (unsigned long long)td_disk_most(td_disk_state()));
    const bool whole =
        add(f, &n, "saved_model_tags", o->saved_model_tags) && add(f, &n, "op_library", o->op_library) &&
        add(f, &n, "devices", o->job_devices) && add(f, &n, "device_module", o->device_module) &&
        add(f, &n, "job_gpus", gpus) && add(f, &n, "gpu_memory_limit", o->gpu_memory_limit) &&
        add(f, &n, "gpu_pinned_memory", o->gpu_pinned_memory) && add(f, &n, "gpu_graph_run", graph_run) &&
        add(f, &n, "gpu_tf32", o->gpu_tf32 ? "true" : "false") && add(f, &n, "log_level", o->log_level) &&
        add(f, &n, "state_quota", quota);
    return whole ? TD_OK : td_no_memory(err, sizeof *f, "the flags of jobs");
}

enum td_code td_start_jobs(const struct td_options *o, const char *state_dir, struct td_registry *r,
                           struct td_job_flags *flags, struct td_jobs **out, struct td_err *err)
{
    TD_TRY(make_flags(o, flags, err));
    const struct td_jobs_opts opts = {.state_dir = state_dir,
                                      .registry = r,
                                      .servable = td_registry_options(r)->servable,
                                      .program = "/proc/self/exe",
                                      .most_running = (int)o->jobs_at_once,
                                      .most_waiting = (int)o->max_jobs,
                                      .cores = o->job_cores > 0 ? (int)o->job_cores : td_cores_usable(""),
                                      .gpus = strcmp(o->job_devices, "cpu") == 0 ? 1 : (int)o->job_gpus,
                                      .memory = o->job_memory,
                                      .file_bytes = o->upload_max_bytes,
                                      .quota_bytes = o->upload_quota,
                                      .flags = (const char *const *)flags->at};
    return td_jobs_open(&opts, out, err);
}

void td_job_flags_fini(struct td_job_flags *f)
{
    for (int i = 0; i < TD_MAX_JOB_FLAGS; i++) {
        td_free(f->at[i]);
        f->at[i] = NULL;
    }
}
