/* server/graft/graft_names.c - ops, attributes and names that TensorFlow takes, for the nodes of a graft.
 *
 * Names are those that nodes have; where two have the same (a call's body beside a node of its name) or one
 * holds what TensorFlow does not take, it gets another. Variables come first, since TensorFlow's loaders know
 * them by their handles' names; then nodes of the main graph, so that the handles of tables and assets keep
 * theirs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "server/graft/graft_impl.h"

const char *td_graft_joined(struct td_graft *g, const char *a, const char *b)
{
    const size_t bytes = strlen(a) + strlen(b) + 1;
    char *s = td_graft_room(g, (int)bytes, 1);
    if (s != NULL) {
        snprintf(s, bytes, "%s%s", a, b);
    }
    return s;
}

/* ------------------------------------------------------------------ ops and attributes */

/* Attributes that speak of what is not in the new file: nodes that it shall be placed with, by the names that
 * they had; a gradient that the object graph told of, without which the node is what its op is. */
static bool is_lost(const struct td_attr *a)
{
    return strcmp(a->name, "_class") == 0 || strcmp(a->name, "_gradient_op_type") == 0;
}

static enum td_code drop_lost_attrs(struct td_graft *g, struct td_node *n)
{
    int lost = 0, kept = 0;
    for (int k = 0; k < n->n_attrs; k++) {
        lost += is_lost(&n->attrs[k]);
    }
    if (lost == 0) {
        return TD_OK;
    }
    struct td_attr *own = td_graft_room(g, n->n_attrs, sizeof *own); /* those it has may be shared */
    for (int k = 0; own != NULL && k < n->n_attrs; k++) {
        if (!is_lost(&n->attrs[k])) {
            own[kept++] = n->attrs[k];
        }
    }
    n->attrs = own;
    n->n_attrs = kept;
    return own == NULL ? td_graft_no_memory(g->e.err) : TD_OK;
}

static enum td_code plain_ops(struct td_graft *g)
{
    const struct td_op_def *no_op = td_op_find(g->e.ops, "NoOp"), *constant = td_op_find(g->e.ops, "Const");
    for (int i = 0; g->e.rc == TD_OK && i < g->ir.n_nodes; i++) {
        struct td_node *n = g->ir.nodes[i];
        TD_TRY(drop_lost_attrs(g, n));
        if (n->op == &td_op_join) {
            td_emit_again(&g->e, n, no_op, TD_NO_INPUTS, TD_NO_ATTRS);
        } else if (n->op == &td_op_literal) {
            struct td_tensor value = *n->value;
            enum td_dtype dtype = value.dtype;
            const struct td_attr attrs[] = {
                {.name = "dtype", .kind = TD_ATTR_TYPE, .n = 1, .type = &dtype},
                {.name = "value", .kind = TD_ATTR_TENSOR, .n = 1, .tensor = &value},
            };
            td_emit_again(&g->e, n, constant, TD_NO_INPUTS, attrs, 2);
        }
    }
    return g->e.rc;
}

/* ------------------------------------------------------------------ names */

struct namer {
    struct td_graft *g;
    struct td_node **slots; /* open-addressed by name, at most half full */
    size_t n_slots;
    int number; /* of names that were made */
};

static struct td_node **slot_of(const struct namer *m, const char *name)
{
    size_t i = td_hash_bytes(name, strlen(name)) & (m->n_slots - 1);
    while (m->slots[i] != NULL && strcmp(m->slots[i]->name, name) != 0) {
        i = (i + 1) & (m->n_slots - 1);
    }
    return &m->slots[i];
}

static bool may_stand(char c, bool first)
{
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
    return word || (!first && c != 0 && strchr("_>-/\\", c) != NULL);
}

/* The name with what may not stand in one replaced; itself where all may. NULL: no memory. */
static const char *cleaned(struct td_graft *g, const char *name)
{
    bool fine = name[0] != 0;
    for (size_t i = 0; name[i] != 0; i++) {
        fine = fine && may_stand(name[i], i == 0);
    }
    char *copy = fine ? NULL : (char *)(uintptr_t)td_graft_joined(g, "n_", name);
    for (size_t i = 0; copy != NULL && copy[i] != 0; i++) {
        copy[i] = may_stand(copy[i], i == 0) ? copy[i] : '_';
    }
    return fine ? name : copy;
}

