/* core/compile/parallel_regions.c - finds regions: from each join backwards, by union-find.
 *
 * A step whose output nothing has used so far is open. A step that is the first to use several open ones may
 * be a join (and so may the end, where what is fetched is open). From each join the steps before it are
 * visited backwards, and those that an edge connects are united: as long as there are several parts, [step,
 * join) is a candidate. Its gain is the weight of all parts but the heaviest. When the join's own parts have
 * become one, at the fork, the walk ends. Of all candidates, disjoint ones of the most gain together are
 * chosen (best[] below), so that two towers win over the forks inside them. The parts of a chosen region are
 * dealt out to at most TD_REGION_GROUPS groups, the heaviest first and each to the lightest group so far, and
 * the steps are sorted by group.
 *
 * Weights are guesses by kind of op: they only choose between candidates. Whether a region is worth a second
 * thread is measured, run by run. The steps visited in all are bounded, so that a graph with many joins is
 * not quadratic.
 *
 * Does not: run regions (core/run/region_run.c), keep their values apart in memory (core/run/memory_plan.c),
 * check what it made (core/run/plan_check.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/parallel_regions.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/fused.h"
#include "core/compile/ir.h"
#include "core/base/mem.h"

/* Weights: a function called or a loop, a contraction, what computes nothing, anything else. */
enum { HEAVIEST = 64, HEAVY = 16, NOTHING = 0, LIGHT = 1 };
enum { MIN_GAIN = HEAVY, MIN_GROUP = 8, MIN_VISITS = 1 << 16, VISITS_PER_STEP = 8 };

struct finder {
    struct td_node **steps;
    int n;
    int *index;        /* by node id: its place among the steps; -1 */
    int *user, *users; /* step k is used by the steps user[users[k]] .. user[users[k + 1] - 1], ascending */
    int *open_before;  /* open steps as a list: the one before; n is the list's head */
    int *open_after;
    int *part;       /* union-find: a step of the same part, nearer to its root */
    bool *inside;    /* the step may stand in a region */
    int64_t *alone;  /* weight of the step */
    int64_t *weight; /* while a join is looked at: of a part, at its root */
    bool *own;       /* the part has an open step that the join uses */
    int *from;     /* where the region begins that ends before this step, in the best choice; -1: none does */
    int64_t *best; /* what that choice gains */
    int visits, max_visits;
};

/* ------------------------------------------------------------------ single steps */

static bool only_reads(const struct td_node *n)
{
    return n->n_out > 0 && (n->op->flags & TD_OP_READS) != 0;
}

static bool may_be_inside(const struct td_node *n)
{
    if (n->op == NULL || (n->op->flags & (TD_OP_REFUSED | TD_OP_HANDLE | TD_OP_ARG)) ||
        ((n->op->flags & TD_OP_STATEFUL) && !only_reads(n))) {
        return false;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (n->in_ref[i] || n->in[i].node->out_ref[n->in[i].port]) {
            return false;
        }
    }
    for (int i = 0; i < n->n_out; i++) {
        if (n->out_ref[i]) {
            return false;
        }
    }
    return true;
}

static int64_t weight_of(const struct td_node *n)
{
    if (n->loop != NULL) {
        return HEAVIEST;
    }
    for (int i = 0; i < n->n_attrs; i++) {
        if (n->attrs[i].kind == TD_ATTR_FUNC) {
            return HEAVIEST;
        }
    }
    if (n->fused != NULL) {
        return n->fused->has_head ? HEAVY : LIGHT * n->fused->n_parts;
    }
    if (n->op->flags & (TD_OP_VIEW | TD_OP_SHAPE_ONLY | TD_OP_FREE)) {
        return NOTHING;
    }
    return n->op->flags & TD_OP_HEAVY ? HEAVY : LIGHT;
}

/* ------------------------------------------------------------------ users */

static const struct td_node *source(const struct td_node *n, int edge)
{
    return edge < n->n_in ? n->in[edge].node : n->control[edge - n->n_in];
}

