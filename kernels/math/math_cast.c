/* kernels/math/math_cast.c - Cast: every dtype to every other.
 *
 *   x [any shape] of SrcT  ->  y [same shape] of DstT
 *
 * Elements travel in blocks: source -> carrier -> target. The carriers are int64 and uint64 (integers, bool),
 * double (floats) and complex double; each holds every value of its sources exactly, so the result is that of
 * a direct conversion. The pairs that models use all the time have loops of their own.
 *
 * Rules: float to integer drops the fraction. Values that do not fit, and NaN, give what x86's scalar
 * instructions leave, as in TensorFlow for tensors shorter than its vectors: the lowest int32 or int64, of
 * which narrower types take the low bits. Integers wrap. Anything but zero is true. Complex to real drops the
 * imaginary part. Truncate=true cuts mantissa bits that the target does not have instead of rounding (not
 * from double to bfloat16). Quantized types convert as their storage integers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/emit.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/fused/fused_stage.h"
#include "kernels/ops.h"
#include "kernels/math/math_complex_grad.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

#define BLOCK 512 /* elements a carrier buffer holds */

/* ------------------------------------------------------------------ float to integer */

TD_INLINE int64_t i64_of(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}
TD_INLINE int32_t i32_of(double v)
{
    return v > -0x1p31 - 1 && v < 0x1p31 ? (int32_t)v : INT32_MIN;
}
/* From 2^63 on compilers convert the rest above 2^63 and set the highest bit. */
TD_INLINE uint64_t u64_of(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (uint64_t)(int64_t)v
                                      : (uint64_t)i64_of(v - 0x1p63) | (uint64_t)1 << 63;
}
TD_INLINE uint32_t u32_of(double v)
{
    return (uint32_t)i64_of(v);
}
TD_INLINE int16_t i16_of(double v)
{
    return (int16_t)i32_of(v);
}
TD_INLINE uint16_t u16_of(double v)
{
    return (uint16_t)i32_of(v);
}
TD_INLINE int8_t i8_of(double v)
{
    return (int8_t)i32_of(v);
}
TD_INLINE uint8_t u8_of(double v)
{
    return (uint8_t)i32_of(v);
}
TD_INLINE td_half f16_of(double v)
{
    return td_float_to_half((float)v);
}
TD_INLINE td_bf16 bf16_of(double v)
{
    return td_float_to_bf16((float)v);
}

/* ------------------------------------------------------------------ source to carrier, carrier to target */

enum carrier { NONE, SIGNED, UNSIGNED, REAL, COMPLEX };

#define MOVE(name, T, D, fn) TD_UNARY_LOOP(, name, T, D, fn)

MOVE(load_i8, int8_t, int64_t, TD_AS_IS)
MOVE(load_i16, int16_t, int64_t, TD_AS_IS)
MOVE(load_i32, int32_t, int64_t, TD_AS_IS)
MOVE(load_i64, int64_t, int64_t, TD_AS_IS)
MOVE(load_u8, uint8_t, int64_t, TD_AS_IS)
MOVE(load_u16, uint16_t, int64_t, TD_AS_IS)
MOVE(load_u32, uint32_t, int64_t, TD_AS_IS)
MOVE(load_u64, uint64_t, uint64_t, TD_AS_IS)
MOVE(load_f32, float, double, TD_AS_IS)
MOVE(load_f64, double, double, TD_AS_IS)
MOVE(load_f16, td_half, double, td_half_to_float)
MOVE(load_bf16, td_bf16, double, td_bf16_to_float)
MOVE(load_c64, td_cf, td_cd, TD_AS_IS)
MOVE(load_c128, td_cd, td_cd, TD_AS_IS)
MOVE(drop_imaginary, td_cd, double, creal)

static const struct {
    enum carrier carrier;
    td_unary_fn *load;
} sources[TD_DTYPE_END] = {
    [TD_INT8] = {SIGNED, load_i8},        [TD_INT16] = {SIGNED, load_i16},
    [TD_INT32] = {SIGNED, load_i32},      [TD_INT64] = {SIGNED, load_i64},
    [TD_UINT8] = {SIGNED, load_u8},       [TD_UINT16] = {SIGNED, load_u16},
    [TD_UINT32] = {SIGNED, load_u32},     [TD_UINT64] = {UNSIGNED, load_u64},
    [TD_BOOL] = {SIGNED, load_u8},        [TD_QINT8] = {SIGNED, load_i8},
    [TD_QUINT8] = {SIGNED, load_u8},      [TD_QINT16] = {SIGNED, load_i16},
    [TD_QUINT16] = {SIGNED, load_u16},    [TD_QINT32] = {SIGNED, load_i32},
    [TD_FLOAT] = {REAL, load_f32},        [TD_DOUBLE] = {REAL, load_f64},
    [TD_HALF] = {REAL, load_f16},         [TD_BFLOAT16] = {REAL, load_bf16},
    [TD_COMPLEX64] = {COMPLEX, load_c64}, [TD_COMPLEX128] = {COMPLEX, load_c128},
};

