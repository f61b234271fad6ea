/* kernels/math/random_stateless.c - random ops without a generator of their own: Stateless* make one from
 * their inputs.
 *
 *   Stateless*(shape, seed [2])                        seeds scrambled into key and counter
 *   Stateless*V2(shape, key [1], counter [2], alg)     key and counter as they are
 *
 * Algorithms: 1 Philox, 3 "choose" (Philox). 2, ThreeFry, is refused as TensorFlow's CPU kernels refuse it.
 * The ops on a generator's state in a variable are in random_variable.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"
#include "kernels/math/random_grad.h"

#include "kernels/math/random_fill.h"

/* ------------------------------------------------------------------ inputs */

static enum td_code seeds_infer(const struct td_infer *c, int i, struct td_err *err)
{
    const struct td_shape *s = &c->in[i];
    TD_FAIL_IF(s->rank >= 0 && (s->rank != 1 || (s->dim[0] >= 0 && s->dim[0] != 2)), err, INVALID_ARGUMENT,
               "%s: seed must have shape [2], not %s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    return TD_OK;
}

/* Inputs 1, 2, 3 of a V2 op: key, counter, algorithm. */
static enum td_code key_infer(const struct td_infer *c, struct td_err *err)
{
    const struct td_shape *key = &c->in[1], *counter = &c->in[2], *alg = &c->in[3];
    TD_FAIL_IF(key->rank >= 0 && (key->rank != 1 || (key->dim[0] >= 0 && key->dim[0] != 1)), err,
               INVALID_ARGUMENT,
               "%s: key must have shape [1], not %s. (Note that batched keys are not supported yet.)",
               TD_NODE_STR(c->node), TD_SHAPE_STR(key));
    TD_FAIL_IF(
        counter->rank >= 0 && (counter->rank != 1 || counter->dim[0] == 0), err, INVALID_ARGUMENT,
        "%s: counter must be a vector with length at least 1; got shape: %s. (Note that batched counters are "
        "not supported yet.)",
        TD_NODE_STR(c->node), TD_SHAPE_STR(counter));
    TD_FAIL_IF(alg->rank > 0, err, INVALID_ARGUMENT, "%s: algorithm must be of shape [], not %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(alg));
    return TD_OK;
}

/* ------------------------------------------------------------------ shapes */

static enum td_code v1_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(seeds_infer(c, 1, err));
    return td_random_fill_infer(c, 0, -1, err);
}

static enum td_code v2_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(key_infer(c, err));
    return td_random_fill_infer(c, 0, -1, err);
}

static enum td_code bounds_infer(const struct td_infer *c, int i, struct td_err *err)
{
    static const char *const names[] = {"minval", "maxval"};
    for (int k = 0; k < 2; k++) {
        TD_FAIL_IF(c->in[i + k].rank > 0, err, INVALID_ARGUMENT, "%s: %s must be 0-D, got shape %s",
                   TD_NODE_STR(c->node), names[k], TD_SHAPE_STR(&c->in[i + k]));
    }
    return TD_OK;
}

static enum td_code int_v1_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(bounds_infer(c, 2, err));
    return v1_infer(c, err);
}

static enum td_code int_v2_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(bounds_infer(c, 4, err));
    return v2_infer(c, err);
}

/* The parameter's shape must be what the output's ends with. */
static enum td_code param_infer(struct td_infer *c, int i, struct td_err *err)
{
    const struct td_shape *p = &c->in[i], *out = &c->out[0];
    if (p->rank < 0 || out->rank < 0) {
        return TD_OK;
    }
    bool ends = p->rank <= out->rank;
    for (int k = 0; ends && k < p->rank; k++) {
        int64_t a = p->dim[k], b = out->dim[out->rank - p->rank + k];
        ends = a < 0 || b < 0 || a == b;
    }
    TD_FAIL_IF(!ends, err, INVALID_ARGUMENT,
               "%s: Shape passed in must end with broadcasted shape: %s does not with %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(out), TD_SHAPE_STR(p));
    return TD_OK;
}

static enum td_code gamma_v2_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(v1_infer(c, err));
    return param_infer(c, 2, err);
}

static enum td_code gamma_v3_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(v2_infer(c, err));
    return param_infer(c, 4, err);
}

static enum td_code classes_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    int64_t n;
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 0, err));
    TD_TRY(seeds_infer(c, 2, err));
    TD_TRY(td_infer_int_value(c, 1, &known, &n, err));
    TD_FAIL_IF(known && n < 0, err, INVALID_ARGUMENT, "%s: num_samples should be nonnegative, got %lld",
               TD_NODE_STR(c->node), (long long)n);
    TD_FAIL_IF(c->in[0].rank == 2 && c->in[0].dim[1] == 0, err, INVALID_ARGUMENT,
               "%s: num_classes should be positive, got 0", TD_NODE_STR(c->node));
    c->out[0] = td_shape_matrix(c->in[0].rank == 2 ? c->in[0].dim[0] : -1, known ? n : -1);
    return TD_OK;
}

static enum td_code shuffle_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(key_infer(c, err));
    c->out[0] = c->in[0];
    return TD_OK;
}

