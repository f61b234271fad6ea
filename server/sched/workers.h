/* server/sched/workers.h - the workers that compute, and the one entrance to them.
 *
 * A worker is the right to compute: there are as many as processors, and for models on a GPU as many more as
 * it has streams for them, whose threads wait for it and leave the processors alone. A request
 * (server/sched/request.h) that finds a worker idle, and is short or brings a thread of its own, runs at once
 * on the caller's thread, with no hand-over; any other waits, and a worker's own thread runs it, together
 * with others that are like it (server/sched/sched.h decides, server/models/batch.h joins rows).
 *
 *   caller  td_workers_run: run and end (one lock, no wake-up), or queued() and into the queue
 *   worker  next batch -> join inputs -> run -> split outputs -> the end of each request
 *   reaper  ends requests that are too late or whose client left; stops a batch all of whose members have
 *
 * Only signatures proven row-wise for the inputs' inner shapes share batches (core/batchable/batchable.h);
 * the proof is made after the first run of a shape. When a batch fails its members run again one by one, so
 * that no request fails for another's values. A request of more rows than a batch may have, or one long
 * enough to be worth it while workers idle, runs in chunks. A run whose graph falls apart for a while borrows
 * workers that idle then (core/base/thread_pool.h).
 *
 * Threads: any may call; requests end on a worker's thread, the reaper's or the caller's, with no lock held.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_SCHED_WORKERS_H
#define TD_SERVER_SCHED_WORKERS_H

#include "server/models/config_file.h"
#include "server/sched/sched.h"
#include "server/models/servable.h"

struct td_workers;
struct td_request;

struct td_workers_opts {
    int workers;       /* 0: usable cores */
    int devices;       /* that models may run on, beside the host */
    int device_runs;   /* batches at once on each of them */
    int64_t answer_ns; /* all busy, and none taken anew for so long: they do not answer; 0: they always do */
    bool batching;     /* false: every request runs alone */
    const struct td_batching *params; /* TF Serving's rule for all models; NULL: adaptive */
    bool per_model; /* that rule from batching_params.pbtxt in a version's directory; none: runs alone */
};
TD_MUST enum td_code td_workers_start(const struct td_workers_opts *opts, struct td_workers **out,
                                      struct td_err *err);
/* Joins the threads and frees. No request may wait or run, and every servable admitted must be gone. Accepts
 * NULL. */
void td_workers_stop(struct td_workers *w);

/* Gives each signature of a servable, not shared yet, its queue. INVALID_ARGUMENT for a bad
 * batching_params.pbtxt. */
TD_MUST enum td_code td_workers_admit(struct td_workers *w, struct td_servable *s, struct td_err *err);

/* Runs a request whose inputs are bound, with room for what it makes, and ends it (td_request_end): at once
 * on this thread, or later on a worker's. It ends with RESOURCE_EXHAUSTED when the queue is full;
 * DEADLINE_EXCEEDED or the stop word's code when it waited too long. err: empty, to be used while this thread
 * has the request. */
void td_workers_run(struct td_workers *w, struct td_request *r, struct td_err *err);

struct td_workers_counts {
    int workers, running;           /* batches */
    int64_t waiting;                /* requests' chunks */
    uint64_t batches, rows, merged; /* since the start: runs, their rows, runs of more than one chunk */
    uint64_t borrowed;              /* times that a run borrowed a worker */
};
/* Idle workers for what is no model's run, such as a load. Borrowed, until td_workers_stop. */
struct td_thread_pool *td_workers_pool(struct td_workers *w);
/* False while every worker, or every run on the device, has been at the same for longer than answer_ns. */
bool td_workers_answer(struct td_workers *w);
void td_workers_count(struct td_workers *w, struct td_workers_counts *out);

#endif
