/* kernels/cuda/math/fft.cu - discrete Fourier transforms of lines of any length.
 *
 * Passes as Stockham has them: no order of bits to put right, every pass reads one half of a room and
 * writes the other. A pass of radix r over sub-transforms of `done` points, j being one of points / r:
 *
 *     y[j / done * done * r + q * done + j % done] = sum over p of x[j + p * points / r] * root(p * e)
 *                                              e = (j % done + q * done) * points / (done * r)
 *
 * Radix 4 and 2 are butterflies, a thread each; of any other factor a thread has one sum. Lengths with a
 * large prime are convolutions with a chirp (Bluestein; kernels/math/fft_plan.h has the formula), in
 * double. The inverse is the conjugate of the conjugates' transform.
 *
 *   in_block    a block has some lines, two rooms of them in shared memory
 *   longer      lines go to a buffer in the workspace, each pass is a launch, and they come back
 *
 * Roots are exact at quarters of a turn and else of one cosine and sine in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/fft.h"

#include "kernels/cuda/math/complex.cuh"

namespace
{

template <class R> using point = td_cuda_complex<R>;

/* Without C's rules for infinities, which would cost a test each time. */
template <class R> __device__ point<R> times(point<R> a, point<R> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* ------------------------------------------------------------------ tables */

/* exp(-2 pi i k / n), k < n */
__device__ point<double> root_of(uint64_t k, uint64_t n)
{
    if (k * 4 % n == 0) {
        const int quarter = static_cast<int>(k * 4 / n);
        return {quarter == 0   ? 1.0
                : quarter == 2 ? -1.0
                               : 0.0,
                quarter == 1   ? -1.0
                : quarter == 3 ? 1.0
                               : 0.0};
    }
    const double angle = 2 * 3.14159265358979323846 * (static_cast<double>(k) / static_cast<double>(n));
    return {cos(angle), -sin(angle)};
}

template <class R> __global__ void fill_roots(td_cuda_fft s)
{
    for (int64_t k = td_cuda_first(); k < s.plan.points; k += td_cuda_stride()) {
        const point<double> w = root_of(k, s.plan.points);
        static_cast<point<R> *>(s.tables.roots)[k] = {static_cast<R>(w.re), static_cast<R>(w.im)};
    }
}

/* chirp[j] = exp(-i pi j^2 / n); filter: its conjugates, the other way round too, over the inner points. */
template <class R> __global__ void fill_chirp(td_cuda_fft s)
{
    auto *const chirp = static_cast<point<R> *>(s.tables.chirp);
    auto *const filter = static_cast<point<R> *>(s.tables.filter);
    const int64_t n = s.plan.n, points = s.plan.points;
    for (int64_t i = td_cuda_first(); i < points; i += td_cuda_stride()) {
        const int64_t j = i < n ? i : points - i;
        point<double> w = {0, 0};
        if (j < n) {
            w = root_of(static_cast<uint64_t>(j) * j % (2 * n), 2 * n);
        }
        if (i < n) {
            chirp[i] = {static_cast<R>(w.re), static_cast<R>(w.im)};
        }
        filter[i] = {static_cast<R>(w.re / points), static_cast<R>(-w.im / points)};
    }
}

/* ------------------------------------------------------------------ a pass */

struct step {
    uint32_t points, done, radix;
};

template <class R>
__device__ void butterfly_2(const point<R> *x, point<R> *y, const step &s, uint32_t j, const point<R> *roots)
{
    const uint32_t apart = s.points / 2, within = j % s.done;
    const point<R> a = x[j], b = times(x[j + apart], roots[within * (apart / s.done)]);
    point<R> *const to = y + (j - within) * 2 + within;
    to[0] = a + b;
    to[s.done] = a - b;
}

template <class R>
__device__ void butterfly_4(const point<R> *x, point<R> *y, const step &s, uint32_t j, const point<R> *roots)
{
    const uint32_t apart = s.points / 4, within = j % s.done, e = within * (apart / s.done);
    const point<R> a = x[j], b = times(x[j + apart], roots[e]), c = times(x[j + 2 * apart], roots[2 * e]),
                   d = times(x[j + 3 * apart], roots[3 * e]);
    const point<R> even = a + c, odd = a - c, sum = b + d, rest = b - d;
    point<R> *const to = y + (j - within) * 4 + within;
    to[0] = even + sum;
    to[s.done] = {odd.re + rest.im, odd.im - rest.re};
    to[2 * s.done] = even - sum;
    to[3 * s.done] = {odd.re - rest.im, odd.im + rest.re};
}

/* y[o], of any radix. */
template <class R>
__device__ void sum_of(const point<R> *x, point<R> *y, const step &s, uint32_t o, const point<R> *roots)
{
    const uint32_t apart = s.points / s.radix, block = o / (s.done * s.radix),
                   in = o - block * s.done * s.radix;
    const uint32_t e = in * (apart / s.done), j = block * s.done + in % s.done;
    point<R> sum = x[j];
    for (uint32_t p = 1, at = e; p < s.radix; p++) {
        sum = sum + times(x[j + p * apart], roots[at]);
        at = at + e < s.points ? at + e : at + e - s.points;
    }
    y[o] = sum;
}

/* How many tasks a line's pass is, and task i. */
__host__ __device__ uint32_t tasks_of(const step &s)
{
    return s.radix == 4 || s.radix == 2 ? s.points / s.radix : s.points;
}
template <class R>
__device__ void task(const point<R> *x, point<R> *y, const step &s, uint32_t i, const point<R> *roots)
{
    if (s.radix == 4) {
        butterfly_4(x, y, s, i, roots);
    } else if (s.radix == 2) {
        butterfly_2(x, y, s, i, roots);
    } else {
        sum_of(x, y, s, i, roots);
    }
}

/* ------------------------------------------------------------------ in and out */

/* Where line i begins on a side. */
__host__ __device__ int64_t start_of(const td_cuda_fft &s, const td_cuda_fft_side &side, int64_t i)
{
    const int64_t rows = i / s.lines[2], c = i - rows * s.lines[2], a = rows / s.lines[1];
    return a * side.jump[0] + (rows - a * s.lines[1]) * side.jump[1] + c * side.jump[2];
}

/* Point k of the line that begins at `from`, as the passes take it. */
template <class R, class D> __device__ point<R> loaded(const td_cuda_fft &s, int64_t from, uint32_t k)
{
    const uint32_t n = s.plan.n;
    point<R> v = {0, 0};
    if (k >= n) {
        return v;
    }
    if (s.in.kind == TD_CUDA_FFT_REAL) {
        v.re = static_cast<const D *>(s.in.at)[from + k * s.in.step];
    } else {
        const bool other = s.in.kind == TD_CUDA_FFT_HALF && k > n / 2;
        const point<D> x = static_cast<const point<D> *>(s.in.at)[from + (other ? n - k : k) * s.in.step];
        v = {static_cast<R>(x.re), static_cast<R>(other ? -x.im : x.im)};
        /* the first and the middle point of a real line's count as real */
        v.im = s.in.kind == TD_CUDA_FFT_HALF && (k == 0 || k * 2 == n) ? R(0) : v.im;
    }
    v.im = s.inverse ? -v.im : v.im;
    return s.plan.chirp ? times(v, static_cast<const point<R> *>(s.tables.chirp)[k]) : v;
}

template <class R, class D> __device__ void stored(const td_cuda_fft &s, int64_t from, uint32_t k, point<R> v)
{
    if (s.plan.chirp) {
        v = times(conjugate(v), static_cast<const point<R> *>(s.tables.chirp)[k]);
    }
    const R scale = static_cast<R>(s.scale);
    if (s.out.kind == TD_CUDA_FFT_REAL) {
        static_cast<D *>(s.out.at)[from + k * s.out.step] = static_cast<D>(v.re * scale);
    } else {
        static_cast<point<D> *>(s.out.at)[from + k * s.out.step] = {
            static_cast<D>(v.re * scale), static_cast<D>((s.inverse ? -v.im : v.im) * scale)};
    }
}

__host__ __device__ uint32_t stored_points(const td_cuda_fft &s)
{
    return s.out.kind == TD_CUDA_FFT_HALF ? s.plan.n / 2 + 1 : s.plan.n;
}

/* ------------------------------------------------------------------ in shared memory */

constexpr int MOST_LINES = 64, FILLED = 4 * THREADS; /* points that keep a block busy */

template <class R> int lines_at_once(const td_cuda_fft &s)
{
    const int64_t all = s.lines[0] * s.lines[1] * s.lines[2];
    int64_t n = TD_CUDA_FFT_SHARED / (2 * sizeof(point<R>)) / s.plan.points;
    const int64_t wanted = FILLED / s.plan.points;
    n = n > MOST_LINES ? MOST_LINES : n;
    n = n > wanted ? wanted : n;
    return static_cast<int>(n > all ? all : n < 1 ? 1 : n);
}

template <class R> bool fits_shared(const td_cuda_fft &s)
{
    return 2 * sizeof(point<R>) * s.plan.points <= TD_CUDA_FFT_SHARED;
}

/* All passes over n_lines lines of x; what comes out is *x. */
template <class R>
__device__ void passes(const td_cuda_fft &s, point<R> **x, point<R> **y, uint32_t n_lines,
                       const point<R> *roots)
{
    step now = {s.plan.points, 1, 0};
    for (int f = 0; f < s.plan.n_factors; f++) {
        now.radix = s.plan.factor[f];
        const uint32_t each = tasks_of(now);
        for (uint32_t i = threadIdx.x; i < each * n_lines; i += THREADS) {
            const uint32_t line = i / each, at = line * now.points;
            task(*x + at, *y + at, now, i - line * each, roots);
        }
        __syncthreads();
        now.done *= now.radix;
        point<R> *const t = *x;
        *x = *y;
        *y = t;
    }
}

/* x times the filter, conjugated: what is transformed the second time. */
template <class R> __device__ void filter(const td_cuda_fft &s, point<R> *x, uint32_t n_lines)
{
    for (uint32_t i = threadIdx.x; i < s.plan.points * n_lines; i += THREADS) {
        x[i] = conjugate(times(x[i], static_cast<const point<R> *>(s.tables.filter)[i % s.plan.points]));
    }
    __syncthreads();
}

/* f(line, point) over n_lines lines of so many points; neighbouring threads have what lies together. */
template <class F> __device__ void each_point(uint32_t n_lines, uint32_t points, bool rows, F f)
{
    for (uint32_t i = threadIdx.x; i < n_lines * points; i += THREADS) {
        const uint32_t high = i / (rows ? points : n_lines), low = i - high * (rows ? points : n_lines);
        f(rows ? high : low, rows ? low : high);
    }
}

template <class R, class D> __global__ void in_block(td_cuda_fft s, int at_once)
{
    TD_DYNAMIC_SHARED(point<R>, room);
    __shared__ int64_t from[MOST_LINES], to[MOST_LINES];
    const int64_t all = s.lines[0] * s.lines[1] * s.lines[2];
    const auto *const roots = static_cast<const point<R> *>(s.tables.roots);
    const uint32_t points = s.plan.points;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * at_once; first < all;
         first += static_cast<int64_t>(gridDim.x) * at_once) {
        const uint32_t n_lines = static_cast<uint32_t>(all - first < at_once ? all - first : at_once);
        point<R> *x = room, *y = room + points * at_once;
        if (threadIdx.x < n_lines) {
            from[threadIdx.x] = start_of(s, s.in, first + threadIdx.x);
            to[threadIdx.x] = start_of(s, s.out, first + threadIdx.x);
        }
        __syncthreads();
        each_point(n_lines, points, s.in.step == 1,
                   [&](uint32_t line, uint32_t k) { x[line * points + k] = loaded<R, D>(s, from[line], k); });
        __syncthreads();
        passes(s, &x, &y, n_lines, roots);
        if (s.plan.chirp) {
            filter(s, x, n_lines);
            passes(s, &x, &y, n_lines, roots);
        }
        each_point(n_lines, stored_points(s), s.out.step == 1,
                   [&](uint32_t line, uint32_t k) { stored<R, D>(s, to[line], k, x[line * points + k]); });
        __syncthreads();
    }
}

