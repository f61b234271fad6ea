/* kernels/cuda/elementwise.c - rows of the element-wise ops of one and of two inputs, and of BiasAdd.
 * Operands of two shapes are read by steps (kernels/cuda/steps.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/move.h"
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

/* ------------------------------------------------------------------ BiasAdd */

/* The bias as an operand that is broadcast: [C], or [C,1,..] where the channels come first. */
static struct td_shape seen_bias(const struct td_node *n, const struct td_shape *x, const struct td_shape *b)
{
    const bool first =
        strcmp(n->op_name, "BiasAddV1") != 0 && strcmp(td_attr_str(n, "data_format"), "NCHW") == 0;
    struct td_shape seen = *b;
    for (int i = 2; first && i < x->rank; i++) {
        seen.dim[seen.rank++] = 1;
    }
    return seen;
}

static enum td_code run_bias(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_steps steps;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *x = c->in[0], *b = c->in[1];
    const struct td_shape seen = seen_bias(c->node, &x->shape, &b->shape);
    TD_FAIL_IF(!td_cuda_steps_of(&x->shape, &seen, &y->shape, &steps), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(c,
                            td_cuda_binary(TD_CUDA_AddV2, td_cuda_type_of(x->dtype), &steps, x->data, b->data,
                                           y->data, td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

static const struct td_kernel rows_bias[] = {{.name = "bias.cuda",
                                              .device = TD_CUDA,
                                              .types = {{"T", TD_CUDA_NUMBERS}},
                                              .library = TD_LIB_MODULE,
                                              .run = run_bias},
                                             {.name = NULL}};

/* ------------------------------------------------------------------ AddN */

static enum td_code run_add_n(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const enum td_cuda_type type = td_cuda_type_of(y->dtype);
    const int64_t n = td_tensor_count(y);
    struct td_cuda_steps steps = {0};
    (void)td_cuda_steps_add(&steps, n, 1, 1);
    const void *sum = c->in[0]->data;
    for (int i = 1; i < c->n_in; i++) {
        TD_TRY(td_cuda_launched(c,
                                td_cuda_binary(TD_CUDA_AddV2, type, &steps, sum, c->in[i]->data, y->data, n,
                                               td_cuda_stream_of(c)),
                                err));
        sum = y->data;
    }
    return c->n_in > 1
               ? TD_OK
               : td_cuda_launched(
                     c, td_cuda_move(td_dtype_size(y->dtype), &steps, sum, y->data, n, td_cuda_stream_of(c)),
                     err);
}

static const struct td_kernel rows_add_n[] = {{.name = "elementwise.cuda",
                                               .device = TD_CUDA,
                                               .types = {{"T", TD_CUDA_WIDE}},
                                               .library = TD_LIB_MODULE,
                                               .run = run_add_n},
                                              {.name = NULL}};

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
#define TEST UNARY
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

const struct td_op_rows td_cuda_rows_elementwise[] = {
#define UNARY(op, set, value) {#op, rows_##op},
#define TEST(op, set, value) {#op, rows_##op},
#include "kernels/cuda/unary.def"
#define BINARY(op, set, value) {#op, rows_##op},
#define COMPARE(op, set, value) {#op, rows_##op},
#include "kernels/cuda/binary.def"
    {"BiasAdd", rows_bias},
    {"BiasAddV1", rows_bias},
    {"AddN", rows_add_n},
    {NULL, NULL},
};
