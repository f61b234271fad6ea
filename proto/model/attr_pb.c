/* proto/model/attr_pb.c - attribute values, single or in lists, from the bytes of an AttrValue.
 *
 * An AttrValue holds one value of some kind, or a list of them; both are arrays in core/graph/attr.h, so one
 * function sets an element of either, and one table gives each field its kind, wire type and size. A list is
 * walked twice: its elements are counted, then set; a packed run counts as many as it holds. All elements
 * must be of one kind. Of a value given several times the last counts. Tensors are kept by the arena and
 * charged to the reader's budget.
 *
 * A function value holds attributes again: the one recursion here, 32 levels deep at most (the reader's
 * depth).
 *
 * Does not: check a value against what the op declares (core/graph).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/attr_pb.h"

#include <string.h>

#include "core/base/mem.h"
#include "proto/pb/shape_pb.h"
#include "proto/pb/tensor_pb.h"

enum { MAX_ATTRS = 1024, MAX_ELEMENTS = 1 << 24, MAX_DEPTH = 32 };

/* Fields of AttrValue. Those of ListValue have the same numbers, but for functions. */
enum { LIST = 1, STRING, INT, FLOAT, BOOL, TYPE, SHAPE, TENSOR, PLACEHOLDER, FUNC, LIST_FUNC = 9 };

static const struct value_kind {
    enum td_attr_kind kind;
    enum td_wire_type wire;
    size_t size; /* of an element in core/graph/attr.h */
} kinds[] = {
    [STRING] = {TD_ATTR_STRING, TD_WIRE_BYTES, sizeof(struct td_bytes)},
    [INT] = {TD_ATTR_INT, TD_WIRE_VARINT, sizeof(int64_t)},
    [FLOAT] = {TD_ATTR_FLOAT, TD_WIRE_FIXED32, sizeof(float)},
    [BOOL] = {TD_ATTR_BOOL, TD_WIRE_VARINT, sizeof(bool)},
    [TYPE] = {TD_ATTR_TYPE, TD_WIRE_VARINT, sizeof(enum td_dtype)},
    [SHAPE] = {TD_ATTR_SHAPE, TD_WIRE_BYTES, sizeof(struct td_shape)},
    [TENSOR] = {TD_ATTR_TENSOR, TD_WIRE_BYTES, sizeof(struct td_tensor)},
    [PLACEHOLDER] = {TD_ATTR_PLACEHOLDER, TD_WIRE_BYTES, sizeof(struct td_bytes)},
    [FUNC] = {TD_ATTR_FUNC, TD_WIRE_BYTES, sizeof(struct td_func_ref)},
};

/* ---- one element */

static enum td_code set_string(struct td_pb_reader *r, const struct td_scan_field *f, struct td_bytes *out,
                               struct td_err *err)
{
    out->len = f->len;
    return td_pb_text(r, f, &out->p, err);
}

static enum td_code set_tensor(struct td_pb_reader *r, const struct td_scan_field *f, struct td_tensor *out,
                               struct td_err *err)
{
    TD_TRY(td_tensor_from_bytes(f->p, f->len, r->tensor_bytes, out, err));
    TD_TRY(td_tensor_keep(r->arena, out, err));
    r->tensor_bytes -= td_tensor_bytes(out);
    return TD_OK;
}

enum { LIST_NAME = 1, LIST_ATTR = 2 }; /* fields of NameAttrList */

static enum td_code set_func(struct td_pb_reader *r, const struct td_scan_field *list,
                             struct td_func_ref *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(list->p, list->len);
    struct td_scan_field f, name = {.p = list->p};
    size_t n = 0;
    while (td_scan_next(&s, &f)) {
        name = td_pb_is_bytes(&f, LIST_NAME) ? f : name;
        n += td_pb_is_bytes(&f, LIST_ATTR);
    }
    if (s.bad) {
        return td_pb_malformed("NameAttrList", err);
    }
    TD_TRY(td_pb_text(r, &name, &out->name, err));
    TD_TRY(td_attrs_room(r, n, &out->attrs, err));
    for (s = td_scan_make(list->p, list->len); td_scan_next(&s, &f);) {
        TD_TRY(td_pb_is_bytes(&f, LIST_ATTR) ? td_attr_add(r, &f, out->attrs, &out->n_attrs, err) : TD_OK);
    }
    return TD_OK;
}

static enum td_code set_element(struct td_pb_reader *r, struct td_attr *a, size_t i,
                                const struct td_scan_field *f, struct td_err *err)
{
    switch (a->kind) {
    case TD_ATTR_INT:
        a->i[i] = (int64_t)f->u64;
        return TD_OK;
    case TD_ATTR_FLOAT:
        memcpy(&a->f[i], &f->u64, sizeof a->f[i]); /* little-endian: the low bytes */
        return TD_OK;
    case TD_ATTR_BOOL:
        a->b[i] = f->u64 != 0;
        return TD_OK;
    case TD_ATTR_TYPE:
        return td_dtype_from_number((int)f->u64, &a->type[i], err);
    case TD_ATTR_SHAPE:
        return td_shape_from_bytes(f->p, f->len, &a->shape[i], err);
    case TD_ATTR_TENSOR:
        return set_tensor(r, f, &a->tensor[i], err);
    case TD_ATTR_FUNC:
        return set_func(r, f, &a->func[i], err);
    default:
        return set_string(r, f, &a->str[i], err);
    }
}

static enum td_code make_room(struct td_pb_reader *r, const struct value_kind *k, size_t n, struct td_attr *a,
                              struct td_err *err)
{
    TD_FAIL_IF(n > MAX_ELEMENTS, err, INVALID_ARGUMENT, "a list of %zu elements, at most %d are allowed", n,
               MAX_ELEMENTS);
    a->kind = k->kind;
    a->n = (int)n;
    return td_pb_room(r, n, k->size, &a->i, err);
}

