/* tests/unit/core/test_dtype.c - names and sizes of element types; rounding of the 16-bit floats, for every
 * value they have.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/dtype.h"

#include <math.h>

#include "tests/test.h"

TEST(numbers_names_and_sizes_are_tensorflows)
{
    static const struct {
        int number;
        const char *name, *tf_name;
        size_t size;
    } rows[] = {{1, "float", "DT_FLOAT", 4},        {2, "double", "DT_DOUBLE", 8},
                {3, "int32", "DT_INT32", 4},        {7, "string", "DT_STRING", 8},
                {9, "int64", "DT_INT64", 8},        {10, "bool", "DT_BOOL", 1},
                {14, "bfloat16", "DT_BFLOAT16", 2}, {18, "complex128", "DT_COMPLEX128", 16},
                {19, "half", "DT_HALF", 2},         {20, "resource", "DT_RESOURCE", 8},
                {23, "uint64", "DT_UINT64", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum td_dtype t = (enum td_dtype)rows[i].number;
        CHECK(td_dtype_valid(rows[i].number));
        CHECK_STR(td_dtype_name(t), rows[i].name);
        CHECK_STR(td_dtype_tf_name(t), rows[i].tf_name);
        CHECK_INT(td_dtype_size(t), rows[i].size);
    }
    static const int none[] = {0, -1, 24, 25, 101, 1 << 30};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        CHECK(!td_dtype_valid(none[i]));
        CHECK_STR(td_dtype_name((enum td_dtype)none[i]), "invalid");
        CHECK_INT(td_dtype_size((enum td_dtype)none[i]), 0);
    }
}

TEST(sets_part_the_types)
{
    for (int t = 1; t < TD_DTYPE_END; t++) {
        if (td_dtype_valid(t)) {
            bool object = td_dtype_in((enum td_dtype)t, TD_SET_OBJECTS);
            CHECK(object != td_dtype_in((enum td_dtype)t, TD_SET_PLAIN));
            CHECK(object == td_dtype_is_object((enum td_dtype)t));
        }
    }
}

/* Between two neighbours a < b of a format: what rounds to which, and the middle to the even one. */
#define CHECK_ROUNDING(round, a_bits, b_bits, a, b)                                                          \
    do {                                                                                                     \
        float middle = (float)(((double)(a) + (double)(b)) / 2);                                             \
        uint16_t even = (a_bits)&1 ? (b_bits) : (a_bits);                                                    \
        CHECK_INT(round(a).bits, a_bits);                                                                    \
        CHECK_INT(round(middle).bits, even);                                                                 \
        CHECK_INT(round(nextafterf(middle, a)).bits, a_bits);                                                \
        CHECK_INT(round(nextafterf(middle, b)).bits, b_bits);                                                \
        CHECK_INT(round(-middle).bits, even | 0x8000);                                                       \
    } while (0)

TEST(every_half_is_rounded_to_from_its_neighbourhood)
{
    for (uint16_t bits = 0; bits < 0x7bff; bits++) {
        uint16_t next = (uint16_t)(bits + 1);
        CHECK_ROUNDING(td_float_to_half, bits, next, td_half_to_float((td_half){bits}),
                       td_half_to_float((td_half){next}));
    }
    CHECK_INT(td_float_to_half(65519.996f).bits, 0x7bff);
    CHECK_INT(td_float_to_half(65520.0f).bits, 0x7c00);
    CHECK_INT(td_float_to_half(-INFINITY).bits, 0xfc00);
    CHECK(td_half_to_float((td_half){0x7c00}) == INFINITY && td_half_to_float((td_half){0x0001}) == 0x1p-24f);
}

TEST(every_bfloat16_is_rounded_to_from_its_neighbourhood)
{
    for (uint16_t bits = 0; bits < 0x7f7f; bits++) {
        uint16_t next = (uint16_t)(bits + 1);
        CHECK_ROUNDING(td_float_to_bf16, bits, next, td_bf16_to_float((td_bf16){bits}),
                       td_bf16_to_float((td_bf16){next}));
    }
    CHECK_INT(td_float_to_bf16(3.4028235e38f).bits, 0x7f80);
}

TEST(nan_stays_nan_whatever_its_bits)
{
    for (uint32_t low = 1; low < 0x800000u; low = low * 3 + 1) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t u = sign << 31 | 0x7f800000u | low;
            float f;
            memcpy(&f, &u, 4);
            CHECK(isnan(td_half_to_float(td_float_to_half(f))));
            CHECK(isnan(td_bf16_to_float(td_float_to_bf16(f))));
            CHECK_INT(td_float_to_half(f).bits >> 15, sign);
        }
    }
}

TEST_MAIN(RUN(numbers_names_and_sizes_are_tensorflows) RUN(sets_part_the_types)
              RUN(every_half_is_rounded_to_from_its_neighbourhood)
                  RUN(every_bfloat16_is_rounded_to_from_its_neighbourhood)
                      RUN(nan_stays_nan_whatever_its_bits))
