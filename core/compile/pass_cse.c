/* core/compile/pass_cse.c - equal pure nodes of equal inputs become one.
 *
 * Nodes are visited in topological order and looked up in an open-addressed table by op and inputs (constants
 * by their bytes), then compared with their attributes; so one pass merges whole equal subgraphs. Functions
 * as attributes are never equal.
 *
 * Invariant (merge_check): two nodes merge only when they have the same op, types, attributes and inputs, no
 * effects, no control inputs and no reference inputs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/compile/passes.h"
#include "core/compile/remap.h"

enum { WHOLE_VALUE_HASHED = 4096, MAX_PROBES = 256 };

static bool attr_equal(const struct td_attr *a, const struct td_attr *b)
{
    if (a->kind != b->kind || a->n != b->n || a->is_list != b->is_list) {
        return false;
    }
    for (int i = 0; i < a->n; i++) {
        bool same = true;
        switch (a->kind) {
        case TD_ATTR_STRING:
        case TD_ATTR_PLACEHOLDER:
            same = a->str[i].len == b->str[i].len && memcmp(a->str[i].p, b->str[i].p, a->str[i].len) == 0;
            break;
        case TD_ATTR_INT:
            same = a->i[i] == b->i[i];
            break;
        case TD_ATTR_FLOAT:
            same = memcmp(&a->f[i], &b->f[i], sizeof a->f[i]) == 0;
            break;
        case TD_ATTR_BOOL:
            same = a->b[i] == b->b[i];
            break;
        case TD_ATTR_TYPE:
            same = a->type[i] == b->type[i];
            break;
        case TD_ATTR_SHAPE:
            same = td_shape_equal(&a->shape[i], &b->shape[i]);
            break;
        case TD_ATTR_TENSOR:
            same = td_tensor_same(&a->tensor[i], &b->tensor[i]);
            break;
        default:
            same = false; /* functions: never merged */
        }
        if (!same) {
            return false;
        }
    }
    return true;
}

/* Attributes the op declares; "_class" and the like do not change what a node computes. */
static bool same_attrs(const struct td_node *a, const struct td_node *b)
{
    if (td_node_flags(a) & TD_OP_CONST) {
        const struct td_tensor *x = td_node_const(a), *y = td_node_const(b);
        return x != NULL && y != NULL && td_tensor_same(x, y);
    }
    for (int i = 0; i < a->n_attrs; i++) {
        if (a->attrs[i].name[0] == '_') {
            continue;
        }
        const struct td_attr *other = td_attr_find(b->attrs, b->n_attrs, a->attrs[i].name);
        if (other == NULL || !attr_equal(&a->attrs[i], other)) {
            return false;
        }
    }
    return true;
}

static bool mergeable(const struct td_node *n)
{
    uint32_t never = TD_OP_STATEFUL | TD_OP_NO_FOLD | TD_OP_ARG | TD_OP_SWITCH | TD_OP_DEAD_OK | TD_OP_ENTER |
                     TD_OP_EXIT | TD_OP_NEXT | TD_OP_LOOP_COND | TD_OP_REFUSED;
    if (n->op == NULL || n->n_control > 0 || n->n_out == 0 || (td_node_flags(n) & never)) {
        return false;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i].node->out_ref[n->in[i].port]) {
            return false;
        }
    }
    return true;
}

static uint64_t node_hash(const struct td_node *n)
{
    uint64_t h = td_hash_more(0xcbf29ce484222325u, &n->op, sizeof n->op);
    for (int i = 0; i < n->n_in; i++) {
        h = td_hash_more(h, &n->in[i].node->id, sizeof(int));
        h = td_hash_more(h, &n->in[i].port, sizeof(int));
    }
    const struct td_tensor *c = td_node_const(n);
    if (c != NULL) {
        size_t bytes = td_tensor_bytes(c);
        h = td_hash_more(h, &c->shape.rank, sizeof c->shape.rank);
        h = td_hash_more(h, &bytes, sizeof bytes);
        h = td_hash_more(h, c->data, bytes < WHOLE_VALUE_HASHED ? bytes : WHOLE_VALUE_HASHED);
    }
    return td_hash_mix(h);
}

static bool same_node(const struct td_node *a, const struct td_node *b)
{
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out ||
        memcmp(a->out_type, b->out_type, (size_t)a->n_out * sizeof a->out_type[0]) != 0) {
        return false;
    }
    for (int i = 0; i < a->n_in; i++) {
        if (a->in[i].node != b->in[i].node || a->in[i].port != b->in[i].port) {
            return false;
        }
    }
    return same_attrs(a, b);
}

TD_CHECK_FN enum td_code merge_check(const struct td_node *a, const struct td_node *b, struct td_err *err)
{
    TD_WANT(a->id < b->id && same_node(a, b) && same_attrs(b, a), err, "%s is not %s", TD_NODE_STR(b),
            TD_NODE_STR(a));
    TD_WANT(mergeable(a) && mergeable(b), err, "%s has effects, or its edges do", TD_NODE_STR(b));
    for (int i = 0; i < b->n_in; i++) {
        TD_WANT(!b->in_ref[i], err, "%s reads a reference", TD_NODE_STR(b));
    }
    return TD_OK;
}

enum td_code td_pass_cse(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    (void)m;
    struct td_remap r;
    TD_TRY(td_remap_init(ir, &r, err));
    size_t slots = 64;
    while (slots < 2 * (size_t)ir->n_nodes) {
        slots *= 2;
    }
    struct td_node **table = td_calloc(slots, sizeof *table);
    if (table == NULL) {
        return td_no_memory(err, slots, "compiler pass");
    }
    enum td_code rc = TD_OK;
    for (int k = 0; rc == TD_OK && k < ir->n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            n->in[i] = td_remap_follow(&r, n->in[i]);
        }
        if (!mergeable(n)) {
            continue;
        }
        size_t at = node_hash(n) & (slots - 1);
        int probes = 0; /* attributes are not hashed: many nodes may differ in nothing else */
        while (table[at] != NULL && probes < MAX_PROBES && !same_node(table[at], n)) {
            at = (at + 1) & (slots - 1);
            probes++;
        }
        if (probes == MAX_PROBES) {
            continue;
        }
        if (table[at] == NULL) {
            table[at] = n;
            continue;
        }
        TD_HOLDS(merge_check, table[at], n);
        struct td_value *to = td_arena_alloc(ir->arena, (size_t)n->n_out, sizeof *to);
        rc = to == NULL ? td_no_memory(err, (size_t)n->n_out, "compiler pass") : TD_OK;
        for (int i = 0; rc == TD_OK && i < n->n_out; i++) {
            to[i] = (struct td_value){table[at], i};
        }
        r.to[n->id] = to;
    }
    td_free(table);
    if (rc == TD_OK) {
        td_remap_apply(ir, &r);
    }
    return rc;
}
