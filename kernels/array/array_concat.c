/* kernels/array/array_concat.c - joining tensors along an axis and taking them apart.
 *
 *   Pack       N x [s]        -> [.., N, ..]        Unpack   the other way round
 *   ConcatV2   x_i [.., n_i, ..] -> [.., sum n_i, ..]   Concat: the axis is input 0; ParallelConcat: rows
 *   Split      x [.., n, ..]  -> num_split equal parts   SplitV: parts of given sizes, one of which may be -1
 *   ConcatOffset                  where each part of a concatenation starts
 *
 * Every part is one two-level copy: `outer` rows of a run of `chunk` elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/array/array_batchable.h"
#include "kernels/array/array_join_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

/* Copies a part of `chunk` elements a row between a dense part and rows of `pitch` elements of the whole. */
static void copy_part(enum td_dtype dtype, int64_t outer, int64_t chunk, void *dst, int64_t dst_pitch,
                      const void *src, int64_t src_pitch)
{
    struct td_strided w = {.rank = 0};
    td_strided_push(&w, outer, dst_pitch, src_pitch);
    td_strided_push(&w, chunk, 1, 1);
    td_strided_copy(dtype, &w, dst, src);
}

static void *element(const struct td_tensor *t, int64_t i)
{
    return t->data == NULL ? NULL : (char *)t->data + i * (int64_t)td_dtype_size(t->dtype);
}

/* ------------------------------------------------------------------ Pack, Unpack */

static enum td_code pack_infer(struct td_infer *c, struct td_err *err)
{
    struct td_shape part = td_shape_unknown();
    for (int i = 0; i < c->n_in; i++) {
        TD_FAIL_IF(!td_shape_compatible(&part, &c->in[i]), err, INVALID_ARGUMENT,
                   "%s: Shapes of all inputs must match: values[0].shape = %s != values[%d].shape = %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]), i, TD_SHAPE_STR(&c->in[i]));
        TD_TRY(td_shape_merge(&part, &c->in[i], &part, err));
    }
    if (part.rank < 0) {
        return TD_OK;
    }
    int axis;
    const int64_t asked = td_attr_int(c->node, "axis");
    TD_FAIL_IF(!td_shape_axis(part.rank + 1, asked, &axis), err, INVALID_ARGUMENT,
               "%s: axis = %lld not in [%d, %d)", TD_NODE_STR(c->node), (long long)asked, -part.rank - 1,
               part.rank + 1);
    TD_FAIL_IF(part.rank + 1 > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: result rank %d, the largest rank is %d", TD_NODE_STR(c->node), part.rank + 1,
               TD_MAX_RANK);
    c->out[0] = td_shape_of_rank(part.rank + 1);
    for (int i = 0; i <= part.rank; i++) {
        c->out[0].dim[i] = i == axis ? c->n_in : part.dim[i < axis ? i : i - 1];
    }
    return TD_OK;
}

static enum td_code pack_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    int axis;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0 || !td_shape_axis(y->shape.rank, td_attr_int(c->node, "axis"), &axis)) {
        return TD_OK;
    }
    const int64_t outer = td_shape_range(&y->shape, 0, axis);
    const int64_t chunk = td_shape_range(&y->shape, axis + 1, y->shape.rank);
    for (int i = 0; i < c->n_in; i++) {
        copy_part(y->dtype, outer, chunk, element(y, i * chunk), chunk * c->n_in, c->in[i]->data, chunk);
    }
    return TD_OK;
}

static enum td_code unpack_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *in = &c->in[0];
    const int64_t asked = td_attr_int(c->node, "axis");
    if (in->rank < 0) {
        return TD_OK;
    }
    int axis;
    TD_FAIL_IF(!td_shape_axis(in->rank, asked, &axis), err, INVALID_ARGUMENT,
               "%s: axis = %lld not in [%d, %d)", TD_NODE_STR(c->node), (long long)asked, -in->rank,
               in->rank);
    TD_FAIL_IF(in->dim[axis] >= 0 && in->dim[axis] != c->n_out, err, INVALID_ARGUMENT,
               "%s: Input shape axis %d must equal %d, got shape %s", TD_NODE_STR(c->node), axis, c->n_out,
               TD_SHAPE_STR(in));
    struct td_shape part = td_shape_of_rank(in->rank - 1);
    for (int i = 0; i < part.rank; i++) {
        part.dim[i] = in->dim[i < axis ? i : i + 1];
    }
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = part;
    }
    return TD_OK;
}

