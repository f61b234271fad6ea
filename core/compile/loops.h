/* core/compile/loops.h - lifts the loops of TF1 graphs (Enter, Merge, Switch, NextIteration, Exit) into
 * single nodes.
 *
 *     Enter --> Merge --> Switch --(false)--> Exit
 *                 ^          |
 *                 |       (true)
 *          NextIteration <-- body            LoopCond(cond(Merge...)) drives every Switch
 *
 * A frame becomes one node whose inputs are what its Enters were given and whose outputs are the loop
 * variables when the condition turns false. Condition and body are callables over a copy of the frame's
 * nodes, fed at the Merges and Switches. Inner frames are lifted first, so that they are plain nodes of the
 * outer body.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_LOOPS_H
#define TD_CORE_COMPILE_LOOPS_H

#include "core/compile/ir.h"

/* INVALID_ARGUMENT names the node of a frame that is not of this form (Exit without Enter, no LoopCond
 * ...). */
TD_MUST enum td_code td_loops_lift(struct td_ir *ir, struct td_model *m, struct td_err *err);

/* What a lifted loop runs, for analyses: feed k of the condition is variable or constant number cond_from[k];
 * constants follow the n_vars variables. NULL stands for 0, 1, 2 .. */
struct td_loop_parts {
    struct td_callable *cond, *body;
    int n_vars, n_cond_feeds, n_body_feeds;
    const int *cond_from, *body_from;
};
struct td_loop_parts td_loop_parts(const struct td_loop *l); /* borrowed, as long as the loop's node */

#endif
