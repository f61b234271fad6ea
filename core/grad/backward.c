/* core/grad/backward.c - reverse mode over an IR in order.
 *
 *   1  mark what a source reaches, forwards: an edge of a dtype that has no gradient leads nowhere, nor does
 *      an op that TensorFlow calls not differentiable
 *   2  seed the targets
 *   3  from the last node to the first: sum up what arrived at each output, ask the node's op
 *   4  what has arrived at the sources is the result
 *
 * Contributions to a value are kept as a list and summed when the value's maker is reached, which is when
 * all its readers have been: slices alone are joined, anything else is summed dense. Nodes are added behind
 * those that were there, and are not differentiated; a second order transforms the IR again, sorted.
 *
 * Does not: know any op (grad.h's formulas do what needs one), look into functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/backward.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/ir_shapes.h"
#include "core/grad/custom.h"
#include "core/grad/reach.h"

struct contribution {
    struct contribution *next;
    struct td_grad_value v;
};

struct given { /* contributions in the order given; none: both are NULL */
    struct contribution *list, *last;
};

struct td_grad_pass {
    struct td_grad_context *ctx;
    struct td_ir *ir;
    int n_nodes;         /* of the forward graph: those before what is added */
    int *first;          /* by node id: number of its output 0 */
    struct given *given; /* by value number */
    bool *reached;       /* by node id: a source is at or above it */
    struct td_emitter e;
    struct td_err *err;
};

struct td_grad_context *td_grad_context_of(const struct td_grad *g)
{
    return g->pass->ctx;
}

struct td_ir *td_grad_ir_of(const struct td_grad *g)
{
    return g->pass->ir;
}

/* ------------------------------------------------------------------ adding nodes */

enum td_code td_grad_add_under(struct td_ir *ir, const char *folder, const struct td_node *at,
                               const char *op_name, struct td_node **out, struct td_err *err)
{
    const char *of = at == NULL ? "" : at->name;
    of += strncmp(of, folder, strlen(folder)) == 0 ? strlen(folder) : 0;
    const size_t bytes = strlen(folder) + strlen(of) + strlen(op_name) + 16;
    char *name = td_arena_alloc(ir->arena, bytes, 1);
    if (name == NULL) {
        return td_no_memory(err, bytes, "a derived model");
    }
    (void)snprintf(name, bytes, "%s%s%s%s_%d", folder, of, of[0] == 0 ? "" : "/", op_name, ir->n_nodes);
    TD_TRY(td_ir_add_beside(ir, at, name, out, err));
    ir->changes++;
    return TD_OK;
}

static enum td_code add_named(void *graph, const struct td_node *at, const char *op_name,
                              struct td_node **out, struct td_err *err)
{
    return td_grad_add_under(graph, "gradients/", at, op_name, out, err);
}

struct td_emitter td_grad_emitter(struct td_grad_context *ctx, struct td_ir *ir,
                                  const struct td_ir_shapes *shapes, struct td_err *err)
{
    struct td_emitter e = td_ir_emitter(ir, shapes, td_model_opts_of(ctx->model)->ops, err);
    e.add = add_named;
    return e;
}

/* ------------------------------------------------------------------ what has arrived at a value */

static bool is_none(const struct td_grad_value *v)
{
    return v->dense.node == NULL && v->slices.values.node == NULL;
}

/* NULL for values added since: nobody gives them gradients. */
static struct given *slot(const struct td_grad_pass *p, struct td_value v)
{
    const int id = v.node->id;
    return id < p->n_nodes && v.port < p->first[id + 1] - p->first[id] ? &p->given[p->first[id] + v.port]
                                                                       : NULL;
}

static void add_contribution(struct td_grad_pass *p, struct td_value to, const struct td_grad_value *v)
{
    struct given *at = slot(p, to);
    if (p->e.rc || at == NULL || is_none(v)) {
        return;
    }
    struct contribution *c = td_arena_alloc(p->ir->arena, 1, sizeof *c);
    if (c == NULL) {
        p->e.rc = td_no_memory(p->err, sizeof *c, "a gradient");
        return;
    }
    c->next = NULL;
    c->v = *v;
    *(at->last == NULL ? &at->list : &at->last->next) = c;
    at->last = c;
}

struct td_value td_grad_dense(const struct td_grad_context *ctx, struct td_emitter *e,
                              const struct td_grad_value *v)
{
    return v->slices.values.node != NULL ? ctx->formulas->dense(e, &v->slices) : v->dense;
}

static struct td_grad_value sum_slices(struct td_grad_pass *p, const struct contribution *list, int n)
{
    struct td_slices *all = td_arena_alloc(p->ir->arena, (size_t)n, sizeof *all);
    if (all == NULL) {
        p->e.rc = td_no_memory(p->err, (size_t)n, "a gradient");
        return (struct td_grad_value){0};
    }
    for (int i = 0; i < n; i++, list = list->next) {
        all[i] = list->v.slices;
    }
    return (struct td_grad_value){.slices = p->ctx->formulas->join_slices(&p->e, all, n)};
}

