/* kernels/nn/xla_ops.c - small ops of XLA's in graphs that other frameworks lowered (jax2tf).
 *
 *   XlaOptimizationBarrier, XlaSharding   what they are given
 *   XlaEinsum            Einsum
 *   XlaDynamicSlice      Slice from a place that is moved so that the slice lies within
 *   XlaPad               padding before, behind and between elements; negative before and behind: cut
 *   XlaReducePrecision   floats with fewer bits of exponent and mantissa
 *   XlaSort              the last axis in ascending order: -NaN, numbers, -0 before 0, NaN
 *
 * The first four become what they stand for when a graph is loaded (core/graph/expand.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/graph/expand.h"
#include "kernels/cpu/upcast.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ expanded */

static void expand_same(struct td_emitter *e, struct td_node *n)
{
    td_emit_again(e, n, td_op_find(e->ops, n->n_out == 1 ? "Identity" : "IdentityN"), n->in, n->n_in,
                  TD_NO_ATTRS);
}

static void expand_einsum(struct td_emitter *e, struct td_node *n)
{
    td_emit_again(e, n, td_op_find(e->ops, "Einsum"), n->in, 2,
                  TD_ATTRS(TD_ATTR_OF_TEXT("equation", td_attr_str(n, "equation"))));
}

static void expand_slice(struct td_emitter *e, struct td_node *n)
{
    const struct td_value x = n->in[0], size = n->in[2];
    const struct td_value most = td_f_sub(e, td_f_shape_as(e, x, td_dtype_of(size)), size);
    const struct td_value start =
        td_f_2(e, "Maximum", td_f_2(e, "Minimum", n->in[1], most), td_f_number(e, size, 0));
    td_emit_again(e, n, td_op_find(e->ops, "Slice"), TD_IN(x, start, size), TD_NO_ATTRS);
}

/* ------------------------------------------------------------------ padding */

/* What inputs 2 to 4 say of axis d. */
static enum td_code padded(const struct td_node *n, const struct td_tensor *const *by, int d, int64_t size,
                           int64_t *out, struct td_err *err)
{
    const int64_t low = td_tensor_int(by[0], d), high = td_tensor_int(by[1], d),
                  between = td_tensor_int(by[2], d);
    int64_t all = 0;
    TD_FAIL_IF(between < 0, err, INVALID_ARGUMENT, "%s: padding_interior must be non-negative, got %lld",
               TD_NODE_STR(n), (long long)between);
    const bool fits = td_i64_mul(size > 0 ? size - 1 : 0, between, &all) && td_i64_add(all, size, &all) &&
                      td_i64_add(all, low, &all) && td_i64_add(all, high, &all);
    TD_FAIL_IF(!fits || all < 0, err, INVALID_ARGUMENT,
               "%s: Padding result in negative size, or too large, for dimension %d", TD_NODE_STR(n), d);
    *out = all;
    return TD_OK;
}

static enum td_code pad_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    TD_TRY(td_infer_rank(c, 1, 0, err));
    for (int i = 2; i < 5; i++) {
        TD_TRY(td_infer_rank(c, i, 1, err));
        const int64_t n = c->in[i].rank == 1 ? c->in[i].dim[0] : -1;
        TD_FAIL_IF(n >= 0 && x->rank >= 0 && n != x->rank, err, INVALID_ARGUMENT,
                   "%s: input %d must have one element for each of the %d dimensions, has %lld",
                   TD_NODE_STR(c->node), i, x->rank, (long long)n);
    }
    if (x->rank < 0) {
        return TD_OK;
    }
    const bool known = c->value[2] != NULL && c->value[3] != NULL && c->value[4] != NULL;
    c->out[0] = td_shape_of_rank(x->rank);
    for (int d = 0; known && d < x->rank; d++) {
        if (x->dim[d] >= 0) {
            TD_TRY(padded(c->node, c->value + 2, d, x->dim[d], &c->out[0].dim[d], err));
        }
    }
    return TD_OK;
}

/* Copies what of x stays into y, along axis d and those behind it. */
static void pad_axis(const struct td_call *c, const struct td_tensor *y, int d, int64_t from, int64_t to)
{
    const struct td_tensor *x = c->in[0];
    const size_t size = td_dtype_size(x->dtype);
    if (d == x->shape.rank) {
        memcpy((char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)from * size, size);
        (void)td_work_spent(4);
        return;
    }
    const int64_t low = td_tensor_int(c->in[2], d), between = td_tensor_int(c->in[4], d);
    for (int64_t i = 0; i < x->shape.dim[d] && !td_work_cut; i++) {
        const int64_t at = low + i * between + i; /* one element may have any number behind it */
        if (at >= 0 && at < y->shape.dim[d]) {
            pad_axis(c, y, d + 1, from * x->shape.dim[d] + i, to * y->shape.dim[d] + at);
        }
    }
}

