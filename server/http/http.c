/* server/http/http.c - what libmicrohttpd calls back for, and the listener's start and stop; a request once
 * it is whole is http_exchange.c's.
 *
 *   connection   accepted by us (server/base/accept_loop.h), given to one of libmicrohttpd's threads; its
 *                peer (server/http/http_peers.c) is made when it starts there and freed when it ends
 *   target       kept as sent, with scheme and host cut off; nothing is unescaped
 *   request      called when the head is there (the exchange is made), for each part of the body, when it is
 *                whole, and when the answer is to be sent: the exchange's phase tells which
 *   completed    frees the exchange; the last one wakes who drains
 *
 * A body that says it is too large is refused before it is sent; one that only turns out to be is read and
 * dropped up to the limit once more, so that the client hears why. Polling threads, one a core between 2 and
 * 16, never wait: a request that may take long is suspended and queued for the HTTP
 * workers.
 *
 * libmicrohttpd could accept by itself, all its threads at one listener. But out of descriptors they ask
 * again without a pause (0.6 s of processor time a second, where the loop takes 0.05), and
 * MHD_quiesce_daemon races with them when they stop. What we accept MHD_add_connection deals out evenly, by
 * the number of the descriptor; 0.9.75 takes it on any thread, and owns and closes it from there on, also
 * when it fails. That costs a connection one wake-up (some 8 us of processor time, no fewer connections a
 * second), and a request nothing.
 *
 * Stopping: no new connections, then the wait for answers that are owed, and for a while for bodies on their
 * way; past the drain time the stop words are set, and when a handler still does not end nothing is freed.
 *
 * Threads and locks: see http_impl.h. Does not: route or know models (server/http/rest.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/base/cores.h"
#include "server/http/http_impl.h"
#include "server/base/listen.h"
#include "server/base/tls.h"

#define IDLE_S 600                             /* what no time of our own ends */
#define CONNECTION_BYTES ((size_t)16 << 10)    /* heads must fit; it is zeroed after every request */
#define CONNECTION_OWN_BYTES ((size_t)2 << 10) /* libmicrohttpd's own words of it */
#define TLS_BYTES ((size_t)64 << 10)           /* GnuTLS' session and its buffers */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" /* as gRPC has it */
#define MAX_POLL_THREADS 16
#define LENGTHY_SHARE 4    /* this part of the HTTP workers may be at what is lengthy: one a core */
#define STOP_GRACE_MS 5000 /* for handlers to notice their stop word */
#define READING_MS 1000    /* for requests to become whole once we are stopping */

/* ------------------------------------------------------------------ what libmicrohttpd calls */

/* Of this poll thread: libmicrohttpd tells of a connection's begin and end on the thread that serves it. */
static _Thread_local int connections_here;

bool td_http_polls_one(void)
{
    return connections_here == 1;
}

bool td_exchange_is_lone(const struct td_exchange *x)
{
    return !((const struct exchange *)x)->here || td_http_polls_one();
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct td_http *h = cls;
    connections_here += what == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *tls =
            h->opts.tls_ca != NULL ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)
                                   : NULL;
        if (tls != NULL) { /* libmicrohttpd itself would ask for a certificate and take none for an answer */
            td_tls_demand_client(tls->tls_session);
        }
        const union MHD_ConnectionInfo *from =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *socket_context = td_http_peer_begin(h, fd, from != NULL ? from->client_addr : NULL);
    } else if (*socket_context != NULL) {
        td_http_peer_end(*socket_context);
        *socket_context = NULL;
    }
}

static struct peer *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* A target may be sent with scheme and host in front, as to a proxy. */
static const char *path_of(const char *uri)
{
    const size_t scheme = strncasecmp(uri, "http://", 7) == 0    ? 7
                          : strncasecmp(uri, "https://", 8) == 0 ? 8
                                                                 : 0;
    const char *path = scheme > 0 ? strpbrk(uri + scheme, "/?#") : uri;
    return path != NULL && *path != '?' && *path != '#' ? path : "/";
}

/* A request whose head is malformed behind the target gets no completion call: so the text belongs to the
 * connection, and the exchange is made when the head is whole. */
