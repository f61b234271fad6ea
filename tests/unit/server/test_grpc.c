/* tests/unit/server/test_grpc.c - the gRPC front end over a real socket, with our own C client, on the model
 * of tests/models/tiny.py.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "clients/tensord_client.h"
#include "core/base/arena.h"
#include "kernels/ops.h"
#include "proto/pb/wire.h"
#include "server/grpc/grpc_accept.h"
#include "server/grpc/grpc_impl.h"
#include "server/sched/request.h"
#include "tests/unit/temp_dir.h"

#define PREDICT "/tensorflow.serving.PredictionService/Predict"

static struct td_op_table *ops;
static struct td_registry *registry;
static struct td_grpc *server;
static struct tdc_client *client;
static char target[64];

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* The tiny model as "echo" and as "scores"; and, unless it is NULL, whatever is at broken_path as "broken".
 */
static void start_models(const char *broken_path)
{
    struct td_err err = {0};
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    const struct td_registry_opts opts = {.servable = {.ops = ops}, .load_threads = 1};
    CHECK_OK(td_registry_start(&opts, &registry, &err));
    struct td_label label = {.name = (char *)"stable", .version = 7};
    const struct td_model_config models[] = {
        {.name = (char *)"echo",
         .base_path = (char *)TINY_DIR,
         .n_latest = 1,
         .labels = &label,
         .n_labels = 1},
        {.name = (char *)"scores", .base_path = (char *)TINY_DIR, .n_latest = 1},
        {.name = (char *)"broken", .base_path = (char *)broken_path, .n_latest = 1}};
    CHECK_OK(td_registry_configure(registry, models, broken_path != NULL ? 3 : 2, false, &err));
    while (!td_registry_all_settled(registry)) {
        pause_ms(5);
    }
}

static void start_with(struct td_grpc_opts opts)
{
    struct td_err err = {0};
    int port = 0;
    if (registry == NULL) {
        start_models(NULL);
    }
    opts.address = "127.0.0.1:0";
    opts.health = true;
    CHECK_OK(td_grpc_start(&opts, registry, &server, &port, &err));
    CHECK(port > 0);
    snprintf(target, sizeof target, "127.0.0.1:%d", port);
    struct tdc_error e;
    client = tdc_open(target, NULL, &e);
    CHECK(client != NULL);
    tdc_set_timeout(client, 20);
}

static void start(void)
{
    start_with((struct td_grpc_opts){.threads = 2});
}

static void stop_models(void)
{
    td_registry_stop(registry);
    td_op_table_free(ops);
    registry = NULL;
}

static void stop(void)
{
    tdc_close(client);
    td_grpc_stop(server, 5000);
    stop_models();
}

/* Calls Predict with one float input of n elements. */
static int predict(const char *model, const char *signature, int64_t n, struct tdc_error *e)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)i;
    }
    const struct tdc_tensor in = {
        .name = "x", .dtype = 1, .rank = 1, .dims = {n}, .data = x, .bytes = (size_t)n * 4};
    struct tdc_tensor *out;
    int n_out;
    int64_t version;
    const struct tdc_ask ask = {.model = model, .signature = signature, .inputs = &in, .n_inputs = 1};
    const int rc = tdc_predict(client, &ask, &out, &n_out, &version, e);
    if (rc == 0) {
        CHECK_INT(n_out, 1);
        CHECK_INT(version, 7);
        CHECK_STR(out[0].name, "x");
        CHECK_INT(out[0].dims[0], n);
        CHECK(memcmp(out[0].data, x, (size_t)n * 4) == 0);
        tdc_free(out);
    }
    free(x);
    return rc;
}

TEST(predict_answers)
{
    struct tdc_error e;
    start();
    CHECK_INT(predict("echo", NULL, 3, &e), 0);
    CHECK_INT(predict("echo", NULL, 0, &e), 0);
    CHECK_INT(predict("echo", NULL, 5 << 20, &e), 0); /* 20 MB: over gRPC's own default of 4 */
    stop();
    start_with((struct td_grpc_opts){
        .threads = 1, .content_outputs = true, .channel_arguments = "grpc.max_concurrent_streams=2,odd,a=b"});
    CHECK_INT(predict("echo", NULL, 1000, &e), 0);
    stop();
}

