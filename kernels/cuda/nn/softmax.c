/* kernels/cuda/nn/softmax.c - rows of Softmax and LogSoftmax.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/softmax.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *x = c->in[0];
    const int64_t n = x->shape.dim[x->shape.rank - 1];
    return td_cuda_launched(c,
                            td_cuda_softmax(td_cuda_type_of(x->dtype),
                                            strcmp(c->node->op_name, "LogSoftmax") == 0, x->data, y->data,
                                            n == 0 ? 0 : td_tensor_count(x) / n, n, td_cuda_stream_of(c)),
                            err);
}

TD_CUDA_ROWS(rows, "softmax.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .run = run);

const struct td_op_rows td_cuda_rows_softmax[] = {{"Softmax", rows}, {"LogSoftmax", rows}, {NULL, NULL}};
