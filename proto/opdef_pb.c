/* proto/opdef_pb.c - see opdef_pb.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/opdef_pb.h"

#include <string.h>

#include "core/graph.h"
#include "core/mem.h"
#include "proto/attr_pb.h"
#include "proto/graph_pb.h"

enum { MAX_OPS = 1 << 16, DEFAULT_TENSOR_BYTES = 1 << 20 };

/* "" is NULL. */
static enum td_code copy_name(struct td_arena *a, const char *s, const char **out, struct td_err *err)
{
    *out = NULL;
    if (s[0] != 0) {
        *out = td_arena_strdup(a, s);
        if (*out == NULL) {
            return td_no_memory(err, strlen(s), "op definition");
        }
    }
    return TD_OK;
}

static enum td_code read_arg(const Tensorflow__OpDef__ArgDef *p, const char *op, struct td_arena *a,
                             struct td_arg_def *out, struct td_err *err)
{
    TD_FAIL_IF(p->name[0] == 0, err, INVALID_ARGUMENT, "op '%s': an argument has no name", op);
    TD_TRY(copy_name(a, p->name, &out->name, err));
    TD_TRY(copy_name(a, p->type_attr, &out->type_attr, err));
    TD_TRY(copy_name(a, p->number_attr, &out->number_attr, err));
    TD_TRY(copy_name(a, p->type_list_attr, &out->list_attr, err));
    out->is_ref = p->is_ref || p->type > 100;
    if (td_dtype_from_number((int)p->type, &out->type, err)) {
        return td_err_wrap(err, "op '%s', argument '%s'", op, p->name);
    }
    return TD_OK;
}

static enum td_code read_args(Tensorflow__OpDef__ArgDef *const *p, size_t n, const char *op,
                              struct td_arena *a, struct td_arg_def **out, struct td_err *err)
{
    *out = td_arena_alloc(a, n + 1, sizeof **out);
    if (*out == NULL) {
        return td_no_memory(err, n * sizeof **out, "op definition");
    }
    for (size_t i = 0; i < n; i++) {
        TD_TRY(read_arg(p[i], op, a, &(*out)[i], err));
    }
    return TD_OK;
}

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
static enum td_code read_allowed(struct td_attr_reader *r, const Tensorflow__AttrValue *v,
                                 struct td_attr_def *out, struct td_err *err)
{
    struct td_attr allowed;
    if (v == NULL || out->kind != TD_ATTR_STRING || v->value_case != TENSORFLOW__ATTR_VALUE__VALUE_LIST) {
        return TD_OK;
    }
    TD_TRY(td_attr_from_proto(r, out->name, v, &allowed, err));
    if (allowed.kind == TD_ATTR_STRING) {
        out->allowed = allowed.str;
        out->n_allowed = allowed.n;
    }
    return TD_OK;
}

static enum td_code read_attr(struct td_attr_reader *r, const Tensorflow__OpDef__AttrDef *p, const char *op,
                              struct td_attr_def *out, struct td_err *err)
{
    TD_FAIL_IF(p->name[0] == 0, err, INVALID_ARGUMENT, "op '%s': an attribute has no name", op);
    TD_TRY(copy_name(r->arena, p->name, &out->name, err));
    TD_FAIL_IF(!kind_from_text(p->type, &out->kind, &out->is_list), err, INVALID_ARGUMENT,
               "op '%s', attribute '%s': '%.60s' is not an attribute type", op, p->name, p->type);
    TD_TRY(read_allowed(r, p->allowed_values, out, err));
    if (p->default_value == NULL || p->default_value->value_case == TENSORFLOW__ATTR_VALUE__VALUE__NOT_SET) {
        return TD_OK;
    }
    TD_TRY(td_attr_from_proto(r, out->name, p->default_value, &out->value, err));
    bool empty = out->value.is_list && out->value.n == 0;
    TD_FAIL_IF(out->value.is_list != out->is_list || (out->value.kind != out->kind && !empty), err,
               INVALID_ARGUMENT, "op '%s', attribute '%s': its default is not of type %.60s", op, p->name,
               p->type);
    out->value.kind = out->kind;
    out->has_default = true;
    return TD_OK;
}

enum td_code td_opdef_from_proto(const Tensorflow__OpDef *p, struct td_arena *a, struct td_op_def *out,
                                 struct td_err *err)
{
    struct td_attr_reader r = {.arena = a, .tensor_bytes = DEFAULT_TENSOR_BYTES};
    *out = (struct td_op_def){
        .n_in = (int)p->n_input_arg, .n_out = (int)p->n_output_arg, .n_attrs = (int)p->n_attr};
    TD_FAIL_IF(
        p->name[0] == 0 || p->n_input_arg > MAX_OPS || p->n_output_arg > MAX_OPS || p->n_attr > MAX_OPS, err,
        INVALID_ARGUMENT, "op '%s': no name, or more than %d arguments or attributes", p->name, MAX_OPS);
    TD_TRY(copy_name(a, p->name, &out->name, err));
    TD_TRY(read_args(p->input_arg, p->n_input_arg, p->name, a, &out->in, err));
    TD_TRY(read_args(p->output_arg, p->n_output_arg, p->name, a, &out->out, err));
    out->attrs = td_arena_alloc(a, p->n_attr + 1, sizeof out->attrs[0]);
    if (out->attrs == NULL) {
        return td_no_memory(err, p->n_attr, "op definition");
    }
    for (size_t i = 0; i < p->n_attr; i++) {
        TD_TRY(read_attr(&r, p->attr[i], p->name, &out->attrs[i], err));
    }
    return TD_OK;
}

enum td_code td_file_ops_from_proto(const struct Tensorflow__OpList *ops, struct td_library *lib,
                                    struct td_err *err)
{
    size_t n = ops == NULL ? 0 : ops->n_op;
    TD_FAIL_IF(n > MAX_OPS, err, INVALID_ARGUMENT, "stripped_op_list: %zu ops, at most %d are allowed", n,
               MAX_OPS);
    struct td_op_def *defs = td_arena_alloc(lib->arena, n + 1, sizeof *defs);
    if (defs == NULL) {
        return td_no_memory(err, n * sizeof *defs, "op definitions");
    }
    for (size_t i = 0; i < n; i++) {
        TD_TRY(td_opdef_from_proto(ops->op[i], lib->arena, &defs[i], err));
    }
    lib->file_ops = defs;
    lib->n_file_ops = (int)n;
    return TD_OK;
}
