/* proto/checkpoint/bundle_entry.c - entries and header of a checkpoint's index, read and written field by
 * field.
 *
 *   entry    1 dtype, 2 shape, 3 shard_id, 4 offset, 5 size, 6 fixed32 crc32c,
 *            7 repeated slice { 1 extent { 1 start, 2 length } }
 *   header   1 num_shards, 2 endianness, 3 version { 1 producer, 2 min_consumer }
 *
 * The bytes are walked with proto/pb/scan.h; no message is built, since a large checkpoint has many thousand
 * entries. Slices are only counted at first: each is looked up in the entry's bytes when it is asked for, and
 * checked against the shape then. Numbers are bounded as they are read; a dtype beyond any real one becomes
 * -1, which readers of the tensor refuse. Writing leaves zeros out, as proto3 does. The two names of files
 * are made here too.
 *
 * Does not: open files, look at tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint/bundle_entry.h"

#include <stdio.h>

#include "proto/pb/scan.h"

static enum td_code malformed(struct td_err *err)
{
    TD_FAIL(err, DATA_LOSS, "checkpoint entry: cut or malformed bytes");
}

/* ---- reading */

static enum td_code read_dim(const struct td_scan_field *dim, int64_t *size, struct td_err *err)
{
    struct td_scan s = td_scan_make(dim->p, dim->len);
    struct td_scan_field f;
    *size = 0;
    while (td_scan_next(&s, &f)) {
        *size = f.number == 1 ? (int64_t)f.u64 : *size;
    }
    TD_FAIL_IF(*size < 0, err, INVALID_ARGUMENT, "checkpoint entry: dimension %lld is negative",
               (long long)*size);
    return s.bad ? malformed(err) : TD_OK;
}

static enum td_code read_shape(const struct td_scan_field *shape, struct td_shape *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(shape->p, shape->len);
    struct td_scan_field f;
    int64_t dims[TD_MAX_RANK];
    int rank = 0;
    while (td_scan_next(&s, &f)) {
        if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_FAIL_IF(rank == TD_MAX_RANK, err, INVALID_ARGUMENT, "checkpoint entry: rank above %d",
                       TD_MAX_RANK);
            TD_TRY(read_dim(&f, &dims[rank++], err));
        }
        TD_FAIL_IF(f.number == 3 && f.u64 != 0, err, INVALID_ARGUMENT, "checkpoint entry: unknown rank");
    }
    return s.bad ? malformed(err) : td_shape_make(out, dims, rank, err);
}

static enum td_code read_field(const struct td_scan_field *f, struct td_bundle_entry *out, struct td_err *err)
{
    switch (f->number) {
    case 1:
        out->dtype = f->u64 > 1000 ? -1 : (int)f->u64;
        return TD_OK;
    case 2:
        return f->type == TD_WIRE_BYTES ? read_shape(f, &out->shape, err) : malformed(err);
    case 3:
        TD_FAIL_IF(f->u64 > 99999, err, DATA_LOSS, "checkpoint entry: shard %llu",
                   (unsigned long long)f->u64);
        out->shard = (int)f->u64;
        return TD_OK;
    case 4:
        out->offset = (int64_t)f->u64;
        return TD_OK;
    case 5:
        out->size = (int64_t)f->u64;
        return TD_OK;
    case 6:
        out->crc = (uint32_t)f->u64;
        return TD_OK;
    case 7:
        out->n_slices++;
        return f->type == TD_WIRE_BYTES ? TD_OK : malformed(err);
    default:
        return TD_OK;
    }
}

enum td_code td_bundle_entry_read(const uint8_t *bytes, size_t n, struct td_bundle_entry *out,
                                  struct td_err *err)
{
    struct td_scan s = td_scan_make(bytes, n);
    struct td_scan_field f;
    *out = (struct td_bundle_entry){.shape = td_shape_scalar(), .bytes = bytes, .n_bytes = n};
    while (td_scan_next(&s, &f)) {
        TD_TRY(read_field(&f, out, err));
    }
    TD_FAIL_IF(out->offset < 0 || out->size < 0, err, DATA_LOSS, "checkpoint entry: offset %lld, size %lld",
               (long long)out->offset, (long long)out->size);
    return s.bad ? malformed(err) : TD_OK;
}

static enum td_code read_extent(const struct td_scan_field *extent, int64_t dim, int d, struct td_box *out,
                                struct td_err *err)
{
    struct td_scan s = td_scan_make(extent->p, extent->len);
    struct td_scan_field f;
    int64_t start = 0, len = -1;
    while (td_scan_next(&s, &f)) {
        start = f.number == 1 ? (int64_t)f.u64 : start;
        len = f.number == 2 ? (int64_t)f.u64 : len;
    }
    out->full[d] = len < 0;
    len = len < 0 ? dim : len;
    TD_FAIL_IF(s.bad || start < 0 || start > dim || len > dim - start, err, DATA_LOSS,
               "checkpoint slice: extent [%lld, +%lld) is outside of dimension %d of %lld", (long long)start,
               (long long)len, d, (long long)dim);
    out->start[d] = start;
    out->len[d] = len;
    return TD_OK;
}

static enum td_code read_slice(const struct td_bundle_entry *e, const struct td_scan_field *slice,
                               struct td_box *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(slice->p, slice->len);
    struct td_scan_field f;
    *out = (struct td_box){0};
    while (td_scan_next(&s, &f)) {
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_FAIL_IF(out->rank == e->shape.rank, err, DATA_LOSS,
                       "checkpoint slice: more extents than dimensions");
            TD_TRY(read_extent(&f, e->shape.dim[out->rank], out->rank, out, err));
            out->rank++;
        }
    }
    TD_FAIL_IF(s.bad || out->rank != e->shape.rank, err, DATA_LOSS,
               "checkpoint slice: %d extents for %d dimensions", out->rank, e->shape.rank);
    return TD_OK;
}

