/* proto/model/graph_pb.c - nodes and functions of a GraphDef, read field by field from where they lie.
 *
 * Attribute values are read by proto/model/attr_pb.c, signatures of functions by proto/model/opdef_pb.c. A
 * message is walked twice: what it holds is counted, then read into arrays of that length. Where a GraphDef
 * comes in several parts the versions of all are read and checked first, then each part's nodes and functions
 * are added in turn.
 *
 * Inputs stay texts here ("node:1", "^control"), and so do the results of a function; td_graph_resolve links
 * them when all nodes are known, since a node may name one that comes later. Const nodes are checked as they
 * are read. Graphs of old producers get their scalar Placeholders turned into such of unknown shape at the
 * end.
 *
 * Does not: look ops up, infer shapes, or instantiate templates (core/graph).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/graph_pb.h"

#include <string.h>

#include "core/base/mem.h"
#include "proto/model/attr_pb.h"
#include "proto/model/opdef_pb.h"

enum { MAX_INPUTS = 1 << 16, MAX_ARGS = 1 << 16 };
enum {
    GRAPH_VERSION = 2474,     /* the newest GraphDef version that this loader knows how to read */
    SCALAR_PLACEHOLDERS = 21, /* up to this producer a Placeholder of scalar shape means an unknown shape */
};

/* Fields of GraphDef, FunctionDefLibrary, FunctionDef, NodeDef and VersionDef. */
enum { GRAPH_NODE = 1, GRAPH_LIBRARY = 2, GRAPH_VERSIONS = 4, LIBRARY_FUNCTION = 1, LIBRARY_REGISTERED = 3 };
enum { REGISTERED_FUNCTION = 1, REGISTERED_TYPE = 2 };
enum { FUNCTION_SIGNATURE = 1, FUNCTION_NODE = 3, FUNCTION_RET = 4, FUNCTION_CONTROL_RET = 6 };
enum { NODE_NAME = 1, NODE_OP, NODE_INPUT, NODE_DEVICE, NODE_ATTR };
enum { VERSION_PRODUCER = 1, VERSION_MIN_CONSUMER, VERSION_BAD_CONSUMERS };

/* ---- constants */

/* f becomes the last bytes field of that number in it; false when there is none. */
static bool enter(struct td_scan_field *f, uint32_t number)
{
    struct td_scan s = td_scan_make(f->p, f->len);
    struct td_scan_field sub, found = {0};
    while (td_scan_next(&s, &sub)) {
        found = td_pb_is_bytes(&sub, number) ? sub : found;
    }
    *f = found;
    return found.p != NULL;
}

/* Whether a TensorShapeProto has a negative dimension. */
static bool is_negative(const struct td_scan_field *shape)
{
    enum { SHAPE_DIM = 2, DIM_SIZE = 1 };
    struct td_scan dims = td_scan_make(shape->p, shape->len);
    struct td_scan_field dim, f;
    while (td_scan_next(&dims, &dim)) {
        struct td_scan s = td_scan_make(dim.p, td_pb_is_bytes(&dim, SHAPE_DIM) ? dim.len : 0);
        while (td_scan_next(&s, &f)) {
            if (f.number == DIM_SIZE && f.type == TD_WIRE_VARINT && (int64_t)f.u64 < 0) {
                return true;
            }
        }
    }
    return false;
}

/* Is this attribute a "value" { tensor { shape } } of negative dimensions? */
static bool is_negative_value(const struct td_scan_field *entry)
{
    enum { VALUE_TENSOR = 8, TENSOR_SHAPE = 2 };
    struct td_scan_field key, shape;
    return td_pb_entry(entry, &key, &shape) && key.len == 5 && memcmp(key.p, "value", 5) == 0 &&
           enter(&shape, VALUE_TENSOR) && enter(&shape, TENSOR_SHAPE) && is_negative(&shape);
}

/* What a loader must know of a Const before it trusts it. */
static enum td_code check_const(const struct td_node *n, struct td_err *err)
{
    const struct td_attr *value = td_attr_find(n->attrs, n->n_attrs, "value");
    const struct td_attr *dtype = td_attr_find(n->attrs, n->n_attrs, "dtype");
    TD_FAIL_IF(value == NULL || value->kind != TD_ATTR_TENSOR || value->is_list, err, FAILED_PRECONDITION,
               "Saved model contains node \"%s\" which is a constant tensor but no value has been provided",
               n->name);
    bool same = dtype != NULL && dtype->kind == TD_ATTR_TYPE && !dtype->is_list &&
                dtype->type[0] == value->tensor->dtype;
    bool later = dtype != NULL && dtype->kind == TD_ATTR_PLACEHOLDER;
    TD_FAIL_IF(!same && !later, err, INVALID_ARGUMENT,
               "node '%s' (Const): attribute dtype is not its value's %s", n->name,
               td_dtype_tf_name(value->tensor->dtype));
    return TD_OK;
}

