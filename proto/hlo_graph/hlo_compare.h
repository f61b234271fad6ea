/* proto/hlo_graph/hlo_compare.h - the order of all numbers, NaNs among them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_COMPARE_H
#define TD_PROTO_HLO_GRAPH_HLO_COMPARE_H

#include "proto/hlo_graph/hlo_frame.h"

/* Integers that compare as IEEE's total order has the floats x: -NaN, -inf, .. -0, 0, .. inf, NaN. Booleans
 * become int32s; integers stay. */
struct td_value td_hlo_order_key(struct td_hlo_frame *f, struct td_value x);

#endif
