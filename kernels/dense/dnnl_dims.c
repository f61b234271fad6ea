/* kernels/dense/dnnl_dims.c - sizes and strides of a convolution, written down for oneDNN without moving a
 * byte.
 *
 *   ours     x [N, spatial.., C]    w [spatial.., C / groups, out]
 *   oneDNN   x [N, C, spatial..]    w [groups, out / groups, C / groups, spatial..] with the strides of ours
 *
 * A first axis that does nothing (size, window and result 1, no padding) is left out, so 1-D and 2-D
 * convolutions are given as 2-D. oneDNN counts dilation from 0.
 *
 * Does not: pick layouts or make primitives (kernels/dense/dnnl.c), check the sizes (kernels/nn/conv_spec.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl_dims.h"

void td_dnnl_dims_of(const struct td_conv *g, struct td_dnnl_dims *s)
{
    const struct td_window *a0 = &g->axis[0];
    bool flat = a0->in == 1 && a0->k == 1 && a0->before == 0 && a0->after == 0 && a0->out == 1;
    s->n_axes = flat ? 2 : 3;
    const struct td_window *axis = &g->axis[3 - s->n_axes];
    int64_t icg = g->ic / g->groups, ocg = g->oc / g->groups, stride = icg * g->oc;
    int at = 0;
    if (g->groups > 1) {
        s->w[at] = g->groups;
        s->w_strides[at++] = ocg;
    }
    s->w[at] = ocg;
    s->w_strides[at++] = 1;
    s->w[at] = icg;
    s->w_strides[at++] = g->oc;
    s->x[0] = s->y[0] = g->batch;
    s->x[1] = g->ic;
    s->y[1] = g->oc;
    s->w_rank = at + s->n_axes;
    for (int i = s->n_axes - 1; i >= 0; i--) {
        s->w[at + i] = axis[i].k;
        s->w_strides[at + i] = stride;
        stride *= axis[i].k;
        s->x[2 + i] = axis[i].in;
        s->y[2 + i] = axis[i].out;
        s->strides[i] = axis[i].stride;
        s->dilates[i] = axis[i].dilation - 1;
        s->before[i] = axis[i].before;
        s->after[i] = axis[i].after;
    }
}
