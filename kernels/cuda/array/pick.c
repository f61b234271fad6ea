/* kernels/cuda/array/pick.c - rows of ops whose elements are picked by where they stand: MirrorPad, Roll,
 * ReverseSequence, SpaceToBatch*, BatchToSpace*, SpaceToDepth, DepthToSpace, OneHot, Extract*Patches, and the
 * gradients MirrorPadGrad and _Extract*PatchesGrad. Diagonals are diagonal.c's.
 *
 * Axes that stay as they are, innermost, are moved in up to 16 bytes at a time. What is empty stays on the
 * host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/pick.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/rows.h"

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const bool empty = td_shape_count(&q->in[0]) == 0 || td_shape_count(&q->out[0]) == 0;
    (void)err;
    o->refusal = empty                          ? "nothing is moved"
                 : q->in[0].rank > TD_CUDA_DIMS ? "more than eight dimensions"
                                                : NULL;
    return TD_OK;
}

/* y of x, in units of so many elements. */
static struct td_cuda_pick from(const struct td_tensor *x, const struct td_tensor *y, int64_t unit)
{
    const int64_t nx = td_tensor_count(x) / unit, ny = td_tensor_count(y) / unit;
    return (struct td_cuda_pick){.bytes = (size_t)unit * td_dtype_size(y->dtype),
                                 .x = x->data,
                                 .y = y->data,
                                 .n = ny,
                                 .most = greater(nx, ny)};
}

/* How many elements of runs of `inner` are moved at a time. */
static int64_t unit_of(const struct td_tensor *x, const struct td_tensor *y, int64_t inner)
{
    const size_t size = td_dtype_size(y->dtype);
    return (int64_t)(td_cuda_unit((size_t)inner * size, x->data, y->data) / size);
}

/* ------------------------------------------------------------------ MirrorPad, Roll */

/* One axis more, outside of what is there; neighbours that stay as they are become one. */
static void shifts_add(struct td_cuda_shifts *s, int64_t dim, int64_t in, int64_t before, int64_t step)
{
    const int last = s->rank - 1;
    if (last >= 0 && before == 0 && dim == in && s->before[last] == 0 && s->dim[last] == s->in[last]) {
        s->dim[last] *= dim;
        s->in[last] *= in;
        return;
    }
    s->dim[s->rank] = dim;
    s->in[s->rank] = in;
    s->before[s->rank] = before;
    s->step[s->rank++] = step;
}

static enum td_code go_shifted(const struct td_call *c, struct td_cuda_shifts *s, const struct td_tensor *y,
                               struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const bool still = s->rank > 0 && s->before[0] == 0 && s->dim[0] == s->in[0];
    const int64_t unit = still ? unit_of(x, y, s->dim[0]) : 1;
    for (int d = 0; still && d < s->rank; d++) {
        s->dim[d] /= d == 0 ? unit : 1;
        s->in[d] /= d == 0 ? unit : 1;
        s->step[d] /= d == 0 ? 1 : unit;
    }
    const struct td_cuda_pick p = from(x, y, unit);
    return td_cuda_launched(c, td_cuda_pick_shifted(&p, s, td_cuda_stream_of(c)), err);
}

static int skips(const struct td_node *n)
{
    return strcmp(td_attr_str(n, "mode"), "REFLECT") == 0;
}

static enum td_code run_mirror_pad(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    struct td_cuda_shifts s = {.kind = TD_CUDA_MIRROR, .skips = skips(c->node)};
    int64_t step[TD_MAX_RANK];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_cuda_row_major(x, step);
    for (int a = x->rank - 1; a >= 0; a--) {
        shifts_add(&s, y->shape.dim[a], x->dim[a], td_tensor_int(c->in[1], 2 * a), step[a]);
    }
    return go_shifted(c, &s, y, err);
}

/* What is between two axes lies in one half of the workspace, then in the other. */
static enum td_code prepare_mirror_pad_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                            struct td_err *err)
{
    TD_TRY(prepare(q, o, err));
    o->workspace_bytes = 2 * (size_t)td_shape_count(&q->in[0]) * td_dtype_size(td_attr_type(q->node, "T"));
    return TD_OK;
}

