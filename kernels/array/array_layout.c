/* kernels/array/array_layout.c - the same elements in another order.
 *
 *   Transpose, ConjugateTranspose   y[i_perm] = x[i]       InvertPermutation   y[x[i]] = i
 *   Reverse, ReverseV2              chosen axes backwards  ReverseSequence   the first len[b] steps so
 *   Roll                            axes shifted round their ends
 *
 * All but the permutation's inverse are strided copies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/array/array_batchable.h"
#include "kernels/array/array_move_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

static void *element(const struct td_tensor *t, int64_t i)
{
    return t->data == NULL ? NULL : (char *)t->data + i * (int64_t)td_dtype_size(t->dtype);
}

/* ------------------------------------------------------------------ Transpose */

static enum td_code transpose_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 1, err));
    const int rank = c->in[0].rank;
    const int64_t n = c->in[1].rank == 1 ? c->in[1].dim[0] : -1;
    TD_FAIL_IF(rank >= 0 && n >= 0 && n != rank, err, INVALID_ARGUMENT,
               "%s: transpose expects a vector of size %d. But input(1) is a vector of size %lld",
               TD_NODE_STR(c->node), rank, (long long)n);
    if (rank < 0) {
        c->out[0] = n >= 0 && n <= TD_MAX_RANK ? td_shape_of_rank((int)n) : td_shape_unknown();
        return TD_OK;
    }
    c->out[0] = td_shape_of_rank(rank);
    uint32_t seen = 0;
    for (int i = 0; c->value[1] != NULL && i < rank; i++) {
        const int64_t asked = td_tensor_int(c->value[1], i);
        int from;
        TD_FAIL_IF(!td_shape_axis(rank, asked, &from), err, INVALID_ARGUMENT,
                   "%s: perm[%d] = %lld is out of range [0 .. %d)", TD_NODE_STR(c->node), i, (long long)asked,
                   rank);
        TD_FAIL_IF((seen >> from) & 1u, err, INVALID_ARGUMENT,
                   "%s: perm is no permutation: %d is in it twice, so another axis is missing",
                   TD_NODE_STR(c->node), from);
        seen |= 1u << from;
        c->out[0].dim[i] = c->in[0].dim[from];
    }
    return TD_OK;
}

static enum td_code transpose_into(struct td_call *c, struct td_tensor **out, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
    td_strided_row_major(&x->shape, from);
    td_strided_row_major(&y->shape, to);
    struct td_strided w = {.rank = 0};
    for (int i = 0; i < y->shape.rank; i++) {
        int axis = 0;
        if (!td_shape_axis(x->shape.rank, td_tensor_int(c->in[1], i), &axis)) {
            break; /* infer has seen to it */
        }
        td_strided_push(&w, y->shape.dim[i], to[i], from[axis]);
    }
    td_strided_copy(x->dtype, &w, y->data, x->data);
    *out = y;
    return TD_OK;
}

static enum td_code transpose_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    return transpose_into(c, &y, err);
}

static enum td_code conjugate_transpose_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(transpose_into(c, &y, err));
    const int64_t n = td_tensor_count(y);
    for (int64_t i = 0; y->dtype == TD_COMPLEX64 && i < n; i++) {
        TD_DATA(y, td_c64)[i].im = -TD_DATA(y, td_c64)[i].im;
    }
    for (int64_t i = 0; y->dtype == TD_COMPLEX128 && i < n; i++) {
        TD_DATA(y, td_c128)[i].im = -TD_DATA(y, td_c128)[i].im;
    }
    return TD_OK;
}

static enum td_code invert_permutation_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank >= 0 && c->in[0].rank != 1, err, INVALID_ARGUMENT,
               "%s: invert_permutation expects a 1D vector, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    c->out[0] = c->in[0].rank == 1 ? c->in[0] : td_shape_vector(-1);
    return TD_OK;
}

