/* kernels/array/inplace.c - InplaceUpdate, InplaceAdd, InplaceSub.
 *
 *     x [N, ..], i [K], v [K, ..]  ->  y = x with rows
 *     y[i[k]] = v[k]      y[i[k]] += v[k]      y[i[k]] -= v[k]        for k in order
 *
 * Row numbers are taken modulo N, negative ones too. In TensorFlow the rows of x itself change and y is x;
 * here x stays as it is for others who read it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/accumulate.h"
#include "kernels/cpu/array_types.h"
#include "kernels/ops.h"

static enum td_code rows_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *i = &c->in[1], *v = &c->in[2];
    TD_FAIL_IF(i->rank >= 0 && i->rank != 1, err, INVALID_ARGUMENT, "%s: i must be a vector. %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(i));
    c->out[0] = *x;
    if (x->rank < 0 || v->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(x->rank != v->rank, err, INVALID_ARGUMENT,
               "%s: x and v shape doesn't match (ranks differ): %s vs. %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(x), TD_SHAPE_STR(v));
    for (int k = 1; k < x->rank; k++) {
        TD_FAIL_IF(x->dim[k] >= 0 && v->dim[k] >= 0 && x->dim[k] != v->dim[k], err, INVALID_ARGUMENT,
                   "%s: x and v shape doesn't match at index %d : %lld vs. %lld", TD_NODE_STR(c->node), k,
                   (long long)x->dim[k], (long long)v->dim[k]);
    }
    TD_FAIL_IF(x->rank == 0, err, INVALID_ARGUMENT, "%s: x must have rows, but is a scalar",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(i->rank == 1 && i->dim[0] >= 0 && v->dim[0] >= 0 && i->dim[0] != v->dim[0], err,
               INVALID_ARGUMENT, "%s: i and x shape doesn't match at index 0: %lld vs. %lld",
               TD_NODE_STR(c->node), (long long)i->dim[0], (long long)v->dim[0]);
    return TD_OK;
}

/* Calls change(row of y, row of v) for all rows that v has. */
static enum td_code each_row(struct td_call *c,
                             void (*change)(enum td_dtype t, void *y, const void *v, int64_t n),
                             struct td_err *err)
{
    const struct td_tensor *x = c->in[0], *i = c->in[1], *v = c->in[2];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_elems_copy(y->dtype, y->data, x->data, td_tensor_count(x));
    if (td_tensor_count(x) == 0 || td_tensor_count(v) == 0) {
        return TD_OK;
    }
    int64_t rows = x->shape.dim[0], n = td_tensor_count(x) / rows;
    size_t bytes = (size_t)n * td_dtype_size(x->dtype);
    for (int64_t k = 0; k < td_tensor_count(i); k++) {
        int64_t row = (TD_DATA(i, int32_t)[k] % rows + rows) % rows;
        change(x->dtype, (char *)y->data + (size_t)row * bytes, (const char *)v->data + (size_t)k * bytes, n);
    }
    return TD_OK;
}

static enum td_code update_run(struct td_call *c, struct td_err *err)
{
    return each_row(c, td_elems_copy, err);
}

static void add_row(enum td_dtype t, void *y, const void *v, int64_t n)
{
    (void)td_accumulate(t, false, y, v, n); /* the kernel's types all add */
}

static void subtract_row(enum td_dtype t, void *y, const void *v, int64_t n)
{
    (void)td_accumulate(t, true, y, v, n);
}

static enum td_code add_run(struct td_call *c, struct td_err *err)
{
    return each_row(c, add_row, err);
}

static enum td_code subtract_run(struct td_call *c, struct td_err *err)
{
    return each_row(c, subtract_row, err);
}

#define ROW(op_name, fn, set)                                                                                \
    {                                                                                                        \
        .name = op_name, .sig = "(x:T, i:int32, v:T) -> (y:T) {T:type}", .infer = rows_infer,                \
        .kernels = TD_KERNEL("inplace.cpu", fn, {"T", set})                                                  \
    }

const struct td_op td_ops_inplace[] = {
    ROW("InplaceUpdate", update_run, TD_SET_COPYABLE),
    ROW("InplaceAdd", add_run, TD_SET_NUMBERS),
    ROW("InplaceSub", subtract_run, TD_SET_NUMBERS),
    {.name = NULL},
};
