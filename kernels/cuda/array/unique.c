/* kernels/cuda/array/unique.c - rows of Unique, UniqueV2, UniqueWithCounts and UniqueWithCountsV2.
 *
 * Elements are equal as on the host (kernels/array/array_unique.c): by bits, but for zeros of either sign and
 * denormals, which are one, except among halves; a NaN equals nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/unique.h"

#include "kernels/cuda/array/gather.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

/* The axis whose slices are told apart; -1: the host has words for what is asked. */
static int axis_of(int n_in, const struct td_shape *x, const struct td_tensor *axis)
{
    int at = 0;
    if (n_in == 1 || td_tensor_count(axis) == 0) {
        return x->rank == 1 ? 0 : -1;
    }
    return td_tensor_count(axis) == 1 && td_shape_axis(x->rank, td_tensor_int(axis, 0), &at) ? at : -1;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    if (q->n_in > 1 && q->value[1] == NULL) {
        o->refusal = "an axis that is not known before";
        return TD_OK;
    }
    const int axis = axis_of(q->n_in, &q->in[0], q->n_in > 1 ? q->value[1] : NULL);
    const int64_t n = axis < 0 ? 0 : q->in[0].dim[axis];
    o->refusal = axis < 0                         ? "it has no such axis"
                 : td_shape_count(&q->in[0]) == 0 ? "there are no elements"
                 : n >= INT32_MAX / 2             ? "more slices than can be told apart"
                                                  : NULL;
    o->workspace_bytes = o->refusal == NULL ? td_cuda_unique_bytes(n) : 0;
    return TD_OK;
}

static int call_axis(const struct td_call *c)
{
    return axis_of(c->n_in, &c->in[0]->shape, c->n_in > 1 ? c->in[1] : NULL);
}

static void set_element(struct td_cuda_unique *s, enum td_dtype t)
{
    s->bytes = (int)td_dtype_size(t);
    s->truth = t == TD_BOOL;
    s->exponent = t == TD_FLOAT ? 0x7f800000u : t == TD_DOUBLE ? 0x7ff0000000000000u : 0;
    s->infinity = t == TD_HALF ? 0x7c00u : t == TD_BFLOAT16 ? 0x7f80u : s->exponent;
}

static struct td_cuda_unique slices_of(const struct td_call *c)
{
    const struct td_tensor *x = c->in[0];
    const int axis = call_axis(c);
    struct td_cuda_unique s = {.x = x->data,
                               .outer = td_shape_range(&x->shape, 0, axis),
                               .n = x->shape.dim[axis],
                               .inner = td_shape_range(&x->shape, axis + 1, x->shape.rank)};
    set_element(&s, x->dtype);
    td_cuda_unique_in(&s, c->workspace);
    return s;
}

static int n_counts(const struct td_node *n)
{
    (void)n;
    return 1;
}

static enum td_code count(struct td_call *c, struct td_err *err)
{
    const struct td_cuda_unique s = slices_of(c);
    return td_cuda_launched(c, td_cuda_unique_find(&s, c->counts, td_cuda_stream_of(c)), err);
}

static enum td_code shapes(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                           struct td_err *err)
{
    const int axis = call_axis(c);
    (void)err;
    out[0] = c->in[0]->shape;
    out[0].dim[axis] = counts[0];
    out[1] = td_shape_vector(c->in[0]->shape.dim[axis]);
    if (c->n_out > 2) {
        out[2] = td_shape_vector(counts[0]);
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_cuda_unique s = slices_of(c);
    struct td_tensor *y, *which, *counts = NULL;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &which, err));
    TD_TRY(c->n_out > 2 ? td_out(c, 2, NULL, &counts, err) : TD_OK);
    const int64_t groups = y->shape.dim[call_axis(c)];
    int error = td_cuda_unique_tell(&s, groups, which->data, counts != NULL ? counts->data : NULL,
                                    which->dtype == TD_INT64, stream);
    const struct td_cuda_gather_axis axis = {.batches = 1, .outer = s.outer, .dim = s.n, .n = groups};
    const struct td_cuda_slices slices = {.x = s.x,
                                          .y = y->data,
                                          .bytes = (size_t)s.inner * td_dtype_size(y->dtype),
                                          .indices = {s.slot, TD_CUDA_INDEX_32}};
    return td_cuda_launched(c, error != 0 ? error : td_cuda_gather_along(&axis, &slices, stream), err);
}

static const struct td_kernel_sized sized = {n_counts, count, shapes};
TD_CUDA_ROWS(rows_unique, "unique.cuda",
             .types = {{"T", TD_CUDA_REALS | TD_CUDA_BOOLS}, {"out_idx", TD_SET_INDEX}}, .prepare = prepare,
             .run = run, .sized = &sized);

const struct td_op_rows td_cuda_rows_unique[] = {{"Unique", rows_unique},
                                                 {"UniqueV2", rows_unique},
                                                 {"UniqueWithCounts", rows_unique},
                                                 {"UniqueWithCountsV2", rows_unique},
                                                 {NULL, NULL}};
