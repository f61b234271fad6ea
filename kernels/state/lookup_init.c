/* kernels/state/lookup_init.c - InitializeTable, InitializeTableFromTextFile, InitializeTableFromDataset:
 * tables that are filled once.
 *
 * A text file is read whole through td_file_path (the model's own files only) and parsed line by line: key
 * and value are a column each (0, 1, ...), the whole line (-2) or the line number (-1).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/state/lookup_init.h"
#include "core/base/mem.h"
#include "kernels/data/dataset.h"
#include "kernels/data/files.h"
#include "kernels/ops.h"
#include "kernels/text/parse_number.h"
#include "kernels/text/summarize.h"

#include <string.h>

/* ------------------------------------------------------------------ from tensors */

/* "Key k has v and trying to add value w": of entry i of keys and values, where the table has `had`. */
static enum td_code tell_conflict(struct td_strbuf *b, const struct td_tensor *keys,
                                  const struct td_tensor *values, int64_t i, const struct td_tensor *had,
                                  struct td_err *err)
{
    TD_TRY(td_strbuf_puts(b, "Key ", err));
    TD_TRY(td_summarize_element(b, keys, i, err));
    TD_TRY(td_strbuf_puts(b, " has ", err));
    TD_TRY(td_summarize_element(b, had, 0, err));
    TD_TRY(td_strbuf_puts(b, " and trying to add value ", err));
    TD_TRY(td_summarize_element(b, values, i, err));
    return td_strbuf_putc(b, 0, err);
}

static enum td_code conflict(const struct td_call *c, const struct td_table *t, int64_t entry,
                             const struct td_tensor *keys, const struct td_tensor *values, int64_t i,
                             struct td_err *err)
{
    struct td_strbuf b = {0};
    struct td_tensor had = *values;
    had.data = (char *)t->values + (size_t)entry * td_dtype_size(t->value_dtype);
    enum td_code rc = tell_conflict(&b, keys, values, i, &had, err);
    if (rc == TD_OK) {
        rc = td_fail(err, TD_FAILED_PRECONDITION, "HashTable has different value for same key. %s (%s)", b.p,
                     TD_NODE_STR(c->node));
    }
    td_strbuf_fini(&b);
    return rc;
}

static enum td_code fill(struct td_call *c, struct td_table *t, const struct td_tensor *keys,
                         const struct td_tensor *values, struct td_err *err)
{
    for (int64_t i = 0, n = td_tensor_count(keys); i < n; i++) {
        int64_t entry = td_table_find(t, keys, i);
        if (entry >= 0 && !td_table_value_equals(t, entry, values, i)) {
            return conflict(c, t, entry, keys, values, i, err);
        }
        TD_TRY(td_table_put(t, keys, values, i, err));
    }
    return TD_OK;
}

enum td_code td_lookup_init_from(struct td_call *c, struct td_table *t, const struct td_tensor *keys,
                                 const struct td_tensor *values, struct td_err *err)
{
    enum td_code rc = TD_OK;
    pthread_rwlock_wrlock(&t->lock);
    if (t->initialized) {
        if (td_tensor_count(keys) != t->n) {
            rc = td_fail(err, TD_FAILED_PRECONDITION,
                         "%s: Table was already initialized with different data.", TD_NODE_STR(c->node));
        }
    } else {
        td_table_clear(t);
        rc = fill(c, t, keys, values, err);
        if (rc) {
            td_table_clear(t);
        }
        t->initialized = !rc;
    }
    pthread_rwlock_unlock(&t->lock);
    return rc;
}

