/* core/compile/ir_check.c - walks the compiler's graph in Debug builds (core/base/check.h).
 *
 * The order of effects is kept as bits: one walk over the sorted nodes gives each the set of effects that it
 * reads, waits for, or comes behind through others.
 *
 * Does not: compare values. That passes compute the same is held by tests that run models with and without
 * them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/ir_check.h"

#include "core/base/check.h"
#include "core/graph/fused.h"
#include "core/base/mem.h"

/* ------------------------------------------------------------------ structure */

static bool is_there(const struct td_ir *ir, const struct td_node *n)
{
    return n->id >= 0 && n->id < ir->n_nodes && ir->nodes[n->id] == n;
}

static enum td_code check_edges(const struct td_ir *ir, const struct td_node *n, struct td_err *err)
{
    for (int i = 0; i < n->n_in; i++) {
        const struct td_node *from = n->in[i].node;
        const int port = n->in[i].port;
        TD_WANT(is_there(ir, from) && from->id < n->id, err, "%s reads '%s', which is not before it",
                TD_NODE_STR(n), from->name);
        TD_WANT(port >= 0 && port < from->n_out, err, "%s reads output %d of '%s', which has %d",
                TD_NODE_STR(n), port, from->name, from->n_out);
    }
    for (int i = 0; i < n->n_control; i++) {
        const struct td_node *from = n->control[i];
        TD_WANT(is_there(ir, from) && from->id < n->id, err, "%s waits for '%s', which is not before it",
                TD_NODE_STR(n), from->name);
    }
    return TD_OK;
}

static enum td_code check_ends(const struct td_ir *ir, struct td_err *err)
{
    for (int i = 0; i < ir->n_feeds; i++) {
        TD_WANT(is_there(ir, ir->feeds[i]) && ir->feeds[i]->op == &td_op_feed, err,
                "feed %d is not in the graph", i);
    }
    for (int i = 0; i < ir->n_roots; i++) {
        TD_WANT(is_there(ir, ir->roots[i]), err, "root '%s' is not in the graph", ir->roots[i]->name);
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        const struct td_value v = ir->fetches[i];
        TD_WANT(is_there(ir, v.node) && v.port >= 0 && v.port < v.node->n_out, err,
                "fetch %d is output %d of '%s', which is not in the graph", i, v.port, v.node->name);
    }
    return TD_OK;
}

enum td_code td_fused_check(const struct td_node *n, struct td_err *err)
{
    const struct td_fused *f = n->fused;
    TD_WANT(f->n_parts > 0 && f->n_parts <= TD_FUSED_PARTS && n->n_in <= TD_FUSED_INPUTS && n->n_out == 1,
            err, "%s has %d parts, %d inputs and %d outputs", TD_NODE_STR(n), f->n_parts, n->n_in, n->n_out);
    for (int k = 0; k < f->n_parts; k++) {
        const struct td_part *p = &f->parts[k];
        const bool plain = (k == 0 && f->has_head) || (k == 1 && f->has_view);
        TD_WANT((p->stage == NULL) == plain, err, "%s: part %d, '%s', has %s stage", TD_NODE_STR(n), k,
                p->node->name, p->stage == NULL ? "no" : "a");
        for (int i = 0; i < p->node->n_in; i++) {
            const bool own = p->from[i] == i; /* the head's inputs are the node's first */
            TD_WANT(p->from[i] >= 0 && p->from[i] < n->n_in + k && (own || !(k == 0 && f->has_head)), err,
                    "%s: part %d, '%s', reads value %d", TD_NODE_STR(n), k, p->node->name, p->from[i]);
        }
    }
    TD_WANT(f->parts[f->n_parts - 1].node->out_type[0] == n->out_type[0], err,
            "%s is of another type than its last part", TD_NODE_STR(n));
    return TD_OK;
}

/* No part but as itself: a node that read it would have kept it in the graph. */
static enum td_code check_parts(const struct td_ir *ir, const struct td_node *n, struct td_err *err)
{
    TD_TRY(td_fused_check(n, err));
    for (int k = 0; k < n->fused->n_parts; k++) {
        const struct td_node *part = n->fused->parts[k].node;
        TD_WANT(part == n || !is_there(ir, part), err, "%s: its part '%s' is still read by others",
                TD_NODE_STR(n), part->name);
    }
    return TD_OK;
}

enum td_code td_ir_check(const struct td_ir *ir, struct td_err *err)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        const struct td_node *n = ir->nodes[k];
        TD_WANT(n->id == k, err, "%s is node %d and says %d", TD_NODE_STR(n), k, n->id);
        TD_TRY(check_edges(ir, n, err));
        if (n->fused != NULL) {
            TD_TRY(check_parts(ir, n, err));
        }
    }
    return check_ends(ir, err);
}

/* ------------------------------------------------------------------ what a pass keeps */

/* The effects that v comes behind. Values that pass one node together (IdentityN) are not behind each other:
 * which of them is there first is an accident, and passes take the node away. */
static uint64_t order_of_value(struct td_value v, const uint64_t *behind, const uint64_t *own)
{
    uint64_t bits = 0;
    while ((td_node_flags(v.node) & TD_OP_IDENTITY) && v.node->n_out > 1 && v.port < v.node->n_in) {
        for (int i = 0; i < v.node->n_control; i++) {
            bits |= behind[v.node->control[i]->id] | own[v.node->control[i]->id];
        }
        v = v.node->in[v.port];
    }
    return bits | behind[v.node->id] | own[v.node->id];
}

