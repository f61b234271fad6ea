/* kernels/control/recurrence_cells.c - a round of a loop as a step of a cell that
 * kernels/dense/recurrence_steps.h knows.
 *
 * Gates may be in any order, a number added to each of an LSTM's; Keras 2 and 3 and TF1 write their cells
 * so. Any of enum td_squash may stand in a cell's places.
 *
 * Masks: h = m ? h' : h, c = m ? c' : c; out = m ? h' : out, or zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/recurrence_cells.h"

#include <string.h>

#include "kernels/control/recurrence_terms.h"

/* Variable i becomes `now`, or, where there is a mask, keeps its value in rows that do not count. */
static bool becomes(struct td_cell_match *m, int i, struct td_value now)
{
    struct td_value then, other;
    return !td_cell_has_mask(m) ? td_cell_same(m->v->body_fetches[i], now)
                                : td_cell_masked(m, m->v->body_fetches[i], &then, &other) &&
                                      td_cell_same(then, now) && td_cell_variable(m, other) == i;
}

static bool all_differ(const int64_t *place, int n)
{
    unsigned seen = 0;
    for (int i = 0; i < n; i++) {
        seen |= place[i] < 0 ? 0 : 1U << place[i];
    }
    return seen == (1U << n) - 1;
}

/* ------------------------------------------------------------------ the cells */

/* v is a product of a squash and another value. */
static bool squash_times(struct td_cell_match *m, struct td_value v, enum td_squash *squash,
                         struct td_value *inside, struct td_value *other)
{
    const struct td_node *n = td_cell_made_by(v, "Mul");
    for (int i = 0; n != NULL && i < 2; i++) {
        struct td_cell_match tried = *m;
        enum td_squash as = *squash;
        if (td_cell_squash(&tried, n->in[i], &as, inside)) {
            *m = tried;
            *squash = as;
            *other = n->in[1 - i];
            return true;
        }
    }
    return false;
}

/* The same where the other value is a squash as well: either may be the first. */
static bool squashes_product(struct td_cell_match *m, struct td_value v, enum td_squash first,
                             enum td_squash second, struct td_value inside[2], struct td_value squash[2])
{
    const struct td_node *n = td_cell_made_by(v, "Mul");
    for (int i = 0; n != NULL && i < 2; i++) {
        struct td_cell_match tried = *m;
        enum td_squash a = first, b = second;
        if (td_cell_squash(&tried, n->in[i], &a, &inside[0]) &&
            td_cell_squash(&tried, n->in[1 - i], &b, &inside[1])) {
            *m = tried;
            m->gate = a;
            m->state = b;
            squash[0] = n->in[i];
            squash[1] = n->in[1 - i];
            return true;
        }
    }
    return false;
}

/* A gate's sum, and a number added to it. */
static int64_t lstm_gate(struct td_cell_match *m, struct td_value v, int k, struct td_value *whole)
{
    struct td_value inside;
    double number;
    m->add[k] = 0;
    if (td_cell_plus(v, &inside, &number)) {
        m->add[k] = (float)number;
        v = inside;
    }
    return td_cell_gate(m, v, 4, whole);
}

/* c' = f c + i g, of which the output gate and the squashes are known. */
static bool lstm_cell(struct td_cell_match *m, struct td_value open)
{
    const struct td_node *sum = td_cell_sum_of_two(m->new_c);
    for (int i = 0; sum != NULL && i < 2; i++) {
        struct td_value gates[4], old, fresh[2], parts[2], whole = td_no_value; /* gates: i f g o */
        struct td_cell_match t = *m;
        if (!squash_times(&t, sum->in[i], &t.gate, &gates[1], &old) || td_cell_variable(&t, old) != t.c ||
            !squashes_product(&t, sum->in[1 - i], t.gate, t.state, fresh, parts)) {
            continue;
        }
        gates[0] = fresh[0];
        gates[2] = fresh[1];
        gates[3] = open;
        for (int k = 0; k < 4; k++) {
            t.place[k] = lstm_gate(&t, gates[k], k, &whole);
        }
        /* where all squashes are one, which of a product is i is told by nothing: it does not matter */
        const struct td_cell_wants w = {.items = &t.items, .u = &t.u, .bias = {&t.bx, &t.bh}};
        if (all_differ(t.place, 4) && td_cell_take_sum(&t, whole, &w)) {
            *m = t;
            return true;
        }
    }
    return false;
}

/* h' = td_cell_gate(s_o) state(c') */
static bool match_lstm(struct td_cell_match *m)
{
    const struct td_node *n = td_cell_made_by(m->new_h, "Mul");
    for (int i = 0; n != NULL && i < 2; i++) {
        struct td_cell_match t = *m;
        struct td_value open;
        if (!td_cell_squash(&t, n->in[i], &t.gate, &open) ||
            !td_cell_squash(&t, n->in[1 - i], &t.state, &t.new_c)) {
            continue;
        }
        for (t.c = 0; t.c < t.v->n_vars; t.c++) {
            struct td_cell_match with_c = t;
            if (becomes(&with_c, t.c, t.new_c) && lstm_cell(&with_c, open)) {
                *m = with_c;
                return true;
            }
        }
    }
    return false;
}

