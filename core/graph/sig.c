/* core/graph/sig.c - recursive descent over signature texts; grammar in core/graph/op.h. The texts are our
 * own, so an error here is a mistake of ours: it stops the program's start, with the op and the rest of the
 * text in its message.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/sig.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

struct parser {
    struct td_arena *a;
    const char *name, *p;
    struct td_err *err;
};

static enum td_code bad(struct parser *s, const char *want)
{
    return td_fail(s->err, TD_INTERNAL, "signature of op '%s': expected %s at \"%.40s\"", s->name, want,
                   s->p);
}

static void skip(struct parser *s)
{
    while (*s->p == ' ' || *s->p == '\n') {
        s->p++;
    }
}

static bool accept(struct parser *s, const char *token)
{
    skip(s);
    size_t n = strlen(token);
    if (strncmp(s->p, token, n) != 0) {
        return false;
    }
    s->p += n;
    return true;
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static enum td_code word(struct parser *s, const char **out)
{
    skip(s);
    size_t n = 0;
    while (word_char(s->p[n])) {
        n++;
    }
    if (n == 0) {
        return bad(s, "a name");
    }
    *out = td_arena_strndup(s->a, s->p, n);
    s->p += n;
    return *out == NULL ? td_no_memory(s->err, n, "signature") : TD_OK;
}

static enum td_dtype dtype_named(const char *name)
{
    for (int t = 1; t < TD_DTYPE_END; t++) {
        if (strcmp(td_dtype_name((enum td_dtype)t), name) == 0) {
            return (enum td_dtype)t;
        }
    }
    return TD_DTYPE_NONE;
}

/* name ':' [Ref(] [N*] type [)] */
static enum td_code arg(struct parser *s, struct td_arg_def *a)
{
    const char *type;
    TD_TRY(word(s, &a->name));
    if (!accept(s, ":")) {
        return bad(s, "':'");
    }
    a->is_ref = accept(s, "Ref(");
    TD_TRY(word(s, &type));
    if (accept(s, "*")) {
        a->number_attr = type;
        TD_TRY(word(s, &type));
    }
    a->type = dtype_named(type);
    if (a->type == TD_DTYPE_NONE) {
        a->type_attr = type; /* turned into list_attr once the attributes are known */
    }
    return a->is_ref && !accept(s, ")") ? bad(s, "')'") : TD_OK;
}

static enum td_code args(struct parser *s, struct td_arg_def **out, int *n)
{
    if (!accept(s, "(")) {
        return bad(s, "'('");
    }
    struct td_arg_def list[64];
    int count = 0;
    while (!accept(s, ")")) {
        if (count == 64 || (count > 0 && !accept(s, ","))) {
            return bad(s, "',' or ')'");
        }
        list[count] = (struct td_arg_def){0};
        TD_TRY(arg(s, &list[count++]));
    }
    *n = count;
    *out = td_arena_alloc(s->a, (size_t)count + 1, sizeof list[0]);
    if (*out == NULL) {
        return td_no_memory(s->err, sizeof list, "signature");
    }
    memcpy(*out, list, (size_t)count * sizeof list[0]);
    return TD_OK;
}

static enum td_code quoted(struct parser *s, struct td_bytes *out)
{
    if (!accept(s, "'")) {
        return bad(s, "a quoted string");
    }
    char *buf = td_arena_alloc(s->a, strlen(s->p) + 1, 1);
    size_t n = 0;
    for (; buf != NULL && *s->p != 0 && *s->p != '\''; s->p++) {
        char c = *s->p;
        if (c == '\\' && s->p[1] != 0) {
            s->p++;
            c = *s->p == 'n' ? '\n' : *s->p == 't' ? '\t' : *s->p;
        }
        buf[n++] = c;
    }
    *out = (struct td_bytes){buf, n};
    return buf == NULL      ? td_no_memory(s->err, n, "signature")
           : accept(s, "'") ? TD_OK
                            : bad(s, "a closing quote");
}

