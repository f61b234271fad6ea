/* server/train/row_cells.c - values into lists, lists into tensors.
 *
 * A value is appended to its field's list (proto/json/json_value.h) and its shape held against the row's: an
 * input's must fit, a target's may leave out or bring a last dimension of 1. Classes are read as doubles, so
 * that 1.5 can be told from 1, and kept as int64 (row_rules.c).
 *
 * Invariant (td_row_cells_check): between rows, each list holds what the rows so far have: rows * count
 * elements when fixed, else the sum over their shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/row_cells.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"
#include "server/train/row_image.h"
#include "server/train/row_rules.h"
#include "server/train/row_weights.h"

const char *td_row_cells_who(const struct td_row_field *field, char *buf)
{
    (void)snprintf(buf, 160, "%s%.120s", field->kind == TD_ROW_INPUT ? "input " : "",
                   field->kind == TD_ROW_WEIGHT ? "sample_weight" : field->name);
    return buf;
}

TD_CHECK_FN enum td_code td_row_cells_check(const struct td_row_cells *c, struct td_err *err)
{
    for (int i = 0; i < c->n; i++) {
        const struct td_row_cell *cell = &c->cell[i];
        int64_t want = cell->fixed ? c->rows * cell->count : 0;
        for (int64_t k = 0; !cell->fixed && k < c->rows; k++) {
            want += td_shape_count(&cell->shape[k]);
        }
        TD_WANT((int64_t)cell->g.n == want, err, "field %d has %zu elements, its rows %" PRId64, i, cell->g.n,
                want);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ made and freed */

static enum td_code read_pad(struct td_row_cell *cell, struct td_fault *f)
{
    const char *text = cell->field->pad;
    struct td_json j = td_json_make(text, strlen(text));
    struct td_shape shape;
    struct td_err why = {0};
    if (td_gather_value(&cell->g, &j, &shape, &why) || shape.rank != 0) {
        return TD_FAULT(f, "invalid_value", "tensord.padding",
                        "tensord.padding.%s is %.100s, want one %s: %s", cell->field->name, text,
                        td_dtype_name(cell->field->dtype), why.msg);
    }
    memcpy(cell->pad, cell->g.data, cell->g.elem);
    cell->g.n = 0; /* a string's reference is pad's now */
    return TD_OK;
}

static enum td_code init_cell(struct td_row_cells *c, int i, struct td_fault *f)
{
    struct td_row_cell *cell = &c->cell[i];
    const struct td_row_field *field = &c->layout->field[i];
    cell->field = field;
    TD_TRY(td_fault_of(f, td_gather_init(&cell->g, field->dtype, &f->err), "invalid_value",
                       "tensord.signature"));
    TD_TRY(td_fault_of(f, td_gather_init(&cell->weight, TD_DOUBLE, &f->err), "server_error", ""));
    c->n = i + 1;
    cell->row = field->shape;
    if (field->shape.rank > 0) {
        cell->row.rank--;
        memmove(cell->row.dim, cell->row.dim + 1, sizeof cell->row.dim - sizeof cell->row.dim[0]);
    }
    cell->fixed = field->shape.rank > 0 && td_shape_known(&cell->row) && field->pad == NULL;
    cell->count = cell->fixed ? td_shape_count(&cell->row) : 0;
    return field->pad != NULL ? read_pad(cell, f) : TD_OK;
}

enum td_code td_row_cells_new(const struct td_row_layout *layout, const struct td_job_spec *spec,
                              bool class_weights, struct td_row_cells **out, struct td_fault *f)
{
    struct td_row_cells *c = td_calloc(1, sizeof *c);
    enum td_code rc = TD_OK;
    if (c == NULL || (c->cell = td_calloc((size_t)layout->n + 1, sizeof *c->cell)) == NULL) {
        td_free(c);
        return TD_FAULT(f, "server_error", "", "no memory for rows");
    }
    c->layout = layout;
    rc = td_fault_of(f, td_gather_init(&c->numbers, TD_DOUBLE, &f->err), "server_error", "");
    for (int i = 0; i < layout->n && rc == TD_OK; i++) {
        rc = init_cell(c, i, f);
    }
    if (rc == TD_OK && class_weights) {
        rc = td_fault_of(f, td_row_weights_set_classes(c, spec, &f->err), "server_error", "");
    }
    if (rc) {
        td_row_cells_free(c);
        return rc;
    }
    *out = c;
    return TD_OK;
}

