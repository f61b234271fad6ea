/* core/run/inner.h - what a step of control flow runs, bound with the plan around it: where a device can
 * record it as a part of what it records of that plan (core/run/device_inner.c).
 *
 * If and Case have their branches, While its condition and its body. They are bound to the shapes of the
 * step's inputs when the plan around them is bound to its own, and may have such steps themselves. A step has
 * one of these where the device has conditional nodes, its inputs are numbers of known shapes, each step
 * inside is one of the device's that does the same in every run but for the bytes of its inputs
 * (td_stretch_is_steady), and what comes out is of one shape, whatever is decided: all branches give the same
 * shapes and dtypes, and a round of a loop gives what it was given. So the shapes of its results are known,
 * too, to the steps behind it.
 *
 * Threads: immutable once found.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_INNER_H
#define TD_CORE_RUN_INNER_H

#include "core/run/bound_plan.h"

enum td_inner_part { TD_LOOP_COND, TD_LOOP_BODY, TD_LOOP_PARTS };

struct td_inner {
    struct td_bound_plan **bound; /* n: branches in their order, or a loop's condition and body; references */
    int n;
    bool loop;
    int *from; /* of a loop, by carried value: the one whose bytes the next round's are; -1: they are new */
    int n_judges; /* launches that judge their inputs, in all of them, as deep as they go */
    int n_loops;  /* loops, it and those in it */
    int levels;   /* how many of them are one in another */
};

/* What step k of l, whose inputs' shapes are known as far as they will be, runs, and the shapes of its
 * results (out [n_out]). NULL: it is no such step, or cannot be recorded, and out is as it was; *cut: for
 * want of memory or time. */
struct td_inner *td_inner_find(const struct td_bound_plan *l, int k, struct td_shape *out, bool *cut);
void td_inner_free(struct td_inner *x); /* accepts NULL */

#endif
