/* server/base/trace.h - trace settings of the Open Inference Protocol: for all models, and overrides for
 * single ones.
 *
 * Every trace_rate-th request of a model is traced, until trace_count are. Levels TIMESTAMPS and TENSORS
 * (inputs and outputs) go to the file of --trace_file (server/base/trace_file.h); without one, TIMESTAMPS
 * leaves a line in the log and TENSORS is refused. Like the log the settings are the process's.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_TRACE_H
#define TD_SERVER_BASE_TRACE_H

#include <stdint.h>

#include "core/base/status.h"

#define TD_TRACE_MAX_MODELS 256 /* with settings of their own */

/* One change: key and its values; none: back to the default (of a model: to that of all). */
struct td_trace_change {
    const char *key;
    const char *const *value;
    int n;
};
/* Makes all of the changes or none. model "": for all models. INVALID_ARGUMENT; UNIMPLEMENTED for what cannot
 * be set here. */
TD_MUST enum td_code td_trace_set(const char *model, const struct td_trace_change *change, int n,
                                  struct td_err *err);

/* values: n of them, more than one only of trace_level. */
typedef enum td_code td_trace_row_fn(void *ctx, const char *key, const char *const *values, int n,
                                     struct td_err *err);
/* Every setting as it holds for that model, or for all. */
TD_MUST enum td_code td_trace_each(const char *model, td_trace_row_fn *fn, void *ctx, struct td_err *err);

/* What is to be traced of this request of the model: bits, 0 nothing. Cheap while nothing is traced. */
enum td_trace_level { TD_TRACE_TIMESTAMPS = 1, TD_TRACE_TENSORS = 2 };
int td_trace_due(const char *model);
int64_t td_trace_frequency(const char *model); /* log_frequency */

#endif
