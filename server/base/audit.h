/* server/base/audit.h - the lines of the log that tell who was refused, and who managed what.
 *
 *   AUDIT   [model=half] act="POST /v1/models/half:reload" wire=http from=127.0.0.1 token=1c52f4ab outcome=OK
 *   AUDIT   act="/tensord.v1.Models/Reload" wire=grpc from=ipv4:10.0.0.7:4711 token=- outcome=.. why=".."
 *
 * token is the beginning of the token's digest, which does not tell the token; "-": none was sent. Whatever
 * --log_level and the log settings say, these lines are written. Refusals, which anybody can cause, are at
 * most 10 a second; how many were left out is told with the next one.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_AUDIT_H
#define TD_SERVER_BASE_AUDIT_H

#include <stddef.h>

#include "core/base/log.h"

#define TD_AUDIT_FROM 80

struct td_audit {
    const char *wire;          /* "http", "grpc" */
    const char *verb, *object; /* the method and the target, or "" and a gRPC method's path */
    const char *model;         /* "" none, or not known */
    const char *from;          /* the client's address; "" not known */
    const char *authorization; /* n bytes of that header, as sent; NULL: none */
    size_t n;
    const struct td_log_trace *trace; /* of the request; NULL: that of the work at hand */
};

/* Whether that outcome is a refusal: of who asks, not of what is asked for. */
static inline bool td_audit_refused(enum td_code rc)
{
    return rc == TD_PERMISSION_DENIED || rc == TD_UNAUTHENTICATED;
}
/* What came of it: err->code TD_OK, or not. A refusal or a management act. */
void td_audit_tell(const struct td_audit *a, const struct td_err *err);

#endif
