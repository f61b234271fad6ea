/* core/compile/array_lists.c - follows handle and order of each array to all that reads them.
 *
 * Both are marked in sweeps over the nodes, since loops lead back: `handle` by the node that hands it on,
 * `order` by the node it leaves. What takes either of them in a way that has no rule spoils its array. Then
 * the nodes that hand orders on carry lists, each op with a rule gets a twin that works on the list, and one
 * sweep redirects every edge. What is left of the arrays becomes nodes that nothing reads, which the next
 * sort drops: loops are still circles here.
 *
 * In a loop a twin's constants wait for the list it takes: so they are in the same loop
 * (core/compile/loop_frames.c).
 *
 * An array becomes a list as a whole or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/array_lists.h"

#include "core/base/mem.h"
#include "core/compile/loop_frames.h"
#include "core/compile/rewrite.h"

enum { MAX_SWEEPS = 100 };

struct lists {
    struct td_ir *ir;
    struct td_emitter e;
    int n_nodes;             /* before any is added */
    struct td_node **handle; /* by node id: the array whose handle leaves it; NULL */
    struct td_node **order;  /* likewise its order */
    bool *spoilt;            /* by an array's id */
    int *fills;              /* by an array's id: how many ops put something into it */
    struct td_value *made;   /* by node id: its twin's output */
    struct td_loop_frames frames;
    bool changed;
};

static const struct td_array_rule *rule_of(const struct td_node *n)
{
    return n->op == NULL ? NULL : n->op->array;
}

static bool is_new(const struct td_node *n)
{
    return rule_of(n) != NULL && rule_of(n)->kind == TD_ARRAY_NEW;
}

static bool leaves_order(const struct td_node *n)
{
    const struct td_array_rule *r = rule_of(n);
    return r != NULL && (r->kind == TD_ARRAY_NEW || r->kind == TD_ARRAY_WRITE || r->kind == TD_ARRAY_FILL);
}

/* Whether n hands its first input on, or, a Merge, one of them. */
static bool hands_on(const struct td_node *n)
{
    const uint32_t how =
        TD_OP_ENTER | TD_OP_EXIT | TD_OP_NEXT | TD_OP_SWITCH | TD_OP_DEAD_OK | TD_OP_IDENTITY;
    return n->op != NULL && (n->op->flags & how) && n->n_in > 0 &&
           (n->n_in == 1 || (n->op->flags & (TD_OP_DEAD_OK | TD_OP_SWITCH)));
}

static bool is_order_input(const struct td_node *n, int i)
{
    return rule_of(n) != NULL ? !is_new(n) && i == n->n_in - 1
                              : hands_on(n) && (i == 0 || (n->op->flags & TD_OP_DEAD_OK));
}

static bool is_handle_input(const struct td_node *n, int i)
{
    return i == 0 && (rule_of(n) != NULL ? !is_new(n) : hands_on(n) && n->n_in == 1);
}

/* ------------------------------------------------------------------ where handles and orders go */

static struct td_node *handle_at(const struct lists *x, struct td_value v)
{
    return is_new(v.node) ? (v.port == 0 ? v.node : NULL) : x->handle[v.node->id];
}

static struct td_node *order_at(const struct lists *x, struct td_value v)
{
    return is_new(v.node) ? (v.port == 1 ? v.node : NULL) : x->order[v.node->id];
}

static void spoil(struct lists *x, const struct td_node *array)
{
    if (array != NULL) {
        x->spoilt[array->id] = true;
    }
}

static void mark(struct lists *x, struct td_node **at, struct td_node *array)
{
    if (*at != NULL && *at != array) {
        spoil(x, *at);
        spoil(x, array);
    }
    x->changed |= *at == NULL;
    *at = *at == NULL ? array : *at;
}

static void sweep(struct lists *x)
{
    for (int k = 0; k < x->n_nodes; k++) {
        const struct td_node *n = x->ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            struct td_node *handle = handle_at(x, n->in[i]), *order = order_at(x, n->in[i]);
            if (handle != NULL && is_handle_input(n, i) && hands_on(n)) {
                mark(x, &x->handle[k], handle);
            }
            if (order != NULL && is_order_input(n, i) && (hands_on(n) || leaves_order(n))) {
                mark(x, &x->order[k], order);
            }
        }
    }
}

