/* proto/hlo_graph/hlo_scatter.c - updates of a tensor at computed places.
 *
 *     operand [..]   indices [batch.., n]   updates [batch.., window..]
 *
 * Both are brought to rows: the operand [N, rest..] and the updates [n, rest..] with a row's number each.
 * Where mapped axes have windows of size 1 and all others are whole, rows are those of the mapped axes;
 * else every element is a row of its own. A window that does not fit is dropped, as XLA drops it: its rows
 * get number -1, which segments leave out, or, where rows are replaced, that of a row behind the last,
 * which is cut off again.
 *
 *   add, subtract, multiply                  the operand and UnsortedSegment.. of the updates
 *   replacement, maximum, minimum            TensorScatterUpdate, ..Max, ..Min; of equal places the last
 *                                            update stays. Booleans are bytes there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_body.h"
#include "proto/hlo_graph/hlo_gather.h"
#include "proto/hlo_graph/hlo_rules.h"

struct rows {
    struct td_value operand, updates; /* [N, rest..], [n, rest..] */
    struct td_value number;           /* [n], where the window fits */
    struct td_value fits;             /* [n], bool; no node: all do */
    struct td_value count;            /* N */
    int64_t perm[TD_MAX_RANK];        /* of the operand's axes, mapped ones in front */
    struct td_value dims;             /* the operand's shape so permuted */
};

/* Whether the corner of each window, [batch..], is one where the window lies in the operand. */
static struct td_value window_fits(struct td_hlo_frame *f, const struct td_hlo_places *p)
{
    const struct td_value low = td_hlo_2(f, "GreaterEqual", p->index, td_hlo_i32(f, 0));
    const struct td_value high = td_hlo_2(f, "LessEqual", p->index, td_hlo_last_corner(f, p));
    return td_hlo_2(f, "All", td_hlo_2(f, "LogicalAnd", low, high), td_hlo_i32(f, -1));
}

static struct td_value flat(struct td_hlo_frame *f, struct td_value x)
{
    const int64_t all = -1;
    return td_hlo_reshape(f, x, &all, 1);
}

/* The sizes of the axes perm[from..to) of v, with `first` in front; int32s. */
static struct td_value sizes(struct td_hlo_frame *f, const struct td_hlo_value *v, const int64_t *perm,
                             int from, int to, int64_t first)
{
    int64_t known[TD_MAX_RANK + 1] = {first};
    struct td_value part[TD_MAX_RANK + 1] = {td_hlo_i32(f, first)};
    bool all = true;
    for (int i = from; i < to; i++) {
        known[1 + i - from] = td_hlo_shape(v)->dim[perm[i]];
        all = all && known[1 + i - from] >= 0;
    }
    if (all) {
        return td_hlo_i32s(f, known, 1 + to - from);
    }
    for (int i = from; i < to; i++) {
        part[1 + i - from] = td_hlo_dim(f, v, (int)perm[i]);
    }
    return td_hlo_pack(f, part, 1 + to - from, 0);
}

static void whole_rows(struct td_hlo_frame *f, const struct td_hlo_places *p, struct rows *r)
{
    struct td_value step[TD_MAX_RANK], mapped[TD_MAX_RANK];
    int64_t window[TD_MAX_RANK];
    int at = 0, n = 0;
    for (int i = 0; i < p->n_map; i++) {
        r->perm[at++] = p->map[i];
    }
    for (int i = 0; i < p->n_batch; i++) {
        window[n++] = p->batch_of[i];
    }
    for (int i = 0; i < p->rank; i++) {
        if (p->mapped[i] && p->window_of[i] >= 0) {
            window[n++] = p->window_of[i]; /* 1 long: goes with the batch axes */
        }
    }
    for (int i = 0; i < p->rank; i++) {
        if (!p->mapped[i]) {
            r->perm[at++] = i;
            window[n++] = p->window_of[i];
        }
    }
    const struct td_value x = td_hlo_transpose(f, td_hlo_whole(f, p->operand), r->perm, p->rank);
    const struct td_value u = td_hlo_transpose(f, td_hlo_whole(f, p->windows), window, n);
    const struct td_value shape = sizes(f, p->operand, r->perm, p->n_map, p->rank, -1);
    r->operand = td_hlo_2(f, "Reshape", x, shape);
    r->updates = td_hlo_2(f, "Reshape", u, shape);
    struct td_value number = td_hlo_i32(f, 1); /* rows between neighbours along a mapped axis */
    for (int i = p->n_map - 1; i >= 0; i--) {
        step[i] = number;
        number = td_hlo_2(f, "Mul", number, td_hlo_dim(f, p->operand, (int)p->map[i]));
        mapped[i] = step[i];
    }
    r->count = number;
    const struct td_value scaled = td_hlo_2(f, "Mul", p->index, td_hlo_pack(f, mapped, p->n_map, 0));
    r->number = flat(f, td_hlo_2(f, "Sum", scaled, td_hlo_i32(f, -1)));
    r->fits = flat(f, window_fits(f, p));
}

