/* kernels/state/table.c - the map: dense arrays of keys and values, and slots of entry numbers probed
 * linearly.
 *
 * Invariant (table_check): n_slots >= 2 n, so that probing ends. Removing shifts later slots of the run back
 * (no tombstones).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/state/table.h"

#include "core/base/check.h"
#include "core/base/mem.h"
#include "kernels/text/string_hash.h"

#include <string.h>

static void drop_rows(enum td_dtype dtype, void *rows, int64_t n)
{
    if (td_dtype_is_object(dtype)) {
        for (int64_t i = 0; i < n; i++) {
            td_obj_unref(((td_objp *)rows)[i]);
        }
    }
}

void td_table_clear(struct td_table *t)
{
    drop_rows(t->key_dtype, t->keys, t->n * t->key_width);
    drop_rows(t->value_dtype, t->values, t->n * t->value_width);
    td_free(t->keys);
    td_free(t->values);
    td_free(t->slot);
    t->keys = t->values = NULL;
    t->slot = NULL;
    t->n = t->cap = t->n_slots = 0;
}

static void table_destroy(struct td_obj *o)
{
    struct td_table *t = (struct td_table *)o;
    td_table_clear(t);
    td_tensor_clear(&t->empty_key);
    td_tensor_clear(&t->deleted_key);
    pthread_rwlock_destroy(&t->lock);
    td_free(t);
}

const struct td_obj_type td_table_type = {.name = "LookupTable", .destroy = table_destroy};

enum td_code td_table_create(const void *arg, struct td_obj **out, struct td_err *err)
{
    const struct td_table_opts *o = arg;
    struct td_table *t = td_calloc(1, sizeof(*t));
    if (!t) {
        return td_no_memory(err, sizeof(*t), "a lookup table");
    }
    td_obj_init(&t->obj, &td_table_type);
    pthread_rwlock_init(&t->lock, NULL);
    t->kind = o->kind;
    t->key_dtype = o->key_dtype;
    t->value_dtype = o->value_dtype;
    t->key_shape = o->empty_key ? o->empty_key->shape : td_shape_scalar();
    t->value_shape = o->value_shape;
    t->key_width = td_shape_count(&t->key_shape);
    t->value_width = td_shape_count(&t->value_shape);
    enum td_code rc = o->empty_key ? td_tensor_copy(&t->empty_key, o->empty_key, err) : TD_OK;
    if (!rc && o->deleted_key) {
        rc = td_tensor_copy(&t->deleted_key, o->deleted_key, err);
    }
    if (rc) {
        td_obj_unref(&t->obj);
        return rc;
    }
    *out = &t->obj;
    return TD_OK;
}

/* ------------------------------------------------------------------ keys */

static const char *row_at(const void *rows, int64_t i, int64_t width, enum td_dtype dtype)
{
    return (const char *)rows + (size_t)(i * width) * td_dtype_size(dtype);
}

static const char *str_bytes(const void *elems, int64_t i, size_t *n)
{
    const struct td_str *s = (const struct td_str *)((td_objp const *)elems)[i];
    *n = s ? s->len : 0;
    return s ? s->bytes : "";
}

static uint64_t hash_key(const struct td_table *t, const char *key)
{
    if (t->key_dtype != TD_STRING) {
        uint64_t h = 0;
        if (t->key_width != 1) {
            return td_hash_fingerprint64(key, (size_t)t->key_width * td_dtype_size(t->key_dtype));
        }
        memcpy(&h, key, td_dtype_size(t->key_dtype));
        h ^= h >> 33;
        h *= 0xff51afd7ed558ccdu;
        return h ^ h >> 33;
    }
    uint64_t h = 0;
    for (int64_t i = 0; i < t->key_width; i++) {
        size_t n;
        const char *s = str_bytes(key, i, &n);
        h = h * 31 + td_hash_fingerprint64(s, n);
    }
    return h;
}

bool td_table_rows_equal(enum td_dtype dtype, const void *a, const void *b, int64_t width)
{
    if (dtype != TD_STRING) {
        return width == 0 || memcmp(a, b, (size_t)width * td_dtype_size(dtype)) == 0;
    }
    for (int64_t i = 0; i < width; i++) {
        size_t na, nb;
        const char *sa = str_bytes(a, i, &na), *sb = str_bytes(b, i, &nb);
        if (na != nb || memcmp(sa, sb, na) != 0) {
            return false;
        }
    }
    return true;
}

/* The slot where key is, or the free one where it belongs. */
static int64_t probe(const struct td_table *t, const char *key)
{
    int64_t mask = t->n_slots - 1, at = (int64_t)(hash_key(t, key) & (uint64_t)mask);
    for (; t->slot[at]; at = (at + 1) & mask) {
        if (td_table_rows_equal(t->key_dtype, row_at(t->keys, t->slot[at] - 1, t->key_width, t->key_dtype),
                                key, t->key_width)) {
            break;
        }
    }
    return at;
}

int64_t td_table_find(const struct td_table *t, const struct td_tensor *keys, int64_t i)
{
    return t->n == 0 ? -1 : t->slot[probe(t, row_at(keys->data, i, t->key_width, t->key_dtype))] - 1;
}

/* ------------------------------------------------------------------ changing */

static enum td_code grow_rows(void **rows, enum td_dtype dtype, int64_t width, int64_t from, int64_t to,
                              struct td_err *err)
{
    size_t size = td_dtype_size(dtype), bytes;
    if (!td_size_mul((size_t)width * size, (size_t)to, &bytes)) {
        return td_no_memory(err, SIZE_MAX, "the rows of a lookup table");
    }
    char *p = td_realloc(*rows, bytes ? bytes : 1, 1);
    if (!p) {
        return td_no_memory(err, bytes, "the rows of a lookup table");
    }
    *rows = p;
    memset(p + (size_t)(from * width) * size, 0, bytes - (size_t)(from * width) * size);
    return TD_OK;
}

