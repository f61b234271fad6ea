/* kernels/nn/bias.c - BiasAdd and its gradient.     x [N,..,C]   b [C]   ->   y [N,..,C]
 *
 * Channels first (data_format NCHW) they are added to planes. The gradient sums floats in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/fused/fused_stage.h"
#include "core/base/work.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/formula/formula.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

static int bias_axis(const struct td_node *n, int rank)
{
    bool first = strcmp(n->op_name, "BiasAddV1") != 0 && strcmp(td_attr_str(n, "data_format"), "NCHW") == 0;
    return first && rank > 2 ? 1 : rank - 1;
}

static enum td_code bias_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *b = &c->in[1];
    c->out[0] = *x;
    TD_FAIL_IF(x->rank >= 0 && x->rank < 2, err, INVALID_ARGUMENT, "%s: Input tensor must be at least 2D: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    TD_FAIL_IF(b->rank >= 0 && b->rank != 1, err, INVALID_ARGUMENT, "%s: Biases must be 1D: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(b));
    if (x->rank < 0 || b->rank < 0) {
        return TD_OK;
    }
    int axis = bias_axis(c->node, x->rank);
    TD_FAIL_IF(x->dim[axis] >= 0 && b->dim[0] >= 0 && x->dim[axis] != b->dim[0], err, INVALID_ARGUMENT,
               "%s: Must provide as many biases as the %s dimension of the input tensor: %s vs. %s",
               TD_NODE_STR(c->node), axis == 1 && x->rank > 2 ? "channel" : "last", TD_SHAPE_STR(b),
               TD_SHAPE_STR(x));
    if (x->dim[axis] < 0) {
        c->out[0].dim[axis] = b->dim[0];
    }
    return TD_OK;
}

/* y[o][j][i] = x[o][j][i] + b[j]: `outer` blocks of `n` channels of `inner` elements each. */
struct bias {
    int64_t outer, n, inner;
};

