/* kernels/math/random.c - random ops that keep a generator of their own between calls.
 *
 * The generators: kernels/math/random_generator.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"
#include "kernels/math/random_grad.h"

#include <sys/random.h>

#include "kernels/math/random_fill.h"

/* ------------------------------------------------------------------ shapes */

static enum td_code shape_infer(struct td_infer *c, struct td_err *err)
{
    return td_random_fill_infer(c, 0, -1, err);
}

static enum td_code shape_and_param_infer(struct td_infer *c, struct td_err *err)
{
    return td_random_fill_infer(c, 0, 1, err);
}

static enum td_code range_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 0, err));
    TD_TRY(td_infer_rank(c, 2, 0, err));
    return td_random_fill_infer(c, 0, -1, err);
}

static enum td_code classes_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    int64_t n;
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 0, err));
    TD_TRY(td_infer_int_value(c, 1, &known, &n, err));
    TD_FAIL_IF(known && n < 0, err, INVALID_ARGUMENT, "%s: num_samples should be nonnegative, got %lld",
               TD_NODE_STR(c->node), (long long)n);
    TD_FAIL_IF(c->in[0].rank == 2 && c->in[0].dim[1] == 0, err, INVALID_ARGUMENT,
               "%s: num_classes should be positive, got 0", TD_NODE_STR(c->node));
    c->out[0] = td_shape_matrix(c->in[0].rank == 2 ? c->in[0].dim[0] : -1, known ? n : -1);
    return TD_OK;
}

/* ------------------------------------------------------------------ kernels */

static enum td_code uniform_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn(c, td_random_reserve, TD_RANDOM_UNIFORM, err);
}

static enum td_code normal_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn(c, td_random_reserve, TD_RANDOM_NORMAL, err);
}

static enum td_code truncated_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn(c, td_random_reserve, TD_RANDOM_TRUNCATED_NORMAL, err);
}

static enum td_code uniform_int_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn_range(c, td_random_reserve, 1, err);
}

static enum td_code gamma_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_random_fill_reserve(c, td_random_reserve, &out, &g, err));
    return td_random_fill_gamma(c, g, c->in[1], out, err);
}

static enum td_code poisson_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_random_fill_reserve(c, td_random_reserve, &out, &g, err));
    return td_random_fill_poisson(c, g, c->in[1], out, err);
}

static enum td_code multinomial_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_random_reserve(c, td_random_class_steps(out->shape.dim[0], out->shape.dim[1]), &g, err));
    return td_random_fill_classes(c, g, c->in[0], out, err);
}

static enum td_code shuffle_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &out, err));
    int64_t rows = x->shape.rank > 0 ? x->shape.dim[0] : 1;
    TD_TRY(td_random_reserve(c, rows > 1 ? ((uint64_t)rows + 3) / 4 : 0, &g, err));
    return td_random_fill_shuffled(c, g, x, out, err);
}

static enum td_code non_deterministic_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    uint64_t key[3];
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_FAIL_IF(getrandom(key, sizeof key, 0) != sizeof key, err, INTERNAL,
               "%s: the system gives no random seed", TD_NODE_STR(c->node));
    return td_random_fill_ints(c, td_philox_make(key[0], key[1], key[2]), 0, 0, out, err);
}

/* ------------------------------------------------------------------ the table */

#define SHAPE_RULE                                                                                           \
    {                                                                                                        \
        "T", TD_SET_INDEX                                                                                    \
    }
#define COUNT_SET (TD_BIT(TD_HALF) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_INDEX)
#define INT_SET (TD_SET_INDEX | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64))

