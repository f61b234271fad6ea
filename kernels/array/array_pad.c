/* kernels/array/array_pad.c - borders around tensors.
 *
 *   Pad, PadV2      x, paddings [rank, 2]  ->  x with before/after elements of one value on every axis
 *   MirrorPad       the border mirrors the inside: REFLECT without repeating the edge, SYMMETRIC with it
 *   MirrorPadGrad   folds a border's gradient back onto the inside it mirrored
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/array/array_slice_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/cpu/combine.h"
#include "kernels/cpu/spread.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

struct border {
    int64_t before, after;
};

static enum td_code read_border(const struct td_node *node, const struct td_tensor *paddings, int axis,
                                struct border *b, struct td_err *err)
{
    b->before = td_tensor_int(paddings, 2 * axis);
    b->after = td_tensor_int(paddings, 2 * axis + 1);
    TD_FAIL_IF(b->before < 0 || b->after < 0, err, INVALID_ARGUMENT,
               "%s: Paddings must be non-negative: %lld %lld", TD_NODE_STR(node), (long long)b->before,
               (long long)b->after);
    return TD_OK;
}

/* paddings is [rank, 2]; out[0] gets the input's rank when that is known. */
static enum td_code check_paddings(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *p = &c->in[1];
    TD_FAIL_IF(p->rank >= 0 && (p->rank != 2 || (p->dim[1] >= 0 && p->dim[1] != 2)), err, INVALID_ARGUMENT,
               "%s: paddings must be a matrix with 2 columns: %s", TD_NODE_STR(c->node), TD_SHAPE_STR(p));
    const int rank = c->in[0].rank;
    TD_FAIL_IF(rank >= 0 && p->rank == 2 && p->dim[0] >= 0 && p->dim[0] != rank, err, INVALID_ARGUMENT,
               "%s: The first dimension of paddings must be the rank of inputs%s %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(p), TD_SHAPE_STR(&c->in[0]));
    if (rank >= 0) {
        c->out[0] = td_shape_of_rank(rank);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Pad, PadV2 */

static enum td_code pad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_paddings(c, err));
    TD_FAIL_IF(c->n_in > 2 && c->in[2].rank > 0, err, INVALID_ARGUMENT,
               "%s: constant_values must be a scalar. Found: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[2]));
    for (int i = 0; c->value[1] != NULL && i < c->in[0].rank; i++) {
        struct border b;
        TD_TRY(read_border(c->node, c->value[1], i, &b, err));
        int64_t dim = c->in[0].dim[i];
        TD_FAIL_IF(dim >= 0 && (!td_i64_add(dim, b.before, &dim) || !td_i64_add(dim, b.after, &dim)), err,
                   INVALID_ARGUMENT, "%s: padded dimension %d does not fit int64", TD_NODE_STR(c->node), i);
        c->out[0].dim[i] = dim;
    }
    return TD_OK;
}

/* y in rows: the last axis with a border, and what is behind it. Each is a border as a whole, or a row of x
 * between borders. */
struct padding {
    enum td_dtype dtype;
    const char *x;
    char *y;
    const void *value;                  /* of the borders; NULL: zeros */
    int rank;                           /* axes that count rows */
    int64_t before[TD_MAX_RANK];        /* of each */
    int64_t x_dim[TD_MAX_RANK], *y_dim; /* borrowed */
    int64_t row, y_row, front;          /* elements: of x's, of y's, of the border in front of x's */
};

static void put_border(const struct padding *p, int64_t at, int64_t n)
{
    char *y = p->y + at * (int64_t)td_dtype_size(p->dtype);
    if (p->value != NULL) {
        td_strided_fill(p->dtype, y, p->value, n);
    } else if (n > 0) {
        td_strided_zero(p->dtype, y, n);
    }
}

/* x's row at y's, -1: a border. */
static int64_t row_inside(const struct padding *p, const int64_t *at)
{
    int64_t row = 0;
    for (int i = 0; i < p->rank; i++) {
        const int64_t k = at[i] - p->before[i];
        if (k < 0 || k >= p->x_dim[i]) {
            return -1;
        }
        row = row * p->x_dim[i] + k;
    }
    return row;
}

static void pad_rows(void *arg, int64_t from, int64_t to, int who)
{
    (void)who;
    const struct padding *p = arg;
    const int64_t size = (int64_t)td_dtype_size(p->dtype);
    int64_t at[TD_MAX_RANK], rest = from;
    for (int i = p->rank - 1; i >= 0; i--) {
        at[i] = rest % p->y_dim[i];
        rest /= p->y_dim[i];
    }
    for (int64_t r = from; r < to && !td_work_spent(p->y_row); r++) {
        const int64_t row = row_inside(p, at), first = r * p->y_row, inside = row < 0 ? 0 : p->row;
        put_border(p, first, p->front);
        if (row >= 0) {
            memcpy(p->y + (first + p->front) * size, p->x + row * inside * size, (size_t)(inside * size));
        }
        put_border(p, first + p->front + inside, p->y_row - p->front - inside);
        for (int i = p->rank - 1; i >= 0 && ++at[i] == p->y_dim[i]; i--) {
            at[i] = 0;
        }
    }
}

/* Of plain elements, of which x has some; paddings were checked. */
static void pad_plain(struct td_call *c, struct td_tensor *y)
{
    const struct td_tensor *x = c->in[0], *paddings = c->in[1];
    struct padding p = {
        .dtype = y->dtype, .x = x->data, .y = y->data, .y_dim = y->shape.dim, .rank = x->shape.rank - 1};
    p.value = c->n_in > 2 ? c->in[2]->data : NULL;
    while (p.rank > 0 && x->shape.dim[p.rank] == y->shape.dim[p.rank]) {
        p.rank--;
    }
    for (int i = 0; i < p.rank; i++) {
        p.before[i] = td_tensor_int(paddings, 2 * i);
        p.x_dim[i] = x->shape.dim[i];
    }
    p.row = td_shape_range(&x->shape, p.rank, x->shape.rank);
    p.y_row = td_shape_range(&y->shape, p.rank, y->shape.rank);
    p.front = td_tensor_int(paddings, 2 * p.rank) * td_shape_range(&y->shape, p.rank + 1, y->shape.rank);
    td_spread(c, td_shape_range(&y->shape, 0, p.rank), 1, 2 * (double)p.y_row * TD_SPREAD_PASS_NS, pad_rows,
              &p);
}

/* Puts x into y behind the borders in front. */
static void put_inside(const struct td_tensor *x, const struct td_tensor *paddings, struct td_tensor *y)
{
    int64_t from[TD_MAX_RANK], to[TD_MAX_RANK], offset = 0;
    if (td_tensor_count(x) == 0) {
        return;
    }
    td_strided_row_major(&x->shape, from);
    td_strided_row_major(&y->shape, to);
    struct td_strided w = {.rank = 0};
    for (int i = 0; i < x->shape.rank; i++) {
        td_strided_push(&w, x->shape.dim[i], to[i], from[i]);
        offset += td_tensor_int(paddings, 2 * i) * to[i];
    }
    td_strided_copy(x->dtype, &w, (char *)y->data + offset * (int64_t)td_dtype_size(x->dtype), x->data);
}

static enum td_code pad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(y);
    if (n == 0) {
        return TD_OK;
    }
    if (n == td_tensor_count(c->in[0])) {
        td_elems_copy(y->dtype, y->data, c->in[0]->data, n);
        return TD_OK;
    }
    if (td_tensor_count(c->in[0]) > 0 && !td_dtype_is_object(y->dtype)) {
        pad_plain(c, y);
        return TD_OK;
    }
    if (c->n_in > 2) {
        td_strided_fill(y->dtype, y->data, c->in[2]->data, n);
    } else {
        td_strided_zero(y->dtype, y->data, n);
    }
    put_inside(c->in[0], c->in[1], y);
    return TD_OK;
}

/* ------------------------------------------------------------------ MirrorPad */

/* 1 when the edge itself is not repeated. */
static int64_t mirror_offset(const struct td_node *node)
{
    return strcmp(td_attr_str(node, "mode"), "REFLECT") == 0 ? 1 : 0;
}

static enum td_code check_mirror(const struct td_node *node, const struct border *b, int64_t inside,
                                 struct td_err *err)
{
    const int64_t offset = mirror_offset(node);
    TD_FAIL_IF(b->before > inside - offset || b->after > inside - offset, err, INVALID_ARGUMENT,
               "%s: paddings must be %s the dimension size: %lld, %lld %s %lld", TD_NODE_STR(node),
               offset ? "less than" : "no greater than", (long long)b->before, (long long)b->after,
               offset ? "not less than" : "greater than", (long long)inside);
    return TD_OK;
}

static enum td_code mirror_pad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_paddings(c, err));
    for (int i = 0; c->value[1] != NULL && i < c->in[0].rank; i++) {
        struct border b;
        const int64_t dim = c->in[0].dim[i];
        TD_TRY(read_border(c->node, c->value[1], i, &b, err));
        if (dim >= 0) {
            TD_TRY(check_mirror(c->node, &b, dim, err));
            c->out[0].dim[i] = dim + b.before + b.after; /* each at most dim */
            TD_FAIL_IF(dim > INT64_MAX / 3, err, INVALID_ARGUMENT,
                       "%s: padded dimension %d does not fit int64", TD_NODE_STR(c->node), i);
        }
    }
    return TD_OK;
}

