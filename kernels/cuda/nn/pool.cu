/* kernels/cuda/nn/pool.cu - pools and their gradients: a thread an element of the result, which are
 * neighbours in memory where channels come last. A gradient is gathered from the windows that have the cell,
 * so that no two threads add to one element, and sums have one order: that of the windows.
 *
 * Where a window's maximum is, is found once, as a tap's number, before the cells look for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/pool.h"

#include "kernels/cuda/base/cells.cuh"
#include "kernels/cuda/base/fold.cuh"

namespace
{

/* What the least finite number of the type is, in what it is computed in. */
template <class T> constexpr typename td_cuda_wide<T>::type least = std::numeric_limits<T>::lowest();
template <> constexpr float least<__half> = -65504.0F;
template <> constexpr float least<__nv_bfloat16> = -3.38953138925153547590e38F;

/* How near to the maximum counts as it, in a volume: 1e-5, which bfloat16 rounds to less. */
template <class T> constexpr float near_to = 1e-5F;
template <> constexpr float near_to<__nv_bfloat16> = 0x1.4fp-17F;

template <class T> using wide = typename td_cuda_wide<T>::type;

/* ------------------------------------------------------------------ windows */

struct span {
    int64_t from, to;
    __device__ int64_t length() const { return to > from ? to - from : 0; }
};

/* Taps of window o that are inside of the input. */
__device__ span taps_of(const td_cuda_axis &a, int64_t o)
{
    const int64_t first = o * a.stride - a.before;
    return {first < 0 ? -first : 0, a.in - first < a.k ? a.in - first : a.k};
}

/* Windows that have input cell i. */
__device__ span windows_of(const td_cuda_axis &a, int64_t i)
{
    const int64_t last = i + a.before, first = last - a.k + 1;
    const int64_t to = last < 0 ? 0 : last / a.stride + 1;
    return {first <= 0 ? 0 : (first + a.stride - 1) / a.stride, to < a.out ? to : a.out};
}

__device__ int64_t cells_of(const td_cuda_pool &s, const td_cuda_cell &out)
{
    return taps_of(s.axis[0], out.at[0]).length() * taps_of(s.axis[1], out.at[1]).length() *
           taps_of(s.axis[2], out.at[2]).length();
}

/* f(tap's number, its cell) for the taps inside of the input, in order. */
template <class F> __device__ void each_tap(const td_cuda_pool &s, const td_cuda_cell &out, F f)
{
    const span k0 = taps_of(s.axis[0], out.at[0]), k1 = taps_of(s.axis[1], out.at[1]);
    const span k2 = taps_of(s.axis[2], out.at[2]);
    td_cuda_cell in = out;
    for (int64_t a = k0.from; a < k0.to; a++) {
        in.at[0] = out.at[0] * s.axis[0].stride - s.axis[0].before + a;
        for (int64_t b = k1.from; b < k1.to; b++) {
            in.at[1] = out.at[1] * s.axis[1].stride - s.axis[1].before + b;
            for (int64_t c = k2.from; c < k2.to; c++) {
                in.at[2] = out.at[2] * s.axis[2].stride - s.axis[2].before + c;
                f(static_cast<int32_t>((a * s.axis[1].k + b) * s.axis[2].k + c), in);
            }
        }
    }
}

/* f(tap's number, window) for the windows that have the cell, in order. */
template <class F> __device__ void each_window(const td_cuda_pool &s, const td_cuda_cell &in, F f)
{
    const span o0 = windows_of(s.axis[0], in.at[0]), o1 = windows_of(s.axis[1], in.at[1]);
    const span o2 = windows_of(s.axis[2], in.at[2]);
    td_cuda_cell out = in;
    for (out.at[0] = o0.from; out.at[0] < o0.to; out.at[0]++) {
        const int64_t a = in.at[0] + s.axis[0].before - out.at[0] * s.axis[0].stride;
        for (out.at[1] = o1.from; out.at[1] < o1.to; out.at[1]++) {
            const int64_t b = in.at[1] + s.axis[1].before - out.at[1] * s.axis[1].stride;
            for (out.at[2] = o2.from; out.at[2] < o2.to; out.at[2]++) {
                const int64_t c = in.at[2] + s.axis[2].before - out.at[2] * s.axis[2].stride;
                f(static_cast<int32_t>((a * s.axis[1].k + b) * s.axis[2].k + c), out);
            }
        }
    }
}

/* Element i of y, or of x. */
struct element {
    int64_t channel;
    td_cuda_cell cell;
};
__device__ element output_of(const td_cuda_pool &s, int64_t i)
{
    return {i % s.channels, td_cuda_out_cell(s.axis, i / s.channels)};
}
__device__ element input_of(const td_cuda_pool &s, int64_t i)
{
    return {i % s.channels, td_cuda_in_cell(s.axis, i / s.channels)};
}
__device__ int64_t at(const td_cuda_cells &c, const td_cuda_cell &cell, int64_t channel)
{
    return td_cuda_cell_at(c, cell) + channel * c.channel;
}

