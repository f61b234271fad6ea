/* kernels/cuda/array/picked.cu - the distinct ones among sorted keys, a thread a key.
 *
 *   keys 2 2 5 5 5 9   ->   marks 1 0 1 0 0 1   ->   ranks 0 1 1 2 2 2 | 3   ->   groups 0 0 1 1 1 2
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/picked.h"

#include "kernels/cuda/base/launch.cuh"

namespace
{

__global__ void mark(td_cuda_sort s, int32_t *marks)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        marks[i] = i == 0 || s.keys[i] != s.keys[i - 1] ? 1 : 0;
    }
}

template <class I> __global__ void number(td_cuda_sort s, td_cuda_ranks r, I *distinct)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int32_t before = r.at[i], with = r.at[i + 1];
        if (with != before) {
            distinct[before] = s.keys[i];
        }
        s.keys[i] = with - 1;
    }
}

} // namespace

int td_cuda_picked_rank(const struct td_cuda_sort *s, const struct td_cuda_ranks *r, int64_t *groups,
                        struct td_cuda_stream *stream)
{
    const int error = td_cuda_over(mark, s->n, stream, *s, r->at);
    return error != 0 ? error : td_cuda_ranks_run(r, groups, stream);
}

int td_cuda_picked_number(const struct td_cuda_sort *s, const struct td_cuda_ranks *r, void *distinct,
                          bool wide, struct td_cuda_stream *stream)
{
    return wide ? td_cuda_over(number<int64_t>, s->n, stream, *s, *r, static_cast<int64_t *>(distinct))
                : td_cuda_over(number<int32_t>, s->n, stream, *s, *r, static_cast<int32_t *>(distinct));
}
