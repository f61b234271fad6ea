/* server/models/watch_memory.c - a table of paths that were listed or looked at, with the folders that this
 * went through and their times of change.
 *
 *   listing a base path   the folder itself, and its versions
 *   looking at a version  its folders, the one above it, and its files, whose state is asked for each time:
 *                         a file that is written in place does not show in its folder
 *
 * Only what is surely so is remembered. Folders on file systems that do not keep their times of change (most
 * that are not local) are not; nor one that was changed less than a second before it was read, since a later
 * change may then bear the same time; nor a base path with links to versions in it.
 *
 * Does not: know versions or models.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/watch_memory.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

#define N_CHAINS 1024
#define SETTLED_NS 1000000000 /* how much older than the look a folder's change must be */

/* What tells that a folder holds the names that it held. */
struct state {
    uint64_t dev, ino;
    struct timespec changed;
};

struct known {
    struct known *next; /* of its chain */
    char *path;
    bool is_base, used;
    struct td_version_dir *versions; /* of a base path */
    int n_versions;
    struct state base;
    struct td_watch_trail trail; /* of a version */
    struct state *folders;       /* one for each place of the trail */
};

struct td_watch_memory {
    struct known *chains[N_CHAINS];
};

/* ------------------------------------------------------------------ the file system */

static bool ask(const char *path, struct state *out)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return false;
    }
    *out = (struct state){st.st_dev, st.st_ino, st.st_mtim};
    return true;
}

