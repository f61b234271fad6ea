/* proto/bytes/file.c - small files in one read, and the single steps of writing one.
 *
 * A file is opened by core/base/beneath.c, its size is asked once, and exactly that many bytes are read into
 * a block that is one byte longer, for the NUL. One that shrinks meanwhile is DATA_LOSS; what is added to
 * it meanwhile is not seen.
 *
 * A writer that must survive a power cut goes through the steps in this order: td_file_temp_name,
 * td_file_create, td_file_put, fsync, td_file_rename, td_file_sync_directory. A temporary name is the
 * target's with the process id and a counter behind it, the only state here; files are created with O_EXCL,
 * so a name is never shared. td_file_write is create, put and fsync; it neither makes a temporary name nor
 * renames; nor does td_file_copy, which lets the kernel copy or share blocks and reads and writes where it
 * cannot.
 *
 * Does not: map files (proto/bytes/mapping.c), write in the background, lock files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/beneath.h"
#include "core/base/disk.h"
#include "core/base/mem.h"

enum { COPY_BYTES = 1 << 20 };

static enum td_code read_all(int fd, const char *path, char *to, size_t n, struct td_err *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = read(fd, to + done, n - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        TD_FAIL_IF(got <= 0, err, DATA_LOSS, "Reading %s: %zu of %zu bytes, then %s", path, done, n,
                   got == 0 ? "the end" : strerror(errno));
        done += (size_t)got;
    }
    return TD_OK;
}

static enum td_code read_open(int fd, const char *path, size_t max_bytes, char **out, size_t *n,
                              struct td_err *err)
{
    struct stat st;
    TD_FAIL_IF(fstat(fd, &st) != 0, err, DATA_LOSS, "Reading %s: %s", path, strerror(errno));
    TD_FAIL_IF((uint64_t)st.st_size > max_bytes, err, INVALID_ARGUMENT,
               "Reading %s: %lld bytes, at most %zu are read", path, (long long)st.st_size, max_bytes);
    size_t size = (size_t)st.st_size;
    char *bytes = td_realloc(NULL, size + 1, 1);
    if (bytes == NULL) {
        return td_no_memory(err, size, path);
    }
    enum td_code rc = read_all(fd, path, bytes, size, err);
    if (rc) {
        td_free(bytes);
        return rc;
    }
    bytes[size] = 0;
    *out = bytes;
    *n = size;
    return TD_OK;
}

enum td_code td_file_read_beneath(const char *root, const char *path, size_t max_bytes, char **out, size_t *n,
                                  struct td_err *err)
{
    int fd;
    TD_TRY(td_beneath_open(root, path, &fd, err));
    const enum td_code rc = read_open(fd, path, max_bytes, out, n, err);
    close(fd);
    return rc;
}

enum td_code td_file_read(const char *path, size_t max_bytes, char **out, size_t *n, struct td_err *err)
{
    return td_file_read_beneath(NULL, path, max_bytes, out, n, err);
}

/* ---- writing */

/* The disk is full, or the user's part of it, or the file has the size that a process may give it. */
static bool is_full(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

static enum td_code no_room(const char *doing, const char *path, int error, struct td_err *err)
{
    TD_FAIL(err, RESOURCE_EXHAUSTED, "%s %s: no space left (%s%s)", doing, path, strerror(error),
            error == EFBIG ? ": the process's limit of a file's size, ulimit -f" : "");
}

enum td_code td_file_put(int fd, const char *path, const void *bytes, size_t n, struct td_err *err)
{
    TD_TRY(td_disk_take(td_disk_here(), n, path, err));
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)bytes + done, n - done);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0 && is_full(errno)) {
            return no_room("Writing", path, errno, err);
        }
        TD_FAIL_IF(put < 0, err, UNAVAILABLE, "Writing %s: %s", path, strerror(errno));
        done += (size_t)put;
    }
    return TD_OK;
}

enum td_code td_file_rename(const char *from, const char *to, struct td_err *err)
{
    TD_FAIL_IF(rename(from, to) != 0, err, UNAVAILABLE, "Renaming %s to %s: %s", from, to, strerror(errno));
    return TD_OK;
}

