/* kernels/cuda/math/top.c - rows of TopK, TopKV2, ApproxTopK, NthElement and InTopK.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/top.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static int64_t last_of(const struct td_shape *s)
{
    return s->dim[s->rank - 1];
}

static const char *too_long(int64_t n)
{
    return n < INT32_MAX ? NULL : "rows of 2^31 elements or more";
}

/* ------------------------------------------------------------------ TopK */

static enum td_code prepare_top(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    const int64_t n = last_of(&q->in[0]), k = last_of(&q->out[0]);
    (void)err;
    o->refusal = too_long(n);
    if (o->refusal == NULL && n > 0 &&
        !td_cuda_top_workspace(td_shape_count(&q->in[0]) / n, n, k, &o->workspace_bytes)) {
        o->refusal = "more elements than can be sorted";
    }
    return TD_OK;
}

static enum td_code run_top(struct td_call *c, struct td_err *err)
{
    struct td_tensor *values, *indices;
    TD_TRY(td_out(c, 0, NULL, &values, err));
    TD_TRY(td_out(c, 1, NULL, &indices, err));
    if (td_tensor_count(values) == 0) {
        return TD_OK;
    }
    const struct td_tensor *x = c->in[0];
    const int64_t n = last_of(&x->shape);
    const struct td_cuda_top s = {.x = x->data,
                                  .values = values->data,
                                  .indices = indices->data,
                                  .rows = td_tensor_count(x) / n,
                                  .n = n,
                                  .k = last_of(&values->shape),
                                  .index_bytes = (int)td_dtype_size(indices->dtype),
                                  .workspace = c->workspace};
    return td_cuda_launched(c, td_cuda_top_of(td_cuda_type_of(x->dtype), &s, td_cuda_stream_of(c)), err);
}

static enum td_code prepare_approx(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    int axis;
    const int rank = q->in[0].rank;
    TD_TRY(prepare_top(q, o, err));
    if (!td_attr_bool(q->node, "is_max_k")) {
        o->refusal = "the smallest of a row";
    } else if (!td_shape_axis(rank, td_attr_int(q->node, "reduction_dimension"), &axis) || axis < rank - 1) {
        o->refusal = "another axis than the last";
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ NthElement */

/* The host has words for an n that no row has. */
static enum td_code prepare_nth(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    (void)err;
    const int64_t n = last_of(&q->in[0]);
    const struct td_tensor *at = q->value[1];
    o->refusal = too_long(n) != NULL                                     ? too_long(n)
                 : at == NULL                                            ? "an n that is not known before"
                 : td_tensor_int(at, 0) < 0 || td_tensor_int(at, 0) >= n ? "an n that is none of the row's"
                                                                         : NULL;
    return TD_OK;
}

static enum td_code run_nth(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *x = c->in[0];
    const struct td_cuda_top s = {.x = x->data,
                                  .values = y->data,
                                  .rows = td_tensor_count(y),
                                  .n = last_of(&x->shape),
                                  .k = td_tensor_int(c->in[1], 0) + 1};
    return td_cuda_launched(
        c,
        td_cuda_nth(td_cuda_type_of(x->dtype), &s, !td_attr_bool(c->node, "reverse"), td_cuda_stream_of(c)),
        err);
}

/* ------------------------------------------------------------------ InTopK */

static enum td_code run_in_top(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *x = c->in[0];
    const bool has_k = c->n_in > 2;
    const struct td_cuda_in_top s = {.x = x->data,
                                     .targets = c->in[1]->data,
                                     .k_at = has_k ? c->in[2]->data : NULL,
                                     .k = has_k ? 0 : td_attr_int(c->node, "k"),
                                     .rows = x->shape.dim[0],
                                     .n = x->shape.dim[1],
                                     .y = y->data,
                                     .wide = c->in[1]->dtype == TD_INT64};
    return td_cuda_launched(c, td_cuda_in_top_of(&s, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ rows */

TD_CUDA_ROWS(rows_top, "top.cuda", .types = {{"T", TD_CUDA_REALS}}, .prepare = prepare_top, .run = run_top);
TD_CUDA_ROWS(rows_approx, "top.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .prepare = prepare_approx,
             .run = run_top);
TD_CUDA_ROWS(rows_nth, "top.cuda", .types = {{"T", TD_CUDA_REALS}}, .prepare = prepare_nth, .run = run_nth);
TD_CUDA_ROWS(rows_in_top, "top.cuda", .types = {{"T", TD_SET_INDEX}}, .run = run_in_top);

const struct td_op_rows td_cuda_rows_top[] = {{"TopK", rows_top},
                                              {"TopKV2", rows_top},
                                              {"ApproxTopK", rows_approx},
                                              {"NthElement", rows_nth},
                                              {"InTopK", rows_in_top},
                                              {"InTopKV2", rows_in_top},
                                              {NULL, NULL}};
