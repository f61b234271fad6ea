/* server/models/servable.c - loading one model version and running its signatures.
 *
 * Loading follows TensorFlow's order: read, restore (the graph's own restore op, fed with the checkpoint
 * prefix and the assets), init op, then one callable a signature. A signature whose tensors do not exist is
 * kept with its error, which a call of it reports; the rest of the model serves. What is behind a signature
 * is servable_entry.c's.
 *
 * Invariant (servable_check): after td_servable_load nothing here changes but reference count and statistics;
 * the engine below has its own locks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/servable.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/run/variable.h"
#include "proto/bytes/mapping.h"
#include "server/base/clock.h"
#include "server/models/model_warmup.h"
#include "server/models/precision_file.h"
#include "server/models/servable_impl.h"
#include "server/models/upload.h"
#include "server/models/version_files.h"

/* ------------------------------------------------------------------ paths */

static char *join(const char *a, const char *b)
{
    size_t n = strlen(a) + strlen(b) + 2;
    char *s = td_calloc(n, 1);
    if (s != NULL) {
        snprintf(s, n, "%s/%s", a, b);
    }
    return s;
}

static char *scratch_path(const char *state_dir, const char *name, int64_t version)
{
    size_t n = strlen(state_dir) + strlen(name) + 40;
    char *s = td_calloc(n, 1);
    if (s != NULL) {
        snprintf(s, n, "%s/scratch/%s/%lld", state_dir, name, (long long)version);
    }
    return s;
}

static bool file_exists(const char *dir, const char *below)
{
    char *path = join(dir, below);
    bool yes = path != NULL && access(path, R_OK) == 0;
    td_free(path);
    return yes;
}

/* ------------------------------------------------------------------ running restore and init */

static enum td_code string_tensor(const char *text, struct td_tensor *t, struct td_err *err)
{
    struct td_shape scalar = td_shape_scalar();
    TD_TRY(td_tensor_new(t, TD_STRING, &scalar, err));
    return td_tensor_set_str(t, 0, text, strlen(text), err);
}

/* The feeds of restore and init: assets, and the checkpoint prefix when given. */
struct start_feeds {
    struct td_value *at;
    struct td_tensor *t;
    int n;
};

static void start_feeds_free(struct start_feeds *f)
{
    for (int i = 0; i < f->n; i++) {
        td_tensor_clear(&f->t[i]);
    }
    td_free(f->t);
    td_free(f->at);
}

static enum td_code add_feed(struct td_servable *s, struct start_feeds *f, const char *tensor,
                             const char *path, struct td_err *err)
{
    if (path == NULL) {
        return td_no_memory(err, 1, "path");
    }
    TD_TRY(td_graph_value(td_model_graph(s->engine), tensor, &f->at[f->n], err));
    f->n++;
    return string_tensor(path, &f->t[f->n - 1], err);
}

static enum td_code start_feeds_make(struct td_servable *s, bool with_prefix, struct start_feeds *f,
                                     struct td_err *err)
{
    const struct td_saved_model *m = s->model;
    f->at = td_calloc((size_t)m->n_assets + 2, sizeof *f->at);
    f->t = td_calloc((size_t)m->n_assets + 2, sizeof *f->t);
    if (f->at == NULL || f->t == NULL) {
        return td_no_memory(err, 1, "asset feeds");
    }
    char *assets = join(s->dir, "assets");
    enum td_code rc = assets == NULL ? td_no_memory(err, 1, "path") : TD_OK;
    for (int i = 0; rc == TD_OK && i < m->n_assets; i++) {
        char *path = join(assets, m->assets[i].filename);
        rc = add_feed(s, f, m->assets[i].tensor, path, err);
        td_free(path);
    }
    td_free(assets);
    if (rc == TD_OK && with_prefix) {
        char *prefix = join(s->dir, "variables/variables");
        rc = add_feed(s, f, m->filename_tensor, prefix, err);
        td_free(prefix);
    }
    return rc;
}

static enum td_code run_node(struct td_servable *s, const char *op, struct td_node *node,
                             const struct start_feeds *feeds, struct td_err *err)
{
    struct td_callable *f = NULL;
    const struct td_callable_opts opts = {
        .name = op, .feeds = feeds->at, .n_feeds = feeds->n, .targets = &node, .n_targets = 1, .once = true};
    struct td_run_opts run = td_run_opts_given(NULL);
    run.pool = s->opts.pool;
    TD_TRY(td_callable_new(s->engine, &opts, &f, err));
    const enum td_code rc = td_callable_run(f, feeds->t, NULL, &run, err);
    td_callable_drop(f);
    return rc;
}

