/* kernels/cuda/nn/conv.c - rows of the convolutions and their gradients, of one to three axes.
 *
 * A pointwise convolution (filters of one cell, steps of one) is a matrix product of pixels and channels, and
 * goes to cuBLASLt. Others of two axes ask cuDNN (kernels/cuda/base/cudnn_conv.h), for the algorithm that it
 * thinks best; where kernels are tried, two more and our own compete with it. Our own does the first steps of
 * a fused node by itself (kernels/cuda/base/posts.h), and so does cuDNN where it can.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/conv.h"

#include "kernels/cuda/base/cells.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/cudnn_conv.h"
#include "kernels/cuda/base/libraries.h"
#include "kernels/cuda/rows.h"
#include "kernels/nn/conv_spec.h"

/* With several dimensions of images made one (Conv). */
static struct td_shape one_batch(const struct td_shape *s, const struct td_data_layout *layout)
{
    const int extra = s->rank - layout->n_spatial - 2;
    struct td_shape merged = {.rank = s->rank - extra};
    merged.dim[0] = td_shape_range(s, 0, extra + 1);
    for (int i = 1; i < merged.rank; i++) {
        merged.dim[i] = s->dim[extra + i];
    }
    return merged;
}

/* From the shapes of the forward input, filter and output. */
static enum td_code describe(const struct td_node *n, const struct td_shape *x, const struct td_shape *w,
                             const struct td_shape *y, struct td_cuda_conv *s, struct td_err *err)
{
    struct td_conv g;
    TD_TRY(td_conv_spec(n, x, w, &g, err));
    const struct td_data_layout layout = td_conv_layout(n);
    const struct td_shape images = one_batch(x, &layout), results = one_batch(y, &layout);
    *s = (struct td_cuda_conv){.batch = g.batch,
                               .ic = g.ic,
                               .oc = g.oc,
                               .groups = g.groups,
                               .x = td_cuda_cells_of(&images, &layout),
                               .y = td_cuda_cells_of(&results, &layout)};
    for (int a = 0; a < 3; a++) {
        s->axis[a] = td_cuda_axis_of(&g.axis[a]);
    }
    return TD_OK;
}

/* A convolution or gradient: which of a call's or query's tensors are x, w and y of the forward one. */
struct role {
    enum td_cudnn_which which;
    int x, w, y; /* inputs; -1: the result */
    int a, b;    /* inputs that are read */
    int (*own)(enum td_cuda_type type, const struct td_cuda_conv *s, const void *a, const void *b, void *y,
               struct td_cuda_stream *stream);
};
static const struct role FORWARD = {TD_CUDNN_FORWARD, 0, 1, -1, 0, 1, td_cuda_conv_forward},
                         INPUT = {TD_CUDNN_INPUT_GRAD, -1, 1, 2, 1, 2, td_cuda_conv_input},
                         FILTER = {TD_CUDNN_FILTER_GRAD, 0, -1, 2, 0, 2, td_cuda_conv_filter};

/* ------------------------------------------------------------------ our own */

/* Channels of epilogues are those of the last axis. */
static enum td_code prepare_posts(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    const struct td_data_layout layout = td_conv_layout(q->node);
    return layout.channel == q->out[0].rank - 1 ? td_cuda_posts_take(q, o, err) : TD_OK;
}

