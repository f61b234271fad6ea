/* tests/unit/server/test_http.c - the HTTP listener with a handler that echoes what it saw.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/http.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <zlib.h>

#include "tests/unit/server/http_client.h"

static atomic_int n_stopped, n_running, n_lengthy;
static atomic_bool lengthy_may_end;

static void be_lengthy(void *app, struct td_exchange *x)
{
    (void)app;
    CHECK(td_exchange_is_lengthy(x));
    atomic_fetch_add(&n_lengthy, 1);
    while (!atomic_load(&lengthy_may_end) && atomic_load(&x->r.stop) == 0) {
        usleep(1000);
    }
    td_exchange_finish(x);
}

/* /echo answers with method, target and body; /sleep waits until told to stop, at most 5 s; /lengthy until
 * all of its like may end. */
static void handle(void *app, struct td_exchange *x)
{
    struct td_err err = {0};
    (void)app;
    if (strcmp(x->target, "/lengthy") == 0) {
        CHECK(!td_exchange_is_lengthy(x));
        td_exchange_go_on(x, be_lengthy);
        return;
    }
    if (strcmp(x->target, "/sleep") == 0) {
        atomic_fetch_add(&n_running, 1);
        for (int i = 0; i < 500 && atomic_load(&x->r.stop) == 0; i++) {
            usleep(10000);
        }
        atomic_fetch_add(&n_stopped, atomic_load(&x->r.stop) != 0);
    }
    CHECK_OK(td_sink_put(&x->out, x->method, strlen(x->method), &err));
    CHECK_OK(td_sink_put(&x->out, " ", 1, &err));
    CHECK_OK(td_sink_put(&x->out, x->target, strlen(x->target), &err));
    CHECK_OK(td_sink_put(&x->out, " ", 1, &err));
    CHECK_OK(td_sink_put(&x->out, x->body, x->body_len, &err));
    CHECK_INT(x->body[x->body_len], 0);
    td_exchange_finish(x);
}

static enum td_quickness route(void *app, struct td_exchange *x)
{
    (void)app;
    return strcmp(x->target, "/sleep") == 0 || strcmp(x->target, "/worker") == 0 ? TD_QUICKNESS_SLOW
                                                                                 : TD_QUICKNESS_MEASURED;
}

static void fail(void *app, struct td_exchange *x, const struct td_err *err)
{
    struct td_err ignored = {0};
    (void)app;
    x->status = td_code_http(err->code);
    CHECK_INT(td_sink_put(&x->out, err->msg, strlen(err->msg), &ignored), TD_OK);
}

static int port;

static struct td_http *start(void)
{
    struct td_http *h = NULL;
    struct td_err err = {0};
    const struct td_http_opts opts = {.bind_address = "127.0.0.1",
                                      .threads = 2,
                                      .max_request_bytes = 100000,
                                      .times = {.head_s = 1, .idle_s = 1, .body_s = 1, .bytes_per_s = 100000},
                                      .max_headers = 20,
                                      .handle = handle,
                                      .route = route,
                                      .fail = fail,
                                      .cors = true};
    signal(SIGPIPE, SIG_IGN);
    CHECK_OK(td_http_start(&opts, &h, &port, &err));
    return h;
}

static int dial(void)
{
    return dial_port(port);
}

/* One answer with a Content-Length: its status, its body in buf. 0 when the connection ended. */
static int answer(int fd, char *buf, size_t room)
{
    char head[4096];
    size_t n = 0;
    while (n < sizeof head - 1 && (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0)) {
        if (recv(fd, head + n, 1, 0) != 1) {
            return 0;
        }
        n++;
    }
    head[n] = '\0';
    const char *length = strcasestr(head, "content-length:");
    const size_t size = length != NULL ? strtoul(length + 15, NULL, 10) : 0;
    CHECK(size < room);
    for (size_t at = 0; at < size;) {
        const ssize_t r = recv(fd, buf + at, size - at, 0);
        CHECK(r > 0);
        at += (size_t)r;
    }
    buf[size] = '\0';
    CHECK(strstr(head, "Access-Control-Allow-Origin: *") != NULL);
    return (int)strtol(head + 9, NULL, 10);
}

TEST(targets_arrive_as_sent_and_connections_are_kept)
{
    struct td_http *h = start();
    const int fd = dial();
    char body[1000];
    for (int i = 0; i < 3; i++) { /* first on a worker, then on the reading thread */
        const char *ask = "GET /a%2Fb%3Ac?q=1 HTTP/1.1\r\nHost: x\r\n\r\n";
        say(fd, ask, strlen(ask));
        CHECK_INT(answer(fd, body, sizeof body), 200);
        CHECK_STR(body, "GET /a%2Fb%3Ac?q=1 ");
        ask = "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
        say(fd, ask, strlen(ask));
        CHECK_INT(answer(fd, body, sizeof body), 200);
        CHECK_STR(body, "POST /p hello");
        ask = "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
              "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        say(fd, ask, strlen(ask));
        CHECK_INT(answer(fd, body, sizeof body), 200);
        CHECK_STR(body, "POST /c abcde");
    }
    const int64_t from = time(NULL);
    CHECK(td_http_stop(h, 10000)); /* the idle connection does not hold it up */
    CHECK(time(NULL) - from <= 2);
    close(fd);
}

