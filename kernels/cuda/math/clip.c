/* kernels/cuda/math/clip.c - rows of ClipByValue and ApproximateEqual.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/clip.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

/* A bound is a scalar, or of x's shape. */
static enum td_code run_clip(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_clip s = {.x = c->in[0]->data,
                                   .low = c->in[1]->data,
                                   .high = c->in[2]->data,
                                   .y = y->data,
                                   .n = td_tensor_count(y),
                                   .low_step = td_tensor_count(c->in[1]) > 1,
                                   .high_step = td_tensor_count(c->in[2]) > 1};
    return td_cuda_launched(c, td_cuda_clip_of(td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)), err);
}

static enum td_code run_near(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const float tolerance = (float)td_attr_float(c->node, "tolerance");
    return td_cuda_launched(c,
                            td_cuda_near(td_cuda_type_of(c->in[0]->dtype), c->in[0]->data, c->in[1]->data,
                                         y->data, td_tensor_count(y), tolerance, td_cuda_stream_of(c)),
                            err);
}

TD_CUDA_ROWS(rows_clip, "clip.cuda", .types = {{"T", TD_CUDA_REALS}}, .run = run_clip);
TD_CUDA_ROWS(rows_near, "clip.cuda", .types = {{"T", TD_CUDA_WIDE}}, .run = run_near);

const struct td_op_rows td_cuda_rows_clip[] = {
    {"ClipByValue", rows_clip}, {"ApproximateEqual", rows_near}, {NULL, NULL}};
