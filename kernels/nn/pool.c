/* kernels/nn/pool.c - max pooling over one or two or three spatial axes, and its gradients.
 *
 *     x [N,H,W,C]   ->   y [N,H',W',C]          (one more axis for the 3-D ops)
 *
 * Channels last inside; a channels-first tensor is permuted. Cells outside the input do not count: a maximum
 * ignores them. Of equal maxima the first in row-major order of
 * the window gets the gradient. MaxPool may instead pool along the channels, in disjoint groups. half and
 * bfloat16 run in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/nn/pool_grad.h"
#include "kernels/nn/pool_spec.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

#define WRAPPED(a, b) ((uint64_t)(a) + (uint64_t)(b))

#define T float
#define FN(name) name##_f32
#define LOWEST(from) (float)(from)
#define ADD(a, b) ((a) + (b))
#include "kernels/nn/pool_plain.inc"
#define T double
#define FN(name) name##_f64
#define LOWEST(from) (from)
#define ADD(a, b) ((a) + (b))
#include "kernels/nn/pool_plain.inc"
#define T int8_t
#define FN(name) name##_i8
#define LOWEST(from) INT8_MIN
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/nn/pool_plain.inc"
#define T uint8_t
#define FN(name) name##_u8
#define LOWEST(from) 0
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/nn/pool_plain.inc"
#define T int16_t
#define FN(name) name##_i16
#define LOWEST(from) INT16_MIN
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/nn/pool_plain.inc"
#define T uint16_t
#define FN(name) name##_u16
#define LOWEST(from) 0
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/nn/pool_plain.inc"
#define T int32_t
#define FN(name) name##_i32
#define LOWEST(from) INT32_MIN
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/nn/pool_plain.inc"
#define T uint32_t
#define FN(name) name##_u32
#define LOWEST(from) 0
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/nn/pool_plain.inc"
#define T int64_t
#define FN(name) name##_i64
#define LOWEST(from) INT64_MIN
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/nn/pool_plain.inc"
#define T uint64_t
#define FN(name) name##_u64
#define LOWEST(from) 0
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/nn/pool_plain.inc"

/* One row a type that pooling computes in; half and bfloat16 are brought to float first. */
static const struct body {
    enum td_dtype dtype;
    td_pool_fn *forward;
    void (*find_equal)(const struct td_pool *p, const void *x, const void *y, int64_t *at);
    void (*scatter)(void *dx, const void *dy, const int64_t *at, int64_t n);
} bodies[] = {
    {TD_FLOAT, max_forward_f32, find_equal_f32, scatter_f32},
    {TD_DOUBLE, max_forward_f64, find_equal_f64, scatter_f64},
    {TD_INT8, max_forward_i8, find_equal_i8, scatter_i8},
    {TD_UINT8, max_forward_u8, find_equal_u8, scatter_u8},
    {TD_INT16, max_forward_i16, find_equal_i16, scatter_i16},
    {TD_UINT16, max_forward_u16, find_equal_u16, scatter_u16},
    {TD_INT32, max_forward_i32, find_equal_i32, scatter_i32},
    {TD_UINT32, max_forward_u32, find_equal_u32, scatter_u32},
    {TD_INT64, max_forward_i64, find_equal_i64, scatter_i64},
    {TD_UINT64, max_forward_u64, find_equal_u64, scatter_u64},
    {TD_QINT8, max_forward_i8, find_equal_i8, scatter_i8},
};

static const struct body *body_of(enum td_dtype t)
{
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        if (bodies[i].dtype == t) {
            return &bodies[i];
        }
    }
    return &bodies[0];
}

/* ------------------------------------------------------------------ max */

/* Pooling along the channels is pooling along rows of `depth` cells of one channel. */
static void along_depth(struct td_pool *p)
{
    if (p->depth == 1) {
        return;
    }
    int64_t groups = p->batch * td_pool_in_cells(p) * (p->channels / p->depth);
    struct td_window row = {.in = p->depth, .k = p->depth, .stride = p->depth, .dilation = 1, .out = 1};
    struct td_window one = {.in = 1, .k = 1, .stride = 1, .dilation = 1, .out = 1};
    *p = (struct td_pool){
        .layout = p->layout, .batch = groups, .channels = 1, .depth = 1, .axis = {one, one, row}};
}

/* Windows over space begin at the least finite number: a window of -infinity or of NaN alone has it. Depth
 * and 3-D pools, and those that say where, begin at -infinity; but a 3-D window that reaches over the edge
 * finds the least finite number there. */
