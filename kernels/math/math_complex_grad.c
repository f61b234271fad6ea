/* kernels/math/math_complex_grad.c - gradients between complex numbers and their parts, and between dtypes.
 *
 * The gradient at a complex value holds that of its real part as its own real part, and that of its imaginary
 * part as its imaginary part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/math_complex_grad.h"

#include "kernels/formula/formula.h"

static bool is_double(struct td_value v)
{
    return v.node != NULL && (td_dtype_of(v) == TD_DOUBLE || td_dtype_of(v) == TD_COMPLEX128);
}

/* Real or Imag of v. */
static struct td_value part(struct td_emitter *e, const char *op, struct td_value v)
{
    const enum td_dtype dtype = is_double(v) ? TD_DOUBLE : TD_FLOAT;
    return td_emit(e, op, TD_IN(v), TD_ATTRS(TD_ATTR_OF_TYPE("Tout", dtype)));
}

static struct td_value joined(struct td_emitter *e, struct td_value real, struct td_value imag)
{
    const enum td_dtype dtype = is_double(real) ? TD_COMPLEX128 : TD_COMPLEX64;
    return td_emit(e, "Complex", TD_IN(real, imag), TD_ATTRS(TD_ATTR_OF_TYPE("Tout", dtype)));
}

static struct td_value as_complex(struct td_emitter *e, struct td_value real)
{
    return joined(e, real, td_f_number(e, real, 0));
}

void td_complex_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    if (td_grad_wants(g, 0)) {
        td_f_give_summed(g, 0, part(g->e, "Real", dz));
    }
    if (td_grad_wants(g, 1)) {
        td_f_give_summed(g, 1, part(g->e, "Imag", dz));
    }
}

void td_real_grad(struct td_grad *g)
{
    td_grad_give(g, 0, as_complex(g->e, td_grad_at(g, 0)));
}

void td_imag_grad(struct td_grad *g)
{
    const struct td_value dy = td_grad_at(g, 0);
    td_grad_give(g, 0, joined(g->e, td_f_number(g->e, dy, 0), dy));
}

/* dx = -dy / (Im x + i Re x) */
void td_angle_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value x = td_grad_in(g, 0);
    const struct td_value swapped = joined(e, part(e, "Imag", x), part(e, "Real", x));
    const struct td_value dy = td_f_neg(e, as_complex(e, td_grad_at(g, 0)));
    td_grad_give(g, 0, td_f_mul(e, dy, td_f_1(e, "Reciprocal", swapped)));
}

/* dx = dy * x / |x|, 0 at 0 */
void td_complex_abs_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value top = td_f_mul(e, as_complex(e, td_grad_at(g, 0)), td_grad_in(g, 0));
    td_grad_give(g, 0, td_f_2(e, "DivNoNan", top, as_complex(e, td_grad_out(g, 0))));
}

void td_conj_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_conj(g->e, td_grad_at(g, 0)));
}

/* By way of an integer nothing arrives; of variants the cast is none. */
void td_cast_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_cast(g->e, td_grad_at(g, 0), td_dtype_of(td_grad_in(g, 0))));
}
