/* kernels/cuda/math/elementwise_of.cuh - which kernel of elementwise.cuh an op and a type are. The includer
 * defines WITH_FLOATS(type, f) and its kin, a macro for each word of unary.def and binary.def: it calls f for
 * those types of that word that are the includer's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_ELEMENTWISE_OF_CUH
#define TD_KERNELS_CUDA_MATH_ELEMENTWISE_OF_CUH

#include "kernels/cuda/math/elementwise.cuh"

namespace
{

int unary_of(enum td_cuda_unary which, enum td_cuda_type type, const void *x, void *y, int64_t n,
             struct td_cuda_stream *stream)
{
    switch (which) {
#define CASE(op, types, R)                                                                                   \
    case TD_CUDA_##op:                                                                                       \
        return WITH_##types(type, run_unary<unary_##op, R>{{}, x, y, n, stream});
#define UNARY(op, types, value) CASE(op, types, void)
#define TEST(op, types, value) CASE(op, types, bool)
#define COUNT(op, types, value) CASE(op, types, uint8_t)
#include "kernels/cuda/math/unary.def"
#undef CASE
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}

int binary_of(enum td_cuda_binary which, enum td_cuda_type type, const pair &p)
{
    switch (which) {
#define CASE(op, types, R)                                                                                   \
    case TD_CUDA_##op:                                                                                       \
        return WITH_##types(type, run_binary<binary_##op, R>{{}, p});
#define BINARY(op, types, value) CASE(op, types, void)
#define COMPARE(op, types, value) CASE(op, types, bool)
#include "kernels/cuda/math/binary.def"
#undef CASE
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}

} // namespace

#endif
