/* proto/bytes/packed_folder.c - opening a folder, finding files in it and writing them; clearing out is
 * proto/bytes/packed_clear.c's.
 *
 *   head   4096 bytes: magic, version, the key's bytes, how many others follow, their CRC-32C, the key,
 *   zeros bytes  from the second page on, as they are mapped
 *
 * A file is written aside, synced and renamed, so that its name never stands for half of it; the checksum
 * is for disks that lie, and is worked out over the pages that the first run reads anyway. Who writes
 * aside holds a lock on the file, which ends with the process: what a killed one left is known by the
 * lock being free, and removed. The folder itself is not synced: a name that a power cut takes costs one
 * more packing.
 *
 * The time of a file's last use is its modification time: finding it sets that.
 *
 * Locks: mu guards the list of what is held; nothing is asked of the system under it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/packed_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/bytes/crc32c.h"
#include "proto/bytes/file.h"
#include "proto/bytes/mapping.h"
#include "proto/bytes/packed_clear.h"

enum { VERSION = 1, NAME = TD_PACKED_NAME };
static const char MAGIC[8] = "tdpacked";

struct head {
    char magic[8];
    uint32_t version, key_bytes;
    uint64_t bytes;
    uint32_t crc, unused;
    unsigned char key[TD_PACKED_KEY];
    unsigned char zeros[TD_PACKED_HEAD - TD_PACKED_KEY - 32];
};
_Static_assert(sizeof(struct head) == TD_PACKED_HEAD, "the bytes begin with a page");

struct td_packed_folder {
    char path[TD_FILE_PATH];
    uint64_t most_bytes;
    struct td_content_key key;
    pthread_mutex_t mu;          /* guards held */
    struct td_packed_file *held; /* newest first */
};

struct td_packed_file {
    struct td_packed_folder *folder;
    struct td_packed_file *next;
    struct td_mapping *mapping; /* NULL: written by this process */
    char name[NAME];
};

/* ------------------------------------------------------------------ opening */

static bool ours_alone(const struct stat *st)
{
    return st->st_uid == geteuid() && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static enum td_code make_folder(const char *path, struct td_err *err)
{
    struct stat st;
    TD_FAIL_IF(mkdir(path, 0700) != 0 && errno != EEXIST, err, UNAVAILABLE, "Making the folder %s: %s", path,
               strerror(errno));
    TD_FAIL_IF(lstat(path, &st) != 0, err, UNAVAILABLE, "Looking at %s: %s", path, strerror(errno));
    TD_FAIL_IF(
        !S_ISDIR(st.st_mode) || !ours_alone(&st), err, FAILED_PRECONDITION,
        "%s is not trusted: it is user %u's, mode %03o, want a folder of user %u that no other may write to",
        path, (unsigned)st.st_uid, (unsigned)(st.st_mode & 0777), (unsigned)geteuid());
    return TD_OK;
}

/* A file of ours to read; -1: there is none. */
static int open_ours(const char *path, struct stat *st)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, st) != 0 || !S_ISREG(st->st_mode) || !ours_alone(st))) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static bool read_key(const char *path, struct td_content_key *key)
{
    struct stat st;
    const int fd = open_ours(path, &st);
    const bool ok =
        fd >= 0 && st.st_size == (off_t)sizeof *key && pread(fd, key, sizeof *key, 0) == (ssize_t)sizeof *key;
    if (fd >= 0) {
        (void)close(fd);
    }
    return ok;
}

static bool draw(void *to, size_t n)
{
    enum { MOST_AT_ONCE = 256 }; /* so many come whole, whatever signals do */
    for (size_t done = 0; done < n;) {
        const size_t now = n - done < MOST_AT_ONCE ? n - done : MOST_AT_ONCE;
        if (getrandom((char *)to + done, now, 0) != (ssize_t)now) {
            return false;
        }
        done += now;
    }
    return true;
}

static enum td_code create(const char *path, int *fd, struct td_err *err)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    TD_FAIL_IF(*fd < 0, err, UNAVAILABLE, "Creating %s: %s", path, strerror(errno));
    return TD_OK;
}

