/* kernels/nn/pool_spec.c - what all pools share: windows from attributes or tensors, shape functions, a walk
 * over a window, tensors brought in and out.
 *
 * A pool is always three axes, with leading ones of size 1 for 2-D, and always channels last inside:
 * channels-first tensors are swapped into scratch, half and bfloat16 become float there. td_pool_bring and
 * td_pool_room give the plain memory where neither is needed, and td_pool_deliver undoes what td_pool_room
 * did.
 *
 * The walk stands on one input cell at a time and steps through the window as an odometer does, last axis
 * first; the window is cut at the edges of the input, and `count` is what is left of it.
 *
 * Errors are TensorFlow's. Does not: compute maxima or averages (kernels/nn/pool.c, pool_avg.c), keep state.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/pool_spec.h"

#include <string.h>

#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/upcast.h"

struct pool_job {
    const struct td_pool *p;
    td_pool_fn *fn;
    struct td_pool_part all;
};

static void pool_range(void *arg, int64_t from, int64_t to, int who)
{
    (void)who;
    const struct pool_job *j = arg;
    struct td_pool_part part = j->all;
    part.from = from;
    part.to = to;
    j->fn(j->p, &part);
}

void td_pool_spread(const struct td_call *c, const struct td_pool *p, td_pool_fn *fn, const void *x, void *y,
                    int64_t *at)
{
    struct pool_job j = {p, fn, {.x = x, .y = y, .at = at}};
    double ops = (double)p->channels;
    for (int i = 0; i < 3; i++) {
        ops *= (double)p->axis[i].k;
    }
    td_spread(c, p->batch * td_pool_out_cells(p), 1, ops * TD_SPREAD_OP_NS, pool_range, &j);
}

bool td_pool_is_3d(const struct td_node *n)
{
    return strstr(n->op_name, "Pool3D") != NULL;
}

/* ------------------------------------------------------------------ attributes and shapes */

/* Fills in windows and strides from lists of `rank` numbers. */
static enum td_code set_windows(const struct td_node *n, const int64_t *ksize, const int64_t *strides,
                                struct td_pool *p, struct td_err *err)
{
    const struct td_data_layout *l = &p->layout;
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

static enum td_code set_explicit(const struct td_node *n, struct td_pool *p, struct td_err *err)
{
    const struct td_data_layout *l = &p->layout;
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
                              const int64_t *strides, struct td_pool *p, struct td_err *err)
{
    int rank = td_pool_is_3d(n) ? 5 : 4;
    const char *format = td_attr_str(n, "data_format");
    TD_FAIL_IF(strcmp(format, "NCHW_VECT_C") == 0, err, UNIMPLEMENTED,
               "%s: data_format NCHW_VECT_C is not supported on the CPU", TD_NODE_STR(n));
    *p = (struct td_pool){.layout = td_data_layout_of(format, rank), .batch = -1, .channels = -1};
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
        if (td_pool_is_3d(n) && td_window_padding(n) == TD_PAD_SAME && strstr(n->op_name, "Grad") == NULL) {
            td_window_skip(w, TD_PAD_SAME);
        }
    }
    return TD_OK;
}

