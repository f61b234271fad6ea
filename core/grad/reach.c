/* core/grad/reach.c - sweeps over an IR in order; for loops, repeated until nothing is added.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/reach.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/grad/grad.h"

static bool ends(const struct td_node *n)
{
    return n->op != NULL && n->op->grad == td_not_differentiable;
}

static bool passes(struct td_value v)
{
    return td_dtype_in(td_dtype_of(v), TD_SET_TRAINABLE);
}

void td_grad_reach_down(const struct td_ir *ir, bool *at, int n_nodes)
{
    for (int k = 0; k < n_nodes; k++) {
        const struct td_node *n = ir->nodes[k];
        for (int i = 0; !at[k] && !ends(n) && i < n->n_in; i++) {
            at[k] = at[n->in[i].node->id] && passes(n->in[i]);
        }
    }
}

void td_grad_reach_up(const struct td_ir *ir, bool *at)
{
    for (int k = ir->n_nodes - 1; k >= 0; k--) {
        const struct td_node *n = ir->nodes[k];
        for (int i = 0; at[k] && !ends(n) && i < n->n_in; i++) {
            at[n->in[i].node->id] |= passes(n->in[i]);
        }
    }
}

/* Variables reached from those that are: adds them, and tells whether it did. */
static bool add_down(const struct td_ir *ir, bool *at, bool *var)
{
    bool added = false;
    memset(at, 0, (size_t)ir->n_nodes * sizeof *at);
    for (int i = 0; i < ir->n_feeds; i++) {
        at[ir->feeds[i]->id] = var[i];
    }
    td_grad_reach_down(ir, at, ir->n_nodes);
    for (int i = 0; i < ir->n_feeds; i++) {
        const bool now = var[i] || (at[ir->fetches[i].node->id] && passes(ir->fetches[i]));
        added |= now != var[i];
        var[i] = now;
    }
    return added;
}

static bool add_up(const struct td_ir *ir, bool *at, bool *var)
{
    bool added = false;
    memset(at, 0, (size_t)ir->n_nodes * sizeof *at);
    for (int i = 0; i < ir->n_feeds; i++) {
        at[ir->fetches[i].node->id] |= var[i] && passes(ir->fetches[i]);
    }
    td_grad_reach_up(ir, at);
    for (int i = 0; i < ir->n_feeds; i++) {
        const bool now = var[i] || (at[ir->feeds[i]->id] && passes((struct td_value){ir->feeds[i], 0}));
        added |= now != var[i];
        var[i] = now;
    }
    return added;
}

enum td_code td_grad_loop_state(const struct td_ir *ir, const bool *wanted, const bool *arrived, bool *state,
                                struct td_err *err)
{
    const size_t n = (size_t)ir->n_feeds + 1;
    bool *at = td_calloc((size_t)ir->n_nodes + 1, sizeof *at), *down = td_calloc(n, sizeof *down),
         *up = td_calloc(n, sizeof *up);
    const enum td_code rc = at && down && up ? TD_OK : td_no_memory(err, n, "the gradient of a loop");
    if (rc == TD_OK) {
        memcpy(down, wanted, (size_t)ir->n_feeds * sizeof *down);
        memcpy(up, arrived, (size_t)ir->n_feeds * sizeof *up);
        while (add_down(ir, at, down)) {
        }
        while (add_up(ir, at, up)) {
        }
        for (int i = 0; i < ir->n_feeds; i++) {
            state[i] = down[i] && up[i] && passes((struct td_value){ir->feeds[i], 0});
        }
    }
    td_free(at);
    td_free(down);
    td_free(up);
    return rc;
}
