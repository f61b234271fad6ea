/* proto/checkpoint/bundle.c - the reader of a checkpoint (the writer is proto/checkpoint/bundle_write.c).
 *
 * The index is read whole when the bundle is opened and all its entries are parsed at once, one beside each
 * row of the table; names are found by binary search in the rows. Rows come in this order:
 *
 *   ""            the header
 *   \0...         slices of partitioned variables, under ordered codes (proto/checkpoint/slice.c)
 *   name          a tensor: its bytes, or the list of its slices
 *
 * Data files are mapped when first needed and stay mapped as long as the bundle or a tensor uses them. Bytes
 * are checked in full before a tensor is given out, and after that whether the mapping was damaged meanwhile.
 * Numbers are used in place where they are aligned (bools only when all are 0 or 1); strings, slices that are
 * not rows, and the rest are copied. A partitioned variable is read slice by slice, each copied where it
 * meets the wanted box.
 *
 * One bundle is used by one thread at a time. Does not: keep what it has read, restore variables
 * (kernels/state).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint/bundle.h"

#include <string.h>
#include <sys/stat.h>

#include "core/base/arena.h"
#include "core/base/file_pages.h"
#include "core/base/mem.h"
#include "proto/checkpoint/bundle_entry.h"
#include "proto/bytes/crc32c.h"
#include "proto/bytes/crc_mapped.h"
#include "proto/bytes/file.h"
#include "proto/bytes/mapping.h"
#include "proto/pb/scan.h"
#include "proto/checkpoint/sstable.h"

enum { CONSUMER_VERSION = 1, MAX_SLICES = 1 << 16 };
#define MAX_INDEX ((size_t)1 << 30)

struct td_bundle {
    char *root; /* NULL: its files may lie anywhere */
    char *prefix, *index;
    size_t n_index;
    struct td_arena *arena;
    struct td_sstable table;
    struct td_bundle_entry *entries; /* one a row; the header's is unused */
    int first;                       /* rows before this are the header and slices */
    struct td_bundle_header header;
    struct td_mapping **shards; /* NULL until needed */
};

/* ---- opening */

static enum td_code parse_entries(struct td_bundle *b, struct td_err *err)
{
    int n = b->table.n_rows;
    TD_FAIL_IF(n == 0 || b->table.rows[0].key_len != 0, err, DATA_LOSS, "no header entry");
    TD_TRY(td_bundle_header_read(b->table.rows[0].value, b->table.rows[0].value_len, &b->header, err));
    TD_FAIL_IF(b->header.big_endian, err, UNIMPLEMENTED, "the tensors are big-endian, want little-endian");
    TD_FAIL_IF(b->header.min_consumer > CONSUMER_VERSION, err, INVALID_ARGUMENT,
               "Checkpoint min consumer version %d above current version %d", b->header.min_consumer,
               CONSUMER_VERSION);
    b->entries = td_arena_alloc(b->arena, (size_t)n, sizeof b->entries[0]);
    b->shards = td_arena_alloc(b->arena, (size_t)b->header.n_shards, sizeof b->shards[0]);
    if (b->entries == NULL || b->shards == NULL) {
        return td_no_memory(err, (size_t)n * sizeof b->entries[0], "checkpoint entries");
    }
    b->first = 1;
    for (int i = 1; i < n; i++) {
        const struct td_sstable_row *row = &b->table.rows[i];
        if (td_bundle_entry_read(row->value, row->value_len, &b->entries[i], err)) {
            return td_err_wrap(err, "'%.200s'", row->key);
        }
        b->first = row->key[0] == 0 ? i + 1 : b->first;
    }
    return TD_OK;
}

