/* kernels/control/recurrence.c - _Recurrence: a loop that is the steps of a recurrent cell, in one call.
 *
 *   rounds     from the limits, before the first step
 *   x          the elements of a list, where they lie
 *   h          of all rounds, when a list collects them: its elements are rows of one tensor
 *   variables  as the last round leaves them
 *
 * What the rule cannot know is looked at here: that the elements are there and of one shape, that sizes fit,
 * that there is a round at all. Where one of these does not hold, or somebody wants to see each value, the
 * loop is run round by round, which knows what to say of it. U is packed when it is met again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/recurrence.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "kernels/control/list_args.h"
#include "kernels/dense/dnnl_pack.h"
#include "kernels/dense/panel_pack.h"
#include "kernels/ops.h"

enum { MOST_ROWS = 64 }; /* of more, a library's product is faster than one with few rows */

/* U, or U2, packed in panels. */
struct packed {
    struct td_dnnl_weights weights;
    bool made;     /* weights */
    int64_t depth; /* of a panel; 0: it stays as it is */
};

struct state {
    struct packed u, u2;
};

/* A run. */
struct loop {
    struct td_call *c;
    const int64_t *cell, *becomes;                       /* the node's attributes */
    const float *numbers;                                /* likewise */
    int64_t first, rounds;                               /* the element that the first round reads */
    const struct td_tensor_list *items, *items2, *masks; /* NULL: none */
    struct td_tensor all_h, c_now, all_o; /* owned: h of the rounds that are kept, c, and what TD_O becomes */
    struct td_recurrence_steps s;
};

/* ------------------------------------------------------------------ what a row prepares */

static void drop(struct packed *p)
{
    if (p->made) {
        td_dnnl_weights_fini(&p->weights);
    }
}

static void release(void *state)
{
    struct state *s = state;
    drop(&s->u);
    drop(&s->u2);
    td_free(s);
}

/* What input number i needs to be packed; left as it is where its shape does not say. */
static enum td_code prepare_one(const struct td_kernel_query *q, int64_t i, struct packed *p,
                                struct td_err *err)
{
    const struct td_shape *shape = i < 0 ? NULL : &q->in[i];
    if (shape == NULL || shape->rank != 2 || !td_shape_known(shape) || td_shape_count(shape) == 0) {
        return TD_OK;
    }
    p->made = td_dnnl_weights_init(&p->weights);
    if (!p->made) {
        return td_no_memory(err, sizeof *p, "a recurrence");
    }
    if (!td_panel_pack_set(&p->weights, shape->dim[0], shape->dim[1], false, &p->depth)) {
        p->depth = 0;
        return TD_OK;
    }
    return td_dnnl_weights_known(&p->weights, q->value[i], err);
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    int count;
    const int64_t *cell = td_attr_ints(q->node, "_cell", &count);
    struct state *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a recurrence");
    }
    enum td_code rc = prepare_one(q, cell[TD_RECURRENCE_U], &s->u, err);
    rc = rc ? rc : prepare_one(q, cell[TD_RECURRENCE_U2], &s->u2, err);
    if (rc) {
        release(s);
        return rc;
    }
    o->state = s;
    o->state_bytes = sizeof *s;
    return TD_OK;
}

/* ------------------------------------------------------------------ does this run fit */

static const struct td_tensor *input(const struct loop *l, int what)
{
    return l->cell[what] < 0 ? NULL : l->c->in[l->cell[what]];
}

static bool is_whole(const struct td_tensor *t)
{
    return td_tensor_count(t) == 1 && td_dtype_in(t->dtype, TD_SET_INTS);
}

