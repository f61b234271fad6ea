/* kernels/cuda/base/border.cu - a thread for as many channels of y as are 16 bytes, where their number is a
 * multiple of that, or for fewer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/border.h"

#include "kernels/cuda/base/bytes.cuh"

namespace
{

struct cell {
    int64_t batch, row, column, channel;
};

/* Of element i of [.., rows, columns, channels]. */
__device__ inline cell cell_of(int64_t i, int64_t rows, int64_t columns, int64_t channels)
{
    const int64_t pixel = i / channels, line = pixel / columns;
    return {line / rows, line % rows, pixel % columns, i % channels};
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    add(td_cuda_border s, const T *__restrict__ x, T *__restrict__ y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const cell c = cell_of(i, s.tall, s.wide, s.channels);
        const int64_t row = c.row - s.top, column = c.column - s.left;
        const bool inside = row >= 0 && row < s.h && column >= 0 && column < s.w;
        y[i] = inside ? x[((c.batch * s.h + row) * s.w + column) * s.channels + c.channel] : T{};
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    cut(td_cuda_border s, const T *__restrict__ x, T *__restrict__ y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const cell c = cell_of(i, s.h, s.w, s.channels);
        y[i] = x[((c.batch * s.tall + c.row + s.top) * s.wide + c.column + s.left) * s.channels + c.channel];
    }
}

struct run_border {
    td_cuda_border s;
    bool adds;
    const void *x;
    void *y;
    struct td_cuda_stream *stream;
    template <class T> int with() const
    {
        const int64_t n = s.batch * (adds ? s.tall * s.wide : s.h * s.w) * s.channels;
        return td_cuda_over(adds ? add<T> : cut<T>, n, stream, s, static_cast<const T *>(x),
                            static_cast<T *>(y), n);
    }
};

int launch(size_t bytes, const run_border &run)
{
    run_border wide = run;
    size_t at_once = bytes;
    while (at_once < 16 && wide.s.channels % 2 == 0) {
        at_once *= 2;
        wide.s.channels /= 2;
    }
    return td_cuda_with_bytes(at_once, wide);
}

} // namespace

int td_cuda_border_add(size_t bytes, const struct td_cuda_border *s, const void *x, void *y,
                       struct td_cuda_stream *stream)
{
    return launch(bytes, {*s, true, x, y, stream});
}

int td_cuda_border_cut(size_t bytes, const struct td_cuda_border *s, const void *x, void *y,
                       struct td_cuda_stream *stream)
{
    return launch(bytes, {*s, false, x, y, stream});
}
