/* kernels/nn/xla_gather.c - XlaGather: windows of a tensor, each from a place that a vector of indices
 * names.
 *
 *   operand, start_indices, slice_sizes [rank of operand]  ->  output
 *
 *   dimension_numbers   offset_dims (1)            axes of the output that run along a window
 *                       collapsed_slice_dims (2)   axes of a window that the output leaves out; of size 1
 *                       start_index_map (3)        which axis of the operand each element of a vector is of
 *                       index_vector_dim (4)       axis of start_indices that vectors lie along; its rank:
 *                                                  each
 *                                                  is a vector of one
 *
 * The other axes of the output are those of start_indices. A window that would reach beyond the operand
 * begins earlier.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"
#include "kernels/nn/xla_dims.h"
#include "kernels/ops.h"

enum { OFFSET, COLLAPSED, MAP, VECTOR, FIELDS };

struct gather {
    struct td_axes a[FIELDS];
    struct td_shape out;
    int vector;                        /* axis of start_indices */
    int window[TD_MAX_RANK], n_window; /* axes of the operand that the output has */
};

static enum td_code check_sizes(const struct td_infer *c, const struct td_shape *x, const struct gather *g,
                                struct td_err *err)
{
    const struct td_tensor *sizes = c->value[2];
    for (int d = 0; sizes != NULL && d < x->rank; d++) {
        const int64_t size = td_tensor_int(sizes, d);
        TD_FAIL_IF(
            size < 0 || (x->dim[d] >= 0 && size > x->dim[d]), err, INVALID_ARGUMENT,
            "%s: Slice size at index %d in gather op is out of range, must be within [0, %lld), got %lld.",
            TD_NODE_STR(c->node), d, (long long)x->dim[d] + 1, (long long)size);
        TD_FAIL_IF(
            td_axes_has(&g->a[COLLAPSED], d) && size > 1, err, INVALID_ARGUMENT,
            "%s: Gather op can only collapse slice dims with bound 1 or 0, but bound is %lld for index %d",
            TD_NODE_STR(c->node), (long long)size, d);
    }
    return TD_OK;
}

static enum td_code read_gather(const struct td_infer *c, struct gather *g, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *ix = &c->in[1];
    const struct td_node *n = c->node;
    TD_TRY(td_axes_read(n, FIELDS, g->a, err));
    g->vector = g->a[VECTOR].n == 0 ? 0 : g->a[VECTOR].axis[g->a[VECTOR].n - 1];
    TD_FAIL_IF(g->vector > ix->rank, err, INVALID_ARGUMENT,
               "%s: Gather index leaf dimension must be within [0, rank(start_indices) + 1), got %d",
               TD_NODE_STR(n), g->vector);
    TD_TRY(td_axes_check(n, &g->a[COLLAPSED], "collapsed_slice_dims", x->rank, err));
    TD_TRY(td_axes_check(n, &g->a[MAP], "start_index_map", x->rank, err));
    const int places = ix->rank - (g->vector < ix->rank), rank = places + g->a[OFFSET].n;
    const int64_t length = g->vector < ix->rank ? ix->dim[g->vector] : 1;
    TD_FAIL_IF(length >= 0 && length != g->a[MAP].n, err, INVALID_ARGUMENT,
               "%s: Gather op has %d elements in start_index_map and a bound of %lld of index_vector_dim",
               TD_NODE_STR(n), g->a[MAP].n, (long long)length);
    TD_FAIL_IF(g->a[OFFSET].n + g->a[COLLAPSED].n != x->rank || rank > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: All components of the offset index in a gather op must either be a offset dimension or "
               "explicitly collapsed; got rank %d and output of rank %d",
               TD_NODE_STR(n), x->rank, rank);
    TD_TRY(td_axes_check(n, &g->a[OFFSET], "offset_dims", rank, err));
    for (int i = 1; i < g->a[OFFSET].n; i++) {
        TD_FAIL_IF(g->a[OFFSET].axis[i] < g->a[OFFSET].axis[i - 1], err, INVALID_ARGUMENT,
                   "%s: Output window dimensions in gather op must be sorted", TD_NODE_STR(n));
    }
    TD_TRY(check_sizes(c, x, g, err));
    g->n_window = 0;
    for (int d = 0; d < x->rank; d++) {
        if (!td_axes_has(&g->a[COLLAPSED], d)) {
            g->window[g->n_window++] = d;
        }
    }
    g->out = td_shape_of_rank(rank);
    for (int d = 0, w = 0, p = 0; d < rank; d++) {
        if (td_axes_has(&g->a[OFFSET], d)) {
            g->out.dim[d] = c->value[2] == NULL ? -1 : td_tensor_int(c->value[2], g->window[w]);
            w++;
        } else {
            p += p == g->vector;
            g->out.dim[d] = ix->dim[p++];
        }
    }
    return TD_OK;
}

