/* kernels/nn/fake_quant.c - FakeQuantWithMinMaxArgs, Vars, VarsPerChannel and their gradients.
 *
 *   inputs [any shape] of float, min, max (attributes; scalars; or [d] for the last dim)
 *                                                                               ->  outputs [same shape]
 *
 * Floats rounded to 2^num_bits levels over [min, max]. The range is first nudged so that 0 is a level:
 *   scale = (max - min) / (levels - 1);  zero = the level nearest to -min / scale, clamped;
 *   min' = -zero * scale ...
 * Gradient: that of a clamp to the nudged range; what is cut off below (above) adds up in the gradient of min
 * (max). min = max = 0 is taken to mean "not trained yet": outputs are 0 and gradients pass.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"

#include <math.h>

struct range {
    float min, max, scale, inverse;
    bool none;
}; /* nudged; none: min and max are both 0 */

static struct range nudge(const struct td_node *n, float min, float max)
{
    if (min == 0 && max == 0) {
        return (struct range){.none = true};
    }
    float low = td_attr_bool(n, "narrow_range") ? 1 : 0,
          high = (float)((1 << td_attr_int(n, "num_bits")) - 1);
    float scale = (max - min) / (high - low), zero = low - min / scale;
    zero = zero < low ? low : zero > high ? high : roundf(zero);
    return (struct range){.min = (low - zero) * scale, .max = (high - zero) * scale, .scale = scale};
}

TD_INLINE float fake_quant(float x, const struct range *r)
{
    if (r->none) {
        return 0;
    }
    x = r->max < x ? r->max : x;
    x = x < r->min ? r->min : x;
    float level = r->inverse != 0 ? (x - r->min) * r->inverse : (x - r->min) / r->scale;
    return floorf(level + 0.5f) * r->scale + r->min;
}

/* Gradient by the input; adds what is cut off to *below or *above. */
static float fake_quant_grad(float g, float x, const struct range *r, double *below, double *above)
{
    if (r->none || (x >= r->min && x <= r->max)) {
        return g;
    }
    *below += x < r->min ? (double)g : 0;
    *above += x > r->max ? (double)g : 0;
    return 0;
}

/* ------------------------------------------------------------------ shapes and attributes */

static enum td_code check_attrs(const struct td_node *n, struct td_err *err)
{
    int64_t bits = td_attr_int(n, "num_bits");
    TD_FAIL_IF(bits < 2 || bits > 16, err, INVALID_ARGUMENT,
               "%s: num_bits must be between 2 and 16, inclusive, is %lld", TD_NODE_STR(n), (long long)bits);
    return TD_OK;
}

static enum td_code infer_args(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_attrs(c->node, err));
    double min = td_attr_float(c->node, "min"), max = td_attr_float(c->node, "max");
    TD_FAIL_IF(min >= max, err, INVALID_ARGUMENT, "%s: min has to be smaller than max, was: %g >= %g",
               TD_NODE_STR(c->node), min, max);
    return c->n_in == 2 ? td_infer_equal_shapes(c, err) : td_infer_same(c, err);
}

/* Outputs: one like the inputs and, of gradients, one each for min and max. */
static enum td_code infer_vars(struct td_infer *c, struct td_err *err)
{
    int first = c->n_in - 2; /* min; max follows */
    TD_TRY(check_attrs(c->node, err));
    for (int i = first; i < c->n_in; i++) {
        TD_FAIL_IF(c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: `%s` must be rank 0 but is rank %d",
                   TD_NODE_STR(c->node), i == first ? "min" : "max", c->in[i].rank);
    }
    for (int i = 1; i < c->n_out; i++) {
        c->out[i] = td_shape_scalar();
    }
    return first == 2 ? td_infer_equal_shapes(c, err) : td_infer_same(c, err);
}

static enum td_code infer_channels(struct td_infer *c, struct td_err *err)
{
    int first = c->n_in - 2;
    const struct td_shape *x = &c->in[first - 1];
    TD_TRY(check_attrs(c->node, err));
    TD_TRY(td_infer_min_rank(c, first - 1, 1, err));
    int64_t depth = x->rank > 0 ? x->dim[x->rank - 1] : -1;
    for (int i = first; i < c->n_in; i++) {
        TD_TRY(td_infer_rank(c, i, 1, err));
        int64_t n = c->in[i].rank == 1 ? c->in[i].dim[0] : -1;
        TD_FAIL_IF(depth >= 0 && n >= 0 && n != depth, err, INVALID_ARGUMENT,
                   "%s: %s has incorrect size, expected %lld was %lld", TD_NODE_STR(c->node),
                   i == first ? "min" : "max", (long long)depth, (long long)n);
    }
    for (int i = 1; i < c->n_out; i++) {
        c->out[i] = td_shape_vector(depth);
    }
    return first == 2 ? td_infer_equal_shapes(c, err) : td_infer_same(c, err);
}

/* ------------------------------------------------------------------ kernels */

TD_CLONES static void quant_all(const float *x, float *y, int64_t n, const struct range *of)
{
    const struct range r = *of; /* the compiler cannot know that y does not hold *of */
    TD_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        y[i] = fake_quant(x[i], &r);
    }
}

/* Args multiplies by the inverse of the scale, Vars divide by it: a tie may fall either way. */
static struct range nudge_args(const struct td_node *n)
{
    float min = (float)td_attr_float(n, "min"), max = (float)td_attr_float(n, "max");
    struct range r = nudge(n, min, max);
    float low = td_attr_bool(n, "narrow_range") ? 1 : 0,
          high = (float)((1 << td_attr_int(n, "num_bits")) - 1);
    r.inverse = (high - low) / (max - min);
    return r;
}

