/* core/compile/loops.c - finds frames, copies them aside, and runs them.
 *
 * A node's frame follows from its inputs: Enter opens one (named by its frame_name within its parent and the
 * inlined call it came with), Exit leaves it, every other node is in the deepest frame any of its inputs is
 * in. Sweeps over the nodes repeat until nothing changes: back edges make one sweep too few.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/loops.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/run/exec.h"

enum { MAX_FRAMES = 4096, MAX_SWEEPS = 1000 };

struct frame {
    int parent; /* index; -1: the graph itself */
    const char *name, *path;
    int depth;
    bool lifted;
};

struct td_loop {
    const struct td_callable_calls *calls;
    struct td_callable *cond, *body;
    int n_vars, n_consts;
    int *cond_from,
        *body_from; /* feed k is variable or constant number from[k]; constants follow variables */
    int n_cond_feeds, n_body_feeds;
};

struct lifter {
    struct td_ir *ir;
    struct td_model *m;
    struct frame *frames;
    int n_frames;
    int *frame_of; /* by node id: the frame its outputs are in; -1 outside */
    struct td_err *err;
};

/* ------------------------------------------------------------------ running */

static enum td_code truth(const struct td_tensor *t, bool *out, struct td_err *err)
{
    TD_FAIL_IF(t->dtype != TD_BOOL || td_tensor_count(t) != 1, err, INVALID_ARGUMENT,
               "the condition of a loop must be a boolean scalar, but is %s of shape %s",
               td_dtype_name(t->dtype), TD_SHAPE_STR(&t->shape));
    *out = TD_DATA(t, td_bool)[0] != 0;
    return TD_OK;
}

/* Runs the condition, or the body. */
static enum td_code call(const struct td_loop *l, bool cond, const struct td_tensor *values,
                         const struct td_tensor **in, struct td_tensor *out, struct td_run *run,
                         struct td_err *err)
{
    const int *from = cond ? l->cond_from : l->body_from;
    const int n_feeds = cond ? l->n_cond_feeds : l->n_body_feeds;
    for (int k = 0; k < n_feeds; k++) {
        in[k] = &values[from[k]];
    }
    return l->calls->run_inside(cond ? l->cond : l->body, in, out, run, err);
}

static enum td_code iterate(const struct td_loop *l, struct td_call *c, struct td_tensor *values,
                            const struct td_tensor **in, struct td_tensor *next, struct td_err *err)
{
    struct td_run inner = *c->run;
    inner.depth++;
    for (;;) {
        struct td_tensor cond = {0};
        bool yes = false;
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        TD_TRY(call(l, true, values, in, &cond, &inner, err));
        enum td_code rc = truth(&cond, &yes, err);
        td_tensor_clear(&cond);
        if (rc || !yes) {
            return rc;
        }
        TD_TRY(call(l, false, values, in, next, &inner, err));
        for (int i = 0; i < l->n_vars; i++) {
            td_tensor_clear(&values[i]);
            values[i] = next[i];
            next[i] = (struct td_tensor){0};
        }
    }
}

static enum td_code loop_run(struct td_call *c, struct td_err *err)
{
    const struct td_loop *l = c->node->loop;
    size_t n = (size_t)(l->n_vars + l->n_consts) + 1;
    size_t feeds = (size_t)(l->n_body_feeds > l->n_cond_feeds ? l->n_body_feeds : l->n_cond_feeds) + 1;
    struct td_tensor *values = td_calloc(n, sizeof *values), *next = td_calloc(n, sizeof *next);
    const struct td_tensor **in = td_calloc(feeds, sizeof *in);
    enum td_code rc = values && next && in ? TD_OK : td_no_memory(err, n, "loop variables");
    for (int i = 0; rc == TD_OK && i < c->n_in; i++) {
        rc = td_keep(c, i, &values[i], err);
    }
    rc = rc ? rc : iterate(l, c, values, in, next, err);
    for (int i = 0; rc == TD_OK && i < l->n_vars; i++) {
        td_out_move(c, i, &values[i]);
    }
    for (size_t i = 0; values != NULL && i < n; i++) {
        td_tensor_clear(&values[i]);
    }
    td_free(values);
    td_free(next);
    td_free(in);
    return rc;
}

static const struct td_kernel loop_kernels[] = {{.name = "loop", .device = TD_CPU, .run = loop_run},
                                                {.name = NULL}};
