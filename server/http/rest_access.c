/* server/http/rest_access.c - who asks over HTTP: what his token allows, or whether he is on this host.
 *
 * Does not: know what a path needs (server/http/routes.def, server/http/rest.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "server/base/local_only.h"
#include "server/http/rest.h"

enum td_code td_rest_admit(struct td_rest *rest, const struct td_exchange *x, enum td_scope scope,
                           const char *model, struct td_err *err)
{
    if (rest->access == NULL) {
        return TD_OK;
    }
    const char *sent = td_exchange_header(x, "Authorization");
    return td_access_check(rest->access, sent, sent != NULL ? strlen(sent) : 0, scope,
                           *model != '\0' ? model : NULL, err);
}

void td_rest_owner(const struct td_rest *rest, const struct td_exchange *x, char owner[TD_OWNER_CHARS])
{
    const char *sent = rest->access != NULL ? td_exchange_header(x, "Authorization") : NULL;
    td_access_owner(sent, sent != NULL ? strlen(sent) : 0, owner);
}

bool td_rest_sees(struct td_rest *rest, const struct td_exchange *x, const char *model)
{
    struct td_err ignored = {0};
    return td_rest_admit(rest, x, TD_SCOPE_ANY, model, &ignored) == TD_OK;
}

static enum td_code check_local(const struct td_exchange *x, const char *type, enum td_local_body body,
                                struct td_err *err)
{
    char what[160];
    const char *host = td_exchange_header(x, "Host");
    const struct td_local_only q = {.loopback = x->local,
                                    .no_host = host == NULL,
                                    .host = host != NULL ? host : "",
                                    .n_host = host != NULL ? strlen(host) : 0,
                                    .browser = x->absolute ? "Host (the target has another in front)"
                                                           : td_exchange_header_that(x, td_local_only_tells),
                                    .type = type,
                                    .body = body};
    (void)snprintf(what, sizeof what, "%s %s", x->method, x->target);
    return td_local_only_check(&q, what, err);
}

enum td_code td_rest_from_here(const struct td_exchange *x, struct td_err *err)
{
    return check_local(x, NULL, TD_BODY_JSON, err);
}

enum td_code td_rest_local_only(const struct td_rest *rest, const struct td_exchange *x,
                                enum td_local_body body, struct td_err *err)
{
    const char *type =
        x->body_len > 0 || body == TD_BODY_FILES ? td_exchange_header(x, "Content-Type") : NULL;
    return rest->access != NULL || rest->open_management ? TD_OK : check_local(x, type, body, err);
}
