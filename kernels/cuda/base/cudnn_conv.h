/* kernels/cuda/base/cudnn_conv.h - convolutions of two axes and their gradients by cuDNN.
 *
 *   td_cudnn_plan_make   when shapes are known: descriptors, and the algorithm that the library advises
 *   td_cudnn_convolve    queues it
 *
 * Images are [batch, h, w, channels]. A filter is [h, w, in / groups, out] here and [out, h, w, in / groups]
 * for the library: each call moves it there, or the gradient back, by way of its workspace, unless it comes
 * so (call.swapped).
 *
 * Where there is more padding on one side of an axis than on the other, which the library has no words for,
 * the picture goes by way of the workspace, too, with a border of zeros that is as much as the difference;
 * its gradient comes back without.
 *
 * A forward convolution does the first of the posts that it is asked for (s->posts) itself, in the library's
 * one call, where they are a bias, a sum with a tensor of the result's shape behind it or not, and a ReLU
 * behind these or not. Half and bfloat16 are rounded behind the last of them alone. Of NaN its ReLU makes 0.
 *
 * Threads: any. A plan is immutable but for one word; a workspace belongs to one call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUDNN_CONV_H
#define TD_KERNELS_CUDA_BASE_CUDNN_CONV_H

#include "core/base/status.h"
#include "kernels/cuda/base/conv_sizes.h"
#include "kernels/cuda/base/cudnn.h"

struct td_cudnn_plan;

enum td_cudnn_which { TD_CUDNN_FORWARD, TD_CUDNN_INPUT_GRAD, TD_CUDNN_FILTER_GRAD };

/* choice: 0 is the way that is thought best, 1 the next: those with posts come first, each kind in the
 * library's order; algorithms whose sums depend on luck are left out. Returns NULL, or why there is none: a
 * text that stays. */
const char *td_cudnn_plan_make(struct td_cudnn *dnn, enum td_cudnn_which which, enum td_cuda_type type,
                               const struct td_cuda_conv *s, int choice, struct td_cudnn_plan **out);
void td_cudnn_plan_free(struct td_cudnn_plan *plan);              /* accepts NULL */
size_t td_cudnn_plan_workspace(const struct td_cudnn_plan *plan); /* bytes that each call wants */
size_t td_cudnn_plan_bytes(const struct td_cudnn_plan *plan);     /* that it holds itself */
/* The posts that each call does, the first of those that were wanted; without their operands. */
const struct td_cuda_posts *td_cudnn_plan_posts(const struct td_cudnn_plan *plan);

/* a, b -> y: x, w -> y; w, dy -> dx; x, dy -> dw. */
struct td_cudnn_call {
    const void *a, *b;
    bool swapped;                      /* the filter among them is in the library's order */
    const struct td_cuda_posts *posts; /* those of the plan, with operands; NULL: it has none */
    void *y, *workspace;
    struct td_cuda_stream *stream;
};
/* The filter that came swapped, in our order, at the workspace's begin. Returns CUDA's error number. */
int td_cudnn_swap_back(const struct td_cudnn_plan *plan, const struct td_cudnn_call *c);
TD_MUST enum td_code td_cudnn_convolve(const struct td_cudnn_plan *plan, const struct td_cudnn_call *c,
                                       struct td_err *err);

#endif
