/* kernels/nn/loss.c - cross entropy of logits with its gradient, and L2Loss.
 *
 *   SoftmaxCrossEntropyWithLogits: features, labels [B, C] (broadcast to each other)
 *   Sparse..: features [B, C], labels [B] of class numbers         both ->  loss [B], backprop [B, C]
 *   L2Loss: t [any shape]                                               ->  sum(t^2) / 2, a scalar
 *
 * With p = softmax(features) row by row: loss = sum(labels * (log sum exp - features)), backprop = p -
 * labels. Rows are computed in double for 64-bit floats and in float with double sums otherwise. A class
 * number outside [0, C) is INVALID_ARGUMENT.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"

/* ------------------------------------------------------------------ rows in and out of double */

static double get(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return (double)TD_DATA(t, const float)[i];
    case TD_DOUBLE:
        return TD_DATA(t, const double)[i];
    case TD_HALF:
        return (double)td_half_to_float(TD_DATA(t, const td_half)[i]);
    default:
        return (double)td_bf16_to_float(TD_DATA(t, const td_bf16)[i]);
    }
}

static void put(struct td_tensor *t, int64_t i, double v)
{
    switch (t->dtype) {
    case TD_FLOAT:
        TD_DATA(t, float)[i] = (float)v;
        break;
    case TD_DOUBLE:
        TD_DATA(t, double)[i] = v;
        break;
    case TD_HALF:
        TD_DATA(t, td_half)[i] = td_float_to_half((float)v);
        break;
    default:
        TD_DATA(t, td_bf16)[i] = td_float_to_bf16((float)v);
    }
}

/* One row of logits, softmax of it in p, and the logarithm of the sum of exponentials relative to `top`. */
struct row {
    double *p, top, log_sum;
};

/* at: index of the row's first logit, step between logits (0 where the classes are broadcast). */
static void softmax_row(const struct td_tensor *x, int64_t at, int64_t step, int64_t n, struct row *r)
{
    r->top = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        r->p[j] = get(x, at + j * step);
        r->top = r->p[j] > r->top ? r->p[j] : r->top;
    }
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        r->p[j] = exp(r->p[j] - r->top);
        sum += r->p[j];
    }
    for (int64_t j = 0; j < n; j++) {
        r->p[j] /= sum;
    }
    r->log_sum = log(sum);
}

/* A row of floats: p = softmax(x). Returns the logarithm of the sum of exponentials relative to *top. */
static double softmax_floats(const float *x, int64_t n, float *p, float *top)
{
    *top = td_vec_max_f32(x, n);
    const float sum = td_vec_exp_sum_f32(x, *top, p, n), factor = 1 / sum;
    for (int64_t j = 0; j < n; j++) {
        p[j] *= factor;
    }
    return log((double)sum);
}

/* The loss of a row with labels, and its gradient in place of p. */
TD_CLONES static double dense_floats(const float *restrict x, const float *restrict labels, int64_t n,
                                     double log_sum, float top, float *restrict p)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        const float label = labels[j];
        sum += label == 0 ? 0 : (double)label * (log_sum - (double)(x[j] - top));
        p[j] -= label;
    }
    return sum;
}

/* ------------------------------------------------------------------ SoftmaxCrossEntropyWithLogits */