static enum td_code open_index(struct td_bundle *b, struct td_err *err)
{
    char path[TD_BUNDLE_PATH];
    TD_TRY(td_bundle_index_path(b->prefix, path, err));
    TD_TRY(td_file_read_beneath(b->root, path, MAX_INDEX, &b->index, &b->n_index, err));
    b->arena = td_arena_new(b->n_index * 64 + ((size_t)64 << 20));
    if (b->arena == NULL) {
        return td_no_memory(err, b->n_index, "checkpoint index");
    }
    if (td_sstable_read(b->index, b->n_index, b->arena, &b->table, err) || parse_entries(b, err)) {
        return td_err_wrap(err, "Reading checkpoint %s", path);
    }
    return TD_OK;
}

enum td_code td_bundle_open(const char *prefix, struct td_bundle **out, struct td_err *err)
{
    return td_bundle_open_beneath(NULL, prefix, out, err);
}

enum td_code td_bundle_open_beneath(const char *root, const char *prefix, struct td_bundle **out,
                                    struct td_err *err)
{
    struct td_bundle *b = td_calloc(1, sizeof *b);
    if (b == NULL) {
        return td_no_memory(err, sizeof *b, "checkpoint");
    }
    b->prefix = td_strdup(prefix);
    b->root = root == NULL ? NULL : td_strdup(root);
    const bool room = b->prefix != NULL && (root == NULL || b->root != NULL);
    enum td_code rc = room ? open_index(b, err) : td_no_memory(err, strlen(prefix), "checkpoint");
    if (rc) {
        td_bundle_close(b);
        return rc;
    }
    *out = b;
    return TD_OK;
}

void td_bundle_close(struct td_bundle *b)
{
    if (b == NULL) {
        return;
    }
    for (int i = 0; b->shards != NULL && i < b->header.n_shards; i++) {
        td_mapping_unref(b->shards[i]);
    }
    td_arena_free(b->arena);
    td_free(b->index);
    td_free(b->prefix);
    td_free(b->root);
    td_free(b);
}

/* The bytes that a data file must have, by the entries that lie in it. */
static enum td_code shard_bytes(const struct td_bundle *b, int64_t *need, struct td_err *err)
{
    for (int i = 1; i < b->table.n_rows; i++) {
        const struct td_bundle_entry *e = &b->entries[i];
        int64_t end = 0;
        if (e->n_slices > 0) {
            continue; /* its bytes are those of its slices' own entries */
        }
        TD_FAIL_IF(e->shard < 0 || e->shard >= b->header.n_shards || e->offset < 0 || e->size < 0 ||
                       !td_i64_add(e->offset, e->size, &end),
                   err, DATA_LOSS, "checkpoint %.300s: entry %d lies nowhere: data file %d of %d", b->prefix,
                   i, e->shard, b->header.n_shards);
        need[e->shard] = end > need[e->shard] ? end : need[e->shard];
    }
    return TD_OK;
}

enum td_code td_bundle_survey(const struct td_bundle *b, struct td_err *err)
{
    char path[TD_BUNDLE_PATH];
    int64_t *need = td_calloc((size_t)b->header.n_shards + 1, sizeof *need);
    if (need == NULL) {
        return td_no_memory(err, (size_t)b->header.n_shards * sizeof *need, "a checkpoint's data files");
    }
    enum td_code rc = shard_bytes(b, need, err);
    for (int i = 0; rc == TD_OK && i < b->header.n_shards; i++) {
        struct stat st;
        rc = td_bundle_data_path(b->prefix, i, b->header.n_shards, path, err);
        if (rc == TD_OK && stat(path, &st) != 0) {
            rc =
                td_fail(err, TD_NOT_FOUND, "%.900s: no such file, and the checkpoint's index names it", path);
        } else if (rc == TD_OK && st.st_size < need[i]) {
            rc = td_fail(err, TD_DATA_LOSS, "%.900s has %lld bytes, and the checkpoint's index names %lld",
                         path, (long long)st.st_size, (long long)need[i]);
        }
    }
    td_free(need);
    return rc;
}

