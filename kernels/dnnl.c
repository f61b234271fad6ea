/* kernels/dnnl.c - the only file that calls oneDNN (2.6, C API).
 *
 * Every primitive is created with weights in format `any` and activations in rows (matmul) or channels-last
 * (convolution), so that no activation is ever reordered; where that leaves oneDNN with its reference
 * implementation only (old CPUs, odd stems) activations are left to `any` too and reordered at run; if that
 * is no better, there is no primitive and the caller takes its own path.
 *
 * Weights meet a primitive in three ways: known when prepared (packed then), the same buffer for the second
 * time (packed and kept), or new (packed into scratch for this run; the buffer is remembered). So a weight
 * that changes at every step costs no kept copies.
 *
 * Threads: one engine for the process; a stream for each thread, which is also told to run on one OpenMP
 * thread. A td_dnnl's mu guards seen and pack. packs_mu guards the list of packed copies; it is a leaf.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl.h"

#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ engine and streams */

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static pthread_key_t stream_key;
static bool usable;

static void stream_gone(void *s)
{
    (void)dnnl_stream_destroy(s);
}

static void engine_start(void)
{
    usable = pthread_key_create(&stream_key, stream_gone) == 0 &&
             dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success;
}

/* The calling thread's stream, or NULL when oneDNN does not start. */
static dnnl_stream_t stream_get(void)
{
    (void)pthread_once(&engine_once, engine_start);
    if (!usable) {
        return NULL;
    }
    dnnl_stream_t s = pthread_getspecific(stream_key);
    if (s == NULL && dnnl_stream_create(&s, engine, dnnl_stream_default_flags) == dnnl_success) {
        omp_set_num_threads(1);
        if (pthread_setspecific(stream_key, s) != 0) {
            (void)dnnl_stream_destroy(s);
            s = NULL;
        }
    }
    return s;
}

/* ------------------------------------------------------------------ packed copies */

struct pack {
    struct pack *next;
    atomic_int users;
    struct td_buffer *source; /* counted */
    const void *source_data;
    dnnl_memory_desc_t layout;
    struct td_buffer *packed;
};
static pthread_mutex_t packs_mu = PTHREAD_MUTEX_INITIALIZER;
static struct pack *packs; /* guarded by packs_mu; short: one a weight and layout */

struct td_dnnl {
    dnnl_primitive_t primitive, packer, x_in, y_out; /* x_in, y_out: reorders of activations, mostly NULL */
    dnnl_memory_desc_t x, x_used, w, w_used, y, y_used;
    size_t scratch_bytes;
    bool must_pack, backward;
    bool plain_gemm, transposed; /* matmul with weights not packed: dnnl_sgemm on them as they are */
    int64_t m, k, n;
    pthread_mutex_t mu;
    struct td_buffer *seen; /* counted: the last weights met */
    struct pack *pack;      /* counted: packed copy of seen */
};

static struct pack *pack_find(const struct td_dnnl *d, const struct td_tensor *w)
{
    for (struct pack *p = packs; p != NULL; p = p->next) {
        if (p->source == w->buf && p->source_data == w->data &&
            dnnl_memory_desc_equal(&p->layout, &d->w_used)) {
            return p;
        }
    }
    return NULL;
}

static void pack_free(struct pack *p)
{
    td_buffer_unref(p->source);
    td_buffer_unref(p->packed);
    td_free(p);
}

/* Unlinks and frees p if it is still listed without users: somebody may have found it again, or freed it
 * already. */
static void pack_bury(struct pack *p)
{
    (void)pthread_mutex_lock(&packs_mu);
    struct pack **at = &packs;
    while (*at != NULL && *at != p) {
        at = &(*at)->next;
    }
    bool dead = *at == p && atomic_load(&p->users) == 0;
    if (dead) {
        *at = p->next;
    }
    (void)pthread_mutex_unlock(&packs_mu);
    if (dead) {
        pack_free(p);
    }
}

