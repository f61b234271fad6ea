/* tests/bench/call_scaling.c - the call as it would spread over more cores than there are: on a pool of
 * threads that are not there.
 *
 *   CORES=n build/call_scaling DIR CASE [SECONDS [CPU]]     after call.c's line, a row of scaling.sh's table
 *
 * The pool lends as many threads as it pretends to have; none of them ever begins, so that the caller
 * computes all parts itself and calls the helpers back when it has. What lies between is a stretch that so
 * many cores would have shared:
 *
 *     try_start, try_start, ..   [ all parts, on this thread ]   join, join, ..      one stretch, one barrier
 *
 * The time of the call on n cores is then that of what nobody shares, and each stretch's divided by how many
 * would have come, and a barrier each: processor time, whatever else the machine does. That parts are equally
 * long, that memory serves all cores as it serves one, and that a barrier is TD_SOON_NS, is assumed. What is
 * shared follows from the work alone (struct td_thread_pool, steady): a served run also learns to share what
 * is smaller. Steps of a recurrence are one stretch, with barriers of their own inside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "core/base/thread_pool.h"
#include "core/base/timings.h"
#include "tests/bench/call_servable.h"

struct pretended {
    struct td_thread_pool pool; /* first */
    int away, most_away;        /* now; in this stretch */
    int64_t from_ns;
    /* of a call */
    int barriers;
    double shared_ns, spread_ns; /* on one core; divided by who would have come */
};

static int64_t used_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct pretended *self(struct td_thread_pool *p)
{
    return (struct pretended *)p;
}

static bool try_start(struct td_thread_pool *pool, struct td_pool_task *t)
{
    struct pretended *p = self(pool);
    (void)t;
    if (p->away == p->pool.most - 1) {
        return false;
    }
    if (p->away++ == 0) {
        p->from_ns = used_ns();
        p->most_away = 0;
    }
    p->most_away = p->away > p->most_away ? p->away : p->most_away;
    return true;
}

static void join(struct td_thread_pool *pool, struct td_pool_task *t)
{
    struct pretended *p = self(pool);
    (void)t;
    if (--p->away > 0) {
        return;
    }
    const double ns = (double)(used_ns() - p->from_ns);
    p->shared_ns += ns;
    p->spread_ns += ns / (p->most_away + 1);
    p->barriers++;
}

static bool wanted(struct td_thread_pool *pool)
{
    (void)pool;
    return false;
}

static int idle(struct td_thread_pool *pool)
{
    return pool->most - 1 - self(pool)->away;
}

static int64_t wake_ns(struct td_thread_pool *pool)
{
    (void)pool;
    return TD_SOON_NS;
}

static void call_one(struct td_thread_pool *pool)
{
    (void)pool;
}

static struct call_servable loaded;
static struct td_err err;
static int cores;
static double least_ns; /* 0: none was run yet */
static struct pretended least;

static void print_row(void)
{
    const double alone_ns = least_ns - least.shared_ns;
    const double ns = alone_ns + least.spread_ns + (double)least.barriers * TD_SOON_NS;
    printf("\n| %d | %.3f | %d | %.1f | %.1f |\n", cores, ns / 1e6, least.barriers, 100 * alone_ns / least_ns,
           100 * (alone_ns + least.spread_ns) / least_ns);
}

const char *bench_load(const char *dir, const struct bench_case *c)
{
    const char *asked = getenv("CORES");
    cores = asked != NULL ? (int)strtol(asked, NULL, 10) : 1;
    (void)atexit(print_row);
    return call_servable_load(dir, c, &loaded, &err) ? err.msg : NULL;
}

const char *bench_run(FILE *to)
{
    struct pretended p = {.pool = {.most = cores,
                                   .steady = true,
                                   .try_start = try_start,
                                   .join = join,
                                   .wanted = wanted,
                                   .idle = idle,
                                   .wake_ns = wake_ns,
                                   .call = call_one}};
    const struct td_run_opts opts = {.pool = &p.pool};
    const int64_t from_ns = used_ns();
    (void)to;
    if (call_servable_run(&loaded, &opts, &err)) {
        return err.msg;
    }
    const double ns = (double)(used_ns() - from_ns);
    if (least_ns == 0 || ns < least_ns) {
        least_ns = ns;
        least = p;
    }
    return NULL;
}
