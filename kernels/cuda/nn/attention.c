/* kernels/cuda/nn/attention.c - the rows of _Attention: floats by TF32 where that is asked for, and all; and
 * cuDNN's (kernels/cuda/base/cudnn_attention.h) for half and bfloat16 where there is nothing but a scale.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/attention.h"

#include <assert.h>
#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/cudnn_attention.h"
#include "kernels/cuda/base/libraries.h"
#include "kernels/cuda/rows.h"
#include "kernels/linalg/attention.h"

static_assert((int)TD_ATTENTION_DIV == (int)TD_CUDA_ATTENTION_DIV &&
                  (int)TD_ATTENTION_DROP == (int)TD_CUDA_ATTENTION_DROP &&
                  (int)TD_ATTENTION_STAGES == (int)TD_CUDA_ATTENTION_STAGES &&
                  (int)TD_MAX_RANK == (int)TD_CUDA_ATTENTION_RANK,
              "stages and axes are counted alike");
static_assert((int)TD_ATTENTION_QUERY == (int)TD_CUDNN_QUERY && (int)TD_ATTENTION_KEY == (int)TD_CUDNN_KEY &&
                  (int)TD_ATTENTION_VALUE == (int)TD_CUDNN_VALUE &&
                  (int)TD_ATTENTION_OUTPUT == (int)TD_CUDNN_OUTPUT,
              "tensors are counted alike");

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

/* y: the output, which is there. */
static enum td_code attend(const struct td_call *c, bool tf32, const struct td_tensor *y, struct td_err *err)
{
    struct td_shape in[TD_ATTENTION_TENSORS + TD_ATTENTION_STAGES];
    struct td_attention_form f;
    struct td_attention_sizes s;
    TD_FAIL_IF(!td_attention_read(c->node, &f) || c->n_in > TD_ATTENTION_TENSORS + TD_ATTENTION_STAGES, err,
               INVALID_ARGUMENT, "%s: it is no node that the compiler made", TD_NODE_STR(c->node));
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i]->shape;
    }
    TD_TRY(td_attention_sizes_of(c->node, &f, in, &s, err));
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
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return attend(c, true, y, err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return attend(c, false, y, err);
}

/* ------------------------------------------------------------------ cuDNN */

/* What scores are multiplied with; false: that is not all. */
static bool scale_of(const struct td_attention_form *f, float *scale)
{
    const struct td_attention_stage *s = &f->stage[0];
    const bool times = f->n_stages == 1 && s->kind == TD_ATTENTION_MUL;
    const bool by = f->n_stages == 1 && s->kind == TD_ATTENTION_DIV && s->number != 0;
    *scale = times ? s->number : by ? 1 / s->number : 1;
    return f->n_stages == 0 || ((times || by) && s->operand < 0 && !s->after);
}

/* Rows of 16 bytes that are there once. dim: of batch, heads and rows; step: by canonical axis. */
static bool lies_well(const int64_t *dim, const int64_t *step, int64_t numbers, int64_t *out)
{
    bool well = numbers % 8 == 0 && (step[0] == 1 || numbers == 1);
    int64_t packed = numbers;
    for (int i = 2; i >= 0; i--) {
        const int64_t from = step[3 - i];
        well = well && (dim[i] == 1 || (from > 0 && from % 8 == 0));
        out[i] = dim[i] == 1 ? packed : from;
        packed = out[i] * dim[i] > packed ? out[i] * dim[i] : packed;
    }
    return well;
}

static const char *describe(enum td_cuda_type type, const struct td_attention_form *f,
                            const struct td_attention_sizes *s, struct td_cudnn_attention *a)
{
    int64_t dim[4] = {0, 0, 1, 1}; /* S, T, heads, batch */
    bool well = s->rank <= 4 && s->copies == 1 && s->batches > 0;
    for (int i = 0; i < s->rank && well; i++) {
        dim[i] = s->dim[i];
    }
    *a = (struct td_cudnn_attention){.type = type,
                                     .batch = dim[3],
                                     .heads = dim[2],
                                     .queries = dim[1],
                                     .keys = dim[0],
                                     .depth = s->depth,
                                     .width = s->width};
    for (int i = 0; i < TD_CUDNN_ATTENTION_TENSORS && well; i++) {
        const bool of_query = i == TD_CUDNN_QUERY || i == TD_CUDNN_OUTPUT;
        const bool deep = i == TD_CUDNN_QUERY || i == TD_CUDNN_KEY;
        const int64_t of[3] = {dim[3], dim[2], of_query ? dim[1] : dim[0]};
        well = of[2] > 0 && lies_well(of, s->step[i], deep ? s->depth : s->width, a->step[i]);
    }
    return !scale_of(f, &a->scale) ? "there is more around its softmax than a scale"
           : !well                 ? "its rows do not lie as cuDNN wants them"
                                   : NULL;
}

static enum td_code prepare_cudnn(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    struct td_cudnn *dnn = td_cuda_libraries_of(q->target.device)->cudnn;
    struct td_attention_form f;
    struct td_attention_sizes s;
    struct td_cudnn_attention a;
    struct td_cudnn_attention_plan *plan = NULL;
    if (dnn == NULL || !td_attention_read(q->node, &f)) {
        o->refusal = "cuDNN is not there";
        return TD_OK;
    }
    TD_TRY(td_attention_sizes_of(q->node, &f, q->in, &s, err));
    o->refusal = describe(td_cuda_type_of(q->node->out_type[0]), &f, &s, &a);
    o->refusal = o->refusal == NULL ? td_cudnn_attention_make(dnn, &a, &plan) : o->refusal;
    if (o->refusal == NULL) {
        o->state = plan;
        o->state_bytes = td_cudnn_attention_bytes(plan);
        o->workspace_bytes = td_cudnn_attention_workspace(plan);
    }
    return TD_OK;
}

static void release_cudnn(void *state)
{
    td_cudnn_attention_free(state);
}

/* By our own where the library has lost its plan, or refuses the call. */
static enum td_code run_cudnn(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    bool served = true;
    struct td_cudnn_attention_call call = {.workspace = c->workspace, .stream = td_cuda_stream_of(c)};
    for (int i = 0; i < TD_ATTENTION_TENSORS; i++) {
        call.tensor[i] = c->in[i]->data;
        served = served && td_cudnn_aligned(c->in[i]->data);
    }
    TD_TRY(td_out(c, 0, NULL, &y, err));
    call.tensor[TD_CUDNN_OUTPUT] = y->data;
    if (served && td_cudnn_attend(c->state, &call, &served, err)) {
        return td_err_wrap(err, "%s", c->node->op_name);
    }
    return served ? TD_OK : attend(c, false, y, err);
}

/* ------------------------------------------------------------------ rows */

#define SMALL (TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

static const struct td_kernel rows[] = {
    TD_CUDA_ROW("attention.tf32", .types = {{"T", TD_BIT(TD_FLOAT)}}, .refuse = refuse_others,
                .prepare = prepare_tf32, .run = run_tf32),
    TD_CUDA_ROW("attention.cudnn", .types = {{"T", SMALL}}, .competes = true, .refuse = refuse_others,
                .prepare = prepare_cudnn, .release = release_cudnn, .run = run_cudnn),
    TD_CUDA_ROW("attention.cuda", .types = {{"T", TD_BIT(TD_FLOAT) | SMALL}}, .competes = true,
                .refuse = refuse_others, .run = run),
    {.name = NULL}};

const struct td_op_rows td_cuda_rows_attention[] = {{"_Attention", rows}, {NULL, NULL}};
