/* kernels/cuda/base/loop.cu - a loop's condition, and what it carries from round to round.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/loop.h"

#include "kernels/cuda/base/bytes.cuh"
#include "kernels/cuda/base/launch.cuh"

namespace
{

__device__ bool is_refused(const int32_t *fault, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        any |= fault[i] != 0;
    }
    return any;
}

/* left [2]: rounds that may yet begin; 1: there were none left for one that was to */
__global__ void test(uint64_t condition, const bool *go, uint32_t *left, const int32_t *fault, int n_faults)
{
    const bool wanted = *go && !is_refused(fault, n_faults), may = left[0] > 0;
    left[0] -= wanted && may;
    left[1] = wanted && !may;
    cudaGraphSetConditional(condition, wanted && may);
}

/* to [n] = from [n] */
template <class T> __global__ void carry(T *to, const T *from, int64_t n, const int32_t *fault, int n_faults)
{
    if (is_refused(fault, n_faults)) {
        return;
    }
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        to[i] = from[i];
    }
}

struct carrier {
    const struct td_cuda_loop *l;
    void *to;
    const void *from;
    size_t bytes;
    struct td_cuda_stream *stream;
    template <class T> int with() const
    {
        return td_cuda_over(carry<T>, static_cast<int64_t>(bytes / sizeof(T)), stream, static_cast<T *>(to),
                            static_cast<const T *>(from), static_cast<int64_t>(bytes / sizeof(T)), l->fault,
                            l->n_faults);
    }
};

} // namespace

int td_cuda_loop_test(uint64_t condition, const struct td_cuda_loop *l, struct td_cuda_stream *stream)
{
    return td_cuda_blocks_of<1>(test, 1, 0, stream, condition, static_cast<const bool *>(l->go), l->left,
                                l->fault, l->n_faults);
}

int td_cuda_loop_carry(const struct td_cuda_loop *l, void *to, const void *from, size_t bytes,
                       struct td_cuda_stream *stream)
{
    const size_t odd = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes | 16;
    return td_cuda_with_bytes(odd & (~odd + 1), carrier{l, to, from, bytes, stream});
}
