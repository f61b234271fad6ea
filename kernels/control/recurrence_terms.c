/* kernels/control/recurrence_terms.c - the values of a loop's body that cells are made of.
 *
 *   x = list[i]      p = MatMul(h, U)               list, U, b: the same in every round
 *   s = x + p + b    s_0 s_1 .. = Split(s), or slices of its columns
 *
 * Sums may have their terms in any order. Masks: m ? v : w, where m is an element of a list, or i is below
 * each row's length.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/recurrence_terms.h"

#include <string.h>

/* ------------------------------------------------------------------ values */

struct td_value td_cell_behind(struct td_value v)
{
    while (v.node->op != NULL && (v.node->op->flags & TD_OP_IDENTITY) && v.port < v.node->n_in) {
        v = v.node->in[v.port];
    }
    return v;
}

const struct td_node *td_cell_made_by(struct td_value v, const char *op)
{
    const struct td_node *n = td_cell_behind(v).node;
    return td_cell_behind(v).port == 0 && n->op != NULL && strcmp(n->op_name, op) == 0 ? n : NULL;
}

bool td_cell_same(struct td_value a, struct td_value b)
{
    a = td_cell_behind(a);
    b = td_cell_behind(b);
    return a.node == b.node && a.port == b.port;
}

int td_cell_variable(const struct td_cell_match *m, struct td_value v)
{
    for (int i = 0; i < m->v->n_vars; i++) {
        if (td_cell_same(v, m->v->body_feeds[i])) {
            return i;
        }
    }
    return -1;
}

const struct td_node *td_cell_sum_of_two(struct td_value v)
{
    const struct td_node *n = td_cell_made_by(v, "AddV2");
    return n != NULL ? n : td_cell_made_by(v, "Add");
}

bool td_cell_number(struct td_value v, int64_t *number)
{
    const struct td_tensor *t = td_known_value(td_cell_behind(v));
    const bool ok = t != NULL && t->shape.rank == 0 && td_dtype_in(t->dtype, TD_SET_INTS);
    *number = ok ? td_tensor_int(t, 0) : 0;
    return ok;
}

bool td_cell_real(struct td_value v, double *number)
{
    const struct td_tensor *t = td_known_value(td_cell_behind(v));
    const bool ok = t != NULL && t->dtype == TD_FLOAT && td_tensor_count(t) == 1 && t->shape.rank <= 2;
    *number = ok ? (double)TD_DATA(t, float)[0] : 0;
    return ok;
}

/* v is op(inside, number), or op(number, inside). */
static bool with_number(struct td_value v, const char *op, struct td_value *inside, double *number)
{
    const struct td_node *n = td_cell_made_by(v, op);
    for (int i = 0; n != NULL && n->n_in == 2 && i < 2; i++) {
        if (td_cell_real(n->in[i], number)) {
            *inside = n->in[1 - i];
            return true;
        }
    }
    return false;
}

bool td_cell_plus(struct td_value v, struct td_value *inside, double *number)
{
    return with_number(v, "AddV2", inside, number) || with_number(v, "Add", inside, number);
}

/* ------------------------------------------------------------------ squashes */

/* min(max(slope x + offset, 0), 1); Keras 3: relu6(x + 3) / 6. slope is not 0. */
struct hard {
    struct td_value inside;
    double slope, offset;
};

static bool is_hard_sigmoid(struct td_value v, struct hard *h)
{
    double six, three, most, least;
    struct td_value in;
    const struct td_node *clip = td_cell_made_by(v, "ClipByValue"), *six_fold = NULL;
    if (with_number(v, "Mul", &in, &six)) {
        six_fold = td_cell_made_by(in, "Relu6");
    } else if (with_number(v, "RealDiv", &in, &six) && six == 6) {
        six = 1.0 / 6;
        six_fold = td_cell_made_by(in, "Relu6");
    }
    if (six_fold != NULL) {
        h->slope = six;
        h->offset = 0.5;
        return six > 0.16666 && six < 0.16667 && td_cell_plus(six_fold->in[0], &h->inside, &three) &&
               three == 3;
    }
    if (clip != NULL) {
        in = clip->in[0];
        if (!td_cell_real(clip->in[1], &least) || !td_cell_real(clip->in[2], &most)) {
            return false;
        }
    } else if (!(with_number(v, "Maximum", &in, &least) && with_number(in, "Minimum", &in, &most)) &&
               !(with_number(v, "Minimum", &in, &most) && with_number(in, "Maximum", &in, &least))) {
        return false;
    }
    return least == 0 && most == 1 && td_cell_plus(in, &in, &h->offset) &&
           with_number(in, "Mul", &h->inside, &h->slope) && h->slope != 0;
}

/* Squashes of one input, by their ops. */
static const struct {
    const char *op;
    enum td_squash squash;
} squashes[] = {{"Sigmoid", TD_SQUASH_SIGMOID},
                {"Tanh", TD_SQUASH_TANH},
                {"Relu", TD_SQUASH_RELU},
                {"Softsign", TD_SQUASH_SOFTSIGN},
                {"Elu", TD_SQUASH_ELU}};

