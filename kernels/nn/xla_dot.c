/* kernels/nn/xla_dot.c - XlaDot, XlaDotV2: products over some axes of both sides, batches over others.
 *
 *   lhs, rhs  ->  [batch.., other axes of lhs.., other axes of rhs..]
 *
 * dimension_numbers: lists of the axes that are summed over, of lhs (1) and rhs (2), and of the batch axes
 * (3, 4). Where the ranks are known when a graph is compiled, it is an Einsum. Else both sides are put in
 * order, [batch, m, k] and [batch, k, n], and multiplied matrix by matrix, in the type of the result;
 * halves in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "core/graph/emit.h"
#include "core/graph/graph.h"
#include "kernels/cpu/upcast.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/nn/xla_dims.h"
#include "kernels/ops.h"

enum { LHS_SUMMED, RHS_SUMMED, LHS_BATCH, RHS_BATCH, FIELDS };

static enum td_code read_dims(const struct td_node *n, int lhs_rank, int rhs_rank, struct td_axes a[FIELDS],
                              struct td_err *err)
{
    TD_TRY(td_axes_read(n, FIELDS, a, err));
    for (int i = 0; i < FIELDS; i++) {
        const int rank = i == LHS_SUMMED || i == LHS_BATCH ? lhs_rank : rhs_rank;
        TD_TRY(td_axes_check(n, &a[i], "dimension_numbers", rank, err));
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < a[side].n; i++) {
            TD_FAIL_IF(td_axes_has(&a[2 + side], a[side].axis[i]), err, INVALID_ARGUMENT,
                       "%s: axis %d is summed over, and a batch axis", TD_NODE_STR(n), a[side].axis[i]);
        }
    }
    TD_FAIL_IF(a[LHS_SUMMED].n != a[RHS_SUMMED].n || a[LHS_BATCH].n != a[RHS_BATCH].n, err, INVALID_ARGUMENT,
               "%s: lhs and rhs have different numbers of contracting or batch dimensions", TD_NODE_STR(n));
    return TD_OK;
}

static bool is_free(const struct td_axes a[FIELDS], int side, int axis)
{
    return !td_axes_has(&a[side], axis) && !td_axes_has(&a[2 + side], axis);
}

static enum td_code pair(const struct td_infer *c, const struct td_axes *l, const struct td_axes *r,
                         struct td_err *err)
{
    for (int i = 0; i < l->n; i++) {
        const int64_t a = c->in[0].dim[l->axis[i]], b = c->in[1].dim[r->axis[i]];
        TD_FAIL_IF(a >= 0 && b >= 0 && a != b, err, INVALID_ARGUMENT,
                   "%s: axis %d of lhs and axis %d of rhs must be equal: %lld and %lld", TD_NODE_STR(c->node),
                   l->axis[i], r->axis[i], (long long)a, (long long)b);
    }
    return TD_OK;
}

static enum td_code dot_infer(struct td_infer *c, struct td_err *err)
{
    struct td_axes a[FIELDS];
    struct td_shape out = {.rank = 0};
    if (c->in[0].rank < 0 || c->in[1].rank < 0) {
        return TD_OK;
    }
    TD_TRY(read_dims(c->node, c->in[0].rank, c->in[1].rank, a, err));
    TD_TRY(pair(c, &a[LHS_SUMMED], &a[RHS_SUMMED], err));
    TD_TRY(pair(c, &a[LHS_BATCH], &a[RHS_BATCH], err));
    const int rank = c->in[0].rank + c->in[1].rank - a[LHS_BATCH].n - 2 * a[LHS_SUMMED].n;
    TD_FAIL_IF(rank > TD_MAX_RANK, err, UNIMPLEMENTED, "%s: its result has rank %d, at most %d",
               TD_NODE_STR(c->node), rank, TD_MAX_RANK);
    for (int i = 0; i < a[LHS_BATCH].n; i++) {
        out.dim[out.rank++] = c->in[0].dim[a[LHS_BATCH].axis[i]];
    }
    for (int side = 0; side < 2; side++) {
        for (int d = 0; d < c->in[side].rank; d++) {
            if (is_free(a, side, d)) {
                out.dim[out.rank++] = c->in[side].dim[d];
            }
        }
    }
    c->out[0] = out;
    return TD_OK;
}

/* ------------------------------------------------------------------ in order */

