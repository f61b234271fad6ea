/* kernels/cuda/math/elementwise.c - rows of the element-wise ops of one and of two inputs, and of BiasAdd.
 * Operands of two shapes are read by steps (kernels/cuda/base/steps.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/math/elementwise.h"
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
    struct td_shape both;
    (void)err;
    o->refusal = td_shape_broadcast(&q->in[0], &q->in[1], &both, NULL) != TD_OK
                     ? "shapes that do not broadcast"
                 : !td_cuda_steps_of(&q->in[0], &q->in[1], &q->out[0], &steps) ? "more than eight dimensions"
                                                                               : NULL;
    return TD_OK;
}

/* Whether they are numbers that a device must not divide by (or raise to): an error, which the host has words
 * for. */
static bool is_sound(const struct td_tensor *b, bool power)
{
    const int64_t n = td_tensor_count(b);
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = td_tensor_int(b, i);
        if (power ? v < 0 : v == 0) {
            return false;
        }
    }
    return true;
}

static enum td_code prepare_judged(const struct td_kernel_query *q, struct td_kernel_offer *o, bool power,
                                   struct td_err *err)
{
    TD_TRY(prepare_binary(q, o, err));
    if (o->refusal != NULL || !td_dtype_in(q->node->out_type[0], TD_SET_INTS)) {
        return TD_OK;
    }
    const struct td_tensor *b = q->value[1];
    o->refusal = b == NULL             ? "integers that are not known before might be no divisors or powers"
                 : !is_sound(b, power) ? "an integer divided by zero, or to a negative power"
                                       : NULL;
    return TD_OK;
}

static enum td_code prepare_divide(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    return prepare_judged(q, o, false, err);
}

static enum td_code prepare_power(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    return prepare_judged(q, o, true, err);
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

TD_CUDA_ROWS(rows_bias, "bias.cuda", .types = {{"T", TD_CUDA_ALL}}, .run = run_bias);

/* ------------------------------------------------------------------ AddN */

/* More inputs than a launch takes are summed in the workspace: y may lie on any of them. */
static enum td_code run_add_n(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_addends s = {.n = td_tensor_count(y)};
    const int first = td_cuda_addends_first(c->n_in);
    for (int i = 0; i < c->n_in;) {
        const int room =
            i == 0 ? (TD_CUDA_ADDENDS - first) / TD_CUDA_ADDED_AT_ONCE * TD_CUDA_ADDED_AT_ONCE + first
                   : TD_CUDA_ADDENDS;
        for (s.n_in = 0; i < c->n_in && s.n_in < room;) {
            s.in[s.n_in++] = c->in[i++]->data;
        }
        void *to = i < c->n_in ? c->workspace : y->data;
        TD_TRY(td_cuda_launched(c, td_cuda_add_many(td_cuda_type_of(y->dtype), &s, to, td_cuda_stream_of(c)),
                                err));
        s.before = to;
    }
    return TD_OK;
}

/* The host has words for shapes that differ. */
static enum td_code prepare_add_n(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    (void)err;
    for (int i = 1; i < q->n_in; i++) {
        o->refusal = td_shape_equal(&q->in[0], &q->in[i]) ? o->refusal : "addends of several shapes";
    }
    if (q->n_in > TD_CUDA_ADDENDS) {
        o->workspace_bytes = (size_t)td_shape_count(&q->in[0]) * td_dtype_size(q->node->out_type[0]);
    }
    return TD_OK;
}

TD_CUDA_ROWS(rows_add_n, "elementwise.cuda", .types = {{"T", TD_CUDA_ALL}}, .prepare = prepare_add_n,
             .run = run_add_n);

/* ------------------------------------------------------------------ rows */

#define UNARY(op, set, value)                                                                                \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return run_unary(c, TD_CUDA_##op, err);                                                              \
    }                                                                                                        \
    TD_CUDA_ROWS(rows_##op, "elementwise.cuda", .types = {{"T", TD_CUDA_##set}}, .run = run_##op);
#define TEST UNARY
#define COUNT UNARY
#include "kernels/cuda/math/unary.def"

#define TWO_INPUTS(op, set, asked)                                                                           \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return run_binary(c, TD_CUDA_##op, err);                                                             \
    }                                                                                                        \
    TD_CUDA_ROWS(rows_##op, "elementwise.cuda", .types = {{"T", TD_CUDA_##set}}, .prepare = asked,           \
                 .run = run_##op);
#define BINARY(op, set, value) TWO_INPUTS(op, set, prepare_binary)
#define DIVIDE(op, set, value) TWO_INPUTS(op, set, prepare_divide)
#define POWER(op, set, value) TWO_INPUTS(op, set, prepare_power)
#define COMPARE BINARY
#include "kernels/cuda/math/binary.def"

const struct td_op_rows td_cuda_rows_elementwise[] = {
#define UNARY(op, set, value) {#op, rows_##op},
#define TEST(op, set, value) {#op, rows_##op},
#define COUNT(op, set, value) {#op, rows_##op},
#include "kernels/cuda/math/unary.def"
#define BINARY(op, set, value) {#op, rows_##op},
#define COMPARE(op, set, value) {#op, rows_##op},
#include "kernels/cuda/math/binary.def"
    {"BiasAdd", rows_bias}, {"BiasAddV1", rows_bias}, {"AddN", rows_add_n}, {"AccumulateNV2", rows_add_n},
    {NULL, NULL},
};