enum td_code td_bundle_entry_slice(const struct td_bundle_entry *e, int i, struct td_box *out,
                                   struct td_err *err)
{
    struct td_scan s = td_scan_make(e->bytes, e->n_bytes);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (f.number == 7 && i-- == 0) {
            return read_slice(e, &f, out, err);
        }
    }
    return malformed(err);
}

enum td_code td_bundle_entry_slices(const struct td_bundle_entry *e, struct td_box *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(e->bytes, e->n_bytes);
    struct td_scan_field f;
    int n = 0;
    while (n < e->n_slices && td_scan_next(&s, &f)) {
        if (f.number == 7) {
            TD_TRY(read_slice(e, &f, &out[n++], err));
        }
    }
    return n == e->n_slices ? TD_OK : malformed(err);
}

enum td_code td_bundle_header_read(const uint8_t *bytes, size_t n, struct td_bundle_header *out,
                                   struct td_err *err)
{
    struct td_scan s = td_scan_make(bytes, n);
    struct td_scan_field f, v;
    *out = (struct td_bundle_header){0};
    while (td_scan_next(&s, &f)) {
        if (f.number == 1) {
            out->n_shards = f.u64 > 99999 ? -1 : (int)f.u64;
        } else if (f.number == 2) {
            out->big_endian = f.u64 == 1;
        }
        struct td_scan version = td_scan_make(f.p, f.number == 3 ? f.len : 0);
        while (td_scan_next(&version, &v)) {
            out->min_consumer = v.number == 2 ? (int)v.u64 : out->min_consumer;
        }
    }
    TD_FAIL_IF(s.bad || out->n_shards < 1, err, DATA_LOSS, "checkpoint header: malformed, or no data files");
    return TD_OK;
}

/* ---- writing; proto3 leaves zeros out */

static enum td_code write_shape(const struct td_shape *s, struct td_sink *out, struct td_err *err)
{
    size_t shape = td_put_mark(out);
    for (int d = 0; d < s->rank; d++) {
        size_t dim = td_put_mark(out);
        if (s->dim[d] != 0) {
            TD_TRY(td_put_int(out, 1, s->dim[d], err));
        }
        TD_TRY(td_put_end(out, 2, dim, err));
    }
    return td_put_end(out, 2, shape, err);
}

static enum td_code write_slice(const struct td_box *b, struct td_sink *out, struct td_err *err)
{
    size_t slice = td_put_mark(out);
    for (int d = 0; d < b->rank; d++) {
        size_t extent = td_put_mark(out);
        if (!b->full[d] && b->start[d] != 0) {
            TD_TRY(td_put_int(out, 1, b->start[d], err));
        }
        if (!b->full[d]) {
            TD_TRY(td_put_int(out, 2, b->len[d], err));
        }
        TD_TRY(td_put_end(out, 1, extent, err));
    }
    return td_put_end(out, 7, slice, err);
}

static enum td_code write_int(struct td_sink *out, uint32_t field, int64_t v, struct td_err *err)
{
    return v == 0 ? TD_OK : td_put_int(out, field, v, err);
}

enum td_code td_bundle_entry_write(const struct td_bundle_entry *e, const struct td_box *slices,
                                   struct td_sink *out, struct td_err *err)
{
    static const char crc_tag = 6 << 3 | TD_WIRE_FIXED32;
    TD_TRY(write_int(out, 1, e->dtype, err));
    TD_TRY(write_shape(&e->shape, out, err));
    TD_TRY(write_int(out, 3, e->shard, err));
    TD_TRY(write_int(out, 4, e->offset, err));
    TD_TRY(write_int(out, 5, e->size, err));
    if (e->crc != 0) {
        TD_TRY(td_sink_put(out, &crc_tag, 1, err));
        TD_TRY(td_sink_put(out, &e->crc, sizeof e->crc, err)); /* little-endian host */
    }
    for (int i = 0; i < e->n_slices; i++) {
        TD_TRY(write_slice(&slices[i], out, err));
    }
    return TD_OK;
}

enum td_code td_bundle_header_write(int n_shards, struct td_sink *out, struct td_err *err)
{
    TD_TRY(td_put_int(out, 1, n_shards, err));
    size_t version = td_put_mark(out);
    TD_TRY(td_put_int(out, 1, 1, err));
    return td_put_end(out, 3, version, err);
}

/* ---- names of files */

enum td_code td_bundle_index_path(const char *prefix, char *buf, struct td_err *err)
{
    int n = snprintf(buf, TD_BUNDLE_PATH, "%s.index", prefix);
    TD_FAIL_IF(n >= TD_BUNDLE_PATH, err, INVALID_ARGUMENT, "checkpoint prefix of %zu bytes is too long",
               (size_t)n);
    return TD_OK;
}

enum td_code td_bundle_data_path(const char *prefix, int shard, int n_shards, char *buf, struct td_err *err)
{
    int n = snprintf(buf, TD_BUNDLE_PATH, "%s.data-%05d-of-%05d", prefix, shard, n_shards);
    TD_FAIL_IF(n >= TD_BUNDLE_PATH, err, INVALID_ARGUMENT, "checkpoint prefix of %zu bytes is too long",
               (size_t)n);
    return TD_OK;
}
