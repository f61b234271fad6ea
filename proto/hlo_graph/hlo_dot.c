/* proto/hlo_graph/hlo_dot.c - products of tensors.
 *
 * A plain product of two matrices is a MatMul, whose weights the engine packs and behind which it fuses; a
 * stack of them, or a stack times one matrix, a BatchMatMulV2; everything else an Einsum:
 *
 *     operands   [batch.., free.., contracted..] in any order
 *     result     [batch.., left's free.., right's free..]
 *
 * Operands of another type than the result's are converted to it before: StableHLO adds up in the result's
 * type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "proto/hlo_graph/hlo_rules.h"

struct sides { /* [0] left, [1] right */
    int rank[2], n_batch[2], n_sum[2];
    const int64_t *batch[2], *sum[2];
    struct td_value x[2];
};

static bool has(const int64_t *axes, int n, int axis)
{
    for (int i = 0; i < n; i++) {
        if (axes[i] == axis) {
            return true;
        }
    }
    return false;
}

/* The type to multiply in: the result's, or one of TensorFlow's products' that holds it. */
static enum td_dtype computed_in(enum td_dtype t)
{
    switch (t) {
    case TD_UINT8:
    case TD_INT8:
    case TD_UINT16:
    case TD_INT16:
    case TD_UINT32:
    case TD_BOOL:
        return TD_INT32;
    case TD_UINT64:
        return TD_INT64;
    default:
        return t;
    }
}

/* ------------------------------------------------------------------ forms */

static struct td_value plain(struct td_hlo_frame *f, const struct sides *s)
{
    return td_emit(&f->e, "MatMul", s->x, 2,
                   TD_ATTRS(TD_ATTR_OF_BOOL("transpose_a", s->sum[0][0] == 0),
                            TD_ATTR_OF_BOOL("transpose_b", s->sum[1][0] == 1)));
}

/* Batch axes in front, in the same order, and two others. */
static bool is_stack(const struct sides *s, int side)
{
    for (int i = 0; i < s->n_batch[side]; i++) {
        if (s->batch[side][i] != i) {
            return false;
        }
    }
    return s->rank[side] == s->n_batch[side] + 2 && s->n_sum[side] == 1;
}

static struct td_value stacked(struct td_hlo_frame *f, const struct sides *s)
{
    return td_emit(&f->e, "BatchMatMulV2", s->x, 2,
                   TD_ATTRS(TD_ATTR_OF_BOOL("adj_x", s->sum[0][0] == s->rank[0] - 2),
                            TD_ATTR_OF_BOOL("adj_y", s->sum[1][0] == s->rank[1] - 1)));
}

/* Letters of an operand's axes; of axes that both have, the same. */
static void name_axes(const struct sides *s, char text[2][TD_MAX_RANK + 1], char *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    int used = 0;
    for (int i = 0; i < s->n_batch[0]; i++) {
        *out++ = letters[used];
        text[0][s->batch[0][i]] = text[1][s->batch[1][i]] = letters[used++];
    }
    for (int i = 0; i < s->n_sum[0]; i++) {
        text[0][s->sum[0][i]] = text[1][s->sum[1][i]] = letters[used++];
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < s->rank[side]; i++) {
            if (text[side][i] == 0) {
                *out++ = text[side][i] = letters[used++];
            }
        }
    }
}

static struct td_value any(struct td_hlo_frame *f, const struct sides *s)
{
    char axes[2][TD_MAX_RANK + 1] = {{0}}, out[2 * TD_MAX_RANK + 1] = {0};
    char equation[5 * TD_MAX_RANK];
    name_axes(s, axes, out);
    snprintf(equation, sizeof equation, "%s,%s->%s", axes[0], axes[1], out);
    return td_emit(&f->e, "Einsum", s->x, 2, TD_ATTRS(TD_ATTR_OF_TEXT("equation", equation)));
}

/* ------------------------------------------------------------------ rules */

static bool read_axes(struct td_hlo_frame *f, const struct td_hlo_op *op, struct sides *s)
{
    static const char *const batch[] = {"lhs_batching_dimensions", "rhs_batching_dimensions"};
    static const char *const sum[] = {"lhs_contracting_dimensions", "rhs_contracting_dimensions"};
    for (int i = 0; i < 2; i++) {
        s->rank[i] = td_hlo_shape(op->in[i])->rank;
        s->batch[i] = td_hlo_axes(f, op, batch[i], s->rank[i], &s->n_batch[i]);
        s->sum[i] = td_hlo_axes(f, op, sum[i], s->rank[i], &s->n_sum[i]);
        for (int k = 0; f->e.rc == TD_OK && k < s->n_sum[i]; k++) {
            if (has(s->batch[i], s->n_batch[i], (int)s->sum[i][k])) {
                td_hlo_fail(f, TD_INVALID_ARGUMENT, "axis %lld is both batch and contracted",
                            (long long)s->sum[i][k]);
            }
        }
    }
    if (f->e.rc == TD_OK && (s->n_batch[0] != s->n_batch[1] || s->n_sum[0] != s->n_sum[1])) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "its operands have %d and %d batch axes, %d and %d contracted",
                    s->n_batch[0], s->n_batch[1], s->n_sum[0], s->n_sum[1]);
    }
    return f->e.rc == TD_OK;
}

static void multiply(struct td_hlo_frame *f, const struct td_hlo_op *op, struct sides *s)
{
    const enum td_dtype out = op->out[0]->type.dtype, by = computed_in(out);
    struct td_value y;
    for (int i = 0; i < 2; i++) {
        s->x[i] = td_hlo_cast(f, td_hlo_in(f, op, i), by);
    }
    const bool complex = td_hlo_is_complex(by); /* whose adjoints are conjugates too */
    if (s->n_batch[0] == 0 && is_stack(s, 0) && is_stack(s, 1)) {
        y = plain(f, s);
    } else if (!complex && is_stack(s, 0) && is_stack(s, 1)) {
        y = stacked(f, s);
    } else if (!complex && s->n_batch[0] == 0 && s->n_sum[0] == 1 && s->rank[0] > 2 &&
               s->sum[0][0] == s->rank[0] - 1 && s->rank[1] == 2) {
        y = stacked(f, s);
    } else {
        y = any(f, s);
    }
    td_hlo_put(f, op, 0, td_hlo_cast(f, y, out));
}

static bool two_operands(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (op->n_in != 2 || op->n_out != 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants 2", op->n_in);
    }
    return f->e.rc == TD_OK;
}

void td_hlo_dot_general(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct sides s;
    if (two_operands(f, op) && read_axes(f, op, &s)) {
        multiply(f, op, &s);
    }
}

/* Matrices and vectors: the left's last axis with the right's first. */
void td_hlo_dot(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!two_operands(f, op)) {
        return;
    }
    const int left = td_hlo_shape(op->in[0])->rank, right = td_hlo_shape(op->in[1])->rank;
    const int64_t last = left - 1, first = 0;
    struct sides s = {.rank = {left, right}, .n_sum = {1, 1}, .sum = {&last, &first}};
    if (left < 1 || right < 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "operands of rank %d and %d", left, right);
        return;
    }
    multiply(f, op, &s);
}
