/* kernels/nn/conv_infer.c - output shapes of convolutions and of their gradients, and what must fit together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/nn/conv_spec.h"

enum td_code td_conv_forward_infer(struct td_infer *c, struct td_err *err)
{
    struct td_conv g;
    TD_TRY(td_conv_spec(c->node, &c->in[0], &c->in[1], &g, err));
    if (strcmp(c->node->op_name, "Conv") == 0) {
        int64_t groups = td_attr_int(c->node, "groups");
        TD_FAIL_IF(groups < 1 || (g.groups > 0 && g.groups != groups), err, INVALID_ARGUMENT,
                   "%s: groups is %lld, but input %s and filter %s make %lld", TD_NODE_STR(c->node),
                   (long long)groups, TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]), (long long)g.groups);
        if (c->in[0].rank < 0) {
            return TD_OK;
        }
    }
    c->out[0] = td_conv_out_shape(c->node, &g, &c->in[0]);
    return TD_OK;
}

/* out_backprop must be what the forward convolution would have made. */
static enum td_code check_backprop(const struct td_infer *c, const struct td_conv *g,
                                   const struct td_shape *dy, struct td_err *err)
{
    struct td_data_layout l = td_conv_layout(c->node);
    if (dy->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(dy->rank != l.n_spatial + 2, err, INVALID_ARGUMENT,
               "%s: out_backprop must be %d-dimensional: %s", TD_NODE_STR(c->node), l.n_spatial + 2,
               TD_SHAPE_STR(dy));
    TD_FAIL_IF(g->batch >= 0 && dy->dim[0] >= 0 && g->batch != dy->dim[0], err, INVALID_ARGUMENT,
               "%s: input and out_backprop must have the same batch size, got %lld and %lld",
               TD_NODE_STR(c->node), (long long)g->batch, (long long)dy->dim[0]);
    TD_FAIL_IF(g->oc >= 0 && dy->dim[l.channel] >= 0 && g->oc != dy->dim[l.channel], err, INVALID_ARGUMENT,
               "%s: filter and out_backprop must have the same out_depth, got %lld and %lld",
               TD_NODE_STR(c->node), (long long)g->oc, (long long)dy->dim[l.channel]);
    for (int i = 0; i < l.n_spatial; i++) {
        const struct td_window *w = &g->axis[3 - l.n_spatial + i];
        int64_t got = dy->dim[l.spatial + i];
        TD_FAIL_IF(w->out >= 0 && got >= 0 && w->out != got, err, INVALID_ARGUMENT,
                   "%s: Size of out_backprop doesn't match computed: actual = %lld, computed = %lld, "
                   "spatial_dim: %d "
                   "input: %lld filter: %lld stride: %lld dilation: %lld",
                   TD_NODE_STR(c->node), (long long)got, (long long)w->out, i, (long long)w->in,
                   (long long)w->k, (long long)w->stride, (long long)w->dilation);
    }
    return TD_OK;
}

/* The forward input's shape as argument 0 spells it: all dimensions, or the spatial ones only (Conv2D). */
static enum td_code input_sizes(const struct td_infer *c, const struct td_shape *filter,
                                const struct td_shape *dy, struct td_shape *out, struct td_err *err)
{
    struct td_data_layout l = td_conv_layout(c->node);
    struct td_shape given;
    TD_TRY(td_infer_shape_value(c, 0, false, &given, err));
    if (given.rank != l.n_spatial || l.n_spatial != 2) {
        TD_FAIL_IF(given.rank >= 0 && given.rank != l.n_spatial + 2, err, INVALID_ARGUMENT,
                   "%s: input_sizes must have %d elements, got %d", TD_NODE_STR(c->node), l.n_spatial + 2,
                   given.rank);
        *out = given.rank < 0 ? td_shape_of_rank(l.n_spatial + 2) : given;
        return TD_OK;
    }
    *out = td_shape_of_rank(4);
    out->dim[0] = dy->rank > 0 ? dy->dim[0] : -1;
    out->dim[l.channel] = filter->rank == 4 ? filter->dim[2] : -1;
    out->dim[l.spatial] = given.dim[0];
    out->dim[l.spatial + 1] = given.dim[1];
    return TD_OK;
}

enum td_code td_conv_input_grad_infer(struct td_infer *c, struct td_err *err)
{
    bool shape_only = strcmp(c->node->op_name, "Conv3DBackpropInput") != 0;
    struct td_shape x = c->in[0];
    if (shape_only) {
        TD_TRY(input_sizes(c, &c->in[1], &c->in[2], &x, err));
    }
    struct td_conv g;
    TD_TRY(td_conv_spec(c->node, &x, &c->in[1], &g, err));
    TD_TRY(check_backprop(c, &g, &c->in[2], err));
    if (x.rank > 0 && x.dim[0] < 0 && c->in[2].rank > 0) {
        x.dim[0] = c->in[2].dim[0];
    }
    c->out[0] = x;
    return TD_OK;
}

enum td_code td_conv_filter_grad_infer(struct td_infer *c, struct td_err *err)
{
    struct td_shape w = c->in[1];
    if (strcmp(c->node->op_name, "Conv3DBackpropFilter") != 0) {
        TD_TRY(td_infer_shape_value(c, 1, false, &w, err));
    }
    struct td_conv g;
    TD_TRY(td_conv_spec(c->node, &c->in[0], &w, &g, err));
    TD_TRY(check_backprop(c, &g, &c->in[2], err));
    c->out[0] = w.rank < 0 ? td_shape_of_rank(td_conv_axes(c->node) + 2) : w;
    return TD_OK;
}
