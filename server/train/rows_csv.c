/* server/train/rows_csv.c - CSV with a header (RFC 4180: cells in quotes may hold commas, line ends and,
 * twice, quotes).
 *
 *   x,targets,sample_weight             a column a field: the input's name, "targets", "targets.KEY" or KEY,
 *   x[0],x[1],x[2],targets              "sample_weight", "sample_weight.OUTPUT"; a list's elements each in a
 *   "[[1,2],[3,4]]",0                   column of its own, or the whole value as JSON in one cell
 *
 * Cells of strings that stand alone are taken as they are; all others are read as JSON. Columns that name
 * nothing are ignored, as further members of a JSON row are. The header is read once a reader, into a list
 * of columns a field; a row is split into cells, quotes resolved, in the reader's scratch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "server/train/rows_impl.h"

enum { MOST_COLUMNS = 1 << 20 };

/* What a field is read of. */
struct columns {
    int *at; /* numbers of cells; of a list, in its order */
    int n;
    bool list; /* NAME[0], NAME[1], .. */
};

struct csv {
    struct columns *of; /* by field; weights may have none */
    int n_fields;
    struct td_bytes *cell;
    int n, cap; /* cells of the header; room */
};

/* A line that ends outside quotes. */
static size_t extent(const char *p, size_t n, bool end)
{
    bool quoted = false;
    for (size_t from = 0; from < n;) {
        const char *eol = memchr(p + from, '\n', n - from);
        const size_t to = eol != NULL ? (size_t)(eol - p) + 1 : n;
        for (const char *q = p + from; (q = memchr(q, '"', (size_t)(p + to - q))) != NULL; q++) {
            quoted = !quoted;
        }
        if (eol != NULL && !quoted) {
            return to;
        }
        from = to;
    }
    return end ? n : 0;
}

/* ------------------------------------------------------------------ cells */

static enum td_code add_cell(struct csv *s, const char *p, size_t n, struct td_err *err)
{
    if (s->n == s->cap) {
        const int cap = s->cap > 0 ? 2 * s->cap : 64;
        struct td_bytes *more = td_realloc(s->cell, (size_t)cap, sizeof *more);
        TD_FAIL_IF(s->n >= MOST_COLUMNS, err, INVALID_ARGUMENT, "more than %d columns", MOST_COLUMNS);
        if (more == NULL) {
            return td_no_memory(err, (size_t)cap * sizeof *more, "the cells of a row");
        }
        s->cell = more;
        s->cap = cap;
    }
    s->cell[s->n++] = (struct td_bytes){p, n};
    return TD_OK;
}

/* A quoted cell at p (behind its quote), to *to. Returns what follows it; NULL: the quote is not closed. */
static const char *unquote(const char *p, const char *end, char **to)
{
    for (;;) {
        const char *q = memchr(p, '"', (size_t)(end - p));
        if (q == NULL) {
            return NULL;
        }
        memcpy(*to, p, (size_t)(q - p));
        *to += q - p;
        if (q + 1 == end || q[1] != '"') {
            return q + 1;
        }
        *(*to)++ = '"';
        p = q + 2;
    }
}

/* The cells of a row, each NUL-terminated in r->text. */
static enum td_code split(struct td_row_reader *r, const char *p, size_t n, struct td_err *err)
{
    struct csv *s = r->state;
    const char *end = p + n;
    TD_TRY(
        td_row_reader_text(r, 2 * n + 2, err)); /* a NUL a cell, and each cell has a comma or is the last */
    char *to = r->text;
    end -= end > p && end[-1] == '\n' ? 1 : 0;
    end -= end > p && end[-1] == '\r' ? 1 : 0;
    s->n = 0;
    for (bool more = true; more; p++) {
        char *from = to;
        if (p < end && *p == '"') {
            p = unquote(p + 1, end, &to);
            TD_FAIL_IF(p == NULL, err, INVALID_ARGUMENT, "column %d: a quote is not closed", s->n + 1);
            TD_FAIL_IF(p < end && *p != ',', err, INVALID_ARGUMENT, "column %d: text after a closing quote",
                       s->n + 1);
        } else {
            const char *comma = memchr(p, ',', (size_t)(end - p));
            const size_t len = (size_t)((comma != NULL ? comma : end) - p);
            TD_FAIL_IF(memchr(p, '"', len) != NULL, err, INVALID_ARGUMENT,
                       "column %d: a quote inside a cell that does not begin with one", s->n + 1);
            memcpy(to, p, len);
            to += len;
            p += len;
        }
        TD_TRY(add_cell(s, from, (size_t)(to - from), err));
        *to++ = '\0';
        more = p < end;
    }
    return TD_OK;
}

static struct td_bytes trimmed(struct td_bytes b)
{
    while (b.len > 0 && td_json_is_space(b.p[0])) {
        b.p++;
        b.len--;
    }
    while (b.len > 0 && td_json_is_space(b.p[b.len - 1])) {
        b.len--;
    }
    return b;
}

/* ------------------------------------------------------------------ the header */