#define DEFINE_BIAS(name, ctype, sum)                                                                        \
    TD_CLONES static void name(const struct bias *s, const ctype *x, const ctype *b, ctype *y)               \
    {                                                                                                        \
        const struct bias d = *s; /* the compiler cannot know that y does not hold *s */                     \
        for (int64_t o = 0; o < d.outer; o++) {                                                              \
            for (int64_t j = 0; j < d.n; j++) {                                                              \
                for (int64_t i = 0; i < d.inner; i++, x++, y++) {                                            \
                    *y = (ctype)(sum);                                                                       \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_BIAS(bias_f64, double, *x + b[j])
DEFINE_BIAS(bias_i8, uint8_t, *x + b[j])
DEFINE_BIAS(bias_i16, uint16_t, *x + b[j])
DEFINE_BIAS(bias_i32, uint32_t, *x + b[j])
DEFINE_BIAS(bias_i64, uint64_t, *x + b[j])

/* Float, the hot one: rows of channels, or planes. y may be x. */
TD_CLONES static void bias_f32(const struct bias *s, const float *x, const float *b, float *y)
{
    const int64_t outer = s->outer, n = s->n, inner = s->inner;
    for (int64_t o = 0; o < outer && inner == 1 && !td_work_spent(n); o++, x += n, y += n) {
        TD_INDEPENDENT
        for (int64_t j = 0; j < n; j++) {
            y[j] = x[j] + b[j];
        }
    }
    for (int64_t o = 0; o < outer * n && inner != 1 && !td_work_spent(inner); o++, x += inner, y += inner) {
        float v = b[o % n];
        TD_INDEPENDENT
        for (int64_t i = 0; i < inner; i++) {
            y[i] = x[i] + v;
        }
    }
}

/* Complex numbers are pairs of reals, added part by part. */
static void bias_complex(const struct bias *s, enum td_dtype t, const void *x, const void *b, void *y)
{
    for (int64_t i = 0, n = s->outer * s->n * s->inner; i < n; i++) {
        int64_t j = i / s->inner % s->n;
        for (int part = 0; part < 2; part++) {
            if (t == TD_COMPLEX64) {
                ((float *)y)[2 * i + part] =
                    ((const float *)x)[2 * i + part] + ((const float *)b)[2 * j + part];
            } else {
                ((double *)y)[2 * i + part] =
                    ((const double *)x)[2 * i + part] + ((const double *)b)[2 * j + part];
            }
        }
    }
}

/* Half and bfloat16: each sum in float, rounded once. */
static enum td_code bias_low(struct td_call *c, const struct bias *s, struct td_tensor *y, struct td_err *err)
{
    const float *x, *b;
    float *sum;
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    TD_TRY(td_upcast(c, c->in[1], &b, err));
    TD_TRY(td_upcast_room(c, y, &sum, err));
    bias_f32(s, x, b, sum);
    td_downcast(y, sum);
    return TD_OK;
}

static struct bias bias_of(const struct td_node *n, const struct td_shape *x)
{
    int axis = bias_axis(n, x->rank);
    return (struct bias){td_shape_range(x, 0, axis), x->dim[axis], td_shape_range(x, axis + 1, x->rank)};
}

static enum td_code bias_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    struct bias s = bias_of(c->node, &y->shape);
    const void *x = c->in[0]->data, *b = c->in[1]->data;
    switch (y->dtype) {
    case TD_FLOAT:
        bias_f32(&s, x, b, y->data);
        break;
    case TD_DOUBLE:
        bias_f64(&s, x, b, y->data);
        break;
    case TD_HALF:
    case TD_BFLOAT16:
        return bias_low(c, &s, y, err);
    case TD_COMPLEX64:
    case TD_COMPLEX128:
        bias_complex(&s, y->dtype, x, b, y->data);
        break;
    case TD_INT8:
    case TD_UINT8:
        bias_i8(&s, x, b, y->data);
        break;
    case TD_INT16:
    case TD_UINT16:
        bias_i16(&s, x, b, y->data);
        break;
    case TD_INT32:
    case TD_UINT32:
        bias_i32(&s, x, b, y->data);
        break;
    default:
        bias_i64(&s, x, b, y->data);
    }
    return TD_OK;
}

static enum td_code bias_grad_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    TD_FAIL_IF(x->rank >= 0 && x->rank < 2, err, INVALID_ARGUMENT, "%s: Input tensor must be at least 2D: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    c->out[0] = x->rank < 0 ? td_shape_of_rank(1) : td_shape_vector(x->dim[bias_axis(c->node, x->rank)]);
    return TD_OK;
}

#define SUM_PARTS(ctype, acc_type, parts)                                                                    \
    for (int64_t i = 0; i < total * (parts); i++) {                                                          \
        int64_t cell = i / (parts), j = cell / s.inner % s.n * (parts) + i % (parts);                        \
        ((acc_type *)acc)[j] += ((const ctype *)x)[i];                                                       \
    }                                                                                                        \
    break

/* The same of floats: along the channels where they are the last axis, else along the cells of each. */
TD_CLONES static void sum_floats(const struct bias *s, const float *x, double *restrict acc)
{
    const int64_t outer = s->outer, n = s->n, inner = s->inner;
    for (int64_t o = 0; o < outer && inner == 1 && !td_work_spent(n); o++, x += n) {
        TD_INDEPENDENT
        for (int64_t j = 0; j < n; j++) {
            acc[j] += (double)x[j];
        }
    }
    for (int64_t o = 0; o < outer * n && inner != 1 && !td_work_spent(inner); o++, x += inner) {
        acc[o % n] += (double)td_vec_sum_f32(x, inner);
    }
}

/* acc[j] += every x of channel j, part by part: floats in double, integers wrapping in 64 bits. */
static void sum_channels(const struct bias *shape, enum td_dtype t, const void *x, void *acc)
{
    const struct bias s = *shape; /* the compiler cannot know that acc does not hold it */
    const int64_t total = s.outer * s.n * s.inner;
    switch (t) {
    case TD_DOUBLE:
        SUM_PARTS(double, double, 1);
    case TD_COMPLEX64:
        SUM_PARTS(float, double, 2);
    case TD_COMPLEX128:
        SUM_PARTS(double, double, 2);
    case TD_INT8:
    case TD_UINT8:
        SUM_PARTS(uint8_t, uint64_t, 1);
    case TD_INT16:
    case TD_UINT16:
        SUM_PARTS(uint16_t, uint64_t, 1);
    case TD_INT32:
    case TD_UINT32:
        SUM_PARTS(uint32_t, uint64_t, 1);
    case TD_INT64:
    case TD_UINT64:
        SUM_PARTS(uint64_t, uint64_t, 1);
    default:
        sum_floats(shape, x, acc);
    }
}

static void store_sums(struct td_tensor *y, const void *acc, int64_t n)
{
    const enum td_dtype t = y->dtype;
    if (t == TD_COMPLEX64 || t == TD_COMPLEX128) {
        td_downcast_doubles(y->data, acc, t == TD_COMPLEX64 ? TD_FLOAT : TD_DOUBLE, 2 * n);
    } else if (td_dtype_in(t, TD_SET_FLOATS)) {
        td_downcast_doubles(y->data, acc, t, n);
    } else {
        for (int64_t j = 0; j < n; j++) { /* the low bytes: this machine is little-endian */
            memcpy((char *)y->data + (size_t)j * td_dtype_size(t), (const uint64_t *)acc + j,
                   td_dtype_size(t));
        }
    }
}

static enum td_code bias_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct bias s = bias_of(c->node, &c->in[0]->shape);
    void *acc;
    size_t room = (size_t)s.n * 2 * sizeof(double);
    TD_TRY(td_scratch(c, room, &acc, err));
    if (s.n == 0) {
        return TD_OK;
    }
    memset(acc, 0, room);
    const void *x = c->in[0]->data;
    if (y->dtype == TD_HALF || y->dtype == TD_BFLOAT16) {
        const float *wide;
        TD_TRY(td_upcast(c, c->in[0], &wide, err));
        x = wide;
    }
    sum_channels(&s, y->dtype, x, acc);
    store_sums(y, acc, s.n);
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients */

/* The bias runs along the last axis, whatever is in front. */
static struct td_value over_slices(struct td_emitter *e, const struct td_node *n, struct td_value all,
                                   const struct td_value *in)
{
    return strncmp(td_attr_str(n, "data_format"), "NC", 2) == 0 ? td_no_value : td_f_add(e, all, in[1]);
}

static void add_grad(struct td_grad *g)
{
    td_grad_pass_on(g, 0, 0);
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, td_f_as(g->e, "BiasAddGrad", TD_IN(td_grad_at(g, 0)), g->node, "data_format"));
    }
}

/* The sum of each channel goes to all its cells. */
static void sum_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), shape = td_f_shape(e, td_grad_in(g, 0));
    struct td_value spread = dz;
    if (strcmp(td_attr_str(g->node, "data_format"), "NCHW") ==
        0) { /* [1, C, 1..]: as many as the planes have */
        const struct td_value planes = td_f_part(e, shape, 2, -1);
        const struct td_value ones = td_f_ones_like(e, planes);
        spread = td_f_reshape(e, dz, td_f_concat(e, TD_IN(td_f_ints(e, 1), td_f_shape(e, dz), ones), 0));
    }
    td_grad_give(g, 0, td_f_broadcast_to(e, spread, shape));
}

