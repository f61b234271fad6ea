/* kernels/nn/lrn.c - local response normalisation along the channels.     x [N,H,W,C]  ->  y [N,H,W,C]
 *
 *   y_j = x_j * (bias + alpha * sum of squares of the channels within depth_radius of j) ^ -beta
 *
 * Sums are in double; half and bfloat16 are widened.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

static enum td_code lrn_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank >= 0 && c->in[0].rank != 4, err, INVALID_ARGUMENT,
               "%s: in must be 4-dimensional, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    for (int i = 1; i < c->n_in; i++) {
        TD_FAIL_IF(!td_shape_compatible(&c->in[0], &c->in[i]), err, INVALID_ARGUMENT,
                   "%s: input_grads, input_image and output_image should have the same shape, got %s and %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[i]));
    }
    c->out[0] = c->in[0];
    return TD_OK;
}

struct lrn {
    int64_t rows, depth, radius;
    double bias, alpha, beta;
};

static struct lrn lrn_of(const struct td_node *n, const struct td_shape *x)
{
    int64_t depth = x->dim[3], radius = td_attr_int(n, "depth_radius");
    radius = radius < 0 ? -1 : radius > depth ? depth : radius;
    return (struct lrn){
        td_shape_range(x, 0, 3), depth, radius, td_attr_float(n, "bias"), td_attr_float(n, "alpha"),
        td_attr_float(n, "beta")};
}

/* The norms of a row of x. square has room for depth + 2 * radius. */
TD_CLONES static void lrn_norms(const struct lrn *s, const float *x, double *restrict square,
                                double *restrict norm)
{
    const int64_t r = s->radius < 0 ? 0 : s->radius, n = s->depth, taps = s->radius < 0 ? 0 : 2 * r + 1;
    memset(square, 0, (size_t)r * sizeof *square);
    memset(square + r + n, 0, (size_t)r * sizeof *square);
    for (int64_t j = 0; j < n; j++) {
        square[r + j] = (double)x[j] * x[j];
        norm[j] = 0;
    }
    int64_t k = 0;
    for (; k + 4 <= taps; k += 4) {
        for (int64_t j = 0; j < n; j++) {
            norm[j] += square[j + k] + square[j + k + 1] + (square[j + k + 2] + square[j + k + 3]);
        }
    }
    for (; k < taps; k++) {
        for (int64_t j = 0; j < n; j++) {
            norm[j] += square[j + k];
        }
    }
    const double bias = s->bias, alpha = s->alpha;
    for (int64_t j = 0; j < n; j++) {
        norm[j] = bias + alpha * norm[j];
    }
}

/* y = x * norm ^ -beta; the powers that networks use by roots. */
TD_CLONES static void lrn_row(const struct lrn *s, const float *x, const double *restrict norm,
                              float *restrict y)
{
    const int64_t n = s->depth;
    const double beta = s->beta;
    for (int64_t j = 0; j < n && beta == 0.5; j++) {
        y[j] = (float)(x[j] * (1 / sqrt(norm[j])));
    }
    for (int64_t j = 0; j < n && beta == 0.75; j++) {
        double root = sqrt(norm[j]);
        y[j] = (float)(x[j] * (1 / (root * sqrt(root))));
    }
    for (int64_t j = 0; j < n && beta != 0.5 && beta != 0.75; j++) {
        y[j] = (float)(x[j] * pow(norm[j], -beta));
    }
}

static enum td_code lrn_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const float *x;
    float *to;
    void *square, *norm;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    TD_TRY(td_upcast_room(c, y, &to, err));
    struct lrn s = lrn_of(c->node, &y->shape);
    TD_TRY(td_scratch(c, (size_t)(s.depth + 2 * (s.radius + 1)) * sizeof(double), &square, err));
    TD_TRY(td_scratch(c, (size_t)s.depth * sizeof(double), &norm, err));
    for (int64_t r = 0; r < s.rows; r++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        lrn_norms(&s, x + r * s.depth, square, norm);
        lrn_row(&s, x + r * s.depth, norm, to + r * s.depth);
    }
    td_downcast(y, to);
    return TD_OK;
}

