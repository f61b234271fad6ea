/* kernels/math/reduce_axes.c - a list of axes as a mask of bits, and the result's shape from it.
 *
 * Ranks are at most TD_MAX_RANK, so a mask of 32 bits holds them; an axis that is named twice shows as a bit
 * that is set already. While the axes are unknown, the result's rank follows from their number, since each
 * names another axis; with keep_dims it is the input's. An input of unknown rank leaves the result unknown.
 *
 * Does not: reduce (kernels/math's reductions lay the axes out for their loops themselves).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/reduce_axes.h"

enum td_code td_reduce_axes(const struct td_node *n, int rank, const struct td_tensor *axes, uint32_t *mask,
                            struct td_err *err)
{
    *mask = 0;
    int64_t count = td_tensor_count(axes);
    for (int64_t i = 0; i < count; i++) {
        int64_t value = td_tensor_int(axes, i);
        int axis;
        TD_FAIL_IF(!td_shape_axis(rank, value, &axis), err, INVALID_ARGUMENT,
                   "%s: Invalid reduction dimension (%lld for input with %d dimension(s))", TD_NODE_STR(n),
                   (long long)value, rank);
        TD_FAIL_IF(*mask >> axis & 1, err, INVALID_ARGUMENT,
                   "%s: Invalid reduction arguments: Axes contains duplicate dimension: %d", TD_NODE_STR(n),
                   axis);
        *mask |= 1u << axis;
    }
    return TD_OK;
}

enum td_code td_infer_reduce(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *in = &c->in[0], *axes = &c->in[1];
    bool keep = td_attr_bool(c->node, "keep_dims");
    if (in->rank < 0) {
        return TD_OK;
    }
    if (c->value[1] == NULL) {
        int64_t named = axes->rank < 0 ? -1 : td_shape_count(axes);
        if (keep) {
            c->out[0] = td_shape_of_rank(in->rank);
        } else if (named == in->rank) {
            c->out[0] = td_shape_scalar();
        } else if (named >= 0 && named < in->rank) {
            c->out[0] = td_shape_of_rank(in->rank - (int)named);
        }
        return TD_OK;
    }
    uint32_t mask;
    TD_TRY(td_reduce_axes(c->node, in->rank, c->value[1], &mask, err));
    struct td_shape out = {0};
    for (int i = 0; i < in->rank; i++) {
        if (!(mask >> i & 1)) {
            out.dim[out.rank++] = in->dim[i];
        } else if (keep) {
            out.dim[out.rank++] = 1;
        }
    }
    c->out[0] = out;
    return TD_OK;
}
