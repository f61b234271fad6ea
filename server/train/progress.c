/* server/train/progress.c - directories by number: the highest is the progress.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/progress.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "proto/checkpoint/bundle.h"

#define NAME "progress-"
#define ASIDE ".progress-"

struct td_progress_writer {
    char *work_dir;
    char aside[TD_FILE_PATH], place[TD_FILE_PATH];
    int64_t number;
    struct td_bundle_writer *bundle;
};

struct td_progress {
    struct td_bundle *bundle;
};

/* ------------------------------------------------------------------ numbered directories */

/* The number behind `begins`; -1: name is no such name. */
static int64_t number_of(const char *name, const char *begins)
{
    const size_t n = strlen(begins);
    char *end;
    if (strncmp(name, begins, n) != 0 || name[n] < '0' || name[n] > '9') {
        return -1;
    }
    errno = 0;
    const long long v = strtoll(name + n, &end, 10);
    return errno == 0 && *end == 0 ? v : -1;
}

/* The highest number of a whole one; -1: there is none. */
static enum td_code highest(const char *work_dir, int64_t *out, struct td_err *err)
{
    DIR *all = opendir(work_dir);
    TD_FAIL_IF(all == NULL, err, NOT_FOUND, "Opening %s: %s", work_dir, strerror(errno));
    *out = -1;
    for (const struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        const int64_t n = number_of(e->d_name, NAME);
        *out = n > *out ? n : *out;
    }
    closedir(all);
    return TD_OK;
}

static enum td_code join(const char *dir, const char *name, char out[TD_FILE_PATH], struct td_err *err)
{
    const int n = snprintf(out, TD_FILE_PATH, "%s/%s", dir, name);
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH, err, INVALID_ARGUMENT, "%s/%s: the path is too long", dir, name);
    return TD_OK;
}

static enum td_code numbered(const char *dir, const char *begins, int64_t number, char out[TD_FILE_PATH],
                             struct td_err *err)
{
    char name[60];
    (void)snprintf(name, sizeof name, "%s%lld", begins, (long long)number);
    return join(dir, name, out, err);
}

