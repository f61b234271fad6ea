/* kernels/nn/softmax.c - Softmax and LogSoftmax over the last axis.     x [.., C]  ->  y [.., C]
 *
 * Rows are independent; each is shifted by its maximum, so exp() cannot overflow. Float rows use the
 * vectorised exp of kernels/cpu/vecmath.h; half and bfloat16 run in float. Other axes: TensorFlow graphs
 * transpose around the op.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/work.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/formula/formula.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/upcast.h"

enum {
    EXP_OPS = 8, /* an exponential, a maximum and a sum in additions */
    ABREAST = 16,
    SHORT = 16 /* numbers of a row */
};

static enum td_code softmax_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank == 0, err, INVALID_ARGUMENT, "%s: logits must have >= 1 dimension, got []",
               TD_NODE_STR(c->node));
    c->out[0] = c->in[0];
    return TD_OK;
}

TD_CLONES static void scale(float *y, float by, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] *= by;
    }
}

TD_CLONES static void shift(const float *x, float by, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] - by;
    }
}

/* ABREAST rows of n numbers side by side in vectors: along the row there is too little for one. */
TD_CLONES static void short_rows(const float *x, float *y, int64_t n, bool logarithm)
{
    float e[SHORT][ABREAST], top[ABREAST], sum[ABREAST] = {0};
    int32_t nan[ABREAST] = {0};
    for (int k = 0; k < ABREAST; k++) {
        top[k] = -INFINITY;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < ABREAST; k++) {
            e[i][k] = x[k * n + i];
            top[k] = e[i][k] > top[k] ? e[i][k] : top[k];
            nan[k] |= e[i][k] != e[i][k];
        }
    }
    for (int k = 0; k < ABREAST; k++) {
        top[k] = nan[k] ? NAN : top[k];
    }
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < ABREAST; k++) {
            const float less = e[i][k] - top[k], power = td_fast_exp_f32(less);
            sum[k] += power;
            e[i][k] = logarithm ? less : power;
        }
    }
    for (int k = 0; k < ABREAST; k++) {
        sum[k] = logarithm ? td_fast_log_f32(sum[k]) : 1 / sum[k];
    }
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < ABREAST; k++) {
            y[k * n + i] = logarithm ? e[i][k] - sum[k] : e[i][k] * sum[k];
        }
    }
}

/* The last rows, fewer than ABREAST, beside rows of zeros. */
static void last_short_rows(const float *x, float *y, int64_t rows, int64_t n, bool logarithm)
{
    float in[ABREAST * SHORT], out[ABREAST * SHORT];
    memcpy(in, x, (size_t)(rows * n) * sizeof *x);
    memset(in + rows * n, 0, (size_t)((ABREAST - rows) * n) * sizeof *x);
    short_rows(in, out, n, logarithm);
    memcpy(y, out, (size_t)(rows * n) * sizeof *y);
}

static void all_short_rows(const float *x, float *y, int64_t rows, int64_t n, bool logarithm)
{
    for (; rows >= ABREAST && !td_work_spent(8 * ABREAST * n);
         rows -= ABREAST, x += ABREAST * n, y += ABREAST * n) {
        short_rows(x, y, n, logarithm);
    }
    if (rows > 0 && rows < ABREAST) {
        last_short_rows(x, y, rows, n, logarithm);
    }
}

static void rows_f32(const float *x, float *y, int64_t rows, int64_t n, bool logarithm)
{
    if (n <= SHORT) {
        all_short_rows(x, y, rows, n, logarithm);
        return;
    }
    for (int64_t r = 0; r < rows && !td_work_spent(8 * n); r++, x += n, y += n) {
        float top = td_vec_max_f32(x, n), sum = td_vec_exp_sum_f32(x, top, y, n);
        if (logarithm) { /* two steps: top + log(sum) would lose the sum beside a large maximum */
            shift(x, top, y, n);
            shift(y, logf(sum), y, n);
        } else {
            scale(y, 1 / sum, n);
        }
    }
}

struct floats {
    const float *x;
    float *y;
    int64_t n;
    bool logarithm;
};

static void range_f32(void *arg, int64_t from, int64_t to, int who)
{
    const struct floats *f = arg;
    (void)who;
    rows_f32(f->x + from * f->n, f->y + from * f->n, to - from, f->n, f->logarithm);
}

static void rows_f64(const double *x, double *y, int64_t rows, int64_t n, bool logarithm)
{
    for (int64_t r = 0; r < rows && !td_work_spent(16 * n); r++, x += n, y += n) {
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            top = x[i] > top || isnan(x[i]) ? x[i] : top;
        }
        for (int64_t i = 0; i < n; i++) {
            y[i] = exp(x[i] - top);
            sum += y[i];
        }
        double log_sum = log(sum);
        for (int64_t i = 0; i < n; i++) {
            y[i] = logarithm ? x[i] - top - log_sum : y[i] / sum;
        }
    }
}

static enum td_code softmax_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    int64_t n = y->shape.dim[y->shape.rank - 1], rows = td_tensor_count(y) / n;
    bool logarithm = strcmp(c->node->op_name, "LogSoftmax") == 0;
    if (y->dtype == TD_DOUBLE) {
        rows_f64(c->in[0]->data, y->data, rows, n, logarithm);
        return TD_OK;
    }
    const float *x;
    float *to;
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    TD_TRY(td_upcast_room(c, y, &to, err));
    struct floats f = {.x = x, .y = to, .n = n, .logarithm = logarithm};
    td_spread(c, rows, 1, (double)n * (2 * TD_SPREAD_PASS_NS + EXP_OPS * TD_SPREAD_OP_NS), range_f32, &f);
    td_downcast(y, to);
    return TD_OK;
}

static struct td_value row_sums(struct td_emitter *e, struct td_value x)
{
    return td_f_sum(e, x, td_f_int(e, -1), true);
}

/* dx = (dy - sum(dy * y)) * y */
static void softmax_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), y = td_grad_out(g, 0);
    td_grad_give(g, 0, td_f_mul(e, td_f_sub(e, dy, row_sums(e, td_f_mul(e, dy, y))), y));
}

/* dx = dy - sum(dy) * exp(y) */
static void log_softmax_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), softmax = td_f_1(e, "Exp", td_grad_out(g, 0));
    td_grad_give(g, 0, td_f_sub(e, dy, td_f_mul(e, row_sums(e, dy), softmax)));
}

const struct td_op td_ops_softmax[] = {
    {.name = "Softmax",
     .sig = "(logits:T) -> (softmax:T) {T:type}",
     .halves = TD_HALVES_ROUND,
     .flags = TD_OP_TOTAL,
     .vectorize = td_many_last,
     .permute = &td_permute_map1,
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .infer = softmax_infer,
     .kernels = TD_KERNEL("softmax.cpu", softmax_run, {"T", TD_SET_FLOATS}),
     .grad = softmax_grad},
    {.name = "LogSoftmax",
     .sig = "(logits:T) -> (logsoftmax:T) {T:type}",
     .halves = TD_HALVES_ROUND,
     .flags = TD_OP_TOTAL,
     .vectorize = td_many_last,
     .permute = &td_permute_map1,
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .infer = softmax_infer,
     .kernels = TD_KERNEL("log_softmax.cpu", softmax_run, {"T", TD_SET_FLOATS}),
     .grad = log_softmax_grad},
    {.name = NULL},
};
