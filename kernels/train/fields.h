/* kernels/train/fields.h - the numbers that a loss, an optimizer, a schedule or a metric is described by.
 *
 * Each of these is one row of a table: its name, the fields that a job may set with their defaults and
 * ranges, and what it computes. A job's values stand in an array in the order of the row's fields, so that
 * who reads jobs needs to know none of them by name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_FIELDS_H
#define TD_KERNELS_TRAIN_FIELDS_H

#include <math.h>
#include <stdbool.h>

/* Of a list each element counts; where a list is due, a bare number is a list of one. */
enum td_field_kind {
    TD_FIELD_NUMBER,
    TD_FIELD_INTEGER,
    TD_FIELD_BOOL,
    TD_FIELD_NUMBERS,
    TD_FIELD_INTEGERS,
};

/* Where a value, and each of a list, must lie. */
enum td_field_range {
    TD_ANY_FINITE,
    TD_NOT_NEGATIVE,
    TD_POSITIVE,
    TD_UNIT,      /* [0, 1] */
    TD_BELOW_ONE, /* [0, 1) */
    TD_NOT_POSITIVE,
};

enum { TD_MOST_FIELDS = 8 };

struct td_field {
    const char *name; /* NULL ends a list of fields */
    enum td_field_kind kind;
    double standard; /* when it is absent; a NAN: there is none, and the row says what then (see required) */
    enum td_field_range range;
    bool required;
};

/* What a job sets: by field; lists lie beside. */
struct td_field_values {
    double v[TD_MOST_FIELDS]; /* NAN: null or absent without a standard */
    const double *list[TD_MOST_FIELDS];
    int n_list[TD_MOST_FIELDS];
};

#endif
