/* proto/pb/pb_reader.c - texts, room and map entries for the readers of a graph, all in the reader's arena.
 *
 * td_pb_name keeps a table of 256 words with one place for each hash of length, first, middle and last byte.
 * A word that is there is used again, else it is copied and takes the place. Two words that want one place
 * only cost copies.
 *
 * Does not: walk messages (proto/pb/scan.h), bound counts (each reader does, with its own text).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/pb_reader.h"

#include <string.h>

#include "core/base/mem.h"

enum { KEY = 1, VALUE = 2 };

enum td_code td_pb_text(struct td_pb_reader *r, const struct td_scan_field *f, const char **out,
                        struct td_err *err)
{
    *out = td_arena_strndup(r->arena, (const char *)f->p, f->len);
    return *out == NULL ? td_no_memory(err, f->len, "graph") : TD_OK;
}

/* A slot for words like this one. Words that share a slot only cost copies. */
static struct td_pb_word *slot_of(struct td_pb_reader *r, const struct td_scan_field *f)
{
    const size_t h = f->len == 0 ? 0 : f->len * 31 + f->p[0] + f->p[f->len / 2] * 5u + f->p[f->len - 1] * 17u;
    return &r->names[h % (sizeof r->names / sizeof r->names[0])];
}

enum td_code td_pb_name(struct td_pb_reader *r, const struct td_scan_field *f, const char **out,
                        struct td_err *err)
{
    struct td_pb_word *name = slot_of(r, f);
    if (name->s == NULL || name->n != f->len || memcmp(name->s, f->p, f->len) != 0) {
        const char *copy;
        TD_TRY(td_pb_text(r, f, &copy, err));
        *name = (struct td_pb_word){copy, f->len};
    }
    *out = name->s;
    return TD_OK;
}

enum td_code td_pb_room(struct td_pb_reader *r, size_t n, size_t size, void *out, struct td_err *err)
{
    *(void **)out = td_arena_alloc(r->arena, n ? n : 1, size);
    return *(void **)out == NULL ? td_no_memory(err, n, "graph") : TD_OK;
}

enum td_code td_pb_malformed(const char *message, struct td_err *err)
{
    TD_FAIL(err, INVALID_ARGUMENT, "%s: cut or malformed bytes", message);
}

bool td_pb_entry(const struct td_scan_field *entry, struct td_scan_field *key, struct td_scan_field *value)
{
    struct td_scan s = td_scan_make(entry->p, entry->len);
    struct td_scan_field f;
    *key = *value = (struct td_scan_field){.p = entry->p};
    while (td_scan_next(&s, &f)) {
        if (td_pb_is_bytes(&f, KEY)) {
            *key = f;
        } else if (td_pb_is_bytes(&f, VALUE)) {
            *value = f;
        }
    }
    return !s.bad;
}
