/* proto/hlo_graph/hlo_frame.c - values and their parts, attributes, and the nodes that every rule needs.
 *
 * A part always broadcasts to its value; where all bits of `sure` are set and the ranks agree, it is the
 * value.
 *
 * Axes and lists come from the file: every one is held against the rank before it is used.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_frame.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/hlo_graph/hlo_rules.h"

#define MOST_NUMBER ((int64_t)1 << 40) /* in attributes: sums and small multiples of it do not overflow */

void td_hlo_fail(struct td_hlo_frame *f, enum td_code code, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    td_emit_fail(&f->e, code, "function '%s', stablehlo.%s: %s", f->fn->name,
                 f->op == NULL ? "func" : f->op->name, text);
}

void *td_hlo_room(struct td_hlo_frame *f, size_t n, size_t size)
{
    void *p = f->e.rc ? NULL : td_arena_alloc(f->w->scratch, n + 1, size);
    if (p == NULL && f->e.rc == TD_OK) {
        f->e.rc = td_no_memory(f->e.err, n * size, "a StableHLO module");
    }
    return p;
}

/* ------------------------------------------------------------------ values */

static uint32_t all_bits(int rank)
{
    return (1u << rank) - 1;
}

const struct td_shape *td_hlo_shape(const struct td_hlo_value *v)
{
    return &v->type.shape;
}

const struct td_hlo_made *td_hlo_part(struct td_hlo_frame *f, const struct td_hlo_value *v)
{
    struct td_hlo_made *m = &f->made[v->id];
    if (m->part.node == NULL && f->e.rc == TD_OK) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it uses a value that no operation before it makes");
    }
    return m;
}

bool td_hlo_parts(struct td_hlo_frame *f, const struct td_hlo_op *op, int n, struct td_value *out)
{
    if (op->n_in < n || op->n_out != 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants %d", op->n_in, n);
    }
    for (int i = 0; f->e.rc == TD_OK && i < n; i++) {
        out[i] = td_hlo_part(f, op->in[i])->part;
    }
    return f->e.rc == TD_OK;
}

static bool is_whole(const struct td_hlo_made *m, int rank)
{
    return m->sure == all_bits(rank) && (m->rank == rank || rank == 0);
}

struct td_value td_hlo_whole(struct td_hlo_frame *f, const struct td_hlo_value *v)
{
    struct td_hlo_made *m = (struct td_hlo_made *)td_hlo_part(f, v);
    if (f->e.rc) {
        return td_no_value;
    }
    if (m->whole.node == NULL) {
        const bool same = is_whole(m, td_hlo_shape(v)->rank);
        m->whole = same ? m->part : td_hlo_2(f, "BroadcastTo", m->part, td_hlo_dims(f, v));
    }
    return m->whole;
}

struct td_value td_hlo_in(struct td_hlo_frame *f, const struct td_hlo_op *op, int i)
{
    if (i >= op->n_in) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants more than %d", op->n_in, i);
        return td_no_value;
    }
    return td_hlo_whole(f, op->in[i]);
}

void td_hlo_put_made(struct td_hlo_frame *f, const struct td_hlo_op *op, int i,
                     const struct td_hlo_made *made)
{
    if (f->e.rc) {
        return;
    }
    if (i >= op->n_out || td_dtype_of(made->part) != op->out[i]->type.dtype) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "result %d is %s, and its type says %s", i,
                    td_dtype_name(td_dtype_of(made->part)),
                    i >= op->n_out ? "nothing" : td_dtype_name(op->out[i]->type.dtype));
        return;
    }
    if (made->rank > td_hlo_shape(op->out[i])->rank) { /* of a part, which is never longer than its value */
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "result %d has rank %d, and its type says %d", i, made->rank,
                    td_hlo_shape(op->out[i])->rank);
        return;
    }
    f->made[op->out[i]->id] = *made;
}

