/* proto/pb/textpb.c - a recursive descent over the descriptor that writes the wire format as it reads the
 * text.
 *
 * A nested message is written in place: its fields first, then td_put_end moves them behind their length. The
 * protobuf-c message is unpacked from the bytes through the guard, so there is one way only in which messages
 * come to be. Recursion is bounded by TD_TEXTPB_DEPTH, for fields that are read and for those that are
 * skipped.
 *
 * A singular field may be given once, and one of a oneof; a mask of 64 fields a message remembers that.
 * Fields without a name in the descriptor are read over by their brackets when the caller allows them. Of
 * [type] { } only an AssetFileDef inside an Any is expanded, the one that SavedModels hold.
 *
 * Does not: read scalars (proto/pb/text_token.c), give defaults, check required fields.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/textpb.h"

#include <stdio.h>
#include <string.h>

#include "proto/pb/guard.h"
#include "proto/schema/tensorflow.pb-c.h"
#include "proto/pb/text_token.h"
#include "proto/pb/wire.h"

enum { PARSED_LIMIT = 64 << 20 };

struct parser {
    struct td_text t;
    struct td_sink *out;
    bool skip_unknown;
    int depth;
};

static enum td_code parse_fields(struct parser *p, const ProtobufCMessageDescriptor *d, char close,
                                 struct td_err *err);

/* The name in "[type.googleapis.com/name]", behind its bracket, into TD_TEXT_NAME bytes. */
static enum td_code bracket_name(struct td_text *t, char *name, struct td_err *err)
{
    td_text_peek(t);
    const char *start = t->p;
    while (t->p < t->end && *t->p != ']' && *t->p != '\n') {
        t->p++;
    }
    size_t n = (size_t)(t->p - start);
    if (n >= TD_TEXT_NAME || !td_text_take(t, ']')) {
        return td_text_fail(t, err, "Expected \"]\" after a type name");
    }
    memcpy(name, start, n);
    name[n] = 0;
    return TD_OK;
}

/* ---- fields that the schema leaves out: read and dropped */

static enum td_code skip_body(struct parser *p, char close, struct td_err *err);

static enum td_code skip_one(struct parser *p, struct td_err *err)
{
    struct td_text *t = &p->t;
    if (td_text_take(t, '{')) {
        return skip_body(p, '}', err);
    }
    if (td_text_take(t, '<')) {
        return skip_body(p, '>', err);
    }
    return td_text_skip_scalar(t, err);
}

static enum td_code skip_value(struct parser *p, struct td_err *err)
{
    struct td_text *t = &p->t;
    (void)td_text_take(t, ':');
    if (!td_text_take(t, '[')) {
        return skip_one(p, err);
    }
    while (!td_text_take(t, ']')) {
        TD_TRY(skip_one(p, err));
        if (!td_text_take(t, ',') && td_text_peek(t) != ']') {
            return td_text_fail(t, err, "Expected \",\" or \"]\"");
        }
    }
    return TD_OK;
}

static enum td_code skip_body(struct parser *p, char close, struct td_err *err)
{
    struct td_text *t = &p->t;
    if (p->depth == TD_TEXTPB_DEPTH) {
        return td_text_fail(t, err, "Messages nest too deep");
    }
    p->depth++;
    while (!td_text_take(t, close)) {
        char name[TD_TEXT_NAME];
        if (td_text_take(t, '[')) {
            TD_TRY(bracket_name(t, name, err));
        } else {
            TD_TRY(td_text_name(t, name, err));
        }
        TD_TRY(skip_value(p, err));
        (void)(td_text_take(t, ',') || td_text_take(t, ';'));
    }
    p->depth--;
    return TD_OK;
}

/* ---- known fields */

static enum td_code parse_message(struct parser *p, const ProtobufCFieldDescriptor *fd, struct td_err *err)
{
    struct td_text *t = &p->t;
    size_t mark;
    char close = td_text_take(t, '{') ? '}' : td_text_take(t, '<') ? '>' : 0;
    if (close == 0) {
        return td_text_fail(t, err, "Expected \"{\" or \"<\"");
    }
    if (p->depth == TD_TEXTPB_DEPTH) {
        return td_text_fail(t, err, "Messages nest too deep");
    }
    p->depth++;
    mark = td_put_mark(p->out);
    TD_TRY(parse_fields(p, fd->descriptor, close, err));
    p->depth--;
    return td_put_end(p->out, fd->id, mark, err);
}

static enum td_code parse_string(struct parser *p, const ProtobufCFieldDescriptor *fd, struct td_err *err)
{
    size_t mark = td_put_mark(p->out);
    TD_TRY(td_text_string(&p->t, p->out, err));
    if (fd->type == PROTOBUF_C_TYPE_STRING && !p->skip_unknown && p->out->n > mark &&
        memchr(p->out->p + mark, 0, p->out->n - mark) != NULL) {
        return td_text_fail(&p->t, err, "A string field holds a NUL byte");
    }
    return td_put_end(p->out, fd->id, mark, err);
}

