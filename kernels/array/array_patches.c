/* kernels/array/array_patches.c - patches of images and volumes.
 *
 *   ExtractImagePatches, ExtractVolumePatches   x [N, S.., C]  ->  [N, O.., K.. C]  every window's elements
 *   _Extract{Image,Volume}PatchesGrad           dy, shape of x  ->  dx              added up where they were
 *
 * One position inside the window at a time, its number the place along the depth axis: for it, x and the
 * patches are strided views of each other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "kernels/array/array_batchable.h"
#include "kernels/cpu/array_types.h"
#include "kernels/cpu/combine.h"
#include "kernels/cpu/strided.h"
#include "kernels/cpu/window.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

#include <string.h>

enum { MAX_SPATIAL = 3 };

struct windows {
    int n; /* spatial axes: 1..n of x and of the patches */
    struct td_window axis[MAX_SPATIAL];
    int64_t taps;
};

/* ------------------------------------------------------------------ windows */

static enum td_code read_list(const struct td_node *node, const char *attr, int n, int64_t *out,
                              struct td_err *err)
{
    int count;
    const int64_t *v = td_attr_ints(node, attr, &count);
    TD_FAIL_IF(count != n + 2 || v[0] != 1 || v[n + 1] != 1, err, INVALID_ARGUMENT,
               "%s: %s must be %d numbers of which the first and last are 1", TD_NODE_STR(node), attr, n + 2);
    for (int i = 0; i < n; i++) {
        out[i] = v[i + 1];
        TD_FAIL_IF(out[i] < 1 || out[i] > INT32_MAX, err, INVALID_ARGUMENT,
                   "%s: %s[%d] must be positive, got %lld", TD_NODE_STR(node), attr, i + 1,
                   (long long)out[i]);
    }
    return TD_OK;
}

/* How many windows an axis has (negative when they are larger than it by more than a stride), and the padding
 * in front. */
static void place(const struct td_node *node, int n, struct td_window *w)
{
    const int64_t span = (w->k - 1) * w->dilation + 1;
    if (w->in < 0) {
        w->out = -1;
    } else if (strcmp(td_attr_str(node, "padding"), "SAME") == 0) {
        w->out = w->in / w->stride + (w->in % w->stride != 0);
        const int64_t pad = (w->out - 1) * w->stride + span - w->in;
        w->before = pad > 0 || n == 3 ? pad / 2 : 0; /* negative in 3-D: td_window_skip */
    } else {
        w->out = (w->in - span + w->stride) / w->stride;
    }
}

/* Of an x of that shape, of rank n + 2. */
static enum td_code read_windows(const struct td_node *node, int n, const struct td_shape *x,
                                 struct windows *w, struct td_err *err)
{
    int64_t size[MAX_SPATIAL], stride[MAX_SPATIAL], rate[MAX_SPATIAL] = {1, 1, 1};
    TD_TRY(read_list(node, "ksizes", n, size, err));
    TD_TRY(read_list(node, "strides", n, stride, err));
    if (n == 2) {
        TD_TRY(read_list(node, "rates", n, rate, err));
    }
    *w = (struct windows){.n = n, .taps = 1};
    for (int i = 0; i < n; i++) {
        struct td_window *a = &w->axis[i];
        *a = (struct td_window){.in = x->dim[i + 1], .k = size[i], .stride = stride[i], .dilation = rate[i]};
        place(node, n, a);
        TD_FAIL_IF(a->in >= 0 && a->out < 0, err, INVALID_ARGUMENT,
                   "%s: Computed output size would be negative: %lld [input_size: %lld, "
                   "effective_filter_size: %lld, stride: %lld]",
                   TD_NODE_STR(node), (long long)a->out, (long long)a->in,
                   (long long)((a->k - 1) * a->dilation + 1), (long long)a->stride);
        TD_FAIL_IF(!td_i64_mul(w->taps, size[i], &w->taps), err, INVALID_ARGUMENT,
                   "%s: the elements of a patch do not fit int64", TD_NODE_STR(node));
    }
    return TD_OK;
}

/* The patches of an x of that shape. */
static enum td_code patches_shape(const struct td_node *node, int n, const struct td_shape *x,
                                  struct td_shape *out, struct td_err *err)
{
    struct windows w;
    TD_TRY(read_windows(node, n, x, &w, err));
    *out = *x;
    for (int i = 0; i < n; i++) {
        out->dim[i + 1] = w.axis[i].out;
    }
    TD_FAIL_IF(x->dim[n + 1] >= 0 && !td_i64_mul(x->dim[n + 1], w.taps, &out->dim[n + 1]), err,
               INVALID_ARGUMENT, "%s: the elements of a patch do not fit int64", TD_NODE_STR(node));
    return TD_OK;
}

/* Where the windows that have one tap inside of x begin: for axes 0..n, how many they are, and the steps in
 * both tensors; their cells are `depth` elements each. */