/* Fills the border of one axis from the inside; axes behind it are whole already, axes before it are
 * filled on their inside only, which the later steps mirror. */
static void mirror_axis(struct td_tensor *y, int axis, const struct border *b, int64_t inside, int64_t offset)
{
    const int64_t chunk = td_shape_range(&y->shape, axis + 1, y->shape.rank);
    const int64_t outer = td_shape_range(&y->shape, 0, axis), pitch = y->shape.dim[axis] * chunk;
    const int64_t size = (int64_t)td_dtype_size(y->dtype);
    char *base = y->data;
    struct td_strided w = {.rank = 0};
    td_strided_push(&w, outer, pitch, pitch);
    td_strided_push(&w, b->before, -chunk, chunk);
    td_strided_push(&w, chunk, 1, 1);
    if (b->before > 0) {
        td_strided_copy(y->dtype, &w, base + (b->before - 1) * chunk * size,
                        base + (b->before + offset) * chunk * size);
    }
    if (b->after > 0) {
        const int64_t end = b->before + inside;
        w.dim[1] = b->after;
        w.dst[1] = chunk;
        w.src[1] = -chunk;
        td_strided_copy(y->dtype, &w, base + end * chunk * size, base + (end - 1 - offset) * chunk * size);
    }
}

static enum td_code mirror_pad_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    /* Not all of it is written before it is mirrored on: the parts not yet reached must hold defined
     * bytes. */
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    put_inside(x, c->in[1], y);
    for (int axis = x->shape.rank - 1; axis >= 0; axis--) {
        struct border b;
        TD_TRY(read_border(c->node, c->in[1], axis, &b, err));
        mirror_axis(y, axis, &b, x->shape.dim[axis], mirror_offset(c->node));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ MirrorPadGrad */

static enum td_code mirror_pad_grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_paddings(c, err));
    for (int i = 0; c->value[1] != NULL && i < c->in[0].rank; i++) {
        struct border b;
        const int64_t dim = c->in[0].dim[i];
        TD_TRY(read_border(c->node, c->value[1], i, &b, err));
        if (dim < 0) {
            continue;
        }
        TD_FAIL_IF(b.before >= dim || b.after >= dim - b.before, err, INVALID_ARGUMENT,
                   "%s: Total paddings must be less than the input dimension size: %lld and %lld of "
                   "dimension %d are "
                   "not less than %lld",
                   TD_NODE_STR(c->node), (long long)b.before, (long long)b.after, i, (long long)dim);
        c->out[0].dim[i] = dim - b.before - b.after;
        TD_TRY(check_mirror(c->node, &b, c->out[0].dim[i], err));
    }
    return TD_OK;
}