void td_row_cells_free(struct td_row_cells *c)
{
    if (c == NULL) {
        return;
    }
    for (int i = 0; i < c->n; i++) {
        struct td_row_cell *cell = &c->cell[i];
        td_gather_fini(&cell->g);
        td_gather_fini(&cell->weight);
        if (cell->field->dtype == TD_STRING) {
            td_obj_unref(*(td_objp *)(void *)cell->pad);
        }
        td_free(cell->shape);
        td_free(cell->class_weight);
    }
    td_gather_fini(&c->numbers);
    td_free(c->bytes);
    td_free(c->cell);
    td_free(c);
}

void td_row_cells_drop(struct td_row_cells *c)
{
    for (int i = 0; i < c->n; i++) {
        td_gather_cut(&c->cell[i].g, 0);
    }
    c->rows = 0;
}

/* ------------------------------------------------------------------ shapes of values */

/* Dims [0, n) go together; -1 in want: any. */
static bool fits(const struct td_shape *want, const struct td_shape *got, int n, bool padded)
{
    for (int i = 0; i < n; i++) {
        const int64_t w = want->dim[i], g = got->dim[i];
        if (w >= 0 && g != w && !(padded && g < w)) {
            return false;
        }
    }
    return true;
}

static bool fits_input(const struct td_row_cell *cell, struct td_shape *got)
{
    const struct td_shape *want = &cell->row;
    if (want->rank < 0) {
        return true;
    }
    while (td_shape_count(got) == 0 && got->rank < want->rank) { /* an empty list of lists */
        got->dim[got->rank] = want->dim[got->rank] > 0 ? want->dim[got->rank] : 0;
        got->rank++;
    }
    return got->rank == want->rank && fits(want, got, want->rank, cell->field->pad != NULL);
}

/* A last dimension of 1 may be left out on either side; *got becomes as wanted. */
static bool fits_target(const struct td_row_cell *cell, struct td_shape *got)
{
    const struct td_shape *want = &cell->row;
    if (want->rank < 0) {
        return true;
    }
    const int shorter = got->rank < want->rank ? got->rank : want->rank;
    const bool one_less = got->rank == want->rank - 1 && want->dim[want->rank - 1] == 1;
    const bool one_more = got->rank == want->rank + 1 && got->dim[got->rank - 1] == 1;
    if ((got->rank != want->rank && !one_less && !one_more) || !fits(want, got, shorter, false)) {
        return false;
    }
    if (one_less) {
        got->dim[got->rank] = 1;
    }
    got->rank = want->rank;
    return true;
}

static enum td_code keep_shape(struct td_row_cells *c, struct td_row_cell *cell, struct td_shape *got,
                               struct td_err *err)
{
    const struct td_shape given = *got;
    const bool fit = cell->field->kind == TD_ROW_TARGET ? fits_target(cell, got) : fits_input(cell, got);
    char who[160];
    TD_FAIL_IF(!fit, err, INVALID_ARGUMENT, "%s is of shape %s, want %s", td_row_cells_who(cell->field, who),
               TD_SHAPE_STR(&given), TD_SHAPE_STR(&cell->row));
    cell->last = *got;
    cell->seen = true;
    if (!cell->fixed) {
        cell->shape[c->rows] = *got;
    }
    return TD_OK;
}

/* Room for one more row everywhere. */
static enum td_code make_room(struct td_row_cells *c, struct td_err *err)
{
    const int64_t cap = c->cap_rows > 0 ? 2 * c->cap_rows : 64;
    for (int i = 0; i < c->n; i++) {
        if (!c->cell[i].fixed) {
            struct td_shape *more = td_realloc(c->cell[i].shape, (size_t)cap, sizeof *more);
            if (more == NULL) {
                return td_no_memory(err, (size_t)cap * sizeof *more, "the shapes of a batch's rows");
            }
            c->cell[i].shape = more;
        }
    }
    c->cap_rows = cap;
    return TD_OK;
}

/* ------------------------------------------------------------------ values */

