/* kernels/nn/quantized_layer.c - layers on the levels of quantized numbers, as TensorFlow 1's quantized
 * graphs have them.
 *
 *   QuantizedConv2D, QuantizedMatMul    8-bit levels -> 32-bit ones: sums of products, around the levels of
 *                                       0.0
 *   QuantizedBiasAdd                    8-bit levels -> 32-bit ones, over a range with room for both
 *   QuantizedRelu, QuantizedRelu6       the same levels, cut
 *   QuantizedMaxPool, QuantizedAvgPool  the same levels; an average drops its fraction
 *
 * Every tensor of levels comes with the scalars min and max that it spans, and so do the results. Sums wrap.
 * Filters of qint8, which TensorFlow gives to oneDNN alone, are not here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/work.h"
#include "core/graph/graph.h"
#include "kernels/nn/conv_spec.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/ops.h"
#include "kernels/nn/pool_spec.h"
#include "kernels/nn/quantized.h"

/* ------------------------------------------------------------------ convolution */

static enum td_code conv_infer(struct td_infer *c, struct td_err *err)
{
    struct td_conv g;
    TD_TRY(td_quantized_infer_range(c, 2, 6, err));
    TD_TRY(td_conv_spec(c->node, &c->in[0], &c->in[1], &g, err));
    c->out[0] = td_conv_out_shape(c->node, &g, &c->in[0]);
    return TD_OK;
}

