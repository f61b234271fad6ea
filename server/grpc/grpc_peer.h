/* server/grpc/grpc_peer.h - who makes a call, as gRPC's core tells it, and whether one more may be open.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_PEER_H
#define TD_SERVER_GRPC_GRPC_PEER_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "server/base/open_calls.h"

struct td_grpc;

/* *out is who calls. Family AF_UNIX without a path for UNIX sockets, AF_UNSPEC for what is not known. */
void td_grpc_peer(grpc_call *call, struct sockaddr_storage *out);
/* The same of gRPC's text for it. */
void td_grpc_peer_of(const char *uri, struct sockaddr_storage *out);
/* Whether it is on this host. */
bool td_grpc_peer_is_local(const struct sockaddr_storage *peer);
/* A call has come: RESOURCE_EXHAUSTED when as many are open as may be. Once for each call; place, zeroed, is
 * then given to td_grpc_leave once, whatever was said. */
TD_MUST enum td_code td_grpc_enter(const struct td_grpc *g, grpc_call *call, struct td_open_call *place,
                                   struct td_err *err);
void td_grpc_leave(const struct td_grpc *g, struct td_open_call *place);

#endif
