/* kernels/array/array_block.c - blocks of space moved into the batch or depth axis and back.
 *
 *   SpaceToBatchND   big [N, S.., R..]  ->  small [prod(B) N, (S+pads)/B.., R..]; BatchToSpaceND: back
 *   SpaceToDepth     [N, H, W, C]       ->  [N, H/b, W/b, b b C]                     DepthToSpace     back
 *
 * For one offset inside a block, big and small are strided views of each other: big position s = o * B +
 * offset - pad. So both directions are a loop over prod(B) offsets with one strided copy each.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/array/array_move_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"
#include "kernels/cpu/window.h"

static void *element(const struct td_tensor *t, int64_t i)
{
    return t->data == NULL ? NULL : (char *)t->data + i * (int64_t)td_dtype_size(t->dtype);
}

/* ------------------------------------------------------------------ space and batch */

/* n block axes (axes 1..n of the tensors), their sizes, and what is padded to (cropped from) big's axes. */
struct blocks {
    int n;
    int64_t size[TD_MAX_RANK], before[TD_MAX_RANK], after[TD_MAX_RANK];
    int64_t total;
};

static enum td_code add_block(const struct td_node *node, struct blocks *b, int64_t size,
                              const struct td_tensor *pads, struct td_err *err)
{
    const int i = b->n++;
    b->size[i] = size;
    b->before[i] = td_tensor_int(pads, 2 * i);
    b->after[i] = td_tensor_int(pads, 2 * i + 1);
    TD_FAIL_IF(size < 1, err, INVALID_ARGUMENT,
               "%s: All values in block_shape must be positive, got value %lld at index %d",
               TD_NODE_STR(node), (long long)size, i);
    TD_FAIL_IF(b->before[i] < 0 || b->after[i] < 0, err, INVALID_ARGUMENT,
               "%s: paddings (crops) must be non-negative, got [%lld, %lld] at index %d", TD_NODE_STR(node),
               (long long)b->before[i], (long long)b->after[i], i);
    TD_FAIL_IF(!td_i64_mul(b->total, size, &b->total), err, INVALID_ARGUMENT,
               "%s: the product of block_shape does not fit int64", TD_NODE_STR(node));
    return TD_OK;
}

/* Reads block_shape (NULL: attribute block_size on two axes) and the pads. */
static enum td_code read_blocks(const struct td_node *node, const struct td_tensor *shape,
                                const struct td_tensor *pads, struct blocks *b, struct td_err *err)
{
    *b = (struct blocks){.total = 1};
    const int64_t n = shape != NULL ? td_tensor_count(shape) : 2;
    for (int64_t i = 0; i < n; i++) {
        const int64_t size = shape != NULL ? td_tensor_int(shape, i) : td_attr_int(node, "block_size");
        TD_FAIL_IF(shape == NULL && size < 2, err, INVALID_ARGUMENT, "%s: Block size should be > 1: %lld",
                   TD_NODE_STR(node), (long long)size);
        TD_TRY(add_block(node, b, size, pads, err));
    }
    return TD_OK;
}

/* Ranks of block_shape (input `shape`, or -1 for an attribute) and pads; *known when their values are. */
static enum td_code check_blocks(struct td_infer *c, int shape, int pads, bool *known, struct td_err *err)
{
    int64_t n = 2;
    if (shape >= 0) {
        TD_FAIL_IF(c->in[shape].rank >= 0 && c->in[shape].rank != 1, err, INVALID_ARGUMENT,
                   "%s: block_shape rank should be 1 instead of %d", TD_NODE_STR(c->node), c->in[shape].rank);
        n = c->in[shape].rank == 1 ? c->in[shape].dim[0] : -1;
    }
    const struct td_shape *p = &c->in[pads];
    TD_FAIL_IF(p->rank >= 0 && (p->rank != 2 || (n >= 0 && p->dim[0] >= 0 && p->dim[0] != n) ||
                                (p->dim[1] >= 0 && p->dim[1] != 2)),
               err, INVALID_ARGUMENT, "%s: paddings (crops) should have shape [%lld, 2] instead of %s",
               TD_NODE_STR(c->node), (long long)n, TD_SHAPE_STR(p));
    TD_FAIL_IF(n >= 0 && c->in[0].rank >= 0 && c->in[0].rank < n + 1, err, INVALID_ARGUMENT,
               "%s: input rank should be >= %lld instead of %d", TD_NODE_STR(c->node), (long long)n + 1,
               c->in[0].rank);
    TD_FAIL_IF(shape < 0 && c->in[0].rank >= 0 && c->in[0].rank != 4, err, INVALID_ARGUMENT,
               "%s: input rank should be 4 instead of %d", TD_NODE_STR(c->node), c->in[0].rank);
    *known = c->in[0].rank >= 0 && c->value[pads] != NULL && (shape < 0 || c->value[shape] != NULL);
    c->out[0] = c->in[0].rank >= 0 ? td_shape_of_rank(c->in[0].rank) : td_shape_unknown();
    return TD_OK;
}

