/* server/train/row_cells.h - rows on their way into a batch: values are read one after another into one list
 * a field, checked against the layout as they come, and in the end made the batch's tensors.
 *
 *   td_row_cells_begin(c, err);
 *   td_row_cells_json(c, 0, &j, err); ..          in any order, from any format
 *   td_row_cells_end(c, err);                     nothing missing; weights are computed here
 *   ..
 *   td_row_cells_take(c, &batch, &bad, err);
 *
 * Errors say field, value and rule ("targets is 7, want a class from 0 to 3"); the caller says which row.
 * After an error the cells are good for td_row_cells_drop only. Used by one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_ROW_CELLS_H
#define TD_SERVER_TRAIN_ROW_CELLS_H

#include "core/graph/attr.h"
#include "proto/json/json_value.h"
#include "server/train/rows.h"

/* Of one field. */
struct td_row_cell {
    const struct td_row_field *field;
    struct td_shape row; /* of a row; rank -1: not known */
    bool fixed;          /* row is wholly known, and rows have just that: no shapes are kept */
    int64_t count;       /* elements of a row; when fixed */
    bool seen;           /* in this row */
    struct td_gather g;
    struct td_shape last, *shape; /* of the last row; of each, unless fixed */
    char pad[16];                 /* the element that ragged rows are filled with */
    struct td_gather weight;      /* of a weights field: sample_weight of this row, as given */
    struct td_shape weight_shape;
    struct td_class_weight *class_weight; /* sorted; NULL: none */
    int n_class_weights;
};

struct td_row_cells {
    const struct td_row_layout *layout;
    struct td_row_cell *cell; /* by field */
    int n;
    int64_t rows, cap_rows;
    struct td_gather numbers; /* scratch: doubles */
    char *bytes;              /* scratch: decoded base64 */
    size_t cap_bytes;
};

/* Returns new; borrows layout and spec. class_weights: of training. invalid_value for padding that its input
 * cannot hold. */
TD_MUST enum td_code td_row_cells_new(const struct td_row_layout *layout, const struct td_job_spec *spec,
                                      bool class_weights, struct td_row_cells **out, struct td_fault *f);
void td_row_cells_free(struct td_row_cells *c); /* accepts NULL */
void td_row_cells_drop(struct td_row_cells *c); /* all rows */

TD_MUST enum td_code td_row_cells_begin(struct td_row_cells *c, struct td_err *err);
/* The value of field i as JSON: nested lists, or a picture ({"b64": JPEG or PNG}) where numbers of rank 3
 * go. */
TD_MUST enum td_code td_row_cells_json(struct td_row_cells *c, int i, struct td_json *j, struct td_err *err);
/* As a list without shape: TD_FLOAT, TD_INT64, TD_DOUBLE numbers or struct td_bytes. */
TD_MUST enum td_code td_row_cells_list(struct td_row_cells *c, int i, enum td_dtype type, const void *values,
                                       int64_t n, struct td_err *err);
/* sample_weight of the fields of that name ("sample_weight.OUTPUT"); NULL: of those that have none yet. */
TD_MUST enum td_code td_row_cells_weight(struct td_row_cells *c, const char *name, struct td_json *j,
                                         struct td_err *err);
/* The same of numbers: TD_FLOAT or TD_INT64. */
TD_MUST enum td_code td_row_cells_weight_list(struct td_row_cells *c, const char *name, enum td_dtype type,
                                              const void *values, int64_t n, struct td_err *err);
TD_MUST enum td_code td_row_cells_end(struct td_row_cells *c, struct td_err *err);

/* The rows so far as tensors; none are left. When rows are of shapes that do not go together, *bad is the
 * number of one, from 0. */
TD_MUST enum td_code td_row_cells_take(struct td_row_cells *c, struct td_batch *out, int64_t *bad,
                                       struct td_err *err);

/* "input x", "targets.price", "sample_weight"; buf has room for 160 bytes. */
const char *td_row_cells_who(const struct td_row_field *field, char *buf);

#endif