/* Of two processes that make a key at once one's counts. */
static enum td_code make_key(const char *path, struct td_content_key *key, struct td_err *err)
{
    char aside[TD_FILE_PATH];
    int fd;
    TD_FAIL_IF(!draw(key, sizeof *key), err, UNAVAILABLE, "Drawing %s: %s", path, strerror(errno));
    TD_TRY(td_file_temp_name(path, aside, err));
    TD_TRY(create(aside, &fd, err));
    (void)flock(fd, LOCK_EX | LOCK_NB);
    enum td_code rc = td_file_put(fd, aside, key, sizeof *key, err);
    if (rc == TD_OK && fsync(fd) == 0) {
        struct stat st;
        if (lstat(path, &st) == 0 && !read_key(path, key)) {
            (void)unlink(path); /* cut short, or another's */
        }
        (void)!link(aside, path);
    }
    (void)unlink(aside);
    (void)close(fd);
    TD_FAIL_IF(rc == TD_OK && !read_key(path, key), err, UNAVAILABLE, "Reading %s: it cannot be made", path);
    return rc;
}

static enum td_code open_folder(struct td_packed_folder *f, const char *dir, struct td_err *err)
{
    char path[TD_FILE_PATH];
    const int n = snprintf(f->path, sizeof f->path, "%s/packed", dir);
    TD_FAIL_IF(n < 0 || n + NAME >= TD_FILE_PATH, err, INVALID_ARGUMENT, "the path of %.200s is too long",
               dir);
    TD_TRY(make_folder(f->path, err));
    (void)snprintf(path, sizeof path, "%.*s/key", TD_FILE_PATH - NAME, f->path);
    if (!read_key(path, &f->key)) {
        TD_TRY(make_key(path, &f->key, err));
    }
    td_packed_sweep(f->path);
    return TD_OK;
}

enum td_code td_packed_folder_open(const char *dir, uint64_t most_bytes, struct td_packed_folder **out,
                                   struct td_err *err)
{
    struct td_packed_folder *f = td_calloc(1, sizeof *f);
    if (f == NULL) {
        return td_no_memory(err, sizeof *f, "the folder of packed weights");
    }
    f->most_bytes = most_bytes;
    const enum td_code rc = open_folder(f, dir, err);
    if (rc) {
        td_free(f);
        return rc;
    }
    (void)pthread_mutex_init(&f->mu, NULL);
    *out = f;
    return TD_OK;
}

void td_packed_folder_close(struct td_packed_folder *f)
{
    if (f != NULL) {
        (void)pthread_mutex_destroy(&f->mu);
        td_free(f);
    }
}

struct td_content_hash td_packed_folder_hash(const struct td_packed_folder *f, const void *bytes, size_t n)
{
    return td_content_hash(&f->key, bytes, n);
}

/* ------------------------------------------------------------------ what is held */

static struct td_packed_file *hold(struct td_packed_folder *f, const char *name, struct td_mapping *mapping)
{
    struct td_packed_file *p = td_calloc(1, sizeof *p);
    if (p != NULL) {
        p->folder = f;
        p->mapping = mapping;
        (void)snprintf(p->name, sizeof p->name, "%s", name);
        (void)pthread_mutex_lock(&f->mu);
        p->next = f->held;
        f->held = p;
        (void)pthread_mutex_unlock(&f->mu);
    }
    return p;
}

static bool is_held(void *folder, const char *name)
{
    struct td_packed_folder *f = folder;
    (void)pthread_mutex_lock(&f->mu);
    const struct td_packed_file *p = f->held;
    while (p != NULL && strcmp(p->name, name) != 0) {
        p = p->next;
    }
    (void)pthread_mutex_unlock(&f->mu);
    return p != NULL;
}

void td_packed_file_drop(void *file)
{
    struct td_packed_file *p = file;
    if (p == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&p->folder->mu);
    struct td_packed_file **at = &p->folder->held;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    (void)pthread_mutex_unlock(&p->folder->mu);
    td_mapping_unref(p->mapping);
    td_free(p);
}

const void *td_packed_file_data(const struct td_packed_file *p)
{
    size_t n;
    return td_mapping_data(p->mapping, &n) + TD_PACKED_HEAD;
}

/* ------------------------------------------------------------------ finding */

static void name_of(const struct td_packed_folder *f, const void *key, size_t n_key, char name[NAME])
{
    const struct td_content_hash h = td_content_hash(&f->key, key, n_key);
    (void)snprintf(name, NAME, "%016" PRIx64 "%016" PRIx64, h.part[0], h.part[2]);
}

static void path_of(const struct td_packed_folder *f, const char *name, char path[TD_FILE_PATH])
{
    (void)snprintf(path, TD_FILE_PATH, "%.*s/%s", TD_FILE_PATH - NAME - 1, f->path, name);
}

