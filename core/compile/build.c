/* core/compile/build.c - from a loaded graph to the compiler's graph: cut at feeds, keep what is reachable,
 * inline calls.
 *
 * Each graph or function body is instantiated once a call: an iterative walk orders the nodes it needs, then
 * each is copied with its inputs mapped. A call node has no copy: its outputs map to the body's results.
 * Ordering through a call (core/compile/pass_inline.c): control edges into it become edges from one join node
 * to the body's stateful nodes; control edges out of it come from a second join node behind the body's
 * control results. Those results are roots: they run whether or not any output is used.
 *
 * Invariant (depth_check): recursion here is as deep as calls nest (at most MAX_CALL_DEPTH), never as deep as
 * a graph is long.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/build_impl.h"
#include "core/compile/ir_shapes.h"
#include "core/base/check.h"
#include "core/base/mem.h"

enum { MAX_IR_NODES = 2000000, MAX_WORK = 1 << 26 };

const struct td_op td_op_feed = {.name = "_Feed", .flags = TD_OP_ARG};
const struct td_op td_op_join = {.name = "_Join"};

enum td_code td_build_no_memory(struct td_err *err)
{
    return td_no_memory(err, 0, "compiling a function (its graph may be too large)");
}

/* ------------------------------------------------------------------ nodes of the IR */

static bool append(struct td_arena *a, struct td_node ***list, int *n, int *cap, struct td_node *node)
{
    if (*n == *cap) {
        int bigger = *cap == 0 ? 64 : *cap * 2;
        struct td_node **fresh = td_arena_alloc(a, (size_t)bigger, sizeof *fresh);
        if (fresh == NULL) {
            return false;
        }
        if (*n > 0) {
            memcpy(fresh, *list, (size_t)*n * sizeof *fresh);
        }
        *list = fresh;
        *cap = bigger;
    }
    (*list)[(*n)++] = node;
    return true;
}

enum td_code td_ir_add(struct td_ir *ir, const struct td_node *like, const char *name, struct td_node **out,
                       struct td_err *err)
{
    struct td_node *n = td_arena_alloc(ir->arena, 1, sizeof *n);
    TD_FAIL_IF(ir->n_nodes >= MAX_IR_NODES, err, RESOURCE_EXHAUSTED,
               "function has more than %d nodes after inlining", MAX_IR_NODES);
    if (n == NULL || !append(ir->arena, &ir->nodes, &ir->n_nodes, &ir->cap_nodes, n)) {
        return td_build_no_memory(err);
    }
    if (like != NULL) {
        *n = *like;
    }
    n->name = name;
    n->id = ir->n_nodes - 1;
    *out = n;
    return TD_OK;
}

enum td_code td_ir_add_root(struct td_ir *ir, struct td_node *n, struct td_err *err)
{
    return append(ir->arena, &ir->roots, &ir->n_roots, &ir->cap_roots, n) ? TD_OK : td_build_no_memory(err);
}

enum td_code td_ir_add_beside(struct td_ir *ir, const struct td_node *at, const char *name,
                              struct td_node **out, struct td_err *err)
{
    TD_TRY(td_ir_add(ir, NULL, name, out, err));
    (*out)->device = at == NULL || at->device == NULL ? "" : at->device;
    (*out)->function = at == NULL || at->function == NULL ? "" : at->function;
    (*out)->path = at == NULL ? NULL : at->path;
    return TD_OK;
}

static enum td_code add_beside(void *graph, const struct td_node *at, const char *op_name,
                               struct td_node **out, struct td_err *err)
{
    (void)op_name;
    return td_ir_add_beside(graph, at, at == NULL ? "" : at->name, out, err);
}

static const struct td_shape *shape_of(const void *shapes, struct td_value v)
{
    return td_ir_shape(shapes, v);
}

