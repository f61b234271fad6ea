/* kernels/nn/pool_grad.c - gradients of pools: each is an op of the same windows.
 *
 * A maximum's gradient goes where the maximum was found; where that is does not depend on the gradient, so
 * that MaxPoolGrad and MaxPoolGradGrad are each other's gradients, and nothing goes to the images that they
 * look for the maxima in: zeros, as TensorFlow has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/pool_grad.h"

#include <string.h>

#include "kernels/formula/formula.h"

#define WINDOW "ksize,strides,padding,data_format"

/* An op over these images and `last`, with the windows of g's node: attributes, or inputs `sizes` and the one
 * behind it. */
static struct td_value same_windows(struct td_grad *g, const char *op, const struct td_value images[2],
                                    struct td_value last, int sizes)
{
    const struct td_node *n = g->node;
    if (strstr(op, "V2") != NULL) {
        const struct td_value k = td_grad_in(g, sizes), strides = td_grad_in(g, sizes + 1);
        return td_f_as(g->e, op, TD_IN(images[0], images[1], last, k, strides), n, "padding,data_format");
    }
    const bool cut = strcmp(op, "MaxPoolGrad") == 0; /* the one that knows padding of so many cells */
    return td_f_as(g->e, op, TD_IN(images[0], images[1], last), n,
                   cut ? WINDOW ",explicit_paddings" : WINDOW);
}

void td_max_pool_grad(struct td_grad *g)
{
    const char *op = g->node->op->name;
    const bool v2 = strcmp(op, "MaxPoolV2") == 0, volume = strcmp(op, "MaxPool3D") == 0;
    const struct td_value images[2] = {td_grad_in(g, 0), td_grad_out(g, 0)};
    td_grad_give(g, 0,
                 same_windows(g,
                              v2       ? "MaxPoolGradV2"
                              : volume ? "MaxPool3DGrad"
                                       : "MaxPoolGrad",
                              images, td_grad_at(g, 0), 1));
}

void td_max_pool_argmax_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 td_f_as(g->e, "MaxPoolGradWithArgmax",
                         TD_IN(td_grad_in(g, 0), td_grad_at(g, 0), td_grad_out(g, 1)), g->node,
                         "ksize,strides,padding,include_batch_in_index"));
}

/* MaxPoolGrad's of MaxPoolGradGrad's, or the other way round. */
static void other_way(struct td_grad *g, const char *op)
{
    const struct td_value images[2] = {td_grad_in(g, 0), td_grad_in(g, 1)};
    for (int i = 0; i < 2; i++) {
        if (td_grad_wants(g, i)) {
            td_grad_give(g, i, td_f_zeros_like(g->e, images[i]));
        }
    }
    if (!td_grad_wants(g, 2)) {
        return;
    }
    if (strcmp(td_attr_str(g->node, "padding"), "EXPLICIT") == 0) {
        td_emit_fail(g->e, TD_UNIMPLEMENTED,
                     "%s has no gradient with padding 'EXPLICIT': MaxPoolGradGrad has no such windows",
                     TD_NODE_STR(g->node));
        return;
    }
    td_grad_give(g, 2, same_windows(g, op, images, td_grad_at(g, 0), 3));
}

void td_max_pool_grad_grad(struct td_grad *g)
{
    const char *op = g->node->op->name;
    other_way(g, strcmp(op, "MaxPoolGradV2") == 0   ? "MaxPoolGradGradV2"
                 : strcmp(op, "MaxPool3DGrad") == 0 ? "MaxPool3DGradGrad"
                                                    : "MaxPoolGradGrad");
}

void td_max_pool_grad_grad_grad(struct td_grad *g)
{
    const char *op = g->node->op->name;
    other_way(g, strcmp(op, "MaxPoolGradGradV2") == 0   ? "MaxPoolGradV2"
                 : strcmp(op, "MaxPool3DGradGrad") == 0 ? "MaxPool3DGrad"
                                                        : "MaxPoolGrad");
}

static const char *averages(const struct td_grad *g, const char *planes, const char *volumes)
{
    return strncmp(g->node->op->name, "AvgPool3D", 9) == 0 ? volumes : planes;
}

void td_avg_pool_grad(struct td_grad *g)
{
    const struct td_value shape = td_f_shape(g->e, td_grad_in(g, 0));
    td_grad_give(g, 0,
                 td_f_as(g->e, averages(g, "AvgPoolGrad", "AvgPool3DGrad"), TD_IN(shape, td_grad_at(g, 0)),
                         g->node, WINDOW));
}

void td_avg_pool_grad_grad(struct td_grad *g)
{
    td_grad_give(
        g, 1, td_f_as(g->e, averages(g, "AvgPool", "AvgPool3D"), TD_IN(td_grad_at(g, 0)), g->node, WINDOW));
}
