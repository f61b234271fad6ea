/* kernels/sparse/ragged_variant.c - RaggedTensorToVariant, RaggedTensorFromVariant,
 * RaggedTensorToVariantGradient.
 *
 * A variant holds one ragged tensor: its row splits and its values, counted references that nobody changes.
 * Batched encoding makes one variant a row, with one level of splits less (and plain values when there is
 * none left).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/control/ragged_value.h"
#include "kernels/ops.h"
#include "kernels/sparse/ragged_grad.h"

#include <string.h>

/* ------------------------------------------------------------------ RaggedTensorToVariant */

static enum td_code encode_infer(struct td_infer *c, struct td_err *err)
{
    int levels = (int)td_attr_int(c->node, "RAGGED_RANK");
    bool batched = td_attr_bool(c->node, "batched_input");
    TD_FAIL_IF(levels > TD_MAX_RANK - 1, err, INVALID_ARGUMENT, "%s: ragged rank %d, want at most %d",
               TD_NODE_STR(c->node), levels, TD_MAX_RANK - 1);
    for (int k = 0; k < levels; k++) {
        TD_TRY(td_infer_rank(c, k, 1, err));
        TD_FAIL_IF(c->in[k].rank == 1 && c->in[k].dim[0] == 0, err, INVALID_ARGUMENT,
                   "%s: rt_nested_splits[%d] is empty, want at least one value", TD_NODE_STR(c->node), k);
    }
    TD_TRY(levels || batched ? td_infer_min_rank(c, levels, 1, err) : TD_OK);
    const struct td_shape *rows = &c->in[0];
    c->out[0] = !batched
                    ? td_shape_scalar()
                    : td_shape_vector(rows->rank < 1 || rows->dim[0] < 0 ? -1 : rows->dim[0] - (levels > 0));
    return TD_OK;
}

static enum td_code check_splits(const struct td_call *c, int k, int64_t items, struct td_err *err)
{
    const struct td_tensor *s = c->in[k];
    int64_t n = td_tensor_count(s), last = td_tensor_int(s, 0);
    TD_FAIL_IF(last != 0, err, INVALID_ARGUMENT, "%s: Ragged splits must start with 0, got %lld",
               TD_NODE_STR(c->node), (long long)last);
    for (int64_t i = 1; i < n; i++) {
        int64_t v = td_tensor_int(s, i);
        TD_FAIL_IF(v < last || v > items, err, INVALID_ARGUMENT,
                   "%s: Ragged splits must be ascending and at most %lld, got %lld after %lld",
                   TD_NODE_STR(c->node), (long long)items, (long long)v, (long long)last);
        last = v;
    }
    return TD_OK;
}

/* Splits [from, to] of level k as a tensor of their own that starts with 0. */
static enum td_code part_of_splits(const struct td_tensor *s, int64_t from, int64_t to, struct td_tensor *out,
                                   struct td_err *err)
{
    struct td_shape shape = td_shape_vector(to - from + 1);
    TD_TRY(td_tensor_new(out, s->dtype, &shape, err));
    for (int64_t i = from; i <= to; i++) {
        td_tensor_set_int(out, i - from, td_tensor_int(s, i) - td_tensor_int(s, from));
    }
    return TD_OK;
}

static enum td_code part_of_values(const struct td_tensor *v, int64_t from, int64_t to, bool row,
                                   struct td_tensor *out, struct td_err *err)
{
    struct td_shape shape = v->shape;
    size_t size = td_dtype_size(v->dtype) * (size_t)td_shape_range(&shape, 1, shape.rank);
    shape.dim[0] = to - from;
    if (row) { /* one row of plain values, without its axis */
        shape.rank--;
        memmove(shape.dim, shape.dim + 1, (size_t)shape.rank * sizeof(shape.dim[0]));
    }
    TD_TRY(td_tensor_new(out, v->dtype, &shape, err));
    if (td_tensor_count(out) > 0) {
        td_elems_copy(v->dtype, out->data, (const char *)v->data + (size_t)from * size, td_tensor_count(out));
    }
    return TD_OK;
}

static enum td_code encode_row(struct td_call *c, int levels, int64_t i, struct td_ragged *r,
                               struct td_err *err)
{
    int64_t from = i, to = i + 1;
    for (int k = 0; k < levels; k++) {
        if (k > 0) {
            TD_TRY(part_of_splits(c->in[k], from, to, &r->splits[k - 1], err));
        }
        from = td_tensor_int(c->in[k], from);
        to = td_tensor_int(c->in[k], to);
    }
    return part_of_values(c->in[levels], from, to, levels == 0, &r->values, err);
}

