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

#include <string.h>

#include "core/base/mem.h"
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

void td_conv_patches(const struct td_conv *g, const float *x, int64_t cell, int64_t rows, float *patches)
{
    int64_t width = td_conv_taps(g) * g->ic;
    memset(patches, 0, (size_t)(rows * width) * sizeof *patches);
    for (int64_t r = 0; r < rows; r++) {
        struct tap_walk t;
        walk_start(&t, g, cell + r);
        while (walk_next(&t, g)) {
            memcpy(patches + r * width + t.tap * g->ic, x + t.in_cell * g->ic, (size_t)g->ic * sizeof *x);
        }
    }
}

static void add_patches(const struct td_conv *g, float *dx, int64_t cell, int64_t rows, const float *patches)
{
    int64_t width = td_conv_taps(g) * g->ic;
    for (int64_t r = 0; r < rows; r++) {
        struct tap_walk t;
        walk_start(&t, g, cell + r);
        while (walk_next(&t, g)) {
            const float *from = patches + r * width + t.tap * g->ic;
            float *to = dx + t.in_cell * g->ic;
            for (int64_t i = 0; i < g->ic; i++) {
                to[i] += from[i];
            }
        }
    }
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
