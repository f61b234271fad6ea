/* core/compile/pass_hoist.c - what a loop does with each slice of a tensor alike is done with all slices at
 * once, before the loop.
 *
 *   list = slices of X                                  X [T, B, F]
 *   loop:  z = MatMul(list[t], W) + MatMul(h, U)        W [F, N], the same in every round
 *
 *   becomes
 *
 *   list = slices of X W                                one product of T * B rows; [T, B, N]
 *   loop:  z = list[t] + MatMul(h, U)
 *
 * Recurrent layers read their inputs so; with a few rows each of the T products would read all of W.
 *
 * Of a loop over functions (struct td_op_branch) whose arguments include such a list, the body is copied,
 * calls inlined, and walked once. A value of it is a "slice" when it is an element of the list, or made
 * of one by an op that says how it is done with all of them (td_op.over_slices) and of what is the same
 * in every round: arguments that the body hands on as they are, constants, variables, when neither body
 * nor condition has an effect, and what ops without effects make of these, whatever their values are: what
 * may refuse a value stays, as a loop of no rounds would not have asked. Of each such chain the last
 * value is read from a list of its own. The node then runs copies of its functions as a lifted loop does
 * (core/compile/loop.h), and these lists enter as constants.
 *
 * Only chains with a product in them are worth a list. A slice that the loop would not have come to is
 * computed all the same. A loop that is left as the steps of a cell, by the rule of the op of role
 * RECURRENCE, becomes a node of that op, whose kernel runs all rounds by itself. Loops of TF1 graphs were
 * lifted before (core/compile/loops.h), and their arrays are lists (core/compile/array_lists.h).
 *
 * Invariant (td_pass_check): the node has the outputs it had; an element is computed by the same sum of
 * products, up to rounding.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "core/compile/ir_shapes.h"
#include "core/compile/loop.h"
#include "core/compile/loop_apart.h"
#include "core/compile/loop_source.h"
#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/graph/define.h"

enum { MAX_DEPTH = 8 };

/* What a value of the body is a slice of. */
struct slice {
    struct td_value of;    /* around the loop; no node: it is no slice */
    struct td_value index; /* in the body */
    bool product, made;    /* a product is in its chain; it is no element of a list that was there */
    bool needed;           /* something that is no slice reads it */
};

struct hoist {
    struct td_ir *ir;
    struct td_model *m;
    struct td_emitter outside, inside;
    const struct td_ir_shapes *around; /* of the graph as the pass began */
    struct td_node *loop;
    struct td_loop_source cond, body;
    int n_vars;                /* the rest of its inputs is the same in every round */
    struct td_ir copy;         /* of the body */
    struct slice *slices;      /* by its nodes' ids */
    struct td_node **moved;    /* likewise: what stands before the loop in its place; NULL */
    bool *tried;               /* likewise: whether that was looked at */
    bool only_reads;           /* neither function has an effect */
    struct td_value *entering; /* what enters the loop from now on */
    struct td_node **feed;     /* ... in the body */
    struct td_value *asked;    /* ... which a rule asked for as this value of it; no node: none did */
    int n_entering, n_nodes;   /* n_nodes: of the copy, before any is added */
    const struct td_op *whole; /* what runs the loop as a whole; NULL: nothing is known to */
    struct td_attr whole_attrs[TD_LOOP_ATTRS];
    int n_whole_attrs;
    struct td_err *err;
};

/* ------------------------------------------------------------------ what is the same in every round */

/* What passes through nodes that hand their inputs on. */
static struct td_value origin(struct td_value v)
{
    while ((td_node_flags(v.node) & TD_OP_IDENTITY) && v.node->n_control == 0 && v.port < v.node->n_in) {
        v = v.node->in[v.port];
    }
    return v;
}

/* The number of the argument that v is; -1. */
static int argument(const struct hoist *h, struct td_value v)
{
    const struct td_node *from = origin(v).node;
    for (int i = 0; from->op == &td_op_feed && i < h->loop->n_in; i++) {
        if (h->copy.feeds[i] == from) {
            return i;
        }
    }
    return -1;
}

/* ... and that the body hands on as it is; -1. */
static int steady_argument(const struct hoist *h, struct td_value v)
{
    const int i = argument(h, v);
    return i >= 0 && (i >= h->n_vars || argument(h, h->copy.fetches[i]) == i) ? i : -1;
}

