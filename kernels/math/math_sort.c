/* kernels/math/math_sort.c - TopK, TopKV2, ApproxTopK, NthElement: the greatest elements of rows.
 *
 *   input [.., n] of T, k  ->  values [.., k] of T, indices [.., k] of an integer type
 *   ApproxTopK: input [.., n, ..]  ->  values, indices [.., k, ..]: the greatest or the smallest, and exactly
 *               those, whatever recall is asked for; along any axis
 *   NthElement: input [.., n], n  ->  values [..], the n-th smallest (or greatest) of each row
 *
 * Elements become unsigned keys of the same order (floats: sign and magnitude to two's complement, -0 as 0,
 * NaN greatest), so one selection serves all dtypes. A heap of the k best has the worst of them on top; most
 * elements lose against it at once. Of equal values the one with the lower index comes first. Results are in
 * descending order, also where the op does not ask for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/math/math_sort_grad.h"
#include "kernels/cpu/vecmath.h"

struct entry {
    uint64_t key;
    int64_t index;
};

/* ------------------------------------------------------------------ keys */

static uint64_t key_of_double(double v)
{
    uint64_t u;
    v = v == 0 ? 0 : v;
    memcpy(&u, &v, 8);
    u = v == v ? u : 0x7fffffffffffffffu;
    return u >> 63 ? ~u : u | 0x8000000000000000u;
}

static uint64_t key_of_int(int64_t v)
{
    return (uint64_t)v ^ 0x8000000000000000u;
}

static uint64_t key(const void *x, enum td_dtype t, int64_t i)
{
    switch (t) {
    case TD_FLOAT:
        return key_of_double((double)((const float *)x)[i]);
    case TD_DOUBLE:
        return key_of_double(((const double *)x)[i]);
    case TD_HALF:
        return key_of_double((double)td_half_to_float(((const td_half *)x)[i]));
    case TD_BFLOAT16:
        return key_of_double((double)td_bf16_to_float(((const td_bf16 *)x)[i]));
    case TD_INT8:
        return key_of_int(((const int8_t *)x)[i]);
    case TD_INT16:
        return key_of_int(((const int16_t *)x)[i]);
    case TD_INT32:
        return key_of_int(((const int32_t *)x)[i]);
    case TD_INT64:
        return key_of_int(((const int64_t *)x)[i]);
    case TD_UINT8:
        return ((const uint8_t *)x)[i];
    case TD_UINT16:
        return ((const uint16_t *)x)[i];
    case TD_UINT32:
        return ((const uint32_t *)x)[i];
    default:
        return ((const uint64_t *)x)[i];
    }
}

/* ------------------------------------------------------------------ selection */

static bool worse(const struct entry *a, const struct entry *b)
{
    return a->key < b->key || (a->key == b->key && a->index > b->index);
}

enum { BLOCK = 32 };

/* Restores the heap below `at`: the worst on top. */
static void sift_down(struct entry *h, int64_t n, int64_t at)
{
    struct entry e = h[at];
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && worse(&h[child + 1], &h[child]);
        if (!worse(&h[child], &e)) {
            break;
        }
        h[at] = h[child];
        at = child;
    }
    h[at] = e;
}

/* The first place from i on where x is not at most `bar` (NaN is not), or n. */
TD_CLONES static int64_t next_above(const float *x, int64_t i, int64_t n, float bar)
{
    for (; i + BLOCK <= n; i += BLOCK) {
        int32_t above = 0;
        for (int k = 0; k < BLOCK; k++) {
            above += !(x[i + k] <= bar);
        }
        if (above > 0) {
            break;
        }
    }
    while (i < n && x[i] <= bar) {
        i++;
    }
    return i;
}

