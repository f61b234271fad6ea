/* kernels/cuda/nn/conv.cu - convolutions and their gradients as sums of products (kernels/cuda/base/tile.cuh)
 * whose factors are looked up where they lie: no patches are laid out.
 *
 *             rows                   columns      k
 *   y         batch, out cells       oc / groups  taps, ic / groups
 *   dx        batch, in cells        ic / groups  taps, oc / groups
 *   dw        taps, ic / groups      oc / groups  batch, out cells
 *
 * for each group. Few columns, as depthwise convolutions have, would leave tiles empty: then a thread, or a
 * warp's threads where k is long, make an element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/conv.h"

#include "kernels/cuda/base/cells.cuh"
#include "kernels/cuda/base/posts.cuh"
#include "kernels/cuda/base/tile.cuh"

namespace
{

using cell = td_cuda_cell;

template <class T> struct base {
    using wide = typename td_cuda_wide<T>::type;
    td_cuda_conv s;
    const T *__restrict__ a, *__restrict__ b; /* x and w; w and dy; x and dy */
    T *__restrict__ y;
    int64_t rows, columns, depth, group;
    bool left_by_depth, right_by_depth;
    const td_cuda_posts *posts;
    __device__ int64_t each_in() const { return s.ic / s.groups; }
    __device__ int64_t each_out() const { return s.oc / s.groups; }
    __device__ cell out_cell(int64_t i) const { return td_cuda_out_cell(s.axis, i); }
    __device__ cell in_cell(int64_t i) const { return td_cuda_in_cell(s.axis, i); }
    __device__ bool tap_in(const cell &out, int64_t tap, cell *in) const
    {
        return td_cuda_tap_in(s.axis, out, td_cuda_tap(s.axis, tap), in);
    }
    __device__ bool window_of(const cell &in, int64_t tap, cell *out) const
    {
        return td_cuda_window_of(s.axis, in, td_cuda_tap(s.axis, tap), out);
    }
    __device__ int64_t x_at(const cell &c, int64_t channel) const
    {
        return td_cuda_cell_at(s.x, c) + (group * each_in() + channel) * s.x.channel;
    }
    __device__ int64_t y_at(const cell &c, int64_t channel) const
    {
        return td_cuda_cell_at(s.y, c) + (group * each_out() + channel) * s.y.channel;
    }
};

template <class T, bool POSTS> struct forward : base<T> {
    using typename base<T>::wide;
    __device__ wide left(int64_t row, int64_t k) const
    {
        cell in;
        const bool inside = this->tap_in(this->out_cell(row), k / this->each_in(), &in);
        return inside ? td_cuda_load(this->a[this->x_at(in, k % this->each_in())]) : wide(0);
    }
    __device__ wide right(int64_t k, int64_t column) const
    {
        return td_cuda_load(this->b[k * this->s.oc + this->group * this->each_out() + column]);
    }
    __device__ void put(int64_t row, int64_t column, wide sum) const
    {
        const int64_t at = this->y_at(this->out_cell(row), column);
        if constexpr (POSTS) {
            sum = td_cuda_posted<T>(*this->posts, sum, at, this->group * this->each_out() + column);
        }
        this->y[at] = td_cuda_store<T>::of(sum);
    }
};

template <class T> struct input_grad : base<T> {
    using typename base<T>::wide;
    __device__ wide left(int64_t row, int64_t k) const
    {
        cell out;
        const bool there = this->window_of(this->in_cell(row), k / this->each_out(), &out);
        return there ? td_cuda_load(this->b[this->y_at(out, k % this->each_out())]) : wide(0);
    }
    __device__ wide right(int64_t k, int64_t column) const
    {
        const int64_t tap = k / this->each_out(), channel = k % this->each_out();
        return td_cuda_load(this->a[(tap * this->each_in() + column) * this->s.oc +
                                    this->group * this->each_out() + channel]);
    }
    __device__ void put(int64_t row, int64_t column, wide sum) const
    {
        this->y[this->x_at(this->in_cell(row), column)] = td_cuda_store<T>::of(sum);
    }
};

template <class T> struct filter_grad : base<T> {
    using typename base<T>::wide;
    __device__ wide left(int64_t row, int64_t k) const
    {
        cell in;
        const bool inside = this->tap_in(this->out_cell(k), row / this->each_in(), &in);
        return inside ? td_cuda_load(this->a[this->x_at(in, row % this->each_in())]) : wide(0);
    }
    __device__ wide right(int64_t k, int64_t column) const
    {
        return td_cuda_load(this->b[this->y_at(this->out_cell(k), column)]);
    }
    __device__ void put(int64_t row, int64_t column, wide sum) const
    {
        this->y[row * this->s.oc + this->group * this->each_out() + column] = td_cuda_store<T>::of(sum);
    }
};

