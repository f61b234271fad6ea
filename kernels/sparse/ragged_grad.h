/* kernels/sparse/ragged_grad.h - gradients of ops on ragged tensors, by their values: those of ragged.c,
 * ragged_dense.c and ragged_variant.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_SPARSE_RAGGED_GRAD_H
#define TD_KERNELS_SPARSE_RAGGED_GRAD_H

#include "core/grad/grad.h"

void td_ragged_gather_grad(struct td_grad *g);
void td_ragged_to_sparse_grad(struct td_grad *g);
void td_ragged_to_tensor_grad(struct td_grad *g);
void td_ragged_to_variant_grad(struct td_grad *g);
void td_ragged_from_variant_grad(struct td_grad *g);

#endif