void td_hlo_put(struct td_hlo_frame *f, const struct td_hlo_op *op, int i, struct td_value v)
{
    if (f->e.rc || i >= op->n_out) {
        return;
    }
    const int rank = td_hlo_shape(op->out[i])->rank;
    td_hlo_put_made(f, op, i,
                    &(struct td_hlo_made){.part = v, .whole = v, .sure = all_bits(rank), .rank = rank});
}

void td_hlo_put_like(struct td_hlo_frame *f, const struct td_hlo_op *op, int n, struct td_value v)
{
    if (f->e.rc || op->n_out < 1) {
        return;
    }
    const int rank = td_hlo_shape(op->out[0])->rank;
    struct td_hlo_made m = {.part = v};
    for (int i = 0; i < n; i++) {
        const struct td_hlo_made *in = td_hlo_part(f, op->in[i]);
        if (td_hlo_shape(op->in[i])->rank != rank) {
            continue; /* a scalar among tensors: select's predicate, clamp's bounds */
        }
        m.sure |= in->sure;
        m.rank = in->rank > m.rank ? in->rank : m.rank;
        m.dims = m.dims.node == NULL ? in->dims : m.dims;
    }
    if (is_whole(&m, rank)) {
        m.whole = v;
    } else if (m.dims.node == NULL && !td_shape_known(td_hlo_shape(op->out[0]))) {
        m.dims = td_hlo_dims(f, op->in[n - 1]);
    }
    td_hlo_put_made(f, op, 0, &m);
}

struct td_value td_hlo_dims(struct td_hlo_frame *f, const struct td_hlo_value *v)
{
    const struct td_shape *s = td_hlo_shape(v);
    struct td_hlo_made *m = &f->made[v->id];
    if (td_shape_known(s)) {
        return td_hlo_i32s(f, s->dim, s->rank);
    }
    if (m->dims.node == NULL && m->part.node != NULL && is_whole(m, s->rank)) {
        m->dims = td_hlo_1(f, "Shape", m->part);
    }
    if (m->dims.node == NULL) {
        td_hlo_fail(f, TD_INTERNAL, "nothing tells the shape of an operand");
    }
    return m->dims;
}

struct td_value td_hlo_dim(struct td_hlo_frame *f, const struct td_hlo_value *v, int axis)
{
    const int64_t size = td_hlo_shape(v)->dim[axis];
    return size >= 0 ? td_hlo_i32(f, size) : td_hlo_pick(f, td_hlo_dims(f, v), axis);
}

void td_hlo_apply(struct td_hlo_frame *f, const struct td_hlo_block *b, const struct td_value *args,
                  int n_args, struct td_value *out, int n_out)
{
    if (b->n_args != n_args || b->n_ops == 0 || b->ops[b->n_ops - 1]->n_in != n_out) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "its body takes %d arguments, wants %d, and gives %d", b->n_args,
                    n_args, n_out);
    }
    for (int i = 0; f->e.rc == TD_OK && i < n_args; i++) {
        const struct td_hlo_type *t = &b->args[i]->type;
        if (t->kind != TD_HLO_TENSOR || t->shape.rank != 0 || t->dtype != td_dtype_of(args[i])) {
            td_hlo_fail(f, TD_INVALID_ARGUMENT, "argument %d of its body is no scalar of what it is given",
                        i);
            return;
        }
        f->made[b->args[i]->id] = (struct td_hlo_made){.part = args[i], .whole = args[i]};
    }
    const bool wide = f->wide;
    f->wide = true;
    td_hlo_block(f, b);
    f->wide = wide;
    const struct td_hlo_op *last = f->e.rc ? NULL : b->ops[b->n_ops - 1];
    for (int i = 0; last != NULL && i < last->n_in; i++) {
        out[i] = td_hlo_whole(f, last->in[i]);
    }
}

/* ------------------------------------------------------------------ attributes */

const struct td_hlo_attr *td_hlo_attr(const struct td_hlo_op *op, const char *name)
{
    return td_hlo_attr_find(op->attrs, op->n_attrs, name);
}

