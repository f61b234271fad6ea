/* server/http/http_exchange.c - one HTTP request: its body made whole, run, held or not, answered; and the
 * threads that run those which take long. See http_impl.h.
 *
 * A whole body is inflated, closed with a NUL, and given its deadline: the nearer of the server's and the
 * header's. Short ones run on the poll thread, which then sends the answer itself. Others are suspended and
 * stand in a list that the HTTP workers take from. A handler that holds its exchange frees its thread;
 * whoever finishes it later resumes the connection, and the poll thread sends.
 *
 * libmicrohttpd tells nobody that a client hung up while its connection is suspended. So a guard polls the
 * sockets of running exchanges every GUARD_MS, and sets the stop word of those whose client has gone.
 *
 * Locks: h->mu guards the two lists, and is held over the resume, so that the guard never looks at a
 * connection that may be closed.
 *
 * Does not: route or know models (server/http/rest.c), open or close connections (server/http/http.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "proto/bytes/gzip.h"
#include "server/http/http_impl.h"

#define SHORT_NS 300000   /* what may run on a poll thread: less than an HTTP worker's wake-up costs others */
#define GUARD_MS 50       /* how often clients of running requests are looked at */
#define RETRY_AFTER_S "1" /* a full queue empties within about a second or not at all */

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

enum td_code td_http_check(const struct td_http *h, struct td_err *err)
{
    for (const struct exchange *e = h->running; e != NULL; e = e->next) {
        TD_WANT(!e->here && e->h == h, err, "an exchange that runs is the poll thread's own");
        TD_WANT(e->next == NULL || e->next->prev == e, err,
                "the exchanges that run are not linked both ways");
    }
    for (const struct exchange *e = h->head; e != NULL; e = e->next) {
        TD_WANT(!e->here, err, "an exchange that waits is the poll thread's own");
        TD_WANT(e->next != NULL || h->tail == e, err, "the last exchange that waits is not the queue's");
    }
    return TD_OK;
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
    TD_HOLDS(td_http_check, h);
}

void td_exchange_hold(struct td_exchange *x)
{
    struct exchange *e = (struct exchange *)x;
    struct td_http *h = e->h;
    e->held = true;
    td_duration_hint_remember(&h->hints, e->kind, td_clock_ns() - e->from_ns);
    if (e->here) {
        e->here = false;
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
    MHD_resume_connection(e->connection);
    pthread_mutex_unlock(&h->mu);
}

/* The answer is packed for those who want it so, and large bodies do not wait for slow readers. */
void td_exchange_finish(struct td_exchange *x)
{
    struct exchange *e = (struct exchange *)x;
    const struct td_http_opts *o = &e->h->opts;
    if (o->pack_bytes > 0 && x->out.n >= o->pack_bytes) {
        e->encoding = td_gzip_pack(td_exchange_header(x, MHD_HTTP_HEADER_ACCEPT_ENCODING), &x->out);
    }
    td_sink_fini(&e->body);
    if (!e->held) {
        td_duration_hint_remember(&e->h->hints, e->kind, td_clock_ns() - e->from_ns);
    }
    if (!e->here) {
        resume(e);
    }
}

#define TIMEOUT_HEADER "X-Request-Timeout"

/* The nearer of the server's own limit and the request's: seconds, or a number with ms or s behind it. */
static enum td_code set_deadline(struct exchange *e, struct td_err *err)
{
    const int64_t limit_ms = e->h->opts.timeout_ms;
    const char *text = td_exchange_header(&e->x, TIMEOUT_HEADER);
    int64_t *deadline_ns = &e->x.r.run.deadline_ns;
    *deadline_ns = limit_ms > 0 ? e->from_ns + limit_ms * 1000000 : 0;
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
    *deadline_ns = *deadline_ns == 0 || at < *deadline_ns ? at : *deadline_ns;
    return TD_OK;
}

/* On the poll thread or an HTTP worker. The exchange is finished when this returns, or held. */
static void run(struct exchange *e)
{
    struct td_http *h = e->h;
    struct td_err err = {0};
    e->from_ns = td_clock_ns();
    if (finish_body(e, &err) || set_deadline(e, &err)) {
        h->opts.fail(h->opts.app, &e->x, &err);
        e->x.status = e->too_large ? MHD_HTTP_CONTENT_TOO_LARGE : e->x.status;
        td_exchange_finish(&e->x);
    } else {
        h->opts.handle(h->opts.app, &e->x);
    }
}

static enum MHD_Result run_here(struct exchange *e)
{
    e->here = true;
    run(e);
    return e->here ? td_http_send(e) : MHD_YES;
}

/* Leaves it to an HTTP worker; its connection is suspended. */
static void hand_over(struct exchange *e)
{
    struct td_http *h = e->h;
    MHD_suspend_connection(e->connection);
    pthread_mutex_lock(&h->mu);
    e->next = NULL;
    *(h->tail != NULL ? &h->tail->next : &h->head) = e;
    h->tail = e;
    pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->mu);
}

/* A drain waits for the answer from here on. */
static void begin_work(struct exchange *e)
{
    e->phase = PHASE_WORK;
    atomic_fetch_add(&e->h->n_answering, 1);
    atomic_fetch_sub(&e->h->n_reading, 1);
}

enum MHD_Result td_http_refuse(struct exchange *e)
{
    e->too_large = true;
    begin_work(e);
    return run_here(e);
}

enum MHD_Result td_http_received(struct exchange *e)
{
    struct td_http *h = e->h;
    begin_work(e);
    e->kind = td_duration_hint_kind(e->x.method, e->x.target, e->body.n);
    const bool may_block = h->opts.route(h->opts.app, &e->x);
    if (!may_block && td_duration_hint_is_short(&h->hints, e->kind, SHORT_NS)) {
        return run_here(e);
    }
    hand_over(e);
    return MHD_YES;
}

enum MHD_Result td_http_send(struct exchange *e)
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
    if (e->x.allow != NULL) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, e->x.allow);
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

/* ------------------------------------------------------------------ threads */

void *td_http_worker_main(void *arg)
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
        run(e);
        pthread_mutex_lock(&h->mu);
    }
    pthread_mutex_unlock(&h->mu);
    return NULL;
}

void *td_http_guard_main(void *arg)
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
                atomic_store(&e->x.r.stop, TD_CANCELLED);
            }
        }
    }
    pthread_mutex_unlock(&h->mu);
    return NULL;
}
