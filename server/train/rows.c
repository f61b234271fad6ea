/* server/train/rows.c - goes over a training file once: every row is read and checked, where it begins is
 * noted. Errors of rows, and reading single rows again.
 *
 * The pass holds a window of the file, a block of a megabyte or the row in hand when that is longer. Places
 * are written to a temporary file as they come, and mapped in the end, so that a file of a billion rows takes
 * no memory of its own. A place is an offset; the number of a line is counted again when somebody asks, which
 * only errors do. Rows in the file's order are read in blocks, single ones through a mapping of the file.
 *
 * Does not: hold values (row_cells.h), order rows (batches.c), know formats (struct td_row_format).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "server/train/rows_impl.h"

enum { BLOCK = 1 << 20 };

/* ------------------------------------------------------------------ the window */

struct window {
    int fd;
    char *buf;
    size_t cap, from, to; /* bytes [from, to) are at hand */
    int64_t offset;       /* in the file, of from */
    bool end;             /* nothing follows behind to */
};

/* Reads on. Room is made by moving what is left to the front, or by doubling. */
static enum td_code window_more(struct window *w, struct td_err *err)
{
    if (w->from > 0) {
        memmove(w->buf, w->buf + w->from, w->to - w->from);
        w->to -= w->from;
        w->from = 0;
    }
    if (w->cap - w->to < BLOCK) {
        const size_t cap = w->cap == 0 ? (size_t)2 * BLOCK : 2 * w->cap;
        char *more = td_realloc(w->buf, cap + 1, 1);
        if (more == NULL) {
            return td_no_memory(err, cap, "a training file's rows");
        }
        w->buf = more;
        w->cap = cap;
    }
    const ssize_t got = pread(w->fd, w->buf + w->to, w->cap - w->to, w->offset + (off_t)w->to);
    TD_FAIL_IF(got < 0, err, UNAVAILABLE, "the file cannot be read: %s", strerror(errno));
    w->to += (size_t)got;
    w->buf[w->to] = '\0';
    w->end = got == 0;
    return TD_OK;
}

/* The next row's length, 0 at the end of the file. */
static enum td_code window_row(struct window *w, const struct td_row_format *format, size_t *n,
                               struct td_err *err)
{
    *n = 0;
    for (;;) {
        const size_t have = w->to - w->from;
        *n = have > 0 ? format->extent(w->buf + w->from, have, w->end) : 0;
        TD_FAIL_IF(*n > TD_ROW_BYTES || (*n == 0 && have > TD_ROW_BYTES), err, INVALID_ARGUMENT,
                   "longer than %zu MiB, the most that a row may have", TD_ROW_BYTES >> 20);
        if (*n > 0 || w->end) {
            return TD_OK;
        }
        TD_TRY(window_more(w, err));
    }
}

/* ------------------------------------------------------------------ places */

struct places {
    int fd;
    int64_t n, held[4096];
    int n_held;
};

static enum td_code places_open(struct places *p, const char *dir, struct td_err *err)
{
    char path[TD_FILE_PATH];
    const int n = snprintf(path, sizeof path, "%s/rows.XXXXXX", dir);
    TD_FAIL_IF(n < 0 || n >= (int)sizeof path, err, INVALID_ARGUMENT, "%s: the path is too long", dir);
    p->fd = mkostemp(path, O_CLOEXEC);
    TD_FAIL_IF(p->fd < 0, err, UNAVAILABLE, "Creating %s: %s", path, strerror(errno));
    (void)unlink(path);
    return TD_OK;
}

static enum td_code places_flush(struct places *p, struct td_err *err)
{
    TD_TRY(td_file_put(p->fd, "the places of rows", p->held, (size_t)p->n_held * sizeof p->held[0], err));
    p->n_held = 0;
    return TD_OK;
}

static enum td_code places_put(struct places *p, int64_t offset, struct td_err *err)
{
    if (p->n_held == (int)(sizeof p->held / sizeof p->held[0])) {
        TD_TRY(places_flush(p, err));
    }
    p->held[p->n_held++] = offset;
    p->n++;
    return TD_OK;
}

