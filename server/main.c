/* server/main.c - the daemon: options, configuration, models, listeners, signals, drain; in this order.
 *
 * The listeners open before the models are loaded, so that their states can be asked for; /readyz and the
 * "ready" line say when every configured model is settled. A model that fails to load is reported and does
 * not stop the others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/compile/rewrite.h"
#include "kernels/ops.h"
#include "kernels/dense/library_threads.h"
#include "proto/bytes/mapping.h"
#include "server/models/config_file.h"
#include "server/alive.h"
#include "server/base/busy_poll.h"
#include "server/base/clock.h"
#include "server/base/cores.h"
#include "server/base/notify.h"
#include "server/drain.h"
#include "server/grpc/grpc.h"
#include "server/http/http.h"
#include "server/sched/workers.h"
#include "server/job_command.h"
#include "server/make_room.h"
#include "server/models/model_dirs.h"
#include "server/base/memory_limits.h"
#include "server/base/options.h"
#include "server/base/rest_json.h"
#include "server/base/state_quota.h"
#include "server/http/rest.h"
#include "server/request/shm.h"
#include "server/model_of_flags.h"
#include "server/start_engine.h"
#include "server/start_jobs.h"
#include "server/start_sandbox.h"
#include "server/state_dir.h"
#include "server/quantize_command.h"
#include "server/train_command.h"
#include "server/base/request_log.h"
#include "server/base/spans.h"
#include "server/base/tls.h"
#include "server/base/trace_file.h"
#include "server/base/trim.h"
#include "server/models/upload.h"
#include "server/request/warmup.h"

enum { EXIT_DRAINED = 0, EXIT_OTHER = 1, EXIT_BAD_SETUP = 2 };
enum { N_HTTP = 2 };                   /* TF Serving's port, and KServe's own */
enum { WAIT_MORE_S = 5 };              /* who waits for a load hears how it ended */
enum { ASK_MS = 1000, EXTEND_S = 30 }; /* while models load, how often, and for how much longer */
enum { GPU_STREAMS = 4 };              /* where --gpu_streams does not say: see docs/gpu.md */
enum { QUIET_MS = 500 };               /* the first requests come before what only later ones gain by */

struct server {
    struct td_options options;
    struct td_model_dirs model_dirs; /* of model_repository */
    struct td_tls_config tls;
    struct td_access *access; /* NULL: no tokens file */
    struct td_monitoring monitoring;
    struct td_batching batching; /* of batching_parameters_file */
    struct td_sandbox *sandbox;  /* NULL: none */
    struct td_started_engine engine;
    struct td_workers *workers;
    struct td_registry *registry;
    struct td_job_flags job_flags;
    struct td_jobs *jobs;
    struct td_shm *shm;
    struct td_connections *connections;
    struct td_open_calls *calls;
    struct td_rest rest;
    struct td_http *http[N_HTTP];
    struct td_grpc *grpc;
    struct td_alive alive;
    int grpc_port, rest_port[N_HTTP];
    char state_dir[PATH_MAX];
};

/* ------------------------------------------------------------------ setting up */

static enum td_log_level log_level(const char *name)
{
    return strcmp(name, "debug") == 0     ? TD_LOG_DEBUG
           : strcmp(name, "info") == 0    ? TD_LOG_INFO
           : strcmp(name, "warning") == 0 ? TD_LOG_WARNING
                                          : TD_LOG_ERROR;
}

/* A file that cannot be read is named with the flag that names it. */
static enum td_code of_flag(enum td_code rc, const char *flag, struct td_err *err)
{
    return rc ? td_err_wrap(err, "--%s", flag) : TD_OK;
}

static enum td_code read_models(const struct server *s, struct td_model_config **out, int *n,
                                struct td_err *err)
{
    const struct td_options *o = &s->options;
    return o->model_config_file[0] != '\0'
               ? of_flag(td_config_file_models(o->model_config_file, out, n, err), "model_config_file", err)
           : s->model_dirs.roots != NULL
               ? of_flag(td_model_dirs_list(&s->model_dirs, out, n, err), "model_repository", err)
               : td_model_of_flags(o, out, n, err);
}

static enum td_code enter_sandbox(struct server *s, struct td_err *err)
{
    struct td_model_config *models = NULL;
    int n = 0;
    TD_TRY(s->options.sandbox ? read_models(s, &models, &n, err) : TD_OK);
    const enum td_code rc = td_start_sandbox(&s->options, s->state_dir, models, n, &s->sandbox, err);
    td_model_configs_free(models, n);
    return rc;
}

