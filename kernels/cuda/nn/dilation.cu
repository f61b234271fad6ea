/* kernels/cuda/nn/dilation.cu - grey-scale dilation, a thread an element of y.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/dilation.h"

#include <cfloat>

#include "kernels/cuda/base/cells.cuh"
#include "kernels/cuda/base/scalar.cuh"

namespace
{

template <class T> using wide = typename td_cuda_wide<T>::type;

/* The least finite number: the greatest of no taps. */
template <class T> __device__ wide<T> lowest()
{
    return std::is_same_v<T, __half>          ? static_cast<wide<T>>(-65504)
           : std::is_same_v<T, __nv_bfloat16> ? static_cast<wide<T>>(-0x1.fep127)
                                              : (sizeof(T) == sizeof(float) ? static_cast<wide<T>>(-FLT_MAX)
                                                                            : static_cast<wide<T>>(-DBL_MAX));
}

__device__ int64_t first_inside(const td_cuda_axis &a, int64_t out)
{
    const int64_t at = out * a.stride - a.before;
    return at < 0 ? 0 : at < a.in ? at : a.in - 1;
}

__device__ int64_t element_of(const td_cuda_dilation &s, const td_cuda_cell &in, int64_t channel)
{
    return ((in.batch * s.axis[1].in + in.at[1]) * s.axis[2].in + in.at[2]) * s.channels + channel;
}

/* Of an element of y: the greatest sum, as T has it, and where it came from; of no taps the window's first
 * place inside, and the first tap. */
template <class T> struct found {
    wide<T> top;
    int64_t x, filter;
};
template <class T> __device__ found<T> seek(const td_cuda_dilation &s, int64_t i)
{
    const T *const x = static_cast<const T *>(s.x), *const filter = static_cast<const T *>(s.filter);
    const int64_t channel = i % s.channels;
    const td_cuda_cell out = td_cuda_out_cell(s.axis, i / s.channels);
    td_cuda_cell in = {out.batch,
                       {0, first_inside(s.axis[1], out.at[1]), first_inside(s.axis[2], out.at[2])}};
    found<T> best = {lowest<T>(), element_of(s, in, channel), channel};
    for (int64_t t = 0; t < td_cuda_taps(s.axis); t++) {
        if (!td_cuda_tap_in(s.axis, out, td_cuda_tap(s.axis, t), &in)) {
            continue;
        }
        const int64_t at = element_of(s, in, channel), by = t * s.channels + channel;
        const wide<T> sum = rounded<T>(td_cuda_load(x[at]) + td_cuda_load(filter[by]));
        if (sum > best.top) {
            best = {sum, at, by};
        }
    }
    return best;
}

template <class T> __global__ void dilate(td_cuda_dilation s, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = td_cuda_store<T>::of(seek<T>(s, i).top);
    }
}

template <class T> __global__ void make_keys(td_cuda_dilation s, bool of_filter, int32_t *keys, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const found<T> best = seek<T>(s, i);
        keys[i] = static_cast<int32_t>(of_filter ? best.filter : best.x);
    }
}

int64_t outputs_of(const td_cuda_dilation &s)
{
    return s.batch * td_cuda_out_cells(s.axis) * s.channels;
}

struct run_dilate {
    const td_cuda_dilation *s;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(dilate<T>, outputs_of(*s), stream, *s, static_cast<T *>(y), outputs_of(*s));
    }
};

struct run_keys {
    const td_cuda_dilation *s;
    bool of_filter;
    int32_t *keys;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(make_keys<T>, outputs_of(*s), stream, *s, of_filter, keys, outputs_of(*s));
    }
};

} // namespace

int td_cuda_dilate(enum td_cuda_type type, const struct td_cuda_dilation *s, void *y,
                   struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_dilate{s, y, stream});
}

int td_cuda_dilation_keys(enum td_cuda_type type, const struct td_cuda_dilation *s, bool of_filter,
                          int32_t *keys, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_keys{s, of_filter, keys, stream});
}