static enum td_code space_to_batch_shape(const struct td_infer *c, const struct blocks *b,
                                         struct td_shape *out, struct td_err *err)
{
    *out = c->in[0];
    TD_FAIL_IF(out->dim[0] >= 0 && !td_i64_mul(out->dim[0], b->total, &out->dim[0]), err, INVALID_ARGUMENT,
               "%s: the batch times the blocks does not fit int64", TD_NODE_STR(c->node));
    for (int i = 0; i < b->n; i++) {
        int64_t *dim = &out->dim[i + 1];
        if (*dim < 0) {
            continue;
        }
        TD_FAIL_IF(!td_i64_add(*dim, b->before[i], dim) || !td_i64_add(*dim, b->after[i], dim) ||
                       *dim % b->size[i] != 0,
                   err, INVALID_ARGUMENT,
                   "%s: padded_shape[%d]=%lld is not divisible by block_shape[%d]=%lld", TD_NODE_STR(c->node),
                   i, (long long)*dim, i, (long long)b->size[i]);
        *dim /= b->size[i];
    }
    return TD_OK;
}

static enum td_code batch_to_space_shape(const struct td_infer *c, const struct blocks *b,
                                         struct td_shape *out, struct td_err *err)
{
    *out = c->in[0];
    TD_FAIL_IF(out->dim[0] >= 0 && out->dim[0] % b->total != 0, err, INVALID_ARGUMENT,
               "%s: Input batch dimension (%lld) is not divisible by product of block sizes (%lld)",
               TD_NODE_STR(c->node), (long long)out->dim[0], (long long)b->total);
    out->dim[0] = out->dim[0] < 0 ? -1 : out->dim[0] / b->total;
    for (int i = 0; i < b->n; i++) {
        int64_t *dim = &out->dim[i + 1];
        if (*dim < 0) {
            continue;
        }
        TD_FAIL_IF(
            !td_i64_mul(*dim, b->size[i], dim) || b->before[i] > *dim || b->after[i] > *dim - b->before[i],
            err, INVALID_ARGUMENT, "%s: cropped size of dimension %d is negative: crops [%lld, %lld] of %lld",
            TD_NODE_STR(c->node), i + 1, (long long)b->before[i], (long long)b->after[i], (long long)*dim);
        *dim -= b->before[i] + b->after[i];
    }
    return TD_OK;
}

static enum td_code space_batch_infer(struct td_infer *c, int shape, int pads, bool to_batch,
                                      struct td_err *err)
{
    bool known = false;
    struct blocks b;
    TD_TRY(check_blocks(c, shape, pads, &known, err));
    if (!known) {
        return TD_OK;
    }
    TD_TRY(read_blocks(c->node, shape < 0 ? NULL : c->value[shape], c->value[pads], &b, err));
    return to_batch ? space_to_batch_shape(c, &b, &c->out[0], err)
                    : batch_to_space_shape(c, &b, &c->out[0], err);
}

