/* server/grpc/grpc_audit.c - which calls stand in the audit log: those that are refused, and those that
 * manage, train or debug and do not only ask.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_audit.h"

#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

bool td_grpc_is_act(int method)
{
    static const char *const asking[] = {"/Get", "/List", "/Watch", "/Download"};
    const enum td_scope scope = td_grpc_scope(method);
    if (scope != TD_SCOPE_MANAGE && scope != TD_SCOPE_TRAIN && scope != TD_SCOPE_DEBUG) {
        return false; /* so are inference's, without a look at their names */
    }
    const char *name = strrchr(td_rpc_methods[method].path, '/');
    const size_t n = strlen(name);
    bool asks = n > 6 && strcmp(name + n - 6, "Status") == 0;
    for (size_t i = 0; i < sizeof asking / sizeof asking[0]; i++) {
        asks = asks || strncmp(name, asking[i], strlen(asking[i])) == 0;
    }
    return !asks;
}

/* The first field that the numbers of path lead to, as in "1.1". */
static void find_name(struct td_wire w, const char *path, char *out, size_t n)
{
    char *rest;
    const unsigned long number = strtoul(path, &rest, 10);
    struct td_field f = {.number = 1};
    struct td_err err = {0};
    while (number > 0 && *out == '\0' && td_wire_next(&w, &f, &err) == TD_OK && f.number != 0) {
        if (f.number == number && f.type == TD_WIRE_BYTES && *rest == '.') {
            find_name(f.sub, rest + 1, out, n);
        } else if (f.number == number && f.type == TD_WIRE_BYTES && f.sub.left < n) {
            td_wire_copy(f.sub, out);
            out[f.sub.left] = '\0';
        }
    }
}

void td_grpc_audit_name(int method, struct td_wire message, char *out, size_t n)
{
    const char *path = td_rpc_methods[method].access.model;
    out[0] = '\0';
    if (path != NULL && path[0] != TD_ACCESS_ALL[0]) {
        find_name(message, path, out, n);
    }
}

void td_grpc_audit(int method, const grpc_metadata_array *sent, grpc_call *call, const char *model,
                   const struct td_err *err)
{
    char *peer = grpc_call_get_peer(call);
    const struct td_header token = td_grpc_header(sent, "authorization");
    const struct td_audit a = {.wire = "grpc",
                               .verb = "",
                               .object = td_rpc_methods[method].path,
                               .model = model,
                               .from = peer != NULL ? peer : "",
                               .authorization = token.p,
                               .n = token.n};
    td_audit_tell(&a, err);
    gpr_free(peer);
}
