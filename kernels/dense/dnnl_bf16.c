/* kernels/dense/dnnl_bf16.c - a matmul primitive on bfloat16, whole or in parts of the rows of x and z.
 *
 * Operands are described as they lie, transposed ones by their strides; where a dimension of the batch is
 * shared it has size 1. oneDNN copies what it wants otherwise into scratch, block by block. On several
 * threads each part has a primitive and scratch of its own: parts are made once, when workers idle for the
 * first time and the whole takes long enough.
 *
 * Threads: any; what is made is immutable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl_bf16.h"

#include <stdatomic.h>

#include "core/base/mem.h"
#include "kernels/dense/dnnl_base.h"
#include "kernels/dense/dnnl_parts.h"

enum {
    MOST_PARTS = 4,
    ALIGN = 64,
    MIN_WORK = 2000000 /* multiplications: less is over before a helper comes */
};

struct unit {
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t x, y, z;
    size_t scratch_bytes;
    int64_t x_at, z_at; /* elements: where its rows begin */
};

struct state {
    struct td_gemm one;
    int rank; /* of the batch, and two */
    dnnl_dims_t batch, x_step, y_step;
    double work; /* multiplications */
    struct unit whole;
    struct td_dnnl_parts parts;
    struct unit part[MOST_PARTS];
};

/* ------------------------------------------------------------------ making */

/* Matrices of rows x columns, `step` elements from one to the next; those that are shared have size 1. */
static bool describe(const struct state *s, const dnnl_dim_t *step, const dnnl_dim_t matrix[2],
                     const dnnl_dim_t stride[2], dnnl_memory_desc_t *md)
{
    dnnl_dims_t dims, strides;
    const int n = s->rank - 2;
    dnnl_dim_t whole =
        matrix[0] * stride[0] > matrix[1] * stride[1] ? matrix[0] * stride[0] : matrix[1] * stride[1];
    for (int i = n - 1; i >= 0; i--) {
        dims[i] = step[i] == 0 ? 1 : s->batch[i];
        strides[i] = step[i] == 0 ? whole : step[i];
        whole = dims[i] * strides[i];
    }
    for (int i = 0; i < 2; i++) {
        dims[n + i] = matrix[i];
        strides[n + i] = stride[i];
    }
    return dnnl_memory_desc_init_by_strides(md, s->rank, dims, dnnl_bf16, strides) == dnnl_success;
}

/* Rows [from, to) of every product. */
static bool unit_make(const struct state *s, int64_t from, int64_t to, struct unit *u)
{
    const struct td_gemm *g = &s->one;
    const bool tx = g->ta != TD_PLAIN, ty = g->tb != TD_PLAIN;
    dnnl_dims_t z_step;
    dnnl_dim_t each = g->m * g->n;
    for (int i = s->rank - 3; i >= 0; i--) {
        z_step[i] = each;
        each *= s->batch[i];
    }
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = td_dnnl_base_user_scratch();
    const bool ok = describe(s, s->x_step, (dnnl_dim_t[]){to - from, g->k},
                             (dnnl_dim_t[]){tx ? 1 : g->lda, tx ? g->lda : 1}, &u->x) &&
                    describe(s, s->y_step, (dnnl_dim_t[]){g->k, g->n},
                             (dnnl_dim_t[]){ty ? 1 : g->ldb, ty ? g->ldb : 1}, &u->y) &&
                    describe(s, z_step, (dnnl_dim_t[]){to - from, g->n}, (dnnl_dim_t[]){g->ldc, 1}, &u->z) &&
                    dnnl_matmul_desc_init(&op, &u->x, &u->y, NULL, &u->z) == dnnl_success &&
                    dnnl_primitive_desc_create(&pd, &op, attr, td_dnnl_base_engine(), NULL) == dnnl_success &&
                    td_dnnl_base_is_fast(pd, "gemm:jit") &&
                    dnnl_primitive_create(&u->primitive, pd) == dnnl_success;
    if (ok) {
        u->scratch_bytes =
            dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
        u->x_at = from * (tx ? 1 : g->lda);
        u->z_at = from * g->ldc;
    }
    (void)dnnl_primitive_desc_destroy(pd);
    (void)dnnl_primitive_attr_destroy(attr);
    return ok;
}

void td_dnnl_bf16_free(void *state)
{
    struct state *s = state;
    if (s == NULL) {
        return;
    }
    for (int i = 0; i < s->parts.n; i++) {
        (void)dnnl_primitive_destroy(s->part[i].primitive);
    }
    (void)dnnl_primitive_destroy(s->whole.primitive);
    td_dnnl_parts_fini(&s->parts);
    td_free(s);
}

static void set(struct state *s, const struct td_dnnl_products *p)
{
    s->one = p->one;
    s->rank = p->n_batch + 2;
    s->work = (double)p->one.m * (double)p->one.n * (double)p->one.k;
    for (int i = 0; i < p->n_batch; i++) {
        s->batch[i] = p->batch[i];
        s->x_step[i] = p->x_step[i];
        s->y_step[i] = p->y_step[i];
        s->work *= (double)p->batch[i];
    }
}