TEST(bodies_above_the_limit_are_refused)
{
    struct td_http *h = start();
    char body[1000];
    int fd = dial();
    const char *ask = "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n";
    say(fd, ask, strlen(ask));
    CHECK_INT(answer(fd, body, sizeof body), 413);
    CHECK(strstr(body, "max_request_bytes") != NULL);
    close(fd);
    fd = dial(); /* without a length */
    ask = "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n19000\r\n";
    say(fd, ask, strlen(ask));
    static char zeros[0x19000];
    say(fd, zeros, sizeof zeros);
    say(fd, "\r\n0\r\n\r\n", 7);
    CHECK_INT(answer(fd, body, sizeof body), 413);
    close(fd);
    CHECK(td_http_stop(h, 1000));
}

static size_t deflate_gzip(const char *in, size_t n, char *out, size_t room)
{
    z_stream z = {0};
    CHECK_INT(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)in;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)room;
    CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static int post_gzip(const char *bytes, size_t n, char *body, size_t room)
{
    char head[200];
    const int fd = dial();
    say(fd, head,
        (size_t)snprintf(
            head, sizeof head,
            "POST /z HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", n));
    say(fd, bytes, n);
    const int status = answer(fd, body, room);
    close(fd);
    return status;
}

TEST(gzip_bodies_are_inflated_within_the_limit)
{
    struct td_http *h = start();
    static char body[200000], packed[20000], zeros[100001];
    size_t n = deflate_gzip("hello hello hello", 17, packed, sizeof packed);
    CHECK_INT(post_gzip(packed, n, body, sizeof body), 200);
    CHECK_STR(body, "POST /z hello hello hello");
    CHECK_INT(post_gzip("no gzip", 7, body, sizeof body), 400);
    CHECK_INT(post_gzip(packed, n / 2, body, sizeof body), 400);
    n = deflate_gzip(zeros, sizeof zeros, packed, sizeof packed);
    CHECK(n < 1000);
    CHECK_INT(post_gzip(packed, n, body, sizeof body), 413);
    CHECK(td_http_stop(h, 1000));
}

TEST(a_client_that_leaves_stops_its_request)
{
    struct td_http *h = start();
    const int fd = dial();
    const char *ask = "GET /sleep HTTP/1.1\r\nHost: x\r\n\r\n";
    say(fd, ask, strlen(ask));
    while (atomic_load(&n_running) == 0) {
        usleep(1000);
    }
    close(fd);
    for (int i = 0; i < 200 && atomic_load(&n_stopped) == 0; i++) {
        usleep(10000);
    }
    CHECK_INT(atomic_load(&n_stopped), 1);
    CHECK(td_http_stop(h, 5000));
}

TEST(long_requests_do_not_hold_up_short_ones)
{
    struct td_http *h = start();
    char body[1000];
    const int slow = dial(); /* one of the two workers stays free */
    const char *sleeper = "GET /sleep HTTP/1.1\r\nHost: x\r\n\r\n";
    say(slow, sleeper, strlen(sleeper));
    while (atomic_load(&n_running) == 0) {
        usleep(1000);
    }
    const int fd = dial();
    for (int i = 0; i < 50; i++) {
        const char *ask = "GET /quick HTTP/1.1\r\nHost: x\r\n\r\n";
        say(fd, ask, strlen(ask));
        CHECK_INT(answer(fd, body, sizeof body), 200);
    }
    CHECK_INT(atomic_load(&n_stopped), 0);
    CHECK(td_http_stop(h, 100)); /* past the drain time the sleeper is told to stop */
    CHECK_INT(atomic_load(&n_stopped), 1);
    close(fd);
    close(slow);
}

TEST(lengthy_requests_leave_workers_for_others)
{
    struct td_http *h = start();
    char body[1000];
    int many[4];
    for (int i = 0; i < 4; i++) { /* one of the two workers may be at them */
        many[i] = dial();
        const char *ask = "GET /lengthy HTTP/1.1\r\nHost: x\r\n\r\n";
        say(many[i], ask, strlen(ask));
    }
    const int fd = dial();
    for (int i = 0; i < 50; i++) {
        const char *ask = "GET /worker HTTP/1.1\r\nHost: x\r\n\r\n";
        say(fd, ask, strlen(ask));
        CHECK_INT(answer(fd, body, sizeof body), 200);
    }
    while (atomic_load(&n_lengthy) == 0) {
        usleep(1000);
    }
    usleep(20000);
    CHECK_INT(atomic_load(&n_lengthy), 1);
    atomic_store(&lengthy_may_end, true);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(answer(many[i], body, sizeof body), 200);
        close(many[i]);
    }
    CHECK_INT(atomic_load(&n_lengthy), 4);
    close(fd);
    CHECK(td_http_stop(h, 5000));
}

