/* kernels/linalg/matmul.c - MatMul and the batched products.     x [.., m, k]  *  y [.., k, n]  ->  [.., m,
 * n]
 *
 * All four ops are one computation: a list of equal products whose operands are found by broadcasting the
 * leading dimensions (MatMul has none, BatchMatMul wants them equal). When y is one matrix for the whole list
 * and x is stored as it is used, the list is a single product of more rows, and with oneDNN y is packed once.
 *
 * Floats are rounded before they are multiplied where the model asks for it (kernels/dense/low.h).
 * half and bfloat16 are multiplied in float and rounded once, but where the processor is better at bfloat16
 * itself (kernels/cpu/bfloat16.h); BatchMatMulV3's 8-bit operands in int32.
 * Integers wrap. Bias and activation of a fused node (kernels/fused/fused_kernel.c) are done by oneDNN
 * where it packs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "kernels/linalg/contract_batchable.h"
#include "kernels/linalg/matmul_grad.h"
#include "kernels/dense/dnnl.h"
#include "kernels/dense/dnnl_bf16.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/dense/gemm_panels.h"
#include "kernels/formula/formula.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/upcast.h"

enum { PANEL_COLUMNS = 32, PANEL_WEIGHTS = 64 << 10 }; /* what panels are good for, at least */

/* ------------------------------------------------------------------ what is asked for */

struct flags {
    bool tx, ty, adjoint, broadcast, matrices_only;
};

static struct flags flags_of(const struct td_node *n)
{
    bool plain = strcmp(n->op_name, "MatMul") == 0;
    struct flags f = {.adjoint = !plain, .matrices_only = plain};
    f.tx = td_attr_bool(n, plain ? "transpose_a" : "adj_x");
    f.ty = td_attr_bool(n, plain ? "transpose_b" : "adj_y");
    f.broadcast = strcmp(n->op_name, "BatchMatMul") != 0;
    return f;
}