/* How many rounds the conditions allow; false: a limit is no number. */
static bool count_rounds(struct loop *l)
{
    int n;
    const int64_t *limits = td_attr_ints(l->c->node, "_limits", &n);
    l->rounds = INT32_MAX;
    for (int i = 0; i + 2 < n; i += 3) {
        const struct td_tensor *from = l->c->in[limits[i]];
        const struct td_tensor *most = limits[i + 1] == 0 ? l->c->in[limits[i + 2]] : NULL;
        int64_t left;
        if (!is_whole(from) || (most != NULL && !is_whole(most)) ||
            __builtin_sub_overflow(most != NULL ? td_tensor_int(most, 0) : limits[i + 2],
                                   td_tensor_int(from, 0), &left)) {
            return false;
        }
        l->rounds = left < l->rounds ? left : l->rounds;
    }
    return n > 0 && l->rounds > 0;
}

static bool is_floats(const struct td_tensor *t, int rank)
{
    return t != NULL && t->dtype == TD_FLOAT && t->shape.rank == rank;
}

static bool is_bias(const struct loop *l, int what, int64_t width)
{
    const struct td_tensor *t = input(l, what);
    return t == NULL || (is_floats(t, 1) && t->shape.dim[0] == width);
}

/* Whether t, where there is one, has the shape of h. */
static bool is_like(const struct td_tensor *t, const struct td_tensor *h)
{
    return t == NULL || (is_floats(t, 2) && td_shape_equal(&t->shape, &h->shape));
}

static bool sizes_fit(struct loop *l)
{
    const struct td_tensor *h = input(l, TD_RECURRENCE_H), *c = input(l, TD_RECURRENCE_C),
                           *u = input(l, TD_RECURRENCE_U), *o = input(l, TD_RECURRENCE_O),
                           *u2 = input(l, TD_RECURRENCE_U2);
    if (!is_floats(h, 2) || !is_floats(u, 2) || !is_like(c, h) || !is_like(o, h) ||
        !is_like(input(l, TD_RECURRENCE_Z), h)) {
        return false;
    }
    const int64_t rows = h->shape.dim[0], units = h->shape.dim[1], width = td_cell_gates(l->s.cell) * units;
    l->s.rows = rows;
    l->s.units = units;
    const int64_t spoken_of = l->cell[TD_RECURRENCE_UNITS];
    return rows > 0 && rows <= MOST_ROWS && units > 0 && (spoken_of == 0 || spoken_of == units) &&
           u->shape.dim[0] == units && u->shape.dim[1] == width && is_bias(l, TD_RECURRENCE_BX, width) &&
           is_bias(l, TD_RECURRENCE_BH, width) && is_bias(l, TD_RECURRENCE_B2, units) &&
           (u2 == NULL || (is_floats(u2, 2) && u2->shape.dim[0] == units && u2->shape.dim[1] == units));
}

/* The elements that will be read of a list are there, all of this kind. NULL: not all of them are. */
static const struct td_tensor_list *items_of(const struct loop *l, int what, enum td_dtype dtype,
                                             const struct td_shape *want)
{
    const struct td_tensor *t = input(l, what);
    const struct td_tensor_list *list =
        t->dtype == TD_VARIANT && td_tensor_count(t) == 1 ? td_tensor_list_at(t, 0) : NULL;
    if (list == NULL || l->first > list->n - l->rounds) {
        return NULL;
    }
    bool ok = true;
    for (int64_t k = 0; ok && k < l->rounds; k++) {
        const struct td_tensor *item = &list->items[l->first + k];
        ok = item->dtype == dtype && td_shape_equal(&item->shape, want);
    }
    return ok ? list : NULL;
}

static bool lengths_fit(const struct loop *l)
{
    const struct td_tensor *t = input(l, TD_RECURRENCE_LENGTHS);
    return t == NULL ||
           (td_dtype_in(t->dtype, TD_SET_INTS) && t->shape.rank == l->cell[TD_RECURRENCE_LENGTHS_RANK] &&
            t->shape.dim[0] == l->s.rows && td_tensor_count(t) == l->s.rows);
}