/* 1 - z */
static bool is_rest_of(struct td_value v, struct td_value z)
{
    const struct td_node *n = td_cell_made_by(v, "Sub");
    double one;
    return n != NULL && td_cell_real(n->in[0], &one) && one == 1 && td_cell_same(n->in[1], z);
}

/* What a GRU's new h is made of. */
struct gru {
    struct td_value z, fresh; /* h' = z h + (1 - z) fresh */
};

static bool open_gru(const struct td_cell_match *m, struct gru *g)
{
    const struct td_node *sum = td_cell_sum_of_two(m->new_h);
    for (int i = 0; sum != NULL && i < 4; i++) {
        const struct td_node *old = td_cell_made_by(sum->in[i / 2], "Mul"),
                             *now = td_cell_made_by(sum->in[1 - i / 2], "Mul");
        const bool ok = old != NULL && now != NULL && td_cell_variable(m, old->in[1 - i % 2]) == m->h;
        for (int k = 0; ok && k < 2; k++) {
            if (is_rest_of(now->in[k], old->in[i % 2])) {
                *g = (struct gru){old->in[i % 2], now->in[1 - k]};
                return true;
            }
        }
    }
    return false;
}

/* Gate k: a squash of the sum of a part of x's (splits[0], of nx) and one of the product's (splits[1], of
 * np). */
static bool two_parts(struct td_cell_match *m, struct td_value v, int k, const int parts[2],
                      struct td_value splits[2])
{
    struct td_value inside;
    const struct td_node *sum = td_cell_squash(m, v, &m->gate, &inside) ? td_cell_sum_of_two(inside) : NULL;
    for (int i = 0; sum != NULL && i < 2; i++) {
        struct td_value tried[2] = {splits[0], splits[1]};
        const int64_t at = td_cell_gate(m, sum->in[i], parts[0], &tried[0]);
        if (at >= 0 && td_cell_gate(m, sum->in[1 - i], parts[1], &tried[1]) == at &&
            !td_cell_same(tried[0], tried[1])) {
            m->place[k] = at;
            splits[0] = tried[0];
            splits[1] = tried[1];
            return true;
        }
    }
    return false;
}

/* Part 2 of x's in `v`, beside r times part 2 of the product's. */
static bool fresh_after(struct td_cell_match *m, struct td_value v, struct td_value *reset,
                        struct td_value splits[2])
{
    const struct td_node *sum = td_cell_sum_of_two(v);
    for (int i = 0; sum != NULL && i < 4; i++) {
        const struct td_node *mul = td_cell_made_by(sum->in[i / 2], "Mul");
        struct td_value tried[2] = {td_no_value, td_no_value};
        const int64_t at = mul == NULL ? -1 : td_cell_gate(m, mul->in[i % 2], 3, &tried[1]);
        if (at >= 0 && td_cell_gate(m, sum->in[1 - i / 2], 3, &tried[0]) == at) {
            m->place[2] = at;
            splits[0] = tried[0];
            splits[1] = tried[1];
            *reset = mul->in[1 - i % 2];
            return true;
        }
    }
    return false;
}

/* The reset gate behind the product: fresh = state(s_n + r q_n) */
static bool match_gru(struct td_cell_match *m)
{
    struct gru g;
    struct td_value inside, reset, splits[2];
    const int parts[2] = {3, 3};
    const struct td_cell_wants x = {.items = &m->items, .bias = {&m->bx}}, p = {.u = &m->u, .bias = {&m->bh}};
    return open_gru(m, &g) && td_cell_squash(m, g.fresh, &m->state, &inside) &&
           fresh_after(m, inside, &reset, splits) && two_parts(m, g.z, 0, parts, splits) &&
           two_parts(m, reset, 1, parts, splits) && all_differ(m->place, 3) &&
           td_cell_take_sum(m, splits[0], &x) && td_cell_take_sum(m, splits[1], &p);
}

/* r, of the product of r and h that the sum v has a product with U of; no node. */
static struct td_value reset_of(const struct td_cell_match *m, struct td_value v)
{
    struct td_cell_sum s = {.n = 0};
    (void)td_cell_terms(v, &s);
    for (int i = 0; i < s.n; i++) {
        const struct td_node *n = td_cell_made_by(s.term[i], "MatMul"),
                             *mul = n == NULL ? NULL : td_cell_made_by(n->in[0], "Mul");
        for (int k = 0; mul != NULL && k < 2; k++) {
            if (td_cell_variable(m, mul->in[k]) == m->h) {
                return mul->in[1 - k];
            }
        }
    }
    return td_no_value;
}

/* Both gates are parts of one squash of a sum (TF1). */
static bool gates_in_one(struct td_cell_match *m, struct td_value z, struct td_value reset)
{
    struct td_value whole = td_no_value, inside;
    m->place[0] = td_cell_gate(m, z, 2, &whole);
    m->place[1] = td_cell_gate(m, reset, 2, &whole);
    const struct td_cell_wants w = {.items = &m->items, .u = &m->u, .bias = {&m->bx, &m->bh}};
    return all_differ(m->place, 2) && td_cell_squash(m, whole, &m->gate, &inside) &&
           td_cell_take_sum(m, inside, &w);
}

