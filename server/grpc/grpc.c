/* server/grpc/grpc.c - makes the gRPC server, its threads and its end.
 *
 * All threads take events from one completion queue (grpc_poll.c). There is one more of them than inference
 * handlers may run at once, so one can always read. Every method is registered, and listened for by calls
 * that wait to be filled: several for inference, so that a burst is taken in without a step in between, one
 * for each of the rest. Our settings of the channel come first, then those of the command line, then the
 * limits of requests, which stay ours.
 *
 * Stopping: the server takes no new calls and sends its clients away (GOAWAY); when the last call is gone, or
 * the drain time is over and all calls were cancelled, the `down` event comes; then the queue is shut down
 * and the threads leave. A failed start goes the same way, with this thread taking the last events.
 *
 * Locks: g->mu guards the state of stopping and what handlers wait for; see grpc_impl.h. Does not: carry
 * calls (grpc_call.c, grpc_stream.c), know what a method means (grpc_methods.c and the files of its
 * handlers).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/grpc/grpc_impl.h"

/* Calls of one method that wait to be filled: a burst is taken in without a step in between. */
#define LISTENING_INFER 16
#define LISTENING_OTHER 1
#define MAX_ARGUMENTS 64
/* Large tensors are what we carry: fewer frames, and a window that one of them fills less often. */
#define LARGE_FRAME (1 << 20)
#define LOOKAHEAD (4 << 20)

static void step_down(void *owner, bool ok)
{
    struct td_grpc *g = owner;
    (void)ok;
    pthread_mutex_lock(&g->mu);
    g->is_down = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
}

bool td_grpc_opened(struct td_grpc *g)
{
    pthread_mutex_lock(&g->mu);
    bool ok = !g->closed;
    atomic_fetch_add(&g->open, ok);
    pthread_mutex_unlock(&g->mu);
    return ok;
}

/* On a polling thread, or on one that `slow` counts: g outlives both. */
void td_grpc_closed(struct td_grpc *g)
{
    if (atomic_fetch_sub(&g->open, 1) == 1 && atomic_load(&g->stopping)) {
        pthread_mutex_lock(&g->mu);
        pthread_cond_broadcast(&g->changed);
        pthread_mutex_unlock(&g->mu);
    }
}

/* gRPC's own log lines are details of transports that come and go. */
static void grpc_log(gpr_log_func_args *args)
{
    td_log(TD_LOG_DEBUG, NULL, "gRPC core: %s", args->message);
}

static char *copy(const char *s)
{
    return s != NULL && *s ? td_strdup(s) : NULL;
}

static void copy_opts(struct td_grpc_opts *to, const struct td_grpc_opts *from)
{
    *to = *from;
    to->address = copy(from->address);
    to->second_address = copy(from->second_address);
    to->unix_socket = copy(from->unix_socket);
    to->channel_arguments = copy(from->channel_arguments);
    to->tls_key = copy(from->tls_key);
    to->tls_cert = copy(from->tls_cert);
    to->tls_ca = copy(from->tls_ca);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (to->threads <= 0) {
        to->threads = cores > 0 ? (int)cores : 1;
    }
    if (to->max_request_bytes == 0 || to->max_request_bytes > INT32_MAX) {
        to->max_request_bytes = INT32_MAX;
    }
}

/* "key=value" as an argument of gRPC; cuts text in place. False when there is no '='. */
static bool read_argument(char *text, grpc_arg *out)
{
    char *value = strchr(text, '='), *end;
    if (value == NULL) {
        return false;
    }
    *value++ = 0;
    const long number = strtol(value, &end, 10);
    if (*value && *end == 0 && number >= INT32_MIN && number <= INT32_MAX) {
        *out = (grpc_arg){.type = GRPC_ARG_INTEGER, .key = text, .value.integer = (int)number};
    } else {
        *out = (grpc_arg){.type = GRPC_ARG_STRING, .key = text, .value.string = value};
    }
    return true;
}

