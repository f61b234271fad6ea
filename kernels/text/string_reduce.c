/* kernels/text/string_reduce.c - ReduceJoin and UnsortedSegmentJoin: strings joined along axes or by segment.
 *
 * Both make one output at a time in a buffer that they use again. ReduceJoin splits the position in the
 * output into coordinates of the axes that stay, and counts through those that go, the first one named
 * running fastest. UnsortedSegmentJoin sorts the rows by segment once, with a counting sort that keeps their
 * order, and then reads each segment's rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/text/strbuf.h"

#include <string.h>

/* ------------------------------------------------------------------ ReduceJoin
 *
 * The order of reduction_indices is the order of joining: the first axis named runs fastest. */

struct axes {
    int n; /* axes reduced, in the order given */
    int axis[TD_MAX_RANK];
    bool reduced[TD_MAX_RANK];
};

/* Axes that input 1 names, for an input of known rank. */
static enum td_code read_axes(const struct td_node *node, const struct td_tensor *t, int rank, struct axes *a,
                              struct td_err *err)
{
    int64_t n = td_tensor_count(t);
    memset(a, 0, sizeof(*a));
    for (int64_t i = 0; i < n; i++) {
        int64_t v = td_tensor_int(t, i);
        int axis;
        TD_FAIL_IF(!td_shape_axis(rank, v, &axis), err, OUT_OF_RANGE,
                   "%s: Invalid reduction dimension %lld for input with %d dimension(s)", TD_NODE_STR(node),
                   (long long)v, rank);
        TD_FAIL_IF(a->reduced[axis], err, INVALID_ARGUMENT, "%s: Duplicate reduction dimension %d",
                   TD_NODE_STR(node), axis);
        a->reduced[axis] = true;
        a->axis[a->n++] = axis;
    }
    return TD_OK;
}

static enum td_code reduce_join_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    if (x->rank < 0 || !c->value[1]) {
        return TD_OK;
    }
    struct axes a;
    TD_TRY(read_axes(c->node, c->value[1], x->rank, &a, err));
    bool keep = td_attr_bool(c->node, "keep_dims");
    struct td_shape *y = &c->out[0];
    y->rank = 0;
    for (int d = 0; d < x->rank; d++) {
        if (!a.reduced[d] || keep) {
            y->dim[y->rank++] = a.reduced[d] ? 1 : x->dim[d];
        }
    }
    return TD_OK;
}

/* Flat offset of the element with mixed-radix number i over the axes listed, the last one fastest. */
static int64_t offset_of(const struct td_shape *s, const int *axis, int n, int64_t i)
{
    int64_t at = 0;
    for (int k = n - 1; k >= 0; k--) {
        int64_t d = s->dim[axis[k]];
        at += i % d * td_shape_range(s, axis[k] + 1, s->rank);
        i /= d;
    }
    return at;
}

static enum td_code reduce_join(struct td_call *c, const struct axes *a, struct td_tensor *y,
                                struct td_strbuf *b, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_bytes sep = td_attr_bytes(c->node, "separator");
    int kept[TD_MAX_RANK], n_kept = 0;
    int reduced[TD_MAX_RANK];
    int64_t parts = 1;
    for (int k = 0; k < a->n; k++) {
        reduced[k] = a->axis[a->n - 1 - k];
    }
    for (int d = 0; d < x->shape.rank; d++) {
        if (!a->reduced[d]) {
            kept[n_kept++] = d;
        } else {
            parts *= x->shape.dim[d];
        }
    }
    for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
        int64_t base = offset_of(&x->shape, kept, n_kept, i);
        b->n = 0;
        for (int64_t k = 0; k < parts; k++) {
            size_t len;
            const char *s = td_tensor_str(x, base + offset_of(&x->shape, reduced, a->n, k), &len);
            TD_TRY(k ? td_strbuf_put(b, sep.p, sep.len, err) : TD_OK);
            TD_TRY(td_strbuf_put(b, s, len, err));
        }
        TD_TRY(td_tensor_set_str(y, i, b->n ? b->p : "", b->n, err));
    }
    return TD_OK;
}

