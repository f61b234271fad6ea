/* core/grad/jacobian.h - the gradients of every element of a target.
 *
 *   row r of the result = the gradient of element r: a backward pass seeded with 1 at r and 0 elsewhere
 *
 * The backward pass becomes a function of the seed and of the forward values that it reads, and one node (the
 * op with TD_ROLE_JACOBIAN) calls it for all elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_JACOBIAN_H
#define TD_CORE_GRAD_JACOBIAN_H

#include "core/grad/sources.h"

struct td_grad_jacobian_opts {
    struct td_value target;
    const char *what, *of; /* for errors: "jacobian", the target's name */
    const struct td_grad_sources *sources;
    int only;                    /* the one source that counts; -1: all */
    int64_t limit_bytes;         /* of all results together */
    const struct td_value *keep; /* values that must not be dropped when ir is sorted */
    int n_keep;
};

/* result[i]: of the target's shape followed by source i's; no node: nothing leads there. ir is in order, and
 * is not afterwards. */
TD_MUST enum td_code td_grad_jacobian(struct td_grad_context *ctx, struct td_ir *ir,
                                      const struct td_grad_jacobian_opts *o, struct td_value *result,
                                      struct td_err *err);

#endif
