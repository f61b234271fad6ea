/* kernels/nn/dilation.c - grey-scale morphological dilation and its gradients.
 *
 *     x [N,H,W,C]  filter [kh,kw,C]   ->   y = max over taps of x + filter
 *
 * Cells outside the input do not count.
 *
 * The gradients go to the first tap that gave the maximum. Everything is computed in double: exact for all
 * types but 64-bit integers beyond 2^53. Each sum is rounded to T before it is compared: in halves many are
 * equal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu/window.h"

struct dilation {
    enum td_dtype dtype;
    int64_t batch, channels;
    struct td_window row, col;
};

static enum td_code four(const struct td_node *n, const char *attr, int64_t *row, int64_t *col,
                         struct td_err *err)
{
    int count;
    const int64_t *v = td_attr_ints(n, attr, &count);
    TD_FAIL_IF(count != 4, err, INVALID_ARGUMENT,
               "%s: Sliding window %s field must specify 4 dimensions, got %d", TD_NODE_STR(n), attr, count);
    TD_FAIL_IF(v[0] != 1 || v[3] != 1, err, UNIMPLEMENTED,
               "%s: Only support %s of 1 in the batch and depth dimensions", TD_NODE_STR(n), attr);
    *row = v[1];
    *col = v[2];
    return TD_OK;
}

static enum td_code spec(const struct td_node *n, const struct td_shape *x, const struct td_shape *f,
                         struct dilation *d, struct td_err *err)
{
    *d = (struct dilation){.batch = -1, .channels = -1};
    TD_TRY(four(n, "strides", &d->row.stride, &d->col.stride, err));
    TD_TRY(four(n, "rates", &d->row.dilation, &d->col.dilation, err));
    TD_FAIL_IF(x->rank >= 0 && x->rank != 4, err, INVALID_ARGUMENT, "%s: input must be 4-dimensional: %s",
               TD_NODE_STR(n), TD_SHAPE_STR(x));
    TD_FAIL_IF(f->rank >= 0 && f->rank != 3, err, INVALID_ARGUMENT, "%s: filter must be 3-dimensional: %s",
               TD_NODE_STR(n), TD_SHAPE_STR(f));
    int64_t xc = x->rank == 4 ? x->dim[3] : -1, fc = f->rank == 3 ? f->dim[2] : -1;
    TD_FAIL_IF(xc >= 0 && fc >= 0 && xc != fc, err, INVALID_ARGUMENT,
               "%s: input and filter must have the same depth: %lld vs %lld", TD_NODE_STR(n), (long long)xc,
               (long long)fc);
    TD_FAIL_IF(f->rank == 3 && (f->dim[0] == 0 || f->dim[1] == 0), err, INVALID_ARGUMENT,
               "%s: filter %s must not be empty", TD_NODE_STR(n), TD_SHAPE_STR(f));
    d->batch = x->rank == 4 ? x->dim[0] : -1;
    d->channels = xc >= 0 ? xc : fc;
    d->row.in = x->rank == 4 ? x->dim[1] : -1;
    d->col.in = x->rank == 4 ? x->dim[2] : -1;
    d->row.k = f->rank == 3 ? f->dim[0] : -1;
    d->col.k = f->rank == 3 ? f->dim[1] : -1;
    TD_TRY(td_window_make(&d->row, td_window_padding(n), n, err));
    return td_window_make(&d->col, td_window_padding(n), n, err);
}

static struct td_shape dilated(const struct dilation *d)
{
    return (struct td_shape){4, {d->batch, d->row.out, d->col.out, d->channels}};
}

static enum td_code forward_infer(struct td_infer *c, struct td_err *err)
{
    struct dilation d;
    TD_TRY(spec(c->node, &c->in[0], &c->in[1], &d, err));
    c->out[0] = dilated(&d);
    return TD_OK;
}

static enum td_code grad_infer(struct td_infer *c, struct td_err *err)
{
    struct dilation d;
    TD_TRY(spec(c->node, &c->in[0], &c->in[1], &d, err));
    struct td_shape want = dilated(&d);
    TD_FAIL_IF(!td_shape_compatible(&c->in[2], &want), err, INVALID_ARGUMENT,
               "%s: out_backprop has incompatible size: %s, want %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[2]), TD_SHAPE_STR(&want));
    c->out[0] = c->in[strcmp(c->node->op_name, "Dilation2DBackpropInput") == 0 ? 0 : 1];
    return TD_OK;
}

struct arrays {
    double *x, *f, *dy, *out;
};

/* The window's first row or column that lies inside. */
static int64_t first_inside(const struct td_window *w, int64_t out)
{
    int64_t at = out * w->stride - w->before;
    return at < 0 ? 0 : at < w->in ? at : w->in - 1;
}

