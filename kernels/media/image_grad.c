/* kernels/media/image_grad.c - gradients of RGBToHSV and of projective transforms.
 *
 * RGBToHSV is smooth where the order of the three channels does not change. With max and min of a pixel:
 *
 *   value = max            saturation = 1 - min / max
 *   hue = (what the largest channel is + (the one after it - the one before it) / (max - min)) / 6
 *
 * In a tie red comes first among the largest, blue among the smallest, as in TensorFlow; what would be
 * divided by zero is zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/media/image_grad.h"

#include "kernels/formula/formula.h"

/* ------------------------------------------------------------------ RGBToHSV */

enum { COLOURS = 3 };

/* The channels of all pixels; 1 or 0 for which is largest, smallest, above zero. */
struct pixels {
    struct td_emitter *e;
    struct td_value x[COLOURS], largest[COLOURS], smallest[COLOURS], positive[COLOURS];
    struct td_value max, min;
};

static void unpack(struct td_emitter *e, struct td_value x, struct td_value part[COLOURS])
{
    const struct td_value first =
        td_emit(e, "Unpack", TD_IN(x), TD_ATTRS(TD_ATTR_OF_INT("num", COLOURS), TD_ATTR_OF_INT("axis", -1)));
    for (int i = 0; i < COLOURS; i++) {
        part[i] = td_f_port(first, i);
    }
}

static struct td_value product(struct td_emitter *e, struct td_value a, struct td_value b, struct td_value c)
{
    return td_f_mul(e, td_f_mul(e, a, b), c);
}

/* 1 / v; 0 where v is. */
static struct td_value inverse(struct td_emitter *e, struct td_value v)
{
    return td_f_2(e, "DivNoNan", td_f_number(e, v, 1), v);
}

/* 1 where both hold. */
static struct td_value both(const struct pixels *p, struct td_value a, struct td_value b)
{
    return td_f_cast(p->e, td_f_2(p->e, "LogicalAnd", a, b), td_dtype_of(p->x[0]));
}

/* sum of where[i] * x[i] */
static struct td_value chosen(const struct pixels *p, const struct td_value where[COLOURS])
{
    struct td_value sum = td_f_mul(p->e, where[0], p->x[0]);
    for (int i = 1; i < COLOURS; i++) {
        sum = td_f_add(p->e, sum, td_f_mul(p->e, where[i], p->x[i]));
    }
    return sum;
}

static struct pixels pixels_of(struct td_emitter *e, struct td_value rgb)
{
    struct pixels p = {.e = e};
    unpack(e, rgb, p.x);
    for (int i = 0; i < COLOURS; i++) {
        struct td_value above[COLOURS],
            below[COLOURS]; /* i before k wins a tie of largest, loses one of smallest */
        for (int k = 0; k < COLOURS; k++) {
            above[k] = td_f_2(e, i < k ? "GreaterEqual" : "Greater", p.x[i], p.x[k]);
            below[k] = td_f_2(e, i < k ? "Less" : "LessEqual", p.x[i], p.x[k]);
        }
        const int a = i == 0 ? 1 : 0, b = i == 2 ? 1 : 2;
        p.largest[i] = both(&p, above[a], above[b]);
        p.smallest[i] = both(&p, below[a], below[b]);
        p.positive[i] =
            td_f_cast(e, td_f_2(e, "Greater", p.x[i], td_f_number(e, p.x[i], 0)), td_dtype_of(p.x[i]));
    }
    p.max = chosen(&p, p.largest);
    p.min = chosen(&p, p.smallest);
    return p;
}

/* Of the saturation by channel i: min / max^2 of the largest, -1 / max of the smallest. */
static struct td_value saturation_by(const struct pixels *p, int i)
{
    struct td_emitter *e = p->e;
    const struct td_value up = product(e, p->largest[i], p->min, inverse(e, td_f_square(e, p->x[i])));
    const struct td_value down = td_f_mul(e, p->smallest[i], inverse(e, p->max));
    return td_f_mul(e, p->positive[i], td_f_sub(e, up, down));
}

/* Of 6 times the hue by channel i; n comes after it, b before it. The largest is i: (b - n) / (max - min)^2,
 * which is written (saturation * value)^2. It is another, j: where i is the smallest, (b - n) / (x_j -
 * x_i)^2; where i is neither, 1 / (b - n). */
