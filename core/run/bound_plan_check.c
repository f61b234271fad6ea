/* core/run/bound_plan_check.c - holds the memory plan against lifetimes found anew, in Debug builds
 * (core/base/check.h).
 *
 * One walk over the steps keeps the values alive that lie in the block; each that is made is compared with
 * them, and so is the workspace of each step's kernel. In a region nothing that one of its groups makes or
 * reads ends before the region does, for the other groups.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/bound_plan_check.h"

#include "core/base/check.h"
#include "core/base/mem.h"

struct checker {
    const struct td_bound_plan *l;
    const struct td_plan *p;
    int *end;   /* by value: the last step that may use its bytes, through views too */
    int *root;  /* by value: the value whose bytes it shows */
    int *step;  /* by value: the step that makes it */
    int *alive; /* values with bytes in the block */
    int n_alive, region;
    struct td_err *err;
};

static void find_lifetimes(struct checker *x)
{
    const struct td_plan *p = x->p;
    for (int v = 0; v < p->n_values; v++) {
        x->end[v] = p->last_use[v];
        x->root[v] = v;
    }
    for (int k = 0; k < p->n_steps; k++) {
        const struct td_step *s = &p->steps[k];
        for (int o = 0; o < s->n_out; o++) {
            x->step[s->out0 + o] = k;
        }
        if ((s->flags & TD_OP_VIEW) && s->n_in > 0 && s->n_out > 0) {
            x->root[s->out0] = x->root[s->in[0]];
        }
        for (int i = 0; td_step_on_device(x->l->mode[k]) && i < s->n_in; i++) {
            x->end[s->in[i]] = p->n_steps; /* a device may copy it at any time until the run ends */
        }
    }
    for (int v = 0; v < p->n_values; v++) {
        if (x->end[v] > x->end[x->root[v]]) {
            x->end[x->root[v]] = x->end[v];
        }
    }
}

static int64_t end_of_bytes(const struct checker *x, int v)
{
    return x->l->offset[v] + td_shape_count(&x->l->shape[v]) * (int64_t)td_dtype_size(x->p->dtype[v]);
}

static const struct td_region *region_at(const struct checker *x, int step)
{
    const struct td_region *r = x->region < x->p->n_regions ? &x->p->regions[x->region] : NULL;
    return r != NULL && step >= r->first && step < td_region_end(r) ? r : NULL;
}

static int group_of(const struct td_region *r, int step)
{
    int g = 0;
    while (step >= r->end[g]) {
        g++;
    }
    return g;
}

/* Whether the region, which has step k, may run k while another of its groups uses the bytes of u. */
static bool used_beside(const struct checker *x, const struct td_region *r, int u, int k)
{
    const int ends = x->end[u] < td_region_end(r) ? x->end[u] : td_region_end(r) - 1;
    return (x->step[u] >= r->first && group_of(r, x->step[u]) != group_of(r, k)) ||
           (ends >= r->first && group_of(r, ends) != group_of(r, k));
}

/* Whether step k, which makes v, writes it over u, which ends there. */
static bool in_place(const struct checker *x, int u, int v, int k)
{
    const struct td_step *s = &x->p->steps[k];
    bool reads = false;
    for (int i = 0; i < s->n_in; i++) {
        reads |= x->root[s->in[i]] == u;
    }
    return reads && (s->flags & TD_OP_ELEMENTWISE) && x->end[u] == k && x->l->offset[u] == x->l->offset[v];
}

