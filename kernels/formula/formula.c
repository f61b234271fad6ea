/* kernels/formula/formula.c - each formula is one node, or the few that it takes.
 *
 * Constants are shared by the emitter; what is asked for twice (a shape) is made twice, and merged by the
 * compiler. Identities that gradients are full of (the conjugate of a real value, a cast to the same dtype)
 * add nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/formula/formula.h"

#include <string.h>

struct td_value td_f_1(struct td_emitter *e, const char *op, struct td_value x)
{
    return td_emit(e, op, TD_IN(x), TD_NO_ATTRS);
}

struct td_value td_f_2(struct td_emitter *e, const char *op, struct td_value x, struct td_value y)
{
    return td_emit(e, op, TD_IN(x, y), TD_NO_ATTRS);
}

struct td_value td_f_3(struct td_emitter *e, const char *op, struct td_value x, struct td_value y,
                       struct td_value z)
{
    return td_emit(e, op, TD_IN(x, y, z), TD_NO_ATTRS);
}

enum { MOST_ATTRS = 16 };

struct td_value td_f_as(struct td_emitter *e, const char *op, const struct td_value *in, int n_in,
                        const struct td_node *n, const char *names)
{
    struct td_attr attrs[MOST_ATTRS];
    int count = 0;
    for (const char *p = names; p != NULL && *p != 0 && count < MOST_ATTRS;) {
        const size_t len = strcspn(p, ",");
        for (int i = 0; i < n->n_attrs; i++) {
            if (strlen(n->attrs[i].name) == len && memcmp(n->attrs[i].name, p, len) == 0) {
                attrs[count++] = n->attrs[i];
                break;
            }
        }
        p += len + (p[len] == ',');
    }
    return td_emit(e, op, in, n_in, attrs, count);
}

void td_pass_on_grad(struct td_grad *g)
{
    for (int i = 0; i < g->node->n_in && i < g->node->n_out; i++) {
        td_grad_pass_on(g, i, i);
    }
}

/* ------------------------------------------------------------------ arithmetic */

struct td_value td_f_add(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return td_f_2(e, "AddV2", x, y);
}

struct td_value td_f_sub(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return td_f_2(e, "Sub", x, y);
}

struct td_value td_f_mul(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return td_f_2(e, "Mul", x, y);
}

struct td_value td_f_div(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return td_f_2(e, "RealDiv", x, y);
}

struct td_value td_f_neg(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "Neg", x);
}

struct td_value td_f_square(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "Square", x);
}

struct td_value td_f_conj(struct td_emitter *e, struct td_value x)
{
    return td_dtype_in(td_dtype_of(x), TD_SET_COMPLEX) ? td_f_1(e, "Conj", x) : x;
}

struct td_value td_f_number(struct td_emitter *e, struct td_value x, double v)
{
    const enum td_dtype dtype = td_dtype_of(x);
    if (x.node == NULL) {
        return td_no_value;
    }
    if (td_dtype_in(dtype, TD_SET_COMPLEX)) {
        return td_f_cast(e, td_emit_number(e, TD_DOUBLE, v), dtype);
    }
    return td_emit_number(e, dtype, v);
}

struct td_value td_f_scale(struct td_emitter *e, struct td_value x, double by)
{
    return td_f_mul(e, x, td_f_number(e, x, by));
}

struct td_value td_f_where(struct td_emitter *e, struct td_value cond, struct td_value x, struct td_value y)
{
    return td_f_3(e, "SelectV2", cond, x, y);
}

struct td_value td_f_cast(struct td_emitter *e, struct td_value x, enum td_dtype dtype)
{
    if (x.node == NULL || td_dtype_of(x) == dtype) {
        return x;
    }
    return td_emit(e, "Cast", TD_IN(x), TD_ATTRS(TD_ATTR_OF_TYPE("DstT", dtype)));
}

/* ------------------------------------------------------------------ integers and shapes */

struct td_value td_f_int(struct td_emitter *e, int64_t v)
{
    return td_emit_int(e, TD_INT32, v);
}

struct td_value td_f_range(struct td_emitter *e, struct td_value from, struct td_value to)
{
    return td_f_3(e, "Range", from, to, td_f_number(e, from, 1));
}

struct td_value td_f_shape(struct td_emitter *e, struct td_value x)
{
    const struct td_shape *known = x.node == NULL || e->rc ? NULL : td_emit_shape(e, x);
    bool constant = known != NULL && td_shape_known(known);
    for (int i = 0; constant && i < known->rank; i++) {
        constant = known->dim[i] <= INT32_MAX;
    }
    return constant ? td_emit_ints(e, TD_INT32, known->dim, known->rank) : td_f_1(e, "Shape", x);
}

