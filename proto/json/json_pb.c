/* proto/json/json_pb.c - rewrites JSON as the wire format in one pass; the guard then unpacks it.
 *
 * The descriptor says how each value is read: a map's object becomes one entry message a member, a list one
 * field an element, a nested message is written and then moved behind its length. Whole numbers are checked
 * against the range of their field; reals that are whole count as such. Names of enum values are compared
 * without regard to case, as Triton does. No message is built by hand. Functions call each other once a
 * nesting level, TD_GUARD_DEPTH levels at most; the wire form and the unpacked message are each bounded by 64
 * MiB.
 *
 * Does not: read bytes fields (they are not among our configurations), floats, fixed or zigzag integers:
 * UNIMPLEMENTED or a wrong-kind error names the field.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_pb.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "proto/pb/guard.h"
#include "proto/pb/wire.h"
#include "proto/json/json_read.h"

#define MAX_BYTES ((size_t)64 << 20) /* of the wire form, and of the unpacked message */
#define MAX_NAME 128                 /* bytes of a field's or an enum value's name */

struct writer {
    struct td_json j;
    struct td_sink *out;
    int depth;
    bool skip_unknown;
};

static enum td_code put_message(struct writer *w, const ProtobufCMessageDescriptor *d, struct td_err *err);

/* ------------------------------------------------------------------ names */

static bool is_camel(const struct td_json_str *key, const char *name)
{
    char camel[MAX_NAME];
    size_t n = 0;
    for (const char *c = name; *c != '\0' && n + 1 < sizeof camel; c++) {
        const bool joins = *c == '_' && c[1] != '\0';
        c += joins;
        camel[n++] = joins ? (char)toupper((unsigned char)*c) : *c;
    }
    camel[n] = '\0';
    return td_json_str_is(key, camel);
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *d,
                                                  const struct td_json_str *key)
{
    for (unsigned i = 0; i < d->n_fields; i++) {
        if (td_json_str_is(key, d->fields[i].name) || is_camel(key, d->fields[i].name)) {
            return &d->fields[i];
        }
    }
    return NULL;
}

/* A map's entries are messages of two fields, named by the compiler. */
static bool is_map(const ProtobufCFieldDescriptor *f)
{
    const ProtobufCMessageDescriptor *d = f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
    const size_t n = d != NULL ? strlen(d->short_name) : 0;
    return n > 5 && strcmp(d->short_name + n - 5, "Entry") == 0 && d->n_fields == 2 &&
           strcmp(d->fields[0].name, "key") == 0;
}

/* ------------------------------------------------------------------ scalars */

static enum td_code wrong(const ProtobufCFieldDescriptor *f, const char *want, struct td_err *err)
{
    return td_fail(err, TD_INVALID_ARGUMENT, "field '%s': %s is wanted", f->name, want);
}

static enum td_code put_text(struct writer *w, const ProtobufCFieldDescriptor *f, const struct td_json_str *s,
                             struct td_err *err)
{
    size_t n = 0;
    char *text = td_calloc(s->len + 1, 1);
    if (text == NULL) {
        return td_no_memory(err, s->len, "a text");
    }
    enum td_code rc = td_json_unescape(&w->j, s, text, &n, err);
    rc = rc ? rc : td_put_bytes(w->out, f->id, text, n, err);
    td_free(text);
    return rc;
}

static enum td_code put_double(struct writer *w, const ProtobufCFieldDescriptor *f, double v,
                               struct td_err *err)
{
    TD_TRY(td_put_varint(w->out, (uint64_t)f->id << 3 | TD_WIRE_FIXED64, err));
    return td_sink_put(w->out, (const char *)&v, sizeof v, err);
}