/* The k best of n elements starting at `from`, best first; flip: of the reversed order. 0 < k <= n. */
static void select_best(const struct td_tensor *x, int64_t from, int64_t n, int64_t k, uint64_t flip,
                        struct entry *h)
{
    for (int64_t i = 0; i < k; i++) {
        h[i] = (struct entry){key(x->data, x->dtype, from + i) ^ flip, i};
    }
    for (int64_t i = k / 2 - 1; i >= 0; i--) {
        sift_down(h, k, i);
    }
    bool skips = x->dtype == TD_FLOAT && flip == 0 && k < n / 8;
    const float *values = skips ? TD_DATA(x, const float) + from : NULL;
    for (int64_t i = k; i < n; i++) {
        if (skips && (i = next_above(values, i, n, values[h[0].index])) == n) {
            break;
        }
        struct entry e = {key(x->data, x->dtype, from + i) ^ flip, i};
        if (worse(&h[0], &e)) {
            h[0] = e;
            sift_down(h, k, 0);
        }
    }
    for (int64_t last = k - 1; last > 0; last--) {
        struct entry worst = h[0];
        h[0] = h[last];
        h[last] = worst;
        sift_down(h, last, 0);
    }
}

static void put_index(struct td_tensor *t, int64_t i, int64_t v)
{
    switch (t->dtype) {
    case TD_INT16:
        TD_DATA(t, int16_t)[i] = (int16_t)v;
        break;
    case TD_INT32:
        TD_DATA(t, int32_t)[i] = (int32_t)v;
        break;
    default:
        TD_DATA(t, int64_t)[i] = v;
    }
}

/* ------------------------------------------------------------------ TopK */