static void *on_target(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct peer *peer = peer_of(connection);
    const struct td_http *h = cls;
    const char *path = path_of(uri);
    const size_t n = strlen(path) + 1;
    if (peer == NULL) {
        return NULL;
    }
    (void)td_http_peer_go(peer, PEER_HEAD, td_http_peer_until(td_clock_ns(), h->opts.times.head_s));
    peer->absolute = *uri != '/';
    if (n > peer->cap) {
        char *grown = td_realloc(peer->target, n, 1);
        if (grown == NULL) {
            peer->cap = 0;
            td_free(peer->target);
            peer->target = NULL;
            return NULL;
        }
        peer->target = grown;
        peer->cap = n;
    }
    memcpy(peer->target, path, n);
    return NULL;
}

static struct exchange *open_exchange(struct td_http *h, struct MHD_Connection *connection)
{
    struct peer *peer = peer_of(connection);
    struct exchange *e = peer != NULL && peer->target != NULL ? td_calloc(1, sizeof *e) : NULL;
    if (e == NULL) {
        return NULL;
    }
    e->h = h;
    e->connection = connection;
    e->peer = peer;
    e->body.limit = h->opts.max_request_bytes;
    e->body.kind = TD_MEMORY_BODIES;
    e->x.status = MHD_HTTP_OK;
    e->x.target = peer->target;
    e->x.absolute = peer->absolute;
    td_request_init(&e->x.r);
    atomic_fetch_add(&h->n_reading, 1);
    return e;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode why)
{
    struct td_http *h = cls;
    struct exchange *e = *con_cls;
    (void)connection;
    (void)why;
    if (e == NULL) {
        return;
    }
    *con_cls = NULL;
    (void)td_http_peer_go(e->peer, PEER_IDLE, td_http_peer_until(td_clock_ns(), h->opts.times.idle_s));
    td_http_close_parts(&e->x);
    td_sink_fini(&e->body);
    td_sink_fini(&e->x.out);
    const bool last = atomic_fetch_sub(e->phase == PHASE_BODY ? &h->n_reading : &h->n_answering, 1) == 1;
    td_free(e);
    if (last && atomic_load(&h->draining)) {
        pthread_mutex_lock(&h->mu);
        pthread_cond_broadcast(&h->idle);
        pthread_mutex_unlock(&h->mu);
    }
}

/* The head is read. A body that says it is too large is refused before it is sent, unless it will be read in
 * parts; then who asked first is told at once that it is not wanted. */
