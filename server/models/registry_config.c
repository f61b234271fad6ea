/* server/models/registry_config.c - model configurations are copied whole and freed whole: names, paths,
 * versions and labels are each copy's own.
 *
 * A copy that runs out of memory frees what it has and leaves a zeroed struct, so that freeing it again does
 * no harm. Lists are arrays of such copies. The registry copies in what it is given and copies out what it is
 * asked for, so no caller holds anything that its lock guards.
 *
 * Does not: check configurations (server/models/config.c, registry.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_impl.h"

#include "core/base/mem.h"

void td_model_config_fini(struct td_model_config *c)
{
    for (int i = 0; i < c->n_labels; i++) {
        td_free(c->labels[i].name);
    }
    td_free(c->labels);
    td_free(c->versions);
    td_free(c->name);
    td_free(c->base_path);
    td_free(c->log_prefix);
}

void td_model_configs_free(struct td_model_config *models, int n)
{
    for (int i = 0; i < n; i++) {
        td_model_config_fini(&models[i]);
    }
    td_free(models);
}

enum td_code td_model_config_copy(struct td_model_config *to, const struct td_model_config *from,
                                  struct td_err *err)
{
    *to = *from;
    to->name = td_strdup(from->name);
    to->base_path = td_strdup(from->base_path);
    to->versions = td_calloc((size_t)from->n_versions + 1, sizeof *to->versions);
    to->labels = td_calloc((size_t)from->n_labels + 1, sizeof *to->labels);
    to->log_prefix = from->log_prefix != NULL ? td_strdup(from->log_prefix) : NULL;
    bool whole = to->name != NULL && to->base_path != NULL && to->versions != NULL && to->labels != NULL &&
                 (to->log_prefix != NULL || from->log_prefix == NULL);
    for (int i = 0; whole && i < from->n_versions; i++) {
        to->versions[i] = from->versions[i];
    }
    for (int i = 0; whole && i < from->n_labels; i++) {
        to->labels[i] = (struct td_label){td_strdup(from->labels[i].name), from->labels[i].version};
        whole = to->labels[i].name != NULL;
    }
    if (!whole) {
        to->n_labels = to->labels != NULL ? to->n_labels : 0;
        td_model_config_fini(to);
        *to = (struct td_model_config){0};
        return td_no_memory(err, sizeof *to, "a model's configuration");
    }
    return TD_OK;
}

enum td_code td_model_configs_copy(struct td_model_config **to, const struct td_model_config *from, int n,
                                   struct td_err *err)
{
    struct td_model_config *copy = td_calloc((size_t)n + 1, sizeof *copy);
    if (copy == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *copy, "the list of models");
    }
    for (int i = 0; i < n; i++) {
        if (td_model_config_copy(&copy[i], &from[i], err)) {
            td_model_configs_free(copy, i);
            return err->code;
        }
    }
    *to = copy;
    return TD_OK;
}
