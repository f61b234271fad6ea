/* core/function/effects.c
 *
 * A control-flow op counts as stateful when TensorFlow's converter has seen anything stateful in its
 * functions, most often a variable that is read. So its functions are looked through, and those that these
 * call, each time that they are called; how many nodes may be met so is limited, since functions that call
 * each other twice are met by powers of two.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/function/effects.h"

#include "core/run/model.h"

#define MAX_NODES 100000
#define MAX_DEPTH 32

struct look {
    const struct td_library *library;
    int nodes_left;
    int depth;
};

static bool node_has_effects(struct look *l, const struct td_node *n);

static bool nodes_have_effects(struct look *l, struct td_node *const *nodes, int n)
{
    bool found = l->nodes_left < n || l->depth > MAX_DEPTH;
    l->nodes_left -= n;
    for (int i = 0; !found && i < n; i++) {
        found = node_has_effects(l, nodes[i]);
    }
    return found;
}

/* Of the functions that n names; it calls some. */
static bool functions_have_effects(struct look *l, const struct td_node *n)
{
    bool found = false;
    l->depth++;
    for (int a = 0; !found && a < n->n_attrs; a++) {
        const struct td_attr *attr = &n->attrs[a];
        for (int i = 0; !found && attr->kind == TD_ATTR_FUNC && i < attr->n; i++) {
            const struct td_function *f = td_library_find(l->library, attr->func[i].name);
            found = f == NULL || f->is_template || nodes_have_effects(l, f->body.nodes, f->body.n_nodes);
        }
    }
    l->depth--;
    return found;
}

static bool node_has_effects(struct look *l, const struct td_node *n)
{
    const uint32_t flags = td_node_flags(n);
    if (td_node_runs_functions(n) && n->loop == NULL) {
        return functions_have_effects(l, n);
    }
    const bool reads = n->n_out > 0 && (flags & TD_OP_READS) != 0;
    const bool harmless = reads || (flags & (TD_OP_HANDLE | TD_OP_DRAWS | TD_OP_CHECKS | TD_OP_ARG)) != 0;
    return (flags & TD_OP_STATEFUL) && !harmless;
}

bool td_plan_has_effects(const struct td_model *m, const struct td_plan *p)
{
    struct look l = {.library = td_model_library(m), .nodes_left = MAX_NODES};
    bool found = false;
    for (int i = 0; !found && i < p->n_steps; i++) {
        found = node_has_effects(&l, p->steps[i].node);
    }
    return found;
}