/* {"b64": "..."} at j, decoded into the scratch. */
static enum td_code read_base64(struct td_row_cells *c, struct td_json *j, size_t *n, struct td_err *err)
{
    struct td_json_str s;
    (void)td_json_eat(j, '{');
    TD_TRY(td_json_string(j, &s, err));
    (void)td_json_eat(j, ':');
    TD_TRY(td_json_string(j, &s, err));
    (void)td_json_eat(j, '}');
    if (s.len > c->cap_bytes) {
        td_free(c->bytes);
        c->bytes = td_realloc(NULL, s.len, 1);
        c->cap_bytes = c->bytes != NULL ? s.len : 0;
        if (c->bytes == NULL) {
            return td_no_memory(err, s.len, "a picture");
        }
    }
    TD_FAIL_IF(!td_json_base64(s.p, s.len, c->bytes, n), err, INVALID_ARGUMENT, "b64 is not base64: '%.*s'",
               s.len > 64 ? 64 : (int)s.len, s.p);
    return TD_OK;
}

/* Whether bytes here are a picture's. */
static bool takes_picture(const struct td_row_cell *cell)
{
    return cell->field->kind == TD_ROW_INPUT && cell->field->dtype != TD_STRING &&
           (cell->row.rank == 3 || cell->row.rank < 0);
}

static int64_t channels(const struct td_row_cell *cell)
{
    return cell->row.rank == 3 ? cell->row.dim[2] : -1;
}

/* The value at j behind what the list holds; *shape as it is given. */
static enum td_code gather(struct td_row_cells *c, struct td_row_cell *cell, struct td_json *j,
                           struct td_shape *shape, struct td_err *err)
{
    size_t n = 0;
    if (cell->field->kind == TD_ROW_TARGET && cell->field->rule == TD_TARGET_CLASS) {
        c->numbers.n = 0;
        TD_TRY(td_gather_value(&c->numbers, j, shape, err));
        return TD_OK;
    }
    if (takes_picture(cell) && td_json_at_b64(j)) {
        TD_TRY(read_base64(c, j, &n, err));
        return td_row_image_decode(c->bytes, n, channels(cell), &cell->g, shape, err);
    }
    TD_TRY(td_gather_reserve(&cell->g, (size_t)cell->count, err));
    return td_gather_value(&cell->g, j, shape, err);
}

enum td_code td_row_cells_json(struct td_row_cells *c, int i, struct td_json *j, struct td_err *err)
{
    struct td_row_cell *cell = &c->cell[i];
    struct td_shape shape;
    const size_t from = cell->g.n;
    char who[160];
    TD_FAIL_IF(cell->seen, err, INVALID_ARGUMENT, "%s is given twice", td_row_cells_who(cell->field, who));
    if (gather(c, cell, j, &shape, err)) {
        return td_err_wrap(err, "%s", td_row_cells_who(cell->field, who));
    }
    TD_TRY(keep_shape(c, cell, &shape, err));
    return td_row_rules_check(c, cell, from, err);
}

/* ------------------------------------------------------------------ lists without a shape */

/* n values as the row's shape; a row of unknown size in one place has what is left there. */
static enum td_code shape_of_list(const struct td_row_cell *cell, int64_t n, struct td_shape *shape,
                                  struct td_err *err)
{
    char who[160];
    int64_t known = 1;
    int open = -1;
    *shape = cell->row;
    for (int i = 0; i < cell->row.rank; i++) {
        if (cell->row.dim[i] < 0 && open < 0) {
            open = i;
        } else if (cell->row.dim[i] < 0 || !td_i64_mul(known, cell->row.dim[i], &known)) {
            TD_FAIL(err, INVALID_ARGUMENT, "%s is a plain list, but its shape %s has two unknown sizes",
                    td_row_cells_who(cell->field, who), TD_SHAPE_STR(&cell->row));
        }
    }
    if (cell->row.rank < 0) {
        *shape = n == 1 ? td_shape_scalar() : td_shape_vector(n);
    } else if (open >= 0 && known > 0 && n % known == 0) {
        shape->dim[open] = n / known;
    } else if (open >= 0 || n != known) {
        if (cell->row.rank != 1 || cell->field->pad == NULL || n > known) {
            TD_FAIL(err, INVALID_ARGUMENT, "%s has %" PRId64 " values, want shape %s",
                    td_row_cells_who(cell->field, who), n, TD_SHAPE_STR(&cell->row));
        }
        *shape = td_shape_vector(n);
    }
    return TD_OK;
}