bool td_bundle_entry(const struct td_bundle *b, int i, const char **name, enum td_dtype *dtype,
                     struct td_shape *shape, uint64_t *bytes)
{
    int row = b->first + i;
    if (i < 0 || row >= b->table.n_rows) {
        return false;
    }
    const struct td_bundle_entry *e = &b->entries[row];
    *name = b->table.rows[row].key;
    *dtype = td_dtype_valid(e->dtype) ? (enum td_dtype)e->dtype : TD_DTYPE_NONE;
    *shape = e->shape;
    *bytes = (uint64_t)e->size;
    return true;
}

static const struct td_bundle_entry *find_entry(const struct td_bundle *b, const char *key, size_t len)
{
    const struct td_sstable_row *row = len == 0 ? NULL : td_sstable_find(&b->table, key, len);
    return row == NULL ? NULL : &b->entries[row - b->table.rows];
}

bool td_bundle_has(const struct td_bundle *b, const char *name)
{
    return find_entry(b, name, strlen(name)) != NULL;
}

int td_bundle_n_slices(const struct td_bundle *b, const char *name)
{
    const struct td_bundle_entry *e = find_entry(b, name, strlen(name));
    return e == NULL ? 0 : e->n_slices;
}

enum td_code td_bundle_slice(const struct td_bundle *b, const char *name, int i, struct td_sink *out,
                             struct td_err *err)
{
    const struct td_bundle_entry *e = find_entry(b, name, strlen(name));
    struct td_box box;
    TD_FAIL_IF(e == NULL || i < 0 || i >= e->n_slices, err, NOT_FOUND,
               "slice %d of '%.200s' is not in checkpoint %.300s", i, name, b->prefix);
    TD_TRY(td_bundle_entry_slice(e, i, &box, err));
    TD_TRY(td_slice_text(&e->shape, &box, out, err));
    return td_sink_put(out, "", 1, err);
}

/* ---- bytes of an entry */

static enum td_code map_shard(struct td_bundle *b, int shard, struct td_mapping **out, struct td_err *err)
{
    char path[TD_BUNDLE_PATH];
    TD_FAIL_IF(shard >= b->header.n_shards, err, DATA_LOSS, "data file %d of %d does not exist", shard,
               b->header.n_shards);
    if (b->shards[shard] == NULL) {
        TD_TRY(td_bundle_data_path(b->prefix, shard, b->header.n_shards, path, err));
        TD_TRY(td_mapping_open_beneath(b->root, path, &b->shards[shard], err));
    }
    *out = b->shards[shard];
    return TD_OK;
}

static enum td_code entry_bytes(struct td_bundle *b, const struct td_bundle_entry *e, struct td_mapping **m,
                                const unsigned char **p, struct td_err *err)
{
    size_t n;
    TD_TRY(map_shard(b, e->shard, m, err));
    const unsigned char *file = td_mapping_data(*m, &n);
    TD_FAIL_IF((uint64_t)e->offset > n || (uint64_t)e->size > n - (uint64_t)e->offset, err, DATA_LOSS,
               "its bytes [%lld, +%lld) are beyond the %zu bytes of data file %d", (long long)e->offset,
               (long long)e->size, n, e->shard);
    *p = file + e->offset;
    return TD_OK;
}

void td_bundle_read_ahead(struct td_bundle *b, const char *const *names, int n, struct td_thread_pool *pool)
{
    struct td_crc_range *ranges = td_calloc((size_t)n + 1, sizeof *ranges);
    struct td_bundle_entry **of = td_calloc((size_t)n + 1, sizeof *of);
    int n_ranges = 0;
    for (int i = 0; i < n && ranges != NULL && of != NULL; i++) {
        struct td_bundle_entry *e = (struct td_bundle_entry *)find_entry(b, names[i], strlen(names[i]));
        struct td_crc_range *r = &ranges[n_ranges];
        struct td_mapping *m;
        struct td_err ignored = {0};
        if (e != NULL && e->n_slices == 0 && e->dtype != TD_STRING && !e->read &&
            entry_bytes(b, e, &m, &r->p, &ignored) == TD_OK) {
            r->n = (size_t)e->size;
            of[n_ranges++] = e;
        }
    }
    const bool made = n_ranges > 0 && td_crc_mapped(pool, ranges, n_ranges);
    for (int i = 0; made && i < n_ranges; i++) {
        of[i]->read = true;
        of[i]->found = ranges[i].crc;
    }
    td_free(ranges);
    td_free(of);
}