static enum td_code check_ranks(const struct td_infer *c, const struct flags *f, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *y = &c->in[1];
    for (int i = 0; i < 2; i++) {
        int rank = c->in[i].rank;
        TD_FAIL_IF(rank >= 0 && rank < 2 && !f->matrices_only, err, INVALID_ARGUMENT,
                   "%s: In[%d] ndims must be >= 2: %d", TD_NODE_STR(c->node), i, rank);
    }
    if (x->rank < 0 || y->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(x->rank != y->rank && !(f->broadcast && !f->matrices_only), err, INVALID_ARGUMENT,
               "%s: In[0] and In[1] has different ndims: %s vs. %s", TD_NODE_STR(c->node), TD_SHAPE_STR(x),
               TD_SHAPE_STR(y));
    TD_FAIL_IF(f->matrices_only && x->rank != 2, err, INVALID_ARGUMENT,
               "%s: In[0] and In[1] ndims must be == 2: %d, shapes %s and %s", TD_NODE_STR(c->node), x->rank,
               TD_SHAPE_STR(x), TD_SHAPE_STR(y));
    return TD_OK;
}

static enum td_code batch_shape(const struct td_infer *c, const struct flags *f, struct td_shape *out,
                                struct td_err *err)
{
    struct td_shape x = c->in[0], y = c->in[1];
    x.rank -= 2;
    y.rank -= 2;
    for (int i = 0; i < x.rank && !f->broadcast; i++) {
        TD_FAIL_IF(x.dim[i] >= 0 && y.dim[i] >= 0 && x.dim[i] != y.dim[i], err, INVALID_ARGUMENT,
                   "%s: In[0].dim(%d) and In[1].dim(%d) must be the same: %s vs %s", TD_NODE_STR(c->node), i,
                   i, TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    }
    struct td_err why = {0};
    TD_FAIL_IF(td_shape_broadcast(&x, &y, out, &why), err, INVALID_ARGUMENT,
               "%s: In[0] and In[1] must have compatible batch dimensions: %s vs. %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    return TD_OK;
}

static enum td_code matmul_infer(struct td_infer *c, struct td_err *err)
{
    struct flags f = flags_of(c->node);
    const struct td_shape *x = &c->in[0], *y = &c->in[1];
    TD_TRY(check_ranks(c, &f, err));
    if (x->rank < 0 || y->rank < 0) {
        c->out[0] = f.matrices_only ? td_shape_of_rank(2) : td_shape_unknown();
        if (f.matrices_only && x->rank == 2) {
            c->out[0].dim[0] = x->dim[f.tx];
        } else if (f.matrices_only && y->rank == 2) {
            c->out[0].dim[1] = y->dim[!f.ty];
        }
        return TD_OK;
    }
    int64_t m = x->dim[x->rank - (f.tx ? 1 : 2)], k = x->dim[x->rank - (f.tx ? 2 : 1)];
    int64_t k2 = y->dim[y->rank - (f.ty ? 1 : 2)], n = y->dim[y->rank - (f.ty ? 2 : 1)];
    TD_FAIL_IF(k >= 0 && k2 >= 0 && k != k2, err, INVALID_ARGUMENT,
               "%s: Matrix size-incompatible: In[0]: %s, In[1]: %s", TD_NODE_STR(c->node), TD_SHAPE_STR(x),
               TD_SHAPE_STR(y));
    struct td_shape out;
    TD_TRY(batch_shape(c, &f, &out, err));
    if (out.rank < 0) {
        out = td_shape_unknown();
    } else {
        out.dim[out.rank] = m;
        out.dim[out.rank + 1] = n;
        out.rank += 2;
    }
    c->out[0] = out;
    return TD_OK;
}

/* ------------------------------------------------------------------ the list of products */

struct list {
    struct td_gemm one;    /* sizes and strides of each; a, b, c at the first elements */
    struct td_shape batch; /* of the output */
    int64_t count;
    int64_t x_step[TD_MAX_RANK],
        y_step[TD_MAX_RANK]; /* elements per index of each batch dimension; 0 broadcasts */
    bool one_y;              /* y is the same matrix throughout */
};

static int64_t steps_of(const struct td_shape *s, const struct td_shape *batch, int64_t *step)
{
    int64_t stride = s->dim[s->rank - 1] * s->dim[s->rank - 2], matrices = 1;
    int shift = batch->rank - (s->rank - 2);
    for (int i = batch->rank - 1; i >= 0; i--) {
        int64_t dim = i >= shift ? s->dim[i - shift] : 1;
        step[i] = dim == 1 ? 0 : stride;
        stride *= dim;
        matrices *= dim;
    }
    return matrices;
}

static void list_of(const struct td_node *n, const struct td_shape *x, const struct td_shape *y,
                    const struct td_shape *out, struct list *l)
{
    struct flags f = flags_of(n);
    *l = (struct list){.batch = *out};
    l->batch.rank -= 2;
    l->count = td_shape_count(&l->batch);
    enum td_trans transposed = f.adjoint ? TD_ADJOINT : TD_TRANSPOSED;
    struct td_gemm *g = &l->one;
    g->ta = f.tx ? transposed : TD_PLAIN;
    g->tb = f.ty ? transposed : TD_PLAIN;
    g->m = out->dim[out->rank - 2];
    g->n = out->dim[out->rank - 1];
    g->k = x->dim[x->rank - (f.tx ? 2 : 1)];
    g->lda = x->dim[x->rank - 1];
    g->ldb = y->dim[y->rank - 1];
    g->ldc = g->n;
    int64_t xs = steps_of(x, &l->batch, l->x_step);
    int64_t ys = steps_of(y, &l->batch, l->y_step);
    l->one_y = ys == 1;
    if (l->one_y && xs == l->count && !f.tx) { /* rows of all matrices are rows of one */
        g->m *= l->count;
        l->batch.rank = 0;
        l->count = 1;
    }
}

/* Whose code multiplies: td_gemm_spread's bodies, or the reference. */
enum body { BODY_SMALL = TD_GEMM_SMALL, BODY_DNNL = TD_GEMM_DNNL, BODY_BLAS = TD_GEMM_BLAS, BODY_PLAIN };

static enum td_code multiply(struct td_call *c, enum body body, enum td_dtype dtype, const struct td_gemm *g,
                             struct td_err *err)
{
    if (body == BODY_PLAIN) {
        td_gemm_plain(dtype, g);
    } else if (dtype != TD_FLOAT) {
        td_gemm_blas(dtype, g);
    } else {
        return td_gemm_spread(c, g, (enum td_gemm_body)body, err);
    }
    return TD_OK;
}

/* Runs the list on operands of the arithmetic type `dtype`. */
static enum td_code run_list(struct td_call *c, struct list *l, enum body body, enum td_dtype dtype,
                             struct td_err *err)
{
    size_t size = td_dtype_size(dtype);
    int64_t index[TD_MAX_RANK] = {0}, x_at = 0, y_at = 0, out_step = l->one.m * l->one.n;
    struct td_gemm g = l->one;
    if (out_step == 0) {
        return TD_OK;
    }
    for (int64_t i = 0; i < l->count; i++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        g.a = (const char *)l->one.a + (size_t)x_at * size;
        g.b = (const char *)l->one.b + (size_t)y_at * size;
        g.c = (char *)l->one.c + (size_t)(i * out_step) * size;
        TD_TRY(multiply(c, body, dtype, &g, err));
        for (int d = l->batch.rank - 1; d >= 0; d--) {
            x_at += l->x_step[d];
            y_at += l->y_step[d];
            if (++index[d] < l->batch.dim[d]) {
                break;
            }
            x_at -= l->x_step[d] * index[d];
            y_at -= l->y_step[d] * index[d];
            index[d] = 0;
        }
    }
    return td_stopped(c) ? td_stop_error(c, err) : TD_OK; /* in the middle of the last product */
}

static enum td_code as_int32(struct td_call *c, const struct td_tensor *t, const void **out,
                             struct td_err *err)
{
    int64_t n = td_tensor_count(t);
    void *room;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(int32_t), &room, err));
    for (int64_t i = 0; i < n; i++) {
        ((int32_t *)room)[i] = t->dtype == TD_INT8 ? TD_DATA(t, int8_t)[i] : TD_DATA(t, uint8_t)[i];
    }
    *out = room;
    return TD_OK;
}

/* Chooses the arithmetic type and brings the operands to it. */
static enum td_code run_any(struct td_call *c, struct list *l, enum body body, struct td_tensor *z,
                            struct td_err *err)
{
    const struct td_tensor *x = c->in[0], *y = c->in[1];
    l->one.a = x->data;
    l->one.b = y->data;
    l->one.c = z->data;
    if (x->dtype == TD_HALF || x->dtype == TD_BFLOAT16) {
        const float *xf, *yf;
        float *zf;
        TD_TRY(td_upcast(c, x, &xf, err));
        TD_TRY(td_upcast(c, y, &yf, err));
        TD_TRY(td_upcast_room(c, z, &zf, err));
        l->one.a = xf;
        l->one.b = yf;
        l->one.c = zf;
        TD_TRY(run_list(c, l, body, TD_FLOAT, err));
        td_downcast(z, zf);
        return TD_OK;
    }
    if (z->dtype == TD_INT32 && x->dtype != TD_INT32) {
        TD_TRY(as_int32(c, x, &l->one.a, err));
        TD_TRY(as_int32(c, y, &l->one.b, err));
    }
    return run_list(c, l, body, z->dtype, err);
}

static enum td_code run_body(struct td_call *c, enum body body, struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    struct list l;
    list_of(c->node, &c->in[0]->shape, &c->in[1]->shape, &z->shape, &l);
    return run_any(c, &l, body, z, err);
}

static enum td_code run_packed(struct td_call *c, struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    return td_dnnl_run(c->state, c, c->in[0]->data, c->in[1], z->data, err);
}
static enum td_code run_bf16(struct td_call *c, struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    return td_dnnl_bf16_run(c->state, c, c->in[0]->data, c->in[1]->data, z->data, err);
}
static enum td_code run_panels(struct td_call *c, struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    struct list l;
    list_of(c->node, &c->in[0]->shape, &c->in[1]->shape, &z->shape, &l);
    l.one.a = c->in[0]->data;
    l.one.c = z->data;
    return td_gemm_panels_run(c->state, c, &l.one, c->in[1], err);
}
static enum td_code run_small(struct td_call *c, struct td_err *err)
{
    return run_body(c, BODY_SMALL, err);
}
static enum td_code run_dnnl(struct td_call *c, struct td_err *err)
{
    return run_body(c, BODY_DNNL, err);
}
static enum td_code run_blas(struct td_call *c, struct td_err *err)
{
    return run_body(c, BODY_BLAS, err);
}
static enum td_code run_plain(struct td_call *c, struct td_err *err)
{
    return run_body(c, BODY_PLAIN, err);
}

/* ------------------------------------------------------------------ which row serves */

/* Where rows are tried against each other, one that is slower as a rule may be faster here. */
static bool is_slower(const struct td_kernel_query *q, bool as_a_rule)
{
    return as_a_rule && q->target.trial_ns == 0;
}

/* A packed primitive where one matrix y meets several rows. */
static enum td_code prepare_packed(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    struct list l;
    list_of(q->node, &q->in[0], &q->in[1], &q->out[0], &l);
    const struct td_gemm *g = &l.one;
    o->refusal = l.count != 1 || !l.one_y        ? "y is not one matrix for all rows"
                 : g->ta != TD_PLAIN             ? "x is transposed"
                 : g->m * g->n == 0 || g->k == 0 ? "there is nothing to multiply"
                 : is_slower(q, td_gemm_is_small(g) || td_gemm_panels_are_faster(g, q))
                     ? "a single row, a small product, or one by our own panels is faster"
                     : NULL;
    const struct td_low exact = {0};
    return o->refusal != NULL ? TD_OK : td_dnnl_matmul_offer(g, &exact, q, true, o, err);
}

/* The same with rounded operands, where the model asks for it; a single row gains too: it reads fewer
 * bytes. */
static enum td_code prepare_low(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    struct list l;
    list_of(q->node, &q->in[0], &q->in[1], &q->out[0], &l);
    const struct td_gemm *g = &l.one;
    const struct td_low low = td_low_of(q->node);
    o->refusal = td_low_refusal(&low);
    if (o->refusal == NULL) {
        o->refusal = l.count != 1 || !l.one_y           ? "y is not one matrix for all rows"
                     : g->ta != TD_PLAIN                ? "x is transposed"
                     : g->m * g->n == 0 || g->k == 0    ? "there is nothing to multiply"
                     : low.negative && !td_low_signed() ? TD_LOW_SIGNED_REFUSAL
                                                        : NULL;
    }
    return o->refusal != NULL ? TD_OK : td_dnnl_matmul_offer(g, &low, q, true, o, err);
}

/* By the processor's instructions for bfloat16. */
static enum td_code prepare_bf16(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    struct list l;
    o->refusal = is_slower(q, td_bfloat16_way() != TD_BFLOAT16_NATIVE) ? TD_BFLOAT16_REFUSAL : NULL;
    if (o->refusal != NULL) {
        return TD_OK;
    }
    list_of(q->node, &q->in[0], &q->in[1], &q->out[0], &l);
    const struct td_dnnl_products p = {
        .one = l.one, .n_batch = l.batch.rank, .batch = l.batch.dim, .x_step = l.x_step, .y_step = l.y_step};
    return td_dnnl_bf16_offer(&p, q, o, err);
}

static enum td_code prepare_small(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    (void)err;
    struct list l;
    list_of(q->node, &q->in[0], &q->in[1], &q->out[0], &l);
    o->refusal = l.one.ta != TD_PLAIN                    ? "x is transposed"
                 : is_slower(q, !td_gemm_is_few(&l.one)) ? "more than a few rows"
                                                         : NULL;
    return TD_OK;
}

/* Panels of weights where one matrix y meets some rows. Those that the second cache holds gain nothing. */
static enum td_code prepare_panels(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    struct list l;
    list_of(q->node, &q->in[0], &q->in[1], &q->out[0], &l);
    const struct td_gemm *g = &l.one;
    o->refusal = l.count != 1 || !l.one_y                    ? "y is not one matrix for all rows"
                 : g->ta != TD_PLAIN                         ? "x is transposed"
                 : g->m * g->n == 0 || g->k == 0             ? "there is nothing to multiply"
                 : g->n < PANEL_COLUMNS                      ? "few columns"
                 : is_slower(q, g->k * g->n < PANEL_WEIGHTS) ? "the weights are small"
                                                             : NULL;
    return o->refusal != NULL ? TD_OK : td_gemm_panels_offer(g, q, o, err);
}

static enum td_code prepare_dnnl(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    (void)err;
    struct list l;
    list_of(q->node, &q->in[0], &q->in[1], &q->out[0], &l);
    o->refusal = l.one.k == 0 ? "there is nothing to multiply" : NULL;
    return TD_OK;
}

/* BatchMatMulV3 multiplies equal types, or 8-bit integers into int32. */
static const char *refuse_mixed(const struct td_node *n)
{
    enum td_dtype a = td_attr_type(n, "Ta"), b = td_attr_type(n, "Tb"), out = td_attr_type(n, "Tout");
    const uint32_t bytes = TD_BIT(TD_INT8) | TD_BIT(TD_UINT8);
    if (td_dtype_in(a, bytes) && td_dtype_in(b, bytes) && out == TD_INT32) {
        return NULL;
    }
    return a == b && a == out && !td_dtype_in(a, bytes)
               ? NULL
               : "operands and result have types that do not go together";
}

/* ------------------------------------------------------------------ table */

#define SET_BLAS (TD_SET_FLOATS | TD_SET_COMPLEX)
#define SET_MATMUL (SET_BLAS | TD_BIT(TD_INT16) | TD_BIT(TD_INT32) | TD_BIT(TD_INT64))
#define SET_V3_IN                                                                                            \
    (TD_SET_NUMBERS & ~(TD_BIT(TD_HALF) | TD_BIT(TD_UINT16) | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64)))

