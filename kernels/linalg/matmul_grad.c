/* kernels/linalg/matmul_grad.c - gradients of matrix products: two products again.
 *
 *   Z = op(X) op(Y)         dX = dZ op(Y)^H, dY = op(X)^H dZ, each as it stands under its own op
 *
 * Which operand comes first, and how it is transposed, follows from the flags of the forward op, so that
 * nothing is transposed but by a product; row i of dX needs row i of dZ alone, which keeps the rows of a
 * batch apart. MatMul transposes without conjugating, so its operands are conjugated first; the batched ops
 * take adjoints themselves. Batch axes that an operand was repeated along are summed again. A single Y for a
 * whole batch gets one product over all rows instead of a product for each matrix and a sum.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/matmul_grad.h"

#include "kernels/formula/formula.h"

/* Products in dz's dtype, gradients in those of the inputs: SparseMatMul mixes bfloat16 and float. */
void td_matmul_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const bool tx = td_attr_bool(g->node, "transpose_a"), ty = td_attr_bool(g->node, "transpose_b");
    const struct td_value dz = td_grad_at(g, 0), x = td_grad_in(g, 0), y = td_grad_in(g, 1);
    if (td_grad_wants(g, 0)) {
        const struct td_value by = td_f_cast(e, td_f_conj(e, y), td_dtype_of(dz));
        const struct td_value dx = tx ? td_f_matmul(e, by, dz, ty, true) : td_f_matmul(e, dz, by, false, !ty);
        td_grad_give(g, 0, td_f_cast(e, dx, td_dtype_of(x)));
    }
    if (td_grad_wants(g, 1)) {
        const struct td_value by = td_f_cast(e, td_f_conj(e, x), td_dtype_of(dz));
        const struct td_value dy = ty ? td_f_matmul(e, dz, by, true, tx) : td_f_matmul(e, by, dz, !tx, false);
        td_grad_give(g, 1, td_f_cast(e, dy, td_dtype_of(y)));
    }
}

/* ------------------------------------------------------------------ batches of matrices */

/* x [.., k] as one matrix of all its rows. */
static struct td_value all_rows(struct td_emitter *e, struct td_value x)
{
    const struct td_value shape = td_f_shape(e, x);
    const struct td_value rows = td_emit(e, "Prod", TD_IN(td_f_but_last(e, shape, 1), td_f_ints(e, 0)),
                                         TD_ATTRS(TD_ATTR_OF_BOOL("keep_dims", true)));
    return td_f_reshape(e, x, td_f_concat(e, TD_IN(rows, td_f_last(e, shape, 1)), 0));
}

static struct td_value grad_x(struct td_grad *g, struct td_value dz, bool ax, bool ay)
{
    const struct td_value x = td_grad_in(g, 0), y = td_grad_in(g, 1);
    const struct td_value dx =
        ax ? td_f_batch_matmul(g->e, y, dz, ay, true) : td_f_batch_matmul(g->e, dz, y, false, !ay);
    return td_f_sum_to(g->e, dx, x);
}

static struct td_value grad_y(struct td_grad *g, struct td_value dz, bool ax, bool ay)
{
    struct td_emitter *e = g->e;
    struct td_value x = td_grad_in(g, 0);
    const struct td_value y = td_grad_in(g, 1);
    if (!ax && td_emit_shape(e, y)->rank == 2) {
        x = all_rows(e, x);
        dz = all_rows(e, dz);
    }
    const struct td_value dy =
        ay ? td_f_batch_matmul(e, dz, x, true, ax) : td_f_batch_matmul(e, x, dz, !ax, false);
    return td_f_sum_to(e, dy, y);
}

void td_batch_matmul_grad(struct td_grad *g)
{
    const bool ax = td_attr_bool(g->node, "adj_x"), ay = td_attr_bool(g->node, "adj_y");
    const struct td_value dz = td_grad_at(g, 0);
    if (td_grad_wants(g, 0)) {
        td_grad_give(g, 0, grad_x(g, dz, ax, ay));
    }
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, grad_y(g, dz, ax, ay));
    }
}
