/* core/compile/pass_arithmetic.c - arithmetic that changes nothing, or that has a cheaper form, by a table of
 * rules.
 *
 *   x * 1, x / 1, x - 0, x + (-0), x ^ 1      x            (integers also x + 0)
 *   -(-x), not not x, ~~x                     x            f(f(x)) = f(x) for Relu, Abs, Floor, ..
 *   Cast from T to T, AddN of one             x
 *   Transpose of Transpose                    one Transpose, or x when they undo each other or move nothing
 *   Reshape, Squeeze, ExpandDims .. back to the shape a value had          that value
 *   x ^ 2                                     Square(x)
 *   x / c, c a power of two                   x * (1 / c)
 *
 * Floats keep their last bit: x + 0 stays, since -0 + 0 is 0; x / 3 is not x * (1/3); complex numbers are
 * left alone, since (a + bi) * 1 adds a zero. A constant operand may not widen the result: it is a scalar, or
 * x's rank and shape are known to cover it. Nodes with control inputs or on reference edges stay, and so do
 * checks that a rewritten node would have made: shapes must be known where a node could have refused them.
 *
 * Invariant: the value read in place of a node's output is equal to it, bit for bit but for x ^ 2 (a
 * rounding).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/compile/ir_shapes.h"
#include "core/run/model.h"
#include "core/compile/passes.h"
#include "core/compile/remap.h"

enum { LEFT = 1, RIGHT = 2 };

/* f(x, value) = x for dtypes of `set`; on the sides where value may stand. */
static const struct neutral {
    const char *op;
    int sides;
    double value;
    bool negative_zero;
    uint32_t set;
} neutrals[] = {
#define INTS TD_SET_INTS
#define REALS (TD_SET_INTS | TD_SET_FLOATS)
    {"Mul", LEFT | RIGHT, 1, false, REALS},
    {"RealDiv", RIGHT, 1, false, TD_SET_FLOATS},
    {"Div", RIGHT, 1, false, REALS},
    {"FloorDiv", RIGHT, 1, false, INTS},
    {"TruncateDiv", RIGHT, 1, false, INTS},
    {"DivNoNan", RIGHT, 1, false, TD_SET_FLOATS},
    {"Sub", RIGHT, 0, false, REALS},
    {"Add", LEFT | RIGHT, 0, true, TD_SET_FLOATS},
    {"AddV2", LEFT | RIGHT, 0, true, TD_SET_FLOATS},
    {"Add", LEFT | RIGHT, 0, false, INTS},
    {"AddV2", LEFT | RIGHT, 0, false, INTS},
    {"Pow", RIGHT, 1, false, REALS},
    {"LogicalAnd", LEFT | RIGHT, 1, false, TD_BIT(TD_BOOL)},
    {"LogicalOr", LEFT | RIGHT, 0, false, TD_BIT(TD_BOOL)},
    {"BitwiseOr", LEFT | RIGHT, 0, false, INTS},
    {"BitwiseXor", LEFT | RIGHT, 0, false, INTS},
    {"LeftShift", RIGHT, 0, false, INTS},
    {"RightShift", RIGHT, 0, false, INTS},
};

/* outer(inner(x)): x, or inner(x). */
static const struct pair {
    const char *outer, *inner;
    bool gone;
} pairs[] = {
    {"Neg", "Neg", true},       {"LogicalNot", "LogicalNot", true},
    {"Invert", "Invert", true}, {"Conj", "Conj", true},
    {"Relu", "Relu", false},    {"Relu6", "Relu6", false},
    {"Relu", "Relu6", false},   {"Abs", "Abs", false},
    {"Floor", "Floor", false},  {"Ceil", "Ceil", false},
    {"Rint", "Rint", false},    {"Round", "Round", false},
    {"Sign", "Sign", false},
};

/* Rules by the op that they begin at. Views are known by their flag. */
enum { NEUTRAL = 1, PAIR = 2, NOTHING = 4, TRANSPOSE = 8, SQUARE = 16, DIVIDE = 32 };

unsigned char td_arithmetic_rules(const char *op_name)
{
    static const struct {
        const char *op;
        unsigned char rules;
    } others[] = {
        {"Cast", NOTHING}, {"AddN", NOTHING}, {"Transpose", TRANSPOSE}, {"Pow", SQUARE}, {"RealDiv", DIVIDE},
    };
    unsigned rules = 0;
    for (size_t k = 0; k < sizeof neutrals / sizeof neutrals[0]; k++) {
        rules |= strcmp(neutrals[k].op, op_name) == 0 ? NEUTRAL : 0;
    }
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        rules |= strcmp(pairs[k].outer, op_name) == 0 ? PAIR : 0;
    }
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        rules |= strcmp(others[k].op, op_name) == 0 ? others[k].rules : 0;
    }
    return (unsigned char)rules;
}