static enum td_code init_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[1].rank >= 0 && c->in[1].rank != 1, err, INVALID_ARGUMENT,
               "%s: Keys must be a vector, but received shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]));
    TD_FAIL_IF(c->in[2].rank >= 0 && c->in[2].rank != 1, err, INVALID_ARGUMENT,
               "%s: Values must be a vector, but received shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[2]));
    TD_FAIL_IF(!td_shape_compatible(&c->in[1], &c->in[2]), err, INVALID_ARGUMENT,
               "%s: Keys and values must have the same size %s vs %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]), TD_SHAPE_STR(&c->in[2]));
    TD_FAIL_IF(td_shape_count(&c->in[1]) == 0, err, INVALID_ARGUMENT,
               "%s: keys and values cannot be empty tensors.", TD_NODE_STR(c->node));
    return TD_OK;
}

static enum td_code static_table(const struct td_call *c, struct td_table **t, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &td_table_type, &o, err));
    *t = (struct td_table *)o;
    TD_FAIL_IF((*t)->kind != TD_TABLE_STATIC, err, INVALID_ARGUMENT,
               "%s: a mutable table is not initialized, want one made by HashTable", TD_NODE_STR(c->node));
    return TD_OK;
}

static enum td_code init_run(struct td_call *c, struct td_err *err)
{
    struct td_table *t;
    TD_TRY(static_table(c, &t, err));
    TD_FAIL_IF(c->in[1]->dtype != t->key_dtype || c->in[2]->dtype != t->value_dtype, err, INVALID_ARGUMENT,
               "%s: Conflicting key/value dtypes %s->%s with %s-%s of the table", TD_NODE_STR(c->node),
               td_dtype_name(c->in[1]->dtype), td_dtype_name(c->in[2]->dtype), td_dtype_name(t->key_dtype),
               td_dtype_name(t->value_dtype));
    return td_lookup_init_from(c, t, c->in[1], c->in[2], err);
}

/* ------------------------------------------------------------------ from a text file */

enum { LINE_NUMBER = -1, WHOLE_LINE = -2 };

struct text {
    const struct td_node *node;
    const char *file;
    const char *p;
    size_t n;
    int64_t key_index, value_index, vocab_size, offset;
    char delimiter;
};

struct field {
    const char *p;
    size_t n;
};

static enum td_code text_infer(struct td_infer *c, struct td_err *err)
{
    struct td_bytes d = td_attr_bytes(c->node, "delimiter");
    int64_t key = td_attr_int(c->node, "key_index"), value = td_attr_int(c->node, "value_index");
    int64_t size = td_attr_int(c->node, "vocab_size");
    TD_FAIL_IF(d.len != 1, err, INVALID_ARGUMENT, "%s: delimiter should be only 1 char, got %zu",
               TD_NODE_STR(c->node), d.len);
    TD_FAIL_IF(key < WHOLE_LINE || value < WHOLE_LINE, err, INVALID_ARGUMENT,
               "%s: key_index %lld, value_index %lld, want at least -2", TD_NODE_STR(c->node), (long long)key,
               (long long)value);
    TD_FAIL_IF(size == 0 || size < -1, err, INVALID_ARGUMENT, "%s: vocab_size %lld, want -1 or at least 1",
               TD_NODE_STR(c->node), (long long)size);
    TD_FAIL_IF(c->in[1].rank > 0, err, INVALID_ARGUMENT, "%s: filename should be a single string, but got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]));
    return TD_OK;
}

static enum td_code check_index(const struct text *x, const char *what, int64_t index, enum td_dtype dtype,
                                struct td_err *err)
{
    TD_FAIL_IF(index == LINE_NUMBER && dtype != TD_INT64, err, INVALID_ARGUMENT,
               "%s: %s index for line number requires table %s dtype of int64, got %s", TD_NODE_STR(x->node),
               what, what, td_dtype_name(dtype));
    TD_FAIL_IF(index == WHOLE_LINE && dtype != TD_STRING && dtype != TD_INT64 && dtype != TD_INT32, err,
               INVALID_ARGUMENT, "%s: %s index for whole line requires string or integer table %s, got %s",
               TD_NODE_STR(x->node), what, what, td_dtype_name(dtype));
    return TD_OK;
}

static int64_t count_lines(const struct text *x)
{
    int64_t lines = x->n > 0 && x->p[x->n - 1] != '\n';
    for (const char *at = x->p, *hit; at && (hit = memchr(at, '\n', (size_t)(x->p + x->n - at)));
         at = hit + 1) {
        lines++;
    }
    return lines;
}

/* Line from *at on, without its end and carriage returns; *at moves behind it. line is scratch. */
static enum td_code next_line(const struct text *x, size_t *at, struct td_strbuf *line, struct td_err *err)
{
    const char *from = x->p + *at, *hit = memchr(from, '\n', x->n - *at);
    size_t n = hit ? (size_t)(hit - from) : x->n - *at;
    *at += n + (hit != NULL);
    line->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (from[i] != '\r') {
            TD_TRY(td_strbuf_putc(line, from[i], err));
        }
    }
    TD_TRY(td_strbuf_putc(line, 0, err));
    line->n--;
    return TD_OK;
}