static bool items_fit(struct loop *l)
{
    const struct td_tensor *index = input(l, TD_RECURRENCE_INDEX);
    const bool two = l->cell[TD_RECURRENCE_ITEMS2] >= 0, behind = l->s.cell == TD_CELL_GRU_BEFORE && !two;
    l->s.x_width = (td_cell_gates(l->s.cell) + behind) * l->s.units;
    l->s.x2_width = two ? l->s.units : l->s.x_width;
    const struct td_shape x = td_shape_matrix(l->s.rows, l->s.x_width);
    const struct td_shape x2 = td_shape_matrix(l->s.rows, l->s.units);
    const struct td_shape mask = td_shape_matrix(l->s.rows, 1);
    const bool is_masked = l->cell[TD_RECURRENCE_MASK] >= 0;
    l->first = is_whole(index) ? td_tensor_int(index, 0) : -1;
    if (l->first < 0) {
        return false;
    }
    l->items = items_of(l, TD_RECURRENCE_ITEMS, TD_FLOAT, &x);
    l->masks = is_masked ? items_of(l, TD_RECURRENCE_MASK, TD_BOOL, &mask) : NULL;
    l->items2 = two ? items_of(l, TD_RECURRENCE_ITEMS2, TD_FLOAT, &x2) : NULL;
    return l->items != NULL && (l->items2 != NULL || !two) && (l->masks != NULL || !is_masked) &&
           lengths_fit(l);
}

/* The lists that collect h have room for it. */
static bool results_fit(const struct loop *l)
{
    bool ok = true;
    for (int i = 0; ok && i < l->c->n_out; i++) {
        const struct td_tensor *t = l->c->in[i];
        const int64_t at = l->becomes[2 * i + 1];
        if (l->becomes[2 * i] == TD_COUNTS) {
            ok = is_whole(t);
        } else if (l->becomes[2 * i] == TD_SETS_AT) {
            const struct td_tensor_list *list =
                t->dtype == TD_VARIANT && td_tensor_count(t) == 1 ? td_tensor_list_at(t, 0) : NULL;
            ok = list != NULL && list->dtype == TD_FLOAT && list != l->items &&
                 (at < 0 ? l->first + l->rounds : at + 1) <= list->n &&
                 td_shape_compatible(&list->shape, &input(l, TD_RECURRENCE_H)->shape);
        }
    }
    return ok;
}

static bool fits(struct loop *l)
{
    return count_rounds(l) && sizes_fit(l) && items_fit(l) && results_fit(l);
}

/* ------------------------------------------------------------------ the steps */

static bool collects(const struct loop *l)
{
    bool yes = false;
    for (int i = 0; i < l->c->n_out; i++) {
        yes = yes || (l->becomes[2 * i] == TD_SETS_AT && l->becomes[2 * i + 1] < 0);
    }
    return yes;
}

/* What the steps need beside inputs and results, each from a multiple of 64 bytes on. */
enum need { X, X2, MASKS, MASK_ROWS, ZEROS, BIAS, P, RH, Q, NEEDS };

static void size_needs(const struct loop *l, size_t bytes[NEEDS])
{
    const size_t rounds = (size_t)l->rounds, rows = (size_t)l->s.rows, units = (size_t)l->s.units,
                 width = (size_t)td_cell_gates(l->s.cell) * units;
    const bool two = l->s.cell == TD_CELL_GRU_BEFORE;
    bytes[X] = bytes[X2] = bytes[MASKS] = rounds * sizeof(void *);
    bytes[MASK_ROWS] = l->cell[TD_RECURRENCE_LENGTHS] >= 0 ? rounds * rows * sizeof(bool) : 0;
    bytes[ZEROS] = bytes[BIAS] = width * sizeof(float);
    bytes[P] = rows * width * sizeof(float);
    bytes[RH] = bytes[Q] = two ? rows * units * sizeof(float) : 0;
    for (int i = 0; i < NEEDS; i++) {
        bytes[i] = (bytes[i] + 63) / 64 * 64;
    }
}

