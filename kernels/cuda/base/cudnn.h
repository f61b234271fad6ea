/* kernels/cuda/base/cudnn.h - NVIDIA's cuDNN, version 9, found when a GPU is opened; what it computes:
 * kernels/cuda/base/cudnn_conv.h, cudnn_attention.h.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUDNN_H
#define TD_KERNELS_CUDA_BASE_CUDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_cudnn;

struct td_cudnn_opts {
    int device;
    const char *const *names; /* of the library's file, NULL at the end; NULL: the usual one */
    bool tf32;                /* float convolutions may round their factors to TF32: 10 bits of mantissa */
    size_t most_workspace;    /* bytes that a call may want */
};

/* Its device becomes the calling thread's, here and when a plan is made. said: its version, or why it cannot
 * be used (NULL is returned then). */
struct td_cudnn *td_cudnn_open(const struct td_cudnn_opts *o, char *said, size_t room);
void td_cudnn_close(struct td_cudnn *dnn); /* no plan of it is left; accepts NULL */
/* Before the device's context goes, and when there is another: as td_cublaslt_stop. */
void td_cudnn_stop(struct td_cudnn *dnn);
bool td_cudnn_start(struct td_cudnn *dnn);

/* Whether the library takes a tensor that begins there. */
static inline bool td_cudnn_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

#endif
