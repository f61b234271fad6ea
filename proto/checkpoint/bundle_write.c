/* proto/checkpoint/bundle_write.c - the writer of a checkpoint: one data file that grows, and the index at
 * the end.
 *
 * Elements go straight to a temporary data file; entries are kept (proto/checkpoint/bundle_index.c) until the
 * end, when the index is built from them in key order. Strings pass through a buffer that is written out when
 * it holds a megabyte: their lengths and the checksum of those, then their bytes. A slice adds two rows: one
 * for the variable, which lists its slices, and one with the bytes under the slice's own key.
 *
 *   PREFIX.data-00000-of-00001.tempstate...   fsync, renamed first
 *   PREFIX.index.tempstate...                 fsync, renamed last: a reader finds all of it or nothing
 *
 * Temporary names carry the process and a counter, so that writers do not meet. finish and abandon both free
 * the writer and remove what was not renamed. One writer is used by one thread at a time.
 *
 * Does not: write more than one data file, compress, or merge (proto/checkpoint/bundle_merge.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/checkpoint/bundle.h"
#include "proto/checkpoint/bundle_index.h"
#include "proto/bytes/crc32c.h"
#include "proto/bytes/file.h"
#include "proto/pb/wire.h"

enum { WRITE_BYTES = 1 << 20 };
#define ARENA_BYTES ((size_t)1 << 30)

struct td_bundle_writer {
    char *prefix, *temp; /* temp: the data file while it grows */
    struct td_arena *arena;
    struct td_index index;
    int fd;
    uint64_t offset;
};

static enum td_code open_writer(struct td_bundle_writer *w, const char *prefix, struct td_err *err)
{
    char path[TD_BUNDLE_PATH], temp[TD_BUNDLE_PATH];
    TD_TRY(td_bundle_data_path(prefix, 0, 1, path, err));
    TD_TRY(td_file_temp_name(path, temp, err));
    w->arena = td_arena_new(ARENA_BYTES);
    w->index.arena = w->arena;
    w->prefix = td_strdup(prefix);
    char *name = td_strdup(temp);
    if (w->arena == NULL || w->prefix == NULL || name == NULL) {
        td_free(name);
        return td_no_memory(err, strlen(prefix), "checkpoint writer");
    }
    enum td_code rc = td_file_create(temp, &w->fd, err);
    if (rc) {
        td_free(name);
        return rc;
    }
    w->temp = name; /* from here on it is ours to remove */
    return TD_OK;
}

enum td_code td_bundle_create(const char *prefix, struct td_bundle_writer **out, struct td_err *err)
{
    struct td_bundle_writer *w = td_calloc(1, sizeof *w);
    if (w == NULL) {
        return td_no_memory(err, sizeof *w, "checkpoint writer");
    }
    w->fd = -1;
    enum td_code rc = open_writer(w, prefix, err);
    if (rc) {
        td_bundle_abandon(w);
        return rc;
    }
    *out = w;
    return TD_OK;
}

void td_bundle_abandon(struct td_bundle_writer *w)
{
    if (w == NULL) {
        return;
    }
    if (w->fd >= 0) {
        close(w->fd);
    }
    if (w->temp != NULL) {
        unlink(w->temp);
    }
    td_arena_free(w->arena);
    td_free(w->temp);
    td_free(w->prefix);
    td_free(w);
}

/* Lengths and their checksum, in front of the bytes of strings. */
static enum td_code put_lengths(const struct td_tensor *t, struct td_sink *out, uint32_t *crc,
                                struct td_err *err)
{
    int64_t n = td_tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        size_t len;
        (void)td_tensor_str(t, i, &len);
        uint64_t wide = len;
        TD_TRY(td_put_varint(out, wide, err));
        *crc = td_crc32c(*crc, &wide, wide > UINT32_MAX ? 8 : 4);
    }
    uint32_t masked = td_crc32c_mask(*crc);
    *crc = td_crc32c(*crc, &masked, sizeof masked);
    return td_sink_put(out, &masked, sizeof masked, err);
}

static enum td_code flush_if(struct td_bundle_writer *w, struct td_sink *s, size_t at_least,
                             struct td_err *err)
{
    if (s->n < at_least || s->n == 0) {
        return TD_OK;
    }
    TD_TRY(td_file_put(w->fd, w->temp, s->p, s->n, err));
    w->offset += s->n;
    s->n = 0;
    return TD_OK;
}

static enum td_code put_strings(struct td_bundle_writer *w, const struct td_tensor *t, struct td_sink *s,
                                uint32_t *crc, struct td_err *err)
{
    int64_t n = td_tensor_count(t);
    TD_TRY(put_lengths(t, s, crc, err));
    for (int64_t i = 0; i < n; i++) {
        size_t len;
        const char *p = td_tensor_str(t, i, &len);
        *crc = td_crc32c(*crc, p, len);
        TD_TRY(td_sink_put(s, p, len, err));
        TD_TRY(flush_if(w, s, WRITE_BYTES, err));
    }
    return flush_if(w, s, 0, err);
}

