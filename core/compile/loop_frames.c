/* core/compile/loop_frames.c - finds frames, and what is in each.
 *
 * A node's frame follows from its inputs: Enter opens one (named by its frame_name within its parent and the
 * inlined call it came with), Exit leaves it, every other node is in the deepest frame any of its inputs is
 * in. Sweeps over the nodes repeat until nothing changes: back edges make one sweep too few.
 *
 * Does not: change the graph (loops.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/loop_frames.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/graph/emit.h"

enum { MAX_FRAMES = 4096, MAX_SWEEPS = 1000 };

/* ------------------------------------------------------------------ the nodes of loops */

bool td_loop_is(const struct td_node *n, uint32_t flag)
{
    return n->op != NULL && (n->op->flags & flag) != 0;
}

int td_loop_back_input(const struct td_node *m)
{
    for (int i = 0; i < m->n_in; i++) {
        if (td_loop_is(m->in[i].node, TD_OP_NEXT)) {
            return i;
        }
    }
    return -1;
}

bool td_loop_is_merge(const struct td_node *n)
{
    return td_loop_is(n, TD_OP_DEAD_OK) && td_loop_back_input(n) >= 0;
}

/* ------------------------------------------------------------------ which node is in which frame */

static int frame_named(struct td_loop_frames *x, int parent, const struct td_node *enter)
{
    const char *name = td_attr_str(enter, "frame_name"), *path = enter->path == NULL ? "" : enter->path;
    for (int i = 0; i < x->n; i++) {
        const struct td_loop_frame *f = &x->frame[i];
        if (f->parent == parent && strcmp(f->name, name) == 0 && strcmp(f->path, path) == 0) {
            return i;
        }
    }
    if (x->n == MAX_FRAMES) {
        return -1;
    }
    x->frame[x->n] =
        (struct td_loop_frame){parent, name, path, parent < 0 ? 1 : x->frame[parent].depth + 1, false};
    return x->n++;
}

static int depth_of(const struct td_loop_frames *x, int frame)
{
    return frame < 0 ? 0 : x->frame[frame].depth;
}

/* The frame that n's inputs put it in. */
static int input_frame(const struct td_loop_frames *x, const struct td_node *n)
{
    int f = -1;
    for (int e = 0; e < n->n_in + n->n_control; e++) {
        const struct td_node *from = e < n->n_in ? n->in[e].node : n->control[e - n->n_in];
        int of = x->of[from->id];
        f = depth_of(x, of) > depth_of(x, f) ? of : f;
    }
    return f;
}

static enum td_code find(struct td_loop_frames *x, struct td_err *err)
{
    bool changed = true;
    for (int sweep = 0; changed; sweep++) {
        changed = false;
        TD_FAIL_IF(sweep == MAX_SWEEPS, err, INVALID_ARGUMENT,
                   "the loops of the graph nest in a way that has no end");
        for (int i = 0; i < x->ir->n_nodes; i++) {
            const struct td_node *n = x->ir->nodes[i];
            uint32_t flags = td_node_flags(n);
            int f = input_frame(x, n);
            if (n->op != NULL && (flags & TD_OP_ENTER)) {
                f = frame_named(x, f, n);
                TD_FAIL_IF(f < 0, err, INVALID_ARGUMENT, "the graph has more than %d loops", MAX_FRAMES);
            } else if (n->op != NULL && (flags & TD_OP_EXIT)) {
                f = f < 0 ? -1 : x->frame[f].parent;
            }
            changed |= f != x->of[n->id];
            x->of[n->id] = f;
        }
    }
    return TD_OK;
}

