/* kernels/linalg/matrix_formula.h - formulas of matrices in the last two axes, for gradients
 * (kernels/formula/formula.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_MATRIX_FORMULA_H
#define TD_KERNELS_LINALG_MATRIX_FORMULA_H

#include "kernels/formula/formula.h"

/* Number of rows (back 2) or columns (back 1): an int32 vector of one. */
struct td_value td_f_dim(struct td_emitter *e, struct td_value x, int back);
/* Rows or columns from .. to - 1: int32 vectors of one; no value: from the first, to the last. */
struct td_value td_f_rows(struct td_emitter *e, struct td_value x, struct td_value from, struct td_value to);
struct td_value td_f_columns(struct td_emitter *e, struct td_value x, struct td_value from,
                             struct td_value to);
/* x [.., m, n] with row i multiplied by s [.., m] of i; with column i by s [.., n]. */
struct td_value td_f_scale_rows(struct td_emitter *e, struct td_value x, struct td_value s);
struct td_value td_f_scale_columns(struct td_emitter *e, struct td_value x, struct td_value s);
/* The identity of n rows (int32 vector of one) in the dtype of x. */
struct td_value td_f_identity(struct td_emitter *e, struct td_value x, struct td_value n);
/* What is below and on the diagonal; above and on it. */
struct td_value td_f_lower(struct td_emitter *e, struct td_value x);
struct td_value td_f_upper(struct td_emitter *e, struct td_value x);
/* x with its diagonal multiplied. */
struct td_value td_f_scale_diagonal(struct td_emitter *e, struct td_value x, double by);
/* a triangular, or its adjoint, times the result is b. */
struct td_value td_f_triangular_solve(struct td_emitter *e, struct td_value a, struct td_value b, bool lower,
                                      bool adjoint);

#endif
