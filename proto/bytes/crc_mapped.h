/* proto/bytes/crc_mapped.h - CRC-32C of many ranges of mapped files, by all threads that idle, without
 * keeping their pages: a checkpoint is read through once, and what nobody uses of it takes no memory
 * afterwards.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_CRC_MAPPED_H
#define TD_PROTO_BYTES_CRC_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/thread_pool.h"

struct td_crc_range {
    const unsigned char *p; /* in a mapping of a file (proto/bytes/mapping.h) */
    size_t n;
    uint32_t crc; /* made; not masked */
};
/* False without memory: nothing is made then. pool NULL: this thread alone. */
bool td_crc_mapped(struct td_thread_pool *pool, struct td_crc_range *ranges, int n);

#endif
