/* core/compile/permute.c - the rules that many ops share, each a pair of functions: may the node be permuted,
 * and what changes in it then. Those of single ops stand beside them in kernels/.
 *
 *   element-wise   every input of the output's rank; constants of lower rank get the axes that they lack
 *   channels       the channels come to be first or last, and data_format says where
 *   reduce, along  the axes that an input lists are renumbered
 *   map            the last axes stay where they are
 *
 * td_permute_find() refuses, before any rule is asked, what no rule can judge: nodes with state, references
 * or control inputs, fused nodes and lifted loops. Anything not known to commute with Transpose cannot be
 * permuted. find() changes nothing, so that a pass may ask about many nodes before it decides.
 *
 * Does not: decide what is permuted, or make the Transposes of inputs and outputs
 * (core/compile/pass_layout.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"

#include "core/compile/ir.h"

#include <string.h>

static int out_rank(const struct td_emitter *e, const struct td_node *n, int port)
{
    return td_rank_of(e, (struct td_value){(struct td_node *)n, port});
}

/* ------------------------------------------------------------------ element-wise */

static bool all_ones(const struct td_shape *s)
{
    bool ones = s->rank >= 0;
    for (int i = 0; ones && i < s->rank; i++) {
        ones = s->dim[i] == 1;
    }
    return ones;
}

static struct td_permuted find_any(const struct td_emitter *e, const struct td_node *n,
                                   const struct td_perm *p, bool broadcasts)
{
    struct td_permuted permute = {0, 1};
    const struct td_attr *lenient = td_attr_find(n->attrs, n->n_attrs, "incompatible_shape_error");
    if (n->n_out != 1 || out_rank(e, n, 0) != p->rank || (lenient != NULL && !lenient->b[0])) {
        return td_permute_none;
    }
    for (int i = 0; i < n->n_in; i++) {
        const struct td_shape *s = td_emit_shape(e, n->in[i]);
        if (s->rank == p->rank) {
            permute.in |= (uint64_t)1 << i;
        } else if (s->rank != 0 && !(broadcasts && (all_ones(s) || td_known_value(n->in[i]) != NULL))) {
            return td_permute_none;
        }
    }
    return permute;
}

static struct td_permuted find_elementwise(const struct td_emitter *e, const struct td_node *n,
                                           const struct td_perm *p)
{
    return find_any(e, n, p, true);
}

static struct td_permuted find_select(const struct td_emitter *e, const struct td_node *n,
                                      const struct td_perm *p)
{
    return find_any(e, n, p, false);
}

/* A constant of lower rank is given the axes it lacks, then permuted; the fold pass computes that. */
static void apply_elementwise(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    const struct td_node *at = e->at;
    for (int i = 0; e->rc == TD_OK && i < n->n_in; i++) {
        const struct td_shape low = *td_emit_shape(e, n->in[i]);
        if (low.rank == p->rank || all_ones(&low)) {
            continue;
        }
        struct td_tensor wide;
        td_tensor_ref(&wide, td_known_value(n->in[i]));
        wide.shape = td_shape_of_rank(p->rank);
        for (int k = 0; k < p->rank; k++) {
            const int axis = k - (p->rank - low.rank);
            wide.shape.dim[k] = axis < 0 ? 1 : low.dim[axis];
        }
        e->at = n->in[i].node;
        const struct td_value permuted = td_emit_transpose(e, td_emit_const(e, &wide), p);
        n->in[i] = permuted.node != NULL ? permuted : n->in[i];
        td_tensor_clear(&wide);
    }
    e->at = at;
}

/* ------------------------------------------------------------------ ops with a channel axis */

int td_permute_channel_axis(const char *format, int rank)
{
    return strncmp(format, "NC", 2) == 0 && rank > 2 ? 1 : rank - 1;
}

struct td_permuted td_permute_find_channels(const struct td_emitter *e, const struct td_node *n,
                                            const struct td_perm *p)
{
    const bool may_be_first = td_attr_find(n->attrs, n->n_attrs, "data_format") != NULL && p->rank > 2;
    const int at = td_perm_axis(p, td_permute_channel_axis(td_attr_str(n, "data_format"), p->rank));
    const bool ok = td_rank_of(e, n->in[0]) == p->rank && (at == p->rank - 1 || (at == 1 && may_be_first));
    return ok ? td_permute_first : td_permute_none;
}

void td_permute_apply_channels(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    const char *format = td_attr_str(n, "data_format");
    if (td_attr_find(n->attrs, n->n_attrs, "data_format") == NULL) {
        return;
    }
    const bool first = td_perm_axis(p, td_permute_channel_axis(format, p->rank)) != p->rank - 1;
    const bool deep = strlen(format) == 5;
    const char *now = first ? (deep ? "NCDHW" : "NCHW") : (deep ? "NDHWC" : "NHWC");
    td_emit_attr(e, n, &(struct td_attr)TD_ATTR_OF_TEXT("data_format", now));
}

