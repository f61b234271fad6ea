/* proto/hlo_graph/hlo_elementwise.c - arithmetic element by element.
 *
 * Most is an op of TensorFlow's, named by the rule's row. Where StableHLO defines what TensorFlow's op
 * refuses or does otherwise, the difference is made of further nodes, which a constant operand makes
 * unnecessary: a shift by as many bits as there are or more, a division of integers by zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_rules.h"
#include "proto/hlo_graph/hlo_softmax.h"

void td_hlo_plain1(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (td_hlo_parts(f, op, 1, x)) {
        td_hlo_put_like(f, op, 1, td_hlo_1(f, f->as, x[0]));
    }
}

void td_hlo_plain2(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[2];
    if (td_hlo_parts(f, op, 2, x)) {
        td_hlo_put_like(f, op, 2, td_hlo_2(f, f->as, x[0], x[1]));
    }
}

/* ------------------------------------------------------------------ of one operand */

static struct td_value of_complex(struct td_hlo_frame *f, const char *name, struct td_value x)
{
    const enum td_dtype real = td_dtype_of(x) == TD_COMPLEX64 ? TD_FLOAT : TD_DOUBLE;
    return td_emit(&f->e, name, TD_IN(x), TD_ATTRS(TD_ATTR_OF_TYPE("Tout", real)));
}

void td_hlo_abs(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (!td_hlo_parts(f, op, 1, x)) {
        return;
    }
    const enum td_dtype t = td_dtype_of(x[0]);
    td_hlo_put_like(f, op, 1,
                    td_hlo_is_unsigned(t)  ? x[0]
                    : td_hlo_is_complex(t) ? of_complex(f, "ComplexAbs", x[0])
                                           : td_hlo_1(f, "Abs", x[0]));
}

/* real, imag: of what is real already itself, and nothing. */
void td_hlo_component(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (!td_hlo_parts(f, op, 1, x)) {
        return;
    }
    const bool imag = strcmp(f->as, "Imag") == 0;
    td_hlo_put_like(f, op, 1,
                    td_hlo_is_complex(td_dtype_of(x[0])) ? of_complex(f, f->as, x[0])
                    : imag                               ? td_hlo_1(f, "ZerosLike", x[0])
                                                         : x[0]);
}

void td_hlo_negate(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (td_hlo_parts(f, op, 1, x)) {
        const enum td_dtype t = td_dtype_of(x[0]);
        td_hlo_put_like(f, op, 1,
                        td_hlo_is_unsigned(t) ? td_hlo_2(f, "Sub", td_hlo_zero(f, t), x[0])
                                              : td_hlo_1(f, "Neg", x[0]));
    }
}

void td_hlo_sign(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (td_hlo_parts(f, op, 1, x)) {
        const enum td_dtype t = td_dtype_of(x[0]);
        td_hlo_put_like(f, op, 1,
                        td_hlo_is_unsigned(t) ? td_hlo_2(f, "Minimum", x[0], td_hlo_number(f, t, 1))
                                              : td_hlo_1(f, "Sign", x[0]));
    }
}

void td_hlo_not(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (td_hlo_parts(f, op, 1, x)) {
        td_hlo_put_like(f, op, 1, td_hlo_1(f, td_dtype_of(x[0]) == TD_BOOL ? "LogicalNot" : "Invert", x[0]));
    }
}

/* Halves away from zero: TensorFlow's Round takes them to even. */
void td_hlo_round_away(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (!td_hlo_parts(f, op, 1, x)) {
        return;
    }
    const enum td_dtype t = td_dtype_of(x[0]);
    const struct td_value size = td_hlo_1(f, "Abs", x[0]), below = td_hlo_1(f, "Floor", size);
    const struct td_value up =
        td_hlo_2(f, "GreaterEqual", td_hlo_2(f, "Sub", size, below), td_hlo_number(f, t, 0.5));
    const struct td_value rounded = td_hlo_2(f, "AddV2", below, td_hlo_cast(f, up, t));
    td_hlo_put_like(f, op, 1, td_hlo_2(f, "Mul", td_hlo_1(f, "Sign", x[0]), rounded));
}