#define SET_SMALL (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

/* Operands rounded; in bfloat16; of one matrix y for all rows, packed, and packed for few rows; few rows;
 * operands as they are, by one library or the other; plain loops. bf16 and so on: sets as the ops' type
 * attributes spell them; no: what refuses mixed types. */
#define ROWS(kname, no, bf16, packed, small, blas, plain)                                                    \
    {.name = kname ".dnnl_low",                                                                              \
     .library = TD_LIB_DNNL,                                                                                 \
     .types = packed,                                                                                        \
     .refuse = no,                                                                                           \
     .prepare = prepare_low,                                                                                 \
     .release = td_dnnl_free,                                                                                \
     .run = run_packed},                                                                                     \
        {.name = kname ".dnnl_bf16",                                                                         \
         .library = TD_LIB_DNNL,                                                                             \
         .types = bf16,                                                                                      \
         .competes = true,                                                                                   \
         .refuse = no,                                                                                       \
         .prepare = prepare_bf16,                                                                            \
         .release = td_dnnl_bf16_free,                                                                       \
         .run = run_bf16},                                                                                   \
        {.name = kname ".dnnl",                                                                              \
         .library = TD_LIB_DNNL,                                                                             \
         .types = packed,                                                                                    \
         .competes = true,                                                                                   \
         .refuse = no,                                                                                       \
         .prepare = prepare_packed,                                                                          \
         .release = td_dnnl_free,                                                                            \
         .run = run_packed},                                                                                 \
        {.name = kname ".panels",                                                                            \
         .library = TD_LIB_OWN,                                                                              \
         .types = packed,                                                                                    \
         .competes = true,                                                                                   \
         .refuse = no,                                                                                       \
         .prepare = prepare_panels,                                                                          \
         .release = td_gemm_panels_free,                                                                     \
         .run = run_panels},                                                                                 \
        {.name = kname ".small",                                                                             \
         .library = TD_LIB_OWN,                                                                              \
         .types = small,                                                                                     \
         .competes = true,                                                                                   \
         .refuse = no,                                                                                       \
         .prepare = prepare_small,                                                                           \
         .run = run_small},                                                                                  \
        {.name = kname ".sgemm",                                                                             \
         .library = TD_LIB_DNNL,                                                                             \
         .types = small,                                                                                     \
         .competes = true,                                                                                   \
         .refuse = no,                                                                                       \
         .prepare = prepare_dnnl,                                                                            \
         .run = run_dnnl},                                                                                   \
        {.name = kname ".openblas",                                                                          \
         .library = TD_LIB_OPENBLAS,                                                                         \
         .types = blas,                                                                                      \
         .competes = true,                                                                                   \
         .refuse = no,                                                                                       \
         .run = run_blas},                                                                                   \
        {.name = kname ".reference", .types = plain, .refuse = no, .run = run_plain},                        \
    {                                                                                                        \
        .name = NULL                                                                                         \
    }
