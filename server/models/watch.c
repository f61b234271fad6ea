/* server/models/watch.c - reads a directory, and digests the files that publish a version. Keeps nothing
 * between calls.
 *
 * A name counts when all of it is a decimal number that fits 64 bits and it is a folder, or a link to one.
 * Versions are sorted, highest first; of folders that spell the same number (1 and 001) the first by name
 * stays, with a warning. A path without versions that holds a saved_model.pb or .pbtxt is version 1 itself.
 *
 * The stamp mixes time, size and inode of a fixed list of files, those in Triton's model.savedmodel folder
 * and the model's config.pbtxt included; files that are not there add nothing. Whoever keeps stamps sees that
 * one has changed by comparing.
 *
 * Does not: watch by notification: the registry polls. Does not open files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "core/base/mem.h"

#define MAX_VERSIONS 100000

/* The number that the whole name spells, or -1. */
static int64_t version_of(const char *name)
{
    int64_t v = 0;
    if (*name == '\0') {
        return -1;
    }
    for (const char *c = name; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || !td_i64_mul(v, 10, &v) || !td_i64_add(v, *c - '0', &v)) {
            return -1;
        }
    }
    return v;
}

static bool is_dir(int at, const char *name)
{
    struct stat st;
    return fstatat(at, name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static int by_version_down(const void *a, const void *b)
{
    const struct td_version_dir *x = a, *y = b;
    return x->version < y->version ? 1 : x->version > y->version ? -1 : strcmp(x->path, y->path);
}

static enum td_code add(struct td_version_dir **dirs, int *n, int *cap, int64_t version, char *takes_path,
                        struct td_err *err)
{
    if (takes_path != NULL && *n == *cap) {
        const int grown = *cap ? *cap * 2 : 8;
        struct td_version_dir *p = td_realloc(*dirs, (size_t)grown, sizeof **dirs);
        if (p != NULL) {
            *dirs = p;
            *cap = grown;
        }
    }
    if (takes_path == NULL || *n == *cap) {
        td_free(takes_path);
        return td_no_memory(err, sizeof **dirs, "a list of versions");
    }
    (*dirs)[(*n)++] = (struct td_version_dir){version, takes_path};
    return TD_OK;
}

static char *join(const char *dir, const char *name)
{
    const size_t n = strlen(dir) + strlen(name) + 2;
    char *path = td_calloc(n, 1);
    if (path != NULL) {
        (void)snprintf(path, n, "%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", name);
    }
    return path;
}

static enum td_code read_all(DIR *dir, const char *base_path, struct td_version_dir **dirs, int *n,
                             struct td_err *err)
{
    int cap = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        const int64_t version = version_of(e->d_name);
        if (version >= 0 && is_dir(dirfd(dir), e->d_name)) {
            TD_FAIL_IF(*n == MAX_VERSIONS, err, RESOURCE_EXHAUSTED, "listing '%s': more than %d versions",
                       base_path, MAX_VERSIONS);
            TD_TRY(add(dirs, n, &cap, version, join(base_path, e->d_name), err));
        }
    }
    struct stat st;
    if (*n == 0 && (fstatat(dirfd(dir), "saved_model.pb", &st, 0) == 0 ||
                    fstatat(dirfd(dir), "saved_model.pbtxt", &st, 0) == 0)) {
        TD_TRY(add(dirs, n, &cap, 1, td_strdup(base_path), err));
    }
    return TD_OK;
}

/* Of folders that spell the same number (1 and 001) the first by name stays. */
static void drop_doubles(struct td_version_dir *dirs, int *n, const char *base_path)
{
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        if (kept > 0 && dirs[kept - 1].version == dirs[i].version) {
            td_log(TD_LOG_WARNING, NULL, "listing '%s': '%s' is ignored, '%s' spells the same version",
                   base_path, dirs[i].path, dirs[kept - 1].path);
            td_free(dirs[i].path);
        } else {
            dirs[kept++] = dirs[i];
        }
    }
    *n = kept;
}

enum td_code td_watch_list(const char *base_path, struct td_version_dir **out, int *n, struct td_err *err)
{
    struct td_version_dir *dirs = NULL;
    int count = 0;
    DIR *dir = *base_path != '\0' ? opendir(base_path) : NULL;
    if (dir == NULL) {
        const enum td_code code = errno == EACCES ? TD_PERMISSION_DENIED : TD_NOT_FOUND;
        return td_fail(err, code, "Could not find base path %s: %s", base_path, strerror(errno));
    }
    const enum td_code rc = read_all(dir, base_path, &dirs, &count, err);
    closedir(dir);
    if (rc) {
        td_watch_free(dirs, count);
        return rc;
    }
    if (count > 0) {
        qsort(dirs, (size_t)count, sizeof *dirs, by_version_down);
        drop_doubles(dirs, &count, base_path);
    }
    *out = dirs;
    *n = count;
    return TD_OK;
}

void td_watch_free(struct td_version_dir *dirs, int n)
{
    for (int i = 0; i < n; i++) {
        td_free(dirs[i].path);
    }
    td_free(dirs);
}

/* Adds what a file's metadata says, if it is there; which: its place among the files. Takes path. */
static uint64_t stir(uint64_t stamp, char *path, uint64_t which)
{
    struct stat st;
    if (path != NULL && stat(path, &st) == 0) {
        const uint64_t parts[] = {(uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec,
                                  (uint64_t)st.st_size, (uint64_t)st.st_ino, which};
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            stamp = (stamp ^ parts[k]) * UINT64_C(0x9e3779b97f4a7c15);
            stamp ^= stamp >> 29;
        }
    }
    td_free(path);
    return stamp;
}

uint64_t td_watch_stamp(const char *version_dir)
{
    static const char *const files[] = {"saved_model.pb",
                                        "saved_model.pbtxt",
                                        "variables/variables.index",
                                        "model.savedmodel/saved_model.pb",
                                        "model.savedmodel/variables/variables.index",
                                        "config.pbtxt"};
    const char *slash = strrchr(version_dir, '/');
    char *above =
        slash != NULL && slash > version_dir ? td_strndup(version_dir, (size_t)(slash - version_dir)) : NULL;
    uint64_t stamp = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        stamp = stir(stamp, join(version_dir, files[i]), i + 1);
    }
    stamp = above != NULL ? stir(stamp, join(above, "config.pbtxt"), 0) : stamp;
    td_free(above);
    return stamp;
}