static enum td_code configure(struct server *s, struct td_err *err)
{
    struct td_model_config *models = NULL;
    int n = 0;
    TD_TRY(read_models(s, &models, &n, err));
    enum td_code rc = td_sandbox_check_models(s->sandbox, models, n, err);
    rc = rc ? rc : td_registry_configure(s->registry, models, n, false, err);
    td_model_configs_free(models, n);
    return rc;
}

static enum td_code read_files(struct server *s, struct td_err *err)
{
    const struct td_options *o = &s->options;
    if (o->batching_parameters_file[0] != '\0') {
        TD_TRY(of_flag(td_config_file_batching(o->batching_parameters_file, &s->batching, err),
                       "batching_parameters_file", err));
    }
    if (o->monitoring_config_file[0] != '\0') {
        TD_TRY(of_flag(td_config_file_monitoring(o->monitoring_config_file, &s->monitoring, err),
                       "monitoring_config_file", err));
    }
    if (o->ssl_config_file[0] != '\0') {
        TD_TRY(of_flag(td_config_file_tls(o->ssl_config_file, &s->tls, err), "ssl_config_file", err));
        if (td_tls_check(s->tls.key, s->tls.cert, s->tls.ca, err)) {
            return td_err_wrap(err, "SSLConfig %s", o->ssl_config_file);
        }
    }
    TD_TRY(td_trace_file_open(o->trace_file, err));
    return o->tokens_file[0] != '\0'
               ? of_flag(td_access_open(o->tokens_file, &s->access, err), "tokens_file", err)
               : TD_OK;
}

/* Inside one op of a library's. */
static int op_threads(const struct td_options *o)
{
    return o->intra_op_threads > 0                  ? (int)o->intra_op_threads
           : o->tensorflow_intra_op_parallelism > 0 ? (int)o->tensorflow_intra_op_parallelism
                                                    : 1;
}

static enum td_code start_workers(struct server *s, struct td_err *err)
{
    const struct td_options *o = &s->options;
    const int threads = op_threads(o), workers = td_cores_usable("") / threads;
    const struct td_workers_opts opts = {
        .devices = td_devices_opened(s->engine.devices).n,
        .device_runs = o->gpu_streams > 0 ? (int)o->gpu_streams : GPU_STREAMS,
        .workers = o->lanes > 0   ? (int)o->lanes
                   : threads == 1 ? 0
                   : workers > 0  ? workers
                                  : 1,
        .answer_ns = o->busy_timeout * 1000000000,
        .batching = o->batching,
        .params = o->batching_parameters_file[0] != '\0' ? &s->batching : NULL,
        .per_model = o->enable_per_model_batching_parameters,
    };
    return td_workers_start(&opts, &s->workers, err);
}

static enum td_code start_registry(struct server *s, struct td_err *err)
{
    const struct td_options *o = &s->options;
    const int cores = td_cores_usable("");
    uint64_t most_resident;
    TD_TRY(td_memory_resident_limit(o->max_resident_bytes, o->lazy_loading, &most_resident, err));
    const struct td_registry_opts opts = {
        .servable = {.ops = s->engine.engine.ops,
                     .tags = o->saved_model_tags,
                     .state_dir = s->state_dir[0] != '\0' ? s->state_dir : NULL,
                     .scratch_quota = (uint64_t)o->scratch_quota,
                     .kernels = strcmp(o->kernels, "reference") == 0  ? TD_KERNELS_REFERENCE
                                : strcmp(o->kernels, "openblas") == 0 ? TD_KERNELS_OPENBLAS
                                                                      : TD_KERNELS_FAST,
                     .trial_ns = o->kernel_trials_ms * 1000000,
                     .timings = s->engine.engine.timings,
                     .pool = td_workers_pool(s->workers),
                     .passes_off = o->passes_off[0] != '\0' ? o->passes_off : NULL,
                     .no_soft_placement = o->no_soft_placement,
                     .log_placement = o->log_device_placement,
                     .devices = td_devices_opened(s->engine.devices)},
        .poll_wait_s = (double)o->file_system_poll_wait_seconds,
        .model_dirs = s->model_dirs.roots != NULL ? &s->model_dirs : NULL,
        .max_load_retries = (int)o->max_num_load_retries,
        .retry_wait_us = o->load_retry_interval_micros,
        .load_timeout_s = (double)o->load_timeout,
        .max_waiting = (int)o->max_waiting_commands,
        .load_threads = o->num_load_threads > 0 ? (int)o->num_load_threads
                        : cores > 4             ? 4
                                                : cores,
        .lazy = o->lazy_loading,
        .max_resident_bytes = most_resident,
        .labels_for_unavailable = o->allow_version_labels_for_unavailable_models,
        .strict_shapes = o->strict_shapes,
        .workers = s->workers,
        .admit = td_workers_admit,
        .answer = td_workers_answer,
        .warm_up = o->enable_model_warmup ? td_warmup_run : NULL,
        .warmup_iterations = (int)o->num_request_iterations_for_warmup,
        .check_methods = o->enable_signature_method_name_check,
    };
    return td_registry_start(&opts, &s->registry, err);
}