static enum td_code reduce_join_run(struct td_call *c, struct td_err *err)
{
    struct axes a;
    struct td_tensor *y;
    TD_TRY(read_axes(c->node, c->in[1], c->in[0]->shape.rank, &a, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_strbuf b = {0};
    enum td_code rc = reduce_join(c, &a, y, &b, err);
    td_strbuf_fini(&b);
    return rc;
}

/* ------------------------------------------------------------------ UnsortedSegmentJoin
 *
 * inputs [S..., rest]  segment_ids [S...]  num_segments []  ->  [num_segments, rest] */

static enum td_code segment_join_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *ids = &c->in[1];
    bool known;
    int64_t n = -1;
    TD_FAIL_IF(c->in[2].rank > 0, err, INVALID_ARGUMENT,
               "%s: Number of segments must be a scalar, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[2]));
    TD_TRY(td_infer_int_value(c, 2, &known, &n, err));
    TD_FAIL_IF(known && n < 0, err, INVALID_ARGUMENT,
               "%s: Number of segments must be non-negative but got %lld", TD_NODE_STR(c->node),
               (long long)n);
    if (x->rank < 0 || ids->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(ids->rank == 0, err, INVALID_ARGUMENT, "%s: Segment_id cannot have rank 0",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(ids->rank > x->rank, err, INVALID_ARGUMENT,
               "%s: Input cannot have rank less than the rank of segment_id: %d vs. %d", TD_NODE_STR(c->node),
               x->rank, ids->rank);
    for (int d = 0; d < ids->rank; d++) {
        TD_FAIL_IF(ids->dim[d] >= 0 && x->dim[d] >= 0 && ids->dim[d] != x->dim[d], err, INVALID_ARGUMENT,
                   "%s: Segment dimension is %lld while input dimension is %lld in rank %d",
                   TD_NODE_STR(c->node), (long long)ids->dim[d], (long long)x->dim[d], d);
    }
    c->out[0].rank = x->rank - ids->rank + 1;
    c->out[0].dim[0] = known ? n : -1;
    for (int d = ids->rank; d < x->rank; d++) {
        c->out[0].dim[d - ids->rank + 1] = x->dim[d];
    }
    return TD_OK;
}

/* order: the rows of each segment in input order, found by counting sort. start [n + 1] */
static void sort_rows(const struct td_tensor *ids, int64_t rows, int64_t n, int64_t *start, int64_t *order)
{
    memset(start, 0, (size_t)(n + 1) * 8);
    for (int64_t i = 0; i < rows; i++) {
        start[td_tensor_int(ids, i) + 1]++;
    }
    for (int64_t s = 0; s < n; s++) {
        start[s + 1] += start[s];
    }
    for (int64_t i = 0; i < rows; i++) {
        order[start[td_tensor_int(ids, i)]++] = i;
    }
    for (int64_t s = n; s > 0; s--) {
        start[s] = start[s - 1];
    }
    start[0] = 0;
}

static enum td_code segment_join(struct td_call *c, struct td_tensor *y, const int64_t *start,
                                 const int64_t *order, struct td_strbuf *b, struct td_err *err)
{
    struct td_bytes sep = td_attr_bytes(c->node, "separator");
    int64_t n = y->shape.dim[0], width = td_shape_range(&y->shape, 1, y->shape.rank);
    for (int64_t i = 0; i < n * width; i++) {
        b->n = 0;
        for (int64_t s = i / width, k = start[s]; k < start[s + 1]; k++) {
            size_t len;
            const char *text = td_tensor_str(c->in[0], order[k] * width + i % width, &len);
            TD_TRY(b->n > 0 ? td_strbuf_put(b, sep.p, sep.len, err) : TD_OK); /* none behind empty words */
            TD_TRY(td_strbuf_put(b, text, len, err));
        }
        TD_TRY(td_tensor_set_str(y, i, b->n ? b->p : "", b->n, err));
    }
    return TD_OK;
}

static enum td_code segment_join_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *ids = c->in[1];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t rows = td_tensor_count(ids), n = y->shape.dim[0];
    for (int64_t i = 0; i < rows; i++) {
        int64_t id = td_tensor_int(ids, i);
        TD_FAIL_IF(id < 0 || id >= n, err, INVALID_ARGUMENT,
                   "%s: segment_ids are not allowed to exceed num_segments or to have negative values: id "
                   "%lld at %lld",
                   TD_NODE_STR(c->node), (long long)id, (long long)i);
    }
    void *start, *order;
    TD_TRY(td_scratch(c, (size_t)(n + 1) * 8, &start, err));
    TD_TRY(td_scratch(c, (size_t)(rows + 1) * 8, &order, err));
    sort_rows(ids, rows, n, start, order);
    struct td_strbuf b = {0};
    enum td_code rc = segment_join(c, y, start, order, &b, err);
    td_strbuf_fini(&b);
    return rc;
}

const struct td_op td_ops_string_reduce[] = {
    {.name = "ReduceJoin",
     .sig = "(inputs:string, reduction_indices:int32) -> (output:string) {keep_dims:bool=false; "
            "separator:string=''}",
     .permute = &td_permute_reduce,
     .batchable = TD_BATCHABLE(td_batchable_reduce),
     .host_in = 2,
     .infer = reduce_join_infer,
     .kernels = TD_KERNEL("string_reduce.cpu", reduce_join_run, {0}),
     .grad = td_not_differentiable},
    {.name = "UnsortedSegmentJoin",
     .sig = "(inputs:string, segment_ids:Tindices, num_segments:Tnumsegments) -> (output:string) "
            "{separator:string=''; Tindices:type; Tnumsegments:type=int32}",
     .host_in = 4,
     .infer = segment_join_infer,
     .kernels = TD_KERNEL("string_reduce.cpu", segment_join_run, {"Tindices", TD_SET_INDEX},
                          {"Tnumsegments", TD_SET_INDEX})},
    {.name = NULL},
};
