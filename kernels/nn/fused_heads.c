/* kernels/nn/fused_heads.c - what optimizers of TensorFlow graphs leave behind: products and convolutions
 * with what comes before and after them in one node. They become the nodes that they stand for when the graph
 * is loaded (core/graph/expand.h), which the compiler then fuses in its own way.
 *
 *   _FusedConv2D, _FusedDepthwiseConv2dNative, _FusedMatMul   (x, w, args)  attribute fused_ops, in order:
 *       BiasAdd (bias), FusedBatchNorm (scale, offset, mean, variance), Add (other), or an activation
 *   _FusedBatchNormEx         FusedBatchNormV3, then a side input is added, then an activation
 *   FusedPadConv2D            MirrorPad, Conv2D
 *   FusedResizeAndPadConv2D   ResizeBilinear, MirrorPad, Conv2D
 *
 * A list of operations that is not known, or does not go with the inputs, leaves the node as it is: its
 * kernel says so when it is reached.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/formula/formula.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ what may come behind */

typedef struct td_value after_fn(struct td_emitter *e, const struct td_node *n, struct td_value x,
                                 const struct td_value *args);

static struct td_value bias_add(struct td_emitter *e, const struct td_node *n, struct td_value x,
                                const struct td_value *args)
{
    return td_f_as(e, "BiasAdd", TD_IN(x, args[0]), n, "data_format");
}

static struct td_value add(struct td_emitter *e, const struct td_node *n, struct td_value x,
                           const struct td_value *args)
{
    (void)n;
    return td_f_add(e, x, args[0]);
}

/* With given mean and variance. FusedBatchNorm itself is of floats alone. */
static struct td_value batch_norm(struct td_emitter *e, const struct td_node *n, struct td_value x,
                                  const struct td_value *args)
{
    const float epsilon = (float)td_attr_float(n, "epsilon");
    if (td_dtype_of(x) == TD_FLOAT) {
        return td_emit(e, "FusedBatchNorm", TD_IN(x, args[0], args[1], args[2], args[3]),
                       TD_ATTRS(TD_ATTR_OF_FLOAT("epsilon", epsilon), TD_ATTR_OF_BOOL("is_training", false),
                                TD_ATTR_OF_TEXT("data_format", td_attr_str(n, "data_format"))));
    }
    const struct td_value shifted = td_f_add(e, args[3], td_f_number(e, x, epsilon));
    const struct td_value scale = td_f_mul(e, td_f_1(e, "Rsqrt", shifted), args[0]);
    const struct td_value centred = td_f_sub(e, x, args[2]);
    return td_f_add(e, td_f_mul(e, centred, scale), args[1]);
}

static struct td_value leaky_relu(struct td_emitter *e, const struct td_node *n, struct td_value x,
                                  const struct td_value *args)
{
    (void)args;
    return td_emit(e, "LeakyRelu", TD_IN(x),
                   TD_ATTRS(TD_ATTR_OF_FLOAT("alpha", (float)td_attr_float(n, "leakyrelu_alpha"))));
}

/* x / 2 (1 + y) */
static struct td_value gelu_of(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return td_f_mul(e, td_f_scale(e, x, 0.5), td_f_add(e, y, td_f_number(e, x, 1)));
}

static struct td_value gelu_exact(struct td_emitter *e, const struct td_node *n, struct td_value x,
                                  const struct td_value *args)
{
    (void)n;
    (void)args;
    return gelu_of(e, x, td_f_1(e, "Erf", td_f_scale(e, x, sqrt(0.5))));
}

static struct td_value gelu_approximate(struct td_emitter *e, const struct td_node *n, struct td_value x,
                                        const struct td_value *args)
{
    (void)n;
    (void)args;
    const struct td_value cube = td_f_scale(e, td_f_mul(e, x, td_f_square(e, x)), 0.044715);
    const double factor = 0.79788456080286535588; /* sqrt(2 / pi) */
    return gelu_of(e, x, td_f_1(e, "Tanh", td_f_scale(e, td_f_add(e, x, cube), factor)));
}

static struct td_value swish(struct td_emitter *e, const struct td_node *n, struct td_value x,
                             const struct td_value *args)
{
    (void)n;
    (void)args;
    return td_f_mul(e, x, td_f_1(e, "Sigmoid", x));
}

static struct td_value hard_swish(struct td_emitter *e, const struct td_node *n, struct td_value x,
                                  const struct td_value *args)
{
    (void)n;
    (void)args;
    const struct td_value gate = td_f_1(e, "Relu6", td_f_add(e, x, td_f_number(e, x, 3)));
    return td_f_mul(e, x, td_f_scale(e, gate, 1.0 / 6));
}

