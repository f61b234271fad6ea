/* kernels/array/array_shape.c - asking for shapes, and the same elements under another shape.
 *
 *   Shape, ShapeN, Rank, Size        x -> its shape, rank, number of elements (host integers)
 *   Reshape, ExpandDims, Squeeze     x -> the same bytes under another shape (views)
 *   Bitcast                          x -> the same bytes as elements of another dtype (copied)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/array/array_batchable.h"
#include "kernels/array/array_move_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ Shape, ShapeN, Rank, Size */

static enum td_code shape_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = td_shape_vector(c->in[i].rank >= 0 ? c->in[i].rank : -1);
    }
    return TD_OK;
}

static enum td_code put_int(const struct td_call *c, struct td_tensor *y, int64_t i, int64_t v,
                            struct td_err *err)
{
    if (y->dtype == TD_INT64) {
        TD_DATA(y, int64_t)[i] = v;
        return TD_OK;
    }
    TD_FAIL_IF(v > INT32_MAX, err, INVALID_ARGUMENT, "%s: output is int32, but element %lld is %lld",
               TD_NODE_STR(c->node), (long long)i, (long long)v);
    TD_DATA(y, int32_t)[i] = (int32_t)v;
    return TD_OK;
}

static enum td_code shape_run(struct td_call *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        const struct td_shape *s = &c->in[i]->shape;
        struct td_tensor *y;
        TD_TRY(td_out(c, i, NULL, &y, err));
        for (int k = 0; k < s->rank; k++) {
            TD_TRY(put_int(c, y, k, s->dim[k], err));
        }
    }
    return TD_OK;
}

static enum td_code rank_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return put_int(c, y, 0, c->in[0]->shape.rank, err);
}

static enum td_code size_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return put_int(c, y, 0, td_tensor_count(c->in[0]), err);
}

/* ------------------------------------------------------------------ Reshape */

/* Sizes as the graph gives them: product of the non-zero ones, where the -1 stands (or -1), whether one is
 * 0. */
struct sizes {
    int64_t product;
    int wild;
    bool zero;
};

static enum td_code read_sizes(const struct td_infer *c, struct td_shape *out, struct sizes *z,
                               struct td_err *err)
{
    const struct td_tensor *sizes = c->value[1];
    const int64_t rank = td_tensor_count(sizes);
    TD_FAIL_IF(rank > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: asks for rank %lld, the largest rank is %d",
               TD_NODE_STR(c->node), (long long)rank, TD_MAX_RANK);
    *z = (struct sizes){.product = 1, .wild = -1};
    *out = td_shape_of_rank((int)rank);
    for (int i = 0; i < rank; i++) {
        const int64_t v = td_tensor_int(sizes, i);
        out->dim[i] = v;
        if (v == -1) {
            TD_FAIL_IF(z->wild >= 0, err, INVALID_ARGUMENT,
                       "%s: Only one input size may be -1, not both %d and %d", TD_NODE_STR(c->node), z->wild,
                       i);
            z->wild = i;
            continue;
        }
        TD_FAIL_IF(v < 0, err, INVALID_ARGUMENT, "%s: Size %d must be non-negative, not %lld",
                   TD_NODE_STR(c->node), i, (long long)v);
        z->zero = z->zero || v == 0;
        TD_FAIL_IF(v > 0 && !td_i64_mul(z->product, v, &z->product), err, INVALID_ARGUMENT,
                   "%s: the requested shape has more elements than fit int64", TD_NODE_STR(c->node));
    }
    return TD_OK;
}

/* The size that -1 stands for. Zero sizes count on neither side, so that [0,3] becomes [3,0] of [-1,0]; it is
 * rounded down then, [0,1] becomes [0,3,0] of [0,3,-1]. */
static enum td_code solve_wild(const struct td_infer *c, const struct sizes *z, struct td_shape *out,
                               struct td_err *err)
{
    int64_t count = 1;
    bool left_out = false;
    for (int i = 0; i < c->in[0].rank; i++) {
        if (c->in[0].dim[i] > 0 || !z->zero) {
            count *= c->in[0].dim[i];
        } else {
            left_out = true;
        }
    }
    TD_FAIL_IF(
        count % z->product != 0 && !left_out, err, INVALID_ARGUMENT,
        "%s: Input to reshape is a tensor with %lld values, but the requested shape requires a multiple of "
        "%lld",
        TD_NODE_STR(c->node), (long long)count, (long long)z->product);
    out->dim[z->wild] = count / z->product;
    return TD_OK;
}