/* X(tag, type, from an integer carrier, from a real one) of every distinct target storage */
#define TARGETS(X)                                                                                           \
    X(i8, int8_t, TD_AS_IS, i8_of)                                                                           \
    X(i16, int16_t, TD_AS_IS, i16_of)                                                                        \
    X(i32, int32_t, TD_AS_IS, i32_of)                                                                        \
    X(i64, int64_t, TD_AS_IS, i64_of)                                                                        \
    X(u8, uint8_t, TD_AS_IS, u8_of)                                                                          \
    X(u16, uint16_t, TD_AS_IS, u16_of)                                                                       \
    X(u32, uint32_t, TD_AS_IS, u32_of)                                                                       \
    X(u64, uint64_t, TD_AS_IS, u64_of)                                                                       \
    X(f32, float, (float), (float))                                                                          \
    X(f64, double, (double), TD_AS_IS)                                                                       \
    X(f16, td_half, f16_of_int, f16_of)                                                                      \
    X(bf16, td_bf16, bf16_of_int, bf16_of)                                                                   \
    X(bool, td_bool, is_true, is_true)                                                                       \
    X(c64, td_cf, (float), (float))                                                                          \
    X(c128, td_cd, (double), TD_AS_IS)
#define f16_of_int(v) td_float_to_half((float)(v))
#define bf16_of_int(v) td_float_to_bf16((float)(v))
#define is_true(v) ((v) != 0)
#define X(tag, T, of_int, of_real)                                                                           \
    MOVE(signed_##tag, int64_t, T, of_int)                                                                   \
    MOVE(unsigned_##tag, uint64_t, T, of_int)                                                                \
    MOVE(real_##tag, double, T, of_real)
TARGETS(X)
#undef X
MOVE(complex_c64, td_cd, td_cf, TD_AS_IS)
MOVE(complex_c128, td_cd, td_cd, TD_AS_IS)

#define STORES(from)                                                                                         \
    {                                                                                                        \
        TD_ROWS_FLOATS(from), TD_ROWS_SIGNED(from), TD_ROWS_UNSIGNED(from), TD_ROWS_COMPLEX(from),           \
            [TD_BOOL] = from##_bool, [TD_QINT8] = from##_i8, [TD_QUINT8] = from##_u8,                        \
            [TD_QINT16] = from##_i16, [TD_QUINT16] = from##_u16, [TD_QINT32] = from##_i32                    \
    }
static td_unary_fn *const stores[][TD_DTYPE_END] = {
    [SIGNED] = STORES(signed),
    [UNSIGNED] = STORES(unsigned),
    [REAL] = STORES(real),
    [COMPLEX] = {TD_ROWS_COMPLEX(complex)},
};

/* ------------------------------------------------------------------ the usual pairs, directly */

TD_INLINE int32_t i32_of_float(float v)
{
    return v >= -0x1p31f && v < 0x1p31f ? (int32_t)v : INT32_MIN;
}

TD_INLINE int64_t i64_of_float(float v)
{
    return v >= -0x1p63f && v < 0x1p63f ? (int64_t)v : INT64_MIN;
}

TD_UNARY_LOOP(TD_CLONES, f32_to_i32, float, int32_t, i32_of_float)
TD_UNARY_LOOP(TD_CLONES, f32_to_i16, float, int16_t, (int16_t)i32_of_float)
TD_UNARY_LOOP(TD_CLONES, f32_to_u16, float, uint16_t, (uint16_t)i32_of_float)
TD_UNARY_LOOP(TD_CLONES, f32_to_i8, float, int8_t, (int8_t)i32_of_float)
TD_UNARY_LOOP(TD_CLONES, f32_to_u8, float, uint8_t, (uint8_t)i32_of_float)
TD_UNARY_LOOP(TD_CLONES, f32_to_f64, float, double, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, f64_to_f32, double, float, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, i32_to_f32, int32_t, float, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, i64_to_f32, int64_t, float, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, i32_to_i64, int32_t, int64_t, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, i64_to_i32, int64_t, int32_t, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, u8_to_f32, uint8_t, float, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, u8_to_i32, uint8_t, int32_t, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, u8_to_i64, uint8_t, int64_t, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, f32_to_i64, float, int64_t, i64_of_float)
TD_UNARY_LOOP(TD_CLONES, f64_to_i64, double, int64_t, i64_of)
TD_UNARY_LOOP(TD_CLONES, f64_to_i32, double, int32_t, i32_of)
TD_UNARY_LOOP(TD_CLONES, i64_to_f64, int64_t, double, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, i32_to_f64, int32_t, double, TD_AS_IS)
TD_UNARY_LOOP(TD_CLONES, f32_to_bool, float, td_bool, is_true)
TD_UNARY_LOOP(TD_CLONES, i32_to_bool, int32_t, td_bool, is_true)
TD_UNARY_LOOP(TD_CLONES, i64_to_bool, int64_t, td_bool, is_true)
static void f32_to_f16(const void *x, void *y, int64_t n)
{
    td_downcast_elems(y, x, TD_HALF, n);
}
static void f32_to_bf16(const void *x, void *y, int64_t n)
{
    td_downcast_elems(y, x, TD_BFLOAT16, n);
}
static void f16_to_f32(const void *x, void *y, int64_t n)
{
    td_upcast_elems(y, x, TD_HALF, n);
}
static void bf16_to_f32(const void *x, void *y, int64_t n)
{
    td_upcast_elems(y, x, TD_BFLOAT16, n);
}

static td_unary_fn *direct(enum td_dtype from, enum td_dtype to)
{
    static const struct {
        enum td_dtype from, to;
        td_unary_fn *fn;
    } pairs[] = {
        {TD_FLOAT, TD_INT32, f32_to_i32},     {TD_FLOAT, TD_DOUBLE, f32_to_f64},
        {TD_DOUBLE, TD_FLOAT, f64_to_f32},    {TD_INT32, TD_FLOAT, i32_to_f32},
        {TD_INT64, TD_FLOAT, i64_to_f32},     {TD_INT32, TD_INT64, i32_to_i64},
        {TD_INT64, TD_INT32, i64_to_i32},     {TD_UINT8, TD_FLOAT, u8_to_f32},
        {TD_UINT8, TD_INT32, u8_to_i32},      {TD_BOOL, TD_FLOAT, u8_to_f32},
        {TD_BOOL, TD_INT32, u8_to_i32},       {TD_FLOAT, TD_HALF, f32_to_f16},
        {TD_FLOAT, TD_BFLOAT16, f32_to_bf16}, {TD_HALF, TD_FLOAT, f16_to_f32},
        {TD_BFLOAT16, TD_FLOAT, bf16_to_f32}, {TD_FLOAT, TD_INT8, f32_to_i8},
        {TD_FLOAT, TD_UINT8, f32_to_u8},      {TD_FLOAT, TD_INT16, f32_to_i16},
        {TD_FLOAT, TD_UINT16, f32_to_u16},    {TD_FLOAT, TD_INT64, f32_to_i64},
        {TD_DOUBLE, TD_INT64, f64_to_i64},    {TD_DOUBLE, TD_INT32, f64_to_i32},
        {TD_INT64, TD_DOUBLE, i64_to_f64},    {TD_INT32, TD_DOUBLE, i32_to_f64},
        {TD_UINT8, TD_INT64, u8_to_i64},      {TD_BOOL, TD_INT64, u8_to_i64},
        {TD_FLOAT, TD_BOOL, f32_to_bool},     {TD_INT32, TD_BOOL, i32_to_bool},
        {TD_INT64, TD_BOOL, i64_to_bool},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i].from == from && pairs[i].to == to) {
            return pairs[i].fn;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ the kernel */

/* Mantissa bits below those of the target, as bits of a double; 0 where Truncate changes nothing. */
static uint64_t truncated_bits(enum td_dtype from, enum td_dtype to)
{
    if (from == TD_DOUBLE && to == TD_BFLOAT16) {
        return 0;
    }
    int have = from == TD_DOUBLE ? 52 : from == TD_FLOAT ? 23 : 0;
    int want = to == TD_FLOAT ? 23 : to == TD_HALF ? 10 : to == TD_BFLOAT16 ? 7 : 52;
    return have > want ? ((uint64_t)1 << (52 - want)) - 1 : 0;
}

static void truncate_mantissas(double *v, int64_t n, uint64_t bits)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t u;
        memcpy(&u, &v[i], 8);
        u &= v[i] == v[i] ? ~bits : UINT64_MAX; /* NaN stays NaN */
        memcpy(&v[i], &u, 8);
    }
}

struct cast {
    enum td_dtype from, to;
    uint64_t cut;
};

static void cast_block(const struct cast *k, const void *x, void *y, int64_t n)
{
    td_cd a[BLOCK];
    double b[BLOCK];
    void *carrier = a;
    enum carrier kind = sources[k->from].carrier;
    sources[k->from].load(x, carrier, n);
    if (kind == COMPLEX && !td_dtype_in(k->to, TD_SET_COMPLEX)) {
        drop_imaginary(a, b, n);
        carrier = b;
        kind = REAL;
    }
    if (k->cut) {
        truncate_mantissas(carrier, n, k->cut);
    }
    stores[kind][k->to](carrier, y, n);
}

static enum td_code cast_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct cast k = {.from = x->dtype, .to = y->dtype};
    k.cut = td_attr_bool(c->node, "Truncate") ? truncated_bits(k.from, k.to) : 0;
    int64_t n = td_tensor_count(x);
    if (k.from == k.to) {
        td_elems_copy(k.from, y->data, x->data, n);
        return TD_OK;
    }
    td_unary_fn *fn = k.cut ? NULL : direct(k.from, k.to);
    if (fn != NULL) {
        fn(x->data, y->data, n);
        return TD_OK;
    }
    size_t in_size = td_dtype_size(k.from), out_size = td_dtype_size(k.to);
    for (int64_t i = 0; i < n; i += BLOCK) {
        if (i % (BLOCK * 256) == 0 && td_stopped(c)) {
            return td_stop_error(c, err);
        }
        cast_block(&k, (const char *)x->data + (size_t)i * in_size, (char *)y->data + (size_t)i * out_size,
                   n - i < BLOCK ? n - i : BLOCK);
    }
    return TD_OK;
}

/* The same dtype needs no conversion whatever it is: strings and variants pass. */
static const char *refuse_objects(const struct td_node *n)
{
    enum td_dtype from = td_attr_type(n, "SrcT"), to = td_attr_type(n, "DstT");
    bool plain = td_dtype_in(from, TD_SET_PLAIN) && td_dtype_in(to, TD_SET_PLAIN);
    return plain || from == to ? NULL : "strings, variants and resources cannot be cast";
}

static struct td_value simplify_cast(struct td_emitter *e, const struct td_node *n)
{
    (void)e;
    return td_attr_type(n, "SrcT") == td_attr_type(n, "DstT") ? n->in[0] : td_no_value;
}

/* ------------------------------------------------------------------ floats as half holds them */

static void round_half(const void *x, void *y, int64_t n)
{
    td_half rounded[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        td_downcast_elems(rounded, (const float *)x + i, TD_HALF, m);
        td_upcast_elems((float *)y + i, rounded, TD_HALF, m);
    }
}

static enum td_code round_half_run(struct td_call *c, struct td_err *err)
{
    static td_unary_fn *const loops[TD_DTYPE_END] = {[TD_FLOAT] = round_half};
    return td_unary_run(c, loops, err);
}

const struct td_op td_ops_math_cast[] = {
    {.name = "Cast",
     .role = TD_ROLE_CAST,
     .flags = TD_OP_TOTAL,
     .sig = "(x:SrcT) -> (y:DstT) {SrcT:type; DstT:type; Truncate:bool=false}",
     .permute = &td_permute_elementwise,
     .simplify = simplify_cast,
     .batchable = TD_BATCHABLE_NUMBER(td_affine_left),
     .infer = td_infer_same,
     .grad = td_cast_grad,
     .kernels =
         (const struct td_kernel[]){
             {.name = "math_cast.cpu", .device = TD_CPU, .refuse = refuse_objects, .run = cast_run},
             {.name = NULL}}},
    {.name = "_RoundHalf",
     .role = TD_ROLE_ROUND_HALF,
     .flags = TD_OP_ELEMENTWISE,
     .sig = "(x:float) -> (y:float)",
     .infer = td_infer_same,
     .fuse = {.stage = TD_STAGE_ONE(round_half)},
     .kernels = TD_KERNEL("round_half.cpu", round_half_run),
     .grad_missing = "made by the compiler, after gradients"},
    {.name = NULL},
};
