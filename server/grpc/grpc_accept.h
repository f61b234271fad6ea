/* server/grpc/grpc_accept.h - gRPC's listeners: each connection is asked whether it may come
 * (server/base/connections.h), handed to gRPC, and missed when it has ended.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_ACCEPT_H
#define TD_SERVER_GRPC_GRPC_ACCEPT_H

#include <stdbool.h>

#include "server/base/connections.h"

struct td_accept;

/* Returns new. connections is borrowed; NULL: as many as come. */
TD_MUST enum td_code td_accept_new(struct td_connections *connections, struct td_accept **out,
                                   struct td_err *err);
/* Binds "HOST:PORT", "[::]:0" (port 0: any free one), and says which port it became. At most
 * TD_ACCEPT_LISTENERS together with sockets (server/base/accept_loop.h); before the start. */
TD_MUST enum td_code td_accept_bind(struct td_accept *a, const char *address, int *port, struct td_err *err);
/* Binds a UNIX socket. A socket file that is there is replaced. */
TD_MUST enum td_code td_accept_bind_unix(struct td_accept *a, const char *path, struct td_err *err);
/* Ends the connection whose client has that address and port, if it is there: with it go all its calls. Any
 * thread. */
void td_accept_cut(struct td_accept *a, const struct sockaddr_storage *peer);
/* Whether others than this host can connect. */
bool td_accept_is_open(const struct td_accept *a);
/* Starts the thread. handler (server/grpc/fd_handler.h) is borrowed until the stop. */
TD_MUST enum td_code td_accept_start(struct td_accept *a, void *handler, struct td_err *err);
/* Ends the thread and closes the listeners: no connection comes any more, those given go on. Before the
 * server is shut down. Idempotent. */
void td_accept_stop(struct td_accept *a);
/* When gRPC has closed all connections. Accepts NULL; stops. */
void td_accept_free(struct td_accept *a);

#endif