/* ------------------------------------------------------------------ along axes that an input lists */

static struct td_permuted find_reduce(const struct td_emitter *e, const struct td_node *n,
                                      const struct td_perm *p)
{
    uint32_t axes;
    if (n->n_out != 1 || td_rank_of(e, n->in[0]) != p->rank ||
        !td_permute_known_axes(n, n->op->permute->arg, p->rank, &axes)) {
        return td_permute_none;
    }
    if (td_attr_bool(n, "keep_dims")) {
        return td_permute_first;
    }
    return axes != 0 && td_perm_keeps_order(p, axes) ? (struct td_permuted){1, 0} : td_permute_none;
}

static struct td_permuted find_along(const struct td_emitter *e, const struct td_node *n,
                                     const struct td_perm *p)
{
    uint32_t axes;
    return td_rank_of(e, n->in[0]) == p->rank && td_permute_known_axes(n, n->op->permute->arg, p->rank, &axes)
               ? td_permute_first
               : td_permute_none;
}

static void apply_axes(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    td_permute_axes(e, n, n->op->permute->arg, p);
}

/* ------------------------------------------------------------------ along the last axes only */

static struct td_permuted find_map(const struct td_emitter *e, const struct td_node *n,
                                   const struct td_perm *p)
{
    const int last = n->op->permute->arg;
    const bool names_its_shape = td_attr_find(n->attrs, n->n_attrs, "shape") != NULL;
    bool ok = !names_its_shape && td_rank_of(e, n->in[0]) == p->rank && p->rank >= last;
    for (int i = p->rank - last; ok && i < p->rank; i++) {
        ok = p->at[i] == i;
    }
    for (int i = 0; ok && i < n->n_out; i++) {
        ok = out_rank(e, n, i) == p->rank;
    }
    return ok ? (struct td_permuted){1, td_permute_all(n->n_out)} : td_permute_none;
}

static struct td_permuted find_never(const struct td_emitter *e, const struct td_node *n,
                                     const struct td_perm *p)
{
    (void)e;
    (void)n;
    (void)p;
    return td_permute_none;
}

/* ------------------------------------------------------------------ the rules */

const struct td_permute_rule td_permute_elementwise = {.find = find_elementwise, .apply = apply_elementwise};
const struct td_permute_rule td_permute_select = {.find = find_select};
const struct td_permute_rule td_permute_like = {.find = find_elementwise};
const struct td_permute_rule td_permute_map = {.find = find_map, .arg = 0};
const struct td_permute_rule td_permute_map1 = {.find = find_map, .arg = 1};
const struct td_permute_rule td_permute_map2 = {.find = find_map, .arg = 2};
const struct td_permute_rule td_permute_map3 = {.find = find_map, .arg = 3};
const struct td_permute_rule td_permute_channels = {.find = td_permute_find_channels,
                                                    .apply = td_permute_apply_channels};
const struct td_permute_rule td_permute_reduce = {.find = find_reduce, .apply = apply_axes, .arg = 1};
const struct td_permute_rule td_permute_along1 = {.find = find_along, .apply = apply_axes, .arg = 1};
const struct td_permute_rule td_permute_along2 = {.find = find_along, .apply = apply_axes, .arg = 2};
const struct td_permute_rule td_permute_never = {.find = find_never};

static const struct td_permute_rule *rule_of(const struct td_node *n)
{
    const bool elementwise = (n->op->flags & TD_OP_ELEMENTWISE) != 0;
    return n->op->permute != NULL ? n->op->permute : elementwise ? &td_permute_elementwise : NULL;
}

struct td_permuted td_permute_find(const struct td_emitter *e, const struct td_node *n,
                                   const struct td_perm *p)
{
    const struct td_permute_rule *rule = n->op == NULL ? NULL : rule_of(n);
    if (rule == NULL || rule->find == NULL || n->fused != NULL || n->loop != NULL || n->n_control > 0 ||
        n->n_in == 0 || n->n_in > TD_PERMUTE_MAX_ARGS || n->n_out == 0 || n->n_out > TD_PERMUTE_MAX_ARGS ||
        (n->op->flags & TD_OP_STATEFUL) || td_ir_any_reference(n)) {
        return td_permute_none;
    }
    const struct td_permuted permute = rule->find(e, n, p);
    bool ok = permute.in != 0;
    for (int i = 0; ok && i < n->n_out; i++) {
        ok = !(permute.out >> i & 1u) || out_rank(e, n, i) == p->rank;
    }
    return ok ? permute : td_permute_none;
}

void td_permute_apply(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    const struct td_permute_rule *rule = rule_of(n);
    if (rule->apply != NULL && e->rc == TD_OK) {
        e->at = n;
        rule->apply(e, n, p);
    }
}
