/* kernels/data/proto_fields.c - a table of known messages, and a reader of FileDescriptorSet.
 *
 *   FileDescriptorSet { file = 1 }  file { package = 2, message = 4, syntax = 12 }
 *   message { name = 1, field = 2, nested = 3 }
 *   field { name = 1, number = 3, label = 4, type = 5, options = 8 }
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/proto_fields.h"

#include "proto/pb/scan.h"

#include <stdio.h>
#include <string.h>

struct known {
    const char *message, *name;
    struct td_proto_field field;
};

#define ONE(message, name, number, type)                                                                     \
    {                                                                                                        \
        "tensorflow." message, name,                                                                         \
        {                                                                                                    \
            number, TD_PROTO_##type, false, false                                                            \
        }                                                                                                    \
    }
#define MANY(message, name, number, type, packed)                                                            \
    {                                                                                                        \
        "tensorflow." message, name,                                                                         \
        {                                                                                                    \
            number, TD_PROTO_##type, true, packed                                                            \
        }                                                                                                    \
    }

static const struct known known_fields[] = {
    MANY("BytesList", "value", 1, BYTES, false),
    MANY("FloatList", "value", 1, FLOAT, true),
    MANY("Int64List", "value", 1, INT64, true),
    ONE("Feature", "bytes_list", 1, MESSAGE),
    ONE("Feature", "float_list", 2, MESSAGE),
    ONE("Feature", "int64_list", 3, MESSAGE),
    MANY("Features", "feature", 1, MESSAGE, false),
    ONE("Features.FeatureEntry", "key", 1, STRING),
    ONE("Features.FeatureEntry", "value", 2, MESSAGE),
    MANY("FeatureList", "feature", 1, MESSAGE, false),
    MANY("FeatureLists", "feature_list", 1, MESSAGE, false),
    ONE("FeatureLists.FeatureListEntry", "key", 1, STRING),
    ONE("FeatureLists.FeatureListEntry", "value", 2, MESSAGE),
    ONE("Example", "features", 1, MESSAGE),
    ONE("SequenceExample", "context", 1, MESSAGE),
    ONE("SequenceExample", "feature_lists", 2, MESSAGE),
    MANY("TensorShapeProto", "dim", 2, MESSAGE, false),
    ONE("TensorShapeProto", "unknown_rank", 3, BOOL),
    ONE("TensorShapeProto.Dim", "size", 1, INT64),
    ONE("TensorShapeProto.Dim", "name", 2, STRING),
    ONE("TensorProto", "dtype", 1, ENUM),
    ONE("TensorProto", "tensor_shape", 2, MESSAGE),
    ONE("TensorProto", "version_number", 3, INT32),
    ONE("TensorProto", "tensor_content", 4, BYTES),
    MANY("TensorProto", "half_val", 13, INT32, true),
    MANY("TensorProto", "float_val", 5, FLOAT, true),
    MANY("TensorProto", "double_val", 6, DOUBLE, true),
    MANY("TensorProto", "int_val", 7, INT32, true),
    MANY("TensorProto", "string_val", 8, BYTES, false),
    MANY("TensorProto", "scomplex_val", 9, FLOAT, true),
    MANY("TensorProto", "int64_val", 10, INT64, true),
    MANY("TensorProto", "bool_val", 11, BOOL, true),
    MANY("TensorProto", "dcomplex_val", 12, DOUBLE, true),
    MANY("TensorProto", "resource_handle_val", 14, MESSAGE, false),
    MANY("TensorProto", "variant_val", 15, MESSAGE, false),
    MANY("TensorProto", "uint32_val", 16, UINT32, true),
    MANY("TensorProto", "uint64_val", 17, UINT64, true),
};

static bool find_known(const char *message, const char *name, bool *has_message, struct td_proto_field *out)
{
    for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++) {
        if (strcmp(known_fields[i].message, message) == 0) {
            *has_message = true;
            if (strcmp(known_fields[i].name, name) == 0) {
                *out = known_fields[i].field;
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------ descriptors carried by the node */

struct text {
    const uint8_t *p;
    size_t n;
};

static bool text_is(struct text t, const char *s, size_t n)
{
    return t.n == n && (n == 0 || memcmp(t.p, s, n) == 0);
}

static bool is_packable(enum td_proto_type t)
{
    return t != TD_PROTO_STRING && t != TD_PROTO_BYTES && t != TD_PROTO_MESSAGE;
}

/* Reads one FieldDescriptorProto; *name is its name. */
static struct td_proto_field read_field(struct td_scan s, bool proto3, struct text *name)
{
    struct td_proto_field out = {0};
    struct td_scan_field f, o;
    bool packed = proto3;
    *name = (struct text){(const uint8_t *)"", 0};
    while (td_scan_next(&s, &f)) {
        if (f.number == 1) {
            *name = (struct text){f.p, f.len};
        } else if (f.number == 3) {
            out.number = (uint32_t)f.u64;
        } else if (f.number == 4) {
            out.repeated = f.u64 == 3;
        } else if (f.number == 5) {
            out.type = (enum td_proto_type)f.u64;
        } else if (f.number == 8) {
            struct td_scan options = td_scan_make(f.p, f.len);
            while (td_scan_next(&options, &o)) {
                packed = o.number == 2 ? o.u64 != 0 : packed;
            }
        }
    }
    out.packed = out.repeated && packed && is_packable(out.type);
    return out;
}

