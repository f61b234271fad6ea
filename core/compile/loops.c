/* core/compile/loops.c - copies frames aside, makes condition and body of the copies, and puts one node in
 * their place.
 *
 * Frames are lifted from the inside out: what is copied holds no loop but lifted ones. The copy is a graph of
 * its own (the callables' plans are made of it); what an Exit stood for is read from the loop's node.
 *
 * Does not: find frames (loop_frames.c), run loops (loop.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/loops.h"

#include "core/base/mem.h"
#include "core/compile/loop.h"
#include "core/compile/loop_frames.h"

struct lifter {
    struct td_ir *ir;
    struct td_model *m;
    struct td_loop_frames *frames;
    struct td_err *err;
};

/* ------------------------------------------------------------------ the copy */

/* Variables start with what the Enters of their merges were given; all other Enters are constants. */
static enum td_code find_starts(struct lifter *x, struct td_loop_members *p)
{
    for (int i = 0; i < p->n_merges; i++) {
        const struct td_node *m = p->merges[i];
        const struct td_node *enter = m->n_in == 2 ? m->in[1 - td_loop_back_input(m)].node : NULL;
        TD_FAIL_IF(enter == NULL || !td_loop_is(enter, TD_OP_ENTER), x->err, INVALID_ARGUMENT,
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
static enum td_code copy_nodes(struct lifter *x, const struct td_loop_members *p, struct td_graph *g,
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
    return TD_OK;
}

/* The Switch of a loop variable, whose true side is the variable itself in the body. */
static bool is_loop_switch(const struct td_loop_members *p, const struct td_node *n)
{
    return td_loop_is(n, TD_OP_SWITCH) && n->n_in == 2 && n->in[1].node == p->cond &&
           td_loop_is_merge(n->in[0].node);
}

/* What the copies read in place of v. */
static struct td_value image_of(const struct td_loop_members *p, struct td_node **image, struct td_value v)
{
    if (v.port == 1 && is_loop_switch(p, v.node)) {
        v = (struct td_value){v.node->in[0].node, 0};
    }
    return (struct td_value){image[v.node->id], v.port};
}

/* Gives the copy of src edges of its own, between copies. An Enter's copy is fed. */
static enum td_code connect(struct lifter *x, const struct td_loop_members *p, const struct td_node *src,
                            struct td_node **image)
{
    struct td_node *copy = image[src->id];
    copy->in = td_arena_alloc(x->ir->arena, (size_t)src->n_in + 1, sizeof *copy->in);
    copy->control = td_arena_alloc(x->ir->arena, (size_t)src->n_control + 1, sizeof *copy->control);
    if (copy->in == NULL || copy->control == NULL) {
        return td_no_memory(x->err, (size_t)src->n_in, "lifting a loop");
    }
    copy->n_control = 0;
    copy->n_in = td_loop_is(src, TD_OP_ENTER) ? 0 : src->n_in;
    for (int k = 0; k < copy->n_in; k++) {
        copy->in[k] = image_of(p, image, src->in[k]);
        TD_FAIL_IF(copy->in[k].node == NULL, x->err, INVALID_ARGUMENT,
                   "%s is in a loop but reads '%s' from outside it without an Enter", TD_NODE_STR(src),
                   src->in[k].node->name);
    }
    for (int k = 0; k < src->n_control; k++) {
        struct td_node *from = image[src->control[k]->id];
        const bool always_there = td_loop_is(src->control[k], TD_OP_ENTER) ||
                                  td_loop_is_merge(src->control[k]) || is_loop_switch(p, src->control[k]);
        if (from != NULL && !always_there) {
            copy->control[copy->n_control++] = from;
        }
    }
    return TD_OK;
}

static enum td_code copy_frame(struct lifter *x, const struct td_loop_members *p, struct td_graph *g,
                               struct td_node **image)
{
    TD_TRY(copy_nodes(x, p, g, image));
    for (int i = 0; i < p->n_nodes; i++) {
        TD_TRY(connect(x, p, p->nodes[i], image));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ condition and body */

/* Feeds of condition and body: the merges, then the constants. */
static enum td_code list_feeds(struct lifter *x, const struct td_loop_members *p, struct td_node **image,
                               struct td_value **out)
{
    const size_t most = (size_t)(p->n_merges + p->n_constants) + 1;
    struct td_value *feeds = td_arena_alloc(x->ir->arena, most, sizeof *feeds);
    if (feeds == NULL) {
        return td_no_memory(x->err, most, "lifting a loop");
    }
    for (int i = 0; i < p->n_merges + p->n_constants; i++) {
        const struct td_node *n = i < p->n_merges ? p->merges[i] : p->constant[i - p->n_merges];
        feeds[i] = (struct td_value){image[n->id], 0};
    }
    *out = feeds;
    return TD_OK;
}

static enum td_code make_cond(struct lifter *x, const struct td_loop_members *p, const struct td_graph *g,
                              struct td_node **image, struct td_loop *l)
{
    struct td_value *fetch = td_arena_alloc(x->ir->arena, 1, sizeof *fetch);
    if (fetch == NULL) {
        return td_no_memory(x->err, 1, "lifting a loop");
    }
    TD_FAIL_IF(p->cond->n_in != 1, x->err, INVALID_ARGUMENT, "%s: a loop has one condition",
               TD_NODE_STR(p->cond));
    *fetch = image_of(p, image, p->cond->in[0]);
    l->cond_opts = l->body_opts;
    l->cond_opts.name = p->cond->name;
    l->cond_opts.fetches = fetch;
    l->cond_opts.n_fetches = 1;
    l->cond_opts.targets = NULL;
    l->cond_opts.n_targets = 0;
    return l->calls->make(x->m, g, &l->cond_opts, &l->cond, x->err);
}

static enum td_code make_body(struct lifter *x, const struct td_loop_members *p, const struct td_graph *g,
                              struct td_node **image, struct td_loop *l)
{
    struct td_value *feeds = NULL;
    struct td_value *results = td_arena_alloc(x->ir->arena, (size_t)p->n_merges + 1, sizeof *results);
    struct td_node **targets =
        td_arena_alloc(x->ir->arena, (size_t)(p->n_nodes + x->ir->n_roots) + 1, sizeof *targets);
    if (results == NULL || targets == NULL) {
        return td_no_memory(x->err, (size_t)p->n_merges, "lifting a loop");
    }
    int n_targets = 0;
    TD_TRY(list_feeds(x, p, image, &feeds));
    for (int i = 0; i < p->n_merges; i++) {
        l->by_reference |= p->merges[i]->out_ref[0];
        const struct td_node *next = p->merges[i]->in[td_loop_back_input(p->merges[i])].node;
        results[i] = image_of(p, image, next->in[0]);
        for (int k = 0; k < next->n_control && n_targets < p->n_nodes; k++) {
            if (image[next->control[k]->id] != NULL && !is_loop_switch(p, next->control[k])) {
                targets[n_targets++] = image[next->control[k]->id];
            }
        }
    }
    for (int i = 0; i < x->ir->n_roots; i++) { /* effects of functions that are called in the loop */
        if (image[x->ir->roots[i]->id] != NULL) {
            targets[n_targets++] = image[x->ir->roots[i]->id];
        }
    }
    l->graph = g;
    l->n_cond_feeds = l->n_body_feeds = l->n_vars + l->n_consts;
    l->body_opts = (struct td_callable_opts){.name = p->merges[0]->name,
                                             .feeds = feeds,
                                             .n_feeds = l->n_body_feeds,
                                             .fetches = results,
                                             .n_fetches = p->n_merges,
                                             .targets = targets,
                                             .n_targets = n_targets};
    return l->calls->make(x->m, g, &l->body_opts, &l->body, x->err);
}

/* ------------------------------------------------------------------ the node in their place */

/* The node that stands for the loop: in = starts, out = final values. */
static enum td_code add_loop_node(struct lifter *x, const struct td_loop_members *p, struct td_loop *l,
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
    struct td_node *n = td_emit_bare(&e, &td_loop_op, td_loop_op.name, n_in, p->n_merges);
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
static int exit_variable(const struct td_loop_members *p, const struct td_node *exit, const int *var_of)
{
    const struct td_node *s = exit->in[0].node;
    return p->n_merges > 0 && td_loop_is(s, TD_OP_SWITCH) ? var_of[s->in[0].node->id] - 1 : -1;
}

/* Fills to[] by node id: 1 + the variable that an Exit stands for; 0 for all other nodes. */
static enum td_code number_exits(const struct lifter *x, const struct td_loop_members *p, int *var_of,
                                 int *to)
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
static enum td_code redirect_exits(struct lifter *x, const struct td_loop_members *p, struct td_node *loop)
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
    struct td_loop_members p = {0};
    struct td_graph *g = td_arena_alloc(x->ir->arena, 1, sizeof *g);
    struct td_loop *l = td_arena_alloc(x->ir->arena, 1, sizeof *l);
    struct td_node **image = td_arena_alloc(x->ir->arena, (size_t)x->ir->n_nodes + 1, sizeof *image),
                   *loop = NULL;
    if (g == NULL || l == NULL || image == NULL || td_arena_defer(x->ir->arena, td_loop_free, l)) {
        return td_no_memory(x->err, sizeof *l, "lifting a loop");
    }
    l->calls = td_model_calls(x->m);
    TD_TRY(td_loop_frames_collect(x->frames, frame, &p, x->err));
    x->frames->frame[frame].lifted = true;
    if (p.n_enters == 0) {
        return TD_OK;
    }
    TD_TRY(find_starts(x, &p));
    TD_TRY(copy_frame(x, &p, g, image));
    l->n_vars = p.n_merges;
    l->n_consts = p.n_constants;
    TD_TRY(make_body(x, &p, g, image, l));
    TD_TRY(make_cond(x, &p, g, image, l));
    TD_TRY(add_loop_node(x, &p, l, &loop));
    TD_TRY(redirect_exits(x, &p, loop));
    for (int i = 0; i < x->ir->n_roots; i++) {
        x->ir->roots[i] = x->frames->of[x->ir->roots[i]->id] == frame ? loop : x->ir->roots[i];
    }
    x->frames->of[loop->id] = x->frames->frame[frame].parent;
    for (int i = 0; i < p.n_exits; i++) {
        x->frames->of[p.exits[i]->id] = -1; /* unreachable now */
        p.exits[i]->n_in = p.exits[i]->n_control = 0;
    }
    return TD_OK;
}

static enum td_code lift_all(struct lifter *x)
{
    for (int f = td_loop_frames_deepest(x->frames); f >= 0; f = td_loop_frames_deepest(x->frames)) {
        TD_TRY(lift(x, f));
    }
    return TD_OK;
}

static bool has_enter(const struct td_ir *ir)
{
    for (int i = 0; i < ir->n_nodes; i++) {
        if (td_loop_is(ir->nodes[i], TD_OP_ENTER)) {
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
    struct td_loop_frames frames;
    struct lifter x = {.ir = ir, .m = m, .frames = &frames, .err = err};
    enum td_code rc = td_loop_frames_find(&frames, ir, err);
    if (rc == TD_OK) {
        rc = lift_all(&x);
    }
    td_loop_frames_fini(&frames);
    return rc;
}
