/* kernels/nn/pool_fractional.c - pools whose windows are drawn: FractionalMaxPool, FractionalAvgPool and
 * their gradients.
 *
 *     x [N,H,W,C]  ->  y [N,floor(H/ratio),floor(W/ratio),C], rows [H'+1], columns [W'+1]
 *
 * Window (r, c) is rows rows[r]..rows[r+1] by columns columns[c]..columns[c+1], the last of each left out
 * unless windows overlap. How wide each is, is drawn for all images at once: long and short ones in random
 * order, or (pseudo_random) by rounding multiples of H / H' from a random start. Words of the generator are
 * used up as in TensorFlow: rows first, each sequence from a step of its own.
 *
 * The node keeps its generator (kernels/math/random_generator.h). deterministic: it stays where it was, so
 * that images of one size always get the same windows.
 *
 * The gradient of a maximum goes to the first of those that are equal; that of an average is summed up in
 * double, which the op's integers are then cut from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "core/graph/graph.h"
#include "kernels/formula/formula.h"
#include "kernels/math/random_generator.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ windows */

struct fractional {
    int64_t batch, height, width, channels, out_height, out_width;
    const int64_t *rows, *columns;
    bool overlapping;
};

struct window {
    int64_t row[2], column[2]; /* from, to */
    const void *pooled;        /* in gradients of maxima: what they were */
};

static void span_of(const struct fractional *p, const int64_t *places, int64_t i, int64_t size,
                    int64_t span[2])
{
    const int64_t to = p->overlapping ? places[i + 1] + 1 : places[i + 1];
    span[0] = places[i];
    span[1] = to < size ? to : size;
}

static struct window window_of(const struct fractional *p, int64_t r, int64_t c)
{
    struct window w = {.pooled = NULL};
    span_of(p, p->rows, r, p->height, w.row);
    span_of(p, p->columns, c, p->width, w.column);
    return w;
}

/* Of the image that x, y (or their gradients) are: window w's pixels, and element `to` of the result. */
typedef void window_fn(const struct fractional *p, const struct window *w, const void *x, void *y);
/* The same, which changes dx by dy. False: it was not this window that was pooled. */
typedef bool window_grad_fn(const struct fractional *p, const struct window *w, const void *x, const void *dy,
                            void *dx);

#define WRAPPED(a, b) ((uint64_t)(a) + (uint64_t)(b))
#define PLAIN(a, b) ((a) + (b))
#define EACH_PIXEL(at)                                                                                       \
    for (int64_t h = w->row[0]; h < w->row[1]; h++)                                                          \
        for (int64_t at = (h * p->width + w->column[0]) * p->channels,                                       \
                     end = (h * p->width + w->column[1]) * p->channels;                                      \
             at < end; at += p->channels)

