/* kernels/control/control_batchable.h - rules (core/batchable/batchable_rule.h) of calls, conditionals and
 * loops. All are any_input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_CONTROL_BATCHABLE_H
#define TD_KERNELS_CONTROL_CONTROL_BATCHABLE_H

#include "core/batchable/batchable_rule.h"

td_batchable_fn td_batchable_call, td_batchable_if, td_batchable_case, td_batchable_while,
    td_batchable_switch, td_batchable_merge;

#endif
