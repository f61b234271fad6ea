/* core/run/memory_plan.c - the memory plan: where the values of a bound plan lie in a run's block.
 *
 * It is first fit over the steps: an output takes the lowest gap between the blocks alive, as does the
 * workspace of the step's kernel, which is alive in that step alone; an elementwise step writes over an input
 * that dies with it. In a region (core/compile/parallel_regions.h) bytes from before it stay taken until its
 * end, and a group takes what it has left itself, but nothing that a group before it had.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/run/bound_plan.h"
#include "core/base/mem.h"

enum { ALIGN = 64, MOST_WORKSPACE = 1 << 30 /* what is more is had for the call */ };

struct area {
    int64_t from, to;
    int until; /* bytes [from, to) are taken until this step has run */
    bool mine; /* made in the group being planned: when over, free for it, but not for others */
};

struct planner {
    struct td_bound_plan *l;
    const struct td_plan *p;
    struct area *areas; /* sorted by from */
    int n_areas;
    int *root;         /* by value: the value whose bytes it is */
    int *area_end;     /* by root value: last step that needs the bytes */
    int region, group; /* that the step being planned is in, or that comes next */
};

static int64_t aligned_bytes(const struct planner *m, int v)
{
    int64_t bytes = td_shape_count(&m->l->shape[v]) * (int64_t)td_dtype_size(m->p->dtype[v]);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Lifetimes of views extend those of the bytes they show; walked backwards, so that chains add up. What a
 * device copies from here it may read until the run's end. */
static void extend_by_views(struct planner *m)
{
    for (int v = 0; v < m->p->n_values; v++) {
        m->root[v] = v;
        m->area_end[v] = m->p->last_use[v];
    }
    for (int k = m->p->n_steps - 1; k >= 0; k--) {
        const struct td_step *s = &m->p->steps[k];
        if ((s->flags & TD_OP_VIEW) && s->n_in > 0 && s->n_out > 0 &&
            m->area_end[s->in[0]] < m->area_end[s->out0]) {
            m->area_end[s->in[0]] = m->area_end[s->out0];
        }
        for (int i = 0; td_step_on_device(m->l->mode[k]) && i < s->n_in; i++) {
            m->area_end[s->in[i]] = m->p->n_steps;
        }
    }
}

/* The region that has the step, or the first behind it. */
static int region_on_host(const struct td_plan *p, int step)
{
    int low = 0, high = p->n_regions;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (td_region_end(&p->regions[mid]) <= step) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

/* What a region finds there stays until the step behind it (which may be in the next). */
static void extend_by_regions(struct planner *m)
{
    const struct td_plan *p = m->p;
    for (int v = 0; p->n_regions > 0 && v < p->n_values; v++) {
        for (int r = region_on_host(p, m->area_end[v]); r < p->n_regions; r++) {
            const struct td_region *region = &p->regions[r];
            if (m->area_end[v] < region->first || v >= p->steps[region->first].out0) {
                break;
            }
            m->area_end[v] = td_region_end(region);
        }
    }
}

static bool plannable(const struct planner *m, const struct td_step *s, int k, int v)
{
    return (m->l->mode[k] == TD_STEP_READY || m->l->mode[k] == TD_STEP_CHECK) && !m->p->escapes[v] &&
           !m->p->is_ref[v] && !td_dtype_is_object(m->p->dtype[v]) && !(s->flags & TD_OP_VIEW) &&
           m->l->known[v].dtype == TD_DTYPE_NONE && td_shape_count(&m->l->shape[v]) > 0 &&
           (s->flags & TD_OP_STATEFUL) == 0 && m->l->inner[k] == NULL;
}

static void retire(struct planner *m, int step)
{
    int kept = 0;
    for (int i = 0; i < m->n_areas; i++) {
        if (m->areas[i].until >= step || m->areas[i].mine) {
            m->areas[kept++] = m->areas[i];
        }
    }
    m->n_areas = kept;
}

static bool in_region(const struct planner *m, int step)
{
    return m->region < m->p->n_regions && step >= m->p->regions[m->region].first;
}

/* Where a group ends before this step, what it had is nobody's until the region's end. */
static void enter_step(struct planner *m, int step)
{
    while (in_region(m, step) && step >= m->p->regions[m->region].end[m->group]) {
        const struct td_region *r = &m->p->regions[m->region];
        for (int i = 0; i < m->n_areas; i++) {
            struct area *a = &m->areas[i];
            a->until = a->mine && a->until < td_region_end(r) - 1 ? td_region_end(r) - 1 : a->until;
            a->mine = false;
        }
        const bool last = ++m->group == r->n_groups;
        m->region += last;
        m->group = last ? 0 : m->group;
    }
    retire(m, step);
}

/* The lowest bytes that are free at this step. */
static int64_t first_fit(struct planner *m, int64_t bytes, int step, int until)
{
    int64_t at = 0;
    int i = 0;
    for (; i < m->n_areas && (m->areas[i].until < step || m->areas[i].from - at < bytes); i++) {
        if (m->areas[i].until >= step) {
            at = m->areas[i].to > at ? m->areas[i].to : at;
        }
    }
    while (i > 0 && m->areas[i - 1].from > at) {
        i--; /* behind areas that are over */
    }
    memmove(m->areas + i + 1, m->areas + i, (size_t)(m->n_areas - i) * sizeof m->areas[0]);
    m->areas[i] = (struct area){at, at + bytes, until, in_region(m, step)};
    m->n_areas++;
    if ((size_t)(at + bytes) > m->l->block_bytes) {
        m->l->block_bytes = (size_t)(at + bytes);
    }
    return at;
}

/* An input whose bytes die with this step and fit: its area goes on living as the output's. */
static bool reuse_input(struct planner *m, const struct td_step *s, int k, int v)
{
    for (int i = 0; (s->flags & TD_OP_ELEMENTWISE) && i < s->n_in; i++) {
        int u = s->in[i], r = m->root[u];
        if (m->l->offset[r] < 0 || m->area_end[r] != k || (s->deref != NULL && s->deref[i]) ||
            td_shape_count(&m->l->shape[u]) != td_shape_count(&m->l->shape[v]) ||
            td_dtype_size(m->p->dtype[u]) != td_dtype_size(m->p->dtype[v])) {
            continue;
        }
        for (int a = 0; a < m->n_areas; a++) {
            if (m->areas[a].from == m->l->offset[r] && m->areas[a].until >= k) {
                m->areas[a].until = m->area_end[v];
                m->l->offset[v] = m->l->offset[r];
                return true;
            }
        }
    }
    return false;
}

static void place_outputs(struct planner *m, const struct td_step *s, int k)
{
    for (int o = 0; o < s->n_out; o++) {
        int v = s->out0 + o;
        if (plannable(m, s, k, v) && !(o == 0 && reuse_input(m, s, k, v))) {
            m->l->offset[v] = first_fit(m, aligned_bytes(m, v), k, m->area_end[v]);
        }
    }
}

/* Bytes that are the step's kernel's while it runs, and nobody's after; -1: it wants none. */
static int64_t workspace_at(struct planner *m, int k)
{
    const size_t bytes = m->l->choice[k].offer.workspace_bytes;
    if (bytes == 0 || bytes > MOST_WORKSPACE || td_step_on_device(m->l->mode[k])) {
        return -1;
    }
    return first_fit(m, (int64_t)((bytes + ALIGN - 1) / ALIGN * ALIGN), k, k);
}

static void plan_memory(struct planner *m)
{
    extend_by_views(m);
    extend_by_regions(m);
    for (int v = 0; v < m->p->n_values; v++) {
        m->l->offset[v] = -1;
    }
    for (int k = 0; k < m->p->n_steps; k++) {
        const struct td_step *s = &m->p->steps[k];
        enter_step(m, k);
        if ((s->flags & TD_OP_VIEW) && s->n_in > 0 && s->n_out > 0) {
            m->root[s->out0] = m->root[s->in[0]];
        } else {
            place_outputs(m, s, k);
        }
        m->l->workspace[k] = workspace_at(m, k);
    }
}

bool td_memory_plan(struct td_bound_plan *l)
{
    const struct td_plan *p = l->plan;
    const size_t v = (size_t)p->n_values + 1;
    struct planner m = {.l = l,
                        .p = p,
                        .areas = td_calloc(v + (size_t)p->n_steps, sizeof(struct area)),
                        .root = td_calloc(v, sizeof(int)),
                        .area_end = td_calloc(v, sizeof(int))};
    const bool ok = m.areas && m.root && m.area_end;
    if (ok) {
        plan_memory(&m);
    }
    td_free(m.areas);
    td_free(m.root);
    td_free(m.area_end);
    return ok;
}
