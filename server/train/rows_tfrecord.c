/* server/train/rows_tfrecord.c - records of tf.Example.
 *
 * A feature is named as an input is, "targets", "targets.KEY" or KEY, "sample_weight" or
 * "sample_weight.OUTPUT"; others are ignored. Its values are a plain list that takes the field's shape. An
 * input of strings that is the signature's only one, and of which there is no feature, is the record itself:
 * models that parse examples are trained on the examples that they are served.
 *
 *   record   uint64 length | uint32 masked CRC of it | bytes | uint32 masked CRC of those (little-endian)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/data/example_reader.h"
#include "proto/bytes/crc32c.h"
#include "server/train/rows_impl.h"

enum { BEFORE = 12, AFTER = 4 };

struct examples {
    struct td_bytes *key;
    int *field; /* by key; -1: "sample_weight", of all that have none of their own */
    struct td_example_span *found;
    int32_t *slots;
    struct td_example_keys keys;
    int n;
};

static uint32_t fixed32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* A length whose checksum is wrong is left to read_row, with what there is of the record. */
static size_t extent(const char *p, size_t n, bool end)
{
    uint64_t len;
    if (n < BEFORE) {
        return end ? n : 0;
    }
    memcpy(&len, p, sizeof len);
    if (td_crc32c_mask(td_crc32c(0, p, 8)) != fixed32(p + 8)) {
        return BEFORE;
    }
    if (len > TD_ROW_BYTES) {
        return SIZE_MAX;
    }
    return n >= BEFORE + len + AFTER ? BEFORE + len + AFTER : end ? n : 0;
}

/* ------------------------------------------------------------------ what is looked for */

static void want(struct examples *s, const char *name, int field)
{
    s->key[s->n] = (struct td_bytes){name, strlen(name)};
    s->field[s->n++] = field;
}

/* Of one field, earlier names win. */
static void want_all(struct examples *s, const struct td_row_layout *l)
{
    for (int i = 0; i < l->n; i++) {
        const char *name = l->field[i].name;
        want(s, name, i);
        if (l->field[i].kind == TD_ROW_TARGET && strncmp(name, "targets.", 8) == 0) {
            const int owner = td_row_name_find(l, name + 8, strlen(name + 8));
            if (owner >= 0 && strcmp(l->field[owner].name, name) == 0) { /* not an input's name */
                want(s, name + 8, i);
            }
        }
    }
    want(s, "sample_weight", -1);
}

static enum td_code open_state(struct td_row_reader *r, struct td_err *err)
{
    const size_t most = 2 * (size_t)r->rows->layout->n + 1;
    struct examples *s = td_calloc(1, sizeof *s);
    r->state = s;
    if (s == NULL || (s->key = td_calloc(most, sizeof *s->key)) == NULL ||
        (s->field = td_calloc(most, sizeof *s->field)) == NULL ||
        (s->found = td_calloc(most, sizeof *s->found)) == NULL ||
        (s->slots = td_calloc((size_t)td_example_slots((int)most), sizeof *s->slots)) == NULL) {
        return td_no_memory(err, most * sizeof *s->key, "the features of a TFRecord file");
    }
    want_all(s, r->rows->layout);
    td_example_keys_init(&s->keys, s->key, s->n, s->slots);
    return TD_OK;
}

static void close_state(struct td_row_reader *r)
{
    struct examples *s = r->state;
    if (s != NULL) {
        td_free(s->key);
        td_free(s->field);
        td_free(s->found);
        td_free(s->slots);
    }
    td_free(s);
}

/* ------------------------------------------------------------------ a record */

