/* kernels/nn/pool_grad.h - gradients of the ops in pool.c and pool_avg.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_POOL_GRAD_H
#define TD_KERNELS_NN_POOL_GRAD_H

#include "core/grad/grad.h"

void td_max_pool_grad(struct td_grad *g);        /* MaxPool, MaxPoolV2, MaxPool3D */
void td_max_pool_argmax_grad(struct td_grad *g); /* MaxPoolWithArgmax */
void td_max_pool_grad_grad(struct td_grad *g);   /* MaxPoolGrad, MaxPoolGradV2, MaxPool3DGrad */
void td_max_pool_grad_grad_grad(
    struct td_grad *g);                        /* MaxPoolGradGrad, MaxPoolGradGradV2, MaxPool3DGradGrad */
void td_avg_pool_grad(struct td_grad *g);      /* AvgPool, AvgPool3D */
void td_avg_pool_grad_grad(struct td_grad *g); /* AvgPoolGrad, AvgPool3DGrad */

#endif