static enum td_code gather_infer(struct td_infer *c, struct td_err *err)
{
    struct gather g;
    TD_TRY(td_infer_rank(c, 2, 1, err));
    if (c->in[0].rank < 0 || c->in[1].rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(c->in[2].rank == 1 && c->in[2].dim[0] >= 0 && c->in[2].dim[0] != c->in[0].rank, err,
               INVALID_ARGUMENT, "%s: slice_sizes of shape %s for an operand of rank %d",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[2]), c->in[0].rank);
    TD_TRY(read_gather(c, &g, err));
    c->out[0] = g.out;
    return TD_OK;
}

/* ------------------------------------------------------------------ the kernel */

struct walk {
    int n;
    int64_t size[TD_MAX_RANK], step[TD_MAX_RANK], to_step[TD_MAX_RANK]; /* in the source, in the output */
    int64_t at[TD_MAX_RANK], from, to;
};

static void add_axis(struct walk *w, int64_t size, int64_t step, int64_t to_step)
{
    w->size[w->n] = size;
    w->step[w->n] = step;
    w->to_step[w->n++] = to_step;
}

static int64_t walk_start(struct walk *w)
{
    int64_t cells = 1;
    for (int i = 0; i < w->n; i++) {
        cells *= w->size[i];
        w->at[i] = 0;
    }
    w->from = w->to = 0;
    return cells;
}

static void walk_next(struct walk *w)
{
    for (int i = w->n - 1; i >= 0; i--) {
        w->from += w->step[i];
        w->to += w->to_step[i];
        if (++w->at[i] < w->size[i]) {
            return;
        }
        w->from -= w->step[i] * w->size[i];
        w->to -= w->to_step[i] * w->size[i];
        w->at[i] = 0;
    }
}

/* Where the window begins whose vector begins at `from` of start_indices, its elements `step` apart. */
static int64_t place(const struct td_call *c, const struct gather *g, int64_t from, int64_t step)
{
    const struct td_shape *x = &c->in[0]->shape;
    int64_t base = 0;
    for (int i = 0; i < g->a[MAP].n; i++) {
        const int d = g->a[MAP].axis[i];
        const int64_t most = x->dim[d] - td_tensor_int(c->in[2], d);
        int64_t v = td_tensor_int(c->in[1], from + i * step);
        v = v > most ? most : v;
        base += (v < 0 ? 0 : v) * td_shape_range(x, d + 1, x->rank);
    }
    return base;
}

static void walks_of(const struct td_call *c, const struct gather *g, struct walk *windows,
                     struct walk *places)
{
    const struct td_shape *x = &c->in[0]->shape, *ix = &c->in[1]->shape, *y = &g->out;
    for (int d = 0, w = 0, p = 0; d < y->rank; d++) {
        const int64_t to_step = td_shape_range(y, d + 1, y->rank);
        if (td_axes_has(&g->a[OFFSET], d)) {
            add_axis(windows, y->dim[d], td_shape_range(x, g->window[w] + 1, x->rank), to_step);
            w++;
        } else {
            p += p == g->vector;
            add_axis(places, y->dim[d], td_shape_range(ix, p + 1, ix->rank), to_step);
            p++;
        }
    }
}

static enum td_code gather_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape shapes[] = {c->in[0]->shape, c->in[1]->shape, c->in[2]->shape};
    const struct td_infer seen = {.node = c->node, .n_in = 3, .in = shapes, .value = c->in};
    const size_t size = td_dtype_size(c->in[0]->dtype);
    struct walk windows = {.n = 0}, places = {.n = 0};
    struct gather g;
    struct td_tensor *y;
    TD_TRY(read_gather(&seen, &g, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    for (int i = 0; i < g.a[COLLAPSED].n; i++) {
        TD_FAIL_IF(td_tensor_int(c->in[2], g.a[COLLAPSED].axis[i]) == 0, err, INVALID_ARGUMENT,
                   "%s: an output of shape %s of windows without elements: slice size 0 along axis %d, which "
                   "is collapsed",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&g.out), g.a[COLLAPSED].axis[i]);
    }
    walks_of(c, &g, &windows, &places);
    const struct td_shape *ix = &shapes[1];
    const int64_t step = g.vector < ix->rank ? td_shape_range(ix, g.vector + 1, ix->rank) : 1;
    for (int64_t k = walk_start(&places); k > 0; k--, walk_next(&places)) {
        const int64_t base = place(c, &g, places.from, step), cells = walk_start(&windows);
        if (td_work_spent(cells + 8)) {
            return td_stop_error(c, err);
        }
        for (int64_t i = 0; i < cells; i++, walk_next(&windows)) {
            memcpy((char *)y->data + (size_t)(places.to + windows.to) * size,
                   (const char *)c->in[0]->data + (size_t)(base + windows.from) * size, size);
        }
    }
    return TD_OK;
}

const struct td_op td_ops_xla_gather[] = {
    {.name = "XlaGather",
     .sig =
         "(operand:T, start_indices:Tindices, slice_sizes:Tindices) -> (output:T) {dimension_numbers:string; "
         "indices_are_sorted:bool; T:type; Tindices:type}",
     .host_in = 4,
     .infer = gather_infer,
     .kernels = TD_KERNEL("xla_gather.cpu", gather_run, {"T", TD_SET_NUMBERS | TD_BIT(TD_BOOL)},
                          {"Tindices", TD_SET_INDEX})},
    {.name = NULL},
};
