/* server/sched/workers_impl.h - what the files of the workers share: workers.c (threads), worker_queue.c (a
 * signature's queue), worker_enter.c (the entrance), batch_run.c (how a batch runs) and worker_pool.c (a run
 * borrows workers).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_SCHED_WORKERS_IMPL_H
#define TD_SERVER_SCHED_WORKERS_IMPL_H

#include <pthread.h>

#include "core/base/thread_pool.h"
#include "server/sched/device_room.h"
#include "server/sched/workers.h"
#include "server/sched/request.h"

/* For inputs of some inner shapes; `shapes` is their likeness (server/models/batch.h) without padding. */
struct td_proof_known {
    uint64_t shapes;
    enum td_proof proof;        /* NONE: a free place */
    int64_t min_rows, max_rows; /* ROWS: of each that shares a batch, and of the batch */
};

/* A signature's queue. */
struct td_worker_queue {
    struct td_sched_queue queue;  /* first; guarded by workers->mu, as what follows up to n_known */
    struct td_proof_known *known; /* a hash table of known_room places, at most half of them taken */
    unsigned known_room, n_known;
    _Atomic int64_t large_rows; /* so many rows made more than a shared thread shall encode; 0: none have */
    bool said;                  /* the log has said why it is not row-wise */
    struct td_thread_pool pool; /* of its runs */
    struct td_workers *workers;
    const struct td_signature *sig;
    bool batches;                            /* its requests may share batches */
    bool of_device;                          /* of a model that has one; never changes */
    uint32_t devices;                        /* likewise, which: bits of their numbers; 0: all */
    struct td_batching params;               /* when ruled */
    bool ruled;                              /* by batching parameters or a config.pbtxt; else adaptive */
    uint64_t n_priorities, default_priority; /* that its model has; 0 none: requests have levels */
    struct td_patience {
        int64_t ns; /* how long a request of this level may wait; 0 no limit but its own */
        bool late;  /* past it, the request goes behind the others; else it ends */
    } patience[TD_LEVELS];
};

/* What a proof needs of a request that is over by then. */
struct td_proof_question {
    struct td_servable *servable; /* counted; NULL: nothing to prove */
    struct td_gradient *gradient; /* counted: the queue is its signature's; NULL: it is the servable's */
    struct td_worker_queue *queue;
    struct td_shape *shape;
    uint64_t shapes;
};

/* A batch that runs. */
struct td_batch_run {
    struct td_batch batch;
    struct td_times times;
    int64_t padding; /* rows added */
    td_stop stop;    /* of several chunks */
    struct td_proof_question question;
    struct td_batch_run *next, *prev; /* of workers->runs */
};

struct td_workers {
    struct td_workers_opts opts;
    struct td_batching params;
    pthread_mutex_t mu;         /* guards what follows up to stop */
    pthread_cond_t work, watch; /* something is ready; something waits or runs */
    struct td_sched sched;
    struct td_batch_run *runs; /* of more than one chunk */
    /* a worker counts as running for each, and none has begun */
    struct td_pool_task *first_offered, *last_offered;
    int n_offered;
    struct td_linger linger; /* of workers that have helped */
    struct td_workers_counts counts;
    int64_t started_ns; /* when a worker was last taken */
    bool stop;
    struct td_device_room room;   /* with a lock of its own */
    struct td_worker_queue loads; /* borrows for loads: nothing waits in it, and its share is nobody's */
    struct td_share loads_share;
    pthread_t *threads, reaper;
    int n_threads;
    bool has_reaper;
};

static inline struct td_chunk *td_chunk_of(struct td_sched_task *t)
{
    return (struct td_chunk *)t;
}
static inline struct td_worker_queue *td_worker_queue_of(struct td_sched_queue *q)
{
    return (struct td_worker_queue *)q;
}

/* A chunk enters its queue (1) or leaves it (-1). */
static inline void td_count_waiting(const struct td_chunk *p, int by)
{
    atomic_fetch_add_explicit(&td_servable_stats(p->request->servable)->waiting, (uint_fast64_t)by,
                              memory_order_relaxed);
}

/* The request's queue; NULL: its servable was never admitted. */
TD_MUST enum td_code td_worker_queue_find(struct td_workers *w, const struct td_request *r,
                                          struct td_worker_queue **out, struct td_err *err);
/* What is known of inputs of such shapes and so many rows: NOT_ROWS where the claim is not about so many.
 * Caller holds mu. */
struct td_proof_known td_worker_queue_proof(const struct td_worker_queue *q, uint64_t shapes, int64_t rows);
/* Whether its signature is row-wise for inputs (sig->n_in) of such shapes. */
void td_worker_queue_ask(struct td_proof_question *question, struct td_worker_queue *q, struct td_servable *s,
                         const struct td_tensor *in);
/* Done once a shape, when the first batch of it has run and been answered. */
void td_worker_queue_prove(struct td_proof_question *question);

/* Caller holds mu: a worker thread for what is ready. */
void td_workers_wake(struct td_workers *w);
void td_workers_count_batch(struct td_workers *w, const struct td_batch *b); /* caller holds mu */

extern const struct td_thread_pool td_worker_pool; /* of a queue: its thread pool */
/* Runs what a run has borrowed a worker for. Caller, whose state `me` is, holds mu, and again when it
 * returns; false: there is nothing. */
bool td_worker_pool_run(struct td_workers *w, struct td_linger_me *me);

/* Computes: td_servable_compute, of r's version and signature. On a device it is tried again where memory was
 * short for others' sake, unless `once` or it has effects. */
TD_MUST enum td_code td_batch_run_compute(struct td_worker_queue *q, const struct td_request *r,
                                          const struct td_tensor *in, const struct td_run_opts *opts,
                                          bool once, struct td_tensor *made, struct td_err *err);
/* Runs the batch's chunks; a chunk's failure is noted in its request. True when all went well. */
TD_MUST bool td_batch_run_batch(struct td_worker_queue *q, struct td_batch_run *run);
/* The first failure of a request's chunks is its outcome. */
void td_chunk_fail(struct td_chunk *p, const struct td_err *err);
/* A chunk has ended; with the last one its request ends. The chunk is gone then, and the queue may be. */
void td_chunk_end(struct td_chunk *p);
void td_chunk_end_list(struct td_sched_task *first);

#endif
