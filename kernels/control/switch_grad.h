/* kernels/control/switch_grad.h - gradients of TF1's Switch and Merge, and values that may be dead.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_SWITCH_GRAD_H
#define TD_KERNELS_CONTROL_SWITCH_GRAD_H

#include "core/grad/split.h"

void td_switch_grad(struct td_grad *g);
void td_merge_grad(struct td_grad *g);

/* What a forward function gives to a backward one. A function cannot return a dead value, so that one which
 * may be dead is returned as something empty then, beside a bool that says so. */
struct td_handed {
    struct td_value *out, *in; /* what the forward function returns; the arguments of the backward one */
    int n;
    const struct td_value *kept;
    int n_kept;
    int *flag; /* by kept value: number of the bool; 0: it is always alive */
};

/* Fills h->out, and h->in for what is never dead. ir is in order, as td_grad_split left it; the arrays are
 * its arena's. Before the forward function is frozen. */
void td_handed_out(struct td_emitter *e, struct td_ir *ir, const struct td_grad_kept *kept,
                   struct td_handed *h);
/* Fills the rest of h->in, and makes the nodes of ir and the results read those. After that, and before the
 * backward function is frozen. */
void td_handed_in(struct td_emitter *e, struct td_ir *ir, struct td_handed *h, struct td_value *results,
                  int n_results);

/* Stands where a branch has nothing to give: read by nobody. */
struct td_value td_handed_nothing(struct td_emitter *e, enum td_dtype dtype);

#endif
