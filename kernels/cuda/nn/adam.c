/* kernels/cuda/nn/adam.c - rows of _Adam. What was taken of the variables is not written over here: a value
 * on the device stays as it is (core/run/device_run.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/adam.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[3];
    for (int i = 0; i < 3; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    const struct td_cuda_adam s = {.w = c->in[0]->data,
                                   .m = c->in[1]->data,
                                   .v = c->in[2]->data,
                                   .g = c->in[3]->data,
                                   .rate = c->in[4]->data,
                                   .new_w = out[0]->data,
                                   .new_m = out[1]->data,
                                   .new_v = out[2]->data,
                                   .rest_1 = (float)td_attr_float(c->node, "rest_1"),
                                   .rest_2 = (float)td_attr_float(c->node, "rest_2"),
                                   .epsilon = (float)td_attr_float(c->node, "epsilon"),
                                   .n = td_tensor_count(out[0])};
    return td_cuda_launched(c, td_cuda_adam_move(&s, td_cuda_stream_of(c)), err);
}

TD_CUDA_ROWS(rows, "adam.cuda", .run = run);

const struct td_op_rows td_cuda_rows_adam[] = {{"_Adam", rows}, {NULL, NULL}};
