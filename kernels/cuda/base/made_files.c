/* kernels/cuda/base/made_files.c - reading, writing and clearing out.
 *
 *   head   8 bytes "tdkernel", then as 64 bits: the sum of all that follows, the key's bytes, the code's
 *
 * A file's name is a hash of its key. The time of its last use is its modification time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/made_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/disk.h"
#include "core/base/hash.h"
#include "core/base/mem.h"

enum { PATH_BYTES = 4096 };

#define MAGIC "tdkernel"
static const uint64_t start = UINT64_C(0xcbf29ce484222325);

struct head {
    char magic[8];
    uint64_t sum, key, code;
};

static bool path_of(char path[PATH_BYTES], const char *dir, const char *name)
{
    const int n = snprintf(path, PATH_BYTES, "%s/cuda-kernels%s%s", dir, name[0] != '\0' ? "/" : "", name);
    return n > 0 && n < PATH_BYTES;
}

static bool path_of_key(char path[PATH_BYTES], const char *dir, const char *key)
{
    char name[24];
    (void)snprintf(name, sizeof name, "%016" PRIx64, td_hash_mix(td_hash_more(start, key, strlen(key))));
    return path_of(path, dir, name);
}

static uint64_t sum_of(const struct head *h, const char *key, const char *code)
{
    uint64_t sum = td_hash_more(start, &h->key, sizeof h->key);
    sum = td_hash_more(sum, &h->code, sizeof h->code);
    sum = td_hash_more(sum, key, h->key);
    return td_hash_more(sum, code, h->code);
}

/* ------------------------------------------------------------------ reading */

static bool read_all(int file, void *to, size_t n)
{
    size_t done = 0;
    ssize_t now = 1;
    while (done < n && now > 0) {
        now = read(file, (char *)to + done, n - done);
        done += now > 0 ? (size_t)now : 0;
    }
    return done == n;
}

/* key and code one behind the other; NULL: not as it was written. */
static char *read_body(int file, const struct head *h, const char *key)
{
    const size_t n = strlen(key);
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0 || h->key != n || h->code == 0 ||
        h->code > TD_CUDA_MADE_FILE) {
        return NULL;
    }
    char *body = td_calloc(1, n + h->code + 1);
    if (body != NULL && (!read_all(file, body, n + h->code) || memcmp(body, key, n) != 0 ||
                         sum_of(h, body, body + n) != h->sum)) {
        td_free(body);
        body = NULL;
    }
    return body;
}

bool td_cuda_made_read(const char *dir, const char *key, char **code, size_t *bytes)
{
    char path[PATH_BYTES];
    struct head h;
    if (dir == NULL || !path_of_key(path, dir, key)) {
        return false;
    }
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *body = file >= 0 && read_all(file, &h, sizeof h) ? read_body(file, &h, key) : NULL;
    if (body != NULL) {
        (void)!futimens(file, NULL); /* it was of use now */
        memmove(body, body + h.key, h.code);
        *code = body;
        *bytes = h.code;
    }
    if (file >= 0) {
        (void)close(file);
    }
    return body != NULL;
}

/* ------------------------------------------------------------------ clearing out */

struct left {
    uint64_t bytes;
    char oldest[NAME_MAX + 1];
    struct timespec when; /* of the oldest */
    bool any;
};

static bool before(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static bool look_at(int folder, struct left *l)
{
    const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = copy >= 0 ? fdopendir(copy) : NULL;
    struct stat s;
    *l = (struct left){0};
    if (all == NULL) {
        return false;
    }
    for (const struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        if (e->d_name[0] == '.' || fstatat(folder, e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        l->bytes += (uint64_t)s.st_size;
        if (!l->any || before(s.st_mtim, l->when)) {
            (void)snprintf(l->oldest, sizeof l->oldest, "%s", e->d_name);
            l->when = s.st_mtim;
            l->any = true;
        }
    }
    (void)closedir(all);
    return true;
}

/* Until so many bytes more have room. Files that a process left half written go in their turn. */
static void clear_out(const char *path, size_t more)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct left l;
    while (folder >= 0 && look_at(folder, &l) && l.any && l.bytes + more > TD_CUDA_MADE_BYTES &&
           unlinkat(folder, l.oldest, 0) == 0) {
    }
    if (folder >= 0) {
        (void)close(folder);
    }
}

/* ------------------------------------------------------------------ writing */

static bool write_all(int file, const void *from, size_t n)
{
    size_t done = 0;
    ssize_t now = 1;
    while (done < n && now > 0) {
        now = write(file, (const char *)from + done, n - done);
        done += now > 0 ? (size_t)now : 0;
    }
    return done == n;
}

static bool write_aside(const char *path, const struct head *h, const char *key, const char *code)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return false;
    }
    const bool ok = write_all(file, h, sizeof *h) && write_all(file, key, h->key) &&
                    write_all(file, code, h->code) && fsync(file) == 0;
    return close(file) == 0 && ok;
}

void td_cuda_made_write(const char *dir, const char *key, const char *code, size_t bytes)
{
    static atomic_uint number;
    char folder[PATH_BYTES], path[PATH_BYTES], aside[PATH_BYTES], name[64];
    struct td_err ignored = {0};
    struct head h = {.magic = MAGIC, .key = strlen(key), .code = bytes};
    const size_t all = sizeof h + h.key + bytes;
    (void)snprintf(name, sizeof name, "new-%ld-%u", (long)getpid(), atomic_fetch_add(&number, 1));
    if (dir == NULL || bytes == 0 || bytes > TD_CUDA_MADE_FILE || !path_of(folder, dir, "") ||
        !path_of_key(path, dir, key) || !path_of(aside, dir, name) ||
        td_disk_take(td_disk_state(), all, path, &ignored)) {
        return;
    }
    h.sum = sum_of(&h, key, code);
    (void)mkdir(folder, 0700);
    clear_out(folder, all);
    if (!write_aside(aside, &h, key, code) || rename(aside, path) != 0) {
        (void)unlink(aside);
    }
}
