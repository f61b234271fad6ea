/* kernels/math/math_misc.c - AddN, AccumulateNV2, Cross, ClipByValue.
 *
 *   AddN: N tensors of one shape  ->  their sum           Cross: a, b [.., 3]  ->  a x b [.., 3]
 *   ClipByValue: t, clip_value_min, clip_value_max (scalars, or of t's shape)  ->  t within the bounds
 *
 * AddN adds pairwise in the element type and in TensorFlow's order: the first inputs until eights are left,
 * of which each is added up by itself. AddN of TensorLists (variants) adds them element by element: gradients
 * of loops need it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/emit.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/math/math_binary_grad.h"
#include "kernels/cpu/scalar.h"
#include "kernels/control/list_sum.h"
#include "kernels/cpu/vecmath.h"

/* ------------------------------------------------------------------ AddN */

TD_BINARY(TD_CLONES, add_f32, float, td_add_f32)
TD_BINARY(, add_f64, double, td_add_f64)
TD_BINARY_F16(add_f16, add_f32)
TD_BINARY_BF16(add_bf16, add_f32)
TD_BINARY(, add_c64, td_cf, td_add_c64)
TD_BINARY(, add_c128, td_cd, td_add_c128)
#define X(tag, T, U) TD_BINARY(, add_##tag, T, td_add_##tag)
TD_INT_TYPES(X)
#undef X

static td_binary_fn *const add_fns[TD_DTYPE_END] = {TD_ROWS_FLOATS(add), TD_ROWS_COMPLEX(add),
                                                    TD_ROWS_SIGNED(add), TD_ROWS_UNSIGNED(add)};

enum { STRIP = 512, AT_ONCE = 8 }; /* elements; inputs that are added before their sum is */

/* sum = the n elements from byte `from` of inputs first..last - 1, of which there are two or more */
static void add_inputs(const struct td_call *c, int first, int last, size_t from, td_cd *sum, int64_t n)
{
    td_binary_fn *fn = add_fns[c->in[0]->dtype];
    const void *with = (const char *)c->in[first]->data + from;
    for (int i = first + 1; i < last; i++) {
        fn(with, (const char *)c->in[i]->data + from, sum, n, TD_BOTH_ARRAYS);
        with = sum;
    }
}

/* y[at, at + n) = their sum, made apart: y may lie on any of the inputs. */
static void add_strip(const struct td_call *c, const struct td_tensor *y, int64_t at, int64_t n)
{
    td_cd sum[STRIP], part[STRIP];
    const size_t size = td_dtype_size(y->dtype), from = (size_t)at * size;
    const int over = c->n_in % AT_ONCE, begin = over < 2 ? AT_ONCE + over : over;
    add_inputs(c, 0, begin, from, sum, n);
    for (int i = begin; i < c->n_in; i += AT_ONCE) {
        add_inputs(c, i, i + AT_ONCE, from, part, n);
        add_fns[y->dtype](sum, part, sum, n, TD_BOTH_ARRAYS);
    }
    memcpy((char *)y->data + from, sum, (size_t)n * size);
}