/* ---- nodes */

struct node_fields {
    struct td_scan_field name, op, device;
    size_t n_inputs, n_attrs;
};

static enum td_code scan_node(const struct td_scan_field *node, struct node_fields *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(node->p, node->len);
    struct td_scan_field f;
    *out = (struct node_fields){.name = {.p = node->p}, .op = {.p = node->p}, .device = {.p = node->p}};
    while (td_scan_next(&s, &f)) {
        switch (f.type == TD_WIRE_BYTES ? f.number : 0) {
        case NODE_NAME:
            out->name = f;
            break;
        case NODE_OP:
            out->op = f;
            break;
        case NODE_INPUT:
            out->n_inputs++;
            break;
        case NODE_DEVICE:
            out->device = f;
            break;
        case NODE_ATTR:
            out->n_attrs++;
            break;
        }
    }
    TD_FAIL_IF(s.bad, err, INVALID_ARGUMENT, "node '%.*s': cut or malformed bytes",
               (int)(out->name.len > 200 ? 200 : out->name.len), (const char *)out->name.p);
    return TD_OK;
}

static enum td_code add_attr(struct td_pb_reader *r, const struct td_scan_field *entry, struct td_node *n,
                             struct td_err *err)
{
    if (td_attr_add(r, entry, n->attrs, &n->n_attrs, err) == TD_OK) {
        return TD_OK;
    }
    if (strcmp(n->op_name, "Const") != 0 || !is_negative_value(entry)) {
        return td_err_wrap(err, "%s", TD_NODE_STR(n));
    }
    *err = (struct td_err){0};
    TD_FAIL(err, FAILED_PRECONDITION,
            "Saved model contains node \"%s\" (op \"%s\") which initializes from a tensor with -1 elements",
            n->name, n->op_name);
}

static enum td_code add_node(struct td_pb_reader *r, const struct td_scan_field *node, struct td_graph *g,
                             struct td_err *err)
{
    struct node_fields p;
    struct td_node *n;
    const char *name, *op, *device;
    TD_TRY(scan_node(node, &p, err));
    TD_TRY(td_pb_text(r, &p.name, &name, err));
    TD_TRY(td_pb_name(r, &p.op, &op, err));
    TD_TRY(td_pb_name(r, &p.device, &device, err));
    TD_FAIL_IF(name[0] == 0 || op[0] == 0, err, INVALID_ARGUMENT, "node '%s' of op '%s' in '%s': no %s", name,
               op, g->function, name[0] ? "op" : "name");
    TD_FAIL_IF(p.n_inputs > MAX_INPUTS, err, INVALID_ARGUMENT,
               "node '%s': %zu inputs, at most %d are allowed", name, p.n_inputs, MAX_INPUTS);
    TD_TRY(td_graph_add(g, name, op, device, &n, err));
    TD_TRY(td_pb_room(r, p.n_inputs, sizeof n->inputs[0], &n->inputs, err));
    if (td_attrs_room(r, p.n_attrs, &n->attrs, err)) {
        return td_err_wrap(err, "%s", TD_NODE_STR(n));
    }
    struct td_scan s = td_scan_make(node->p, node->len);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (td_pb_is_bytes(&f, NODE_INPUT)) {
            TD_TRY(td_pb_text(r, &f, &n->inputs[n->n_inputs++], err));
        } else if (td_pb_is_bytes(&f, NODE_ATTR)) {
            TD_TRY(add_attr(r, &f, n, err));
        }
    }
    return strcmp(op, "Const") == 0 ? check_const(n, err) : TD_OK;
}

/* ---- functions */

struct function_fields {
    struct td_scan_field signature;
    size_t n_rets, n_control_rets;
};

static enum td_code scan_function(const struct td_scan_field *function, struct function_fields *out,
                                  struct td_err *err)
{
    struct td_scan s = td_scan_make(function->p, function->len);
    struct td_scan_field f;
    *out = (struct function_fields){.signature = {.p = function->p}};
    while (td_scan_next(&s, &f)) {
        out->signature = td_pb_is_bytes(&f, FUNCTION_SIGNATURE) ? f : out->signature;
        out->n_rets += td_pb_is_bytes(&f, FUNCTION_RET);
        out->n_control_rets += td_pb_is_bytes(&f, FUNCTION_CONTROL_RET);
    }
    return s.bad ? td_pb_malformed("FunctionDef", err) : TD_OK;
}