/* Column `index` of the line; false when it has fewer. */
static bool column(const struct text *x, const struct td_strbuf *line, int64_t index, struct field *f)
{
    const char *at = line->p, *end = line->p + line->n;
    for (int64_t i = 0;; i++) {
        const char *hit = memchr(at, x->delimiter, (size_t)(end - at));
        *f = (struct field){at, (size_t)((hit ? hit : end) - at)};
        if (i == index || !hit) {
            return i == index;
        }
        at = hit + 1;
    }
}

static enum td_code set_number(const struct text *x, struct td_tensor *t, int64_t i, struct field f,
                               int64_t number, struct td_err *err)
{
    char text[64];
    bool ok = f.n < sizeof(text) && t->dtype != TD_BOOL;
    if (ok) {
        memcpy(text, f.p, f.n);
        text[f.n] = 0;
        ok = td_parse_number(text, f.n, t->dtype, (char *)t->data + (size_t)i * td_dtype_size(t->dtype));
    }
    TD_FAIL_IF(!ok, err, INVALID_ARGUMENT, "%s: Field %.*s in line %lld is not a valid %s.",
               TD_NODE_STR(x->node), (int)(f.n > 64 ? 64 : f.n), f.p, (long long)number,
               td_dtype_name(t->dtype));
    return TD_OK;
}

static enum td_code set_field(const struct text *x, struct td_tensor *t, int64_t i, int64_t index,
                              const struct td_strbuf *line, struct td_err *err)
{
    struct field f = {line->p, line->n};
    if (index == LINE_NUMBER) {
        TD_DATA(t, int64_t)[i] = i + x->offset;
        return TD_OK;
    }
    TD_FAIL_IF(index >= 0 && !column(x, line, index, &f), err, INVALID_ARGUMENT,
               "%s: Invalid number of columns in %s line %lld (%.100s): expected at least %lld",
               TD_NODE_STR(x->node), x->file, (long long)i, line->p, (long long)index + 1);
    if (t->dtype == TD_STRING) {
        return td_tensor_set_str(t, i, f.p, f.n, err);
    }
    return set_number(x, t, i, f, i, err);
}

/* Keys and values as they are read, to be put into the table at once. */
struct entries {
    struct td_tensor keys, values;
};

static void entries_fini(struct entries *e)
{
    td_tensor_clear(&e->keys);
    td_tensor_clear(&e->values);
}

static enum td_code read_lines(const struct text *x, struct entries *e, struct td_strbuf *line,
                               struct td_err *err)
{
    size_t at = 0;
    for (int64_t i = 0, n = td_tensor_count(&e->keys); i < n; i++) {
        TD_TRY(next_line(x, &at, line, err));
        TD_FAIL_IF(line->n == 0, err, INVALID_ARGUMENT,
                   "%s: Invalid content in %s: empty line found at position %zu.", TD_NODE_STR(x->node),
                   x->file, at);
        TD_TRY(set_field(x, &e->keys, i, x->key_index, line, err));
        TD_TRY(set_field(x, &e->values, i, x->value_index, line, err));
    }
    return TD_OK;
}

static enum td_code read_entries(const struct text *x, const struct td_table *t, const struct td_shape *n,
                                 struct entries *e, struct td_err *err)
{
    struct td_strbuf line = {0};
    TD_TRY(td_tensor_new(&e->keys, t->key_dtype, n, err));
    TD_TRY(td_tensor_new(&e->values, t->value_dtype, n, err));
    enum td_code rc = read_lines(x, e, &line, err);
    td_strbuf_fini(&line);
    return rc;
}