TEST(errors_have_their_codes_and_words)
{
    struct tdc_error e;
    start();
    CHECK_INT(predict("none", NULL, 1, &e), TD_NOT_FOUND);
    CHECK_STR(e.text, "Servable not found for request: Latest(none)");
    CHECK_INT(predict("echo", "s", 1, &e), TD_FAILED_PRECONDITION);
    CHECK_STR(e.text, "Serving signature key \"s\" not found.");
    CHECK_INT(predict("", NULL, 1, &e), TD_INVALID_ARGUMENT);
    void *reply;
    size_t n;
    CHECK_INT(tdc_call(client, PREDICT, "", 0, &reply, &n, &e), TD_INVALID_ARGUMENT);
    CHECK_STR(e.text, "Missing ModelSpec");
    CHECK_INT(tdc_call(client, PREDICT, "\x0a\x05x", 3, &reply, &n, &e), TD_INVALID_ARGUMENT);
    CHECK_INT(tdc_call(client, "/tensorflow.serving.PredictionService/Nothing", "", 0, &reply, &n, &e),
              TD_UNIMPLEMENTED);
    stop();
}

TEST(a_request_above_the_limit_is_refused)
{
    struct tdc_error e;
    start_with((struct td_grpc_opts){.threads = 1, .max_request_bytes = 4096});
    CHECK_INT(predict("echo", NULL, 900, &e), 0);
    CHECK_INT(predict("echo", NULL, 2000, &e), TD_RESOURCE_EXHAUSTED);
    stop();
}

static void *slow_call(void *arg)
{
    struct tdc_error e;
    *(int *)arg = predict("echo", "slow", 1, &e);
    return NULL;
}

struct seen {
    int32_t started, rounds;
};

/* What the model has counted of its loops, without the wire. */
static struct seen watch(void)
{
    struct td_err err = {0};
    struct td_request r = {0};
    td_request_init(&r);
    CHECK_OK(td_request_open(&r, &err));
    r.model = "echo";
    r.signature = "watch";
    CHECK_OK(td_request_run(&r, registry, &err));
    const struct seen seen = {TD_DATA(&r.out[0].t, int32_t)[0], TD_DATA(&r.out[1].t, int32_t)[0]};
    td_request_fini(&r);
    return seen;
}

static void wait_started(int n)
{
    for (int i = 0; i < 1000 && watch().started != n; i++) {
        pause_ms(5);
    }
    CHECK_INT(watch().started, n);
}

/* No loop goes round any more. */
static void wait_idle(void)
{
    for (int i = 0; i < 1000; i++) {
        const int before = watch().rounds;
        pause_ms(20);
        if (watch().rounds == before) {
            return;
        }
    }
    CHECK(!"a loop still goes round");
}

TEST(a_client_that_goes_away_stops_its_request)
{
    struct tdc_error e;
    start();
    tdc_set_timeout(client, 1);
    CHECK_INT(predict("echo", "slow", 1, &e), TD_DEADLINE_EXCEEDED);
    CHECK_INT(watch().started, 1);
    wait_idle();
    stop();
}

/* Two handlers, four slow calls: two run, two wait, and the server still answers questions. */
TEST(status_is_answered_while_all_handlers_compute)
{
    pthread_t t[4];
    int rc[4];
    struct tdc_error e;
    start();
    tdc_set_timeout(client, 3);
    for (int i = 0; i < 4; i++) {
        pthread_create(&t[i], NULL, slow_call, &rc[i]);
    }
    wait_started(2);
    pause_ms(50);
    CHECK_INT(watch().started, 2);
    struct tdc_status *rows;
    int n;
    CHECK_INT(tdc_model_status(client, "echo", &rows, &n, &e), 0);
    CHECK_INT(n, 1);
    CHECK_INT(rows[0].version, 7);
    CHECK_STR(tdc_state_name(rows[0].state), "AVAILABLE");
    tdc_free(rows);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        CHECK_INT(rc[i], TD_DEADLINE_EXCEEDED);
    }
    wait_idle();
    tdc_set_timeout(client, 20);
    CHECK_INT(predict("echo", NULL, 1, &e), 0);
    stop();
}

static int polling(void)
{
    pthread_mutex_lock(&server->polls.mu);
    const int n = server->polls.polling;
    pthread_mutex_unlock(&server->polls.mu);
    return n;
}

/* Small calls one after another until one thread polls. */
static void come_down_to_one(void)
{
    struct tdc_error e;
    for (int i = 0; i < 500 && polling() != 1; i++) {
        CHECK_INT(predict("echo", NULL, 1, &e), 0);
        pause_ms(2);
    }
    CHECK_INT(polling(), 1);
}

