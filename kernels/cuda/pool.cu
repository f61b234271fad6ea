/* kernels/cuda/pool.cu - pools and their gradients: a thread an element of the result, which are neighbours
 * in memory where channels come last. A gradient is gathered from the windows that have the cell, so that no
 * two threads add to one element, and sums have one order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/pool.h"

#include "kernels/cuda/cells.cuh"
#include "kernels/cuda/fold.cuh"

namespace
{

/* What the least finite number of the type is, in what it is computed in. */
template <class T> constexpr typename td_cuda_wide<T>::type least = std::numeric_limits<T>::lowest();
template <> constexpr float least<__half> = -65504.0F;
template <> constexpr float least<__nv_bfloat16> = -3.38953138925153547590e38F;

template <class T> __global__ void maximum(td_cuda_pool s, const T *x, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t channel = i % s.channels;
        const td_cuda_cell out = td_cuda_out_cell(s.axis, i / s.channels);
        auto best = least<T>;
        for (int64_t t = 0; t < td_cuda_taps(s.axis); t++) {
            td_cuda_cell in;
            if (td_cuda_tap_in(s.axis, out, td_cuda_tap(s.axis, t), &in)) {
                const auto v = td_cuda_load(x[td_cuda_cell_at(s.x, in) + channel * s.x.channel]);
                best = v > best ? v : best;
            }
        }
        y[td_cuda_cell_at(s.y, out) + channel * s.y.channel] = td_cuda_store<T>::of(best);
    }
}

/* Cells of the window that are inside of the input. */
__device__ int64_t cells_of(const td_cuda_pool &s, const td_cuda_cell &out)
{
    int64_t n = 1;
    for (int a = 0; a < 3; a++) {
        const int64_t first = out.at[a] * s.axis[a].stride - s.axis[a].before;
        const int64_t from = first < 0 ? 0 : first;
        const int64_t to = first + s.axis[a].k < s.axis[a].in ? first + s.axis[a].k : s.axis[a].in;
        n *= to > from ? to - from : 0;
    }
    return n;
}

template <class T> __global__ void average(td_cuda_pool s, const T *x, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t channel = i % s.channels;
        const td_cuda_cell out = td_cuda_out_cell(s.axis, i / s.channels);
        T sum = 0;
        for (int64_t t = 0; t < td_cuda_taps(s.axis); t++) {
            td_cuda_cell in;
            if (td_cuda_tap_in(s.axis, out, td_cuda_tap(s.axis, t), &in)) {
                sum += x[td_cuda_cell_at(s.x, in) + channel * s.x.channel];
            }
        }
        y[td_cuda_cell_at(s.y, out) + channel * s.y.channel] = sum / static_cast<T>(cells_of(s, out));
    }
}

/* Whether tap `tap` of the window at `out` is the first that has the value. */
template <class T>
__device__ bool is_first(const td_cuda_pool &s, const T *x, int64_t channel, const td_cuda_cell &out,
                         int64_t tap, T value)
{
    for (int64_t t = 0; t <= tap; t++) {
        td_cuda_cell in;
        if (td_cuda_tap_in(s.axis, out, td_cuda_tap(s.axis, t), &in) &&
            x[td_cuda_cell_at(s.x, in) + channel * s.x.channel] == value) {
            return t == tap;
        }
    }
    return false;
}

template <class T>
__global__ void maximum_grad(td_cuda_pool s, const T *x, const T *y, const T *dy, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t channel = i % s.channels;
        const td_cuda_cell in = td_cuda_in_cell(s.axis, i / s.channels);
        T sum = 0;
        for (int64_t t = td_cuda_taps(s.axis) - 1; t >= 0; t--) {
            td_cuda_cell out;
            if (td_cuda_window_of(s.axis, in, td_cuda_tap(s.axis, t), &out)) {
                const int64_t at = td_cuda_cell_at(s.y, out) + channel * s.y.channel;
                sum += is_first(s, x, channel, out, t, y[at]) ? dy[at] : T(0);
            }
        }
        dx[td_cuda_cell_at(s.x, in) + channel * s.x.channel] = sum;
    }
}

template <class T> __global__ void average_grad(td_cuda_pool s, const T *dy, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t channel = i % s.channels;
        const td_cuda_cell in = td_cuda_in_cell(s.axis, i / s.channels);
        T sum = 0;
        for (int64_t t = td_cuda_taps(s.axis) - 1; t >= 0; t--) {
            td_cuda_cell out;
            if (td_cuda_window_of(s.axis, in, td_cuda_tap(s.axis, t), &out)) {
                sum += dy[td_cuda_cell_at(s.y, out) + channel * s.y.channel] *
                       (T(1) / static_cast<T>(cells_of(s, out)));
            }
        }
        dx[td_cuda_cell_at(s.x, in) + channel * s.x.channel] = sum;
    }
}

struct call {
    const td_cuda_pool *s;
    const void *x, *y, *dy;
    void *to;
    td_cuda_stream *stream;
    int64_t outputs() const { return s->batch * td_cuda_out_cells(s->axis) * s->channels; }
    int64_t inputs() const { return s->batch * td_cuda_in_cells(s->axis) * s->channels; }
};

struct run_max {
    call c;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(maximum<T>, c.outputs(), c.stream, *c.s, static_cast<const T *>(c.x),
                            static_cast<T *>(c.to), c.outputs());
    }
};
struct run_average {
    call c;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(average<T>, c.outputs(), c.stream, *c.s, static_cast<const T *>(c.x),
                            static_cast<T *>(c.to), c.outputs());
    }
};
struct run_max_grad {
    call c;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(maximum_grad<T>, c.inputs(), c.stream, *c.s, static_cast<const T *>(c.x),
                            static_cast<const T *>(c.y), static_cast<const T *>(c.dy), static_cast<T *>(c.to),
                            c.inputs());
    }
};
struct run_average_grad {
    call c;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(average_grad<T>, c.inputs(), c.stream, *c.s, static_cast<const T *>(c.dy),
                            static_cast<T *>(c.to), c.inputs());
    }
};

} // namespace

int td_cuda_pool_max(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                     struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_max{{s, x, nullptr, nullptr, y, stream}});
}

int td_cuda_pool_average(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                         struct td_cuda_stream *stream)
{
    return td_cuda_with_wide(type, run_average{{s, x, nullptr, nullptr, y, stream}});
}

int td_cuda_pool_max_grad(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, const void *y,
                          const void *dy, void *dx, struct td_cuda_stream *stream)
{
    return td_cuda_with_wide(type, run_max_grad{{s, x, y, dy, dx, stream}});
}

int td_cuda_pool_average_grad(enum td_cuda_type type, const struct td_cuda_pool *s, const void *dy, void *dx,
                              struct td_cuda_stream *stream)
{
    return td_cuda_with_wide(type, run_average_grad{{s, nullptr, nullptr, dy, dx, stream}});
}
