/* kernels/cuda/array/view.c - rows of ops that show the same bytes under another shape: a run hands them on,
 * and nothing is queued.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/rows.h"

/* Where a launch is asked for all the same. */
static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_steps steps = {0};
    (void)td_cuda_steps_add(&steps, (int64_t)td_tensor_bytes(c->in[0]), 1, 1);
    return td_cuda_launched(
        c, td_cuda_move(1, &steps, c->in[0]->data, y->data, steps.dim[0], td_cuda_stream_of(c)), err);
}

#define VIEW(table, ...)                                                                                     \
    TD_CUDA_ROWS(table, "view.cuda", .types = {__VA_ARGS__}, .hands_on = true, .run = run);
VIEW(rows, {"T", TD_SET_PLAIN})
VIEW(rows_default, {"dtype", TD_SET_PLAIN})
VIEW(rows_snapshot, {"T", TD_SET_NUMBERS | TD_BIT(TD_BOOL)})
VIEW(rows_bitcast, {"T", TD_SET_PLAIN & ~TD_BIT(TD_BOOL)}, {"type", TD_SET_PLAIN & ~TD_BIT(TD_BOOL)})

const struct td_op_rows td_cuda_rows_view[] = {{"Reshape", rows},
                                               {"Squeeze", rows},
                                               {"ExpandDims", rows},
                                               {"Identity", rows},
                                               {"StopGradient", rows},
                                               {"PreventGradient", rows},
                                               {"DebugGradientIdentity", rows},
                                               {"Copy", rows},
                                               {"CopyHost", rows},
                                               {"_GradientSeed", rows},
                                               {"_OneElement", rows},
                                               {"_Later", rows},
                                               {"EnsureShape", rows},
                                               {"PlaceholderWithDefault", rows_default},
                                               {"Snapshot", rows_snapshot},
                                               {"Bitcast", rows_bitcast},
                                               {NULL, NULL}};
