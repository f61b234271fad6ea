/* kernels/cuda/matmul.c - rows of MatMul and BatchMatMul.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/matmul.h"

#include <string.h>

#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/rows.h"

static bool is_batch(const struct td_node *n)
{
    return strcmp(n->op_name, "MatMul") != 0;
}

/* The dims before the last two. */
static struct td_shape batch_of(const struct td_shape *s)
{
    struct td_shape b = *s;
    b.rank -= 2;
    return b;
}

/* False: more dims than a kernel takes. */
static bool describe(const struct td_node *n, const struct td_shape *a, const struct td_shape *b,
                     const struct td_shape *y, struct td_cuda_product *s)
{
    const bool ta = td_attr_bool(n, is_batch(n) ? "adj_x" : "transpose_a");
    const bool tb = td_attr_bool(n, is_batch(n) ? "adj_y" : "transpose_b");
    const int64_t rows_a = a->dim[a->rank - 2], columns_a = a->dim[a->rank - 1];
    const int64_t rows_b = b->dim[b->rank - 2], columns_b = b->dim[b->rank - 1];
    const struct td_shape of_a = batch_of(a), of_b = batch_of(b), of_y = batch_of(y);
    *s = (struct td_cuda_product){.m = y->dim[y->rank - 2],
                                  .n = y->dim[y->rank - 1],
                                  .k = ta ? rows_a : columns_a,
                                  .batches = td_shape_count(&of_y),
                                  .a_row = ta ? 1 : columns_a,
                                  .a_k = ta ? columns_a : 1,
                                  .b_k = tb ? 1 : columns_b,
                                  .b_col = tb ? columns_b : 1};
    if (!td_cuda_steps_of(&of_a, &of_b, &of_y, &s->batch)) {
        return false;
    }
    for (int i = 0; i < s->batch.rank; i++) {
        s->batch.a[i] *= rows_a * columns_a;
        s->batch.b[i] *= rows_b * columns_b;
    }
    return true;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_cuda_product s;
    (void)err;
    o->refusal =
        describe(q->node, &q->in[0], &q->in[1], &q->out[0], &s) ? NULL : "more than eight dimensions";
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_product s;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *a = c->in[0], *b = c->in[1];
    TD_FAIL_IF(!describe(c->node, &a->shape, &b->shape, &y->shape, &s), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(
        c, td_cuda_matmul(td_cuda_type_of(y->dtype), &s, a->data, b->data, y->data, td_cuda_stream_of(c)),
        err);
}

static const struct td_kernel rows[] = {{.name = "matmul.cuda",
                                         .device = TD_CUDA,
                                         .types = {{"T", TD_CUDA_FLOATS}},
                                         .library = TD_LIB_MODULE,
                                         .prepare = prepare,
                                         .run = run},
                                        {.name = NULL}};

const struct td_op_rows td_cuda_rows_matmul[] = {
    {"MatMul", rows}, {"BatchMatMul", rows}, {"BatchMatMulV2", rows}, {NULL, NULL}};