#define STAMP(tag, T, lowest, ADD)                                                                           \
    static void max_##tag(const struct fractional *p, const struct window *w, const void *xv, void *yv)      \
    {                                                                                                        \
        const T *x = xv;                                                                                     \
        T *y = yv;                                                                                           \
        for (int64_t k = 0; k < p->channels; k++) {                                                          \
            y[k] = lowest;                                                                                   \
        }                                                                                                    \
        EACH_PIXEL(at)                                                                                       \
        {                                                                                                    \
            for (int64_t k = 0; k < p->channels; k++) {                                                      \
                y[k] = y[k] < x[at + k] ? x[at + k] : y[k];                                                  \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void avg_##tag(const struct fractional *p, const struct window *w, const void *xv, void *yv)      \
    {                                                                                                        \
        const T *x = xv;                                                                                     \
        T *y = yv;                                                                                           \
        const int64_t count = (w->row[1] - w->row[0]) * (w->column[1] - w->column[0]);                       \
        for (int64_t k = 0; k < p->channels; k++) {                                                          \
            y[k] = 0;                                                                                        \
        }                                                                                                    \
        EACH_PIXEL(at)                                                                                       \
        {                                                                                                    \
            for (int64_t k = 0; k < p->channels; k++) {                                                      \
                y[k] = (T)ADD(y[k], x[at + k]);                                                              \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < p->channels; k++) {                                                          \
            y[k] /= (T)count;                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static bool max_grad_##tag(const struct fractional *p, const struct window *w, const void *xv,           \
                               const void *dyv, void *dxv)                                                   \
    {                                                                                                        \
        const T *x = xv, *dy = dyv, *pooled = w->pooled;                                                     \
        T *dx = dxv;                                                                                         \
        for (int64_t k = 0; k < p->channels; k++) {                                                          \
            int64_t best = (w->row[0] * p->width + w->column[0]) * p->channels;                              \
            EACH_PIXEL(at)                                                                                   \
            {                                                                                                \
                best = x[best + k] < x[at + k] ? at : best;                                                  \
            }                                                                                                \
            if (x[best + k] != pooled[k]) {                                                                  \
                return false;                                                                                \
            }                                                                                                \
            dx[best + k] = (T)ADD(dx[best + k], dy[k]);                                                      \
        }                                                                                                    \
        return true;                                                                                         \
    }                                                                                                        \
    static bool avg_grad_##tag(const struct fractional *p, const struct window *w, const void *none,         \
                               const void *dyv, void *dxv)                                                   \
    {                                                                                                        \
        const T *dy = dyv;                                                                                   \
        double *dx = dxv;                                                                                    \
        const int64_t count = (w->row[1] - w->row[0]) * (w->column[1] - w->column[0]);                       \
        (void)none;                                                                                          \
        EACH_PIXEL(at)                                                                                       \
        {                                                                                                    \
            for (int64_t k = 0; k < p->channels; k++) {                                                      \
                dx[at + k] += (double)dy[k] / (double)count;                                                 \
            }                                                                                                \
        }                                                                                                    \
        return true;                                                                                         \
    }
STAMP(f32, float, -FLT_MAX, PLAIN)
STAMP(f64, double, -DBL_MAX, PLAIN)
STAMP(i32, int32_t, INT32_MIN, WRAPPED)
STAMP(i64, int64_t, INT64_MIN, WRAPPED)

#define ROWS_OF(op)                                                                                          \
    {                                                                                                        \
        [TD_FLOAT] = op##_f32, [TD_DOUBLE] = op##_f64, [TD_INT32] = op##_i32, [TD_INT64] = op##_i64          \
    }

/* ------------------------------------------------------------------ drawing windows */

/* How many words a sequence of n windows takes, in steps. */
static uint64_t steps_of(int64_t n, bool pseudo)
{
    return pseudo ? 1 : ((uint64_t)n + 3) / 4;
}

/* Places where multiples of size / n are rounded to, from a start so chosen that no window is too wide. */
static void draw_pseudo(struct td_philox g, int64_t size, int64_t n, int64_t *places)
{
    struct td_philox_words words = {.g = &g};
    const uint32_t x0 = td_philox_word(&words), x1 = td_philox_word(&words);
    const double alpha = (double)size / (double)n;
    const int64_t k = size / n;
    const double left = (double)(k + 2) / alpha - 1, right = (double)(size + 1 - k) / alpha - (double)(n - 1);
    const double u = td_philox_double(x0, x1) * (right < left ? right : left);
    places[0] = 0;
    for (int64_t i = 1; i < n; i++) {
        const int64_t at = (int64_t)ceil(alpha * ((double)i + u)) - 1;
        places[i] = at < places[i - 1] ? places[i - 1] : at < size ? at : size - 1;
    }
    places[n] = size;
}

/* Widths size / n and one more, shuffled, and summed up. */
static void draw_random(struct td_philox g, int64_t size, int64_t n, int64_t *places)
{
    struct td_philox_words words = {.g = &g};
    int64_t *widths = places + 1;
    for (int64_t i = 0; i < n; i++) {
        widths[i] = size / n + (i < size % n);
    }
    for (int64_t i = 0; i + 1 < n; i++) {
        const int64_t j = i + (int64_t)(td_philox_word(&words) % (uint32_t)(n - i)), width = widths[i];
        widths[i] = widths[j];
        widths[j] = width;
    }
    places[0] = 0;
    for (int64_t i = 1; i <= n; i++) {
        places[i] += places[i - 1];
    }
}

static void draw(struct td_philox *g, bool pseudo, int64_t size, int64_t n, int64_t *places)
{
    (pseudo ? draw_pseudo : draw_random)(*g, size, n, places);
    td_philox_skip(g, steps_of(n, pseudo));
}

/* ------------------------------------------------------------------ the pools */

static enum td_code pool_infer(struct td_infer *c, struct td_err *err)
{
    int count;
    const float *ratio = td_attr_floats(c->node, "pooling_ratio", &count);
    TD_FAIL_IF(count != 4, err, INVALID_ARGUMENT, "%s: pooling_ratio field must specify 4 dimensions, has %d",
               TD_NODE_STR(c->node), count);
    for (int i = 0; i < 4; i++) {
        TD_FAIL_IF(!(ratio[i] >= 1), err, INVALID_ARGUMENT,
                   "%s: pooling_ratio cannot be smaller than 1, got: %g", TD_NODE_STR(c->node),
                   (double)ratio[i]);
    }
    TD_FAIL_IF(ratio[0] != 1 || ratio[3] != 1, err, UNIMPLEMENTED,
               "%s: Fractional pooling is not supported on the batch nor channel dimension: ratios %g and %g",
               TD_NODE_STR(c->node), (double)ratio[0], (double)ratio[3]);
    TD_FAIL_IF(!td_attr_bool(c->node, "deterministic") &&
                   (td_attr_int(c->node, "seed") != 0 || td_attr_int(c->node, "seed2") != 0),
               err, INVALID_ARGUMENT, "%s: Both seed and seed2 should be 0 if deterministic is false.",
               TD_NODE_STR(c->node));
    TD_TRY(td_infer_rank(c, 0, 4, err));
    c->out[0] = td_shape_of_rank(4);
    c->out[1] = c->out[2] = td_shape_of_rank(1);
    for (int i = 0; i < 4 && c->in[0].rank == 4; i++) {
        const int64_t n = c->in[0].dim[i];
        if (n < 0) {
            continue;
        }
        TD_FAIL_IF((float)n < ratio[i] || n > INT32_MAX, err, INVALID_ARGUMENT,
                   "%s: Pooling ratio is higher than input dimension size for dimension %d. Input dim size: "
                   "%lld pooling ratio: %g",
                   TD_NODE_STR(c->node), i, (long long)n, (double)ratio[i]);
        c->out[0].dim[i] = (int64_t)floorf((float)n / ratio[i]);
        if (i == 1 || i == 2) {
            c->out[i].dim[0] = c->out[0].dim[i] + 1;
        }
    }
    return TD_OK;
}

/* The sizes of a pool of x to y, without its windows. */
static struct fractional sizes_of(const struct td_node *n, const struct td_shape *x, const struct td_shape *y)
{
    return (struct fractional){.batch = x->dim[0],
                               .height = x->dim[1],
                               .width = x->dim[2],
                               .channels = x->dim[3],
                               .out_height = y->dim[1],
                               .out_width = y->dim[2],
                               .overlapping = td_attr_bool(n, "overlapping")};
}

static enum td_code pool_run(struct td_call *c, window_fn *fn, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y, *rows, *columns;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &rows, err));
    TD_TRY(td_out(c, 2, NULL, &columns, err));
    struct fractional p = sizes_of(c->node, &x->shape, &y->shape);
    const bool pseudo = td_attr_bool(c->node, "pseudo_random");
    const uint64_t steps = steps_of(p.out_height, pseudo) + steps_of(p.out_width, pseudo);
    TD_TRY(td_random_reserve(c, td_attr_bool(c->node, "deterministic") ? 0 : steps, &g, err));
    draw(&g, pseudo, p.height, p.out_height, rows->data);
    draw(&g, pseudo, p.width, p.out_width, columns->data);
    p.rows = rows->data;
    p.columns = columns->data;
    const size_t size = td_dtype_size(x->dtype), image = (size_t)(p.height * p.width * p.channels) * size;
    char *to = y->data;
    for (int64_t b = 0; b < p.batch; b++) {
        for (int64_t r = 0; r < p.out_height; r++) {
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            for (int64_t k = 0; k < p.out_width; k++, to += (size_t)p.channels * size) {
                const struct window w = window_of(&p, r, k);
                fn(&p, &w, (const char *)x->data + (size_t)b * image, to);
            }
        }
    }
    return TD_OK;
}

static enum td_code max_run(struct td_call *c, struct td_err *err)
{
    static window_fn *const fns[TD_DTYPE_END] = ROWS_OF(max);
    return pool_run(c, fns[c->in[0]->dtype], err);
}

static enum td_code avg_run(struct td_call *c, struct td_err *err)
{
    static window_fn *const fns[TD_DTYPE_END] = ROWS_OF(avg);
    return pool_run(c, fns[c->in[0]->dtype], err);
}

/* ------------------------------------------------------------------ their gradients */

/* Inputs i and i + 1 of a gradient are the places of windows, in an image of this shape. */
static enum td_code infer_grad(const struct td_infer *c, int i, const struct td_shape *dy, struct td_err *err)
{
    TD_FAIL_IF(dy->rank >= 0 && dy->rank != 4, err, INVALID_ARGUMENT,
               "%s: out_backprop must be 4-dimensional, is %s", TD_NODE_STR(c->node), TD_SHAPE_STR(dy));
    TD_TRY(td_infer_rank(c, i, 1, err));
    TD_TRY(td_infer_rank(c, i + 1, 1, err));
    for (int k = 0; k < 2; k++) {
        const int64_t places = c->in[i + k].rank == 1 ? c->in[i + k].dim[0] : -1;
        const int64_t windows = dy->rank == 4 ? dy->dim[1 + k] : -1;
        TD_FAIL_IF(places >= 0 && windows >= 0 && places != windows + 1, err, INVALID_ARGUMENT,
                   "%s: %s of %lld places for out_backprop of %s", TD_NODE_STR(c->node),
                   k == 0 ? "row_pooling_sequence" : "col_pooling_sequence", (long long)places,
                   TD_SHAPE_STR(dy));
    }
    return TD_OK;
}

/* The image that dx is of, and dy, agree in batch and channels. */
static enum td_code agree(const struct td_node *n, const struct td_shape *x, const struct td_shape *dy,
                          struct td_err *err)
{
    const bool known = x->rank == 4 && dy->rank == 4;
    for (int i = 0; known && i < 4; i += 3) {
        TD_FAIL_IF(x->dim[i] >= 0 && dy->dim[i] >= 0 && x->dim[i] != dy->dim[i], err, INVALID_ARGUMENT,
                   "%s: out_backprop of %s for an input of %s", TD_NODE_STR(n), TD_SHAPE_STR(dy),
                   TD_SHAPE_STR(x));
    }
    return TD_OK;
}

static enum td_code max_grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 4, err));
    TD_FAIL_IF(!td_shape_compatible(&c->in[1], &c->in[2]), err, INVALID_ARGUMENT,
               "%s: orig_output and out_backprop should have same size, are %s and %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]), TD_SHAPE_STR(&c->in[2]));
    TD_TRY(infer_grad(c, 3, &c->in[2], err));
    TD_TRY(agree(c->node, &c->in[0], &c->in[2], err));
    c->out[0] = c->in[0];
    return TD_OK;
}

