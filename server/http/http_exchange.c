/* server/http/http_exchange.c - one HTTP request: its body made whole, run, held or not, answered; and the
 * threads that run those which take long. See http_impl.h.
 *
 * A whole body is inflated, closed with a NUL, and given its deadline: the nearer of the server's and the
 * header's. Short ones run on the poll thread, which then sends the answer itself. Others are suspended and
 * stand in a list that the HTTP workers take from. A handler that holds its exchange frees its thread;
 * whoever finishes it later resumes the connection, and the poll thread sends.
 *
 * libmicrohttpd tells nobody that a client hung up while its connection is suspended. So a guard polls the
 * sockets of running exchanges every GUARD_MS, and sets the stop word of those whose client has gone; those
 * of streams that sleep it looks at less often. (Clients that leave while we wait for them are
 * server/http/http_peers.c's.)
 *
 * Locks: h->mu guards the lists, and is held over the resume, so that the guard never looks at a
 * connection that may be closed.
 *
 * Does not: route or know models (server/http/rest.c), open or close connections (server/http/http.c), carry
 * what comes or goes in parts (server/http/http_parts.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buffer.h"
#include "core/base/check.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "proto/bytes/gzip.h"
#include "server/http/http_impl.h"

#define SHORT_NS 300000 /* what may run on a poll thread: less than an HTTP worker's wake-up costs others */
#define LONE_NS 2000000 /* and on one with no other connection, which the wake-up would only cost itself */
#define GUARD_MS 50     /* how often clients of running requests are looked at */
#define SLOW_ROUND 5    /* every so many looks: at the clients of sleeping streams */
#define INSTANT_BYTES 4096              /* of a body that is inflated on a poll thread */
#define LENGTHY_BYTES ((size_t)1 << 20) /* decoding more keeps a worker for some 10 ms and more */
#define PACKED_BYTES ((size_t)16 << 10) /* so many may unpack to 16 MiB */
#define RETRY_AFTER_S "1"               /* a full queue empties within about a second or not at all */

const char *td_exchange_header(const struct td_exchange *x, const char *name)
{
    const struct exchange *e = (const struct exchange *)x;
    return MHD_lookup_connection_value(e->connection, MHD_HEADER_KIND, name);
}

struct seeking {
    bool (*fits)(const char *name, size_t n);
    const char *found;
};

static enum MHD_Result seek(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct seeking *s = ctx;
    (void)kind;
    (void)value;
    s->found = s->found == NULL && s->fits(name, strlen(name)) ? name : s->found;
    return MHD_YES;
}

const char *td_exchange_header_that(const struct td_exchange *x, bool (*fits)(const char *name, size_t n))
{
    struct seeking s = {.fits = fits};
    (void)MHD_get_connection_values(((const struct exchange *)x)->connection, MHD_HEADER_KIND, seek, &s);
    return s.found;
}

enum td_code td_exchange_charge(struct td_exchange *x, struct td_account *account, struct td_err *err)
{
    return td_sink_charge(&((struct exchange *)x)->body, account, err);
}

