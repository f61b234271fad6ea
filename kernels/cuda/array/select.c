/* kernels/cuda/array/select.c - rows of Select and SelectV2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/select.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

/* Select's condition as one that is broadcast: a vector chooses rows. */
static struct td_shape seen_condition(const struct td_node *n, const struct td_shape *c, int rank)
{
    struct td_shape seen = *c;
    const bool rows = n->op_name[6] == '\0' && c->rank == 1;
    while (rows && seen.rank < rank) {
        seen.dim[seen.rank++] = 1;
    }
    return seen;
}

static bool steps_of(const struct td_node *n, const struct td_shape *const in[3], const struct td_shape *y,
                     struct td_cuda_choice *s)
{
    const struct td_shape condition = seen_condition(n, in[0], y->rank);
    return td_cuda_steps_of(&condition, in[1], y, &s->first) && td_cuda_steps_of(in[2], in[2], y, &s->second);
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_cuda_choice s;
    const struct td_shape *const in[3] = {&q->in[0], &q->in[1], &q->in[2]};
    (void)err;
    o->refusal = steps_of(q->node, in, &q->out[0], &s) ? NULL : "more than eight dimensions";
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_choice s = {.condition = c->in[0]->data,
                               .t = c->in[1]->data,
                               .e = c->in[2]->data,
                               .y = y->data,
                               .n = td_tensor_count(y)};
    const struct td_shape *const in[3] = {&c->in[0]->shape, &c->in[1]->shape, &c->in[2]->shape};
    TD_FAIL_IF(!steps_of(c->node, in, &y->shape, &s), err, INTERNAL, "%s: more than eight dimensions",
               c->node->op_name);
    return td_cuda_launched(c, td_cuda_select(td_dtype_size(y->dtype), &s, td_cuda_stream_of(c)), err);
}

TD_CUDA_ROWS(rows, "select.cuda", .types = {{"T", TD_SET_PLAIN}}, .prepare = prepare, .run = run);

const struct td_op_rows td_cuda_rows_select[] = {{"Select", rows}, {"SelectV2", rows}, {NULL, NULL}};
