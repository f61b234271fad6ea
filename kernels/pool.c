/* kernels/pool.c - max and average pooling over one or two or three spatial axes, and their gradients.
 *
 *     x [N,H,W,C]   ->   y [N,H',W',C]          (one more axis for the 3-D ops)
 *
 * Channels last inside; a channels-first tensor is turned. Cells outside the input do not count: a maximum
 * ignores them and an average divides by the cells inside. Of equal maxima the first in row-major order of
 * the window gets the gradient. MaxPool may instead pool along the channels, in disjoint groups. half and
 * bfloat16 run in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/ops.h"
#include "kernels/vecmath.h"
#include "kernels/widen.h"
#include "kernels/window.h"

struct pool {
    struct td_layout layout;
    int64_t batch, channels, depth; /* depth: channels a group, 1 unless pooling along the channels */
    struct td_window axis[3];       /* leading ones of size 1 for 2-D */
};

static bool is_3d(const struct td_node *n)
{
    return strstr(n->op_name, "Pool3D") != NULL;
}

/* ------------------------------------------------------------------ attributes and shapes */

/* Fills in windows and strides from lists of `rank` numbers. */
static enum td_code set_windows(const struct td_node *n, const int64_t *ksize, const int64_t *strides,
                                struct pool *p, struct td_err *err)
{
    const struct td_layout *l = &p->layout;
    for (int i = 0; i < l->n_spatial + 2; i++) {
        TD_FAIL_IF(ksize[i] <= 0, err, INVALID_ARGUMENT,
                   "%s: Sliding window ksize must be positive. The specified or inferred ksize of dimension "
                   "%d is %lld",
                   TD_NODE_STR(n), i, (long long)ksize[i]);
        TD_FAIL_IF(strides[i] <= 0, err, INVALID_ARGUMENT,
                   "%s: Sliding window strides must be positive. The stride of dimension %d is %lld",
                   TD_NODE_STR(n), i, (long long)strides[i]);
    }
    TD_FAIL_IF(ksize[0] != 1 || strides[0] != 1, err, UNIMPLEMENTED,
               "%s: Pooling is not yet supported on the batch dimension.", TD_NODE_STR(n));
    p->depth = ksize[l->channel];
    bool spatial = false;
    for (int i = 0; i < l->n_spatial; i++) {
        p->axis[3 - l->n_spatial + i].k = ksize[l->spatial + i];
        p->axis[3 - l->n_spatial + i].stride = strides[l->spatial + i];
        spatial = spatial || ksize[l->spatial + i] != 1;
    }
    bool plain_max = strcmp(n->op_name, "MaxPool") == 0 || strcmp(n->op_name, "MaxPoolV2") == 0;
    TD_FAIL_IF(p->depth != 1 && (!plain_max || l->channels_first), err, UNIMPLEMENTED,
               "%s: Non-spatial pooling is not yet supported: ksize %lld on the channel dimension",
               TD_NODE_STR(n), (long long)p->depth);
    TD_FAIL_IF(p->depth != 1 && spatial, err, UNIMPLEMENTED,
               "%s: MaxPooling supports exactly one of pooling across depth or pooling across width/height.",
               TD_NODE_STR(n));
    TD_FAIL_IF(strides[l->channel] != p->depth, err, UNIMPLEMENTED,
               "%s: Depthwise max pooling requires the depth window to equal the depth stride: %lld and %lld",
               TD_NODE_STR(n), (long long)p->depth, (long long)strides[l->channel]);
    return TD_OK;
}

static enum td_code set_explicit(const struct td_node *n, struct pool *p, struct td_err *err)
{
    const struct td_layout *l = &p->layout;
    int count, rank = l->n_spatial + 2;
    const int64_t *v = td_attr_ints(n, "explicit_paddings", &count);
    if (td_window_padding(n) != TD_PAD_EXPLICIT) {
        return TD_OK;
    }
    TD_FAIL_IF(count != 2 * rank, err, INVALID_ARGUMENT,
               "%s: explicit_paddings attribute must contain %d values, but got: %d", TD_NODE_STR(n),
               2 * rank, count);
    TD_FAIL_IF(
        v[0] != 0 || v[1] != 0 || v[2 * l->channel] != 0 || v[2 * l->channel + 1] != 0, err, INVALID_ARGUMENT,
        "%s: Nonzero explicit padding in the batch or depth dimensions is not supported", TD_NODE_STR(n));
    for (int i = 0; i < l->n_spatial; i++) {
        p->axis[3 - l->n_spatial + i].before = v[2 * (l->spatial + i)];
        p->axis[3 - l->n_spatial + i].after = v[2 * (l->spatial + i) + 1];
    }
    return TD_OK;
}

