/* kernels/cuda/array/segment.c - rows of reductions over segments: Segment*, UnsortedSegment*, SparseSegment*
 * and its gradients.
 *
 *   Segment*, SparseSegment*    ids ascend: they are keys as they stand; a segment begins with its first row
 *   UnsortedSegment*            ids -> keys, sorted; a segment begins with what leaves others unchanged
 *   SparseSegment*Grad          indices -> keys, sorted; ids say which row of the gradient, and its scale
 *   SparseSegment*GradV2        the same to rows for the distinct indices alone, which are counted first
 *
 * How many rows a result has may be the last id's to say: the shape function reads it where the ids are on
 * the host, or has them brought there. Segments of nothing stay on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cuda/base/combine.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/array/picked.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/base/sort.h"

/* Outputs have rows; all inputs have something. */
static bool offers(const struct td_kernel_query *q, int64_t n, struct td_kernel_offer *o)
{
    bool empty = td_shape_count(&q->out[0]) == 0;
    for (int i = 0; i < q->n_in; i++) {
        empty = empty || td_shape_count(&q->in[i]) == 0;
    }
    o->refusal = empty                                             ? "nothing is reduced"
                 : n >= INT32_MAX || q->out[0].dim[0] >= INT32_MAX ? "more rows than 32 bits count"
                                                                   : NULL;
    return o->refusal == NULL;
}

/* Runs s over sorted keys. */
static int combine(const struct td_call *c, enum td_cuda_combine_op op, const struct td_cuda_combining *s,
                   const struct td_tensor *y)
{
    return td_cuda_combine(op, td_cuda_type_of(y->dtype), s, c->in[0]->data, y->data, td_cuda_stream_of(c));
}

/* n sources of `inner` elements each, to the first axis of y. */
static struct td_cuda_combining rows_of(const struct td_tensor *y, const struct td_cuda_keys *k,
                                        int64_t sources)
{
    return (struct td_cuda_combining){.n = k->n,
                                      .outer = 1,
                                      .dim = k->most,
                                      .per = sources,
                                      .sources = sources,
                                      .inner = td_shape_range(&y->shape, 1, y->shape.rank),
                                      .most = k->most,
                                      .fault = k->kind == TD_CUDA_SORTED ? k->fault : NULL};
}

static struct td_cuda_keys keys_of(const struct td_call *c, enum td_cuda_key_kind kind, int ids,
                                   const struct td_tensor *y)
{
    return (struct td_cuda_keys){.kind = kind,
                                 .indices = td_cuda_indices_of(c->in[ids]),
                                 .n = td_tensor_count(c->in[ids]),
                                 .batches = 1,
                                 .dim = y->shape.dim[0],
                                 .most = (int32_t)y->shape.dim[0],
                                 .fault = c->fault};
}

/* ------------------------------------------------------------------ Segment* */

static enum td_code prepare_segment(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                    struct td_err *err)
{
    const int64_t n = td_shape_count(&q->in[1]);
    (void)err;
    o->workspace_bytes = offers(q, n, o) ? (size_t)n * sizeof(int32_t) : 0;
    return TD_OK;
}

/* The bytes of 0, 1, the lowest or the highest of a type, lowest byte first. */
static void begin_with(enum td_cuda_combine_op op, enum td_dtype dtype, unsigned char v[16])
{
    static const struct {
        enum td_dtype dtype;
        uint64_t one, lowest, highest;
    } ends[] = {
        {TD_FLOAT, 0x3f800000, 0xff7fffff, 0x7f7fffff},
        {TD_DOUBLE, 0x3ff0000000000000, 0xffefffffffffffff, 0x7fefffffffffffff},
        {TD_HALF, 0x3c00, 0xfbff, 0x7bff},
        {TD_BFLOAT16, 0x3f80, 0xff7f, 0x7f7f},
        {TD_INT32, 1, 0x80000000, 0x7fffffff},
        {TD_INT64, 1, 0x8000000000000000, 0x7fffffffffffffff},
    };
    memset(v, 0, 16);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const uint64_t value = op == TD_CUDA_MULTIPLY      ? ends[i].one
                               : op == TD_CUDA_LEAST_LATER ? ends[i].highest
                               : op == TD_CUDA_MOST_LATER  ? ends[i].lowest
                                                           : 0;
        if (ends[i].dtype == dtype) {
            memcpy(v, &value, sizeof value);
        }
    }
}

