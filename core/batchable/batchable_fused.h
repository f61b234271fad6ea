/* core/batchable/batchable_fused.h - the rule (core/batchable/batchable_rules.h) of fused nodes: that of each
 * part in turn.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_FUSED_H
#define TD_CORE_BATCHABLE_BATCHABLE_FUSED_H

#include "core/batchable/batchable_rules.h"

td_rows_fn td_rows_fused;

#endif