static enum MHD_Result begin(struct exchange *e, const char *method, const char *version)
{
    e->x.method = method;
    e->x.from = (const struct sockaddr *)&e->peer->address;
    e->x.local = e->peer->address.ss_family != AF_UNSPEC &&
                 td_listen_is_local((const struct sockaddr *)&e->peer->address);
    e->body_ns = td_clock_ns();
    if (!td_http_peer_go(e->peer, PEER_BODY, td_http_peer_rated(e->h, e->body_ns, 0))) {
        return MHD_NO;
    }
    e->fault = td_http_head_fault(e, version);
    if (e->fault != NULL || e->peer->refusal != NULL) {
        return td_http_refuse(e);
    }
    if (e->h->opts.begin != NULL) {
        e->h->opts.begin(e->h->opts.app, &e->x);
    }
    if (e->x.reader != NULL) {
        e->body.limit = 0; /* a part of it at a time */
        const bool asks = td_exchange_header(&e->x, MHD_HTTP_HEADER_EXPECT) != NULL;
        return asks && e->x.reader->refused ? td_http_refuse(e) : MHD_YES;
    }
    const char *length = td_exchange_header(&e->x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const unsigned long long n = length != NULL ? strtoull(length, NULL, 10) : 0;
    if (n > e->h->opts.max_request_bytes) {
        return td_http_refuse(e);
    }
    return MHD_YES;
}

/* Past the limit the rest is read and dropped, so that the answer can be given; but not for ever. */
static enum MHD_Result gather(struct exchange *e, const char *data, size_t *n)
{
    struct td_err err = {0};
    e->n_body += *n;
    td_http_peer_due(e->peer, td_http_peer_rated(e->h, e->body_ns, e->n_body));
    if (e->x.reader != NULL) {
        return td_http_gather_part(e, data, n);
    }
    const bool dropped = e->too_large || e->no_memory;
    if (!dropped) {
        e->too_large = e->body.n + *n > e->h->opts.max_request_bytes;
        e->no_memory = !e->too_large && td_sink_put(&e->body, data, *n, &err);
    }
    if (!dropped && (e->too_large || e->no_memory)) {
        td_sink_fini(&e->body);
        e->body.limit = 0;
    }
    if (e->too_large || e->no_memory) {
        e->x.body_len += *n;
        if (e->x.body_len > e->h->opts.max_request_bytes) {
            return MHD_NO;
        }
    }
    *n = 0;
    return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **con_cls)
{
    struct td_http *h = cls;
    struct exchange *e = *con_cls;
    (void)url;
    if (e == NULL) {
        e = open_exchange(h, connection);
        *con_cls = e;
        return e != NULL ? begin(e, method, version) : MHD_NO;
    }
    if (e->phase == PHASE_BODY && *data_size > 0) {
        return gather(e, data, data_size);
    }
    if (e->phase == PHASE_BODY) {
        return td_http_received(e);
    }
    return e->phase == PHASE_DONE ? td_http_send(e) : MHD_YES;
}

/* Targets are routed as they were sent. */
static size_t keep_escaped(void *cls, struct MHD_Connection *connection, char *s)
{
    (void)cls;
    (void)connection;
    return strlen(s);
}

static void on_log(void *cls, const char *fmt, va_list ap)
{
    char text[512];
    (void)cls;
    (void)vsnprintf(text, sizeof text, fmt, ap);
    text[strcspn(text, "\n")] = '\0';
    td_log(TD_LOG_DEBUG, NULL, "HTTP: %s", text);
}

/* ------------------------------------------------------------------ start and stop */

static size_t pool_bytes(const struct td_http *h)
{
    return h->opts.max_header_bytes > 0 ? h->opts.max_header_bytes : CONNECTION_BYTES;
}

size_t td_http_connection_bytes(const struct td_http *h)
{
    return CONNECTION_OWN_BYTES + pool_bytes(h) + (h->opts.tls_key != NULL ? TLS_BYTES : 0);
}

static enum td_code start_daemon(struct td_http *h, struct td_err *err)
{
    const int cores = td_cores_usable("");
    const unsigned pollers = cores < 2 ? 2 : cores > MAX_POLL_THREADS ? MAX_POLL_THREADS : (unsigned)cores;
    struct MHD_OptionItem tls[5] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     MHD_USE_NO_LISTEN_SOCKET;
    if (h->opts.tls_key != NULL) {
        int n = 0;
        flags |= MHD_USE_TLS;
        tls[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)h->opts.tls_key};
        tls[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)h->opts.tls_cert};
        tls[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES};
        if (h->opts.tls_ca != NULL) {
            tls[n++] =
                (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, (void *)(uintptr_t)h->opts.tls_ca};
        }
        tls[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    }
    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_THREAD_POOL_SIZE, pollers, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)INT_MAX /* peers count */, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, pool_bytes(h), MHD_OPTION_URI_LOG_CALLBACK, on_target, h,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escaped, NULL, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    TD_FAIL_IF(h->daemon == NULL, err, UNAVAILABLE, "starting the HTTP server: %s",
               h->opts.tls_key != NULL ? "the key, certificate or CA may be no PEM" : strerror(errno));
    return TD_OK;
}

static enum td_code start_threads(struct td_http *h, struct td_err *err)
{
    const int n = h->opts.threads > 0 ? h->opts.threads : 4 * td_cores_usable("");
    h->most_lengthy = n > LENGTHY_SHARE ? n / LENGTHY_SHARE : 1;
    h->workers = td_calloc((size_t)n, sizeof *h->workers);
    if (h->workers == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *h->workers, "HTTP workers");
    }
    for (; h->n_workers < n; h->n_workers++) {
        TD_FAIL_IF(pthread_create(&h->workers[h->n_workers], NULL, td_http_worker_main, h) != 0, err,
                   RESOURCE_EXHAUSTED, "starting HTTP worker %d of %d: no thread could be made",
                   h->n_workers + 1, n);
    }
    h->has_guard = pthread_create(&h->guard, NULL, td_http_guard_main, h) == 0;
    TD_FAIL_IF(!h->has_guard, err, RESOURCE_EXHAUSTED, "starting the HTTP guard: no thread could be made");
    return TD_OK;
}

/* Connections are refused from now on. */
static void stop_listening(struct td_http *h)
{
    td_accept_loop_stop(h->accepting);
    h->accepting = NULL;
    if (h->listener >= 0) {
        close(h->listener);
        h->listener = -1;
    }
}

