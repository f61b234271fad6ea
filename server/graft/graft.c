/* server/graft/graft.c - from a signature to an IR that is cut, added to and closed.
 *
 * The IR is built as for a callable, with the init op as one more target, so that nodes of the main graph
 * which both need are there once. No loop is lifted and no pass runs: what is written is the graph as it was,
 * its calls inlined, TensorFlow 1's loops being cycles of it; so nothing here asks for an order. The engine's
 * pseudo nodes become ops of TensorFlow's: a feed a Placeholder of the signature's shape, a join a NoOp, a
 * literal a Const.
 *
 * Nodes with effects of the part that stays run with the output, which waits for them; those that need the
 * value at which it is cut are dropped with what is above it. Those of the init op stay its own.
 *
 * Nodes that neither the output, nor the init op, nor the saver needs are not written.
 *
 * Does not: write anything (graft_write.c), know of layers (head.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/function/callable_impl.h"
#include "server/graft/graft_impl.h"

enum { MOST_EFFECTS = 256 };

enum td_code td_graft_no_memory(struct td_err *err)
{
    return td_no_memory(err, 1, "a model with a new head");
}

void *td_graft_room(struct td_graft *g, int n, size_t size)
{
    return td_arena_alloc(g->ir.arena, (size_t)n + 1, size);
}

/* ------------------------------------------------------------------ nodes by scope */

/* The emitter's graph: names what td_ir_add would leave to the node at hand. */
static enum td_code add_named(void *graph, const struct td_node *at, const char *op_name,
                              struct td_node **out, struct td_err *err)
{
    struct td_graft *g = graph;
    const size_t bytes = strlen(g->scope) + strlen(op_name) + 2;
    char *name = td_arena_alloc(g->ir.arena, bytes, 1);
    (void)at;
    if (name == NULL) {
        return td_graft_no_memory(err);
    }
    snprintf(name, bytes, "%s/%s", g->scope, op_name);
    TD_TRY(td_ir_add(&g->ir, NULL, name, out, err));
    (*out)->device = (*out)->function = "";
    return TD_OK;
}

struct td_emitter *td_graft_emitter(struct td_graft *g, const char *scope)
{
    g->scope = scope;
    return &g->e;
}

/* ------------------------------------------------------------------ opening */

static enum td_code check_inputs(const struct td_signature *sig, struct td_err *err)
{
    for (int i = 0; i < sig->n_in; i++) {
        TD_FAIL_IF(sig->in[i].n_parts > 0, err, UNIMPLEMENTED,
                   "signature '%s': input '%s' is a composite tensor; a new head is put on models with dense "
                   "inputs only",
                   sig->key, sig->in[i].key);
    }
    return TD_OK;
}

static enum td_code build(struct td_graft *g, struct td_err *err)
{
    struct td_model *engine = td_servable_engine(g->servable);
    const char *init = td_servable_model(g->servable)->init_op;
    const struct td_graph *graph = td_model_graph(engine);
    struct td_callable_opts part;
    td_callable_graph(td_servable_callable(g->servable, g->sig), &part);
    struct td_node **targets = td_arena_alloc(g->arena, (size_t)part.n_targets + 1, sizeof(void *));
    if (targets == NULL) {
        return td_graft_no_memory(err);
    }
    for (int i = 0; i < part.n_targets; i++) {
        targets[i] = part.targets[i];
    }
    struct td_node *node = init == NULL ? NULL : td_graph_find(graph, init, strcspn(init, ":"));
    targets[part.n_targets] = node;
    part.targets = targets;
    part.n_targets += node != NULL;
    TD_TRY(td_ir_build(&g->ir, g->arena, graph, td_model_library(engine), &part, TD_IR_INLINE, err));
    TD_TRY(td_ir_check_types(&g->ir, err));
    const struct td_node *last = g->ir.n_roots == 0 ? NULL : g->ir.roots[g->ir.n_roots - 1];
    if (node != NULL && last != NULL && strcmp(last->name, node->name) == 0) {
        g->init = g->ir.roots[--g->ir.n_roots];
    }
    return TD_OK;
}