static double number_at(enum td_dtype type, const void *values, int64_t i)
{
    return type == TD_FLOAT   ? (double)((const float *)values)[i]
           : type == TD_INT64 ? (double)((const int64_t *)values)[i]
                              : ((const double *)values)[i];
}

static enum td_code put_strings(struct td_row_cell *cell, const struct td_bytes *values, int64_t n,
                                struct td_err *err)
{
    TD_TRY(td_gather_reserve(&cell->g, (size_t)n, err));
    td_objp *to = (td_objp *)(void *)cell->g.data;
    for (int64_t i = 0; i < n; i++) {
        struct td_str *s = values[i].len > 0 ? td_str_new(values[i].p, values[i].len) : NULL;
        if (s == NULL && values[i].len > 0) {
            return td_no_memory(err, values[i].len, "a string of a row");
        }
        to[cell->g.n++] = s != NULL ? &s->obj : NULL;
    }
    return TD_OK;
}

/* Integers of the dtype; false: one does not fit. */
static bool put_integers(struct td_row_cell *cell, enum td_dtype type, const void *values, int64_t n)
{
    const enum td_dtype dtype = cell->g.dtype;
    for (int64_t i = 0; i < n; i++) {
        const double real = number_at(type, values, i);
        if (type != TD_INT64 && !(fabs(real) < 0x1p53 && real == floor(real))) {
            return false;
        }
        const int64_t v = type == TD_INT64 ? ((const int64_t *)values)[i] : (int64_t)real;
        struct td_tensor t = {.data = cell->g.data, .dtype = dtype};
        const int64_t at = (int64_t)cell->g.n++;
        if (dtype == TD_BOOL) {
            ((td_bool *)t.data)[at] = (td_bool)v;
            if (v != 0 && v != 1) {
                return false;
            }
            continue;
        }
        td_tensor_set_int(&t, at, v);
        if (dtype == TD_UINT64 ? v < 0 : td_tensor_int(&t, at) != v) {
            return false;
        }
    }
    return true;
}

static void put_reals(struct td_row_cell *cell, enum td_dtype type, const void *values, int64_t n)
{
    char *to = cell->g.data + cell->g.n * cell->g.elem;
    cell->g.n += (size_t)n;
    if (type == cell->g.dtype) {
        memcpy(to, values, (size_t)n * cell->g.elem);
        return;
    }
    for (int64_t i = 0; i < n; i++, to += cell->g.elem) {
        const double v = number_at(type, values, i);
        if (cell->g.dtype == TD_FLOAT) {
            *(float *)(void *)to = (float)v;
        } else if (cell->g.dtype == TD_DOUBLE) {
            *(double *)(void *)to = v;
        } else if (cell->g.dtype == TD_HALF) {
            *(td_half *)(void *)to = td_float_to_half((float)v);
        } else {
            *(td_bf16 *)(void *)to = td_float_to_bf16((float)v);
        }
    }
}

static enum td_code put_list(struct td_row_cells *c, struct td_row_cell *cell, enum td_dtype type,
                             const void *values, int64_t n, struct td_err *err)
{
    char who[160];
    const bool class = cell->field->kind == TD_ROW_TARGET && cell->field->rule == TD_TARGET_CLASS;
    if (type == TD_STRING) {
        return put_strings(cell, values, n, err);
    }
    struct td_gather *to = class ? &c->numbers : &cell->g;
    to->n = class ? 0 : to->n;
    TD_TRY(td_gather_reserve(to, (size_t)n, err));
    if (class) {
        for (int64_t i = 0; i < n; i++) {
            ((double *)(void *)to->data)[to->n++] = number_at(type, values, i);
        }
        return TD_OK;
    }
    if (td_dtype_in(to->dtype, TD_SET_FLOATS)) {
        put_reals(cell, type, values, n);
        return TD_OK;
    }
    TD_FAIL_IF(!put_integers(cell, type, values, n), err, INVALID_ARGUMENT, "%s has a number that is no %s",
               td_row_cells_who(cell->field, who), td_dtype_name(to->dtype));
    return TD_OK;
}