/* Of halves as floats: a third is too far from one there. */
void td_hlo_cbrt(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (td_hlo_parts(f, op, 1, x)) {
        const enum td_dtype t = td_dtype_of(x[0]), by = td_dtype_size(t) < 4 ? TD_FLOAT : t;
        const struct td_value v = td_hlo_cast(f, x[0], by);
        const struct td_value root = td_hlo_2(f, "Pow", td_hlo_1(f, "Abs", v), td_hlo_number(f, by, 1.0 / 3));
        td_hlo_put_like(f, op, 1, td_hlo_cast(f, td_hlo_2(f, "Mul", td_hlo_1(f, "Sign", v), root), t));
    }
}

static enum td_dtype unsigned_of(enum td_dtype t)
{
    static const enum td_dtype by_bytes[] = {
        [1] = TD_UINT8, [2] = TD_UINT16, [4] = TD_UINT32, [8] = TD_UINT64};
    return by_bytes[td_dtype_size(t)];
}

static enum td_dtype signed_of(enum td_dtype t)
{
    static const enum td_dtype by_bytes[] = {[1] = TD_INT8, [2] = TD_INT16, [4] = TD_INT32, [8] = TD_INT64};
    return by_bytes[td_dtype_size(t)];
}

static bool wants_integers(struct td_hlo_frame *f, struct td_value x)
{
    if (!td_hlo_is_integer(td_dtype_of(x))) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "its operand is %s, wants integers",
                    td_dtype_name(td_dtype_of(x)));
    }
    return f->e.rc == TD_OK;
}

void td_hlo_popcnt(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (td_hlo_parts(f, op, 1, x) && wants_integers(f, x[0])) {
        td_hlo_put_like(f, op, 1, td_hlo_cast(f, td_hlo_1(f, "PopulationCount", x[0]), td_dtype_of(x[0])));
    }
}

/* All bits below the first become ones; those that are left are counted. */
void td_hlo_leading_zeros(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    if (!td_hlo_parts(f, op, 1, x) || !wants_integers(f, x[0])) {
        return;
    }
    const enum td_dtype t = td_dtype_of(x[0]), u = unsigned_of(t);
    struct td_value v = td_hlo_bits(f, x[0], u);
    for (int by = 1; by < 8 * (int)td_dtype_size(t); by *= 2) {
        v = td_hlo_2(f, "BitwiseOr", v, td_hlo_2(f, "RightShift", v, td_emit_int(&f->e, u, by)));
    }
    const struct td_value zeros = td_hlo_1(f, "PopulationCount", td_hlo_1(f, "Invert", v));
    td_hlo_put_like(f, op, 1, td_hlo_cast(f, zeros, t));
}

/* Through a float with fewer bits and back. */
void td_hlo_reduce_precision(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[1];
    const int64_t exponent = td_hlo_int(op, "exponent_bits", 0),
                  mantissa = td_hlo_int(op, "mantissa_bits", 0);
    const enum td_dtype by = exponent == 8 && mantissa == 7     ? TD_BFLOAT16
                             : exponent == 5 && mantissa == 10  ? TD_HALF
                             : exponent == 8 && mantissa == 23  ? TD_FLOAT
                             : exponent == 11 && mantissa == 52 ? TD_DOUBLE
                                                                : TD_DTYPE_NONE;
    if (!td_hlo_parts(f, op, 1, x)) {
        return;
    }
    if (by == TD_DTYPE_NONE) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "%lld bits of exponent and %lld of mantissa", (long long)exponent,
                    (long long)mantissa);
    }
    const enum td_dtype t = td_dtype_of(x[0]);
    td_hlo_put_like(
        f, op, 1, td_dtype_size(by) >= td_dtype_size(t) ? x[0] : td_hlo_cast(f, td_hlo_cast(f, x[0], by), t));
}

/* ------------------------------------------------------------------ of two */

