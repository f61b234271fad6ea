/* core/compile/pass_reassign.c - an assignment of the value that the variable holds anyway goes.
 *
 *   handle -> read -> assign, handle
 *
 * Keras with JAX for its backend writes all of a model's state back in each call, changed or not: seeds of
 * dropout and statistics, which only training changes. With such an assignment no two requests could share a
 * batch.
 *
 * Nothing else of the graph may change that variable, so that it holds at the assignment what was read; and
 * nothing may run functions that have effects, which could. Another run that changes it meanwhile would have
 * lost its change to the assignment: now it does not.
 *
 * Invariant (td_pass_check): the node stays, as a join that whoever waited for it waits for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "core/compile/inline.h"
#include "core/compile/passes.h"

static const struct td_obj *variable_of(struct td_value v)
{
    const struct td_tensor *t = v.node->out_type[v.port] == TD_RESOURCE ? td_known_value(v) : NULL;
    return t != NULL && td_tensor_count(t) == 1 ? td_tensor_obj(t, 0) : NULL;
}

static bool moves_variables(const struct td_node *n, bool reads)
{
    const uint32_t flags = td_node_flags(n);
    return (flags & TD_OP_VARIABLES) != 0 && ((flags & TD_OP_READS) != 0) == reads;
}

/* Whether n assigns what was read of the very variable: that; NULL. */
static const struct td_obj *written_back(const struct td_node *n)
{
    if (!moves_variables(n, false) || n->n_out != 0 || n->n_in != 2 ||
        !moves_variables(n->in[1].node, true)) {
        return NULL;
    }
    const struct td_node *read = n->in[1].node;
    const struct td_obj *variable = variable_of(n->in[0]);
    return n->in[1].port < read->n_in && variable_of(read->in[n->in[1].port]) == variable ? variable : NULL;
}

/* Whether n may change variables that it does not name, or when it is not told. */
static bool may_change_any(const struct td_node *n)
{
    return (td_node_runs_functions(n) && (td_node_flags(n) & TD_OP_STATEFUL) != 0) || n->loop != NULL ||
           n->op == NULL;
}

/* Whether another node than n may change the variable. */
static bool is_changed_beside(const struct td_ir *ir, const struct td_node *n, const struct td_obj *variable)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        const struct td_node *other = ir->nodes[k];
        for (int i = 0; other != n && i < other->n_in && (td_node_flags(other) & TD_OP_READS) == 0; i++) {
            const enum td_dtype t = other->in[i].node->out_type[other->in[i].port];
            if (t == TD_RESOURCE &&
                (variable_of(other->in[i]) == NULL || variable_of(other->in[i]) == variable)) {
                return true;
            }
        }
    }
    return false;
}

enum td_code td_pass_reassign(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    enum { MOST_TRIES = 1 << 24 }; /* looks at nodes, all candidates together */
    int64_t looks = 0;
    (void)m;
    (void)err;
    for (int k = 0; k < ir->n_nodes; k++) {
        if (may_change_any(ir->nodes[k])) {
            return TD_OK;
        }
    }
    for (int k = 0; k < ir->n_nodes && looks < MOST_TRIES; k++) {
        struct td_node *n = ir->nodes[k];
        const struct td_obj *variable = written_back(n);
        looks += variable != NULL ? ir->n_nodes : 0;
        if (variable != NULL && !is_changed_beside(ir, n, variable)) {
            n->op = &td_op_join;
            n->op_name = td_op_join.name;
            n->def = NULL;
            n->n_in = 0;
            ir->changes++;
        }
    }
    return TD_OK;
}
