/* kernels/cuda/fused/fused.cu - runs a fused node's steps as a program: a thread an element. The program is a
 * parameter, so all threads of a warp read it from one place and go the same way; registers are the thread's
 * own memory. A kernel made for the node (fused_source.h) has none of that to look up.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/fused/fused.h"

#include <cstring>

#include "kernels/cuda/base/scalar.cuh"

namespace
{

template <class T> __device__ T step_of(const td_cuda_instr &s, T a, T b)
{
    const T x = a, parameter = static_cast<T>(s.parameter);
    switch (s.op) {
#define UNARY_STEP(op, types, value)                                                                         \
    case TD_CUDA_FUSED_##op:                                                                                 \
        return value;
#include "kernels/cuda/math/unary.def"
#define BINARY_STEP(op, types, value)                                                                        \
    case TD_CUDA_FUSED_##op:                                                                                 \
        return value;
#include "kernels/cuda/math/binary.def"
#define FUSED(op, value)                                                                                     \
    case TD_CUDA_FUSED_##op:                                                                                 \
        return value;
#include "kernels/cuda/fused/fused.def"
    default:
        return x;
    }
}

/* S: what elements are; registers hold what an S can. */
template <class S>
__global__ void __launch_bounds__(THREADS) fused(td_cuda_fused p, td_cuda_operands operands, S *y)
{
    using T = typename td_cuda_wide<S>::type;
    T reg[TD_CUDA_FUSED_OPERANDS + TD_CUDA_FUSED_INSTRS];
    for (int64_t i = td_cuda_first(); i < p.n; i += td_cuda_stride()) {
        for (int k = 0; k < p.n_operands; k++) {
            int64_t at = 0, rest = i;
            for (int d = 0; d < p.rank; d++) {
                const int64_t up = rest / p.dim[d];
                at += (rest - up * p.dim[d]) * p.step[p.pattern[k]][d];
                rest = up;
            }
            reg[k] = td_cuda_load(static_cast<const S *>(operands.at[k])[at]);
        }
        for (int k = 0; k < p.n_instr; k++) {
            const td_cuda_instr &s = p.instr[k];
            reg[p.n_operands + k] = rounded<S>(step_of(s, reg[s.a], s.b < 0 ? T(0) : reg[s.b]));
        }
        y[i] = td_cuda_store<S>::of(reg[p.n_operands + p.n_instr - 1]);
    }
}

struct run_fused {
    const td_cuda_fused *p;
    const td_cuda_operands *a;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        td_cuda_fused whole = {};
        memcpy(&whole, p, offsetof(td_cuda_fused, step) + p->n_patterns * sizeof p->step[0]);
        return td_cuda_over(fused<T>, p->n, stream, whole, *a, static_cast<T *>(y));
    }
};

} // namespace

int td_cuda_fused_interpret(enum td_cuda_type type, const struct td_cuda_fused *p,
                            const struct td_cuda_operands *a, void *y, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_fused{p, a, y, stream});
}
