/* tests/unit/server/test_http_parts.c - bodies and answers that come and go in parts, on a listener whose
 * whole bodies have 100,000 bytes at most.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/http.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "core/base/mem.h"
#include "tests/unit/server/http_client.h"

enum { UPLOAD = 3000000, LIMIT = 100000 };

static atomic_int n_open, n_closed; /* readers and streams */
static atomic_long largest;

/* ------------------------------------------------------------------ the application */

struct sum {
    struct td_body_reader reader;
    size_t n, at_most;
    uint64_t sum;
};

static uint64_t add(uint64_t sum, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum = sum * 31 + (unsigned char)bytes[i];
    }
    return sum;
}

static void put(struct td_body_reader *b, const char *bytes, size_t n)
{
    struct sum *s = (struct sum *)b;
    CHECK(!b->refused);
    s->sum = add(s->sum, bytes, n);
    s->n += n;
    if ((long)n > atomic_load(&largest)) {
        atomic_store(&largest, (long)n);
    }
    b->refused = s->n > s->at_most;
}

static void close_sum(struct td_body_reader *b)
{
    atomic_fetch_add(&n_closed, 1);
    td_free(b);
}

static void begin(void *app, struct td_exchange *x)
{
    (void)app;
    if (strncmp(x->target, "/up", 3) == 0) {
        struct sum *s = td_calloc(1, sizeof *s);
        s->reader = (struct td_body_reader){.put = put, .close = close_sum};
        s->at_most = strcmp(x->target, "/up/small") == 0 ? LIMIT : SIZE_MAX;
        s->reader.refused = strcmp(x->target, "/up/never") == 0;
        x->reader = &s->reader;
        atomic_fetch_add(&n_open, 1);
    }
}

struct count {
    struct td_answer_stream stream;
    int at, last, n_idle;
    atomic_int allowed; /* numbers that may be told */
};
static _Atomic(struct count *) counting; /* the one under way */
static atomic_uintptr_t counting_x;

static enum td_stream_state next_number(struct td_answer_stream *t, bool idle, struct td_sink *out)
{
    struct count *c = (struct count *)t;
    struct td_err err = {0};
    char text[40];
    CHECK_INT(out->n, 0);
    if (c->at >= atomic_load(&c->allowed)) {
        c->n_idle += idle;
        CHECK_OK(idle ? td_sink_put(out, "idle,", 5, &err) : TD_OK);
        return TD_STREAM_WAIT;
    }
    const int n = snprintf(text, sizeof text, "%d,", ++c->at);
    CHECK_OK(td_sink_put(out, text, (size_t)n, &err));
    return c->at == c->last ? TD_STREAM_END : TD_STREAM_MORE;
}

static void close_count(struct td_answer_stream *t)
{
    atomic_fetch_add(&n_closed, 1);
    td_free(t);
}

static void open_count(struct td_exchange *x, int allowed, int64_t idle_ms)
{
    struct count *c = td_calloc(1, sizeof *c);
    c->stream = (struct td_answer_stream){.next = next_number, .close = close_count, .idle_ms = idle_ms};
    c->last = 1000;
    atomic_store(&c->allowed, allowed);
    atomic_store(&counting, c);
    atomic_store(&counting_x, (uintptr_t)x);
    atomic_fetch_add(&n_open, 1);
    x->stream = &c->stream;
    x->content_type = "text/plain";
}

static void give_file(struct td_exchange *x, int64_t bytes)
{
    char path[] = "/tmp/tensord-parts.XXXXXX";
    char block[10000];
    x->file.fd = mkstemp(path);
    CHECK(x->file.fd >= 0);
    unlink(path);
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof block) {
        memset(block, (int)(at / (int64_t)sizeof block) + 1, sizeof block);
        CHECK_INT(pwrite(x->file.fd, block, sizeof block, at), sizeof block);
    }
    x->file.given = true;
    x->file.bytes = bytes;
}

static void handle(void *app, struct td_exchange *x)
{
    struct td_err err = {0};
    char text[100] = "";
    (void)app;
    if (x->reader != NULL) {
        const struct sum *s = (struct sum *)x->reader;
        CHECK_STR(x->body, "");
        x->status = s->reader.refused ? 400 : 200;
        (void)snprintf(text, sizeof text, "%zu %llx", s->n, (unsigned long long)s->sum);
    } else if (strncmp(x->target, "/count", 6) == 0) {
        open_count(x, x->target[6] == '/' ? 1000 : 1, x->target[6] == '?' ? 100 : 60000);
    } else if (strncmp(x->target, "/file/", 6) == 0) {
        give_file(x, strtoll(x->target + 6, NULL, 10));
    }
    CHECK_OK(td_sink_put(&x->out, text, strlen(text), &err));
    td_exchange_finish(x);
}

static enum td_quickness route(void *app, struct td_exchange *x)
{
    (void)app;
    (void)x;
    return true;
}

