/* core/run/inner.c - binds what control flow runs, and looks at every step of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/inner.h"

#include "core/base/device.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/graph/attr.h"
#include "core/graph/graph.h"
#include "core/run/device_faults.h"
#include "core/run/stretch.h"

/* ------------------------------------------------------------------ which steps */

static bool is_numbers(const struct td_bound_plan *l, int v)
{
    return td_shape_known(&l->shape[v]) && td_shape_count(&l->shape[v]) >= 0 && !l->plan->is_ref[v] &&
           !td_dtype_is_object(l->plan->dtype[v]);
}

/* A number that says which branch is taken. */
static bool decides(const struct td_bound_plan *l, int v)
{
    const uint32_t numbers = TD_SET_INTS | TD_SET_FLOATS | TD_BIT(TD_BOOL);
    return l->shape[v].rank == 0 && td_dtype_in(l->plan->dtype[v], numbers);
}

static bool may_be_recorded(const struct td_bound_plan *l, int k)
{
    const struct td_device *d = td_model_opts_of(l->plan->model)->device;
    const struct td_step *s = &l->plan->steps[k];
    const struct td_op *op = s->node->op;
    const bool loop = op != NULL && op->branch.loop_body != NULL;
    bool may = op != NULL && (loop || op->branch.taken != NULL) && d != NULL && d->graph_run > 0 &&
               d->graph_begin != NULL && !l->plan->dead_values && s->deref == NULL && s->n_in > 0 &&
               s->n_out > 0 && (!loop || s->n_in == s->n_out);
    for (int i = 0; may && i < s->n_in; i++) {
        may = is_numbers(l, s->in[i]);
    }
    return may && (loop || decides(l, s->in[0]));
}

/* ------------------------------------------------------------------ functions that call themselves */

enum { MOST_LEVELS = 32, MOST_NODES = 100000 };

struct look {
    const struct td_library *library;
    int nodes_left;
};

static bool node_ends(struct look *x, const struct td_node *n, int levels);

/* Whether what the function calls, and what that calls, comes to an end: binding one that calls itself would
 * not, and its lock is held meanwhile. */
static bool ends(struct look *x, const char *name, int levels)
{
    const struct td_function *f = td_library_find(x->library, name);
    const int n = f != NULL ? f->body.n_nodes : 0;
    x->nodes_left -= n;
    bool yes = f == NULL || (levels > 0 && x->nodes_left >= 0);
    for (int i = 0; yes && i < n; i++) {
        yes = node_ends(x, f->body.nodes[i], levels - 1);
    }
    return yes;
}

static bool node_ends(struct look *x, const struct td_node *n, int levels)
{
    bool yes = ends(x, n->op_name, levels); /* a call by the function's name */
    for (int a = 0; yes && a < n->n_attrs; a++) {
        for (int i = 0; yes && n->attrs[a].kind == TD_ATTR_FUNC && i < n->attrs[a].n; i++) {
            yes = ends(x, n->attrs[a].func[i].name, levels);
        }
    }
    return yes;
}

/* ------------------------------------------------------------------ binding */

/* *x as far as it may be freed. */
static enum td_code make(int n, int n_carried, struct td_inner **out, struct td_err *err)
{
    struct td_inner *x = *out = td_calloc(1, sizeof *x);
    if (x == NULL) {
        return td_no_memory(err, sizeof *x, "what control flow runs");
    }
    x->n = n;
    x->bound = td_calloc((size_t)n + 1, sizeof(struct td_bound_plan *));
    x->from = td_calloc((size_t)n_carried + 1, sizeof *x->from);
    return x->bound != NULL && x->from != NULL ? TD_OK
                                               : td_no_memory(err, (size_t)n, "what control flow runs");
}

void td_inner_free(struct td_inner *x)
{
    if (x == NULL) {
        return;
    }
    for (int p = 0; x->bound != NULL && p < x->n; p++) {
        td_bound_plan_unref(x->bound[p]);
    }
    td_free(x->bound);
    td_free(x->from);
    td_free(x);
}