/* The edge's step; -1: a feed, a constant. */
static int source_step(const struct finder *x, int step, int edge)
{
    return x->index[source(x->steps[step], edge)->id];
}

static int n_edges(const struct finder *x, int step)
{
    return x->steps[step]->n_in + x->steps[step]->n_control;
}

/* Counting sort of all edges by their source. */
static bool list_users(struct finder *x)
{
    int sum = 0;
    for (int k = 0; k < x->n; k++) {
        for (int e = 0; e < n_edges(x, k); e++) {
            const int u = source_step(x, k, e);
            if (u >= 0) {
                x->users[u + 1]++;
                sum++;
            }
        }
    }
    x->user = td_calloc((size_t)sum + 1, sizeof *x->user);
    int *at = td_calloc((size_t)x->n + 1, sizeof *at);
    if (x->user == NULL || at == NULL) {
        td_free(at);
        return false;
    }
    for (int k = 0; k < x->n; k++) {
        x->users[k + 1] += x->users[k];
        at[k] = x->users[k];
    }
    for (int k = 0; k < x->n; k++) {
        for (int e = 0; e < n_edges(x, k); e++) {
            const int u = source_step(x, k, e);
            if (u >= 0) {
                x->user[at[u]++] = k;
            }
        }
    }
    td_free(at);
    return true;
}

static int first_use(const struct finder *x, int k)
{
    return x->users[k] == x->users[k + 1] ? x->n : x->user[x->users[k]];
}

/* ------------------------------------------------------------------ parts */

static int root_of(const struct finder *x, int k)
{
    while (x->part[k] != k) {
        x->part[k] = x->part[x->part[k]];
        k = x->part[k];
    }
    return k;
}

struct walk {
    int join, n_own; /* open steps that the join uses */
    int seen, parts, own_parts;
    int64_t total, heaviest; /* of the parts that could be groups */
};

static int64_t counted(int64_t weight)
{
    return weight >= MIN_GROUP ? weight : 0;
}

static void unite(struct finder *x, struct walk *w, int a, int b)
{
    a = root_of(x, a);
    b = root_of(x, b);
    if (a == b) {
        return;
    }
    x->part[b] = a;
    w->total -= counted(x->weight[a]) + counted(x->weight[b]);
    x->weight[a] += x->weight[b];
    w->total += counted(x->weight[a]);
    w->own_parts -= x->own[a] && x->own[b];
    x->own[a] |= x->own[b];
    w->parts--;
}

/* Step f comes into the range. */
static void add_step(struct finder *x, struct walk *w, int f)
{
    x->part[f] = f;
    x->weight[f] = x->alone[f];
    x->own[f] = first_use(x, f) == w->join;
    w->seen += x->own[f];
    w->own_parts += x->own[f];
    w->parts++;
    w->total += counted(x->weight[f]);
    for (int u = x->users[f]; u < x->users[f + 1] && x->user[u] < w->join; u++) {
        unite(x, w, f, x->user[u]);
        x->visits++;
    }
    const int64_t mine = x->weight[root_of(x, f)];
    w->heaviest = mine > w->heaviest ? mine : w->heaviest;
    x->visits++;
}

/* The best region that ends at this join, together with the best choice before it. */
static void look_back(struct finder *x, int join, int n_own)
{
    struct walk w = {.join = join, .n_own = n_own};
    for (int f = join - 1; f >= 0 && x->inside[f] && x->visits < x->max_visits; f--) {
        add_step(x, &w, f);
        const int64_t gain = w.total - w.heaviest;
        if (gain >= MIN_GAIN && x->best[f] + gain > x->best[join]) {
            x->best[join] = x->best[f] + gain;
            x->from[join] = f;
        }
        if (w.seen == w.n_own && w.own_parts == 1) {
            return; /* at the fork */
        }
    }
}

/* ------------------------------------------------------------------ joins */

static void open_step(struct finder *x, int k)
{
    const int last = x->open_before[x->n];
    x->open_before[k] = last;
    x->open_after[k] = x->n;
    x->open_after[last] = k;
    x->open_before[x->n] = k;
}

