/* proto/bytes/crc32c.h - CRC-32C (Castagnoli), as checkpoints and record files use it, plain and masked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_CRC32C_H
#define TD_PROTO_BYTES_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of what crc covers followed by these bytes; start with 0. */
uint32_t td_crc32c(uint32_t crc, const void *bytes, size_t n);
/* The CRC of n bytes behind those that `first` is of, where `then` is theirs alone. */
uint32_t td_crc32c_join(uint32_t first, uint32_t then, size_t n);
/* The same as td_crc32c by table alone; the fast path is tested against it. */
uint32_t td_crc32c_reference(uint32_t crc, const void *bytes, size_t n);

/* A CRC stored next to the data it covers is masked, so that a CRC over both is no constant. */
static inline uint32_t td_crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

#endif
