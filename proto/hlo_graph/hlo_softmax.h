/* proto/hlo_graph/hlo_softmax.h - softmax, which StableHLO has no operation for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_SOFTMAX_H
#define TD_PROTO_HLO_GRAPH_HLO_SOFTMAX_H

#include "proto/hlo_graph/hlo_frame.h"

/* Whether the division is the last of a softmax along the last axis: its operand; NULL. */
const struct td_hlo_value *td_hlo_softmax_of(const struct td_hlo_op *divide);

#endif
