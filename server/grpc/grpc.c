/* server/grpc/grpc.c - makes the gRPC server, its threads and its end.
 *
 * All threads take events from one completion queue (grpc_poll.c). There is one more of them than inference
 * handlers may run at once, so one can always read. Every method is registered, and listened for by calls
 * that wait to be filled: several for inference, so that a burst is taken in without a step in between, one
 * for each of the rest. gRPC itself listens nowhere: connections come from grpc_accept.c.
 *
 * Stopping: no more connections are accepted; the server takes no new calls and sends its clients away
 * (GOAWAY); when the last call is gone, or the drain time is over and all calls were cancelled, the `down`
 * event comes; then the queue is shut down and the threads leave. A failed start goes the same way, with this
 * thread taking the last events.
 *
 * Locks: g->mu guards the state of stopping and what handlers wait for; see grpc_impl.h. Does not: set limits
 * (grpc_limits.c), carry calls (grpc_call.c, grpc_stream.c), know what a method means (grpc_methods.c and the
 * files of its handlers).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#ifdef TD_GRPC_SOURCE /* deploy/grpc.sh */
#include <grpc/credentials.h>
#include <grpc_core_log.h>
#else
#include <grpc/support/log.h>
#endif
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/grpc/grpc_accept.h"
#include "server/grpc/grpc_impl.h"
#include "server/grpc/lock_graph.h"

/* Calls of one method that wait to be filled: a burst is taken in without a step in between. */
#define LISTENING_INFER 16
#define LISTENING_OTHER 1

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
    g->open += ok;
    pthread_mutex_unlock(&g->mu);
    return ok;
}

/* On any thread. Once the last is counted out and mu is let go, whoever stops may free g. */
void td_grpc_closed(struct td_grpc *g)
{
    pthread_mutex_lock(&g->mu);
    if (--g->open == 0 && atomic_load(&g->stopping)) {
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->mu);
}

/* gRPC's own log lines are details of transports that come and go. */
static void log_line(const char *message)
{
    td_log(TD_LOG_DEBUG, NULL, "gRPC core: %s", message);
}

#ifdef TD_GRPC_SOURCE
static void take_log(void)
{
    grpc_core_log_to(log_line);
}
#else
static void grpc_log(gpr_log_func_args *args)
{
    log_line(args->message);
}

static void take_log(void)
{
    gpr_set_log_function(grpc_log);
}
#endif

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

/* *port is 0 without an address. */
static enum td_code bind_address(struct td_grpc *g, const char *address, int *port, struct td_err *err)
{
    *port = 0;
    return address != NULL ? td_accept_bind(g->accept, address, port, err) : TD_OK;
}

int td_grpc_second_port(const struct td_grpc *g)
{
    return g->second_port;
}

static enum td_code bind_all(struct td_grpc *g, int *port, struct td_err *err)
{
    TD_FAIL_IF(g->opts.address == NULL && g->opts.second_address == NULL && g->opts.unix_socket == NULL, err,
               INVALID_ARGUMENT, "listening for gRPC: neither an address nor a socket path is given");
    TD_TRY(bind_address(g, g->opts.address, port, err));
    TD_TRY(bind_address(g, g->opts.second_address, &g->second_port, err));
    return g->opts.unix_socket != NULL ? td_accept_bind_unix(g->accept, g->opts.unix_socket, err) : TD_OK;
}

static enum td_code register_methods(struct td_grpc *g, struct td_err *err)
{
    g->registered = td_calloc((size_t)td_rpc_n_methods, sizeof *g->registered);
    if (g->registered == NULL) {
        return td_no_memory(err, sizeof *g->registered, "the gRPC server");
    }
    for (int i = 0; i < td_rpc_n_methods; i++) {
        const struct td_rpc_method *m = &td_rpc_methods[i];
        g->registered[i] = grpc_server_register_method(g->server, m->path, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
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

/* The server, and the port of it that takes what g->accept has accepted: *handler. */
static enum td_code make(struct td_grpc *g, void **handler, struct td_err *err)
{
    g->server = td_grpc_make_server(&g->opts, handler);
    grpc_server_credentials *creds = make_credentials(&g->opts);
    enum td_code rc = TD_OK;
    if (g->server == NULL || creds == NULL) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "starting gRPC: the TLS key and certificate do not fit");
    }
    if (rc == TD_OK) {
        grpc_server_register_completion_queue(g->server, g->cq, NULL);
        rc = register_methods(g, err);
    }
    if (rc == TD_OK) {
        (void)grpc_server_add_http2_port(g->server, TD_GRPC_EXTERNAL, creds); /* it has no number */
        rc = *handler != NULL ? TD_OK
                              : td_fail(err, TD_INTERNAL, "starting gRPC: its library takes no connections");
    }
    if (creds != NULL) {
        grpc_server_credentials_release(creds);
    }
    return rc;
}

/* What attacks the library itself does not bear, and we cannot keep from it (docs/grpc.md). Its core's number
 * is 37 from gRPC 1.60 on. */
static void say_holes(const struct td_grpc *g)
{
    if (td_accept_is_open(g->accept) && strtol(grpc_version_string(), NULL, 10) < 37) {
        td_log(
            TD_LOG_WARNING, NULL,
            "gRPC is open to other hosts on a library (core %s) with known holes: endless HPACK integers and "
            "strings stop all clients (CVE-2023-33953), rapid resets take memory (CVE-2023-44487); "
            "deploy/grpc.sh builds one without",
            grpc_version_string());
    }
}

static enum td_code start(struct td_grpc *g, int *port, struct td_err *err)
{
    void *handler = NULL;
    g->cq = grpc_completion_queue_create_for_next(NULL);
    TD_TRY(td_accept_new(g->opts.connections, &g->accept, err));
    TD_TRY(bind_all(g, port, err));
    TD_TRY(make(g, &handler, err));
    grpc_server_start(g->server);
    listen_all(g);
    say_holes(g);
    TD_TRY(td_accept_start(g->accept, handler, err));
    return start_threads(g, err);
}

enum td_code td_grpc_start(const struct td_grpc_opts *opts, struct td_registry *registry,
                           struct td_grpc **out, int *port, struct td_err *err)
{
    struct td_grpc *g = td_calloc(1, sizeof *g);
    if (g == NULL) {
        return td_no_memory(err, sizeof *g, "the gRPC server");
    }
    take_log();
    td_lock_graph_off();
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
    if (g->accept != NULL) {
        td_accept_stop(g->accept);
    }
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
        while (polled && (!g->is_down || g->slow[0] + g->slow[1] + g->resuming > 0 || g->open > 0)) {
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
    td_accept_free(g->accept);
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