/* a, b: inputs, where they are as they came. */
static enum td_code run_own_of(struct td_call *c, const struct role *r, const struct td_cuda_posts *posts,
                               const void *a, const void *b, struct td_err *err)
{
    struct td_tensor *out;
    struct td_cuda_conv s;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    if (td_tensor_count(out) == 0) {
        return TD_OK;
    }
    TD_TRY(describe(c->node, r->x < 0 ? &out->shape : &c->in[r->x]->shape,
                    r->w < 0 ? &out->shape : &c->in[r->w]->shape,
                    r->y < 0 ? &out->shape : &c->in[r->y]->shape, &s, err));
    s.posts = *posts;
    return td_cuda_launched(c, r->own(td_cuda_type_of(out->dtype), &s, a, b, out->data, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_own(struct td_call *c, const struct role *r, const struct td_cuda_posts *posts,
                            struct td_err *err)
{
    return run_own_of(c, r, posts, c->in[r->a]->data, c->in[r->b]->data, err);
}

static enum td_code run_with_posts(struct td_call *c, const struct role *r, struct td_err *err)
{
    const struct td_cuda_posts posts = td_cuda_posts_of(c);
    return run_own(c, r, &posts, err);
}

/* ------------------------------------------------------------------ what both libraries are asked */

static enum td_code describe_query(const struct td_kernel_query *q, const struct role *r,
                                   struct td_cuda_conv *s, struct td_err *err)
{
    return describe(q->node, r->x < 0 ? &q->out[0] : &q->in[r->x], r->w < 0 ? &q->out[0] : &q->in[r->w],
                    r->y < 0 ? &q->out[0] : &q->in[r->y], s, err);
}

/* ------------------------------------------------------------------ cuBLASLt */

static bool is_pointwise(const struct td_cuda_conv *s)
{
    bool is = s->groups == 1 && s->x.channel == 1 && s->y.channel == 1;
    for (int i = 0; i < 3; i++) {
        const struct td_cuda_axis *a = &s->axis[i];
        is = is && a->k == 1 && a->stride == 1 && a->before == 0 && a->out == a->in;
    }
    return is;
}

/* x [pixels, ic]  w [ic, oc]  y [pixels, oc]:  y = x w,  dx = dy w^T,  dw = x^T dy. */
static struct td_cublaslt_product product_of(const struct td_cuda_conv *s, enum td_cudnn_which which,
                                             enum td_cuda_type type)
{
    const int64_t pixels = s->batch * s->axis[0].in * s->axis[1].in * s->axis[2].in;
    return (struct td_cublaslt_product){.type = type,
                                        .m = which == TD_CUDNN_FILTER_GRAD ? s->ic : pixels,
                                        .n = which == TD_CUDNN_INPUT_GRAD ? s->ic : s->oc,
                                        .k = which == TD_CUDNN_FORWARD      ? s->ic
                                             : which == TD_CUDNN_INPUT_GRAD ? s->oc
                                                                            : pixels,
                                        .batches = 1,
                                        .ta = which == TD_CUDNN_FILTER_GRAD,
                                        .tb = which == TD_CUDNN_INPUT_GRAD,
                                        .epilogue = TD_CUBLASLT_PLAIN};
}

static enum td_code prepare_product(const struct td_kernel_query *q, const struct role *r,
                                    struct td_kernel_offer *o, struct td_err *err)
{
    const struct td_cublaslt *lt = td_cuda_libraries_of(q->target.device)->cublaslt;
    struct td_cublaslt_plan *plan = NULL;
    struct td_cuda_conv s;
    TD_TRY(describe_query(q, r, &s, err));
    const struct td_cublaslt_product p = product_of(&s, r->which, td_cuda_type_of(q->node->out_type[0]));
    o->refusal = lt == NULL          ? "cuBLASLt is not there"
                 : !is_pointwise(&s) ? "it is not pointwise"
                                     : td_cublaslt_plan_make(lt, &p, 0, &plan);
    if (o->refusal == NULL) {
        o->state = plan;
        o->state_bytes = td_cublaslt_plan_bytes(plan);
        o->workspace_bytes = td_cublaslt_plan_workspace(plan);
    }
    return TD_OK;
}

static void release_product(void *state)
{
    td_cublaslt_plan_free(state);
}

static enum td_code run_product(struct td_call *c, const struct role *r, struct td_err *err)
{
    struct td_tensor *out;
    const bool swapped = r->which == TD_CUDNN_INPUT_GRAD; /* dy comes first there */
    const void *const a = c->in[swapped ? r->b : r->a]->data, *const b = c->in[swapped ? r->a : r->b]->data;
    if (!td_cublaslt_aligned(a) || !td_cublaslt_aligned(b)) { /* part of another tensor */
        return run_own(c, r, &(const struct td_cuda_posts){0}, err);
    }
    TD_TRY(td_out(c, 0, NULL, &out, err));
    const struct td_cublaslt_call call = {
        .a = a, .b = b, .y = out->data, .workspace = c->workspace, .stream = td_cuda_stream_of(c)};
    return td_cublaslt_multiply(c->state, &call, err) ? td_err_wrap(err, "%s", c->node->op_name) : TD_OK;
}

/* ------------------------------------------------------------------ cuDNN */

static enum td_code prepare_cudnn(const struct td_kernel_query *q, const struct role *r, int choice,
                                  struct td_kernel_offer *o, struct td_err *err)
{
    struct td_cudnn *dnn = td_cuda_libraries_of(q->target.device)->cudnn;
    struct td_cudnn_plan *plan = NULL;
    struct td_cuda_conv s;
    o->refusal = dnn == NULL                        ? "cuDNN is not there"
                 : choice > 0 && q->fastest == NULL ? "it is tried against others alone"
                                                    : NULL;
    if (o->refusal != NULL) {
        return TD_OK;
    }
    TD_TRY(describe_query(q, r, &s, err));
    s.posts = td_cuda_posts_wanted(q);
    o->refusal = td_cudnn_plan_make(dnn, r->which, td_cuda_type_of(q->node->out_type[0]), &s, choice, &plan);
    if (o->refusal == NULL) {
        o->state = plan;
        o->state_bytes = td_cudnn_plan_bytes(plan);
        o->n_posts = td_cudnn_plan_posts(plan)->n;
        o->swapped = r->w >= 0 ? UINT32_C(1) << r->w : 0;
        o->workspace_bytes = td_cudnn_plan_workspace(plan);
    }
    return TD_OK;
}

static void release_cudnn(void *state)
{
    td_cudnn_plan_free(state);
}

/* What is part of another tensor may begin anywhere. */
static bool begin_well(const struct td_call *c, const struct role *r, const struct td_cuda_posts *posts)
{
    bool well = td_cudnn_aligned(c->in[r->a]->data) && td_cudnn_aligned(c->in[r->b]->data);
    for (int i = 0; i < posts->n; i++) {
        well = well && td_cudnn_aligned(posts->post[i].at);
    }
    return well;
}

/* By our own, which has filters in their order. */
static enum td_code run_instead(struct td_call *c, const struct role *r, const struct td_cudnn_call *call,
                                struct td_err *err)
{
    if (call->swapped) {
        TD_TRY(td_cuda_launched(c, td_cudnn_swap_back(c->state, call), err));
    }
    return run_own_of(c, r, call->posts, call->swapped && r->w == r->a ? call->workspace : call->a,
                      call->swapped && r->w == r->b ? call->workspace : call->b, err);
}

static enum td_code run_cudnn(struct td_call *c, const struct role *r, struct td_err *err)
{
    struct td_tensor *out;
    const struct td_cuda_posts posts = td_cuda_posts_with(td_cudnn_plan_posts(c->state), c);
    struct td_cudnn_call call = {.a = c->in[r->a]->data,
                                 .b = c->in[r->b]->data,
                                 .swapped = r->w >= 0 && (c->swapped >> r->w & 1) != 0,
                                 .posts = &posts,
                                 .workspace = c->workspace,
                                 .stream = td_cuda_stream_of(c)};
    if (!begin_well(c, r, &posts)) {
        return run_instead(c, r, &call, err);
    }
    TD_TRY(td_out(c, 0, NULL, &out, err));
    call.y = out->data;
    return td_cudnn_convolve(c->state, &call, err) ? td_err_wrap(err, "%s", c->node->op_name) : TD_OK;
}

/* ------------------------------------------------------------------ rows */

#define PREPARE(name, ...)                                                                                   \
    static enum td_code name(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err) \
    {                                                                                                        \
        return __VA_ARGS__;                                                                                  \
    }
#define RUN(name, does, which)                                                                               \
    static enum td_code name(struct td_call *c, struct td_err *err)                                          \
    {                                                                                                        \
        return does(c, &which, err);                                                                         \
    }
#define ROW(label, ...) TD_CUDA_ROW(label, .types = {{"T", TD_CUDA_FLOATS}}, .competes = true, __VA_ARGS__)
#define PRODUCT_ROW(op)                                                                                      \
    ROW("conv.cublaslt", .prepare = prepare_product_##op, .release = release_product, .run = run_product_##op)
#define OWN_ROW(op, ...) ROW("conv.cuda", .run = run_own_##op, __VA_ARGS__)
#define ROWS(op, which, ...)                                                                                 \
    PREPARE(prepare_product_##op, prepare_product(q, &which, o, err))                                        \
    TD_CUDA_CHOICES(prepare_##op, prepare_cudnn(q, &which, choice, o, err))                                  \
    RUN(run_product_##op, run_product, which)                                                                \
    RUN(run_cudnn_##op, run_cudnn, which)                                                                    \
    RUN(run_own_##op, run_with_posts, which)                                                                 \
    static const struct td_kernel flat_##op[] = {                                                            \
        PRODUCT_ROW(op),                                                                                     \
        TD_CUDA_CHOICE_ROWS("conv.cudnn", prepare_##op, .types = {{"T", TD_CUDA_FLOATS}},                    \
                            .release = release_cudnn, .run = run_cudnn_##op),                                \
        OWN_ROW(op, __VA_ARGS__),                                                                            \
        {.name = NULL}};                                                                                     \
    static const struct td_kernel solid_##op[] = {                                                           \
        PRODUCT_ROW(op), OWN_ROW(op, __VA_ARGS__), {.name = NULL}};                                          \
    static const struct td_kernel depthwise_##op[] = {OWN_ROW(op, __VA_ARGS__), {.name = NULL}};
ROWS(forward, FORWARD, .prepare = prepare_posts, .release = td_cuda_posts_release)
ROWS(input, INPUT, .prepare = NULL)
ROWS(filter, FILTER, .prepare = NULL)

const struct td_op_rows td_cuda_rows_conv[] = {{"Conv2D", flat_forward},
                                               {"Conv2DBackpropInput", flat_input},
                                               {"Conv2DBackpropFilter", flat_filter},
                                               {"DepthwiseConv2dNative", depthwise_forward},
                                               {"DepthwiseConv2dNativeBackpropInput", depthwise_input},
                                               {"DepthwiseConv2dNativeBackpropFilter", depthwise_filter},
                                               {"Conv", solid_forward},
                                               {"Conv3D", solid_forward},
                                               {"Conv3DBackpropInput", solid_input},
                                               {"Conv3DBackpropInputV2", solid_input},
                                               {"Conv3DBackpropFilter", solid_filter},
                                               {"Conv3DBackpropFilterV2", solid_filter},
                                               {NULL, NULL}};
