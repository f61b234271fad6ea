/* core/grad/mixed.h - the products of a part computed in another float than their values have.
 *
 *   z = MatMul(x, y)   becomes   z = Cast(MatMul(Cast(x), Cast(y)))         x, y, z float; inside: bfloat16
 *
 * What Keras calls a mixed policy: operands are rounded, the product is summed up in float by its kernel and
 * rounded once, everything else stays as it is. Done before anything is differentiated, the gradients through
 * a product are products of rounded operands as well, since the gradient of a Cast is a Cast.
 *
 * Which ops are products their rows say (TD_OP_PRODUCT).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_MIXED_H
#define TD_CORE_GRAD_MIXED_H

#include "core/grad/backward.h"

/* Every product of floats in ir, and in the functions of its loops and branches, which become functions of
 * their own in ctx->lib. Nodes stay who they are to those that read them; ir is not in order afterwards.
 * *n: how many. Products with a gradient of the file's own are left alone. */
TD_MUST enum td_code td_mixed_products(struct td_grad_context *ctx, struct td_ir *ir, enum td_dtype dtype,
                                       int *n, struct td_err *err);

#endif
