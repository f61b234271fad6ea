/* server/base/local_only.h - whether a request without a token may manage: only when it comes from this host,
 * and neither a page in a browser nor a proxy on this host can have made it.
 *
 *   connection   over loopback (or a UNIX socket); the front end knows
 *   Host         localhost or a loopback address, with or without a port: a name of somebody else's that
 *                resolves to this host (DNS rebinding) is none
 *   headers      no Origin, Referer, Sec-Fetch-*: browsers send them, and pages cannot keep them from it;
 *                no Forwarded, X-Forwarded-*, X-Real-IP, Via: proxies send them
 *   body         of a content type that a page cannot send without asking first: JSON, bytes, or none told
 *                (which a page can do, but never without an Origin); forms with files, and regions of shared
 *                memory of a type that pages can send too, are held by the headers above
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_LOCAL_ONLY_H
#define TD_SERVER_BASE_LOCAL_ONLY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

/* What the body of a request may be, besides JSON and bytes. */
enum td_local_body {
    TD_BODY_JSON,
    TD_BODY_FILES, /* a multipart form */
    TD_BODY_REGION /* libcurl's own type, with which Triton's C++ clients register regions of shared memory */
};

/* What is known of a request. */
struct td_local_only {
    bool loopback;    /* the connection's client is on this host */
    bool no_host;     /* a UNIX socket's, or HTTP/1.0 without a Host: there is none to look at */
    const char *host; /* as sent, over gRPC as :authority; borrowed */
    size_t n_host;
    const char *browser; /* the first header found by which a browser or proxy is known; NULL: none */
    const char *type;    /* of a body that is there; NULL: no body, or none told */
    enum td_local_body body;
};

/* Whether a header's name is one of those above; n bytes, any case. */
bool td_local_only_tells(const char *name, size_t n);
/* Whether n bytes are localhost or a loopback address, with or without a port. */
bool td_local_only_host(const char *host, size_t n);
/* PERMISSION_DENIED says which of them is missing; what: method and path, for the sentence. */
TD_MUST enum td_code td_local_only_check(const struct td_local_only *q, const char *what, struct td_err *err);

#endif
