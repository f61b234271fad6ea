/* kernels/array/slice_spec.c - sparse slice specifications made dense.
 *
 * A specification entry is, by priority, an ellipsis (bit of ellipsis_mask), a new axis, or a range of one
 * input axis, which shrink_axis_mask turns into a single index. Entries are spread over the input's axes
 * first (an ellipsis takes what the others leave; a missing one stands at the end), then each axis is
 * bounded on its own:
 *
 *   stride > 0:  begin, end clamped to [0, dim]      a masked side is the first / last element
 *   stride < 0:  begin, end clamped to [-1, dim-1]   and the other way round
 *   shrunk:      index begin, which must exist; the end and the begin mask do not matter
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/slice_spec.h"

#include "core/graph/graph.h"

enum { MAX_ENTRIES = 31 }; /* masks are int32 in TensorFlow */

struct masks {
    uint32_t begin, end, ellipsis, new_axis, shrink;
};

/* One input axis: the entry that governs it, or -1 (inside an ellipsis). */
struct axis_entry {
    int entry;
    bool shrink;
};

struct spread {
    struct axis_entry axis[TD_MAX_RANK];
    int n_axes;
    int source[MAX_ENTRIES + TD_MAX_RANK]; /* as in td_slice_spec */
    int n_result;
};

static bool bit(uint32_t mask, int i)
{
    return i < MAX_ENTRIES && ((mask >> i) & 1u) != 0;
}

static struct masks read_masks(const struct td_node *node)
{
    return (struct masks){
        .begin = (uint32_t)td_attr_int(node, "begin_mask"),
        .end = (uint32_t)td_attr_int(node, "end_mask"),
        .ellipsis = (uint32_t)td_attr_int(node, "ellipsis_mask"),
        .new_axis = (uint32_t)td_attr_int(node, "new_axis_mask"),
        .shrink = (uint32_t)td_attr_int(node, "shrink_axis_mask"),
    };
}

/* Entry i as an ellipsis: covers the axes that the `after` range entries behind it leave over. */
static void spread_ellipsis(struct spread *s, int rank, int after)
{
    while (s->n_axes < rank - after) {
        s->axis[s->n_axes] = (struct axis_entry){.entry = -1};
        s->source[s->n_result++] = s->n_axes++;
    }
}

