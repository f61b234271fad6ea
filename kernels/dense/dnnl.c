/* kernels/dense/dnnl.c - oneDNN (2.6, C API): making primitives, which dnnl_run.c runs. With the other files
 * called dnnl, and low.c, which asks for the processor's instructions, the only one that calls it.
 *
 * Every primitive is created with weights in format `any` and activations in rows (matmul) or channels-last
 * (convolution), so that no activation is ever reordered; where that leaves oneDNN with its reference
 * implementation only (old CPUs, odd stems) activations are left to `any` too and reordered at run; if that
 * is no better, there is no primitive and the caller takes its own path.
 *
 * A primitive may do what follows it (struct td_post of core/graph/kernel.h) while its results are in
 * registers: a bias and a scale a channel as its own bias and in its packed weights, the rest as oneDNN's
 * post-ops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl.h"

#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "kernels/dense/dnnl_base.h"
#include "kernels/dense/dnnl_dims.h"
#include "kernels/dense/dnnl_impl.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ making primitives */

static void drop_primitives(struct td_dnnl *d)
{
    (void)dnnl_primitive_destroy(d->primitive);
    (void)dnnl_primitive_destroy(d->x_in);
    (void)dnnl_primitive_destroy(d->y_out);
    d->primitive = d->x_in = d->y_out = NULL;
}

void td_dnnl_free(void *state)
{
    struct td_dnnl *d = state;
    if (d == NULL) {
        return;
    }
    drop_primitives(d);
    td_dnnl_args_free(d->args);
    td_dnnl_split_fini(&d->split);
    td_dnnl_weights_fini(&d->weights);
    td_free(d);
}

/* Takes over what pd says: layouts, scratch, the primitive and the reorders around it. */
static bool adopt(struct td_dnnl *d, const_dnnl_primitive_desc_t pd)
{
    dnnl_query_t x_md = d->backward ? dnnl_query_diff_dst_md : dnnl_query_src_md;
    dnnl_query_t y_md = d->backward ? dnnl_query_diff_src_md : dnnl_query_dst_md;
    d->x_used = *dnnl_primitive_desc_query_md(pd, x_md, 0);
    d->y_used = *dnnl_primitive_desc_query_md(pd, y_md, 0);
    d->scratch_bytes =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    drop_primitives(d); /* of an attempt that failed half way */
    const dnnl_memory_desc_t *w = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    if (d->whole != NULL) { /* its weights are packed already, its activations lie inside of others */
        d->weights.used = *w;
        return dnnl_memory_desc_equal(w, &d->whole->weights.used) &&
               dnnl_memory_desc_equal(&d->x, &d->x_used) && dnnl_memory_desc_equal(&d->y, &d->y_used) &&
               dnnl_primitive_create(&d->primitive, pd) == dnnl_success;
    }
    const bool by_column = d->posts.scaled || d->posts.stepped;
    d->weights.levels = d->posts.stepped ? td_low_levels(d->low.negative) : 0;
    return td_dnnl_weights_set(&d->weights, w, by_column ? d->y.dims[1] : 0, d->transposed) &&
           td_dnnl_base_reorder_new(&d->x_in, &d->x, &d->x_used) &&
           td_dnnl_base_reorder_new(&d->y_out, &d->y_used, &d->y) &&
           dnnl_primitive_create(&d->primitive, pd) == dnnl_success;
}

static struct td_dnnl *fresh(void)
{
    struct td_dnnl *d = td_dnnl_base_stream() != NULL ? td_calloc(1, sizeof *d) : NULL;
    if (d != NULL) {
        d->x_type = d->y_type = d->type = d->given = dnnl_f32;
    }
    if (d != NULL && !td_dnnl_weights_init(&d->weights)) {
        td_free(d);
        d = NULL;
    }
    if (d != NULL && !td_dnnl_split_init(&d->split)) {
        td_dnnl_weights_fini(&d->weights);
        td_free(d);
        d = NULL;
    }
    return d;
}

static bool bias_layout(struct td_dnnl *d, const dnnl_memory_desc_t *y)
{
    dnnl_dims_t channels = {y->dims[1]};
    return dnnl_memory_desc_init_by_tag(&d->bias, 1, channels, dnnl_f32, dnnl_a) == dnnl_success;
}