static enum td_code init_text(struct td_call *c, struct td_table *t, const struct text *x, struct td_err *err)
{
    struct entries e = {0};
    int64_t lines = count_lines(x);
    TD_FAIL_IF(x->vocab_size > lines, err, INVALID_ARGUMENT,
               "%s: Invalid vocab_size in %s: expected %lld but got %lld", TD_NODE_STR(x->node), x->file,
               (long long)x->vocab_size, (long long)lines);
    struct td_shape n = td_shape_vector(x->vocab_size > 0 ? x->vocab_size : lines);
    TD_TRY(check_index(x, "Key", x->key_index, t->key_dtype, err));
    TD_TRY(check_index(x, "Value", x->value_index, t->value_dtype, err));
    enum td_code rc = read_entries(x, t, &n, &e, err);
    if (rc == TD_OK) {
        rc = td_lookup_init_from(c, t, &e.keys, &e.values, err);
    }
    entries_fini(&e);
    return rc;
}

static enum td_code text_run(struct td_call *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    struct td_table *t;
    struct td_strbuf bytes = {0};
    size_t len;
    const char *file = td_tensor_str(c->in[1], 0, &len);
    TD_TRY(static_table(c, &t, err));
    enum td_code rc = td_files_read(c, file, len, &bytes, err);
    if (!rc) {
        struct text x = {.node = n,
                         .file = file,
                         .p = bytes.n ? bytes.p : "",
                         .n = bytes.n,
                         .key_index = td_attr_int(n, "key_index"),
                         .value_index = td_attr_int(n, "value_index"),
                         .vocab_size = td_attr_int(n, "vocab_size"),
                         .offset = td_attr_int(n, "offset"),
                         .delimiter = td_attr_str(n, "delimiter")[0]};
        rc = init_text(c, t, &x, err);
    }
    td_strbuf_fini(&bytes);
    return rc;
}

/* ------------------------------------------------------------------ from a dataset */

/* Elements (key, value) of a dataset, gathered until it ends. */
static enum td_code gather(struct td_call *c, struct td_dataset_iter *it, struct td_tensor **items,
                           int64_t *n, struct td_err *err)
{
    int64_t cap = 0;
    for (bool end = false; !end; *n += !end) {
        if (*n == cap) {
            cap = cap ? 2 * cap : 64;
            struct td_tensor *more = td_realloc(*items, (size_t)cap * 2, sizeof *more);
            if (!more) {
                return td_no_memory(err, (size_t)cap * 2 * sizeof *more, "entries of a table");
            }
            *items = more;
        }
        memset(*items + 2 * *n, 0, 2 * sizeof **items);
        TD_TRY(td_dataset_next(c, it, *items + 2 * *n, &end, err));
    }
    return TD_OK;
}

/* Column k of the elements in one vector; every element has as many numbers as the first one. */
static enum td_code column_of(const struct td_tensor *items, int64_t n, int k, enum td_dtype dtype,
                              const struct td_node *node, struct td_tensor *out, struct td_err *err)
{
    struct td_tensor all = {0};
    TD_FAIL_IF(n > 0 && items[k].dtype != dtype, err, INVALID_ARGUMENT,
               "%s: %s of the dataset are %s, the table's are %s", TD_NODE_STR(node),
               k == 0 ? "keys" : "values", td_dtype_name(items[k].dtype), td_dtype_name(dtype));
    if (n == 0) {
        const struct td_shape none = td_shape_vector(0);
        return td_tensor_new(out, dtype, &none, err);
    }
    TD_TRY(td_dataset_stack(items, n, 2, k, &all, err));
    all.shape = td_shape_vector(td_tensor_count(&all));
    *out = all;
    return TD_OK;
}