/* Everything about the pool of node n over input shape x (may be partly unknown), with the window lists
 * given. */
static enum td_code pool_spec(const struct td_node *n, const struct td_shape *x, const int64_t *ksize,
                              const int64_t *strides, struct pool *p, struct td_err *err)
{
    int rank = is_3d(n) ? 5 : 4;
    const char *format = td_attr_str(n, "data_format");
    TD_FAIL_IF(strcmp(format, "NCHW_VECT_C") == 0, err, UNIMPLEMENTED,
               "%s: data_format NCHW_VECT_C is not supported on the CPU", TD_NODE_STR(n));
    *p = (struct pool){.layout = td_layout_of(format, rank), .batch = -1, .channels = -1};
    for (int i = 0; i < 3; i++) {
        bool used = i >= 5 - rank;
        p->axis[i] =
            (struct td_window){.in = used ? -1 : 1, .k = 1, .stride = 1, .dilation = 1, .out = used ? -1 : 1};
    }
    TD_TRY(set_windows(n, ksize, strides, p, err));
    TD_TRY(set_explicit(n, p, err));
    TD_FAIL_IF(x->rank >= 0 && x->rank != rank, err, INVALID_ARGUMENT,
               "%s: tensor_in must be %d-dimensional: it must have %d spatial dimensions, got shape %s",
               TD_NODE_STR(n), rank, rank - 2, TD_SHAPE_STR(x));
    if (x->rank < 0) {
        return TD_OK;
    }
    p->batch = x->dim[0];
    p->channels = x->dim[p->layout.channel];
    TD_FAIL_IF(
        p->channels >= 0 && p->channels % p->depth != 0, err, UNIMPLEMENTED,
        "%s: Depthwise max pooling requires the depth window to evenly divide the input depth: %lld and %lld",
        TD_NODE_STR(n), (long long)p->depth, (long long)p->channels);
    for (int i = 0; i < p->layout.n_spatial; i++) {
        struct td_window *w = &p->axis[3 - p->layout.n_spatial + i];
        w->in = x->dim[p->layout.spatial + i];
        TD_TRY(td_window_make(w, td_window_padding(n), n, err));
        if (is_3d(n) && td_window_padding(n) == TD_PAD_SAME && strstr(n->op_name, "Grad") == NULL) {
            td_window_skip(w);
        }
    }
    return TD_OK;
}

static enum td_code pool_attrs(const struct td_node *n, const struct td_shape *x, struct pool *p,
                               struct td_err *err)
{
    int n_ksize, n_strides, rank = is_3d(n) ? 5 : 4;
    const int64_t *ksize = td_attr_ints(n, "ksize", &n_ksize),
                  *strides = td_attr_ints(n, "strides", &n_strides);
    TD_FAIL_IF(n_ksize != rank, err, INVALID_ARGUMENT,
               "%s: Sliding window ksize field must specify %d dimensions, got %d", TD_NODE_STR(n), rank,
               n_ksize);
    TD_FAIL_IF(n_strides != rank, err, INVALID_ARGUMENT,
               "%s: Sliding window stride field must specify %d dimensions, got %d", TD_NODE_STR(n), rank,
               n_strides);
    return pool_spec(n, x, ksize, strides, p, err);
}

/* Windows from int32 vectors (the V2 ops). */
static enum td_code pool_values(const struct td_node *n, const struct td_shape *x, const struct td_tensor *k,
                                const struct td_tensor *s, struct pool *p, struct td_err *err)
{
    int64_t ksize[4], strides[4];
    TD_FAIL_IF(k->shape.rank != 1 || td_tensor_count(k) != 4 || s->shape.rank != 1 || td_tensor_count(s) != 4,
               err, INVALID_ARGUMENT,
               "%s: Sliding window ksize and stride must be vectors of 4, got shapes %s and %s",
               TD_NODE_STR(n), TD_SHAPE_STR(&k->shape), TD_SHAPE_STR(&s->shape));
    for (int i = 0; i < 4; i++) {
        ksize[i] = td_tensor_int(k, i);
        strides[i] = td_tensor_int(s, i);
    }
    return pool_spec(n, x, ksize, strides, p, err);
}