typedef bool make_fn(struct td_dnnl *d, dnnl_primitive_attr_t attr, const void *arg);

/* Makes a primitive that does as many of the posts as it can, the most first: d->posts.n of them. */
static bool with_posts(struct td_dnnl *d, const struct td_post *post, int n_post, const dnnl_memory_desc_t *y,
                       make_fn *make, const void *arg)
{
    bool made = false;
    d->posts.stepped = d->low.kind == TD_LOW_INT8;
    for (int n = n_post < TD_DNNL_POSTS ? n_post : TD_DNNL_POSTS; !made && n >= 0; n--) {
        dnnl_primitive_attr_t attr = td_dnnl_base_user_scratch();
        made = td_dnnl_posts_set(attr, post, n, y, &d->posts) && bias_layout(d, y) && make(d, attr, arg);
        (void)dnnl_primitive_attr_destroy(attr);
        if (made && n > 0) {
            memcpy(d->post, post, (size_t)n * sizeof *post);
        }
    }
    return made;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void plan_workspace(struct td_dnnl *d)
{
    d->x_at = aligned(d->scratch_bytes + 64);
    d->y_at = d->x_at + (d->x_in == NULL ? 0 : aligned(dnnl_memory_desc_get_size(&d->x_used)));
    d->low_at = d->y_at + (d->y_out == NULL ? 0 : aligned(dnnl_memory_desc_get_size(&d->y_used)));
    d->workspace_bytes =
        d->low_at + (d->low.kind == TD_LOW_NONE ? 0 : aligned(dnnl_memory_desc_get_size(&d->x)));
}

/* Finishes an offer: packs known weights, or refuses when `made` is false. */
static enum td_code finish(struct td_dnnl *d, bool made, const struct td_kernel_query *q,
                           struct td_kernel_offer *o, struct td_err *err)
{
    if (!made) {
        td_dnnl_free(d);
        o->refusal = "oneDNN has no fast implementation for these shapes";
        return TD_OK;
    }
    const enum td_code rc = td_dnnl_weights_known(&d->weights, q->value[1], err);
    if (rc) {
        td_dnnl_free(d);
        return rc;
    }
    plan_workspace(d);
    o->state = d;
    o->state_bytes = sizeof *d;
    o->workspace_bytes = d->workspace_bytes;
    o->n_posts = d->posts.n;
    return TD_OK;
}

/* A state to be made for many runs; NULL when the row refuses. */
static enum td_code begin(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_dnnl **out,
                          struct td_err *err)
{
    *out = NULL;
    if (!q->lasting) {
        o->refusal = "shapes are found in the run: making a primitive takes longer than it saves";
        return TD_OK;
    }
    *out = fresh();
    return *out == NULL ? td_no_memory(err, sizeof **out, "a oneDNN primitive") : TD_OK;
}

/* The layout that the weights shall have: any, but a chunk has its whole's. */
static bool weights_layout(const struct td_dnnl *d, int rank, const dnnl_dims_t dims, dnnl_memory_desc_t *md)
{
    if (d->whole != NULL) {
        *md = d->whole->weights.used;
        return true;
    }
    return dnnl_memory_desc_init_by_tag(md, rank, dims, d->type, dnnl_format_tag_any) == dnnl_success;
}

/* plain: what no implementation's name may have in it. */
static bool as_product(struct td_dnnl *d, dnnl_primitive_attr_t attr, const void *plain)
{
    dnnl_memory_desc_t any;
    dnnl_dims_t xd = {d->m, d->k}, wd = {d->n, d->k}, yd = {d->m, d->n};
    dnnl_dims_t ws = {d->transposed ? d->k : 1, d->transposed ? 1 : d->n};
    dnnl_inner_product_desc_t op;
    dnnl_primitive_desc_t pd = NULL;
    bool ok = dnnl_memory_desc_init_by_tag(&d->x, 2, xd, d->x_type, dnnl_ab) == dnnl_success &&
              dnnl_memory_desc_init_by_strides(&d->weights.plain, 2, wd, dnnl_f32, ws) == dnnl_success &&
              weights_layout(d, 2, wd, &any) &&
              dnnl_memory_desc_init_by_tag(&d->y, 2, yd, dnnl_f32, dnnl_ab) == dnnl_success &&
              dnnl_inner_product_forward_desc_init(&op, dnnl_forward_inference, &d->x, &any,
                                                   d->posts.bias ? &d->bias : NULL, &d->y) == dnnl_success &&
              dnnl_primitive_desc_create(&pd, &op, attr, td_dnnl_base_engine(), NULL) == dnnl_success &&
              td_dnnl_base_is_fast(pd, plain) && adopt(d, pd);
    (void)dnnl_primitive_desc_destroy(pd);
    return ok;
}

/* x [m,k] as the channels of m cells of one image. */
static bool cells_layout(int64_t cells, int64_t channels, dnnl_memory_desc_t *md)
{
    dnnl_dims_t dims = {1, channels, 1, cells};
    return dnnl_memory_desc_init_by_tag(md, 4, dims, dnnl_f32, dnnl_nhwc) == dnnl_success;
}

/* The product as a convolution that looks at single cells: without AVX-512 oneDNN 2.6 packs no products, but
 * it does those (Zen 3, 128 rows of BERT: 49 GFLOP/s by its dnnl_sgemm, 80 so). Without posts: it would begin
 * its sums with the bias, and a node would round otherwise alone than fused. */
static bool as_cells(struct td_dnnl *d, dnnl_primitive_attr_t attr, const void *arg)
{
    (void)arg;
    dnnl_memory_desc_t any;
    dnnl_dims_t wd = {d->n, d->k, 1, 1}, ones = {1, 1}, zeros = {0, 0};
    dnnl_dims_t ws = {d->transposed ? d->k : 1, d->transposed ? 1 : d->n, d->k * d->n, d->k * d->n};
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t pd = NULL;
    bool ok = d->low.kind == TD_LOW_NONE && cells_layout(d->m, d->k, &d->x) &&
              cells_layout(d->m, d->n, &d->y) &&
              dnnl_memory_desc_init_by_strides(&d->weights.plain, 4, wd, dnnl_f32, ws) == dnnl_success &&
              weights_layout(d, 4, wd, &any) &&
              dnnl_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct, &d->x,
                                                 &any, NULL, &d->y, ones, zeros, zeros) == dnnl_success &&
              dnnl_primitive_desc_create(&pd, &op, attr, td_dnnl_base_engine(), NULL) == dnnl_success &&
              td_dnnl_base_is_fast(pd, "gemm") && adopt(d, pd);
    (void)dnnl_primitive_desc_destroy(pd);
    return ok;
}

