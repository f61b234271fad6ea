/* kernels/array/array_unique.c - telling equal elements apart from different ones.
 *
 *   Unique             x [n]  ->  y: the distinct elements by first occurrence, idx [n]: places in y
 *   UniqueV2           the same for slices along an axis;   ...WithCounts: also how often each occurs
 *   ListDiff           x, y   ->  elements of x that are not in y, and their places in x
 *   UnravelIndex       flat positions  ->  coordinates in a shape
 *
 * Slices are found through an open-addressed table of slice numbers, hashed by content. Equality is the
 * dtype's own: 0 and -0 are equal (but for halves), a NaN equals nothing, not even itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "kernels/cpu/array_types.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

/* ------------------------------------------------------------------ hashing and comparing slices */

/* A tensor seen as [outer, n, inner]; slice i is everything at middle index i. */
struct slices {
    const struct td_tensor *t;
    int64_t outer, n, inner;
};

/* Bits that are equal for equal numbers: -0 and denormals, which are flushed, count as 0. Halves are hashed
 * by their bits before they are compared: of them 0 and -0 differ. */
static uint64_t bits_at(const struct td_tensor *t, int64_t i)
{
    uint64_t u;
    switch (t->dtype) {
    case TD_FLOAT:
        u = TD_DATA(t, const uint32_t)[i];
        return (u & 0x7f800000u) == 0 ? 0 : u;
    case TD_DOUBLE:
        u = TD_DATA(t, const uint64_t)[i];
        return (u & 0x7ff0000000000000u) == 0 ? 0 : u;
    case TD_HALF:
    case TD_BFLOAT16:
        return TD_DATA(t, const uint16_t)[i];
    case TD_BOOL:
        return TD_DATA(t, const td_bool)[i] != 0;
    case TD_INT32:
        return (uint64_t)TD_DATA(t, const int32_t)[i];
    case TD_INT64:
        return (uint64_t)TD_DATA(t, const int64_t)[i];
    default:
        return (uint64_t)td_tensor_int(t, i);
    }
}

static bool is_nan(const struct td_tensor *t, uint64_t bits)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return (bits & 0x7fffffffu) > 0x7f800000u;
    case TD_DOUBLE:
        return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
    case TD_HALF:
        return (bits & 0x7fffu) > 0x7c00u;
    case TD_BFLOAT16:
        return (bits & 0x7fffu) > 0x7f80u;
    default:
        return false;
    }
}

static uint64_t hash_element(const struct td_tensor *t, int64_t i, uint64_t h, bool *nan)
{
    if (t->dtype == TD_STRING) {
        size_t len;
        const char *p = td_tensor_str(t, i, &len);
        return td_hash_more(td_hash_more(h, p, len), &len, sizeof len);
    }
    const uint64_t bits = bits_at(t, i);
    *nan = *nan || is_nan(t, bits);
    return td_hash_mix(h * 0x100000001b3u ^ bits);
}

static bool same_element(const struct td_tensor *a, int64_t i, const struct td_tensor *b, int64_t k)
{
    if (a->dtype != TD_STRING) {
        return bits_at(a, i) == bits_at(b, k);
    }
    size_t la, lb;
    const char *pa = td_tensor_str(a, i, &la), *pb = td_tensor_str(b, k, &lb);
    return la == lb && memcmp(pa, pb, la) == 0;
}

static int64_t position(const struct slices *s, int64_t o, int64_t i)
{
    return (o * s->n + i) * s->inner;
}

static uint64_t hash_slice(const struct slices *s, int64_t i, bool *nan)
{
    uint64_t h = 0;
    *nan = false;
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t k = 0; k < s->inner; k++) {
            h = hash_element(s->t, position(s, o, i) + k, h, nan);
        }
    }
    return td_hash_mix(h);
}

/* Slices without NaN. */
static bool same_slice(const struct slices *a, int64_t i, const struct slices *b, int64_t k)
{
    for (int64_t o = 0; o < a->outer; o++) {
        for (int64_t e = 0; e < a->inner; e++) {
            if (!same_element(a->t, position(a, o, i) + e, b->t, position(b, o, k) + e)) {
                return false;
            }
        }
    }
    return true;
}