/* Tiles, or elements, of all groups, one group after the other. */
template <class P>
__global__ void __launch_bounds__(THREADS, 1)
    tiles(P p, int64_t each, int64_t n, const __grid_constant__ td_cuda_posts posts)
{
    p.posts = &posts;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        p.group = i / each;
        td_cuda_tile(p, i % each);
    }
}

template <int GROUP, class P>
__global__ void __launch_bounds__(THREADS) dots(P p, int64_t n, const __grid_constant__ td_cuda_posts posts)
{
    p.posts = &posts;
    const int64_t each = p.rows * p.columns, many = THREADS / GROUP;
    for (int64_t first = blockIdx.x * many; first < n; first += gridDim.x * many) {
        const int64_t i = first + threadIdx.x / GROUP;
        p.group = i < n ? i / each : 0;
        td_cuda_dot<GROUP>(p, i < n ? i % each : 0, i < n);
    }
}

constexpr int FEW = 8, LONG = 512, WARP = 32; /* columns; k; threads */

template <class P> int launch(const P &p, struct td_cuda_stream *stream)
{
    if (p.columns >= FEW || (p.s.groups == 1 && p.rows >= FEW * TD_CUDA_TILE)) {
        const int64_t each = td_cuda_tiles(p), n = each * p.s.groups;
        return td_cuda_blocks(tiles<P>, n, stream, p, each, n, p.s.posts);
    }
    const int64_t n = p.rows * p.columns * p.s.groups;
    return p.depth >= LONG
               ? td_cuda_blocks(dots<WARP, P>, (n * WARP + THREADS - 1) / THREADS, stream, p, n, p.s.posts)
               : td_cuda_blocks(dots<1, P>, (n + THREADS - 1) / THREADS, stream, p, n, p.s.posts);
}

struct sizes {
    int64_t taps, in_cells, out_cells, each_in, each_out;
};

sizes sizes_of(const td_cuda_conv &s)
{
    return {td_cuda_taps(s.axis), s.batch * td_cuda_in_cells(s.axis), s.batch * td_cuda_out_cells(s.axis),
            s.ic / s.groups, s.oc / s.groups};
}

struct call {
    const td_cuda_conv *s;
    const void *a, *b;
    void *y;
    struct td_cuda_stream *stream;
    template <class T> base<T> of(int64_t rows, int64_t columns, int64_t depth, bool left_by_depth) const
    {
        return {*s,
                static_cast<const T *>(a),
                static_cast<const T *>(b),
                static_cast<T *>(y),
                rows,
                columns,
                depth,
                0,
                left_by_depth,
                false,
                nullptr};
    }
};

struct run_forward {
    call c;
    template <class T, bool POSTS> int run() const
    {
        const sizes z = sizes_of(*c.s);
        return launch(
            forward<T, POSTS>{c.of<T>(z.out_cells, z.each_out, z.taps * z.each_in, c.s->x.channel == 1)},
            c.stream);
    }
    template <class T> int operator()(T) const
    {
        if constexpr (!std::is_same_v<T, double>) {
            if (c.s->posts.n > 0) {
                return run<T, true>();
            }
        }
        return run<T, false>();
    }
};
struct run_input {
    call c;
    template <class T> int operator()(T) const
    {
        const sizes z = sizes_of(*c.s);
        input_grad<T> p{c.of<T>(z.in_cells, z.each_in, z.taps * z.each_out, c.s->y.channel == 1)};
        p.right_by_depth = true;
        return launch(p, c.stream);
    }
};
struct run_filter {
    call c;
    template <class T> int operator()(T) const
    {
        const sizes z = sizes_of(*c.s);
        return launch(
            filter_grad<T>{c.of<T>(z.taps * z.each_in, z.each_out, z.out_cells, c.s->x.channel != 1)},
            c.stream);
    }
};

} // namespace

int td_cuda_conv_forward(enum td_cuda_type type, const struct td_cuda_conv *s, const void *x, const void *w,
                         void *y, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_forward{{s, x, w, y, stream}});
}

int td_cuda_conv_input(enum td_cuda_type type, const struct td_cuda_conv *s, const void *w, const void *dy,
                       void *dx, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_input{{s, w, dy, dx, stream}});
}

int td_cuda_conv_filter(enum td_cuda_type type, const struct td_cuda_conv *s, const void *x, const void *dy,
                        void *dw, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_filter{{s, x, dy, dw, stream}});
}
