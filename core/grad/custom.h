/* core/grad/custom.h - nodes whose gradient the file brings along as a function (tf.custom_gradient).
 *
 * Such a function reads tensors of the one that the node is in. The node becomes one of the op with
 * TD_ROLE_CUSTOM_GRADIENT, which shows its inputs as before and holds on to those tensors as further ones, so
 * that they are there wherever the node is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_CUSTOM_H
#define TD_CORE_GRAD_CUSTOM_H

#include "core/graph/graph.h"

#define TD_GRADIENT_TYPE "_gradient_op_type" /* the attribute that says which gradient a node has */

/* Functions of lib with such nodes are copied (arena) and stand in lib in place of the ones it borrowed. A
 * node whose tensors cannot be found stays as it is. */
TD_MUST enum td_code td_grad_customize(struct td_library *lib, const struct td_op_table *ops,
                                       struct td_arena *arena, struct td_err *err);
/* What the library has registered under that name; NULL. */
const struct td_custom_gradient *td_custom_gradient_find(const struct td_library *lib, const char *type);

#endif
