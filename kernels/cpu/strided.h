/* kernels/cpu/strided.h - copies between two strided views of elements: the one primitive under slicing,
 * transposing, padding, tiling, broadcasting and reversing.
 *
 * A view is a start pointer and one stride (in elements, any sign, 0 to repeat) for each of `rank` loops.
 * The caller guarantees that every element reached lies inside its buffer and that no destination element
 * is written twice.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_STRIDED_H
#define TD_KERNELS_CPU_STRIDED_H

#include "core/base/tensor.h"

/* Twice the tensor rank, so that block ops can split every axis in two. */
#define TD_STRIDED_RANK (2 * TD_MAX_RANK)

struct td_strided {
    int rank;
    int64_t dim[TD_STRIDED_RANK]; /* dim[0] is the outermost loop */
    int64_t dst[TD_STRIDED_RANK];
    int64_t src[TD_STRIDED_RANK];
};

/* Row-major strides of a known shape. */
void td_strided_row_major(const struct td_shape *s, int64_t *stride);
/* Adds one loop at the inside. */
static inline void td_strided_push(struct td_strided *w, int64_t dim, int64_t dst, int64_t src)
{
    w->dim[w->rank] = dim;
    w->dst[w->rank] = dst;
    w->src[w->rank++] = src;
}
/* dst and src point at the elements of index 0 in every loop; they may be NULL when some dim is 0. */
void td_strided_copy(enum td_dtype dtype, const struct td_strided *w, void *dst, const void *src);
/* n copies of the element at `value`. */
void td_strided_fill(enum td_dtype dtype, void *dst, const void *value, int64_t n);
/* Zero elements: numbers 0, empty strings, unset objects. dst is as td_out gives it (objects already
 * NULL). */
void td_strided_zero(enum td_dtype dtype, void *dst, int64_t n);

#endif