/* Which rows each round counts for, by the rows' lengths. */
static void fill_masks(const struct loop *l, const bool **mask, bool *rows)
{
    const struct td_tensor *lengths = input(l, TD_RECURRENCE_LENGTHS);
    for (int64_t t = 0; t < l->rounds; t++) {
        mask[t] = l->masks != NULL ? l->masks->items[l->first + t].data : rows + t * l->s.rows;
        for (int64_t i = 0; lengths != NULL && i < l->s.rows; i++) {
            rows[t * l->s.rows + i] = l->first + t < td_tensor_int(lengths, i);
        }
    }
}

/* bx, with what is added to each gate. */
static const float *make_bias(const struct loop *l, float *to, const float *zeros)
{
    const struct td_tensor *bx = input(l, TD_RECURRENCE_BX);
    const float *from = bx != NULL ? bx->data : zeros;
    bool any = false;
    for (int k = 0; k < TD_CELL_GATES; k++) {
        any = any || l->numbers[TD_RECURRENCE_ADD + k] != 0.0f;
    }
    if (!any) {
        return from;
    }
    for (int k = 0; k < TD_CELL_GATES; k++) {
        const int64_t at = l->s.place[k] * l->s.units;
        for (int64_t i = at; i < at + l->s.units; i++) {
            to[i] = from[i] + l->numbers[TD_RECURRENCE_ADD + k];
        }
    }
    return to;
}

static const float *bias_or(const struct loop *l, int what, const float *zeros)
{
    const struct td_tensor *t = input(l, what);
    return t != NULL ? t->data : zeros;
}

static enum td_code make_scratch(struct loop *l, struct td_err *err)
{
    size_t bytes[NEEDS], all = 0;
    void *room, *at[NEEDS];
    size_needs(l, bytes);
    for (int i = 0; i < NEEDS; i++) {
        all += bytes[i];
    }
    TD_TRY(td_scratch(l->c, all, &room, err));
    for (int i = 0; i < NEEDS; i++) {
        at[i] = i == 0 ? room : (char *)at[i - 1] + bytes[i - 1];
    }
    memset(at[ZEROS], 0, bytes[ZEROS]);
    const float **x = at[X], **x2 = at[X2];
    const int64_t behind = td_cell_gates(l->s.cell) * l->s.units;
    for (int64_t t = 0; t < l->rounds; t++) {
        x[t] = l->items->items[l->first + t].data;
        x2[t] = l->items2 != NULL ? l->items2->items[l->first + t].data : x[t] + behind;
    }
    l->s.x = x;
    l->s.x2 = x2;
    if (l->masks != NULL || l->cell[TD_RECURRENCE_LENGTHS] >= 0) {
        fill_masks(l, at[MASKS], at[MASK_ROWS]);
        l->s.mask = at[MASKS];
    }
    l->s.bx = make_bias(l, at[BIAS], at[ZEROS]);
    l->s.bh = bias_or(l, TD_RECURRENCE_BH, at[ZEROS]);
    l->s.b2 = bias_or(l, TD_RECURRENCE_B2, at[ZEROS]);
    l->s.p = at[P];
    l->s.rh = memset(at[RH], 0, bytes[RH]);
    l->s.q = at[Q];
    return TD_OK;
}

static enum td_code make_results(struct loop *l, struct td_err *err)
{
    struct td_shape all = td_shape_of_rank(3);
    all.dim[0] = l->s.kept = collects(l) && l->rounds > 2 ? l->rounds : 2;
    all.dim[1] = l->s.rows;
    all.dim[2] = l->s.units;
    TD_TRY(td_tensor_new(&l->all_h, TD_FLOAT, &all, err));
    l->s.h = l->all_h.data;
    l->s.h0 = input(l, TD_RECURRENCE_H)->data;
    if (l->s.cell == TD_CELL_LSTM) {
        const struct td_tensor *c = input(l, TD_RECURRENCE_C);
        TD_TRY(td_tensor_new(&l->c_now, TD_FLOAT, &c->shape, err));
        l->s.c = l->c_now.data;
        memcpy(l->s.c, c->data, td_tensor_bytes(c));
    }
    return TD_OK;
}

