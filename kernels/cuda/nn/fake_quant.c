/* kernels/cuda/nn/fake_quant.c - rows of FakeQuantWithMinMaxArgs, Vars, VarsPerChannel, and their gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/fake_quant.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

/* The ranges are the caller's to set. */
static struct td_cuda_fake_quant describe(const struct td_node *n, const struct td_shape *x)
{
    const bool channels = strstr(n->op_name, "PerChannel") != NULL, args = strstr(n->op_name, "Args") != NULL;
    const int64_t depth = channels ? x->dim[x->rank - 1] : 1;
    return (struct td_cuda_fake_quant){.outer = depth == 0 ? 0 : td_shape_count(x) / depth,
                                       .depth = depth,
                                       .low = td_attr_bool(n, "narrow_range") ? 1 : 0,
                                       .high = (float)((1 << td_attr_int(n, "num_bits")) - 1),
                                       .least = args ? (float)td_attr_float(n, "min") : 0,
                                       .most = args ? (float)td_attr_float(n, "max") : 0};
}

static enum td_code prepare_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    const struct td_cuda_fake_quant s = describe(q->node, &q->in[0]);
    (void)err;
    o->workspace_bytes = q->n_out == 3 ? td_cuda_fake_quant_work(&s) : 0;
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_fake_quant s = describe(c->node, &y->shape);
    if (c->n_in == 3) {
        s.min = c->in[1]->data;
        s.max = c->in[2]->data;
    }
    return td_cuda_launched(c, td_cuda_fake_quant_to(&s, c->in[0]->data, y->data, td_cuda_stream_of(c)), err);
}

static enum td_code run_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[3] = {NULL};
    for (int i = 0; i < c->n_out; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    struct td_cuda_fake_quant s = describe(c->node, &out[0]->shape);
    struct td_cuda_fake_quant_grad g = {
        .dy = c->in[0]->data, .x = c->in[1]->data, .dx = out[0]->data, .work = c->workspace};
    if (c->n_in == 4) {
        s.min = c->in[2]->data;
        s.max = c->in[3]->data;
        g.dmin = out[1]->data;
        g.dmax = out[2]->data;
    }
    return td_cuda_launched(c, td_cuda_fake_quant_back(&s, &g, td_cuda_stream_of(c)), err);
}

TD_CUDA_ROWS(rows, "fake_quant.cuda", .run = run);
TD_CUDA_ROWS(rows_grad, "fake_quant.cuda", .prepare = prepare_grad, .run = run_grad);

const struct td_op_rows td_cuda_rows_fake_quant[] = {{"FakeQuantWithMinMaxArgs", rows},
                                                     {"FakeQuantWithMinMaxVars", rows},
                                                     {"FakeQuantWithMinMaxVarsPerChannel", rows},
                                                     {"FakeQuantWithMinMaxArgsGradient", rows_grad},
                                                     {"FakeQuantWithMinMaxVarsGradient", rows_grad},
                                                     {"FakeQuantWithMinMaxVarsPerChannelGradient", rows_grad},
                                                     {NULL, NULL}};
