/* kernels/math/random_binomial.c - StatelessRandomBinomial, and what StatefulRandomBinomial draws.
 *
 *   counts, probs  broadcast to the last axes of the output, whose first axes are samples of each
 *
 * Below an expected 10: geometric numbers are summed until they exceed the count. Above: Hoermann's
 * transformed rejection. Probabilities above a half count what fails. Numbers are TensorFlow's, in double:
 * number k of all, distribution by distribution, begins 42 or 256 steps after number k - 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/random_binomial.h"

#include <math.h>

#include "core/graph/graph.h"
#include "kernels/cpu/upcast.h"
#include "kernels/math/random_gamma.h"
#include "kernels/ops.h"

enum { SMALL_STEPS = 42, LARGE_STEPS = 256, MOST_TRIES = 1 << 20 };

static double by_geometric(double count, double prob, struct td_random_uniforms *u)
{
    double sum = 0;
    int n = isnan(count) ? MOST_TRIES : 0; /* never exceeded */
    for (; n < MOST_TRIES; n++) {
        sum += ceil(log(td_random_next_uniform(u)) / log1p(-prob));
        if (sum > count) {
            break;
        }
    }
    return n;
}

/* What Stirling's formula for the logarithm of k! lacks. */
static double stirling_rest(double k)
{
    static const double first[] = {
        0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
        0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
    if (k <= 9) {
        return first[k > 0 ? (int)k : 0];
    }
    const double square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

static double by_rejection(double count, double prob, struct td_random_uniforms *uniforms)
{
    const double deviation = sqrt(count * prob * (1 - prob));
    const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * prob;
    const double c = count * prob + 0.5, v_r = 0.92 - 4.2 / b, r = prob / (1 - prob);
    const double alpha = (2.83 + 5.1 / b) * deviation, m = floor((count + 1) * prob);
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        const double u = td_random_next_uniform(uniforms) - 0.5, v = td_random_next_uniform(uniforms);
        const double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
        if (us >= 0.07 && v <= v_r) {
            return k;
        }
        if (k < 0 || k > count) {
            continue;
        }
        const double most = (m + 0.5) * log((m + 1) / (r * (count - m + 1))) +
                            (count + 1) * log((count - m + 1) / (count - k + 1)) +
                            (k + 0.5) * log(r * (count - k + 1) / (k + 1)) + stirling_rest(m) +
                            stirling_rest(count - m) - stirling_rest(k) - stirling_rest(count - k);
        if (log(v * alpha / (a / (us * us) + b)) <= most) {
            return k;
        }
    }
    return NAN; /* of counts that are no numbers */
}

/* Number k of all. 1 - prob and count * p are what the parameters' type t has of them. */
static double draw(enum td_dtype t, double count, double prob, struct td_philox g, uint64_t k)
{
    if (count <= 0 || prob <= 0) {
        return 0;
    }
    if (prob >= 1 || isnan(prob)) {
        return prob >= 1 ? count : NAN;
    }
    const double p = prob <= 0.5 ? prob : td_round_to(t, 1 - prob);
    const bool large = td_round_to(t, count * p) >= 10;
    struct td_random_uniforms u = {&g, {0, 0}, 0};
    td_philox_skip(&g, k * (large ? LARGE_STEPS : SMALL_STEPS));
    const double v = large ? by_rejection(count, p, &u) : by_geometric(count, p, &u);
    return prob <= 0.5 ? v : count - v;
}

enum td_code td_random_binomial_infer(struct td_infer *c, int shape, int i, struct td_err *err)
{
    struct td_shape all;
    TD_TRY(td_shape_broadcast(&c->in[i], &c->in[i + 1], &all, err));
    return td_random_fill_infer_over(c, shape, &all, err);
}

enum td_code td_random_binomial_fill(struct td_call *c, struct td_philox g, int i, struct td_tensor *out,
                                     struct td_err *err)
{
    struct td_shape all;
    const struct td_tensor *counts = c->in[i], *probs = c->in[i + 1];
    TD_TRY(td_shape_broadcast(&counts->shape, &probs->shape, &all, err));
    const int64_t n = td_tensor_count(out), rows = n > 0 ? td_shape_count(&all) : 0;
    for (int64_t b = 0, k = 0; b < rows; b++) {
        const double count = td_upcast_at(counts, td_shape_spread_index(&counts->shape, &all, b));
        const double prob = td_upcast_at(probs, td_shape_spread_index(&probs->shape, &all, b));
        for (int64_t s = 0; s < n / rows; s++, k++) {
            if ((k & 0xff) == 0xff && td_stopped(c)) {
                return td_stop_error(c, err);
            }
            td_random_fill_store(out, s * rows + b, draw(counts->dtype, count, prob, g, (uint64_t)k));
        }
    }
    return TD_OK;
}

static enum td_code seeded_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *seed = &c->in[1];
    TD_FAIL_IF(seed->rank >= 0 && (seed->rank != 1 || (seed->dim[0] >= 0 && seed->dim[0] != 2)), err,
               INVALID_ARGUMENT, "%s: seed must have shape [2], not %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(seed));
    return td_random_binomial_infer(c, 0, 2, err);
}

static enum td_code seeded_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    return td_random_binomial_fill(c, td_random_from_seeds(c, 1), 2, out, err);
}

#define SET_PARAMETERS (TD_BIT(TD_HALF) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))

const struct td_op td_ops_random_binomial[] = {
    {.name = "StatelessRandomBinomial",
     .sig = "(shape:S, seed:Tseed, counts:T, probs:T) -> (output:dtype) {S:type; Tseed:type=int64; "
            "T:type=double; dtype:type=int64}",
     .host_in = 15,
     .infer = seeded_infer,
     .kernels = TD_KERNEL("random_binomial.cpu", seeded_run, {"T", SET_PARAMETERS},
                          {"dtype", SET_PARAMETERS | TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
