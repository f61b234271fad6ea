/* kernels/data/decode_csv.c - DecodeCSV: a record a string, RFC 4180 quoting, one output a column.
 *
 * Fields are read into one buffer, one after another; a record that breaks a rule fails the call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/text/parse_number.h"
#include "kernels/text/strbuf.h"

#include <string.h>

struct csv {
    const struct td_node *node;
    char delim;
    bool quotes;
    const int64_t *cols; /* NULL: all */
    int n_cols;
    struct td_bytes na;
};

/* ------------------------------------------------------------------ one record */

static enum td_code plain_field(const struct csv *v, const char *s, size_t n, size_t *at, struct td_strbuf *b,
                                struct td_err *err)
{
    for (; *at < n && s[*at] != v->delim; (*at)++) {
        TD_FAIL_IF((v->quotes && s[*at] == '"') || s[*at] == '\n' || s[*at] == '\r', err, INVALID_ARGUMENT,
                   "%s: Unquoted fields cannot have quotes/CRLFs inside", TD_NODE_STR(v->node));
        TD_TRY(td_strbuf_putc(b, s[*at], err));
    }
    (*at)++;
    return TD_OK;
}

static enum td_code quoted_field(const struct csv *v, const char *s, size_t n, size_t *at,
                                 struct td_strbuf *b, struct td_err *err)
{
    size_t i = *at + 1;
    while (i + 1 < n && (s[i] != '"' || s[i + 1] != v->delim)) {
        TD_FAIL_IF(s[i] == '"' && s[i + 1] != '"', err, INVALID_ARGUMENT,
                   "%s: Quote inside a string has to be escaped by another quote", TD_NODE_STR(v->node));
        TD_TRY(td_strbuf_putc(b, s[i], err));
        i += s[i] == '"' ? 2 : 1;
    }
    TD_FAIL_IF(i >= n || s[i] != '"' || (i + 1 < n && s[i + 1] != v->delim), err, INVALID_ARGUMENT,
               "%s: Quoted field has to end with quote followed by delim or end", TD_NODE_STR(v->node));
    *at = i + 2;
    return TD_OK;
}

/* Whether column `i` is wanted, `taken` being those wanted so far. */
static bool wanted(const struct csv *v, int64_t i, int taken)
{
    return !v->cols || (taken < v->n_cols && v->cols[taken] == i);
}

/* The wanted fields of one record, each with a NUL behind it. */
struct fields {
    struct td_strbuf text;
    size_t *end;    /* field k ends there: room for max of them */
    int count, max; /* count: at most one more than max, of a record that has too many */
};

/* Closes the field that was read last. */
static enum td_code end_field(struct fields *f, struct td_err *err)
{
    if (f->count < f->max) {
        f->end[f->count] = f->text.n;
    }
    f->count++;
    return td_strbuf_putc(&f->text, 0, err);
}

static enum td_code split(const struct csv *v, const char *s, size_t n, struct fields *f, struct td_err *err)
{
    struct td_strbuf *b = &f->text;
    int64_t column = 0;
    size_t at = 0;
    f->count = 0;
    b->n = 0;
    while (at < n) {
        TD_FAIL_IF(s[at] == '\n' || s[at] == '\r', err, INVALID_ARGUMENT,
                   "%s: Unquoted fields cannot have quotes/CRLFs inside", TD_NODE_STR(v->node));
        size_t from = b->n;
        bool take = wanted(v, column, f->count), quoted = v->quotes && s[at] == '"';
        TD_TRY(quoted ? quoted_field(v, s, n, &at, b, err) : plain_field(v, s, n, &at, b, err));
        column++;
        if (!take) {
            b->n = from;
            continue;
        }
        TD_TRY(end_field(f, err));
        if (v->cols && f->count == v->n_cols) {
            return TD_OK;
        }
    }
    return n > 0 && s[n - 1] == v->delim && wanted(v, column, f->count) ? end_field(f, err) : TD_OK;
}

