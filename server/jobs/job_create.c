/* server/jobs/job_create.c - a job comes in: all that request and model show is checked, then it is a row.
 *
 *   body -> spec -> version (of the registry, or of an earlier job's result), its directory can be written
 *        -> files -> signature, fields, patterns, gradients -> row, "created" event, one durable transaction
 *
 * A refused job leaves nothing behind. What only rows show is found by the job's process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/disk.h"
#include "core/base/mem.h"
#include "server/jobs/jobs_impl.h"
#include "server/train/head.h"

struct creation {
    struct td_jobs *jobs;
    json_t *body;
    const char *owner;
    struct td_job_spec *spec;
    struct td_servable *servable; /* whose variables it starts from; counted */
    char id[TD_JOBS_ID], base_path[TD_FILE_PATH], stage[TD_FILE_PATH];
    int64_t seq;
};

/* ------------------------------------------------------------------ the model */

/* The directory that holds the versions of a model, as it is configured. */
static enum td_code base_of(struct td_registry *r, const char *name, const char *version_dir,
                            char out[TD_FILE_PATH], struct td_err *err)
{
    struct td_model_config *model = NULL;
    TD_TRY(td_registry_model(r, name, &model, err));
    int len = snprintf(out, TD_FILE_PATH, "%s", model->base_path);
    td_model_configs_free(model, 1);
    TD_FAIL_IF(len >= TD_FILE_PATH - 96, err, INVALID_ARGUMENT, "model: the path of '%s' is too long", name);
    while (len > 1 && out[len - 1] == '/') {
        out[--len] = '\0';
    }
    TD_FAIL_IF(strncmp(version_dir, out, (size_t)len) != 0, err, FAILED_PRECONDITION,
               "model: '%s' was loaded from uploaded files, so there is no directory for a result", name);
    return TD_OK;
}

static enum td_code find_version(struct creation *c, struct td_fault *f)
{
    const struct td_job_spec *s = c->spec;
    struct td_err err = {0};
    struct td_cold cold = {0};
    enum td_code rc = td_registry_find(c->jobs->opts.registry, s->model, s->version > 0 ? s->version : 0,
                                       s->label, &cold, &c->servable, &err);
    if (cold.model != NULL) { /* for this job alone, as its own process will */
        err = (struct td_err){0};
        rc =
            td_servable_load(cold.model, cold.version, cold.dir, &c->jobs->opts.servable, &c->servable, &err);
        td_cold_fini(&cold);
    }
    return rc ? TD_FAULT(f, "model_not_found", "model", "model: there is no '%.200s' here: %s", s->model,
                         err.msg)
              : TD_OK;
}

struct base_row {
    int64_t status, version;
    char model[256], base_path[TD_FILE_PATH], stage[TD_FILE_PATH];
    bool got, published;
};

static enum td_code take_base(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    struct base_row *b = ctx;
    (void)err;
    b->got = true;
    b->status = td_sql_int(r, 0);
    b->published = !td_sql_null(r, 1);
    b->version = td_sql_int(r, 1);
    (void)snprintf(b->model, sizeof b->model, "%s", td_sql_text(r, 2));
    (void)snprintf(b->base_path, sizeof b->base_path, "%s", td_sql_text(r, 3));
    (void)snprintf(b->stage, sizeof b->stage, "%s", td_sql_text(r, 4));
    return TD_OK;
}

/* The result of the job that this one continues, wherever it lies now, takes the place of the version. */
static enum td_code use_base(struct creation *c, struct td_fault *f)
{
    static const char PARAM[] = "tensord.base";
    struct base_row b = {0};
    const enum td_code rc = td_store_ask(
        c->jobs->store, "SELECT status, result_version, model, base_path, stage FROM jobs WHERE id = ?",
        TD_SQL(TD_SQL_TEXT(c->spec->base)), take_base, &b, &f->err);
    if (rc) {
        return td_jobs_trouble(f, rc);
    }
    if (!b.got) {
        return TD_FAULT(f, "invalid_value", PARAM, "%s: there is no job '%.80s'", PARAM, c->spec->base);
    }
    if (b.status != TD_JOB_SUCCEEDED) {
        return TD_FAULT(f, "invalid_value", PARAM, "%s: job %s is %s: it has no result", PARAM, c->spec->base,
                        td_job_status_name(b.status));
    }
    if (strcmp(b.model, c->spec->model) != 0) {
        return TD_FAULT(f, "invalid_value", PARAM, "%s: job %s is of model %s, this one is of %s", PARAM,
                        c->spec->base, b.model, c->spec->model);
    }
    char dir[TD_FILE_PATH + 32];
    (void)snprintf(dir, sizeof dir, b.published ? "%s/%" PRId64 : "%s", b.published ? b.base_path : b.stage,
                   b.version);
    struct td_servable *result = NULL;
    struct td_err err = {0};
    if (td_servable_load(b.model, b.published ? b.version : 0, dir, &c->jobs->opts.servable, &result, &err)) {
        return TD_FAULT(f, "invalid_value", PARAM, "%s: the result of job %s: %s", PARAM, c->spec->base,
                        err.msg);
    }
    td_servable_unref(c->servable);
    c->servable = result;
    return TD_OK;
}