/* ------------------------------------------------------------------ between buffers */

/* Lines first.. come to buffer 0, and go back from x. */
template <class R, class D> __global__ void bring(td_cuda_fft s, int64_t first, int64_t n_lines)
{
    for (int64_t i = td_cuda_first(); i < n_lines * s.plan.points; i += td_cuda_stride()) {
        const int64_t line = i / s.plan.points;
        static_cast<point<R> *>(s.buffer[0])[i] =
            loaded<R, D>(s, start_of(s, s.in, first + line), static_cast<uint32_t>(i - line * s.plan.points));
    }
}
template <class R, class D>
__global__ void take_back(td_cuda_fft s, const void *x, int64_t first, int64_t n_lines)
{
    const uint32_t each = stored_points(s);
    for (int64_t i = td_cuda_first(); i < n_lines * each; i += td_cuda_stride()) {
        const int64_t line = i / each;
        const uint32_t k = static_cast<uint32_t>(i - line * each);
        stored<R, D>(s, start_of(s, s.out, first + line), k,
                     static_cast<const point<R> *>(x)[line * s.plan.points + k]);
    }
}

template <class R> __global__ void one_pass(td_cuda_fft s, step now, const void *x, void *y, int64_t n_lines)
{
    const uint32_t each = tasks_of(now);
    for (int64_t i = td_cuda_first(); i < n_lines * each; i += td_cuda_stride()) {
        const int64_t line = i / each, at = line * now.points;
        task(static_cast<const point<R> *>(x) + at, static_cast<point<R> *>(y) + at, now,
             static_cast<uint32_t>(i - line * each), static_cast<const point<R> *>(s.tables.roots));
    }
}

