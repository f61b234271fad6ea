/* kernels/data/example_reader.c - a cursor over protobuf wire bytes, and the messages of tf.Example on it.
 *
 * A span is a pointer and a length; reading moves it on, and every length is checked against what is left.
 * Wanted keys are put into an open-addressed table once a call; each example's map is then walked once, and
 * the value of every key that is wanted is noted as a span, the last one of a key counting. Nothing is
 * decoded until a feature's values are counted and copied: floats as a block, integers varint by varint,
 * strings one by one.
 *
 * Allocates nothing: tables and spans are the caller's scratch. Does not: build messages, know outputs
 * (kernels/data/parse_columns.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/example_reader.h"

#include "kernels/text/string_hash.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, GROUP = 3, GROUP_END = 4, FIXED32 = 5 };

static bool varint(struct td_example_span *s, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (s->n == 0) {
            return false;
        }
        uint8_t byte = *s->p++;
        s->n--;
        *v |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

static bool take(struct td_example_span *s, uint64_t n, struct td_example_span *out)
{
    if (n > s->n) {
        return false;
    }
    *out = (struct td_example_span){s->p, (size_t)n};
    s->p += n;
    s->n -= (size_t)n;
    return true;
}

/* Skips to the end of a group; groups inside it nest, counted rather than recursed into. */
static bool skip_group(struct td_example_span *s)
{
    struct td_example_span body;
    uint64_t tag, v;
    for (int depth = 1; depth > 0;) {
        if (!varint(s, &tag)) {
            return false;
        }
        int wire = (int)(tag & 7);
        if (wire == GROUP || wire == GROUP_END) {
            depth += wire == GROUP ? 1 : -1;
            continue;
        }
        bool ok = wire == VARINT    ? varint(s, &v)
                  : wire == FIXED64 ? take(s, 8, &body)
                  : wire == FIXED32 ? take(s, 4, &body)
                                    : wire == BYTES && varint(s, &v) && take(s, v, &body);
        if (!ok) {
            return false;
        }
    }
    return true;
}

struct field {
    uint32_t number;
    int wire;
    uint64_t value;              /* VARINT */
    struct td_example_span body; /* BYTES, FIXED32, FIXED64 */
};

/* 1, 0 at the end, -1 malformed. */
static int next_field(struct td_example_span *s, struct field *f)
{
    uint64_t tag, len;
    if (s->n == 0) {
        return 0;
    }
    if (!varint(s, &tag) || tag >> 3 == 0 || tag > UINT32_MAX) {
        return -1;
    }
    *f = (struct field){.number = (uint32_t)(tag >> 3), .wire = (int)(tag & 7)};
    switch (f->wire) {
    case VARINT:
        return varint(s, &f->value) ? 1 : -1;
    case FIXED64:
        return take(s, 8, &f->body) ? 1 : -1;
    case FIXED32:
        return take(s, 4, &f->body) ? 1 : -1;
    case BYTES:
        return varint(s, &len) && take(s, len, &f->body) ? 1 : -1;
    case GROUP:
        return skip_group(s) ? 1 : -1;
    default:
        return -1;
    }
}

/* ------------------------------------------------------------------ maps */

int td_example_slots(int n)
{
    int slots = 8;
    while (slots < 2 * n) {
        slots *= 2;
    }
    return slots;
}

void td_example_keys_init(struct td_example_keys *k, const struct td_bytes *key, int n, int32_t *slots)
{
    *k = (struct td_example_keys){.key = key, .n = n, .slot = slots, .n_slots = td_example_slots(n)};
    memset(slots, 0, (size_t)k->n_slots * sizeof(*slots));
    for (int i = 0; i < n; i++) {
        uint64_t at = td_hash_fingerprint64(key[i].p, key[i].len);
        while (slots[at & (uint64_t)(k->n_slots - 1)]) {
            at++;
        }
        slots[at & (uint64_t)(k->n_slots - 1)] = i + 1;
    }
}

/* A key may be wanted more than once: every place gets the value. */
static void put_found(const struct td_example_keys *k, struct td_example_span key,
                      struct td_example_span value, struct td_example_span *found)
{
    uint64_t at = td_hash_fingerprint64(key.p, key.n), mask = (uint64_t)(k->n_slots - 1);
    for (; k->slot[at & mask]; at++) {
        int i = k->slot[at & mask] - 1;
        if (k->key[i].len == key.n && (key.n == 0 || memcmp(k->key[i].p, key.p, key.n) == 0)) {
            found[i] = value;
        }
    }
}

static bool map_entry(struct td_example_span s, const struct td_example_keys *keys,
                      struct td_example_span *found)
{
    static const uint8_t nothing[1];
    struct td_example_span key = {nothing, 0}, value = {nothing, 0};
    struct field f;
    int got;
    while ((got = next_field(&s, &f)) > 0) {
        if (f.wire == BYTES && f.number == 1) {
            key = f.body;
        } else if (f.wire == BYTES && f.number == 2) {
            value = f.body;
        }
    }
    put_found(keys, key, value, found);
    return got == 0;
}

