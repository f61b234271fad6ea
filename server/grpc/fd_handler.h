/* server/grpc/fd_handler.h - gives gRPC connections that we accepted.
 *
 * gRPC's server has a door for them that its C API does not show: a port whose address begins with
 * "external:" listens nowhere, and puts a handler into the channel argument of that name. It is what the C++
 * API's external acceptors stand on; unlike grpc_server_add_channel_from_fd it does TLS, knows the peer's
 * address and bounds the time of the handshake.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_FD_HANDLER_H
#define TD_SERVER_GRPC_FD_HANDLER_H

#ifdef __cplusplus
extern "C" {
#endif

/* Takes fd, a connected non-blocking socket: gRPC closes it. Between grpc_server_start and the server's
 * shutdown, which frees handler; on one thread at a time. */
void td_fd_handler_give(void *handler, int fd);

#ifdef __cplusplus
}
#endif
#endif
