/* server/start_engine.h - the daemon's engine: ops and kernels of its own, of op libraries and of a device's
 * module, and what was learnt of their times.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_START_ENGINE_H
#define TD_SERVER_START_ENGINE_H

#include "core/run/engine.h"
#include "server/base/options.h"
#include "server/models/devices.h"

struct td_op_libraries;
struct td_started_engine {
    struct td_engine engine;
    struct td_op_libraries *op_libraries;
    struct td_devices *devices;
};

/* state_dir: "" is none. On an error what was started is there, for td_engine_stop. */
TD_MUST enum td_code td_engine_start(const struct td_options *o, const char *state_dir,
                                     struct td_started_engine *out, struct td_err *err);
/* Writes down what was learnt; no model may be left. Of a zeroed one too. */
void td_engine_stop(struct td_started_engine *e);

#endif