static enum td_code unpack_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    int axis = 0;
    if (!td_shape_axis(x->shape.rank, td_attr_int(c->node, "axis"), &axis)) {
        return TD_OK;
    }
    const int64_t outer = td_shape_range(&x->shape, 0, axis);
    const int64_t chunk = td_shape_range(&x->shape, axis + 1, x->shape.rank);
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, i, NULL, &y, err));
        copy_part(x->dtype, outer, chunk, y->data, chunk, element(x, i * chunk), chunk * c->n_out);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Concat, ConcatV2, ParallelConcat */

/* n inputs from `first` on, axis (when `known`) not yet checked. */
struct parts {
    int first, n;
    bool known;
    int64_t axis;
};

/* Rank that all parts share, -1 while none is known. */
static enum td_code common_rank(const struct td_infer *c, const struct parts *p, int *rank,
                                struct td_err *err)
{
    *rank = -1;
    for (int i = p->first; i < p->first + p->n; i++) {
        TD_FAIL_IF(*rank >= 0 && c->in[i].rank >= 0 && c->in[i].rank != *rank, err, INVALID_ARGUMENT,
                   "%s: ConcatOp : Ranks of all input tensors should match: shape[0] = %s vs. shape[%d] = %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[p->first]), i - p->first,
                   TD_SHAPE_STR(&c->in[i]));
        *rank = c->in[i].rank >= 0 ? c->in[i].rank : *rank;
    }
    return TD_OK;
}

static enum td_code join_shapes(const struct td_infer *c, const struct parts *p, int rank, int axis,
                                struct td_shape *out, struct td_err *err)
{
    struct td_shape rest = td_shape_unknown();
    int64_t sum = 0;
    for (int i = p->first; i < p->first + p->n; i++) {
        struct td_shape s = c->in[i].rank < 0 ? td_shape_of_rank(rank) : c->in[i];
        const int64_t along = s.dim[axis];
        s.dim[axis] = -1;
        TD_FAIL_IF(
            !td_shape_compatible(&rest, &s), err, INVALID_ARGUMENT,
            "%s: ConcatOp : Dimension along axis other than %d must match: inputs should have equal shapes "
            "there, but shape[0] = %s vs. shape[%d] = %s",
            TD_NODE_STR(c->node), axis, TD_SHAPE_STR(&c->in[p->first]), i - p->first,
            TD_SHAPE_STR(&c->in[i]));
        TD_TRY(td_shape_merge(&rest, &s, &rest, err));
        TD_FAIL_IF(sum >= 0 && along >= 0 && !td_i64_add(sum, along, &sum), err, INVALID_ARGUMENT,
                   "%s: the sizes along axis %d do not fit int64", TD_NODE_STR(c->node), axis);
        sum = along < 0 ? -1 : sum;
    }
    *out = rest;
    out->dim[axis] = sum;
    return TD_OK;
}