/* Input `what`, packed where it is met again. *pack: to be dropped; NULL. */
static enum td_code weights_of(const struct loop *l, int what, struct packed *p, const float **u,
                               int64_t *depth, struct td_dnnl_pack **pack, struct td_err *err)
{
    const struct td_tensor *t = input(l, what);
    *u = t->data;
    if (p != NULL && p->depth > 0) {
        TD_TRY(td_dnnl_weights_meet(&p->weights, t, NULL, pack, err));
    }
    if (*pack != NULL) {
        *u = td_dnnl_pack_data(*pack);
        *depth = p->depth;
    }
    return TD_OK;
}

static enum td_code run_steps(struct loop *l, struct td_err *err)
{
    struct state *state = (struct state *)l->c->state; /* the weights guard themselves */
    struct packed *p = state == NULL ? NULL : &state->u, *p2 = state == NULL ? NULL : &state->u2;
    struct td_dnnl_pack *pack = NULL, *pack2 = NULL;
    enum td_code rc = weights_of(l, TD_RECURRENCE_U, p, &l->s.u, &l->s.depth, &pack, err);
    if (rc == TD_OK && l->cell[TD_RECURRENCE_U2] >= 0) {
        rc = weights_of(l, TD_RECURRENCE_U2, p2, &l->s.u2, &l->s.depth2, &pack2, err);
    }
    if (rc == TD_OK) {
        td_recurrence_run(l->c, &l->s);
        rc = td_stopped(l->c) ? td_stop_error(l->c, err) : TD_OK;
    }
    td_dnnl_pack_drop(pack);
    td_dnnl_pack_drop(pack2);
    return rc;
}

/* ------------------------------------------------------------------ what the loop leaves */

/* Whether the lists collect something else than h. */
static bool has_outputs(const struct loop *l)
{
    return l->cell[TD_RECURRENCE_O] >= 0 || l->cell[TD_RECURRENCE_Z] >= 0;
}

/* The masked output behind each round that is kept: h, but for rows that did not count. What a row was stays
 * from the last round that did, as h does, so that it differs from h before the first one alone. */
static enum td_code make_outputs(struct loop *l, struct td_err *err)
{
    const size_t row = (size_t)l->s.units * sizeof(float), all = (size_t)l->s.rows * row;
    const struct td_tensor *always = input(l, TD_RECURRENCE_Z);
    const char *else_ = (always != NULL ? always : input(l, TD_RECURRENCE_O))->data;
    TD_TRY(td_tensor_copy(&l->all_o, &l->all_h, err));
    for (int64_t i = 0; i < l->s.rows; i++) {
        bool counted = false;
        for (int64_t t = 0; t < l->rounds; t++) {
            counted = l->s.mask[t][i] || (counted && always == NULL);
            if (!counted && t >= l->rounds - l->s.kept) {
                memcpy((char *)l->all_o.data + (size_t)(t % l->s.kept) * all + (size_t)i * row,
                       else_ + (size_t)i * row, row);
            }
        }
    }
    return TD_OK;
}

/* What all_h or all_o has of this round. */
static void kept_of(const struct loop *l, const struct td_tensor *all, int64_t round, struct td_tensor *out)
{
    td_list_args_row(out, all, round % l->s.kept);
}

static enum td_code put_h(struct loop *l, int i, struct td_tensor *handle, struct td_err *err)
{
    const int64_t at = l->becomes[2 * i + 1];
    const struct td_tensor *all = has_outputs(l) ? &l->all_o : &l->all_h;
    struct td_tensor_list *list;
    enum td_code rc = TD_OK;
    TD_TRY(td_list_args_take(l->c, i, TD_FLOAT, handle, &list, err));
    for (int64_t t = at < 0 ? 0 : l->rounds - 1; rc == TD_OK && t < l->rounds; t++) {
        struct td_tensor row;
        kept_of(l, all, t, &row);
        rc = td_tensor_list_set(list, at < 0 ? l->first + t : at, &row, err);
        td_tensor_clear(&row);
    }
    if (rc) {
        td_tensor_clear(handle);
    }
    return rc;
}

