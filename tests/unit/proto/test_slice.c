/* tests/unit/proto/test_slice.c - slice specifications, their keys, and copying between boxes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint/slice.h"

#include "tests/test.h"

TEST(a_specification_is_read)
{
    struct td_err err = {0};
    struct td_shape whole;
    struct td_box b;
    CHECK_OK(td_slice_parse("4 5 1,2:-", &whole, &b, &err));
    CHECK(whole.rank == 2 && whole.dim[0] == 4 && whole.dim[1] == 5);
    CHECK(b.start[0] == 1 && b.len[0] == 2 && !b.full[0] && b.start[1] == 0 && b.len[1] == 5 && b.full[1]);
    CHECK(!td_box_is_whole(&b, &whole));
}

TEST(nonsense_is_refused)
{
    static const char *const bad[] = {"",
                                      "4",
                                      "4 0,5",
                                      "4 5 0,4",
                                      "4 5 0,4:0,6",
                                      "4 0,4:-",
                                      "4 -1,2",
                                      "4 0,4 ",
                                      "x 0,4",
                                      "4 0,4x",
                                      "4  0,4",
                                      " 0,4",
                                      "1 1 1 1 1 1 1 1 1 1 1 1 1 -:-:-:-:-:-:-:-:-:-:-:-:-",
                                      "4 1,9223372036854775807",
                                      "99999999999999999999 -",
                                      "4 5 -:-:-"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct td_err err = {0};
        struct td_shape whole;
        struct td_box b;
        CHECK_INT(td_slice_parse(bad[i], &whole, &b, &err), TD_INVALID_ARGUMENT);
    }
}

TEST(keys_are_ordered_codes)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    struct td_box b = {
        .rank = 3, .start = {0, 2, 300}, .len = {5, 64, 1000000}, .full = {true, false, false}};
    static const unsigned char want[] = {0,    'p',  0xff, 0,    0,    1,    1,    3,    0x80,
                                         0x7f, 0x82, 0xc0, 0x40, 0xc1, 0x2c, 0xef, 0x42, 0x40};
    CHECK_OK(td_slice_key("p\xff", &b, &s, &err));
    CHECK_INT(s.n, sizeof want);
    CHECK(memcmp(s.p, want, sizeof want) == 0);
    td_sink_fini(&s);
}

static struct td_tensor counting(const struct td_shape *shape)
{
    struct td_err err = {0};
    struct td_tensor t = {0};
    CHECK_OK(td_tensor_new(&t, TD_INT32, shape, &err));
    for (int32_t i = 0; i < td_tensor_count(&t); i++) {
        TD_DATA(&t, int32_t)[i] = i;
    }
    return t;
}

TEST(boxes_are_copied_where_they_meet)
{
    struct td_err err = {0};
    struct td_shape shape = {.rank = 3, .dim = {3, 4, 5}};
    struct td_tensor t = counting(&shape), out = {0};
    struct td_box all = td_box_whole(&shape), b = {.rank = 3, .start = {1, 1, 2}, .len = {2, 2, 3}};
    struct td_shape part = td_box_shape(&b);
    CHECK_OK(td_tensor_new(&out, TD_INT32, &part, &err));
    td_slice_copy(&t, &all, &out, &b);
    for (int i = 0; i < 12; i++) {
        int want = (i / 6 + 1) * 20 + (i / 3 % 2 + 1) * 5 + i % 3 + 2;
        CHECK_INT(TD_DATA(&out, int32_t)[i], want);
    }
    td_tensor_clear(&out);
    td_tensor_clear(&t);
}

TEST(boxes_that_do_not_meet_copy_nothing)
{
    struct td_box a = {.rank = 1, .start = {0}, .len = {2}}, b = {.rank = 1, .start = {2}, .len = {2}}, both;
    CHECK(!td_box_intersect(&a, &b, &both));
}

TEST_MAIN(RUN(a_specification_is_read) RUN(nonsense_is_refused) RUN(keys_are_ordered_codes)
              RUN(boxes_are_copied_where_they_meet) RUN(boxes_that_do_not_meet_copy_nothing))
