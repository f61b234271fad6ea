/* kernels/cuda/nn/norm.cu - batch normalisation, by given statistics or by the batch's, and its gradient.
 *
 *   sums      two of each channel (channel_sums.cuh), ..
 *   finish    .. which one thread a channel makes what elements need
 *   elements  a thread an element
 *
 * The statistics are of x less the first cell of its channel, so that one pass does: of a channel without
 * variance every difference is 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/norm.h"

#include "kernels/cuda/base/channel_sums.cuh"

namespace
{

__host__ __device__ int64_t cells_of(const td_cuda_norm &s)
{
    return s.outer * s.inner;
}
td_cuda_channels channels_of(const td_cuda_norm &s)
{
    return {s.outer, s.channels, s.inner};
}
int64_t parts_of(const td_cuda_norm &s)
{
    return td_cuda_channel_parts(channels_of(s));
}

/* ------------------------------------------------------------------ sums */

/* What a channel's statistics are counted from: its first cell, or 0 where that is no number. */
template <class T> __device__ double start_of(const T *x, int64_t first)
{
    const double v = static_cast<double>(td_cuda_load(x[first]));
    return v - v == 0 ? v : 0;
}

template <class T> struct of_batch {
    const T *x;
    __device__ td_cuda_two operator()(int64_t at, double first) const
    {
        const double d = static_cast<double>(td_cuda_load(x[at])) - first;
        return {d, d * d};
    }
    __device__ double base(int64_t, int64_t first) const { return start_of(x, first); }
};
template <class T> struct of_gradient {
    const T *dy, *x;
    const float *mean;
    __device__ td_cuda_two operator()(int64_t at, double mid) const
    {
        const double d = static_cast<double>(td_cuda_load(dy[at]));
        return {d, d * (static_cast<double>(td_cuda_load(x[at])) - mid)};
    }
    __device__ double base(int64_t channel, int64_t) const { return static_cast<double>(mean[channel]); }
};

/* ------------------------------------------------------------------ finish */

__device__ float moved(const float *old, int64_t c, float factor, double to)
{
    return factor == 1 ? static_cast<float>(to) : (1 - factor) * old[c] + factor * static_cast<float>(to);
}

template <class T>
__global__ void finish_batch(td_cuda_norm s, td_cuda_norm_out out, int64_t parts, const T *x,
                             const td_cuda_two *part)
{
    const double n = static_cast<double>(cells_of(s));
    for (int64_t c = td_cuda_first(); c < s.channels; c += td_cuda_stride()) {
        const td_cuda_two sum = td_cuda_sum_of(part, parts, s.channels, c);
        const double from_first = sum.a / n, square = sum.b / n - from_first * from_first;
        const double mean = start_of(x, c * s.inner) + from_first;
        const double variance = square < 0 ? 0 : square, wide = n > 1 ? variance * n / (n - 1) : variance;
        static_cast<float *>(out.saved_mean)[c] = static_cast<float>(mean);
        static_cast<float *>(out.saved_variance)[c] = static_cast<float>(variance);
        static_cast<float *>(out.running_mean)[c] =
            moved(static_cast<const float *>(s.mean), c, out.factor, mean);
        static_cast<float *>(out.running_variance)[c] =
            moved(static_cast<const float *>(s.variance), c, out.factor, wide);
    }
}

/* dx = by[0] dy + by[1] (x - mean) + by[2], a channel. */
__global__ void finish_gradient(td_cuda_norm s, td_cuda_norm_grad g, int64_t parts, const td_cuda_two *part,
                                float *by)
{
    const double n = static_cast<double>(cells_of(s));
    const float *const variance = static_cast<const float *>(s.variance);
    for (int64_t c = td_cuda_first(); c < s.channels; c += td_cuda_stride()) {
        const td_cuda_two sum = td_cuda_sum_of(part, parts, s.channels, c);
        const double r = 1 / sqrt(static_cast<double>(variance[c]) + static_cast<double>(s.epsilon));
        const double scale = static_cast<const float *>(s.scale)[c];
        static_cast<float *>(g.doffset)[c] = static_cast<float>(sum.a);
        static_cast<float *>(g.dscale)[c] = static_cast<float>(sum.b * r);
        by[c] = static_cast<float>(scale * r);
        by[s.channels + c] = g.training ? static_cast<float>(-scale * r * r * r * sum.b / n) : 0;
        by[2 * s.channels + c] = g.training ? static_cast<float>(-scale * r * sum.a / n) : 0;
    }
}

/* ------------------------------------------------------------------ elements */

template <class T> __global__ void norm(td_cuda_norm s, const T *x, T *y, int64_t n)
{
    const float *const scale = static_cast<const float *>(s.scale);
    const float *const offset = static_cast<const float *>(s.offset);
    const float *const mean = static_cast<const float *>(s.mean);
    const float *const variance = static_cast<const float *>(s.variance);
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t c = i / s.inner % s.channels;
        const float by = scale[c] / sqrtf(variance[c] + s.epsilon);
        y[i] = td_cuda_store<T>::of((static_cast<float>(td_cuda_load(x[i])) - mean[c]) * by + offset[c]);
    }
}