static enum td_code encode_whole(struct td_call *c, int levels, struct td_tensor *y, struct td_err *err)
{
    struct td_ragged *r;
    TD_TRY(td_ragged_new(levels, &r, err));
    td_tensor_set_obj(y, 0, &r->obj);
    for (int k = 0; k < levels; k++) {
        TD_TRY(td_keep(c, k, &r->splits[k], err));
    }
    return td_keep(c, levels, &r->values, err);
}

static enum td_code encode_run(struct td_call *c, struct td_err *err)
{
    int levels = (int)td_attr_int(c->node, "RAGGED_RANK");
    struct td_tensor *y;
    const struct td_tensor *values = c->in[levels];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int k = 0; k < levels; k++) {
        TD_TRY(check_splits(c, k, k + 1 < levels ? td_tensor_count(c->in[k + 1]) - 1 : values->shape.dim[0],
                            err));
    }
    if (!td_attr_bool(c->node, "batched_input")) {
        return encode_whole(c, levels, y, err);
    }
    for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
        struct td_ragged *r;
        TD_TRY(td_ragged_new(levels > 0 ? levels - 1 : 0, &r, err));
        td_tensor_set_obj(y, i, &r->obj);
        TD_TRY(encode_row(c, levels, i, r, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ RaggedTensorFromVariant */

static enum td_code decode_infer(struct td_infer *c, struct td_err *err)
{
    int64_t in = td_attr_int(c->node, "input_ragged_rank"), out = td_attr_int(c->node, "output_ragged_rank");
    int rank = c->in[0].rank;
    TD_FAIL_IF(out < 0 || out > TD_MAX_RANK - 1, err, INVALID_ARGUMENT,
               "%s: output_ragged_rank %lld, want 0 to %d", TD_NODE_STR(c->node), (long long)out,
               TD_MAX_RANK - 1);
    TD_FAIL_IF(
        rank >= 0 && in == -1 && out < rank, err, INVALID_ARGUMENT,
        "%s: Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= 0, found "
        "output_ragged_rank: %lld, encoded_variant.dims(): %d, inferred input_ragged_rank: %lld",
        TD_NODE_STR(c->node), (long long)out, rank, (long long)out - rank);
    TD_FAIL_IF(rank >= 0 && in != -1 && in + rank != out, err, INVALID_ARGUMENT,
               "%s: output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
               "output_ragged_rank: "
               "%lld, input_ragged_rank: %lld, encoded_variant.dims(): %d",
               TD_NODE_STR(c->node), (long long)out, (long long)in, rank);
    for (int k = 0; k < c->n_out - 1; k++) {
        c->out[k] = td_shape_vector(-1);
    }
    return TD_OK;
}

/* The ragged tensors of all elements have `levels` levels and values of one dtype and inner shape. */
static enum td_code check_encoded(const struct td_call *c, int levels, struct td_shape *inner,
                                  struct td_err *err)
{
    enum td_dtype values = td_attr_type(c->node, "Tvalues"), splits = td_attr_type(c->node, "Tsplits");
    for (int64_t i = 0, n = td_tensor_count(c->in[0]); i < n; i++) {
        const struct td_ragged *r = (const struct td_ragged *)td_tensor_obj(c->in[0], i);
        TD_FAIL_IF(!r || r->obj.type != &td_ragged_type, err, INVALID_ARGUMENT,
                   "%s: Input Variant element at index %lld doesn't hold a RaggedTensorVariant",
                   TD_NODE_STR(c->node), (long long)i);
        TD_FAIL_IF(r->levels != levels, err, INVALID_ARGUMENT,
                   "%s: Encoded input RaggedTensorVariant has ragged_rank=%d. Expected ragged_rank=%d.",
                   TD_NODE_STR(c->node), r->levels, levels);
        TD_FAIL_IF(r->values.dtype != values, err, INVALID_ARGUMENT,
                   "%s: Expected values Tensor dtype: %s, found: %s", TD_NODE_STR(c->node),
                   td_dtype_name(values), td_dtype_name(r->values.dtype));
        TD_FAIL_IF(r->levels && r->splits[0].dtype != splits, err, INVALID_ARGUMENT,
                   "%s: Expected row_splits Tensor dtype: %s, found: %s", TD_NODE_STR(c->node),
                   td_dtype_name(splits), td_dtype_name(r->splits[0].dtype));
        TD_FAIL_IF(r->values.shape.rank < 1, err, INVALID_ARGUMENT,
                   "%s: Ragged values must have rank >= 1; encoded_ragged element %lld has values.shape: %s",
                   TD_NODE_STR(c->node), (long long)i, TD_SHAPE_STR(&r->values.shape));
        struct td_shape s = r->values.shape;
        s.dim[0] = -1;
        *inner = i == 0 ? s : *inner;
        TD_FAIL_IF(!td_shape_equal(&s, inner), err, INVALID_ARGUMENT,
                   "%s: All flat_values must have compatible shapes.  Shape at index 0: %s.  Shape at index "
                   "%lld: %s.",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(inner), (long long)i, TD_SHAPE_STR(&s));
    }
    return TD_OK;
}

static const struct td_ragged *element(const struct td_call *c, int64_t i)
{
    return (const struct td_ragged *)td_tensor_obj(c->in[0], i);
}

/* Rows of the outermost level of an element. */
static int64_t outer_rows(const struct td_ragged *r)
{
    return r->levels ? td_tensor_count(&r->splits[0]) - 1 : r->values.shape.dim[0];
}

/* Splits that the encoded tensor's own axes give: equal lengths, then the lengths of the elements. */
static enum td_code stack_outer(struct td_call *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0]->shape;
    struct td_tensor *out;
    for (int d = 0; d + 1 < s->rank; d++) {
        int64_t rows = td_shape_range(s, 0, d + 1);
        TD_TRY(td_out(c, d, &(struct td_shape){1, {rows + 1}}, &out, err));
        for (int64_t i = 0; i <= rows; i++) {
            td_tensor_set_int(out, i, i * s->dim[d + 1]);
        }
    }
    int64_t n = td_tensor_count(c->in[0]), sum = 0;
    TD_TRY(td_out(c, s->rank - 1, &(struct td_shape){1, {n + 1}}, &out, err));
    td_tensor_set_int(out, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        sum += outer_rows(element(c, i));
        td_tensor_set_int(out, i + 1, sum);
    }
    return TD_OK;
}

static enum td_code stack_level(struct td_call *c, int level, struct td_err *err)
{
    int64_t n = td_tensor_count(c->in[0]), rows = 0, at = 0, offset = 0;
    struct td_tensor *out;
    for (int64_t i = 0; i < n; i++) {
        rows += td_tensor_count(&element(c, i)->splits[level]) - 1;
    }
    TD_TRY(td_out(c, c->in[0]->shape.rank + level, &(struct td_shape){1, {rows + 1}}, &out, err));
    td_tensor_set_int(out, at++, 0);
    for (int64_t i = 0; i < n; i++) {
        const struct td_tensor *s = &element(c, i)->splits[level];
        int64_t count = td_tensor_count(s);
        for (int64_t k = 1; k < count; k++) {
            td_tensor_set_int(out, at++, offset + td_tensor_int(s, k));
        }
        offset += count > 0 ? td_tensor_int(s, count - 1) : 0;
    }
    return TD_OK;
}

static enum td_code stack_values(struct td_call *c, const struct td_shape *inner, struct td_err *err)
{
    int64_t n = td_tensor_count(c->in[0]), at = 0;
    struct td_shape shape = *inner;
    struct td_tensor *out;
    shape.dim[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        shape.dim[0] += element(c, i)->values.shape.dim[0];
    }
    TD_TRY(td_out(c, c->n_out - 1, &shape, &out, err));
    for (int64_t i = 0; i < n; i++) {
        const struct td_tensor *v = &element(c, i)->values;
        int64_t count = td_tensor_count(v);
        if (count > 0) {
            td_elems_copy(v->dtype, (char *)out->data + (size_t)at * td_dtype_size(v->dtype), v->data, count);
        }
        at += count;
    }
    return TD_OK;
}

static void give(struct td_call *c, int out, const struct td_tensor *t)
{
    struct td_tensor copy;
    td_tensor_ref(&copy, t);
    td_out_move(c, out, &copy);
}

static enum td_code decode_run(struct td_call *c, struct td_err *err)
{
    int levels = (int)td_attr_int(c->node, "output_ragged_rank") - c->in[0]->shape.rank;
    struct td_shape inner = td_shape_vector(-1);
    TD_FAIL_IF(levels < 0, err, INVALID_ARGUMENT,
               "%s: output_ragged_rank is less than the rank of encoded_ragged", TD_NODE_STR(c->node));
    TD_TRY(check_encoded(c, levels, &inner, err));
    if (c->in[0]->shape.rank == 0) {
        const struct td_ragged *r = element(c, 0);
        for (int k = 0; k < levels; k++) {
            give(c, k, &r->splits[k]);
        }
        give(c, levels, &r->values);
        return TD_OK;
    }
    TD_TRY(stack_outer(c, err));
    for (int level = 0; level < levels; level++) {
        TD_TRY(stack_level(c, level, err));
    }
    return stack_values(c, &inner, err);
}

/* ------------------------------------------------------------------ RaggedTensorToVariantGradient
 *
 * The values of all elements behind one another; an element that got no gradient counts as zeros of its row.
 */

static enum td_code grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 1, err));
    return td_infer_shape_value(c, 2, false, &c->out[0], err);
}

