/* kernels/math/math_reduce.c - Sum, Mean, Prod, Max, Min, EuclideanNorm, All and Any over chosen axes.
 *
 *   input [d0, d1, ..] of T, reduction_indices: int scalar or vector of axes
 *                              ->  output of T without those axes (with keep_dims: those axes become 1)
 *
 * Dims of size 1 are dropped and neighbours of the same kind merged, so the input alternates between kept and
 * reduced dims. The innermost decides the loop: a reduced one is folded run by run into one accumulator each
 * (`row`), a kept one is folded element by element into as many accumulators (`col`), BLOCK columns at a
 * time.
 *
 *   [K, R]  row:  acc[k] <- x[k, 0..R)          [R, K]  col:  acc[0..K) <- x[0, 0..K), x[1, 0..K), ..
 *
 * Accumulators are wider than the elements (double for 16 and 32 bit floats, 64-bit wrapping integers, double
 * complex), so results are closer to the exact value than those of Eigen. Reduction over nothing gives 0, 1,
 * the lowest or highest value, true or false; Mean over nothing is NaN (0 for integers and complex numbers).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/math/math_reduce_grad.h"
#include "kernels/math/reduce_axes.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

#define BLOCK 2048 /* columns folded at once: accumulators stay in the first-level cache */
#define ROWS 256   /* row results kept before they are finished */
#define WIDTH 32   /* accumulators of a long row */

/* ------------------------------------------------------------------ one reduction of one dtype */

struct reducer {
    size_t acc_size;
    void (*init)(void *acc, int64_t n);               /* n accumulators */
    void (*row)(const void *x, int64_t n, void *acc); /* acc[0] <- x[0..n) */
    void (*col)(const void *x, int64_t n, void *acc); /* acc[i] <- x[i] */
    void (*finish)(const void *acc, void *y, int64_t n,
                   int64_t of); /* y[i] from acc[i], each of `of` elements */
};

#define REDUCER(op, tag)                                                                                     \
    {                                                                                                        \
        sizeof(acc_##op##_##tag), op##_##tag##_init, op##_##tag##_row, op##_##tag##_col, op##_##tag##_finish \
    }

/* The four functions of a reduction: T elements, A accumulators, FOLD(acc, element), MERGE(acc, acc),
 * FINISH(acc, count). A long row has LANES accumulators, which become vectors and are merged at its end;
 * `row` is unused where another replaces it. */
#define STAMP(op, tag, T, A, load, start, FOLD, MERGE, FINISH)                                               \
    typedef A acc_##op##_##tag;                                                                              \
    static void op##_##tag##_init(void *acc, int64_t n)                                                      \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            ((A *)acc)[i] = start;                                                                           \
        }                                                                                                    \
    }                                                                                                        \
    __attribute__((unused)) TD_CLONES static void op##_##tag##_row(const void *x, int64_t n, void *acc)      \
    {                                                                                                        \
        A a = *(A *)acc, part[WIDTH];                                                                        \
        int64_t i = 0;                                                                                       \
        for (int k = 0; k < WIDTH; k++) {                                                                    \
            part[k] = start;                                                                                 \
        }                                                                                                    \
        for (; i + WIDTH <= n; i += WIDTH) {                                                                 \
            for (int k = 0; k < WIDTH; k++) {                                                                \
                part[k] = FOLD(part[k], load(((const T *)x)[i + k]));                                        \
            }                                                                                                \
        }                                                                                                    \
        for (int k = 0; n >= WIDTH && k < WIDTH; k++) {                                                      \
            a = MERGE(a, part[k]);                                                                           \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            a = FOLD(a, load(((const T *)x)[i]));                                                            \
        }                                                                                                    \
        *(A *)acc = a;                                                                                       \
    }                                                                                                        \
    TD_CLONES static void op##_##tag##_col(const void *x, int64_t n, void *acc)                              \
    {                                                                                                        \
        A *a = acc;                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            a[i] = FOLD(a[i], load(((const T *)x)[i]));                                                      \
        }                                                                                                    \
    }                                                                                                        \
    static void op##_##tag##_finish(const void *acc, void *y, int64_t n, int64_t of)                         \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            ((T *)y)[i] = FINISH(((const A *)acc)[i], of);                                                   \
        }                                                                                                    \
    }

