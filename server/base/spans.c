/* server/base/spans.c - a bounded ring of requests that are over, and one thread that makes spans of them and
 * posts these once a second.
 *
 *   request    SERVER    its gRPC method, or "POST" and its route
 *     decode   INTERNAL  from its first byte to its inputs
 *     queue              waiting for a worker
 *     batch              rows put together
 *     compute            the graph
 *     encode             rows taken apart, the answer written
 *
 * A request is copied into the ring, so that nothing it owns is kept; the ids of its phases are drawn when
 * they are written. Each message has a connection of its own: there is one a second. A message that no
 * collector takes is tried once more, then it is lost, and counted.
 *
 * `on` is set before requests; `mu` guards the ring.
 * Does not: speak TLS, follow redirects, keep spans over a restart.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/spans.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "proto/json/json_write.h"
#include "server/base/clock.h"

enum { PERIOD_MS = 1000, PATIENCE_MS = 5000, LAST_MS = 1000, STEP_MS = 100, MAX_STATE = 512 };

struct entry {
    struct td_trace_context context;
    struct td_spans_request r;
    char model[128], signature[128], id[64], message[200];
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static struct entry *ring; /* TD_SPANS_QUEUE of them */
static unsigned head, n_waiting;
static bool stop;
static atomic_int_fast64_t end_at_ns; /* of the stop; 0: not yet */
static pthread_t thread;
static atomic_bool on;

static char host[256], port[16], path[600], service[128];
static uint64_t sampled_below; /* of a trace id's second half */
static bool said;

bool td_spans_on(void)
{
    return atomic_load_explicit(&on, memory_order_relaxed);
}

/* ------------------------------------------------------------------ context */

static void draw(void *p, size_t n)
{
    static __thread uint64_t state[2];
    uint8_t *to = p;
    if (state[0] == 0 && getrandom(state, sizeof state, GRND_NONBLOCK) != sizeof state) {
        state[0] = (uint64_t)td_clock_ns() | 1;
        state[1] = (uint64_t)(uintptr_t)&state;
    }
    for (size_t i = 0; i < n; i += 8) { /* splitmix64 */
        uint64_t z = (state[0] += 0x9e3779b97f4a7c15);
        z = ((z ^ (z >> 30)) ^ state[1]) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        z ^= z >> 31;
        memcpy(to + i, &z, n - i < 8 ? n - i : 8);
    }
}

/* 2 * n digits, small letters; false for others, and for all zeros. */
static bool read_hex(const char *p, uint8_t *out, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        const int digit = p[i] >= '0' && p[i] <= '9'   ? p[i] - '0'
                          : p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10
                                                       : -1;
        if (digit < 0) {
            return false;
        }
        out[i / 2] = (uint8_t)(i % 2 == 0 ? digit << 4 : out[i / 2] | digit);
        any |= (uint8_t)digit;
    }
    return any != 0;
}

/* VV-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-PPPPPPPPPPPPPPPP-FF, and more behind a '-' in later versions. */
static bool read_parent(struct td_header h, struct td_trace_context *c, bool *sampled)
{
    uint8_t version = 0, flags = 0;
    if (h.p == NULL || h.n < 55 || h.p[2] != '-' || h.p[35] != '-' || h.p[52] != '-' ||
        !read_hex(h.p + 3, c->ids.trace_id, 16) || !read_hex(h.p + 36, c->parent_id, 8)) {
        return false;
    }
    const bool zero = memcmp(h.p, "00", 2) == 0, none = memcmp(h.p + 53, "00", 2) == 0;
    if ((!zero && !read_hex(h.p, &version, 1)) || (!none && !read_hex(h.p + 53, &flags, 1)) ||
        version == 0xff || (h.n > 55 && (zero || h.p[55] != '-'))) {
        return false;
    }
    *sampled = flags & 1;
    return true;
}