/* Whether no values make n fail: it has a result for all floats, and its integers are constants. */
static bool is_total(const struct td_node *n)
{
    const uint32_t flags = td_node_flags(n),
                   total = TD_OP_TOTAL | TD_OP_ELEMENTWISE | TD_OP_VIEW | TD_OP_PRODUCT | TD_OP_IDENTITY;
    if (flags & (TD_OP_SHAPE_ONLY | TD_OP_READS)) {
        return true;
    }
    bool all = (flags & total) != 0;
    for (int i = 0; all && i < n->n_in; i++) {
        all = td_dtype_in(td_dtype_of(n->in[i]), TD_SET_FLOATS | TD_SET_COMPLEX | TD_BIT(TD_BOOL)) ||
              td_node_const(origin(n->in[i]).node) != NULL;
    }
    return all;
}

/* Whether n, of the body, may be done once before the loop: it has no effects, or reads where nothing else in
 * the loop has any. */
static bool may_move(const struct hoist *h, const struct td_node *n)
{
    const uint32_t never = TD_OP_REFUSED | TD_OP_HANDLE | TD_OP_ARG | TD_OP_CALL | TD_OP_DEAD_OK,
                   flags = td_node_flags(n);
    bool ok = n->op != NULL && n->op != &td_op_feed && n->n_in > 0 && n->n_control == 0 && !(flags & never) &&
              n->loop == NULL && !td_ir_any_reference(n);
    ok = ok && (!(flags & TD_OP_STATEFUL) || ((flags & TD_OP_READS) && h->only_reads)) && is_total(n);
    for (int i = 0; ok && i < n->n_attrs; i++) {
        ok = n->attrs[i].kind != TD_ATTR_FUNC;
    }
    return ok;
}

/* n, of the body, before the loop, of these inputs, which it takes over. */
static struct td_node *move(struct hoist *h, const struct td_node *n, struct td_value *in)
{
    struct td_node *copy = NULL;
    struct td_emitter *e = &h->outside;
    if (e->rc == TD_OK) {
        e->rc = td_ir_add(h->ir, n, n->name, &copy, h->err);
    }
    if (e->rc) {
        return NULL;
    }
    copy->in = in;
    copy->path = h->loop->path;
    copy->control = h->loop->control;
    copy->n_control = td_node_flags(n) & TD_OP_STATEFUL ? h->loop->n_control : 0;
    return copy;
}

/* What v, of the body, is around the loop; no node: it differs from round to round, or that is not known.
 * depth: of nodes that are moved for it. */
static struct td_value before_loop(struct hoist *h, struct td_value v, int depth)
{
    const struct td_value from = origin(v);
    const struct td_node *n = from.node;
    const int arg = steady_argument(h, from);
    if (arg >= 0) {
        return h->loop->in[arg];
    }
    if (td_node_const(n) != NULL) {
        return td_emit_const(&h->outside, td_node_const(n));
    }
    if (n->id >= h->n_nodes) {
        return td_no_value;
    }
    if (!h->tried[n->id] && depth < MAX_DEPTH && may_move(h, n)) {
        h->tried[n->id] = true;
        struct td_value *in = td_arena_alloc(h->ir->arena, (size_t)n->n_in, sizeof *in);
        bool steady = in != NULL;
        for (int i = 0; steady && i < n->n_in; i++) {
            in[i] = before_loop(h, n->in[i], depth + 1);
            steady = in[i].node != NULL;
        }
        h->moved[n->id] = steady ? move(h, n, in) : NULL;
    }
    return h->moved[n->id] != NULL ? (struct td_value){h->moved[n->id], from.port} : td_no_value;
}

/* ------------------------------------------------------------------ slices */

static bool plain(const struct td_node *n)
{
    return n->op != NULL && n->n_out == 1 && n->n_in > 0 && n->n_control == 0 && !td_ir_any_reference(n);
}

/* The tensor that the list v, around the loop, was made of. */
static struct td_value tensor_of(struct td_value v)
{
    const struct td_node *n = origin(v).node;
    return n->op != NULL && n->op->role == TD_ROLE_LIST_SLICES ? n->in[0] : td_no_value;
}

static struct slice item(const struct hoist *h, const struct td_node *n)
{
    const int list = steady_argument(h, n->in[0]);
    return list < 0 ? (struct slice){0}
                    : (struct slice){.of = tensor_of(h->loop->in[list]), .index = n->in[1]};
}