/* ------------------------------------------------------------------ listeners */

/* "HOST:PORT" of a gRPC listener in buf, or NULL when it is switched off. */
static const char *address_of(const struct td_options *o, int port, char *buf, size_t room)
{
    const char *host = o->bind_address[0] != '\0' ? o->bind_address : "::";
    const bool six = strchr(host, ':') != NULL;
    (void)snprintf(buf, room, six ? "[%s]:%d" : "%s:%d", host, port == TD_PORT_AUTO ? 0 : port);
    return port != 0 ? buf : NULL;
}

static enum td_code start_grpc(struct server *s, struct td_err *err)
{
    const struct td_options *o = &s->options;
    char address[300], second[300];
    const struct td_grpc_opts opts = {
        .address = address_of(o, o->port, address, sizeof address),
        .second_address = address_of(o, o->kserve_grpc_port, second, sizeof second),
        .unix_socket = o->grpc_socket_path,
        .threads = (int)o->grpc_max_threads,
        .max_waiting = (int)o->max_waiting_commands,
        .max_request_bytes = (size_t)o->max_request_bytes,
        .deadline_ns = (int64_t)(o->default_deadline * 1e9),
        .wait_ns = o->load_timeout > 0 ? (o->load_timeout + WAIT_MORE_S) * 1000000000 : 0,
        .health = true,
        .open_management = o->open_management,
        .access = s->access,
        .debug_api = o->enable_debug_api,
        .devices = s->engine.devices,
        .shm = s->shm,
        .connections = s->connections,
        .calls = s->calls,
        .jobs = s->jobs,
        .content_outputs = o->enable_serialization_as_tensor_content,
        .channel_arguments = o->grpc_channel_arguments,
        .tls_key = s->tls.key,
        .tls_cert = s->tls.cert,
        .tls_ca = s->tls.ca,
        .tls_client_verify = s->tls.client_verify,
    };
    if (opts.address == NULL && opts.second_address == NULL && o->grpc_socket_path[0] == '\0') {
        return TD_OK;
    }
    return td_grpc_start(&opts, s->registry, &s->grpc, &s->grpc_port, err);
}

static enum td_code start_listener(struct server *s, int i, int port, struct td_err *err)
{
    const struct td_options *o = &s->options;
    const struct td_http_opts opts = {
        .bind_address = o->bind_address,
        .port = port == TD_PORT_AUTO ? 0 : port,
        .threads = (int)o->rest_api_num_threads,
        .max_request_bytes = (size_t)o->max_request_bytes,
        .pack_bytes = (size_t)o->rest_api_compress_bytes,
        .timeout_ms =
            o->rest_api_timeout_in_ms > 0 ? o->rest_api_timeout_in_ms : (int64_t)(o->default_deadline * 1e3),
        .times = {.head_s = o->rest_api_head_timeout,
                  .idle_s = o->rest_api_idle_timeout,
                  .body_s = o->rest_api_body_timeout,
                  .bytes_per_s = o->rest_api_least_rate},
        .connections = s->connections,
        .max_headers = (int)o->rest_api_max_headers,
        .max_header_bytes = (size_t)o->rest_api_max_header_bytes,
        .cors = o->rest_api_enable_cors_support,
        .cors_headers = s->access != NULL ? "Content-Type, Authorization" : "Content-Type",
        .tls_key = s->tls.key,
        .tls_cert = s->tls.cert,
        .tls_ca = s->tls.client_verify ? s->tls.ca : NULL,
        .handle = td_rest_handle,
        .begin = td_rest_begin,
        .route = td_rest_route,
        .fail = td_rest_fail,
        .app = &s->rest,
    };
    return port != 0 ? td_http_start(&opts, &s->http[i], &s->rest_port[i], err) : TD_OK;
}