/* Axes in the order in which a side is walked. */
static struct td_axes order_of(const struct td_axes a[FIELDS], int side, int rank)
{
    struct td_axes to = {.n = 0};
    for (int i = 0; i < a[2 + side].n; i++) {
        to.axis[to.n++] = a[2 + side].axis[i];
    }
    for (int i = 0; side == 1 && i < a[side].n; i++) {
        to.axis[to.n++] = a[side].axis[i];
    }
    for (int d = 0; d < rank; d++) {
        if (is_free(a, side, d)) {
            to.axis[to.n++] = d;
        }
    }
    for (int i = 0; side == 0 && i < a[side].n; i++) {
        to.axis[to.n++] = a[side].axis[i];
    }
    return to;
}

static int64_t product(const struct td_shape *s, const struct td_axes *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->n; i++) {
        n *= s->dim[a->axis[i]];
    }
    return n;
}

static void put(const struct td_tensor *t, int64_t from, enum td_dtype as, void *to, int64_t at)
{
    const size_t size = td_dtype_size(as);
    if (as == TD_FLOAT && t->dtype != TD_FLOAT) {
        ((float *)to)[at] = (float)td_upcast_at(t, from);
    } else if (as == t->dtype) {
        memcpy((char *)to + (size_t)at * size, (const char *)t->data + (size_t)from * size, size);
    } else if (as == TD_INT32) {
        ((int32_t *)to)[at] = (int32_t)td_tensor_int(t, from);
    } else {
        ((int64_t *)to)[at] = td_tensor_int(t, from);
    }
}

/* t's elements by these axes, as another type. */
static void arrange(const struct td_tensor *t, const struct td_axes *axes, enum td_dtype as, void *to)
{
    int64_t step[TD_MAX_RANK], at[TD_MAX_RANK] = {0}, from = 0;
    for (int i = 0; i < axes->n; i++) {
        step[i] = td_shape_range(&t->shape, axes->axis[i] + 1, t->shape.rank);
    }
    for (int64_t k = 0, n = td_tensor_count(t); k < n; k++) {
        put(t, from, as, to, k);
        for (int i = axes->n - 1; i >= 0; i--) {
            from += step[i];
            if (++at[i] < t->shape.dim[axes->axis[i]]) {
                break;
            }
            from -= step[i] * at[i];
            at[i] = 0;
        }
    }
}

static enum td_code side(struct td_call *c, int i, const struct td_axes a[FIELDS], enum td_dtype as,
                         void **to, struct td_err *err)
{
    const struct td_axes order = order_of(a, i, c->in[i]->shape.rank);
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(c->in[i]) * td_dtype_size(as), to, err));
    arrange(c->in[i], &order, as, *to);
    return TD_OK;
}