static enum td_code invert_permutation_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(x);
    const bool wide = x->dtype == TD_INT64;
    for (int64_t i = 0; i < n; i++) {
        if (wide) {
            TD_DATA(y, int64_t)[i] = -1;
        } else {
            TD_DATA(y, int32_t)[i] = -1;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = td_tensor_int(x, i);
        TD_FAIL_IF(at < 0 || at >= n, err, INVALID_ARGUMENT, "%s: %lld is not between 0 and %lld",
                   TD_NODE_STR(c->node), (long long)at, (long long)n);
        TD_FAIL_IF(td_tensor_int(y, at) != -1, err, INVALID_ARGUMENT, "%s: %lld is duplicated in the input.",
                   TD_NODE_STR(c->node), (long long)at);
        if (wide) {
            TD_DATA(y, int64_t)[at] = i;
        } else {
            TD_DATA(y, int32_t)[at] = (int32_t)i;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Reverse, ReverseV2 */

static enum td_code reverse_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 1, err));
    const int64_t n = c->in[1].rank == 1 ? c->in[1].dim[0] : -1;
    TD_FAIL_IF(
        c->in[0].rank >= 0 && n >= 0 && n != c->in[0].rank, err, INVALID_ARGUMENT,
        "%s: 'dims' must have the same number of values as 'input' has dimensions. 'input' has %d 'dims' has "
        "%lld values",
        TD_NODE_STR(c->node), c->in[0].rank, (long long)n);
    TD_FAIL_IF(c->in[0].rank > 0 && c->in[0].dim[0] == 0, err, INVALID_ARGUMENT,
               "%s: Invalid input first dimension. Found 0.", TD_NODE_STR(c->node));
    return td_infer_same(c, err);
}

static enum td_code reverse_v2_axes(const struct td_node *node, int rank, const struct td_tensor *axes,
                                    uint32_t *set, struct td_err *err)
{
    const int64_t n =
        rank == 0 ? 0 : td_tensor_count(axes); /* a scalar is its own reverse, whatever the axes */
    *set = 0;
    for (int64_t i = 0; i < n; i++) {
        int axis;
        const int64_t asked = td_tensor_int(axes, i);
        TD_FAIL_IF(!td_shape_axis(rank, asked, &axis), err, INVALID_ARGUMENT,
                   "%s: 'axis'[%lld] = %lld is out of valid range [0, %d", TD_NODE_STR(node), (long long)i,
                   (long long)asked, rank - 1);
        TD_FAIL_IF((*set >> axis) & 1u, err, INVALID_ARGUMENT, "%s: axis %d specified more than once.",
                   TD_NODE_STR(node), axis);
        *set |= 1u << axis;
    }
    return TD_OK;
}

static enum td_code reverse_v2_infer(struct td_infer *c, struct td_err *err)
{
    uint32_t set;
    TD_TRY(td_infer_rank(c, 1, 1, err));
    if (c->in[0].rank >= 0 && c->value[1] != NULL) {
        TD_TRY(reverse_v2_axes(c->node, c->in[0].rank, c->value[1], &set, err));
    }
    return td_infer_same(c, err);
}

/* Bit i of backwards: axis i is read from its end. */
static enum td_code reverse_axes(struct td_call *c, uint32_t backwards, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(x) == 0) {
        return TD_OK;
    }
    int64_t stride[TD_MAX_RANK], offset = 0;
    td_strided_row_major(&x->shape, stride);
    struct td_strided w = {.rank = 0};
    for (int i = 0; i < x->shape.rank; i++) {
        const bool back = (backwards >> i) & 1u;
        td_strided_push(&w, x->shape.dim[i], stride[i], back ? -stride[i] : stride[i]);
        offset += back ? (x->shape.dim[i] - 1) * stride[i] : 0;
    }
    td_strided_copy(x->dtype, &w, y->data, element(x, offset));
    return TD_OK;
}

static enum td_code reverse_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0]->shape;
    uint32_t set = 0;
    for (int i = 0; i < s->rank; i++) {
        set |= TD_DATA(c->in[1], const td_bool)[i] ? 1u << i : 0;
    }
    return reverse_axes(c, set, err);
}

static enum td_code reverse_v2_run(struct td_call *c, struct td_err *err)
{
    uint32_t set;
    TD_TRY(reverse_v2_axes(c->node, c->in[0]->shape.rank, c->in[1], &set, err));
    return reverse_axes(c, set, err);
}

