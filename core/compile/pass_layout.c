/* core/compile/pass_layout.c - the order of axes that tensors are kept in: Transposes move through the nodes
 * between them so that those that undo each other meet.
 *
 *   x -> Transpose -> Conv2D -> Transpose -> BiasAdd -> Relu -> Pad -> Transpose -> Conv2D
 *                                                                  as PyTorch exports it
 *   x -> Transpose -> Conv2D -> BiasAdd -> Relu -> Pad -> Conv2D   channels last
 *
 * First channels-first convolutions and pools become channels-last ones between Transposes
 * (core/compile/channels_last.h). Then, for each permutation p that some Transpose has: values that must be
 * kept alike, because a node that does not care about the order (core/compile/permute.h) reads or makes them,
 * form a region. Keeping Transpose(v, p) in the place of all values v of a region saves the Transposes by p
 * that read them, and those that undo p and make them; it costs one for each other value that comes in, and
 * for each that somebody outside wants as it was. Regions that save more than they cost are permuted, each as
 * a whole; so are those that break even when that brings an element-wise node next to the product it can be
 * fused with.
 *
 * Ranks must be known; of a feed only what reads it tells, so a Transpose of a feed stays, if only to check
 * the rank. Errors of permuted nodes name the permuted shapes.
 *
 * Invariant (td_pass_check): every value that is fetched or read outside of a region is equal to what it was,
 * up to the order in which a reduction or batch norm adds; each permuted region makes the Transposes fewer,
 * or moves them down.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/channels_last.h"
#include "core/compile/ir_shapes.h"

#include <string.h>

#include "core/graph/fused.h"
#include "core/base/mem.h"
#include "core/run/model.h"
#include "core/compile/passes.h"
#include "core/compile/remap.h"

enum { MAX_PERMS = 8 };

/* What a value may be in its region. */
struct place {
    struct td_value permuted; /* once its region is permuted: what is kept in its place */
    struct td_value plain; /* ... and what is read by those that want it as it was, when that is not itself */
    int parent;            /* union-find */
    int saved;             /* of a region, at its first value: Transposes saved */
    bool
        /* ... and whether a product's result is permuted back before it reaches an element-wise node */
        fuses;
    bool wanted; /* as it was, by somebody outside */
    bool inner;  /* made by a node of the region */
};

struct transpose {
    bool is;
    struct td_perm perm;
    struct td_value from; /* its operand before the pass */
};

struct layout {
    struct td_emitter e;
    struct td_ir *ir;
    struct td_ir_shapes shapes;
    struct td_remap remap;
    struct td_perm p, back;
    struct place *at;             /* by value, numbered as in shapes */
    struct td_permuted *permutes; /* by node */
    struct transpose *transposes; /* by node */
    int n_nodes, n_values;
};

static int number(const struct layout *l, struct td_value v)
{
    return l->shapes.first[v.node->id] + v.port;
}

static struct place *place_of(const struct layout *l, struct td_value v)
{
    return &l->at[number(l, v)];
}

static bool fits(const struct layout *l, struct td_value v)
{
    return td_ir_shape(&l->shapes, v)->rank == l->p.rank;
}

/* What makes n's output from its permuted input, when n does not care how that is kept (Shape). */
static bool is_restated(const struct td_node *n)
{
    return n->op != NULL && n->op->permute != NULL && n->op->permute->restate != NULL && n->n_control == 0;
}

/* ------------------------------------------------------------------ regions */

static int find(struct layout *l, int i)
{
    while (l->at[i].parent != i) {
        l->at[i].parent = l->at[l->at[i].parent].parent;
        i = l->at[i].parent;
    }
    return i;
}

static struct place *region_of(struct layout *l, struct td_value v)
{
    return &l->at[find(l, number(l, v))];
}

static bool reads_permuted(const struct layout *l, const struct td_node *n, int i)
{
    return i < 64 && (l->permutes[n->id].in >> i & 1u);
}

static bool makes_permuted(const struct layout *l, const struct td_node *n, int port)
{
    return port < 64 && (l->permutes[n->id].out >> port & 1u);
}

