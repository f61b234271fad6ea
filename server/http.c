/* server/http.c - libmicrohttpd glue.
 *
 *   poll thread:  head read -> body gathered -> short? handle : suspend, queue
 *   worker:       take -> handle -> resume
 *   either:       the handler holds the exchange -> (suspended) ... td_exchange_finish -> resume
 *   poll thread:  (called again) queue the answer -> sent -> exchange freed
 *
 * How long requests keep their thread is remembered by kind: a hash of method, target and size of the body
 * picks a slot that holds a slowly falling maximum of the times measured. A kind never seen counts as long.
 *
 * Invariant: a suspended connection's exchange is on exactly one of queue and running, or is being resumed;
 * one that is held may be gone at any time for the thread that held it. Locks: h->mu guards queue, running
 * and stop; never held while a handler runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "core/mem.h"
#include "server/clock.h"
#include "server/gzip.h"
#include "server/listen.h"
#include "server/pace.h"
#include "server/tls.h"

#define SHORT_NS 300000 /* what may run on a poll thread: less than a worker's wake-up costs others */
#define GUARD_MS 50     /* how often clients of running requests are looked at */
#define IDLE_S 600      /* keep-alive */
#define CONNECTION_BYTES                                                                                     \
    ((size_t)16 << 10)    /* heads must fit; libmicrohttpd zeroes it after every request                     \
                           */
#define RETRY_AFTER_S "1" /* a full queue empties within about a second or not at all */
#define MAX_CONNECTIONS 16384
#define MAX_POLL_THREADS 16
#define STOP_GRACE_MS 5000 /* for handlers to notice their stop word */
#define READING_MS 1000    /* for requests to become whole once we are stopping */

enum phase { PHASE_BODY, PHASE_WORK, PHASE_DONE, PHASE_SENT };

struct exchange {
    struct td_exchange x;
    struct td_http *h;
    struct MHD_Connection *connection;
    enum phase phase;
    bool too_large;
    const char *target; /* the connection's */
    struct td_sink body;
    const char *encoding; /* of the answer; NULL: as it is */
    uint64_t kind;
    int64_t from_ns;
    bool suspended;
    bool *held;                   /* of the run under way: set when the exchange is held */
    struct exchange *next, *prev; /* of queue (next) or running */
};

struct td_http {
    struct td_http_opts opts;
    struct MHD_Daemon *daemon;
    int listener;
    pthread_mutex_t mu; /* guards what follows up to stop */
    pthread_cond_t work, idle, guard_wake;
    struct exchange *head, *tail; /* queue for the workers */
    struct exchange *running;
    int n_open; /* exchanges that exist */
    bool stop;
    atomic_int n_reading;   /* requests whose body is still coming */
    atomic_int n_answering; /* requests that are whole and whose answer is not sent yet */
    atomic_bool draining;
    struct td_pace pace;
    pthread_t *workers, guard;
    int n_workers;
    bool has_guard;
};

static uint64_t kind_of(const struct exchange *e)
{
    return td_pace_kind(e->x.method, e->target, e->body.n);
}

/* ------------------------------------------------------------------ running a request */

const char *td_exchange_header(const struct td_exchange *x, const char *name)
{
    const struct exchange *e = (const struct exchange *)x;
    return MHD_lookup_connection_value(e->connection, MHD_HEADER_KIND, name);
}