static struct td_grad_value sum_dense(struct td_grad_pass *p, const struct contribution *list, int n)
{
    struct td_value *all = td_arena_alloc(p->ir->arena, (size_t)n, sizeof *all);
    if (all == NULL) {
        p->e.rc = td_no_memory(p->err, (size_t)n, "a gradient");
        return (struct td_grad_value){0};
    }
    for (int i = 0; i < n; i++, list = list->next) {
        all[i] = td_grad_dense(p->ctx, &p->e, &list->v);
    }
    return (struct td_grad_value){.dense = p->ctx->formulas->add_n(&p->e, all, n)};
}

/* The sum of what has arrived at v, in place of the list. */
static struct td_grad_value arrived_at(struct td_grad_pass *p, struct td_value v)
{
    struct given *at = slot(p, v);
    int n = 0, sliced = 0;
    for (const struct contribution *c = at == NULL ? NULL : at->list; c != NULL; c = c->next) {
        n++;
        sliced += c->v.slices.values.node != NULL;
    }
    if (n == 0) {
        return (struct td_grad_value){0};
    }
    if (n > 1) {
        p->e.at = v.node;
        at->list->v = sliced == n ? sum_slices(p, at->list, n) : sum_dense(p, at->list, n);
        at->list->next = NULL;
        at->last = at->list;
    }
    return at->list->v;
}

/* ------------------------------------------------------------------ what an op's gradient asks */

bool td_grad_arrived(const struct td_grad *g, int i)
{
    const struct given *at = slot(g->pass, td_grad_out(g, i));
    return at != NULL && at->list != NULL;
}

struct td_value td_grad_at(struct td_grad *g, int i)
{
    struct td_grad_pass *p = g->pass;
    const struct td_value v = td_grad_out(g, i);
    const struct td_grad_value got = arrived_at(p, v);
    p->e.at = g->node;
    if (is_none(&got)) {
        return p->ctx->formulas->zeros_like(&p->e, v);
    }
    if (got.slices.values.node == NULL) {
        return got.dense;
    }
    const struct td_value dense = td_grad_dense(p->ctx, &p->e, &got);
    slot(p, v)->list->v = (struct td_grad_value){.dense = dense};
    return dense;
}

bool td_grad_slices_at(struct td_grad *g, int i, struct td_slices *out)
{
    const struct td_grad_value got = arrived_at(g->pass, td_grad_out(g, i));
    g->pass->e.at = g->node;
    *out = got.slices;
    return got.slices.values.node != NULL;
}

bool td_grad_wants(const struct td_grad *g, int i)
{
    const struct td_value v = g->node->in[i];
    return v.node->id < g->pass->n_nodes && g->pass->reached[v.node->id] &&
           td_dtype_in(td_dtype_of(v), TD_SET_TRAINABLE);
}

void td_grad_give(struct td_grad *g, int i, struct td_value v)
{
    if (v.node == NULL || g->e->rc || !td_grad_wants(g, i)) {
        return;
    }
    const enum td_dtype want = td_dtype_of(g->node->in[i]);
    if (want != TD_RESOURCE && td_dtype_of(v) != want) {
        td_emit_fail(g->e, TD_INTERNAL, "the gradient of op '%s' gives input %d %s for %s", g->node->op_name,
                     i, td_dtype_name(td_dtype_of(v)), td_dtype_name(want));
        return;
    }
    add_contribution(g->pass, g->node->in[i], &(struct td_grad_value){.dense = v});
}

void td_grad_give_slices(struct td_grad *g, int i, struct td_slices s)
{
    if (s.values.node != NULL && td_grad_wants(g, i)) {
        add_contribution(g->pass, g->node->in[i], &(struct td_grad_value){.slices = s});
    }
}

void td_grad_pass_on(struct td_grad *g, int o, int i)
{
    const struct td_grad_value got = arrived_at(g->pass, td_grad_out(g, o));
    g->pass->e.at = g->node;
    if (td_grad_wants(g, i)) {
        add_contribution(g->pass, g->node->in[i], &got);
    }
}

/* ------------------------------------------------------------------ the walk */

static void mark_reached(struct td_grad_pass *p, const struct td_grad_query *q)
{
    for (int i = 0; i < q->n_sources; i++) {
        p->reached[q->sources[i].node->id] = true;
    }
    td_grad_reach_down(p->ir, p->reached, p->n_nodes);
}

static void seed_targets(struct td_grad_pass *p, const struct td_grad_query *q)
{
    for (int i = 0; i < q->n_targets && p->e.rc == TD_OK; i++) {
        const struct td_value t = q->targets[i];
        if (!td_dtype_in(td_dtype_of(t), TD_SET_TRAINABLE)) {
            td_emit_fail(&p->e, TD_INVALID_ARGUMENT,
                         "the target '%s' is %s: only values of a floating-point or complex dtype can be "
                         "differentiated",
                         t.node->name, td_dtype_name(td_dtype_of(t)));
            return;
        }
        const bool seeded = q->seeds != NULL && q->seeds[i].node != NULL;
        p->e.at = t.node;
        add_contribution(
            p, t,
            &(struct td_grad_value){.dense = seeded ? q->seeds[i] : p->ctx->formulas->ones_like(&p->e, t)});
    }
}

