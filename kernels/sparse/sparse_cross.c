/* kernels/sparse/sparse_cross.c - feature crosses: SparseCross, SparseCrossV2, SparseCrossHashed,
 * RaggedCross.
 *
 * For each row of a batch, every combination of one feature from each column becomes one value: the features'
 * texts joined, or their fingerprints combined. The last column runs fastest. Columns are sparse, dense or
 * ragged; once opened, a column is a list of features with the first feature of each row.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/text/string_hash.h"
#include "kernels/ops.h"
#include "kernels/text/strbuf.h"

#include <inttypes.h>
#include <string.h>

struct column {
    const struct td_tensor *values;
    const struct td_tensor *splits; /* ragged: row starts; else NULL */
    const int64_t *start;           /* sparse: row starts [rows + 1]; else NULL */
    int64_t width;                  /* dense: features a row */
};

struct cross {
    struct td_call *c;
    struct column *col;
    int n; /* columns */
    int64_t rows;
    bool hashed, strong, chain; /* chain: begin with seed, else with the first column's hash */
    uint64_t seed, key[2];
    int64_t buckets;
    const char *sep;
    size_t sep_len;
};

static int64_t row_start(const struct column *k, int64_t row)
{
    return k->splits ? td_tensor_int(k->splits, row) : k->start ? k->start[row] : row * k->width;
}

static int64_t row_len(const struct column *k, int64_t row)
{
    return row_start(k, row + 1) - row_start(k, row);
}

/* ------------------------------------------------------------------ one value */

static uint64_t feature_hash(const struct cross *x, const struct column *k, int64_t i)
{
    bool text = k->values->dtype == TD_STRING, dense = !k->splits && !k->start;
    if (!text && (x->chain || (dense && !x->strong))) { /* a weak hash of a dense number is the number */
        return (uint64_t)td_tensor_int(k->values, i);
    }
    size_t n = 4; /* SparseCrossHashed hashes the low four bytes of a number */
    const char *s = text ? td_tensor_str(k->values, i, &n) : (const char *)(TD_DATA(k->values, int64_t) + i);
    return x->strong ? td_hash_siphash(x->key[0], x->key[1], s, n) : td_hash_fingerprint64(s, n);
}

static int64_t hash_of(const struct cross *x, const int64_t *at)
{
    uint64_t h = x->chain ? x->seed : feature_hash(x, &x->col[0], at[0]);
    for (int k = x->chain ? 0 : 1; k < x->n; k++) {
        h = td_hash_cat64(h, feature_hash(x, &x->col[k], at[k]));
    }
    return (int64_t)(h % (x->buckets > 0 ? (uint64_t)x->buckets : (uint64_t)INT64_MAX));
}

