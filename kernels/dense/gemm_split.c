/* kernels/dense/gemm_split.c - one large product of floats on several threads: its columns or its rows in
 * chunks.
 *
 * Columns when there are more of them: a library copies its operands into blocks, so that the larger one had
 * better be copied once. What products take is learnt by size, a power of two at a time, for all models
 * together: the operands come as they are, so there is nothing else to know of a product.
 *
 * A product of several times 2^LONG multiplications, which are half a second or more, is computed in parts of
 * about so many, one after the other, so that a run can be stopped between them. (Smaller parts would cost a
 * fifth: the operand that is not cut is copied for each.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/thread_pool.h"
#include "core/graph/graph.h"
#include "kernels/dense/dnnl.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/dense/gemm_panels.h"

enum { STEP = 16 /* columns and rows of a chunk, a multiple */, SMALLEST = 18 };
enum { LONG = 35, MOST_PARTS = 4096 };

static struct td_parallel_cost
    costs[TD_PARALLEL_CLASSES]; /* by the binary logarithm of the multiplications */

struct job {
    const struct td_gemm *g;
    enum td_gemm_body body;
    bool by_columns;
    int n; /* chunks */
    atomic_bool helped, failed;
};

static bool run_one(const struct td_gemm *g, enum td_gemm_body body)
{
    if (body == TD_GEMM_DNNL) {
        return td_dnnl_gemm(g);
    }
    if (body == TD_GEMM_SMALL) {
        td_gemm_small(g);
    } else if (body == TD_GEMM_PANELS) {
        td_gemm_panels(g, NULL);
    } else {
        td_gemm_blas(TD_FLOAT, g);
    }
    return true;
}

/* Piece i of the rows or columns: [*from, *to). */
static void bounds(const struct job *j, int i, int64_t *from, int64_t *to)
{
    const int64_t all = j->by_columns ? j->g->n : j->g->m;
    const int64_t step = j->body == TD_GEMM_PANELS && j->by_columns ? TD_PANEL : STEP;
    const int64_t steps = (all + step - 1) / step;
    *from = steps * i / j->n * step;
    *to = i + 1 == j->n ? all : steps * (i + 1) / j->n * step;
}

static struct td_gemm chunk_of(const struct job *j, int i)
{
    struct td_gemm part = *j->g;
    int64_t from, to;
    bounds(j, i, &from, &to);
    if (j->by_columns) {
        part.n = to - from;
        const bool in_rows = part.tb == TD_PLAIN && j->body != TD_GEMM_PANELS;
        part.b = (const float *)part.b + from * (in_rows ? 1 : part.ldb);
        part.c = (float *)part.c + from;
    } else {
        part.m = to - from;
        part.a = (const float *)part.a + from * (part.ta == TD_PLAIN ? part.lda : 1);
        part.c = (float *)part.c + from * part.ldc;
    }
    return part;
}

static void run_chunk(void *arg, int i, int who)
{
    struct job *j = arg;
    const struct td_gemm part = chunk_of(j, i);
    if (!run_one(&part, j->body)) {
        atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    }
    if (who > 0) {
        atomic_store_explicit(&j->helped, true, memory_order_relaxed);
    }
}

/* As if the product had as many multiplications as the smallest of its class. */
static int64_t scaled(int64_t ns, int size, double work)
{
    return (int64_t)((double)ns * (double)((uint64_t)1 << size) / work);
}

static double work_of(const struct td_gemm *g)
{
    return (double)g->m * (double)g->k * (double)g->n;
}

static bool run_together(struct td_thread_pool *pool, const struct td_gemm *g, enum td_gemm_body body,
                         bool *helped)
{
    const int64_t most = (g->n > g->m ? g->n : g->m) / (2 * STEP);
    struct job j = {.g = g, .body = body, .by_columns = g->n >= g->m};
    j.n = td_parallel_parts(work_of(g), pool->most);
    j.n = j.n < most ? j.n : (int)most;
    td_parallel_for(pool, j.n, run_chunk, &j);
    *helped = atomic_load(&j.helped);
    return !atomic_load(&j.failed);
}

/* On this thread and those that idle. False when the library failed. */
static bool spread(struct td_call *c, const struct td_gemm *g, enum td_gemm_body body)
{
    struct td_thread_pool *pool = td_helpers(c);
    const double work = work_of(g);
    if (pool == NULL || work < (double)(1 << SMALLEST) || (g->n < 4 * STEP && g->m < 4 * STEP) ||
        (!pool->steady && pool->idle(pool) == 0)) {
        return run_one(g, body);
    }
    const int size = td_parallel_class(work);
    struct td_parallel_cost *cost = &costs[size];
    const enum td_parallel_way way =
        pool->steady ? td_parallel_by_work(work)
                     : td_parallel_choose(cost, pool, td_timing_known(&cost->alone_ns) / 2);
    const int64_t from_ns = way == TD_PARALLEL_ALONE ? 0 : td_now_ns();
    bool helped = false;
    const bool ok = way == TD_PARALLEL_TOGETHER ? run_together(pool, g, body, &helped) : run_one(g, body);
    if (ok && (helped || way == TD_PARALLEL_ALONE_TIMED)) {
        td_timing_learn(helped ? &cost->together_ns : &cost->alone_ns,
                        scaled(td_now_ns() - from_ns, size, work));
    }
    return ok;
}

enum td_code td_gemm_spread(struct td_call *c, const struct td_gemm *g, enum td_gemm_body body,
                            struct td_err *err)
{
    struct job j = {.g = g, .body = body, .by_columns = g->n >= g->m};
    const double parts = work_of(g) / (double)((int64_t)1 << LONG);
    const int64_t most = (j.by_columns ? g->n : g->m) / (8 * STEP);
    bool ok = true;
    if (parts < 2 || most < 2) {
        ok = spread(c, g, body);
    } else {
        const double some = parts < MOST_PARTS ? parts : MOST_PARTS;
        j.n = (int)(some < (double)most ? some : (double)most);
        for (int i = 0; i < j.n && ok && !td_stopped(c); i++) {
            const struct td_gemm part = chunk_of(&j, i);
            ok = spread(c, &part, body);
        }
    }
    TD_FAIL_IF(!ok, err, RESOURCE_EXHAUSTED, "%s: oneDNN could not multiply", TD_NODE_STR(c->node));
    return TD_OK;
}
