/* proto/hlo_graph/hlo_body.h - what a body (of a reduction, a scatter, a sort) computes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_BODY_H
#define TD_PROTO_HLO_GRAPH_HLO_BODY_H

#include "proto/hlo_graph/hlo_frame.h"

/* The op of StableHLO's that the body is, of its two arguments; "" when it is more. */
const char *td_hlo_body_op(const struct td_hlo_block *b);
/* Which argument it returns as it is; -1: none. */
int td_hlo_body_returns(const struct td_hlo_block *b);

/* What reductions by a body are called: over axes (Sum), of two (AddV2), along an axis (Cumsum; NULL), by
 * segments (UnsortedSegmentSum; NULL); NULL for others. */
struct td_hlo_reducer {
    const char *over, *two, *along, *segments;
    enum {
        TD_HLO_FROM_ZERO,
        TD_HLO_FROM_ONE,
        TD_HLO_FROM_LEAST,
        TD_HLO_FROM_MOST
    } from; /* its neutral value */
};
const struct td_hlo_reducer *td_hlo_reducer(const struct td_hlo_block *b, enum td_dtype dtype);
/* Whether v is a constant that changes nothing. */
bool td_hlo_is_neutral(const struct td_hlo_reducer *r, struct td_value v);
struct td_value td_hlo_neutral(struct td_hlo_frame *f, const struct td_hlo_reducer *r, enum td_dtype dtype);

/* A number of any dtype; booleans are 0 and 1. */
struct td_hlo_scalar {
    bool is_float;
    double f;
    int64_t i;
};
/* The body's first result for these arguments; false: it has an operation that is not asked for here, or
 * too many. */
bool td_hlo_evaluate(const struct td_hlo_block *b, const struct td_hlo_scalar *args, int n_args,
                     struct td_hlo_scalar *out, int n_out);

#endif
