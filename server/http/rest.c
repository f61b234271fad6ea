/* server/http/rest.c - matches targets with routes.def, and writes errors.
 *
 * Patterns are tried in their order, character by character on the path as it was sent, without regard to
 * case; {model}, {name} and {id} match up to a slash, {at} a version or a label or nothing. What names
 * matched are spans of the target until they are decoded into the request's arena. HEAD is taken as GET but
 * under /v1/.
 *
 * A route's traits say the rest: whether it may take long, what scope a token needs, whether loopback only,
 * what it is counted as. A target that matches with another method is told which.
 *
 * An error becomes a JSON object; bytes that are no UTF-8 become '?'. Its status is its code's, and under
 * /v2/ one that clients of that protocol know.
 *
 * Does not: read sockets or bodies (server/http/http.c, server/http/http_exchange.c), answer anything itself
 * (the handlers).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/rest.h"
#include "server/request/prediction_log.h"
#include "server/request/request_span.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "server/base/audit.h"
#include "server/base/clock.h"
#include "server/base/listen.h"
#include "proto/json/json_write.h"
#include "server/base/rest_json.h"
#include "server/http/rest_finetune.h"

/* Traits (server/http/routes.def says what they mean); the bits from API_SHIFT on, three of them, are an
 * enum td_api. */
enum trait {
    PLAIN = 0,
    EXACT = 1,
    BLOCKS = 2,
    MANAGES = 4,
    COUNTED = 8,
    API_SHIFT = 4,
    OPEN = 128,
    DEBUGS = 256,
    TRAINS = 512,
    UPLOADS = 1024,
    ALL = 2048,
    REGION = 4096,
    INSTANT = 8192,
    APART = 16384,
    WAITS = 32768
};
#define API(kind) (COUNTED | TD_API_##kind << API_SHIFT)

static const struct td_route {
    const char *method, *pattern;
    td_rest_fn *handler;
    int traits;
} ROUTES[] = {
#define ROUTE(method, pattern, handler, traits) {#method, pattern, handler, traits},
#include "server/http/routes.def"
#undef ROUTE
};
static const struct td_route MONITORING = {"GET", "", td_rest_metrics, BLOCKS | ALL};
#define N_ROUTES (sizeof ROUTES / sizeof ROUTES[0])

#define METHOD_NOT_ALLOWED 405
#define UNSUPPORTED_MEDIA_TYPE 415

/* ------------------------------------------------------------------ matching */

static struct td_route_span until(const char *p, const char *end, const char *stops)
{
    const char *q = p;
    while (q < end && strchr(stops, *q) == NULL) {
        q++;
    }
    return (struct td_route_span){p, (size_t)(q - p)};
}

static bool starts_with(const char *p, const char *end, const char *word)
{
    const size_t n = strlen(word);
    return (size_t)(end - p) >= n && strncasecmp(p, word, n) == 0;
}

/* {at} at *p: moves past what it matches. */
static void match_at(const char **p, const char *end, struct td_route_match *m)
{
    if (starts_with(*p, end, "/versions/")) {
        struct td_route_span digits = {*p + 10, 0};
        while (digits.p + digits.n < end && digits.p[digits.n] >= '0' && digits.p[digits.n] <= '9') {
            digits.n++;
        }
        if (digits.n > 0) {
            m->version = digits;
            *p = digits.p + digits.n;
        }
    } else if (starts_with(*p, end, "/labels/")) {
        const struct td_route_span label = until(*p + 8, end, "/:");
        if (label.n > 0) {
            m->label = label;
            *p = label.p + label.n;
        }
    }
}

/* Whether the pattern matches the path from p to end, all of it. */
static bool matches(const char *pattern, const char *p, const char *end, struct td_route_match *m)
{
    *m = (struct td_route_match){0};
    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (p == end || strncasecmp(p, pattern, 1) != 0) {
                return false;
            }
            p++;
            pattern++;
            continue;
        }
        if (strncmp(pattern, "{at}", 4) == 0) {
            match_at(&p, end, m);
        } else {
            const bool whole = strncmp(pattern, "{name}", 6) == 0;
            const struct td_route_span s = until(p, end, whole ? "/" : "/:");
            if (s.n == 0) {
                return false;
            }
            *(whole || strncmp(pattern, "{model}", 7) == 0 ? &m->model : &m->id) = s;
            p += s.n;
        }
        pattern = strchr(pattern, '}') + 1;
    }
    return p == end;
}

