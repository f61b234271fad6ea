/* kernels/cuda/math/matmul.c - rows of MatMul and BatchMatMul.
 *
 * cuBLASLt is asked first (kernels/cuda/base/cublaslt.h), for the algorithm that it thinks best; where
 * kernels are tried, two more and our own compete with it. Our own serves what it does not, and does the
 * first steps of a fused node by itself (kernels/cuda/base/posts.h). The library adds a bias, and a tensor
 * of the result's shape: half and bfloat16 are rounded behind them alone, where the nodes would have been
 * rounded before each, too. It is not asked for ReLU, of which it does not say what becomes of NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/matmul.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/libraries.h"
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

/* ------------------------------------------------------------------ our own */

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_cuda_product s;
    o->refusal =
        describe(q->node, &q->in[0], &q->in[1], &q->out[0], &s) ? NULL : "more than eight dimensions";
    return o->refusal == NULL ? td_cuda_posts_take(q, o, err) : TD_OK;
}

static enum td_code run_own(struct td_call *c, const struct td_cuda_posts *posts, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_product s;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *a = c->in[0], *b = c->in[1];
    TD_FAIL_IF(!describe(c->node, &a->shape, &b->shape, &y->shape, &s), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    s.posts = *posts;
    return td_cuda_launched(
        c, td_cuda_matmul(td_cuda_type_of(y->dtype), &s, a->data, b->data, y->data, td_cuda_stream_of(c)),
        err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const struct td_cuda_posts posts = td_cuda_posts_of(c);
    return run_own(c, &posts, err);
}

/* ------------------------------------------------------------------ cuBLASLt */

bool td_cuda_product_for_cublaslt(const struct td_cuda_product *s, enum td_cuda_type type,
                                  struct td_cublaslt_product *p)
{
    *p = (struct td_cublaslt_product){.type = type,
                                      .m = s->m,
                                      .n = s->n,
                                      .k = s->k,
                                      .batches = s->batches,
                                      .a_step = s->batch.rank > 0 ? s->batch.a[0] : 0,
                                      .b_step = s->batch.rank > 0 ? s->batch.b[0] : 0,
                                      .ta = s->a_k != 1,
                                      .tb = s->b_col != 1,
                                      .epilogue = TD_CUBLASLT_PLAIN};
    if (!p->ta && p->b_step == 0 && p->a_step == p->m * p->k) {
        p->m *= p->batches;
        p->batches = 1;
    }
    return s->batch.rank <= 1;
}

static bool is_sum_with(const struct td_kernel_query *q, int i, enum td_post_operand operand)
{
    return i < q->n_post && q->post[i].kind == TD_POST_ADD && q->post[i].operand == operand;
}

/* How many of the first steps behind the product the library does: a bias, and a sum with a tensor. */
static int take_posts(const struct td_kernel_query *q, struct td_cublaslt_product *p)
{
    const bool bias = is_sum_with(q, 0, TD_POST_CHANNEL) && p->type != TD_CUDA_DOUBLE && p->batches == 1;
    p->epilogue = bias ? TD_CUBLASLT_BIAS : TD_CUBLASLT_PLAIN;
    p->adds = is_sum_with(q, bias, TD_POST_ELEMENT);
    return bias + p->adds;
}

static enum td_code prepare_cublaslt(const struct td_kernel_query *q, int choice, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    (void)err;
    const struct td_cublaslt *lt = td_cuda_libraries_of(q->target.device)->cublaslt;
    struct td_cublaslt_plan *plan = NULL;
    struct td_cuda_product s;
    struct td_cublaslt_product p;
    int n_posts = 0;
    o->refusal = lt == NULL                         ? "cuBLASLt is not there"
                 : choice > 0 && q->fastest == NULL ? "it is tried against others alone"
                 : !describe(q->node, &q->in[0], &q->in[1], &q->out[0], &s) ||
                         !td_cuda_product_for_cublaslt(&s, td_cuda_type_of(q->node->out_type[0]), &p)
                     ? "no single step walks through the batches"
                     : NULL;
    if (o->refusal == NULL) {
        n_posts = take_posts(q, &p);
        o->refusal = td_cublaslt_plan_make(lt, &p, choice, &plan);
    }
    if (o->refusal == NULL) {
        o->n_posts = n_posts;
        o->state = plan;
        o->state_bytes = td_cublaslt_plan_bytes(plan);
        o->workspace_bytes = td_cublaslt_plan_workspace(plan);
    }
    return TD_OK;
}

static void release_cublaslt(void *state)
{
    td_cublaslt_plan_free(state);
}

/* What the library would have done behind the product, for our own. */
static struct td_cuda_posts posts_of(const struct td_call *c)
{
    const struct td_cublaslt_product *p = td_cublaslt_plan_product(c->state);
    struct td_cuda_posts posts = {0};
    if (p->epilogue == TD_CUBLASLT_BIAS) {
        posts.post[posts.n] = (struct td_cuda_post){
            .kind = TD_CUDA_POST_ADD, .operand = TD_CUDA_POST_CHANNEL, .at = c->post_in[posts.n]};
        posts.n++;
    }
    if (p->adds) {
        posts.post[posts.n] = (struct td_cuda_post){
            .kind = TD_CUDA_POST_ADD, .operand = TD_CUDA_POST_ELEMENT, .at = c->post_in[posts.n]};
        posts.n++;
    }
    return posts;
}

static enum td_code run_cublaslt(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *a = c->in[0], *b = c->in[1];
    const struct td_cuda_posts posts = posts_of(c);
    const struct td_cublaslt_product *p = td_cublaslt_plan_product(c->state);
    const void *const bias = p->epilogue == TD_CUBLASLT_BIAS ? posts.post[0].at : NULL;
    const void *const added = p->adds ? posts.post[posts.n - 1].at : NULL;
    if (!td_cublaslt_aligned(a->data) || !td_cublaslt_aligned(b->data) || !td_cublaslt_aligned(bias) ||
        !td_cublaslt_aligned(added)) { /* part of another tensor */
        return run_own(c, &posts, err);
    }
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cublaslt_call call = {.a = a->data,
                                          .b = b->data,
                                          .bias = bias,
                                          .added = added,
                                          .y = y->data,
                                          .workspace = c->workspace,
                                          .stream = td_cuda_stream_of(c)};
    return td_cublaslt_multiply(c->state, &call, err) ? td_err_wrap(err, "%s", c->node->op_name) : TD_OK;
}

/* ------------------------------------------------------------------ rows */

TD_CUDA_CHOICES(prepare, prepare_cublaslt(q, choice, o, err))

static const char *of_two_types(const struct td_node *n)
{
    const enum td_dtype t = td_attr_type(n, "Tout");
    return td_attr_type(n, "Ta") != t || td_attr_type(n, "Tb") != t ? "operands of other types" : NULL;
}

#define ROWS(name_, label, attr, no)                                                                         \
    static const struct td_kernel name_[] = {                                                                \
        TD_CUDA_CHOICE_ROWS(label ".cublaslt", prepare, .types = {{attr, TD_CUDA_FLOATS}}, .refuse = no,     \
                            .release = release_cublaslt, .run = run_cublaslt),                               \
        TD_CUDA_ROW(label ".cuda", .types = {{attr, TD_CUDA_FLOATS}}, .competes = true, .refuse = no,        \
                    .prepare = prepare, .release = td_cuda_posts_release, .run = run),                       \
        {.name = NULL}};
ROWS(rows, "matmul", "T", NULL)
ROWS(batch_rows, "batch_matmul", "T", NULL)
ROWS(mixed_rows, "batch_matmul", "Tout", of_two_types)

const struct td_op_rows td_cuda_rows_matmul[] = {{"MatMul", rows},
                                                 {"BatchMatMul", batch_rows},
                                                 {"BatchMatMulV2", batch_rows},
                                                 {"BatchMatMulV3", mixed_rows},
                                                 {NULL, NULL}};
