/* server/gzip.c - see gzip.h. The only file of the server that calls zlib.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/gzip.h"

#include <limits.h>
#include <stdint.h>
#include <zlib.h>

#define PIECE ((size_t)32 << 10)

static enum td_code inflate_all(z_stream *z, size_t n, struct td_sink *out, struct td_err *err)
{
    for (int rc = Z_OK; rc != Z_STREAM_END;) {
        const size_t room = out->limit - out->n < PIECE ? out->limit - out->n : PIECE;
        char *to = NULL;
        TD_FAIL_IF(room == 0, err, RESOURCE_EXHAUSTED, "inflating the body: more than %zu bytes", out->limit);
        TD_TRY(td_sink_grow(out, room, &to, err));
        z->next_out = (Bytef *)to;
        z->avail_out = (uInt)room;
        rc = inflate(z, Z_NO_FLUSH);
        out->n -= z->avail_out;
        TD_FAIL_IF(rc != Z_OK && rc != Z_STREAM_END, err, INVALID_ARGUMENT,
                   "inflating the body: no valid gzip or zlib at byte %zu of %zu", n - z->avail_in, n);
    }
    return TD_OK;
}

enum td_code td_gzip_inflate(const void *bytes, size_t n, struct td_sink *out, struct td_err *err)
{
    z_stream z = {0};
    TD_FAIL_IF(n > UINT_MAX || inflateInit2(&z, 15 + 32) != Z_OK, err, RESOURCE_EXHAUSTED,
               "inflating the body: %zu bytes cannot be read", n);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    const enum td_code rc = inflate_all(&z, n, out, err);
    inflateEnd(&z);
    return rc;
}