static enum td_code concat_shapes(struct td_infer *c, const struct parts *p, struct td_err *err)
{
    int rank, axis;
    TD_TRY(common_rank(c, p, &rank, err));
    if (rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(rank == 0, err, INVALID_ARGUMENT,
               "%s: ConcatOp : Can't concatenate scalars (use tf.stack instead)", TD_NODE_STR(c->node));
    if (!p->known) {
        c->out[0] = td_shape_of_rank(rank);
        return TD_OK;
    }
    TD_FAIL_IF(!td_shape_axis(rank, p->axis, &axis), err, INVALID_ARGUMENT,
               "%s: ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got %lld",
               TD_NODE_STR(c->node), -rank, rank, (long long)p->axis);
    return join_shapes(c, p, rank, axis, &c->out[0], err);
}

static enum td_code concat_infer(struct td_infer *c, struct td_err *err)
{
    struct parts p = {.first = 1, .n = c->n_in - 1};
    TD_TRY(td_infer_int_value(c, 0, &p.known, &p.axis, err));
    return concat_shapes(c, &p, err);
}

static enum td_code concat_v2_infer(struct td_infer *c, struct td_err *err)
{
    struct parts p = {.first = 0, .n = c->n_in - 1};
    TD_TRY(td_infer_int_value(c, c->n_in - 1, &p.known, &p.axis, err));
    return concat_shapes(c, &p, err);
}

static enum td_code parallel_concat_infer(struct td_infer *c, struct td_err *err)
{
    const struct parts p = {.first = 0, .n = c->n_in, .known = true, .axis = 0};
    for (int i = 0; i < c->n_in; i++) {
        TD_FAIL_IF(c->in[i].rank == 0 || (c->in[i].rank > 0 && c->in[i].dim[0] >= 0 && c->in[i].dim[0] != 1),
                   err, INVALID_ARGUMENT, "%s: Size of first dimension must be 1, input %d has shape %s",
                   TD_NODE_STR(c->node), i, TD_SHAPE_STR(&c->in[i]));
    }
    TD_TRY(concat_shapes(c, &p, err));
    const struct td_shape *want = td_attr_shape(c->node, "shape");
    TD_FAIL_IF(!td_shape_compatible(want, &c->out[0]), err, INVALID_ARGUMENT,
               "%s: attribute 'shape' is %s, the inputs make %s", TD_NODE_STR(c->node), TD_SHAPE_STR(want),
               TD_SHAPE_STR(&c->out[0]));
    return td_shape_merge(want, &c->out[0], &c->out[0], err);
}

static enum td_code concat_parts(struct td_call *c, int first, int n, int64_t asked, struct td_err *err)
{
    struct td_tensor *y;
    int axis;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0 || !td_shape_axis(y->shape.rank, asked, &axis)) {
        return TD_OK;
    }
    const int64_t outer = td_shape_range(&y->shape, 0, axis),
                  pitch = td_shape_range(&y->shape, axis, y->shape.rank);
    int64_t at = 0;
    for (int i = first; i < first + n; i++) {
        const int64_t chunk = td_shape_range(&c->in[i]->shape, axis, y->shape.rank);
        copy_part(y->dtype, outer, chunk, element(y, at), pitch, c->in[i]->data, chunk);
        at += chunk;
    }
    return TD_OK;
}

static enum td_code concat_run(struct td_call *c, struct td_err *err)
{
    return concat_parts(c, 1, c->n_in - 1, td_tensor_int(c->in[0], 0), err);
}

static enum td_code concat_v2_run(struct td_call *c, struct td_err *err)
{
    return concat_parts(c, 0, c->n_in - 1, td_tensor_int(c->in[c->n_in - 1], 0), err);
}

static enum td_code parallel_concat_run(struct td_call *c, struct td_err *err)
{
    return concat_parts(c, 0, c->n_in, 0, err);
}

/* ------------------------------------------------------------------ ConcatOffset */

static enum td_code concat_offset_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank > 0, err, INVALID_ARGUMENT,
               "%s: Concat dim tensor should be a scalar integer, but got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    TD_FAIL_IF(c->n_in < 2, err, INVALID_ARGUMENT, "%s: no shape given", TD_NODE_STR(c->node));
    for (int i = 1; i < c->n_in; i++) {
        TD_TRY(td_infer_rank(c, i, 1, err));
        c->out[i - 1] = c->in[i];
        const int64_t a = c->in[1].rank == 1 ? c->in[1].dim[0] : -1,
                      b = c->in[i].rank == 1 ? c->in[i].dim[0] : -1;
        TD_FAIL_IF(a >= 0 && b >= 0 && a != b, err, INVALID_ARGUMENT,
                   "%s: input %d should contain %lld elem(s), but has %lld", TD_NODE_STR(c->node), i - 1,
                   (long long)a, (long long)b);
    }
    return TD_OK;
}

/* Entry k of input i's shape must be that of input 0's, but on the axis. */
static enum td_code check_offsets(const struct td_call *c, int64_t rank, int64_t axis, struct td_err *err)
{
    for (int i = 2; i < c->n_in; i++) {
        for (int64_t k = 0; k < rank; k++) {
            const int64_t a = td_tensor_int(c->in[1], k), b = td_tensor_int(c->in[i], k);
            TD_FAIL_IF(
                k != axis && a != b, err, INVALID_ARGUMENT,
                "%s: All dimensions except %lld must match. Input %d has %lld in dimension %lld and doesn't "
                "match input 0 with %lld.",
                TD_NODE_STR(c->node), (long long)axis, i - 1, (long long)b, (long long)k, (long long)a);
        }
    }
    return TD_OK;
}

