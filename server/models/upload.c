/* server/models/upload.c - a folder for one request's files, made so that nothing lands beside it, and
 * removed with its last user.
 *
 * Paths are walked one name at a time with openat, never following links, so a file lands below the folder
 * whatever its path says; files are created, never opened again, which also shows a path given twice.
 *
 *   state_dir/uploads          locked shared while a folder is made, exclusively while one sweeps
 *   state_dir/uploads/XXXXXX   locked exclusively by its upload; the lock ends with the process
 *
 * A sweep takes the outer lock without waiting, and removes the folders whose own lock it gets: those of
 * processes that are gone. References are counted with atomics; the last one removes the folder and closes
 * it, in this order.
 *
 * Does not: load the model (server/models/registry_upload.c), limit the sum of bytes (the request's own limit
 * does).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/disk.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "proto/pb/guard.h"
#include "proto/schema/model_config.pb-c.h"
#include "proto/json/json_pb.h"

#define FOLDER "uploads"

struct td_upload {
    atomic_int refs;
    uint64_t id;
    char *config;
    size_t n_config;
    char *base; /* NULL: no file yet */
    int dir;    /* of base, open and locked; -1 */
    int n_files;
};

static atomic_uint_fast64_t last_id;

enum td_code td_upload_new(const char *config, size_t n, struct td_upload **out, struct td_err *err)
{
    struct td_upload *u = td_calloc(1, sizeof *u);
    char *copy = td_calloc(n + 1, 1);
    ProtobufCMessage *m = NULL;
    if (u == NULL || copy == NULL) {
        td_free(u);
        td_free(copy);
        return td_no_memory(err, n, "a configuration");
    }
    memcpy(copy, config, n);
    const enum td_code rc = td_json_pb_parse(&inference__model_config__descriptor, copy, n, true, &m, err);
    td_guard_free(m);
    if (rc) {
        td_free(u);
        td_free(copy);
        return rc;
    }
    *u = (struct td_upload){.refs = 1, .id = ++last_id, .config = copy, .n_config = n, .dir = -1};
    *out = u;
    return TD_OK;
}

/* ------------------------------------------------------------------ folders */

/* state_dir/uploads, made where it is not there yet. */
static enum td_code folder_of(const char *state_dir, char out[TD_FILE_PATH], struct td_err *err)
{
    const int n = snprintf(out, TD_FILE_PATH, "%s/" FOLDER, state_dir);
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH - 16, err, FAILED_PRECONDITION,
               "the path of --state_dir is too long");
    TD_FAIL_IF(mkdir(out, 0700) != 0 && errno != EEXIST, err, UNAVAILABLE, "Creating %s: %s", out,
               strerror(errno));
    return TD_OK;
}

