/* kernels/cuda/math/reduce_integers.cu - reductions of the integers that are seldom met.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/reduce.cuh"

int td_cuda_reduce_rare(enum td_cuda_reduce op, enum td_cuda_type type, const struct td_cuda_axes *axes,
                        const void *x, void *y, struct td_cuda_stream *stream)
{
    switch (op) {
    case TD_CUDA_SUM:
        return td_cuda_with_rare(type, run_reduce<fold_sum>{axes, x, y, stream});
    case TD_CUDA_MEAN:
        return td_cuda_with_rare(type, run_reduce<fold_mean>{axes, x, y, stream});
    case TD_CUDA_PROD:
        return td_cuda_with_rare(type, run_reduce<fold_prod>{axes, x, y, stream});
    case TD_CUDA_MAX:
        return td_cuda_with_rare(type, run_reduce<fold_max>{axes, x, y, stream});
    case TD_CUDA_MIN:
        return td_cuda_with_rare(type, run_reduce<fold_min>{axes, x, y, stream});
    case TD_CUDA_NORM:
        return td_cuda_with_rare(type, run_reduce<fold_norm>{axes, x, y, stream});
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}