enum td_code td_dnnl_bf16_offer(const struct td_dnnl_products *p, const struct td_kernel_query *q,
                                struct td_kernel_offer *o, struct td_err *err)
{
    if (!q->lasting || td_dnnl_base_stream() == NULL) {
        o->refusal = "shapes are found in the run: making a primitive takes longer than it saves";
        return TD_OK;
    }
    struct state *s = td_calloc(1, sizeof *s);
    if (s == NULL || !td_dnnl_parts_init(&s->parts)) {
        td_free(s);
        return td_no_memory(err, sizeof *s, "a oneDNN primitive");
    }
    set(s, p);
    if (s->work == 0 || p->n_batch + 2 > DNNL_MAX_NDIMS || !unit_make(s, 0, p->one.m, &s->whole)) {
        td_dnnl_bf16_free(s);
        o->refusal = "oneDNN has no fast implementation for these shapes";
        return TD_OK;
    }
    o->state = s;
    o->state_bytes = sizeof *s;
    o->workspace_bytes = s->whole.scratch_bytes + ALIGN;
    return TD_OK;
}

/* ------------------------------------------------------------------ running */

struct job {
    const struct state *s;
    const struct td_call *call;
    const td_bf16 *x, *y;
    td_bf16 *z;
    char *scratch[MOST_PARTS];
    atomic_bool failed, helped;
};

static bool execute(const struct unit *u, const struct job *j, void *scratch)
{
    dnnl_stream_t stream = td_dnnl_base_stream();
    dnnl_memory_desc_t scratch_md;
    dnnl_dims_t bytes = {(dnnl_dim_t)u->scratch_bytes};
    if (stream == NULL ||
        dnnl_memory_desc_init_by_tag(&scratch_md, 1, bytes, dnnl_u8, dnnl_a) != dnnl_success) {
        return false;
    }
    dnnl_memory_t m[4] = {td_dnnl_base_memory(&u->x, j->x + u->x_at), td_dnnl_base_memory(&u->y, j->y),
                          td_dnnl_base_memory(&u->z, j->z + u->z_at),
                          td_dnnl_base_memory(&scratch_md, scratch)};
    const dnnl_exec_arg_t args[4] = {
        {DNNL_ARG_SRC, m[0]}, {DNNL_ARG_WEIGHTS, m[1]}, {DNNL_ARG_DST, m[2]}, {DNNL_ARG_SCRATCHPAD, m[3]}};
    const bool ok = m[0] != NULL && m[1] != NULL && m[2] != NULL && m[3] != NULL &&
                    dnnl_primitive_execute(u->primitive, stream, 4, args) == dnnl_success &&
                    dnnl_stream_wait(stream) == dnnl_success;
    for (int i = 0; i < 4; i++) {
        (void)dnnl_memory_destroy(m[i]);
    }
    return ok;
}

/* Tried once: without all parts there are none. */
static void make_parts(void *whole, int wanted)
{
    struct state *s = whole;
    const int64_t rows = s->one.m, n = wanted < MOST_PARTS ? wanted : MOST_PARTS;
    bool ok = n > 1 && rows >= n;
    for (int64_t i = 0; ok && i < n; i++) {
        ok = unit_make(s, rows * i / n, rows * (i + 1) / n, &s->part[i]);
        s->parts.n += ok;
    }
    while (!ok && s->parts.n > 0) {
        (void)dnnl_primitive_destroy(s->part[--s->parts.n].primitive);
    }
}

static enum td_parallel_way choose(struct state *s, const struct td_call *c)
{
    return td_dnnl_parts_way(
        &s->parts, c,
        &(struct td_dnnl_whole){
            .work = s->work, .least = MIN_WORK, .make = make_parts, .whole = s, .most = MOST_PARTS});
}

static void run_part(void *arg, int i, int who)
{
    struct job *j = arg;
    if (td_stopped(j->call)) {
        return;
    }
    if (!execute(&j->s->part[i], j, j->scratch[i])) {
        atomic_store(&j->failed, true);
    }
    if (who > 0) {
        atomic_store(&j->helped, true);
    }
}

static enum td_code run_parts(struct state *s, struct td_call *c, struct job *j, struct td_err *err)
{
    size_t bytes = ALIGN, at[MOST_PARTS];
    void *room;
    for (int i = 0; i < s->parts.n; i++) {
        at[i] = bytes;
        bytes += (s->part[i].scratch_bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    TD_TRY(td_scratch(c, bytes, &room, err));
    for (int i = 0; i < s->parts.n; i++) {
        j->scratch[i] = (char *)room + at[i];
    }
    const int64_t from_ns = td_now_ns();
    td_parallel_for(td_helpers(c), s->parts.n, run_part, j);
    TD_FAIL_IF(atomic_load(&j->failed), err, INTERNAL, "oneDNN could not run a piece of its primitive");
    if (td_stopped(c)) {
        return td_stop_error(c, err);
    }
    if (atomic_load(&j->helped)) {
        td_timing_learn(&s->parts.cost.together_ns, td_now_ns() - from_ns);
    }
    return TD_OK;
}

enum td_code td_dnnl_bf16_run(const void *state, struct td_call *c, const td_bf16 *x, const td_bf16 *y,
                              td_bf16 *z, struct td_err *err)
{
    struct state *s = (struct state *)state; /* parts and costs are guarded */
    struct job j = {.s = s, .call = c, .x = x, .y = y, .z = z};
    const enum td_parallel_way way = choose(s, c);
    if (way == TD_PARALLEL_TOGETHER) {
        return run_parts(s, c, &j, err);
    }
    const int64_t from_ns = td_now_ns();
    TD_FAIL_IF(!execute(&s->whole, &j, c->workspace), err, INTERNAL, "oneDNN could not run its primitive");
    if (way == TD_PARALLEL_ALONE_TIMED) {
        td_timing_learn(&s->parts.cost.alone_ns, td_now_ns() - from_ns);
    }
    return td_stopped(c) ? td_stop_error(c, err) : TD_OK;
}
