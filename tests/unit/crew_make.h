/* tests/unit/crew_make.h - a crew (core/crew.h) of real threads for tests.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_CREW_MAKE_H
#define TD_TESTS_CREW_MAKE_H

#include <pthread.h>

#include "core/crew.h"
#include "tests/test.h"

enum { CREW_THREADS = 3 };

/* Lends every thread that is free, and returns when it is at work, so that pieces do run at the same time. */
struct made_crew {
    struct td_crew crew; /* first */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct td_crew_task *task[CREW_THREADS];
    pthread_t thread[CREW_THREADS];
    bool stop;
    int lent;
};

struct crew_worker {
    struct made_crew *pool;
    int number;
};

static void *crew_work(void *arg)
{
    const struct crew_worker *w = arg;
    struct made_crew *p = w->pool;
    pthread_mutex_lock(&p->mu);
    while (!p->stop) {
        struct td_crew_task *t = p->task[w->number];
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
        sem_post(&t->ended);
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

static inline bool crew_lend(struct td_crew *c, struct td_crew_task *t)
{
    struct made_crew *p = (struct made_crew *)c;
    pthread_mutex_lock(&p->mu);
    int free_one = 0;
    while (free_one < CREW_THREADS && p->task[free_one] != NULL) {
        free_one++;
    }
    if (free_one < CREW_THREADS) {
        sem_init(&t->ended, 0, 0);
        t->begun = false;
        p->task[free_one] = t;
        p->lent++;
        pthread_cond_broadcast(&p->changed);
        while (!t->begun) {
            pthread_cond_wait(&p->changed, &p->mu);
        }
    }
    pthread_mutex_unlock(&p->mu);
    return free_one < CREW_THREADS;
}

static inline void crew_settle(struct td_crew *c, struct td_crew_task *t)
{
    (void)c;
    while (sem_wait(&t->ended) != 0) {
    }
    sem_destroy(&t->ended);
}

static inline bool crew_wanted(struct td_crew *c)
{
    (void)c;
    return false;
}

static inline int crew_idle(struct td_crew *c)
{
    (void)c;
    return CREW_THREADS;
}

static struct crew_worker crew_workers[CREW_THREADS];

static inline void crew_start(struct made_crew *p)
{
    *p = (struct made_crew){.crew = {.most = CREW_THREADS + 1,
                                     .lend = crew_lend,
                                     .settle = crew_settle,
                                     .wanted = crew_wanted,
                                     .idle = crew_idle},
                            .mu = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
    for (int i = 0; i < CREW_THREADS; i++) {
        crew_workers[i] = (struct crew_worker){p, i};
        CHECK_INT(pthread_create(&p->thread[i], NULL, crew_work, &crew_workers[i]), 0);
    }
}

static inline void crew_stop(struct made_crew *p)
{
    pthread_mutex_lock(&p->mu);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mu);
    for (int i = 0; i < CREW_THREADS; i++) {
        pthread_join(p->thread[i], NULL);
    }
}

#endif