/* The one of three threads that polls is followed by another when its call turns out long, and those that are
 * not needed park again. */
TEST(no_more_threads_poll_than_are_needed)
{
    pthread_t t;
    int rc;
    struct tdc_error e;
    start();
    come_down_to_one();
    tdc_set_timeout(client, 3);
    pthread_create(&t, NULL, slow_call, &rc);
    wait_started(1);
    struct tdc_status *rows;
    int n;
    /* the slow one was taken for a short one */
    CHECK_INT(tdc_model_status(client, "echo", &rows, &n, &e), 0);
    tdc_free(rows);
    CHECK_INT(polling(), 1);
    pthread_join(t, NULL);
    CHECK_INT(rc, TD_DEADLINE_EXCEEDED);
    wait_idle();
    tdc_set_timeout(client, 20);
    come_down_to_one();
    stop();
}

TEST(stopping_cancels_what_does_not_drain)
{
    pthread_t t;
    int rc;
    start();
    pthread_create(&t, NULL, slow_call, &rc);
    wait_started(1);
    td_grpc_stop(server, 100);
    pthread_join(t, NULL);
    CHECK(rc != 0);
    wait_idle();
    tdc_close(client);
    stop_models();
}

static int health(const char *name, struct tdc_error *e)
{
    char request[64];
    void *reply;
    size_t n;
    const int len = snprintf(request, sizeof request, "\x0a%c%s", (int)strlen(name), name);
    const int rc = tdc_call(client, "/grpc.health.v1.Health/Check", request, (size_t)len, &reply, &n, e);
    if (rc != 0) {
        return -rc;
    }
    CHECK_INT(n, 2);
    const int status = ((char *)reply)[1];
    tdc_free(reply);
    return status;
}

/* A model whose only version is no model; returns new. */
static struct temp_dir broken_model(void)
{
    struct temp_dir d = temp_dir_make();
    CHECK(mkdir(temp_dir_file(&d, "7").s, 0700) == 0);
    temp_dir_write(&d, "7/saved_model.pb", "\x12\xff", 2);
    return d;
}

TEST(health_follows_the_models)
{
    struct tdc_error e;
    struct temp_dir d = broken_model();
    start_models(d.path);
    start();
    CHECK_INT(health("echo", &e), 1);
    CHECK_INT(health("broken", &e), 2);
    CHECK_INT(health("", &e), 2);
    CHECK_INT(health("none", &e), -TD_NOT_FOUND);
    bool serves = false;
    CHECK(tdc_health(client, "echo", &serves, &e) == 0 && serves);
    CHECK(tdc_health(client, "", &serves, &e) == 0 && !serves);
    CHECK_INT(tdc_health(client, "none", &serves, &e), TD_NOT_FOUND);
    CHECK(symlink(TINY_DIR "/7", temp_dir_file(&d, "8").s) == 0);
    CHECK_INT(tdc_reload(client, "broken", &e), 0);
    CHECK_INT(health("broken", &e), 1);
    CHECK_INT(health("", &e), 1);
    CHECK_INT(health("PredictionService", &e), 1);
    CHECK_INT(health("tensorflow.serving.ModelService", &e), 1);
    char **names;
    CHECK_INT(tdc_models(client, &names, &e), 0);
    CHECK_STR(names[0], "broken");
    CHECK_STR(names[1], "echo");
    CHECK_STR(names[2], "scores");
    CHECK(names[3] == NULL);
    tdc_free(names);
    CHECK_INT(tdc_reload(client, "none", &e), TD_NOT_FOUND);
    stop();
    temp_dir_remove(&d);
}

TEST(status_and_metadata_of_models)
{
    struct tdc_error e;
    struct tdc_status *rows;
    struct tdc_tensor *t;
    int n;
    struct temp_dir d = broken_model();
    start_models(d.path);
    start();
    CHECK_INT(tdc_model_status(client, "broken", &rows, &n, &e), 0);
    CHECK_INT(n, 1);
    CHECK_INT(rows[0].state, TD_STATE_END);
    CHECK_INT(rows[0].code, TD_DATA_LOSS);
    CHECK(strstr(rows[0].text, "cut or malformed bytes") != NULL);
    tdc_free(rows);
    CHECK_INT(tdc_model_status(client, "none", &rows, &n, &e), TD_NOT_FOUND);
    CHECK_INT(tdc_signature(client, "scores", "classify", true, &t, &n, &e), 0);
    CHECK_INT(n, 2);
    CHECK_STR(t[0].name, "classes");
    CHECK_INT(t[0].dtype, 7);
    CHECK_INT(t[0].rank, 2);
    CHECK_INT(t[0].dims[0], -1);
    CHECK_INT(t[0].dims[1], 2);
    tdc_free(t);
    CHECK_INT(tdc_signature(client, "scores", NULL, false, &t, &n, &e), 0);
    CHECK_INT(t[0].rank, -1);
    tdc_free(t);
    stop();
    temp_dir_remove(&d);
}

