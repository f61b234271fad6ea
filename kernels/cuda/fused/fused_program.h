/* kernels/cuda/fused/fused_program.h - from a fused node (core/graph/fused.h) to what a GPU runs of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_FUSED_FUSED_PROGRAM_H
#define TD_KERNELS_CUDA_FUSED_FUSED_PROGRAM_H

#include "core/graph/fused.h"
#include "core/graph/kernel.h"
#include "kernels/cuda/fused/fused.h"

/* A program, and where its operands come from. */
struct td_cuda_fused_plan {
    struct td_shape bare;               /* of the head's own result */
    bool apart;                         /* it has fewer elements than the node's: it lies elsewhere */
    short from[TD_CUDA_FUSED_OPERANDS]; /* inputs of the node; -1: the head's result */
    struct td_cuda_fused program;       /* last: see there */
};

/* Why no kernel here runs n; NULL: one does, if its dims are few enough. */
const char *td_cuda_fused_refuses(const struct td_node *n);
/* For these shapes. *refusal: it does not serve them, and why; else NULL. */
TD_MUST enum td_code td_cuda_fused_make(const struct td_kernel_query *q, struct td_cuda_fused_plan *out,
                                        const char **refusal, struct td_err *err);
/* Steps read registers before their own. */
TD_MUST enum td_code td_cuda_fused_check(const struct td_cuda_fused *p, struct td_err *err);
/* Bytes of the program that are used. */
size_t td_cuda_fused_bytes(const struct td_cuda_fused *p);

#endif
