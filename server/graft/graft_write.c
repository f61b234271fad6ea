/* server/graft/graft_write.c - a closed graft as files: saved_model.pb, the checkpoint, assets.
 *
 * Variables of the original have the values that they have now; what further ones start with is computed by
 * the finished graph itself, as a model that runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/function/callable.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "proto/checkpoint/bundle.h"
#include "server/graft/graft_impl.h"

#define FILE_BYTES ((size_t)2 << 30) /* protobuf's own limit */

static enum td_code list_new_variables(struct td_graft *g, struct td_new_variable **out, struct td_err *err)
{
    struct td_new_variable *list = td_graft_room(g, g->n_kept, sizeof *list);
    for (int i = 0; list != NULL && i < g->n_kept; i++) {
        const struct td_graft_kept *k = &g->kept[i];
        list[i] = (struct td_new_variable){.name = td_graft_joined(g, k->handle.node->name, ":0"),
                                           .initializer = k->assign->name,
                                           .snapshot = td_graft_joined(g, k->read.node->name, ":0"),
                                           .initial_value = td_graft_joined(g, k->start.node->name, ":0"),
                                           .is_resource = k->is_resource,
                                           .trainable = k->trainable};
        if (list[i].name == NULL || list[i].snapshot == NULL || list[i].initial_value == NULL) {
            return td_graft_no_memory(err);
        }
    }
    *out = list;
    return list == NULL ? td_graft_no_memory(err) : TD_OK;
}

static enum td_code write_graph(struct td_graft *g, const char *dir, struct td_err *err)
{
    struct td_new_variable *variables;
    const struct td_saved_model *from = td_servable_model(g->servable);
    struct td_sink s = {.limit = FILE_BYTES}, tags = {0};
    char path[TD_FILE_PATH];
    TD_TRY(list_new_variables(g, &variables, err));
    const bool saved = g->n_kept > 0;
    struct td_new_model m = {.dir = td_servable_dir(g->servable),
                             .lib = td_model_library(td_servable_engine(g->servable)),
                             .nodes = g->ir.nodes,
                             .n_nodes = g->ir.n_nodes,
                             .signatures = &g->made,
                             .n_signatures = 1,
                             .filename_tensor = saved ? g->filename : NULL,
                             .save_tensor = saved ? g->save : NULL,
                             .restore_op = saved ? g->restore : NULL,
                             .init_op = g->init == NULL ? NULL : g->init->name,
                             .assets = g->assets,
                             .n_assets = g->n_assets,
                             .variables = variables,
                             .n_variables = g->n_kept};
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < from->n_tags; i++) {
        rc = td_sink_put(&tags, ",", i > 0, err);
        rc = rc ? rc : td_sink_put(&tags, from->tags[i], strlen(from->tags[i]), err);
    }
    rc = rc ? rc : td_sink_put(&tags, "", 1, err);
    m.tags = tags.p;
    rc = rc ? rc : td_saved_model_write(&m, &s, err);
    const int put = snprintf(path, sizeof path, "%s/saved_model.pb", dir);
    rc = rc || (put > 0 && (size_t)put < sizeof path)
             ? rc
             : td_fail(err, TD_INVALID_ARGUMENT, "%s: the path is too long", dir);
    rc = rc ? rc : td_file_write(path, s.p, s.n, err);
    td_sink_fini(&tags);
    td_sink_fini(&s);
    return rc;
}

/* The finished graph as a model that runs: it takes the arena. */
static enum td_code derive(struct td_graft *g, struct td_err *err)
{
    struct td_model *base = td_servable_engine(g->servable);
    struct td_graph *graph = td_graft_room(g, 1, sizeof *graph);
    struct td_library *lib = td_graft_room(g, 1, sizeof *lib);
    if (graph == NULL || lib == NULL) {
        return td_graft_no_memory(err);
    }
    TD_TRY(td_library_extend(td_model_library(base), g->arena, lib, err));
    td_graph_init(graph, g->arena, "");
    graph->nodes = g->ir.nodes;
    graph->n_nodes = graph->cap_nodes = g->ir.n_nodes;
    TD_TRY(td_model_derive(base, g->arena, graph, lib, &g->model, err));
    g->arena = NULL;
    return TD_OK;
}

/* What variable k holds at first; *out is the caller's. */
static enum td_code value_of(struct td_graft *g, const struct td_graft_kept *k, struct td_tensor *out,
                             struct td_err *err)
{
    if (k->from != NULL) {
        return td_variable_read(k->from, out, err);
    }
    const struct td_callable_opts opts = {
        .name = "initializer", .fetches = &k->start, .n_fetches = 1, .once = true};
    struct td_callable *f = NULL;
    TD_TRY(g->model == NULL ? derive(g, err) : TD_OK);
    TD_TRY(td_callable_new(g->model, &opts, &f, err));
    const enum td_code rc = td_callable_run(f, NULL, out, NULL, err);
    td_callable_drop(f);
    return rc;
}

static enum td_code put_values(struct td_graft *g, struct td_bundle_writer *w, struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < g->n_kept; i++) {
        const struct td_graft_kept *k = &g->kept[i];
        struct td_tensor t = {0};
        rc = value_of(g, k, &t, err);
        if (rc == TD_OK) {
            rc = k->slice[0] == 0 ? td_bundle_add(w, k->key, &t, err)
                                  : td_bundle_add_slice(w, k->key, k->slice, &t, err);
        }
        td_tensor_clear(&t);
    }
    return rc;
}

static enum td_code write_values(struct td_graft *g, const char *dir, struct td_err *err)
{
    char path[TD_FILE_PATH];
    struct td_bundle_writer *w;
    const int put = snprintf(path, sizeof path, "%s/variables/variables", dir);
    TD_FAIL_IF(put < 0 || (size_t)put >= sizeof path, err, INVALID_ARGUMENT, "%s: the path is too long", dir);
    TD_TRY(td_bundle_create(path, &w, err));
    const enum td_code rc = put_values(g, w, err);
    if (rc) {
        td_bundle_abandon(w);
        return rc;
    }
    return td_bundle_finish(w, err);
}

static enum td_code write_assets(struct td_graft *g, const char *dir, struct td_err *err)
{
    char from[TD_FILE_PATH], to[TD_FILE_PATH];
    const int a = snprintf(from, sizeof from, "%s/assets", td_servable_dir(g->servable));
    const int b = snprintf(to, sizeof to, "%s/assets", dir);
    TD_FAIL_IF(a < 0 || b < 0 || (size_t)a >= sizeof from || (size_t)b >= sizeof to, err, INVALID_ARGUMENT,
               "%s: the path is too long", dir);
    return g->n_assets == 0 ? TD_OK : td_tree_copy(td_servable_dir(g->servable), from, to, NULL, NULL, err);
}

enum td_code td_graft_write(struct td_graft *g, const char *dir, struct td_err *err)
{
    char variables[TD_FILE_PATH];
    const int put = snprintf(variables, sizeof variables, "%s/variables", dir);
    TD_FAIL_IF(put < 0 || (size_t)put >= sizeof variables, err, INVALID_ARGUMENT, "%s: the path is too long",
               dir);
    TD_TRY(td_tree_make(variables, 0755, err));
    TD_TRY(write_assets(g, dir, err));
    TD_TRY(write_graph(g, dir, err));
    TD_TRY(g->n_kept == 0 ? TD_OK : write_values(g, dir, err));
    td_file_sync_directory(variables);
    return TD_OK;
}