static enum td_code text_of(const struct cross *x, const int64_t *at, struct td_strbuf *b, struct td_err *err)
{
    b->n = 0;
    for (int k = 0; k < x->n; k++) {
        const struct td_tensor *v = x->col[k].values;
        TD_TRY(k ? td_strbuf_put(b, x->sep, x->sep_len, err) : TD_OK);
        if (v->dtype == TD_STRING) {
            size_t n;
            const char *s = td_tensor_str(v, at[k], &n);
            TD_TRY(td_strbuf_put(b, s, n, err));
        } else {
            TD_TRY(td_strbuf_printf(b, err, "%" PRId64, td_tensor_int(v, at[k])));
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ one batch */

static enum td_code count_row(const struct cross *x, int64_t row, int64_t *n, struct td_err *err)
{
    *n = x->n > 0;
    for (int k = 0; k < x->n; k++) {
        TD_FAIL_IF(!td_i64_mul(*n, row_len(&x->col[k], row), n), err, INVALID_ARGUMENT,
                   "%s: row %lld has more combinations than int64 counts", TD_NODE_STR(x->c->node),
                   (long long)row);
    }
    return TD_OK;
}

static enum td_code count_all(const struct cross *x, int64_t *total, int64_t *longest, struct td_err *err)
{
    *total = *longest = 0;
    for (int64_t row = 0; row < x->rows; row++) {
        int64_t n = 0;
        TD_TRY(count_row(x, row, &n, err));
        TD_FAIL_IF(!td_i64_add(*total, n, total), err, INVALID_ARGUMENT,
                   "%s: more combinations than int64 counts", TD_NODE_STR(x->c->node));
        *longest = n > *longest ? n : *longest;
    }
    return TD_OK;
}

/* Where values go: to y from element `at` on. */
struct writer {
    struct td_tensor *y;
    int64_t at;
    int64_t *pos;          /* scratch [n]: the feature taken from each column */
    struct td_strbuf text; /* scratch */
};

/* The n values of one row. */
static enum td_code cross_row(const struct cross *x, int64_t row, int64_t n, struct writer *w,
                              struct td_err *err)
{
    struct td_strbuf *b = &w->text;
    int64_t *pos = w->pos;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        for (int k = x->n - 1; k >= 0; k--) {
            int64_t len = row_len(&x->col[k], row);
            pos[k] = row_start(&x->col[k], row) + rest % len;
            rest /= len;
        }
        if (x->hashed) {
            TD_DATA(w->y, int64_t)[w->at] = hash_of(x, pos);
        } else {
            TD_TRY(text_of(x, pos, b, err));
            TD_TRY(td_tensor_set_str(w->y, w->at, b->n ? b->p : "", b->n, err));
        }
        w->at++;
    }
    return td_stopped(x->c) ? td_stop_error(x->c, err) : TD_OK;
}

static enum td_code cross_rows(const struct cross *x, struct writer *w, struct td_err *err)
{
    for (int64_t row = 0; row < x->rows; row++) {
        int64_t n = 0;
        TD_TRY(count_row(x, row, &n, err));
        TD_TRY(cross_row(x, row, n, w, err));
    }
    return TD_OK;
}

static enum td_code cross_values(const struct cross *x, struct td_tensor *y, struct td_err *err)
{
    void *pos;
    TD_TRY(td_scratch(x->c, (size_t)x->n * 8 + 8, &pos, err));
    struct writer w = {.y = y, .pos = pos};
    enum td_code rc = cross_rows(x, &w, err);
    td_strbuf_fini(&w.text);
    return rc;
}

/* ------------------------------------------------------------------ columns */

/* A row's values are those that stand next when its turn comes: what is out of order, or below or above all
 * rows, ends the column, as in TensorFlow. */
static enum td_code sparse_column(struct cross *x, const struct td_tensor *ix, const struct td_tensor *values,
                                  struct column *k, struct td_err *err)
{
    void *p;
    int64_t n = ix->shape.dim[0], next = 0;
    TD_TRY(td_scratch(x->c, (size_t)(x->rows + 1) * 8, &p, err));
    int64_t *start = p;
    for (int64_t row = 0; row < x->rows; row++) {
        start[row] = next;
        while (next < n && TD_DATA(ix, int64_t)[2 * next] == row) {
            next++;
        }
    }
    start[x->rows] = next;
    *k = (struct column){.values = values, .start = start};
    return TD_OK;
}

/* The same of RaggedCross: what is out of order belongs to the row before it. */
static enum td_code sparse_rows_column(struct cross *x, const struct td_tensor *ix,
                                       const struct td_tensor *values, struct column *k, struct td_err *err)
{
    void *p;
    int64_t n = ix->shape.dim[0], open = 0; /* rows that have begun */
    TD_TRY(td_scratch(x->c, (size_t)(x->rows + 1) * 8, &p, err));
    int64_t *start = p;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = TD_DATA(ix, int64_t)[2 * i];
        TD_FAIL_IF(row < 0 || row >= x->rows, err, INVALID_ARGUMENT,
                   "%s: Got invalid sparse index row %lld, want a row below %lld", TD_NODE_STR(x->c->node),
                   (long long)row, (long long)x->rows);
        while (open <= row) {
            start[open++] = i;
        }
    }
    while (open <= x->rows) {
        start[open++] = n;
    }
    *k = (struct column){.values = values, .start = start};
    return TD_OK;
}

static enum td_code ragged_column(struct cross *x, const struct td_tensor *values,
                                  const struct td_tensor *splits, struct column *k, struct td_err *err)
{
    int64_t n = td_tensor_count(splits), last = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = td_tensor_int(splits, i);
        TD_FAIL_IF(i == 0 ? v != 0 : v < last, err, INVALID_ARGUMENT,
                   "%s: Invalid RaggedTensor row splits: %lld after %lld, want ascending from 0",
                   TD_NODE_STR(x->c->node), (long long)v, (long long)last);
        last = v;
    }
    TD_FAIL_IF(last != td_tensor_count(values), err, INVALID_ARGUMENT,
               "%s: Invalid RaggedTensor row splits: they end with %lld, the ragged values are %lld",
               TD_NODE_STR(x->c->node), (long long)last, (long long)td_tensor_count(values));
    *k = (struct column){.values = values, .splits = splits};
    return TD_OK;
}

