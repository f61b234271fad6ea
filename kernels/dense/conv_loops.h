/* kernels/dense/conv_loops.h - the arithmetic of convolutions, for 1 to 3 spatial axes, channels last.
 *
 * Depthwise convolution is the grouped one with groups == ic: a filter [kh,kw,C,M] has the bytes of
 * [kh,kw,1,C*M].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_CONV_LOOPS_H
#define TD_KERNELS_CPU_CONV_LOOPS_H

#include "core/graph/op.h"
#include "kernels/cpu/window.h"

/* x [batch, in0, in1, in2, ic]   w [k0, k1, k2, ic/groups, oc]   ->   y [batch, out0, out1, out2, oc].
 * Fewer spatial axes: the leading ones have size 1. */
struct td_conv {
    int64_t batch, ic, oc, groups;
    struct td_window axis[3];
};

static inline int64_t td_conv_taps(const struct td_conv *g)
{
    return g->axis[0].k * g->axis[1].k * g->axis[2].k;
}
static inline int64_t td_conv_in_cells(const struct td_conv *g)
{
    return g->axis[0].in * g->axis[1].in * g->axis[2].in;
}
static inline int64_t td_conv_out_cells(const struct td_conv *g)
{
    return g->axis[0].out * g->axis[1].out * g->axis[2].out;
}

/* Direct loops; float, double and int32 (wrapping). All write every element of their result. */
void td_conv_forward(enum td_dtype dtype, const struct td_conv *g, const void *x, const void *w, void *y);
void td_conv_input_grad(enum td_dtype dtype, const struct td_conv *g, const void *w, const void *dy,
                        void *dx);
void td_conv_filter_grad(enum td_dtype dtype, const struct td_conv *g, const void *x, const void *dy,
                         void *dw);

/* 1x1 in single steps without padding: x is its patches. */
bool td_conv_is_pointwise(const struct td_conv *g);
/* Rows of patches [taps * ic], floats, for output cells [cell, cell + rows): what each tap meets, zeros in
 * the padding. groups == 1. */
void td_conv_patches(const struct td_conv *g, const float *x, int64_t cell, int64_t rows, float *patches);

/* The same through patch matrices and td_gemm; float, groups == 1. Scratch comes from the call. */
TD_MUST enum td_code td_conv_forward_gemm(struct td_call *c, const struct td_conv *g, const float *x,
                                          const float *w, float *y, struct td_err *err);
TD_MUST enum td_code td_conv_input_grad_gemm(struct td_call *c, const struct td_conv *g, const float *w,
                                             const float *dy, float *dx, struct td_err *err);
/* Likewise, by oneDNN's product, images on idle threads too. For few channels of dx: its convolutions
 * backwards are made for whole vectors of them (64 to 3 channels of 64x64 pixels, 4x4: 182 -> 67 us on
 * Sapphire Rapids). */
TD_MUST enum td_code td_conv_input_grad_patches(struct td_call *c, const struct td_conv *g, const float *w,
                                                const float *dy, float *dx, struct td_err *err);
TD_MUST enum td_code td_conv_filter_grad_gemm(struct td_call *c, const struct td_conv *g, const float *x,
                                              const float *dy, float *dw, struct td_err *err);

#endif