__device__ int64_t taps_in_all(const td_cuda_pool &s)
{
    return s.axis[0].k * s.axis[1].k * s.axis[2].k;
}

/* ------------------------------------------------------------------ forwards */

template <class T> __global__ void maximum(td_cuda_pool s, const T *x, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const element e = output_of(s, i);
        const bool unbounded = s.volume && cells_of(s, e.cell) == taps_in_all(s);
        wide<T> best = unbounded ? td_cuda_least<wide<T>> : least<T>;
        each_tap(s, e.cell, [&](int32_t, const td_cuda_cell &in) {
            const wide<T> v = td_cuda_load(x[at(s.x, in, e.channel)]);
            best = v > best ? v : best;
        });
        y[at(s.y, e.cell, e.channel)] = td_cuda_store<T>::of(best);
    }
}

template <class T> __global__ void average(td_cuda_pool s, const T *x, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const element e = output_of(s, i);
        wide<T> sum = 0;
        each_tap(s, e.cell, [&](int32_t, const td_cuda_cell &in) {
            sum += td_cuda_load(x[at(s.x, in, e.channel)]);
            sum = s.volume ? sum : td_cuda_load(td_cuda_store<T>::of(sum));
        });
        y[at(s.y, e.cell, e.channel)] = td_cuda_store<T>::of(sum / static_cast<wide<T>>(cells_of(s, e.cell)));
    }
}

/* The first place of the greatest in the window of e: *where, *tap -1 where there is none. */
template <class T>
__device__ wide<T> seek(const td_cuda_pool &s, const T *x, const element &e, int32_t *tap,
                        td_cuda_cell *where)
{
    wide<T> best = 0;
    *tap = -1;
    each_tap(s, e.cell, [&](int32_t t, const td_cuda_cell &in) {
        const wide<T> v = td_cuda_load(x[at(s.x, in, e.channel)]);
        if (*tap < 0 || v > best) {
            best = v;
            *tap = t;
            *where = in;
        }
    });
    return best;
}

template <class T, class I>
__global__ void argmax(td_cuda_pool s, const T *x, T *y, I *index, int64_t image, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const element e = output_of(s, i);
        int32_t tap;
        td_cuda_cell in = {0, {0, 0, 0}};
        const wide<T> best = seek(s, x, e, &tap, &in);
        const int64_t cell = ((in.batch * s.axis[0].in + in.at[0]) * s.axis[1].in + in.at[1]) * s.axis[2].in;
        const int64_t place = tap < 0 ? -1 : (cell + in.at[2]) * s.channels + e.channel;
        y[at(s.y, e.cell, e.channel)] = td_cuda_store<T>::of(best);
        index[i] = static_cast<I>(place - e.cell.batch * image);
    }
}

/* ------------------------------------------------------------------ backwards */

template <class T> __global__ void seek_taps(td_cuda_pool s, const T *x, int32_t *taps, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const element e = output_of(s, i);
        int32_t tap;
        td_cuda_cell where;
        (void)seek(s, x, e, &tap, &where);
        taps[at(s.y, e.cell, e.channel)] = tap;
    }
}

template <class T>
__global__ void maximum_grad(td_cuda_pool s, const int32_t *taps, const T *dy, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const element e = input_of(s, i);
        wide<T> sum = 0;
        each_window(s, e.cell, [&](int32_t tap, const td_cuda_cell &out) {
            const int64_t from = at(s.y, out, e.channel);
            sum += taps[from] == tap ? td_cuda_load(dy[from]) : wide<T>(0);
        });
        dx[at(s.x, e.cell, e.channel)] = td_cuda_store<T>::of(sum);
    }
}

template <class T>
__global__ void near_maximum_grad(td_cuda_pool s, const T *x, const T *y, const T *dy, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const element e = input_of(s, i);
        const int64_t to = at(s.x, e.cell, e.channel);
        const float v = static_cast<float>(td_cuda_load(x[to]));
        wide<T> sum = 0;
        each_window(s, e.cell, [&](int32_t, const td_cuda_cell &out) {
            const int64_t from = at(s.y, out, e.channel);
            const float apart = v - static_cast<float>(td_cuda_load(y[from]));
            sum += (apart < 0 ? -apart : apart) < near_to<T> ? td_cuda_load(dy[from]) : wide<T>(0);
        });
        dx[to] = td_cuda_store<T>::of(sum);
    }
}

/* The host divides doubles, and multiplies floats. */
template <class W> __device__ W share_of(W v, int64_t cells)
{
    return sizeof(W) == sizeof(double) ? v / static_cast<W>(cells) : v * (W(1) / static_cast<W>(cells));
}

