/* kernels/nn/norm_grad.c - gradients of batch normalisation and of its gradient.
 *
 * FusedBatchNormGrad of training is, a channel with n cells, with A = dy, c = x - mean(x), r = 1 / sqrt(v +
 * epsilon), ' for a value less its mean, and <,> for the sum of products over the cells:
 *
 *   dx = s r (A' - r^2/n <A,c> c)     dscale = r <A,c>     doffset = <A,1>
 *
 * Its gradient when G, h and o arrive at the three, with p = <G,c>, q = <A,c>:
 *
 *   by A   s r (G' - r^2/n p c)  +  h r c  +  o
 *   by s   r (<G',A'> - r^2/n p q)
 *   by x   -s r^3/n (q G' + p A')  +  h r A'  -  r^3/n (s (<G',A'> - 3 r^2/n p q) + h q) c
 *
 * where x also moves mean and r. In inference mean and variance are constants: dx = s r A, and so on.
 * Gradients arrive at dx alone most of the time: what did not arrive adds nothing.
 *
 * All of it is in float, whatever T is; mean and variance themselves get none, as TensorFlow has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/norm_grad.h"

#include <string.h>

#include "kernels/formula/formula.h"

void td_batch_norm_grad(struct td_grad *g)
{
    const char *const attrs = "epsilon,data_format,is_training", *name = g->node->op->name;
    const bool training = td_attr_bool(g->node, "is_training");
    struct td_value in[6] = {td_grad_at(g, 0), td_grad_in(g, 0), td_grad_in(g, 1)};
    in[3] = training ? td_grad_out(g, 3) : td_grad_in(g, 3);
    in[4] = training ? td_grad_out(g, 4) : td_grad_in(g, 4);
    struct td_value dx;
    if (strcmp(name, "FusedBatchNormV3") == 0) {
        in[5] = td_grad_out(g, 5);
        dx = td_f_as(g->e, "FusedBatchNormGradV3", in, 6, g->node, attrs);
    } else {
        const bool v2 = strcmp(name, "FusedBatchNormV2") == 0;
        dx = td_f_as(g->e, v2 ? "FusedBatchNormGradV2" : "FusedBatchNormGrad", in, 5, g->node, attrs);
    }
    for (int i = 0; i < 3; i++) {
        td_grad_give(g, i, td_f_port(dx, i));
    }
}

/* ------------------------------------------------------------------ of FusedBatchNormGrad */

/* Channels of a tensor: the axes that are summed over, and a vector's shape beside it. */
struct channels {
    struct td_emitter *e;
    struct td_value axes, shape;
    struct td_value cells; /* a channel, float */
};

static struct channels channels_of(struct td_emitter *e, const struct td_node *n, struct td_value x)
{
    const char *format = td_attr_str(n, "data_format");
    const int rank = (int)strlen(format);
    const bool first = format[1] == 'C';
    int64_t axes[4], shape[5] = {1, 1, 1, 1, 1};
    for (int i = 0, a = 0; i < rank; i++) {
        if (i != (first ? 1 : rank - 1)) {
            axes[a++] = i;
        }
    }
    shape[first ? 1 : rank - 1] = -1;
    struct channels c = {.e = e,
                         .axes = td_emit_ints(e, TD_INT32, axes, rank - 1),
                         .shape = td_emit_ints(e, TD_INT32, shape, rank)};
    const struct td_value sizes = td_f_gather(e, td_f_shape(e, x), c.axes, 0);
    c.cells = td_f_cast(e, td_f_2(e, "Prod", sizes, td_f_int(e, 0)), TD_FLOAT);
    return c;
}

/* A vector a channel, to be broadcast. */
static struct td_value beside(const struct channels *c, struct td_value v)
{
    return td_f_reshape(c->e, v, c->shape);
}

/* <x,y> a channel, to be broadcast. */
static struct td_value dot(const struct channels *c, struct td_value x, struct td_value y)
{
    return td_f_sum(c->e, td_f_mul(c->e, x, y), c->axes, true);
}

