/* server/train/row_reader.c - single rows of a training file that rows.c has gone over, and the words for
 * what is wrong with them.
 *
 * Rows in the file's order are read in blocks; others through a mapping of the file, copied, since the
 * formats want a byte behind the row.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "server/train/rows_impl.h"

enum { BLOCK = 1 << 20 };

/* ------------------------------------------------------------------ faults */

enum td_code td_row_reader_bad(const struct td_rows *r, bool line, int64_t number, const struct td_err *err,
                               struct td_fault *f)
{
    const bool file = err->code == TD_INVALID_ARGUMENT || err->code == TD_DATA_LOSS;
    return TD_FAULT(f, file ? r->code : "server_error", file ? r->param : "", "%s %" PRId64 ": %s",
                    line ? "line" : "row", number, err->msg);
}

int64_t td_row_reader_lines(const char *p, size_t n)
{
    int64_t lines = 0;
    for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) {
        lines++;
    }
    return lines;
}

/* The number of row i: of a text, its line's. */
static int64_t number_of(const struct td_rows *r, int64_t i)
{
    int64_t number = 1;
    char buf[16384];
    if (!r->format->text) {
        return i + 1;
    }
    for (int64_t at = 0; at < r->place[i];) {
        const int64_t left = r->place[i] - at;
        const ssize_t got = pread(r->fd, buf, left < (int64_t)sizeof buf ? (size_t)left : sizeof buf, at);
        if (got <= 0) {
            break;
        }
        number += td_row_reader_lines(buf, (size_t)got);
        at += got;
    }
    return number;
}

enum td_code td_row_reader_fault(struct td_row_reader *r, int64_t i, const struct td_err *err,
                                 struct td_fault *f)
{
    return td_row_reader_bad(r->rows, r->line, number_of(r->rows, i), err, f);
}

/* ------------------------------------------------------------------ readers */

enum td_code td_row_reader_open(const struct td_rows *rows, struct td_row_reader *r, struct td_fault *f)
{
    struct td_err err = {0};
    *r = (struct td_row_reader){.rows = rows};
    TD_TRY(td_row_cells_new(rows->layout, rows->spec, rows->class_weights, &r->cells, f));
    if (rows->format->open != NULL && rows->format->open(r, &err)) {
        return TD_FAULT(f, "server_error", "", "%s", err.msg);
    }
    if (rows->header != NULL && rows->format->read_header(r, rows->header, rows->n_header, &err)) {
        return td_row_reader_bad(rows, true, 1, &err, f);
    }
    return TD_OK;
}

void td_row_reader_close(struct td_row_reader *r)
{
    if (r->rows != NULL && r->rows->format->close != NULL) {
        r->rows->format->close(r);
    }
    td_row_cells_free(r->cells);
    td_json_strict_fini(&r->strict);
    td_free(r->text);
    td_free(r->buf);
    *r = (struct td_row_reader){0};
}

enum td_code td_row_reader_text(struct td_row_reader *r, size_t n, struct td_err *err)
{
    if (n > r->cap_text) {
        char *more = td_realloc(r->text, 2 * n, 1);
        if (more == NULL) {
            return td_no_memory(err, 2 * n, "a row's text");
        }
        r->text = more;
        r->cap_text = 2 * n;
    }
    return TD_OK;
}

enum td_code td_row_reader_read(struct td_row_reader *r, const char *p, size_t n, bool strict,
                                struct td_err *err)
{
    r->line = false;
    TD_TRY(td_row_cells_begin(r->cells, err));
    TD_TRY(r->rows->format->read(r, p, n, strict, err));
    return td_row_cells_end(r->cells, err);
}

/* The same without asking the kernel, which takes longer than a short row takes to read; false: the file is
 * not mapped, or has become shorter (proto/bytes/mapping.h). */
static bool copy_mapped(struct td_row_reader *r, int64_t at, size_t n)
{
    size_t all = 0;
    const unsigned char *data = r->rows->map != NULL ? td_mapping_data(r->rows->map, &all) : NULL;
    if (data == NULL || (size_t)at + n > all) {
        return false;
    }
    memcpy(r->buf, data + at, n);
    if (td_mapping_damaged(data)) {
        return false;
    }
    r->n = n;
    r->buf[n] = '\0';
    return true;
}

/* Bytes [at, at + n) of the file at hand, and more behind them when in_order. */
static enum td_code fetch(struct td_row_reader *r, int64_t at, size_t n, bool in_order, struct td_err *err)
{
    if (at >= r->at && at + (int64_t)n <= r->at + (int64_t)r->n) {
        return TD_OK;
    }
    const int64_t left = r->rows->place[r->rows->n] - at;
    size_t want = in_order && n < BLOCK ? BLOCK : n;
    want = (int64_t)want > left ? (size_t)left : want;
    if (want > r->cap) {
        td_free(r->buf);
        r->buf = td_realloc(NULL, want + 1, 1);
        r->cap = r->buf != NULL ? want : 0;
        if (r->buf == NULL) {
            return td_no_memory(err, want, "a row");
        }
    }
    r->at = at;
    r->n = 0;
    if (!in_order && copy_mapped(r, at, want)) {
        return TD_OK;
    }
    while (r->n < want) {
        const ssize_t got = pread(r->rows->fd, r->buf + r->n, want - r->n, at + (off_t)r->n);
        TD_FAIL_IF(got < 0, err, UNAVAILABLE, "the file cannot be read: %s", strerror(errno));
        TD_FAIL_IF(got == 0, err, DATA_LOSS, "the file has become shorter since it was checked");
        r->n += (size_t)got;
    }
    r->buf[r->n] = '\0';
    return TD_OK;
}

enum td_code td_row_reader_row(struct td_row_reader *r, int64_t i, bool in_order, struct td_fault *f)
{
    const int64_t at = r->rows->place[i];
    const size_t all = (size_t)(r->rows->place[i + 1] - at);
    struct td_err err = {0};
    r->line = false;
    if (fetch(r, at, all, in_order, &err)) {
        return td_row_reader_fault(r, i, &err, f);
    }
    const char *p = r->buf + (at - r->at);
    const size_t n = r->rows->format->extent(p, all, true);
    return td_row_reader_read(r, p, n > all ? all : n, false, &err) ? td_row_reader_fault(r, i, &err, f)
                                                                    : TD_OK;
}
