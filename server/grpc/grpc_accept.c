/* server/grpc/grpc_accept.c - gRPC's listeners, and noticing that a connection has ended.
 *
 * gRPC does not say when it has closed a connection. But a descriptor's number says it: each socket has an
 * inode number of its own, so the descriptor that we gave away is closed once its number is free or names
 * another file. `given` holds, by number, the inode and the peer's address:
 *
 *   accept returns number N        what was given as N has ended, or the kernel would not have given N out
 *                                  again
 *   once a second, and before      fstat of every number given (some 0.2 us each): those that are not the
 *                                  same
 *   anybody is refused (sweep)     socket any more have ended
 *
 * So the count is exact when it matters, no connection costs a second descriptor, and nothing is to be told
 * apart of half-closed, reset and timed-out connections: what counts is the descriptor.
 *
 * Threads: one accepts (server/base/accept_loop.h); sweep may run on any that counts connections. Lock: mu
 * guards `given`; taken after connections.sweeping, before connections.mu.
 *
 * Does not: accept, read or write; know gRPC (fd_handler.cc).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_accept.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/accept_loop.h"
#include "server/base/clock.h"
#include "server/base/listen.h"
#include "server/base/peer_address.h"
#include "server/grpc/fd_handler.h"

#define SWEEP_LEAST_NS 5000000 /* between sweeps that others ask for */
#define UNREAD_MS 60000        /* who takes nothing for so long, while there is something to take, is gone */

struct given {
    uint64_t inode;
    bool open;
    struct sockaddr_in6 peer; /* or a sockaddr_in, or the family alone */
};

struct td_accept {
    struct td_connections *connections;
    void *handler;
    struct td_accept_loop *loop; /* NULL: nothing is accepted */
    struct {
        int fd;
        char *path; /* of a UNIX socket, and what it was when bound */
        dev_t dev;
        ino_t inode;
    } listeners[TD_ACCEPT_LISTENERS];
    int n_listeners;

    pthread_mutex_t mu; /* guards what follows */
    struct given *given;
    int n_given; /* room */
    int n_open;
    int64_t swept_ns;
    struct td_peer_address cut; /* whose connection was cut last */
    in_port_t cut_port;
};

/* ------------------------------------------------------------------ connections that were given */

/* Under mu. */
static void ended(struct td_accept *a, struct given *g)
{
    g->open = false;
    a->n_open--;
    td_connections_leave(a->connections, TD_CONNECTION_GRPC, (const struct sockaddr *)&g->peer);
}

/* The inode of the socket that the number names now. By statx, because ThreadSanitizer takes fstat for a use
 * of the descriptor, which gRPC closes unseen. */
static bool names(int fd, uint64_t *inode)
{
    struct statx now;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &now) != 0 || !S_ISSOCK(now.stx_mode)) {
        return false;
    }
    *inode = now.stx_ino;
    return true;
}

/* Others may close it and give the number out again at any moment: that is what is asked. */
static bool still_names(int fd, uint64_t inode)
{
    uint64_t now;
    return names(fd, &now) && now == inode;
}

static void sweep(void *accept)
{
    struct td_accept *a = accept;
    pthread_mutex_lock(&a->mu);
    const int64_t now_ns = td_clock_ns();
    if (a->n_open > 0 && now_ns - a->swept_ns > SWEEP_LEAST_NS) {
        for (int fd = 0; fd < a->n_given; fd++) {
            if (a->given[fd].open && !still_names(fd, a->given[fd].inode)) {
                ended(a, &a->given[fd]);
            }
        }
        a->swept_ns = now_ns;
    }
    pthread_mutex_unlock(&a->mu);
}

/* Room for the number, and what had it before is over. */
static bool make_room(struct td_accept *a, int fd)
{
    bool ok = true;
    pthread_mutex_lock(&a->mu);
    if (fd >= a->n_given) {
        const int n = (fd + 1) * 2;
        struct given *more = td_realloc(a->given, (size_t)n, sizeof *more);
        ok = more != NULL;
        if (ok) {
            memset(more + a->n_given, 0, (size_t)(n - a->n_given) * sizeof *more);
            a->given = more;
            a->n_given = n;
        }
    }
    if (ok && a->given[fd].open) {
        ended(a, &a->given[fd]);
    }
    pthread_mutex_unlock(&a->mu);
    return ok;
}