struct td_emitter td_ir_emitter(struct td_ir *ir, const struct td_ir_shapes *shapes,
                                const struct td_op_table *ops, struct td_err *err)
{
    return (struct td_emitter){.err = err,
                               .ops = ops,
                               .arena = ir->arena,
                               .graph = ir,
                               .add = add_beside,
                               .shapes = shapes,
                               .shape_of = shapes == NULL ? NULL : shape_of};
}

/* ------------------------------------------------------------------ what a graph needs, in order */

/* Position of (n, port) among the feeds; -1 when it is computed. Only the main graph or called function has
 * feeds. */
static int feed_of(const struct td_builder *b, const struct td_instance *in, const struct td_node *n,
                   int port)
{
    if (in->depth > 0) {
        return -1;
    }
    for (int i = b->feed_at[n->id]; i > 0; i = b->feed_next[i - 1]) {
        if (b->opts->feeds[i - 1].port == port) {
            return i - 1;
        }
    }
    return -1;
}

struct walk { /* explicit stack of a depth-first walk */
    struct {
        const struct td_node *n;
        int next;
    } * stack;
    int depth, cap;
    const struct td_node **order;
    int n_order;
    const struct td_node **later; /* sources of back edges: visited once the stack is empty */
    int n_later;
    unsigned char *mark; /* by id: 1 on the stack, 2 done, 3 among the later ones */
};

static bool walk_push(struct walk *w, const struct td_node *n)
{
    if (w->depth == w->cap) {
        int bigger = w->cap == 0 ? 256 : w->cap * 2;
        void *fresh = td_realloc(w->stack, (size_t)bigger, sizeof w->stack[0]);
        if (fresh == NULL) {
            return false;
        }
        w->stack = fresh;
        w->cap = bigger;
    }
    w->stack[w->depth].n = n;
    w->stack[w->depth++].next = 0;
    w->mark[n->id] = 1;
    return true;
}

/* The back edge of a TF1 loop: Merge does not wait for its NextIteration. */
static bool is_back_edge(const struct td_node *from, const struct td_node *to)
{
    return (td_node_flags(from) & TD_OP_NEXT) && (td_node_flags(to) & TD_OP_DEAD_OK);
}

/* Whether n need not wait for edge e, of data or (behind those) control: what it comes from is fed. */
static bool is_fed(const struct td_builder *b, const struct td_instance *in, const struct td_node *n, int e)
{
    if (e < n->n_in) {
        return feed_of(b, in, n->in[e].node, n->in[e].port) >= 0;
    }
    const struct td_node *from = n->control[e - n->n_in]; /* of a function's argument, or a placeholder */
    return (td_node_flags(from) & TD_OP_ARG) != 0 && feed_of(b, in, from, 0) >= 0;
}

/* Next node that n waits for, from edge `next` on; NULL when all are visited. */
static const struct td_node *next_edge(const struct td_builder *b, const struct td_instance *in,
                                       struct walk *w, const struct td_node *n, int *next)
{
    while (*next < n->n_in + n->n_control) {
        int e = (*next)++;
        const struct td_node *from = e < n->n_in ? n->in[e].node : n->control[e - n->n_in];
        if (is_fed(b, in, n, e)) {
            continue;
        }
        if (w->mark[from->id] == 0 && is_back_edge(from, n)) {
            w->mark[from->id] = 3;
            w->later[w->n_later++] = from;
        } else if (w->mark[from->id] == 0) {
            return from;
        }
    }
    return NULL;
}

static enum td_code walk_from(const struct td_builder *b, const struct td_instance *in, struct walk *w,
                              const struct td_node *root)
{
    if (w->mark[root->id] != 0) {
        return TD_OK;
    }
    bool ok = walk_push(w, root);
    while (ok && w->depth + w->n_later > 0) {
        if (w->depth == 0) {
            ok = walk_push(w, w->later[--w->n_later]);
            continue;
        }
        const struct td_node *n = w->stack[w->depth - 1].n;
        const struct td_node *from = next_edge(b, in, w, n, &w->stack[w->depth - 1].next);
        if (from != NULL) {
            ok = walk_push(w, from);
        } else {
            w->depth--;
            w->mark[n->id] = 2;
            w->order[w->n_order++] = n;
        }
    }
    return ok ? TD_OK : td_build_no_memory(b->err);
}