static void begin_at(const struct td_call *c, struct td_pool *p, bool by_depth)
{
    const double least = -td_largest(c->in[0]->dtype);
    p->lowest = td_pool_is_3d(c->node) || by_depth ? -INFINITY : least;
    p->lowest_at_edge = by_depth ? -INFINITY : least;
}

static enum td_code max_pool(struct td_call *c, struct td_pool *p, struct td_err *err)
{
    struct td_tensor *y;
    const void *x;
    void *to;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_pool_bring(c, p, c->in[0], td_pool_in_cells(p), &x, err));
    TD_TRY(td_pool_room(c, p, y, &to, err));
    if (td_tensor_count(y) > 0) {
        const bool by_depth = p->depth != 1;
        along_depth(p);
        begin_at(c, p, by_depth);
        td_pool_spread(c, p, body_of(td_pool_arithmetic(y->dtype))->forward, x, to, NULL);
    }
    return td_pool_deliver(c, p, y, td_pool_out_cells(p), to, err);
}

static enum td_code max_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    TD_TRY(td_pool_attrs(c->node, &c->in[0]->shape, &p, err));
    return max_pool(c, &p, err);
}

static enum td_code max_v2_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    TD_TRY(td_pool_values(c->node, &c->in[0]->shape, c->in[1], c->in[2], &p, err));
    return max_pool(c, &p, err);
}

/* Where each output cell's maximum came from: flat indices into x with channels last. */
static enum td_code find_max(struct td_call *c, const struct td_pool *p, enum td_dtype type, const void *x,
                             int64_t **at, struct td_err *err)
{
    int64_t n = p->batch * td_pool_out_cells(p) * p->channels;
    void *y, *where;
    TD_TRY(td_scratch(c, (size_t)n * td_dtype_size(type), &y, err));
    TD_TRY(td_scratch(c, (size_t)n * sizeof(int64_t), &where, err));
    if (n > 0) {
        td_pool_spread(c, p, body_of(type)->forward, x, y, where);
    }
    *at = where;
    return TD_OK;
}

static enum td_code max_argmax_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    struct td_tensor *y, *argmax;
    const void *x;
    void *to, *where;
    TD_TRY(td_pool_attrs(c->node, &c->in[0]->shape, &p, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &argmax, err));
    TD_TRY(td_pool_bring(c, &p, c->in[0], td_pool_in_cells(&p), &x, err));
    TD_TRY(td_pool_room(c, &p, y, &to, err));
    int64_t n = td_tensor_count(y), per_image = n == 0 || p.batch == 0 ? 1 : n / p.batch;
    int64_t image = td_attr_bool(c->node, "include_batch_in_index") ? 0 : td_pool_in_cells(&p) * p.channels;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(int64_t), &where, err));
    if (n > 0) {
        td_pool_spread(c, &p, body_of(td_pool_arithmetic(y->dtype))->forward, x, to, where);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t v = ((int64_t *)where)[i] - i / per_image * image;
        td_tensor_set_int(argmax, i, v);
    }
    return td_pool_deliver(c, &p, y, td_pool_out_cells(&p), to, err);
}

static enum td_code scatter_to(struct td_call *c, const struct td_pool *p, const struct td_tensor *grad,
                               const int64_t *at, struct td_err *err)
{
    struct td_tensor *dx;
    const void *dy;
    void *to;
    enum td_dtype type = td_pool_arithmetic(grad->dtype);
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(td_pool_bring(c, p, grad, td_pool_out_cells(p), &dy, err));
    TD_TRY(td_pool_room(c, p, dx, &to, err));
    if (td_tensor_count(dx) > 0) {
        memset(to, 0, (size_t)td_tensor_count(dx) * td_dtype_size(type));
        body_of(type)->scatter(to, dy, at, td_tensor_count(grad));
    }
    return td_pool_deliver(c, p, dx, td_pool_in_cells(p), to, err);
}

/* y[i] = grad[at[i]]: the maximum's gradient is a selection. */
static enum td_code select_from(struct td_call *c, const struct td_pool *p, const struct td_tensor *grad,
                                const int64_t *at, struct td_err *err)
{
    struct td_tensor *y;
    const void *from;
    void *to;
    enum td_dtype type = td_pool_arithmetic(grad->dtype);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_pool_bring(c, p, grad, td_pool_in_cells(p), &from, err));
    TD_TRY(td_pool_room(c, p, y, &to, err));
    size_t size = td_dtype_size(type);
    for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
        char *cell = (char *)to + (size_t)i * size;
        if (at[i] >= 0) {
            memcpy(cell, (const char *)from + (size_t)at[i] * size, size);
        } else {
            memset(cell, 0, size);
        }
    }
    return td_pool_deliver(c, p, y, td_pool_out_cells(p), to, err);
}

