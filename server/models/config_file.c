/* server/models/config_file.c - four kinds of files, one way: read, parse with the message's descriptor,
 * check, copy what is wanted.
 *
 * read_text does the first two steps; unknown fields are errors. The file's name is put behind the error's
 * text, because scripts look for how it begins. Each reader then sets TF Serving's defaults, overwrites them
 * with what is given, and checks the values against each other. The message is freed before return: nothing
 * of it is kept.
 *
 * Does not: check certificates (server/base/tls.c), apply anything (server/main.c hands it on), watch for
 * changes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/config_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/pb/guard.h"
#include "proto/schema/serving.pb-c.h"
#include "proto/pb/textpb.h"
#include "server/models/config.h"

#define MAX_FILE ((size_t)64 << 20)

/* The message in a file, returned new. root: as td_file_read_beneath's. */
static enum td_code read_beneath(const char *root, const char *path, const ProtobufCMessageDescriptor *d,
                                 ProtobufCMessage **out, struct td_err *err)
{
    char *text = NULL;
    size_t n = 0;
    TD_TRY(td_file_read_beneath(root, path, MAX_FILE, &text, &n, err));
    enum td_code rc = td_textpb_parse(d, text, n, false, out, err);
    td_free(text);
    if (rc) { /* the words that scripts look for come first */
        const size_t at = strlen(err->msg);
        (void)snprintf(err->msg + at, sizeof err->msg - at, " (file %s)", path);
    }
    return rc;
}

static enum td_code read_text(const char *path, const ProtobufCMessageDescriptor *d, ProtobufCMessage **out,
                              struct td_err *err)
{
    return read_beneath(NULL, path, d, out, err);
}

enum td_code td_config_file_models(const char *path, struct td_model_config **out, int *n, struct td_err *err)
{
    ProtobufCMessage *m = NULL;
    TD_TRY(read_text(path, &tensorflow__serving__model_server_config__descriptor, &m, err));
    const enum td_code rc = td_config_models((Tensorflow__Serving__ModelServerConfig *)m, out, n, err);
    td_guard_free(m);
    return rc;
}

/* ------------------------------------------------------------------ TLS */

void td_tls_config_fini(struct td_tls_config *c)
{
    td_free(c->key);
    td_free(c->cert);
    td_free(c->ca);
    *c = (struct td_tls_config){0};
}

enum td_code td_config_file_tls(const char *path, struct td_tls_config *out, struct td_err *err)
{
    ProtobufCMessage *m = NULL;
    TD_TRY(read_text(path, &tensorflow__serving__sslconfig__descriptor, &m, err));
    const Tensorflow__Serving__SSLConfig *c = (const Tensorflow__Serving__SSLConfig *)m;
    const bool has_ca = c->custom_ca[0] != '\0';
    *out = (struct td_tls_config){.client_verify = c->client_verify};
    enum td_code rc = TD_OK;
    if (c->server_key[0] == '\0' || c->server_cert[0] == '\0') {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "SSLConfig %s: server_key and server_cert must hold PEM texts",
                     path);
    } else if (c->client_verify && !has_ca) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "SSLConfig %s: client_verify needs custom_ca", path);
    } else {
        out->key = td_strdup(c->server_key);
        out->cert = td_strdup(c->server_cert);
        out->ca = has_ca ? td_strdup(c->custom_ca) : NULL;
        if (out->key == NULL || out->cert == NULL || (has_ca && out->ca == NULL)) {
            rc = td_no_memory(err, strlen(c->server_key), "the TLS configuration");
            td_tls_config_fini(out);
        }
    }
    td_guard_free(m);
    return rc;
}

/* ------------------------------------------------------------------ batching */

static enum td_code set_number(int64_t *to, const Google__Protobuf__Int64Value *v, const char *name,
                               int64_t least, struct td_err *err)
{
    if (v == NULL) {
        return TD_OK;
    }
    TD_FAIL_IF(v->value < least, err, INVALID_ARGUMENT, "BatchingParameters: %s is %lld, want at least %lld",
               name, (long long)v->value, (long long)least);
    *to = v->value;
    return TD_OK;
}

