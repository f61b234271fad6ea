/* core/run/bound_plan.h - a plan at concrete input shapes: every shape that can be known, values that follow
 * from shapes, where intermediates lie in the run's block, and prepared kernels.
 *
 *   mode[step]   SKIP   all outputs are known values: nothing to run
 *                READY  every output shape is known
 *                CHECK  as READY, but a value that the shape function judges (an axis, a size) comes with
 *                       the run: it is called again, with that value, before the kernel
 *                INFER  shapes are found when the step runs
 *                DEVICE, DEVICE_CHECK  as READY and CHECK, but the kernel runs on the model's device
 *                       (core/run/device_run.h)
 *                DEVICE_INFER  as INFER, and there too once all its output shapes are found, or a kernel is
 *                       to find them (core/run/device_sized.c)
 *   offset[v]    byte offset in the block, or -1: the value gets a buffer when it is made
 *   choice[step] the kernel row for these shapes, prepared, and why those before it were passed over
 *                (core/run/select.h)
 *
 * A frame is one run's storage: the block and a tensor slot a value; frames are pooled. A bound plan is
 * immutable but for its pool.
 *
 * Invariant (td_bound_plan_check): two values whose lifetimes overlap do not share bytes, unless one is a
 * view of the other. Groups of a region (core/compile/parallel_regions.h) are taken to run at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_BOUND_PLAN_H
#define TD_CORE_RUN_BOUND_PLAN_H

#include <pthread.h>

#include "core/base/list.h"
#include "core/base/thread_pool.h"
#include "core/run/plan.h"
#include "core/run/select.h"

enum td_step_mode {
    TD_STEP_SKIP,
    TD_STEP_READY,
    TD_STEP_CHECK,
    TD_STEP_INFER,
    TD_STEP_DEVICE,
    TD_STEP_DEVICE_CHECK,
    TD_STEP_DEVICE_INFER
};
enum td_slot_state { TD_SLOT_UNSET, TD_SLOT_SET, TD_SLOT_OWNED };

/* What a region takes, learnt from the runs of one bound plan. */
struct td_region_cost {
    struct td_parallel_cost whole;
    td_timing_least ns[TD_REGION_GROUPS]; /* by group */
};

static inline bool td_step_on_device(enum td_step_mode mode)
{
    return mode >= TD_STEP_DEVICE;
}

/* Steps [first, end), or one that is a loop, or has one in it (core/run/stretch.h). */
struct td_stretch {
    int first, end;
    bool loop;
};

struct td_inner;
struct td_settled;

struct td_bound_plan {
    const struct td_plan *plan;
    struct td_shape *key;    /* n_feeds */
    struct td_shape *shape;  /* n_values */
    struct td_tensor *known; /* n_values; dtype NONE where not known; owned */
    int64_t *offset;         /* n_values */
    unsigned char *mode;     /* n_steps */
    /* n_steps: the kernel of each, prepared. NULL: found in the run (INFER, or none serves) */
    struct td_choice *choice;
    int64_t *workspace; /* n_steps: offset of the choice's workspace in the block; -1: it needs none */
    struct td_select_notes passed_over; /* by step: rows that were asked and do not run, and why */
    struct td_region_cost *region_cost; /* n_regions: what their groups took */
    struct td_inner **inner;      /* n_steps: what control flow runs (core/run/inner.h); NULL: not bound */
    struct td_stretch *stretches; /* n_stretches, ascending */
    int n_stretches;
    struct td_settled
        *settled;     /* steps that need not run each time (core/run/settled.h); NULL: there are none */
    bool uses_device; /* some step's mode is a device one, or a loop may go round there */
    /* memory or time ran out while it was bound: steps are left to the run, or to the host, for which
     * another try may do more (core/function/callable.c) */
    bool cut;
    size_t block_bytes, bytes; /* of a run's block; of the bound plan itself */
    atomic_int refs;
    uint64_t last_used; /* which use of the callable; guarded by its lock, as is */
    int uses, again;    /* how many; of one that was cut: which of them is to bind it anew */
    int64_t used_ms;    /* when that was, on a clock of some ms (core/function/plan_trim.c) */
    pthread_mutex_t mu;
    struct td_frame *frames; /* idle; guarded by mu */
    struct td_link listed;   /* on core/run/frame.c's list of all */
};

/* Frees idle frames of all bound plans, but for those that somebody uses this moment: by a thread that may
 * hold any lock. */
void td_frames_trim(void);
/* Bytes of all bound plans, idle frames included. */
size_t td_bound_plans_bytes(void);

TD_MUST enum td_code td_bound_plan_new(const struct td_plan *p, const struct td_shape *feeds,
                                       struct td_bound_plan **out, struct td_err *err);
/* Whether shape functions may ask for the value of such an input: integers that spell sizes, axes, counts. */
static inline bool td_bound_plan_judges(const struct td_shape *shape, enum td_dtype dtype)
{
    return shape->rank <= 1 && td_dtype_in(dtype, TD_SET_INTS);
}

/* Gives the values their offsets, when shapes and modes are known. False without memory.
 * (core/run/memory_plan.c) */
TD_MUST bool td_memory_plan(struct td_bound_plan *l);
/* How the kernel of step k is called in reports; before a run finds its shapes, the first that may serve. */
const char *td_bound_plan_kernel_name(const struct td_bound_plan *l, int k);
struct td_bound_plan *td_bound_plan_ref(struct td_bound_plan *l);
void td_bound_plan_unref(struct td_bound_plan *l);

/* Propagation alone, one step at a time, for an analysis (core/batchable/batchable.c) that fills in between
 * steps what shape functions cannot tell. The bound plan is the walk's; shape[] and known[] of feeds and of
 * the steps done may be written. */
struct td_bound_walk;
TD_MUST enum td_code td_bound_walk_new(const struct td_plan *p, const struct td_shape *feeds,
                                       struct td_bound_walk **out, struct td_err *err);
struct td_bound_plan *td_bound_walk_plan(struct td_bound_walk *w);
/* Shapes, and values where they follow, of the outputs of step k. Returns the shapes of its inputs, until the
 * next step. */
const struct td_shape *td_bound_walk_step(struct td_bound_walk *w, int k);
void td_bound_walk_free(struct td_bound_walk *w);

#endif