/* By the names in fused_ops. Without a function: the op of that name. */
static const struct after {
    const char *name;
    int n_args;
    after_fn *fn;
} afters[] = {
    {"BiasAdd", 1, bias_add},
    {"FusedBatchNorm", 4, batch_norm},
    {"Add", 1, add},
    {"LeakyRelu", 0, leaky_relu},
    {"GeluExact", 0, gelu_exact},
    {"GeluApproximate", 0, gelu_approximate},
    {"_MklSwish", 0, swish},
    {"_FusedSwish", 0, swish},
    {"_FusedHardSwish", 0, hard_swish},
    {"Relu", 0, NULL},
    {"Relu6", 0, NULL},
    {"Elu", 0, NULL},
    {"Tanh", 0, NULL},
    {"Sigmoid", 0, NULL},
};

static const struct after *find_after(struct td_bytes name)
{
    for (size_t i = 0; i < sizeof afters / sizeof afters[0]; i++) {
        if (strlen(afters[i].name) == name.len && memcmp(afters[i].name, name.p, name.len) == 0) {
            return &afters[i];
        }
    }
    return NULL;
}

/* Whether the operations are known, and take as many inputs as there are. */
static bool is_known(const struct td_node *n)
{
    int count;
    int64_t args = 0;
    const struct td_bytes *names = td_attr_strs(n, "fused_ops", &count);
    for (int i = 0; i < count; i++) {
        const struct after *a = find_after(names[i]);
        const bool channels_first = strcmp(td_attr_str(n, "data_format"), "NCHW") == 0;
        if (a == NULL || (a->fn == batch_norm && channels_first && n->out_type[0] != TD_FLOAT)) {
            return false;
        }
        args += a->n_args;
    }
    return count > 0 && args == td_attr_int(n, "num_args") && n->n_in >= 2 + args;
}

/* n is the op, with n's attributes of these names, and its fused_ops behind it. */
static void expand(struct td_emitter *e, struct td_node *n, const char *op, const char *attrs)
{
    if (!is_known(n)) {
        return;
    }
    int count;
    const struct td_bytes *names = td_attr_strs(n, "fused_ops", &count);
    const struct td_value *args = n->in + 2;
    struct td_value x = td_f_as(e, op, n->in, 2, n, attrs);
    for (int i = 0; i < count; i++) {
        const struct after *a = find_after(names[i]);
        x = a->fn == NULL ? td_f_1(e, a->name, x) : a->fn(e, n, x, args);
        args += a->n_args;
    }
    td_f_become(e, n, x);
}

static void expand_conv(struct td_emitter *e, struct td_node *n)
{
    if (td_is_op(n, "_FusedConv2D") && strcmp(td_attr_str(n, "filter_format"), "HWIO") != 0) {
        return;
    }
    expand(e, n, td_is_op(n, "_FusedConv2D") ? "Conv2D" : "DepthwiseConv2dNative",
           "strides,padding,explicit_paddings,data_format,dilations");
}

static void expand_matmul(struct td_emitter *e, struct td_node *n)
{
    expand(e, n, "MatMul", "transpose_a,transpose_b");
}

/* ------------------------------------------------------------------ batch normalisation */

static void expand_norm(struct td_emitter *e, struct td_node *n)
{
    const char *mode = td_attr_str(n, "activation_mode");
    const int64_t sides = td_attr_int(n, "num_side_inputs");
    if ((strcmp(mode, "Identity") != 0 && strcmp(mode, "Relu") != 0) || sides > 1) {
        return;
    }
    const struct td_value norm =
        td_f_as(e, "FusedBatchNormV3", n->in, 5, n, "epsilon,exponential_avg_factor,data_format,is_training");
    struct td_value y = norm;
    y = sides == 1 ? td_f_add(e, y, n->in[5]) : y;
    y = strcmp(mode, "Relu") == 0 ? td_f_1(e, "Relu", y) : y;
    td_emit_again(e, n, td_op_find(e->ops, "IdentityN"),
                  TD_IN(y, td_f_port(norm, 1), td_f_port(norm, 2), td_f_port(norm, 3), td_f_port(norm, 4),
                        td_f_port(norm, 5)),
                  TD_NO_ATTRS);
}

/* ------------------------------------------------------------------ what comes before */