void td_file_sync_directory(const char *path)
{
    char dir[TD_FILE_PATH];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    if (n >= sizeof dir) {
        return;
    }
    memcpy(dir, path, n);
    dir[n] = 0;
    int fd = open(slash == NULL ? "." : n == 0 ? "/" : dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

enum td_code td_file_temp_name(const char *base, char *buf, struct td_err *err)
{
    static atomic_uint counter;
    int n = snprintf(buf, TD_FILE_PATH, "%s.tempstate%ld-%u", base, (long)getpid(),
                     atomic_fetch_add(&counter, 1));
    TD_FAIL_IF(n >= TD_FILE_PATH, err, INVALID_ARGUMENT, "path of %d bytes is too long", n);
    return TD_OK;
}

enum td_code td_file_create(const char *path, int *fd, struct td_err *err)
{
    TD_TRY(td_disk_take(td_disk_here(), TD_DISK_FILE, path, err));
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    TD_FAIL_IF(*fd < 0 && errno == ENOENT, err, NOT_FOUND, "Creating %s: its directory does not exist", path);
    if (*fd < 0 && is_full(errno)) {
        return no_room("Creating", path, errno, err);
    }
    TD_FAIL_IF(*fd < 0, err, PERMISSION_DENIED, "Creating %s: %s", path, strerror(errno));
    return TD_OK;
}

enum td_code td_file_write(const char *path, const void *bytes, size_t n, struct td_err *err)
{
    int fd;
    TD_TRY(td_file_create(path, &fd, err));
    enum td_code rc = td_file_put(fd, path, bytes, n, err);
    if (rc == TD_OK && fsync(fd) != 0) {
        rc = td_fail(err, is_full(errno) ? TD_RESOURCE_EXHAUSTED : TD_UNAVAILABLE, "Writing %s: %s", path,
                     strerror(errno));
    }
    close(fd);
    if (rc) {
        unlink(path);
    }
    return rc;
}

/* ---- copying */

static enum td_code copy_by_hand(int from, int to, const char *from_path, const char *to_path,
                                 struct td_err *err)
{
    char *buf = td_realloc(NULL, COPY_BYTES, 1);
    if (buf == NULL) {
        return td_no_memory(err, COPY_BYTES, from_path);
    }
    enum td_code rc = TD_OK;
    ssize_t n = 1;
    while (rc == TD_OK && n != 0) {
        n = read(from, buf, COPY_BYTES);
        if (n < 0 && errno != EINTR) {
            rc = td_fail(err, TD_DATA_LOSS, "Reading %s: %s", from_path, strerror(errno));
        } else if (n > 0) {
            rc = td_file_put(to, to_path, buf, (size_t)n, err);
        }
    }
    td_free(buf);
    return rc;
}

static enum td_code copy_bytes(int from, int to, const char *from_path, const char *to_path,
                               struct td_err *err)
{
    struct stat st;
    TD_FAIL_IF(fstat(from, &st) != 0, err, DATA_LOSS, "Reading %s: %s", from_path, strerror(errno));
    TD_TRY(td_disk_take(td_disk_here(), (uint64_t)st.st_size, to_path, err));
    if (ioctl(to, FICLONE, from) == 0) {
        return TD_OK;
    }
    ssize_t n;
    do {
        n = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0);
    } while (n > 0 || (n < 0 && errno == EINTR));
    if (n < 0 && is_full(errno)) {
        return no_room("Writing", to_path, errno, err);
    }
    /* both stand where the kernel gave up; it also says "nothing left" of files that it cannot copy */
    return copy_by_hand(from, to, from_path, to_path, err);
}

enum td_code td_file_copy(const char *from, const char *to, struct td_err *err)
{
    return td_file_copy_beneath(NULL, from, to, err);
}

enum td_code td_file_copy_beneath(const char *root, const char *from, const char *to, struct td_err *err)
{
    int in, out;
    TD_TRY(td_beneath_open(root, from, &in, err));
    enum td_code rc = td_file_create(to, &out, err);
    if (rc == TD_OK) {
        rc = copy_bytes(in, out, from, to, err);
        if (rc == TD_OK && fsync(out) != 0) {
            rc = td_fail(err, is_full(errno) ? TD_RESOURCE_EXHAUSTED : TD_UNAVAILABLE, "Writing %s: %s", to,
                         strerror(errno));
        }
        close(out);
        if (rc) {
            unlink(to);
        }
    }
    close(in);
    return rc;
}
