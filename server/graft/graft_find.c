/* server/graft/graft_find.c - "NODE:PORT" to a value of a graft, with its shape.
 *
 * Shapes are told in an order that TensorFlow 1's loops do not have, so they are looked up in a second IR of
 * the same part, whose loops are lifted into nodes; the value is the one of that name in the graft's own.
 * What is in the one and not in the other lies inside of a loop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/ir_shapes.h"
#include "core/compile/loops.h"
#include "core/compile/passes.h"
#include "core/function/callable_impl.h"
#include "server/base/name_list.h"
#include "server/graft/graft_impl.h"

enum { NAMED = 6 }; /* nodes that an error lists */

/* Names of values of the part, with their shapes: its loops are nodes here, and what was in them is not. */
struct probe {
    struct td_arena *arena;
    struct td_ir ir;
    const struct td_ir_shapes *shapes;
};

static void probe_close(struct probe *p)
{
    td_ir_shapes_fini(&p->ir.shapes);
    td_arena_free(p->arena);
}

static enum td_code probe_open(struct td_graft *g, struct probe *p, struct td_err *err)
{
    struct td_model *engine = td_servable_engine(g->servable);
    struct td_callable_opts part;
    p->arena = td_arena_new(TD_GRAFT_BYTES);
    if (p->arena == NULL) {
        return td_graft_no_memory(err);
    }
    td_callable_graph(td_servable_callable(g->servable, g->sig), &part);
    TD_TRY(td_ir_build(&p->ir, p->arena, td_model_graph(engine), td_model_library(engine), &part,
                       TD_IR_INLINE, err));
    TD_TRY(td_ir_check_types(&p->ir, err));
    TD_TRY(td_loops_lift(&p->ir, engine, err));
    struct td_emitter e = td_ir_emitter(&p->ir, NULL, g->e.ops, err);
    td_graft_placeholders(&e, &p->ir, g->sig);
    TD_TRY(td_emit_close(&e));
    TD_TRY(td_ir_sort(&p->ir, err));
    TD_TRY(td_pass_handles(&p->ir, engine, err)); /* reads of variables then have their shapes */
    TD_TRY(td_ir_sort(&p->ir, err));
    return td_ir_shapes_now(&p->ir, &p->shapes, err);
}

/* Whether `name` is all of full, or its last parts. */
static bool is_tail(const char *full, const char *name, size_t n)
{
    const size_t all = strlen(full);
    return all >= n && memcmp(full + all - n, name, n) == 0 && (all == n || full[all - n - 1] == '/');
}

/* Nodes of that name, or (there being none) whose names end with it: how many; *out: the last. */
static int find_nodes(const struct td_ir *ir, const char *name, size_t n, struct td_node **out)
{
    int ends = 0;
    for (int k = 0; k < ir->n_nodes; k++) {
        struct td_node *node = ir->nodes[k];
        if (is_tail(node->name, name, n)) {
            *out = node;
            if (strlen(node->name) == n) {
                return 1;
            }
            ends++;
        }
    }
    return ends;
}

/* A head could be put on it. */
static bool fits(const struct probe *p, struct td_node *n)
{
    const uint32_t none = TD_OP_READS | TD_OP_IDENTITY | TD_OP_CONST;
    if (n->n_out == 0 || n->n_in == 0 || (td_node_flags(n) & none)) {
        return false;
    }
    const struct td_shape *shape = td_ir_shape(p->shapes, (struct td_value){n, 0});
    return shape->rank >= 2 && shape->dim[shape->rank - 1] > 0 && td_dtype_in(n->out_type[0], TD_SET_FLOATS);
}

/* The last nodes that a head could be put on, last first; there being none, the last ones. */
static struct td_name_list names_of_last(const struct probe *p)
{
    struct td_name_list t = {.n = 0};
    for (int all = 0; all < 2 && t.n == 0; all++) {
        for (int k = p->ir.n_nodes - 1, named = 0; k >= 0 && named < NAMED; k--) {
            struct td_node *n = p->ir.nodes[k];
            if (fits(p, n) || (all == 1 && n->n_out > 0)) {
                td_name_list_add(&t, "'%.110s'", n->name);
                named++;
            }
        }
    }
    return t;
}

