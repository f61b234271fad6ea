/* kernels/dense/conv_loops.c - convolutions as direct loops (the reference) and as patch matrices times
 * filter (fast).
 *
 * Patch matrix of an image: one row an output cell, holding the taps' input cells one after the other, zero
 * where the window hangs over the edge:
 *
 *     patches [rows, taps * ic]  x  w [taps * ic, oc]  =  y [rows, oc]
 *     dy      [rows, oc]         x  w^T                =  patches, added back cell by cell
 *     patches^T                  x  dy                 =  dw
 *
 * Rows are made in blocks that fit the second-level cache. A 1x1 window of stride 1 without padding needs no
 * patches.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/conv_loops.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/thread_pool.h"
#include "core/graph/graph.h"
#include "kernels/cpu/spread.h"
#include "kernels/dense/dnnl.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/cpu/vecmath.h"

/* ------------------------------------------------------------------ walking the taps of an output cell */

enum tap_kind { TAP_FORWARD, TAP_INPUT, TAP_FILTER };

/* State of one output cell: where its window starts, which taps of each axis are inside, and the current tap.
 */
struct tap_walk {
    int64_t image, start[3], from[3], to[3], at[3];
    int64_t in_cell, tap;
    bool first;
};

static void walk_start(struct tap_walk *t, const struct td_conv *g, int64_t cell)
{
    int64_t rest = cell;
    for (int a = 2; a >= 0; a--) {
        const struct td_window *w = &g->axis[a];
        int64_t o = rest % w->out;
        rest /= w->out;
        t->start[a] = o * w->stride - w->before;
        td_window_taps(w, o, &t->from[a], &t->to[a]);
        t->at[a] = t->from[a];
    }
    t->image = rest;
    t->first = true;
}

/* On to the next output cell, without a division. out: the cell's place along each axis. */
static void walk_on(struct tap_walk *t, const struct td_conv *g, int64_t out[3])
{
    int a = 2;
    while (a >= 0 && ++out[a] == g->axis[a].out) {
        out[a--] = 0;
    }
    t->image += a < 0;
    for (a = a < 0 ? 0 : a; a < 3; a++) {
        t->start[a] = out[a] * g->axis[a].stride - g->axis[a].before;
        td_window_taps(&g->axis[a], out[a], &t->from[a], &t->to[a]);
    }
}

static bool walk_next(struct tap_walk *t, const struct td_conv *g)
{
    if (t->first) {
        t->first = false;
        for (int a = 0; a < 3; a++) {
            if (t->from[a] >= t->to[a]) {
                return false;
            }
        }
    } else {
        int a = 2;
        while (a >= 0 && ++t->at[a] == t->to[a]) {
            t->at[a] = t->from[a];
            a--;
        }
        if (a < 0) {
            return false;
        }
    }
    t->in_cell = t->image;
    t->tap = 0;
    for (int a = 0; a < 3; a++) {
        const struct td_window *w = &g->axis[a];
        t->in_cell = t->in_cell * w->in + t->start[a] + t->at[a] * w->dilation;
        t->tap = t->tap * w->k + t->at[a];
    }
    return true;
}

#define T float
#define FN(name) name##_f32
#include "kernels/dense/conv_plain.inc"
#define T double
#define FN(name) name##_f64
#include "kernels/dense/conv_plain.inc"
#define T uint32_t /* int32, wrapping */
#define FN(name) name##_i32
#include "kernels/dense/conv_plain.inc"

static void walk(enum td_dtype dtype, const struct td_conv *g, enum tap_kind kind, const void *x,
                 const void *w, const void *y)
{
    if (g->batch == 0 || td_conv_out_cells(g) == 0) {
        return;
    }
    if (dtype == TD_FLOAT) {
        walk_f32(g, kind, (float *)x, (float *)w, (float *)y);
    } else if (dtype == TD_DOUBLE) {
        walk_f64(g, kind, (double *)x, (double *)w, (double *)y);
    } else {
        walk_i32(g, kind, (uint32_t *)x, (uint32_t *)w, (uint32_t *)y);
    }
}

static void zero(enum td_dtype dtype, void *p, int64_t n)
{
    if (n > 0) {
        memset(p, 0, (size_t)n * td_dtype_size(dtype));
    }
}

void td_conv_forward(enum td_dtype dtype, const struct td_conv *g, const void *x, const void *w, void *y)
{
    zero(dtype, y, g->batch * td_conv_out_cells(g) * g->oc);
    walk(dtype, g, TAP_FORWARD, x, w, y);
}

void td_conv_input_grad(enum td_dtype dtype, const struct td_conv *g, const void *w, const void *dy, void *dx)
{
    zero(dtype, dx, g->batch * td_conv_in_cells(g) * g->ic);
    walk(dtype, g, TAP_INPUT, dx, w, dy);
}

void td_conv_filter_grad(enum td_dtype dtype, const struct td_conv *g, const void *x, const void *dy,
                         void *dw)
{
    zero(dtype, dw, td_conv_taps(g) * (g->ic / g->groups) * g->oc);
    walk(dtype, g, TAP_FILTER, x, dw, dy);
}

