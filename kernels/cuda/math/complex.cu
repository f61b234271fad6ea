/* kernels/cuda/math/complex.cu - element-wise ops on complex numbers; taking them apart and putting them
 * together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/complex.cuh"

#include "kernels/cuda/math/complex.h"

namespace
{

template <class F> int with_none(int, const F &)
{
    return static_cast<int>(cudaErrorInvalidValue);
}

} // namespace

#define WITH_BOOLS with_none
#define WITH_WIDE with_none
#define WITH_FLOATS with_none
#define WITH_NATIVE with_none
#define WITH_NUMBERS with_none
#define WITH_SIGNED with_none
#define WITH_REALS with_none
#define WITH_INTS with_none
#define WITH_ALL td_cuda_with_complex
#define WITH_ALL_SIGNED td_cuda_with_complex
#define WITH_ALL_FLOATS td_cuda_with_complex
#define WITH_ALL_NUMBERS td_cuda_with_complex
#define WITH_EQUALS td_cuda_with_complex
#include "kernels/cuda/math/elementwise_of.cuh"

namespace
{

struct real_part {
    template <class F> using result = F;
    template <class F> __device__ static F of(td_cuda_complex<F> x) { return x.re; }
};
struct imaginary_part {
    template <class F> using result = F;
    template <class F> __device__ static F of(td_cuda_complex<F> x) { return x.im; }
};
struct angle {
    template <class F> using result = F;
    template <class F> __device__ static F of(td_cuda_complex<F> x) { return atan2(x.im, x.re); }
};
struct length_of {
    template <class F> using result = F;
    template <class F> __device__ static F of(td_cuda_complex<F> x) { return length(x); }
};
struct conjugate_of {
    template <class F> using result = td_cuda_complex<F>;
    template <class F> __device__ static td_cuda_complex<F> of(td_cuda_complex<F> x) { return conjugate(x); }
};

template <class Op, class F>
__global__ void part(const td_cuda_complex<F> *x, typename Op::template result<F> *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = Op::of(x[i]);
    }
}

template <class F>
__global__ void join(struct td_cuda_steps s, const F *a, const F *b, td_cuda_complex<F> *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        y[i] = {a[at.a], b[at.b]};
    }
}

template <class Op> struct run_part {
    const void *x;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class F> int operator()(td_cuda_complex<F>) const
    {
        return td_cuda_over(part<Op, F>, n, stream, static_cast<const td_cuda_complex<F> *>(x),
                            static_cast<typename Op::template result<F> *>(y), n);
    }
};

struct run_join {
    const td_cuda_steps *steps;
    const void *a, *b;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class F> int operator()(F) const
    {
        return td_cuda_over(join<F>, n, stream, *steps, static_cast<const F *>(a), static_cast<const F *>(b),
                            static_cast<td_cuda_complex<F> *>(y), n);
    }
};

} // namespace

int td_cuda_unary_complex(enum td_cuda_unary op, enum td_cuda_type type, const void *x, void *y, int64_t n,
                          struct td_cuda_stream *stream)
{
    return unary_of(op, type, x, y, n, stream);
}

int td_cuda_binary_complex(enum td_cuda_binary op, enum td_cuda_type type, const struct td_cuda_steps *steps,
                           const void *a, const void *b, void *y, int64_t n, struct td_cuda_stream *stream)
{
    const pair p = {steps, a, b, y, n, stream};
    return binary_of(op, type, p);
}

int td_cuda_add_many_complex(enum td_cuda_type type, const struct td_cuda_addends *s, void *y,
                             struct td_cuda_stream *stream)
{
    return td_cuda_with_complex(type, run_add_many{s, y, stream});
}

int td_cuda_part_of(enum td_cuda_part which, enum td_cuda_type type, const void *x, void *y, int64_t n,
                    struct td_cuda_stream *stream)
{
    switch (which) {
    case TD_CUDA_REAL_PART:
        return td_cuda_with_complex(type, run_part<real_part>{x, y, n, stream});
    case TD_CUDA_IMAGINARY_PART:
        return td_cuda_with_complex(type, run_part<imaginary_part>{x, y, n, stream});
    case TD_CUDA_ANGLE:
        return td_cuda_with_complex(type, run_part<angle>{x, y, n, stream});
    case TD_CUDA_LENGTH:
        return td_cuda_with_complex(type, run_part<length_of>{x, y, n, stream});
    case TD_CUDA_CONJ:
        return td_cuda_with_complex(type, run_part<conjugate_of>{x, y, n, stream});
    }
    return static_cast<int>(cudaErrorInvalidValue);
}

int td_cuda_join_parts(enum td_cuda_type type, const struct td_cuda_steps *steps, const void *a,
                       const void *b, void *y, int64_t n, struct td_cuda_stream *stream)
{
    return td_cuda_with_wide(type, run_join{steps, a, b, y, n, stream});
}
