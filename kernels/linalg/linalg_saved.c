/* kernels/linalg/linalg_saved.c - ops on matrices that graphs of older TensorFlows carry. They become what
 * they stand for when a graph is loaded (core/graph/expand.h).
 *
 *   CholeskyGrad     l [.., n, n], dl  ->  the gradient of the matrix whose lower factor is l, symmetric
 *   SelfAdjointEig   a [.., n, n]      ->  [.., n + 1, n]: eigenvalues, and below them the vectors
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/expand.h"
#include "kernels/linalg/linalg_solve_grad.h"
#include "kernels/linalg/matrix_formula.h"
#include "kernels/ops.h"

/* Of both inputs the lower triangles count. */
static void expand_cholesky(struct td_emitter *e, struct td_node *n)
{
    td_f_become(e, n, td_cholesky_formula(e, td_f_lower(e, n->in[0]), td_f_lower(e, n->in[1])));
}

static void expand_eig(struct td_emitter *e, struct td_node *n)
{
    const struct td_value values = td_f_1(e, "SelfAdjointEigV2", n->in[0]);
    td_f_become(e, n, td_f_concat(e, TD_IN(td_f_expand(e, values, -2), td_f_port(values, 1)), -2));
}

#define ROW(opname, args, fn)                                                                                \
    {                                                                                                        \
        .name = opname, .sig = args " -> (output:T) {T:type}", .expand = fn,                                 \
        .kernels =                                                                                           \
            TD_KERNEL("linalg.expanded", td_expanded_run, {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)})       \
    }

const struct td_op td_ops_linalg_saved[] = {
    ROW("CholeskyGrad", "(l:T, grad:T)", expand_cholesky),
    ROW("BatchCholeskyGrad", "(l:T, grad:T)", expand_cholesky),
    ROW("SelfAdjointEig", "(input:T)", expand_eig),
    ROW("BatchSelfAdjointEig", "(input:T)", expand_eig),
    {.name = NULL},
};