/* Writes the elements; fills in where they are. */
static enum td_code put_elements(struct td_bundle_writer *w, const struct td_tensor *t,
                                 struct td_bundle_entry *e, struct td_err *err)
{
    uint32_t crc = 0;
    e->offset = (int64_t)w->offset;
    if (t->dtype == TD_STRING) {
        struct td_sink s = {0};
        enum td_code rc = put_strings(w, t, &s, &crc, err);
        td_sink_fini(&s);
        TD_TRY(rc);
    } else {
        size_t n = td_tensor_bytes(t);
        crc = td_crc32c(0, t->data, n);
        TD_TRY(td_file_put(w->fd, w->temp, t->data, n, err));
        w->offset += n;
    }
    e->size = (int64_t)w->offset - e->offset;
    e->crc = td_crc32c_mask(crc);
    return TD_OK;
}

static enum td_code add_tensor(struct td_bundle_writer *w, const char *key, size_t key_len,
                               const struct td_tensor *t, struct td_err *err)
{
    struct td_bundle_entry e = {.dtype = t->dtype, .shape = t->shape};
    struct td_index_row *row;
    TD_FAIL_IF(!td_dtype_in(t->dtype, TD_SET_PLAIN | TD_BIT(TD_STRING)), err, UNIMPLEMENTED,
               "Writing '%.200s': tensors of %s cannot be saved in a checkpoint", key,
               td_dtype_name(t->dtype));
    TD_TRY(put_elements(w, t, &e, err));
    return td_index_add(&w->index, key, key_len, &e, &row, err);
}

enum td_code td_bundle_add(struct td_bundle_writer *w, const char *name, const struct td_tensor *t,
                           struct td_err *err)
{
    TD_FAIL_IF(name[0] == 0, err, INVALID_ARGUMENT, "Writing a checkpoint: a tensor has no name");
    return add_tensor(w, name, strlen(name), t, err);
}

static enum td_code add_whole_row(struct td_bundle_writer *w, const char *name, const struct td_shape *whole,
                                  enum td_dtype dtype, struct td_index_row **out, struct td_err *err)
{
    struct td_bundle_entry e = {.dtype = dtype, .shape = *whole};
    *out = td_index_find(&w->index, name, strlen(name));
    if (*out == NULL) {
        return td_index_add(&w->index, name, strlen(name), &e, out, err);
    }
    TD_FAIL_IF((*out)->e.dtype != (int)dtype || !td_shape_equal(&(*out)->e.shape, whole) ||
                   (*out)->e.n_slices == 0,
               err, INVALID_ARGUMENT, "Writing '%.200s': its slices disagree about dtype or shape", name);
    return TD_OK;
}

enum td_code td_bundle_add_slice(struct td_bundle_writer *w, const char *name, const char *slice_spec,
                                 const struct td_tensor *t, struct td_err *err)
{
    struct td_shape whole;
    struct td_box box;
    struct td_sink key = {0};
    struct td_index_row *row;
    TD_FAIL_IF(name[0] == 0, err, INVALID_ARGUMENT, "Writing a checkpoint: a tensor has no name");
    TD_TRY(td_slice_parse(slice_spec, &whole, &box, err));
    struct td_shape part = td_box_shape(&box);
    TD_FAIL_IF(!td_shape_equal(&part, &t->shape), err, INVALID_ARGUMENT,
               "Slice in shape_and_slice specification %.200s does not match the shape of the tensor to "
               "save: %s, tensor: %s",
               slice_spec, TD_SHAPE_STR(&part), TD_SHAPE_STR(&t->shape));
    TD_TRY(add_whole_row(w, name, &whole, t->dtype, &row, err));
    TD_TRY(td_index_add_slice(&w->index, row, &box, err));
    enum td_code rc = td_slice_key(name, &box, &key, err);
    if (rc == TD_OK) {
        rc = add_tensor(w, key.p, key.n, t, err);
    }
    td_sink_fini(&key);
    return rc;
}

static enum td_code publish(struct td_bundle_writer *w, struct td_err *err)
{
    char data[TD_BUNDLE_PATH], index[TD_BUNDLE_PATH], temp[TD_BUNDLE_PATH];
    TD_FAIL_IF(fsync(w->fd) != 0, err, UNAVAILABLE, "Writing %s: %s", w->temp, strerror(errno));
    TD_TRY(td_bundle_data_path(w->prefix, 0, 1, data, err));
    TD_TRY(td_bundle_index_path(w->prefix, index, err));
    TD_TRY(td_index_write(&w->index, w->prefix, 1, temp, err));
    enum td_code rc = td_file_rename(w->temp, data, err);
    if (rc == TD_OK) {
        rc = td_file_rename(temp, index, err);
    }
    if (rc) {
        unlink(temp);
    }
    td_file_sync_directory(index);
    return rc;
}

enum td_code td_bundle_finish(struct td_bundle_writer *w, struct td_err *err)
{
    enum td_code rc = publish(w, err);
    td_bundle_abandon(w); /* the temporary name is gone when publish renamed it */
    return rc;
}
