/* tests/second_device_kernel.c - x [m,k] * w [k,n] + bias [n], w copied column by column into the workspace.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/second_device_kernel.h"

#include <stdatomic.h>

#include "core/base/mem.h"
#include "core/graph/graph.h"

enum { MAGIC = 0x5ec0d };

struct state {
    int magic;
    int64_t m, k, n;
    bool bias;
};

static atomic_long calls, biases, states;

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    if (q->target.device == NULL || td_attr_bool(q->node, "transpose_a") ||
        td_attr_bool(q->node, "transpose_b")) {
        o->refusal = "for operands as they are, on the second device";
        return TD_OK;
    }
    struct state *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "the second device's product");
    }
    *s = (struct state){MAGIC, q->in[0].dim[0], q->in[0].dim[1], q->in[1].dim[1],
                        q->n_post > 0 && q->post[0].kind == TD_POST_BIAS};
    atomic_fetch_add(&states, 1);
    o->state = s;
    o->state_bytes = sizeof *s;
    o->workspace_bytes = (size_t)(s->k * s->n) * sizeof(float);
    o->n_posts = s->bias;
    return TD_OK;
}

static void release(void *state)
{
    td_free(state);
    atomic_fetch_sub(&states, 1);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const struct state *s = c->state;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_FAIL_IF(s->magic != MAGIC || (s->k * s->n > 0 && c->workspace == NULL), err, INTERNAL,
               "%s: state or workspace is not what was prepared", TD_NODE_STR(c->node));
    const float *x = c->in[0]->data, *w = c->in[1]->data, *bias = s->bias ? c->post_in[0] : NULL;
    float *columns = c->workspace;
    for (int64_t p = 0; p < s->k * s->n; p++) {
        columns[p % s->n * s->k + p / s->n] = w[p];
    }
    for (int64_t i = 0; i < s->m * s->n; i++) {
        float sum = bias == NULL ? 0 : bias[i % s->n];
        for (int64_t p = 0; p < s->k; p++) {
            sum += x[i / s->n * s->k + p] * columns[i % s->n * s->k + p];
        }
        TD_DATA(y, float)[i] = sum;
    }
    atomic_fetch_add(&calls, 1);
    atomic_fetch_add(&biases, s->bias);
    return TD_OK;
}

static const struct td_kernel rows[] = {
    {.name = SECOND_DEVICE_MATMUL,
     .device = TD_TEST_DEVICE,
     .types = {{"T", TD_BIT(TD_FLOAT)}},
     .library = TD_LIB_MODULE,
     .prepare = prepare,
     .release = release,
     .run = run},
    {.name = NULL},
};

enum td_code td_second_device_add_kernels(struct td_engine *e, struct td_err *err)
{
    return td_engine_add_kernels(e, "MatMul", rows, err);
}

struct second_device_kernel_counts td_second_device_kernel_counts(void)
{
    return (struct second_device_kernel_counts){atomic_load(&calls), atomic_load(&biases),
                                                atomic_load(&states)};
}
