/* kernels/cuda/math/arg.c - rows of ArgMax and ArgMin.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/arg.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code run(struct td_call *c, bool least, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *x = c->in[0];
    int axis = 0;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_FAIL_IF(!td_shape_axis(x->shape.rank, td_tensor_int(c->in[1], 0), &axis), err, INTERNAL,
               "%s: no such axis", c->node->op_name);
    const struct td_cuda_arg s = {.x = x->data,
                                  .y = y->data,
                                  .outer = td_shape_range(&x->shape, 0, axis),
                                  .n = x->shape.dim[axis],
                                  .inner = td_shape_range(&x->shape, axis + 1, x->shape.rank),
                                  .bytes = (int)td_dtype_size(y->dtype),
                                  .least = least};
    return td_cuda_launched(c, td_cuda_arg_of(td_cuda_type_of(x->dtype), &s, td_cuda_stream_of(c)), err);
}

static enum td_code run_greatest(struct td_call *c, struct td_err *err)
{
    return run(c, false, err);
}
static enum td_code run_least(struct td_call *c, struct td_err *err)
{
    return run(c, true, err);
}

TD_CUDA_ROWS(rows_greatest, "arg.cuda", .types = {{"T", TD_CUDA_REALS | TD_CUDA_BOOLS}}, .run = run_greatest);
TD_CUDA_ROWS(rows_least, "arg.cuda", .types = {{"T", TD_CUDA_REALS | TD_CUDA_BOOLS}}, .run = run_least);

const struct td_op_rows td_cuda_rows_arg[] = {
    {"ArgMax", rows_greatest}, {"ArgMin", rows_least}, {NULL, NULL}};
