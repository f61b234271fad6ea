/* core/batchable/affine.h - numbers that follow from the number of rows N, as expressions a + b * N.
 *
 *   struct td_row_range r = {1, TD_MOST_ROWS};
 *   struct td_affine n = {.slope = 1}, twice, at_most;
 *   td_affine_mul(&r, n, td_affine_const(2), &twice)        2 * N, for every N of r
 *   td_affine_min(&r, n, td_affine_const(64), &at_most)     N, and r is now [1, 64]
 *
 * A function of this file says what its result is for EVERY number of rows in the range. Where no one
 * expression is right on the whole range, the range becomes the part of it that has one: the lower part where
 * that holds a batch of two, since small requests gain most by sharing, else the upper. Where there is no
 * such part either (N * N, N % 7, more than 64 bits), the function answers false.
 *
 * Invariant (td_row_range_check): 1 <= lo <= hi <= TD_MOST_ROWS. A range only ever becomes smaller.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_AFFINE_H
#define TD_CORE_BATCHABLE_AFFINE_H

#include "core/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define TD_MOST_ROWS INT32_MAX /* of a batch: nothing is claimed beyond */

struct td_row_range {
    int64_t lo, hi;
};
/* base + slope * N; opaque: follows from N in a way that is not followed. */
struct td_affine {
    int64_t base, slope;
    bool opaque;
};

static inline struct td_affine td_affine_const(int64_t v)
{
    return (struct td_affine){.base = v};
}
static inline bool td_affine_is(struct td_affine x, int64_t base, int64_t slope)
{
    return !x.opaque && x.base == base && x.slope == slope;
}
static inline bool td_affine_equal(struct td_affine x, struct td_affine y)
{
    return x.opaque == y.opaque && (x.opaque || (x.base == y.base && x.slope == y.slope));
}

/* Operands are not opaque. Division and modulo are exact or nothing: rounding depends on N. Comparisons give
 * 0 or 1. */
typedef bool td_affine_fn(struct td_row_range *r, struct td_affine x, struct td_affine y,
                          struct td_affine *out);
td_affine_fn td_affine_add, td_affine_sub, td_affine_mul, td_affine_div, td_affine_mod, td_affine_max,
    td_affine_min;
td_affine_fn td_affine_less, td_affine_less_equal, td_affine_greater, td_affine_greater_equal,
    td_affine_equals, td_affine_differs;
td_affine_fn td_affine_left; /* x itself */

/* Whether x < 0, or x = 0, for every N of the range, which narrows to where it has one answer. */
bool td_row_range_negative(struct td_row_range *r, struct td_affine x);
bool td_row_range_zero(struct td_row_range *r, struct td_affine x);
/* Narrows the range to where least <= x <= most; false, and the range as it was: nowhere. */
bool td_row_range_within(struct td_row_range *r, struct td_affine x, int64_t least, int64_t most);

TD_MUST enum td_code td_row_range_check(const struct td_row_range *r, struct td_err *err);

#endif