/* ------------------------------------------------------------------ patch matrices */

bool td_conv_is_pointwise(const struct td_conv *g)
{
    for (int a = 0; a < 3; a++) {
        const struct td_window *w = &g->axis[a];
        if (w->k != 1 || w->stride != 1 || w->before != 0 || w->after != 0) {
            return false;
        }
    }
    return true;
}

/* Taps of a cell's patch that meet cells of x which lie one behind the other, as they do in a patch. */
struct run {
    float *patch; /* of the first */
    int64_t x;    /* floats */
    int64_t n;    /* floats */
};

typedef void run_fn(const struct run *r, float *x);

/* fn of each run of the patches [rows, taps * ic] of output cells [cell, cell + rows). */
TD_INLINE void each_run(const struct td_conv *g, int64_t cell, int64_t rows, float *patches, float *x,
                        run_fn *fn)
{
    const struct td_window *w = g->axis;
    const int64_t width = td_conv_taps(g) * g->ic;
    struct tap_walk t;
    int64_t out[3] = {cell / w[2].out / w[1].out % w[0].out, cell / w[2].out % w[1].out, cell % w[2].out};
    walk_start(&t, g, cell);
    for (int64_t r = 0; r < rows; r++, patches += width) {
        const int64_t taps = t.to[2] - t.from[2], step = w[2].dilation == 1 ? taps : 1;
        for (int64_t a = t.from[0]; a < t.to[0]; a++) {
            for (int64_t b = t.from[1]; b < t.to[1]; b++) {
                const int64_t line = (t.image * w[0].in + t.start[0] + a * w[0].dilation) * w[1].in +
                                     t.start[1] + b * w[1].dilation;
                for (int64_t k = 0; k < taps; k += step) {
                    const int64_t tap = t.from[2] + k;
                    const struct run run = {patches + ((a * w[1].k + b) * w[2].k + tap) * g->ic,
                                            (line * w[2].in + t.start[2] + tap * w[2].dilation) * g->ic,
                                            step * g->ic};
                    fn(&run, x);
                }
            }
        }
        walk_on(&t, g, out);
    }
}

TD_INLINE void copy_run(const struct run *r, float *x)
{
    memcpy(r->patch, x + r->x, (size_t)r->n * sizeof *x);
}

TD_INLINE void add_run(const struct run *r, float *x)
{
    typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
    float *to = x + r->x;
    int64_t i = 0;
    for (; i + 4 <= r->n; i += 4) { /* runs are short */
        *(four *)(to + i) += *(const four *)(r->patch + i);
    }
    for (; i < r->n; i++) {
        to[i] += r->patch[i];
    }
}

void td_conv_patches(const struct td_conv *g, const float *x, int64_t cell, int64_t rows, float *patches)
{
    memset(patches, 0, (size_t)(rows * td_conv_taps(g) * g->ic) * sizeof *patches);
    each_run(g, cell, rows, patches, (float *)x, copy_run);
}

static void add_patches(const struct td_conv *g, float *dx, int64_t cell, int64_t rows, const float *patches)
{
    each_run(g, cell, rows, (float *)patches, dx, add_run);
}

/* Output cells whose patches take about 512 KiB; at least one. */
static int64_t block_rows(const struct td_conv *g)
{
    int64_t bytes = td_conv_taps(g) * g->ic * (int64_t)sizeof(float),
            rows = 512 * 1024 / (bytes > 0 ? bytes : 1);
    int64_t all = g->batch * td_conv_out_cells(g);
    rows = rows < 64 ? 64 : rows;
    return rows < all ? rows : all;
}

static enum td_code patch_room(struct td_call *c, const struct td_conv *g, float **patches,
                               struct td_err *err)
{
    size_t cells, bytes;
    TD_FAIL_IF(!td_size_mul((size_t)block_rows(g), (size_t)(td_conv_taps(g) * g->ic), &cells) ||
                   !td_size_mul(cells, sizeof(float), &bytes),
               err, RESOURCE_EXHAUSTED, "convolution patches do not fit the address space");
    void *room;
    TD_TRY(td_scratch(c, bytes, &room, err));
    *patches = room;
    return TD_OK;
}

enum td_code td_conv_forward_gemm(struct td_call *c, const struct td_conv *g, const float *x, const float *w,
                                  float *y, struct td_err *err)
{
    int64_t cells = g->batch * td_conv_out_cells(g), width = td_conv_taps(g) * g->ic;
    struct td_gemm m = {
        .m = cells, .n = g->oc, .k = width, .a = x, .b = w, .c = y, .lda = width, .ldb = g->oc, .ldc = g->oc};
    if (td_conv_is_pointwise(g)) {
        td_gemm_f32(&m);
        return TD_OK;
    }
    float *patches;
    TD_TRY(patch_room(c, g, &patches, err));
    for (int64_t cell = 0, step = block_rows(g); cell < cells; cell += step) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        m.m = step < cells - cell ? step : cells - cell;
        td_conv_patches(g, x, cell, m.m, patches);
        m.a = patches;
        m.c = y + cell * g->oc;
        td_gemm_f32(&m);
    }
    return TD_OK;
}

