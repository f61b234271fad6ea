/* core/run/device_graph_impl.h - one stretch's recording, as device_graph.c launches it and
 * device_record.c makes it; and a loop's, of device_loop.c and device_loop_record.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_GRAPH_IMPL_H
#define TD_CORE_RUN_DEVICE_GRAPH_IMPL_H

#include "core/run/device_arena.h"
#include "core/run/device_graph.h"
#include "core/run/device_run_impl.h"
#include "core/run/stretch.h"

/* A weight's bytes on the host; what is known with the shapes; the run's own, copied; as long as they are at
 * one place on the device, a variable's, or what another recording of the plan has made; a variable's that
 * has a home (core/run/device_home.h). */
enum td_recorded_from { TD_FROM_WEIGHT, TD_FROM_FIXED, TD_FROM_GIVEN, TD_FROM_THERE, TD_FROM_HOME };

struct td_recorded_source {
    int v;
    enum td_recorded_from from;
    const void *here;       /* TD_FROM_WEIGHT: its bytes on the host */
    struct td_tensor there; /* as the recording reads it; TD_FROM_WEIGHT: a reference */
};

struct td_recorded_result {
    int v;
    struct td_tensor there; /* without a reference */
    bool home;              /* a variable's, where the value is at every launch's end */
    bool assigned;          /* only to variables, which copy it */
};

/* A launch that judges inputs. */
struct td_recorded_judge {
    const struct td_step *step;
    const struct td_kernel *kernel;
    struct td_tensor *in; /* step->n_in, without references */
    /* by value of its plan, what is known with the shapes; NULL: the run's slots have what the host has */
    const struct td_tensor *known;
};

struct td_recorded_loop;
struct td_recorded_home;

struct td_recorded {
    struct td_stretch of;
    int runs, due,
        wait; /* so far; which of them is to be recorded (INT_MAX: none); how many more after that */
    int *elsewhere, n_elsewhere; /* values of variables that were elsewhere when it was to be launched */
    struct td_recording *graph;
    struct td_buffer *arena; /* NULL: nothing is recorded */
    struct td_recorded_source *in;
    struct td_recorded_result *out;
    struct td_recorded_judge *judges;
    int32_t *words;                 /* n_judges, in the arena */
    struct td_recorded_home *homes; /* of variables that it assigns, by address */
    int n_in, n_out, n_judges, n_homes;
    bool whole;                    /* a plan of its own: its feeds have places, and what it fetches has */
    struct td_recorded_loop *loop; /* NULL: it is none, or none was recorded yet */
};

/* Steps that are being recorded. */
struct td_device_recorder {
    struct td_recorded *to;
    struct td_stream *stream;
    struct td_device_arena plan;
    const struct td_tensor *known; /* as struct td_recorded_judge has it */
    int next, judged;              /* of the plan's pieces, and of the judges: the same in each pass */
};

/* Whether b is the arena of a recording. */
bool td_device_graphs_have(const struct td_device_graphs *g, const struct td_buffer *b); /* g may be NULL */
/* Forgets the recording; how many runs there were stays. */
void td_recorded_drop(const struct td_device *d, struct td_recorded *r);
/* Records the stretch now. *made: its inputs are in their places for this run, and what comes out is noted.
 * Otherwise nothing was queued but copies; *never: and it need not be tried again. */
TD_MUST enum td_code td_recorded_make(struct td_frame *f, const struct td_bound_plan *l,
                                      struct td_recorded *r, bool *made, bool *never, struct td_err *err);
/* Queues the copy of an input's bytes to its place. */
TD_MUST enum td_code td_recorded_give(struct td_frame *f, const struct td_recorded_source *in,
                                      struct td_err *err);
/* A weight's bytes on the device, at an address that stays: *in says so. */
TD_MUST enum td_code td_recorded_take_weight(struct td_frame *f, struct td_recorded_source *in,
                                             struct td_err *err);
/* Words of the run's for what the launches may refuse: room for them, before it is launched, and a copy of
 * the recording's behind that, as if they had been queued one by one. */
TD_MUST enum td_code td_recorded_make_room(struct td_device_run *dev, int n_judges, struct td_err *err);
TD_MUST enum td_code td_recorded_expect(struct td_frame *f, const struct td_plan *p,
                                        const struct td_recorded *r, struct td_err *err);

/* ---- how one is made, in this order */
/* What goes in. *ok: it can be recorded now. */
TD_MUST enum td_code td_recorded_find(const struct td_frame *f, const struct td_bound_plan *l,
                                      struct td_recorded *r, bool *ok, struct td_err *err);
/* Where inputs are that have places of their own, from the byte `at` of the arena on, once there is one.
 * Returns the byte behind them. */
size_t td_recorded_place(const struct td_frame *f, struct td_recorded *r, size_t at);
/* Room for those that judge; how many there are. */
TD_MUST enum td_code td_recorded_judges(const struct td_bound_plan *l, struct td_recorded *r, int *n,
                                        struct td_err *err);
/* Every input is where the recording reads it, and at[v] says so. */
TD_MUST enum td_code td_recorded_bring(struct td_frame *f, struct td_recorded *r, struct td_err *err);
/* Records the steps of rec->to. Once more: at the same places. */
TD_MUST enum td_code td_recorded_steps(struct td_frame *f, const struct td_bound_plan *l,
                                       struct td_device_recorder *rec, struct td_err *err);

/* ---- loops (core/run/device_loop.h) */
enum td_loop_part { TD_LOOP_COND, TD_LOOP_BODY, TD_LOOP_PARTS };

struct td_recorded_loop {
    struct td_bound_plan *bound[TD_LOOP_PARTS]; /* references, also of a recording that was dropped */
    struct td_recorded part[TD_LOOP_PARTS];     /* what each reads and judges; the arena is the loop's */
    struct td_tensor *place;                    /* n: what it carries; without references */
    int *from;       /* n: the carried value whose bytes the next round's are; -1: they are new */
    uint32_t *left;  /* [2], on the device: struct td_device_loop */
    uint32_t rounds; /* at most, a launch */
    int n;
};

/* The device's side of it is gone. */
void td_recorded_loop_drop(const struct td_device *d, struct td_recorded_loop *x); /* accepts NULL */
TD_MUST enum td_code td_recorded_loop_record(struct td_frame *f, const struct td_bound_plan *l,
                                             struct td_recorded *r, struct td_err *err);

#endif