/* The layout of y, which the posts go by, of one way or the other. */
static bool product_layout(const struct td_dnnl *d, dnnl_memory_desc_t *y)
{
    dnnl_dims_t dims = {d->m, d->n};
    return dnnl_memory_desc_init_by_tag(y, 2, dims, dnnl_f32, dnnl_ab) == dnnl_success;
}

/* What x and the weights are rounded to. */
static void set_low(struct td_dnnl *d, const struct td_low *low)
{
    d->low = *low;
    if (low->kind == TD_LOW_BFLOAT16) {
        d->x_type = d->type = dnnl_bf16;
    } else if (low->kind == TD_LOW_INT8) {
        d->x_type = low->negative ? dnnl_s8 : dnnl_u8;
        d->type = dnnl_s8;
    }
}

static const char *low_name(const struct td_low *low)
{
    return low->kind == TD_LOW_INT8 ? "dnnl.int8" : low->kind == TD_LOW_BFLOAT16 ? "dnnl.bfloat16" : NULL;
}

enum td_code td_dnnl_matmul_offer(const struct td_gemm *g, const struct td_low *low,
                                  const struct td_kernel_query *q, bool posts, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    struct td_dnnl *d;
    TD_TRY(begin(q, o, &d, err));
    if (d == NULL) {
        return TD_OK;
    }
    d->m = g->m;
    d->k = g->k;
    d->n = g->n;
    d->plain_gemm = true;
    d->transposed = g->tb != TD_PLAIN;
    set_low(d, low);
    o->name = low_name(low);
    dnnl_memory_desc_t y;
    const int n_post = posts ? q->n_post : 0;
    /* Of rounded numbers a plain one is better than none; one that does fewer posts is faster (AMX). */
    const bool ok = (product_layout(d, &y) &&
                     (with_posts(d, q->post, n_post, &y, as_product, "gemm:jit") ||
                      (low->kind != TD_LOW_NONE && with_posts(d, q->post, n_post, &y, as_product, "ref")))) ||
                    (cells_layout(d->m, d->n, &y) && with_posts(d, q->post, 0, &y, as_cells, NULL));
    return finish(d, ok, q, o, err);
}

