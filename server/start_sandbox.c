/* server/start_sandbox.c - the lists for server/base/sandbox.c: read the models' folders and the files that
 * are read again, write the state directory, logs, and where jobs put their results.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/start_sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "proto/bytes/file.h"
#include "server/base/notify.h"

/* The folder of a file that may be read again, replaced meanwhile. */
static enum td_code read_beside(struct td_sandbox *s, const char *file, enum td_code rc)
{
    char dir[TD_FILE_PATH];
    const char *slash = strrchr(file, '/');
    if (file[0] == '\0' || slash == NULL || slash == file) {
        return td_sandbox_read(s, file, rc);
    }
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - file), file);
    return td_sandbox_read(s, dir, rc);
}

static enum td_code write_beside(struct td_sandbox *s, const char *file, enum td_code rc)
{
    char dir[TD_FILE_PATH];
    const char *slash = strrchr(file, '/');
    if (file[0] == '\0') {
        return rc;
    }
    (void)snprintf(dir, sizeof dir, "%.*s", slash != NULL ? (int)(slash - file) + 1 : 1,
                   slash != NULL ? file : ".");
    return td_sandbox_write(s, dir, rc);
}

static enum td_code list_paths(struct td_sandbox *s, const struct td_options *o, const char *state_dir,
                               const struct td_model_config *models, int n)
{
    enum td_code rc = td_sandbox_write(s, state_dir, TD_OK);
    rc = read_beside(s, o->model_config_file, rc);
    rc = read_beside(s, o->tokens_file, rc);
    rc = read_beside(s, o->ssl_config_file, rc);
    rc = write_beside(s, o->trace_file, rc);
    rc = write_beside(s, o->grpc_socket_path, rc);
    rc = td_sandbox_write(s, o->request_log_dir, rc);
    for (const char *at = o->op_library; *at != '\0'; at += *at == ',') {
        char file[TD_FILE_PATH];
        const size_t len = strcspn(at, ",");
        (void)snprintf(file, sizeof file, "%.*s", (int)len, at);
        rc = td_sandbox_read(s, file, rc);
        at += len;
    }
    for (int i = 0; i < o->model_repository.n; i++) {
        rc = td_sandbox_write(s, o->model_repository.at[i], rc);
    }
    for (int i = 0; i < n && rc == TD_OK; i++) {
        rc = td_sandbox_model(s, models[i].base_path, s->jobs);
    }
    return rc;
}

/* The port of the collector that spans are posted to; 0: there is none. */
static int collector_port(const struct td_options *o)
{
    const char *traces = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
               *all = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    const char *at = o->otlp_endpoint[0] != '\0' ? o->otlp_endpoint : traces != NULL ? traces : all;
    const char *host = at != NULL ? strstr(at, "://") : NULL;
    if (host == NULL) {
        return 0;
    }
    host += 3;
    const char *rest = host + strcspn(host, "/"), *colon = rest;
    while (colon > host && *colon != ':' && *colon != ']') {
        colon--;
    }
    return *colon == ':' ? (int)strtol(colon + 1, NULL, 10) : 4318; /* OTLP over HTTP */
}

enum td_code td_start_sandbox(const struct td_options *o, const char *state_dir,
                              const struct td_model_config *models, int n, struct td_sandbox **out,
                              struct td_err *err)
{
    static struct td_sandbox s;
    *out = NULL;
    if (!o->sandbox) {
        return TD_OK;
    }
    s.jobs = state_dir[0] != '\0' && o->max_jobs > 0;
    s.connect_port[0] = td_notify_watchdog_ms() > 0 ? o->rest_api_port : 0; /* it asks itself */
    s.connect_port[1] = collector_port(o);
    s.names = s.connect_port[1] != 0;
    TD_FAIL_IF(s.connect_port[0] == TD_PORT_AUTO, err, FAILED_PRECONDITION,
               "--sandbox with a watchdog needs a rest_api_port with a number: it is asked there");
    TD_FAIL_IF(list_paths(&s, o, state_dir, models, n), err, FAILED_PRECONDITION,
               "--sandbox: more than %d folders, or no memory", TD_SANDBOX_PATHS);
    TD_TRY(td_sandbox_enter(&s, err));
    td_log(TD_LOG_INFO, NULL, "sandbox: %d folders may be read, %d written%s", s.read.n, s.write.n,
           s.jobs ? "; jobs may run (--max_jobs=0: none may)" : "; nothing may be executed");
    *out = &s;
    return TD_OK;
}

enum td_code td_sandbox_check_models(const struct td_sandbox *s, const struct td_model_config *models, int n,
                                     struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        TD_FAIL_IF(!td_sandbox_may_read(s, models[i].base_path), err, PERMISSION_DENIED,
                   "model '%.100s': base_path %.300s is outside of what --sandbox lets this server read: the "
                   "folders of its models at its start, and those that they lay in",
                   models[i].name, models[i].base_path);
    }
    return TD_OK;
}
