/* core/rewrite.c - sorting, identity removal, folding, and merging of equal nodes.
 *
 * A pass marks nodes as replaced (remap.to) and one sweep then redirects every input, fetch and control edge. Where a
 * node with control inputs goes away, those inputs become roots, so that effects before it still happen. In graphs
 * with Switch, a control edge also carries deadness: nodes with control inputs are left alone there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/rewrite.h"

#include <string.h>

#include "core/exec.h"
#include "core/hash.h"
#include "core/mem.h"

enum { FOLD_LIMIT_BYTES = 10 << 20, WHOLE_VALUE_HASHED = 4096, MAX_PROBES = 256 };

struct remap { struct td_value **to; };

static enum td_code remap_init(struct td_ir *ir, struct remap *r, struct td_err *err)
{
    r->to = td_arena_alloc(ir->arena, (size_t)ir->n_nodes + 1, sizeof r->to[0]);
    return r->to == NULL ? td_no_memory(err, (size_t)ir->n_nodes, "compiler pass") : TD_OK;
}

static struct td_value follow(const struct remap *r, struct td_value v)
{
    while (r->to[v.node->id] != NULL) {
        v = r->to[v.node->id][v.port];
    }
    return v;
}

static void remap_apply(struct td_ir *ir, const struct remap *r)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            n->in[i] = follow(r, n->in[i]);
        }
        for (int i = 0; i < n->n_control; i++) {
            if (r->to[n->control[i]->id] != NULL && n->control[i]->n_out > 0) {
                n->control[i] = follow(r, (struct td_value){n->control[i], 0}).node;
            }
        }
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        ir->fetches[i] = follow(r, ir->fetches[i]);
    }
}

/* ------------------------------------------------------------------ order and reachability */

struct sorter {
    struct td_ir *ir;
    unsigned char *mark;
    int *next;
    struct td_node **stack, **order;
    int depth, n_order;
    struct td_err *err;
};

static struct td_node *edge_of(const struct td_node *n, int e)
{
    return e < n->n_in ? n->in[e].node : n->control[e - n->n_in];
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
            continue;
        }
        struct td_node *from = edge_of(n, e);
        TD_FAIL_IF(s->mark[from->id] == 1, s->err, INVALID_ARGUMENT,
                   "the graph has a cycle through %s that is no loop of While or Enter and NextIteration", TD_NODE_STR(from));
        if (s->mark[from->id] == 0) {
            s->stack[s->depth++] = from;
            s->mark[from->id] = 1;
        }
    }
    return TD_OK;
}

enum td_code td_ir_sort(struct td_ir *ir, struct td_err *err)
{
    size_t n = (size_t)ir->n_nodes + 1;
    struct sorter s = {.ir = ir, .mark = td_calloc(n, 1), .next = td_calloc(n, sizeof(int)),
                       .stack = td_calloc(n, sizeof(void *)), .order = td_arena_alloc(ir->arena, n, sizeof(void *)), .err = err};
    enum td_code rc = TD_OK;
    if (s.mark == NULL || s.next == NULL || s.stack == NULL || s.order == NULL) {
        rc = td_no_memory(err, n, "sorting a graph");
    }
    for (int i = 0; rc == TD_OK && i < ir->n_feeds; i++) {
        rc = visit(&s, ir->feeds[i]);
    }
    for (int i = 0; rc == TD_OK && i < ir->n_roots; i++) {
        rc = visit(&s, ir->roots[i]);
    }
    for (int i = 0; rc == TD_OK && i < ir->n_fetches; i++) {
        rc = visit(&s, ir->fetches[i].node);
    }
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
    td_free(s.stack);
    return rc;
}

bool td_ir_has_switch(const struct td_ir *ir)
{
    for (int i = 0; i < ir->n_nodes; i++) {
        if (td_ir_flags(ir->nodes[i]) & (TD_OP_SWITCH | TD_OP_DEAD_OK)) {
            return true;
        }
    }
    return false;
}

/* Whether n may be replaced as far as its control inputs go; they become roots then. */
static enum td_code release_controls(struct td_ir *ir, struct td_node *n, bool dead_values, bool *ok, struct td_err *err)
{
    *ok = n->n_control == 0 || !dead_values;
    for (int i = 0; *ok && i < n->n_control; i++) {
        TD_TRY(td_ir_add_root(ir, n->control[i], err));
    }
    if (*ok) {
        n->n_control = 0;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ identity */

static bool *stateful_consumers(struct td_ir *ir)
{
    bool *s = td_arena_alloc(ir->arena, (size_t)ir->n_nodes + 1, sizeof *s);
    for (int k = 0; s != NULL && k < ir->n_nodes; k++) {
        const struct td_node *n = ir->nodes[k];
        for (int i = 0; (td_ir_flags(n) & TD_OP_STATEFUL) && i < n->n_in; i++) {
            s[n->in[i].node->id] = true;
        }
    }
    return s;
}

static bool any_ref(const struct td_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i].node->out_ref[n->in[i].port] || n->in_ref[i]) {
            return true;
        }
    }
    return false;
}

