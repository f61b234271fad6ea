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

static enum td_code start_devices(const struct td_options *o, struct td_started_engine *e, struct td_err *err)
{
    struct td_devices_opts opts = {
        .devices = o->devices,
        .module = o->device_module,
        .device = {.fraction = o->per_process_gpu_memory_fraction, .streams = (int)o->gpu_streams}};
    TD_FAIL_IF(strchr(o->gpu_memory_limit, '%') != NULL, err, INVALID_ARGUMENT,
               "--gpu_memory_limit is '%.60s', want bytes: --per_process_gpu_memory_fraction is for shares",
               o->gpu_memory_limit);
    TD_TRY(td_memory_parse("gpu_memory_limit", o->gpu_memory_limit, 0, &opts.device.limit, err));
    if (o->sandbox && strcmp(o->devices, "cpu") != 0) { /* a driver wants more files than the sandbox opens */
        TD_FAIL_IF(strcmp(o->devices, "gpu") == 0, err, INVALID_ARGUMENT,
                   "--sandbox keeps a GPU's driver from its files: it goes with --devices=cpu, not gpu");
        opts.devices = "cpu";
        td_log(TD_LOG_INFO, NULL, "models run on the CPU: --sandbox keeps a GPU's driver from its files");
    }
    return td_devices_open(&opts, &e->engine, &e->devices, err);
}

enum td_code td_engine_start(const struct td_options *o, const char *state_dir, struct td_started_engine *out,
                             struct td_err *err)
{
    TD_TRY(td_engine_init(&out->engine, td_op_families, err));
    TD_TRY(start_devices(o, out, err));
    TD_TRY(td_op_libraries_open(o->op_library, &out->engine, &out->op_libraries, err));
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
    td_engine_fini(&e->engine);
    td_op_libraries_close(e->op_libraries);
    td_devices_close(e->devices);
}