void td_trace_begin(struct td_trace_context *c, struct td_header traceparent, struct td_header tracestate,
                    const char *operation)
{
    bool sampled = false;
    *c = (struct td_trace_context){0};
    c->has_parent = traceparent.p != NULL && read_parent(traceparent, c, &sampled);
    if (!td_spans_on()) {
        c->ids = c->has_parent ? c->ids : (struct td_log_trace){0};
        return;
    }
    if (!c->has_parent) {
        uint64_t low;
        draw(c->ids.trace_id, sizeof c->ids.trace_id);
        memcpy(&low, c->ids.trace_id + 8, sizeof low);
        sampled = sampled_below == UINT64_MAX || low < sampled_below;
    } else if (sampled && tracestate.p != NULL && tracestate.n > 0 && tracestate.n <= MAX_STATE) {
        c->state = td_calloc(tracestate.n + 1, 1);
        if (c->state != NULL) {
            memcpy(c->state, tracestate.p, tracestate.n);
        }
    }
    c->operation = sampled ? operation : NULL;
    if (c->operation != NULL) {
        draw(c->ids.span_id, sizeof c->ids.span_id);
    }
}

void td_trace_end(struct td_trace_context *c)
{
    td_free(c->state);
    *c = (struct td_trace_context){0};
}

void td_spans_put(const struct td_spans_request *r)
{
    char *state = r->context->state != NULL ? td_strdup(r->context->state) : NULL;
    pthread_mutex_lock(&mu);
    const bool room = ring != NULL && n_waiting < TD_SPANS_QUEUE;
    if (room) {
        struct entry *e = &ring[(head + n_waiting++) % TD_SPANS_QUEUE];
        e->context = *r->context;
        e->context.state = state;
        e->r = *r;
        (void)snprintf(e->model, sizeof e->model, "%s", r->model);
        (void)snprintf(e->signature, sizeof e->signature, "%s", r->signature);
        (void)snprintf(e->id, sizeof e->id, "%s", r->id);
        (void)snprintf(e->message, sizeof e->message, "%s", r->message);
        if (n_waiting == TD_SPANS_BATCH) {
            pthread_cond_signal(&wake);
        }
    }
    pthread_mutex_unlock(&mu);
    if (!room) {
        td_free(state);
        td_metrics_spans("dropped", 1);
    }
}

/* ------------------------------------------------------------------ JSON */

static enum td_code print(struct td_sink *s, struct td_err *err, const char *format, ...) TD_PRINTF(3, 4);
static enum td_code print(struct td_sink *s, struct td_err *err, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return td_sink_put(s, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1, err);
}

/* A text of a client's, which may be cut within a character, as JSON. */
static enum td_code put_string(struct td_sink *s, const char *text, struct td_err *err)
{
    size_t n = strlen(text);
    while (n > 0 && !td_utf8(text, n)) {
        n--;
    }
    return td_json_put_string(s, text, n, err);
}

static enum td_code put_text(struct td_sink *s, const char *key, const char *value, struct td_err *err)
{
    if (*value == '\0') {
        return TD_OK;
    }
    TD_TRY(print(s, err, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":", s->p[s->n - 1] == '[' ? "" : ",",
                 key));
    TD_TRY(put_string(s, value, err));
    return print(s, err, "}}");
}

static enum td_code put_number(struct td_sink *s, const char *key, int64_t value, struct td_err *err)
{
    return print(s, err, "%s{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}",
                 s->p[s->n - 1] == '[' ? "" : ",", key, value);
}

static const char *hex(char out[33], const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", p[i]);
    }
    return out;
}

/* {"traceId": .. up to, but without, the attributes. */
static enum td_code put_head(struct td_sink *s, const struct entry *e, const uint8_t id[8],
                             const uint8_t *parent, int64_t from_ns, int64_t to_ns, struct td_err *err)
{
    char trace[33], span[33], above[33] = "";
    TD_TRY(print(s, err, "%s{\"traceId\":\"%s\",\"spanId\":\"%s\",\"parentSpanId\":\"%s\"",
                 s->p[s->n - 1] == '[' ? "" : ",", hex(trace, e->context.ids.trace_id, 16), hex(span, id, 8),
                 parent != NULL ? hex(above, parent, 8) : ""));
    return print(s, err,
                 ",\"flags\":1,\"startTimeUnixNano\":\"%" PRId64 "\",\"endTimeUnixNano\":\"%" PRId64 "\"",
                 from_ns, to_ns > from_ns ? to_ns : from_ns);
}

/* As the conventions for servers have it: what the client did wrong is no error of ours. */
static bool is_error(const struct td_spans_request *r)
{
    return r->entry == TD_ENTRY_REST
               ? r->http_status >= 500
               : r->code == TD_UNKNOWN || r->code == TD_DEADLINE_EXCEEDED || r->code == TD_UNIMPLEMENTED ||
                     r->code == TD_INTERNAL || r->code == TD_UNAVAILABLE || r->code == TD_DATA_LOSS;
}

