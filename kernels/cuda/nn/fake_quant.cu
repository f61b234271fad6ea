/* kernels/cuda/nn/fake_quant.cu - numbers rounded to levels, and the gradient: a thread an element, which
 * works out its channel's range. Rounded step by step: a tie falls as it does on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/fake_quant.h"

#include "kernels/cuda/base/channel_sums.cuh"
#include "kernels/cuda/base/exact.cuh"

namespace
{

/* Moved so that 0 is a level; none: min and max are both 0. */
struct range {
    float min, max, scale, inverse;
    bool none;
};

__device__ range range_of(const td_cuda_fake_quant &s, int64_t channel)
{
    const bool given = s.min != nullptr;
    const float min = given ? static_cast<const float *>(s.min)[channel] : s.least;
    const float max = given ? static_cast<const float *>(s.max)[channel] : s.most;
    if (min == 0 && max == 0) {
        return {0, 0, 0, 0, true};
    }
    const float scale = (max - min) / (s.high - s.low), at = s.low - min / scale;
    const float zero = at < s.low ? s.low : at > s.high ? s.high : roundf(at);
    return {td_cuda_times(s.low - zero, scale), td_cuda_times(s.high - zero, scale), scale,
            given ? 0 : (s.high - s.low) / (max - min), false};
}

__global__ void quantize(td_cuda_fake_quant s, const float *x, float *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const range r = range_of(s, i % s.depth);
        float v = x[i];
        v = r.max < v ? r.max : v;
        v = v < r.min ? r.min : v;
        const float level = r.inverse != 0 ? td_cuda_times(v - r.min, r.inverse) : (v - r.min) / r.scale;
        y[i] = r.none ? 0 : td_cuda_times(floorf(level + 0.5F), r.scale) + r.min;
    }
}

__global__ void backward(td_cuda_fake_quant s, const float *dy, const float *x, float *dx, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const range r = range_of(s, i % s.depth);
        dx[i] = r.none || (x[i] >= r.min && x[i] <= r.max) ? dy[i] : 0;
    }
}

struct of_cut {
    td_cuda_fake_quant s;
    const float *dy, *x;
    __device__ td_cuda_two operator()(int64_t at, double) const
    {
        const range r = range_of(s, at % s.depth);
        const double d = static_cast<double>(dy[at]);
        return {!r.none && x[at] < r.min ? d : 0, !r.none && x[at] > r.max ? d : 0};
    }
    __device__ double base(int64_t, int64_t) const { return 0; }
};

__global__ void finish(int64_t depth, int64_t parts, const td_cuda_two *part, float *dmin, float *dmax)
{
    for (int64_t c = td_cuda_first(); c < depth; c += td_cuda_stride()) {
        const td_cuda_two sum = td_cuda_sum_of(part, parts, depth, c);
        dmin[c] = static_cast<float>(sum.a);
        dmax[c] = static_cast<float>(sum.b);
    }
}

/* One channel lies along the cells. */
td_cuda_channels channels_of(const td_cuda_fake_quant &s)
{
    return s.depth == 1 ? td_cuda_channels{1, 1, s.outer} : td_cuda_channels{s.outer, s.depth, 1};
}

} // namespace

int td_cuda_fake_quant_to(const struct td_cuda_fake_quant *s, const void *x, void *y,
                          struct td_cuda_stream *stream)
{
    const int64_t n = s->outer * s->depth;
    return td_cuda_over(quantize, n, stream, *s, static_cast<const float *>(x), static_cast<float *>(y), n);
}

size_t td_cuda_fake_quant_work(const struct td_cuda_fake_quant *s)
{
    return static_cast<size_t>(td_cuda_channel_parts(channels_of(*s)) * s->depth) * sizeof(td_cuda_two);
}

int td_cuda_fake_quant_back(const struct td_cuda_fake_quant *s, const struct td_cuda_fake_quant_grad *g,
                            struct td_cuda_stream *stream)
{
    const int64_t n = s->outer * s->depth, parts = td_cuda_channel_parts(channels_of(*s));
    const float *const dy = static_cast<const float *>(g->dy), *const x = static_cast<const float *>(g->x);
    int error = td_cuda_over(backward, n, stream, *s, dy, x, static_cast<float *>(g->dx), n);
    if (error != 0 || g->dmin == nullptr) {
        return error;
    }
    td_cuda_two *const part = static_cast<td_cuda_two *>(g->work);
    error = td_cuda_channel_sums(channels_of(*s), parts, of_cut{*s, dy, x}, part, stream);
    return error != 0 ? error
                      : td_cuda_over(finish, s->depth, stream, s->depth, parts, part,
                                     static_cast<float *>(g->dmin), static_cast<float *>(g->dmax));
}
