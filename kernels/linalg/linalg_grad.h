/* kernels/linalg/linalg_grad.h - gradients of the ops in linalg.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_LINALG_GRAD_H
#define TD_KERNELS_LINALG_LINALG_GRAD_H

#include "core/grad/grad.h"

void td_qr_grad(struct td_grad *g);
void td_svd_grad(struct td_grad *g);
void td_self_adjoint_eig_grad(struct td_grad *g);
void td_eig_grad(struct td_grad *g);
void td_matrix_solve_ls_grad(struct td_grad *g);

#endif
