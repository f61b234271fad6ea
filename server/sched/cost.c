/* server/sched/cost.c - a line through (rows, ns) by weighted least squares, from five running sums.
 *
 * Each run multiplies the sums by KEEP and adds itself, so the last ten or so decide. A run many times longer
 * than expected (a plan made, a storm of page faults) counts as OUTLIER times the expectation: the line
 * moves, but not far. While all runs had one size there is no line, and all of the time counts as the rows';
 * a slope or a fixed part below zero is taken as none.
 *
 * td_cost_worth weighs two limits, each solved for rows: the fixed part has become a small share of the
 * batch, and nobody waits longer for it than for a few lone runs. Twice the largest run so far bounds both.
 *
 * Does not: measure time, lock, or know what is run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/cost.h"

#include <stdbool.h>

#define KEEP 0.9 /* of the older runs' weight, at each new run */
#define OUTLIER                                                                                              \
    8.0 /* a run this many times longer than expected (a trace, a page fault storm) counts as that */
#define FIXED_SHARE 8   /* a batch is large enough when fixed is this part of it */
#define BESIDE_NS 10000 /* fixed too: what a worker does for a batch besides running it */
#define PATIENCE_NS 5000000
#define PATIENCE_RUNS 4

struct line {
    double fixed, each;
    bool fits; /* sizes that differ were seen */
};

static struct line line_of(const struct td_cost *c)
{
    const double mean_n = c->n / c->w, mean_t = c->t / c->w;
    const double spread = c->nn / c->w - mean_n * mean_n;
    struct line l = {0, mean_n > 0 ? mean_t / mean_n : mean_t, spread > 1e-3 * mean_n * mean_n};
    if (l.fits) {
        l.each = (c->nt / c->w - mean_n * mean_t) / spread;
        l.each = l.each > 0 ? l.each : 0;
        l.fixed = mean_t - l.each * mean_n;
        if (l.fixed < 0) {
            l.fixed = 0;
            l.each = mean_t / mean_n;
        }
    }
    return l;
}

int64_t td_cost_of(const struct td_cost *c, int64_t rows)
{
    if (c->w <= 0) {
        return 0;
    }
    const struct line l = line_of(c);
    const double ns = l.fixed + l.each * (double)rows;
    return ns < 1e18 ? (int64_t)ns : (int64_t)1e18;
}

void td_cost_learn(struct td_cost *c, int64_t rows, int64_t ns)
{
    const double expected = (double)td_cost_of(c, rows), n = (double)rows;
    double t = (double)ns;
    if (expected > 0 && t > OUTLIER * expected) {
        t = OUTLIER * expected;
    }
    c->w = KEEP * c->w + 1;
    c->n = KEEP * c->n + n;
    c->t = KEEP * c->t + t;
    c->nn = KEEP * c->nn + n * n;
    c->nt = KEEP * c->nt + n * t;
    c->largest = rows > c->largest ? rows : c->largest;
}

int64_t td_cost_worth(const struct td_cost *c)
{
    const int64_t most = 2 * c->largest;
    if (c->w <= 0) {
        return 1;
    }
    const struct line l = line_of(c);
    if (!l.fits) {
        return most; /* try, to learn what a row costs */
    }
    const double enough = l.each > 0 ? FIXED_SHARE * (l.fixed + BESIDE_NS) / l.each : (double)most;
    const double lone = l.fixed + l.each;
    const double patience = lone * PATIENCE_RUNS > PATIENCE_NS ? lone * PATIENCE_RUNS : PATIENCE_NS;
    const double quick = l.each > 0 ? (patience - l.fixed) / l.each : (double)most;
    double rows = enough < quick ? enough : quick;
    rows = rows < (double)most ? rows : (double)most;
    return rows < 1 ? 1 : (int64_t)rows;
}
