/* kernels/linalg/linalg_solve_grad.h - gradients of the ops in linalg_solve.c, linalg_band.c and
 * linalg_function.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_LINALG_SOLVE_GRAD_H
#define TD_KERNELS_LINALG_LINALG_SOLVE_GRAD_H

#include "core/grad/grad.h"

void td_cholesky_grad(struct td_grad *g);
void td_matrix_inverse_grad(struct td_grad *g);
void td_matrix_determinant_grad(struct td_grad *g);
void td_log_matrix_determinant_grad(struct td_grad *g);
void td_matrix_square_root_grad(struct td_grad *g);
void td_matrix_solve_grad(struct td_grad *g);
void td_triangular_solve_grad(struct td_grad *g);
void td_banded_solve_grad(struct td_grad *g);
void td_tridiagonal_matmul_grad(struct td_grad *g);
void td_tridiagonal_solve_grad(struct td_grad *g);

/* The gradient of the matrix whose lower factor is l, of which dl is the gradient. */
struct td_value td_cholesky_formula(struct td_emitter *e, struct td_value l, struct td_value dl);

#endif
