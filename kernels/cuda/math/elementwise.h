/* kernels/cuda/math/elementwise.h - launchers of element-wise.cu. Each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_ELEMENTWISE_H
#define TD_KERNELS_CUDA_MATH_ELEMENTWISE_H

#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

enum td_cuda_unary {
#define UNARY(op, types, value) TD_CUDA_##op,
#define TEST(op, types, value) TD_CUDA_##op,
#define COUNT(op, types, value) TD_CUDA_##op,
#include "kernels/cuda/math/unary.def"
    TD_CUDA_UNARY_OPS
};
enum td_cuda_binary {
#define BINARY(op, types, value) TD_CUDA_##op,
#define COMPARE(op, types, value) TD_CUDA_##op,
#include "kernels/cuda/math/binary.def"
    TD_CUDA_BINARY_OPS
};

/* y[i] = op(x[i]), n elements each; y may be x, but of what gives bools
 * or counts. */
int td_cuda_unary(enum td_cuda_unary op, enum td_cuda_type type, const void *x, void *y, int64_t n,
                  struct td_cuda_stream *stream);

/* y[i] = op(a[..], b[..]) for n elements of y, which may be an operand that is not repeated. */
int td_cuda_binary(enum td_cuda_binary op, enum td_cuda_type type, const struct td_cuda_steps *steps,
                   const void *a, const void *b, void *y, int64_t n, struct td_cuda_stream *stream);

/* The same for the integers of integers.cu. */
int td_cuda_unary_rare(enum td_cuda_unary op, enum td_cuda_type type, const void *x, void *y, int64_t n,
                       struct td_cuda_stream *stream);
int td_cuda_binary_rare(enum td_cuda_binary op, enum td_cuda_type type, const struct td_cuda_steps *steps,
                        const void *a, const void *b, void *y, int64_t n, struct td_cuda_stream *stream);

/* y[i] = in[0][i] + in[1][i] + .., rounded after each; apart: in[0][i] + (in[1][i] + ..). y may be one of
 * them. */
enum { TD_CUDA_ADDENDS = 9 };
struct td_cuda_addends {
    const void *in[TD_CUDA_ADDENDS];
    int n_in;
    bool apart;
    int64_t n;
};
int td_cuda_add_many(enum td_cuda_type type, const struct td_cuda_addends *s, void *y,
                     struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
