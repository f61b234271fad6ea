/* kernels/cuda/nn/resize.cu - images of another size, a thread an element of the result, channels last:
 * neighbours read and write neighbours.
 *
 *   tables     a thread an output row or column: which cells it reads, and their weights
 *   forwards   each element sums down, then across, as the host does
 *   backwards  each element of x looks for the outputs that read it, which are neighbours
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/resize.h"

#include <cfloat>

#include "kernels/cuda/base/bytes.cuh"
#include "kernels/cuda/base/exact.cuh"

namespace
{

constexpr int CUBIC_STEPS = 1024;
constexpr float PI = 3.14159265359F;

template <class T> using wide = typename td_cuda_wide<T>::type;

/* Output o reads at[o * most + k] with weight[o * most + k] for k < count[o]; all of at are set, and grow
 * with o and with k. */
struct table {
    int64_t most;
    int32_t *at, *count;
    float *weight;
};
struct tables {
    table axis[2];
};

__device__ int64_t clamp(int64_t v, int64_t n)
{
    return v < 0 ? 0 : v >= n ? n - 1 : v;
}

/* ------------------------------------------------------------------ tables */

__device__ float source(const td_cuda_resize_axis &a, int64_t o)
{
    const float at = static_cast<float>(o);
    return a.half ? td_cuda_times(at + 0.5F, a.scale) - 0.5F : td_cuda_times(at, a.scale);
}

__device__ int64_t nearest(const td_cuda_resize_axis &a, int64_t o)
{
    const float at = static_cast<float>(o);
    const float f = a.half    ? floorf((at + 0.5F) * a.scale)
                    : a.align ? roundf(at * a.scale)
                              : floorf(at * a.scale);
    return clamp(static_cast<int64_t>(f), a.in);
}

__device__ void linear(const td_cuda_resize_axis &a, const table &t, int64_t o)
{
    const float f = source(a, o), low = floorf(f);
    t.count[o] = 2;
    t.at[2 * o] = static_cast<int32_t>(clamp(static_cast<int64_t>(low), a.in));
    t.at[2 * o + 1] = static_cast<int32_t>(clamp(static_cast<int64_t>(ceilf(f)), a.in));
    t.weight[2 * o] = 1 - (f - low);
    t.weight[2 * o + 1] = f - low;
}

/* Weight of a cell `step` of CUBIC_STEPS away, or one more. */
__device__ float cubic_weight(float k, int64_t step, bool outer)
{
    const float x = static_cast<float>(step) / CUBIC_STEPS + (outer ? 1.0F : 0.0F);
    return outer ? ((k * x - 5 * k) * x + 8 * k) * x - 4 * k : ((k + 2) * x - (k + 3)) * x * x + 1;
}

__device__ void cubic(const td_cuda_resize_axis &a, const table &t, int64_t o)
{
    const float f = source(a, o), low = floorf(f), k = a.half ? -0.5F : -0.75F;
    const int64_t step = lrintf((f - low) * CUBIC_STEPS);
    const float weight[4] = {cubic_weight(k, step, true), cubic_weight(k, step, false),
                             cubic_weight(k, CUBIC_STEPS - step, false),
                             cubic_weight(k, CUBIC_STEPS - step, true)};
    float sum = 0, *const to = t.weight + 4 * o;
    t.count[o] = 4;
    for (int i = 0; i < 4; i++) {
        const int64_t wanted = static_cast<int64_t>(low) - 1 + i, at = clamp(wanted, a.in);
        t.at[4 * o + i] = static_cast<int32_t>(at);
        to[i] = a.half && wanted != at ? 0 : weight[i];
        sum += to[i];
    }
    for (int i = 0; i < 4 && a.half && fabsf(sum) >= 1000 * FLT_MIN; i++) {
        to[i] /= sum;
    }
}

/* How much of source cell i the interval [from, to) covers. */
__device__ float coverage(int64_t i, float from, float to, float scale)
{
    const float low = static_cast<float>(i), high = low + 1;
    if (low < from) {
        return high > to ? scale : high - from;
    }
    return high > to ? to - low : 1.0F;
}

__device__ void area(const td_cuda_resize_axis &a, const table &t, int64_t o)
{
    const float from = td_cuda_times(static_cast<float>(o), a.scale);
    const float to = td_cuda_times(static_cast<float>(o + 1), a.scale);
    const int64_t low = static_cast<int64_t>(floorf(from)), n = static_cast<int64_t>(ceilf(to)) - low;
    for (int64_t k = 0; k < t.most; k++) {
        t.at[o * t.most + k] = static_cast<int32_t>(clamp(low + k, a.in));
        t.weight[o * t.most + k] = coverage(low + k, from, to, a.scale);
    }
    t.count[o] = static_cast<int32_t>(n < t.most ? n : t.most);
}

