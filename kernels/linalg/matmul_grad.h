/* kernels/linalg/matmul_grad.h - gradients of the ops in matmul.c and of SparseMatMul.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_MATMUL_GRAD_H
#define TD_KERNELS_LINALG_MATMUL_GRAD_H

#include "core/grad/grad.h"

void td_matmul_grad(struct td_grad *g); /* SparseMatMul, too */
void td_batch_matmul_grad(struct td_grad *g);

#endif