static enum td_code put_attributes(struct td_sink *s, const struct entry *e, struct td_err *err)
{
    const struct td_spans_request *r = &e->r;
    TD_TRY(print(s, err, ",\"attributes\":["));
    if (r->entry == TD_ENTRY_GRPC) {
        const char *service_name = e->context.operation + 1, *method = strchr(service_name, '/');
        char name[200];
        (void)snprintf(name, sizeof name, "%.*s", (int)(method != NULL ? method - service_name : 0),
                       service_name);
        TD_TRY(put_text(s, "rpc.system", "grpc", err));
        TD_TRY(put_text(s, "rpc.service", name, err));
        TD_TRY(put_text(s, "rpc.method", method != NULL ? method + 1 : "", err));
        TD_TRY(put_number(s, "rpc.grpc.status_code", r->code, err));
    } else {
        TD_TRY(put_text(s, "http.request.method", "POST", err));
        TD_TRY(put_text(s, "http.route", e->context.operation, err));
        TD_TRY(put_number(s, "http.response.status_code", r->http_status, err));
    }
    TD_TRY(put_text(s, "error.type", r->code != TD_OK ? td_code_name(r->code) : "", err));
    TD_TRY(put_text(s, "tensord.model.name", e->model, err));
    TD_TRY(r->version != 0 ? put_number(s, "tensord.model.version", r->version, err) : TD_OK);
    TD_TRY(put_text(s, "tensord.signature", e->signature, err));
    TD_TRY(put_text(s, "tensord.request.id", e->id, err));
    return print(s, err, "]");
}

static enum td_code put_request(struct td_sink *s, const struct entry *e, int64_t ahead_ns,
                                struct td_err *err)
{
    const struct td_spans_request *r = &e->r;
    const bool rest = r->entry == TD_ENTRY_REST;
    TD_TRY(put_head(s, e, e->context.ids.span_id, e->context.has_parent ? e->context.parent_id : NULL,
                    r->opened_ns + ahead_ns, r->ended_ns + ahead_ns, err));
    TD_TRY(print(s, err, ",\"kind\":2,\"name\":\"%s%s\"", rest ? "POST " : "",
                 e->context.operation + (rest ? 0 : 1)));
    if (e->context.state != NULL) {
        TD_TRY(print(s, err, ",\"traceState\":"));
        TD_TRY(put_string(s, e->context.state, err));
    }
    TD_TRY(put_attributes(s, e, err));
    if (is_error(r)) {
        TD_TRY(print(s, err, ",\"status\":{\"code\":2,\"message\":"));
        TD_TRY(put_string(s, e->message, err));
        TD_TRY(print(s, err, "}"));
    }
    return print(s, err, "}");
}

static enum td_code put_phases(struct td_sink *s, const struct entry *e, int64_t ahead_ns, int *n,
                               struct td_err *err)
{
    const struct td_spans_request *r = &e->r;
    const int64_t queued = r->started_ns + r->times.queue_ns, joined = queued + r->times.input_ns;
    const int64_t ran = joined + r->times.infer_ns;
    const struct {
        const char *name;
        int64_t from, to;
    } phases[] = {{"decode", r->opened_ns, r->started_ns},
                  {"queue", r->started_ns, queued},
                  {"batch", queued, joined},
                  {"compute", joined, ran},
                  {"encode", ran, r->ended_ns}};
    for (size_t i = 0; i < sizeof phases / sizeof phases[0] && r->started_ns != 0; i++) {
        uint8_t id[8];
        if (phases[i].to <= phases[i].from) {
            continue;
        }
        draw(id, sizeof id);
        TD_TRY(put_head(s, e, id, e->context.ids.span_id, phases[i].from + ahead_ns, phases[i].to + ahead_ns,
                        err));
        TD_TRY(print(s, err, ",\"kind\":1,\"name\":\"%s\"}", phases[i].name));
        ++*n;
    }
    return TD_OK;
}

