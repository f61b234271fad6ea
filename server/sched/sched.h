/* server/sched/sched.h - who runs next: the policy of batching, with no threads and no clock of its own.
 *
 *   share   a model: the worker time it has used. Of the models that wait, the one that has used least goes
 *           first, so a flooded model takes no more than its part while another has work
 *   queue   one signature of one version: the tasks that wait for it, by level, those in time before those
 *           that are late, oldest first
 *   task    some rows of one request
 *   batch   tasks of one queue and of like inner shapes that run together
 *
 * Batches of models on a GPU have a number of their own, as many as it has streams for them: who runs one
 * waits for the GPU most of the time, and takes no processor. "Worker" stands for either below. Of several
 * GPUs each adds its number; a model that may run on some of them has theirs (server/sched/sched_devices.c).
 *
 * A task for which td_sched_try finds an idle worker runs at once; any other is entered with td_sched_add,
 * which refuses when the queue is full. td_sched_next picks: the high level before all others, then the share
 * with the least worker time, then the oldest task. The batch takes the queue's first task and further ones
 * of like shapes, up to the rule's rows. Between queues only the high level counts: the numbers of the others
 * are a model's own.
 *
 * Rows of a batch: with a rule that has sizes of its own, up to max_rows. Else (adaptive) as many as
 * td_cost_worth says, spread over the idle workers, and of a round number (1 2 3 4 6 8 12 ...): a plan is
 * bound anew for each number.
 *
 * Invariants (td_sched_check, td_sched_idle_check): no task waits while a worker idles, unless its queue's
 * rule makes it wait; tasks of one queue, level and shape that are in time start in their order; a task that
 * waited too long, whose deadline has passed or whose stop word is set never starts.
 *
 * Threads: the caller's lock guards everything; all times are CLOCK_MONOTONIC ns given by the caller.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_SCHED_SCHED_H
#define TD_SERVER_SCHED_SCHED_H

#include <stdbool.h>

#include "core/function/callable.h"
#include "server/sched/cost.h"

/* Larger ones, up to TD_LEVELS - 1, go later. */
enum td_level { TD_LEVEL_HIGH, TD_LEVEL_NORMAL, TD_LEVELS = 16 };

struct td_sched_task {
    struct td_sched_task *next, *prev;
    struct td_sched_queue *queue;
    int level;        /* enum td_level, or a larger one */
    bool late;        /* late_ns has passed */
    int64_t late_ns;  /* from then on it goes behind those of its level that are in time; 0: never */
    int64_t rows;     /* >= 1 */
    uint64_t like;    /* equal: may share a batch */
    bool alone;       /* shares none */
    int64_t max_rows; /* of a batch that it shares; 0: as many as may be */
    int64_t since_ns;
    int64_t start_by_ns;           /* the queue's own limit: it starts before then, or never; 0: none */
    const struct td_run_opts *run; /* whose deadline and stop word are the task's */
};

struct td_sched_list {
    struct td_sched_task *first, *last;
};

/* How tasks of a queue join: TF Serving's batching parameters, a config.pbtxt, or adaptive. */
struct td_rule {
    bool merges;                     /* tasks may share a batch */
    int64_t max_rows;                /* of a batch; 0: adaptive */
    int64_t ready_rows;              /* with timeout_ns: this many need not wait */
    int64_t timeout_ns;              /* a batch that is not full waits this long for more */
    int64_t max_batches;             /* waiting batches of max_rows; 0: see max_tasks */
    int64_t max_tasks;               /* waiting tasks; 0: no limit */
    int64_t max_of_level[TD_LEVELS]; /* the same of each level */
    int max_running;                 /* batches at once; 0: the workers' number */
};

struct td_share {
    struct td_share *next;
    char *name;
    double used_ns;     /* worker time, ahead by the estimates of what runs */
    int n_queues, busy; /* busy: waiting tasks and running batches */
};

/* Devices that queues are confined to, of all that there are. */
struct td_device_set {
    uint32_t devices;      /* bit i: the device whose number is i */
    int n_queues, running; /* 0: the place is free; batches of these queues on a device */
};
enum { TD_DEVICE_SETS = 32 };

struct td_sched_queue {
    struct td_share *share;
    struct td_device_set *set; /* NULL: all devices */
    bool on_device; /* its batches run on the device, and take none of the workers; may change any time */
    struct td_rule rule;
    struct td_cost cost;
    struct td_sched_list waiting[2 * TD_LEVELS]; /* of each level: those in time, those late */
    uint32_t filled;                             /* bit i: waiting[i] is not empty */
    int64_t n_of_level[TD_LEVELS];
    int64_t n_tasks, n_rows; /* that wait */
    int running;             /* batches */
    bool active;             /* on the scheduler's list: something waits */
    struct td_sched_queue *next, *prev;
};