static enum td_code conv_run(struct td_call *c, struct td_err *err)
{
    struct td_conv g;
    struct td_tensor *y;
    int32_t *x, *w;
    float min, max;
    TD_TRY(td_conv_spec(c->node, &c->in[0]->shape, &c->in[1]->shape, &g, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_quantized_product_range(c, 2, &min, &max);
    TD_TRY(td_quantized_out_range(c, min, max, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(td_quantized_centred(c, 0, 2, &x, err));
    TD_TRY(td_quantized_centred(c, 1, 4, &w, err));
    td_conv_forward(TD_INT32, &g, x, w, y->data);
    return TD_OK;
}

/* ------------------------------------------------------------------ matrix product */

static enum td_code matmul_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    const int ta = td_attr_bool(c->node, "transpose_a"), tb = td_attr_bool(c->node, "transpose_b");
    TD_TRY(td_quantized_infer_range(c, 2, 6, err));
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 2, err));
    const int64_t k = a->rank < 0 ? -1 : a->dim[!ta], k_too = b->rank < 0 ? -1 : b->dim[tb];
    TD_FAIL_IF(k >= 0 && k_too >= 0 && k != k_too, err, INVALID_ARGUMENT,
               "%s: Matrix size-incompatible: In[0]: %s, In[1]: %s", TD_NODE_STR(c->node), TD_SHAPE_STR(a),
               TD_SHAPE_STR(b));
    c->out[0] = td_shape_matrix(a->rank < 0 ? -1 : a->dim[ta], b->rank < 0 ? -1 : b->dim[!tb]);
    return TD_OK;
}

static enum td_code matmul_run(struct td_call *c, struct td_err *err)
{
    const int ta = td_attr_bool(c->node, "transpose_a"), tb = td_attr_bool(c->node, "transpose_b");
    struct td_tensor *y;
    int32_t *a, *b;
    float min, max;
    TD_TRY(td_quantized_ordered(c, 2, err));
    TD_TRY(td_quantized_ordered(c, 4, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_quantized_product_range(c, 2, &min, &max);
    TD_TRY(td_quantized_out_range(c, min, max, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(td_quantized_centred(c, 0, 2, &a, err));
    TD_TRY(td_quantized_centred(c, 1, 4, &b, err));
    const struct td_gemm g = {.ta = ta ? TD_TRANSPOSED : TD_PLAIN,
                              .tb = tb ? TD_TRANSPOSED : TD_PLAIN,
                              .m = y->shape.dim[0],
                              .n = y->shape.dim[1],
                              .k = c->in[0]->shape.dim[!ta],
                              .a = a,
                              .b = b,
                              .c = y->data,
                              .lda = c->in[0]->shape.dim[1],
                              .ldb = c->in[1]->shape.dim[1],
                              .ldc = y->shape.dim[1]};
    td_gemm_plain(TD_INT32, &g);
    return TD_OK;
}

/* ------------------------------------------------------------------ bias */

static enum td_code bias_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *b = &c->in[1];
    TD_TRY(td_quantized_infer_range(c, 2, 6, err));
    TD_TRY(td_infer_min_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 1, err));
    const int64_t last = x->rank > 0 ? x->dim[x->rank - 1] : -1, n = b->rank == 1 ? b->dim[0] : -1;
    TD_FAIL_IF(last >= 0 && n >= 0 && last != n, err, INVALID_ARGUMENT,
               "%s: Must provide as many biases as the last dimension of the input tensor: %s vs. %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(b), TD_SHAPE_STR(x));
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s: Must provide at least 1 bias", TD_NODE_STR(c->node));
    return td_infer_same(c, err);
}

static enum td_code bias_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    float bound = 0, end[4];
    for (int i = 0; i < 4; i++) {
        end[i] = td_quantized_float(c, 2 + i);
        const float reach = i % 2 == 0 ? -end[i] : end[i];
        bound = i == 0 || reach > bound ? reach : bound;
    }
    bound *= 1 << 17; /* so that a sum of many such numbers has room */
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_quantized_out_range(c, -bound, bound, err));
    const struct td_requantizer of_x =
        td_requantizer_make(c->in[0]->dtype, end[0], end[1], TD_QINT32, -bound, bound);
    const struct td_requantizer of_b =
        td_requantizer_make(c->in[1]->dtype, end[2], end[3], TD_QINT32, -bound, bound);
    const uint32_t zero = (uint32_t)td_quantized_level_in(TD_QINT32, 0, -bound, bound);
    const int64_t n = td_tensor_count(y), biases = td_tensor_count(c->in[1]);
    for (int64_t i = 0; i < n; i++) {
        const int32_t x = td_requantizer_level(&of_x, td_quantized_get(c->in[0], i));
        const int32_t b = td_requantizer_level(&of_b, td_quantized_get(c->in[1], i % biases));
        TD_DATA(y, int32_t)[i] = (int32_t)((uint32_t)x + (uint32_t)b + zero);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ activations */

static enum td_code cut(struct td_call *c, bool at_six, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const float min = td_quantized_float(c, 1), max = td_quantized_float(c, 2);
    const int32_t low = td_quantized_level_in(x->dtype, 0, min, max);
    const int32_t high = at_six ? td_quantized_level_in(x->dtype, 6, min, max) : INT32_MAX;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_quantized_out_range(c, min, max, err));
    for (int64_t i = 0, n = td_tensor_count(x); i < n; i++) {
        int32_t v = td_quantized_get(x, i);
        v = v < low ? low : v;
        td_tensor_set_int(y, i, v > high ? high : v);
    }
    return TD_OK;
}

static enum td_code relu_run(struct td_call *c, struct td_err *err)
{
    return cut(c, false, err);
}

static enum td_code relu6_run(struct td_call *c, struct td_err *err)
{
    return cut(c, true, err);
}

/* TensorFlow has no kernel from one type to another. */
static const char *two_types(const struct td_node *n)
{
    return td_attr_type(n, "Tinput") != td_attr_type(n, "out_type") ? "Tinput and out_type differ" : NULL;
}

/* ------------------------------------------------------------------ pools */

static enum td_code pool_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_quantized_infer_range(c, 1, 3, err));
    return td_pool_infer(c, err);
}

/* Channel `at` of one window: the greatest of its levels, or their sum over their number. */
static int32_t pool_cell(const struct td_pool *p, const struct td_tensor *x, int64_t cell, int64_t at,
                         bool greatest)
{
    struct td_pool_walk w;
    int64_t best = td_quantized_lowest(x->dtype), sum = 0;
    for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
        const int32_t v = td_quantized_get(x, w.in_cell * p->channels + at);
        best = v > best ? v : best;
        sum += v;
    }
    return (int32_t)(greatest || w.count == 0 ? best : sum / w.count);
}

