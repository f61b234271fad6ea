/* core/grad/recompute.c - the forward part in segments, each copied for the backward pass.
 *
 *   forward    x -[a b c]- d -[e f g]- h -[i j k]- y          n values that the backward part reads, in
 *   kept       x           d           h   i j k                about sqrt(n) segments
 *   backward                  e' f' g'              <- h's gradient is there
 *                a' b' c'     <- d's gradient is there
 *
 * The last segment is kept as it is: the backward pass begins there. For each other one, the last first, the
 * nodes that make the values read are copied with all that they need within the segment; what they need from
 * before it is kept. A copy must not run early, nor be merged with its original: what it reads from before
 * the segment goes through a node that waits for the gradient that has come nearest to the segment
 * (td_grad_formulas.later).
 *
 * Copied is what has no effects and follows from what is fed: not constants, reads of variables and what is
 * made of them alone, nor calls of functions (loops and branches recompute inside: core/grad/split.h).
 *
 * Invariant (waits_check): nothing that a copy waits for reads a copy of its segment.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/recompute.h"

#include <math.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"
#include "core/grad/body.h"

enum { FEWEST = 4 }; /* values read: below, nothing is won */
enum { NOWHERE = 1 << 30 };

struct again {
    struct td_grad_context *ctx;
    struct td_ir *ir;
    const struct td_grad_recompute_opts *o;
    int n;         /* nodes, before any is added; by their ids: */
    bool *forward; /* the forward part */
    bool *may;     /* may be computed again */
    bool *kept;    /* its outputs are kept: read as they are */
    bool *read;    /* the backward part reads its values, not their shapes alone */
    bool *seeded;  /* backward, from a target's gradient */
    int *segment;  /* of the forward part */
    int *nearest;  /* backward: the first segment that it, or what is above it, reads */
    struct td_node **copy;
    struct td_value *later; /* of a node's output 0, in this segment */
    struct td_err *err;
};

static enum td_code no_memory(const struct again *a)
{
    return td_no_memory(a->err, (size_t)a->n, "recomputing of a gradient");
}

/* ------------------------------------------------------------------ which nodes are what */

static void mark_forward(struct again *a)
{
    for (int i = 0; i < a->ir->n_fetches; i++) {
        a->forward[a->ir->fetches[i].node->id] = true;
    }
    for (int i = 0; i < a->ir->n_roots; i++) {
        a->forward[a->ir->roots[i]->id] = true;
    }
    for (int k = a->n - 1; k >= 0; k--) {
        const struct td_node *n = a->ir->nodes[k];
        for (int i = 0; a->forward[k] && i < n->n_in; i++) {
            a->forward[n->in[i].node->id] = true;
        }
        for (int i = 0; a->forward[k] && i < n->n_control; i++) {
            a->forward[n->control[i]->id] = true;
        }
    }
}

static bool has_effects(const struct td_node *n)
{
    const uint32_t never =
        TD_OP_STATEFUL | TD_OP_READS | TD_OP_HANDLE | TD_OP_CONST | TD_OP_SWITCH | TD_OP_DEAD_OK;
    bool function = n->op == NULL || (td_node_flags(n) & never) || n->n_control > 0 || n->loop != NULL;
    for (int i = 0; i < n->n_attrs; i++) {
        function |= n->attrs[i].kind == TD_ATTR_FUNC;
    }
    for (int i = 0; i < n->n_out; i++) {
        function |= n->out_ref[i] || n->out_type[i] == TD_RESOURCE || n->out_type[i] == TD_VARIANT;
    }
    return function;
}

/* May be computed again: without effects, and not the same at every run. */
static void mark_may(struct again *a)
{
    bool *fed = a->seeded; /* not in use yet */
    for (int k = 0; k < a->n; k++) {
        const struct td_node *n = a->ir->nodes[k];
        fed[k] = n->op == &td_op_feed;
        for (int i = 0; i < n->n_in; i++) {
            fed[k] |= fed[n->in[i].node->id];
        }
        a->may[k] = a->forward[k] && fed[k] && n->op != &td_op_feed && !has_effects(n);
    }
    for (int k = 0; k < a->n; k++) {
        fed[k] = false;
    }
}

/* Marks what is read, and says how many may be computed again. */
static int mark_read(struct again *a)
{
    int n = 0;
    for (int k = 0; k < a->n; k++) {
        const struct td_node *b = a->ir->nodes[k];
        for (int i = 0; i < b->n_in && !a->forward[k] && !(td_node_flags(b) & TD_OP_SHAPE_ONLY); i++) {
            const int from = b->in[i].node->id;
            n += a->may[from] && !a->read[from];
            a->read[from] |= a->may[from];
        }
    }
    return n;
}