static void set(grpc_channel_args *list, const char *key, int value)
{
    list->args[list->num_args++] =
        (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

/* Ours first, then those of the command line: gRPC takes the last of a name. The limits of requests stay
 * ours. */
static grpc_server *make_server(const struct td_grpc_opts *o)
{
    grpc_arg args[MAX_ARGUMENTS + 8];
    grpc_channel_args list = {.args = args};
    set(&list, GRPC_ARG_HTTP2_MAX_FRAME_SIZE, LARGE_FRAME);
    set(&list, GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, LOOKAHEAD);
    char *texts = td_strdup(o->channel_arguments != NULL ? o->channel_arguments : ""), *rest = NULL;
    for (char *t = texts != NULL ? strtok_r(texts, ",", &rest) : NULL;
         t != NULL && list.num_args < MAX_ARGUMENTS; t = strtok_r(NULL, ",", &rest)) {
        if (read_argument(t, &args[list.num_args])) {
            list.num_args++;
        } else {
            td_log(TD_LOG_WARNING, NULL, "gRPC channel argument '%s' is not KEY=VALUE: left out", t);
        }
    }
    set(&list, GRPC_ARG_ALLOW_REUSEPORT, 0);
    set(&list, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)o->max_request_bytes);
    set(&list, GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
    grpc_server *server = grpc_server_create(&list, NULL);
    td_free(texts);
    return server;
}

static grpc_server_credentials *make_credentials(const struct td_grpc_opts *o)
{
    if (o->tls_key == NULL) {
        return grpc_insecure_server_credentials_create();
    }
    grpc_ssl_pem_key_cert_pair pair = {.private_key = o->tls_key, .cert_chain = o->tls_cert};
    return grpc_ssl_server_credentials_create_ex(
        o->tls_ca, &pair, 1,
        o->tls_client_verify ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
        NULL);
}

/* Removes the socket file of a server before us, dead or alive: TensorFlow Serving's test servers all bind
 * one name, and the latest has it. */
static enum td_code clear_stale_socket(const char *path, struct td_err *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    TD_FAIL_IF(strlen(path) >= sizeof to.sun_path, err, INVALID_ARGUMENT,
               "listening for gRPC on socket '%s': a path may have %zu bytes", path, sizeof to.sun_path - 1);
    struct stat st;
    if (lstat(path, &st) != 0) {
        return TD_OK;
    }
    TD_FAIL_IF(!S_ISSOCK(st.st_mode), err, ALREADY_EXISTS,
               "listening for gRPC on socket '%s': the file is there and is no socket", path);
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool alive = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
    if (fd >= 0) {
        close(fd);
    }
    if (alive) {
        td_log(TD_LOG_WARNING, NULL, "socket '%s': another process was listening; the name is ours now",
               path);
    }
    TD_FAIL_IF(unlink(path) != 0 && errno != ENOENT, err, UNAVAILABLE,
               "listening for gRPC on socket '%s': cannot remove the stale socket: %s", path,
               strerror(errno));
    return TD_OK;
}

/* *port is 0 without an address. */
static enum td_code bind_address(struct td_grpc *g, const char *address, grpc_server_credentials *creds,
                                 int *port, struct td_err *err)
{
    *port = address != NULL ? grpc_server_add_http2_port(g->server, address, creds) : 0;
    TD_FAIL_IF(address != NULL && *port <= 0, err, UNAVAILABLE,
               "listening for gRPC on %s: the address cannot be bound (in use, or not of this machine)",
               address);
    return TD_OK;
}

int td_grpc_second_port(const struct td_grpc *g)
{
    return g->second_port;
}

static enum td_code bind_all(struct td_grpc *g, grpc_server_credentials *creds, int *port, struct td_err *err)
{
    TD_TRY(bind_address(g, g->opts.address, creds, port, err));
    TD_TRY(bind_address(g, g->opts.second_address, creds, &g->second_port, err));
    if (g->opts.unix_socket != NULL) {
        TD_TRY(clear_stale_socket(g->opts.unix_socket, err));
        char uri[sizeof(struct sockaddr_un) + 8];
        snprintf(uri, sizeof uri, "unix:%s", g->opts.unix_socket);
        TD_FAIL_IF(grpc_server_add_http2_port(g->server, uri, creds) <= 0, err, UNAVAILABLE,
                   "listening for gRPC on socket '%s': it cannot be bound", g->opts.unix_socket);
    }
    TD_FAIL_IF(g->opts.address == NULL && g->opts.second_address == NULL && g->opts.unix_socket == NULL, err,
               INVALID_ARGUMENT, "listening for gRPC: neither an address nor a socket path is given");
    return TD_OK;
}

static enum td_code register_methods(struct td_grpc *g, struct td_err *err)
{
    g->registered = td_calloc((size_t)td_rpc_n_methods, sizeof *g->registered);
    if (g->registered == NULL) {
        return td_no_memory(err, sizeof *g->registered, "the gRPC server");
    }
    for (int i = 0; i < td_rpc_n_methods; i++) {
        const struct td_rpc_method *m = &td_rpc_methods[i];
        g->registered[i] = grpc_server_register_method(
            g->server, m->path, NULL,
            td_rpc_kind_streams(m->kind) ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
            0);
        TD_FAIL_IF(g->registered[i] == NULL, err, INTERNAL, "starting gRPC: method %s is registered twice",
                   m->path);
    }
    return TD_OK;
}

static void listen_all(struct td_grpc *g)
{
    for (int i = 0; i < td_rpc_n_methods; i++) {
        int n = td_rpc_methods[i].kind == TD_RPC_INFER ? LISTENING_INFER : LISTENING_OTHER;
        for (int k = 0; k < n; k++) {
            if (td_rpc_kind_streams(td_rpc_methods[i].kind)) {
                td_stream_listen(g, i);
            } else {
                td_call_listen(g, i);
            }
        }
    }
    td_unknown_listen(g);
}

static enum td_code start_threads(struct td_grpc *g, struct td_err *err)
{
    g->pollers = td_calloc((size_t)g->opts.threads + 1, sizeof *g->pollers);
    if (g->pollers == NULL) {
        return td_no_memory(err, sizeof *g->pollers, "the gRPC server");
    }
    for (; g->n_pollers < g->opts.threads + 1; g->n_pollers++) {
        TD_FAIL_IF(pthread_create(&g->pollers[g->n_pollers], NULL, td_poll_main, g) != 0, err,
                   RESOURCE_EXHAUSTED, "starting gRPC: cannot create thread %d of %d", g->n_pollers + 1,
                   g->opts.threads + 1);
    }
    g->ticker_runs = pthread_create(&g->ticker, NULL, td_stream_ticker, g) == 0;
    TD_FAIL_IF(!g->ticker_runs, err, RESOURCE_EXHAUSTED, "starting gRPC: cannot create the ticker thread");
    return TD_OK;
}

static enum td_code start(struct td_grpc *g, int *port, struct td_err *err)
{
    g->cq = grpc_completion_queue_create_for_next(NULL);
    g->server = make_server(&g->opts);
    grpc_server_credentials *creds = make_credentials(&g->opts);
    enum td_code rc = TD_OK;
    if (g->server == NULL || creds == NULL) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "starting gRPC: the TLS key and certificate do not fit");
    }
    if (rc == TD_OK) {
        grpc_server_register_completion_queue(g->server, g->cq, NULL);
        rc = register_methods(g, err);
    }
    rc = rc ? rc : bind_all(g, creds, port, err);
    if (creds != NULL) {
        grpc_server_credentials_release(creds);
    }
    if (rc) {
        return rc;
    }
    grpc_server_start(g->server);
    listen_all(g);
    return start_threads(g, err);
}