static enum td_code run_target(struct td_servable *s, const char *op, bool with_prefix, struct td_err *err)
{
    struct start_feeds feeds = {0};
    struct td_node *node = td_graph_find(td_model_graph(s->engine), op, strcspn(op, ":"));
    TD_FAIL_IF(node == NULL, err, INVALID_ARGUMENT, "the graph has no node '%s' to run at load", op);
    enum td_code rc = start_feeds_make(s, with_prefix, &feeds, err);
    rc = rc ? rc : run_node(s, op, node, &feeds, err);
    start_feeds_free(&feeds);
    return rc;
}

static enum td_code restore_and_init(struct td_servable *s, struct td_err *err)
{
    const struct td_saved_model *m = s->model;
    const int64_t from_ns = td_clock_ns();
    if (m->restore_op != NULL && m->filename_tensor != NULL &&
        file_exists(s->dir, "variables/variables.index")) {
        if (run_target(s, m->restore_op, true, err)) {
            return td_err_wrap(err, "restoring variables of '%s'", s->dir);
        }
    }
    s->times.restore_ns = td_clock_ns() - from_ns;
    if (m->init_op != NULL && run_target(s, m->init_op, false, err)) {
        return td_err_wrap(err, "initialising '%s'", s->dir);
    }
    s->times.init_ns = td_clock_ns() - from_ns - s->times.restore_ns;
    return TD_OK;
}

/* ------------------------------------------------------------------ signatures */

