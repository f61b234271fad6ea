/* kernels/nn/layer_norm.c - _LayerNorm: the op's row, and rows normalised on the CPU.
 *
 * A row is read from memory once: its mean, its variance about that and its result are made while it lies
 * in the first cache. Rows do not depend on each other, and sums are added up in an order that the length
 * alone decides: a row is computed by the same operations whichever rows are beside it.
 *
 * Only the compiler makes nodes of it (core/compile/pass_norm.c), behind gradients and all other rules.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/layer_norm.h"

#include <math.h>

#include "core/base/work.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/nn/layer_norm_match.h"
#include "kernels/ops.h"

enum { WIDE = 32, /* of a sum */ OPS = 6 /* of an element, in additions */ };

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    struct td_layer_norm f = {0};
    int axis;
    const char *const refusal = td_layer_norm_refuses(c->node);
    TD_FAIL_IF(refusal != NULL, err, INVALID_ARGUMENT, "%s: %s", TD_NODE_STR(c->node), refusal);
    (void)td_layer_norm_read(c->node, &f);
    TD_FAIL_IF(c->in[0].rank >= 0 && !td_shape_axis(c->in[0].rank, f.axis, &axis), err, INVALID_ARGUMENT,
               "%s: Invalid reduction dimension (%lld for input with %d dimension(s)", TD_NODE_STR(c->node),
               (long long)f.axis, c->in[0].rank);
    struct td_shape ones = td_shape_of_rank(f.rank > 0 && f.rank <= TD_MAX_RANK ? (int)f.rank : 0);
    for (int i = 0; i < ones.rank; i++) {
        ones.dim[i] = 1;
    }
    enum td_code rc = td_shape_broadcast(&c->in[0], &ones, &c->out[0], err);
    for (int i = 1; i < c->n_in && rc == TD_OK; i++) {
        const struct td_shape before = c->out[0];
        rc = td_shape_broadcast(&before, &c->in[i], &c->out[0], err);
    }
    return rc ? td_err_wrap(err, "%s", TD_NODE_STR(c->node)) : TD_OK;
}

/* ------------------------------------------------------------------ rows */

struct rows {
    const float *x, *scale, *offset; /* NULL: none */
    float *y, epsilon;
    struct td_layer_norm_sizes size;
    int64_t n;
    bool centred;
};

TD_CLONES static float total(const float *x, int64_t n)
{
    float part[WIDE] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        for (int k = 0; k < WIDE; k++) {
            part[k] += x[i + k];
        }
    }
    for (int k = 0; i < n; i++, k++) {
        part[k] += x[i];
    }
    for (int k = 0; k < WIDE; k++) {
        sum += part[k];
    }
    return sum;
}

/* The sum of (x - mean)^2. */
TD_CLONES static float squares(const float *x, float mean, int64_t n)
{
    float part[WIDE] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        for (int k = 0; k < WIDE; k++) {
            const float d = x[i + k] - mean;
            part[k] += d * d;
        }
    }
    for (int k = 0; i < n; i++, k++) {
        part[k] += (x[i] - mean) * (x[i] - mean);
    }
    for (int k = 0; k < WIDE; k++) {
        sum += part[k];
    }
    return sum;
}

TD_CLONES static void write_row(const struct rows *r, const float *restrict x, float mean, float by,
                                float *restrict y)
{
    const float *restrict scale = r->scale, *restrict offset = r->offset;
    if (scale != NULL && offset != NULL) {
        for (int64_t i = 0; i < r->n; i++) {
            y[i] = (x[i] - mean) * by * scale[i] + offset[i];
        }
        return;
    }
    for (int64_t i = 0; i < r->n; i++) {
        y[i] = (x[i] - mean) * by;
    }
    for (int64_t i = 0; scale != NULL && i < r->n; i++) {
        y[i] *= scale[i];
    }
    for (int64_t i = 0; offset != NULL && i < r->n; i++) {
        y[i] += offset[i];
    }
}

static void some_rows(void *arg, int64_t from, int64_t to, int who)
{
    const struct rows *r = arg;
    (void)who;
    for (int64_t i = from; i < to && !td_work_spent(OPS * r->n); i++) {
        const float *x = r->x + i * r->n, n = (float)r->n;
        const float mean = r->centred ? total(x, r->n) / n : 0;
        const float by = 1 / sqrtf(squares(x, mean, r->n) / n + r->epsilon);
        write_row(r, x, mean, by, r->y + i * r->n);
    }
}

