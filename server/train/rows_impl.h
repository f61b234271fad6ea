/* server/train/rows_impl.h - a training file between its parts: rows.c goes over it once, batches.c comes
 * back for rows in any order, rows_jsonl.c, rows_csv.c and rows_tfrecord.c know what a row is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_ROWS_IMPL_H
#define TD_SERVER_TRAIN_ROWS_IMPL_H

#include "proto/bytes/mapping.h"
#include "proto/json/json_strict.h"
#include "server/train/row_cells.h"

struct td_row_reader;

/* One way to write rows. */
struct td_row_format {
    const char *ending; /* of the file's name, any case */
    bool text;          /* rows are lines: numbered so, blank ones skipped, a byte order mark left out */
    bool header;        /* the first row is none */
    /* How many of the n bytes at p are the first row; 0: it may go on behind them. end: nothing does.
     * SIZE_MAX: it says itself that it is longer than TD_ROW_BYTES. */
    size_t (*extent)(const char *p, size_t n, bool end);
    /* NULL: nothing to prepare. */
    enum td_code (*open)(struct td_row_reader *r, struct td_err *err);
    enum td_code (*read_header)(struct td_row_reader *r, const char *p, size_t n, struct td_err *err);
    /* One row into the cells, between begin and end. strict: not read before. Sets r->line when it is no row
     * at all. p[n] may be read. */
    enum td_code (*read)(struct td_row_reader *r, const char *p, size_t n, bool strict, struct td_err *err);
    void (*close)(struct td_row_reader *r); /* of open and read_header */
};
extern const struct td_row_format td_rows_jsonl, td_rows_csv, td_rows_tfrecord;

struct td_rows {
    const struct td_row_format *format;
    const struct td_row_layout *layout;
    const struct td_job_spec *spec;
    bool class_weights;
    char code[32], param[32]; /* of faults */
    int fd;
    struct td_mapping *map; /* of the same bytes, for single rows; NULL: there is none */
    int64_t n;
    const int64_t *place; /* n + 1 of them, the last one the end; mapped */
    char *header;         /* the first row's text, where the format has one */
    size_t n_header;
};

/* What a thread reads rows with. */
struct td_row_reader {
    const struct td_rows *rows;
    struct td_row_cells *cells;
    struct td_json_strict strict;
    bool line;   /* what is wrong is the line, not the row that it holds */
    void *state; /* the format's */
    char *text;  /* scratch of the format */
    size_t cap_text;
    char *buf; /* bytes [at, at + n) of the file, and one more */
    int64_t at;
    size_t n, cap;
};
TD_MUST enum td_code td_row_reader_open(const struct td_rows *rows, struct td_row_reader *r,
                                        struct td_fault *f);
void td_row_reader_close(struct td_row_reader *r); /* also of one that is zeroed */
/* Row i into the cells. in_order: the next ones will be wanted too. */
TD_MUST enum td_code td_row_reader_row(struct td_row_reader *r, int64_t i, bool in_order, struct td_fault *f);
/* A row that is at hand, between begin and end of the cells. strict: not read before. */
TD_MUST enum td_code td_row_reader_read(struct td_row_reader *r, const char *p, size_t n, bool strict,
                                        struct td_err *err);
/* err as a fault of the file's: "row N: ..", "line N: ..". */
enum td_code td_row_reader_bad(const struct td_rows *r, bool line, int64_t number, const struct td_err *err,
                               struct td_fault *f);
int64_t td_row_reader_lines(const char *p, size_t n); /* line ends in these bytes */
/* err, of row i (with its number), as the job's fault. */
enum td_code td_row_reader_fault(struct td_row_reader *r, int64_t i, const struct td_err *err,
                                 struct td_fault *f);
/* Room for n bytes in text. */
TD_MUST enum td_code td_row_reader_text(struct td_row_reader *r, size_t n, struct td_err *err);

/* The first field that a column or a feature of this name is of: an input, a target ("targets",
 * "targets.KEY", or KEY where nothing else has that name), weights ("sample_weight.OUTPUT"); -1: none. */
int td_row_name_find(const struct td_row_layout *l, const char *name, size_t n);

#endif
