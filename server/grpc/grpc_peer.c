/* server/grpc/grpc_peer.c - reads the core's text for a peer, and asks server/base/open_calls.h.
 *
 * The core names peers by URIs: "ipv4:127.0.0.1:4000", "ipv6:%5B::1%5D:4000" (1.51 also writes brackets as
 * they are), "unix:/path" or "unix:".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_peer.h"

#include <arpa/inet.h>
#include <grpc/support/alloc.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/listen.h"
#include "server/grpc/grpc_accept.h"
#include "server/grpc/grpc_impl.h"

/* The text between the scheme and the port, without brackets, and the port. False when it does not fit. */
static bool split(const char *uri, char host[INET6_ADDRSTRLEN], in_port_t *port)
{
    static const char *const brackets[] = {"%5B", "[", "%5D", "]"};
    const char *from = strchr(uri, ':'), *to = strrchr(uri, ':');
    if (from == NULL || to == from) {
        return false;
    }
    *port = htons((uint16_t)strtoul(to + 1, NULL, 10));
    from++;
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(brackets[i]), m = strlen(brackets[i + 2]);
        if (strncmp(from, brackets[i], n) == 0 && (size_t)(to - from) >= n + m &&
            strncmp(to - m, brackets[i + 2], m) == 0) {
            from += n;
            to -= m;
        }
    }
    const size_t n = (size_t)(to - from);
    if (n >= INET6_ADDRSTRLEN) {
        return false;
    }
    memcpy(host, from, n);
    host[n] = '\0';
    return true;
}

void td_grpc_peer_of(const char *uri, struct sockaddr_storage *out)
{
    char host[INET6_ADDRSTRLEN];
    struct sockaddr_in *four = (struct sockaddr_in *)out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (strncmp(uri, "unix:", 5) == 0) {
        out->ss_family = AF_UNIX;
    } else if (strncmp(uri, "ipv4:", 5) == 0 && split(uri, host, &four->sin_port) &&
               inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        out->ss_family = AF_INET;
    } else if (strncmp(uri, "ipv6:", 5) == 0 && split(uri, host, &six->sin6_port) &&
               inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        out->ss_family = AF_INET6;
    }
}

void td_grpc_peer(grpc_call *call, struct sockaddr_storage *out)
{
    char *uri = grpc_call_get_peer(call);
    td_grpc_peer_of(uri, out);
    gpr_free(uri);
}

bool td_grpc_peer_is_local(const struct sockaddr_storage *peer)
{
    return peer->ss_family == AF_UNIX ||
           (peer->ss_family != AF_UNSPEC && td_listen_is_local((const struct sockaddr *)peer));
}

bool td_rpc_local(struct td_rpc *r)
{
    struct sockaddr_storage peer;
    td_grpc_peer(r->carrier->call(r), &peer);
    return td_grpc_peer_is_local(&peer);
}

enum td_code td_grpc_enter(const struct td_grpc *g, grpc_call *call, struct td_open_call *place,
                           struct td_err *err)
{
    struct sockaddr_storage peer;
    struct td_open_calls *calls = g->opts.calls;
    if (calls == NULL) {
        return TD_OK;
    }
    const bool ask = td_open_calls_ask(calls);
    if (ask) {
        td_grpc_peer(call, &peer);
    }
    const enum td_code rc =
        td_open_calls_enter(calls, ask ? (const struct sockaddr *)&peer : NULL, place, err);
    if (rc && td_open_calls_flooded(calls)) {
        td_grpc_peer(call, &peer);
        td_accept_cut(g->accept, &peer);
    }
    return rc;
}

void td_grpc_leave(const struct td_grpc *g, struct td_open_call *place)
{
    if (g->opts.calls != NULL) {
        td_open_calls_leave(g->opts.calls, place);
    }
}
