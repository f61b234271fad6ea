/* kernels/nn/conv.c - Conv2D, DepthwiseConv2dNative, Conv3D, Conv, and the gradients that double as
 * transposed convolution.
 *
 *     x [N,H,W,C]   w [kh,kw,C/groups,K]   ->   y [N,H',W',K]        (one more spatial axis for Conv3D)
 *
 * Everything runs channels last; a channels-first tensor is permuted on the way in and out. Each op has
 * three bodies at least: a oneDNN primitive with packed weights, patch matrices through OpenBLAS, direct
 * loops; Conv2D our own as well (kernels/dense/winograd.h, conv_panels.h). half
 * and bfloat16 run in float, but for a primitive of bfloat16 where the processor is better at that
 * (kernels/cpu/bfloat16.h). What the attributes and shapes mean is conv_spec.c's, shapes of outputs are
 * conv_infer.c's, the loops kernels/dense/conv_loops.c's. Gradients towards the input and the filter are rows
 * of this table as well, since they are the same three tensors with another one unknown.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "kernels/nn/conv_grad.h"
#include "kernels/nn/conv_layout.h"
#include "kernels/nn/conv_panels.h"
#include "kernels/nn/conv_repeat.h"
#include "kernels/nn/conv_spec.h"
#include "kernels/dense/dnnl.h"
#include "kernels/dense/dnnl_filter.h"
#include "kernels/dense/gemm_panels.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/upcast.h"
#include "kernels/dense/winograd.h"

/* in tiles; in panels; of repeated channels; packed, in float or in bfloat16; patches times the filter, by
 * oneDNN or OpenBLAS; loops */
enum body {
    BODY_WINOGRAD,
    BODY_PANELS,
    BODY_REPEAT,
    BODY_DNNL,
    BODY_NATIVE,
    BODY_PATCHES,
    BODY_BLAS,
    BODY_PLAIN
};

/* A row's run: what goes in the direction `kind`, by a body. */
#define RUN(kind, name, body)                                                                                \
    static enum td_code kind##_##name(struct td_call *c, struct td_err *err)                                 \
    {                                                                                                        \
        return kind(c, body, err);                                                                           \
    }

/* ------------------------------------------------------------ activations in the loops' layout and type */

/* What `body` computes elements of type t in. */
static enum td_dtype arithmetic(enum body body, enum td_dtype t)
{
    return body != BODY_NATIVE && (t == TD_HALF || t == TD_BFLOAT16) ? TD_FLOAT : t;
}

static struct td_conv_image input_image(const struct td_conv *g)
{
    return (struct td_conv_image){g->batch, td_conv_in_cells(g), g->ic};
}
static struct td_conv_image output_image(const struct td_conv *g)
{
    return (struct td_conv_image){g->batch, td_conv_out_cells(g), g->oc};
}

#define EMPTY "a tensor has no elements"

static const char *blas_refusal(const struct td_conv *g)
{
    return td_conv_empty(g) ? EMPTY
           : g->groups != 1 ? "there are groups of channels: they are no product of matrices"
                            : NULL;
}

static const char *dnnl_refusal(const struct td_conv *g)
{
    const bool skips = g->axis[0].before < 0 || g->axis[1].before < 0 || g->axis[2].before < 0;
    return td_conv_empty(g) ? EMPTY : skips ? "padding below zero is not oneDNN's to do" : NULL;
}

/* Where rows are tried against each other, one that is slower as a rule may be faster here. */
static const char *native_refusal(const struct td_kernel_query *q)
{
    return td_bfloat16_way() == TD_BFLOAT16_NATIVE || q->target.trial_ns > 0 ? NULL : TD_BFLOAT16_REFUSAL;
}

/* The convolution of a node: its tensors are (x, w) -> y, (sizes, w, dy) -> x or (x, sizes, dy) -> w. */
static enum td_code spec_of(const struct td_kernel_query *q, struct td_conv *g, struct td_err *err)
{
    const bool to_filter = strstr(q->node->op_name, "BackpropFilter") != NULL;
    const bool to_input = q->n_in == 3 && !to_filter;
    return td_conv_spec(q->node, to_input ? &q->out[0] : &q->in[0], to_filter ? &q->out[0] : &q->in[1], g,
                        err);
}

/* Patches times the filter: what OpenBLAS can do. */
static enum td_code prepare_blas(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    struct td_conv g;
    TD_TRY(spec_of(q, &g, err));
    o->refusal = blas_refusal(&g);
    return TD_OK;
}