/* The plan of a function that the step runs on its inputs from `first` on. */
static enum td_code bind(const struct td_bound_plan *l, const struct td_step *s,
                         const struct td_func_ref *name, int first, int n_out, struct td_bound_plan **out,
                         struct td_err *err)
{
    const struct td_callable_calls *calls = td_model_calls(l->plan->model);
    const int n = s->n_in - first;
    struct td_callable *fn;
    TD_FAIL_IF(name == NULL, err, INVALID_ARGUMENT, "an attribute names no function");
    TD_TRY(calls->function(l->plan->model, name->name, n, n_out, &fn, err));
    struct td_tensor *in = td_calloc((size_t)n + 1, sizeof *in);
    const struct td_tensor **list = td_calloc((size_t)n + 1, sizeof *list);
    enum td_code rc =
        in != NULL && list != NULL ? TD_OK : td_no_memory(err, (size_t)n, "what control flow is given");
    for (int i = 0; rc == TD_OK && i < n; i++) {
        const int v = s->in[first + i];
        in[i] = (struct td_tensor){.dtype = l->plan->dtype[v], .shape = l->shape[v]};
        list[i] = &in[i];
    }
    rc = rc ? rc : calls->bind(fn, list, NULL, out, err);
    td_free(in);
    td_free(list);
    return rc;
}

static enum td_code bind_loop(const struct td_bound_plan *l, const struct td_step *s, struct td_inner **out,
                              struct td_err *err)
{
    const struct td_op_branch *b = &s->node->op->branch;
    TD_TRY(make(TD_LOOP_PARTS, s->n_in, out, err));
    struct td_bound_plan **bound = (*out)->bound;
    (*out)->loop = true;
    TD_TRY(bind(l, s, td_attr_func(s->node, b->loop_cond, 0), 0, 1, &bound[TD_LOOP_COND], err));
    return bind(l, s, td_attr_func(s->node, b->loop_body, 0), 0, s->n_in, &bound[TD_LOOP_BODY], err);
}