/* Makes u's own folder, and locks it before anyone sweeps. */
static enum td_code make_base(struct td_upload *u, const char *state_dir, struct td_err *err)
{
    char path[TD_FILE_PATH];
    TD_FAIL_IF(state_dir == NULL, err, FAILED_PRECONDITION,
               "files of a model need a place: the server has no --state_dir");
    TD_TRY(folder_of(state_dir, path, err));
    const int all = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    TD_FAIL_IF(all < 0 || flock(all, LOCK_SH) != 0, err, UNAVAILABLE, "Opening %s: %s", path,
               strerror(errno));
    memcpy(path + strlen(path), "/XXXXXX", sizeof "/XXXXXX"); /* folder_of left room */
    u->base = mkdtemp(path) != NULL ? td_strdup(path) : NULL;
    u->dir = u->base != NULL ? open(u->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    const bool held = u->dir >= 0 && flock(u->dir, LOCK_EX | LOCK_NB) == 0;
    close(all);
    TD_FAIL_IF(!held, err, UNAVAILABLE, "Creating a folder for the files of a model, %s: %s", path,
               strerror(errno));
    return TD_OK;
}

static void remove_folder(const char *path)
{
    struct td_err err = {0};
    if (td_tree_remove(path, &err)) {
        td_log(TD_LOG_WARNING, NULL, "the files of an uploaded model stay: %s", err.msg);
    }
}

void td_upload_sweep(const char *state_dir)
{
    char path[TD_FILE_PATH];
    struct td_err ignored = {0};
    if (folder_of(state_dir, path, &ignored)) {
        return;
    }
    DIR *all = opendir(path);
    const bool alone =
        all != NULL && flock(dirfd(all), LOCK_EX | LOCK_NB) == 0; /* else another one sweeps or makes */
    for (struct dirent *e; alone && (e = readdir(all)) != NULL;) {
        const int dir = e->d_name[0] == '.'
                            ? -1
                            : openat(dirfd(all), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0) {
            char one[TD_FILE_PATH + 257];
            (void)snprintf(one, sizeof one, "%s/%s", path, e->d_name);
            remove_folder(one);
        }
        if (dir >= 0) {
            close(dir);
        }
    }
    if (all != NULL) {
        closedir(all);
    }
}

/* ------------------------------------------------------------------ files */

/* The name at the head of path, and its length; false for one that is not allowed. */
static bool first_name(const char *path, size_t *n)
{
    *n = strcspn(path, "/");
    const bool dots = (*n == 1 && path[0] == '.') || (*n == 2 && path[0] == '.' && path[1] == '.');
    return *n > 0 && *n <= NAME_MAX && !dots;
}

static enum td_code check_path(const char *path, struct td_err *err)
{
    int depth = 1;
    const char *at = path;
    for (size_t n;; at += n + 1, depth++) {
        const bool named = first_name(at, &n);
        TD_FAIL_IF(!named || depth > TD_UPLOAD_DEPTH, err, INVALID_ARGUMENT,
                   "file '%.200s': the path must stay in the model's directory: at most %d names of at most "
                   "%d bytes "
                   "with '/' between them, none of them '.' or '..'",
                   path, TD_UPLOAD_DEPTH, NAME_MAX);
        if (at[n] == '\0') {
            return TD_OK;
        }
    }
}

/* Opens the folder that the file goes to, making those on the way; *name is what is left of path. */
static int open_parent(int base, const char *path, const char **name)
{
    char part[NAME_MAX + 1];
    int dir = dup(base);
    for (const char *slash; dir >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        const bool made = mkdirat(dir, part, 0700) == 0 || errno == EEXIST;
        const int next = made ? openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        const int why = errno;
        close(dir);
        errno = why;
        dir = next;
    }
    *name = path;
    return dir;
}

enum td_code td_upload_file(struct td_upload *u, const char *state_dir, const char *path, const void *bytes,
                            size_t n, struct td_err *err)
{
    const char *name;
    TD_TRY(check_path(path, err));
    TD_FAIL_IF(u->n_files++ == TD_UPLOAD_FILES, err, INVALID_ARGUMENT, "more than %d files", TD_UPLOAD_FILES);
    TD_TRY(u->base == NULL ? make_base(u, state_dir, err) : TD_OK);
    const int dir = open_parent(u->dir, path, &name);
    const int file =
        dir >= 0 ? openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    const int why = errno;
    if (dir >= 0) {
        close(dir);
    }
    TD_FAIL_IF(file < 0 && (why == EEXIST || why == ENOTDIR || why == EISDIR), err, INVALID_ARGUMENT,
               "file '%.200s': another one of the request has this path, or a part of it, for its own", path);
    TD_FAIL_IF(file < 0, err, UNAVAILABLE, "file '%.200s': %s", path, strerror(why));
    enum td_code rc = td_disk_take(td_disk_state(), n + TD_DISK_FILE, path, err);
    rc = rc ? rc : td_file_put(file, path, bytes, n, err);
    close(file);
    return rc;
}

/* ------------------------------------------------------------------ life */

struct td_upload *td_upload_ref(struct td_upload *u)
{
    if (u != NULL) {
        atomic_fetch_add_explicit(&u->refs, 1, memory_order_relaxed);
    }
    return u;
}

void td_upload_unref(struct td_upload *u)
{
    if (u == NULL || atomic_fetch_sub_explicit(&u->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (u->base != NULL) {
        remove_folder(u->base);
    }
    if (u->dir >= 0) {
        close(u->dir);
    }
    td_free(u->base);
    td_free(u->config);
    td_free(u);
}

uint64_t td_upload_id(const struct td_upload *u)
{
    return u != NULL ? u->id : 0;
}

const char *td_upload_base(const struct td_upload *u)
{
    return u != NULL ? u->base : NULL;
}

const char *td_upload_config(const struct td_upload *u, size_t *n)
{
    *n = u->n_config;
    return u->config;
}