static struct td_shape pooled_shape(const struct pool *p)
{
    const struct td_layout *l = &p->layout;
    struct td_shape s = td_shape_of_rank(l->n_spatial + 2);
    s.dim[0] = p->batch;
    s.dim[l->channel] = p->channels < 0 ? -1 : p->channels / p->depth;
    for (int i = 0; i < l->n_spatial; i++) {
        s.dim[l->spatial + i] = p->axis[3 - l->n_spatial + i].out;
    }
    return s;
}

static enum td_code pool_infer(struct td_infer *c, struct td_err *err)
{
    struct pool p;
    TD_TRY(pool_attrs(c->node, &c->in[0], &p, err));
    c->out[0] = pooled_shape(&p);
    if (c->n_out == 2) {
        c->out[1] = c->out[0];
    }
    return TD_OK;
}

static enum td_code pool_v2_infer(struct td_infer *c, struct td_err *err)
{
    struct pool p;
    if (c->value[1] == NULL || c->value[2] == NULL) {
        c->out[0] = td_shape_of_rank(4);
        return TD_OK;
    }
    TD_TRY(pool_values(c->node, &c->in[0], c->value[1], c->value[2], &p, err));
    c->out[0] = pooled_shape(&p);
    return TD_OK;
}

static enum td_code want_shape(const struct td_infer *c, int i, const struct td_shape *want,
                               struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(&c->in[i], want), err, INVALID_ARGUMENT,
               "%s: Expected input %d to have shape %s, but got %s", TD_NODE_STR(c->node), i,
               TD_SHAPE_STR(want), TD_SHAPE_STR(&c->in[i]));
    return TD_OK;
}

/* (orig_input, orig_output, grad[, ksize, strides]) of MaxPoolGrad; GradGrad takes the gradient at the input
 * instead. */
static enum td_code max_grad_infer(struct td_infer *c, struct td_err *err)
{
    struct pool p;
    bool second = strstr(c->node->op_name, "GradGrad") != NULL;
    c->out[0] = second ? c->in[1] : c->in[0];
    if (c->n_in == 5 && (c->value[3] == NULL || c->value[4] == NULL)) {
        return TD_OK;
    }
    TD_TRY(c->n_in == 5 ? pool_values(c->node, &c->in[0], c->value[3], c->value[4], &p, err)
                        : pool_attrs(c->node, &c->in[0], &p, err));
    struct td_shape pooled = pooled_shape(&p);
    TD_TRY(want_shape(c, 1, &pooled, err));
    return want_shape(c, 2, second ? &c->in[0] : &pooled, err);
}

/* (input, grad, argmax). */
static enum td_code argmax_grad_infer(struct td_infer *c, struct td_err *err)
{
    struct pool p;
    TD_TRY(pool_attrs(c->node, &c->in[0], &p, err));
    bool second = strstr(c->node->op_name, "GradGrad") != NULL;
    struct td_shape pooled = pooled_shape(&p);
    c->out[0] = second ? pooled : c->in[0];
    TD_TRY(want_shape(c, 1, second ? &c->in[0] : &pooled, err));
    return want_shape(c, 2, &pooled, err);
}

/* (orig_input_shape, grad). */
static enum td_code avg_grad_infer(struct td_infer *c, struct td_err *err)
{
    struct pool p;
    struct td_shape x;
    TD_TRY(td_infer_shape_value(c, 0, false, &x, err));
    TD_TRY(pool_attrs(c->node, &x, &p, err));
    struct td_shape pooled = pooled_shape(&p);
    TD_TRY(want_shape(c, 1, &pooled, err));
    c->out[0] = x.rank < 0 ? td_shape_of_rank(is_3d(c->node) ? 5 : 4) : x;
    return TD_OK;
}

/* ------------------------------------------------------------------ walking the cells of a window */

static int64_t in_cells(const struct pool *p)
{
    return p->axis[0].in * p->axis[1].in * p->axis[2].in;
}
static int64_t out_cells(const struct pool *p)
{
    return p->axis[0].out * p->axis[1].out * p->axis[2].out;
}

struct cell_walk {
    int64_t image, from[3], to[3], at[3], in_cell, count;
};

static void place(struct cell_walk *w, const struct pool *p)
{
    w->in_cell =
        ((w->image * p->axis[0].in + w->at[0]) * p->axis[1].in + w->at[1]) * p->axis[2].in + w->at[2];
}

