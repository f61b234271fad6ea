/* kernels/linalg/einsum.c - Einsum of one or two operands.
 *
 * Each label is an axis; "..." stands for the broadcast dimensions, which get labels of their own. Every
 * operand is first brought to a canonical form: repeated labels become a diagonal, labels nobody else needs
 * are summed away, and the axes are put in the order
 *
 *     left   [batch.., free.., contracted..]          right  [batch.., contracted.., free..]
 *
 * so that the pair is a list of matrix products, whose result is then put in the order the equation asks for.
 * Both steps are one strided copy (gather_axes), skipped when the axes are in place already. A batch axis of
 * size 1 on one side broadcasts by a stride of 0.
 *
 * half and bfloat16 are computed in float. Outputs cannot repeat a label that only one operand lacks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/linalg/contract_batchable.h"
#include "kernels/dense/dnnl.h"
#include "kernels/linalg/einsum_equation.h"
#include "kernels/linalg/einsum_grad.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/ops.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/strided.h"
#include "kernels/cpu/upcast.h"

static enum td_code einsum_infer(struct td_infer *c, struct td_err *err)
{
    struct td_einsum e;
    int64_t size[TD_EINSUM_LABELS];
    bool ready;
    const struct td_shape *in[2] = {&c->in[0], c->n_in > 1 ? &c->in[1] : NULL};
    TD_TRY(td_einsum_analyse(c->node, in, &e, size, &ready, err));
    if (!ready) {
        return TD_OK;
    }
    struct td_shape out = td_shape_of_rank(e.out.n);
    for (int i = 0; i < e.out.n; i++) {
        out.dim[i] = size[e.out.label[i]];
    }
    TD_TRY(td_shape_make(&c->out[0], out.dim, out.rank, err));
    return TD_OK;
}

/* ------------------------------------------------------------------ strided copies */

/* A view of elements: for each of n axes its size and the distance between neighbours. */
struct axes {
    int n;
    int64_t size[2 * TD_MAX_RANK], step[2 * TD_MAX_RANK];
};

static int64_t axes_count(const struct axes *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->n; i++) {
        n *= a->size[i];
    }
    return n;
}

static bool in_place(const struct axes *a)
{
    int64_t step = 1;
    for (int i = a->n - 1; i >= 0; i--) {
        if (a->size[i] != 1 && a->step[i] != step) {
            return false;
        }
        step *= a->size[i];
    }
    return true;
}

struct gather {
    const struct axes *a;
    enum td_dtype type;
    const char *x;
    char *y;
    int cut; /* the axis that ranges are of */
};

/* What has the places [from, to) along the axis `cut`; axes before it have one place. */
static void gather_range(void *arg, int64_t from, int64_t to, int who)
{
    const struct gather *g = arg;
    const int64_t size = (int64_t)td_dtype_size(g->type);
    struct td_strided w = {.rank = 0};
    int64_t dense = axes_count(g->a);
    (void)who;
    for (int d = 0; d < g->a->n; d++) {
        dense /= g->a->size[d];
        td_strided_push(&w, d == g->cut ? to - from : g->a->size[d], dense, g->a->step[d]);
    }
    const int64_t y = g->cut < g->a->n ? from * w.dst[g->cut] : 0,
                  x = g->cut < g->a->n ? from * w.src[g->cut] : 0;
    td_strided_copy(g->type, &w, g->y + y * size, g->x + x * size);
}

/* y = the elements of x that `a` views, densely in order. */
static void gather_axes(const struct td_call *c, void *y, const void *x, const struct axes *a,
                        enum td_dtype type)
{
    const int64_t n = axes_count(a);
    struct gather g = {.a = a, .type = type, .x = x, .y = y};
    while (g.cut < a->n && a->size[g.cut] == 1) {
        g.cut++;
    }
    if (n > 0) {
        const int64_t places = g.cut < a->n ? a->size[g.cut] : 1;
        td_spread(c, places, 1, (double)n / (double)places * 4 * TD_SPREAD_PASS_NS, gather_range, &g);
    }
}

/* ------------------------------------------------------------------ operands in canonical order */

/* Whose code multiplies: td_gemm_spread's bodies, or the reference. */
enum body { BODY_SMALL = TD_GEMM_SMALL, BODY_DNNL = TD_GEMM_DNNL, BODY_BLAS = TD_GEMM_BLAS, BODY_PLAIN };
enum role { BATCH, FREE, CONTRACTED, SUMMED };