static enum td_code infer_dense(struct td_infer *c, struct td_err *err)
{
    struct td_shape both;
    TD_TRY(td_shape_broadcast(&c->in[0], &c->in[1], &both, err));
    TD_FAIL_IF(both.rank >= 0 && both.rank != 2, err, INVALID_ARGUMENT,
               "%s: logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional; have "
               "%s and %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    c->out[1] = both.rank == 2 ? both : td_shape_of_rank(2);
    c->out[0] = td_shape_vector(c->out[1].dim[0]);
    return TD_OK;
}

/* Steps of a tensor broadcast to [B, C]: rank 0 to 2, dims of size 1 stand still. */
static void steps(const struct td_shape *s, int64_t *row, int64_t *col)
{
    int64_t rows = s->rank > 1 ? s->dim[0] : 1, cols = s->rank > 0 ? s->dim[s->rank - 1] : 1;
    *row = rows > 1 ? cols : 0;
    *col = cols > 1;
}

static enum td_code dense_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *loss, *grad;
    TD_TRY(td_out(c, 0, NULL, &loss, err));
    TD_TRY(td_out(c, 1, NULL, &grad, err));
    const struct td_tensor *x = c->in[0], *labels = c->in[1];
    int64_t rows = grad->shape.dim[0], n = grad->shape.dim[1], x_row, x_col, l_row, l_col;
    steps(&x->shape, &x_row, &x_col);
    steps(&labels->shape, &l_row, &l_col);
    const bool floats = x->dtype == TD_FLOAT && x_col == 1 && l_col == 1;
    void *p;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(double) + 1, &p, err));
    struct row r = {.p = p};
    for (int64_t i = 0; i < rows; i++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        if (floats) {
            float *p_row = TD_DATA(grad, float) + i * n, top;
            const float *x_at = TD_DATA(x, const float) + i * x_row;
            const double log_sum = softmax_floats(x_at, n, p_row, &top);
            TD_DATA(loss, float)
            [i] = (float)dense_floats(x_at, TD_DATA(labels, const float) + i * l_row, n, log_sum, top, p_row);
            continue;
        }
        softmax_row(x, i * x_row, x_col, n, &r);
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double label = get(labels, i * l_row + j * l_col);
            double logit = get(x, i * x_row + j * x_col) - r.top;
            sum += label == 0 ? 0 : label * (r.log_sum - logit);
            put(grad, i * n + j, r.p[j] - label);
        }
        put(loss, i, sum);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SparseSoftmaxCrossEntropyWithLogits */

