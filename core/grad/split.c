/* core/grad/split.c - which nodes are whose, and what lies on the cut.
 *
 * The IR is sorted with the results among its fetches; then sweeps in order mark each node:
 *
 *   FORWARD   the IR's own fetches and roots need it
 *   SEEDED    a seed is above it: it can only be backward
 *   AGAIN     may be made again in the backward part (split.h)
 *
 * What is neither FORWARD nor SEEDED was added for the backward part out of forward values, and is backward
 * unless all it makes is integers or bools (SMALL). A walk up from the results stops at seeds and at what is
 * kept. Ops that read shapes alone (TD_OP_SHAPE_ONLY) are decided last: they are made again when what they
 * read has come to be there, since a shape that a plan knows costs nothing and a kept one does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/split.h"

#include <string.h>

#include "core/base/mem.h"

enum { FORWARD = 1, SEEDED = 2, AGAIN = 4, SMALL = 8, VISITED = 16 };

struct splitter {
    struct td_ir *ir;
    const struct td_grad_cut *cut;
    struct td_grad_kept *kept;
    unsigned char *mark; /* by node id */
    int *feed_of;        /* by node id: 1 + its number among the IR's feeds */
    struct td_node **stack;
    int depth;
    struct td_node **late; /* of shapes alone */
    int n_late;
    struct td_value *keep; /* room, as many as there are edges */
    int n_keep;
    struct td_err *err;
};

static enum td_code no_memory(struct td_err *err, int n)
{
    return td_no_memory(err, (size_t)n, "the parts of a gradient");
}

/* ------------------------------------------------------------------ order */

/* Sorts with the results as further fetches and the seeds as further feeds: nothing they need is dropped. */
static enum td_code sort(struct td_ir *ir, const struct td_grad_cut *cut, struct td_err *err)
{
    struct td_value *own = ir->fetches;
    struct td_node **feeds = ir->feeds;
    const int n_own = ir->n_fetches, n_feeds = ir->n_feeds;
    struct td_value *all = td_arena_alloc(ir->arena, (size_t)(n_own + cut->n_results) + 1, sizeof *all);
    struct td_node **fed = td_arena_alloc(ir->arena, (size_t)(n_feeds + cut->n_seeds) + 1, sizeof *fed);
    if (all == NULL || fed == NULL) {
        return no_memory(err, n_own + n_feeds);
    }
    for (int i = 0; i < n_own; i++) {
        all[i] = own[i];
    }
    for (int i = 0; i < cut->n_results; i++) {
        if (cut->results[i].node != NULL) {
            all[ir->n_fetches++] = cut->results[i];
        }
    }
    for (int i = 0; i < n_feeds; i++) {
        fed[i] = feeds[i];
    }
    for (int i = 0; i < cut->n_seeds; i++) {
        fed[ir->n_feeds++] = cut->seeds[i].node;
    }
    ir->fetches = all;
    ir->feeds = fed;
    const enum td_code rc = td_ir_sort(ir, err);
    ir->fetches = own;
    ir->feeds = feeds;
    ir->n_fetches = n_own;
    ir->n_feeds = n_feeds;
    return rc;
}

/* ------------------------------------------------------------------ marks */

static void mark_forward(struct splitter *s)
{
    for (int i = 0; i < s->ir->n_fetches; i++) {
        s->mark[s->ir->fetches[i].node->id] |= FORWARD;
    }
    for (int i = 0; i < s->ir->n_roots; i++) {
        s->mark[s->ir->roots[i]->id] |= FORWARD;
    }
    for (int k = s->ir->n_nodes - 1; k >= 0; k--) {
        const struct td_node *n = s->ir->nodes[k];
        for (int i = 0; (s->mark[k] & FORWARD) && i < n->n_in; i++) {
            s->mark[n->in[i].node->id] |= FORWARD;
        }
        for (int i = 0; (s->mark[k] & FORWARD) && i < n->n_control; i++) {
            s->mark[n->control[i]->id] |= FORWARD;
        }
    }
}

