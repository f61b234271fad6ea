/* kernels/math/fft_grad.c - gradients of Fourier transforms: the transform back, scaled.
 *
 * The transforms of real signals leave out the half of the spectrum that is the conjugate of the other. What
 * IRFFT counts twice for that, all but the columns 0 and n / 2 of the last axis, the gradient of RFFT halves
 * before it, and that of IRFFT doubles behind RFFT. A signal longer than fft_length is cut: its gradient is
 * filled with zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/fft_grad.h"

#include "kernels/formula/formula.h"

static enum td_dtype real_dtype(struct td_value v)
{
    const enum td_dtype dtype = td_dtype_of(v);
    return dtype == TD_COMPLEX128 || dtype == TD_DOUBLE ? TD_DOUBLE : TD_FLOAT;
}

static struct td_value product(struct td_emitter *e, struct td_value sizes)
{
    return td_f_2(e, "Prod", sizes, td_f_ints(e, 0));
}

/* ------------------------------------------------------------------ complex signals */

/* Elements of the last `axes` axes of v. */
static struct td_value elements(struct td_emitter *e, struct td_value v, int axes)
{
    const struct td_value last = td_emit(
        e, "StridedSlice", TD_IN(td_f_shape(e, v), td_f_ints(e, -axes), td_f_ints(e, 0), td_f_ints(e, 1)),
        TD_ATTRS(TD_ATTR_OF_INT("end_mask", 1)));
    return product(e, last);
}

static void give_inverse(struct td_grad *g, const char *inverse, int axes)
{
    const struct td_value dy = td_grad_at(g, 0), n = elements(g->e, dy, axes);
    td_grad_give(g, 0, td_f_mul(g->e, td_f_1(g->e, inverse, dy), td_f_cast(g->e, n, td_dtype_of(dy))));
}

static void give_forward(struct td_grad *g, const char *forward, int axes)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0);
    const struct td_value n = td_f_cast(e, elements(e, dy, axes), real_dtype(dy));
    const struct td_value scale = td_f_cast(e, td_f_1(e, "Reciprocal", n), td_dtype_of(dy));
    td_grad_give(g, 0, td_f_mul(e, td_f_1(e, forward, dy), scale));
}

void td_fft_grad(struct td_grad *g)
{
    give_inverse(g, "IFFT", 1);
}

void td_fft2d_grad(struct td_grad *g)
{
    give_inverse(g, "IFFT2D", 2);
}

void td_fft3d_grad(struct td_grad *g)
{
    give_inverse(g, "IFFT3D", 3);
}

void td_ifft_grad(struct td_grad *g)
{
    give_forward(g, "FFT", 1);
}

void td_ifft2d_grad(struct td_grad *g)
{
    give_forward(g, "FFT2D", 2);
}

void td_ifft3d_grad(struct td_grad *g)
{
    give_forward(g, "FFT3D", 3);
}

/* ------------------------------------------------------------------ real signals */

/* By column of the half spectrum of a signal of fft_length: 1 for those that are their own conjugate, else
 * `inner`. In the precision of v. */
static struct td_value column_weights(struct td_grad *g, struct td_value v, double inner)
{
    struct td_emitter *e = g->e;
    const struct td_value n = td_f_element(e, td_grad_in(g, 1), -1);
    const struct td_value columns = td_f_add(e, td_f_2(e, "FloorDiv", n, td_f_int(e, 2)), td_f_int(e, 1));
    const struct td_value twice =
        td_f_scale(e, td_f_range(e, td_f_int(e, 0), columns), 2); /* 0, 2, .. n, or n - 1 */
    const struct td_value rest = td_f_2(e, "FloorMod", twice, td_f_2(e, "Maximum", n, td_f_int(e, 1)));
    const struct td_value own = td_f_2(e, "Equal", rest, td_f_int(e, 0));
    return td_f_where(e, own, td_emit_number(e, real_dtype(v), 1), td_emit_number(e, real_dtype(v), inner));
}

/* Whether x has the `axes` last axes of a transform of fft_length, none of them cut. */
static bool is_whole(struct td_grad *g, int axes, bool half)
{
    const struct td_shape *x = td_emit_shape(g->e, td_grad_in(g, 0));
    const struct td_tensor *n = td_known_value(td_grad_in(g, 1));
    bool whole = x->rank >= axes && n != NULL && td_tensor_count(n) == axes;
    for (int i = 0; whole && i < axes; i++) {
        const int64_t length = td_tensor_int(n, i);
        whole = x->dim[x->rank - axes + i] == (half && i == axes - 1 ? length / 2 + 1 : length);
    }
    return whole;
}

/* Input 0 has v, and zeros behind it along each axis. */
static void give_filled(struct td_grad *g, struct td_value v, int axes, bool half)
{
    struct td_emitter *e = g->e;
    if (!is_whole(g, axes, half)) {
        const struct td_value more = td_f_sub(e, td_f_shape(e, td_grad_in(g, 0)), td_f_shape(e, v));
        const struct td_value sides = td_emit(e, "Pack", TD_IN(td_f_zeros_like(e, more), more),
                                              TD_ATTRS(TD_ATTR_OF_INT("N", 2), TD_ATTR_OF_INT("axis", 1)));
        v = td_f_2(e, "Pad", v, sides);
    }
    td_grad_give(g, 0, v);
}

static void give_real_inverse(struct td_grad *g, const char *inverse, int axes)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), weights = column_weights(g, dy, 0.5);
    const struct td_value n = td_f_cast(e, product(e, td_grad_in(g, 1)), real_dtype(dy));
    const struct td_value scaled = td_f_mul(e, dy, td_f_cast(e, td_f_mul(e, weights, n), td_dtype_of(dy)));
    give_filled(g,
                td_emit(e, inverse, TD_IN(scaled, td_grad_in(g, 1)),
                        TD_ATTRS(TD_ATTR_OF_TYPE("Treal", real_dtype(dy)))),
                axes, false);
}

static void give_real_forward(struct td_grad *g, const char *forward, int axes)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), weights = column_weights(g, dy, 2);
    const enum td_dtype dtype = td_dtype_of(td_grad_in(g, 0));
    const struct td_value n = td_f_cast(e, product(e, td_grad_in(g, 1)), real_dtype(dy));
    const struct td_value spectrum =
        td_emit(e, forward, TD_IN(dy, td_grad_in(g, 1)), TD_ATTRS(TD_ATTR_OF_TYPE("Tcomplex", dtype)));
    give_filled(g, td_f_mul(e, spectrum, td_f_cast(e, td_f_div(e, weights, n), dtype)), axes, true);
}

void td_rfft_grad(struct td_grad *g)
{
    give_real_inverse(g, "IRFFT", 1);
}

void td_rfft2d_grad(struct td_grad *g)
{
    give_real_inverse(g, "IRFFT2D", 2);
}

void td_rfft3d_grad(struct td_grad *g)
{
    give_real_inverse(g, "IRFFT3D", 3);
}

void td_irfft_grad(struct td_grad *g)
{
    give_real_forward(g, "RFFT", 1);
}

void td_irfft2d_grad(struct td_grad *g)
{
    give_real_forward(g, "RFFT2D", 2);
}

void td_irfft3d_grad(struct td_grad *g)
{
    give_real_forward(g, "RFFT3D", 3);
}
