/* kernels/cuda/math/complex.h - launchers of complex.cu. Each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_COMPLEX_H
#define TD_KERNELS_CUDA_MATH_COMPLEX_H

#include "kernels/cuda/math/elementwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Those of elementwise.h for complex numbers. */
int td_cuda_unary_complex(enum td_cuda_unary op, enum td_cuda_type type, const void *x, void *y, int64_t n,
                          struct td_cuda_stream *stream);
int td_cuda_binary_complex(enum td_cuda_binary op, enum td_cuda_type type, const struct td_cuda_steps *steps,
                           const void *a, const void *b, void *y, int64_t n, struct td_cuda_stream *stream);
int td_cuda_add_many_complex(enum td_cuda_type type, const struct td_cuda_addends *s, void *y,
                             struct td_cuda_stream *stream);

/* y[i] = that of the complex x[i]: complex itself, or real. */
enum td_cuda_part { TD_CUDA_REAL_PART, TD_CUDA_IMAGINARY_PART, TD_CUDA_ANGLE, TD_CUDA_LENGTH, TD_CUDA_CONJ };
int td_cuda_part_of(enum td_cuda_part part, enum td_cuda_type type, const void *x, void *y, int64_t n,
                    struct td_cuda_stream *stream);
/* y[i] = a[..] + i b[..], a and b of the real type. */
int td_cuda_join_parts(enum td_cuda_type type, const struct td_cuda_steps *steps, const void *a,
                       const void *b, void *y, int64_t n, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