static bool is_v1(const struct td_exchange *x)
{
    return strncasecmp(x->target, "/v1/", 4) == 0;
}

static bool is_v2(const struct td_exchange *x)
{
    return strncasecmp(x->target, "/v2", 3) == 0 && (x->target[3] == '\0' || x->target[3] == '/');
}

/* Paths of OpenAI's API: its errors, its statuses. */
static bool is_openai(const struct td_exchange *x)
{
    const size_t n = strncasecmp(x->target, "/v1/files", 9) == 0          ? 9
                     : strncasecmp(x->target, "/v1/fine_tuning", 15) == 0 ? 15
                                                                          : 0;
    return n > 0 && strchr("/?#", x->target[n]) != NULL; /* also at the text's end */
}

static const struct td_route *find_route(const struct td_exchange *x, struct td_route_match *m)
{
    const char *end = x->target + strcspn(x->target, "?#");
    const bool v1 = is_v1(x) && !is_openai(x); /* TF Serving knows HEAD nowhere */
    const bool head = strcmp(x->method, "HEAD") == 0 && !v1;
    for (size_t i = 0; i < N_ROUTES; i++) {
        const struct td_route *r = &ROUTES[i];
        const bool refused = (r->traits & EXACT) && *end != '\0';
        if (strcmp(r->method, head ? "GET" : x->method) == 0 && !refused &&
            matches(r->pattern, x->target, end, m)) {
            return r;
        }
    }
    return NULL;
}

/* The methods that would be answered; NULL: none. */
static const char *other_methods(const struct td_exchange *x)
{
    static const char *const lists[8] = {
        NULL,     "GET, HEAD",         "POST",         "GET, HEAD, POST",
        "DELETE", "GET, HEAD, DELETE", "POST, DELETE", "GET, HEAD, POST, DELETE"};
    struct td_route_match m;
    unsigned found = 0;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (matches(ROUTES[i].pattern, x->target, x->target + strcspn(x->target, "?#"), &m)) {
            const char first = ROUTES[i].method[0];
            found |= first == 'G' ? 1 : first == 'P' ? 2 : 4;
        }
    }
    return lists[found];
}

/* The names that the target has, decoded. */
static enum td_code read_target(struct td_request *r, const struct td_exchange *x, struct td_err *err)
{
    const struct td_route_match *m = &x->match;
    r->model = td_rest_decoded(x, m->model);
    r->label = m->label.n > 0 ? td_rest_decoded(x, m->label) : NULL;
    if (r->model == NULL || (m->label.n > 0 && r->label == NULL)) {
        r->model = "";
        return td_no_memory(err, strlen(x->target), "a request's target");
    }
    TD_FAIL_IF(!td_utf8(r->model, strlen(r->model)) ||
                   (r->label != NULL && !td_utf8(r->label, strlen(r->label))),
               err, INVALID_ARGUMENT, "Malformed request: the name of a model or a label in %s is no UTF-8",
               x->target);
    r->has_version = m->version.n > 0;
    for (size_t i = 0; i < m->version.n; i++) {
        const bool fits = td_i64_mul(r->version, 10, &r->version) &&
                          td_i64_add(r->version, m->version.p[i] - '0', &r->version);
        TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "Malformed request: version %.*s is no 64-bit number",
                   (int)m->version.n, m->version.p);
    }
    return TD_OK;
}

/* TF Serving's path of metrics: any method; a query makes it another path. */
static bool is_monitoring(const struct td_rest *rest, const struct td_exchange *x)
{
    return rest->monitoring_path != NULL && strcmp(rest->monitoring_path, x->target) == 0;
}

void td_rest_begin(void *app, struct td_exchange *x)
{
    const struct td_route *route = find_route(x, &x->match);
    if (route != NULL && (route->traits & UPLOADS)) {
        td_rest_upload_begin(app, x);
    }
}

enum td_quickness td_rest_route(void *app, struct td_exchange *x)
{
    x->route = is_monitoring(app, x) ? &MONITORING : find_route(x, &x->match);
    const int traits = x->route != NULL ? x->route->traits : PLAIN;
    return traits & INSTANT                    ? TD_QUICKNESS_INSTANT
           : traits & (BLOCKS | APART | WAITS) ? TD_QUICKNESS_SLOW
                                               : TD_QUICKNESS_MEASURED;
}

/* ------------------------------------------------------------------ answering */

/* What clients of the Open Inference Protocol know as the server's own trouble keeps its status; everything
 * else that has no status of its own there is a bad request. */