/* The body as the handler sees it. */
static enum td_code finish_body(struct exchange *e, struct td_err *err)
{
    if (e->x.reader != NULL) {
        td_http_put_part(e);
        e->x.body = "";
        e->x.body_len = 0;
        return TD_OK;
    }
    TD_FAIL_IF(e->too_large, err, RESOURCE_EXHAUSTED,
               "request body is larger than max_request_bytes (%zu bytes)", e->h->opts.max_request_bytes);
    TD_FAIL_IF(
        e->no_memory, err, RESOURCE_EXHAUSTED,
        "the body of the request: no memory for %zu bytes: %llu bytes are in use, and --max_memory is %llu",
        e->n_body, (unsigned long long)td_budget_held(), (unsigned long long)td_budget_allowed());
    const char *encoding = td_exchange_header(&e->x, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (td_gzip_unpack(encoding, e->h->opts.max_request_bytes, &e->body, err)) {
        e->too_large = err->code == TD_RESOURCE_EXHAUSTED && e->body.n >= e->h->opts.max_request_bytes;
        return err->code;
    }
    e->x.body_len = e->body.n;
    e->body.limit = e->body.n + 1;
    TD_TRY(td_sink_put(&e->body, "", 1, err));
    e->x.body = e->body.p;
    return TD_OK;
}

static enum td_code check_queue(const struct td_http_queue *q, bool lengthy, struct td_err *err)
{
    for (const struct exchange *e = q->head; e != NULL; e = e->next) {
        TD_WANT(!e->here, err, "an exchange that waits is the poll thread's own");
        TD_WANT(e->lengthy == lengthy, err, "an exchange waits among others than its like");
        TD_WANT(e->next != NULL || q->tail == e, err, "the last exchange that waits is not the queue's");
        TD_WANT(e->next == NULL || e->place < e->next->place, err, "an exchange waits before an older one");
    }
    return TD_OK;
}

enum td_code td_http_check(const struct td_http *h, struct td_err *err)
{
    for (const struct exchange *e = h->running; e != NULL; e = e->next) {
        TD_WANT(!e->here && e->h == h, err, "an exchange that runs is the poll thread's own");
        TD_WANT(e->next == NULL || e->next->prev == e, err,
                "the exchanges that run are not linked both ways");
    }
    for (const struct exchange *e = h->sleeping; e != NULL; e = e->next) {
        TD_WANT(e->asleep && e->phase == PHASE_SENT && e->x.stream != NULL, err,
                "an exchange sleeps that has no stream to wait for");
        TD_WANT(e->next == NULL || e->next->prev == e, err,
                "the exchanges that sleep are not linked both ways");
    }
    TD_TRY(check_queue(&h->waiting, false, err));
    TD_TRY(check_queue(&h->lengthy, true, err));
    TD_WANT(h->n_lengthy >= 0 && h->n_lengthy <= h->most_lengthy, err,
            "%d workers of %d are at what is lengthy", h->n_lengthy, h->most_lengthy);
    return TD_OK;
}

bool td_http_is_idle(const struct td_http *h)
{
    return h->running == NULL && h->waiting.head == NULL && h->lengthy.head == NULL;
}

/* Nothing for the guard to look at. */
static bool is_quiet(const struct td_http *h)
{
    return h->running == NULL && h->sleeping == NULL;
}

void td_http_wake_guard(struct td_http *h)
{
    if (is_quiet(h)) {
        pthread_cond_signal(&h->guard_wake);
    }
}

void td_http_link(struct exchange **list, struct exchange *e)
{
    td_http_wake_guard(e->h);
    e->prev = NULL;
    e->next = *list;
    if (*list != NULL) {
        (*list)->prev = e;
    }
    *list = e;
    TD_HOLDS(td_http_check, e->h);
}

void td_http_unlink(struct exchange **list, struct exchange *e)
{
    *(e->prev != NULL ? &e->prev->next : list) = e->next;
    if (e->next != NULL) {
        e->next->prev = e->prev;
    }
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
        td_http_link(&h->running, e);
        pthread_mutex_unlock(&h->mu);
    }
}

bool td_exchange_is_lengthy(const struct td_exchange *x)
{
    return ((const struct exchange *)x)->lengthy;
}

/* fn has it next, on an HTTP worker. */
static void put_back(struct exchange *e, bool lengthy, void (*fn)(void *app, struct td_exchange *x))
{
    struct td_http *h = e->h;
    pthread_mutex_lock(&h->mu);
    if (e->here) {
        e->here = false;
        MHD_suspend_connection(e->connection);
    } else {
        td_http_unlink(&h->running, e);
    }
    e->go_on = fn;
    e->lengthy = lengthy;
    td_http_enqueue(e);
    pthread_mutex_unlock(&h->mu);
}