/* Copies the elements at one offset (index[] inside the block, `number` of it in row-major order). */
static void copy_offset(const struct blocks *b, const int64_t *index, int64_t number,
                        const struct td_tensor *big, const struct td_tensor *small, bool to_small)
{
    int64_t bs[TD_MAX_RANK], ss[TD_MAX_RANK];
    td_strided_row_major(&big->shape, bs);
    td_strided_row_major(&small->shape, ss);
    const int rank = big->shape.rank;
    const int64_t batch = big->shape.dim[0];
    int64_t at_big = 0, at_small = number * batch * ss[0];
    struct td_strided w = {.rank = 0};
    td_strided_push(&w, batch, to_small ? ss[0] : bs[0], to_small ? bs[0] : ss[0]);
    for (int i = 0; i < b->n; i++) {
        const int a = i + 1;
        int64_t from, to;
        const struct td_window along = {.in = big->shape.dim[a],
                                        .stride = b->size[i],
                                        .dilation = 1,
                                        .out = small->shape.dim[a],
                                        .before = b->before[i]};
        td_window_having(&along, index[i], &from, &to);
        const int64_t step = bs[a] * b->size[i];
        td_strided_push(&w, to - from, to_small ? ss[a] : step, to_small ? step : ss[a]);
        if (to > from) {
            at_small += from * ss[a];
            at_big += (from * b->size[i] + index[i] - b->before[i]) * bs[a];
        }
    }
    for (int a = b->n + 1; a < rank; a++) {
        td_strided_push(&w, big->shape.dim[a], to_small ? ss[a] : bs[a], to_small ? bs[a] : ss[a]);
    }
    const struct td_tensor *dst = to_small ? small : big, *src = to_small ? big : small;
    td_strided_copy(big->dtype, &w, element(dst, to_small ? at_small : at_big),
                    element(src, to_small ? at_big : at_small));
}

