/* kernels/cuda/nn/picture.cu - colours, a thread a pixel; contrast and crops, a thread an element; the
 * gradient of an image, a thread each of its elements, which goes through the boxes for those that read it;
 * and of boxes, a block each.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/picture.h"

#include "kernels/cuda/base/exact.cuh"
#include "kernels/cuda/base/fold.cuh"

namespace
{

template <class T> using wide = typename td_cuda_wide<T>::type;

template <class T> __device__ float read(const T *x)
{
    return static_cast<float>(td_cuda_load(*x));
}

/* ------------------------------------------------------------------ colours */

struct colour {
    float c[3];
};

/* The larger and the smaller of two; the second when they do not compare. */
__device__ float larger(float a, float b)
{
    return b < a ? a : b;
}
__device__ float smaller(float a, float b)
{
    return a < b ? a : b;
}

__device__ colour to_hsv(const colour &x)
{
    const float r = x.c[0], g = x.c[1], b = x.c[2];
    const float top = larger(larger(r, g), b), low = smaller(smaller(r, g), b), range = top - low;
    float hue = 0;
    if (!(range <= 0)) {
        const float unit = 1 / (6 * range);
        hue = r == top ? unit * (g - b) : g == top ? unit * (b - r) + 2.0F / 6 : unit * (r - g) + 4.0F / 6;
        hue += hue < 0 ? 1 : 0;
    }
    return {{hue, top > 0 ? range / top : 0, top}};
}

/* NaN stays. */
__device__ float clip01(float v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

/* The full colour of that hue. */
__device__ colour full(float hue)
{
    const float sixths = hue * 6;
    return {{clip01(fabsf(sixths - 3) - 1), clip01(2 - fabsf(sixths - 2)), clip01(2 - fabsf(sixths - 4))}};
}

__device__ colour to_rgb(const colour &x)
{
    const float s = x.c[1], v = x.c[2];
    const colour to = full(x.c[0]);
    return {{(1 - s + s * to.c[0]) * v, (1 - s + s * to.c[1]) * v, (1 - s + s * to.c[2]) * v}};
}

/* Between the least and the greatest of the three, which stay. */
__device__ colour shifted(const colour &x, float by)
{
    const colour hsv = to_hsv(x), to = full(hsv.c[0] + by - floorf(hsv.c[0] + by));
    const float low = smaller(smaller(x.c[0], x.c[1]), x.c[2]), range = hsv.c[2] - low;
    return {{low + td_cuda_times(range, to.c[0]), low + td_cuda_times(range, to.c[1]),
             low + td_cuda_times(range, to.c[2])}};
}

__device__ colour changed(enum td_cuda_colour what, const colour &x, float by)
{
    if (what == TD_CUDA_TO_HSV || what == TD_CUDA_TO_RGB) {
        return what == TD_CUDA_TO_HSV ? to_hsv(x) : to_rgb(x);
    }
    if (what == TD_CUDA_SHIFT_HUE) {
        return shifted(x, by);
    }
    colour hsv = to_hsv(x);
    hsv.c[1] = clip01(hsv.c[1] * by);
    return to_rgb(hsv);
}

template <class T>
__global__ void colours(enum td_cuda_colour what, const T *x, const float *by, T *y, int64_t n)
{
    const float factor = by != nullptr ? *by : 0;
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const colour out =
            changed(what, {{read(x + 3 * i), read(x + 3 * i + 1), read(x + 3 * i + 2)}}, factor);
        for (int k = 0; k < 3; k++) {
            y[3 * i + k] = td_cuda_store<T>::of(static_cast<wide<T>>(out.c[k]));
        }
    }
}

struct run_colours {
    enum td_cuda_colour what;
    const void *x, *by;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(colours<T>, n, stream, what, static_cast<const T *>(x),
                            static_cast<const float *>(by), static_cast<T *>(y), n);
    }
};

__global__ void contrast(td_cuda_contrast s, int64_t n)
{
    const float *const x = static_cast<const float *>(s.x), *const mean = static_cast<const float *>(s.mean);
    const float factor = *static_cast<const float *>(s.factor);
    const bool clips = s.least != nullptr;
    const float least = clips ? *static_cast<const float *>(s.least) : 0;
    const float most = clips ? *static_cast<const float *>(s.most) : 0;
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const float mid = mean[i / (s.cells * s.channels) * s.channels + i % s.channels];
        const float v = td_cuda_times(x[i] - mid, factor) + mid;
        static_cast<float *>(s.y)[i] = clips ? fminf(fmaxf(v, least), most) : v;
    }
}

/* ------------------------------------------------------------------ crops */

/* Where output o of `crop` cells reads an axis of n cells, of which a box has the part from lo to hi: *at;
 * false outside. */
