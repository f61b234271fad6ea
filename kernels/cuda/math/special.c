/* kernels/cuda/math/special.c - rows of the ops over special functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/special.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code run_one(struct td_call *c, enum td_cuda_special_one op, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return td_cuda_launched(c,
                            td_cuda_special_of_one(op, td_cuda_type_of(y->dtype), c->in[0]->data, y->data,
                                                   td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_two(struct td_call *c, enum td_cuda_special_two op, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_steps steps;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *a = c->in[0], *b = c->in[1];
    TD_FAIL_IF(!td_cuda_steps_of(&a->shape, &b->shape, &y->shape, &steps), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(c,
                            td_cuda_special_of_two(op, td_cuda_type_of(y->dtype), &steps, a->data, b->data,
                                                   y->data, td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_betainc(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_betainc s = {.y = y->data, .n = td_tensor_count(y)};
    for (int i = 0; i < 3; i++) {
        s.in[i] = c->in[i]->data;
        s.step[i] = c->in[i]->shape.rank > 0;
    }
    return td_cuda_launched(c, td_cuda_betainc_of(td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)), err);
}

#define ROWS(op, set, asked, fn)                                                                             \
    TD_CUDA_ROWS(rows_##op, "special.cuda", .types = {{"T", set}}, .prepare = asked, .run = fn);
#define SET_HALF (TD_CUDA_WIDE | TD_BIT(TD_HALF))
#define SET_WIDE TD_CUDA_WIDE
#define ONE(op, set, f32, f64)                                                                               \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return run_one(c, TD_CUDA_##op, err);                                                                \
    }                                                                                                        \
    ROWS(op, SET_##set, NULL, run_##op)
#define TWO(op, f32, f64)                                                                                    \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return run_two(c, TD_CUDA_##op, err);                                                                \
    }                                                                                                        \
    ROWS(op, TD_CUDA_WIDE, td_cuda_prepare_two, run_##op)
#include "kernels/cuda/math/special.def"
ROWS(Betainc, TD_CUDA_WIDE, NULL, run_betainc)

const struct td_op_rows td_cuda_rows_special[] = {
#define ONE(op, set, f32, f64) {#op, rows_##op},
#define TWO(op, f32, f64) {#op, rows_##op},
#include "kernels/cuda/math/special.def"
    {"Betainc", rows_Betainc},
    {NULL, NULL},
};
