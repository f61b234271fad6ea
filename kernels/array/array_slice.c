/* kernels/array/array_slice.c - parts of tensors by begin and size, or by begin, end and stride.
 *
 *   Slice                    x, begin [r], size [r]       ->  x[begin : begin + size], size -1 is the rest
 *   StridedSlice             x, begin, end, strides [n]  ->  x[a:b:c, ..., newaxis, i] (slice_spec.h)
 *   StridedSliceGrad         dy put into zeros at the slice's place
 *   TensorStridedSliceUpdate x with `value` put at the slice's place
 *
 * Assigning to slices of variables is kernels/state/variable_scatter.c's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/array/array_batchable.h"
#include "kernels/array/array_slice_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/array/slice_copy.h"

/* ------------------------------------------------------------------ Slice */

/* Begin and size of one axis against its dim; -1 of any is not known. */
static enum td_code check_slice(const struct td_node *node, int axis, int64_t in, int64_t begin, int64_t size,
                                struct td_err *err)
{
    TD_FAIL_IF(begin < 0 || (in >= 0 && begin > in), err, INVALID_ARGUMENT,
               "%s: Expected begin[%d] in [0, %lld], but got %lld", TD_NODE_STR(node), axis, (long long)in,
               (long long)begin);
    TD_FAIL_IF(size < -1 || (in >= 0 && size > in - begin), err, INVALID_ARGUMENT,
               "%s: Expected size[%d] in [0, %lld], but got %lld", TD_NODE_STR(node), axis,
               (long long)(in - begin), (long long)size);
    return TD_OK;
}

static enum td_code slice_dim(const struct td_infer *c, int axis, int64_t *dim, struct td_err *err)
{
    const int64_t in = c->in[0].dim[axis];
    const int64_t size = c->value[2] != NULL ? td_tensor_int(c->value[2], axis) : -1;
    *dim = size >= 0 ? size : -1;
    if (c->value[1] == NULL || c->value[2] == NULL) {
        return TD_OK;
    }
    const int64_t begin = td_tensor_int(c->value[1], axis);
    TD_TRY(check_slice(c->node, axis, in, begin, size, err));
    *dim = size >= 0 ? size : in >= 0 ? in - begin : -1;
    return TD_OK;
}

static enum td_code slice_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 1, err));
    TD_TRY(td_infer_rank(c, 2, 1, err));
    int rank = c->in[0].rank;
    for (int i = 1; i <= 2; i++) {
        const int64_t n = c->in[i].rank == 1 ? c->in[i].dim[0] : -1;
        TD_FAIL_IF(
            n >= 0 && rank >= 0 && n != rank, err, INVALID_ARGUMENT,
            "%s: Expected begin and size arguments to be 1-D tensors of size %d, but got shapes %s and %s "
            "instead.",
            TD_NODE_STR(c->node), rank, TD_SHAPE_STR(&c->in[1]), TD_SHAPE_STR(&c->in[2]));
    }
    if (rank < 0) {
        return TD_OK;
    }
    c->out[0] = td_shape_of_rank(rank);
    for (int a = 0; a < rank; a++) {
        TD_TRY(slice_dim(c, a, &c->out[0].dim[a], err));
    }
    return TD_OK;
}