/* Stands on the first cell of output cell `cell`'s window; false when the window is empty. */
static bool cell_start(struct cell_walk *w, const struct pool *p, int64_t cell)
{
    int64_t rest = cell;
    w->count = 1;
    for (int a = 2; a >= 0; a--) {
        const struct td_window *x = &p->axis[a];
        int64_t start = rest % x->out * x->stride - x->before;
        rest /= x->out;
        w->from[a] = start < 0 ? 0 : start;
        w->to[a] = start + x->k < x->in ? start + x->k : x->in;
        w->at[a] = w->from[a];
        w->count *= w->to[a] > w->from[a] ? w->to[a] - w->from[a] : 0;
    }
    w->image = rest;
    place(w, p);
    return w->count > 0;
}

static bool cell_next(struct cell_walk *w, const struct pool *p)
{
    int a = 2;
    while (a >= 0 && ++w->at[a] == w->to[a]) {
        w->at[a] = w->from[a];
        a--;
    }
    place(w, p);
    return a >= 0;
}

#define WRAPPED(a, b) ((uint64_t)(a) + (uint64_t)(b))

#define T float
#define FN(name) name##_f32
#define LOWEST -INFINITY
#define ADD(a, b) ((a) + (b))
#include "kernels/pool_plain.inc"
#define T double
#define FN(name) name##_f64
#define LOWEST -INFINITY
#define ADD(a, b) ((a) + (b))
#include "kernels/pool_plain.inc"
#define T int8_t
#define FN(name) name##_i8
#define LOWEST INT8_MIN
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/pool_plain.inc"
#define T uint8_t
#define FN(name) name##_u8
#define LOWEST 0
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/pool_plain.inc"
#define T int16_t
#define FN(name) name##_i16
#define LOWEST INT16_MIN
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/pool_plain.inc"
#define T uint16_t
#define FN(name) name##_u16
#define LOWEST 0
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/pool_plain.inc"
#define T int32_t
#define FN(name) name##_i32
#define LOWEST INT32_MIN
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/pool_plain.inc"
#define T uint32_t
#define FN(name) name##_u32
#define LOWEST 0
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/pool_plain.inc"
#define T int64_t
#define FN(name) name##_i64
#define LOWEST INT64_MIN
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/pool_plain.inc"
#define T uint64_t
#define FN(name) name##_u64
#define LOWEST 0
#define ADD(a, b) WRAPPED(a, b)
#include "kernels/pool_plain.inc"

/* One row a type that pooling computes in; half and bfloat16 are brought to float first. */
static const struct body {
    enum td_dtype dtype;
    void (*forward)(const struct pool *p, const void *x, void *y, int64_t *at);
    void (*find_equal)(const struct pool *p, const void *x, const void *y, int64_t *at);
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

static enum td_dtype arithmetic(enum td_dtype t)
{
    return t == TD_HALF || t == TD_BFLOAT16 ? TD_FLOAT : t;
}

/* t in the arithmetic type and channels last; `cells` a image. */
static enum td_code bring(struct td_call *c, const struct pool *p, const struct td_tensor *t, int64_t cells,
                          const void **out, struct td_err *err)
{
    enum td_dtype type = arithmetic(t->dtype);
    const void *data = t->data;
    if (type != t->dtype) {
        const float *f;
        TD_TRY(td_widen(c, t, &f, err));
        data = f;
    }
    if (p->layout.channels_first && td_tensor_count(t) > 0) {
        void *turned;
        TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), &turned, err));
        td_layout_swap(turned, data, p->batch, p->channels, cells, td_dtype_size(type));
        data = turned;
    }
    *out = data;
    return TD_OK;
}

static enum td_code room(struct td_call *c, const struct pool *p, const struct td_tensor *t, void **out,
                         struct td_err *err)
{
    enum td_dtype type = arithmetic(t->dtype);
    *out = t->data;
    if (type == t->dtype && !p->layout.channels_first) {
        return TD_OK;
    }
    return td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), out, err);
}

