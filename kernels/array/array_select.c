/* kernels/array/array_select.c - choosing between values by condition, and dealing rows out and in by number.
 *
 *   Where              x [s]                     ->  int64 [n, rank], places of what is not zero, row-major
 *   Select             cond [s] | [] | [n], t, e ->  t where cond, else e; a vector chooses whole rows
 *   SelectV2           the same with broadcasting of all three
 *   DynamicPartition   rows of data by partition number into num_partitions tensors
 *   DynamicStitch      rows of the data tensors back to the places that indices name; the last writer stays
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/array/array_join_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/array/array_select_grad.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"
#include "kernels/cpu/vecmath.h"

/* ------------------------------------------------------------------ Where */

static enum td_code where_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank == 0, err, INVALID_ARGUMENT, "%s: WhereOp : Unhandled input dimensions: 0",
               TD_NODE_STR(c->node));
    c->out[0] = td_shape_matrix(-1, c->in[0].rank < 0 ? -1 : c->in[0].rank);
    return TD_OK;
}

#define TRUE_AT(dt, T, expr)                                                                                 \
    case dt: {                                                                                               \
        const T x = TD_DATA(t, const T)[i];                                                                  \
        return (expr);                                                                                       \
    }

static bool true_at(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
        TRUE_AT(TD_FLOAT, float, x != 0)
        TRUE_AT(TD_DOUBLE, double, x != 0)
        TRUE_AT(TD_HALF, uint16_t, (x & 0x7fff) != 0)
        TRUE_AT(TD_BFLOAT16, uint16_t, (x & 0x7fff) != 0)
        TRUE_AT(TD_COMPLEX64, td_c64, x.re != 0 || x.im != 0)
        TRUE_AT(TD_COMPLEX128, td_c128, x.re != 0 || x.im != 0)
        TRUE_AT(TD_BOOL, td_bool, x != 0)
    default:
        return td_tensor_int(t, i) != 0;
    }
}

