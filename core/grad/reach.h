/* core/grad/reach.h - which values of an IR a gradient can pass: down from sources, up from targets, and
 * round a loop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_REACH_H
#define TD_CORE_GRAD_REACH_H

#include "core/compile/ir.h"

/* ir is in order. at: by node id, true at the sources (at the makers of targets) on entry, at all that they
 * reach (that reach them) on return. An edge of a dtype that has no gradient leads nowhere, nor does an op
 * that TensorFlow calls not differentiable. */
void td_grad_reach_down(const struct td_ir *ir, bool *at, int n_nodes);
void td_grad_reach_up(const struct td_ir *ir, bool *at);

/* Of a loop whose body is ir, variable i being feed i and fetch i: does a gradient stand at it between two
 * rounds? That is so when it follows, in any number of rounds, from a variable that is wanted before the
 * loop, and what has arrived behind the loop follows from it. */
TD_MUST enum td_code td_grad_loop_state(const struct td_ir *ir, const bool *wanted, const bool *arrived,
                                        bool *state, struct td_err *err);

#endif
