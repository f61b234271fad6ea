/* kernels/formula/vectorize_rules.c - ops with one axis more in front.
 *
 * Three ways: the axis is one more batch axis that the op knows already (element-wise ops, products of
 * batches); the numbers that name axes or sizes are moved by one; or the axis is folded into the batch, and
 * unfolded behind the op. What one value is for all rows is never repeated but where an op wants equal
 * shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/formula/vectorize_rules.h"

#include "kernels/formula/formula.h"

/* ------------------------------------------------------------------ what they share */

enum { MOST_INPUTS = 32 };

/* The node's op on these inputs, attributes as they are. */
static struct td_value again(struct td_vectorize *v, const struct td_value *in)
{
    const struct td_node *n = v->node;
    return td_emit_def(v->e, td_node_def(n), in, n->n_in, n->attrs, n->n_attrs);
}

static bool put_all(struct td_vectorize *v, struct td_value first)
{
    for (int i = 0; i < v->node->n_out; i++) {
        td_vectorize_put(v, i, td_f_port(first, i));
    }
    return true;
}

static bool put(struct td_vectorize *v, struct td_value made)
{
    td_vectorize_put(v, 0, made);
    return true;
}

/* [k, shape..]; shape: an int32 vector. */
static struct td_value with_k(struct td_vectorize *v, struct td_value shape)
{
    return td_f_concat(v->e, TD_IN(v->k, td_f_cast(v->e, shape, TD_INT32)), 0);
}

/* The shape of x, which is many, without its first n axes. */
static struct td_value shape_behind(struct td_vectorize *v, struct td_value x, int n)
{
    return td_f_part(v->e, td_f_shape(v->e, x), n, -1);
}

static struct td_value spread(struct td_vectorize *v, struct td_value x)
{
    return td_f_broadcast_to(v->e, x, with_k(v, td_f_shape(v->e, x)));
}

/* [k, n, ..] -> [k * n, ..] */
static struct td_value fold(struct td_vectorize *v, struct td_value x)
{
    return td_f_reshape(v->e, x, td_f_concat(v->e, TD_IN(td_f_ints(v->e, -1), shape_behind(v, x, 2)), 0));
}

/* [k * n, ..] -> [k, n, ..] */
static struct td_value unfold(struct td_vectorize *v, struct td_value x)
{
    const struct td_value rest = td_f_part(v->e, td_f_shape(v->e, x), 1, -1);
    const struct td_value n = td_f_2(v->e, "FloorDiv", td_f_part(v->e, td_f_shape(v->e, x), 0, 1), v->k);
    return td_f_reshape(v->e, x, td_f_concat(v->e, TD_IN(v->k, n, rest), 0));
}

/* Axes of a value without the first one, in the value with it: those counted from the end stay. */
static struct td_value moved_axes(struct td_vectorize *v, struct td_value axes)
{
    const struct td_value zero = td_f_number(v->e, axes, 0), one = td_f_number(v->e, axes, 1);
    return td_f_where(v->e, td_f_2(v->e, "GreaterEqual", axes, zero), td_f_add(v->e, axes, one), axes);
}

/* Only the inputs up to n are many. */
static bool only_first(const struct td_vectorize *v, int n)
{
    for (int i = n; i < v->node->n_in; i++) {
        if (v->many[i]) {
            return false;
        }
    }
    return true;
}

/* The most axes of any input; -1: not known, and it matters. */
static int most_axes(const struct td_vectorize *v)
{
    int most = 0;
    for (int i = 0; i < v->node->n_in; i++) {
        const int rank = td_vectorize_shape(v, i)->rank;
        if (rank < 0) {
            return v->node->n_in == 1 ? 0 : -1;
        }
        most = rank > most ? rank : most;
    }
    return most;
}

/* [k, 1.., shape..]: `deep` axes behind the first. */
static struct td_value deepened(struct td_vectorize *v, struct td_value shape, struct td_value deep)
{
    const struct td_value missing = td_f_sub(v->e, deep, td_f_size(v->e, shape));
    const struct td_value ones = td_f_fill(v->e, td_f_expand(v->e, missing, 0), td_f_int(v->e, 1));
    return td_f_concat(v->e, TD_IN(v->k, ones, shape), 0);
}

/* The most axes of any input, as a scalar. */
static struct td_value deepest(struct td_vectorize *v)
{
    struct td_value most = td_no_value;
    for (int i = 0; i < v->node->n_in; i++) {
        const struct td_value rank = td_f_rank(v->e, v->in[i]);
        const struct td_value own = v->many[i] ? td_f_sub(v->e, rank, td_f_int(v->e, 1)) : rank;
        most = i == 0 ? own : td_f_2(v->e, "Maximum", most, own);
    }
    return most;
}

