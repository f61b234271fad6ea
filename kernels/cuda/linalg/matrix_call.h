/* kernels/cuda/linalg/matrix_call.h - what the rows of linear algebra ask of shapes, and their tables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_MATRIX_CALL_H
#define TD_KERNELS_CUDA_LINALG_MATRIX_CALL_H

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/linalg/matrix.h"
#include "kernels/cuda/rows.h"

#define TD_CUDA_MATRICES (TD_CUDA_WIDE | TD_SET_COMPLEX)

static inline int64_t td_cuda_matrix_rows(const struct td_shape *s)
{
    return s->dim[s->rank - 2];
}
static inline int64_t td_cuda_matrix_cols(const struct td_shape *s)
{
    return s->dim[s->rank - 1];
}
static inline int64_t td_cuda_matrix_batch(const struct td_shape *s)
{
    return td_shape_range(s, 0, s->rank - 2);
}

/* Bytes of an element of the type as it is computed with: a double, or a complex number of two. */
static inline int64_t td_cuda_matrix_cell(enum td_dtype t)
{
    return t == TD_COMPLEX64 || t == TD_COMPLEX128 ? 16 : 8;
}

/* The offer of a row that computes each of `jobs` matrices in so many bytes. */
static inline void td_cuda_matrix_offer(int64_t jobs, int64_t bytes, struct td_kernel_offer *o)
{
    if (bytes > TD_CUDA_MATRIX_LARGEST) {
        o->refusal = "a matrix that is too large for one block";
    } else {
        o->workspace_bytes = (size_t)td_cuda_room_workspace(jobs, bytes);
    }
}

/* A table of one row, TD_CUDA_ROWS. */
#define TD_CUDA_MATRIX_ROWS(table, label, inputs_judged, refuses, asked, fn, ...)                            \
    TD_CUDA_ROWS(table, label, .types = {__VA_ARGS__}, .judged = inputs_judged, .refuse = refuses,           \
                 .prepare = asked, .run = fn);

#endif