void td_exchange_go_on(struct td_exchange *x, void (*fn)(void *app, struct td_exchange *x))
{
    put_back((struct exchange *)x, true, fn);
}

void td_exchange_again(struct td_exchange *x, void (*fn)(void *app, struct td_exchange *x))
{
    put_back((struct exchange *)x, ((const struct exchange *)x)->lengthy, fn);
}

void td_http_resume(struct exchange *e, enum phase phase)
{
    struct td_http *h = e->h;
    if (phase == PHASE_BODY) {
        e->body_ns = td_clock_ns() - e->body_ns;
        (void)td_http_peer_go(e->peer, PEER_BODY, td_http_peer_rated(h, e->body_ns, e->n_body));
    }
    pthread_mutex_lock(&h->mu);
    td_http_unlink(&h->running, e);
    e->phase = phase;
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
        td_http_resume(e, PHASE_DONE);
    }
}

#define TIMEOUT_HEADER "X-Request-Timeout"

/* The nearer of the server's own limit and the request's: seconds, or a number with ms or s behind it. */
static enum td_code set_deadline(struct exchange *e, struct td_err *err)
{
    const int64_t limit_ms = e->h->opts.timeout_ms;
    const char *text = td_exchange_header(&e->x, TIMEOUT_HEADER);
    int64_t *deadline_ns = &e->x.r.run.work.deadline_ns;
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

/* Nothing of it is looked at but its head, and its connection ends with the answer. */
static bool is_unheard(const struct exchange *e)
{
    return e->fault != NULL || e->peer->refusal != NULL;
}

static void refuse(struct exchange *e)
{
    struct td_http *h = e->h;
    struct td_err err = {0};
    if (e->peer->refusal != NULL) {
        (void)td_fail(&err, TD_RESOURCE_EXHAUSTED, "%s", e->peer->refusal);
    } else {
        (void)td_fail(&err, TD_INVALID_ARGUMENT,
                      e->fault->counts ? "Malformed request: %s (%d)" : "Malformed request: %s",
                      e->fault->text, h->opts.max_headers);
    }
    h->opts.fail(h->opts.app, &e->x, &err);
    e->x.status = e->peer->refusal != NULL ? MHD_HTTP_TOO_MANY_REQUESTS : e->fault->status;
    td_exchange_finish(&e->x);
}

/* On the poll thread or an HTTP worker. The exchange is finished when this returns, or held. */
static void run(struct exchange *e)
{
    struct td_http *h = e->h;
    struct td_err err = {0};
    e->from_ns = td_clock_ns();
    if (is_unheard(e)) {
        refuse(e);
    } else if (finish_body(e, &err) || set_deadline(e, &err)) {
        h->opts.fail(h->opts.app, &e->x, &err);
        e->x.status = e->too_large ? MHD_HTTP_CONTENT_TOO_LARGE : e->x.status;
        td_exchange_finish(&e->x);
    } else if (!e->lengthy && e->x.body_len > LENGTHY_BYTES) { /* more than its packed bytes promised */
        td_exchange_go_on(&e->x, h->opts.handle);
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

void td_http_enqueue(struct exchange *e)
{
    struct td_http *h = e->h;
    struct td_http_queue *q = e->lengthy ? &h->lengthy : &h->waiting;
    e->next = NULL;
    e->place = h->n_queued++;
    *(q->head != NULL ? &q->tail->next : &q->head) = e;
    q->tail = e;
    pthread_cond_signal(&h->work);
}

/* The one that waits for longest, of those that a worker may take; NULL: none. Caller holds mu. */
static struct exchange *take(struct td_http *h)
{
    struct td_http_queue *q = &h->waiting;
    const struct exchange *lengthy = h->n_lengthy < h->most_lengthy ? h->lengthy.head : NULL;
    if (lengthy != NULL && (q->head == NULL || lengthy->place < q->head->place)) {
        q = &h->lengthy;
    }
    struct exchange *e = q->head;
    if (e != NULL) {
        q->head = e->next;
        h->n_lengthy += e->lengthy;
        td_http_link(&h->running, e);
    }
    return e;
}

enum MHD_Result td_http_hand_over(struct exchange *e, enum phase phase)
{
    struct td_http *h = e->h;
    if (phase == PHASE_PART) { /* what that takes is not the client's time */
        e->body_ns = td_clock_ns() - e->body_ns;
        if (!td_http_peer_go(e->peer, PEER_OURS, 0)) {
            return MHD_NO;
        }
    }
    pthread_mutex_lock(&h->mu);
    const bool stop = h->stop;
    if (!stop) {
        MHD_suspend_connection(e->connection);
        e->phase = phase;
        td_http_enqueue(e);
    }
    pthread_mutex_unlock(&h->mu);
    return stop ? MHD_NO : MHD_YES;
}

/* A drain waits for the answer from here on; false: the client's time was over before. */
static bool begin_work(struct exchange *e)
{
    if (!td_http_peer_go(e->peer, PEER_OURS, 0)) {
        return false;
    }
    e->phase = PHASE_WORK;
    atomic_fetch_add(&e->h->n_answering, 1);
    atomic_fetch_sub(&e->h->n_reading, 1);
    return true;
}

enum MHD_Result td_http_refuse(struct exchange *e)
{
    e->too_large = e->x.reader == NULL && e->fault == NULL && e->peer->refusal == NULL;
    if (!begin_work(e)) {
        return MHD_NO;
    }
    (void)e->h->opts.route(e->h->opts.app, &e->x);
    return run_here(e);
}

enum MHD_Result td_http_received(struct exchange *e)
{
    struct td_http *h = e->h;
    if (!begin_work(e)) {
        return MHD_NO;
    }
    e->kind = td_duration_hint_kind(e->x.method, e->x.target, e->body.n);
    const enum td_quickness quick = h->opts.route(h->opts.app, &e->x);
    if ((quick == TD_QUICKNESS_INSTANT && e->body.n <= INSTANT_BYTES) ||
        (quick == TD_QUICKNESS_MEASURED &&
         td_duration_hint_is_short(&h->hints, e->kind, td_http_polls_one() ? LONE_NS : SHORT_NS))) {
        return run_here(e);
    }
    e->lengthy =
        e->body.n >
        (td_exchange_header(&e->x, MHD_HTTP_HEADER_CONTENT_ENCODING) != NULL ? PACKED_BYTES : LENGTHY_BYTES);
    return td_http_hand_over(e, PHASE_WORK);
}

/* What is sent: a buffer, a file, or a stream's bits as they come. */
static struct MHD_Response *make_response(struct exchange *e)
{
    struct td_exchange *x = &e->x;
    if (x->stream != NULL) {
        return td_http_stream_response(e);
    }
    if (x->file.given && x->file.bytes > 0) {
        struct MHD_Response *r = MHD_create_response_from_fd64((uint64_t)x->file.bytes, x->file.fd);
        x->file.given = r == NULL; /* the response closes it */
        return r;
    }
    return MHD_create_response_from_buffer(x->out.n, x->out.p, MHD_RESPMEM_PERSISTENT);
}

/* Headers of single kinds of answers. */
static void add_traits(struct MHD_Response *r, const struct exchange *e, bool is_file)
{
    const struct td_exchange *x = &e->x;
    if (x->location != NULL) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_LOCATION, x->location);
    }
    if (x->allow != NULL) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, x->allow);
    }
    if (x->n_json > 0) {
        char text[24];
        (void)snprintf(text, sizeof text, "%zu", x->n_json);
        (void)MHD_add_response_header(r, "Inference-Header-Content-Length", text);
    }
    if (e->encoding != NULL) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING, e->encoding);
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    }
    if (x->stream != NULL) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
        (void)MHD_add_response_header(r, "X-Accel-Buffering", "no");
    }
    if (is_file) { /* somebody's upload: a browser shall not take it for a page of this server's */
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_DISPOSITION, "attachment");
        (void)MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    }
}