static bool is_model(void *registry, const char *name)
{
    return td_registry_has(registry, name);
}

static enum td_code start_http(struct server *s, struct td_err *err)
{
    const struct td_options *o = &s->options;
    const bool taken = o->rest_api_port == o->port && o->port != TD_PORT_AUTO && o->port != 0;
    if (taken) {
        td_log(TD_LOG_ERROR, NULL, "rest_api_port %d is the gRPC port too: the HTTP API is not started",
               o->port);
    }
    s->rest.registry = s->registry;
    s->rest.access = s->access;
    s->rest.open_management = o->open_management;
    s->rest.debug_api = o->enable_debug_api;
    s->rest.monitoring_path = s->monitoring.enable ? s->monitoring.path : NULL;
    s->rest.started_at = (int64_t)time(NULL);
    s->rest.shm = s->shm;
    s->rest.max_apart = (int)o->max_waiting_commands;
    s->rest.wait_s = o->load_timeout > 0 ? (double)o->load_timeout + WAIT_MORE_S : 0;
    s->rest.connections = s->connections;
    s->rest.calls = s->calls;
    s->rest.jobs = s->jobs;
    s->rest.devices = s->engine.devices;
    s->rest.pool = td_workers_pool(s->workers);
    TD_TRY(taken ? TD_OK : start_listener(s, 0, o->rest_api_port, err));
    return start_listener(s, 1, o->kserve_rest_port, err);
}

static enum td_code start(struct server *s, struct td_err *err)
{
    const struct td_options *o = &s->options;
    TD_FAIL_IF(o->port == 0 && o->grpc_socket_path[0] == '\0' && o->rest_api_port == 0 &&
                   o->kserve_rest_port == 0 && o->kserve_grpc_port == 0,
               err, INVALID_ARGUMENT,
               "neither --port, --grpc_socket_path nor --rest_api_port is set: nothing to listen on");
    TD_TRY(td_rewrite_check(s->options.passes_off, err));
    td_trim_on_shortage();
    TD_TRY(td_memory_limits_set(o->max_memory, o->max_request_memory, err));
    const bool grpc = o->port != 0 || o->kserve_grpc_port != 0 || o->grpc_socket_path[0] != '\0';
    TD_TRY(grpc ? td_memory_space_check((uint64_t)o->max_request_bytes, err) : TD_OK);
    if (td_memory_space_is_limited()) {
        td_kernels_warm();
    }
    TD_TRY(read_files(s, err));
    td_state_dir_choose(o->state_dir, s->state_dir, sizeof s->state_dir);
    if (s->state_dir[0] != '\0') {
        td_upload_sweep(s->state_dir);
        TD_TRY(td_state_quota_start(s->state_dir, o->state_quota, err));
    }
    if (o->model_repository.n > 0 && o->model_config_file[0] == '\0') {
        const bool commanded = strcmp(o->model_control_mode, "explicit") == 0;
        s->model_dirs = (struct td_model_dirs){&o->model_repository, commanded ? &o->load_model : NULL};
    }
    TD_TRY(enter_sandbox(s, err)); /* before the first thread */
    TD_TRY(td_spans_start(o->otlp_endpoint, o->trace_sampling, err));
    TD_TRY(td_request_log_start(o->request_log_dir, o->request_log_quota, err));
    td_threads_set(op_threads(o));
    TD_TRY(td_engine_start(o, s->state_dir, &s->engine, err));
    TD_TRY(start_workers(s, err));
    TD_TRY(td_shm_new((uint64_t)s->options.max_request_bytes, &s->shm, err));
    TD_TRY(td_connections_new(o->max_connections, o->max_connections_per_address, &s->connections, err));
    TD_TRY(td_open_calls_new(o->grpc_max_open_calls, o->grpc_max_open_calls_per_address, &s->calls, err));
    TD_TRY(start_registry(s, err));
    TD_TRY(td_start_jobs(&s->options, s->state_dir, s->registry, &s->job_flags, &s->jobs, err));
    TD_TRY(configure(s, err));
    td_access_models(s->access, is_model, s->registry); /* before anybody may ask */
    TD_TRY(start_grpc(s, err));
    return start_http(s, err);
}

/* ------------------------------------------------------------------ running */