enum td_code td_loop_frames_find(struct td_loop_frames *x, struct td_ir *ir, struct td_err *err)
{
    const size_t room = 2 * (size_t)ir->n_nodes + MAX_FRAMES;
    *x = (struct td_loop_frames){
        .ir = ir, .frame = td_calloc(MAX_FRAMES, sizeof *x->frame), .of = td_calloc(room, sizeof *x->of)};
    if (x->frame == NULL || x->of == NULL) {
        return td_no_memory(err, room, "lifting loops");
    }
    for (size_t i = 0; i < room; i++) {
        x->of[i] = -1;
    }
    return find(x, err);
}

void td_loop_frames_fini(struct td_loop_frames *x)
{
    td_free(x->frame);
    td_free(x->of);
}

int td_loop_frames_deepest(const struct td_loop_frames *x)
{
    int best = -1;
    for (int i = 0; i < x->n; i++) {
        if (!x->frame[i].lifted && (best < 0 || x->frame[i].depth > x->frame[best].depth)) {
            best = i;
        }
    }
    return best;
}

/* ------------------------------------------------------------------ what is in a frame */

static bool same_path(const struct td_node *n, const struct td_loop_frame *f)
{
    return strcmp(n->path == NULL ? "" : n->path, f->path) == 0;
}

/* Constants of a function that is called in the loop have no Enter, since no edge enters the function for
 * them, nor have those of a node that has become others when the graph was loaded (core/graph/expand.h): they
 * become nodes of the loop. */
static enum td_code collect_constants(const struct td_loop_frames *x, int frame, struct td_loop_members *p,
                                      struct td_err *err)
{
    bool *taken = td_arena_alloc(x->ir->arena, (size_t)x->ir->n_nodes + 1, sizeof *taken);
    if (taken == NULL) {
        return td_no_memory(err, (size_t)x->ir->n_nodes, "lifting a loop");
    }
    for (int i = 0, own = p->n_nodes; i < own; i++) {
        const struct td_node *n = p->nodes[i];
        for (int k = 0; k < n->n_in && !td_loop_is(n, TD_OP_ENTER); k++) {
            struct td_node *from = n->in[k].node;
            const bool called = !same_path(n, &x->frame[frame]) || !same_path(from, &x->frame[frame]);
            if ((called || from->op == &td_op_literal) && x->of[from->id] < 0 &&
                td_node_const(from) != NULL && from->n_control == 0 && !taken[from->id]) {
                taken[from->id] = true;
                p->nodes[p->n_nodes++] = from;
            }
        }
    }
    return TD_OK;
}

enum td_code td_loop_frames_collect(const struct td_loop_frames *x, int frame, struct td_loop_members *p,
                                    struct td_err *err)
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
        return td_no_memory(err, n, "lifting a loop");
    }
    for (int i = 0; i < x->ir->n_nodes; i++) {
        struct td_node *k = x->ir->nodes[i];
        if (td_loop_is(k, TD_OP_EXIT) && k->n_in == 1 && x->of[k->in[0].node->id] == frame) {
            p->exits[p->n_exits++] = k;
        }
        if (x->of[k->id] != frame) {
            continue;
        }
        p->nodes[p->n_nodes++] = k;
        if (td_loop_is(k, TD_OP_ENTER)) {
            p->enters[p->n_enters++] = k;
        } else if (td_loop_is_merge(k)) {
            p->merges[p->n_merges++] = k;
        } else if (td_loop_is(k, TD_OP_LOOP_COND)) {
            TD_FAIL_IF(p->cond != NULL, err, INVALID_ARGUMENT, "loop '%s' has two conditions, %s and '%s'",
                       x->frame[frame].name, TD_NODE_STR(k), p->cond->name);
            p->cond = k;
        }
    }
    if (p->n_enters == 0) {
        return TD_OK; /* a guess of an early sweep that turned out to lie elsewhere */
    }
    TD_FAIL_IF(p->cond == NULL || p->n_merges == 0, err, INVALID_ARGUMENT, "loop '%s' has %s",
               x->frame[frame].name, p->cond == NULL ? "no LoopCond" : "no loop variable");
    return collect_constants(x, frame, p, err);
}
