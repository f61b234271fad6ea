/* core/grad/inspect.c - colours values from a fetch upwards, through the bodies of branches and loops.
 *
 * A value is open when a gradient arrives at it, blocked when it lies above a node at which one arrives and
 * that has none. A node's colours are those of its outputs, and go to its inputs; a body's fetches get those
 * of the outputs of the node that runs it, the body's feeds give theirs to the node's inputs, and in a loop
 * also to what the round before left there. A list of values whose colours changed is worked off; each value
 * is on it once a colour at most, so that no loop is gone round until nothing changes.
 *
 * Bodies are opened when something arrives at their node first, and stay open for the next fetch.
 *
 * Does not: differentiate, look into conditions, run what an op's gradient does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/grad/body.h"

enum { INSPECTION_ARENA_BYTES = 256 << 20, MAX_DEPTH = 64 };

struct colour {
    bool open;
    const struct td_node *by; /* the node that blocks; NULL: none */
};

struct body {
    struct td_ir ir;
    struct colour *node; /* by node id: of all its outputs */
    struct colour *value;
    int *first;          /* by node id: number of its output 0 */
    int *feed;           /* by node id: number of the feed; -1: none */
    struct body **inner; /* by node id: the first of those that the node runs */
    bool *opened;        /* by node id */
    struct body *next;   /* of the same node */
    struct body *outer;  /* NULL: this is the part itself */
    struct td_node *node_of;
    int n_before; /* inputs of that node before the arguments */
    bool loop;
    int depth;
    struct body *all; /* the one opened before this */
};

struct change {
    struct body *b;
    struct td_value v;
};

struct td_grad_inspection {
    struct td_arena *arena;
    struct td_grad_context ctx;
    struct body *all, *part;
    const struct td_op_table *ops;
    struct change *list; /* malloc'ed */
    size_t n_list, cap_list;
    enum td_grad_way *way;
    const char **names; /* of variables, while they are counted */
};

static enum td_code no_memory(struct td_err *err)
{
    return td_no_memory(err, 1, "looking for gradients");
}

/* ------------------------------------------------------------------ bodies */

static enum td_code make_room(struct td_grad_inspection *x, struct body *b, struct td_err *err)
{
    const size_t n = (size_t)b->ir.n_nodes + 1;
    size_t values = 1;
    b->first = td_arena_alloc(x->arena, n, sizeof *b->first);
    b->feed = td_arena_alloc(x->arena, n, sizeof *b->feed);
    b->inner = td_arena_alloc(x->arena, n, sizeof(struct body *));
    b->opened = td_arena_alloc(x->arena, n, sizeof *b->opened);
    b->node = td_arena_alloc(x->arena, n, sizeof *b->node);
    if (!b->first || !b->feed || !b->inner || !b->opened || !b->node) {
        return no_memory(err);
    }
    for (int i = 0; i < b->ir.n_nodes; i++) {
        values += (size_t)b->ir.nodes[i]->n_out;
        b->first[i + 1] = (int)values - 1;
        b->feed[i] = -1;
    }
    for (int i = 0; i < b->ir.n_feeds; i++) {
        b->feed[b->ir.feeds[i]->id] = i;
    }
    b->value = td_arena_alloc(x->arena, values, sizeof *b->value);
    if (b->value == NULL) {
        return no_memory(err);
    }
    b->all = x->all;
    x->all = b;
    return TD_OK;
}

static enum td_code open_body(struct td_grad_inspection *x, const struct body *like, const char *name,
                              struct td_err *err)
{
    struct body *b = td_arena_alloc(x->arena, 1, sizeof *b);
    if (b == NULL) {
        return no_memory(err);
    }
    *b = *like;
    TD_FAIL_IF(b->depth > MAX_DEPTH, err, UNIMPLEMENTED,
               "functions are nested more than %d deep at %s: their gradients are not looked for", MAX_DEPTH,
               TD_NODE_STR(b->node_of));
    TD_TRY(td_grad_open(&x->ctx, x->arena, name, &b->ir, err));
    TD_FAIL_IF(b->ir.n_feeds != b->node_of->n_in - b->n_before || b->ir.n_fetches < b->node_of->n_out, err,
               INVALID_ARGUMENT, "%s calls function '%s' with %d inputs and %d outputs; it has %d and %d",
               TD_NODE_STR(b->node_of), name, b->node_of->n_in - b->n_before, b->node_of->n_out,
               b->ir.n_feeds, b->ir.n_fetches);
    TD_TRY(make_room(x, b, err));
    b->next = b->outer->inner[b->node_of->id];
    b->outer->inner[b->node_of->id] = b;
    return TD_OK;
}

