/* kernels/nn/uniform_dot.c - matrix products on even grids of levels.
 *
 *   UniformQuantizedDot         lhs [M,K]  rhs [K,N]  ->  [M,N]   levels of 8 bits, levels of 32 bits
 *   UniformQuantizedDotHybrid   lhs is of floats, whose rows become levels by their own range, and so is
 *                               the result
 *
 * Levels are centred first (less their zero points), so that a sum of products is a sum of products of
 * int32s, which wraps. rhs has one grid, or one a column; the result then may have one a column, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/graph.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/nn/quantized.h"
#include "kernels/nn/uniform_quantized.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ shapes */

static enum td_code matrices(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 2, err));
    const int64_t k = a->rank < 0 ? -1 : a->dim[1], k_too = b->rank < 0 ? -1 : b->dim[0];
    TD_FAIL_IF(
        k >= 0 && k_too >= 0 && k != k_too, err, INVALID_ARGUMENT,
        "%s: lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape %s and rhs shape %s",
        TD_NODE_STR(c->node), TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    c->out[0] = td_shape_matrix(a->rank < 0 ? -1 : a->dim[0], b->rank < 0 ? -1 : b->dim[1]);
    return TD_OK;
}

/* Scales i of a matrix, one or one a column, whichever they are; the attribute may say either. */
static enum td_code columns(const struct td_infer *c, const struct td_shape *m, int i, const char *attr,
                            struct td_err *err)
{
    const int64_t axis = td_attr_int(c->node, attr);
    TD_FAIL_IF(axis != -1 && axis != 1, err, INVALID_ARGUMENT,
               "%s: %s Attr must be 1 (per-channel) or -1 (per-tensor), is %lld", TD_NODE_STR(c->node), attr,
               (long long)axis);
    const int rank = c->in[i].rank >= 0 ? c->in[i].rank : c->in[i + 1].rank;
    return rank < 0 ? TD_OK : td_scales_infer(c, m, i, rank == 0 ? -1 : 1, err);
}

static enum td_code dot_infer(struct td_infer *c, struct td_err *err)
{
    struct td_level_limits l;
    TD_TRY(td_level_limits_of(c->node, "output_", &l, err));
    TD_TRY(matrices(c, err));
    TD_FAIL_IF(td_attr_int(c->node, "lhs_quantization_axis") != -1, err, INVALID_ARGUMENT,
               "%s: lhs_quantization_axis Attr must be -1 (per-tensor).", TD_NODE_STR(c->node));
    TD_TRY(td_scales_infer(c, &c->in[0], 2, -1, err));
    TD_TRY(columns(c, &c->in[1], 4, "rhs_quantization_axis", err));
    TD_TRY(columns(c, &c->out[0], 6, "output_quantization_axis", err));
    TD_FAIL_IF(c->in[4].rank == 0 && c->in[6].rank > 0, err, INVALID_ARGUMENT,
               "%s: If rhs is per-tensor quantized, output must be also per-tensor quantized.",
               TD_NODE_STR(c->node));
    return TD_OK;
}

static enum td_code hybrid_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(matrices(c, err));
    return columns(c, &c->in[1], 2, "rhs_quantization_axis", err);
}

/* ------------------------------------------------------------------ products */

static enum td_code room(struct td_call *c, int64_t count, int32_t **out, struct td_err *err)
{
    void *p;
    TD_TRY(td_scratch(c, (size_t)count * sizeof **out, &p, err));
    *out = p;
    return TD_OK;
}

/* Input 1, less the zero points that input `zeros` has. */
static enum td_code centre_rhs(struct td_call *c, int zeros, int32_t **out, struct td_err *err)
{
    const struct td_tensor *b = c->in[1];
    const int64_t n = b->shape.dim[1], count = td_tensor_count(b);
    TD_TRY(room(c, count, out, err));
    for (int64_t i = 0; i < count; i++) {
        (*out)[i] = td_level_sub(td_quantized_get(b, i), td_zero_at(c, zeros, i % n));
    }
    return TD_OK;
}

static void multiply(const struct td_call *c, const int32_t *a, const int32_t *b, int32_t *y)
{
    const int64_t m = c->in[0]->shape.dim[0], k = c->in[0]->shape.dim[1], n = c->in[1]->shape.dim[1];
    const struct td_gemm g = {.m = m, .n = n, .k = k, .a = a, .b = b, .c = y, .lda = k, .ldb = n, .ldc = n};
    td_gemm_plain(TD_INT32, &g);
}

