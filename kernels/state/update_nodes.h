/* kernels/state/update_nodes.h - updates of variables as nodes: what each variable is is read, what it
 * becomes is computed by ordinary ops, and that is assigned (core/compile/pass_update.c).
 *
 *   AssignSubVariableOp(v, x)   ->   ReadVariableOp(v) - x -> AssignVariableOp(v)
 *
 * So that what is computed lies where the variable does, and is fused and recorded as other steps are. Only
 * of float and double, whose every step the kernels round alike (optimizer_any.h): then the numbers are the
 * same. And where the variables' shapes are declared: what is given must have them, and scalars none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_STATE_UPDATE_NODES_H
#define TD_KERNELS_STATE_UPDATE_NODES_H

#include "core/graph/emit.h"

/* td_update_fn of the ops' rows (core/graph/op.h). */
void td_update_add(struct td_emitter *e, struct td_node *n);
void td_update_sub(struct td_emitter *e, struct td_node *n);
void td_update_descent(struct td_emitter *e, struct td_node *n);
void td_update_momentum(struct td_emitter *e, struct td_node *n);
void td_update_keras_momentum(struct td_emitter *e, struct td_node *n);
void td_update_adadelta(struct td_emitter *e, struct td_node *n);
void td_update_adagrad(struct td_emitter *e, struct td_node *n);
void td_update_adagrad_v2(struct td_emitter *e, struct td_node *n);
void td_update_adam(struct td_emitter *e, struct td_node *n);
void td_update_rmsprop(struct td_emitter *e, struct td_node *n);
void td_update_centered_rmsprop(struct td_emitter *e, struct td_node *n);

#endif
