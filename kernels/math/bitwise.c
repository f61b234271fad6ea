/* kernels/math/bitwise.c - And, Or, Xor, shifts, complement and population count of integers.
 *
 *   x, y [broadcastable] of an integer T  ->  z of T
 *   PopulationCount: x [any shape]        ->  y [same shape] of uint8
 *
 * Shift counts outside [0, bits - 1] are clamped to that range; right shifts of signed types are arithmetic.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/simplify.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/cpu/scalar.h"

#define INT_LOOP(op, tag, T) TD_BINARY(, op##_##tag, T, td_##op##_##tag)
#define BINARY(op)                                                                                           \
    INT_LOOP(op, i8, int8_t)                                                                                 \
    INT_LOOP(op, i16, int16_t)                                                                               \
    INT_LOOP(op, i32, int32_t)                                                                               \
    INT_LOOP(op, i64, int64_t)                                                                               \
    INT_LOOP(op, u8, uint8_t)                                                                                \
    INT_LOOP(op, u16, uint16_t)                                                                              \
    INT_LOOP(op, u32, uint32_t)                                                                              \
    INT_LOOP(op, u64, uint64_t)                                                                              \
    static td_binary_fn *const op##_fns[TD_DTYPE_END] = {TD_ROWS_SIGNED(op), TD_ROWS_UNSIGNED(op)};          \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return td_binary_run(c, op##_fns, err);                                                              \
    }
BINARY(and)
BINARY(or)
BINARY(xor)
BINARY(shift_left)
BINARY(shift_right)

#define X(tag, T, U)                                                                                         \
    TD_UNARY_LOOP(, invert_##tag, T, T, td_invert_##tag)                                                     \
    static uint8_t bits_of_##tag(T v)                                                                        \
    {                                                                                                        \
        return (uint8_t)__builtin_popcountll((uint64_t)v & (UINT64_MAX >> (64 - 8 * sizeof(T))));            \
    }                                                                                                        \
    TD_UNARY_LOOP(, popcount_##tag, T, uint8_t, bits_of_##tag)
TD_INT_TYPES(X)
#undef X

static enum td_code invert_run(struct td_call *c, struct td_err *err)
{
    static td_unary_fn *const fns[TD_DTYPE_END] = {TD_ROWS_SIGNED(invert), TD_ROWS_UNSIGNED(invert)};
    return td_unary_run(c, fns, err);
}

static enum td_code popcount_run(struct td_call *c, struct td_err *err)
{
    static td_unary_fn *const fns[TD_DTYPE_END] = {TD_ROWS_SIGNED(popcount), TD_ROWS_UNSIGNED(popcount)};
    return td_unary_run(c, fns, err);
}

#define ROW(op_name, op, rule)                                                                               \
    {                                                                                                        \
        .name = op_name, .sig = "(x:T, y:T) -> (z:T) {T:type}", .flags = TD_OP_ELEMENTWISE,                  \
        .grad = td_not_differentiable, .infer = td_infer_broadcast,                                          \
        .kernels = TD_KERNEL("bitwise.cpu", op##_run, {"T", TD_SET_INTS}), .simplify = rule                  \
    }

const struct td_op td_ops_bitwise[] = {
    ROW("BitwiseAnd", and, NULL),
    ROW("BitwiseOr", or, td_simplify_or),
    ROW("BitwiseXor", xor, td_simplify_or),
    ROW("LeftShift", shift_left, td_simplify_less),
    ROW("RightShift", shift_right, td_simplify_less),
    {.name = "Invert",
     .sig = "(x:T) -> (y:T) {T:type}",
     .flags = TD_OP_ELEMENTWISE,
     .simplify = td_simplify_undone,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = td_infer_same,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("bitwise.cpu", invert_run, {"T", TD_SET_INTS})},
    {.name = "PopulationCount",
     .sig = "(x:T) -> (y:uint8) {T:type}",
     .permute = &td_permute_elementwise,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = td_infer_same,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("bitwise.cpu", popcount_run, {"T", TD_SET_INTS})},
    {.name = NULL},
};