static void close_step(struct finder *x, int k)
{
    x->open_after[x->open_before[k]] = x->open_after[k];
    x->open_before[x->open_after[k]] = x->open_before[k];
}

/* Takes what step k is the first to use off the list: how many there were. */
static int close_inputs(struct finder *x, int k)
{
    int closed = 0;
    for (int e = 0; e < n_edges(x, k); e++) {
        const int u = source_step(x, k, e);
        if (u >= 0 && first_use(x, u) == k && x->open_after[u] >= 0) {
            close_step(x, u);
            x->open_after[u] = -1;
            closed++;
        }
    }
    return closed;
}

static void choose(struct finder *x)
{
    x->open_before[x->n] = x->open_after[x->n] = x->n;
    for (int j = 0; j <= x->n; j++) {
        x->from[j] = -1;
        x->best[j] = j > 0 ? x->best[j - 1] : 0;
        int joined = 0;
        if (j < x->n) {
            joined = close_inputs(x, j);
        } else {
            for (int k = x->open_after[x->n]; k != x->n; k = x->open_after[k]) {
                joined++;
            }
        }
        if (joined > 1) {
            look_back(x, j, joined);
        }
        if (j < x->n) {
            open_step(x, j);
        }
    }
}

/* ------------------------------------------------------------------ groups */

struct part {
    int root, first;
    int64_t weight;
    int group;
};

static int heavier(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight)
                                  : (x->first > y->first) - (x->first < y->first);
}

/* The parts of [from, to), heaviest first. */
static int list_parts(struct finder *x, int from, int to, struct part *parts)
{
    struct walk w = {.join = to};
    int n = 0;
    for (int f = to - 1; f >= from; f--) {
        add_step(x, &w, f);
    }
    for (int f = from; f < to; f++) {
        if (root_of(x, f) == f) {
            parts[n++] = (struct part){.root = f, .first = f, .weight = x->weight[f]};
        }
    }
    qsort(parts, (size_t)n, sizeof *parts, heavier);
    return n;
}

/* Each part to the lightest group so far, of those to the one with fewest parts: that none is left empty by
 * parts that weigh nothing. */
static void spread_parts(struct part *parts, int n, int n_groups)
{
    int64_t load[TD_REGION_GROUPS] = {0};
    int held[TD_REGION_GROUPS] = {0};
    for (int i = 0; i < n; i++) {
        int least = 0;
        for (int g = 1; g < n_groups; g++) {
            least = load[g] < load[least] || (load[g] == load[least] && held[g] < held[least]) ? g : least;
        }
        parts[i].group = least;
        load[least] += parts[i].weight;
        held[least]++;
    }
}

/* Makes the region of [from, to): group_of and sorted are scratch of n steps. */
static void make_region(struct finder *x, int from, int to, struct part *parts, int *group_of,
                        struct td_node **sorted, struct td_region *r)
{
    const int n = list_parts(x, from, to, parts);
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        total += parts[i].weight;
    }
    const int64_t most = total / MIN_GROUP < TD_REGION_GROUPS ? total / MIN_GROUP : TD_REGION_GROUPS;
    *r = (struct td_region){.first = from, .n_groups = n < most ? n : (int)most};
    spread_parts(parts, n, r->n_groups);
    for (int i = 0; i < n; i++) {
        group_of[parts[i].root] = parts[i].group;
    }
    int number[TD_REGION_GROUPS], numbered = 0; /* the groups in the order of their first steps */
    memset(number, 0xff, sizeof number);
    for (int f = from; f < to; f++) {
        const int g = group_of[root_of(x, f)];
        if (number[g] < 0) {
            number[g] = numbered++;
        }
    }
    int at = from;
    for (int g = 0; g < r->n_groups; g++) {
        for (int f = from; f < to; f++) {
            if (number[group_of[root_of(x, f)]] == g) {
                sorted[at++] = x->steps[f];
            }
        }
        r->end[g] = at;
    }
    memcpy(x->steps + from, sorted + from, (size_t)(to - from) * sizeof *sorted);
}

