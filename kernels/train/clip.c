/* kernels/train/clip.c - a norm is one pass over a gradient (L2Loss: half the sum of squares, summed in
 * double), and scales are computed on scalars, so that what remains for each element is one product, which
 * joins the chain of the update behind it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/clip.h"

enum td_dtype td_update_dtype(struct td_value w)
{
    return td_dtype_of(w) == TD_DOUBLE ? TD_DOUBLE : TD_FLOAT;
}

static struct td_value in_update_dtype(struct td_emitter *e, struct td_value x)
{
    return td_f_cast(e, x, td_update_dtype(x));
}

/* ------------------------------------------------------------------ norms */

/* Of x's elements, in its dtype. */
static struct td_value sum_of_squares(struct td_emitter *e, struct td_value x)
{
    return td_f_scale(e, td_f_1(e, "L2Loss", x), 2);
}

struct td_value td_global_norm(struct td_emitter *e, const struct td_value *g, int n)
{
    struct td_value *sums = td_arena_alloc(e->arena, (size_t)n + 1, sizeof *sums);
    if (sums == NULL) {
        return td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for the norm of %d gradients", n);
    }
    for (int i = 0; i < n; i++) {
        sums[i] = td_f_cast(e, sum_of_squares(e, in_update_dtype(e, g[i])), TD_FLOAT);
    }
    const struct td_value all = n == 0   ? td_emit_number(e, TD_FLOAT, 0)
                                : n == 1 ? sums[0]
                                         : td_grad_formulas.add_n(e, sums, n);
    return td_f_1(e, "Sqrt", all);
}

/* g * at / max(norm, at) */
static struct td_value clipped_by_norm(struct td_emitter *e, struct td_value g, double at)
{
    const struct td_value norm = td_f_1(e, "Sqrt", sum_of_squares(e, g)), limit = td_f_number(e, g, at);
    return td_f_mul(e, g, td_f_div(e, limit, td_f_2(e, "Maximum", norm, limit)));
}

/* at * min(1 / norm, 1 / at), or no number when the norm is none. */
static struct td_value global_scale(struct td_emitter *e, struct td_value norm, double at)
{
    const struct td_value inverse = td_f_div(e, td_f_number(e, norm, 1), norm);
    const struct td_value least = td_f_2(e, "Minimum", inverse, td_f_number(e, norm, 1 / at));
    return td_f_add(e, td_f_scale(e, least, at), td_f_sub(e, norm, norm));
}

void td_clip(struct td_emitter *e, struct td_value *g, int n, enum td_clip_kind kind, double at)
{
    if (kind == TD_NO_CLIP) {
        return;
    }
    const struct td_value scale =
        kind == TD_CLIP_GLOBAL_NORM ? global_scale(e, td_global_norm(e, g, n), at) : td_no_value;
    for (int i = 0; i < n; i++) {
        const struct td_value x = in_update_dtype(e, g[i]);
        if (kind == TD_CLIP_GLOBAL_NORM) {
            g[i] = td_f_mul(e, x, td_f_cast(e, scale, td_dtype_of(x)));
        } else if (kind == TD_CLIP_NORM) {
            g[i] = clipped_by_norm(e, x, at);
        } else {
            const struct td_value below = td_f_2(e, "Minimum", x, td_f_number(e, x, at));
            g[i] = td_f_2(e, "Maximum", below, td_f_number(e, x, -at));
        }
    }
}

/* ------------------------------------------------------------------ decay, penalties, averages */

struct td_value td_decayed(struct td_emitter *e, struct td_value w, double decay, struct td_value rate)
{
    const struct td_value x = in_update_dtype(e, w);
    const struct td_value part = td_f_scale(e, td_f_cast(e, rate, td_dtype_of(x)), decay);
    return td_f_cast(e, td_f_sub(e, x, td_f_mul(e, x, part)), td_dtype_of(w));
}

struct td_value td_penalty(struct td_emitter *e, struct td_value w, double l1, double l2)
{
    const struct td_value x = in_update_dtype(e, w);
    struct td_value sum = td_no_value;
    if (l1 != 0) {
        sum = td_f_scale(e, td_f_sum_all(e, td_f_1(e, "Abs", x)), l1);
    }
    if (l2 != 0) {
        const struct td_value squares = td_f_scale(e, sum_of_squares(e, x), l2);
        sum = l1 != 0 ? td_f_add(e, sum, squares) : squares;
    }
    return td_f_cast(e, sum, TD_FLOAT);
}

struct td_value td_averaged(struct td_emitter *e, struct td_value average, struct td_value w,
                            struct td_value t, double momentum)
{
    const struct td_value later = td_f_2(e, "Greater", t, td_f_number(e, t, 1));
    const struct td_value m =
        td_f_where(e, later, td_f_number(e, average, momentum), td_f_number(e, average, 0));
    const struct td_value kept = td_f_mul(e, average, m);
    const struct td_value x = td_f_cast(e, w, td_dtype_of(average));
    return td_f_add(e, kept, td_f_mul(e, x, td_f_sub(e, td_f_number(e, average, 1), m)));
}