static enum td_code key_counter_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(seeds_infer(c, 0, err));
    c->out[0] = td_shape_vector(1);
    c->out[1] = td_shape_vector(2);
    if (c->n_out > 2) {
        c->out[2] = td_shape_scalar();
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ kernels */

static enum td_code fill_v1(struct td_call *c, enum td_random_kind kind, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    return td_random_fill(c, kind, td_random_from_seeds(c, 1), out, err);
}

static enum td_code fill_v2(struct td_call *c, enum td_random_kind kind, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    if (td_tensor_count(out) == 0) {
        return td_random_judge_counter(c, err);
    }
    TD_TRY(td_random_from_key(c, &g, err));
    return td_random_fill(c, kind, g, out, err);
}

static enum td_code uniform_run(struct td_call *c, struct td_err *err)
{
    return fill_v1(c, TD_RANDOM_UNIFORM, err);
}

static enum td_code normal_run(struct td_call *c, struct td_err *err)
{
    return fill_v1(c, TD_RANDOM_NORMAL, err);
}

static enum td_code truncated_run(struct td_call *c, struct td_err *err)
{
    return fill_v1(c, TD_RANDOM_TRUNCATED_NORMAL, err);
}

static enum td_code uniform_v2_run(struct td_call *c, struct td_err *err)
{
    return fill_v2(c, TD_RANDOM_UNIFORM, err);
}

static enum td_code normal_v2_run(struct td_call *c, struct td_err *err)
{
    return fill_v2(c, TD_RANDOM_NORMAL, err);
}

static enum td_code truncated_v2_run(struct td_call *c, struct td_err *err)
{
    return fill_v2(c, TD_RANDOM_TRUNCATED_NORMAL, err);
}

static enum td_code uniform_int_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_random_fill_bounds(c, c->in[2], c->in[3], out, err));
    return td_random_fill_range(c, td_random_from_seeds(c, 1), c->in[2], c->in[3], out, err);
}

static enum td_code uniform_int_v2_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_random_fill_bounds(c, c->in[4], c->in[5], out, err));
    if (td_tensor_count(out) == 0) {
        return td_random_judge_counter(c, err);
    }
    TD_TRY(td_random_from_key(c, &g, err));
    return td_random_fill_range(c, g, c->in[4], c->in[5], out, err);
}

static enum td_code full_int_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    return td_random_fill_ints(c, td_random_from_seeds(c, 1), 0, 0, out, err);
}

static enum td_code full_int_v2_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    if (td_tensor_count(out) == 0) {
        return td_random_judge_counter(c, err);
    }
    TD_TRY(td_random_from_key(c, &g, err));
    return td_random_fill_ints(c, g, 0, 0, out, err);
}

static enum td_code gamma_v2_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    return td_random_fill_gamma(c, td_random_from_seeds(c, 1), c->in[2], out, err);
}

static enum td_code gamma_v3_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    if (td_tensor_count(out) == 0) {
        return td_random_judge_counter(c, err);
    }
    TD_TRY(td_random_from_key(c, &g, err));
    return td_random_fill_gamma(c, g, c->in[4], out, err);
}

static enum td_code poisson_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    return td_random_fill_poisson(c, td_random_from_seeds(c, 1), c->in[2], out, err);
}

static enum td_code classes_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    return td_random_fill_classes(c, td_random_from_seeds(c, 2), c->in[0], out, err);
}

static enum td_code shuffle_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_random_from_key(c, &g, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    return td_random_fill_shuffled(c, g, c->in[0], out, err);
}

static enum td_code get_alg_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_DATA(out, int32_t)[0] = 1;
    return TD_OK;
}

static enum td_code key_counter_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *key, *counter, *alg;
    struct td_philox g = td_random_from_seeds(c, 0);
    TD_TRY(td_out(c, 0, NULL, &key, err));
    TD_TRY(td_out(c, 1, NULL, &counter, err));
    TD_DATA(key, uint64_t)[0] = g.key[0] | (uint64_t)g.key[1] << 32;
    TD_DATA(counter, uint64_t)[0] = td_philox_lo(&g);
    TD_DATA(counter, uint64_t)[1] = td_philox_hi(&g);
    if (c->n_out > 2) {
        TD_TRY(td_out(c, 2, NULL, &alg, err));
        TD_DATA(alg, int32_t)[0] = 1;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define INT_SET (TD_SET_INDEX | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64))
#define COUNT_SET (TD_BIT(TD_HALF) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_INDEX)
#define ROW(opname, gradient, signature, hosts, shapes, fn, ...)                                             \
    {                                                                                                        \
        .name = opname, .sig = signature, .host_in = hosts, .infer = shapes, .grad = gradient,               \
        .kernels = TD_KERNEL("random_stateless.cpu", fn, __VA_ARGS__)                                        \
    }
/* Seeds may lie where the numbers do: the generator is made of them there. */
#define SEEDED(opname, fn)                                                                                   \
    {                                                                                                        \
        .name = opname, .sig = FLOAT_SIG, .host_in = 1, .unjudged = 2, .infer = v1_infer,                    \
        .grad = td_not_differentiable,                                                                       \
        .kernels = TD_KERNEL("random_stateless.cpu", fn, {"dtype", TD_SET_FLOATS})                           \
    }
