/* server/http/http_peers.c - the clients at the other ends of HTTP connections: how long they may take, and
 * whether they are still there.
 *
 *            head begun            head read              whole               queued
 *   IDLE ------------------> HEAD -----------> BODY ------------> OURS ------------> READS -> IDLE
 *     \________________________\________________\___________________________________/
 *                        its time is over -> CUT, and shut down
 *
 * In each state but OURS we wait for the client, until due_ns: a head, and the pause before it, have a
 * fixed time; a body has a base time and as long as its bytes take at the least rate, counted from what has
 * come, so that one that trickles is cut after the base time and an honest large one never; an answer the
 * same, by its size. Time that a body or a stream waits for us is not counted. Who goes on and who cuts
 * change one word by compare and swap: an exchange that is cut goes no further, and one that goes on is not
 * cut.
 *
 * libmicrohttpd 0.9.75 takes a read that gave less than it had room for as all there is, and waits for an
 * edge of readiness; where the client's end had come by then, there is none, and the connection would stay
 * in CLOSE_WAIT. So this thread has an epoll of its own, which tells the ends of clients, and closes our
 * side for reading, which makes an edge, as often as it takes until libmicrohttpd has seen the end: what was
 * sent before is read first. Half-closed clients that wait for their answer get it.
 *
 * Connections are counted with those of other ports (server/base/connections.h). One too many is let in, if
 * there are not too many of those, to hear why its request is refused.
 *
 * Threads: one for all connections of a listener; a connection begins, goes on and ends on libmicrohttpd's
 * or on a worker's. Locks: h->peers.mu guards the list and that a peer on it is there; never held with h->mu.
 *
 * Does not: look at running requests (the guard, server/http/http_exchange.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/budget.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/http/http_impl.h"

#define SWEEP_MS 500 /* how often dues are looked at */
#define POKE_MS 100  /* how often those who left are, until their connections end */
#define EVENTS 64
#define MOST_REFUSED 64  /* connections at a time that only hear that they are too many, */
#define REFUSED_SHARE 16 /* and at most this part of those that may be */
#define REFUSED_MS 2000

/* ------------------------------------------------------------------ a peer's time */

bool td_http_peer_go(struct peer *p, enum peer_state to, int64_t due_ns)
{
    enum peer_state from = atomic_load_explicit(&p->state, memory_order_relaxed);
    if (from == PEER_CUT) {
        return false;
    }
    atomic_store_explicit(&p->due_ns, due_ns, memory_order_relaxed);
    return atomic_compare_exchange_strong(&p->state, &from, to);
}

void td_http_peer_due(struct peer *p, int64_t due_ns)
{
    atomic_store_explicit(&p->due_ns, due_ns, memory_order_relaxed);
}

int64_t td_http_peer_until(int64_t from_ns, double seconds)
{
    return seconds > 0 ? from_ns + (int64_t)(seconds * 1e9) : 0;
}

int64_t td_http_peer_rated(const struct td_http *h, int64_t from_ns, uint64_t bytes)
{
    const struct td_http_times *t = &h->opts.times;
    return t->body_s > 0 && t->bytes_per_s > 0
               ? from_ns + (int64_t)((t->body_s + (double)bytes / (double)t->bytes_per_s) * 1e9)
               : 0;
}

/* ------------------------------------------------------------------ beginning and ending */

static void wake_thread(const struct td_http *h)
{
    const uint64_t one = 1;
    (void)!write(h->peers.wake_fd, &one, sizeof one);
}