static struct td_value centred(const struct channels *c, struct td_value x)
{
    const struct td_value mean = td_f_div(c->e, td_f_sum(c->e, x, c->axes, true), c->cells);
    return td_f_sub(c->e, x, mean);
}

/* A number a channel as a vector. */
static struct td_value flat(const struct channels *c, struct td_value v)
{
    return td_f_reshape(c->e, v, td_f_ints(c->e, -1));
}

/* 1 / sqrt(variance + epsilon). */
static struct td_value inverse_deviation(struct td_emitter *e, const struct td_node *n,
                                         struct td_value variance)
{
    const struct td_value epsilon = td_f_number(e, variance, (float)td_attr_float(n, "epsilon"));
    return td_f_1(e, "Rsqrt", td_f_add(e, variance, epsilon));
}

/* What arrived, in float; no node where nothing did. G is of the whole shape, h and o are vectors. */
struct arrived {
    struct td_value G, h, o;
};

static struct td_value arrived_at(struct td_grad *g, const struct channels *c, int o)
{
    if (!td_grad_arrived(g, o)) {
        return td_no_value;
    }
    const struct td_value v = td_f_cast(c->e, td_grad_at(g, o), TD_FLOAT);
    return o == 0 ? v : beside(c, v);
}

/* x + y, either of which may be none. */
static struct td_value plus(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return x.node == NULL ? y : y.node == NULL ? x : td_f_add(e, x, y);
}

struct given {
    struct td_value dy, by_x, by_scale;
};

static struct given of_inference(struct td_grad *g, const struct channels *c, const struct arrived *a)
{
    struct td_emitter *e = c->e;
    const struct td_value dy = td_f_cast(e, td_grad_in(g, 0), TD_FLOAT);
    const struct td_value scale = beside(c, td_grad_in(g, 2));
    const struct td_value r = beside(c, inverse_deviation(e, g->node, td_grad_in(g, 4)));
    struct given v = {.dy = a->o};
    if (a->G.node != NULL) {
        v.dy = plus(e, v.dy, td_f_mul(e, a->G, td_f_mul(e, scale, r)));
        v.by_scale = flat(c, td_f_mul(e, dot(c, a->G, dy), r));
    }
    if (a->h.node != NULL) {
        const struct td_value x = td_f_cast(e, td_grad_in(g, 1), TD_FLOAT), hr = td_f_mul(e, a->h, r);
        v.dy = plus(e, v.dy, td_f_mul(e, td_f_sub(e, x, beside(c, td_grad_in(g, 3))), hr));
        v.by_x = td_f_mul(e, hr, dy);
    }
    return v;
}

/* The part of training that G brings. */
static void of_training_dx(struct td_grad *g, const struct channels *c, struct td_value G, struct td_value xc,
                           struct td_value r, struct given *v)
{
    struct td_emitter *e = c->e;
    const struct td_value dy = td_f_cast(e, td_grad_in(g, 0), TD_FLOAT);
    const struct td_value scale = beside(c, td_grad_in(g, 2)), sr = td_f_mul(e, scale, r);
    const struct td_value g0 = centred(c, G), dy0 = centred(c, dy);
    const struct td_value r2 = td_f_div(e, td_f_square(e, r), c->cells); /* r^2 / n */
    const struct td_value p = dot(c, G, xc), q = dot(c, dy, xc), both = dot(c, g0, dy0);
    const struct td_value pq = td_f_mul(e, r2, td_f_mul(e, p, q));
    const struct td_value slant = td_f_mul(e, td_f_mul(e, r2, p), xc);
    v->dy = plus(e, v->dy, td_f_mul(e, sr, td_f_sub(e, g0, slant)));
    v->by_scale = flat(c, td_f_mul(e, r, td_f_sub(e, both, pq)));
    const struct td_value swapped = td_f_add(e, td_f_mul(e, q, g0), td_f_mul(e, p, dy0));
    const struct td_value along = td_f_mul(e, td_f_sub(e, both, td_f_scale(e, pq, 3)), xc);
    v->by_x = td_f_neg(e, td_f_mul(e, td_f_mul(e, sr, r2), td_f_add(e, swapped, along)));
}