/* All values that n ties together become one region. */
static void tie(struct layout *l, struct td_node *n)
{
    int first = -1;
    for (int i = 0; i < n->n_in; i++) {
        if (reads_permuted(l, n, i)) {
            int other = find(l, number(l, n->in[i]));
            first = first < 0 ? other : first;
            l->at[other].parent = first;
        }
    }
    for (int i = 0; first >= 0 && i < n->n_out; i++) {
        if (makes_permuted(l, n, i)) {
            struct place *out = place_of(l, (struct td_value){n, i});
            out->inner = true;
            l->at[find(l, number(l, (struct td_value){n, i}))].parent = first;
        }
    }
}

/* Notes who reads values as they are. Transposes, and what is restated, read any order at no cost. */
static void find_wanted(struct layout *l)
{
    for (int k = 0; k < l->n_nodes; k++) {
        const struct td_node *n = l->ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            bool free = reads_permuted(l, n, i) || (i == 0 && (l->transposes[k].is || is_restated(n)));
            place_of(l, n->in[i])->wanted |= !free;
        }
    }
    for (int i = 0; i < l->ir->n_fetches; i++) {
        place_of(l, l->ir->fetches[i])->wanted = true;
    }
}

/* What permuting a value saves, without its readers. */
static int saved_by(const struct layout *l, struct td_value v)
{
    const struct place *at = place_of(l, v);
    const struct transpose *made = &l->transposes[v.node->id];
    if (at->inner) {
        return -at->wanted;
    }
    if (made->is) {
        struct td_perm whole = td_perm_then(&made->perm, &l->p);
        bool gone = td_perm_is_identity(&whole);
        return gone ? !at->wanted : -at->wanted;
    }
    return td_node_const(v.node) != NULL ? 0 : -1;
}

/* Whether n is an element-wise node that would follow a product without a Transpose between them. */
static bool would_fuse(const struct layout *l, const struct td_node *n)
{
    const struct transpose *made = n->n_in > 0 ? &l->transposes[n->in[0].node->id] : NULL;
    if (made == NULL || !made->is || !reads_permuted(l, n, 0) || td_fused_stage_of(n) == NULL) {
        return false;
    }
    struct td_perm whole = td_perm_then(&made->perm, &l->p);
    return td_perm_is_identity(&whole) && td_fused_may_begin(made->from.node);
}

/* Whether some region is worth permuting. */
static bool weigh(struct layout *l)
{
    for (int k = 0; k < l->n_nodes; k++) {
        struct td_node *n = l->ir->nodes[k];
        for (int i = 0; i < n->n_out; i++) {
            struct td_value v = {n, i};
            if (fits(l, v)) {
                region_of(l, v)->saved += saved_by(l, v);
            }
        }
        if (l->transposes[k].is && fits(l, n->in[0]) && td_perm_equal(&l->transposes[k].perm, &l->p)) {
            region_of(l, n->in[0])->saved++;
        }
        if (would_fuse(l, n)) {
            region_of(l, n->in[0])->fuses = true;
        }
    }
    for (int i = 0; i < l->n_values; i++) {
        if (l->at[i].parent == i && (l->at[i].saved > 0 || (l->at[i].saved == 0 && l->at[i].fuses))) {
            return true;
        }
    }
    return false;
}

static bool chosen(struct layout *l, struct td_value v)
{
    if (v.node->id >= l->n_nodes || !fits(l, v)) {
        return false;
    }
    const struct place *region = region_of(l, v);
    return region->saved > 0 || (region->saved == 0 && region->fuses);
}

/* ------------------------------------------------------------------ permuting them */

/* Transpose(v, p) as a node of the place and name of `like`. */
static struct td_value transposed(struct layout *l, const struct td_node *like, struct td_value v,
                                  const struct td_perm *p)
{
    l->e.at = like;
    l->ir->changes++;
    return td_emit_transpose(&l->e, v, p);
}

/* Drops nodes that nothing reads, constants that the emitter might share among them. */
static enum td_code sort(struct layout *l)
{
    td_emit_forget(&l->e);
    return td_ir_sort(l->ir, l->e.err);
}

