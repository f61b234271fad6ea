/* kernels/cuda/nn/adam.cu - the update of adam and adamw in one pass (kernels/train/adam.c), a thread an
 * element.
 *
 *   m' = m + (g - m) rest_1     v' = v + (g g - v) rest_2     w' = w - m' rate / (sqrt(v') + epsilon)
 *
 * Rounded as the host does: no fused multiply-add.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/adam.h"

#include "kernels/cuda/base/exact.cuh"
#include "kernels/cuda/base/launch.cuh"

namespace
{

__global__ void move(td_cuda_adam s)
{
    const float *const w = static_cast<const float *>(s.w), *const m = static_cast<const float *>(s.m);
    const float *const v = static_cast<const float *>(s.v), *const g = static_cast<const float *>(s.g);
    float *const new_w = static_cast<float *>(s.new_w), *const new_m = static_cast<float *>(s.new_m);
    float *const new_v = static_cast<float *>(s.new_v);
    const float rate = *static_cast<const float *>(s.rate);
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const float by = g[i], old_m = m[i], old_v = v[i];
        const float to_m = old_m + td_cuda_times(by - old_m, s.rest_1);
        const float to_v = old_v + td_cuda_times(td_cuda_times(by, by) - old_v, s.rest_2);
        new_m[i] = to_m;
        new_v[i] = to_v;
        new_w[i] = w[i] - td_cuda_times(to_m, rate) / (sqrtf(to_v) + s.epsilon);
    }
}

} // namespace

int td_cuda_adam_move(const struct td_cuda_adam *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(move, s->n, stream, *s);
}
