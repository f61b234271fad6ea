/* proto/pb/descriptors.c - finds files and symbols in our own FileDescriptorSet.
 *
 * The set is walked anew for every question: reflection is rare, and there is nothing to keep or to lock. A
 * file is found by its name. A symbol is found by going down its dotted path: the package first, then
 * messages, enums and services, then what is inside them, at most 8 levels; values of an enum stand beside
 * the enum's name, as protobuf has it. What a file imports is a mask of files that grows until nothing is
 * new; the file itself is written first.
 *
 * Field numbers are those of google/protobuf/descriptor.proto. The bytes are our own, but are walked with the
 * same bounded reader as any others. Does not: list services (server/grpc/grpc_reflect.c), know extensions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/descriptors.h"

#include <stdint.h>
#include <string.h>

#include "proto/pb/scan.h"

#define MAX_FILES 32 /* in the set; also bits of a mask */
#define MAX_NESTING 8

/* FileDescriptorProto */
enum {
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6
};
/* DescriptorProto, EnumDescriptorProto, ServiceDescriptorProto and MethodDescriptorProto all have their name
 * as 1. */
enum {
    NAME = 1,
    SERVICE_METHOD = 2,
    MESSAGE_FIELD = 2,
    ENUM_VALUE = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    ONEOF = 8
};

struct span {
    const uint8_t *p;
    size_t n;
};
struct files {
    struct span file[MAX_FILES];
    int n;
};

static struct files all_files(void)
{
    struct files f = {0};
    struct td_scan s = td_scan_make(td_descriptors_bytes, td_descriptors_size);
    struct td_scan_field field;
    while (f.n < MAX_FILES && td_scan_next(&s, &field)) {
        f.file[f.n++] = (struct span){field.p, field.len};
    }
    return f;
}

static struct span text_of(struct span message, uint32_t number)
{
    struct td_scan s = td_scan_make(message.p, message.n);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (f.number == number && f.type == TD_WIRE_BYTES) {
            return (struct span){f.p, f.len};
        }
    }
    return (struct span){(const uint8_t *)"", 0};
}

static bool same(struct span a, const char *b, size_t n)
{
    return a.n == n && memcmp(a.p, b, n) == 0;
}

/* The rest of `symbol` behind "name" or "name.": NULL when it begins otherwise. */
static const char *behind(const char *symbol, struct span name)
{
    if (strncmp(symbol, (const char *)name.p, name.n) != 0 ||
        (symbol[name.n] != 0 && symbol[name.n] != '.')) {
        return NULL;
    }
    return symbol[name.n] == '.' ? symbol + name.n + 1 : symbol + name.n;
}

/* Whether an enum has the value: its name stands beside the enum's, not below it. */
static bool has_value(struct span enumeration, const char *name)
{
    struct td_scan s = td_scan_make(enumeration.p, enumeration.n);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (f.number == ENUM_VALUE && f.type == TD_WIRE_BYTES &&
            same(text_of((struct span){f.p, f.len}, NAME), name, strlen(name))) {
            return true;
        }
    }
    return false;
}

/* Whether a message defines the path "" (itself), or one below it. */
static bool defines(struct span message, const char *path, bool service, int depth)
{
    if (!*path) {
        return true;
    }
    struct td_scan s = td_scan_make(message.p, message.n);
    struct td_scan_field f;
    while (depth < MAX_NESTING && td_scan_next(&s, &f)) {
        const bool nested =
            service ? f.number == SERVICE_METHOD : f.number == MESSAGE_NESTED || f.number == MESSAGE_ENUM;
        const struct span inner = {f.p, f.len};
        if (nested && f.type == TD_WIRE_BYTES) {
            const char *rest = behind(path, text_of(inner, NAME));
            if (rest != NULL && defines(inner, rest, service, depth + 1)) {
                return true;
            }
        }
        const bool plain = !service && (f.number == MESSAGE_FIELD || f.number == ONEOF);
        if (f.type == TD_WIRE_BYTES && ((plain && same(text_of(inner, NAME), path, strlen(path))) ||
                                        (!service && f.number == MESSAGE_ENUM && has_value(inner, path)))) {
            return true;
        }
    }
    return false;
}

static bool file_defines(struct span file, const char *symbol)
{
    const char *path = behind(symbol, text_of(file, FILE_PACKAGE));
    struct td_scan s = td_scan_make(file.p, file.n);
    struct td_scan_field f;
    while (path != NULL && *path && td_scan_next(&s, &f)) {
        const bool known = f.number == FILE_MESSAGE || f.number == FILE_ENUM || f.number == FILE_SERVICE;
        if (known && f.type == TD_WIRE_BYTES) {
            const struct span inner = {f.p, f.len};
            const char *rest = behind(path, text_of(inner, NAME));
            if ((rest != NULL && defines(inner, rest, f.number == FILE_SERVICE, 0)) ||
                (f.number == FILE_ENUM && has_value(inner, path))) {
                return true;
            }
        }
    }
    return false;
}

/* Adds to the mask what the files in it import, until nothing is new. */
static uint32_t with_imports(const struct files *all, uint32_t mask)
{
    for (uint32_t before = 0; before != mask;) {
        before = mask;
        for (int i = 0; i < all->n; i++) {
            struct td_scan s = td_scan_make(all->file[i].p, all->file[i].n);
            struct td_scan_field f;
            while ((mask >> i & 1) && td_scan_next(&s, &f)) {
                for (int k = 0; f.number == FILE_DEPENDENCY && k < all->n; k++) {
                    const bool wanted = same(text_of(all->file[k], FILE_NAME), (const char *)f.p, f.len);
                    mask |= (uint32_t)wanted << k;
                }
            }
        }
    }
    return mask;
}

static enum td_code write_files(const struct files *all, int first, struct td_sink *s, struct td_err *err)
{
    const uint32_t mask = with_imports(all, 1u << first);
    TD_TRY(td_put_bytes(s, 1, all->file[first].p, all->file[first].n, err));
    for (int i = 0; i < all->n; i++) {
        if (i != first && (mask >> i & 1)) {
            TD_TRY(td_put_bytes(s, 1, all->file[i].p, all->file[i].n, err));
        }
    }
    return TD_OK;
}

enum td_code td_descriptors_file(const char *name, struct td_sink *s, struct td_err *err)
{
    const struct files all = all_files();
    for (int i = 0; i < all.n; i++) {
        if (same(text_of(all.file[i], FILE_NAME), name, strlen(name))) {
            return write_files(&all, i, s, err);
        }
    }
    TD_FAIL(err, NOT_FOUND, "reflection: no file is named '%s'", name);
}

enum td_code td_descriptors_symbol(const char *symbol, struct td_sink *s, struct td_err *err)
{
    const struct files all = all_files();
    for (int i = 0; i < all.n; i++) {
        if (file_defines(all.file[i], symbol)) {
            return write_files(&all, i, s, err);
        }
    }
    TD_FAIL(err, NOT_FOUND, "reflection: no symbol is named '%s'", symbol);
}
