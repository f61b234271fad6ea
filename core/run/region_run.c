/* core/run/region_run.c - runs the groups of a region (core/compile/parallel_regions.h), on one thread or on
 * several.
 *
 * What groups take is learnt, a bound plan at a time, in some of the runs on one thread. Several threads are
 * tried when the region's second longest group takes longer than a helper needs to come, and used while they
 * are faster (core/base/thread_pool.h). Whoever watches a run (a debugger, tf.print's answers) sees its steps
 * in their order: it stays on one thread.
 *
 * Threads: each group has a struct td_exec of its own; helpers have their own room for inputs and shapes.
 * Slots, states and bytes are shared, and no two groups touch the same (the invariants of
 * core/compile/parallel_regions.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/thread_pool.h"
#include "core/run/exec_impl.h"
#include "core/base/mem.h"

/* ------------------------------------------------------------------ what it takes */

/* The groups, longest first. Returns what the second takes. */
static int64_t order_groups(const struct td_region_cost *c, int n, int *order)
{
    int64_t ns[TD_REGION_GROUPS];
    for (int g = 0; g < n; g++) {
        const int64_t mine = td_timing_known(&c->ns[g]);
        int at = g;
        for (; at > 0 && ns[at - 1] < mine; at--) {
            ns[at] = ns[at - 1];
            order[at] = order[at - 1];
        }
        ns[at] = mine;
        order[at] = g;
    }
    return ns[1];
}

static enum td_code run_timed(struct td_exec *x, const struct td_region *r, struct td_region_cost *c,
                              int group, struct td_err *err)
{
    const int64_t from_ns = td_now_ns();
    TD_TRY(td_exec_steps(x, td_region_start(r, group), r->end[group], err));
    td_timing_learn(&c->ns[group], td_now_ns() - from_ns);
    return TD_OK;
}

static enum td_code run_alone(struct td_exec *x, const struct td_region *r, struct td_region_cost *c,
                              struct td_err *err)
{
    const int64_t from_ns = td_now_ns();
    for (int g = 0; g < r->n_groups; g++) {
        TD_TRY(run_timed(x, r, c, g, err));
    }
    td_timing_learn(&c->whole.alone_ns, td_now_ns() - from_ns);
    return TD_OK;
}

/* ------------------------------------------------------------------ several threads */

struct spread {
    struct td_exec *x;
    const struct td_region *region;
    struct td_region_cost *cost;
    int order[TD_REGION_GROUPS];
    enum td_code code[TD_REGION_GROUPS]; /* by group */
    struct td_err err[TD_REGION_GROUPS];
    atomic_int failed; /* the first group known to have failed; n_groups: none */
    atomic_bool helped;
};

/* A frame that shares everything with f but what one step needs for itself. */
static enum td_code frame_beside(const struct td_frame *f, const struct td_plan *p, struct td_frame *beside,
                                 struct td_err *err)
{
    const size_t in = (size_t)p->max_in + 1, out = (size_t)p->max_out + 1;
    const size_t bytes = in * (sizeof *f->in + sizeof *f->snapshots) + (in + out) * sizeof *f->shapes;
    *beside = *f;
    beside->late = NULL; /* the frame's own thread may be in it */
    beside->beside = true;
    beside->snapshots = td_calloc(1, bytes);
    if (beside->snapshots == NULL) {
        return td_no_memory(err, bytes, "a run's parallel region");
    }
    beside->shapes = (struct td_shape *)(beside->snapshots + in);
    beside->in = (const struct td_tensor **)(beside->shapes + in + out);
    return TD_OK;
}

static enum td_code run_group(struct spread *s, int group, int who, struct td_err *err)
{
    struct td_exec mine = {.run = s->x->run, .plan = s->x->plan, .bound = s->x->bound, .frame = s->x->frame};
    struct td_frame beside;
    if (who > 0) {
        atomic_store_explicit(&s->helped, true, memory_order_relaxed);
    } else {
        return run_timed(&mine, s->region, s->cost, group, err);
    }
    TD_TRY(frame_beside(s->x->frame, s->x->plan, &beside, err));
    mine.frame = &beside;
    const enum td_code rc = run_timed(&mine, s->region, s->cost, group, err);
    td_free(beside.snapshots);
    return rc;
}

/* A group behind one that has failed need not run: on one thread it would not have. */
static void take_group(void *arg, int i, int who)
{
    struct spread *s = arg;
    const int group = s->order[i];
    int failed = atomic_load(&s->failed);
    if (group > failed) {
        return;
    }
    s->code[group] = run_group(s, group, who, &s->err[group]);
    while (s->code[group] != TD_OK && group < failed &&
           !atomic_compare_exchange_weak(&s->failed, &failed, group)) {
    }
}

static enum td_code run_together(struct td_exec *x, const struct td_region *r, struct td_region_cost *c,
                                 const int *order, struct td_err *err)
{
    const int n = r->n_groups;
    const int64_t from_ns = td_now_ns();
    struct spread s;
    s.x = x;
    s.region = r;
    s.cost = c;
    atomic_init(&s.failed, n);
    atomic_init(&s.helped, false);
    for (int g = 0; g < n; g++) {
        s.order[g] = order[g];
        s.code[g] = s.err[g].code = TD_OK;
    }
    td_parallel_for(x->run->opts->pool, n, take_group, &s);
    const int failed = atomic_load(&s.failed);
    if (failed == n) {
        td_timing_least *way_ns = atomic_load(&s.helped) ? &c->whole.together_ns : &c->whole.alone_ns;
        td_timing_learn(way_ns, td_now_ns() - from_ns);
        return TD_OK;
    }
    if (err != NULL) {
        *err = s.err[failed];
    }
    return s.code[failed];
}

/* ------------------------------------------------------------------ the choice */

enum td_code td_region_run(struct td_exec *x, int r, struct td_err *err)
{
    const struct td_region *region = &x->plan->regions[r];
    const struct td_run_opts *o = x->run->opts;
    if (o->pool == NULL || o->observe != NULL || o->print != NULL || x->frame->dev != NULL) {
        return td_exec_steps(x, region->first, td_region_end(region), err);
    }
    struct td_region_cost *cost = &x->bound->region_cost[r];
    int order[TD_REGION_GROUPS];
    const int64_t second_ns = order_groups(cost, region->n_groups, order);
    switch (td_parallel_choose(&cost->whole, o->pool, second_ns)) {
    case TD_PARALLEL_TOGETHER:
        return run_together(x, region, cost, order, err);
    case TD_PARALLEL_ALONE_TIMED:
        return run_alone(x, region, cost, err);
    default:
        return td_exec_steps(x, region->first, td_region_end(region), err);
    }
}
