/* kernels/math/math_scan.c - running sums, products and log-sum-exps along an axis.
 *
 *   x [.., n, ..] of T, axis: int scalar  ->  out [same shape] of T
 *
 *   x seen as [outer, n, inner]: out[o, k, i] folds x[o, 0..k, i]
 *                                (exclusive: 0..k-1; reverse: from the other end)
 *
 * One accumulator a column, `inner` of them. Every step is rounded to T, as Eigen's scan does: what a half
 * has no bits for is lost. An exclusive scan starts with 0, 1 or, for logarithms, -infinity.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/math/math_scan_grad.h"
#include "kernels/cpu/upcast.h"

struct scan {
    int64_t n, inner;
    bool exclusive, reverse;
};
/* One outer slice. acc: `inner` accumulators of 16 bytes at most. */
typedef void scan_fn(const struct scan *s, const void *x, void *y, void *acc);

#define ADD(a, v) ((a) + (v))
#define MULTIPLY(a, v) ((a) * (v))
#define ADD_HALF(a, v) td_round_half((a) + (v))
#define ADD_BF16(a, v) td_round_bf16((a) + (v))
#define MULTIPLY_HALF(a, v) td_round_half((a) * (v))
#define MULTIPLY_BF16(a, v) td_round_bf16((a) * (v))

#define STAMP(op, tag, T, A, load, store, start, FOLD)                                                       \
    static void op##_##tag(const struct scan *s, const void *xv, void *yv, void *accv)                       \
    {                                                                                                        \
        A *acc = accv;                                                                                       \
        for (int64_t i = 0; i < s->inner; i++) {                                                             \
            acc[i] = start;                                                                                  \
        }                                                                                                    \
        for (int64_t k = 0; k < s->n; k++) {                                                                 \
            int64_t at = (s->reverse ? s->n - 1 - k : k) * s->inner;                                         \
            const T *x = (const T *)xv + at;                                                                 \
            T *y = (T *)yv + at;                                                                             \
            for (int64_t i = 0; i < s->inner; i++) {                                                         \
                A before = acc[i];                                                                           \
                acc[i] = FOLD(before, load(x[i]));                                                           \
                y[i] = store(s->exclusive ? before : acc[i]);                                                \
            }                                                                                                \
        }                                                                                                    \
    }