static void join_and_free(struct td_http *h)
{
    stop_listening(h);
    pthread_mutex_lock(&h->mu);
    h->stop = true;
    pthread_cond_broadcast(&h->work);
    pthread_cond_broadcast(&h->guard_wake);
    pthread_mutex_unlock(&h->mu);
    for (int i = 0; i < h->n_workers; i++) {
        pthread_join(h->workers[i], NULL);
    }
    if (h->has_guard) {
        pthread_join(h->guard, NULL);
    }
    if (h->daemon != NULL) {
        MHD_stop_daemon(h->daemon);
    }
    td_http_peers_stop(h);
    pthread_mutex_destroy(&h->peers.mu);
    pthread_cond_destroy(&h->guard_wake);
    pthread_cond_destroy(&h->idle);
    pthread_cond_destroy(&h->work);
    pthread_mutex_destroy(&h->mu);
    td_free(h->workers);
    td_free(h);
}

/* libmicrohttpd gives it to one of its threads, by its number, and closes it whatever becomes of it. */
static void take(void *http, int fd, const struct sockaddr_storage *peer)
{
    struct td_http *h = http;
    (void)MHD_add_connection(h->daemon, fd, (const struct sockaddr *)peer,
                             peer->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                         : sizeof(struct sockaddr_in));
}

static enum td_code open_all(struct td_http *h, int *port, struct td_err *err)
{
    TD_TRY(td_listen_tcp(h->opts.bind_address, h->opts.port, &h->listener, port, err));
    TD_TRY(td_http_peers_start(h, err));
    TD_TRY(start_threads(h, err));
    TD_TRY(start_daemon(h, err));
    const struct td_accept_loop_opts opts = {.connections = h->opts.connections, .take = take, .app = h};
    return td_accept_loop_start(&opts, &h->listener, 1, &h->accepting, err);
}

enum td_code td_http_start(const struct td_http_opts *opts, struct td_http **out, int *port,
                           struct td_err *err)
{
    struct td_http *h = td_calloc(1, sizeof *h);
    if (h == NULL) {
        return td_no_memory(err, sizeof *h, "the HTTP server");
    }
    h->opts = *opts;
    h->listener = h->peers.epoll_fd = h->peers.wake_fd = -1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->mu, NULL);
    pthread_mutex_init(&h->peers.mu, NULL);
    pthread_cond_init(&h->work, &monotonic);
    pthread_cond_init(&h->idle, &monotonic);
    pthread_cond_init(&h->guard_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (open_all(h, port, err)) {
        join_and_free(h);
        return err->code;
    }
    *out = h;
    return TD_OK;
}

/* Waits until no answer is owed, and for a while for requests that are being sent to us; false when the time
 * is over first. Caller holds mu. */
static bool wait_idle(struct td_http *h, int64_t ms)
{
    const int64_t from_ns = td_clock_ns();
    for (;;) {
        const int64_t left_ms = ms - (td_clock_ns() - from_ns) / 1000000,
                      reading_ms = left_ms - (ms - READING_MS);
        const bool owed = atomic_load(&h->n_answering) > 0 || !td_http_is_idle(h);
        if (!owed && (atomic_load(&h->n_reading) == 0 || reading_ms <= 0)) {
            return true;
        }
        if (left_ms <= 0) {
            return false;
        }
        const int64_t due_ns = td_clock_ns() + 20000000; /* a request may become whole without a signal */
        const struct timespec at = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
        (void)pthread_cond_timedwait(&h->idle, &h->mu, &at);
    }
}

/* They are to end. Caller holds mu. */
static void tell_all(struct exchange *list)
{
    for (struct exchange *e = list; e != NULL; e = e->next) {
        atomic_store(&e->x.r.stop, TD_UNAVAILABLE);
    }
}

bool td_http_stop(struct td_http *h, int64_t drain_ms)
{
    if (h == NULL) {
        return true;
    }
    atomic_store(&h->draining, true);
    stop_listening(h);
    pthread_mutex_lock(&h->mu);
    td_http_wake_sleepers(h, true); /* streams end: what they would tell is not owed */
    bool all = wait_idle(h, drain_ms);
    if (!all) {
        tell_all(h->running);
        tell_all(h->waiting.head);
        tell_all(h->lengthy.head);
        all = wait_idle(h, STOP_GRACE_MS);
    }
    const bool stuck = !td_http_is_idle(h) || h->sleeping != NULL;
    h->stop = !stuck;
    pthread_mutex_unlock(&h->mu);
    if (stuck) {
        return false;
    }
    join_and_free(h);
    return true;
}
