/* kernels/cuda/math/clip.cu - element-wise ops with bounds, a thread an element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/clip.h"

#include "kernels/cuda/base/launch.cuh"

namespace
{

template <class T> __global__ void clip(td_cuda_clip s)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const T low = static_cast<const T *>(s.low)[i * s.low_step];
        const T high = static_cast<const T *>(s.high)[i * s.high_step];
        T v = static_cast<const T *>(s.x)[i];
        v = td_cuda_load(high) < td_cuda_load(v) ? high : v;
        static_cast<T *>(s.y)[i] = td_cuda_load(v) < td_cuda_load(low) ? low : v;
    }
}

struct run_clip {
    const td_cuda_clip *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const { return td_cuda_over(clip<T>, s->n, stream, *s); }
};

template <class T> __global__ void near(const T *a, const T *b, bool *y, int64_t n, float tolerance)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const T apart = a[i] - b[i];
        y[i] = (apart < 0 ? -apart : apart) < static_cast<T>(tolerance);
    }
}

struct run_near {
    const void *a, *b;
    bool *y;
    int64_t n;
    float tolerance;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(near<T>, n, stream, static_cast<const T *>(a), static_cast<const T *>(b), y, n,
                            tolerance);
    }
};

} // namespace

int td_cuda_clip_of(enum td_cuda_type type, const struct td_cuda_clip *s, struct td_cuda_stream *stream)
{
    return td_cuda_with_real(type, run_clip{s, stream});
}

int td_cuda_near(enum td_cuda_type type, const void *a, const void *b, bool *y, int64_t n, float tolerance,
                 struct td_cuda_stream *stream)
{
    return td_cuda_with_wide(type, run_near{a, b, y, n, tolerance, stream});
}
