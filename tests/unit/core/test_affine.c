/* tests/unit/core/test_affine.c - arithmetic of a + b * N held against plain arithmetic, for every N of small
 * ranges.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/affine.h"

#include "tests/test.h"

enum { DRAWS = 40000, MOST = 60 };

static uint64_t seed = 88172645463325252u;

static int64_t draw(int64_t least, int64_t most)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return least + (int64_t)(seed % (uint64_t)(most - least + 1));
}

static struct td_affine draw_affine(void)
{
    return (struct td_affine){.base = draw(-12, 40), .slope = draw(0, 2) == 0 ? 0 : draw(-3, 6)};
}

static int64_t at(struct td_affine x, int64_t n)
{
    return x.base + x.slope * n;
}

/* ------------------------------------------------------------------ what the functions stand for */

typedef int64_t plain_fn(int64_t x, int64_t y);

static int64_t plain_add(int64_t x, int64_t y)
{
    return x + y;
}
static int64_t plain_sub(int64_t x, int64_t y)
{
    return x - y;
}
static int64_t plain_mul(int64_t x, int64_t y)
{
    return x * y;
}
static int64_t plain_div(int64_t x, int64_t y)
{
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
static int64_t plain_mod(int64_t x, int64_t y)
{
    return x - plain_div(x, y) * y;
}
static int64_t plain_max(int64_t x, int64_t y)
{
    return x > y ? x : y;
}
static int64_t plain_min(int64_t x, int64_t y)
{
    return x < y ? x : y;
}
static int64_t plain_less(int64_t x, int64_t y)
{
    return x < y;
}
static int64_t plain_less_equal(int64_t x, int64_t y)
{
    return x <= y;
}
static int64_t plain_greater(int64_t x, int64_t y)
{
    return x > y;
}
static int64_t plain_greater_equal(int64_t x, int64_t y)
{
    return x >= y;
}
static int64_t plain_equals(int64_t x, int64_t y)
{
    return x == y;
}
static int64_t plain_differs(int64_t x, int64_t y)
{
    return x != y;
}

static const struct {
    td_affine_fn *fn;
    plain_fn *plain;
    bool divides;
} pairs[] = {
    {td_affine_add, plain_add, false},         {td_affine_sub, plain_sub, false},
    {td_affine_mul, plain_mul, false},         {td_affine_div, plain_div, true},
    {td_affine_mod, plain_mod, true},          {td_affine_max, plain_max, false},
    {td_affine_min, plain_min, false},         {td_affine_less, plain_less, false},
    {td_affine_greater, plain_greater, false}, {td_affine_less_equal, plain_less_equal, false},
    {td_affine_equals, plain_equals, false},   {td_affine_greater_equal, plain_greater_equal, false},
    {td_affine_differs, plain_differs, false},
};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

static struct td_row_range draw_range(void)
{
    const int64_t lo = draw(1, 12);
    return (struct td_row_range){lo, draw(lo, MOST)};
}

static void check_range(struct td_row_range was, struct td_row_range is)
{
    CHECK(is.lo >= was.lo && is.hi <= was.hi && is.lo <= is.hi);
}

TEST(results_are_right_for_every_number_of_the_range_that_is_left)
{
    int followed[PAIRS] = {0};
    for (int i = 0; i < DRAWS; i++) {
        const int k = i % PAIRS;
        const struct td_row_range was = draw_range();
        struct td_row_range is = was;
        const struct td_affine x = draw_affine(), y = draw_affine();
        struct td_affine z;
        if (!pairs[k].fn(&is, x, y, &z)) {
            continue;
        }
        followed[k]++;
        check_range(was, is);
        for (int64_t n = is.lo; n <= is.hi; n++) {
            CHECK(!pairs[k].divides || at(y, n) > 0);
            CHECK_INT(at(z, n), pairs[k].plain(at(x, n), at(y, n)));
        }
    }
    for (int k = 0; k < PAIRS; k++) {
        CHECK(followed[k] > 50);
    }
}

TEST(questions_have_one_answer_on_the_range_that_is_left)
{
    for (int i = 0; i < DRAWS; i++) {
        const struct td_row_range was = draw_range();
        struct td_row_range is = was;
        const struct td_affine x = draw_affine();
        const bool zero = i % 2 == 0,
                   answer = zero ? td_row_range_zero(&is, x) : td_row_range_negative(&is, x);
        check_range(was, is);
        for (int64_t n = is.lo; n <= is.hi; n++) {
            CHECK(answer == (zero ? at(x, n) == 0 : at(x, n) < 0));
        }
    }
}

TEST(a_range_within_bounds_is_all_of_it_that_is)
{
    for (int i = 0; i < DRAWS; i++) {
        const struct td_row_range was = draw_range();
        struct td_row_range is = was;
        const struct td_affine x = draw_affine();
        const int64_t least = draw(-20, 60), most = draw(least, 120);
        const bool any = td_row_range_within(&is, x, least, most);
        check_range(was, is);
        for (int64_t n = was.lo; n <= was.hi; n++) {
            const bool inside = at(x, n) >= least && at(x, n) <= most;
            CHECK(inside == (any && n >= is.lo && n <= is.hi));
        }
    }
}

TEST(a_cut_keeps_the_lower_side_where_it_holds_a_batch_of_two)
{
    struct td_row_range r = {1, TD_MOST_ROWS};
    struct td_affine n = {.slope = 1}, z;
    CHECK(td_affine_less(&r, n, td_affine_const(3), &z) && td_affine_is(z, 1, 0) && r.lo == 1 && r.hi == 2);
    r = (struct td_row_range){1, TD_MOST_ROWS};
    CHECK(td_affine_less(&r, n, td_affine_const(2), &z) && td_affine_is(z, 0, 0) && r.lo == 2);
    r = (struct td_row_range){1, TD_MOST_ROWS};
    CHECK(td_affine_max(&r, n, td_affine_const(1), &z) && td_affine_is(z, 0, 1) && r.lo == 1 &&
          r.hi == TD_MOST_ROWS);
}

TEST(coefficients_past_64_bits_are_not_followed)
{
    const struct td_affine large = {.base = INT64_MAX, .slope = INT64_MAX},
                           low = {.base = INT64_MIN, .slope = 1};
    struct td_row_range r = {1, TD_MOST_ROWS};
    struct td_affine z;
    CHECK(!td_affine_add(&r, large, large, &z));
    CHECK(!td_affine_sub(&r, low, td_affine_const(1), &z));
    CHECK(!td_affine_mul(&r, large, td_affine_const(2), &z));
    CHECK(!td_affine_less(&r, low, td_affine_const(1), &z));
    CHECK(!td_affine_mul(&r, large, large, &z));
    CHECK(td_row_range_negative(&r, low) && r.lo == 1 && r.hi == TD_MOST_ROWS);
}

TEST_MAIN(RUN(results_are_right_for_every_number_of_the_range_that_is_left)
              RUN(questions_have_one_answer_on_the_range_that_is_left)
                  RUN(a_range_within_bounds_is_all_of_it_that_is)
                      RUN(a_cut_keeps_the_lower_side_where_it_holds_a_batch_of_two)
                          RUN(coefficients_past_64_bits_are_not_followed))