/* "x[12]": the name's length without it, and 12; else *index -1. */
static size_t split_index(struct td_bytes name, int *index)
{
    size_t open = name.len;
    *index = -1;
    if (name.len < 4 || name.p[name.len - 1] != ']') {
        return name.len;
    }
    for (open = name.len - 1; open > 1 && name.p[open - 1] >= '0' && name.p[open - 1] <= '9'; open--) {
    }
    if (name.p[open - 1] != '[' || open == name.len - 1 || name.len - open > 8) {
        return name.len;
    }
    *index = (int)strtol(name.p + open, NULL, 10);
    return open - 1;
}

static enum td_code add_column(struct columns *c, int cell, int index, struct td_bytes name,
                               struct td_err *err)
{
    const int at = index < 0 ? 0 : index;
    TD_FAIL_IF(at >= MOST_COLUMNS || (at < c->n && c->at[at] >= 0) || (c->n > 0 && c->list != (index >= 0)),
               err, INVALID_ARGUMENT, "column %d, '%.*s', is given twice", cell + 1,
               name.len > 100 ? 100 : (int)name.len, name.p);
    if (at >= c->n) {
        int *more = td_realloc(c->at, (size_t)at + 1, sizeof *more);
        if (more == NULL) {
            return td_no_memory(err, (size_t)at * sizeof *more, "columns");
        }
        for (int i = c->n; i <= at; i++) {
            more[i] = -1;
        }
        c->at = more;
        c->n = at + 1;
    }
    c->list = index >= 0;
    c->at[at] = cell;
    return TD_OK;
}

/* A column into the fields that it is of. */
static enum td_code place_column(struct td_row_reader *r, int cell, struct td_err *err)
{
    const struct td_row_layout *l = r->rows->layout;
    struct csv *s = r->state;
    const struct td_bytes name = trimmed(s->cell[cell]);
    int index = -1, found = td_row_name_find(l, name.p, name.len);
    if (found < 0) {
        const size_t n = split_index(name, &index);
        found = index >= 0 ? td_row_name_find(l, name.p, n) : -1;
    }
    for (int i = 0; found >= 0 && i < l->n; i++) {
        if (l->field[i].kind == l->field[found].kind && strcmp(l->field[i].name, l->field[found].name) == 0) {
            TD_TRY(add_column(&s->of[i], cell, index, name, err));
        }
    }
    return TD_OK;
}

/* "sample_weight" is of the weights that have no column of their own. */
static enum td_code place_weight(struct td_row_reader *r, struct td_err *err)
{
    const struct td_row_layout *l = r->rows->layout;
    struct csv *s = r->state;
    for (int cell = 0; cell < s->n; cell++) {
        const struct td_bytes name = trimmed(s->cell[cell]);
        for (int i = 0; name.len == 13 && memcmp(name.p, "sample_weight", 13) == 0 && i < l->n; i++) {
            if (l->field[i].kind == TD_ROW_WEIGHT && s->of[i].n == 0) {
                TD_TRY(add_column(&s->of[i], cell, -1, name, err));
            }
        }
    }
    return TD_OK;
}

static enum td_code check_columns(struct td_row_reader *r, struct td_err *err)
{
    const struct td_row_layout *l = r->rows->layout;
    const struct csv *s = r->state;
    char who[160];
    for (int i = 0; i < l->n; i++) {
        TD_FAIL_IF(s->of[i].n == 0 && l->field[i].kind != TD_ROW_WEIGHT, err, INVALID_ARGUMENT,
                   "the header has no column for %s%s", td_row_cells_who(&l->field[i], who),
                   s->n == 1 ? " (columns are separated by commas)" : "");
        for (int k = 0; k < s->of[i].n; k++) {
            TD_FAIL_IF(s->of[i].at[k] < 0, err, INVALID_ARGUMENT, "the header has no column for %s[%d]",
                       td_row_cells_who(&l->field[i], who), k);
        }
    }
    return TD_OK;
}

static enum td_code open_state(struct td_row_reader *r, struct td_err *err)
{
    struct csv *s = td_calloc(1, sizeof *s);
    r->state = s;
    if (s == NULL || (s->of = td_calloc((size_t)r->rows->layout->n + 1, sizeof *s->of)) == NULL) {
        return td_no_memory(err, sizeof *s, "the columns of a CSV file");
    }
    s->n_fields = r->rows->layout->n;
    return TD_OK;
}

static void close_state(struct td_row_reader *r)
{
    struct csv *s = r->state;
    for (int i = 0; s != NULL && i < s->n_fields; i++) {
        td_free(s->of[i].at);
    }
    if (s != NULL) {
        td_free(s->of);
        td_free(s->cell);
    }
    td_free(s);
}

static enum td_code read_header(struct td_row_reader *r, const char *p, size_t n, struct td_err *err)
{
    struct csv *s = r->state;
    r->line = true;
    TD_TRY(split(r, p, n, err));
    for (int i = 0; i < s->n; i++) {
        TD_TRY(place_column(r, i, err));
    }
    TD_TRY(place_weight(r, err));
    TD_TRY(check_columns(r, err));
    r->line = false;
    return TD_OK;
}

/* ------------------------------------------------------------------ a row */

