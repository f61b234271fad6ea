/* core/compile/ir_sort.c - the order of an IR's nodes, and what may be dropped.
 *
 * Most passes leave the nodes in order: then one sweep from the last node to the first tells which are
 * needed. Where an edge points back (a pass has added nodes) it is a depth-first walk from feeds, roots and
 * fetches, with an explicit stack: a graph may be as deep as it is long.
 *
 * The last order, in which a plan runs, walks from the fetches that can be had first (fewest nodes above them
 * on the longest way): in a backward pass the gradient by a layer's weights is made when the pass is at that
 * layer, and what it reads is freed, rather than after the gradients by all others. What asks for a shape
 * alone comes right behind the value, so that a shape that is read late keeps no large value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/ir.h"

#include <stdlib.h>

#include "core/base/mem.h"

struct sorter {
    struct td_ir *ir;
    unsigned char *mark;
    int *next;
    int *asker, *asks_too; /* 1 + the id of a node that asks n's shape; of another that asks the same; NULL */
    struct td_node **stack, **order;
    int depth, n_order;
    struct td_err *err;
};

static struct td_node *edge_of(const struct td_node *n, int e)
{
    return e < n->n_in ? n->in[e].node : n->control[e - n->n_in];
}

static void add_askers(struct sorter *s, const struct td_node *n)
{
    for (int k = s->asker == NULL ? 0 : s->asker[n->id]; k > 0; k = s->asks_too[k - 1]) {
        if (s->mark[k - 1] == 0) {
            s->mark[k - 1] = 2;
            s->order[s->n_order++] = s->ir->nodes[k - 1];
        }
    }
}

static enum td_code visit(struct sorter *s, struct td_node *root)
{
    if (s->mark[root->id] != 0) {
        return TD_OK;
    }
    s->stack[s->depth++] = root;
    s->mark[root->id] = 1;
    while (s->depth > 0) {
        struct td_node *n = s->stack[s->depth - 1];
        int e = s->next[n->id]++;
        if (e == n->n_in + n->n_control) {
            s->depth--;
            s->mark[n->id] = 2;
            s->order[s->n_order++] = n;
            add_askers(s, n);
            continue;
        }
        struct td_node *from = edge_of(n, e);
        TD_FAIL_IF(s->mark[from->id] == 1, s->err, INVALID_ARGUMENT,
                   "the graph has a cycle through %s that is no loop of While or Enter and NextIteration",
                   TD_NODE_STR(from));
        if (s->mark[from->id] == 0) {
            s->stack[s->depth++] = from;
            s->mark[from->id] = 1;
        }
    }
    return TD_OK;
}

/* Marks what node k needs; false when that stands behind it. */
static bool mark_sources(const struct td_node *n, int k, bool *needed)
{
    bool forward = true;
    for (int e = 0; forward && e < n->n_in + n->n_control; e++) {
        const int from = edge_of(n, e)->id;
        forward = from < k;
        needed[from] = true;
    }
    return forward;
}

/* Drops what nothing needs. False, and nothing done, when the nodes are not in order. */
static bool sweep(struct td_ir *ir, bool *needed)
{
    for (int i = 0; i < ir->n_feeds; i++) {
        needed[ir->feeds[i]->id] = true;
    }
    for (int i = 0; i < ir->n_roots; i++) {
        needed[ir->roots[i]->id] = true;
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        needed[ir->fetches[i].node->id] = true;
    }
    for (int k = ir->n_nodes - 1; k >= 0; k--) {
        if (needed[k] && !mark_sources(ir->nodes[k], k, needed)) {
            return false;
        }
    }
    int kept = 0;
    for (int k = 0; k < ir->n_nodes; k++) {
        if (needed[k]) {
            ir->nodes[k]->id = kept;
            ir->nodes[kept++] = ir->nodes[k];
        }
    }
    ir->n_nodes = kept;
    return true;
}

/* Nodes that read one value's shape alone, by whose it is. */
static void list_askers(struct sorter *s)
{
    for (int k = s->ir->n_nodes - 1; k >= 0; k--) {
        const struct td_node *n = s->ir->nodes[k];
        if ((td_node_flags(n) & TD_OP_SHAPE_ONLY) && n->n_in == 1 && n->n_control == 0) {
            int *list = &s->asker[n->in[0].node->id];
            s->asks_too[k] = *list;
            *list = k + 1;
        }
    }
}

