/* server/lanes_impl.h - what the files of the lanes share: lanes.c (threads), lane_flow.c (a signature's
 * queue), lane_enter.c (the entrance), lane_run.c (how a batch runs) and lane_crew.c (a run borrows lanes).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_LANES_IMPL_H
#define TD_SERVER_LANES_IMPL_H

#include <pthread.h>

#include "core/crew.h"
#include "server/lanes.h"
#include "server/metrics.h"

enum td_proof { TD_PROOF_NONE, TD_PROOF_ROWS, TD_PROOF_NOT_ROWS };

/* For inputs of some inner shapes; `shapes` is their likeness (server/batch.h) without padding. */
struct td_lane_known {
    uint64_t shapes;
    enum td_proof proof; /* NONE: a free place */
};

/* A signature's queue. */
struct td_lane_flow {
    struct td_flow flow;         /* first; guarded by lanes->mu, as what follows up to n_known */
    struct td_lane_known *known; /* a hash table of known_room places, at most half of them taken */
    unsigned known_room, n_known;
    bool said; /* the log has said why it is not row-wise */
    struct td_crew crew; /* of its runs */
    struct td_lanes *lanes;
    const struct td_signature *sig;
    bool batches;                            /* its jobs may share batches */
    struct td_batching params;               /* when ruled */
    bool ruled;                              /* by batching parameters or a config.pbtxt; else adaptive */
    uint64_t n_priorities, default_priority; /* that its model has; 0 none: jobs have levels */
    struct td_patience {
        int64_t ns; /* how long a job of this level may wait; 0 no limit but its own */
        bool late;  /* past it, the job goes behind the others; else it ends */
    } patience[TD_LEVELS];
};

/* Rows [from, to) of a job. */
struct td_piece {
    struct td_sched_task task; /* first */
    struct td_job *job;
    int64_t from, to;
    struct td_tensor *made; /* the job's own when there is one piece */
    uint64_t shapes;        /* of the inputs: what the proof is of */
    enum td_proof proof;
};

/* What a proof needs of a job that is over by then. */
struct td_lane_question {
    struct td_servable *servable; /* counted; NULL: nothing to prove */
    struct td_lane_flow *flow;
    struct td_shape *shape;
    uint64_t shapes;
};

/* A batch that runs. */
struct td_lane_run {
    struct td_batch batch;
    struct td_times times;
    int64_t padding;                 /* rows added */
    td_stop stop;                    /* of several pieces */
    struct td_lane_question question;
    struct td_lane_run *next, *prev; /* of lanes->runs */
};

struct td_lanes {
    struct td_lanes_opts opts;
    struct td_batching params;
    pthread_mutex_t mu;         /* guards what follows up to stop */
    pthread_cond_t work, watch; /* something is ready; something waits or runs */
    struct td_sched sched;
    struct td_lane_run *runs;                    /* of more than one piece */
    struct td_crew_task *first_lent, *last_lent; /* a lane counts as running for each, and none has begun */
    struct td_lanes_counts counts;
    bool stop;
    pthread_t *threads, reaper;
    int n_threads;
    bool has_reaper;
};

static inline struct td_piece *td_piece_of(struct td_sched_task *t)
{
    return (struct td_piece *)t;
}
static inline struct td_lane_flow *td_lane_flow_of(struct td_flow *f)
{
    return (struct td_lane_flow *)f;
}

/* The job's queue; NULL: its servable was never admitted. */
TD_MUST enum td_code td_lane_flow_find(struct td_lanes *l, const struct td_job *j, struct td_lane_flow **out,
                                       struct td_err *err);
enum td_proof td_lane_flow_proof(const struct td_lane_flow *f, uint64_t shapes); /* caller holds mu */
/* Whether f is row-wise for inputs (sig->n_in) of such shapes. */
void td_lane_flow_ask(struct td_lane_question *q, struct td_lane_flow *f, struct td_servable *s,
                      const struct td_tensor *in);
/* Done once a shape, when the first batch of it has run and been answered. */
void td_lane_flow_prove(struct td_lane_question *q);

/* Caller holds mu: a lane thread for what is ready. */
void td_lanes_wake(struct td_lanes *l);
void td_lanes_count_batch(struct td_lanes *l, const struct td_batch *b); /* caller holds mu */
struct td_metrics_model *td_lanes_metrics(const struct td_job *j);

extern const struct td_crew td_lane_crew; /* of a flow: its crew */
/* Runs what a run has borrowed a lane for. Caller holds mu, and again when it returns; false: there is
 * nothing. */
bool td_lane_crew_run(struct td_lanes *l);

/* One piece that is its whole job, on this thread: the outcome, nothing is told to anybody. */
TD_MUST enum td_code td_lane_alone(struct td_job *j, struct td_err *err);
/* Runs the batch's pieces; a piece's failure is noted in its job. True when all went well. */
TD_MUST bool td_lane_batch(struct td_lane_flow *f, struct td_lane_run *run);
/* The first failure of a job is its outcome. */
void td_piece_fail(struct td_piece *p, const struct td_err *err);
/* A piece has ended; with the last one its job ends. The piece is gone then, and the flow may be. */
void td_piece_end(struct td_piece *p);
void td_piece_end_list(struct td_sched_task *first);

#endif
