/* core/run/device_graph_impl.h - one stretch's recording, as device_graph.c launches it and device_record.c
 * makes it; what control flow in it runs (device_inner.c, device_loop_record.c); a loop (device_loop.c).
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
    bool swapped;           /* TD_FROM_WEIGHT: its last axis first (core/run/device_weights.h) */
    const void *here;       /* TD_FROM_WEIGHT: its bytes on the host */
    struct td_tensor there; /* as the recording reads it; TD_FROM_WEIGHT: a reference */
    struct td_tensor was;   /* where the run has it, while it is recorded; a reference */
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

struct td_recorded_inner;
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
    int n_in, n_out, n_judges, n_homes, n_draws;
    void *drawn;                     /* n_draws, in the arena, of TD_DRAWN_BYTES each */
    bool whole;                      /* a plan of its own: its feeds have places, and what it fetches has */
    struct td_recorded_inner *inner; /* n_inner, in the order of the steps that run them */
    int n_inner;
    uint32_t *left;  /* of a loop by itself, on the device: struct td_device_loop's, and loops' `paused` */
    uint32_t rounds; /* of one: at most, a launch */
};

/* What is on the device for all of a recording. */
struct td_recorded_room {
    int32_t *words; /* n_words, of what judges */
    int n_words;
    uint32_t
        *left; /* [2] of struct td_device_loop, then a word a loop: its `paused`; NULL: there are no loops */
    uint32_t *flags; /* two words a loop, as td_device_pass has them: `fresh`, `runs` */
};

