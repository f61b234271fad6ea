/* proto/hlo_graph/hlo_sort.h - elements along the last axis by their places.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_SORT_H
#define TD_PROTO_HLO_GRAPH_HLO_SORT_H

#include "proto/hlo_graph/hlo_frame.h"

/* x[.., index[.., i]]: both of that rank, and the same but along the last axis. */
struct td_value td_hlo_along_last(struct td_hlo_frame *f, struct td_value x, struct td_value index, int rank);

#endif
