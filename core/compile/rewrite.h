/* core/compile/rewrite.h - runs the compiler's passes (core/compile/passes.def).
 *
 * Invariant (td_pass_check): a pass leaves the same outputs and the same effects.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_REWRITE_H
#define TD_CORE_COMPILE_REWRITE_H

#include "core/compile/ir.h"

/* Runs the passes that passes_off does not name, in rounds, and sorts. Handles always run: kernels rely on
 * them. */
TD_MUST enum td_code td_rewrite_run(struct td_ir *ir, struct td_model *m, const char *passes_off,
                                    struct td_err *err);
/* Whether the comma-separated list names the pass, or all of them. */
bool td_rewrite_is_off(const char *passes_off, const char *name);
/* INVALID_ARGUMENT names an entry of the list that is no pass, and those that are. */
TD_MUST enum td_code td_rewrite_check(const char *passes_off, struct td_err *err);

struct td_pass_info {
    const char *name, *what;
};
/* All passes in order; ends with a row whose name is NULL. */
const struct td_pass_info *td_rewrite_passes(void);

#endif
