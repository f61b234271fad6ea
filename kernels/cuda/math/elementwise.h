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

/* y[i] = the sum of before[i] (unless it is NULL), of the first in[..][i] until eights are left, and of each
 * eight's own sum, in this order, rounded after each: that of the host's AddN. y may be one of them. */
enum { TD_CUDA_ADDENDS = 32, TD_CUDA_ADDED_AT_ONCE = 8 };
struct td_cuda_addends {
    const void *before; /* with it, n_in is eights alone */
    const void *in[TD_CUDA_ADDENDS];
    int n_in;
    int64_t n;
};
/* How many of n inputs are added one by one, before eights are left. */
static inline int td_cuda_addends_first(int n)
{
    const int over = n % TD_CUDA_ADDED_AT_ONCE, first = over < 2 ? over + TD_CUDA_ADDED_AT_ONCE : over;
    return first < n ? first : n;
}
int td_cuda_add_many(enum td_cuda_type type, const struct td_cuda_addends *s, void *y,
                     struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