static void pack_drop(struct pack *p)
{
    if (p != NULL && atomic_fetch_sub(&p->users, 1) == 1) {
        pack_bury(p);
    }
}

static void *memory_of(const dnnl_memory_desc_t *md, const void *data)
{
    dnnl_memory_t m = NULL;
    return dnnl_memory_create(&m, md, engine, (void *)data) == dnnl_success ? m : NULL;
}

/* Runs a reorder primitive. */
static bool reorder(dnnl_primitive_t r, const dnnl_memory_desc_t *from, const void *x,
                    const dnnl_memory_desc_t *to, void *y)
{
    dnnl_stream_t stream = stream_get();
    dnnl_memory_t a = memory_of(from, x), b = memory_of(to, y);
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, a}, {DNNL_ARG_TO, b}};
    bool ok = stream != NULL && a != NULL && b != NULL &&
              dnnl_primitive_execute(r, stream, 2, args) == dnnl_success &&
              dnnl_stream_wait(stream) == dnnl_success;
    (void)dnnl_memory_destroy(a);
    (void)dnnl_memory_destroy(b);
    return ok;
}

static enum td_code pack_make(const struct td_dnnl *d, const struct td_tensor *w, struct pack **out,
                              struct td_err *err)
{
    struct pack *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return td_no_memory(err, sizeof *p, "packed weights");
    }
    atomic_init(&p->users, 1);
    p->source = td_buffer_ref(w->buf);
    p->source_data = w->data;
    p->layout = d->w_used;
    enum td_code rc = td_buffer_new(dnnl_memory_desc_get_size(&d->w_used), false, &p->packed, err);
    if (rc == TD_OK && !reorder(d->packer, &d->w, w->data, &d->w_used, p->packed->data)) {
        rc = td_fail(err, TD_INTERNAL, "oneDNN could not pack weights of %zu bytes", td_tensor_bytes(w));
    }
    if (rc) {
        pack_free(p);
        return rc;
    }
    *out = p;
    return TD_OK;
}

/* The shared packed copy of w, counted for the caller. */
static enum td_code pack_get(const struct td_dnnl *d, const struct td_tensor *w, struct pack **out,
                             struct td_err *err)
{
    enum td_code rc = TD_OK;
    (void)pthread_mutex_lock(&packs_mu);
    struct pack *p = pack_find(d, w);
    if (p != NULL) {
        atomic_fetch_add(&p->users, 1);
    } else {
        rc = pack_make(d, w, &p, err);
        if (rc == TD_OK) {
            p->next = packs;
            packs = p;
        }
    }
    (void)pthread_mutex_unlock(&packs_mu);
    *out = p;
    return rc;
}

/* Remembers w; *out is its packed copy (counted) when it has been met before, else NULL. */
static enum td_code weights_meet(struct td_dnnl *d, const struct td_tensor *w, struct pack **out,
                                 struct td_err *err)
{
    enum td_code rc = TD_OK;
    *out = NULL;
    if (w->buf == NULL) {
        return TD_OK;
    }
    (void)pthread_mutex_lock(&d->mu);
    if (d->seen != w->buf) {
        td_buffer_unref(d->seen);
        d->seen = td_buffer_ref(w->buf);
        pack_drop(d->pack);
        d->pack = NULL;
    } else if (d->pack == NULL) {
        rc = pack_get(d, w, &d->pack, err);
    }
    if (d->pack != NULL && d->pack->source_data == w->data) {
        atomic_fetch_add(&d->pack->users, 1);
        *out = d->pack;
    }
    (void)pthread_mutex_unlock(&d->mu);
    return rc;
}

/* ------------------------------------------------------------------ making primitives */

void td_dnnl_free(void *state)
{
    struct td_dnnl *d = state;
    if (d == NULL) {
        return;
    }
    (void)dnnl_primitive_destroy(d->primitive);
    (void)dnnl_primitive_destroy(d->packer);
    (void)dnnl_primitive_destroy(d->x_in);
    (void)dnnl_primitive_destroy(d->y_out);
    pack_drop(d->pack);
    td_buffer_unref(d->seen);
    (void)pthread_mutex_destroy(&d->mu);
    td_free(d);
}