static void fail(void *app, struct td_exchange *x, const struct td_err *err)
{
    (void)app;
    x->status = td_code_http(err->code);
}

/* ------------------------------------------------------------------ a client */

static int port;

static struct td_http *start(void)
{
    struct td_http *h = NULL;
    struct td_err err = {0};
    const struct td_http_opts opts = {.bind_address = "127.0.0.1",
                                      .threads = 2,
                                      .max_request_bytes = LIMIT,
                                      .begin = begin,
                                      .handle = handle,
                                      .route = route,
                                      .fail = fail};
    signal(SIGPIPE, SIG_IGN);
    atomic_store(&n_open, 0);
    atomic_store(&n_closed, 0);
    CHECK_OK(td_http_start(&opts, &h, &port, &err));
    return h;
}

static int dial(void)
{
    return dial_port(port);
}

/* Reads until the words have come, or the end: all that was read. */
static const char *hear(int fd, const char *words)
{
    static char all[100000];
    size_t n = 0;
    all[0] = '\0';
    while (n < sizeof all - 1 && strstr(all, words) == NULL) {
        const ssize_t r = recv(fd, all + n, sizeof all - 1 - n, 0);
        if (r <= 0) {
            break;
        }
        n += (size_t)r;
        all[n] = '\0';
    }
    return all;
}

static bool closed_within(int n, int ms)
{
    for (int i = 0; i < ms && atomic_load(&n_closed) < n; i++) {
        usleep(1000);
    }
    return atomic_load(&n_closed) == n;
}

static char upload[UPLOAD];

static const char *fill_upload(void)
{
    static char want[100];
    for (int i = 0; i < UPLOAD; i++) {
        upload[i] = (char)(i * 7 + i / 251);
    }
    (void)snprintf(want, sizeof want, "%d %llx", UPLOAD, (unsigned long long)add(0, upload, UPLOAD));
    return want;
}

/* ------------------------------------------------------------------ bodies */

static void ask_upload(int fd, const char *target, const char *more)
{
    char head[200];
    const int n = snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n",
                           target, UPLOAD, more);
    CHECK(say(fd, head, (size_t)n));
}

TEST(a_body_of_any_size_is_read_in_parts)
{
    struct td_http *h = start();
    const char *want = fill_upload();
    const int fd = dial();
    for (int i = 0; i < 2; i++) { /* the connection is kept */
        ask_upload(fd, "/up", "");
        CHECK(say(fd, upload, UPLOAD));
        const char *got = hear(fd, want);
        CHECK(strncmp(got, "HTTP/1.1 200", 12) == 0 && strstr(got, want) != NULL);
    }
    const char *chunked = "POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    CHECK(say(fd, chunked, strlen(chunked)));
    for (int at = 0, n; at < UPLOAD; at += n) {
        char size[20];
        n = UPLOAD - at < 70001 ? UPLOAD - at : 70001;
        CHECK(say(fd, size, (size_t)snprintf(size, sizeof size, "%x\r\n", n)));
        CHECK(say(fd, upload + at, (size_t)n) && say(fd, "\r\n", 2));
    }
    CHECK(say(fd, "0\r\n\r\n", 5));
    CHECK(strstr(hear(fd, want), want) != NULL);
    CHECK(closed_within(3, 2000));
    CHECK(atomic_load(&largest) > LIMIT && atomic_load(&largest) < 400000);
    close(fd);
    CHECK(td_http_stop(h, 1000));
}

TEST(who_sends_what_is_refused_hears_it)
{
    struct td_http *h = start();
    (void)fill_upload();
    int fd = dial();
    ask_upload(fd, "/up/small", ""); /* in the middle: the rest is dropped, then the answer */
    CHECK(say(fd, upload, UPLOAD));
    CHECK(strncmp(hear(fd, "\r\n\r\n"), "HTTP/1.1 400", 12) == 0);
    close(fd);
    fd = dial();
    ask_upload(fd, "/up/never", "Expect: 100-continue\r\n"); /* before it is sent */
    CHECK(strncmp(hear(fd, "\r\n\r\n"), "HTTP/1.1 400", 12) == 0);
    close(fd);
    fd = dial();
    ask_upload(fd, "/up", "Expect: 100-continue\r\n");
    CHECK(strncmp(hear(fd, "\r\n\r\n"), "HTTP/1.1 100", 12) == 0);
    CHECK(say(fd, upload, UPLOAD));
    CHECK(strncmp(hear(fd, "\r\n\r\n"), "HTTP/1.1 200", 12) == 0);
    close(fd);
    CHECK(closed_within(3, 2000));
    CHECK(td_http_stop(h, 1000));
}

TEST(a_client_that_vanishes_takes_its_reader_along)
{
    struct td_http *h = start();
    const int fd = dial();
    ask_upload(fd, "/up", "");
    CHECK(say(fd, upload, UPLOAD / 2));
    close(fd);
    CHECK(closed_within(1, 5000));
    CHECK_INT(atomic_load(&n_open), 1);
    CHECK(td_http_stop(h, 1000));
}

