/* proto/checkpoint/sstable.c - reads a LevelDB-style table from memory into one sorted array of rows.
 *
 * From the footer to the index block, and from each of its entries to a data block; its keys and the
 * metaindex are not used, but every block's checksum is verified. Raw blocks are read where they lie, snappy
 * blocks are unpacked into the arena first, with a bound on how far they may grow. Entries are read from the
 * front, so restart points are trimmed off. Each key is put together in the arena from what it shares with
 * the one before; values are pointed at.
 *
 * The rows must rise bytewise over the whole table; that is checked here, and td_sstable_find searches by
 * halving.
 *
 * Does not: know what the values mean (proto/checkpoint/bundle_entry.c), read files, or seek: it is all or
 * nothing, which suits an index of some megabytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint/sstable.h"

#include <snappy-c.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/bytes/crc32c.h"
#include "proto/pb/scan.h"

enum { MAX_ROWS = 1 << 24, MAX_KEY = 1 << 16 };
#define MAX_BLOCK ((size_t)1 << 30)

struct block {
    const uint8_t *p;
    size_t n; /* entries only */
};

struct reader {
    const uint8_t *file;
    size_t n;
    struct td_arena *arena;
    struct td_sstable *table;
};

struct handle {
    uint64_t offset, size;
};

static bool read_handle(const uint8_t **p, const uint8_t *end, struct handle *h)
{
    return td_scan_varint(p, end, &h->offset) && td_scan_varint(p, end, &h->size);
}

static uint32_t fixed32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- blocks */

static enum td_code uncompress(struct reader *r, const uint8_t *p, size_t n, struct block *out,
                               struct td_err *err)
{
    size_t size;
    bool ok = snappy_uncompressed_length((const char *)p, n, &size) == SNAPPY_OK;
    TD_FAIL_IF(!ok || size > MAX_BLOCK || size > n * 256 + 64, err, DATA_LOSS,
               "block of %zu bytes: its compressed form is damaged", n);
    char *to = td_arena_alloc(r->arena, size ? size : 1, 1);
    if (to == NULL) {
        return td_no_memory(err, size, "a table block");
    }
    TD_FAIL_IF(snappy_uncompress((const char *)p, n, to, &size) != SNAPPY_OK, err, DATA_LOSS,
               "block of %zu bytes: its compressed form is damaged", n);
    *out = (struct block){(const uint8_t *)to, size};
    return TD_OK;
}

/* Leaves the restart points out: entries are read from the front. */
static enum td_code trim_restarts(struct block *b, struct td_err *err)
{
    TD_FAIL_IF(b->n < 4, err, DATA_LOSS, "block of %zu bytes: no restart points", b->n);
    uint64_t restarts = fixed32(b->p + b->n - 4);
    TD_FAIL_IF(restarts > (b->n - 4) / 4, err, DATA_LOSS,
               "block of %zu bytes: %llu restart points do not fit", b->n, (unsigned long long)restarts);
    b->n -= 4 + 4 * (size_t)restarts;
    return TD_OK;
}

static enum td_code read_block(struct reader *r, struct handle h, struct block *out, struct td_err *err)
{
    TD_FAIL_IF(h.size > r->n || h.offset > r->n || r->n - h.offset < h.size + TD_TABLE_TRAILER, err,
               DATA_LOSS, "block at %llu of %llu bytes: beyond the %zu bytes of the file",
               (unsigned long long)h.offset, (unsigned long long)h.size, r->n);
    const uint8_t *p = r->file + h.offset;
    size_t n = (size_t)h.size;
    uint32_t crc = td_crc32c_mask(td_crc32c(0, p, n + 1));
    TD_FAIL_IF(crc != fixed32(p + n + 1), err, DATA_LOSS,
               "block at %llu of %zu bytes: checksum does not match", (unsigned long long)h.offset, n);
    *out = (struct block){p, n};
    TD_FAIL_IF(p[n] > 1, err, DATA_LOSS, "block at %llu: unknown compression %d",
               (unsigned long long)h.offset, p[n]);
    if (p[n] == 1) {
        TD_TRY(uncompress(r, p, n, out, err));
    }
    return trim_restarts(out, err);
}

/* ---- entries */

struct entry {
    uint64_t shared, unshared, value_len;
    const uint8_t *key, *value;
};

static bool read_entry(const uint8_t **p, const uint8_t *end, struct entry *e)
{
    if (!td_scan_varint(p, end, &e->shared) || !td_scan_varint(p, end, &e->unshared) ||
        !td_scan_varint(p, end, &e->value_len)) {
        return false;
    }
    uint64_t left = (uint64_t)(end - *p);
    if (e->unshared > left || e->value_len > left - e->unshared || e->unshared > MAX_KEY ||
        e->shared > MAX_KEY) {
        return false;
    }
    e->key = *p;
    e->value = *p + e->unshared;
    *p = e->value + e->value_len;
    return true;
}