/* ------------------------------------------------------------------ batches */

static bool bias_rows(struct td_batchable_step *s)
{
    const char *format = td_attr_str(s->node, "data_format");
    int channel = format[0] == 'N' && format[1] == 'C' ? 1 : s->in_shape[0][0].rank - 1;
    if (!td_batchable_alone(s, 0)) {
        return false;
    }
    return s->in[0].axis != channel ? td_batchable_as_input(s, 0, 0, s->in[0].axis)
                                    : td_batchable_no(s, "its channels are the rows");
}

/* ------------------------------------------------------------------ table */

#define FORMAT2 "data_format:string='NHWC' in ['NHWC','NCHW']"

const struct td_op td_ops_bias[] = {
    {.name = "BiasAdd",
     .sig = "(value:T, bias:T) -> (output:T) {T:type; " FORMAT2 "}",
     .flags = TD_OP_ELEMENTWISE,
     .permute = &td_permute_channels,
     .fuse = {.stage = &td_stage_add},
     .halves = TD_HALVES_ADD,
     .over_slices = over_slices,
     .batchable = TD_BATCHABLE(bias_rows),
     .infer = bias_infer,
     .kernels = TD_KERNEL("bias_add.cpu", bias_run, {"T", TD_SET_NUMBERS}),
     .grad = add_grad},
    {.name = "BiasAddV1",
     .sig = "(value:T, bias:T) -> (output:T) {T:type}",
     .flags = TD_OP_ELEMENTWISE,
     .permute = &td_permute_channels,
     .fuse = {.stage = &td_stage_add},
     .halves = TD_HALVES_ADD,
     .batchable = TD_BATCHABLE(bias_rows),
     .infer = bias_infer,
     .kernels = TD_KERNEL("bias_add.cpu", bias_run, {"T", TD_SET_NUMBERS}),
     .grad = add_grad},
    {.name = "BiasAddGrad",
     .sig = "(out_backprop:T) -> (output:T) {T:type; " FORMAT2 "}",
     .vectorize = td_many_bias_add_grad,
     .infer = bias_grad_infer,
     .kernels = TD_KERNEL("bias_add_grad.cpu", bias_grad_run, {"T", TD_SET_NUMBERS}),
     .grad = sum_grad},
    {.name = NULL},
};
