/* kernels/nn/pool_avg.c - average pooling over two or three spatial axes, and its gradients.
 *
 *     x [N,H,W,C]   ->   y [N,H',W',C]          (one more axis for the 3-D ops)
 *
 * Channels last inside; a channels-first tensor is permuted. An average divides by the cells of the window
 * that are inside of the input. half and bfloat16 run in float; averages over two axes round every sum.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/nn/pool_grad.h"
#include "kernels/nn/pool_spec.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

TD_CLONES static void add_row(float *restrict y, const float *restrict x, float scale, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        y[c] += x[c] * scale;
    }
}

TD_CLONES static void scale_row(float *restrict y, float by, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        y[c] /= by;
    }
}

/* The average of so many channels of a window that lies inside, from x on. */
TD_INLINE void avg_block(const struct td_pool *p, float *restrict y, const float *restrict x, int width)
{
    float sum[16] = {0};
    const float count = (float)(p->axis[0].k * p->axis[1].k * p->axis[2].k);
    for (int64_t a = 0; a < p->axis[0].k; a++) {
        for (int64_t b = 0; b < p->axis[1].k; b++) {
            const float *row = x + (a * p->axis[1].in + b) * p->axis[2].in * p->channels;
            for (int64_t k = 0; k < p->axis[2].k; k++, row += p->channels) {
                for (int l = 0; l < width; l++) {
                    sum[l] += row[l];
                }
            }
        }
    }
    for (int l = 0; l < width; l++) {
        y[l] = sum[l] / count;
    }
}

TD_CLONES static void avg_inside(const struct td_pool *p, float *restrict y, const float *restrict x,
                                 int64_t cells)
{
    const int64_t n = p->channels;
    for (int64_t i = 0; i < cells; i++, y += n, x += p->axis[2].stride * n) {
        int64_t c = 0;
        for (; c + 16 <= n; c += 16) {
            avg_block(p, y + c, x + c, 16);
        }
        for (; c + 8 <= n; c += 8) {
            avg_block(p, y + c, x + c, 8);
        }
        for (; c + 4 <= n; c += 4) {
            avg_block(p, y + c, x + c, 4);
        }
        for (; c < n; c++) {
            avg_block(p, y + c, x + c, 1);
        }
    }
}

static void avg_f32(const struct td_pool *p, const struct td_pool_part *part)
{
    struct td_pool_walk w;
    const int64_t n = p->channels;
    const float *x = part->x;
    float *y = (float *)part->y + part->from * n;
    for (int64_t cell = part->from; cell < part->to; cell++, y += n) {
        int64_t in_cell;
        const int64_t inside = td_pool_inside(p, cell, part->to, &in_cell);
        if (inside > 0) {
            avg_inside(p, y, x + in_cell * n, inside);
            cell += inside - 1;
            y += (inside - 1) * n;
            continue;
        }
        memset(y, 0, (size_t)n * sizeof *y);
        for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
            add_row(y, x + w.in_cell * n, 1, n);
        }
        scale_row(y, (float)w.count, n);
    }
}

/* Halves are added in their own type, over space. */
static inline void avg_small(const struct td_pool *p, const struct td_pool_part *part, enum td_dtype t)
{
    struct td_pool_walk w;
    const int64_t n = p->channels;
    const float *x = part->x;
    float *y = (float *)part->y + part->from * n;
    for (int64_t cell = part->from; cell < part->to; cell++, y += n) {
        memset(y, 0, (size_t)n * sizeof *y);
        for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
            const float *from = x + w.in_cell * n;
            for (int64_t c = 0; c < n; c++) {
                const float sum = y[c] + from[c];
                y[c] = t == TD_HALF ? td_round_half(sum) : td_round_bf16(sum);
            }
        }
        scale_row(y, (float)w.count, n);
    }
}

static void avg_half(const struct td_pool *p, const struct td_pool_part *part)
{
    avg_small(p, part, TD_HALF);
}

static void avg_bf16(const struct td_pool *p, const struct td_pool_part *part)
{
    avg_small(p, part, TD_BFLOAT16);
}

static void avg_grad_f32(const struct td_pool *p, const float *dy, float *dx)
{
    struct td_pool_walk w;
    int64_t cells = p->batch * td_pool_out_cells(p), n = p->channels;
    memset(dx, 0, (size_t)(p->batch * td_pool_in_cells(p) * n) * sizeof *dx);
    for (int64_t cell = 0; cell < cells; cell++, dy += n) {
        for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
            add_row(dx + w.in_cell * n, dy, 1.0f / (float)w.count, n);
        }
    }
}

