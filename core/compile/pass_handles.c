/* core/compile/pass_handles.c - resource handles (variables, tables) become constants of the model version.
 *
 * A handle is the same at every run, so its node is evaluated when the function is compiled. Shape functions
 * then see the variable behind a read. Kernels rely on it: this pass has no switch.
 *
 * Invariant (td_literal_check): a handle names the same resource of the same model version as its node would
 * at run time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/passes.h"

enum td_code td_pass_handles(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    return td_pass_fold_nodes(ir, m, true, err);
}
