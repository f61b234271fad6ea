/* proto/json/json_tensor.c - request bodies to tensors, tensors to answers.
 *
 * The top level is walked once to find signature_name and the extent of instances / inputs; that extent is
 * found by counting brackets only, since reading the values checks them. Extra work per byte: about a tenth
 * of reading numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_tensor.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/json/json_ahead.h"
#include "proto/json/json_parts.h"
#include "proto/json/json_value.h"
#include "proto/json/json_write.h"

/* ------------------------------------------------------------------ finding the parts */

static enum td_code read_signature(struct td_json *j, struct td_arena *arena, struct td_json_body *out,
                                   struct td_err *err)
{
    struct td_json_str s;
    TD_FAIL_IF(td_json_peek(j) != '"', err, INVALID_ARGUMENT, "'signature_name' key must be a string value.");
    TD_TRY(td_json_string(j, &s, err));
    return td_json_text(j, &s, arena, &out->signature, err);
}

static enum td_code read_member(struct td_json *j, const struct td_json_str *key, struct td_arena *arena,
                                struct td_json_body *out, struct td_err *err)
{
    if (td_json_str_is(key, "signature_name")) {
        return read_signature(j, arena, out, err);
    }
    const bool rows = td_json_str_is(key, "instances");
    if (!rows && !td_json_str_is(key, "inputs")) {
        return td_json_skip(j, err);
    }
    TD_FAIL_IF(out->form != TD_JSON_NO_FORM, err, INVALID_ARGUMENT,
               "Request must have one of 'inputs' and 'instances', once");
    out->form = rows ? TD_JSON_ROWS : TD_JSON_COLUMNS;
    (void)td_json_peek(j);
    out->value = *j;
    TD_TRY(td_json_leap(j, err));
    out->value.end = j->at;
    return TD_OK;
}

enum td_code td_json_body(const char *text, size_t n, struct td_arena *arena, struct td_json_body *out,
                          struct td_err *err)
{
    return td_json_body_ahead(text, n, NULL, arena, out, err);
}

enum td_code td_json_body_ahead(const char *text, size_t n, struct td_json_ahead *ahead,
                                struct td_arena *arena, struct td_json_body *out, struct td_err *err)
{
    struct td_json j = td_json_make(text, n);
    j.ahead = ahead;
    *out = (struct td_json_body){.signature = ""};
    if (td_json_peek(&j) == '\0' && j.at == j.end) {
        return td_json_fail(&j, err, "The document is empty.");
    }
    if (*j.at != '{') {
        struct td_json at = j;
        TD_TRY(td_json_skip(&at, err));
        TD_FAIL(err, INVALID_ARGUMENT, "Request JSON must be an object");
    }
    j.at++;
    out->root = j;
    bool more = true;
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        TD_TRY(td_json_member(&j, first, &key, &more, err));
        if (more) {
            TD_TRY(read_member(&j, &key, arena, out, err));
        }
    }
    out->root.end = j.at;
    return td_json_end(&j, err);
}

