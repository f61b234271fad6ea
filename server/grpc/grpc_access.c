/* server/grpc/grpc_access.c - whether a gRPC call may be answered: its bearer token against what its method
 * needs.
 *
 * methods.def says per method which scope that is and where in a message the model's name stands. The token
 * is looked at when the call arrives, before it can take a place in the queue, and the names when its message
 * is there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/base/local_only.h"
#include "server/grpc/call_authority.h"
#include "server/grpc/grpc_impl.h"
#include "server/grpc/grpc_peer.h"

struct td_header td_grpc_header(const grpc_metadata_array *sent, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sent->count; i++) {
        const grpc_slice *k = &sent->metadata[i].key, *v = &sent->metadata[i].value;
        if (GRPC_SLICE_LENGTH(*k) == n && memcmp(GRPC_SLICE_START_PTR(*k), name, n) == 0) {
            return (struct td_header){(const char *)GRPC_SLICE_START_PTR(*v), GRPC_SLICE_LENGTH(*v)};
        }
    }
    return (struct td_header){NULL, 0};
}

static struct td_header token_of(const grpc_metadata_array *sent)
{
    return td_grpc_header(sent, "authorization");
}

enum td_scope td_grpc_scope(int method)
{
    const struct td_rpc_method *m = &td_rpc_methods[method];
    return m->access.scope != TD_SCOPE_DEFAULT                                             ? m->access.scope
           : m->kind == TD_RPC_INFER                                                       ? TD_SCOPE_INFER
           : m->kind == TD_RPC_MANAGE || m->kind == TD_RPC_APART || m->kind == TD_RPC_WAIT ? TD_SCOPE_MANAGE
                                                                                           : TD_SCOPE_ANY;
}

enum td_code td_grpc_admit(const struct td_grpc *g, int method, const grpc_metadata_array *sent,
                           struct td_err *err)
{
    const struct td_rpc_method *m = &td_rpc_methods[method];
    if (g->opts.access == NULL) {
        return TD_OK;
    }
    const struct td_header t = token_of(sent);
    const bool all = m->access.model != NULL && strcmp(m->access.model, TD_ACCESS_ALL) == 0;
    return td_access_check(g->opts.access, t.p, t.n, td_grpc_scope(method), all ? TD_ACCESS_ALL : NULL, err);
}

enum td_code td_grpc_local_only(const struct td_grpc *g, int method, const grpc_metadata_array *sent,
                                grpc_call *call, struct td_err *err)
{
    char found[64];
    struct sockaddr_storage peer;
    struct td_local_only q = {.loopback = false};
    if (g->opts.access != NULL || g->opts.open_management) {
        return TD_OK;
    }
    td_grpc_peer(call, &peer);
    q.loopback = td_grpc_peer_is_local(&peer);
    q.no_host = peer.ss_family == AF_UNIX; /* clients name a socket as they like, and browsers know none */
    q.n_host = td_call_authority(call, &q.host);
    for (size_t i = 0; i < sent->count && q.browser == NULL; i++) {
        const char *key = (const char *)GRPC_SLICE_START_PTR(sent->metadata[i].key);
        const int n = (int)GRPC_SLICE_LENGTH(sent->metadata[i].key);
        if (td_local_only_tells(key, (size_t)n)) {
            (void)snprintf(found, sizeof found, "%.*s", n, key);
            q.browser = found;
        }
    }
    return td_local_only_check(&q, td_rpc_methods[method].path, err);
}

enum td_code td_rpc_check_local(struct td_rpc *r, struct td_err *err)
{
    return td_grpc_local_only(r->caller->g, r->caller->method, r->caller->sent, r->carrier->call(r), err);
}

enum td_code td_rpc_admit(const struct td_rpc *r, enum td_scope scope, const char *model, struct td_err *err)
{
    const struct td_rpc_caller *c = r->caller;
    if (c->g->opts.access == NULL) {
        return TD_OK;
    }
    const struct td_header t = token_of(c->sent);
    return td_access_check(c->g->opts.access, t.p, t.n, scope, model, err);
}

bool td_rpc_sees(const struct td_rpc *r, const char *model)
{
    struct td_err ignored = {0};
    return td_rpc_admit(r, TD_SCOPE_ANY, model, &ignored) == TD_OK;
}

void td_rpc_owner(const struct td_rpc *r, char owner[33])
{
    const struct td_rpc_caller *c = r->caller;
    const struct td_header t = c->g->opts.access != NULL ? token_of(c->sent) : (struct td_header){NULL, 0};
    td_access_owner(t.p, t.n, owner);
}

struct check {
    struct td_access *access;
    struct td_header token;
    enum td_scope scope;
    int n_names;
};

static enum td_code check_name(struct check *c, struct td_wire text, struct td_err *err)
{
    const size_t n = (size_t)text.left;
    c->n_names++;
    char *name = td_calloc(n + 1, 1);
    if (name == NULL) {
        return td_no_memory(err, n, "a model's name");
    }
    td_wire_copy(text, name);
    const enum td_code rc = td_access_check(c->access, c->token.p, c->token.n, c->scope, name, err);
    td_free(name);
    return rc;
}

/* Every field that the numbers of path lead to, as in "1.1"; counts them. The depth is the path's. */
static enum td_code check_names(struct check *c, struct td_wire w, const char *path, struct td_err *err)
{
    char *rest;
    const unsigned long number = strtoul(path, &rest, 10);
    struct td_field f;
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == number && f.number != 0 && f.type == TD_WIRE_BYTES) {
            TD_TRY(*rest == '.' ? check_names(c, f.sub, rest + 1, err) : check_name(c, f.sub, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

enum td_code td_grpc_admit_message(const struct td_grpc *g, int method, const grpc_metadata_array *sent,
                                   struct td_wire message, struct td_err *err)
{
    const struct td_rpc_method *m = &td_rpc_methods[method];
    if (g->opts.access == NULL || m->access.model == NULL || m->access.model[0] == TD_ACCESS_ALL[0]) {
        return TD_OK;
    }
    struct check c = {g->opts.access, token_of(sent), td_grpc_scope(method), 0};
    TD_TRY(check_names(&c, message, m->access.model, err));
    return c.n_names > 0 ? TD_OK /* a message without a name may mean every model */
                         : td_access_check(c.access, c.token.p, c.token.n, c.scope, TD_ACCESS_ALL, err);
}
