/* core/compile/loop_source.c - the two kinds of loops that passes look into.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/loop_source.h"

#include "core/compile/loop.h"

static const struct td_function *function_of(const struct td_model *m, const struct td_node *n,
                                             const char *attr)
{
    const struct td_func_ref *f = td_attr_func(n, attr, 0);
    return f == NULL ? NULL : td_library_find(td_model_library(m), f->name);
}

static bool fits(const struct td_function *f, int n_args, int n_rets)
{
    return f != NULL && !f->is_template && f->n_args == n_args && f->n_rets == n_rets;
}

/* The functions of a loop over functions. */
static bool functions(const struct td_model *m, struct td_arena *arena, const struct td_node *n,
                      struct td_loop_source *cond, struct td_loop_source *body)
{
    if (n->op->branch.loop_body == NULL || n->loop != NULL || n->n_in != n->n_out) {
        return false;
    }
    const struct td_function *c = function_of(m, n, n->op->branch.loop_cond),
                             *b = function_of(m, n, n->op->branch.loop_body);
    struct td_value *feeds = td_arena_alloc(arena, 2 * (size_t)n->n_in + 1, sizeof *feeds);
    if (feeds == NULL || !fits(c, n->n_in, 1) || !fits(b, n->n_in, n->n_in)) {
        return false;
    }
    *cond = (struct td_loop_source){&c->body, td_callable_opts_of(c, feeds)};
    *body = (struct td_loop_source){&b->body, td_callable_opts_of(b, feeds + n->n_in)};
    return true;
}

bool td_loop_sources(const struct td_model *m, struct td_arena *arena, const struct td_node *n,
                     struct td_loop_source *cond, struct td_loop_source *body, int *n_vars)
{
    const struct td_loop *l = n->op == &td_loop_op ? n->loop : NULL;
    if (l != NULL && l->graph != NULL && !l->by_reference) {
        *cond = (struct td_loop_source){l->graph, l->cond_opts};
        *body = (struct td_loop_source){l->graph, l->body_opts};
        *n_vars = l->n_vars;
        return true;
    }
    *n_vars = n->n_in;
    return n->op != NULL && functions(m, arena, n, cond, body);
}

bool td_loop_only_reads(struct td_node *const *nodes, int n)
{
    for (int k = 0; k < n; k++) {
        if ((td_node_flags(nodes[k]) & (TD_OP_STATEFUL | TD_OP_READS | TD_OP_ARG)) == TD_OP_STATEFUL) {
            return false;
        }
    }
    return true;
}

bool td_loop_has_old(const struct td_ir *ir)
{
    bool found = false;
    for (int k = 0; !found && k < ir->n_nodes; k++) {
        found = (td_node_flags(ir->nodes[k]) & (TD_OP_ENTER | TD_OP_SWITCH)) != 0;
    }
    return found;
}
