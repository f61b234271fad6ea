/* server/train/result.c - a version directory, copied and rewritten.
 *
 *   home/..                      files and directories, copied by the kernel (blocks shared where it can)
 *   home/variables/variables.*   read entry by entry, written again as one data file:
 *
 *       entry of the old checkpoint     value put under its key?     value put under its twin?     else
 *       name, or slices of it           that, cut into the slices    the same                      its bytes
 *
 * In Triton's layout the SavedModel, and so variables/, is one directory below home.
 *
 * Values are kept by reference until they are written, sorted by key. Not one byte of the served version is
 * touched, and none is shared with the result in a way that a later change of one would show in the other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "proto/checkpoint/bundle.h"
#include "proto/checkpoint/slice.h"
#include "server/models/variables.h"

#define KEY_TAIL "/.ATTRIBUTES/VARIABLE_VALUE"

struct value {
    char *key; /* without KEY_TAIL */
    struct td_tensor t;
    bool written;
};

/* A key and the other one that holds the same; both without KEY_TAIL. */
struct twin {
    char *key, *twin;
};

struct td_result {
    struct td_servable *servable;
    char *stage;
    struct value *values;
    int n_values, cap_values;
    struct twin *twins;
    int n_twins, cap_twins;
};

/* ------------------------------------------------------------------ keys */

static size_t stem_length(const char *key)
{
    const size_t n = strlen(key), tail = sizeof KEY_TAIL - 1;
    return n > tail && strcmp(key + n - tail, KEY_TAIL) == 0 ? n - tail : n;
}

/* Room for one more in an array of elements of `size` bytes. */
static enum td_code grow(void **array, int n, int *cap, size_t size, struct td_err *err)
{
    if (n < *cap) {
        return TD_OK;
    }
    const int wanted = *cap == 0 ? 64 : 2 * *cap;
    void *grown = td_realloc(*array, (size_t)wanted, size);
    if (grown == NULL) {
        return td_no_memory(err, (size_t)wanted * size, "values of a result");
    }
    *array = grown;
    *cap = wanted;
    return TD_OK;
}

static enum td_code note_twin(void *ctx, const char *key, const char *twin, struct td_err *err)
{
    struct td_result *r = ctx;
    TD_TRY(grow((void **)&r->twins, r->n_twins, &r->cap_twins, sizeof *r->twins, err));
    struct twin *t = &r->twins[r->n_twins++];
    *t = (struct twin){td_strndup(key, stem_length(key)), td_strndup(twin, stem_length(twin))};
    return t->key == NULL || t->twin == NULL ? td_no_memory(err, strlen(key), "a checkpoint key") : TD_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct value *)a)->key, ((const struct value *)b)->key);
}

static struct value *value_of(const struct td_result *r, const char *stem)
{
    const struct value wanted = {.key = (char *)stem};
    return r->n_values == 0 ? NULL
                            : bsearch(&wanted, r->values, (size_t)r->n_values, sizeof *r->values, by_key);
}

/* What is to stand under `name`; NULL: what stood there. */
static struct value *value_for(const struct td_result *r, const char *name)
{
    char stem[4096];
    const size_t n = stem_length(name);
    if (n >= sizeof stem) {
        return NULL;
    }
    memcpy(stem, name, n);
    stem[n] = 0;
    struct value *v = value_of(r, stem);
    for (int i = 0; v == NULL && i < r->n_twins; i++) {
        if (strcmp(r->twins[i].twin, stem) == 0) {
            v = value_of(r, r->twins[i].key);
        }
    }
    return v;
}

/* ------------------------------------------------------------------ its life */

static enum td_code read_twins(struct td_result *r, struct td_err *err)
{
    struct td_variables *all = NULL;
    TD_TRY(td_variables_read(r->servable, &all, err));
    const enum td_code rc = td_variables_each_twin(all, note_twin, r, err);
    td_variables_free(all);
    return rc;
}

static void free_all(struct td_result *r)
{
    for (int i = 0; i < r->n_values; i++) {
        td_free(r->values[i].key);
        td_tensor_clear(&r->values[i].t);
    }
    for (int i = 0; i < r->n_twins; i++) {
        td_free(r->twins[i].key);
        td_free(r->twins[i].twin);
    }
    td_free(r->values);
    td_free(r->twins);
    td_free(r->stage);
    td_free(r);
}