static enum td_code places_map(struct places *p, const int64_t **out, struct td_err *err)
{
    TD_TRY(places_flush(p, err));
    void *map = mmap(NULL, (size_t)p->n * sizeof **out, PROT_READ, MAP_SHARED, p->fd, 0);
    TD_FAIL_IF(map == MAP_FAILED, err, RESOURCE_EXHAUSTED, "mapping the places of %" PRId64 " rows: %s", p->n,
               strerror(errno));
    *out = map;
    return TD_OK;
}

/* ------------------------------------------------------------------ the pass */

struct pass {
    struct td_rows *rows;
    const struct td_rows_opts *o;
    struct td_fault *f;
    struct window w;
    struct places places;
    struct td_row_reader reader;
    struct td_shape *first; /* by field: of the first row of the batch in hand, in the file's order */
    int64_t number;         /* of the line */
    int64_t end;            /* of the last row */
};

static bool is_blank(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!td_json_is_space(p[i])) {
            return false;
        }
    }
    return true;
}

/* Files that somebody may send by mistake, by how they begin. */
static const struct {
    const char *magic;
    size_t n;
    const char *what;
} OTHERS[] = {
    {"\x1f\x8b", 2, "gzip"},
    {"PK\x03\x04", 4, "a ZIP archive"},
    {"PAR1", 4, "Parquet"},
    {"\x89PNG", 4, "a PNG picture"},
    {"\xff\xd8\xff", 3, "a JPEG picture"},
    {"%PDF", 4, "PDF"},
    {"\x93NUMPY", 6, "a NumPy array"},
    {"\x89HDF", 4, "HDF5"},
    {"SQLite format 3", 15, "SQLite"},
    {"BZh", 3, "bzip2"},
    {"\xfd\x37zXZ", 5, "xz"},
    {"\x28\xb5\x2f\xfd", 4, "zstd"},
    {"ARROW1", 6, "Arrow"},
    {"\xff\xfe", 2, "UTF-16 text"},
    {"\xfe\xff", 2, "UTF-16 text"},
};

/* The first bytes: of a text, none that another kind of file begins with; a byte order mark is left out. */
static enum td_code pass_begin(struct pass *p, struct td_err *err)
{
    TD_TRY(window_more(&p->w, err));
    const char *at = p->w.buf;
    const size_t n = p->w.to;
    for (size_t i = 0; p->rows->format->text && i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        TD_FAIL_IF(n >= OTHERS[i].n && memcmp(at, OTHERS[i].magic, OTHERS[i].n) == 0, err, INVALID_ARGUMENT,
                   "the file is %s, want text in UTF-8", OTHERS[i].what);
    }
    if (p->rows->format->text && n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
        p->w.from = 3;
        p->w.offset = 3;
    }
    return TD_OK;
}

/* Rows that a batch would not take together, in the file's order. */
static enum td_code check_even(struct pass *p, struct td_err *err)
{
    const struct td_row_cells *c = p->reader.cells;
    const bool begins = p->rows->n % p->rows->spec->batch_size == 0;
    char who[160];
    for (int i = 0; i < c->n; i++) {
        const struct td_row_cell *cell = &c->cell[i];
        if (cell->fixed || cell->field->pad != NULL || cell->field->kind == TD_ROW_WEIGHT) {
            continue;
        }
        TD_FAIL_IF(!begins && !td_shape_equal(&p->first[i], &cell->last), err, INVALID_ARGUMENT,
                   "%s is of shape %s, other rows of its batch of %s%s", td_row_cells_who(cell->field, who),
                   TD_SHAPE_STR(&cell->last), TD_SHAPE_STR(&p->first[i]),
                   cell->field->kind == TD_ROW_INPUT ? " (tensord.padding makes rows equally long)" : "");
        p->first[i] = cell->last;
    }
    return TD_OK;
}