struct td_sched {
    int workers, running; /* running <= workers */
    /* likewise, of batches on all devices, and on each; device_runs 0: there are no queues of them */
    int device_runs, device_running, each_device;
    struct td_device_set sets[TD_DEVICE_SETS];
    int64_t n_tasks; /* that wait */
    double now_used; /* worker time of the share that was served last: where a share that was idle starts */
    struct td_sched_queue *active;
    struct td_share *shares;
};

struct td_batch {
    struct td_sched_queue *queue;
    struct td_sched_task *tasks; /* linked by next */
    int n_tasks;
    bool on_device; /* as its queue was when it started */
    int64_t rows, charged_ns;
    int64_t max_rows; /* that its tasks may share, padding included; 0: as many as may be */
};

/* each_device: batches at once on each of the devices. */
void td_sched_init(struct td_sched *s, int workers, int devices, int each_device);
void td_sched_fini(struct td_sched *s);
/* Makes queue one of the model's. */
TD_MUST enum td_code td_sched_join(struct td_sched *s, struct td_sched_queue *queue, const char *model,
                                   struct td_err *err);
/* Its batches run on these devices alone; 0: on all. Before anything of it waits or runs. Where sets are more
 * than there is room for, it counts as one of all. */
void td_sched_confine(struct td_sched *s, struct td_sched_queue *queue, uint32_t devices);
int td_sched_device_runs(const struct td_sched *s, uint32_t devices); /* at once on them; 0: on all */
/* Batches of the queue that could start on its devices now; and one starts (1) or ends (-1) there. */
int td_sched_device_idle(const struct td_sched *s, const struct td_sched_queue *q);
void td_sched_device_count(struct td_sched *s, struct td_sched_queue *q, int by);
void td_sched_leave(struct td_sched *s, struct td_sched_queue *queue); /* nothing of it may wait or run */

/* Takes an idle worker for a lone run of the queue when nothing else could use it; td_sched_done gives it
 * back. */
TD_MUST bool td_sched_try(struct td_sched *s, struct td_sched_queue *queue, int64_t rows, int64_t now_ns,
                          struct td_batch *b);
/* RESOURCE_EXHAUSTED when the queue has no room for so many tasks, of so many rows together. */
TD_MUST enum td_code td_sched_room(const struct td_sched_queue *q, int level, int64_t tasks, int64_t rows,
                                   struct td_err *err);
/* RESOURCE_EXHAUSTED when the queue is full. */
TD_MUST enum td_code td_sched_add(struct td_sched *s, struct td_sched_task *t, int64_t now_ns,
                                  struct td_err *err);
/* The next batch and a worker for it; false when no worker idles or nothing is ready. Tasks found too late or
 * cancelled go to the end of dropped. */
TD_MUST bool td_sched_next(struct td_sched *s, int64_t now_ns, struct td_batch *b,
                           struct td_sched_list *dropped);
/* Whether a batch of the queue, which is on the scheduler's list, could start now. */
TD_MUST bool td_sched_is_ready(const struct td_sched *s, const struct td_sched_queue *q, int64_t now_ns);
/* Whether something waits that a worker could run, now or when its rule lets it; and how many workers idle
 * that the queue's batches may take. */
TD_MUST bool td_sched_could_run(const struct td_sched *s);
int td_sched_idle_for(const struct td_sched *s, const struct td_sched_queue *q);
/* Takes an idle worker of the host's, for as long as a running batch of any queue borrows it, when nothing
 * that waits could use it. */
TD_MUST bool td_sched_take_worker(struct td_sched *s, int64_t now_ns);
/* Gives it back; the time goes on the account of the queue that borrowed it. */
void td_sched_back(struct td_sched *s, struct td_sched_queue *borrower, int64_t ran_ns);
void td_sched_done(struct td_sched *s, const struct td_batch *b, int64_t ran_ns, bool ok);
/* Moves every waiting task that is too late or cancelled to the end of dropped. */
void td_sched_reap(struct td_sched *s, int64_t now_ns, struct td_sched_list *dropped);
/* When something that waits now becomes ready by time alone; INT64_MAX: never. */
int64_t td_sched_ready_at(const struct td_sched *s);
/* Counts are those of the lists, tasks of one list stand in their order, and no more runs than there are
 * workers. */
TD_MUST enum td_code td_sched_check(const struct td_sched *s, struct td_err *err);
/* Of a scheduler that was asked for a batch and had none: no worker idles, or nothing is ready. */
TD_MUST enum td_code td_sched_idle_check(const struct td_sched *s, int64_t now_ns, struct td_err *err);
/* Whether a task may still start. */
TD_MUST bool td_sched_alive(const struct td_sched_task *t, int64_t now_ns);
/* Whether anybody still waits for a task's answer: its deadline is to come, and it was not stopped. */
TD_MUST bool td_sched_wanted(const struct td_sched_task *t, int64_t now_ns);

#endif