static bool map_entries(struct td_example_span s, const struct td_example_keys *keys,
                        struct td_example_span *found)
{
    struct field f;
    int got;
    while ((got = next_field(&s, &f)) > 0) {
        if (f.number == 1 && (f.wire != BYTES || !map_entry(f.body, keys, found))) {
            return false;
        }
    }
    return got == 0;
}

bool td_example_map(const void *p, size_t n, uint32_t field, const struct td_example_keys *keys,
                    struct td_example_span *found)
{
    struct td_example_span s = {p, n};
    struct field f;
    int got;
    memset(found, 0, (size_t)keys->n * sizeof(*found));
    while ((got = next_field(&s, &f)) > 0) {
        if (f.number == field && (f.wire != BYTES || !map_entries(f.body, keys, found))) {
            return false;
        }
    }
    return got == 0;
}

int td_example_list_next(struct td_example_span *list, struct td_example_span *feature)
{
    struct field f;
    int got;
    while ((got = next_field(list, &f)) > 0) {
        if (f.number == 1) {
            *feature = f.body;
            return f.wire == BYTES ? 1 : -1;
        }
    }
    return got;
}

/* ------------------------------------------------------------------ values */

/* The list of a feature: the last of its one-of fields. */
static bool feature_list(struct td_example_span feature, enum td_dtype *type, struct td_example_span *list)
{
    static const enum td_dtype types[] = {TD_DTYPE_NONE, TD_STRING, TD_FLOAT, TD_INT64};
    struct field f;
    int got;
    *type = TD_DTYPE_NONE;
    if (!feature.p) {
        return true;
    }
    while ((got = next_field(&feature, &f)) > 0) {
        if (f.number >= 1 && f.number <= 3) {
            if (f.wire != BYTES) {
                return false;
            }
            *type = types[f.number];
            *list = f.body;
        }
    }
    return got == 0;
}

bool td_example_type(struct td_example_span feature, enum td_dtype *type)
{
    struct td_example_span list;
    return feature_list(feature, type, &list);
}

static int64_t packed_count(enum td_dtype type, struct td_example_span s)
{
    int64_t n = 0;
    uint64_t v;
    if (type == TD_FLOAT) {
        return s.n % 4 ? -1 : (int64_t)(s.n / 4);
    }
    for (; s.n > 0; n++) {
        if (!varint(&s, &v)) {
            return -1;
        }
    }
    return n;
}

int64_t td_example_count(struct td_example_span feature)
{
    struct td_example_span list = {0};
    enum td_dtype type;
    struct field f;
    int64_t n = 0;
    int got;
    if (!feature_list(feature, &type, &list)) {
        return -1;
    }
    while ((got = next_field(&list, &f)) > 0) {
        if (f.number != 1) {
            continue;
        }
        int64_t more = f.wire == BYTES ? (type == TD_STRING ? 1 : packed_count(type, f.body))
                       : f.wire == (type == TD_FLOAT   ? FIXED32
                                    : type == TD_INT64 ? VARINT
                                                       : -1)
                           ? 1
                           : -1;
        if (more < 0) {
            return -1;
        }
        n += more;
    }
    return got < 0 ? -1 : n;
}

static void copy_numbers(enum td_dtype type, struct field *f, struct td_tensor *t, int64_t *at)
{
    uint64_t v;
    if (type == TD_FLOAT) {
        if (f->body.n) {
            memcpy(TD_DATA(t, float) + *at, f->body.p, f->body.n); /* little-endian, as the machine is */
        }
        *at += (int64_t)(f->body.n / 4);
    } else if (f->wire == VARINT) {
        TD_DATA(t, int64_t)[(*at)++] = (int64_t)f->value;
    } else {
        while (f->body.n > 0 && varint(&f->body, &v)) {
            TD_DATA(t, int64_t)[(*at)++] = (int64_t)v;
        }
    }
}

enum td_code td_example_copy(struct td_example_span feature, struct td_tensor *t, int64_t at,
                             struct td_err *err)
{
    struct td_example_span list = {0};
    enum td_dtype type;
    struct field f;
    if (!feature_list(feature, &type, &list)) {
        TD_FAIL(err, INVALID_ARGUMENT, "reading a tf.Example: a feature is cut short");
    }
    while (next_field(&list, &f) > 0) {
        if (f.number != 1) {
            continue;
        }
        if (type == TD_STRING) {
            TD_TRY(td_tensor_set_str(t, at++, (const char *)f.body.p, f.body.n, err));
        } else {
            copy_numbers(type, &f, t, &at);
        }
    }
    return TD_OK;
}
