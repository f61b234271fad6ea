/* kernels/control/list_grad.h - gradients of the ops in list_element.c and list_bulk.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_LIST_GRAD_H
#define TD_KERNELS_CONTROL_LIST_GRAD_H

#include "core/grad/grad.h"

void td_list_push_grad(struct td_grad *g);
void td_list_pop_grad(struct td_grad *g);
void td_list_get_grad(struct td_grad *g);
void td_list_set_grad(struct td_grad *g);
void td_list_resize_grad(struct td_grad *g);
void td_list_from_tensor_grad(struct td_grad *g);
void td_list_stack_grad(struct td_grad *g);
void td_list_gather_grad(struct td_grad *g);
void td_list_scatter_grad(struct td_grad *g); /* Scatter, ScatterV2 */
void td_list_scatter_into_grad(struct td_grad *g);
void td_list_concat_grad(struct td_grad *g); /* Concat, ConcatV2 */
void td_list_split_grad(struct td_grad *g);
/* Of the ops that these add (list_sum.c). */
void td_list_add_item_grad(struct td_grad *g);
void td_list_add_items_grad(struct td_grad *g);
void td_list_take_item_grad(struct td_grad *g);
void td_list_take_items_grad(struct td_grad *g);

#endif
