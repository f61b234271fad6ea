/* tests/unit/proto/test_json_read.c - tokens and numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_read.h"

#include <inttypes.h>
#include <math.h>

#include "proto/json/json_write.h"
#include "tests/test.h"

static double number(const char *text, enum td_json_num_kind kind)
{
    struct td_json j = td_json_make(text, strlen(text));
    struct td_json_num n;
    struct td_err err = {0};
    CHECK_OK(td_json_number(&j, &n, &err));
    CHECK_INT(n.kind, kind);
    CHECK(j.at == j.end);
    return td_json_num_double(&n);
}

TEST(numbers_are_the_nearest_double)
{
    static const char *const texts[] = {"0.1",
                                        "1e22",
                                        "1e23",
                                        "8.98846567431158e307",
                                        "2.2250738585072011e-308",
                                        "4.9406564584124654e-324",
                                        "1e-400",
                                        "1e400",
                                        "0.30000000000000004",
                                        "9007199254740993.0",
                                        "9007199254740992.9999",
                                        "123456789012345678901234567890.5",
                                        "0.000000000000000000000000000000012345",
                                        "12345678.90123456789",
                                        "00",
                                        "-0.0",
                                        "1.7976931348623157e308",
                                        "0.1000000014901161193847656",
                                        "3.4028234663852886e38",
                                        "1.00000000000000011102230246251565404",
                                        "5e-1",
                                        "100000000000000000000000.0e-23"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(texts[i], "00") != 0) {
            CHECK(number(texts[i], TD_JSON_REAL) == strtod(texts[i], NULL));
        }
    }
    CHECK(signbit(number("-0.0", TD_JSON_REAL)));
    CHECK(isnan(number("NaN", TD_JSON_REAL)));
    CHECK(number("-Infinity", TD_JSON_REAL) == -INFINITY && number("Inf", TD_JSON_REAL) == INFINITY);
}

TEST(random_numbers_agree_with_the_library)
{
    uint64_t seed = 88172645463325252ULL;
    for (int i = 0; i < 300000; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        char text[64];
        const int digits = (int)(seed % 20), e = (int)(seed >> 20) % 40 - 20;
        snprintf(text, sizeof text, "%" PRIu64 ".%0*" PRIu64 "e%d", seed >> (seed % 60), digits + 1,
                 (seed * 2654435761u) % 100000000, e);
        CHECK(number(text, TD_JSON_REAL) == strtod(text, NULL));
        double d;
        memcpy(&d, &seed, 8);
        if (isfinite(d)) {
            snprintf(text, sizeof text, "%.*g", (int)(seed % 18) + 1, d);
            if (strpbrk(text, ".e") != NULL) {
                CHECK(number(text, TD_JSON_REAL) == strtod(text, NULL));
            }
        }
    }
}

TEST(integers_keep_64_bits)
{
    CHECK(number("9223372036854775807", TD_JSON_INT) == 9223372036854775807.0);
    CHECK(number("-9223372036854775808", TD_JSON_INT) == -9223372036854775808.0);
    CHECK(number("9223372036854775808", TD_JSON_UINT) == 9223372036854775808.0);
    CHECK(number("18446744073709551615", TD_JSON_UINT) == 18446744073709551615.0);
    CHECK(number("18446744073709551616", TD_JSON_REAL) == 18446744073709551616.0);
    CHECK(number("-9223372036854775809", TD_JSON_REAL) == -9223372036854775809.0);
    CHECK(number("12345678", TD_JSON_INT) == 12345678 && number("0", TD_JSON_INT) == 0);
    struct td_json j = td_json_make("18446744073709551615", 20);
    struct td_json_num n;
    struct td_err err = {0};
    CHECK_OK(td_json_number(&j, &n, &err));
    CHECK(n.u == UINT64_MAX);
}

static void refuses(const char *text, const char *words)
{
    struct td_json j = td_json_make(text, strlen(text));
    struct td_err err = {0};
    CHECK_INT(td_json_skip(&j, &err), TD_INVALID_ARGUMENT);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
}

TEST(broken_text_is_refused_with_its_offset)
{
    refuses("", "Invalid value. at offset: 0");
    refuses("[1,", "Invalid value. at offset: 3");
    refuses("[1 2]", "at offset: 3");
    refuses("{\"a\" 1}", "colon");
    refuses("{a:1}", "name");
    refuses("\"abc", "closing quotation");
    refuses("1.", "fraction");
    refuses("1e", "exponent");
    refuses("-x", "Invalid value");
    refuses("tru", "Invalid value");
    refuses("[[}", "Invalid value");
    char deep[400];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    refuses(deep, "nested too deeply");
}

TEST(well_formed_values_are_skipped_whole)
{
    const char *text = " {\"a\":[1,{},[],{\"b\":null}],\"c\":\"x\\\"]\"} tail";
    struct td_json j = td_json_make(text, strlen(text));
    struct td_err err = {0};
    CHECK_OK(td_json_skip(&j, &err));
    CHECK_STR(j.at, " tail");
}

TEST(strings_are_unescaped)
{
    const char *text = "\"a\\n\\u00e9\\ud83d\\ude00\\u0000\\/\"";
    struct td_json j = td_json_make(text, strlen(text));
    struct td_json_str s;
    struct td_err err = {0};
    char buf[64];
    size_t n = 0;
    CHECK_OK(td_json_string(&j, &s, &err));
    CHECK_OK(td_json_unescape(&j, &s, buf, &n, &err));
    CHECK_INT(n, 10);
    CHECK(memcmp(buf, "a\n\xc3\xa9\xf0\x9f\x98\x80\0/", 10) == 0);
    struct td_json_str lone = {.p = "\\ud83d", .len = 6, .escaped = true};
    CHECK_INT(td_json_unescape(&j, &lone, buf, &n, &err), TD_INVALID_ARGUMENT);
}

TEST(base64_is_strict)
{
    char buf[16];
    size_t n = 0;
    CHECK(td_json_base64("aGk=", 4, buf, &n) && n == 2 && memcmp(buf, "hi", 2) == 0);
    CHECK(td_json_base64("aGk", 3, buf, &n) && n == 2);
    CHECK(td_json_base64("/+8A", 4, buf, &n) && n == 3 && memcmp(buf, "\xff\xef\0", 3) == 0);
    CHECK(td_json_base64("", 0, buf, &n) && n == 0);
    CHECK(!td_json_base64("a", 1, buf, &n) && !td_json_base64("a b=", 4, buf, &n) &&
          !td_json_base64("====", 4, buf, &n));
}

TEST_MAIN(RUN(numbers_are_the_nearest_double) RUN(random_numbers_agree_with_the_library)
              RUN(integers_keep_64_bits) RUN(broken_text_is_refused_with_its_offset)
                  RUN(well_formed_values_are_skipped_whole) RUN(strings_are_unescaped) RUN(base64_is_strict))
