/* server/models/watch.c - reads a directory, and looks at the files of a version. Keeps nothing
 * between calls (server/models/watch_memory.h does).
 *
 * A name counts when all of it is a decimal number that fits 64 bits and it is a folder, or a link to one.
 * Versions are sorted, highest first; of folders that spell the same number (1 and 001) the first by name
 * stays, with a warning. A path without versions that holds a saved_model.pb or .pbtxt is version 1 itself.
 *
 * A look at a version sums hashes of path, inode, size and time of each of its files, those in Triton's
 * model.savedmodel folder and the model's config.pbtxt included; files that are not there add nothing.
 * Whoever keeps what was seen knows by comparing that something has changed, and in what.
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
#define MAX_FILES 10000 /* of a version that are looked at, and how many folders deep */
#define MAX_DEPTH 4

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

static bool leads_to_dir(DIR *dir, const struct dirent *e)
{
    return e->d_type == DT_DIR ||
           ((e->d_type == DT_LNK || e->d_type == DT_UNKNOWN) && is_dir(dirfd(dir), e->d_name));
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
        if (version >= 0 && leads_to_dir(dir, e)) {
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

/* ------------------------------------------------------------------ looking at a version's files */

enum { MODEL = 1, WEIGHTS = 2 }; /* what a file is of */

static uint64_t mix(uint64_t h, uint64_t part)
{
    h = (h ^ part) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
    for (; *text != '\0'; text++) {
        h = mix(h, (unsigned char)*text);
    }
    return h;
}

/* Sums, as a folder's entries come in any order. */
void td_watch_add_file(struct td_watch_seen *seen, const char *path, int of)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return;
    }
    const uint64_t place = mix(mix_text(1, path), (uint64_t)st.st_ino);
    const uint64_t state =
        mix(mix(mix(place, (uint64_t)st.st_mtim.tv_sec), (uint64_t)st.st_mtim.tv_nsec), (uint64_t)st.st_size);
    const int64_t touched_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    seen->stamp += state;
    seen->model += of & MODEL ? state : 0;
    seen->weights += of & WEIGHTS ? state : 0;
    seen->bytes += of & WEIGHTS ? (uint64_t)st.st_size : 0;
    seen->places += of & WEIGHTS ? place : 0;
    seen->newest_ns = touched_ns > seen->newest_ns ? touched_ns : seen->newest_ns;
}

/* A look under way. */
struct look {
    struct td_watch_seen *seen;
    struct td_watch_trail *trail; /* NULL: none is kept */
    int n;                        /* entries of folders, so far */
};

static void note(struct td_watch_trail *t, const char *path, int of, bool folder)
{
    if (t == NULL) {
        return;
    }
    if (t->n == t->room) {
        struct td_watch_place *more = td_realloc(t->places, (size_t)t->room * 2 + 16, sizeof *more);
        t->broken = t->broken || more == NULL;
        t->places = more != NULL ? more : t->places;
        t->room = more != NULL ? t->room * 2 + 16 : t->room;
    }
    char *copy = t->n < t->room ? td_strdup(path) : NULL;
    t->broken = t->broken || copy == NULL;
    if (copy != NULL) {
        t->places[t->n++] = (struct td_watch_place){copy, of, folder};
    }
}

void td_watch_trail_fini(struct td_watch_trail *t)
{
    for (int i = 0; i < t->n; i++) {
        td_free(t->places[i].path);
    }
    td_free(t->places);
    *t = (struct td_watch_trail){0};
}

static void add_below(struct look *l, const char *dir, const char *name, int of)
{
    char *path = join(dir, name);
    struct stat st;
    if (path != NULL) {
        td_watch_add_file(l->seen, path, of);
    }
    if (path != NULL && l->trail != NULL && lstat(path, &st) == 0) { /* else the folder says when it comes */
        note(l->trail, path, of, false);
    }
    td_free(path);
}

/* All files of a folder and of those in it. Takes path. */
static void add_folder(struct look *l, char *path, int of, int depth)
{
    DIR *dir = path != NULL ? opendir(path) : NULL;
    if (dir != NULL) { /* where it is missing, the folder above says so */
        note(l->trail, path, 0, true);
    }
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL && l->n < MAX_FILES;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        ++l->n;
        if (depth < MAX_DEPTH && leads_to_dir(dir, e)) {
            add_folder(l, join(path, e->d_name), of, depth + 1);
        } else {
            add_below(l, path, e->d_name, of & WEIGHTS && strstr(e->d_name, ".data-") == NULL ? MODEL : of);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    td_free(path);
}

/* Takes dir. */
static void add_model(struct look *l, char *dir)
{
    if (dir != NULL) {
        note(l->trail, dir, 0, true);
        add_below(l, dir, "saved_model.pb", MODEL);
        add_below(l, dir, "saved_model.pbtxt", MODEL);
        add_folder(l, join(dir, "variables"), MODEL | WEIGHTS, 0);
        add_folder(l, join(dir, "assets"), MODEL, 0);
        add_folder(l, join(dir, "assets.extra"), 0, 0);
    }
    td_free(dir);
}

void td_watch_look_along(const char *version_dir, struct td_watch_trail *trail, struct td_watch_seen *out)
{
    struct look l = {.seen = out, .trail = trail};
    const char *slash = strrchr(version_dir, '/');
    char *above =
        slash != NULL && slash > version_dir ? td_strndup(version_dir, (size_t)(slash - version_dir)) : NULL;
    char *triton = join(version_dir, "model.savedmodel");
    *out = (struct td_watch_seen){0};
    add_model(&l, td_strdup(version_dir));
    l.n = 0;
    if (triton != NULL && is_dir(AT_FDCWD, triton)) {
        add_model(&l, triton);
    } else {
        td_free(triton);
    }
    add_below(&l, version_dir, "config.pbtxt", 0);
    if (above != NULL) {
        note(trail, above, 0, true);
        add_below(&l, above, "config.pbtxt", 0);
    }
    td_free(above);
}

void td_watch_look(const char *version_dir, struct td_watch_seen *out)
{
    td_watch_look_along(version_dir, NULL, out);
}