/* The effects that n comes behind, given those of the nodes before it. */
static uint64_t order_of(const struct td_node *n, const uint64_t *behind, const uint64_t *own)
{
    uint64_t bits = 0;
    for (int i = 0; i < n->n_in; i++) {
        bits |= order_of_value(n->in[i], behind, own);
    }
    for (int i = 0; i < n->n_control; i++) {
        bits |= behind[n->control[i]->id] | own[n->control[i]->id];
    }
    return bits;
}

/* before[e] for the effects of p that are in the graph. False without memory. */
static bool find_order(const struct td_ir *ir, const struct td_pass_promise *p, uint64_t *before)
{
    uint64_t *behind = td_check_room((size_t)ir->n_nodes + 1, sizeof *behind);
    uint64_t *own = td_check_room((size_t)ir->n_nodes + 1, sizeof *own);
    const bool ok = behind != NULL && own != NULL;
    for (int e = 0; ok && e < p->n_effects; e++) {
        if (is_there(ir, p->effect[e])) {
            own[p->effect[e]->id] = UINT64_C(1) << e;
        }
    }
    for (int k = 0; ok && k < ir->n_nodes; k++) {
        behind[k] = order_of(ir->nodes[k], behind, own);
    }
    for (int e = 0; ok && e < p->n_effects; e++) {
        before[e] = is_there(ir, p->effect[e]) ? behind[p->effect[e]->id] : 0;
    }
    td_free(behind);
    td_free(own);
    return ok;
}

void td_pass_promise(const struct td_ir *ir, struct td_pass_promise *p)
{
    p->n_effects = 0;
    p->n_fetches = ir->n_fetches;
    p->n_feeds = ir->n_feeds;
    for (int i = 0; i < ir->n_fetches && i < TD_PASS_EFFECTS; i++) {
        p->fetched[i] = ir->fetches[i].node->out_type[ir->fetches[i].port];
    }
    for (int k = 0; k < ir->n_nodes && p->n_effects < TD_PASS_EFFECTS; k++) {
        if (td_node_flags(ir->nodes[k]) & TD_OP_STATEFUL) {
            p->effect[p->n_effects++] = ir->nodes[k];
        }
    }
    if (p->n_effects > 0 && !find_order(ir, p, p->before)) {
        p->n_effects = 0;
    }
}

/* Whether two nodes name one resource: by the same edge, or by constants of the same object. */
static bool same_resource(const struct td_node *a, const struct td_node *b)
{
    if (a->n_in == 0 || b->n_in == 0) {
        return true; /* not known */
    }
    const struct td_value x = a->in[0], y = b->in[0];
    const struct td_tensor *s = td_node_const(x.node), *t = td_node_const(y.node);
    if (s != NULL && t != NULL && s->dtype == TD_RESOURCE && t->dtype == TD_RESOURCE) {
        return td_tensor_count(s) != 1 || td_tensor_count(t) != 1 ||
               td_tensor_obj(s, 0) == td_tensor_obj(t, 0);
    }
    return x.node == y.node && x.port == y.port;
}

/* That a comes behind b need not be kept when b only reads, and reads something else than a is about: such an
 * order is an accident of values that passed one node together (IdentityN). Nor when b makes a handle, which
 * is a constant of the compiled function. */
static bool order_matters(const struct td_node *a, const struct td_node *b)
{
    return !(td_node_flags(b) & TD_OP_HANDLE) && (!(td_node_flags(b) & TD_OP_READS) || same_resource(a, b));
}

enum td_code td_pass_check(const struct td_ir *ir, const struct td_pass_promise *p, struct td_err *err)
{
    uint64_t now[TD_PASS_EFFECTS], there = 0;
    TD_WANT(ir->n_fetches == p->n_fetches && ir->n_feeds == p->n_feeds, err,
            "%d feeds and %d fetches were %d and %d", ir->n_feeds, ir->n_fetches, p->n_feeds, p->n_fetches);
    for (int i = 0; i < ir->n_fetches && i < TD_PASS_EFFECTS; i++) {
        const struct td_node *from = ir->fetches[i].node;
        const enum td_dtype type = from->out_type[ir->fetches[i].port];
        TD_WANT(type == p->fetched[i] || from->op == NULL /* refused when its kernel is chosen */, err,
                "fetch %d is %s and was %s", i, td_dtype_name(type), td_dtype_name(p->fetched[i]));
    }
    if (p->n_effects == 0 || !find_order(ir, p, now)) {
        return TD_OK;
    }
    for (int e = 0; e < p->n_effects; e++) {
        there |= is_there(ir, p->effect[e]) ? UINT64_C(1) << e : 0;
    }
    for (int e = 0; e < p->n_effects; e++) {
        const uint64_t lost = (there >> e & 1) ? p->before[e] & there & ~now[e] : 0;
        for (int b = 0; lost != 0 && b < p->n_effects; b++) {
            TD_WANT(!(lost >> b & 1) || !order_matters(p->effect[e], p->effect[b]), err,
                    "%s no longer comes behind '%s'", TD_NODE_STR(p->effect[e]), p->effect[b]->name);
        }
    }
    return TD_OK;
}
