/* kernels/cuda/math/search.c - rows of LowerBound, UpperBound and Bucketize.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/search.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code bound(struct td_call *c, bool upper, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *sorted = c->in[0], *values = c->in[1];
    const struct td_cuda_bound s = {.sorted = sorted->data,
                                    .values = values->data,
                                    .y = y->data,
                                    .rows = sorted->shape.dim[0],
                                    .n = sorted->shape.dim[1],
                                    .m = values->shape.dim[1],
                                    .upper = upper,
                                    .wide = y->dtype == TD_INT64};
    return td_cuda_launched(c, td_cuda_bound_of(td_cuda_type_of(values->dtype), &s, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_lower(struct td_call *c, struct td_err *err)
{
    return bound(c, false, err);
}
static enum td_code run_upper(struct td_call *c, struct td_err *err)
{
    return bound(c, true, err);
}

static const char *refuse_many(const struct td_node *n)
{
    int count;
    (void)td_attr_floats(n, "boundaries", &count);
    return count <= TD_CUDA_BOUNDARIES ? NULL : "more than 512 boundaries";
}

static enum td_code run_bucketize(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_buckets s = {.x = c->in[0]->data, .y = y->data, .n = td_tensor_count(y)};
    const float *boundaries = td_attr_floats(c->node, "boundaries", &s.n_boundaries);
    if (s.n_boundaries > 0) {
        memcpy(s.boundary, boundaries, (size_t)s.n_boundaries * sizeof *boundaries);
    }
    return td_cuda_launched(c, td_cuda_bucketize(td_cuda_type_of(c->in[0]->dtype), &s, td_cuda_stream_of(c)),
                            err);
}

TD_CUDA_ROWS(rows_lower, "search.cuda", .types = {{"T", TD_CUDA_REALS}}, .run = run_lower);
TD_CUDA_ROWS(rows_upper, "search.cuda", .types = {{"T", TD_CUDA_REALS}}, .run = run_upper);
TD_CUDA_ROWS(rows_bucketize, "search.cuda", .types = {{"T", TD_CUDA_NATIVE}}, .run = run_bucketize,
             .refuse = refuse_many);

const struct td_op_rows td_cuda_rows_search[] = {
    {"LowerBound", rows_lower}, {"UpperBound", rows_upper}, {"Bucketize", rows_bucketize}, {NULL, NULL}};
