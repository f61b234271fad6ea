/* proto/hlo_graph/hlo_control.h - calls, for the rules that end in one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_CONTROL_H
#define TD_PROTO_HLO_GRAPH_HLO_CONTROL_H

#include "proto/hlo_graph/hlo_frame.h"

/* Calls the function, or that of the module's which the attribute names, on the op's operands. */
void td_hlo_call_function(struct td_hlo_frame *f, const struct td_hlo_op *op,
                          const struct td_function *called);
void td_hlo_call_named(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *attr);

#endif
