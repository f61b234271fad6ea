/* kernels/math/random_variable.c - random ops whose generator is the value of a variable.
 *
 *   state int64 [>= 3]: counter low, counter high, key        (Philox)
 *   of StatefulStandardNormal, which has no argument for it, [>= 4]: the algorithm comes first
 *
 * A call takes the state and moves its counter on by 256 steps an element, under the variable's lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include "core/run/variable.h"
#include "kernels/math/random_binomial.h"

static enum td_code check_algorithm(const struct td_call *c, int64_t alg, struct td_err *err)
{
    TD_FAIL_IF(alg == 2, err, UNIMPLEMENTED, "%s: Non-XLA devices don't support the ThreeFry algorithm.",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(alg != 1 && alg != 3, err, INVALID_ARGUMENT,
               "%s: Unsupported algorithm id: %lld, want 1 (Philox) or 3", TD_NODE_STR(c->node),
               (long long)alg);
    return TD_OK;
}

/* tagged: its first element is the algorithm. */
static enum td_code check_state(const struct td_call *c, const struct td_tensor *s, bool tagged,
                                struct td_err *err)
{
    TD_FAIL_IF(s->dtype != TD_INT64, err, INVALID_ARGUMENT,
               "%s: dtype of RNG state variable must be int64, not %s", TD_NODE_STR(c->node),
               td_dtype_name(s->dtype));
    TD_FAIL_IF(s->shape.rank != 1, err, INVALID_ARGUMENT,
               "%s: RNG state must have one and only one dimension, not %d", TD_NODE_STR(c->node),
               s->shape.rank);
    TD_FAIL_IF(!tagged && c->in[1]->shape.rank != 0, err, INVALID_ARGUMENT,
               "%s: algorithm must be of shape [], not %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]->shape));
    TD_FAIL_IF(tagged && s->shape.dim[0] < 1, err, INVALID_ARGUMENT, "%s: Size of tensor must be at least 1",
               TD_NODE_STR(c->node));
    TD_TRY(check_algorithm(c, td_tensor_int(tagged ? s : c->in[1], 0), err));
    TD_FAIL_IF(s->shape.dim[0] < 3 + tagged, err, INVALID_ARGUMENT,
               "%s: For the Philox algorithm, the size of state must be at least %d; got %lld",
               TD_NODE_STR(c->node), 3 + tagged, (long long)s->shape.dim[0]);
    return TD_OK;
}

/* *g = the generator in the variable, which moves on by `steps`. */
static enum td_code reserve_in(struct td_call *c, bool tagged, uint64_t steps, struct td_philox *g,
                               struct td_err *err)
{
    struct td_variable *v;
    TD_TRY(td_in_made_variable(c, 0, &v, err));
    TD_TRY(td_variable_edit(v, err));
    enum td_code rc = check_state(c, &v->value, tagged, err);
    if (!rc) {
        uint64_t *s = (uint64_t *)v->value.data + tagged;
        *g = td_philox_make(s[2], s[0], s[1]);
        struct td_philox next = *g;
        td_philox_skip(&next, steps);
        s[0] = td_philox_lo(&next);
        s[1] = td_philox_hi(&next);
    }
    td_variable_done(v);
    return rc;
}

static enum td_code reserve(struct td_call *c, uint64_t steps, struct td_philox *g, struct td_err *err)
{
    return reserve_in(c, false, steps, g, err);
}

static enum td_code reserve_tagged(struct td_call *c, uint64_t steps, struct td_philox *g, struct td_err *err)
{
    return reserve_in(c, true, steps, g, err);
}

static enum td_code shape_infer(struct td_infer *c, struct td_err *err)
{
    return td_random_fill_infer(c, 2, -1, err);
}

static enum td_code tagged_infer(struct td_infer *c, struct td_err *err)
{
    return td_random_fill_infer(c, 1, -1, err);
}

static enum td_code normal_tagged_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn(c, reserve_tagged, TD_RANDOM_NORMAL, err);
}

static enum td_code uniform_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn(c, reserve, TD_RANDOM_UNIFORM, err);
}

static enum td_code normal_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn(c, reserve, TD_RANDOM_NORMAL, err);
}

static enum td_code truncated_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn(c, reserve, TD_RANDOM_TRUNCATED_NORMAL, err);
}

static enum td_code uniform_int_run(struct td_call *c, struct td_err *err)
{
    return td_random_fill_drawn_range(c, reserve, 3, err);
}

static enum td_code full_int_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_random_fill_reserve(c, reserve, &out, &g, err));
    return td_random_fill_ints(c, g, 0, 0, out, err);
}