/* ------------------------------------------------------------------ copying */

/* The IR value that (n, port) of this instance became. Sources are always copied before their consumers, but
 * for the back edges of loops, which close_loops mends. */
struct td_value td_build_mapped(const struct td_builder *b, const struct td_instance *in, struct td_value v)
{
    int feed = feed_of(b, in, v.node, v.port);
    if (feed >= 0) {
        return (struct td_value){b->ir->feeds[feed], 0};
    }
    const struct td_image *im = &in->images[v.node->id];
    return im->outs != NULL ? im->outs[v.port] : (struct td_value){im->node, v.port};
}

const char *td_build_path(struct td_builder *b, const struct td_instance *in, const char *name)
{
    if (in->path[0] == 0) {
        return name;
    }
    const size_t path = strlen(in->path), rest = strlen(name) + 1;
    char *s = td_arena_alloc(b->ir->arena, path + rest, 1);
    if (s != NULL) {
        memcpy(s, in->path, path);
        memcpy(s + path, name, rest);
    }
    return s;
}

enum td_code td_build_join(struct td_builder *b, const char *name, struct td_node **out)
{
    const struct td_node at = {.name = name, .function = ""};
    struct td_emitter e = td_ir_emitter(b->ir, NULL, NULL, b->err);
    e.at = &at;
    *out = td_emit_bare(&e, &td_op_join, td_op_join.name, 0, 0);
    return td_emit_close(&e);
}

/* Control inputs of n, mapped, plus the instance's join when n has effects. */
enum td_code td_build_controls(struct td_builder *b, const struct td_instance *in, const struct td_node *n,
                               struct td_node *copy, bool effects)
{
    copy->n_control = 0;
    copy->control = td_arena_alloc(b->ir->arena, (size_t)n->n_control + 1, sizeof copy->control[0]);
    if (copy->control == NULL) {
        return td_build_no_memory(b->err);
    }
    for (int i = 0; i < n->n_control; i++) {
        struct td_node *after = in->images[n->control[i]->id].after;
        if (after != NULL) {
            copy->control[copy->n_control++] = after;
        }
    }
    if (effects && in->before != NULL) {
        copy->control[copy->n_control++] = in->before;
    }
    return TD_OK;
}

static enum td_code copy_node(struct td_builder *b, struct td_instance *in, const struct td_node *n)
{
    struct td_node *copy;
    const char *device = n->device == NULL || n->device[0] == 0 ? in->device : n->device;
    const struct td_tensor *value = b->share_constants && n->n_control == 0 ? td_node_const(n) : NULL;
    struct td_node **shared = value == NULL ? NULL : td_constants_slot(&b->constants, n->op, value, device);
    if (shared != NULL && *shared != NULL) {
        in->images[n->id] = (struct td_image){.node = *shared, .after = *shared};
        return TD_OK;
    }
    const char *name = td_build_path(b, in, n->name);
    if (name == NULL) {
        return td_build_no_memory(b->err);
    }
    TD_TRY(td_ir_add(b->ir, n, name, &copy, b->err));
    if (shared != NULL) {
        *shared = copy;
    }
    copy->path = in->path;
    copy->device = device;
    copy->in = td_arena_alloc(b->ir->arena, (size_t)n->n_in + 1, sizeof copy->in[0]);
    if (copy->in == NULL) {
        return td_build_no_memory(b->err);
    }
    for (int i = 0; i < n->n_in; i++) {
        copy->in[i] = td_build_mapped(b, in, n->in[i]);
    }
    TD_TRY(td_build_controls(b, in, n, copy, (td_node_flags(n) & TD_OP_STATEFUL) != 0));
    in->images[n->id] = (struct td_image){.node = copy, .after = copy};
    return TD_OK;
}