static enum td_code infer_sparse(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank >= 0 && c->in[0].rank != 2, err, INVALID_ARGUMENT,
               "%s: logits must be 2-D, but got shape %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    TD_FAIL_IF(c->in[1].rank >= 0 && c->in[1].rank != 1, err, INVALID_ARGUMENT,
               "%s: labels must be 1-D, but got shape %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]));
    struct td_shape rows = td_shape_vector(c->in[0].rank == 2 ? c->in[0].dim[0] : -1);
    TD_FAIL_IF(
        !td_shape_compatible(&rows, &c->in[1]), err, INVALID_ARGUMENT,
        "%s: logits and labels must have the same first dimension, got logits shape %s and labels shape %s",
        TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    TD_FAIL_IF(c->in[0].rank == 2 && c->in[0].dim[1] == 0 && c->in[0].dim[0] > 0, err, INVALID_ARGUMENT,
               "%s: Must have at least one class, but got logits shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    TD_TRY(td_shape_merge(&rows, &c->in[1], &c->out[0], err));
    c->out[1] = td_shape_matrix(c->out[0].dim[0], c->in[0].rank == 2 ? c->in[0].dim[1] : -1);
    return TD_OK;
}

static enum td_code sparse_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *loss, *grad;
    TD_TRY(td_out(c, 0, NULL, &loss, err));
    TD_TRY(td_out(c, 1, NULL, &grad, err));
    const struct td_tensor *x = c->in[0], *labels = c->in[1];
    int64_t rows = grad->shape.dim[0], n = grad->shape.dim[1];
    for (int64_t i = 0; i < rows; i++) {
        int64_t label = td_tensor_int(labels, i);
        TD_FAIL_IF(label < 0 || label >= n, err, INVALID_ARGUMENT,
                   "%s: Received a label value of %lld which is outside the valid range of [0, %lld). Label "
                   "index: %lld",
                   TD_NODE_STR(c->node), (long long)label, (long long)n, (long long)i);
    }
    void *p;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(double) + 1, &p, err));
    struct row r = {.p = p};
    for (int64_t i = 0; i < rows; i++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        const int64_t label = td_tensor_int(labels, i);
        if (x->dtype == TD_FLOAT) {
            float *p_row = TD_DATA(grad, float) + i * n, top;
            const float *x_at = TD_DATA(x, const float) + i * n;
            const double log_sum = softmax_floats(x_at, n, p_row, &top);
            TD_DATA(loss, float)[i] = (float)(log_sum - (double)(x_at[label] - top));
            p_row[label] -= 1;
            continue;
        }
        softmax_row(x, i * n, 1, n, &r);
        put(loss, i, r.log_sum - (get(x, i * n + label) - r.top));
        for (int64_t j = 0; j < n; j++) {
            put(grad, i * n + j, r.p[j] - (j == label));
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ L2Loss */

TD_CLONES static double squares(const float *x, int64_t n)
{
    enum { WIDE = 16, BLOCK = 1024 };
    double sum = 0;
    for (int64_t from = 0; from < n; from += BLOCK) {
        const int64_t to = from + BLOCK < n ? from + BLOCK : n;
        float part[WIDE] = {0};
        int64_t i = from;
        for (; i + WIDE <= to; i += WIDE) {
            for (int l = 0; l < WIDE; l++) {
                part[l] += x[i + l] * x[i + l];
            }
        }
        for (; i < to; i++) {
            part[0] += x[i] * x[i];
        }
        for (int l = 0; l < WIDE; l++) {
            sum += part[l];
        }
    }
    return sum;
}

static enum td_code l2_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    double sum = 0;
    int64_t n = td_tensor_count(c->in[0]);
    if (y->dtype == TD_FLOAT) {
        put(y, 0, squares(c->in[0]->data, n) / 2);
        return TD_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        double v = get(c->in[0], i);
        sum += v * v;
    }
    put(y, 0, sum / 2);
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients */

/* dloss [B] times m [B,C]. */
static struct td_value by_rows(struct td_emitter *e, struct td_value dloss, struct td_value m)
{
    return td_f_mul(e, td_f_expand(e, dloss, -1), m);
}

/* By the logits: dloss * backprop, and where a gradient arrives at backprop itself (a second order), that of
 * softmax, ddx: (ddx - sum(ddx * p)) * p. By the labels -dloss * log p; TensorFlow leaves backprop's part
 * out. */
static void cross_entropy_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value logits = td_grad_in(g, 0), dloss = td_grad_at(g, 0);
    struct td_value dx = by_rows(e, dloss, td_grad_out(g, 1));
    if (td_grad_arrived(g, 1) && td_grad_wants(g, 0)) {
        const struct td_value p = td_f_1(e, "Softmax", logits), ddx = td_grad_at(g, 1);
        const struct td_value mean = td_f_sum(e, td_f_mul(e, ddx, p), td_f_int(e, -1), true);
        dx = td_f_add(e, dx, td_f_mul(e, td_f_sub(e, ddx, mean), p));
    }
    td_grad_give(g, 0, td_f_sum_to(e, dx, logits));
    if (td_grad_wants(g, 1)) {
        const struct td_value cost = td_f_neg(e, td_f_1(e, "LogSoftmax", logits));
        td_grad_give(g, 1, td_f_sum_to(e, by_rows(e, dloss, cost), td_grad_in(g, 1)));
    }
}

static void l2_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_mul(g->e, td_grad_in(g, 0), td_grad_at(g, 0)));
}

/* ------------------------------------------------------------------ the table */

const struct td_op td_ops_loss[] = {
    {.name = "SoftmaxCrossEntropyWithLogits",
     .sig = "(features:T, labels:T) -> (loss:T, backprop:T) {T:type}",
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = infer_dense,
     .kernels = TD_KERNEL("loss.cpu", dense_run, {"T", TD_SET_FLOATS}),
     .grad = cross_entropy_grad},
    {.name = "SparseSoftmaxCrossEntropyWithLogits",
     .sig = "(features:T, labels:Tlabels) -> (loss:T, backprop:T) {T:type; Tlabels:type=int64}",
     .host_in = 1 << 1, /* where a device's kernel can check them */
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = infer_sparse,
     .kernels = TD_KERNEL("loss.cpu", sparse_run, {"T", TD_SET_FLOATS}, {"Tlabels", TD_SET_INDEX}),
     .grad = cross_entropy_grad},
    {.name = "L2Loss",
     .sig = "(t:T) -> (output:T) {T:type}",
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("loss.cpu", l2_run, {"T", TD_SET_FLOATS}),
     .grad = l2_grad},
    {.name = NULL},
};
