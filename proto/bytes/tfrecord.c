/* proto/bytes/tfrecord.c - one record after the other through stdio, with both checksums verified.
 *
 *   record   uint64 length | uint32 masked CRC of it | bytes | uint32 masked CRC of them      (little-endian)
 *
 * The reader holds one buffer, which grows to the largest record met (bounded by max_bytes) and which the
 * caller borrows until the next call. The length is believed only after its own checksum, so a damaged one
 * cannot make the buffer grow. A file that ends between records ends well; within one it is cut. Offsets in
 * errors are those of the record.
 *
 * Does not: seek, skip damaged records, read compressed files, write to files (td_tfrecord_put appends to a
 * sink). One reader is used by one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/tfrecord.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/beneath.h"
#include "core/base/mem.h"
#include "proto/bytes/crc32c.h"

enum { HEAD = 12, TAIL = 4 };

struct td_tfrecord {
    FILE *file;
    char *buf;
    size_t cap, max_bytes;
    uint64_t offset; /* of the next record */
};

enum td_code td_tfrecord_open(const char *path, size_t max_bytes, struct td_tfrecord **out,
                              struct td_err *err)
{
    return td_tfrecord_open_beneath(NULL, path, max_bytes, out, err);
}

enum td_code td_tfrecord_open_beneath(const char *root, const char *path, size_t max_bytes,
                                      struct td_tfrecord **out, struct td_err *err)
{
    int fd;
    TD_TRY(td_beneath_open(root, path, &fd, err));
    struct td_tfrecord *r = td_calloc(1, sizeof *r);
    FILE *file = r == NULL ? NULL : fdopen(fd, "rb");
    if (file == NULL) {
        close(fd);
        td_free(r);
        return td_no_memory(err, sizeof *r, path);
    }
    r->max_bytes = max_bytes;
    r->file = file;
    *out = r;
    return TD_OK;
}

void td_tfrecord_close(struct td_tfrecord *r)
{
    if (r != NULL) {
        fclose(r->file);
        td_free(r->buf);
        td_free(r);
    }
}

static uint32_t fixed32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static enum td_code make_room(struct td_tfrecord *r, size_t n, struct td_err *err)
{
    if (n > r->cap) {
        char *p = td_realloc(r->buf, n, 1);
        if (p == NULL) {
            return td_no_memory(err, n, "a record");
        }
        r->buf = p;
        r->cap = n;
    }
    return TD_OK;
}

enum td_code td_tfrecord_next(struct td_tfrecord *r, const void **bytes, size_t *n, struct td_err *err)
{
    char head[HEAD];
    uint64_t len;
    unsigned long long at = r->offset;
    size_t got = fread(head, 1, HEAD, r->file);
    *bytes = NULL;
    *n = 0;
    if (got == 0 && feof(r->file)) {
        return TD_OK;
    }
    TD_FAIL_IF(got != HEAD, err, DATA_LOSS, "truncated record at %llu", at);
    memcpy(&len, head, sizeof len);
    TD_FAIL_IF(td_crc32c_mask(td_crc32c(0, head, 8)) != fixed32(head + 8), err, DATA_LOSS,
               "corrupted record at %llu", at);
    TD_FAIL_IF(len > r->max_bytes, err, RESOURCE_EXHAUSTED,
               "record at %llu of %llu bytes: at most %zu are read", at, (unsigned long long)len,
               r->max_bytes);
    TD_TRY(make_room(r, (size_t)len + TAIL, err));
    TD_FAIL_IF(fread(r->buf, 1, (size_t)len + TAIL, r->file) != len + TAIL, err, DATA_LOSS,
               "truncated record at %llu", at);
    TD_FAIL_IF(td_crc32c_mask(td_crc32c(0, r->buf, (size_t)len)) != fixed32(r->buf + len), err, DATA_LOSS,
               "corrupted record at %llu", at);
    r->offset += HEAD + len + TAIL;
    *bytes = r->buf;
    *n = (size_t)len;
    return TD_OK;
}

enum td_code td_tfrecord_put(struct td_sink *out, const void *bytes, size_t n, struct td_err *err)
{
    uint64_t len = n;
    uint32_t head_crc = td_crc32c_mask(td_crc32c(0, &len, sizeof len));
    uint32_t crc = td_crc32c_mask(td_crc32c(0, bytes, n));
    TD_TRY(td_sink_put(out, &len, sizeof len, err)); /* little-endian host */
    TD_TRY(td_sink_put(out, &head_crc, sizeof head_crc, err));
    TD_TRY(td_sink_put(out, bytes, n, err));
    return td_sink_put(out, &crc, sizeof crc, err);
}
