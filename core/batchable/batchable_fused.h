/* core/batchable/batchable_fused.h - the rule (core/batchable/batchable_rule.h) of fused nodes: that of each
 * part in turn.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_FUSED_H
#define TD_CORE_BATCHABLE_BATCHABLE_FUSED_H

#include "core/batchable/batchable_rule.h"

td_batchable_fn td_batchable_fused;

#endif
