/* kernels/cuda/nn/loss.cu - cross entropy of logits and its gradient, a warp's threads a row; and half of a
 * sum of squares, by many blocks, whose parts one block adds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/loss.h"

#include "kernels/cuda/base/fold.cuh"

namespace
{

constexpr int GROUP = 32, EACH = THREADS / GROUP;
constexpr int64_t SQUARES = 4096, MOST_PARTS = 1024; /* that are worth a block; blocks */

/* ------------------------------------------------------------------ cross entropy */

template <class L> struct of_elements {
    const L *labels;
    __device__ double operator()(int64_t row, int64_t i, int64_t n) const
    {
        return static_cast<double>(td_cuda_load(labels[row * n + i]));
    }
};
template <class L> struct of_classes {
    const L *labels;
    __device__ double operator()(int64_t row, int64_t i, int64_t) const { return labels[row] == i ? 1 : 0; }
};

template <class T, class Label> __global__ void cross_entropy(td_cuda_cross_entropy s, Label label_at)
{
    using W = typename td_cuda_wide<T>::type;
    __shared__ W tops[THREADS];
    __shared__ double sums[THREADS];
    const T *const logits = static_cast<const T *>(s.logits);
    T *const loss = static_cast<T *>(s.loss), *const backprop = static_cast<T *>(s.backprop);
    const auto add = [](double a, double b) { return a + b; };
    for (int64_t from = static_cast<int64_t>(blockIdx.x) * EACH; from < s.rows; from += gridDim.x * EACH) {
        const int at = threadIdx.x % GROUP;
        const int64_t row = from + threadIdx.x / GROUP, end = row < s.rows ? s.n : 0, first = row * s.n;
        W top = td_cuda_least<W>;
        for (int64_t i = at; i < end; i += GROUP) {
            const W v = td_cuda_load(logits[first + i]);
            top = v > top || v != v ? v : top;
        }
        top = td_cuda_fold<GROUP>(top, tops, [](W a, W b) { return a >= b || a != a ? a : b; });
        double sum = 0, lost = 0;
        for (int64_t i = at; i < end; i += GROUP) {
            sum += exp(td_cuda_load(logits[first + i]) - top);
        }
        sum = td_cuda_fold<GROUP>(sum, sums, add);
        const double log_sum = log(sum);
        for (int64_t i = at; i < end; i += GROUP) {
            const double v = static_cast<double>(td_cuda_load(logits[first + i]) - top);
            const double label = label_at(row, i, s.n);
            lost += label == 0 ? 0 : label * (log_sum - v);
            backprop[first + i] = td_cuda_store<T>::of(static_cast<W>(exp(v) / sum - label));
        }
        lost = td_cuda_fold<GROUP>(lost, sums, add);
        if (row < s.rows && at == 0) {
            loss[row] = td_cuda_store<T>::of(static_cast<W>(lost));
        }
    }
}

struct run_cross_entropy {
    const td_cuda_cross_entropy *s;
    td_cuda_stream *stream;
    template <class T, class Label> int launch(Label label) const
    {
        return td_cuda_blocks(cross_entropy<T, Label>, (s->rows + EACH - 1) / EACH, stream, *s, label);
    }
    template <class T> int operator()(T) const
    {
        return s->classes == TD_CUDA_INT32
                   ? launch<T>(of_classes<int32_t>{static_cast<const int32_t *>(s->labels)})
               : s->classes == TD_CUDA_INT64
                   ? launch<T>(of_classes<int64_t>{static_cast<const int64_t *>(s->labels)})
                   : launch<T>(of_elements<T>{static_cast<const T *>(s->labels)});
    }
};

/* ------------------------------------------------------------------ squares */

template <class T> __global__ void squares(const T *x, double *part, int64_t parts, int64_t n)
{
    __shared__ double shared[THREADS];
    for (int64_t p = blockIdx.x; p < parts; p += gridDim.x) {
        double sum = 0;
        for (int64_t i = p * THREADS + threadIdx.x; i < n; i += parts * THREADS) {
            const double v = static_cast<double>(td_cuda_load(x[i]));
            sum += v * v;
        }
        sum = td_cuda_fold<THREADS>(sum, shared, [](double a, double b) { return a + b; });
        if (threadIdx.x == 0) {
            part[p] = sum;
        }
    }
}

template <class T> __global__ void half_of_all(const double *part, int64_t parts, T *y)
{
    __shared__ double shared[THREADS];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < parts; i += THREADS) {
        sum += part[i];
    }
    sum = td_cuda_fold<THREADS>(sum, shared, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) {
        *y = td_cuda_store<T>::of(static_cast<typename td_cuda_wide<T>::type>(sum / 2));
    }
}

int64_t parts_of(int64_t n)
{
    const int64_t parts = (n + SQUARES - 1) / SQUARES;
    return parts < 1 ? 1 : parts < MOST_PARTS ? parts : MOST_PARTS;
}

struct run_l2 {
    const void *x;
    void *y;
    int64_t n;
    double *part;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t parts = parts_of(n);
        const int error =
            td_cuda_blocks(squares<T>, parts, stream, static_cast<const T *>(x), part, parts, n);
        return error != 0 ? error
                          : td_cuda_blocks(half_of_all<T>, 1, stream, part, parts, static_cast<T *>(y));
    }
};

} // namespace

int td_cuda_cross_entropy_of(enum td_cuda_type type, const struct td_cuda_cross_entropy *s,
                             struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_cross_entropy{s, stream});
}

size_t td_cuda_l2_work(int64_t n)
{
    return static_cast<size_t>(parts_of(n)) * sizeof(double);
}

int td_cuda_l2(enum td_cuda_type type, const void *x, void *y, int64_t n, void *work,
               struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_l2{x, y, n, static_cast<double *>(work), stream});
}