static bool any_writes(const struct td_ir *ir)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        const uint32_t flags = td_node_flags(ir->nodes[k]);
        if ((flags & TD_OP_STATEFUL) && !(flags & (TD_OP_READS | TD_OP_HANDLE))) {
            return true;
        }
    }
    return false;
}

/* Does n do the same at every run, without any effect? */
static bool repeats(const struct td_node *n, bool writes)
{
    const uint32_t flags = td_node_flags(n);
    const bool reads = (flags & TD_OP_READS) != 0;
    const bool pure = !(flags & (TD_OP_STATEFUL | TD_OP_READS)) || (reads && !writes);
    for (int i = 0; i < n->n_out; i++) {
        if (n->out_ref[i]) {
            return false;
        }
    }
    return pure && n->n_control == 0 && n->n_out > 0 && !(flags & (TD_OP_SWITCH | TD_OP_DEAD_OK));
}

static bool all_small(const struct td_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        if (!td_dtype_in(n->out_type[i], TD_SET_INTS | TD_BIT(TD_BOOL))) {
            return false;
        }
    }
    return n->n_out > 0;
}

/* Whether all that n reads can be there: lasts, is made again; to recompute, what can be kept will do. */
static bool inputs_last(const struct splitter *s, const struct td_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const enum td_dtype dtype =
            td_dtype_of(n->in[i]); /* keeping a list would copy it whenever it changes */
        const bool can_be_kept = s->cut->recompute && dtype != TD_RESOURCE && dtype != TD_VARIANT;
        if (!(s->mark[n->in[i].node->id] & AGAIN) && !can_be_kept) {
            return false;
        }
    }
    return true;
}

static void mark_kinds(struct splitter *s)
{
    const bool writes = any_writes(s->ir);
    for (int i = 0; i < s->cut->n_seeds; i++) {
        s->mark[s->cut->seeds[i].node->id] |= SEEDED;
    }
    for (int k = 0; k < s->ir->n_nodes; k++) {
        const struct td_node *n = s->ir->nodes[k];
        const int feed = s->feed_of[k];
        for (int i = 0; i < n->n_in; i++) {
            s->mark[k] |= s->mark[n->in[i].node->id] & SEEDED;
        }
        if (s->mark[k] & SEEDED) {
            continue;
        }
        const bool again = repeats(n, writes) && inputs_last(s, n);
        if (feed > 0 ? s->cut->lasting[feed - 1] : again) {
            s->mark[k] |= AGAIN;
        }
        if (!(s->mark[k] & FORWARD) && feed == 0 && all_small(n) && repeats(n, writes)) {
            s->mark[k] |= SMALL;
        }
    }
}

/* ------------------------------------------------------------------ the walk */

static void visit(struct splitter *s, struct td_node *n)
{
    if (!(s->mark[n->id] & VISITED)) {
        s->mark[n->id] |= VISITED;
        s->stack[s->depth++] = n;
    }
}

static bool is_kept(const struct splitter *s, struct td_value v)
{
    for (int i = 0; i < s->n_keep; i++) {
        if (s->keep[i].node == v.node && s->keep[i].port == v.port) {
            return true;
        }
    }
    return false;
}

static bool made_there(const struct splitter *s, const struct td_node *n)
{
    const int mark = s->mark[n->id];
    return (mark & (SEEDED | AGAIN)) || !(mark & (FORWARD | SMALL) || s->feed_of[n->id] > 0);
}

/* The backward part reads v. */
static void need(struct splitter *s, struct td_value v)
{
    const struct td_node *n = v.node;
    const bool feed = s->feed_of[n->id] > 0;
    if (made_there(s, n)) {
        visit(s, v.node);
    } else if (!feed && (td_node_flags(n) & TD_OP_SHAPE_ONLY) && n->n_control == 0) {
        if (!(s->mark[n->id] & VISITED)) {
            s->mark[n->id] |= VISITED;
            s->late[s->n_late++] = v.node;
        }
    } else if (!is_kept(s, v)) {
        s->keep[s->n_keep++] = v;
    }
}

