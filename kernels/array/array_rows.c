/* kernels/array/array_rows.c - _Rows: rows [from, to) of axis 0, which share the bytes of the tensor they
 * are of.
 *
 * The compiler's: parts of weights, which have buffers of their own anyway, are not copied in each run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/graph.h"
#include "kernels/ops.h"

/* to: -1 is the end. */
static enum td_code bounds(const struct td_node *n, int64_t rows, int64_t *from, int64_t *to,
                           struct td_err *err)
{
    *from = td_attr_int(n, "from");
    *to = td_attr_int(n, "to");
    *to = *to < 0 ? rows : *to;
    TD_FAIL_IF(*from < 0 || *from > *to || *to > rows, err, INVALID_ARGUMENT,
               "%s: rows %lld to %lld are wanted of a tensor that has %lld", TD_NODE_STR(n), (long long)*from,
               (long long)*to, (long long)rows);
    return TD_OK;
}

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    int64_t from, to;
    if (c->in[0].rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(c->in[0].rank < 1, err, INVALID_ARGUMENT, "%s: a scalar has no rows", TD_NODE_STR(c->node));
    c->out[0] = c->in[0];
    if (c->in[0].dim[0] >= 0) {
        TD_TRY(bounds(c->node, c->in[0].dim[0], &from, &to, err));
        c->out[0].dim[0] = to - from;
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    int64_t from, to;
    struct td_tensor all, rows;
    TD_TRY(bounds(c->node, c->in[0]->shape.dim[0], &from, &to, err));
    TD_TRY(td_keep(c, 0, &all, err));
    td_tensor_rows(&rows, &all, from, to);
    td_tensor_clear(&all);
    td_out_move(c, 0, &rows);
    return TD_OK;
}

const struct td_op td_ops_array_rows[] = {
    {.name = "_Rows",
     .sig = "(x:T) -> (rows:T) {T:type; from:int=0; to:int=-1}",
     .flags = TD_OP_KEEPS | TD_OP_TOTAL,
     .infer = infer,
     .kernels = TD_KERNEL("rows.cpu", run),
     .grad_missing = "made by the compiler, after gradients"},
    {.name = NULL},
};
