/* proto/hlo_graph/hlo_compare.c - compare, select, clamp, convert.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_compare.h"

#include <math.h>

#include "proto/hlo_graph/hlo_rules.h"

/* A float's bits are its size behind a sign: those of negative numbers fall as the integer rises. */
struct td_value td_hlo_order_key(struct td_hlo_frame *f, struct td_value x)
{
    const enum td_dtype t = td_dtype_of(x);
    if (t == TD_BOOL) {
        return td_hlo_cast(f, x, TD_INT32);
    }
    if (!td_hlo_is_float(t)) {
        return x;
    }
    const bool wide = t == TD_DOUBLE;
    const enum td_dtype i = wide ? TD_INT64 : TD_INT32;
    const struct td_value bits = td_hlo_bits(f, wide ? x : td_hlo_cast(f, x, TD_FLOAT), i);
    const struct td_value negative = td_hlo_2(f, "RightShift", bits, td_emit_int(&f->e, i, wide ? 63 : 31));
    const struct td_value flip = td_hlo_2(f, "BitwiseAnd", negative, td_hlo_limit(f, i, false));
    return td_hlo_2(f, "BitwiseXor", bits, flip);
}

void td_hlo_compare(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    static const struct {
        const char *direction, *name;
    } rows[] = {{"EQ", "Equal"},   {"NE", "NotEqual"},  {"GE", "GreaterEqual"},
                {"GT", "Greater"}, {"LE", "LessEqual"}, {"LT", "Less"}};
    const char *name = NULL;
    struct td_value x[2];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        name = td_hlo_text_is(op, "comparison_direction", rows[i].direction) ? rows[i].name : name;
    }
    if (!td_hlo_parts(f, op, 2, x)) {
        return;
    }
    if (name == NULL) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "its comparison_direction is not known");
        return;
    }
    const bool equality = strcmp(name, "Equal") == 0 || strcmp(name, "NotEqual") == 0;
    const bool total = td_hlo_text_is(op, "compare_type", "TOTALORDER");
    if (total || (td_dtype_of(x[0]) == TD_BOOL && !equality)) {
        x[0] = td_hlo_order_key(f, x[0]);
        x[1] = td_hlo_order_key(f, x[1]);
    }
    td_hlo_put_like(f, op, 2, td_hlo_2(f, name, x[0], x[1]));
}

void td_hlo_select(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[3];
    if (td_hlo_parts(f, op, 3, x)) {
        td_hlo_put_like(f, op, 3, td_hlo_3(f, "SelectV2", x[0], x[1], x[2]));
    }
}

void td_hlo_clamp(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[3];
    if (td_hlo_parts(f, op, 3, x)) {
        td_hlo_put_like(f, op, 3, td_hlo_2(f, "Minimum", td_hlo_2(f, "Maximum", x[1], x[0]), x[2]));
    }
}

/* Floats as integers: what does not fit becomes the least or the most, a NaN 0. */
static struct td_value saturated(struct td_hlo_frame *f, struct td_value x, enum td_dtype to)
{
    x = td_dtype_size(td_dtype_of(x)) < 4 ? td_hlo_cast(f, x, TD_FLOAT) : x;
    const enum td_dtype from = td_dtype_of(x);
    const bool is_signed = !td_hlo_is_unsigned(to);
    const int bits = 8 * (int)td_dtype_size(to) - is_signed;
    const struct td_value end = td_hlo_number(f, from, ldexp(1, bits));
    const struct td_value least = td_hlo_number(f, from, is_signed ? -ldexp(1, bits) : 0);
    const struct td_value number = td_hlo_3(f, "SelectV2", td_hlo_1(f, "IsNan", x), td_hlo_zero(f, from), x);
    const struct td_value fits = td_hlo_cast(f, td_hlo_2(f, "Maximum", number, least), to);
    return td_hlo_3(f, "SelectV2", td_hlo_2(f, "GreaterEqual", x, end), td_hlo_limit(f, to, false), fits);
}

void td_hlo_convert(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (td_hlo_parts(f, op, 1, x)) {
        const enum td_dtype to = op->out[0]->type.dtype;
        const bool narrows = td_hlo_is_float(td_dtype_of(x[0])) && td_hlo_is_integer(to);
        td_hlo_put_like(f, op, 1, narrows ? saturated(f, x[0], to) : td_hlo_cast(f, x[0], to));
    }
}

void td_hlo_bitcast_convert(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const size_t from = op->n_in == 1 ? td_dtype_size(op->in[0]->type.dtype) : 0;
    if (from == 0 || op->n_out != 1 || op->in[0]->type.dtype == TD_BOOL) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "its operand has no bits to look at");
        return;
    }
    if (from == td_dtype_size(op->out[0]->type.dtype)) {
        td_hlo_put_like(f, op, 1, td_hlo_bits(f, td_hlo_part(f, op->in[0])->part, op->out[0]->type.dtype));
    } else {
        td_hlo_put(f, op, 0, td_hlo_bits(f, td_hlo_in(f, op, 0), op->out[0]->type.dtype));
    }
}