static enum td_code concat_offset_run(struct td_call *c, struct td_err *err)
{
    const int64_t rank = td_tensor_count(c->in[1]);
    int64_t axis = td_tensor_int(c->in[0], 0), at = 0;
    TD_FAIL_IF(axis < -rank || axis >= rank, err, INVALID_ARGUMENT,
               "%s: Concat dim is out of range: %lld vs. %lld", TD_NODE_STR(c->node), (long long)axis,
               (long long)rank);
    axis += axis < 0 ? rank : 0;
    TD_TRY(check_offsets(c, rank, axis, err));
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, i, NULL, &y, err));
        for (int64_t k = 0; k < rank; k++) {
            const int64_t v = k == axis ? at : 0;
            if (y->dtype == TD_INT64) {
                TD_DATA(y, int64_t)[k] = v;
            } else {
                TD_DATA(y, int32_t)[k] = (int32_t)v;
            }
        }
        TD_FAIL_IF(!td_i64_add(at, td_tensor_int(c->in[i + 1], axis), &at), err, INVALID_ARGUMENT,
                   "%s: the sizes along axis %lld do not fit int64", TD_NODE_STR(c->node), (long long)axis);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Split, SplitV */

/* The axis that input `at` names, checked against the rank of input `of`. *axis is -1 while not known. */
static enum td_code split_axis(const struct td_infer *c, int at, int of, int *axis, struct td_err *err)
{
    bool known;
    int64_t v;
    *axis = -1;
    TD_TRY(td_infer_int_value(c, at, &known, &v, err));
    const int rank = c->in[of].rank;
    TD_FAIL_IF(rank == 0, err, INVALID_ARGUMENT, "%s: cannot split a scalar", TD_NODE_STR(c->node));
    if (!known || rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(!td_shape_axis(rank, v, axis), err, INVALID_ARGUMENT,
               "%s: -input rank(-%d) <= split_dim < input rank (%d), but got %lld", TD_NODE_STR(c->node),
               rank, rank, (long long)v);
    return TD_OK;
}

static enum td_code split_infer(struct td_infer *c, struct td_err *err)
{
    int axis;
    TD_FAIL_IF(c->n_out == 0, err, INVALID_ARGUMENT, "%s: Number of splits should be > 0",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(c->in[0].rank > 0, err, INVALID_ARGUMENT, "%s: split_dim must be a scalar but has rank %d",
               TD_NODE_STR(c->node), c->in[0].rank);
    TD_TRY(split_axis(c, 0, 1, &axis, err));
    struct td_shape part = c->in[1].rank < 0 ? td_shape_unknown() : td_shape_of_rank(c->in[1].rank);
    if (axis >= 0) {
        const int64_t dim = c->in[1].dim[axis];
        TD_FAIL_IF(dim >= 0 && dim % c->n_out != 0, err, INVALID_ARGUMENT,
                   "%s: Number of ways to split should evenly divide the split dimension, but got split_dim "
                   "%d (size "
                   "= %lld) and num_split %d",
                   TD_NODE_STR(c->node), axis, (long long)dim, c->n_out);
        part = c->in[1];
        part.dim[axis] = dim < 0 ? -1 : dim / c->n_out;
    }
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = part;
    }
    return TD_OK;
}

/* Size of part i, -1 not replaced yet. */
static enum td_code split_size(const struct td_infer *c, int i, int64_t *v, struct td_err *err)
{
    *v = td_tensor_int(c->value[1], i);
    TD_FAIL_IF(*v < -1, err, INVALID_ARGUMENT, "%s: Split size at index %d must be >= 0. Got: %lld",
               TD_NODE_STR(c->node), i, (long long)*v);
    return TD_OK;
}

/* The size that -1 stands for, -1 when it cannot be told; checks the sum. */
static enum td_code split_rest(const struct td_infer *c, int64_t dim, int64_t *rest, struct td_err *err)
{
    int64_t sum = 0, v;
    int wild = -1;
    for (int i = 0; i < c->n_out; i++) {
        TD_TRY(split_size(c, i, &v, err));
        TD_FAIL_IF(v == -1 && wild >= 0, err, INVALID_ARGUMENT, "%s: There can only be one -1 in the input.",
                   TD_NODE_STR(c->node));
        wild = v == -1 ? i : wild;
        TD_FAIL_IF(v > 0 && !td_i64_add(sum, v, &sum), err, INVALID_ARGUMENT,
                   "%s: sum of the sizes overflows", TD_NODE_STR(c->node));
    }
    TD_FAIL_IF(
        dim >= 0 && (wild < 0 ? sum != dim : sum > dim), err, INVALID_ARGUMENT,
        "%s: Determined shape must either match input shape along split_dim exactly if fully specified, or "
        "be "
        "less than the size of the input along split_dim if not fully specified. Got: %lld, input has %lld",
        TD_NODE_STR(c->node), (long long)sum, (long long)dim);
    *rest = dim < 0 ? -1 : dim - sum;
    return TD_OK;
}

static enum td_code split_v_infer(struct td_infer *c, struct td_err *err)
{
    int axis;
    TD_FAIL_IF(c->n_out == 0, err, INVALID_ARGUMENT, "%s: Number of splits should be > 0",
               TD_NODE_STR(c->node));
    TD_TRY(td_infer_rank(c, 1, 1, err));
    TD_FAIL_IF(c->in[1].rank == 1 && c->in[1].dim[0] >= 0 && c->in[1].dim[0] != c->n_out, err,
               INVALID_ARGUMENT,
               "%s: size of the split_tensor must be 1-D and have the same elements as outputs got shape %s, "
               "want %d",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]), c->n_out);
    TD_TRY(split_axis(c, 2, 0, &axis, err));
    struct td_shape part = c->in[0].rank < 0 ? td_shape_unknown() : td_shape_of_rank(c->in[0].rank);
    int64_t rest = -1;
    if (axis >= 0) {
        part = c->in[0];
        part.dim[axis] = -1;
        if (c->value[1] != NULL) {
            TD_TRY(split_rest(c, c->in[0].dim[axis], &rest, err));
        }
    }
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = part;
        if (axis >= 0 && c->value[1] != NULL) {
            const int64_t v = td_tensor_int(c->value[1], i);
            c->out[i].dim[axis] = v == -1 ? rest : v;
        }
    }
    return TD_OK;
}

