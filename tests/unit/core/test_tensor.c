/* tests/unit/core/test_tensor.c - making, sharing, copying tensors; strings; integers of every width.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/tensor.h"

#include "tests/test.h"

static struct td_tensor fresh(enum td_dtype dtype, struct td_shape shape)
{
    struct td_err err = {0};
    struct td_tensor t;
    CHECK_OK(td_tensor_new(&t, dtype, &shape, &err));
    return t;
}

TEST(what_cannot_be_made_leaves_the_tensor_alone)
{
    struct td_shape huge = {.rank = 2, .dim = {(int64_t)1 << 40, (int64_t)1 << 40}},
                    wide = td_shape_vector((int64_t)1 << 62);
    struct td_shape open = td_shape_vector(-1), unknown = td_shape_unknown(), two = td_shape_vector(2);
    const struct td_shape *shapes[] = {&huge, &wide, &open, &unknown};
    for (size_t i = 0; i < 4; i++) {
        struct td_err err = {0};
        struct td_tensor t = {.dtype = TD_INT8};
        CHECK_INT(td_tensor_new(&t, TD_DOUBLE, shapes[i], &err), TD_INVALID_ARGUMENT);
        CHECK(t.dtype == TD_INT8 && t.buf == NULL);
    }
    struct td_err err = {0};
    struct td_tensor t;
    CHECK_INT(td_tensor_new(&t, (enum td_dtype)99, &two, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "dtype 99 does not exist") != NULL);
}

TEST(rows_share_bytes)
{
    struct td_tensor t = fresh(TD_INT32, td_shape_matrix(4, 3)), rows, none;
    for (int i = 0; i < 12; i++) {
        TD_DATA(&t, int32_t)[i] = i;
    }
    td_tensor_rows(&rows, &t, 1, 3);
    CHECK(rows.shape.dim[0] == 2 && rows.shape.dim[1] == 3 && rows.buf == t.buf);
    CHECK_INT(td_tensor_int(&rows, 0), 3);
    CHECK_INT(td_tensor_int(&rows, 5), 8);
    td_tensor_rows(&none, &t, 4, 4);
    CHECK_INT(td_tensor_count(&none), 0);
    td_tensor_clear(&t);
    CHECK_INT(td_tensor_int(&rows, 0), 3); /* rows hold the bytes */
    td_tensor_clear(&rows);
    td_tensor_clear(&none);
    td_tensor_clear(&none); /* safe on a zeroed tensor */
}

TEST(owning_copies_only_what_others_hold)
{
    struct td_err err = {0};
    struct td_tensor t = fresh(TD_INT32, td_shape_vector(2)), other;
    void *data = t.data;
    TD_DATA(&t, int32_t)[1] = 5;
    CHECK_OK(td_tensor_own(&t, &err));
    CHECK(t.data == data);
    td_tensor_ref(&other, &t);
    CHECK_OK(td_tensor_own(&t, &err));
    CHECK(t.data != data && TD_DATA(&t, int32_t)[1] == 5);
    TD_DATA(&t, int32_t)[1] = 6;
    CHECK_INT(td_tensor_int(&other, 1), 5);
    td_tensor_clear(&t);
    int32_t planned[2] = {1, 2}; /* bytes of nobody's: to be copied as well */
    t = (struct td_tensor){.data = planned, .dtype = TD_INT32, .shape = td_shape_vector(2)};
    CHECK_OK(td_tensor_own(&t, &err));
    CHECK(t.buf != NULL && t.data != planned && TD_DATA(&t, int32_t)[1] == 2);
    td_tensor_clear(&t);
    td_tensor_clear(&other);
}

TEST(strings_are_counted_whatever_they_hold)
{
    struct td_err err = {0};
    struct td_tensor t = fresh(TD_STRING, td_shape_vector(3)), copy;
    size_t len;
    CHECK_STR(td_tensor_str(&t, 0, &len), "");
    CHECK_OK(td_tensor_set_str(&t, 0, "a\0b", 3, &err));
    CHECK_OK(td_tensor_set_str(&t, 1, "second", 6, &err));
    CHECK(memcmp(td_tensor_str(&t, 0, &len), "a\0b", 4) == 0 && len == 3); /* and a NUL behind */
    CHECK_OK(td_tensor_copy(&copy, &t, &err));
    CHECK(td_tensor_obj(&copy, 1) == td_tensor_obj(&t, 1)); /* immutable: shared */
    CHECK(!td_obj_unique(td_tensor_obj(&t, 1)));
    CHECK_OK(td_tensor_set_str(&t, 1, "", 0, &err));
    CHECK(td_tensor_obj(&t, 1) == NULL && td_obj_unique(td_tensor_obj(&copy, 1)));
    td_tensor_clear(&t);
    CHECK_STR(td_tensor_str(&copy, 1, &len), "second");
    td_tensor_clear(&copy);
}

TEST(copied_elements_let_go_of_what_they_replace)
{
    struct td_err err = {0};
    struct td_tensor a = fresh(TD_STRING, td_shape_vector(2)), b = fresh(TD_STRING, td_shape_vector(2));
    CHECK_OK(td_tensor_set_str(&a, 0, "x", 1, &err));
    CHECK_OK(td_tensor_set_str(&b, 0, "old", 3, &err));
    CHECK_OK(td_tensor_set_str(&b, 1, "old", 3, &err));
    struct td_obj *kept = td_obj_ref(td_tensor_obj(&b, 0));
    td_elems_copy(TD_STRING, b.data, a.data, 2);
    CHECK(td_obj_unique(kept) && td_tensor_obj(&b, 0) == td_tensor_obj(&a, 0) &&
          td_tensor_obj(&b, 1) == NULL);
    td_elems_copy(TD_STRING, a.data, a.data, 2); /* onto itself */
    size_t len;
    CHECK_STR(td_tensor_str(&a, 0, &len), "x");
    td_elems_copy(TD_FLOAT, NULL, NULL, 0);
    td_obj_unref(kept);
    td_tensor_clear(&a);
    td_tensor_clear(&b);
}

TEST(integers_of_every_width_are_read)
{
    static const struct {
        enum td_dtype dtype;
        unsigned char bytes[8];
        int64_t want;
    } rows[] = {{TD_INT8, {0xfe}, -2},
                {TD_UINT8, {0xfe}, 254},
                {TD_INT16, {0xfe, 0xff}, -2},
                {TD_UINT16, {0xfe, 0xff}, 65534},
                {TD_INT32, {0xfe, 0xff, 0xff, 0xff}, -2},
                {TD_UINT32, {0xfe, 0xff, 0xff, 0xff}, 4294967294},
                {TD_INT64, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -2},
                {TD_BOOL, {1}, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct td_tensor t = fresh(rows[i].dtype, td_shape_vector(1));
        memcpy(t.data, rows[i].bytes, td_dtype_size(rows[i].dtype));
        CHECK_INT(td_tensor_int(&t, 0), rows[i].want);
        td_tensor_clear(&t);
    }
}

TEST_MAIN(RUN(what_cannot_be_made_leaves_the_tensor_alone) RUN(rows_share_bytes)
              RUN(owning_copies_only_what_others_hold) RUN(strings_are_counted_whatever_they_hold)
                  RUN(copied_elements_let_go_of_what_they_replace) RUN(integers_of_every_width_are_read))
