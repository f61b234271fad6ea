/* server/models/model_dirs.c - lists folders; every folder is a model.
 *
 * Roots are resolved to absolute paths first, so that a configuration does not change its meaning with the
 * working directory. Entries are taken in the order the file system gives them; the same name below two roots
 * is listed twice, and refused by the registry. td_model_dirs_find looks one name up directly, first root
 * first.
 *
 * Nothing is kept between calls. Does not: look into the folders (server/models/watch.c), read
 * configurations.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/model_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "proto/json/json_write.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"

struct found {
    struct td_model_config *models;
    int n, room;
};

/* ROOT/NAME in buf, when that is a folder. */
static bool folder_of(const char *root, const char *name, char buf[PATH_MAX])
{
    struct stat st;
    const int n = snprintf(buf, PATH_MAX, "%s/%s", root, name);
    return n > 0 && n < PATH_MAX && stat(buf, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_listed(const struct td_texts *names, const char *name)
{
    for (int i = 0; i < names->n; i++) {
        if (strcmp(names->at[i], name) == 0 || strcmp(names->at[i], "*") == 0) {
            return true;
        }
    }
    return false;
}

static enum td_code add_model(struct found *f, const char *name, const char *path, bool on_command,
                              struct td_err *err)
{
    if (f->n == f->room) {
        const int room = f->room * 2 + 16;
        struct td_model_config *more = td_realloc(f->models, (size_t)room, sizeof *more);
        if (more == NULL) {
            return td_no_memory(err, (size_t)room * sizeof *more, "the list of models");
        }
        f->models = more;
        f->room = room;
    }
    f->models[f->n] = (struct td_model_config){.name = td_strdup(name),
                                               .base_path = td_strdup(path),
                                               .on_command = on_command,
                                               .policy_of_model = true,
                                               .n_latest = 1};
    const struct td_model_config *c = &f->models[f->n++];
    return c->name != NULL && c->base_path != NULL
               ? TD_OK
               : td_no_memory(err, strlen(path), "a model's configuration");
}

static enum td_code list_root(const struct td_model_dirs *d, const char *root, struct found *f,
                              struct td_err *err)
{
    char absolute[PATH_MAX], path[PATH_MAX];
    DIR *dir = realpath(root, absolute) != NULL ? opendir(absolute) : NULL;
    TD_FAIL_IF(dir == NULL, err, NOT_FOUND, "model repository %s: %s", root, strerror(errno));
    enum td_code rc = TD_OK;
    for (struct dirent *e = readdir(dir); e != NULL && rc == TD_OK; e = readdir(dir)) {
        if (!td_utf8(e->d_name, strlen(e->d_name))) {
            td_log(TD_LOG_WARNING, NULL, "model repository %s: a folder whose name is no UTF-8 is left out",
                   root);
        } else if (e->d_name[0] != '.' && folder_of(absolute, e->d_name, path)) {
            rc = add_model(f, e->d_name, path, d->load != NULL && !is_listed(d->load, e->d_name), err);
        }
    }
    closedir(dir);
    return rc;
}

enum td_code td_model_dirs_list(const struct td_model_dirs *d, struct td_model_config **out, int *n,
                                struct td_err *err)
{
    struct found f = {0};
    for (int i = 0; i < d->roots->n; i++) {
        if (list_root(d, d->roots->at[i], &f, err)) {
            td_model_configs_free(f.models, f.n);
            return err->code;
        }
    }
    *out = f.models;
    *n = f.n;
    return TD_OK;
}

char *td_model_dirs_find(const struct td_model_dirs *d, const char *model)
{
    char absolute[PATH_MAX], path[PATH_MAX];
    for (int i = 0; d != NULL && i < d->roots->n; i++) {
        if (realpath(d->roots->at[i], absolute) != NULL && folder_of(absolute, model, path)) {
            return td_strdup(path);
        }
    }
    return NULL;
}
