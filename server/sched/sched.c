/* server/sched/sched.c - lists and choices; every function is called with the caller's lock held and returns
 * at once.
 *
 *   td_sched.active -> queue <-> queue ...            those with waiting tasks, in no order
 *   queue.waiting[2 * level + late] -> task <-> ...   one list a level, and one for its late tasks
 *   queue.filled                                      bit i: waiting[i] holds something
 *
 * A pick walks the active queues once and keeps the best (goes_before). Tasks at its heads that may not start
 * any more are dropped, late ones moved, and the pick is made again, so a queue is never chosen for a dead
 * task. Then tasks like the first are gathered in order until the rows wanted are there, one does not fit, or
 * MAX_LOOKS were looked at; an adaptive batch gives its last tasks back where that makes the number of rows a
 * round one.
 *
 * A share is charged the estimated time when its batch starts and corrected when it ends; a share that was
 * idle is lifted to the one that was served last, so nothing can be saved up. Dropped tasks go out on a list:
 * ending them calls back, and that is for the caller to do without the lock.
 *
 * Does not: read a clock, wake or own threads (server/sched/workers.c), check itself
 * (server/sched/sched_check.c), join tensors (server/sched/batch_run.c), decide who may share a batch (a
 * queue's rule and a task's likeness say so).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/sched.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"

void td_sched_init(struct td_sched *s, int workers, int devices, int each_device)
{
    *s = (struct td_sched){.workers = workers > 0 ? workers : 1,
                           .device_runs = devices * each_device,
                           .each_device = each_device};
}

void td_sched_fini(struct td_sched *s)
{
    while (s->shares != NULL) {
        struct td_share *next = s->shares->next;
        td_free(s->shares->name);
        td_free(s->shares);
        s->shares = next;
    }
}

/* ------------------------------------------------------------------ shares and queues */

enum td_code td_sched_join(struct td_sched *s, struct td_sched_queue *queue, const char *model,
                           struct td_err *err)
{
    struct td_share *h = s->shares;
    while (h != NULL && strcmp(h->name, model) != 0) {
        h = h->next;
    }
    if (h == NULL) {
        h = td_calloc(1, sizeof *h);
        char *name = td_strdup(model);
        if (h == NULL || name == NULL) {
            td_free(h);
            td_free(name);
            return td_no_memory(err, sizeof *h, "a model's share");
        }
        h->name = name;
        h->used_ns = s->now_used;
        h->next = s->shares;
        s->shares = h;
    }
    h->n_queues++;
    queue->share = h;
    return TD_OK;
}

void td_sched_leave(struct td_sched *s, struct td_sched_queue *queue)
{
    struct td_share *h = queue->share;
    td_sched_confine(s, queue, 0);
    queue->share = NULL;
    if (h == NULL || --h->n_queues > 0) {
        return;
    }
    struct td_share **at = &s->shares;
    while (*at != h) {
        at = &(*at)->next;
    }
    *at = h->next;
    td_free(h->name);
    td_free(h);
}

/* A share that was idle has saved nothing up. */
static void share_enter(struct td_sched *s, struct td_share *h)
{
    if (h->busy++ == 0 && h->used_ns < s->now_used) {
        h->used_ns = s->now_used;
    }
}

/* ------------------------------------------------------------------ lists */

static void list_put(struct td_sched_list *l, struct td_sched_task *t)
{
    t->next = NULL;
    t->prev = l->last;
    *(l->last != NULL ? &l->last->next : &l->first) = t;
    l->last = t;
}

static void list_take(struct td_sched_list *l, struct td_sched_task *t)
{
    *(t->prev != NULL ? &t->prev->next : &l->first) = t->next;
    *(t->next != NULL ? &t->next->prev : &l->last) = t->prev;
    t->next = t->prev = NULL;
}

static void activate(struct td_sched *s, struct td_sched_queue *q)
{
    q->active = true;
    q->prev = NULL;
    q->next = s->active;
    if (s->active != NULL) {
        s->active->prev = q;
    }
    s->active = q;
}

static void deactivate(struct td_sched *s, struct td_sched_queue *q)
{
    *(q->prev != NULL ? &q->prev->next : &s->active) = q->next;
    if (q->next != NULL) {
        q->next->prev = q->prev;
    }
    q->active = false;
}

