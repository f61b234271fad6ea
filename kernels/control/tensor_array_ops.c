/* kernels/control/tensor_array_ops.c - the ops of TensorArrays (tensor_array.h).
 *
 * Each op finds the array by its handle and locks it, does its work through tensor_array.c, and unlocks it.
 * What is slow comes outside of the lock: an input is kept before, and elements that were read are stacked or
 * joined after. Elements of a scattered or split tensor are rows of it, not copies.
 *
 * A gradient's array is found by "<name>@<source>" among those of its array, and made there the first time;
 * from then on the array cannot grow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/control/tensor_array.h"
#include "kernels/control/tensor_array_grad.h"
#include "kernels/control/tensor_array_lists.h"
#include "kernels/control/list_batchable.h"
#include "kernels/control/tensor_list.h"

/* ------------------------------------------------------------------ making and ending */

static enum td_code pair_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    c->out[0] = c->out[1] = td_shape_scalar();
    return TD_OK;
}

static enum td_code new_run(struct td_call *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    struct td_array *a;
    TD_FAIL_IF(c->in[0]->shape.rank != 0, err, INVALID_ARGUMENT,
               "%s: TensorArray size must be scalar, but had shape: %s", TD_NODE_STR(n),
               TD_SHAPE_STR(&c->in[0]->shape));
    int64_t size = td_tensor_int(c->in[0], 0);
    TD_FAIL_IF(size < 0, err, INVALID_ARGUMENT, "%s: Size should be >= 0.", TD_NODE_STR(n));
    const char *name = td_attr_str(n, "tensor_array_name");
    TD_TRY(td_array_new(name[0] ? name : n->name, td_attr_type(n, "dtype"), td_attr_shape(n, "element_shape"),
                        size, &a, err));
    a->dynamic = td_attr_bool(n, "dynamic_size");
    a->clear_after_read = td_attr_bool(n, "clear_after_read");
    a->identical = td_attr_bool(n, "identical_element_shapes");
    return td_array_out(c, a, err);
}

/* Element shapes of the gradient array: those of the elements, after the `extra` dimensions. */
static enum td_code copy_shapes(const struct td_array *a, struct td_array *g, const struct td_shape *extra,
                                struct td_err *err)
{
    TD_TRY(td_shape_concat(extra, &a->shape, &g->shape, err));
    for (int64_t i = 0; i < a->n; i++) {
        if (a->items[i].shape.rank >= 0) {
            TD_TRY(td_shape_concat(extra, &a->items[i].shape, &g->items[i].shape, err));
        }
    }
    return TD_OK;
}

/* The array a, locked, gets one more gradient array. */
static enum td_code add_grad(struct td_array *a, const char *name, const struct td_shape *extra,
                             struct td_array **out, struct td_err *err)
{
    struct td_array *g;
    struct td_array **grads = td_realloc(a->grads, (size_t)a->n_grads + 1, sizeof *grads);
    if (!grads) {
        return td_no_memory(err, sizeof *grads, "TensorArray gradients");
    }
    a->grads = grads;
    TD_TRY(td_array_new(name, a->dtype, &a->shape, a->n, &g, err));
    enum td_code rc = copy_shapes(a, g, extra, err);
    if (rc) {
        td_obj_unref(&g->obj);
        return rc;
    }
    g->clear_after_read = true;
    g->identical = a->identical;
    g->aggregate = true;
    a->dynamic = false; /* the gradient has as many elements as there are now */
    a->grads[a->n_grads++] = g;
    *out = g;
    return TD_OK;
}

static enum td_code find_grad(struct td_call *c, struct td_array *a, const struct td_shape *extra,
                              struct td_array **out, struct td_err *err)
{
    const char *source = td_attr_str(c->node, "source");
    size_t bytes = strlen(a->name) + strlen(source) + 2;
    void *name;
    TD_TRY(td_scratch(c, bytes, &name, err));
    memcpy(name, a->name, strlen(a->name));
    ((char *)name)[strlen(a->name)] = '@';
    memcpy((char *)name + strlen(a->name) + 1, source, strlen(source) + 1);
    for (int i = 0; i < a->n_grads; i++) {
        if (strcmp(a->grads[i]->name, name) == 0) {
            *out = a->grads[i];
            return TD_OK;
        }
    }
    TD_FAIL_IF(a->n_grads >= 64, err, RESOURCE_EXHAUSTED, "TensorArray %s: %d gradients, want at most 64",
               a->name, a->n_grads);
    return add_grad(a, name, extra, out, err);
}