__device__ bool place_on(float lo, float hi, int64_t n, int64_t crop, int64_t o, float *at)
{
    const float last = static_cast<float>(n - 1);
    const float step = crop > 1 ? (hi - lo) * last / static_cast<float>(crop - 1) : 0;
    const float from = td_cuda_times(crop > 1 ? lo : 0.5F * (lo + hi), last);
    *at = from + td_cuda_times(static_cast<float>(o), step);
    return *at >= 0 && *at <= last;
}

struct spot {
    float y, x;
};

/* Where cell (row, column) of box b is read. */
__device__ bool spot_of(const td_cuda_crop &s, int64_t b, int64_t row, int64_t column, spot *at)
{
    const float *const box = static_cast<const float *>(s.boxes) + 4 * b;
    return place_on(box[0], box[2], s.rows, s.crop_rows, row, &at->y) &&
           place_on(box[1], box[3], s.columns, s.crop_columns, column, &at->x);
}

/* The four cells around a spot, as elements of an image, and how far it is from the first. */
struct corners {
    int64_t at[4];
    float down, across;
};
__device__ corners corners_of(const td_cuda_crop &s, const spot &p)
{
    const int64_t top = static_cast<int64_t>(floorf(p.y)), low = static_cast<int64_t>(ceilf(p.y));
    const int64_t left = static_cast<int64_t>(floorf(p.x)), right = static_cast<int64_t>(ceilf(p.x));
    const int64_t upper = top * s.columns, lower = low * s.columns;
    return {{(upper + left) * s.channels, (upper + right) * s.channels, (lower + left) * s.channels,
             (lower + right) * s.channels},
            p.y - static_cast<float>(top),
            p.x - static_cast<float>(left)};
}

__device__ int64_t image_of(const td_cuda_crop &s, int64_t b)
{
    return static_cast<int64_t>(static_cast<const int32_t *>(s.index)[b]) * s.rows * s.columns * s.channels;
}

/* What crops hold: channel c of cell (row, column) of box b. */
struct crop_element {
    int64_t b, row, column, c;
};
__device__ crop_element crop_element_of(const td_cuda_crop &s, int64_t i)
{
    const int64_t cell = i / s.channels, line = cell / s.crop_columns;
    return {line / s.crop_rows, line % s.crop_rows, cell % s.crop_columns, i % s.channels};
}

template <class T> __global__ void crop(td_cuda_crop s, const T *x, float *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const crop_element e = crop_element_of(s, i);
        spot p;
        if (!spot_of(s, e.b, e.row, e.column, &p)) {
            y[i] = s.outside;
            continue;
        }
        const T *const from = x + image_of(s, e.b) + e.c;
        if (s.nearest) {
            const int64_t row = static_cast<int64_t>(roundf(p.y)), column = static_cast<int64_t>(roundf(p.x));
            y[i] = read(from + (row * s.columns + column) * s.channels);
            continue;
        }
        const corners k = corners_of(s, p);
        const float a = read(from + k.at[0]), b = read(from + k.at[1]), c = read(from + k.at[2]);
        const float top = a + (b - a) * k.across, low = c + (read(from + k.at[3]) - c) * k.across;
        y[i] = top + (low - top) * k.down;
    }
}

/* With what weight a spot reads cell `at` of its axis; bilinearly, twice the same where it lies on a cell. */
__device__ float weight_on(float spot, int64_t at, bool nearest)
{
    const float place = static_cast<float>(at), low = floorf(spot);
    if (nearest) {
        return roundf(spot) == place ? 1.0F : 0.0F;
    }
    return (low == place ? 1 - (spot - low) : 0) + (ceilf(spot) == place ? spot - low : 0);
}

/* What the crops of box b give to element (row, column, c) of its image. */
__device__ float given_by(const td_cuda_crop &s, int64_t b, int64_t row, int64_t column, const float *dy)
{
    const float *const box = static_cast<const float *>(s.boxes) + 4 * b;
    float sum = 0, y, x;
    for (int64_t i = 0; i < s.crop_rows; i++) {
        if (!place_on(box[0], box[2], s.rows, s.crop_rows, i, &y) || fabsf(y - static_cast<float>(row)) > 1) {
            continue;
        }
        const float down = weight_on(y, row, s.nearest);
        const float *const line = dy + (b * s.crop_rows + i) * s.crop_columns * s.channels;
        for (int64_t j = 0; j < s.crop_columns && down != 0; j++) {
            const bool inside = place_on(box[1], box[3], s.columns, s.crop_columns, j, &x);
            const float across = inside ? weight_on(x, column, s.nearest) : 0;
            sum += across != 0 ? down * across * line[j * s.channels] : 0;
        }
    }
    return sum;
}

