/* kernels/cpu/spread.c - ranges of elements for td_parallel_for.
 *
 * A few more ranges than threads, so that one that comes late, or goes home early, holds nobody up; none so
 * short that taking it costs more than doing it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/spread.h"

#define LEAST_NS 10e3 /* that a range should take */
#define ENDLESS_NS 1e12
enum { RANGES = 4 }; /* a thread */

struct job {
    td_spread_fn *fn;
    void *arg;
    int64_t n, step;
};

int td_spread_ranges(const struct td_call *c, int64_t n, int64_t grain, double ns)
{
    struct td_thread_pool *pool = td_helpers(c);
    const double all_ns = (double)n * ns, most = all_ns / LEAST_NS;
    if (pool == NULL || pool->most < 2 || n < 2 * grain || most < 2 || pool->idle(pool) == 0 ||
        !td_parallel_is_worth(pool, (int64_t)(all_ns < ENDLESS_NS ? all_ns / 2 : ENDLESS_NS))) {
        return 1;
    }
    const int64_t ranges = most < RANGES * pool->most ? (int64_t)most : RANGES * pool->most;
    return (int)(ranges < n / grain ? ranges : n / grain);
}

static void run_range(void *arg, int i, int who)
{
    const struct job *j = arg;
    const int64_t from = i * j->step, to = from + j->step < j->n ? from + j->step : j->n;
    if (from < to) {
        j->fn(j->arg, from, to, who);
    }
}

void td_spread_over(const struct td_call *c, int ranges, int64_t n, int64_t grain, td_spread_fn *fn,
                    void *arg)
{
    if (ranges < 2) {
        fn(arg, 0, n, 0);
        return;
    }
    struct job j = {.fn = fn, .arg = arg, .n = n};
    j.step = ((n + ranges - 1) / ranges + grain - 1) / grain * grain;
    td_parallel_for(td_helpers(c), ranges, run_range, &j);
}

void td_spread(const struct td_call *c, int64_t n, int64_t grain, double ns, td_spread_fn *fn, void *arg)
{
    td_spread_over(c, td_spread_ranges(c, n, grain, ns), n, grain, fn, arg);
}