static enum td_code deliver(struct td_call *c, const struct pool *p, struct td_tensor *t, int64_t cells,
                            void *from, struct td_err *err)
{
    enum td_dtype type = arithmetic(t->dtype);
    if (from == t->data || td_tensor_count(t) == 0) {
        return TD_OK;
    }
    void *turned = from;
    if (p->layout.channels_first) {
        turned = t->data;
        if (type != t->dtype) {
            TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), &turned, err));
        }
        td_layout_swap(turned, from, p->batch, cells, p->channels, td_dtype_size(type));
    }
    if (type != t->dtype) {
        td_narrow(t, turned);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ max */

/* Pooling along the channels is pooling along rows of `depth` cells of one channel. */
static void along_depth(struct pool *p)
{
    if (p->depth == 1) {
        return;
    }
    int64_t groups = p->batch * in_cells(p) * (p->channels / p->depth);
    struct td_window row = {.in = p->depth, .k = p->depth, .stride = p->depth, .dilation = 1, .out = 1};
    struct td_window one = {.in = 1, .k = 1, .stride = 1, .dilation = 1, .out = 1};
    *p = (struct pool){
        .layout = p->layout, .batch = groups, .channels = 1, .depth = 1, .axis = {one, one, row}};
}

static enum td_code max_pool(struct td_call *c, struct pool *p, struct td_err *err)
{
    struct td_tensor *y;
    const void *x;
    void *to;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(bring(c, p, c->in[0], in_cells(p), &x, err));
    TD_TRY(room(c, p, y, &to, err));
    if (td_tensor_count(y) > 0) {
        along_depth(p);
        body_of(arithmetic(y->dtype))->forward(p, x, to, NULL);
    }
    return deliver(c, p, y, out_cells(p), to, err);
}

static enum td_code max_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    TD_TRY(pool_attrs(c->node, &c->in[0]->shape, &p, err));
    return max_pool(c, &p, err);
}

static enum td_code max_v2_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    TD_TRY(pool_values(c->node, &c->in[0]->shape, c->in[1], c->in[2], &p, err));
    return max_pool(c, &p, err);
}

/* Where each output cell's maximum came from: flat indices into x with channels last. */
static enum td_code find_max(struct td_call *c, const struct pool *p, enum td_dtype type, const void *x,
                             int64_t **at, struct td_err *err)
{
    int64_t n = p->batch * out_cells(p) * p->channels;
    void *y, *where;
    TD_TRY(td_scratch(c, (size_t)n * td_dtype_size(type), &y, err));
    TD_TRY(td_scratch(c, (size_t)n * sizeof(int64_t), &where, err));
    if (n > 0) {
        body_of(type)->forward(p, x, y, where);
    }
    *at = where;
    return TD_OK;
}

static enum td_code max_argmax_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    struct td_tensor *y, *argmax;
    const void *x;
    void *to, *where;
    TD_TRY(pool_attrs(c->node, &c->in[0]->shape, &p, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &argmax, err));
    TD_TRY(bring(c, &p, c->in[0], in_cells(&p), &x, err));
    TD_TRY(room(c, &p, y, &to, err));
    int64_t n = td_tensor_count(y), per_image = n == 0 || p.batch == 0 ? 1 : n / p.batch;
    int64_t image = td_attr_bool(c->node, "include_batch_in_index") ? 0 : in_cells(&p) * p.channels;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(int64_t), &where, err));
    if (n > 0) {
        body_of(arithmetic(y->dtype))->forward(&p, x, to, where);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t v = ((int64_t *)where)[i] - i / per_image * image;
        if (argmax->dtype == TD_INT32) {
            TD_DATA(argmax, int32_t)[i] = (int32_t)v;
        } else {
            TD_DATA(argmax, int64_t)[i] = v;
        }
    }
    return deliver(c, &p, y, out_cells(&p), to, err);
}

static enum td_code scatter_to(struct td_call *c, const struct pool *p, const struct td_tensor *grad,
                               const int64_t *at, struct td_err *err)
{
    struct td_tensor *dx;
    const void *dy;
    void *to;
    enum td_dtype type = arithmetic(grad->dtype);
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(bring(c, p, grad, out_cells(p), &dy, err));
    TD_TRY(room(c, p, dx, &to, err));
    if (td_tensor_count(dx) > 0) {
        memset(to, 0, (size_t)td_tensor_count(dx) * td_dtype_size(type));
        body_of(type)->scatter(to, dy, at, td_tensor_count(grad));
    }
    return deliver(c, p, dx, in_cells(p), to, err);
}

/* y[i] = grad[at[i]]: the maximum's gradient is a selection. */
static enum td_code select_from(struct td_call *c, const struct pool *p, const struct td_tensor *grad,
                                const int64_t *at, struct td_err *err)
{
    struct td_tensor *y;
    const void *from;
    void *to;
    enum td_dtype type = arithmetic(grad->dtype);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(bring(c, p, grad, in_cells(p), &from, err));
    TD_TRY(room(c, p, y, &to, err));
    size_t size = td_dtype_size(type);
    for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
        char *cell = (char *)to + (size_t)i * size;
        if (at[i] >= 0) {
            memcpy(cell, (const char *)from + (size_t)at[i] * size, size);
        } else {
            memset(cell, 0, size);
        }
    }
    return deliver(c, p, y, out_cells(p), to, err);
}