/* Rows that do not lie along the last axis, or of one number that vectors make several of. */
static void some_strided_rows(void *arg, int64_t from, int64_t to, int who)
{
    const struct rows *r = arg;
    const struct td_layer_norm_sizes *s = &r->size;
    (void)who;
    for (int64_t i = from; i < to && !td_work_spent(2 * OPS * s->n * s->width); i++) {
        const int64_t first = i / s->inner * s->inner * s->n + i % s->inner;
        double mean = 0, sum = 0;
        for (int64_t k = 0; r->centred && k < s->n; k++) {
            mean += (double)r->x[first + k * s->inner] / (double)s->n;
        }
        for (int64_t k = 0; k < s->n; k++) {
            const double d = (double)r->x[first + k * s->inner] - mean;
            sum += d * d / (double)s->n;
        }
        const double by = 1 / sqrt(sum + (double)r->epsilon);
        for (int64_t k = 0; k < s->n; k++) {
            const int64_t at = first + k * s->inner;
            const float v = (float)(((double)r->x[at] - mean) * by);
            for (int64_t w = at % s->last; w < s->width; w += s->last == s->width ? s->width : 1) {
                r->y[at / s->last * s->width + w] =
                    v * (r->scale != NULL ? r->scale[w] : 1) + (r->offset != NULL ? r->offset[w] : 0);
            }
        }
    }
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_layer_norm f;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (!td_layer_norm_read(c->node, &f) || td_tensor_count(y) == 0) {
        return TD_OK;
    }
    struct rows r = {.epsilon = f.epsilon, .centred = f.centred};
    TD_FAIL_IF(!td_layer_norm_sizes_of(&f, &c->in[0]->shape, td_layer_norm_vector(c->in, c->n_in), &r.size),
               err, INTERNAL, "%s: vectors that do not fit %s", c->node->op_name,
               TD_SHAPE_STR(&c->in[0]->shape));
    const struct td_layer_norm_sizes *s = &r.size;
    r.n = s->n;
    TD_TRY(td_upcast(c, c->in[0], &r.x, err));
    TD_TRY(f.scale > 0 ? td_upcast(c, c->in[f.scale], &r.scale, err) : TD_OK);
    TD_TRY(f.offset > 0 ? td_upcast(c, c->in[f.offset], &r.offset, err) : TD_OK);
    TD_TRY(td_upcast_room(c, y, &r.y, err));
    td_spread(c, s->rows, 1, (double)s->n * (2 * TD_SPREAD_PASS_NS + OPS * TD_SPREAD_OP_NS),
              td_layer_norm_is_plain(s) ? some_rows : some_strided_rows, &r);
    td_downcast(y, r.y);
    return TD_OK;
}

/* ------------------------------------------------------------------ rows of a batch */

/* Along any axis but that of a mean, and the last, which vectors go along. */
static bool batch_rows(struct td_batchable_step *s)
{
    struct td_layer_norm f;
    int axis;
    const int rank = td_batchable_rank(s, 0);
    if (!td_batchable_alone(s, 0)) {
        return false;
    }
    if (!td_layer_norm_read(s->node, &f) || !td_shape_axis(rank, f.axis, &axis) || s->in[0].axis == axis ||
        (s->n_in > 1 && s->in[0].axis == rank - 1) || td_batchable_out_shape(s, 0, 0)->rank != rank) {
        return td_batchable_no(s, "it works across the rows");
    }
    return td_batchable_as_input(s, 0, 0, s->in[0].axis);
}

/* ------------------------------------------------------------------ the row of the table */

#define FLOATS (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

static const struct td_kernel kernels[] = {{.name = "layer_norm.cpu",
                                            .types = {{"T", FLOATS}, {"Tout", FLOATS}},
                                            .refuse = td_layer_norm_refuses,
                                            .run = run},
                                           {.name = NULL}};

const struct td_op td_ops_layer_norm[] = {
    {.name = "_LayerNorm",
     .sig = "(x:T, vectors:Ts) -> (y:Tout) {T:type; Ts:list(type); Tout:type}",
     .role = TD_ROLE_NORM,
     .batchable = TD_BATCHABLE(batch_rows),
     .infer = infer,
     .group_rule = td_layer_norm_rule,
     .kernels = kernels,
     .grad_missing = "made by the compiler, after gradients"},
    {.name = NULL},
};
