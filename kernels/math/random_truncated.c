/* kernels/math/random_truncated.c - normal distributions between bounds, each with a mean, a deviation and
 * bounds of its own.
 *
 *   ParameterizedTruncatedNormal            parameters one for all, or one an index of the first axis;
 *                                           keeps a generator between calls
 *   StatelessParameterizedTruncatedNormal   parameters broadcast to the last axes; seeds [2]
 *
 * Numbers are rejected until one lies within (random_truncated.inc), one distribution after the other from
 * one generator: TensorFlow's answers where one thread computes them, on which else its own hang. half is
 * drawn in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/base/work.h"
#include "core/graph/graph.h"
#include "kernels/cpu/upcast.h"
#include "kernels/math/random_fill.h"
#include "kernels/math/random_grad.h"
#include "kernels/ops.h"

enum { MEAN, DEVIATION, LEAST, MOST, PARAMETERS };
enum { MOST_TRIES = 1000, ROW = 100 };

/* Where the numbers of one distribution go: `left` more, each `step` elements after the last. */
struct row {
    const struct td_node *node;
    struct td_tensor *out;
    int64_t at, step, left;
};

static void put(struct row *r, double v)
{
    td_random_fill_store(r->out, r->at, v);
    r->at += r->step;
    r->left--;
}

static enum td_code rejected(const struct row *r, const char *how, struct td_err *err)
{
    return td_fail(err, TD_INTERNAL, "%s: TruncatedNormal %s rejection sampler failed to accept a sample.",
                   TD_NODE_STR(r->node), how);
}

#define F float
#define OF(name) name##_f32
#define FN(name) name##f
#define GROUP 4
#define GROUP_OF(kind, g, out) td_random_group_f32(kind, 23, g, out)
#include "kernels/math/random_truncated.inc"
#undef F
#undef OF
#undef FN
#undef GROUP
#undef GROUP_OF
#define F double
#define OF(name) name##_f64
#define FN(name) name
#define GROUP 2
#define GROUP_OF(kind, g, out) td_random_group_f64(kind, g, out)
#include "kernels/math/random_truncated.inc"

/* Number i, the parameters' of this distribution, and so on. */
static enum td_code draw_row(struct td_call *c, struct td_philox *g, const double p[PARAMETERS],
                             struct row *r, struct td_err *err)
{
    if (td_stopped(c)) {
        return td_stop_error(c, err);
    }
    return r->out->dtype == TD_DOUBLE ? draw_f64(g, p, r, err) : draw_f32(g, p, r, err);
}

/* ------------------------------------------------------------------ by rows */

static enum td_code rows_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_random_fill_infer(c, 0, -1, err));
    const struct td_shape *out = &c->out[0];
    TD_FAIL_IF(out->rank == 0, err, INVALID_ARGUMENT, "%s: Shape tensor must not be empty",
               TD_NODE_STR(c->node));
    for (int i = 1; i <= PARAMETERS; i++) {
        const struct td_shape *p = &c->in[i];
        const int64_t n = p->rank == 1 ? p->dim[0] : 1, rows = out->rank < 0 ? -1 : out->dim[0];
        TD_FAIL_IF(p->rank > 1 || (n >= 0 && n != 1 && rows >= 0 && n != rows), err, INVALID_ARGUMENT,
                   "%s: input %d should be a scalar, or a vector of length 1 or shape[0], got shape: %s",
                   TD_NODE_STR(c->node), i, TD_SHAPE_STR(p));
    }
    return TD_OK;
}

static bool one_for_all(const struct td_call *c)
{
    return td_tensor_count(c->in[1]) == 1 && td_tensor_count(c->in[2]) == 1 && c->in[3]->shape.rank == 0 &&
           c->in[4]->shape.rank == 0;
}

/* How many rows have parameters of their own. */
static int64_t rows_of_parameters(const struct td_call *c)
{
    int64_t most = 1;
    for (int i = 1; i <= PARAMETERS; i++) {
        const int64_t n = td_tensor_count(c->in[i]);
        most = n > most ? n : most;
    }
    return most;
}

/* Rows without numbers are judged, too, as far as their parameters differ. */
static enum td_code rows_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    const bool alike = one_for_all(c);
    const int64_t n = td_tensor_count(out), first = out->shape.dim[0], judged = rows_of_parameters(c);
    const int64_t each = alike ? ROW : n > 0 ? n / first : 0, rows = alike ? (n + ROW - 1) / ROW : first;
    TD_TRY(td_random_reserve(c, (uint64_t)rows * 2 * MOST_TRIES * ((uint64_t)each + 3) / 4, &g, err));
    for (int64_t b = 0; b < rows && (n > 0 || b < judged); b++) {
        double p[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++) {
            p[i] = td_upcast_at(c->in[1 + i], td_tensor_count(c->in[1 + i]) == 1 ? 0 : b);
        }
        struct row r = {c->node, out, b * each, 1, n - b * each < each ? n - b * each : each};
        TD_TRY(draw_row(c, &g, p, &r, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ by the last axes */

static enum td_code last_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *seed = &c->in[1];
    struct td_shape all = c->in[2];
    TD_FAIL_IF(seed->rank >= 0 && (seed->rank != 1 || (seed->dim[0] >= 0 && seed->dim[0] != 2)), err,
               INVALID_ARGUMENT, "%s: seed must have shape [2], not %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(seed));
    for (int i = 3; i < 2 + PARAMETERS; i++) {
        TD_TRY(td_shape_broadcast(&all, &c->in[i], &all, err));
    }
    return td_random_fill_infer_over(c, 0, &all, err);
}

static enum td_code last_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_shape all = c->in[2]->shape;
    struct td_philox g = td_random_from_seeds(c, 1);
    TD_TRY(td_out(c, 0, NULL, &out, err));
    for (int i = 3; i < 2 + PARAMETERS; i++) {
        TD_TRY(td_shape_broadcast(&all, &c->in[i]->shape, &all, err));
    }
    const int64_t n = td_tensor_count(out), rows = n > 0 ? td_shape_count(&all) : 0;
    for (int64_t b = 0; b < rows; b++) {
        double p[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++) {
            p[i] = td_upcast_at(c->in[2 + i], td_shape_spread_index(&c->in[2 + i]->shape, &all, b));
        }
        struct row r = {c->node, out, b, rows, n / rows};
        TD_TRY(draw_row(c, &g, p, &r, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define SET_DRAWN (TD_BIT(TD_HALF) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))

const struct td_op td_ops_random_truncated[] = {
    {.name = "ParameterizedTruncatedNormal",
     .sig =
         "(shape:T, means:dtype, stdevs:dtype, minvals:dtype, maxvals:dtype) -> (output:dtype) {seed:int=0; "
         "seed2:int=0; dtype:type; T:type}",
     .flags = TD_OP_STATEFUL,
     .host_in = 1,
     .infer = rows_infer,
     .kernels = TD_KERNEL("random_truncated.cpu", rows_run, {"dtype", SET_DRAWN}, {"T", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = "StatelessParameterizedTruncatedNormal",
     .sig =
         "(shape:S, seed:Tseed, means:dtype, stddevs:dtype, minvals:dtype, maxvals:dtype) -> (output:dtype) "
         "{S:type; Tseed:type=int64; dtype:type}",
     .host_in = 3,
     .infer = last_infer,
     .kernels = TD_KERNEL("random_truncated.cpu", last_run, {"dtype", SET_DRAWN}, {"S", TD_SET_INDEX}),
     .grad = td_random_truncated_grad},
    {.name = NULL},
};
