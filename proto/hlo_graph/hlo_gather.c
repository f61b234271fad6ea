/* proto/hlo_graph/hlo_gather.c - windows of a tensor at computed places.
 *
 *   one axis, whole otherwise        GatherV2, with batch axes where those are in front (embeddings,
 *                                    take_along_axis)
 *   single places, whole otherwise   GatherNd of the operand with the mapped axes in front
 *   everything else                  the number of each element in the flat operand is computed: sums of
 *                                    corners and of counts along the window's axes; one GatherV2
 *                                    reads them
 *
 * Corners are moved so far that windows fit, as StableHLO has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_gather.h"

#include "proto/hlo_graph/hlo_rules.h"

/* ------------------------------------------------------------------ reading the attributes */

static void note_axes(struct td_hlo_places *p, const int64_t *inserted, int n_inserted)
{
    for (int i = 0; i < p->rank; i++) {
        p->window_of[i] = -1;
    }
    for (int i = 0; i < n_inserted; i++) {
        p->inserted[inserted[i]] = true;
    }
    for (int i = 0; i < p->n_batching; i++) {
        p->inserted[p->batching[i]] = true;
    }
    for (int i = 0; i < p->n_map; i++) {
        p->mapped[p->map[i]] = true;
    }
}

/* Which axes of the windows' tensor are whose, and how long windows are. */
static bool match_axes(struct td_hlo_frame *f, struct td_hlo_places *p)
{
    const struct td_shape *x = td_hlo_shape(p->operand), *w = td_hlo_shape(p->windows);
    bool of_window[TD_MAX_RANK] = {0};
    int at = 0, batch = 0;
    for (int i = 0; i < p->rank; i++) {
        p->size[i] = 1;
        if (!p->inserted[i]) {
            if (at == p->n_window) {
                td_hlo_fail(f, TD_INVALID_ARGUMENT, "its windows have %d axes, the operand leaves more",
                            p->n_window);
                return false;
            }
            p->window_of[i] = (int)p->window[at];
            of_window[p->window[at]] = true;
            p->size[i] = w->dim[p->window[at++]];
        }
        p->full[i] = p->size[i] == x->dim[i];
    }
    for (int i = 0; i < w->rank; i++) {
        if (!of_window[i] && batch < TD_MAX_RANK) {
            p->batch_of[batch++] = i;
        }
    }
    if (at != p->n_window || batch != p->n_batch) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "%d axes of windows and %d of indices do not make up rank %d", at,
                    p->n_batch, w->rank);
    }
    return f->e.rc == TD_OK;
}

/* Indices with the vector's axis last. */
static struct td_value vectors_last(struct td_hlo_frame *f, const struct td_hlo_places *p)
{
    const int rank = td_hlo_shape(p->indices)->rank;
    const struct td_value index = td_hlo_index(f, td_hlo_whole(f, p->indices));
    int64_t perm[TD_MAX_RANK];
    int at = 0;
    if (p->vector == rank) {
        return td_hlo_2(f, "ExpandDims", index, td_hlo_i32(f, rank));
    }
    for (int i = 0; i < rank; i++) {
        if (i != p->vector) {
            perm[at++] = i;
        }
    }
    perm[at] = p->vector;
    return td_hlo_transpose(f, index, perm, rank);
}

bool td_hlo_places(struct td_hlo_frame *f, const struct td_hlo_op *op,
                   const struct td_hlo_places_names *names, struct td_hlo_places *p)
{
    const int rank = p->rank = td_hlo_shape(p->operand)->rank;
    const int index_rank = td_hlo_shape(p->indices)->rank, window_rank = td_hlo_shape(p->windows)->rank;
    int n_inserted, n;
    const int64_t *inserted = td_hlo_axes(f, op, names->inserted, rank, &n_inserted);
    p->batching = td_hlo_axes(f, op, names->batching, rank, &p->n_batching);
    p->indices_batching = td_hlo_axes(f, op, names->indices_batching, index_rank, &n);
    p->map = td_hlo_axes(f, op, names->map, rank, &p->n_map);
    p->window = td_hlo_axes(f, op, names->window, window_rank, &p->n_window);
    const int64_t vector = td_hlo_int(op, "index_vector_dim", index_rank);
    if (vector < 0 || vector > index_rank) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "index_vector_dim %lld", (long long)vector);
        return false;
    }
    p->vector = (int)vector;
    const int64_t numbers = vector < index_rank ? td_hlo_shape(p->indices)->dim[vector] : 1;
    p->n_batch = index_rank - (vector < index_rank);
    if (f->e.rc == TD_OK &&
        (n != p->n_batching || (numbers >= 0 && numbers != p->n_map) || window_rank < p->n_window)) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "index vectors of %lld numbers for %d axes", (long long)numbers,
                    p->n_map);
    }
    if (f->e.rc) {
        return false;
    }
    note_axes(p, inserted, n_inserted);
    p->index = vectors_last(f, p);
    return match_axes(f, p);
}

/* ------------------------------------------------------------------ arithmetic of places */