static bool make_reorder(dnnl_primitive_t *out, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to)
{
    if (dnnl_memory_desc_equal(from, to)) {
        return true;
    }
    dnnl_primitive_desc_t pd = NULL;
    bool ok = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL) == dnnl_success &&
              dnnl_primitive_create(out, pd) == dnnl_success;
    (void)dnnl_primitive_desc_destroy(pd);
    return ok;
}

/* False when the implementation behind pd is one that other code of ours equals: the reference loops, and (as
 * `plain` for matrix products) the one that calls the same sgemm as td_dnnl_gemm, for which a packed copy
 * would be a waste. */
static bool is_fast(const_dnnl_primitive_desc_t pd, const char *plain)
{
    const char *info = "ref";
    (void)dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &info);
    return strstr(info, "ref") == NULL && strstr(info, plain) == NULL;
}

/* Takes over what pd says: layouts, scratch, the primitive and the reorders around it. */
static bool adopt(struct td_dnnl *d, const_dnnl_primitive_desc_t pd)
{
    dnnl_query_t x_md = d->backward ? dnnl_query_diff_dst_md : dnnl_query_src_md;
    dnnl_query_t y_md = d->backward ? dnnl_query_diff_src_md : dnnl_query_dst_md;
    d->x_used = *dnnl_primitive_desc_query_md(pd, x_md, 0);
    d->y_used = *dnnl_primitive_desc_query_md(pd, y_md, 0);
    d->w_used = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    d->scratch_bytes =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    d->must_pack = !dnnl_memory_desc_equal(&d->w, &d->w_used);
    return make_reorder(&d->packer, &d->w, &d->w_used) && make_reorder(&d->x_in, &d->x, &d->x_used) &&
           make_reorder(&d->y_out, &d->y_used, &d->y) &&
           dnnl_primitive_create(&d->primitive, pd) == dnnl_success;
}

static struct td_dnnl *fresh(void)
{
    struct td_dnnl *d = stream_get() != NULL ? td_calloc(1, sizeof *d) : NULL;
    if (d != NULL && pthread_mutex_init(&d->mu, NULL) != 0) {
        td_free(d);
        d = NULL;
    }
    return d;
}

static dnnl_primitive_attr_t user_scratch(void)
{
    dnnl_primitive_attr_t attr = NULL;
    if (dnnl_primitive_attr_create(&attr) == dnnl_success) {
        (void)dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    }
    return attr;
}

/* Finishes a constructor: packs known weights, or gives up (*out NULL) when `ok` is false. */
static enum td_code finish(struct td_dnnl *d, bool ok, const struct td_tensor *weights, struct td_dnnl **out,
                           struct td_err *err)
{
    *out = NULL;
    if (!ok) {
        td_dnnl_free(d);
        return TD_OK;
    }
    if (weights != NULL && weights->buf != NULL && d->must_pack) {
        d->seen = td_buffer_ref(weights->buf);
        enum td_code rc = pack_get(d, weights, &d->pack, err);
        if (rc) {
            td_dnnl_free(d);
            return rc;
        }
    }
    *out = d;
    return TD_OK;
}