static enum td_code slice_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0], *begin = c->in[1];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t from[TD_MAX_RANK], to[TD_MAX_RANK], offset = 0;
    td_strided_row_major(&x->shape, from);
    td_strided_row_major(&y->shape, to);
    struct td_strided w = {0};
    for (int a = 0; a < x->shape.rank; a++) {
        /* The shape may have followed from a constant size alone: begin is looked at here. */
        TD_TRY(check_slice(c->node, a, x->shape.dim[a], td_tensor_int(begin, a), td_tensor_int(c->in[2], a),
                           err));
        td_strided_push(&w, y->shape.dim[a], to[a], from[a]);
        offset += td_tensor_int(begin, a) * from[a];
    }
    if (td_tensor_count(y) > 0) {
        td_strided_copy(x->dtype, &w, y->data,
                        (const char *)x->data + offset * (int64_t)td_dtype_size(x->dtype));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ StridedSlice and its inverse uses */

/* Spec of inputs first..first+2 against `in`. *known is false, and out untouched, while the rank or the
 * length is not known. */
static enum td_code infer_spec(const struct td_infer *c, const struct td_shape *in, int first, bool *known,
                               struct td_slice_spec *out, struct td_err *err)
{
    const struct td_shape *const vectors[3] = {&c->in[first], &c->in[first + 1], &c->in[first + 2]};
    int64_t n;
    TD_TRY(td_slice_spec_lengths(c->node, vectors, &n, err));
    *known = in->rank >= 0 && n >= 0;
    if (!*known) {
        return TD_OK;
    }
    const struct td_slice_bounds b = {n, c->value[first], c->value[first + 1], c->value[first + 2]};
    return td_slice_spec_make(c->node, in, &b, out, err);
}

static enum td_code call_spec(const struct td_call *c, const struct td_shape *in, int first,
                              struct td_slice_spec *out, struct td_err *err)
{
    const struct td_slice_bounds b = {c->in[first]->shape.dim[0], c->in[first], c->in[first + 1],
                                      c->in[first + 2]};
    return td_slice_spec_make(c->node, in, &b, out, err);
}

static enum td_code strided_slice_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    struct td_slice_spec s;
    TD_TRY(infer_spec(c, &c->in[0], 1, &known, &s, err));
    if (known) {
        c->out[0] = s.shape;
    }
    return TD_OK;
}

static enum td_code strided_slice_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_slice_spec s;
    struct td_tensor *y;
    TD_TRY(call_spec(c, &x->shape, 1, &s, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) > 0) {
        struct td_strided w;
        int64_t offset;
        td_slice_spec_read(&s, &x->shape, &w, &offset);
        td_strided_copy(x->dtype, &w, y->data,
                        (const char *)x->data + offset * (int64_t)td_dtype_size(x->dtype));
    }
    return TD_OK;
}

static enum td_code check_dy(const struct td_node *node, const struct td_slice_spec *s,
                             const struct td_shape *dy, struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(&s->shape, dy), err, INVALID_ARGUMENT,
               "%s: shape of dy was %s instead of %s", TD_NODE_STR(node), TD_SHAPE_STR(dy),
               TD_SHAPE_STR(&s->shape));
    return TD_OK;
}

static enum td_code strided_slice_grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_shape_value(c, 0, false, &c->out[0], err));
    bool known;
    struct td_slice_spec s;
    TD_TRY(infer_spec(c, &c->out[0], 1, &known, &s, err));
    return known ? check_dy(c->node, &s, &c->in[4], err) : TD_OK;
}

static enum td_code strided_slice_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_slice_spec s;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(call_spec(c, &y->shape, 1, &s, err));
    TD_TRY(check_dy(c->node, &s, &c->in[4]->shape, err));
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    td_slice_spec_put(&s, c->in[4], y);
    return TD_OK;
}

static enum td_code strided_update_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    struct td_slice_spec s;
    TD_TRY(infer_spec(c, &c->in[0], 1, &known, &s, err));
    if (known) {
        TD_TRY(td_slice_spec_assignable(c->node, &s, &c->in[4], err));
    }
    return td_infer_same(c, err);
}