/* The body as the handler sees it. */
static enum td_code finish_body(struct exchange *e, struct td_err *err)
{
    TD_FAIL_IF(e->too_large, err, RESOURCE_EXHAUSTED,
               "request body is larger than max_request_bytes (%zu bytes)", e->h->opts.max_request_bytes);
    const char *encoding = td_exchange_header(&e->x, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (td_gzip_unpack(encoding, e->h->opts.max_request_bytes, &e->body, err)) {
        e->too_large = err->code == TD_RESOURCE_EXHAUSTED;
        return err->code;
    }
    e->x.body_len = e->body.n;
    e->body.limit = e->body.n + 1;
    TD_TRY(td_sink_put(&e->body, "", 1, err));
    e->x.body = e->body.p;
    return TD_OK;
}

/* The request is whole: a drain waits for its answer. */
static void received(struct exchange *e)
{
    e->phase = PHASE_WORK;
    atomic_fetch_add(&e->h->n_answering, 1);
    atomic_fetch_sub(&e->h->n_reading, 1);
}

/* Caller holds h->mu. */
static void list_running(struct td_http *h, struct exchange *e)
{
    e->prev = NULL;
    e->next = h->running;
    if (h->running != NULL) {
        h->running->prev = e;
    } else {
        pthread_cond_signal(&h->guard_wake);
    }
    h->running = e;
}

void td_exchange_hold(struct td_exchange *x)
{
    struct exchange *e = (struct exchange *)x;
    struct td_http *h = e->h;
    *e->held = true;
    td_pace_remember(&h->pace, e->kind, td_clock_ns() - e->from_ns);
    if (!e->suspended) {
        e->suspended = true;
        MHD_suspend_connection(e->connection);
        pthread_mutex_lock(&h->mu);
        list_running(h, e);
        pthread_mutex_unlock(&h->mu);
    }
}

static void resume(struct exchange *e)
{
    struct td_http *h = e->h;
    pthread_mutex_lock(&h->mu);
    *(e->prev != NULL ? &e->prev->next : &h->running) = e->next;
    if (e->next != NULL) {
        e->next->prev = e->prev;
    }
    e->phase = PHASE_DONE;
    e->suspended = false;
    MHD_resume_connection(e->connection);
    pthread_mutex_unlock(&h->mu);
}

/* The answer is made: it is packed for those who want it so, and large bodies do not wait for slow readers.
 */
static void settle(struct exchange *e)
{
    const struct td_http_opts *o = &e->h->opts;
    if (o->pack_bytes > 0 && e->x.out.n >= o->pack_bytes) {
        e->encoding = td_gzip_pack(td_exchange_header(&e->x, MHD_HTTP_HEADER_ACCEPT_ENCODING), &e->x.out);
    }
    td_sink_fini(&e->body);
}

void td_exchange_finish(struct td_exchange *x)
{
    struct exchange *e = (struct exchange *)x;
    settle(e);
    resume(e);
}

#define TIMEOUT_HEADER "X-Request-Timeout"

/* The nearer of the server's own limit and the request's: seconds, or a number with ms or s behind it. */
static enum td_code set_deadline(struct exchange *e, struct td_err *err)
{
    const int64_t limit_ms = e->h->opts.timeout_ms;
    const char *text = td_exchange_header(&e->x, TIMEOUT_HEADER);
    e->x.deadline_ns = limit_ms > 0 ? e->from_ns + limit_ms * 1000000 : 0;
    if (text == NULL) {
        return TD_OK;
    }
    char *end;
    const double number = strtod(text, &end);
    const bool in_ms = strcmp(end, "ms") == 0;
    TD_FAIL_IF(
        end == text || (*end != '\0' && !in_ms && strcmp(end, "s") != 0) || !(number > 0) || number > 1e9,
        err, INVALID_ARGUMENT,
        TIMEOUT_HEADER " is '%.40s', want a positive number of seconds, such as 0.5, 2s or 500ms", text);
    const int64_t at = e->from_ns + (int64_t)(number * (in_ms ? 1e6 : 1e9));
    e->x.deadline_ns = e->x.deadline_ns == 0 || at < e->x.deadline_ns ? at : e->x.deadline_ns;
    return TD_OK;
}

/* False when the exchange is held: then it may be gone already. */
static bool run(struct exchange *e)
{
    struct td_http *h = e->h;
    struct td_err err = {0};
    bool held = false;
    e->held = &held;
    e->from_ns = td_clock_ns();
    if (finish_body(e, &err) || set_deadline(e, &err)) {
        h->opts.fail(h->opts.app, &e->x, &err);
        e->x.status = e->too_large ? MHD_HTTP_CONTENT_TOO_LARGE : e->x.status;
    } else {
        h->opts.handle(h->opts.app, &e->x);
    }
    if (held) {
        return false;
    }
    settle(e);
    td_pace_remember(&h->pace, e->kind, td_clock_ns() - e->from_ns);
    return true;
}

static enum MHD_Result send_answer(struct exchange *e)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(e->x.out.n, e->x.out.p, MHD_RESPMEM_PERSISTENT);
    if (r == NULL) {
        return MHD_NO;
    }
    const char *type = e->x.content_type != NULL ? e->x.content_type : "application/json";
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (e->x.location != NULL) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_LOCATION, e->x.location);
    }
    if (e->x.n_json > 0) {
        char text[24];
        (void)snprintf(text, sizeof text, "%zu", e->x.n_json);
        (void)MHD_add_response_header(r, "Inference-Header-Content-Length", text);
    }
    if (e->encoding != NULL) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING, e->encoding);
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    }
    if (e->x.status == MHD_HTTP_UNAUTHORIZED) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tensord\"");
    }
    if (e->h->opts.cors) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "POST, GET");
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                                      e->h->opts.cors_headers);
    }
    if (e->x.status == MHD_HTTP_UNSUPPORTED_MEDIA_TYPE) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip, deflate");
    }
    if (e->x.status == MHD_HTTP_TOO_MANY_REQUESTS) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, RETRY_AFTER_S);
    }
    if (atomic_load_explicit(&e->h->draining, memory_order_relaxed)) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    e->phase = PHASE_SENT;
    const enum MHD_Result rc = MHD_queue_response(e->connection, (unsigned)e->x.status, r);
    MHD_destroy_response(r);
    return rc;
}

