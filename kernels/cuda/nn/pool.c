/* kernels/cuda/nn/pool.c - rows of the pools over two axes and three, and their gradients. Those that are
 * told where maxima are (MaxPoolGradWithArgmax) are pool_places.c's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/pool.h"

#include <string.h>

#include "kernels/cuda/base/cells.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"
#include "kernels/nn/pool_spec.h"

/* The windows over x: of attributes, or of the two last of n_in inputs, which are on the host. */
static enum td_code windows_of(const struct td_node *n, const struct td_tensor *const *in, int n_in,
                               const struct td_shape *x, struct td_pool *p, struct td_err *err)
{
    return strstr(n->op_name, "V2") != NULL ? td_pool_values(n, x, in[n_in - 2], in[n_in - 1], p, err)
                                            : td_pool_attrs(n, x, p, err);
}

/* From the shapes of the pool's input and output. */
static enum td_code describe(const struct td_call *c, const struct td_shape *x, const struct td_shape *y,
                             struct td_cuda_pool *s, struct td_err *err)
{
    struct td_pool p;
    TD_TRY(windows_of(c->node, c->in, c->n_in, x, &p, err));
    *s = (struct td_cuda_pool){.batch = p.batch,
                               .channels = p.channels,
                               .x = td_cuda_cells_of(x, &p.layout),
                               .y = td_cuda_cells_of(y, &p.layout),
                               .volume = td_pool_is_3d(c->node)};
    for (int a = 0; a < 3; a++) {
        s->axis[a] = td_cuda_axis_of(&p.axis[a]);
    }
    return TD_OK;
}

static bool is(const struct td_kernel_query *q, const char *op)
{
    return strcmp(q->node->op_name, op) == 0;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_pool p;
    const bool average_grad = is(q, "AvgPoolGrad") || is(q, "AvgPool3DGrad");
    if (strstr(q->node->op_name, "V2") != NULL &&
        (q->value[q->n_in - 2] == NULL || q->value[q->n_in - 1] == NULL)) {
        o->refusal = "its windows are not known before";
        return TD_OK;
    }
    TD_TRY(windows_of(q->node, q->value, q->n_in, average_grad ? &q->out[0] : &q->in[0], &p, err));
    o->refusal = p.depth != 1 ? "it pools along the channels" : NULL;
    for (int a = 0; a < 3 && average_grad; a++) {
        o->refusal = p.axis[a].k > p.axis[a].in ? "a window is larger than the image" : o->refusal;
    }
    if (is(q, "MaxPoolGrad") || is(q, "MaxPoolGradV2")) {
        o->workspace_bytes = (size_t)td_shape_count(&q->in[1]) * sizeof(int32_t);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ forwards */

typedef int pool_fn(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                    struct td_cuda_stream *stream);

static enum td_code forwards(struct td_call *c, pool_fn *fn, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_pool s;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(describe(c, &x->shape, &y->shape, &s, err));
    return td_cuda_launched(c, fn(td_cuda_type_of(x->dtype), &s, x->data, y->data, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_max(struct td_call *c, struct td_err *err)
{
    return forwards(c, td_cuda_pool_max, err);
}

static enum td_code run_average(struct td_call *c, struct td_err *err)
{
    return forwards(c, td_cuda_pool_average, err);
}

static enum td_code run_argmax(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y, *at;
    struct td_cuda_pool s;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &at, err));
    TD_TRY(describe(c, &x->shape, &y->shape, &s, err));
    const bool whole = td_attr_bool(c->node, "include_batch_in_index");
    const int64_t image = whole || s.batch == 0 ? 0 : td_tensor_count(x) / s.batch;
    return td_cuda_launched(c,
                            td_cuda_pool_argmax(td_cuda_type_of(x->dtype), &s, x->data, y->data,
                                                td_cuda_type_of(at->dtype), at->data, image,
                                                td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ backwards */

static enum td_code run_max_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    struct td_cuda_pool s;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(describe(c, &c->in[0]->shape, &c->in[1]->shape, &s, err));
    const struct td_cuda_pool_grad g = {
        .x = c->in[0]->data, .y = c->in[1]->data, .dy = c->in[2]->data, .dx = dx->data, .work = c->workspace};
    return td_cuda_launched(
        c, td_cuda_pool_max_grad(td_cuda_type_of(dx->dtype), &s, &g, td_cuda_stream_of(c)), err);
}

static enum td_code run_average_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    struct td_cuda_pool s;
    const struct td_tensor *dy = c->in[1];
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(describe(c, &dx->shape, &dy->shape, &s, err));
    return td_cuda_launched(
        c,
        td_cuda_pool_average_grad(td_cuda_type_of(dx->dtype), &s, dy->data, dx->data, td_cuda_stream_of(c)),
        err);
}

static enum td_code run_pick(struct td_call *c, struct td_err *err)
{
    struct td_tensor *to;
    struct td_cuda_pool s;
    const struct td_tensor *x = c->in[0], *y = c->in[1], *dx = c->in[2];
    TD_TRY(td_out(c, 0, NULL, &to, err));
    TD_TRY(describe(c, &x->shape, &y->shape, &s, err));
    return td_cuda_launched(c,
                            td_cuda_pool_pick(td_cuda_type_of(to->dtype), &s, x->data, y->data, dx->data,
                                              to->data, td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ the table */

static const char *of_two_types(const struct td_node *n)
{
    return td_attr_type(n, "T") != td_attr_type(n, "TInput") ? "two types" : NULL;
}
TD_CUDA_ROWS(rows_volume_grad, "pool.cuda",
             .types = {{"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16)}},
             .refuse = of_two_types, .prepare = prepare, .run = run_max_grad);

#define ROWS(op, ...)                                                                                        \
    TD_CUDA_ROWS(rows_##op, "pool.cuda", .types = {__VA_ARGS__}, .prepare = prepare, .run = run_##op);
ROWS(max, {"T", TD_CUDA_FLOATS})
ROWS(average, {"T", TD_CUDA_FLOATS})
ROWS(argmax, {"T", TD_CUDA_FLOATS}, {"Targmax", TD_BIT(TD_INT32) | TD_BIT(TD_INT64)})
ROWS(max_grad, {"T", TD_CUDA_FLOATS})
ROWS(average_grad, {"T", TD_CUDA_FLOATS})
ROWS(pick, {"T", TD_CUDA_FLOATS})

const struct td_op_rows td_cuda_rows_pool[] = {{"MaxPool", rows_max},
                                               {"MaxPoolV2", rows_max},
                                               {"MaxPool3D", rows_max},
                                               {"AvgPool", rows_average},
                                               {"AvgPool3D", rows_average},
                                               {"MaxPoolWithArgmax", rows_argmax},
                                               {"MaxPoolGrad", rows_max_grad},
                                               {"MaxPoolGradV2", rows_max_grad},
                                               {"MaxPool3DGrad", rows_volume_grad},
                                               {"AvgPoolGrad", rows_average_grad},
                                               {"AvgPool3DGrad", rows_average_grad},
                                               {"MaxPoolGradGrad", rows_pick},
                                               {"MaxPoolGradGradV2", rows_pick},
                                               {"MaxPool3DGradGrad", rows_pick},
                                               {NULL, NULL}};