/* X(tag, type, accumulator, from element, to element) */
#define FLOATS(X)                                                                                            \
    X(f32, float, double, (double), (float))                                                                 \
    X(f64, double, double, TD_AS_IS, TD_AS_IS)                                                               \
    X(f16, td_half, double, td_half_to_float, half_of)                                                       \
    X(bf16, td_bf16, double, td_bf16_to_float, bf16_of)
#define INTS(X)                                                                                              \
    X(i8, int8_t, uint64_t, (uint64_t), (int8_t))                                                            \
    X(i16, int16_t, uint64_t, (uint64_t), (int16_t))                                                         \
    X(i32, int32_t, uint64_t, (uint64_t), (int32_t))                                                         \
    X(i64, int64_t, uint64_t, (uint64_t), (int64_t))                                                         \
    X(u8, uint8_t, uint64_t, (uint64_t), (uint8_t))                                                          \
    X(u16, uint16_t, uint64_t, (uint64_t), (uint16_t))                                                       \
    X(u32, uint32_t, uint64_t, (uint64_t), (uint32_t))                                                       \
    X(u64, uint64_t, uint64_t, (uint64_t), (uint64_t))
#define COMPLEXES(X) X(c64, td_cf, td_cd, (td_cd), (td_cf)) X(c128, td_cd, td_cd, TD_AS_IS, TD_AS_IS)

static td_half half_of(double v)
{
    return td_float_to_half((float)v);
}
static td_bf16 bf16_of(double v)
{
    return td_float_to_bf16((float)v);
}

#define ADD(a, v) ((a) + (v))
#define MULTIPLY(a, v) ((a) * (v))
#define ADD_SQUARE(a, v) ((a) + (v) * (v))
#define ADD_LENGTH(a, v) ((a) + length_squared(v))

static td_cd length_squared(td_cd v)
{
    return creal(v) * creal(v) + cimag(v) * cimag(v);
}

/* Sums are rounded to T before they are divided (but for bfloat16) or their root is taken: what T cannot hold
 * is infinite. */
static double mean_sum_of_f32(double a)
{
    return (float)a;
}
static double mean_sum_of_f64(double a)
{
    return a;
}
static double mean_sum_of_f16(double a)
{
    return td_round_half((float)a);
}
static double mean_sum_of_bf16(double a)
{
    return (float)a;
}

/* The mean of integers is that of their 64-bit sum, toward zero; nothing has the mean 0. */
#define X(tag, T, A, load, store)                                                                            \
    static T mean_of_##tag(A a, int64_t of)                                                                  \
    {                                                                                                        \
        if (of == 0) {                                                                                       \
            return 0;                                                                                        \
        }                                                                                                    \
        return (T)-1 < (T)1 ? store((A)((int64_t)a / of)) : store(a / (A)of);                                \
    }                                                                                                        \
    static T root_of_##tag(A a, int64_t of)                                                                  \
    {                                                                                                        \
        (void)of;                                                                                            \
        T sum = store(a);                                                                                    \
        return sum > 0 ? store((A)sqrt((double)sum)) : 0;                                                    \
    }
