/* kernels/sparse/sparse_serialize.c - sparse tensors as elements of dense ones, which is how loops and lists
 * carry them.
 *
 *     SerializeSparse         (indices [n,r], values [n], shape [r])   ->   [3], an element each
 *     SerializeManySparse     the same, r >= 2   ->   [N,3], a row for each index of the first axis
 *     DeserializeSparse       [B.., 3]           ->   one sparse tensor, with B.. before the axes of the
 *                             parts
 *     DeserializeManySparse   [N,3]              ->   the same of strings
 *
 * An element is a serialized TensorProto (out_type string) or a variant that holds the tensor. Parts must
 * agree in rank and type; the whole is as large along each axis as its largest part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/control/optional.h"
#include "kernels/sparse/sparse_coo.h"
#include "kernels/text/strbuf.h"
#include "proto/pb/tensor_pb.h"

#define MAX_PART ((uint64_t)1 << 31) /* bytes of a part */

/* ------------------------------------------------------------------ shapes */

static enum td_code serialize_infer(struct td_infer *c, struct td_err *err)
{
    bool many = strcmp(c->node->op_name, "SerializeManySparse") == 0;
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    int64_t rank = c->in[2].rank == 1 ? c->in[2].dim[0] : -1;
    TD_FAIL_IF(many && rank >= 0 && rank < 2, err, INVALID_ARGUMENT,
               "%s: Rank of input SparseTensor should be > 1, but saw rank: %lld", TD_NODE_STR(c->node),
               (long long)rank);
    c->out[0] = many ? td_shape_matrix(-1, 3) : td_shape_vector(3);
    return TD_OK;
}

static enum td_code deserialize_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0];
    bool many = strcmp(c->node->op_name, "DeserializeManySparse") == 0;
    TD_FAIL_IF(s->rank == 0 || (many && s->rank >= 0 && s->rank != 2), err, INVALID_ARGUMENT,
               "%s: Serialized sparse should have %s, not shape %s", TD_NODE_STR(c->node),
               many ? "rank 2" : "rank 1 or more", TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank > 0 && s->dim[s->rank - 1] >= 0 && s->dim[s->rank - 1] != 3, err, INVALID_ARGUMENT,
               "%s: Serialized sparse should have 3 as the last dimension, not shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    c->out[0] = td_shape_matrix(-1, -1);
    c->out[1] = td_shape_of_rank(1);
    c->out[2] = td_shape_of_rank(1);
    return TD_OK;
}

/* ------------------------------------------------------------------ in */

static enum td_code put_variant(struct td_tensor *y, int64_t i, struct td_tensor *t, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_optional_make(t, 1, &o, err));
    td_tensor_set_obj(y, i, o);
    return TD_OK;
}

static enum td_code put_message(struct td_tensor *y, int64_t i, const struct td_tensor *t, struct td_err *err)
{
    struct td_sink sink = {.limit = TD_STRBUF_MAX};
    enum td_code rc = td_tensor_to_bytes(t, true, &sink, err);
    if (rc == TD_OK) {
        rc = td_tensor_set_str(y, i, sink.n ? sink.p : "", sink.n, err);
    }
    td_sink_fini(&sink);
    return rc;
}

/* Element i of y becomes t, which is taken. */
static enum td_code put(struct td_tensor *y, int64_t i, struct td_tensor *t, struct td_err *err)
{
    enum td_code rc = y->dtype == TD_VARIANT ? put_variant(y, i, t, err) : put_message(y, i, t, err);
    td_tensor_clear(t);
    return rc;
}

/* Some entries of x, by number: a part without x's first `skip` axes. */
struct picked {
    const struct td_coo *x;
    const int64_t *entry;
    int64_t n;
    int skip;
};

static void copy_indices(const struct picked *p, struct td_tensor *ix)
{
    const struct td_coo *x = p->x;
    const int rank = x->rank - p->skip;
    for (int64_t i = 0; i < p->n && rank > 0; i++) {
        memcpy(TD_DATA(ix, int64_t) + i * rank, x->ix + p->entry[i] * x->rank + p->skip,
               (size_t)rank * sizeof(int64_t));
    }
}

static void copy_values(const struct picked *p, const struct td_tensor *from, struct td_tensor *values)
{
    const size_t size = td_dtype_size(values->dtype);
    for (int64_t i = 0; i < p->n; i++) {
        td_elems_copy(values->dtype, (char *)values->data + (size_t)i * size,
                      (const char *)from->data + (size_t)p->entry[i] * size, 1);
    }
}