/* Headers that the status asks for. */
static void add_status_traits(struct MHD_Response *r, int status)
{
    if (status == MHD_HTTP_UNAUTHORIZED) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tensord\"");
    }
    if (status == MHD_HTTP_UNSUPPORTED_MEDIA_TYPE) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip, deflate");
    }
    if (status == MHD_HTTP_TOO_MANY_REQUESTS) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, RETRY_AFTER_S);
    }
}

enum MHD_Result td_http_send(struct exchange *e)
{
    const bool is_file = e->x.file.given;
    struct MHD_Response *r = make_response(e);
    if (r == NULL) {
        return MHD_NO;
    }
    const char *type = e->x.content_type != NULL ? e->x.content_type : "application/json";
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    add_traits(r, e, is_file);
    if (e->h->opts.cors) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "POST, GET");
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                                      e->h->opts.cors_headers);
    }
    add_status_traits(r, e->x.status);
    if (is_unheard(e) || atomic_load_explicit(&e->h->draining, memory_order_relaxed)) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    e->phase = PHASE_SENT;
    const uint64_t n = e->x.file.given || is_file ? (uint64_t)e->x.file.bytes : e->x.out.n;
    (void)td_http_peer_go(e->peer, PEER_READS, td_http_peer_rated(e->h, td_clock_ns(), n));
    const enum MHD_Result rc = MHD_queue_response(e->connection, (unsigned)e->x.status, r);
    MHD_destroy_response(r);
    return rc;
}

