/* kernels/cuda/nn/suppress.cu - the best boxes that do not overlap too much: a block a row.
 *
 * Boxes come by falling score, as many at a time as a block has threads, each thread with one. A box goes if
 * it overlaps one that was kept before; those of the block that are left are taken in turn, and each makes
 * the later ones go that overlap it. Overlaps are rounded step by step as on the host, the later box being
 * the first operand: so the choice is the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/suppress.h"

#include "kernels/cuda/base/exact.cuh"
#include "kernels/cuda/base/fold.cuh"

namespace
{

/* As std::min and std::max treat NaN. */
__device__ float lesser(float a, float b)
{
    return b < a ? b : a;
}
__device__ float greater(float a, float b)
{
    return a < b ? b : a;
}

/* Two corners, the lesser first. */
struct box {
    float y0, x0, y1, x1, area;
    int32_t index;
};

template <class T> __device__ box box_at(const td_cuda_suppress &s, int64_t row, int32_t i)
{
    box b = {0, 0, 0, 0, 0, i};
    if (s.overlaps == nullptr) {
        const int64_t at = (row / s.classes * s.n + i) * s.each + row % s.classes % s.each;
        const T *const x = static_cast<const T *>(s.boxes) + at * 4;
        const float v[4] = {td_cuda_load(x[0]), td_cuda_load(x[1]), td_cuda_load(x[2]), td_cuda_load(x[3])};
        b.y0 = lesser(v[0], v[2]);
        b.x0 = lesser(v[1], v[3]);
        b.y1 = greater(v[0], v[2]);
        b.x1 = greater(v[1], v[3]);
        b.area = td_cuda_times(b.y1 - b.y0, b.x1 - b.x0);
    }
    return b;
}

/* The part that both have of what either has. */
__device__ float overlap(const td_cuda_suppress &s, const box &a, const box &b)
{
    if (s.overlaps != nullptr) {
        return s.overlaps[a.index * s.n + b.index];
    }
    if (a.area <= 0 || b.area <= 0) {
        return 0;
    }
    const float h = greater(lesser(a.y1, b.y1) - greater(a.y0, b.y0), 0),
                w = greater(lesser(a.x1, b.x1) - greater(a.x0, b.x0), 0), both = td_cuda_times(h, w);
    return both / (a.area + b.area - both);
}

/* Whether box a overlaps one of those kept before. tile: room for a block of boxes. */
template <class T>
__device__ bool is_covered(const td_cuda_suppress &s, int64_t row, const box &a, bool asks, int64_t n_kept,
                           box *tile)
{
    bool covered = false;
    for (int64_t from = 0; from < n_kept; from += THREADS) {
        const int here = static_cast<int>(n_kept - from < THREADS ? n_kept - from : THREADS), t = threadIdx.x;
        if (t < here) {
            tile[t] = box_at<T>(s, row, s.kept[row * s.padded + from + t]);
        }
        __syncthreads();
        for (int j = 0; asks && !covered && j < here; j++) {
            covered = overlap(s, a, tile[j]) > s.most;
        }
        __syncthreads();
    }
    return covered;
}

template <class T> __device__ void keep(const td_cuda_suppress &s, int64_t row, int64_t from, int64_t to)
{
    s.kept[row * s.padded + to] = s.order[row * s.n + from];
    if (s.scores != nullptr) {
        static_cast<T *>(s.scores)[row * s.padded + to] = static_cast<const T *>(s.sorted)[row * s.n + from];
    }
}