/* Row `row` of y: the part p. */
static enum td_code put_part(struct td_call *c, struct td_tensor *y, int64_t row, const struct picked *p,
                             struct td_err *err)
{
    const int rank = p->x->rank - p->skip;
    struct td_tensor ix, values, shape;
    struct td_shape s[] = {td_shape_matrix(p->n, rank), td_shape_vector(p->n), td_shape_vector(rank)};
    TD_TRY(td_tensor_new(&ix, TD_INT64, &s[0], err));
    copy_indices(p, &ix);
    TD_TRY(put(y, row * 3, &ix, err));
    TD_TRY(td_tensor_new(&values, c->in[1]->dtype, &s[1], err));
    copy_values(p, c->in[1], &values);
    TD_TRY(put(y, row * 3 + 1, &values, err));
    TD_TRY(td_tensor_new(&shape, TD_INT64, &s[2], err));
    if (rank > 0) {
        memcpy(shape.data, p->x->dim + p->skip, (size_t)rank * sizeof(int64_t));
    }
    return put(y, row * 3 + 2, &shape, err);
}

static enum td_code serialize_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_coo x;
    int64_t *order;
    TD_TRY(td_coo_view(c, 0, 2, &x, err));
    TD_TRY(td_scratch(c, (size_t)x.n * sizeof *order, (void **)&order, err));
    for (int64_t i = 0; i < x.n; i++) {
        order[i] = i;
    }
    if (strcmp(c->node->op_name, "SerializeSparse") == 0) {
        TD_TRY(td_out(c, 0, NULL, &y, err));
        return put_part(c, y, 0, &(struct picked){&x, order, x.n, 0}, err);
    }
    TD_FAIL_IF(x.rank < 2, err, INVALID_ARGUMENT,
               "%s: Rank of input SparseTensor should be > 1, but saw rank: %d", TD_NODE_STR(c->node),
               x.rank);
    TD_TRY(td_coo_check_bounds(c, &x, err));
    struct td_shape shape = td_shape_matrix(x.dim[0], 3);
    TD_TRY(td_out(c, 0, &shape, &y, err));
    td_coo_sort(&x, order);
    for (int64_t row = 0, at = 0; row < x.dim[0]; row++) {
        int64_t n = 0;
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        while (at + n < x.n && x.ix[order[at + n] * x.rank] == row) {
            n++;
        }
        TD_TRY(put_part(c, y, row, &(struct picked){&x, order + at, n, 1}, err));
        at += n;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ out */

struct part {
    struct td_tensor ix, values, shape;
};

struct parts {
    struct part *part;
    int64_t n;
};

static void parts_free(struct parts *p)
{
    for (int64_t i = 0; p->part && i < p->n; i++) {
        td_tensor_clear(&p->part[i].ix);
        td_tensor_clear(&p->part[i].values);
        td_tensor_clear(&p->part[i].shape);
    }
    td_free(p->part);
}

/* Element i of the input as a tensor of the dtype and rank that its place asks for. */
static enum td_code take(struct td_call *c, int64_t i, enum td_dtype dtype, int rank, struct td_tensor *out,
                         struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    if (x->dtype == TD_VARIANT) {
        int n;
        const struct td_tensor *held = td_optional_items(td_tensor_obj(x, i), &n);
        TD_FAIL_IF(!held || n != 1, err, INVALID_ARGUMENT,
                   "%s: element %lld is not a serialized sparse tensor's part", TD_NODE_STR(c->node),
                   (long long)i);
        td_tensor_ref(out, held);
    } else {
        size_t n;
        struct td_err why = {0};
        const char *s = td_tensor_str(x, i, &n);
        TD_FAIL_IF(td_tensor_from_bytes(s, n, MAX_PART, out, &why), err, INVALID_ARGUMENT,
                   "%s: Could not parse serialized_sparse[%lld]: %s", TD_NODE_STR(c->node), (long long)i,
                   why.msg);
    }
    TD_FAIL_IF(out->dtype != dtype || out->shape.rank != rank, err, INVALID_ARGUMENT,
               "%s: serialized_sparse[%lld] is %s of shape %s, expected %s of rank %d", TD_NODE_STR(c->node),
               (long long)i, td_dtype_name(out->dtype), TD_SHAPE_STR(&out->shape), td_dtype_name(dtype),
               rank);
    return TD_OK;
}

static enum td_code take_parts(struct td_call *c, struct parts *p, struct td_err *err)
{
    p->n = td_tensor_count(c->in[0]) / 3;
    TD_FAIL_IF(p->n == 0, err, INVALID_ARGUMENT,
               "%s: Must have at least 1 serialized SparseTensor, but input matrix has 0 rows",
               TD_NODE_STR(c->node));
    p->part = td_calloc((size_t)p->n, sizeof *p->part);
    if (!p->part) {
        return td_no_memory(err, (size_t)p->n * sizeof *p->part, "parts of a sparse tensor");
    }
    for (int64_t i = 0; i < p->n; i++) {
        struct part *t = &p->part[i], *first = &p->part[0];
        TD_TRY(take(c, 3 * i, TD_INT64, 2, &t->ix, err));
        TD_TRY(take(c, 3 * i + 1, td_attr_type(c->node, "dtype"), 1, &t->values, err));
        TD_TRY(take(c, 3 * i + 2, TD_INT64, 1, &t->shape, err));
        TD_FAIL_IF(
            t->ix.shape.dim[0] != t->values.shape.dim[0] || t->ix.shape.dim[1] != t->shape.shape.dim[0] ||
                t->shape.shape.dim[0] != first->shape.shape.dim[0],
            err, INVALID_ARGUMENT,
            "%s: part %lld: indices %s, values %s, shape %s, and first shape %s do not go together",
            TD_NODE_STR(c->node), (long long)i, TD_SHAPE_STR(&t->ix.shape), TD_SHAPE_STR(&t->values.shape),
            TD_SHAPE_STR(&t->shape.shape), TD_SHAPE_STR(&first->shape.shape));
    }
    return TD_OK;
}

/* Index rows of part i at `to`: its place in the batch, then its own. */
static void write_indices(const struct td_shape *batch, int lead, const struct part *t, int64_t i,
                          int64_t *to)
{
    int64_t rank = t->shape.shape.dim[0];
    for (int64_t k = 0; k < t->values.shape.dim[0]; k++, to += lead + rank) {
        int64_t rest = i;
        for (int a = lead - 1; a >= 0; a--) {
            to[a] = rest % batch->dim[a];
            rest /= batch->dim[a];
        }
        for (int64_t a = 0; a < rank; a++) {
            to[lead + a] = TD_DATA(&t->ix, int64_t)[k * rank + a];
        }
    }
}

static enum td_code join(struct td_call *c, const struct parts *p, struct td_err *err)
{
    const struct td_shape *batch = &c->in[0]->shape;
    int lead = batch->rank - 1;
    int64_t rank = p->part[0].shape.shape.dim[0], n = 0;
    for (int64_t i = 0; i < p->n; i++) {
        n += p->part[i].values.shape.dim[0];
    }
    struct td_tensor *ix, *values, *shape;
    struct td_shape s[] = {td_shape_matrix(n, lead + rank), td_shape_vector(n), td_shape_vector(lead + rank)};
    TD_TRY(td_out(c, 0, &s[0], &ix, err));
    TD_TRY(td_out(c, 1, &s[1], &values, err));
    TD_TRY(td_out(c, 2, &s[2], &shape, err));
    int64_t *dim = shape->data, at = 0;
    for (int64_t a = 0; a < lead + rank; a++) {
        dim[a] = a < lead ? batch->dim[a] : 0;
    }
    size_t size = td_dtype_size(values->dtype);
    for (int64_t i = 0; i < p->n; i++) {
        const struct part *t = &p->part[i];
        int64_t count = t->values.shape.dim[0];
        if (count > 0) {
            write_indices(batch, lead, t, i, TD_DATA(ix, int64_t) + at * (lead + rank));
            td_elems_copy(values->dtype, (char *)values->data + (size_t)at * size, t->values.data, count);
        }
        for (int64_t a = 0; a < rank; a++) {
            int64_t d = TD_DATA(&t->shape, int64_t)[a];
            dim[lead + a] = d > dim[lead + a] ? d : dim[lead + a];
        }
        at += count;
    }
    return TD_OK;
}

static enum td_code deserialize_run(struct td_call *c, struct td_err *err)
{
    struct parts p = {0};
    enum td_code rc = take_parts(c, &p, err);
    if (rc == TD_OK) {
        rc = join(c, &p, err);
    }
    parts_free(&p);
    return rc;
}

/* ------------------------------------------------------------------ table */

#define SERIALIZE(op)                                                                                        \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig =                                                                                               \
            "(sparse_indices:int64, sparse_values:T, sparse_shape:int64) -> (serialized_sparse:out_type) "   \
            "{T:type; out_type:type=string}",                                                                \
        .infer = serialize_infer,                                                                            \
        .kernels = TD_KERNEL("sparse_serialize.cpu", serialize_run,                                          \
                             {"T", TD_SET_NUMBERS | TD_BIT(TD_BOOL) | TD_BIT(TD_STRING)},                    \
                             {"out_type", TD_BIT(TD_STRING) | TD_BIT(TD_VARIANT)})                           \
    }

const struct td_op td_ops_sparse_serialize[] = {
    SERIALIZE("SerializeSparse"),
    SERIALIZE("SerializeManySparse"),
    {.name = "DeserializeSparse",
     .sig =
         "(serialized_sparse:Tserialized) -> (sparse_indices:int64, sparse_values:dtype, sparse_shape:int64) "
         "{dtype:type; Tserialized:type=string}",
     .infer = deserialize_infer,
     .kernels = TD_KERNEL("sparse_deserialize.cpu", deserialize_run,
                          {"Tserialized", TD_BIT(TD_STRING) | TD_BIT(TD_VARIANT)})},
    {.name = "DeserializeManySparse",
     .sig = "(serialized_sparse:string) -> (sparse_indices:int64, sparse_values:dtype, sparse_shape:int64) "
            "{dtype:type}",
     .infer = deserialize_infer,
     .kernels = TD_KERNEL("sparse_deserialize.cpu", deserialize_run, {0})},
    {.name = NULL},
};