static enum td_code space_batch_run(struct td_call *c, int shape, int pads, bool to_batch, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    struct blocks b;
    TD_TRY(read_blocks(c->node, shape < 0 ? NULL : c->in[shape], c->in[pads], &b, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    if (to_batch) {
        td_strided_zero(y->dtype, y->data, td_tensor_count(y)); /* the padding */
    }
    if (td_tensor_count(x) == 0) {
        return TD_OK;
    }
    int64_t index[TD_MAX_RANK] = {0};
    for (int64_t number = 0; number < b.total; number++) {
        copy_offset(&b, index, number, to_batch ? x : y, to_batch ? y : x, to_batch);
        for (int i = b.n - 1; i >= 0 && ++index[i] == b.size[i]; i--) {
            index[i] = 0;
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

#define SPACE_BATCH(name, shape, pads, to_batch)                                                             \
    static enum td_code name##_infer(struct td_infer *c, struct td_err *err)                                 \
    {                                                                                                        \
        return space_batch_infer(c, shape, pads, to_batch, err);                                             \
    }                                                                                                        \
    static enum td_code name##_run(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        return space_batch_run(c, shape, pads, to_batch, err);                                               \
    }
SPACE_BATCH(space_to_batch, -1, 1, true)
SPACE_BATCH(space_to_batch_nd, 1, 2, true)
SPACE_BATCH(batch_to_space, -1, 1, false)
SPACE_BATCH(batch_to_space_nd, 1, 2, false)

/* ------------------------------------------------------------------ space and depth */

/* Axes of height, width and depth under data_format, and the block. */
struct depth_block {
    int h, w, d;
    int64_t size;
};

static enum td_code read_depth_block(const struct td_infer *c, struct depth_block *b, struct td_err *err)
{
    const char *format = td_attr_str(c->node, "data_format");
    TD_TRY(td_infer_rank(c, 0, 4, err));
    TD_FAIL_IF(strcmp(format, "NCHW_VECT_C") == 0, err, INVALID_ARGUMENT, "%s: Only NHWC and NCHW, got %s",
               TD_NODE_STR(c->node), format);
    b->size = td_attr_int(c->node, "block_size");
    TD_FAIL_IF(b->size < 2 || b->size > INT32_MAX, err, INVALID_ARGUMENT,
               "%s: Block size should be > 1: %lld", TD_NODE_STR(c->node), (long long)b->size);
    const bool nchw = strcmp(format, "NCHW") == 0;
    *b = (struct depth_block){.h = nchw ? 2 : 1, .w = nchw ? 3 : 2, .d = nchw ? 1 : 3, .size = b->size};
    return TD_OK;
}

static enum td_code depth_to_space_infer(struct td_infer *c, struct td_err *err)
{
    struct depth_block b;
    TD_TRY(read_depth_block(c, &b, err));
    if (c->in[0].rank < 0) {
        return TD_OK;
    }
    struct td_shape s = c->in[0];
    const int64_t area = b.size * b.size;
    TD_FAIL_IF(s.dim[b.d] >= 0 && s.dim[b.d] % area != 0, err, INVALID_ARGUMENT,
               "%s: Input depth dimension %lld should be divisible by: %lld", TD_NODE_STR(c->node),
               (long long)s.dim[b.d], (long long)area);
    s.dim[b.d] = s.dim[b.d] < 0 ? -1 : s.dim[b.d] / area;
    const bool fits = (s.dim[b.h] < 0 || td_i64_mul(s.dim[b.h], b.size, &s.dim[b.h])) &&
                      (s.dim[b.w] < 0 || td_i64_mul(s.dim[b.w], b.size, &s.dim[b.w]));
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "%s: the image's size does not fit int64", TD_NODE_STR(c->node));
    c->out[0] = s;
    return TD_OK;
}

static enum td_code space_to_depth_infer(struct td_infer *c, struct td_err *err)
{
    struct depth_block b;
    TD_TRY(read_depth_block(c, &b, err));
    if (c->in[0].rank < 0) {
        return TD_OK;
    }
    struct td_shape s = c->in[0];
    const int64_t h = s.dim[b.h], w = s.dim[b.w], area = b.size * b.size;
    TD_FAIL_IF((h >= 0 && h % b.size != 0) || (w >= 0 && w % b.size != 0), err, INVALID_ARGUMENT,
               "%s: Image width %lld and height %lld should be divisible by block_size: %lld",
               TD_NODE_STR(c->node), (long long)w, (long long)h, (long long)b.size);
    s.dim[b.h] = h < 0 ? -1 : h / b.size;
    s.dim[b.w] = w < 0 ? -1 : w / b.size;
    TD_FAIL_IF(s.dim[b.d] >= 0 && !td_i64_mul(s.dim[b.d], area, &s.dim[b.d]), err, INVALID_ARGUMENT,
               "%s: the depth does not fit int64", TD_NODE_STR(c->node));
    c->out[0] = s;
    return TD_OK;
}

static enum td_code space_depth_run(struct td_call *c, bool to_depth, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *space = to_depth ? c->in[0] : y, *deep = to_depth ? y : c->in[0];
    const bool nchw = strcmp(td_attr_str(c->node, "data_format"), "NCHW") == 0;
    const int h = nchw ? 2 : 1, w = nchw ? 3 : 2, d = nchw ? 1 : 3;
    const int64_t size = td_attr_int(c->node, "block_size"), depth = space->shape.dim[d];
    int64_t p[TD_MAX_RANK], q[TD_MAX_RANK];
    td_strided_row_major(&space->shape, p);
    td_strided_row_major(&deep->shape, q);
    /* loops: image, row, row inside the block, column, column inside the block, channel */
    const int64_t dim[] = {deep->shape.dim[0], deep->shape.dim[h], size, deep->shape.dim[w], size, depth};
    const int64_t at_space[] = {p[0], p[h] * size, p[h], p[w] * size, p[w], p[d]};
    const int64_t at_deep[] = {q[0], q[h], q[d] * size * depth, q[w], q[d] * depth, q[d]};
    struct td_strided walk = {.rank = 0};
    for (int i = 0; i < 6; i++) {
        td_strided_push(&walk, dim[i], to_depth ? at_deep[i] : at_space[i],
                        to_depth ? at_space[i] : at_deep[i]);
    }
    td_strided_copy(y->dtype, &walk, y->data, c->in[0]->data);
    return TD_OK;
}

static enum td_code space_to_depth_run(struct td_call *c, struct td_err *err)
{
    return space_depth_run(c, true, err);
}

static enum td_code depth_to_space_run(struct td_call *c, struct td_err *err)
{
    return space_depth_run(c, false, err);
}

#define BLOCK_TYPES                                                                                          \
    {                                                                                                        \
        "T", TD_SET_ALL_TYPES                                                                                \
    }
#define FORMATS "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C']"

/* ------------------------------------------------------------------ batches */

/* SpaceToBatch makes image b its blocks [block * images + b]; BatchToSpace goes back. */
static bool space_batch_rows(struct td_batchable_step *s)
{
    if (!td_batchable_alone(s, 0) || s->in[0].axis != 0) {
        return td_batchable_no(s, "the rows are not its axis 0");
    }
    const struct td_shape *x = &s->in_shape[0][0], *y = td_batchable_out_shape(s, 0, 0);
    if (y->rank < 1 || x->dim[0] <= 0 || y->dim[0] <= 0) {
        return td_batchable_no(s, "the shape of its output is not known before it runs");
    }
    int64_t more = y->dim[0] / x->dim[0], fewer = x->dim[0] / y->dim[0];
    if (more >= 1) {
        return td_batchable_put(s, 0, 0, s->in[0].pre * more, td_batchable_per_row(s, 0, 0) * more);
    }
    return s->in[0].pre % fewer == 0
               ? td_batchable_put(s, 0, 0, s->in[0].pre / fewer, td_batchable_per_row(s, 0, 0) / fewer)
               : td_batchable_no(s, "it makes one image of several rows");
}

/* DepthToSpace and its inverse read their blocks row by row: height stays before width. */
static struct td_permuted find_blocks(const struct td_emitter *e, const struct td_node *n,
                                      const struct td_perm *p)
{
    const char *format = td_attr_str(n, "data_format");
    const bool ok = p->rank == 4 && p->at[0] == 0 && strlen(format) == 4 &&
                    td_perm_keeps_order(p, 1u << td_permute_channel_axis(format, 4));
    return ok ? td_permute_find_channels(e, n, p) : td_permute_none;
}

static const struct td_permute_rule permute_blocks = {.find = find_blocks,
                                                      .apply = td_permute_apply_channels};

const struct td_op td_ops_array_block[] = {
    {.name = "SpaceToBatch",
     .sig = "(input:T, paddings:Tpaddings) -> (output:T) {T:type; Tpaddings:type=int32; block_size:int}",
     .batchable = TD_BATCHABLE(space_batch_rows),
     .host_in = 2,
     .infer = space_to_batch_infer,
     .kernels = TD_KERNEL("space_to_batch.cpu", space_to_batch_run, BLOCK_TYPES, {"Tpaddings", TD_SET_INDEX}),
     .grad = td_space_to_batch_grad},
    {.name = "SpaceToBatchND",
     .sig = "(input:T, block_shape:Tblock_shape, paddings:Tpaddings) -> (output:T) {T:type; "
            "Tblock_shape:type=int32; Tpaddings:type=int32}",
     .batchable = TD_BATCHABLE(space_batch_rows),
     .host_in = 6,
     .infer = space_to_batch_nd_infer,
     .kernels = TD_KERNEL("space_to_batch.cpu", space_to_batch_nd_run, BLOCK_TYPES,
                          {"Tblock_shape", TD_SET_INDEX}, {"Tpaddings", TD_SET_INDEX}),
     .grad = td_space_to_batch_nd_grad},
    {.name = "BatchToSpace",
     .sig = "(input:T, crops:Tidx) -> (output:T) {T:type; block_size:int; Tidx:type=int32}",
     .batchable = TD_BATCHABLE(space_batch_rows),
     .host_in = 2,
     .infer = batch_to_space_infer,
     .kernels = TD_KERNEL("batch_to_space.cpu", batch_to_space_run, BLOCK_TYPES, {"Tidx", TD_SET_INDEX}),
     .grad = td_batch_to_space_grad},
    {.name = "BatchToSpaceND",
     .sig =
         "(input:T, block_shape:Tblock_shape, crops:Tcrops) -> (output:T) {T:type; Tblock_shape:type=int32; "
         "Tcrops:type=int32}",
     .batchable = TD_BATCHABLE(space_batch_rows),
     .host_in = 6,
     .infer = batch_to_space_nd_infer,
     .kernels = TD_KERNEL("batch_to_space.cpu", batch_to_space_nd_run, BLOCK_TYPES,
                          {"Tblock_shape", TD_SET_INDEX}, {"Tcrops", TD_SET_INDEX}),
     .grad = td_batch_to_space_nd_grad},
    {.name = "SpaceToDepth",
     .sig = "(input:T) -> (output:T) {T:type; block_size:int; " FORMATS "}",
     .flags = TD_OP_HEAVY,
     .permute = &permute_blocks,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = space_to_depth_infer,
     .kernels =
         TD_KERNEL("space_to_depth.cpu", space_to_depth_run, {"T", TD_SET_ALL_TYPES | TD_BIT(TD_QINT8)}),
     .grad = td_space_to_depth_grad},
    {.name = "DepthToSpace",
     .sig = "(input:T) -> (output:T) {T:type; block_size:int; " FORMATS "}",
     .flags = TD_OP_HEAVY,
     .permute = &permute_blocks,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = depth_to_space_infer,
     .kernels = TD_KERNEL("depth_to_space.cpu", depth_to_space_run, BLOCK_TYPES),
     .grad = td_depth_to_space_grad},
    {.name = NULL},
};