static int v2_status(enum td_code code)
{
    const bool known = code == TD_NOT_FOUND || code == TD_PERMISSION_DENIED || code == TD_UNAUTHENTICATED ||
                       code == TD_RESOURCE_EXHAUSTED;
    const int status = td_code_http(code);
    return known || status >= 500 ? status : 400;
}

/* A member of an error's object; value NULL: null. */
static enum td_code put_member(struct td_sink *s, const char *name, const char *value, struct td_err *err)
{
    TD_TRY(td_sink_put(s, name, strlen(name), err));
    return value != NULL ? td_json_put_string(s, value, strlen(value), err) : td_sink_put(s, "null", 4, err);
}

/* OpenAI's, or the sentence alone. */
static enum td_code write_error(struct td_exchange *x, const char *text, struct td_err *err)
{
    struct td_sink *s = &x->out;
    if (!is_openai(x)) {
        TD_TRY(put_member(s, "{\n    \"error\": ", text, err));
        return td_sink_put(s, "\n}", 2, err);
    }
    const char *code = x->error_code != NULL ? x->error_code
                       : x->status == 401    ? "invalid_api_key"
                       : x->status == 404    ? "not_found"
                                             : NULL;
    TD_TRY(put_member(s, "{\"error\": {\"message\": ", text, err));
    TD_TRY(put_member(s, ", \"type\": ", x->status < 500 ? "invalid_request_error" : "server_error", err));
    TD_TRY(put_member(s, ", \"param\": ", x->error_param, err));
    TD_TRY(put_member(s, ", \"code\": ", code, err));
    return td_sink_put(s, "}}\n", 3, err);
}

/* The answer to a request that failed. */
static void put_error(struct td_exchange *x, const struct td_err *err)
{
    struct td_err ignored = {0};
    char plain[sizeof err->msg];
    memcpy(plain, err->msg, sizeof plain);
    for (char *c = plain; *c != '\0' && !td_utf8(err->msg, strlen(err->msg)); c++) {
        *c = (unsigned char)*c < 0x80 ? *c : '?';
    }
    x->status = is_v2(x)       ? v2_status(err->code)
                : is_openai(x) ? td_rest_finetune_status(x, err->code)
                               : td_code_http(err->code);
    x->content_type = NULL;
    x->n_json = 0;
    td_sink_fini(&x->out);
    (void)!write_error(x, plain, &ignored);
}

void td_rest_fail(void *app, struct td_exchange *x, const struct td_err *err)
{
    (void)app;
    put_error(x, err);
}

/* A cross-origin preflight: only the origin is looked at. */
static enum td_code preflight(const struct td_exchange *x, struct td_err *err)
{
    const char *origin = td_exchange_header(x, "Origin");
    TD_FAIL_IF(origin == NULL || (strstr(origin, "http://") == NULL && strstr(origin, "https://") == NULL),
               err, FAILED_PRECONDITION, "Origin header is missing in CORS preflight");
    return TD_OK;
}

static enum td_code no_route(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    const char *path = rest->monitoring_path;
    if (strcmp(x->method, "OPTIONS") != 0) { /* browsers send a preflight without a token */
        TD_TRY(td_rest_admit(rest, x, TD_SCOPE_ANY, "", err));
    }
    TD_FAIL_IF(path != NULL && strncmp(x->target, path, strlen(path)) == 0, err, INVALID_ARGUMENT,
               "Unexpected path: %s", x->target);
    if (strcmp(x->method, "OPTIONS") == 0 && (is_v1(x) || is_v2(x))) {
        return preflight(x, err);
    }
    if (is_v1(x) && !is_openai(x)) {
        TD_FAIL(err, INVALID_ARGUMENT, "Malformed request: %s %s", x->method, x->target);
    }
    x->allow = other_methods(x);
    x->error_code = x->allow != NULL ? "method_not_allowed" : NULL;
    TD_FAIL_IF(x->allow != NULL, err, NOT_FOUND, "Method Not Allowed: %s %s, want %s", x->method, x->target,
               x->allow);
    TD_FAIL(err, NOT_FOUND, "Not Found: %s %s", x->method, x->target);
}

static enum td_scope scope_of(const struct td_route *r)
{
    const int api = r->traits >> API_SHIFT & 7;
    return r->traits & OPEN         ? TD_SCOPE_OPEN
           : r->traits & DEBUGS     ? TD_SCOPE_DEBUG
           : r->traits & TRAINS     ? TD_SCOPE_TRAIN
           : r->traits & MANAGES    ? TD_SCOPE_MANAGE
           : api == TD_API_GRADIENT ? TD_SCOPE_INFER_OR_GRADIENT
           : api != TD_API_OTHER    ? TD_SCOPE_INFER
                                    : TD_SCOPE_ANY;
}