static enum td_code reshape_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[1].rank > 1, err, INVALID_ARGUMENT, "%s: sizes input must be 1-D, not %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]));
    if (c->value[1] == NULL) {
        const int64_t n = td_shape_count(&c->in[1]);
        if (n >= 0 && n <= TD_MAX_RANK) {
            c->out[0] = td_shape_of_rank((int)n);
        }
        return TD_OK;
    }
    struct sizes z;
    TD_TRY(read_sizes(c, &c->out[0], &z, err));
    const int64_t count = td_shape_known(&c->in[0]) ? td_shape_count(&c->in[0]) : -1;
    if (count < 0) {
        return TD_OK;
    }
    if (z.wild >= 0) {
        TD_TRY(solve_wild(c, &z, &c->out[0], err));
    }
    const int64_t asked = z.zero ? 0 : z.wild >= 0 ? count : z.product;
    TD_FAIL_IF(asked != count, err, INVALID_ARGUMENT,
               "%s: Input to reshape is a tensor with %lld values, but the requested shape has %lld",
               TD_NODE_STR(c->node), (long long)count, (long long)asked);
    return TD_OK;
}

static enum td_code view_run(struct td_call *c, struct td_err *err)
{
    return td_out_view(c, 0, 0, NULL, err);
}

/* Reshape of quantized values: the range passes through. */
static enum td_code quantized_reshape_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 2, 0, err));
    TD_TRY(td_infer_rank(c, 3, 0, err));
    c->out[1] = c->out[2] = td_shape_scalar();
    return reshape_infer(c, err);
}

