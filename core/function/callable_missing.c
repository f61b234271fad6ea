/* core/function/callable_missing.c - what a callable would need and does not have: its graph is copied as for
 * running, calls inlined, and each node that is left is asked for a kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/plan_make.h"
#include "core/function/callable_impl.h"
#include "core/run/select.h"

int td_callable_missing(struct td_callable *f, struct td_missing *rows, int cap)
{
    struct td_arena *arena = td_arena_new((size_t)512 << 20);
    struct td_callable_opts opts;
    const struct td_graph *graph = td_callable_graph(f, &opts);
    struct td_model *model = td_callable_model(f);
    struct td_ir ir;
    int found = 0;
    struct td_err err = {0};
    if (arena != NULL &&
        td_ir_build(&ir, arena, graph, td_model_library(model), &opts, TD_IR_INLINE, &err) == TD_OK) {
        for (int i = 0; i < ir.n_nodes; i++) {
            const struct td_node *n = ir.nodes[i];
            const struct td_kernel *fit[TD_KERNEL_MOST];
            const struct td_target host = td_target_host(td_model_opts_of(model));
            int n_rows;
            struct td_err why = {0};
            if (n->op == &td_op_feed || n->op == &td_op_join || td_node_const(n) != NULL || n->n_out == 0 ||
                (n->op != NULL && (n->op->flags & TD_OP_ARG)) ||
                td_select_rows(n, &host, fit, &n_rows, NULL, 0, &why) == TD_OK) {
                continue;
            }
            if (found < cap) {
                const char *words = n->op == NULL                         ? "this build does not have the op"
                                    : (n->op->flags & TD_OP_REFUSED) != 0 ? n->op->doc
                                                                          : "no kernel takes its dtypes";
                /* a node copied out of the graph has a name in the arena: give the source's */
                const struct td_node *src = td_graph_find(graph, n->name, strlen(n->name));
                rows[found] = (struct td_missing){src != NULL ? src->name : n->function, n->op_name,
                                                  n->function, words};
            }
            found++;
        }
    }
    td_arena_free(arena);
    return found;
}