static enum td_code check_made(struct checker *x, int v, int k)
{
    const struct td_region *r = region_at(x, k);
    TD_WANT(x->l->offset[v] % 64 == 0 && end_of_bytes(x, v) <= (int64_t)x->l->block_bytes, x->err,
            "value %d of %s lies at %lld in a block of %zu bytes", v, TD_NODE_STR(x->p->steps[k].node),
            (long long)x->l->offset[v], x->l->block_bytes);
    for (int i = 0; i < x->n_alive; i++) {
        const int u = x->alive[i];
        const bool apart = x->l->offset[u] >= end_of_bytes(x, v) || x->l->offset[v] >= end_of_bytes(x, u);
        const bool over = x->end[u] < k || in_place(x, u, v, k);
        TD_WANT(apart || (over && (r == NULL || !used_beside(x, r, u, k))), x->err,
                "value %d of %s shares bytes with value %d, which is used until step %d", v,
                TD_NODE_STR(x->p->steps[k].node), u, x->end[u]);
    }
    x->alive[x->n_alive++] = v;
    return TD_OK;
}

static bool overlaps_workspace(const struct checker *x, int step, int v)
{
    const int64_t from = x->l->workspace[step], to = from + (int64_t)x->l->choice[step].offer.workspace_bytes;
    return from >= 0 && x->l->offset[v] < to && from < end_of_bytes(x, v);
}

/* The workspace of step k is nobody else's while k runs, nor while another group of its region does. */
static enum td_code check_workspace(struct checker *x, int k)
{
    const struct td_region *r = region_at(x, k);
    const char *node = TD_NODE_STR(x->p->steps[k].node);
    for (int i = 0; i < x->n_alive; i++) {
        const int u = x->alive[i];
        TD_WANT(!overlaps_workspace(x, k, u) || (x->end[u] < k && (r == NULL || !used_beside(x, r, u, k))),
                x->err, "the workspace of %s shares bytes with value %d, which is used until step %d", node,
                u, x->end[u]);
    }
    for (int o = 0; o < x->p->steps[k].n_out; o++) {
        const int v = x->p->steps[k].out0 + o;
        for (int j = r == NULL ? k : r->first; x->l->offset[v] >= 0 && j < k; j++) {
            TD_WANT(group_of(r, j) == group_of(r, k) || !overlaps_workspace(x, j, v), x->err,
                    "value %d of %s shares bytes with the workspace of step %d, of another group", v, node,
                    j);
        }
    }
    return TD_OK;
}

/* Behind a region, and outside of any, what has ended is out of the way. */
static void retire(struct checker *x, int k)
{
    int kept = 0;
    for (int i = 0; i < x->n_alive; i++) {
        if (x->end[x->alive[i]] >= k) {
            x->alive[kept++] = x->alive[i];
        }
    }
    x->n_alive = kept;
}

static enum td_code check_steps(struct checker *x)
{
    for (int k = 0; k < x->p->n_steps; k++) {
        const struct td_step *s = &x->p->steps[k];
        while (x->region < x->p->n_regions && k >= td_region_end(&x->p->regions[x->region])) {
            x->region++;
        }
        const struct td_region *r = region_at(x, k);
        if (r == NULL || k == r->first) {
            retire(x, k);
        }
        for (int o = 0; o < s->n_out; o++) {
            if (x->l->offset[s->out0 + o] >= 0) {
                TD_TRY(check_made(x, s->out0 + o, k));
            }
        }
        TD_TRY(check_workspace(x, k));
    }
    return TD_OK;
}

enum td_code td_bound_plan_check(const struct td_bound_plan *l, struct td_err *err)
{
    const size_t n = (size_t)l->plan->n_values + 1;
    struct checker x = {.l = l, .p = l->plan, .err = err};
    x.end = td_check_room(n, sizeof *x.end);
    x.root = td_check_room(n, sizeof *x.root);
    x.step = td_check_room(n, sizeof *x.step);
    x.alive = td_check_room(n, sizeof *x.alive);
    enum td_code rc = TD_OK;
    if (x.end != NULL && x.root != NULL && x.step != NULL && x.alive != NULL) {
        find_lifetimes(&x);
        rc = check_steps(&x);
    }
    td_free(x.end);
    td_free(x.root);
    td_free(x.step);
    td_free(x.alive);
    return rc;
}