static enum td_code count_up(const struct loop *l, int i, struct td_tensor *out, struct td_err *err)
{
    const struct td_tensor *before = l->c->in[i];
    const uint64_t now =
        (uint64_t)td_tensor_int(before, 0) + (uint64_t)l->becomes[2 * i + 1] * (uint64_t)l->rounds;
    TD_TRY(td_tensor_new(out, before->dtype, &before->shape, err));
    memcpy(out->data, &now,
           td_dtype_size(out->dtype)); /* wraps, as the additions would; bytes from the lowest */
    return TD_OK;
}

static enum td_code put_variable(struct loop *l, int i, struct td_err *err)
{
    struct td_tensor now = {0};
    switch ((enum td_becomes)l->becomes[2 * i]) {
    case TD_STAYS:
        TD_TRY(td_keep(l->c, i, &now, err));
        break;
    case TD_COUNTS:
        TD_TRY(count_up(l, i, &now, err));
        break;
    case TD_H:
        kept_of(l, &l->all_h, l->rounds - 1, &now);
        break;
    case TD_O:
        kept_of(l, &l->all_o, l->rounds - 1, &now);
        break;
    case TD_C:
        td_tensor_ref(&now, &l->c_now);
        break;
    case TD_SETS_AT:
        TD_TRY(put_h(l, i, &now, err));
        break;
    }
    td_out_move(l->c, i, &now);
    return TD_OK;
}

static enum td_code run_whole(struct loop *l, struct td_err *err)
{
    TD_TRY(make_scratch(l, err));
    TD_TRY(make_results(l, err));
    l->s.steps = l->rounds;
    TD_TRY(run_steps(l, err));
    if (has_outputs(l)) {
        TD_TRY(make_outputs(l, err));
    }
    for (int i = 0; i < l->c->n_out; i++) {
        TD_TRY(put_variable(l, i, err));
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    int count;
    struct loop l = {.c = c};
    l.cell = td_attr_ints(c->node, "_cell", &count);
    l.becomes = td_attr_ints(c->node, "_becomes", &count);
    l.s.cell = (enum td_cell)l.cell[TD_RECURRENCE_CELL];
    l.numbers = td_attr_floats(c->node, "_numbers", &count);
    l.s.gate = (enum td_squash)l.cell[TD_RECURRENCE_GATE];
    l.s.state = (enum td_squash)l.cell[TD_RECURRENCE_STATE];
    l.s.slope = l.numbers[TD_RECURRENCE_SLOPE];
    l.s.offset = l.numbers[TD_RECURRENCE_OFFSET];
    memcpy(l.s.place, l.cell + TD_RECURRENCE_PLACE, sizeof l.s.place);
    if (td_watched(c) || !fits(&l)) {
        return td_run_loop(c, err);
    }
    const enum td_code rc = run_whole(&l, err);
    td_tensor_clear(&l.all_h);
    td_tensor_clear(&l.c_now);
    td_tensor_clear(&l.all_o);
    return rc;
}

static const char *refuse_made_up(const struct td_node *n)
{
    return n->loop == NULL ? "only the compiler makes nodes of this op" : NULL;
}

static const struct td_kernel kernels[] = {
    {.name = "recurrence.own",
     .device = TD_CPU,
     .library = TD_LIB_OWN,
     .refuse = refuse_made_up,
     .prepare = prepare,
     .release = release,
     .run = run},
    {.name = "loop", .device = TD_CPU, .refuse = refuse_made_up, .run = td_run_loop},
    {.name = NULL}};

const struct td_op td_ops_recurrence[] = {
    {.name = "_Recurrence",
     .sig = "(variables:T) -> (after:T) {T:list(type)}",
     .flags = TD_OP_KEEPS | TD_OP_STATEFUL | TD_OP_READS | TD_OP_NO_FOLD,
     .role = TD_ROLE_RECURRENCE,
     .loop_rule = td_recurrence_rule,
     .kernels = kernels,
     .grad_missing = "made by the compiler, after gradients"},
    {.name = NULL},
};
