/* kernels/state/lookup.c - lookup tables as ops: handles, find, insert, remove, import, export, size.
 *
 * A handle names a table by (container, shared_name), or by the node's own name; the version-1 ops carry the
 * same object on a string reference edge. Filling a table once (InitializeTable*, and importing into a static
 * one) is in lookup_init.c, the map itself in table.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/state/lookup_init.h"
#include "kernels/ops.h"
#include "kernels/state/table.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ handles */

static bool starts(const char *s, const char *head)
{
    return strncmp(s, head, strlen(head)) == 0;
}

static enum td_table_kind kind_of(const struct td_node *n)
{
    const char *name = n->op_name + (starts(n->op_name, "Anonymous") ? 9 : 0);
    return starts(name, "MutableDense")                ? TD_TABLE_DENSE
           : starts(name, "MutableHashTableOfTensors") ? TD_TABLE_TENSORS
           : starts(name, "Mutable")                   ? TD_TABLE_MUTABLE
                                                       : TD_TABLE_STATIC;
}

static bool dense_key_shape(const struct td_shape *s)
{
    return s->rank <= 1; /* or unknown */
}

static enum td_code check_value_shape(const struct td_node *n, enum td_table_kind kind, struct td_err *err)
{
    if (kind != TD_TABLE_TENSORS && kind != TD_TABLE_DENSE) {
        return TD_OK;
    }
    const struct td_shape *s = td_attr_shape(n, "value_shape");
    TD_FAIL_IF(!td_shape_known(s) || td_shape_count(s) < 0, err, INVALID_ARGUMENT,
               "%s: value_shape %s, want a known shape", TD_NODE_STR(n), TD_SHAPE_STR(s));
    TD_FAIL_IF(kind == TD_TABLE_TENSORS && s->rank != 1, err, INVALID_ARGUMENT,
               "%s: Default value must be a vector, got shape %s", TD_NODE_STR(n), TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank > 1, err, INVALID_ARGUMENT,
               "%s: Empty value must be a scalar or a vector, got shape %s", TD_NODE_STR(n), TD_SHAPE_STR(s));
    return TD_OK;
}

static enum td_code check_dense_attrs(const struct td_node *n, struct td_err *err)
{
    int64_t buckets = td_attr_int(n, "initial_num_buckets");
    double load = td_attr_float(n, "max_load_factor");
    TD_FAIL_IF(buckets < 4 || (buckets & (buckets - 1)) != 0, err, INVALID_ARGUMENT,
               "%s: Number of buckets must be at least 4 and a power of 2, got: %lld", TD_NODE_STR(n),
               (long long)buckets);
    TD_FAIL_IF(!(load > 0 && load < 1), err, INVALID_ARGUMENT,
               "%s: max_load_factor must be between 0 and 1, got: %g", TD_NODE_STR(n), load);
    return TD_OK;
}

