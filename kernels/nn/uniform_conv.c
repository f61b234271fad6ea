/* kernels/nn/uniform_conv.c - convolutions on even grids of levels, of any number of spatial axes, which lie
 * anywhere among the tensors' axes.
 *
 *   UniformQuantizedConvolution         levels of 8 bits -> levels of 32 bits
 *   UniformQuantizedConvolutionHybrid   lhs and result are of floats; each image becomes levels by its range
 *
 * Attribute dimension_numbers, a message of nine lists, says which axis is what (struct axes); empty it means
 * batch, features, then space in all three tensors. Both tensors are brought into one order, centred (less
 * their zero points), and summed by int32s, which wrap:
 *
 *   lhs [batch, space.., features]   rhs [out, space.., features of a group]   ->   result, in its own order
 *
 * What lies between dilated pixels or around the image is the zero point as a level of 8 bits, which centred
 * is 0 unless it has no such level.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/graph/graph.h"
#include "kernels/nn/quantized.h"
#include "kernels/nn/uniform_quantized.h"
#include "kernels/ops.h"
#include "proto/pb/scan.h"

/* Which axis of a tensor is what; the first two are `major` (batch, or what comes out) and `features`. */
struct axes {
    int64_t major, features, space[TD_MAX_RANK];
    int n_space;
};
enum { LHS, RHS, OUT, TENSORS };

struct conv {
    struct axes axes[TENSORS];
    int n_space;
    int64_t stride[TD_MAX_RANK], lhs_step[TD_MAX_RANK], rhs_step[TD_MAX_RANK], before[TD_MAX_RANK];
    int64_t lhs_size[TD_MAX_RANK], rhs_size[TD_MAX_RANK], out_size[TD_MAX_RANK];
    int64_t batch, features, out_batch, out_features; /* of lhs, of the result */
    int64_t group_features;                           /* of rhs */
    int64_t per_feature_group, per_batch_group;       /* of the result's features */
};

/* ------------------------------------------------------------------ which axis is what */

static void usual_axes(struct axes *a, int rank)
{
    *a = (struct axes){.major = 0, .features = 1, .n_space = rank - 2};
    for (int i = 0; i < a->n_space; i++) {
        a->space[i] = 2 + i;
    }
}

static bool add_space(struct axes *a, uint64_t axis)
{
    if (a->n_space == TD_MAX_RANK) {
        return false;
    }
    a->space[a->n_space++] = (int64_t)axis;
    return true;
}

/* A field of the message: 3 for each tensor, of which those of rhs name the features first. */
static bool read_axis(struct axes *all, const struct td_scan_field *f)
{
    if (f->number < 1 || f->number > 9) {
        return true;
    }
    struct axes *a = &all[(f->number - 1) / 3];
    const uint32_t which = (f->number - 1) % 3;
    if (which < 2) {
        const bool features = a == &all[RHS] ? which == 0 : which == 1;
        *(features ? &a->features : &a->major) = (int64_t)f->u64;
        return f->type == TD_WIRE_VARINT;
    }
    if (f->type == TD_WIRE_VARINT) {
        return add_space(a, f->u64);
    }
    uint64_t v = 0;
    int shift = 0;
    for (size_t i = 0; f->type == TD_WIRE_BYTES && i < f->len; i++) {
        v |= shift < 64 ? (uint64_t)(f->p[i] & 127) << shift : 0;
        shift += 7;
        if ((f->p[i] & 128) == 0) {
            if (!add_space(a, v)) {
                return false;
            }
            v = 0;
            shift = 0;
        }
    }
    return f->type == TD_WIRE_BYTES && shift == 0;
}

