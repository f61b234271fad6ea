/* proto/bytes/gzip.h - gzip and zlib (HTTP's deflate) bodies: inflated within a limit, and packed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_GZIP_H
#define TD_PROTO_BYTES_GZIP_H

#include <stdbool.h>

#include "proto/bytes/sink.h"

/* A body in the encoding that its header names (NULL and others than gzip and deflate: as it is) becomes what
 * it holds. Memory grows with what is really there, not with what the gzip trailer claims: RESOURCE_EXHAUSTED
 * past limit bytes. INVALID_ARGUMENT for bytes that are neither gzip nor zlib, and for others behind them. */
TD_MUST enum td_code td_gzip_unpack(const char *encoding, size_t limit, struct td_sink *body,
                                    struct td_err *err);

/* The same of bytes that come in blocks, appended to *out, which the caller frees, also after an error. next
 * gives the following block, or false when there is none. What does not begin in the block that holds the end
 * of the text before is no further gzip member. */
typedef bool td_gzip_next(void *ctx, const void **bytes, size_t *n);
TD_MUST enum td_code td_gzip_unpack_blocks(td_gzip_next *next, void *ctx, size_t limit, struct td_sink *out,
                                           struct td_err *err);

/* Packs body, quickly rather than small, in an encoding that the Accept-Encoding header (NULL: none) allows;
 * its name, or NULL when the body stays as it is: no such encoding, or nothing would be gained. */
const char *td_gzip_pack(const char *accept_encoding, struct td_sink *body);

#endif
