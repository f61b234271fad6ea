/* core/compile/channels_last.c - channels-first convolutions and pools as channels-last ones: Transpose, the
 * same op channels last, Transpose back.
 *
 * Kernels permute channels-first tensors inside anyway; with the Transposes in the open, those between
 * neighbours can meet and cancel (core/compile/pass_layout.c).
 *
 * One walk over the nodes in their order. A node in format NCHW or NCDHW has its attributes and its constant
 * sizes permuted in place; reads[], by node id, says what is to be read instead of it, and every later input
 * and fetch goes through that. The op's row says which input is the data and which lists sizes (struct
 * td_op_channels).
 *
 * Does not: touch gradients or ops without that row member, or move Transposes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/channels_last.h"

#include <string.h>

#include "core/base/mem.h"

static const struct td_perm to_last[] = {{4, {0, 2, 3, 1}}, {5, {0, 2, 3, 4, 1}}};

static bool may_change(const struct td_node *n, int sizes)
{
    bool ok = n->n_out == 1 && !n->out_ref[0];
    for (int i = 0; ok && i < n->n_in; i++) {
        ok = !n->in_ref[i] && !n->in[i].node->out_ref[n->in[i].port];
    }
    int count = 0;
    const int64_t *ksize = td_attr_ints(n, "ksize", &count);
    const struct td_tensor *shape = ok && sizes >= 0 ? td_known_value(n->in[sizes]) : NULL;
    bool pools_channels = count > 1 && ksize[1] != 1;
    return ok && !pools_channels && (sizes < 0 || (td_permute_is_index(shape) && shape->shape.rank == 1));
}

/* The permutation that n needs when it is in a channels-first format and may leave it; NULL. */
static const struct td_perm *find(const struct td_node *n)
{
    const struct td_op_channels *channels = n->op == NULL ? NULL : n->op->channels;
    if (channels == NULL) {
        return NULL;
    }
    const char *format = td_attr_str(n, "data_format");
    const struct td_perm *p = strcmp(format, "NCHW") == 0    ? &to_last[0]
                              : strcmp(format, "NCDHW") == 0 ? &to_last[1]
                                                             : NULL;
    return p != NULL && may_change(n, channels->sizes) ? p : NULL;
}

/* *reads: what is to be read in place of n. */
static void change(struct td_emitter *e, struct td_node *n, const struct td_perm *p, struct td_value *reads)
{
    static const char *const lists[] = {"strides", "dilations", "ksize"};
    const int data = n->op->channels->data, sizes = n->op->channels->sizes;
    const struct td_perm back = td_perm_inverse(p);
    e->at = n;
    for (int i = 0; i < 3; i++) {
        td_permute_ints(e, n, lists[i], p, 1);
    }
    td_permute_ints(e, n, "explicit_paddings", p, 2);
    td_emit_attr(e, n, &(struct td_attr)TD_ATTR_OF_TEXT("data_format", p->rank == 4 ? "NHWC" : "NDHWC"));
    if (sizes >= 0 && td_permute_has_numbers(n, sizes, p->rank)) {
        td_permute_numbers(e, n, sizes, p, 1);
    }
    const struct td_value last = td_emit_transpose(e, n->in[data], p);
    n->in[data] = last.node != NULL ? last : n->in[data];
    *reads = td_emit_transpose(e, (struct td_value){n, 0}, &back);
}

static bool any(const struct td_ir *ir)
{
    bool found = false;
    for (int k = 0; !found && k < ir->n_nodes; k++) {
        found = find(ir->nodes[k]) != NULL;
    }
    return found;
}

enum td_code td_channels_last(struct td_ir *ir, struct td_emitter *e)
{
    int n_nodes = ir->n_nodes;
    if (!any(ir)) {
        return TD_OK;
    }
    struct td_value *reads = td_arena_alloc(ir->arena, (size_t)n_nodes + 1, sizeof *reads);
    if (reads == NULL) {
        return td_no_memory(e->err, (size_t)n_nodes, "compiler pass");
    }
    for (int k = 0; k < n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            const struct td_value *now = &reads[n->in[i].node->id];
            n->in[i] = now->node != NULL ? *now : n->in[i];
        }
        const struct td_perm *p = find(n);
        if (p != NULL) {
            change(e, n, p, &reads[k]);
            TD_TRY(e->rc);
            ir->changes++;
        }
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        const struct td_value *now = &reads[ir->fetches[i].node->id];
        ir->fetches[i] = now->node != NULL ? *now : ir->fetches[i];
    }
    return TD_OK;
}