#define T(set)                                                                                               \
    {                                                                                                        \
        {                                                                                                    \
            "T", set                                                                                         \
        }                                                                                                    \
    }
#define PAIR(set)                                                                                            \
    {                                                                                                        \
        {"Ta", set},                                                                                         \
        {                                                                                                    \
            "Tb", set                                                                                        \
        }                                                                                                    \
    }
#define TRIPLE(set, out)                                                                                     \
    {                                                                                                        \
        {"Ta", set}, {"Tb", set},                                                                            \
        {                                                                                                    \
            "Tout", out                                                                                      \
        }                                                                                                    \
    }

static const struct td_kernel matmul_rows[] = {ROWS(
    "matmul", NULL, T(TD_BIT(TD_BFLOAT16)), T(TD_BIT(TD_FLOAT)), T(SET_SMALL), T(SET_BLAS), T(SET_MATMUL))};
static const struct td_kernel batch_rows[] = {ROWS("batch_matmul", NULL, T(TD_BIT(TD_BFLOAT16)),
                                                   T(TD_BIT(TD_FLOAT)), T(SET_SMALL), T(SET_BLAS),
                                                   T(SET_MATMUL))};
static const struct td_kernel v3_rows[] = {ROWS("batch_matmul", refuse_mixed, PAIR(TD_BIT(TD_BFLOAT16)),
                                                PAIR(TD_BIT(TD_FLOAT)), TRIPLE(SET_SMALL, SET_SMALL),
                                                TRIPLE(SET_BLAS, SET_BLAS), TRIPLE(SET_V3_IN, SET_MATMUL))};