static enum td_code max_grad_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    const void *x;
    int64_t *at;
    const struct td_shape *shape = &c->in[0]->shape;
    TD_TRY(c->n_in == 5 ? pool_values(c->node, shape, c->in[3], c->in[4], &p, err)
                        : pool_attrs(c->node, shape, &p, err));
    TD_TRY(bring(c, &p, c->in[0], in_cells(&p), &x, err));
    TD_TRY(find_max(c, &p, arithmetic(c->in[0]->dtype), x, &at, err));
    return scatter_to(c, &p, c->in[2], at, err);
}

/* The places are those that hold orig_output, not those of a maximum found again: TensorFlow's rule. */
static enum td_code max_grad_grad_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    const void *x, *y;
    void *at;
    TD_TRY(pool_attrs(c->node, &c->in[0]->shape, &p, err));
    TD_TRY(bring(c, &p, c->in[0], in_cells(&p), &x, err));
    TD_TRY(bring(c, &p, c->in[1], out_cells(&p), &y, err));
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(c->in[1]) * sizeof(int64_t), &at, err));
    if (td_tensor_count(c->in[1]) > 0) {
        body_of(arithmetic(c->in[0]->dtype))->find_equal(&p, x, y, at);
    }
    return select_from(c, &p, c->in[2], at, err);
}

/* dx[i] += dy wherever x[i] is the maximum: in 3-D every one of equal maxima gets the whole gradient. */
static void max_grad_all(const struct pool *p, const float *x, const float *y, const float *dy, float *dx)
{
    struct cell_walk w;
    int64_t cells = p->batch * out_cells(p), n = p->channels;
    for (int64_t cell = 0; cell < cells; cell++, y += n, dy += n) {
        for (bool more = cell_start(&w, p, cell); more; more = cell_next(&w, p)) {
            for (int64_t c = 0; c < n; c++) {
                dx[w.in_cell * n + c] += x[w.in_cell * n + c] == y[c] ? dy[c] : 0;
            }
        }
    }
}

static enum td_code max_grad_3d_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    struct td_tensor *dx;
    const void *x, *y, *dy;
    void *to;
    TD_TRY(pool_attrs(c->node, &c->in[0]->shape, &p, err));
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(bring(c, &p, c->in[0], in_cells(&p), &x, err));
    TD_TRY(bring(c, &p, c->in[1], out_cells(&p), &y, err));
    TD_TRY(bring(c, &p, c->in[2], out_cells(&p), &dy, err));
    TD_TRY(room(c, &p, dx, &to, err));
    if (td_tensor_count(dx) > 0) {
        memset(to, 0, (size_t)td_tensor_count(dx) * sizeof(float));
        max_grad_all(&p, x, y, dy, to);
    }
    return deliver(c, &p, dx, in_cells(&p), to, err);
}

static enum td_code argmax_grad_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    TD_TRY(pool_attrs(c->node, &c->in[0]->shape, &p, err));
    const struct td_tensor *argmax = c->in[2];
    int64_t n = td_tensor_count(argmax), size = td_tensor_count(c->in[0]), image = in_cells(&p) * p.channels;
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

/* ------------------------------------------------------------------ average */

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

static void avg_f32(const struct pool *p, const float *x, float *y)
{
    struct cell_walk w;
    int64_t cells = p->batch * out_cells(p), n = p->channels;
    for (int64_t cell = 0; cell < cells; cell++, y += n) {
        memset(y, 0, (size_t)n * sizeof *y);
        for (bool more = cell_start(&w, p, cell); more; more = cell_next(&w, p)) {
            add_row(y, x + w.in_cell * n, 1, n);
        }
        scale_row(y, (float)w.count, n);
    }
}

static void avg_grad_f32(const struct pool *p, const float *dy, float *dx)
{
    struct cell_walk w;
    int64_t cells = p->batch * out_cells(p), n = p->channels;
    memset(dx, 0, (size_t)(p->batch * in_cells(p) * n) * sizeof *dx);
    for (int64_t cell = 0; cell < cells; cell++, dy += n) {
        for (bool more = cell_start(&w, p, cell); more; more = cell_next(&w, p)) {
            add_row(dx + w.in_cell * n, dy, 1.0f / (float)w.count, n);
        }
    }
}

