/* kernels/math/math_sort_grad.c - gradients of what picks the largest along the last axis: they go back to
 * where those were.
 *
 *   _PutAlongLast(indices [..,k], values [..,k], n)  ->  output [..,n]
 *       output[..,indices[..,i]] = values[..,i], 0 elsewhere; the indices of a row differ from each other
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/math_sort_grad.h"

#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ gradients */

void td_top_k_grad(struct td_grad *g)
{
    const struct td_value n = td_f_element(g->e, td_f_shape(g->e, td_grad_in(g, 0)), -1);
    td_grad_give(g, 0, td_f_3(g->e, "_PutAlongLast", td_grad_out(g, 1), td_grad_at(g, 0), n));
}

/* x with the axis that was reduced as its last, or back where it was: the permutation undoes itself. */
static struct td_value reduced_last(struct td_grad *g, struct td_value x)
{
    struct td_emitter *e = g->e;
    const int64_t axis = td_attr_int(g->node, "reduction_dimension");
    if (axis == -1) {
        return x;
    }
    const struct td_value rank = td_f_rank(e, td_grad_in(g, 0)), last = td_f_sub(e, rank, td_f_int(e, 1));
    const struct td_value at = axis < 0 ? td_f_add(e, rank, td_f_int(e, axis)) : td_f_int(e, axis);
    const struct td_value order = td_f_range(e, td_f_int(e, 0), rank);
    const struct td_value swapped = td_f_where(e, td_f_2(e, "Equal", order, last), at, order);
    return td_f_transpose(e, x, td_f_where(e, td_f_2(e, "Equal", order, at), last, swapped));
}

void td_approx_top_k_grad(struct td_grad *g)
{
    const struct td_value n = td_f_element(g->e, td_f_shape(g->e, reduced_last(g, td_grad_in(g, 0))), -1);
    const struct td_value put = td_f_3(g->e, "_PutAlongLast", reduced_last(g, td_grad_out(g, 1)),
                                       reduced_last(g, td_grad_at(g, 0)), n);
    td_grad_give(g, 0, reduced_last(g, put));
}

/* Elements equal to the chosen one share its gradient. */
void td_nth_element_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value x = td_grad_in(g, 0);
    const struct td_value is = td_f_2(e, "Equal", td_f_expand(e, td_grad_out(g, 0), -1), x);
    const struct td_value chosen = td_f_cast(e, is, td_dtype_of(x));
    const struct td_value count = td_f_sum(e, chosen, td_f_ints(e, -1), true);
    td_grad_give(g, 0, td_f_mul(e, chosen, td_f_div(e, td_f_expand(e, td_grad_at(g, 0), -1), count)));
}

static void put_along_last_grad(struct td_grad *g)
{
    const struct td_value in[] = {td_grad_at(g, 0), td_grad_in(g, 0), td_f_int(g->e, -1)};
    td_grad_give(g, 1, td_emit(g->e, "GatherV2", in, 3, TD_ATTRS(TD_ATTR_OF_INT("batch_dims", -1))));
}

/* ------------------------------------------------------------------ _PutAlongLast */

static enum td_code put_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    int64_t n;
    TD_TRY(td_infer_min_rank(c, 0, 1, err));
    TD_TRY(td_infer_int_value(c, 2, &known, &n, err));
    TD_FAIL_IF(!td_shape_compatible(&c->in[0], &c->in[1]), err, INVALID_ARGUMENT,
               "%s: indices of shape %s for values of shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    c->out[0] = c->in[0].rank < 0 ? c->in[1] : c->in[0];
    if (c->out[0].rank > 0) {
        c->out[0].dim[c->out[0].rank - 1] = known ? n : -1;
    }
    return TD_OK;
}

static enum td_code put_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *indices = c->in[0], *values = c->in[1];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t k = indices->shape.dim[indices->shape.rank - 1], n = y->shape.dim[y->shape.rank - 1];
    const size_t size = td_dtype_size(y->dtype);
    const int64_t count = td_tensor_count(values);
    memset(y->data, 0, (size_t)td_tensor_count(y) * size);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = td_tensor_int(indices, i);
        TD_FAIL_IF(at < 0 || at >= n, err, INVALID_ARGUMENT, "%s: index %lld is not in [0, %lld)",
                   TD_NODE_STR(c->node), (long long)at, (long long)n);
        memcpy((char *)y->data + (size_t)(i / k * n + at) * size,
               (const char *)values->data + (size_t)i * size, size);
    }
    return TD_OK;
}

static bool rows_of_put(struct td_batchable_step *s)
{
    if (s->in[2].kind != TD_VALUE_CONST || !td_batchable_same_rows(s, 0, 1)) {
        return td_batchable_no(s, "its inputs 0 and 1 do not have the same rows");
    }
    const int axis = s->in[0].axis;
    return axis == s->in[1].axis && axis < td_batchable_rank(s, 0) - 1
               ? td_batchable_as_input(s, 0, 0, axis)
               : td_batchable_no(s, "it works along the axis of the rows");
}

const struct td_op td_ops_math_sort_grad[] = {
    {.name = "_PutAlongLast",
     .sig = "(indices:Tidx, values:T, n:int32) -> (output:T) {T:type; Tidx:type=int32}",
     .batchable = TD_BATCHABLE(rows_of_put),
     .host_in = 4,
     .infer = put_infer,
     .kernels =
         TD_KERNEL("math_sort.cpu", put_run, {"T", TD_SET_FLOATS}, {"Tidx", TD_SET_INDEX | TD_BIT(TD_INT16)}),
     .grad = put_along_last_grad},
    {.name = NULL},
};