static enum td_code pad_run(struct td_call *c, struct td_err *err)
{
    const size_t size = td_dtype_size(c->in[0]->dtype);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !td_work_spent(1); i++) {
        memcpy((char *)y->data + (size_t)i * size, c->in[1]->data, size);
    }
    if (td_tensor_count(y) > 0 && td_tensor_count(c->in[0]) > 0) {
        pad_axis(c, y, 0, 0, 0);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ precision */

/* A float's bits with so many of the exponent and the mantissa, where it has `exponent` and `mantissa`:
 * rounded to even; too large for them: infinite; too small: zero. */
static uint64_t fewer(uint64_t bits, int mantissa, int exponent, int to_mantissa, int to_exponent)
{
    const uint64_t one = (uint64_t)1 << mantissa, sign = bits & (one << exponent);
    const uint64_t infinite = ((one << exponent) - 1) & ~(one - 1);
    uint64_t v = bits & ~(one << exponent);
    if (v > infinite) {
        return to_mantissa > 0 ? bits : sign | infinite; /* NaN */
    }
    if (to_mantissa < mantissa) {
        const int cut = mantissa - to_mantissa;
        v += (((uint64_t)1 << (cut - 1)) - 1) + ((v >> cut) & 1);
        v &= ~(((uint64_t)1 << cut) - 1);
    }
    if (to_exponent < exponent) {
        const uint64_t bias = ((uint64_t)1 << (exponent - 1)) - 1,
                       to_bias = ((uint64_t)1 << (to_exponent - 1)) - 1;
        const uint64_t e = v >> mantissa;
        v = e > bias + to_bias ? infinite : e <= bias - to_bias ? 0 : v;
    }
    return sign | v;
}

static enum td_code precision_infer(struct td_infer *c, struct td_err *err)
{
    const int64_t exponent = td_attr_int(c->node, "exponent_bits"),
                  mantissa = td_attr_int(c->node, "mantissa_bits");
    TD_FAIL_IF(exponent < 1 || mantissa < 0, err, INVALID_ARGUMENT,
               "%s: exponent_bits must be at least 1 and mantissa_bits at least 0: %lld and %lld",
               TD_NODE_STR(c->node), (long long)exponent, (long long)mantissa);
    return td_infer_same(c, err);
}

static enum td_code precision_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const size_t size = td_dtype_size(x->dtype);
    const int mantissa = x->dtype == TD_DOUBLE  ? 52
                         : x->dtype == TD_FLOAT ? 23
                         : x->dtype == TD_HALF  ? 10
                                                : 7;
    const int exponent = (int)size * 8 - 1 - mantissa;
    const int64_t most = 64, m = td_attr_int(c->node, "mantissa_bits"),
                  e = td_attr_int(c->node, "exponent_bits");
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(x); i < n; i++) {
        uint64_t bits = 0; /* little-endian */
        memcpy(&bits, (const char *)x->data + (size_t)i * size, size);
        bits = fewer(bits, mantissa, exponent, (int)(m < most ? m : most), (int)(e < most ? e : most));
        memcpy((char *)y->data + (size_t)i * size, &bits, size);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ order */

/* Floats in the order of these integers. */
#define TOTAL(v, U, bits) ((v) >> ((bits)-1) ? (U) ~(v) : (U)((v) | (U)1 << ((bits)-1)))
#define COMPARE(name, U, key)                                                                                \
    static int name(const void *a, const void *b)                                                            \
    {                                                                                                        \
        const U v = *(const U *)a, w = *(const U *)b, x = key(v), y = key(w);                                \
        return (x > y) - (x < y);                                                                            \
    }
#define SAME(v) (v)
#define SIGNED(U, bits, v) ((U)((v) ^ (U)1 << ((bits)-1)))
#define F16(v) TOTAL(v, uint16_t, 16)
#define F32(v) TOTAL(v, uint32_t, 32)
#define F64(v) TOTAL(v, uint64_t, 64)
#define I8(v) SIGNED(uint8_t, 8, v)
#define I16(v) SIGNED(uint16_t, 16, v)
#define I32(v) SIGNED(uint32_t, 32, v)
#define I64(v) SIGNED(uint64_t, 64, v)
COMPARE(by_u8, uint8_t, SAME)
COMPARE(by_u16, uint16_t, SAME)
COMPARE(by_u32, uint32_t, SAME)
COMPARE(by_u64, uint64_t, SAME)
COMPARE(by_i8, uint8_t, I8)
COMPARE(by_i16, uint16_t, I16)
COMPARE(by_i32, uint32_t, I32)
COMPARE(by_i64, uint64_t, I64)
COMPARE(by_f16, uint16_t, F16)
COMPARE(by_f32, uint32_t, F32)
COMPARE(by_f64, uint64_t, F64)

static const struct {
    enum td_dtype dtype;
    int (*compare)(const void *a, const void *b);
} orders[] = {
    {TD_FLOAT, by_f32},  {TD_DOUBLE, by_f64}, {TD_HALF, by_f16},  {TD_BFLOAT16, by_f16}, {TD_INT8, by_i8},
    {TD_INT16, by_i16},  {TD_INT32, by_i32},  {TD_INT64, by_i64}, {TD_UINT8, by_u8},     {TD_UINT16, by_u16},
    {TD_UINT32, by_u32}, {TD_UINT64, by_u64}, {TD_BOOL, by_u8},
};

static enum td_code sort_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_min_rank(c, 0, 1, err));
    return td_infer_same(c, err);
}