/* The inputs, those that are many with axes of 1 behind the first: all are as deep, but for it. */
static bool raise_all(struct td_vectorize *v, struct td_value *in)
{
    const int rank = most_axes(v);
    if (v->node->n_in > MOST_INPUTS) {
        return false;
    }
    const struct td_value deep = rank < 0 ? deepest(v) : td_no_value;
    for (int i = 0; i < v->node->n_in; i++) {
        in[i] = v->in[i];
        for (int r = td_vectorize_shape(v, i)->rank; rank >= 0 && v->many[i] && r < rank; r++) {
            in[i] = td_f_expand(v->e, in[i], 1);
        }
        if (rank < 0 && v->many[i]) {
            in[i] = td_f_reshape(v->e, in[i], deepened(v, shape_behind(v, in[i], 1), deep));
        }
    }
    return true;
}

/* ------------------------------------------------------------------ element by element */

bool td_many_broadcast(struct td_vectorize *v)
{
    struct td_value in[MOST_INPUTS];
    return raise_all(v, in) && put_all(v, again(v, in));
}

/* Of an op that wants equal shapes. */
static bool equal_shapes(struct td_vectorize *v)
{
    struct td_value in[MOST_INPUTS];
    const int rank = most_axes(v);
    if (v->node->n_in > MOST_INPUTS) {
        return false;
    }
    for (int i = 0; i < v->node->n_in; i++) {
        const bool as_first = rank >= 0 ? td_vectorize_shape(v, i)->rank == rank
                                        : td_dtype_of(v->in[i]) == td_dtype_of(v->in[0]);
        if (v->node->n_in > 1 && !as_first) {
            return false;
        }
        in[i] = v->many[i] ? v->in[i] : spread(v, v->in[i]);
    }
    return put_all(v, again(v, in));
}

bool td_many_default(struct td_vectorize *v, bool any)
{
    const struct td_op *op = v->node->op;
    if (td_node_def(v->node) == NULL) {
        return false;
    }
    if (!any) {
        memset(v->out_many, 0, (size_t)v->node->n_out);
        return put_all(v, again(v, v->in));
    }
    if (op->vectorize != NULL) {
        return op->vectorize(v);
    }
    if ((op->flags & TD_OP_IDENTITY) && v->node->n_in == 1) {
        return put(v, v->in[0]);
    }
    return (op->flags & TD_OP_ELEMENTWISE) &&
           (op->infer == td_infer_broadcast ? td_many_broadcast(v) : equal_shapes(v));
}

bool td_many_last(struct td_vectorize *v)
{
    return only_first(v, 1) && td_vectorize_shape(v, 0)->rank >= 1 && put_all(v, again(v, v->in));
}

/* ------------------------------------------------------------------ shapes and axes */

bool td_many_shape(struct td_vectorize *v)
{
    v->out_many[0] = false;
    return put(v, td_f_part(v->e, again(v, v->in), 1, -1));
}

bool td_many_axes(struct td_vectorize *v)
{
    return only_first(v, 1) && put(v, again(v, (struct td_value[]){v->in[0], moved_axes(v, v->in[1])}));
}

bool td_many_reshape(struct td_vectorize *v)
{
    return only_first(v, 1) && put(v, td_f_reshape(v->e, v->in[0], with_k(v, v->in[1])));
}

bool td_many_transpose(struct td_vectorize *v)
{
    const struct td_value perm = td_f_cast(v->e, v->in[1], TD_INT32);
    const struct td_value moved = moved_axes(v, perm);
    return only_first(v, 1) &&
           put(v, td_f_transpose(v->e, v->in[0], td_f_concat(v->e, TD_IN(td_f_ints(v->e, 0), moved), 0)));
}

bool td_many_broadcast_to(struct td_vectorize *v)
{
    const struct td_value to = td_f_cast(v->e, v->in[1], TD_INT32);
    const struct td_value own = shape_behind(v, v->in[0], 1);
    const struct td_value x = td_f_reshape(v->e, v->in[0], deepened(v, own, td_f_size(v->e, to)));
    return only_first(v, 1) && put(v, td_f_broadcast_to(v->e, x, with_k(v, to)));
}

bool td_many_sum_to(struct td_vectorize *v)
{
    const struct td_value own = shape_behind(v, v->in[0], 1);
    const struct td_value sum =
        td_f_sum_to_shape(v->e, v->in[0], deepened(v, v->in[1], td_f_size(v->e, own)));
    return only_first(v, 1) && put(v, td_f_reshape(v->e, sum, with_k(v, v->in[1])));
}

/* ------------------------------------------------------------------ products */

