/* kernels/cuda/base/cudnn_attention.h - attention without masks by cuDNN: one operation of its graph
 * interface (from 9.13 on; older ones refuse it).
 *
 *   td_cudnn_attention_make   when shapes are known: the graph, and the first engine that serves it
 *   td_cudnn_attend           queues it
 *
 * y = softmax(scale * q k^T) v, of half or bfloat16, scores and sums in float; for each of `batch` times
 * `heads`. Rows lie anywhere, their numbers next to each other.
 *
 * Threads: any. What a plan has of the device goes when the library is stopped, with the device's context.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUDNN_ATTENTION_H
#define TD_KERNELS_CUDA_BASE_CUDNN_ATTENTION_H

#include <stdint.h>

#include "core/base/status.h"
#include "kernels/cuda/base/cudnn.h"
#include "kernels/cuda/base/runtime.h"

enum td_cudnn_attention_tensor {
    TD_CUDNN_QUERY,
    TD_CUDNN_KEY,
    TD_CUDNN_VALUE,
    TD_CUDNN_OUTPUT,
    TD_CUDNN_ATTENTION_TENSORS
};

struct td_cudnn_attention {
    enum td_cuda_type type;
    int64_t batch, heads, queries, keys;
    int64_t depth, width; /* numbers of a row of query and key; of value and output */
    /* elements from one batch, head and row to the next, multiples of 8 where there is a next */
    int64_t step[TD_CUDNN_ATTENTION_TENSORS][3];
    float scale;
};

struct td_cudnn_attention_plan;

/* Returns NULL, or why there is none: a text that stays. */
const char *td_cudnn_attention_make(struct td_cudnn *dnn, const struct td_cudnn_attention *s,
                                    struct td_cudnn_attention_plan **out);
void td_cudnn_attention_free(struct td_cudnn_attention_plan *plan); /* accepts NULL */
size_t td_cudnn_attention_workspace(const struct td_cudnn_attention_plan *plan);
size_t td_cudnn_attention_bytes(const struct td_cudnn_attention_plan *plan);

struct td_cudnn_attention_call {
    const void
        *tensor[TD_CUDNN_ATTENTION_TENSORS]; /* aligned (kernels/cuda/base/cudnn.h); the last written */
    void *workspace;
    struct td_cuda_stream *stream;
};
/* *served: false: the library has no plan any more, or refuses the call; nothing was queued. */
TD_MUST enum td_code td_cudnn_attend(const struct td_cudnn_attention_plan *plan,
                                     const struct td_cudnn_attention_call *c, bool *served,
                                     struct td_err *err);

#endif