__device__ float lanczos(float x, float radius)
{
    if (x > radius) {
        return 0;
    }
    return x <= 1e-3F ? 1 : radius * sinf(PI * x) * sinf(PI * x / radius) / (PI * PI * x * x);
}
__device__ float keys(float x)
{
    if (x >= 2) {
        return 0;
    }
    return x >= 1 ? ((-0.5F * x + 2.5F) * x - 4) * x + 2 : (1.5F * x - 2.5F) * x * x + 1;
}
__device__ float mitchell(float x)
{
    if (x >= 2) {
        return 0;
    }
    return x >= 1 ? ((-7.0F / 18 * x + 2) * x - 10.0F / 3) * x + 16.0F / 9
                  : (7.0F / 6 * x - 2) * x * x + 8.0F / 9;
}

/* x cells away, x >= 0. */
__device__ float weight_of(enum td_cuda_kernel kernel, float radius, float x)
{
    switch (kernel) {
    case TD_CUDA_LANCZOS:
        return lanczos(x, radius);
    case TD_CUDA_GAUSSIAN:
        return x >= 1.5F ? 0 : expf(-x * x / (2 * 0.5F * 0.5F));
    case TD_CUDA_BOX:
        return x < 0.5F ? 1 : x == 0.5F ? 0.5F : 0;
    case TD_CUDA_TRIANGLE:
        return x < 1 ? 1 - x : 0;
    case TD_CUDA_KEYS:
        return keys(x);
    default:
        return mitchell(x);
    }
}

/* Outside of the image nothing is sampled. A span goes on to its full width with weights of zero. */
__device__ void sampled(enum td_cuda_kernel kernel, const td_cuda_resize_axis &a, const table &t, int64_t o)
{
    const float sample = td_cuda_times(static_cast<float>(o) + 0.5F, a.scale) + a.shift;
    const float span = td_cuda_times(a.radius, a.reach), last = static_cast<float>(a.in);
    const float place = sample < 0 ? 0 : sample > last ? last : sample; /* NaN stays, and is nowhere */
    const int64_t from = clamp(static_cast<int64_t>(ceilf(place - span - 0.5F)), a.in);
    const int64_t to = clamp(static_cast<int64_t>(floorf(place + span - 0.5F)), a.in) + 1;
    const int64_t n = to - from < t.most ? to - from : t.most,
                  all = a.in - from < t.most ? a.in - from : t.most;
    float total = 0, *const w = t.weight + o * t.most;
    for (int64_t i = 0; i < t.most; i++) {
        const float apart = fabsf((static_cast<float>(from + i) + 0.5F - sample) / a.reach);
        t.at[o * t.most + i] = static_cast<int32_t>(clamp(from + i, a.in));
        w[i] = i < n ? weight_of(kernel, a.radius, apart) : 0;
        total += w[i];
    }
    const bool some = fabsf(total) >= 1000 * FLT_MIN && sample >= 0 && sample <= last;
    for (int64_t i = 0; i < n && some; i++) {
        w[i] *= 1 / total;
    }
    t.count[o] = static_cast<int32_t>(some ? all : 0);
}

__device__ void make_one(const td_cuda_resize &s, const td_cuda_resize_axis &a, const table &t, int64_t o)
{
    switch (s.taps) {
    case TD_CUDA_LINEAR:
        return linear(a, t, o);
    case TD_CUDA_CUBIC:
        return cubic(a, t, o);
    case TD_CUDA_AREA:
        return area(a, t, o);
    default:
        return sampled(s.kernel, a, t, o);
    }
}

__global__ void make_tables(td_cuda_resize s, tables t)
{
    const int64_t rows = s.axis[0].out, n = rows + s.axis[1].out;
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        if (i < rows) {
            make_one(s, s.axis[0], t.axis[0], i);
        } else {
            make_one(s, s.axis[1], t.axis[1], i - rows);
        }
    }
}

tables tables_in(const td_cuda_resize &s, void *work)
{
    tables t;
    unsigned char *at = static_cast<unsigned char *>(work);
    for (int a = 0; a < 2; a++) {
        const td_cuda_resize_axis &x = s.axis[a];
        t.axis[a].most = x.most;
        t.axis[a].at = reinterpret_cast<int32_t *>(at);
        t.axis[a].weight = reinterpret_cast<float *>(t.axis[a].at + x.out * x.most);
        t.axis[a].count = reinterpret_cast<int32_t *>(t.axis[a].weight + x.out * x.most);
        at = reinterpret_cast<unsigned char *>(t.axis[a].count + x.out);
    }
    return t;
}

/* ------------------------------------------------------------------ places */

