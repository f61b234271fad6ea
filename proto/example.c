/* proto/example.c - see example.h.
 *
 *   Example          { 1 Features }              SequenceExample { 1 Features, 2 FeatureLists }
 *   Features         { 1 map entry { 1 name, 2 Feature } }
 *   FeatureLists     { 1 map entry { 1 name, 2 FeatureList { 1 repeated Feature } } }
 *   Feature          oneof { 1 BytesList, 2 FloatList, 3 Int64List }, each { 1 repeated value }
 *
 * A list is checked and counted when its feature is met, so that copying its values cannot fail.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/example.h"

#include <string.h>

/* ---- one feature */

/* Counts the values of a list; false when they are malformed or not of its kind. */
static bool count_values(struct td_feature *f)
{
    struct td_scan s = td_scan_make(f->list, f->list_len);
    struct td_scan_field v;
    enum td_wire_type scalar = f->kind == TD_FEATURE_FLOAT ? TD_WIRE_FIXED32 : TD_WIRE_VARINT;
    f->count = 0;
    while (td_scan_next(&s, &v)) {
        if (v.number != 1) {
            continue;
        }
        if (f->kind == TD_FEATURE_BYTES) {
            if (v.type != TD_WIRE_BYTES) {
                return false;
            }
            f->count++;
        } else if (v.type == scalar) {
            f->count++;
        } else if (v.type != TD_WIRE_BYTES) {
            return false;
        } else if (f->kind == TD_FEATURE_FLOAT) {
            if (v.len % 4 != 0) {
                return false;
            }
            f->count += (int64_t)(v.len / 4);
        } else {
            for (const uint8_t *p = v.p, *end = v.p + v.len; p < end; f->count++) {
                uint64_t value;
                if (!td_scan_varint(&p, end, &value)) {
                    return false;
                }
            }
        }
    }
    return !s.bad;
}

static bool read_feature(const uint8_t *p, size_t n, struct td_feature *f)
{
    struct td_scan s = td_scan_make(p, n);
    struct td_scan_field kind;
    f->kind = TD_FEATURE_NONE;
    f->count = 0;
    while (td_scan_next(&s, &kind)) {
        if (kind.number >= TD_FEATURE_BYTES && kind.number <= TD_FEATURE_INT64 &&
            kind.type == TD_WIRE_BYTES) {
            f->kind = (enum td_feature_kind)kind.number;
            f->list = kind.p;
            f->list_len = kind.len;
        }
    }
    return !s.bad && (f->kind == TD_FEATURE_NONE || count_values(f));
}

void td_feature_floats(const struct td_feature *f, float *dst, int64_t n)
{
    struct td_scan s = td_feature_values(f);
    struct td_scan_field v;
    int64_t done = 0;
    while (done < n && td_scan_next(&s, &v)) {
        if (v.number != 1) {
            continue;
        }
        if (v.type == TD_WIRE_FIXED32) {
            uint32_t bits = (uint32_t)v.u64;
            memcpy(&dst[done++], &bits, sizeof bits);
        } else if (v.len > 0) {
            int64_t k = (int64_t)(v.len / 4) < n - done ? (int64_t)(v.len / 4) : n - done;
            memcpy(&dst[done], v.p, (size_t)k * 4);
            done += k;
        }
    }
}

void td_feature_ints(const struct td_feature *f, int64_t *dst, int64_t n)
{
    struct td_scan s = td_feature_values(f);
    struct td_scan_field v;
    int64_t done = 0;
    while (done < n && td_scan_next(&s, &v)) {
        if (v.number == 1 && v.type == TD_WIRE_VARINT) {
            dst[done++] = (int64_t)v.u64;
        }
        const uint8_t *p = v.p, *end = v.p + (v.number == 1 ? v.len : 0);
        uint64_t value;
        while (done < n && p < end && td_scan_varint(&p, end, &value)) {
            dst[done++] = (int64_t)value;
        }
    }
}

struct td_scan td_feature_values(const struct td_feature *f)
{
    return td_scan_make(f->list, f->list_len);
}

bool td_feature_bytes_next(struct td_scan *s, const char **p, size_t *len)
{
    struct td_scan_field v;
    while (td_scan_next(s, &v)) {
        if (v.number == 1 && v.type == TD_WIRE_BYTES) {
            *p = (const char *)v.p;
            *len = v.len;
            return true;
        }
    }
    return false;
}

/* ---- maps from names to messages */

/* The next field 1 of inner, which is refilled from the fields `number` of outer. */
static bool next_entry(struct td_scan *outer, struct td_scan *inner, uint32_t number,
                       struct td_scan_field *entry)
{
    struct td_scan_field f;
    for (;;) {
        while (td_scan_next(inner, entry)) {
            if (entry->number == 1 && entry->type == TD_WIRE_BYTES) {
                return true;
            }
        }
        do {
            if (inner->bad || !td_scan_next(outer, &f)) {
                return false;
            }
        } while (f.number != number || f.type != TD_WIRE_BYTES);
        *inner = td_scan_make(f.p, f.len);
    }
}

struct map_entry {
    const uint8_t *name, *value;
    size_t name_len, value_len;
};

