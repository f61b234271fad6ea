/* proto/hlo_graph/hlo_slice.h - padding, for the rules that pad before they do their own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_SLICE_H
#define TD_PROTO_HLO_GRAPH_HLO_SLICE_H

#include "proto/hlo_graph/hlo_frame.h"

/* Each of `rank` numbers: elements put in front, behind and between; low and high below 0 cut. between:
 * NULL: none. */
struct td_hlo_padding {
    int rank;
    const int64_t *low, *high, *between;
};

struct td_value td_hlo_padded(struct td_hlo_frame *f, struct td_value x, struct td_value value,
                              const struct td_hlo_padding *p);

#endif
