/* server/models/model_dirs.h - directories of models in Triton's layout: each folder in one is a model of
 * that name.
 *
 * Below it lie numbered versions and, perhaps, a config.pbtxt; those are the registry's affair. Names that
 * begin with a '.' are no models.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_MODEL_DIRS_H
#define TD_SERVER_MODELS_MODEL_DIRS_H

#include "server/base/options.h"
#include "server/models/registry.h"

struct td_model_dirs {
    const struct td_texts *roots; /* paths */
    const struct td_texts *load;  /* names of models that load by being there, "*" all of them; NULL: all */
};

/* All models, for td_model_configs_free. NOT_FOUND and others for a directory that cannot be read. */
TD_MUST enum td_code td_model_dirs_list(const struct td_model_dirs *d, struct td_model_config **out, int *n,
                                        struct td_err *err);
/* The folder of one model, for td_free; NULL when there is none. Accepts NULL. */
char *td_model_dirs_find(const struct td_model_dirs *d, const char *model);

#endif
