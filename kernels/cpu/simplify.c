/* kernels/cpu/simplify.c - what the ops' simplify rules are made of: constants that are one number
 * throughout, and ops that undo or repeat themselves.
 *
 * A constant is looked at element by element, up to MAX_ELEMENTS; a zero of floats must have the sign that is
 * asked for. It covers x if broadcasting leaves x's known shape as it is. A rule that finds nothing gives
 * td_no_value, and the node stays.
 *
 * Does not: walk graphs (core/compile/pass_arithmetic.c asks the rules).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/simplify.h"

#include <math.h>

enum { MAX_ELEMENTS = 4096 }; /* of a constant that is looked at */

/* ------------------------------------------------------------------ constants */

static bool element_is(const struct td_tensor *t, int64_t i, double value)
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
    const bool is_float = t->dtype == TD_FLOAT || t->dtype == TD_DOUBLE;
    return v == value && (!is_float || value != 0 || (signbit(v) != 0) == (signbit(value) != 0));
}

static bool all_are(const struct td_tensor *t, double value)
{
    const int64_t n = td_tensor_count(t);
    bool same = n > 0 && n <= MAX_ELEMENTS;
    for (int64_t i = 0; same && i < n; i++) {
        same = element_is(t, i, value);
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
        const int64_t want = s->dim[s->rank - i];
        ok = want == 1 || want == x->dim[x->rank - i];
    }
    return ok;
}

bool td_is_all(const struct td_emitter *e, struct td_value v, double value, struct td_value x)
{
    const struct td_tensor *c = td_known_value(v);
    return c != NULL && all_are(c, value) && covers(td_emit_shape(e, x), &c->shape);
}

struct td_value td_without(const struct td_emitter *e, const struct td_node *n, enum td_side sides,
                           double value)
{
    if (n->n_in != 2) {
        return td_no_value;
    }
    if ((sides & TD_LEFT) && td_is_all(e, n->in[0], value, n->in[1])) {
        return n->in[1];
    }
    return (sides & TD_RIGHT) && td_is_all(e, n->in[1], value, n->in[0]) ? n->in[0] : td_no_value;
}

/* ------------------------------------------------------------------ rules that ops share */

struct td_value td_simplify_sum(struct td_emitter *e, const struct td_node *n)
{
    return td_without(e, n, TD_EITHER, td_dtype_in(n->out_type[0], TD_SET_FLOATS) ? -0.0 : 0);
}

struct td_value td_simplify_or(struct td_emitter *e, const struct td_node *n)
{
    return td_without(e, n, TD_EITHER, 0);
}

struct td_value td_simplify_quotient(struct td_emitter *e, const struct td_node *n)
{
    return td_without(e, n, TD_RIGHT, 1);
}

struct td_value td_simplify_less(struct td_emitter *e, const struct td_node *n)
{
    return td_without(e, n, TD_RIGHT, 0);
}

/* The node of the same op that makes n's only input. */
static const struct td_node *same_inside(const struct td_node *n)
{
    const struct td_node *inner = n->n_in == 1 ? td_only_maker(n->in[0]) : NULL;
    return inner != NULL && inner->op == n->op && inner->n_in == 1 ? inner : NULL;
}

struct td_value td_simplify_undone(struct td_emitter *e, const struct td_node *n)
{
    const struct td_node *inner = same_inside(n);
    (void)e;
    return inner != NULL && !inner->in[0].node->out_ref[inner->in[0].port] ? inner->in[0] : td_no_value;
}

struct td_value td_simplify_repeated(struct td_emitter *e, const struct td_node *n)
{
    (void)e;
    return same_inside(n) != NULL ? n->in[0] : td_no_value;
}