static bool read_entry(const struct td_scan_field *entry, struct map_entry *out)
{
    struct td_scan s = td_scan_make(entry->p, entry->len);
    struct td_scan_field f;
    *out = (struct map_entry){.name = (const uint8_t *)"", .value = (const uint8_t *)""};
    while (td_scan_next(&s, &f)) {
        if (f.type == TD_WIRE_BYTES && f.number == 1) {
            out->name = f.p;
            out->name_len = f.len;
        } else if (f.type == TD_WIRE_BYTES && f.number == 2) {
            out->value = f.p;
            out->value_len = f.len;
        }
    }
    return !s.bad;
}

struct td_features td_features_of(const void *bytes, size_t n)
{
    return (struct td_features){.outer = td_scan_make(bytes, n), .inner = td_scan_make(NULL, 0)};
}

bool td_features_next(struct td_features *it, struct td_feature *f)
{
    struct td_scan_field field;
    struct map_entry e;
    if (it->bad || !next_entry(&it->outer, &it->inner, 1, &field)) {
        it->bad |= it->outer.bad || it->inner.bad;
        return false;
    }
    *f = (struct td_feature){0};
    it->bad = !read_entry(&field, &e) || !read_feature(e.value, e.value_len, f);
    f->name = (const char *)e.name;
    f->name_len = e.name_len;
    return !it->bad;
}

/* ---- feature lists */

struct td_feature_lists td_feature_lists_of(const void *bytes, size_t n)
{
    return (struct td_feature_lists){.outer = td_scan_make(bytes, n), .inner = td_scan_make(NULL, 0)};
}

static int64_t count_features(struct td_scan s)
{
    struct td_scan_field f;
    int64_t n = 0;
    while (td_scan_next(&s, &f)) {
        n += f.number == 1 && f.type == TD_WIRE_BYTES;
    }
    return s.bad ? -1 : n;
}

bool td_feature_lists_next(struct td_feature_lists *it, struct td_feature_list *list)
{
    struct td_scan_field field;
    struct map_entry e;
    if (it->bad || !next_entry(&it->outer, &it->inner, 2, &field)) {
        it->bad |= it->outer.bad || it->inner.bad;
        return false;
    }
    it->bad = !read_entry(&field, &e);
    list->name = (const char *)e.name;
    list->name_len = e.name_len;
    list->features = td_scan_make(e.value, e.value_len);
    list->count = it->bad ? 0 : count_features(list->features);
    it->bad |= list->count < 0;
    return !it->bad;
}

bool td_feature_list_next(struct td_feature_list *list, struct td_feature *f)
{
    struct td_scan_field field;
    while (td_scan_next(&list->features, &field)) {
        if (field.number == 1 && field.type == TD_WIRE_BYTES) {
            *f = (struct td_feature){.name = ""};
            list->features.bad = !read_feature(field.p, field.len, f);
            return !list->features.bad;
        }
    }
    return false;
}

/* ---- writing */

struct td_example_writer td_example_begin(struct td_sink *out)
{
    return (struct td_example_writer){.out = out, .features = td_put_mark(out)};
}

/* A feature whose list is written between these two. */
struct open_feature {
    size_t entry, feature, list;
};

static enum td_code open_feature(struct td_sink *out, const char *name, struct open_feature *o,
                                 struct td_err *err)
{
    o->entry = td_put_mark(out);
    TD_TRY(td_put_bytes(out, 1, name, strlen(name), err));
    o->feature = td_put_mark(out);
    o->list = td_put_mark(out);
    return TD_OK;
}

static enum td_code close_feature(struct td_sink *out, const struct open_feature *o,
                                  enum td_feature_kind kind, struct td_err *err)
{
    TD_TRY(td_put_end(out, (uint32_t)kind, o->list, err));
    TD_TRY(td_put_end(out, 2, o->feature, err));
    return td_put_end(out, 1, o->entry, err);
}

enum td_code td_example_floats(struct td_example_writer *w, const char *name, const float *v, size_t n,
                               struct td_err *err)
{
    struct open_feature o;
    TD_TRY(open_feature(w->out, name, &o, err));
    if (n > 0) {
        TD_TRY(td_put_bytes(w->out, 1, v, n * sizeof *v, err)); /* packed; little-endian host */
    }
    return close_feature(w->out, &o, TD_FEATURE_FLOAT, err);
}

enum td_code td_example_ints(struct td_example_writer *w, const char *name, const int64_t *v, size_t n,
                             struct td_err *err)
{
    struct open_feature o;
    TD_TRY(open_feature(w->out, name, &o, err));
    size_t packed = td_put_mark(w->out);
    for (size_t i = 0; i < n; i++) {
        TD_TRY(td_put_varint(w->out, (uint64_t)v[i], err));
    }
    if (n > 0) {
        TD_TRY(td_put_end(w->out, 1, packed, err));
    }
    return close_feature(w->out, &o, TD_FEATURE_INT64, err);
}

enum td_code td_example_bytes(struct td_example_writer *w, const char *name, const struct td_bytes *v,
                              size_t n, struct td_err *err)
{
    struct open_feature o;
    TD_TRY(open_feature(w->out, name, &o, err));
    for (size_t i = 0; i < n; i++) {
        TD_TRY(td_put_bytes(w->out, 1, v[i].p, v[i].len, err));
    }
    return close_feature(w->out, &o, TD_FEATURE_BYTES, err);
}

enum td_code td_example_end(struct td_example_writer *w, struct td_err *err)
{
    return td_put_end(w->out, 1, w->features, err);
}