#define FLOAT_SIG "(shape:T, seed:Tseed) -> (output:dtype) {dtype:type=float; T:type=int32; Tseed:type=int64}"
#define FLOAT_V2_SIG                                                                                         \
    "(shape:Tshape, key:uint64, counter:uint64, alg:int32) -> (output:dtype) {dtype:type=float; "            \
    "Tshape:type=int32}"

const struct td_op td_ops_random_stateless[] = {
    SEEDED("StatelessRandomUniform", uniform_run),
    SEEDED("StatelessRandomNormal", normal_run),
    SEEDED("StatelessTruncatedNormal", truncated_run),
    ROW("StatelessRandomUniformV2", td_not_differentiable, FLOAT_V2_SIG, 15, v2_infer, uniform_v2_run,
        {"dtype", TD_SET_FLOATS}),
    ROW("StatelessRandomNormalV2", td_not_differentiable, FLOAT_V2_SIG, 15, v2_infer, normal_v2_run,
        {"dtype", TD_SET_FLOATS}),
    ROW("StatelessTruncatedNormalV2", td_not_differentiable, FLOAT_V2_SIG, 15, v2_infer, truncated_v2_run,
        {"dtype", TD_SET_FLOATS}),
    ROW("StatelessRandomUniformInt", td_not_differentiable,
        "(shape:T, seed:Tseed, minval:dtype, maxval:dtype) -> (output:dtype) {dtype:type; T:type; "
        "Tseed:type=int64}",
        15, int_v1_infer, uniform_int_run, {"dtype", TD_SET_INDEX}),
    ROW("StatelessRandomUniformIntV2", td_not_differentiable,
        "(shape:Tshape, key:uint64, counter:uint64, alg:int32, minval:dtype, maxval:dtype) -> (output:dtype) "
        "{dtype:type; Tshape:type=int32}",
        63, int_v2_infer, uniform_int_v2_run, {"dtype", TD_SET_INDEX}),
    ROW("StatelessRandomUniformFullInt", td_not_differentiable,
        "(shape:T, seed:Tseed) -> (output:dtype) {dtype:type=uint64; T:type=int32; Tseed:type=int64}", 3,
        v1_infer, full_int_run, {"dtype", INT_SET}),
    ROW("StatelessRandomUniformFullIntV2", td_not_differentiable,
        "(shape:Tshape, key:uint64, counter:uint64, alg:int32) -> (output:dtype) {dtype:type=uint64; "
        "Tshape:type=int32}",
        15, v2_infer, full_int_v2_run, {"dtype", INT_SET}),
    ROW("StatelessRandomGammaV2", td_random_gamma_grad,
        "(shape:T, seed:Tseed, alpha:dtype) -> (output:dtype) {dtype:type; T:type; Tseed:type=int64}", 3,
        gamma_v2_infer, gamma_v2_run, {"dtype", TD_SET_FLOATS}),
    ROW("StatelessRandomGammaV3", td_random_gamma_grad,
        "(shape:shape_dtype, key:uint64, counter:uint64, alg:int32, alpha:dtype) -> (output:dtype) "
        "{dtype:type; "
        "shape_dtype:type=int32}",
        15, gamma_v3_infer, gamma_v3_run, {"dtype", TD_SET_FLOATS}),
    ROW("StatelessRandomPoisson", td_not_differentiable,
        "(shape:T, seed:Tseed, lam:Rtype) -> (output:dtype) {Rtype:type; dtype:type; T:type; "
        "Tseed:type=int64}",
        3, gamma_v2_infer, poisson_run, {"Rtype", COUNT_SET}, {"dtype", COUNT_SET}),
    ROW("StatelessMultinomial", td_not_differentiable,
        "(logits:T, num_samples:int32, seed:Tseed) -> (output:output_dtype) {T:type; Tseed:type=int64; "
        "output_dtype:type=int64}",
        6, classes_infer, classes_run, {"T", TD_SET_FLOATS}, {"output_dtype", TD_SET_INDEX}),
    ROW("StatelessShuffle", NULL, "(value:T, key:uint64, counter:uint64, alg:int32) -> (output:T) {T:type}",
        14, shuffle_infer, shuffle_run),
    {.name = "StatelessRandomGetAlg",
     .sig = "() -> (alg:int32) {}",
     .flags = TD_OP_STATEFUL,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("random_stateless.cpu", get_alg_run)},
    ROW("StatelessRandomGetKeyCounter", NULL,
        "(seed:Tseed) -> (key:uint64, counter:uint64) {Tseed:type=int64}", 1, key_counter_infer,
        key_counter_run),
    ROW("StatelessRandomGetKeyCounterAlg", NULL,
        "(seed:Tseed) -> (key:uint64, counter:uint64, alg:int32) {Tseed:type=int64}", 1, key_counter_infer,
        key_counter_run),
    {.name = NULL},
};
