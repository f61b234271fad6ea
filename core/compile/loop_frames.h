/* core/compile/loop_frames.h - the frames of TF1 loops: which node is in which, and what each one is made of.
 *
 * A frame is what lies between the Enters and the Exits of one loop. Frames nest; the graph itself is none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_LOOP_FRAMES_H
#define TD_CORE_COMPILE_LOOP_FRAMES_H

#include "core/compile/ir.h"

struct td_loop_frame {
    int parent; /* index; -1: the graph itself */
    const char *name, *path;
    int depth;
    bool lifted; /* a node stands for it now */
};

struct td_loop_frames {
    struct td_ir *ir;
    struct td_loop_frame *frame;
    int n;
    int *of; /* by node id: the frame its outputs are in; -1 outside. Room for a node more each frame. */
};

/* INVALID_ARGUMENT for loops that nest without end. td_loop_frames_fini also after failure. */
TD_MUST enum td_code td_loop_frames_find(struct td_loop_frames *x, struct td_ir *ir, struct td_err *err);
void td_loop_frames_fini(struct td_loop_frames *x);
/* The frame not lifted yet that lies deepest; -1: none is left. */
int td_loop_frames_deepest(const struct td_loop_frames *x);

/* What is in one frame; arrays are the IR arena's. */
struct td_loop_members {
    struct td_node **nodes;
    struct td_node **enters, **merges, **exits; /* merges: of loop variables */
    int n_nodes, n_enters, n_merges, n_exits;
    struct td_node *cond;      /* LoopCond */
    struct td_value *start;    /* room for: what each variable, then each constant starts with */
    struct td_node **constant; /* room for: the Enters of constants */
    int n_constants;
};

/* Fills *p, which is zeros, but for its last three members. A frame without Enters has nothing to lift.
 * INVALID_ARGUMENT names what a loop lacks, or has twice. */
TD_MUST enum td_code td_loop_frames_collect(const struct td_loop_frames *x, int frame,
                                            struct td_loop_members *p, struct td_err *err);

/* Is n of an op with that flag? */
bool td_loop_is(const struct td_node *n, uint32_t flag);
/* Which input of merge m comes from NextIteration; -1: m is no loop merge. */
int td_loop_back_input(const struct td_node *m);
bool td_loop_is_merge(const struct td_node *n);

#endif