/* Removes what was begun, and whole ones but `keep`. */
static enum td_code remove_all_but(const char *work_dir, int64_t keep, struct td_err *err)
{
    DIR *all = opendir(work_dir);
    char path[TD_FILE_PATH];
    enum td_code rc = TD_OK;
    TD_FAIL_IF(all == NULL && errno != ENOENT, err, NOT_FOUND, "Opening %s: %s", work_dir, strerror(errno));
    for (const struct dirent *e = all != NULL ? readdir(all) : NULL; e != NULL && !rc; e = readdir(all)) {
        const int64_t n = number_of(e->d_name, NAME);
        if ((n >= 0 && n != keep) || number_of(e->d_name, ASIDE) >= 0) {
            rc = join(work_dir, e->d_name, path, err);
            rc = rc ? rc : td_tree_remove(path, err);
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return rc;
}

enum td_code td_progress_remove(const char *work_dir, struct td_err *err)
{
    return remove_all_but(work_dir, -1, err);
}

/* ------------------------------------------------------------------ saving */

static enum td_code begin(struct td_progress_writer *w, struct td_err *err)
{
    char prefix[TD_FILE_PATH];
    int64_t last;
    TD_TRY(highest(w->work_dir, &last, err));
    TD_TRY(remove_all_but(w->work_dir, last, err));
    w->number = last + 1;
    TD_TRY(numbered(w->work_dir, ASIDE, w->number, w->aside, err));
    TD_TRY(numbered(w->work_dir, NAME, w->number, w->place, err));
    TD_TRY(td_tree_make(w->aside, 0755, err));
    TD_TRY(join(w->aside, "state", prefix, err));
    return td_bundle_create(prefix, &w->bundle, err);
}

enum td_code td_progress_begin(const char *work_dir, struct td_progress_writer **out, struct td_err *err)
{
    struct td_progress_writer *w = td_calloc(1, sizeof *w);
    if (w == NULL) {
        return td_no_memory(err, sizeof *w, "progress");
    }
    w->work_dir = td_strdup(work_dir);
    const enum td_code rc =
        w->work_dir == NULL ? td_no_memory(err, strlen(work_dir), "a path") : begin(w, err);
    if (rc) {
        td_progress_abandon(w);
        return td_err_wrap(err, "Saving progress");
    }
    *out = w;
    return TD_OK;
}

void td_progress_abandon(struct td_progress_writer *w)
{
    struct td_err err = {0};
    if (w == NULL) {
        return;
    }
    td_bundle_abandon(w->bundle);
    if (w->aside[0] != 0 && td_tree_remove(w->aside, &err)) {
        td_log(TD_LOG_WARNING, NULL, "unfinished progress stays until the next is saved: %s", err.msg);
    }
    td_free(w->work_dir);
    td_free(w);
}

enum td_code td_progress_put(struct td_progress_writer *w, const char *name, const struct td_tensor *t,
                             struct td_err *err)
{
    return td_bundle_add(w->bundle, name, t, err) ? td_err_wrap(err, "Saving progress") : TD_OK;
}

static enum td_code put_numbers(struct td_progress_writer *w, const char *name, enum td_dtype dtype,
                                const void *v, int n, struct td_err *err)
{
    struct td_tensor t = {0};
    const struct td_shape shape = td_shape_vector(n);
    TD_TRY(td_tensor_new(&t, dtype, &shape, err));
    if (n > 0) {
        memcpy(t.data, v, td_tensor_bytes(&t));
    }
    const enum td_code rc = td_progress_put(w, name, &t, err);
    td_tensor_clear(&t);
    return rc;
}

enum td_code td_progress_put_ints(struct td_progress_writer *w, const char *name, const int64_t *v, int n,
                                  struct td_err *err)
{
    return put_numbers(w, name, TD_INT64, v, n, err);
}

enum td_code td_progress_put_reals(struct td_progress_writer *w, const char *name, const double *v, int n,
                                   struct td_err *err)
{
    return put_numbers(w, name, TD_DOUBLE, v, n, err);
}

enum td_code td_progress_put_text(struct td_progress_writer *w, const char *name, const char *text,
                                  struct td_err *err)
{
    struct td_tensor t = {0};
    const struct td_shape shape = td_shape_scalar();
    TD_TRY(td_tensor_new(&t, TD_STRING, &shape, err));
    enum td_code rc = td_tensor_set_str(&t, 0, text, strlen(text), err);
    rc = rc ? rc : td_progress_put(w, name, &t, err);
    td_tensor_clear(&t);
    return rc;
}

/* The directory is synced before it gets its name, and its name before the older one goes. */
static enum td_code commit(struct td_progress_writer *w, struct td_err *err)
{
    char inside[TD_FILE_PATH];
    struct td_bundle_writer *bundle = w->bundle;
    w->bundle = NULL; /* finish frees it */
    TD_TRY(td_bundle_finish(bundle, err));
    TD_TRY(join(w->aside, ".", inside, err));
    td_file_sync_directory(inside);
    TD_TRY(td_file_rename(w->aside, w->place, err));
    td_file_sync_directory(w->place);
    return remove_all_but(w->work_dir, w->number, err);
}

enum td_code td_progress_commit(struct td_progress_writer *w, struct td_err *err)
{
    const enum td_code rc = commit(w, err);
    td_progress_abandon(w);
    return rc ? td_err_wrap(err, "Saving progress") : TD_OK;
}

/* ------------------------------------------------------------------ going on */

enum td_code td_progress_open(const char *work_dir, struct td_progress **out, struct td_err *err)
{
    char dir[TD_FILE_PATH], prefix[TD_FILE_PATH];
    int64_t last;
    *out = NULL;
    TD_TRY(highest(work_dir, &last, err));
    if (last < 0) {
        return TD_OK;
    }
    struct td_progress *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return td_no_memory(err, sizeof *p, "progress");
    }
    enum td_code rc = numbered(work_dir, NAME, last, dir, err);
    rc = rc ? rc : join(dir, "state", prefix, err);
    rc = rc ? rc : td_bundle_open(prefix, &p->bundle, err);
    if (rc) {
        td_progress_close(p);
        return td_err_wrap(err, "Reading saved progress");
    }
    *out = p;
    return TD_OK;
}

void td_progress_close(struct td_progress *p)
{
    if (p != NULL) {
        td_bundle_close(p->bundle);
        td_free(p);
    }
}

const char *td_progress_name(const struct td_progress *p, int i)
{
    const char *name;
    enum td_dtype dtype;
    struct td_shape shape;
    uint64_t bytes;
    return td_bundle_entry(p->bundle, i, &name, &dtype, &shape, &bytes) ? name : NULL;
}

enum td_code td_progress_get(struct td_progress *p, const char *name, struct td_tensor *out,
                             struct td_err *err)
{
    return td_bundle_read(p->bundle, name, "", out, err) ? td_err_wrap(err, "Reading saved progress") : TD_OK;
}

static enum td_code get_numbers(struct td_progress *p, const char *name, enum td_dtype dtype, void *v, int n,
                                struct td_err *err)
{
    struct td_tensor t = {0};
    TD_TRY(td_progress_get(p, name, &t, err));
    const bool fits = t.dtype == dtype && td_tensor_count(&t) == n;
    if (fits && n > 0) {
        memcpy(v, t.data, td_tensor_bytes(&t));
    }
    td_tensor_clear(&t);
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "Reading saved progress: '%s' does not hold %d numbers", name,
               n);
    return TD_OK;
}

enum td_code td_progress_get_ints(struct td_progress *p, const char *name, int64_t *v, int n,
                                  struct td_err *err)
{
    return get_numbers(p, name, TD_INT64, v, n, err);
}

enum td_code td_progress_get_reals(struct td_progress *p, const char *name, double *v, int n,
                                   struct td_err *err)
{
    return get_numbers(p, name, TD_DOUBLE, v, n, err);
}

enum td_code td_progress_same_text(struct td_progress *p, const char *name, const char *text, bool *same,
                                   struct td_err *err)
{
    struct td_tensor t = {0};
    size_t n;
    TD_TRY(td_progress_get(p, name, &t, err));
    *same = false;
    if (t.dtype == TD_STRING && td_tensor_count(&t) == 1) {
        const char *has = td_tensor_str(&t, 0, &n);
        *same = n == strlen(text) && memcmp(has, text, n) == 0;
    }
    td_tensor_clear(&t);
    return TD_OK;
}