/* What n makes of a slice. */
static struct slice further(struct hoist *h, const struct td_node *n)
{
    const struct slice *from = &h->slices[origin(n->in[0]).node->id];
    const bool product = (n->op->flags & TD_OP_HEAVY) != 0;
    if (from->of.node == NULL || !(product || from->product)) {
        return (struct slice){0};
    }
    struct td_value *in = td_arena_alloc(h->ir->arena, (size_t)n->n_in, sizeof *in);
    bool steady = in != NULL;
    for (int i = 1; steady && i < n->n_in; i++) {
        in[i] = before_loop(h, n->in[i], 0);
        steady = in[i].node != NULL;
    }
    h->outside.at = n;
    return (struct slice){.of = steady ? n->op->over_slices(&h->outside, n, from->of, in) : td_no_value,
                          .index = from->index,
                          .product = true,
                          .made = true};
}

static void find_slices(struct hoist *h)
{
    for (int k = 0; k < h->n_nodes; k++) {
        const struct td_node *n = h->copy.nodes[k];
        if (plain(n) && n->op->role == TD_ROLE_LIST_ITEM) {
            h->slices[k] = item(h, n);
        } else if (plain(n) && n->op->over_slices != NULL) {
            h->slices[k] = further(h, n);
        }
    }
    for (int k = 0; k < h->n_nodes; k++) {
        const struct td_node *n = h->copy.nodes[k];
        const bool handed_on = (td_node_flags(n) & TD_OP_IDENTITY) && n->n_control == 0;
        for (int i = 0; i < n->n_in; i++) {
            const bool goes_on = i == 0 && h->slices[k].made && h->slices[k].of.node != NULL;
            h->slices[origin(n->in[i]).node->id].needed |= !goes_on && !handed_on;
        }
    }
    for (int i = 0; i < h->copy.n_fetches; i++) {
        h->slices[origin(h->copy.fetches[i]).node->id].needed = true;
    }
}

/* ------------------------------------------------------------------ lists of them */

/* What v, around the loop, is in the body; no node after an error. */
static struct td_value enter(struct hoist *h, struct td_value v)
{
    struct td_node *feed =
        v.node == NULL ? NULL : td_emit_bare(&h->inside, &td_op_feed, td_op_feed.name, 0, 1);
    if (feed == NULL) {
        return td_no_value;
    }
    feed->out_type[0] = td_dtype_of(v);
    h->entering[h->n_entering] = v;
    h->feed[h->n_entering++] = feed;
    return (struct td_value){feed, 0};
}

/* n, of the body, becomes an element of a list that enters the loop. */
static enum td_code read_from_list(struct hoist *h, struct td_node *n, const struct td_shape *shape)
{
    const struct td_op_def *make = td_op_of_role(h->outside.ops, TD_ROLE_LIST_SLICES),
                           *read = td_op_of_role(h->outside.ops, TD_ROLE_LIST_ITEM);
    const struct slice *s = &h->slices[n->id];
    const struct td_attr dtype = TD_ATTR_OF_TYPE("element_dtype", n->out_type[0]);
    h->outside.at = h->inside.at = n;
    const struct td_value list =
        enter(h, td_emit_def(&h->outside, make, TD_IN(s->of, td_loop_element_shape(&h->outside, shape)),
                             &dtype, 1));
    td_emit_again(&h->inside, n, read, TD_IN(list, s->index, td_loop_element_shape(&h->inside, shape)),
                  &dtype, 1);
    return h->outside.rc ? h->outside.rc : h->inside.rc;
}

static enum td_code make_lists(struct hoist *h)
{
    struct td_ir_shapes shapes;
    TD_TRY(td_ir_shapes_init(&h->copy, &shapes, h->err));
    enum td_code rc = TD_OK;
    for (int k = 0; rc == TD_OK && k < h->n_nodes; k++) {
        const struct slice *s = &h->slices[k];
        if (s->of.node != NULL && s->made && s->needed) {
            struct td_node *n = h->copy.nodes[k];
            rc = read_from_list(h, n, td_ir_shape(&shapes, (struct td_value){n, 0}));
        }
    }
    td_ir_shapes_fini(&shapes);
    return rc;
}

/* ------------------------------------------------------------------ the rest that is the same */

