/* kernels/cuda/base/cudnn.h - convolutions of two axes and their gradients by NVIDIA's cuDNN, version 9.
 *
 *   td_cudnn_plan_make   when shapes are known: descriptors, and the algorithm that the library advises
 *   td_cudnn_convolve    queues it
 *
 * Images are [batch, h, w, channels]. A filter is [h, w, in / groups, out] here and [out, h, w, in / groups]
 * for the library: each call moves it there, or the gradient back, by way of its workspace.
 *
 * Threads: any. A plan is immutable; a workspace belongs to one call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUDNN_H
#define TD_KERNELS_CUDA_BASE_CUDNN_H

#include "core/base/status.h"
#include "kernels/cuda/base/conv_sizes.h"

struct td_cudnn;
struct td_cudnn_plan;

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

enum td_cudnn_which { TD_CUDNN_FORWARD, TD_CUDNN_INPUT_GRAD, TD_CUDNN_FILTER_GRAD };

/* choice: 0 is the algorithm that the library thinks best, 1 the next; those whose sums depend on luck are
 * left out. Returns NULL, or why there is none: a text that stays. */
const char *td_cudnn_plan_make(struct td_cudnn *dnn, enum td_cudnn_which which, enum td_cuda_type type,
                               const struct td_cuda_conv *s, int choice, struct td_cudnn_plan **out);
void td_cudnn_plan_free(struct td_cudnn_plan *plan);              /* accepts NULL */
size_t td_cudnn_plan_workspace(const struct td_cudnn_plan *plan); /* bytes that each call wants */
size_t td_cudnn_plan_bytes(const struct td_cudnn_plan *plan);     /* that it holds itself */

/* a, b -> y: x, w -> y; w, dy -> dx; x, dy -> dw. */
struct td_cudnn_call {
    const void *a, *b;
    void *y, *workspace;
    struct td_cuda_stream *stream;
};
TD_MUST enum td_code td_cudnn_convolve(const struct td_cudnn_plan *plan, const struct td_cudnn_call *c,
                                       struct td_err *err);

#endif