/* Waits until every model is settled; false when a signal asks to stop before. A service manager that waits
 * for READY=1 is asked for more time as long as the models take theirs. */
static bool await_models(struct server *s)
{
    int64_t asked_ns = 0;
    for (int ms = 1;; ms = ms < 16 ? ms * 2 : 16) {
        if (td_clock_ns() - asked_ns > ASK_MS * INT64_C(1000000)) {
            asked_ns = td_clock_ns();
            td_notify("STATUS=loading models\nEXTEND_TIMEOUT_USEC=%d", EXTEND_S * 1000000);
        }
        td_alive_ping(&s->alive);
        if (td_registry_all_settled(s->registry)) {
            return true;
        }
        if (td_drain_wait(ms) == TD_WAKE_STOP) {
            return false;
        }
    }
}

/* READY=1, and what `systemctl status` shows. */
static void notify_ready(const struct server *s)
{
    char *missing = NULL;
    const bool all = td_registry_ready(s->registry, &missing);
    td_notify("READY=1\nSTATUS=%s%.400s; gRPC on port %d, REST on %d",
              all ? "serving" : "serving, but without ", missing != NULL ? missing : "", s->grpc_port,
              s->rest_port[0]);
    td_free(missing);
}

static void say_ready(const struct server *s)
{
    const char *host = s->options.bind_address[0] != '\0' ? s->options.bind_address : "0.0.0.0";
    char *missing = NULL;
    const bool all = td_registry_ready(s->registry, &missing);
    if (s->grpc != NULL) {
        td_log(TD_LOG_INFO, NULL, "Running gRPC ModelServer at %s:%d ...", host, s->grpc_port);
    }
    if (s->http[0] != NULL) {
        td_log(TD_LOG_INFO, NULL, "Exporting HTTP/REST API at:localhost:%d ...", s->rest_port[0]);
        td_log(TD_LOG_INFO, NULL, "Entering the event loop ...");
    }
    char further[80] = "";
    const int second = s->grpc != NULL ? td_grpc_second_port(s->grpc) : 0;
    if (second != 0 || s->http[1] != NULL) {
        (void)snprintf(further, sizeof further, " kserve_grpc_port=%d kserve_rest_port=%d", second,
                       s->rest_port[1]);
    }
    td_log(all ? TD_LOG_INFO : TD_LOG_WARNING, NULL, "ready: port=%d rest_api_port=%d%s%s%s", s->grpc_port,
           s->rest_port[0], further, all ? "" : " without=", missing != NULL ? missing : "");
    td_free(missing);
}

static void reread_config(struct server *s)
{
    struct td_err err = {0};
    const char *file = s->options.model_config_file;
    if ((file[0] != '\0' || s->model_dirs.roots != NULL) && configure(s, &err)) {
        td_log(TD_LOG_ERROR, NULL, "rereading %s: %s; the models stay as they are",
               file[0] != '\0' ? file : "the model repository", err.msg);
    }
}

/* Seconds between rereads of what says which models there are; 0: only when told to. */
static int64_t reread_period_s(const struct server *s)
{
    const struct td_options *o = &s->options;
    return o->model_config_file[0] != '\0'              ? o->model_config_file_poll_wait_seconds
           : s->model_dirs.roots == NULL                ? 0
           : strcmp(o->model_control_mode, "poll") == 0 ? o->repository_poll_secs
                                                        : 0;
}

static void reread_tokens(struct server *s)
{
    struct td_err err = {0};
    if (s->access != NULL && td_access_reread(s->access, &err)) {
        td_log(TD_LOG_ERROR, NULL, "rereading tokens: %s; they stay as they are", err.msg);
    } else if (s->access != NULL) {
        td_log(TD_LOG_INFO, NULL, "tokens file %s is read again", s->options.tokens_file);
    }
}