static enum td_code fill(const struct td_call *c, const struct td_tensor *y, enum td_cuda_combine_op op,
                         struct td_err *err)
{
    unsigned char v[16];
    begin_with(op, y->dtype, v);
    return td_cuda_launched(
        c, td_cuda_fill(td_dtype_size(y->dtype), v, y->data, td_tensor_count(y), td_cuda_stream_of(c)), err);
}

/* Segments without rows are 0, or 1 of products. Sums of small floats are made in floats, as TensorFlow's
 * are, means are not. */
static enum td_code segment(struct td_call *c, enum td_cuda_combine_op op, bool mean, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_keys k = keys_of(c, TD_CUDA_SORTED, 1, y);
    struct td_cuda_combining s = rows_of(y, &k, k.n);
    TD_TRY(fill(c, y, op == TD_CUDA_MULTIPLY ? op : TD_CUDA_ADD, err));
    int32_t *keys = c->workspace;
    int error = td_cuda_keys_make(&k, keys, td_cuda_stream_of(c));
    s.keys = keys;
    s.rounds = op != TD_CUDA_ADD || mean;
    s.divides = mean;
    return td_cuda_launched(c, error != 0 ? error : combine(c, op, &s, y), err);
}

/* ------------------------------------------------------------------ UnsortedSegment* */

static enum td_code prepare_unsorted(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    const int64_t n = td_shape_count(&q->in[1]);
    (void)err;
    o->workspace_bytes = offers(q, n, o) ? td_cuda_sort_bytes(n) : 0;
    return TD_OK;
}

/* Keys of k made and sorted in the workspace. */
static int sorted(const struct td_call *c, const struct td_cuda_keys *k, struct td_cuda_combining *s)
{
    struct td_cuda_sort sort;
    const int error = td_cuda_keys_sort(k, c->workspace, &sort, td_cuda_stream_of(c));
    s->keys = sort.keys;
    s->order = sort.order;
    return error;
}

static enum td_code unsorted(struct td_call *c, enum td_cuda_combine_op op, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(fill(c, y, op, err));
    const struct td_cuda_keys k = keys_of(c, TD_CUDA_IDS, 1, y);
    struct td_cuda_combining s = rows_of(y, &k, k.n);
    const int error = sorted(c, &k, &s);
    s.from_y = s.rounds = true;
    return td_cuda_launched(c, error != 0 ? error : combine(c, op, &s, y), err);
}

/* ------------------------------------------------------------------ SparseSegment* */

static enum td_code prepare_sparse(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    const int64_t n = td_shape_count(&q->in[2]);
    (void)err;
    o->workspace_bytes = offers(q, n, o) ? (size_t)n * sizeof(int32_t) : 0;
    return TD_OK;
}

static enum td_code sparse(struct td_call *c, enum td_cuda_scale scale, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_zero(c, y, err));
    const struct td_cuda_keys k = keys_of(c, TD_CUDA_SORTED, 2, y);
    struct td_cuda_combining s = rows_of(y, &k, c->in[0]->shape.dim[0]);
    const struct td_cuda_counting check = {.ids = k.indices,
                                           .indices = td_cuda_indices_of(c->in[1]),
                                           .n = k.n,
                                           .rows = k.most,
                                           .limit = s.sources,
                                           .fault = c->fault};
    int32_t *keys = c->workspace;
    int error = td_cuda_count_ids(&check, td_cuda_stream_of(c));
    error = error != 0 ? error : td_cuda_keys_make(&k, keys, td_cuda_stream_of(c));
    s.keys = keys;
    s.rows = check.indices;
    s.scale = scale;
    return td_cuda_launched(c, error != 0 ? error : combine(c, TD_CUDA_ADD, &s, y), err);
}