/* Of a tensor's bytes, which lie at p. */
static enum td_code crc_of(const struct td_bundle_entry *e, const unsigned char *p, uint32_t *crc,
                           struct td_err *err)
{
    struct td_crc_range r = {.p = p, .n = (size_t)e->size};
    if (!e->read && !td_crc_mapped(NULL, &r, 1)) {
        return td_no_memory(err, (size_t)e->size, "a checksum");
    }
    *crc = e->read ? e->found : r.crc;
    return TD_OK;
}

static enum td_code check_crc(const struct td_bundle_entry *e, uint32_t crc, const void *at,
                              struct td_err *err)
{
    uint32_t masked = td_crc32c_mask(crc);
    TD_FAIL_IF(td_mapping_damaged(at), err, DATA_LOSS, "its data file was cut short while it was read");
    TD_FAIL_IF(masked != e->crc, err, DATA_LOSS,
               "Checksum does not match: stored %u vs. calculated on the restored bytes %u", (unsigned)e->crc,
               (unsigned)masked);
    return TD_OK;
}

/* ---- numbers */

static bool all_bools(const unsigned char *p, size_t n)
{
    unsigned char any = 0;
    for (size_t i = 0; i < n; i++) {
        any |= p[i];
    }
    return any <= 1;
}

static enum td_code copy_numbers(const struct td_bundle_entry *e, enum td_dtype t, const unsigned char *p,
                                 struct td_tensor *out, struct td_err *err)
{
    TD_TRY(td_tensor_new(out, t, &e->shape, err));
    if (e->size > 0) {
        memcpy(out->data, p, (size_t)e->size);
    }
    for (int64_t i = 0; t == TD_BOOL && i < e->size; i++) { /* kernels take 0 and 1 for granted */
        ((td_bool *)out->data)[i] = ((td_bool *)out->data)[i] != 0;
    }
    return TD_OK;
}

static enum td_code read_numbers(struct td_bundle *b, const struct td_bundle_entry *e, struct td_tensor *out,
                                 struct td_err *err)
{
    struct td_mapping *m = NULL;
    const unsigned char *p = NULL;
    enum td_dtype t = (enum td_dtype)e->dtype;
    size_t want = 0, size = td_dtype_size(t);
    bool fits = td_size_mul((size_t)td_shape_count(&e->shape), size, &want);
    TD_FAIL_IF(!fits || want != (uint64_t)e->size, err, DATA_LOSS,
               "%lld bytes are stored, %s of %s takes %zu", (long long)e->size, TD_SHAPE_STR(&e->shape),
               td_dtype_name(t), want);
    TD_TRY(entry_bytes(b, e, &m, &p, err));
    uint32_t crc = 0;
    TD_TRY(crc_of(e, p, &crc, err));
    TD_TRY(check_crc(e, crc, p, err));
    size_t align = size > 8 ? 8 : size; /* complex128 is a pair of doubles */
    if ((uintptr_t)p % align != 0 || e->size == 0 || (t == TD_BOOL && !all_bools(p, (size_t)e->size))) {
        return copy_numbers(e, t, p, out, err);
    }
    struct td_tensor mapped = {.data = (void *)p, .dtype = t, .shape = e->shape};
    enum td_code rc =
        td_buffer_wrap(p, (size_t)e->size, td_mapping_unref, td_mapping_ref(m), &mapped.buf, err);
    if (rc) {
        td_mapping_unref(m);
        return rc;
    }
    td_file_pages_mark(mapped.buf, crc);
    *out = mapped;
    return TD_OK;
}