static void single_elements(struct td_hlo_frame *f, const struct td_hlo_places *p, struct rows *r)
{
    const struct td_value all = td_hlo_dims(f, p->windows);
    struct td_value fits = td_no_value;
    if (p->n_map > 0) {
        const int rank = td_hlo_shape(p->windows)->rank;
        fits = window_fits(f, p);
        for (int i = 0, batch = 0; i < rank; i++) {
            const bool is_batch = batch < p->n_batch && p->batch_of[batch] == i;
            fits = is_batch ? fits : td_hlo_2(f, "ExpandDims", fits, td_hlo_i32(f, i));
            batch += is_batch;
        }
        fits = flat(f, td_hlo_2(f, "BroadcastTo", fits, all));
    }
    for (int i = 0; i < p->rank; i++) {
        r->perm[i] = i;
    }
    r->operand = flat(f, td_hlo_whole(f, p->operand));
    r->updates = flat(f, td_hlo_whole(f, p->windows));
    r->number = flat(f, td_hlo_2(f, "BroadcastTo", td_hlo_element_numbers(f, p, p->index), all));
    r->fits = fits;
    const int64_t count = td_shape_count(td_hlo_shape(p->operand));
    r->count = count >= 0 ? td_hlo_i32(f, count) : td_hlo_1(f, "Size", r->operand);
}

/* ------------------------------------------------------------------ combining */

static bool is_zero(struct td_hlo_frame *f, const struct td_hlo_value *v)
{
    const struct td_hlo_made *m = td_hlo_part(f, v);
    static const struct td_hlo_reducer zero = {.from = TD_HLO_FROM_ZERO};
    return f->e.rc == TD_OK && m->rank == 0 && td_hlo_is_neutral(&zero, m->part);
}

static struct td_value accumulated(struct td_hlo_frame *f, const struct td_hlo_reducer *r,
                                   const struct rows *x, bool from_zero)
{
    const struct td_value number =
        x->fits.node == NULL ? x->number : td_hlo_3(f, "SelectV2", x->fits, x->number, td_hlo_i32(f, -1));
    const struct td_value made = td_hlo_3(f, r->segments, x->updates, number, x->count);
    return from_zero && strcmp(r->two, "AddV2") == 0 ? made : td_hlo_2(f, r->two, x->operand, made);
}

/* A row more is behind the last while rows are replaced, by the op `name`. */
static struct td_value replaced(struct td_hlo_frame *f, const struct rows *x, int rest, const char *name)
{
    int64_t pads[2 * TD_MAX_RANK] = {0, 1};
    const int64_t shape[2] = {1 + rest, 2};
    const struct td_value index =
        x->fits.node == NULL ? x->number : td_hlo_3(f, "SelectV2", x->fits, x->number, x->count);
    const struct td_value more =
        td_hlo_3(f, "PadV2", x->operand, td_hlo_reshape(f, td_hlo_i32s(f, pads, 2 * (1 + rest)), shape, 2),
                 td_hlo_zero(f, td_dtype_of(x->operand)));
    const struct td_value y =
        td_hlo_3(f, name, more, td_hlo_2(f, "ExpandDims", index, td_hlo_i32(f, 1)), x->updates);
    return td_hlo_cut(f, y, 0, 0, -1, 1);
}