static struct td_value window_size(struct td_hlo_frame *f, const struct td_hlo_places *p, int axis)
{
    return p->size[axis] >= 0      ? td_hlo_i32(f, p->size[axis])
           : p->sizes.node != NULL ? td_hlo_pick(f, p->sizes, axis)
                                   : td_hlo_dim(f, p->windows, p->window_of[axis]);
}

struct td_value td_hlo_last_corner(struct td_hlo_frame *f, const struct td_hlo_places *p)
{
    struct td_value last[TD_MAX_RANK];
    int64_t known[TD_MAX_RANK];
    bool all = true;
    for (int i = 0; i < p->n_map; i++) {
        const int64_t size = td_hlo_shape(p->operand)->dim[p->map[i]];
        all = all && size >= 0 && p->size[p->map[i]] >= 0;
        known[i] = size - p->size[p->map[i]];
    }
    if (all) {
        return td_hlo_i32s(f, known, p->n_map);
    }
    for (int i = 0; i < p->n_map; i++) {
        const int axis = (int)p->map[i];
        last[i] = td_hlo_2(f, "Sub", td_hlo_dim(f, p->operand, axis), window_size(f, p, axis));
    }
    return td_hlo_pack(f, last, p->n_map, 0);
}

bool td_hlo_whole_rows(const struct td_hlo_places *p)
{
    for (int i = 0; i < p->rank; i++) {
        if (p->mapped[i] ? p->size[i] != 1 : !p->full[i] || p->inserted[i]) {
            return false;
        }
    }
    return p->n_batching == 0;
}

void td_hlo_steps(struct td_hlo_frame *f, const struct td_hlo_value *v, struct td_value *step)
{
    const struct td_shape *s = td_hlo_shape(v);
    int64_t known = 1;
    struct td_value at = td_hlo_i32(f, 1);
    for (int i = s->rank - 1; i >= 0; i--) {
        step[i] = at;
        if (known >= 0 && s->dim[i] >= 0 && td_i64_mul(known, s->dim[i], &known)) {
            at = td_hlo_i32(f, known);
        } else {
            known = -1;
            at = td_hlo_2(f, "Mul", at, td_hlo_dim(f, v, i));
        }
    }
}

/* The vector along axis `at` of a tensor of that rank that is 1 long otherwise. */
static struct td_value along(struct td_hlo_frame *f, struct td_value v, int at, int rank)
{
    int64_t shape[TD_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        shape[i] = i == at ? -1 : 1;
    }
    return td_hlo_reshape(f, v, shape, rank);
}

static struct td_value counted(struct td_hlo_frame *f, struct td_value size, struct td_value step)
{
    return td_hlo_2(f, "Mul", td_hlo_3(f, "Range", td_hlo_i32(f, 0), size, td_hlo_i32(f, 1)), step);
}

struct td_value td_hlo_element_numbers(struct td_hlo_frame *f, const struct td_hlo_places *p,
                                       struct td_value index)
{
    const int rank = td_hlo_shape(p->windows)->rank;
    struct td_value step[TD_MAX_RANK], mapped[TD_MAX_RANK], sum;
    td_hlo_steps(f, p->operand, step);
    for (int i = 0; i < p->n_map; i++) {
        mapped[i] = step[p->map[i]];
    }
    if (p->n_map > 0) { /* corners: [batch..], then an axis of size 1 for each of the window's */
        const struct td_value scaled = td_hlo_2(f, "Mul", index, td_hlo_pack(f, mapped, p->n_map, 0));
        sum = td_hlo_2(f, "Sum", scaled, td_hlo_i32(f, -1));
        for (int i = 0, batch = 0; i < rank; i++) {
            const bool is_batch = batch < p->n_batch && p->batch_of[batch] == i;
            sum = is_batch ? sum : td_hlo_2(f, "ExpandDims", sum, td_hlo_i32(f, i));
            batch += is_batch;
        }
    } else {
        sum = td_hlo_i32(f, 0);
    }
    for (int i = 0; i < p->rank; i++) {
        if (p->window_of[i] >= 0 && (p->size[i] != 1)) {
            const struct td_value size = window_size(f, p, i);
            sum = td_hlo_2(f, "AddV2", sum, along(f, counted(f, size, step[i]), p->window_of[i], rank));
        }
    }
    for (int i = 0; i < p->n_batching; i++) {
        const int64_t axis = p->indices_batching[i];
        const int at = p->batch_of[axis - (axis > p->vector)];
        const struct td_value size = td_hlo_dim(f, p->indices, (int)axis);
        sum = td_hlo_2(f, "AddV2", sum, along(f, counted(f, size, step[p->batching[i]]), at, rank));
    }
    return sum;
}

/* ------------------------------------------------------------------ gather */

static struct td_value within(struct td_hlo_frame *f, struct td_value index, struct td_value last)
{
    return td_hlo_2(f, "Maximum", td_hlo_2(f, "Minimum", index, last), td_hlo_i32(f, 0));
}

