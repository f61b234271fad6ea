/* kernels/control/branch_grad.h - gradients of the ops that run one function of several: If, Case, and calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_BRANCH_GRAD_H
#define TD_KERNELS_CONTROL_BRANCH_GRAD_H

#include "core/grad/body.h"

void td_if_grad(struct td_grad *g);
void td_case_grad(struct td_grad *g);
void td_call_grad(struct td_grad *g);

/* Zeros for a gradient of `dtype` at v, which may be a variable's handle or a list: of v's shape, and not
 * keeping v. */
struct td_value td_control_zeros(struct td_emitter *e, struct td_value v, enum td_dtype dtype);
/* Zeros for the wanted of n inputs from `from` on that are given none otherwise: what a function or a loop is
 * called with counts as connected. (The node, made again, may have more inputs by now.) */
void td_control_give_zeros(struct td_grad *g, int from, const bool *given, int n);

#endif
