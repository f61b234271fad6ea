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

#endif
