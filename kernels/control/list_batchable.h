/* kernels/control/list_batchable.h - rules (core/batchable/batchable_rule.h) of TensorLists and TensorArrays:
 * a list whose elements all have the rows at one axis. All are any_input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_LIST_BATCHABLE_H
#define TD_KERNELS_CONTROL_LIST_BATCHABLE_H

#include "core/batchable/batchable_rule.h"

td_batchable_fn td_batchable_list_new, td_batchable_list_empty, td_batchable_list_from, td_batchable_list_get,
    td_batchable_list_pop, td_batchable_list_set, td_batchable_list_push, td_batchable_list_stack,
    td_batchable_list_length, td_batchable_list_take, td_batchable_list_gather;
td_batchable_fn td_batchable_array_new, td_batchable_array_write, td_batchable_array_scatter,
    td_batchable_array_read, td_batchable_array_gather, td_batchable_array_size;

#endif