/* Element i of the value of an attribute; v's arrays have room. */
static enum td_code element(struct parser *s, struct td_attr *v, int i);

static enum td_code shape_value(struct parser *s, struct td_shape *out)
{
    if (accept(s, "?")) {
        *out = td_shape_unknown();
        return TD_OK;
    }
    if (!accept(s, "[")) {
        return bad(s, "a shape");
    }
    *out = td_shape_scalar();
    while (!accept(s, "]")) {
        char *end;
        out->dim[out->rank++] = strtoll(s->p, &end, 10);
        s->p = end;
        if (out->rank == TD_MAX_RANK) {
            return bad(s, "fewer dimensions");
        }
        accept(s, ",");
    }
    return TD_OK;
}

static enum td_code number(struct parser *s, struct td_attr *v, int i)
{
    char *end;
    skip(s);
    if (v->kind == TD_ATTR_INT) {
        v->i[i] = strtoll(s->p, &end, 10);
    } else {
        v->f[i] = strtof(s->p, &end);
    }
    if (end == s->p) {
        return bad(s, "a number");
    }
    s->p = end;
    return TD_OK;
}

static enum td_code element(struct parser *s, struct td_attr *v, int i)
{
    const char *name;
    switch (v->kind) {
    case TD_ATTR_STRING:
        return quoted(s, &v->str[i]);
    case TD_ATTR_INT:
    case TD_ATTR_FLOAT:
        return number(s, v, i);
    case TD_ATTR_BOOL:
        v->b[i] = accept(s, "true");
        return v->b[i] || accept(s, "false") ? TD_OK : bad(s, "true or false");
    case TD_ATTR_TYPE:
        TD_TRY(word(s, &name));
        v->type[i] = dtype_named(name);
        return v->type[i] == TD_DTYPE_NONE ? bad(s, "a dtype") : TD_OK;
    case TD_ATTR_SHAPE:
        return shape_value(s, &v->shape[i]);
    default:
        return bad(s, "no default for this kind");
    }
}

enum { MOST_ELEMENTS = 16 };

/* The element of v, or the list of them. */
static enum td_code elements(struct parser *s, struct td_attr *v)
{
    if (!v->is_list) {
        v->n = 1;
        return element(s, v, 0);
    }
    if (!accept(s, "[")) {
        return bad(s, "'['");
    }
    while (!accept(s, "]")) {
        if (v->n == MOST_ELEMENTS || (v->n > 0 && !accept(s, ","))) {
            return bad(s, "',' or ']'");
        }
        TD_TRY(element(s, v, v->n++));
    }
    return TD_OK;
}

static enum td_code default_value(struct parser *s, struct td_attr_def *d)
{
    struct td_shape room[MOST_ELEMENTS]; /* the largest element type */
    struct td_attr *v = &d->value;
    *v = (struct td_attr){.name = d->name, .kind = d->kind, .is_list = d->is_list};
    d->has_default = !(d->kind == TD_ATTR_FUNC && accept(s, "''"));
    if (d->has_default) {
        v->str = (struct td_bytes *)room;
        TD_TRY(elements(s, v));
    }
    const size_t size = d->kind == TD_ATTR_SHAPE ? sizeof(struct td_shape) : sizeof(struct td_bytes);
    v->str = td_arena_alloc(s->a, (size_t)v->n + 1, size);
    if (v->str == NULL) {
        return td_no_memory(s->err, size, "signature");
    }
    memcpy(v->str, room, (size_t)v->n * size);
    return TD_OK;
}

static enum td_attr_kind kind_named(const char *name)
{
    static const struct {
        const char *name;
        enum td_attr_kind kind;
    } kinds[] = {
        {"string", TD_ATTR_STRING}, {"int", TD_ATTR_INT},   {"float", TD_ATTR_FLOAT},
        {"bool", TD_ATTR_BOOL},     {"type", TD_ATTR_TYPE}, {"shape", TD_ATTR_SHAPE},
        {"tensor", TD_ATTR_TENSOR}, {"func", TD_ATTR_FUNC},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].kind;
        }
    }
    return TD_ATTR_NONE;
}