enum td_code td_conv_input_grad_gemm(struct td_call *c, const struct td_conv *g, const float *w,
                                     const float *dy, float *dx, struct td_err *err)
{
    int64_t cells = g->batch * td_conv_out_cells(g), width = td_conv_taps(g) * g->ic;
    struct td_gemm m = {.tb = TD_TRANSPOSED,
                        .m = cells,
                        .n = width,
                        .k = g->oc,
                        .a = dy,
                        .b = w,
                        .c = dx,
                        .lda = g->oc,
                        .ldb = g->oc,
                        .ldc = width};
    if (td_conv_is_pointwise(g)) {
        td_gemm_f32(&m);
        return TD_OK;
    }
    float *patches;
    TD_TRY(patch_room(c, g, &patches, err));
    zero(TD_FLOAT, dx, g->batch * td_conv_in_cells(g) * g->ic);
    for (int64_t cell = 0, step = block_rows(g); cell < cells; cell += step) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        m.m = step < cells - cell ? step : cells - cell;
        m.a = dy + cell * g->oc;
        m.c = patches;
        td_gemm_f32(&m);
        add_patches(g, dx, cell, m.m, patches);
    }
    return TD_OK;
}

/* Images of a batch, each by a thread of its own. */
struct images {
    const struct td_conv *g;
    const float *w, *dy;
    float *dx, *patches; /* of thread 0 */
    int64_t block, room; /* cells, floats */
    atomic_bool failed;
};

static void images_back(void *arg, int64_t from, int64_t to, int who)
{
    struct images *j = arg;
    const struct td_conv *g = j->g;
    const int64_t cells = td_conv_out_cells(g), width = td_conv_taps(g) * g->ic;
    struct td_gemm m = {.tb = TD_TRANSPOSED,
                        .n = width,
                        .k = g->oc,
                        .b = j->w,
                        .c = j->patches + who * j->room,
                        .lda = g->oc,
                        .ldb = g->oc,
                        .ldc = width};
    zero(TD_FLOAT, j->dx + from * td_conv_in_cells(g) * g->ic, (to - from) * td_conv_in_cells(g) * g->ic);
    for (int64_t cell = from * cells; cell < to * cells; cell += m.m) {
        m.m = j->block < to * cells - cell ? j->block : to * cells - cell;
        m.a = j->dy + cell * g->oc;
        if (!td_dnnl_gemm(&m)) {
            atomic_store_explicit(&j->failed, true, memory_order_relaxed);
        }
        add_patches(g, j->dx, cell, m.m, m.c);
    }
}

enum td_code td_conv_input_grad_patches(struct td_call *c, const struct td_conv *g, const float *w,
                                        const float *dy, float *dx, struct td_err *err)
{
    const int64_t width = td_conv_taps(g) * g->ic, block = block_rows(g);
    const double image_ns =
        (double)(td_conv_out_cells(g) * width) * ((double)g->oc * TD_SPREAD_OP_NS / 4 + 1);
    const int ranges = td_spread_ranges(c, g->batch, 1, image_ns),
              threads = ranges < 2 ? 1 : td_helpers(c)->most;
    void *room;
    TD_TRY(td_scratch(c, (size_t)(threads * block * width) * sizeof(float), &room, err));
    struct images j = {
        .g = g, .w = w, .dy = dy, .dx = dx, .patches = room, .block = block, .room = block * width};
    td_spread_over(c, ranges, g->batch, 1, images_back, &j);
    TD_FAIL_IF(atomic_load(&j.failed), err, RESOURCE_EXHAUSTED, "%s: oneDNN could not multiply",
               TD_NODE_STR(c->node));
    return TD_OK;
}

enum td_code td_conv_filter_grad_gemm(struct td_call *c, const struct td_conv *g, const float *x,
                                      const float *dy, float *dw, struct td_err *err)
{
    int64_t cells = g->batch * td_conv_out_cells(g), width = td_conv_taps(g) * g->ic;
    struct td_gemm m = {.ta = TD_TRANSPOSED,
                        .m = width,
                        .n = g->oc,
                        .a = x,
                        .b = dy,
                        .c = dw,
                        .lda = width,
                        .ldb = g->oc,
                        .ldc = g->oc,
                        .add = true};
    zero(TD_FLOAT, dw, width * g->oc);
    bool plain = td_conv_is_pointwise(g);
    float *patches = NULL;
    if (!plain) {
        TD_TRY(patch_room(c, g, &patches, err));
    }
    for (int64_t cell = 0, step = plain ? cells : block_rows(g); cell < cells; cell += step) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        m.k = step < cells - cell ? step : cells - cell;
        if (!plain) {
            td_conv_patches(g, x, cell, m.k, patches);
            m.a = patches;
        }
        m.b = dy + cell * g->oc;
        td_gemm_f32(&m);
    }
    return TD_OK;
}