/* Feeds become placeholders of the shapes that the signature declares. */
void td_graft_placeholders(struct td_emitter *e, struct td_ir *ir, const struct td_signature *sig)
{
    const struct td_op_def *def = td_op_find(e->ops, "Placeholder");
    for (int i = 0; i < ir->n_feeds; i++) {
        struct td_node *feed = ir->feeds[i];
        struct td_shape shape = sig->in[i].shape;
        enum td_dtype dtype = feed->out_type[0];
        const struct td_attr attrs[] = {
            {.name = "dtype", .kind = TD_ATTR_TYPE, .n = 1, .type = &dtype},
            {.name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = &shape},
        };
        td_emit_again(e, feed, def, TD_NO_INPUTS, attrs, 2);
    }
}

/* ------------------------------------------------------------------ what leads to what, cycles or not */

/* marks[id]: a start, or something that one needs. */
static enum td_code mark_needed(const struct td_ir *ir, struct td_node *const *starts, int n, bool *marks,
                                struct td_err *err)
{
    const struct td_node **stack = td_calloc((size_t)ir->n_nodes + 1, sizeof(void *));
    int depth = 0;
    if (stack == NULL) {
        return td_graft_no_memory(err);
    }
    for (int i = 0; i < n; i++) {
        if (!marks[starts[i]->id]) {
            marks[starts[i]->id] = true;
            stack[depth++] = starts[i];
        }
        while (depth > 0) {
            const struct td_node *at = stack[--depth];
            for (int e = 0; e < at->n_in + at->n_control; e++) {
                const struct td_node *from = td_graft_edge(at, e);
                if (!marks[from->id]) {
                    marks[from->id] = true;
                    stack[depth++] = from; /* each at most once */
                }
            }
        }
    }
    td_free(stack);
    return TD_OK;
}

/* Edges the other way round: readers of node i are to[first[i]] up to to[first[i + 1]]. */
static enum td_code list_readers(const struct td_ir *ir, int **first, int **to, struct td_err *err)
{
    size_t n_edges = 0;
    for (int k = 0; k < ir->n_nodes; k++) {
        n_edges += (size_t)(ir->nodes[k]->n_in + ir->nodes[k]->n_control);
    }
    *first = td_calloc((size_t)ir->n_nodes + 2, sizeof **first);
    *to = td_calloc(n_edges + 1, sizeof **to);
    if (*first == NULL || *to == NULL || n_edges > INT32_MAX) {
        return td_graft_no_memory(err);
    }
    int *const at = *first + 1; /* counted one further, so that it ends where it shall begin */
    for (int k = 0; k < ir->n_nodes; k++) {
        const struct td_node *n = ir->nodes[k];
        for (int e = 0; e < n->n_in + n->n_control; e++) {
            at[td_graft_edge(n, e)->id]++;
        }
    }
    for (int i = 0, sum = 0; i < ir->n_nodes; i++) {
        const int count = at[i];
        at[i] = sum;
        sum += count;
    }
    for (int k = 0; k < ir->n_nodes; k++) {
        const struct td_node *n = ir->nodes[k];
        for (int e = 0; e < n->n_in + n->n_control; e++) {
            (*to)[at[td_graft_edge(n, e)->id]++] = k;
        }
    }
    return TD_OK;
}

/* marks[id]: n, or something that needs it. */
static enum td_code mark_needing(const struct td_ir *ir, const struct td_node *n, bool *marks,
                                 struct td_err *err)
{
    int *first = NULL, *to = NULL, *stack = td_calloc((size_t)ir->n_nodes + 1, sizeof *stack), depth = 0;
    enum td_code rc = stack == NULL ? td_graft_no_memory(err) : list_readers(ir, &first, &to, err);
    if (rc == TD_OK) {
        marks[n->id] = true;
        stack[depth++] = n->id;
    }
    while (depth > 0) {
        const int at = stack[--depth];
        for (int k = first[at]; k < first[at + 1]; k++) {
            if (!marks[to[k]]) {
                marks[to[k]] = true;
                stack[depth++] = to[k];
            }
        }
    }
    td_free(first);
    td_free(to);
    td_free(stack);
    return rc;
}

enum td_code td_graft_below(const struct td_ir *ir, const struct td_node *n, uint32_t wanted, uint32_t ends,
                            bool *yes, struct td_err *err)
{
    bool *seen = td_calloc((size_t)ir->n_nodes + 1, sizeof *seen);
    const struct td_node **stack = td_calloc((size_t)ir->n_nodes + 1, sizeof(void *));
    int depth = 0;
    *yes = false;
    const enum td_code rc = seen == NULL || stack == NULL ? td_graft_no_memory(err) : TD_OK;
    if (rc == TD_OK) {
        seen[n->id] = true;
        stack[depth++] = n;
    }
    while (depth > 0 && !*yes) {
        const struct td_node *at = stack[--depth];
        const uint32_t flags = td_node_flags(at);
        *yes = (flags & wanted) != 0;
        for (int e = 0; (flags & ends) == 0 && e < at->n_in + at->n_control; e++) {
            const struct td_node *from = td_graft_edge(at, e);
            if (!seen[from->id]) {
                seen[from->id] = true;
                stack[depth++] = from;
            }
        }
    }
    td_free(seen);
    td_free(stack);
    return rc;
}

