/* core/base/beneath.c - openat2 with RESOLVE_BENEATH, and a walk of our own where that does not do.
 *
 * openat2 answers most opens alone: it follows relative links inside the root and refuses all others with
 * EXDEV. Three cases are left, and one way does for all of them: a kernel (or a filter) without openat2, an
 * absolute link into the root, and Kubernetes' `..data` beside the root. There the path is resolved first
 * (realpath), the result must lie below one of the allowed folders, and from that folder's own descriptor
 * each component is opened without following links. So resolving decides only which names are tried: were a
 * link put in place of a component meanwhile, the walk ends with ELOOP.
 *
 * Only folders are opened on the way, and by O_PATH; the file itself with O_NONBLOCK, and its kind is asked
 * of the descriptor. The sentence for a refusal looks for the link after the fact, which decides nothing.
 *
 * Does not: write, create, read links' owners, notice hard links.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 8 };
#define READ_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

static atomic_bool without_openat2;

void td_beneath_use_openat2(bool yes)
{
    atomic_store(&without_openat2, !yes);
}

/* ---- paths */

/* What follows the root in path, "." for the root itself; NULL when path does not begin with the root. */
static const char *rest_of(const char *root, const char *path)
{
    size_t n = strlen(root);
    while (n > 1 && root[n - 1] == '/') {
        n--;
    }
    if (strncmp(root, path, n) != 0 || (path[n] != '/' && path[n] != 0 && root[n - 1] != '/')) {
        return NULL;
    }
    const char *rest = path + n;
    rest += strspn(rest, "/");
    return *rest == 0 ? "." : rest;
}

/* The folders below which a file may lie, by their real paths. */
struct allowed {
    char real[2][PATH_MAX];
    int n;
};

static bool lies_in(const char *path, const char *dir)
{
    const size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == 0 || (n == 1 && dir[0] == '/'));
}

/* The folder that `..data` beside the root leads to, when it is inside the folder that holds both. */
static void add_published(const char *root, struct allowed *a)
{
    char path[PATH_MAX], holder[PATH_MAX];
    size_t n = strlen(root);
    while (n > 0 && root[n - 1] == '/') {
        n--;
    }
    while (n > 0 && root[n - 1] != '/') {
        n--;
    }
    const int put = snprintf(path, sizeof path, "%.*s%s", (int)n, root, n == 0 ? "./" : "");
    if (put < 0 || (size_t)put + sizeof "..data" > sizeof path || realpath(path, holder) == NULL) {
        return;
    }
    memcpy(path + put, "..data", sizeof "..data");
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, a->real[a->n]) != NULL &&
        lies_in(a->real[a->n], holder) && strcmp(a->real[a->n], holder) != 0) {
        a->n++;
    }
}

static bool may(const struct allowed *a, const char *real)
{
    for (int i = 0; i < a->n; i++) {
        if (lies_in(real, a->real[i])) {
            return true;
        }
    }
    return false;
}

/* ---- opening */

static int open_beneath(int root, const char *rest, int flags)
{
    struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_BENEATH};
    int fd = -1;
    if (atomic_load_explicit(&without_openat2, memory_order_relaxed)) {
        errno = ENOSYS;
        return -1;
    }
    for (int i = 0; i < TRIES; i++) { /* EAGAIN: something was renamed while ".." was looked at */
        fd = (int)syscall(SYS_openat2, root, rest, &how, sizeof how);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
            break;
        }
    }
    return fd;
}

/* Opens `real`, a path without links below `dir`, component by component. */
static int walk(const char *dir, const char *real, int flags)
{
    char part[NAME_MAX + 1];
    const char *p = real + strlen(dir);
    int at = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (p += strspn(p, "/"); at >= 0 && *p != 0; p += strspn(p, "/")) {
        const size_t n = strcspn(p, "/");
        if (n > NAME_MAX) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, p, n);
        part[n] = 0;
        p += n;
        const int next = openat(at, part, (*p != 0 ? O_PATH | O_DIRECTORY | O_CLOEXEC : flags) | O_NOFOLLOW);
        const int why = errno;
        close(at);
        errno = why;
        at = next;
        if (*p == 0) {
            return at;
        }
    }
    const int fd = at < 0 ? -1 : openat(at, ".", flags); /* real is dir itself */
    const int why = errno;
    if (at >= 0) {
        close(at);
    }
    errno = why;
    return fd;
}

/* The link that leads out, into `link`, and where it points, into `to`; false when none is found. */
static bool find_link(const struct allowed *a, const char *path, const char *rest, char *link, char *to)
{
    char real[PATH_MAX];
    const size_t begin = (size_t)(rest - path), n = strlen(path);
    for (size_t i = begin; i <= n && n < PATH_MAX; i++) {
        if (path[i] != '/' && path[i] != 0) {
            continue;
        }
        memcpy(link, path, i);
        link[i] = 0;
        const ssize_t got = readlink(link, to, PATH_MAX - 1);
        if (got > 0 && (realpath(link, real) == NULL || !may(a, real))) {
            to[got] = 0;
            return true;
        }
    }
    return false;
}

