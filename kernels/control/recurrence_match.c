/* kernels/control/recurrence_match.c - whether a loop is the steps of a cell that
 * kernels/dense/recurrence_steps.h knows.
 *
 *   condition   i < n, or several of these, all true            i, n: variables; n stays, or is a number
 *   body        x = list[i]      p = MatMul(h, U)               list, U, b: the same in every round
 *               s = x + p + b    s_i s_f s_g s_o = Split(s)     .. and on to h' and c' of one of the cells
 *               h = h'   c = c'   i = i + 1   outputs[i] = h'
 *
 * Control edges order nothing: the loop has no effects. What a variable becomes must be one of enum
 * td_becomes: a loop that computes anything else is left as it is. The cell is recurrence_cells.c's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/graph/emit.h"
#include "kernels/control/recurrence_cells.h"
#include "kernels/control/recurrence_terms.h"

enum { CONDITIONS = 4 };

/* ------------------------------------------------------------------ what becomes of the variables */

/* h in rows that count, and always the same in others: an output that no variable keeps. */
static bool is_output(struct td_cell_match *m, struct td_value v)
{
    struct td_value then, other;
    if (m->o >= 0 || !td_cell_has_mask(m) || !td_cell_masked(m, v, &then, &other) ||
        !td_cell_same(then, m->new_h)) {
        return false;
    }
    const int z = m->v->steady(m->v->loop, other);
    const bool ok = z >= 0 && (m->z < 0 || m->z == z);
    m->z = ok ? z : m->z;
    return ok;
}

/* The list that v makes of the one that variable i is, by putting h into it. */
static bool put_set(struct td_cell_match *m, int i, const struct td_node *set, int64_t *at)
{
    const struct td_value out = !td_cell_has_mask(m) ? m->new_h : m->v->body_fetches[m->o >= 0 ? m->o : m->h];
    const bool here = td_cell_variable(m, set->in[1]) == m->index,
               as_variable = td_cell_same(set->in[2], out);
    *at = -1;
    m->sets_h |= as_variable && m->o < 0;
    m->sets_output |= !as_variable;
    return td_cell_variable(m, set->in[0]) == i && (as_variable || is_output(m, set->in[2])) &&
           !(m->sets_h && m->sets_output) && (here || (td_cell_number(set->in[1], at) && *at >= 0));
}

static bool put_becomes(struct td_cell_match *m, int i, int64_t out[2])
{
    const struct td_value now = m->v->body_fetches[i];
    const struct td_node *sum = td_cell_sum_of_two(now), *set = td_cell_made_by(now, "TensorListSetItem");
    out[1] = 0;
    if (td_cell_variable(m, now) == i) {
        out[0] = TD_STAYS;
    } else if (i == m->h || (!td_cell_has_mask(m) && td_cell_same(now, m->new_h))) {
        out[0] = TD_H;
    } else if (m->c >= 0 && (i == m->c || (!td_cell_has_mask(m) && td_cell_same(now, m->new_c)))) {
        out[0] = TD_C;
    } else if (i == m->o) {
        out[0] = TD_O;
    } else if (set != NULL) {
        out[0] = TD_SETS_AT;
        return put_set(m, i, set, &out[1]);
    } else if (sum != NULL) {
        const int at = td_cell_variable(m, sum->in[0]) == i ? 1 : 0;
        out[0] = TD_COUNTS;
        return td_cell_variable(m, sum->in[1 - at]) == i && td_cell_number(sum->in[at], &out[1]);
    } else {
        return false;
    }
    return true;
}

static bool counts_by_one(const int64_t *becomes, int i)
{
    return becomes[2 * i] == TD_COUNTS && becomes[2 * i + 1] == 1;
}

static bool put_all_becomes(struct td_cell_match *m, int64_t *becomes)
{
    bool ok = true;
    for (int i = 0; ok && i < m->v->n_vars; i++) {
        ok = put_becomes(m, i, becomes + (size_t)2 * (size_t)i);
    }
    return ok && counts_by_one(becomes, m->index);
}

/* ------------------------------------------------------------------ the condition */

static int cond_variable(const struct td_cell_match *m, struct td_value v)
{
    for (int i = 0; i < m->v->n_in; i++) {
        if (td_cell_same(v, m->v->cond_feeds[i])) {
            return i;
        }
    }
    return -1;
}

/* v: a variable that counts is below a number, or below what stays. */
static bool put_limit(const struct td_cell_match *m, struct td_value v, const int64_t *becomes, int64_t to[3])
{
    const struct td_node *less = td_cell_made_by(v, "Less");
    if (less == NULL) {
        return false;
    }
    const int i = cond_variable(m, less->in[0]), most = cond_variable(m, less->in[1]);
    const bool stays = most >= m->v->n_vars || (most >= 0 && becomes[2 * most] == TD_STAYS);
    to[0] = i;
    to[1] = most < 0;
    to[2] = most;
    return i >= 0 && i < m->v->n_vars && counts_by_one(becomes, i) &&
           (most >= 0 ? stays : td_cell_number(less->in[1], &to[2]));
}