template <class T> __global__ void norm_global(td_cuda_norm s, const T *x, T *y, int64_t n)
{
    using W = typename td_cuda_wide<T>::type;
    const T *const scale = static_cast<const T *>(s.scale), *const offset = static_cast<const T *>(s.offset);
    const T *const mean = static_cast<const T *>(s.mean);
    const T *const variance = static_cast<const T *>(s.variance);
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t c = i / s.inner % s.channels;
        const W by = 1 / sqrt(td_cuda_load(variance[c]) + static_cast<W>(s.epsilon)) *
                     (scale == nullptr ? W(1) : td_cuda_load(scale[c]));
        y[i] =
            td_cuda_store<T>::of((td_cuda_load(x[i]) - td_cuda_load(mean[c])) * by + td_cuda_load(offset[c]));
    }
}

template <class T>
__global__ void combine(td_cuda_norm s, const T *dy, const T *x, const float *by, T *dx, int64_t n)
{
    const float *const mean = static_cast<const float *>(s.mean);
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t c = i / s.inner % s.channels;
        const float d = static_cast<float>(td_cuda_load(dy[i])), v = static_cast<float>(td_cuda_load(x[i]));
        dx[i] = td_cuda_store<T>::of(by[c] * d + by[s.channels + c] * (v - mean[c]) + by[2 * s.channels + c]);
    }
}

int64_t count_of(const td_cuda_norm &s)
{
    return s.outer * s.channels * s.inner;
}

struct run_norm {
    const td_cuda_norm *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(norm<T>, count_of(*s), stream, *s, static_cast<const T *>(x), static_cast<T *>(y),
                            count_of(*s));
    }
};

struct run_global {
    const td_cuda_norm *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(norm_global<T>, count_of(*s), stream, *s, static_cast<const T *>(x),
                            static_cast<T *>(y), count_of(*s));
    }
};

struct run_batch {
    const td_cuda_norm *s;
    const void *x;
    const td_cuda_norm_out *out;
    td_cuda_two *part;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const T *const from = static_cast<const T *>(x);
        const int64_t parts = parts_of(*s);
        const int error = td_cuda_channel_sums(channels_of(*s), parts, of_batch<T>{from}, part, stream);
        return error != 0 ? error
                          : td_cuda_over(finish_batch<T>, s->channels, stream, *s, *out, parts, from, part);
    }
};

struct run_backward {
    const td_cuda_norm *s;
    const td_cuda_norm_grad *g;
    td_cuda_two *part;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const T *const dy = static_cast<const T *>(g->dy), *const x = static_cast<const T *>(g->x);
        const int64_t parts = parts_of(*s);
        float *const by = reinterpret_cast<float *>(part + parts * s->channels);
        const of_gradient<T> of{dy, x, static_cast<const float *>(s->mean)};
        int error = td_cuda_channel_sums(channels_of(*s), parts, of, part, stream);
        if (error == 0) {
            error = td_cuda_over(finish_gradient, s->channels, stream, *s, *g, parts, part, by);
        }
        return error != 0 ? error
                          : td_cuda_over(combine<T>, count_of(*s), stream, *s, dy, x, by,
                                         static_cast<T *>(g->dx), count_of(*s));
    }
};

} // namespace

int td_cuda_norm_given(enum td_cuda_type type, const struct td_cuda_norm *s, const void *x, void *y,
                       struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_norm{s, x, y, stream});
}

int td_cuda_norm_global(enum td_cuda_type type, const struct td_cuda_norm *s, const void *x, void *y,
                        struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_global{s, x, y, stream});
}

size_t td_cuda_norm_work(const struct td_cuda_norm *s)
{
    return static_cast<size_t>(s->channels) *
           (static_cast<size_t>(parts_of(*s)) * sizeof(td_cuda_two) + 3 * sizeof(float));
}

int td_cuda_norm_batch(enum td_cuda_type type, const struct td_cuda_norm *s, const void *x,
                       const struct td_cuda_norm_out *out, void *work, struct td_cuda_stream *stream)
{
    const int error =
        td_cuda_with_float(type, run_batch{s, x, out, static_cast<td_cuda_two *>(work), stream});
    struct td_cuda_norm by = *s;
    by.mean = out->saved_mean;
    by.variance = out->saved_variance;
    return error != 0 ? error : td_cuda_norm_given(type, &by, x, out->y, stream);
}

int td_cuda_norm_backward(enum td_cuda_type type, const struct td_cuda_norm *s,
                          const struct td_cuda_norm_grad *g, void *work, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_backward{s, g, static_cast<td_cuda_two *>(work), stream});
}