/* One axis, its place computed; the first n_batching axes of both are the same. */
static bool takes_rows(const struct td_hlo_places *p)
{
    if (p->n_map != 1 || !p->inserted[p->map[0]] || (p->n_batching > 0 && p->map[0] != p->n_batching)) {
        return false;
    }
    for (int i = 0; i < p->n_batching; i++) {
        if (p->batching[i] != i || p->indices_batching[i] != i) {
            return false;
        }
    }
    for (int i = p->n_batching; i < p->rank; i++) {
        if (i != p->map[0] && (!p->full[i] || p->inserted[i])) {
            return false;
        }
    }
    return true;
}

/* natural[i]: the axis of `windows` that axis i of x is. */
static struct td_value arranged(struct td_hlo_frame *f, struct td_value x, const int *natural, int rank)
{
    int64_t perm[TD_MAX_RANK] = {0};
    for (int i = 0; i < rank; i++) {
        perm[natural[i]] = i;
    }
    return td_hlo_transpose(f, x, perm, rank);
}

static struct td_value take_rows(struct td_hlo_frame *f, const struct td_hlo_places *p)
{
    const int axis = (int)p->map[0], rank = td_hlo_shape(p->windows)->rank;
    const int64_t last = p->n_batch;
    int natural[TD_MAX_RANK], at = 0;
    const struct td_value index = td_emit(&f->e, "Squeeze", TD_IN(p->index),
                                          TD_ATTRS(TD_ATTR_OF_INTS("squeeze_dims", (int64_t *)&last, 1)));
    const struct td_value size = td_hlo_2(f, "Sub", td_hlo_dim(f, p->operand, axis), td_hlo_i32(f, 1));
    for (int i = p->n_batching; i < axis; i++) {
        natural[at++] = p->window_of[i];
    }
    for (int i = 0; i < p->n_batch; i++) {
        natural[at++] = p->batch_of[i];
    }
    for (int i = axis + 1; i < p->rank; i++) {
        natural[at++] = p->window_of[i];
    }
    const struct td_value y = td_emit(
        &f->e, "GatherV2", TD_IN(td_hlo_whole(f, p->operand), within(f, index, size), td_hlo_i32(f, axis)),
        TD_ATTRS(TD_ATTR_OF_INT("batch_dims", p->n_batching)));
    return arranged(f, y, natural, rank);
}

static struct td_value take_places(struct td_hlo_frame *f, const struct td_hlo_places *p)
{
    int64_t perm[TD_MAX_RANK];
    int natural[TD_MAX_RANK], at = 0, made = 0;
    for (int i = 0; i < p->n_map; i++) {
        perm[at++] = p->map[i];
    }
    for (int i = 0; i < p->n_batch; i++) {
        natural[made++] = p->batch_of[i];
    }
    for (int i = 0; i < p->rank; i++) {
        if (!p->mapped[i]) {
            perm[at++] = i;
            natural[made++] = p->window_of[i];
        }
    }
    const struct td_value x = td_hlo_transpose(f, td_hlo_whole(f, p->operand), perm, p->rank);
    struct td_value y = td_hlo_2(f, "GatherNd", x, within(f, p->index, td_hlo_last_corner(f, p)));
    for (int i = 0; i < p->rank; i++) { /* mapped axes that the result keeps, 1 long */
        if (p->mapped[i] && p->window_of[i] >= 0) {
            y = td_hlo_2(f, "ExpandDims", y, td_hlo_i32(f, made));
            natural[made++] = p->window_of[i];
        }
    }
    return arranged(f, y, natural, made);
}

static struct td_value take_elements(struct td_hlo_frame *f, const struct td_hlo_places *p)
{
    const int64_t flat = -1;
    const struct td_value x = td_hlo_reshape(f, td_hlo_whole(f, p->operand), &flat, 1);
    const struct td_value index = p->n_map == 0 ? p->index : within(f, p->index, td_hlo_last_corner(f, p));
    return td_hlo_3(f, "GatherV2", x, td_hlo_element_numbers(f, p, index), td_hlo_i32(f, 0));
}

void td_hlo_gather(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    static const struct td_hlo_places_names names = {"collapsed_slice_dims", "operand_batching_dims",
                                                     "start_indices_batching_dims", "start_index_map",
                                                     "offset_dims"};
    if (op->n_in < 2 || op->n_out != 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants 2", op->n_in);
        return;
    }
    struct td_hlo_places p = {.operand = op->in[0], .indices = op->in[1], .windows = op->out[0]};
    if (op->n_in > 2) { /* dynamic_gather */
        p.sizes = td_hlo_cast(f, td_hlo_in(f, op, 2), TD_INT32);
    }
    if (!td_hlo_places(f, op, &names, &p)) {
        return;
    }
    td_hlo_put(f, op, 0,
               takes_rows(&p)                         ? take_rows(f, &p)
               : td_hlo_whole_rows(&p) && p.n_map > 0 ? take_places(f, &p)
                                                      : take_elements(f, &p));
}
