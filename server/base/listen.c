/* server/base/listen.c - one socket a listener, bound to IPv6 with IPv4 mapped into it where the host has
 * both.
 *
 * With a host the first address that getaddrinfo gives is taken. Without one "::" is tried with IPV6_V6ONLY
 * off, which serves both families, and 0.0.0.0 only where that fails for another reason than a port that is
 * taken. SO_REUSEADDR lets a restarted server have its port at once. The port that was bound is read back,
 * for port 0.
 *
 * Does not: accept (server/base/connections.c), do TLS.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/log.h"

static int try_bind(const struct addrinfo *a)
{
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1, off = 0;
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        const int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

/* Tries one address; *why is errno's value when it cannot be had. */
static enum td_code try_host(const char *host, int port, int *fd, int *why, struct td_err *err)
{
    char service[16];
    (void)snprintf(service, sizeof service, "%d", port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const int rc = getaddrinfo(host, service, &hints, &list);
    TD_FAIL_IF(rc != 0, err, INVALID_ARGUMENT, "listening on '%s': %s", host, gai_strerror(rc));
    *fd = try_bind(list);
    *why = errno;
    freeaddrinfo(list);
    return TD_OK;
}

enum td_code td_listen_tcp(const char *host, int port, int *fd, int *bound, struct td_err *err)
{
    int why = 0;
    *fd = -1;
    TD_TRY(try_host(*host != '\0' ? host : "::", port, fd, &why, err));
    if (*fd < 0 && *host == '\0' && why != EADDRINUSE) { /* a host without IPv6 */
        TD_TRY(try_host("0.0.0.0", port, fd, &why, err));
    }
    TD_FAIL_IF(*fd < 0, err, UNAVAILABLE, "listening on %s port %d: %s",
               *host != '\0' ? host : "all interfaces", port, strerror(why));
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    TD_FAIL_IF(getsockname(*fd, (struct sockaddr *)&at, &size) != 0, err, INTERNAL,
               "listening on port %d: %s", port, strerror(errno));
    *bound = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                            : ((struct sockaddr_in *)&at)->sin_port);
    return TD_OK;
}

/* Removes the socket file of a server before us, dead or alive. */
static enum td_code clear_stale(const struct sockaddr_un *to, struct td_err *err)
{
    const char *path = to->sun_path;
    struct stat st;
    if (lstat(path, &st) != 0) {
        return TD_OK;
    }
    TD_FAIL_IF(!S_ISSOCK(st.st_mode), err, ALREADY_EXISTS,
               "listening on socket '%s': the file is there and is no socket", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool alive = fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) == 0;
    if (fd >= 0) {
        close(fd);
    }
    if (alive) {
        td_log(TD_LOG_WARNING, NULL, "socket '%s': another process was listening; the name is ours now",
               path);
    }
    TD_FAIL_IF(unlink(path) != 0 && errno != ENOENT, err, UNAVAILABLE,
               "listening on socket '%s': cannot remove the stale socket: %s", path, strerror(errno));
    return TD_OK;
}

enum td_code td_listen_unix(const char *path, int *fd, struct td_err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    *fd = -1;
    TD_FAIL_IF(strlen(path) >= sizeof at.sun_path, err, INVALID_ARGUMENT,
               "listening on socket '%s': a path may have %zu bytes", path, sizeof at.sun_path - 1);
    memcpy(at.sun_path, path, strlen(path) + 1);
    TD_TRY(clear_stale(&at, err));
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0 || bind(s, (const struct sockaddr *)&at, sizeof at) != 0 || listen(s, SOMAXCONN) != 0) {
        const int why = errno;
        if (s >= 0) {
            close(s);
        }
        return td_fail(err, TD_UNAVAILABLE, "listening on socket '%s': it cannot be bound: %s", path,
                       strerror(why));
    }
    *fd = s;
    return TD_OK;
}

void td_listen_name(const struct sockaddr *peer, char out[TD_LISTEN_NAME])
{
    const int family = peer != NULL ? peer->sa_family : AF_UNSPEC;
    const void *at = family == AF_INET    ? (const void *)&((const struct sockaddr_in *)peer)->sin_addr
                     : family == AF_INET6 ? &((const struct sockaddr_in6 *)peer)->sin6_addr
                                          : NULL;
    out[0] = '\0';
    if (at != NULL) {
        (void)inet_ntop(family, at, out, TD_LISTEN_NAME);
    }
}

bool td_listen_is_local(const struct sockaddr *peer)
{
    if (peer->sa_family == AF_INET) {
        const struct sockaddr_in *a = (const struct sockaddr_in *)peer;
        return ntohl(a->sin_addr.s_addr) >> 24 == 127;
    }
    const struct in6_addr *a = &((const struct sockaddr_in6 *)peer)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}