struct place {
    int64_t image, row, column, channel;
};
__device__ place place_of(int64_t i, int64_t rows, int64_t columns, int64_t channels)
{
    const int64_t cell = i / channels, line = cell / columns;
    return {line / rows, line % rows, cell % columns, i % channels};
}
__device__ place output_of(const td_cuda_resize &s, int64_t i)
{
    return place_of(i, s.axis[0].out, s.axis[1].out, s.channels);
}
__device__ place input_of(const td_cuda_resize &s, int64_t i)
{
    return place_of(i, s.axis[0].in, s.axis[1].in, s.channels);
}

/* ------------------------------------------------------------------ forwards */

template <class T> __device__ float read(const T *x)
{
    return static_cast<float>(td_cuda_load(*x));
}

template <class T> __global__ void interpolate(td_cuda_resize s, tables t, const T *x, float *y, int64_t n)
{
    const int64_t cells = s.axis[1].in;
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const place p = output_of(s, i);
        const int32_t *const row = t.axis[0].at + 2 * p.row, *const column = t.axis[1].at + 2 * p.column;
        const float down = t.axis[0].weight[2 * p.row + 1], across = t.axis[1].weight[2 * p.column + 1];
        const T *const image = x + p.image * s.axis[0].in * cells * s.channels + p.channel;
        const T *const top = image + row[0] * cells * s.channels, *const low =
                                                                      image + row[1] * cells * s.channels;
        const float a = read(top + column[0] * s.channels), b = read(top + column[1] * s.channels);
        const float c = read(low + column[0] * s.channels), d = read(low + column[1] * s.channels);
        const float upper = a + (b - a) * across, lower = c + (d - c) * across;
        y[i] = upper + (lower - upper) * down;
    }
}

template <class T, class R> __global__ void weigh(td_cuda_resize s, tables t, const T *x, float *y, int64_t n)
{
    const int64_t line = s.axis[1].in * s.channels;
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const place p = output_of(s, i);
        const int64_t r0 = p.row * t.axis[0].most, c0 = p.column * t.axis[1].most;
        const T *const image = x + p.image * s.axis[0].in * line + p.channel;
        R across = 0;
        for (int32_t b = 0; b < t.axis[1].count[p.column]; b++) {
            const T *const column = image + t.axis[1].at[c0 + b] * s.channels;
            R down = 0;
            for (int32_t a = 0; a < t.axis[0].count[p.row]; a++) {
                down += static_cast<R>(t.axis[0].weight[r0 + a]) *
                        static_cast<R>(read(column + t.axis[0].at[r0 + a] * line));
            }
            across += static_cast<R>(t.axis[1].weight[c0 + b]) * down;
        }
        y[i] = static_cast<float>(across * static_cast<R>(s.scale));
    }
}

template <class T> __global__ void copy_nearest(td_cuda_resize s, const T *x, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const place p = output_of(s, i);
        const int64_t row = p.image * s.axis[0].in + nearest(s.axis[0], p.row);
        y[i] = x[(row * s.axis[1].in + nearest(s.axis[1], p.column)) * s.channels + p.channel];
    }
}

/* ------------------------------------------------------------------ backwards */

/* The first o of n for which at(o) is at least v, where at grows; n: none. */
template <class F> __device__ int64_t first_from(int64_t n, int64_t v, F at)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (at(mid) >= v) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

/* Outputs [from, to) that may read cell v. */
struct readers {
    int64_t from, to;
};
__device__ readers readers_of(const table &t, int64_t out, int64_t v)
{
    return {first_from(out, v, [&](int64_t o) { return t.at[o * t.most + t.most - 1]; }),
            first_from(out, v + 1, [&](int64_t o) { return t.at[o * t.most]; })};
}

/* The weight with which output o reads cell v. */
__device__ double weight_at(const table &t, int64_t o, int64_t v)
{
    double sum = 0;
    for (int32_t k = 0; k < t.count[o]; k++) {
        sum += t.at[o * t.most + k] == v ? static_cast<double>(t.weight[o * t.most + k]) : 0;
    }
    return sum;
}

__device__ bool reads(const table &t, int64_t o, int64_t v)
{
    bool yes = false;
    for (int32_t k = 0; k < t.count[o]; k++) {
        yes = yes || t.at[o * t.most + k] == v;
    }
    return yes;
}

template <class T> __global__ void put_back(td_cuda_resize s, tables t, const float *dy, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const place p = input_of(s, i);
        const readers rows = readers_of(t.axis[0], s.axis[0].out, p.row);
        const readers columns = readers_of(t.axis[1], s.axis[1].out, p.column);
        double sum = 0;
        for (int64_t r = rows.from; r < rows.to; r++) {
            const double down = weight_at(t.axis[0], r, p.row);
            const float *const line =
                dy + (p.image * s.axis[0].out + r) * s.axis[1].out * s.channels + p.channel;
            for (int64_t c = columns.from; c < columns.to && reads(t.axis[0], r, p.row); c++) {
                sum += reads(t.axis[1], c, p.column) ? down * weight_at(t.axis[1], c, p.column) *
                                                           static_cast<double>(line[c * s.channels])
                                                     : 0;
            }
        }
        dx[i] = td_cuda_store<T>::of(static_cast<wide<T>>(sum));
    }
}

