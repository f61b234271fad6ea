/* kernels/math/isotonic.c - IsotonicRegression: the numbers nearest to those of a row that do not rise.
 *
 *   input [.., n] of T  ->  output [.., n] of output_dtype, segments [.., n] int32
 *
 * Neighbours that rise are pooled: both become their mean, as long as that is above the pool before it.
 * segments numbers the pools. Sums and means are rounded to output_dtype at each step, as TensorFlow does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/upcast.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

struct pool {
    double sum, mean;
    int64_t from, to;
};

/* The pools of n elements of x from `at` on, in the dtype t; returns how many. */
static int64_t pool_row(const struct td_tensor *x, int64_t at, int64_t n, enum td_dtype t, struct pool *pools)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = td_round_to(t, td_upcast_at(x, at + i));
        pools[count++] = (struct pool){v, v, i, i + 1};
        while (count > 1 && pools[count - 1].mean > pools[count - 2].mean) {
            const struct pool last = pools[--count];
            struct pool *into = &pools[count - 1];
            into->sum = td_round_to(t, into->sum + last.sum);
            into->to = last.to;
            into->mean = td_round_to(t, into->sum / td_round_to(t, (double)(into->to - into->from)));
        }
    }
    return count;
}

static enum td_code isotonic_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y, *segments;
    void *mem;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &segments, err));
    const int64_t total = td_tensor_count(x), n = x->shape.dim[x->shape.rank - 1];
    if (total == 0) {
        return TD_OK;
    }
    const size_t size = td_dtype_size(y->dtype);
    TD_TRY(td_scratch(c, (size_t)n * sizeof(struct pool), &mem, err));
    for (int64_t at = 0; at < total; at += n) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        const struct pool *pools = mem;
        const int64_t count = pool_row(x, at, n, y->dtype, mem);
        for (int64_t k = 0; k < count; k++) {
            for (int64_t i = pools[k].from; i < pools[k].to; i++) {
                td_downcast_doubles((char *)y->data + (size_t)(at + i) * size, &pools[k].mean, y->dtype, 1);
                TD_DATA(segments, int32_t)[at + i] = (int32_t)k;
            }
        }
    }
    return TD_OK;
}

static enum td_code isotonic_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    TD_TRY(td_infer_min_rank(c, 0, 1, err));
    TD_FAIL_IF(x->rank > 0 && x->dim[x->rank - 1] > INT32_MAX, err, INVALID_ARGUMENT, "%s: Tensor too large",
               TD_NODE_STR(c->node));
    c->out[0] = c->out[1] = *x;
    return TD_OK;
}

/* What arrived at the elements of a pool is shared by them alike. Pools of all rows are numbered on. */
static void isotonic_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), x = td_grad_in(g, 0), one = td_f_int(e, 1);
    const struct td_value n = td_f_element(e, td_f_shape(e, x), -1);
    const struct td_value all = td_f_size(e, x), flat = td_f_ints(e, -1);
    const struct td_value places = td_f_range(e, td_f_int(e, 0), all);
    const struct td_value behind = td_f_2(e, "FloorMod", places, td_f_2(e, "Maximum", n, one));
    const struct td_value id =
        td_f_add(e, td_f_reshape(e, td_grad_out(g, 1), flat), td_f_sub(e, places, behind));
    const struct td_value seen = td_f_reshape(e, dy, flat);
    const struct td_value sums = td_f_3(e, "UnsortedSegmentSum", seen, id, all);
    const struct td_value counts = td_f_3(e, "UnsortedSegmentSum", td_f_ones_like(e, seen), id, all);
    const struct td_value mean = td_f_div(e, td_f_gather(e, sums, id, 0), td_f_gather(e, counts, id, 0));
    td_grad_give(g, 0, td_f_cast(e, td_f_reshape_like(e, mean, x), td_dtype_of(x)));
}

#define TAKES(from, to)                                                                                      \
    {                                                                                                        \
        .name = "isotonic.cpu", .device = TD_CPU, .types = {{"T", from}, {"output_dtype", to}},              \
        .run = isotonic_run                                                                                  \
    }

const struct td_op td_ops_isotonic[] = {
    {.name = "IsotonicRegression",
     .sig = "(input:T) -> (output:output_dtype, segments:int32) {T:type; output_dtype:type=float}",
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .infer = isotonic_infer,
     .grad = isotonic_grad,
     .kernels = (const struct td_kernel[]){TAKES(TD_BIT(TD_FLOAT) | TD_BIT(TD_INT8) | TD_BIT(TD_INT16),
                                                 TD_BIT(TD_FLOAT)),
                                           TAKES(TD_BIT(TD_DOUBLE) | TD_SET_INDEX, TD_BIT(TD_DOUBLE)),
                                           TAKES(TD_BIT(TD_HALF), TD_BIT(TD_HALF)),
                                           TAKES(TD_BIT(TD_BFLOAT16), TD_BIT(TD_BFLOAT16)),
                                           {.name = NULL}}},
    {.name = NULL},
};
