/* kernels/state/queue_ops.c - the queue ops: making, filling, emptying, closing.
 *
 *   Enqueue      one tuple                  EnqueueMany        rows of axis 0 of each component
 *   Dequeue      one tuple                  DequeueMany, UpTo  stacked along a new axis 0, padded with zeros
 *                                                              where the queue pads
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include <sys/random.h>

#include "core/base/mem.h"
#include "kernels/state/queue.h"
#include "kernels/control/tensor_list.h"

/* ------------------------------------------------------------------ making */

struct queue_arg {
    enum td_queue_kind kind;
    const struct td_node *node;
    const char *name;
};

static enum td_code seed(struct td_queue *q, const struct td_node *n, struct td_err *err)
{
    uint64_t seeds[2] = {(uint64_t)td_attr_int(n, "seed"), (uint64_t)td_attr_int(n, "seed2")};
    if (seeds[0] == 0 && seeds[1] == 0) {
        TD_FAIL_IF(getrandom(seeds, sizeof seeds, 0) != sizeof seeds, err, INTERNAL,
                   "%s: the system gives no random seed", TD_NODE_STR(n));
    }
    q->generator = td_philox_make(seeds[0], 0, seeds[1]);
    q->words = (struct td_philox_words){.g = &q->generator};
    return TD_OK;
}

static enum td_code create(const void *arg, struct td_obj **out, struct td_err *err)
{
    const struct queue_arg *a = arg;
    struct td_queue *q;
    TD_TRY(td_queue_new(a->kind, a->node, a->name, &q, err));
    enum td_code rc = a->kind == TD_QUEUE_SHUFFLE ? seed(q, a->node, err) : TD_OK;
    if (rc) {
        td_obj_unref(&q->obj);
        return rc;
    }
    *out = &q->obj;
    return TD_OK;
}

static enum td_code make(struct td_call *c, enum td_queue_kind kind, struct td_err *err)
{
    struct td_obj *o;
    struct td_tensor *out;
    const char *name = td_attr_str(c->node, "shared_name");
    struct queue_arg arg = {kind, c->node, name[0] ? name : c->node->name};
    struct td_resource_key key = {&td_queue_type, td_attr_str(c->node, "container"), arg.name};
    TD_TRY(td_resource_get(c, &key, create, &arg, &o, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    td_tensor_set_obj(out, 0, td_obj_ref(o));
    return TD_OK;
}

static enum td_code fifo_run(struct td_call *c, struct td_err *err)
{
    return make(c, TD_QUEUE_FIFO, err);
}

static enum td_code padding_run(struct td_call *c, struct td_err *err)
{
    return make(c, TD_QUEUE_PADDING, err);
}

static enum td_code priority_run(struct td_call *c, struct td_err *err)
{
    return make(c, TD_QUEUE_PRIORITY, err);
}

static enum td_code shuffle_run(struct td_call *c, struct td_err *err)
{
    return make(c, TD_QUEUE_SHUFFLE, err);
}

static enum td_code in_queue(const struct td_call *c, struct td_queue **out, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &td_queue_type, &o, err));
    TD_FAIL_IF(c->node->def && td_attr_int(c->node, "timeout_ms") > 0, err, INVALID_ARGUMENT,
               "%s: Timeout not supported yet.", TD_NODE_STR(c->node));
    *out = (struct td_queue *)o;
    return TD_OK;
}

/* ------------------------------------------------------------------ filling */

static enum td_code check_components(const struct td_call *c, const struct td_queue *q, struct td_err *err)
{
    TD_FAIL_IF(c->n_in - 1 != q->n_types, err, INVALID_ARGUMENT,
               "%s: Signature mismatch, have: %d components expected: %d", TD_NODE_STR(c->node), c->n_in - 1,
               q->n_types);
    for (int k = 0; k < q->n_types; k++) {
        int depth;
        TD_FAIL_IF(c->in[k + 1]->dtype != q->types[k], err, INVALID_ARGUMENT,
                   "%s: Signature mismatch, component %d is %s expected: %s", TD_NODE_STR(c->node), k,
                   td_dtype_name(c->in[k + 1]->dtype), td_dtype_name(q->types[k]));
        TD_FAIL_IF(q->types[k] == TD_RESOURCE, err, INVALID_ARGUMENT,
                   "%s: component %d is a resource, want a value", TD_NODE_STR(c->node), k);
        TD_TRY(td_tensor_list_nest(c->in[k + 1], &depth, err));
    }
    return TD_OK;
}

static enum td_code check_shape(const struct td_call *c, int k, const struct td_shape *want,
                                const struct td_shape *have, struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(want, have), err, INVALID_ARGUMENT,
               "%s: Shape mismatch in tuple component %d. Expected %s, got %s", TD_NODE_STR(c->node), k,
               TD_SHAPE_STR(want), TD_SHAPE_STR(have));
    return TD_OK;
}

