/* kernels/math/math_arg.c - ArgMax and ArgMin: where along an axis the extreme is.
 *
 *   input [.., n, ..] of T, dimension: int scalar  ->  output [.., ..] of output_type, the axis removed
 *
 *   input seen as [outer, n, inner]: output[o, i] = k with the extreme of input[o, k, i]
 *
 * The first of equals wins, and a NaN is never taken: the search starts from index 0 and the type's other
 * extreme, as in TensorFlow (so all-NaN gives 0).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"

/* best[0..inner) is scratch of the comparison type. */
typedef void arg_fn(const void *x, int64_t n, int64_t inner, void *best, int64_t *at);

#define STAMP(op, tag, T, A, load, start, BETTER)                                                            \
    static void op##_##tag(const void *xv, int64_t n, int64_t inner, void *bestv, int64_t *at)               \
    {                                                                                                        \
        const T *x = xv;                                                                                     \
        A *best = bestv;                                                                                     \
        for (int64_t i = 0; i < inner; i++) {                                                                \
            best[i] = start;                                                                                 \
            at[i] = 0;                                                                                       \
        }                                                                                                    \
        for (int64_t k = 0; k < n; k++) {                                                                    \
            for (int64_t i = 0; i < inner; i++) {                                                            \
                A v = load(*x++);                                                                            \
                at[i] = v BETTER best[i] ? k : at[i];                                                        \
                best[i] = v BETTER best[i] ? v : best[i];                                                    \
            }                                                                                                \
        }                                                                                                    \
    }
#define BOTH(tag, T, A, load, lowest, highest)                                                               \
    STAMP(largest, tag, T, A, load, lowest, >)                                                               \
    STAMP(smallest, tag, T, A, load, highest, <)
BOTH(f32, float, float, TD_AS_IS, -__FLT_MAX__ * 2, __FLT_MAX__ * 2)
BOTH(f64, double, double, TD_AS_IS, -__DBL_MAX__ * 2, __DBL_MAX__ * 2)
BOTH(f16, td_half, float, td_half_to_float, -__FLT_MAX__ * 2, __FLT_MAX__ * 2)
BOTH(bf16, td_bf16, float, td_bf16_to_float, -__FLT_MAX__ * 2, __FLT_MAX__ * 2)
BOTH(i8, int8_t, int8_t, TD_AS_IS, INT8_MIN, INT8_MAX)
BOTH(i16, int16_t, int16_t, TD_AS_IS, INT16_MIN, INT16_MAX)
BOTH(i32, int32_t, int32_t, TD_AS_IS, INT32_MIN, INT32_MAX)
BOTH(i64, int64_t, int64_t, TD_AS_IS, INT64_MIN, INT64_MAX)
BOTH(u8, uint8_t, uint8_t, TD_AS_IS, 0, UINT8_MAX)
BOTH(u16, uint16_t, uint16_t, TD_AS_IS, 0, UINT16_MAX)
BOTH(u32, uint32_t, uint32_t, TD_AS_IS, 0, UINT32_MAX)
BOTH(u64, uint64_t, uint64_t, TD_AS_IS, 0, UINT64_MAX)
BOTH(b8, td_bool, td_bool, TD_AS_IS, 0, 1)

enum { WIDTH = 32 };

/* Where sign * x is largest, the first of equal ones; NaN never is. A lane for every number of LANES. */
TD_CLONES static int64_t first_most(const float *x, int64_t n, float sign)
{
    float best[WIDTH];
    int32_t at[WIDTH] = {0};
    int64_t from = 0;
    for (int l = 0; l < WIDTH; l++) {
        best[l] = -__builtin_inff();
    }
    for (; from + WIDTH <= n; from += WIDTH) {
        for (int l = 0; l < WIDTH; l++) {
            float v = sign * x[from + l];
            at[l] = v > best[l] ? (int32_t)from + l : at[l];
            best[l] = v > best[l] ? v : best[l];
        }
    }
    float top = best[0];
    int32_t where = at[0];
    for (int l = 1; l < WIDTH; l++) { /* lanes without any say 0 */
        if (best[l] > top || (best[l] == top && at[l] < where)) {
            top = best[l];
            where = at[l];
        }
    }
    for (; from < n; from++) {
        if (sign * x[from] > top) {
            top = sign * x[from];
            where = (int32_t)from;
        }
    }
    return where;
}

/* Axis of input 0 that the dimension input names, with TensorFlow's words for one that does not exist. */
static enum td_code arg_axis(const struct td_node *n, const struct td_shape *in, int64_t dimension, int *axis,
                             struct td_err *err)
{
    TD_FAIL_IF(!td_shape_axis(in->rank, dimension, axis), err, INVALID_ARGUMENT,
               "%s: Expected dimension in the range [%d, %d), but got %lld", TD_NODE_STR(n), -in->rank,
               in->rank, (long long)dimension);
    TD_FAIL_IF(in->dim[*axis] == 0, err, INVALID_ARGUMENT, "%s: Reduction axis %d is empty in shape %s",
               TD_NODE_STR(n), *axis, TD_SHAPE_STR(in));
    return TD_OK;
}

