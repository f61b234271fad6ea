/* proto/checkpoint/bundle_merge.c - MergeV2Checkpoints: many checkpoints become one without reading their
 * tensors.
 *
 * Data files are not rewritten: they become the shards of the new checkpoint under new names, renamed where
 * the sources are to be deleted, else copied. One index is made of all entries, with the shards of source i
 * counted on behind those of the sources before it. A partitioned variable that is spread over sources
 * becomes one entry with all its slices; any other name may occur once.
 *
 * Order: the new index is written aside, the data files are placed, the index is renamed, then the old
 * indexes are deleted and directories that this left empty. A merge that fails in between may leave data
 * files under their new names (moved there, where the sources were to be deleted), but never a new index.
 *
 * Does not: verify the data files, or lock the sources against others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/checkpoint/bundle.h"
#include "proto/checkpoint/bundle_index.h"
#include "proto/bytes/file.h"
#include "proto/checkpoint/sstable.h"

enum { MAX_SHARDS = 99999 };
#define MAX_INDEX ((size_t)1 << 30)
#define ARENA_BYTES ((size_t)4 << 30)

struct source {
    const char *prefix;
    char *bytes; /* of its index */
    size_t n;
    struct td_sstable table;
    int n_shards;
};

struct merge {
    struct source *sources;
    int n;
    const char *prefix;
    bool delete_sources;
    int n_shards;
    struct td_arena *arena;
    struct td_index index;
};

/* ---- indexes */

/* A variable whose slices are spread over sources: one entry with all of them. */
static enum td_code join_slices(struct merge *m, struct td_index_row *have, const struct td_bundle_entry *e,
                                struct td_err *err)
{
    TD_FAIL_IF(have->e.n_slices == 0 || e->n_slices == 0 || have->e.dtype != e->dtype ||
                   !td_shape_equal(&have->e.shape, &e->shape),
               err, INVALID_ARGUMENT, "Merging checkpoints: tensor '%.200s' is in two of them", have->key);
    for (int i = 0; i < e->n_slices; i++) {
        struct td_box box;
        TD_TRY(td_bundle_entry_slice(e, i, &box, err));
        TD_TRY(td_index_add_slice(&m->index, have, &box, err));
    }
    return TD_OK;
}

static enum td_code merge_row(struct merge *m, const struct td_sstable_row *row, int first_shard,
                              struct td_err *err)
{
    struct td_bundle_entry e;
    struct td_index_row *made;
    TD_TRY(td_bundle_entry_read(row->value, row->value_len, &e, err));
    e.shard += first_shard;
    if (e.n_slices == 0) {
        return td_index_add(&m->index, row->key, row->key_len, &e, &made, err);
    }
    made = td_index_find(&m->index, row->key, row->key_len);
    if (made != NULL) {
        return join_slices(m, made, &e, err);
    }
    struct td_bundle_entry none = e;
    none.n_slices = 0;
    none.shard = 0;
    TD_TRY(td_index_add(&m->index, row->key, row->key_len, &none, &made, err));
    for (int i = 0; i < e.n_slices; i++) {
        struct td_box box;
        TD_TRY(td_bundle_entry_slice(&e, i, &box, err));
        TD_TRY(td_index_add_slice(&m->index, made, &box, err));
    }
    return TD_OK;
}

static enum td_code read_source(struct merge *m, struct source *s, struct td_err *err)
{
    char path[TD_FILE_PATH];
    struct td_bundle_header header;
    TD_TRY(td_bundle_index_path(s->prefix, path, err));
    TD_TRY(td_file_read(path, MAX_INDEX, &s->bytes, &s->n, err));
    TD_TRY(td_sstable_read(s->bytes, s->n, m->arena, &s->table, err));
    TD_FAIL_IF(s->table.n_rows == 0 || s->table.rows[0].key_len != 0, err, DATA_LOSS, "%s: no header entry",
               path);
    TD_TRY(td_bundle_header_read(s->table.rows[0].value, s->table.rows[0].value_len, &header, err));
    s->n_shards = header.n_shards;
    for (int i = 1; i < s->table.n_rows; i++) {
        TD_TRY(merge_row(m, &s->table.rows[i], m->n_shards, err));
    }
    m->n_shards += s->n_shards;
    TD_FAIL_IF(m->n_shards > MAX_SHARDS, err, INVALID_ARGUMENT,
               "Merging checkpoints: more than %d data files", MAX_SHARDS);
    return TD_OK;
}

