/* core/compile/pass_unlist.c - a recurrent loop whose lists are made of tensors, and read as tensors, becomes
 * a node that has the tensors.
 *
 *   x -> list -> loop -> list -> stacked             x -> the same loop, of tensors -> stacked
 *
 * Lists are the host's. Without them the loop is a node like any other, of numbers and known shapes, which a
 * device may run in the midst of others. What the loop is like is the business of the rule in the row of
 * role RECURRENCE_TENSORS (kernels/control/recurrence_tensors_match.c); this file says who reads what, and
 * has those read the new node. It keeps the loop, and the node with lists as `listed`: where shapes do not
 * fit after all, its kernel on the host runs that.
 *
 * Only for models with a device that has a kernel of its own for the op: on the host lists cost nothing to
 * speak of.
 *
 * Invariant (td_pass_check): readers get values of the types they had. A node that was ordered by control
 * edges is left alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/ir_shapes.h"
#include "core/compile/loop.h"
#include "core/compile/passes.h"
#include "core/run/select.h"

struct unlist {
    struct td_ir *ir;
    struct td_emitter e;
    const struct td_op_def *def;
    struct td_err *err;
};

/* What reads an output of n as `reader` does; false: more stacks than are counted. */
static bool note(struct td_output_use *use, const struct td_node *reader, int i)
{
    if (i != 0 || reader->op == NULL || reader->op->role != TD_ROLE_LIST_STACK || reader->n_control > 0) {
        use->read = true;
        return true;
    }
    if (use->n_stacks == TD_OUTPUT_STACKS) {
        return false;
    }
    use->stack[use->n_stacks++] = reader;
    return true;
}

/* False: n is more than its values to somebody. */
static bool find_uses(const struct td_ir *ir, const struct td_node *n, struct td_output_use *use)
{
    bool ok = n->n_control == 0;
    for (int k = 0; ok && k < ir->n_nodes; k++) {
        const struct td_node *to = ir->nodes[k];
        for (int i = 0; ok && i < to->n_in; i++) {
            ok = to->in[i].node != n || note(&use[to->in[i].port], to, i);
        }
        for (int i = 0; ok && i < to->n_control; i++) {
            ok = to->control[i] != n;
        }
    }
    for (int i = 0; ok && i < ir->n_fetches; i++) {
        if (ir->fetches[i].node == n) {
            use[ir->fetches[i].port].read = true;
        }
    }
    return ok;
}

/* v, or what is read in its place: of an output of n, or of a stack of one that is no list any more. */
static struct td_value instead(const struct td_node *n, const struct td_value *to, struct td_value v)
{
    if (v.node == n) {
        return to[v.port];
    }
    const struct td_op *op = v.node->op;
    const bool stack = op != NULL && op->role == TD_ROLE_LIST_STACK && v.node->in[0].node == n;
    const struct td_value as = stack ? to[v.node->in[0].port] : td_no_value;
    return as.node != NULL && td_dtype_of(as) == td_dtype_of(v) ? as : v;
}

/* Stacks first: they are told by what they read. A root is one for the errors that its steps may have. */
static void redirect(struct td_ir *ir, const struct td_node *n, struct td_node *made,
                     const struct td_value *to)
{
    for (int stacks = 1; stacks >= 0; stacks--) {
        for (int k = 0; k < ir->n_nodes; k++) {
            struct td_node *reader = ir->nodes[k];
            for (int i = 0; i < reader->n_in && reader != made && reader != n; i++) {
                const struct td_value v = reader->in[i];
                reader->in[i] = (v.node == n) == (stacks > 0) ? v : instead(n, to, v);
            }
        }
        for (int i = 0; i < ir->n_fetches; i++) {
            const struct td_value v = ir->fetches[i];
            ir->fetches[i] = (v.node == n) == (stacks > 0) ? v : instead(n, to, v);
        }
    }
    for (int i = 0; i < ir->n_roots; i++) {
        ir->roots[i] = ir->roots[i] == n ? made : ir->roots[i];
    }
    ir->changes++;
}

/* Its outputs are others than those of the node with lists, whose name it may not have. */
static const char *name_beside(struct td_arena *a, const char *name)
{
    const size_t bytes = strlen(name) + sizeof "/tensors";
    char *text = td_arena_alloc(a, bytes, 1);
    if (text != NULL) {
        snprintf(text, bytes, "%s/tensors", name);
    }
    return text;
}

static enum td_code try_node(struct unlist *u, struct td_node *n)
{
    struct td_output_use *use = td_calloc((size_t)n->n_out + 1, sizeof *use);
    struct td_value *to = td_calloc((size_t)n->n_out + 1, sizeof *to);
    if (use == NULL || to == NULL) {
        td_free(use);
        td_free(to);
        return td_no_memory(u->err, (size_t)n->n_out, "compiler pass");
    }
    u->e.at = n;
    struct td_node *made = find_uses(u->ir, n, use) ? u->def->op->unlist_rule(&u->e, n, use, to) : NULL;
    const char *name = made == NULL ? NULL : name_beside(u->ir->arena, n->name);
    if (made != NULL && name == NULL) {
        u->e.rc = td_no_memory(u->err, strlen(n->name), "compiler pass");
    } else if (made != NULL) {
        made->name = name;
        made->loop = n->loop;
        made->loop->listed = n;
        redirect(u->ir, n, made, to);
    }
    td_free(use);
    td_free(to);
    return u->e.rc;
}

enum td_code td_pass_unlist(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const struct td_model_opts *o = m == NULL ? NULL : td_model_opts_of(m);
    const struct td_op_def *def =
        o == NULL || o->device == NULL ? NULL : td_op_of_role(o->ops, TD_ROLE_RECURRENCE_TENSORS);
    if (def == NULL || o->device->kernels == TD_CPU || !td_select_runs_on(def, o->device)) {
        return TD_OK;
    }
    struct unlist u = {.ir = ir, .e = td_ir_emitter(ir, NULL, o->ops, err), .def = def, .err = err};
    enum td_code rc = TD_OK;
    const int n_nodes = ir->n_nodes;
    for (int k = 0; rc == TD_OK && k < n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        if (n->op != NULL && n->op->role == TD_ROLE_RECURRENCE && n->loop != NULL) {
            rc = try_node(&u, n);
        }
    }
    ir->changes += ir->n_nodes > n_nodes;
    const enum td_code closed = td_emit_close(&u.e);
    return rc ? rc : closed;
}