static enum td_code infer_arg(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *in = &c->in[0];
    bool known;
    int64_t dimension;
    TD_FAIL_IF(c->in[1].rank > 0 && td_shape_count(&c->in[1]) != 1, err, INVALID_ARGUMENT,
               "%s: dim must be a scalar, but received tensor of shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]));
    TD_TRY(td_infer_int_value(c, 1, &known, &dimension, err));
    if (in->rank < 0) {
        return TD_OK;
    }
    if (!known) {
        if (in->rank > 0) {
            c->out[0] = td_shape_of_rank(in->rank - 1);
        }
        return TD_OK;
    }
    int axis;
    TD_TRY(arg_axis(c->node, in, dimension, &axis, err));
    c->out[0].rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (i != axis) {
            c->out[0].dim[c->out[0].rank++] = in->dim[i];
        }
    }
    return TD_OK;
}

static void store_index(struct td_tensor *y, int64_t from, const int64_t *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        switch (y->dtype) {
        case TD_INT64:
            TD_DATA(y, int64_t)[from + i] = at[i];
            break;
        case TD_INT32:
            TD_DATA(y, int32_t)[from + i] = (int32_t)at[i];
            break;
        default: /* int16, uint16 */
            TD_DATA(y, uint16_t)[from + i] = (uint16_t)at[i];
        }
    }
}

static enum td_code arg_run(struct td_call *c, arg_fn *const fns[TD_DTYPE_END], struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    int axis;
    TD_TRY(arg_axis(c->node, &x->shape, td_tensor_int(c->in[1], 0), &axis, err));
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t outer = td_shape_range(&x->shape, 0, axis),
            inner = td_shape_range(&x->shape, axis + 1, x->shape.rank);
    int64_t n = x->shape.dim[axis];
    if (outer == 0 || inner == 0) {
        return TD_OK;
    }
    void *best, *at;
    TD_TRY(td_scratch(c, (size_t)inner * 8, &best, err));
    TD_TRY(td_scratch(c, (size_t)inner * 8, &at, err));
    size_t step = (size_t)(n * inner) * td_dtype_size(x->dtype);
    for (int64_t o = 0; o < outer; o++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        if (inner == 1 && x->dtype == TD_FLOAT && n < INT32_MAX - WIDTH) {
            *(int64_t *)at =
                first_most((const float *)x->data + o * n, n, fns[TD_FLOAT] == largest_f32 ? 1.0f : -1.0f);
        } else {
            fns[x->dtype]((const char *)x->data + (size_t)o * step, n, inner, best, at);
        }
        store_index(y, o * inner, at, inner);
    }
    return TD_OK;
}

#define RUN(op)                                                                                              \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static arg_fn *const fns[TD_DTYPE_END] = {TD_ROWS_FLOATS(op), TD_ROWS_SIGNED(op),                    \
                                                  TD_ROWS_UNSIGNED(op), [TD_BOOL] = op##_b8};                \
        return arg_run(c, fns, err);                                                                         \
    }
RUN(largest)
RUN(smallest)

#define SET_INDEX16 (TD_SET_INDEX | TD_BIT(TD_INT16))
const struct td_op td_ops_math_arg[] = {
    {.name = "ArgMax",
     .sig = "(input:T, dimension:Tidx) -> (output:output_type) {T:type; Tidx:type=int32; "
            "output_type:type=int64}",
     .permute = &td_permute_reduce,
     .batchable = TD_BATCHABLE(td_batchable_reduce),
     .host_in = 1u << 1,
     .infer = infer_arg,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("math_arg.cpu", largest_run, {"T", TD_SET_REALS | TD_BIT(TD_BOOL)},
                          {"Tidx", SET_INDEX16}, {"output_type", SET_INDEX16 | TD_BIT(TD_UINT16)})},
    {.name = "ArgMin",
     .sig = "(input:T, dimension:Tidx) -> (output:output_type) {T:type; Tidx:type=int32; "
            "output_type:type=int64}",
     .permute = &td_permute_reduce,
     .batchable = TD_BATCHABLE(td_batchable_reduce),
     .host_in = 1u << 1,
     .infer = infer_arg,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("math_arg.cpu", smallest_run, {"T", TD_SET_REALS | TD_BIT(TD_BOOL)},
                          {"Tidx", TD_SET_INDEX}, {"output_type", TD_SET_INDEX})},
    {.name = NULL},
};