static enum td_code pool(struct td_call *c, bool greatest, struct td_err *err)
{
    struct td_pool p;
    struct td_tensor *y;
    TD_TRY(td_pool_attrs(c->node, &c->in[0]->shape, &p, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_quantized_out_range(c, td_quantized_float(c, 1), td_quantized_float(c, 2), err));
    const int64_t cells = td_tensor_count(y) > 0 ? p.batch * td_pool_out_cells(&p) : 0;
    for (int64_t cell = 0; cell < cells && !td_work_spent(64 * p.channels); cell++) {
        for (int64_t k = 0; k < p.channels; k++) {
            td_tensor_set_int(y, cell * p.channels + k, pool_cell(&p, c->in[0], cell, k, greatest));
        }
    }
    return TD_OK;
}

static enum td_code max_pool_run(struct td_call *c, struct td_err *err)
{
    return pool(c, true, err);
}

static enum td_code avg_pool_run(struct td_call *c, struct td_err *err)
{
    return pool(c, false, err);
}

/* ------------------------------------------------------------------ the table */

#define Q8 (TD_BIT(TD_QINT8) | TD_BIT(TD_QUINT8))
#define Q8_32 (TD_BIT(TD_QUINT8) | TD_BIT(TD_QINT32))
#define POOL_SIG                                                                                             \
    "(input:T, min_input:float, max_input:float) -> (output:T, min_output:float, max_output:float) "         \
    "{T:type; ksize:list(int); strides:list(int); padding:string in ['SAME','VALID']}"
#define RELU_SIG                                                                                             \
    "(features:Tinput, min_features:float, max_features:float) -> "                                          \
    "(activations:out_type, min_activations:float, max_activations:float) "                                  \
    "{Tinput:type; out_type:type=quint8}"
#define RELU_KERNEL(fn)                                                                                      \
    (const struct td_kernel[])                                                                               \
    {                                                                                                        \
        {.name = "quantized.cpu",                                                                            \
         .device = TD_CPU,                                                                                   \
         .types = {{"Tinput", Q8_32}, {"out_type", Q8_32}},                                                  \
         .refuse = two_types,                                                                                \
         .run = fn},                                                                                         \
        {                                                                                                    \
            .name = NULL                                                                                     \
        }                                                                                                    \
    }

const struct td_op td_ops_quantized_layer[] = {
    {.name = "QuantizedConv2D",
     .sig = "(input:Tinput, filter:Tfilter, min_input:float, max_input:float, min_filter:float, "
            "max_filter:float) -> (output:out_type, min_output:float, max_output:float) {Tinput:type; "
            "Tfilter:type; out_type:type=qint32; strides:list(int); padding:string in ['SAME','VALID']; "
            "dilations:list(int)=[1,1,1,1]}",
     .infer = conv_infer,
     .kernels = TD_KERNEL("quantized.cpu", conv_run, {"Tinput", TD_BIT(TD_QUINT8)},
                          {"Tfilter", TD_BIT(TD_QUINT8)}, {"out_type", TD_BIT(TD_QINT32)})},
    {.name = "QuantizedMatMul",
     .sig = "(a:T1, b:T2, min_a:float, max_a:float, min_b:float, max_b:float) -> "
            "(out:Toutput, min_out:float, max_out:float) {T1:type; T2:type; Toutput:type=qint32; "
            "transpose_a:bool=false; transpose_b:bool=false; Tactivation:type=quint8}",
     .infer = matmul_infer,
     .kernels = TD_KERNEL("quantized.cpu", matmul_run, {"T1", TD_BIT(TD_QUINT8)}, {"T2", TD_BIT(TD_QUINT8)},
                          {"Toutput", TD_BIT(TD_QINT32)})},
    {.name = "QuantizedBiasAdd",
     .sig = "(input:T1, bias:T2, min_input:float, max_input:float, min_bias:float, max_bias:float) -> "
            "(output:out_type, min_out:float, max_out:float) {T1:type; T2:type; out_type:type}",
     .infer = bias_infer,
     .kernels =
         TD_KERNEL("quantized.cpu", bias_run, {"T1", Q8}, {"T2", Q8}, {"out_type", TD_BIT(TD_QINT32)})},
    {.name = "QuantizedRelu",
     .sig = RELU_SIG,
     .infer = td_quantized_infer_same,
     .kernels = RELU_KERNEL(relu_run)},
    {.name = "QuantizedRelu6",
     .sig = RELU_SIG,
     .infer = td_quantized_infer_same,
     .kernels = RELU_KERNEL(relu6_run)},
    {.name = "QuantizedMaxPool",
     .sig = POOL_SIG,
     .infer = pool_infer,
     .kernels = TD_KERNEL("quantized.cpu", max_pool_run, {"T", Q8})},
    {.name = "QuantizedAvgPool",
     .sig = POOL_SIG,
     .infer = pool_infer,
     .kernels = TD_KERNEL("quantized.cpu", avg_pool_run, {"T", Q8})},
    {.name = NULL},
};
