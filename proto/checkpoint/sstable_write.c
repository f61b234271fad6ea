/* proto/checkpoint/sstable_write.c - builds a table in memory, block by block.
 *
 * Two blocks grow at the same time: the data block and the index block. A data block that has passed 256 KiB
 * is ended before the next key: it moves to the file with its restart points, type byte and checksum, and the
 * index block gets an entry with the block's last key and its place. finish ends the last data block, writes
 * an empty metaindex block, the index block and the footer.
 *
 * Blocks are stored raw. Data blocks have a restart point every 16 entries, where the whole key is written;
 * the index block has one at every entry. Each key is compared with the last one, both to shorten it and to
 * refuse disorder.
 *
 * Does not: sort, or write files (proto/checkpoint/bundle_index.c does both).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint/sstable_write.h"

#include <stdint.h>
#include <string.h>

#include "proto/bytes/crc32c.h"
#include "proto/checkpoint/sstable.h"
#include "proto/pb/wire.h"

enum { BLOCK_BYTES = 262144, RESTART_INTERVAL = 16 };

struct handle {
    uint64_t offset, size;
};

void td_sstable_writer_fini(struct td_sstable_writer *w)
{
    td_sink_fini(&w->file);
    td_sink_fini(&w->block);
    td_sink_fini(&w->index);
    td_sink_fini(&w->restarts);
    td_sink_fini(&w->index_restarts);
    td_sink_fini(&w->last_key);
}

static enum td_code put_fixed32(struct td_sink *s, uint32_t v, struct td_err *err)
{
    return td_sink_put(s, &v, sizeof v, err); /* little-endian host */
}

/* Adds restart points to a block of entries, then the block and its trailer to the file. */
static enum td_code write_block(struct td_sstable_writer *w, struct td_sink *entries,
                                struct td_sink *restarts, struct handle *out, struct td_err *err)
{
    if (restarts->n == 0) {
        TD_TRY(put_fixed32(restarts, 0, err));
    }
    uint32_t n_restarts = (uint32_t)(restarts->n / 4);
    TD_TRY(td_sink_put(entries, restarts->p, restarts->n, err));
    TD_TRY(put_fixed32(entries, n_restarts, err));
    *out = (struct handle){w->file.n, entries->n};
    size_t begin = w->file.n;
    TD_TRY(td_sink_put(&w->file, entries->p, entries->n, err));
    TD_TRY(td_sink_put(&w->file, "\0", 1, err)); /* not compressed */
    TD_TRY(put_fixed32(&w->file, td_crc32c_mask(td_crc32c(0, w->file.p + begin, w->file.n - begin)), err));
    entries->n = 0;
    restarts->n = 0;
    return TD_OK;
}

/* An entry whose first `shared` key bytes are those of the key before. */
static enum td_code put_entry(struct td_sink *block, size_t shared, const char *key, size_t key_len,
                              const void *value, size_t value_len, struct td_err *err)
{
    TD_TRY(td_put_varint(block, shared, err));
    TD_TRY(td_put_varint(block, key_len - shared, err));
    TD_TRY(td_put_varint(block, value_len, err));
    TD_TRY(td_sink_put(block, shared ? key + shared : key, key_len - shared, err));
    return td_sink_put(block, value, value_len, err);
}

static enum td_code put_handle(struct td_sink *s, struct handle h, struct td_err *err)
{
    TD_TRY(td_put_varint(s, h.offset, err));
    return td_put_varint(s, h.size, err);
}

/* Ends the data block; its last key leads to it. */
static enum td_code flush_block(struct td_sstable_writer *w, struct td_err *err)
{
    struct handle h;
    struct td_sink value = {0};
    TD_TRY(write_block(w, &w->block, &w->restarts, &h, err));
    TD_TRY(put_fixed32(&w->index_restarts, (uint32_t)w->index.n, err));
    enum td_code rc = put_handle(&value, h, err);
    if (rc == TD_OK) {
        rc = put_entry(&w->index, 0, w->last_key.p, w->last_key.n, value.p, value.n, err);
    }
    td_sink_fini(&value);
    w->n_in_block = 0;
    return rc;
}

static size_t common_prefix(const struct td_sink *last, const char *key, size_t key_len)
{
    size_t n = 0;
    while (n < last->n && n < key_len && last->p[n] == key[n]) {
        n++;
    }
    return n;
}

enum td_code td_sstable_add(struct td_sstable_writer *w, const char *key, size_t key_len, const void *value,
                            size_t value_len, struct td_err *err)
{
    size_t shared = common_prefix(&w->last_key, key, key_len);
    bool above = shared == w->last_key.n
                     ? key_len > shared
                     : shared < key_len && (unsigned char)key[shared] > (unsigned char)w->last_key.p[shared];
    TD_FAIL_IF(w->started && !above, err, INTERNAL, "Writing a table: key '%.*s' is not above the one before",
               key_len < 100 ? (int)key_len : 100, key);
    if (w->block.n >= BLOCK_BYTES) {
        TD_TRY(flush_block(w, err));
    }
    if (w->n_in_block % RESTART_INTERVAL == 0) {
        TD_TRY(put_fixed32(&w->restarts, (uint32_t)w->block.n, err));
        shared = 0;
    }
    TD_TRY(put_entry(&w->block, shared, key, key_len, value, value_len, err));
    w->last_key.n = 0;
    TD_TRY(td_sink_put(&w->last_key, key, key_len, err));
    w->n_in_block++;
    w->started = true;
    return TD_OK;
}

enum td_code td_sstable_finish(struct td_sstable_writer *w, struct td_err *err)
{
    struct td_sink empty = {0}, no_restarts = {0};
    struct handle meta, index;
    uint64_t magic = TD_TABLE_MAGIC;
    static const char zeros[TD_TABLE_FOOTER] = {0};
    TD_TRY(flush_block(w, err));
    enum td_code rc = write_block(w, &empty, &no_restarts, &meta, err);
    td_sink_fini(&empty);
    td_sink_fini(&no_restarts);
    TD_TRY(rc);
    TD_TRY(write_block(w, &w->index, &w->index_restarts, &index, err));
    size_t footer = w->file.n;
    TD_TRY(put_handle(&w->file, meta, err));
    TD_TRY(put_handle(&w->file, index, err));
    TD_TRY(td_sink_put(&w->file, zeros, footer + TD_TABLE_FOOTER - 8 - w->file.n, err));
    return td_sink_put(&w->file, &magic, sizeof magic, err);
}