static void put_back(struct td_hlo_frame *f, const struct td_hlo_op *op, const struct td_hlo_places *p,
                     const struct rows *r, struct td_value rows)
{
    const int64_t first = r->perm[0];
    int64_t back[TD_MAX_RANK] = {0};
    for (int i = 0; i < p->rank; i++) {
        back[r->perm[i]] = i;
    }
    const int64_t size = p->rank == 0 ? -1 : td_hlo_shape(p->operand)->dim[first];
    struct td_value dims = sizes(f, p->operand, r->perm, 1, p->rank, size);
    if (p->rank == 0) {
        dims = td_hlo_i32s(f, NULL, 0);
    } else if (size < 0 && td_known_value(dims) == NULL) {
        struct td_value all[TD_MAX_RANK];
        for (int i = 0; i < p->rank; i++) {
            all[i] = td_hlo_dim(f, p->operand, (int)r->perm[i]);
        }
        dims = td_hlo_pack(f, all, p->rank, 0);
    }
    td_hlo_put(f, op, 0, td_hlo_transpose(f, td_hlo_2(f, "Reshape", rows, dims), back, p->rank));
}

/* What the body makes of old and new; NULL: something else. */
static const struct td_hlo_reducer *combines(const struct td_hlo_block *b, enum td_dtype dtype)
{
    static const struct td_hlo_reducer subtracts = {"Sum", "Sub", NULL, "UnsortedSegmentSum",
                                                    TD_HLO_FROM_ZERO};
    if (strcmp(td_hlo_body_op(b), "subtract") == 0) {
        return dtype != TD_BOOL && b->ops[0]->in[0] == b->args[0] ? &subtracts : NULL;
    }
    return td_hlo_reducer(b, dtype);
}

/* The op that puts new rows in the place of old ones, all or those that win; NULL: none does. */
static const char *replaces_by(const struct td_hlo_block *b, const struct td_hlo_reducer *by)
{
    const char *over = by == NULL ? "" : by->over;
    return td_hlo_body_returns(b) == 1                            ? "TensorScatterUpdate"
           : strcmp(over, "Max") == 0 || strcmp(over, "Any") == 0 ? "TensorScatterMax"
           : strcmp(over, "Min") == 0 || strcmp(over, "All") == 0 ? "TensorScatterMin"
                                                                  : NULL;
}

void td_hlo_scatter(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    static const struct td_hlo_places_names names = {"inserted_window_dims", "input_batching_dims",
                                                     "scatter_indices_batching_dims",
                                                     "scatter_dims_to_operand_dims", "update_window_dims"};
    if (op->n_in != 3 || op->n_out != 1 || op->n_regions < 1) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "%d operands at once", (op->n_in - 1) / 2);
        return;
    }
    const struct td_hlo_reducer *by = combines(&op->regions[0], op->in[0]->type.dtype);
    const char *replaces = replaces_by(&op->regions[0], by);
    struct td_hlo_places p = {.operand = op->in[0], .indices = op->in[1], .windows = op->in[2]};
    struct rows r = {.perm = {0}};
    if (by == NULL && replaces == NULL) {
        td_hlo_fail(f, TD_UNIMPLEMENTED,
                    "its body '%s' is not add, subtract, multiply, maximum, minimum or a replacement",
                    td_hlo_body_op(&op->regions[0]));
    }
    if (f->e.rc || !td_hlo_places(f, op, &names, &p)) {
        return;
    }
    const bool rows = td_hlo_whole_rows(&p) && p.n_map > 0;
    if (rows) {
        whole_rows(f, &p, &r);
    } else {
        single_elements(f, &p, &r);
    }
    if (replaces == NULL) {
        put_back(f, op, &p, &r, accumulated(f, by, &r, is_zero(f, op->in[0])));
        return;
    }
    const enum td_dtype t = op->in[0]->type.dtype;
    if (t == TD_BOOL) {
        r.operand = td_hlo_cast(f, r.operand, TD_UINT8);
        r.updates = td_hlo_cast(f, r.updates, TD_UINT8);
    }
    const struct td_value y = replaced(f, &r, rows ? p.rank - p.n_map : 0, replaces);
    put_back(f, op, &p, &r, td_hlo_cast(f, y, t));
}