/* ret { key: a result's name, value: what it is } */
static enum td_code add_result(struct td_pb_reader *r, const struct td_scan_field *entry,
                               struct td_function *f, struct td_err *err)
{
    struct td_scan_field key, value;
    if (!td_pb_entry(entry, &key, &value)) {
        return td_pb_malformed("FunctionDef", err);
    }
    for (int i = 0; i < f->n_rets; i++) {
        const char *name = f->def.out[i].name;
        if (strlen(name) == key.len && memcmp(name, key.p, key.len) == 0) {
            return td_pb_text(r, &value, &f->ret_texts[i], err);
        }
    }
    return TD_OK;
}

static enum td_code add_control_result(struct td_pb_reader *r, const struct td_scan_field *entry,
                                       struct td_function *f, struct td_err *err)
{
    struct td_scan_field key, value;
    if (!td_pb_entry(entry, &key, &value)) {
        return td_pb_malformed("FunctionDef", err);
    }
    return td_pb_text(r, &value, &f->control_texts[f->n_control_rets++], err);
}

static enum td_code read_body(struct td_pb_reader *r, const struct td_scan_field *function,
                              struct td_function *f, struct td_err *err)
{
    struct td_scan s = td_scan_make(function->p, function->len);
    struct td_scan_field field;
    while (td_scan_next(&s, &field)) {
        if (td_pb_is_bytes(&field, FUNCTION_NODE)) {
            TD_TRY(add_node(r, &field, &f->body, err));
        } else if (td_pb_is_bytes(&field, FUNCTION_RET)) {
            TD_TRY(add_result(r, &field, f, err));
        } else if (td_pb_is_bytes(&field, FUNCTION_CONTROL_RET)) {
            TD_TRY(add_control_result(r, &field, f, err));
        }
    }
    for (int i = 0; i < f->n_rets; i++) {
        TD_FAIL_IF(f->ret_texts[i] == NULL, err, INVALID_ARGUMENT, "no value is given for its result '%s'",
                   f->def.out[i].name);
    }
    return TD_OK;
}

static enum td_code add_function(struct td_pb_reader *r, const struct td_scan_field *function,
                                 struct td_library *lib, struct td_err *err)
{
    struct function_fields p;
    struct td_op_def def;
    struct td_function *f;
    TD_TRY(scan_function(function, &p, err));
    TD_TRY(td_opdef_read(r, &p.signature, &def, err));
    TD_FAIL_IF(def.n_in > MAX_ARGS || def.n_out > MAX_ARGS || p.n_control_rets > MAX_ARGS, err,
               INVALID_ARGUMENT, "function '%s': more than %d arguments or results", def.name, MAX_ARGS);
    TD_FAIL_IF(p.n_rets > (size_t)def.n_out, err, INVALID_ARGUMENT,
               "function '%s': %zu values for %d results", def.name, p.n_rets, def.n_out);
    TD_TRY(td_library_add(lib, def.name, &f, err));
    f->def = def;
    f->is_template = def.n_attrs > 0;
    f->n_rets = def.n_out;
    TD_TRY(td_pb_room(r, (size_t)f->n_rets, sizeof f->ret_texts[0], &f->ret_texts, err));
    TD_TRY(td_pb_room(r, p.n_control_rets, sizeof f->control_texts[0], &f->control_texts, err));
    TD_TRY(f->is_template ? TD_OK : td_function_add_args(r->arena, f, "_Arg", err));
    return read_body(r, function, f, err) ? td_err_wrap(err, "function '%s'", f->name) : TD_OK;
}

/* ---- versions */

struct versions {
    int64_t producer, min_consumer;
    bool given, is_bad; /* a VersionDef is there; it names this loader among those that it would mislead */
};

static bool add_bad_consumers(const struct td_scan_field *f, struct versions *v)
{
    const uint8_t *p = f->p, *end = f->p + f->len;
    uint64_t version = f->u64;
    if (f->type == TD_WIRE_VARINT) {
        v->is_bad = v->is_bad || version == GRAPH_VERSION;
    }
    while (f->type == TD_WIRE_BYTES && p < end) { /* packed */
        if (!td_scan_varint(&p, end, &version)) {
            return false;
        }
        v->is_bad = v->is_bad || version == GRAPH_VERSION;
    }
    return true;
}

static enum td_code read_versions(const struct td_scan_field *message, struct versions *v, struct td_err *err)
{
    struct td_scan s = td_scan_make(message->p, message->len);
    struct td_scan_field f;
    bool ok = true;
    v->given = true;
    while (ok && td_scan_next(&s, &f)) {
        if (f.number == VERSION_BAD_CONSUMERS) {
            ok = add_bad_consumers(&f, v);
        } else if (f.number == VERSION_PRODUCER && f.type == TD_WIRE_VARINT) {
            v->producer = (int32_t)f.u64;
        } else if (f.number == VERSION_MIN_CONSUMER && f.type == TD_WIRE_VARINT) {
            v->min_consumer = (int32_t)f.u64;
        }
    }
    return ok && !s.bad ? TD_OK : td_pb_malformed("VersionDef", err);
}

