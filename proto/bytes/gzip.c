/* proto/bytes/gzip.c - bodies inflated and packed with zlib, chunk by chunk into a td_sink.
 *
 * Both ways the output grows by at most 32 KiB a step, so what is allocated follows what zlib really
 * produced. To inflate, zlib itself tells gzip from zlib by the first bytes; members of gzip that follow one
 * another count as one text. The sink is given one byte more than the limit: a body of exactly the limit then
 * ends with room to spare. To pack, the sink's limit is the size of the body, so an answer that would grow
 * runs out of room and stays as it is. gzip is taken before deflate where the client accepts both.
 *
 * Does not: choose what to pack (server/http), know raw deflate, read or write files. The DecodeCompressed op
 * has its own use of zlib in kernels/data/decode.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/gzip.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "core/base/foreign.h"

#define CHUNK ((size_t)32 << 10)

/* Compressed bytes, block by block. */
struct input {
    td_gzip_next *next;
    void *ctx;
    size_t n; /* of the blocks so far */
};

/* Whether z has bytes to read: the next block that holds some, when one has been read. */
static bool refill(z_stream *z, struct input *in)
{
    while (z->avail_in == 0) {
        const void *bytes;
        size_t n;
        if (!in->next(in->ctx, &bytes, &n) || n > UINT_MAX) {
            return false;
        }
        z->next_in = (Bytef *)(uintptr_t)bytes;
        z->avail_in = (uInt)n;
        in->n += n;
    }
    return true;
}

/* Whether another gzip member follows the one that has ended: they count as one text. */
static bool next_member(z_stream *z)
{
    const bool more = z->avail_in >= 2 && z->next_in[0] == 0x1f && z->next_in[1] == 0x8b;
    return more && inflateReset(z) == Z_OK;
}

static enum td_code inflate_all(z_stream *z, struct input *in, struct td_sink *out, struct td_err *err)
{
    for (int rc = Z_OK; rc != Z_STREAM_END || next_member(z);) {
        const size_t room = out->limit - out->n < CHUNK ? out->limit - out->n : CHUNK;
        char *to = NULL;
        TD_FAIL_IF(room == 0, err, RESOURCE_EXHAUSTED,
                   "inflating the body: more than %zu bytes (--max_request_bytes)", out->limit - 1);
        TD_TRY(td_sink_grow(out, room, &to, err));
        z->next_out = (Bytef *)to;
        z->avail_out = (uInt)room;
        (void)refill(z, in); /* without more bytes zlib says that it is short of them */
        rc = inflate(z, Z_NO_FLUSH);
        out->n -= z->avail_out;
        TD_FAIL_IF(rc != Z_OK && rc != Z_STREAM_END, err, INVALID_ARGUMENT,
                   "inflating the body: no valid gzip or zlib at byte %zu of %zu", in->n - z->avail_in,
                   in->n);
    }
    TD_FAIL_IF(refill(z, in), err, INVALID_ARGUMENT,
               "inflating the body: %u bytes behind the end of gzip or zlib", z->avail_in);
    return TD_OK;
}

enum td_code td_gzip_unpack_blocks(td_gzip_next *next, void *ctx, size_t limit, struct td_sink *out,
                                   struct td_err *err)
{
    z_stream z = {.zalloc = td_foreign_zalloc, .zfree = td_foreign_zfree};
    struct input in = {next, ctx, 0};
    TD_FAIL_IF(inflateInit2(&z, 15 + 32) != Z_OK, err, RESOURCE_EXHAUSTED,
               "inflating the body: no memory for zlib");
    out->limit = limit + 1; /* room is asked for before the end is seen */
    enum td_code rc = inflate_all(&z, &in, out, err);
    inflateEnd(&z);
    if (rc == TD_OK && out->n > limit) {
        rc = td_fail(err, TD_RESOURCE_EXHAUSTED,
                     "inflating the body: more than %zu bytes (--max_request_bytes)", limit);
    }
    return rc;
}

/* One block: all of a body. */
static bool next_body(void *ctx, const void **bytes, size_t *n)
{
    struct td_sink *body = ctx;
    *bytes = body->p;
    *n = body->limit;
    body->limit = 0;
    return *n > 0;
}

enum td_code td_gzip_unpack(const char *encoding, size_t limit, struct td_sink *body, struct td_err *err)
{
    const bool packed = encoding != NULL && (strcasestr(encoding, "gzip") || strcasestr(encoding, "deflate"));
    if (!packed || body->n == 0) {
        return TD_OK;
    }
    struct td_sink plain = {.kind = body->kind}, once = {.p = body->p, .limit = body->n};
    const enum td_code rc = td_gzip_unpack_blocks(next_body, &once, limit, &plain, err);
    td_sink_fini(body);
    *body = plain;
    return rc;
}

/* ------------------------------------------------------------------ packing */

/* Whether the list has the word, and not with q=0. */
static bool accepts(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; *p != '\0'; p += *p == ',') {
        p += strspn(p, " \t,");
        const size_t item = strcspn(p, ","), name = strcspn(p, " \t;,");
        const char *q = memmem(p, item, "q=", 2);
        if (name == n && strncasecmp(p, word, n) == 0) {
            return q == NULL || strtod(q + 2, NULL) > 0;
        }
        p += item;
    }
    return false;
}

static enum td_code deflate_all(z_stream *z, struct td_sink *out, struct td_err *err)
{
    for (int rc = Z_OK; rc != Z_STREAM_END;) {
        const size_t room = out->limit - out->n < CHUNK ? out->limit - out->n : CHUNK;
        char *to = NULL;
        TD_FAIL_IF(room == 0, err, RESOURCE_EXHAUSTED, "packing an answer: more than %zu bytes", out->limit);
        TD_TRY(td_sink_grow(out, room, &to, err));
        z->next_out = (Bytef *)to;
        z->avail_out = (uInt)room;
        rc = deflate(z, Z_FINISH);
        out->n -= z->avail_out;
        TD_FAIL_IF(rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR, err, INTERNAL,
                   "packing an answer: zlib says %d", rc);
    }
    return TD_OK;
}

static enum td_code deflate_to(const struct td_sink *in, bool gzip, struct td_sink *out, struct td_err *err)
{
    z_stream z = {.zalloc = td_foreign_zalloc, .zfree = td_foreign_zfree};
    const int window = gzip ? 15 + 16 : 15;
    TD_FAIL_IF(in->n > UINT_MAX ||
                   deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK,
               err, RESOURCE_EXHAUSTED, "packing an answer of %zu bytes", in->n);
    z.next_in = (Bytef *)in->p;
    z.avail_in = (uInt)in->n;
    const enum td_code rc = deflate_all(&z, out, err);
    deflateEnd(&z);
    return rc;
}

const char *td_gzip_pack(const char *accept_encoding, struct td_sink *body)
{
    const bool gzip = accept_encoding != NULL && accepts(accept_encoding, "gzip");
    struct td_sink packed = {.limit = body->n};
    struct td_err ignored = {0};
    if (accept_encoding == NULL || (!gzip && !accepts(accept_encoding, "deflate"))) {
        return NULL;
    }
    if (deflate_to(body, gzip, &packed, &ignored)) {
        td_sink_fini(&packed);
        return NULL;
    }
    td_sink_fini(body);
    *body = packed;
    return gzip ? "gzip" : "deflate";
}