static enum td_code batch_size(const struct td_node *node, int64_t rows, int64_t *batch, struct td_err *err)
{
    TD_FAIL_IF(rows < 0 || (*batch >= 0 && rows != *batch), err, INVALID_ARGUMENT,
               "%s: Expected batch size %lld, got %lld: inputs must have the same batch size",
               TD_NODE_STR(node), (long long)*batch, (long long)rows);
    *batch = rows;
    return TD_OK;
}

static enum td_code new_columns(struct cross *x, int n, struct td_err *err)
{
    void *p;
    x->n = n;
    TD_TRY(td_scratch(x->c, (size_t)n * sizeof(struct column) + 1, &p, err));
    x->col = p;
    return TD_OK;
}

/* ------------------------------------------------------------------ sparse and dense columns
 *
 * inputs: indices N x [n_i, 2], values [n_i], shapes N x [2], dense [rows, w], then what the op adds */

static int n_dense(const struct td_node *n)
{
    return td_attr_len(n, "dense_types");
}

static int n_sparse(const struct td_node *n)
{
    return td_attr_len(n, "sparse_types");
}

static enum td_code check_feature_type(const struct td_infer *c, enum td_dtype t, struct td_err *err)
{
    TD_FAIL_IF(t != TD_INT64 && t != TD_STRING, err, INVALID_ARGUMENT,
               "%s: feature of type %s, want int64 or string", TD_NODE_STR(c->node), td_dtype_name(t));
    return TD_OK;
}

static enum td_code check_types(const struct td_infer *c, const char *attr, struct td_err *err)
{
    int n;
    const enum td_dtype *t = td_attr_types(c->node, attr, &n);
    for (int i = 0; i < n; i++) {
        TD_TRY(check_feature_type(c, t[i], err));
    }
    return TD_OK;
}

/* Checks `sparse` sparse columns whose indices, values and shapes start at input `at`. */
static enum td_code check_sparse(const struct td_infer *c, int at, int sparse, struct td_err *err)
{
    for (int i = 0; i < sparse; i++) {
        const struct td_shape *ix = &c->in[at + i], *v = &c->in[at + sparse + i],
                              *s = &c->in[at + 2 * sparse + i];
        TD_FAIL_IF(ix->rank >= 0 && (ix->rank != 2 || (ix->dim[1] >= 0 && ix->dim[1] != 2)), err,
                   INVALID_ARGUMENT,
                   "%s: Expected D2 of index to be 2, got indices of shape %s at position %d",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(ix), i);
        TD_FAIL_IF(v->rank >= 0 && v->rank != 1, err, INVALID_ARGUMENT,
                   "%s: Input values should be a std::vector but received shape %s at position %d",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(v), i);
        TD_FAIL_IF(ix->rank == 2 && v->rank == 1 && ix->dim[0] >= 0 && v->dim[0] >= 0 &&
                       ix->dim[0] != v->dim[0],
                   err, INVALID_ARGUMENT, "%s: Expected size of values to be %lld got %lld at position %d",
                   TD_NODE_STR(c->node), (long long)ix->dim[0], (long long)v->dim[0], i);
        TD_FAIL_IF(s->rank >= 0 && (s->rank != 1 || (s->dim[0] >= 0 && s->dim[0] != 2)), err,
                   INVALID_ARGUMENT, "%s: shape should have two elements, got %s at position %d",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(s), i);
    }
    return TD_OK;
}

