/* kernels/cpu/combine.h - dst[i] = dst[i] op src[i] over a run of elements, for segment and scatter ops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_COMBINE_H
#define TD_KERNELS_CPU_COMBINE_H

#include "core/base/tensor.h"

enum td_combine_op {
    TD_COMBINE_UPDATE,
    TD_COMBINE_ADD,
    TD_COMBINE_SUB,
    TD_COMBINE_MUL,
    TD_COMBINE_DIV,
    TD_COMBINE_MIN,
    TD_COMBINE_MAX,
    TD_COMBINE_LEAST, /* MIN and MAX of segments: a NaN gives way to what comes after it, and replaces what
                         was before */
    TD_COMBINE_MOST,
    TD_COMBINE_OPS
};

/* op over n elements, UPDATE and objects included; src advances by `step` (1, or 0 for one scalar against
 * all). The op must have a meaning for the dtype. */
void td_combine_run(enum td_combine_op op, enum td_dtype dtype, void *dst, const void *src, int64_t n,
                    int step);
/* Some element of a number array is zero. */
bool td_combine_has_zero(enum td_dtype dtype, const void *src, int64_t n);
/* Fills n elements with the value that leaves others unchanged under op: 0, 1, the lowest (MAX, MOST) or
 * highest (MIN, LEAST) value of the dtype. */
void td_combine_identity(enum td_combine_op op, enum td_dtype dtype, void *dst, int64_t n);

#endif