/* An op with a rule: handle and order are one array's, and it can be done with a list. */
static void check_use(struct lists *x, const struct td_node *n)
{
    struct td_node *handle = handle_at(x, n->in[0]), *order = order_at(x, n->in[n->n_in - 1]);
    if (handle == NULL || handle != order || !rule_of(n)->fits(n, handle)) {
        spoil(x, handle);
        spoil(x, order);
    } else if (rule_of(n)->kind == TD_ARRAY_WRITE || rule_of(n)->kind == TD_ARRAY_FILL) {
        x->fills[handle->id]++;
    }
}

static void check(struct lists *x)
{
    for (int k = 0; k < x->n_nodes; k++) {
        const struct td_node *n = x->ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            struct td_node *handle = handle_at(x, n->in[i]), *order = order_at(x, n->in[i]);
            spoil(x, is_handle_input(n, i) ? NULL : handle);
            spoil(x, is_order_input(n, i) ? NULL : order);
            /* a Merge of what is no order of this array */
            spoil(x, is_order_input(n, i) && order != x->order[k] ? x->order[k] : NULL);
        }
        if (is_new(n)) {
            x->spoilt[k] |= n->n_control > 0 || !rule_of(n)->fits(n, n);
        } else if (rule_of(n) != NULL) {
            check_use(x, n);
        }
    }
    for (int i = 0; i < x->ir->n_fetches; i++) {
        spoil(x, handle_at(x, x->ir->fetches[i]));
        spoil(x, order_at(x, x->ir->fetches[i]));
    }
    for (int k = 0; k < x->n_nodes; k++) {
        x->spoilt[k] |= is_new(x->ir->nodes[k]) && x->fills[k] != 1;
    }
}

/* ------------------------------------------------------------------ lists instead */

static struct td_node *list_in(const struct lists *x, int k)
{
    struct td_node *n = x->ir->nodes[k], *array = is_new(n)            ? n
                                                  : rule_of(n) != NULL ? handle_at(x, n->in[0])
                                                                       : x->order[k];
    return array == NULL || x->spoilt[array->id] ? NULL : array;
}

/* n hands lists on. */
static enum td_code carry(struct lists *x, struct td_node *n)
{
    const size_t room = (size_t)n->n_in + (size_t)n->n_out;
    enum td_dtype *types = td_arena_alloc(x->ir->arena, room + 1, sizeof *types);
    const struct td_attr t = TD_ATTR_OF_TYPE("T", TD_VARIANT);
    if (types == NULL) {
        return td_no_memory(x->e.err, room, "compiling an array");
    }
    for (int i = 0; i < n->n_in; i++) {
        types[i] = is_order_input(n, i) || n->in_type == NULL ? TD_VARIANT : n->in_type[i];
    }
    for (int i = 0; i < n->n_out; i++) {
        const bool which = i == 1 && (n->op->flags & TD_OP_DEAD_OK) != 0; /* a Merge's second output */
        types[n->n_in + i] = which ? n->out_type[i] : TD_VARIANT;
    }
    n->in_type = n->in_type == NULL ? NULL : types;
    n->out_type = types + n->n_in;
    td_emit_attr(&x->e, n, &t);
    return x->e.rc;
}

/* The constants that n takes are made when `first` is there: in the same loop. */
static enum td_code bind(struct lists *x, const struct td_node *n, struct td_node *first)
{
    for (int i = 0; i < n->n_in; i++) {
        struct td_node *c = n->in[i].node;
        if (c->id >= x->n_nodes && td_node_const(c) != NULL) {
            c->control = td_arena_alloc(x->ir->arena, 1, sizeof(void *));
            if (c->control == NULL) {
                return td_no_memory(x->e.err, 1, "compiling an array");
            }
            c->control[0] = first;
            c->n_control = 1;
        }
    }
    return TD_OK;
}

/* The twin of node k; those whose lists it takes come first. */
static enum td_code make(struct lists *x, int k)
{
    struct td_node *n = x->ir->nodes[k], *array = list_in(x, k);
    struct td_value list = td_no_value;
    if (x->made[k].node != NULL) {
        return TD_OK;
    }
    if (!is_new(n)) {
        list = n->in[n->n_in - 1];
        if (rule_of(list.node) != NULL) {
            TD_TRY(make(x, list.node->id)); /* no loop without a Merge between them */
            list = x->made[list.node->id];
        }
    }
    x->e.at = n;
    td_emit_forget(&x->e);
    x->made[k] = rule_of(n)->as_list(&x->e, n, array, list);
    TD_TRY(x->e.rc);
    x->made[k].node->control = n->control;
    x->made[k].node->n_control = n->n_control;
    return x->frames.of[k] >= 0 ? bind(x, x->made[k].node, is_new(n) ? n->in[0].node : list.node) : TD_OK;
}