enum td_code td_result_begin(struct td_servable *s, const char *stage_dir, struct td_result **out,
                             struct td_err *err)
{
    struct td_result *r = td_calloc(1, sizeof *r);
    if (r == NULL) {
        return td_no_memory(err, sizeof *r, "a result");
    }
    r->servable = s;
    r->stage = td_strdup(stage_dir);
    enum td_code rc = r->stage == NULL ? td_no_memory(err, strlen(stage_dir), "a path") : TD_OK;
    rc = rc ? rc : td_tree_remove(stage_dir, err);
    rc = rc ? rc : read_twins(r, err);
    if (rc) {
        free_all(r);
        return rc;
    }
    *out = r;
    return TD_OK;
}

void td_result_abandon(struct td_result *r)
{
    struct td_err err = {0};
    if (r == NULL) {
        return;
    }
    if (td_tree_remove(r->stage, &err)) {
        td_log(TD_LOG_WARNING, NULL, "an unfinished version stays behind: %s", err.msg);
    }
    free_all(r);
}

enum td_code td_result_put(void *ctx, const char *key, const struct td_tensor *value, struct td_err *err)
{
    struct td_result *r = ctx;
    TD_TRY(grow((void **)&r->values, r->n_values, &r->cap_values, sizeof *r->values, err));
    struct value *v = &r->values[r->n_values];
    *v = (struct value){.key = td_strndup(key, stem_length(key))};
    if (v->key == NULL) {
        return td_no_memory(err, strlen(key), "a checkpoint key");
    }
    td_tensor_ref(&v->t, value);
    r->n_values++;
    return TD_OK;
}

/* ------------------------------------------------------------------ the checkpoint */

struct rewrite {
    struct td_result *r;
    struct td_bundle *from;
    struct td_bundle_writer *to;
};

/* Slice `spec` of the whole value. */
static enum td_code cut(const struct td_tensor *whole, const char *spec, struct td_tensor *out,
                        struct td_err *err)
{
    struct td_shape shape;
    struct td_box box;
    TD_TRY(td_slice_parse(spec, &shape, &box, err));
    const struct td_shape part = td_box_shape(&box);
    const struct td_box all = td_box_whole(&whole->shape);
    TD_TRY(td_tensor_new(out, whole->dtype, &part, err));
    td_slice_copy(whole, &all, out, &box);
    return TD_OK;
}

static enum td_code put_slice(struct rewrite *w, const char *name, const struct value *v, const char *spec,
                              struct td_err *err)
{
    struct td_tensor part = {0};
    TD_TRY(v != NULL ? cut(&v->t, spec, &part, err) : td_bundle_read(w->from, name, spec, &part, err));
    const enum td_code rc = td_bundle_add_slice(w->to, name, spec, &part, err);
    td_tensor_clear(&part);
    return rc;
}

static enum td_code put_slices(struct rewrite *w, const char *name, int n, const struct value *v,
                               struct td_err *err)
{
    struct td_sink spec = {0};
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < n; i++) {
        spec.n = 0;
        rc = td_bundle_slice(w->from, name, i, &spec, err);
        rc = rc ? rc : put_slice(w, name, v, spec.p, err);
    }
    td_sink_fini(&spec);
    return rc;
}

static enum td_code put_whole(struct rewrite *w, const char *name, const struct value *v, struct td_err *err)
{
    struct td_tensor old = {0};
    if (v != NULL) {
        return td_bundle_add(w->to, name, &v->t, err);
    }
    TD_TRY(td_bundle_read(w->from, name, "", &old, err));
    const enum td_code rc = td_bundle_add(w->to, name, &old, err);
    td_tensor_clear(&old);
    return rc;
}

