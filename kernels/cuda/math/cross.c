/* kernels/cuda/math/cross.c - the row of Cross.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/cross.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return td_cuda_launched(c,
                            td_cuda_cross(td_cuda_type_of(y->dtype), c->in[0]->data, c->in[1]->data, y->data,
                                          td_tensor_count(y) / 3, td_cuda_stream_of(c)),
                            err);
}

TD_CUDA_ROWS(rows, "cross.cuda", .types = {{"T", TD_CUDA_REALS}}, .run = run);

const struct td_op_rows td_cuda_rows_cross[] = {{"Cross", rows}, {NULL, NULL}};