static void redirect(const struct lists *x, struct td_value *v)
{
    if (v->node->id < x->n_nodes && x->made[v->node->id].node != NULL) {
        *v = x->made[v->node->id];
    }
}

static struct td_node *twin(const struct lists *x, struct td_node *n)
{
    return n->id < x->n_nodes && x->made[n->id].node != NULL ? x->made[n->id].node : n;
}

static void redirect_all(struct lists *x)
{
    for (int k = 0; k < x->ir->n_nodes; k++) {
        struct td_node *n = x->ir->nodes[k];
        for (int i = 0; i < n->n_in && (k >= x->n_nodes || x->made[k].node == NULL); i++) {
            if (k >= x->n_nodes || handle_at(x, n->in[i]) == NULL) {
                redirect(x, &n->in[i]);
            }
        }
        for (int i = 0; i < n->n_control; i++) {
            n->control[i] = twin(x, n->control[i]);
        }
    }
    for (int i = 0; i < x->ir->n_fetches; i++) {
        redirect(x, &x->ir->fetches[i]);
    }
    for (int i = 0; i < x->ir->n_roots; i++) {
        x->ir->roots[i] = twin(x, x->ir->roots[i]);
    }
}

/* What nothing reads any more: not a part of a loop, either. */
static void give_up(struct td_node *n)
{
    n->op = &td_op_join;
    n->op_name = td_op_join.name;
    n->def = NULL;
    n->n_in = n->n_control = n->n_out = n->n_attrs = 0;
}

static enum td_code rewrite(struct lists *x)
{
    bool any = false;
    for (int k = 0; k < x->n_nodes; k++) {
        if (list_in(x, k) != NULL && rule_of(x->ir->nodes[k]) == NULL) {
            TD_TRY(carry(x, x->ir->nodes[k]));
        }
    }
    for (int k = 0; k < x->n_nodes; k++) {
        if (list_in(x, k) != NULL && rule_of(x->ir->nodes[k]) != NULL) {
            any = true;
            TD_TRY(make(x, k));
        }
    }
    if (any) {
        redirect_all(x);
    }
    for (int k = 0; any && k < x->n_nodes; k++) {
        const struct td_node *array = x->handle[k];
        if (x->made[k].node != NULL || (array != NULL && !x->spoilt[array->id])) {
            give_up(x->ir->nodes[k]);
        }
    }
    return TD_OK;
}

static enum td_code run(struct lists *x)
{
    const size_t n = (size_t)x->n_nodes + 1;
    x->handle = td_arena_alloc(x->ir->arena, n, sizeof(void *));
    x->order = td_arena_alloc(x->ir->arena, n, sizeof(void *));
    x->spoilt = td_arena_alloc(x->ir->arena, n, sizeof(bool));
    x->fills = td_arena_alloc(x->ir->arena, n, sizeof(int));
    x->made = td_arena_alloc(x->ir->arena, n, sizeof *x->made);
    if (!x->handle || !x->order || !x->spoilt || !x->fills || !x->made) {
        return td_no_memory(x->e.err, n, "compiling arrays");
    }
    x->changed = true;
    for (int i = 0; x->changed; i++) {
        if (i == MAX_SWEEPS) { /* an order that no loop of TensorFlow's has */
            return TD_OK;
        }
        x->changed = false;
        sweep(x);
    }
    check(x);
    TD_TRY(td_loop_frames_find(&x->frames, x->ir, x->e.err));
    return rewrite(x);
}

static bool has_array_in_loop(const struct td_ir *ir)
{
    bool array = false, loop = false;
    for (int k = 0; k < ir->n_nodes; k++) {
        array = array || is_new(ir->nodes[k]);
        loop = loop || (td_node_flags(ir->nodes[k]) & TD_OP_ENTER) != 0;
    }
    return array && loop;
}

enum td_code td_array_lists(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const struct td_model_opts *o = m == NULL ? NULL : td_model_opts_of(m);
    if (o == NULL || o->ops == NULL || td_rewrite_is_off(o->passes_off, "hoist") || !has_array_in_loop(ir)) {
        return TD_OK;
    }
    struct lists x = {.ir = ir, .n_nodes = ir->n_nodes, .e = td_ir_emitter(ir, NULL, o->ops, err)};
    const enum td_code rc = run(&x), closed = td_emit_close(&x.e);
    td_loop_frames_fini(&x.frames);
    return rc ? rc : closed;
}
