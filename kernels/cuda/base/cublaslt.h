/* kernels/cuda/base/cublaslt.h - matrix products by NVIDIA's cuBLASLt.
 *
 *   td_cublaslt_plan_make   when shapes are known: descriptors, and the algorithm that the library advises
 *   td_cublaslt_multiply    queues the product
 *
 * Matrices are row-major here, as all tensors are; for the library, which counts columns first, the same
 * bytes are the transposed matrices, and y^T = b^T a^T is what it is asked for. So no matrix is moved.
 *
 * Threads: any. A plan is immutable; a workspace belongs to one call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUBLASLT_H
#define TD_KERNELS_CUDA_BASE_CUBLASLT_H

#include "core/base/status.h"
#include "kernels/cuda/base/runtime.h"

struct td_cublaslt;
struct td_cublaslt_plan;

struct td_cublaslt_opts {
    int device;
    const char *const *names; /* of the library's file, NULL at the end; NULL: the usual ones */
    bool tf32;                /* float products may round their factors to TF32: 10 bits of mantissa */
    size_t most_workspace;    /* bytes that a call may want */
};

/* Its device becomes the calling thread's, here and when a plan is made. said: its version, or why it cannot
 * be used (NULL is returned then). */
struct td_cublaslt *td_cublaslt_open(const struct td_cublaslt_opts *o, char *said, size_t room);
void td_cublaslt_close(struct td_cublaslt *lt); /* no plan of it is left; accepts NULL */
/* Before the device's context goes, and when there is another: plans stay, none is run in between, and none
 * can be made. False: the library does not come back. */
void td_cublaslt_stop(struct td_cublaslt *lt);
bool td_cublaslt_start(struct td_cublaslt *lt);

/* What is done to the product by itself; bias: a number of y's type for each column. GELU by its tanh. */
enum td_cublaslt_epilogue {
    TD_CUBLASLT_PLAIN,
    TD_CUBLASLT_RELU,
    TD_CUBLASLT_BIAS,
    TD_CUBLASLT_BIAS_RELU,
    TD_CUBLASLT_GELU,
    TD_CUBLASLT_BIAS_GELU
};

/* y [batches,m,n] = a [m,k] * b [k,n] of each batch; ta: a is [k,m] in memory, tb: b is [n,k]. The matrices
 * of a batch are a_step and b_step elements behind those of the one before: 0, all have the same. half and
 * bfloat16 are summed in float. */
struct td_cublaslt_product {
    enum td_cuda_type type;
    int64_t m, n, k, batches, a_step, b_step;
    bool ta, tb, adds; /* adds: a matrix like y, before the epilogue */
    enum td_cublaslt_epilogue epilogue;
};

/* What every matrix must be aligned to, in bytes; the workspace to the more. */
enum { TD_CUBLASLT_ALIGNED = 16, TD_CUBLASLT_WORKSPACE_ALIGNED = 256 };
static inline bool td_cublaslt_aligned(const void *at)
{
    return (uintptr_t)at % TD_CUBLASLT_ALIGNED == 0;
}

/* choice: 0 is the algorithm that the library thinks best, 1 the next. Returns NULL, or why there is none: a
 * text that stays. */
const char *td_cublaslt_plan_make(const struct td_cublaslt *lt, const struct td_cublaslt_product *p,
                                  int choice, struct td_cublaslt_plan **out);
void td_cublaslt_plan_free(struct td_cublaslt_plan *plan);              /* accepts NULL */
size_t td_cublaslt_plan_workspace(const struct td_cublaslt_plan *plan); /* bytes that each call wants */
size_t td_cublaslt_plan_bytes(const struct td_cublaslt_plan *plan);     /* that it holds itself */
const struct td_cublaslt_product *td_cublaslt_plan_product(const struct td_cublaslt_plan *plan);

struct td_cublaslt_call {
    const void *a, *b, *bias, *added; /* bias, added: NULL without one; added may be y */
    void *y, *workspace;
    struct td_cuda_stream *stream;
};
TD_MUST enum td_code td_cublaslt_multiply(const struct td_cublaslt_plan *plan,
                                          const struct td_cublaslt_call *c, struct td_err *err);

#endif