static enum td_code check_axes(const struct td_node *n, const struct axes *a, int rank, struct td_err *err)
{
    TD_FAIL_IF(a->n_space != rank - 2, err, INVALID_ARGUMENT,
               "%s: Spatial dimensions size must be rank - 2. Given rank %d and spatial dimensions size %d",
               TD_NODE_STR(n), rank, a->n_space);
    uint32_t seen = 0;
    for (int i = 0; i < rank; i++) {
        const int64_t axis = i == 0 ? a->major : i == 1 ? a->features : a->space[i - 2];
        TD_FAIL_IF(
            axis < 0 || axis >= rank, err, INVALID_ARGUMENT,
            "%s: Each dimension number must be in region [0, rank). Given rank %d and dimension number "
            "value %lld",
            TD_NODE_STR(n), rank, (long long)axis);
        TD_FAIL_IF(seen >> axis & 1, err, INVALID_ARGUMENT, "%s: dimension number %lld is given twice",
                   TD_NODE_STR(n), (long long)axis);
        seen |= (uint32_t)1 << axis;
    }
    return TD_OK;
}

static enum td_code read_axes(const struct td_node *n, int rank, struct conv *g, struct td_err *err)
{
    const struct td_bytes text = td_attr_bytes(n, "dimension_numbers");
    struct td_scan s = td_scan_make(text.p, text.len);
    struct td_scan_field f;
    bool fine = true;
    memset(g->axes, 0, sizeof g->axes);
    while (fine && td_scan_next(&s, &f)) {
        fine = read_axis(g->axes, &f);
    }
    TD_FAIL_IF(s.bad || !fine, err, INVALID_ARGUMENT, "%s: Error parsing convolution dimension numbers.",
               TD_NODE_STR(n));
    for (int t = 0, none = g->axes[LHS].n_space == 0; t < TENSORS; t++) {
        if (none) {
            usual_axes(&g->axes[t], rank);
        }
        TD_TRY(check_axes(n, &g->axes[t], rank, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ sizes */

/* Attribute `name`: a number a spatial axis, each 1 where the list is empty. */
static enum td_code read_steps(const struct td_node *n, const char *name, int count, int64_t *to,
                               struct td_err *err)
{
    int given;
    const int64_t *v = td_attr_ints(n, name, &given);
    TD_FAIL_IF(given != 0 && given != count, err, INVALID_ARGUMENT, "%s: Size of %s Attr must be dims - 2.",
               TD_NODE_STR(n), name);
    for (int i = 0; i < count; i++) {
        to[i] = given == 0 ? 1 : v[i];
        TD_FAIL_IF(to[i] < 1 || to[i] > INT32_MAX, err, INVALID_ARGUMENT,
                   "%s: All elements of %s must be >= 1. Given %lld", TD_NODE_STR(n), name, (long long)to[i]);
    }
    return TD_OK;
}

/* Pixels from the first to the last of n that lie `step` apart; false when no int32 holds them. */
static bool dilated(int64_t n, int64_t step, int64_t *out)
{
    *out = 0;
    return n == 0 || (td_i64_mul(n - 1, step, out) && ++*out <= INT32_MAX);
}

/* The result's size along spatial axis i, and what is added in front. */
static enum td_code size_axis(const struct td_node *n, struct conv *g, int i, struct td_err *err)
{
    const char *padding = td_attr_str(n, "padding");
    int count;
    const int64_t *given = td_attr_ints(n, "explicit_padding", &count), step = g->stride[i];
    int64_t lhs, rhs, all = 0;
    TD_FAIL_IF(!dilated(g->lhs_size[i], g->lhs_step[i], &lhs) ||
                   !dilated(g->rhs_size[i], g->rhs_step[i], &rhs),
               err, INVALID_ARGUMENT, "%s: its dilated tensors are too large", TD_NODE_STR(n));
    g->before[i] = 0;
    if (strcmp(padding, "SAME") == 0) {
        const int64_t out = (lhs + step - 1) / step;
        all = (out - 1) * step + rhs - lhs;
        all = all > 0 ? all : 0;
        g->before[i] = all / 2;
    } else if (strcmp(padding, "EXPLICIT") == 0) {
        for (int k = 2 * i; k < 2 * i + 2; k++) {
            TD_FAIL_IF(given[k] < 0 || given[k] > INT32_MAX, err, INVALID_ARGUMENT,
                       "%s: All explicit_padding elems must be >= 0, Given %lld", TD_NODE_STR(n),
                       (long long)given[k]);
            all += given[k];
        }
        g->before[i] = given[2 * i];
    }
    const int64_t starts = lhs + all - rhs + 1; /* at which rhs lies within */
    TD_FAIL_IF(starts < 0 && (starts + step - 1) / step < 0, err, INVALID_ARGUMENT,
               "%s: its filter is larger than its padded input along spatial axis %d", TD_NODE_STR(n), i);
    g->out_size[i] = starts < 0 ? 0 : (starts + step - 1) / step;
    return TD_OK;
}

static enum td_code divides(const struct td_node *n, const char *what, int64_t by, int64_t v,
                            struct td_err *err)
{
    TD_FAIL_IF(by <= 0 || v % by != 0, err, INVALID_ARGUMENT, "%s: %s must divide: %lld does not divide %lld",
               TD_NODE_STR(n), what, (long long)by, (long long)v);
    return TD_OK;
}

static enum td_code read_groups(const struct td_node *n, const struct td_shape *lhs,
                                const struct td_shape *rhs, struct conv *g, struct td_err *err)
{
    const int64_t by_feature = td_attr_int(n, "feature_group_count");
    const int64_t by_batch = td_attr_int(n, "batch_group_count");
    g->batch = lhs->dim[g->axes[LHS].major];
    g->features = lhs->dim[g->axes[LHS].features];
    g->out_features = rhs->dim[g->axes[RHS].major];
    g->group_features = rhs->dim[g->axes[RHS].features];
    TD_TRY(divides(n, "feature_group_count and the lhs feature dimension", by_feature, g->features, err));
    TD_TRY(divides(n, "the rhs input feature dimension", g->group_features, g->features, err));
    TD_FAIL_IF(
        g->features / by_feature != g->group_features, err, INVALID_ARGUMENT,
        "%s: lhs feature dimension size divided by feature_group_count must equal the rhs input feature "
        "dimension size, but %lld / %lld != %lld",
        TD_NODE_STR(n), (long long)g->features, (long long)by_feature, (long long)g->group_features);
    TD_TRY(divides(n, "feature_group_count and the rhs output dimension", by_feature, g->out_features, err));
    TD_TRY(divides(n, "batch_group_count and the lhs batch dimension", by_batch, g->batch, err));
    TD_TRY(divides(n, "batch_group_count and the rhs output dimension", by_batch, g->out_features, err));
    g->out_batch = g->batch / by_batch;
    g->per_feature_group = g->out_features / by_feature;
    g->per_batch_group = g->out_features / by_batch;
    return TD_OK;
}

/* All of it, of shapes that are known. */
static enum td_code conv_of(const struct td_node *n, const struct td_shape *lhs, const struct td_shape *rhs,
                            struct conv *g, struct td_err *err)
{
    const char *padding = td_attr_str(n, "padding");
    const bool explicit_padding = strcmp(padding, "EXPLICIT") == 0;
    int count;
    td_attr_ints(n, "explicit_padding", &count);
    TD_FAIL_IF(lhs->rank != rhs->rank || lhs->rank <= 2, err, INVALID_ARGUMENT,
               "%s: lhs and rhs must have same dims, at least 3. Given lhs and rhs of shapes: %s %s",
               TD_NODE_STR(n), TD_SHAPE_STR(lhs), TD_SHAPE_STR(rhs));
    g->n_space = lhs->rank - 2;
    TD_TRY(read_steps(n, "window_strides", g->n_space, g->stride, err));
    TD_TRY(read_steps(n, "lhs_dilation", g->n_space, g->lhs_step, err));
    TD_TRY(read_steps(n, "rhs_dilation", g->n_space, g->rhs_step, err));
    TD_TRY(read_axes(n, lhs->rank, g, err));
    TD_TRY(read_groups(n, lhs, rhs, g, err));
    TD_FAIL_IF(!explicit_padding && strcmp(padding, "SAME") != 0 && strcmp(padding, "VALID") != 0, err,
               INVALID_ARGUMENT,
               "%s: padding Attr must be one of [EXPLICIT | SAME | VALID], but given: %.40s", TD_NODE_STR(n),
               padding);
    TD_FAIL_IF(count != (explicit_padding ? 2 * g->n_space : 0), err, INVALID_ARGUMENT,
               "%s: Size of explicit_padding Attr must be 2 * (rank - 2) with EXPLICIT, else 0, is %d",
               TD_NODE_STR(n), count);
    for (int i = 0; i < g->n_space; i++) {
        g->lhs_size[i] = lhs->dim[g->axes[LHS].space[i]];
        g->rhs_size[i] = rhs->dim[g->axes[RHS].space[i]];
        TD_TRY(size_axis(n, g, i, err));
    }
    return TD_OK;
}

static struct td_shape out_shape(const struct conv *g)
{
    struct td_shape s = td_shape_of_rank(g->n_space + 2);
    s.dim[g->axes[OUT].major] = g->out_batch;
    s.dim[g->axes[OUT].features] = g->out_features;
    for (int i = 0; i < g->n_space; i++) {
        s.dim[g->axes[OUT].space[i]] = g->out_size[i];
    }
    return s;
}

/* Scales i along the axis that `attr` names, which is `only` or none. */
static enum td_code scales_along(const struct td_infer *c, const struct td_shape *data, int i,
                                 const char *attr, int64_t only, struct td_err *err)
{
    const int64_t axis = td_attr_int(c->node, attr);
    TD_FAIL_IF(axis != -1 && axis != only, err, INVALID_ARGUMENT,
               "%s: %s Attr must be -1 (per-tensor) or %lld (per-channel), is %lld", TD_NODE_STR(c->node),
               attr, (long long)only, (long long)axis);
    return td_scales_infer(c, data, i, axis, err);
}

static enum td_code conv_infer(struct td_infer *c, struct td_err *err)
{
    const bool hybrid = c->n_in == 4;
    struct td_level_limits l;
    struct conv g;
    TD_TRY(hybrid ? TD_OK : td_level_limits_of(c->node, "output_", &l, err));
    TD_FAIL_IF(!hybrid && td_attr_int(c->node, "lhs_quantization_axis") != -1, err, INVALID_ARGUMENT,
               "%s: lhs_quantization_axis Attr must be -1 (per-tensor).", TD_NODE_STR(c->node));
    if (!td_shape_known(&c->in[0]) || !td_shape_known(&c->in[1])) {
        return TD_OK;
    }
    TD_TRY(conv_of(c->node, &c->in[0], &c->in[1], &g, err));
    TD_TRY(scales_along(c, &c->in[1], hybrid ? 2 : 4, "rhs_quantization_axis", g.axes[RHS].major, err));
    c->out[0] = out_shape(&g);
    if (!hybrid) {
        TD_TRY(td_scales_infer(c, &c->in[0], 2, -1, err));
        TD_TRY(scales_along(c, &c->out[0], 6, "output_quantization_axis", g.axes[OUT].features, err));
        TD_FAIL_IF(c->in[4].rank == 0 && c->in[6].rank > 0, err, INVALID_ARGUMENT,
                   "%s: If rhs is per-tensor quantized, output must be also per-tensor quantized.",
                   TD_NODE_STR(c->node));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ order */

/* Where the elements of a tensor lie when it is walked as [major, space.., features]. */
struct walk {
    int64_t major, features, space[TD_MAX_RANK]; /* steps */
};

static struct walk walk_of(const struct td_shape *s, const struct axes *a)
{
    struct walk w;
    int64_t step[TD_MAX_RANK + 1];
    step[s->rank] = 1;
    for (int d = s->rank - 1; d >= 0; d--) {
        step[d] = (int64_t)((uint64_t)step[d + 1] * (uint64_t)s->dim[d]);
    }
    w.major = step[a->major + 1];
    w.features = step[a->features + 1];
    for (int i = 0; i < a->n_space; i++) {
        w.space[i] = step[a->space[i] + 1];
    }
    return w;
}

/* Offset of cell `at` of space. */
static int64_t cell_offset(const struct walk *w, const int64_t *size, int n_space, int64_t at)
{
    int64_t offset = 0;
    for (int i = n_space - 1; i >= 0; i--) {
        offset += at % size[i] * w->space[i];
        at /= size[i];
    }
    return offset;
}

/* Cells of a tensor that exists: where it has none, other sizes may say more than an int64 holds. */
static int64_t cells_of(const int64_t *size, int n)
{
    uint64_t cells = 1;
    for (int i = 0; i < n; i++) {
        cells *= (uint64_t)size[i];
    }
    return (int64_t)cells;
}

/* rhs as [out, space.., features], less its zero points (input `zeros`). */
static enum td_code centre_rhs(struct td_call *c, const struct conv *g, int zeros, int32_t **out,
                               struct td_err *err)
{
    const struct td_tensor *t = c->in[1];
    const struct walk w = walk_of(&t->shape, &g->axes[RHS]);
    const int64_t cells = cells_of(g->rhs_size, g->n_space);
    void *p;
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * sizeof **out, &p, err));
    int32_t *to = *out = p;
    for (int64_t o = 0; o < g->out_features; o++) {
        const int32_t zero = td_zero_at(c, zeros, o);
        for (int64_t cell = 0; cell < cells; cell++) {
            const int64_t at = o * w.major + cell_offset(&w, g->rhs_size, g->n_space, cell);
            for (int64_t k = 0; k < g->group_features; k++) {
                *to++ = td_level_sub(td_quantized_get(t, at + k * w.features), zero);
            }
        }
    }
    return TD_OK;
}

/* lhs in that order, elements of `size` bytes. */
static enum td_code order_lhs(struct td_call *c, const struct conv *g, void **out, struct td_err *err)
{
    const struct td_tensor *t = c->in[0];
    const size_t size = td_dtype_size(t->dtype);
    const struct walk w = walk_of(&t->shape, &g->axes[LHS]);
    const int64_t cells = cells_of(g->lhs_size, g->n_space);
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * size, out, err));
    char *to = *out;
    for (int64_t b = 0; b < g->batch; b++) {
        for (int64_t cell = 0; cell < cells; cell++) {
            const int64_t at = b * w.major + cell_offset(&w, g->lhs_size, g->n_space, cell);
            for (int64_t k = 0; k < g->features; k++, to += size) {
                memcpy(to, (const char *)t->data + (size_t)(at + k * w.features) * size, size);
            }
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ sums */

/* What lies under tap `tap` of the window over result cell `cell`: a pixel's number, or -1: padding. */
static int64_t under(const struct conv *g, int64_t cell, int64_t tap)
{
    uint64_t pixel = 0, step = 1;
    for (int i = g->n_space - 1; i >= 0; i--) {
        const int64_t at =
            cell % g->out_size[i] * g->stride[i] + tap % g->rhs_size[i] * g->rhs_step[i] - g->before[i];
        if (at < 0 || at % g->lhs_step[i] != 0 || at / g->lhs_step[i] >= g->lhs_size[i]) {
            return -1;
        }
        pixel += (uint64_t)(at / g->lhs_step[i]) * step;
        step *= (uint64_t)g->lhs_size[i];
        cell /= g->out_size[i];
        tap /= g->rhs_size[i];
    }
    return (int64_t)pixel;
}

/* Sums of one cell of one image of the result into those of its features. around: what padding is. */
static void sum_cell(const struct conv *g, const int32_t *lhs, const int32_t *rhs, int64_t batch,
                     int64_t cell, int32_t around, uint32_t *sums)
{
    const int64_t taps = cells_of(g->rhs_size, g->n_space), pixels = cells_of(g->lhs_size, g->n_space);
    memset(sums, 0, (size_t)g->out_features * sizeof *sums);
    for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t pixel = under(g, cell, tap);
        if (pixel < 0 && around == 0) {
            continue;
        }
        for (int64_t o = 0; o < g->out_features; o++) {
            const int32_t *w = rhs + (o * taps + tap) * g->group_features;
            const int64_t image = o / g->per_batch_group * g->out_batch + batch;
            const int64_t from = o / g->per_feature_group * g->group_features;
            const int32_t *x = pixel < 0 ? NULL : lhs + (image * pixels + pixel) * g->features + from;
            for (int64_t k = 0; k < g->group_features; k++) {
                sums[o] += (uint32_t)(x == NULL ? around : x[k]) * (uint32_t)w[k];
            }
        }
    }
}

/* Where a sum goes: element `at` of the result, of feature o, of image `image` of lhs. */
struct sink {
    struct td_call *c;
    struct td_tensor *y;
    const struct td_rescale *rescale;
    const float *scale; /* of lhs, by image */
    struct td_level_limits limits;
};
typedef void sink_fn(const struct sink *s, int64_t at, int64_t o, int64_t image, int32_t sum);

static enum td_code convolve(const struct sink *s, const struct conv *g, const int32_t *lhs,
                             const int32_t *rhs, int32_t around, sink_fn *put, struct td_err *err)
{
    const struct walk w = walk_of(&s->y->shape, &g->axes[OUT]);
    const int64_t cells = cells_of(g->out_size, g->n_space);
    const int64_t work = cells_of(g->rhs_size, g->n_space) * (g->group_features * g->out_features + 8);
    void *sums;
    TD_TRY(td_scratch(s->c, (size_t)g->out_features * sizeof(uint32_t), &sums, err));
    for (int64_t b = 0; b < g->out_batch; b++) {
        for (int64_t cell = 0; cell < cells && !td_work_spent(work); cell++) {
            sum_cell(g, lhs, rhs, b, cell, around, sums);
            const int64_t at = b * w.major + cell_offset(&w, g->out_size, g->n_space, cell);
            for (int64_t o = 0; o < g->out_features; o++) {
                put(s, at + o * w.features, o, o / g->per_batch_group * g->out_batch + b,
                    (int32_t)((uint32_t *)sums)[o]);
            }
        }
    }
    return TD_OK;
}

static void put_level(const struct sink *s, int64_t at, int64_t o, int64_t image, int32_t sum)
{
    (void)image;
    const struct td_rescale *r = &s->rescale[td_scale_index(s->c->in[4], o)];
    TD_DATA(s->y, int32_t)
    [at] = td_level_limit(&s->limits, td_level_add(td_rescale_level(r, sum), td_zero_at(s->c, 7, o)));
}

static void put_float(const struct sink *s, int64_t at, int64_t o, int64_t image, int32_t sum)
{
    TD_DATA(s->y, float)[at] = (float)sum * s->scale[image] * td_scale_at(s->c, 2, o);
}

static enum td_code conv_run(struct td_call *c, struct td_err *err)
{
    struct sink s = {.c = c};
    struct conv g;
    int32_t *rhs;
    void *lhs, *factors, *centred;
    for (int i = 2; i < 8; i += 2) {
        TD_TRY(td_scales_positive(c, i, err));
    }
    TD_TRY(td_level_limits_of(c->node, "output_", &s.limits, err));
    TD_TRY(conv_of(c->node, &c->in[0]->shape, &c->in[1]->shape, &g, err));
    const int64_t grids = td_tensor_count(c->in[4]), count = td_tensor_count(c->in[0]);
    const int32_t zero = td_zero_at(c, 3, 0);
    TD_TRY(td_scratch(c, (size_t)grids * sizeof *s.rescale, &factors, err));
    for (int64_t o = 0; o < grids; o++) {
        const double factor = (double)td_scale_at(c, 2, 0) * td_scale_at(c, 4, o) / td_scale_at(c, 6, o);
        TD_TRY(td_rescale_make(c->node, factor, (struct td_rescale *)factors + o, err));
    }
    s.rescale = factors;
    TD_TRY(td_out(c, 0, NULL, &s.y, err));
    if (td_tensor_count(s.y) == 0) {
        return TD_OK;
    }
    TD_TRY(order_lhs(c, &g, &lhs, err));
    TD_TRY(centre_rhs(c, &g, 5, &rhs, err));
    TD_TRY(td_scratch(c, (size_t)count * sizeof(int32_t), &centred, err));
    for (int64_t i = 0; i < count; i++) {
        ((int32_t *)centred)[i] = td_level_sub(((int8_t *)lhs)[i], zero);
    }
    const int32_t around = td_level_sub((int8_t)(uint8_t)(uint32_t)zero, zero);
    return convolve(&s, &g, centred, rhs, around, put_level, err);
}

static enum td_code hybrid_run(struct td_call *c, struct td_err *err)
{
    struct sink s = {.c = c};
    struct conv g;
    int32_t *rhs;
    void *lhs, *centred, *scale;
    TD_TRY(td_scales_positive(c, 2, err));
    TD_TRY(conv_of(c->node, &c->in[0]->shape, &c->in[1]->shape, &g, err));
    TD_TRY(td_out(c, 0, NULL, &s.y, err));
    if (td_tensor_count(s.y) == 0) {
        return TD_OK;
    }
    const int64_t image = cells_of(g.lhs_size, g.n_space) * g.features;
    TD_TRY(order_lhs(c, &g, &lhs, err));
    TD_TRY(centre_rhs(c, &g, 3, &rhs, err));
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(c->in[0]) * sizeof(int32_t), &centred, err));
    TD_TRY(td_scratch(c, (size_t)g.batch * sizeof(float), &scale, err));
    s.scale = scale;
    for (int64_t b = 0; b < g.batch; b++) {
        td_uniform_by_range((float *)lhs + b * image, image, (int32_t *)centred + b * image,
                            (float *)scale + b);
    }
    return convolve(&s, &g, centred, rhs, 0, put_float, err);
}

/* ------------------------------------------------------------------ the table */

#define LIMITS(prefix) prefix "quantization_min_val:int; " prefix "quantization_max_val:int"
#define AXIS(prefix) prefix "quantization_axis:int=-1"
#define WINDOW                                                                                               \
    "window_strides:list(int)=[]; padding:string; explicit_padding:list(int)=[]; "                           \
    "lhs_dilation:list(int)=[]; "                                                                            \
    "rhs_dilation:list(int)=[]; batch_group_count:int=1; feature_group_count:int=1; "                        \
    "dimension_numbers:string=''"

const struct td_op td_ops_uniform_conv[] = {
    {.name = "UniformQuantizedConvolution",
     .sig =
         "(lhs:Tin, rhs:Tin, lhs_scales:float, lhs_zero_points:int32, rhs_scales:float, "
         "rhs_zero_points:int32, output_scales:float, output_zero_points:int32) -> (output:Tout) {Tin:type; "
         "Tout:type; " WINDOW "; " AXIS("lhs_") "; " LIMITS("lhs_") "; " AXIS("rhs_") "; " LIMITS(
             "rhs_") "; " AXIS("output_") "; " LIMITS("output_") "}",
     .flags = TD_OP_HEAVY,
     .infer = conv_infer,
     .kernels =
         TD_KERNEL("uniform_conv.cpu", conv_run, {"Tin", TD_BIT(TD_QINT8)}, {"Tout", TD_BIT(TD_QINT32)})},
    {.name = "UniformQuantizedConvolutionHybrid",
     .sig = "(lhs:Tlhs, rhs:Trhs, rhs_scales:float, rhs_zero_points:int32) -> (output:Tout) {Tlhs:type; "
            "Trhs:type; Tout:type; " WINDOW "; " AXIS("rhs_") "; " LIMITS("rhs_") "}",
     .flags = TD_OP_HEAVY,
     .infer = conv_infer,
     .kernels = TD_KERNEL("uniform_conv.cpu", hybrid_run, {"Tlhs", TD_BIT(TD_FLOAT)},
                          {"Trhs", TD_BIT(TD_QINT8)}, {"Tout", TD_BIT(TD_FLOAT)})},
    {.name = NULL},
};