static void climb(struct splitter *s)
{
    while (s->depth > 0) {
        const struct td_node *n = s->stack[--s->depth];
        for (int i = 0; i < n->n_in; i++) {
            need(s, n->in[i]);
        }
    }
}

/* Whether all that n reads is in the backward part. */
static bool is_there(const struct splitter *s, const struct td_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const struct td_node *from = n->in[i].node;
        if (!is_kept(s, n->in[i]) && !(made_there(s, from) && (s->mark[from->id] & VISITED))) {
            return false;
        }
    }
    return true;
}

static void decide_late(struct splitter *s)
{
    for (int i = 0; i < s->n_late; i++) {
        if (is_there(s, s->late[i])) {
            continue; /* made again: it is no feed of the part, so that the copy goes through it */
        }
        for (int o = 0; o < s->late[i]->n_out; o++) {
            s->keep[s->n_keep++] = (struct td_value){s->late[i], o};
        }
    }
}

/* ------------------------------------------------------------------ the answer */

static enum td_code answer(struct splitter *s)
{
    struct td_grad_kept *k = s->kept;
    struct td_arena *a = s->ir->arena;
    k->feeds = td_arena_alloc(a, (size_t)s->ir->n_feeds + 1, sizeof *k->feeds);
    k->values = td_arena_alloc(a, (size_t)s->n_keep + 1, sizeof *k->values);
    if (k->feeds == NULL || k->values == NULL) {
        return no_memory(s->err, s->n_keep);
    }
    for (int i = 0; i < s->ir->n_feeds; i++) {
        if (s->mark[s->ir->feeds[i]->id] & VISITED) {
            k->feeds[k->n_feeds++] = i;
        }
    }
    memcpy(k->values, s->keep, (size_t)s->n_keep * sizeof *k->values);
    k->n_values = s->n_keep;
    return TD_OK;
}

static enum td_code run(struct splitter *s)
{
    size_t edges = 1;
    for (int k = 0; k < s->ir->n_nodes; k++) {
        edges += (size_t)s->ir->nodes[k]->n_in + (size_t)s->ir->nodes[k]->n_out;
    }
    const size_t n = (size_t)s->ir->n_nodes + 1;
    s->mark = td_calloc(n, sizeof *s->mark);
    s->feed_of = td_calloc(n, sizeof *s->feed_of);
    s->stack = td_calloc(n, sizeof(void *));
    s->late = td_calloc(n, sizeof(void *));
    s->keep = td_calloc(edges + (size_t)s->cut->n_results, sizeof *s->keep);
    if (!s->mark || !s->feed_of || !s->stack || !s->late || !s->keep) {
        return no_memory(s->err, (int)n);
    }
    for (int i = 0; i < s->ir->n_feeds; i++) {
        s->feed_of[s->ir->feeds[i]->id] = i + 1;
    }
    mark_forward(s);
    mark_kinds(s);
    for (int i = 0; i < s->cut->n_results; i++) {
        if (s->cut->results[i].node != NULL) {
            need(s, s->cut->results[i]);
        }
    }
    climb(s);
    decide_late(s);
    return answer(s);
}

enum td_code td_grad_split(struct td_grad_context *ctx, struct td_ir *ir, const struct td_grad_cut *cut,
                           struct td_grad_kept *kept, struct td_err *err)
{
    (void)ctx;
    *kept = (struct td_grad_kept){0};
    struct splitter s = {.ir = ir, .cut = cut, .kept = kept, .err = err};
    TD_TRY(sort(ir, cut, err));
    const enum td_code rc = run(&s);
    td_free(s.mark);
    td_free(s.feed_of);
    td_free(s.stack);
    td_free(s.late);
    td_free(s.keep);
    return rc;
}
