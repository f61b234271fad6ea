/* kernels/nn/conv_grad.c - gradients of convolutions, in terms of each other.
 *
 * A convolution and its two gradients are one trilinear form of (x, w, dy): Forward(x, w), ToInput(w, dy) and
 * ToFilter(x, dy) each solve it for the third. So the gradient of any of the three by one of its operands is
 * another one of them, with what arrived in the place of the operand that the op makes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/conv_grad.h"

#include <string.h>

#include "kernels/formula/formula.h"

static const struct names {
    const char *forward, *to_input, *to_filter;
} families[] = {
    {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"},
    {"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"},
    {"DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"},
};

/* The family whose names begin as the op's: "Conv2DBackpropInput" is of Conv2D. */
static const struct names *family_of(const struct td_grad *g)
{
    const size_t n = sizeof families / sizeof families[0];
    for (size_t i = 0; i < n; i++) {
        if (strncmp(g->node->op->name, families[i].forward, strlen(families[i].forward)) == 0) {
            return &families[i];
        }
    }
    return &families[0];
}

static struct td_value make(struct td_grad *g, const char *op, const struct td_value *in, int n_in)
{
    return td_f_as(g->e, op, in, n_in, g->node,
                   "strides,use_cudnn_on_gpu,padding,explicit_paddings,data_format,dilations");
}

static struct td_value forward(struct td_grad *g, struct td_value x, struct td_value w)
{
    return make(g, family_of(g)->forward, TD_IN(x, w));
}

/* like: what the result is shaped as. */
static struct td_value to_input(struct td_grad *g, struct td_value like, struct td_value w,
                                struct td_value dy)
{
    return make(g, family_of(g)->to_input, TD_IN(td_f_shape(g->e, like), w, dy));
}

static struct td_value to_filter(struct td_grad *g, struct td_value x, struct td_value like,
                                 struct td_value dy)
{
    return make(g, family_of(g)->to_filter, TD_IN(x, td_f_shape(g->e, like), dy));
}

void td_conv_grad(struct td_grad *g)
{
    const struct td_value x = td_grad_in(g, 0), w = td_grad_in(g, 1), dy = td_grad_at(g, 0);
    if (td_grad_wants(g, 0)) {
        td_grad_give(g, 0, to_input(g, x, w, dy));
    }
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, to_filter(g, x, w, dy));
    }
}

void td_conv_to_input_grad(struct td_grad *g)
{
    const struct td_value w = td_grad_in(g, 1), dy = td_grad_in(g, 2), dz = td_grad_at(g, 0);
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, to_filter(g, dz, w, dy));
    }
    if (td_grad_wants(g, 2)) {
        td_grad_give(g, 2, forward(g, dz, w));
    }
}

void td_conv_to_filter_grad(struct td_grad *g)
{
    const struct td_value x = td_grad_in(g, 0), dy = td_grad_in(g, 2), dz = td_grad_at(g, 0);
    if (td_grad_wants(g, 0)) {
        td_grad_give(g, 0, to_input(g, x, dz, dy));
    }
    if (td_grad_wants(g, 2)) {
        td_grad_give(g, 2, forward(g, x, dz));
    }
}
