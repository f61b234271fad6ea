/* proto/hlo_graph/hlo_sort.c - sorting, of one tensor or of several by the first ones, and the largest k.
 *
 * TensorFlow has TopKV2, which leaves equal elements in their order: a stable sort, largest first. What is
 * sorted is an integer key of each element (proto/hlo_graph/hlo_compare.h) that is larger the earlier the
 * element shall come, so that NaNs and zeros go where the comparator wants them. Several keys: sorted by
 * the last first, then by those before.
 *
 * The comparator is asked which way it sorts by which operand (proto/hlo_graph/hlo_body.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_sort.h"

#include <math.h>

#include "proto/hlo_graph/hlo_body.h"
#include "proto/hlo_graph/hlo_compare.h"
#include "proto/hlo_graph/hlo_rules.h"

enum { MOST_OPERANDS = 16 };

struct order {
    int n_keys;
    struct {
        bool falls;        /* largest first */
        bool zeros_differ; /* -0 comes before 0 */
    } key[MOST_OPERANDS];
};

/* ------------------------------------------------------------------ asking the comparator */

struct question {
    const struct td_hlo_op *op;
    struct td_hlo_scalar args[2 * MOST_OPERANDS];
};

static struct question ask_of(const struct td_hlo_op *op)
{
    struct question q = {.op = op};
    for (int i = 0; i < 2 * op->n_in; i++) {
        q.args[i] =
            (struct td_hlo_scalar){.is_float = td_hlo_is_float(op->in[i / 2]->type.dtype), .f = 1, .i = 1};
    }
    return q;
}

static void set(struct question *q, int operand, double left, double right)
{
    q->args[2 * operand].f = left;
    q->args[2 * operand].i = isnan(left) ? 0 : (int64_t)left;
    q->args[2 * operand + 1].f = right;
    q->args[2 * operand + 1].i = isnan(right) ? 0 : (int64_t)right;
}

/* Whether left comes before right; false in *known: it cannot be told. */
static bool before(const struct question *q, bool *known)
{
    struct td_hlo_scalar out;
    if (!td_hlo_evaluate(&q->op->regions[0], q->args, 2 * q->op->n_in, &out, 1)) {
        *known = false;
        return false;
    }
    return out.i != 0;
}

/* Operand i alone differs: 1: it rises, -1: it falls, 0: it is no key. */
static int way_of(const struct td_hlo_op *op, int i, bool *known)
{
    struct question q = ask_of(op);
    set(&q, i, 0, 1);
    const bool up = before(&q, known);
    set(&q, i, 1, 0);
    const bool down = before(&q, known);
    *known = *known && !(up && down);
    return (int)up - (int)down;
}

static bool find_order(const struct td_hlo_op *op, struct order *o)
{
    bool known = true;
    *o = (struct order){0};
    for (int i = 0; i < op->n_in && known; i++) {
        const int way = way_of(op, i, &known);
        if (way == 0) {
            continue;
        }
        if (i != o->n_keys) {
            return false; /* keys are not the first operands */
        }
        struct question q = ask_of(op);
        set(&q, i, -0.0, 0.0);
        o->key[i].falls = way < 0;
        o->key[i].zeros_differ = q.args[2 * i].is_float && before(&q, &known);
        o->n_keys++;
    }
    for (int i = 0; i + 1 < o->n_keys && known; i++) { /* the one before decides */
        struct question q = ask_of(op);
        set(&q, i, o->key[i].falls ? 1 : 0, o->key[i].falls ? 0 : 1);
        set(&q, i + 1, o->key[i + 1].falls ? 0 : 1, o->key[i + 1].falls ? 1 : 0);
        known = before(&q, &known) && known;
    }
    return known && o->n_keys > 0;
}

/* ------------------------------------------------------------------ sorting */

/* All zeros are one, and all NaNs. */
static struct td_value alike(struct td_hlo_frame *f, struct td_value x, bool zeros_differ)
{
    const enum td_dtype t = td_dtype_of(x);
    if (!td_hlo_is_float(t)) {
        return x;
    }
    if (!zeros_differ) {
        const struct td_value zero = td_hlo_zero(f, t);
        x = td_hlo_3(f, "SelectV2", td_hlo_2(f, "Equal", x, zero), zero, x);
    }
    return td_hlo_3(f, "SelectV2", td_hlo_1(f, "IsNan", x), td_hlo_number(f, t, NAN), x);
}