static enum td_code avg_grad_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0];
    TD_FAIL_IF(s->rank >= 0 && (s->rank != 1 || (s->dim[0] >= 0 && s->dim[0] != 4)), err, INVALID_ARGUMENT,
               "%s: original input tensor shape must be 1-dimensional and 4 elements, is of %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_TRY(td_infer_shape_value(c, 0, false, &c->out[0], err));
    TD_TRY(infer_grad(c, 2, &c->in[1], err));
    return agree(c->node, &c->out[0], &c->in[1], err);
}

/* n windows, none of which is empty or leaves the image. */
static enum td_code check_places(const struct td_node *node, const int64_t *at, int64_t n, int64_t size,
                                 bool overlapping, struct td_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t to = at[i + 1] < size ? at[i + 1] + overlapping : size;
        TD_FAIL_IF(at[i] < 0 || at[i] >= size || to <= at[i], err, INVALID_ARGUMENT,
                   "%s: window %lld is from %lld to %lld, of %lld rows or columns", TD_NODE_STR(node),
                   (long long)i, (long long)at[i], (long long)at[i + 1], (long long)size);
    }
    return TD_OK;
}

/* dx, of `size` bytes an element, is changed by each window's dy. */
struct backward {
    window_grad_fn *fn;
    const struct td_tensor *x, *y, *dy; /* x, y: NULL: none */
    void *dx;
    size_t size;
};

