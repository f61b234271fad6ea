/* kernels/cuda/array/select.cu - one of two elements by a bool, a thread an element, as plain bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/select.h"

#include "kernels/cuda/base/bytes.cuh"

namespace
{

template <class T>
__global__ void select(td_cuda_steps first, td_cuda_steps second, const bool *condition, const T *t,
                       const T *e, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(first, i);
        y[i] = condition[at.a] ? t[at.b] : e[td_cuda_place_of(second, i).a];
    }
}

struct run_select {
    const td_cuda_choice *s;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        return td_cuda_over(select<T>, s->n, stream, s->first, s->second,
                            static_cast<const bool *>(s->condition), static_cast<const T *>(s->t),
                            static_cast<const T *>(s->e), static_cast<T *>(s->y), s->n);
    }
};

} // namespace

int td_cuda_select(size_t bytes, const struct td_cuda_choice *s, struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(bytes, run_select{s, stream});
}
