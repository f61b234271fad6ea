/* core/run/plan_check.c - walks a compiled plan in Debug builds (core/base/check.h).
 *
 * One walk over the steps counts values and releases as it goes, and holds each step's numbers against what
 * plan.h promises; a second, over the regions, holds their bounds, and what one group reads against what the
 * others make and release. The first thing that is wrong is an INTERNAL error that names the step and its
 * node: no plan of a user can cause it.
 *
 * Does not: look at where values lie (core/run/bound_plan_check.c) or at the IR (core/compile/ir_check.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/plan_check.h"

#include "core/base/check.h"

/* The number of step k's node, for the words. */
#define STEP(p, k) TD_NODE_STR((p)->steps[k].node)

/* ------------------------------------------------------------------ numbers */

static enum td_code check_reads(const struct td_plan *p, int k, struct td_err *err)
{
    const struct td_step *s = &p->steps[k];
    for (int i = 0; i < s->n_in; i++) {
        TD_WANT(s->in[i] >= 0 && s->in[i] < s->out0, err, "step %d, %s, reads value %d and makes %d", k,
                STEP(p, k), s->in[i], s->out0);
        TD_WANT(p->last_use[s->in[i]] >= k, err, "step %d, %s, reads value %d, whose last use is step %d", k,
                STEP(p, k), s->in[i], p->last_use[s->in[i]]);
    }
    for (int i = 0; i < s->n_after; i++) {
        TD_WANT(s->after[i] >= 0 && s->after[i] < k, err, "step %d, %s, comes after step %d", k, STEP(p, k),
                s->after[i]);
    }
    TD_WANT(s->n_in <= p->max_in && s->n_out <= p->max_out, err, "step %d, %s, has %d inputs and %d outputs",
            k, STEP(p, k), s->n_in, s->n_out);
    return TD_OK;
}

static enum td_code check_releases(const struct td_plan *p, int k, struct td_err *err)
{
    const struct td_step *s = &p->steps[k];
    for (int i = 0; i < s->n_release; i++) {
        const int v = s->release[i];
        TD_WANT(v >= p->first_const + p->n_consts && v < s->out0 + s->n_out && p->last_use[v] == k, err,
                "step %d, %s, releases value %d, whose last use is step %d", k, STEP(p, k), v,
                p->last_use[v]);
        for (int j = 0; j < i; j++) {
            TD_WANT(s->release[j] != v, err, "step %d, %s, releases value %d twice", k, STEP(p, k), v);
        }
    }
    return TD_OK;
}

static enum td_code check_ends(const struct td_plan *p, int released, struct td_err *err)
{
    int to_release = 0;
    for (int i = 0; i < p->n_fetches; i++) {
        const int v = p->fetches[i];
        TD_WANT(v >= 0 && v < p->n_values && p->last_use[v] == p->n_steps && p->escapes[v], err,
                "fetch %d, value %d, does not outlive the run", i, v);
    }
    for (int v = p->first_const + p->n_consts; v < p->n_values; v++) {
        to_release += p->last_use[v] < p->n_steps;
    }
    TD_WANT(released == to_release, err, "%d values are released, of %d that end before the run does",
            released, to_release);
    return TD_OK;
}

enum td_code td_plan_check(const struct td_plan *p, struct td_err *err)
{
    int next = p->first_const + p->n_consts, released = 0;
    TD_WANT(p->first_const == p->n_feeds, err, "constants begin at value %d behind %d feeds", p->first_const,
            p->n_feeds);
    for (int k = 0; k < p->n_steps; k++) {
        TD_WANT(p->steps[k].out0 == next, err, "step %d, %s, makes value %d where %d is next", k, STEP(p, k),
                p->steps[k].out0, next);
        next += p->steps[k].n_out;
        released += p->steps[k].n_release;
        TD_TRY(check_reads(p, k, err));
        TD_TRY(check_releases(p, k, err));
    }
    TD_WANT(next == p->n_values, err, "the steps make values up to %d, of %d", next, p->n_values);
    TD_TRY(check_ends(p, released, err));
    return td_regions_check(p, err);
}

/* ------------------------------------------------------------------ regions */

static int group_of(const struct td_region *r, int step)
{
    int g = 0;
    while (g < r->n_groups && step >= r->end[g]) {
        g++;
    }
    return g;
}

/* first: the first value that the region makes. A value from before it that ends inside is one group's
 * alone. */
static enum td_code check_group(const struct td_plan *p, const struct td_region *r, int g, struct td_err *err)
{
    const int first = p->steps[r->first].out0;
    for (int k = td_region_start(r, g); k < r->end[g]; k++) {
        for (int i = 0; i < p->steps[k].n_in; i++) {
            const int v = p->steps[k].in[i];
            TD_WANT(v < first || v >= p->steps[td_region_start(r, g)].out0, err,
                    "step %d, %s, reads value %d of another group of its region", k, STEP(p, k), v);
            TD_WANT(v >= first || p->last_use[v] >= td_region_end(r) || group_of(r, p->last_use[v]) == g, err,
                    "step %d, %s, reads value %d, which another group of its region releases", k, STEP(p, k),
                    v);
        }
    }
    return TD_OK;
}

enum td_code td_regions_check(const struct td_plan *p, struct td_err *err)
{
    int behind = 0;
    for (int i = 0; i < p->n_regions; i++) {
        const struct td_region *r = &p->regions[i];
        TD_WANT(r->first >= behind && r->n_groups >= 2 && r->n_groups <= TD_REGION_GROUPS &&
                    td_region_end(r) <= p->n_steps,
                err, "region %d of %d groups begins at step %d, where %d is next", i, r->n_groups, r->first,
                behind);
        for (int g = 0; g < r->n_groups; g++) {
            TD_WANT(td_region_start(r, g) < r->end[g], err, "group %d of region %d has no step", g, i);
            TD_TRY(check_group(p, r, g, err));
        }
        behind = td_region_end(r);
    }
    return TD_OK;
}