static enum td_code check_dense(const struct td_infer *c, int at, int dense, struct td_err *err)
{
    for (int i = 0; i < dense; i++) {
        TD_FAIL_IF(c->in[at + i].rank >= 0 && c->in[at + i].rank != 2, err, INVALID_ARGUMENT,
                   "%s: Dense inputs should be a matrix but received shape %s at position %d",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[at + i]), i);
    }
    return TD_OK;
}

/* Of SparseCross: an internal type string takes strings only. */
static enum td_code check_internal(const struct td_infer *c, struct td_err *err)
{
    int sparse, dense;
    const enum td_dtype *s = td_attr_types(c->node, "sparse_types", &sparse);
    const enum td_dtype *d = td_attr_types(c->node, "dense_types", &dense);
    if (strcmp(c->node->op_name, "SparseCross") != 0 || td_attr_type(c->node, "internal_type") != TD_STRING) {
        return TD_OK;
    }
    for (int i = 0; i < sparse + dense; i++) {
        enum td_dtype t = i < sparse ? s[i] : d[i - sparse];
        TD_FAIL_IF(t != TD_STRING, err, INVALID_ARGUMENT,
                   "%s: %s should be of internal type string but received %s", TD_NODE_STR(c->node),
                   i < sparse ? "Input values" : "Dense inputs", td_dtype_name(t));
    }
    return TD_OK;
}

static enum td_code sparse_infer(struct td_infer *c, struct td_err *err)
{
    int sparse = n_sparse(c->node), dense = n_dense(c->node);
    TD_FAIL_IF(td_attr_int(c->node, "N") != sparse, err, INVALID_ARGUMENT,
               "%s: N is %lld with %d sparse_types", TD_NODE_STR(c->node),
               (long long)td_attr_int(c->node, "N"), sparse);
    TD_TRY(check_types(c, "sparse_types", err));
    TD_TRY(check_types(c, "dense_types", err));
    TD_TRY(check_internal(c, err));
    TD_TRY(check_sparse(c, 0, sparse, err));
    TD_TRY(check_dense(c, 3 * sparse, dense, err));
    for (int i = 3 * sparse + dense; i < c->n_in; i++) {
        int want = strcmp(c->node->op_name, "SparseCrossHashed") == 0 && i == c->n_in - 1 ? 1 : 0;
        TD_TRY(td_infer_rank(c, i, want, err));
        TD_FAIL_IF(want && c->in[i].rank == 1 && c->in[i].dim[0] >= 0 && c->in[i].dim[0] != 2, err,
                   INVALID_ARGUMENT, "%s: salt of %lld values, want 2", TD_NODE_STR(c->node),
                   (long long)c->in[i].dim[0]);
    }
    c->out[0] = td_shape_matrix(-1, 2);
    c->out[1] = td_shape_vector(-1);
    c->out[2] = td_shape_vector(2);
    return TD_OK;
}

static enum td_code open_sparse(struct cross *x, struct td_err *err)
{
    const struct td_call *c = x->c;
    int sparse = n_sparse(c->node), dense = n_dense(c->node);
    x->rows = -1;
    for (int i = 0; i < sparse; i++) {
        TD_TRY(batch_size(c->node, TD_DATA(c->in[2 * sparse + i], int64_t)[0], &x->rows, err));
    }
    for (int i = 0; i < dense; i++) {
        TD_TRY(batch_size(c->node, c->in[3 * sparse + i]->shape.dim[0], &x->rows, err));
    }
    x->rows = x->rows < 0 ? 0 : x->rows;
    TD_FAIL_IF(x->rows > INT64_MAX / 64, err, INVALID_ARGUMENT, "%s: batch size %lld", TD_NODE_STR(c->node),
               (long long)x->rows);
    TD_TRY(new_columns(x, sparse + dense, err));
    for (int i = 0; i < sparse; i++) {
        TD_TRY(sparse_column(x, c->in[i], c->in[sparse + i], &x->col[i], err));
    }
    for (int i = 0; i < dense; i++) {
        const struct td_tensor *d = c->in[3 * sparse + i];
        x->col[sparse + i] = (struct column){.values = d, .width = d->shape.dim[1]};
    }
    return TD_OK;
}

