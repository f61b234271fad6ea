/* kernels/array/array_join_grad.c - what was joined is taken apart, and the other way round.
 *
 * A part of a Split whose gradient has not arrived counts as zeros. Where each input of a Concat begins is
 * asked of ConcatOffset, so that only the parts that lead to a source are cut out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_join_grad.h"

#include <string.h>

#include "kernels/formula/formula.h"

/* Room for n values until the program is made. */
static struct td_value *list_of(struct td_grad *g, int n)
{
    struct td_value *list = td_arena_alloc(g->e->arena, (size_t)n + 1, sizeof *list);
    if (list == NULL) {
        (void)td_emit_fail(g->e, TD_RESOURCE_EXHAUSTED, "no memory for the gradient of %s",
                           TD_NODE_STR(g->node));
    }
    return list;
}

/* ------------------------------------------------------------------ Concat, Pack */

void td_concat_grad(struct td_grad *g)
{
    const bool axis_first = strcmp(g->node->op->name, "Concat") == 0;
    const int n = g->node->n_in - 1, from = axis_first ? 1 : 0;
    const struct td_value dy = td_grad_at(g, 0);
    struct td_value *in = list_of(g, n + 1);
    if (n == 1) {
        td_grad_give(g, from, dy);
        return;
    }
    if (in == NULL) {
        return;
    }
    in[0] = td_f_cast(g->e, td_grad_in(g, axis_first ? 0 : n), TD_INT32);
    for (int i = 0; i < n; i++) {
        in[i + 1] = td_f_shape(g->e, td_grad_in(g, from + i));
    }
    const struct td_value at = td_emit(g->e, "ConcatOffset", in, n + 1, TD_ATTRS(TD_ATTR_OF_INT("N", n)));
    for (int i = 0; i < n; i++) {
        if (td_grad_wants(g, from + i)) {
            td_grad_give(g, from + i, td_f_slice(g->e, dy, td_f_port(at, i), in[i + 1]));
        }
    }
}

void td_pack_grad(struct td_grad *g)
{
    const int n = g->node->n_in;
    const struct td_value parts =
        td_emit(g->e, "Unpack", TD_IN(td_grad_at(g, 0)),
                TD_ATTRS(TD_ATTR_OF_INT("num", n), TD_ATTR_OF_INT("axis", td_attr_int(g->node, "axis"))));
    for (int i = 0; i < n; i++) {
        td_grad_give(g, i, td_f_port(parts, i));
    }
}

/* ------------------------------------------------------------------ Split, Unpack */

void td_unpack_grad(struct td_grad *g)
{
    const int n = g->node->n_out;
    struct td_value *parts = list_of(g, n);
    for (int i = 0; parts != NULL && i < n; i++) {
        parts[i] = td_grad_at(g, i);
    }
    if (parts != NULL) {
        td_grad_give(
            g, 0,
            td_emit(g->e, "Pack", parts, n,
                    TD_ATTRS(TD_ATTR_OF_INT("N", n), TD_ATTR_OF_INT("axis", td_attr_int(g->node, "axis")))));
    }
}

void td_split_grad(struct td_grad *g)
{
    const bool even = g->node->n_in == 2; /* Split(axis, value); SplitV(value, sizes, axis) */
    const int n = g->node->n_out, to = even ? 1 : 0;
    struct td_value *parts = list_of(g, n + 1);
    if (n == 1) {
        td_grad_give(g, to, td_grad_at(g, 0));
        return;
    }
    for (int i = 0; parts != NULL && i < n; i++) {
        parts[i] = td_grad_at(g, i);
    }
    if (parts != NULL) {
        parts[n] = td_grad_in(g, even ? 0 : 2);
        td_grad_give(g, to, td_emit(g->e, "ConcatV2", parts, n + 1, TD_ATTRS(TD_ATTR_OF_INT("N", n))));
    }
}

/* ------------------------------------------------------------------ rows sorted into several tensors */

/* Where each row of data went is found by sorting the rows' numbers likewise. */
void td_dynamic_partition_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const int n = g->node->n_out;
    const struct td_value data = td_grad_in(g, 0), partitions = td_grad_in(g, 1);
    const struct td_value numbers =
        td_f_reshape_like(e, td_f_range(e, td_f_int(e, 0), td_f_size(e, partitions)), partitions);
    const struct td_value went =
        td_f_as(e, "DynamicPartition", TD_IN(numbers, partitions), g->node, "num_partitions");
    struct td_value *in = list_of(g, 2 * n);
    for (int i = 0; in != NULL && i < n; i++) {
        in[i] = td_f_port(went, i);
        in[n + i] = td_grad_at(g, i);
    }
    if (in != NULL) {
        const struct td_value rows =
            td_emit(e, "ParallelDynamicStitch", in, 2 * n, TD_ATTRS(TD_ATTR_OF_INT("N", n)));
        td_grad_give(g, 0, td_f_reshape_like(e, rows, data));
    }
}

/* A row that another one took the place of gets its gradient all the same, as TensorFlow has it. */
void td_dynamic_stitch_grad(struct td_grad *g)
{
    const int n = g->node->n_in / 2;
    const struct td_value dy = td_grad_at(g, 0);
    for (int i = 0; i < n; i++) {
        if (td_grad_wants(g, n + i)) {
            td_grad_give(g, n + i, td_f_gather(g->e, dy, td_grad_in(g, i), 0));
        }
    }
}