TEST(what_waits_is_told_to_stop_too)
{
    struct td_http *h = start();
    char body[1000];
    int many[4];
    atomic_store(&n_lengthy, 0);
    atomic_store(&lengthy_may_end, false);
    for (int i = 0; i < 4; i++) {
        many[i] = dial();
        const char *ask = "GET /lengthy HTTP/1.1\r\nHost: x\r\n\r\n";
        say(many[i], ask, strlen(ask));
    }
    while (atomic_load(&n_lengthy) == 0) {
        usleep(1000);
    }
    usleep(100000);
    CHECK(td_http_stop(h, 50));
    CHECK_INT(atomic_load(&n_lengthy), 4);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(answer(many[i], body, sizeof body), 200);
        close(many[i]);
    }
}

static void *stop_main(void *h)
{
    CHECK(td_http_stop(h, 5000));
    return NULL;
}

TEST(stopping_lets_open_requests_finish)
{
    struct td_http *h = start();
    const int fd = dial();
    char body[1000];
    const char *ask = "POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab";
    say(fd, ask, strlen(ask));
    usleep(100000);
    pthread_t t;
    CHECK_INT(pthread_create(&t, NULL, stop_main, h), 0);
    usleep(100000);
    say(fd, "cd", 2);
    CHECK_INT(answer(fd, body, sizeof body), 200);
    CHECK_STR(body, "POST /late abcd");
    pthread_join(t, NULL);
    close(fd);
}

/* All that comes back on one connection until the server ends it; false: it does not, within 10 s. */
static bool converse(const char *ask, char *buf, size_t room)
{
    const int fd = dial();
    size_t n = 0;
    say(fd, ask, strlen(ask));
    ssize_t r;
    while ((r = recv(fd, buf + n, room - 1 - n, 0)) > 0 && n + (size_t)r < room - 1) {
        n += (size_t)r;
    }
    buf[n] = '\0';
    close(fd);
    return r == 0;
}

TEST(heads_with_two_meanings_are_refused_and_end_their_connection)
{
    static const struct {
        const char *head, *status;
    } cases[] = {{"Host: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", "HTTP/1.1 400"},
                 {"Host: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n", "HTTP/1.1 400"},
                 {"Host: x\r\nTransfer-Encoding: xchunked\r\n", "HTTP/1.1 501"},
                 {"Host: x\r\nContent-Length : 1\r\n", "HTTP/1.1 400"},
                 {"Host: x\r\nHost: x\r\n", "HTTP/1.1 400"},
                 {"", "HTTP/1.1 400"}};
    struct td_http *h = start();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char ask[500], buf[4000];
        (void)snprintf(ask, sizeof ask, "POST /a HTTP/1.1\r\n%s\r\nxGET /b HTTP/1.1\r\nHost: x\r\n\r\n",
                       cases[i].head);
        CHECK(converse(ask, buf, sizeof buf));
        CHECK(strncmp(buf, cases[i].status, strlen(cases[i].status)) == 0);
        CHECK(strstr(buf, "/b") == NULL);
    }
    CHECK(td_http_stop(h, 5000));
}

TEST(clients_have_their_time_and_no_more)
{
    static const char *const halves[] = {"POST /a HTTP/1.1\r\nHost: x\r\n",
                                         "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"};
    char buf[4000];
    struct td_http *h = start();
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
        CHECK(converse(halves[i], buf, sizeof buf));
        CHECK(strncmp(buf, "HTTP/1.1 408", 12) == 0);
    }
    CHECK(converse("", buf, sizeof buf)); /* nothing was asked: nothing is answered */
    CHECK_STR(buf, "");
    CHECK(converse("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", buf, sizeof buf)); /* idle then */
    CHECK(strncmp(buf, "HTTP/1.1 200", 12) == 0);
    CHECK(td_http_stop(h, 5000));
}

TEST(a_taken_port_fails)
{
    struct td_http *h = start(), *other = NULL;
    struct td_err err = {0};
    const struct td_http_opts opts = {
        .bind_address = "127.0.0.1", .port = port, .handle = handle, .route = route, .fail = fail};
    CHECK_INT(td_http_start(&opts, &other, &port, &err), TD_UNAVAILABLE);
    CHECK(td_http_stop(h, 1000));
}

TEST_MAIN(RUN(targets_arrive_as_sent_and_connections_are_kept) RUN(bodies_above_the_limit_are_refused)
              RUN(gzip_bodies_are_inflated_within_the_limit) RUN(a_client_that_leaves_stops_its_request)
                  RUN(long_requests_do_not_hold_up_short_ones) RUN(lengthy_requests_leave_workers_for_others)
                      RUN(what_waits_is_told_to_stop_too) RUN(stopping_lets_open_requests_finish)
                          RUN(heads_with_two_meanings_are_refused_and_end_their_connection)
                              RUN(clients_have_their_time_and_no_more) RUN(a_taken_port_fails))
