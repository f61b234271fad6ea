/* core/batchable/batchable_list.h - rules (core/batchable/batchable_rules.h) of TensorLists and TensorArrays:
 * a list whose elements all have the rows at one axis.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_LIST_H
#define TD_CORE_BATCHABLE_BATCHABLE_LIST_H

#include "core/batchable/batchable_rules.h"

td_rows_fn td_rows_list_new, td_rows_list_empty, td_rows_list_from, td_rows_list_get, td_rows_list_pop,
    td_rows_list_set, td_rows_list_push, td_rows_list_stack, td_rows_list_length, td_rows_array_new,
    td_rows_array_write, td_rows_array_scatter, td_rows_array_read, td_rows_array_gather, td_rows_array_size;

/* Elements of list a become what covers those of b too; false when they differ in place or shape. Lengths are
 * left. */
bool td_rows_join_items(struct td_row_axis *a, const struct td_row_axis *b);

#endif