/* x [k, m, n] times one y: as one product of k * m rows. */
bool td_many_matmul(struct td_vectorize *v)
{
    const bool ta = td_attr_bool(v->node, "transpose_a"), tb = td_attr_bool(v->node, "transpose_b");
    const bool complex = td_dtype_in(td_dtype_of(v->in[0]), TD_SET_COMPLEX); /* transposed, not conjugated */
    if (complex && (ta || tb)) {
        return false;
    }
    if (v->many[1] || ta) {
        return put(v, td_f_batch_matmul(v->e, v->in[0], v->in[1], ta, tb));
    }
    const struct td_value y = td_f_matmul(v->e, fold(v, v->in[0]), v->in[1], false, tb);
    return put(v, unfold(v, y));
}

bool td_many_batch_matmul(struct td_vectorize *v)
{
    struct td_value in[MOST_INPUTS];
    const bool adj_x = td_attr_bool(v->node, "adj_x"), adj_y = td_attr_bool(v->node, "adj_y");
    return raise_all(v, in) && put(v, td_f_batch_matmul(v->e, in[0], in[1], adj_x, adj_y));
}

bool td_many_bias_add_grad(struct td_vectorize *v)
{
    const bool first = strcmp(td_attr_str(v->node, "data_format"), "NCHW") == 0;
    const struct td_value rank = td_f_rank(v->e, v->in[0]);
    const struct td_value last = td_f_range(v->e, td_f_int(v->e, 1), td_f_sub(v->e, rank, td_f_int(v->e, 1)));
    const struct td_value axes =
        first ? td_f_concat(v->e, TD_IN(td_f_ints(v->e, 1), td_f_range(v->e, td_f_int(v->e, 3), rank)), 0)
              : last;
    return put(v, td_f_sum(v->e, v->in[0], axes, false));
}

/* ------------------------------------------------------------------ images */

/* sizes with k times as many images. */
static struct td_value more_images(struct td_vectorize *v, struct td_value sizes)
{
    const struct td_value first = td_f_mul(v->e, td_f_part(v->e, sizes, 0, 1), v->k);
    return td_f_concat(v->e, TD_IN(first, td_f_part(v->e, sizes, 1, -1)), 0);
}

bool td_many_conv_input(struct td_vectorize *v)
{
    if (v->many[0] || v->many[1]) {
        return false;
    }
    const struct td_value sizes = more_images(v, td_f_cast(v->e, v->in[0], TD_INT32));
    return put(v, unfold(v, again(v, (struct td_value[]){sizes, v->in[1], fold(v, v->in[2])})));
}

bool td_many_conv(struct td_vectorize *v)
{
    return only_first(v, 1) && put(v, unfold(v, again(v, (struct td_value[]){fold(v, v->in[0]), v->in[1]})));
}

/* dy [k, n, h, w, g * c] -> [n, h, w, g * k * c], g the number of groups: each gets its channels of all rows.
 * Of the filter [fh, fw, in, g * k * c] the rows come to the front again. */
bool td_many_conv_filter(struct td_vectorize *v)
{
    struct td_emitter *e = v->e;
    if (v->many[0] || v->many[1] || strcmp(td_attr_str(v->node, "data_format"), "NHWC") != 0) {
        return false;
    }
    const struct td_value x_channels = td_f_part(e, td_f_shape(e, v->in[0]), 3, 1);
    const struct td_value own = td_f_part(e, v->in[1], 0, 3), all = td_f_part(e, v->in[1], 3, 1);
    const struct td_value g = td_f_2(e, "FloorDiv", x_channels, td_f_part(e, v->in[1], 2, 1));
    const struct td_value c = td_f_2(e, "FloorDiv", all, g);
    const struct td_value images = shape_behind(v, v->in[2], 1);
    const struct td_value places = td_f_part(e, images, 0, 3);
    const struct td_value apart =
        td_f_reshape(e, v->in[2], td_f_concat(e, TD_IN(v->k, places, g, c), 0)); /* [k, n, h, w, g, c] */
    const struct td_value by_group = td_f_transpose(e, apart, td_f_ints(e, 1, 2, 3, 4, 0, 5));
    const struct td_value wide =
        td_f_reshape(e, by_group, td_f_concat(e, TD_IN(places, td_f_ints(e, -1)), 0));
    const struct td_value sizes = td_f_concat(e, TD_IN(own, td_f_mul(e, all, v->k)), 0);
    const struct td_value made = again(v, (struct td_value[]){v->in[0], sizes, wide});
    const struct td_value parts = td_f_reshape(e, made, td_f_concat(e, TD_IN(own, g, v->k, c), 0));
    const struct td_value rows = td_f_transpose(e, parts, td_f_ints(e, 4, 0, 1, 2, 3, 5));
    return put(v, td_f_reshape(e, rows, with_k(v, v->in[1])));
}

bool td_many_pool_grad(struct td_vectorize *v)
{
    struct td_value in[3];
    const int n = v->node->n_in;
    for (int i = 0; i < n && i < 3; i++) {
        const bool sizes = n == 2 && i == 0;
        if (sizes && v->many[i]) {
            return false;
        }
        in[i] = sizes ? more_images(v, v->in[i]) : fold(v, v->many[i] ? v->in[i] : spread(v, v->in[i]));
    }
    return n <= 3 && put(v, unfold(v, again(v, in)));
}

