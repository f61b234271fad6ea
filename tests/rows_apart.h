/* tests/rows_apart.h - runs rows together and apart: what core/batchable/batchable.h calls row-wise must not
 * tell the difference.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_ROWS_APART_H
#define TD_TESTS_ROWS_APART_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/batchable/batchable.h"
#include "core/function/callable.h"

enum { APART_MOST = 64 };

/* So many rows together; and apart the first, and the others. */
struct apart_split {
    int64_t first, all;
};

/* 3 and 4 of 7 where the claim is about them; else the fewest that it is about, and as many again or one
 * more. */
static inline struct apart_split apart_split_of(const struct td_batchable *b)
{
    const int64_t least = b->min_rows, spare = b->max_rows > 2 * least ? 1 : 0;
    return least <= 3 && b->max_rows >= 7 ? (struct apart_split){3, 7}
                                          : (struct apart_split){least, 2 * least + spare};
}

static inline enum td_code apart_run(struct td_callable *f, const struct td_tensor *all, int n_in,
                                     int64_t from, int64_t to, struct td_tensor *out, struct td_err *err)
{
    struct td_tensor part[APART_MOST] = {{0}};
    for (int i = 0; i < n_in; i++) {
        td_tensor_rows(&part[i], &all[i], from, to);
    }
    enum td_code rc = td_callable_run(f, part, out, NULL, err);
    for (int i = 0; i < n_in; i++) {
        td_tensor_clear(&part[i]);
    }
    return rc;
}

static inline bool apart_is_real(const struct td_tensor *t)
{
    return t->dtype == TD_FLOAT || t->dtype == TD_DOUBLE || t->dtype == TD_COMPLEX64 ||
           t->dtype == TD_COMPLEX128;
}

/* Complex numbers as twice as many real ones. */
static inline double apart_number(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_FLOAT || t->dtype == TD_COMPLEX64 ? (double)TD_DATA(t, float)[i]
                                                            : TD_DATA(t, double)[i];
}

/* What rounding may do to numbers as large as the largest: kernels sum in another order for another number of
 * rows. */
static inline double apart_slack(const struct td_tensor *t, int64_t n)
{
    double most = 0.1;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, isfinite(apart_number(t, i)) ? fabs(apart_number(t, i)) : 0);
    }
    return most * 1e-5;
}

static inline bool apart_same_reals(const struct td_tensor *a, const struct td_tensor *b)
{
    int64_t n = td_tensor_count(a) * (a->dtype == TD_COMPLEX64 || a->dtype == TD_COMPLEX128 ? 2 : 1);
    double slack = apart_slack(a, n);
    for (int64_t i = 0; i < n; i++) {
        double x = apart_number(a, i), y = apart_number(b, i);
        if (x != y && !(isnan(x) && isnan(y)) && !(fabs(x - y) <= slack)) {
            return false;
        }
    }
    return true;
}

static inline bool apart_same_strings(const struct td_tensor *a, const struct td_tensor *b)
{
    for (int64_t i = 0; i < td_tensor_count(a); i++) {
        size_t la, lb;
        const char *x = td_tensor_str(a, i, &la), *y = td_tensor_str(b, i, &lb);
        if (la != lb || memcmp(x, y, la) != 0) {
            return false;
        }
    }
    return true;
}

/* Whether part is rows [from, to) of whole, which has `all`. Halves are compared by shape alone: their
 * rounding shows. */
static inline bool apart_same(const struct td_tensor *whole, const struct td_tensor *part, int64_t from,
                              int64_t to, int64_t all)
{
    struct td_tensor rows;
    if (whole->shape.rank < 1 || whole->shape.dim[0] != all) {
        return false;
    }
    td_tensor_rows(&rows, whole, from, to);
    bool same = td_shape_equal(&rows.shape, &part->shape);
    if (!same || td_tensor_count(part) == 0 ||
        td_dtype_in(part->dtype, TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))) {
        td_tensor_clear(&rows);
        return same;
    }
    same = apart_is_real(part)        ? apart_same_reals(&rows, part)
           : part->dtype == TD_STRING ? apart_same_strings(&rows, part)
                                      : td_dtype_in(part->dtype, TD_SET_OBJECTS) ||
                                            memcmp(rows.data, part->data, td_tensor_bytes(part)) == 0;
    td_tensor_clear(&rows);
    return same;
}

/* all[n_in] have split.all rows. 1: the same; 0: it does not run on them (err says why); -1: different. */
static inline int apart_verdict(struct td_callable *f, const struct td_tensor *all, int n_in, int n_out,
                                struct apart_split split, struct td_err *err)
{
    struct td_tensor out[3][APART_MOST] = {{{0}}};
    int verdict = apart_run(f, all, n_in, 0, split.all, out[0], err) == TD_OK &&
                  apart_run(f, all, n_in, 0, split.first, out[1], err) == TD_OK &&
                  apart_run(f, all, n_in, split.first, split.all, out[2], err) == TD_OK;
    for (int i = 0; i < n_out; i++) {
        if (verdict == 1 && (!apart_same(&out[0][i], &out[1][i], 0, split.first, split.all) ||
                             !apart_same(&out[0][i], &out[2][i], split.first, split.all, split.all))) {
            verdict = -1;
        }
        for (int k = 0; k < 3; k++) {
            td_tensor_clear(&out[k][i]);
        }
    }
    return verdict;
}

#endif