/* Adds row `from` of one axis onto row `to`, in every outer block of x. */
static void fold_row(enum td_dtype dtype, char *x, const struct td_shape *s, int axis, int64_t to,
                     int64_t from)
{
    const int64_t chunk = td_shape_range(s, axis + 1, s->rank), outer = td_shape_range(s, 0, axis);
    const int64_t size = (int64_t)td_dtype_size(dtype), pitch = s->dim[axis] * chunk;
    for (int64_t o = 0; o < outer && !td_work_spent(chunk); o++) {
        char *block = x + o * pitch * size;
        td_combine_run(TD_COMBINE_ADD, dtype, block + to * chunk * size, block + from * chunk * size, chunk,
                       1);
    }
}

static enum td_code mirror_pad_grad_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const struct td_shape *s = &x->shape;
    const int64_t offset = mirror_offset(c->node);
    struct td_tensor *y;
    void *work;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(td_scratch(c, td_tensor_bytes(x), &work, err));
    memcpy(work, x->data, td_tensor_bytes(x));
    int64_t step[TD_MAX_RANK], to[TD_MAX_RANK], first = 0;
    td_strided_row_major(s, step);
    td_strided_row_major(&y->shape, to);
    struct td_strided w = {.rank = 0};
    for (int axis = 0; axis < s->rank; axis++) {
        struct border b;
        TD_TRY(read_border(c->node, c->in[1], axis, &b, err));
        const int64_t end = s->dim[axis] - b.after;
        for (int64_t i = 0; i < b.before; i++) {
            fold_row(x->dtype, work, s, axis, b.before + offset + i, b.before - 1 - i);
        }
        for (int64_t i = 0; i < b.after; i++) {
            fold_row(x->dtype, work, s, axis, end - 1 - offset - i, end + i);
        }
        td_strided_push(&w, y->shape.dim[axis], to[axis], step[axis]);
        first += b.before * step[axis];
    }
    td_strided_copy(x->dtype, &w, y->data, (char *)work + first * (int64_t)td_dtype_size(x->dtype));
    return TD_OK;
}