static void *worker_main(void *arg)
{
    struct td_http *h = arg;
    pthread_mutex_lock(&h->mu);
    for (;;) {
        while (h->head == NULL && !h->stop) {
            pthread_cond_wait(&h->work, &h->mu);
        }
        struct exchange *e = h->head;
        if (e == NULL) {
            break;
        }
        h->head = e->next;
        h->tail = h->head == NULL ? NULL : h->tail;
        list_running(h, e);
        pthread_mutex_unlock(&h->mu);
        if (run(e)) {
            resume(e);
        }
        pthread_mutex_lock(&h->mu);
    }
    pthread_mutex_unlock(&h->mu);
    return NULL;
}

static void hand_over(struct exchange *e)
{
    struct td_http *h = e->h;
    e->suspended = true;
    MHD_suspend_connection(e->connection);
    pthread_mutex_lock(&h->mu);
    e->next = NULL;
    *(h->tail != NULL ? &h->tail->next : &h->head) = e;
    h->tail = e;
    pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->mu);
}

/* Sets the stop word of running requests whose client has closed its side. */
static void *guard_main(void *arg)
{
    struct td_http *h = arg;
    pthread_mutex_lock(&h->mu);
    while (!h->stop) {
        if (h->running == NULL) {
            pthread_cond_wait(&h->guard_wake, &h->mu);
            continue;
        }
        const int64_t due_ns = td_clock_ns() + GUARD_MS * 1000000;
        const struct timespec at = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
        (void)pthread_cond_timedwait(&h->guard_wake, &h->mu, &at);
        for (struct exchange *e = h->running; e != NULL; e = e->next) {
            const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(e->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
            struct pollfd p = {.fd = info != NULL ? info->connect_fd : -1, .events = POLLRDHUP};
            if (p.fd >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
                atomic_store(&e->x.stop, TD_CANCELLED);
            }
        }
    }
    pthread_mutex_unlock(&h->mu);
    return NULL;
}

/* ------------------------------------------------------------------ what libmicrohttpd calls */

/* A connection's target is seen before its request counts as begun: a request whose head is malformed behind
 * the target gets no completion call. So the text belongs to the connection, and the exchange is made when
 * the head is whole. */
struct line {
    char *target;
    size_t cap;
};

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what)
{
    const struct td_http *h = cls;
    struct line *line = *socket_context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *tls =
            h->opts.tls_ca != NULL ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)
                                   : NULL;
        if (tls != NULL) { /* libmicrohttpd itself would ask for a certificate and take none for an answer */
            td_tls_demand_client(tls->tls_session);
        }
        *socket_context = td_calloc(1, sizeof *line);
    } else if (line != NULL) {
        *socket_context = NULL;
        td_free(line->target);
        td_free(line);
    }
}

