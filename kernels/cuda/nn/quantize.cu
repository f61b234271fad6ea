/* kernels/cuda/nn/quantize.cu - floats and levels of ranges.
 *
 *   ends      where a range is what the numbers have: a block a stretch of a slice
 *   lines     a thread a slice: what its elements need (struct line)
 *   elements  a thread an element
 *
 * Rounded step by step: a tie falls as it does on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/quantize.h"

#include <cfloat>

#include "kernels/cuda/base/exact.cuh"
#include "kernels/cuda/base/fold.cuh"
#include "kernels/cuda/base/lines.cuh"

namespace
{

template <class T> struct line {
    T min, max, scale, inverse;
};

__host__ __device__ int64_t cells_of(const td_cuda_ranges &s)
{
    return s.outer * s.inner;
}
__device__ int64_t slice_of(const td_cuda_ranges &s, int64_t i)
{
    return s.depth == 1 ? 0 : i / s.inner % s.depth;
}
int64_t count_of(const td_cuda_ranges &s)
{
    return s.outer * s.depth * s.inner;
}

/* In how many stretches a slice's ends are found. */
int64_t parts_of(const td_cuda_ranges &s)
{
    constexpr int64_t BLOCKS = 1024, LEAST = 4096;
    const int64_t want = s.depth == 0 || s.depth >= BLOCKS ? 1 : BLOCKS / s.depth;
    const int64_t most = (cells_of(s) + LEAST - 1) / LEAST;
    return want < most ? want : most < 1 ? 1 : most;
}

/* ------------------------------------------------------------------ ends */

/* What is no number has no say. */
template <class T> __global__ void ends(td_cuda_ranges s, int64_t parts, const T *x, T *least, T *most)
{
    __shared__ T shared[THREADS];
    const int64_t cells = cells_of(s), each = (cells + parts - 1) / parts;
    for (int64_t b = blockIdx.x; b < parts * s.depth; b += gridDim.x) {
        const int64_t k = b % s.depth, from = b / s.depth * each;
        const int64_t to = from + each < cells ? from + each : cells;
        T low = td_cuda_most<T>, high = td_cuda_least<T>;
        for (int64_t e = from + threadIdx.x; e < to; e += THREADS) {
            const int64_t o = e / s.inner;
            const T v = x[(o * s.depth + k) * s.inner + e - o * s.inner];
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        low = td_cuda_fold<THREADS>(low, shared, [](T a, T c) { return c < a ? c : a; });
        high = td_cuda_fold<THREADS>(high, shared, [](T a, T c) { return c > a ? c : a; });
        if (threadIdx.x == 0) {
            least[b] = low;
            most[b] = high;
        }
    }
}

/* ------------------------------------------------------------------ to levels and back */

template <class T> constexpr T LARGEST = sizeof(T) == sizeof(float) ? static_cast<T>(FLT_MAX) : DBL_MAX;

/* The largest scale by which both ends are levels; the other end is moved to its level. */
template <class T> __device__ line<T> line_of(T low, T high, T min, T max)
{
    const T from_min = low * min > 0 ? low / min : LARGEST<T>;
    const T from_max = high * max > 0 ? high / max : LARGEST<T>;
    const bool use_min = from_min < from_max;
    const T inverse = use_min ? min / low : max / high;
    return {use_min ? min : low * inverse, use_min ? high * inverse : max, use_min ? from_min : from_max,
            inverse};
}

template <class T>
__global__ void lines_of_levels(td_cuda_ranges s, td_cuda_rounding r, int64_t parts, const T *least,
                                const T *most, line<T> *to)
{
    for (int64_t k = td_cuda_first(); k < s.depth; k += td_cuda_stride()) {
        T min = s.min != nullptr ? static_cast<const T *>(s.min)[k] : static_cast<T>(r.least);
        T max = s.min != nullptr ? static_cast<const T *>(s.max)[k] : static_cast<T>(r.most);
        for (int64_t p = 0; p < parts && !r.given; p++) {
            const T low = least[p * s.depth + k], high = most[p * s.depth + k];
            min = p == 0 || low < min ? low : min;
            max = p == 0 || high > max ? high : max;
        }
        if (r.given && min > max) {
            td_cuda_refuse(s.fault);
        }
        to[k] = line_of(static_cast<T>(r.low), static_cast<T>(r.high), min, max);
    }
}

template <class T>
__global__ void round_to(td_cuda_ranges s, td_cuda_rounding r, const line<T> *lines, const T *x, T *y,
                         int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const line<T> l = lines[slice_of(s, i)];
        T v = x[i];
        v = r.given && l.max < v ? l.max : v;
        v = r.given && v < l.min ? l.min : v;
        v = td_cuda_times(v, l.scale);
        y[i] = (r.half_up ? floor(v + static_cast<T>(0.5)) : rint(v)) * l.inverse;
    }
}