/* "in ['A','B']": the strings allowed. "in [float,int32]" is skipped: kernel rows say which dtypes run. */
static enum td_code allowed(struct parser *s, struct td_attr_def *d)
{
    struct td_bytes list[32];
    int n = 0;
    if (!accept(s, "[")) {
        return bad(s, "'['");
    }
    while (!accept(s, "]")) {
        const char *skipped;
        TD_TRY(d->kind == TD_ATTR_STRING && n < 32 ? quoted(s, &list[n++]) : word(s, &skipped));
        accept(s, ",");
    }
    d->n_allowed = n;
    d->allowed = td_arena_alloc(s->a, (size_t)n + 1, sizeof list[0]);
    if (d->allowed == NULL) {
        return td_no_memory(s->err, sizeof list, "signature");
    }
    memcpy(d->allowed, list, (size_t)n * sizeof list[0]);
    return TD_OK;
}

/* name ':' kind | list(kind), [= default], [in allowed] */
static enum td_code attr(struct parser *s, struct td_attr_def *d)
{
    const char *kind;
    TD_TRY(word(s, &d->name));
    if (!accept(s, ":")) {
        return bad(s, "':'");
    }
    d->is_list = accept(s, "list(");
    TD_TRY(word(s, &kind));
    d->kind = kind_named(kind);
    if (d->kind == TD_ATTR_NONE || (d->is_list && !accept(s, ")"))) {
        return bad(s, "an attribute kind");
    }
    if (accept(s, "=")) {
        TD_TRY(default_value(s, d));
    }
    return accept(s, "in ") ? allowed(s, d) : TD_OK;
}

static enum td_code attrs(struct parser *s, struct td_op_def *def)
{
    struct td_attr_def list[40];
    int n = 0;
    if (accept(s, "{")) {
        while (!accept(s, "}")) {
            if (n == 40 || (n > 0 && !accept(s, ";"))) {
                return bad(s, "';' or '}'");
            }
            list[n] = (struct td_attr_def){0};
            TD_TRY(attr(s, &list[n++]));
        }
    }
    def->n_attrs = n;
    def->attrs = td_arena_alloc(s->a, (size_t)n + 1, sizeof list[0]);
    if (def->attrs == NULL) {
        return td_no_memory(s->err, sizeof list, "signature");
    }
    memcpy(def->attrs, list, (size_t)n * sizeof list[0]);
    return TD_OK;
}

/* An argument typed by an attribute: by a type, or by a list of types. */
static enum td_code link_types(struct parser *s, const struct td_op_def *def, struct td_arg_def *list, int n)
{
    for (int i = 0; i < n; i++) {
        const struct td_attr_def *found = NULL;
        for (int k = 0; list[i].type_attr != NULL && k < def->n_attrs; k++) {
            if (strcmp(def->attrs[k].name, list[i].type_attr) == 0) {
                found = &def->attrs[k];
            }
        }
        if (list[i].type_attr != NULL && (found == NULL || found->kind != TD_ATTR_TYPE)) {
            s->p = list[i].type_attr;
            return bad(s, "a dtype or a type attribute");
        }
        if (found != NULL && found->is_list) {
            list[i].list_attr = list[i].type_attr;
            list[i].type_attr = NULL;
        }
    }
    return TD_OK;
}

enum td_code td_sig_parse(struct td_arena *a, const char *name, const char *text, struct td_op_def *def,
                          struct td_err *err)
{
    struct parser s = {a, name, text, err};
    def->name = name;
    TD_TRY(args(&s, &def->in, &def->n_in));
    if (!accept(&s, "->")) {
        return bad(&s, "'->'");
    }
    TD_TRY(args(&s, &def->out, &def->n_out));
    TD_TRY(attrs(&s, def));
    skip(&s);
    if (*s.p != 0) {
        return bad(&s, "the end");
    }
    TD_TRY(link_types(&s, def, def->in, def->n_in));
    return link_types(&s, def, def->out, def->n_out);
}
