/* kernels/cuda/math/elementwise.cu - element-wise ops on floats, bools and the integers that are met most;
 * the others are in integers.cu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/complex.h"
#include "kernels/cuda/math/complex.cuh"

namespace
{

template <class F> int with_native(int type, F f)
{
    return type == TD_CUDA_INT32   ? f(int32_t())
           : type == TD_CUDA_INT64 ? f(int64_t())
                                   : td_cuda_with_wide(type, f);
}

template <class F> int with_index(int type, F f)
{
    return type == TD_CUDA_INT32   ? f(int32_t())
           : type == TD_CUDA_INT64 ? f(int64_t())
                                   : static_cast<int>(cudaErrorInvalidValue);
}

template <class F> int with_equals(int type, F f)
{
    return type == TD_CUDA_BOOL ? f(bool()) : td_cuda_with_number(type, f);
}

} // namespace

#define WITH_BOOLS td_cuda_with_bool
#define WITH_WIDE td_cuda_with_wide
#define WITH_FLOATS td_cuda_with_float
#define WITH_NATIVE with_native
#define WITH_NUMBERS td_cuda_with_number
#define WITH_SIGNED td_cuda_with_number
#define WITH_REALS td_cuda_with_number
#define WITH_EQUALS with_equals
#define WITH_INTS with_index
#define WITH_ALL td_cuda_with_number
#define WITH_ALL_NUMBERS td_cuda_with_number
#define WITH_ALL_SIGNED td_cuda_with_number
#define WITH_ALL_FLOATS td_cuda_with_float
#include "kernels/cuda/math/elementwise_of.cuh"

int td_cuda_unary(enum td_cuda_unary op, enum td_cuda_type type, const void *x, void *y, int64_t n,
                  struct td_cuda_stream *stream)
{
    return td_cuda_is_rare(type)      ? td_cuda_unary_rare(op, type, x, y, n, stream)
           : td_cuda_is_complex(type) ? td_cuda_unary_complex(op, type, x, y, n, stream)
                                      : unary_of(op, type, x, y, n, stream);
}

int td_cuda_binary(enum td_cuda_binary op, enum td_cuda_type type, const struct td_cuda_steps *steps,
                   const void *a, const void *b, void *y, int64_t n, struct td_cuda_stream *stream)
{
    const pair p = {steps, a, b, y, n, stream};
    return td_cuda_is_rare(type)      ? td_cuda_binary_rare(op, type, steps, a, b, y, n, stream)
           : td_cuda_is_complex(type) ? td_cuda_binary_complex(op, type, steps, a, b, y, n, stream)
                                      : binary_of(op, type, p);
}

int td_cuda_add_many(enum td_cuda_type type, const struct td_cuda_addends *s, void *y,
                     struct td_cuda_stream *stream)
{
    return td_cuda_is_complex(type) ? td_cuda_add_many_complex(type, s, y, stream)
                                    : td_cuda_with_real(type, run_add_many{s, y, stream});
}
