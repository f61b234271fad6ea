/* kernels/cuda/math/reduce.cu - reductions of floats, bools and the integers that are met most.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/reduce.cuh"

int td_cuda_reduce(enum td_cuda_reduce op, enum td_cuda_type type, const struct td_cuda_axes *axes,
                   const void *x, void *y, struct td_cuda_stream *stream)
{
    if (td_cuda_is_rare(type)) {
        return td_cuda_reduce_rare(op, type, axes, x, y, stream);
    }
    switch (op) {
    case TD_CUDA_SUM:
        return td_cuda_with_number(type, run_reduce<fold_sum>{{}, axes, x, y, stream});
    case TD_CUDA_MEAN:
        return td_cuda_with_number(type, run_reduce<fold_mean>{{}, axes, x, y, stream});
    case TD_CUDA_PROD:
        return td_cuda_with_number(type, run_reduce<fold_prod>{{}, axes, x, y, stream});
    case TD_CUDA_MAX:
        return td_cuda_with_number(type, run_reduce<fold_max>{{}, axes, x, y, stream});
    case TD_CUDA_MIN:
        return td_cuda_with_number(type, run_reduce<fold_min>{{}, axes, x, y, stream});
    case TD_CUDA_NORM:
        return td_cuda_with_number(type, run_reduce<fold_norm>{{}, axes, x, y, stream});
    case TD_CUDA_HALF_SQUARES:
        return td_cuda_with_float(type, run_reduce<fold_half_squares>{{}, axes, x, y, stream});
    case TD_CUDA_ALL_OF:
        return run_reduce<fold_all>{{}, axes, x, y, stream}(uint8_t());
    case TD_CUDA_ANY_OF:
        return run_reduce<fold_any>{{}, axes, x, y, stream}(uint8_t());
    }
    return static_cast<int>(cudaErrorInvalidValue);
}