static void pad_and_convolve(struct td_emitter *e, struct td_node *n, struct td_value x, int paddings)
{
    const struct td_value padded = td_f_as(e, "MirrorPad", TD_IN(x, n->in[paddings]), n, "mode");
    td_f_become(e, n, td_f_as(e, "Conv2D", TD_IN(padded, n->in[paddings + 1]), n, "strides,padding"));
}

static void expand_pad(struct td_emitter *e, struct td_node *n)
{
    pad_and_convolve(e, n, n->in[0], 1);
}

static void expand_resize(struct td_emitter *e, struct td_node *n)
{
    const struct td_value resized =
        td_emit(e, "ResizeBilinear", TD_IN(n->in[0], n->in[1]),
                TD_ATTRS(TD_ATTR_OF_BOOL("align_corners", td_attr_bool(n, "resize_align_corners"))));
    pad_and_convolve(e, n, td_f_cast(e, resized, td_dtype_of(n->in[0])), 2);
}

/* ------------------------------------------------------------------ what stays */

static enum td_code refuse(struct td_call *c, struct td_err *err)
{
    int count;
    const struct td_bytes *names = td_attr_strs(c->node, "fused_ops", &count);
    TD_FAIL_IF(count == 0 && !td_is_op(c->node, "_FusedBatchNormEx"), err, INVALID_ARGUMENT,
               "%s: must have at least one of fused_ops", TD_NODE_STR(c->node));
    return td_fail(err, TD_UNIMPLEMENTED, "%s: Fusion is not implemented: %d operations, the first '%.40s'",
                   TD_NODE_STR(c->node), count,
                   count > 0 ? names[0].p : td_attr_str(c->node, "activation_mode"));
}

/* ------------------------------------------------------------------ the table */

#define SET_SOME (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))
#define KERNEL TD_KERNEL("fused.expanded", refuse, {"T", SET_SOME})
#define AFTER "fused_ops:list(string)=[]; epsilon:float=0.0001; leakyrelu_alpha:float=0.2"
#define PADDING "padding:string in ['SAME','VALID','EXPLICIT']; explicit_paddings:list(int)=[]"
#define FORMAT "data_format:string='NHWC' in ['NHWC','NCHW']"
#define DILATIONS "dilations:list(int)=[1,1,1,1]"
#define MIRROR "mode:string in ['REFLECT','SYMMETRIC']; strides:list(int); padding:string in ['SAME','VALID']"

const struct td_op td_ops_fused_heads[] = {
    {.name = "_FusedConv2D",
     .sig = "(input:T, filter:T, args:num_args*T, host_args:num_host_args*float) -> (output:T) {T:type; "
            "num_args:int; num_host_args:int=0; strides:list(int); " PADDING "; " FORMAT
            "; filter_format:string='HWIO'; " DILATIONS "; use_cudnn_on_gpu:bool=true; " AFTER "}",
     .expand = expand_conv,
     .kernels = KERNEL},
    {.name = "_FusedDepthwiseConv2dNative",
     .sig = "(input:T, filter:T, args:num_args*T) -> (output:T) {T:type; num_args:int; "
            "strides:list(int); " PADDING "; " FORMAT "; " DILATIONS "; " AFTER "}",
     .expand = expand_conv,
     .kernels = KERNEL},
    {.name = "_FusedMatMul",
     .sig = "(a:T, b:T, args:num_args*T) -> (product:T) {transpose_a:bool=false; transpose_b:bool=false; "
            "T:type; num_args:int; " AFTER "}",
     .expand = expand_matmul,
     .kernels = KERNEL},
    {.name = "_FusedBatchNormEx",
     .sig = "(x:T, scale:U, offset:U, mean:U, variance:U, side_input:num_side_inputs*T) -> (y:T, "
            "batch_mean:U, batch_variance:U, reserve_space_1:U, reserve_space_2:U, reserve_space_3:U) "
            "{T:type; U:type; epsilon:float=0.0001; exponential_avg_factor:float=1.0; num_side_inputs:int=0; "
            "activation_mode:string='Identity'; " FORMAT "; is_training:bool=true}",
     .expand = expand_norm,
     .kernels = KERNEL},
    {.name = "FusedPadConv2D",
     .sig = "(input:T, paddings:int32, filter:T) -> (output:T) {T:type; " MIRROR "}",
     .expand = expand_pad,
     .kernels = KERNEL},
    {.name = "FusedResizeAndPadConv2D",
     .sig = "(input:T, size:int32, paddings:int32, filter:T) -> (output:T) {T:type; "
            "resize_align_corners:bool=false; " MIRROR "}",
     .expand = expand_resize,
     .kernels = KERNEL},
    {.name = NULL},
};
