/* kernels/cuda/math/special.cu - special functions: those of the host, compiled for a GPU. A thread an
 * element, in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/special.h"

#include <cfloat>
#include <cmath>

#include "kernels/cuda/base/launch.cuh"

namespace
{

#ifdef __CUDACC__
#define TD_SPECIAL static inline __host__ __device__
#else
#define TD_SPECIAL static inline
#endif
#define TD_SPECIAL_OWN TD_SPECIAL
#include "kernels/math/special_gamma.inc"

#include "kernels/math/special_bessel.inc"

__device__ inline double not_a_number()
{
    return NAN;
}

/* T: the type of the elements. */
#define ONE(op, types, f32, f64)                                                                             \
    struct one_##op {                                                                                        \
        template <class T> __device__ static double of(double x)                                             \
        {                                                                                                    \
            if constexpr (sizeof(T) == 8) {                                                                  \
                return f64;                                                                                  \
            } else {                                                                                         \
                return f32;                                                                                  \
            }                                                                                                \
        }                                                                                                    \
    };
#define TWO(op, f32, f64)                                                                                    \
    struct two_##op {                                                                                        \
        template <class T> __device__ static double of(double a, double b)                                   \
        {                                                                                                    \
            if constexpr (sizeof(T) == 8) {                                                                  \
                return f64;                                                                                  \
            } else {                                                                                         \
                return f32;                                                                                  \
            }                                                                                                \
        }                                                                                                    \
    };
#include "kernels/cuda/math/special.def"

template <class T> __device__ double as_double(T x)
{
    return static_cast<double>(td_cuda_load(x));
}

/* By way of float, where T is a half. */
template <class T> __device__ T stored(double v)
{
    return td_cuda_store<T>::of(static_cast<typename td_cuda_wide<T>::type>(v));
}

template <class Op, class T> __global__ void of_one(const T *x, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = stored<T>(Op::template of<T>(as_double(x[i])));
    }
}

template <class Op, class T>
__global__ void of_two(struct td_cuda_steps s, const T *a, const T *b, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        y[i] = stored<T>(Op::template of<T>(as_double(a[at.a]), as_double(b[at.b])));
    }
}

template <class T> __global__ void betainc(td_cuda_betainc s)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        double v[3];
        for (int k = 0; k < 3; k++) {
            v[k] = as_double(static_cast<const T *>(s.in[k])[i * s.step[k]]);
        }
        static_cast<T *>(s.y)[i] = stored<T>(td_special_betainc(v[0], v[1], v[2]));
    }
}

template <class Op> struct run_one {
    const void *x;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(of_one<Op, T>, n, stream, static_cast<const T *>(x), static_cast<T *>(y), n);
    }
};

template <class Op> struct run_two {
    const td_cuda_steps *steps;
    const void *a, *b;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(of_two<Op, T>, n, stream, *steps, static_cast<const T *>(a),
                            static_cast<const T *>(b), static_cast<T *>(y), n);
    }
};

struct run_betainc {
    const td_cuda_betainc *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const { return td_cuda_over(betainc<T>, s->n, stream, *s); }
};

template <class F> int with_half(int type, F f)
{
    return type == TD_CUDA_HALF ? f(__half()) : td_cuda_with_wide(type, f);
}

} // namespace

#define WITH_HALF with_half
#define WITH_WIDE td_cuda_with_wide

int td_cuda_special_of_one(enum td_cuda_special_one which, enum td_cuda_type type, const void *x, void *y,
                           int64_t n, struct td_cuda_stream *stream)
{
    switch (which) {
#define ONE(op, types, f32, f64)                                                                             \
    case TD_CUDA_##op:                                                                                       \
        return WITH_##types(type, run_one<one_##op>{x, y, n, stream});
#include "kernels/cuda/math/special.def"
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}

int td_cuda_special_of_two(enum td_cuda_special_two which, enum td_cuda_type type,
                           const struct td_cuda_steps *steps, const void *a, const void *b, void *y,
                           int64_t n, struct td_cuda_stream *stream)
{
    switch (which) {
#define TWO(op, f32, f64)                                                                                    \
    case TD_CUDA_##op:                                                                                       \
        return td_cuda_with_wide(type, run_two<two_##op>{steps, a, b, y, n, stream});
#include "kernels/cuda/math/special.def"
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}

int td_cuda_betainc_of(enum td_cuda_type type, const struct td_cuda_betainc *s, struct td_cuda_stream *stream)
{
    return td_cuda_with_wide(type, run_betainc{s, stream});
}