int64_t td_hlo_int(const struct td_hlo_op *op, const char *name, int64_t absent)
{
    const struct td_hlo_attr *a = td_hlo_attr(op, name);
    return a != NULL && (a->kind == TD_HLO_INT || a->kind == TD_HLO_BOOL) ? a->i : absent;
}

int64_t td_hlo_option(const struct td_hlo_op *op, const char *name, int64_t absent)
{
    static const char *const dictionaries[] = {"mhlo.attributes", "composite_attributes"};
    for (int i = 0; i < 2; i++) {
        const struct td_hlo_attr *d = td_hlo_attr(op, dictionaries[i]);
        const struct td_hlo_attr *a =
            d != NULL && d->kind == TD_HLO_DICT ? td_hlo_attr_find(d->items, d->n, name) : NULL;
        if (a != NULL) {
            return a->i;
        }
    }
    return td_hlo_int(op, name, absent);
}

bool td_hlo_text_is(const struct td_hlo_op *op, const char *name, const char *text)
{
    const struct td_hlo_attr *a = td_hlo_attr(op, name);
    return a != NULL && a->kind == TD_HLO_STRING && a->str.len == strlen(text) &&
           memcmp(a->str.p, text, a->str.len) == 0;
}

static int64_t dense_int(const struct td_hlo_attr *a, int64_t i)
{
    const size_t bytes = td_dtype_size(a->type.dtype);
    const size_t at = a->splat ? 0 : (size_t)i;
    int64_t v = 0;
    if (a->type.dtype == TD_BOOL) {
        if (a->splat) {
            return a->raw.len > 0 && a->raw.p[0] != 0;
        }
        return at / 8 < a->raw.len && ((unsigned char)a->raw.p[at / 8] >> (at % 8) & 1);
    }
    if (bytes == 0 || bytes > 8 || (at + 1) * bytes > a->raw.len) {
        return -1;
    }
    memcpy(&v, a->raw.p + at * bytes, bytes);
    return bytes == 4 ? (int32_t)v : v;
}

const int64_t *td_hlo_ints(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *name, int *n)
{
    const struct td_hlo_attr *a = td_hlo_attr(op, name);
    const int64_t count = a == NULL                 ? -1
                          : a->kind == TD_HLO_ARRAY ? a->n
                          : a->kind == TD_HLO_DENSE ? td_shape_count(&a->type.shape)
                                                    : -1;
    *n = -1;
    if (count < 0 || count > 4 * TD_MAX_RANK) {
        return NULL;
    }
    int64_t *v = td_hlo_room(f, (size_t)count, sizeof *v);
    for (int i = 0; v != NULL && i < count; i++) {
        v[i] = a->kind == TD_HLO_ARRAY ? a->items[i].i : dense_int(a, i);
        if (v[i] > MOST_NUMBER || v[i] < -MOST_NUMBER) {
            td_hlo_fail(f, TD_UNIMPLEMENTED, "%s has %lld", name, (long long)v[i]);
        }
    }
    *n = (int)count;
    return v;
}

const int64_t *td_hlo_ints_of(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *name, int n,
                              int64_t absent)
{
    int count;
    const int64_t *given = td_hlo_ints(f, op, name, &count);
    if (count == n) {
        return given;
    }
    if (count > 0) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "%s has %d numbers, wants %d", name, count, n);
    }
    int64_t *v = td_hlo_room(f, (size_t)n, sizeof *v);
    for (int i = 0; v != NULL && i < n; i++) {
        v[i] = absent;
    }
    return v;
}

const int64_t *td_hlo_axes(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *name, int rank,
                           int *n)
{
    const int64_t *v = td_hlo_ints(f, op, name, n);
    uint32_t seen = 0;
    for (int i = 0; v != NULL && i < *n; i++) {
        if (v[i] < 0 || v[i] >= rank || (seen >> v[i] & 1)) {
            td_hlo_fail(f, TD_INVALID_ARGUMENT, "%s has %lld, wants axes of rank %d, each once", name,
                        (long long)v[i], rank);
            return NULL;
        }
        seen |= 1u << v[i];
    }
    *n = *n < 0 ? 0 : *n;
    return v;
}