/* v as p keeps it, for a value that no node of its region makes. */
static struct td_value permute_outer(struct layout *l, struct td_value v)
{
    const struct transpose *made = &l->transposes[v.node->id];
    if (!made->is) {
        return transposed(l, v.node, v, &l->p);
    }
    struct td_value from = made->from;
    struct td_perm whole = td_perm_then(&made->perm, &l->p);
    bool rank_checked = td_ir_shape(&l->shapes, from)->rank >= 0;
    if (chosen(l, from)) {
        whole = td_perm_then(&l->back, &whole);
        from = place_of(l, from)->permuted;
    }
    return td_perm_is_identity(&whole) && rank_checked ? from : transposed(l, v.node, from, &whole);
}

static void place_outputs(struct layout *l, struct td_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        const struct td_value v = {n, i};
        if (!chosen(l, v)) {
            continue;
        }
        struct place *at = place_of(l, v);
        at->permuted = at->inner ? v : permute_outer(l, v);
        if (at->inner && at->wanted) {
            at->plain = transposed(l, n, v, &l->back);
        }
    }
}

static struct td_value as_it_was(const struct layout *l, struct td_value v)
{
    const struct place *at = v.node->id < l->n_nodes ? place_of(l, v) : NULL;
    return at != NULL && at->plain.node != NULL ? at->plain : v;
}

/* Inputs of a node that reads permuted values, and does not care. */
static void permute_node(struct layout *l, struct td_node *n)
{
    l->ir->changes++;
    td_permute_apply(&l->e, n, &l->p);
    for (int i = 0; i < n->n_in; i++) {
        n->in[i] = reads_permuted(l, n, i) ? place_of(l, n->in[i])->permuted : as_it_was(l, n->in[i]);
    }
}

static bool is_permuted(struct layout *l, const struct td_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        if (reads_permuted(l, n, i)) {
            return chosen(l, n->in[i]);
        }
    }
    return false;
}

/* What may be read in place of n, which reads the permuted `from` in place of its first input; none when n is
 * neither a Transpose nor restated. */
static struct td_value instead_of(struct layout *l, struct td_node *n, struct td_value from)
{
    if (l->transposes[n->id].is) {
        const struct td_perm rest = td_perm_then(&l->back, &l->transposes[n->id].perm);
        return td_perm_is_identity(&rest) ? from : transposed(l, n, from, &rest);
    }
    if (is_restated(n)) {
        l->e.at = n;
        l->ir->changes++;
        return n->op->permute->restate(&l->e, n, from, &l->p);
    }
    return td_no_value;
}

static enum td_code connect(struct layout *l, struct td_node *n)
{
    if (is_permuted(l, n)) {
        permute_node(l, n);
        return l->e.rc;
    }
    const bool first_chosen = n->n_in > 0 && chosen(l, n->in[0]);
    const struct td_value to = first_chosen ? instead_of(l, n, place_of(l, n->in[0])->permuted) : td_no_value;
    if (to.node != NULL) {
        return td_remap_set(l->ir, &l->remap, n, to, l->e.err);
    }
    for (int i = 0; i < n->n_in; i++) {
        n->in[i] = as_it_was(l, n->in[i]);
    }
    return l->e.rc;
}

static enum td_code permute_regions(struct layout *l)
{
    TD_TRY(td_remap_init(l->ir, &l->remap, l->e.err));
    for (int k = 0; k < l->n_nodes; k++) {
        TD_TRY(connect(l, l->ir->nodes[k]));
        place_outputs(l, l->ir->nodes[k]);
        TD_TRY(l->e.rc);
    }
    for (int i = 0; i < l->ir->n_fetches; i++) {
        l->ir->fetches[i] = as_it_was(l, l->ir->fetches[i]);
    }
    td_remap_apply(l->ir, &l->remap);
    return sort(l);
}

/* ------------------------------------------------------------------ one permutation after the other */

static void close_layout(struct layout *l)
{
    td_ir_shapes_fini(&l->shapes);
    td_free(l->at);
    td_free(l->permutes);
    td_free(l->transposes);
    l->at = NULL;
    l->permutes = NULL;
    l->transposes = NULL;
}