static enum td_code new_parts(const struct td_queue *q, struct td_queue_element *e, struct td_err *err)
{
    e->parts = td_calloc((size_t)q->n_types + 1, sizeof *e->parts);
    return e->parts ? TD_OK : td_no_memory(err, (size_t)q->n_types * sizeof *e->parts, "queue element");
}

static enum td_code enqueue_run(struct td_call *c, struct td_err *err)
{
    struct td_queue *q;
    struct td_queue_element e = {0};
    TD_TRY(in_queue(c, &q, err));
    TD_TRY(check_components(c, q, err));
    for (int k = 0; k < q->n_types; k++) {
        TD_TRY(check_shape(c, k, &q->shapes[k], &c->in[k + 1]->shape, err));
    }
    TD_TRY(new_parts(q, &e, err));
    enum td_code rc = TD_OK;
    for (int k = 0; k < q->n_types && !rc; k++) {
        rc = td_keep(c, k + 1, &e.parts[k], err);
    }
    if (rc) {
        td_queue_clear(q, &e, 1);
        return rc;
    }
    return td_queue_put(c, q, &e, 1, err);
}

/* All components have the same number of rows, and rows of the declared shapes. */
static enum td_code check_rows(const struct td_call *c, const struct td_queue *q, int64_t *rows,
                               struct td_err *err)
{
    *rows = 0;
    for (int k = 0; k < q->n_types; k++) {
        const struct td_shape *s = &c->in[k + 1]->shape;
        TD_FAIL_IF(s->rank < 1, err, INVALID_ARGUMENT, "%s: component %d is a scalar, want rows to enqueue",
                   TD_NODE_STR(c->node), k);
        *rows = k == 0 ? s->dim[0] : *rows;
        struct td_shape vector = td_shape_vector(*rows), want;
        TD_TRY(td_shape_concat(&vector, &q->shapes[k], &want, err));
        TD_FAIL_IF(s->dim[0] != *rows, err, INVALID_ARGUMENT,
                   "%s: Shape mismatch in tuple component %d. Expected %s, got %s", TD_NODE_STR(c->node), k,
                   TD_SHAPE_STR(&want), TD_SHAPE_STR(s));
        TD_TRY(check_shape(c, k, &want, s, err));
    }
    return TD_OK;
}

/* Part k of every element is a row of *src, which stays the caller's. */
static void split_rows(struct td_queue_element *items, int64_t rows, int k, const struct td_tensor *src)
{
    for (int64_t i = 0; i < rows; i++) {
        struct td_tensor *t = &items[i].parts[k];
        td_tensor_rows(t, src, i, i + 1);
        t->shape.rank--;
        memmove(t->shape.dim, t->shape.dim + 1, (size_t)t->shape.rank * sizeof *t->shape.dim);
    }
}

static enum td_code enqueue_many_run(struct td_call *c, struct td_err *err)
{
    struct td_queue *q;
    int64_t rows;
    TD_TRY(in_queue(c, &q, err));
    TD_TRY(check_components(c, q, err));
    TD_TRY(check_rows(c, q, &rows, err));
    struct td_queue_element *items = td_calloc((size_t)rows + 1, sizeof *items);
    if (!items) {
        return td_no_memory(err, (size_t)rows * sizeof *items, "queue elements");
    }
    enum td_code rc = TD_OK;
    for (int64_t i = 0; i < rows && !rc; i++) {
        rc = new_parts(q, &items[i], err);
    }
    for (int k = 0; k < q->n_types && !rc; k++) {
        struct td_tensor src = {0};
        rc = td_keep(c, k + 1, &src, err);
        if (!rc) {
            split_rows(items, rows, k, &src);
        }
        td_tensor_clear(&src);
    }
    if (rc) {
        td_queue_clear(q, items, rows);
    } else {
        rc = td_queue_put(c, q, items, rows, err);
    }
    td_free(items);
    return rc;
}

/* ------------------------------------------------------------------ emptying */

static enum td_code check_outputs(const struct td_call *c, const struct td_queue *q, struct td_err *err)
{
    bool same = c->n_out == q->n_types;
    for (int k = 0; same && k < c->n_out; k++) {
        same = c->node->out_type[k] == q->types[k];
    }
    TD_FAIL_IF(!same, err, INVALID_ARGUMENT,
               "%s: Signature mismatch, component_types are not those of queue '%s', which has %d components",
               TD_NODE_STR(c->node), q->name, q->n_types);
    return TD_OK;
}