/* ------------------------------------------------------------------ nodes */

struct td_value td_hlo_1(struct td_hlo_frame *f, const char *op, struct td_value x)
{
    return td_emit(&f->e, op, TD_IN(x), TD_NO_ATTRS);
}

struct td_value td_hlo_2(struct td_hlo_frame *f, const char *op, struct td_value x, struct td_value y)
{
    return td_emit(&f->e, op, TD_IN(x, y), TD_NO_ATTRS);
}

struct td_value td_hlo_3(struct td_hlo_frame *f, const char *op, struct td_value x, struct td_value y,
                         struct td_value z)
{
    return td_emit(&f->e, op, TD_IN(x, y, z), TD_NO_ATTRS);
}

struct td_value td_hlo_i32(struct td_hlo_frame *f, int64_t v)
{
    if (v < INT32_MIN || v > INT32_MAX) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "size or index %lld does not fit 32 bits", (long long)v);
    }
    return td_emit_int(&f->e, TD_INT32, v);
}

struct td_value td_hlo_i32s(struct td_hlo_frame *f, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++) {
        if (v[i] < INT32_MIN || v[i] > INT32_MAX) {
            td_hlo_fail(f, TD_UNIMPLEMENTED, "size or index %lld does not fit 32 bits", (long long)v[i]);
        }
    }
    return td_emit_ints(&f->e, TD_INT32, v, n);
}

struct td_value td_hlo_cast(struct td_hlo_frame *f, struct td_value x, enum td_dtype to)
{
    return td_dtype_of(x) == to ? x : td_emit(&f->e, "Cast", TD_IN(x), TD_ATTRS(TD_ATTR_OF_TYPE("DstT", to)));
}

struct td_value td_hlo_bits(struct td_hlo_frame *f, struct td_value x, enum td_dtype to)
{
    return td_dtype_of(x) == to ? x
                                : td_emit(&f->e, "Bitcast", TD_IN(x), TD_ATTRS(TD_ATTR_OF_TYPE("type", to)));
}

struct td_value td_hlo_index(struct td_hlo_frame *f, struct td_value x)
{
    const enum td_dtype t = td_dtype_of(x);
    const bool is_signed = t == TD_INT64;
    if (is_signed || t == TD_UINT32 || t == TD_UINT64) {
        x = td_hlo_2(f, "Minimum", x, td_emit_int(&f->e, t, INT32_MAX));
        x = is_signed ? td_hlo_2(f, "Maximum", x, td_emit_int(&f->e, t, INT32_MIN)) : x;
    }
    return td_hlo_cast(f, x, TD_INT32);
}

struct td_value td_hlo_pick(struct td_hlo_frame *f, struct td_value vector, int i)
{
    const int64_t from = i, to = i + 1, step = 1;
    return td_emit(&f->e, "StridedSlice",
                   TD_IN(vector, td_hlo_i32s(f, &from, 1), td_hlo_i32s(f, &to, 1), td_hlo_i32s(f, &step, 1)),
                   TD_ATTRS(TD_ATTR_OF_INT("shrink_axis_mask", 1)));
}

struct td_value td_hlo_pack(struct td_hlo_frame *f, const struct td_value *v, int n, int axis)
{
    return td_emit(&f->e, "Pack", v, n, TD_ATTRS(TD_ATTR_OF_INT("axis", axis)));
}

struct td_value td_hlo_concat(struct td_hlo_frame *f, const struct td_value *v, int n, int axis)
{
    struct td_value *in = td_hlo_room(f, (size_t)n + 1, sizeof *in);
    if (in == NULL || n == 1) {
        return in == NULL ? td_no_value : v[0];
    }
    memcpy(in, v, (size_t)n * sizeof *in);
    in[n] = td_hlo_i32(f, axis);
    return td_emit(&f->e, "ConcatV2", in, n + 1, TD_ATTRS(TD_ATTR_OF_INT("N", n)));
}