/* Those whose results are the node's: not a condition. */
static enum td_code open_bodies(struct td_grad_inspection *x, struct body *outer, struct td_node *n,
                                struct td_err *err)
{
    const struct td_op_branch *how = &n->op->branch;
    const bool loop = how->loop_body != NULL, branch = how->taken != NULL;
    const struct body like = {
        .outer = outer, .node_of = n, .n_before = branch ? 1 : 0, .loop = loop, .depth = outer->depth + 1};
    if (outer->opened[n->id] || (!loop && !branch && !(n->op->flags & TD_OP_CALL))) {
        return TD_OK;
    }
    outer->inner[n->id] = NULL; /* an earlier fetch may have failed half-way */
    for (int a = 0; a < n->n_attrs; a++) {
        const struct td_attr *attr = &n->attrs[a];
        const bool counts = attr->kind == TD_ATTR_FUNC && (!loop || strcmp(attr->name, how->loop_body) == 0);
        for (int i = 0; counts && i < attr->n; i++) {
            TD_TRY(open_body(x, &like, attr->func[i].name, err));
        }
    }
    outer->opened[n->id] = true;
    return TD_OK;
}

/* ------------------------------------------------------------------ colours */

/* Adds b's to a's: whether that is news. */
static bool mix(struct colour *a, struct colour b)
{
    const bool news = (b.open && !a->open) || (b.by != NULL && a->by == NULL);
    a->open |= b.open;
    a->by = a->by == NULL ? b.by : a->by;
    return news;
}

static enum td_code give(struct td_grad_inspection *x, struct body *b, struct td_value v, struct colour c,
                         struct td_err *err)
{
    if (!td_dtype_in(td_dtype_of(v), TD_SET_TRAINABLE) || !mix(&b->value[b->first[v.node->id] + v.port], c)) {
        return TD_OK;
    }
    if (x->n_list == x->cap_list) {
        const size_t cap = x->cap_list == 0 ? 256 : 2 * x->cap_list;
        struct change *grown = td_realloc(x->list, cap, sizeof *grown);
        if (grown == NULL) {
            return no_memory(err);
        }
        x->list = grown;
        x->cap_list = cap;
    }
    x->list[x->n_list++] = (struct change){b, v};
    return TD_OK;
}

/* Argument i of a body. */
static enum td_code leave(struct td_grad_inspection *x, struct body *b, int i, struct colour c,
                          struct td_err *err)
{
    if (b->outer == NULL) {
        return TD_OK;
    }
    if (b->loop) {
        TD_TRY(give(x, b, b->ir.fetches[i], c, err));
    }
    return give(x, b->outer, b->node_of->in[b->n_before + i], c, err);
}

/* A loop and a call give zeros to what their bodies do not lead to. */
static enum td_code give_zeros(struct td_grad_inspection *x, struct body *b, const struct td_node *n,
                               struct td_err *err)
{
    const struct colour open = {.open = true};
    if (!mix(&b->node[n->id], open)) {
        return TD_OK;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (td_dtype_in(td_dtype_of(n->in[i]), TD_SET_FLOATS | TD_SET_COMPLEX)) {
            TD_TRY(give(x, b, n->in[i], open, err));
        }
    }
    return TD_OK;
}

static enum td_code enter(struct td_grad_inspection *x, struct body *outer, const struct td_node *n, int o,
                          struct colour c, struct td_err *err)
{
    for (struct body *b = outer->inner[n->id]; b != NULL; b = b->next) {
        TD_TRY(give(x, b, b->ir.fetches[o], c, err));
        if (b->loop) { /* no round at all may be run */
            TD_TRY(give(x, outer, n->in[o], c, err));
        }
        if (b->n_before == 0 && c.open) {
            TD_TRY(give_zeros(x, outer, n, err));
        }
    }
    return TD_OK;
}

static enum td_code give_all(struct td_grad_inspection *x, struct body *b, const struct td_node *n,
                             struct colour c, struct td_err *err)
{
    if (!mix(&b->node[n->id], c)) {
        return TD_OK;
    }
    for (int i = 0; i < n->n_in; i++) {
        TD_TRY(give(x, b, n->in[i], b->node[n->id], err));
    }
    return TD_OK;
}

static enum td_code go_up(struct td_grad_inspection *x, struct body *b, struct td_value v, struct td_err *err)
{
    struct td_node *n = v.node;
    struct colour c = b->value[b->first[n->id] + v.port];
    td_grad_rule_fn *rule = NULL;
    if (b->feed[n->id] >= 0) {
        return leave(x, b, b->feed[n->id], c, err);
    }
    if (n->n_in == 0 || (n->op != NULL && n->op->grad == td_not_differentiable)) {
        return TD_OK;
    }
    struct td_err none = {0};
    if (td_grad_rule(x->ops, n, &rule, &none) != TD_OK) {
        return give_all(x, b, n, (struct colour){.by = c.open && c.by == NULL ? n : c.by}, err);
    }
    if (rule == td_not_differentiable) {
        return TD_OK;
    }
    TD_TRY(open_bodies(x, b, n, err));
    if (b->opened[n->id]) {
        return enter(x, b, n, v.port, c, err);
    }
    if ((n->op->flags & TD_OP_IDENTITY) && v.port < n->n_in) {
        return give(x, b, n->in[v.port], c, err);
    }
    return give_all(x, b, n, c, err);
}

static void forget(struct td_grad_inspection *x)
{
    x->n_list = 0;
    for (struct body *b = x->all; b != NULL; b = b->all) {
        memset(b->node, 0, (size_t)b->ir.n_nodes * sizeof *b->node);
        memset(b->value, 0, (size_t)b->first[b->ir.n_nodes] * sizeof *b->value);
    }
}