static bool is_same(const struct state *a, const struct state *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Whether folders of this file system change their time with each name that comes or goes. */
static bool keeps_times(const char *path)
{
    static const unsigned long TYPES[] = {
        0xEF53,     0x58465342, 0x9123683E, 0x01021994,
        0x794c7630, 0xF2F52010, 0x2FC12FC1}; /* ext, XFS, btrfs, tmpfs, overlayfs, F2FS, ZFS */
    struct statfs fs;
    bool found = false;
    const bool known = statfs(path, &fs) == 0;
    for (size_t i = 0; known && i < sizeof TYPES / sizeof TYPES[0]; i++) {
        found = found || ((unsigned long)fs.f_type & 0xffffffff) == TYPES[i];
    }
    return found;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Whether nothing more can have come under the same time since from_ns. */
static bool is_old(const struct state *s, int64_t from_ns)
{
    return (int64_t)s->changed.tv_sec * 1000000000 + s->changed.tv_nsec < from_ns - SETTLED_NS;
}

/* ------------------------------------------------------------------ the table */

static void known_free(struct known *k)
{
    td_watch_free(k->versions, k->n_versions);
    td_watch_trail_fini(&k->trail);
    td_free(k->folders);
    td_free(k->path);
    td_free(k);
}

static struct known **chain_of(struct td_watch_memory *m, const char *path)
{
    return &m->chains[td_hash_bytes(path, strlen(path)) % N_CHAINS];
}

static struct known *find(struct td_watch_memory *m, const char *path, bool is_base)
{
    for (struct known *k = m != NULL ? *chain_of(m, path) : NULL; k != NULL; k = k->next) {
        if (k->is_base == is_base && strcmp(k->path, path) == 0) {
            return k;
        }
    }
    return NULL;
}

static void forget(struct td_watch_memory *m, struct known *gone)
{
    for (struct known **at = chain_of(m, gone->path); *at != NULL; at = &(*at)->next) {
        if (*at == gone) {
            *at = gone->next;
            known_free(gone);
            return;
        }
    }
}

static struct known *add(struct td_watch_memory *m, const char *path, bool is_base)
{
    struct known *k = td_calloc(1, sizeof *k);
    char *copy = td_strdup(path);
    if (k == NULL || copy == NULL) {
        td_free(k);
        td_free(copy);
        return NULL;
    }
    struct known **chain = chain_of(m, path);
    *k = (struct known){.next = *chain, .path = copy, .is_base = is_base, .used = true};
    *chain = k;
    return k;
}

struct td_watch_memory *td_watch_memory_new(void)
{
    return td_calloc(1, sizeof(struct td_watch_memory));
}

static void sweep(struct td_watch_memory *m, bool all)
{
    for (int i = 0; i < N_CHAINS; i++) {
        for (struct known **at = &m->chains[i]; *at != NULL;) {
            struct known *k = *at;
            if (k->used && !all) {
                k->used = false;
                at = &k->next;
            } else {
                *at = k->next;
                known_free(k);
            }
        }
    }
}

void td_watch_memory_round(struct td_watch_memory *m)
{
    sweep(m, false);
}

void td_watch_memory_free(struct td_watch_memory *m)
{
    if (m != NULL) {
        sweep(m, true);
        td_free(m);
    }
}

/* ------------------------------------------------------------------ listing */

static bool copy_versions(const struct td_version_dir *from, int n, struct td_version_dir **out)
{
    struct td_version_dir *to = td_calloc((size_t)n + 1, sizeof *to);
    bool whole = to != NULL;
    for (int i = 0; i < n && whole; i++) {
        to[i] = (struct td_version_dir){from[i].version, td_strdup(from[i].path)};
        whole = to[i].path != NULL;
    }
    if (!whole && to != NULL) {
        td_watch_free(to, n);
    }
    *out = whole ? to : NULL;
    return whole;
}

static bool has_links(const struct td_version_dir *v, int n)
{
    struct stat st;
    for (int i = 0; i < n; i++) {
        if (lstat(v[i].path, &st) != 0 || !S_ISDIR(st.st_mode)) {
            return true;
        }
    }
    return false;
}

static void remember_list(struct td_watch_memory *m, const char *base_path, const struct td_version_dir *v,
                          int n, int64_t from_ns)
{
    struct state now;
    if (!ask(base_path, &now) || !is_old(&now, from_ns) || !keeps_times(base_path) || has_links(v, n)) {
        return;
    }
    struct known *k = add(m, base_path, true);
    if (k == NULL) {
        return;
    }
    k->base = now;
    if (copy_versions(v, n, &k->versions)) {
        k->n_versions = n;
    } else {
        forget(m, k);
    }
}

enum td_code td_watch_memory_list(struct td_watch_memory *m, const char *base_path,
                                  struct td_version_dir **out, int *n, struct td_err *err)
{
    struct known *k = find(m, base_path, true);
    struct state now;
    if (k != NULL && ask(base_path, &now) && is_same(&now, &k->base) &&
        copy_versions(k->versions, k->n_versions, out)) {
        k->used = true;
        *n = k->n_versions;
        return TD_OK;
    }
    if (k != NULL) {
        forget(m, k);
    }
    const int64_t from_ns = now_ns();
    TD_TRY(td_watch_list(base_path, out, n, err));
    if (m != NULL) {
        remember_list(m, base_path, *out, *n, from_ns);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ looking */

/* Whether what the look went through can be relied on; fills k->folders. */
static bool is_sure(struct known *k, int64_t from_ns)
{
    const struct td_watch_trail *t = &k->trail;
    struct state version;
    k->folders = td_calloc((size_t)t->n + 1, sizeof *k->folders);
    if (k->folders == NULL || t->broken || !ask(k->path, &version) || !keeps_times(k->path)) {
        return false;
    }
    for (int i = 0; i < t->n; i++) {
        if (t->places[i].folder && !(ask(t->places[i].path, &k->folders[i]) &&
                                     k->folders[i].dev == version.dev && is_old(&k->folders[i], from_ns))) {
            return false;
        }
    }
    return true;
}

static void look_anew(struct td_watch_memory *m, const char *version_dir, struct td_watch_seen *out)
{
    struct known *k = m != NULL ? add(m, version_dir, false) : NULL;
    const int64_t from_ns = now_ns();
    if (k == NULL) {
        td_watch_look(version_dir, out);
        return;
    }
    td_watch_look_along(version_dir, &k->trail, out);
    if (!is_sure(k, from_ns)) {
        forget(m, k);
    }
}

/* The same sums, from the files that are known. False: a folder has changed. */
static bool look_again(struct known *k, struct td_watch_seen *out)
{
    *out = (struct td_watch_seen){0};
    for (int i = 0; i < k->trail.n; i++) {
        const struct td_watch_place *p = &k->trail.places[i];
        struct state now;
        if (!p->folder) {
            td_watch_add_file(out, p->path, p->of);
        } else if (!ask(p->path, &now) || !is_same(&now, &k->folders[i])) {
            return false;
        }
    }
    return true;
}

void td_watch_memory_look(struct td_watch_memory *m, const char *version_dir, struct td_watch_seen *out)
{
    struct known *k = find(m, version_dir, false);
    if (k != NULL && look_again(k, out)) {
        k->used = true;
        return;
    }
    if (k != NULL) {
        forget(m, k);
    }
    look_anew(m, version_dir, out);
}