/* ---- strings: varint lengths, masked CRC of them, bytes */

static uint32_t crc_of_length(uint32_t crc, uint64_t len)
{
    return td_crc32c(crc, &len, len > UINT32_MAX ? 8 : 4); /* little-endian host */
}

static enum td_code check_lengths(const struct td_bundle_entry *e, const uint8_t **p, const uint8_t *end,
                                  uint32_t *crc, struct td_err *err)
{
    int64_t n = td_shape_count(&e->shape);
    uint64_t len, sum = 0;
    uint32_t stored;
    for (int64_t i = 0; i < n; i++) {
        TD_FAIL_IF(!td_scan_varint(p, end, &len) || len > (uint64_t)e->size - sum, err, DATA_LOSS,
                   "length of string %lld is cut or too large", (long long)i);
        sum += len;
        *crc = crc_of_length(*crc, len);
    }
    TD_FAIL_IF((uint64_t)(end - *p) != sum + 4, err, DATA_LOSS,
               "%lld bytes are stored, the strings take %llu more", (long long)e->size,
               (unsigned long long)sum);
    memcpy(&stored, *p, sizeof stored);
    TD_FAIL_IF(stored != td_crc32c_mask(*crc), err, DATA_LOSS,
               "Checksum of the string lengths does not match");
    *crc = td_crc32c(*crc, *p, 4);
    *p += 4;
    return TD_OK;
}

static enum td_code fill_strings(const uint8_t *lengths, const uint8_t *p, const uint8_t *end,
                                 struct td_tensor *t, struct td_err *err)
{
    int64_t n = td_tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        uint64_t len = 0;
        bool ok = td_scan_varint(&lengths, p, &len) && len <= (uint64_t)(end - p);
        TD_FAIL_IF(!ok, err, DATA_LOSS, "string %lld changed while it was read", (long long)i);
        TD_TRY(td_tensor_set_str(t, i, (const char *)p, (size_t)len, err));
        p += len;
    }
    return TD_OK;
}

static enum td_code read_strings(struct td_bundle *b, const struct td_bundle_entry *e, struct td_tensor *out,
                                 struct td_err *err)
{
    struct td_mapping *m;
    const unsigned char *begin = NULL;
    uint32_t crc = 0;
    struct td_tensor t = {0};
    int64_t n = td_shape_count(&e->shape);
    TD_FAIL_IF(n > e->size, err, DATA_LOSS, "%lld bytes are stored for %lld strings", (long long)e->size,
               (long long)n);
    if (n == 0) {
        return td_tensor_new(out, TD_STRING, &e->shape, err);
    }
    TD_TRY(entry_bytes(b, e, &m, &begin, err));
    const uint8_t *p = begin, *end = begin + e->size;
    TD_TRY(check_lengths(e, &p, end, &crc, err));
    TD_TRY(check_crc(e, td_crc32c(crc, p, (size_t)(end - p)), begin, err));
    TD_TRY(td_tensor_new(&t, TD_STRING, &e->shape, err));
    enum td_code rc = fill_strings(begin, p, end, &t, err);
    if (rc) {
        td_tensor_clear(&t);
        return rc;
    }
    *out = t;
    return TD_OK;
}

/* ---- whole entries, slices, partitioned variables */

static enum td_code read_entry(struct td_bundle *b, const struct td_bundle_entry *e, struct td_tensor *out,
                               struct td_err *err)
{
    TD_FAIL_IF(!td_dtype_valid(e->dtype) || e->dtype == TD_RESOURCE || e->dtype == TD_VARIANT, err,
               UNIMPLEMENTED, "tensors of %s (DataType %d) cannot be read from a checkpoint",
               td_dtype_tf_name((enum td_dtype)e->dtype), e->dtype);
    return e->dtype == TD_STRING ? read_strings(b, e, out, err) : read_numbers(b, e, out, err);
}