/* ------------------------------------------------------------------ the op */

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    struct td_bytes delim = td_attr_bytes(c->node, "field_delim");
    int n;
    const int64_t *cols = td_attr_ints(c->node, "select_cols", &n);
    TD_FAIL_IF(delim.len != 1, err, INVALID_ARGUMENT, "%s: field_delim should be only 1 char",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(n && n != c->n_out, err, INVALID_ARGUMENT,
               "%s: select_cols should match output size: %d vs. %d", TD_NODE_STR(c->node), n, c->n_out);
    for (int i = 0; i < n; i++) {
        TD_FAIL_IF(cols[i] < 0 || (i && cols[i] <= cols[i - 1]), err, INVALID_ARGUMENT,
                   "%s: select_cols should be strictly increasing indices of at least 0, got %lld",
                   TD_NODE_STR(c->node), (long long)cols[i]);
    }
    const enum td_dtype *types = td_attr_types(c->node, "OUT_TYPE", &n);
    uint32_t allowed = TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_INDEX | TD_BIT(TD_STRING);
    for (int i = 0; i < n; i++) {
        int64_t count = td_shape_count(&c->in[1 + i]);
        TD_FAIL_IF(!td_dtype_in(types[i], allowed), err, INVALID_ARGUMENT,
                   "%s: csv: data type %s not supported", TD_NODE_STR(c->node), td_dtype_name(types[i]));
        TD_FAIL_IF(c->in[1 + i].rank > 1 || count > 1, err, INVALID_ARGUMENT,
                   "%s: There should only be 1 default per field but field %d has %lld", TD_NODE_STR(c->node),
                   i, (long long)count);
        c->out[i] = c->in[0];
    }
    return TD_OK;
}

static enum td_code put_field(struct td_call *c, const struct csv *v, int f, int64_t record,
                              struct td_bytes text, struct td_tensor *y, struct td_err *err)
{
    const char *s = text.p;
    const size_t n = text.len;
    const struct td_tensor *def = c->in[1 + f];
    char *out = (char *)y->data + (size_t)record * td_dtype_size(y->dtype);
    if (n == 0 || (n == v->na.len && memcmp(s, v->na.p, n) == 0)) {
        TD_FAIL_IF(td_tensor_count(def) != 1, err, INVALID_ARGUMENT,
                   "%s: Field %d is required but missing in record %lld!", TD_NODE_STR(v->node), f,
                   (long long)record);
        td_elems_copy(y->dtype, out, def->data, 1);
        return TD_OK;
    }
    if (y->dtype == TD_STRING) {
        return td_tensor_set_str(y, record, s, n, err);
    }
    TD_FAIL_IF(!td_parse_number(s, n, y->dtype, out), err, INVALID_ARGUMENT,
               "%s: Field %d in record %lld is not a valid %s: %.100s", TD_NODE_STR(v->node), f,
               (long long)record, td_dtype_name(y->dtype), s);
    return TD_OK;
}

static enum td_code records(struct td_call *c, const struct csv *v, struct td_tensor **y,
                            struct fields *found, struct td_err *err)
{
    for (int64_t i = 0, n = td_tensor_count(c->in[0]); i < n && !td_work_spent(256); i++) {
        size_t len, from = 0;
        const char *s = td_tensor_str(c->in[0], i, &len);
        TD_TRY(split(v, s, len, found, err));
        TD_FAIL_IF(found->count != c->n_out, err, INVALID_ARGUMENT,
                   "%s: Expect %d fields but have %d in record %lld", TD_NODE_STR(v->node), c->n_out,
                   found->count, (long long)i);
        for (int f = 0; f < found->count; f++) {
            struct td_bytes text = {found->text.p + from, found->end[f] - from};
            TD_TRY(put_field(c, v, f, i, text, y[f], err));
            from = found->end[f] + 1;
        }
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct csv v = {.node = c->node,
                    .delim = td_attr_str(c->node, "field_delim")[0],
                    .quotes = td_attr_bool(c->node, "use_quote_delim"),
                    .na = td_attr_bytes(c->node, "na_value")};
    void *y, *end;
    v.cols = td_attr_ints(c->node, "select_cols", &v.n_cols);
    v.cols = v.n_cols ? v.cols : NULL;
    TD_TRY(td_scratch(c, (size_t)c->n_out * sizeof(struct td_tensor *) + 1, &y, err));
    TD_TRY(td_scratch(c, (size_t)c->n_out * sizeof(size_t) + 1, &end, err));
    for (int i = 0; i < c->n_out; i++) {
        TD_TRY(td_out(c, i, NULL, (struct td_tensor **)y + i, err));
    }
    struct fields found = {.end = end, .max = c->n_out};
    enum td_code rc = records(c, &v, y, &found, err);
    td_strbuf_fini(&found.text);
    return rc;
}

const struct td_op td_ops_decode_csv[] = {
    {.name = "DecodeCSV",
     .sig =
         "(records:string, record_defaults:OUT_TYPE) -> (output:OUT_TYPE) {OUT_TYPE:list(type); "
         "field_delim:string=','; use_quote_delim:bool=true; na_value:string=''; select_cols:list(int)=[]}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = infer,
     .kernels = TD_KERNEL("decode_csv.cpu", run, {0})},
    {.name = NULL},
};
