/* server/start_engine.c - the flags as what modules and libraries are opened with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/start_engine.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/timings.h"
#include "kernels/ops.h"
#include "server/base/memory_limits.h"
#include "server/op_library.h"

static enum td_code start_devices(const struct td_options *o, const char *state_dir,
                                  struct td_started_engine *e, struct td_err *err)
{
    struct td_devices_opts opts = {.devices = o->devices,
                                   .module = o->device_module,
                                   .device = {.fraction = o->per_process_gpu_memory_fraction,
                                              .streams = (int)o->gpu_streams,
                                              .graph_run = (int)o->gpu_graph_run,
                                              .kept = state_dir[0] != '\0' ? state_dir : NULL,
                                              .tf32 = o->gpu_tf32}};
    TD_FAIL_IF(strchr(o->gpu_memory_limit, '%') != NULL, err, INVALID_ARGUMENT,
               "--gpu_memory_limit is '%.60s', want bytes: --per_process_gpu_memory_fraction is for shares",
               o->gpu_memory_limit);
    TD_TRY(td_memory_parse("gpu_memory_limit", o->gpu_memory_limit, 0, &opts.device.limit, err));
    TD_TRY(td_memory_parse("gpu_pinned_memory", o->gpu_pinned_memory, 0, &opts.device.pinned, err));
    if (o->sandbox && strcmp(o->devices, "cpu") != 0) { /* a driver wants more files than the sandbox opens */
        TD_FAIL_IF(strcmp(o->devices, "gpu") == 0, err, INVALID_ARGUMENT,
                   "--sandbox keeps a GPU's driver from its files: it goes with --devices=cpu, not gpu");
        opts.devices = "cpu";
        opts.why_not = "--sandbox keeps a GPU's driver from its files";
        td_log(TD_LOG_INFO, NULL, "models run on the CPU: %s", opts.why_not);
    }
    return td_devices_open(&opts, &e->engine, &e->devices, err);
}

/* Without them models start more slowly, that is all. */
static void keep_packed(const struct td_options *o, const char *state_dir)
{
    struct td_err err = {0};
    if (state_dir[0] != '\0' && td_kernels_keep_packed(state_dir, (uint64_t)o->packed_cache_bytes, &err)) {
        td_log(TD_LOG_WARNING, NULL, "packed weights are not kept for the next start: %s", err.msg);
    }
}

enum td_code td_engine_start(const struct td_options *o, const char *state_dir, struct td_started_engine *out,
                             struct td_err *err)
{
    TD_TRY(td_engine_init(&out->engine, td_op_families, err));
    TD_TRY(start_devices(o, state_dir, out, err));
    TD_TRY(td_op_libraries_open(o->op_library, &out->engine, &out->op_libraries, err));
    keep_packed(o, state_dir);
    if (o->kernel_trials_ms > 0) {
        char machine[TD_TIMING_NAME];
        td_kernels_machine(machine, sizeof machine);
        TD_TRY(td_timings_open(state_dir[0] != '\0' ? state_dir : NULL, machine, &out->engine.timings, err));
    }
    return TD_OK;
}

void td_engine_stop(struct td_started_engine *e)
{
    struct td_err unsaved = {0};
    if (e->engine.timings != NULL && td_timings_save(e->engine.timings, &unsaved)) {
        td_log(TD_LOG_WARNING, NULL, "%s", unsaved.msg);
    }
    td_kernels_keep_packed_no_more();
    td_engine_fini(&e->engine);
    td_op_libraries_close(e->op_libraries);
    td_devices_close(e->devices);
}