/* An Identity of a Switch's output stands for the branch: control edges from it carry that output's deadness. */
static bool is_pivot(const struct td_node *n)
{
    return n->n_in > 0 && (td_ir_flags(n->in[0].node) & TD_OP_SWITCH) != 0 && n->in[0].node->op != NULL;
}

static enum td_code pass_identity(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    (void)m;
    struct remap r;
    TD_TRY(remap_init(ir, &r, err));
    bool dead_values = td_ir_has_switch(ir), *effects_read = stateful_consumers(ir);
    if (effects_read == NULL) {
        return td_no_memory(err, (size_t)ir->n_nodes, "compiler pass");
    }
    for (int k = 0; k < ir->n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        if (!(td_ir_flags(n) & TD_OP_IDENTITY) || n->n_in < n->n_out || n->n_out == 0 || any_ref(n) || is_pivot(n) ||
            (n->n_control > 0 && effects_read[n->id])) {
            continue;
        }
        bool ok;
        TD_TRY(release_controls(ir, n, dead_values, &ok, err));
        r.to[n->id] = ok ? n->in : NULL;
    }
    remap_apply(ir, &r);
    return TD_OK;
}

/* ------------------------------------------------------------------ handles and folding */

static bool small_enough(const struct td_tensor *out, int n_out, const struct td_node *n)
{
    size_t in_bytes = 0, out_bytes = 0;
    for (int i = 0; i < n->n_in; i++) {
        in_bytes += td_tensor_bytes(td_ir_const(n->in[i].node));
    }
    for (int i = 0; i < n_out; i++) {
        out_bytes += td_tensor_bytes(&out[i]);
    }
    return out_bytes <= FOLD_LIMIT_BYTES || out_bytes <= in_bytes;
}

/* Each output of n becomes a literal node of its own. */
static enum td_code replace_by_literals(struct td_ir *ir, struct remap *r, struct td_node *n, struct td_tensor *out,
                                        struct td_err *err)
{
    struct td_value *to = td_arena_alloc(ir->arena, (size_t)n->n_out, sizeof *to);
    if (to == NULL) {
        return td_no_memory(err, (size_t)n->n_out, "compiler pass");
    }
    for (int i = 0; i < n->n_out; i++) {
        TD_TRY(td_ir_add(ir, n, n->name, &to[i].node, err));
        struct td_node *lit = to[i].node;
        lit->n_out = 1;
        lit->out_type = n->out_type + i;
        lit->out_ref = n->out_ref + i;
        lit->n_control = 0;
        to[i].port = 0;
        TD_TRY(td_ir_make_literal(ir, lit, &out[i], err));
    }
    r->to[n->id] = to;
    return TD_OK;
}

static enum td_code evaluate(struct td_ir *ir, struct td_model *m, struct remap *r, struct td_node *n, struct td_err *err)
{
    const struct td_tensor **in = td_arena_alloc(ir->arena, (size_t)n->n_in + 1, sizeof *in);
    struct td_tensor *out = td_arena_alloc(ir->arena, (size_t)n->n_out + 1, sizeof *out);
    if (in == NULL || out == NULL) {
        return td_no_memory(err, (size_t)n->n_in, "compiler pass");
    }
    for (int i = 0; i < n->n_in; i++) {
        in[i] = td_ir_const(n->in[i].node);
    }
    TD_TRY(td_exec_node(m, n, in, out, err));
    enum td_code rc = TD_OK;
    if ((td_ir_flags(n) & TD_OP_HANDLE) || small_enough(out, n->n_out, n)) {
        rc = replace_by_literals(ir, r, n, out, err);
    }
    for (int i = 0; i < n->n_out; i++) {
        td_tensor_clear(&out[i]);
    }
    return rc;
}

static bool foldable(const struct td_node *n, bool handles)
{
    uint32_t never = TD_OP_CONST | TD_OP_ARG | TD_OP_NO_FOLD | TD_OP_REFUSED | TD_OP_SWITCH | TD_OP_DEAD_OK |
                     TD_OP_ENTER | TD_OP_EXIT | TD_OP_NEXT | TD_OP_LOOP_COND | TD_OP_CALL;
    uint32_t flags = td_ir_flags(n);
    if (n->op == NULL || n->n_out == 0 || (flags & never) || ((flags & TD_OP_HANDLE) != 0) != handles ||
        (!handles && (flags & TD_OP_STATEFUL))) {
        return false;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (td_ir_const(n->in[i].node) == NULL || n->in[i].node->out_ref[n->in[i].port]) {
            return false;
        }
    }
    return true;
}