/* A cell's text as JSON: "+1" and, of booleans, 1 and True are written otherwise there. */
static struct td_bytes as_json(struct td_bytes cell, enum td_dtype dtype)
{
    static const char *const yes[] = {"1", "true", NULL}, *const no[] = {"0", "false", NULL};
    struct td_bytes b = trimmed(cell);
    for (int i = 0; dtype == TD_BOOL && yes[i] != NULL; i++) {
        if (b.len == strlen(yes[i]) && strncasecmp(b.p, yes[i], b.len) == 0) {
            return (struct td_bytes){"true", 4};
        }
        if (b.len == strlen(no[i]) && strncasecmp(b.p, no[i], b.len) == 0) {
            return (struct td_bytes){"false", 5};
        }
    }
    const bool plus = b.len > 1 && b.p[0] == '+';
    return (struct td_bytes){b.p + plus, b.len - plus};
}

static enum td_code read_json(struct td_row_reader *r, int i, struct td_bytes text, struct td_err *err)
{
    const struct td_row_field *field = &r->rows->layout->field[i];
    struct td_json j = td_json_make(text.p, text.len);
    char who[160];
    TD_FAIL_IF(text.len == 0, err, INVALID_ARGUMENT, "%s is empty", td_row_cells_who(field, who));
    TD_TRY(field->kind == TD_ROW_WEIGHT ? td_row_cells_weight(r->cells, field->name, &j, err)
                                        : td_row_cells_json(r->cells, i, &j, err));
    TD_FAIL_IF(td_json_peek(&j) != '\0' || j.at != j.end, err, INVALID_ARGUMENT,
               "%s is '%.*s', want one value", td_row_cells_who(field, who),
               text.len > 60 ? 60 : (int)text.len, text.p);
    return TD_OK;
}

static enum td_code read_cell(struct td_row_reader *r, int i, struct td_bytes cell, struct td_err *err)
{
    const struct td_row_field *field = &r->rows->layout->field[i];
    const int rank = r->cells->cell[i].row.rank;
    const struct td_json j = td_json_make(cell.p, cell.len);
    const bool listed = cell.len > 0 && cell.p[0] == '[';
    if (field->kind == TD_ROW_INPUT && field->dtype == TD_STRING && !td_json_at_b64(&j) &&
        (rank == 0 || (rank < 0 && !listed))) {
        return td_row_cells_list(r->cells, i, TD_STRING, &cell, 1, err);
    }
    if (field->kind == TD_ROW_WEIGHT && trimmed(cell).len == 0) {
        return TD_OK;
    }
    return read_json(r, i, as_json(cell, field->dtype), err);
}

/* Cells of a list: strings as they are, others as the JSON list that they make. */
static enum td_code read_list(struct td_row_reader *r, int i, const struct columns *c, struct td_err *err)
{
    const struct csv *s = r->state;
    const struct td_row_field *field = &r->rows->layout->field[i];
    size_t need = 3, n = 0;
    char who[160];
    for (int k = 0; k < c->n; k++) {
        need += s->cell[c->at[k]].len + 6;
    }
    struct td_bytes *strings = td_calloc((size_t)c->n, sizeof *strings);
    char *text = td_calloc(need, 1);
    enum td_code rc =
        strings == NULL || text == NULL ? td_no_memory(err, need, "the cells of a list") : TD_OK;
    for (int k = 0; k < c->n && rc == TD_OK; k++) {
        strings[k] = s->cell[c->at[k]];
        const struct td_bytes b = as_json(strings[k], field->dtype);
        if (b.len == 0 && field->dtype != TD_STRING) {
            rc = td_fail(err, TD_INVALID_ARGUMENT, "%s[%d] is empty", td_row_cells_who(field, who), k);
        }
        text[n++] = k == 0 ? '[' : ',';
        memcpy(text + n, b.p, b.len);
        n += b.len;
    }
    if (rc == TD_OK && field->dtype == TD_STRING) {
        rc = td_row_cells_list(r->cells, i, TD_STRING, strings, c->n, err);
    } else if (rc == TD_OK) {
        text[n++] = ']';
        rc = read_json(r, i, (struct td_bytes){text, n}, err);
    }
    td_free(strings);
    td_free(text);
    return rc;
}

static enum td_code read_row(struct td_row_reader *r, const char *p, size_t n, bool strict,
                             struct td_err *err)
{
    const struct csv *s = r->state;
    const int columns = s->n;
    (void)strict;
    TD_TRY(split(r, p, n, err));
    TD_FAIL_IF(s->n != columns, err, INVALID_ARGUMENT, "%d cells, the header has %d", s->n, columns);
    for (int i = 0; i < s->n_fields; i++) {
        const struct columns *c = &s->of[i];
        if (c->n > 0) {
            TD_TRY(c->list ? read_list(r, i, c, err) : read_cell(r, i, s->cell[c->at[0]], err));
        }
    }
    return TD_OK;
}

const struct td_row_format td_rows_csv = {
    .ending = ".csv",
    .text = true,
    .header = true,
    .extent = extent,
    .open = open_state,
    .read_header = read_header,
    .read = read_row,
    .close = close_state,
};