static bool any_arrived(const struct td_grad *g)
{
    for (int i = 0; i < g->node->n_out; i++) {
        if (td_grad_arrived(g, i)) {
            return true;
        }
    }
    return false;
}

/* Does n say by which gradient it is differentiated? A call does not matter: its body is. */
static bool has_own_gradient(const struct td_node *n)
{
    const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, TD_GRADIENT_TYPE);
    return a != NULL && a->kind == TD_ATTR_STRING && a->n == 1 && !(td_node_flags(n) & TD_OP_CALL) &&
           !(n->op != NULL && (n->op->branch.taken != NULL || n->op->branch.loop_cond != NULL));
}

/* The name is that of an op whose gradient is taken instead (gradient_override_map). Those that the file
 * holds a function for have become nodes of another op (core/grad/custom.h). */
static enum td_code rule_by_name(const struct td_op_table *ops, const struct td_node *n,
                                 td_grad_rule_fn **rule, struct td_err *err)
{
    const char *name = td_attr_str(n, TD_GRADIENT_TYPE);
    const struct td_op_def *def = td_op_find(ops, name);
    TD_FAIL_IF(def == NULL || def->op == NULL || def->op->grad == NULL, err, UNIMPLEMENTED,
               "no gradient for %s: it has one of its own, '%s' (tf.custom_gradient), which the model does "
               "not hold; export it with tf.saved_model.SaveOptions(experimental_custom_gradients=True)",
               TD_NODE_STR(n), name);
    *rule = def->op->grad;
    return TD_OK;
}

enum td_code td_grad_rule(const struct td_op_table *ops, const struct td_node *n, td_grad_rule_fn **rule,
                          struct td_err *err)
{
    if (has_own_gradient(n)) {
        return rule_by_name(ops, n, rule, err);
    }
    TD_FAIL_IF(n->op == NULL || n->op->grad == NULL, err, UNIMPLEMENTED,
               "no gradient is defined for %s, which is on the way from a source to a target",
               TD_NODE_STR(n));
    *rule = n->op->grad;
    return TD_OK;
}

static void differentiate(struct td_grad_pass *p, struct td_node *n)
{
    struct td_grad g = {.e = &p->e, .node = n, .pass = p};
    if (n->n_in == 0 || !p->reached[n->id] || !any_arrived(&g)) {
        return;
    }
    p->e.at = n;
    td_grad_rule_fn *rule = NULL;
    p->e.rc = td_grad_rule(p->e.ops, n, &rule, p->err);
    if (p->e.rc == TD_OK) {
        rule(&g);
    }
}

static enum td_code make_room(struct td_grad_pass *p)
{
    size_t values = 1;
    p->first = td_calloc((size_t)p->n_nodes + 1, sizeof *p->first);
    p->reached = td_calloc((size_t)p->n_nodes + 1, sizeof *p->reached);
    for (int i = 0; p->first != NULL && i < p->n_nodes; i++) {
        values += (size_t)p->ir->nodes[i]->n_out;
        p->first[i + 1] = (int)values - 1;
    }
    p->given = td_calloc(values, sizeof *p->given);
    if (p->first == NULL || p->reached == NULL || p->given == NULL) {
        return td_no_memory(p->err, values, "a gradient");
    }
    return TD_OK;
}

static void walk(struct td_grad_pass *p, const struct td_grad_query *q, struct td_grad_value *result)
{
    mark_reached(p, q);
    seed_targets(p, q);
    for (int k = p->n_nodes - 1; k >= 0 && p->e.rc == TD_OK; k--) {
        differentiate(p, p->ir->nodes[k]);
    }
    for (int i = 0; i < q->n_sources; i++) {
        result[i] = p->e.rc ? (struct td_grad_value){0} : arrived_at(p, q->sources[i]);
    }
}

enum td_code td_grad_backward(struct td_grad_context *ctx, struct td_ir *ir, const struct td_grad_query *q,
                              struct td_grad_value *result, struct td_err *err)
{
    struct td_ir_shapes shapes;
    TD_TRY(td_ir_shapes_init(ir, &shapes, err));
    struct td_grad_pass p = {.ctx = ctx, .ir = ir, .n_nodes = ir->n_nodes, .err = err};
    p.e = td_grad_emitter(ctx, ir, &shapes, err);
    enum td_code rc = make_room(&p);
    if (rc == TD_OK) {
        walk(&p, q, result);
    }
    const enum td_code emitted = td_emit_close(&p.e);
    td_ir_shapes_fini(&shapes);
    td_free(p.first);
    td_free(p.reached);
    td_free(p.given);
    return rc ? rc : emitted;
}
