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

static enum td_code check_vector(const struct td_call *c, int i, int64_t n, struct td_err *err)
{
    const int64_t has = i == 0 ? n : td_tensor_count(c->in[i]);
    TD_FAIL_IF(has != n, err, INTERNAL, "%s: input %d has %lld numbers, and a row %lld", c->node->op_name, i,
               (long long)has, (long long)n);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_layer_norm f;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (!td_layer_norm_read(c->node, &f) || td_tensor_count(y) == 0) {
        return TD_OK;
    }
    const int64_t n = y->shape.dim[y->shape.rank - 1];
    TD_TRY(check_vector(c, f.scale, n, err));
    TD_TRY(check_vector(c, f.offset, n, err));
    const struct td_cuda_layer_norm l = {.from = td_cuda_type_of(c->in[0]->dtype),
                                         .to = td_cuda_type_of(y->dtype),
                                         .vectors =
                                             c->n_in > 1 ? td_cuda_type_of(c->in[1]->dtype) : TD_CUDA_FLOAT,
                                         .x = c->in[0]->data,
                                         .scale = f.scale > 0 ? c->in[f.scale]->data : NULL,
                                         .offset = f.offset > 0 ? c->in[f.offset]->data : NULL,
                                         .y = y->data,
                                         .rows = td_tensor_count(y) / n,
                                         .n = n,
                                         .epsilon = f.epsilon,
                                         .centred = f.centred};
    return td_cuda_launched(c, td_cuda_normalize_rows(&l, td_cuda_stream_of(c)), err);
}

#define FLOATS (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

TD_CUDA_ROWS(rows, "layer_norm.cuda", .types = {{"T", FLOATS}, {"Tout", FLOATS}}, .refuse = refuse_others,
             .run = run);

const struct td_op_rows td_cuda_rows_layer_norm[] = {{"_LayerNorm", rows}, {NULL, NULL}};