/* Whether v is computed: what is at hand anyway is taken where it is wanted. */
static bool computed(struct td_value v)
{
    const uint32_t at_hand = TD_OP_CONST | TD_OP_READS | TD_OP_FREE | TD_OP_VIEW | TD_OP_SHAPE_ONLY;
    return v.node->op != &td_op_feed && !(td_node_flags(v.node) & at_hand) &&
           !td_dtype_is_object(td_dtype_of(v));
}

/* v, an input of something that differs from round to round, as it enters the loop; v itself where it
 * differs, too. at: by value, those of node k from first[k] on. */
static struct td_value entered(struct hoist *h, struct td_value *at, const int *first, struct td_value v)
{
    const struct td_value from = origin(v);
    if (from.node->id >= h->n_nodes || !computed(from)) {
        return v;
    }
    struct td_value *known = &at[first[from.node->id] + from.port];
    if (known->node == NULL) {
        const struct td_value outside = before_loop(h, from, 0);
        h->inside.at = from.node;
        *known = outside.node != NULL ? enter(h, outside) : v;
    }
    return *known;
}

/* Of a loop that is rewritten anyway, what is computed anew in each round, and is always the same, is
 * computed before it. */
static enum td_code enter_others(struct hoist *h)
{
    int *first = td_arena_alloc(h->ir->arena, (size_t)h->n_nodes + 1, sizeof *first);
    for (int k = 0; first != NULL && k < h->n_nodes; k++) {
        first[k + 1] = first[k] + h->copy.nodes[k]->n_out;
    }
    struct td_value *at =
        first == NULL ? NULL : td_arena_alloc(h->ir->arena, (size_t)first[h->n_nodes] + 1, sizeof *at);
    if (at == NULL) {
        return td_no_memory(h->err, (size_t)h->n_nodes, "compiling a loop");
    }
    for (int k = 0; k < h->n_nodes; k++) {
        struct td_node *n = h->copy.nodes[k];
        const bool differs = n->n_out == 0 || before_loop(h, (struct td_value){n, 0}, 0).node == NULL;
        for (int i = 0; differs && i < n->n_in; i++) {
            n->in[i] = n->in_ref[i] ? n->in[i] : entered(h, at, first, n->in[i]);
        }
        TD_TRY(h->outside.rc ? h->outside.rc : h->inside.rc);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the loop */

/* The copy of the body, fed what the node reads and the lists. */
static enum td_code make_body(struct hoist *h, struct td_loop *l)
{
    struct td_ir *c = &h->copy;
    const int n = l->n_vars + l->n_consts, own = h->loop->n_in;
    struct td_node **all = td_arena_alloc(c->arena, (size_t)n + 1, sizeof(void *));
    struct td_value *feeds = td_arena_alloc(c->arena, (size_t)n + 1, sizeof *feeds);
    struct td_graph *g = td_arena_alloc(c->arena, 1, sizeof *g);
    if (all == NULL || feeds == NULL || g == NULL) {
        return td_no_memory(h->err, (size_t)n, "compiling a loop");
    }
    for (int i = 0; i < n; i++) {
        all[i] = i < own ? c->feeds[i] : h->feed[i - own];
        feeds[i] = (struct td_value){all[i], 0};
    }
    c->feeds = all;
    c->n_feeds = n;
    TD_TRY(td_ir_sort(c, h->err));
    td_graph_init(g, c->arena, h->body.opts.name);
    g->nodes = c->nodes;
    g->n_nodes = g->cap_nodes = c->n_nodes;
    const struct td_callable_opts opts = {.name = h->body.opts.name,
                                          .feeds = feeds,
                                          .n_feeds = n,
                                          .fetches = c->fetches,
                                          .n_fetches = c->n_fetches,
                                          .targets = c->roots,
                                          .n_targets = c->n_roots};
    return l->calls->make(h->m, g, &opts, &l->body, h->err);
}

/* What a rule asks (struct td_loop_view). */
static int steady_input(void *loop, struct td_value v)
{
    struct hoist *h = loop;
    const struct td_value from = origin(v);
    for (int i = 0; i < h->n_entering; i++) {
        if (h->feed[i] == from.node) {
            return h->loop->n_in + i;
        }
    }
    const int arg = steady_argument(h, from);
    if (arg >= 0) {
        return arg;
    }
    for (int i = 0; i < h->n_entering; i++) {
        if (h->asked[i].node == from.node && h->asked[i].port == from.port) {
            return h->loop->n_in + i;
        }
    }
    const struct td_value outside = before_loop(h, from, 0);
    h->inside.at = h->loop;
    if (outside.node == NULL || enter(h, outside).node == NULL) {
        return -1;
    }
    h->asked[h->n_entering - 1] = from;
    return h->loop->n_in + h->n_entering - 1;
}

/* Asks whether the loop can be run as a whole. */
static enum td_code find_whole(struct hoist *h)
{
    const struct td_op_def *def = td_op_of_role(h->outside.ops, TD_ROLE_RECURRENCE);
    struct td_value *feeds = td_arena_alloc(h->ir->arena, (size_t)h->loop->n_in + 1, sizeof *feeds);
    h->whole = NULL;
    if (feeds == NULL) {
        return td_no_memory(h->err, (size_t)h->loop->n_in, "compiling a loop");
    }
    if (def == NULL || !h->only_reads) {
        return TD_OK;
    }
    for (int i = 0; i < h->loop->n_in; i++) {
        feeds[i] = (struct td_value){h->copy.feeds[i], 0};
    }
    const struct td_loop_view v = {.n_vars = h->n_vars,
                                   .n_in = h->loop->n_in,
                                   .cond_feeds = h->cond.opts.feeds,
                                   .cond = h->cond.opts.fetches[0],
                                   .body_feeds = feeds,
                                   .body_fetches = h->copy.fetches,
                                   .steady = steady_input,
                                   .loop = h};
    h->n_whole_attrs = def->op->loop_rule(h->ir->arena, &v, h->whole_attrs);
    h->whole = h->n_whole_attrs > 0 ? def->op : NULL;
    return h->outside.rc ? h->outside.rc : h->inside.rc;
}

/* The node runs them, and reads the lists. */
static enum td_code become_loop(struct hoist *h, struct td_loop *l)
{
    struct td_node *n = h->loop;
    const struct td_value *in = n->in;
    const int own = n->n_in;
    TD_TRY(td_define_input_room(h->ir->arena, n, l->n_vars + l->n_consts, h->err));
    n->n_in = l->n_vars + l->n_consts;
    for (int i = 0; i < n->n_in; i++) {
        n->in[i] = i < own ? in[i] : h->entering[i - own];
    }
    n->op = h->whole != NULL ? h->whole : h->only_reads ? &td_reading_loop_op : &td_loop_op;
    n->op_name = n->op->name;
    n->def = NULL;
    n->in_type = NULL;
    n->attrs = NULL;
    n->n_attrs = 0;
    for (int i = 0; h->whole != NULL && i < h->n_whole_attrs; i++) {
        td_emit_attr(&h->outside, n, &h->whole_attrs[i]);
    }
    n->loop = l;
    h->ir->changes++;
    return h->outside.rc;
}

static enum td_code rewrite(struct hoist *h)
{
    struct td_loop *l = td_arena_alloc(h->ir->arena, 1, sizeof *l);
    if (l == NULL || td_arena_defer(h->ir->arena, td_loop_free, l)) {
        return td_no_memory(h->err, sizeof *l, "compiling a loop");
    }
    l->calls = td_model_calls(h->m);
    TD_TRY(find_whole(h));
    l->n_vars = h->n_vars;
    l->n_cond_feeds = h->loop->n_in;
    l->n_body_feeds = h->loop->n_in + h->n_entering;
    l->n_consts = l->n_body_feeds - l->n_vars;
    TD_TRY(l->calls->make(h->m, h->cond.graph, &h->cond.opts, &l->cond, h->err));
    TD_TRY(make_body(h, l));
    return become_loop(h, l);
}

/* ------------------------------------------------------------------ one loop after the other */

/* Whether n is a loop that may be rewritten, over a list of slices. */
static bool find_loop(struct hoist *h, struct td_node *n)
{
    bool lists = false;
    h->loop = n;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in_ref[i] || n->in[i].node->out_ref[n->in[i].port]) {
            return false;
        }
        lists = lists || tensor_of(n->in[i]).node != NULL;
    }
    return lists && n->op != NULL && td_loop_sources(h->m, h->ir->arena, n, &h->cond, &h->body, &h->n_vars);
}

