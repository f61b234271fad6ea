/* kernels/cuda/nn/canvas.cu - boxes drawn on images, and images seen through a projection: a thread a pixel.
 * Places are rounded step by step, as the host's are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/canvas.h"

#include "kernels/cuda/base/exact.cuh"
#include "kernels/cuda/base/launch.cuh"

namespace
{

/* ------------------------------------------------------------------ boxes */

/* Where a part of an image is, safe against huge numbers and those that are none. */
__device__ int64_t coordinate(float v, int64_t n)
{
    const float f = td_cuda_times(v, static_cast<float>(n - 1));
    return f != f ? 0 : f < -1e9F ? -1000000000 : f > 1e9F ? 1000000000 : static_cast<int64_t>(f);
}

__device__ bool on_outline(const td_cuda_drawing &s, const float *box, int64_t row, int64_t column)
{
    const int64_t top = coordinate(box[0], s.rows), left = coordinate(box[1], s.columns);
    const int64_t bottom = coordinate(box[2], s.rows), right = coordinate(box[3], s.columns);
    if (row < top || row > bottom || column < left || column > right) {
        return false;
    }
    return row == top || row == bottom || column == left || column == right;
}

/* Channel k of the colour of box i. */
__device__ float colour_of(const td_cuda_drawing &s, int64_t i, int64_t k)
{
    constexpr float OWN[10][4] = {{1, 1, 0, 1},       {0, 0, 1, 1},       {1, 0, 0, 1},    {0, 1, 0, 1},
                                  {0.5F, 0, 0.5F, 1}, {0.5F, 0.5F, 0, 1}, {0.5F, 0, 0, 1}, {0, 0, 0.5F, 1},
                                  {0, 1, 1, 1},       {1, 0, 1, 1}};
    if (s.n_colours > 0) {
        return static_cast<const float *>(s.colour)[i % s.n_colours * s.width + k];
    }
    return s.channels == 1 ? 1 : OWN[i % 10][k];
}

/* The last box that has the pixel, from the top. */
template <class T> __global__ void draw(td_cuda_drawing s, int64_t pixels)
{
    for (int64_t p = td_cuda_first(); p < pixels; p += td_cuda_stride()) {
        const int64_t column = p % s.columns, up = p / s.columns, row = up % s.rows, image = up / s.rows;
        int64_t i = s.boxes - 1;
        while (i >= 0 &&
               !on_outline(s, static_cast<const float *>(s.box) + (image * s.boxes + i) * 4, row, column)) {
            i--;
        }
        for (int64_t k = 0; k < s.channels; k++) {
            const int64_t at = p * s.channels + k;
            static_cast<T *>(s.y)[at] =
                i < 0 ? static_cast<const T *>(s.x)[at] : td_cuda_store<T>::of(colour_of(s, i, k));
        }
    }
}

struct run_draw {
    const td_cuda_drawing *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t pixels = s->images * s->rows * s->columns;
        return td_cuda_over(draw<T>, pixels, stream, *s, pixels);
    }
};

/* ------------------------------------------------------------------ projections */

/* A coordinate outside [0, n) brought back as the mode says. */
__device__ float bring_back(td_cuda_fill_mode mode, float at, int64_t n)
{
    const float length = static_cast<float>(n), top = length - 1;
    if (mode == TD_CUDA_FILL_CONSTANT || at - at != 0) {
        return at;
    }
    if (mode == TD_CUDA_FILL_REFLECT && (at < 0 || at > top)) {
        const float twice = 2 * length; /* the second half runs backwards */
        at -= td_cuda_times(twice, floorf(at / twice));
        at = n <= 1 ? 0 : at >= length ? twice - at - 1 : at;
    } else if (mode == TD_CUDA_FILL_WRAP && at < 0) {
        at = n <= 1 ? 0 : at + td_cuda_times(length, floorf(-at / top) + 1);
    } else if (mode == TD_CUDA_FILL_WRAP && at > top) {
        at = n <= 1 ? 0 : at - td_cuda_times(length, floorf(at / top));
    }
    return fminf(fmaxf(at, 0), top);
}

/* Images are read as the host reads them: in double. */
template <class T>
__device__ double cell_at(const td_cuda_projection &s, const T *image, float row, float column, int64_t k)
{
    const double r = row, c = column;
    if (!(r >= 0 && r < static_cast<double>(s.rows) && c >= 0 && c < static_cast<double>(s.columns))) {
        return s.outside;
    }
    return static_cast<double>(td_cuda_load(
        image[(static_cast<int64_t>(row) * s.columns + static_cast<int64_t>(column)) * s.channels + k]));
}

__device__ float between(float left, float a, float right, float b)
{
    return td_cuda_times(left, a) + td_cuda_times(right, b);
}

template <class T>
__device__ double sample(const td_cuda_projection &s, const T *image, float row, float column, int64_t k)
{
    if (s.nearest) {
        return cell_at(s, image, roundf(row), roundf(column), k);
    }
    const float top = floorf(row), left = floorf(column), bottom = top + 1, right = left + 1;
    const auto line = [&](float at) {
        return between(right - column, static_cast<float>(cell_at(s, image, at, left, k)), column - left,
                       static_cast<float>(cell_at(s, image, at, right, k)));
    };
    return between(bottom - row, line(top), row - top, line(bottom));
}

__device__ float line_of(const float *t, float x, float z)
{
    return td_cuda_times(t[0], x) + td_cuda_times(t[1], z) + t[2];
}

template <class T> __global__ void project(td_cuda_projection s, int64_t pixels)
{
    using W = typename td_cuda_wide<T>::type;
    for (int64_t p = td_cuda_first(); p < pixels; p += td_cuda_stride()) {
        const int64_t j = p % s.out_columns, up = p / s.out_columns, i = up % s.out_rows;
        const int64_t number = up / s.out_rows;
        const float *const t = static_cast<const float *>(s.transform) + (s.transforms == 1 ? 0 : 8 * number);
        const T *const image = static_cast<const T *>(s.x) + number * s.rows * s.columns * s.channels;
        const float x = static_cast<float>(j), z = static_cast<float>(i);
        const float by = td_cuda_times(t[6], x) + td_cuda_times(t[7], z) + 1;
        const float column = by == 0 ? -1 : bring_back(s.fill, line_of(t, x, z) / by, s.columns);
        const float row = by == 0 ? -1 : bring_back(s.fill, line_of(t + 3, x, z) / by, s.rows);
        for (int64_t k = 0; k < s.channels; k++) {
            const double v = by == 0 ? s.outside : sample(s, image, row, column, k);
            static_cast<T *>(s.y)[p * s.channels + k] = td_cuda_store<T>::of(static_cast<W>(v));
        }
    }
}

struct run_project {
    const td_cuda_projection *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t pixels = s->images * s->out_rows * s->out_columns;
        return td_cuda_over(project<T>, pixels, stream, *s, pixels);
    }
};

} // namespace

int td_cuda_draw(enum td_cuda_type type, const struct td_cuda_drawing *s, struct td_cuda_stream *stream)
{
    return type == TD_CUDA_HALF ? run_draw{s, stream}(__half()) : run_draw{s, stream}(float());
}

int td_cuda_project(enum td_cuda_type type, const struct td_cuda_projection *s, struct td_cuda_stream *stream)
{
    return type == TD_CUDA_UINT8 ? run_project{s, stream}(uint8_t())
                                 : td_cuda_with_number(type, run_project{s, stream});
}