static enum td_code make_grad(struct td_call *c, const struct td_shape *extra, struct td_err *err)
{
    struct td_array *a, *g = NULL;
    TD_TRY(td_array_in(c, &a, err));
    enum td_code rc = find_grad(c, a, extra, &g, err);
    if (!rc) {
        td_obj_ref(&g->obj);
    }
    pthread_mutex_unlock(&a->mu);
    return rc ? rc : td_array_out(c, g, err);
}

static enum td_code grad_run(struct td_call *c, struct td_err *err)
{
    struct td_shape none = td_shape_scalar();
    return make_grad(c, &none, err);
}

static enum td_code grad_with_shape_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *t = c->in[2];
    struct td_shape extra;
    int64_t dims[TD_MAX_RANK], n = td_tensor_count(t);
    TD_FAIL_IF(t->shape.rank != 1 || n > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: shape_to_prepend has shape %s, want a vector of at most %d", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&t->shape), TD_MAX_RANK);
    for (int64_t i = 0; i < n; i++) {
        dims[i] = td_tensor_int(t, i);
        TD_FAIL_IF(dims[i] < 0, err, INVALID_ARGUMENT, "%s: shape_to_prepend[%lld] is %lld, want at least 0",
                   TD_NODE_STR(c->node), (long long)i, (long long)dims[i]);
    }
    TD_TRY(td_shape_make(&extra, dims, (int)n, err));
    return make_grad(c, &extra, err);
}

static enum td_code size_run(struct td_call *c, struct td_err *err)
{
    struct td_array *a;
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_array_in(c, &a, err));
    TD_DATA(out, int32_t)[0] = (int32_t)a->n;
    pthread_mutex_unlock(&a->mu);
    return TD_OK;
}

static enum td_code close_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &td_array_type, &o, err));
    struct td_array *a = (struct td_array *)o;
    pthread_mutex_lock(&a->mu);
    a->closed = true;
    td_array_drop(a);
    pthread_mutex_unlock(&a->mu);
    return TD_OK;
}

/* ------------------------------------------------------------------ single elements */

static enum td_code scalar_index(const struct td_call *c, int64_t *i, struct td_err *err)
{
    TD_FAIL_IF(c->in[1]->shape.rank != 0, err, INVALID_ARGUMENT,
               "%s: TensorArray index must be scalar, but had shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]->shape));
    *i = td_tensor_int(c->in[1], 0);
    return TD_OK;
}

static enum td_code read_checked(struct td_array *a, enum td_dtype dtype, int64_t i, struct td_tensor *t,
                                 struct td_err *err)
{
    TD_TRY(td_array_check_read(a, dtype, err));
    return td_array_read(a, i, t, err);
}

static enum td_code read_run(struct td_call *c, struct td_err *err)
{
    struct td_array *a;
    struct td_tensor t;
    int64_t i;
    TD_TRY(scalar_index(c, &i, err));
    TD_TRY(td_array_in(c, &a, err));
    enum td_code rc = read_checked(a, c->node->out_type[0], i, &t, err);
    pthread_mutex_unlock(&a->mu);
    if (rc) {
        return rc;
    }
    td_out_move(c, 0, &t);
    return TD_OK;
}

static enum td_code write_run(struct td_call *c, struct td_err *err)
{
    struct td_array *a;
    struct td_tensor t;
    int64_t i;
    int depth;
    TD_TRY(scalar_index(c, &i, err));
    TD_TRY(td_tensor_list_nest(c->in[2], &depth, err));
    TD_TRY(td_keep(c, 2, &t, err));
    enum td_code rc = td_array_in(c, &a, err);
    if (!rc) {
        rc = td_array_write(a, i, &t, err);
        pthread_mutex_unlock(&a->mu);
    }
    td_tensor_clear(&t);
    return rc ? rc : td_array_out_flow(c, 0, err);
}

/* ------------------------------------------------------------------ many elements at once */

/* Reads elements indices[k] (NULL: all) into items, n of them, the array locked. */
static enum td_code read_many(struct td_array *a, const struct td_tensor *indices, struct td_tensor *items,
                              int64_t n, struct td_err *err)
{
    for (int64_t k = 0; k < n; k++) {
        TD_TRY(td_array_read(a, indices ? td_tensor_int(indices, k) : k, &items[k], err));
    }
    return TD_OK;
}

static void clear_many(struct td_tensor *items, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        td_tensor_clear(&items[k]);
    }
}

