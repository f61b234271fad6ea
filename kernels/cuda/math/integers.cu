/* kernels/cuda/math/integers.cu - the element-wise ops on the integers that are seldom met: of 8 and 16 bits,
 * and those without a sign.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/launch.cuh"

namespace
{

template <class F> int with_none(int, const F &)
{
    return static_cast<int>(cudaErrorInvalidValue);
}

template <class F> int with_short(int type, F f)
{
    return type == TD_CUDA_INT8    ? f(int8_t())
           : type == TD_CUDA_INT16 ? f(int16_t())
                                   : static_cast<int>(cudaErrorInvalidValue);
}

} // namespace

#define WITH_BOOLS with_none
#define WITH_WIDE with_none
#define WITH_FLOATS with_none
#define WITH_NATIVE with_none
#define WITH_NUMBERS with_none
#define WITH_SIGNED with_short
#define WITH_REALS td_cuda_with_rare
#define WITH_EQUALS td_cuda_with_rare
#define WITH_INTS td_cuda_with_rare
#define WITH_ALL td_cuda_with_rare
#define WITH_ALL_NUMBERS with_none
#define WITH_ALL_SIGNED with_short
#define WITH_ALL_FLOATS with_none
#include "kernels/cuda/math/elementwise.cuh"

int td_cuda_unary_rare(enum td_cuda_unary op, enum td_cuda_type type, const void *x, void *y, int64_t n,
                       struct td_cuda_stream *stream)
{
    return unary_of(op, type, x, y, n, stream);
}

int td_cuda_binary_rare(enum td_cuda_binary op, enum td_cuda_type type, const struct td_cuda_steps *steps,
                        const void *a, const void *b, void *y, int64_t n, struct td_cuda_stream *stream)
{
    const pair p = {steps, a, b, y, n, stream};
    return binary_of(op, type, p);
}
