/* core/compile/pass_dead_branch.c - conditions that are constant.
 *
 *   If(true, x, then, else)         becomes      then(x), inlined
 *   Case(2, x, branches)            becomes      branches[2](x), inlined
 *   While(x, cond, body)            becomes      x          where cond answers the constant false
 *   Switch(x, true) .. Merge        becomes      the side taken (pass_dead_switch.c)
 *
 * Left alone: conditions that are no scalar of a number or bool (kernels/control/control.c has rules for
 * others); branches with control flow of TF1 in them, which would have to be lifted again; and every If in a
 * graph with Switch, where the node may be dead and with it its branch.
 *
 * Invariant (td_pass_check): the branch that stays is the one that would have run; its effects keep their
 * place between those that control edges put before and behind the node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/inline.h"
#include "core/base/mem.h"
#include "core/run/model.h"
#include "core/compile/passes.h"
#include "core/compile/remap.h"

enum { MAX_IDENTITIES = 64 };

struct pruner {
    struct td_ir *ir;
    const struct td_library *lib;
    struct td_remap remap;
    struct td_node **after; /* by node id: what a control edge from a replaced node means now */
    bool *gone;             /* by node id: replaced */
    struct td_err *err;
};

/* Value of a constant scalar of integers or bools. */
static bool constant(const struct td_node *n, int64_t *value)
{
    const struct td_tensor *t = td_node_const(n);
    bool ok = t != NULL && t->shape.rank == 0 && td_dtype_in(t->dtype, TD_SET_INTS | TD_BIT(TD_BOOL));
    if (ok) {
        *value = td_tensor_int(t, 0);
    }
    return ok;
}

/* The function that n certainly runs, or NULL. */
static const struct td_function *certain_branch(const struct pruner *x, const struct td_node *n)
{
    int64_t value;
    if (n->op == NULL || n->op->branch.taken == NULL || n->n_in == 0 || !constant(n->in[0].node, &value)) {
        return NULL;
    }
    const struct td_func_ref *f = n->op->branch.taken(n, value);
    return f == NULL ? NULL : td_library_find(x->lib, f->name);
}

/* Whether While n's condition is a function that answers the constant false. */
static bool never_loops(const struct pruner *x, const struct td_node *n)
{
    if (n->op == NULL || n->op->branch.loop_cond == NULL || n->n_in != n->n_out) {
        return false;
    }
    const struct td_func_ref *ref = td_attr_func(n, n->op->branch.loop_cond, 0);
    const struct td_function *f = ref == NULL ? NULL : td_library_find(x->lib, ref->name);
    if (f == NULL || f->is_template || f->n_rets != 1 || f->n_control_rets > 0 || f->n_args != n->n_in) {
        return false;
    }
    const struct td_node *from = f->rets[0].node;
    for (int i = 0;
         i < MAX_IDENTITIES && (td_node_flags(from) & TD_OP_IDENTITY) && from->op != NULL && from->n_in == 1;
         i++) {
        from = from->in[0].node;
    }
    int64_t value;
    bool same = constant(from, &value) && value == 0;
    for (int i = 0; same && i < n->n_in; i++) {
        struct td_value v = n->in[i];
        same = v.node->out_type[v.port] == n->out_type[i] && f->args[i]->out_type[0] == n->out_type[i];
    }
    return same;
}

static bool has_old_control_flow(const struct td_ir *ir, int from)
{
    for (int i = from; i < ir->n_nodes; i++) {
        if (td_node_flags(ir->nodes[i]) & (TD_OP_SWITCH | TD_OP_DEAD_OK | TD_OP_ENTER)) {
            return true;
        }
    }
    return false;
}

/* Inlines f in place of n; takes everything back when that cannot be done. */
static void take_branch(struct pruner *x, const struct td_node *n, const struct td_function *f)
{
    int nodes = x->ir->n_nodes, roots = x->ir->n_roots;
    struct td_value *outs = td_arena_alloc(x->ir->arena, (size_t)f->n_rets + 1, sizeof *outs);
    struct td_node *after = NULL;
    struct td_err why = {0}; /* the node says so when it runs */
    if (outs == NULL || td_inline_node(x->ir, x->lib, &(struct td_inlined){n, 1, f}, outs, &after, &why) ||
        has_old_control_flow(x->ir, nodes)) {
        x->ir->n_nodes = nodes;
        x->ir->n_roots = roots;
        return;
    }
    x->remap.to[n->id] = outs;
    x->after[n->id] = after;
    x->gone[n->id] = true;
}

/* Control edges and roots at replaced nodes. (Data edges go by the remap.) */
static void redirect_controls(struct pruner *x, int n_nodes)
{
    for (int k = 0; k < x->ir->n_nodes; k++) {
        struct td_node *n = x->ir->nodes[k];
        int kept = 0;
        for (int i = 0; i < n->n_control; i++) {
            struct td_node *from = n->control[i];
            from = from->id < n_nodes && x->gone[from->id] ? x->after[from->id] : from;
            if (from != NULL) {
                n->control[kept++] = from;
            }
        }
        n->n_control = kept;
    }
    int kept = 0;
    for (int i = 0; i < x->ir->n_roots; i++) {
        struct td_node *root = x->ir->roots[i];
        root = root->id < n_nodes && x->gone[root->id] ? x->after[root->id] : root;
        if (root != NULL) {
            x->ir->roots[kept++] = root;
        }
    }
    x->ir->n_roots = kept;
}

static enum td_code prune(struct pruner *x)
{
    int n_nodes = x->ir->n_nodes;
    for (int k = 0; k < n_nodes; k++) {
        const struct td_node *n = x->ir->nodes[k];
        const struct td_function *f = certain_branch(x, n);
        if (f != NULL) {
            take_branch(x, n, f);
        } else if (n->n_control == 0 && never_loops(x, n)) {
            x->remap.to[n->id] = n->in;
            x->gone[n->id] = true;
        }
    }
    redirect_controls(x, n_nodes);
    td_remap_apply(x->ir, &x->remap);
    return td_ir_check_types(x->ir, x->err);
}

/* Cheap to ask first: most graphs have none of these ops. */
static bool any_condition(const struct td_ir *ir)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        const struct td_op *op = ir->nodes[k]->op;
        if (op != NULL && (op->branch.taken != NULL || op->branch.loop_cond != NULL)) {
            return true;
        }
    }
    return false;
}

enum td_code td_pass_dead_branch(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    if (td_ir_has_switch(ir)) {
        return td_pass_dead_switch(ir, m, err);
    }
    if (m == NULL || !any_condition(ir)) {
        return TD_OK;
    }
    struct pruner x = {.ir = ir, .lib = td_model_library(m), .err = err};
    x.after = td_arena_alloc(ir->arena, (size_t)ir->n_nodes + 1, sizeof *x.after);
    x.gone = td_arena_alloc(ir->arena, (size_t)ir->n_nodes + 1, sizeof *x.gone);
    if (x.after == NULL || x.gone == NULL) {
        return td_no_memory(err, (size_t)ir->n_nodes, "compiler pass");
    }
    TD_TRY(td_remap_init(ir, &x.remap, err));
    return prune(&x);
}