enum td_code td_grpc_start(const struct td_grpc_opts *opts, struct td_registry *registry,
                           struct td_grpc **out, int *port, struct td_err *err)
{
    struct td_grpc *g = td_calloc(1, sizeof *g);
    if (g == NULL) {
        return td_no_memory(err, sizeof *g, "the gRPC server");
    }
    gpr_set_log_function(grpc_log);
    grpc_init();
    copy_opts(&g->opts, opts);
    g->registry = registry;
    g->max_running = g->opts.threads;
    g->queue_end = &g->queue;
    g->down = (struct td_event){step_down, g};
    pthread_mutex_init(&g->mu, NULL);
    pthread_cond_init(&g->changed, NULL);
    pthread_mutex_init(&g->polls.mu, NULL);
    pthread_cond_init(&g->polls.wanted, NULL);
    enum td_code rc = start(g, port, err);
    if (rc) {
        td_grpc_stop(g, 0);
        return rc;
    }
    *out = g;
    return TD_OK;
}

/* Waits until *flag, or for ms; 0 and less: does not wait. Under g->mu. */
static void wait_down(struct td_grpc *g, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!g->is_down && pthread_cond_timedwait(&g->changed, &g->mu, &until) != ETIMEDOUT) {
    }
}

static void shut_down(struct td_grpc *g, int64_t drain_ms)
{
    pthread_mutex_lock(&g->mu);
    atomic_store(&g->stopping, true);
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
    if (g->server != NULL) {
        bool polled = g->n_pollers > 0;
        grpc_server_shutdown_and_notify(g->server, g->cq, td_event_give(&g->down));
        pthread_mutex_lock(&g->mu);
        if (polled) {
            wait_down(g, drain_ms);
        }
        bool late = !g->is_down;
        pthread_mutex_unlock(&g->mu);
        if (late) {
            grpc_server_cancel_all_calls(g->server);
        }
        pthread_mutex_lock(&g->mu);
        while (polled && (!g->is_down || g->slow > 0 || atomic_load(&g->open) > 0)) {
            pthread_cond_wait(&g->changed, &g->mu);
        }
        g->closed = true;
        pthread_mutex_unlock(&g->mu);
    }
    td_poll_close(&g->polls);
    grpc_completion_queue_shutdown(g->cq);
}

void td_grpc_stop(struct td_grpc *g, int64_t drain_ms)
{
    if (g == NULL) {
        return;
    }
    shut_down(g, drain_ms);
    for (int i = 0; i < g->n_pollers; i++) {
        pthread_join(g->pollers[i], NULL);
    }
    if (g->n_pollers == 0) {
        td_poll_main(g); /* a failed start: nobody else takes the last events */
    }
    if (g->ticker_runs) {
        pthread_join(g->ticker, NULL);
    }
    if (g->server != NULL) {
        grpc_server_destroy(g->server);
    }
    grpc_completion_queue_destroy(g->cq);
    grpc_shutdown();
    td_free((char *)g->opts.address);
    td_free((char *)g->opts.second_address);
    td_free((char *)g->opts.unix_socket);
    td_free((char *)g->opts.channel_arguments);
    td_free((char *)g->opts.tls_key);
    td_free((char *)g->opts.tls_cert);
    td_free((char *)g->opts.tls_ca);
    td_free(g->registered);
    td_free(g->pollers);
    pthread_cond_destroy(&g->polls.wanted);
    pthread_mutex_destroy(&g->polls.mu);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->mu);
    td_free(g);
}