/* One tap of a cell, all channels: which one has the maximum so far. */
TD_CLONES static void seek_row(float *restrict top, int32_t *restrict tap, const float *x, int32_t t,
                               int64_t n)
{
    TD_INDEPENDENT
    for (int64_t c = 0; c < n; c++) {
        const bool more = t == 0 || x[c] > top[c];
        top[c] = more ? x[c] : top[c];
        tap[c] = more ? t : tap[c];
    }
}

TD_CLONES static void give_row(float *restrict dx, const float *dy, const int32_t *tap, int32_t t, int64_t n)
{
    TD_INDEPENDENT
    for (int64_t c = 0; c < n; c++) {
        dx[c] += tap[c] == t ? dy[c] : 0;
    }
}

/* dx of floats, twice over each window: where its maxima are, and what they get. */
static void max_grad_floats(const struct td_pool *p, const float *x, const float *dy, float *dx, void *room)
{
    const int64_t cells = p->batch * td_pool_out_cells(p), n = p->channels;
    float *top = room;
    int32_t *tap = (int32_t *)(top + n);
    struct td_pool_walk w;
    for (int64_t cell = 0; cell < cells; cell++, dy += n) {
        int32_t t = 0;
        for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
            seek_row(top, tap, x + w.in_cell * n, t++, n);
        }
        t = 0;
        for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
            give_row(dx + w.in_cell * n, dy, tap, t++, n);
        }
    }
}

static enum td_code max_grad_of_floats(struct td_call *c, const struct td_pool *p, const float *x,
                                       struct td_err *err)
{
    struct td_tensor *dx;
    const void *dy;
    void *to, *room;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(td_pool_bring(c, p, c->in[2], td_pool_out_cells(p), &dy, err));
    TD_TRY(td_pool_room(c, p, dx, &to, err));
    TD_TRY(td_scratch(c, (size_t)p->channels * (sizeof(float) + sizeof(int32_t)), &room, err));
    if (td_tensor_count(dx) > 0) {
        memset(to, 0, (size_t)td_tensor_count(dx) * sizeof(float));
        max_grad_floats(p, x, dy, to, room);
    }
    return td_pool_deliver(c, p, dx, td_pool_in_cells(p), to, err);
}

static enum td_code max_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    const void *x;
    int64_t *at;
    const struct td_shape *shape = &c->in[0]->shape;
    TD_TRY(c->n_in == 5 ? td_pool_values(c->node, shape, c->in[3], c->in[4], &p, err)
                        : td_pool_attrs(c->node, shape, &p, err));
    TD_TRY(td_pool_bring(c, &p, c->in[0], td_pool_in_cells(&p), &x, err));
    if (td_pool_arithmetic(c->in[0]->dtype) == TD_FLOAT) {
        return max_grad_of_floats(c, &p, x, err);
    }
    TD_TRY(find_max(c, &p, td_pool_arithmetic(c->in[0]->dtype), x, &at, err));
    return scatter_to(c, &p, c->in[2], at, err);
}

/* The places are those that hold orig_output, not those of a maximum found again: TensorFlow's rule. */
static enum td_code max_grad_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    const void *x, *y;
    void *at;
    const struct td_shape *shape = &c->in[0]->shape;
    TD_TRY(c->n_in == 5 ? td_pool_values(c->node, shape, c->in[3], c->in[4], &p, err)
                        : td_pool_attrs(c->node, shape, &p, err));
    TD_TRY(td_pool_bring(c, &p, c->in[0], td_pool_in_cells(&p), &x, err));
    TD_TRY(td_pool_bring(c, &p, c->in[1], td_pool_out_cells(&p), &y, err));
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(c->in[1]) * sizeof(int64_t), &at, err));
    if (td_tensor_count(c->in[1]) > 0) {
        body_of(td_pool_arithmetic(c->in[0]->dtype))->find_equal(&p, x, y, at);
    }
    return select_from(c, &p, c->in[2], at, err);
}

TD_CLONES static void give_near(float *restrict dx, const float *x, const float *y, const float *dy,
                                float near, int64_t n)
{
    TD_INDEPENDENT
    for (int64_t c = 0; c < n; c++) {
        dx[c] += fabsf(x[c] - y[c]) < near ? dy[c] : 0;
    }
}

