/* proto/checkpoint/bundle_index.h - the index of a checkpoint being written: entries in memory, then
 * PREFIX.index.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_CHECKPOINT_BUNDLE_INDEX_H
#define TD_PROTO_CHECKPOINT_BUNDLE_INDEX_H

#include "core/base/arena.h"
#include "proto/checkpoint/bundle_entry.h"

struct td_index_row {
    char *key;
    size_t key_len;
    struct td_bundle_entry e;
    struct td_box *slices; /* e.n_slices of them */
};

struct td_index {
    struct td_arena *arena; /* borrowed */
    struct td_index_row *rows;
    int n_rows, cap_rows;
};

/* *out is borrowed until the next row is added. */
TD_MUST enum td_code td_index_add(struct td_index *x, const char *key, size_t key_len,
                                  const struct td_bundle_entry *e, struct td_index_row **out,
                                  struct td_err *err);
TD_MUST enum td_code td_index_add_slice(struct td_index *x, struct td_index_row *p, const struct td_box *box,
                                        struct td_err *err);
/* The latest row with that key, or NULL. */
struct td_index_row *td_index_find(struct td_index *x, const char *key, size_t key_len);
/* Writes the index of PREFIX to a temporary file next to it, whose name goes to temp (TD_FILE_PATH bytes).
 * Sorts the rows. INVALID_ARGUMENT when a key is there twice. */
TD_MUST enum td_code td_index_write(const struct td_index *x, const char *prefix, int n_shards, char *temp,
                                    struct td_err *err);

#endif