/* Looks in a DescriptorProto, and in those nested in it along the path that `want` spells ("Outer.Inner"). */
static bool find_in_message(struct td_scan s, const char *want, const char *name, bool proto3,
                            bool *has_message, struct td_proto_field *out)
{
    for (;;) {
        struct td_scan pass = s, inner = {0};
        struct td_scan_field f;
        struct text own = {(const uint8_t *)"", 0};
        while (td_scan_next(&pass, &f)) {
            own = f.number == 1 ? (struct text){f.p, f.len} : own;
        }
        const char *dot = strchr(want, '.');
        if (!text_is(own, want, dot ? (size_t)(dot - want) : strlen(want))) {
            return false;
        }
        *has_message |= !dot;
        bool descend = false;
        for (pass = s; td_scan_next(&pass, &f);) {
            struct text field;
            if (!dot && f.number == 2) {
                *out = read_field(td_scan_make(f.p, f.len), proto3, &field);
                if (text_is(field, name, strlen(name))) {
                    return true;
                }
            } else if (dot && f.number == 3) {
                struct td_scan nested = td_scan_make(f.p, f.len);
                struct td_scan_field g;
                const char *next = strchr(dot + 1, '.');
                size_t n = next ? (size_t)(next - dot - 1) : strlen(dot + 1);
                while (td_scan_next(&nested, &g)) {
                    if (g.number == 1 && text_is((struct text){g.p, g.len}, dot + 1, n)) {
                        inner = td_scan_make(f.p, f.len);
                        descend = true;
                    }
                }
            }
        }
        if (!descend) {
            return false;
        }
        s = inner;
        want = dot + 1;
    }
}

static bool find_in_file(struct td_scan file, const char *message, const char *name, bool *has_message,
                         struct td_proto_field *out)
{
    struct td_scan pass = file;
    struct td_scan_field f;
    struct text package = {(const uint8_t *)"", 0};
    bool proto3 = false;
    while (td_scan_next(&pass, &f)) {
        package = f.number == 2 ? (struct text){f.p, f.len} : package;
        proto3 |= f.number == 12 && text_is((struct text){f.p, f.len}, "proto3", 6);
    }
    if (package.n > 0) {
        if (strncmp(message, (const char *)package.p, package.n) != 0 || message[package.n] != '.') {
            return false;
        }
        message += package.n + 1;
    }
    for (pass = file; td_scan_next(&pass, &f);) {
        if (f.number == 4 &&
            find_in_message(td_scan_make(f.p, f.len), message, name, proto3, has_message, out)) {
            return true;
        }
    }
    return false;
}

static bool find_in_set(struct td_bytes set, const char *message, const char *name, bool *has_message,
                        struct td_proto_field *out)
{
    struct td_scan s = td_scan_make(set.p, set.len);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (f.number == 1 && find_in_file(td_scan_make(f.p, f.len), message, name, has_message, out)) {
            return true;
        }
    }
    return false;
}

enum td_code td_proto_field_find(struct td_bytes source, const char *message, const char *name,
                                 struct td_proto_field *out, struct td_err *err)
{
    static const char carried[] = "bytes://";
    bool has_message = false, found;
    if (source.len == 0 || strcmp(source.p, "local://") == 0) {
        found = find_known(message, name, &has_message, out);
    } else if (source.len >= 8 && memcmp(source.p, carried, 8) == 0) {
        found =
            find_in_set((struct td_bytes){source.p + 8, source.len - 8}, message, name, &has_message, out);
    } else {
        TD_FAIL(err, UNIMPLEMENTED,
                "descriptor_source '%.60s': want local:// or bytes://, files are not read", source.p);
    }
    TD_FAIL_IF(!found && !has_message, err, INVALID_ARGUMENT, "No descriptor found for message type %.100s",
               message);
    TD_FAIL_IF(!found, err, INVALID_ARGUMENT, "Unknown field: %.100s in message type %.100s", name, message);
    return TD_OK;
}

bool td_proto_type_fits(enum td_proto_type type, enum td_dtype dtype)
{
    switch (type) {
    case TD_PROTO_DOUBLE:
        return dtype == TD_DOUBLE;
    case TD_PROTO_FLOAT:
        return dtype == TD_FLOAT || dtype == TD_DOUBLE;
    case TD_PROTO_INT64:
    case TD_PROTO_SFIXED64:
    case TD_PROTO_SINT64:
        return dtype == TD_INT64;
    case TD_PROTO_UINT64:
    case TD_PROTO_FIXED64:
        return dtype == TD_UINT64;
    case TD_PROTO_INT32:
    case TD_PROTO_SFIXED32:
    case TD_PROTO_SINT32:
    case TD_PROTO_ENUM:
        return dtype == TD_INT32;
    case TD_PROTO_UINT32:
    case TD_PROTO_FIXED32:
        return dtype == TD_UINT32 || dtype == TD_UINT64;
    case TD_PROTO_BOOL:
        return dtype == TD_BOOL;
    case TD_PROTO_STRING:
    case TD_PROTO_BYTES:
    case TD_PROTO_MESSAGE:
        return dtype == TD_STRING;
    default:
        return false;
    }
}
