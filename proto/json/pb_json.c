/* proto/json/pb_json.c - walks a message along its descriptor and writes each field from its place in the
 * struct.
 *
 * protobuf-c's descriptors give the offset of every field and of its count or oneof case; a repeated field is
 * an array of elements whose size follows from the type, and an entry of a map is a message of two fields.
 * Texts that are not UTF-8 are written as {"b64": "..."}. Its recursion ends where the message's nesting
 * does, which proto/pb/guard.h bounded when the message was read.
 *
 * Does not: leave out defaults, sort, indent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/pb_json.h"
#include "core/base/utf8.h"

#include <string.h>

#include "proto/json/json_write.h"

static enum td_code put(struct td_sink *s, const char *text, struct td_err *err)
{
    return td_sink_put(s, text, strlen(text), err);
}

static enum td_code put_text(struct td_sink *s, const char *text, struct td_err *err)
{
    text = text != NULL ? text : "";
    return td_utf8(text, strlen(text)) ? td_json_put_string(s, text, strlen(text), err)
                                       : td_json_put_b64(s, text, strlen(text), err);
}

static enum td_code put_enum(const ProtobufCFieldDescriptor *f, int v, struct td_sink *s, struct td_err *err)
{
    const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value(f->descriptor, v);
    char digits[TD_JSON_NUM_CHARS];
    return named != NULL ? put_text(s, named->name, err)
                         : td_sink_put(s, digits, td_json_put_int(digits, v), err);
}

static enum td_code put_number(const ProtobufCFieldDescriptor *f, const void *at, struct td_sink *s,
                               struct td_err *err)
{
    char digits[TD_JSON_NUM_CHARS];
    size_t n;
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        n = td_json_put_int(digits, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        n = td_json_put_uint(digits, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        n = td_json_put_uint(digits, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        n = td_json_put_float(digits, *(const float *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        n = td_json_put_double(digits, *(const double *)at);
        break;
    default:
        n = td_json_put_int(digits, *(const int64_t *)at);
        break;
    }
    return td_sink_put(s, digits, n, err);
}

static enum td_code put_value(const ProtobufCFieldDescriptor *f, const void *at, struct td_sink *s,
                              struct td_err *err)
{
    const ProtobufCBinaryData *bytes = at;
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return td_pb_json_write(*(ProtobufCMessage *const *)at, s, err);
    case PROTOBUF_C_TYPE_STRING:
        return put_text(s, *(char *const *)at, err);
    case PROTOBUF_C_TYPE_BYTES:
        return td_json_put_b64(s, (const char *)bytes->data, bytes->len, err);
    case PROTOBUF_C_TYPE_BOOL:
        return put(s, *(const protobuf_c_boolean *)at ? "true" : "false", err);
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(f, *(const int *)at, s, err);
    default:
        return put_number(f, at, s, err);
    }
}

static size_t element_size(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return 4;
    default:
        return 8;
    }
}

/* A map's entries are messages of two fields, named by the compiler. */
static bool is_map(const ProtobufCFieldDescriptor *f)
{
    const ProtobufCMessageDescriptor *d = f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
    const size_t n = d != NULL ? strlen(d->short_name) : 0;
    return n > 5 && strcmp(d->short_name + n - 5, "Entry") == 0 && d->n_fields == 2 &&
           strcmp(d->fields[0].name, "key") == 0;
}

static enum td_code put_entry(const ProtobufCMessage *entry, struct td_sink *s, struct td_err *err)
{
    const ProtobufCFieldDescriptor *key = &entry->descriptor->fields[0], *value = key + 1;
    const void *at = (const char *)entry + value->offset;
    const bool quoted = key->type == PROTOBUF_C_TYPE_STRING;
    TD_TRY(quoted ? TD_OK : put(s, "\"", err));
    TD_TRY(put_value(key, (const char *)entry + key->offset, s, err));
    TD_TRY(put(s, quoted ? ":" : "\":", err));
    const bool none = value->type == PROTOBUF_C_TYPE_MESSAGE && *(void *const *)at == NULL;
    return none ? put(s, "{}", err) : put_value(value, at, s, err);
}

static enum td_code put_repeated(const ProtobufCFieldDescriptor *f, const char *m, struct td_sink *s,
                                 struct td_err *err)
{
    const size_t n = *(const size_t *)(m + f->quantifier_offset), size = element_size(f);
    const char *at = *(char *const *)(m + f->offset);
    const bool map = is_map(f);
    TD_TRY(put(s, map ? "{" : "[", err));
    for (size_t i = 0; i < n; i++, at += size) {
        TD_TRY(i > 0 ? put(s, ",", err) : TD_OK);
        TD_TRY(map ? put_entry(*(ProtobufCMessage *const *)at, s, err) : put_value(f, at, s, err));
    }
    return put(s, map ? "}" : "]", err);
}

static bool is_set(const ProtobufCFieldDescriptor *f, const char *m)
{
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        return true;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        return *(const uint32_t *)(m + f->quantifier_offset) == f->id;
    }
    return f->type != PROTOBUF_C_TYPE_MESSAGE || *(void *const *)(m + f->offset) != NULL;
}

enum td_code td_pb_json_write(const ProtobufCMessage *m, struct td_sink *s, struct td_err *err)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const char *base = (const char *)m;
    bool first = true;
    TD_TRY(put(s, "{", err));
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        if (!is_set(f, base)) {
            continue;
        }
        TD_TRY(first ? TD_OK : put(s, ",", err));
        TD_TRY(put_text(s, f->name, err));
        TD_TRY(put(s, ":", err));
        TD_TRY(f->label == PROTOBUF_C_LABEL_REPEATED ? put_repeated(f, base, s, err)
                                                     : put_value(f, base + f->offset, s, err));
        first = false;
    }
    return put(s, "}", err);
}
