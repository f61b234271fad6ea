/* kernels/control/list_sum.h - sums of TensorLists, element by element; elements never set count as zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_LIST_SUM_H
#define TD_KERNELS_CONTROL_LIST_SUM_H

#include "kernels/control/tensor_list.h"

/* Element i of l, which the caller may change, += x; x unset: nothing. INVALID_ARGUMENT names the node when
 * dtype or shape differ. */
TD_MUST enum td_code td_list_sum_item(const struct td_node *n, struct td_tensor_list *l, int64_t i,
                                      const struct td_tensor *x, struct td_err *err);
/* The kernel of AddN for variants: lists and Optionals, or nothing at all. */
enum td_code td_list_sum_run(struct td_call *c, struct td_err *err);

#endif