static enum td_code open_entries(struct td_servable *s, struct td_err *err)
{
    s->entries = td_calloc((size_t)s->model->n_signatures + 1, sizeof *s->entries);
    if (s->entries == NULL) {
        return td_no_memory(err, 1, "signatures");
    }
    for (int i = 0; i < s->model->n_signatures; i++) {
        struct td_err why = {0};
        s->entries[i].latency = td_latency_row(s->latency, s->model->signatures[i].key);
        if (td_signature_is_init(&s->model->signatures[i]) ||
            td_entry_open(s, &s->model->signatures[i], &s->entries[i], &why) == TD_OK) {
            continue;
        }
        s->entries[i].error = td_calloc(1, sizeof why);
        if (s->entries[i].error == NULL) {
            return td_no_memory(err, sizeof why, "signatures");
        }
        *s->entries[i].error = why;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ loading and freeing */

TD_CHECK_FN enum td_code servable_check(struct td_servable *s, struct td_err *err)
{
    const void *const set[] = {s->name, s->dir, s->home, s->model, s->engine, s->entries};
    const uint64_t now = td_hash_bytes(set, sizeof set);
    s->loaded_as = s->loaded_as == 0 ? now : s->loaded_as;
    TD_WANT(s->loaded_as == now, err, "model %s has changed since it was loaded", s->name);
    return TD_OK;
}

static void destroy(struct td_servable *s)
{
    for (int i = 0; s->entries != NULL && i < s->model->n_signatures; i++) {
        td_entry_close(&s->entries[i]);
    }
    td_gradients_fini(&s->gradients);
    pthread_mutex_destroy(&s->choosing);
    td_free(s->entries);
    td_latency_close(s->latency);
    td_model_settings_fini(&s->settings);
    td_replicas_close(&s->replicas);
    if (s->engine != NULL) {
        td_model_unref(s->engine);
    } else {
        td_saved_model_free(s->model);
    }
    td_account_close(s->account);
    td_upload_unref(s->opts.upload); /* last: it may remove the files */
    td_free(s->name);
    td_free(s->home);
    td_free(s->dir);
    td_free(s->tags);
    td_free(s->passes_off);
    td_free(s);
}

/* rc is of the configuration beside the model, or of an upload's. */
static enum td_code of_config(const struct td_servable *s, enum td_code rc, struct td_err *err)
{
    size_t n;
    const bool uploaded = s->opts.upload != NULL && td_upload_config(s->opts.upload, &n) != NULL;
    return !rc        ? TD_OK
           : uploaded ? td_err_wrap(err, "config")
                      : td_err_wrap(err, "%s/config.pbtxt", s->settings.dir);
}

/* What the configuration says, and the devices that it and the graph choose. */
static enum td_code read_config(struct td_servable *s, const struct td_servable_opts *o,
                                struct td_devices_list *devices, struct td_err *err)
{
    size_t n = 0;
    const char *json = s->opts.upload != NULL ? td_upload_config(s->opts.upload, &n) : NULL;
    TD_TRY(json != NULL ? td_model_config_override(s->home, json, n, &s->settings, err)
                        : td_model_config_read(s->home, &s->settings, err));
    const struct td_saved_model *m = s->model;
    return of_config(s, td_replicas_choose(&o->devices, &s->settings, m->graph, m->lib, devices, err), err);
}

/* The configuration must fit the model; its warm-up requests are run. */
static enum td_code configure(struct td_servable *s, struct td_err *err)
{
    const enum td_code rc = td_model_config_check(&s->settings, td_servable_signature(s, ""), err);
    return of_config(s, rc ? rc : td_model_warmup_run(s, err), err);
}

/* *out: counted; NULL: as the graph says. */
static enum td_code precision_of(const struct td_servable *s, const struct td_servable_opts *o,
                                 struct td_precision **out, struct td_err *err)
{
    *out = td_precision_ref(o->precision);
    if (*out != NULL) {
        return TD_OK;
    }
    TD_TRY(td_precision_file_read(s->dir, out, err));
    if (*out != NULL) {
        td_log(TD_LOG_INFO, &(struct td_log_about){.model = s->name, .version = s->version},
               "%s/" TD_PRECISION_FILE ": products with weights are computed in %s", s->dir,
               (*out)->kind == TD_PRECISION_INT8 ? "int8" : "bfloat16");
    }
    return TD_OK;
}

static enum td_code load(struct td_servable *s, const struct td_servable_opts *o, struct td_err *err)
{
    struct td_precision *precision;
    struct td_devices_list devices;
    TD_TRY(td_version_files_check_checkpoint(s->dir, err)); /* before a graph is read in vain */
    TD_TRY(td_saved_model_read(s->dir, o->tags, o->ops, &s->model, err));
    TD_TRY(td_version_files_check_model(s->dir, s->model, err));
    TD_TRY(read_config(s, o, &devices, err));
    char *scratch = o->state_dir == NULL ? NULL : scratch_path(o->state_dir, s->name, s->version);
    struct td_model_opts opts = {.ops = o->ops,
                                 .kernels = o->kernels,
                                 .trial_ns = o->trial_ns,
                                 .timings = o->timings,
                                 .passes_off = o->passes_off,
                                 .dir = s->dir,
                                 .scratch_dir = scratch,
                                 .scratch_quota = o->scratch_quota,
                                 .device = devices.n > 0 ? devices.at[0] : NULL,
                                 .no_soft_placement = o->no_soft_placement,
                                 .log_placement = o->log_placement,
                                 .alone = o->alone};
    enum td_code rc = precision_of(s, o, &precision, err);
    opts.precision = precision;
    rc = rc ? rc : td_model_new(&opts, s->model->arena, s->model->graph, s->model->lib, &s->engine, err);
    td_precision_unref(precision);
    td_free(scratch);
    TD_TRY(rc);
    TD_TRY(restore_and_init(s, err));
    TD_TRY(td_replicas_open(&s->replicas, s->engine, &devices, err));
    TD_TRY(open_entries(s, err));
    return configure(s, err);
}

/* What it allocates is charged to the servable's account, whoever it is loaded for. */
static enum td_code load_charged(struct td_servable *s, const struct td_servable_opts *o, struct td_err *err)
{
    const struct td_work *outer = td_work_now();
    struct td_work work = outer != NULL ? *outer : (struct td_work){0};
    work.account = s->account;
    td_work_enter(&work);
    const enum td_code rc = load(s, o, err);
    td_work_enter(outer);
    s->loaded_plans = rc == TD_OK ? td_servable_plan_bytes(s) : 0;
    return rc;
}

enum td_code td_servable_load(const char *name, int64_t version, const char *dir,
                              const struct td_servable_opts *opts, struct td_servable **out,
                              struct td_err *err)
{
    struct td_servable *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "servable");
    }
    atomic_init(&s->refs, 1);
    pthread_mutex_init(&s->choosing, NULL);
    td_gradients_init(&s->gradients);
    s->name = td_strdup(name);
    s->home = td_strdup(dir);
    s->dir = td_version_files_model_dir(dir);
    s->tags = opts->tags == NULL ? NULL : td_strdup(opts->tags);
    s->passes_off = opts->passes_off == NULL ? NULL : td_strdup(opts->passes_off);
    s->version = version;
    s->metrics = td_metrics_model(name);
    s->latency = td_latency_open(td_metrics_latency(s->metrics), version);
    s->opts = (struct td_servable_opts){.ops = opts->ops,
                                        .tags = s->tags,
                                        .kernels = opts->kernels,
                                        .trial_ns = opts->trial_ns,
                                        .timings = opts->timings,
                                        .passes_off = s->passes_off,
                                        .devices = opts->devices,
                                        .no_soft_placement = opts->no_soft_placement,
                                        .alone = opts->alone,
                                        .pool = opts->pool,
                                        .upload = td_upload_ref(opts->upload)};
    s->account = td_account_open_free();
    enum td_code rc = s->name && s->dir && s->home && s->account ? load_charged(s, opts, err)
                                                                 : td_no_memory(err, 1, "servable");
    if (rc) {
        destroy(s);
        return rc;
    }
    TD_HOLDS(servable_check, s);
    *out = s;
    return TD_OK;
}