static enum td_code infer_top(struct td_infer *c, bool known, int64_t k, struct td_err *err)
{
    const struct td_shape *in = &c->in[0];
    TD_FAIL_IF(in->rank == 0, err, INVALID_ARGUMENT, "%s: input must be >= 1-D, got shape []",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(known && k < 0, err, INVALID_ARGUMENT, "%s: Need k >= 0, got %lld", TD_NODE_STR(c->node),
               (long long)k);
    if (in->rank < 0) {
        return TD_OK;
    }
    int64_t n = in->dim[in->rank - 1];
    TD_FAIL_IF(known && n >= 0 && n < k, err, INVALID_ARGUMENT,
               "%s: input must have at least k columns. Had %lld, needed %lld", TD_NODE_STR(c->node),
               (long long)n, (long long)k);
    c->out[0] = *in;
    c->out[0].dim[in->rank - 1] = known ? k : -1;
    c->out[1] = c->out[0];
    return TD_OK;
}

static enum td_code infer_top_k(struct td_infer *c, struct td_err *err)
{
    return infer_top(c, true, td_attr_int(c->node, "k"), err);
}

static enum td_code infer_top_k_v2(struct td_infer *c, struct td_err *err)
{
    bool known;
    int64_t k;
    TD_FAIL_IF(c->in[1].rank > 0, err, INVALID_ARGUMENT, "%s: k must be scalar, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]));
    TD_TRY(td_infer_int_value(c, 1, &known, &k, err));
    return infer_top(c, known, k, err);
}

static enum td_code top_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *values, *indices;
    TD_TRY(td_out(c, 0, NULL, &values, err));
    TD_TRY(td_out(c, 1, NULL, &indices, err));
    int64_t n = x->shape.dim[x->shape.rank - 1], k = values->shape.dim[x->shape.rank - 1];
    if (td_tensor_count(values) == 0) {
        return TD_OK;
    }
    int64_t rows = td_tensor_count(x) / n;
    size_t size = td_dtype_size(x->dtype), bytes;
    TD_FAIL_IF(!td_size_mul((size_t)k, sizeof(struct entry), &bytes), err, RESOURCE_EXHAUSTED,
               "%s: k is %lld", TD_NODE_STR(c->node), (long long)k);
    void *heap;
    TD_TRY(td_scratch(c, bytes, &heap, err));
    for (int64_t r = 0; r < rows; r++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        select_best(x, r * n, n, k, 0, heap);
        const struct entry *e = heap;
        for (int64_t i = 0; i < k; i++) {
            memcpy((char *)values->data + (size_t)(r * k + i) * size,
                   (const char *)x->data + (size_t)(r * n + e[i].index) * size, size);
            put_index(indices, r * k + i, e[i].index);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ ApproxTopK */

static enum td_code infer_approx(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *in = &c->in[0];
    const int64_t k = td_attr_int(c->node, "k"), dim = td_attr_int(c->node, "reduction_dimension");
    const float recall = td_attr_float(c->node, "recall_target");
    int axis;
    TD_FAIL_IF(k < 0, err, INVALID_ARGUMENT, "%s: Need k >= 0, got %lld", TD_NODE_STR(c->node), (long long)k);
    TD_FAIL_IF(!(recall > 0 && recall <= 1), err, INVALID_ARGUMENT,
               "%s: Invalid recall target: %g. Valid value range in : [0, 1.0].", TD_NODE_STR(c->node),
               (double)recall);
    TD_FAIL_IF(in->rank == 0, err, INVALID_ARGUMENT, "%s: input must be >= 1-D, got shape []",
               TD_NODE_STR(c->node));
    if (in->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(!td_shape_axis(in->rank, dim, &axis), err, INVALID_ARGUMENT,
               "%s: reduction_dimension %lld of an input of rank %d", TD_NODE_STR(c->node), (long long)dim,
               in->rank);
    TD_FAIL_IF(in->dim[axis] >= 0 && in->dim[axis] < k, err, INVALID_ARGUMENT,
               "%s: input must have dimension %d >= k = %lld but was %lld", TD_NODE_STR(c->node), axis,
               (long long)k, (long long)in->dim[axis]);
    c->out[0] = *in;
    c->out[0].dim[axis] = k;
    c->out[1] = c->out[0];
    return TD_OK;
}

/* Element i, from `at` on in steps, of what is in lines through x. */
static const char *line_element(const struct td_tensor *x, int64_t at, int64_t i, int64_t step)
{
    return (const char *)x->data + (size_t)(at + i * step) * td_dtype_size(x->dtype);
}

/* One line of n elements that lie `inner` apart, from element `from` of x to element `to` of the results. */
struct top_line {
    int64_t n, k, inner, from, to;
    uint64_t flip;
    struct td_tensor *line; /* room for n elements of x */
    struct entry *heap;
};

static void top_of_line(const struct td_tensor *x, const struct top_line *l, struct td_tensor *values,
                        struct td_tensor *indices)
{
    const size_t size = td_dtype_size(x->dtype);
    for (int64_t i = 0; i < l->n; i++) {
        memcpy((char *)l->line->data + (size_t)i * size, line_element(x, l->from, i, l->inner), size);
    }
    select_best(l->line, 0, l->n, l->k, l->flip, l->heap);
    for (int64_t i = 0; i < l->k; i++) {
        const int64_t at = l->to + i * l->inner;
        memcpy((char *)values->data + (size_t)at * size, line_element(l->line, 0, l->heap[i].index, 1), size);
        put_index(indices, at, l->heap[i].index);
    }
}

static enum td_code approx_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *values, *indices;
    int axis;
    TD_FAIL_IF(!td_shape_axis(x->shape.rank, td_attr_int(c->node, "reduction_dimension"), &axis), err,
               INTERNAL, "%s: no such axis", TD_NODE_STR(c->node));
    const bool largest = td_attr_bool(c->node, "is_max_k");
    if (largest && axis == x->shape.rank - 1) {
        return top_run(c, err);
    }
    TD_TRY(td_out(c, 0, NULL, &values, err));
    TD_TRY(td_out(c, 1, NULL, &indices, err));
    if (td_tensor_count(values) == 0) {
        return TD_OK;
    }
    struct td_tensor line = {.dtype = x->dtype};
    struct top_line l = {.n = x->shape.dim[axis],
                         .k = values->shape.dim[axis],
                         .inner = td_shape_range(&x->shape, axis + 1, x->shape.rank),
                         .flip = largest ? 0 : UINT64_MAX,
                         .line = &line};
    void *heap;
    TD_TRY(td_scratch(c, (size_t)l.n * td_dtype_size(x->dtype), &line.data, err));
    TD_TRY(td_scratch(c, (size_t)l.k * sizeof(struct entry), &heap, err));
    l.heap = heap;
    const int64_t lines = td_tensor_count(x) / l.n;
    for (int64_t r = 0; r < lines; r++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        l.from = r / l.inner * l.n * l.inner + r % l.inner;
        l.to = r / l.inner * l.k * l.inner + r % l.inner;
        top_of_line(x, &l, values, indices);
    }
    return TD_OK;
}

static bool rows_of_approx(struct td_batchable_step *s)
{
    int axis;
    if (!td_batchable_alone(s, 0) ||
        !td_shape_axis(td_batchable_rank(s, 0), td_attr_int(s->node, "reduction_dimension"), &axis)) {
        return false;
    }
    return s->in[0].axis != axis ? td_batchable_as_input(s, 0, 0, s->in[0].axis) &&
                                       td_batchable_as_input(s, 1, 0, s->in[0].axis)
                                 : td_batchable_no(s, "it works along the axis of the rows");
}

/* ------------------------------------------------------------------ NthElement */

/* The shape does not depend on n, so n may become known only after infer. */
static enum td_code check_nth(const struct td_node *node, int64_t n, int64_t last_dim, struct td_err *err)
{
    TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT, "%s: n must be non-negative but is %lld", TD_NODE_STR(node),
               (long long)n);
    TD_FAIL_IF(last_dim >= 0 && last_dim <= n, err, INVALID_ARGUMENT,
               "%s: Input must have last dimension > n = %lld, has %lld", TD_NODE_STR(node), (long long)n,
               (long long)last_dim);
    return TD_OK;
}

static enum td_code infer_nth(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *in = &c->in[0];
    TD_FAIL_IF(c->in[1].rank > 0, err, INVALID_ARGUMENT, "%s: N must be scalar but has rank %d",
               TD_NODE_STR(c->node), c->in[1].rank);
    TD_FAIL_IF(in->rank == 0, err, INVALID_ARGUMENT, "%s: Input must be at least rank 1 but is rank 0",
               TD_NODE_STR(c->node));
    if (in->rank > 0) {
        c->out[0] = *in;
        c->out[0].rank--;
    }
    return TD_OK;
}

static enum td_code nth_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = x->shape.dim[x->shape.rank - 1], rows = td_tensor_count(y),
            k = td_tensor_int(c->in[1], 0) + 1;
    TD_TRY(check_nth(c->node, k - 1, n, err));
    uint64_t flip = td_attr_bool(c->node, "reverse") ? 0 : UINT64_MAX;
    size_t size = td_dtype_size(x->dtype);
    void *heap;
    TD_TRY(td_scratch(c, (size_t)k * sizeof(struct entry), &heap, err));
    for (int64_t r = 0; r < rows; r++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        select_best(x, r * n, n, k, flip, heap);
        int64_t at = r * n + ((const struct entry *)heap)[k - 1].index;
        memcpy((char *)y->data + (size_t)r * size, (const char *)x->data + (size_t)at * size, size);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define SET_INDEX16 (TD_SET_INDEX | TD_BIT(TD_INT16))
const struct td_op td_ops_math_sort[] = {
    {.name = "TopK",
     .sig = "(input:T) -> (values:T, indices:int32) {k:int; sorted:bool=true; T:type}",
     .permute = &td_permute_map1,
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .infer = infer_top_k,
     .grad = td_top_k_grad,
     .kernels = TD_KERNEL("math_sort.cpu", top_run, {"T", TD_SET_REALS})},
    {.name = "TopKV2",
     .sig = "(input:T, k:Tk) -> (values:T, indices:index_type) {sorted:bool=true; T:type; Tk:type=int32; "
            "index_type:type=int32}",
     .permute = &td_permute_map1,
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .host_in = 1u << 1,
     .infer = infer_top_k_v2,
     .grad = td_top_k_grad,
     .kernels = TD_KERNEL("math_sort.cpu", top_run, {"T", TD_SET_REALS}, {"Tk", SET_INDEX16},
                          {"index_type", SET_INDEX16})},
    {.name = "ApproxTopK",
     .sig = "(input:T) -> (values:T, indices:int32) {k:int; reduction_dimension:int=-1; "
            "recall_target:float=0.95; is_max_k:bool=true; reduction_input_size_override:int=-1; "
            "aggregate_to_topk:bool=true; T:type}",
     .batchable = TD_BATCHABLE(rows_of_approx),
     .infer = infer_approx,
     .grad = td_approx_top_k_grad,
     .kernels = TD_KERNEL("math_sort.cpu", approx_run,
                          {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16)})},
    {.name = "NthElement",
     .sig = "(input:T, n:int32) -> (values:T) {reverse:bool=false; T:type}",
     .permute = &td_permute_map1,
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .host_in = 1u << 1,
     .infer = infer_nth,
     .grad = td_nth_element_grad,
     .kernels = TD_KERNEL("math_sort.cpu", nth_run, {"T", TD_SET_REALS})},
    {.name = NULL},
};