/* ---- data files */

static enum td_code copy_file(const char *from, const char *to, struct td_err *err)
{
    char temp[TD_FILE_PATH];
    TD_TRY(td_file_temp_name(to, temp, err));
    TD_TRY(td_file_copy(from, temp, err));
    const enum td_code rc = td_file_rename(temp, to, err);
    if (rc) {
        unlink(temp);
    }
    return rc;
}

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static enum td_code place_file(const char *from, const char *to, bool move, struct td_err *err)
{
    TD_FAIL_IF(access(from, R_OK) != 0, err, DATA_LOSS, "Merging checkpoints: data file %s: %s", from,
               strerror(errno));
    if (same_file(from, to) || (move && rename(from, to) == 0)) {
        return TD_OK;
    }
    TD_TRY(copy_file(from, to, err)); /* another file system, or the source stays */
    if (move) {
        unlink(from);
    }
    return TD_OK;
}

static enum td_code place_files(const struct merge *m, struct td_err *err)
{
    char from[TD_FILE_PATH], to[TD_FILE_PATH];
    for (int i = 0, shard = 0; i < m->n; i++) {
        for (int k = 0; k < m->sources[i].n_shards; k++, shard++) {
            TD_TRY(td_bundle_data_path(m->sources[i].prefix, k, m->sources[i].n_shards, from, err));
            TD_TRY(td_bundle_data_path(m->prefix, shard, m->n_shards, to, err));
            TD_TRY(place_file(from, to, m->delete_sources, err));
        }
    }
    return TD_OK;
}

/* Old indexes, and the directories they leave empty. */
static void remove_sources(const struct merge *m, const char *index)
{
    char path[TD_FILE_PATH];
    struct td_err ignored = {0};
    for (int i = 0; m->delete_sources && i < m->n; i++) {
        if (td_bundle_index_path(m->sources[i].prefix, path, &ignored) || same_file(path, index)) {
            continue;
        }
        unlink(path);
        char *slash = strrchr(path, '/');
        if (slash != NULL) {
            *slash = 0;
            (void)rmdir(path); /* stays when something else is in it */
        }
    }
}

static enum td_code begin_merge(struct merge *m, struct td_err *err)
{
    m->arena = td_arena_new(ARENA_BYTES);
    m->sources = td_calloc((size_t)m->n, sizeof *m->sources);
    m->index.arena = m->arena;
    return m->arena == NULL || m->sources == NULL ? td_no_memory(err, sizeof *m->sources, "checkpoint merge")
                                                  : TD_OK;
}

static enum td_code run_merge(struct merge *m, const char *const *prefixes, struct td_err *err)
{
    char temp[TD_FILE_PATH], index[TD_FILE_PATH];
    TD_TRY(begin_merge(m, err));
    TD_TRY(td_bundle_index_path(m->prefix, index, err));
    for (int i = 0; i < m->n; i++) {
        m->sources[i].prefix = prefixes[i];
        if (read_source(m, &m->sources[i], err)) {
            return td_err_wrap(err, "Merging checkpoint %.300s", prefixes[i]);
        }
    }
    TD_TRY(td_index_write(&m->index, m->prefix, m->n_shards, temp, err));
    enum td_code rc = place_files(m, err);
    if (rc == TD_OK) {
        rc = td_file_rename(temp, index, err);
    }
    if (rc) {
        unlink(temp);
        return rc;
    }
    td_file_sync_directory(index);
    remove_sources(m, index);
    return TD_OK;
}

enum td_code td_bundle_merge(const char *const *prefixes, int n, const char *prefix, bool delete_sources,
                             struct td_err *err)
{
    struct merge m = {.n = n, .prefix = prefix, .delete_sources = delete_sources};
    TD_FAIL_IF(n <= 0, err, INVALID_ARGUMENT, "Merging checkpoints into %s: there are none", prefix);
    enum td_code rc = run_merge(&m, prefixes, err);
    for (int i = 0; m.sources != NULL && i < n; i++) {
        td_free(m.sources[i].bytes);
    }
    td_free(m.sources);
    td_arena_free(m.arena);
    return rc;
}