static unsigned rules_of(const struct td_node *n)
{
    const struct td_op_def *def = td_node_def(n);
    return def == NULL ? 0 : def->rules;
}

struct rules {
    struct td_ir *ir;
    const struct td_op_table *ops; /* NULL: none to replace by */
    const struct td_ir_shapes *shapes;
    struct td_remap remap;
    bool dead_values;
    struct td_err *err;
};

static bool is(const struct td_node *n, const char *op)
{
    return n->op != NULL && strcmp(n->op_name, op) == 0;
}

/* The node that makes input i, when that is its only output and no reference. */
static const struct td_node *maker(const struct td_node *n, int i)
{
    const struct td_node *from = n->in[i].node;
    return from->n_out == 1 && !from->out_ref[0] && from->n_control == 0 ? from : NULL;
}

/* ------------------------------------------------------------------ constants */

static bool element_is(const struct td_tensor *t, int64_t i, double value, bool negative_zero)
{
    double v;
    switch (t->dtype) {
#define CASE(dtype, type)                                                                                    \
    case dtype:                                                                                              \
        v = (double)((const type *)t->data)[i];                                                              \
        break
        CASE(TD_FLOAT, float);
        CASE(TD_DOUBLE, double);
        CASE(TD_INT8, int8_t);
        CASE(TD_INT16, int16_t);
        CASE(TD_INT32, int32_t);
        CASE(TD_INT64, int64_t);
        CASE(TD_UINT8, uint8_t);
        CASE(TD_UINT16, uint16_t);
        CASE(TD_UINT32, uint32_t);
        CASE(TD_UINT64, uint64_t);
        CASE(TD_BOOL, bool);
#undef CASE
    default:
        return false;
    }
    bool is_float = t->dtype == TD_FLOAT || t->dtype == TD_DOUBLE;
    return v == value && (!is_float || value != 0 || (signbit(v) != 0) == negative_zero);
}

static bool all_are(const struct td_tensor *t, double value, bool negative_zero)
{
    int64_t n = td_tensor_count(t);
    bool same = n > 0 && n <= 4096;
    for (int64_t i = 0; same && i < n; i++) {
        same = element_is(t, i, value, negative_zero);
    }
    return same;
}

/* Whether broadcasting with `s` leaves every x of the shape known here as it is. */
static bool covers(const struct td_shape *x, const struct td_shape *s)
{
    if (s->rank == 0) {
        return true;
    }
    bool ok = x->rank >= s->rank;
    for (int i = 1; ok && i <= s->rank; i++) {
        int64_t want = s->dim[s->rank - i];
        ok = want == 1 || want == x->dim[x->rank - i];
    }
    return ok;
}

/* ------------------------------------------------------------ rules: each says what may be read in n's
 * place */

static bool rule_neutral(struct rules *r, const struct td_node *n, struct td_value *to)
{
    if (!(rules_of(n) & NEUTRAL) || n->n_in != 2) {
        return false;
    }
    for (size_t k = 0; k < sizeof neutrals / sizeof neutrals[0]; k++) {
        const struct neutral *row = &neutrals[k];
        if (!is(n, row->op) || !td_dtype_in(n->out_type[0], row->set)) {
            continue;
        }
        for (int side = 0; side < 2; side++) { /* side: where the constant stands */
            const struct td_tensor *c = td_node_const(n->in[side].node);
            if (c != NULL && (row->sides & (side == 0 ? LEFT : RIGHT)) &&
                all_are(c, row->value, row->negative_zero) &&
                covers(td_ir_shape(r->shapes, n->in[1 - side]), &c->shape)) {
                *to = n->in[1 - side];
                return true;
            }
        }
    }
    return false;
}

static bool rule_pair(const struct td_node *n, struct td_value *to)
{
    const struct td_node *inner = (rules_of(n) & PAIR) && n->n_in == 1 ? maker(n, 0) : NULL;
    for (size_t k = 0; inner != NULL && inner->n_in == 1 && k < sizeof pairs / sizeof pairs[0]; k++) {
        if (is(n, pairs[k].outer) && is(inner, pairs[k].inner)) {
            *to = pairs[k].gone ? inner->in[0] : n->in[0];
            return !pairs[k].gone || !inner->in[0].node->out_ref[inner->in[0].port];
        }
    }
    return false;
}