static bool conv_forward_pd(const struct td_dnnl_dims *s, const dnnl_memory_desc_t *x,
                            const dnnl_memory_desc_t *w, const dnnl_memory_desc_t *bias,
                            const dnnl_memory_desc_t *y, dnnl_primitive_attr_t attr,
                            dnnl_primitive_desc_t *pd)
{
    dnnl_convolution_desc_t op;
    return dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct, x,
                                                      w, bias, y, s->strides, s->dilates, s->before,
                                                      s->after) == dnnl_success &&
           dnnl_primitive_desc_create(pd, &op, attr, td_dnnl_base_engine(), NULL) == dnnl_success;
}

static bool conv_backward_pd(const struct td_dnnl_dims *s, const dnnl_memory_desc_t *dx,
                             const dnnl_memory_desc_t *w, const dnnl_memory_desc_t *dy,
                             dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_desc_t hint = NULL;
    dnnl_convolution_desc_t op;
    bool ok =
        conv_forward_pd(s, dx, w, NULL, dy, attr, &hint) &&
        dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, dx, w, dy, s->strides,
                                                         s->dilates, s->before, s->after) == dnnl_success &&
        dnnl_primitive_desc_create(pd, &op, attr, td_dnnl_base_engine(), hint) == dnnl_success;
    (void)dnnl_primitive_desc_destroy(hint);
    return ok;
}

/* Whether a window lies wholly in the padding. oneDNN 2.6 skips it together with its place in the operand of
 * a binary post-op: later windows then read the operand of earlier ones. */
static bool misses_input(const struct td_dnnl_dims *s)
{
    bool misses = false;
    for (int i = 0; i < s->n_axes; i++) {
        const dnnl_dim_t reach = (s->w[s->w_rank - s->n_axes + i] - 1) * (s->dilates[i] + 1);
        misses |= s->before[i] > reach || (s->y[2 + i] - 1) * s->strides[i] - s->before[i] >= s->x[2 + i];
    }
    return misses;
}

/* With AMX oneDNN 2.6 ends the process there, and writes beyond its scratch over three axes. */
static bool breaks_on_amx(const struct td_dnnl *d, const struct td_dnnl_dims *s)
{
    return !d->backward && (s->n_axes == 3 || misses_input(s));
}

/* Tries a convolution with activations channels-last, then with activations free. */
static bool conv_primitive(struct td_dnnl *d, dnnl_primitive_attr_t attr, const void *arg)
{
    const struct td_dnnl_dims *s = arg;
    dnnl_format_tag_t last = s->n_axes == 2 ? dnnl_nhwc : dnnl_ndhwc;
    int rank = s->n_axes + 2;
    dnnl_memory_desc_t in, out, in_any, out_any, w_any;
    const dnnl_data_type_t x_type = d->x_type, y_type = d->y_type;
    bool ok =
        dnnl_memory_desc_init_by_tag(&in, rank, s->x, x_type, last) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&out, rank, s->y, y_type, last) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&in_any, rank, s->x, x_type, dnnl_format_tag_any) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&out_any, rank, s->y, y_type, dnnl_format_tag_any) == dnnl_success &&
        weights_layout(d, s->w_rank, s->w, &w_any) &&
        dnnl_memory_desc_init_by_strides(&d->weights.plain, s->w_rank, s->w, d->given, s->w_strides) ==
            dnnl_success;
    d->x = d->backward ? out : in;
    d->y = d->backward ? in : out;
    for (int attempt = 0; ok && attempt < 2; attempt++) {
        const dnnl_memory_desc_t *x = attempt == 0 ? &in : &in_any, *y = attempt == 0 ? &out : &out_any;
        dnnl_primitive_desc_t pd = NULL;
        bool made = d->backward
                        ? conv_backward_pd(s, x, &w_any, y, attr, &pd)
                        : conv_forward_pd(s, x, &w_any, d->posts.bias ? &d->bias : NULL, y, attr, &pd);
        bool done =
            made && td_dnnl_base_is_fast(pd, breaks_on_amx(d, s) ? "amx" : "gemm:ref") && adopt(d, pd);
        (void)dnnl_primitive_desc_destroy(pd);
        if (done) {
            return true;
        }
    }
    return false;
}