static struct td_header header(const struct td_exchange *x, const char *name)
{
    const char *text = td_exchange_header(x, name);
    return (struct td_header){text, text != NULL ? strlen(text) : 0};
}

/* What is asked, and whether it may be. */
static enum td_code open_request(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    const struct td_route *route = x->route;
    td_trace_begin(&x->r.trace, header(x, "traceparent"), header(x, "tracestate"),
                   route->traits & COUNTED ? route->pattern : NULL);
    if (route->traits & (MANAGES | TRAINS)) {
        const enum td_local_body body = route->traits & UPLOADS  ? TD_BODY_FILES
                                        : route->traits & REGION ? TD_BODY_REGION
                                                                 : TD_BODY_JSON;
        TD_TRY(td_rest_local_only(rest, x, body, err));
    }
    TD_TRY(td_request_open(&x->r, err));
    TD_TRY(td_exchange_charge(x, x->r.run.work.account, err));
    x->r.api = (enum td_api)(route->traits >> API_SHIFT & 7);
    TD_TRY(read_target(&x->r, x, err));
    const char *about = route->traits & ALL ? TD_ACCESS_ALL : route->traits & REGION ? "" : x->r.model;
    return td_rest_admit(rest, x, scope_of(route), about, err);
}

/* It changes something that is not its own. */
static bool is_act(const struct td_exchange *x)
{
    return x->route != NULL && (x->route->traits & (MANAGES | TRAINS)) && strcmp(x->method, "GET") != 0 &&
           strcmp(x->method, "HEAD") != 0;
}

static void audit(const struct td_exchange *x, const struct td_err *err)
{
    char from[TD_LISTEN_NAME];
    const char *sent = td_exchange_header(x, "Authorization");
    const bool named = x->route != NULL && !(x->route->traits & REGION) && x->r.model != NULL;
    td_listen_name(x->from, from);
    const struct td_audit a = {.wire = "http",
                               .verb = x->method,
                               .object = x->target,
                               .model = named ? x->r.model : "",
                               .from = from,
                               .authorization = sent,
                               .trace = &x->r.trace.ids,
                               .n = sent != NULL ? strlen(sent) : 0};
    td_audit_tell(&a, err);
}

/* The last of an exchange, on whatever thread: err->code says how it went. */
static void answer(struct td_exchange *x, const struct td_err *err)
{
    struct td_request *r = &x->r;
    if (is_act(x) || td_audit_refused(err->code)) {
        audit(x, err);
    }
    if (err->code) {
        put_error(x, err);
        x->status = x->allow != NULL ? METHOD_NOT_ALLOWED : x->status;
    }
    if (r->arena != NULL && (x->route->traits & COUNTED)) {
        td_request_span(r, TD_ENTRY_REST, x->status, err);
        if (err->code == TD_OK && r->n_out > 0) {
            td_prediction_log(r);
        }
        td_request_count(r, TD_ENTRY_REST, err->code);
    }
    td_request_fini(r);
    td_exchange_finish(x);
}

static void on_queued(struct td_request *r)
{
    td_exchange_hold(td_exchange_of(r));
}

static void encode_now(void *app, struct td_exchange *x)
{
    (void)app;
    td_request_encode(&x->r);
}

static void on_much(struct td_request *r)
{
    td_exchange_go_on(td_exchange_of(r), encode_now);
}

static void on_done(struct td_request *r, struct td_err *err)
{
    answer(td_exchange_of(r), err);
}

static void proceed(void *app, struct td_exchange *x);

/* Its model is loaded, or will not be. */
static void on_resume(struct td_request *r, struct td_err *err)
{
    if (err->code) {
        answer(td_exchange_of(r), err);
    } else {
        td_exchange_again(td_exchange_of(r), proceed);
    }
}

/* A handler has failed: true when the exchange waits for its model from here on. */
static bool waits(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    if (!td_request_is_cold(&x->r)) {
        return false;
    }
    td_exchange_hold(x);
    x->r.resume = on_resume;
    return td_request_await(&x->r, rest->registry, err);
}

