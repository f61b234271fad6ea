/* kernels/sparse/ragged_grad.c - gradients by the flat values of ragged tensors.
 *
 * The gradient at a ragged tensor in a variant is a ragged tensor of the same splits in a variant.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/sparse/ragged_grad.h"

#include <string.h>

#include "kernels/formula/formula.h"

void td_ragged_to_sparse_grad(struct td_grad *g)
{
    const int values = g->node->n_in - 1;
    td_grad_give(g, values, td_f_reshape_like(g->e, td_grad_at(g, 1), td_grad_in(g, values)));
}

/* Row i of params is values [splits[i], splits[i + 1]) of the innermost: slices of those rows. */
void td_ragged_gather_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const int values = g->node->n_in - 2;
    const struct td_value rows = td_f_reshape(e, td_grad_in(g, values + 1), td_f_ints(e, -1));
    struct td_value splits = td_grad_in(g, 0);
    for (int i = 1; i < values; i++) {
        splits = td_f_gather(e, td_grad_in(g, i), splits, 0);
    }
    const struct td_value from = td_f_gather(e, splits, rows, 0),
                          to = td_f_gather(e, td_f_part(e, splits, 1, -1), rows, 0);
    const struct td_value all = td_f_3(e, "RaggedRange", from, to, td_f_number(e, from, 1));
    td_grad_give_slices(g, values,
                        (struct td_slices){.values = td_grad_at(g, g->node->n_out - 1),
                                           .indices = td_f_port(all, 1),
                                           .shape = td_f_shape(e, td_grad_in(g, values))});
}

/* ------------------------------------------------------------------ RaggedTensorToTensor */

/* Axes of the output that the row partitions make. */
static int outer_axes(const struct td_node *n)
{
    int count, axes = 1;
    const struct td_bytes *type = td_attr_strs(n, "row_partition_types", &count);
    for (int i = 0; i < count; i++) {
        axes += strcmp(type[i].p, "FIRST_DIM_SIZE") != 0;
    }
    return axes;
}

/* The number of the value that each place of the output shows, -1 for the default. */
static struct td_value shown_values(struct td_grad *g, struct td_value dy)
{
    struct td_emitter *e = g->e;
    const int n = g->node->n_in;
    struct td_value *in = td_arena_alloc(e->arena, (size_t)n, sizeof *in);
    if (in == NULL) {
        return td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for the gradient of %s",
                            TD_NODE_STR(g->node));
    }
    memcpy(in, g->node->in, (size_t)n * sizeof *in);
    in[0] = td_f_part(e, td_f_shape(e, dy), 0, outer_axes(g->node));
    const struct td_value rows = td_f_element(e, td_f_shape(e, td_grad_in(g, 1)), 0);
    in[1] = td_f_range(e, td_f_int(e, 0), rows);
    in[2] = td_f_int(e, -1);
    return td_f_as(e, "RaggedTensorToTensor", in, n, g->node,
                   "num_row_partition_tensors,row_partition_types");
}

void td_ragged_to_tensor_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), none = td_f_int(e, -1);
    const struct td_value shown = td_f_reshape(e, shown_values(g, dy), td_f_ints(e, -1));
    const struct td_value shape = td_f_shape(e, td_grad_in(g, 1));
    const struct td_value places = td_f_reshape(e, td_f_size(e, shown), td_f_ints(e, 1));
    const struct td_value flat =
        td_f_reshape(e, dy, td_f_concat(e, TD_IN(places, td_f_part(e, shape, 1, -1)), 0));
    td_grad_give(g, 1, td_f_3(e, "UnsortedSegmentSum", flat, shown, td_f_element(e, shape, 0)));
    if (td_grad_wants(g, 2)) {
        const struct td_value missing = td_f_where(e, td_f_2(e, "Equal", shown, none), td_f_int(e, 0), none);
        td_grad_give(
            g, 2,
            td_f_sum_to(e, td_f_3(e, "UnsortedSegmentSum", flat, missing, td_f_int(e, 1)), td_grad_in(g, 2)));
    }
}

/* ------------------------------------------------------------------ in a variant */

void td_ragged_to_variant_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const int values = g->node->n_in - 1;
    const struct td_value dense = td_grad_in(g, values);
    const struct td_value splits = values == 0 ? td_f_ints(e, 0) : td_grad_in(g, 0);
    td_grad_give(g, values,
                 td_emit(e, "RaggedTensorToVariantGradient",
                         TD_IN(td_grad_at(g, 0), splits, td_f_shape(e, dense)),
                         TD_ATTRS(TD_ATTR_OF_TYPE("Tvalues", td_dtype_of(dense)))));
}

/* A vector of variants is split along the outermost axis. */
void td_ragged_from_variant_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const int n = g->node->n_out;
    const int64_t inner = td_attr_int(g->node, "input_ragged_rank"), outer = n - 1;
    const bool batched = inner < 0 ? outer > 0 : outer > inner;
    struct td_value *in = td_arena_alloc(e->arena, (size_t)n, sizeof *in);
    if (in == NULL || (inner >= 0 && outer > inner + 1)) {
        (void)td_emit_fail(e, TD_UNIMPLEMENTED, "%s: the gradient of more than one axis of variants",
                           TD_NODE_STR(g->node));
        return;
    }
    for (int i = 0; i < n - 1; i++) {
        in[i] = td_grad_out(g, i);
    }
    in[n - 1] = td_grad_at(g, n - 1);
    td_grad_give(
        g, 0,
        td_emit(e, "RaggedTensorToVariant", in, n,
                TD_ATTRS(TD_ATTR_OF_INT("RAGGED_RANK", n - 1), TD_ATTR_OF_BOOL("batched_input", batched),
                         TD_ATTR_OF_TYPE("Tsplits", td_attr_type(g->node, "Tsplits")))));
}
