/* server/models/config.c - one pass over the message: each entry is checked, then copied into a
 * td_model_config.
 *
 * Platform or type must say TensorFlow, and exactly one of them must be set; what the server lacks is refused
 * rather than passed over. A policy that is absent leaves the choice to the model's own config.pbtxt
 * (policy_of_model); one that is there though empty means the latest version, as in TF Serving. The first bad
 * entry ends the reading, and what was copied is freed.
 *
 * Does not: parse text (server/models/config_file.c), look at paths, compare models with each other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/config.h"

#include <string.h>

#include "core/base/mem.h"
#include "proto/schema/serving.pb-c.h"
#include "server/base/request_log.h"

#define MAX_MODELS 100000

typedef struct Tensorflow__Serving__ModelConfig model_pb;
typedef struct Tensorflow__Serving__FileSystemStoragePathSourceConfig__ServableVersionPolicy policy_pb;

static enum td_code check_platform(const model_pb *m, struct td_err *err)
{
    bool typed = m->model_type != TENSORFLOW__SERVING__MODEL_TYPE__MODEL_TYPE_UNSPECIFIED;
    TD_FAIL_IF(typed && *m->model_platform, err, INVALID_ARGUMENT,
               "Illegal setting both model_type and model_platform of model %s", m->name);
    TD_FAIL_IF(!typed && !*m->model_platform, err, INVALID_ARGUMENT,
               "Illegal setting neither model_type nor model_platform of model %s", m->name);
    bool known = typed ? m->model_type == TENSORFLOW__SERVING__MODEL_TYPE__TENSORFLOW
                       : strcmp(m->model_platform, "tensorflow") == 0;
    TD_FAIL_IF(!known, err, INVALID_ARGUMENT, "model %s: platform '%s' is not served, only 'tensorflow' is",
               m->name, typed ? "OTHER" : m->model_platform);
    return TD_OK;
}

/* What is logged of its requests. One that samples none is as good as none. */
static enum td_code read_logging(const model_pb *m, struct td_model_config *out, struct td_err *err)
{
    const struct Tensorflow__Serving__LoggingConfig *l = m->logging_config;
    if (l == NULL) {
        return TD_OK;
    }
    const char *type = l->log_collector_config != NULL ? l->log_collector_config->type : "";
    const char *prefix = l->log_collector_config != NULL ? l->log_collector_config->filename_prefix : "";
    const double rate = l->sampling_config != NULL ? l->sampling_config->sampling_rate : 0;
    TD_FAIL_IF(l->custom_logging_config != NULL || strcmp(type, "tfrecord") != 0, err, INVALID_ARGUMENT,
               "model %s: logging_config: log_collector_config of type '%.100s' is not known, 'tfrecord' is",
               m->name, l->custom_logging_config != NULL ? "custom_logging_config" : type);
    TD_FAIL_IF(l->sampling_config != NULL && l->sampling_config->n_per_task_sampling_configs > 0, err,
               INVALID_ARGUMENT, "model %s: logging_config: per_task_sampling_configs are not supported",
               m->name);
    TD_FAIL_IF(!(rate >= 0 && rate <= 1), err, INVALID_ARGUMENT,
               "model %s: logging_config: sampling_rate %g, must be from 0 to 1", m->name, rate);
    const char *rest = td_request_log_prefix(m->name, prefix, err);
    if (rest == NULL) {
        return err->code;
    }
    out->log_prefix = td_strdup(rest);
    out->log_rate = rate;
    return out->log_prefix != NULL ? TD_OK : td_no_memory(err, strlen(rest), "a configuration");
}

static enum td_code read_policy(const policy_pb *p, struct td_model_config *out, struct td_err *err)
{
    out->policy = TD_POLICY_LATEST;
    out->n_latest = 1;
    out->policy_of_model = p == NULL; /* one that is there, though empty, is TF Serving's default */
    if (p == NULL) {
        return TD_OK;
    }
    switch (p->policy_choice_case) {
    case TENSORFLOW__SERVING__FILE_SYSTEM_STORAGE_PATH_SOURCE_CONFIG__SERVABLE_VERSION_POLICY__POLICY_CHOICE_ALL:
        out->policy = TD_POLICY_ALL;
        return TD_OK;
    case TENSORFLOW__SERVING__FILE_SYSTEM_STORAGE_PATH_SOURCE_CONFIG__SERVABLE_VERSION_POLICY__POLICY_CHOICE_LATEST:
        if (p->latest->num_versions > 0) {
            out->n_latest = p->latest->num_versions > INT32_MAX ? INT32_MAX : (int)p->latest->num_versions;
        }
        return TD_OK;
    case TENSORFLOW__SERVING__FILE_SYSTEM_STORAGE_PATH_SOURCE_CONFIG__SERVABLE_VERSION_POLICY__POLICY_CHOICE_SPECIFIC:
        break;
    default:
        return TD_OK;
    }
    size_t n = p->specific->n_versions;
    out->policy = TD_POLICY_SPECIFIC;
    out->versions = td_calloc(n + 1, sizeof *out->versions);
    if (out->versions == NULL) {
        return td_no_memory(err, n * sizeof *out->versions, "a configuration");
    }
    if (n > 0) {
        memcpy(out->versions, p->specific->versions, n * sizeof *out->versions);
    }
    out->n_versions = (int)n;
    return TD_OK;
}

static enum td_code read_model(const model_pb *m, struct td_model_config *out, struct td_err *err)
{
    TD_TRY(check_platform(m, err));
    TD_TRY(read_policy(m->model_version_policy, out, err));
    TD_TRY(read_logging(m, out, err));
    out->name = td_strdup(m->name);
    out->base_path = td_strdup(m->base_path);
    out->labels = td_calloc(m->n_version_labels + 1, sizeof *out->labels);
    if (out->name == NULL || out->base_path == NULL || out->labels == NULL) {
        return td_no_memory(err, m->n_version_labels * sizeof *out->labels, "a configuration");
    }
    for (size_t i = 0; i < m->n_version_labels; i++) {
        struct td_label *l = &out->labels[out->n_labels];
        *l = (struct td_label){td_strdup(m->version_labels[i]->key), m->version_labels[i]->value};
        if (l->name == NULL) {
            return td_no_memory(err, strlen(m->version_labels[i]->key), "a configuration");
        }
        out->n_labels++;
    }
    return TD_OK;
}

enum td_code td_config_models(const struct Tensorflow__Serving__ModelServerConfig *config,
                              struct td_model_config **out, int *n, struct td_err *err)
{
    TD_FAIL_IF(config->config_case == TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_CUSTOM_MODEL_CONFIG,
               err, INVALID_ARGUMENT,
               "ModelServerConfig: custom_model_config is not supported, only model_config_list is");
    bool listed = config->config_case == TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST;
    size_t count = listed ? config->model_config_list->n_config : 0;
    TD_FAIL_IF(count > MAX_MODELS, err, INVALID_ARGUMENT,
               "ModelServerConfig: %zu models, at most %d are allowed", count, MAX_MODELS);
    struct td_model_config *models = td_calloc(count + 1, sizeof *models);
    if (models == NULL) {
        return td_no_memory(err, count * sizeof *models, "a configuration");
    }
    for (size_t i = 0; i < count; i++) {
        enum td_code rc = read_model(config->model_config_list->config[i], &models[i], err);
        if (rc) {
            td_model_configs_free(models, (int)i + 1);
            return rc;
        }
    }
    *out = models;
    *n = (int)count;
    return TD_OK;
}