static enum td_code bind_branches(const struct td_bound_plan *l, const struct td_step *s,
                                  struct td_inner **out, struct td_err *err)
{
    const struct td_op_branch *b = &s->node->op->branch;
    const int n = b->list != NULL ? td_attr_len(s->node, b->list) : 2;
    TD_FAIL_IF(n == 0 || n > TD_DEVICE_BODIES, err, UNIMPLEMENTED, "it has %d branches", n);
    TD_TRY(make(n, 0, out, err));
    for (int p = 0; p < n; p++) {
        const int value = b->list != NULL ? p : p == 0;
        TD_TRY(bind(l, s, b->taken(s->node, value), 1, s->n_out, &(*out)->bound[p], err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ what is inside */

static int deeper(const struct td_inner *x, int n)
{
    return x->levels > n ? x->levels : n;
}

/* Looks at each step of a part, and counts. */
static enum td_code check_part(struct td_inner *x, const struct td_bound_plan *l, int *levels,
                               struct td_err *err)
{
    TD_FAIL_IF(l->plan->dead_values, err, UNIMPLEMENTED, "it has values that may be dead");
    for (int k = 0; k < l->plan->n_steps; k++) {
        const struct td_inner *in = l->inner[k];
        TD_FAIL_IF(!td_stretch_is_steady(l, k), err, UNIMPLEMENTED,
                   "%s is not the same on the device in each run", TD_NODE_STR(l->plan->steps[k].node));
        if (in != NULL) {
            x->n_judges += in->n_judges;
            x->n_loops += in->n_loops;
            *levels = deeper(in, *levels);
        } else if (td_stretch_runs(l, k)) {
            x->n_judges += l->choice[k].kernel->judged != 0;
        }
    }
    for (int i = 0; i < l->plan->n_fetches; i++) {
        TD_FAIL_IF(l->plan->is_ref[l->plan->fetches[i]], err, UNIMPLEMENTED, "a reference comes out of it");
    }
    return TD_OK;
}

/* Whether what a part fetches is of this dtype and shape. */
static bool gives(const struct td_bound_plan *l, int fetch, enum td_dtype dtype, const struct td_shape *shape)
{
    const int v = l->plan->fetches[fetch];
    return l->plan->dtype[v] == dtype && td_shape_known(shape) && td_shape_count(shape) >= 0 &&
           td_shape_equal(&l->shape[v], shape);
}

static enum td_code check_loop(const struct td_bound_plan *l, const struct td_step *s,
                               const struct td_inner *x, struct td_err *err)
{
    const struct td_shape scalar = td_shape_scalar();
    TD_FAIL_IF(!gives(x->bound[TD_LOOP_COND], 0, TD_BOOL, &scalar), err, UNIMPLEMENTED,
               "its condition is not a bool");
    for (int k = 0; k < x->bound[TD_LOOP_COND]->plan->n_steps; k++) {
        const struct td_inner *in = x->bound[TD_LOOP_COND]->inner[k];
        TD_FAIL_IF(in != NULL && in->n_loops > 0, err, UNIMPLEMENTED, "its condition has a loop in it");
    }
    for (int i = 0; i < s->n_in; i++) {
        const int v = s->in[i];
        TD_FAIL_IF(!gives(x->bound[TD_LOOP_BODY], i, l->plan->dtype[v], &l->shape[v]) ||
                       l->plan->dtype[v] != l->plan->dtype[s->out0 + i],
                   err, UNIMPLEMENTED, "value %d is of another shape or dtype after a round", i);
    }
    return TD_OK;
}

static enum td_code check_branches(const struct td_bound_plan *l, const struct td_step *s,
                                   const struct td_inner *x, struct td_err *err)
{
    for (int i = 0; i < s->n_out; i++) {
        const struct td_shape *first = &x->bound[0]->shape[x->bound[0]->plan->fetches[i]];
        for (int p = 0; p < x->n; p++) {
            TD_FAIL_IF(!gives(x->bound[p], i, l->plan->dtype[s->out0 + i], first), err, UNIMPLEMENTED,
                       "result %d is not of one known shape in all branches", i);
        }
    }
    return TD_OK;
}

/* A value's bytes after a round are those of this value before it; -1: they are new. */
static int comes_from(const struct td_bound_plan *l, int v)
{
    for (int k = l->plan->n_steps - 1; k >= 0; k--) {
        const struct td_step *s = &l->plan->steps[k];
        if (td_stretch_runs(l, k) && td_stretch_hands_on(l, k) && s->out0 == v) {
            v = s->in[0];
        }
    }
    return v < l->plan->n_feeds ? v : -1;
}

static enum td_code check(const struct td_bound_plan *l, const struct td_step *s, struct td_inner *x,
                          struct td_err *err)
{
    int levels = 0;
    for (int p = 0; p < x->n; p++) {
        TD_TRY(check_part(x, x->bound[p], &levels, err));
    }
    x->n_loops += x->loop;
    x->levels = levels + x->loop;
    TD_FAIL_IF(x->n_judges > TD_DEVICE_FAULTS_MOST, err, UNIMPLEMENTED, "%d of its steps judge their inputs",
               x->n_judges);
    TD_TRY(x->loop ? check_loop(l, s, x, err) : check_branches(l, s, x, err));
    for (int i = 0; x->loop && i < s->n_in; i++) {
        x->from[i] = comes_from(x->bound[TD_LOOP_BODY], x->bound[TD_LOOP_BODY]->plan->fetches[i]);
    }
    return TD_OK;
}

/* Whether it was memory or time that was wanting, in what was bound, too. */
static bool is_cut(const struct td_inner *x, enum td_code rc)
{
    bool cut = rc == TD_RESOURCE_EXHAUSTED || td_work_cut || td_work_over() != TD_OK;
    for (int p = 0; x != NULL && x->bound != NULL && p < x->n; p++) {
        cut |= x->bound[p] != NULL && x->bound[p]->cut;
    }
    return cut;
}

struct td_inner *td_inner_find(const struct td_bound_plan *l, int k, struct td_shape *out, bool *cut)
{
    const struct td_step *s = &l->plan->steps[k];
    struct td_inner *x = NULL;
    struct td_err why = {0};
    if (!may_be_recorded(l, k)) {
        return NULL;
    }
    const struct td_device *d = td_model_opts_of(l->plan->model)->device;
    struct look look = {.library = td_model_library(l->plan->model), .nodes_left = MOST_NODES};
    enum td_code rc = d->loop_begin == NULL
                          ? td_fail(&why, TD_UNIMPLEMENTED, "the driver has no conditional nodes")
                      : !node_ends(&look, s->node, MOST_LEVELS)
                          ? td_fail(&why, TD_UNIMPLEMENTED, "its functions call themselves, or are too many")
                      : s->node->op->branch.loop_body != NULL ? bind_loop(l, s, &x, &why)
                                                              : bind_branches(l, s, &x, &why);
    rc = rc ? rc : check(l, s, x, &why);
    if (rc) {
        td_log(TD_LOG_DEBUG, NULL, "%s is not decided on the device: %s", TD_NODE_STR(s->node), why.msg);
        *cut = is_cut(x, rc);
        td_inner_free(x);
        return NULL;
    }
    const struct td_bound_plan *last = x->bound[x->n - 1];
    for (int i = 0; i < s->n_out; i++) {
        out[i] = last->shape[last->plan->fetches[i]];
    }
    return x;
}