static struct td_value hue_by(const struct pixels *p, int i, struct td_value range2)
{
    struct td_emitter *e = p->e;
    const int n = (i + 1) % COLOURS, b = (i + 2) % COLOURS;
    const struct td_value slope = td_f_sub(e, p->x[b], p->x[n]);
    const struct td_value by_n = td_f_mul(e, p->positive[n], p->largest[n]);
    const struct td_value by_b = td_f_mul(e, p->positive[b], p->largest[b]);
    const struct td_value to_n = inverse(e, td_f_square(e, td_f_sub(e, p->x[i], p->x[n])));
    const struct td_value to_b = inverse(e, td_f_square(e, td_f_sub(e, p->x[i], p->x[b])));
    const struct td_value top = product(e, td_f_mul(e, p->positive[i], p->largest[i]), slope, range2);
    const struct td_value bottom =
        product(e, p->smallest[i], slope, td_f_add(e, td_f_mul(e, by_n, to_n), td_f_mul(e, by_b, to_b)));
    const struct td_value either =
        td_f_add(e, td_f_mul(e, by_n, p->smallest[b]), td_f_mul(e, by_b, p->smallest[n]));
    return td_f_add(e, td_f_add(e, top, bottom), td_f_mul(e, either, inverse(e, slope)));
}

void td_rgb_to_hsv_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct pixels p = pixels_of(e, td_grad_in(g, 0));
    struct td_value hsv[COLOURS], d[COLOURS], dx[COLOURS];
    unpack(e, td_grad_out(g, 0), hsv);
    unpack(e, td_grad_at(g, 0), d);
    const struct td_value range2 =
        td_f_mul(e, inverse(e, td_f_square(e, hsv[1])), inverse(e, td_f_square(e, hsv[2])));
    const struct td_value dh = td_f_scale(e, d[0], 1.0 / 6);
    for (int i = 0; i < COLOURS; i++) {
        const struct td_value by_value = td_f_mul(e, d[2], p.largest[i]);
        const struct td_value by_saturation = td_f_mul(e, d[1], saturation_by(&p, i));
        const struct td_value by_hue = td_f_mul(e, dh, hue_by(&p, i, range2));
        dx[i] = td_f_add(e, td_f_add(e, by_value, by_saturation), by_hue);
    }
    td_grad_give(
        g, 0,
        td_emit(e, "Pack", dx, COLOURS, TD_ATTRS(TD_ATTR_OF_INT("N", COLOURS), TD_ATTR_OF_INT("axis", -1))));
}

/* ------------------------------------------------------------------ ImageProjectiveTransform */

/* [n,8] of [n,3,3] with a last element of 1, inverted and brought to that form again. */
static struct td_value inverted(struct td_emitter *e, struct td_value transforms)
{
    const struct td_value n = td_f_part(e, td_f_shape(e, transforms), 0, 1), all = td_f_ints(e, -1, -1);
    const struct td_value ones =
        td_f_fill(e, td_f_concat(e, TD_IN(n, td_f_ints(e, 1)), 0), td_emit_number(e, TD_FLOAT, 1));
    const struct td_value square =
        td_f_reshape(e, td_f_concat(e, TD_IN(transforms, ones), 1), td_f_ints(e, -1, 3, 3));
    const struct td_value flat = td_f_reshape(e, td_f_1(e, "MatrixInverse", square), td_f_ints(e, -1, 9));
    const struct td_value scaled = td_f_div(e, flat, td_f_slice(e, flat, td_f_ints(e, 0, 8), all));
    return td_f_slice(e, scaled, td_f_ints(e, 0, 0), td_f_ints(e, -1, 8));
}

/* TensorFlow's: the gradient as an image, transformed back; exact where the transform is one to one on the
 * cells. */
void td_project_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    if (!td_grad_wants(g, 0)) {
        return;
    }
    const struct td_value size = td_f_part(e, td_f_shape(e, td_grad_in(g, 0)), 1, 2);
    const struct td_value in[4] = {td_grad_at(g, 0), inverted(e, td_grad_in(g, 1)), size,
                                   td_emit_number(e, TD_FLOAT, 0)};
    td_grad_give(g, 0, td_f_as(e, g->node->op->name, in, g->node->n_in, g->node, "interpolation,fill_mode"));
}