static enum td_code parse_enum(struct parser *p, const ProtobufCFieldDescriptor *fd, struct td_err *err)
{
    struct td_text *t = &p->t;
    char name[TD_TEXT_NAME];
    const ProtobufCEnumDescriptor *e = fd->descriptor;
    if (td_text_at_number(t)) {
        int64_t v;
        TD_TRY(td_text_int(t, INT32_MIN, INT32_MAX, &v, err));
        return td_put_int(p->out, fd->id, v, err);
    }
    TD_TRY(td_text_name(t, name, err));
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value_by_name(e, name);
    if (v == NULL) {
        char why[160];
        snprintf(why, sizeof why, "Unknown enumeration value of \"%.40s\" for field \"%.40s\"", name,
                 fd->name);
        return td_text_fail(t, err, why);
    }
    return td_put_int(p->out, fd->id, v->value, err);
}

static enum td_code put_fixed(struct td_sink *out, uint32_t field, uint64_t v, size_t size,
                              struct td_err *err)
{
    enum td_wire_type type = size == 4 ? TD_WIRE_FIXED32 : TD_WIRE_FIXED64;
    TD_TRY(td_put_varint(out, (uint64_t)field << 3 | type, err));
    return td_sink_put(out, &v, size, err); /* little-endian host */
}

static enum td_code parse_integer(struct parser *p, const ProtobufCFieldDescriptor *fd, struct td_err *err)
{
    int64_t v = 0;
    uint64_t u = 0;
    switch (fd->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        TD_TRY(td_text_uint(&p->t, UINT32_MAX, &u, err));
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        TD_TRY(td_text_uint(&p->t, UINT64_MAX, &u, err));
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        TD_TRY(td_text_int(&p->t, INT64_MIN, INT64_MAX, &v, err));
        u = (uint64_t)v;
        break;
    default:
        TD_TRY(td_text_int(&p->t, INT32_MIN, INT32_MAX, &v, err));
        u = (uint64_t)v;
    }
    switch (fd->type) {
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SINT64:
        return td_put_int(p->out, fd->id, (int64_t)((u << 1) ^ (uint64_t)(v >> 63)), err);
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return put_fixed(p->out, fd->id, u, 4, err);
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return put_fixed(p->out, fd->id, u, 8, err);
    default:
        return td_put_int(p->out, fd->id, (int64_t)u, err);
    }
}

static enum td_code parse_float(struct parser *p, const ProtobufCFieldDescriptor *fd, struct td_err *err)
{
    double v;
    TD_TRY(td_text_double(&p->t, &v, err));
    if (fd->type == PROTOBUF_C_TYPE_FLOAT) {
        return td_put_float(p->out, fd->id, (float)v, err);
    }
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return put_fixed(p->out, fd->id, bits, 8, err);
}

static enum td_code parse_one(struct parser *p, const ProtobufCFieldDescriptor *fd, struct td_err *err)
{
    bool b;
    switch (fd->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return parse_message(p, fd, err);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return parse_string(p, fd, err);
    case PROTOBUF_C_TYPE_ENUM:
        return parse_enum(p, fd, err);
    case PROTOBUF_C_TYPE_BOOL:
        TD_TRY(td_text_bool(&p->t, &b, err));
        return td_put_int(p->out, fd->id, b, err);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return parse_float(p, fd, err);
    default:
        return parse_integer(p, fd, err);
    }
}

static enum td_code parse_value(struct parser *p, const ProtobufCFieldDescriptor *fd, struct td_err *err)
{
    struct td_text *t = &p->t;
    bool colon = td_text_take(t, ':');
    if (!colon && fd->type != PROTOBUF_C_TYPE_MESSAGE) {
        return td_text_fail(t, err, "Expected \":\"");
    }
    if (fd->label != PROTOBUF_C_LABEL_REPEATED || !td_text_take(t, '[')) {
        return parse_one(p, fd, err);
    }
    while (!td_text_take(t, ']')) {
        TD_TRY(parse_one(p, fd, err));
        if (!td_text_take(t, ',') && td_text_peek(t) != ']') {
            return td_text_fail(t, err, "Expected \",\" or \"]\"");
        }
    }
    return TD_OK;
}

/* ---- "[type.googleapis.com/tensorflow.AssetFileDef] { ... }" inside an Any: the one type that SavedModels
 * hold so */