enum td_code td_dnnl_matmul_new(int64_t m, int64_t k, int64_t n, bool transposed,
                                const struct td_tensor *weights, struct td_dnnl **out, struct td_err *err)
{
    *out = NULL;
    struct td_dnnl *d = fresh();
    if (d == NULL) {
        return TD_OK;
    }
    d->m = m;
    d->k = k;
    d->n = n;
    d->plain_gemm = true;
    d->transposed = transposed;
    dnnl_memory_desc_t any;
    dnnl_dims_t xd = {m, k}, wd = {n, k}, ws = {transposed ? k : 1, transposed ? 1 : n}, yd = {m, n};
    dnnl_primitive_attr_t attr = user_scratch();
    dnnl_inner_product_desc_t op;
    dnnl_primitive_desc_t pd = NULL;
    bool ok = dnnl_memory_desc_init_by_tag(&d->x, 2, xd, dnnl_f32, dnnl_ab) == dnnl_success &&
              dnnl_memory_desc_init_by_strides(&d->w, 2, wd, dnnl_f32, ws) == dnnl_success &&
              dnnl_memory_desc_init_by_tag(&any, 2, wd, dnnl_f32, dnnl_format_tag_any) == dnnl_success &&
              dnnl_memory_desc_init_by_tag(&d->y, 2, yd, dnnl_f32, dnnl_ab) == dnnl_success &&
              dnnl_inner_product_forward_desc_init(&op, dnnl_forward_inference, &d->x, &any, NULL, &d->y) ==
                  dnnl_success &&
              dnnl_primitive_desc_create(&pd, &op, attr, engine, NULL) == dnnl_success &&
              is_fast(pd, "gemm") && adopt(d, pd);
    (void)dnnl_primitive_desc_destroy(pd);
    (void)dnnl_primitive_attr_destroy(attr);
    return finish(d, ok, weights, out, err);
}

/* Axes that oneDNN sees: the last two (or all three when the first is really used). */
struct conv_dims {
    int n_axes;
    dnnl_dims_t x, y, w, w_strides, strides, dilates, before, after;
    int w_rank;
};

static void dims_of(const struct td_conv *g, struct conv_dims *s)
{
    const struct td_window *a0 = &g->axis[0];
    bool flat = a0->in == 1 && a0->k == 1 && a0->before == 0 && a0->after == 0 && a0->out == 1;
    s->n_axes = flat ? 2 : 3;
    const struct td_window *axis = &g->axis[3 - s->n_axes];
    int64_t icg = g->ic / g->groups, ocg = g->oc / g->groups, stride = icg * g->oc;
    int at = 0;
    if (g->groups > 1) {
        s->w[at] = g->groups;
        s->w_strides[at++] = ocg;
    }
    s->w[at] = ocg;
    s->w_strides[at++] = 1;
    s->w[at] = icg;
    s->w_strides[at++] = g->oc;
    s->x[0] = s->y[0] = g->batch;
    s->x[1] = g->ic;
    s->y[1] = g->oc;
    s->w_rank = at + s->n_axes;
    for (int i = s->n_axes - 1; i >= 0; i--) {
        s->w[at + i] = axis[i].k;
        s->w_strides[at + i] = stride;
        stride *= axis[i].k;
        s->x[2 + i] = axis[i].in;
        s->y[2 + i] = axis[i].out;
        s->strides[i] = axis[i].stride;
        s->dilates[i] = axis[i].dilation - 1;
        s->before[i] = axis[i].before;
        s->after[i] = axis[i].after;
    }
}

static bool conv_forward_pd(const struct conv_dims *s, const dnnl_memory_desc_t *x,
                            const dnnl_memory_desc_t *w, const dnnl_memory_desc_t *y,
                            dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    dnnl_convolution_desc_t op;
    return dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct, x,
                                                      w, NULL, y, s->strides, s->dilates, s->before,
                                                      s->after) == dnnl_success &&
           dnnl_primitive_desc_create(pd, &op, attr, engine, NULL) == dnnl_success;
}

static bool conv_backward_pd(const struct conv_dims *s, const dnnl_memory_desc_t *dx,
                             const dnnl_memory_desc_t *w, const dnnl_memory_desc_t *dy,
                             dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_desc_t hint = NULL;
    dnnl_convolution_desc_t op;
    bool ok =
        conv_forward_pd(s, dx, w, dy, attr, &hint) &&
        dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, dx, w, dy, s->strides,
                                                         s->dilates, s->before, s->after) == dnnl_success &&
        dnnl_primitive_desc_create(pd, &op, attr, engine, hint) == dnnl_success;
    (void)dnnl_primitive_desc_destroy(hint);
    return ok;
}

