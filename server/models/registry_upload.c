/* server/models/registry_upload.c - loading and unloading a model by name, with what came with the command.
 *
 * A load marks the versions to be loaded again as stale, lists the folder that now counts and waits, as a
 * rescan does. When any version fails the entry gets back what it had: versions that were loaded from the
 * failed upload meanwhile are loaded once more from the former source.
 *
 * Threads: the loads and unloads of one model take turns (td_entry.loading), and its entry stays for as long
 * as one runs. Uploads are let go without mu, since the last reference removes files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_cold.h"

#include <stdio.h>
#include <string.h>

#include "proto/json/json_write.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "server/base/metrics.h"
#include "server/models/model_dirs.h"

#define MAX_UPLOADED 1000 /* models that are there for their uploads alone */
#define MAX_NAME 255

/* What an entry was before a load. */
struct former {
    struct td_upload *upload; /* takes the entry's reference */
    bool held, made;          /* made: by this load */
};

/* Waits until nobody else loads or unloads the model, then takes the turn. Caller holds mu. */
static enum td_code take_slot(struct td_registry *r, const char *model, struct td_entry **out,
                              struct td_err *err)
{
    struct td_entry *e = td_registry_entry(r, model);
    enum td_code rc = e != NULL && e->loading ? td_registry_begin_wait(r, err) : TD_OK;
    TD_TRY(rc);
    const bool waits = e != NULL && e->loading;
    while (rc == TD_OK && e != NULL && e->loading) {
        rc = td_registry_wait_changed(r, err);
        e = td_registry_entry(r, model);
    }
    if (waits) {
        td_registry_end_wait(r);
    }
    TD_TRY(rc);
    TD_FAIL_IF(r->stop, err, UNAVAILABLE, "the server is shutting down");
    TD_FAIL_IF(e == NULL, err, NOT_FOUND, "Could not find any versions of model %s", model);
    e->loading = true;
    *out = e;
    return TD_OK;
}

static void end_slot(struct td_registry *r, struct td_entry *e)
{
    e->loading = false;
    td_registry_tell(r);
}

/* ------------------------------------------------------------------ a model that is new */

/* Names become parts of paths, of URLs and of NAME:SIGNATURE. */
static bool is_name(const char *s)
{
    bool plain = *s != '\0' && *s != '.' && strlen(s) <= MAX_NAME;
    for (; plain && *s != '\0'; s++) {
        plain = (unsigned char)*s > ' ' && *s != 0x7f && strchr("/:\\", *s) == NULL;
    }
    return plain;
}

/* uploaded: base_path is an upload's. Caller holds mu. */
static enum td_code make_entry(struct td_registry *r, const char *model, const char *base_path, bool uploaded,
                               struct td_err *err)
{
    int n = 0;
    for (int i = 0; i < r->n_entries; i++) {
        n += r->entries[i]->uploaded;
    }
    TD_FAIL_IF(!is_name(model), err, INVALID_ARGUMENT,
               "'%.255s' cannot name a new model: want 1 to %d bytes without '/', ':', '\\', white space, or "
               "a '.' in front",
               model, MAX_NAME);
    TD_FAIL_IF(uploaded && n >= MAX_UPLOADED, err, RESOURCE_EXHAUSTED, "%d uploaded models are there already",
               n);
    const struct td_model_config c = {.name = (char *)(uintptr_t)model,
                                      .base_path = (char *)(uintptr_t)base_path,
                                      .policy_of_model = true,
                                      .n_latest = 1};
    struct td_model_config copy = {0};
    struct td_entry *e = NULL;
    TD_TRY(td_model_config_copy(&copy, &c, err));
    if (td_registry_add_entry(r, model, &e, err)) {
        td_model_config_fini(&copy);
        return err->code;
    }
    td_model_config_fini(&e->config);
    e->config = copy;
    e->configured = true;
    e->uploaded = uploaded;
    e->listed = e->held = false;
    e->list_error = (struct td_err){0};
    td_metrics_add_model(e->name);
    return TD_OK;
}

/* A model whose folder was not there when the models were configured. Caller holds mu. */
static enum td_code adopt(struct td_registry *r, const char *model, bool *made, struct td_err *err)
{
    char *path = is_name(model) ? td_model_dirs_find(r->opts.model_dirs, model) : NULL;
    enum td_code rc = TD_OK;
    if (path != NULL) {
        rc = make_entry(r, model, path, false, err);
        *made = rc == TD_OK;
    }
    td_free(path);
    return rc;
}

/* ------------------------------------------------------------------ loading */

static bool has_versions(const struct td_upload *u)
{
    struct td_version_dir *dirs = NULL;
    struct td_err ignored = {0};
    int n = 0;
    const bool any = td_watch_list(td_upload_base(u), &dirs, &n, &ignored) == TD_OK && n > 0;
    td_watch_free(dirs, any ? n : 0);
    return any;
}

/* Marks what is to be loaded again: what was not loaded with u, or (whole false) whose files have changed;
 * and what is not loaded yet. Caller holds mu. */
static void mark(struct td_registry *r, struct td_entry *e, const struct td_upload *u, bool whole)
{
    for (int i = 0; i < e->n_versions; i++) {
        struct td_version *v = e->versions[i];
        v->demanded = v->demanded || (v->aspired && !td_version_is_resident(v));
        v->asked = v->demanded && v->asked == 0 ? ++r->n_uses : v->asked;
        if (v->state == TD_STATE_AVAILABLE || v->busy) {
            v->stale = v->stale || (whole ? v->upload_id != td_upload_id(u)
                                          : !v->busy && v->seen.stamp != v->tried.stamp);
        }
    }
}