static enum td_code where_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const int rank = x->shape.rank;
    const int64_t count = td_tensor_count(x);
    int64_t n = 0, at[TD_MAX_RANK] = {0};
    const td_bool *is = x->data;
    if (x->dtype != TD_BOOL) {
        td_bool *mask;
        TD_TRY(td_scratch(c, (size_t)count, (void **)&mask, err));
        for (int64_t i = 0; i < count; i++) {
            mask[i] = true_at(x, i);
        }
        is = mask;
    }
    for (int64_t i = 0; i < count; i++) {
        n += is[i] != 0;
    }
    const struct td_shape shape = td_shape_matrix(n, rank);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, &shape, &y, err));
    int64_t *row = y->data, *const end = row + n * rank, line = n > 0 ? x->shape.dim[rank - 1] : 1;
    for (; row < end && !td_work_spent(line);
         is += line) { /* a line of the last axis at a time, for whose other places `at` stands */
        for (int64_t j = 0; j < line && row < end; j++) { /* written in any case, kept if true */
            for (int a = 0; a < rank - 1; a++) {
                row[a] = at[a];
            }
            row[rank - 1] = j;
            row += is[j] ? rank : 0;
        }
        for (int a = rank - 2; a >= 0 && ++at[a] == x->shape.dim[a]; a--) {
            at[a] = 0;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Select */

static enum td_code select_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *cond = &c->in[0], *t = &c->in[1], *e = &c->in[2];
    TD_FAIL_IF(!td_shape_compatible(t, e), err, INVALID_ARGUMENT,
               "%s: 'then' and 'else' must have the same size.  but received: %s vs. %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(t), TD_SHAPE_STR(e));
    TD_TRY(td_shape_merge(t, e, &c->out[0], err));
    const struct td_shape *out = &c->out[0];
    if (cond->rank <= 0 || out->rank < 0) {
        return TD_OK;
    }
    if (cond->rank == 1) {
        TD_FAIL_IF(out->rank == 0, err, INVALID_ARGUMENT,
                   "%s: 'then' must be at least a vector, but saw shape: []", TD_NODE_STR(c->node));
        TD_FAIL_IF(cond->dim[0] >= 0 && out->dim[0] >= 0 && cond->dim[0] != out->dim[0], err,
                   INVALID_ARGUMENT,
                   "%s: Number of batches of 'then' must match size of 'cond', but saw: %lld vs. %lld",
                   TD_NODE_STR(c->node), (long long)out->dim[0], (long long)cond->dim[0]);
        return TD_OK;
    }
    TD_FAIL_IF(!td_shape_compatible(cond, out), err, INVALID_ARGUMENT,
               "%s: Inputs to operation must have the same size and shape.  Input 0: %s != input 1: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(cond), TD_SHAPE_STR(t));
    return TD_OK;
}

/* One side of a choice: an element for each place, or one for all. */
struct side {
    const void *data;
    bool one;
};

/* Both sides are read and the wrong one masked out: vector code. */
#define CHOOSE_LOOP(T, i_t, i_e)                                                                             \
    TD_INDEPENDENT                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        T mask = cond[i] ? (T)-1 : 0;                                                                        \
        ((T *)y)[i] = (T)((((const T *)t.data)[i_t] & mask) | (((const T *)e.data)[i_e] & (T)~mask));        \
    }
#define CHOOSE(size, T)                                                                                      \
    case size:                                                                                               \
        if (t.one && e.one) {                                                                                \
            CHOOSE_LOOP(T, 0, 0)                                                                             \
        } else if (t.one) {                                                                                  \
            CHOOSE_LOOP(T, 0, i)                                                                             \
        } else if (e.one) {                                                                                  \
            CHOOSE_LOOP(T, i, 0)                                                                             \
        } else {                                                                                             \
            CHOOSE_LOOP(T, i, i)                                                                             \
        }                                                                                                    \
        return;

/* One condition an element. */
TD_CLONES static void choose(enum td_dtype dtype, const td_bool *cond, struct side t, struct side e, void *y,
                             int64_t n)
{
    const size_t size = td_dtype_is_object(dtype) ? 0 : td_dtype_size(dtype);
    switch (size) {
        CHOOSE(1, uint8_t)
        CHOOSE(2, uint16_t)
        CHOOSE(4, uint32_t)
        CHOOSE(8, uint64_t)
    case 16:
        for (int64_t i = 0; i < n; i++) {
            const struct side *from = cond[i] ? &t : &e;
            ((td_c128 *)y)[i] = ((const td_c128 *)from->data)[from->one ? 0 : i];
        }
        return;
    default:
        for (int64_t i = 0; i < n && !td_work_spent(8); i++) {
            const struct side *from = cond[i] ? &t : &e;
            td_elems_copy(dtype, (td_objp *)y + i, (const td_objp *)from->data + (from->one ? 0 : i), 1);
        }
        return;
    }
}

/* The side's elements in n places. */
static void choose_side(enum td_dtype dtype, struct side from, void *y, int64_t n)
{
    const size_t size = td_dtype_size(dtype);
    const int64_t runs = from.one ? n : 1;
    for (int64_t i = 0; i < runs && !td_work_spent(n); i++) {
        td_elems_copy(dtype, (char *)y + (size_t)i * size, from.data, from.one ? 1 : n);
    }
}

static enum td_code select_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *t = c->in[1], *e = c->in[2];
    const td_bool *cond = c->in[0]->data;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t count = td_tensor_count(y), n = td_tensor_count(c->in[0]);
    if (count == 0) {
        return TD_OK;
    }
    if (n == count) {
        choose(y->dtype, cond, (struct side){t->data, false}, (struct side){e->data, false}, y->data, count);
        return TD_OK;
    }
    const int64_t row = count / n, size = row * (int64_t)td_dtype_size(y->dtype);
    for (int64_t i = 0; i < n && !td_work_spent(row + 4); i++) {
        td_elems_copy(y->dtype, (char *)y->data + i * size, (const char *)(cond[i] ? t : e)->data + i * size,
                      row);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SelectV2 */

static enum td_code select_v2_infer(struct td_infer *c, struct td_err *err)
{
    struct td_shape both;
    enum td_code rc = td_shape_broadcast(&c->in[1], &c->in[2], &both, err);
    if (rc == TD_OK) {
        rc = td_shape_broadcast(&c->in[0], &both, &c->out[0], err);
    }
    return rc == TD_OK ? TD_OK : td_err_wrap(err, "%s", TD_NODE_STR(c->node));
}

/* Strides of x seen as `out`: 0 along what it broadcasts over. */
static void broadcast_strides(const struct td_shape *x, const struct td_shape *out, int64_t *stride)
{
    int64_t own[TD_MAX_RANK];
    td_strided_row_major(x, own);
    for (int i = 0; i < out->rank; i++) {
        const int k = i - (out->rank - x->rank);
        stride[i] = k < 0 || x->dim[k] == 1 ? 0 : own[k];
    }
}

/* Offsets of cond, t and e for the row of the result that `row` numbers. */
static void row_offsets(const struct td_shape *s, int64_t row, int64_t stride[3][TD_MAX_RANK], int64_t at[3])
{
    at[0] = at[1] = at[2] = 0;
    for (int a = s->rank - 2; a >= 0; a--) {
        const int64_t i = row % s->dim[a];
        row /= s->dim[a];
        for (int k = 0; k < 3; k++) {
            at[k] += i * stride[k][a];
        }
    }
}

static void select_rows(const struct td_call *c, struct td_tensor *y)
{
    const struct td_shape *s = &y->shape;
    const int64_t size = (int64_t)td_dtype_size(y->dtype), n = s->rank > 0 ? s->dim[s->rank - 1] : 1;
    const int64_t rows = td_tensor_count(y) / n;
    int64_t stride[3][TD_MAX_RANK], at[3], step[3];
    for (int k = 0; k < 3; k++) {
        broadcast_strides(&c->in[k]->shape, s, stride[k]);
        step[k] = s->rank > 0 ? stride[k][s->rank - 1] : 0;
    }
    for (int64_t row = 0; row < rows && !td_work_spent(n); row++) {
        row_offsets(s, row, stride, at);
        const td_bool *cond = TD_DATA(c->in[0], const td_bool) + at[0];
        const struct side t = {(const char *)c->in[1]->data + at[1] * size, step[1] == 0};
        const struct side e = {(const char *)c->in[2]->data + at[2] * size, step[2] == 0};
        char *out = (char *)y->data + row * n * size;
        if (step[0] == 0) {
            choose_side(y->dtype, *cond ? t : e, out, n);
        } else {
            choose(y->dtype, cond, t, e, out, n);
        }
    }
}

static enum td_code select_v2_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *cond = c->in[0], *t = c->in[1], *e = c->in[2];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t count = td_tensor_count(y);
    if (count == 0) {
        return TD_OK;
    }
    const bool dense_t = td_shape_equal(&t->shape, &y->shape), dense_e = td_shape_equal(&e->shape, &y->shape);
    if (dense_t && dense_e && td_shape_equal(&cond->shape, &y->shape)) {
        choose(y->dtype, cond->data, (struct side){t->data, false}, (struct side){e->data, false}, y->data,
               count);
    } else {
        select_rows(c, y);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ DynamicPartition */

static enum td_code dynamic_partition_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *data = &c->in[0], *parts = &c->in[1];
    TD_FAIL_IF(c->n_out == 0, err, INVALID_ARGUMENT, "%s: num_partitions must be at least 1",
               TD_NODE_STR(c->node));
    if (data->rank < 0 || parts->rank < 0) {
        return TD_OK;
    }
    bool starts = parts->rank <= data->rank;
    for (int i = 0; starts && i < parts->rank; i++) {
        starts = data->dim[i] < 0 || parts->dim[i] < 0 || data->dim[i] == parts->dim[i];
    }
    TD_FAIL_IF(!starts, err, INVALID_ARGUMENT,
               "%s: data.shape must start with partitions.shape, got data.shape = %s, partitions.shape = %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(data), TD_SHAPE_STR(parts));
    for (int i = 0; i < c->n_out; i++) {
        TD_TRY(td_infer_rows(c->node, data, parts->rank, -1, &c->out[i], err));
    }
    return TD_OK;
}

/* Counts rows a partition into next[], checking every number. */
static enum td_code count_parts(struct td_call *c, int64_t *next, struct td_err *err)
{
    const struct td_tensor *parts = c->in[1];
    const int64_t rows = td_tensor_count(parts);
    memset(next, 0, (size_t)c->n_out * sizeof *next);
    for (int64_t i = 0; i < rows; i++) {
        const int32_t p = TD_DATA(parts, const int32_t)[i];
        TD_FAIL_IF(p < 0 || p >= c->n_out, err, INVALID_ARGUMENT,
                   "%s: partitions[%lld] = %d is not in [0, %d)", TD_NODE_STR(c->node), (long long)i, p,
                   c->n_out);
        next[p]++;
    }
    return TD_OK;
}

static enum td_code dynamic_partition_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *data = c->in[0], *parts = c->in[1];
    const int64_t rows = td_tensor_count(parts);
    const int64_t row = td_shape_range(&data->shape, parts->shape.rank, data->shape.rank);
    const int64_t size = row * (int64_t)td_dtype_size(data->dtype);
    void *mem;
    TD_TRY(td_scratch(c, (size_t)c->n_out * (sizeof(int64_t) + sizeof(char *)), &mem, err));
    int64_t *next = mem;
    char **to = (char **)(next + c->n_out);
    TD_TRY(count_parts(c, next, err));
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor *y;
        struct td_shape shape;
        TD_TRY(td_infer_rows(c->node, &data->shape, parts->shape.rank, next[i], &shape, err));
        TD_TRY(td_out(c, i, &shape, &y, err));
        to[i] = y->data;
    }
    for (int64_t i = 0; row > 0 && i < rows && !td_work_spent(row + 4); i++) {
        const int32_t p = TD_DATA(parts, const int32_t)[i];
        td_elems_copy(data->dtype, to[p], (const char *)data->data + i * size, row);
        to[p] += size;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ DynamicStitch */

/* Axes of data tensor i behind those of its indices; checks that it starts with them. */
static enum td_code stitch_rest(const struct td_node *node, const struct td_shape *indices,
                                const struct td_shape *data, int i, struct td_shape *rest, struct td_err *err)
{
    *rest = td_shape_unknown();
    if (indices->rank < 0 || data->rank < 0) {
        return TD_OK;
    }
    bool starts = indices->rank <= data->rank;
    for (int k = 0; starts && k < indices->rank; k++) {
        starts = data->dim[k] < 0 || indices->dim[k] < 0 || data->dim[k] == indices->dim[k];
    }
    TD_FAIL_IF(!starts, err, INVALID_ARGUMENT,
               "%s: data[%d].shape = %s does not start with indices[%d].shape = %s", TD_NODE_STR(node), i,
               TD_SHAPE_STR(data), i, TD_SHAPE_STR(indices));
    *rest = td_shape_of_rank(data->rank - indices->rank);
    for (int k = 0; k < rest->rank; k++) {
        rest->dim[k] = data->dim[indices->rank + k];
    }
    return TD_OK;
}

static enum td_code stitch_infer(struct td_infer *c, struct td_err *err)
{
    const int n = c->n_in / 2;
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s: no indices and data given", TD_NODE_STR(c->node));
    struct td_shape rest = td_shape_unknown(), one;
    for (int i = 0; i < n; i++) {
        TD_TRY(stitch_rest(c->node, &c->in[i], &c->in[n + i], i, &one, err));
        TD_FAIL_IF(
            !td_shape_compatible(&rest, &one), err, INVALID_ARGUMENT,
            "%s: Need data[0].shape[%d:] = data[%d].shape[%d:], got data[0].shape = %s, data[%d].shape = %s, "
            "indices[0].shape = %s, indices[%d].shape = %s",
            TD_NODE_STR(c->node), c->in[0].rank, i, c->in[i].rank, TD_SHAPE_STR(&c->in[n]), i,
            TD_SHAPE_STR(&c->in[n + i]), TD_SHAPE_STR(&c->in[0]), i, TD_SHAPE_STR(&c->in[i]));
        TD_TRY(td_shape_merge(&rest, &one, &rest, err));
    }
    if (rest.rank >= 0) {
        const struct td_shape first = td_shape_vector(-1);
        TD_TRY(td_shape_concat(&first, &rest, &c->out[0], err));
    }
    return TD_OK;
}

/* One more than the largest index; negative ones are refused. */
static enum td_code stitch_rows(const struct td_call *c, int n, int64_t *rows, struct td_err *err)
{
    *rows = 0;
    for (int i = 0; i < n; i++) {
        const int64_t count = td_tensor_count(c->in[i]);
        for (int64_t k = 0; k < count; k++) {
            const int64_t at = TD_DATA(c->in[i], const int32_t)[k];
            TD_FAIL_IF(at < 0, err, INVALID_ARGUMENT, "%s: indices[%lld] is out of range",
                       TD_NODE_STR(c->node), (long long)k);
            *rows = at >= *rows ? at + 1 : *rows;
        }
    }
    return TD_OK;
}

static enum td_code stitch_run(struct td_call *c, struct td_err *err)
{
    const int n = c->n_in / 2;
    int64_t rows;
    struct td_shape rest, shape;
    struct td_tensor *y;
    TD_TRY(stitch_rows(c, n, &rows, err));
    TD_TRY(stitch_rest(c->node, &c->in[0]->shape, &c->in[n]->shape, 0, &rest, err));
    const struct td_shape first = td_shape_vector(rows);
    TD_TRY(td_shape_concat(&first, &rest, &shape, err));
    TD_TRY(td_out(c, 0, &shape, &y, err));
    const int64_t row = td_shape_range(&shape, 1, shape.rank), size = row * (int64_t)td_dtype_size(y->dtype);
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    td_strided_zero(y->dtype, y->data, td_tensor_count(y)); /* rows that nobody names */
    for (int i = 0; i < n; i++) {
        const int64_t count = td_tensor_count(c->in[i]);
        for (int64_t k = 0; k < count && !td_work_spent(row + 4); k++) {
            td_elems_copy(y->dtype, (char *)y->data + TD_DATA(c->in[i], const int32_t)[k] * size,
                          (const char *)c->in[n + i]->data + k * size, row);
        }
    }
    return TD_OK;
}

#define STITCH_ROW(op)                                                                                       \
    {                                                                                                        \
        .name = op, .sig = "(indices:N*int32, data:N*T) -> (merged:T) {N:int; T:type}",                      \
        .infer = stitch_infer,                                                                               \
        .kernels = TD_KERNEL("dynamic_stitch.cpu", stitch_run,                                               \
                             {"T", TD_SET_COPYABLE | TD_SET_Q8_32 | TD_BIT(TD_VARIANT)}),                    \
        .grad = td_dynamic_stitch_grad                                                                       \
    }

/* ------------------------------------------------------------------ batches */

static bool rows_of_select(struct td_batchable_step *s)
{
    if (s->in_shape[0][0].rank != 1 || s->in_shape[0][1].rank == 1) {
        return td_batchable_broadcast(s);
    }
    for (int i = 0; i < 3; i++) {
        if (!td_batchable_same_rows(s, 0, i) || s->in[i].axis != 0) {
            return td_batchable_no(
                s, "its condition chooses along an axis of input %d that is not that of the rows", i);
        }
    }
    return td_batchable_as_input(s, 0, 1, 0);
}

const struct td_op td_ops_array_select[] = {
    {.name = "Where",
     .sig = "(input:T) -> (index:int64) {T:type=bool}",
     .infer = where_infer,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("where.cpu", where_run, {"T", TD_SET_NUM_BOOL})},
    {.name = "Select",
     .sig = "(condition:bool, t:T, e:T) -> (output:T) {T:type}",
     .flags = TD_OP_TOTAL | TD_OP_BY_SHAPES,
     .permute = &td_permute_select,
     .batchable = TD_BATCHABLE_MOVES(rows_of_select, 1, 0),
     .infer = select_infer,
     .grad = td_select_grad,
     .kernels = TD_KERNEL("select.cpu", select_run, {"T", TD_SET_ALL_TYPES})},
    {.name = "SelectV2",
     .sig = "(condition:bool, t:T, e:T) -> (output:T) {T:type}",
     .flags = TD_OP_TOTAL | TD_OP_BY_SHAPES,
     .vectorize = td_many_broadcast,
     .permute = &td_permute_elementwise,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_broadcast, 1, 0),
     .infer = select_v2_infer,
     .grad = td_select_v2_grad,
     .kernels = TD_KERNEL("select.cpu", select_v2_run, {"T", TD_SET_ALL_TYPES})},
    {.name = "DynamicPartition",
     .sig = "(data:T, partitions:int32) -> (outputs:num_partitions*T) {num_partitions:int; T:type}",
     .infer = dynamic_partition_infer,
     .kernels = TD_KERNEL("dynamic_partition.cpu", dynamic_partition_run, {"T", TD_SET_ALL_TYPES}),
     .grad = td_dynamic_partition_grad},
    STITCH_ROW("DynamicStitch"),
    STITCH_ROW("ParallelDynamicStitch"),
    {.name = NULL},
};