static bool rule_nothing(const struct td_node *n, struct td_value *to)
{
    if (!(rules_of(n) & NOTHING)) {
        return false;
    }
    if ((is(n, "Cast") && td_attr_type(n, "SrcT") == td_attr_type(n, "DstT")) ||
        (is(n, "AddN") && n->n_in == 1)) {
        *to = n->in[0];
        return true;
    }
    return false;
}

/* A chain of views that ends in the shape it came from. All shapes are known, so none of its nodes could
 * refuse. */
static bool rule_view(struct rules *r, const struct td_node *n, struct td_value *to)
{
    const struct td_shape *want = td_ir_shape(r->shapes, (struct td_value){(struct td_node *)n, 0});
    bool found = false;
    for (int steps = 0; steps < 4 && (td_node_flags(n) & TD_OP_VIEW) && n->n_in > 0 && td_shape_known(want);
         steps++) {
        struct td_value from = n->in[0];
        const struct td_shape *have = td_ir_shape(r->shapes, from);
        if (n->op == NULL || (td_node_flags(n) & TD_OP_STATEFUL) || n->n_control > 0 ||
            from.node->out_ref[from.port] || !td_shape_known(have) ||
            from.node->out_type[from.port] != n->out_type[0]) {
            break;
        }
        if (td_shape_equal(have, want)) {
            *to = from;
            found = true;
        }
        n = from.node;
        if (from.port != 0) {
            break;
        }
    }
    return found;
}

/* The permutation of a Transpose when it is constant and the rank of what it turns is known to fit. */
static int permutation(struct rules *r, const struct td_node *n, int *perm)
{
    const struct td_tensor *p =
        (rules_of(n) & TRANSPOSE) && n->n_in == 2 ? td_node_const(n->in[1].node) : NULL;
    bool ok = p != NULL && p->shape.rank == 1 && p->shape.dim[0] <= TD_MAX_RANK &&
              td_ir_shape(r->shapes, n->in[0])->rank == p->shape.dim[0];
    int rank = ok ? (int)p->shape.dim[0] : 0;
    bool seen[TD_MAX_RANK] = {false};
    for (int i = 0; i < rank; i++) {
        int64_t at = p->dtype == TD_INT32 ? TD_DATA(p, int32_t)[i] : TD_DATA(p, int64_t)[i];
        int axis;
        if (!td_shape_axis(rank, at, &axis) || seen[axis]) {
            return 0;
        }
        perm[i] = axis;
        seen[axis] = true;
    }
    return rank;
}

static bool rule_transpose(struct rules *r, struct td_node *n, struct td_value *to)
{
    int outer[TD_MAX_RANK], inner[TD_MAX_RANK], both[TD_MAX_RANK];
    int rank = permutation(r, n, outer);
    const struct td_node *from = rank > 0 ? maker(n, 0) : NULL;
    bool two =
        from != NULL && permutation(r, from, inner) == rank && !from->in[0].node->out_ref[from->in[0].port];
    bool still = rank > 0;
    for (int i = 0; i < rank; i++) {
        both[i] = two ? inner[outer[i]] : outer[i];
        still &= both[i] == i;
    }
    if (still) {
        *to = two ? from->in[0] : n->in[0];
    }
    return still;
}

/* ------------------------------------------------------------------ rules that change the node */

static void become(struct td_node *n, const struct td_op_def *def)
{
    n->def = def;
    n->op = def->op;
    n->op_name = def->name;
}

/* x ^ 2 */
static void rule_square(struct rules *r, struct td_node *n)
{
    const struct td_op_def *square =
        r->ops == NULL || !(rules_of(n) & SQUARE) ? NULL : td_op_find(r->ops, "Square");
    const struct td_tensor *c = square == NULL ? NULL : td_node_const(n->in[1].node);
    if (c != NULL &&
        td_dtype_in(n->out_type[0],
                    TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_BIT(TD_INT32) | TD_BIT(TD_INT64)) &&
        all_are(c, 2, false) && covers(td_ir_shape(r->shapes, n->in[0]), &c->shape)) {
        become(n, square);
        n->n_in = 1;
        r->ir->changes++;
    }
}

/* 1 / c of each element in place; false when some is no power of two or leaves the normal numbers. */
static bool invert_powers(struct td_tensor *t)
{
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        double v = t->dtype == TD_FLOAT ? (double)TD_DATA(t, float)[i] : TD_DATA(t, double)[i];
        int e;
        if (fabs(frexp(v, &e)) != 0.5 || abs(e) > 100) {
            return false;
        }
        if (t->dtype == TD_FLOAT) {
            TD_DATA(t, float)[i] = (float)(1 / v);
        } else {
            TD_DATA(t, double)[i] = 1 / v;
        }
    }
    return true;
}

