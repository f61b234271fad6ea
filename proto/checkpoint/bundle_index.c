/* proto/checkpoint/bundle_index.c - rows kept in the arena while a checkpoint is written, sorted once at the
 * end.
 *
 * The rows and the slices of each row are arrays that double; what was outgrown stays in the arena, which
 * goes as a whole. Rows are found by walking back from the last, because the slices of one variable are added
 * one after another. To write, the rows are sorted by key and handed to the table writer behind the header;
 * the finished table goes to a temporary file in one piece. Equal keys meet as neighbours and are refused.
 *
 * Does not: write data files or rename (proto/checkpoint/bundle_write.c, bundle_merge.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint/bundle_index.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/checkpoint/sstable_write.h"

enum { MAX_SLICES = 1 << 16 };

enum td_code td_index_add(struct td_index *x, const char *key, size_t key_len,
                          const struct td_bundle_entry *e, struct td_index_row **out, struct td_err *err)
{
    if (x->n_rows == x->cap_rows) {
        int cap = x->cap_rows ? x->cap_rows * 2 : 64;
        struct td_index_row *rows = td_arena_alloc(x->arena, (size_t)cap, sizeof *rows);
        if (rows == NULL) {
            return td_no_memory(err, (size_t)cap * sizeof *rows, "checkpoint entries");
        }
        if (x->n_rows > 0) {
            memcpy(rows, x->rows, (size_t)x->n_rows * sizeof *rows);
        }
        x->rows = rows;
        x->cap_rows = cap;
    }
    struct td_index_row *p = &x->rows[x->n_rows];
    *p = (struct td_index_row){.key = td_arena_strndup(x->arena, key, key_len), .key_len = key_len, .e = *e};
    if (p->key == NULL) {
        return td_no_memory(err, key_len, "checkpoint entries");
    }
    x->n_rows++;
    *out = p;
    return TD_OK;
}

enum td_code td_index_add_slice(struct td_index *x, struct td_index_row *p, const struct td_box *box,
                                struct td_err *err)
{
    TD_FAIL_IF(p->e.n_slices == MAX_SLICES, err, INVALID_ARGUMENT, "Writing '%s': more than %d slices",
               p->key, MAX_SLICES);
    if ((p->e.n_slices & (p->e.n_slices - 1)) == 0) { /* full: 0, 1, 2, 4 ... */
        size_t cap = p->e.n_slices ? (size_t)p->e.n_slices * 2 : 1;
        struct td_box *more = td_arena_alloc(x->arena, cap, sizeof *more);
        if (more == NULL) {
            return td_no_memory(err, cap * sizeof *more, "checkpoint slices");
        }
        if (p->e.n_slices > 0) {
            memcpy(more, p->slices, (size_t)p->e.n_slices * sizeof *more);
        }
        p->slices = more;
    }
    p->slices[p->e.n_slices++] = *box;
    return TD_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct td_index_row *p = a, *q = b;
    int c = memcmp(p->key, q->key, p->key_len < q->key_len ? p->key_len : q->key_len);
    return c ? c : (p->key_len > q->key_len) - (p->key_len < q->key_len);
}

struct td_index_row *td_index_find(struct td_index *x, const char *key, size_t key_len)
{
    for (int i = x->n_rows - 1; i >= 0; i--) { /* the slices of a variable come one after another */
        if (x->rows[i].key_len == key_len && memcmp(x->rows[i].key, key, x->rows[i].key_len) == 0) {
            return &x->rows[i];
        }
    }
    return NULL;
}

static enum td_code build_index(struct td_index_row *rows, int n, int n_shards, struct td_sstable_writer *w,
                                struct td_sink *value, struct td_err *err)
{
    qsort(rows, (size_t)n, sizeof rows[0], by_key);
    TD_TRY(td_bundle_header_write(n_shards, value, err));
    TD_TRY(td_sstable_add(w, "", 0, value->p, value->n, err));
    for (int i = 0; i < n; i++) {
        value->n = 0;
        TD_FAIL_IF(i > 0 && by_key(&rows[i - 1], &rows[i]) == 0, err, INVALID_ARGUMENT,
                   "Writing a checkpoint: tensor '%.200s' is given twice", rows[i].key);
        TD_TRY(td_bundle_entry_write(&rows[i].e, rows[i].slices, value, err));
        TD_TRY(td_sstable_add(w, rows[i].key, rows[i].key_len, value->p, value->n, err));
    }
    return td_sstable_finish(w, err);
}

enum td_code td_index_write(const struct td_index *x, const char *prefix, int n_shards, char *temp,
                            struct td_err *err)
{
    char path[TD_BUNDLE_PATH];
    struct td_sstable_writer w = {0};
    struct td_sink value = {0};
    TD_TRY(td_bundle_index_path(prefix, path, err));
    TD_TRY(td_file_temp_name(path, temp, err));
    enum td_code rc = build_index(x->rows, x->n_rows, n_shards, &w, &value, err);
    if (rc == TD_OK) {
        rc = td_file_write(temp, w.file.p, w.file.n, err);
    }
    td_sink_fini(&value);
    td_sstable_writer_fini(&w);
    return rc;
}