/* Every slot is empty or an entry's, each entry has one slot, and more than half are empty. */
TD_CHECK_FN enum td_code table_check(const struct td_table *t, struct td_err *err)
{
    int64_t used = 0;
    TD_WANT(t->n <= t->cap && t->n_slots >= 2 * t->n && (t->n_slots & (t->n_slots - 1)) == 0, err,
            "a table of %lld entries has room for %lld and %lld slots", (long long)t->n, (long long)t->cap,
            (long long)t->n_slots);
    for (int64_t i = 0; i < t->n_slots; i++) {
        TD_WANT(t->slot[i] >= 0 && t->slot[i] <= t->n, err, "slot %lld is entry %lld of %lld", (long long)i,
                (long long)t->slot[i], (long long)t->n);
        used += t->slot[i] != 0;
    }
    TD_WANT(used == t->n, err, "%lld slots are used, by %lld entries", (long long)used, (long long)t->n);
    return TD_OK;
}

static enum td_code grow(struct td_table *t, struct td_err *err)
{
    int64_t cap = t->cap ? t->cap * 2 : 16;
    int64_t *slot = td_calloc((size_t)cap * 2, sizeof(*slot));
    if (!slot) {
        return td_no_memory(err, (size_t)cap * 16, "the slots of a lookup table");
    }
    enum td_code rc = grow_rows(&t->keys, t->key_dtype, t->key_width, t->cap, cap, err);
    if (!rc) {
        rc = grow_rows(&t->values, t->value_dtype, t->value_width, t->cap, cap, err);
    }
    if (rc) {
        td_free(slot);
        return rc;
    }
    td_free(t->slot);
    t->slot = slot;
    t->n_slots = cap * 2;
    t->cap = cap;
    for (int64_t e = 0; e < t->n; e++) {
        t->slot[probe(t, row_at(t->keys, e, t->key_width, t->key_dtype))] = e + 1;
    }
    TD_HOLDS(table_check, t);
    return TD_OK;
}

enum td_code td_table_put(struct td_table *t, const struct td_tensor *keys, const struct td_tensor *values,
                          int64_t i, struct td_err *err)
{
    const char *key = row_at(keys->data, i, t->key_width, t->key_dtype);
    int64_t entry = td_table_find(t, keys, i);
    if (entry < 0) {
        if (t->n == t->cap) {
            TD_TRY(grow(t, err));
        }
        entry = t->n;
        t->slot[probe(t, key)] = entry + 1;
        td_elems_copy(t->key_dtype, (char *)row_at(t->keys, entry, t->key_width, t->key_dtype), key,
                      t->key_width);
        t->n++;
    }
    td_elems_copy(t->value_dtype, (char *)row_at(t->values, entry, t->value_width, t->value_dtype),
                  row_at(values->data, i, t->value_width, t->value_dtype), t->value_width);
    return TD_OK;
}

/* Frees slot `at` and moves back the later slots of its run that would not be found past the hole. */
static void free_slot(struct td_table *t, int64_t at)
{
    int64_t mask = t->n_slots - 1;
    for (int64_t next = (at + 1) & mask; t->slot[next]; next = (next + 1) & mask) {
        const char *key = row_at(t->keys, t->slot[next] - 1, t->key_width, t->key_dtype);
        int64_t home = (int64_t)(hash_key(t, key) & (uint64_t)mask);
        if (((next - home) & mask) >= ((next - at) & mask)) {
            t->slot[at] = t->slot[next];
            at = next;
        }
    }
    t->slot[at] = 0;
}

static void clear_row(void *rows, int64_t i, int64_t width, enum td_dtype dtype)
{
    char *row = (char *)row_at(rows, i, width, dtype);
    drop_rows(dtype, row, width);
    memset(row, 0, (size_t)width * td_dtype_size(dtype));
}

void td_table_remove(struct td_table *t, const struct td_tensor *keys, int64_t i)
{
    int64_t entry = td_table_find(t, keys, i), last = t->n - 1;
    if (entry < 0) {
        return;
    }
    free_slot(t, probe(t, row_at(keys->data, i, t->key_width, t->key_dtype)));
    if (entry != last) {
        char *key = (char *)row_at(t->keys, last, t->key_width, t->key_dtype);
        t->slot[probe(t, key)] = entry + 1;
        td_elems_copy(t->key_dtype, (char *)row_at(t->keys, entry, t->key_width, t->key_dtype), key,
                      t->key_width);
        td_elems_copy(t->value_dtype, (char *)row_at(t->values, entry, t->value_width, t->value_dtype),
                      row_at(t->values, last, t->value_width, t->value_dtype), t->value_width);
    }
    clear_row(t->keys, last, t->key_width, t->key_dtype);
    clear_row(t->values, last, t->value_width, t->value_dtype);
    t->n--;
}

void td_table_value(const struct td_table *t, int64_t entry, struct td_tensor *y, int64_t i)
{
    td_elems_copy(t->value_dtype, (char *)row_at(y->data, i, t->value_width, t->value_dtype),
                  row_at(t->values, entry, t->value_width, t->value_dtype), t->value_width);
}

bool td_table_value_equals(const struct td_table *t, int64_t entry, const struct td_tensor *values, int64_t i)
{
    return td_table_rows_equal(t->value_dtype, row_at(t->values, entry, t->value_width, t->value_dtype),
                               row_at(values->data, i, t->value_width, t->value_dtype), t->value_width);
}