static int list_of(const struct td_sched_task *t)
{
    return 2 * t->level + (t->late ? 1 : 0);
}

/* The first of the queues in a mask, which it loses. */
static int next_list(uint32_t *mask)
{
    const int k = __builtin_ctz(*mask);
    *mask &= *mask - 1;
    return k;
}

/* Takes t out of its queue; the queue stays active until its last task has gone. */
static void unqueue(struct td_sched *s, struct td_sched_task *t)
{
    struct td_sched_queue *q = t->queue;
    const int k = list_of(t);
    list_take(&q->waiting[k], t);
    q->filled &= q->waiting[k].first == NULL ? ~(UINT32_C(1) << k) : UINT32_MAX;
    q->n_of_level[t->level]--;
    q->n_rows -= t->rows;
    s->n_tasks--;
    q->share->busy--;
    if (--q->n_tasks == 0) {
        deactivate(s, q);
    }
}

bool td_sched_wanted(const struct td_sched_task *t, int64_t now_ns)
{
    const struct td_run_opts *o = t->run;
    return (o->work.deadline_ns == 0 || o->work.deadline_ns > now_ns) &&
           (o->work.stop == NULL || atomic_load_explicit(o->work.stop, memory_order_relaxed) == 0);
}

bool td_sched_alive(const struct td_sched_task *t, int64_t now_ns)
{
    return (t->start_by_ns == 0 || t->start_by_ns > now_ns) && td_sched_wanted(t, now_ns);
}

/* ------------------------------------------------------------------ what is ready */

/* Of an active queue. */
static const struct td_sched_task *head_of(const struct td_sched_queue *q)
{
    return q->waiting[__builtin_ctz(q->filled)].first;
}

static int64_t oldest_ns(const struct td_sched_queue *q)
{
    int64_t oldest = INT64_MAX;
    for (uint32_t left = q->filled; left != 0;) {
        const struct td_sched_task *t = q->waiting[next_list(&left)].first;
        oldest = t->since_ns < oldest ? t->since_ns : oldest;
    }
    return oldest;
}

int td_sched_idle_for(const struct td_sched *s, const struct td_sched_queue *q)
{
    return q->on_device ? td_sched_device_idle(s, q) : s->workers - s->running;
}

static bool may_run(const struct td_sched *s, const struct td_sched_queue *q)
{
    return td_sched_idle_for(s, q) > 0 && (q->rule.max_running == 0 || q->running < q->rule.max_running);
}

bool td_sched_could_run(const struct td_sched *s)
{
    for (const struct td_sched_queue *q = s->active; q != NULL; q = q->next) {
        if (may_run(s, q)) {
            return true;
        }
    }
    return false;
}

static bool is_full(const struct td_sched_queue *q)
{
    const int64_t enough = q->rule.ready_rows > 0 ? q->rule.ready_rows : q->rule.max_rows;
    return enough > 0 && q->n_rows >= enough;
}

/* When the batch that is open need not wait any longer. */
static int64_t ready_at(const struct td_sched_queue *q)
{
    return q->rule.timeout_ns == 0 || is_full(q) || head_of(q)->alone ? 0 : oldest_ns(q) + q->rule.timeout_ns;
}

int64_t td_sched_ready_at(const struct td_sched *s)
{
    int64_t at = INT64_MAX;
    for (const struct td_sched_queue *q = s->active; q != NULL; q = q->next) {
        const int64_t t = may_run(s, q) ? ready_at(q) : INT64_MAX;
        at = t < at ? t : at;
    }
    return at;
}

static bool goes_before(const struct td_sched_queue *a, const struct td_sched_queue *b)
{
    const struct td_sched_task *x = head_of(a), *y = head_of(b);
    const bool x_high = x->level == TD_LEVEL_HIGH, y_high = y->level == TD_LEVEL_HIGH;
    if (x_high != y_high) {
        return x_high;
    }
    if (a->share->used_ns < b->share->used_ns || a->share->used_ns > b->share->used_ns) {
        return a->share->used_ns < b->share->used_ns;
    }
    return x->since_ns < y->since_ns;
}