static enum td_code parse_any(struct parser *p, const ProtobufCMessageDescriptor *d, struct td_err *err)
{
    static const ProtobufCMessageDescriptor *const asset = &tensorflow__asset_file_def__descriptor;
    ProtobufCFieldDescriptor value = {
        .id = 2, .name = "value", .type = PROTOBUF_C_TYPE_MESSAGE, .descriptor = asset};
    char url[TD_TEXT_NAME];
    struct td_text at = p->t;
    TD_TRY(bracket_name(&p->t, url, err));
    const char *slash = strrchr(url, '/');
    bool known =
        d == &google__protobuf__any__descriptor && slash != NULL && strcmp(slash + 1, asset->name) == 0;
    if (!known && !p->skip_unknown) {
        return td_text_fail(&at, err, "Any and extension fields ([name] { }) are not expanded here");
    }
    if (!known) {
        return skip_value(p, err);
    }
    (void)td_text_take(&p->t, ':');
    TD_TRY(td_put_text(p->out, 1, url, err));
    return parse_message(p, &value, err);
}

/* The fields of d seen so far in one message, by position; none of our messages has more than 64. */
struct seen {
    uint64_t fields;
};

static enum td_code check_once(struct parser *p, const ProtobufCMessageDescriptor *d,
                               const ProtobufCFieldDescriptor *fd, struct seen *seen, struct td_err *err)
{
    char why[200];
    if (fd->label == PROTOBUF_C_LABEL_REPEATED) {
        return TD_OK;
    }
    for (unsigned i = 0; i < d->n_fields && i < 64; i++) {
        const ProtobufCFieldDescriptor *other = &d->fields[i];
        bool met = seen->fields >> i & 1;
        if (met && other == fd) {
            snprintf(why, sizeof why, "Non-repeated field \"%.60s\" is specified multiple times", fd->name);
            return td_text_fail(&p->t, err, why);
        }
        if (met && (fd->flags & other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
            fd->quantifier_offset == other->quantifier_offset) {
            snprintf(why, sizeof why,
                     "Field \"%.50s\" is specified along with field \"%.50s\", another of its oneof",
                     fd->name, other->name);
            return td_text_fail(&p->t, err, why);
        }
    }
    ptrdiff_t at = fd - d->fields;
    seen->fields |= at < 64 ? UINT64_C(1) << at : 0;
    return TD_OK;
}

static enum td_code parse_field(struct parser *p, const ProtobufCMessageDescriptor *d, struct seen *seen,
                                struct td_err *err)
{
    struct td_text *t = &p->t;
    char name[TD_TEXT_NAME];
    if (td_text_take(t, '[')) {
        return parse_any(p, d, err);
    }
    struct td_text at = *t;
    TD_TRY(td_text_name(t, name, err));
    const ProtobufCFieldDescriptor *fd = protobuf_c_message_descriptor_get_field_by_name(d, name);
    if (fd == NULL && p->skip_unknown) {
        return skip_value(p, err);
    }
    if (fd == NULL) {
        char why[200];
        snprintf(why, sizeof why, "Message type \"%.80s\" has no field named \"%.80s\".", d->name, name);
        return td_text_fail(&at, err, why);
    }
    TD_TRY(check_once(p, d, fd, seen, err));
    return parse_value(p, fd, err);
}

/* close 0: up to the end of the text. */
static enum td_code parse_fields(struct parser *p, const ProtobufCMessageDescriptor *d, char close,
                                 struct td_err *err)
{
    struct td_text *t = &p->t;
    struct seen seen = {0};
    while (close ? !td_text_take(t, close) : td_text_peek(t) != 0) {
        TD_TRY(parse_field(p, d, &seen, err));
        (void)(td_text_take(t, ',') || td_text_take(t, ';'));
    }
    return TD_OK;
}

enum td_code td_textpb_to_bytes(const ProtobufCMessageDescriptor *d, const char *text, size_t n,
                                bool skip_unknown, struct td_sink *out, struct td_err *err)
{
    struct parser p = {.t = td_text_make(text, n, d->name), .out = out, .skip_unknown = skip_unknown};
    if (memchr(text, 0, n) != NULL) {
        p.t.p = memchr(text, 0, n);
        return td_text_fail(&p.t, err, "The text holds a NUL byte");
    }
    return parse_fields(&p, d, 0, err);
}

enum td_code td_textpb_parse(const ProtobufCMessageDescriptor *d, const char *text, size_t n,
                             bool skip_unknown, ProtobufCMessage **out, struct td_err *err)
{
    struct td_sink s = {.limit = PARSED_LIMIT};
    enum td_code rc = td_textpb_to_bytes(d, text, n, skip_unknown, &s, err);
    if (rc == TD_OK) {
        rc = td_guard_unpack(d, s.p, s.n, (uint64_t)PARSED_LIMIT * 16, out, err);
    }
    td_sink_fini(&s);
    return rc;
}
