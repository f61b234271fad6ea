/* proto/bytes/packed_clear.c - one walk over the folder for each file that goes.
 *
 * A name of 32 hexadecimal digits is a file; one with ".tempstate" in it is being written, or was: a lock
 * on it is held as long as its writer lives. Other names are nobody's here, and stay.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/packed_clear.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 32 };

struct oldest {
    char name[TD_PACKED_NAME]; /* "": there is none */
    struct timespec when;
    uint64_t all; /* bytes of all files */
};

static bool is_file(const char *name)
{
    return strlen(name) == DIGITS && strspn(name, "0123456789abcdef") == DIGITS;
}

static bool is_half(const char *name)
{
    return strstr(name, ".tempstate") != NULL && strlen(name) < TD_PACKED_NAME;
}

static bool before(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
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

static void look(DIR *all, struct oldest *o, bool (*is_held)(void *ctx, const char *name), void *ctx)
{
    struct stat st;
    *o = (struct oldest){0};
    rewinddir(all);
    for (const struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        const bool file = is_file(e->d_name);
        if ((!file && !is_half(e->d_name)) || fstatat(dirfd(all), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        o->all += (uint64_t)st.st_size;
        if (file && (o->name[0] == '\0' || before(st.st_mtim, o->when)) && !is_held(ctx, e->d_name)) {
            (void)snprintf(o->name, sizeof o->name, "%.*s", TD_PACKED_NAME - 1, e->d_name);
            o->when = st.st_mtim;
        }
    }
}

bool td_packed_make_room(const char *path, uint64_t more, uint64_t most,
                         bool (*is_held)(void *ctx, const char *name), void *ctx)
{
    DIR *all = opendir(path);
    struct oldest o;
    if (all == NULL || more > most) {
        if (all != NULL) {
            (void)closedir(all);
        }
        return false;
    }
    bool gone = true;
    for (look(all, &o, is_held, ctx); gone && o.all > most - more && o.name[0] != '\0';
         look(all, &o, is_held, ctx)) {
        gone = unlinkat(dirfd(all), o.name, 0) == 0;
    }
    (void)closedir(all);
    return o.all <= most - more;
}