static void *send_for_ever(void *fd)
{
    while (say(*(int *)fd, upload, 1000)) {
    }
    return NULL;
}

TEST(stopping_does_not_wait_for_a_long_upload)
{
    struct td_http *h = start();
    int fd = dial();
    pthread_t t;
    char head[] = "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n";
    CHECK(say(fd, head, sizeof head - 1));
    CHECK_INT(pthread_create(&t, NULL, send_for_ever, &fd), 0);
    usleep(200000);
    const time_t from = time(NULL);
    CHECK(td_http_stop(h, 20000));
    CHECK(time(NULL) - from <= 5);
    pthread_join(t, NULL);
    close(fd);
    CHECK_INT(atomic_load(&n_closed), 1);
}

/* ------------------------------------------------------------------ answers */

static int follow(const char *target, const char *words)
{
    char ask[200];
    const int fd = dial(), n = snprintf(ask, sizeof ask, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target);
    CHECK(say(fd, ask, (size_t)n));
    CHECK(strstr(hear(fd, words), words) != NULL);
    return fd;
}

/* Nothing comes for a while. */
static bool silent(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 0;
}

TEST(a_stream_sleeps_until_it_is_woken)
{
    struct td_http *h = start();
    const int fd = follow("/count", "\r\n1,\r\n");
    CHECK(silent(fd, 200));
    for (int i = 2; i <= 20; i++) {
        char words[20];
        atomic_store(&atomic_load(&counting)->allowed, i);
        td_exchange_wake((struct td_exchange *)atomic_load(&counting_x));
        (void)snprintf(words, sizeof words, "\r\n%d,\r\n", i);
        CHECK(strstr(hear(fd, words), words) != NULL);
    }
    CHECK(silent(fd, 100));
    atomic_store(&atomic_load(&counting)->allowed, 1000);
    td_exchange_wake((struct td_exchange *)atomic_load(&counting_x));
    CHECK(strstr(hear(fd, "\r\n0\r\n\r\n"), "1000,\r\n0\r\n\r\n") != NULL);
    close(fd);
    CHECK(closed_within(1, 2000));
    CHECK(td_http_stop(h, 1000));
}

TEST(a_stream_that_is_idle_is_asked_now_and_then)
{
    struct td_http *h = start();
    const int fd = follow("/count?", "1,");
    CHECK(strstr(hear(fd, "idle,"), "idle,") != NULL);
    CHECK(strstr(hear(fd, "idle,"), "idle,") != NULL);
    close(fd);
    CHECK(closed_within(1, 2000));
    CHECK(td_http_stop(h, 1000));
}

TEST(followers_hold_no_threads_and_leave_when_they_like)
{
    enum { MANY = 50 };
    struct td_http *h = start(); /* with two workers */
    int fd[MANY];
    for (int i = 0; i < MANY; i++) {
        fd[i] = follow("/count", "1,");
    }
    close(follow("/count/all", "\r\n0\r\n\r\n")); /* who has something to say is heard */
    for (int i = 0; i < MANY; i++) {
        close(fd[i]);
    }
    CHECK(closed_within(MANY + 1, 5000));
    CHECK(td_http_stop(h, 1000));
}

TEST(stopping_ends_streams)
{
    struct td_http *h = start();
    const int fd = follow("/count", "1,");
    const time_t from = time(NULL);
    CHECK(td_http_stop(h, 20000));
    CHECK(time(NULL) - from <= 3);
    CHECK_INT(atomic_load(&n_closed), 1);
    CHECK(strstr(hear(fd, "\r\n0\r\n\r\n"), "0\r\n\r\n") != NULL);
    close(fd);
}

TEST(a_file_is_sent_as_it_is_read)
{
    struct td_http *h = start();
    int fd = follow("/file/0", "\r\n\r\n");
    close(fd);
    fd = follow("/file/5000000", "\r\n\r\n"); /* the rest is read slowly, or not at all */
    char block[9999];
    size_t n = 0;
    for (ssize_t r = 1; r > 0 && n < 4000000; n += (size_t)r) {
        r = recv(fd, block, sizeof block, 0);
        CHECK(r > 0);
        usleep(100);
    }
    close(follow("/file/10000", "attachment")); /* others are answered meanwhile */
    close(fd);
    CHECK(td_http_stop(h, 2000));
}

TEST_MAIN(RUN(a_body_of_any_size_is_read_in_parts) RUN(who_sends_what_is_refused_hears_it)
              RUN(a_client_that_vanishes_takes_its_reader_along) RUN(stopping_does_not_wait_for_a_long_upload)
                  RUN(a_stream_sleeps_until_it_is_woken) RUN(a_stream_that_is_idle_is_asked_now_and_then)
                      RUN(followers_hold_no_threads_and_leave_when_they_like) RUN(stopping_ends_streams)
                          RUN(a_file_is_sent_as_it_is_read))
