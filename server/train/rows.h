/* server/train/rows.h - a training file as numbered rows: JSON lines, CSV with a header, or TFRecord of
 * tf.Example, told by the file's name (docs/fine-tuning.md says what each holds).
 *
 * The file is never held whole. td_rows_open goes over it once: each row is read, checked against the layout
 * and forgotten, and where it begins is noted (8 bytes a row, in an unlinked temporary file that is mapped).
 * Batches are read from those places, in any order, ahead of time by a thread.
 *
 * Errors of rows: "row N: FIELD ..", N the line's number from 1 (of a TFRecord, the record's), and
 * "line N: .." where the line is no JSON object. A row has at most TD_ROW_BYTES.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_ROWS_H
#define TD_SERVER_TRAIN_ROWS_H

#include "core/base/tensor.h"
#include "core/run/model.h"
#include "server/train/layout.h"

#define TD_ROW_BYTES ((size_t)64 << 20)

struct td_rows;

struct td_rows_opts {
    const char *path, *name; /* the format goes by the name */
    const char *param;       /* "training_file" or "validation_file": of errors, with its code */
    const char *scratch;     /* directory for the places */
    bool class_weights;      /* weights include the losses' class weights: of training, not of validation */
    const struct td_row_layout *layout; /* borrowed, as is spec */
    const struct td_job_spec *spec;
    td_stop *stop; /* looked at between rows; not 0: CANCELLED. NULL: none */
};
/* Returns new, all rows checked. Code invalid_training_file or invalid_validation_file (server_error for what
 * is no fault of the file's). What only shows when rows meet in a batch, rows of different lengths without
 * padding, is checked here for the file's order, and for a shuffled one when the batch is made. */
TD_MUST enum td_code td_rows_open(const struct td_rows_opts *o, struct td_rows **out, struct td_fault *f);
void td_rows_close(struct td_rows *r); /* accepts NULL */
int64_t td_rows_count(const struct td_rows *r);

/* One batch: a tensor a field of the layout. */
struct td_batch {
    int64_t rows;     /* of this process's share */
    int64_t all_rows; /* of the batch over all parts; 0: there are no more batches */
    int64_t first;    /* where in the batch the share begins */
    /* layout->n, owned by the batch. Of an empty share: the batch's first row, which counts for nothing */
    struct td_tensor *tensor;
    int n;
};
void td_batch_clear(struct td_batch *b);

/* The order of an epoch (from 0): the file's, or a permutation that seed and epoch fix
 * (server/train/shuffle.h). */
struct td_epoch {
    const struct td_rows *rows;            /* borrowed */
    int64_t epoch, batch_size, from_batch; /* begins there: resumed */
    uint64_t seed;
    bool shuffle;
    int part, n_parts; /* of data-parallel training: this process's share of each batch; 0 of 1: all */
};
struct td_batches;
/* Returns new; reads ahead on a thread of its own. e is copied. */
TD_MUST enum td_code td_batches_open(const struct td_epoch *e, struct td_batches **out, struct td_fault *f);
/* The next batch, the last one with what is left; all_rows 0: no more. Owned by the caller. With several
 * parts a share of the last batch may be empty (rows 0, all_rows not): its tensors hold one row all the same.
 */
TD_MUST enum td_code td_batches_next(struct td_batches *b, struct td_batch *out, struct td_fault *f);
void td_batches_close(struct td_batches *b); /* accepts NULL */

#endif