bool td_json_body_find(const struct td_json_body *b, const char *key, struct td_json *value)
{
    struct td_json j = b->root;
    struct td_err err = {0};
    bool more = true;
    for (bool first = true; more; first = false) {
        struct td_json_str name;
        if (td_json_member(&j, first, &name, &more, &err) || !more) {
            return false;
        }
        if (td_json_str_is(&name, key)) {
            *value = j;
            return true;
        }
        if (td_json_skip(&j, &err)) {
            return false;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ columns */

/* Which field the key names, looking first where the last search ended; -1 none. */
static int find_field(const struct td_json_field *fields, int n, const struct td_json_str *key, int hint)
{
    for (int i = 0; i < n; i++) {
        const int at = (hint + i) % n;
        if (td_json_str_is(key, fields[at].name)) {
            return at;
        }
    }
    return -1;
}

/* One dense value (scalar or nested lists, {"b64"} for strings) at j, into a new tensor of dtype. */
static enum td_code read_value(struct td_json *j, enum td_dtype dtype, struct td_tensor *out,
                               struct td_err *err)
{
    struct td_gather g;
    struct td_shape shape;
    TD_TRY(td_gather_init(&g, dtype, err));
    enum td_code rc = td_gather_value(&g, j, &shape, err);
    if (rc == TD_OK) {
        rc = td_gather_take(&g, &shape, out, err);
    }
    td_gather_fini(&g);
    return rc;
}

static enum td_code column_members(struct td_json *j, const struct td_json_field *fields, int n_fields,
                                   struct td_tensor *t, struct td_err *err)
{
    bool more = true;
    int at = -1;
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        TD_TRY(td_json_member(j, first, &key, &more, err));
        if (!more) {
            break;
        }
        const int i = find_field(fields, n_fields, &key, at + 1);
        if (i < 0) {
            TD_TRY(td_json_skip(j, err));
            continue;
        }
        TD_FAIL_IF(t[i].dtype != TD_DTYPE_NONE, err, INVALID_ARGUMENT,
                   "Input '%s' is given twice in 'inputs' object.", fields[i].name);
        if (read_value(j, fields[i].dtype, &t[i], err)) {
            return td_err_wrap(err, "Input '%s'", fields[i].name);
        }
        at = i;
    }
    for (int i = 0; i < n_fields; i++) {
        TD_FAIL_IF(t[i].dtype == TD_DTYPE_NONE && !fields[i].optional, err, INVALID_ARGUMENT,
                   "Missing named input: %s in 'inputs' object.", fields[i].name);
    }
    return TD_OK;
}

static enum td_code columns(struct td_json *j, const struct td_json_field *fields, int n_fields,
                            struct td_tensor *t, struct td_err *err)
{
    if (td_json_peek(j) == '{' && !(n_fields == 1 && td_json_at_b64(j))) {
        j->at++;
        return column_members(j, fields, n_fields, t, err);
    }
    TD_FAIL_IF(n_fields != 1, err, INVALID_ARGUMENT,
               "inputs is a plain value/list, but expecting an object with %d named inputs", n_fields);
    return read_value(j, fields[0].dtype, &t[0], err);
}

/* ------------------------------------------------------------------ rows */

struct row_field {
    struct td_gather g;
    struct td_shape shape;
    bool seen;
};

/* Appends one instance's value of one field and holds its shape against the first one's. */
static enum td_code row_value(struct row_field *f, struct td_json *j, int64_t i_row, struct td_err *err)
{
    struct td_shape shape;
    TD_TRY(td_gather_value(&f->g, j, &shape, err));
    f->seen = true;
    if (i_row == 0) {
        f->shape = shape;
        return TD_OK;
    }
    TD_FAIL_IF(td_shape_count(&shape) != td_shape_count(&f->shape), err, INVALID_ARGUMENT,
               "Expecting tensor size: %lld but got: %lld", (long long)td_shape_count(&f->shape),
               (long long)td_shape_count(&shape));
    TD_FAIL_IF(!td_shape_equal(&shape, &f->shape), err, INVALID_ARGUMENT, "Expecting shape %s but got: %s",
               TD_SHAPE_STR(&f->shape), TD_SHAPE_STR(&shape));
    return TD_OK;
}

static enum td_code wrong_keys(const struct td_json_field *fields, int n_fields, int64_t i_row,
                               struct td_err *err)
{
    char keys[512];
    size_t n = 0;
    for (int i = 0; i < n_fields && n < sizeof keys - 1; i++) {
        const int w = snprintf(keys + n, sizeof keys - n, "%s%s", i > 0 ? "," : "", fields[i].name);
        n += w > 0 ? (size_t)w : 0;
    }
    keys[n < sizeof keys ? n : sizeof keys - 1] = '\0';
    TD_FAIL(err, INVALID_ARGUMENT,
            "Failed to process element: %lld of 'instances' list. JSON object: keys must be equal to: %s",
            (long long)i_row, keys);
}

static enum td_code row_object(struct row_field *rows, struct td_json *j, const struct td_json_field *fields,
                               int n_fields, int64_t i_row, struct td_err *err)
{
    j->at++;
    bool more = true;
    int at = -1, n_seen = 0;
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        TD_TRY(td_json_member(j, first, &key, &more, err));
        if (!more) {
            break;
        }
        at = find_field(fields, n_fields, &key, at + 1);
        if (at < 0 || rows[at].seen) {
            return wrong_keys(fields, n_fields, i_row, err);
        }
        if (row_value(&rows[at], j, i_row, err)) {
            return td_err_wrap(err, "Failed to process element: %lld key: %s of 'instances' list. Error: %s",
                               (long long)i_row, fields[at].name, td_code_name(err->code));
        }
        n_seen++;
    }
    if (n_seen != n_fields) {
        return wrong_keys(fields, n_fields, i_row, err);
    }
    for (int i = 0; i < n_fields; i++) {
        rows[i].seen = false;
    }
    return TD_OK;
}

/* One element of the list. objects: whether the first one was an object of named values. */
static enum td_code one_row(struct row_field *rows, struct td_json *j, const struct td_json_field *fields,
                            int n_fields, int64_t i_row, bool *objects, struct td_err *err)
{
    const bool object = td_json_peek(j) == '{' && !(n_fields == 1 && td_json_at_b64(j));
    if (i_row == 0) {
        *objects = object;
        TD_FAIL_IF(!object && n_fields != 1, err, INVALID_ARGUMENT,
                   "instances is a plain list, but expecting list of objects with %d named inputs", n_fields);
    }
    TD_FAIL_IF(object != *objects, err, INVALID_ARGUMENT,
               "Expecting %s in 'instances' list but got %s at index %lld",
               *objects ? "object" : "value/list", object ? "object" : "value/list", (long long)i_row);
    if (object) {
        return row_object(rows, j, fields, n_fields, i_row, err);
    }
    if (row_value(&rows[0], j, i_row, err)) {
        return td_err_wrap(err, "Failed to process element: %lld of 'instances' list. Error: %s",
                           (long long)i_row, td_code_name(err->code));
    }
    return TD_OK;
}

static enum td_code row_list(struct row_field *rows, struct td_json *j, const struct td_json_field *fields,
                             int n_fields, int64_t *n_rows, struct td_err *err)
{
    bool objects = false;
    TD_FAIL_IF(!td_json_eat(j, '['), err, INVALID_ARGUMENT, "'instances' must be a list");
    TD_FAIL_IF(td_json_peek(j) == ']', err, INVALID_ARGUMENT, "'instances' list must not be empty");
    for (*n_rows = 0;;) {
        const char *from = j->at;
        TD_TRY(one_row(rows, j, fields, n_fields, *n_rows, &objects, err));
        ++*n_rows;
        j->pool = j->at - from < TD_JSON_LARGE ? NULL : j->pool; /* as are those behind it, much the same */
        if (td_json_eat(j, ']')) {
            return TD_OK;
        }
        if (!td_json_eat(j, ',')) {
            return td_json_fail(j, err, "Missing a comma or ] after an array element.");
        }
    }
}

static enum td_code take_rows(struct row_field *f, int64_t n_rows, struct td_tensor *t, struct td_err *err)
{
    const struct td_shape first = td_shape_vector(n_rows);
    struct td_shape shape;
    TD_TRY(td_shape_concat(&first, &f->shape, &shape, err));
    return td_gather_take(&f->g, &shape, t, err);
}

/* The rows of a plain list that was read ahead. False: it was not. */
static bool rows_ahead(struct td_json *j, enum td_dtype dtype, struct td_tensor *t, enum td_code *rc,
                       struct td_err *err)
{
    struct td_gather g;
    struct td_shape shape;
    struct td_err ignored = {0};
    if (td_gather_init(&g, dtype, &ignored) || !td_json_ahead_take(j, &g, &shape)) {
        return false;
    }
    *rc = td_gather_take(&g, &shape, t, err);
    td_gather_fini(&g);
    return true;
}

static enum td_code instances(struct td_json *j, const struct td_json_field *fields, int n_fields,
                              struct td_tensor *t, struct td_err *err)
{
    enum td_code rc = TD_OK;
    TD_FAIL_IF(n_fields == 0, err, INVALID_ARGUMENT, "'instances' given, but the signature has no inputs");
    if (n_fields == 1 && rows_ahead(j, fields[0].dtype, t, &rc, err)) {
        return rc;
    }
    struct row_field *rows = td_calloc((size_t)n_fields, sizeof *rows);
    if (rows == NULL) {
        return td_no_memory(err, (size_t)n_fields * sizeof *rows, "the rows of a request");
    }
    int64_t n_rows = 0;
    int n = 0;
    for (; n < n_fields && rc == TD_OK; n++) {
        rc = td_gather_init(&rows[n].g, fields[n].dtype, err);
    }
    rc = rc ? rc : row_list(rows, j, fields, n_fields, &n_rows, err);
    for (int i = 0; i < n_fields && rc == TD_OK; i++) {
        rc = take_rows(&rows[i], n_rows, &t[i], err);
    }
    for (int i = 0; i < n; i++) {
        td_gather_fini(&rows[i].g);
    }
    td_free(rows);
    return rc;
}

enum td_code td_json_inputs(const struct td_json_body *b, const struct td_json_field *fields, int n_fields,
                            struct td_named *out, int *n_out, struct td_err *err)
{
    TD_FAIL_IF(b->form == TD_JSON_NO_FORM, err, INVALID_ARGUMENT, "Missing 'inputs' or 'instances' key");
    struct td_tensor *t = td_calloc((size_t)n_fields + 1, sizeof *t);
    if (t == NULL) {
        return td_no_memory(err, (size_t)n_fields * sizeof *t, "the inputs of a request");
    }
    struct td_json j = b->value;
    enum td_code rc = b->form == TD_JSON_ROWS ? instances(&j, fields, n_fields, t, err)
                                              : columns(&j, fields, n_fields, t, err);
    if (rc == TD_OK && (td_json_peek(&j) != '\0' || j.at != j.end)) {
        rc = td_json_fail(&j, err, "Missing a comma or } after an object member.");
    }
    *n_out = 0;
    for (int i = 0; i < n_fields; i++) {
        if (rc) {
            td_tensor_clear(&t[i]);
        } else if (t[i].dtype != TD_DTYPE_NONE) {
            out[(*n_out)++] = (struct td_named){.name = fields[i].name, .t = t[i]};
        }
    }
    td_free(t);
    return rc;
}

/* ------------------------------------------------------------------ answers */

static bool wants_b64(const char *name)
{
    const size_t n = strlen(name);
    return n >= 6 && strcmp(name + n - 6, "_bytes") == 0;
}

enum td_code td_json_put_dims(struct td_sink *s, const struct td_tensor *t, int axis, int64_t i, bool b64,
                              struct td_err *err)
{
    const int rank = t->shape.rank;
    if (axis == rank) {
        return td_json_put_elems(s, t, i, 1, b64, err);
    }
    const int64_t n = t->shape.dim[axis];
    TD_TRY(td_sink_put(s, "[", 1, err));
    if (axis == rank - 1) {
        TD_TRY(td_json_put_elems(s, t, i, n, b64, err));
    } else if (axis == rank - 2) {
        TD_TRY(td_json_put_lists(s, t, i, n, t->shape.dim[rank - 1], b64, err));
    } else {
        const int64_t stride = td_shape_range(&t->shape, axis + 1, rank);
        for (int64_t k = 0; k < n; k++) {
            TD_TRY(k > 0 ? td_sink_put(s, ", ", 2, err) : TD_OK);
            TD_TRY(td_json_put_dims(s, t, axis + 1, i + k * stride, b64, err));
        }
    }
    return td_sink_put(s, "]", 1, err);
}

static enum td_code put_key(struct td_sink *s, bool first, const char *name, struct td_err *err)
{
    TD_TRY(first ? TD_OK : td_sink_put(s, ", ", 2, err));
    TD_TRY(td_json_put_string(s, name, strlen(name), err));
    return td_sink_put(s, ": ", 2, err);
}

static enum td_code put_member(struct td_sink *s, const struct td_named *t, bool lenient, struct td_err *err)
{
    const size_t mark = s->n;
    struct td_err why = {0};
    if (t->t.dtype == TD_DTYPE_NONE) {
        return td_sink_put(s, "null", 4, err);
    }
    const enum td_code rc = td_json_put_dims(s, &t->t, 0, 0, wants_b64(t->name), &why);
    if (lenient && rc == TD_UNIMPLEMENTED) {
        s->n = mark;
        return td_sink_put(s, "null", 4, err);
    }
    return rc ? td_fail(err, rc, "%s", why.msg) : TD_OK;
}

enum td_code td_json_put_object(struct td_sink *s, const struct td_named *t, int n, bool lenient,
                                struct td_err *err)
{
    TD_TRY(td_sink_put(s, "{", 1, err));
    for (int i = 0; i < n; i++) {
        TD_TRY(put_key(s, i == 0, t[i].name, err));
        TD_TRY(put_member(s, &t[i], lenient, err));
    }
    return td_sink_put(s, "}", 1, err);
}

static enum td_code put_columns(struct td_sink *s, const struct td_named *out, int n, struct td_err *err)
{
    return n == 1 ? td_json_put_dims(s, &out[0].t, 0, 0, wants_b64(out[0].name), err)
                  : td_json_put_object(s, out, n, false, err);
}

/* Row k of every output: the value itself, or an object of them. */
static enum td_code put_row(struct td_sink *s, const struct td_named *out, int n, int64_t k,
                            struct td_err *err)
{
    TD_TRY(n == 1 ? TD_OK : td_sink_put(s, "{", 1, err));
    for (int i = 0; i < n; i++) {
        const struct td_tensor *t = &out[i].t;
        const int64_t stride = td_shape_range(&t->shape, 1, t->shape.rank);
        TD_TRY(n == 1 ? TD_OK : put_key(s, i == 0, out[i].name, err));
        TD_TRY(td_json_put_dims(s, t, 1, k * stride, wants_b64(out[i].name), err));
    }
    return n == 1 ? TD_OK : td_sink_put(s, "}", 1, err);
}

static enum td_code put_rows(struct td_sink *s, const struct td_named *out, int n, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        const struct td_shape *shape = &out[i].t.shape;
        TD_FAIL_IF(shape->rank < 1, err, INVALID_ARGUMENT, "Tensor name: %s has no shape information ",
                   out[i].name);
        TD_FAIL_IF(shape->dim[0] != out[0].t.shape.dim[0], err, INVALID_ARGUMENT,
                   "Tensor name: %s has inconsistent batch size: %lld expecting: %lld", out[i].name,
                   (long long)shape->dim[0], (long long)out[0].t.shape.dim[0]);
    }
    if (n == 1) {
        return put_columns(s, out, n, err);
    }
    const int64_t rows = n > 0 ? out[0].t.shape.dim[0] : 0;
    TD_TRY(td_sink_put(s, "[", 1, err));
    for (int64_t k = 0; k < rows; k++) {
        TD_TRY(k > 0 ? td_sink_put(s, ", ", 2, err) : TD_OK);
        TD_TRY(put_row(s, out, n, k, err));
    }
    return td_sink_put(s, "]", 1, err);
}

enum td_code td_json_outputs(struct td_sink *s, const struct td_named *out, int n, enum td_json_form form,
                             struct td_err *err)
{
    static const char rows[] = "{\n    \"predictions\": ", columns_[] = "{\n    \"outputs\": ";
    if (form == TD_JSON_ROWS) {
        TD_TRY(td_sink_put(s, rows, sizeof rows - 1, err));
        TD_TRY(put_rows(s, out, n, err));
    } else {
        TD_TRY(td_sink_put(s, columns_, sizeof columns_ - 1, err));
        TD_TRY(put_columns(s, out, n, err));
    }
    return td_sink_put(s, "\n}", 2, err);
}
