/* server/http/multipart.h - a multipart/form-data body (RFC 7578, RFC 2046 section 5.1), read as it comes.
 *
 *   td_multipart_open(&m, "multipart/form-data; boundary=XYZ", &events, ctx, &err)
 *   td_multipart_put(&m, bytes, n, &err)       any chunks, in their order
 *   td_multipart_finish(&m, &err)              the closing boundary has been seen
 *
 * Bytes of parts are handed on as they stand, whatever they hold; nothing but the head of a part is kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_MULTIPART_H
#define TD_SERVER_HTTP_MULTIPART_H

#include <stddef.h>

#include "core/base/status.h"

/* Each may fail: the rest of the body is then of no use. */
struct td_multipart_events {
    /* A part begins. name: of its field; filename: NULL where it is none's. Both UTF-8 as sent, borrowed. */
    enum td_code (*begin)(void *ctx, const char *name, const char *filename, struct td_err *err);
    enum td_code (*data)(void *ctx, const char *bytes, size_t n, struct td_err *err);
    enum td_code (*end)(void *ctx, struct td_err *err);
};

enum { TD_MULTIPART_BOUNDARY = 200, TD_MULTIPART_HEAD = 8192, TD_MULTIPART_PARTS = 100 };

struct td_multipart {
    const struct td_multipart_events *events;
    void *ctx;
    char delimiter[4 + TD_MULTIPART_BOUNDARY + 1]; /* CR LF - - boundary */
    size_t n_delimiter, n_matched;                 /* matched: of delimiter, not handed on yet */
    enum { TD_MP_PREAMBLE, TD_MP_DATA, TD_MP_BEHIND, TD_MP_HEAD, TD_MP_EPILOGUE } state;
    char head[TD_MULTIPART_HEAD + 1]; /* what stands behind a delimiter, and the part's headers */
    size_t n_head;
    int n_parts;
};

/* INVALID_ARGUMENT when content_type (NULL: none) is not multipart/form-data with a boundary. Nothing needs
 * to be freed. */
TD_MUST enum td_code td_multipart_open(struct td_multipart *m, const char *content_type,
                                       const struct td_multipart_events *events, void *ctx,
                                       struct td_err *err);
TD_MUST enum td_code td_multipart_put(struct td_multipart *m, const char *bytes, size_t n,
                                      struct td_err *err);
TD_MUST enum td_code td_multipart_check(const struct td_multipart *m, struct td_err *err);
/* INVALID_ARGUMENT when the body ended before its closing boundary. */
TD_MUST enum td_code td_multipart_finish(const struct td_multipart *m, struct td_err *err);

#endif