static enum td_code pass_row(struct pass *p, const char *text, size_t n, struct td_err *err)
{
    TD_TRY(td_row_reader_read(&p->reader, text, n, true, err));
    if (!p->o->spec->shuffle || strcmp(p->o->param, "validation_file") == 0) {
        TD_TRY(check_even(p, err));
    }
    td_row_cells_drop(p->reader.cells);
    return TD_OK;
}

static enum td_code pass_header(struct pass *p, const char *text, size_t n, struct td_err *err)
{
    p->rows->header = td_strndup(text, n);
    p->rows->n_header = n;
    if (p->rows->header == NULL) {
        return td_no_memory(err, n, "a header");
    }
    p->reader.line = true;
    return p->rows->format->read_header(&p->reader, p->rows->header, n, err);
}

/* One row or blank line or header of n bytes, at the window's front. */
static enum td_code pass_one(struct pass *p, size_t n, struct td_err *err)
{
    const char *text = p->w.buf + p->w.from;
    if (p->rows->format->text && is_blank(text, n)) {
        return TD_OK;
    }
    if (p->rows->format->header && p->rows->header == NULL) {
        return pass_header(p, text, n, err);
    }
    TD_TRY(pass_row(p, text, n, err));
    p->rows->n++;
    p->end = p->w.offset + (int64_t)n;
    return places_put(&p->places, p->w.offset, err);
}

static enum td_code pass_all(struct pass *p)
{
    struct td_err err = {0};
    size_t n = 0;
    bool line = true;
    enum td_code rc = pass_begin(p, &err);
    for (p->number = 1; rc == TD_OK;) {
        line = false;
        if (p->o->stop != NULL && *p->o->stop != 0) {
            return td_fail(&p->f->err, TD_CANCELLED, "stopped while %s was read", p->o->param);
        }
        rc = window_row(&p->w, p->rows->format, &n, &err);
        if (rc || n == 0) {
            break;
        }
        p->reader.line = false;
        rc = pass_one(p, n, &err);
        line = p->reader.line;
        if (rc == TD_OK) {
            p->number += p->rows->format->text ? td_row_reader_lines(p->w.buf + p->w.from, n) : 1;
            p->w.from += n;
            p->w.offset += (int64_t)n;
        }
    }
    return rc ? td_row_reader_bad(p->rows, line, p->number, &err, p->f) : TD_OK;
}

static enum td_code pass_end(struct pass *p)
{
    struct td_rows *r = p->rows;
    struct td_err err = {0};
    if (r->n == 0) {
        return TD_FAULT(p->f, r->code, r->param, "the %s is empty: it has no rows", r->param);
    }
    if (r->layout->whole_batches && r->n % r->spec->batch_size != 0) {
        return TD_FAULT(p->f, r->code, r->param,
                        "the %s has %" PRId64 " rows, but the signature takes batches of exactly %" PRId64,
                        r->param, r->n, r->spec->batch_size);
    }
    if (places_put(&p->places, p->end, &err) || places_map(&p->places, &r->place, &err)) {
        return TD_FAULT(p->f, "server_error", "", "%s", err.msg);
    }
    return TD_OK;
}

static enum td_code go_over(struct td_rows *rows, const struct td_rows_opts *o, struct td_fault *f)
{
    struct pass *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return TD_FAULT(f, "server_error", "", "no memory for reading rows");
    }
    *p = (struct pass){.rows = rows, .o = o, .f = f, .w.fd = rows->fd, .places.fd = -1};
    struct td_err err = {0};
    enum td_code rc = places_open(&p->places, o->scratch, &err);
    p->first = td_calloc((size_t)o->layout->n + 1, sizeof *p->first);
    if (rc || p->first == NULL) {
        rc = TD_FAULT(f, "server_error", "", "%s", rc ? err.msg : "no memory for reading rows");
    }
    rc = rc ? rc : td_row_reader_open(rows, &p->reader, f);
    rc = rc ? rc : pass_all(p);
    rc = rc ? rc : pass_end(p);
    td_row_reader_close(&p->reader);
    if (p->places.fd >= 0) {
        (void)close(p->places.fd);
    }
    td_free(p->w.buf);
    td_free(p->first);
    td_free(p);
    return rc;
}