static enum td_code sparse_outputs(struct cross *x, struct td_err *err)
{
    struct td_tensor *ix, *values, *shape;
    int64_t total, longest, at = 0, n = 0;
    TD_TRY(open_sparse(x, err));
    TD_TRY(count_all(x, &total, &longest, err));
    TD_TRY(td_out(x->c, 0, &(struct td_shape){2, {total, 2}}, &ix, err));
    TD_TRY(td_out(x->c, 1, &(struct td_shape){1, {total}}, &values, err));
    TD_TRY(td_out(x->c, 2, NULL, &shape, err));
    TD_DATA(shape, int64_t)[0] = x->rows;
    TD_DATA(shape, int64_t)[1] = longest;
    for (int64_t row = 0; row < x->rows; row++) {
        TD_TRY(count_row(x, row, &n, err));
        for (int64_t i = 0; i < n; i++, at++) {
            TD_DATA(ix, int64_t)[2 * at] = row;
            TD_DATA(ix, int64_t)[2 * at + 1] = i;
        }
    }
    return cross_values(x, values, err);
}

/* What the attributes of SparseCross and RaggedCross say. */
static struct cross cross_of(struct td_call *c)
{
    return (struct cross){.c = c,
                          .hashed = td_attr_bool(c->node, "hashed_output"),
                          .chain = true,
                          .seed = (uint64_t)td_attr_int(c->node, "hash_key"),
                          .buckets = td_attr_int(c->node, "num_buckets"),
                          .sep = "_X_",
                          .sep_len = 3};
}

static enum td_code v1_run(struct td_call *c, struct td_err *err)
{
    struct cross x = cross_of(c);
    TD_FAIL_IF(x.hashed != (td_attr_type(c->node, "out_type") == TD_INT64), err, INVALID_ARGUMENT,
               "%s: out_type %s, want int64 for a hashed output and string otherwise", TD_NODE_STR(c->node),
               td_dtype_name(td_attr_type(c->node, "out_type")));
    return sparse_outputs(&x, err);
}

static enum td_code v2_run(struct td_call *c, struct td_err *err)
{
    struct cross x = {.c = c};
    x.sep = td_tensor_str(c->in[c->n_in - 1], 0, &x.sep_len);
    return sparse_outputs(&x, err);
}

static enum td_code hashed_run(struct td_call *c, struct td_err *err)
{
    const int64_t *salt = c->in[c->n_in - 1]->data;
    struct cross x = {.c = c,
                      .hashed = true,
                      .strong = TD_DATA(c->in[c->n_in - 2], td_bool)[0],
                      .key = {(uint64_t)salt[0], (uint64_t)salt[1]},
                      .buckets = TD_DATA(c->in[c->n_in - 3], int64_t)[0]};
    return sparse_outputs(&x, err);
}

/* ------------------------------------------------------------------ RaggedCross
 *
 * inputs: ragged values, ragged splits, sparse indices, values, shapes, dense; input_order tells how they
 * interleave */

struct layout {
    int ragged, sparse, dense;
};

static struct layout layout_of(const struct td_node *n)
{
    return (struct layout){td_attr_len(n, "ragged_values_types"), td_attr_len(n, "sparse_values_types"),
                           n_dense(n)};
}

