/* kernels/nn/norm_grad.h - gradients of the ops in norm.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_NORM_GRAD_H
#define TD_KERNELS_NN_NORM_GRAD_H

#include "core/grad/grad.h"

void td_batch_norm_grad(struct td_grad *g);        /* FusedBatchNorm, V2, V3 */
void td_batch_norm_grad_grad(struct td_grad *g);   /* FusedBatchNormGrad, V2, V3 */
void td_global_batch_norm_grad(struct td_grad *g); /* BatchNormWithGlobalNormalization */

/* BatchNormWithGlobalNormalization, and what arrives at its output. */
struct td_global_norm {
    struct td_value t, m, v, gamma, dy;
    float epsilon;
    bool scaled;
};
/* The gradients of t, m, v, beta, gamma. */
void td_global_batch_norm_formula(struct td_emitter *e, const struct td_global_norm *s, struct td_value *out);

#endif
