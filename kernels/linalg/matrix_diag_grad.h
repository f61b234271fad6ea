/* kernels/linalg/matrix_diag_grad.h - gradients of the ops in matrix_diag.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_MATRIX_DIAG_GRAD_H
#define TD_KERNELS_LINALG_MATRIX_DIAG_GRAD_H

#include "core/grad/grad.h"

void td_matrix_band_part_grad(struct td_grad *g);
void td_matrix_diag_grad(struct td_grad *g);      /* MatrixDiag, V2, V3 */
void td_matrix_diag_part_grad(struct td_grad *g); /* MatrixDiagPart, V2, V3 */
void td_matrix_set_diag_grad(struct td_grad *g);  /* MatrixSetDiag, V2, V3 */
void td_diag_grad(struct td_grad *g), td_diag_part_grad(struct td_grad *g);

#endif