INTS(X)
#undef X
#define X(tag, T, A, load, store)                                                                            \
    static T mean_of_##tag(A a, int64_t of)                                                                  \
    {                                                                                                        \
        return store((A)(mean_sum_of_##tag(a) / (double)of));                                                \
    }                                                                                                        \
    static T root_of_##tag(A a, int64_t of)                                                                  \
    {                                                                                                        \
        (void)of;                                                                                            \
        return store((A)sqrt((double)load(store(a))));                                                       \
    }
FLOATS(X)
#undef X
#define X(tag, T, A, load, store)                                                                            \
    static T mean_of_##tag(A a, int64_t of)                                                                  \
    {                                                                                                        \
        return of == 0 ? 0 : store((A)(a / (double)of));                                                     \
    }
COMPLEXES(X)
#undef X
#define X(tag, T, A, load, store)                                                                            \
    static T root_of_##tag(A a, int64_t of)                                                                  \
    {                                                                                                        \
        (void)of;                                                                                            \
        return store((A)sqrt(creal(a)));                                                                     \
    }
COMPLEXES(X)
#undef X
#define X(tag, T, A, load, store)                                                                            \
    static T plain_of_##tag(A a, int64_t of)                                                                 \
    {                                                                                                        \
        (void)of;                                                                                            \
        return store(a);                                                                                     \
    }
FLOATS(X)
INTS(X)
COMPLEXES(X)
#undef X

#define X(tag, T, A, load, store)                                                                            \
    STAMP(sum, tag, T, A, load, 0, ADD, ADD, plain_of_##tag)                                                 \
    STAMP(prod, tag, T, A, load, 1, MULTIPLY, MULTIPLY, plain_of_##tag)                                      \
    STAMP(mean, tag, T, A, load, 0, ADD, ADD, mean_of_##tag)
FLOATS(X)
INTS(X)
COMPLEXES(X)
#undef X
#define X(tag, T, A, load, store) STAMP(norm, tag, T, A, load, 0, ADD_SQUARE, ADD, root_of_##tag)
FLOATS(X)
INTS(X)
#undef X
#define X(tag, T, A, load, store) STAMP(norm, tag, T, A, load, 0, ADD_LENGTH, ADD, root_of_##tag)
COMPLEXES(X)
#undef X

/* A long row of floats: vectorised partial sums instead of one chain of additions. */
static void sum_f32_run(const void *x, int64_t n, void *acc)
{
    *(double *)acc += (double)td_vec_sum_f32(x, n);
}

/* ------------------------------------------------------------------ extremes, All, Any */

#define LARGER(a, v) ((((a) >= (v)) | ((a) != (a))) ? (a) : (v)) /* no ||: a branch is no vector code */
#define SMALLER(a, v) ((((a) <= (v)) | ((a) != (a))) ? (a) : (v))
#define BOTH(a, v) ((a) & (v))
#define EITHER(a, v) ((a) | (v))
#define SAME(a, of) ((void)(of), (a))
#define TO_HALF(a, of) ((void)(of), td_float_to_half(a))
#define TO_BF16(a, of) ((void)(of), td_float_to_bf16(a))

#define EXTREMES(tag, T, A, load, lowest, highest, FINISH)                                                   \
    STAMP(max, tag, T, A, load, lowest, LARGER, LARGER, FINISH)                                              \
    STAMP(min, tag, T, A, load, highest, SMALLER, SMALLER, FINISH)
EXTREMES(f32, float, float, TD_AS_IS, -INFINITY, INFINITY, SAME)
EXTREMES(f64, double, double, TD_AS_IS, (double)-INFINITY, (double)INFINITY, SAME)
EXTREMES(f16, td_half, float, td_half_to_float, -INFINITY, INFINITY, TO_HALF)
EXTREMES(bf16, td_bf16, float, td_bf16_to_float, -INFINITY, INFINITY, TO_BF16)
EXTREMES(i8, int8_t, int8_t, TD_AS_IS, INT8_MIN, INT8_MAX, SAME)
EXTREMES(i16, int16_t, int16_t, TD_AS_IS, INT16_MIN, INT16_MAX, SAME)
EXTREMES(i32, int32_t, int32_t, TD_AS_IS, INT32_MIN, INT32_MAX, SAME)
EXTREMES(i64, int64_t, int64_t, TD_AS_IS, INT64_MIN, INT64_MAX, SAME)
EXTREMES(u8, uint8_t, uint8_t, TD_AS_IS, 0, UINT8_MAX, SAME)
EXTREMES(u16, uint16_t, uint16_t, TD_AS_IS, 0, UINT16_MAX, SAME)
EXTREMES(u32, uint32_t, uint32_t, TD_AS_IS, 0, UINT32_MAX, SAME)
EXTREMES(u64, uint64_t, uint64_t, TD_AS_IS, 0, UINT64_MAX, SAME)
STAMP(all, bool, td_bool, td_bool, TD_AS_IS, 1, BOTH, BOTH, SAME)
STAMP(any, bool, td_bool, td_bool, TD_AS_IS, 0, EITHER, EITHER, SAME)

/* Long rows of floats: NaN is looked for beside the extreme, not in it, so that both are vector code. */
#define EXTREME_RUN(name, T, A, Flag, load, start, BEYOND)                                                   \
    TD_CLONES static void name(const void *xv, int64_t n, void *acc)                                         \
    {                                                                                                        \
        const T *x = xv;                                                                                     \
        A a = *(A *)acc, part[WIDTH];                                                                        \
        Flag nan[WIDTH] = {0}, any = a != a;                                                                 \
        for (int k = 0; k < WIDTH; k++) {                                                                    \
            part[k] = start;                                                                                 \
        }                                                                                                    \
        int64_t i = 0;                                                                                       \
        for (; i + WIDTH <= n; i += WIDTH) {                                                                 \
            for (int k = 0; k < WIDTH; k++) {                                                                \
                const A v = load(x[i + k]);                                                                  \
                part[k] = v BEYOND part[k] ? v : part[k];                                                    \
                nan[k] |= v != v;                                                                            \
            }                                                                                                \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            const A v = load(x[i]);                                                                          \
            a = v BEYOND a ? v : a;                                                                          \
            any |= v != v;                                                                                   \
        }                                                                                                    \
        for (int k = 0; k < WIDTH; k++) {                                                                    \
            a = part[k] BEYOND a ? part[k] : a;                                                              \
            any |= nan[k];                                                                                   \
        }                                                                                                    \
        *(A *)acc = any ? (A)NAN : a;                                                                        \
    }
#define EXTREME_RUNS(tag, T, A, Flag, load)                                                                  \
    EXTREME_RUN(max_##tag##_run, T, A, Flag, load, (A)-INFINITY, >)                                          \
    EXTREME_RUN(min_##tag##_run, T, A, Flag, load, (A)INFINITY, <)
EXTREME_RUNS(f32, float, float, int32_t, TD_AS_IS)
EXTREME_RUNS(f64, double, double, int64_t, TD_AS_IS)
EXTREME_RUNS(f16, td_half, float, int32_t, td_half_to_float)
EXTREME_RUNS(bf16, td_bf16, float, int32_t, td_bf16_to_float)

/* ------------------------------------------------------------------ driver */

/* The input as alternating kept and reduced dims, innermost first, size-1 dims dropped. */
struct walk {
    int n;
    int64_t dim[TD_MAX_RANK], stride[TD_MAX_RANK];
    bool reduced[TD_MAX_RANK];
    int64_t outer[2]; /* combinations of the dims beyond the innermost: kept, reduced */
    int64_t of;       /* elements that make one output */
};

static void walk_make(struct walk *w, const struct td_shape *in, uint32_t axes)
{
    *w = (struct walk){.outer = {1, 1}, .of = 1};
    int64_t stride = 1;
    for (int i = in->rank - 1; i >= 0; i--) {
        int64_t d = in->dim[i];
        bool reduced = axes >> i & 1;
        w->of *= reduced ? d : 1;
        if (d == 1) {
            continue;
        }
        if (w->n > 0 && w->reduced[w->n - 1] == reduced) {
            w->dim[w->n - 1] *= d;
        } else {
            w->dim[w->n] = d;
            w->stride[w->n] = stride;
            w->reduced[w->n++] = reduced;
        }
        stride *= d;
    }
    if (w->n == 0) {
        w->dim[0] = w->stride[0] = w->n = 1;
    }
    for (int i = 1; i < w->n; i++) {
        w->outer[w->reduced[i]] *= w->dim[i];
    }
}

/* Element offset of combination i of the outer dims that are kept (or reduced). */
static int64_t walk_offset(const struct walk *w, bool reduced, int64_t i)
{
    int64_t at = 0;
    for (int d = 1; d < w->n; d++) {
        if (w->reduced[d] == reduced) {
            at += i % w->dim[d] * w->stride[d];
            i /= w->dim[d];
        }
    }
    return at;
}

static enum td_code reduce_rows(struct td_call *c, const struct walk *w, const struct reducer *r,
                                const char *x, size_t size, char *y, struct td_err *err)
{
    void *acc;
    TD_TRY(td_scratch(c, ROWS * r->acc_size, &acc, err));
    for (int64_t k = 0; k < w->outer[0]; k += ROWS) {
        int64_t n = w->outer[0] - k < ROWS ? w->outer[0] - k : ROWS;
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        r->init(acc, n);
        for (int64_t i = 0; i < n; i++) {
            const char *from = x + (size_t)walk_offset(w, false, k + i) * size;
            for (int64_t j = 0; j < w->outer[1]; j++) {
                r->row(from + (size_t)walk_offset(w, true, j) * size, w->dim[0],
                       (char *)acc + (size_t)i * r->acc_size);
            }
        }
        r->finish(acc, y + (size_t)k * size, n, w->of);
    }
    return TD_OK;
}

static enum td_code reduce_cols(struct td_call *c, const struct walk *w, const struct reducer *r,
                                const char *x, size_t size, char *y, struct td_err *err)
{
    void *acc;
    TD_TRY(td_scratch(c, BLOCK * r->acc_size, &acc, err));
    for (int64_t k = 0; k < w->outer[0]; k++) {
        const char *from = x + (size_t)walk_offset(w, false, k) * size;
        for (int64_t i = 0; i < w->dim[0]; i += BLOCK) {
            int64_t n = w->dim[0] - i < BLOCK ? w->dim[0] - i : BLOCK;
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            r->init(acc, n);
            for (int64_t j = 0; j < w->outer[1]; j++) {
                r->col(from + (size_t)(walk_offset(w, true, j) + i) * size, n, acc);
            }
            r->finish(acc, y, n, w->of);
            y += (size_t)n * size;
        }
    }
    return TD_OK;
}

/* No input element, but outputs: each is what the accumulator starts with. */
static enum td_code reduce_nothing(struct td_call *c, const struct reducer *r, struct td_tensor *y,
                                   struct td_err *err)
{
    void *acc;
    TD_TRY(td_scratch(c, r->acc_size, &acc, err));
    r->init(acc, 1);
    size_t size = td_dtype_size(y->dtype);
    int64_t n = td_tensor_count(y);
    for (int64_t i = 0; i < n; i++) {
        r->finish(acc, (char *)y->data + (size_t)i * size, 1, 0);
    }
    return TD_OK;
}

static enum td_code reduce_axes_run(struct td_call *c, const struct reducer table[TD_DTYPE_END],
                                    uint32_t axes, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct reducer *r = &table[x->dtype];
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    if (td_tensor_count(x) == 0) {
        return reduce_nothing(c, r, y, err);
    }
    struct walk w;
    walk_make(&w, &x->shape, axes);
    return (w.reduced[0] ? reduce_rows : reduce_cols)(c, &w, r, x->data, td_dtype_size(x->dtype), y->data,
                                                      err);
}

static enum td_code reduce_run(struct td_call *c, const struct reducer table[TD_DTYPE_END],
                               struct td_err *err)
{
    uint32_t axes;
    TD_TRY(td_reduce_axes(c->node, c->in[0]->shape.rank, c->in[1], &axes, err));
    return reduce_axes_run(c, table, axes, err);
}

/* ------------------------------------------------------------------ the table */

#define ROWS_FLOATS(op)                                                                                      \
    [TD_DOUBLE] = REDUCER(op, f64), [TD_HALF] = REDUCER(op, f16), [TD_BFLOAT16] = REDUCER(op, bf16)
#define ROWS_INTS(op)                                                                                        \
    [TD_INT8] = REDUCER(op, i8), [TD_INT16] = REDUCER(op, i16), [TD_INT32] = REDUCER(op, i32),               \
    [TD_INT64] = REDUCER(op, i64), [TD_UINT8] = REDUCER(op, u8), [TD_UINT16] = REDUCER(op, u16),             \
    [TD_UINT32] = REDUCER(op, u32), [TD_UINT64] = REDUCER(op, u64)
#define ROWS_COMPLEX(op) [TD_COMPLEX64] = REDUCER(op, c64), [TD_COMPLEX128] = REDUCER(op, c128)

#define RUN(op, ...)                                                                                         \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static const struct reducer table[TD_DTYPE_END] = {__VA_ARGS__};                                     \
        return reduce_run(c, table, err);                                                                    \
    }
RUN(sum, [TD_FLOAT] = {sizeof(double), sum_f32_init, sum_f32_run, sum_f32_col, sum_f32_finish},
    ROWS_FLOATS(sum), ROWS_INTS(sum), ROWS_COMPLEX(sum))
static const struct reducer sum_to_table[TD_DTYPE_END] = {
    [TD_FLOAT] = {sizeof(double), sum_f32_init, sum_f32_run, sum_f32_col, sum_f32_finish},
    ROWS_FLOATS(sum),
    ROWS_INTS(sum),
    ROWS_COMPLEX(sum)};
RUN(mean, [TD_FLOAT] = {sizeof(double), mean_f32_init, sum_f32_run, mean_f32_col, mean_f32_finish},
    ROWS_FLOATS(mean), ROWS_INTS(mean), ROWS_COMPLEX(mean))
RUN(prod, [TD_FLOAT] = REDUCER(prod, f32), ROWS_FLOATS(prod), ROWS_INTS(prod), ROWS_COMPLEX(prod))
RUN(norm, [TD_FLOAT] = REDUCER(norm, f32), ROWS_FLOATS(norm), ROWS_INTS(norm), ROWS_COMPLEX(norm))
#define EXTREME(op, tag)                                                                                     \
    {                                                                                                        \
        sizeof(acc_##op##_##tag), op##_##tag##_init, op##_##tag##_run, op##_##tag##_col, op##_##tag##_finish \
    }
#define ROWS_EXTREMES(op)                                                                                    \
    [TD_FLOAT] = EXTREME(op, f32), [TD_DOUBLE] = EXTREME(op, f64), [TD_HALF] = EXTREME(op, f16),             \
    [TD_BFLOAT16] = EXTREME(op, bf16)
RUN(max, ROWS_EXTREMES(max), ROWS_INTS(max))
RUN(min, ROWS_EXTREMES(min), ROWS_INTS(min))
RUN(all, [TD_BOOL] = REDUCER(all, bool))
RUN(any, [TD_BOOL] = REDUCER(any, bool))

#define ROW(op_name, op, set, gradient, of_halves, ...)                                                      \
    {                                                                                                        \
        .name = op_name,                                                                                     \
        .sig = "(input:T, reduction_indices:Tidx) -> (output:T) {keep_dims:bool=false; T:type; "             \
               "Tidx:type=int32}",                                                                           \
        .flags = TD_OP_TOTAL, .permute = &td_permute_reduce, .halves = of_halves,                            \
        .batchable = TD_BATCHABLE(td_batchable_reduce, __VA_ARGS__), .grad = gradient,                       \
        .vectorize = td_many_axes, .host_in = 1u << 1, .infer = td_infer_reduce,                             \
        .kernels = TD_KERNEL("math_reduce.cpu", op##_run, {"T", set}, {"Tidx", TD_SET_INDEX})                \
    }
#define ROW_BOOL(op_name, op)                                                                                \
    {                                                                                                        \
        .name = op_name,                                                                                     \
        .sig =                                                                                               \
            "(input:bool, reduction_indices:Tidx) -> (output:bool) {keep_dims:bool=false; Tidx:type=int32}", \
        .permute = &td_permute_reduce, .batchable = TD_BATCHABLE(td_batchable_reduce), .host_in = 1u << 1,   \
        .infer = td_infer_reduce, .kernels = TD_KERNEL("math_reduce.cpu", op##_run, {"Tidx", TD_SET_INDEX})  \
    }

#define SIZES(fn) .sizes = td_batchable_folds, .number = fn /* of shapes */

/* ------------------------------------------------------------------ _SumTo */

/* The shape that input 1 spells, which input 0's must be a broadcast of. */
static enum td_code sum_to_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *y = &c->out[0];
    TD_TRY(td_infer_shape_value(c, 1, false, &c->out[0], err));
    if (x->rank < 0 || y->rank < 0) {
        return TD_OK;
    }
    bool fits = y->rank <= x->rank;
    for (int i = 0; fits && i < y->rank; i++) {
        const int64_t to = y->dim[i], from = x->dim[i + x->rank - y->rank];
        fits = to < 0 || from < 0 || to == from || to == 1;
    }
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "%s: a gradient of shape %s cannot be summed to shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x), TD_SHAPE_STR(y));
    return TD_OK;
}

static enum td_code sum_to_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    const int64_t n = td_tensor_count(c->in[1]);
    uint32_t axes = 0;
    for (int i = 0; i < x->rank; i++) {
        const int64_t at = i - (x->rank - n);
        const bool gone = at < 0 || (td_tensor_int(c->in[1], at) == 1 && x->dim[i] != 1);
        axes |= gone ? 1u << i : 0;
    }
    return axes == 0 ? td_out_view(c, 0, 0, NULL, err) : reduce_axes_run(c, sum_to_table, axes, err);
}

/* The rows stay where the shape says as many. */
static bool rows_of_sum_to(struct td_batchable_step *s)
{
    if (s->in[0].kind != TD_VALUE_ROW) {
        return td_batchable_no(s, "its input 0 has no rows");
    }
    const int n = s->in_shape[0][1].rank == 1 ? (int)s->in_shape[0][1].dim[0] : 0;
    const int axis = s->in[0].axis - (td_batchable_rank(s, 0) - n);
    const int64_t k = td_batchable_per_row(s, 0, s->in[0].axis);
    for (int i = 0; i < n; i++) {
        struct td_affine size;
        if (!td_batchable_size(s, 1, i, &size) || (i == axis ? !td_affine_is(size, 0, k) : size.slope != 0)) {
            return td_batchable_no(s, "element %d of its shape does not follow the rows of its input 0", i);
        }
    }
    return axis < 0 ? td_batchable_no(s, "it works over all rows") : td_batchable_as_input(s, 0, 0, axis);
}

const struct td_op td_ops_math_reduce[] = {
    ROW("Sum", sum, TD_SET_NUMBERS, td_sum_grad, TD_HALVES_ROUND, SIZES(td_affine_add)),
    ROW("Mean", mean, TD_SET_NUMBERS, td_mean_grad, TD_HALVES_NOT, ),
    ROW("Prod", prod, TD_SET_NUMBERS, td_prod_grad, TD_HALVES_NOT, SIZES(td_affine_mul)),
    ROW("Max", max, TD_SET_REALS, td_extreme_grad, TD_HALVES_KEEP, SIZES(td_affine_max)),
    ROW("Min", min, TD_SET_REALS, td_extreme_grad, TD_HALVES_KEEP, SIZES(td_affine_min)),
    ROW("EuclideanNorm", norm, TD_SET_NUMBERS, td_norm_grad, TD_HALVES_NOT, ),
    ROW_BOOL("All", all),
    ROW_BOOL("Any", any),
    {.name = "_SumTo",
     .sig = "(input:T, shape:int32) -> (output:T) {T:type}",
     .vectorize = td_many_sum_to,
     .flags = TD_OP_VIEW,
     .halves = TD_HALVES_ROUND,
     .host_in = 1u << 1,
     .batchable = TD_BATCHABLE(rows_of_sum_to),
     .grad = td_sum_to_grad,
     .infer = sum_to_infer,
     .kernels = TD_KERNEL("math_reduce.cpu", sum_to_run, {"T", TD_SET_NUMBERS})},
    {.name = NULL},
};