static enum td_code grad_count(const struct td_call *c, int64_t i, int64_t width, int64_t *n,
                               struct td_err *err)
{
    const struct td_ragged *r = element(c, i);
    if (!r) {
        TD_FAIL_IF(td_tensor_count(c->in[1]) < i + 2, err, INVALID_ARGUMENT,
                   "%s: %lld row_splits for %lld elements", TD_NODE_STR(c->node),
                   (long long)td_tensor_count(c->in[1]), (long long)td_tensor_count(c->in[0]));
        int64_t rows = td_tensor_int(c->in[1], i + 1) - td_tensor_int(c->in[1], i);
        TD_FAIL_IF(rows < 0 || !td_i64_mul(rows, width, n), err, INVALID_ARGUMENT,
                   "%s: row_splits must not decrease, row %lld has %lld items", TD_NODE_STR(c->node),
                   (long long)i, (long long)rows);
        return TD_OK;
    }
    TD_FAIL_IF(r->obj.type != &td_ragged_type || r->values.dtype != td_attr_type(c->node, "Tvalues"), err,
               INVALID_ARGUMENT, "%s: element %lld of encoded_ragged_grad is no RaggedTensorVariant of %s",
               TD_NODE_STR(c->node), (long long)i, td_dtype_name(td_attr_type(c->node, "Tvalues")));
    *n = td_tensor_count(&r->values);
    return TD_OK;
}