/* A node that changes something when it runs, be its outputs read or not. */
static bool has_effect(const struct td_node *n)
{
    const uint32_t none = TD_OP_READS | TD_OP_HANDLE | TD_OP_ARG;
    return (td_node_flags(n) & TD_OP_STATEFUL) && !(td_node_flags(n) & none) && n->op != &td_op_join &&
           strcmp(n->op_name, "NoOp") != 0;
}

/* The effects among what the roots need become the roots, in place of the points that their functions end at,
 * which wait for reads too. An effect in a loop happens when the loop's results are asked for. */
static enum td_code roots_to_effects(struct td_graft *g, const bool *needed, const bool *of_init,
                                     struct td_err *err)
{
    struct td_ir *ir = &g->ir;
    int n = 0;
    ir->n_roots = 0;
    for (int i = 0; i < ir->n_nodes; i++) {
        if (needed[i] && !of_init[i] && has_effect(ir->nodes[i])) {
            bool inside = false;
            TD_FAIL_IF(++n > MOST_EFFECTS, err, UNIMPLEMENTED,
                       "signature '%.100s' has more than %d nodes with effects", g->sig->key, MOST_EFFECTS);
            /* a loop of TensorFlow 1: no edge but an Exit's leads out of one */
            TD_TRY(td_graft_below(ir, ir->nodes[i], TD_OP_ENTER, TD_OP_EXIT, &inside, err));
            TD_TRY(inside ? TD_OK : td_ir_add_root(ir, ir->nodes[i], err));
        }
    }
    return TD_OK;
}

static enum td_code find_effects(struct td_graft *g, struct td_err *err)
{
    const struct td_ir *ir = &g->ir;
    bool *of_init = td_calloc((size_t)ir->n_nodes + 1, sizeof *of_init);
    bool *needed = td_calloc((size_t)ir->n_nodes + 1, sizeof *needed);
    enum td_code rc = of_init == NULL || needed == NULL ? td_graft_no_memory(err) : TD_OK;
    rc = rc ? rc : mark_needed(ir, &g->init, g->init != NULL, of_init, err);
    rc = rc ? rc : mark_needed(ir, ir->roots, ir->n_roots, needed, err);
    rc = rc ? rc : roots_to_effects(g, needed, of_init, err);
    td_free(of_init);
    td_free(needed);
    return rc;
}

/* Nodes that neither the fetches, nor the roots, nor the init op, nor the signature's inputs need go. */
enum td_code td_graft_sweep(struct td_graft *g, struct td_err *err)
{
    struct td_ir *ir = &g->ir;
    const int most = ir->n_feeds + ir->n_roots + ir->n_fetches + 1;
    struct td_node **starts = td_graft_room(g, most, sizeof(void *));
    bool *needed = td_calloc((size_t)ir->n_nodes + 1, sizeof *needed);
    int n = 0, kept = 0;
    if (starts == NULL || needed == NULL) {
        td_free(needed);
        return td_graft_no_memory(err);
    }
    for (int i = 0; i < ir->n_feeds; i++) {
        starts[n++] = ir->feeds[i];
    }
    for (int i = 0; i < ir->n_roots; i++) {
        starts[n++] = ir->roots[i];
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        starts[n++] = ir->fetches[i].node;
    }
    if (g->init != NULL) {
        starts[n++] = g->init;
    }
    const enum td_code rc = mark_needed(ir, starts, n, needed, err);
    for (int k = 0; rc == TD_OK && k < ir->n_nodes; k++) {
        if (needed[k]) {
            ir->nodes[k]->id = kept;
            ir->nodes[kept++] = ir->nodes[k];
        }
    }
    ir->n_nodes = rc ? ir->n_nodes : kept;
    td_free(needed);
    return rc;
}