struct plan {
    struct td_einsum e;
    int64_t size[TD_EINSUM_LABELS];
    enum td_dtype type; /* of the arithmetic */
    enum body body;
};

static bool has(const struct td_einsum_term *t, int label)
{
    for (int i = 0; i < t->n; i++) {
        if (t->label[i] == label) {
            return true;
        }
    }
    return false;
}

static enum role role_of(const struct td_einsum *e, int operand, int label)
{
    bool other = e->n_in == 2 && has(&e->in[1 - operand], label), out = has(&e->out, label);
    return out ? (other ? BATCH : FREE) : (other ? CONTRACTED : SUMMED);
}

/* Appends the axes of operand k with one role: in output order for what the output has, else in order of the
 * left operand. Batch axes are those of the equation (broadcasting), so both operands have the same. */
static void add_axes(const struct plan *p, int k, const struct td_shape *shape, enum role role,
                     struct axes *a)
{
    const struct td_einsum *e = &p->e;
    const struct td_einsum_term *order = role == BATCH || role == FREE ? &e->out
                                         : role == CONTRACTED          ? &e->in[0]
                                                                       : &e->in[k];
    bool seen[TD_EINSUM_LABELS] = {false};
    for (int i = 0; i < order->n; i++) {
        int l = order->label[i];
        if (seen[l] || !has(&e->in[k], l) || role_of(e, k, l) != role) {
            continue;
        }
        seen[l] = true;
        int64_t step = 0, stride = 1, dim = 1;
        for (int d = shape->rank - 1; d >= 0; d--) {
            if (e->in[k].label[d] == l) { /* a repeated label walks the diagonal */
                step += shape->dim[d] == 1 ? 0 : stride;
                dim = shape->dim[d];
            }
            stride *= shape->dim[d];
        }
        a->size[a->n] = role == SUMMED || role == FREE ? dim : p->size[l];
        a->step[a->n++] = step;
    }
}

static int64_t sum_of(const struct axes *a, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++) {
        n *= a->size[i];
    }
    return n;
}

#define SUM_ROWS(ctype)                                                                                      \
    for (int64_t r = 0; r < rows; r++) {                                                                     \
        ctype sum = 0;                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            sum += ((const ctype *)x)[r * n + i];                                                            \
        }                                                                                                    \
        ((ctype *)y)[r] = sum;                                                                               \
    }                                                                                                        \
    break

/* y[r] = sum of row r; y may be x. Complex rows are summed by parts. */
static void sum_rows(enum td_dtype type, const void *x, void *y, int64_t rows, int64_t n)
{
    switch (type) {
    case TD_FLOAT:
        SUM_ROWS(float);
    case TD_DOUBLE:
        SUM_ROWS(double);
    case TD_INT32:
        SUM_ROWS(uint32_t);
    case TD_INT64:
        SUM_ROWS(uint64_t);
    case TD_COMPLEX64:
        SUM_ROWS(_Complex float);
    default:
        SUM_ROWS(_Complex double);
    }
}

struct operand {
    const void *data;
    int64_t batch, free, contracted;
};

/* Axes of operand k in canonical order, and the sizes of its groups; *summed is what each kept element sums
 * over. */
static void canonical_axes(const struct plan *p, int k, const struct td_shape *shape, struct axes *a,
                           struct operand *o, int64_t *summed)
{
    *a = (struct axes){0};
    add_axes(p, k, shape, BATCH, a);
    int batch = a->n;
    add_axes(p, k, shape, k == 0 ? FREE : CONTRACTED, a);
    int middle = a->n;
    add_axes(p, k, shape, k == 0 ? CONTRACTED : FREE, a);
    int kept = a->n;
    add_axes(p, k, shape, SUMMED, a);
    o->batch = sum_of(a, 0, batch);
    o->free = k == 0 ? sum_of(a, batch, middle) : sum_of(a, middle, kept);
    o->contracted = k == 0 ? sum_of(a, middle, kept) : sum_of(a, batch, middle);
    *summed = sum_of(a, kept, a->n);
}