static struct line *line_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void *on_target(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct line *line = line_of(connection);
    const size_t n = strlen(uri) + 1;
    (void)cls;
    if (line == NULL) {
        return NULL;
    }
    if (n > line->cap) {
        char *grown = td_realloc(line->target, n, 1);
        if (grown == NULL) {
            line->cap = 0;
            td_free(line->target);
            line->target = NULL;
            return NULL;
        }
        line->target = grown;
        line->cap = n;
    }
    memcpy(line->target, uri, n);
    return NULL;
}

static struct exchange *open_exchange(struct td_http *h, struct MHD_Connection *connection)
{
    const struct line *line = line_of(connection);
    struct exchange *e = line != NULL && line->target != NULL ? td_calloc(1, sizeof *e) : NULL;
    if (e == NULL) {
        return NULL;
    }
    e->h = h;
    e->connection = connection;
    e->body.limit = h->opts.max_request_bytes;
    e->x.status = MHD_HTTP_OK;
    e->target = line->target;
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

static bool is_local(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info != NULL && info->client_addr != NULL && td_listen_is_local(info->client_addr);
}

/* The head is read. A body that says it is too large is refused before it is sent. */
static enum MHD_Result begin(struct exchange *e, const char *method)
{
    e->x.method = method;
    e->x.target = e->target;
    e->x.local = is_local(e->connection);
    e->phase = PHASE_BODY;
    const char *length = td_exchange_header(&e->x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const unsigned long long n = length != NULL ? strtoull(length, NULL, 10) : 0;
    if (n > e->h->opts.max_request_bytes) {
        e->too_large = true;
        received(e);
        return run(e) ? send_answer(e) : MHD_YES;
    }
    return MHD_YES;
}

/* Past the limit the rest is read and dropped, so that the answer can be given; but not for ever. */
static enum MHD_Result gather(struct exchange *e, const char *data, size_t *n)
{
    struct td_err err = {0};
    if (!e->too_large &&
        (e->body.n + *n > e->h->opts.max_request_bytes || td_sink_put(&e->body, data, *n, &err))) {
        e->too_large = true;
        td_sink_fini(&e->body);
        e->body.limit = 0;
    }
    if (e->too_large) {
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
    (void)version;
    if (e == NULL) {
        e = open_exchange(h, connection);
        *con_cls = e;
        return e != NULL ? begin(e, method) : MHD_NO;
    }
    if (e->phase == PHASE_BODY && *data_size > 0) {
        return gather(e, data, data_size);
    }
    if (e->phase == PHASE_BODY) {
        e->kind = kind_of(e);
        received(e);
        if (!td_pace_is_short(&h->pace, e->kind, SHORT_NS) || h->opts.may_block(h->opts.app, &e->x)) {
            hand_over(e);
            return MHD_YES;
        }
        return run(e) ? send_answer(e) : MHD_YES;
    }
    return e->phase == PHASE_DONE ? send_answer(e) : MHD_YES;
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

static enum td_code start_daemon(struct td_http *h, struct td_err *err)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const unsigned pollers = cores < 2 ? 2 : cores > MAX_POLL_THREADS ? MAX_POLL_THREADS : (unsigned)cores;
    struct MHD_OptionItem tls[4] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    if (h->opts.tls_key != NULL) {
        int n = 0;
        flags |= MHD_USE_TLS;
        tls[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)h->opts.tls_key};
        tls[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)h->opts.tls_cert};
        if (h->opts.tls_ca != NULL) {
            tls[n++] =
                (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, (void *)(uintptr_t)h->opts.tls_ca};
        }
        tls[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    }
    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, h->listener, MHD_OPTION_THREAD_POOL_SIZE, pollers,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_URI_LOG_CALLBACK,
        on_target, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, h, MHD_OPTION_UNESCAPE_CALLBACK, keep_escaped, NULL, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
    TD_FAIL_IF(h->daemon == NULL, err, UNAVAILABLE, "starting the HTTP server: %s",
               h->opts.tls_key != NULL ? "the key, certificate or CA may be no PEM" : strerror(errno));
    return TD_OK;
}

static enum td_code start_threads(struct td_http *h, struct td_err *err)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int n = h->opts.threads > 0 ? h->opts.threads : cores > 0 ? 4 * (int)cores : 4;
    h->workers = td_calloc((size_t)n, sizeof *h->workers);
    if (h->workers == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *h->workers, "HTTP workers");
    }
    for (; h->n_workers < n; h->n_workers++) {
        TD_FAIL_IF(pthread_create(&h->workers[h->n_workers], NULL, worker_main, h) != 0, err,
                   RESOURCE_EXHAUSTED, "starting HTTP worker %d of %d: no thread could be made",
                   h->n_workers + 1, n);
    }
    h->has_guard = pthread_create(&h->guard, NULL, guard_main, h) == 0;
    TD_FAIL_IF(!h->has_guard, err, RESOURCE_EXHAUSTED, "starting the HTTP guard: no thread could be made");
    return TD_OK;
}

