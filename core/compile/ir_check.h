/* core/compile/ir_check.h - what holds of the compiler's graph between passes, and what a pass must keep.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_IR_CHECK_H
#define TD_CORE_COMPILE_IR_CHECK_H

#include "core/compile/ir.h"

/* A sorted IR: ids are places, edges point back to nodes that are there and to outputs that they have, types
 * along edges fit, feeds, fetches and roots are there; of fused nodes the parts are gone and in order. */
TD_MUST enum td_code td_ir_check(const struct td_ir *ir, struct td_err *err);
/* A fused node alone: each part reads inputs of the node and parts before it, the head is first. */
TD_MUST enum td_code td_fused_check(const struct td_node *n, struct td_err *err);

enum { TD_PASS_EFFECTS = 64 };
/* A graph before a pass: what is fetched, and which of its first nodes with effects come before which. */
struct td_pass_promise {
    int n_effects, n_fetches, n_feeds;
    struct td_node *effect[TD_PASS_EFFECTS];
    uint64_t before[TD_PASS_EFFECTS]; /* by effect: bits of those ordered before it */
    enum td_dtype fetched[TD_PASS_EFFECTS];
};
void td_pass_promise(const struct td_ir *ir, struct td_pass_promise *p);
/* Holds a sorted graph to what it was: the same feeds, fetches of the same types; of two nodes with effects
 * that are both still there, one ordered before the other still is. */
TD_MUST enum td_code td_pass_check(const struct td_ir *ir, const struct td_pass_promise *p,
                                   struct td_err *err);

#endif