/* Many products with one matrix. */
static struct td_value over_slices(struct td_emitter *e, const struct td_node *n, struct td_value all,
                                   const struct td_value *in)
{
    const bool complex = td_dtype_in(n->out_type[0], TD_SET_COMPLEX); /* adj_y is the conjugate, too */
    const bool ty = td_attr_bool(n, "transpose_b");
    return td_attr_bool(n, "transpose_a") || (ty && complex) ? td_no_value
                                                             : td_f_batch_matmul(e, all, in[1], false, ty);
}

/* [a | b] w = a w_a + b w_b, where the rows of w belong to the columns of a and b. Of all values but the last
 * the width must be known. */
static struct td_value apart(struct td_emitter *e, const struct td_node *n)
{
    const struct td_node *join = n->in[0].node;
    const struct td_tensor *axis = join->n_in < 3 || strcmp(join->op_name, "ConcatV2") != 0
                                       ? NULL
                                       : td_known_value(join->in[join->n_in - 1]);
    if (axis == NULL || td_tensor_count(axis) != 1 ||
        (td_tensor_int(axis, 0) != 1 && td_tensor_int(axis, 0) != -1) || td_attr_bool(n, "transpose_a") ||
        td_attr_bool(n, "transpose_b")) {
        return td_no_value;
    }
    int64_t from = 0;
    struct td_value sum = td_no_value;
    for (int i = 0; i < join->n_in - 1; i++) {
        const bool last = i == join->n_in - 2;
        const struct td_shape *s = td_emit_shape(e, join->in[i]);
        if (!last && (s->rank != 2 || s->dim[1] < 0)) {
            return td_no_value;
        }
        const int64_t to = last ? -1 : from + s->dim[1];
        const struct td_value w = td_emit(e, "_Rows", TD_IN(n->in[1]),
                                          TD_ATTRS(TD_ATTR_OF_INT("from", from), TD_ATTR_OF_INT("to", to)));
        const struct td_value part = td_emit(e, "MatMul", TD_IN(join->in[i], w), TD_NO_ATTRS);
        sum = i == 0 ? part : td_f_add(e, sum, part);
        from = to;
    }
    return sum;
}