static enum td_code copy_or_inline(struct td_builder *b, struct td_instance *in, const struct td_node *n)
{
    if (in->images[n->id].done) {
        return TD_OK;
    }
    const struct td_function *f = td_inline_callee(b, n);
    return f != NULL ? td_inline_call(b, in, n, f) : copy_node(b, in, n);
}

/* Back edges of TF1 loops (data, and control edges among their nodes) pointed at nodes not yet copied: map
 * them now. */
static enum td_code close_loops(struct td_builder *b, const struct td_instance *in, const struct walk *w)
{
    for (int k = 0; k < w->n_order; k++) {
        const struct td_node *n = w->order[k];
        struct td_node *copy = in->images[n->id].node;
        for (int i = 0; copy != NULL && i < n->n_in; i++) {
            if (copy->in[i].node == NULL) {
                copy->in[i] = td_build_mapped(b, in, n->in[i]);
            }
        }
        if (copy != NULL && copy->n_control < n->n_control) {
            TD_TRY(td_build_controls(b, in, n, copy, (td_node_flags(n) & TD_OP_STATEFUL) != 0));
        }
    }
    return TD_OK;
}

static void start_images(struct td_instance *in)
{
    for (int i = 0; in->args != NULL && i < in->function->n_args; i++) {
        in->images[in->function->args[i]->id] =
            (struct td_image){.outs = &in->args[i], .after = in->args[i].node, .done = true};
    }
}

TD_CHECK_FN enum td_code depth_check(const struct td_instance *in, struct td_err *err)
{
    TD_WANT(in->depth >= 0 && in->depth <= TD_MAX_CALL_DEPTH, err, "a function's body at depth %d of %d",
            in->depth, TD_MAX_CALL_DEPTH);
    return TD_OK;
}

enum td_code td_build_instantiate(struct td_builder *b, struct td_instance *in,
                                  const struct td_value *results, int n_results,
                                  struct td_node *const *targets, int n_targets)
{
    size_t n = (size_t)in->graph->n_nodes + 1;
    TD_HOLDS(depth_check, in);
    b->work += n;
    TD_FAIL_IF(b->work > MAX_WORK, b->err, RESOURCE_EXHAUSTED,
               "the calls of a function reach bodies of more than %d nodes", MAX_WORK);
    struct walk w = {.order = td_calloc(n, sizeof *w.order),
                     .later = td_calloc(n, sizeof *w.later),
                     .mark = td_calloc(n, 1)};
    in->images = td_calloc(n, sizeof *in->images);
    enum td_code rc = w.order && w.later && w.mark && in->images ? TD_OK : td_build_no_memory(b->err);
    if (rc == TD_OK) {
        start_images(in);
    }
    for (int i = 0; rc == TD_OK && i < n_targets; i++) {
        rc = walk_from(b, in, &w, targets[i]);
    }
    for (int i = 0; rc == TD_OK && i < n_results; i++) {
        if (feed_of(b, in, results[i].node, results[i].port) < 0) {
            rc = walk_from(b, in, &w, results[i].node);
        }
    }
    for (int k = 0; rc == TD_OK && k < w.n_order; k++) {
        rc = copy_or_inline(b, in, w.order[k]);
    }
    rc = rc ? rc : close_loops(b, in, &w);
    if (rc) {
        td_free(in->images);
        in->images = NULL;
    }
    td_free(w.order);
    td_free(w.later);
    td_free(w.mark);
    td_free(w.stack);
    return rc;
}

static enum td_code add_feeds(struct td_builder *b)
{
    struct td_ir *ir = b->ir;
    ir->n_feeds = b->opts->n_feeds;
    ir->feeds = td_arena_alloc(ir->arena, (size_t)ir->n_feeds + 1, sizeof ir->feeds[0]);
    if (ir->feeds == NULL) {
        return td_build_no_memory(b->err);
    }
    struct td_emitter e = td_ir_emitter(ir, NULL, NULL, b->err);
    for (int i = 0; i < ir->n_feeds; i++) {
        const struct td_value v = b->opts->feeds[i];
        const struct td_node at = {.name = v.node->name, .function = v.node->function};
        e.at = &at;
        struct td_node *n = td_emit_bare(&e, &td_op_feed, td_op_feed.name, 0, 1);
        if (n == NULL) {
            break;
        }
        n->out_type[0] = v.node->out_type[v.port];
        ir->feeds[i] = n;
    }
    return td_emit_close(&e);
}