static enum td_code put_number(struct writer *w, const ProtobufCFieldDescriptor *f,
                               const struct td_json_num *n, struct td_err *err)
{
    const bool whole =
        n->kind != TD_JSON_REAL || (n->d >= -0x1p53 && n->d <= 0x1p53 && n->d == (double)(int64_t)n->d);
    const bool large = n->kind == TD_JSON_UINT;
    const int64_t i = large ? INT64_MAX : n->kind == TD_JSON_INT ? n->i : whole ? (int64_t)n->d : 0;
    bool fits = whole;
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        fits = fits && !large && i >= INT32_MIN && i <= INT32_MAX;
        break;
    case PROTOBUF_C_TYPE_UINT32:
        fits = fits && !large && i >= 0 && i <= UINT32_MAX;
        break;
    case PROTOBUF_C_TYPE_INT64:
        fits = fits && !large;
        break;
    case PROTOBUF_C_TYPE_UINT64:
        fits = fits && (large || i >= 0);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        return put_double(w, f, td_json_num_double(n), err);
    default: /* our configurations have no others */
        return td_fail(err, TD_UNIMPLEMENTED, "field '%s' has a type that JSON is not read for", f->name);
    }
    return fits ? td_put_int(w->out, f->id, large ? (int64_t)n->u : i, err)
                : wrong(f, "a whole number in range", err);
}

/* A number that stands in quotes, as 64-bit ones and the keys of maps may. */
static enum td_code put_quoted(struct writer *w, const ProtobufCFieldDescriptor *f,
                               const struct td_json_str *s, struct td_err *err)
{
    char digits[32] = "";
    struct td_json_num n;
    if (s->escaped || s->len == 0 || s->len >= sizeof digits) {
        return wrong(f, "a number", err);
    }
    memcpy(digits, s->p, s->len);
    struct td_json j = td_json_make(digits, s->len);
    if (!td_json_at_number(&j) || td_json_number(&j, &n, err) || td_json_peek(&j) != '\0') {
        *err = (struct td_err){0}; /* the field says it better */
        return wrong(f, "a number", err);
    }
    return put_number(w, f, &n, err);
}

/* Names of enum values are read without regard to case, as Triton reads them. */
static enum td_code put_enum_name(struct writer *w, const ProtobufCFieldDescriptor *f,
                                  const struct td_json_str *s, struct td_err *err)
{
    const ProtobufCEnumDescriptor *d = f->descriptor;
    for (unsigned i = 0; i < d->n_values; i++) {
        const char *name = d->values[i].name;
        if (strlen(name) == s->len && strncasecmp(s->p, name, s->len) == 0) {
            return td_put_int(w->out, f->id, d->values[i].value, err);
        }
    }
    return td_fail(err, TD_INVALID_ARGUMENT, "field '%s': '%.*s' is no value of %s", f->name,
                   (int)(s->len < MAX_NAME ? s->len : MAX_NAME), s->p, d->name);
}

/* A string token as the value of a field, or as the key of a map's entry. */
static enum td_code put_string(struct writer *w, const ProtobufCFieldDescriptor *f,
                               const struct td_json_str *s, struct td_err *err)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        return put_text(w, f, s, err);
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum_name(w, f, s, err);
    case PROTOBUF_C_TYPE_BOOL:
        return wrong(f, "true or false", err);
    case PROTOBUF_C_TYPE_MESSAGE:
        return wrong(f, "an object", err);
    default:
        return put_quoted(w, f, s, err);
    }
}

/* ------------------------------------------------------------------ values */

/* The nested message at the reader, as field f; of an entry when key is there. */
static enum td_code put_nested(struct writer *w, const ProtobufCFieldDescriptor *f, struct td_err *err)
{
    const size_t at = td_put_mark(w->out);
    TD_TRY(put_message(w, f->descriptor, err));
    return td_put_end(w->out, f->id, at, err);
}

static enum td_code put_value(struct writer *w, const ProtobufCFieldDescriptor *f, struct td_err *err)
{
    struct td_json_str s;
    struct td_json_num n;
    const char next = td_json_peek(&w->j);
    if (next == '"') {
        TD_TRY(td_json_string(&w->j, &s, err));
        return put_string(w, f, &s, err);
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        return next == '{' ? put_nested(w, f, err) : wrong(f, "an object", err);
    }
    if (f->type == PROTOBUF_C_TYPE_BOOL) {
        const char word = td_json_literal(&w->j);
        return word == 't' || word == 'f' ? td_put_int(w->out, f->id, word == 't', err)
                                          : wrong(f, "true or false", err);
    }
    if (f->type == PROTOBUF_C_TYPE_STRING || !td_json_at_number(&w->j)) {
        return wrong(f, f->type == PROTOBUF_C_TYPE_STRING ? "a string" : "a number", err);
    }
    TD_TRY(td_json_number(&w->j, &n, err));
    return put_number(w, f, &n, err);
}