/* x / c: a product is several times faster. */
static enum td_code rule_divide(struct rules *r, struct td_node *n)
{
    const struct td_op_def *mul =
        r->ops == NULL || !(rules_of(n) & DIVIDE) ? NULL : td_op_find(r->ops, "Mul");
    const struct td_tensor *c = mul == NULL ? NULL : td_node_const(n->in[1].node);
    if (c == NULL || !td_dtype_in(c->dtype, TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)) ||
        td_tensor_count(c) == 0 || td_tensor_count(c) > 4096) {
        return TD_OK;
    }
    struct td_tensor inverse;
    struct td_node *literal;
    TD_TRY(td_tensor_copy(&inverse, c, r->err));
    enum td_code rc = TD_OK;
    if (invert_powers(&inverse)) {
        rc = td_ir_add(r->ir, n->in[1].node, n->in[1].node->name, &literal, r->err);
        rc = rc ? rc : td_ir_make_literal(r->ir, literal, &inverse, r->err);
        if (rc == TD_OK) {
            literal->n_control = 0;
            become(n, mul);
            n->in[1] = (struct td_value){literal, 0};
            r->ir->changes++;
        }
    }
    td_tensor_clear(&inverse);
    return rc;
}

/* Transpose of Transpose: the inner one's input, turned once. */
static enum td_code rule_join_transposes(struct rules *r, struct td_node *n)
{
    int outer[TD_MAX_RANK], inner[TD_MAX_RANK];
    int rank = permutation(r, n, outer);
    const struct td_node *from = rank > 0 ? maker(n, 0) : NULL;
    if (from == NULL || permutation(r, from, inner) != rank || from->in[0].node->out_ref[from->in[0].port]) {
        return TD_OK;
    }
    struct td_tensor perm;
    struct td_node *literal;
    TD_TRY(td_tensor_copy(&perm, td_node_const(n->in[1].node), r->err));
    for (int i = 0; i < rank; i++) {
        if (perm.dtype == TD_INT32) {
            TD_DATA(&perm, int32_t)[i] = inner[outer[i]];
        } else {
            TD_DATA(&perm, int64_t)[i] = inner[outer[i]];
        }
    }
    enum td_code rc = td_ir_add(r->ir, n->in[1].node, n->in[1].node->name, &literal, r->err);
    rc = rc ? rc : td_ir_make_literal(r->ir, literal, &perm, r->err);
    if (rc == TD_OK) {
        literal->n_control = 0;
        n->in[0] = from->in[0];
        n->in[1] = (struct td_value){literal, 0};
        r->ir->changes++;
    }
    td_tensor_clear(&perm);
    return rc;
}

/* ------------------------------------------------------------------ the walk */

static bool may_change(const struct rules *r, const struct td_node *n)
{
    bool ok = n->op != NULL && n->n_out == 1 && n->n_in > 0 && n->n_control == 0 && !n->out_ref[0] &&
              n->fused == NULL;
    for (int i = 0; ok && i < n->n_in; i++) {
        const struct td_node *from = n->in[i].node;
        bool branch =
            r->dead_values && (td_node_flags(from) & TD_OP_SWITCH); /* control edges tell its outputs apart */
        ok = !from->out_ref[n->in[i].port] && !n->in_ref[i] && !branch;
    }
    return ok;
}

static enum td_code visit(struct rules *r, struct td_node *n)
{
    struct td_value to;
    if (rule_neutral(r, n, &to) || rule_pair(n, &to) || rule_nothing(n, &to) || rule_view(r, n, &to) ||
        rule_transpose(r, n, &to)) {
        return td_remap_set(r->ir, &r->remap, n, to, r->err);
    }
    rule_square(r, n);
    TD_TRY(rule_divide(r, n));
    return rule_join_transposes(r, n);
}

enum td_code td_pass_arithmetic(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    struct rules r = {.ir = ir,
                      .ops = m == NULL ? NULL : td_model_opts_of(m)->ops,
                      .dead_values = td_ir_has_switch(ir),
                      .err = err};
    TD_TRY(td_remap_init(ir, &r.remap, err));
    TD_TRY(td_ir_shapes_now(ir, &r.shapes, err));
    enum td_code rc = TD_OK;
    int n_nodes = ir->n_nodes;
    for (int k = 0; rc == TD_OK && k < n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            n->in[i] = td_remap_follow(&r.remap, n->in[i]);
        }
        if (may_change(&r, n)) {
            rc = visit(&r, n);
        }
    }
    if (rc == TD_OK) {
        td_remap_apply(ir, &r.remap);
    }
    return rc;
}