/* ------------------------------------------------------------------ SparseSegment*Grad */

static enum td_code prepare_sparse_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                        struct td_err *err)
{
    const int64_t n = td_shape_count(&q->in[2]), segments = q->in[0].rank > 0 ? q->in[0].dim[0] : 0;
    (void)err;
    if (offers(q, n, o)) {
        o->refusal = segments >= INT32_MAX ? "more segments than 32 bits count" : NULL;
        o->workspace_bytes = td_cuda_sort_bytes(n) + (size_t)segments * sizeof(int32_t);
    }
    return TD_OK;
}

static enum td_code sparse_grad(struct td_call *c, enum td_cuda_scale scale, struct td_err *err)
{
    static const unsigned char zero[16];
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_zero(c, y, err));
    const struct td_cuda_keys k = keys_of(c, TD_CUDA_AXIS, 1, y);
    struct td_cuda_combining s = rows_of(y, &k, c->in[0]->shape.dim[0]);
    const struct td_cuda_counting count = {.ids = td_cuda_indices_of(c->in[2]),
                                           .indices = k.indices,
                                           .n = k.n,
                                           .rows = s.sources,
                                           .limit = k.dim,
                                           .counts =
                                               (int32_t *)((char *)c->workspace + td_cuda_sort_bytes(k.n)),
                                           .fault = c->fault};
    int error = td_cuda_fill(sizeof(int32_t), zero, count.counts, count.rows, stream);
    error = error != 0 ? error : td_cuda_count_ids(&count, stream);
    error = error != 0 ? error : sorted(c, &k, &s);
    s.rows = count.ids;
    s.counts = count.counts;
    s.scale = scale;
    s.from_y = true;
    return td_cuda_launched(c, error != 0 ? error : combine(c, TD_CUDA_ADD, &s, y), err);
}

/* ------------------------------------------------------------------ SparseSegment*GradV2 */

static enum td_code prepare_picked(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    const int64_t n = td_shape_count(&q->in[2]), segments = q->in[0].rank > 0 ? q->in[0].dim[0] : 0;
    (void)err;
    o->refusal = q->value[3] == NULL                          ? "rows that are not known before"
                 : n == 0 || td_shape_count(&q->in[0]) == 0   ? "nothing is reduced"
                 : n >= INT32_MAX || segments >= INT32_MAX    ? "more rows than 32 bits count"
                 : td_tensor_int(q->value[3], 0) >= INT32_MAX ? "more rows than 32 bits count"
                                                              : NULL;
    if (o->refusal == NULL) {
        o->workspace_bytes =
            td_cuda_sort_bytes(n) + td_cuda_ranks_bytes(n) + (size_t)segments * sizeof(int32_t);
    }
    return TD_OK;
}

/* What is in its workspace. */
struct picked {
    struct td_cuda_keys keys;
    struct td_cuda_ranks ranks;
    int32_t *counts; /* of each segment */
};

static struct picked picked_of(const struct td_call *c)
{
    const int64_t n = td_tensor_count(c->in[1]), rows = td_tensor_int(c->in[3], 0);
    char *ranks = (char *)c->workspace + td_cuda_sort_bytes(n);
    return (struct picked){.keys = {.kind = TD_CUDA_AXIS,
                                    .indices = td_cuda_indices_of(c->in[1]),
                                    .n = n,
                                    .batches = 1,
                                    .dim = rows,
                                    .most = (int32_t)rows,
                                    .fault = c->fault},
                           .ranks = td_cuda_ranks_in(ranks, n),
                           .counts = (int32_t *)(ranks + td_cuda_ranks_bytes(n))};
}