const struct td_op td_ops_random[] = {
    {.name = "RandomUniform",
     .sig = "(shape:T) -> (output:dtype) {seed:int=0; seed2:int=0; dtype:type; T:type}",
     .flags = TD_OP_STATEFUL | TD_OP_DRAWS,
     .host_in = 1,
     .infer = shape_infer,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("random.cpu", uniform_run, {"dtype", TD_SET_FLOATS}, SHAPE_RULE)},
    {.name = "RandomStandardNormal",
     .sig = "(shape:T) -> (output:dtype) {seed:int=0; seed2:int=0; dtype:type; T:type}",
     .flags = TD_OP_STATEFUL | TD_OP_DRAWS,
     .host_in = 1,
     .infer = shape_infer,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("random.cpu", normal_run, {"dtype", TD_SET_FLOATS}, SHAPE_RULE)},
    {.name = "TruncatedNormal",
     .sig = "(shape:T) -> (output:dtype) {seed:int=0; seed2:int=0; dtype:type; T:type}",
     .flags = TD_OP_STATEFUL | TD_OP_DRAWS,
     .host_in = 1,
     .infer = shape_infer,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("random.cpu", truncated_run, {"dtype", TD_SET_FLOATS}, SHAPE_RULE)},
    {.name = "RandomUniformInt",
     .sig =
         "(shape:T, minval:Tout, maxval:Tout) -> (output:Tout) {seed:int=0; seed2:int=0; Tout:type; T:type}",
     .flags = TD_OP_STATEFUL | TD_OP_DRAWS,
     .host_in = 7,
     .infer = range_infer,
     .kernels = TD_KERNEL("random.cpu", uniform_int_run, {"Tout", TD_SET_INDEX}, SHAPE_RULE)},
    {.name = "RandomGamma",
     .sig = "(shape:S, alpha:T) -> (output:T) {seed:int=0; seed2:int=0; S:type; T:type}",
     .flags = TD_OP_STATEFUL,
     .host_in = 1,
     .infer = shape_and_param_infer,
     .grad = td_random_gamma_grad,
     .kernels = TD_KERNEL("random.cpu", gamma_run, {"T", TD_SET_FLOATS}, {"S", TD_SET_INDEX})},
    {.name = "RandomPoissonV2",
     .sig = "(shape:S, rate:R) -> (output:dtype) {seed:int=0; seed2:int=0; S:type; R:type=double; "
            "dtype:type=int64}",
     .flags = TD_OP_STATEFUL,
     .host_in = 1,
     .infer = shape_and_param_infer,
     .kernels =
         TD_KERNEL("random.cpu", poisson_run, {"R", COUNT_SET}, {"dtype", COUNT_SET}, {"S", TD_SET_INDEX})},
    {.name = "RandomPoisson",
     .sig = "(shape:S, rate:dtype) -> (output:dtype) {seed:int=0; seed2:int=0; S:type; dtype:type}",
     .flags = TD_OP_STATEFUL,
     .host_in = 1,
     .infer = shape_and_param_infer,
     .kernels =
         TD_KERNEL("random.cpu", poisson_run, {"dtype", COUNT_SET & ~TD_SET_INDEX}, {"S", TD_SET_INDEX})},
    {.name = "Multinomial",
     .sig = "(logits:T, num_samples:int32) -> (output:output_dtype) {seed:int=0; seed2:int=0; T:type; "
            "output_dtype:type=int64}",
     .flags = TD_OP_STATEFUL | TD_OP_DRAWS,
     .host_in = 2,
     .infer = classes_infer,
     .grad = td_not_differentiable,
     .kernels =
         TD_KERNEL("random.cpu", multinomial_run, {"T", TD_SET_FLOATS}, {"output_dtype", TD_SET_INDEX})},
    {.name = "RandomShuffle",
     .sig = "(value:T) -> (output:T) {seed:int=0; seed2:int=0; T:type}",
     .flags = TD_OP_STATEFUL,
     .infer = td_infer_same,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("random.cpu", shuffle_run)},
    {.name = "NonDeterministicInts",
     .sig = "(shape:shape_dtype) -> (output:dtype) {dtype:type=int64; shape_dtype:type=int64}",
     .flags = TD_OP_STATEFUL,
     .host_in = 1,
     .infer = shape_infer,
     .kernels =
         TD_KERNEL("random.cpu", non_deterministic_run, {"dtype", INT_SET}, {"shape_dtype", TD_SET_INDEX})},
    {.name = NULL},
};
