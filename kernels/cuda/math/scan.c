/* kernels/cuda/math/scan.c - rows of Cumsum, Cumprod and CumulativeLogsumexp.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/scan.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

/* A row is one chain of steps: a few that are long are faster on the host. */
enum { LONG = 1 << 16, FEW = 32 };

static enum td_code describe(const struct td_shape *x, const struct td_tensor *axis_in,
                             struct td_cuda_running *s, struct td_err *err)
{
    int axis = 0;
    TD_FAIL_IF(!td_shape_axis(x->rank, td_tensor_int(axis_in, 0), &axis), err, INTERNAL, "no such axis");
    s->outer = td_shape_range(x, 0, axis);
    s->n = x->dim[axis];
    s->inner = td_shape_range(x, axis + 1, x->rank);
    return TD_OK;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_cuda_running s = {0};
    if (q->value[1] != NULL) {
        TD_TRY(describe(&q->in[0], q->value[1], &s, err));
        o->refusal =
            s.n > LONG && s.outer * s.inner < FEW ? "a few long rows, each one chain of steps" : NULL;
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, enum td_cuda_scan op, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    struct td_cuda_running s = {.x = c->in[0]->data,
                                .y = y->data,
                                .exclusive = td_attr_bool(c->node, "exclusive"),
                                .reverse = td_attr_bool(c->node, "reverse")};
    TD_TRY(describe(&y->shape, c->in[1], &s, err));
    return td_cuda_launched(c, td_cuda_scan_of(op, td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)), err);
}

#define SCAN(what, op, set)                                                                                  \
    static enum td_code run_##what(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        return run(c, op, err);                                                                              \
    }                                                                                                        \
    TD_CUDA_ROWS(rows_##what, "scan.cuda", .types = {{"T", set}}, .prepare = prepare, .run = run_##what);
SCAN(sum, TD_CUDA_RUNNING_SUM, TD_CUDA_REALS)
SCAN(product, TD_CUDA_RUNNING_PRODUCT, TD_CUDA_REALS)
SCAN(logsum, TD_CUDA_RUNNING_LOGSUM, TD_CUDA_FLOATS)

const struct td_op_rows td_cuda_rows_scan[] = {
    {"Cumsum", rows_sum}, {"Cumprod", rows_product}, {"CumulativeLogsumexp", rows_logsum}, {NULL, NULL}};
