/* tests/unit/server/test_batch.c - joining tensors of several requests by rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/batch.h"

#include "tests/test.h"

/* Rows * width floats counting up from `from`. */
static struct td_tensor counted(int64_t rows, int64_t width, float from)
{
    struct td_err err = {0};
    struct td_tensor t;
    const struct td_shape shape = {.rank = 2, .dim = {rows, width}};
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &shape, &err));
    for (int64_t i = 0; i < rows * width; i++) {
        TD_DATA(&t, float)[i] = from + (float)i;
    }
    return t;
}

static struct td_tensor word(const char *text)
{
    struct td_err err = {0};
    struct td_tensor t;
    const struct td_shape shape = {.rank = 2, .dim = {1, 1}};
    CHECK_OK(td_tensor_new(&t, TD_STRING, &shape, &err));
    CHECK_OK(td_tensor_set_str(&t, 0, text, strlen(text), &err));
    return t;
}

TEST(rows_follow_one_another)
{
    struct td_err err = {0};
    struct td_tensor a = counted(2, 3, 0), b = counted(1, 3, 10), out;
    const struct td_tensor *parts[] = {&a, &b};
    CHECK_OK(td_batch_join(parts, 2, 0, false, NULL, &out, &err));
    CHECK_INT(out.shape.dim[0], 3);
    CHECK_INT(out.shape.dim[1], 3);
    CHECK(TD_DATA(&out, float)[5] == 5 && TD_DATA(&out, float)[6] == 10 && TD_DATA(&out, float)[8] == 12);
    td_tensor_clear(&out);
    td_tensor_clear(&a);
    td_tensor_clear(&b);
}

TEST(a_lone_part_is_shared)
{
    struct td_err err = {0};
    struct td_tensor a = counted(2, 3, 0), out;
    const struct td_tensor *parts[] = {&a};
    CHECK_OK(td_batch_join(parts, 1, 0, false, NULL, &out, &err));
    CHECK(out.data == a.data);
    td_tensor_clear(&out);
    td_tensor_clear(&a);
}

TEST(extra_rows_repeat_the_first_row_of_the_last_part)
{
    struct td_err err = {0};
    struct td_tensor a = counted(1, 2, 0), b = counted(2, 2, 10), out;
    const struct td_tensor *parts[] = {&a, &b};
    CHECK_OK(td_batch_join(parts, 2, 2, false, NULL, &out, &err));
    const float want[] = {0, 1, 10, 11, 12, 13, 10, 11, 10, 11};
    CHECK_INT(out.shape.dim[0], 5);
    CHECK(memcmp(out.data, want, sizeof want) == 0);
    td_tensor_clear(&out);
    td_tensor_clear(&a);
    td_tensor_clear(&b);
}

TEST(unequal_inner_sizes_are_padded_or_refused)
{
    struct td_err err = {0};
    struct td_tensor a = counted(2, 1, 1), b = counted(1, 3, 10), out;
    const struct td_tensor *parts[] = {&a, &b};
    CHECK_INT(td_batch_join(parts, 2, 0, false, NULL, &out, &err), TD_INVALID_ARGUMENT);
    err.code = TD_OK;
    CHECK_OK(td_batch_join(parts, 2, 0, true, NULL, &out, &err));
    const float want[] = {1, 0, 0, 2, 0, 0, 10, 11, 12};
    CHECK(memcmp(out.data, want, sizeof want) == 0);
    td_tensor_clear(&out);
    td_tensor_clear(&a);
    td_tensor_clear(&b);
}

TEST(three_dimensions_are_padded_in_their_corners)
{
    struct td_err err = {0};
    struct td_tensor a = counted(1, 2, 1), b = counted(1, 6, 10), out;
    a.shape = (struct td_shape){.rank = 3, .dim = {1, 2, 1}};
    b.shape = (struct td_shape){.rank = 3, .dim = {1, 3, 2}};
    const struct td_tensor *parts[] = {&a, &b};
    CHECK_OK(td_batch_join(parts, 2, 0, true, NULL, &out, &err));
    const float want[] = {1, 0, 2, 0, 0, 0, 10, 11, 12, 13, 14, 15};
    CHECK(memcmp(out.data, want, sizeof want) == 0);
    td_tensor_clear(&out);
    td_tensor_clear(&a);
    td_tensor_clear(&b);
}

TEST(strings_keep_their_counts)
{
    struct td_err err = {0};
    struct td_tensor a = word("left"), b = word("right"), out;
    const struct td_tensor *parts[] = {&a, &b};
    CHECK_OK(td_batch_join(parts, 2, 1, false, NULL, &out, &err));
    td_tensor_clear(&a);
    td_tensor_clear(&b);
    size_t n;
    CHECK_STR(td_tensor_str(&out, 0, &n), "left");
    CHECK_STR(td_tensor_str(&out, 1, &n), "right");
    CHECK_STR(td_tensor_str(&out, 2, &n), "right");
    td_tensor_clear(&out);
}

TEST(likeness_tells_what_joins)
{
    struct td_tensor a = counted(2, 3, 0), b = counted(5, 3, 0), c = counted(2, 4, 0);
    CHECK(td_batch_likeness(&a, 1, false) == td_batch_likeness(&b, 1, false));
    CHECK(td_batch_likeness(&a, 1, false) != td_batch_likeness(&c, 1, false));
    CHECK(td_batch_likeness(&a, 1, true) == td_batch_likeness(&c, 1, true));
    c.dtype = TD_INT32;
    CHECK(td_batch_likeness(&a, 1, true) != td_batch_likeness(&c, 1, true));
    struct td_tensor pair[] = {a, b};
    CHECK_INT(td_batch_rows(pair, 2), 0);
    CHECK_INT(td_batch_rows(&b, 1), 5);
    CHECK_INT(td_batch_rows(NULL, 0), 0);
    td_tensor_clear(&a);
    td_tensor_clear(&b);
    td_tensor_clear(&c);
}

TEST_MAIN(RUN(rows_follow_one_another) RUN(a_lone_part_is_shared)
              RUN(extra_rows_repeat_the_first_row_of_the_last_part)
                  RUN(unequal_inner_sizes_are_padded_or_refused)
                      RUN(three_dimensions_are_padded_in_their_corners) RUN(strings_keep_their_counts)
                          RUN(likeness_tells_what_joins))