struct td_value td_f_shape_as(struct td_emitter *e, struct td_value x, enum td_dtype dtype)
{
    const enum td_dtype index = dtype == TD_INT64 ? TD_INT64 : TD_INT32;
    return td_emit(e, "Shape", TD_IN(x), TD_ATTRS(TD_ATTR_OF_TYPE("out_type", index)));
}

struct td_value td_f_rank(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "Rank", x);
}

struct td_value td_f_size(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "Size", x);
}

struct td_value td_f_reshape(struct td_emitter *e, struct td_value x, struct td_value shape)
{
    return td_f_2(e, "Reshape", x, shape);
}

struct td_value td_f_reshape_like(struct td_emitter *e, struct td_value x, struct td_value like)
{
    return td_f_reshape(e, x, td_f_shape(e, like));
}

struct td_value td_f_expand(struct td_emitter *e, struct td_value x, int axis)
{
    return td_f_2(e, "ExpandDims", x, td_f_int(e, axis));
}

struct td_value td_f_transpose(struct td_emitter *e, struct td_value x, struct td_value perm)
{
    return td_f_2(e, "Transpose", x, perm);
}

struct td_value td_f_swap(struct td_emitter *e, struct td_value x)
{
    const struct td_value rank = td_f_rank(e, x);
    const struct td_value before = td_f_range(e, td_f_int(e, 0), td_f_sub(e, rank, td_f_int(e, 2)));
    const struct td_value last = td_f_add(e, td_emit_ints(e, TD_INT32, (const int64_t[]){-1, -2}, 2), rank);
    return td_f_transpose(e, x, td_f_concat(e, TD_IN(before, last), 0));
}

struct td_value td_f_adjoint(struct td_emitter *e, struct td_value x)
{
    return td_f_conj(e, td_f_swap(e, x));
}

struct td_value td_f_broadcast_to(struct td_emitter *e, struct td_value x, struct td_value shape)
{
    return td_f_2(e, "BroadcastTo", x, shape);
}

struct td_value td_f_broadcast_like(struct td_emitter *e, struct td_value x, struct td_value like)
{
    return td_f_broadcast_to(e, x, td_f_shape(e, like));
}

/* ------------------------------------------------------------------ sums and products */

struct td_value td_f_sum(struct td_emitter *e, struct td_value x, struct td_value axes, bool keep_dims)
{
    return td_emit(e, "Sum", TD_IN(x, axes), TD_ATTRS(TD_ATTR_OF_BOOL("keep_dims", keep_dims)));
}

struct td_value td_f_mean(struct td_emitter *e, struct td_value x, struct td_value axes, bool keep_dims)
{
    return td_emit(e, "Mean", TD_IN(x, axes), TD_ATTRS(TD_ATTR_OF_BOOL("keep_dims", keep_dims)));
}

struct td_value td_f_sum_all(struct td_emitter *e, struct td_value x)
{
    return td_f_sum(e, td_f_reshape(e, x, td_f_ints(e, -1)), td_f_int(e, 0), false);
}

struct td_value td_f_sum_to_shape(struct td_emitter *e, struct td_value x, struct td_value shape)
{
    return td_f_2(e, "_SumTo", x, shape);
}

struct td_value td_f_sum_to(struct td_emitter *e, struct td_value x, struct td_value like)
{
    return td_f_sum_to_shape(e, x, td_f_shape(e, like));
}

/* Whether x is sure to be of the shape that x and y broadcast to. */
static bool covers(const struct td_shape *x, const struct td_shape *y)
{
    bool sure = y->rank >= 0 && x->rank >= y->rank;
    for (int i = 0; sure && i < y->rank; i++) {
        const int64_t mine = x->dim[x->rank - y->rank + i];
        sure = y->dim[i] == 1 || (mine >= 0 && mine != 1);
    }
    return sure;
}

void td_f_give_summed(struct td_grad *g, int i, struct td_value v)
{
    const struct td_value x = td_grad_in(g, i);
    bool whole = true;
    for (int k = 0; whole && k < g->node->n_in; k++) {
        whole = k == i || covers(td_emit_shape(g->e, x), td_emit_shape(g->e, td_grad_in(g, k)));
    }
    if (td_grad_wants(g, i)) {
        td_grad_give(g, i, whole ? v : td_f_sum_to(g->e, v, x));
    }
}

