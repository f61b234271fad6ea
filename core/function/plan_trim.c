/* core/function/plan_trim.c - all callables of the process, and their bound plans in the order of last use.
 *
 * Each callable bounds by itself how many bound plans it keeps. What all of them keep is bounded by the
 * budget: when that is short they go by age, the list being walked once for each age, from a quarter of an
 * hour down to some ms, each half of the one before. So the walk costs the same whatever is kept, and needs
 * no memory.
 *
 * Threads: any. all.mu guards the list, and keeps a callable on it alive; the lock of a callable is only
 * tried under it. A bound plan that a run has goes when that ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <time.h>

#include "core/function/callable_impl.h"

enum { OLDEST_MS = 1 << 20, YOUNGEST_MS = 16 };

static struct {
    pthread_mutex_t mu;
    struct td_link *first;
} all = {.mu = PTHREAD_MUTEX_INITIALIZER};

int64_t td_coarse_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void td_callable_list(struct td_callable_place *place)
{
    pthread_mutex_lock(&all.mu);
    td_link_in(&all.first, &place->link);
    pthread_mutex_unlock(&all.mu);
}

void td_callable_unlist(struct td_callable_place *place)
{
    pthread_mutex_lock(&all.mu);
    td_link_out(&place->link);
    pthread_mutex_unlock(&all.mu);
}

/* Caller holds all.mu. */
static void trim(int64_t before_ms, bool (*is_enough)(void *ctx), void *ctx)
{
    for (struct td_link *l = all.first; l != NULL && !is_enough(ctx); l = l->next) {
        td_callable_trim(td_link_owner(l, struct td_callable_place, link)->callable, before_ms);
    }
}

void td_callables_trim(bool (*is_enough)(void *ctx), void *ctx)
{
    const int64_t now = td_coarse_ms();
    pthread_mutex_lock(&all.mu);
    for (int64_t age = OLDEST_MS; age > 0 && !is_enough(ctx); age = age > YOUNGEST_MS ? age / 2 : 0) {
        trim(now - age, is_enough, ctx);
    }
    trim(now + OLDEST_MS, is_enough, ctx);
    pthread_mutex_unlock(&all.mu);
}