template <class T> __global__ void average_grad(td_cuda_pool s, const T *dy, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const element e = input_of(s, i);
        wide<T> sum = 0;
        each_window(s, e.cell, [&](int32_t, const td_cuda_cell &out) {
            sum += share_of(td_cuda_load(dy[at(s.y, out, e.channel)]), cells_of(s, out));
        });
        dx[at(s.x, e.cell, e.channel)] = td_cuda_store<T>::of(sum);
    }
}

template <class T> __global__ void pick(td_cuda_pool s, const T *x, const T *y, const T *dx, T *to, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const element e = output_of(s, i);
        const int64_t here = at(s.y, e.cell, e.channel);
        const wide<T> value = td_cuda_load(y[here]);
        int64_t from = -1;
        each_tap(s, e.cell, [&](int32_t, const td_cuda_cell &in) {
            const int64_t place = at(s.x, in, e.channel);
            from = from < 0 && td_cuda_load(x[place]) == value ? place : from;
        });
        to[here] = from < 0 ? td_cuda_store<T>::of(wide<T>(0)) : dx[from];
    }
}

/* ------------------------------------------------------------------ launchers */

int64_t outputs_of(const td_cuda_pool &s)
{
    return s.batch * td_cuda_out_cells(s.axis) * s.channels;
}
int64_t inputs_of(const td_cuda_pool &s)
{
    return s.batch * td_cuda_in_cells(s.axis) * s.channels;
}

struct run_max {
    const td_cuda_pool *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(maximum<T>, outputs_of(*s), stream, *s, static_cast<const T *>(x),
                            static_cast<T *>(y), outputs_of(*s));
    }
};

struct run_average {
    const td_cuda_pool *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(average<T>, outputs_of(*s), stream, *s, static_cast<const T *>(x),
                            static_cast<T *>(y), outputs_of(*s));
    }
};

struct run_argmax {
    const td_cuda_pool *s;
    const void *x;
    void *y;
    td_cuda_type index;
    void *at;
    int64_t image;
    td_cuda_stream *stream;
    template <class T, class I> int launch() const
    {
        return td_cuda_over(argmax<T, I>, outputs_of(*s), stream, *s, static_cast<const T *>(x),
                            static_cast<T *>(y), static_cast<I *>(at), image, outputs_of(*s));
    }
    template <class T> int operator()(T) const
    {
        return index == TD_CUDA_INT32 ? launch<T, int32_t>() : launch<T, int64_t>();
    }
};

struct run_max_grad {
    const td_cuda_pool *s;
    const td_cuda_pool_grad *g;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const T *const x = static_cast<const T *>(g->x), *const dy = static_cast<const T *>(g->dy);
        T *const dx = static_cast<T *>(g->dx);
        if (s->volume) {
            return td_cuda_over(near_maximum_grad<T>, inputs_of(*s), stream, *s, x,
                                static_cast<const T *>(g->y), dy, dx, inputs_of(*s));
        }
        int32_t *const taps = static_cast<int32_t *>(g->work);
        const int error = td_cuda_over(seek_taps<T>, outputs_of(*s), stream, *s, x, taps, outputs_of(*s));
        return error != 0
                   ? error
                   : td_cuda_over(maximum_grad<T>, inputs_of(*s), stream, *s, taps, dy, dx, inputs_of(*s));
    }
};

struct run_average_grad {
    const td_cuda_pool *s;
    const void *dy;
    void *dx;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(average_grad<T>, inputs_of(*s), stream, *s, static_cast<const T *>(dy),
                            static_cast<T *>(dx), inputs_of(*s));
    }
};

struct run_pick {
    const td_cuda_pool *s;
    const void *x, *y, *dx;
    void *to;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(pick<T>, outputs_of(*s), stream, *s, static_cast<const T *>(x),
                            static_cast<const T *>(y), static_cast<const T *>(dx), static_cast<T *>(to),
                            outputs_of(*s));
    }
};

} // namespace

int td_cuda_pool_max(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                     struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_max{s, x, y, stream});
}

int td_cuda_pool_average(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                         struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_average{s, x, y, stream});
}

int td_cuda_pool_argmax(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                        enum td_cuda_type index, void *at, int64_t image, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_argmax{s, x, y, index, at, image, stream});
}

int td_cuda_pool_max_grad(enum td_cuda_type type, const struct td_cuda_pool *s,
                          const struct td_cuda_pool_grad *g, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_max_grad{s, g, stream});
}

int td_cuda_pool_average_grad(enum td_cuda_type type, const struct td_cuda_pool *s, const void *dy, void *dx,
                              struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_average_grad{s, dy, dx, stream});
}

int td_cuda_pool_pick(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, const void *y,
                      const void *dx, void *to, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_pick{s, x, y, dx, to, stream});
}
