/* core/compile/pass_fold.c - pure nodes of constant inputs become constants.
 *
 *   Const -> f -> g(x)      becomes      Const' -> g(x)
 *
 * Each output of an evaluated node becomes a literal. Results beyond FOLD_LIMIT_BYTES are kept only when they
 * are no larger than what they were made of. A node that cannot be evaluated (a bad value, a missing kernel)
 * stays: it fails, with its name, when it runs; it may never do.
 *
 * Invariant (td_literal_check): a literal holds what the node's own kernel made of the same inputs; nodes
 * with effects are never evaluated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/lone.h"
#include "core/base/check.h"
#include "core/base/mem.h"
#include "core/compile/passes.h"
#include "core/compile/remap.h"

enum { FOLD_LIMIT_BYTES = 10 << 20 };

static bool small_enough(const struct td_tensor *out, int n_out, const struct td_node *n)
{
    size_t in_bytes = 0, out_bytes = 0;
    for (int i = 0; i < n->n_in; i++) {
        in_bytes += td_tensor_bytes(td_node_const(n->in[i].node));
    }
    for (int i = 0; i < n_out; i++) {
        out_bytes += td_tensor_bytes(&out[i]);
    }
    return out_bytes <= FOLD_LIMIT_BYTES || out_bytes <= in_bytes;
}

enum td_code td_literal_check(const struct td_node *n, const struct td_tensor *out, struct td_err *err)
{
    const bool handle = (td_node_flags(n) & TD_OP_HANDLE) != 0;
    TD_WANT(handle || !(td_node_flags(n) & TD_OP_STATEFUL), err, "%s has effects and was evaluated",
            TD_NODE_STR(n));
    for (int i = 0; i < n->n_out; i++) {
        TD_WANT((n->out_ref[i] || out[i].dtype == n->out_type[i]) && td_shape_known(&out[i].shape), err,
                "%s made output %d of type %s and shape %s", TD_NODE_STR(n), i, td_dtype_name(out[i].dtype),
                TD_SHAPE_STR(&out[i].shape));
        const int64_t objects = handle ? td_tensor_count(&out[i]) : 0;
        for (int64_t k = 0; k < objects; k++) {
            TD_WANT(out[i].dtype != TD_RESOURCE || td_tensor_obj(&out[i], k) != NULL, err,
                    "%s made a handle of nothing", TD_NODE_STR(n));
        }
    }
    return TD_OK;
}

/* Each output of n becomes a literal node of its own. */
static enum td_code replace_by_literals(struct td_ir *ir, struct td_remap *r, struct td_node *n,
                                        struct td_tensor *out, struct td_err *err)
{
    struct td_value *to = td_arena_alloc(ir->arena, (size_t)n->n_out, sizeof *to);
    struct td_emitter e = td_ir_emitter(ir, NULL, NULL, err);
    if (to == NULL) {
        return td_no_memory(err, (size_t)n->n_out, "compiler pass");
    }
    e.at = n;
    for (int i = 0; i < n->n_out; i++) {
        to[i] = td_emit_literal(&e, &out[i]);
        if (to[i].node != NULL) { /* a variable's own edge names what it holds, its value is the handle */
            to[i].node->out_type[0] = n->out_type[i];
            to[i].node->out_ref[0] = n->out_ref[i];
        }
    }
    r->to[n->id] = to;
    return td_emit_close(&e);
}

static enum td_code evaluate(struct td_ir *ir, struct td_model *m, struct td_remap *r, struct td_node *n,
                             struct td_err *err)
{
    const struct td_tensor **in = td_arena_alloc(ir->arena, (size_t)n->n_in + 1, sizeof *in);
    struct td_tensor *out = td_arena_alloc(ir->arena, (size_t)n->n_out + 1, sizeof *out);
    if (in == NULL || out == NULL) {
        return td_no_memory(err, (size_t)n->n_in, "compiler pass");
    }
    for (int i = 0; i < n->n_in; i++) {
        in[i] = td_node_const(n->in[i].node);
    }
    TD_TRY(td_lone_node(m, n, in, out, err));
    TD_HOLDS(td_literal_check, n, out);
    enum td_code rc = TD_OK;
    if ((td_node_flags(n) & TD_OP_HANDLE) || small_enough(out, n->n_out, n)) {
        rc = replace_by_literals(ir, r, n, out, err);
    }
    for (int i = 0; i < n->n_out; i++) {
        td_tensor_clear(&out[i]);
    }
    return rc;
}

static bool foldable(const struct td_node *n, bool handles)
{
    uint32_t never = TD_OP_CONST | TD_OP_ARG | TD_OP_NO_FOLD | TD_OP_REFUSED | TD_OP_SWITCH | TD_OP_DEAD_OK |
                     TD_OP_ENTER | TD_OP_EXIT | TD_OP_NEXT | TD_OP_LOOP_COND | TD_OP_CALL;
    uint32_t flags = td_node_flags(n);
    if (n->op == NULL || n->n_out == 0 || (flags & never) || ((flags & TD_OP_HANDLE) != 0) != handles ||
        (!handles && (flags & TD_OP_STATEFUL))) {
        return false;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (td_node_const(n->in[i].node) == NULL || n->in[i].node->out_ref[n->in[i].port]) {
            return false;
        }
    }
    return true;
}

/* Nodes are in topological order, so one pass folds whole chains. */
enum td_code td_pass_fold_nodes(struct td_ir *ir, struct td_model *m, bool handles, struct td_err *err)
{
    struct td_remap r;
    bool dead_values = td_ir_has_switch(ir);
    int n_nodes = ir->n_nodes;
    TD_TRY(td_remap_init(ir, &r, err));
    for (int k = 0; k < n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            n->in[i] = td_remap_follow(&r, n->in[i]);
        }
        bool ok;
        if (!foldable(n, handles)) {
            continue;
        }
        TD_TRY(td_remap_release(ir, n, dead_values, &ok, err));
        struct td_err why = {0};
        if (ok && evaluate(ir, m, &r, n, &why) == TD_RESOURCE_EXHAUSTED && handles) {
            return td_fail(err, why.code, "%s", why.msg);
        }
    }
    td_remap_apply(ir, &r);
    return TD_OK;
}

enum td_code td_pass_fold(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    return td_pass_fold_nodes(ir, m, false, err);
}