bool td_cell_squash(struct td_cell_match *m, struct td_value v, enum td_squash *squash,
                    struct td_value *inside)
{
    struct hard h;
    enum td_squash found = TD_SQUASH_NONE;
    for (size_t k = 0; k < sizeof squashes / sizeof *squashes; k++) {
        const struct td_node *n = td_cell_made_by(v, squashes[k].op);
        if (n != NULL) {
            found = squashes[k].squash;
            *inside = n->in[0];
        }
    }
    if (found == TD_SQUASH_NONE && is_hard_sigmoid(v, &h) &&
        (m->slope == 0 || (m->slope == (float)h.slope && m->offset == (float)h.offset))) {
        found = TD_SQUASH_HARD;
        m->slope = (float)h.slope;
        m->offset = (float)h.offset;
        *inside = h.inside;
    }
    *squash = *squash == TD_SQUASH_NONE ? found : *squash;
    return found != TD_SQUASH_NONE && found == *squash;
}

/* ------------------------------------------------------------------ s = x + p + b */

/* The sum of two that v is, a bias among them; NULL. */
static const struct td_node *sum_of(struct td_value v)
{
    const struct td_node *n = td_cell_sum_of_two(v), *bias = td_cell_made_by(v, "BiasAdd");
    return n != NULL || bias == NULL || strncmp(td_attr_str(bias, "data_format"), "NC", 2) == 0 ? n : bias;
}

bool td_cell_terms(struct td_value v, struct td_cell_sum *s)
{
    struct td_value open[TD_CELL_TERMS] = {v}; /* not looked at yet, the next one last */
    for (int n_open = 1; n_open > 0;) {
        const struct td_value next = open[--n_open];
        const struct td_node *n = sum_of(next);
        if (n == NULL) {
            s->term[s->n++] = td_cell_behind(next);
        } else if (s->n + n_open + 2 <= TD_CELL_TERMS) {
            open[n_open++] = n->in[1];
            open[n_open++] = n->in[0];
        } else {
            return false;
        }
    }
    return true;
}

bool td_cell_product(struct td_cell_match *m, struct td_value v, struct td_value reset, struct td_value *u)
{
    const struct td_node *n = td_cell_made_by(v, "MatMul");
    if (n == NULL || td_attr_bool(n, "transpose_a") || td_attr_bool(n, "transpose_b") || u->node != NULL) {
        return false;
    }
    const struct td_node *part = reset.node == NULL ? NULL : td_cell_made_by(n->in[0], "Mul");
    bool fits = reset.node == NULL && td_cell_variable(m, n->in[0]) == m->h;
    for (int i = 0; part != NULL && i < 2; i++) {
        fits = fits || (td_cell_same(part->in[i], reset) && td_cell_variable(m, part->in[1 - i]) == m->h);
    }
    *u = fits ? n->in[1] : *u;
    return fits;
}

/* x = list[i] */
static bool take_item(struct td_cell_match *m, struct td_value v, int *items)
{
    const struct td_node *n = v.node;
    if (v.port != 0 || n->op == NULL || n->op->role != TD_ROLE_LIST_ITEM || *items >= 0) {
        return false;
    }
    const int index = td_cell_variable(m, n->in[1]);
    const bool fits = index >= 0 && (m->index < 0 || m->index == index);
    *items = m->v->steady(m->v->loop, n->in[0]);
    m->index = index;
    return fits && *items >= 0;
}

/* An element of a list [rows, 1], as it is or repeated for all units. */
static bool is_listed_mask(struct td_cell_match *m, struct td_value v)
{
    const struct td_node *tile = td_cell_made_by(v, "Tile"),
                         *n = td_cell_behind(tile != NULL ? tile->in[0] : v).node;
    if (n->op == NULL || n->op->role != TD_ROLE_LIST_ITEM || n->out_type[0] != TD_BOOL || m->lengths >= 0) {
        return false;
    }
    const int list = m->v->steady(m->v->loop, n->in[0]), index = td_cell_variable(m, n->in[1]);
    const bool first = m->mask < 0;
    m->mask = first ? list : m->mask;
    m->mask_index = first ? index : m->mask_index;
    return list >= 0 && index >= 0 && list == m->mask && index == m->mask_index;
}

/* i >= lengths, or i < lengths. rank: of lengths, as Select or SelectV2 wants it. */
static bool is_length_mask(struct td_cell_match *m, struct td_value v, int rank, bool *otherwise)
{
    const struct td_node *past = td_cell_made_by(v, "GreaterEqual"),
                         *n = past != NULL ? past : td_cell_made_by(v, "Less");
    if (n == NULL || m->mask >= 0) {
        return false;
    }
    const int index = td_cell_variable(m, n->in[0]), lengths = m->v->steady(m->v->loop, n->in[1]);
    const bool first = m->lengths < 0;
    m->lengths = first ? lengths : m->lengths;
    m->lengths_rank = first ? rank : m->lengths_rank;
    m->mask_index = first ? index : m->mask_index;
    *otherwise = past != NULL;
    return lengths >= 0 && index >= 0 && lengths == m->lengths && index == m->mask_index &&
           rank == m->lengths_rank;
}