/* A box of an entry that is stored in slices. */
struct partitioned {
    const char *name;
    const struct td_bundle_entry *entry;
    const struct td_box *box, *slices;
};

/* Copies what slice i of a partitioned entry holds of the box. *covered counts elements. */
static enum td_code add_part(struct td_bundle *b, const struct partitioned *p, int i, struct td_tensor *out,
                             int64_t *covered, struct td_err *err)
{
    const struct td_bundle_entry *e = p->entry;
    const struct td_box part = p->slices[i];
    struct td_box both;
    struct td_sink key = {.limit = 1 << 16};
    struct td_tensor t = {0};
    if (!td_box_intersect(&part, p->box, &both)) {
        return TD_OK;
    }
    enum td_code rc = td_slice_key(p->name, &part, &key, err);
    const struct td_bundle_entry *stored = rc ? NULL : find_entry(b, key.p, key.n);
    td_sink_fini(&key);
    TD_FAIL_IF(stored == NULL, err, DATA_LOSS, "slice %d of it is not in the checkpoint", i);
    struct td_shape shape = td_box_shape(&part);
    TD_FAIL_IF(!td_shape_equal(&stored->shape, &shape) || stored->dtype != e->dtype || stored->n_slices > 0,
               err, DATA_LOSS, "slice %d of it has shape %s, want %s", i, TD_SHAPE_STR(&stored->shape),
               TD_SHAPE_STR(&shape));
    TD_TRY(read_entry(b, stored, &t, err));
    td_slice_copy(&t, &part, out, p->box);
    td_tensor_clear(&t);
    struct td_shape common = td_box_shape(&both);
    *covered += td_shape_count(&common);
    return TD_OK;
}

/* The slices of an entry, returned new. Each element is in one of them at most: what two hold has no one
 * value, and what they hold together does not tell what none holds. */
static enum td_code list_slices(const struct td_bundle_entry *e, struct td_box **out, struct td_err *err)
{
    const size_t n = (size_t)e->n_slices;
    int i, j;
    TD_FAIL_IF(e->n_slices > MAX_SLICES, err, DATA_LOSS, "it is stored in %d slices, at most %d are read",
               e->n_slices, MAX_SLICES);
    struct td_box *boxes = td_calloc(n, sizeof *boxes);
    struct td_box_side *sort = td_calloc(n, sizeof *sort);
    enum td_code rc = boxes == NULL || sort == NULL
                          ? td_no_memory(err, n * sizeof *boxes, "checkpoint slices")
                          : td_bundle_entry_slices(e, boxes, err);
    if (rc == TD_OK && !td_boxes_disjoint(boxes, e->n_slices, sort, &i, &j)) {
        struct td_sink a = {.limit = 1 << 12}, b = {.limit = 1 << 12};
        struct td_err none = {0};
        const bool said = td_slice_text(&e->shape, &boxes[i], &a, &none) == TD_OK &&
                          td_slice_text(&e->shape, &boxes[j], &b, &none) == TD_OK;
        rc = td_fail(err, TD_DATA_LOSS,
                     "its slices %d ('%.*s') and %d ('%.*s') overlap: each element must be in one slice", i,
                     said ? (int)a.n : 0, said ? a.p : "", j, said ? (int)b.n : 0, said ? b.p : "");
        td_sink_fini(&a);
        td_sink_fini(&b);
    }
    td_free(sort);
    if (rc) {
        td_free(boxes);
        return rc;
    }
    *out = boxes;
    return TD_OK;
}