/* Lists of feeds by node; of a value fed twice the first feed counts. */
static enum td_code index_feeds(struct td_builder *b, const struct td_graph *graph)
{
    b->feed_at = td_arena_alloc(b->ir->arena, (size_t)graph->n_nodes + 1, sizeof b->feed_at[0]);
    b->feed_next = td_arena_alloc(b->ir->arena, (size_t)b->opts->n_feeds + 1, sizeof b->feed_next[0]);
    if (b->feed_at == NULL || b->feed_next == NULL) {
        return td_build_no_memory(b->err);
    }
    for (int i = b->opts->n_feeds; i > 0; i--) {
        int *first = &b->feed_at[b->opts->feeds[i - 1].node->id];
        b->feed_next[i - 1] = *first;
        *first = i;
    }
    return TD_OK;
}

enum td_code td_ir_build(struct td_ir *ir, struct td_arena *arena, const struct td_graph *graph,
                         const struct td_library *lib, const struct td_callable_opts *opts, unsigned how,
                         struct td_err *err)
{
    *ir = (struct td_ir){.arena = arena};
    struct td_builder b = {.ir = ir,
                           .lib = lib,
                           .opts = opts,
                           .inline_calls = (how & TD_IR_INLINE) != 0,
                           .share_constants = (how & TD_IR_SHARE) != 0,
                           .err = err};
    TD_TRY(index_feeds(&b, graph));
    TD_TRY(add_feeds(&b));
    struct td_instance in = {.graph = graph, .path = "", .device = ""};
    const enum td_code built =
        td_build_instantiate(&b, &in, opts->fetches, opts->n_fetches, opts->targets, opts->n_targets);
    td_constants_free(&b.constants);
    TD_TRY(built);
    ir->n_fetches = opts->n_fetches;
    ir->fetches = td_arena_alloc(arena, (size_t)opts->n_fetches + 1, sizeof ir->fetches[0]);
    enum td_code rc = ir->fetches == NULL ? td_build_no_memory(err) : TD_OK;
    for (int i = 0; rc == TD_OK && i < opts->n_fetches; i++) {
        ir->fetches[i] = td_build_mapped(&b, &in, opts->fetches[i]);
    }
    for (int i = 0; rc == TD_OK && i < opts->n_targets; i++) {
        struct td_node *after = in.images[opts->targets[i]->id].after;
        rc = after == NULL ? TD_OK : td_ir_add_root(ir, after, err);
    }
    td_free(in.images);
    return rc;
}

/* Edges were checked within each graph; here it is known what calls, feeds and unbound attributes put at
 * their ends. */
enum td_code td_ir_check_types(struct td_ir *ir, struct td_err *err)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; n->op != NULL && n->in_type != NULL && i < n->n_in; i++) {
            struct td_node *from = n->in[i].node;
            enum td_dtype want = n->in_type[i], *have = &from->out_type[n->in[i].port];
            if (*have == TD_DTYPE_NONE && from->op == &td_op_feed) {
                *have = want; /* an output of an unknown op that the callable cuts off */
            }
            bool unknown = *have == TD_DTYPE_NONE && from->op == NULL; /* refused when its kernel is chosen */
            TD_FAIL_IF(!unknown && (want != *have || want == TD_DTYPE_NONE), err, INVALID_ARGUMENT,
                       "%s: input %d must be %s, but '%s' gives it %s", TD_NODE_STR(n), i,
                       td_dtype_name(want), from->name, td_dtype_name(*have));
        }
    }
    return TD_OK;
}
