/* kernels/cuda/math/reduce.c - rows of Sum, Mean, Prod, Max, Min, EuclideanNorm, All, Any, _SumTo,
 * BiasAddGrad and L2Loss.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/reduce.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"
#include "kernels/math/reduce_axes.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    o->refusal = q->in[0].rank <= TD_CUDA_DIMS ? NULL : "more than eight dimensions";
    return TD_OK;
}

static bool describe(const struct td_shape *in, uint32_t folded, struct td_cuda_axes *s)
{
    int64_t step = 1;
    bool fits = true, seen = false;
    *s = (struct td_cuda_axes){.n_kept = 1, .n_folded = 1};
    for (int i = in->rank - 1; i >= 0 && fits; i--) {
        const bool folds = folded >> i & 1;
        const int64_t dim = in->dim[i];
        s->rows = seen || dim == 1 ? s->rows : folds;
        seen = seen || dim != 1;
        s->n_folded *= folds ? dim : 1;
        s->n_kept *= folds ? 1 : dim;
        fits = td_cuda_steps_add(folds ? &s->folded : &s->kept, dim, step, 0);
        step *= dim;
    }
    return fits;
}

static enum td_code reduce_axes(struct td_call *c, enum td_cuda_reduce op, uint32_t axes, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_axes s;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_FAIL_IF(!describe(&x->shape, axes, &s), err, INTERNAL, "%s: more than eight dimensions",
               c->node->op_name);
    return td_cuda_launched(
        c, td_cuda_reduce(op, td_cuda_type_of(x->dtype), &s, x->data, y->data, td_cuda_stream_of(c)), err);
}

/* Axes that are no vector, as graphs of old have them, nobody has judged by value where the result's shape
 * does not depend on them (core/run/bound_plan.h). */
static enum td_code reduce(struct td_call *c, enum td_cuda_reduce op, struct td_err *err)
{
    uint32_t axes;
    TD_TRY(td_reduce_axes(c->node, c->in[0]->shape.rank, c->in[1], &axes, err));
    return reduce_axes(c, op, axes, err);
}

/* The axes that the shape of input 1, aligned from the right, has not, or has as 1. */
static enum td_code run_sum_to(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    uint32_t axes = 0;
    for (int i = 0; i < x->rank; i++) {
        const int64_t at = i - (x->rank - td_tensor_count(c->in[1]));
        const bool gone = at < 0 || (td_tensor_int(c->in[1], at) == 1 && x->dim[i] != 1);
        axes |= gone ? 1u << i : 0;
    }
    return reduce_axes(c, TD_CUDA_SUM, axes, err);
}

/* All axes but the channels'. */
static enum td_code run_bias_grad(struct td_call *c, struct td_err *err)
{
    const int rank = c->in[0]->shape.rank;
    const bool first = strcmp(td_attr_str(c->node, "data_format"), "NCHW") == 0;
    return reduce_axes(c, TD_CUDA_SUM, ((1u << rank) - 1) & ~(1u << (first ? 1 : rank - 1)), err);
}

/* All axes. */
static enum td_code run_half_squares(struct td_call *c, struct td_err *err)
{
    return reduce_axes(c, TD_CUDA_HALF_SQUARES, (1u << c->in[0]->shape.rank) - 1, err);
}

#define ROWS(op, ...)                                                                                        \
    TD_CUDA_ROWS(rows_##op, "reduce.cuda", .types = {__VA_ARGS__}, .prepare = prepare, .run = run_##op);
#define REDUCE(op, which, ...)                                                                               \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return reduce(c, which, err);                                                                        \
    }                                                                                                        \
    ROWS(op, __VA_ARGS__)
REDUCE(sum, TD_CUDA_SUM, {"T", TD_CUDA_REALS})
REDUCE(mean, TD_CUDA_MEAN, {"T", TD_CUDA_REALS})
REDUCE(prod, TD_CUDA_PROD, {"T", TD_CUDA_REALS})
REDUCE(max, TD_CUDA_MAX, {"T", TD_CUDA_REALS})
REDUCE(min, TD_CUDA_MIN, {"T", TD_CUDA_REALS})
REDUCE(norm, TD_CUDA_NORM, {"T", TD_CUDA_REALS})
REDUCE(all, TD_CUDA_ALL_OF, {NULL, 0})
REDUCE(any, TD_CUDA_ANY_OF, {NULL, 0})
ROWS(sum_to, {"T", TD_CUDA_REALS})
ROWS(bias_grad, {"T", TD_CUDA_REALS})
ROWS(half_squares, {"T", TD_CUDA_FLOATS})

const struct td_op_rows td_cuda_rows_reduce[] = {{"Sum", rows_sum},
                                                 {"Mean", rows_mean},
                                                 {"Prod", rows_prod},
                                                 {"Max", rows_max},
                                                 {"Min", rows_min},
                                                 {"EuclideanNorm", rows_norm},
                                                 {"All", rows_all},
                                                 {"Any", rows_any},
                                                 {"L2Loss", rows_half_squares},
                                                 {"_SumTo", rows_sum_to},
                                                 {"BiasAddGrad", rows_bias_grad},
                                                 {NULL, NULL}};
