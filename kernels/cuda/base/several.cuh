/* kernels/cuda/base/several.cuh - elements that lie together, which a thread reads and writes as one: a GPU's
 * memory is busy when each thread has 16 bytes on the way, and a half is two.
 *
 *   kernel<<<..>>>(.., several)    several: N of them at a time; else one
 *     td_cuda_several<T, N> four = td_cuda_read<N>(x + i);
 *     td_cuda_write(y + i, four);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_SEVERAL_CUH
#define TD_KERNELS_CUDA_BASE_SEVERAL_CUH

#include "kernels/cuda/base/launch.cuh"

template <class T, int N> struct alignas(N * sizeof(T)) td_cuda_several {
    T v[N];
};

/* How many are 16 bytes of the larger type. */
template <class T, class R>
constexpr int td_cuda_at_once = static_cast<int>(16 / (sizeof(T) > sizeof(R) ? sizeof(T) : sizeof(R)));

template <int N, class T> __device__ td_cuda_several<T, N> td_cuda_read(const T *x)
{
    return *reinterpret_cast<const td_cuda_several<T, N> *>(x);
}
template <int N, class T> __device__ void td_cuda_write(T *y, const td_cuda_several<T, N> &v)
{
    *reinterpret_cast<td_cuda_several<T, N> *>(y) = v;
}

/* In a kernel: y[i] = f(x[i]) of n elements. */
template <class T, class R, class F>
__device__ void td_cuda_map(const T *x, R *y, int64_t n, bool several, const F &f)
{
    constexpr int N = td_cuda_at_once<T, R>;
    const int64_t whole = several ? n / N : 0;
    for (int64_t i = td_cuda_first(); i < whole; i += td_cuda_stride()) {
        const td_cuda_several<T, N> from = td_cuda_read<N>(x + i * N);
        td_cuda_several<R, N> to;
        TD_UNROLL
        for (int k = 0; k < N; k++) {
            to.v[k] = f(from.v[k]);
        }
        td_cuda_write(y + i * N, to);
    }
    for (int64_t i = whole * N + td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = f(x[i]);
    }
}

template <int N, class T> bool td_cuda_lies_for(const T *x)
{
    return reinterpret_cast<uintptr_t>(x) % (N * sizeof(T)) == 0;
}

/* Whether operand steps go through N neighbours, or stay, and are N apart else. */
template <int N> bool td_cuda_steps_for(const td_cuda_steps &s, const int64_t *step)
{
    bool fit = s.rank > 0 && s.dim[0] % N == 0 && (step[0] == 0 || step[0] == 1);
    for (int d = 1; d < s.rank; d++) {
        fit = fit && (step[d] % N == 0 || step[0] == 0);
    }
    return fit;
}

#endif