enum td_code td_pool_attrs(const struct td_node *n, const struct td_shape *x, struct td_pool *p,
                           struct td_err *err)
{
    int n_ksize, n_strides, rank = td_pool_is_3d(n) ? 5 : 4;
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

enum td_code td_pool_values(const struct td_node *n, const struct td_shape *x, const struct td_tensor *k,
                            const struct td_tensor *s, struct td_pool *p, struct td_err *err)
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

static struct td_shape td_pool_shape(const struct td_pool *p)
{
    const struct td_data_layout *l = &p->layout;
    struct td_shape s = td_shape_of_rank(l->n_spatial + 2);
    s.dim[0] = p->batch;
    s.dim[l->channel] = p->channels < 0 ? -1 : p->channels / p->depth;
    for (int i = 0; i < l->n_spatial; i++) {
        s.dim[l->spatial + i] = p->axis[3 - l->n_spatial + i].out;
    }
    return s;
}

enum td_code td_pool_infer(struct td_infer *c, struct td_err *err)
{
    struct td_pool p;
    TD_TRY(td_pool_attrs(c->node, &c->in[0], &p, err));
    c->out[0] = td_pool_shape(&p);
    if (c->n_out == 2) {
        c->out[1] = c->out[0];
    }
    return TD_OK;
}

enum td_code td_pool_v2_infer(struct td_infer *c, struct td_err *err)
{
    struct td_pool p;
    if (c->value[1] == NULL || c->value[2] == NULL) {
        c->out[0] = td_shape_of_rank(4);
        return TD_OK;
    }
    TD_TRY(td_pool_values(c->node, &c->in[0], c->value[1], c->value[2], &p, err));
    c->out[0] = td_pool_shape(&p);
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

enum td_code td_pool_max_grad_infer(struct td_infer *c, struct td_err *err)
{
    struct td_pool p;
    bool second = strstr(c->node->op_name, "GradGrad") != NULL;
    c->out[0] = second ? c->in[1] : c->in[0];
    if (c->n_in == 5 && (c->value[3] == NULL || c->value[4] == NULL)) {
        return TD_OK;
    }
    TD_TRY(c->n_in == 5 ? td_pool_values(c->node, &c->in[0], c->value[3], c->value[4], &p, err)
                        : td_pool_attrs(c->node, &c->in[0], &p, err));
    struct td_shape pooled = td_pool_shape(&p);
    TD_TRY(want_shape(c, 1, &pooled, err));
    return want_shape(c, 2, second ? &c->in[0] : &pooled, err);
}

enum td_code td_pool_argmax_grad_infer(struct td_infer *c, struct td_err *err)
{
    struct td_pool p;
    TD_TRY(td_pool_attrs(c->node, &c->in[0], &p, err));
    bool second = strstr(c->node->op_name, "GradGrad") != NULL;
    struct td_shape pooled = td_pool_shape(&p);
    c->out[0] = second ? pooled : c->in[0];
    TD_TRY(want_shape(c, 1, second ? &c->in[0] : &pooled, err));
    return want_shape(c, 2, &pooled, err);
}

enum td_code td_pool_avg_grad_infer(struct td_infer *c, struct td_err *err)
{
    struct td_pool p;
    struct td_shape x;
    TD_TRY(td_infer_shape_value(c, 0, false, &x, err));
    TD_TRY(td_pool_attrs(c->node, &x, &p, err));
    struct td_shape pooled = td_pool_shape(&p);
    TD_TRY(want_shape(c, 1, &pooled, err));
    c->out[0] = x.rank < 0 ? td_shape_of_rank(td_pool_is_3d(c->node) ? 5 : 4) : x;
    return TD_OK;
}

/* ------------------------------------------------------------------ walking the cells of a window */

int64_t td_pool_in_cells(const struct td_pool *p)
{
    return p->axis[0].in * p->axis[1].in * p->axis[2].in;
}
int64_t td_pool_out_cells(const struct td_pool *p)
{
    return p->axis[0].out * p->axis[1].out * p->axis[2].out;
}

static void place(struct td_pool_walk *w, const struct td_pool *p)
{
    w->in_cell =
        ((w->image * p->axis[0].in + w->at[0]) * p->axis[1].in + w->at[1]) * p->axis[2].in + w->at[2];
}

bool td_pool_cell_start(struct td_pool_walk *w, const struct td_pool *p, int64_t cell)
{
    int64_t rest = cell;
    w->count = 1;
    w->cut = false;
    if (td_work_spent(32)) {
        return false;
    }
    for (int a = 2; a >= 0; a--) {
        const struct td_window *x = &p->axis[a];
        int64_t start = rest % x->out * x->stride - x->before;
        rest /= x->out;
        w->from[a] = start < 0 ? 0 : start;
        w->to[a] = start + x->k < x->in ? start + x->k : x->in;
        if (p->stretched && start < 0 && x->k > x->in) {
            w->to[a] = x->in;
        }
        w->at[a] = w->from[a];
        w->cut |= w->to[a] - w->from[a] < x->k;
        w->count *= w->to[a] > w->from[a] ? w->to[a] - w->from[a] : 0;
    }
    w->image = rest;
    place(w, p);
    return w->count > 0;
}

/* Windows of the axis that lie inside are [*from, *to). */
static void inside_of(const struct td_window *w, int64_t *from, int64_t *to)
{
    *from = (w->before + w->stride - 1) / w->stride;
    *to = w->in + w->before >= w->k ? (w->in + w->before - w->k) / w->stride + 1 : 0;
    *to = *to < w->out ? *to : w->out;
}

int64_t td_pool_inside(const struct td_pool *p, int64_t cell, int64_t to, int64_t *in_cell)
{
    int64_t rest = cell, at[3], from[3], end[3], n = to - cell;
    bool inside = !p->stretched;
    for (int a = 2; a >= 0; a--) {
        inside_of(&p->axis[a], &from[a], &end[a]);
        at[a] = rest % p->axis[a].out;
        rest /= p->axis[a].out;
        inside &= p->axis[a].before >= 0 && at[a] >= from[a] && at[a] < end[a];
    }
    *in_cell = rest;
    for (int a = 0; a < 3; a++) {
        *in_cell = *in_cell * p->axis[a].in + at[a] * p->axis[a].stride - p->axis[a].before;
    }
    n = n < end[2] - at[2] ? n : end[2] - at[2];
    return inside && !td_work_spent(32 * n) ? n : 0;
}

bool td_pool_cell_next(struct td_pool_walk *w, const struct td_pool *p)
{
    int a = 2;
    while (a >= 0 && ++w->at[a] == w->to[a]) {
        w->at[a] = w->from[a];
        a--;
    }
    place(w, p);
    return a >= 0;
}

/* ------------------------------------------------------------------ tensors on their way in and out */

enum td_dtype td_pool_arithmetic(enum td_dtype t)
{
    return t == TD_HALF || t == TD_BFLOAT16 ? TD_FLOAT : t;
}

enum td_code td_pool_bring(struct td_call *c, const struct td_pool *p, const struct td_tensor *t,
                           int64_t cells, const void **out, struct td_err *err)
{
    enum td_dtype type = td_pool_arithmetic(t->dtype);
    const void *data = t->data;
    if (type != t->dtype) {
        const float *f;
        TD_TRY(td_upcast(c, t, &f, err));
        data = f;
    }
    if (p->layout.channels_first && td_tensor_count(t) > 0) {
        void *transposed;
        TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), &transposed, err));
        td_layout_swap(transposed, data, p->batch, p->channels, cells, td_dtype_size(type));
        data = transposed;
    }
    *out = data;
    return TD_OK;
}

enum td_code td_pool_room(struct td_call *c, const struct td_pool *p, const struct td_tensor *t, void **out,
                          struct td_err *err)
{
    enum td_dtype type = td_pool_arithmetic(t->dtype);
    *out = t->data;
    if (type == t->dtype && !p->layout.channels_first) {
        return TD_OK;
    }
    return td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), out, err);
}

enum td_code td_pool_deliver(struct td_call *c, const struct td_pool *p, struct td_tensor *t, int64_t cells,
                             void *from, struct td_err *err)
{
    enum td_dtype type = td_pool_arithmetic(t->dtype);
    if (from == t->data || td_tensor_count(t) == 0) {
        return TD_OK;
    }
    void *transposed = from;
    if (p->layout.channels_first) {
        transposed = t->data;
        if (type != t->dtype) {
            TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), &transposed, err));
        }
        td_layout_swap(transposed, from, p->batch, cells, p->channels, td_dtype_size(type));
    }
    if (type != t->dtype) {
        td_downcast(t, transposed);
    }
    return TD_OK;
}

const struct td_op_channels td_pool_channels = {.data = 0, .sizes = -1};