static enum td_code read_sizes(const Tensorflow__Serving__BatchingParameters *p, struct td_batching *out,
                               struct td_err *err)
{
    TD_FAIL_IF(p->n_allowed_batch_sizes > TD_MAX_ALLOWED_BATCH_SIZES, err, INVALID_ARGUMENT,
               "BatchingParameters: %zu allowed_batch_sizes, at most %d are supported",
               p->n_allowed_batch_sizes, TD_MAX_ALLOWED_BATCH_SIZES);
    for (size_t i = 0; i < p->n_allowed_batch_sizes; i++) {
        out->allowed_batch_sizes[i] = p->allowed_batch_sizes[i];
        TD_FAIL_IF(
            p->allowed_batch_sizes[i] < 1 ||
                (i > 0 && p->allowed_batch_sizes[i] <= p->allowed_batch_sizes[i - 1]),
            err, INVALID_ARGUMENT,
            "allowed_batch_sizes entries must be positive and monotonically increasing; entry %zu is %lld", i,
            (long long)p->allowed_batch_sizes[i]);
    }
    out->n_allowed = (int)p->n_allowed_batch_sizes;
    const int64_t most = out->split_large ? out->max_execution_batch_size : out->max_batch_size;
    TD_FAIL_IF(out->n_allowed > 0 && out->allowed_batch_sizes[out->n_allowed - 1] != most, err,
               INVALID_ARGUMENT,
               "Last entry in allowed_batch_sizes must match %s; last entry was %lld; expected %lld",
               out->split_large ? "max_execution_batch_size" : "max_batch_size",
               (long long)out->allowed_batch_sizes[out->n_allowed - 1], (long long)most);
    return TD_OK;
}

static enum td_code check_batching(const Tensorflow__Serving__BatchingParameters *p, struct td_batching *out,
                                   struct td_err *err)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (struct td_batching){.max_batch_size = 1000,
                                .max_enqueued_batches = 10,
                                .num_batch_threads = cores > 0 ? cores : 1,
                                .pad_variable_length_inputs = p->pad_variable_length_inputs};
    TD_TRY(set_number(&out->max_batch_size, p->max_batch_size, "max_batch_size", 1, err));
    TD_TRY(set_number(&out->batch_timeout_micros, p->batch_timeout_micros, "batch_timeout_micros", 0, err));
    TD_TRY(set_number(&out->max_enqueued_batches, p->max_enqueued_batches, "max_enqueued_batches", 1, err));
    TD_TRY(set_number(&out->num_batch_threads, p->num_batch_threads, "num_batch_threads", 1, err));
    out->split_large = p->enable_large_batch_splitting != NULL && p->enable_large_batch_splitting->value;
    out->max_execution_batch_size = out->max_batch_size;
    if (out->split_large) {
        TD_TRY(set_number(&out->max_execution_batch_size, p->max_execution_batch_size,
                          "max_execution_batch_size", 1, err));
    }
    if (p->thread_pool_name != NULL) {
        (void)snprintf(out->thread_pool_name, sizeof out->thread_pool_name, "%s", p->thread_pool_name->value);
    }
    TD_FAIL_IF(out->max_execution_batch_size > out->max_batch_size, err, INVALID_ARGUMENT,
               "BatchingParameters: max_execution_batch_size %lld is larger than max_batch_size %lld",
               (long long)out->max_execution_batch_size, (long long)out->max_batch_size);
    return read_sizes(p, out, err);
}

static enum td_code read_batching(const char *root, const char *path, struct td_batching *out,
                                  struct td_err *err)
{
    ProtobufCMessage *m = NULL;
    TD_TRY(read_beneath(root, path, &tensorflow__serving__batching_parameters__descriptor, &m, err));
    const enum td_code rc = check_batching((const Tensorflow__Serving__BatchingParameters *)m, out, err);
    td_guard_free(m);
    return rc;
}

enum td_code td_config_file_batching(const char *path, struct td_batching *out, struct td_err *err)
{
    return read_batching(NULL, path, out, err);
}

enum td_code td_config_file_model_batching(const char *dir, struct td_batching *out, struct td_err *err)
{
    char path[TD_FILE_PATH];
    const int n = snprintf(path, sizeof path, "%s/batching_params.pbtxt", dir);
    TD_FAIL_IF(n < 0 || (size_t)n >= sizeof path, err, NOT_FOUND, "%s: the path is too long", dir);
    return read_batching(dir, path, out, err);
}

/* ------------------------------------------------------------------ monitoring */

enum td_code td_config_file_monitoring(const char *path, struct td_monitoring *out, struct td_err *err)
{
    ProtobufCMessage *m = NULL;
    TD_TRY(read_text(path, &tensorflow__serving__monitoring_config__descriptor, &m, err));
    const Tensorflow__Serving__PrometheusConfig *p =
        ((const Tensorflow__Serving__MonitoringConfig *)m)->prometheus_config;
    const char *where = p != NULL && p->path[0] != '\0' ? p->path : "/monitoring/prometheus/metrics";
    enum td_code rc = TD_OK;
    if (where[0] != '/' || strlen(where) >= sizeof out->path) {
        rc = td_fail(err, TD_INVALID_ARGUMENT,
                     "MonitoringConfig %s: prometheus path '%.200s', want /... of fewer than %zu bytes", path,
                     where, sizeof out->path);
    } else {
        *out = (struct td_monitoring){.enable = p != NULL && p->enable};
        memcpy(out->path, where, strlen(where) + 1);
    }
    td_guard_free(m);
    return rc;
}