static enum td_code canonical(struct td_call *c, const struct plan *p, int k, struct operand *o,
                              struct td_err *err)
{
    struct axes a;
    int64_t summed;
    canonical_axes(p, k, &c->in[k]->shape, &a, o, &summed);
    int64_t rows = o->batch * o->free * o->contracted;
    const void *x = c->in[k]->data;
    if (p->type != c->in[k]->dtype) {
        const float *f;
        TD_TRY(td_upcast(c, c->in[k], &f, err));
        x = f;
    }
    o->data = x;
    if (in_place(&a) && summed == 1) {
        return TD_OK;
    }
    size_t cells, bytes;
    TD_FAIL_IF(!td_size_mul((size_t)rows, (size_t)(summed > 0 ? summed : 1), &cells) ||
                   !td_size_mul(cells, td_dtype_size(p->type), &bytes),
               err, RESOURCE_EXHAUSTED, "%s: einsum operand does not fit the address space",
               TD_NODE_STR(c->node));
    void *y;
    TD_TRY(td_scratch(c, bytes, &y, err));
    gather_axes(c, y, x, &a, p->type);
    if (summed != 1) {
        sum_rows(p->type, y, y, rows, summed);
    }
    o->data = y;
    return TD_OK;
}

static enum td_code multiply(struct td_call *c, const struct plan *p, const struct operand *l,
                             const struct operand *r, void *z, struct td_err *err)
{
    size_t size = td_dtype_size(p->type);
    struct td_gemm g = {
        .m = l->free, .n = r->free, .k = l->contracted, .lda = l->contracted, .ldb = r->free, .ldc = r->free};
    for (int64_t b = 0; b < l->batch && g.m * g.n > 0 && !td_stopped(c); b++) {
        g.a = (const char *)l->data + (size_t)(b * g.m * g.k) * size;
        g.b = (const char *)r->data + (size_t)(b * g.k * g.n) * size;
        g.c = (char *)z + (size_t)(b * g.m * g.n) * size;
        if (p->body == BODY_PLAIN) {
            td_gemm_plain(p->type, &g);
        } else if (p->type != TD_FLOAT) {
            td_gemm_blas(p->type, &g);
        } else {
            TD_TRY(td_gemm_spread(c, &g, (enum td_gemm_body)p->body, err));
        }
    }
    return TD_OK;
}

/* How the output views the product [batch.., left free.., right free..]. A repeated output label is a
 * diagonal of the output, which only one-operand equations may ask for: it has a zero elsewhere. */
static void result_axes(const struct plan *p, struct axes *a)
{
    int order[3 * TD_MAX_RANK], n = 0;
    bool seen[TD_EINSUM_LABELS] = {false};
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < p->e.out.n; i++) {
            int l = p->e.out.label[i], k = has(&p->e.in[0], l) ? 0 : 1;
            int group = role_of(&p->e, k, l) == BATCH ? 0 : 1 + k;
            if (group == pass && !seen[l]) {
                seen[l] = true;
                order[n++] = l;
            }
        }
    }
    *a = (struct axes){.n = p->e.out.n};
    for (int i = 0; i < a->n; i++) {
        int64_t step = 1;
        for (int j = n - 1; j >= 0 && order[j] != p->e.out.label[i]; j--) {
            step *= p->size[order[j]];
        }
        a->size[i] = p->size[p->e.out.label[i]];
        a->step[i] = step;
    }
}

static bool repeats(const struct td_einsum_term *t)
{
    for (int i = 0; i < t->n; i++) {
        for (int j = i + 1; j < t->n; j++) {
            if (t->label[i] == t->label[j]) {
                return true;
            }
        }
    }
    return false;
}

/* Writes the diagonal that a repeated output label stands for into a zeroed output. */
static void spread_diagonal(const struct plan *p, const void *x, const struct axes *from, void *y,
                            size_t size)
{
    struct axes to = {0}, src = {0};
    bool seen[TD_EINSUM_LABELS] = {false};
    for (int i = 0; i < p->e.out.n; i++) {
        int l = p->e.out.label[i];
        if (seen[l]) {
            continue;
        }
        seen[l] = true;
        int64_t step = 0, stride = 1;
        for (int d = p->e.out.n - 1; d >= 0; d--) {
            step += p->e.out.label[d] == l ? stride : 0;
            stride *= from->size[d];
        }
        to.size[to.n] = src.size[src.n] = from->size[i];
        to.step[to.n++] = step;
        src.step[src.n++] = from->step[i];
    }
    memset(y, 0, (size_t)axes_count(from) * size);
    int64_t n = axes_count(&to);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at_x = 0, at_y = 0;
        for (int d = to.n - 1; d >= 0; d--) {
            at_x += rest % to.size[d] * src.step[d];
            at_y += rest % to.size[d] * to.step[d];
            rest /= to.size[d];
        }
        memcpy((char *)y + (size_t)at_y * size, (const char *)x + (size_t)at_x * size, size);
    }
}