/* Tries a convolution with activations channels-last, then with activations free. */
static bool conv_primitive(struct td_dnnl *d, const struct conv_dims *s, dnnl_primitive_attr_t attr)
{
    dnnl_format_tag_t last = s->n_axes == 2 ? dnnl_nhwc : dnnl_ndhwc;
    int rank = s->n_axes + 2;
    dnnl_memory_desc_t in, out, in_any, out_any, w_any;
    bool ok =
        dnnl_memory_desc_init_by_tag(&in, rank, s->x, dnnl_f32, last) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&out, rank, s->y, dnnl_f32, last) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&in_any, rank, s->x, dnnl_f32, dnnl_format_tag_any) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&out_any, rank, s->y, dnnl_f32, dnnl_format_tag_any) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&w_any, s->w_rank, s->w, dnnl_f32, dnnl_format_tag_any) ==
            dnnl_success &&
        dnnl_memory_desc_init_by_strides(&d->w, s->w_rank, s->w, dnnl_f32, s->w_strides) == dnnl_success;
    d->x = d->backward ? out : in;
    d->y = d->backward ? in : out;
    for (int attempt = 0; ok && attempt < 2; attempt++) {
        const dnnl_memory_desc_t *x = attempt == 0 ? &in : &in_any, *y = attempt == 0 ? &out : &out_any;
        dnnl_primitive_desc_t pd = NULL;
        bool made = d->backward ? conv_backward_pd(s, x, &w_any, y, attr, &pd)
                                : conv_forward_pd(s, x, &w_any, y, attr, &pd);
        bool done = made && is_fast(pd, "gemm:ref") && adopt(d, pd);
        (void)dnnl_primitive_desc_destroy(pd);
        if (done) {
            return true;
        }
    }
    return false;
}

static enum td_code conv_new(const struct td_conv *g, bool backward, const struct td_tensor *weights,
                             struct td_dnnl **out, struct td_err *err)
{
    *out = NULL;
    struct td_dnnl *d = fresh();
    if (d == NULL) {
        return TD_OK;
    }
    d->backward = backward;
    struct conv_dims s;
    dims_of(g, &s);
    dnnl_primitive_attr_t attr = user_scratch();
    bool ok = conv_primitive(d, &s, attr);
    (void)dnnl_primitive_attr_destroy(attr);
    return finish(d, ok, weights, out, err);
}

enum td_code td_dnnl_conv_new(const struct td_conv *g, const struct td_tensor *weights, struct td_dnnl **out,
                              struct td_err *err)
{
    return conv_new(g, false, weights, out, err);
}

enum td_code td_dnnl_deconv_new(const struct td_conv *g, const struct td_tensor *weights,
                                struct td_dnnl **out, struct td_err *err)
{
    return conv_new(g, true, weights, out, err);
}

/* ------------------------------------------------------------------ running */

static bool execute(const struct td_dnnl *d, const void *x, const void *w, void *y, void *scratch)
{
    dnnl_stream_t stream = stream_get();
    dnnl_memory_desc_t scratch_md;
    dnnl_dims_t bytes = {(dnnl_dim_t)d->scratch_bytes};
    if (stream == NULL ||
        dnnl_memory_desc_init_by_tag(&scratch_md, 1, bytes, dnnl_u8, dnnl_a) != dnnl_success) {
        return false;
    }
    dnnl_memory_t m[4] = {memory_of(&d->x_used, x), memory_of(&d->w_used, w), memory_of(&d->y_used, y),
                          memory_of(&scratch_md, scratch)};
    dnnl_exec_arg_t args[4] = {{d->backward ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC, m[0]},
                               {DNNL_ARG_WEIGHTS, m[1]},
                               {d->backward ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST, m[2]},
                               {DNNL_ARG_SCRATCHPAD, m[3]}};
    bool ok = m[0] != NULL && m[1] != NULL && m[2] != NULL && m[3] != NULL &&
              dnnl_primitive_execute(d->primitive, stream, 4, args) == dnnl_success &&
              dnnl_stream_wait(stream) == dnnl_success;
    for (int i = 0; i < 4; i++) {
        (void)dnnl_memory_destroy(m[i]);
    }
    return ok;
}

