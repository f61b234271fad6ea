/* kernels/cuda/nn/lrn.cu - local response normalisation, a thread an element: what neighbours read is near.
 *
 *   dx = dy norm ^ -beta - 2 alpha beta x * the sum of the shares within radius     share = dy y / norm
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/lrn.h"

#include "kernels/cuda/base/launch.cuh"

namespace
{

struct span {
    int64_t from, to;
};

/* The channels within radius of element i, as elements. */
__device__ span near_to(const td_cuda_lrn &s, int64_t i)
{
    const int64_t first = i / s.depth * s.depth, at = i - first;
    const int64_t low = at - s.radius, high = at + s.radius + 1;
    return {first + (low < 0 ? 0 : low), first + (high < s.depth ? high : s.depth)};
}

template <class T> __device__ double norm_of(const td_cuda_lrn &s, const T *x, int64_t i)
{
    const span k = near_to(s, i);
    double sum = 0;
    for (int64_t j = k.from; j < k.to && s.radius >= 0; j++) {
        const double v = static_cast<double>(td_cuda_load(x[j]));
        sum += v * v;
    }
    return s.bias + s.alpha * sum;
}

/* norm ^ -beta; the powers that networks use by roots. */
__device__ double power_of(const td_cuda_lrn &s, double norm)
{
    const double root = sqrt(norm);
    return s.beta == 0.5 ? 1 / root : s.beta == 0.75 ? 1 / (root * sqrt(root)) : pow(norm, -s.beta);
}

template <class T> __global__ void forward(td_cuda_lrn s, const T *x, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const double v = static_cast<double>(td_cuda_load(x[i]));
        y[i] = td_cuda_store<T>::of(static_cast<float>(v * power_of(s, norm_of(s, x, i))));
    }
}

template <class T> __global__ void shares(td_cuda_lrn s, td_cuda_lrn_grad g, int64_t n)
{
    const T *const dy = static_cast<const T *>(g.dy), *const x = static_cast<const T *>(g.x);
    const T *const y = static_cast<const T *>(g.y);
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        static_cast<double *>(g.work)[i] = static_cast<double>(td_cuda_load(dy[i])) *
                                           (static_cast<double>(td_cuda_load(y[i])) / norm_of(s, x, i));
    }
}

template <class T> __global__ void backward(td_cuda_lrn s, td_cuda_lrn_grad g, int64_t n)
{
    const T *const dy = static_cast<const T *>(g.dy), *const x = static_cast<const T *>(g.x);
    const double *const share = static_cast<const double *>(g.work);
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const span k = near_to(s, i);
        double sum = 0;
        for (int64_t j = k.from; j < k.to && s.radius >= 0; j++) {
            sum += share[j];
        }
        const double v = static_cast<double>(td_cuda_load(x[i])),
                     d = static_cast<double>(td_cuda_load(dy[i]));
        const double dx = d * power_of(s, norm_of(s, x, i)) - 2 * s.alpha * s.beta * v * sum;
        static_cast<T *>(g.dx)[i] = td_cuda_store<T>::of(s.radius < 0 ? 0.0F : static_cast<float>(dx));
    }
}

struct run_forward {
    const td_cuda_lrn *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t n = s->rows * s->depth;
        return td_cuda_over(forward<T>, n, stream, *s, static_cast<const T *>(x), static_cast<T *>(y), n);
    }
};

struct run_backward {
    const td_cuda_lrn *s;
    const td_cuda_lrn_grad *g;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t n = s->rows * s->depth;
        const int error = td_cuda_over(shares<T>, n, stream, *s, *g, n);
        return error != 0 ? error : td_cuda_over(backward<T>, n, stream, *s, *g, n);
    }
};

} // namespace

int td_cuda_lrn_to(enum td_cuda_type type, const struct td_cuda_lrn *s, const void *x, void *y,
                   struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_forward{s, x, y, stream});
}

int td_cuda_lrn_back(enum td_cuda_type type, const struct td_cuda_lrn *s, const struct td_cuda_lrn_grad *g,
                     struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_backward{s, g, stream});
}
