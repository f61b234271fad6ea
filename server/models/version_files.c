/* server/models/version_files.c - is a version's folder complete? Names and lengths are compared, nothing is
 * read but the checkpoint's index.
 *
 *   saved_model.pb or .pbtxt     there
 *   variables/variables.index    read; or absent with no data files beside it
 *   variables/variables.data-*   as many as the index says, each as long as its entries reach
 *   assets/NAME                  those that an initialiser is fed with
 *
 * Whether a model needs a checkpoint is read off its graph, and only where it has none: what its restore op
 * runs is put together as for a run, and looked through for reads of anything but the object graph, which
 * exports of models without variables read too.
 *
 * Does not: check bytes (the reader of the checkpoint does, against checksums), or wait for what is missing
 * (server/models/registry_aspire.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/version_files.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "core/compile/ir.h"
#include "proto/checkpoint/bundle.h"

#define TRITON_NAME "model.savedmodel"
#define PREFIX "variables/variables"
#define GRAPH_BYTES ((size_t)512 << 20)
#define MAX_STEPS 16 /* between the names of what is restored and their constant */

static char *join(const char *a, const char *b)
{
    const size_t n = strlen(a) + strlen(b) + 2;
    char *s = td_calloc(n, 1);
    if (s != NULL) {
        (void)snprintf(s, n, "%s/%s", a, b);
    }
    return s;
}

static bool exists(const char *dir, const char *below)
{
    char *path = join(dir, below);
    const bool yes = path != NULL && access(path, F_OK) == 0;
    td_free(path);
    return yes;
}

static bool has_graph(const char *dir)
{
    return exists(dir, "saved_model.pb") || exists(dir, "saved_model.pbtxt");
}

char *td_version_files_model_dir(const char *home)
{
    return !has_graph(home) && exists(home, TRITON_NAME) ? join(home, TRITON_NAME) : td_strdup(home);
}

/* Whether variables/ holds data files, or what a writer puts aside before its index. */
static bool has_data(const char *dir)
{
    char *path = join(dir, "variables");
    DIR *d = path != NULL ? opendir(path) : NULL;
    bool any = false;
    for (const struct dirent *e; d != NULL && !any && (e = readdir(d)) != NULL;) {
        any = strstr(e->d_name, ".data-") != NULL;
    }
    if (d != NULL) {
        closedir(d);
    }
    td_free(path);
    return any;
}

enum td_code td_version_files_check_checkpoint(const char *dir, struct td_err *err)
{
    struct td_bundle *b = NULL;
    TD_FAIL_IF(!exists(dir, PREFIX ".index") && has_data(dir), err, NOT_FOUND,
               "%.900s/" PREFIX ".index: no such file, and its data files are there", dir);
    if (!exists(dir, PREFIX ".index")) {
        return TD_OK;
    }
    char *prefix = join(dir, PREFIX);
    enum td_code rc =
        prefix != NULL ? td_bundle_open_beneath(dir, prefix, &b, err) : td_no_memory(err, 1, "a path");
    rc = rc ? rc : td_bundle_survey(b, err);
    td_bundle_close(b);
    td_free(prefix);
    return rc;
}

enum td_code td_version_files_check(const char *dir, struct td_err *err)
{
    TD_FAIL_IF(!has_graph(dir), err, NOT_FOUND, "%.900s: no saved_model.pb or saved_model.pbtxt", dir);
    return td_version_files_check_checkpoint(dir, err);
}

/* ------------------------------------------------------------------ what the graph names */

static bool is_op(const struct td_node *n, const char *name)
{
    return strcmp(n->op_name, name) == 0;
}

/* Whether a read of a checkpoint asks for more than the object graph. */
static bool reads_more(const struct td_node *restore)
{
    const struct td_node *names = restore->n_in > 1 ? restore->in[1].node : NULL;
    for (int i = 0; names != NULL && names->n_in > 0 && is_op(names, "Identity") && i < MAX_STEPS; i++) {
        names = names->in[0].node;
    }
    const struct td_tensor *t = names != NULL ? td_node_const(names) : NULL;
    for (int64_t i = 0; t != NULL && t->dtype == TD_STRING && i < td_tensor_count(t); i++) {
        size_t n = 0;
        const char *name = td_tensor_str(t, i, &n);
        if (n != strlen("_CHECKPOINTABLE_OBJECT_GRAPH") ||
            memcmp(name, "_CHECKPOINTABLE_OBJECT_GRAPH", n) != 0) {
            return true;
        }
    }
    return t == NULL || t->dtype != TD_STRING;
}

/* Whether the restore op would read values. A graph that cannot be put together tells when it is run. */
static bool restores_values(const struct td_saved_model *m)
{
    struct td_node *node = td_graph_find(m->graph, m->restore_op, strcspn(m->restore_op, ":"));
    struct td_arena *arena = td_arena_new(GRAPH_BYTES);
    const struct td_callable_opts part = {.name = "restore", .targets = &node, .n_targets = 1};
    struct td_err ignored = {0};
    struct td_ir ir;
    bool any = false;
    if (node != NULL && arena != NULL &&
        td_ir_build(&ir, arena, m->graph, m->lib, &part, TD_IR_INLINE, &ignored) == TD_OK) {
        for (int i = 0; i < ir.n_nodes && !any; i++) {
            const struct td_node *n = ir.nodes[i];
            any = (is_op(n, "RestoreV2") || is_op(n, "Restore") || is_op(n, "RestoreSlice")) && reads_more(n);
        }
    }
    td_arena_free(arena);
    return any;
}

static enum td_code check_asset(const char *assets, const struct td_asset *a, struct td_err *err)
{
    TD_FAIL_IF(!exists(assets, a->filename), err, NOT_FOUND,
               "%.600s/%.300s: no such file, and the graph's '%.100s' is its path", assets, a->filename,
               a->tensor);
    return TD_OK;
}

enum td_code td_version_files_check_model(const char *dir, const struct td_saved_model *m, struct td_err *err)
{
    char *assets = join(dir, "assets");
    enum td_code rc = assets != NULL ? TD_OK : td_no_memory(err, 1, "a path");
    for (int i = 0; i < m->n_assets && m->init_op != NULL && rc == TD_OK; i++) {
        rc = check_asset(assets, &m->assets[i], err);
    }
    td_free(assets);
    TD_TRY(rc);
    TD_FAIL_IF(m->restore_op != NULL && !exists(dir, PREFIX ".index") && restores_values(m), err, NOT_FOUND,
               "%.900s/" PREFIX ".index: no such file, and the graph restores its variables from it", dir);
    return TD_OK;
}
