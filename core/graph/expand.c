/* core/graph/expand.c - asks the row of each node whether it stands for others.
 *
 * The node itself stays, as the last of those that it becomes: names, results and signatures that mean it
 * mean the same value. The others are called after it; they are not asked in turn, so that it ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/expand.h"

#include "core/graph/emit.h"

static bool row_takes(const struct td_kernel *k, const struct td_node *n)
{
    bool takes = true;
    for (int i = 0; i < TD_TYPE_RULES && k->types[i].attr != NULL; i++) {
        takes = takes && td_dtype_in(td_attr_type(n, k->types[i].attr), k->types[i].set);
    }
    return takes;
}

static bool may_expand(const struct td_node *n)
{
    if (n->op == NULL || n->op->expand == NULL) {
        return false;
    }
    const struct td_kernel *k = n->op->kernels;
    while (k->name != NULL && !row_takes(k, n)) {
        k++;
    }
    return k->name != NULL;
}

static enum td_code expand(struct td_graph *g, struct td_node *n, const struct td_op_table *ops,
                           struct td_err *err)
{
    struct td_emitter e = td_graph_emitter(g, n->name, ops, err);
    e.at = n;
    n->op->expand(&e, n);
    return td_emit_close(&e);
}

enum td_code td_graph_expand(struct td_graph *g, const struct td_op_table *ops, struct td_err *err)
{
    for (int i = 0, n = g->n_nodes; i < n; i++) {
        if (may_expand(g->nodes[i])) {
            TD_TRY(expand(g, g->nodes[i], ops, err));
        }
    }
    return TD_OK;
}

enum td_code td_expanded_run(struct td_call *c, struct td_err *err)
{
    return td_fail(err, TD_INTERNAL, "%s: stands for nodes of other ops, and was not replaced by them",
                   TD_NODE_STR(c->node));
}