static struct given of_training(struct td_grad *g, const struct channels *c, const struct arrived *a)
{
    struct td_emitter *e = c->e;
    const struct td_value xc = centred(c, td_f_cast(e, td_grad_in(g, 1), TD_FLOAT));
    const struct td_value r = inverse_deviation(e, g->node, td_f_div(e, dot(c, xc, xc), c->cells));
    struct given v = {.dy = a->o};
    if (a->G.node != NULL) {
        of_training_dx(g, c, a->G, xc, r, &v);
    }
    if (a->h.node != NULL) {
        const struct td_value dy = td_f_cast(e, td_grad_in(g, 0), TD_FLOAT), hr = td_f_mul(e, a->h, r);
        const struct td_value r2 = td_f_div(e, td_f_square(e, r), c->cells);
        const struct td_value along = td_f_mul(e, td_f_mul(e, r2, dot(c, dy, xc)), xc);
        v.dy = plus(e, v.dy, td_f_mul(e, hr, xc));
        v.by_x = plus(e, v.by_x, td_f_mul(e, hr, td_f_sub(e, centred(c, dy), along)));
    }
    return v;
}

void td_batch_norm_grad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_in(g, 0), x = td_grad_in(g, 1), scale = td_grad_in(g, 2);
    const struct channels c = channels_of(e, g->node, x);
    const struct arrived a = {arrived_at(g, &c, 0), arrived_at(g, &c, 1), arrived_at(g, &c, 2)};
    if (a.G.node == NULL && a.h.node == NULL && a.o.node == NULL) {
        return;
    }
    const struct given v =
        td_attr_bool(g->node, "is_training") ? of_training(g, &c, &a) : of_inference(g, &c, &a);
    const bool whole = a.G.node != NULL || a.h.node != NULL;
    td_grad_give(g, 0, td_f_cast(e, whole ? v.dy : td_f_broadcast_like(e, v.dy, dy), td_dtype_of(dy)));
    td_grad_give(g, 1, v.by_x.node == NULL ? td_f_zeros_like(e, x) : td_f_cast(e, v.by_x, td_dtype_of(x)));
    td_grad_give(g, 2, v.by_scale.node == NULL ? td_f_zeros_like(e, scale) : v.by_scale);
}

/* ------------------------------------------------------------------ the others */

/* y = (x - m) k + beta with k = gamma / sqrt(v + epsilon), or without gamma. */
void td_global_batch_norm_formula(struct td_emitter *e, const struct td_global_norm *s, struct td_value *out)
{
    const struct td_value axes = td_f_ints(e, 0, 1, 2), epsilon = td_f_number(e, s->v, s->epsilon);
    const struct td_value moved = td_f_add(e, s->v, epsilon), r = td_f_1(e, "Rsqrt", moved);
    const struct td_value k = s->scaled ? td_f_mul(e, r, s->gamma) : r;
    const struct td_value sum = td_f_sum(e, s->dy, axes, false);
    const struct td_value by_x = td_f_sum(e, td_f_mul(e, s->dy, td_f_sub(e, s->t, s->m)), axes, false);
    out[0] = td_f_mul(e, s->dy, k);
    out[1] = td_f_neg(e, td_f_mul(e, sum, k));
    out[2] = td_f_scale(e, td_f_div(e, td_f_mul(e, by_x, k), moved), -0.5);
    out[3] = sum;
    out[4] = s->scaled ? td_f_mul(e, by_x, r) : td_f_zeros_like(e, s->gamma);
}

void td_global_batch_norm_grad(struct td_grad *g)
{
    struct td_value out[5];
    td_global_batch_norm_formula(
        g->e,
        &(struct td_global_norm){.t = td_grad_in(g, 0),
                                 .m = td_grad_in(g, 1),
                                 .v = td_grad_in(g, 2),
                                 .gamma = td_grad_in(g, 4),
                                 .dy = td_grad_at(g, 0),
                                 .epsilon = (float)td_attr_float(g->node, "variance_epsilon"),
                                 .scaled = td_attr_bool(g->node, "scale_after_normalization")},
        out);
    for (int i = 0; i < 5; i++) {
        td_grad_give(g, i, out[i]);
    }
}
