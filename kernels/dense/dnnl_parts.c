/* kernels/dense/dnnl_parts.c - a flag that is looked at without the lock, and set under it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl_parts.h"

#define MULTIPLICATION_NS 0.01 /* at most one hundred of them a ns, on one core */

bool td_dnnl_parts_init(struct td_dnnl_parts *p)
{
    return pthread_mutex_init(&p->mu, NULL) == 0;
}

void td_dnnl_parts_fini(struct td_dnnl_parts *p)
{
    (void)pthread_mutex_destroy(&p->mu);
}

bool td_dnnl_parts_are_made(struct td_dnnl_parts *p, td_dnnl_parts_make *make, void *whole, int wanted)
{
    if (!atomic_load_explicit(&p->made, memory_order_acquire)) {
        (void)pthread_mutex_lock(&p->mu);
        if (!atomic_load_explicit(&p->made, memory_order_relaxed)) {
            make(whole, wanted);
            atomic_store_explicit(&p->made, true, memory_order_release);
        }
        (void)pthread_mutex_unlock(&p->mu);
    }
    return p->n > 0;
}

enum td_parallel_way td_dnnl_parts_way(struct td_dnnl_parts *p, const struct td_call *c,
                                       const struct td_dnnl_whole *w)
{
    struct td_thread_pool *pool = td_helpers(c);
    if (pool == NULL || pool->most < 2 || w->work < w->least || (!pool->steady && pool->idle(pool) == 0)) {
        return TD_PARALLEL_ALONE;
    }
    const int64_t alone_ns = td_timing_known(&p->cost.alone_ns);
    const int64_t half_ns = alone_ns > 0 ? alone_ns / 2 : (int64_t)(w->work * MULTIPLICATION_NS / 2);
    const enum td_parallel_way way =
        pool->steady ? td_parallel_by_work(w->work) : td_parallel_choose(&p->cost, pool, half_ns);
    const int wanted = pool->most < w->most ? pool->most : w->most;
    return way == TD_PARALLEL_TOGETHER && !td_dnnl_parts_are_made(p, w->make, w->whole, wanted)
               ? TD_PARALLEL_ALONE
               : way;
}