struct td_value td_hlo_reshape(struct td_hlo_frame *f, struct td_value x, const int64_t *dims, int n)
{
    return td_hlo_2(f, "Reshape", x, td_hlo_i32s(f, dims, n));
}

struct td_value td_hlo_transpose(struct td_hlo_frame *f, struct td_value x, const int64_t *perm, int n)
{
    bool moves = false;
    for (int i = 0; i < n; i++) {
        moves |= perm[i] != i;
    }
    return moves ? td_hlo_2(f, "Transpose", x, td_hlo_i32s(f, perm, n)) : x;
}

struct td_value td_hlo_cut(struct td_hlo_frame *f, struct td_value x, int axis, int64_t from, int64_t to,
                           int64_t step)
{
    int64_t begin[TD_MAX_RANK] = {0}, end[TD_MAX_RANK] = {0}, steps[TD_MAX_RANK];
    const int64_t others = (1 << axis) - 1;
    for (int i = 0; i <= axis; i++) {
        steps[i] = i == axis ? step : 1;
    }
    begin[axis] = from;
    end[axis] = to;
    return td_emit(
        &f->e, "StridedSlice",
        TD_IN(x, td_hlo_i32s(f, begin, axis + 1), td_hlo_i32s(f, end, axis + 1),
              td_hlo_i32s(f, steps, axis + 1)),
        TD_ATTRS(TD_ATTR_OF_INT("begin_mask", others),
                 TD_ATTR_OF_INT("end_mask", others | (to == TD_HLO_TO_END ? (int64_t)1 << axis : 0))));
}

/* A scalar of the dtype with these bytes. */
static struct td_value scalar_of(struct td_hlo_frame *f, enum td_dtype dtype, const void *bytes)
{
    const struct td_shape shape = td_shape_scalar();
    struct td_tensor t;
    if (f->e.rc || (f->e.rc = td_tensor_new(&t, dtype, &shape, f->e.err)) != TD_OK) {
        return td_no_value;
    }
    memcpy(t.data, bytes, td_dtype_size(dtype));
    const struct td_value v = td_emit_const(&f->e, &t);
    td_tensor_clear(&t);
    return v;
}

struct td_value td_hlo_zero(struct td_hlo_frame *f, enum td_dtype dtype)
{
    return scalar_of(f, dtype, (const char[16]){0});
}

struct td_value td_hlo_number(struct td_hlo_frame *f, enum td_dtype dtype, double v)
{
    if (td_hlo_is_float(dtype)) {
        return td_emit_number(&f->e, dtype, v);
    }
    if (dtype == TD_BOOL) {
        return scalar_of(f, dtype, &(char){v != 0});
    }
    if (dtype == TD_COMPLEX64) {
        return scalar_of(f, dtype, (const float[2]){(float)v, 0});
    }
    if (dtype == TD_COMPLEX128) {
        return scalar_of(f, dtype, (const double[2]){v, 0});
    }
    return td_emit_int(&f->e, dtype, (int64_t)v);
}

struct td_value td_hlo_limit(struct td_hlo_frame *f, enum td_dtype dtype, bool least)
{
    const int bits = 8 * (int)td_dtype_size(dtype);
    if (td_hlo_is_float(dtype)) {
        return td_emit_number(&f->e, dtype, least ? -INFINITY : INFINITY);
    }
    if (dtype == TD_BOOL || td_hlo_is_complex(dtype)) {
        return td_hlo_number(f, dtype, least ? 0 : 1);
    }
    const uint64_t top = (uint64_t)1 << (bits - 1);
    const uint64_t v = td_hlo_is_unsigned(dtype) ? (least ? 0 : top | (top - 1))
                       : least                   ? ~(top - 1)
                                                 : top - 1;
    return td_emit_int(&f->e, dtype, (int64_t)v);
}