struct td_value td_f_matmul(struct td_emitter *e, struct td_value x, struct td_value y, bool transpose_x,
                            bool transpose_y)
{
    return td_emit(
        e, "MatMul", TD_IN(x, y),
        TD_ATTRS(TD_ATTR_OF_BOOL("transpose_a", transpose_x), TD_ATTR_OF_BOOL("transpose_b", transpose_y)));
}

struct td_value td_f_batch_matmul(struct td_emitter *e, struct td_value x, struct td_value y, bool adj_x,
                                  bool adj_y)
{
    return td_emit(e, "BatchMatMulV2", TD_IN(x, y),
                   TD_ATTRS(TD_ATTR_OF_BOOL("adj_x", adj_x), TD_ATTR_OF_BOOL("adj_y", adj_y)));
}

/* ------------------------------------------------------------------ filling, choosing, joining */

struct td_value td_f_zeros_like(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "ZerosLike", x);
}

struct td_value td_f_ones_like(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "OnesLike", x);
}

struct td_value td_f_fill(struct td_emitter *e, struct td_value shape, struct td_value scalar)
{
    return td_f_2(e, "Fill", shape, scalar);
}

struct td_value td_f_gather(struct td_emitter *e, struct td_value params, struct td_value indices, int axis)
{
    return td_f_3(e, "GatherV2", params, indices, td_f_int(e, axis));
}

enum { MOST_JOINED = 64 };

static struct td_value concat_few(struct td_emitter *e, const struct td_value *in, int n_in, int axis)
{
    struct td_value list[MOST_JOINED + 1];
    if (n_in == 1) {
        return in[0];
    }
    memcpy(list, in, (size_t)n_in * sizeof *list);
    list[n_in] = td_f_int(e, axis);
    return td_emit(e, "ConcatV2", list, n_in + 1, TD_ATTRS(TD_ATTR_OF_INT("N", n_in)));
}

struct td_value td_f_concat(struct td_emitter *e, const struct td_value *in, int n_in, int axis)
{
    return td_f_in_groups(e, in, n_in, MOST_JOINED, axis, concat_few);
}

/* Level by level, so that it is no deeper than the logarithm of n. */
struct td_value td_f_in_groups(struct td_emitter *e, const struct td_value *in, int n, int most, int how,
                               td_f_join *join)
{
    if (n <= most) {
        return join(e, in, n, how);
    }
    const int groups = (n + most - 1) / most;
    struct td_value *joined = td_arena_alloc(e->arena, (size_t)groups, sizeof *joined);
    if (joined == NULL) {
        return td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for a node of %d inputs", n);
    }
    for (int i = 0; i < groups; i++) {
        const int left = n - i * most;
        joined[i] = join(e, in + (size_t)i * (size_t)most, left < most ? left : most, how);
    }
    return td_f_in_groups(e, joined, groups, most, how, join);
}

struct td_value td_f_slice(struct td_emitter *e, struct td_value x, struct td_value begin,
                           struct td_value size)
{
    return td_f_3(e, "Slice", x, begin, size);
}

struct td_value td_f_part(struct td_emitter *e, struct td_value vector, int64_t from, int64_t count)
{
    return td_f_slice(e, vector, td_f_ints(e, from), td_f_ints(e, count));
}

struct td_value td_f_but_last(struct td_emitter *e, struct td_value vector, int64_t n)
{
    return td_emit(e, "StridedSlice", TD_IN(vector, td_f_ints(e, 0), td_f_ints(e, -n), td_f_ints(e, 1)),
                   TD_NO_ATTRS);
}

struct td_value td_f_last(struct td_emitter *e, struct td_value vector, int64_t n)
{
    return td_emit(e, "StridedSlice", TD_IN(vector, td_f_ints(e, -n), td_f_ints(e, 0), td_f_ints(e, 1)),
                   TD_ATTRS(TD_ATTR_OF_INT("end_mask", 1)));
}

struct td_value td_f_element(struct td_emitter *e, struct td_value vector, int64_t i)
{
    const int64_t end = i + 1; /* of -1: to the end, which the mask says */
    return td_emit(e, "StridedSlice", TD_IN(vector, td_f_ints(e, i), td_f_ints(e, end), td_f_ints(e, 1)),
                   TD_ATTRS(TD_ATTR_OF_INT("shrink_axis_mask", 1)));
}

void td_f_become(struct td_emitter *e, struct td_node *n, struct td_value v)
{
    td_emit_again(e, n, td_op_find(e->ops, "Identity"), TD_IN(v), TD_NO_ATTRS);
}
