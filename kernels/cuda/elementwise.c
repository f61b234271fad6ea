/* kernels/cuda/elementwise.c - rows of the element-wise ops of one and of two inputs.
 *
 * Operands of two shapes are read by steps: neighbouring dims that both operands step through alike become
 * one (x [2,3,4] + b [4] is a matrix of 6 rows), so that most shapes need one or two.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/rows.h"

/* ------------------------------------------------------------------ one input */

static enum td_code run_unary(struct td_call *c, enum td_cuda_unary op, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *x = c->in[0];
    return td_cuda_launched(c,
                            td_cuda_unary(op, td_cuda_type_of(x->dtype), x->data, y->data, td_tensor_count(y),
                                          td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ two inputs */

static int64_t step_of(const struct td_shape *s, int from_the_end, int64_t elements)
{
    return from_the_end <= s->rank && s->dim[s->rank - from_the_end] != 1 ? elements : 0;
}

static int64_t length_of(const struct td_shape *s, int from_the_end)
{
    return from_the_end <= s->rank ? s->dim[s->rank - from_the_end] : 1;
}

static bool goes_on(int64_t step, int64_t last_step, int64_t last_dim)
{
    return step == (last_step == 0 ? 0 : last_step * last_dim);
}

bool td_cuda_steps_of(const struct td_shape *a, const struct td_shape *b, const struct td_shape *y,
                      struct td_cuda_steps *s)
{
    int64_t in_a = 1, in_b = 1;
    memset(s, 0, sizeof *s);
    for (int i = 1; i <= y->rank; i++) {
        const int64_t d = y->dim[y->rank - i], of_a = step_of(a, i, in_a), of_b = step_of(b, i, in_b);
        const int last = s->rank - 1;
        in_a *= length_of(a, i);
        in_b *= length_of(b, i);
        if (d == 1) {
            continue;
        }
        if (last >= 0 && goes_on(of_a, s->a[last], s->dim[last]) && goes_on(of_b, s->b[last], s->dim[last])) {
            s->dim[last] *= d;
        } else if (s->rank == TD_CUDA_DIMS) {
            return false;
        } else {
            s->dim[s->rank] = d;
            s->a[s->rank] = of_a;
            s->b[s->rank++] = of_b;
        }
    }
    return true;
}

static enum td_code prepare_binary(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    struct td_cuda_steps steps;
    (void)err;
    o->refusal =
        td_cuda_steps_of(&q->in[0], &q->in[1], &q->out[0], &steps) ? NULL : "more than eight dimensions";
    return TD_OK;
}

static enum td_code run_binary(struct td_call *c, enum td_cuda_binary op, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *a = c->in[0], *b = c->in[1];
    struct td_cuda_steps steps;
    TD_FAIL_IF(!td_cuda_steps_of(&a->shape, &b->shape, &y->shape, &steps), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(c,
                            td_cuda_binary(op, td_cuda_type_of(a->dtype), &steps, a->data, b->data, y->data,
                                           td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ rows */

#define UNARY(op, set, value)                                                                                \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return run_unary(c, TD_CUDA_##op, err);                                                              \
    }                                                                                                        \
    static const struct td_kernel rows_##op[] = {{.name = "elementwise.cuda",                                \
                                                  .device = TD_CUDA,                                         \
                                                  .types = {{"T", TD_CUDA_##set}},                           \
                                                  .library = TD_LIB_MODULE,                                  \
                                                  .run = run_##op},                                          \
                                                 {.name = NULL}};
#include "kernels/cuda/unary.def"

#define BINARY(op, set, value)                                                                               \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return run_binary(c, TD_CUDA_##op, err);                                                             \
    }                                                                                                        \
    static const struct td_kernel rows_##op[] = {{.name = "elementwise.cuda",                                \
                                                  .device = TD_CUDA,                                         \
                                                  .types = {{"T", TD_CUDA_##set}},                           \
                                                  .library = TD_LIB_MODULE,                                  \
                                                  .prepare = prepare_binary,                                 \
                                                  .run = run_##op},                                          \
                                                 {.name = NULL}};
#define COMPARE BINARY
#include "kernels/cuda/binary.def"

const struct td_cuda_rows td_cuda_rows_elementwise[] = {
#define UNARY(op, set, value) {#op, rows_##op},
#include "kernels/cuda/unary.def"
#define BINARY(op, set, value) {#op, rows_##op},
#define COMPARE(op, set, value) {#op, rows_##op},
#include "kernels/cuda/binary.def"
    {NULL, NULL},
};