#define PADDINGS                                                                                             \
    {                                                                                                        \
        "Tpaddings", TD_SET_INDEX                                                                            \
    }
#define PAD_TYPES                                                                                            \
    {                                                                                                        \
        "T", TD_SET_COPYABLE | TD_SET_Q8_32                                                                  \
    }

static struct td_permuted find_pad(const struct td_emitter *e, const struct td_node *n,
                                   const struct td_perm *p)
{
    const bool ok = td_rank_of(e, n->in[0]) == p->rank && td_permute_has_numbers(n, 1, 2 * (int64_t)p->rank);
    return ok ? td_permute_first : td_permute_none;
}

static void apply_pad(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    td_permute_numbers(e, n, 1, p, 2);
}

static const struct td_permute_rule permute_pad = {.find = find_pad, .apply = apply_pad};

const struct td_op td_ops_array_pad[] = {
    {.name = "Pad",
     .sig = "(input:T, paddings:Tpaddings) -> (output:T) {T:type; Tpaddings:type=int32}",
     .flags = TD_OP_TOTAL,
     .vectorize = td_many_pad,
     .permute = &permute_pad,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .host_in = 2,
     .infer = pad_infer,
     .kernels = TD_KERNEL("pad.cpu", pad_run, PAD_TYPES, PADDINGS),
     .grad = td_pad_grad},
    {.name = "PadV2",
     .sig = "(input:T, paddings:Tpaddings, constant_values:T) -> (output:T) {T:type; Tpaddings:type=int32}",
     .flags = TD_OP_TOTAL,
     .vectorize = td_many_pad,
     .permute = &permute_pad,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .host_in = 2,
     .infer = pad_infer,
     .kernels = TD_KERNEL("pad.cpu", pad_run, PAD_TYPES, PADDINGS),
     .grad = td_pad_grad},
    {.name = "MirrorPad",
     .sig = "(input:T, paddings:Tpaddings) -> (output:T) {T:type; Tpaddings:type=int32; mode:string in "
            "['REFLECT','SYMMETRIC']}",
     .permute = &permute_pad,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .host_in = 2,
     .infer = mirror_pad_infer,
     .kernels = TD_KERNEL("mirror_pad.cpu", mirror_pad_run, PAD_TYPES, PADDINGS),
     .grad = td_mirror_pad_grad},
    {.name = "MirrorPadGrad",
     .sig = "(input:T, paddings:Tpaddings) -> (output:T) {T:type; Tpaddings:type=int32; mode:string in "
            "['REFLECT','SYMMETRIC']}",
     .batchable = TD_BATCHABLE(td_batchable_map),
     .host_in = 2,
     .infer = mirror_pad_grad_infer,
     .kernels = TD_KERNEL("mirror_pad_grad.cpu", mirror_pad_grad_run, {"T", TD_SET_NUMBERS}, PADDINGS),
     .grad = td_mirror_pad_grad_grad},
    {.name = NULL},
};