static enum td_code grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t total = td_tensor_count(y), at = 0, n = 0;
    int64_t width = y->shape.rank ? td_shape_range(&y->shape, 1, y->shape.rank) : 1;
    for (int64_t i = 0, count = td_tensor_count(c->in[0]); i < count; i++) {
        TD_TRY(grad_count(c, i, width, &n, err));
        TD_FAIL_IF(n > total - at, err, INVALID_ARGUMENT,
                   "%s: the elements hold more than dense_values_shape %s", TD_NODE_STR(c->node),
                   TD_SHAPE_STR(&y->shape));
        char *out = (char *)y->data + (size_t)at * td_dtype_size(y->dtype);
        if (n > 0 && element(c, i)) {
            td_elems_copy(y->dtype, out, element(c, i)->values.data, n);
        } else if (n > 0 && !td_dtype_is_object(y->dtype)) {
            memset(out, 0, (size_t)n * td_dtype_size(y->dtype));
        }
        at += n;
    }
    TD_FAIL_IF(at != total, err, INVALID_ARGUMENT,
               "%s: the elements hold %lld values, dense_values_shape %s wants %lld", TD_NODE_STR(c->node),
               (long long)at, TD_SHAPE_STR(&y->shape), (long long)total);
    return TD_OK;
}

#define VALUES (TD_SET_PLAIN | TD_BIT(TD_STRING))

const struct td_op td_ops_ragged_variant[] = {
    {.name = "RaggedTensorToVariant",
     .sig = "(rt_nested_splits:RAGGED_RANK*Tsplits, rt_dense_values:Tvalues) -> (encoded_ragged:variant) "
            "{RAGGED_RANK:int; Tvalues:type; Tsplits:type=int64; batched_input:bool}",
     .flags = TD_OP_KEEPS,
     .infer = encode_infer,
     .kernels = TD_KERNEL("ragged_variant.cpu", encode_run, {"Tvalues", VALUES}, {"Tsplits", TD_SET_INDEX}),
     .grad = td_ragged_to_variant_grad},
    {.name = "RaggedTensorFromVariant",
     .sig = "(encoded_ragged:variant) -> (output_nested_splits:output_ragged_rank*Tsplits, "
            "output_dense_values:Tvalues) {input_ragged_rank:int; output_ragged_rank:int; Tvalues:type; "
            "Tsplits:type=int64}",
     .infer = decode_infer,
     .kernels = TD_KERNEL("ragged_variant.cpu", decode_run, {"Tvalues", VALUES}, {"Tsplits", TD_SET_INDEX}),
     .grad = td_ragged_from_variant_grad},
    {.name = "RaggedTensorToVariantGradient",
     .sig = "(encoded_ragged_grad:variant, row_splits:Tsplits, dense_values_shape:int32) -> "
            "(dense_values_grad:Tvalues) {Tvalues:type; Tsplits:type=int64}",
     .host_in = 4,
     .infer = grad_infer,
     .kernels = TD_KERNEL("ragged_variant.cpu", grad_run, {"Tvalues", VALUES}, {"Tsplits", TD_SET_INDEX})},
    {.name = NULL},
};