/* z, the product in canonical order, becomes the output y. */
static void finish(const struct td_call *c, const struct plan *p, const void *z, void *y)
{
    struct axes a;
    size_t size = td_dtype_size(p->type);
    result_axes(p, &a);
    if (repeats(&p->e.out)) {
        spread_diagonal(p, z, &a, y, size);
    } else if (!in_place(&a)) {
        gather_axes(c, y, z, &a, p->type);
    } else if (y != z && axes_count(&a) > 0) {
        memcpy(y, z, (size_t)axes_count(&a) * size);
    }
}

/* Both operands to canonical form and their product into z; a lone operand is its own product. */
static enum td_code product(struct td_call *c, const struct plan *p, void **z, struct td_err *err)
{
    struct operand o[2];
    TD_TRY(canonical(c, p, 0, &o[0], err));
    if (p->e.n_in == 1) {
        *z = (void *)o[0].data;
        return TD_OK;
    }
    if (c->state != NULL) {
        return td_dnnl_run(c->state, c, o[0].data, c->in[1], *z, err);
    }
    TD_TRY(canonical(c, p, 1, &o[1], err));
    TD_TRY(multiply(c, p, &o[0], &o[1], *z, err));
    return td_stopped(c) ? td_stop_error(c, err) : TD_OK;
}