/* ------------------------------------------------------------------ opened and closed */

static const struct td_row_format *format_of(const char *name)
{
    static const struct td_row_format *const named[] = {&td_rows_csv, &td_rows_tfrecord};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof named / sizeof named[0]; i++) {
        if (strcasecmp(dot, named[i]->ending) == 0) {
            return named[i];
        }
    }
    return &td_rows_jsonl;
}

static enum td_code open_file(struct td_rows *r, const char *path, struct td_fault *f)
{
    struct stat st;
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0 || fstat(r->fd, &st) != 0) {
        const int why = errno;
        return TD_FAULT(f, why == ENOENT ? "file_not_found" : "server_error", r->param,
                        "the %s cannot be opened: %s", r->param, strerror(why));
    }
    if (!S_ISREG(st.st_mode)) {
        return TD_FAULT(f, r->code, r->param, "the %s is no regular file", r->param);
    }
    (void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return TD_OK;
}

/* Rows are wanted one here, one there. */
static void map_file(struct td_rows *r, const char *path)
{
    struct td_err ignored = {0};
    size_t n = 0;
    if (td_mapping_open(path, &r->map, &ignored)) {
        r->map = NULL;
        return;
    }
    void *data = (void *)(uintptr_t)td_mapping_data(r->map, &n);
    (void)madvise(data, n, MADV_RANDOM);
    (void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_RANDOM);
}

enum td_code td_rows_open(const struct td_rows_opts *o, struct td_rows **out, struct td_fault *f)
{
    struct td_rows *r = td_calloc(1, sizeof *r);
    if (r == NULL) {
        return TD_FAULT(f, "server_error", "", "no memory for rows");
    }
    *r = (struct td_rows){
        .format = format_of(o->name),
        .layout = o->layout,
        .spec = o->spec,
        .class_weights = o->class_weights,
        .fd = -1,
    };
    (void)snprintf(r->param, sizeof r->param, "%s", o->param);
    (void)snprintf(r->code, sizeof r->code, "invalid_%s", o->param);
    enum td_code rc = open_file(r, o->path, f);
    rc = rc ? rc : go_over(r, o, f);
    if (rc == TD_OK && o->spec->shuffle) {
        map_file(r, o->path);
    }
    if (rc) {
        td_rows_close(r);
        return rc;
    }
    *out = r;
    return TD_OK;
}

void td_rows_close(struct td_rows *r)
{
    if (r == NULL) {
        return;
    }
    if (r->place != NULL) {
        (void)munmap((void *)(uintptr_t)r->place, ((size_t)r->n + 1) * sizeof *r->place);
    }
    if (r->fd >= 0) {
        (void)close(r->fd);
    }
    if (r->map != NULL) {
        td_mapping_unref(r->map);
    }
    td_free(r->header);
    td_free(r);
}

int64_t td_rows_count(const struct td_rows *r)
{
    return r->n;
}

/* ------------------------------------------------------------------ names of columns and features */

static bool is_name(const char *want, const char *name, size_t n)
{
    return strlen(want) == n && memcmp(want, name, n) == 0;
}

int td_row_name_find(const struct td_row_layout *l, const char *name, size_t n)
{
    for (int short_names = 0; short_names < 2; short_names++) { /* KEY of a target comes last */
        for (int i = 0; i < l->n; i++) {
            const struct td_row_field *field = &l->field[i];
            const bool keyed = field->kind == TD_ROW_TARGET && strncmp(field->name, "targets.", 8) == 0;
            if (short_names == 0 ? is_name(field->name, name, n)
                                 : keyed && is_name(field->name + 8, name, n)) {
                return i;
            }
        }
    }
    return -1;
}