/* Runs a method on hand-made bytes and compares the bytes of the answer. */
static void exchange(const char *method, const char *request, size_t n, const char *want, size_t n_want)
{
    char path[100];
    void *reply;
    size_t n_reply;
    struct tdc_error e;
    snprintf(path, sizeof path, "/tensorflow.serving.PredictionService/%s", method);
    const int rc = tdc_call(client, path, request, n, &reply, &n_reply, &e);
    if (rc != 0) {
        fprintf(stderr, "%s: %d %s\n", method, rc, e.text);
    }
    CHECK_INT(rc, 0);
    CHECK_INT(n_reply, n_want);
    CHECK(memcmp(reply, want, n_want) == 0);
    tdc_free(reply);
}

#define BYTES(text) (text), sizeof(text) - 1
#define SPEC(signature) "\x0a\x06scores" signature
#define ANSWER_SPEC "\x0a\x06scores\x12\x02\x08\x07"

TEST(classify_and_regress)
{
    struct tdc_error e;
    void *reply;
    size_t n;
    start();
    /* one example "ab", with the context "C" in front of it */
    exchange("Classify",
             BYTES("\x0a\x12" SPEC("\x1a\x08"
                                   "classify") "\x12\x09\x12\x07\x0a\x02"
                                               "ab\x12\x01"
                                               "C"),
             BYTES("\x0a\x1a\x0a\x18\x0a\x0a\x0a\x03"
                   "Cab\x15\x00\x00\x00\x3f\x0a\x0a\x0a\x03"
                   "Cab\x15\x00\x00\xc0\x3f"
                   "\x12\x16" ANSWER_SPEC "\x1a\x08"
                   "classify"));
    exchange("Regress", BYTES("\x0a\x11" SPEC("\x1a\x07regress") "\x12\x07\x0a\x05\x0a\x00\x0a\x01x"),
             BYTES("\x0a\x0e\x0a\x05\x0d\x00\x00\x00\x3f\x0a\x05\x0d\x00\x00\xc0\x3f\x12\x15" ANSWER_SPEC
                   "\x1a\x07regress"));
    CHECK_INT(tdc_call(client, "/tensorflow.serving.PredictionService/Regress",
                       BYTES("\x0a\x11" SPEC("\x1a\x07regress")), &reply, &n, &e),
              TD_INVALID_ARGUMENT);
    CHECK_STR(e.text, "Input is empty.");
    CHECK_INT(tdc_call(client, "/tensorflow.serving.PredictionService/Classify",
                       BYTES("\x0a\x0b" SPEC("\x1a\x01s")), &reply, &n, &e),
              TD_INVALID_ARGUMENT);
    CHECK_STR(e.text, "No signature was found with the name: s");
    stop();
}

TEST(a_taken_port_is_an_error)
{
    struct td_err err = {0};
    struct td_grpc *second;
    int port;
    start();
    const struct td_grpc_opts opts = {.address = target};
    CHECK_INT(td_grpc_start(&opts, registry, &second, &port, &err), TD_UNAVAILABLE);
    CHECK(strstr(err.msg, target) != NULL);
    stop();
}

TEST(a_socket_file_is_replaced)
{
    struct td_err err = {0};
    struct tdc_error e;
    char path[64], uri[80];
    snprintf(path, sizeof path, "/tmp/td_test_grpc.%d.sock", (int)getpid());
    snprintf(uri, sizeof uri, "unix:%s", path);
    const struct td_grpc_opts opts = {.unix_socket = path, .threads = 1};
    int port;
    start_models(NULL);
    CHECK_OK(td_grpc_start(&opts, registry, &server, &port, &err));
    struct td_grpc *second;
    CHECK_OK(td_grpc_start(&opts, registry, &second, &port, &err)); /* the latest has the name */
    client = tdc_open(uri, NULL, &e);
    CHECK_INT(predict("echo", NULL, 2, &e), 0);
    td_grpc_stop(second, 1000);
    stop();
    unlink(path);
}

