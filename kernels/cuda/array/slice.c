/* kernels/cuda/array/slice.c - rows of ops that read or write part of a tensor, or the same elements again:
 * Slice, StridedSlice and its gradient, TensorStridedSliceUpdate, XlaDynamicUpdateSlice, Pad, PadV2, Tile,
 * BroadcastTo, Reverse, ReverseV2; and tensors of one value: Fill, ZerosLike, OnesLike. All are td_cuda_move
 * with steps, which may be 0 or negative.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array/slice_spec.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/rows.h"

static void *element(const struct td_tensor *t, int64_t i)
{
    return t->data == NULL ? NULL : (char *)t->data + i * (int64_t)td_dtype_size(t->dtype);
}

/* A walk over `dims` (innermost last), from x's element `first` and from y's element `start`. */
struct walk {
    const struct td_tensor *x, *y;
    int rank;
    int64_t dim[2 * TD_MAX_RANK], from[2 * TD_MAX_RANK], to[2 * TD_MAX_RANK], first, start;
};

static void walk_add(struct walk *w, int64_t dim, int64_t from, int64_t to)
{
    w->dim[w->rank] = dim;
    w->from[w->rank] = from;
    w->to[w->rank++] = to;
}

/* How many elements apart neighbours along each axis lie, row-major, in x and in y. */
struct strides {
    int64_t x[TD_MAX_RANK], y[TD_MAX_RANK];
};

/* A walk from x to y, of no dimensions yet, and their strides, by which it is given them. */
static struct walk walk_between(const struct td_tensor *x, const struct td_tensor *y, struct strides *s)
{
    td_cuda_row_major(&x->shape, s->x);
    td_cuda_row_major(&y->shape, s->y);
    return (struct walk){.x = x, .y = y};
}

static enum td_code go(const struct td_call *c, const struct walk *w, struct td_err *err)
{
    struct td_cuda_steps steps = {0};
    int64_t n = 1;
    bool fits = true;
    for (int i = w->rank - 1; i >= 0; i--) {
        fits = fits && td_cuda_steps_add(&steps, w->dim[i], w->from[i], w->to[i]);
        n *= w->dim[i];
    }
    TD_FAIL_IF(!fits, err, INTERNAL, "%s: more than eight dimensions", c->node->op_name);
    return n == 0 ? TD_OK
                  : td_cuda_launched(c,
                                     td_cuda_move(td_dtype_size(w->y->dtype), &steps, element(w->x, w->first),
                                                  element(w->y, w->start), n, td_cuda_stream_of(c)),
                                     err);
}

static enum td_code fill(const struct td_call *c, const struct td_tensor *y, const unsigned char value[16],
                         struct td_err *err)
{
    return td_cuda_launched(
        c, td_cuda_fill(td_dtype_size(y->dtype), value, y->data, td_tensor_count(y), td_cuda_stream_of(c)),
        err);
}

static enum td_code prepare_rank(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    (void)err;
    o->refusal =
        q->in[0].rank <= TD_CUDA_DIMS && q->out[0].rank <= TD_CUDA_DIMS ? NULL : "more than eight dimensions";
    return TD_OK;
}

/* ------------------------------------------------------------------ Slice, StridedSlice */

static enum td_code run_slice(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct strides by;
    struct walk w = walk_between(c->in[0], y, &by);
    for (int i = 0; i < y->shape.rank; i++) {
        walk_add(&w, y->shape.dim[i], by.x[i], by.y[i]);
        w.first += td_tensor_int(c->in[1], i) * by.x[i];
    }
    return go(c, &w, err);
}

/* ---- at indices that are on the device, whose number is the rank */

