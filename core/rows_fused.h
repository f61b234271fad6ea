/* core/rows_fused.h - the rule (core/rows_rules.h) of fused nodes: that of each part in turn.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_ROWS_FUSED_H
#define TD_CORE_ROWS_FUSED_H

#include "core/rows_rules.h"

td_rows_fn td_rows_fused;

#endif