static enum td_code leads_out(const struct allowed *a, const char *root, const char *path, const char *rest,
                              struct td_err *err)
{
    char link[PATH_MAX], to[PATH_MAX];
    if (strcmp(rest, ".") != 0 && find_link(a, path, rest, link, to)) {
        TD_FAIL(
            err, PERMISSION_DENIED,
            "Opening %.300s: the link '%.200s' to '%.200s' leads out of the folder %.200s; links of a model "
            "must stay inside its version's folder",
            path, link, to, root);
    }
    TD_FAIL(
        err, PERMISSION_DENIED,
        "Opening %.300s: it leads out of the folder %.200s; files of a model must lie inside its version's "
        "folder",
        path, root);
}

/* Resolves, looks whether that is allowed, and walks there. */
static enum td_code resolve(const char *root, const char *path, int flags, bool leaves, int *fd,
                            struct td_err *err)
{
    struct allowed a = {.n = 0};
    char real[PATH_MAX];
    const char *rest = rest_of(root, path);
    *fd = -1;
    if (realpath(root, a.real[0]) == NULL) {
        return TD_OK;
    }
    a.n = 1;
    add_published(root, &a);
    const bool found = realpath(path, real) != NULL;
    if (!found && !leaves) {
        return TD_OK;
    }
    for (int i = 0; found && i < a.n; i++) {
        if (lies_in(real, a.real[i])) {
            *fd = walk(a.real[i], real, flags);
            return TD_OK;
        }
    }
    return leads_out(&a, root, path, rest, err);
}

/* *fd is -1, errno saying why, when the system refused. */
static enum td_code open_below(const char *root, const char *path, int flags, int *fd, struct td_err *err)
{
    if (root == NULL) {
        *fd = open(path, flags);
        return TD_OK;
    }
    const char *rest = rest_of(root, path);
    TD_FAIL_IF(rest == NULL, err, PERMISSION_DENIED, "Opening %.300s: it is not below the folder %.300s",
               path, root);
    const int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *fd = at < 0 ? -1 : open_beneath(at, rest, flags);
    const int why = errno;
    if (at >= 0) {
        close(at);
    }
    errno = why;
    if (at >= 0 && *fd < 0 &&
        (why == EXDEV || why == ENOSYS || why == EPERM || why == EINVAL || why == EAGAIN)) {
        return resolve(root, path, flags, why == EXDEV, fd, err);
    }
    return TD_OK;
}

static enum td_code refused(const char *path, int why, struct td_err *err)
{
    TD_FAIL_IF(why == ENOENT || why == ENOTDIR, err, NOT_FOUND, "%s: no such file", path);
    TD_FAIL_IF(why == ENXIO, err, INVALID_ARGUMENT, "Opening %s: it is not a regular file", path);
    TD_FAIL_IF(why == EMFILE || why == ENFILE, err, RESOURCE_EXHAUSTED, "Opening %s: %s", path,
               strerror(why));
    TD_FAIL(err, PERMISSION_DENIED, "Opening %s: %s", path, strerror(why));
}

static enum td_code open_kind(const char *root, const char *path, unsigned *kind, int *fd, struct td_err *err)
{
    struct stat st;
    TD_TRY(open_below(root, path, READ_FLAGS, fd, err));
    if (*fd < 0) {
        return refused(path, errno, err);
    }
    if (fstat(*fd, &st) != 0) {
        const int why = errno;
        close(*fd);
        TD_FAIL(err, DATA_LOSS, "Opening %s: %s", path, strerror(why));
    }
    *kind = st.st_mode & S_IFMT;
    return TD_OK;
}

enum td_code td_beneath_open(const char *root, const char *path, int *fd, struct td_err *err)
{
    unsigned kind;
    TD_TRY(open_kind(root, path, &kind, fd, err));
    if (kind != S_IFREG) {
        close(*fd);
        TD_FAIL(err, INVALID_ARGUMENT, "Opening %s: it is not a regular file", path);
    }
    return TD_OK;
}

enum td_code td_beneath_open_dir(const char *root, const char *path, int *fd, struct td_err *err)
{
    unsigned kind;
    TD_TRY(open_kind(root, path, &kind, fd, err));
    if (kind != S_IFDIR) {
        close(*fd);
        TD_FAIL(err, INVALID_ARGUMENT, "Opening %s: it is not a folder", path);
    }
    return TD_OK;
}

enum td_code td_beneath_kind(const char *root, const char *path, unsigned *kind, struct td_err *err)
{
    struct td_err why = {0};
    int fd;
    const enum td_code rc = open_kind(root, path, kind, &fd, &why);
    if (rc == TD_INVALID_ARGUMENT) { /* a socket cannot be opened */
        *kind = S_IFSOCK;
        return TD_OK;
    }
    if (rc) {
        return td_fail(err, rc, "%s", why.msg);
    }
    close(fd);
    return TD_OK;
}