/* The sum as T holds it; integers wrap. */
static double in_type(enum td_dtype t, double v)
{
    switch (t) {
    case TD_INT8:
        return (int8_t)(int64_t)v;
    case TD_INT16:
        return (int16_t)(int64_t)v;
    case TD_INT32:
        return (int32_t)(int64_t)v;
    case TD_UINT8:
        return (uint8_t)(int64_t)v;
    case TD_UINT16:
        return (uint16_t)(int64_t)v;
    case TD_UINT32:
        return (uint32_t)(int64_t)v;
    default:
        return td_round_to(t, v);
    }
}

/* The least finite number of T: the maximum of no taps. */
static double lowest(enum td_dtype t)
{
    switch (t) {
    case TD_INT8:
        return INT8_MIN;
    case TD_INT16:
        return INT16_MIN;
    case TD_INT32:
        return INT32_MIN;
    case TD_INT64:
        return (double)INT64_MIN;
    default:
        return td_dtype_in(t, TD_SET_FLOATS) ? -td_largest(t) : 0;
    }
}

/* Maximum of one output cell and where it came from: indices into x and filter. When no tap is inside these
 * are, as in TensorFlow, the window's first place inside and the first tap. */
static double best(const struct dilation *d, const struct arrays *a, int64_t cell, int64_t k, int64_t *at_x,
                   int64_t *at_f)
{
    int64_t j = cell % d->col.out, i = cell / d->col.out % d->row.out, b = cell / d->col.out / d->row.out;
    int64_t from[2], to[2];
    td_window_taps(&d->row, i, &from[0], &to[0]);
    td_window_taps(&d->col, j, &from[1], &to[1]);
    double top = lowest(d->dtype);
    *at_x =
        ((b * d->row.in + first_inside(&d->row, i)) * d->col.in + first_inside(&d->col, j)) * d->channels + k;
    *at_f = k;
    for (int64_t r = from[0]; r < to[0]; r++) {
        for (int64_t s = from[1]; s < to[1]; s++) {
            int64_t y = i * d->row.stride - d->row.before + r * d->row.dilation;
            int64_t z = j * d->col.stride - d->col.before + s * d->col.dilation;
            int64_t x = ((b * d->row.in + y) * d->col.in + z) * d->channels + k;
            int64_t f = (r * d->col.k + s) * d->channels + k;
            const double sum = in_type(d->dtype, a->x[x] + a->f[f]);
            if (sum > top) {
                top = sum;
                *at_x = x;
                *at_f = f;
            }
        }
    }
    return top;
}

/* One tap of a cell for all channels. */
TD_CLONES static void raise_row(double *restrict top, const double *x, const double *f, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        double v = x[k] + f[k];
        top[k] = v > top[k] ? v : top[k];
    }
}

/* The maxima of an output cell of floats or doubles: the largest sum, rounded, is the largest rounded sum. */
static void best_row(const struct dilation *d, const struct arrays *a, int64_t cell, double *top)
{
    int64_t j = cell % d->col.out, i = cell / d->col.out % d->row.out, b = cell / d->col.out / d->row.out;
    int64_t from[2], to[2], n = d->channels;
    td_window_taps(&d->row, i, &from[0], &to[0]);
    td_window_taps(&d->col, j, &from[1], &to[1]);
    const double least = lowest(d->dtype);
    for (int64_t k = 0; k < n; k++) {
        top[k] = least;
    }
    for (int64_t r = from[0]; r < to[0]; r++) {
        int64_t y = i * d->row.stride - d->row.before + r * d->row.dilation;
        for (int64_t s = from[1]; s < to[1]; s++) {
            int64_t z = j * d->col.stride - d->col.before + s * d->col.dilation;
            raise_row(top, a->x + ((b * d->row.in + y) * d->col.in + z) * n, a->f + (r * d->col.k + s) * n,
                      n);
        }
    }
}

