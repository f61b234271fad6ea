/* core/compile/channels_last.c - see channels_last.h.
 *
 * Kernels turn channels-first tensors inside anyway; with the Transposes in the open, those between
 * neighbours can meet and cancel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/channels_last.h"

#include <string.h>

#include "core/base/mem.h"

static const struct row {
    const char *op;
    int data, sizes; /* the inputs that hold the data and, -1 for none, the shape of the result */
} rows[] = {
    {"Conv2D", 0, -1},
    {"DepthwiseConv2dNative", 0, -1},
    {"Conv3D", 0, -1},
    {"Conv2DBackpropInput", 2, 0},
    {"DepthwiseConv2dNativeBackpropInput", 2, 0},
    {"Conv3DBackpropInputV2", 2, 0},
    {"MaxPool", 0, -1},
    {"AvgPool", 0, -1},
    {"MaxPool3D", 0, -1},
    {"AvgPool3D", 0, -1},
};

static const struct td_perm to_last[] = {{4, {0, 2, 3, 1}}, {5, {0, 2, 3, 4, 1}}};

static bool may_change(const struct td_node *n, const struct row *row)
{
    bool ok = n->n_out == 1 && !n->out_ref[0];
    for (int i = 0; ok && i < n->n_in; i++) {
        ok = !n->in_ref[i] && !n->in[i].node->out_ref[n->in[i].port];
    }
    int count = 0;
    const int64_t *ksize = td_attr_ints(n, "ksize", &count);
    const struct td_tensor *sizes = ok && row->sizes >= 0 ? td_node_const(n->in[row->sizes].node) : NULL;
    bool pools_channels = count > 1 && ksize[1] != 1;
    return ok && !pools_channels &&
           (row->sizes < 0 || (td_permute_is_index(sizes) && sizes->shape.rank == 1));
}

/* The row of an op in a channels-first format, and the permutation it needs. */
static const struct row *find(const struct td_node *n, const struct td_perm **p)
{
    for (size_t i = 0; n->op != NULL && i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(n->op_name, rows[i].op) == 0) {
            const char *format = td_attr_str(n, "data_format");
            *p = strcmp(format, "NCHW") == 0    ? &to_last[0]
                 : strcmp(format, "NCDHW") == 0 ? &to_last[1]
                                                : NULL;
            return *p != NULL && may_change(n, &rows[i]) ? &rows[i] : NULL;
        }
    }
    return NULL;
}

static enum td_code change(const struct td_permuter *t, struct td_node *n, const struct row *row,
                           const struct td_perm *p, struct td_value *reads)
{
    static const char *const lists[] = {"strides", "dilations", "ksize"};
    for (int i = 0; i < 3; i++) {
        TD_TRY(td_permute_ints(t, n, lists[i], p, 1));
    }
    TD_TRY(td_permute_ints(t, n, "explicit_paddings", p, 2));
    TD_TRY(td_permute_set_text(t, n, "data_format", p->rank == 4 ? "NHWC" : "NDHWC"));
    if (row->sizes >= 0 && td_tensor_count(td_node_const(n->in[row->sizes].node)) == p->rank) {
        TD_TRY(td_permute_numbers(t, n, row->sizes, p, 1));
    }
    TD_TRY(td_permute_add_transpose(t, n, n->in[row->data], p, &n->in[row->data]));
    struct td_perm back = td_perm_inverse(p);
    return td_permute_add_transpose(t, n, (struct td_value){n, 0}, &back, reads);
}

static bool any(const struct td_ir *ir)
{
    const struct td_perm *p;
    bool found = false;
    for (int k = 0; !found && k < ir->n_nodes; k++) {
        found = find(ir->nodes[k], &p) != NULL;
    }
    return found;
}

enum td_code td_channels_last(const struct td_permuter *t)
{
    struct td_ir *ir = t->ir;
    int n_nodes = ir->n_nodes;
    if (!any(ir)) {
        return TD_OK;
    }
    struct td_value *reads = td_arena_alloc(ir->arena, (size_t)n_nodes + 1, sizeof *reads);
    if (reads == NULL) {
        return td_no_memory(t->err, (size_t)n_nodes, "compiler pass");
    }
    for (int k = 0; k < n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            const struct td_value *now = &reads[n->in[i].node->id];
            n->in[i] = now->node != NULL ? *now : n->in[i];
        }
        const struct td_perm *p;
        const struct row *row = find(n, &p);
        if (row != NULL) {
            TD_TRY(change(t, n, row, p, &reads[k]));
        }
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        const struct td_value *now = &reads[ir->fetches[i].node->id];
        ir->fetches[i] = now->node != NULL ? *now : ir->fetches[i];
    }
    return TD_OK;
}