struct td_value td_hlo_along_last(struct td_hlo_frame *f, struct td_value x, struct td_value index, int rank)
{
    return td_emit(&f->e, "GatherV2", TD_IN(x, index, td_hlo_i32(f, rank - 1)),
                   TD_ATTRS(TD_ATTR_OF_INT("batch_dims", rank - 1)));
}

/* Where along the last axis the elements come from, in order. */
static struct td_value places(struct td_hlo_frame *f, const struct order *o, const struct td_value *x,
                              int rank, struct td_value size)
{
    struct td_value at = td_no_value;
    for (int i = o->n_keys - 1; i >= 0; i--) {
        struct td_value key = td_hlo_order_key(f, alike(f, x[i], o->key[i].zeros_differ));
        key = o->key[i].falls ? key : td_hlo_1(f, "Invert", key);
        key = at.node == NULL ? key : td_hlo_along_last(f, key, at, rank);
        struct td_value sorted = td_hlo_2(f, "TopKV2", key, size);
        if (f->e.rc) {
            return td_no_value;
        }
        sorted.port = 1;
        at = at.node == NULL ? sorted : td_hlo_along_last(f, at, sorted, rank);
    }
    return at;
}

void td_hlo_sort(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct order o = {.n_keys = 0};
    struct td_value x[MOST_OPERANDS];
    if (op->n_in < 1 || op->n_in > MOST_OPERANDS || op->n_out != op->n_in || op->n_regions < 1) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "%d operands", op->n_in);
        return;
    }
    const int rank = td_hlo_shape(op->in[0])->rank;
    const int64_t asked = td_hlo_int(op, "dimension", -1), axis = asked < 0 ? asked + rank : asked;
    if (axis < 0 || axis >= rank) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "dimension %lld of rank %d", (long long)asked, rank);
    } else if (!find_order(op, &o)) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "its comparator is no order by the first operands");
    }
    int64_t perm[TD_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        perm[i] = i;
    }
    if (f->e.rc == TD_OK) { /* swapping the axis and the last one is its own inverse */
        perm[axis] = rank - 1;
        perm[rank - 1] = axis;
    }
    for (int i = 0; f->e.rc == TD_OK && i < op->n_in; i++) {
        x[i] = td_hlo_transpose(f, td_hlo_in(f, op, i), perm, rank);
    }
    if (f->e.rc) {
        return;
    }
    const struct td_value at = places(f, &o, x, rank, td_hlo_dim(f, op->in[0], (int)axis));
    for (int i = 0; f->e.rc == TD_OK && i < op->n_in; i++) {
        td_hlo_put(f, op, i, td_hlo_transpose(f, td_hlo_along_last(f, x[i], at, rank), perm, rank));
    }
}

void td_hlo_top_k(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const int64_t k = td_hlo_option(op, "k", -1);
    if (op->n_in != 1 || op->n_out != 2 || k < 0) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "k %lld", (long long)k);
        return;
    }
    const bool least = td_hlo_option(op, "largest", 1) == 0;
    const struct td_value x = td_hlo_in(f, op, 0);
    const enum td_dtype t = td_dtype_of(x);
    const struct td_value key = !least                 ? x
                                : td_hlo_is_integer(t) ? td_hlo_1(f, "Invert", x)
                                                       : td_hlo_1(f, "Neg", x);
    const struct td_value top = td_hlo_2(f, "TopKV2", key, td_hlo_i32(f, k));
    if (f->e.rc) {
        return;
    }
    const struct td_value at = {top.node, 1};
    td_hlo_put(f, op, 0,
               !least                 ? top
               : td_hlo_is_integer(t) ? td_hlo_1(f, "Invert", top)
                                      : td_hlo_1(f, "Neg", top));
    td_hlo_put(f, op, 1, td_hlo_cast(f, at, op->out[1]->type.dtype));
}
