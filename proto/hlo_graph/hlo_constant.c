/* proto/hlo_graph/hlo_constant.c - constants, counting along an axis, sizes of dimensions.
 *
 * A splat is kept as its one element, a count as a vector along its axis: parts
 * (proto/hlo_graph/hlo_frame.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_rules.h"

/* Bits, as MLIR packs booleans, become bytes. */
static void unpack_bits(const struct td_bytes *raw, unsigned char *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = (unsigned char)raw->p[i / 8] >> (i % 8) & 1;
    }
}

/* The attribute's elements as a tensor: one of rank 0 for a splat. */
static enum td_code read_dense(const struct td_hlo_attr *a, struct td_tensor *t, struct td_err *err)
{
    const struct td_shape scalar = td_shape_scalar();
    const struct td_shape *shape = a->splat ? &scalar : &a->type.shape;
    const int64_t n = td_shape_count(shape);
    const bool bits = a->type.dtype == TD_BOOL && !a->splat;
    size_t bytes = ((size_t)n + 7) / 8;
    if (n < 0 || (!bits && !td_size_mul((size_t)n, td_dtype_size(a->type.dtype), &bytes)) ||
        a->raw.len < bytes) {
        TD_FAIL(err, DATA_LOSS, "a StableHLO constant of shape %s has %zu bytes, wants %zu",
                TD_SHAPE_STR(shape), a->raw.len, bytes);
    }
    TD_TRY(td_tensor_new(t, a->type.dtype, shape, err));
    if (bits) {
        unpack_bits(&a->raw, t->data, n);
    } else if (a->type.dtype == TD_BOOL) {
        *(unsigned char *)t->data = a->raw.p[0] != 0;
    } else if (bytes > 0) {
        memcpy(t->data, a->raw.p, bytes);
    }
    return TD_OK;
}

static struct td_value emit_tensor(struct td_hlo_frame *f, const struct td_tensor *t)
{
    if (t->shape.rank == 0) {
        return td_emit_const(&f->e, t);
    }
    return td_emit(
        &f->e, "Const", TD_NO_INPUTS,
        TD_ATTRS({.name = "value", .kind = TD_ATTR_TENSOR, .n = 1, .tensor = (struct td_tensor *)t},
                 TD_ATTR_OF_TYPE("dtype", t->dtype)));
}

void td_hlo_constant(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const struct td_hlo_attr *a = td_hlo_attr(op, "value");
    struct td_tensor t;
    if (a == NULL || a->kind != TD_HLO_DENSE || a->type.unsupported != NULL || a->type.dtype == TD_STRING ||
        op->n_out != 1 || !td_shape_known(&a->type.shape)) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "its value is no dense tensor of a type that is supported");
        return;
    }
    if (f->e.rc || (f->e.rc = read_dense(a, &t, f->e.err)) != TD_OK) {
        return;
    }
    const struct td_value v = emit_tensor(f, &t);
    if (a->splat && td_hlo_shape(op->out[0])->rank > 0) {
        td_hlo_put_made(f, op, 0, &(struct td_hlo_made){.part = v});
    } else {
        td_hlo_put(f, op, 0, v);
    }
    td_tensor_clear(&t);
}

/* 0, 1, .. up to size, an int32, of the dtype. */
static struct td_value count_to(struct td_hlo_frame *f, struct td_value size, enum td_dtype dtype)
{
    const struct td_value all = td_hlo_3(f, "Range", td_hlo_i32(f, 0), size, td_hlo_i32(f, 1));
    return td_hlo_cast(f, all, dtype);
}

static void put_iota(struct td_hlo_frame *f, const struct td_hlo_op *op, struct td_value dims)
{
    const struct td_shape *s = td_hlo_shape(op->out[0]);
    const int64_t axis = td_hlo_int(op, "iota_dimension", 0);
    int64_t shape[TD_MAX_RANK];
    if (axis < 0 || axis >= s->rank) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "dimension %lld of rank %d", (long long)axis, s->rank);
        return;
    }
    const struct td_value size =
        s->dim[axis] >= 0 ? td_hlo_i32(f, s->dim[axis]) : td_hlo_pick(f, dims, (int)axis);
    struct td_value v = count_to(f, size, op->out[0]->type.dtype);
    const int rank = s->rank - (int)axis; /* axes of size 1 in front are implied */
    for (int i = 0; i < rank; i++) {
        shape[i] = i == 0 ? -1 : 1;
    }
    v = rank > 1 ? td_hlo_reshape(f, v, shape, rank) : v;
    struct td_hlo_made m = {.part = v, .dims = dims, .sure = 1u << axis, .rank = rank};
    for (int i = 0; i < s->rank; i++) {
        m.sure |= s->dim[i] == 1 ? 1u << i : 0;
    }
    td_hlo_put_made(f, op, 0, &m);
}

void td_hlo_iota(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    put_iota(f, op, td_no_value);
}

void td_hlo_dynamic_iota(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    put_iota(f, op, td_hlo_cast(f, td_hlo_in(f, op, 0), TD_INT32));
}

void td_hlo_get_dimension_size(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const int64_t axis = td_hlo_int(op, "dimension", -1);
    if (op->n_in != 1 || axis < 0 || axis >= td_hlo_shape(op->in[0])->rank) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "dimension %lld does not exist", (long long)axis);
        return;
    }
    (void)td_hlo_part(f, op->in[0]);
    if (f->e.rc == TD_OK) {
        td_hlo_put(f, op, 0, td_hlo_cast(f, td_hlo_dim(f, op->in[0], (int)axis), op->out[0]->type.dtype));
    }
}