/* ------------------------------------------------------------------ parts of a value */

/* updates [k, n.., s..] -> [n.., s.., k]: k is one axis more of what is scattered. */
bool td_many_scatter_nd(struct td_vectorize *v)
{
    if (v->many[0] || v->many[2]) {
        return false;
    }
    struct td_emitter *e = v->e;
    const struct td_value zero = td_f_ints(e, 0);
    const struct td_value rank = td_f_rank(e, v->in[1]);
    const struct td_value to_last = td_f_concat(e, TD_IN(td_f_range(e, td_f_int(e, 1), rank), zero), 0);
    const struct td_value k = td_f_cast(e, v->k, td_dtype_of(v->in[2]));
    const struct td_value shape = td_f_concat(e, TD_IN(v->in[2], k), 0);
    const struct td_value made =
        again(v, (struct td_value[]){v->in[0], td_f_transpose(e, v->in[1], to_last), shape});
    const struct td_value n = td_f_size(e, v->in[2]);
    const struct td_value back =
        td_f_concat(e, TD_IN(td_f_expand(e, n, 0), td_f_range(e, td_f_int(e, 0), n)), 0);
    return put(v, td_f_transpose(e, made, back));
}

/* Pad, PadV2, MirrorPad: no padding in front. */
bool td_many_pad(struct td_vectorize *v)
{
    const int64_t none[] = {0, 0};
    struct td_value in[3] = {v->in[0], td_no_value, v->node->n_in > 2 ? v->in[2] : td_no_value};
    const struct td_value zeros = td_emit_ints(v->e, td_dtype_of(v->in[1]), none, 2);
    in[1] = td_f_concat(v->e, TD_IN(td_f_expand(v->e, zeros, 0), v->in[1]), 0);
    return only_first(v, 1) && put(v, again(v, in));
}

bool td_many_gather(struct td_vectorize *v)
{
    const bool plain = only_first(v, 1) && td_attr_int(v->node, "batch_dims") == 0;
    return plain && put(v, again(v, (struct td_value[]){v->in[0], v->in[1], moved_axes(v, v->in[2])}));
}

/* (dy, indices, shape, axis) */
bool td_many_gather_grad(struct td_vectorize *v)
{
    const struct td_value k = td_f_cast(v->e, v->k, td_dtype_of(v->in[2]));
    const struct td_value shape = td_f_concat(v->e, TD_IN(k, v->in[2]), 0);
    const struct td_value in[] = {v->in[0], v->in[1], shape, moved_axes(v, v->in[3])};
    return only_first(v, 1) && td_attr_int(v->node, "batch_dims") == 0 && put(v, again(v, in));
}

bool td_many_slice(struct td_vectorize *v)
{
    const enum td_dtype dtype = td_dtype_of(v->in[1]);
    const int64_t zero = 0, all = -1;
    const struct td_value begin = td_f_concat(v->e, TD_IN(td_emit_ints(v->e, dtype, &zero, 1), v->in[1]), 0);
    const struct td_value size = td_f_concat(v->e, TD_IN(td_emit_ints(v->e, dtype, &all, 1), v->in[2]), 0);
    return only_first(v, 1) && put(v, again(v, (struct td_value[]){v->in[0], begin, size}));
}

/* (shape, begin, end, strides, dy): all of the first axis, which the masks say. */
bool td_many_strided_slice_grad(struct td_vectorize *v)
{
    static const char *const names[] = {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask",
                                        "shrink_axis_mask"};
    struct td_emitter *e = v->e;
    const enum td_dtype dtype = td_dtype_of(v->in[0]);
    const int64_t zero = 0, one = 1;
    struct td_value in[5] = {td_f_concat(e, TD_IN(td_f_cast(e, v->k, dtype), v->in[0]), 0)};
    struct td_attr attrs[5];
    int64_t masks[5];
    for (int i = 1; i < 4; i++) {
        const struct td_value front = td_emit_ints(e, dtype, i == 3 ? &one : &zero, 1);
        in[i] = td_f_concat(e, TD_IN(front, v->in[i]), 0);
    }
    in[4] = v->in[4];
    for (int i = 0; i < 5; i++) {
        masks[i] = td_attr_int(v->node, names[i]) * 2 + (i < 2);
        attrs[i] = (struct td_attr){.name = names[i], .kind = TD_ATTR_INT, .n = 1, .i = &masks[i]};
    }
    const bool plain = v->many[4] && !v->many[0] && !v->many[1] && !v->many[2] && !v->many[3];
    return plain && put(v, td_emit(e, "StridedSliceGrad", in, 5, attrs, 5));
}
