/* core/base/disk.c - a counter that is right when it matters: at the limit the folder is walked.
 *
 * `used` only grows, by what is taken, until a walk sets it to what is there. What other threads take while
 * it walks is added to what it finds, so that nothing is lost: the walk may count such bytes twice, until the
 * next one. One thread walks at a time; the others wait for it, since they would be refused else.
 *
 * Does not: watch the folder, remove anything, follow links.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"

enum { MAX_DEPTH = 64 };
#define AGAIN_NS 1000000000 /* between two walks of a folder that is full */

struct td_disk {
    char *path;
    const char *flag;
    uint64_t most;
    struct td_disk *whole;
    atomic_uint_fast64_t used, taken; /* taken: ever */
    pthread_mutex_t walking;          /* guards full_ns */
    int64_t full_ns;                  /* when a walk last found no room; 0: it found some */
};

static struct td_disk *state, *fallback;
static __thread struct td_disk *here;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- walking */

static uint64_t bytes_below(int dir, int depth);

static uint64_t bytes_of(int dir, const char *name, int depth)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return 0; /* gone meanwhile */
    }
    const uint64_t blocks = (uint64_t)st.st_blocks * 512;
    uint64_t sum = blocks > TD_DISK_FILE ? blocks : TD_DISK_FILE;
    if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
        const int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        sum += fd >= 0 ? bytes_below(fd, depth + 1) : 0;
    }
    return sum;
}

/* Closes dir. */
static uint64_t bytes_below(int dir, int depth)
{
    DIR *all = fdopendir(dir);
    uint64_t sum = 0;
    if (all == NULL) {
        close(dir);
        return 0;
    }
    for (const struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            sum += bytes_of(dirfd(all), e->d_name, depth);
        }
    }
    closedir(all);
    return sum;
}

/* Caller holds walking. */
static void walk(struct td_disk *d)
{
    const uint64_t before = atomic_load(&d->taken);
    const int dir = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const uint64_t there = dir >= 0 ? bytes_below(dir, 0) : 0;
    atomic_store(&d->used, there + (atomic_load(&d->taken) - before));
}

/* ---- taking */

static bool add(struct td_disk *d, uint64_t bytes)
{
    uint64_t used = atomic_load(&d->used);
    do {
        if (d->most != 0 && (bytes > d->most || used > d->most - bytes)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&d->used, &used, used + bytes));
    atomic_fetch_add(&d->taken, bytes);
    return true;
}

static bool add_or_walk(struct td_disk *d, uint64_t bytes)
{
    if (add(d, bytes)) {
        return true;
    }
    pthread_mutex_lock(&d->walking);
    bool done = add(d, bytes); /* another has walked meanwhile */
    if (!done && (d->full_ns == 0 || now_ns() - d->full_ns >= AGAIN_NS)) {
        walk(d);
        done = add(d, bytes);
        d->full_ns = done ? 0 : now_ns();
    }
    pthread_mutex_unlock(&d->walking);
    return done;
}

enum td_code td_disk_take(struct td_disk *d, uint64_t bytes, const char *path, struct td_err *err)
{
    for (; d != NULL; d = d->whole) {
        TD_FAIL_IF(!add_or_walk(d, bytes), err, RESOURCE_EXHAUSTED,
                   "Writing %.300s: %llu bytes more, and %llu of the %llu that %s allows are taken", path,
                   (unsigned long long)bytes, (unsigned long long)atomic_load(&d->used),
                   (unsigned long long)d->most, d->flag);
    }
    return TD_OK;
}

uint64_t td_disk_used(const struct td_disk *d)
{
    return d == NULL ? 0 : atomic_load(&d->used);
}

uint64_t td_disk_most(const struct td_disk *d)
{
    return d == NULL ? 0 : d->most;
}

/* ---- making */

struct td_disk *td_disk_new(const struct td_disk_opts *o)
{
    struct td_disk *d = td_calloc(1, sizeof *d);
    char *path = td_strdup(o->path);
    if (d == NULL || path == NULL) {
        td_free(d);
        td_free(path);
        return NULL;
    }
    d->path = path;
    d->flag = o->flag;
    d->most = o->most;
    d->whole = o->whole;
    pthread_mutex_init(&d->walking, NULL);
    pthread_mutex_lock(&d->walking);
    walk(d);
    pthread_mutex_unlock(&d->walking);
    return d;
}

void td_disk_free(struct td_disk *d)
{
    if (d != NULL) {
        pthread_mutex_destroy(&d->walking);
        td_free(d->path);
        td_free(d);
    }
}

void td_disk_set_state(struct td_disk *d)
{
    state = d;
}

struct td_disk *td_disk_state(void)
{
    return state;
}

struct td_disk *td_disk_enter(struct td_disk *d)
{
    struct td_disk *before = here;
    here = d;
    return before;
}

struct td_disk *td_disk_here(void)
{
    return here != NULL ? here : fallback;
}

void td_disk_set_default(struct td_disk *d)
{
    fallback = d;
}