static const struct td_op td_op_loop = {
    .name = "_Loop", .flags = TD_OP_KEEPS | TD_OP_STATEFUL | TD_OP_NO_FOLD, .kernels = loop_kernels};

struct td_loop_parts td_loop_parts(const struct td_loop *l)
{
    return (struct td_loop_parts){.cond = l->cond,
                                  .body = l->body,
                                  .n_vars = l->n_vars,
                                  .n_cond_feeds = l->n_cond_feeds,
                                  .n_body_feeds = l->n_body_feeds,
                                  .cond_from = l->cond_from,
                                  .body_from = l->body_from};
}

static void loop_free(void *p)
{
    struct td_loop *l = p;
    l->calls->free(l->cond);
    l->calls->free(l->body);
}

/* ------------------------------------------------------------------ finding frames */

static int frame_named(struct lifter *x, int parent, const struct td_node *enter)
{
    const char *name = td_attr_str(enter, "frame_name"), *path = enter->path == NULL ? "" : enter->path;
    for (int i = 0; i < x->n_frames; i++) {
        const struct frame *f = &x->frames[i];
        if (f->parent == parent && strcmp(f->name, name) == 0 && strcmp(f->path, path) == 0) {
            return i;
        }
    }
    if (x->n_frames == MAX_FRAMES) {
        return -1;
    }
    x->frames[x->n_frames] =
        (struct frame){parent, name, path, parent < 0 ? 1 : x->frames[parent].depth + 1, false};
    return x->n_frames++;
}

static int depth_of(const struct lifter *x, int frame)
{
    return frame < 0 ? 0 : x->frames[frame].depth;
}

/* The frame that n's inputs put it in. */
static int input_frame(const struct lifter *x, const struct td_node *n)
{
    int f = -1;
    for (int e = 0; e < n->n_in + n->n_control; e++) {
        const struct td_node *from = e < n->n_in ? n->in[e].node : n->control[e - n->n_in];
        int of = x->frame_of[from->id];
        f = depth_of(x, of) > depth_of(x, f) ? of : f;
    }
    return f;
}