static enum td_code open_graph(struct td_graft *g, struct td_err *err)
{
    const struct td_op_table *ops = td_model_opts_of(td_servable_engine(g->servable))->ops;
    const struct td_op_def *seed = td_op_of_role(ops, TD_ROLE_GRADIENT_SEED);
    TD_FAIL_IF(seed == NULL, err, UNIMPLEMENTED, "this build's ops have no gradients");
    g->formulas = seed->op->formulas;
    TD_TRY(td_servable_closed(g->servable, g->sig, err));
    TD_TRY(check_inputs(g->sig, err));
    TD_TRY(td_variables_read(g->servable, &g->names, err));
    TD_TRY(build(g, err));
    g->e = (struct td_emitter){
        .err = err, .ops = ops, .arena = g->arena, .graph = g, .add = add_named, .shape_of = NULL};
    g->scope = "";
    td_graft_placeholders(&g->e, &g->ir, g->sig);
    TD_TRY(g->e.rc);
    return find_effects(g, err);
}

enum td_code td_graft_open(struct td_servable *s, const struct td_signature *sig, struct td_graft **out,
                           struct td_err *err)
{
    struct td_graft *g = td_calloc(1, sizeof *g);
    if (g == NULL) {
        return td_graft_no_memory(err);
    }
    g->servable = td_servable_ref(s);
    g->sig = sig;
    g->arena = td_arena_new(TD_GRAFT_BYTES);
    const enum td_code rc = g->arena == NULL ? td_graft_no_memory(err) : open_graph(g, err);
    if (rc) {
        td_graft_free(g);
        return rc;
    }
    *out = g;
    return TD_OK;
}

void td_graft_free(struct td_graft *g)
{
    if (g == NULL) {
        return;
    }
    td_emit_forget(&g->e);
    td_model_unref(g->model);
    td_arena_free(g->arena);
    td_variables_free(g->names);
    td_servable_unref(g->servable);
    td_free(g->kept);
    td_free(g);
}

/* ------------------------------------------------------------------ cutting */

/* Roots that are marked go. */
static void drop_roots(struct td_ir *ir, const bool *marks)
{
    int n = 0;
    for (int i = 0; i < ir->n_roots; i++) {
        if (!marks[ir->roots[i]->id]) {
            ir->roots[n++] = ir->roots[i];
        }
    }
    ir->n_roots = n;
}

enum td_code td_graft_cut(struct td_graft *g, const char *at, struct td_value *out, struct td_shape *shape,
                          struct td_err *err)
{
    TD_TRY(td_graft_find(g, at, out, shape, err));
    bool *above = td_calloc((size_t)g->ir.n_nodes + 1, sizeof *above);
    if (above == NULL) {
        return td_graft_no_memory(err);
    }
    const enum td_code rc = mark_needing(&g->ir, out->node, above, err);
    if (rc == TD_OK) {
        drop_roots(&g->ir, above);
    }
    td_free(above);
    return rc;
}

/* ------------------------------------------------------------------ variables */

enum td_code td_graft_keep(struct td_graft *g, struct td_graft_kept **out, struct td_err *err)
{
    if (g->n_kept == g->cap_kept) {
        const int cap = g->cap_kept == 0 ? 64 : 2 * g->cap_kept;
        struct td_graft_kept *grown = td_realloc(g->kept, (size_t)cap, sizeof *grown);
        if (grown == NULL) {
            return td_graft_no_memory(err);
        }
        g->kept = grown;
        g->cap_kept = cap;
    }
    *out = &g->kept[g->n_kept++];
    **out = (struct td_graft_kept){.slice = ""};
    return TD_OK;
}

static bool begins(const char *text, const char *stem, size_t n)
{
    return text != NULL && strncmp(text, stem, n) == 0 && (text[n] == '/' || text[n] == 0);
}

static bool is_taken(const struct td_variables *names, const char *stem)
{
    const size_t n = strlen(stem);
    for (int i = 0; i < td_variables_count(names); i++) {
        const struct td_variable_row row = td_variables_row(names, i);
        if (begins(row.key, stem, n) || begins(row.name, stem, n) || begins(row.resources[0], stem, n)) {
            return true;
        }
    }
    return false;
}

void td_graft_scope(const struct td_variables *names, const char *stem, char out[TD_GRAFT_SCOPE])
{
    snprintf(out, TD_GRAFT_SCOPE, "%s", stem);
    for (int i = 1; is_taken(names, out); i++) {
        snprintf(out, TD_GRAFT_SCOPE, "%.60s_%d", stem, i);
    }
}

