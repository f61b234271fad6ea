/* kernels/cuda/fused/fused.h - a fused node at concrete shapes, as a GPU runs it: each thread reads its
 * element of every operand, and works the steps out one after the other.
 *
 *   registers     the operands, then one a step; the last is the result
 *   steps         those of unary.def and binary.def that the compiler fuses, and of fused.def
 *   patterns      how operands are read, their dims merged as long as all of them step alike (steps.h):
 *                 pattern 0 is the result's own order
 *
 * What has fewer elements than the result is worked out by each thread that wants it. Each value depends on
 * the same elements of the operands, in the same order of steps, as the host's
 * (kernels/fused/fused_program.h).
 *
 * Half and bfloat16 are computed in float, and rounded behind each step, as the steps' own nodes do it.
 *
 * A step's operands have smaller register numbers than its result (td_cuda_fused_check).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_FUSED_FUSED_H
#define TD_KERNELS_CUDA_FUSED_FUSED_H

#include <stdbool.h>

#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

enum td_cuda_fused_op {
#define UNARY_STEP(op, types, value) TD_CUDA_FUSED_##op,
#include "kernels/cuda/math/unary.def"
#define BINARY_STEP(op, types, value) TD_CUDA_FUSED_##op,
#include "kernels/cuda/math/binary.def"
#define FUSED(op, value) TD_CUDA_FUSED_##op,
#include "kernels/cuda/fused/fused.def"
    TD_CUDA_FUSED_OPS
};

/* Operands: the inputs of a fused node and its head's result. Steps: a part each, a batch norm four. */
enum { TD_CUDA_FUSED_OPERANDS = 65, TD_CUDA_FUSED_INSTRS = 80 };

struct td_cuda_instr {
    short op, a, b; /* registers; b -1: there is one operand */
    float parameter;
};

/* step[] comes last: a program that is kept takes no more memory than its patterns need. Dims are innermost
 * first, steps in elements, 0 where an operand is repeated; the innermost step is 0 or 1. */
struct td_cuda_fused {
    int rank, n_operands, n_instr, n_patterns;
    int64_t n; /* elements of the result */
    int64_t dim[TD_CUDA_DIMS];
    struct td_cuda_instr instr[TD_CUDA_FUSED_INSTRS];
    unsigned char pattern[TD_CUDA_FUSED_OPERANDS];
    int64_t step[TD_CUDA_FUSED_OPERANDS + 1][TD_CUDA_DIMS];
};

/* Where the operands of one run lie. */
struct td_cuda_operands {
    const void *at[TD_CUDA_FUSED_OPERANDS];
};

/* Of floats, by a kernel that looks each step up: where no kernel can be made for it
 * (fused_source.h). y may be an operand of pattern 0. Returns CUDA's error number. */
int td_cuda_fused_interpret(enum td_cuda_type type, const struct td_cuda_fused *p,
                            const struct td_cuda_operands *a, void *y, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