static enum td_code put_entries(struct rewrite *w, struct td_err *err)
{
    const char *name;
    enum td_dtype dtype;
    struct td_shape shape;
    uint64_t bytes;
    for (int i = 0; td_bundle_entry(w->from, i, &name, &dtype, &shape, &bytes); i++) {
        struct value *v = value_for(w->r, name);
        TD_FAIL_IF(v != NULL && (v->t.dtype != dtype || !td_shape_equal(&v->t.shape, &shape)), err, INTERNAL,
                   "the tuned '%.200s' is %s of %s, the checkpoint's is %s of %s", name,
                   td_dtype_name(v->t.dtype), TD_SHAPE_STR(&v->t.shape), td_dtype_name(dtype),
                   TD_SHAPE_STR(&shape));
        const int slices = td_bundle_n_slices(w->from, name);
        TD_TRY(slices > 0 ? put_slices(w, name, slices, v, err) : put_whole(w, name, v, err));
        if (v != NULL) {
            v->written = true;
        }
    }
    for (int i = 0; i < w->r->n_values; i++) {
        TD_FAIL_IF(!w->r->values[i].written, err, INTERNAL, "the checkpoint has no key '%.200s'",
                   w->r->values[i].key);
    }
    return TD_OK;
}

static enum td_code rewrite(struct td_result *r, const char *from, const char *to, struct td_err *err)
{
    struct rewrite w = {.r = r};
    TD_TRY(td_bundle_open_beneath(td_servable_dir(r->servable), from, &w.from, err));
    enum td_code rc = td_bundle_create(to, &w.to, err);
    if (rc == TD_OK) {
        rc = put_entries(&w, err);
        if (rc) {
            td_bundle_abandon(w.to);
        } else {
            rc = td_bundle_finish(w.to, err);
        }
    }
    td_bundle_close(w.from);
    return rc;
}

/* ------------------------------------------------------------------ the directory */

/* The checkpoint's own files are written, not copied; the SavedModel below home is copied by itself, since it
 * may be a link; a stage inside of home is no part of it. */
static bool is_left_out(void *ctx, const char *dir, const char *name)
{
    const struct td_result *r = ctx;
    const char *saved = td_servable_dir(r->servable), *home = td_servable_home(r->servable);
    const size_t n = strlen(saved), n_home = strlen(home);
    char path[TD_FILE_PATH];
    struct stat a, b;
    if (n > n_home && strcmp(dir, home) == 0 && strcmp(name, saved + n_home + 1) == 0) {
        return true;
    }
    if (strncmp(dir, saved, n) == 0 && strcmp(dir + n, "/variables") == 0) {
        return strcmp(name, "variables.index") == 0 || strncmp(name, "variables.data-", 15) == 0;
    }
    const int put = snprintf(path, sizeof path, "%s/%s", dir, name);
    return put > 0 && (size_t)put < sizeof path && stat(path, &a) == 0 && stat(r->stage, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static enum td_code write_all(struct td_result *r, struct td_err *err)
{
    const char *home = td_servable_home(r->servable), *saved = td_servable_dir(r->servable);
    char from[TD_FILE_PATH], to[TD_FILE_PATH], model[TD_FILE_PATH];
    /* saved is home, or a directory below it: what follows home in it is the same in the stage */
    const int a = snprintf(from, sizeof from, "%s/variables/variables", saved);
    const int b = snprintf(to, sizeof to, "%s%s/variables/variables", r->stage, saved + strlen(home));
    const int c = snprintf(model, sizeof model, "%s%s", r->stage, saved + strlen(home));
    TD_FAIL_IF(a < 0 || b < 0 || c < 0 || (size_t)a >= sizeof from || (size_t)b >= sizeof to, err,
               INVALID_ARGUMENT, "%s: the path is too long", r->stage);
    if (r->n_values > 0) {
        qsort(r->values, (size_t)r->n_values, sizeof *r->values, by_key);
    }
    TD_TRY(td_tree_copy(home, home, r->stage, is_left_out, r, err));
    TD_TRY(strcmp(home, saved) != 0 ? td_tree_copy(saved, saved, model, is_left_out, r, err) : TD_OK);
    TD_TRY(rewrite(r, from, to, err));
    td_file_sync_directory(r->stage);
    return TD_OK;
}

enum td_code td_result_finish(struct td_result *r, struct td_err *err)
{
    const enum td_code rc = write_all(r, err);
    if (rc) {
        td_result_abandon(r);
        return td_err_wrap(err, "Writing the tuned version");
    }
    free_all(r);
    return TD_OK;
}