static enum td_code ragged_infer(struct td_infer *c, struct td_err *err)
{
    struct layout l = layout_of(c->node);
    const char *order = td_attr_str(c->node, "input_order");
    struct layout seen = {0};
    TD_FAIL_IF(td_attr_len(c->node, "ragged_splits_types") != l.ragged ||
                   td_attr_int(c->node, "Nsparse") != l.sparse,
               err, INVALID_ARGUMENT, "%s: lists of ragged or sparse types differ in length",
               TD_NODE_STR(c->node));
    for (const char *s = order; *s; s++) {
        seen.ragged += *s == 'R';
        seen.sparse += *s == 'S';
        seen.dense += *s == 'D';
    }
    TD_FAIL_IF(seen.ragged != l.ragged || seen.sparse != l.sparse || seen.dense != l.dense ||
                   strlen(order) != (size_t)(l.ragged + l.sparse + l.dense),
               err, INVALID_ARGUMENT, "%s: Invalid input_order: %.60s", TD_NODE_STR(c->node), order);
    TD_TRY(check_types(c, "ragged_values_types", err));
    TD_TRY(check_types(c, "sparse_values_types", err));
    TD_TRY(check_types(c, "dense_types", err));
    TD_TRY(check_feature_type(c, td_attr_type(c->node, "out_values_type"), err));
    for (int i = 0; i < 2 * l.ragged; i++) {
        TD_TRY(td_infer_rank(c, i, 1, err));
        TD_FAIL_IF(i >= l.ragged && c->in[i].rank == 1 && c->in[i].dim[0] == 0, err, INVALID_ARGUMENT,
                   "%s: Invalid RaggedTensor: empty row splits", TD_NODE_STR(c->node));
    }
    TD_TRY(check_sparse(c, 2 * l.ragged, l.sparse, err));
    TD_TRY(check_dense(c, 2 * l.ragged + 3 * l.sparse, l.dense, err));
    c->out[0] = td_shape_vector(-1);
    c->out[1] = td_shape_vector(-1);
    return TD_OK;
}

static enum td_code ragged_batch(struct cross *x, const struct layout *l, struct td_err *err)
{
    const struct td_call *c = x->c;
    x->rows = -1;
    for (int i = 0; i < l->ragged; i++) {
        TD_TRY(batch_size(c->node, td_tensor_count(c->in[l->ragged + i]) - 1, &x->rows, err));
    }
    for (int i = 0; i < l->sparse; i++) {
        const struct td_tensor *shape = c->in[2 * l->ragged + 2 * l->sparse + i];
        TD_TRY(batch_size(c->node, TD_DATA(shape, int64_t)[0], &x->rows, err));
    }
    for (int i = 0; i < l->dense; i++) {
        TD_TRY(batch_size(c->node, c->in[2 * l->ragged + 3 * l->sparse + i]->shape.dim[0], &x->rows, err));
    }
    TD_FAIL_IF(x->rows < 0 || x->rows > INT64_MAX / 64, err, INVALID_ARGUMENT,
               "%s: no inputs, or a batch of %lld rows", TD_NODE_STR(c->node), (long long)x->rows);
    return TD_OK;
}

static enum td_code open_ragged(struct cross *x, struct td_err *err)
{
    const struct td_call *c = x->c;
    struct layout l = layout_of(c->node);
    const struct td_tensor *const *sparse = c->in + 2 * l.ragged, *const *dense = sparse + 3 * l.sparse;
    int r = 0, s = 0, d = 0;
    TD_TRY(ragged_batch(x, &l, err));
    TD_TRY(new_columns(x, l.ragged + l.sparse + l.dense, err));
    for (int k = 0; k < x->n; k++) {
        char what = td_attr_str(c->node, "input_order")[k];
        if (what == 'R') {
            TD_TRY(ragged_column(x, c->in[r], c->in[l.ragged + r], &x->col[k], err));
            r++;
        } else if (what == 'S') {
            TD_TRY(sparse_rows_column(x, sparse[s], sparse[l.sparse + s], &x->col[k], err));
            s++;
        } else {
            x->col[k] = (struct column){.values = dense[d], .width = dense[d]->shape.dim[1]};
            d++;
        }
    }
    return TD_OK;
}