static enum td_code dot_run(struct td_call *c, struct td_err *err)
{
    int32_t *a, *b;
    struct td_tensor *y;
    struct td_level_limits l;
    TD_TRY(td_level_limits_of(c->node, "output_", &l, err));
    for (int i = 2; i < 8; i += 2) {
        TD_TRY(td_scales_positive(c, i, err));
    }
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t m = y->shape.dim[0], n = y->shape.dim[1], count = td_tensor_count(c->in[0]);
    const int64_t grids = c->in[4]->shape.rank == 0 ? 1 : n;
    struct td_rescale *rescale;
    void *p;
    TD_TRY(td_scratch(c, (size_t)grids * sizeof *rescale, &p, err));
    rescale = p;
    for (int64_t j = 0; j < grids; j++) {
        const double factor = (double)td_scale_at(c, 2, 0) * td_scale_at(c, 4, j) / td_scale_at(c, 6, j);
        TD_TRY(td_rescale_make(c->node, factor, &rescale[j], err));
    }
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(room(c, count, &a, err));
    for (int64_t i = 0; i < count; i++) {
        a[i] = td_level_sub(td_quantized_get(c->in[0], i), td_zero_at(c, 3, 0));
    }
    TD_TRY(centre_rhs(c, 5, &b, err));
    multiply(c, a, b, y->data);
    for (int64_t i = 0; i < m * n; i++) {
        int32_t *v = &TD_DATA(y, int32_t)[i];
        const int32_t level = td_rescale_level(&rescale[grids == 1 ? 0 : i % n], *v);
        *v = td_level_limit(&l, td_level_add(level, td_zero_at(c, 7, i % n)));
    }
    return TD_OK;
}

static enum td_code hybrid_run(struct td_call *c, struct td_err *err)
{
    int32_t *a, *b, *sums;
    struct td_tensor *y;
    TD_TRY(td_scales_positive(c, 2, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t m = y->shape.dim[0], n = y->shape.dim[1], k = c->in[0]->shape.dim[1];
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(room(c, m * k, &a, err));
    TD_TRY(room(c, m * n, &sums, err));
    void *p;
    TD_TRY(td_scratch(c, (size_t)m * sizeof(float), &p, err));
    float *scale = p;
    for (int64_t i = 0; i < m; i++) {
        td_uniform_by_range((const float *)c->in[0]->data + i * k, k, a + i * k, &scale[i]);
    }
    TD_TRY(centre_rhs(c, 3, &b, err));
    multiply(c, a, b, sums);
    for (int64_t i = 0; i < m * n; i++) {
        TD_DATA(y, float)[i] = (float)sums[i] * scale[i / n] * td_scale_at(c, 2, i % n);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define LIMITS(prefix) prefix "quantization_min_val:int; " prefix "quantization_max_val:int"
#define AXIS(prefix) prefix "quantization_axis:int=-1"

const struct td_op td_ops_uniform_dot[] = {
    {.name = "UniformQuantizedDot",
     .sig =
         "(lhs:Tin, rhs:Tin, lhs_scales:float, lhs_zero_points:int32, rhs_scales:float, "
         "rhs_zero_points:int32, output_scales:float, output_zero_points:int32) -> (output:Tout) {Tin:type; "
         "Tout:type; " AXIS("lhs_") "; " LIMITS("lhs_") "; " AXIS("rhs_") "; " LIMITS("rhs_") "; " AXIS(
             "output_") "; " LIMITS("output_") "}",
     .flags = TD_OP_HEAVY,
     .infer = dot_infer,
     .kernels =
         TD_KERNEL("uniform_dot.cpu", dot_run, {"Tin", TD_BIT(TD_QINT8)}, {"Tout", TD_BIT(TD_QINT32)})},
    {.name = "UniformQuantizedDotHybrid",
     .sig = "(lhs:Tlhs, rhs:Trhs, rhs_scales:float, rhs_zero_points:int32) -> (output:Tout) {Tlhs:type; "
            "Trhs:type; Tout:type; " AXIS("rhs_") "; " LIMITS("rhs_") "}",
     .flags = TD_OP_HEAVY,
     .infer = hybrid_infer,
     .kernels = TD_KERNEL("uniform_dot.cpu", hybrid_run, {"Tlhs", TD_BIT(TD_FLOAT)},
                          {"Trhs", TD_BIT(TD_QINT8)}, {"Tout", TD_BIT(TD_FLOAT)})},
    {.name = NULL},
};
