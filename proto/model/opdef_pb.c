/* proto/model/opdef_pb.c - op definitions, read twice over their bytes: counted, then copied into arrays of
 * that length.
 *
 * An argument's field is found by number and wire type in one switch. An attribute is collected first (name,
 * type, default, allowed values) and then put together, because its type decides how the other two are read
 * and may stand behind them. Default values are AttrValues (proto/model/attr_pb.c) and must be of the
 * declared type. Names go through td_pb_name, so the many "T" of a file are mostly one text.
 *
 * Does not: read descriptions, constraints on numbers, or the allowed values of types; compare with our own
 * op table (core/graph).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/opdef_pb.h"

#include <string.h>

#include "core/base/mem.h"
#include "proto/model/attr_pb.h"
#include "proto/pb/shape_pb.h"

enum { MAX_OPS = 1 << 16, DEFAULT_TENSOR_BYTES = 1 << 20 };

/* Fields of OpDef, of its ArgDef and of its AttrDef. */
enum { NAME = 1, INPUT_ARG, OUTPUT_ARG, ATTR };
enum { ARG_TYPE = 3, ARG_TYPE_ATTR, ARG_NUMBER_ATTR, ARG_LIST_ATTR, ARG_IS_REF = 16 };
enum { ATTR_TYPE = 2, ATTR_DEFAULT = 3, ATTR_ALLOWED = 7 };

/* The text of f, NULL for "". */
static enum td_code read_name(struct td_pb_reader *r, const struct td_scan_field *f, const char **out,
                              struct td_err *err)
{
    *out = NULL;
    return f->len == 0 || f->p[0] == 0 ? TD_OK : td_pb_name(r, f, out, err);
}

/* ---- arguments */

static enum td_code read_arg_field(struct td_pb_reader *r, const struct td_scan_field *f,
                                   struct td_arg_def *out, struct td_err *err)
{
    switch (f->number << 3 | f->type) {
    case NAME << 3 | TD_WIRE_BYTES:
        return read_name(r, f, &out->name, err);
    case ARG_TYPE_ATTR << 3 | TD_WIRE_BYTES:
        return read_name(r, f, &out->type_attr, err);
    case ARG_NUMBER_ATTR << 3 | TD_WIRE_BYTES:
        return read_name(r, f, &out->number_attr, err);
    case ARG_LIST_ATTR << 3 | TD_WIRE_BYTES:
        return read_name(r, f, &out->list_attr, err);
    case ARG_IS_REF << 3 | TD_WIRE_VARINT:
        out->is_ref = out->is_ref || f->u64 != 0;
        return TD_OK;
    case ARG_TYPE << 3 | TD_WIRE_VARINT:
        out->is_ref = out->is_ref || (int)f->u64 > 100;
        return td_dtype_from_number((int)f->u64, &out->type, err);
    default:
        return TD_OK;
    }
}

static enum td_code read_arg(struct td_pb_reader *r, const struct td_scan_field *arg, const char *op,
                             struct td_arg_def *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(arg->p, arg->len);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (read_arg_field(r, &f, out, err)) {
            return td_err_wrap(err, "op '%s', argument '%s'", op, out->name == NULL ? "" : out->name);
        }
    }
    TD_FAIL_IF(s.bad, err, INVALID_ARGUMENT, "op '%s': cut or malformed bytes", op);
    TD_FAIL_IF(out->name == NULL, err, INVALID_ARGUMENT, "op '%s': an argument has no name", op);
    return TD_OK;
}

/* ---- attributes */