static void copy_address(struct peer *p, const struct sockaddr *address)
{
    p->address.ss_family = AF_UNSPEC;
    if (address != NULL) {
        memcpy(&p->address, address,
               address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    }
}

/* One too many is let in for one answer that says so; too many of those are just closed. Caller holds
 * peers.mu. */
static void refuse(struct peer *p, const char *why)
{
    struct td_http *h = p->h;
    p->refusal = h->peers.n_refused < h->peers.most_refused ? td_strdup(why) : NULL;
    if (p->refusal != NULL) {
        h->peers.n_refused++;
        atomic_store(&p->due_ns, td_clock_ns() + REFUSED_MS * 1000000LL);
    } else {
        atomic_store(&p->state, PEER_CUT);
        (void)shutdown(p->fd, SHUT_RDWR);
    }
}

/* Whether there is memory for what its connection will take, and place among the others. */
static bool is_let_in(struct peer *p, const struct sockaddr *from, struct td_err *err)
{
    const struct td_http *h = p->h;
    const size_t bytes = td_http_connection_bytes(h);
    if (!td_budget_take(bytes)) {
        (void)td_no_memory(err, bytes, "a connection");
        return false;
    }
    p->charged = bytes;
    td_budget_note(TD_MEMORY_LIBRARIES, (int64_t)bytes);
    if (h->opts.connections != NULL &&
        td_connections_enter(h->opts.connections, TD_CONNECTION_HTTP, from, err)) {
        return false;
    }
    p->counted = h->opts.connections != NULL;
    return true;
}

struct peer *td_http_peer_begin(struct td_http *h, int fd, const struct sockaddr *address)
{
    struct td_err err = {0};
    struct peer *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    p->h = h;
    p->fd = fd;
    copy_address(p, address);
    atomic_init(&p->state, PEER_IDLE);
    atomic_init(&p->due_ns, td_http_peer_until(td_clock_ns(), h->opts.times.head_s));
    /* once: each of our own shutdowns is such an event too */
    struct epoll_event e = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = p};
    const struct sockaddr *from = (const struct sockaddr *)&p->address;
    const bool may_come = is_let_in(p, from, &err);
    pthread_mutex_lock(&h->peers.mu);
    const bool first = h->peers.all == NULL;
    p->next = h->peers.all;
    if (p->next != NULL) {
        p->next->prev = p;
    }
    h->peers.all = p;
    (void)epoll_ctl(h->peers.epoll_fd, EPOLL_CTL_ADD, fd, &e); /* without it the client still has its time */
    if (!may_come) {
        refuse(p, err.msg);
    }
    pthread_mutex_unlock(&h->peers.mu);
    if (first) {
        wake_thread(h);
    }
    return p;
}

void td_http_peer_end(struct peer *p)
{
    struct td_http *h = p->h;
    pthread_mutex_lock(&h->peers.mu);
    (void)epoll_ctl(h->peers.epoll_fd, EPOLL_CTL_DEL, p->fd, NULL);
    *(p->prev != NULL ? &p->prev->next : &h->peers.all) = p->next;
    if (p->next != NULL) {
        p->next->prev = p->prev;
    }
    h->peers.n_left -= p->left;
    h->peers.n_refused -= p->refusal != NULL;
    pthread_mutex_unlock(&h->peers.mu);
    if (p->counted) {
        td_connections_leave(h->opts.connections, TD_CONNECTION_HTTP, (const struct sockaddr *)&p->address);
    }
    td_budget_give(p->charged);
    td_budget_note(TD_MEMORY_LIBRARIES, -(int64_t)p->charged);
    td_free(p->refusal);
    td_free(p->target);
    td_free(p);
}

/* ------------------------------------------------------------------ the thread */