enum td_code td_graft_variable(struct td_graft *g, const struct td_graft_variable *v, struct td_value *read,
                               struct td_err *err)
{
    struct td_graft_kept *kept;
    struct td_shape shape = v->shape;
    enum td_dtype dtype = td_dtype_of(v->start);
    const struct td_attr attrs[] = {
        {.name = "dtype", .kind = TD_ATTR_TYPE, .n = 1, .type = &dtype},
        {.name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = &shape},
        TD_ATTR_OF_TEXT("shared_name", v->name),
    };
    const char *name = td_arena_strdup(g->ir.arena, v->name);
    TD_TRY(g->e.rc);
    TD_TRY(name == NULL ? td_graft_no_memory(err) : td_graft_keep(g, &kept, err));
    const struct td_value handle = td_emit(&g->e, "VarHandleOp", TD_NO_INPUTS, attrs, 3);
    TD_TRY(g->e.rc);
    handle.node->name = name;
    *kept = (struct td_graft_kept){.name = name,
                                   .key = name,
                                   .slice = "",
                                   .trainable = true,
                                   .is_resource = true,
                                   .handle = handle,
                                   .start = v->start};
    TD_TRY(td_graft_reader(g, kept, err));
    *read = kept->read;
    return TD_OK;
}

/* ------------------------------------------------------------------ closing */

static enum td_code make_signature(struct td_graft *g, const char *key, struct td_value out,
                                   const struct td_shape *shape, struct td_err *err)
{
    struct td_signature *made = &g->made;
    *made = *g->sig;
    made->method = "tensorflow/serving/predict";
    made->in = td_graft_room(g, g->sig->n_in, sizeof *made->in);
    made->out = td_graft_room(g, 1, sizeof *made->out);
    made->n_out = 1;
    const char *copy = td_arena_strdup(g->ir.arena, key);
    if (made->in == NULL || made->out == NULL || copy == NULL) {
        return td_graft_no_memory(err);
    }
    for (int i = 0; i < g->sig->n_in; i++) {
        made->in[i] = g->sig->in[i];
        made->in[i].dtype = g->ir.feeds[i]->out_type[0];
        made->in[i].is_ref = false;
    }
    made->out[0] = (struct td_tensor_info){
        .key = copy, .tensor = "", .dtype = out.node->out_type[out.port], .shape = *shape};
    return TD_OK;
}

/* The output waits for the effects of what it is made of. */
static enum td_code wait_for_roots(struct td_graft *g, struct td_node *out, struct td_err *err)
{
    out->control = td_graft_room(g, g->ir.n_roots, sizeof(void *));
    if (out->control == NULL) {
        return td_graft_no_memory(err);
    }
    for (int i = 0; i < g->ir.n_roots; i++) {
        out->control[out->n_control++] = g->ir.roots[i];
    }
    g->ir.n_roots = 0;
    return TD_OK;
}

enum td_code td_graft_close(struct td_graft *g, const char *key, struct td_value value,
                            const struct td_shape *shape, struct td_err *err)
{
    td_graft_emitter(g, g->scope);
    const struct td_value out = td_emit(&g->e, "Identity", TD_IN(value), TD_NO_ATTRS);
    TD_TRY(g->e.rc);
    g->ir.fetches = td_graft_room(g, 1, sizeof *g->ir.fetches);
    if (g->ir.fetches == NULL) {
        return td_graft_no_memory(err);
    }
    g->ir.fetches[0] = out;
    g->ir.n_fetches = 1;
    TD_TRY(wait_for_roots(g, out.node, err));
    TD_TRY(make_signature(g, key, out, shape, err));
    for (int i = 0; i < g->n_kept; i++) { /* the further ones: read or not, they are written */
        TD_TRY(td_ir_add_root(&g->ir, g->kept[i].read.node, err));
        TD_TRY(td_ir_add_root(&g->ir, g->kept[i].start.node, err));
    }
    TD_TRY(td_graft_sweep(g, err));
    TD_TRY(td_graft_saver(g, err));
    TD_TRY(td_graft_sweep(g, err));
    return td_graft_names(g);
}

const struct td_signature *td_graft_signature(const struct td_graft *g)
{
    return &g->made;
}

const char *td_graft_variable_key(const struct td_graft *g, int i)
{
    return i < g->n_kept ? g->kept[i].key : NULL;
}

const char *td_graft_variable_name(const struct td_graft *g, int i)
{
    return i < g->n_kept ? g->kept[i].name : NULL;
}