/* Whether the mapped file is the one of this key, whole. */
static bool counts(const struct td_mapping *m, const void *key, size_t n_key, size_t n)
{
    size_t all;
    const struct head *h = (const struct head *)(const void *)td_mapping_data(m, &all);
    return all == sizeof *h + n && memcmp(h->magic, MAGIC, sizeof h->magic) == 0 && h->version == VERSION &&
           h->key_bytes == n_key && h->bytes == n && memcmp(h->key, key, n_key) == 0 &&
           td_crc32c(0, h + 1, n) == h->crc && !td_mapping_damaged(h);
}

/* A mapping of path, if it is ours; NULL. */
static struct td_mapping *map_ours(const char *path)
{
    struct td_mapping *m = NULL;
    struct td_err ignored = {0};
    struct stat st;
    const int fd = open_ours(path, &st);
    if (fd >= 0) {
        if (td_mapping_of(fd, path, true, &m, &ignored)) {
            m = NULL;
        }
        (void)!futimens(fd, NULL); /* it is of use now */
        (void)close(fd);
    }
    return m;
}

struct td_packed_file *td_packed_folder_find(struct td_packed_folder *f, const void *key, size_t n_key,
                                             size_t n)
{
    char name[NAME], path[TD_FILE_PATH];
    name_of(f, key, n_key, name);
    path_of(f, name, path);
    struct td_mapping *m = map_ours(path);
    struct td_packed_file *p = m != NULL && counts(m, key, n_key, n) ? hold(f, name, m) : NULL;
    if (p == NULL) {
        td_mapping_unref(m);
    }
    return p;
}

/* ------------------------------------------------------------------ writing */

static enum td_code put_all(int fd, const char *path, const struct head *h, const struct td_packed_part *part,
                            int n_parts, struct td_err *err)
{
    TD_TRY(td_file_put(fd, path, h, sizeof *h, err));
    for (int i = 0; i < n_parts; i++) {
        TD_TRY(td_file_put(fd, path, part[i].at, part[i].n, err));
    }
    TD_FAIL_IF(fdatasync(fd) != 0, err, UNAVAILABLE, "Writing %s: %s", path, strerror(errno));
    return TD_OK;
}

static enum td_code write_aside(const char *path, const struct head *h, const struct td_packed_part *part,
                                int n_parts, struct td_err *err)
{
    char aside[TD_FILE_PATH];
    int fd;
    TD_TRY(td_file_temp_name(path, aside, err));
    TD_TRY(create(aside, &fd, err));
    (void)flock(fd, LOCK_EX | LOCK_NB);
    enum td_code rc = put_all(fd, aside, h, part, n_parts, err);
    rc = rc ? rc : td_file_rename(aside, path, err);
    if (rc) {
        (void)unlink(aside);
    }
    (void)close(fd);
    return rc;
}

static void fill_head(struct head *h, const void *key, size_t n_key, const struct td_packed_part *part,
                      int n_parts)
{
    *h = (struct head){.version = VERSION, .key_bytes = (uint32_t)n_key};
    memcpy(h->magic, MAGIC, sizeof h->magic);
    memcpy(h->key, key, n_key);
    for (int i = 0; i < n_parts; i++) {
        h->bytes += part[i].n;
        h->crc = td_crc32c(h->crc, part[i].at, part[i].n);
    }
}

enum td_code td_packed_folder_write(struct td_packed_folder *f, const void *key, size_t n_key,
                                    const struct td_packed_part *part, int n_parts,
                                    struct td_packed_file **out, struct td_err *err)
{
    char name[NAME], path[TD_FILE_PATH];
    struct head h;
    TD_FAIL_IF(n_key > TD_PACKED_KEY, err, INVALID_ARGUMENT, "a key of %zu bytes, want at most %d", n_key,
               TD_PACKED_KEY);
    fill_head(&h, key, n_key, part, n_parts);
    name_of(f, key, n_key, name);
    path_of(f, name, path);
    const uint64_t all = sizeof h + h.bytes;
    TD_FAIL_IF(!td_packed_make_room(f->path, all, f->most_bytes, is_held, f), err, RESOURCE_EXHAUSTED,
               "Writing %s: %" PRIu64 " bytes more than --packed_cache_bytes=%" PRIu64
               " allows beside what is "
               "in use",
               path, all, f->most_bytes);
    TD_TRY(write_aside(path, &h, part, n_parts, err));
    *out = hold(f, name, NULL);
    return *out != NULL ? TD_OK : td_no_memory(err, sizeof **out, path);
}