#define NUMBERS(op, start, FOLD)                                                                             \
    STAMP(op, f32, float, float, TD_AS_IS, TD_AS_IS, start, FOLD)                                            \
    STAMP(op, f64, double, double, TD_AS_IS, TD_AS_IS, start, FOLD)                                          \
    STAMP(op, f16, td_half, float, td_half_to_float, td_float_to_half, start, FOLD##_HALF)                   \
    STAMP(op, bf16, td_bf16, float, td_bf16_to_float, td_float_to_bf16, start, FOLD##_BF16)                  \
    STAMP(op, c64, td_cf, td_cf, TD_AS_IS, TD_AS_IS, start, FOLD)                                            \
    STAMP(op, c128, td_cd, td_cd, TD_AS_IS, TD_AS_IS, start, FOLD)                                           \
    STAMP(op, i8, int8_t, uint64_t, (uint64_t), (int8_t), start, FOLD)                                       \
    STAMP(op, i16, int16_t, uint64_t, (uint64_t), (int16_t), start, FOLD)                                    \
    STAMP(op, i32, int32_t, uint64_t, (uint64_t), (int32_t), start, FOLD)                                    \
    STAMP(op, i64, int64_t, uint64_t, (uint64_t), (int64_t), start, FOLD)                                    \
    STAMP(op, u8, uint8_t, uint64_t, (uint64_t), (uint8_t), start, FOLD)                                     \
    STAMP(op, u16, uint16_t, uint64_t, (uint64_t), (uint16_t), start, FOLD)                                  \
    STAMP(op, u32, uint32_t, uint64_t, (uint64_t), (uint32_t), start, FOLD)                                  \
    STAMP(op, u64, uint64_t, uint64_t, (uint64_t), (uint64_t), start, FOLD)
NUMBERS(sum, 0, ADD)
NUMBERS(prod, 1, MULTIPLY)

/* log(exp(a) + exp(b)) by the greater of the two. Of NaN neither is less: it counts as the sum before it. */
#define X(tag, T, s)                                                                                         \
    static T log_add_##tag(T a, T b)                                                                         \
    {                                                                                                        \
        const T low = b < a ? b : a, high = a < b ? b : a;                                                   \
        return high == -(T)INFINITY ? high : high + log1p##s(exp##s(low - high));                            \
    }
X(f32, float, f)
X(f64, double, )
#undef X
#define LOG_ADD_HALF(a, v) td_round_half(log_add_f32(a, v))
#define LOG_ADD_BF16(a, v) td_round_bf16(log_add_f32(a, v))
STAMP(logsum, f32, float, float, TD_AS_IS, TD_AS_IS, -INFINITY, log_add_f32)
STAMP(logsum, f64, double, double, TD_AS_IS, TD_AS_IS, -(double)INFINITY, log_add_f64)
STAMP(logsum, f16, td_half, float, td_half_to_float, td_float_to_half, -INFINITY, LOG_ADD_HALF)
STAMP(logsum, bf16, td_bf16, float, td_bf16_to_float, td_float_to_bf16, -INFINITY, LOG_ADD_BF16)

static enum td_code scan_axis(const struct td_node *n, int rank, int64_t value, int *axis, struct td_err *err)
{
    TD_FAIL_IF(!td_shape_axis(rank, value, axis), err, INVALID_ARGUMENT,
               "%s: ScanOp: Expected scan axis in the range [%d, %d), but got %lld", TD_NODE_STR(n), -rank,
               rank, (long long)value);
    return TD_OK;
}

static enum td_code infer_scan(struct td_infer *c, struct td_err *err)
{
    bool known;
    int64_t value;
    int axis;
    TD_FAIL_IF(c->in[1].rank > 0 && td_shape_count(&c->in[1]) != 1, err, INVALID_ARGUMENT,
               "%s: ScanOp: axis must be a scalar, not %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]));
    TD_TRY(td_infer_int_value(c, 1, &known, &value, err));
    if (known && c->in[0].rank >= 0) {
        TD_TRY(scan_axis(c->node, c->in[0].rank, value, &axis, err));
    }
    return td_infer_same(c, err);
}

static enum td_code scan_run(struct td_call *c, scan_fn *const fns[TD_DTYPE_END], struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    int axis;
    TD_TRY(scan_axis(c->node, x->shape.rank, td_tensor_int(c->in[1], 0), &axis, err));
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(x) == 0) {
        return TD_OK;
    }
    struct scan s = {.n = x->shape.dim[axis],
                     .inner = td_shape_range(&x->shape, axis + 1, x->shape.rank),
                     .exclusive = td_attr_bool(c->node, "exclusive"),
                     .reverse = td_attr_bool(c->node, "reverse")};
    void *acc;
    TD_TRY(td_scratch(c, (size_t)s.inner * sizeof(td_cd), &acc, err));
    int64_t outer = td_shape_range(&x->shape, 0, axis);
    size_t step = (size_t)(s.n * s.inner) * td_dtype_size(x->dtype);
    for (int64_t o = 0; o < outer; o++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        fns[x->dtype](&s, (const char *)x->data + (size_t)o * step, (char *)y->data + (size_t)o * step, acc);
    }
    return TD_OK;
}

#define RUN(op, ...)                                                                                         \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static scan_fn *const fns[TD_DTYPE_END] = {__VA_ARGS__};                                             \
        return scan_run(c, fns, err);                                                                        \
    }
RUN(sum, TD_ROWS_FLOATS(sum), TD_ROWS_COMPLEX(sum), TD_ROWS_SIGNED(sum), TD_ROWS_UNSIGNED(sum))
RUN(prod, TD_ROWS_FLOATS(prod), TD_ROWS_COMPLEX(prod), TD_ROWS_SIGNED(prod), TD_ROWS_UNSIGNED(prod))
RUN(logsum, TD_ROWS_FLOATS(logsum))

#define ROW(op_name, op, set, gradient)                                                                      \
    {                                                                                                        \
        .name = op_name,                                                                                     \
        .sig = "(x:T, axis:Tidx) -> (out:T) {exclusive:bool=false; reverse:bool=false; T:type; "             \
               "Tidx:type=int32}",                                                                           \
        .permute = &td_permute_along1, .batchable = TD_BATCHABLE(td_batchable_along), .host_in = 1u << 1,    \
        .infer = infer_scan, .grad = gradient,                                                               \
        .kernels = TD_KERNEL("math_scan.cpu", op##_run, {"T", set}, {"Tidx", TD_SET_INDEX})                  \
    }

const struct td_op td_ops_math_scan[] = {
    ROW("Cumsum", sum, TD_SET_NUMBERS, td_cumsum_grad),
    ROW("Cumprod", prod, TD_SET_NUMBERS, td_cumprod_grad),
    ROW("CumulativeLogsumexp", logsum, TD_SET_FLOATS, td_cumulative_logsumexp_grad),
    {.name = NULL},
};