static int one_count(const struct td_node *n)
{
    (void)n;
    return 1;
}

static enum td_code count_picked(struct td_call *c, struct td_err *err)
{
    static const unsigned char zero[16];
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct picked p = picked_of(c);
    struct td_cuda_sort sort;
    const struct td_cuda_counting count = {.ids = td_cuda_indices_of(c->in[2]),
                                           .indices = p.keys.indices,
                                           .n = p.keys.n,
                                           .rows = c->in[0]->shape.dim[0],
                                           .limit = p.keys.dim,
                                           .counts = p.counts,
                                           .fault = c->fault};
    int error = td_cuda_fill(sizeof(int32_t), zero, p.counts, count.rows, stream);
    error = error != 0 ? error : td_cuda_count_ids(&count, stream);
    error = error != 0 ? error : td_cuda_keys_sort(&p.keys, c->workspace, &sort, stream);
    return td_cuda_launched(c, error != 0 ? error : td_cuda_picked_rank(&sort, &p.ranks, c->counts, stream),
                            err);
}

static enum td_code shapes_picked(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                                  struct td_err *err)
{
    (void)err;
    out[0] = c->in[0]->shape;
    out[0].dim[0] = counts[0];
    out[1] = td_shape_vector(counts[0]);
    return TD_OK;
}

static enum td_code picked_grad(struct td_call *c, enum td_cuda_scale scale, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct picked p = picked_of(c);
    const struct td_cuda_sort sort = td_cuda_sort_done(c->workspace, p.keys.n, p.keys.most);
    struct td_tensor *y, *distinct;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &distinct, err));
    TD_TRY(td_cuda_zero(c, y, err));
    const struct td_cuda_keys groups = {
        .kind = TD_CUDA_AXIS, .n = p.keys.n, .dim = y->shape.dim[0], .most = (int32_t)y->shape.dim[0]};
    struct td_cuda_combining s = rows_of(y, &groups, c->in[0]->shape.dim[0]);
    s.keys = sort.keys;
    s.order = sort.order;
    s.rows = td_cuda_indices_of(c->in[2]);
    s.counts = p.counts;
    s.scale = scale;
    s.from_y = true;
    const int error =
        td_cuda_picked_number(&sort, &p.ranks, distinct->data, distinct->dtype == TD_INT64, stream);
    return td_cuda_launched(c, error != 0 ? error : combine(c, TD_CUDA_ADD, &s, y), err);
}

static const struct td_kernel_sized sized_picked = {one_count, count_picked, shapes_picked};

/* ------------------------------------------------------------------ rows */

#define ROWS(op, set, id, wanted, ready, which)                                                              \
    TD_CUDA_ROWS(rows_##op, "segment.cuda", .types = {{"T", set}, {id, wanted}}, .judged = which,            \
                 .prepare = ready, .run = run_##op);
#define REDUCE(op, how, ready, ids, ...)                                                                     \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return how(c, __VA_ARGS__, err);                                                                     \
    }                                                                                                        \
    ROWS(op, TD_CUDA_NUMBERS, "Tindices", ids, ready, 2)
#define SPARSE(op, how, ready, set, scale)                                                                   \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return how(c, scale, err);                                                                           \
    }                                                                                                        \
    ROWS(op, set, "Tidx", TD_SET_INDEX, ready, 6)