template <class T> __global__ void pass(td_cuda_ranges s, const T *dy, const T *x, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t k = slice_of(s, i);
        const bool inside =
            x[i] >= static_cast<const T *>(s.min)[k] && x[i] <= static_cast<const T *>(s.max)[k];
        dx[i] = inside ? dy[i] : T(0);
    }
}

struct run_rounding {
    const td_cuda_ranges *s;
    const td_cuda_rounding *r;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t parts = parts_of(*s), n = count_of(*s);
        line<T> *const lines = static_cast<line<T> *>(s->work);
        T *const least = reinterpret_cast<T *>(lines + s->depth), *const most = least + parts * s->depth;
        const T *const from = static_cast<const T *>(x);
        int error =
            r->given ? 0 : td_cuda_blocks(ends<T>, parts * s->depth, stream, *s, parts, from, least, most);
        if (error == 0) {
            error = td_cuda_over(lines_of_levels<T>, s->depth, stream, *s, *r, parts, least, most, lines);
        }
        return error != 0 ? error
                          : td_cuda_over(round_to<T>, n, stream, *s, *r, lines, from, static_cast<T *>(y), n);
    }
};

struct run_pass {
    const td_cuda_ranges *s;
    const void *dy, *x;
    void *dx;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(pass<T>, count_of(*s), stream, *s, static_cast<const T *>(dy),
                            static_cast<const T *>(x), static_cast<T *>(dx), count_of(*s));
    }
};

/* ------------------------------------------------------------------ QuantizeV2 */

__device__ float greater(float a, float b)
{
    return fmaxf(a, b);
}

/* The range is made to hold 0, and wide enough. */
__global__ void fit(td_cuda_ranges s, td_cuda_levels l, line<float> *to, float *out_min, float *out_max)
{
    for (int64_t k = td_cuda_first(); k < s.depth; k += td_cuda_stride()) {
        const float min = static_cast<const float *>(s.min)[k], max = static_cast<const float *>(s.max)[k];
        const float size = greater(1, greater(fabsf(min), fabsf(max)));
        line<float> at = {min < 0 ? min : 0, 0, 0, 0};
        at.max = greater(0, greater(max, at.min + td_cuda_times(size, l.narrowest)));
        if (!(min <= max)) {
            td_cuda_refuse(s.fault);
        }
        if (l.mode == TD_CUDA_SCALED) {
            const float low = l.low + l.skip;
            const float from_min = low * at.min > 0 ? low / at.min : FLT_MAX;
            const float from_max = l.high * at.max > 0 ? l.high / at.max : FLT_MAX;
            at.scale = fminf(from_min, from_max);
            at.min = low / at.scale;
            at.max = l.high / at.scale;
        } else {
            at.scale = static_cast<float>(l.steps / static_cast<double>(at.max - at.min));
        }
        to[k] = at;
        out_min[k] = at.min;
        out_max[k] = at.max;
    }
}

__device__ float cut(float v, float low, float high)
{
    v = high < v ? high : v;
    return v < low ? low : v;
}

__device__ float level_of(const line<float> &at, const td_cuda_levels &l, float x)
{
    switch (l.mode) {
    case TD_CUDA_MIN_COMBINED:
        return roundf(td_cuda_times(cut(x, at.min, at.max) - at.min, at.scale) - l.half);
    case TD_CUDA_MIN_FIRST:
        return cut(roundf(td_cuda_times(x, at.scale)) - (roundf(td_cuda_times(at.min, at.scale)) - l.low),
                   l.low, l.high >= 0x1p31f ? 0x1.fffffep30f : l.high);
    default:
        x = td_cuda_times(cut(x, at.min, at.max), at.scale);
        return l.to_even ? rintf(x) : roundf(x);
    }
}