/* ------------------------------------------------------------------ sources */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Different ones among the variables whose handles are blocked, or open alone. */
static int count(struct td_grad_inspection *x, bool blocked)
{
    const struct body *b = x->part;
    int n = 0, different = 0;
    for (int i = 0; i < b->ir.n_nodes; i++) {
        const struct td_value v = {b->ir.nodes[i], 0};
        const struct colour c = v.node->n_out == 0 ? (struct colour){0} : b->value[b->first[i]];
        const bool counts = blocked ? c.by != NULL : c.open && c.by == NULL;
        const char *name = counts ? x->ctx.formulas->variable(v) : NULL;
        if (name != NULL) {
            x->names[n++] = name;
        }
    }
    qsort(x->names, (size_t)n, sizeof *x->names, by_name);
    for (int i = 0; i < n; i++) {
        different += i == 0 || strcmp(x->names[i - 1], x->names[i]) != 0;
    }
    return different;
}

static void say_why(const struct td_grad_inspection *x, const struct td_node *by, struct td_grad_ways *out)
{
    td_grad_rule_fn *rule = NULL;
    struct td_err err = {0};
    const enum td_code rc = td_grad_rule(x->ops, by, &rule, &err);
    const char *missing = by->op == NULL ? NULL : by->op->grad_missing;
    (void)snprintf(out->why, sizeof out->why, "%.700s%s%.300s", rc ? err.msg : "",
                   missing != NULL ? ": " : "", missing != NULL ? missing : "");
}

static void tell(struct td_grad_inspection *x, struct td_grad_ways *out)
{
    const struct body *b = x->part;
    const struct td_node *by = NULL;
    for (int i = 0; i < b->ir.n_feeds; i++) {
        const struct colour c = b->value[b->first[b->ir.feeds[i]->id]];
        by = by == NULL ? c.by : by;
        x->way[i] = c.by != NULL ? TD_WAY_BLOCKED : c.open ? TD_WAY_OPEN : TD_WAY_NONE;
    }
    for (int i = 0; by == NULL && i < b->ir.n_nodes; i++) {
        const struct td_value v = {b->ir.nodes[i], 0};
        by = v.node->n_out > 0 && x->ctx.formulas->variable(v) != NULL ? b->value[b->first[i]].by : by;
    }
    *out = (struct td_grad_ways){.feed = x->way, .open = count(x, false), .blocked = count(x, true)};
    if (by != NULL) {
        say_why(x, by, out);
    }
}

enum td_code td_grad_inspect_fetch(struct td_grad_inspection *x, int fetch, struct td_grad_ways *out,
                                   struct td_err *err)
{
    const struct td_value target = x->part->ir.fetches[fetch];
    const enum td_dtype dtype = td_dtype_of(target);
    TD_FAIL_IF(!td_dtype_in(dtype, TD_SET_FLOATS | TD_SET_COMPLEX), err, INVALID_ARGUMENT, "%s",
               td_dtype_name(dtype));
    forget(x);
    TD_TRY(give(x, x->part, target, (struct colour){.open = true}, err));
    while (x->n_list > 0) {
        const struct change c = x->list[--x->n_list];
        TD_TRY(go_up(x, c.b, c.v, err));
    }
    tell(x, out);
    return TD_OK;
}

/* ------------------------------------------------------------------ begin and end */

static enum td_code open_part(struct td_grad_inspection *x, struct td_model *base,
                              const struct td_callable_opts *part, struct td_err *err)
{
    x->arena = td_arena_new(INSPECTION_ARENA_BYTES);
    x->ops = td_model_opts_of(base)->ops;
    if (x->arena == NULL) {
        return no_memory(err);
    }
    x->part = td_arena_alloc(x->arena, 1, sizeof *x->part);
    if (x->part == NULL) {
        return no_memory(err);
    }
    TD_TRY(td_grad_open_part(base, part, x->arena, &x->ctx, &x->part->ir, err));
    x->way = td_arena_alloc(x->arena, (size_t)x->part->ir.n_feeds + 1, sizeof *x->way);
    x->names = td_arena_alloc(x->arena, (size_t)x->part->ir.n_nodes + 1, sizeof *x->names);
    if (x->way == NULL || x->names == NULL) {
        return no_memory(err);
    }
    return make_room(x, x->part, err);
}

enum td_code td_grad_inspect(struct td_model *base, const struct td_callable_opts *part,
                             struct td_grad_inspection **out, struct td_err *err)
{
    struct td_grad_inspection *x = td_calloc(1, sizeof *x);
    if (x == NULL) {
        return no_memory(err);
    }
    const enum td_code rc = open_part(x, base, part, err);
    if (rc) {
        td_grad_inspection_free(x);
        return rc;
    }
    *out = x;
    return TD_OK;
}

void td_grad_inspection_free(struct td_grad_inspection *x)
{
    if (x == NULL) {
        return;
    }
    td_arena_free(x->arena);
    td_free(x->list);
    td_free(x);
}