static enum td_code find_frames(struct lifter *x)
{
    bool changed = true;
    for (int sweep = 0; changed; sweep++) {
        changed = false;
        TD_FAIL_IF(sweep == MAX_SWEEPS, x->err, INVALID_ARGUMENT,
                   "the loops of the graph nest in a way that has no end");
        for (int i = 0; i < x->ir->n_nodes; i++) {
            const struct td_node *n = x->ir->nodes[i];
            uint32_t flags = td_node_flags(n);
            int f = input_frame(x, n);
            if (n->op != NULL && (flags & TD_OP_ENTER)) {
                f = frame_named(x, f, n);
                TD_FAIL_IF(f < 0, x->err, INVALID_ARGUMENT, "the graph has more than %d loops", MAX_FRAMES);
            } else if (n->op != NULL && (flags & TD_OP_EXIT)) {
                f = f < 0 ? -1 : x->frames[f].parent;
            }
            changed |= f != x->frame_of[n->id];
            x->frame_of[n->id] = f;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ one frame */

struct parts { /* what is in the frame being lifted */
    struct td_node **nodes;
    struct td_node **enters, **merges,
        **exits; /* merges: of loop variables; const enters are those no merge reads */
    int n_nodes, n_enters, n_merges, n_exits;
    struct td_node *cond;      /* LoopCond */
    struct td_value *start;    /* by variable: what its Enter was given; then by constant */
    struct td_node **constant; /* the Enters of constants */
    int n_constants;
};

static bool is(const struct td_node *n, uint32_t flag)
{
    return n->op != NULL && (n->op->flags & flag) != 0;
}

/* Which input of merge m comes from NextIteration; -1: m is no loop merge. */
static int back_input(const struct td_node *m)
{
    for (int i = 0; i < m->n_in; i++) {
        if (is(m->in[i].node, TD_OP_NEXT)) {
            return i;
        }
    }
    return -1;
}

static bool is_loop_merge(const struct td_node *n)
{
    return is(n, TD_OP_DEAD_OK) && back_input(n) >= 0;
}

static bool same_path(const struct td_node *n, const struct frame *f)
{
    return strcmp(n->path == NULL ? "" : n->path, f->path) == 0;
}

/* Constants of a function that is called in the loop have no Enter, since no edge enters the function for
 * them: they become nodes of the loop. */
static enum td_code collect_constants(struct lifter *x, int frame, struct parts *p)
{
    bool *taken = td_arena_alloc(x->ir->arena, (size_t)x->ir->n_nodes + 1, sizeof *taken);
    if (taken == NULL) {
        return td_no_memory(x->err, (size_t)x->ir->n_nodes, "lifting a loop");
    }
    for (int i = 0, own = p->n_nodes; i < own; i++) {
        const struct td_node *n = p->nodes[i];
        for (int k = 0; k < n->n_in && !is(n, TD_OP_ENTER); k++) {
            struct td_node *from = n->in[k].node;
            const bool called = !same_path(n, &x->frames[frame]) || !same_path(from, &x->frames[frame]);
            if (called && x->frame_of[from->id] < 0 && td_node_const(from) != NULL && from->n_control == 0 &&
                !taken[from->id]) {
                taken[from->id] = true;
                p->nodes[p->n_nodes++] = from;
            }
        }
    }
    return TD_OK;
}

static enum td_code collect(struct lifter *x, int frame, struct parts *p)
{
    size_t n = (size_t)x->ir->n_nodes + 1;
    struct td_arena *a = x->ir->arena;
    p->nodes = td_arena_alloc(a, n, sizeof(void *));
    p->enters = td_arena_alloc(a, n, sizeof(void *));
    p->merges = td_arena_alloc(a, n, sizeof(void *));
    p->exits = td_arena_alloc(a, n, sizeof(void *));
    p->constant = td_arena_alloc(a, n, sizeof(void *));
    p->start = td_arena_alloc(a, n, sizeof *p->start);
    if (!p->nodes || !p->enters || !p->merges || !p->exits || !p->constant || !p->start) {
        return td_no_memory(x->err, n, "lifting a loop");
    }
    for (int i = 0; i < x->ir->n_nodes; i++) {
        struct td_node *k = x->ir->nodes[i];
        if (is(k, TD_OP_EXIT) && k->n_in == 1 && x->frame_of[k->in[0].node->id] == frame) {
            p->exits[p->n_exits++] = k;
        }
        if (x->frame_of[k->id] != frame) {
            continue;
        }
        p->nodes[p->n_nodes++] = k;
        if (is(k, TD_OP_ENTER)) {
            p->enters[p->n_enters++] = k;
        } else if (is_loop_merge(k)) {
            p->merges[p->n_merges++] = k;
        } else if (is(k, TD_OP_LOOP_COND)) {
            TD_FAIL_IF(p->cond != NULL, x->err, INVALID_ARGUMENT, "loop '%s' has two conditions, %s and '%s'",
                       x->frames[frame].name, TD_NODE_STR(k), p->cond->name);
            p->cond = k;
        }
    }
    if (p->n_enters == 0) {
        return TD_OK; /* a guess of an early sweep that turned out to lie elsewhere */
    }
    TD_FAIL_IF(p->cond == NULL || p->n_merges == 0, x->err, INVALID_ARGUMENT, "loop '%s' has %s",
               x->frames[frame].name, p->cond == NULL ? "no LoopCond" : "no loop variable");
    return collect_constants(x, frame, p);
}

/* Variables start with what the Enters of their merges were given; all other Enters are constants. */
static enum td_code find_starts(struct lifter *x, struct parts *p)
{
    for (int i = 0; i < p->n_merges; i++) {
        const struct td_node *m = p->merges[i];
        const struct td_node *enter = m->n_in == 2 ? m->in[1 - back_input(m)].node : NULL;
        TD_FAIL_IF(enter == NULL || !is(enter, TD_OP_ENTER), x->err, INVALID_ARGUMENT,
                   "%s: a loop variable must merge one Enter and one NextIteration", TD_NODE_STR(m));
        p->start[i] = enter->in[0];
    }
    for (int i = 0; i < p->n_enters; i++) {
        p->constant[p->n_constants] = p->enters[i];
        p->start[p->n_merges + p->n_constants++] = p->enters[i]->in[0];
    }
    return TD_OK;
}

/* Copies the frame's nodes into a graph of its own; image[] maps ids of the IR to copies. */
static enum td_code copy_frame(struct lifter *x, const struct parts *p, struct td_graph *g,
                               struct td_node **image)
{
    struct td_arena *a = x->ir->arena;
    td_graph_init(g, a, "");
    g->nodes = td_arena_alloc(a, (size_t)p->n_nodes + 1, sizeof(void *));
    if (g->nodes == NULL) {
        return td_no_memory(x->err, (size_t)p->n_nodes, "lifting a loop");
    }
    for (int i = 0; i < p->n_nodes; i++) {
        struct td_node *copy = td_arena_alloc(a, 1, sizeof *copy);
        if (copy == NULL) {
            return td_no_memory(x->err, sizeof *copy, "lifting a loop");
        }
        *copy = *p->nodes[i];
        copy->id = i;
        g->nodes[g->n_nodes++] = copy;
        image[p->nodes[i]->id] = copy;
    }
    for (int i = 0; i < p->n_nodes; i++) {
        struct td_node *copy = g->nodes[i];
        const struct td_node *src = p->nodes[i];
        copy->in = td_arena_alloc(a, (size_t)src->n_in + 1, sizeof *copy->in);
        copy->control = td_arena_alloc(a, (size_t)src->n_control + 1, sizeof *copy->control);
        if (copy->in == NULL || copy->control == NULL) {
            return td_no_memory(x->err, (size_t)src->n_in, "lifting a loop");
        }
        copy->n_control = 0;
        copy->n_in = is(src, TD_OP_ENTER) ? 0 : src->n_in;
        for (int k = 0; k < copy->n_in; k++) {
            copy->in[k] = (struct td_value){image[src->in[k].node->id], src->in[k].port};
            TD_FAIL_IF(copy->in[k].node == NULL, x->err, INVALID_ARGUMENT,
                       "%s is in a loop but reads '%s' from outside it without an Enter", TD_NODE_STR(src),
                       src->in[k].node->name);
        }
        for (int k = 0; k < src->n_control; k++) {
            struct td_node *from = image[src->control[k]->id];
            bool always_there = is(src->control[k], TD_OP_ENTER) || is_loop_merge(src->control[k]);
            if (from != NULL && !always_there) {
                copy->control[copy->n_control++] = from;
            }
        }
    }
    return TD_OK;
}

/* Feeds of condition (merges and constants) and body (also the true sides of the switches). */
static enum td_code list_feeds(struct lifter *x, const struct parts *p, struct td_node **image, bool body,
                               struct td_value **out, int **from, int *n)
{
    size_t most = (size_t)(p->n_merges + p->n_constants + p->n_nodes) + 1;
    struct td_value *feeds = td_arena_alloc(x->ir->arena, most, sizeof *feeds);
    int *source = td_arena_alloc(x->ir->arena, most, sizeof *source);
    if (feeds == NULL || source == NULL) {
        return td_no_memory(x->err, most, "lifting a loop");
    }
    *n = 0;
    for (int i = 0; i < p->n_merges; i++) {
        source[*n] = i;
        feeds[(*n)++] = (struct td_value){image[p->merges[i]->id], 0};
        for (int k = 0; body && k < p->n_nodes; k++) {
            const struct td_node *s = p->nodes[k];
            if (is(s, TD_OP_SWITCH) && s->in[0].node == p->merges[i] && s->in[1].node == p->cond) {
                source[*n] = i;
                feeds[(*n)++] = (struct td_value){image[s->id], 1};
            }
        }
    }
    for (int i = 0; i < p->n_constants; i++) {
        source[*n] = p->n_merges + i;
        feeds[(*n)++] = (struct td_value){image[p->constant[i]->id], 0};
    }
    *out = feeds;
    *from = source;
    return TD_OK;
}

static enum td_code make_cond(struct lifter *x, const struct parts *p, const struct td_graph *g,
                              struct td_node **image, struct td_loop *l)
{
    struct td_value *feeds, fetch = {image[p->cond->id], 0};
    TD_TRY(list_feeds(x, p, image, false, &feeds, &l->cond_from, &l->n_cond_feeds));
    struct td_callable_opts opts = {
        .name = p->cond->name, .feeds = feeds, .n_feeds = l->n_cond_feeds, .fetches = &fetch, .n_fetches = 1};
    return l->calls->make(x->m, g, &opts, &l->cond, x->err);
}

static enum td_code make_body(struct lifter *x, const struct parts *p, const struct td_graph *g,
                              struct td_node **image, struct td_loop *l)
{
    struct td_value *feeds;
    struct td_value *results = td_arena_alloc(x->ir->arena, (size_t)p->n_merges + 1, sizeof *results);
    struct td_node **targets =
        td_arena_alloc(x->ir->arena, (size_t)(p->n_nodes + x->ir->n_roots) + 1, sizeof *targets);
    if (results == NULL || targets == NULL) {
        return td_no_memory(x->err, (size_t)p->n_merges, "lifting a loop");
    }
    int n_targets = 0;
    TD_TRY(list_feeds(x, p, image, true, &feeds, &l->body_from, &l->n_body_feeds));
    for (int i = 0; i < p->n_merges; i++) {
        const struct td_node *next = p->merges[i]->in[back_input(p->merges[i])].node;
        results[i] = (struct td_value){image[next->in[0].node->id], next->in[0].port};
        for (int k = 0; k < next->n_control && n_targets < p->n_nodes; k++) {
            if (image[next->control[k]->id] != NULL) {
                targets[n_targets++] = image[next->control[k]->id];
            }
        }
    }
    for (int i = 0; i < x->ir->n_roots; i++) { /* effects of functions that are called in the loop */
        if (image[x->ir->roots[i]->id] != NULL) {
            targets[n_targets++] = image[x->ir->roots[i]->id];
        }
    }
    struct td_callable_opts opts = {.name = p->merges[0]->name,
                                    .feeds = feeds,
                                    .n_feeds = l->n_body_feeds,
                                    .fetches = results,
                                    .n_fetches = p->n_merges,
                                    .targets = targets,
                                    .n_targets = n_targets};
    return l->calls->make(x->m, g, &opts, &l->body, x->err);
}

/* The node that stands for the loop: in = starts, out = final values. */
static enum td_code add_loop_node(struct lifter *x, const struct parts *p, struct td_loop *l,
                                  struct td_node **out)
{
    const int n_in = p->n_merges + p->n_constants;
    int n_control = 0;
    for (int i = 0; i < p->n_enters; i++) {
        n_control += p->enters[i]->n_control;
    }
    const struct td_node at = {.name = p->cond->name, .function = p->cond->function, .path = p->cond->path};
    struct td_emitter e = td_ir_emitter(x->ir, NULL, NULL, x->err);
    e.at = &at;
    struct td_node *n = td_emit_bare(&e, &td_op_loop, td_op_loop.name, n_in, p->n_merges);
    TD_TRY(td_emit_close(&e));
    n->loop = l;
    n->control = td_arena_alloc(x->ir->arena, (size_t)n_control + 1, sizeof(void *));
    if (n->control == NULL) {
        return td_no_memory(x->err, sizeof *n, "lifting a loop");
    }
    for (int i = 0; i < n_in; i++) {
        n->in[i] = p->start[i];
    }
    for (int i = 0; i < p->n_merges; i++) {
        n->out_type[i] = p->merges[i]->out_type[0];
    }
    for (int i = 0; i < p->n_enters; i++) {
        for (int k = 0; k < p->enters[i]->n_control; k++) {
            n->control[n->n_control++] = p->enters[i]->control[k];
        }
    }
    *out = n;
    return TD_OK;
}

/* The variable that exit takes out of the loop; -1. */
static int exit_variable(const struct parts *p, const struct td_node *exit, const int *var_of)
{
    const struct td_node *s = exit->in[0].node;
    return p->n_merges > 0 && is(s, TD_OP_SWITCH) ? var_of[s->in[0].node->id] - 1 : -1;
}

/* Fills to[] by node id: 1 + the variable that an Exit stands for; 0 for all other nodes. */
static enum td_code number_exits(const struct lifter *x, const struct parts *p, int *var_of, int *to)
{
    for (int i = 0; i < p->n_merges; i++) {
        var_of[p->merges[i]->id] = i + 1;
    }
    for (int e = 0; e < p->n_exits; e++) {
        int var = exit_variable(p, p->exits[e], var_of);
        TD_FAIL_IF(var < 0, x->err, INVALID_ARGUMENT,
                   "%s does not leave the loop through the Switch of a loop variable",
                   TD_NODE_STR(p->exits[e]));
        to[p->exits[e]->id] = var + 1;
    }
    return TD_OK;
}

static void redirect(struct td_value *v, struct td_node *loop, const int *to)
{
    if (to[v->node->id] > 0) {
        *v = (struct td_value){loop, to[v->node->id] - 1};
    }
}

/* Consumers of an Exit read the loop node instead. */
static enum td_code redirect_exits(struct lifter *x, const struct parts *p, struct td_node *loop)
{
    struct td_ir *ir = x->ir;
    int *var_of = td_calloc((size_t)ir->n_nodes + 1, sizeof *var_of),
        *to = td_calloc((size_t)ir->n_nodes + 1, sizeof *to);
    enum td_code rc =
        var_of && to ? number_exits(x, p, var_of, to) : td_no_memory(x->err, sizeof *to, "lifting a loop");
    for (int i = 0; rc == TD_OK && i < ir->n_nodes; i++) {
        struct td_node *n = ir->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            redirect(&n->in[k], loop, to);
        }
        for (int k = 0; k < n->n_control; k++) {
            n->control[k] = to[n->control[k]->id] > 0 ? loop : n->control[k];
        }
    }
    for (int i = 0; rc == TD_OK && i < ir->n_fetches; i++) {
        redirect(&ir->fetches[i], loop, to);
    }
    for (int i = 0; rc == TD_OK && i < ir->n_roots; i++) {
        ir->roots[i] = to[ir->roots[i]->id] > 0 ? loop : ir->roots[i];
    }
    td_free(var_of);
    td_free(to);
    return rc;
}

static enum td_code lift(struct lifter *x, int frame)
{
    struct parts p = {0};
    struct td_graph *g = td_arena_alloc(x->ir->arena, 1, sizeof *g);
    struct td_loop *l = td_arena_alloc(x->ir->arena, 1, sizeof *l);
    struct td_node **image = td_arena_alloc(x->ir->arena, (size_t)x->ir->n_nodes + 1, sizeof *image),
                   *loop = NULL;
    if (g == NULL || l == NULL || image == NULL || td_arena_defer(x->ir->arena, loop_free, l)) {
        return td_no_memory(x->err, sizeof *l, "lifting a loop");
    }
    l->calls = td_model_calls(x->m);
    TD_TRY(collect(x, frame, &p));
    x->frames[frame].lifted = true;
    if (p.n_enters == 0) {
        return TD_OK;
    }
    TD_TRY(find_starts(x, &p));
    TD_TRY(copy_frame(x, &p, g, image));
    l->n_vars = p.n_merges;
    l->n_consts = p.n_constants;
    TD_TRY(make_cond(x, &p, g, image, l));
    TD_TRY(make_body(x, &p, g, image, l));
    TD_TRY(add_loop_node(x, &p, l, &loop));
    TD_TRY(redirect_exits(x, &p, loop));
    for (int i = 0; i < x->ir->n_roots; i++) {
        x->ir->roots[i] = x->frame_of[x->ir->roots[i]->id] == frame ? loop : x->ir->roots[i];
    }
    x->frame_of[loop->id] = x->frames[frame].parent;
    for (int i = 0; i < p.n_exits; i++) {
        x->frame_of[p.exits[i]->id] = -1; /* unreachable now */
        p.exits[i]->n_in = p.exits[i]->n_control = 0;
    }
    return TD_OK;
}

static int deepest(const struct lifter *x)
{
    int best = -1;
    for (int i = 0; i < x->n_frames; i++) {
        if (!x->frames[i].lifted && (best < 0 || x->frames[i].depth > x->frames[best].depth)) {
            best = i;
        }
    }
    return best;
}

static bool has_enter(const struct td_ir *ir)
{
    for (int i = 0; i < ir->n_nodes; i++) {
        if (is(ir->nodes[i], TD_OP_ENTER)) {
            return true;
        }
    }
    return false;
}

enum td_code td_loops_lift(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    if (!has_enter(ir)) {
        return TD_OK;
    }
    size_t room = 2 * (size_t)ir->n_nodes + MAX_FRAMES;
    struct lifter x = {.ir = ir,
                       .m = m,
                       .err = err,
                       .frames = td_calloc(MAX_FRAMES, sizeof *x.frames),
                       .frame_of = td_calloc(room, sizeof *x.frame_of)};
    enum td_code rc = x.frames && x.frame_of ? TD_OK : td_no_memory(err, room, "lifting loops");
    for (size_t i = 0; rc == TD_OK && i < room; i++) {
        x.frame_of[i] = -1;
    }
    rc = rc ? rc : find_frames(&x);
    for (int f = rc ? -1 : deepest(&x); rc == TD_OK && f >= 0; f = deepest(&x)) {
        rc = lift(&x, f);
    }
    td_free(x.frames);
    td_free(x.frame_of);
    return rc;
}
