/* server/trace.h - trace settings of the Open Inference Protocol: for all models, and overrides for single
 * ones.
 *
 * trace_level TIMESTAMPS makes every trace_rate-th request of a model leave a line in the log, until
 * trace_count are written; there is no trace file, and TENSORS is refused. Like the log they are the
 * process's.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRACE_H
#define TD_SERVER_TRACE_H

#include <stdint.h>

#include "core/status.h"

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

typedef enum td_code td_trace_row_fn(void *ctx, const char *key, const char *value, struct td_err *err);
/* Every setting as it holds for that model, or for all. */
TD_MUST enum td_code td_trace_each(const char *model, td_trace_row_fn *fn, void *ctx, struct td_err *err);

/* Whether this request of the model leaves a line. Cheap while nothing is traced. */
bool td_trace_due(const char *model);

#endif