/* Makes and removes what the result will be written in, as only trying tells. */
static enum td_code check_writable(struct creation *c, struct td_fault *f)
{
    if (td_disk_take(td_disk_state(), TD_DISK_FILE, "a job's folder", &f->err)) {
        return td_fault_of(f, TD_RESOURCE_EXHAUSTED, "quota_exceeded", NULL);
    }
    (void)snprintf(c->stage, sizeof c->stage, "%.*s/.tensord-%s", TD_FILE_PATH - 64, c->base_path, c->id);
    if (mkdir(c->stage, 0700) != 0) {
        return TD_FAULT(f, "invalid_value", "model",
                        "model: the directory of '%s', where the result would go, cannot be written: %s: %s",
                        c->spec->model, c->base_path, strerror(errno));
    }
    (void)rmdir(c->stage);
    return TD_OK;
}

static enum td_code check_model(struct creation *c, struct td_fault *f)
{
    TD_TRY(find_version(c, f));
    struct td_err err = {0};
    if (base_of(c->jobs->opts.registry, c->spec->model, td_servable_dir(c->servable), c->base_path, &err)) {
        return TD_FAULT(f, "invalid_value", "model", "%s", err.msg);
    }
    if (c->spec->base != NULL) {
        TD_TRY(use_base(c, f));
    }
    return check_writable(c, f);
}

/* ------------------------------------------------------------------ what is trained */

static enum td_code check_training(struct creation *c, struct td_fault *f)
{
    struct td_row_layout *layout = NULL;
    const struct td_signature *sig = NULL;
    if (c->spec->head.at != NULL) {
        return td_head_check(c->servable, c->spec, f);
    }
    TD_TRY(td_step_signature(c->servable, c->spec, &sig, f));
    TD_TRY(td_row_layout_new(c->spec, sig, &layout, f));
    const enum td_code rc = td_step_check(c->servable, c->spec, layout, f);
    td_row_layout_free(layout);
    return rc;
}

static enum td_code check_files(struct creation *c, struct td_fault *f)
{
    TD_TRY(td_files_check(c->jobs, c->owner, c->spec->training_file, "training_file", f));
    return c->spec->validation_file != NULL
               ? td_files_check(c->jobs, c->owner, c->spec->validation_file, "validation_file", f)
               : TD_OK;
}

/* ------------------------------------------------------------------ the row */

static enum td_code check_queue(struct creation *c, struct td_fault *f)
{
    int64_t waiting = 0;
    const int most = c->jobs->opts.most_waiting + c->jobs->opts.most_running;
    TD_TRY(td_store_ask_int(c->jobs->store, "SELECT count(*) FROM jobs WHERE status < 3", TD_SQL_NONE, 0,
                            &waiting, &f->err));
    if (waiting < most) {
        return TD_OK;
    }
    const enum td_code rc = td_fail(&f->err, TD_RESOURCE_EXHAUSTED,
                                    "%" PRId64 " jobs run or wait, which is as many as --max_jobs=%d allows",
                                    waiting, c->jobs->opts.most_waiting);
    return td_fault_of(f, rc, "queue_full", NULL);
}

struct texts {
    char *request, *hyperparameters, *method;
};

