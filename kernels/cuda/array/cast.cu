/* kernels/cuda/array/cast.cu - numbers as those of another type, a thread some neighbours.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/cast.h"

#include <type_traits>

#include "kernels/cuda/base/several.cuh"

namespace
{

/* W is what T is computed in. */
template <class R, class W> struct as {
    __device__ static R of(W x) { return td_cuda_store<R>::of(x); }
};
template <class W> struct as<bool, W> {
    __device__ static bool of(W x) { return x != 0; }
};
template <class W> struct as<int32_t, W> {
    __device__ static int32_t of(W x)
    {
        if (std::is_floating_point_v<W>) {
            const double v = static_cast<double>(x);
            return v > -2147483649.0 && v < 2147483648.0 ? static_cast<int32_t>(x) : INT32_MIN;
        }
        return static_cast<int32_t>(x);
    }
};
template <class W> struct as<int64_t, W> {
    __device__ static int64_t of(W x)
    {
        if (std::is_floating_point_v<W>) {
            const double v = static_cast<double>(x);
            return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? static_cast<int64_t>(x)
                                                                            : INT64_MIN;
        }
        return static_cast<int64_t>(x);
    }
};
/* By way of float, as the host has it. */
template <class W> struct as<__half, W> {
    __device__ static __half of(W x) { return __float2half_rn(static_cast<float>(x)); }
};
template <class W> struct as<__nv_bfloat16, W> {
    __device__ static __nv_bfloat16 of(W x) { return __float2bfloat16_rn(static_cast<float>(x)); }
};

template <class R, class T> __device__ R casted(T x)
{
    using W = decltype(td_cuda_load(x));
    return as<R, W>::of(td_cuda_load(x));
}

template <class T, class R> __global__ void cast(const T *x, R *y, int64_t n, bool several)
{
    td_cuda_map(x, y, n, several, [](T v) { return casted<R>(v); });
}

template <class F> int with_any(int type, F f)
{
    return type == TD_CUDA_BOOL ? f(bool()) : td_cuda_with_number(type, f);
}

struct call {
    enum td_cuda_type to;
    const void *x;
    void *y;
    int64_t n;
    struct td_cuda_stream *stream;
};

template <class T> struct run_to {
    call c;
    template <class R> int operator()(R) const
    {
        constexpr int N = td_cuda_at_once<T, R>;
        const T *const x = static_cast<const T *>(c.x);
        R *const y = static_cast<R *>(c.y);
        const bool several = td_cuda_lies_for<N>(x) && td_cuda_lies_for<N>(y);
        return td_cuda_over(cast<T, R>, several ? (c.n + N - 1) / N : c.n, c.stream, x, y, c.n, several);
    }
};

struct run_from {
    call c;
    template <class T> int operator()(T) const { return with_any(c.to, run_to<T>{c}); }
};

} // namespace

int td_cuda_cast(enum td_cuda_type from, enum td_cuda_type to, const void *x, void *y, int64_t n,
                 struct td_cuda_stream *stream)
{
    return with_any(from, run_from{{to, x, y, n, stream}});
}