static struct td_name_list names_ending_with(const struct td_ir *ir, const char *name, size_t n)
{
    struct td_name_list t = {.n = 0};
    for (int k = 0, named = 0; k < ir->n_nodes && named < NAMED; k++) {
        if (is_tail(ir->nodes[k]->name, name, n)) {
            td_name_list_add(&t, "'%.110s'", ir->nodes[k]->name);
            named++;
        }
    }
    return t;
}

/* Splits "NODE:PORT"; the port is 0 where none is given. */
static enum td_code split(const char *at, size_t *n, int *port, struct td_err *err)
{
    const char *colon = strrchr(at, ':');
    *n = strlen(at);
    *port = 0;
    if (colon != NULL && colon[1] != 0 && strspn(colon + 1, "0123456789") == strlen(colon + 1)) {
        TD_FAIL_IF(strlen(colon + 1) > 5, err, INVALID_ARGUMENT, "'%.200s': no node has that many outputs",
                   at);
        *n = (size_t)(colon - at);
        *port = (int)strtol(colon + 1, NULL, 10);
    }
    return TD_OK;
}

static enum td_code find_node(const struct td_graft *g, const struct probe *p, const char *at, size_t n,
                              struct td_node **out, struct td_err *err)
{
    struct td_node *inside;
    const int found = find_nodes(&p->ir, at, n, out);
    TD_FAIL_IF(found > 1, err, INVALID_ARGUMENT, "several nodes of signature '%.100s' are called '%.*s': %s",
               g->sig->key, (int)n, at, names_ending_with(&p->ir, at, n).s);
    TD_FAIL_IF(found == 0 && find_nodes(&g->ir, at, n, &inside) > 0, err, INVALID_ARGUMENT,
               "node '%.200s' lies inside of a loop", inside->name);
    TD_FAIL_IF(found == 0, err, INVALID_ARGUMENT,
               "signature '%.100s' has no node '%.*s'; near its outputs are %s", g->sig->key, (int)n, at,
               names_of_last(p).s);
    return TD_OK;
}

static enum td_code find_value(struct td_graft *g, const struct probe *p, const char *at,
                               struct td_value *out, struct td_shape *shape, struct td_err *err)
{
    struct td_node *there, *here;
    bool in_branch;
    size_t n;
    int port;
    TD_TRY(split(at, &n, &port, err));
    TD_TRY(find_node(g, p, at, n, &there, err));
    TD_FAIL_IF(port >= there->n_out, err, INVALID_ARGUMENT,
               "node '%.200s' has %d outputs, not one of number %d", there->name, there->n_out, port);
    /* TF1: a value that only one branch computes is dead when the other is taken */
    TD_TRY(td_graft_below(&p->ir, there, TD_OP_SWITCH, TD_OP_DEAD_OK, &in_branch, err));
    TD_FAIL_IF(in_branch, err, INVALID_ARGUMENT,
               "node '%.200s' lies inside of a branch that need not be taken", there->name);
    TD_FAIL_IF(find_nodes(&g->ir, there->name, strlen(there->name), &here) != 1 || port >= here->n_out, err,
               INVALID_ARGUMENT,
               "node '%.200s' stands for a loop; its results are named by the nodes that read them",
               there->name);
    *shape = *td_ir_shape(p->shapes, (struct td_value){there, port});
    *out = (struct td_value){here, port};
    return TD_OK;
}

enum td_code td_graft_find(struct td_graft *g, const char *at, struct td_value *out, struct td_shape *shape,
                           struct td_err *err)
{
    struct probe p = {.arena = NULL};
    enum td_code rc = probe_open(g, &p, err);
    rc = rc ? rc : find_value(g, &p, at, out, shape, err);
    probe_close(&p);
    return rc;
}
