/* kernels/sparse/sparse_grad.h - gradients of ops on sparse tensors, by their values: those of
 * sparse_dense.c, sparse_layout.c, sparse_math.c and sparse_rows.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_SPARSE_SPARSE_GRAD_H
#define TD_KERNELS_SPARSE_SPARSE_GRAD_H

#include "core/grad/grad.h"

void td_sparse_to_dense_grad(struct td_grad *g);
void td_sparse_dense_matmul_grad(struct td_grad *g); /* SparseTensorDenseMatMul */
void td_sparse_dense_add_grad(struct td_grad *g);    /* SparseTensorDenseAdd */
void td_sparse_cwise_add_grad(struct td_grad *g), td_sparse_cwise_mul_grad(struct td_grad *g);
void td_sparse_cwise_div_grad(struct td_grad *g);

void td_sparse_reorder_grad(struct td_grad *g);
void td_sparse_slice_grad(struct td_grad *g);
void td_sparse_add_grad(struct td_grad *g);
void td_sparse_reduce_sum_grad(struct td_grad *g);
void td_sparse_softmax_grad(struct td_grad *g);
void td_sparse_fill_rows_grad(struct td_grad *g);        /* SparseFillEmptyRows */
void td_sparse_fill_ragged_rows_grad(struct td_grad *g); /* RaggedFillEmptyRows */

#endif