static enum td_code strided_update_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    struct td_slice_spec s;
    TD_TRY(call_spec(c, &x->shape, 1, &s, err));
    TD_TRY(td_slice_spec_assignable(c->node, &s, &c->in[4]->shape, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) > 0) {
        td_elems_copy(x->dtype, y->data, x->data, td_tensor_count(x));
        td_slice_spec_put(&s, c->in[4], y);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ axes in another order */

/* Begins, ends and the like must be constants of a number an axis. */
static struct td_permuted find_slice(const struct td_emitter *e, const struct td_node *n,
                                     const struct td_perm *p)
{
    bool ok = td_rank_of(e, n->in[0]) == p->rank;
    for (int i = 1; ok && i < n->n_in; i++) {
        ok = td_permute_has_numbers(n, i, p->rank);
    }
    return ok ? td_permute_first : td_permute_none;
}

static void apply_slice(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    for (int i = 1; i < n->n_in; i++) {
        td_permute_numbers(e, n, i, p, 1);
    }
}

static struct td_permuted find_strided_slice(const struct td_emitter *e, const struct td_node *n,
                                             const struct td_perm *p)
{
    const bool plain = td_attr_int(n, "ellipsis_mask") == 0 && td_attr_int(n, "new_axis_mask") == 0 &&
                       td_attr_int(n, "shrink_axis_mask") == 0;
    return plain ? find_slice(e, n, p) : td_permute_none;
}

static void apply_strided_slice(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    apply_slice(e, n, p);
    td_permute_mask(e, n, "begin_mask", p);
    td_permute_mask(e, n, "end_mask", p);
}

static const struct td_permute_rule permute_slice = {.find = find_slice, .apply = apply_slice};
static const struct td_permute_rule permute_strided_slice = {.find = find_strided_slice,
                                                             .apply = apply_strided_slice};

/* ------------------------------------------------------------------ table */

#define SLICE_MASKS                                                                                          \
    "begin_mask:int=0; end_mask:int=0; ellipsis_mask:int=0; new_axis_mask:int=0; shrink_axis_mask:int=0"
#define SLICE_TYPES                                                                                          \
    {                                                                                                        \
        "T", TD_SET_ALL_TYPES | TD_SET_Q8_32                                                                 \
    }
#define SLICE_INDEX                                                                                          \
    {                                                                                                        \
        "Index", TD_SET_INDEX | TD_BIT(TD_INT16)                                                             \
    }

const struct td_op td_ops_array_slice[] = {
    {.name = "Slice",
     .sig = "(input:T, begin:Index, size:Index) -> (output:T) {T:type; Index:type}",
     .flags = TD_OP_TOTAL,
     .vectorize = td_many_slice,
     .permute = &permute_slice,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_slice, 0, 2),
     .host_in = 6,
     .infer = slice_infer,
     .kernels =
         TD_KERNEL("slice.cpu", slice_run, {"T", TD_SET_COPYABLE | TD_SET_Q8_32}, {"Index", TD_SET_INDEX}),
     .grad = td_slice_grad},
    {.name = "StridedSlice",
     .sig = "(input:T, begin:Index, end:Index, strides:Index) -> (output:T) {T:type; Index:type; " SLICE_MASKS
            "}",
     .flags = TD_OP_TOTAL,
     .permute = &permute_strided_slice,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_strided_slice, 0, 3),
     .host_in = 14,
     .infer = strided_slice_infer,
     .kernels = TD_KERNEL("strided_slice.cpu", strided_slice_run, SLICE_TYPES, SLICE_INDEX),
     .grad = td_strided_slice_grad},
    {.name = "StridedSliceGrad",
     .sig = "(shape:Index, begin:Index, end:Index, strides:Index, dy:T) -> (output:T) {T:type; "
            "Index:type; " SLICE_MASKS "}",
     .vectorize = td_many_strided_slice_grad,
     .batchable = TD_BATCHABLE(td_batchable_strided_slice_grad),
     .host_in = 15,
     .infer = strided_slice_grad_infer,
     .kernels = TD_KERNEL("strided_slice_grad.cpu", strided_slice_grad_run, SLICE_TYPES, SLICE_INDEX),
     .grad = td_strided_slice_grad_grad},
    {.name = "TensorStridedSliceUpdate",
     .sig = "(input:T, begin:Index, end:Index, strides:Index, value:T) -> (output:T) {T:type; "
            "Index:type; " SLICE_MASKS "}",
     .host_in = 14,
     .infer = strided_update_infer,
     .kernels = TD_KERNEL("tensor_strided_slice_update.cpu", strided_update_run, SLICE_TYPES, SLICE_INDEX),
     .grad = td_strided_slice_update_grad},
    {.name = NULL},
};