static enum td_code make_regions(struct finder *x, struct td_arena *arena, struct td_region **out, int *n_out,
                                 struct td_err *err)
{
    int n = 0;
    for (int j = x->n; j > 0; j = x->from[j] >= 0 ? x->from[j] : j - 1) {
        n += x->from[j] >= 0;
    }
    *n_out = n;
    *out = NULL;
    if (n == 0) {
        return TD_OK;
    }
    const size_t room = (size_t)x->n + 1;
    struct part *parts = td_calloc(room, sizeof *parts);
    int *group_of = td_calloc(room, sizeof *group_of);
    struct td_node **sorted = td_calloc(room, sizeof *sorted);
    *out = td_arena_alloc(arena, (size_t)n, sizeof **out);
    const bool ok = parts && group_of && sorted && *out;
    for (int j = x->n; ok && j > 0; j = x->from[j] >= 0 ? x->from[j] : j - 1) {
        if (x->from[j] >= 0) {
            make_region(x, x->from[j], j, parts, group_of, sorted, &(*out)[--n]);
        }
    }
    td_free(parts);
    td_free(group_of);
    td_free(sorted);
    return ok ? TD_OK : td_no_memory(err, room, "finding parallel regions");
}

/* ------------------------------------------------------------------ all of it */

static bool finder_init(struct finder *x)
{
    int ids = 0;
    for (int k = 0; k < x->n; k++) {
        const struct td_node *n = x->steps[k];
        ids = n->id >= ids ? n->id + 1 : ids;
        for (int e = 0; e < n_edges(x, k); e++) {
            ids = source(n, e)->id >= ids ? source(n, e)->id + 1 : ids;
        }
    }
    const size_t n = (size_t)x->n + 2;
    x->index = td_calloc((size_t)ids + 1, sizeof *x->index);
    x->users = td_calloc(n, sizeof *x->users);
    x->open_before = td_calloc(n, sizeof *x->open_before);
    x->open_after = td_calloc(n, sizeof *x->open_after);
    x->part = td_calloc(n, sizeof *x->part);
    x->inside = td_calloc(n, sizeof *x->inside);
    x->alone = td_calloc(n, sizeof *x->alone);
    x->weight = td_calloc(n, sizeof *x->weight);
    x->own = td_calloc(n, sizeof *x->own);
    x->from = td_calloc(n, sizeof *x->from);
    x->best = td_calloc(n, sizeof *x->best);
    if (!(x->index && x->users && x->open_before && x->open_after && x->part && x->inside && x->alone &&
          x->weight && x->own && x->from && x->best)) {
        return false;
    }
    memset(x->index, 0xff, ((size_t)ids + 1) * sizeof *x->index);
    for (int k = 0; k < x->n; k++) {
        x->index[x->steps[k]->id] = k;
        x->inside[k] = may_be_inside(x->steps[k]);
        x->alone[k] = x->inside[k] ? weight_of(x->steps[k]) : NOTHING;
    }
    return list_users(x);
}

static void finder_fini(struct finder *x)
{
    td_free(x->index);
    td_free(x->users);
    td_free(x->user);
    td_free(x->open_before);
    td_free(x->open_after);
    td_free(x->part);
    td_free(x->inside);
    td_free(x->alone);
    td_free(x->weight);
    td_free(x->own);
    td_free(x->from);
    td_free(x->best);
}

enum td_code td_regions_find(struct td_arena *arena, struct td_node **steps, int n, struct td_region **out,
                             int *n_out, struct td_err *err)
{
    struct finder x = {.steps = steps, .n = n, .max_visits = MIN_VISITS};
    if (n > MIN_VISITS / VISITS_PER_STEP) {
        x.max_visits = n < INT_MAX / VISITS_PER_STEP ? n * VISITS_PER_STEP : INT_MAX;
    }
    enum td_code rc = TD_OK;
    if (finder_init(&x)) {
        choose(&x);
        rc = make_regions(&x, arena, out, n_out, err);
    } else {
        rc = td_no_memory(err, (size_t)n, "finding parallel regions");
    }
    finder_fini(&x);
    return rc;
}