/* power = norm ^ -beta, the powers that networks use by roots; share = dy * y / norm, with radius zeros on
 * either side. */
TD_CLONES static void lrn_grad_parts(const struct lrn *s, const float *dy, const float *y,
                                     const double *restrict norm, double *restrict power,
                                     double *restrict share)
{
    const int64_t n = s->depth, r = s->radius < 0 ? 0 : s->radius;
    const double beta = s->beta;
    for (int64_t j = 0; j < n && beta == 0.5; j++) {
        power[j] = 1 / sqrt(norm[j]);
    }
    for (int64_t j = 0; j < n && beta == 0.75; j++) {
        const double root = sqrt(norm[j]);
        power[j] = 1 / (root * sqrt(root));
    }
    for (int64_t j = 0; j < n && beta != 0.5 && beta != 0.75; j++) {
        power[j] = pow(norm[j], -beta);
    }
    memset(share, 0, (size_t)r * sizeof *share);
    memset(share + r + n, 0, (size_t)r * sizeof *share);
    for (int64_t j = 0; j < n; j++) {
        share[r + j] = dy[j] * (y[j] / norm[j]);
    }
}

/* dx = dy * power - 2 alpha beta x * (the shares near it) */
TD_CLONES static void lrn_grad_row(const struct lrn *s, const float *dy, const float *x, const double *power,
                                   const double *share, double *restrict sum, float *restrict dx)
{
    const int64_t n = s->depth, taps = s->radius < 0 ? 0 : 2 * s->radius + 1;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t k = 0; k < taps; k++) {
        for (int64_t j = 0; j < n; j++) {
            sum[j] += share[j + k];
        }
    }
    const double common = -2 * s->alpha * s->beta;
    for (int64_t j = 0; j < n; j++) {
        dx[j] = (float)(taps > 0 ? dy[j] * power[j] + common * x[j] * sum[j] : 0);
    }
}

static enum td_code lrn_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    const float *dy, *x, *y;
    float *to;
    void *room;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(td_upcast(c, c->in[0], &dy, err));
    TD_TRY(td_upcast(c, c->in[1], &x, err));
    TD_TRY(td_upcast(c, c->in[2], &y, err));
    TD_TRY(td_upcast_room(c, dx, &to, err));
    const struct lrn s = lrn_of(c->node, &dx->shape);
    const int64_t wide = s.depth + 2 * (s.radius + 1);
    TD_TRY(td_scratch(c, (size_t)(wide + 3 * s.depth) * sizeof(double), &room, err));
    double *padded = room, *norm = padded + wide, *power = norm + s.depth, *sum = power + s.depth;
    for (int64_t r = 0; r < s.rows; r++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        const int64_t at = r * s.depth;
        lrn_norms(&s, x + at, padded, norm);
        lrn_grad_parts(&s, dy + at, y + at, norm, power, padded);
        lrn_grad_row(&s, dy + at, x + at, power, padded, sum, to + at);
    }
    td_downcast(dx, to);
    return TD_OK;
}

static void lrn_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 td_f_as(g->e, "LRNGrad", TD_IN(td_grad_at(g, 0), td_grad_in(g, 0), td_grad_out(g, 0)),
                         g->node, "depth_radius,bias,alpha,beta"));
}

#define SET_LRN (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

const struct td_op td_ops_lrn[] = {
    {.name = "LRN",
     .sig = "(input:T) -> (output:T) {depth_radius:int=5; bias:float=1.0; alpha:float=1.0; beta:float=0.5; "
            "T:type=float}",
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = lrn_infer,
     .kernels = TD_KERNEL("lrn.cpu", lrn_run, {"T", SET_LRN}),
     .grad = lrn_grad},
    {.name = "LRNGrad",
     .sig =
         "(input_grads:T, input_image:T, output_image:T) -> (output:T) {depth_radius:int=5; bias:float=1.0; "
         "alpha:float=1.0; beta:float=0.5; T:type=float}",
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = lrn_infer,
     .kernels = TD_KERNEL("lrn_grad.cpu", lrn_grad_run, {"T", SET_LRN})},
    {.name = NULL},
};
