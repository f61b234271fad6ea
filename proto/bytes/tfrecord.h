/* proto/bytes/tfrecord.h - TFRecord files: length, masked CRC of it, bytes, masked CRC of those; again and
 * again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_TFRECORD_H
#define TD_PROTO_BYTES_TFRECORD_H

#include <stdint.h>

#include "proto/bytes/sink.h"

struct td_tfrecord;

/* Returns new. NOT_FOUND, PERMISSION_DENIED. max_bytes bounds one record. */
TD_MUST enum td_code td_tfrecord_open(const char *path, size_t max_bytes, struct td_tfrecord **out,
                                      struct td_err *err);
/* Likewise, opened beneath the folder `root` (core/base/beneath.h); NULL: anywhere. */
TD_MUST enum td_code td_tfrecord_open_beneath(const char *root, const char *path, size_t max_bytes,
                                              struct td_tfrecord **out, struct td_err *err);
/* The next record, borrowed until the next call; *bytes NULL at the end. DATA_LOSS "truncated record at
 * OFFSET" or "corrupted record at OFFSET"; RESOURCE_EXHAUSTED for one above max_bytes. */
TD_MUST enum td_code td_tfrecord_next(struct td_tfrecord *r, const void **bytes, size_t *n,
                                      struct td_err *err);
void td_tfrecord_close(struct td_tfrecord *r);

/* Appends one record. */
TD_MUST enum td_code td_tfrecord_put(struct td_sink *out, const void *bytes, size_t n, struct td_err *err);

#endif