static enum td_code split_parts(struct td_call *c, const struct td_tensor *x, int64_t asked,
                                struct td_err *err)
{
    int axis = 0;
    if (!td_shape_axis(x->shape.rank, asked, &axis)) {
        return TD_OK;
    }
    const int64_t outer = td_shape_range(&x->shape, 0, axis),
                  pitch = td_shape_range(&x->shape, axis, x->shape.rank);
    int64_t at = 0;
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, i, NULL, &y, err));
        const int64_t chunk = td_shape_range(&y->shape, axis, y->shape.rank);
        copy_part(x->dtype, outer, chunk, y->data, chunk, element(x, at), pitch);
        at += chunk;
    }
    return TD_OK;
}

static enum td_code split_run(struct td_call *c, struct td_err *err)
{
    return split_parts(c, c->in[1], td_tensor_int(c->in[0], 0), err);
}

static enum td_code split_v_run(struct td_call *c, struct td_err *err)
{
    return split_parts(c, c->in[0], td_tensor_int(c->in[2], 0), err);
}

#define CONCAT_TYPES                                                                                         \
    {                                                                                                        \
        "T", TD_SET_COPYABLE | TD_SET_QUANTIZED                                                              \
    }
#define SPLIT_TYPES                                                                                          \
    {                                                                                                        \
        "T", TD_SET_ALL_TYPES | TD_BIT(TD_QUINT8)                                                            \
    }

/* ------------------------------------------------------------------ axes in another order */

static int concat_axis(const struct td_node *n)
{
    return n->op->permute->arg == 0 ? 0 : n->n_in - 1;
}

static struct td_permuted find_concat(const struct td_emitter *e, const struct td_node *n,
                                      const struct td_perm *p)
{
    const int axis = concat_axis(n);
    uint32_t axes;
    struct td_permuted permuted = {0, 1};
    for (int i = 0; i < n->n_in; i++) {
        permuted.in |= i == axis ? 0 : (uint64_t)1 << i;
        if (i != axis && td_rank_of(e, n->in[i]) != p->rank) {
            return td_permute_none;
        }
    }
    return td_permute_known_axes(n, axis, p->rank, &axes) && axes != 0 ? permuted : td_permute_none;
}

static void apply_concat(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    td_permute_axes(e, n, concat_axis(n), p);
}

static struct td_permuted find_split(const struct td_emitter *e, const struct td_node *n,
                                     const struct td_perm *p)
{
    const int axis = n->op->permute->arg, value = axis == 0 ? 1 : 0;
    uint32_t axes;
    if (td_rank_of(e, n->in[value]) != p->rank || !td_permute_known_axes(n, axis, p->rank, &axes) ||
        axes == 0) {
        return td_permute_none;
    }
    return (struct td_permuted){(uint64_t)1 << value, td_permute_all(n->n_out)};
}

