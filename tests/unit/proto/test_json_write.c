/* tests/unit/proto/test_json_write.c - numbers and strings as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_write.h"

#include <inttypes.h>
#include <math.h>

#include "tests/test.h"

static const char *f32(float v)
{
    static char text[4][TD_JSON_NUM_CHARS + 1];
    static int i;
    i = (i + 1) % 4;
    text[i][td_json_put_float(text[i], v)] = '\0';
    return text[i];
}

static const char *f64(double v)
{
    static char text[TD_JSON_NUM_CHARS + 1];
    text[td_json_put_double(text, v)] = '\0';
    return text;
}

TEST(floats_look_as_tf_serving_prints_them)
{
    CHECK_STR(f32(0), "0.0");
    CHECK_STR(f32(-0.0f), "-0.0");
    CHECK_STR(f32(2.5f), "2.5");
    CHECK_STR(f32(3), "3.0");
    CHECK_STR(f32(-4096), "-4096.0");
    CHECK_STR(f32(9e6f), "9e+06");
    CHECK_STR(f32(3e-5f), "3e-05");
    CHECK_STR(f32(1.5e-7f), "1.5e-07");
    CHECK_STR(f32(0.1f), "0.1");
    CHECK_STR(f32(0.0001f), "0.0001");
    CHECK_STR(f32(16777216), "16777216.0");
    CHECK_STR(f32(0.33333334f), "0.33333334");
    CHECK_STR(f32(NAN), "NaN");
    CHECK_STR(f32(-INFINITY), "-Infinity");
    CHECK_STR(f32(3.4028235e38f), "3.4028235e+38");
    CHECK_STR(f32(1e-45f), "1.4013e-45");
    CHECK_STR(f32(15.64817f), "15.64817"); /* to nine digits it ends in a five */
    CHECK_STR(f32(0.5f), "0.5");
    CHECK_STR(f32(999999.5f), "999999.5");
    CHECK_STR(f32(9999999.0f), "9999999.0");
    CHECK_STR(f32(123456.0f), "123456.0");
    CHECK_STR(f32(0.00012345678f), "0.00012345678");
    CHECK_STR(f32(100000001e1f), "1e+09");
    CHECK_STR(f64(0.1), "0.1");
    CHECK_STR(f64(1.0 / 3), "0.3333333333333333");
    CHECK_STR(f64(1e300), "1e+300");
    CHECK_STR(f64(5e-324), "4.94066e-324");
    CHECK_STR(f64(1234567.5), "1234567.5");
    CHECK_STR(f64(100000), "100000.0");
    CHECK_STR(f64(1e6), "1e+06");
}

TEST(every_float_reads_back)
{
    uint64_t seed = 88172645463325252ULL;
    for (int i = 0; i < 400000; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        double d;
        float f;
        memcpy(&d, &seed, 8);
        memcpy(&f, &seed, 4);
        if (isfinite(d)) {
            CHECK(strtod(f64(d), NULL) == d);
        }
        if (isfinite(f)) {
            CHECK((float)strtod(f32(f), NULL) == f);
        }
        const float unit = (float)(seed >> 40) / 16777216.0f;
        CHECK((float)strtod(f32(unit), NULL) == unit);
    }
}

TEST(integers_are_whole)
{
    char text[TD_JSON_NUM_CHARS + 1];
    text[td_json_put_int(text, INT64_MIN)] = '\0';
    CHECK_STR(text, "-9223372036854775808");
    text[td_json_put_uint(text, UINT64_MAX)] = '\0';
    CHECK_STR(text, "18446744073709551615");
}

TEST(strings_are_escaped_and_b64_is_padded)
{
    struct td_sink s = {0};
    struct td_err err = {0};
    CHECK_OK(td_json_put_string(&s, "a\"\\\n\x01/\xc3\xa9", 8, &err));
    CHECK_OK(td_sink_put(&s, " ", 1, &err));
    CHECK_OK(td_json_put_b64(&s, "\xff\xfe", 2, &err));
    CHECK_OK(td_sink_put(&s, "", 1, &err));
    CHECK_STR(s.p, "\"a\\\"\\\\\\n\\u0001/\xc3\xa9\" {\"b64\": \"//4=\"}");
    td_sink_fini(&s);
}

TEST_MAIN(RUN(floats_look_as_tf_serving_prints_them) RUN(every_float_reads_back) RUN(integers_are_whole)
              RUN(strings_are_escaped_and_b64_is_padded))