static enum td_code columns_of(const struct td_node *node, const struct td_table *t,
                               const struct td_tensor *items, int64_t n, struct entries *e,
                               struct td_err *err)
{
    TD_TRY(column_of(items, n, 0, t->key_dtype, node, &e->keys, err));
    TD_TRY(column_of(items, n, 1, t->value_dtype, node, &e->values, err));
    TD_FAIL_IF(td_tensor_count(&e->keys) != td_tensor_count(&e->values), err, INVALID_ARGUMENT,
               "%s: the dataset has %lld keys and %lld values", TD_NODE_STR(node),
               (long long)td_tensor_count(&e->keys), (long long)td_tensor_count(&e->values));
    return TD_OK;
}

static enum td_code init_entries(struct td_call *c, struct td_table *t, const struct td_tensor *items,
                                 int64_t n, struct td_err *err)
{
    struct entries e = {0};
    enum td_code rc = columns_of(c->node, t, items, n, &e, err);
    if (rc == TD_OK) {
        rc = td_lookup_init_from(c, t, &e.keys, &e.values, err);
    }
    entries_fini(&e);
    return rc;
}

static enum td_code init_dataset(struct td_call *c, struct td_table *t, struct td_dataset *ds,
                                 struct td_err *err)
{
    struct td_dataset_iter *it;
    struct td_tensor *items = NULL;
    int64_t n = 0;
    TD_TRY(td_dataset_iter_new(ds, &it, err));
    enum td_code rc = gather(c, it, &items, &n, err);
    if (rc == TD_OK) {
        rc = init_entries(c, t, items, n, err);
    }
    td_dataset_clear(items, 2 * n);
    td_free(items);
    td_dataset_iter_free(it);
    return rc;
}

static enum td_code dataset_run(struct td_call *c, struct td_err *err)
{
    struct td_table *t;
    struct td_dataset *ds;
    TD_TRY(static_table(c, &t, err));
    TD_TRY(td_dataset_in(c, 1, &ds, err));
    TD_FAIL_IF(ds->n_out != 2, err, INVALID_ARGUMENT,
               "%s: the dataset must have keys and values, has %d components", TD_NODE_STR(c->node),
               ds->n_out);
    return init_dataset(c, t, ds, err);
}

#define TENSORS_SIG ", keys:Tkey, values:Tval) -> () {Tkey:type; Tval:type}"
#define TEXT_SIG                                                                                             \
    ", filename:string) -> () {key_index:int; value_index:int; vocab_size:int=-1; delimiter:string='\\t'; "  \
    "offset:int=0}"

const struct td_op td_ops_lookup_init[] = {
    {.name = "InitializeTable",
     .sig = "(table_handle:Ref(string)" TENSORS_SIG,
     .flags = TD_OP_NO_FOLD,
     .infer = init_infer,
     .kernels = TD_KERNEL("lookup.cpu", init_run, {0}),
     .grad = td_not_differentiable},
    {.name = "InitializeTableV2",
     .sig = "(table_handle:resource" TENSORS_SIG,
     .flags = TD_OP_STATEFUL,
     .infer = init_infer,
     .kernels = TD_KERNEL("lookup.cpu", init_run, {0}),
     .grad = td_not_differentiable},
    {.name = "InitializeTableFromTextFile",
     .sig = "(table_handle:Ref(string)" TEXT_SIG,
     .flags = TD_OP_NO_FOLD,
     .infer = text_infer,
     .kernels = TD_KERNEL("lookup.cpu", text_run, {0}),
     .grad = td_not_differentiable},
    {.name = "InitializeTableFromTextFileV2",
     .sig = "(table_handle:resource" TEXT_SIG,
     .flags = TD_OP_STATEFUL,
     .infer = text_infer,
     .kernels = TD_KERNEL("lookup.cpu", text_run, {0}),
     .grad = td_not_differentiable},
    {.name = "InitializeTableFromDataset",
     .sig = "(table_handle:resource, dataset:variant) -> () {}",
     .flags = TD_OP_STATEFUL,
     .kernels = TD_KERNEL("lookup.cpu", dataset_run, {0})},
    {.name = NULL},
};