static enum td_code forward_cells(struct td_call *c, const struct dilation *d, const struct arrays *a,
                                  int64_t cells, struct td_err *err)
{
    for (int64_t i = 0; i < cells; i++) {
        if (i % 1024 == 0 && td_stopped(c)) {
            return td_stop_error(c, err);
        }
        best_row(d, a, i, a->out + i * d->channels);
    }
    return TD_OK;
}

static enum td_code wide(struct td_call *c, int i, double **out, struct td_err *err)
{
    void *room;
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(c->in[i]) * sizeof(double), &room, err));
    td_upcast_doubles(room, c->in[i]->data, c->in[i]->dtype, td_tensor_count(c->in[i]));
    *out = room;
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct dilation d;
    struct arrays a = {0};
    struct td_tensor *out;
    void *room;
    TD_TRY(spec(c->node, &c->in[0]->shape, &c->in[1]->shape, &d, err));
    d.dtype = c->in[0]->dtype;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(wide(c, 0, &a.x, err));
    TD_TRY(wide(c, 1, &a.f, err));
    bool grad = c->n_in == 3, to_input = strcmp(c->node->op_name, "Dilation2DBackpropInput") == 0;
    if (grad) {
        TD_TRY(wide(c, 2, &a.dy, err));
    }
    int64_t n = td_tensor_count(out);
    TD_TRY(td_scratch(c, (size_t)n * sizeof(double), &room, err));
    if (n == 0) {
        return TD_OK;
    }
    a.out = room;
    memset(room, 0, (size_t)n * sizeof(double));
    int64_t cells = td_tensor_count(c->in[0]) == 0 ? 0 : d.batch * d.row.out * d.col.out;
    bool by_rows = !grad && (d.dtype == TD_FLOAT || d.dtype == TD_DOUBLE);
    if (by_rows) {
        TD_TRY(forward_cells(c, &d, &a, cells, err));
    }
    for (int64_t i = 0; i < cells * d.channels && !by_rows; i++) {
        int64_t at_x, at_f;
        if (i % 65536 == 0 && td_stopped(c)) {
            return td_stop_error(c, err);
        }
        double top = best(&d, &a, i / d.channels, i % d.channels, &at_x, &at_f);
        if (!grad) {
            a.out[i] = top;
        } else {
            double *to = &a.out[to_input ? at_x : at_f];
            *to = in_type(d.dtype, *to + a.dy[i]);
        }
    }
    td_downcast_doubles(out->data, room, out->dtype, n);
    return TD_OK;
}

static void dilation_grad(struct td_grad *g)
{
    const char *const ops[] = {"Dilation2DBackpropInput", "Dilation2DBackpropFilter"};
    for (int i = 0; i < 2; i++) {
        if (td_grad_wants(g, i)) {
            const struct td_value in[] = {td_grad_in(g, 0), td_grad_in(g, 1), td_grad_at(g, 0)};
            td_grad_give(g, i, td_f_as(g->e, ops[i], in, 3, g->node, "strides,rates,padding"));
        }
    }
}

#define ATTRS "{T:type; strides:list(int); rates:list(int); padding:string in ['SAME','VALID']}"
#define ROW TD_KERNEL("dilation2d.cpu", run, {"T", TD_SET_REALS})

const struct td_op td_ops_dilation[] = {
    {.name = "Dilation2D",
     .sig = "(input:T, filter:T) -> (output:T) " ATTRS,
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = forward_infer,
     .kernels = ROW,
     .grad = dilation_grad},
    {.name = "Dilation2DBackpropInput",
     .sig = "(input:T, filter:T, out_backprop:T) -> (in_backprop:T) " ATTRS,
     .infer = grad_infer,
     .kernels = ROW},
    {.name = "Dilation2DBackpropFilter",
     .sig = "(input:T, filter:T, out_backprop:T) -> (filter_backprop:T) " ATTRS,
     .infer = grad_infer,
     .kernels = ROW},
    {.name = NULL},
};