static enum td_code args_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct range r = nudge_args(c->node);
    quant_all(c->in[0]->data, y->data, td_tensor_count(y), &r);
    return TD_OK;
}

static enum td_code args_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct range r = nudge_args(c->node);
    const float *g = c->in[0]->data, *x = c->in[1]->data;
    double below, above;
    int64_t n = td_tensor_count(y);
    below = above = 0;
    for (int64_t i = 0; i < n; i++) {
        TD_DATA(y, float)[i] = fake_quant_grad(g[i], x[i], &r, &below, &above);
    }
    return TD_OK;
}

static enum td_code vars_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct range r = nudge(c->node, TD_DATA(c->in[1], float)[0], TD_DATA(c->in[2], float)[0]);
    quant_all(c->in[0]->data, y->data, td_tensor_count(y), &r);
    return TD_OK;
}

static enum td_code channels_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_tensor_count(y), depth = td_tensor_count(c->in[1]);
    for (int64_t k = 0; k < (n ? depth : 0); k++) {
        struct range r = nudge(c->node, TD_DATA(c->in[1], float)[k], TD_DATA(c->in[2], float)[k]);
        for (int64_t i = k; i < n; i += depth) {
            TD_DATA(y, float)[i] = fake_quant(TD_DATA(c->in[0], float)[i], &r);
        }
    }
    return TD_OK;
}

/* Vars (depth 1) and VarsPerChannel. */
static enum td_code vars_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx, *dmin, *dmax;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(td_out(c, 1, NULL, &dmin, err));
    TD_TRY(td_out(c, 2, NULL, &dmax, err));
    const float *g = c->in[0]->data, *x = c->in[1]->data;
    int64_t n = td_tensor_count(dx), depth = td_tensor_count(c->in[2]);
    for (int64_t k = 0; k < depth; k++) {
        struct range r = nudge(c->node, TD_DATA(c->in[2], float)[k], TD_DATA(c->in[3], float)[k]);
        double below = 0, above = 0;
        for (int64_t i = k; i < n; i += depth) {
            TD_DATA(dx, float)[i] = fake_quant_grad(g[i], x[i], &r, &below, &above);
        }
        TD_DATA(dmin, float)[k] = (float)below;
        TD_DATA(dmax, float)[k] = (float)above;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients */

static void args_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 td_f_as(g->e, "FakeQuantWithMinMaxArgsGradient", TD_IN(td_grad_at(g, 0), td_grad_in(g, 0)),
                         g->node, "min,max,num_bits,narrow_range"));
}

static void by_range(struct td_grad *g, const char *op)
{
    const struct td_value dx =
        td_f_as(g->e, op, TD_IN(td_grad_at(g, 0), td_grad_in(g, 0), td_grad_in(g, 1), td_grad_in(g, 2)),
                g->node, "num_bits,narrow_range");
    for (int i = 0; i < 3; i++) {
        td_grad_give(g, i, td_f_port(dx, i));
    }
}

static void vars_grad(struct td_grad *g)
{
    by_range(g, "FakeQuantWithMinMaxVarsGradient");
}

static void channels_grad(struct td_grad *g)
{
    by_range(g, "FakeQuantWithMinMaxVarsPerChannelGradient");
}

/* ------------------------------------------------------------------ the table */

#define ATTRS_ARGS "{min:float=-6.0; max:float=6.0; num_bits:int=8; narrow_range:bool=false}"
#define ATTRS "{num_bits:int=8; narrow_range:bool=false}"
#define GRAD_OUT "(backprops_wrt_input:float, backprop_wrt_min:float, backprop_wrt_max:float) "
#define KERNEL(fn) TD_KERNEL("fake_quant.cpu", fn, {NULL, 0})

const struct td_op td_ops_fake_quant[] = {
    {.name = "FakeQuantWithMinMaxArgs",
     .sig = "(inputs:float) -> (outputs:float) " ATTRS_ARGS,
     .flags = TD_OP_ELEMENTWISE,
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = infer_args,
     .kernels = KERNEL(args_run),
     .grad = args_grad},
    {.name = "FakeQuantWithMinMaxArgsGradient",
     .sig = "(gradients:float, inputs:float) -> (backprops:float) " ATTRS_ARGS,
     .flags = TD_OP_ELEMENTWISE,
     .infer = infer_args,
     .kernels = KERNEL(args_grad_run),
     .grad = td_not_differentiable},
    {.name = "FakeQuantWithMinMaxVars",
     .sig = "(inputs:float, min:float, max:float) -> (outputs:float) " ATTRS,
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = infer_vars,
     .kernels = KERNEL(vars_run),
     .grad = vars_grad},
    {.name = "FakeQuantWithMinMaxVarsGradient",
     .sig = "(gradients:float, inputs:float, min:float, max:float) -> " GRAD_OUT ATTRS,
     .infer = infer_vars,
     .kernels = KERNEL(vars_grad_run),
     .grad = td_not_differentiable},
    {.name = "FakeQuantWithMinMaxVarsPerChannel",
     .sig = "(inputs:float, min:float, max:float) -> (outputs:float) " ATTRS,
     .permute = &td_permute_map1,
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .infer = infer_channels,
     .kernels = KERNEL(channels_run),
     .grad = channels_grad},
    {.name = "FakeQuantWithMinMaxVarsPerChannelGradient",
     .sig = "(gradients:float, inputs:float, min:float, max:float) -> " GRAD_OUT ATTRS,
     .infer = infer_channels,
     .kernels = KERNEL(vars_grad_run),
     .grad = td_not_differentiable},
    {.name = NULL},
};
