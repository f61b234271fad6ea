/* proto/checkpoint/sstable_write.h - builds a table (proto/checkpoint/sstable.h) in memory from rows in key
 * order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_CHECKPOINT_SSTABLE_WRITE_H
#define TD_PROTO_CHECKPOINT_SSTABLE_WRITE_H

#include "proto/bytes/sink.h"

struct td_sstable_writer {
    struct td_sink file;     /* the table so far */
    struct td_sink block;    /* the data block being filled */
    struct td_sink restarts; /* fixed32 offsets of its restart points */
    struct td_sink index;    /* the index block so far */
    struct td_sink index_restarts;
    struct td_sink last_key;
    int n_in_block;
    bool started; /* a key has been added */
};

void td_sstable_writer_fini(struct td_sstable_writer *w);
/* Keys must rise bytewise; INTERNAL when they do not. */
TD_MUST enum td_code td_sstable_add(struct td_sstable_writer *w, const char *key, size_t key_len,
                                    const void *value, size_t value_len, struct td_err *err);
/* Completes w->file. */
TD_MUST enum td_code td_sstable_finish(struct td_sstable_writer *w, struct td_err *err);

#endif