struct giving {
    struct td_model *to;
    enum td_code rc;
    struct td_err *err;
};

static void give_variable(void *ctx, const char *name, struct td_obj *o)
{
    struct giving *g = ctx;
    struct td_variable *from = (struct td_variable *)o;
    struct td_variable *to = (struct td_variable *)td_model_resource(g->to, &td_variable_type, name);
    struct td_tensor value;
    if (g->rc || to == NULL || !td_variable_initialized(from)) {
        return;
    }
    g->rc = td_variable_read(from, &value, g->err);
    if (g->rc == TD_OK) {
        g->rc = td_variable_assign(to, &value, g->err);
        td_tensor_clear(&value);
    }
}

enum td_code td_servable_copy(struct td_servable *s, struct td_servable **out, struct td_err *err)
{
    TD_TRY(td_servable_load(s->name, s->version, s->home, &s->opts, out, err));
    struct giving g = {.to = (*out)->engine, .err = err};
    td_model_each_resource(s->engine, &td_variable_type, give_variable, &g);
    if (g.rc) {
        td_servable_unref(*out);
        *out = NULL;
    }
    return g.rc;
}

struct td_servable *td_servable_ref(struct td_servable *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void td_servable_unref(struct td_servable *s)
{
    if (s != NULL && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
        TD_HOLDS(servable_check, s);
        destroy(s);
    }
}

bool td_servable_in_use(const struct td_servable *s)
{
    return atomic_load_explicit(&s->refs, memory_order_acquire) > 1;
}

const char *td_servable_name(const struct td_servable *s)
{
    return s->name;
}

int64_t td_servable_version(const struct td_servable *s)
{
    return s->version;
}

struct td_metrics_model *td_servable_metrics(const struct td_servable *s)
{
    return s->metrics;
}

struct td_stats *td_servable_stats(struct td_servable *s)
{
    return &s->stats;
}

struct td_load_times td_servable_load_times(const struct td_servable *s)
{
    return s->times;
}

const struct td_model_settings *td_servable_settings(const struct td_servable *s)
{
    return &s->settings;
}

const char *td_servable_home(const struct td_servable *s)
{
    return s->home;
}

const char *td_servable_dir(const struct td_servable *s)
{
    return s->dir;
}

const struct td_saved_model *td_servable_model(const struct td_servable *s)
{
    return s->model;
}

struct td_model *td_servable_engine(struct td_servable *s)
{
    return s->engine;
}

void td_servable_found_device(struct td_servable *s, const struct td_device *d)
{
    td_replicas_found(&s->replicas, d);
}

const struct td_replicas *td_servable_replicas(const struct td_servable *s)
{
    return &s->replicas;
}

const struct td_signature *td_servable_signature(const struct td_servable *s, const char *key)
{
    bool any = key == NULL || key[0] == 0;
    const struct td_signature *only = NULL;
    int n_public = 0;
    for (int i = 0; i < s->model->n_signatures; i++) {
        const struct td_signature *sig = &s->model->signatures[i];
        if (strcmp(sig->key, any ? "serving_default" : key) == 0) {
            return sig;
        }
        if (strncmp(sig->key, "__", 2) != 0) {
            only = sig;
            n_public++;
        }
    }
    return any && n_public == 1 ? only : NULL;
}