static enum td_code go_back(struct td_call *c, struct fractional *p, const struct backward *b, int places,
                            struct td_err *err)
{
    p->rows = c->in[places]->data;
    p->columns = c->in[places + 1]->data;
    TD_TRY(check_places(c->node, p->rows, p->out_height, p->height, p->overlapping, err));
    TD_TRY(check_places(c->node, p->columns, p->out_width, p->width, p->overlapping, err));
    const size_t image = (size_t)(p->height * p->width * p->channels), size = td_dtype_size(b->dy->dtype);
    const char *dy = b->dy->data, *x = b->x != NULL ? b->x->data : NULL,
               *y = b->y != NULL ? b->y->data : NULL;
    const size_t step = (size_t)p->channels * size;
    char *dx = b->dx;
    for (int64_t i = 0; i < p->batch; i++) {
        for (int64_t r = 0; r < p->out_height; r++) {
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            for (int64_t k = 0; k < p->out_width; k++, dy += step, y = y != NULL ? y + step : NULL) {
                struct window w = window_of(p, r, k);
                w.pooled = y;
                TD_FAIL_IF(!b->fn(p, &w, x, dy, dx), err, INVALID_ARGUMENT,
                           "%s: orig_output is not orig_input's, pooled by these windows",
                           TD_NODE_STR(c->node));
            }
        }
        x = x != NULL ? x + image * size : NULL;
        dx += image * b->size;
    }
    return TD_OK;
}