/* ------------------------------------------------------------------ threads */

/* e may be gone when it returns. */
static void work_on(struct exchange *e)
{
    if (e->phase == PHASE_PART) {
        td_http_put_part(e);
        td_http_resume(e, PHASE_BODY);
    } else if (e->phase == PHASE_SENT) {
        td_http_next_bit(e);
    } else if (e->go_on != NULL) {
        e->go_on(e->h->opts.app, &e->x);
    } else {
        run(e);
    }
}

void *td_http_worker_main(void *arg)
{
    struct td_http *h = arg;
    pthread_mutex_lock(&h->mu);
    for (;;) {
        struct exchange *e;
        while ((e = take(h)) == NULL && !h->stop) {
            td_buffer_idle_wait(&h->work, &h->mu);
        }
        if (e == NULL) {
            break;
        }
        const bool lengthy = e->lengthy;
        pthread_mutex_unlock(&h->mu);
        work_on(e);
        pthread_mutex_lock(&h->mu);
        h->n_lengthy -= lengthy;
    }
    pthread_mutex_unlock(&h->mu);
    return NULL;
}

bool td_http_has_left(const struct exchange *e)
{
    struct pollfd p = {.fd = e->peer->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void *td_http_guard_main(void *arg)
{
    struct td_http *h = arg;
    pthread_mutex_lock(&h->mu);
    for (int round = 0; !h->stop; round++) {
        if (is_quiet(h)) {
            pthread_cond_wait(&h->guard_wake, &h->mu);
            continue;
        }
        const int64_t due_ns = td_clock_ns() + GUARD_MS * 1000000;
        const struct timespec at = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
        (void)pthread_cond_timedwait(&h->guard_wake, &h->mu, &at);
        for (struct exchange *e = h->running; e != NULL; e = e->next) {
            if (e->phase != PHASE_PART && td_http_has_left(e)) {
                atomic_store(&e->x.r.stop, TD_CANCELLED);
            }
        }
        if (round % SLOW_ROUND == 0) {
            td_http_wake_sleepers(h, false);
        }
    }
    pthread_mutex_unlock(&h->mu);
    return NULL;
}