/* ------------------------------------------------------------------ forward */

static enum td_code forward(struct td_call *c, enum body body, struct td_err *err)
{
    struct td_tensor *y;
    struct td_conv g;
    TD_TRY(td_conv_spec(c->node, &c->in[0]->shape, &c->in[1]->shape, &g, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const void *x, *w;
    void *to;
    const enum td_dtype type = arithmetic(body, y->dtype);
    TD_TRY(td_conv_bring(c, type, c->in[0], input_image(&g), &x, err));
    TD_TRY(td_conv_room(c, type, y, &to, err));
    if (body == BODY_WINOGRAD) {
        TD_TRY(td_winograd_run(c->state, c, x, c->in[1], to, err));
    } else if (body == BODY_PANELS) {
        TD_TRY(td_conv_panels_run(c->state, c, &g, x, c->in[1], to, err));
    } else if (body == BODY_REPEAT) {
        TD_TRY(td_conv_repeat_run(c->state, c, &g, x, c->in[1], to, err));
    } else if (body == BODY_DNNL || body == BODY_NATIVE) {
        TD_TRY(td_dnnl_run(c->state, c, x, c->in[1], to, err));
    } else if (body == BODY_BLAS) {
        TD_TRY(td_conv_filter_as(c, type, c->in[1], &w, err));
        TD_TRY(td_conv_forward_gemm(c, &g, x, w, to, err));
    } else {
        TD_TRY(td_conv_filter_as(c, type, c->in[1], &w, err));
        td_conv_forward(type, &g, x, w, to);
    }
    return td_conv_deliver(c, type, y, output_image(&g), to, err);
}

RUN(forward, winograd, BODY_WINOGRAD)
RUN(forward, panels, BODY_PANELS)
RUN(forward, repeat, BODY_REPEAT)
RUN(forward, dnnl, BODY_DNNL)
RUN(forward, native, BODY_NATIVE)
RUN(forward, blas, BODY_BLAS)
RUN(forward, plain, BODY_PLAIN)

static enum td_code offer_forward(const struct td_kernel_query *q, enum td_bfloat16_way way,
                                  struct td_kernel_offer *o, struct td_err *err)
{
    struct td_conv g;
    TD_TRY(spec_of(q, &g, err));
    o->refusal = dnnl_refusal(&g);
    return o->refusal != NULL
               ? TD_OK
               : td_dnnl_conv_offer(&g, q, !td_conv_layout(q->node).channels_first, way, o, err);
}

static enum td_code prepare_forward(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                    struct td_err *err)
{
    return offer_forward(q, TD_BFLOAT16_AS_FLOAT, o, err);
}
static enum td_code prepare_forward_native(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                           struct td_err *err)
{
    o->refusal = native_refusal(q);
    return o->refusal != NULL ? TD_OK : offer_forward(q, TD_BFLOAT16_NATIVE, o, err);
}

/* Of those that are ours. */
static enum td_code prepare_own(const struct td_kernel_query *q,
                                enum td_code (*offer)(const struct td_conv *g,
                                                      const struct td_kernel_query *q,
                                                      struct td_kernel_offer *o, struct td_err *err),
                                struct td_kernel_offer *o, struct td_err *err)
{
    struct td_conv g;
    TD_TRY(spec_of(q, &g, err));
    o->refusal = td_conv_empty(&g)                        ? EMPTY
                 : td_conv_layout(q->node).channels_first ? "channels come first"
                                                          : NULL;
    return o->refusal != NULL ? TD_OK : offer(&g, q, o, err);
}
static enum td_code prepare_forward_winograd(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                             struct td_err *err)
{
    return prepare_own(q, td_winograd_offer, o, err);
}
static enum td_code prepare_forward_panels(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                           struct td_err *err)
{
    return prepare_own(q, td_conv_panels_offer, o, err);
}

static enum td_code prepare_forward_repeat(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                           struct td_err *err)
{
    return prepare_own(q, td_conv_repeat_offer, o, err);
}

/* With rounded operands, where the model asks for it. */
static enum td_code prepare_forward_low(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                        struct td_err *err)
{
    struct td_conv g;
    const struct td_low low = td_low_of(q->node);
    TD_TRY(spec_of(q, &g, err));
    o->refusal = td_low_refusal(&low);
    if (o->refusal == NULL) {
        o->refusal = g.groups != 1 ? "there are groups of channels: bytes gain nothing" : dnnl_refusal(&g);
    }
    const bool last = !td_conv_layout(q->node).channels_first;
    return o->refusal != NULL ? TD_OK : td_dnnl_conv_low_offer(&g, &low, q, last, o, err);
}

/* ------------------------------------------------------------------ towards the input */

static enum td_code input_grad(struct td_call *c, enum body body, struct td_err *err)
{
    struct td_tensor *dx;
    struct td_conv g;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(td_conv_spec(c->node, &dx->shape, &c->in[1]->shape, &g, err));
    const void *dy, *w;
    void *to;
    const enum td_dtype type = arithmetic(body, dx->dtype);
    TD_TRY(td_conv_bring(c, type, c->in[2], output_image(&g), &dy, err));
    TD_TRY(td_conv_room(c, type, dx, &to, err));
    if (body == BODY_DNNL || body == BODY_NATIVE) {
        TD_TRY(td_dnnl_run(c->state, c, dy, c->in[1], to, err));
        return td_conv_deliver(c, type, dx, input_image(&g), to, err);
    }
    TD_TRY(td_conv_filter_as(c, type, c->in[1], &w, err));
    if (body == BODY_PATCHES) {
        TD_TRY(td_conv_input_grad_patches(c, &g, w, dy, to, err));
    } else if (body == BODY_BLAS) {
        TD_TRY(td_conv_input_grad_gemm(c, &g, w, dy, to, err));
    } else {
        td_conv_input_grad(type, &g, w, dy, to);
    }
    return td_conv_deliver(c, type, dx, input_image(&g), to, err);
}

RUN(input_grad, dnnl, BODY_DNNL)
RUN(input_grad, native, BODY_NATIVE)
RUN(input_grad, patches, BODY_PATCHES)
RUN(input_grad, blas, BODY_BLAS)
RUN(input_grad, plain, BODY_PLAIN)

static enum td_code offer_input_grad(const struct td_kernel_query *q, enum td_bfloat16_way way,
                                     struct td_kernel_offer *o, struct td_err *err)
{
    struct td_conv g;
    TD_TRY(spec_of(q, &g, err));
    o->refusal = td_conv_empty(&g) ? EMPTY : NULL;
    return o->refusal != NULL ? TD_OK : td_dnnl_deconv_offer(&g, q, way, o, err);
}

static enum td_code prepare_input_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                       struct td_err *err)
{
    return offer_input_grad(q, TD_BFLOAT16_AS_FLOAT, o, err);
}
static enum td_code prepare_input_grad_native(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                              struct td_err *err)
{
    o->refusal = native_refusal(q);
    return o->refusal != NULL ? TD_OK : offer_input_grad(q, TD_BFLOAT16_NATIVE, o, err);
}

static enum td_code prepare_input_grad_patches(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                               struct td_err *err)
{
    enum { FEW_CHANNELS = 3, LEAST_SUM = 16 };
    struct td_conv g;
    TD_TRY(spec_of(q, &g, err));
    const bool pays = g.ic <= FEW_CHANNELS && g.oc >= LEAST_SUM && !td_conv_is_pointwise(&g);
    o->refusal = blas_refusal(&g);
    if (o->refusal == NULL && !pays && q->target.trial_ns == 0) {
        o->refusal = "oneDNN's convolution is as fast";
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ towards the filter */

static enum td_code filter_grad(struct td_call *c, enum body body, struct td_err *err)
{
    struct td_tensor *dw;
    struct td_conv g;
    TD_TRY(td_out(c, 0, NULL, &dw, err));
    TD_TRY(td_conv_spec(c->node, &c->in[0]->shape, &dw->shape, &g, err));
    const void *x, *dy;
    void *to = dw->data;
    const enum td_dtype type = arithmetic(body, dw->dtype);
    const enum td_dtype sums = arithmetic(BODY_DNNL, dw->dtype); /* a native one adds up floats, too */
    TD_TRY(td_conv_bring(c, type, c->in[0], input_image(&g), &x, err));
    TD_TRY(td_conv_bring(c, type, c->in[2], output_image(&g), &dy, err));
    if (sums != dw->dtype) {
        TD_TRY(td_scratch(c, (size_t)td_tensor_count(dw) * td_dtype_size(sums), &to, err));
    }
    if (body == BODY_DNNL || body == BODY_NATIVE) {
        TD_TRY(td_dnnl_filter_run(c->state, c, x, dy, to, err));
    } else if (body == BODY_BLAS) {
        TD_TRY(td_conv_filter_grad_gemm(c, &g, x, dy, to, err));
    } else {
        td_conv_filter_grad(type, &g, x, dy, to);
    }
    if (sums != dw->dtype) {
        td_downcast(dw, to);
    }
    return TD_OK;
}

static enum td_code offer_filter_grad(const struct td_kernel_query *q, enum td_bfloat16_way way,
                                      struct td_kernel_offer *o, struct td_err *err)
{
    struct td_conv g;
    TD_TRY(spec_of(q, &g, err));
    o->refusal = dnnl_refusal(&g);
    return o->refusal != NULL ? TD_OK : td_dnnl_filter_offer(&g, q, way, o, err);
}

static enum td_code prepare_filter_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                        struct td_err *err)
{
    return offer_filter_grad(q, TD_BFLOAT16_AS_FLOAT, o, err);
}
static enum td_code prepare_filter_grad_native(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                               struct td_err *err)
{
    o->refusal = native_refusal(q);
    return o->refusal != NULL ? TD_OK : offer_filter_grad(q, TD_BFLOAT16_NATIVE, o, err);
}

RUN(filter_grad, dnnl, BODY_DNNL)
RUN(filter_grad, native, BODY_NATIVE)
RUN(filter_grad, blas, BODY_BLAS)
RUN(filter_grad, plain, BODY_PLAIN)

/* ------------------------------------------------------------------ batches */

/* Input 0 is the shape of the output, or that without batch and channels. */
static bool conv_back_rows(struct td_batchable_step *s)
{
    return s->in[1].kind == TD_VALUE_CONST ? td_batchable_sized(s, 0, 2)
                                           : td_batchable_no(s, "its filter is no constant");
}

/* ------------------------------------------------------------------ table */

#define TYPES(set)                                                                                           \
    {                                                                                                        \
        {                                                                                                    \
            "T", set                                                                                         \
        }                                                                                                    \
    }
#define T_FAST TYPES(TD_BIT(TD_FLOAT) | TD_BIT(TD_BFLOAT16))
#define T_BFLOAT16 TYPES(TD_BIT(TD_BFLOAT16))
#define T_BLAS TYPES(TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))
#define SET_ALL (TD_SET_FLOATS | TD_BIT(TD_INT32))

/* Operands rounded, of those that go forward; in bfloat16; packed; patches; loops. kind: what the functions
 * are called. */
#define LOW(kname)                                                                                           \
    {.name = kname ".dnnl_low",                                                                              \
     .library = TD_LIB_DNNL,                                                                                 \
     .types = TYPES(TD_BIT(TD_FLOAT)),                                                                       \
     .prepare = prepare_forward_low,                                                                         \
     .release = td_dnnl_free,                                                                                \
     .run = forward_dnnl},
#define ROWS(kname, kind, free_state, plain)                                                                 \
    {.name = kname ".dnnl_bf16",                                                                             \
     .library = TD_LIB_DNNL,                                                                                 \
     .types = T_BFLOAT16,                                                                                    \
     .competes = true,                                                                                       \
     .prepare = prepare_##kind##_native,                                                                     \
     .release = free_state,                                                                                  \
     .run = kind##_native},                                                                                  \
        {.name = kname ".dnnl",                                                                              \
         .library = TD_LIB_DNNL,                                                                             \
         .types = T_FAST,                                                                                    \
         .competes = true,                                                                                   \
         .prepare = prepare_##kind,                                                                          \
         .release = free_state,                                                                              \
         .run = kind##_dnnl},                                                                                \
        {.name = kname ".openblas",                                                                          \
         .library = TD_LIB_OPENBLAS,                                                                         \
         .types = T_BLAS,                                                                                    \
         .competes = true,                                                                                   \
         .prepare = prepare_blas,                                                                            \
         .run = kind##_blas},                                                                                \
        {.name = kname ".reference", .types = TYPES(plain), .run = kind##_plain},                            \
    {                                                                                                        \
        .name = NULL                                                                                         \
    }
#define OWN(kname, kind, free_state)                                                                         \
    {.name = kname "." #kind,                                                                                \
     .library = TD_LIB_OWN,                                                                                  \
     .types = TYPES(TD_BIT(TD_FLOAT)),                                                                       \
     .competes = true,                                                                                       \
     .prepare = prepare_forward_##kind,                                                                      \
     .release = free_state,                                                                                  \
     .run = forward_##kind},
#define FORWARD(kname, plain)                                                                                \
    (const struct td_kernel[])                                                                               \
    {                                                                                                        \
        LOW(kname) ROWS(kname, forward, td_dnnl_free, plain)                                                 \
    }
#define FORWARD_DEPTHWISE(kname, plain)                                                                      \
    (const struct td_kernel[])                                                                               \
    {                                                                                                        \
        LOW(kname){.name = kname ".dnnl_repeat",                                                             \
                   .library = TD_LIB_DNNL,                                                                   \
                   .types = TYPES(TD_BIT(TD_FLOAT)),                                                         \
                   .competes = true,                                                                         \
                   .prepare = prepare_forward_repeat,                                                        \
                   .release = td_dnnl_free,                                                                  \
                   .run = forward_repeat},                                                                   \
            ROWS(kname, forward, td_dnnl_free, plain)                                                        \
    }
#define FORWARD_2D(kname, plain)                                                                             \
    (const struct td_kernel[])                                                                               \
    {                                                                                                        \
        LOW(kname)                                                                                           \
        OWN(kname, winograd, td_winograd_free)                                                               \
        OWN(kname, panels, td_gemm_panels_free) ROWS(kname, forward, td_dnnl_free, plain)                    \
    }
#define INPUT_GRAD(kname, plain)                                                                             \
    (const struct td_kernel[])                                                                               \
    {                                                                                                        \
        {.name = kname ".dnnl_patches",                                                                      \
         .library = TD_LIB_DNNL,                                                                             \
         .types = TYPES(TD_BIT(TD_FLOAT)),                                                                   \
         .competes = true,                                                                                   \
         .prepare = prepare_input_grad_patches,                                                              \
         .run = input_grad_patches},                                                                         \
            ROWS(kname, input_grad, td_dnnl_free, plain)                                                     \
    }
#define FILTER_GRAD(kname)                                                                                   \
    (const struct td_kernel[])                                                                               \
    {                                                                                                        \
        ROWS(kname, filter_grad, td_dnnl_filter_free, TD_SET_FLOATS)                                         \
    }

#define ATTRS_2D                                                                                             \
    "{T:type; strides:list(int); use_cudnn_on_gpu:bool=true; padding:string in "                             \
    "['SAME','VALID','EXPLICIT']; "                                                                          \
    "explicit_paddings:list(int)=[]; data_format:string='NHWC' in ['NHWC','NCHW']; "                         \
    "dilations:list(int)=[1,1,1,1]}"
#define ATTRS_DEPTHWISE                                                                                      \
    "{T:type; strides:list(int); padding:string in ['SAME','VALID','EXPLICIT']; "                            \
    "explicit_paddings:list(int)=[]; "                                                                       \
    "data_format:string='NHWC' in ['NHWC','NCHW']; dilations:list(int)=[1,1,1,1]}"
#define ATTRS_3D                                                                                             \
    "{T:type; strides:list(int); padding:string in ['SAME','VALID']; data_format:string='NDHWC' in "         \
    "['NDHWC','NCDHW']; dilations:list(int)=[1,1,1,1,1]"
#define ATTRS_3D_V1                                                                                          \
    "{T:type; strides:list(int); padding:string in ['SAME','VALID']; dilations:list(int)=[1,1,1,1,1]}"

/* (input, filter), and (input_sizes, filter, out_backprop) */
static const struct td_op_channels image_first = {.data = 0, .sizes = -1};
static const struct td_op_channels image_last = {.data = 2, .sizes = 0};

const struct td_op td_ops_conv[] = {
    {.name = "Conv2D",
     .sig = "(input:T, filter:T) -> (output:T) " ATTRS_2D,
     .vectorize = td_many_conv,
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .simplify = td_conv_simplify,
     .fuse = {.head = true},
     .channels = &image_first,
     .stride = &td_conv_stride,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = td_conv_forward_infer,
     .kernels = FORWARD_2D("conv2d", SET_ALL),
     .grad = td_conv_grad},
    {.name = "Conv2DBackpropInput",
     .sig = "(input_sizes:int32, filter:T, out_backprop:T) -> (output:T) " ATTRS_2D,
     .vectorize = td_many_conv_input,
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .channels = &image_last,
     .batchable = TD_BATCHABLE(conv_back_rows),
     .host_in = 1,
     .infer = td_conv_input_grad_infer,
     .kernels = INPUT_GRAD("conv2d_input_grad", SET_ALL),
     .grad = td_conv_to_input_grad},
    {.name = "Conv2DBackpropFilter",
     .sig = "(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) " ATTRS_2D,
     .vectorize = td_many_conv_filter,
     .host_in = 2,
     .infer = td_conv_filter_grad_infer,
     .kernels = FILTER_GRAD("conv2d_filter_grad"),
     .grad = td_conv_to_filter_grad},
    {.name = "DepthwiseConv2dNative",
     .sig = "(input:T, filter:T) -> (output:T) " ATTRS_DEPTHWISE,
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .simplify = td_conv_simplify,
     .fuse = {.head = true},
     .channels = &image_first,
     .stride = &td_conv_stride,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = td_conv_forward_infer,
     .kernels = FORWARD_DEPTHWISE("depthwise_conv2d", TD_SET_FLOATS),
     .grad = td_conv_grad},
    {.name = "DepthwiseConv2dNativeBackpropInput",
     .sig = "(input_sizes:int32, filter:T, out_backprop:T) -> (output:T) " ATTRS_DEPTHWISE,
     .vectorize = td_many_conv_input,
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .channels = &image_last,
     .batchable = TD_BATCHABLE(conv_back_rows),
     .host_in = 1,
     .infer = td_conv_input_grad_infer,
     .kernels = INPUT_GRAD("depthwise_input_grad", TD_SET_FLOATS),
     .grad = td_conv_to_input_grad},
    {.name = "DepthwiseConv2dNativeBackpropFilter",
     .sig = "(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) " ATTRS_DEPTHWISE,
     .host_in = 2,
     .infer = td_conv_filter_grad_infer,
     .kernels = FILTER_GRAD("depthwise_filter_grad"),
     .grad = td_conv_to_filter_grad},
    {.name = "Conv3D",
     .sig = "(input:T, filter:T) -> (output:T) " ATTRS_3D "}",
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .fuse = {.head = true},
     .channels = &image_first,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = td_conv_forward_infer,
     .kernels = FORWARD("conv3d", TD_SET_FLOATS),
     .grad = td_conv_grad},
    {.name = "Conv3DBackpropInput",
     .sig = "(input:T, filter:T, out_backprop:T) -> (output:T) " ATTRS_3D_V1,
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .batchable = TD_BATCHABLE(conv_back_rows),
     .infer = td_conv_input_grad_infer,
     .kernels = INPUT_GRAD("conv3d_input_grad", TD_SET_FLOATS)},
    {.name = "Conv3DBackpropInputV2",
     .sig = "(input_sizes:Tshape, filter:T, out_backprop:T) -> (output:T) " ATTRS_3D "; Tshape:type=int32}",
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .channels = &image_last,
     .batchable = TD_BATCHABLE(conv_back_rows),
     .host_in = 1,
     .infer = td_conv_input_grad_infer,
     .kernels = INPUT_GRAD("conv3d_input_grad", TD_SET_FLOATS),
     .grad = td_conv_to_input_grad},
    {.name = "Conv3DBackpropFilter",
     .sig = "(input:T, filter:T, out_backprop:T) -> (output:T) " ATTRS_3D_V1,
     .infer = td_conv_filter_grad_infer,
     .kernels = FILTER_GRAD("conv3d_filter_grad")},
    {.name = "Conv3DBackpropFilterV2",
     .sig = "(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) " ATTRS_3D "}",
     .host_in = 2,
     .infer = td_conv_filter_grad_infer,
     .kernels = FILTER_GRAD("conv3d_filter_grad"),
     .grad = td_conv_to_filter_grad},
    {.name = "Conv",
     .sig =
         "(input:T, filter:T) -> (output:T) {T:type; strides:list(int); padding:string in "
         "['SAME','VALID','EXPLICIT']; explicit_paddings:list(int)=[]; data_format:string='CHANNELS_LAST' in "
         "['CHANNELS_FIRST','CHANNELS_LAST']; dilations:list(int)=[]; batch_dims:int=1; groups:int=1}",
     .flags = TD_OP_PRODUCT,
     .infer = td_conv_forward_infer,
     .kernels = FORWARD("conv", SET_ALL)},
    {.name = NULL},
};
