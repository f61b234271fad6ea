/* core/layout.h - a plan at concrete input shapes: every shape that can be known, values that follow from shapes,
 * where intermediates lie in the run's block, and prepared kernels.
 *
 *   mode[step]   SKIP   all outputs are known values: nothing to run
 *                READY  every output shape is known
 *                CHECK  as READY, but a value that the shape function judges (an axis, a size) comes with the run:
 *                       it is called again, with that value, before the kernel
 *                INFER  shapes are found when the step runs
 *                FAR, FAR_CHECK  as READY and CHECK, but the kernel runs on the model's device (core/far.h)
 *                FAR_INFER  as INFER, and there too once all its output shapes are found
 *   offset[v]    byte offset in the block, or -1: the value gets a buffer when it is made
 *
 * A frame is one run's storage: the block and a tensor slot a value; frames are pooled. A layout is immutable but for its pool.
 *
 * Invariant: two values whose lifetimes overlap do not share bytes, unless one is a view of the other. Groups of a region
 * (core/branch.h) are taken to run at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_LAYOUT_H
#define TD_CORE_LAYOUT_H

#include <pthread.h>

#include "core/plan.h"

enum td_step_mode { TD_STEP_SKIP, TD_STEP_READY, TD_STEP_CHECK, TD_STEP_INFER, TD_STEP_FAR, TD_STEP_FAR_CHECK, TD_STEP_FAR_INFER };
enum td_slot_state { TD_SLOT_UNSET, TD_SLOT_SET, TD_SLOT_OWNED };

struct td_frame {
    struct td_frame *next;
    struct td_buffer *block;
    struct td_tensor *slots;          /* n_values */
    unsigned char *state;             /* n_values: enum td_slot_state */
    bool *dead, *step_dead;           /* n_values, n_steps; NULL without dead values */
    const struct td_tensor **in;      /* max_in */
    struct td_tensor *snapshots;      /* max_in: what reference edges held */
    struct td_shape *shapes;          /* max_in + max_out: for inference at run time */
    struct td_far *far;               /* the run's side on the device; NULL: nothing runs there */
};

static inline bool td_step_is_far(enum td_step_mode mode) { return mode >= TD_STEP_FAR; }

struct td_layout {
    const struct td_plan *plan;
    struct td_shape *key;             /* n_feeds */
    struct td_shape *shape;           /* n_values */
    struct td_tensor *known;          /* n_values; dtype NONE where not known; owned */
    int64_t *offset;                  /* n_values */
    unsigned char *mode;              /* n_steps */
    void **state;                     /* n_steps: prepared kernels */
    struct td_branch_cost *branch;    /* n_regions: what their groups took */
    bool has_far;                     /* some step's mode is a far one */
    size_t block_bytes, bytes;        /* of a run's block; of the layout itself */
    atomic_int refs;
    uint64_t last_used;               /* guarded by the callable's lock */
    pthread_mutex_t mu;
    struct td_frame *frames;          /* idle; guarded by mu */
};

TD_MUST enum td_code td_layout_new(const struct td_plan *p, const struct td_shape *feeds, struct td_layout **out,
                                   struct td_err *err);
/* Gives the values their offsets, when shapes and modes are known. False without memory. (core/layout_memory.c) */
TD_MUST bool td_layout_place(struct td_layout *l);
struct td_layout *td_layout_ref(struct td_layout *l);
void td_layout_unref(struct td_layout *l);
TD_MUST enum td_code td_frame_take(struct td_layout *l, struct td_frame **out, struct td_err *err);
void td_frame_give(struct td_layout *l, struct td_frame *f);

/* Propagation alone, one step at a time, for an analysis (core/rows.c) that fills in between steps what shape functions
 * cannot tell. The layout is the walk's; shape[] and known[] of feeds and of the steps done may be written. */
struct td_layout_walk;
TD_MUST enum td_code td_layout_walk_new(const struct td_plan *p, const struct td_shape *feeds,
                                        struct td_layout_walk **out, struct td_err *err);
struct td_layout *td_layout_walk_layout(struct td_layout_walk *w);
/* Shapes, and values where they follow, of the outputs of step k. Returns the shapes of its inputs, until the next step. */
const struct td_shape *td_layout_walk_step(struct td_layout_walk *w, int k);
void td_layout_walk_free(struct td_layout_walk *w);

#endif