/* Without AVX-512 a sum with a tensor of the output's shape takes longer in a convolution of oneDNN 2.6
 * than by itself, with all that follows it (Zen 3, ResNet50's residual sums: 1.7 against 1.5 ms). */
static bool adds_slowly(void)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return isa == dnnl_cpu_isa_sse41 || isa == dnnl_cpu_isa_avx || isa == dnnl_cpu_isa_avx2 ||
           isa == dnnl_cpu_isa_avx2_vnni;
}

/* The posts in front of the first whose operand is as large as the output. */
static int without_elements(const struct td_post *post, int n)
{
    int k = 0;
    while (k < n && !(post[k].kind >= TD_POST_ADD && post[k].operand == TD_POST_ELEMENT)) {
        k++;
    }
    return k;
}

/* The filter is input 1, forward and backward. */
static void set_types(struct td_dnnl *d, const struct td_kernel_query *q, enum td_bfloat16_way way)
{
    const struct td_value filter = q->node->in[1];
    if (filter.node->out_type[filter.port] == TD_BFLOAT16) {
        d->given = dnnl_bf16;
        d->x_type = d->y_type = d->type = way == TD_BFLOAT16_NATIVE ? dnnl_bf16 : dnnl_f32;
    }
}

/* What conv_offer is asked for. */
struct conv_wish {
    bool backward;
    int n_post;
    enum td_bfloat16_way way;
    struct td_low low;
};

static enum td_code conv_offer(const struct td_conv *g, struct conv_wish wish,
                               const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_dnnl *d;
    TD_TRY(begin(q, o, &d, err));
    if (d == NULL) {
        return TD_OK;
    }
    d->backward = wish.backward;
    d->conv = *g;
    set_types(d, q, wish.way);
    set_low(d, &wish.low);
    o->name = low_name(&wish.low);
    struct td_dnnl_dims s;
    td_dnnl_dims_of(g, &s);
    const int n_post =
        misses_input(&s) || adds_slowly() ? without_elements(q->post, wish.n_post) : wish.n_post;
    dnnl_memory_desc_t y;
    dnnl_format_tag_t last = s.n_axes == 2 ? dnnl_nhwc : dnnl_ndhwc;
    bool ok = dnnl_memory_desc_init_by_tag(&y, s.n_axes + 2, s.y, d->y_type, last) == dnnl_success &&
              with_posts(d, q->post, n_post, &y, conv_primitive, &s);
    return finish(d, ok, q, o, err);
}

enum td_code td_dnnl_conv_offer(const struct td_conv *g, const struct td_kernel_query *q, bool posts,
                                enum td_bfloat16_way way, struct td_kernel_offer *o, struct td_err *err)
{
    const struct conv_wish wish = {.n_post = posts ? q->n_post : 0, .way = way};
    return conv_offer(g, wish, q, o, err);
}

enum td_code td_dnnl_conv_low_offer(const struct td_conv *g, const struct td_low *low,
                                    const struct td_kernel_query *q, bool posts, struct td_kernel_offer *o,
                                    struct td_err *err)
{
    const struct conv_wish wish = {.n_post = posts ? q->n_post : 0, .way = TD_BFLOAT16_AS_FLOAT, .low = *low};
    return conv_offer(g, wish, q, o, err);
}

enum td_code td_dnnl_deconv_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                  enum td_bfloat16_way way, struct td_kernel_offer *o, struct td_err *err)
{
    return conv_offer(g, (struct conv_wish){.backward = true, .way = way}, q, o, err);
}

/* ------------------------------------------------------------------ chunks */

/* A chunk does what its whole does to its output, or there is no chunk. */
static struct td_dnnl *chunk_finish(struct td_dnnl *d, const dnnl_memory_desc_t *y, make_fn *make,
                                    const void *arg)
{
    const struct td_dnnl *whole = d->whole;
    d->weights.columns = whole->weights.columns;
    set_low(d, &whole->low);
    if (!with_posts(d, whole->post, whole->posts.n, y, make, arg) || d->posts.n != whole->posts.n) {
        td_dnnl_free(d);
        return NULL;
    }
    return d;
}

