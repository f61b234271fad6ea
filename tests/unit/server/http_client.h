/* tests/unit/server/http_client.h - a client on a bare socket, for the tests of server/http.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HTTP_CLIENT_H
#define TD_TESTS_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "tests/test.h"

/* Connected to a port of this machine; waits 20 s at most for what it reads. */
static inline int dial_port(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_INT(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    const struct timeval limit = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

/* Whether the other side took it all. */
static inline bool say(int fd, const void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t w = send(fd, (const char *)bytes + at, n - at, MSG_NOSIGNAL);
        if (w <= 0) {
            return false;
        }
        at += (size_t)w;
    }
    return true;
}

#endif
