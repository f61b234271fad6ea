/* proto/attr_pb.c - see attr_pb.h. Functions nest attributes in attributes: proto/guard.h has bounded how
 * deep.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/attr_pb.h"

#include <stddef.h>
#include <string.h>

#include "core/mem.h"
#include "proto/graph_pb.h"
#include "proto/tensor_pb.h"

enum { MAX_ATTRS = 1024, MAX_ELEMENTS = 1 << 24 };

/* The two maps of attributes are read by one function. */
typedef Tensorflow__NodeDef__AttrEntry attr_entry;
_Static_assert(sizeof(attr_entry) == sizeof(Tensorflow__NameAttrList__AttrEntry) &&
                   offsetof(attr_entry, key) == offsetof(Tensorflow__NameAttrList__AttrEntry, key) &&
                   offsetof(attr_entry, value) == offsetof(Tensorflow__NameAttrList__AttrEntry, value),
               "entries of attribute maps have one layout");

enum td_code td_dtype_from_number(int number, enum td_dtype *out, struct td_err *err)
{
    enum { REF = 100, LAST_KNOWN = 33 };
    int base = number > REF ? number - REF : number;
    TD_FAIL_IF(base < 0 || base > LAST_KNOWN, err, INVALID_ARGUMENT, "%d is not a DataType", number);
    *out = td_dtype_valid(base) ? (enum td_dtype)base : TD_DTYPE_NONE;
    return TD_OK;
}

enum td_code td_shape_from_proto(const struct Tensorflow__TensorShapeProto *p, struct td_shape *out,
                                 struct td_err *err)
{
    int64_t dims[TD_MAX_RANK];
    if (p == NULL || p->unknown_rank) {
        *out = td_shape_unknown();
        return TD_OK;
    }
    TD_FAIL_IF(p->n_dim > TD_MAX_RANK, err, INVALID_ARGUMENT, "shape of rank %zu: the largest rank is %d",
               p->n_dim, TD_MAX_RANK);
    for (size_t i = 0; i < p->n_dim; i++) {
        dims[i] = p->dim[i]->size;
    }
    return td_shape_make(out, dims, (int)p->n_dim, err);
}

/* ---- arrays of one kind. Each gets room for n elements and reads them. */

static enum td_code room(struct td_attr_reader *r, size_t n, size_t size, void *out, struct td_err *err)
{
    TD_FAIL_IF(n > MAX_ELEMENTS, err, INVALID_ARGUMENT, "a list of %zu elements, at most %d are allowed", n,
               MAX_ELEMENTS);
    *(void **)out = td_arena_alloc(r->arena, n ? n : 1, size);
    return *(void **)out == NULL ? td_no_memory(err, n * size, "attribute") : TD_OK;
}

static enum td_code read_strings(struct td_attr_reader *r, const ProtobufCBinaryData *v, size_t n,
                                 struct td_attr *a, struct td_err *err)
{
    a->kind = TD_ATTR_STRING;
    TD_TRY(room(r, n, sizeof a->str[0], &a->str, err));
    for (size_t i = 0; i < n; i++) {
        const char *copy = td_arena_strndup(r->arena, (const char *)v[i].data, v[i].len);
        if (copy == NULL) {
            return td_no_memory(err, v[i].len, "attribute");
        }
        a->str[i] = (struct td_bytes){copy, v[i].len};
    }
    return TD_OK;
}

static enum td_code read_ints(struct td_attr_reader *r, const int64_t *v, size_t n, struct td_attr *a,
                              struct td_err *err)
{
    a->kind = TD_ATTR_INT;
    TD_TRY(room(r, n, sizeof a->i[0], &a->i, err));
    memcpy(a->i, v, n * sizeof a->i[0]);
    return TD_OK;
}

static enum td_code read_floats(struct td_attr_reader *r, const float *v, size_t n, struct td_attr *a,
                                struct td_err *err)
{
    a->kind = TD_ATTR_FLOAT;
    TD_TRY(room(r, n, sizeof a->f[0], &a->f, err));
    memcpy(a->f, v, n * sizeof a->f[0]);
    return TD_OK;
}

static enum td_code read_bools(struct td_attr_reader *r, const protobuf_c_boolean *v, size_t n,
                               struct td_attr *a, struct td_err *err)
{
    a->kind = TD_ATTR_BOOL;
    TD_TRY(room(r, n, sizeof a->b[0], &a->b, err));
    for (size_t i = 0; i < n; i++) {
        a->b[i] = v[i] != 0;
    }
    return TD_OK;
}

static enum td_code read_types(struct td_attr_reader *r, const Tensorflow__DataType *v, size_t n,
                               struct td_attr *a, struct td_err *err)
{
    a->kind = TD_ATTR_TYPE;
    TD_TRY(room(r, n, sizeof a->type[0], &a->type, err));
    for (size_t i = 0; i < n; i++) {
        TD_TRY(td_dtype_from_number((int)v[i], &a->type[i], err));
    }
    return TD_OK;
}

static enum td_code read_shapes(struct td_attr_reader *r, Tensorflow__TensorShapeProto *const *v, size_t n,
                                struct td_attr *a, struct td_err *err)
{
    a->kind = TD_ATTR_SHAPE;
    TD_TRY(room(r, n, sizeof a->shape[0], &a->shape, err));
    for (size_t i = 0; i < n; i++) {
        TD_TRY(td_shape_from_proto(v[i], &a->shape[i], err));
    }
    return TD_OK;
}

static void clear_tensor(void *t)
{
    td_tensor_clear(t);
}

