/* server/train/spec_read.c - the rows of spec_read.h: kinds of values, and objects of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/spec_read.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/arena.h"

/* ------------------------------------------------------------------ paths and faults */

size_t td_spec_read_enter(struct td_spec_reader *r, const char *name)
{
    const size_t mark = strlen(r->path);
    (void)snprintf(r->path + mark, sizeof r->path - mark, "%s%.100s", mark > 0 ? "." : "", name);
    return mark;
}

size_t td_spec_read_item(struct td_spec_reader *r, int i)
{
    const size_t mark = strlen(r->path);
    (void)snprintf(r->path + mark, sizeof r->path - mark, "[%d]", i);
    return mark;
}

void td_spec_read_leave(struct td_spec_reader *r, size_t mark)
{
    r->path[mark] = '\0';
}

/* A value as a message shows it: its JSON text, cut when it is long. */
static const char *shown(json_t *value, char *buf, size_t size)
{
    const size_t n =
        json_dumpb(value, buf, size - 4, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (n == 0) {
        return "null";
    }
    (void)snprintf(buf + (n < size - 4 ? n : size - 4), 4, "%s", n < size - 4 ? "" : "...");
    return buf;
}

enum td_code td_spec_read_wrong(struct td_spec_reader *r, json_t *value, const char *fmt, ...)
{
    char text[128], want[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(want, sizeof want, fmt, args);
    va_end(args);
    return TD_FAULT(r->f, "invalid_value", r->path, "%s is %s, want %s", r->path,
                    shown(value, text, sizeof text), want);
}

enum td_code td_spec_read_unknown(struct td_spec_reader *r, const char *what, const char *name,
                                  const char *(*row)(int i))
{
    char list[600] = "";
    for (int i = 0; row(i) != NULL; i++) {
        const size_t n = strlen(list);
        (void)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "", row(i));
    }
    return TD_FAULT(r->f, "invalid_value", r->path, "%s is \"%.100s\", which is no %s; there are %s", r->path,
                    name, what, list);
}

void *td_spec_read_alloc(struct td_spec_reader *r, size_t n, size_t size)
{
    void *p = td_arena_alloc(r->spec->arena, n > 0 ? n : 1, size);
    if (p == NULL) {
        (void)TD_FAULT(r->f, "server_error", r->path, "no memory for what %s says", r->path);
    }
    return p;
}

/* ------------------------------------------------------------------ values */

/* An integer, also one that is written as a real (8.0). */
static bool is_integer(json_t *value, int64_t *out)
{
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    const double v = json_is_real(value) ? json_real_value(value) : 0.5;
    if (!(fabs(v) <= 0x1p53) || v != floor(v)) {
        return false;
    }
    *out = (int64_t)v;
    return true;
}

enum td_code td_spec_read_int(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                              void *to)
{
    int64_t v;
    if (!is_integer(value, &v) || v < field->least || v > field->most) {
        if (field->most == INT64_MAX) {
            return td_spec_read_wrong(
                r, value, field->least == INT64_MIN ? "an integer" : "an integer of %" PRId64 " or more",
                field->least);
        }
        return td_spec_read_wrong(r, value, "an integer from %" PRId64 " to %" PRId64, field->least,
                                  field->most);
    }
    *(int64_t *)to = v;
    return TD_OK;
}

static bool in_range(double v, enum td_field_range range)
{
    if (!(fabs(v) <= (double)FLT_MAX)) {
        return false;
    }
    switch (range) {
    case TD_NOT_NEGATIVE:
        return v >= 0;
    case TD_POSITIVE:
        return v > 0;
    case TD_UNIT:
        return v >= 0 && v <= 1;
    case TD_BELOW_ONE:
        return v >= 0 && v < 1;
    case TD_NOT_POSITIVE:
        return v <= 0;
    default:
        return true;
    }
}

static const char *range_words(enum td_field_range range)
{
    static const char *const words[] = {
        [TD_ANY_FINITE] = "",
        [TD_NOT_NEGATIVE] = " of 0 or more",
        [TD_POSITIVE] = " above 0",
        [TD_UNIT] = " from 0 to 1",
        [TD_BELOW_ONE] = " of at least 0 and below 1",
        [TD_NOT_POSITIVE] = " of 0 or less",
    };
    return words[range];
}

static enum td_code read_number(struct td_spec_reader *r, json_t *value, enum td_field_range range,
                                double *to)
{
    const double v = json_is_number(value) ? json_number_value(value) : (double)NAN;
    if (!in_range(v, range)) {
        return td_spec_read_wrong(r, value, "a finite float32 number%s", range_words(range));
    }
    *to = v;
    return TD_OK;
}

enum td_code td_spec_read_number(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                 void *to)
{
    return read_number(r, value, field->range, to);
}

enum td_code td_spec_read_bool(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                               void *to)
{
    (void)field;
    if (!json_is_boolean(value)) {
        return td_spec_read_wrong(r, value, "true or false");
    }
    *(bool *)to = json_is_true(value);
    return TD_OK;
}

/* A text without NUL, kept in the arena. */
static enum td_code read_text(struct td_spec_reader *r, json_t *value, const char **to)
{
    const size_t n = json_is_string(value) ? json_string_length(value) : 0;
    if (n == 0 || strlen(json_string_value(value)) != n) {
        return td_spec_read_wrong(r, value, "a string that is not empty");
    }
    char *copy = td_spec_read_alloc(r, n + 1, 1);
    if (copy == NULL) {
        return r->f->err.code;
    }
    memcpy(copy, json_string_value(value), n);
    *to = copy;
    return TD_OK;
}

enum td_code td_spec_read_text(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                               void *to)
{
    (void)field;
    return read_text(r, value, to);
}

enum td_code td_spec_read_word(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                               void *to)
{
    char list[512] = "";
    for (int i = 0; field->words[i] != NULL; i++) {
        if (json_is_string(value) && strcmp(json_string_value(value), field->words[i]) == 0) {
            *(const char **)to = field->words[i];
            return TD_OK;
        }
        const size_t n = strlen(list);
        (void)snprintf(list + n, sizeof list - n, "%s\"%s\"", i > 0 ? ", " : "", field->words[i]);
    }
    return td_spec_read_wrong(r, value, "one of %s", list);
}

enum td_code td_spec_read_list(struct td_spec_reader *r, json_t *list, size_t size, void *out, int *n)
{
    const size_t many = json_array_size(list);
    if (!json_is_array(list) || many > td_spec_most) {
        return td_spec_read_wrong(r, list, "a list of at most %d", td_spec_most);
    }
    void *items = td_spec_read_alloc(r, many, size);
    if (items == NULL) {
        return r->f->err.code;
    }
    *(void **)out = items;
    *n = (int)many;
    return TD_OK;
}

enum td_code td_spec_read_patterns(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                   void *to)
{
    (void)field;
    struct td_patterns *p = to;
    TD_TRY(td_spec_read_list(r, value, sizeof *p->pattern, &p->pattern, &p->n));
    for (int i = 0; i < p->n; i++) {
        const size_t mark = td_spec_read_item(r, i);
        TD_TRY(read_text(r, json_array_get(value, (size_t)i), &p->pattern[i]));
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

enum td_code td_spec_read_nothing(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                  void *to)
{
    (void)r;
    (void)value;
    (void)field;
    (void)to;
    return TD_OK;
}

/* ------------------------------------------------------------------ fields of a formula's own */

static enum td_code read_integer(struct td_spec_reader *r, json_t *value, enum td_field_range range,
                                 double *to)
{
    int64_t whole;
    if (!is_integer(value, &whole) || !in_range((double)whole, range)) {
        return td_spec_read_wrong(r, value, "an integer%s", range_words(range));
    }
    *to = (double)whole;
    return TD_OK;
}

static enum td_code read_element(struct td_spec_reader *r, json_t *value, const struct td_field *field,
                                 double *to)
{
    return field->kind == TD_FIELD_INTEGERS ? read_integer(r, value, field->range, to)
                                            : read_number(r, value, field->range, to);
}

/* A bare number is a list of one. */
static enum td_code read_numbers(struct td_spec_reader *r, json_t *value, const struct td_field *field,
                                 const double **to, int *n)
{
    double *list = NULL;
    if (json_is_number(value)) {
        list = td_spec_read_alloc(r, 1, sizeof *list);
        *to = list;
        *n = 1;
        return list == NULL ? r->f->err.code : read_element(r, value, field, list);
    }
    TD_TRY(td_spec_read_list(r, value, sizeof *list, &list, n));
    for (int i = 0; i < *n; i++) {
        const size_t mark = td_spec_read_item(r, i);
        TD_TRY(read_element(r, json_array_get(value, (size_t)i), field, &list[i]));
        td_spec_read_leave(r, mark);
    }
    *to = list;
    return TD_OK;
}

static enum td_code read_own(struct td_spec_reader *r, json_t *value, const struct td_field *field,
                             struct td_field_values *values, int i)
{
    switch (field->kind) {
    case TD_FIELD_NUMBERS:
    case TD_FIELD_INTEGERS:
        return read_numbers(r, value, field, &values->list[i], &values->n_list[i]);
    case TD_FIELD_BOOL:
        if (!json_is_boolean(value)) {
            return td_spec_read_wrong(r, value, "true or false");
        }
        values->v[i] = json_is_true(value);
        return TD_OK;
    case TD_FIELD_INTEGER:
        return read_integer(r, value, field->range, &values->v[i]);
    default:
        return read_number(r, value, field->range, &values->v[i]);
    }
}

static enum td_code read_owns(struct td_spec_reader *r, json_t *o, const struct td_field *own,
                              struct td_field_values *values)
{
    for (int i = 0; own != NULL && own[i].name != NULL; i++) {
        json_t *value = json_object_get(o, own[i].name);
        const size_t mark = td_spec_read_enter(r, own[i].name);
        values->v[i] = own[i].standard;
        if (value != NULL && !json_is_null(value)) {
            TD_TRY(read_own(r, value, &own[i], values, i));
        } else if (own[i].required) {
            return TD_FAULT(r->f, "missing_field", r->path, "%s is missing: %s needs it", r->path,
                            json_string_value(json_object_get(o, "name")));
        }
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ objects */

static bool has_row(const struct td_spec_field *fields, const struct td_field *own, const char *name)
{
    for (int i = 0; fields[i].name != NULL; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return true;
        }
    }
    for (int i = 0; own != NULL && own[i].name != NULL; i++) {
        if (strcmp(own[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static enum td_code read_rows(struct td_spec_reader *r, json_t *o, const struct td_spec_field *fields,
                              void *to)
{
    for (const struct td_spec_field *field = fields; field->name != NULL; field++) {
        json_t *value = json_object_get(o, field->name);
        const bool is_auto =
            field->can_auto && json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
        const size_t mark = td_spec_read_enter(r, field->name);
        if (value != NULL && !json_is_null(value) && !is_auto) {
            TD_TRY(field->read(r, value, field, (char *)to + field->at));
        } else if (field->required) {
            return TD_FAULT(r->f, "missing_field", r->path, "%s is missing", r->path);
        }
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

enum td_code td_spec_read_formula(struct td_spec_reader *r, json_t *o, const struct td_spec_field *fields,
                                  void *to, const struct td_field *own, struct td_field_values *values)
{
    const char *name;
    json_t *value;
    if (!json_is_object(o)) {
        return td_spec_read_wrong(r, o, "an object");
    }
    json_object_foreach(o, name, value)
    {
        if (!has_row(fields, own, name)) {
            (void)td_spec_read_enter(r, name);
            return TD_FAULT(r->f, "unknown_field", r->path, "%s: there is no such field", r->path);
        }
    }
    TD_TRY(read_rows(r, o, fields, to));
    return own != NULL ? read_owns(r, o, own, values) : TD_OK;
}

enum td_code td_spec_read_object(struct td_spec_reader *r, json_t *o, const struct td_spec_field *fields,
                                 void *to)
{
    return td_spec_read_formula(r, o, fields, to, NULL, NULL);
}

enum td_code td_spec_read_name(struct td_spec_reader *r, json_t *o, const char **name)
{
    if (!json_is_object(o)) {
        return td_spec_read_wrong(r, o, "an object with a name");
    }
    json_t *value = json_object_get(o, "name");
    const size_t mark = td_spec_read_enter(r, "name");
    if (value == NULL || json_is_null(value)) {
        return TD_FAULT(r->f, "missing_field", r->path, "%s is missing", r->path);
    }
    TD_TRY(read_text(r, value, name));
    td_spec_read_leave(r, mark);
    return TD_OK;
}