/* With nothing to read, only the attribute tells the shape. */
static enum td_code empty_shape(const struct td_call *c, const char *attr, struct td_shape *shape,
                                struct td_err *err)
{
    *shape = *td_attr_shape(c->node, attr);
    TD_FAIL_IF(
        !td_shape_known(shape), err, UNIMPLEMENTED,
        "%s: TensorArray has size zero, but element shape %s is not fully defined. Currently only static "
        "shapes are supported when packing zero-size TensorArrays.",
        TD_NODE_STR(c->node), TD_SHAPE_STR(shape));
    return TD_OK;
}

/* All items must have the shape of the first, which is to match the attribute; out = [n, shape...]. */
static enum td_code stack(struct td_call *c, const struct td_tensor *items, int64_t n,
                          const struct td_shape *shape, struct td_err *err)
{
    struct td_shape first = td_shape_vector(n), all;
    struct td_tensor *out;
    const struct td_shape *want = td_attr_shape(c->node, "element_shape");
    TD_FAIL_IF(!td_shape_compatible(want, shape), err, INVALID_ARGUMENT,
               "%s: TensorArray elements have shape %s, element_shape says %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(shape), TD_SHAPE_STR(want));
    for (int64_t k = 1; k < n; k++) {
        TD_FAIL_IF(
            !td_shape_equal(shape, &items[k].shape), err, INVALID_ARGUMENT,
            "%s: TensorArray has inconsistent shapes.  Index 0 has shape: %s but index %lld has shape: %s",
            TD_NODE_STR(c->node), TD_SHAPE_STR(shape), (long long)k, TD_SHAPE_STR(&items[k].shape));
    }
    TD_TRY(td_shape_concat(&first, shape, &all, err));
    TD_TRY(td_out(c, 0, &all, &out, err));
    int64_t count = td_shape_count(shape);
    for (int64_t k = 0; k < n && count > 0 && !td_work_spent(count); k++) {
        char *dst = (char *)out->data + (size_t)(k * count) * td_dtype_size(out->dtype);
        td_elems_copy(out->dtype, dst, items[k].data, count);
    }
    return TD_OK;
}

static enum td_code gather_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *indices = c->in[1];
    struct td_array *a;
    struct td_shape shape;
    void *mem;
    TD_FAIL_IF(indices->shape.rank != 1, err, INVALID_ARGUMENT,
               "%s: Expected indices to be a vector, but received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&indices->shape));
    int64_t n = td_tensor_count(indices);
    TD_TRY(td_scratch(c, (size_t)n * sizeof(struct td_tensor) + 1, &mem, err));
    struct td_tensor *items = memset(mem, 0, (size_t)n * sizeof *items + 1);
    TD_TRY(td_array_in(c, &a, err));
    enum td_code rc = td_array_check_read(a, c->node->out_type[0], err);
    if (!rc) {
        rc = n > 0 ? read_many(a, indices, items, n, err) : empty_shape(c, "element_shape", &shape, err);
    }
    pthread_mutex_unlock(&a->mu);
    if (!rc) {
        rc = stack(c, items, n, n > 0 ? &items[0].shape : &shape, err);
    }
    clear_many(items, n);
    return rc;
}

static enum td_code check_scatter(const struct td_call *c, const struct td_array *a, struct td_err *err)
{
    const struct td_shape *indices = &c->in[1]->shape, *value = &c->in[2]->shape;
    TD_FAIL_IF(indices->rank != 1, err, INVALID_ARGUMENT,
               "%s: Expected indices to be a vector, but received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(indices));
    TD_FAIL_IF(value->rank < 1, err, INVALID_ARGUMENT,
               "%s: Input value for unpack must be at least a vector but received shape: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(value));
    TD_FAIL_IF(indices->dim[0] != value->dim[0], err, INVALID_ARGUMENT,
               "%s: Expected len(indices) == values.shape[0], but saw: %lld vs. %lld", TD_NODE_STR(c->node),
               (long long)indices->dim[0], (long long)value->dim[0]);
    for (int64_t k = 0; k < indices->dim[0]; k++) {
        int64_t i = td_tensor_int(c->in[1], k);
        TD_FAIL_IF(i >= a->n && !a->dynamic, err, INVALID_ARGUMENT,
                   "%s: Max scatter index must be < array size (%lld vs. %lld)", TD_NODE_STR(c->node),
                   (long long)i, (long long)a->n);
    }
    return td_array_check_write(a, c->in[2]->dtype, err);
}

/* Writes rows [from, to) of src as element i; `drop` removes axis 0 of a single row. */
static enum td_code write_rows(struct td_array *a, int64_t i, const struct td_tensor *src, int64_t from,
                               int64_t to, bool drop, struct td_err *err)
{
    struct td_tensor row;
    td_tensor_rows(&row, src, from, to);
    if (drop) {
        row.shape.rank--;
        memmove(row.shape.dim, row.shape.dim + 1, (size_t)row.shape.rank * sizeof *row.shape.dim);
    }
    enum td_code rc = td_array_write(a, i, &row, err);
    td_tensor_clear(&row);
    return rc;
}

static enum td_code scatter_run(struct td_call *c, struct td_err *err)
{
    struct td_array *a;
    struct td_tensor src;
    int depth;
    TD_TRY(td_tensor_list_nest(c->in[2], &depth, err));
    TD_TRY(td_keep(c, 2, &src, err));
    enum td_code rc = td_array_in(c, &a, err);
    if (!rc) {
        rc = check_scatter(c, a, err);
        for (int64_t k = 0; !rc && k < td_tensor_count(c->in[1]); k++) {
            rc = write_rows(a, td_tensor_int(c->in[1], k), &src, k, k + 1, true, err);
        }
        pthread_mutex_unlock(&a->mu);
    }
    td_tensor_clear(&src);
    return rc ? rc : td_array_out_flow(c, 0, err);
}

static enum td_code check_split(const struct td_call *c, const struct td_array *a, struct td_err *err)
{
    const struct td_shape *value = &c->in[1]->shape, *lengths = &c->in[2]->shape;
    int64_t sum = 0;
    TD_FAIL_IF(lengths->rank != 1, err, INVALID_ARGUMENT,
               "%s: Expected lengths to be a vector, received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(lengths));
    TD_FAIL_IF(value->rank < 1, err, INVALID_ARGUMENT,
               "%s: Expected value to be at least a vector, but received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(value));
    for (int64_t k = 0; k < lengths->dim[0]; k++) {
        int64_t n = td_tensor_int(c->in[2], k);
        TD_FAIL_IF(n < 0 || !td_i64_add(sum, n, &sum), err, INVALID_ARGUMENT,
                   "%s: lengths[%lld] is %lld, want >= 0", TD_NODE_STR(c->node), (long long)k, (long long)n);
    }
    TD_FAIL_IF(
        sum != value->dim[0], err, INVALID_ARGUMENT,
        "%s: Expected sum of lengths to be equal to values.shape[0], but sum of lengths is %lld and value's "
        "shape is: %s",
        TD_NODE_STR(c->node), (long long)sum, TD_SHAPE_STR(value));
    TD_FAIL_IF(
        a->n != lengths->dim[0] && (!a->dynamic || a->n > lengths->dim[0]), err, INVALID_ARGUMENT,
        "%s: TensorArray's size is not equal to the size of lengths (%lld vs. %lld), and the TensorArray is "
        "not marked as dynamically resizeable",
        TD_NODE_STR(c->node), (long long)a->n, (long long)lengths->dim[0]);
    return td_array_check_write(a, c->in[1]->dtype, err);
}

static enum td_code split_run(struct td_call *c, struct td_err *err)
{
    struct td_array *a;
    struct td_tensor src;
    int64_t at = 0;
    int depth;
    TD_TRY(td_tensor_list_nest(c->in[1], &depth, err));
    TD_TRY(td_keep(c, 1, &src, err));
    enum td_code rc = td_array_in(c, &a, err);
    if (!rc) {
        rc = check_split(c, a, err);
        for (int64_t k = 0; !rc && k < td_tensor_count(c->in[2]); k++) {
            int64_t n = td_tensor_int(c->in[2], k);
            rc = write_rows(a, k, &src, at, at + n, false, err);
            at += n;
        }
        pthread_mutex_unlock(&a->mu);
    }
    td_tensor_clear(&src);
    return rc ? rc : td_array_out_flow(c, 0, err);
}

/* Shape of the joined items; checks that they agree behind dimension 0. */
static enum td_code joined_shape(const struct td_call *c, const struct td_tensor *items, int64_t n,
                                 struct td_shape *all, struct td_err *err)
{
    int64_t rows = 0;
    for (int64_t k = 0; k < n; k++) {
        struct td_shape s = items[k].shape, first = items[0].shape;
        TD_FAIL_IF(s.rank < 1, err, INVALID_ARGUMENT,
                   "%s: Concat saw a scalar shape at index %lld but requires at least vectors.  Did you mean "
                   "to call "
                   "pack?",
                   TD_NODE_STR(c->node), (long long)k);
        rows += s.dim[0];
        s.dim[0] = first.dim[0] = 0;
        TD_FAIL_IF(!td_shape_equal(&s, &first), err, INVALID_ARGUMENT,
                   "%s: TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: %s "
                   "but index "
                   "%lld has (excepting dimension 0) shape: %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&items[0].shape), (long long)k,
                   TD_SHAPE_STR(&items[k].shape));
    }
    *all = items[0].shape;
    all->dim[0] = rows;
    return TD_OK;
}

static enum td_code join(struct td_call *c, const struct td_tensor *items, int64_t n,
                         const struct td_shape *all, struct td_err *err)
{
    struct td_shape vector = td_shape_vector(n);
    struct td_tensor *out, *lengths;
    TD_TRY(td_out(c, 0, all, &out, err));
    TD_TRY(td_out(c, 1, &vector, &lengths, err));
    size_t at = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t count = td_tensor_count(&items[k]);
        TD_DATA(lengths, int64_t)[k] = items[k].shape.dim[0];
        if (count > 0) {
            td_elems_copy(out->dtype, (char *)out->data + at, items[k].data, count);
            at += (size_t)count * td_dtype_size(out->dtype);
        }
    }
    return TD_OK;
}

static enum td_code concat_empty(struct td_call *c, struct td_err *err)
{
    struct td_shape none = td_shape_vector(0), rest, all;
    TD_TRY(empty_shape(c, "element_shape_except0", &rest, err));
    TD_TRY(td_shape_concat(&none, &rest, &all, err));
    return join(c, NULL, 0, &all, err);
}

/* All n elements of a (caller holds a->mu) into *items, scratch that the caller clears, also on failure.
 * There may be none: then *items is NULL, and the output is made at once. */
static enum td_code concat_read(struct td_call *c, struct td_array *a, struct td_tensor **items, int64_t *n,
                                struct td_err *err)
{
    void *mem;
    TD_TRY(td_array_check_read(a, c->node->out_type[0], err));
    TD_TRY(td_scratch(c, (size_t)a->n * sizeof **items + 1, &mem, err));
    if (a->n == 0) {
        return concat_empty(c, err);
    }
    *n = a->n;
    *items = memset(mem, 0, (size_t)*n * sizeof **items);
    return read_many(a, NULL, *items, *n, err);
}

static enum td_code concat_items(struct td_call *c, struct td_tensor *items, int64_t n, struct td_err *err)
{
    struct td_shape all;
    TD_TRY(joined_shape(c, items, n, &all, err));
    return join(c, items, n, &all, err);
}

static enum td_code concat_run(struct td_call *c, struct td_err *err)
{
    struct td_array *a;
    struct td_tensor *items = NULL;
    int64_t n = 0;
    TD_TRY(td_array_in(c, &a, err));
    enum td_code rc = concat_read(c, a, &items, &n, err);
    pthread_mutex_unlock(&a->mu);
    if (rc == TD_OK && items != NULL) {
        rc = concat_items(c, items, n, err);
    }
    clear_many(items, n);
    return rc;
}

/* ------------------------------------------------------------------ the table */

#define ARRAY_NEW TD_BATCHABLE(td_batchable_array_new, .any_input = true)
#define ARRAY_WRITE TD_BATCHABLE(td_batchable_array_write, .any_input = true)
#define ARRAY_READ TD_BATCHABLE(td_batchable_array_read, .any_input = true)
#define ARRAY_GATHER TD_BATCHABLE(td_batchable_array_gather, .any_input = true)
#define ARRAY_SCATTER TD_BATCHABLE(td_batchable_array_scatter, .any_input = true)
#define ARRAY_SIZE TD_BATCHABLE(td_batchable_array_size, .any_input = true)
#define READ TD_BATCHABLE(td_batchable_read)
#define NONE NULL /* not known to keep rows apart */
#define ROW(opname, signature, more, axes, shapes, fn, back, lists)                                          \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_STATEFUL | (more), .batchable = axes,               \
        .infer = shapes, .kernels = TD_KERNEL("tensor_array.cpu", fn), .grad = back, .array = lists          \
    }

const struct td_op td_ops_tensor_array_ops[] = {
    ROW("TensorArrayV3",
        "(size:int32) -> (handle:resource, flow:float) {dtype:type; element_shape:shape=?; "
        "dynamic_size:bool=false; "
        "clear_after_read:bool=true; identical_element_shapes:bool=false; tensor_array_name:string=''}",
        0, ARRAY_NEW, pair_infer, new_run, td_not_differentiable, &td_array_new_rule),
    ROW("TensorArrayGradV3",
        "(handle:resource, flow_in:float) -> (grad_handle:resource, flow_out:float) {source:string}", 0, NONE,
        pair_infer, grad_run, td_not_differentiable, NULL),
    ROW("TensorArrayGradWithShape",
        "(handle:resource, flow_in:float, shape_to_prepend:int32) -> (grad_handle:resource, flow_out:float) "
        "{source:string}",
        0, NONE, pair_infer, grad_with_shape_run, td_not_differentiable, NULL),
    ROW("TensorArrayWriteV3",
        "(handle:resource, index:int32, value:T, flow_in:float) -> (flow_out:float) {T:type}", TD_OP_KEEPS,
        ARRAY_WRITE, td_infer_scalar, write_run, td_array_write_grad, &td_array_write_rule),
    ROW("TensorArrayReadV3", "(handle:resource, index:int32, flow_in:float) -> (value:dtype) {dtype:type}", 0,
        ARRAY_READ, NULL, read_run, td_array_read_grad, &td_array_read_rule),
    ROW("TensorArrayGatherV3",
        "(handle:resource, indices:int32, flow_in:float) -> (value:dtype) {dtype:type; "
        "element_shape:shape=?}",
        0, ARRAY_GATHER, NULL, gather_run, td_array_gather_grad, &td_array_gather_rule),
    ROW("TensorArrayScatterV3",
        "(handle:resource, indices:int32, value:T, flow_in:float) -> (flow_out:float) {T:type}", TD_OP_KEEPS,
        ARRAY_SCATTER, td_infer_scalar, scatter_run, td_array_scatter_grad, &td_array_scatter_rule),
    ROW("TensorArrayConcatV3",
        "(handle:resource, flow_in:float) -> (value:dtype, lengths:int64) {dtype:type; "
        "element_shape_except0:shape=?}",
        0, NONE, NULL, concat_run, td_array_concat_grad, NULL),
    ROW("TensorArraySplitV3",
        "(handle:resource, value:T, lengths:int64, flow_in:float) -> (flow_out:float) {T:type}", TD_OP_KEEPS,
        NONE, td_infer_scalar, split_run, td_array_split_grad, NULL),
    ROW("TensorArraySizeV3", "(handle:resource, flow_in:float) -> (size:int32) {}", 0, ARRAY_SIZE,
        td_infer_scalar, size_run, td_not_differentiable, &td_array_size_rule),
    ROW("TensorArrayCloseV3", "(handle:resource) -> () {}", TD_OP_FREE, READ, NULL, close_run,
        td_not_differentiable, NULL),
    {.name = NULL},
};