/* ------------------------------------------------------------------ ReverseSequence */

static enum td_code reverse_sequence_infer(struct td_infer *c, struct td_err *err)
{
    const int64_t seq = td_attr_int(c->node, "seq_dim"), batch = td_attr_int(c->node, "batch_dim");
    const int rank = c->in[0].rank;
    TD_TRY(td_infer_rank(c, 1, 1, err));
    TD_FAIL_IF(seq == batch, err, INVALID_ARGUMENT, "%s: batch_dim == seq_dim == %lld", TD_NODE_STR(c->node),
               (long long)seq);
    TD_FAIL_IF(rank >= 0 && (seq < 0 || seq >= rank), err, INVALID_ARGUMENT,
               "%s: seq_dim must be >= 0 and < input rank (%lld vs. %d)", TD_NODE_STR(c->node),
               (long long)seq, rank);
    TD_FAIL_IF(rank >= 0 && (batch < 0 || batch >= rank), err, INVALID_ARGUMENT,
               "%s: batch_dim must be >= 0 and < input rank (%lld vs. %d)", TD_NODE_STR(c->node),
               (long long)batch, rank);
    const int64_t n = c->in[1].rank == 1 ? c->in[1].dim[0] : -1;
    TD_FAIL_IF(rank >= 0 && n >= 0 && c->in[0].dim[batch] >= 0 && c->in[0].dim[batch] != n, err,
               INVALID_ARGUMENT, "%s: Length of seq_lengths != input.dims(%lld), (%lld vs. %lld)",
               TD_NODE_STR(c->node), (long long)batch, (long long)n, (long long)c->in[0].dim[batch]);
    return td_infer_same(c, err);
}