/* In 3-D every value as near to the maximum as 1e-5 gets the whole gradient, and none that is infinite: so it
 * is in TensorFlow, which compares in T. What bfloat16 rounds to less than its 1e-5 is below 0x1.4fp-17. */
static void max_grad_all(const struct td_pool *p, enum td_dtype t, const float *x, const float *y,
                         const float *dy, float *dx)
{
    struct td_pool_walk w;
    const int64_t cells = p->batch * td_pool_out_cells(p), n = p->channels;
    const float near = t == TD_BFLOAT16 ? 0x1.4fp-17f : 1e-5f;
    for (int64_t cell = 0; cell < cells; cell++, y += n, dy += n) {
        for (bool more = td_pool_cell_start(&w, p, cell); more; more = td_pool_cell_next(&w, p)) {
            give_near(dx + w.in_cell * n, x + w.in_cell * n, y, dy, near, n);
        }
    }
}

static enum td_code max_grad_3d_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    struct td_tensor *dx;
    const void *x, *y, *dy;
    void *to;
    TD_TRY(td_pool_attrs(c->node, &c->in[0]->shape, &p, err));
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(td_pool_bring(c, &p, c->in[0], td_pool_in_cells(&p), &x, err));
    TD_TRY(td_pool_bring(c, &p, c->in[1], td_pool_out_cells(&p), &y, err));
    TD_TRY(td_pool_bring(c, &p, c->in[2], td_pool_out_cells(&p), &dy, err));
    TD_TRY(td_pool_room(c, &p, dx, &to, err));
    if (td_tensor_count(dx) > 0) {
        memset(to, 0, (size_t)td_tensor_count(dx) * sizeof(float));
        max_grad_all(&p, c->in[0]->dtype, x, y, dy, to);
    }
    return td_pool_deliver(c, &p, dx, td_pool_in_cells(&p), to, err);
}

static enum td_code argmax_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_pool p;
    TD_TRY(td_pool_attrs(c->node, &c->in[0]->shape, &p, err));
    const struct td_tensor *argmax = c->in[2];
    int64_t n = td_tensor_count(argmax), size = td_tensor_count(c->in[0]),
            image = td_pool_in_cells(&p) * p.channels;
    int64_t per_image = n == 0 || p.batch == 0 ? 1 : n / p.batch;
    bool whole = td_attr_bool(c->node, "include_batch_in_index");
    void *where;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(int64_t), &where, err));
    int64_t *at = where;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = td_tensor_int(argmax, i), limit = whole ? size : image;
        TD_FAIL_IF(v < 0 || v >= limit, err, INVALID_ARGUMENT,
                   "%s: Invalid argmax index %lld at %lld, want [0, %lld)", TD_NODE_STR(c->node),
                   (long long)v, (long long)i, (long long)limit);
        at[i] = whole ? v : v + i / per_image * image;
    }
    if (strstr(c->node->op_name, "GradGrad") != NULL) {
        return select_from(c, &p, c->in[1], at, err);
    }
    return scatter_to(c, &p, c->in[1], at, err);
}

/* ------------------------------------------------------------------ table */

#define WINDOW_EXPLICIT                                                                                      \
    "ksize:list(int); strides:list(int); padding:string in ['SAME','VALID','EXPLICIT']; "                    \
    "explicit_paddings:list(int)=[]; "
#define MAX_ROW(fn) TD_KERNEL("max_pool.cpu", fn, {"T", TD_SET_REALS | TD_BIT(TD_QINT8)})
#define MAX_GRAD_ROW(fn) TD_KERNEL("max_pool_grad.cpu", fn, {"T", TD_SET_REALS})