/* Rows of ops that have another name for booleans: "AddV2|LogicalOr". */
void td_hlo_or_logical(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[2];
    char name[32];
    if (!td_hlo_parts(f, op, 2, x)) {
        return;
    }
    const size_t n = strcspn(f->as, "|");
    const bool logical = td_dtype_of(x[0]) == TD_BOOL;
    memcpy(name, f->as, n);
    name[n] = 0;
    td_hlo_put_like(f, op, 2, td_hlo_2(f, logical ? f->as + n + 1 : name, x[0], x[1]));
}

/* The one number that the operand is everywhere. */
static bool known_number(struct td_value v, int64_t *out)
{
    const struct td_tensor *t = td_known_value(v);
    if (t == NULL || t->shape.rank != 0 || !td_hlo_is_integer(t->dtype)) {
        return false;
    }
    *out = td_tensor_int(t, 0);
    return true;
}

/* y, or 1 where it is 0; *is_zero: where (no node: nowhere). */
static struct td_value not_zero(struct td_hlo_frame *f, struct td_value y, struct td_value *is_zero)
{
    int64_t number;
    const enum td_dtype t = td_dtype_of(y);
    *is_zero = td_no_value;
    if (known_number(y, &number) && number != 0) {
        return y;
    }
    *is_zero = td_hlo_2(f, "Equal", y, td_hlo_zero(f, t));
    return td_hlo_3(f, "SelectV2", *is_zero, td_emit_int(&f->e, t, 1), y);
}

void td_hlo_divide(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[2], zero;
    if (!td_hlo_parts(f, op, 2, x)) {
        return;
    }
    const enum td_dtype t = td_dtype_of(x[0]);
    const struct td_hlo_value *of = td_hlo_softmax_of(op);
    if (of != NULL) {
        td_hlo_put(f, op, 0, td_hlo_1(f, "Softmax", td_hlo_whole(f, of)));
        return;
    }
    if (!td_hlo_is_integer(t)) {
        td_hlo_put_like(f, op, 2, td_hlo_2(f, "RealDiv", x[0], x[1]));
        return;
    }
    const struct td_value y = not_zero(f, x[1], &zero);
    struct td_value q = td_hlo_2(f, "TruncateDiv", x[0], y);
    if (zero.node != NULL) { /* all bits set */
        q = td_hlo_3(f, "SelectV2", zero, td_emit_int(&f->e, t, -1), q);
    }
    td_hlo_put_like(f, op, 2, q);
}

/* x - y * trunc(x / y), with the sign of x. */
void td_hlo_remainder(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[2], zero = td_no_value;
    if (!td_hlo_parts(f, op, 2, x)) {
        return;
    }
    const enum td_dtype t = td_dtype_of(x[0]);
    struct td_value r;
    if (!td_hlo_is_integer(t)) {
        const enum td_dtype by = td_dtype_size(t) < 4 ? TD_FLOAT : t;
        r = td_hlo_2(f, "TruncateMod", td_hlo_cast(f, x[0], by), td_hlo_cast(f, x[1], by));
        td_hlo_put_like(f, op, 2, td_hlo_cast(f, r, t));
        return;
    }
    const struct td_value y = not_zero(f, x[1], &zero);
    r = td_hlo_2(f, "Sub", x[0], td_hlo_2(f, "Mul", y, td_hlo_2(f, "TruncateDiv", x[0], y)));
    td_hlo_put_like(f, op, 2, zero.node == NULL ? r : td_hlo_3(f, "SelectV2", zero, x[0], r));
}

/* Shifts by `by`, all of which are less than the bits there are where *inside is no node. */
static struct td_value shift_by(struct td_hlo_frame *f, struct td_value by, struct td_value *inside)
{
    const enum td_dtype t = td_dtype_of(by), u = unsigned_of(t);
    const int bits = 8 * (int)td_dtype_size(t);
    int64_t number;
    *inside = td_no_value;
    if (known_number(by, &number) && number >= 0 && number < bits) {
        return by;
    }
    *inside = td_hlo_2(f, "Less", td_hlo_bits(f, by, u), td_emit_int(&f->e, u, bits));
    return td_hlo_3(f, "SelectV2", *inside, by, td_emit_int(&f->e, t, bits - 1));
}