struct tap {
    int64_t count[MAX_SPATIAL + 1], x_step[MAX_SPATIAL + 1], y_step[MAX_SPATIAL + 1];
    int64_t x_at, y_at, depth;
};

/* index[]: the tap inside the window; number: in row-major order. */
static struct tap find_tap(const struct windows *w, const int64_t *index, int64_t number,
                           const struct td_shape *x, const struct td_shape *y)
{
    int64_t xs[TD_MAX_RANK], ys[TD_MAX_RANK];
    td_strided_row_major(x, xs);
    td_strided_row_major(y, ys);
    struct tap t = {.depth = x->dim[w->n + 1], .y_at = number * x->dim[w->n + 1]};
    t.count[0] = x->dim[0];
    t.x_step[0] = xs[0];
    t.y_step[0] = ys[0];
    for (int i = 0; i < w->n; i++) {
        const struct td_window *a = &w->axis[i];
        int64_t from, to;
        td_window_having(a, index[i], &from, &to);
        t.count[i + 1] = to - from;
        t.x_step[i + 1] = xs[i + 1] * a->stride;
        t.y_step[i + 1] = ys[i + 1];
        if (to > from) {
            t.y_at += from * ys[i + 1];
            t.x_at += (from * a->stride + index[i] * a->dilation - a->before) * xs[i + 1];
        }
    }
    return t;
}

static char *element(const struct td_tensor *t, int64_t i)
{
    return (char *)t->data + i * (int64_t)td_dtype_size(t->dtype);
}

/* ------------------------------------------------------------------ Extract*Patches */

static enum td_code patches_infer(struct td_infer *c, int n, struct td_err *err)
{
    const struct td_shape any = td_shape_of_rank(n + 2);
    struct td_shape ignored;
    TD_TRY(td_infer_rank(c, 0, n + 2, err));
    if (c->in[0].rank >= 0) {
        return patches_shape(c->node, n, &c->in[0], &c->out[0], err);
    }
    return patches_shape(c->node, n, &any, &ignored, err); /* its attributes */
}

static enum td_code image_patches_infer(struct td_infer *c, struct td_err *err)
{
    return patches_infer(c, 2, err);
}
static enum td_code volume_patches_infer(struct td_infer *c, struct td_err *err)
{
    return patches_infer(c, 3, err);
}

static void copy_tap(const struct tap *t, int n, const struct td_tensor *x, struct td_tensor *y)
{
    struct td_strided walk = {.rank = 0};
    for (int i = 0; i <= n; i++) {
        td_strided_push(&walk, t->count[i], t->y_step[i], t->x_step[i]);
    }
    td_strided_push(&walk, t->depth, 1, 1);
    td_strided_copy(x->dtype, &walk, element(y, t->y_at), element(x, t->x_at));
}

/* Cells of dy that one tap has put there, added to those of dx. */
static void add_tap(const struct tap *t, int n, struct td_tensor *dx, const struct td_tensor *dy)
{
    int64_t at[MAX_SPATIAL + 1] = {0}, total = 1;
    for (int i = 0; i <= n; i++) {
        total *= t->count[i];
    }
    for (int64_t k = 0; k < total; k++) {
        int64_t to = t->x_at, from = t->y_at;
        for (int i = 0; i <= n; i++) {
            to += at[i] * t->x_step[i];
            from += at[i] * t->y_step[i];
        }
        td_combine_run(TD_COMBINE_ADD, dx->dtype, element(dx, to), element(dy, from), t->depth, 1);
        for (int i = n; i >= 0 && ++at[i] == t->count[i]; i--) {
            at[i] = 0;
        }
    }
}