/* ---- lists */

/* What a field of a ListValue holds; NULL for what is not known. */
static const struct value_kind *list_kind(const struct td_scan_field *f)
{
    if (f->number < STRING || f->number > LIST_FUNC) {
        return NULL;
    }
    const struct value_kind *k = &kinds[f->number == LIST_FUNC ? FUNC : f->number];
    return f->type == k->wire || f->type == TD_WIRE_BYTES ? k : NULL;
}

/* Elements that one field adds: itself, or a packed run. */
static size_t count_elements(const struct value_kind *k, const struct td_scan_field *f)
{
    size_t n = 0;
    if (f->type == k->wire) {
        return 1;
    }
    if (k->wire == TD_WIRE_FIXED32) {
        return f->len / sizeof(float);
    }
    for (size_t i = 0; i < f->len; i++) {
        n += f->p[i] < 0x80; /* the last byte of a varint */
    }
    return n;
}

static bool next_packed(enum td_wire_type wire, const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    if (wire == TD_WIRE_VARINT) {
        return td_scan_varint(p, end, v);
    }
    if ((size_t)(end - *p) < sizeof(float)) {
        return false;
    }
    *v = 0;
    memcpy(v, *p, sizeof(float));
    *p += sizeof(float);
    return true;
}

static enum td_code set_elements(struct td_pb_reader *r, struct td_attr *a, const struct value_kind *k,
                                 const struct td_scan_field *f, size_t *at, struct td_err *err)
{
    const uint8_t *p = f->p, *end = f->p + f->len;
    struct td_scan_field one = *f;
    if (f->type == k->wire) {
        return set_element(r, a, (*at)++, f, err);
    }
    while (p < end) {
        if (!next_packed(k->wire, &p, end, &one.u64)) {
            return td_pb_malformed("AttrValue", err);
        }
        TD_TRY(set_element(r, a, (*at)++, &one, err));
    }
    return TD_OK;
}

static enum td_code read_list(struct td_pb_reader *r, const struct td_scan_field *list, struct td_attr *a,
                              struct td_err *err)
{
    struct td_scan s = td_scan_make(list->p, list->len);
    struct td_scan_field f;
    const struct value_kind *kind = NULL, *k;
    size_t n = 0, at = 0;
    a->is_list = true;
    while (td_scan_next(&s, &f)) {
        const size_t more = (k = list_kind(&f)) == NULL ? 0 : count_elements(k, &f);
        TD_FAIL_IF(more > 0 && n > 0 && k != kind, err, INVALID_ARGUMENT,
                   "a list holds values of more than one kind");
        kind = more > 0 ? k : kind;
        n += more;
    }
    if (s.bad) {
        return td_pb_malformed("AttrValue", err);
    }
    if (kind == NULL) { /* a list without elements has no kind */
        a->n = 0;
        return TD_OK;
    }
    TD_TRY(make_room(r, kind, n, a, err));
    for (s = td_scan_make(list->p, list->len); td_scan_next(&s, &f);) {
        TD_TRY(list_kind(&f) == kind ? set_elements(r, a, kind, &f, &at, err) : TD_OK);
    }
    return TD_OK;
}

/* ---- values */

static enum td_code read_value(struct td_pb_reader *r, const struct td_scan_field *f, struct td_attr *a,
                               struct td_err *err)
{
    if (f->number == 0) { /* not set */
        a->n = 0;
        return TD_OK;
    }
    if (f->number == LIST) {
        return read_list(r, f, a, err);
    }
    TD_TRY(make_room(r, &kinds[f->number], 1, a, err));
    return set_element(r, a, 0, f, err);
}

enum td_code td_attr_read(struct td_pb_reader *r, const char *name, const struct td_scan_field *value,
                          struct td_attr *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(value->p, value->len);
    struct td_scan_field f, last = {0};
    *out = (struct td_attr){.name = name, .n = 1};
    while (td_scan_next(&s, &f)) {
        if (f.number <= FUNC && f.type == (f.number == LIST ? TD_WIRE_BYTES : kinds[f.number].wire)) {
            last = f;
        }
    }
    if (s.bad) {
        return td_pb_malformed("AttrValue", err);
    }
    TD_FAIL_IF(r->depth == MAX_DEPTH, err, INVALID_ARGUMENT, "functions nest deeper than %d", MAX_DEPTH);
    r->depth++;
    enum td_code rc = read_value(r, &last, out, err);
    r->depth--;
    return rc;
}

enum td_code td_attrs_room(struct td_pb_reader *r, size_t n, struct td_attr **out, struct td_err *err)
{
    TD_FAIL_IF(n > MAX_ATTRS, err, INVALID_ARGUMENT, "%zu attributes, at most %d are allowed", n, MAX_ATTRS);
    return td_pb_room(r, n, sizeof **out, out, err);
}

enum td_code td_attr_add(struct td_pb_reader *r, const struct td_scan_field *entry, struct td_attr *attrs,
                         int *n, struct td_err *err)
{
    struct td_scan_field key, value;
    const char *name;
    if (!td_pb_entry(entry, &key, &value)) {
        return td_pb_malformed("an attribute", err);
    }
    TD_TRY(td_pb_name(r, &key, &name, err));
    if (strcmp(name, "_output_shapes") == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(td_attr_find(attrs, *n, name) != NULL, err, INVALID_ARGUMENT, "attribute '%s' is given twice",
               name);
    if (td_attr_read(r, name, &value, &attrs[*n], err)) {
        return td_err_wrap(err, "attribute '%s'", name);
    }
    (*n)++;
    return TD_OK;
}