static enum td_code read_tensors(struct td_attr_reader *r, Tensorflow__TensorProto *const *v, size_t n,
                                 struct td_attr *a, struct td_err *err)
{
    a->kind = TD_ATTR_TENSOR;
    TD_TRY(room(r, n, sizeof a->tensor[0], &a->tensor, err));
    for (size_t i = 0; i < n; i++) {
        TD_TRY(td_tensor_from_proto(v[i], r->tensor_bytes, &a->tensor[i], err));
        if (td_arena_defer(r->arena, clear_tensor, &a->tensor[i]) != 0) {
            td_tensor_clear(&a->tensor[i]);
            return td_no_memory(err, sizeof a->tensor[0], "attribute");
        }
        r->tensor_bytes -= td_tensor_bytes(&a->tensor[i]);
    }
    return TD_OK;
}

static enum td_code read_funcs(struct td_attr_reader *r, Tensorflow__NameAttrList *const *v, size_t n,
                               struct td_attr *a, struct td_err *err)
{
    a->kind = TD_ATTR_FUNC;
    TD_TRY(room(r, n, sizeof a->func[0], &a->func, err));
    for (size_t i = 0; i < n; i++) {
        a->func[i].name = td_arena_strdup(r->arena, v[i]->name);
        if (a->func[i].name == NULL) {
            return td_no_memory(err, strlen(v[i]->name), "attribute");
        }
        TD_TRY(td_attrs_from_proto(r, (attr_entry *const *)v[i]->attr, v[i]->n_attr, &a->func[i].attrs,
                                   &a->func[i].n_attrs, err));
    }
    return TD_OK;
}

/* ---- values */

/* The first array that holds something tells the kind; a list without any has none. */
static enum td_code read_list(struct td_attr_reader *r, const Tensorflow__AttrValue__ListValue *l,
                              struct td_attr *a, struct td_err *err)
{
    size_t n = l->n_s + l->n_i + l->n_f + l->n_b + l->n_type + l->n_shape + l->n_tensor + l->n_func;
    a->is_list = true;
    a->n = n > MAX_ELEMENTS ? 0 : (int)n;
    if (l->n_s == n && n) {
        return read_strings(r, l->s, n, a, err);
    }
    if (l->n_i == n && n) {
        return read_ints(r, l->i, n, a, err);
    }
    if (l->n_f == n && n) {
        return read_floats(r, l->f, n, a, err);
    }
    if (l->n_b == n && n) {
        return read_bools(r, l->b, n, a, err);
    }
    if (l->n_type == n && n) {
        return read_types(r, l->type, n, a, err);
    }
    if (l->n_shape == n && n) {
        return read_shapes(r, l->shape, n, a, err);
    }
    if (l->n_tensor == n && n) {
        return read_tensors(r, l->tensor, n, a, err);
    }
    if (l->n_func == n && n) {
        return read_funcs(r, l->func, n, a, err);
    }
    TD_FAIL_IF(n > 0, err, INVALID_ARGUMENT, "a list holds values of more than one kind");
    return TD_OK;
}

enum td_code td_attr_from_proto(struct td_attr_reader *r, const char *name, const Tensorflow__AttrValue *v,
                                struct td_attr *out, struct td_err *err)
{
    *out = (struct td_attr){.name = name, .n = 1};
    switch (v == NULL ? TENSORFLOW__ATTR_VALUE__VALUE__NOT_SET : v->value_case) {
    case TENSORFLOW__ATTR_VALUE__VALUE_LIST:
        return read_list(r, v->list, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_S:
        return read_strings(r, &v->s, 1, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_I:
        return read_ints(r, &v->i, 1, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_F:
        return read_floats(r, &v->f, 1, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_B:
        return read_bools(r, &v->b, 1, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_TYPE:
        return read_types(r, &v->type, 1, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_SHAPE:
        return read_shapes(r, &v->shape, 1, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_TENSOR:
        return read_tensors(r, &v->tensor, 1, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_FUNC:
        return read_funcs(r, &v->func, 1, out, err);
    case TENSORFLOW__ATTR_VALUE__VALUE_PLACEHOLDER: {
        ProtobufCBinaryData text = {strlen(v->placeholder), (uint8_t *)v->placeholder};
        TD_TRY(read_strings(r, &text, 1, out, err));
        out->kind = TD_ATTR_PLACEHOLDER;
        return TD_OK;
    }
    default:
        out->n = 0;
        return TD_OK;
    }
}

enum td_code td_attrs_from_proto(struct td_attr_reader *r, attr_entry *const *entries, size_t n,
                                 struct td_attr **out, int *n_out, struct td_err *err)
{
    TD_FAIL_IF(n > MAX_ATTRS, err, INVALID_ARGUMENT, "%zu attributes, at most %d are allowed", n, MAX_ATTRS);
    TD_TRY(room(r, n, sizeof **out, out, err));
    int count = 0;
    for (size_t i = 0; i < n; i++) {
        const char *key = entries[i]->key;
        if (strcmp(key, "_output_shapes") == 0) {
            continue;
        }
        TD_FAIL_IF(td_attr_find(*out, count, key) != NULL, err, INVALID_ARGUMENT,
                   "attribute '%s' is given twice", key);
        const char *name = td_arena_strdup(r->arena, key);
        if (name == NULL) {
            return td_no_memory(err, strlen(key), "attribute");
        }
        if (td_attr_from_proto(r, name, entries[i]->value, &(*out)[count], err)) {
            return td_err_wrap(err, "attribute '%s'", name);
        }
        count++;
    }
    *n_out = count;
    return TD_OK;
}