/* x to patches, or back: the input is c's first, the output is zeros where nothing goes. */
static enum td_code run_taps(struct td_call *c, int n, bool back, struct td_err *err)
{
    struct td_tensor *out;
    struct windows w;
    int64_t index[MAX_SPATIAL] = {0};
    TD_TRY(td_out(c, 0, NULL, &out, err));
    const struct td_tensor *x = back ? out : c->in[0], *y = back ? c->in[0] : out;
    TD_TRY(read_windows(c->node, n, &x->shape, &w, err));
    td_strided_zero(out->dtype, out->data, td_tensor_count(out));
    for (int64_t number = 0; td_tensor_count(y) > 0 && number < w.taps; number++) {
        const struct tap t = find_tap(&w, index, number, &x->shape, &y->shape);
        if (back) {
            add_tap(&t, n, out, y);
        } else {
            copy_tap(&t, n, x, out);
        }
        for (int i = n - 1; i >= 0 && ++index[i] == w.axis[i].k; i--) {
            index[i] = 0;
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

static enum td_code image_patches_run(struct td_call *c, struct td_err *err)
{
    return run_taps(c, 2, false, err);
}
static enum td_code volume_patches_run(struct td_call *c, struct td_err *err)
{
    return run_taps(c, 3, false, err);
}

/* ------------------------------------------------------------------ their gradients */

static enum td_code patches_grad_infer(struct td_infer *c, int n, struct td_err *err)
{
    struct td_shape want;
    TD_TRY(td_infer_shape_value(c, 1, false, &c->out[0], err));
    if (c->out[0].rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(c->out[0].rank != n + 2, err, INVALID_ARGUMENT, "%s: shape %s, want rank %d",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->out[0]), n + 2);
    TD_TRY(patches_shape(c->node, n, &c->out[0], &want, err));
    TD_FAIL_IF(!td_shape_compatible(&want, &c->in[0]), err, INVALID_ARGUMENT,
               "%s: a gradient of shape %s is not that of patches of shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&want));
    return TD_OK;
}

static enum td_code image_patches_grad_infer(struct td_infer *c, struct td_err *err)
{
    return patches_grad_infer(c, 2, err);
}
static enum td_code volume_patches_grad_infer(struct td_infer *c, struct td_err *err)
{
    return patches_grad_infer(c, 3, err);
}

static enum td_code image_patches_grad_run(struct td_call *c, struct td_err *err)
{
    return run_taps(c, 2, true, err);
}
static enum td_code volume_patches_grad_run(struct td_call *c, struct td_err *err)
{
    return run_taps(c, 3, true, err);
}

static bool patches_grad_rows(struct td_batchable_step *s)
{
    int64_t k = 0;
    if (s->in[0].kind != TD_VALUE_ROW || s->in[0].axis != 0 || s->in_shape[0][1].rank != 1) {
        return td_batchable_no(s, "the rows are not its axis 0");
    }
    return td_batchable_growing(s, 1, s->in_shape[0][1].dim[0], &k) == 0 && td_batchable_as_input(s, 0, 0, 0);
}

#define IMAGE_ATTRS "ksizes,strides,rates,padding"
#define VOLUME_ATTRS "ksizes,strides,padding"

static void give_patches(struct td_grad *g, const char *op, const char *attrs)
{
    const struct td_value shape = td_f_shape(g->e, td_grad_in(g, 0));
    td_grad_give(g, 0, td_f_as(g->e, op, TD_IN(td_grad_at(g, 0), shape), g->node, attrs));
}

static void image_patches_grad(struct td_grad *g)
{
    give_patches(g, "_ExtractImagePatchesGrad", IMAGE_ATTRS);
}
static void volume_patches_grad(struct td_grad *g)
{
    give_patches(g, "_ExtractVolumePatchesGrad", VOLUME_ATTRS);
}

static void image_patches_grad_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_as(g->e, "ExtractImagePatches", TD_IN(td_grad_at(g, 0)), g->node, IMAGE_ATTRS));
}
static void volume_patches_grad_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_as(g->e, "ExtractVolumePatches", TD_IN(td_grad_at(g, 0)), g->node, VOLUME_ATTRS));
}

#define IMAGE_SIG "{ksizes:list(int); strides:list(int); rates:list(int); T:type; " PADDING "}"
#define VOLUME_SIG "{ksizes:list(int); strides:list(int); T:type; " PADDING "}"
#define PADDING "padding:string in ['SAME','VALID']"

const struct td_op td_ops_array_patches[] = {
    {.name = "ExtractImagePatches",
     .sig = "(images:T) -> (patches:T) " IMAGE_SIG,
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = image_patches_infer,
     .kernels = TD_KERNEL("extract_patches.cpu", image_patches_run, {"T", TD_SET_NUMBERS}),
     .grad = image_patches_grad},
    {.name = "ExtractVolumePatches",
     .sig = "(input:T) -> (patches:T) " VOLUME_SIG,
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = volume_patches_infer,
     .kernels = TD_KERNEL("extract_patches.cpu", volume_patches_run, {"T", TD_SET_REALS}),
     .grad = volume_patches_grad},
    {.name = "_ExtractImagePatchesGrad",
     .sig = "(dy:T, shape:int32) -> (dx:T) " IMAGE_SIG,
     .flags = TD_OP_HEAVY,
     .host_in = 2,
     .batchable = TD_BATCHABLE(patches_grad_rows),
     .infer = image_patches_grad_infer,
     .kernels = TD_KERNEL("extract_patches_grad.cpu", image_patches_grad_run, {"T", TD_SET_NUMBERS}),
     .grad = image_patches_grad_grad},
    {.name = "_ExtractVolumePatchesGrad",
     .sig = "(dy:T, shape:int32) -> (dx:T) " VOLUME_SIG,
     .flags = TD_OP_HEAVY,
     .host_in = 2,
     .batchable = TD_BATCHABLE(patches_grad_rows),
     .infer = volume_patches_grad_infer,
     .kernels = TD_KERNEL("extract_patches_grad.cpu", volume_patches_grad_run, {"T", TD_SET_REALS}),
     .grad = volume_patches_grad_grad},
    {.name = NULL},
};