static enum td_code handle_infer(struct td_infer *c, struct td_err *err)
{
    enum td_table_kind kind = kind_of(c->node);
    c->out[0] = td_shape_scalar();
    TD_TRY(check_value_shape(c->node, kind, err));
    if (kind != TD_TABLE_DENSE) {
        return TD_OK;
    }
    TD_TRY(check_dense_attrs(c->node, err));
    TD_FAIL_IF(!dense_key_shape(&c->in[0]), err, INVALID_ARGUMENT,
               "%s: Empty key must be a scalar or a vector, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    TD_FAIL_IF(c->n_in > 1 && !td_shape_compatible(&c->in[0], &c->in[1]), err, INVALID_ARGUMENT,
               "%s: Empty and deleted keys must have same shape, got shapes: %s and %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    return TD_OK;
}

static enum td_code read_opts(struct td_call *c, struct td_table_opts *o, struct td_err *err)
{
    *o = (struct td_table_opts){.node = c->node,
                                .kind = kind_of(c->node),
                                .key_dtype = td_attr_type(c->node, "key_dtype"),
                                .value_dtype = td_attr_type(c->node, "value_dtype"),
                                .value_shape = td_shape_scalar()};
    if (o->kind == TD_TABLE_TENSORS || o->kind == TD_TABLE_DENSE) {
        o->value_shape = *td_attr_shape(c->node, "value_shape");
    }
    if (o->kind == TD_TABLE_DENSE) {
        o->empty_key = c->in[0];
        o->deleted_key = c->n_in > 1 ? c->in[1] : NULL;
    }
    if (o->deleted_key) {
        TD_FAIL_IF(td_table_rows_equal(o->key_dtype, o->empty_key->data, o->deleted_key->data,
                                       td_tensor_count(o->empty_key)),
                   err, INVALID_ARGUMENT, "%s: Empty and deleted keys cannot be equal", TD_NODE_STR(c->node));
    }
    return TD_OK;
}

static enum td_code anonymous_run(struct td_call *c, struct td_err *err)
{
    struct td_table_opts o;
    struct td_obj *t;
    TD_TRY(read_opts(c, &o, err));
    TD_TRY(td_table_create(&o, &t, err));
    return td_out_obj(c, 0, t, err);
}

static enum td_code handle_run(struct td_call *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    const char *name = td_attr_str(n, "shared_name");
    char own[512];
    struct td_table_opts o;
    struct td_obj *obj;
    TD_TRY(read_opts(c, &o, err));
    if (!name[0]) {
        bool share = td_attr_bool(n, "use_node_name_sharing");
        snprintf(own, sizeof(own), "%s%s%s%s", share ? "" : "_private/", share ? "" : n->function,
                 share ? "" : "/", n->name);
        name = own;
    }
    struct td_resource_key key = {&td_table_type, td_attr_str(n, "container"), name};
    TD_TRY(td_resource_get(c, &key, td_table_create, &o, &obj, err));
    const struct td_table *t = (const struct td_table *)obj;
    TD_FAIL_IF(t->kind != o.kind || t->key_dtype != o.key_dtype || t->value_dtype != o.value_dtype, err,
               INVALID_ARGUMENT,
               "%s: Conflicting key/value dtypes %s->%s with %s-%s for table %s, or another kind of table",
               TD_NODE_STR(n), td_dtype_name(o.key_dtype), td_dtype_name(o.value_dtype),
               td_dtype_name(t->key_dtype), td_dtype_name(t->value_dtype), name);
    return td_out_obj(c, 0, td_obj_ref(obj), err);
}

/* ------------------------------------------------------------------ arguments */

static enum td_code table_in(const struct td_call *c, struct td_table **t, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &td_table_type, &o, err));
    *t = (struct td_table *)o;
    return TD_OK;
}

