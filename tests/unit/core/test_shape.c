/* tests/unit/core/test_shape.c - shape arithmetic at its edges: overflow, unknown parts, broadcasting, axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/shape.h"

#include "tests/test.h"

static struct td_shape shape(int rank, int64_t a, int64_t b)
{
    return (struct td_shape){.rank = rank, .dim = {a, b}};
}

TEST(a_count_that_overflows_makes_no_shape)
{
    struct td_err err = {0};
    struct td_shape s;
    const int64_t dims[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
    CHECK_INT(td_shape_make(&s, dims, 2, &err), TD_INVALID_ARGUMENT);
}

TEST(a_rank_beyond_the_largest_makes_no_shape)
{
    struct td_err err = {0};
    struct td_shape s;
    const int64_t dims[TD_MAX_RANK + 1] = {0};
    CHECK_INT(td_shape_make(&s, dims, TD_MAX_RANK + 1, &err), TD_INVALID_ARGUMENT);
    CHECK_INT(td_shape_make(&s, dims, -1, &(struct td_err){0}), TD_INVALID_ARGUMENT);
}

TEST(an_empty_dimension_counts_zero)
{
    struct td_shape s = shape(2, 0, 7);
    CHECK_INT(td_shape_count(&s), 0);
    CHECK(td_shape_known(&s));
    s = shape(2, -1, 7);
    CHECK(!td_shape_known(&s));
    CHECK(td_shape_count(&s) < 0);
}

static void broadcasts(struct td_shape a, struct td_shape b, struct td_shape want)
{
    struct td_err err = {0};
    struct td_shape got;
    CHECK_OK(td_shape_broadcast(&a, &b, &got, &err));
    CHECK(td_shape_equal(&got, &want));
}

TEST(broadcasting_stretches_ones_and_keeps_what_is_unknown)
{
    broadcasts(shape(2, 3, 1), shape(1, 4, 0), shape(2, 3, 4));
    broadcasts(shape(2, 0, 1), shape(2, 1, 4), shape(2, 0, 4));
    broadcasts(shape(1, -1, 0), shape(1, 4, 0), shape(1, 4, 0));
    broadcasts(shape(1, -1, 0), shape(1, 1, 0), shape(1, -1, 0));
    broadcasts(td_shape_unknown(), shape(1, 4, 0), td_shape_unknown());
}

TEST(other_lengths_do_not_broadcast)
{
    struct td_err err = {0};
    struct td_shape a = shape(1, 3, 0), b = shape(1, 4, 0), got;
    CHECK_INT(td_shape_broadcast(&a, &b, &got, &err), TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, "Incompatible shapes: [3] vs. [4]");
}

TEST(axes_count_from_either_end)
{
    int axis = 9;
    CHECK(td_shape_axis(3, -3, &axis) && axis == 0);
    CHECK(td_shape_axis(3, 2, &axis) && axis == 2);
    CHECK(!td_shape_axis(3, 3, &axis));
    CHECK(!td_shape_axis(3, -4, &axis));
    CHECK(!td_shape_axis(0, 0, &axis));
    CHECK(!td_shape_axis(3, INT64_MIN, &axis));
}

TEST_MAIN(RUN(a_count_that_overflows_makes_no_shape) RUN(a_rank_beyond_the_largest_makes_no_shape)
              RUN(an_empty_dimension_counts_zero) RUN(broadcasting_stretches_ones_and_keeps_what_is_unknown)
                  RUN(other_lengths_do_not_broadcast) RUN(axes_count_from_either_end))
