/* proto/checkpoint/sstable.h - reads a LevelDB-style table (a checkpoint's .index) whole: all keys with their
 * values, in order.
 *
 *   block on disk    data[n] | type byte (0 raw, 1 snappy) | fixed32 masked CRC-32C of both
 *   block            entries, then fixed32 restart offsets, fixed32 their number
 *   entry            varint shared | varint unshared | varint value length | key bytes | value bytes
 *   file             data blocks | metaindex block | index block | footer
 *   footer           48 bytes: handles of the last two (varint offset, size), zeros, magic
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_CHECKPOINT_SSTABLE_H
#define TD_PROTO_CHECKPOINT_SSTABLE_H

#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

#define TD_TABLE_MAGIC UINT64_C(0xdb4775248b80fb57)
enum { TD_TABLE_FOOTER = 48, TD_TABLE_TRAILER = 5 };

struct td_sstable_row {
    const char *key; /* may hold any byte; a NUL stands behind it */
    size_t key_len;
    const uint8_t *value;
    size_t value_len;
};

struct td_sstable {
    struct td_sstable_row *rows; /* sorted bytewise, no key twice */
    int n_rows, cap_rows;
};

/* Rows, keys and values hang on the arena and on bytes, which must stay. DATA_LOSS names the place in the
 * file. */
TD_MUST enum td_code td_sstable_read(const void *bytes, size_t n, struct td_arena *arena,
                                     struct td_sstable *out, struct td_err *err);
/* NULL when there is no such key. */
const struct td_sstable_row *td_sstable_find(const struct td_sstable *t, const char *key, size_t key_len);

#endif