__device__ readers nearest_to(const td_cuda_resize_axis &a, int64_t v)
{
    return {first_from(a.out, v, [&](int64_t o) { return nearest(a, o); }),
            first_from(a.out, v + 1, [&](int64_t o) { return nearest(a, o); })};
}

template <class T> __global__ void add_nearest(td_cuda_resize s, const T *dy, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const place p = input_of(s, i);
        const readers rows = nearest_to(s.axis[0], p.row), columns = nearest_to(s.axis[1], p.column);
        double sum = 0;
        for (int64_t r = rows.from; r < rows.to; r++) {
            const T *const line = dy + (p.image * s.axis[0].out + r) * s.axis[1].out * s.channels + p.channel;
            for (int64_t c = columns.from; c < columns.to; c++) {
                sum += static_cast<double>(td_cuda_load(line[c * s.channels]));
            }
        }
        dx[i] = td_cuda_store<T>::of(static_cast<wide<T>>(sum));
    }
}

/* ------------------------------------------------------------------ launchers */

int64_t outputs_of(const td_cuda_resize &s)
{
    return s.images * s.axis[0].out * s.axis[1].out * s.channels;
}
int64_t inputs_of(const td_cuda_resize &s)
{
    return s.images * s.axis[0].in * s.axis[1].in * s.channels;
}

int tabulate(const td_cuda_resize &s, const tables &t, td_cuda_stream *stream)
{
    return td_cuda_over(make_tables, s.axis[0].out + s.axis[1].out, stream, s, t);
}

struct run_forward {
    const td_cuda_resize *s;
    const void *x;
    float *y;
    tables t;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const T *const from = static_cast<const T *>(x);
        const int64_t n = outputs_of(*s);
        return s->taps == TD_CUDA_LINEAR ? td_cuda_over(interpolate<T>, n, stream, *s, t, from, y, n)
               : s->taps == TD_CUDA_AREA ? td_cuda_over(weigh<T, double>, n, stream, *s, t, from, y, n)
                                         : td_cuda_over(weigh<T, float>, n, stream, *s, t, from, y, n);
    }
};

struct run_grad {
    const td_cuda_resize *s;
    const float *dy;
    void *dx;
    tables t;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(put_back<T>, inputs_of(*s), stream, *s, t, dy, static_cast<T *>(dx),
                            inputs_of(*s));
    }
};

struct run_nearest {
    const td_cuda_resize *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        return td_cuda_over(copy_nearest<T>, outputs_of(*s), stream, *s, static_cast<const T *>(x),
                            static_cast<T *>(y), outputs_of(*s));
    }
};

struct run_nearest_grad {
    const td_cuda_resize *s;
    const void *dy;
    void *dx;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(add_nearest<T>, inputs_of(*s), stream, *s, static_cast<const T *>(dy),
                            static_cast<T *>(dx), inputs_of(*s));
    }
};

} // namespace

size_t td_cuda_resize_work(const struct td_cuda_resize *s)
{
    size_t bytes = 0;
    for (const td_cuda_resize_axis &a : s->axis) {
        bytes += static_cast<size_t>(a.out) *
                 (static_cast<size_t>(a.most) * (sizeof(int32_t) + sizeof(float)) + sizeof(int32_t));
    }
    return bytes;
}

int td_cuda_resize_to(enum td_cuda_type type, const struct td_cuda_resize *s, const void *x, void *y,
                      void *work, struct td_cuda_stream *stream)
{
    const tables t = tables_in(*s, work);
    const int error = tabulate(*s, t, stream);
    return error != 0 ? error
                      : td_cuda_with_number(type, run_forward{s, x, static_cast<float *>(y), t, stream});
}

int td_cuda_resize_grad(enum td_cuda_type type, const struct td_cuda_resize *s, const void *dy, void *dx,
                        void *work, struct td_cuda_stream *stream)
{
    const tables t = tables_in(*s, work);
    const int error = tabulate(*s, t, stream);
    return error != 0 ? error
                      : td_cuda_with_float(type, run_grad{s, static_cast<const float *>(dy), dx, t, stream});
}

int td_cuda_nearest(size_t bytes, const struct td_cuda_resize *s, const void *x, void *y,
                    struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(bytes, run_nearest{s, x, y, stream});
}

int td_cuda_nearest_grad(enum td_cuda_type type, const struct td_cuda_resize *s, const void *dy, void *dx,
                         struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_nearest_grad{s, dy, dx, stream});
}