static enum td_code einsum(struct td_call *c, enum body body, struct td_err *err)
{
    struct plan p = {.body = body};
    bool ready;
    struct td_tensor *y;
    const struct td_shape *shapes[2] = {&c->in[0]->shape, c->n_in > 1 ? &c->in[1]->shape : NULL};
    TD_TRY(td_einsum_analyse(c->node, shapes, &p.e, p.size, &ready, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_tensor_count(y);
    if (n == 0) {
        return TD_OK;
    }
    p.type = y->dtype == TD_HALF || y->dtype == TD_BFLOAT16 ? TD_FLOAT : y->dtype;
    size_t size = td_dtype_size(p.type);
    void *to = y->data;
    if (p.type != y->dtype) {
        TD_TRY(td_scratch(c, (size_t)n * size, &to, err));
    }
    struct axes result;
    result_axes(&p, &result);
    void *z = to;
    if (p.e.n_in == 2 && (!in_place(&result) || repeats(&p.e.out))) {
        TD_TRY(td_scratch(c, (size_t)n * size, &z, err));
    }
    TD_TRY(product(c, &p, &z, err));
    finish(c, &p, z, to);
    if (to != y->data) {
        td_downcast(y, to);
    }
    return TD_OK;
}

static enum td_code einsum_small(struct td_call *c, struct td_err *err)
{
    return einsum(c, BODY_SMALL, err);
}
static enum td_code einsum_dnnl(struct td_call *c, struct td_err *err)
{
    return einsum(c, BODY_DNNL, err);
}
static enum td_code einsum_blas(struct td_call *c, struct td_err *err)
{
    return einsum(c, BODY_BLAS, err);
}
static enum td_code einsum_plain(struct td_call *c, struct td_err *err)
{
    return einsum(c, BODY_PLAIN, err);
}

/* ------------------------------------------------------------------ which row serves */

/* The product that the equation comes to at these shapes. */
struct inner {
    struct td_gemm g;
    bool is_product; /* of two operands, with elements */
    bool one_matrix; /* rows times one matrix that lies in canonical order: a dense layer */
};

static enum td_code inner_of(const struct td_kernel_query *q, struct inner *in, struct td_err *err)
{
    struct plan p = {.type = TD_FLOAT};
    bool ready;
    const struct td_shape *shapes[2] = {&q->in[0], q->n_in > 1 ? &q->in[1] : NULL};
    *in = (struct inner){0};
    TD_TRY(td_einsum_analyse(q->node, shapes, &p.e, p.size, &ready, err));
    if (!ready || p.e.n_in != 2) {
        return TD_OK;
    }
    struct operand l, r;
    struct axes a;
    int64_t summed;
    canonical_axes(&p, 0, &q->in[0], &a, &l, &summed);
    canonical_axes(&p, 1, &q->in[1], &a, &r, &summed);
    in->g = (struct td_gemm){
        .m = l.free, .n = r.free, .k = l.contracted, .lda = l.contracted, .ldb = r.free, .ldc = r.free};
    in->is_product = in->g.m * in->g.n > 0 && l.batch > 0;
    in->one_matrix = l.batch == 1 && summed == 1 && in_place(&a);
    return TD_OK;
}

static bool is_slower(const struct td_kernel_query *q, bool as_a_rule)
{
    return as_a_rule && q->target.trial_ns == 0;
}

static enum td_code prepare_packed(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    struct inner in;
    TD_TRY(inner_of(q, &in, err));
    o->refusal = !in.is_product || in.g.k == 0           ? "there is nothing to multiply"
                 : !in.one_matrix                        ? "the right side is not one matrix as it lies"
                 : is_slower(q, td_gemm_is_small(&in.g)) ? "a small product is faster without packing"
                                                         : NULL;
    const struct td_low exact = {0};
    /* the product may still be permuted: it takes no posts */
    return o->refusal != NULL ? TD_OK : td_dnnl_matmul_offer(&in.g, &exact, q, false, o, err);
}

/* The same with rounded operands, where the model asks for it. */
static enum td_code prepare_low(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    const struct td_low low = td_low_of(q->node);
    struct inner in;
    TD_TRY(inner_of(q, &in, err));
    o->refusal = td_low_refusal(&low);
    if (o->refusal == NULL) {
        o->refusal = !in.is_product || in.g.k == 0      ? "there is nothing to multiply"
                     : !in.one_matrix                   ? "the right side is not one matrix as it lies"
                     : low.negative && !td_low_signed() ? TD_LOW_SIGNED_REFUSAL
                                                        : NULL;
    }
    return o->refusal != NULL ? TD_OK : td_dnnl_matmul_offer(&in.g, &low, q, false, o, err);
}

static enum td_code prepare_small(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    struct inner in;
    TD_TRY(inner_of(q, &in, err));
    o->refusal = !in.is_product                         ? "there is nothing to multiply"
                 : is_slower(q, !td_gemm_is_few(&in.g)) ? "more than a few rows"
                                                        : NULL;
    return TD_OK;
}

static enum td_code prepare_product(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                    struct td_err *err)
{
    struct inner in;
    TD_TRY(inner_of(q, &in, err));
    o->refusal = in.is_product && in.g.k > 0 ? NULL : "there is nothing to multiply";
    return TD_OK;
}

#define SET_EINSUM (TD_SET_FLOATS | TD_SET_COMPLEX | TD_BIT(TD_INT32) | TD_BIT(TD_INT64))

const struct td_op td_ops_einsum[] = {
    {.name = "Einsum",
     .sig = "(inputs:N*T) -> (output:T) {equation:string; N:int; T:type}",
     .halves = TD_HALVES_ROUND,
     .flags = TD_OP_HEAVY | TD_OP_PRODUCT,
     .fuse = {.head = true},
     .batchable = TD_BATCHABLE(td_batchable_einsum),
     .infer = einsum_infer,
     .grad = td_einsum_grad,
     .kernels =
         (const struct td_kernel[]){
             {.name = "einsum.dnnl_low",
              .library = TD_LIB_DNNL,
              .types = {{"T", TD_BIT(TD_FLOAT)}},
              .prepare = prepare_low,
              .release = td_dnnl_free,
              .run = einsum_dnnl},
             {.name = "einsum.dnnl",
              .library = TD_LIB_DNNL,
              .types = {{"T", TD_BIT(TD_FLOAT)}},
              .competes = true,
              .prepare = prepare_packed,
              .release = td_dnnl_free,
              .run = einsum_dnnl},
             {.name = "einsum.small",
              .library = TD_LIB_OWN,
              .types = {{"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16)}},
              .competes = true,
              .prepare = prepare_small,
              .run = einsum_small},
             {.name = "einsum.sgemm",
              .library = TD_LIB_DNNL,
              .types = {{"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16)}},
              .competes = true,
              .prepare = prepare_product,
              .run = einsum_dnnl},
             {.name = "einsum.openblas",
              .library = TD_LIB_OPENBLAS,
              .types = {{"T", TD_SET_FLOATS | TD_SET_COMPLEX}},
              .competes = true,
              .prepare = prepare_product,
              .run = einsum_blas},
             {.name = "einsum.reference", .types = {{"T", SET_EINSUM}}, .run = einsum_plain},
             {.name = NULL},
         }},
    {.name = NULL},
};