/* Bytes for a reordered activation, or the plain ones when no reorder is needed. */
static enum td_code staging(struct td_call *c, dnnl_primitive_t r, const dnnl_memory_desc_t *md, void **p,
                            struct td_err *err)
{
    return r != NULL ? td_scratch(c, dnnl_memory_desc_get_size(md), p, err) : TD_OK;
}

static enum td_code run_packed(const struct td_dnnl *d, struct td_call *c, const float *x, const void *w,
                               float *y, struct td_err *err)
{
    void *scratch, *xs = (void *)x, *ys = y;
    TD_TRY(td_scratch(c, d->scratch_bytes + 64, &scratch, err));
    TD_TRY(staging(c, d->x_in, &d->x_used, &xs, err));
    TD_TRY(staging(c, d->y_out, &d->y_used, &ys, err));
    bool ok = (d->x_in == NULL || reorder(d->x_in, &d->x, x, &d->x_used, xs)) &&
              execute(d, xs, w, ys, scratch) &&
              (d->y_out == NULL || reorder(d->y_out, &d->y_used, ys, &d->y, y));
    TD_FAIL_IF(!ok, err, INTERNAL, "oneDNN could not run its primitive");
    return TD_OK;
}

bool td_dnnl_gemm(const struct td_gemm *g)
{
    return stream_get() != NULL && g->k > 0 &&
           dnnl_sgemm(g->ta == TD_PLAIN ? 'N' : 'T', g->tb == TD_PLAIN ? 'N' : 'T', g->m, g->n, g->k, 1, g->a,
                      g->lda, g->b, g->ldb, g->add ? 1 : 0, g->c, g->ldc) == dnnl_success;
}

void td_kernels_warm(void)
{
    enum { SIDE = 32 };
    float a[SIDE * SIDE] = {0}, c[SIDE * SIDE];
    const struct td_gemm g = {
        .m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = a, .c = c, .lda = SIDE, .ldb = SIDE, .ldc = SIDE};
    (void)td_dnnl_gemm(&g);
}

/* Weights not met before. */
static enum td_code run_unpacked(const struct td_dnnl *d, struct td_call *c, const float *x, const void *w,
                                 float *y, struct td_err *err)
{
    if (d->plain_gemm) {
        struct td_gemm g = {.tb = d->transposed ? TD_TRANSPOSED : TD_PLAIN,
                            .m = d->m,
                            .n = d->n,
                            .k = d->k,
                            .a = x,
                            .b = w,
                            .c = y,
                            .lda = d->k,
                            .ldb = d->transposed ? d->k : d->n,
                            .ldc = d->n};
        TD_FAIL_IF(!td_dnnl_gemm(&g), err, INTERNAL, "oneDNN could not multiply");
        return TD_OK;
    }
    void *packed;
    TD_TRY(td_scratch(c, dnnl_memory_desc_get_size(&d->w_used), &packed, err));
    TD_FAIL_IF(!reorder(d->packer, &d->w, w, &d->w_used, packed), err, INTERNAL,
               "oneDNN could not pack weights");
    return run_packed(d, c, x, packed, y, err);
}

enum td_code td_dnnl_run(const struct td_dnnl *d, struct td_call *c, const float *x,
                         const struct td_tensor *w, float *y, struct td_err *err)
{
    if (!d->must_pack) {
        return run_packed(d, c, x, w->data, y, err);
    }
    struct pack *p;
    TD_TRY(weights_meet((struct td_dnnl *)d, w, &p, err));
    if (p == NULL) {
        return run_unpacked(d, c, x, w->data, y, err);
    }
    enum td_code rc = run_packed(d, c, x, p->packed->data, y, err);
    pack_drop(p);
    return rc;
}
