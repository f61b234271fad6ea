/* core/run/engine.h - what all models of a process share: the table of ops, and what was learnt about time.
 *
 * The table of built-in ops is const. A module (a device's shared object, an --op_library) adds to an engine
 * before its first model is loaded: ops, and further kernels for ops that are there. What it adds is
 * borrowed, so it stays loaded as long as the engine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_ENGINE_H
#define TD_CORE_RUN_ENGINE_H

#include "core/graph/op.h"

struct td_timings;

struct td_engine {
    struct td_op_table *ops;    /* owned */
    struct td_timings *timings; /* owned; NULL: nothing is remembered */
};

/* families: of td_op_table_new. */
TD_MUST enum td_code td_engine_init(struct td_engine *e, const struct td_op *const *families,
                                    struct td_err *err);
void td_engine_fini(struct td_engine *e); /* of a zeroed one too */
TD_MUST enum td_code td_engine_add_ops(struct td_engine *e, const struct td_op *rows, struct td_err *err);
/* Kernel rows for the op of that name, ending with a row without a name. They are asked before those that the
 * op has (core/graph/kernel.h), the last added first. NOT_FOUND: there is no such op; INVALID_ARGUMENT: a row
 * without run, or too many. */
TD_MUST enum td_code td_engine_add_kernels(struct td_engine *e, const char *op, const struct td_kernel *rows,
                                           struct td_err *err);

#endif