/* Number of keys in a tensor [..., key_shape], and the shape of their values [..., value_shape]. */
static enum td_code check_keys(const struct td_call *c, const struct td_table *t, int64_t *n,
                               struct td_shape *values, struct td_err *err)
{
    const struct td_tensor *keys = c->in[1];
    int lead = keys->shape.rank - t->key_shape.rank;
    TD_FAIL_IF(keys->dtype != t->key_dtype, err, INVALID_ARGUMENT, "%s: Key must be type %s but got %s",
               TD_NODE_STR(c->node), td_dtype_name(t->key_dtype), td_dtype_name(keys->dtype));
    TD_FAIL_IF(lead < 0 || (t->key_shape.rank == 1 && keys->shape.dim[lead] != t->key_shape.dim[0]), err,
               INVALID_ARGUMENT, "%s: Input key shape %s must end with the table's key shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&keys->shape), TD_SHAPE_STR(&t->key_shape));
    *values = keys->shape;
    values->rank = lead;
    *n = td_shape_count(values);
    /* more axes do no harm where the first one counts the keys */
    TD_FAIL_IF(t->kind == TD_TABLE_DENSE && keys->shape.rank > 0 && *n != keys->shape.dim[0], err,
               INVALID_ARGUMENT, "%s: Expected key shape [n] and then the table's %s, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&t->key_shape), TD_SHAPE_STR(&keys->shape));
    return td_shape_concat(values, &t->value_shape, values, err);
}

static enum td_code check_values(const struct td_call *c, const struct td_table *t,
                                 const struct td_shape *want, struct td_err *err)
{
    const struct td_tensor *values = c->in[2];
    TD_FAIL_IF(values->dtype != t->value_dtype, err, INVALID_ARGUMENT, "%s: Value must be type %s but got %s",
               TD_NODE_STR(c->node), td_dtype_name(t->value_dtype), td_dtype_name(values->dtype));
    TD_FAIL_IF(!td_shape_equal(&values->shape, want), err, INVALID_ARGUMENT,
               "%s: Expected shape %s for value, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(want),
               TD_SHAPE_STR(&values->shape));
    return TD_OK;
}

/* Key i of a dense table is its empty key (0) or its deleted key (1), which stand for no entry; else -1. */
static int reserved_key(const struct td_table *t, const struct td_tensor *keys, int64_t i)
{
    size_t bytes = (size_t)t->key_width * td_dtype_size(t->key_dtype);
    for (int r = 0; r < 2; r++) {
        const struct td_tensor *reserved = r ? &t->deleted_key : &t->empty_key;
        if (reserved->dtype != TD_DTYPE_NONE &&
            td_table_rows_equal(t->key_dtype, (const char *)keys->data + (size_t)i * bytes, reserved->data,
                                t->key_width)) {
            return r;
        }
    }
    return -1;
}

static enum td_code check_reserved(const struct td_call *c, const struct td_table *t, int64_t n,
                                   struct td_err *err)
{
    if (t->kind != TD_TABLE_DENSE) {
        return TD_OK;
    }
    for (int64_t i = 0; i < n && !td_work_spent(16); i++) {
        int r = reserved_key(t, c->in[1], i);
        TD_FAIL_IF(r >= 0, err, INVALID_ARGUMENT, "%s: Using the %s_key as a table key is not allowed",
                   TD_NODE_STR(c->node), r ? "deleted" : "empty");
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ find */

/* Known only where the table is seen to have scalar keys and values. */
/* The table is known when the handle is: keys' shape without their rows', then the values'. */
static enum td_code find_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_tensor *handle = c->value[0];
    bool known = handle != NULL && handle->dtype == TD_RESOURCE && td_tensor_count(handle) == 1;
    const struct td_obj *o = known ? td_tensor_obj(handle, 0) : NULL;
    if (o == NULL || o->type != &td_table_type) {
        return TD_OK;
    }
    const struct td_table *t = (const struct td_table *)o;
    struct td_shape keys = c->in[1];
    if (keys.rank < t->key_shape.rank) {
        return TD_OK; /* unknown, or refused when it runs */
    }
    keys.rank -= t->key_shape.rank;
    return td_shape_concat(&keys, &t->value_shape, &c->out[0], err);
}

/* Value of an absent key: row i of a default of full size, or the one default; static tables know only the
 * first. */
static void put_default(const struct td_table *t, const struct td_tensor *def, bool full, struct td_tensor *y,
                        int64_t i)
{
    size_t row = (size_t)t->value_width * td_dtype_size(t->value_dtype);
    td_elems_copy(t->value_dtype, (char *)y->data + (size_t)i * row,
                  (const char *)def->data + (full ? (size_t)i * row : 0), t->value_width);
}

static enum td_code find_run(struct td_call *c, struct td_err *err)
{
    struct td_table *t;
    struct td_shape shape;
    struct td_tensor *y;
    const struct td_tensor *def = c->in[2];
    int64_t n;
    TD_TRY(table_in(c, &t, err));
    TD_TRY(check_keys(c, t, &n, &shape, err));
    TD_FAIL_IF(def->dtype != t->value_dtype, err, INVALID_ARGUMENT,
               "%s: Default value must be type %s but got %s", TD_NODE_STR(c->node),
               td_dtype_name(t->value_dtype), td_dtype_name(def->dtype));
    bool full = !td_shape_equal(&def->shape, &t->value_shape);
    TD_FAIL_IF(full && !td_shape_equal(&def->shape, &shape), err, INVALID_ARGUMENT,
               "%s: Expected shape %s or %s for default value, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&t->value_shape), TD_SHAPE_STR(&shape), TD_SHAPE_STR(&def->shape));
    full &= t->kind != TD_TABLE_STATIC;
    TD_TRY(check_reserved(c, t, n, err));
    TD_TRY(td_out(c, 0, &shape, &y, err));
    pthread_rwlock_rdlock(&t->lock);
    bool ready = t->kind != TD_TABLE_STATIC || t->initialized;
    for (int64_t i = 0; i < n && ready && !td_work_spent(32); i++) {
        int64_t entry = td_table_find(t, c->in[1], i);
        if (entry >= 0) {
            td_table_value(t, entry, y, i);
        } else {
            put_default(t, def, full, y, i);
        }
    }
    pthread_rwlock_unlock(&t->lock);
    TD_FAIL_IF(!ready, err, FAILED_PRECONDITION, "%s: Table not initialized.", TD_NODE_STR(c->node));
    return TD_OK;
}

/* ------------------------------------------------------------------ insert, remove, import */

static enum td_code no_outputs(struct td_infer *c, struct td_err *err)
{
    (void)c;
    (void)err;
    return TD_OK;
}

static enum td_code put_all(struct td_call *c, struct td_table *t, int64_t n, bool clear, struct td_err *err)
{
    enum td_code rc = TD_OK;
    pthread_rwlock_wrlock(&t->lock);
    if (clear) {
        td_table_clear(t);
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        bool none = t->kind == TD_TABLE_DENSE && reserved_key(t, c->in[1], i) >= 0;
        rc = none ? TD_OK : td_table_put(t, c->in[1], c->in[2], i, err);
    }
    pthread_rwlock_unlock(&t->lock);
    return rc;
}

/* A dense table's buckets, as an export gives them: keys and values are matrices even where one of them is a
 * scalar, and a bucket without an entry holds a reserved key. */
static enum td_code import_dense(struct td_call *c, struct td_table *t, struct td_err *err)
{
    const struct td_tensor *keys = c->in[1];
    TD_FAIL_IF(keys->dtype != t->key_dtype, err, INVALID_ARGUMENT, "%s: Key must be type %s but got %s",
               TD_NODE_STR(c->node), td_dtype_name(t->key_dtype), td_dtype_name(keys->dtype));
    TD_FAIL_IF(keys->shape.rank != 2 || keys->shape.dim[1] != t->key_width, err, INVALID_ARGUMENT,
               "%s: Expected shape [n,%lld] for the keys of a dense table's buckets, got %s",
               TD_NODE_STR(c->node), (long long)t->key_width, TD_SHAPE_STR(&keys->shape));
    struct td_shape want = td_shape_matrix(keys->shape.dim[0], t->value_width);
    TD_TRY(check_values(c, t, &want, err));
    return put_all(c, t, keys->shape.dim[0], true, err);
}

static enum td_code insert(struct td_call *c, bool clear, struct td_err *err)
{
    struct td_table *t;
    struct td_shape shape;
    int64_t n;
    TD_TRY(table_in(c, &t, err));
    if (clear && t->kind == TD_TABLE_DENSE) {
        return import_dense(c, t, err);
    }
    TD_TRY(check_keys(c, t, &n, &shape, err));
    TD_TRY(check_values(c, t, &shape, err));
    if (t->kind == TD_TABLE_STATIC) {
        TD_FAIL_IF(!clear, err, UNIMPLEMENTED, "%s: Insert not supported by tables that are initialized once",
                   TD_NODE_STR(c->node));
        return td_lookup_init_from(c, t, c->in[1], c->in[2], err);
    }
    TD_TRY(check_reserved(c, t, n, err));
    return put_all(c, t, n, clear, err);
}

static enum td_code insert_run(struct td_call *c, struct td_err *err)
{
    return insert(c, false, err);
}

static enum td_code import_run(struct td_call *c, struct td_err *err)
{
    return insert(c, true, err);
}

static enum td_code remove_run(struct td_call *c, struct td_err *err)
{
    struct td_table *t;
    struct td_shape shape;
    int64_t n;
    TD_TRY(table_in(c, &t, err));
    TD_FAIL_IF(t->kind == TD_TABLE_STATIC, err, UNIMPLEMENTED,
               "%s: Remove not supported by tables that are initialized once", TD_NODE_STR(c->node));
    TD_TRY(check_keys(c, t, &n, &shape, err));
    TD_TRY(check_reserved(c, t, n, err));
    pthread_rwlock_wrlock(&t->lock);
    for (int64_t i = 0; i < n; i++) {
        td_table_remove(t, c->in[1], i);
    }
    pthread_rwlock_unlock(&t->lock);
    return TD_OK;
}

/* ------------------------------------------------------------------ export, size */

static enum td_code export_locked(struct td_call *c, const struct td_table *t, struct td_err *err)
{
    struct td_tensor *keys, *values;
    struct td_shape n = td_shape_vector(t->n), shape;
    const struct td_node *node = c->node;
    TD_FAIL_IF(t->kind == TD_TABLE_STATIC && !t->initialized, err, ABORTED,
               "%s: HashTable is not initialized.", TD_NODE_STR(node));
    TD_FAIL_IF(td_attr_type(node, "Tkeys") != t->key_dtype || td_attr_type(node, "Tvalues") != t->value_dtype,
               err, INVALID_ARGUMENT, "%s: Conflicting key/value dtypes %s->%s with %s-%s of the table",
               TD_NODE_STR(node), td_dtype_name(td_attr_type(node, "Tkeys")),
               td_dtype_name(td_attr_type(node, "Tvalues")), td_dtype_name(t->key_dtype),
               td_dtype_name(t->value_dtype));
    bool dense = t->kind == TD_TABLE_DENSE; /* matrices, as an import takes them */
    struct td_shape key = dense ? td_shape_vector(t->key_width) : t->key_shape;
    struct td_shape value = dense ? td_shape_vector(t->value_width) : t->value_shape;
    TD_TRY(td_shape_concat(&n, &key, &shape, err));
    TD_TRY(td_out(c, 0, &shape, &keys, err));
    TD_TRY(td_shape_concat(&n, &value, &shape, err));
    TD_TRY(td_out(c, 1, &shape, &values, err));
    if (t->n > 0) {
        td_elems_copy(t->key_dtype, keys->data, t->keys, t->n * t->key_width);
        td_elems_copy(t->value_dtype, values->data, t->values, t->n * t->value_width);
    }
    return TD_OK;
}

static enum td_code export_run(struct td_call *c, struct td_err *err)
{
    struct td_table *t;
    TD_TRY(table_in(c, &t, err));
    pthread_rwlock_rdlock(&t->lock);
    enum td_code rc = export_locked(c, t, err);
    pthread_rwlock_unlock(&t->lock);
    return rc;
}

static enum td_code size_run(struct td_call *c, struct td_err *err)
{
    struct td_table *t;
    struct td_tensor *y;
    TD_TRY(table_in(c, &t, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    pthread_rwlock_rdlock(&t->lock);
    TD_DATA(y, int64_t)[0] = t->n;
    pthread_rwlock_unlock(&t->lock);
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define KEYS (TD_BIT(TD_STRING) | TD_SET_INDEX)
#define PLAIN_VALUES (TD_SET_INDEX | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_BIT(TD_BOOL))
#define STATIC_VALUES (PLAIN_VALUES | TD_BIT(TD_STRING))
#define MUTABLE_VALUES (STATIC_VALUES | TD_BIT(TD_VARIANT))
#define DENSE_VALUES (PLAIN_VALUES | TD_BIT(TD_RESOURCE) | TD_BIT(TD_VARIANT))
#define NAMED "container:string=''; shared_name:string=''; use_node_name_sharing:bool=false; "
#define TYPES "key_dtype:type; value_dtype:type"
#define DENSE                                                                                                \
    TYPES "; value_shape:shape=[]; initial_num_buckets:int=131072; max_load_factor:float=0.800000011920929"

#define HANDLE(op, signature, more, fn, values)                                                              \
    {                                                                                                        \
        .name = op, .sig = signature, .flags = TD_OP_STATEFUL | (more), .host_in = 3, .infer = handle_infer, \
        .kernels = TD_KERNEL("lookup.cpu", fn, {"key_dtype", KEYS}, {"value_dtype", values}),                \
        .grad = td_not_differentiable                                                                        \
    }
#define BATCHABLE_LOOKUP TD_BATCHABLE(td_batchable_keys)
#define BATCHABLE_READ TD_BATCHABLE(td_batchable_read)
#define BATCHABLE_NONE NULL /* not known to keep rows apart */
#define FLAGS_LOOKUP TD_OP_READS
#define FLAGS_READ (TD_OP_READS | TD_OP_FREE)
#define FLAGS_NONE 0
#define TABLE_OP(op, handle, rest, more, keys, shapes, fn)                                                   \
    {                                                                                                        \
        .name = op, .sig = "(table_handle:" handle rest, .flags = (more) | FLAGS_##keys,                     \
        .batchable = BATCHABLE_##keys, .infer = shapes, .kernels = TD_KERNEL("lookup.cpu", fn, {0}),         \
        .grad = td_not_differentiable                                                                        \
    }
#define BOTH(op, rest, keys, shapes, fn)                                                                     \
    TABLE_OP(op, "Ref(string)", rest, TD_OP_NO_FOLD, keys, shapes, fn),                                      \
        TABLE_OP(op "V2", "resource", rest, TD_OP_STATEFUL, keys, shapes, fn)

const struct td_op td_ops_lookup[] = {
    HANDLE("HashTable", "() -> (table_handle:Ref(string)) {" NAMED TYPES "}", TD_OP_HANDLE, handle_run,
           STATIC_VALUES),
    HANDLE("HashTableV2", "() -> (table_handle:resource) {" NAMED TYPES "}", TD_OP_HANDLE, handle_run,
           STATIC_VALUES),
    HANDLE("AnonymousHashTable", "() -> (table_handle:resource) {" TYPES "}", 0, anonymous_run,
           STATIC_VALUES),
    HANDLE("MutableHashTable", "() -> (table_handle:Ref(string)) {" NAMED TYPES "}", TD_OP_HANDLE, handle_run,
           MUTABLE_VALUES),
    HANDLE("MutableHashTableV2", "() -> (table_handle:resource) {" NAMED TYPES "}", TD_OP_HANDLE, handle_run,
           MUTABLE_VALUES),
    HANDLE("AnonymousMutableHashTable", "() -> (table_handle:resource) {" TYPES "}", 0, anonymous_run,
           MUTABLE_VALUES),
    HANDLE("MutableHashTableOfTensors",
           "() -> (table_handle:Ref(string)) {" NAMED TYPES "; value_shape:shape=[]}", TD_OP_HANDLE,
           handle_run, STATIC_VALUES),
    HANDLE("MutableHashTableOfTensorsV2",
           "() -> (table_handle:resource) {" NAMED TYPES "; value_shape:shape=[]}", TD_OP_HANDLE, handle_run,
           STATIC_VALUES),
    HANDLE("AnonymousMutableHashTableOfTensors",
           "() -> (table_handle:resource) {" TYPES "; value_shape:shape=[]}", 0, anonymous_run,
           STATIC_VALUES),
    HANDLE("MutableDenseHashTable", "(empty_key:key_dtype) -> (table_handle:Ref(string)) {" NAMED DENSE "}",
           0, handle_run, DENSE_VALUES),
    HANDLE("MutableDenseHashTableV2",
           "(empty_key:key_dtype, deleted_key:key_dtype) -> (table_handle:resource) {" NAMED DENSE "}", 0,
           handle_run, DENSE_VALUES),
    HANDLE("AnonymousMutableDenseHashTable",
           "(empty_key:key_dtype, deleted_key:key_dtype) -> (table_handle:resource) {" DENSE "}", 0,
           anonymous_run, DENSE_VALUES),
    BOTH("LookupTableFind", ", keys:Tin, default_value:Tout) -> (values:Tout) {Tin:type; Tout:type}", LOOKUP,
         find_infer, find_run),
    BOTH("LookupTableInsert", ", keys:Tin, values:Tout) -> () {Tin:type; Tout:type}", NONE, no_outputs,
         insert_run),
    BOTH("LookupTableImport", ", keys:Tin, values:Tout) -> () {Tin:type; Tout:type}", NONE, no_outputs,
         import_run),
    BOTH("LookupTableExport", ") -> (keys:Tkeys, values:Tvalues) {Tkeys:type; Tvalues:type}", NONE, NULL,
         export_run),
    BOTH("LookupTableSize", ") -> (size:int64) {}", READ, td_infer_scalar, size_run),
    TABLE_OP("LookupTableRemoveV2", "resource", ", keys:Tin) -> () {Tin:type}", TD_OP_STATEFUL, NONE,
             no_outputs, remove_run),
    {.name = NULL},
};