static void serve(struct server *s)
{
    const int64_t period_s = reread_period_s(s);
    const int period_ms = period_s > 0 ? (int)period_s * 1000 : -1;
    td_trim_start(td_make_room);
    enum td_wake why = td_drain_wait(QUIET_MS);
    if (why == TD_WAKE_TIME) {
        td_kernels_warm();
        td_trim();
        why = td_alive_wait(&s->alive, period_ms);
    }
    while (why != TD_WAKE_STOP) {
        if (why == TD_WAKE_RELOAD) {
            td_notify("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(td_clock_ns() / 1000));
        }
        reread_config(s);
        if (why == TD_WAKE_RELOAD) {
            reread_tokens(s);
            notify_ready(s);
        }
        why = td_alive_wait(&s->alive, period_ms);
    }
}

static void *stop_http(void *arg)
{
    return td_http_stop(arg, TD_DRAIN_MS) ? NULL : arg;
}

/* All listeners drain at once. False when a request would not end. */
static bool drain(struct server *s)
{
    pthread_t thread[N_HTTP];
    bool apart[N_HTTP];
    void *stuck[N_HTTP] = {NULL};
    atomic_store(&s->rest.draining, true);
    if (s->registry != NULL) {
        td_registry_cancel(s->registry);
    }
    td_jobs_drain(s->jobs);
    for (int i = 0; i < N_HTTP; i++) {
        apart[i] = s->http[i] != NULL && pthread_create(&thread[i], NULL, stop_http, s->http[i]) == 0;
    }
    td_grpc_stop(s->grpc, TD_DRAIN_MS);
    for (int i = 0; i < N_HTTP; i++) {
        if (apart[i]) {
            pthread_join(thread[i], &stuck[i]);
        } else {
            stuck[i] = stop_http(s->http[i]);
        }
    }
    return stuck[0] == NULL && stuck[1] == NULL;
}

static void free_all(struct server *s)
{
    td_trim_stop();
    td_jobs_close(s->jobs);
    td_job_flags_fini(&s->job_flags);
    td_registry_stop(s->registry);
    td_workers_stop(s->workers);
    td_shm_free(s->shm);
    td_connections_free(s->connections);
    td_open_calls_free(s->calls);
    td_engine_stop(&s->engine);
    td_tls_config_fini(&s->tls);
    td_trace_file_close();
    td_request_log_stop();
    td_spans_stop();
    td_access_close(s->access);
}

int main(int argc, char **argv)
{
    static struct server s;
    struct td_err err = {0};
    td_rest_json_start();
    td_kernels_charge();
    if (td_job_command_is(argc, argv)) {
        return td_job_command(argc, argv);
    }
    if (argc > 1 && strcmp(argv[1], "train") == 0) {
        return td_train_command(argc - 1, argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "quantize") == 0) {
        return td_quantize_command(argc - 1, argv + 1);
    }
    if (td_options_parse(&s.options, argc, argv, &err)) {
        td_options_usage(STDERR_FILENO);
        td_log(TD_LOG_ERROR, NULL, "%s", err.msg);
        return EXIT_BAD_SETUP;
    }
    if (s.options.help || s.options.version) {
        s.options.help ? td_options_usage(STDOUT_FILENO)
                       : (void)dprintf(STDOUT_FILENO, "tensord %s\n", TENSORD_VERSION);
        return EXIT_DRAINED;
    }
    td_log_setup(log_level(s.options.log_level), strcmp(s.options.log_format, "json") == 0);
    td_drain_init();
    td_notify_init();
    td_mapping_install_handler();
    td_connections_raise_files();
    if (start(&s, &err)) {
        td_log(TD_LOG_ERROR, NULL, "Failed to start server. Error: %s", err.msg);
        const bool setup =
            err.code == TD_INVALID_ARGUMENT || err.code == TD_NOT_FOUND || err.code == TD_FAILED_PRECONDITION;
        (void)drain(&s);
        free_all(&s);
        return setup ? EXIT_BAD_SETUP : EXIT_OTHER;
    }
    s.alive = (struct td_alive){.registry = s.registry,
                                .workers = s.workers,
                                .host = s.options.bind_address,
                                .port = s.tls.key == NULL && s.http[0] != NULL ? s.rest_port[0] : 0};
    td_busy_poll_start(s.options.busy_poll_us, td_cores_usable(""));
    if (await_models(&s)) {
        say_ready(&s);
        notify_ready(&s);
        serve(&s);
    }
    td_notify("STOPPING=1\nSTATUS=open requests have %d s to finish", TD_DRAIN_MS / 1000);
    td_log(TD_LOG_INFO, NULL, "stopping: open requests have %d s to finish", TD_DRAIN_MS / 1000);
    td_drain_bound();
    if (!drain(&s)) {
        td_log(TD_LOG_ERROR, NULL, "stopped with requests still running");
        _exit(EXIT_OTHER);
    }
    free_all(&s);
    td_log(TD_LOG_INFO, NULL, "stopped");
    return EXIT_DRAINED;
}