/* What fits no int32 becomes its lowest value. */
template <class T>
__global__ void quantize(td_cuda_ranges s, td_cuda_levels l, const line<float> *lines, const float *x, T *y,
                         int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const float v = level_of(lines[slice_of(s, i)], l, x[i]);
        y[i] = static_cast<T>(v >= -0x1p31f && v < 0x1p31f ? static_cast<int32_t>(v) : INT32_MIN);
    }
}

struct run_quantize {
    const td_cuda_ranges *s;
    const td_cuda_levels *l;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(quantize<T>, count_of(*s), stream, *s, *l,
                            static_cast<const line<float> *>(s->work), static_cast<const float *>(x),
                            static_cast<T *>(y), count_of(*s));
    }
};

/* ------------------------------------------------------------------ Dequantize */

/* (level + min) * scale + max. */
__device__ line<float> dequantizer(const td_cuda_levels &l, float min, float max)
{
    const float step = (max - min) / (l.high - l.low), low = l.low + l.skip;
    switch (l.mode) {
    case TD_CUDA_MIN_COMBINED:
        return {l.half, min, step, 0};
    case TD_CUDA_MIN_FIRST:
        return {-l.low, max == min ? min : td_cuda_times(roundf(min / step), step), step, 0};
    default:
        return {0, 0, low < 0 ? fmaxf(min / low, max / l.high) : max / l.high, 0};
    }
}

template <class T, class Y>
__global__ void dequantize(td_cuda_ranges s, td_cuda_levels l, const T *x, Y *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t k = slice_of(s, i);
        const line<float> at =
            dequantizer(l, static_cast<const float *>(s.min)[k], static_cast<const float *>(s.max)[k]);
        y[i] = td_cuda_store<Y>::of(td_cuda_times(static_cast<float>(x[i]) + at.min, at.scale) + at.max);
    }
}

struct run_dequantize {
    const td_cuda_ranges *s;
    const td_cuda_levels *l;
    const void *x;
    void *y;
    bool bfloat16;
    td_cuda_stream *stream;
    template <class T, class Y> int to() const
    {
        return td_cuda_over(dequantize<T, Y>, count_of(*s), stream, *s, *l, static_cast<const T *>(x),
                            static_cast<Y *>(y), count_of(*s));
    }
    template <class T> int operator()(T) const { return bfloat16 ? to<T, __nv_bfloat16>() : to<T, float>(); }
};

/* The integers that levels are. */
template <class F> int with_level(int type, F f)
{
    switch (type) {
    case TD_CUDA_INT8:
        return f(int8_t());
    case TD_CUDA_UINT8:
        return f(uint8_t());
    case TD_CUDA_INT16:
        return f(int16_t());
    case TD_CUDA_UINT16:
        return f(uint16_t());
    default:
        return f(int32_t());
    }
}

} // namespace

size_t td_cuda_ranges_work(const struct td_cuda_ranges *s)
{
    return static_cast<size_t>(s->depth) *
           (sizeof(line<double>) + 2 * sizeof(double) * static_cast<size_t>(parts_of(*s)));
}

int td_cuda_round_to_levels(enum td_cuda_type type, const struct td_cuda_ranges *s,
                            const struct td_cuda_rounding *r, const void *x, void *y,
                            struct td_cuda_stream *stream)
{
    return td_cuda_with_wide(type, run_rounding{s, r, x, y, stream});
}

int td_cuda_pass_in_range(enum td_cuda_type type, const struct td_cuda_ranges *s, const void *dy,
                          const void *x, void *dx, struct td_cuda_stream *stream)
{
    return td_cuda_with_wide(type, run_pass{s, dy, x, dx, stream});
}

int td_cuda_quantize(enum td_cuda_type type, const struct td_cuda_ranges *s, const struct td_cuda_levels *l,
                     const void *x, void *y, void *out_min, void *out_max, struct td_cuda_stream *stream)
{
    const int error = td_cuda_over(fit, s->depth, stream, *s, *l, static_cast<line<float> *>(s->work),
                                   static_cast<float *>(out_min), static_cast<float *>(out_max));
    return error != 0 ? error : with_level(type, run_quantize{s, l, x, y, stream});
}

int td_cuda_dequantize(enum td_cuda_type type, const struct td_cuda_ranges *s, const struct td_cuda_levels *l,
                       const void *x, void *y, bool bfloat16, struct td_cuda_stream *stream)
{
    return with_level(type, run_dequantize{s, l, x, y, bfloat16, stream});
}
