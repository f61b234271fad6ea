/* server/sched/sched_check.c - what holds of a scheduler between two calls (server/sched/sched.h).
 *
 * Caller holds the lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/check.h"
#include "server/sched/sched.h"

static enum td_code check_list(const struct td_sched_queue *q, int k, int64_t *tasks, int64_t *rows,
                               struct td_err *err)
{
    const struct td_sched_list *l = &q->waiting[k];
    TD_WANT((l->first != NULL) == (q->filled >> k & 1), err, "list %d of a queue and its bit differ", k);
    for (const struct td_sched_task *t = l->first; t != NULL; t = t->next) {
        const int own = 2 * t->level + (t->late ? 1 : 0);
        TD_WANT(own == k && t->queue == q, err, "a task of list %d is in list %d", own, k);
        TD_WANT(t->next != NULL ? t->next->prev == t : l->last == t, err, "list %d is not linked both ways",
                k);
        TD_WANT(t->late || t->next == NULL || t->like != t->next->like || t->since_ns <= t->next->since_ns,
                err, "a task of list %d stands before an older one", k);
        ++*tasks;
        *rows += t->rows;
    }
    return TD_OK;
}

enum td_code td_sched_check(const struct td_sched *s, struct td_err *err)
{
    int64_t waiting = 0;
    TD_WANT(s->running >= 0 && s->running <= s->workers, err, "%d of %d workers run", s->running, s->workers);
    TD_WANT(s->device_running >= 0 && s->device_running <= s->device_runs, err,
            "%d of %d batches run on the device", s->device_running, s->device_runs);
    for (const struct td_sched_queue *q = s->active; q != NULL; q = q->next) {
        int64_t tasks = 0, rows = 0;
        for (int k = 0; k < 2 * TD_LEVELS; k++) {
            TD_TRY(check_list(q, k, &tasks, &rows, err));
        }
        TD_WANT(q->active && tasks > 0 && tasks == q->n_tasks && rows == q->n_rows, err,
                "a queue of %lld tasks and %lld rows counts %lld and %lld", (long long)tasks, (long long)rows,
                (long long)q->n_tasks, (long long)q->n_rows);
        const int all = s->device_running + s->running;
        TD_WANT(q->running >= 0 && q->running <= all, err, "%d batches of a queue run, of %d", q->running,
                all);
        waiting += tasks;
    }
    TD_WANT(waiting == s->n_tasks, err, "%lld tasks wait, %lld are counted", (long long)waiting,
            (long long)s->n_tasks);
    return TD_OK;
}

enum td_code td_sched_idle_check(const struct td_sched *s, int64_t now_ns, struct td_err *err)
{
    for (const struct td_sched_queue *q = s->active; q != NULL; q = q->next) {
        TD_WANT(!td_sched_is_ready(s, q, now_ns), err,
                "a task waits while a worker idles: %d of %d run, and %d of %d on the device", s->running,
                s->workers, s->device_running, s->device_runs);
    }
    return td_sched_check(s, err);
}