static enum td_code read_parts(struct td_bundle *b, const char *name, const struct td_bundle_entry *e,
                               const struct td_box *box, const struct td_box *slices, struct td_tensor *out,
                               struct td_err *err)
{
    const struct partitioned p = {name, e, box, slices};
    struct td_shape shape = td_box_shape(box);
    struct td_tensor t = {0};
    int64_t covered = 0;
    enum td_code rc = TD_OK;
    TD_FAIL_IF(!td_dtype_valid(e->dtype), err, UNIMPLEMENTED, "DataType %d is not supported", e->dtype);
    TD_TRY(td_tensor_new(&t, (enum td_dtype)e->dtype, &shape, err));
    for (int i = 0; rc == TD_OK && i < e->n_slices; i++) {
        rc = add_part(b, &p, i, &t, &covered, err);
    }
    if (rc == TD_OK && covered < td_shape_count(&shape)) {
        rc = td_fail(err, TD_INVALID_ARGUMENT,
                     "its slices hold %lld of %lld elements: each element must be in one slice",
                     (long long)covered, (long long)td_shape_count(&shape));
    }
    if (rc) {
        td_tensor_clear(&t);
        return rc;
    }
    *out = t;
    return TD_OK;
}

static enum td_code read_partitioned(struct td_bundle *b, const char *name, const struct td_bundle_entry *e,
                                     const struct td_box *box, struct td_tensor *out, struct td_err *err)
{
    struct td_box *slices = NULL;
    TD_TRY(list_slices(e, &slices, err));
    const enum td_code rc = read_parts(b, name, e, box, slices, out, err);
    td_free(slices);
    return rc;
}

/* The box of a tensor that is stored whole. Rows are shared with it, other boxes are copied. */
static enum td_code cut_box(const struct td_tensor *whole, const struct td_box *box, struct td_tensor *out,
                            struct td_err *err)
{
    struct td_shape shape = td_box_shape(box);
    struct td_box all = td_box_whole(&whole->shape);
    bool rows = true;
    for (int d = 1; d < box->rank; d++) {
        rows &= box->len[d] == whole->shape.dim[d];
    }
    if (rows && whole->dtype != TD_STRING) {
        td_tensor_rows(out, whole, box->start[0], box->start[0] + box->len[0]);
        return TD_OK;
    }
    TD_TRY(td_tensor_new(out, whole->dtype, &shape, err));
    td_slice_copy(whole, &all, out, box);
    return TD_OK;
}

static enum td_code read_box(struct td_bundle *b, const char *name, const struct td_bundle_entry *e,
                             const struct td_box *box, struct td_tensor *out, struct td_err *err)
{
    struct td_tensor whole = {0};
    if (e->n_slices > 0) {
        return read_partitioned(b, name, e, box, out, err);
    }
    if (td_box_is_whole(box, &e->shape)) {
        return read_entry(b, e, out, err);
    }
    TD_TRY(read_entry(b, e, &whole, err));
    enum td_code rc = cut_box(&whole, box, out, err);
    td_tensor_clear(&whole);
    return rc;
}

enum td_code td_bundle_read(struct td_bundle *b, const char *name, const char *slice, struct td_tensor *out,
                            struct td_err *err)
{
    const struct td_bundle_entry *e = find_entry(b, name, strlen(name));
    TD_FAIL_IF(e == NULL, err, NOT_FOUND, "Key %s not found in checkpoint", name);
    struct td_box box = td_box_whole(&e->shape);
    if (slice != NULL && slice[0] != 0) {
        struct td_shape whole;
        TD_TRY(td_slice_parse(slice, &whole, &box, err));
        TD_FAIL_IF(!td_shape_equal(&whole, &e->shape), err, INVALID_ARGUMENT,
                   "Shape in shape_and_slice spec %s does not match the shape stored in checkpoint: %s",
                   TD_SHAPE_STR(&whole), TD_SHAPE_STR(&e->shape));
    }
    if (read_box(b, name, e, &box, out, err)) {
        return td_err_wrap(err, "Reading '%.200s' of checkpoint %.300s", name, b->prefix);
    }
    return TD_OK;
}