/* Whether the connection may be served: then it is counted, and noted under its number. */
static bool enter(struct td_accept *a, int fd, const struct sockaddr_storage *peer)
{
    uint64_t inode;
    struct td_err err = {0};
    if (a->connections == NULL) {
        return true;
    }
    if (!make_room(a, fd) || !names(fd, &inode) ||
        td_connections_enter(a->connections, TD_CONNECTION_GRPC, (const struct sockaddr *)peer, &err)) {
        return false;
    }
    pthread_mutex_lock(&a->mu);
    struct given *g = &a->given[fd];
    g->inode = inode;
    g->open = true;
    memcpy(&g->peer, peer, sizeof g->peer);
    a->n_open++;
    pthread_mutex_unlock(&a->mu);
    return true;
}

static in_port_t port_of(const struct sockaddr *peer)
{
    return peer->sa_family == AF_INET ? ((const struct sockaddr_in *)peer)->sin_port
                                      : ((const struct sockaddr_in6 *)peer)->sin6_port;
}

/* The first of the calls of one connection ends it, the others find it as it was cut last. */
void td_accept_cut(struct td_accept *a, const struct sockaddr_storage *peer)
{
    struct td_peer_address want, at;
    const in_port_t port = port_of((const struct sockaddr *)peer);
    if (!td_peer_address((const struct sockaddr *)peer, &want)) {
        return; /* UNIX sockets have no names, and are our own */
    }
    pthread_mutex_lock(&a->mu);
    const bool again = a->cut.lo == want.lo && a->cut.hi == want.hi && a->cut_port == port;
    a->cut = want;
    a->cut_port = port;
    for (int fd = 0; fd < a->n_given && !again; fd++) {
        const struct given *g = &a->given[fd];
        const struct sockaddr *it = (const struct sockaddr *)&g->peer;
        if (g->open && td_peer_address(it, &at) && at.lo == want.lo && at.hi == want.hi &&
            port_of(it) == port && still_names(fd, g->inode)) {
            (void)shutdown(fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&a->mu);
}

/* ------------------------------------------------------------------ what the loop calls */

static void take(void *accept, int fd, const struct sockaddr_storage *peer)
{
    struct td_accept *a = accept;
    if (enter(a, fd, peer)) {
        td_fd_handler_give(a->handler, fd);
    } else {
        close(fd);
    }
}

static bool each_second(void *accept)
{
    struct td_accept *a = accept;
    sweep(a);
    pthread_mutex_lock(&a->mu);
    const bool any = a->n_open > 0;
    pthread_mutex_unlock(&a->mu);
    return any;
}

/* ------------------------------------------------------------------ start and end */

enum td_code td_accept_new(struct td_connections *connections, struct td_accept **out, struct td_err *err)
{
    struct td_accept *a = td_calloc(1, sizeof *a);
    if (a == NULL) {
        return td_no_memory(err, sizeof *a, "the gRPC server");
    }
    a->connections = connections;
    pthread_mutex_init(&a->mu, NULL);
    *out = a;
    return TD_OK;
}

/* "HOST:PORT" or "[HOST]:PORT" in parts; "::" means all interfaces, of both families. */
static enum td_code split(const char *address, char host[256], int *port, struct td_err *err)
{
    const char *colon = strrchr(address, ':'), *from = address;
    size_t n = colon != NULL ? (size_t)(colon - address) : 0;
    char *end = NULL;
    const long number = colon != NULL ? strtol(colon + 1, &end, 10) : -1;
    TD_FAIL_IF(colon == NULL || end == colon + 1 || *end != '\0' || number < 0 || number > 65535, err,
               INVALID_ARGUMENT, "listening for gRPC on '%s': want HOST:PORT", address);
    if (n >= 2 && from[0] == '[' && from[n - 1] == ']') {
        from++;
        n -= 2;
    }
    TD_FAIL_IF(n >= 256, err, INVALID_ARGUMENT, "listening for gRPC: the address has %zu bytes", n);
    memcpy(host, from, n);
    host[n] = '\0';
    if (strcmp(host, "::") == 0) {
        host[0] = '\0';
    }
    *port = (int)number;
    return TD_OK;
}

enum td_code td_accept_bind(struct td_accept *a, const char *address, int *port, struct td_err *err)
{
    char host[256];
    const int on = 1;
    const unsigned unread_ms = UNREAD_MS;
    int wanted = 0, fd = -1;
    TD_TRY(split(address, host, &wanted, err));
    TD_FAIL_IF(a->n_listeners == TD_ACCEPT_LISTENERS, err, INVALID_ARGUMENT,
               "listening for gRPC on '%s': %d listeners are all", address, TD_ACCEPT_LISTENERS);
    struct td_err why = {0};
    const enum td_code rc = td_listen_tcp(host, wanted, &fd, port, &why);
    if (rc) {
        return td_fail(err, rc, "listening for gRPC on %s: the address cannot be bound: %s", address,
                       why.msg);
    }
    /* Accepted sockets have these from here. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unread_ms, sizeof unread_ms);
    a->listeners[a->n_listeners++].fd = fd;
    return TD_OK;
}

enum td_code td_accept_bind_unix(struct td_accept *a, const char *path, struct td_err *err)
{
    struct stat st = {0};
    int fd;
    TD_FAIL_IF(a->n_listeners == TD_ACCEPT_LISTENERS, err, INVALID_ARGUMENT,
               "listening for gRPC on '%s': %d listeners are all", path, TD_ACCEPT_LISTENERS);
    TD_TRY(td_listen_unix(path, &fd, err));
    (void)lstat(path, &st);
    const int i = a->n_listeners++;
    a->listeners[i].fd = fd;
    a->listeners[i].path = td_strdup(path);
    a->listeners[i].dev = st.st_dev;
    a->listeners[i].inode = st.st_ino;
    return TD_OK;
}

bool td_accept_is_open(const struct td_accept *a)
{
    for (int i = 0; i < a->n_listeners; i++) {
        struct sockaddr_storage at;
        socklen_t size = sizeof at;
        if (a->listeners[i].path == NULL &&
            (getsockname(a->listeners[i].fd, (struct sockaddr *)&at, &size) != 0 ||
             !td_listen_is_local((const struct sockaddr *)&at))) {
            return true;
        }
    }
    return false;
}

enum td_code td_accept_start(struct td_accept *a, void *handler, struct td_err *err)
{
    const struct td_accept_loop_opts opts = {
        .connections = a->connections, .take = take, .each_second = each_second, .app = a};
    int fds[TD_ACCEPT_LISTENERS];
    for (int i = 0; i < a->n_listeners; i++) {
        fds[i] = a->listeners[i].fd;
    }
    a->handler = handler;
    if (a->connections != NULL) {
        td_connections_set_sweep(a->connections, sweep, a);
    }
    return td_accept_loop_start(&opts, fds, a->n_listeners, &a->loop, err);
}

/* Another server may have taken the name since. */
static void remove_socket(const char *path, dev_t dev, ino_t inode)
{
    struct stat st;
    if (lstat(path, &st) == 0 && st.st_dev == dev && st.st_ino == inode) {
        (void)unlink(path);
    }
}

void td_accept_stop(struct td_accept *a)
{
    td_accept_loop_stop(a->loop);
    a->loop = NULL;
    for (; a->n_listeners > 0; a->n_listeners--) {
        const int i = a->n_listeners - 1;
        close(a->listeners[i].fd);
        if (a->listeners[i].path != NULL) {
            remove_socket(a->listeners[i].path, a->listeners[i].dev, a->listeners[i].inode);
            td_free(a->listeners[i].path);
        }
    }
}

void td_accept_free(struct td_accept *a)
{
    if (a == NULL) {
        return;
    }
    td_accept_stop(a);
    if (a->connections != NULL) {
        td_connections_set_sweep(a->connections, NULL, NULL);
    }
    for (int fd = 0; fd < a->n_given; fd++) {
        if (a->given[fd].open) {
            ended(a, &a->given[fd]);
        }
    }
    pthread_mutex_destroy(&a->mu);
    td_free(a->given);
    td_free(a);
}
