/* core/grad/recompute.h - forward values computed again for the backward pass, rather than kept: time for
 * memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_RECOMPUTE_H
#define TD_CORE_GRAD_RECOMPUTE_H

#include "core/grad/backward.h"

struct td_grad_recompute_opts {
    const struct td_value *targets; /* where the backward pass began */
    int n_targets;
    const struct td_value *results; /* those without a node are skipped */
    int n_results;
};

/* ir holds a forward part, which its fetches and roots need, and a backward part, which the results need
 * beyond that. Where the latter reads forward values, it comes to read copies of the nodes that make them,
 * which start from few values that are kept, when the backward pass gets there. Sorts ir; adds nodes. */
TD_MUST enum td_code td_grad_recompute(struct td_grad_context *ctx, struct td_ir *ir,
                                       const struct td_grad_recompute_opts *o, struct td_err *err);

#endif