/* Steps that are being recorded. */
struct td_device_recorder {
    struct td_recorded *to;
    struct td_stream *stream;
    struct td_device_arena plan;
    const struct td_recorded_room *room;
    const struct td_tensor *known; /* as struct td_recorded_judge has it */
    int next, judged, drawn,
        inner; /* of the plan's pieces, judges, draws, control flow: the same each time */
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
/* A weight's bytes on the device, swapped or not, at an address that stays: *in says so. */
TD_MUST enum td_code td_recorded_take_weight(struct td_frame *f, struct td_recorded_source *in,
                                             struct td_err *err);
/* Words of the run's for what the launches may refuse: room for them, before it is launched, and a copy of
 * the recording's behind that, as if they had been queued one by one. */
TD_MUST enum td_code td_recorded_make_room(struct td_device_run *dev, int n_judges, struct td_err *err);
TD_MUST enum td_code td_recorded_expect(struct td_frame *f, const struct td_plan *p,
                                        const struct td_recorded *r, struct td_err *err);

/* How many steps draw. */
int td_recorded_count_draws(const struct td_bound_plan *l, const struct td_recorded *r);
/* Draws what the next launch takes, in the order of the steps, and queues its way there. */
TD_MUST enum td_code td_recorded_draw(struct td_frame *f, const struct td_bound_plan *l,
                                      const struct td_recorded *r, struct td_err *err);

/* ---- how one is made, in this order */
/* What goes in. *ok: it can be recorded now. */
TD_MUST enum td_code td_recorded_find(const struct td_frame *f, const struct td_bound_plan *l,
                                      struct td_recorded *r, bool *ok, struct td_err *err);
/* Whether v was read of a variable that the plan changes: on the host each run finds other bytes. */
bool td_recorded_changes(const struct td_bound_plan *l, int v);
/* Where inputs are that have places of their own, from the byte `at` of the arena on, once there is one.
 * Returns the byte behind them. */
size_t td_recorded_place(const struct td_frame *f, struct td_recorded *r, size_t at);
/* Room for those that judge; how many there are. */
TD_MUST enum td_code td_recorded_judges(const struct td_bound_plan *l, struct td_recorded *r, int *n,
                                        struct td_err *err);
/* Every input is where the recording reads it, and at[v] says so. */
TD_MUST enum td_code td_recorded_bring(struct td_frame *f, struct td_recorded *r, struct td_err *err);
/* The arena of r, for what is its own, the values of own (NULL: it has none) and all that is inside; zeros
 * for words are on their way there. *room: what is in it. */
TD_MUST enum td_code td_recorded_allocate(struct td_frame *f, const struct td_bound_plan *l,
                                          struct td_recorded *r, struct td_device_arena *own,
                                          struct td_recorded_room *room, struct td_err *err);
/* Records that the words are zeros. */
TD_MUST enum td_code td_recorded_clear_words(struct td_frame *f, struct td_stream *stream,
                                             const struct td_recorded_room *room, struct td_err *err);
/* Records the steps of rec->to. Once more: at the same places. */
TD_MUST enum td_code td_recorded_steps(struct td_frame *f, const struct td_bound_plan *l,
                                       struct td_device_recorder *rec, struct td_err *err);

/* ---- what control flow runs (core/run/inner.h), and where it is while it is recorded */
struct td_recorded_part {
    struct td_bound_plan *bound; /* borrowed from the plan around it */
    struct td_recorded rec;
    struct td_frame *frame; /* until it is recorded, as is what follows */
    bool opened;            /* the frame has a side on the device for the recording alone */
    struct td_device_recorder by;
};

struct td_recorded_inner {
    const struct td_inner *of;
    int step;
    struct td_recorded_part *part; /* of->n */
    /* a loop's */
    struct td_tensor *place; /* what it carries; without references */
    int number;              /* among the recording's loops, those in it behind it */
    char *aside;
};

/* Makes r->inner and frames for all of it, for the steps of r->of that have any. */
TD_MUST enum td_code td_recorded_inner_open(const struct td_device_run *dev, const struct td_bound_plan *l,
                                            struct td_recorded *r, struct td_err *err);
/* Finds what goes into all parts, and adds to *n_words what they judge. */
TD_MUST enum td_code td_recorded_inner_find(struct td_recorded *r, int *n_words, struct td_err *err);
/* Where their inputs that stay are, from byte `at` of the arena on. Returns the byte behind them. */
size_t td_recorded_inner_place(struct td_recorded *r, size_t at);
/* Where their values are, from the byte *at on; *at: behind them. */
TD_MUST enum td_code td_recorded_inner_plan(struct td_recorded *r, size_t *at, struct td_err *err);
/* The arena is there: its words are given to all parts from *words on, and loops get numbers. */
void td_recorded_inner_words(struct td_recorded *r, struct td_buffer *arena, int32_t **words, int *loops);
/* Everything that stays is there. */
TD_MUST enum td_code td_recorded_inner_bring(struct td_recorded *r, struct td_err *err);
/* Gives the frames back, when what was sent for the recording has arrived. */
TD_MUST enum td_code td_recorded_inner_close(struct td_recorded *r, struct td_err *err);
void td_recorded_inner_free(const struct td_device *d, struct td_recorded *r);
/* Of a loop: what is put aside in a round takes so many bytes. */
size_t td_recorded_aside(const struct td_recorded_inner *x);
/* What is left out where a loop is paused that has this number or a later one in the plan. */
struct td_device_pass td_recorded_pass(const struct td_device_recorder *rec, int number);
int td_recorded_loops(const struct td_recorded *r);  /* how many are in it */
int td_recorded_judged(const struct td_recorded *r); /* how many judge, in all of it */
/* Inputs from `first` on of a step are what the part is fed. */
void td_recorded_feed(const struct td_frame *f, const struct td_step *s, int first,
                      struct td_recorded_part *part);
/* Records the part, once more at the same places. */
TD_MUST enum td_code td_recorded_part_steps(struct td_recorded_part *part, struct td_stream *stream,
                                            const struct td_recorded_room *room, struct td_err *err);
/* Where the part's result i is, once it is recorded. */
const void *td_recorded_made(const struct td_recorded_part *part, int i);
/* Records step k, which is x's. (device_inner.c; loops: device_loop_record.c) */
TD_MUST enum td_code td_recorded_inner_step(struct td_frame *f, const struct td_bound_plan *l,
                                            struct td_device_recorder *rec, struct td_recorded_inner *x,
                                            struct td_err *err);
TD_MUST enum td_code td_recorded_loop_step(struct td_frame *f, const struct td_bound_plan *l,
                                           struct td_device_recorder *rec, struct td_recorded_inner *x,
                                           struct td_err *err);

/* ---- loops by themselves (core/run/device_loop.h) */
TD_MUST enum td_code td_recorded_loop_record(struct td_frame *f, const struct td_bound_plan *l,
                                             struct td_recorded *r, struct td_err *err);

#endif