static enum td_code sort_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const size_t size = td_dtype_size(x->dtype);
    struct td_tensor *y;
    size_t k = 0;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    while (orders[k].dtype != x->dtype) {
        k++;
    }
    const int64_t count = td_tensor_count(x), n = count > 0 ? x->shape.dim[x->shape.rank - 1] : 0;
    td_elems_copy(x->dtype, y->data, x->data, count);
    for (int64_t at = 0; at < count; at += n) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        qsort((char *)y->data + (size_t)at * size, (size_t)n, size, orders[k].compare);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define EXPANDED(...) TD_KERNEL("xla.expanded", td_expanded_run, __VA_ARGS__)

const struct td_op td_ops_xla_ops[] = {
    {.name = "XlaOptimizationBarrier",
     .sig = "(input:T) -> (output:T) {T:list(type)}",
     .expand = expand_same,
     .kernels = EXPANDED({NULL, 0})},
    {.name = "XlaSharding",
     .sig = "(input:T) -> (output:T) {T:type; sharding:string=''; unspecified_dims:list(int)=[]}",
     .expand = expand_same,
     .kernels = EXPANDED({"T", TD_SET_ALL})},
    {.name = "XlaEinsum",
     .sig = "(a:T, b:T) -> (product:T) {equation:string; T:type}",
     .expand = expand_einsum,
     .kernels = EXPANDED({"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_BFLOAT16) | TD_BIT(TD_COMPLEX64)})},
    {.name = "XlaDynamicSlice",
     .sig = "(input:T, start_indices:Tindices, size_indices:Tindices) -> (output:T) {T:type; Tindices:type}",
     .expand = expand_slice,
     .kernels = EXPANDED({"T", TD_SET_PLAIN}, {"Tindices", TD_SET_INDEX})},
    {.name = "XlaPad",
     .sig = "(input:T, padding_value:T, padding_low:Tindices, padding_high:Tindices, "
            "padding_interior:Tindices) -> (output:T) {T:type; Tindices:type}",
     .host_in = 28,
     .infer = pad_infer,
     .kernels = TD_KERNEL("xla_pad.cpu", pad_run, {"T", TD_SET_PLAIN}, {"Tindices", TD_SET_INDEX})},
    {.name = "XlaReducePrecision",
     .sig = "(operand:T) -> (output:T) {T:type; exponent_bits:int; mantissa_bits:int}",
     .flags = TD_OP_ELEMENTWISE,
     .infer = precision_infer,
     .kernels = TD_KERNEL("xla_reduce_precision.cpu", precision_run, {"T", TD_SET_FLOATS})},
    {.name = "XlaSort",
     .sig = "(input:T) -> (output:T) {T:type}",
     .infer = sort_infer,
     .kernels = TD_KERNEL("xla_sort.cpu", sort_run, {"T", TD_SET_REALS | TD_BIT(TD_BOOL)})},
    {.name = NULL},
};
