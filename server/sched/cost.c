/* server/sched/cost.c - what a batcher makes of a line of times: how many rows are worth a batch.
 *
 * The line (core/base/timings.h) is one for each queue; beside it only the largest run so far is kept.
 *
 * td_cost_worth weighs two limits, each solved for rows: the fixed part has become a small share of the
 * batch, and nobody waits longer for it than for a few lone runs. Twice the largest run so far bounds both.
 * While all runs had one size, twice that is tried, whatever was largest long ago: nothing is known of what
 * so many rows would take.
 *
 * Does not: measure time, lock, or know what is run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/cost.h"

#include <stdbool.h>

#define FIXED_SHARE 8   /* a batch is large enough when fixed is this part of it */
#define BESIDE_NS 10000 /* fixed too: what a worker does for a batch besides running it */
#define PATIENCE_NS 5000000
#define PATIENCE_RUNS 4

int64_t td_cost_of(const struct td_cost *c, int64_t rows)
{
    return td_timing_line_at(&c->line, rows);
}

void td_cost_learn(struct td_cost *c, int64_t rows, int64_t ns)
{
    td_timing_line_learn(&c->line, rows, ns);
    c->largest = rows > c->largest ? rows : c->largest;
    c->last = rows;
}

int64_t td_cost_worth(const struct td_cost *c)
{
    const int64_t most = 2 * c->largest;
    if (!td_timing_line_is_known(&c->line)) {
        return 1;
    }
    const struct td_timing_fit l = td_timing_line_fit(&c->line);
    if (!l.fits) {
        return 2 * c->last; /* try, to learn what a row costs */
    }
    const double enough = l.each > 0 ? FIXED_SHARE * (l.fixed + BESIDE_NS) / l.each : (double)most;
    const double lone = l.fixed + l.each;
    const double patience = lone * PATIENCE_RUNS > PATIENCE_NS ? lone * PATIENCE_RUNS : PATIENCE_NS;
    const double quick = l.each > 0 ? (patience - l.fixed) / l.each : (double)most;
    double rows = enough < quick ? enough : quick;
    rows = rows < (double)most ? rows : (double)most;
    return rows < 1 ? 1 : (int64_t)rows;
}
