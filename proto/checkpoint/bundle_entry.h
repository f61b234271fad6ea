/* proto/checkpoint/bundle_entry.h - BundleEntryProto and BundleHeaderProto, read from and written to their
 * bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_CHECKPOINT_BUNDLE_ENTRY_H
#define TD_PROTO_CHECKPOINT_BUNDLE_ENTRY_H

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "proto/checkpoint/slice.h"

struct td_bundle_entry {
    int dtype; /* DataType number as stored */
    struct td_shape shape;
    int shard;
    int64_t offset, size;
    uint32_t crc;         /* masked */
    int n_slices;         /* > 0: the bytes are under the slices' own keys */
    const uint8_t *bytes; /* the serialized entry, borrowed: where the slices are read from */
    size_t n_bytes;
    bool read;      /* td_bundle_read_ahead has */
    uint32_t found; /* and has found this CRC; not masked */
};

/* INVALID_ARGUMENT for a shape that cannot be, DATA_LOSS for malformed bytes. */
TD_MUST enum td_code td_bundle_entry_read(const uint8_t *bytes, size_t n, struct td_bundle_entry *out,
                                          struct td_err *err);
/* Slice i of the entry, as a box of its shape. */
TD_MUST enum td_code td_bundle_entry_slice(const struct td_bundle_entry *e, int i, struct td_box *out,
                                           struct td_err *err);
/* Appends the entry; slices, where given, are n_slices boxes. */
TD_MUST enum td_code td_bundle_entry_write(const struct td_bundle_entry *e, const struct td_box *slices,
                                           struct td_sink *out, struct td_err *err);

struct td_bundle_header {
    int n_shards;
    bool big_endian;
    int min_consumer;
};
TD_MUST enum td_code td_bundle_header_read(const uint8_t *bytes, size_t n, struct td_bundle_header *out,
                                           struct td_err *err);
TD_MUST enum td_code td_bundle_header_write(int n_shards, struct td_sink *out, struct td_err *err);

/* "PREFIX.index" and "PREFIX.data-00000-of-00001" into buf; INVALID_ARGUMENT when they do not fit. */
#define TD_BUNDLE_PATH 4096 /* TD_FILE_PATH */
TD_MUST enum td_code td_bundle_index_path(const char *prefix, char *buf, struct td_err *err);
TD_MUST enum td_code td_bundle_data_path(const char *prefix, int shard, int n_shards, char *buf,
                                         struct td_err *err);

/* All slices of an entry, e->n_slices of them. */
TD_MUST enum td_code td_bundle_entry_slices(const struct td_bundle_entry *e, struct td_box *out,
                                            struct td_err *err);

#endif