static enum td_code max_grad_run(struct td_call *c, struct td_err *err)
{
    static window_grad_fn *const fns[TD_DTYPE_END] = ROWS_OF(max_grad);
    struct td_tensor *dx;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    struct fractional p = sizes_of(c->node, &dx->shape, &c->in[2]->shape);
    const size_t size = td_dtype_size(dx->dtype);
    const struct backward b = {fns[dx->dtype], c->in[0], c->in[1], c->in[2], dx->data, size};
    memset(dx->data, 0, (size_t)td_tensor_count(dx) * size);
    return go_back(c, &p, &b, 3, err);
}

static void cut(struct td_tensor *dx, const double *from)
{
    const int64_t n = td_tensor_count(dx);
    for (int64_t i = 0; i < n; i++) {
        const double v = from[i];
        if (dx->dtype == TD_FLOAT) {
            TD_DATA(dx, float)[i] = (float)v;
        } else if (dx->dtype == TD_INT32) {
            TD_DATA(dx, int32_t)[i] = v > -0x1p31 - 1 && v < 0x1p31 ? (int32_t)v : INT32_MIN;
        } else {
            TD_DATA(dx, int64_t)[i] = v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
        }
    }
}

static enum td_code avg_grad_run(struct td_call *c, struct td_err *err)
{
    static window_grad_fn *const fns[TD_DTYPE_END] = ROWS_OF(avg_grad);
    struct td_tensor *dx;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    struct fractional p = sizes_of(c->node, &dx->shape, &c->in[1]->shape);
    const size_t bytes = (size_t)td_tensor_count(dx) * sizeof(double);
    void *sums = dx->data;
    if (dx->dtype != TD_DOUBLE) {
        TD_TRY(td_scratch(c, bytes, &sums, err));
    }
    const struct backward b = {fns[dx->dtype], NULL, NULL, c->in[1], sums, sizeof(double)};
    memset(sums, 0, bytes);
    TD_TRY(go_back(c, &p, &b, 2, err));
    if (dx->dtype != TD_DOUBLE) {
        cut(dx, sums);
    }
    return TD_OK;
}