static enum td_code put_map(struct writer *w, const ProtobufCFieldDescriptor *f, struct td_err *err)
{
    const ProtobufCMessageDescriptor *entry = f->descriptor;
    struct td_json_str key;
    if (!td_json_eat(&w->j, '{')) {
        return wrong(f, "an object", err);
    }
    for (bool first = true, more;; first = false) {
        TD_TRY(td_json_member(&w->j, first, &key, &more, err));
        if (!more) {
            return TD_OK;
        }
        const size_t at = td_put_mark(w->out);
        TD_TRY(put_string(w, &entry->fields[0], &key, err));
        TD_TRY(put_value(w, &entry->fields[1], err));
        TD_TRY(td_put_end(w->out, f->id, at, err));
    }
}

static enum td_code put_list(struct writer *w, const ProtobufCFieldDescriptor *f, struct td_err *err)
{
    if (!td_json_eat(&w->j, '[')) {
        return wrong(f, "a list", err);
    }
    if (td_json_eat(&w->j, ']')) {
        return TD_OK;
    }
    do {
        TD_TRY(put_value(w, f, err));
    } while (td_json_eat(&w->j, ','));
    return td_json_eat(&w->j, ']') ? TD_OK
                                   : td_json_fail(&w->j, err, "Missing a comma or ] after an array element.");
}

static enum td_code put_field(struct writer *w, const ProtobufCFieldDescriptor *f, struct td_err *err)
{
    if (td_json_peek(&w->j) == 'n') {
        return td_json_literal(&w->j) == 'n' ? TD_OK : td_json_fail(&w->j, err, "Invalid value.");
    }
    return is_map(f)                               ? put_map(w, f, err)
           : f->label == PROTOBUF_C_LABEL_REPEATED ? put_list(w, f, err)
                                                   : put_value(w, f, err);
}

static enum td_code put_message(struct writer *w, const ProtobufCMessageDescriptor *d, struct td_err *err)
{
    struct td_json_str key;
    if (!td_json_eat(&w->j, '{')) {
        return td_json_fail(&w->j, err, "an object is wanted");
    }
    TD_FAIL_IF(++w->depth > TD_GUARD_DEPTH, err, INVALID_ARGUMENT, "nested more than %d levels deep",
               TD_GUARD_DEPTH);
    for (bool first = true, more;; first = false) {
        TD_TRY(td_json_member(&w->j, first, &key, &more, err));
        if (!more) {
            w->depth--;
            return TD_OK;
        }
        const ProtobufCFieldDescriptor *f = find_field(d, &key);
        TD_FAIL_IF(f == NULL && !w->skip_unknown, err, INVALID_ARGUMENT,
                   "Message type \"%s\" has no field named \"%.*s\".", d->name,
                   (int)(key.len < MAX_NAME ? key.len : MAX_NAME), key.p);
        TD_TRY(f == NULL ? td_json_skip(&w->j, err) : put_field(w, f, err));
    }
}

enum td_code td_json_pb_parse(const ProtobufCMessageDescriptor *d, const char *text, size_t n,
                              bool skip_unknown, ProtobufCMessage **out, struct td_err *err)
{
    struct td_sink bytes = {.limit = MAX_BYTES};
    struct writer w = {td_json_make(text, n), &bytes, 0, skip_unknown};
    enum td_code rc = put_message(&w, d, err);
    (void)td_json_peek(&w.j);
    if (rc == TD_OK && w.j.at != w.j.end) {
        rc = td_json_fail(&w.j, err, "text behind the object");
    }
    rc = rc ? rc : td_guard_unpack_sent(d, bytes.p, bytes.n, MAX_BYTES, out, err);
    td_sink_fini(&bytes);
    return rc ? td_err_wrap(err, "Error parsing JSON %s", d->name) : TD_OK;
}