/* Axis after axis, the outermost first. */
static enum td_code run_mirror_pad_grad(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    const void *now = c->in[0]->data;
    char *const room[] = {c->workspace, (char *)c->workspace + td_tensor_bytes(c->in[0])};
    struct td_tensor *y;
    int last = -1, error = 0;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int a = 0; a < x->rank; a++) {
        last = x->dim[a] != y->shape.dim[a] ? a : last;
    }
    for (int a = 0; a <= last && error == 0; a++) {
        const struct td_cuda_unmirror s = {.outer = td_shape_range(&y->shape, 0, a),
                                           .dim = x->dim[a],
                                           .in = y->shape.dim[a],
                                           .before = td_tensor_int(c->in[1], 2 * a),
                                           .inner = td_shape_range(x, a + 1, x->rank),
                                           .skips = skips(c->node)};
        if (s.dim != s.in) {
            void *to = a == last ? y->data : room[now == room[0]];
            error = td_cuda_pick_unmirrored(td_cuda_type_of(y->dtype), &s, now, to, td_cuda_stream_of(c));
            now = to;
        }
    }
    return last < 0 ? td_cuda_copy_all(c, c->in[0], y, err) : td_cuda_launched(c, error, err);
}

/* Axes that are named more than once are shifted by the sum. */
static enum td_code run_roll(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    struct td_cuda_shifts s = {.kind = TD_CUDA_WRAP};
    int64_t by[TD_MAX_RANK] = {0}, step[TD_MAX_RANK];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0; i < td_tensor_count(c->in[2]); i++) {
        int axis = 0;
        TD_FAIL_IF(!td_shape_axis(x->rank, td_tensor_int(c->in[2], i), &axis), err, INVALID_ARGUMENT,
                   "%s: axis %lld is out of range", TD_NODE_STR(c->node),
                   (long long)td_tensor_int(c->in[2], i));
        const int64_t dim = x->dim[axis];
        by[axis] = (by[axis] + td_tensor_int(c->in[1], i) % dim + dim) % dim;
    }
    td_cuda_row_major(x, step);
    for (int a = x->rank - 1; a >= 0; a--) {
        shifts_add(&s, x->dim[a], x->dim[a], by[a], step[a]);
    }
    return go_shifted(c, &s, y, err);
}

/* ------------------------------------------------------------------ ReverseSequence */