/* What a client hears whose head or body took too long, where nothing else can be on its way to it. */
static void tell(const struct peer *p, const char *what)
{
    char body[256], text[512];
    const struct td_http_times *t = &p->h->opts.times;
    const int n = strcmp(what, "head") == 0
                      ? snprintf(body, sizeof body,
                                 "{\"error\": \"the head of the request took longer than "
                                 "rest_api_head_timeout (%g s)\"}\n",
                                 t->head_s)
                      : snprintf(body, sizeof body,
                                 "{\"error\": \"the body of the request took longer than "
                                 "rest_api_body_timeout (%g s) and its bytes at rest_api_least_rate (%lld a "
                                 "second)\"}\n",
                                 t->body_s, (long long)t->bytes_per_s);
    const int m = snprintf(text, sizeof text,
                           "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
                           "Connection: close\r\nContent-Length: %d\r\n\r\n%s",
                           n, body);
    (void)!send(p->fd, text, (size_t)m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Caller holds peers.mu, and nothing else goes on with p. */
static void cut(struct peer *p, enum peer_state from)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (from == PEER_READS) { /* what it does not read is not kept for it by the kernel either */
        (void)setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    } else if (p->h->opts.tls_key == NULL && (from == PEER_BODY || from == PEER_HEAD)) {
        tell(p, from == PEER_HEAD ? "head" : "body");
    }
    (void)shutdown(p->fd, SHUT_RDWR);
}

/* Caller holds peers.mu. */
static void sweep(struct td_http *h)
{
    const int64_t now_ns = td_clock_ns();
    for (struct peer *p = h->peers.all; p != NULL; p = p->next) {
        enum peer_state state = atomic_load(&p->state);
        const int64_t due_ns = atomic_load(&p->due_ns);
        if (due_ns != 0 && due_ns < now_ns && state != PEER_OURS && state != PEER_CUT &&
            atomic_compare_exchange_strong(&p->state, &state, PEER_CUT)) {
            cut(p, state);
        }
    }
}

/* Caller holds peers.mu. Those that left, or were cut, and whose connections still stand. */
static void poke(struct td_http *h)
{
    for (struct peer *p = h->peers.n_left > 0 ? h->peers.all : NULL; p != NULL; p = p->next) {
        const enum peer_state state = atomic_load(&p->state);
        if (p->left && state != PEER_OURS && state != PEER_READS) {
            (void)shutdown(p->fd, SHUT_RD);
        }
    }
}

/* Caller holds peers.mu: an event's peer is still on the list then. */
static void take_events(struct td_http *h)
{
    struct epoll_event events[EVENTS];
    uint64_t count;
    for (int n = EVENTS; n == EVENTS;) {
        n = epoll_wait(h->peers.epoll_fd, events, EVENTS, 0);
        for (int i = 0; i < n; i++) {
            struct peer *p = events[i].data.ptr;
            if (p == NULL) {
                (void)!read(h->peers.wake_fd, &count, sizeof count);
            } else if (!p->left) {
                p->left = true;
                h->peers.n_left++;
            }
        }
    }
}

static void *peers_main(void *arg)
{
    struct td_http *h = arg;
    int64_t swept_ns = 0;
    int wait_ms = -1;
    for (;;) {
        struct pollfd ready = {.fd = h->peers.epoll_fd, .events = POLLIN};
        (void)poll(&ready, 1, wait_ms);
        pthread_mutex_lock(&h->peers.mu);
        const bool stop = h->peers.stop;
        take_events(h);
        poke(h);
        if (td_clock_ns() - swept_ns >= SWEEP_MS * 1000000LL) {
            sweep(h);
            swept_ns = td_clock_ns();
        }
        wait_ms = h->peers.n_left > 0 ? POKE_MS : h->peers.all != NULL ? SWEEP_MS : -1;
        pthread_mutex_unlock(&h->peers.mu);
        if (stop) {
            return NULL;
        }
    }
}

/* ------------------------------------------------------------------ start and stop */

enum td_code td_http_peers_start(struct td_http *h, struct td_err *err)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    struct td_connections_counts may_be = {.max = 0};
    if (h->opts.connections != NULL) {
        td_connections_count(h->opts.connections, &may_be);
    }
    h->peers.most_refused =
        may_be.max / REFUSED_SHARE < MOST_REFUSED ? (int)(may_be.max / REFUSED_SHARE) : MOST_REFUSED;
    h->peers.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    h->peers.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const bool ready = h->peers.epoll_fd >= 0 && h->peers.wake_fd >= 0 &&
                       epoll_ctl(h->peers.epoll_fd, EPOLL_CTL_ADD, h->peers.wake_fd, &e) == 0;
    TD_FAIL_IF(!ready, err, RESOURCE_EXHAUSTED, "starting the HTTP server: no descriptors: %s",
               strerror(errno));
    h->peers.has_thread = pthread_create(&h->peers.thread, NULL, peers_main, h) == 0;
    TD_FAIL_IF(!h->peers.has_thread, err, RESOURCE_EXHAUSTED,
               "starting the HTTP server: no thread could be made");
    return TD_OK;
}

void td_http_peers_stop(struct td_http *h)
{
    if (h->peers.has_thread) {
        pthread_mutex_lock(&h->peers.mu);
        h->peers.stop = true;
        pthread_mutex_unlock(&h->peers.mu);
        wake_thread(h);
        pthread_join(h->peers.thread, NULL);
    }
    if (h->peers.epoll_fd >= 0) {
        close(h->peers.epoll_fd);
    }
    if (h->peers.wake_fd >= 0) {
        close(h->peers.wake_fd);
    }
}
