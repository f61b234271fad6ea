/* server/base/listen.h - TCP sockets that listen.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_LISTEN_H
#define TD_SERVER_BASE_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "core/base/status.h"

/* A listening, non-blocking socket on host ("" all interfaces, both families where there are two) and port (0
 * any free one); *bound is the port it got. UNAVAILABLE when the address is taken or not ours; SO_REUSEPORT
 * stays off. */
TD_MUST enum td_code td_listen_tcp(const char *host, int port, int *fd, int *bound, struct td_err *err);

/* Whether a peer's address is this host's loopback. */
bool td_listen_is_local(const struct sockaddr *peer);

#endif