static void apply_split(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    td_permute_axes(e, n, n->op->permute->arg, p);
}

/* arg: the input that holds the axis; -1: the last */
static const struct td_permute_rule permute_concat_axis_first = {
    .find = find_concat, .apply = apply_concat, .arg = 0};
static const struct td_permute_rule permute_concat_axis_last = {
    .find = find_concat, .apply = apply_concat, .arg = -1};
static const struct td_permute_rule permute_split = {.find = find_split, .apply = apply_split, .arg = 0};
static const struct td_permute_rule permute_split_sizes = {
    .find = find_split, .apply = apply_split, .arg = 2};

static bool offset_rows(struct td_batchable_step *s)
{
    return td_batchable_no(s, "its axis or its shapes are not followed");
}

const struct td_op td_ops_array_concat[] = {
    {.name = "Pack",
     .sig = "(values:N*T) -> (output:T) {N:int; T:type; axis:int=0}",
     .flags = TD_OP_TOTAL | TD_OP_BY_SHAPES,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_pack, 0, 0),
     .infer = pack_infer,
     .kernels = TD_KERNEL("pack.cpu", pack_run, {"T", TD_SET_ALL}),
     .grad = td_pack_grad},
    {.name = "Unpack",
     .sig = "(value:T) -> (output:num*T) {num:int; T:type; axis:int=0}",
     .flags = TD_OP_TOTAL | TD_OP_BY_SHAPES,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_unpack, 0, 0),
     .infer = unpack_infer,
     .kernels = TD_KERNEL("unpack.cpu", unpack_run, {"T", TD_SET_ALL_TYPES}),
     .grad = td_unpack_grad},
    {.name = "Concat",
     .sig = "(concat_dim:int32, values:N*T) -> (output:T) {N:int; T:type}",
     .flags = TD_OP_TOTAL,
     .permute = &permute_concat_axis_first,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_concat, 1, 0),
     .host_in = 1,
     .infer = concat_infer,
     .kernels = TD_KERNEL("concat.cpu", concat_run, CONCAT_TYPES),
     .grad = td_concat_grad},
    {.name = "ConcatV2",
     .sig = "(values:N*T, axis:Tidx) -> (output:T) {N:int; T:type; Tidx:type=int32}",
     .halves = TD_HALVES_KEEP,
     .flags = TD_OP_TOTAL,
     .permute = &permute_concat_axis_last,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_concat, 0, 1),
     .host_in = 2,
     .infer = concat_v2_infer,
     .kernels = TD_KERNEL("concat.cpu", concat_v2_run, CONCAT_TYPES, {"Tidx", TD_SET_INDEX}),
     .grad = td_concat_grad},
    {.name = "ParallelConcat",
     .sig = "(values:N*T) -> (output:T) {N:int; T:type; shape:shape}",
     .infer = parallel_concat_infer,
     .kernels = TD_KERNEL("concat.cpu", parallel_concat_run, {"T", TD_SET_COPYABLE})},
    {.name = "ConcatOffset",
     .sig = "(concat_dim:int32, shape:N*shape_type) -> (offset:N*shape_type) {N:int; shape_type:type=int32}",
     .batchable = TD_BATCHABLE(offset_rows, .sizes = td_batchable_concat_offset),
     .host_in = 3,
     .host_out = 1,
     .infer = concat_offset_infer,
     .kernels = TD_KERNEL("concat_offset.cpu", concat_offset_run, {"shape_type", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = "Split",
     .sig = "(split_dim:int32, value:T) -> (output:num_split*T) {num_split:int; T:type}",
     .flags = TD_OP_TOTAL,
     .permute = &permute_split,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_split, 1, 0),
     .host_in = 1,
     .infer = split_infer,
     .kernels = TD_KERNEL("split.cpu", split_run, SPLIT_TYPES),
     .grad = td_split_grad},
    {.name = "SplitV",
     .sig = "(value:T, size_splits:Tlen, split_dim:int32) -> (output:num_split*T) {num_split:int; T:type; "
            "Tlen:type=int64}",
     .flags = TD_OP_TOTAL,
     .permute = &permute_split_sizes,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_split, 0, 2),
     .host_in = 6,
     .infer = split_v_infer,
     .kernels = TD_KERNEL("split_v.cpu", split_v_run, SPLIT_TYPES, {"Tlen", TD_SET_INDEX | TD_BIT(TD_INT8)}),
     .grad = td_split_grad},
    {.name = NULL},
};
