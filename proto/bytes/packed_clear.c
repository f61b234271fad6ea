/* proto/bytes/packed_clear.c - one walk over the folder, then its files from the oldest on.
 *
 * A name of 32 hexadecimal digits is a file; one with ".tempstate" in it is being written, or was: a lock
 * on it is held as long as its writer lives. Other names are nobody's here, and stay.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/packed_clear.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"

enum { DIGITS = 32 };

struct file {
    char name[DIGITS + 1];
    struct timespec when;
    uint64_t bytes;
};

struct files {
    struct file *list;
    size_t n, room;
    uint64_t all; /* bytes, also of what is half written */
};

static bool is_file(const char *name)
{
    return strlen(name) == DIGITS && strspn(name, "0123456789abcdef") == DIGITS;
}

static bool is_half(const char *name)
{
    return strstr(name, ".tempstate") != NULL && strlen(name) < TD_PACKED_NAME;
}

static int by_age(const void *a, const void *b)
{
    const struct timespec x = ((const struct file *)a)->when, y = ((const struct file *)b)->when;
    return x.tv_sec != y.tv_sec ? (x.tv_sec < y.tv_sec ? -1 : 1)
                                : (x.tv_nsec > y.tv_nsec) - (x.tv_nsec < y.tv_nsec);
}

static void remove_if_left(int folder, const char *name)
{
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            (void)unlinkat(folder, name, 0);
        }
        (void)close(fd);
    }
}

void td_packed_sweep(const char *path)
{
    DIR *all = opendir(path);
    for (const struct dirent *e = all == NULL ? NULL : readdir(all); e != NULL; e = readdir(all)) {
        if (is_half(e->d_name)) {
            remove_if_left(dirfd(all), e->d_name);
        }
    }
    if (all != NULL) {
        (void)closedir(all);
    }
}

/* Where memory is short the file is counted, and stays. */
static void note(struct files *f, const char *name, const struct stat *st)
{
    if (f->n == f->room) {
        const size_t room = f->room * 2 + 64;
        struct file *more = td_realloc(f->list, room, sizeof *more);
        if (more == NULL) {
            return;
        }
        f->list = more;
        f->room = room;
    }
    struct file *x = &f->list[f->n++];
    *x = (struct file){.when = st->st_mtim, .bytes = (uint64_t)st->st_size};
    memcpy(x->name, name, DIGITS);
}

static struct files look(DIR *all)
{
    struct files f = {0};
    struct stat st;
    for (const struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        const bool file = is_file(e->d_name);
        if ((!file && !is_half(e->d_name)) || fstatat(dirfd(all), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        f.all += (uint64_t)st.st_size;
        if (file) {
            note(&f, e->d_name, &st);
        }
    }
    if (f.n > 0) {
        qsort(f.list, f.n, sizeof *f.list, by_age);
    }
    return f;
}

bool td_packed_make_room(const char *path, uint64_t more, uint64_t most,
                         bool (*is_held)(void *ctx, const char *name), void *ctx)
{
    DIR *all = opendir(path);
    if (all == NULL || more > most) {
        if (all != NULL) {
            (void)closedir(all);
        }
        return false;
    }
    struct files f = look(all);
    for (size_t i = 0; i < f.n && f.all > most - more; i++) {
        const struct file *x = &f.list[i];
        if (!is_held(ctx, x->name) && (unlinkat(dirfd(all), x->name, 0) == 0 || errno == ENOENT)) {
            f.all -= x->bytes; /* also of one that another process has removed */
        }
    }
    (void)closedir(all);
    td_free(f.list);
    return f.all <= most - more;
}
