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
    TD_FAIL_IF(td_layer_norm_refuses(c->node) != NULL, err, INVALID_ARGUMENT, "%s: %s", TD_NODE_STR(c->node),
               td_layer_norm_refuses(c->node));
    TD_FAIL_IF(c->in[0].rank == 0, err, INVALID_ARGUMENT, "%s: x must have >= 1 dimension, got []",
               TD_NODE_STR(c->node));
    c->out[0] = c->in[0];
    return TD_OK;
}

/* ------------------------------------------------------------------ rows */

struct rows {
    const float *x, *scale, *offset; /* NULL: none */
    float *y, epsilon;
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

static enum td_code check_vector(const struct td_call *c, int i, int64_t n, struct td_err *err)
{
    const int64_t has = i == 0 ? n : td_tensor_count(c->in[i]);
    TD_FAIL_IF(has != n, err, INTERNAL, "%s: input %d has %lld numbers, and a row %lld", c->node->op_name, i,
               (long long)has, (long long)n);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_layer_norm f;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (!td_layer_norm_read(c->node, &f) || td_tensor_count(y) == 0) {
        return TD_OK;
    }
    struct rows r = {
        .n = y->shape.dim[y->shape.rank - 1], .epsilon = f.epsilon, .centred = f.centred, .x = NULL};
    TD_TRY(check_vector(c, f.scale, r.n, err));
    TD_TRY(check_vector(c, f.offset, r.n, err));
    TD_TRY(td_upcast(c, c->in[0], &r.x, err));
    TD_TRY(f.scale > 0 ? td_upcast(c, c->in[f.scale], &r.scale, err) : TD_OK);
    TD_TRY(f.offset > 0 ? td_upcast(c, c->in[f.offset], &r.offset, err) : TD_OK);
    TD_TRY(td_upcast_room(c, y, &r.y, err));
    td_spread(c, td_tensor_count(y) / r.n, 1, (double)r.n * (2 * TD_SPREAD_PASS_NS + OPS * TD_SPREAD_OP_NS),
              some_rows, &r);
    td_downcast(y, r.y);
    return TD_OK;
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
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .infer = infer,
     .group_rule = td_layer_norm_rule,
     .kernels = kernels,
     .grad_missing = "made by the compiler, after gradients"},
    {.name = NULL},
};