static enum td_code check_versions(const struct versions *v, struct td_err *err)
{
    TD_FAIL_IF(v->min_consumer > GRAPH_VERSION, err, INVALID_ARGUMENT,
               "GraphDef min consumer version %lld above current version %d. Please upgrade.",
               (long long)v->min_consumer, GRAPH_VERSION);
    TD_FAIL_IF(v->producer < 0, err, INVALID_ARGUMENT, "GraphDef producer version %lld is negative",
               (long long)v->producer);
    TD_FAIL_IF(v->is_bad, err, INVALID_ARGUMENT, "GraphDef disallows consumer version %d", GRAPH_VERSION);
    return TD_OK;
}

/* A GraphDef that old cannot tell a scalar Placeholder from one of unknown shape. */
static void fix_placeholders(const struct versions *v, struct td_graph *g)
{
    for (int i = 0; i < g->n_nodes && (!v->given || v->producer <= SCALAR_PLACEHOLDERS); i++) {
        struct td_node *n = g->nodes[i];
        for (int k = 0; strcmp(n->op_name, "Placeholder") == 0 && k < n->n_attrs; k++) {
            struct td_attr *a = &n->attrs[k];
            if (strcmp(a->name, "shape") == 0 && a->kind == TD_ATTR_SHAPE && !a->is_list &&
                a->shape->rank == 0) {
                *a->shape = td_shape_unknown();
            }
        }
    }
}

/* ---- the graph */

/* A RegisteredGradient: the function, and the name that nodes call it by. */
static enum td_code add_gradient(struct td_pb_reader *r, const struct td_scan_field *message,
                                 struct td_library *lib, struct td_err *err)
{
    struct td_scan s = td_scan_make(message->p, message->len);
    struct td_scan_field f;
    const char *function = NULL, *type = NULL;
    while (td_scan_next(&s, &f)) {
        const bool text = td_pb_is_bytes(&f, REGISTERED_FUNCTION) || td_pb_is_bytes(&f, REGISTERED_TYPE);
        const char **to = f.number == REGISTERED_FUNCTION ? &function : &type;
        if (text && (*to = td_arena_strndup(r->arena, (const char *)f.p, f.len)) == NULL) {
            return td_no_memory(err, f.len, "custom gradients");
        }
    }
    if (s.bad) {
        return td_pb_malformed("RegisteredGradient", err);
    }
    return function == NULL || type == NULL ? TD_OK : td_library_add_gradient(lib, type, function, err);
}

static enum td_code add_functions(struct td_pb_reader *r, const struct td_scan_field *library,
                                  struct td_library *lib, struct td_err *err)
{
    struct td_scan s = td_scan_make(library->p, library->len);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (td_pb_is_bytes(&f, LIBRARY_FUNCTION)) {
            TD_TRY(add_function(r, &f, lib, err));
        } else if (td_pb_is_bytes(&f, LIBRARY_REGISTERED)) {
            TD_TRY(add_gradient(r, &f, lib, err));
        }
    }
    return s.bad ? td_pb_malformed("FunctionDefLibrary", err) : TD_OK;
}

static enum td_code find_versions(const struct td_bytes *part, struct versions *v, struct td_err *err)
{
    struct td_scan s = td_scan_make(part->p, part->len);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        TD_TRY(td_pb_is_bytes(&f, GRAPH_VERSIONS) ? read_versions(&f, v, err) : TD_OK);
    }
    return s.bad ? td_pb_malformed("GraphDef", err) : TD_OK;
}

static enum td_code add_part(struct td_pb_reader *r, const struct td_bytes *part, struct td_graph *g,
                             struct td_library *lib, struct td_err *err)
{
    struct td_scan s = td_scan_make(part->p, part->len);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (td_pb_is_bytes(&f, GRAPH_NODE)) {
            TD_TRY(add_node(r, &f, g, err));
        } else if (td_pb_is_bytes(&f, GRAPH_LIBRARY)) {
            TD_TRY(add_functions(r, &f, lib, err));
        }
    }
    return TD_OK;
}

enum td_code td_graph_from_bytes(const struct td_bytes *parts, int n_parts, uint64_t tensor_bytes,
                                 struct td_graph *g, struct td_library *lib, struct td_err *err)
{
    struct td_pb_reader r = {.arena = g->arena, .tensor_bytes = tensor_bytes};
    struct versions v = {0};
    for (int i = 0; i < n_parts; i++) {
        TD_TRY(find_versions(&parts[i], &v, err));
    }
    TD_TRY(check_versions(&v, err));
    for (int i = 0; i < n_parts; i++) {
        TD_TRY(add_part(&r, &parts[i], g, lib, err));
    }
    fix_placeholders(&v, g);
    return TD_OK;
}
