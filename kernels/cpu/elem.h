/* kernels/cpu/elem.h - arithmetic on single elements of any number type, for ops that visit elements one by
 * one.
 *
 * half and bfloat16 compute through float and round each result; integers wrap around.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_ELEM_H
#define TD_KERNELS_CPU_ELEM_H

#include "core/base/dtype.h"

enum td_elem_op { TD_ELEM_ADD, TD_ELEM_MUL, TD_ELEM_DIV, TD_ELEM_MAX, TD_ELEM_MIN };

/* *out = *a op *b; out may be a or b. false: not defined for the type, or an integer divided by zero. */
bool td_elem_apply(enum td_dtype dtype, enum td_elem_op op, void *out, const void *a, const void *b);
/* |*x| as double. */
double td_elem_abs(enum td_dtype dtype, const void *x);

#endif