/* A copy of the body. */
static enum td_code open_body(struct hoist *h)
{
    const unsigned how = td_rewrite_is_off(td_model_opts_of(h->m)->passes_off, "inline") ? 0 : TD_IR_INLINE;
    TD_TRY(td_ir_build(&h->copy, h->ir->arena, h->body.graph, td_model_library(h->m), &h->body.opts, how,
                       h->err));
    return td_ir_check_types(&h->copy, h->err);
}

/* Room for what is found in it. */
static enum td_code make_room(struct hoist *h)
{
    struct td_arena *a = h->ir->arena;
    h->n_nodes = h->copy.n_nodes;
    h->n_entering = 0;
    h->inside = td_ir_emitter(&h->copy, NULL, h->outside.ops, h->err);
    h->slices = td_arena_alloc(a, (size_t)h->n_nodes + 1, sizeof *h->slices);
    h->moved = td_arena_alloc(a, (size_t)h->n_nodes + 1, sizeof(void *));
    h->tried = td_arena_alloc(a, (size_t)h->n_nodes + 1, 1);
    int n_values =
        h->n_nodes; /* one list a node, and each value twice: as an input, and as what a rule asks for */
    for (int k = 0; k < h->n_nodes; k++) {
        n_values += 2 * h->copy.nodes[k]->n_out;
    }
    h->entering = td_arena_alloc(a, (size_t)n_values + 1, sizeof *h->entering);
    h->feed = td_arena_alloc(a, (size_t)n_values + 1, sizeof *h->feed);
    h->asked = td_arena_alloc(a, (size_t)n_values + 1, sizeof *h->asked);
    return h->slices != NULL && h->moved != NULL && h->tried != NULL && h->entering != NULL &&
                   h->feed != NULL && h->asked != NULL
               ? TD_OK
               : td_no_memory(h->err, (size_t)h->n_nodes, "compiling a loop");
}

