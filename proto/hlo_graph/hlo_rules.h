/* proto/hlo_graph/hlo_rules.h - the operations of StableHLO that have a rule, by family, and who finds it
 * by name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_RULES_H
#define TD_PROTO_HLO_GRAPH_HLO_RULES_H

#include "proto/hlo_graph/hlo_frame.h"

#define RULE(name, rule, as) extern td_hlo_rule td_hlo_##rule;
#include "proto/hlo_graph/hlo_rules.def"
#undef RULE

/* The rule of that name runs on op; false: there is none. */
bool td_hlo_run_as(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *name);
/* All operations of the block but the last, which returns. */
void td_hlo_block(struct td_hlo_frame *f, const struct td_hlo_block *b);

#endif
