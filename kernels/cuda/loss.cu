/* kernels/cuda/loss.cu - cross entropy of logits and its gradient, a warp's threads a row.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/loss.h"

#include "kernels/cuda/fold.cuh"

namespace
{

constexpr int GROUP = 32, EACH = THREADS / GROUP;

template <class T> __global__ void cross_entropy(td_cuda_cross_entropy s)
{
    using W = typename td_cuda_wide<T>::type;
    __shared__ W tops[THREADS];
    __shared__ double sums[THREADS];
    const T *const logits = static_cast<const T *>(s.logits), *const labels =
                                                                  static_cast<const T *>(s.labels);
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
            const double label = static_cast<double>(td_cuda_load(labels[first + i]));
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
    template <class T> int operator()(T) const
    {
        return td_cuda_blocks(cross_entropy<T>, (s->rows + EACH - 1) / EACH, stream, *s);
    }
};

} // namespace

int td_cuda_cross_entropy_of(enum td_cuda_type type, const struct td_cuda_cross_entropy *s,
                             struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_cross_entropy{s, stream});
}