static void join_and_free(struct td_http *h)
{
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
    if (h->listener >= 0) {
        close(h->listener);
    }
    pthread_cond_destroy(&h->guard_wake);
    pthread_cond_destroy(&h->idle);
    pthread_cond_destroy(&h->work);
    pthread_mutex_destroy(&h->mu);
    td_free(h->workers);
    td_free(h);
}

enum td_code td_http_start(const struct td_http_opts *opts, struct td_http **out, int *port,
                           struct td_err *err)
{
    struct td_http *h = td_calloc(1, sizeof *h);
    if (h == NULL) {
        return td_no_memory(err, sizeof *h, "the HTTP server");
    }
    h->opts = *opts;
    h->listener = -1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->mu, NULL);
    pthread_cond_init(&h->work, &monotonic);
    pthread_cond_init(&h->idle, &monotonic);
    pthread_cond_init(&h->guard_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    enum td_code rc = td_listen_tcp(opts->bind_address, opts->port, &h->listener, port, err);
    rc = rc ? rc : start_threads(h, err);
    rc = rc ? rc : start_daemon(h, err);
    if (rc) {
        join_and_free(h);
        return rc;
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
        const bool owed = atomic_load(&h->n_answering) > 0;
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

bool td_http_stop(struct td_http *h, int64_t drain_ms)
{
    if (h == NULL) {
        return true;
    }
    atomic_store(&h->draining, true);
    (void)MHD_quiesce_daemon(h->daemon);
    pthread_mutex_lock(&h->mu);
    bool all = wait_idle(h, drain_ms);
    if (!all) {
        for (struct exchange *e = h->running; e != NULL; e = e->next) {
            atomic_store(&e->x.stop, TD_UNAVAILABLE);
        }
        all = wait_idle(h, STOP_GRACE_MS);
    }
    const bool stuck = h->running != NULL || h->head != NULL;
    pthread_mutex_unlock(&h->mu);
    if (stuck) {
        return false;
    }
    join_and_free(h);
    return true;
}
