/* proto/hlo_graph/hlo_linalg.c - factors and solutions of matrices, Fourier transforms.
 *
 * A matrix without a Cholesky factor is an error, as in TensorFlow; XLA answers NaNs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_rules.h"

/* The last two axes swapped. */
static struct td_value transposed(struct td_hlo_frame *f, struct td_value x, int rank, bool conjugate)
{
    int64_t perm[TD_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    }
    const bool complex = td_hlo_is_complex(td_dtype_of(x));
    x = td_hlo_transpose(f, x, perm, rank);
    return conjugate && complex ? td_hlo_1(f, "Conj", x) : x;
}

static int rank_of(struct td_hlo_frame *f, const struct td_hlo_op *op, int n)
{
    const int rank = op->n_in == n && op->n_out == 1 ? td_hlo_shape(op->in[0])->rank : 0;
    if (rank < 2) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants %d matrices", op->n_in, n);
    }
    return rank;
}

void td_hlo_cholesky(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const int rank = rank_of(f, op, 1);
    const bool lower = td_hlo_int(op, "lower", 0) != 0;
    if (f->e.rc) {
        return;
    }
    const struct td_value x = td_hlo_in(f, op, 0);
    const struct td_value l = td_hlo_1(f, "Cholesky", lower ? x : transposed(f, x, rank, true));
    td_hlo_put(f, op, 0, lower ? l : transposed(f, l, rank, true));
}

void td_hlo_triangular_solve(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const int rank = rank_of(f, op, 2);
    if (f->e.rc) {
        return;
    }
    const bool left = td_hlo_int(op, "left_side", 1) != 0,
               plain = td_hlo_text_is(op, "transpose_a", "NO_TRANSPOSE");
    const bool adjoint = td_hlo_text_is(op, "transpose_a", "ADJOINT");
    bool lower = td_hlo_int(op, "lower", 0) != 0;
    struct td_value a = td_hlo_in(f, op, 0), b = td_hlo_in(f, op, 1);
    if (td_hlo_int(op, "unit_diagonal", 0) != 0) {
        const struct td_value diagonal = td_hlo_1(f, "MatrixDiagPart", a);
        a = td_hlo_2(f, "MatrixSetDiag", a, td_hlo_1(f, "OnesLike", diagonal));
    }
    if (!plain) {
        a = transposed(f, a, rank, adjoint);
        lower = !lower;
    }
    if (!left) { /* x a = b as a' x' = b' */
        a = transposed(f, a, rank, false);
        b = transposed(f, b, rank, false);
        lower = !lower;
    }
    const struct td_value x =
        td_emit(&f->e, "MatrixTriangularSolve", TD_IN(a, b), TD_ATTRS(TD_ATTR_OF_BOOL("lower", lower)));
    td_hlo_put(f, op, 0, left ? x : transposed(f, x, rank, false));
}

void td_hlo_fft(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    static const char *const names[4][3] = {{"FFT", "FFT2D", "FFT3D"},
                                            {"IFFT", "IFFT2D", "IFFT3D"},
                                            {"RFFT", "RFFT2D", "RFFT3D"},
                                            {"IRFFT", "IRFFT2D", "IRFFT3D"}};
    int n, type = -1;
    const int64_t *length = td_hlo_ints(f, op, "fft_length", &n);
    for (int i = 0; i < 4; i++) {
        type = td_hlo_text_is(op, "fft_type", names[i][0]) ? i : type;
    }
    if (length == NULL || n < 1 || n > 3 || type < 0 || op->n_in != 1) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "a transform over %d axes", n);
        return;
    }
    const struct td_value x = td_hlo_in(f, op, 0);
    const bool wide = td_dtype_of(x) == TD_DOUBLE || td_dtype_of(x) == TD_COMPLEX128;
    if (type < 2) {
        td_hlo_put(f, op, 0, td_hlo_1(f, names[type][n - 1], x));
        return;
    }
    const struct td_attr real = TD_ATTR_OF_TYPE("Treal", wide ? TD_DOUBLE : TD_FLOAT);
    const struct td_attr complex = TD_ATTR_OF_TYPE("Tcomplex", wide ? TD_COMPLEX128 : TD_COMPLEX64);
    td_hlo_put(
        f, op, 0,
        td_emit(&f->e, names[type][n - 1], TD_IN(x, td_hlo_i32s(f, length, n)), TD_ATTRS(real, complex)));
}