static enum td_code binomial_infer(struct td_infer *c, struct td_err *err)
{
    return td_random_binomial_infer(c, 2, 3, err);
}

/* TensorFlow leaves the state as it was, and draws the same numbers again. */
static enum td_code binomial_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_random_fill_reserve(c, reserve, &out, &g, err));
    return td_random_binomial_fill(c, g, 3, out, err);
}

static enum td_code skip(struct td_call *c, struct td_philox *g, struct td_err *err)
{
    TD_FAIL_IF(c->in[2]->shape.rank != 0, err, INVALID_ARGUMENT, "%s: delta must be of shape [], not %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[2]->shape));
    return reserve(c, TD_DATA(c->in[2], uint64_t)[0] * TD_RANDOM_STEPS, g, err);
}

static enum td_code skip_run(struct td_call *c, struct td_err *err)
{
    struct td_philox g;
    return skip(c, &g, err);
}

static enum td_code read_skip_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    c->out[0] = td_shape_vector(3);
    return TD_OK;
}

static enum td_code read_skip_run(struct td_call *c, struct td_err *err)
{
    struct td_philox g;
    struct td_tensor *out;
    TD_TRY(skip(c, &g, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_DATA(out, uint64_t)[0] = td_philox_lo(&g);
    TD_DATA(out, uint64_t)[1] = td_philox_hi(&g);
    TD_DATA(out, uint64_t)[2] = g.key[0] | (uint64_t)g.key[1] << 32;
    return TD_OK;
}

#define INT_SET (TD_SET_INDEX | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64))
#define FILL_ROW(opname, signature, hosts, fn, set)                                                          \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_STATEFUL, .host_in = hosts, .infer = shape_infer,   \
        .kernels = TD_KERNEL("random_variable.cpu", fn, {"dtype", set})                                      \
    }
#define FILL_ARGS "(resource:resource, algorithm:int64, shape:shape_dtype) -> (output:dtype) "
#define FILL_FLOATS FILL_ARGS "{dtype:type=float; shape_dtype:type=int64}"

const struct td_op td_ops_random_variable[] = {
    FILL_ROW("StatefulUniform", FILL_FLOATS, 6, uniform_run, TD_SET_FLOATS),
    FILL_ROW("StatefulStandardNormalV2", FILL_FLOATS, 6, normal_run, TD_SET_FLOATS),
    FILL_ROW("StatefulTruncatedNormal", FILL_FLOATS, 6, truncated_run, TD_SET_FLOATS),
    FILL_ROW("StatefulUniformFullInt", FILL_ARGS "{dtype:type=uint64; shape_dtype:type=int64}", 6,
             full_int_run, INT_SET),
    FILL_ROW("StatefulUniformInt",
             "(resource:resource, algorithm:int64, shape:shape_dtype, minval:dtype, maxval:dtype) -> "
             "(output:dtype) "
             "{dtype:type=int64; shape_dtype:type=int64}",
             30, uniform_int_run, TD_SET_INDEX),
    {.name = "StatefulStandardNormal",
     .sig = "(resource:resource, shape:shape_dtype) -> (output:dtype) {dtype:type=float; "
            "shape_dtype:type=int64}",
     .flags = TD_OP_STATEFUL,
     .host_in = 2,
     .infer = tagged_infer,
     .kernels = TD_KERNEL("random_variable.cpu", normal_tagged_run, {"dtype", TD_SET_FLOATS})},
    {.name = "StatefulRandomBinomial",
     .sig = "(resource:resource, algorithm:int64, shape:S, counts:T, probs:T) -> (output:dtype) {S:type; "
            "T:type=double; dtype:type=int64}",
     .flags = TD_OP_STATEFUL,
     .host_in = 30,
     .infer = binomial_infer,
     .kernels = TD_KERNEL("random_variable.cpu", binomial_run,
                          {"T", TD_BIT(TD_HALF) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)},
                          {"dtype", TD_BIT(TD_HALF) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_INDEX})},
    {.name = "RngSkip",
     .sig = "(resource:resource, algorithm:int64, delta:int64) -> () {}",
     .flags = TD_OP_STATEFUL,
     .host_in = 6,
     .kernels = TD_KERNEL("random_variable.cpu", skip_run)},
    {.name = "RngReadAndSkip",
     .sig = "(resource:resource, alg:int32, delta:uint64) -> (value:int64) {}",
     .flags = TD_OP_STATEFUL,
     .host_in = 6,
     .host_out = 1,
     .infer = read_skip_infer,
     .kernels = TD_KERNEL("random_variable.cpu", read_skip_run)},
    {.name = NULL},
};