template <class R> __global__ void filter_lines(td_cuda_fft s, void *x, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        point<R> &v = static_cast<point<R> *>(x)[i];
        v = conjugate(times(v, static_cast<const point<R> *>(s.tables.filter)[i % s.plan.points]));
    }
}

/* The passes of buffer *at's lines; they come out in buffer *at. */
template <class R> int all_passes(const td_cuda_fft &s, int64_t n_lines, int *at, td_cuda_stream *stream)
{
    int error = 0;
    step now = {s.plan.points, 1, 0};
    for (int f = 0; f < s.plan.n_factors && error == 0; f++, *at = 1 - *at) {
        now.radix = s.plan.factor[f];
        error = td_cuda_over(one_pass<R>, n_lines * tasks_of(now), stream, s, now, s.buffer[*at],
                             s.buffer[1 - *at], n_lines);
        now.done *= now.radix;
    }
    return error;
}

template <class R, class D>
int some_longer(const td_cuda_fft &s, int64_t first, int64_t n_lines, td_cuda_stream *stream)
{
    int at = 0;
    int error = td_cuda_over(bring<R, D>, n_lines * s.plan.points, stream, s, first, n_lines);
    error = error != 0 ? error : all_passes<R>(s, n_lines, &at, stream);
    if (s.plan.chirp) {
        const int64_t n = n_lines * s.plan.points;
        error = error != 0 ? error : td_cuda_over(filter_lines<R>, n, stream, s, s.buffer[at], n);
        error = error != 0 ? error : all_passes<R>(s, n_lines, &at, stream);
    }
    return error != 0 ? error
                      : td_cuda_over(take_back<R, D>, n_lines * stored_points(s), stream, s, s.buffer[at],
                                     first, n_lines);
}