static enum td_code run_reverse_sequence(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const int sequence = (int)td_attr_int(c->node, "seq_dim"), batch = (int)td_attr_int(c->node, "batch_dim"),
              rank = x->shape.rank;
    int64_t step[TD_MAX_RANK];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_cuda_row_major(&x->shape, step);
    const int64_t unit = unit_of(x, y, td_shape_range(&x->shape, (int)greater(sequence, batch) + 1, rank));
    const struct td_cuda_pick p = from(x, y, unit);
    const struct td_cuda_sequences s = {.sequence = x->shape.dim[sequence],
                                        .sequence_step = step[sequence] / unit,
                                        .batch = x->shape.dim[batch],
                                        .batch_step = step[batch] / unit,
                                        .lengths = td_cuda_indices_of(c->in[1]),
                                        .fault = c->fault};
    return td_cuda_launched(c, td_cuda_pick_sequences(&p, &s, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ space and batch */

/* shape NULL: attribute block_size on two axes. */
static enum td_code go_blocks(const struct td_call *c, const struct td_tensor *shape,
                              const struct td_tensor *pads, bool small, struct td_tensor *y,
                              struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const struct td_shape *big = small ? &x->shape : &y->shape, *less = small ? &y->shape : &x->shape;
    struct td_cuda_blocking s = {.n = (int)(shape != NULL ? td_tensor_count(shape) : 2),
                                 .batch = big->dim[0]};
    for (int i = 0; i < s.n; i++) {
        s.size[i] = shape != NULL ? td_tensor_int(shape, i) : td_attr_int(c->node, "block_size");
        s.before[i] = td_tensor_int(pads, 2 * i);
        s.big[i] = big->dim[i + 1];
        s.small[i] = less->dim[i + 1];
    }
    s.inner = td_shape_range(big, s.n + 1, big->rank);
    const int64_t unit = unit_of(x, y, s.inner);
    const struct td_cuda_pick p = from(x, y, unit);
    s.inner /= unit;
    return td_cuda_launched(c, (small ? td_cuda_pick_small : td_cuda_pick_big)(&p, &s, td_cuda_stream_of(c)),
                            err);
}

#define BLOCKS(op, shape, pads, small)                                                                       \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        struct td_tensor *y;                                                                                 \
        TD_TRY(td_out(c, 0, NULL, &y, err));                                                                 \
        return go_blocks(c, shape, c->in[pads], small, y, err);                                              \
    }
BLOCKS(space_to_batch, NULL, 1, true)
BLOCKS(space_to_batch_nd, c->in[1], 2, true)
BLOCKS(batch_to_space, NULL, 1, false)
BLOCKS(batch_to_space_nd, c->in[1], 2, false)

/* ------------------------------------------------------------------ space and depth */

/* A walk over images, rows, rows of a block, columns, columns of a block, and channels. */
static enum td_code space_depth(struct td_call *c, bool to_depth, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *x = c->in[0], *space = to_depth ? x : y, *deep = to_depth ? y : x;
    const bool first = strcmp(td_attr_str(c->node, "data_format"), "NCHW") == 0;
    const int h = first ? 2 : 1, w = first ? 3 : 2, d = first ? 1 : 3;
    const int64_t size = td_attr_int(c->node, "block_size"), depth = space->shape.dim[d];
    int64_t p[TD_MAX_RANK], q[TD_MAX_RANK];
    td_cuda_row_major(&space->shape, p);
    td_cuda_row_major(&deep->shape, q);
    const int64_t dim[] = {deep->shape.dim[0], deep->shape.dim[h], size, deep->shape.dim[w], size, depth};
    const int64_t in_space[] = {p[0], p[h] * size, p[h], p[w] * size, p[w], p[d]};
    const int64_t in_deep[] = {q[0], q[h], q[d] * size * depth, q[w], q[d] * depth, q[d]};
    struct td_cuda_steps s = {0};
    for (int i = 5; i >= 0; i--) {
        (void)td_cuda_steps_add(&s, dim[i], to_depth ? in_space[i] : in_deep[i],
                                to_depth ? in_deep[i] : in_space[i]);
    }
    return td_cuda_launched(
        c,
        td_cuda_move(td_dtype_size(y->dtype), &s, x->data, y->data, td_tensor_count(y), td_cuda_stream_of(c)),
        err);
}

static enum td_code run_space_to_depth(struct td_call *c, struct td_err *err)
{
    return space_depth(c, true, err);
}
static enum td_code run_depth_to_space(struct td_call *c, struct td_err *err)
{
    return space_depth(c, false, err);
}

/* ------------------------------------------------------------------ OneHot */

static enum td_code run_one_hot(struct td_call *c, struct td_err *err)
{
    const struct td_shape *indices = &c->in[0]->shape;
    const int64_t asked = td_attr_int(c->node, "axis");
    const int axis = asked < 0 ? indices->rank : (int)asked;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_pick p = from(c->in[2], y, 1);
    p.other = c->in[3]->data;
    const struct td_cuda_one_hot s = {.depth = y->shape.dim[axis],
                                      .inner = td_shape_range(indices, axis, indices->rank),
                                      .indices = td_cuda_indices_of(c->in[0])};
    return td_cuda_launched(c, td_cuda_pick_one_hot(&p, &s, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ patches */

/* The windows of x [batch, in.., depth] that y [batch, out.., taps * depth] has; a plane is one layer of a
 * volume. */
static struct td_cuda_patches windows(const struct td_node *n, const struct td_shape *x,
                                      const struct td_shape *y)
{
    const int planar = x->rank == 4;
    const bool same = strcmp(td_attr_str(n, "padding"), "SAME") == 0;
    int count;
    const int64_t *k = td_attr_ints(n, "ksizes", &count), *stride = td_attr_ints(n, "strides", &count);
    const int64_t *rate = planar ? td_attr_ints(n, "rates", &count) : NULL;
    struct td_cuda_patches s = {.depth = x->dim[x->rank - 1]};
    s.axis[0] = (struct td_cuda_axis){.in = 1, .k = 1, .stride = 1, .dilation = 1, .out = 1};
    for (int i = 1; i < x->rank - 1; i++) {
        struct td_cuda_axis *a = &s.axis[i - 1 + planar];
        *a = (struct td_cuda_axis){.in = x->dim[i],
                                   .k = k[i],
                                   .stride = stride[i],
                                   .dilation = rate != NULL ? rate[i] : 1,
                                   .out = y->dim[i]};
        const int64_t pad = (a->out - 1) * a->stride + (a->k - 1) * a->dilation + 1 - a->in;
        a->before = same && (pad > 0 || !planar) ? pad / 2 : 0;
    }
    return s;
}

static enum td_code run_patches(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_patches s = windows(c->node, &x->shape, &y->shape);
    const int64_t unit = unit_of(x, y, s.depth);
    const struct td_cuda_pick p = from(x, y, unit);
    s.depth /= unit;
    return td_cuda_launched(c, td_cuda_pick_patches(&p, &s, td_cuda_stream_of(c)), err);
}

static enum td_code run_patches_grad(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_patches s = windows(c->node, &y->shape, &x->shape);
    const struct td_cuda_pick p = from(x, y, 1);
    return td_cuda_launched(
        c, td_cuda_pick_unpatched(td_cuda_type_of(y->dtype), &p, &s, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ rows */

#define ROWS(op, set, which) ROW(op, set, NULL, 0, which, prepare)
#define ROW(op, set, index, wanted, which, ready)                                                            \
    TD_CUDA_ROWS(rows_##op, "pick.cuda", .types = {{"T", set}, {index, wanted}}, .judged = which,            \
                 .prepare = ready, .run = run_##op);
ROWS(mirror_pad, TD_SET_PLAIN, 0)
ROW(mirror_pad_grad, TD_CUDA_NUMBERS, "Tpaddings", TD_SET_INDEX, 0, prepare_mirror_pad_grad)
ROWS(roll, TD_SET_PLAIN, 0)
ROW(reverse_sequence, TD_SET_PLAIN, "Tlen", TD_SET_INDEX, 2, prepare)
ROWS(space_to_batch, TD_SET_PLAIN, 0)
ROWS(space_to_batch_nd, TD_SET_PLAIN, 0)
ROWS(batch_to_space, TD_SET_PLAIN, 0)
ROWS(batch_to_space_nd, TD_SET_PLAIN, 0)
ROWS(space_to_depth, TD_SET_PLAIN, 0)
ROWS(depth_to_space, TD_SET_PLAIN, 0)
ROW(one_hot, TD_SET_PLAIN, "TI", TD_SET_INDEX | TD_BIT(TD_INT8) | TD_BIT(TD_UINT8), 0, prepare)
ROWS(patches, TD_SET_NUMBERS, 0)
ROWS(patches_grad, TD_CUDA_NUMBERS, 0)

const struct td_op_rows td_cuda_rows_pick[] = {{"MirrorPad", rows_mirror_pad},
                                               {"MirrorPadGrad", rows_mirror_pad_grad},
                                               {"Roll", rows_roll},
                                               {"ReverseSequence", rows_reverse_sequence},
                                               {"SpaceToBatch", rows_space_to_batch},
                                               {"SpaceToBatchND", rows_space_to_batch_nd},
                                               {"BatchToSpace", rows_batch_to_space},
                                               {"BatchToSpaceND", rows_batch_to_space_nd},
                                               {"SpaceToDepth", rows_space_to_depth},
                                               {"DepthToSpace", rows_depth_to_space},
                                               {"OneHot", rows_one_hot},
                                               {"ExtractImagePatches", rows_patches},
                                               {"ExtractVolumePatches", rows_patches},
                                               {"_ExtractImagePatchesGrad", rows_patches_grad},
                                               {"_ExtractVolumePatchesGrad", rows_patches_grad},
                                               {NULL, NULL}};
