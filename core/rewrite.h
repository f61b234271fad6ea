/* core/rewrite.h - the compiler's passes over an IR. Each keeps "Invariant: same outputs, same effects".
 *
 *   identity   values pass through Identity and its like
 *   handles    resource handles (variables, tables) become constants of the model version
 *   fold       pure nodes of constant inputs become constants
 *   cse        equal pure nodes of equal inputs become one
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_REWRITE_H
#define TD_CORE_REWRITE_H

#include "core/ir.h"

/* Runs the passes that passes_off does not name, in order, and sorts. Handles always run: kernels rely on them. */
TD_MUST enum td_code td_rewrite_run(struct td_ir *ir, struct td_model *m, const char *passes_off, struct td_err *err);
/* The names of all passes, NULL-terminated. */
const char *const *td_rewrite_names(void);
/* Whether control flow of TF1 (Switch, Merge) is in the graph, so that values may be dead. */
bool td_ir_has_switch(const struct td_ir *ir);

#endif