static enum td_code ragged_run(struct td_call *c, struct td_err *err)
{
    struct cross x = cross_of(c);
    struct td_tensor *values, *splits;
    int64_t total, longest, at = 0, n = 0;
    TD_FAIL_IF(x.hashed != (td_attr_type(c->node, "out_values_type") == TD_INT64), err, INVALID_ARGUMENT,
               "%s: out_values_type %s, want int64 for a hashed output and string otherwise",
               TD_NODE_STR(c->node), td_dtype_name(td_attr_type(c->node, "out_values_type")));
    TD_TRY(open_ragged(&x, err));
    TD_TRY(count_all(&x, &total, &longest, err));
    TD_TRY(td_out(c, 0, &(struct td_shape){1, {total}}, &values, err));
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {x.rows + 1}}, &splits, err));
    TD_FAIL_IF(splits->dtype == TD_INT32 && total > INT32_MAX, err, INVALID_ARGUMENT,
               "%s: %lld combinations, more than row splits of type int32 can count", TD_NODE_STR(c->node),
               (long long)total);
    for (int64_t row = 0; row <= x.rows; row++) {
        if (splits->dtype == TD_INT32) {
            TD_DATA(splits, int32_t)[row] = (int32_t)at;
        } else {
            TD_DATA(splits, int64_t)[row] = at;
        }
        TD_TRY(row < x.rows ? count_row(&x, row, &n, err) : TD_OK);
        at += n;
    }
    return cross_values(&x, values, err);
}

#define SPARSE_IN "(indices:N*int64, values:sparse_types, shapes:N*int64, dense_inputs:dense_types"
#define OUT_TYPES (TD_BIT(TD_INT64) | TD_BIT(TD_STRING))

const struct td_op td_ops_sparse_cross[] = {
    {.name = "SparseCross",
     .sig = SPARSE_IN ") -> (output_indices:int64, output_values:out_type, output_shape:int64) {N:int; "
                      "hashed_output:bool; num_buckets:int; hash_key:int; sparse_types:list(type); "
                      "dense_types:list(type); out_type:type; internal_type:type}",
     .infer = sparse_infer,
     .kernels = TD_KERNEL("sparse_cross.cpu", v1_run, {"out_type", OUT_TYPES}, {"internal_type", OUT_TYPES})},
    {.name = "SparseCrossV2",
     .sig = SPARSE_IN
     ", sep:string) -> (output_indices:int64, output_values:string, output_shape:int64) {N:int; "
     "sparse_types:list(type); dense_types:list(type)}",
     .infer = sparse_infer,
     .kernels = TD_KERNEL("sparse_cross.cpu", v2_run, {0})},
    {.name = "SparseCrossHashed",
     .sig = SPARSE_IN ", num_buckets:int64, strong_hash:bool, salt:int64) -> (output_indices:int64, "
                      "output_values:int64, output_shape:int64) {N:int; sparse_types:list(type); "
                      "dense_types:list(type)}",
     .infer = sparse_infer,
     .kernels = TD_KERNEL("sparse_cross.cpu", hashed_run, {0})},
    {.name = "RaggedCross",
     .sig = "(ragged_values:ragged_values_types, ragged_row_splits:ragged_splits_types, "
            "sparse_indices:Nsparse*int64, "
            "sparse_values:sparse_values_types, sparse_shape:Nsparse*int64, dense_inputs:dense_types) -> "
            "(output_values:out_values_type, output_row_splits:out_row_splits_type) {Nsparse:int; "
            "input_order:string; hashed_output:bool; num_buckets:int; hash_key:int; "
            "ragged_values_types:list(type); "
            "ragged_splits_types:list(type); sparse_values_types:list(type); dense_types:list(type); "
            "out_values_type:type; out_row_splits_type:type}",
     .infer = ragged_infer,
     .kernels = TD_KERNEL("sparse_cross.cpu", ragged_run, {"out_row_splits_type", TD_SET_INDEX})},
    {.name = NULL},
};
