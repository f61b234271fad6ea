/* kernels/cuda/pool.c - rows of the pools over two axes, and their gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/pool.h"

#include <string.h>

#include "kernels/cuda/cells.h"
#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/rows.h"
#include "kernels/nn/pool_spec.h"

/* From the shapes of the pool's input and output. */
static enum td_code describe(const struct td_node *n, const struct td_shape *x, const struct td_shape *y,
                             struct td_cuda_pool *s, struct td_err *err)
{
    struct td_pool p;
    TD_TRY(td_pool_attrs(n, x, &p, err));
    *s = (struct td_cuda_pool){.batch = p.batch,
                               .channels = p.channels,
                               .x = td_cuda_cells_of(x, &p.layout),
                               .y = td_cuda_cells_of(y, &p.layout)};
    for (int a = 0; a < 3; a++) {
        s->axis[a] = td_cuda_axis_of(&p.axis[a]);
    }
    return TD_OK;
}

/* Pools along the channels, and windows larger than the image, are the host's. */
static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_pool p;
    const bool average_grad = strcmp(q->node->op_name, "AvgPoolGrad") == 0;
    TD_TRY(td_pool_attrs(q->node, average_grad ? &q->out[0] : &q->in[0], &p, err));
    o->refusal = p.depth != 1 ? "it pools along the channels" : NULL;
    for (int a = 0; a < 3 && o->refusal == NULL; a++) {
        o->refusal = p.axis[a].k > p.axis[a].in ? "a window is larger than the image" : NULL;
    }
    return TD_OK;
}

static enum td_code run_max(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_pool s;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(describe(c->node, &x->shape, &y->shape, &s, err));
    return td_cuda_launched(
        c, td_cuda_pool_max(td_cuda_type_of(x->dtype), &s, x->data, y->data, td_cuda_stream_of(c)), err);
}

static enum td_code run_average(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_pool s;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(describe(c->node, &x->shape, &y->shape, &s, err));
    return td_cuda_launched(
        c, td_cuda_pool_average(td_cuda_type_of(x->dtype), &s, x->data, y->data, td_cuda_stream_of(c)), err);
}

static enum td_code run_max_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    struct td_cuda_pool s;
    const struct td_tensor *x = c->in[0], *y = c->in[1], *dy = c->in[2];
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(describe(c->node, &x->shape, &y->shape, &s, err));
    return td_cuda_launched(c,
                            td_cuda_pool_max_grad(td_cuda_type_of(x->dtype), &s, x->data, y->data, dy->data,
                                                  dx->data, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_average_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    struct td_cuda_pool s;
    const struct td_tensor *dy = c->in[1];
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(describe(c->node, &dx->shape, &dy->shape, &s, err));
    return td_cuda_launched(
        c,
        td_cuda_pool_average_grad(td_cuda_type_of(dx->dtype), &s, dy->data, dx->data, td_cuda_stream_of(c)),
        err);
}

#define ROWS(op, set)                                                                                        \
    static const struct td_kernel rows_##op[] = {{.name = "pool.cuda",                                       \
                                                  .device = TD_CUDA,                                         \
                                                  .types = {{"T", set}},                                     \
                                                  .library = TD_LIB_MODULE,                                  \
                                                  .prepare = prepare,                                        \
                                                  .run = run_##op},                                          \
                                                 {.name = NULL}};
ROWS(max, TD_CUDA_FLOATS)
ROWS(average, TD_CUDA_WIDE)
ROWS(max_grad, TD_CUDA_WIDE)
ROWS(average_grad, TD_CUDA_WIDE)

const struct td_op_rows td_cuda_rows_pool[] = {{"MaxPool", rows_max},
                                               {"AvgPool", rows_average},
                                               {"MaxPoolGrad", rows_max_grad},
                                               {"AvgPoolGrad", rows_average_grad},
                                               {NULL, NULL}};