static enum td_code quantized_reshape_run(struct td_call *c, struct td_err *err)
{
    TD_TRY(td_out_view(c, 0, 0, NULL, err));
    for (int i = 1; i <= 2; i++) {
        struct td_tensor *range;
        TD_TRY(td_out(c, i, NULL, &range, err));
        *TD_DATA(range, float) = *TD_DATA(c->in[i + 1], const float);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ ExpandDims, Squeeze */

static enum td_code expand_dims_infer(struct td_infer *c, struct td_err *err)
{
    const int64_t n = td_shape_count(&c->in[1]);
    TD_FAIL_IF(n >= 0 && n != 1, err, INVALID_ARGUMENT, "%s: 'dim' must be a tensor with a single value",
               TD_NODE_STR(c->node));
    const int rank = c->in[0].rank;
    if (rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(rank + 1 > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: result rank %d, the largest rank is %d",
               TD_NODE_STR(c->node), rank + 1, TD_MAX_RANK);
    c->out[0] = td_shape_of_rank(rank + 1);
    if (c->value[1] == NULL) {
        return TD_OK;
    }
    int at;
    TD_FAIL_IF(!td_shape_axis(rank + 1, td_tensor_int(c->value[1], 0), &at), err, INVALID_ARGUMENT,
               "%s: Tried to expand dim index %lld for tensor with %d dimensions.", TD_NODE_STR(c->node),
               (long long)td_tensor_int(c->value[1], 0), rank);
    for (int i = 0; i <= rank; i++) {
        c->out[0].dim[i] = i == at ? 1 : c->in[0].dim[i < at ? i : i - 1];
    }
    return TD_OK;
}

/* Bit i of *drop: axis i goes. */
static enum td_code squeeze_axes(const struct td_infer *c, uint32_t *drop, struct td_err *err)
{
    int n;
    const int64_t *axes = td_attr_ints(c->node, "squeeze_dims", &n);
    *drop = 0;
    for (int i = 0; i < n; i++) {
        int axis;
        TD_FAIL_IF(!td_shape_axis(c->in[0].rank, axes[i], &axis), err, INVALID_ARGUMENT,
                   "%s: Tried to squeeze dim index %lld for tensor with %d dimensions.", TD_NODE_STR(c->node),
                   (long long)axes[i], c->in[0].rank);
        const int64_t dim = c->in[0].dim[axis];
        TD_FAIL_IF(dim >= 0 && dim != 1, err, INVALID_ARGUMENT,
                   "%s: Can not squeeze dim[%d], expected a dimension of 1, got %lld", TD_NODE_STR(c->node),
                   axis, (long long)dim);
        *drop |= 1u << axis;
    }
    for (int i = 0; n == 0 && i < c->in[0].rank; i++) {
        *drop |= c->in[0].dim[i] == 1 ? 1u << i : 0;
    }
    return TD_OK;
}

static enum td_code squeeze_infer(struct td_infer *c, struct td_err *err)
{
    if (c->in[0].rank < 0) {
        return TD_OK;
    }
    uint32_t drop;
    TD_TRY(squeeze_axes(c, &drop, err));
    if (td_attr_len(c->node, "squeeze_dims") == 0 && !td_shape_known(&c->in[0])) {
        return TD_OK; /* an unknown dim may be one */
    }
    struct td_shape s = {.rank = 0};
    for (int i = 0; i < c->in[0].rank; i++) {
        if (!((drop >> i) & 1u)) {
            s.dim[s.rank++] = c->in[0].dim[i];
        }
    }
    c->out[0] = s;
    return TD_OK;
}

/* ------------------------------------------------------------------ Bitcast */

static enum td_code bitcast_infer(struct td_infer *c, struct td_err *err)
{
    const enum td_dtype from = td_attr_type(c->node, "T"), to = td_attr_type(c->node, "type");
    const int64_t in = (int64_t)td_dtype_size(from), out = (int64_t)td_dtype_size(to);
    if (c->in[0].rank < 0) {
        return TD_OK;
    }
    struct td_shape s = c->in[0];
    if (in > out) {
        TD_FAIL_IF(s.rank >= TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: result rank %d, the largest rank is %d",
                   TD_NODE_STR(c->node), s.rank + 1, TD_MAX_RANK);
        s.dim[s.rank++] = in / out;
    } else if (in < out) {
        const int64_t last = s.rank > 0 ? s.dim[s.rank - 1] : 1;
        TD_FAIL_IF(s.rank == 0 || (last >= 0 && last != out / in), err, INVALID_ARGUMENT,
                   "%s: Cannot bitcast from %s to %s: shape %s must end with %lld", TD_NODE_STR(c->node),
                   td_dtype_name(from), td_dtype_name(to), TD_SHAPE_STR(&s), (long long)(out / in));
        s.rank--;
    }
    c->out[0] = s;
    return TD_OK;
}

static enum td_code bitcast_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_bytes(y) > 0) {
        memcpy(y->data, c->in[0]->data, td_tensor_bytes(y));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ axes in another order */

/* The shape of x from that of Transpose(x, p). */
static struct td_value restate_shape(struct td_emitter *e, const struct td_node *n, struct td_value permuted,
                                     const struct td_perm *p)
{
    const struct td_perm back = td_perm_inverse(p);
    int64_t order[TD_MAX_RANK];
    for (int i = 0; i < p->rank; i++) {
        order[i] = back.at[i];
    }
    const struct td_value shape =
        td_emit(e, "Shape", TD_IN(permuted), TD_ATTRS(TD_ATTR_OF_TYPE("out_type", n->out_type[0])));
    return td_emit(e, "GatherV2",
                   TD_IN(shape, td_emit_ints(e, TD_INT32, order, p->rank), td_emit_int(e, TD_INT32, 0)),
                   TD_NO_ATTRS);
}

/* Size and Rank do not care. */
static struct td_permuted find_count(const struct td_emitter *e, const struct td_node *n,
                                     const struct td_perm *p)
{
    return td_rank_of(e, n->in[0]) == p->rank ? (struct td_permuted){1, 0} : td_permute_none;
}

/* Bits of the axes that Squeeze n takes away; none when it does not name them all. */
static uint32_t squeezed(const struct td_node *n, int rank)
{
    int count;
    const int64_t *dims = td_attr_ints(n, "squeeze_dims", &count);
    uint32_t gone = 0;
    for (int i = 0; i < count; i++) {
        int axis;
        if (!td_shape_axis(rank, dims[i], &axis)) {
            return 0;
        }
        gone |= 1u << axis;
    }
    return gone;
}

static struct td_permuted find_squeeze(const struct td_emitter *e, const struct td_node *n,
                                       const struct td_perm *p)
{
    const uint32_t gone = td_rank_of(e, n->in[0]) == p->rank ? squeezed(n, p->rank) : 0;
    return gone != 0 && td_perm_keeps_order(p, gone) ? (struct td_permuted){1, 0} : td_permute_none;
}

static void apply_squeeze(struct td_emitter *e, struct td_node *n, const struct td_perm *p)
{
    const uint32_t gone = squeezed(n, p->rank);
    int64_t dims[TD_MAX_RANK];
    int count = 0;
    for (int i = 0; i < p->rank; i++) {
        if (gone >> p->at[i] & 1u) {
            dims[count++] = i;
        }
    }
    td_emit_attr(e, n, &(struct td_attr)TD_ATTR_OF_INTS("squeeze_dims", dims, count));
}

static const struct td_permute_rule permute_shape = {.restate = restate_shape};
static const struct td_permute_rule permute_count = {.find = find_count};
static const struct td_permute_rule permute_squeeze = {.find = find_squeeze, .apply = apply_squeeze};

/* ------------------------------------------------------------------ table */

#define OUT_INDEX                                                                                            \
    {                                                                                                        \
        "out_type", TD_SET_INDEX                                                                             \
    }

const struct td_op td_ops_array_shape[] = {
    {.name = "Shape",
     .sig = "(input:T) -> (output:out_type) {T:type; out_type:type=int32}",
     .vectorize = td_many_shape,
     .flags = TD_OP_SHAPE_ONLY,
     .batchable = TD_BATCHABLE(td_batchable_shape, .any_input = true),
     .host_out = 1,
     .permute = &permute_shape,
     .infer = shape_infer,
     .kernels = TD_KERNEL("shape.cpu", shape_run, OUT_INDEX),
     .grad = td_not_differentiable},
    {.name = "ShapeN",
     .sig = "(input:N*T) -> (output:N*out_type) {N:int; T:type; out_type:type=int32}",
     .flags = TD_OP_SHAPE_ONLY,
     .batchable = TD_BATCHABLE(td_batchable_shape, .any_input = true),
     .host_out = 1,
     .infer = shape_infer,
     .kernels = TD_KERNEL("shape_n.cpu", shape_run, OUT_INDEX),
     .grad = td_not_differentiable},
    {.name = "Rank",
     .sig = "(input:T) -> (output:int32) {T:type}",
     .flags = TD_OP_SHAPE_ONLY,
     .batchable = TD_BATCHABLE(td_batchable_rank_of, .any_input = true),
     .host_out = 1,
     .permute = &permute_count,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("rank.cpu", rank_run, {NULL, 0}),
     .grad = td_not_differentiable},
    {.name = "Size",
     .sig = "(input:T) -> (output:out_type) {T:type; out_type:type=int32}",
     .flags = TD_OP_SHAPE_ONLY,
     .batchable = TD_BATCHABLE(td_batchable_size_of, .any_input = true),
     .host_out = 1,
     .permute = &permute_count,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("size.cpu", size_run, OUT_INDEX),
     .grad = td_not_differentiable},
    {.name = "Reshape",
     .sig = "(tensor:T, shape:Tshape) -> (output:T) {T:type; Tshape:type=int32}",
     .vectorize = td_many_reshape,
     .flags = TD_OP_VIEW,
     .fuse = {.view = true},
     .batchable = TD_BATCHABLE_MOVES(td_batchable_reshape, 0, 1),
     .host_in = 2,
     .infer = reshape_infer,
     .kernels = TD_KERNEL("reshape.cpu", view_run, {"Tshape", TD_SET_INDEX}),
     .grad = td_reshape_grad},
    {.name = "QuantizedReshape",
     .sig = "(tensor:T, shape:Tshape, input_min:float, input_max:float) -> (output:T, output_min:float, "
            "output_max:float) {T:type; Tshape:type=int32}",
     .flags = TD_OP_VIEW,
     .host_in = 2,
     .infer = quantized_reshape_infer,
     .kernels = TD_KERNEL("quantized_reshape.cpu", quantized_reshape_run,
                          {"T", TD_BIT(TD_QINT32) | TD_BIT(TD_QUINT8)}, {"Tshape", TD_SET_INDEX})},
    {.name = "ExpandDims",
     .sig = "(input:T, dim:Tdim) -> (output:T) {T:type; Tdim:type=int32}",
     .vectorize = td_many_axes,
     .flags = TD_OP_VIEW,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_expand_dims, 0, 1),
     .host_in = 2,
     .infer = expand_dims_infer,
     .kernels = TD_KERNEL("expand_dims.cpu", view_run, {"Tdim", TD_SET_INDEX}),
     .grad = td_reshape_grad},
    {.name = "Squeeze",
     .sig = "(input:T) -> (output:T) {T:type; squeeze_dims:list(int)=[]}",
     .flags = TD_OP_VIEW,
     .permute = &permute_squeeze,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_squeeze, 0, 0),
     .infer = squeeze_infer,
     .kernels = TD_KERNEL("squeeze.cpu", view_run, {NULL, 0}),
     .grad = td_reshape_grad},
    {.name = "Bitcast",
     .sig = "(input:T) -> (output:type) {T:type; type:type}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = bitcast_infer,
     .kernels = TD_KERNEL("bitcast.cpu", bitcast_run, {"T", TD_SET_PLAIN & ~TD_BIT(TD_BOOL)},
                          {"type", TD_SET_PLAIN & ~TD_BIT(TD_BOOL)})},
    {.name = NULL},
};
