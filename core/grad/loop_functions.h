/* core/grad/loop_functions.h - lifted TF1 loops (core/compile/loop.h) become While nodes that own functions
 * of the library, so that they are differentiated as those are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_LOOP_FUNCTIONS_H
#define TD_CORE_GRAD_LOOP_FUNCTIONS_H

#include "core/grad/backward.h"

/* Every loop of ir, and those inside them. The node keeps its outputs, the constants follow as further ones.
 * Loops that a variable enters by reference stay as they are. */
TD_MUST enum td_code td_loop_functions(struct td_grad_context *ctx, struct td_ir *ir, struct td_err *err);

#endif