/* Values of a feature into field i (-1: sample_weight of all). */
static enum td_code put(struct td_row_reader *r, int i, const struct td_tensor *t, struct td_err *err)
{
    const struct td_row_field *field = i >= 0 ? &r->rows->layout->field[i] : NULL;
    const int64_t n = t->shape.dim[0];
    if (field == NULL || field->kind == TD_ROW_WEIGHT) {
        return td_row_cells_weight_list(r->cells, field != NULL ? field->name : NULL, t->dtype, t->data, n,
                                        err);
    }
    if (t->dtype != TD_STRING) {
        return td_row_cells_list(r->cells, i, t->dtype, t->data, n, err);
    }
    struct td_bytes *strings = td_calloc((size_t)n + 1, sizeof *strings);
    if (strings == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *strings, "a feature's strings");
    }
    for (int64_t k = 0; k < n; k++) {
        strings[k].p = td_tensor_str(t, k, &strings[k].len);
    }
    const enum td_code rc = td_row_cells_list(r->cells, i, TD_STRING, strings, n, err);
    td_free(strings);
    return rc;
}

static enum td_code read_feature(struct td_row_reader *r, int key, struct td_err *err)
{
    const struct examples *s = r->state;
    const int i = s->field[key];
    enum td_dtype type = TD_DTYPE_NONE;
    int64_t n = -1;
    struct td_tensor t;
    if (s->found[key].p == NULL || (i >= 0 && r->cells->cell[i].seen)) {
        return TD_OK;
    }
    const bool read = td_example_type(s->found[key], &type);
    n = read && type != TD_DTYPE_NONE ? td_example_count(s->found[key]) : 0;
    TD_FAIL_IF(!read || n < 0, err, INVALID_ARGUMENT, "feature %.100s is malformed", s->key[key].p);
    if (type == TD_DTYPE_NONE) {
        return TD_OK;
    }
    const struct td_shape shape = td_shape_vector(n);
    TD_TRY(td_tensor_new(&t, type, &shape, err));
    enum td_code rc = td_example_copy(s->found[key], &t, 0, err);
    rc = rc ? rc : put(r, i, &t, err);
    td_tensor_clear(&t);
    return rc;
}

static enum td_code check_record(const char *p, size_t n, struct td_err *err)
{
    uint64_t len = 0;
    TD_FAIL_IF(n < BEFORE, err, INVALID_ARGUMENT, "the record is cut off");
    memcpy(&len, p, sizeof len);
    TD_FAIL_IF(td_crc32c_mask(td_crc32c(0, p, 8)) != fixed32(p + 8), err, INVALID_ARGUMENT,
               "the checksum of the record's length is wrong: the file is damaged, or no TFRecord");
    TD_FAIL_IF(n < BEFORE + len + AFTER, err, INVALID_ARGUMENT, "the record is cut off");
    TD_FAIL_IF(td_crc32c_mask(td_crc32c(0, p + BEFORE, (size_t)len)) != fixed32(p + BEFORE + len), err,
               INVALID_ARGUMENT, "the checksum of the record is wrong: the file is damaged");
    return TD_OK;
}

static enum td_code read_row(struct td_row_reader *r, const char *p, size_t n, bool strict,
                             struct td_err *err)
{
    const struct td_row_layout *l = r->rows->layout;
    const struct examples *s = r->state;
    (void)strict;
    TD_TRY(check_record(p, n, err));
    const struct td_bytes record = {p + BEFORE, n - BEFORE - AFTER};
    TD_FAIL_IF(!td_example_map(record.p, record.len, 1, &s->keys, s->found), err, INVALID_ARGUMENT,
               "the record is no tf.Example");
    for (int i = 0; i < s->n; i++) {
        TD_TRY(read_feature(r, i, err));
    }
    const bool itself = l->bare_input && l->field[0].dtype == TD_STRING && r->cells->cell[0].row.rank <= 0;
    return itself && !r->cells->cell[0].seen ? td_row_cells_list(r->cells, 0, TD_STRING, &record, 1, err)
                                             : TD_OK;
}

const struct td_row_format td_rows_tfrecord = {
    .ending = ".tfrecord",
    .extent = extent,
    .open = open_state,
    .read = read_row,
    .close = close_state,
};
