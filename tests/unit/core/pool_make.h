/* tests/unit/core/pool_make.h - a thread pool (core/base/thread_pool.h) of real threads for tests.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_CORE_POOL_MAKE_H
#define TD_TESTS_UNIT_CORE_POOL_MAKE_H

#include <pthread.h>

#include "core/base/thread_pool.h"
#include "tests/test.h"

enum { POOL_THREADS = 3 };

/* Lends every thread that is free, and returns when it is at work, so that chunks do run at the same time. */
struct made_pool {
    struct td_thread_pool pool; /* first */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct td_pool_task *task[POOL_THREADS];
    pthread_t thread[POOL_THREADS];
    bool stop;
    int started;
};

struct pool_worker {
    struct made_pool *pool;
    int number;
};

static void *pool_work(void *arg)
{
    const struct pool_worker *w = arg;
    struct made_pool *p = w->pool;
    pthread_mutex_lock(&p->mu);
    while (!p->stop) {
        struct td_pool_task *t = p->task[w->number];
        if (t == NULL) {
            pthread_cond_wait(&p->changed, &p->mu);
            continue;
        }
        t->begun = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mu);
        t->run(t);
        pthread_mutex_lock(&p->mu);
        p->task[w->number] = NULL;
        td_ending_end(&t->ending);
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

static inline bool pool_try_start(struct td_thread_pool *c, struct td_pool_task *t)
{
    struct made_pool *p = (struct made_pool *)c;
    pthread_mutex_lock(&p->mu);
    int free_one = 0;
    while (free_one < POOL_THREADS && p->task[free_one] != NULL) {
        free_one++;
    }
    if (free_one < POOL_THREADS) {
        td_ending_init(&t->ending);
        t->begun = false;
        p->task[free_one] = t;
        p->started++;
        pthread_cond_broadcast(&p->changed);
        while (!t->begun) {
            pthread_cond_wait(&p->changed, &p->mu);
        }
    }
    pthread_mutex_unlock(&p->mu);
    return free_one < POOL_THREADS;
}

static inline void pool_join(struct td_thread_pool *c, struct td_pool_task *t)
{
    (void)c;
    td_ending_wait(&t->ending);
    td_ending_fini(&t->ending);
}

static inline bool pool_wanted(struct td_thread_pool *c)
{
    (void)c;
    return false;
}

static inline int pool_idle(struct td_thread_pool *c)
{
    (void)c;
    return POOL_THREADS;
}

static inline int64_t pool_wake_ns(struct td_thread_pool *c)
{
    (void)c;
    return 0;
}

static inline void pool_call(struct td_thread_pool *c)
{
    (void)c; /* who is free comes at once */
}

static struct pool_worker pool_workers[POOL_THREADS];

static inline void pool_start(struct made_pool *p)
{
    *p = (struct made_pool){.pool = {.most = POOL_THREADS + 1,
                                     .try_start = pool_try_start,
                                     .join = pool_join,
                                     .wanted = pool_wanted,
                                     .idle = pool_idle,
                                     .wake_ns = pool_wake_ns,
                                     .call = pool_call},
                            .mu = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
    for (int i = 0; i < POOL_THREADS; i++) {
        pool_workers[i] = (struct pool_worker){p, i};
        CHECK_INT(pthread_create(&p->thread[i], NULL, pool_work, &pool_workers[i]), 0);
    }
}

static inline void pool_stop(struct made_pool *p)
{
    pthread_mutex_lock(&p->mu);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mu);
    for (int i = 0; i < POOL_THREADS; i++) {
        pthread_join(p->thread[i], NULL);
    }
}

#endif