/* From x, or to y, as far as a block of these dims goes: it begins at c's input `at`. */
static enum td_code go_from(const struct td_call *c, const struct td_tensor *x, const struct td_tensor *y,
                            struct td_cuda_begin *from, int at, struct td_err *err)
{
    const struct td_shape *block = from->of_y ? &x->shape : &y->shape,
                          *whole = from->of_y ? &y->shape : &x->shape;
    struct td_cuda_steps steps = {0};
    struct strides by;
    (void)walk_between(x, y, &by);
    bool fits = true;
    from->at = td_cuda_indices_of(c->in[at]);
    for (int a = block->rank - 1; a >= 0; a--) {
        fits = fits && td_cuda_steps_add(&steps, block->dim[a], by.x[a], by.y[a]);
        from->entry[from->n] = a;
        from->dim[from->n] = whole->dim[a] - block->dim[a];
        from->step[from->n++] = from->of_y ? by.y[a] : by.x[a];
    }
    TD_FAIL_IF(!fits, err, INTERNAL, "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(c,
                            td_cuda_move_from(td_dtype_size(y->dtype), &steps, from, x->data, y->data,
                                              td_shape_count(block), td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_slice_at(struct td_call *c, struct td_err *err)
{
    struct td_cuda_begin from = {.kind = TD_CUDA_BEGIN_WITHIN, .fault = c->fault};
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return go_from(c, c->in[0], y, &from, 1, err);
}

static enum td_code prepare_slice_at(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    const struct td_tensor *size = q->value[2];
    TD_TRY(prepare_rank(q, o, err));
    if (o->refusal == NULL) {
        o->refusal = q->value[1] != NULL               ? "the host knows where it begins"
                     : td_shape_count(&q->out[0]) == 0 ? "nothing is sliced"
                     : size == NULL                    ? "its size is not known before"
                                                       : NULL;
    }
    for (int64_t a = 0; o->refusal == NULL && a < td_tensor_count(size); a++) {
        o->refusal = td_tensor_int(size, a) < 0 ? "its size is not known before" : NULL;
    }
    return TD_OK;
}

/* The slice of a tensor of shape `in` as a walk: where its elements lie there, and row-major. */
static enum td_code strided(const struct td_call *c, int at, const struct td_shape *in, int64_t *step,
                            struct td_slice_spec *s, int64_t *first, struct td_err *err)
{
    const struct td_slice_bounds b = {
        .n = td_tensor_count(c->in[at]), .begin = c->in[at], .end = c->in[at + 1], .strides = c->in[at + 2]};
    TD_TRY(td_slice_spec_make(c->node, in, &b, s, err));
    td_slice_spec_place(s, in, step, first);
    return TD_OK;
}

static enum td_code run_strided(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_slice_spec s;
    int64_t step[TD_MAX_RANK], run = 1;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct walk w = {.x = c->in[0], .y = y};
    TD_TRY(strided(c, 1, &w.x->shape, step, &s, &w.first, err));
    int64_t to[TD_MAX_RANK];
    for (int a = s.rank - 1; a >= 0; a--) {
        to[a] = run;
        run *= s.size[a];
    }
    for (int a = 0; a < s.rank; a++) {
        walk_add(&w, s.size[a], step[a], to[a]);
    }
    return go(c, &w, err);
}

/* ---- StridedSlice at indices that are on the device: x[i], x[:, i], with whole axes beside */

/* All that is known of it without begin and end; NULL: that is enough. */
static const char *spec_at(const struct td_node *node, const struct td_shape *in,
                           const struct td_shape *begin, const struct td_tensor *strides,
                           struct td_slice_spec *s)
{
    const struct td_slice_bounds b = {.n = begin->rank == 1 ? begin->dim[0] : -1, .strides = strides};
    struct td_err ignored = {0};
    bool whole = strides != NULL && b.n >= 0 && td_slice_spec_make(node, in, &b, s, &ignored) == TD_OK;
    bool any = false;
    for (int a = 0; whole && a < s->rank; a++) {
        whole = s->size[a] >= 0;
        any |= s->index[a] >= 0;
    }
    return whole && any ? NULL : "it is no index of an axis, beside whole ones";
}

static enum td_code prepare_at(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_slice_spec s;
    TD_TRY(prepare_rank(q, o, err));
    if (o->refusal == NULL) {
        o->refusal = q->value[1] != NULL ? "the host knows where it begins"
                     : td_shape_count(&q->out[0]) == 0
                         ? "nothing is sliced"
                         : spec_at(q->node, &q->in[0], &q->in[1], q->value[3], &s);
    }
    return TD_OK;
}

static enum td_code run_at(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    struct td_slice_spec s;
    struct td_cuda_steps steps = {0};
    int64_t step[TD_MAX_RANK], dense[TD_MAX_RANK], first, run = 1;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_FAIL_IF(spec_at(c->node, &x->shape, &c->in[1]->shape, c->in[3], &s) != NULL, err, INTERNAL,
               "%s: a slice at other places than it was prepared for", c->node->op_name);
    td_slice_spec_place(&s, &x->shape, step, &first);
    td_cuda_row_major(&x->shape, dense);
    struct td_cuda_begin from = {.at = td_cuda_indices_of(c->in[1]), .fault = c->fault};
    for (int a = s.rank - 1; a >= 0; a--) {
        TD_FAIL_IF(!td_cuda_steps_add(&steps, s.size[a], step[a], run), err, INTERNAL,
                   "%s: more than eight dimensions", c->node->op_name);
        run *= s.size[a];
        if (s.index[a] >= 0) {
            from.entry[from.n] = s.index[a];
            from.dim[from.n] = x->shape.dim[a];
            from.step[from.n++] = dense[a];
        }
    }
    return td_cuda_launched(c,
                            td_cuda_move_from(td_dtype_size(y->dtype), &steps, &from, element(x, first),
                                              y->data, run, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_strided_grad(struct td_call *c, struct td_err *err)
{
    static const unsigned char zero[16];
    struct td_tensor *y;
    struct td_slice_spec s;
    int64_t step[TD_MAX_RANK], run = 1;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(fill(c, y, zero, err));
    struct walk w = {.x = c->in[4], .y = y};
    if (td_tensor_count(w.x) == 0 || td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(strided(c, 1, &y->shape, step, &s, &w.start, err));
    int64_t from[TD_MAX_RANK];
    for (int a = s.rank - 1; a >= 0; a--) {
        from[a] = run;
        run *= s.size[a];
    }
    for (int a = 0; a < s.rank; a++) {
        walk_add(&w, s.size[a], from[a], step[a]);
    }
    return go(c, &w, err);
}

/* What arrives is of the slice's own shape, not one that is broadcast to it. */
static enum td_code prepare_strided_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                         struct td_err *err)
{
    TD_TRY(prepare_rank(q, o, err));
    if (o->refusal == NULL && q->in[4].rank > TD_CUDA_DIMS) {
        o->refusal = "more than eight dimensions";
    }
    return TD_OK;
}

/* x with `value`, broadcast to the slice, at its place. */
static enum td_code run_strided_update(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *value = c->in[4];
    const int rank = value->shape.rank;
    struct td_tensor *y;
    struct td_slice_spec s;
    int64_t step[TD_MAX_RANK], dense[TD_MAX_RANK], from[TD_MAX_RANK] = {0};
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_copy_all(c, c->in[0], y, err));
    struct walk w = {.x = value, .y = y};
    TD_TRY(strided(c, 1, &y->shape, step, &s, &w.start, err));
    td_cuda_row_major(&value->shape, dense);
    for (int i = 0; i < rank; i++) {
        const int at = s.shape.rank - rank + i;
        if (at >= 0 && s.source[at] >= 0 && value->shape.dim[i] > 1) {
            from[s.source[at]] = dense[i];
        }
    }
    for (int a = 0; a < s.rank; a++) {
        walk_add(&w, s.size[a], from[a], step[a]);
    }
    return go(c, &w, err);
}

/* x with a block of it replaced, which is moved so far that it lies inside. */
static enum td_code run_update(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *block = c->in[1];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_copy_all(c, c->in[0], y, err));
    struct strides by;
    struct walk w = walk_between(block, y, &by);
    for (int i = 0; i < y->shape.rank; i++) {
        const int64_t asked = td_tensor_int(c->in[2], i), most = y->shape.dim[i] - block->shape.dim[i];
        walk_add(&w, block->shape.dim[i], by.x[i], by.y[i]);
        w.start += (asked < 0 ? 0 : asked > most ? most : asked) * by.y[i];
    }
    return go(c, &w, err);
}

static enum td_code prepare_update(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    TD_TRY(prepare_rank(q, o, err));
    for (int i = 0; i < q->n_in; i++) {
        o->refusal = td_shape_count(&q->in[i]) == 0 ? "nothing is moved" : o->refusal;
    }
    return TD_OK;
}

static enum td_code run_update_at(struct td_call *c, struct td_err *err)
{
    struct td_cuda_begin to = {.kind = TD_CUDA_BEGIN_CLAMPED, .of_y = true};
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_copy_all(c, c->in[0], y, err));
    return go_from(c, c->in[1], y, &to, 2, err);
}

static enum td_code prepare_update_at(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                      struct td_err *err)
{
    TD_TRY(prepare_update(q, o, err));
    o->refusal = o->refusal == NULL && q->value[2] != NULL ? "the host knows where it begins" : o->refusal;
    return TD_OK;
}

/* ------------------------------------------------------------------ Pad, Tile, BroadcastTo, Reverse */

static enum td_code pad(struct td_call *c, struct td_tensor *y, struct td_err *err)
{
    struct strides by;
    struct walk w = walk_between(c->in[0], y, &by);
    for (int i = 0; i < y->shape.rank; i++) {
        walk_add(&w, w.x->shape.dim[i], by.x[i], by.y[i]);
        w.start += td_tensor_int(c->in[1], 2 * i) * by.y[i];
    }
    return go(c, &w, err);
}

static enum td_code run_pad(struct td_call *c, struct td_err *err)
{
    static const unsigned char zero[16];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(fill(c, y, zero, err));
    return pad(c, y, err);
}

/* y [any shape]: x's one element everywhere. */
static enum td_code spread_one(const struct td_call *c, const struct td_tensor *x, const struct td_tensor *y,
                               struct td_err *err)
{
    struct walk w = {.x = x, .y = y};
    walk_add(&w, td_tensor_count(y), 0, 1);
    return go(c, &w, err);
}

static enum td_code run_pad_v2(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(spread_one(c, c->in[2], y, err));
    return pad(c, y, err);
}

static enum td_code run_tile(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct strides by;
    struct walk w = walk_between(c->in[0], y, &by);
    for (int i = 0; i < y->shape.rank; i++) {
        const int64_t dim = w.x->shape.dim[i];
        walk_add(&w, dim == 0 ? 0 : y->shape.dim[i] / dim, 0, by.y[i] * dim);
        walk_add(&w, dim, by.x[i], by.y[i]);
    }
    return go(c, &w, err);
}

static enum td_code prepare_tile(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    (void)err;
    o->refusal = 2 * q->in[0].rank <= TD_CUDA_DIMS ? NULL : "more than four dimensions";
    return TD_OK;
}

static enum td_code run_broadcast(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_steps steps;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_FAIL_IF(!td_cuda_steps_of(&c->in[0]->shape, &y->shape, &y->shape, &steps), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(c,
                            td_cuda_move(td_dtype_size(y->dtype), &steps, c->in[0]->data, y->data,
                                         td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

/* The axes that are turned round: those whose bool is true (Reverse), or those that are named. */
static uint32_t reversed(const struct td_call *c, int rank)
{
    const struct td_tensor *t = c->in[1];
    uint32_t axes = 0;
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        int axis = (int)i;
        const bool is = t->dtype == TD_BOOL ? ((const unsigned char *)t->data)[i] != 0
                                            : td_shape_axis(rank, td_tensor_int(t, i), &axis);
        axes |= is ? 1u << axis : 0;
    }
    return axes;
}

static enum td_code run_reverse(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct walk w = {.x = c->in[0], .y = y};
    int64_t step[TD_MAX_RANK];
    td_cuda_row_major(&y->shape, step);
    const uint32_t reversal = reversed(c, y->shape.rank);
    for (int i = 0; i < y->shape.rank; i++) {
        const bool back = reversal >> i & 1;
        walk_add(&w, y->shape.dim[i], back ? -step[i] : step[i], step[i]);
        w.first += back && y->shape.dim[i] > 0 ? (y->shape.dim[i] - 1) * step[i] : 0;
    }
    return go(c, &w, err);
}

/* ------------------------------------------------------------------ one value */

static enum td_code run_fill(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return spread_one(c, c->in[1], y, err);
}

static enum td_code run_zeros(struct td_call *c, struct td_err *err)
{
    static const unsigned char zero[16];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return fill(c, y, zero, err);
}

static enum td_code run_ones(struct td_call *c, struct td_err *err)
{
    unsigned char one[16] = {1}; /* of integers and bools, lowest byte first */
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const uint16_t half = 0x3c00, bfloat16 = 0x3f80;
    switch (y->dtype) {
    case TD_FLOAT:
        memcpy(one, &(float){1}, sizeof(float));
        break;
    case TD_DOUBLE:
        memcpy(one, &(double){1}, sizeof(double));
        break;
    case TD_HALF:
        memcpy(one, &half, sizeof half);
        break;
    case TD_BFLOAT16:
        memcpy(one, &bfloat16, sizeof bfloat16);
        break;
    default:
        break;
    }
    return fill(c, y, one, err);
}

/* ------------------------------------------------------------------ rows */

#define ROWS(op, ready, set)                                                                                 \
    TD_CUDA_ROWS(rows_##op, "slice.cuda", .types = {{"T", set}}, .prepare = ready, .run = run_##op);
ROWS(strided_grad, prepare_strided_grad, TD_SET_PLAIN)
ROWS(strided_update, prepare_update, TD_SET_PLAIN)
ROWS(pad, prepare_rank, TD_SET_PLAIN)
ROWS(pad_v2, prepare_rank, TD_SET_PLAIN)
ROWS(tile, prepare_tile, TD_SET_PLAIN)
ROWS(broadcast, prepare_rank, TD_SET_PLAIN)
ROWS(reverse, prepare_rank, TD_SET_PLAIN)
ROWS(fill, NULL, TD_SET_PLAIN)
ROWS(zeros, NULL, TD_SET_PLAIN)
ROWS(ones, NULL, TD_CUDA_NUMBERS | TD_CUDA_BOOLS)

#define PLAIN_AT(index) .types = {{"T", TD_SET_PLAIN}, {index, TD_SET_INDEX}}
static const struct td_kernel rows_slice[] = {
    TD_CUDA_ROW("slice_at.cuda", PLAIN_AT("Index"), .judged = 2, .there = 2, .prepare = prepare_slice_at,
                .run = run_slice_at),
    TD_CUDA_ROW("slice.cuda", .types = {{"T", TD_SET_PLAIN}}, .prepare = prepare_rank, .run = run_slice),
    {.name = NULL}};
static const struct td_kernel rows_update[] = {
    TD_CUDA_ROW("slice_at.cuda", PLAIN_AT("Tindices"), .there = 4, .prepare = prepare_update_at,
                .run = run_update_at),
    TD_CUDA_ROW("slice.cuda", .types = {{"T", TD_SET_PLAIN}}, .prepare = prepare_update, .run = run_update),
    {.name = NULL}};
static const struct td_kernel rows_strided[] = {
    TD_CUDA_ROW("slice_at.cuda", .types = {{"T", TD_SET_PLAIN}, {"Index", TD_SET_INDEX}}, .judged = 6,
                .there = 6, .prepare = prepare_at, .run = run_at),
    TD_CUDA_ROW("slice.cuda", .types = {{"T", TD_SET_PLAIN}}, .prepare = prepare_rank, .run = run_strided),
    {.name = NULL}};

const struct td_op_rows td_cuda_rows_slice[] = {{"Slice", rows_slice},
                                                {"StridedSlice", rows_strided},
                                                {"StridedSliceGrad", rows_strided_grad},
                                                {"TensorStridedSliceUpdate", rows_strided_update},
                                                {"XlaDynamicUpdateSlice", rows_update},
                                                {"Pad", rows_pad},
                                                {"PadV2", rows_pad_v2},
                                                {"Tile", rows_tile},
                                                {"BroadcastTo", rows_broadcast},
                                                {"Reverse", rows_reverse},
                                                {"ReverseV2", rows_reverse},
                                                {"Fill", rows_fill},
                                                {"ZerosLike", rows_zeros},
                                                {"OnesLike", rows_ones},
                                                {NULL, NULL}};