static void avg_f64(const struct pool *p, const double *x, double *y)
{
    struct cell_walk w;
    int64_t cells = p->batch * out_cells(p), n = p->channels;
    for (int64_t cell = 0; cell < cells; cell++, y += n) {
        memset(y, 0, (size_t)n * sizeof *y);
        for (bool more = cell_start(&w, p, cell); more; more = cell_next(&w, p)) {
            for (int64_t c = 0; c < n; c++) {
                y[c] += x[w.in_cell * n + c];
            }
        }
        for (int64_t c = 0; c < n; c++) {
            y[c] /= (double)w.count;
        }
    }
}

static void avg_grad_f64(const struct pool *p, const double *dy, double *dx)
{
    struct cell_walk w;
    int64_t cells = p->batch * out_cells(p), n = p->channels;
    memset(dx, 0, (size_t)(p->batch * in_cells(p) * n) * sizeof *dx);
    for (int64_t cell = 0; cell < cells; cell++, dy += n) {
        for (bool more = cell_start(&w, p, cell); more; more = cell_next(&w, p)) {
            for (int64_t c = 0; c < n; c++) {
                dx[w.in_cell * n + c] += dy[c] / (double)w.count;
            }
        }
    }
}

static enum td_code avg_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    struct td_tensor *y;
    const void *x;
    void *to;
    TD_TRY(pool_attrs(c->node, &c->in[0]->shape, &p, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(bring(c, &p, c->in[0], in_cells(&p), &x, err));
    TD_TRY(room(c, &p, y, &to, err));
    if (td_tensor_count(y) > 0 && y->dtype == TD_DOUBLE) {
        avg_f64(&p, x, to);
    } else if (td_tensor_count(y) > 0) {
        avg_f32(&p, x, to);
    }
    return deliver(c, &p, y, out_cells(&p), to, err);
}

static enum td_code avg_grad_run(struct td_call *c, struct td_err *err)
{
    struct pool p;
    struct td_tensor *dx;
    const void *dy;
    void *to;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(pool_attrs(c->node, &dx->shape, &p, err));
    TD_TRY(bring(c, &p, c->in[1], out_cells(&p), &dy, err));
    TD_TRY(room(c, &p, dx, &to, err));
    if (td_tensor_count(dx) > 0 && dx->dtype == TD_DOUBLE) {
        avg_grad_f64(&p, dy, to);
    } else if (td_tensor_count(dx) > 0) {
        avg_grad_f32(&p, dy, to);
    }
    return deliver(c, &p, dx, in_cells(&p), to, err);
}

/* ------------------------------------------------------------------ table */

#define WINDOW "ksize:list(int); strides:list(int); padding:string in ['SAME','VALID']; "
#define WINDOW_EXPLICIT                                                                                      \
    "ksize:list(int); strides:list(int); padding:string in ['SAME','VALID','EXPLICIT']; "                    \
    "explicit_paddings:list(int)=[]; "
#define NHWC "data_format:string='NHWC' in ['NHWC','NCHW']; "
#define NDHWC "data_format:string='NDHWC' in ['NDHWC','NCDHW']; "
#define SET_3D (TD_BIT(TD_FLOAT) | TD_BIT(TD_BFLOAT16) | TD_BIT(TD_HALF) | TD_BIT(TD_DOUBLE))
#define MAX_ROW(fn) TD_KERNEL("max_pool.cpu", fn, {"T", TD_SET_REALS | TD_BIT(TD_QINT8)})
#define MAX_GRAD_ROW(fn) TD_KERNEL("max_pool_grad.cpu", fn, {"T", TD_SET_REALS})

const struct td_op td_ops_pool[] = {
    {.name = "MaxPool",
     .sig = "(input:T) -> (output:T) {T:type=float; " WINDOW_EXPLICIT
            "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C']}",
     .rows = TD_ROWS_MAP_FIRST,
     .infer = pool_infer,
     .kernels = MAX_ROW(max_run)},
    {.name = "MaxPoolV2",
     .sig = "(input:T, ksize:int32, strides:int32) -> (output:T) {T:type=float; padding:string in "
            "['SAME','VALID']; "
            "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C']}",
     .rows = TD_ROWS_MAP_FIRST,
     .host_in = 6,
     .infer = pool_v2_infer,
     .kernels = MAX_ROW(max_v2_run)},
    {.name = "MaxPool3D",
     .sig = "(input:T) -> (output:T) {" WINDOW NDHWC "T:type}",
     .rows = TD_ROWS_MAP_FIRST,
     .infer = pool_infer,
     .kernels = TD_KERNEL("max_pool.cpu", max_run, {"T", SET_3D})},
    {.name = "MaxPoolWithArgmax",
     .sig =
         "(input:T) -> (output:T, argmax:Targmax) {ksize:list(int); strides:list(int); Targmax:type=int64; "
         "padding:string in ['SAME','VALID']; include_batch_in_index:bool=false; T:type}",
     .infer = pool_infer,
     .kernels = TD_KERNEL("max_pool.cpu", max_argmax_run, {"T", TD_SET_REALS}, {"Targmax", TD_SET_INDEX})},
    {.name = "MaxPoolGrad",
     .sig = "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" WINDOW_EXPLICIT NHWC "T:type=float}",
     .infer = max_grad_infer,
     .kernels = MAX_GRAD_ROW(max_grad_run)},
    {.name = "MaxPoolGradV2",
     .sig =
         "(orig_input:T, orig_output:T, grad:T, ksize:int32, strides:int32) -> (output:T) {padding:string in "
         "['SAME','VALID']; " NHWC "T:type=float}",
     .host_in = 24,
     .infer = max_grad_infer,
     .kernels = MAX_GRAD_ROW(max_grad_run)},
    {.name = "MaxPool3DGrad",
     .sig = "(orig_input:TInput, orig_output:TInput, grad:T) -> (output:T) {" WINDOW NDHWC
            "T:type=float; TInput:type=float}",
     .infer = max_grad_infer,
     .kernels = TD_KERNEL("max_pool_grad.cpu", max_grad_3d_run, {"T", SET_3D}, {"TInput", SET_3D})},
    {.name = "MaxPoolGradGrad",
     .sig = "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" WINDOW NHWC "T:type}",
     .infer = max_grad_infer,
     .kernels = MAX_GRAD_ROW(max_grad_grad_run)},
    {.name = "MaxPool3DGradGrad",
     .sig = "(orig_input:T, orig_output:T, grad:T) -> (output:T) {" WINDOW NDHWC "T:type}",
     .infer = max_grad_infer,
     .kernels = TD_KERNEL("max_pool_grad.cpu", max_grad_grad_run, {"T", SET_3D})},
    {.name = "MaxPoolGradWithArgmax",
     .sig = "(input:T, grad:T, argmax:Targmax) -> (output:T) {" WINDOW
            "include_batch_in_index:bool=false; Targmax:type; T:type}",
     .infer = argmax_grad_infer,
     .kernels =
         TD_KERNEL("max_pool_grad.cpu", argmax_grad_run, {"T", TD_SET_REALS}, {"Targmax", TD_SET_INDEX})},
    {.name = "MaxPoolGradGradWithArgmax",
     .sig = "(input:T, grad:T, argmax:Targmax) -> (output:T) {" WINDOW
            "include_batch_in_index:bool=false; Targmax:type; T:type}",
     .infer = argmax_grad_infer,
     .kernels =
         TD_KERNEL("max_pool_grad.cpu", argmax_grad_run, {"T", TD_SET_REALS}, {"Targmax", TD_SET_INDEX})},
    {.name = "AvgPool",
     .sig = "(value:T) -> (output:T) {" WINDOW NHWC "T:type}",
     .rows = TD_ROWS_MAP_FIRST,
     .infer = pool_infer,
     .kernels = TD_KERNEL("avg_pool.cpu", avg_run, {"T", TD_SET_FLOATS})},
    {.name = "AvgPool3D",
     .sig = "(input:T) -> (output:T) {" WINDOW NDHWC "T:type}",
     .rows = TD_ROWS_MAP_FIRST,
     .infer = pool_infer,
     .kernels = TD_KERNEL("avg_pool.cpu", avg_run, {"T", SET_3D})},
    {.name = "AvgPoolGrad",
     .sig = "(orig_input_shape:int32, grad:T) -> (output:T) {" WINDOW NHWC "T:type}",
     .host_in = 1,
     .infer = avg_grad_infer,
     .kernels = TD_KERNEL("avg_pool_grad.cpu", avg_grad_run, {"T", TD_SET_FLOATS})},
    {.name = "AvgPool3DGrad",
     .sig = "(orig_input_shape:int32, grad:T) -> (output:T) {" WINDOW NDHWC "T:type}",
     .host_in = 1,
     .infer = avg_grad_infer,
     .kernels = TD_KERNEL("avg_pool_grad.cpu", avg_grad_run, {"T", SET_3D})},
    {.name = NULL},
};