static void mark_seeded(struct again *a)
{
    for (int k = 0; k < a->n; k++) {
        const struct td_node *b = a->ir->nodes[k];
        for (int i = 0; i < b->n_in && !a->forward[k]; i++) {
            a->seeded[k] |= a->seeded[b->in[i].node->id];
            for (int t = 0; t < a->o->n_targets; t++) {
                a->seeded[k] |= b->in[i].node == a->o->targets[t].node;
            }
        }
    }
}

/* Segments of `length` values read, in order; the number of them. */
static int cut(struct again *a, int length)
{
    int s = 0, in_it = 0;
    for (int k = 0; k < a->n; k++) {
        if (in_it == length) {
            s++;
            in_it = 0;
        }
        a->segment[k] = s;
        in_it += a->read[k];
    }
    return s + 1;
}

static void find_nearest(struct again *a)
{
    for (int k = 0; k < a->n; k++) {
        const struct td_node *b = a->ir->nodes[k];
        a->nearest[k] = NOWHERE;
        for (int i = 0; i < b->n_in && !a->forward[k]; i++) {
            const int from = b->in[i].node->id;
            const int s = !a->forward[from] ? a->nearest[from] : a->read[from] ? a->segment[from] : NOWHERE;
            a->nearest[k] = s < a->nearest[k] ? s : a->nearest[k];
        }
    }
}

/* ------------------------------------------------------------------ one segment */

/* What the copies of segment s wait for: of the gradients that come before anything that reads the segment,
 * the one nearest to it. */
static struct td_value trigger(const struct again *a, int s)
{
    struct td_value best = td_no_value;
    for (int k = 0; k < a->n; k++) {
        const struct td_node *b = a->ir->nodes[k];
        for (int i = 0; i < b->n_in && !a->forward[k] && a->nearest[k] <= s; i++) {
            const struct td_value v = b->in[i];
            const int id = v.node->id;
            const bool fits =
                a->seeded[id] && a->nearest[id] > s && td_dtype_in(td_dtype_of(v), TD_SET_FLOATS);
            const int was = best.node == NULL ? NOWHERE : a->nearest[best.node->id];
            if (fits && (best.node == NULL || a->nearest[id] < was ||
                         (a->nearest[id] == was && id > best.node->id))) {
                best = v;
            }
        }
    }
    return best;
}

/* Marks in `needed` what has to be copied of segment s, and keeps what that reads from before. */
static bool list_needed(struct again *a, int s, bool *needed)
{
    bool any = false;
    for (int k = a->n - 1; k >= 0; k--) {
        const bool here = a->may[k] && a->segment[k] == s && !a->kept[k];
        needed[k] = here && (needed[k] || a->read[k]);
        any |= needed[k];
        const struct td_node *n = a->ir->nodes[k];
        for (int i = 0; needed[k] && i < n->n_in; i++) {
            const int from = n->in[i].node->id;
            if (a->may[from] && a->segment[from] == s && !a->kept[from]) {
                needed[from] = true;
            } else {
                a->kept[from] = true;
            }
        }
    }
    return any;
}

/* v, not before `when` is there. Constants and what is read of variables are there all the time. */
static struct td_value put_off(struct again *a, struct td_emitter *e, struct td_value v, struct td_value when)
{
    const struct td_node *n = v.node;
    if (!(a->may[n->id] || n->op == &td_op_feed) || v.port != 0) {
        return v;
    }
    if (a->later[n->id].node == NULL) {
        e->at = n;
        a->later[n->id] = a->ctx->formulas->later(e, v, when);
    }
    return a->later[n->id];
}

static enum td_code copy_node(struct again *a, struct td_emitter *e, const struct td_node *n,
                              struct td_value when)
{
    struct td_value *in = td_arena_alloc(a->ir->arena, (size_t)n->n_in + 1, sizeof *in);
    if (in == NULL) {
        return no_memory(a);
    }
    for (int i = 0; i < n->n_in; i++) {
        const struct td_node *made = a->copy[n->in[i].node->id];
        in[i] = made != NULL ? (struct td_value){a->copy[n->in[i].node->id], n->in[i].port}
                             : put_off(a, e, n->in[i], when);
    }
    struct td_node *copy;
    TD_TRY(td_ir_add(a->ir, n, n->name, &copy, a->err));
    copy->in = in;
    a->copy[n->id] = copy;
    return e->rc;
}