/* Slot values are slice numbers + 1; 0 is free. At most half full. */
struct table {
    int64_t *slot;
    uint64_t mask;
};

static enum td_code new_table(struct td_call *c, int64_t n, struct table *t, struct td_err *err)
{
    uint64_t slots = 16;
    void *mem;
    while (slots < 2 * (uint64_t)n) {
        slots *= 2;
    }
    TD_TRY(td_scratch(c, slots * sizeof(int64_t), &mem, err));
    memset(mem, 0, slots * sizeof(int64_t));
    *t = (struct table){.slot = mem, .mask = slots - 1};
    return TD_OK;
}

/* The slot of a slice of `in` equal to slice i of s, or the free one where it belongs. */
static int64_t *find(const struct table *t, const struct slices *in, const struct slices *s, int64_t i,
                     uint64_t hash)
{
    uint64_t at = hash & t->mask;
    while (t->slot[at] != 0 && !same_slice(in, t->slot[at] - 1, s, i)) {
        at = (at + 1) & t->mask;
    }
    return &t->slot[at];
}

/* ------------------------------------------------------------------ Unique */

/* Distinct slices: first[k] is where the k-th occurs first, which[i] its number k for slice i, count[k]
 * how often. */
struct groups {
    int64_t n;
    int64_t *first, *which, *count;
};

/* What was seen of numbers: their bits and group + 1; 0 is free. At most half full. */
struct seen {
    uint64_t bits;
    int64_t group;
};

static struct seen *find_bits(struct seen *seen, uint64_t mask, uint64_t bits)
{
    uint64_t at = td_hash_mix(bits) & mask;
    while (seen[at].group != 0 && seen[at].bits != bits) {
        at = (at + 1) & mask;
    }
    return &seen[at];
}

/* A table of `slots`, with what is in the old one of half as many (NULL: none). */
static enum td_code grow_seen(struct td_call *c, uint64_t slots, struct seen **seen, struct td_err *err)
{
    struct seen *old = *seen;
    void *mem;
    TD_TRY(td_scratch(c, slots * sizeof **seen, &mem, err));
    memset(mem, 0, slots * sizeof **seen);
    *seen = mem;
    for (uint64_t i = 0; old != NULL && i < slots / 2; i++) {
        if (old[i].group != 0) {
            *find_bits(*seen, slots - 1, old[i].bits) = old[i];
        }
    }
    return TD_OK;
}