template <class T> __global__ void uncrop(td_cuda_crop s, const float *dy, T *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t cell = i / s.channels, c = i % s.channels, line = cell / s.columns;
        float sum = 0;
        for (int64_t b = 0; b < s.n; b++) {
            sum += static_cast<const int32_t *>(s.index)[b] == line / s.rows
                       ? given_by(s, b, line % s.rows, cell % s.columns, dy + c)
                       : 0;
        }
        dx[i] = td_cuda_store<T>::of(static_cast<wide<T>>(sum));
    }
}

/* What an element of a crop gives to its box's four numbers. */
struct four {
    double v[4];
};

template <class T> __device__ four by_box(const td_cuda_crop &s, int64_t i, const T *x, const float *dy)
{
    const crop_element e = crop_element_of(s, i);
    spot p;
    if (!spot_of(s, e.b, e.row, e.column, &p)) {
        return {{0, 0, 0, 0}};
    }
    const corners k = corners_of(s, p);
    const T *const from = x + image_of(s, e.b) + e.c;
    const float tl = read(from + k.at[0]), tr = read(from + k.at[1]), bl = read(from + k.at[2]);
    const float br = read(from + k.at[3]);
    const float down = (1 - k.across) * (bl - tl) + k.across * (br - tr);
    const float across = (1 - k.down) * (tr - tl) + k.down * (br - bl);
    const double gy = static_cast<double>(dy[i] * down * static_cast<float>(s.rows - 1));
    const double gx = static_cast<double>(dy[i] * across * static_cast<float>(s.columns - 1));
    const double py =
        s.crop_rows > 1 ? static_cast<double>(e.row) / static_cast<double>(s.crop_rows - 1) : 0.5;
    const double px =
        s.crop_columns > 1 ? static_cast<double>(e.column) / static_cast<double>(s.crop_columns - 1) : 0.5;
    return {{gy * (1 - py), gx * (1 - px), gy * py, gx * px}};
}

template <class T> __global__ void box_gradients(td_cuda_crop s, const T *x, const float *dy, float *dboxes)
{
    __shared__ double shared[THREADS];
    const int64_t each = s.crop_rows * s.crop_columns * s.channels;
    for (int64_t b = blockIdx.x; b < s.n; b += gridDim.x) {
        four sum = {{0, 0, 0, 0}};
        for (int64_t i = threadIdx.x; i < each; i += THREADS) {
            const four more = by_box(s, b * each + i, x, dy);
            for (int k = 0; k < 4; k++) {
                sum.v[k] += more.v[k];
            }
        }
        for (int k = 0; k < 4; k++) {
            const double all =
                td_cuda_fold<THREADS>(sum.v[k], shared, [](double p, double q) { return p + q; });
            if (threadIdx.x == 0) {
                dboxes[4 * b + k] = static_cast<float>(all);
            }
        }
    }
}

int64_t outputs_of(const td_cuda_crop &s)
{
    return s.n * s.crop_rows * s.crop_columns * s.channels;
}

struct run_crop {
    const td_cuda_crop *s;
    const void *x;
    float *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(crop<T>, outputs_of(*s), stream, *s, static_cast<const T *>(x), y,
                            outputs_of(*s));
    }
};

struct run_uncrop {
    const td_cuda_crop *s;
    const float *dy;
    void *dx;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t n = s->images * s->rows * s->columns * s->channels;
        return td_cuda_over(uncrop<T>, n, stream, *s, dy, static_cast<T *>(dx), n);
    }
};

struct run_boxes {
    const td_cuda_crop *s;
    const void *x;
    const float *dy;
    float *dboxes;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_blocks(box_gradients<T>, s->n, stream, *s, static_cast<const T *>(x), dy, dboxes);
    }
};

} // namespace

int td_cuda_colours(enum td_cuda_type type, enum td_cuda_colour what, const void *x, const void *by, void *y,
                    int64_t pixels, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_colours{what, x, by, y, pixels, stream});
}

int td_cuda_contrast_of(const struct td_cuda_contrast *s, struct td_cuda_stream *stream)
{
    const int64_t n = s->images * s->cells * s->channels;
    return td_cuda_over(contrast, n, stream, *s, n);
}

int td_cuda_crop_to(enum td_cuda_type type, const struct td_cuda_crop *s, const void *x, void *y,
                    struct td_cuda_stream *stream)
{
    return td_cuda_with_number(type, run_crop{s, x, static_cast<float *>(y), stream});
}

int td_cuda_crop_image(enum td_cuda_type type, const struct td_cuda_crop *s, const void *dy, void *dx,
                       struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_uncrop{s, static_cast<const float *>(dy), dx, stream});
}

int td_cuda_crop_boxes(enum td_cuda_type type, const struct td_cuda_crop *s, const void *x, const void *dy,
                       void *dboxes, struct td_cuda_stream *stream)
{
    return td_cuda_with_number(
        type, run_boxes{s, x, static_cast<const float *>(dy), static_cast<float *>(dboxes), stream});
}
