/* kernels/cuda/math/random.h - launchers of random.cu. Each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_RANDOM_H
#define TD_KERNELS_CUDA_MATH_RANDOM_H

#include "kernels/cuda/base/runtime.h"
#include "kernels/math/random_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A generator; or one on the GPU, or the two seeds there that one is made of: so a launch that is recorded
 * reads them anew each time. */
struct td_cuda_generator {
    struct td_philox g;
    const struct td_philox *drawn;
    const void *seeds; /* both NULL: g */
    bool wide;         /* they are of 8 bytes each, else of 4 */
};
/* y [n] = numbers of the distribution, in the order that the generator gives them. */
int td_cuda_random(enum td_cuda_type type, enum td_random_kind kind, const struct td_cuda_generator *from,
                   void *y, int64_t n, struct td_cuda_stream *stream);
/* Integers of 4 or 8 bytes: lo + bits mod range; range 0: all bits. */
struct td_cuda_random_range {
    uint64_t lo, range;
    bool wide;
};
int td_cuda_random_ints(const struct td_cuda_random_range *s, const struct td_cuda_generator *from, void *y,
                        int64_t n, struct td_cuda_stream *stream);

/* y [samples, n_alpha]: numbers of the gamma distribution of each alpha, which the generator gives alpha by
 * alpha. */
int td_cuda_random_gamma(enum td_cuda_type type, struct td_philox g, const void *alpha, int64_t n_alpha,
                         int64_t samples, void *y, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