template <class R, class D> int lines_of(const td_cuda_fft &s, td_cuda_stream *stream)
{
    const int64_t all = s.lines[0] * s.lines[1] * s.lines[2];
    if (fits_shared<R>(s)) {
        const int at_once = lines_at_once<R>(s);
        return td_cuda_blocks_of<THREADS>(in_block<R, D>, (all + at_once - 1) / at_once,
                                          2 * sizeof(point<R>) * s.plan.points * at_once, stream, s, at_once);
    }
    int error = 0;
    for (int64_t first = 0; first < all && error == 0; first += s.chunk) {
        error = some_longer<R, D>(s, first, all - first < s.chunk ? all - first : s.chunk, stream);
    }
    return error;
}

template <class R> int fill(const td_cuda_fft &s, td_cuda_stream *stream)
{
    const int error = td_cuda_over(fill_roots<R>, s.plan.points, stream, s);
    return error != 0 || !s.plan.chirp ? error : td_cuda_over(fill_chirp<R>, s.plan.points, stream, s);
}

} // namespace

int td_cuda_fft_lines(enum td_cuda_type type, const struct td_cuda_fft *s, struct td_cuda_stream *stream)
{
    return type == TD_CUDA_DOUBLE ? lines_of<double, double>(*s, stream)
           : s->wide              ? lines_of<double, float>(*s, stream)
                                  : lines_of<float, float>(*s, stream);
}

int td_cuda_fft_fill(const struct td_cuda_fft *s, struct td_cuda_stream *stream)
{
    return s->wide ? fill<double>(*s, stream) : fill<float>(*s, stream);
}
