/* kernels/cuda/fused/fused_source.h - CUDA C of a kernel made for one fused node.
 *
 *   extern "C" __global__ void fused_one(shape s, const E *a0, .., E *y, long long n)   an element at a time
 *   extern "C" __global__ void fused_many(..)                                           16 bytes at a time
 *
 * shape: the dims, then the steps of the patterns but the first.
 *
 * The text has the steps and which operands are repeated, but no dims: nodes that differ in those alone share
 * a kernel. Its formulas are the words of unary.def, binary.def and fused.def. It includes nothing, so that
 * NVRTC needs no toolkit beside it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_FUSED_FUSED_SOURCE_H
#define TD_KERNELS_CUDA_FUSED_FUSED_SOURCE_H

#include "kernels/cuda/fused/fused.h"
#include "kernels/cuda/base/made.h"

enum { TD_CUDA_FUSED_TEXT = 48 << 10 }; /* bytes of a source at most */

/* Returns new; NULL: there is no memory, it would be too long, or the type is no float. */
char *td_cuda_fused_source(enum td_cuda_type type, const struct td_cuda_fused *p);

/* Runs the program by the kernels that were made of its source. y may be an operand of pattern 0. Returns
 * CUDA's error number. */
int td_cuda_fused_launch(const struct td_cuda_made *made, enum td_cuda_type type,
                         const struct td_cuda_fused *p, const struct td_cuda_operands *a, void *y,
                         struct td_cuda_stream *stream);

#endif
