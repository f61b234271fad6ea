/* kernels/math/math_scan_grad.c - gradients of what runs along an axis: the same kind of run, the other way.
 *
 * That of Cumprod divides by x, and is 0 where x is, as TensorFlow's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/math_scan_grad.h"

#include <float.h>

#include "kernels/formula/formula.h"

/* v run along the node's axis from its other end. */
static struct td_value back(struct td_grad *g, const char *op, struct td_value v)
{
    return td_emit(g->e, op, TD_IN(v, td_grad_in(g, 1)),
                   TD_ATTRS(TD_ATTR_OF_BOOL("exclusive", td_attr_bool(g->node, "exclusive")),
                            TD_ATTR_OF_BOOL("reverse", !td_attr_bool(g->node, "reverse"))));
}

void td_cumsum_grad(struct td_grad *g)
{
    td_grad_give(g, 0, back(g, "Cumsum", td_grad_at(g, 0)));
}

void td_cumprod_grad(struct td_grad *g)
{
    const struct td_value sum = back(g, "Cumsum", td_f_mul(g->e, td_grad_out(g, 0), td_grad_at(g, 0)));
    td_grad_give(g, 0, td_f_2(g->e, "DivNoNan", sum, td_grad_in(g, 0)));
}

/* The lowest finite value. */
static double lowest(enum td_dtype dtype)
{
    switch (dtype) {
    case TD_DOUBLE:
        return -DBL_MAX;
    case TD_HALF:
        return -65504;
    case TD_BFLOAT16:
        return -0x1.fep127;
    default:
        return -(double)FLT_MAX;
    }
}

/* exp(x + logsumexp(log(dy) - y)), over the dy above 0. */
static struct td_value share_of_positive(struct td_grad *g, struct td_value dy)
{
    struct td_emitter *e = g->e;
    const struct td_value above = td_f_2(e, "Greater", dy, td_f_number(e, dy, 0));
    const struct td_value nothing = td_f_number(e, dy, lowest(td_dtype_of(td_grad_in(g, 0))));
    const struct td_value log = td_f_where(e, above, td_f_1(e, "Log", dy), nothing);
    const struct td_value sums = back(g, "CumulativeLogsumexp", td_f_sub(e, log, td_grad_out(g, 0)));
    return td_f_1(e, "Exp", td_f_add(e, sums, td_grad_in(g, 0)));
}

void td_cumulative_logsumexp_grad(struct td_grad *g)
{
    const struct td_value dy = td_grad_at(g, 0);
    const struct td_value gained = share_of_positive(g, dy), lost = share_of_positive(g, td_f_neg(g->e, dy));
    td_grad_give(g, 0, td_f_sub(g->e, gained, lost));
}
