/* proto/file.c - see file.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

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
    TD_FAIL_IF(!S_ISREG(st.st_mode), err, INVALID_ARGUMENT, "Reading %s: it is not a regular file", path);
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

enum td_code td_file_read(const char *path, size_t max_bytes, char **out, size_t *n, struct td_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    TD_FAIL_IF(fd < 0 && (errno == ENOENT || errno == ENOTDIR), err, NOT_FOUND, "%s: no such file", path);
    TD_FAIL_IF(fd < 0, err, PERMISSION_DENIED, "Opening %s: %s", path, strerror(errno));
    enum td_code rc = read_open(fd, path, max_bytes, out, n, err);
    close(fd);
    return rc;
}
