/* core/batchable/affine.c - arithmetic of a + b * N over a range of N.
 *
 * Every coefficient is checked for overflow. A question about a + b * N changes its answer at one number of
 * rows (a comparison) or is true of one number alone (equality), so that a range is cut in two at most.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/affine.h"

#include "core/base/check.h"

typedef __int128 wide;

static wide floor_div(wide a, wide b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t clamp(wide v, int64_t least, int64_t most)
{
    return v < least ? least : v > most ? most : (int64_t)v;
}

/* ------------------------------------------------------------------ ranges */

static bool holds_a_batch(int64_t lo, int64_t hi)
{
    return hi / 2 >= lo; /* two requests of lo rows each */
}

enum td_code td_row_range_check(const struct td_row_range *r, struct td_err *err)
{
    TD_WANT(r->lo >= 1 && r->lo <= r->hi && r->hi <= TD_MOST_ROWS, err, "rows %lld to %lld", (long long)r->lo,
            (long long)r->hi);
    return TD_OK;
}

/* The range on one side of `at`: below it, or from it on. True: the upper. */
static bool take_side(struct td_row_range *r, wide at)
{
    if (at <= r->lo || at > r->hi) {
        return at <= r->lo;
    }
    const bool upper = !holds_a_batch(r->lo, (int64_t)at - 1);
    *(upper ? &r->lo : &r->hi) = upper ? (int64_t)at : (int64_t)at - 1;
    TD_HOLDS(td_row_range_check, r);
    return upper;
}

bool td_row_range_negative(struct td_row_range *r, struct td_affine x)
{
    if (x.slope == 0) {
        return x.base < 0;
    }
    if (x.slope > 0) { /* negative below the first N with base + slope * N >= 0 */
        return !take_side(r, -floor_div(x.base, x.slope));
    }
    return take_side(r, floor_div(x.base, -(wide)x.slope) + 1);
}

bool td_row_range_zero(struct td_row_range *r, struct td_affine x)
{
    if (x.slope == 0) {
        return x.base == 0;
    }
    const wide root = -((wide)x.base / x.slope);
    if ((wide)x.base % x.slope != 0 || root < r->lo || root > r->hi) {
        return false;
    }
    const int64_t at = (int64_t)root;
    if (r->lo == r->hi) {
        return true;
    }
    if (at == r->hi || (at > r->lo && holds_a_batch(r->lo, at - 1))) {
        r->hi = at - 1;
    } else {
        r->lo = at + 1;
    }
    TD_HOLDS(td_row_range_check, r);
    return false;
}

bool td_row_range_within(struct td_row_range *r, struct td_affine x, int64_t least, int64_t most)
{
    if (x.slope == 0) {
        return x.base >= least && x.base <= most;
    }
    const wide slope = x.slope, a = (wide)least - x.base, b = (wide)most - x.base;
    const wide first = slope > 0 ? -floor_div(-a, slope) : -floor_div(-b, slope);
    const wide last = slope > 0 ? floor_div(b, slope) : floor_div(a, slope);
    if (first > r->hi || last < r->lo || first > last) {
        return false;
    }
    r->lo = clamp(first, r->lo, r->hi);
    r->hi = clamp(last, r->lo, r->hi);
    TD_HOLDS(td_row_range_check, r);
    return true;
}

/* ------------------------------------------------------------------ arithmetic */

bool td_affine_left(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    (void)r;
    (void)y;
    *out = x;
    return true;
}

bool td_affine_add(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    (void)r;
    *out = (struct td_affine){0};
    return !__builtin_add_overflow(x.base, y.base, &out->base) &&
           !__builtin_add_overflow(x.slope, y.slope, &out->slope);
}

bool td_affine_sub(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    (void)r;
    *out = (struct td_affine){0};
    return !__builtin_sub_overflow(x.base, y.base, &out->base) &&
           !__builtin_sub_overflow(x.slope, y.slope, &out->slope);
}