/* v, of the condition: several of these, all of them true. */
static bool put_limits(const struct td_cell_match *m, struct td_value v, const int64_t *becomes,
                       int64_t *limits, int *n)
{
    struct td_value open[CONDITIONS] = {v}; /* not looked at yet, the next one last */
    bool ok = true;
    *n = 0;
    for (int n_open = 1; ok && n_open > 0;) {
        const struct td_value next = open[--n_open];
        const struct td_node *both = td_cell_made_by(next, "LogicalAnd");
        if (both == NULL) {
            ok = put_limit(m, next, becomes, limits + (size_t)3 * (size_t)(*n)++);
        } else {
            ok = *n + n_open + 2 <= CONDITIONS;
            for (int i = 1; ok && i >= 0; i--) {
                open[n_open++] = both->in[i];
            }
        }
    }
    return ok;
}

/* ------------------------------------------------------------------ the rule */

/* The input that a value of the cell enters by; -1: there is none, which is right for what may be missing. */
static bool put_input(const struct td_cell_match *m, struct td_value v, bool may_miss, int64_t *out)
{
    *out = v.node == NULL ? -1 : m->v->steady(m->v->loop, v);
    return *out >= 0 || (may_miss && v.node == NULL);
}

/* What of a match is no input. */
static void put_cell(const struct td_cell_match *m, int64_t *cell, float *numbers)
{
    cell[TD_RECURRENCE_CELL] = m->cell;
    cell[TD_RECURRENCE_ITEMS] = m->items;
    cell[TD_RECURRENCE_ITEMS2] = m->items2;
    cell[TD_RECURRENCE_INDEX] = m->index;
    cell[TD_RECURRENCE_H] = m->h;
    cell[TD_RECURRENCE_C] = m->cell == TD_CELL_LSTM ? m->c : -1;
    cell[TD_RECURRENCE_O] = m->o;
    cell[TD_RECURRENCE_Z] = m->z;
    cell[TD_RECURRENCE_MASK] = m->mask;
    cell[TD_RECURRENCE_LENGTHS] = m->lengths;
    cell[TD_RECURRENCE_LENGTHS_RANK] = m->lengths_rank;
    cell[TD_RECURRENCE_GATE] = m->gate;
    cell[TD_RECURRENCE_STATE] = m->state;
    cell[TD_RECURRENCE_UNITS] = m->units;
    memcpy(cell + TD_RECURRENCE_PLACE, m->place, sizeof m->place);
    memcpy(numbers + TD_RECURRENCE_ADD, m->add, sizeof m->add);
    numbers[TD_RECURRENCE_SLOPE] = m->slope;
    numbers[TD_RECURRENCE_OFFSET] = m->offset;
}

int td_recurrence_rule(struct td_arena *arena, const struct td_loop_view *v, struct td_attr *attrs)
{
    struct td_cell_match m;
    int n_limits;
    const size_t room = TD_RECURRENCE_INTS + (size_t)3 * CONDITIONS + (size_t)2 * (size_t)v->n_vars;
    int64_t *cell = td_arena_alloc(arena, room, sizeof *cell);
    float *numbers = td_arena_alloc(arena, TD_RECURRENCE_NUMBERS, sizeof *numbers);
    if (cell == NULL || numbers == NULL || !td_cell_match(&m, v)) {
        return 0;
    }
    int64_t *limits = cell + TD_RECURRENCE_INTS, *becomes = limits + (size_t)3 * CONDITIONS;
    if (!put_all_becomes(&m, becomes) || !put_limits(&m, v->cond, becomes, limits, &n_limits) ||
        !put_input(&m, m.u, false, &cell[TD_RECURRENCE_U]) ||
        !put_input(&m, m.u2, m.cell != TD_CELL_GRU_BEFORE, &cell[TD_RECURRENCE_U2]) ||
        !put_input(&m, m.bx, true, &cell[TD_RECURRENCE_BX]) ||
        !put_input(&m, m.bh, true, &cell[TD_RECURRENCE_BH]) ||
        !put_input(&m, m.b2, true, &cell[TD_RECURRENCE_B2])) {
        return 0;
    }
    put_cell(&m, cell, numbers);
    attrs[0] = (struct td_attr)TD_ATTR_OF_INTS("_cell", cell, TD_RECURRENCE_INTS);
    attrs[1] = (struct td_attr)TD_ATTR_OF_INTS("_limits", limits, 3 * n_limits);
    attrs[2] = (struct td_attr)TD_ATTR_OF_INTS("_becomes", becomes, 2 * v->n_vars);
    attrs[3] = (struct td_attr){
        .name = "_numbers", .kind = TD_ATTR_FLOAT, .is_list = true, .n = TD_RECURRENCE_NUMBERS, .f = numbers};
    return 4;
}
