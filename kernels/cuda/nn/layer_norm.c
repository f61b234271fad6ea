/* kernels/cuda/nn/layer_norm.c - rows of _LayerNorm (kernels/nn/layer_norm.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/layer_norm.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"
#include "kernels/nn/layer_norm.h"

/* Half to bfloat16 and back: no model does that. */
static const char *refuse_others(const struct td_node *n)
{
    const enum td_dtype from = td_attr_type(n, "T"), to = td_attr_type(n, "Tout");
    return from != to && from != TD_FLOAT && to != TD_FLOAT ? "half as bfloat16" : td_layer_norm_refuses(n);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_layer_norm f;
    struct td_layer_norm_sizes s;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (!td_layer_norm_read(c->node, &f) || td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(!td_layer_norm_sizes_of(&f, &c->in[0]->shape, td_layer_norm_vector(c->in, c->n_in), &s), err,
               INTERNAL, "%s: vectors that do not fit", c->node->op_name);
    const struct td_cuda_layer_norm l = {.from = td_cuda_type_of(c->in[0]->dtype),
                                         .to = td_cuda_type_of(y->dtype),
                                         .vectors =
                                             c->n_in > 1 ? td_cuda_type_of(c->in[1]->dtype) : TD_CUDA_FLOAT,
                                         .x = c->in[0]->data,
                                         .scale = f.scale > 0 ? c->in[f.scale]->data : NULL,
                                         .offset = f.offset > 0 ? c->in[f.offset]->data : NULL,
                                         .y = y->data,
                                         .rows = s.rows,
                                         .n = s.n,
                                         .inner = s.inner,
                                         .last = s.last,
                                         .width = s.width,
                                         .epsilon = f.epsilon,
                                         .centred = f.centred};
    return td_cuda_launched(c, td_cuda_normalize_rows(&l, td_cuda_stream_of(c)), err);
}

#define FLOATS (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

TD_CUDA_ROWS(rows, "layer_norm.cuda", .types = {{"T", FLOATS}, {"Tout", FLOATS}}, .refuse = refuse_others,
             .run = run);

const struct td_op_rows td_cuda_rows_layer_norm[] = {{"_LayerNorm", rows}, {NULL, NULL}};