static enum td_code spread_entries(const struct td_node *node, const struct masks *m, int n, int rank,
                                   struct spread *s, struct td_err *err)
{
    int ranges = 0;
    bool seen = false;
    for (int i = 0; i < n; i++) {
        if (bit(m->ellipsis, i)) {
            TD_FAIL_IF(seen, err, INVALID_ARGUMENT, "%s: Multiple ellipses in slice spec not allowed",
                       TD_NODE_STR(node));
            seen = true;
        } else if (!bit(m->new_axis, i)) {
            ranges++;
        }
    }
    int left = ranges;
    for (int i = 0; i < n; i++) {
        if (bit(m->ellipsis, i)) {
            spread_ellipsis(s, rank, left);
        } else if (bit(m->new_axis, i)) {
            s->source[s->n_result++] = -1;
        } else {
            TD_FAIL_IF(rank == 0, err, INVALID_ARGUMENT, "%s: Attempting to slice scalar input.",
                       TD_NODE_STR(node));
            TD_FAIL_IF(s->n_axes >= rank, err, INVALID_ARGUMENT,
                       "%s: Index out of range using input dim %d; input has only %d dims", TD_NODE_STR(node),
                       s->n_axes, rank);
            const bool shrink = bit(m->shrink, i);
            s->axis[s->n_axes] = (struct axis_entry){.entry = i, .shrink = shrink};
            if (!shrink) {
                s->source[s->n_result++] = s->n_axes;
            }
            s->n_axes++;
            left--;
        }
    }
    spread_ellipsis(s, rank, 0);
    TD_FAIL_IF(s->n_result > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: result rank %d, at most %d are supported", TD_NODE_STR(node), s->n_result, TD_MAX_RANK);
    return TD_OK;
}

static int64_t clamp(int64_t v, int64_t dim, bool forward)
{
    const int64_t low = forward ? 0 : -1, high = forward ? dim : dim - 1;
    v = v < 0 ? v + dim : v;
    return v < low ? low : v > high ? high : v;
}

static int64_t range_size(int64_t begin, int64_t end, int64_t stride)
{
    const int64_t length = end - begin;
    if (length == 0 || (length < 0) != (stride < 0)) {
        return 0;
    }
    return length / stride + (length % stride != 0);
}

/* One range entry with known values: begin or end is NULL while not known. */
struct range {
    const int64_t *begin, *end;
    int64_t stride;
    bool begin_mask, end_mask, shrink;
};

static enum td_code bound_axis(const struct td_node *node, const struct range *r, int axis, int64_t dim,
                               struct td_slice_spec *out, struct td_err *err)
{
    out->stride[axis] = r->stride;
    if (r->shrink) {
        TD_FAIL_IF(r->stride <= 0, err, INVALID_ARGUMENT, "%s: only stride 1 allowed on non-range indexing.",
                   TD_NODE_STR(node));
        out->size[axis] = 1;
        if (r->begin != NULL && dim >= 0) {
            const int64_t at = *r->begin < 0 ? *r->begin + dim : *r->begin;
            TD_FAIL_IF(at < 0 || at >= dim, err, INVALID_ARGUMENT,
                       "%s: slice index %lld of dimension %d out of bounds.", TD_NODE_STR(node),
                       (long long)*r->begin, axis);
            out->begin[axis] = at;
        }
        return TD_OK;
    }
    const bool forward = r->stride > 0;
    if (dim < 0 || (!r->begin_mask && r->begin == NULL) || (!r->end_mask && r->end == NULL)) {
        return TD_OK;
    }
    const int64_t begin = r->begin_mask ? (forward ? 0 : dim - 1) : clamp(*r->begin, dim, forward);
    const int64_t end = r->end_mask ? (forward ? dim : -1) : clamp(*r->end, dim, forward);
    out->begin[axis] = begin;
    out->size[axis] = range_size(begin, end, r->stride);
    return TD_OK;
}

enum td_code td_slice_spec_make(const struct td_node *node, const struct td_shape *in,
                                const struct td_slice_bounds *bounds, struct td_slice_spec *out,
                                struct td_err *err)
{
    const struct td_tensor *begin = bounds->begin, *end = bounds->end, *strides = bounds->strides;
    const struct masks m = read_masks(node);
    struct spread s = {.n_axes = 0};
    TD_TRY(spread_entries(node, &m, (int)bounds->n, in->rank, &s, err));
    *out = (struct td_slice_spec){.rank = in->rank};
    for (int a = 0; a < in->rank; a++) {
        const int e = s.axis[a].entry;
        out->size[a] = e < 0 ? in->dim[a] : -1;
        out->stride[a] = 1;
        out->index[a] = s.axis[a].shrink ? e : -1;
        if (e < 0 || strides == NULL) {
            continue;
        }
        const int64_t b = begin != NULL ? td_tensor_int(begin, e) : 0,
                      t = end != NULL ? td_tensor_int(end, e) : 0;
        const struct range r = {.begin = begin != NULL ? &b : NULL,
                                .end = end != NULL ? &t : NULL,
                                .stride = td_tensor_int(strides, e),
                                .begin_mask = bit(m.begin, e),
                                .end_mask = bit(m.end, e),
                                .shrink = s.axis[a].shrink};
        TD_FAIL_IF(r.stride == 0, err, INVALID_ARGUMENT, "%s: strides[%d] must be non-zero",
                   TD_NODE_STR(node), e);
        TD_TRY(bound_axis(node, &r, a, in->dim[a], out, err));
    }
    out->shape.rank = s.n_result;
    for (int i = 0; i < s.n_result; i++) {
        out->source[i] = s.source[i];
        out->shape.dim[i] = s.source[i] < 0 ? 1 : out->size[s.source[i]];
    }
    return TD_OK;
}

enum td_code td_slice_spec_lengths(const struct td_node *node, const struct td_shape *const vectors[3],
                                   int64_t *n, struct td_err *err)
{
    *n = -1;
    for (int i = 0; i < 3; i++) {
        if (vectors[i]->rank < 0) {
            continue;
        }
        const int64_t length = vectors[i]->rank == 1 ? vectors[i]->dim[0] : -2;
        const bool differs = length >= 0 && *n >= 0 && length != *n;
        TD_FAIL_IF(
            length == -2 || differs || length > MAX_ENTRIES, err, INVALID_ARGUMENT,
            "%s: Expected begin, end, and strides to be 1D equal size tensors of at most %d elements, but "
            "got shapes %s, %s, and %s instead.",
            TD_NODE_STR(node), MAX_ENTRIES, TD_SHAPE_STR(vectors[0]), TD_SHAPE_STR(vectors[1]),
            TD_SHAPE_STR(vectors[2]));
        *n = length >= 0 ? length : *n;
    }
    return TD_OK;
}

enum td_code td_slice_spec_assignable(const struct td_node *node, const struct td_slice_spec *s,
                                      const struct td_shape *value, struct td_err *err)
{
    bool fits = true;
    for (int i = 0; i < value->rank; i++) {
        const int at = s->shape.rank - value->rank + i;
        const int64_t want = at < 0 ? 1 : s->shape.dim[at];
        fits = fits && (value->dim[i] == 1 || value->dim[i] < 0 || want < 0 || value->dim[i] == want);
    }
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "%s: sliced l-value shape %s does not match r-value shape %s",
               TD_NODE_STR(node), TD_SHAPE_STR(&s->shape), TD_SHAPE_STR(value));
    return TD_OK;
}

void td_slice_spec_place(const struct td_slice_spec *s, const struct td_shape *in, int64_t *step,
                         int64_t *first)
{
    int64_t row = 1;
    *first = 0;
    for (int a = s->rank - 1; a >= 0; a--) {
        step[a] = s->size[a] > 1 ? row * s->stride[a] : 0;
        *first += s->begin[a] * row;
        row *= in->dim[a];
    }
}