/* group_slices of single numbers: a table that grows with the groups, not with the elements. */
static enum td_code group_numbers(struct td_call *c, const struct slices *s, struct groups *g,
                                  struct td_err *err)
{
    uint64_t slots = 1024;
    struct seen *seen = NULL;
    TD_TRY(grow_seen(c, slots, &seen, err));
    for (int64_t i = 0; i < s->n; i++) {
        const uint64_t bits = bits_at(s->t, i);
        const bool nan = is_nan(s->t, bits);
        struct seen *at = nan ? NULL : find_bits(seen, slots - 1, bits);
        if (at != NULL && at->group != 0) {
            g->which[i] = at->group - 1;
        } else {
            g->which[i] = g->n;
            g->first[g->n] = i;
            g->count[g->n++] = 0;
            if (at != NULL) {
                *at = (struct seen){bits, g->n};
            }
            if ((uint64_t)g->n * 2 > slots) {
                slots *= 2;
                TD_TRY(grow_seen(c, slots, &seen, err));
            }
        }
        g->count[g->which[i]]++;
        if ((i & 1023) == 0 && td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

static enum td_code group_slices(struct td_call *c, const struct slices *s, struct groups *g,
                                 struct td_err *err)
{
    void *mem;
    struct table table;
    TD_FAIL_IF(s->n > INT32_MAX, err, INVALID_ARGUMENT,
               "%s: unique does not support input tensors larger than %d elements", TD_NODE_STR(c->node),
               INT32_MAX);
    TD_TRY(td_scratch(c, (size_t)s->n * 3 * sizeof(int64_t) + 1, &mem, err));
    *g = (struct groups){.first = mem};
    g->which = g->first + s->n;
    g->count = g->which + s->n;
    if (s->outer == 1 && s->inner == 1 && s->t->dtype != TD_STRING) {
        return group_numbers(c, s, g, err);
    }
    TD_TRY(new_table(c, s->n, &table, err));
    for (int64_t i = 0; i < s->n; i++) {
        bool nan;
        const uint64_t hash = hash_slice(s, i, &nan);
        int64_t *slot = nan ? NULL : find(&table, s, s, i, hash);
        if (slot != NULL && *slot != 0) {
            g->which[i] = g->which[*slot - 1];
        } else {
            if (slot != NULL) {
                *slot = i + 1;
            }
            g->which[i] = g->n;
            g->first[g->n] = i;
            g->count[g->n++] = 0;
        }
        g->count[g->which[i]]++;
        if ((i & 1023) == 0 && td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

/* The axis that input 1 asks for (-1: none, x is a vector). */
static enum td_code unique_axis(const struct td_node *node, const struct td_shape *x,
                                const struct td_tensor *axis, int *out, struct td_err *err)
{
    const int64_t n = axis == NULL ? 0 : td_tensor_count(axis);
    *out = 0;
    TD_FAIL_IF(n > 1, err, INVALID_ARGUMENT, "%s: axis does not support input tensors larger than 1 elements",
               TD_NODE_STR(node));
    if (n == 0) {
        TD_FAIL_IF(x->rank != 1, err, INVALID_ARGUMENT, "%s: unique expects a 1D vector, got shape %s",
                   TD_NODE_STR(node), TD_SHAPE_STR(x));
        return TD_OK;
    }
    TD_FAIL_IF(!td_shape_axis(x->rank, td_tensor_int(axis, 0), out), err, INVALID_ARGUMENT,
               "%s: axis has to be between [0, %d), got %lld", TD_NODE_STR(node), x->rank,
               (long long)td_tensor_int(axis, 0));
    return TD_OK;
}

static enum td_code unique_shapes(struct td_infer *c, bool has_axis, struct td_err *err)
{
    for (int i = 1; i < c->n_out; i++) {
        c->out[i] = td_shape_vector(-1);
    }
    if (has_axis) {
        TD_FAIL_IF(c->in[1].rank >= 0 && c->in[1].rank != 1, err, INVALID_ARGUMENT,
                   "%s: axis expects a 1D vector, got shape %s", TD_NODE_STR(c->node),
                   TD_SHAPE_STR(&c->in[1]));
        if (c->value[1] == NULL) {
            return TD_OK;
        }
    }
    if (c->in[0].rank < 0) {
        return TD_OK;
    }
    int axis;
    TD_TRY(unique_axis(c->node, &c->in[0], has_axis ? c->value[1] : NULL, &axis, err));
    c->out[0] = c->in[0];
    c->out[0].dim[axis] = -1;
    c->out[1] = td_shape_vector(c->in[0].dim[axis]);
    return TD_OK;
}

static enum td_code unique_infer(struct td_infer *c, struct td_err *err)
{
    return unique_shapes(c, false, err);
}
static enum td_code unique_v2_infer(struct td_infer *c, struct td_err *err)
{
    return unique_shapes(c, true, err);
}

/* y: the first slice of every group. */
static enum td_code out_groups(struct td_call *c, const struct slices *s, const struct groups *g, int axis,
                               struct td_err *err)
{
    struct td_shape shape = s->t->shape;
    struct td_tensor *y;
    shape.dim[axis] = g->n;
    TD_TRY(td_out(c, 0, &shape, &y, err));
    const int64_t size = (int64_t)td_dtype_size(y->dtype);
    for (int64_t o = 0; s->inner > 0 && o < s->outer; o++) {
        for (int64_t k = 0; k < g->n; k++) {
            td_elems_copy(y->dtype, (char *)y->data + (o * g->n + k) * s->inner * size,
                          (const char *)s->t->data + position(s, o, g->first[k]) * size, s->inner);
        }
    }
    return TD_OK;
}

static enum td_code unique_along(struct td_call *c, const struct td_tensor *axis_value, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct groups g = {.n = 0};
    int axis;
    TD_TRY(unique_axis(c->node, &x->shape, axis_value, &axis, err));
    const struct slices s = {.t = x,
                             .outer = td_shape_range(&x->shape, 0, axis),
                             .n = x->shape.dim[axis],
                             .inner = td_shape_range(&x->shape, axis + 1, x->shape.rank)};
    TD_TRY(group_slices(c, &s, &g, err));
    TD_TRY(out_groups(c, &s, &g, axis, err));
    const int64_t lengths[] = {0, s.n, g.n};
    const int64_t *const from[] = {NULL, g.which, g.count};
    for (int i = 1; i < c->n_out; i++) {
        const struct td_shape shape = td_shape_vector(lengths[i]);
        struct td_tensor *y;
        TD_TRY(td_out(c, i, &shape, &y, err));
        for (int64_t k = 0; k < lengths[i]; k++) {
            td_tensor_set_int(y, k, from[i][k]);
        }
    }
    return TD_OK;
}

static enum td_code unique_run(struct td_call *c, struct td_err *err)
{
    return unique_along(c, NULL, err);
}
static enum td_code unique_v2_run(struct td_call *c, struct td_err *err)
{
    return unique_along(c, c->in[1], err);
}

/* ------------------------------------------------------------------ ListDiff */

static enum td_code list_diff_infer(struct td_infer *c, struct td_err *err)
{
    static const char *const names[] = {"x", "y"};
    for (int i = 0; i < 2; i++) {
        TD_FAIL_IF(c->in[i].rank >= 0 && c->in[i].rank != 1, err, INVALID_ARGUMENT,
                   "%s: %s should be a 1D vector, got shape %s", TD_NODE_STR(c->node), names[i],
                   TD_SHAPE_STR(&c->in[i]));
        c->out[i] = td_shape_vector(-1);
    }
    return TD_OK;
}

/* keep[i]: x[i] is not in y. Returns how many. */
static enum td_code absent(struct td_call *c, bool *keep, int64_t *n_kept, struct td_err *err)
{
    const struct slices x = {.t = c->in[0], .outer = 1, .n = td_tensor_count(c->in[0]), .inner = 1};
    const struct slices y = {.t = c->in[1], .outer = 1, .n = td_tensor_count(c->in[1]), .inner = 1};
    struct table table;
    bool nan;
    TD_TRY(new_table(c, y.n, &table, err));
    for (int64_t i = 0; i < y.n; i++) {
        const uint64_t hash = hash_slice(&y, i, &nan);
        if (!nan) {
            *find(&table, &y, &y, i, hash) = i + 1;
        }
    }
    *n_kept = 0;
    for (int64_t i = 0; i < x.n; i++) {
        const uint64_t hash = hash_slice(&x, i, &nan);
        keep[i] = nan || *find(&table, &y, &x, i, hash) == 0;
        *n_kept += keep[i];
    }
    return TD_OK;
}

static enum td_code list_diff_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const int64_t n = td_tensor_count(x), size = (int64_t)td_dtype_size(x->dtype);
    int64_t kept = 0, at = 0;
    void *mem;
    TD_TRY(td_scratch(c, (size_t)n + 1, &mem, err));
    const bool *keep = mem;
    TD_TRY(absent(c, mem, &kept, err));
    const struct td_shape shape = td_shape_vector(kept);
    struct td_tensor *out, *idx;
    TD_TRY(td_out(c, 0, &shape, &out, err));
    TD_TRY(td_out(c, 1, &shape, &idx, err));
    for (int64_t i = 0; i < n; i++) {
        if (keep[i]) {
            td_elems_copy(x->dtype, (char *)out->data + at * size, (const char *)x->data + i * size, 1);
            td_tensor_set_int(idx, at++, i);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ UnravelIndex */

static enum td_code unravel_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[1].rank >= 0 && c->in[1].rank != 1, err, INVALID_ARGUMENT,
               "%s: The indices can only be 1-D, got \"%s\"", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]));
    TD_FAIL_IF(c->in[0].rank > 1, err, INVALID_ARGUMENT,
               "%s: The indices can only be scalar or vector, got \"%s\"", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    const int64_t rank = c->in[1].rank == 1 ? c->in[1].dim[0] : -1;
    if (c->in[0].rank >= 0) {
        c->out[0] = c->in[0].rank == 0 ? td_shape_vector(rank) : td_shape_matrix(rank, c->in[0].dim[0]);
    }
    return TD_OK;
}

static enum td_code unravel_count(const struct td_call *c, int64_t *count, struct td_err *err)
{
    const struct td_tensor *dims = c->in[1];
    const int64_t rank = td_tensor_count(dims);
    *count = 1;
    for (int64_t k = 0; k < rank; k++) {
        const int64_t dim = td_tensor_int(dims, k);
        TD_FAIL_IF(dim == 0, err, INVALID_ARGUMENT,
                   "%s: Input dims cannot contain a dim of zero, but dims contains zero at index %lld",
                   TD_NODE_STR(c->node), (long long)k);
        TD_FAIL_IF(dim < 0 || !td_i64_mul(*count, dim, count), err, INVALID_ARGUMENT,
                   "%s: Input dims product must be positive and fit int64, dims[%lld] is %lld",
                   TD_NODE_STR(c->node), (long long)k, (long long)dim);
    }
    return TD_OK;
}

static enum td_code unravel_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *indices = c->in[0], *dims = c->in[1];
    const int64_t n = td_tensor_count(indices), rank = td_tensor_count(dims);
    int64_t count;
    struct td_tensor *y;
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s: received empty tensor indices", TD_NODE_STR(c->node));
    TD_TRY(unravel_count(c, &count, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = td_tensor_int(indices, i);
        TD_FAIL_IF(rest >= count, err, INVALID_ARGUMENT,
                   "%s: index is out of bound as with dims: %lld of %lld", TD_NODE_STR(c->node),
                   (long long)rest, (long long)count);
        for (int64_t k = rank - 1; k >= 0; k--) {
            const int64_t dim = td_tensor_int(dims, k);
            td_tensor_set_int(y, k * n + i, rest % dim);
            rest /= dim;
        }
    }
    return TD_OK;
}

#define UNIQUE_TYPES                                                                                         \
    {                                                                                                        \
        "T", TD_SET_REALS | TD_BIT(TD_BOOL) | TD_BIT(TD_STRING)                                              \
    }
#define OUT_IDX                                                                                              \
    {                                                                                                        \
        "out_idx", TD_SET_INDEX                                                                              \
    }

const struct td_op td_ops_array_unique[] = {
    {.name = "Unique",
     .sig = "(x:T) -> (y:T, idx:out_idx) {T:type; out_idx:type=int32}",
     .infer = unique_infer,
     .kernels = TD_KERNEL("unique.cpu", unique_run, UNIQUE_TYPES, OUT_IDX)},
    {.name = "UniqueV2",
     .sig = "(x:T, axis:Taxis) -> (y:T, idx:out_idx) {T:type; Taxis:type=int64; out_idx:type=int32}",
     .host_in = 2,
     .infer = unique_v2_infer,
     .kernels = TD_KERNEL("unique.cpu", unique_v2_run, UNIQUE_TYPES, OUT_IDX, {"Taxis", TD_SET_INDEX})},
    {.name = "UniqueWithCounts",
     .sig = "(x:T) -> (y:T, idx:out_idx, count:out_idx) {T:type; out_idx:type=int32}",
     .infer = unique_infer,
     .kernels = TD_KERNEL("unique.cpu", unique_run, UNIQUE_TYPES, OUT_IDX)},
    {.name = "UniqueWithCountsV2",
     .sig = "(x:T, axis:Taxis) -> (y:T, idx:out_idx, count:out_idx) {T:type; Taxis:type=int64; "
            "out_idx:type=int32}",
     .host_in = 2,
     .infer = unique_v2_infer,
     .kernels = TD_KERNEL("unique.cpu", unique_v2_run, UNIQUE_TYPES, OUT_IDX, {"Taxis", TD_SET_INDEX})},
    {.name = "ListDiff",
     .sig = "(x:T, y:T) -> (out:T, idx:out_idx) {T:type; out_idx:type=int32}",
     .infer = list_diff_infer,
     .kernels = TD_KERNEL("list_diff.cpu", list_diff_run, {"T", TD_SET_REALS | TD_BIT(TD_STRING)}, OUT_IDX)},
    {.name = "UnravelIndex",
     .sig = "(indices:Tidx, dims:Tidx) -> (output:Tidx) {Tidx:type=int32}",
     .infer = unravel_infer,
     .kernels = TD_KERNEL("unravel_index.cpu", unravel_run, {"Tidx", TD_SET_INDEX})},
    {.name = NULL},
};
