/* kernels/nn/uniform_quantized.h - numbers on an even grid: value = (level - zero point) * scale, with one
 * scale and zero point for a tensor, or one an index along an axis of it.
 *
 * Levels become levels of another grid by one product in fixed point (struct td_rescale). Sums wrap.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_UNIFORM_QUANTIZED_H
#define TD_KERNELS_NN_UNIFORM_QUANTIZED_H

#include "core/graph/op.h"

/* A positive factor as multiplier * 2^(shift - 31). */
struct td_rescale {
    int32_t multiplier;
    int shift;
};
/* INVALID_ARGUMENT unless factor is finite and above 0. */
TD_MUST enum td_code td_rescale_make(const struct td_node *n, double factor, struct td_rescale *r,
                                     struct td_err *err);
/* v, a difference of levels, times the factor, rounded, as far as an int32 holds it. */
int32_t td_rescale_level(const struct td_rescale *r, int64_t v);

/* What a level is held in at the end of an op. */
struct td_level_limits {
    int32_t low, high;
};
static inline int32_t td_level_limit(const struct td_level_limits *l, int32_t v)
{
    v = v < l->high ? v : l->high;
    return v > l->low ? v : l->low;
}
/* Attributes PREFIXquantization_min_val and .._max_val. */
TD_MUST enum td_code td_level_limits_of(const struct td_node *n, const char *prefix,
                                        struct td_level_limits *l, struct td_err *err);
/* Sums and differences that wrap. */
static inline int32_t td_level_add(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}
static inline int32_t td_level_sub(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}
static inline int32_t td_level_mul(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

/* Inputs i (scales) and i + 1 (zero points) of a tensor of this shape, which may be known in part: scalars
 * for axis -1, else vectors as long as that axis. */
TD_MUST enum td_code td_scales_infer(const struct td_infer *c, const struct td_shape *data, int i,
                                     int64_t axis, struct td_err *err);
/* INVALID_ARGUMENT unless all elements of input i are above 0. */
TD_MUST enum td_code td_scales_positive(const struct td_call *c, int i, struct td_err *err);
/* Element k of input i, which is a scalar or a vector. */
static inline int64_t td_scale_index(const struct td_tensor *t, int64_t k)
{
    return t->shape.rank == 0 ? 0 : k;
}
static inline float td_scale_at(const struct td_call *c, int i, int64_t k)
{
    return TD_DATA(c->in[i], const float)[td_scale_index(c->in[i], k)];
}
static inline int32_t td_zero_at(const struct td_call *c, int i, int64_t k)
{
    return TD_DATA(c->in[i], const int32_t)[td_scale_index(c->in[i], k)];
}

/* The level of x on a grid, held in l. inverse: 1 over the scale. */
int32_t td_uniform_level(float x, float inverse, int32_t zero, const struct td_level_limits *l);
/* n floats as levels of 8 bits with a sign, centred: less the zero point. *scale: of the grid that their
 * range gives. */
void td_uniform_by_range(const float *x, int64_t n, int32_t *centred, float *scale);

#endif