static enum td_code add_row(struct reader *r, struct td_sstable_row row, struct td_err *err)
{
    struct td_sstable *t = r->table;
    if (t->n_rows == t->cap_rows) {
        int cap = t->cap_rows ? t->cap_rows * 2 : 64;
        struct td_sstable_row *rows = td_arena_alloc(r->arena, (size_t)cap, sizeof *rows);
        TD_FAIL_IF(rows == NULL || cap > MAX_ROWS, err, RESOURCE_EXHAUSTED, "table with more than %d rows",
                   t->n_rows);
        if (t->n_rows > 0) {
            memcpy(rows, t->rows, (size_t)t->n_rows * sizeof *rows);
        }
        t->rows = rows;
        t->cap_rows = cap;
    }
    t->rows[t->n_rows++] = row;
    return TD_OK;
}

static int compare_keys(const char *a, size_t na, const char *b, size_t nb)
{
    int c = memcmp(a, b, na < nb ? na : nb);
    return c ? c : (na > nb) - (na < nb);
}

static enum td_code read_rows(struct reader *r, struct block b, struct td_err *err)
{
    const uint8_t *p = b.p, *end = b.p + b.n;
    const char *last = "";
    size_t last_len = 0;
    struct entry e;
    while (p < end) {
        TD_FAIL_IF(!read_entry(&p, end, &e) || e.shared > last_len, err, DATA_LOSS,
                   "entry %d: cut or malformed", r->table->n_rows);
        size_t len = (size_t)(e.shared + e.unshared);
        char *key = td_arena_alloc(r->arena, len + 1, 1);
        if (key == NULL) {
            return td_no_memory(err, len, "a table key");
        }
        memcpy(key, last, (size_t)e.shared);
        memcpy(key + e.shared, e.key, (size_t)e.unshared);
        const struct td_sstable_row *before = r->table->n_rows ? &r->table->rows[r->table->n_rows - 1] : NULL;
        TD_FAIL_IF(before != NULL && compare_keys(before->key, before->key_len, key, len) >= 0, err,
                   DATA_LOSS, "entry %d: its key is not above the one before", r->table->n_rows);
        TD_TRY(add_row(r, (struct td_sstable_row){key, len, e.value, (size_t)e.value_len}, err));
        last = key;
        last_len = len;
    }
    return TD_OK;
}

/* Values of the index block are the handles of the data blocks; its keys are not needed. */
static enum td_code read_data_blocks(struct reader *r, struct block index, struct td_err *err)
{
    const uint8_t *p = index.p, *end = index.p + index.n;
    struct entry e = {0};
    while (p < end) {
        struct handle h;
        struct block b;
        bool ok = read_entry(&p, end, &e);
        const uint8_t *value = e.value;
        TD_FAIL_IF(!ok || !read_handle(&value, e.value + e.value_len, &h), err, DATA_LOSS,
                   "index block: cut or malformed entry");
        TD_TRY(read_block(r, h, &b, err));
        TD_TRY(read_rows(r, b, err));
    }
    return TD_OK;
}

enum td_code td_sstable_read(const void *bytes, size_t n, struct td_arena *arena, struct td_sstable *out,
                             struct td_err *err)
{
    struct reader r = {.file = bytes, .n = n, .arena = arena, .table = out};
    struct handle meta, index_handle;
    struct block index, unused;
    uint64_t magic;
    *out = (struct td_sstable){0};
    TD_FAIL_IF(n < TD_TABLE_FOOTER, err, DATA_LOSS, "table of %zu bytes: too short to be one", n);
    memcpy(&magic, r.file + n - 8, sizeof magic);
    TD_FAIL_IF(magic != TD_TABLE_MAGIC, err, DATA_LOSS, "table of %zu bytes: bad magic number", n);
    const uint8_t *p = r.file + n - TD_TABLE_FOOTER, *end = r.file + n - 8;
    TD_FAIL_IF(!read_handle(&p, end, &meta) || !read_handle(&p, end, &index_handle), err, DATA_LOSS,
               "table of %zu bytes: damaged footer", n);
    TD_TRY(read_block(&r, meta, &unused, err));
    TD_TRY(read_block(&r, index_handle, &index, err));
    return read_data_blocks(&r, index, err);
}

const struct td_sstable_row *td_sstable_find(const struct td_sstable *t, const char *key, size_t key_len)
{
    int low = 0, high = t->n_rows;
    while (low < high) {
        int mid = low + (high - low) / 2;
        const struct td_sstable_row *row = &t->rows[mid];
        int c = compare_keys(row->key, row->key_len, key, key_len);
        if (c == 0) {
            return row;
        }
        if (c < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}
