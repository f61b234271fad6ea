/* kernels/cuda/nn/dilation.c - rows of Dilation2D and its gradients.
 *
 *   gradients   where maxima came from -> keys -> sorted -> each place takes its gradients in order
 *               (combine.h)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/dilation.h"

#include "kernels/cuda/base/cells.h"
#include "kernels/cuda/base/combine.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/sort.h"
#include "kernels/cuda/rows.h"

static enum td_code describe(const struct td_call *c, struct td_cuda_dilation *s, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape, *filter = &c->in[1]->shape;
    int count;
    const int64_t *stride = td_attr_ints(c->node, "strides", &count);
    const int64_t *rate = td_attr_ints(c->node, "rates", &count);
    *s = (struct td_cuda_dilation){
        .batch = x->dim[0], .channels = x->dim[3], .x = c->in[0]->data, .filter = c->in[1]->data};
    s->axis[0] = (struct td_cuda_axis){.in = 1, .k = 1, .stride = 1, .dilation = 1, .out = 1};
    for (int a = 1; a < 3; a++) {
        struct td_window w = {
            .in = x->dim[a], .k = filter->dim[a - 1], .stride = stride[a], .dilation = rate[a]};
        TD_TRY(td_window_make(&w, td_window_padding(c->node), c->node, err));
        s->axis[a] = td_cuda_axis_of(&w);
    }
    return TD_OK;
}

static bool offers(const struct td_kernel_query *q, struct td_kernel_offer *o)
{
    const int64_t n = td_shape_count(&q->out[0]), y = q->n_in == 3 ? td_shape_count(&q->in[2]) : 1;
    o->refusal = n == 0 || y == 0 || td_shape_count(&q->in[0]) == 0   ? "nothing is dilated"
                 : q->n_in == 3 && (n >= INT32_MAX || y >= INT32_MAX) ? "more places than 32 bits count"
                                                                      : NULL;
    return o->refusal == NULL;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    (void)offers(q, o);
    return TD_OK;
}

static enum td_code prepare_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    (void)err;
    o->workspace_bytes = offers(q, o) ? td_cuda_sort_bytes(td_shape_count(&q->in[2])) : 0;
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_cuda_dilation s;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(describe(c, &s, err));
    return td_cuda_launched(c, td_cuda_dilate(td_cuda_type_of(y->dtype), &s, y->data, td_cuda_stream_of(c)),
                            err);
}

static enum td_code backward(struct td_call *c, bool of_filter, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_tensor *dy = c->in[2];
    const int64_t n = td_tensor_count(dy);
    struct td_cuda_dilation s;
    struct td_tensor *to;
    TD_TRY(td_out(c, 0, NULL, &to, err));
    TD_TRY(describe(c, &s, err));
    TD_TRY(td_cuda_zero(c, to, err));
    const enum td_cuda_type type = td_cuda_type_of(to->dtype);
    const int32_t most = (int32_t)td_tensor_count(to);
    struct td_cuda_sort sort = td_cuda_sort_in(c->workspace, n);
    int error = td_cuda_dilation_keys(type, &s, of_filter, sort.keys, stream);
    error = error != 0 ? error : td_cuda_sort_run(&sort, most, stream);
    const struct td_cuda_combining by = {.keys = sort.keys,
                                         .order = sort.order,
                                         .n = n,
                                         .outer = 1,
                                         .dim = most,
                                         .per = n,
                                         .inner = 1,
                                         .sources = n,
                                         .most = most,
                                         .from_y = true,
                                         .rounds = true};
    return td_cuda_launched(
        c, error != 0 ? error : td_cuda_combine(TD_CUDA_ADD, type, &by, dy->data, to->data, stream), err);
}

static enum td_code run_to_input(struct td_call *c, struct td_err *err)
{
    return backward(c, false, err);
}
static enum td_code run_to_filter(struct td_call *c, struct td_err *err)
{
    return backward(c, true, err);
}

TD_CUDA_ROWS(rows, "dilation.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .prepare = prepare, .run = run);
TD_CUDA_ROWS(rows_to_input, "dilation.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .prepare = prepare_grad,
             .run = run_to_input);
TD_CUDA_ROWS(rows_to_filter, "dilation.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .prepare = prepare_grad,
             .run = run_to_filter);

const struct td_op_rows td_cuda_rows_dilation[] = {{"Dilation2D", rows},
                                                   {"Dilation2DBackpropInput", rows_to_input},
                                                   {"Dilation2DBackpropFilter", rows_to_filter},
                                                   {NULL, NULL}};