static enum td_code dequeue_run(struct td_call *c, struct td_err *err)
{
    struct td_queue *q;
    struct td_queue_element e = {0};
    int64_t got;
    TD_TRY(in_queue(c, &q, err));
    TD_TRY(check_outputs(c, q, err));
    TD_TRY(td_queue_take(c, q, &e, 1, false, &got, err));
    for (int k = 0; k < c->n_out; k++) {
        td_out_move(c, k, &e.parts[k]);
    }
    td_queue_clear(q, &e, 1);
    return TD_OK;
}

/* The shape that all parts k are padded to; without padding they must agree. */
static enum td_code part_shape(const struct td_call *c, const struct td_queue *q,
                               const struct td_queue_element *items, int64_t n, int k, struct td_shape *out,
                               struct td_err *err)
{
    *out = n > 0 ? items[0].parts[k].shape : q->shapes[k];
    for (int d = 0; d < out->rank && n == 0; d++) {
        out->dim[d] = out->dim[d] < 0 ? 0 : out->dim[d];
    }
    for (int64_t i = 1; i < n; i++) {
        const struct td_shape *s = &items[i].parts[k].shape;
        if (q->kind != TD_QUEUE_PADDING) {
            TD_TRY(check_shape(c, k, out, s, err));
            continue;
        }
        for (int d = 0; d < out->rank; d++) {
            out->dim[d] = s->dim[d] > out->dim[d] ? s->dim[d] : out->dim[d];
        }
    }
    return TD_OK;
}

/* Copies src into the corner of a zeroed block of shape `to`, axis by axis. */
static void put_padded(enum td_dtype dtype, char *dst, const struct td_shape *to, const char *src,
                       const struct td_shape *from, int axis)
{
    size_t size = td_dtype_size(dtype);
    if (axis == to->rank || td_shape_equal(to, from)) {
        td_elems_copy(dtype, dst, src, td_shape_range(from, axis, from->rank));
        return;
    }
    size_t to_row = (size_t)td_shape_range(to, axis + 1, to->rank) * size;
    size_t from_row = (size_t)td_shape_range(from, axis + 1, from->rank) * size;
    for (int64_t i = 0; i < from->dim[axis]; i++) {
        put_padded(dtype, dst + (size_t)i * to_row, to, src + (size_t)i * from_row, from, axis + 1);
    }
}

static enum td_code out_part(struct td_call *c, const struct td_queue *q,
                             const struct td_queue_element *items, int64_t n, int k, struct td_err *err)
{
    struct td_shape part, all, vector = td_shape_vector(n);
    struct td_tensor *out;
    TD_TRY(part_shape(c, q, items, n, k, &part, err));
    TD_TRY(td_shape_concat(&vector, &part, &all, err));
    TD_TRY(td_out(c, k, &all, &out, err));
    int64_t count = td_shape_count(&part);
    size_t row = (size_t)count * td_dtype_size(out->dtype);
    if (td_tensor_count(out) == 0) {
        return TD_OK;
    }
    if (!td_dtype_is_object(out->dtype)) {
        memset(out->data, 0, td_tensor_bytes(out));
    }
    for (int64_t i = 0; i < n; i++) {
        const struct td_tensor *t = &items[i].parts[k];
        if (td_tensor_count(t) > 0) {
            put_padded(out->dtype, (char *)out->data + (size_t)i * row, &part, t->data, &t->shape, 0);
        }
    }
    return TD_OK;
}

static enum td_code dequeue_n(struct td_call *c, struct td_queue *q, int64_t n, bool up_to,
                              struct td_err *err)
{
    int64_t got = 0;
    struct td_queue_element *items = td_calloc((size_t)n + 1, sizeof *items);
    if (!items) {
        return td_no_memory(err, (size_t)n * sizeof *items, "queue elements");
    }
    enum td_code rc = n > 0 ? td_queue_take(c, q, items, n, up_to, &got, err) : TD_OK;
    for (int k = 0; k < c->n_out && !rc; k++) {
        rc = out_part(c, q, items, got, k, err);
    }
    td_queue_clear(q, items, got);
    td_free(items);
    return rc;
}