static enum td_code walk(struct sorter *s, struct td_node *const *leaf)
{
    const struct td_ir *ir = s->ir;
    for (int i = 0; i < ir->n_feeds; i++) {
        TD_TRY(visit(s, ir->feeds[i]));
    }
    for (int i = 0; i < ir->n_roots; i++) {
        TD_TRY(visit(s, ir->roots[i]));
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        TD_TRY(visit(s, leaf == NULL ? ir->fetches[i].node : leaf[i]));
    }
    return TD_OK;
}

/* leaf: the fetches in the order that they are walked from, for the last order; NULL: as they are. */
static enum td_code sort(struct td_ir *ir, struct td_node *const *leaf, struct td_err *err)
{
    const size_t n = (size_t)ir->n_nodes + 1, n_askers = leaf == NULL ? 1 : n;
    struct sorter s = {.ir = ir,
                       .mark = td_calloc(n, 1),
                       .next = td_calloc(n, sizeof(int)),
                       .asker = td_calloc(n_askers, sizeof(int)),
                       .asks_too = td_calloc(n_askers, sizeof(int)),
                       .stack = td_calloc(n, sizeof(void *)),
                       .order = td_arena_alloc(ir->arena, n, sizeof(void *)),
                       .err = err};
    enum td_code rc = TD_OK;
    if (!s.mark || !s.next || !s.asker || !s.asks_too || !s.stack || !s.order) {
        rc = td_no_memory(err, n, "sorting a graph");
    } else if (leaf != NULL) {
        list_askers(&s);
    }
    int *const asker = s.asker;
    s.asker = leaf == NULL ? NULL : asker;
    rc = rc ? rc : walk(&s, leaf);
    if (rc == TD_OK) {
        ir->nodes = s.order;
        ir->n_nodes = s.n_order;
        ir->cap_nodes = (int)n;
        for (int i = 0; i < s.n_order; i++) {
            s.order[i]->id = i;
        }
    }
    td_free(s.mark);
    td_free(s.next);
    td_free(asker);
    td_free(s.asks_too);
    td_free(s.stack);
    return rc;
}

enum td_code td_ir_sort(struct td_ir *ir, struct td_err *err)
{
    bool *needed = td_calloc((size_t)ir->n_nodes + 1, sizeof *needed);
    if (needed == NULL) {
        return td_no_memory(err, (size_t)ir->n_nodes, "sorting a graph");
    }
    const bool done = sweep(ir, needed);
    td_free(needed);
    return done ? TD_OK : sort(ir, NULL, err);
}

struct leaf {
    struct td_node *node;
    int level, number;
};

static int earlier(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;
    return x->level != y->level ? (x->level > y->level) - (x->level < y->level)
                                : (x->number > y->number) - (x->number < y->number);
}

/* ir is in order. */
static void list_leaves(const struct td_ir *ir, int *level, struct leaf *leaf, struct td_node **nodes)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        const struct td_node *n = ir->nodes[k];
        for (int e = 0; e < n->n_in + n->n_control; e++) {
            const int above = level[edge_of(n, e)->id] + 1;
            level[k] = above > level[k] ? above : level[k];
        }
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        leaf[i] = (struct leaf){ir->fetches[i].node, level[ir->fetches[i].node->id], i};
    }
    qsort(leaf, (size_t)ir->n_fetches, sizeof *leaf, earlier);
    for (int i = 0; i < ir->n_fetches; i++) {
        nodes[i] = leaf[i].node;
    }
}

enum td_code td_ir_schedule(struct td_ir *ir, struct td_err *err)
{
    TD_TRY(td_ir_sort(ir, err));
    if (ir->n_fetches < 2) {
        return TD_OK;
    }
    int *level = td_calloc((size_t)ir->n_nodes + 1, sizeof *level);
    struct leaf *leaf = td_calloc((size_t)ir->n_fetches, sizeof *leaf);
    struct td_node **nodes = td_calloc((size_t)ir->n_fetches, sizeof(void *));
    enum td_code rc = TD_OK;
    if (level == NULL || leaf == NULL || nodes == NULL) {
        rc = td_no_memory(err, (size_t)ir->n_nodes, "ordering a graph");
    } else {
        list_leaves(ir, level, leaf, nodes);
        rc = sort(ir, nodes, err);
    }
    td_free(level);
    td_free(leaf);
    td_free(nodes);
    return rc;
}

bool td_ir_has_switch(const struct td_ir *ir)
{
    for (int i = 0; i < ir->n_nodes; i++) {
        if (td_node_flags(ir->nodes[i]) & (TD_OP_SWITCH | TD_OP_DEAD_OK)) {
            return true;
        }
    }
    return false;
}
