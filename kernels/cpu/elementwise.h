/* kernels/cpu/elementwise.h - drivers of the element-wise families: from one loop a dtype to a kernel.
 *
 * A family writes short loops over arrays, stamped per dtype, puts them in a table indexed by dtype and hands
 * the table to td_unary_run or td_binary_run; broadcasting, chunking and stop requests are handled here,
 * once.
 *
 * The macros at the end stamp such loops from scalar functions. `tag` names a dtype: f32 f64 f16 bf16 i8 ..
 * u64 c64 c128. Half and bfloat16 are computed as float and rounded once an operation, as Eigen does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_ELEMENTWISE_H
#define TD_KERNELS_CPU_ELEMENTWISE_H

#include "core/graph/graph.h"
#include "core/graph/op.h"

/* y[i] = f(x[i]); y may be x. */
typedef void td_unary_fn(const void *x, void *y, int64_t n);

/* How the n elements of a binary loop are read. */
enum td_operands { TD_BOTH_ARRAYS, TD_LEFT_SCALAR, TD_RIGHT_SCALAR };
/* z[i] = f(a[i], b[i]), where a scalar operand is its element 0. */
typedef void td_binary_fn(const void *a, const void *b, void *z, int64_t n, enum td_operands how);

/* Output 0 = f over input 0, by the input's dtype. UNIMPLEMENTED names a dtype without a loop. */
TD_MUST enum td_code td_unary_run(struct td_call *c, td_unary_fn *const fns[TD_DTYPE_END],
                                  struct td_err *err);
/* Output 0 = f over inputs 0 and 1, broadcast to the output's shape. */
TD_MUST enum td_code td_binary_run(struct td_call *c, td_binary_fn *const fns[TD_DTYPE_END],
                                   struct td_err *err);
/* z = f(a, b) broadcast; z is written already. out_size: bytes of an element of z. */
TD_MUST enum td_code td_binary_apply(struct td_call *c, td_binary_fn *fn, const struct td_tensor *a,
                                     const struct td_tensor *b, struct td_tensor *z, struct td_err *err);
/* The loops of half and bfloat16 (`dtype`) by those of float. Of a binary one the results are of dtype `out`:
 * this one, or bool, which the loop writes itself. */
struct td_by_float {
    enum td_dtype dtype, out;
    td_binary_fn *loop;
};
void td_unary_by_float(enum td_dtype dtype, td_unary_fn *loop, const void *x, void *y, int64_t n);
void td_binary_by_float(const struct td_by_float *f, const void *a, const void *b, void *z, int64_t n,
                        enum td_operands how);
/* Shape function: both inputs have one shape, or INVALID_ARGUMENT. */
td_infer_fn td_infer_equal_shapes;

/* Loops. `attr` is TD_CLONES (vecmath.h) or empty. */
#define TD_UNARY_LOOP(attr, name, in_type, out_type, fn)                                                     \
    attr static void name(const void *xv, void *yv, int64_t n)                                               \
    {                                                                                                        \
        const in_type *x = xv;                                                                               \
        out_type *y = yv;                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            y[i] = fn(x[i]);                                                                                 \
        }                                                                                                    \
    }
/* A loop of 16-bit floats from that of floats: block by block, widened, computed, rounded. */
#define TD_UNARY_16(name, dtype, loop)                                                                       \
    static void name(const void *x, void *y, int64_t n)                                                      \
    {                                                                                                        \
        td_unary_by_float(dtype, loop, x, y, n);                                                             \
    }
#define TD_UNARY_F16(name, loop) TD_UNARY_16(name, TD_HALF, loop)
#define TD_UNARY_BF16(name, loop) TD_UNARY_16(name, TD_BFLOAT16, loop)

#define TD_BINARY_LOOP(attr, name, in_type, out_type, load, store, fn)                                       \
    attr static void name(const void *av, const void *bv, void *zv, int64_t n, enum td_operands how)         \
    {                                                                                                        \
        const in_type *a = av, *b = bv;                                                                      \
        out_type *z = zv;                                                                                    \
        if (how == TD_BOTH_ARRAYS) {                                                                         \
            for (int64_t i = 0; i < n; i++) {                                                                \
                z[i] = store(fn(load(a[i]), load(b[i])));                                                    \
            }                                                                                                \
        } else if (how == TD_LEFT_SCALAR) {                                                                  \
            const in_type s = a[0];                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                \
                z[i] = store(fn(load(s), load(b[i])));                                                       \
            }                                                                                                \
        } else {                                                                                             \
            const in_type s = b[0];                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                \
                z[i] = store(fn(load(a[i]), load(s)));                                                       \
            }                                                                                                \
        }                                                                                                    \
    }
#define TD_AS_IS(v) (v)
#define TD_BINARY(attr, name, type, fn) TD_BINARY_LOOP(attr, name, type, type, TD_AS_IS, (type), fn)
#define TD_BINARY_16(name, dtype, out, loop)                                                                 \
    static void name(const void *a, const void *b, void *z, int64_t n, enum td_operands how)                 \
    {                                                                                                        \
        td_binary_by_float(&(struct td_by_float){dtype, out, loop}, a, b, z, n, how);                        \
    }
#define TD_BINARY_F16(name, loop) TD_BINARY_16(name, TD_HALF, TD_HALF, loop)
#define TD_BINARY_BF16(name, loop) TD_BINARY_16(name, TD_BFLOAT16, TD_BFLOAT16, loop)

/* Table entries by dtype group, for loops called op_f32, op_i8 and so on. */
#define TD_ROWS_FLOATS(op)                                                                                   \
    [TD_FLOAT] = op##_f32, [TD_DOUBLE] = op##_f64, [TD_HALF] = op##_f16, [TD_BFLOAT16] = op##_bf16
#define TD_ROWS_COMPLEX(op) [TD_COMPLEX64] = op##_c64, [TD_COMPLEX128] = op##_c128
#define TD_ROWS_SIGNED(op)                                                                                   \
    [TD_INT8] = op##_i8, [TD_INT16] = op##_i16, [TD_INT32] = op##_i32, [TD_INT64] = op##_i64
#define TD_ROWS_UNSIGNED(op)                                                                                 \
    [TD_UINT8] = op##_u8, [TD_UINT16] = op##_u16, [TD_UINT32] = op##_u32, [TD_UINT64] = op##_u64

#define TD_SET_SIGNED (TD_BIT(TD_INT8) | TD_BIT(TD_INT16) | TD_BIT(TD_INT32) | TD_BIT(TD_INT64))
#define TD_SET_F32_F64 (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))

#endif
