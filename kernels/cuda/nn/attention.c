/* kernels/cuda/nn/attention.c - the rows of _Attention: floats by TF32 where that is asked for, and all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/attention.h"

#include <assert.h>
#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/libraries.h"
#include "kernels/cuda/rows.h"
#include "kernels/linalg/attention.h"

static_assert((int)TD_ATTENTION_DIV == (int)TD_CUDA_ATTENTION_DIV &&
                  (int)TD_ATTENTION_DROP == (int)TD_CUDA_ATTENTION_DROP &&
                  (int)TD_ATTENTION_STAGES == (int)TD_CUDA_ATTENTION_STAGES &&
                  (int)TD_MAX_RANK == (int)TD_CUDA_ATTENTION_RANK,
              "stages and axes are counted alike");

/* Zeroed beyond the canonical axes. */
static struct td_cuda_attention_steps steps_of(const struct td_attention_sizes *s, const int64_t *step)
{
    struct td_cuda_attention_steps out = {{0}};
    memcpy(out.at, step, (size_t)s->rank * sizeof *step);
    return out;
}

static void put_stages(const struct td_call *c, const struct td_attention_form *f,
                       const struct td_attention_sizes *s, struct td_cuda_attention *a)
{
    a->n_stages = f->n_stages;
    for (int i = 0; i < f->n_stages; i++) {
        const struct td_attention_stage *from = &f->stage[i];
        a->stage[i] = (struct td_cuda_attention_stage){
            .kind = (int)from->kind, .after = from->after, .number = from->number};
        if (from->operand >= 0) {
            a->stage[i].operand = c->in[from->operand]->data;
            a->stage[i].step = steps_of(s, s->stage_step[i]);
        }
    }
}

static enum td_code attend(struct td_call *c, bool tf32, struct td_err *err)
{
    struct td_shape in[TD_ATTENTION_TENSORS + TD_ATTENTION_STAGES];
    struct td_attention_form f;
    struct td_attention_sizes s;
    struct td_tensor *y;
    TD_FAIL_IF(!td_attention_read(c->node, &f) || c->n_in > TD_ATTENTION_TENSORS + TD_ATTENTION_STAGES, err,
               INVALID_ARGUMENT, "%s: it is no node that the compiler made", TD_NODE_STR(c->node));
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i]->shape;
    }
    TD_TRY(td_attention_sizes_of(c->node, &f, in, &s, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_attention a = {.type = td_cuda_type_of(y->dtype),
                                  .tf32 = tf32,
                                  .rank = s.rank,
                                  .depth = s.depth,
                                  .width = s.width,
                                  .batches = s.batches,
                                  .copies = (float)s.copies,
                                  .query = c->in[TD_ATTENTION_QUERY]->data,
                                  .key = c->in[TD_ATTENTION_KEY]->data,
                                  .value = c->in[TD_ATTENTION_VALUE]->data,
                                  .out = y->data,
                                  .of_query = steps_of(&s, s.step[TD_ATTENTION_QUERY]),
                                  .of_key = steps_of(&s, s.step[TD_ATTENTION_KEY]),
                                  .of_value = steps_of(&s, s.step[TD_ATTENTION_VALUE]),
                                  .of_out = steps_of(&s, s.step[TD_ATTENTION_OUTPUT])};
    memcpy(a.dim, s.dim, (size_t)s.rank * sizeof *a.dim);
    put_stages(c, &f, &s, &a);
    return s.batches == 0 ? TD_OK : td_cuda_launched(c, td_cuda_attend(&a, td_cuda_stream_of(c)), err);
}

static const char *refuse_others(const struct td_node *n)
{
    struct td_attention_form f;
    return td_attention_read(n, &f) ? NULL : "only the compiler makes nodes of this op";
}

static enum td_code prepare_tf32(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    (void)err;
    o->refusal = td_cuda_libraries_of(q->target.device)->tf32 ? NULL : "TF32 was not asked for";
    return TD_OK;
}

static enum td_code run_tf32(struct td_call *c, struct td_err *err)
{
    return attend(c, true, err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    return attend(c, false, err);
}

#define SMALL (TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

static const struct td_kernel rows[] = {
    TD_CUDA_ROW("attention.tf32", .types = {{"T", TD_BIT(TD_FLOAT)}}, .refuse = refuse_others,
                .prepare = prepare_tf32, .run = run_tf32),
    TD_CUDA_ROW("attention.cuda", .types = {{"T", TD_BIT(TD_FLOAT) | SMALL}}, .refuse = refuse_others,
                .run = run),
    {.name = NULL}};

const struct td_op_rows td_cuda_rows_attention[] = {{"_Attention", rows}, {NULL, NULL}};