static enum td_code insert(struct creation *c, const struct texts *t, struct td_err *err)
{
    const struct td_job_spec *s = c->spec;
    TD_TRY(td_store_do(c->jobs->store,
                       "INSERT INTO jobs(id, owner, created_at, status, pausing, request, hyperparameters, "
                       "method, seed, model,"
                       " base_path, source, version, training_file, validation_file, stage, publishes)"
                       " VALUES(?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       TD_SQL(TD_SQL_TEXT(c->id), TD_SQL_TEXT(c->owner), TD_SQL_INT((int64_t)time(NULL)),
                              TD_SQL_TEXT(t->request), TD_SQL_TEXT(t->hyperparameters),
                              TD_SQL_TEXT(t->method), TD_SQL_INT(s->seed), TD_SQL_TEXT(s->model),
                              TD_SQL_TEXT(c->base_path), TD_SQL_TEXT(td_servable_dir(c->servable)),
                              TD_SQL_INT(td_servable_version(c->servable)), TD_SQL_TEXT(s->training_file),
                              TD_SQL_TEXT(s->validation_file), TD_SQL_TEXT(c->stage), TD_SQL_INT(s->publish)),
                       NULL, err));
    c->seq = td_store_last_row(c->jobs->store);
    return td_job_message(c->jobs->store, c->seq, "created", "info", err, "Created fine-tuning job: %s",
                          c->id);
}

static enum td_code store(struct creation *c, const struct texts *t, struct td_fault *f)
{
    struct td_store *s = c->jobs->store;
    TD_TRY(td_store_begin(s, true, &f->err));
    enum td_code rc = check_queue(c, f);
    rc = rc ? rc : check_files(c, f); /* again: nobody may delete them from here on */
    rc = rc ? rc : insert(c, t, &f->err);
    return td_store_end(s, rc, &f->err);
}

static char *text_of(json_t *takes)
{
    char *text = td_jobs_text(takes);
    json_decref(takes);
    return text;
}

static enum td_code add(struct creation *c, struct td_fault *f)
{
    char dir[TD_FILE_PATH];
    const struct texts t = {.request = text_of(json_incref(c->body)),
                            .hyperparameters = text_of(td_job_spec_hyperparameters(c->spec)),
                            .method = text_of(td_job_spec_method(c->spec))};
    const bool whole = t.request != NULL && t.hyperparameters != NULL && t.method != NULL;
    enum td_code rc = whole ? TD_OK : td_no_memory(&f->err, sizeof t, "a job");
    rc = rc ? rc : td_jobs_path(c->jobs->opts.state_dir, "jobs", c->id, dir, &f->err);
    rc = rc ? rc : td_jobs_make_dir(dir, &f->err);
    if (rc == TD_OK) {
        rc = store(c, &t, f);
        if (rc) {
            (void)rmdir(dir);
        }
    }
    td_free(t.request);
    td_free(t.hyperparameters);
    td_free(t.method);
    return td_jobs_trouble(f, rc);
}

static enum td_code check_gpus(const struct creation *c, struct td_fault *f)
{
    const int most = c->jobs->opts.gpus > 1 ? c->jobs->opts.gpus : 1;
    return c->spec->gpus <= most
               ? TD_OK
               : TD_FAULT(
                     f, "invalid_value", "tensord.gpus",
                     "tensord.gpus is %lld, a job of this server may have %d (--job_gpus, --job_devices)",
                     (long long)c->spec->gpus, most);
}

static enum td_code create(struct creation *c, struct td_fault *f)
{
    const enum td_code rc = td_jobs_make_id("ftjob", c->id, &f->err);
    if (rc) {
        return td_jobs_trouble(f, rc);
    }
    TD_TRY(td_job_spec_read(c->body, &c->spec, f));
    TD_TRY(check_gpus(c, f));
    TD_TRY(check_model(c, f));
    TD_TRY(check_files(c, f));
    TD_TRY(check_training(c, f));
    return add(c, f);
}

enum td_code td_jobs_create(struct td_jobs *j, json_t *body, const char *owner, json_t **job,
                            struct td_fault *f)
{
    TD_TRY(td_jobs_ready(j, f));
    struct creation c = {.jobs = j, .body = body, .owner = owner};
    enum td_code rc = create(&c, f);
    td_servable_unref(c.servable);
    td_job_spec_free(c.spec);
    if (rc == TD_OK) {
        rc = td_jobs_get(j, c.id, job, f);
        td_runner_wake(j);
    }
    return rc;
}