/* "list(type)" and the like. */
static bool kind_from_text(const char *text, enum td_attr_kind *kind, bool *is_list)
{
    static const struct {
        const char *name;
        enum td_attr_kind kind;
    } kinds[] = {{"string", TD_ATTR_STRING}, {"int", TD_ATTR_INT},   {"float", TD_ATTR_FLOAT},
                 {"bool", TD_ATTR_BOOL},     {"type", TD_ATTR_TYPE}, {"shape", TD_ATTR_SHAPE},
                 {"tensor", TD_ATTR_TENSOR}, {"func", TD_ATTR_FUNC}};
    size_t n = strlen(text);
    *is_list = n > 6 && strncmp(text, "list(", 5) == 0 && text[n - 1] == ')';
    if (*is_list) {
        text += 5;
        n -= 6;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strlen(kinds[i].name) == n && memcmp(kinds[i].name, text, n) == 0) {
            *kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

/* allowed_values of a string attribute; those of a type attribute are not needed. */
static enum td_code read_allowed(struct td_pb_reader *r, const struct td_scan_field *value,
                                 struct td_attr_def *out, struct td_err *err)
{
    struct td_attr allowed;
    if (out->kind != TD_ATTR_STRING) {
        return TD_OK;
    }
    TD_TRY(td_attr_read(r, out->name, value, &allowed, err));
    if (allowed.kind == TD_ATTR_STRING && allowed.is_list) {
        out->allowed = allowed.str;
        out->n_allowed = allowed.n;
    }
    return TD_OK;
}

static enum td_code read_default(struct td_pb_reader *r, const struct td_scan_field *value, const char *op,
                                 struct td_attr_def *out, struct td_err *err)
{
    if (td_attr_read(r, out->name, value, &out->value, err)) {
        return td_err_wrap(err, "op '%s', attribute '%s'", op, out->name);
    }
    if (out->value.kind == TD_ATTR_NONE && !out->value.is_list) {
        return TD_OK;
    }
    bool empty = out->value.is_list && out->value.n == 0;
    TD_FAIL_IF(out->value.is_list != out->is_list || (out->value.kind != out->kind && !empty), err,
               INVALID_ARGUMENT, "op '%s', attribute '%s': its default is not of its type", op, out->name);
    out->value.kind = out->kind;
    out->has_default = true;
    return TD_OK;
}

static enum td_code read_attr(struct td_pb_reader *r, const struct td_scan_field *attr, const char *op,
                              struct td_attr_def *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(attr->p, attr->len);
    struct td_scan_field f, name = {.p = attr->p}, type = name, value = {0}, allowed = {0};
    const char *type_text;
    while (td_scan_next(&s, &f)) {
        name = td_pb_is_bytes(&f, NAME) ? f : name;
        type = td_pb_is_bytes(&f, ATTR_TYPE) ? f : type;
        value = td_pb_is_bytes(&f, ATTR_DEFAULT) ? f : value;
        allowed = td_pb_is_bytes(&f, ATTR_ALLOWED) ? f : allowed;
    }
    TD_FAIL_IF(s.bad, err, INVALID_ARGUMENT, "op '%s': cut or malformed bytes", op);
    TD_TRY(read_name(r, &name, &out->name, err));
    TD_TRY(td_pb_name(r, &type, &type_text, err));
    TD_FAIL_IF(out->name == NULL, err, INVALID_ARGUMENT, "op '%s': an attribute has no name", op);
    TD_FAIL_IF(!kind_from_text(type_text, &out->kind, &out->is_list), err, INVALID_ARGUMENT,
               "op '%s', attribute '%s': '%.60s' is not an attribute type", op, out->name, type_text);
    TD_TRY(allowed.p != NULL ? read_allowed(r, &allowed, out, err) : TD_OK);
    return value.p != NULL ? read_default(r, &value, op, out, err) : TD_OK;
}

/* ---- ops */

struct op_fields {
    struct td_scan_field name;
    size_t n_in, n_out, n_attrs;
};

static enum td_code scan_op(const struct td_scan_field *op, struct op_fields *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(op->p, op->len);
    struct td_scan_field f;
    *out = (struct op_fields){.name = {.p = op->p}};
    while (td_scan_next(&s, &f)) {
        out->name = td_pb_is_bytes(&f, NAME) ? f : out->name;
        out->n_in += td_pb_is_bytes(&f, INPUT_ARG);
        out->n_out += td_pb_is_bytes(&f, OUTPUT_ARG);
        out->n_attrs += td_pb_is_bytes(&f, ATTR);
    }
    return s.bad ? td_pb_malformed("OpDef", err) : TD_OK;
}

static enum td_code read_op_field(struct td_pb_reader *r, const struct td_scan_field *f,
                                  struct td_op_def *out, struct td_err *err)
{
    switch (f->type == TD_WIRE_BYTES ? f->number : 0) {
    case INPUT_ARG:
        return read_arg(r, f, out->name, &out->in[out->n_in++], err);
    case OUTPUT_ARG:
        return read_arg(r, f, out->name, &out->out[out->n_out++], err);
    case ATTR:
        return read_attr(r, f, out->name, &out->attrs[out->n_attrs++], err);
    default:
        return TD_OK;
    }
}

enum td_code td_opdef_read(struct td_pb_reader *r, const struct td_scan_field *op, struct td_op_def *out,
                           struct td_err *err)
{
    struct op_fields o;
    *out = (struct td_op_def){0};
    TD_TRY(scan_op(op, &o, err));
    TD_TRY(read_name(r, &o.name, &out->name, err));
    TD_FAIL_IF(out->name == NULL, err, INVALID_ARGUMENT, "a definition of an op or a function has no name");
    TD_FAIL_IF(o.n_in > MAX_OPS || o.n_out > MAX_OPS || o.n_attrs > MAX_OPS, err, INVALID_ARGUMENT,
               "op '%s': more than %d arguments or attributes", out->name, MAX_OPS);
    TD_TRY(td_pb_room(r, o.n_in, sizeof out->in[0], &out->in, err));
    TD_TRY(td_pb_room(r, o.n_out, sizeof out->out[0], &out->out, err));
    TD_TRY(td_pb_room(r, o.n_attrs, sizeof out->attrs[0], &out->attrs, err));
    struct td_scan s = td_scan_make(op->p, op->len);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        TD_TRY(read_op_field(r, &f, out, err));
    }
    return TD_OK;
}

enum td_code td_file_ops_from_bytes(const void *bytes, size_t n, struct td_library *lib, struct td_err *err)
{
    enum { OP = 1 }; /* of OpList */
    struct td_pb_reader r = {.arena = lib->arena, .tensor_bytes = DEFAULT_TENSOR_BYTES};
    struct td_scan s = td_scan_make(bytes, n);
    struct td_scan_field f;
    struct td_op_def *defs;
    size_t count = 0;
    while (td_scan_next(&s, &f)) {
        count += td_pb_is_bytes(&f, OP);
    }
    if (s.bad) {
        return td_pb_malformed("stripped_op_list", err);
    }
    TD_FAIL_IF(count > MAX_OPS, err, INVALID_ARGUMENT, "stripped_op_list: %zu ops, at most %d are allowed",
               count, MAX_OPS);
    TD_TRY(td_pb_room(&r, count, sizeof *defs, &defs, err));
    for (s = td_scan_make(bytes, n); td_scan_next(&s, &f);) {
        TD_TRY(td_pb_is_bytes(&f, OP) ? td_opdef_read(&r, &f, &defs[lib->n_file_ops++], err) : TD_OK);
    }
    lib->file_ops = defs;
    return TD_OK;
}
