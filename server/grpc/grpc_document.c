/* server/grpc/grpc_document.c - walks a document along a message's descriptor and writes the wire format.
 *
 * So what a job or an event says is put together once, for both wires. Maps of texts, lists and nested
 * messages follow from the descriptor; recursion ends with its nesting, which is two levels here.
 *
 * Does not: read (requests have few fields, see server/grpc/grpc_finetune.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_document.h"

#include <string.h>

#include "proto/pb/wire.h"
#include "server/base/rest_json.h"

static enum td_code put_text(struct td_sink *s, uint32_t field, const json_t *v, struct td_err *err)
{
    struct td_sink text = {0};
    if (json_is_string(v)) {
        return td_put_bytes(s, field, json_string_value(v), json_string_length(v), err);
    }
    enum td_code rc = td_rest_put_exact(&text, v, err);
    rc = rc ? rc : td_put_bytes(s, field, text.p, text.n, err);
    td_sink_fini(&text);
    return rc;
}

/* map<string, string>: an entry a member. */
static enum td_code put_map(struct td_sink *s, uint32_t field, const json_t *v, struct td_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        const size_t at = td_put_mark(s);
        TD_TRY(td_put_text(s, 1, key, err));
        TD_TRY(put_text(s, 2, value, err));
        TD_TRY(td_put_end(s, field, at, err));
    }
    return TD_OK;
}

static enum td_code put_double(struct td_sink *s, uint32_t field, double v, struct td_err *err)
{
    TD_TRY(td_put_varint(s, (uint64_t)field << 3 | TD_WIRE_FIXED64, err));
    return td_sink_put(s, &v, sizeof v, err);
}

static enum td_code put_one(struct td_sink *s, const ProtobufCFieldDescriptor *f, const json_t *v,
                            struct td_err *err)
{
    const bool whole = json_is_real(v) && json_real_value(v) == (double)(int64_t)json_real_value(v);
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        return put_text(s, f->id, v, err);
    }
    if (f->type == PROTOBUF_C_TYPE_BOOL && json_is_boolean(v)) {
        return td_put_int(s, f->id, json_is_true(v), err);
    }
    if (f->type == PROTOBUF_C_TYPE_INT64 && (json_is_integer(v) || whole)) {
        return td_put_int(s, f->id, whole ? (int64_t)json_real_value(v) : json_integer_value(v), err);
    }
    if (f->type == PROTOBUF_C_TYPE_DOUBLE && json_is_number(v)) {
        return put_double(s, f->id, json_number_value(v), err);
    }
    TD_FAIL_IF(f->type != PROTOBUF_C_TYPE_MESSAGE || !json_is_object(v), err, INTERNAL,
               "member '%s' of an answer is not of its field's kind", f->name);
    const size_t at = td_put_mark(s);
    TD_TRY(td_grpc_put_document(s, f->descriptor, v, err));
    return td_put_end(s, f->id, at, err);
}

/* A map's entries are messages that the compiler names. */
static bool is_map(const ProtobufCFieldDescriptor *f)
{
    const ProtobufCMessageDescriptor *d = f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
    const size_t n = d != NULL ? strlen(d->short_name) : 0;
    return n > 5 && strcmp(d->short_name + n - 5, "Entry") == 0;
}

enum td_code td_grpc_put_document(struct td_sink *s, const ProtobufCMessageDescriptor *d, const json_t *doc,
                                  struct td_err *err)
{
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const json_t *v = json_object_get(doc, f->name);
        if (v == NULL || json_is_null(v)) {
            continue;
        }
        if (is_map(f)) {
            TD_TRY(put_map(s, f->id, v, err));
        } else if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            for (size_t k = 0; k < json_array_size(v); k++) {
                TD_TRY(put_one(s, f, json_array_get(v, k), err));
            }
        } else {
            TD_TRY(put_one(s, f, v, err));
        }
    }
    return TD_OK;
}