const struct td_op td_ops_pool[] = {
    {.name = "MaxPool",
     .sig = "(input:T) -> (output:T) {T:type=float; " WINDOW_EXPLICIT
            "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C']}",
     .halves = TD_HALVES_KEEP,
     .flags = TD_OP_HEAVY,
     .channels = &td_pool_channels,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = td_pool_infer,
     .kernels = MAX_ROW(max_run),
     .grad = td_max_pool_grad},
    {.name = "MaxPoolV2",
     .sig = "(input:T, ksize:int32, strides:int32) -> (output:T) {T:type=float; padding:string in "
            "['SAME','VALID']; "
            "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C']}",
     .halves = TD_HALVES_KEEP,
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .host_in = 6,
     .infer = td_pool_v2_infer,
     .kernels = MAX_ROW(max_v2_run),
     .grad = td_max_pool_grad},
    {.name = "MaxPool3D",
     .sig = "(input:T) -> (output:T) {" TD_POOL_WINDOW TD_POOL_3D "T:type}",
     .flags = TD_OP_HEAVY,
     .channels = &td_pool_channels,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = td_pool_infer,
     .kernels = TD_KERNEL("max_pool.cpu", max_run, {"T", TD_SET_FLOATS}),
     .grad = td_max_pool_grad},
    {.name = "MaxPoolWithArgmax",
     .sig =
         "(input:T) -> (output:T, argmax:Targmax) {ksize:list(int); strides:list(int); Targmax:type=int64; "
         "padding:string in ['SAME','VALID']; include_batch_in_index:bool=false; T:type}",
     .infer = td_pool_infer,
     .kernels = TD_KERNEL("max_pool.cpu", max_argmax_run, {"T", TD_SET_REALS}, {"Targmax", TD_SET_INDEX}),
     .grad = td_max_pool_argmax_grad},
    {.name = "MaxPoolGrad",
     .sig =
         "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" WINDOW_EXPLICIT TD_POOL_2D "T:type=float}",
     .vectorize = td_many_pool_grad,
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = td_pool_max_grad_infer,
     .kernels = MAX_GRAD_ROW(max_grad_run),
     .grad = td_max_pool_grad_grad},
    {.name = "MaxPoolGradV2",
     .sig =
         "(orig_input:T, orig_output:T, grad:T, ksize:int32, strides:int32) -> (output:T) {padding:string in "
         "['SAME','VALID']; " TD_POOL_2D "T:type=float}",
     .host_in = 24,
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = td_pool_max_grad_infer,
     .kernels = MAX_GRAD_ROW(max_grad_run),
     .grad = td_max_pool_grad_grad},
    {.name = "MaxPool3DGrad",
     .sig = "(orig_input:TInput, orig_output:TInput, grad:T) -> (output:T) {" TD_POOL_WINDOW TD_POOL_3D
            "T:type=float; TInput:type=float}",
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = td_pool_max_grad_infer,
     .kernels =
         TD_KERNEL("max_pool_grad.cpu", max_grad_3d_run, {"T", TD_SET_FLOATS}, {"TInput", TD_SET_FLOATS}),
     .grad = td_max_pool_grad_grad},
    {.name = "MaxPoolGradGrad",
     .sig = "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" TD_POOL_WINDOW TD_POOL_2D "T:type}",
     .vectorize = td_many_pool_grad,
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = td_pool_max_grad_infer,
     .kernels = MAX_GRAD_ROW(max_grad_grad_run),
     .grad = td_max_pool_grad_grad_grad},
    {.name = "MaxPoolGradGradV2",
     .sig =
         "(orig_input:T, orig_output:T, grad:T, ksize:int32, strides:int32) -> (output:T) {padding:string in "
         "['SAME','VALID']; " TD_POOL_2D "T:type}",
     .host_in = 24,
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = td_pool_max_grad_infer,
     .kernels = MAX_GRAD_ROW(max_grad_grad_run),
     .grad = td_max_pool_grad_grad_grad},
    {.name = "MaxPool3DGradGrad",
     .sig = "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" TD_POOL_WINDOW TD_POOL_3D "T:type}",
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = td_pool_max_grad_infer,
     .kernels = TD_KERNEL("max_pool_grad.cpu", max_grad_grad_run, {"T", TD_SET_FLOATS}),
     .grad = td_max_pool_grad_grad_grad},
    {.name = "MaxPoolGradWithArgmax",
     .sig = "(input:T, grad:T, argmax:Targmax) -> (output:T) {" TD_POOL_WINDOW
            "include_batch_in_index:bool=false; Targmax:type; T:type}",
     .infer = td_pool_argmax_grad_infer,
     .kernels =
         TD_KERNEL("max_pool_grad.cpu", argmax_grad_run, {"T", TD_SET_REALS}, {"Targmax", TD_SET_INDEX})},
    {.name = "MaxPoolGradGradWithArgmax",
     .sig = "(input:T, grad:T, argmax:Targmax) -> (output:T) {" TD_POOL_WINDOW
            "include_batch_in_index:bool=false; Targmax:type; T:type}",
     .infer = td_pool_argmax_grad_infer,
     .kernels =
         TD_KERNEL("max_pool_grad.cpu", argmax_grad_run, {"T", TD_SET_REALS}, {"Targmax", TD_SET_INDEX})},
    {.name = NULL},
};