/* Of one row; returns how many are kept. */
template <class T> __device__ int64_t suppress_row(const td_cuda_suppress &s, int64_t row)
{
    __shared__ box chunk[THREADS];
    __shared__ int left[THREADS];
    const T *const scores = static_cast<const T *>(s.sorted) + row * s.n;
    const int t = threadIdx.x;
    int64_t n_kept = 0;
    for (int64_t from = 0; from < s.n && n_kept < s.limit; from += THREADS) {
        if (td_cuda_load(scores[from]) <= s.least) {
            break;
        }
        const int64_t i = from + t;
        const bool asks = i < s.n && td_cuda_load(scores[i]) > s.least;
        const box mine = asks ? box_at<T>(s, row, s.order[row * s.n + i]) : box{0, 0, 0, 0, 0, 0};
        const bool covered = is_covered<T>(s, row, mine, asks, n_kept, chunk);
        chunk[t] = mine;
        left[t] = asks && !covered;
        __syncthreads();
        for (int j = 0; j < THREADS && n_kept < s.limit; j++) {
            if (left[j] == 0) {
                continue;
            }
            if (t == 0) {
                keep<T>(s, row, from + j, n_kept);
            }
            n_kept++;
            if (t > j && left[t] != 0 && overlap(s, mine, chunk[j]) > s.most) {
                left[t] = 0;
            }
            __syncthreads();
        }
        __syncthreads();
    }
    return n_kept;
}

template <class T> __global__ void suppress(td_cuda_suppress s)
{
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        const int64_t n_kept = suppress_row<T>(s, row);
        for (int64_t i = n_kept + threadIdx.x; i < s.padded; i += THREADS) {
            s.kept[row * s.padded + i] = 0;
            if (s.scores != nullptr) {
                static_cast<T *>(s.scores)[row * s.padded + i] = td_cuda_store<T>::of(s.rest);
            }
        }
        if (threadIdx.x == 0) {
            s.valid[row] = static_cast<int32_t>(n_kept);
            if (s.counts != nullptr) {
                s.counts[row] = n_kept;
            }
        }
        __syncthreads();
    }
}

/* ------------------------------------------------------------------ classes of images */

__global__ void rows_of(const float *scores, int64_t images, int64_t n, int64_t classes, float *rows)
{
    for (int64_t i = td_cuda_first(); i < images * n * classes; i += td_cuda_stride()) {
        const int64_t row = i / n, at = i - row * n;
        rows[i] = scores[(row / classes * n + at) * classes + row % classes];
    }
}

__global__ void tell(td_cuda_suppressed s)
{
    __shared__ int shared[THREADS];
    for (int64_t image = blockIdx.x; image < s.images; image += gridDim.x) {
        int valid = 0;
        for (int64_t i = threadIdx.x; i < s.size; i += THREADS) {
            const int64_t to = image * s.size + i;
            const float score = i < s.taken ? s.best[image * s.taken + i] : td_cuda_least<float>;
            const bool used = score > td_cuda_least<float>;
            const int64_t place = used ? s.which[image * s.taken + i] : 0, class_id = place / s.padded;
            const int64_t index = used ? s.kept[image * s.classes * s.padded + place] : 0;
            const float *const box = s.boxes + ((image * s.n + index) * s.each + class_id % s.each) * 4;
            for (int k = 0; k < 4; k++) {
                const float v = used ? box[k] : 0;
                s.out_boxes[to * 4 + k] = !s.clips ? v : v < 0 ? 0 : v > 1 ? 1 : v;
            }
            s.out_scores[to] = used ? score : 0;
            s.out_classes[to] = used ? static_cast<float>(class_id) : 0;
            valid += used ? 1 : 0;
        }
        valid = td_cuda_fold<THREADS>(valid, shared, [](int a, int b) { return a + b; });
        if (threadIdx.x == 0) {
            s.valid[image] = valid;
        }
    }
}

} // namespace

int td_cuda_suppress_boxes(const struct td_cuda_suppress *s, struct td_cuda_stream *stream)
{
    return s->type == TD_CUDA_HALF ? td_cuda_blocks(suppress<__half>, s->rows, stream, *s)
                                   : td_cuda_blocks(suppress<float>, s->rows, stream, *s);
}

int td_cuda_suppress_rows(const float *scores, int64_t images, int64_t n, int64_t classes, float *rows,
                          struct td_cuda_stream *stream)
{
    return td_cuda_over(rows_of, images * n * classes, stream, scores, images, n, classes, rows);
}

int td_cuda_suppress_tell(const struct td_cuda_suppressed *s, struct td_cuda_stream *stream)
{
    return td_cuda_blocks(tell, s->images, stream, *s);
}