/* The part of x's three that stands in a sum of two or more, as one of its terms. */
static bool takes_part(struct td_cell_match *m, struct td_value v, struct td_value splits,
                       struct td_cell_sum *rest)
{
    struct td_cell_sum s = {.n = 0};
    bool found = false;
    rest->n = 0;
    bool ok = td_cell_terms(v, &s);
    for (int i = 0; ok && i < s.n; i++) {
        struct td_value whole = splits;
        const int64_t at = found ? -1 : td_cell_gate(m, s.term[i], 3, &whole);
        if (at >= 0) {
            found = true;
            m->place[2] = at;
        } else {
            rest->term[rest->n++] = s.term[i];
        }
    }
    return ok && found;
}

/* All gates of x are parts of one list's elements (Keras), z and r with parts of a product with two. */
static bool gates_in_three(struct td_cell_match *m, struct td_value z, struct td_value reset,
                           struct td_value fresh)
{
    struct td_value splits[2] = {td_no_value, td_no_value};
    struct td_cell_sum rest;
    const int parts[2] = {3, 2};
    const struct td_cell_wants x = {.items = &m->items, .bias = {&m->bx}}, p = {.u = &m->u, .bias = {NULL}};
    return two_parts(m, z, 0, parts, splits) && two_parts(m, reset, 1, parts, splits) &&
           takes_part(m, fresh, splits[0], &rest) && rest.n == 1 &&
           td_cell_product(m, rest.term[0], reset, &m->u2) && all_differ(m->place, 3) &&
           td_cell_take_sum(m, splits[0], &x) && td_cell_take_sum(m, splits[1], &p);
}

/* The reset gate before the product: fresh = state(x_n + (r h) U_n) */
static bool match_gru_before(struct td_cell_match *m)
{
    struct gru g;
    struct td_value inside;
    if (!open_gru(m, &g) || !td_cell_squash(m, g.fresh, &m->state, &inside)) {
        return false;
    }
    const struct td_value reset = reset_of(m, inside);
    struct td_cell_match one = *m;
    const struct td_cell_wants w = {.items = &one.items2, .u = &one.u2, .reset = reset, .bias = {&one.b2}};
    if (reset.node != NULL && gates_in_one(&one, g.z, reset) && td_cell_take_sum(&one, inside, &w)) {
        one.place[2] = 0;
        *m = one;
        return true;
    }
    return reset.node != NULL && gates_in_three(m, g.z, reset, inside);
}

static bool match_plain(struct td_cell_match *m)
{
    struct td_value inside;
    const struct td_cell_wants w = {.items = &m->items, .u = &m->u, .bias = {&m->bx, &m->bh}};
    return td_cell_squash(m, m->new_h, &m->state, &inside) && td_cell_take_sum(m, inside, &w);
}

static const struct {
    enum td_cell cell;
    bool (*match)(struct td_cell_match *m);
} cells[] = {{TD_CELL_LSTM, match_lstm},
             {TD_CELL_GRU, match_gru},
             {TD_CELL_GRU_BEFORE, match_gru_before},
             {TD_CELL_PLAIN, match_plain}};

/* The variable that is h where the round counts, and else what it was, or always the same. */
static void find_output(struct td_cell_match *m)
{
    for (int i = 0; td_cell_has_mask(m) && m->o < 0 && i < m->v->n_vars; i++) {
        struct td_value then, other;
        if (i != m->h && td_cell_masked(m, m->v->body_fetches[i], &then, &other) &&
            td_cell_same(then, m->new_h)) {
            m->z = td_cell_variable(m, other) == i ? -1 : m->v->steady(m->v->loop, other);
            m->o = td_cell_variable(m, other) == i || m->z >= 0 ? i : -1;
        }
    }
}

bool td_cell_match(struct td_cell_match *m, const struct td_loop_view *v)
{
    const struct td_cell_match none = {.v = v,
                                       .h = -1,
                                       .c = -1,
                                       .o = -1,
                                       .z = -1,
                                       .items = -1,
                                       .items2 = -1,
                                       .mask = -1,
                                       .lengths = -1,
                                       .index = -1};
    for (int i = 0; i < v->n_vars; i++) {
        for (size_t k = 0; k < sizeof cells / sizeof *cells && td_dtype_of(v->body_fetches[i]) == TD_FLOAT;
             k++) {
            struct td_value other;
            *m = none;
            m->h = i;
            m->cell = cells[k].cell;
            if (!td_cell_masked(m, v->body_fetches[i], &m->new_h, &other)) {
                *m = none;
                m->h = i;
                m->cell = cells[k].cell;
                m->new_h = v->body_fetches[i];
            }
            if (becomes(m, i, m->new_h) && cells[k].match(m) &&
                (!td_cell_has_mask(m) || m->mask_index == m->index)) {
                find_output(m);
                return true;
            }
        }
    }
    return false;
}