static void read_copies(struct again *a)
{
    for (int k = 0; k < a->n; k++) {
        struct td_node *b = a->ir->nodes[k];
        for (int i = 0; i < b->n_in && !a->forward[k] && !(td_node_flags(b) & TD_OP_SHAPE_ONLY); i++) {
            const int id = b->in[i].node->id;
            if (id < a->n && a->copy[id] != NULL) {
                b->in[i].node = a->copy[id];
            }
        }
    }
}

TD_CHECK_FN enum td_code waits_check(const struct again *a, int s, struct td_value when, struct td_err *err)
{
    TD_WANT(!a->forward[when.node->id] && a->nearest[when.node->id] > s, err,
            "copies of segment %d wait for %s, which reads segment %d", s, TD_NODE_STR(when.node),
            a->nearest[when.node->id]);
    return TD_OK;
}

static enum td_code copy_segment(struct again *a, struct td_emitter *e, int s, bool *needed)
{
    const struct td_value when = trigger(a, s);
    for (int k = 0; k < a->n; k++) { /* of a memset GCC says, under sanitizers, that n may be negative */
        needed[k] = false;
    }
    if (when.node == NULL || !list_needed(a, s, needed)) {
        return TD_OK;
    }
    TD_HOLDS(waits_check, a, s, when);
    memset(a->copy, 0, (size_t)a->n * sizeof(void *));
    memset(a->later, 0, (size_t)a->n * sizeof *a->later);
    for (int k = 0; k < a->n; k++) {
        TD_TRY(needed[k] ? copy_node(a, e, a->ir->nodes[k], when) : TD_OK);
    }
    read_copies(a);
    return TD_OK;
}

/* ------------------------------------------------------------------ all of them */

static enum td_code make_room(struct again *a)
{
    const size_t n = (size_t)a->n + 1;
    a->forward = td_calloc(n, sizeof *a->forward);
    a->may = td_calloc(n, sizeof *a->may);
    a->kept = td_calloc(n, sizeof *a->kept);
    a->read = td_calloc(n, sizeof *a->read);
    a->seeded = td_calloc(n, sizeof *a->seeded);
    a->segment = td_calloc(n, sizeof *a->segment);
    a->nearest = td_calloc(n, sizeof *a->nearest);
    a->copy = td_calloc(n, sizeof(void *));
    a->later = td_calloc(n, sizeof *a->later);
    const bool ok = a->forward && a->may && a->kept && a->read && a->seeded && a->segment && a->nearest &&
                    a->copy && a->later;
    return ok ? TD_OK : no_memory(a);
}

static enum td_code copy_segments(struct again *a)
{
    mark_forward(a);
    mark_may(a);
    const int n = mark_read(a);
    if (n < FEWEST) {
        return TD_OK;
    }
    mark_seeded(a);
    const int n_segments = cut(a, (int)ceil(sqrt(n)));
    find_nearest(a);
    bool *needed = td_calloc((size_t)a->n + 1, sizeof *needed);
    if (needed == NULL) {
        return no_memory(a);
    }
    struct td_emitter e = td_grad_emitter(a->ctx, a->ir, NULL, a->err);
    enum td_code rc = TD_OK;
    for (int s = n_segments - 2; s >= 0 && rc == TD_OK; s--) {
        rc = copy_segment(a, &e, s, needed);
    }
    td_free(needed);
    const enum td_code emitted = td_emit_close(&e);
    return rc ? rc : emitted;
}

enum td_code td_grad_recompute(struct td_grad_context *ctx, struct td_ir *ir,
                               const struct td_grad_recompute_opts *o, struct td_err *err)
{
    struct again a = {.ctx = ctx, .ir = ir, .o = o, .err = err};
    struct td_value *keep = td_arena_alloc(ir->arena, (size_t)o->n_results + 1, sizeof *keep);
    int n_keep = 0;
    if (keep == NULL) {
        return no_memory(&a);
    }
    for (int i = 0; i < o->n_results; i++) {
        keep[n_keep] = o->results[i];
        n_keep += keep[n_keep].node != NULL;
    }
    TD_TRY(td_grad_order(ir, keep, n_keep, err));
    a.n = ir->n_nodes;
    enum td_code rc = make_room(&a);
    rc = rc ? rc : copy_segments(&a);
    td_free(a.forward);
    td_free(a.may);
    td_free(a.kept);
    td_free(a.read);
    td_free(a.seeded);
    td_free(a.segment);
    td_free(a.nearest);
    td_free(a.copy);
    td_free(a.later);
    return rc;
}