/* Caller holds mu. On success it is the model's turn. */
static enum td_code begin(struct td_registry *r, const char *model, struct td_upload *u, struct former *was,
                          struct td_entry **out, struct td_err *err)
{
    const bool files = td_upload_base(u) != NULL;
    if (td_registry_entry(r, model) == NULL && files) {
        TD_TRY(make_entry(r, model, td_upload_base(u), true, err));
        was->made = true;
    } else if (td_registry_entry(r, model) == NULL) {
        TD_TRY(adopt(r, model, &was->made, err));
    }
    struct td_entry *e = NULL;
    TD_TRY(take_slot(r, model, &e, err));
    if (e->uploaded && !files) {
        end_slot(r, e);
        TD_FAIL(err, FAILED_PRECONDITION,
                "model %s is there by its upload alone: its files must come with the command", model);
    }
    was->held = e->held;
    was->upload = e->upload;
    e->upload = td_upload_ref(u);
    e->held = false;
    for (int i = 0; i < e->n_versions; i++) {
        e->versions[i]->reload_error = (struct td_err){0};
    }
    *out = e;
    return TD_OK;
}

/* The versions of e that did not load. Caller holds mu. */
static enum td_code failures(const struct td_entry *e, struct td_err *err)
{
    struct td_failures f = {.n = 0};
    for (int i = 0; i < e->n_versions; i++) {
        const struct td_version *v = e->versions[i];
        const struct td_err *why = v->reload_error.code != TD_OK ? &v->reload_error : &v->error;
        if (v->aspired && why->code != TD_OK) {
            td_failures_add(&f, e->name, v->number, why);
        }
    }
    return td_failures_tell(&f, err);
}

/* Gives the entry back what it was. Returns whether its folder is to be listed again. Caller holds mu. */
static bool restore(struct td_registry *r, struct td_entry *e, const struct td_upload *u, struct former *was)
{
    e->upload = was->upload; /* u's reference is let go by the caller */
    was->upload = NULL;
    e->held = was->held;
    for (int i = 0; i < e->n_versions; i++) {
        struct td_version *v = e->versions[i];
        v->stale = v->state == TD_STATE_AVAILABLE && v->upload_id == td_upload_id(u) &&
                   v->reload_error.code == TD_OK;
    }
    if (was->made) {
        e->configured = e->uploaded = false;
    }
    if (was->made || was->held) {
        td_registry_forget_aspired(e);
        pthread_cond_broadcast(&r->work);
    }
    return !was->made && !was->held;
}

/* Looks for versions and loads what is to be loaded. Without mu. */
static enum td_code load_all(struct td_registry *r, struct td_entry *e, const struct td_upload *u, bool whole,
                             struct td_err *err)
{
    TD_TRY(td_registry_list_all(r, e->name, TD_LOOK_AGAIN, err));
    pthread_mutex_lock(&r->mu);
    mark(r, e, u, whole); /* now that the folders of the versions are the right ones */
    pthread_cond_broadcast(&r->work);
    enum td_code rc = td_registry_wait_settled(r, &(struct td_registry_pick){.name = e->name}, err);
    rc = rc ? rc : failures(e, err);
    pthread_mutex_unlock(&r->mu);
    return rc;
}

enum td_code td_registry_load(struct td_registry *r, const char *model, struct td_upload *u,
                              struct td_err *err)
{
    struct former was = {0};
    struct td_entry *e = NULL;
    TD_FAIL_IF(
        td_upload_base(u) != NULL && !has_versions(u), err, INVALID_ARGUMENT,
        "the files hold no version: want paths like 1/saved_model.pb, or 1/model.savedmodel/saved_model.pb");
    TD_FAIL_IF(!td_utf8(model, strlen(model)), err, INVALID_ARGUMENT, "a model's name must be UTF-8");
    pthread_mutex_lock(&r->mu);
    enum td_code rc = begin(r, model, u, &was, &e, err);
    pthread_mutex_unlock(&r->mu);
    TD_TRY(rc);
    rc = load_all(r, e, u, was.upload != u, err);
    pthread_mutex_lock(&r->mu);
    const bool swap = rc && !r->stop && u != was.upload;
    const bool again = swap && restore(r, e, u, &was);
    end_slot(r, e);
    pthread_mutex_unlock(&r->mu);
    td_upload_unref(swap ? u : was.upload);
    if (again) {
        struct td_err ignored = {0};
        (void)!td_registry_list_all(r, model, TD_LOOK_AGAIN, &ignored);
    }
    return rc;
}

/* ------------------------------------------------------------------ unloading */

/* Waits until nothing of the model serves. Caller holds mu. */
static enum td_code await_end(struct td_registry *r, const struct td_entry *e, struct td_err *err)
{
    enum td_code rc = TD_OK;
    while (rc == TD_OK && e->configured && e->held && td_registry_has_available(e)) {
        rc = td_registry_wait_changed(r, err);
    }
    return rc;
}

enum td_code td_registry_unload(struct td_registry *r, const char *model, struct td_err *err)
{
    struct td_upload *u = NULL;
    struct td_entry *e = NULL;
    pthread_mutex_lock(&r->mu);
    enum td_code rc = take_slot(r, model, &e, err);
    if (rc) {
        pthread_mutex_unlock(&r->mu);
        return rc;
    }
    e->held = true;
    td_registry_forget_aspired(e);
    pthread_cond_broadcast(&r->work);
    rc = await_end(r, e, err);
    if (e->held) {
        u = e->upload;
        e->upload = NULL;
        e->configured = e->configured && !e->uploaded;
        e->uploaded = false;
    }
    end_slot(r, e);
    pthread_mutex_unlock(&r->mu);
    td_upload_unref(u);
    return rc;
}