bool td_sched_is_ready(const struct td_sched *s, const struct td_sched_queue *q, int64_t now_ns)
{
    return may_run(s, q) && ready_at(q) <= now_ns;
}

static struct td_sched_queue *choose(struct td_sched *s, int64_t now_ns)
{
    struct td_sched_queue *best = NULL;
    for (struct td_sched_queue *q = s->active; q != NULL; q = q->next) {
        if (td_sched_is_ready(s, q, now_ns) && (best == NULL || goes_before(q, best))) {
            best = q;
        }
    }
    return best;
}

/* Whether something that waits could use a worker of the host's, or a run on the device. */
static bool is_wanted(const struct td_sched *s, bool on_device, int64_t now_ns)
{
    for (const struct td_sched_queue *q = s->active; q != NULL; q = q->next) {
        if (q->on_device == on_device && td_sched_is_ready(s, q, now_ns)) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ forming a batch */

/* 1, 2, 3, 4, 6, 8, 12, 16, ... */
static bool is_round(int64_t n)
{
    while (n > 3 && n % 2 == 0) {
        n /= 2;
    }
    return n <= 3;
}

static int64_t rows_wanted(const struct td_sched *s, const struct td_sched_queue *q)
{
    if (!q->rule.merges) {
        return 1;
    }
    if (q->rule.max_rows > 0) {
        return q->rule.max_rows;
    }
    const int64_t worth = td_cost_worth(&q->cost), idle = td_sched_idle_for(s, q);
    const int64_t part = idle > 1 ? (q->n_rows + idle - 1) / idle : q->n_rows;
    return part < worth ? part : worth;
}

/* Tasks looked at for one batch: those of other shapes may be many, and be looked at again for each batch. */
enum { MAX_LOOKS = 1024 };

static bool fits(const struct td_sched_task *t, const struct td_batch *b, int64_t wanted)
{
    const int64_t rows = b->rows + t->rows;
    return rows <= wanted && (t->max_rows == 0 || rows <= t->max_rows) &&
           (b->max_rows == 0 || rows <= b->max_rows);
}

static void add_task(struct td_batch *b, const struct td_sched_task *t)
{
    b->n_tasks++;
    b->rows += t->rows;
    if (t->max_rows > 0 && (b->max_rows == 0 || t->max_rows < b->max_rows)) {
        b->max_rows = t->max_rows;
    }
}

/* Moves tasks like the first one from the queue into the batch, in their order, while they fit. */
static void gather(struct td_sched *s, struct td_batch *b, int64_t wanted, int64_t now_ns,
                   struct td_sched_list *dropped)
{
    struct td_sched_list taken = {NULL, NULL};
    uint64_t like = 0;
    bool full = false;
    int looks = 0;
    for (uint32_t left = b->queue->filled; left != 0 && !full;) {
        struct td_sched_task *next;
        for (struct td_sched_task *t = b->queue->waiting[next_list(&left)].first; t != NULL && !full;
             t = next) {
            next = t->next;
            if (!td_sched_alive(t, now_ns)) {
                unqueue(s, t);
                list_put(dropped, t);
            } else if (b->n_tasks == 0 || (!t->alone && t->like == like && fits(t, b, wanted))) {
                like = t->like;
                full = t->alone;
                unqueue(s, t);
                list_put(&taken, t);
                add_task(b, t);
            } else {
                full = t->like == like;
            }
            full = full || (b->n_tasks > 0 && (b->rows >= wanted || ++looks == MAX_LOOKS));
        }
    }
    b->tasks = taken.first;
}

static void put_back(struct td_sched *s, struct td_sched_task *t)
{
    struct td_sched_queue *q = t->queue;
    const int k = list_of(t);
    struct td_sched_list *l = &q->waiting[k];
    q->filled |= UINT32_C(1) << k;
    q->n_of_level[t->level]++;
    t->prev = NULL;
    t->next = l->first;
    *(l->first != NULL ? &l->first->prev : &l->last) = t;
    l->first = t;
    q->n_rows += t->rows;
    q->share->busy++;
    s->n_tasks++;
    if (q->n_tasks++ == 0) {
        activate(s, q);
    }
}

/* Gives the last tasks back when the rows before them are of a round number. */
static void make_round(struct td_sched *s, struct td_batch *b)
{
    int64_t rows = 0;
    struct td_sched_task *keep_to = NULL;
    int n = 0, keep_n = 0;
    for (struct td_sched_task *t = b->tasks; t != NULL; t = t->next) {
        rows += t->rows;
        n++;
        if (is_round(rows)) {
            keep_to = t;
            keep_n = n;
        }
    }
    if (keep_to == NULL || keep_n == b->n_tasks) {
        return;
    }
    struct td_sched_task *last = keep_to;
    while (last->next != NULL) {
        last = last->next;
    }
    while (last != keep_to) {
        struct td_sched_task *before = last->prev;
        b->rows -= last->rows;
        b->n_tasks--;
        before->next = NULL;
        put_back(s, last);
        last = before;
    }
}

/* Its share counts the batch as busy already. */
static void start(struct td_sched *s, struct td_batch *b)
{
    struct td_sched_queue *q = b->queue;
    b->on_device = q->on_device;
    if (b->on_device) {
        td_sched_device_count(s, q, 1);
    } else {
        s->running++;
    }
    q->running++;
    s->now_used = q->share->used_ns > s->now_used ? q->share->used_ns : s->now_used;
    b->charged_ns = td_cost_of(&q->cost, b->rows);
    q->share->used_ns += (double)b->charged_ns;
}

static void be_late(struct td_sched_queue *q, struct td_sched_task *t)
{
    const int k = list_of(t);
    list_take(&q->waiting[k], t);
    q->filled &= q->waiting[k].first == NULL ? ~(UINT32_C(1) << k) : UINT32_MAX;
    t->late = true;
    list_put(&q->waiting[k + 1], t);
    q->filled |= UINT32_C(1) << (k + 1);
}

/* A queue must not be chosen for a task that may not start any more, nor for one that is late before those in
 * time. */
static bool drop_dead_heads(struct td_sched *s, struct td_sched_queue *q, int64_t now_ns,
                            struct td_sched_list *dropped)
{
    bool any = false;
    for (uint32_t left = q->filled; left != 0;) {
        const int k = next_list(&left);
        struct td_sched_task *t;
        while ((t = q->waiting[k].first) != NULL) {
            const bool alive = td_sched_alive(t, now_ns);
            if (alive && (t->late || t->late_ns == 0 || t->late_ns > now_ns)) {
                break;
            }
            if (alive) {
                be_late(q, t);
            } else {
                unqueue(s, t);
                list_put(dropped, t);
            }
            any = true;
        }
    }
    return any;
}

/* ------------------------------------------------------------------ the next batch */

TD_CHECK_FN enum td_code batch_check(const struct td_batch *b, struct td_err *err)
{
    int n = 0;
    for (const struct td_sched_task *t = b->tasks; t != NULL; t = t->next, n++) {
        TD_WANT(t->queue == b->queue, err, "a batch has a task of another queue");
    }
    TD_WANT(n == b->n_tasks && n > 0, err, "a batch of %d tasks counts %d", n, b->n_tasks);
    return TD_OK;
}

bool td_sched_next(struct td_sched *s, int64_t now_ns, struct td_batch *b, struct td_sched_list *dropped)
{
    struct td_sched_queue *q;
    while ((q = choose(s, now_ns)) != NULL) {
        if (drop_dead_heads(s, q, now_ns, dropped)) {
            continue;
        }
        *b = (struct td_batch){.queue = q};
        q->share->busy++; /* before its tasks leave, or the share would seem to have been idle */
        gather(s, b, rows_wanted(s, q), now_ns, dropped);
        if (b->n_tasks ==
            0) { /* whoever waited left meanwhile: stop words are set at any time, without the lock */
            q->share->busy--;
            continue;
        }
        if (q->rule.merges && q->rule.max_rows == 0) {
            make_round(s, b);
        }
        start(s, b);
        TD_HOLDS(td_sched_check, s);
        TD_HOLDS(batch_check, b);
        return true;
    }
    TD_HOLDS(td_sched_idle_check, s, now_ns);
    return false;
}

/* ------------------------------------------------------------------ entering and leaving */

bool td_sched_try(struct td_sched *s, struct td_sched_queue *queue, int64_t rows, int64_t now_ns,
                  struct td_batch *b)
{
    if (queue->rule.timeout_ns > 0 || !may_run(s, queue) || is_wanted(s, queue->on_device, now_ns)) {
        return false;
    }
    *b = (struct td_batch){.queue = queue, .rows = rows};
    share_enter(s, queue->share);
    start(s, b);
    return true;
}

bool td_sched_take_worker(struct td_sched *s, int64_t now_ns)
{
    if (s->running >= s->workers || is_wanted(s, false, now_ns)) {
        return false;
    }
    s->running++;
    return true;
}

void td_sched_back(struct td_sched *s, struct td_sched_queue *borrower, int64_t ran_ns)
{
    s->running--;
    borrower->share->used_ns += (double)ran_ns;
}

enum td_code td_sched_room(const struct td_sched_queue *q, int level, int64_t tasks, int64_t rows,
                           struct td_err *err)
{
    const struct td_rule *r = &q->rule;
    if (r->max_batches > 0 && r->max_rows > 0) {
        const int64_t batches = (q->n_rows + r->max_rows - 1) / r->max_rows;
        TD_FAIL_IF(
            (q->n_rows + rows + r->max_rows - 1) / r->max_rows > r->max_batches, err, RESOURCE_EXHAUSTED,
            "The batch scheduling queue to which this task was submitted is full; currently %lld batches "
            "enqueued and max_enqueued_batches is %lld",
            (long long)batches, (long long)r->max_batches);
    }
    TD_FAIL_IF(r->max_tasks > 0 && q->n_tasks + tasks > r->max_tasks, err, RESOURCE_EXHAUSTED,
               "model '%s': Exceeds maximum queue size: %lld requests wait and the limit is %lld",
               q->share->name, (long long)q->n_tasks, (long long)r->max_tasks);
    TD_FAIL_IF(
        r->max_of_level[level] > 0 && q->n_of_level[level] + tasks > r->max_of_level[level], err,
        RESOURCE_EXHAUSTED,
        "model '%s': Exceeds maximum queue size: %lld requests of priority %d wait and the limit is %lld",
        q->share->name, (long long)q->n_of_level[level], level + 1, (long long)r->max_of_level[level]);
    return TD_OK;
}

enum td_code td_sched_add(struct td_sched *s, struct td_sched_task *t, int64_t now_ns, struct td_err *err)
{
    struct td_sched_queue *q = t->queue;
    TD_TRY(td_sched_room(q, t->level, 1, t->rows, err));
    t->since_ns = now_ns;
    list_put(&q->waiting[list_of(t)], t);
    q->filled |= UINT32_C(1) << list_of(t);
    q->n_of_level[t->level]++;
    q->n_rows += t->rows;
    s->n_tasks++;
    share_enter(s, q->share);
    if (q->n_tasks++ == 0) {
        activate(s, q);
    }
    return TD_OK;
}

void td_sched_done(struct td_sched *s, const struct td_batch *b, int64_t ran_ns, bool ok)
{
    struct td_sched_queue *q = b->queue;
    if (b->on_device) {
        td_sched_device_count(s, q, -1);
    } else {
        s->running--;
    }
    q->running--;
    q->share->busy--;
    q->share->used_ns += (double)(ran_ns - b->charged_ns);
    if (ok) {
        td_cost_learn(&q->cost, b->rows, ran_ns);
    }
}

void td_sched_reap(struct td_sched *s, int64_t now_ns, struct td_sched_list *dropped)
{
    struct td_sched_queue *following;
    for (struct td_sched_queue *q = s->active; q != NULL; q = following) {
        following = q->next;
        for (uint32_t left = q->filled; left != 0;) {
            struct td_sched_task *next;
            for (struct td_sched_task *t = q->waiting[next_list(&left)].first; t != NULL; t = next) {
                next = t->next;
                if (!td_sched_alive(t, now_ns)) {
                    unqueue(s, t);
                    list_put(dropped, t);
                }
            }
        }
    }
}
