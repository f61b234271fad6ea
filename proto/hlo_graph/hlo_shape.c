/* proto/hlo_graph/hlo_shape.c - broadcasts, reshapes, transposes, reversals and concatenation.
 *
 * broadcast_in_dim puts the operand's axes at given places among the result's. Where the axes keep their
 * order it is no more than axes of size 1 between them, and none in front: the value's part. Nothing is
 * copied until somebody other than an element-wise operation reads it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_rules.h"

static bool operands(struct td_hlo_frame *f, const struct td_hlo_op *op, int n)
{
    if (op->n_in < n || op->n_out < 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants %d", op->n_in, n);
    }
    return f->e.rc == TD_OK;
}

/* ------------------------------------------------------------------ broadcasting */

/* Where the axes of an operand's part are among those of the result. */
struct placing {
    int rank;                /* of the part */
    int64_t at[TD_MAX_RANK]; /* the result's axis of each of the part's */
    uint32_t sure;
};

/* Whether axis j of the part, which lies at axis i of the operand, has the full size of the result's axis
 * `to`. */
static bool is_sure(const struct td_hlo_op *op, const struct td_hlo_made *in, int i, int to)
{
    const int64_t from = td_hlo_shape(op->in[0])->dim[i], full = td_hlo_shape(op->out[0])->dim[to];
    return (in->sure >> i & 1) != 0 && from >= 0 && from == full;
}

static void place(const struct td_hlo_op *op, const struct td_hlo_made *in, const int64_t *axes,
                  struct placing *p)
{
    const int rank = td_hlo_shape(op->in[0])->rank;
    *p = (struct placing){.rank = in->rank};
    for (int j = 0; j < in->rank; j++) {
        const int i = rank - in->rank + j;
        p->at[j] = axes[i];
        p->sure |= is_sure(op, in, i, (int)axes[i]) ? 1u << axes[i] : 0;
    }
}

/* The part with its axes in rising order of where they go. */
static struct td_value in_order(struct td_hlo_frame *f, struct td_value v, struct placing *p)
{
    int64_t perm[TD_MAX_RANK];
    for (int i = 0; i < p->rank; i++) {
        perm[i] = i;
    }
    for (int i = 1; i < p->rank; i++) {
        for (int k = i; k > 0 && p->at[k - 1] > p->at[k]; k--) {
            const int64_t at = p->at[k], from = perm[k];
            p->at[k] = p->at[k - 1];
            p->at[k - 1] = at;
            perm[k] = perm[k - 1];
            perm[k - 1] = from;
        }
    }
    return td_hlo_transpose(f, v, perm, p->rank);
}

/* Axes of size 1 between those of the part. */
static struct td_value spread(struct td_hlo_frame *f, struct td_value v, const struct placing *p, int rank,
                              int *out)
{
    const int first = p->rank == 0 ? rank : (int)p->at[0];
    *out = rank - first;
    for (int i = first, at = 0; i < rank; i++) {
        if (at < p->rank && p->at[at] == i) {
            at++;
        } else {
            v = td_hlo_2(f, "ExpandDims", v, td_hlo_i32(f, i - first));
        }
    }
    return v;
}

static void broadcast(struct td_hlo_frame *f, const struct td_hlo_op *op, struct td_value dims)
{
    const struct td_shape *to = td_hlo_shape(op->out[0]);
    struct placing p;
    int n;
    const int64_t *axes = td_hlo_axes(f, op, "broadcast_dimensions", to->rank, &n);
    const struct td_hlo_made *in = td_hlo_part(f, op->in[0]);
    if (f->e.rc == TD_OK && n != td_hlo_shape(op->in[0])->rank) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "broadcast_dimensions has %d axes, wants the operand's %d", n,
                    td_hlo_shape(op->in[0])->rank);
    }
    if (f->e.rc) {
        return;
    }
    place(op, in, axes, &p);
    struct td_hlo_made m = {.dims = dims, .sure = p.sure};
    m.part = spread(f, in_order(f, in->part, &p), &p, to->rank, &m.rank);
    for (int i = 0; i < to->rank; i++) {
        m.sure |= to->dim[i] == 1 ? 1u << i : 0;
    }
    td_hlo_put_made(f, op, 0, &m);
}

void td_hlo_broadcast_in_dim(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (operands(f, op, 1)) {
        broadcast(f, op, td_no_value);
    }
}

void td_hlo_dynamic_broadcast_in_dim(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (operands(f, op, 2)) {
        broadcast(f, op, td_hlo_cast(f, td_hlo_in(f, op, 1), TD_INT32));
    }
}

/* Axes in front of the operand's. */
void td_hlo_broadcast_in_front(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!operands(f, op, 1)) {
        return;
    }
    const int more = td_hlo_shape(op->out[0])->rank - td_hlo_shape(op->in[0])->rank;
    struct td_hlo_made m = *td_hlo_part(f, op->in[0]);
    if (f->e.rc || more < 0 || !td_shape_known(td_hlo_shape(op->out[0]))) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "a result that is not larger, or of unknown size");
        return;
    }
    m.sure <<= more;
    m.whole = m.dims = td_no_value;
    td_hlo_put_made(f, op, 0, &m);
}

