/* kernels/sparse/sparse_coo.h - what sparse ops share: checks of (indices [n, rank], values [n], shape
 * [rank]) triples, order, sorting.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_SPARSE_SPARSE_COO_H
#define TD_KERNELS_SPARSE_SPARSE_COO_H

#include "core/graph/graph.h"
#include "core/graph/op.h"

struct td_coo {
    const int64_t *ix; /* n rows of rank */
    int64_t n;
    int rank;
    const int64_t *dim; /* rank */
};

/* Shape function's check of inputs i (indices), i_values and i_shape: ranks, and that their counts agree. */
TD_MUST enum td_code td_coo_infer(const struct td_infer *c, int i, int i_values, int i_shape,
                                  struct td_err *err);
/* The triple of int64 inputs as one view. Every dim is >= 0 and their product fits; rank is at most
 * TD_MAX_RANK. */
TD_MUST enum td_code td_coo_view(const struct td_call *c, int i, int i_shape, struct td_coo *out,
                                 struct td_err *err);
/* INVALID_ARGUMENT unless every index is inside the shape. */
TD_MUST enum td_code td_coo_check_bounds(const struct td_call *c, const struct td_coo *x, struct td_err *err);
/* -1, 0, 1: order of two index rows. */
int td_coo_compare(const int64_t *a, const int64_t *b, int rank);
bool td_coo_sorted(const struct td_coo *x);
/* order[n]: positions in row-major order, stable. */
void td_coo_sort(const struct td_coo *x, int64_t *order);
/* "[1,2]" of an index row, in buf. */
char *td_coo_text(const int64_t *row, int rank, char *buf, size_t bytes);

#endif
