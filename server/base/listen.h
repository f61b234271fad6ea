/* server/base/listen.h - sockets that listen, of TCP and of UNIX.
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

/* A listening, non-blocking UNIX socket at path. A socket file that is there is removed first, dead or alive:
 * TensorFlow Serving's test servers all bind one name, and the latest has it. The caller removes the file. */
TD_MUST enum td_code td_listen_unix(const char *path, int *fd, struct td_err *err);

/* An IP address's text, without the port; "" of others, and of NULL. */
#define TD_LISTEN_NAME 48
void td_listen_name(const struct sockaddr *peer, char out[TD_LISTEN_NAME]);

/* Whether a peer's address is this host's loopback. */
bool td_listen_is_local(const struct sockaddr *peer);

#endif