bool td_affine_mul(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    if (x.slope != 0) {
        return y.slope == 0 && td_affine_mul(r, y, x, out);
    }
    *out = (struct td_affine){0};
    return !__builtin_mul_overflow(x.base, y.base, &out->base) &&
           !__builtin_mul_overflow(x.base, y.slope, &out->slope);
}

/* By a number that divides both coefficients, or of a multiple by what it is a multiple of. */
bool td_affine_div(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    (void)r;
    *out = (struct td_affine){0};
    if (y.slope == 0 && y.base > 0) {
        out->base = x.base / y.base;
        out->slope = x.slope / y.base;
        return x.base % y.base == 0 && x.slope % y.base == 0;
    }
    if (y.slope <= 0 || y.base < 0 || x.slope % y.slope != 0) {
        return false; /* y is not known to be above 0 for every N */
    }
    int64_t again;
    out->base = x.slope / y.slope;
    return !__builtin_mul_overflow(out->base, y.base, &again) && again == x.base;
}

/* Of numbers that are not negative, where rounding down and rounding to zero are one. */
bool td_affine_mod(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    struct td_affine ignored;
    if (x.base < 0 || x.slope < 0) {
        return false;
    }
    if (y.slope == 0 && y.base > 0 && x.slope % y.base == 0) {
        *out = td_affine_const(x.base % y.base);
        return true;
    }
    *out = td_affine_const(0);
    return td_affine_div(r, x, y, &ignored);
}

static bool uncut(const struct td_row_range *r, struct td_affine x, bool *negative)
{
    struct td_row_range mine = *r;
    *negative = td_row_range_negative(&mine, x);
    return mine.lo == r->lo && mine.hi == r->hi;
}

/* Whether x is the least of the two for every N. Where they are equal either answer will do, so the range is
 * cut only when both are wrong somewhere, and then so that equal ones stay on the lower side. */
static bool is_least(struct td_row_range *r, struct td_affine x, struct td_affine y, bool *out)
{
    struct td_affine below, d;
    if (!td_affine_sub(r, x, y, &below) || !td_affine_sub(r, below, td_affine_const(1), &d)) {
        return false;
    }
    if (!uncut(r, below, out) && !uncut(r, d, out)) {
        *out = td_row_range_negative(r, below.slope > 0 ? d : below);
    }
    return true;
}

bool td_affine_max(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    bool least;
    const bool ok = is_least(r, x, y, &least);
    *out = ok && least ? y : x;
    return ok;
}

bool td_affine_min(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    bool least;
    const bool ok = is_least(r, x, y, &least);
    *out = ok && least ? x : y;
    return ok;
}

/* ------------------------------------------------------------------ comparisons */

bool td_affine_less(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    struct td_affine d;
    if (!td_affine_sub(r, x, y, &d)) {
        return false;
    }
    *out = td_affine_const(td_row_range_negative(r, d));
    return true;
}

bool td_affine_greater(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    return td_affine_less(r, y, x, out);
}

bool td_affine_less_equal(struct td_row_range *r, struct td_affine x, struct td_affine y,
                          struct td_affine *out)
{
    const bool ok = td_affine_less(r, y, x, out);
    out->base = !out->base;
    return ok;
}

bool td_affine_greater_equal(struct td_row_range *r, struct td_affine x, struct td_affine y,
                             struct td_affine *out)
{
    return td_affine_less_equal(r, y, x, out);
}

bool td_affine_equals(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    struct td_affine d;
    if (!td_affine_sub(r, x, y, &d)) {
        return false;
    }
    *out = td_affine_const(td_row_range_zero(r, d));
    return true;
}

bool td_affine_differs(struct td_row_range *r, struct td_affine x, struct td_affine y, struct td_affine *out)
{
    const bool ok = td_affine_equals(r, x, y, out);
    out->base = !out->base;
    return ok;
}
