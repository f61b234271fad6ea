/* kernels/cuda/base/cudnn_impl.h - an open library as cudnn.c and those share it that call it
 * (cudnn_conv.c, cudnn_attention.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUDNN_IMPL_H
#define TD_KERNELS_CUDA_BASE_CUDNN_IMPL_H

#include <pthread.h>

#include "kernels/cuda/base/cudnn.h"
#include "kernels/cuda/base/cudnn_api.h"

struct td_cudnn_handle {
    void *at;
    struct td_cudnn_handle *next;
};

struct td_cudnn {
    struct td_cudnn_api api;
    int device;
    bool tf32;
    size_t most_workspace;
    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t back;
    struct td_cudnn_handle *idle;
    int busy; /* handles that somebody has */
    bool stopped;
    struct td_cudnn_attention_plan *attentions; /* all that there are (cudnn_attention.c) */
};

/* The device's context goes: no plan serves any more. Under mu, and nobody has a handle. */
void td_cudnn_attentions_end(struct td_cudnn *dnn);

/* Of an argument, or of what there is a kernel for: nothing was queued. */
static inline bool td_cudnn_refuses(int status)
{
    return status / 1000 == TD_CUDNN_BAD_PARAM / 1000 || status / 1000 == TD_CUDNN_NOT_SUPPORTED / 1000;
}

/* A handle that is the caller's alone; NULL: the library makes no more, and *status says why. */
struct td_cudnn_handle *td_cudnn_take(struct td_cudnn *dnn, int *status);
void td_cudnn_put(struct td_cudnn *dnn, struct td_cudnn_handle *h); /* h: NULL: there came to be none */

#endif
