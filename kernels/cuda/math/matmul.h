/* kernels/cuda/math/matmul.h - launcher of matmul.cu; it returns CUDA's error number. And the same product as
 * cuBLASLt has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_MATMUL_H
#define TD_KERNELS_CUDA_MATH_MATMUL_H

#include "kernels/cuda/base/posts.h"
#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y [batches,m,n] = a [m,k] * b [k,n] of each batch; element (i, p) of a lies at i * a_row + p * a_k, (p, j)
 * of b at p * b_k + j * b_col, and a batch's matrices where `batch` steps to. half and bfloat16 are summed
 * in float. */
struct td_cuda_product {
    int64_t m, n, k, batches;
    int64_t a_row, a_k, b_k, b_col;
    struct td_cuda_steps batch; /* of the batches' dims */
    struct td_cuda_posts posts; /* not of double; channels are columns */
};
int td_cuda_matmul(enum td_cuda_type type, const struct td_cuda_product *s, const void *a, const void *b,
                   void *y, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#else

#include "kernels/cuda/base/cublaslt.h"

/* Of matrices without gaps. Batches that all share b are more rows of one product. False: no single step
 * walks through the batches. */
bool td_cuda_product_for_cublaslt(const struct td_cuda_product *s, enum td_cuda_type type,
                                  struct td_cublaslt_product *p);

#endif
#endif
