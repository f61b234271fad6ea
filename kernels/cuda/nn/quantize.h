/* kernels/cuda/nn/quantize.h - launchers of quantize.cu; each returns CUDA's error number.
 *
 * Tensors are [outer, depth, inner]; each slice [:, k, :] has a range of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_QUANTIZE_H
#define TD_KERNELS_CUDA_NN_QUANTIZE_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

struct td_cuda_ranges {
    int64_t outer, depth, inner;
    const void *min, *max; /* [depth] on the device; NULL: see there */
    void *work;            /* td_cuda_ranges_work bytes */
    int32_t *fault;        /* a range whose ends are the wrong way round is refused */
};
size_t td_cuda_ranges_work(const struct td_cuda_ranges *s);

/* y = x, of floats or doubles, at the levels low .. high of its slice's range. Without min: [least, most]
 * where it is given, else the least and the greatest of the slice. */
struct td_cuda_rounding {
    double low, high, least, most;
    bool given, half_up; /* given: x is cut to the range first */
};
int td_cuda_round_to_levels(enum td_cuda_type type, const struct td_cuda_ranges *s,
                            const struct td_cuda_rounding *r, const void *x, void *y,
                            struct td_cuda_stream *stream);
/* dx = dy where x is within its slice's range, else 0. */
int td_cuda_pass_in_range(enum td_cuda_type type, const struct td_cuda_ranges *s, const void *dy,
                          const void *x, void *dx, struct td_cuda_stream *stream);

/* How levels stand for floats: levels low .. high, half the number of them for types with a sign, steps from
 * the lowest to the highest, which of 32 bits is no float. */
enum td_cuda_quantizing { TD_CUDA_MIN_COMBINED, TD_CUDA_MIN_FIRST, TD_CUDA_SCALED };
struct td_cuda_levels {
    enum td_cuda_quantizing mode;
    float low, high, half;
    double steps;
    float skip;      /* 1: the lowest level is not used */
    bool to_even;    /* SCALED alone */
    float narrowest; /* a range is made so wide at least, of its size */
};
/* y, of 8, 16 or 32 bit integers, = the levels of floats x; the ranges that these span: floats [depth]. */
int td_cuda_quantize(enum td_cuda_type type, const struct td_cuda_ranges *s, const struct td_cuda_levels *l,
                     const void *x, void *y, void *out_min, void *out_max, struct td_cuda_stream *stream);
/* y, floats or bfloat16, = what the levels x stand for. */
int td_cuda_dequantize(enum td_cuda_type type, const struct td_cuda_ranges *s, const struct td_cuda_levels *l,
                       const void *x, void *y, bool bfloat16, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