static enum td_code name_node(struct namer *m, struct td_node *n)
{
    const char *clean = cleaned(m->g, n->name), *name = clean;
    while (name != NULL && *slot_of(m, name) != NULL) {
        const size_t bytes = strlen(clean) + 16;
        char *made = td_graft_room(m->g, (int)bytes, 1);
        if (made != NULL) {
            snprintf(made, bytes, "%s_%d", clean, ++m->number);
        }
        name = made;
    }
    if (name == NULL) {
        return td_graft_no_memory(m->g->e.err);
    }
    n->name = name;
    *slot_of(m, name) = n;
    return TD_OK;
}

enum { HANDLE, OUTER, INNER, RANKS };

static int rank_of(const struct td_node *n)
{
    return n->path != NULL && n->path[0] != 0 ? INNER : OUTER;
}

/* Each node a name of its own: variables, by which they are known to TensorFlow's loaders, then the saver and
 * the main graph, then calls' bodies. */
static enum td_code name_all(struct td_graft *g, struct namer *m)
{
    struct td_ir *ir = &g->ir;
    *m = (struct namer){.g = g, .n_slots = 16};
    while (m->n_slots < 2 * (size_t)ir->n_nodes + 2) {
        m->n_slots *= 2;
    }
    m->slots = td_calloc(m->n_slots, sizeof(void *));
    if (m->slots == NULL) {
        return td_graft_no_memory(g->e.err);
    }
    bool *is_handle = td_calloc((size_t)ir->n_nodes + 1, sizeof *is_handle);
    if (is_handle == NULL) {
        return td_graft_no_memory(g->e.err);
    }
    for (int i = 0; i < g->n_kept; i++) {
        struct td_node *handle = g->kept[i].handle.node;
        is_handle[handle->id] = true;
        handle->name = g->kept[i].name;
    }
    enum td_code rc = TD_OK;
    for (int rank = HANDLE; rank < RANKS; rank++) {
        for (int i = 0; rc == TD_OK && i < ir->n_nodes; i++) {
            const int own = is_handle[i] ? HANDLE : rank_of(ir->nodes[i]);
            rc = own == rank ? name_node(m, ir->nodes[i]) : TD_OK;
        }
    }
    td_free(is_handle);
    return rc;
}

static enum td_code list_assets(struct td_graft *g, const struct namer *m)
{
    const struct td_saved_model *from = td_servable_model(g->servable);
    g->assets = td_graft_room(g, from->n_assets, sizeof *g->assets);
    if (g->assets == NULL) {
        return td_graft_no_memory(g->e.err);
    }
    for (int i = 0; i < from->n_assets; i++) {
        const char *tensor = from->assets[i].tensor;
        const char *node = td_arena_strndup(g->ir.arena, tensor, strcspn(tensor, ":"));
        if (node == NULL) {
            return td_graft_no_memory(g->e.err);
        }
        if (*slot_of(m, node) != NULL) { /* the rest belongs to what was cut off */
            g->assets[g->n_assets++] = from->assets[i];
        }
    }
    return TD_OK;
}

static enum td_code name_tensors(struct td_graft *g)
{
    for (int i = 0; i < g->made.n_in; i++) {
        g->made.in[i].tensor = td_graft_joined(g, g->ir.feeds[i]->name, ":0");
        TD_TRY(g->made.in[i].tensor == NULL ? td_graft_no_memory(g->e.err) : TD_OK);
    }
    g->made.out[0].tensor = td_graft_joined(g, g->ir.fetches[0].node->name, ":0");
    return g->made.out[0].tensor == NULL ? td_graft_no_memory(g->e.err) : TD_OK;
}

enum td_code td_graft_names(struct td_graft *g)
{
    struct namer m = {0};
    TD_TRY(plain_ops(g));
    enum td_code rc = name_all(g, &m);
    rc = rc ? rc : list_assets(g, &m);
    td_free(m.slots);
    return rc ? rc : name_tensors(g);
}