struct td_dnnl *td_dnnl_chunk_matmul(const struct td_dnnl *whole, int64_t rows)
{
    struct td_dnnl *d = fresh();
    dnnl_memory_desc_t y;
    if (d == NULL) {
        return NULL;
    }
    const bool cells = whole->y.ndims != 2;
    d->whole = whole;
    d->m = rows;
    d->k = whole->k;
    d->n = whole->n;
    d->transposed = whole->transposed;
    if (!(cells ? cells_layout(rows, d->n, &y) : product_layout(d, &y))) {
        td_dnnl_free(d);
        return NULL;
    }
    return chunk_finish(d, &y, cells ? as_cells : as_product,
                        whole->low.kind == TD_LOW_NONE ? "gemm:jit" : "ref");
}

struct td_dnnl *td_dnnl_chunk_conv(const struct td_dnnl *whole, const struct td_conv *g)
{
    struct td_dnnl *d = fresh();
    dnnl_memory_desc_t y;
    struct td_dnnl_dims s;
    td_dnnl_dims_of(g, &s);
    dnnl_format_tag_t last = s.n_axes == 2 ? dnnl_nhwc : dnnl_ndhwc;
    if (d == NULL || s.n_axes + 2 != whole->y.ndims ||
        dnnl_memory_desc_init_by_tag(&y, s.n_axes + 2, s.y, whole->y_type, last) != dnnl_success) {
        td_dnnl_free(d);
        return NULL;
    }
    d->whole = whole;
    d->x_type = whole->x_type;
    d->y_type = whole->y_type;
    d->type = whole->type;
    d->given = whole->given;
    d->backward = whole->backward;
    d->conv = *g;
    return chunk_finish(d, &y, conv_primitive, &s);
}

/* ------------------------------------------------------------------ the library itself */

bool td_dnnl_gemm(const struct td_gemm *g)
{
    return td_dnnl_base_stream() != NULL && g->k > 0 &&
           dnnl_sgemm(g->ta == TD_PLAIN ? 'N' : 'T', g->tb == TD_PLAIN ? 'N' : 'T', g->m, g->n, g->k, 1, g->a,
                      g->lda, g->b, g->ldb, g->add ? 1 : 0, g->c, g->ldc) == dnnl_success;
}

void td_kernels_machine(char *text, size_t bytes)
{
    unsigned name[12] = {0};
#if defined(__x86_64__)
    for (unsigned i = 0; i < 3; i++) {
        (void)__get_cpuid(0x80000002u + i, &name[4 * i], &name[4 * i + 1], &name[4 * i + 2],
                          &name[4 * i + 3]);
    }
#endif
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, bytes, "%.48s; oneDNN %d.%d.%d for %d", (const char *)name, v->major, v->minor, v->patch,
             (int)dnnl_get_effective_cpu_isa());
}

void td_kernels_warm(void)
{
    enum { SIDE = 32 };
    float a[SIDE * SIDE] = {0}, c[SIDE * SIDE];
    const struct td_gemm g = {
        .m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = a, .c = c, .lda = SIDE, .ldb = SIDE, .ldc = SIDE};
    unsigned long before = td_float_mode_enter();
    (void)td_dnnl_gemm(&g);
    td_float_mode_leave(before);
}

void td_kernels_trim(void)
{
    int most = 0;
    if (dnnl_get_primitive_cache_capacity(&most) == dnnl_success) {
        (void)dnnl_set_primitive_cache_capacity(0);
        (void)dnnl_set_primitive_cache_capacity(most);
    }
}

struct td_dnnl *td_dnnl_product_of(const struct td_dnnl *conv, int64_t cells)
{
    struct td_dnnl *d = fresh();
    dnnl_memory_desc_t y;
    if (d == NULL) {
        return NULL;
    }
    d->m = cells;
    d->k = conv->conv.ic;
    d->n = conv->conv.oc;
    d->plain_gemm = true;
    if (!product_layout(d, &y) || !with_posts(d, conv->post, conv->posts.n, &y, as_product, "gemm:jit") ||
        d->posts.n != conv->posts.n) {
        td_dnnl_free(d);
        return NULL;
    }
    return d;
}