/* Nodes are in topological order, so one pass folds whole chains. A node that cannot be evaluated (a bad value, a
 * missing kernel) stays: it fails, with its name, when it runs; it may never do. */
static enum td_code fold(struct td_ir *ir, struct td_model *m, bool handles, struct td_err *err)
{
    struct remap r;
    bool dead_values = td_ir_has_switch(ir);
    int n_nodes = ir->n_nodes;
    ir->cap_nodes = n_nodes; /* appended literals move the array: r.to must cover them too */
    r.to = td_arena_alloc(ir->arena, (size_t)n_nodes * 8 + 1024, sizeof r.to[0]);
    if (r.to == NULL) {
        return td_no_memory(err, (size_t)n_nodes, "compiler pass");
    }
    for (int k = 0; k < n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            n->in[i] = follow(&r, n->in[i]);
        }
        bool ok;
        if (!foldable(n, handles) || ir->n_nodes + n->n_out >= n_nodes * 8 + 1024) {
            continue;
        }
        TD_TRY(release_controls(ir, n, dead_values, &ok, err));
        struct td_err why = {0};
        if (ok && evaluate(ir, m, &r, n, &why) == TD_RESOURCE_EXHAUSTED && handles) {
            return td_fail(err, why.code, "%s", why.msg);
        }
    }
    remap_apply(ir, &r);
    return TD_OK;
}

static enum td_code pass_handles(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    return fold(ir, m, true, err);
}

static enum td_code pass_fold(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    return fold(ir, m, false, err);
}

/* ------------------------------------------------------------------ equal nodes */

static bool tensors_equal(const struct td_tensor *a, const struct td_tensor *b)
{
    if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape)) {
        return false;
    }
    size_t bytes = td_tensor_bytes(a);
    return bytes == 0 || a->data == b->data || memcmp(a->data, b->data, bytes) == 0;
}

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
            same = tensors_equal(&a->tensor[i], &b->tensor[i]);
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
    if (td_ir_flags(a) & TD_OP_CONST) {
        const struct td_tensor *x = td_ir_const(a), *y = td_ir_const(b);
        return x != NULL && y != NULL && tensors_equal(x, y);
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
    uint32_t never = TD_OP_STATEFUL | TD_OP_NO_FOLD | TD_OP_ARG | TD_OP_SWITCH | TD_OP_DEAD_OK | TD_OP_ENTER | TD_OP_EXIT | TD_OP_NEXT |
                     TD_OP_LOOP_COND | TD_OP_REFUSED;
    if (n->op == NULL || n->n_control > 0 || n->n_out == 0 || (td_ir_flags(n) & never)) {
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
    const struct td_tensor *c = td_ir_const(n);
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

static enum td_code pass_cse(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    (void)m;
    struct remap r;
    TD_TRY(remap_init(ir, &r, err));
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
            n->in[i] = follow(&r, n->in[i]);
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
        struct td_value *to = td_arena_alloc(ir->arena, (size_t)n->n_out, sizeof *to);
        rc = to == NULL ? td_no_memory(err, (size_t)n->n_out, "compiler pass") : TD_OK;
        for (int i = 0; rc == TD_OK && i < n->n_out; i++) {
            to[i] = (struct td_value){table[at], i};
        }
        r.to[n->id] = to;
    }
    td_free(table);
    if (rc == TD_OK) {
        remap_apply(ir, &r);
    }
    return rc;
}

/* ------------------------------------------------------------------ all passes */

struct pass {
    const char *name;
    bool always;
    enum td_code (*run)(struct td_ir *ir, struct td_model *m, struct td_err *err);
};

static const struct pass passes[] = {
    {"handles", true, pass_handles},
    {"identity", false, pass_identity},
    {"fold", false, pass_fold},
    {"cse", false, pass_cse},
};
enum { N_PASSES = sizeof passes / sizeof passes[0] };

static bool switched_off(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p != NULL && *p != 0;) {
        size_t len = strcspn(p, ",");
        if ((len == n && strncmp(p, name, n) == 0) || (len == 3 && strncmp(p, "all", 3) == 0)) {
            return true;
        }
        p += len + (p[len] == ',');
    }
    return false;
}

enum td_code td_rewrite_run(struct td_ir *ir, struct td_model *m, const char *passes_off, struct td_err *err)
{
    TD_TRY(td_ir_sort(ir, err));
    for (int i = 0; i < N_PASSES; i++) {
        if (passes[i].always || !switched_off(passes_off, passes[i].name)) {
            TD_TRY(passes[i].run(ir, m, err));
            TD_TRY(td_ir_sort(ir, err));
        }
    }
    return TD_OK;
}

const char *const *td_rewrite_names(void)
{
    static const char *names[N_PASSES + 1];
    for (int i = 0; i < N_PASSES; i++) {
        names[i] = passes[i].name;
    }
    return names;
}
