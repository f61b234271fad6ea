/* kernels/sparse/csr.h - matrices of few values, as variants: a counted object that nobody changes once it
 * is made.
 *
 *   [rows, cols], or [batch, rows, cols]: of each matrix its rows one after the other,
 *
 *     starts  [batch + 1]            where the values of matrix b begin
 *     rows    [batch * (rows + 1)]   where row i begins among those of its matrix
 *     cols    [n]   values [n]       columns ascend along a row
 *
 * Starts and each matrix's rows begin with 0 and do not descend, and columns are inside of the matrix:
 * whoever makes one (td_csr_new, then td_csr_seal) has checked what it is made of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_SPARSE_CSR_H
#define TD_KERNELS_SPARSE_CSR_H

#include "core/graph/op.h"

struct td_csr {
    struct td_obj obj;
    int rank; /* 2, 3 */
    int64_t batch, rows, cols, n;
    int32_t *start, *row, *col;
    struct td_tensor values; /* [n] */
};

/* A matrix of that shape, of rank 2 or 3, with room for n values: all of start and row is 0. Returns new.
 * INVALID_ARGUMENT where its sizes, or n, are more than an int32 holds. */
TD_MUST enum td_code td_csr_new(const struct td_node *node, enum td_dtype dtype, const struct td_shape *shape,
                                int64_t n, struct td_csr **out, struct td_err *err);
/* row holds, behind each row's place, how many values it has: they become where it begins. */
void td_csr_seal(struct td_csr *m);
struct td_shape td_csr_shape(const struct td_csr *m);
/* Row i of matrix b: its values are [from, to). */
void td_csr_row(const struct td_csr *m, int64_t b, int64_t i, int64_t *from, int64_t *to);
/* The matrix that input i is; its values are of the dtype, or of any (NONE).
 * INVALID_ARGUMENT for a batch of none. */
TD_MUST enum td_code td_csr_in(const struct td_call *c, int i, enum td_dtype dtype, const struct td_csr **out,
                               struct td_err *err);

/* Returns new: m's matrices transposed, conjugated if asked for. */
TD_MUST enum td_code td_csr_transpose(struct td_call *c, const struct td_csr *m, bool conjugated,
                                      struct td_csr **out, struct td_err *err);

#endif