const struct td_op td_ops_matmul[] = {
    {.name = "MatMul",
     .sig = "(a:T, b:T) -> (product:T) {transpose_a:bool=false; transpose_b:bool=false; T:type; "
            "grad_a:bool=false; "
            "grad_b:bool=false}",
     .vectorize = td_many_matmul,
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .fuse = {.head = true},
     .over_slices = over_slices,
     .apart = apart,
     .batchable = TD_BATCHABLE(td_batchable_matmul),
     .infer = matmul_infer,
     .kernels = matmul_rows,
     .grad = td_matmul_grad},
    {.name = "BatchMatMul",
     .sig = "(x:T, y:T) -> (output:T) {T:type; adj_x:bool=false; adj_y:bool=false; grad_x:bool=false; "
            "grad_y:bool=false}",
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .fuse = {.head = true},
     .batchable = TD_BATCHABLE(td_batchable_batch_matmul),
     .infer = matmul_infer,
     .kernels = batch_rows,
     .grad = td_batch_matmul_grad},
    {.name = "BatchMatMulV2",
     .sig = "(x:T, y:T) -> (output:T) {T:type; adj_x:bool=false; adj_y:bool=false; grad_x:bool=false; "
            "grad_y:bool=false}",
     .vectorize = td_many_batch_matmul,
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .fuse = {.head = true},
     .batchable = TD_BATCHABLE(td_batchable_batch_matmul),
     .infer = matmul_infer,
     .kernels = batch_rows,
     .grad = td_batch_matmul_grad},
    {.name = "BatchMatMulV3",
     .sig = "(x:Ta, y:Tb) -> (output:Tout) {Ta:type; Tb:type; Tout:type; adj_x:bool=false; adj_y:bool=false; "
            "grad_x:bool=false; grad_y:bool=false}",
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .batchable = TD_BATCHABLE(td_batchable_batch_matmul),
     .infer = matmul_infer,
     .kernels = v3_rows,
     .grad = td_batch_matmul_grad},
    {.name = NULL},
};