/* What is known of the graph as it is now. */
static enum td_code open_layout(struct layout *l)
{
    struct td_ir *ir = l->ir;
    close_layout(l);
    TD_TRY(td_ir_shapes_init(ir, &l->shapes, l->e.err));
    l->n_nodes = ir->n_nodes;
    l->n_values = 0;
    for (int k = 0; k < l->n_nodes; k++) {
        l->n_values += ir->nodes[k]->n_out;
    }
    l->at = td_calloc((size_t)l->n_values + 1, sizeof *l->at);
    l->permutes = td_calloc((size_t)l->n_nodes + 1, sizeof *l->permutes);
    l->transposes = td_calloc((size_t)l->n_nodes + 1, sizeof *l->transposes);
    if (l->at == NULL || l->permutes == NULL || l->transposes == NULL) {
        return td_no_memory(l->e.err, (size_t)l->n_nodes, "compiler pass");
    }
    for (int k = 0; k < l->n_nodes; k++) {
        struct transpose *made = &l->transposes[k];
        made->is = td_permute_is_transpose(&l->e, ir->nodes[k], &made->perm);
        made->from = made->is ? ir->nodes[k]->in[0] : (struct td_value){0};
    }
    return TD_OK;
}

static enum td_code try_perm(struct layout *l, const struct td_perm *p)
{
    l->p = *p;
    l->back = td_perm_inverse(p);
    memset(l->at, 0, (size_t)l->n_values * sizeof *l->at);
    for (int i = 0; i < l->n_values; i++) {
        l->at[i].parent = i;
    }
    for (int k = 0; k < l->n_nodes; k++) {
        l->permutes[k] = td_permute_find(&l->e, l->ir->nodes[k], p);
        tie(l, l->ir->nodes[k]);
    }
    find_wanted(l);
    if (!weigh(l)) {
        return TD_OK;
    }
    TD_TRY(permute_regions(l));
    return open_layout(l);
}

static void add_perm(struct td_perm perms[MAX_PERMS], int *n, const struct td_perm *p)
{
    bool known = td_perm_is_identity(p);
    for (int i = 0; !known && i < *n; i++) {
        known = td_perm_equal(&perms[i], p);
    }
    if (!known && *n < MAX_PERMS) {
        perms[(*n)++] = *p;
    }
}

/* Those of the graph's Transposes, and what undoes them. */
static int collect(const struct layout *l, struct td_perm perms[MAX_PERMS])
{
    int n = 0;
    for (int k = 0; k < l->n_nodes; k++) {
        if (l->transposes[k].is) {
            struct td_perm back = td_perm_inverse(&l->transposes[k].perm);
            add_perm(perms, &n, &l->transposes[k].perm);
            add_perm(perms, &n, &back);
        }
    }
    return n;
}

static enum td_code try_all(struct layout *l)
{
    struct td_perm perms[MAX_PERMS];
    TD_TRY(td_channels_last(l->ir, &l->e));
    TD_TRY(sort(l));
    TD_TRY(open_layout(l));
    int n = collect(l, perms);
    for (int i = 0; i < n; i++) {
        TD_TRY(try_perm(l, &perms[i]));
    }
    return TD_OK;
}

static bool has_work(const struct td_ir *ir)
{
    bool found = false;
    for (int k = 0; !found && k < ir->n_nodes; k++) {
        const struct td_node *n = ir->nodes[k];
        found = n->op != NULL &&
                (n->op->role == TD_ROLE_TRANSPOSE ||
                 (n->op->channels != NULL && strncmp(td_attr_str(n, "data_format"), "NC", 2) == 0));
    }
    return found;
}

enum td_code td_pass_layout(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    if (m == NULL || !has_work(ir)) {
        return TD_OK;
    }
    struct layout l = {.ir = ir};
    l.e = td_ir_emitter(ir, &l.shapes, td_model_opts_of(m)->ops, err);
    enum td_code rc = td_op_of_role(l.e.ops, TD_ROLE_TRANSPOSE) != NULL ? try_all(&l) : TD_OK;
    const enum td_code emitted = td_emit_close(&l.e);
    close_layout(&l);
    return rc ? rc : emitted;
}
