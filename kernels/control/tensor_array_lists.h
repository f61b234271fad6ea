/* kernels/control/tensor_array_lists.h - what the ops of TensorArrays are on TensorLists
 * (core/compile/array_lists.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_TENSOR_ARRAY_LISTS_H
#define TD_KERNELS_CONTROL_TENSOR_ARRAY_LISTS_H

#include "core/graph/op.h"

extern const struct td_array_rule td_array_new_rule, td_array_read_rule, td_array_write_rule,
    td_array_scatter_rule, td_array_gather_rule, td_array_size_rule;

#endif
