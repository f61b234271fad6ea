/* kernels/cuda/math/reduce_integers.cu - reductions of the integers that are seldom met: a kernel is told at
 * its launch which one (as those of integers.cu are).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/scalar.cuh"
#include "kernels/cuda/math/reduce.cuh"

namespace
{

struct any_fold {
    enum td_cuda_reduce which;
    template <class T> using acc = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    template <class A, class T> __device__ A start() const
    {
        switch (which) {
        case TD_CUDA_PROD:
            return 1;
        case TD_CUDA_MAX:
            return td_cuda_least<T>;
        case TD_CUDA_MIN:
            return td_cuda_most<T>;
        default:
            return 0;
        }
    }
    template <class A> __device__ A of(A x) const { return which == TD_CUDA_NORM ? product(x, x) : x; }
    template <class A> __device__ A fold(A a, A b) const
    {
        switch (which) {
        case TD_CUDA_PROD:
            return product(a, b);
        case TD_CUDA_MAX:
            return a >= b ? a : b;
        case TD_CUDA_MIN:
            return a <= b ? a : b;
        default:
            return sum(a, b);
        }
    }
    template <class T, class A> __device__ T finish(A a, int64_t of) const
    {
        const auto bits = static_cast<uint64_t>(a);
        return which == TD_CUDA_MEAN   ? fold_mean::finish<T>(bits, of)
               : which == TD_CUDA_NORM ? fold_norm::finish<T>(bits, of)
                                       : static_cast<T>(a);
    }
};

} // namespace

int td_cuda_reduce_rare(enum td_cuda_reduce op, enum td_cuda_type type, const struct td_cuda_axes *axes,
                        const void *x, void *y, struct td_cuda_stream *stream)
{
    return op <= TD_CUDA_NORM ? td_cuda_with_rare(type, run_reduce<any_fold>{{op}, axes, x, y, stream})
                              : static_cast<int>(cudaErrorInvalidValue);
}