TEST(a_reload_replaces_the_models)
{
    struct tdc_error e;
    void *reply;
    size_t n;
    const char *path = "/tensorflow.serving.ModelService/HandleReloadConfigRequest";
    start();
    struct td_sink config = {.limit = 0};
    struct td_err err = {0};
    CHECK_OK(td_put_text(&config, 1, "m", &err));
    CHECK_OK(td_put_text(&config, 2, TINY_DIR, &err));
    CHECK_OK(td_put_text(&config, 4, "tensorflow", &err));
    for (int i = 0; i < 3; i++) { /* config { model_config_list { config { ... } } } */
        CHECK_OK(td_put_end(&config, 1, 0, &err));
    }
    CHECK_INT(tdc_call(client, path, config.p, config.n, &reply, &n, &e), 0);
    tdc_free(reply);
    td_sink_fini(&config);
    CHECK_INT(predict("m", NULL, 1, &e), 0);
    CHECK_INT(predict("echo", NULL, 1, &e), TD_NOT_FOUND);
    CHECK_INT(tdc_call(client, path, BYTES("\x0a\x0b\x0a\x09\x0a\x07\x0a\x01m\x12\x02/m"), &reply, &n, &e),
              TD_INVALID_ARGUMENT);
    CHECK(strstr(e.text, "neither model_type nor model_platform") != NULL);
    CHECK_INT(tdc_call(client, path, "", 0, &reply, &n, &e), TD_INVALID_ARGUMENT);
    stop();
}

/* A raw connection to the server; *own is its end's address. */
static int connected(struct sockaddr_storage *own)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((uint16_t)strtol(strrchr(target, ':') + 1, NULL, 10));
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    socklen_t n = sizeof *own;
    CHECK_INT(getsockname(fd, (struct sockaddr *)own, &n), 0);
    return fd;
}

/* Reads until the server has closed it, or for two seconds. */
static bool is_closed(int fd)
{
    char bytes[4096];
    const struct timeval wait = {.tv_sec = 2};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    for (ssize_t n = 1; n > 0;) {
        n = read(fd, bytes, sizeof bytes);
        if (n <= 0) {
            return n == 0 || errno == ECONNRESET;
        }
    }
    return false;
}

TEST(a_connection_that_is_cut_ends_and_no_other)
{
    struct td_connections *connections;
    struct td_connections_counts counts;
    struct td_err err = {0};
    struct tdc_error e;
    CHECK_OK(td_connections_new(100, 100, &connections, &err));
    start_with((struct td_grpc_opts){.threads = 1, .connections = connections});
    CHECK_INT(predict("echo", NULL, 1, &e), 0);
    struct sockaddr_storage one, two;
    const int fds[2] = {connected(&one), connected(&two)};
    for (int i = 0; i < 1000; i++) { /* until both were accepted */
        td_connections_count(connections, &counts);
        if (counts.open == 3) {
            break;
        }
        pause_ms(5);
    }
    CHECK_INT(counts.by_wire[TD_CONNECTION_GRPC], 3);
    td_accept_cut(server->accept, &one);
    CHECK(is_closed(fds[0]));
    CHECK_INT(predict("echo", NULL, 1, &e), 0);
    CHECK_INT(send(fds[1], "PRI", 3, MSG_NOSIGNAL), 3);
    td_accept_cut(server->accept, &two);
    CHECK(is_closed(fds[1]));
    close(fds[0]);
    close(fds[1]);
    stop();
    td_connections_free(connections);
}

TEST_MAIN(RUN(a_connection_that_is_cut_ends_and_no_other) RUN(predict_answers)
              RUN(errors_have_their_codes_and_words) RUN(a_request_above_the_limit_is_refused)
                  RUN(a_client_that_goes_away_stops_its_request)
                      RUN(status_is_answered_while_all_handlers_compute)
                          RUN(no_more_threads_poll_than_are_needed) RUN(stopping_cancels_what_does_not_drain)
                              RUN(health_follows_the_models) RUN(status_and_metadata_of_models)
                                  RUN(classify_and_regress) RUN(a_taken_port_is_an_error)
                                      RUN(a_socket_file_is_replaced) RUN(a_reload_replaces_the_models))