/* TF Serving takes a body in an encoding that it does not know as it is; Triton refuses it. */
static bool known_encoding(const struct td_exchange *x, struct td_err *err)
{
    const char *sent = td_exchange_header(x, "Content-Encoding");
    const bool known = sent == NULL || *sent == '\0' || strcasestr(sent, "gzip") != NULL ||
                       strcasestr(sent, "deflate") != NULL || strcasecmp(sent, "identity") == 0;
    return known || td_fail(err, TD_UNIMPLEMENTED,
                            "Content-Encoding '%.60s' is not supported, gzip and deflate are", sent) == TD_OK;
}

/* ------------------------------------------------------------------ threads of their own */

/* A request that runs a model itself, or waits for models. */
struct apart {
    struct td_rest *rest;
    struct td_exchange *x;
};

/* The deadline of one that waits is its own, where it names one, or that of the loads that it waits for. */
static void set_wait(struct td_rest *rest, struct td_exchange *x)
{
    if ((x->route->traits & WAITS) && td_exchange_header(x, "X-Request-Timeout") == NULL) {
        x->r.run.work.deadline_ns = rest->wait_s > 0 ? td_clock_ns() + (int64_t)(rest->wait_s * 1e9) : 0;
    }
}

static void *apart_main(void *arg)
{
    struct apart *a = arg;
    struct td_rest *rest = a->rest;
    struct td_exchange *x = a->x;
    struct td_err err = {0};
    td_free(a);
    if (!x->r.resumed) {
        set_wait(rest, x);
    }
    const struct td_work *before = td_work_enter(&x->r.run.work);
    err.code = x->route->handler(rest, x, &err);
    td_work_enter(before);
    atomic_fetch_sub(&rest->n_apart, 1); /* before anybody may stop the server */
    if (!waits(rest, x, &err)) {
        answer(x, &err);
    }
    return NULL;
}

/* The thread has the exchange from here on; or it is answered that there are too many. */
static void handle_apart(struct td_rest *rest, struct td_exchange *x)
{
    struct td_err err = {0};
    pthread_t thread;
    struct apart *a = td_calloc(1, sizeof *a);
    const bool room = atomic_fetch_add(&rest->n_apart, 1) < rest->max_apart;
    if (a != NULL && room) {
        *a = (struct apart){rest, x};
        td_exchange_hold(x);
        if (pthread_create(&thread, NULL, apart_main, a) == 0) {
            pthread_detach(thread);
            return;
        }
    }
    atomic_fetch_sub(&rest->n_apart, 1);
    td_free(a);
    (void)td_fail(&err, TD_RESOURCE_EXHAUSTED,
                  "%s %.200s: %d requests that wait for models or run them themselves are under way "
                  "(--max_waiting_commands)",
                  x->method, x->target, rest->max_apart);
    answer(x, &err);
}

/* The handler of a request that is open, and what comes of it. */
static void conduct(void *app, struct td_exchange *x)
{
    struct td_rest *rest = app;
    struct td_err err = {0};
    const struct td_work *before = td_work_enter(&x->r.run.work);
    err.code = x->route->handler(rest, x, &err);
    td_work_enter(before);
    if (err.code != TD_OK && waits(rest, x, &err)) {
        return;
    }
    if (err.code == TD_OK && x->lengthy_ahead) {
        x->lengthy_ahead = false;
        td_exchange_go_on(x, conduct);
    } else if (err.code != TD_OK || x->r.encode == NULL) {
        answer(x, &err);
    } else {
        x->r.thread_ns = td_exchange_is_lone(x) ? TD_RUN_LONE_NS : TD_RUN_BRIEF_NS;
        x->r.queued = on_queued;
        x->r.encode_apart = on_much;
        x->r.done = on_done;
        td_request_start(&x->r, rest->registry);
    }
}

/* A request that is open. */
static void proceed(void *app, struct td_exchange *x)
{
    struct td_rest *rest = app;
    if ((x->route->traits & (APART | WAITS)) && rest->max_apart > 0) {
        handle_apart(rest, x);
    } else {
        conduct(rest, x);
    }
}

void td_rest_handle(void *app, struct td_exchange *x)
{
    struct td_rest *rest = app;
    struct td_err err = {0};
    if (is_v2(x) && !known_encoding(x, &err)) {
        put_error(x, &err);
        x->status = UNSUPPORTED_MEDIA_TYPE;
        td_exchange_finish(x);
        return;
    }
    err.code = x->route == NULL ? no_route(rest, x, &err) : open_request(rest, x, &err);
    if (err.code != TD_OK || x->route == NULL) {
        answer(x, &err);
    } else {
        proceed(rest, x);
    }
}
