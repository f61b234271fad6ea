/* kernels/cuda/conv.c - rows of the convolutions and their gradients, of one to three axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/conv.h"

#include "kernels/cuda/cells.h"
#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/rows.h"
#include "kernels/nn/conv_spec.h"

/* From the shapes of the forward input, filter and output. */
static enum td_code describe(const struct td_node *n, const struct td_shape *x, const struct td_shape *w,
                             const struct td_shape *y, struct td_cuda_conv *s, struct td_err *err)
{
    struct td_conv g;
    TD_TRY(td_conv_spec(n, x, w, &g, err));
    const struct td_data_layout layout = td_conv_layout(n);
    *s = (struct td_cuda_conv){.batch = g.batch,
                               .ic = g.ic,
                               .oc = g.oc,
                               .groups = g.groups,
                               .x = td_cuda_cells_of(x, &layout),
                               .y = td_cuda_cells_of(y, &layout)};
    for (int a = 0; a < 3; a++) {
        s->axis[a] = td_cuda_axis_of(&g.axis[a]);
    }
    return TD_OK;
}

static enum td_code run_forward(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_conv s;
    const struct td_tensor *x = c->in[0], *w = c->in[1];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(describe(c->node, &x->shape, &w->shape, &y->shape, &s, err));
    return td_cuda_launched(
        c,
        td_cuda_conv_forward(td_cuda_type_of(y->dtype), &s, x->data, w->data, y->data, td_cuda_stream_of(c)),
        err);
}

static enum td_code run_input(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    struct td_cuda_conv s;
    const struct td_tensor *w = c->in[1], *dy = c->in[2];
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    if (td_tensor_count(dx) == 0) {
        return TD_OK;
    }
    TD_TRY(describe(c->node, &dx->shape, &w->shape, &dy->shape, &s, err));
    return td_cuda_launched(
        c,
        td_cuda_conv_input(td_cuda_type_of(dx->dtype), &s, w->data, dy->data, dx->data, td_cuda_stream_of(c)),
        err);
}

static enum td_code run_filter(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dw;
    struct td_cuda_conv s;
    const struct td_tensor *x = c->in[0], *dy = c->in[2];
    TD_TRY(td_out(c, 0, NULL, &dw, err));
    if (td_tensor_count(dw) == 0) {
        return TD_OK;
    }
    TD_TRY(describe(c->node, &x->shape, &dw->shape, &dy->shape, &s, err));
    return td_cuda_launched(c,
                            td_cuda_conv_filter(td_cuda_type_of(dw->dtype), &s, x->data, dy->data, dw->data,
                                                td_cuda_stream_of(c)),
                            err);
}

#define ROWS(op)                                                                                             \
    static const struct td_kernel rows_##op[] = {{.name = "conv.cuda",                                       \
                                                  .device = TD_CUDA,                                         \
                                                  .types = {{"T", TD_CUDA_FLOATS}},                          \
                                                  .library = TD_LIB_MODULE,                                  \
                                                  .run = run_##op},                                          \
                                                 {.name = NULL}};
ROWS(forward)
ROWS(input)
ROWS(filter)

const struct td_op_rows td_cuda_rows_conv[] = {{"Conv2D", rows_forward},
                                               {"Conv2DBackpropInput", rows_input},
                                               {"Conv2DBackpropFilter", rows_filter},
                                               {"DepthwiseConv2dNative", rows_forward},
                                               {"DepthwiseConv2dNativeBackpropInput", rows_input},
                                               {"DepthwiseConv2dNativeBackpropFilter", rows_filter},
                                               {"Conv3D", rows_forward},
                                               {"Conv3DBackpropInputV2", rows_input},
                                               {"Conv3DBackpropFilterV2", rows_filter},
                                               {NULL, NULL}};