#define ANY_ID (TD_SET_INDEX | TD_BIT(TD_INT16))
REDUCE(sum, segment, prepare_segment, TD_SET_INDEX, TD_CUDA_ADD, false)
REDUCE(mean, segment, prepare_segment, TD_SET_INDEX, TD_CUDA_ADD, true)
REDUCE(prod, segment, prepare_segment, TD_SET_INDEX, TD_CUDA_MULTIPLY, false)
REDUCE(max, segment, prepare_segment, TD_SET_INDEX, TD_CUDA_MOST_LATER, false)
REDUCE(min, segment, prepare_segment, TD_SET_INDEX, TD_CUDA_LEAST_LATER, false)
REDUCE(unsorted_sum, unsorted, prepare_unsorted, ANY_ID, TD_CUDA_ADD)
REDUCE(unsorted_prod, unsorted, prepare_unsorted, ANY_ID, TD_CUDA_MULTIPLY)
REDUCE(unsorted_max, unsorted, prepare_unsorted, ANY_ID, TD_CUDA_MOST_LATER)
REDUCE(unsorted_min, unsorted, prepare_unsorted, ANY_ID, TD_CUDA_LEAST_LATER)
SPARSE(sparse_sum, sparse, prepare_sparse, TD_CUDA_NUMBERS, TD_CUDA_AS_IT_IS)
SPARSE(sparse_mean, sparse, prepare_sparse, TD_CUDA_FLOATS, TD_CUDA_BY_COUNT)
SPARSE(sparse_root, sparse, prepare_sparse, TD_CUDA_FLOATS, TD_CUDA_BY_ROOT)
SPARSE(sum_grad, sparse_grad, prepare_sparse_grad, TD_CUDA_FLOATS, TD_CUDA_AS_IT_IS)
SPARSE(mean_grad, sparse_grad, prepare_sparse_grad, TD_CUDA_FLOATS, TD_CUDA_BY_COUNT)
SPARSE(root_grad, sparse_grad, prepare_sparse_grad, TD_CUDA_FLOATS, TD_CUDA_BY_ROOT)

#define PICKED(op, scale)                                                                                    \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return picked_grad(c, scale, err);                                                                   \
    }                                                                                                        \
    TD_CUDA_ROWS(rows_##op, "segment.cuda", .types = {{"T", TD_CUDA_FLOATS}, {"Tidx", TD_SET_INDEX}},        \
                 .judged = 6, .prepare = prepare_picked, .run = run_##op, .sized = &sized_picked);
PICKED(picked_sum_grad, TD_CUDA_AS_IT_IS)
PICKED(picked_mean_grad, TD_CUDA_BY_COUNT)
PICKED(picked_root_grad, TD_CUDA_BY_ROOT)

const struct td_op_rows td_cuda_rows_segment[] = {{"SegmentSum", rows_sum},
                                                  {"SegmentMean", rows_mean},
                                                  {"SegmentProd", rows_prod},
                                                  {"SegmentMax", rows_max},
                                                  {"SegmentMin", rows_min},
                                                  {"UnsortedSegmentSum", rows_unsorted_sum},
                                                  {"UnsortedSegmentProd", rows_unsorted_prod},
                                                  {"UnsortedSegmentMax", rows_unsorted_max},
                                                  {"UnsortedSegmentMin", rows_unsorted_min},
                                                  {"SparseSegmentSum", rows_sparse_sum},
                                                  {"SparseSegmentMean", rows_sparse_mean},
                                                  {"SparseSegmentSqrtN", rows_sparse_root},
                                                  {"SparseSegmentSumWithNumSegments", rows_sparse_sum},
                                                  {"SparseSegmentMeanWithNumSegments", rows_sparse_mean},
                                                  {"SparseSegmentSqrtNWithNumSegments", rows_sparse_root},
                                                  {"SparseSegmentSumGrad", rows_sum_grad},
                                                  {"SparseSegmentMeanGrad", rows_mean_grad},
                                                  {"SparseSegmentSqrtNGrad", rows_root_grad},
                                                  {"SparseSegmentSumGradV2", rows_picked_sum_grad},
                                                  {"SparseSegmentMeanGradV2", rows_picked_mean_grad},
                                                  {"SparseSegmentSqrtNGradV2", rows_picked_root_grad},
                                                  {NULL, NULL}};