static enum td_code add_n_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_tensor_count(y);
    if (n == 0) {
        return TD_OK;
    }
    for (int i = 0; i < c->n_in; i++) {
        TD_FAIL_IF(!td_shape_equal(&c->in[i]->shape, &y->shape), err, INVALID_ARGUMENT,
                   "%s: Inputs to operation must have the same size and shape. Input 0: %s != input %d: %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&y->shape), i, TD_SHAPE_STR(&c->in[i]->shape));
    }
    if (c->n_in == 1) {
        td_elems_copy(y->dtype, y->data, c->in[0]->data, n);
        return TD_OK;
    }
    for (int64_t at = 0; at < n; at += STRIP) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        add_strip(c, y, at, n - at < STRIP ? n - at : STRIP);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Cross */

#define ROUNDED(load, store, x, y) load(store(load(x) * load(y))) /* each product in T, as TensorFlow's */
#define CROSS(tag, T, load, store)                                                                           \
    static void cross_##tag(const void *av, const void *bv, void *zv, int64_t rows)                          \
    {                                                                                                        \
        for (int64_t r = 0; r < rows; r++) {                                                                 \
            const T *a = (const T *)av + 3 * r, *b = (const T *)bv + 3 * r;                                  \
            T *z = (T *)zv + 3 * r;                                                                          \
            for (int i = 0; i < 3; i++) {                                                                    \
                int j = (i + 1) % 3, k = (i + 2) % 3;                                                        \
                z[i] = store(ROUNDED(load, store, a[j], b[k]) - ROUNDED(load, store, a[k], b[j]));           \
            }                                                                                                \
        }                                                                                                    \
    }
CROSS(f32, float, TD_AS_IS, TD_AS_IS)
CROSS(f64, double, TD_AS_IS, TD_AS_IS)
CROSS(f16, td_half, td_half_to_float, td_float_to_half)
CROSS(bf16, td_bf16, td_bf16_to_float, td_float_to_bf16)
#define X(tag, T, U) CROSS(tag, T, (U), (T))
TD_INT_TYPES(X)
#undef X

static enum td_code infer_cross(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_min_rank(c, 0, 1, err));
    TD_TRY(td_infer_equal_shapes(c, err));
    const struct td_shape *s = &c->out[0];
    TD_FAIL_IF(s->rank > 0 && s->dim[s->rank - 1] >= 0 && s->dim[s->rank - 1] != 3, err, FAILED_PRECONDITION,
               "%s: Cross-products are only defined for 3-element vectors; a has shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    return TD_OK;
}

static enum td_code cross_run(struct td_call *c, struct td_err *err)
{
    typedef void cross_fn(const void *, const void *, void *, int64_t);
    static cross_fn *const fns[TD_DTYPE_END] = {TD_ROWS_FLOATS(cross), TD_ROWS_SIGNED(cross),
                                                TD_ROWS_UNSIGNED(cross)};
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    fns[z->dtype](c->in[0]->data, c->in[1]->data, z->data, td_tensor_count(z) / 3);
    return TD_OK;
}

/* ------------------------------------------------------------------ ClipByValue */

/* max(min(t, high), low); a bound that is NaN does not bound, a NaN in t stays. Complex numbers are clipped
 * part by part: as twice as many floats, the bounds having a period of 2. */
#define CLIP(tag, T, load)                                                                                   \
    static void clip_##tag(const struct td_tensor *t, const struct clip *k, void *yv)                        \
    {                                                                                                        \
        const T *x = t->data, *low = k->low, *high = k->high;                                                \
        for (int64_t i = 0; i < k->n; i++) {                                                                 \
            T v = x[i], l = low[k->step_low * (i / k->parts) + i % k->parts];                                \
            T h = high[k->step_high * (i / k->parts) + i % k->parts];                                        \
            v = load(h) < load(v) ? h : v;                                                                   \
            ((T *)yv)[i] = load(v) < load(l) ? l : v;                                                        \
        }                                                                                                    \
    }
struct clip {
    const void *low, *high;
    int64_t n, parts, step_low,
        step_high; /* scalars to clip, scalars an element, steps an element: 0 or parts */
};
typedef void clip_fn(const struct td_tensor *t, const struct clip *k, void *y);

CLIP(f32, float, TD_AS_IS)
CLIP(f64, double, TD_AS_IS)
CLIP(f16, td_half, td_half_to_float)
CLIP(bf16, td_bf16, td_bf16_to_float)
#define X(tag, T, U) CLIP(tag, T, TD_AS_IS)
TD_INT_TYPES(X)
#undef X

static enum td_code infer_clip(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *t = &c->in[0], *low = &c->in[1], *high = &c->in[2];
    bool fits =
        (low->rank == 0 || td_shape_compatible(low, t)) && (high->rank == 0 || td_shape_compatible(high, t));
    TD_FAIL_IF(
        !fits, err, INVALID_ARGUMENT,
        "%s: clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. "
        "input shape: %s clip_value_min shape: %s clip_value_max shape: %s",
        TD_NODE_STR(c->node), TD_SHAPE_STR(t), TD_SHAPE_STR(low), TD_SHAPE_STR(high));
    c->out[0] = c->in[0];
    return TD_OK;
}

static enum td_code clip_run(struct td_call *c, struct td_err *err)
{
    static clip_fn *const fns[TD_DTYPE_END] = {
        TD_ROWS_FLOATS(clip), TD_ROWS_SIGNED(clip),
        TD_ROWS_UNSIGNED(clip), [TD_COMPLEX64] = clip_f32, [TD_COMPLEX128] = clip_f64};
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t parts = td_dtype_in(y->dtype, TD_SET_COMPLEX) ? 2 : 1;
    const struct clip k = {.low = c->in[1]->data,
                           .high = c->in[2]->data,
                           .n = td_tensor_count(y) * parts,
                           .parts = parts,
                           .step_low = c->in[1]->shape.rank ? parts : 0,
                           .step_high = c->in[2]->shape.rank ? parts : 0};
    fns[y->dtype](c->in[0], &k, y->data);
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

static struct td_value simplify_add_n(struct td_emitter *e, const struct td_node *n)
{
    (void)e;
    return n->n_in == 1 ? n->in[0] : td_no_value;
}

const struct td_op td_ops_math_misc[] = {
    {.name = "AddN",
     .sig = "(inputs:N*T) -> (sum:T) {N:int; T:type}",
     .flags = TD_OP_ELEMENTWISE,
     .simplify = simplify_add_n,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = td_infer_merge_all,
     .grad = td_add_n_grad,
     .kernels =
         (const struct td_kernel[]){
             {.name = "math_misc.cpu", .device = TD_CPU, .types = {{"T", TD_SET_NUMBERS}}, .run = add_n_run},
             {.name = "math_misc.lists",
              .device = TD_CPU,
              .types = {{"T", TD_BIT(TD_VARIANT)}},
              .run = td_list_sum_run},
             {.name = NULL}}},
    {.name = "AccumulateNV2",
     .sig = "(inputs:N*T) -> (sum:T) {N:int; T:type; shape:shape}",
     .flags = TD_OP_ELEMENTWISE,
     .infer = td_infer_merge_all,
     .grad = td_add_n_grad,
     .kernels = TD_KERNEL("math_misc.cpu", add_n_run, {"T", TD_SET_NUMBERS})},
    {.name = "Cross",
     .sig = "(a:T, b:T) -> (product:T) {T:type}",
     .infer = infer_cross,
     .grad = td_cross_grad,
     .kernels = TD_KERNEL("math_misc.cpu", cross_run, {"T", TD_SET_REALS})},
    {.name = "ClipByValue",
     .sig = "(t:T, clip_value_min:T, clip_value_max:T) -> (output:T) {T:type}",
     .permute = &td_permute_elementwise,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = infer_clip,
     .grad = td_clip_by_value_grad,
     .kernels = TD_KERNEL("math_misc.cpu", clip_run, {"T", TD_SET_NUMBERS})},
    {.name = NULL},
};