static enum td_code dot_run(struct td_call *c, struct td_err *err)
{
    struct td_axes a[FIELDS];
    const struct td_shape *l = &c->in[0]->shape, *r = &c->in[1]->shape;
    struct td_tensor *y;
    void *lhs, *rhs, *sums;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(read_dims(c->node, l->rank, r->rank, a, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    const bool low = y->dtype == TD_HALF || y->dtype == TD_BFLOAT16;
    const enum td_dtype as = low ? TD_FLOAT : y->dtype;
    const size_t size = td_dtype_size(as);
    const int64_t batch = product(l, &a[LHS_BATCH]), k = product(l, &a[LHS_SUMMED]);
    int64_t m = 1, n = 1;
    for (int d = 0; d < l->rank; d++) {
        m *= is_free(a, 0, d) ? l->dim[d] : 1;
    }
    for (int d = 0; d < r->rank; d++) {
        n *= is_free(a, 1, d) ? r->dim[d] : 1;
    }
    TD_TRY(side(c, 0, a, as, &lhs, err));
    TD_TRY(side(c, 1, a, as, &rhs, err));
    sums = y->data;
    if (low) {
        TD_TRY(td_scratch(c, (size_t)td_tensor_count(y) * size, &sums, err));
    }
    for (int64_t b = 0; b < batch; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        const struct td_gemm g = {.m = m,
                                  .n = n,
                                  .k = k,
                                  .a = (char *)lhs + (size_t)(b * m * k) * size,
                                  .b = (char *)rhs + (size_t)(b * k * n) * size,
                                  .c = (char *)sums + (size_t)(b * m * n) * size,
                                  .lda = k,
                                  .ldb = n,
                                  .ldc = n};
        td_gemm_blas(as, &g);
    }
    if (low) {
        td_downcast(y, sums);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ as an Einsum */

/* Letters of a side's axes: batch and summed ones have those of the other side. */
static void letters(const struct td_axes a[FIELDS], int which, int rank, char *to)
{
    for (int d = 0; d < rank; d++) {
        to[d] = (char)((which == 0 ? 'A' : 'N') + d);
    }
    for (int i = 0; i < a[which].n; i++) {
        to[a[which].axis[i]] = (char)('a' + i);
    }
    for (int i = 0; i < a[2 + which].n; i++) {
        to[a[2 + which].axis[i]] = (char)('n' + i);
    }
    to[rank] = 0;
}

static struct td_value simplify_dot(struct td_emitter *e, const struct td_node *n)
{
    const int ranks[] = {td_emit_shape(e, n->in[0])->rank, td_emit_shape(e, n->in[1])->rank};
    char side_of[2][TD_MAX_RANK + 1], equation[4 * TD_MAX_RANK + 8];
    struct td_axes a[FIELDS];
    struct td_err err = {0};
    const enum td_dtype t = n->out_type[0];
    if (ranks[0] < 0 || ranks[1] < 0 || td_dtype_of(n->in[0]) != t || td_dtype_of(n->in[1]) != t ||
        !td_dtype_in(t, TD_SET_FLOATS | TD_SET_COMPLEX) || read_dims(n, ranks[0], ranks[1], a, &err)) {
        return td_no_value;
    }
    letters(a, 0, ranks[0], side_of[0]);
    letters(a, 1, ranks[1], side_of[1]);
    size_t at = (size_t)snprintf(equation, sizeof equation, "%s,%s->", side_of[0], side_of[1]);
    for (int i = 0; i < a[LHS_BATCH].n; i++) {
        equation[at++] = (char)('n' + i);
    }
    for (int s = 0; s < 2; s++) {
        for (int d = 0; d < ranks[s]; d++) {
            if (is_free(a, s, d)) {
                equation[at++] = side_of[s][d];
            }
        }
    }
    equation[at] = 0;
    return td_emit(e, "Einsum", TD_IN(n->in[0], n->in[1]),
                   TD_ATTRS(TD_ATTR_OF_TEXT("equation", equation), TD_ATTR_OF_INT("N", 2)));
}

/* ------------------------------------------------------------------ the table */

#define SMALL (TD_BIT(TD_INT8) | TD_BIT(TD_UINT8) | TD_BIT(TD_INT16) | TD_BIT(TD_UINT16))
#define ONE(set)                                                                                             \
    {                                                                                                        \
        .name = "xla_dot.cpu", .types = {{"T", set}}, .run = dot_run                                         \
    }
#define THREE(side_set, set)                                                                                 \
    {                                                                                                        \
        .name = "xla_dot.cpu",                                                                               \
        .types = {{"LhsT", side_set}, {"RhsT", side_set}, {"preferred_element_type", set}}, .run = dot_run   \
    }
#define LOW (TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

const struct td_op td_ops_xla_dot[] = {
    {.name = "XlaDot",
     .sig = "(lhs:T, rhs:T) -> (output:T) {T:type; dimension_numbers:string; precision_config:string}",
     .flags = TD_OP_HEAVY,
     .infer = dot_infer,
     .simplify = simplify_dot,
     .kernels =
         (const struct td_kernel[]){ONE(TD_SET_FLOATS | TD_SET_COMPLEX | TD_SET_INDEX), {.name = NULL}}},
    {.name = "XlaDotV2",
     .sig = "(lhs:LhsT, rhs:RhsT) -> (output:preferred_element_type) {LhsT:type; RhsT:type; "
            "dimension_numbers:string; precision_config:string; preferred_element_type:type}",
     .flags = TD_OP_HEAVY,
     .infer = dot_infer,
     .simplify = simplify_dot,
     .kernels = (const struct td_kernel[]){THREE(LOW | TD_BIT(TD_FLOAT), LOW | TD_BIT(TD_FLOAT)),
                                           THREE(TD_BIT(TD_DOUBLE), TD_BIT(TD_DOUBLE)),
                                           THREE(TD_BIT(TD_COMPLEX64), TD_BIT(TD_COMPLEX64)),
                                           THREE(TD_BIT(TD_COMPLEX128), TD_BIT(TD_COMPLEX128)),
                                           THREE(SMALL | TD_BIT(TD_INT32), TD_BIT(TD_INT32)),
                                           THREE(SMALL | TD_SET_INDEX, TD_BIT(TD_INT64)),
                                           {.name = NULL}}},
    {.name = NULL},
};