static void avg_f64(const struct td_pool *p, const struct td_pool_part *part)
{
    struct td_pool_walk w;
    const int64_t n = p->channels;
    const double *x = part->x;
    double *y = (double *)part->y + part->from * n;
    for (int64_t cell = part->from; cell < part->to; cell++, y += n) {
        memset(y, 0, (size_t)n * sizeof *y);
        for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
            for (int64_t c = 0; c < n; c++) {
                y[c] += x[w.in_cell * n + c];
            }
        }
        for (int64_t c = 0; c < n; c++) {
            y[c] /= (double)w.count;
        }
    }
}

static void avg_grad_f64(const struct td_pool *p, const double *dy, double *dx)
{
    struct td_pool_walk w;
    int64_t cells = p->batch * td_pool_out_cells(p), n = p->channels;
    memset(dx, 0, (size_t)(p->batch * td_pool_in_cells(p) * n) * sizeof *dx);
    for (int64_t cell = 0; cell < cells; cell++, dy += n) {
        for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
            for (int64_t c = 0; c < n; c++) {
                dx[w.in_cell * n + c] += dy[c] / (double)w.count;
            }
        }
    }
}

static td_pool_fn *average_of(const struct td_node *node, enum td_dtype t)
{
    return t == TD_DOUBLE                         ? avg_f64
           : t == TD_FLOAT || td_pool_is_3d(node) ? avg_f32
           : t == TD_HALF                         ? avg_half
                                                  : avg_bf16;
}

static enum td_code avg_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    struct td_tensor *y;
    const void *x;
    void *to;
    TD_TRY(td_pool_attrs(c->node, &c->in[0]->shape, &p, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_pool_bring(c, &p, c->in[0], td_pool_in_cells(&p), &x, err));
    TD_TRY(td_pool_room(c, &p, y, &to, err));
    if (td_tensor_count(y) > 0) {
        td_pool_spread(c, &p, average_of(c->node, y->dtype), x, to, NULL);
    }
    return td_pool_deliver(c, &p, y, td_pool_out_cells(&p), to, err);
}

static enum td_code avg_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    struct td_tensor *dx;
    const void *dy;
    void *to;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(td_pool_attrs(c->node, &dx->shape, &p, err));
    p.stretched = true;
    TD_TRY(td_pool_bring(c, &p, c->in[1], td_pool_out_cells(&p), &dy, err));
    TD_TRY(td_pool_room(c, &p, dx, &to, err));
    if (td_tensor_count(dx) > 0 && dx->dtype == TD_DOUBLE) {
        avg_grad_f64(&p, dy, to);
    } else if (td_tensor_count(dx) > 0) {
        avg_grad_f32(&p, dy, to);
    }
    return td_pool_deliver(c, &p, dx, td_pool_in_cells(&p), to, err);
}

static bool avg_grad_rows(struct td_batchable_step *s)
{
    return td_batchable_sized(s, 0, 1);
}

/* ------------------------------------------------------------------ table */

const struct td_op td_ops_pool_avg[] = {
    {.name = "AvgPool",
     .sig = "(value:T) -> (output:T) {" TD_POOL_WINDOW TD_POOL_2D "T:type}",
     .flags = TD_OP_HEAVY,
     .channels = &td_pool_channels,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = td_pool_infer,
     .kernels = TD_KERNEL("avg_pool.cpu", avg_run, {"T", TD_SET_FLOATS}),
     .grad = td_avg_pool_grad},
    {.name = "AvgPool3D",
     .sig = "(input:T) -> (output:T) {" TD_POOL_WINDOW TD_POOL_3D "T:type}",
     .flags = TD_OP_HEAVY,
     .channels = &td_pool_channels,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = td_pool_infer,
     .kernels = TD_KERNEL("avg_pool.cpu", avg_run, {"T", TD_SET_FLOATS}),
     .grad = td_avg_pool_grad},
    {.name = "AvgPoolGrad",
     .sig = "(orig_input_shape:int32, grad:T) -> (output:T) {" TD_POOL_WINDOW TD_POOL_2D "T:type}",
     .vectorize = td_many_pool_grad,
     .host_in = 1,
     .batchable = TD_BATCHABLE(avg_grad_rows),
     .infer = td_pool_avg_grad_infer,
     .kernels = TD_KERNEL("avg_pool_grad.cpu", avg_grad_run, {"T", TD_SET_FLOATS}),
     .grad = td_avg_pool_grad_grad},
    {.name = "AvgPool3DGrad",
     .sig = "(orig_input_shape:int32, grad:T) -> (output:T) {" TD_POOL_WINDOW TD_POOL_3D "T:type}",
     .host_in = 1,
     .batchable = TD_BATCHABLE(avg_grad_rows),
     .infer = td_pool_avg_grad_infer,
     .kernels = TD_KERNEL("avg_pool_grad.cpu", avg_grad_run, {"T", TD_SET_FLOATS}),
     .grad = td_avg_pool_grad_grad},
    {.name = NULL},
};