static enum td_code put_message(struct td_sink *s, const struct entry *list, unsigned n, int *n_spans,
                                struct td_err *err)
{
    struct timespec t;
    char name[256] = "";
    clock_gettime(CLOCK_REALTIME, &t);
    (void)gethostname(name, sizeof name - 1);
    const int64_t ahead_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - td_clock_ns();
    TD_TRY(print(s, err, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["));
    TD_TRY(put_text(s, "service.name", service, err));
    TD_TRY(put_text(s, "service.version", TENSORD_VERSION, err));
    TD_TRY(put_text(s, "host.name", name, err));
    TD_TRY(put_number(s, "process.pid", getpid(), err));
    TD_TRY(print(s, err,
                 "]},\"scopeSpans\":[{\"scope\":{\"name\":\"tensord\",\"version\":\"%s\"},\"spans\":[",
                 TENSORD_VERSION));
    for (unsigned i = 0; i < n; i++) {
        TD_TRY(put_request(s, &list[i], ahead_ns, err));
        ++*n_spans;
        TD_TRY(put_phases(s, &list[i], ahead_ns, n_spans, err));
    }
    return print(s, err, "]}]}]}");
}

/* ------------------------------------------------------------------ HTTP */

/* Looks every tenth of a second whether the daemon stops. */
static bool wait_for(int fd, short what, int64_t until_ns)
{
    struct pollfd p = {.fd = fd, .events = what};
    for (;;) {
        const int64_t end_ns = atomic_load(&end_at_ns), now_ns = td_clock_ns();
        if (now_ns >= (end_ns != 0 && end_ns < until_ns ? end_ns : until_ns)) {
            return false;
        }
        const int n = poll(&p, 1, STEP_MS);
        if (n != 0) {
            return n == 1;
        }
    }
}

static bool send_all(int fd, const char *p, size_t n, int64_t until_ns)
{
    while (n > 0 && wait_for(fd, POLLOUT, until_ns)) {
        const ssize_t sent = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        p += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
    return n == 0;
}

/* The answer's status; 0: there was none. */
static int read_status(int fd, int64_t until_ns)
{
    char text[13] = "";
    size_t n = 0;
    while (n < sizeof text - 1 && wait_for(fd, POLLIN, until_ns)) {
        const ssize_t got = recv(fd, text + n, sizeof text - 1 - n, MSG_DONTWAIT);
        if (got <= 0) {
            return 0;
        }
        n += (size_t)got;
    }
    return strncmp(text, "HTTP/1.", 7) == 0 ? (int)strtol(text + 9, NULL, 10) : 0;
}

static int post(const struct td_sink *body, int64_t until_ns)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int status = 0;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        return 0;
    }
    for (const struct addrinfo *at = found; at != NULL && status == 0; at = at->ai_next) {
        char top[1100];
        const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        const bool six = strchr(host, ':') != NULL;
        const int n =
            snprintf(top, sizeof top,
                     "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: tensord/%s\r\nContent-Type: "
                     "application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                     path, six ? "[" : "", host, six ? "]" : "", port, TENSORD_VERSION, body->n);
        if (fd >= 0) {
            (void)connect(fd, at->ai_addr, at->ai_addrlen);
            status = send_all(fd, top, (size_t)n, until_ns) && send_all(fd, body->p, body->n, until_ns)
                         ? read_status(fd, until_ns)
                         : 0;
            (void)close(fd);
        }
    }
    freeaddrinfo(found);
    return status;
}

/* One message, tried twice. */
static void deliver(const struct entry *list, unsigned n)
{
    struct td_sink body = {0};
    struct td_err err = {0};
    int n_spans = 0, status = 0;
    if (put_message(&body, list, n, &n_spans, &err) == TD_OK) {
        for (int i = 0; i < 2 && (status == 0 || status == 429 || status >= 502); i++) {
            status = post(&body, td_clock_ns() + PATIENCE_MS * INT64_C(1000000));
        }
    }
    td_sink_fini(&body);
    const bool ok = status >= 200 && status < 300;
    if (!ok && !said) {
        td_log(TD_LOG_WARNING, NULL, "spans are lost: http://%s:%s%s %s (status %d)", host, port, path,
               status != 0 ? "refuses them" : "does not answer", status);
    }
    said = !ok;
    td_metrics_spans(ok ? "exported" : "failed", n_spans);
}

static void *spans_main(void *arg)
{
    struct entry *taken = arg;
    pthread_mutex_lock(&mu);
    for (;;) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_sec += PERIOD_MS / 1000;
        while (!stop && n_waiting < TD_SPANS_BATCH && pthread_cond_timedwait(&wake, &mu, &at) == 0) {
        }
        const bool last = stop;
        unsigned n = 0;
        for (; n < TD_SPANS_BATCH && n_waiting > 0; n++, n_waiting--) {
            taken[n] = ring[head];
            head = (head + 1) % TD_SPANS_QUEUE;
        }
        if (n == 0 && last) {
            break;
        }
        pthread_mutex_unlock(&mu);
        if (n > 0) {
            deliver(taken, n);
        }
        for (unsigned i = 0; i < n; i++) {
            td_trace_end(&taken[i].context);
        }
        pthread_mutex_lock(&mu);
    }
    pthread_mutex_unlock(&mu);
    td_free(taken);
    return NULL;
}

/* ------------------------------------------------------------------ start and stop */

static enum td_code read_endpoint(const char *endpoint, bool whole, struct td_err *err)
{
    static const char scheme[] = "http://";
    TD_FAIL_IF(strncmp(endpoint, scheme, sizeof scheme - 1) != 0, err, INVALID_ARGUMENT,
               "--otlp_endpoint '%.200s': http://HOST[:PORT][/PATH] is wanted (a collector that needs TLS is "
               "reached through one on this host)",
               endpoint);
    const char *at = endpoint + sizeof scheme - 1, *rest = at + strcspn(at, "/");
    const char *name = at, *name_end, *colon;
    if (*at == '[') {
        name = at + 1;
        name_end = at + strcspn(at, "]");
        colon = *name_end == ']' ? name_end + 1 : name_end;
    } else {
        name_end = colon = at + strcspn(at, ":/");
    }
    const int n_port = *colon == ':' ? (int)(rest - colon - 1) : 0;
    size_t n_path = strlen(rest);
    while (n_path > 0 && rest[n_path - 1] == '/' && !whole) {
        n_path--;
    }
    TD_FAIL_IF(name_end <= name || name_end - name >= (int)sizeof host || n_port < 0 || n_port > 5 ||
                   n_path > sizeof path - 12 || strpbrk(endpoint, " \r\n?#@") != NULL,
               err, INVALID_ARGUMENT, "--otlp_endpoint '%.200s': http://HOST[:PORT][/PATH] is wanted",
               endpoint);
    (void)snprintf(host, sizeof host, "%.*s", (int)(name_end - name), name);
    (void)snprintf(port, sizeof port, "%.*s", n_port > 0 ? n_port : 4, n_port > 0 ? colon + 1 : "4318");
    (void)snprintf(path, sizeof path, "%.*s%s", (int)n_path, rest,
                   whole ? (n_path > 0 ? "" : "/") : "/v1/traces");
    return TD_OK;
}

enum td_code td_spans_start(const char *endpoint, double sampling, struct td_err *err)
{
    const char *traces = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
               *all = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    const char *name = getenv("OTEL_SERVICE_NAME");
    const bool whole = *endpoint == '\0' && traces != NULL && *traces != '\0';
    const char *to = whole ? traces : *endpoint != '\0' ? endpoint : all != NULL ? all : "";
    if (*to == '\0') {
        return TD_OK;
    }
    TD_TRY(read_endpoint(to, whole, err));
    (void)snprintf(service, sizeof service, "%s", name != NULL && *name != '\0' ? name : "tensord");
    sampled_below = sampling >= 1 ? UINT64_MAX : (uint64_t)(sampling * 0x1p64);
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&wake, &monotonic);
    ring = td_calloc(TD_SPANS_QUEUE, sizeof *ring);
    struct entry *taken = td_calloc(TD_SPANS_BATCH, sizeof *taken);
    if (ring == NULL || taken == NULL || pthread_create(&thread, NULL, spans_main, taken) != 0) {
        td_free(taken);
        td_free(ring);
        ring = NULL;
        return td_no_memory(err, TD_SPANS_QUEUE * sizeof *ring, "spans");
    }
    atomic_store(&on, true);
    td_log(TD_LOG_INFO, NULL, "spans go to http://%s:%s%s", host, port, path);
    return TD_OK;
}

void td_spans_stop(void)
{
    if (!td_spans_on()) {
        return;
    }
    atomic_store(&on, false);
    pthread_mutex_lock(&mu);
    stop = true;
    atomic_store(&end_at_ns, td_clock_ns() + LAST_MS * INT64_C(1000000));
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&mu);
    pthread_join(thread, NULL);
    td_free(ring);
    ring = NULL;
    stop = false;
    atomic_store(&end_at_ns, 0);
}