static enum td_code dequeue_rows(struct td_call *c, bool up_to, struct td_err *err)
{
    struct td_queue *q;
    TD_TRY(in_queue(c, &q, err));
    TD_TRY(check_outputs(c, q, err));
    TD_FAIL_IF(td_tensor_count(c->in[1]) != 1, err, INVALID_ARGUMENT,
               "%s: n must be scalar, but had shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]->shape));
    int64_t n = td_tensor_int(c->in[1], 0);
    TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT, "%s: DequeueManyOp requested %lld < 0 elements",
               TD_NODE_STR(c->node), (long long)n);
    bool whole = q->has_shapes;
    for (int k = 0; k < q->n_types && q->kind != TD_QUEUE_PADDING; k++) {
        whole = whole && td_shape_known(&q->shapes[k]);
    }
    TD_FAIL_IF(!whole, err, INVALID_ARGUMENT,
               "%s: FIFOQueue's DequeueMany and DequeueUpTo require the components to have specified shapes.",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(n > TD_LIST_LIMIT, err, RESOURCE_EXHAUSTED, "%s: dequeuing %lld elements, want at most %lld",
               TD_NODE_STR(c->node), (long long)n, (long long)TD_LIST_LIMIT);
    return dequeue_n(c, q, n, up_to, err);
}

static enum td_code dequeue_many_run(struct td_call *c, struct td_err *err)
{
    return dequeue_rows(c, false, err);
}

static enum td_code dequeue_up_to_run(struct td_call *c, struct td_err *err)
{
    return dequeue_rows(c, true, err);
}

/* ------------------------------------------------------------------ closing and asking */

static enum td_code close_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &td_queue_type, &o, err));
    return td_queue_close(c, (struct td_queue *)o, td_attr_bool(c->node, "cancel_pending_enqueues"), err);
}

static enum td_code size_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    struct td_tensor *out;
    bool closed;
    TD_TRY(td_in_resource(c, 0, &td_queue_type, &o, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_DATA(out, int32_t)[0] = (int32_t)td_queue_size((struct td_queue *)o, &closed);
    return TD_OK;
}

static enum td_code is_closed_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    struct td_tensor *out;
    bool closed;
    TD_TRY(td_in_resource(c, 0, &td_queue_type, &o, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    (void)td_queue_size((struct td_queue *)o, &closed);
    TD_DATA(out, td_bool)[0] = closed;
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define MAKE_ROW(opname, attrs, fn)                                                                          \
    {                                                                                                        \
        .name = opname, .sig = "() -> (handle:resource) {" attrs "}",                                        \
        .flags = TD_OP_STATEFUL | TD_OP_HANDLE, .infer = td_infer_scalar,                                    \
        .kernels = TD_KERNEL("queue.cpu", fn)                                                                \
    }
#define ROW(opname, signature, more, shapes, fn)                                                             \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_STATEFUL | (more), .infer = shapes,                 \
        .kernels = TD_KERNEL("queue.cpu", fn)                                                                \
    }
#define NAMES "container:string=''; shared_name:string=''"
#define TAKE_ATTRS "{component_types:list(type); timeout_ms:int=-1}"

const struct td_op td_ops_queue_ops[] = {
    MAKE_ROW("FIFOQueueV2", "component_types:list(type); shapes:list(shape)=[]; capacity:int=-1; " NAMES,
             fifo_run),
    MAKE_ROW("PaddingFIFOQueueV2",
             "component_types:list(type); shapes:list(shape)=[]; capacity:int=-1; " NAMES, padding_run),
    MAKE_ROW("PriorityQueueV2", "component_types:list(type)=[]; shapes:list(shape); capacity:int=-1; " NAMES,
             priority_run),
    MAKE_ROW("RandomShuffleQueueV2",
             "component_types:list(type); shapes:list(shape)=[]; capacity:int=-1; min_after_dequeue:int=0; "
             "seed:int=0; "
             "seed2:int=0; " NAMES,
             shuffle_run),
    ROW("QueueEnqueueV2",
        "(handle:resource, components:Tcomponents) -> () {Tcomponents:list(type); timeout_ms:int=-1}",
        TD_OP_KEEPS, NULL, enqueue_run),
    ROW("QueueEnqueueManyV2",
        "(handle:resource, components:Tcomponents) -> () {Tcomponents:list(type); timeout_ms:int=-1}",
        TD_OP_KEEPS, NULL, enqueue_many_run),
    ROW("QueueDequeueV2", "(handle:resource) -> (components:component_types) " TAKE_ATTRS, 0, NULL,
        dequeue_run),
    ROW("QueueDequeueManyV2", "(handle:resource, n:int32) -> (components:component_types) " TAKE_ATTRS, 0,
        NULL, dequeue_many_run),
    ROW("QueueDequeueUpToV2", "(handle:resource, n:int32) -> (components:component_types) " TAKE_ATTRS, 0,
        NULL, dequeue_up_to_run),
    ROW("QueueCloseV2", "(handle:resource) -> () {cancel_pending_enqueues:bool=false}", 0, NULL, close_run),
    ROW("QueueSizeV2", "(handle:resource) -> (size:int32) {}", 0, td_infer_scalar, size_run),
    ROW("QueueIsClosedV2", "(handle:resource) -> (is_closed:bool) {}", 0, td_infer_scalar, is_closed_run),
    {.name = NULL},
};