/* ------------------------------------------------------------------ reshaping */

/* A value that is one scalar all over is the same under any shape. */
static bool put_scalar(struct td_hlo_frame *f, const struct td_hlo_op *op, struct td_value dims)
{
    const struct td_hlo_made *in = td_hlo_part(f, op->in[0]);
    if (f->e.rc || in->rank != 0 || td_hlo_shape(op->in[0])->rank == 0) {
        return f->e.rc != TD_OK;
    }
    td_hlo_put_made(f, op, 0, &(struct td_hlo_made){.part = in->part, .dims = dims});
    return true;
}

/* Whether the operand's part is its trailing axes, and the result puts axes of size 1 in front or takes
 * them away. */
static bool put_led(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const struct td_shape *from = td_hlo_shape(op->in[0]), *to = td_hlo_shape(op->out[0]);
    const struct td_hlo_made *in = td_hlo_part(f, op->in[0]);
    const int n = from->rank < to->rank ? from->rank : to->rank;
    if (f->e.rc || !td_shape_known(from) || !td_shape_known(to) || in->rank > n || in->rank == from->rank) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (from->dim[from->rank - 1 - i] != to->dim[to->rank - 1 - i]) {
            return false;
        }
    }
    struct td_hlo_made m = {.part = in->part, .rank = in->rank};
    for (int i = 0; i < to->rank; i++) {
        const int at = from->rank - to->rank + i;
        m.sure |= to->dim[i] == 1 || (at >= 0 && (in->sure >> at & 1) != 0) ? 1u << i : 0;
    }
    td_hlo_put_made(f, op, 0, &m);
    return true;
}

void td_hlo_reshape_to(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!operands(f, op, 1) || put_scalar(f, op, td_no_value) || put_led(f, op)) {
        return;
    }
    const struct td_shape *to = td_hlo_shape(op->out[0]);
    if (!td_shape_known(to)) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "result %s is not fully known", TD_SHAPE_STR(to));
        return;
    }
    td_hlo_put(f, op, 0, td_hlo_reshape(f, td_hlo_in(f, op, 0), to->dim, to->rank));
}

void td_hlo_dynamic_reshape(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!operands(f, op, 2)) {
        return;
    }
    const struct td_shape *to = td_hlo_shape(op->out[0]);
    const struct td_value dims = td_hlo_cast(f, td_hlo_in(f, op, 1), TD_INT32);
    int unknown = 0;
    bool empty = false;
    for (int i = 0; i < to->rank; i++) {
        unknown += to->dim[i] < 0;
        empty |= to->dim[i] == 0;
    }
    if (put_scalar(f, op, dims)) {
        return;
    }
    const struct td_value x = td_hlo_in(f, op, 0);
    td_hlo_put(f, op, 0,
               unknown <= 1 && !empty ? td_hlo_reshape(f, x, to->dim, to->rank)
                                      : td_hlo_2(f, "Reshape", x, dims));
}

/* ------------------------------------------------------------------ moving */

void td_hlo_transpose_by(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    int n;
    if (!operands(f, op, 1)) {
        return;
    }
    const int64_t *perm = td_hlo_axes(f, op, "permutation", td_hlo_shape(op->out[0])->rank, &n);
    if (f->e.rc == TD_OK && (n != td_hlo_shape(op->in[0])->rank || n != td_hlo_shape(op->out[0])->rank)) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "permutation has %d axes", n);
    }
    if (f->e.rc == TD_OK && !put_scalar(f, op, td_no_value)) {
        td_hlo_put(f, op, 0, td_hlo_transpose(f, td_hlo_in(f, op, 0), perm, n));
    }
}

void td_hlo_reverse(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    int n;
    if (!operands(f, op, 1)) {
        return;
    }
    const int64_t *axes = td_hlo_axes(f, op, "dimensions", td_hlo_shape(op->in[0])->rank, &n);
    if (f->e.rc == TD_OK) {
        const struct td_value x = td_hlo_in(f, op, 0);
        td_hlo_put(f, op, 0, n == 0 ? x : td_hlo_2(f, "ReverseV2", x, td_hlo_i32s(f, axes, n)));
    }
}

void td_hlo_concatenate(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const int64_t axis = td_hlo_int(op, "dimension", 0);
    if (!operands(f, op, 1)) {
        return;
    }
    struct td_value *in = td_hlo_room(f, (size_t)op->n_in, sizeof *in);
    for (int i = 0; in != NULL && i < op->n_in; i++) {
        in[i] = td_hlo_in(f, op, i);
    }
    if (axis < 0 || axis >= td_hlo_shape(op->out[0])->rank) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "dimension %lld", (long long)axis);
    }
    if (f->e.rc == TD_OK) {
        td_hlo_put(f, op, 0, td_hlo_concat(f, in, op->n_in, (int)axis));
    }
}