static void max_grad(struct td_grad *g)
{
    const struct td_value in[] = {td_grad_in(g, 0), td_grad_out(g, 0), td_grad_at(g, 0), td_grad_out(g, 1),
                                  td_grad_out(g, 2)};
    td_grad_give(g, 0, td_f_as(g->e, "FractionalMaxPoolGrad", in, 5, g->node, "overlapping"));
}

static void avg_grad(struct td_grad *g)
{
    const struct td_value in[] = {td_f_shape_as(g->e, td_grad_in(g, 0), TD_INT64), td_grad_at(g, 0),
                                  td_grad_out(g, 1), td_grad_out(g, 2)};
    td_grad_give(g, 0, td_f_as(g->e, "FractionalAvgPoolGrad", in, 4, g->node, "overlapping"));
}

/* ------------------------------------------------------------------ the table */

#define NUMBERS (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_INDEX)
#define POOL(op_name, run_fn, gradient)                                                                      \
    {                                                                                                        \
        .name = op_name,                                                                                     \
        .sig = "(value:T) -> (output:T, row_pooling_sequence:int64, col_pooling_sequence:int64) "            \
               "{pooling_ratio:list(float); pseudo_random:bool=false; overlapping:bool=false; "              \
               "deterministic:bool=false; seed:int=0; seed2:int=0; T:type}",                                 \
        .flags = TD_OP_STATEFUL, .infer = pool_infer, .grad = gradient,                                      \
        .kernels = TD_KERNEL("pool_fractional.cpu", run_fn, {"T", NUMBERS})                                  \
    }

const struct td_op td_ops_pool_fractional[] = {
    POOL("FractionalMaxPool", max_run, max_grad),
    POOL("FractionalAvgPool", avg_run, avg_grad),
    {.name = "FractionalMaxPoolGrad",
     .sig = "(orig_input:T, orig_output:T, out_backprop:T, row_pooling_sequence:int64, "
            "col_pooling_sequence:int64) -> (output:T) {overlapping:bool=false; T:type}",
     .infer = max_grad_infer,
     .kernels = TD_KERNEL("pool_fractional.cpu", max_grad_run, {"T", NUMBERS})},
    {.name = "FractionalAvgPoolGrad",
     .sig = "(orig_input_tensor_shape:int64, out_backprop:T, row_pooling_sequence:int64, "
            "col_pooling_sequence:int64) -> (output:T) {overlapping:bool=false; T:type}",
     .host_in = 1,
     .infer = avg_grad_infer,
     .kernels = TD_KERNEL("pool_fractional.cpu", avg_grad_run, {"T", NUMBERS})},
    {.name = NULL},
};
