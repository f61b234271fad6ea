/* kernels/cuda/nn/canvas.c - rows of DrawBoundingBoxes and V2, and of ImageProjectiveTransformV2 and V3.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/canvas.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code run_draw(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    const struct td_tensor *colours = c->n_in == 3 ? c->in[2] : NULL;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_drawing s = {.images = x->dim[0],
                                      .rows = x->dim[1],
                                      .columns = x->dim[2],
                                      .channels = x->dim[3],
                                      .boxes = c->in[1]->shape.dim[1],
                                      .n_colours = colours == NULL ? 0 : colours->shape.dim[0],
                                      .width = colours == NULL ? 0 : colours->shape.dim[1],
                                      .x = c->in[0]->data,
                                      .box = c->in[1]->data,
                                      .colour = colours == NULL ? NULL : colours->data,
                                      .y = y->data};
    return td_cuda_launched(c, td_cuda_draw(td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)), err);
}

static enum td_code prepare_project(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                    struct td_err *err)
{
    (void)err;
    o->refusal = q->n_in == 4 && td_shape_count(&q->in[3]) != 1 ? "several numbers to fill with" : NULL;
    return TD_OK;
}

static enum td_cuda_fill_mode mode_of(const struct td_node *n)
{
    const char *mode = td_attr_str(n, "fill_mode");
    return strcmp(mode, "REFLECT") == 0   ? TD_CUDA_FILL_REFLECT
           : strcmp(mode, "WRAP") == 0    ? TD_CUDA_FILL_WRAP
           : strcmp(mode, "NEAREST") == 0 ? TD_CUDA_FILL_NEAREST
                                          : TD_CUDA_FILL_CONSTANT;
}

static enum td_code run_project(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_projection s = {
        .images = x->dim[0],
        .rows = x->dim[1],
        .columns = x->dim[2],
        .channels = x->dim[3],
        .out_rows = y->shape.dim[1],
        .out_columns = y->shape.dim[2],
        .transforms = c->in[1]->shape.dim[0],
        .x = c->in[0]->data,
        .transform = c->in[1]->data,
        .y = y->data,
        .fill = mode_of(c->node),
        .nearest = strcmp(td_attr_str(c->node, "interpolation"), "NEAREST") == 0,
        .outside = c->n_in == 4 ? (double)TD_DATA(c->in[3], const float)[0] : 0};
    return td_cuda_launched(c, td_cuda_project(td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)), err);
}

TD_CUDA_ROWS(rows_draw, "canvas.cuda", .types = {{"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF)}}, .run = run_draw);
TD_CUDA_ROWS(rows_project, "canvas.cuda", .types = {{"dtype", TD_CUDA_NUMBERS | TD_BIT(TD_UINT8)}},
             .prepare = prepare_project, .run = run_project);

const struct td_op_rows td_cuda_rows_canvas[] = {{"DrawBoundingBoxes", rows_draw},
                                                 {"DrawBoundingBoxesV2", rows_draw},
                                                 {"ImageProjectiveTransformV2", rows_project},
                                                 {"ImageProjectiveTransformV3", rows_project},
                                                 {NULL, NULL}};
