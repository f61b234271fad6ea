/* kernels/cpu/upcast.h - half and bfloat16 tensors computed in float: upcast the inputs, compute, round the
 * result.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_UPCAST_H
#define TD_KERNELS_CPU_UPCAST_H

#include "core/graph/op.h"

/* t as floats: its own bytes when it is float, else a copy in scratch (half, bfloat16, double and integers).
 */
TD_MUST enum td_code td_upcast(struct td_call *c, const struct td_tensor *t, const float **x,
                               struct td_err *err);
/* Where to compute the floats of output t: its own bytes when it is float, else scratch. */
TD_MUST enum td_code td_upcast_room(struct td_call *c, const struct td_tensor *t, float **y,
                                    struct td_err *err);
/* Rounds y into t; nothing to do when y is t's own bytes. half and bfloat16 only. */
void td_downcast(struct td_tensor *t, const float *y);

/* f as a half and as a bfloat16 hold it. */
static inline float td_round_half(float f)
{
    return td_half_to_float(td_float_to_half(f));
}
static inline float td_round_bf16(float f)
{
    return td_bf16_to_float(td_float_to_bf16(f));
}
/* v as a float type holds it; as it is for other types. */
double td_round_to(enum td_dtype dtype, double v);
/* The largest finite number of a float type. */
double td_largest(enum td_dtype dtype);

/* Element i of a tensor of any real type. */
static inline double td_upcast_at(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return (double)TD_DATA(t, float)[i];
    case TD_DOUBLE:
        return TD_DATA(t, double)[i];
    case TD_HALF:
        return (double)td_half_to_float(TD_DATA(t, td_half)[i]);
    case TD_BFLOAT16:
        return (double)td_bf16_to_float(TD_DATA(t, td_bf16)[i]);
    case TD_UINT64:
        return (double)TD_DATA(t, uint64_t)[i];
    default:
        return (double)td_tensor_int(t, i);
    }
}

/* Plain conversions of n elements. dtype: any real number type. */
void td_upcast_elems(float *y, const void *x, enum td_dtype dtype, int64_t n);
void td_downcast_elems(void *y, const float *x, enum td_dtype dtype, int64_t n); /* half and bfloat16 only */
void td_upcast_doubles(double *y, const void *x, enum td_dtype dtype, int64_t n);
/* Rounds doubles to dtype: floats (nearest) and integers (towards zero, clipped to the range). */
void td_downcast_doubles(void *y, const double *x, enum td_dtype dtype, int64_t n);

#endif
