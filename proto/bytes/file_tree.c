/* proto/bytes/file_tree.c - directories one level at a time; proto/bytes/file.c does the files.
 *
 * A copy syncs each file, then the directory that holds it, from the leaves up; its parent's entry is the
 * caller's to sync, who may want to rename it first. A source that leads into itself by links ends at
 * MAX_DEPTH.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/file_tree.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/beneath.h"
#include "core/base/mem.h"
#include "proto/bytes/file.h"

enum { MAX_DEPTH = 40, MAX_OPEN = 16 };

/* ---- making */

enum td_code td_tree_make(const char *path, mode_t mode, struct td_err *err)
{
    char part[TD_FILE_PATH];
    const size_t n = strlen(path);
    TD_FAIL_IF(n == 0 || n >= sizeof part, err, INVALID_ARGUMENT, "path of %zu bytes", n);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] == '/' || path[i] == 0) {
            memcpy(part, path, i);
            part[i] = 0;
            const bool made = mkdir(part, mode) == 0 || errno == EEXIST || access(part, X_OK) == 0;
            TD_FAIL_IF(!made && errno == ENOSPC, err, RESOURCE_EXHAUSTED, "Creating %s: no space left", part);
            TD_FAIL_IF(!made, err, PERMISSION_DENIED, "Creating %s: %s", part, strerror(errno));
        }
    }
    return TD_OK;
}

/* ---- copying */

struct copy {
    const char *root;
    td_tree_skip_fn *skip;
    void *ctx;
};

static enum td_code copy_level(const struct copy *c, const char *from, const char *to, int depth,
                               struct td_err *err);

static enum td_code join(const char *dir, const char *name, char out[TD_FILE_PATH], struct td_err *err)
{
    const int n = snprintf(out, TD_FILE_PATH, "%s/%s", dir, name);
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH, err, INVALID_ARGUMENT, "%s/%s: the path is too long", dir, name);
    return TD_OK;
}

static enum td_code copy_entry(const struct copy *c, const char *from, const char *to, int depth,
                               struct td_err *err)
{
    unsigned kind;
    TD_TRY(td_beneath_kind(c->root, from, &kind, err));
    return kind == S_IFDIR   ? copy_level(c, from, to, depth + 1, err)
           : kind == S_IFREG ? td_file_copy_beneath(c->root, from, to, err)
                             : TD_OK;
}

static enum td_code copy_entries(const struct copy *c, DIR *all, const char *from, const char *to, int depth,
                                 struct td_err *err)
{
    char source[TD_FILE_PATH], target[TD_FILE_PATH];
    for (const struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            (c->skip != NULL && c->skip(c->ctx, from, e->d_name))) {
            continue;
        }
        TD_TRY(join(from, e->d_name, source, err));
        TD_TRY(join(to, e->d_name, target, err));
        TD_TRY(copy_entry(c, source, target, depth, err));
    }
    char inside[TD_FILE_PATH];
    TD_TRY(join(to, ".", inside, err));
    td_file_sync_directory(inside);
    return TD_OK;
}

static enum td_code copy_level(const struct copy *c, const char *from, const char *to, int depth,
                               struct td_err *err)
{
    TD_FAIL_IF(depth > MAX_DEPTH, err, INVALID_ARGUMENT, "%s: more than %d directories deep", from,
               MAX_DEPTH);
    int fd;
    TD_TRY(td_beneath_open_dir(c->root, from, &fd, err));
    DIR *all = fdopendir(fd);
    if (all == NULL) {
        close(fd);
        return td_no_memory(err, 0, from);
    }
    enum td_code rc = TD_OK;
    if (mkdir(to, 0755) != 0) {
        rc = errno == ENOSPC ? td_fail(err, TD_RESOURCE_EXHAUSTED, "Creating %s: no space left", to)
                             : td_fail(err, TD_PERMISSION_DENIED, "Creating %s: %s", to, strerror(errno));
    }
    rc = rc ? rc : copy_entries(c, all, from, to, depth, err);
    closedir(all);
    return rc;
}

enum td_code td_tree_copy(const char *root, const char *from, const char *to, td_tree_skip_fn *skip,
                          void *ctx, struct td_err *err)
{
    return copy_level(&(struct copy){root, skip, ctx}, from, to, 0, err);
}

/* ---- removing */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

enum td_code td_tree_remove(const char *path, struct td_err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0 && errno == ENOENT) {
        return TD_OK;
    }
    TD_FAIL_IF(nftw(path, remove_one, MAX_OPEN, FTW_DEPTH | FTW_PHYS) != 0, err, PERMISSION_DENIED,
               "Removing %s: %s", path, strerror(errno));
    return TD_OK;
}