void td_hlo_shift(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[2], inside;
    if (!td_hlo_parts(f, op, 2, x) || !wants_integers(f, x[0]) || !wants_integers(f, x[1])) {
        return;
    }
    const enum td_dtype t = td_dtype_of(x[0]);
    const bool arithmetic = strcmp(op->name, "shift_right_arithmetic") == 0;
    const char *name = strcmp(op->name, "shift_left") == 0 ? "LeftShift" : "RightShift";
    const enum td_dtype by = arithmetic ? signed_of(t) : unsigned_of(t);
    const struct td_value amount = shift_by(f, x[1], &inside);
    struct td_value v = td_hlo_2(f, name, td_hlo_bits(f, x[0], by), td_hlo_bits(f, amount, by));
    v = td_hlo_bits(f, v, t);
    if (inside.node != NULL && !arithmetic) {
        v = td_hlo_3(f, "SelectV2", inside, v, td_hlo_zero(f, t));
    }
    td_hlo_put_like(f, op, 2, v);
}

void td_hlo_complex(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[2];
    if (td_hlo_parts(f, op, 2, x)) {
        const enum td_dtype t = td_dtype_of(x[0]) == TD_FLOAT ? TD_COMPLEX64 : TD_COMPLEX128;
        td_hlo_put_like(f, op, 2, td_emit(&f->e, "Complex", x, 2, TD_ATTRS(TD_ATTR_OF_TYPE("Tout", t))));
    }
}

/* maximum with a constant zero is what networks call it: the engine knows Relu better. */
void td_hlo_maximum(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value x[2];
    if (!td_hlo_parts(f, op, 2, x)) {
        return;
    }
    const enum td_dtype t = td_dtype_of(x[0]);
    const struct td_tensor *number = td_known_value(x[1]);
    if (t == TD_BOOL) {
        td_hlo_put_like(f, op, 2, td_hlo_2(f, "LogicalOr", x[0], x[1]));
    } else if (td_hlo_is_float(t) && number != NULL && number->shape.rank == 0 &&
               memcmp(number->data, (const char[8]){0}, td_dtype_size(t)) == 0) {
        td_hlo_put_like(f, op, 2, td_hlo_1(f, "Relu", x[0]));
    } else {
        td_hlo_put_like(f, op, 2, td_hlo_2(f, "Maximum", x[0], x[1]));
    }
}

/* (x - mean) / sqrt(variance + epsilon) * scale + offset, as one factor and one summand a feature. */
void td_hlo_batch_norm_inference(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    enum { X, SCALE, OFFSET, MEAN, VARIANCE, OPERANDS };
    struct td_value in[OPERANDS];
    int64_t shape[TD_MAX_RANK];
    const struct td_hlo_attr *epsilon = td_hlo_attr(op, "epsilon");
    const int64_t axis = td_hlo_int(op, "feature_index", -1);
    const int rank = op->n_in == OPERANDS ? td_hlo_shape(op->in[X])->rank : 0;
    if (axis < 0 || axis >= rank || epsilon == NULL) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "feature_index %lld of rank %d", (long long)axis, rank);
        return;
    }
    for (int i = 0; i < OPERANDS; i++) {
        in[i] = td_hlo_in(f, op, i);
    }
    const struct td_value small = td_hlo_number(f, td_dtype_of(in[X]), epsilon->f);
    const struct td_value by = td_hlo_1(f, "Rsqrt", td_hlo_2(f, "AddV2", in[VARIANCE], small));
    struct td_value factor = td_hlo_2(f, "Mul", in[SCALE], by);
    struct td_value more = td_hlo_2(f, "Sub", in[OFFSET], td_hlo_2(f, "Mul", in[MEAN], factor));
    if (axis != rank - 1) {
        const int n = rank - (int)axis;
        for (int i = 0; i < n; i++) {
            shape[i] = i == 0 ? -1 : 1;
        }
        factor = td_hlo_reshape(f, factor, shape, n);
        more = td_hlo_reshape(f, more, shape, n);
    }
    td_hlo_put(f, op, 0, td_hlo_2(f, "AddV2", td_hlo_2(f, "Mul", in[X], factor), more));
}