bool td_cell_has_mask(const struct td_cell_match *m)
{
    return m->mask >= 0 || m->lengths >= 0;
}

bool td_cell_masked(struct td_cell_match *m, struct td_value v, struct td_value *then, struct td_value *other)
{
    const struct td_node *rows = td_cell_made_by(v, "Select"),
                         *n = rows != NULL ? rows : td_cell_made_by(v, "SelectV2");
    bool otherwise = false;
    if (n == NULL ||
        (!is_listed_mask(m, n->in[0]) && !is_length_mask(m, n->in[0], rows != NULL ? 1 : 2, &otherwise))) {
        return false;
    }
    *then = n->in[otherwise ? 2 : 1];
    *other = n->in[otherwise ? 1 : 2];
    return true;
}

bool td_cell_take_sum(struct td_cell_match *m, struct td_value v, const struct td_cell_wants *w)
{
    struct td_cell_sum s = {.n = 0};
    int n_bias = 0;
    bool x = w->items != NULL, p = w->u != NULL, ok = td_cell_terms(v, &s);
    for (int i = 0; ok && i < s.n; i++) {
        if (x && take_item(m, s.term[i], w->items)) {
            x = false;
        } else if (p && td_cell_product(m, s.term[i], w->reset, w->u)) {
            p = false;
        } else {
            ok = n_bias < 2 && w->bias[n_bias] != NULL && w->bias[n_bias]->node == NULL;
            if (ok) {
                *w->bias[n_bias++] = s.term[i];
            }
        }
    }
    return ok && !x && !p;
}

/* One of n equal parts of a matrix's columns. */
struct part {
    struct td_value of; /* no node: it is none */
    int64_t k;
};

static struct part split_part(const struct td_node *n, int port, int parts)
{
    int64_t axis;
    const bool fits = n->n_out == parts && td_cell_number(n->in[0], &axis) && (axis == 1 || axis == -1);
    return fits ? (struct part){n->in[1], port} : (struct part){.of = td_no_value};
}

/* The second number of a vector of two, whose first the mask leaves open; -1: it does that with both. False:
 * it is something else, or counts from the end. */
static bool second_of(struct td_value v, int64_t mask, int64_t *number)
{
    const struct td_tensor *t = td_known_value(td_cell_behind(v));
    const bool ok = t != NULL && td_dtype_in(t->dtype, TD_SET_INTS) && td_tensor_count(t) == 2 && (mask & 1);
    *number = !ok || (mask & 2) ? -1 : td_tensor_int(t, 1);
    return ok && ((mask & 2) || *number >= 0);
}

/* m[:, k * units : (k + 1) * units], whose units are those of m->units, or become so. */
static struct part slice_part(struct td_cell_match *m, const struct td_node *n, int parts)
{
    const struct part none = {.of = td_no_value};
    const struct td_tensor *by = td_known_value(td_cell_behind(n->in[3]));
    int64_t from, to;
    if (by == NULL || td_tensor_count(by) != 2 || td_tensor_int(by, 0) != 1 || td_tensor_int(by, 1) != 1 ||
        td_attr_int(n, "ellipsis_mask") != 0 || td_attr_int(n, "new_axis_mask") != 0 ||
        td_attr_int(n, "shrink_axis_mask") != 0 ||
        !second_of(n->in[1], td_attr_int(n, "begin_mask"), &from) ||
        !second_of(n->in[2], td_attr_int(n, "end_mask"), &to)) {
        return none;
    }
    from = from < 0 ? 0 : from;
    const int64_t units = to < 0 ? from / (parts - 1) : to - from;
    if (units <= 0 || from % units != 0 || from / units >= parts || (m->units != 0 && m->units != units) ||
        (to < 0 && from != units * (parts - 1))) {
        return none;
    }
    m->units = units;
    return (struct part){n->in[0], from / units};
}

int64_t td_cell_gate(struct td_cell_match *m, struct td_value v, int n, struct td_value *whole)
{
    v = td_cell_behind(v);
    struct part p = {.of = td_no_value};
    if (v.node->op != NULL && strcmp(v.node->op_name, "Split") == 0) {
        p = split_part(v.node, v.port, n);
    } else if (td_cell_made_by(v, "StridedSlice") != NULL) {
        p = slice_part(m, v.node, n);
    }
    if (p.of.node == NULL || (whole->node != NULL && !td_cell_same(*whole, p.of))) {
        return -1;
    }
    *whole = p.of;
    return p.k;
}