enum td_code td_row_cells_list(struct td_row_cells *c, int i, enum td_dtype type, const void *values,
                               int64_t n, struct td_err *err)
{
    struct td_row_cell *cell = &c->cell[i];
    struct td_shape shape;
    const size_t from = cell->g.n;
    char who[160];
    const bool picture = type == TD_STRING && n == 1 && takes_picture(cell);
    TD_FAIL_IF(cell->seen, err, INVALID_ARGUMENT, "%s is given twice", td_row_cells_who(cell->field, who));
    TD_FAIL_IF(!picture && (type == TD_STRING) != (cell->field->dtype == TD_STRING), err, INVALID_ARGUMENT,
               "%s has %s, want %s", td_row_cells_who(cell->field, who),
               type == TD_STRING ? "bytes" : "numbers", td_dtype_name(cell->field->dtype));
    if (picture) {
        const struct td_bytes *b = values;
        if (td_row_image_decode(b->p, b->len, channels(cell), &cell->g, &shape, err)) {
            return td_err_wrap(err, "%s", td_row_cells_who(cell->field, who));
        }
    } else {
        TD_TRY(shape_of_list(cell, n, &shape, err));
        TD_TRY(put_list(c, cell, type, values, n, err));
    }
    TD_TRY(keep_shape(c, cell, &shape, err));
    return td_row_rules_check(c, cell, from, err);
}

/* ------------------------------------------------------------------ rows */

enum td_code td_row_cells_begin(struct td_row_cells *c, struct td_err *err)
{
    for (int i = 0; i < c->n; i++) {
        c->cell[i].seen = false;
    }
    return c->rows < c->cap_rows ? TD_OK : make_room(c, err);
}

/* The next field from *i on that this weight is of; NULL: none. */
static struct td_row_cell *weight_cell(struct td_row_cells *c, const char *name, int *i)
{
    for (; *i < c->n; ++*i) {
        struct td_row_cell *cell = &c->cell[*i];
        if (cell->field->kind == TD_ROW_WEIGHT && !cell->seen &&
            (name == NULL || strcmp(cell->field->name, name) == 0)) {
            return cell;
        }
    }
    return NULL;
}

enum td_code td_row_cells_weight(struct td_row_cells *c, const char *name, struct td_json *j,
                                 struct td_err *err)
{
    const struct td_json start = *j;
    struct td_row_cell *cell;
    bool taken = false;
    for (int i = 0; (cell = weight_cell(c, name, &i)) != NULL; taken = true) {
        *j = start;
        cell->weight.n = 0;
        if (td_gather_value(&cell->weight, j, &cell->weight_shape, err)) {
            return td_err_wrap(err, "sample_weight");
        }
        cell->seen = true;
    }
    return taken ? TD_OK : td_json_leap(j, err);
}

enum td_code td_row_cells_weight_list(struct td_row_cells *c, const char *name, enum td_dtype type,
                                      const void *values, int64_t n, struct td_err *err)
{
    struct td_row_cell *cell;
    TD_FAIL_IF(type == TD_STRING, err, INVALID_ARGUMENT, "sample_weight has bytes, want numbers");
    for (int i = 0; (cell = weight_cell(c, name, &i)) != NULL;) {
        cell->weight.n = 0;
        TD_TRY(td_gather_reserve(&cell->weight, (size_t)n, err));
        for (int64_t k = 0; k < n; k++) {
            ((double *)(void *)cell->weight.data)[cell->weight.n++] = number_at(type, values, k);
        }
        cell->weight_shape = n == 1 ? td_shape_scalar() : td_shape_vector(n);
        cell->seen = true;
    }
    return TD_OK;
}

enum td_code td_row_cells_end(struct td_row_cells *c, struct td_err *err)
{
    char who[160];
    for (int i = 0; i < c->n; i++) {
        const struct td_row_field *field = c->cell[i].field;
        TD_FAIL_IF(!c->cell[i].seen && field->kind != TD_ROW_WEIGHT, err, INVALID_ARGUMENT, "%s is missing",
                   td_row_cells_who(field, who));
    }
    for (int i = 0; i < c->n; i++) {
        if (c->cell[i].field->kind == TD_ROW_WEIGHT) {
            TD_TRY(td_row_weights_put(c, i, err));
        }
    }
    c->rows++;
    TD_HOLDS(td_row_cells_check, c);
    return TD_OK;
}