static enum td_code reverse_sequence_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0], *lengths = c->in[1];
    const int64_t seq = td_attr_int(c->node, "seq_dim"), batch = td_attr_int(c->node, "batch_dim");
    const int64_t steps = x->shape.dim[seq], n = x->shape.dim[batch];
    struct td_tensor *y;
    for (int64_t b = 0; b < n; b++) {
        const int64_t length = td_tensor_int(lengths, b);
        TD_FAIL_IF(length < 0 || length > steps, err, INVALID_ARGUMENT,
                   "%s: seq_lens(%lld) = %lld must be >= 0 and <= input.dims(%lld) = %lld",
                   TD_NODE_STR(c->node), (long long)b, (long long)length, (long long)seq, (long long)steps);
    }
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(x) == 0) {
        return TD_OK;
    }
    int64_t stride[TD_MAX_RANK];
    td_strided_row_major(&x->shape, stride);
    struct td_strided w = {.rank = 0};
    for (int i = 0; i < x->shape.rank; i++) {
        td_strided_push(&w, i == batch ? 1 : x->shape.dim[i], stride[i], stride[i]);
    }
    for (int64_t b = 0; b < n; b++) {
        const int64_t length = td_tensor_int(lengths, b), at = b * stride[batch],
                      cut = at + length * stride[seq];
        w.dim[seq] = length;
        w.src[seq] = -stride[seq];
        td_strided_copy(x->dtype, &w, element(y, at), element(x, length > 0 ? cut - stride[seq] : at));
        w.dim[seq] = steps - length;
        w.src[seq] = stride[seq];
        if (length < steps) {
            td_strided_copy(x->dtype, &w, element(y, cut), element(x, cut));
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Roll */

/* Total shift of every axis, in [0, dim). */
static enum td_code roll_shifts(const struct td_node *node, const struct td_shape *s,
                                const struct td_tensor *shift, const struct td_tensor *axes, int64_t *by,
                                struct td_err *err)
{
    for (int i = 0; i < s->rank; i++) {
        by[i] = 0;
    }
    const int64_t n = td_tensor_count(axes);
    for (int64_t i = 0; i < n; i++) {
        int axis;
        TD_FAIL_IF(!td_shape_axis(s->rank, td_tensor_int(axes, i), &axis), err, INVALID_ARGUMENT,
                   "%s: axis %lld is out of range", TD_NODE_STR(node), (long long)td_tensor_int(axes, i));
        const int64_t dim = s->dim[axis];
        if (dim > 0) {
            const int64_t one = td_tensor_int(shift, i) % dim;
            by[axis] = (by[axis] + one + dim) % dim;
        }
    }
    return TD_OK;
}

static enum td_code roll_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank == 0, err, INVALID_ARGUMENT, "%s: input must be 1-D or higher",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(c->in[1].rank > 1, err, INVALID_ARGUMENT,
               "%s: shift must be a scalar or a 1-D vector. Found: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]));
    TD_FAIL_IF(c->in[2].rank > 1, err, INVALID_ARGUMENT,
               "%s: axis must be a scalar or a 1-D vector. Found: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[2]));
    TD_FAIL_IF(!td_shape_compatible(&c->in[1], &c->in[2]), err, INVALID_ARGUMENT,
               "%s: shift and axis must have the same size", TD_NODE_STR(c->node));
    int64_t by[TD_MAX_RANK];
    if (c->in[0].rank > 0 && c->value[1] != NULL && c->value[2] != NULL) {
        TD_TRY(roll_shifts(c->node, &c->in[0], c->value[1], c->value[2], by, err));
    }
    return td_infer_same(c, err);
}

/* One of the 2^k boxes that k rolled axes cut the tensor into: bit i of `wrapped` takes the tail of axis
 * i, which lands at its front. */
static void roll_box(const struct td_tensor *x, const int64_t *by, uint32_t wrapped, struct td_tensor *y)
{
    int64_t stride[TD_MAX_RANK], from = 0, to = 0;
    td_strided_row_major(&x->shape, stride);
    struct td_strided w = {.rank = 0};
    for (int i = 0; i < x->shape.rank; i++) {
        const bool tail = (wrapped >> i) & 1u;
        const int64_t head = x->shape.dim[i] - by[i];
        td_strided_push(&w, tail ? by[i] : head, stride[i], stride[i]);
        from += tail ? head * stride[i] : 0;
        to += tail ? 0 : by[i] * stride[i];
    }
    td_strided_copy(x->dtype, &w, element(y, to), element(x, from));
}

static enum td_code roll_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    int64_t by[TD_MAX_RANK];
    TD_TRY(roll_shifts(c->node, &x->shape, c->in[1], c->in[2], by, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(x) == 0) {
        return TD_OK;
    }
    uint32_t rolled = 0;
    for (int i = 0; i < x->shape.rank; i++) {
        rolled |= by[i] != 0 ? 1u << i : 0;
    }
    /* Every subset of the rolled axes, the empty one last. */
    for (uint32_t subset = rolled;; subset = (subset - 1) & rolled) {
        roll_box(x, by, subset, y);
        if (subset == 0) {
            return TD_OK;
        }
    }
}

/* Further members of the row follow. */
#define TRANSPOSE_ROW(op, kernel, fn, ...)                                                                   \
    {                                                                                                        \
        .name = op, .sig = "(x:T, perm:Tperm) -> (y:T) {T:type; Tperm:type=int32}", .flags = TD_OP_TOTAL,    \
        .batchable = TD_BATCHABLE_MOVES(td_batchable_transpose, 0, 1), .host_in = 2,                         \
        .infer = transpose_infer,                                                                            \
        .kernels = TD_KERNEL(kernel, fn, {"T", TD_SET_ALL_TYPES}, {"Tperm", TD_SET_INDEX}), __VA_ARGS__      \
    }

/* ------------------------------------------------------------------ cheaper forms */

/* The permutation of a Transpose when it is constant and the rank of what it permutes is known to fit. */
static bool is_sure(const struct td_emitter *e, const struct td_node *n, struct td_perm *p)
{
    return td_permute_is_transpose(e, n, p) && td_rank_of(e, n->in[0]) == p->rank;
}

/* x, which is to have as many axes as p. */
static struct td_value of_its_rank(struct td_emitter *e, struct td_value x, const struct td_perm *p)
{
    const struct td_shape shape = td_shape_of_rank(p->rank);
    const struct td_attr attr = {
        .name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = (struct td_shape *)&shape};
    return td_emit(e, "EnsureShape", &x, 1, &attr, 1);
}

/* Transpose of Transpose is one Transpose; one that moves nothing is what it reads, or, where that may have
 * another rank, which is an error, a look at it. */
static struct td_value simplify_transpose(struct td_emitter *e, const struct td_node *n)
{
    struct td_perm p, inner;
    if (!is_sure(e, n, &p)) {
        const bool still = td_permute_is_transpose(e, n, &p) && td_perm_is_identity(&p);
        return still && td_rank_of(e, n->in[0]) < 0 ? of_its_rank(e, n->in[0], &p) : td_no_value;
    }
    struct td_value x = n->in[0];
    const struct td_node *from = td_only_maker(x);
    const bool two = from != NULL && is_sure(e, from, &inner);
    if (two) {
        p = td_perm_then(&inner, &p);
        x = from->in[0];
    }
    if (td_perm_is_identity(&p)) {
        return x;
    }
    return two ? td_emit_transpose(e, x, &p) : td_no_value;
}

/* ------------------------------------------------------------------ batches */

static bool reverse_sequence_rows(struct td_batchable_step *s)
{
    if (!td_batchable_same_rows(s, 0, 1)) {
        return false;
    }
    return s->in[0].axis == td_attr_int(s->node, "batch_dim")
               ? td_batchable_as_input(s, 0, 0, s->in[0].axis)
               : td_batchable_no(s, "its lengths are not by row");
}

const struct td_op td_ops_array_layout[] = {
    TRANSPOSE_ROW("Transpose", "transpose.cpu", transpose_run, .role = TD_ROLE_TRANSPOSE,
                  .halves = TD_HALVES_KEEP, .simplify = simplify_transpose, .grad = td_transpose_grad,
                  .vectorize = td_many_transpose),
    TRANSPOSE_ROW("ConjugateTranspose", "conjugate_transpose.cpu", conjugate_transpose_run,
                  .grad = td_conjugate_transpose_grad),
    {.name = "InvertPermutation",
     .sig = "(x:T) -> (y:T) {T:type=int32}",
     .infer = invert_permutation_infer,
     .kernels = TD_KERNEL("invert_permutation.cpu", invert_permutation_run, {"T", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = "Reverse",
     .sig = "(tensor:T, dims:bool) -> (output:T) {T:type}",
     .host_in = 2,
     .infer = reverse_infer,
     .kernels = TD_KERNEL("reverse.cpu", reverse_run, {"T", TD_SET_COPYABLE}),
     .grad = td_reverse_grad},
    {.name = "ReverseV2",
     .sig = "(tensor:T, axis:Tidx) -> (output:T) {Tidx:type=int32; T:type}",
     .flags = TD_OP_TOTAL,
     .permute = &td_permute_along1,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_along, 0, 1),
     .host_in = 2,
     .infer = reverse_v2_infer,
     .kernels = TD_KERNEL("reverse.cpu", reverse_v2_run, {"T", TD_SET_COPYABLE}, {"Tidx", TD_SET_INDEX}),
     .grad = td_reverse_grad},
    {.name = "ReverseSequence",
     .sig =
         "(input:T, seq_lengths:Tlen) -> (output:T) {seq_dim:int; batch_dim:int=0; T:type; Tlen:type=int64}",
     .batchable = TD_BATCHABLE(reverse_sequence_rows),
     .infer = reverse_sequence_infer,
     .kernels = TD_KERNEL("reverse_sequence.cpu", reverse_sequence_run, {"T", TD_SET_COPYABLE},
                          {"Tlen", TD_SET_INDEX}),
     .grad = td_reverse_sequence_grad},
    {.name = "Roll",
     .sig = "(input:T, shift:Tshift, axis:Taxis) -> (output:T) {T:type; Tshift:type; Taxis:type}",
     .permute = &td_permute_along2,
     .batchable = TD_BATCHABLE(td_batchable_along),
     .host_in = 6,
     .infer = roll_infer,
     .kernels = TD_KERNEL("roll.cpu", roll_run, {"T", TD_SET_ALL_TYPES}, {"Tshift", TD_SET_INDEX},
                          {"Taxis", TD_SET_INDEX}),
     .grad = td_roll_grad},
    {.name = NULL},
};