/* Products of slices and something else become sums of two. */
static enum td_code take_apart(struct hoist *h)
{
    const int n = h->copy.n_nodes;
    struct td_value *of = td_arena_alloc(h->ir->arena, (size_t)n + 1, sizeof *of);
    if (of == NULL) {
        return td_no_memory(h->err, (size_t)n, "compiling a loop");
    }
    for (int k = 0; k < n; k++) {
        const struct td_node *from = h->copy.nodes[k];
        of[k] = plain(from) && from->op->role == TD_ROLE_LIST_ITEM ? item(h, from).of : td_no_value;
    }
    return td_loop_take_apart(&h->copy, h->around, of, h->outside.ops, h->err);
}

static enum td_code try_loop(struct hoist *h)
{
    TD_TRY(open_body(h));
    if (td_loop_has_old(&h->copy)) {
        return TD_OK;
    }
    TD_TRY(td_ir_sort(&h->copy, h->err));
    TD_TRY(take_apart(h));
    TD_TRY(make_room(h));
    h->only_reads = td_loop_only_reads(h->copy.nodes, h->n_nodes) &&
                    td_loop_only_reads(h->cond.graph->nodes, h->cond.graph->n_nodes);
    find_slices(h);
    TD_TRY(h->outside.rc);
    enum td_code rc = make_lists(h);
    rc = rc == TD_OK && h->n_entering > 0 ? enter_others(h) : rc;
    const enum td_code closed = td_emit_close(&h->inside);
    TD_TRY(rc ? rc : closed);
    return h->n_entering > 0 ? rewrite(h) : TD_OK;
}

enum td_code td_pass_hoist(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const struct td_op_table *ops = m == NULL ? NULL : td_model_opts_of(m)->ops;
    if (ops == NULL || td_op_of_role(ops, TD_ROLE_LIST_SLICES) == NULL ||
        td_op_of_role(ops, TD_ROLE_LIST_ITEM) == NULL || td_ir_has_switch(ir)) {
        return TD_OK;
    }
    struct hoist h = {.ir = ir, .m = m, .outside = td_ir_emitter(ir, NULL, ops, err), .err = err};
    enum td_code rc = TD_OK;
    const int n_nodes = ir->n_nodes;
    for (int k = 0; rc == TD_OK && k < n_nodes; k++) {
        const bool found = find_loop(&h, ir->nodes[k]);
        rc = found && h.around == NULL ? td_ir_shapes_now(ir, &h.around, err) : TD_OK;
        rc = found && rc == TD_OK ? try_loop(&h) : rc;
    }
    ir->changes += ir->n_nodes > n_nodes; /* also what came to nothing: the sort behind the pass drops it */
    const enum td_code closed = td_emit_close(&h.outside);
    return rc ? rc : closed;
}
