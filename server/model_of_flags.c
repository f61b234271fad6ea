/* server/model_of_flags.c - a configuration of one model out of --model_base_path and --model_name. What is
 * no address of a remote store is made absolute, so that the working directory does not matter later.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/model_of_flags.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

enum td_code td_model_of_flags(const struct td_options *o, struct td_model_config **out, int *n,
                               struct td_err *err)
{
    const char *path = o->dir != NULL ? o->dir : o->model_base_path;
    TD_FAIL_IF(path[0] == '\0', err, INVALID_ARGUMENT,
               "Both server_options.model_base_path and server_options.model_config_file are empty!");
    char real[PATH_MAX];
    const char *absolute = strstr(path, "://") != NULL ? NULL : realpath(path, real);
    struct td_model_config *c = td_calloc(1, sizeof *c);
    if (c != NULL) {
        *c = (struct td_model_config){.name = td_strdup(o->model_name),
                                      .base_path = td_strdup(absolute != NULL ? absolute : path),
                                      .policy_of_model = true,
                                      .n_latest = 1};
    }
    if (c == NULL || c->name == NULL || c->base_path == NULL) {
        return td_no_memory(err, sizeof *c, "a configuration");
    }
    *out = c;
    *n = 1;
    return TD_OK;
}
