/* server/embed_pool.c - a list of offered tasks, and threads that take from it.
 *
 * A task is offered only while a thread idles, so that each that is offered is taken soon; join takes one
 * back that nobody has begun. Threads that have helped look out for more before they sleep
 * (core/base/linger.h).
 *
 * Threads: mu guards all but what never changes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/embed_pool.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "core/base/mem.h"

struct td_embed_pool {
    struct td_thread_pool pool; /* first */
    pthread_mutex_t mu;
    pthread_cond_t offered;
    struct td_pool_task *first;
    int n_idle, n_threads; /* idle: threads that wait, less tasks that are offered */
    int n_offered;
    struct td_linger linger;
    bool ending;
    pthread_t thread[TD_POOL_MOST];
};

static bool try_start(struct td_thread_pool *c, struct td_pool_task *t)
{
    struct td_embed_pool *p = (struct td_embed_pool *)c;
    pthread_mutex_lock(&p->mu);
    const bool idle = p->n_idle > 0;
    if (idle) {
        p->n_idle--;
        t->pool = c;
        t->begun = false;
        td_ending_init(&t->ending);
        t->prev = NULL;
        t->next = p->first;
        if (p->first != NULL) {
            p->first->prev = t;
        }
        p->first = t;
        if (td_linger_stir(&p->linger, ++p->n_offered)) {
            pthread_cond_signal(&p->offered);
        }
    }
    pthread_mutex_unlock(&p->mu);
    return idle;
}

static void take(struct td_embed_pool *p, struct td_pool_task *t)
{
    p->n_offered--;
    *(t->prev != NULL ? &t->prev->next : &p->first) = t->next;
    if (t->next != NULL) {
        t->next->prev = t->prev;
    }
}

static void join(struct td_thread_pool *c, struct td_pool_task *t)
{
    struct td_embed_pool *p = (struct td_embed_pool *)c;
    pthread_mutex_lock(&p->mu);
    const bool begun = t->begun;
    if (!begun) {
        take(p, t);
        p->n_idle++;
    }
    pthread_mutex_unlock(&p->mu);
    if (begun) {
        td_ending_wait(&t->ending);
    }
    td_ending_fini(&t->ending);
}

static bool wanted(struct td_thread_pool *c)
{
    (void)c;
    return false;
}

static int idle(struct td_thread_pool *c)
{
    struct td_embed_pool *p = (struct td_embed_pool *)c;
    pthread_mutex_lock(&p->mu);
    const int n = p->n_idle;
    pthread_mutex_unlock(&p->mu);
    return n;
}

static int64_t wake_ns(struct td_thread_pool *c)
{
    return td_linger_wake_ns(&((struct td_embed_pool *)c)->linger);
}

static void call(struct td_thread_pool *c)
{
    struct td_embed_pool *p = (struct td_embed_pool *)c;
    pthread_mutex_lock(&p->mu);
    if (p->n_idle > 0 && td_linger_call(&p->linger)) {
        pthread_cond_signal(&p->offered);
    }
    pthread_mutex_unlock(&p->mu);
}

static void *work(void *arg)
{
    struct td_embed_pool *p = arg;
    struct td_linger_me me = {0};
    pthread_mutex_lock(&p->mu);
    while (!p->ending) {
        struct td_pool_task *t = p->first;
        if (t == NULL) {
            if (!td_linger_look(&p->linger, &me, &p->mu, INT64_MAX)) {
                pthread_cond_wait(&p->offered, &p->mu);
            }
            continue;
        }
        take(p, t);
        t->begun = true;
        pthread_mutex_unlock(&p->mu);
        t->run(t);
        pthread_mutex_lock(&p->mu);
        p->n_idle++;
        td_linger_helped(&p->linger, &me);
        td_ending_end(&t->ending); /* the task may be gone now */
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

enum td_code td_embed_pool_new(int threads, struct td_embed_pool **out, struct td_err *err)
{
    struct td_embed_pool *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return td_no_memory(err, sizeof *p, "threads");
    }
    const int helpers = threads - 1 > TD_POOL_MOST ? TD_POOL_MOST : threads - 1;
    p->pool = (struct td_thread_pool){.most = helpers + 1,
                                      .try_start = try_start,
                                      .join = join,
                                      .wanted = wanted,
                                      .idle = idle,
                                      .wake_ns = wake_ns,
                                      .call = call};
    pthread_mutex_init(&p->mu, NULL);
    pthread_cond_init(&p->offered, NULL);
    p->n_idle = helpers;
    for (int i = 0; i < helpers; i++) {
        const int rc = pthread_create(&p->thread[i], NULL, work, p);
        if (rc != 0) {
            td_embed_pool_free(p);
            return td_fail(err, TD_INTERNAL, "thread %d of %d cannot be started: %s", i + 1, helpers,
                           strerror(rc));
        }
        p->n_threads++;
    }
    *out = p;
    return TD_OK;
}

struct td_thread_pool *td_embed_pool_of(struct td_embed_pool *p)
{
    return p == NULL ? NULL : &p->pool;
}

void td_embed_pool_free(struct td_embed_pool *p)
{
    if (p == NULL) {
        return;
    }
    pthread_mutex_lock(&p->mu);
    p->ending = true;
    pthread_cond_broadcast(&p->offered);
    pthread_mutex_unlock(&p->mu);
    for (int i = 0; i < p->n_threads; i++) {
        pthread_join(p->thread[i], NULL);
    }
    pthread_cond_destroy(&p->offered);
    pthread_mutex_destroy(&p->mu);
    td_free(p);
}
