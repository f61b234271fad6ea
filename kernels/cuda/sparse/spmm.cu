/* kernels/cuda/sparse/spmm.cu - a sparse matrix times a dense one: each row of y takes its entries in the
 * order in which they stand, by the group of threads that has its first one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/spmm.h"

#include <type_traits>

#include "kernels/cuda/base/lines.cuh"
#include "kernels/cuda/math/complex.cuh"

namespace
{

__global__ void make_keys(td_cuda_spmm s, int32_t *keys)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int64_t row = td_cuda_index_at(s.indices, 2 * i + (s.adjoint_a ? 1 : 0));
        const int64_t k = td_cuda_index_at(s.indices, 2 * i + (s.adjoint_a ? 0 : 1));
        const bool inside = row >= 0 && row < s.rows && k >= 0 && k < s.inner;
        keys[i] = static_cast<int32_t>(inside ? row : s.rows);
        if (!inside) {
            td_cuda_refuse(s.fault);
        }
    }
}

template <class W> __device__ W adjoint(W v, bool)
{
    return v;
}
template <class F> __device__ td_cuda_complex<F> adjoint(td_cuda_complex<F> v, bool is)
{
    return {v.re, is ? -v.im : v.im};
}

template <class T> __device__ typename td_cuda_wide<T>::type loaded(T x)
{
    return td_cuda_load(x);
}
template <class T, class W> __device__ T stored(W x)
{
    if constexpr (std::is_same_v<T, W>) {
        return x;
    } else {
        return td_cuda_store<T>::of(x);
    }
}

template <class T> __global__ void multiply(td_cuda_lines l, td_cuda_spmm s, td_cuda_spmm_data d)
{
    using W = typename td_cuda_wide<T>::type;
    const T *const a = static_cast<const T *>(d.a), *const b = static_cast<const T *>(d.b);
    td_cuda_each_line(l, [&](int64_t p, int64_t first, int64_t last, int step) {
        const int32_t row = d.keys[p];
        if (row >= s.rows || (p > 0 && d.keys[p - 1] == row)) {
            return;
        }
        for (int64_t c = first; c < last; c += step) {
            W sum = 0;
            for (int64_t q = p; q < s.n && d.keys[q] == row; q++) {
                const int64_t entry = d.order[q];
                const int64_t k = td_cuda_index_at(s.indices, 2 * entry + (s.adjoint_a ? 0 : 1));
                const int64_t at = s.adjoint_b ? c * s.inner + k : k * s.columns + c;
                sum = sum + adjoint(loaded(a[entry]), s.adjoint_a) * adjoint(loaded(b[at]), s.adjoint_b);
            }
            static_cast<T *>(d.y)[row * s.columns + c] = stored<T>(sum);
        }
    });
}

struct run_multiply {
    const td_cuda_spmm *s;
    const td_cuda_spmm_data *d;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const td_cuda_lines l = td_cuda_lines_of(s->n, s->columns);
        return td_cuda_blocks(multiply<T>, td_cuda_line_blocks(l), stream, l, *s, *d);
    }
};

} // namespace

int td_cuda_spmm_keys(const struct td_cuda_spmm *s, int32_t *keys, struct td_cuda_stream *stream)
{
    return td_cuda_over(make_keys, s->n, stream, *s, keys);
}

int td_cuda_spmm_run(enum td_cuda_type type, const struct td_cuda_spmm *s, const struct td_cuda_spmm_data *d,
                     struct td_cuda_stream *stream)
{
    const run_multiply run{s, d, stream};
    return type == TD_CUDA_COMPLEX64    ? run(td_cuda_complex<float>())
           : type == TD_CUDA_COMPLEX128 ? run(td_cuda_complex<double>())
           : type == TD_CUDA_INT32      ? run(uint32_t()) /* wraps */
                                        : td_cuda_with_float(type, run);
}
