/* tests/unit/proto/test_json_tensor.c - bodies of the REST API to tensors and back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_tensor.h"

#include <math.h>

#include "tests/fuzz/json_spaced.h"
#include "tests/test.h"

static struct td_err err;
static struct td_named got[8];
static int n_got;
static const char *signature;

static enum td_code parse(const char *text, const struct td_json_field *fields, int n)
{
    static struct td_arena *arena;
    arena = arena ? arena : td_arena_new(1 << 16);
    struct td_json_body body;
    err = (struct td_err){0};
    while (n_got > 0) {
        td_tensor_clear(&got[--n_got].t);
    }
    TD_TRY(td_json_body(text, strlen(text), arena, &body, &err));
    signature = body.signature;
    return td_json_inputs(&body, fields, n, got, &n_got, &err);
}

static enum td_code parse1(const char *text, enum td_dtype dtype)
{
    return parse(text, &(struct td_json_field){.name = "x", .dtype = dtype}, 1);
}

static void shape_is(int i, const char *want)
{
    CHECK_STR(TD_SHAPE_STR(&got[i].t.shape), want);
}

static void refuses(const char *text, enum td_dtype dtype, enum td_code code, const char *words)
{
    CHECK_INT(parse1(text, dtype), code);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
}

TEST(columns_take_scalars_lists_and_named_values)
{
    CHECK_OK(parse1("{\"inputs\": 2.5}", TD_FLOAT));
    shape_is(0, "[]");
    CHECK(*TD_DATA(&got[0].t, float) == 2.5f);
    CHECK_OK(parse1(
        "{\"inputs\": {\"x\": [[1,2],[3,4.5]], \"extra\": {\"a\":[]}}, \"signature_name\": \"s\\u00e9\"}",
        TD_DOUBLE));
    shape_is(0, "[2,2]");
    CHECK(TD_DATA(&got[0].t, double)[3] == 4.5);
    CHECK_STR(signature, "s\xc3\xa9");
    CHECK_OK(parse1("{\"inputs\": []}", TD_INT32));
    shape_is(0, "[0]");
    CHECK_OK(parse1("{\"inputs\": [[],[]]} \r\n", TD_INT32));
    shape_is(0, "[2,0]");
}

TEST(rows_stack_instances)
{
    CHECK_OK(parse1("{\"instances\": [1.0, 2.0, 5.0]}", TD_FLOAT));
    shape_is(0, "[3]");
    CHECK_OK(parse1("{\"instances\": [{\"x\": [1,2]}, {\"x\": [3,4]}]}", TD_INT64));
    shape_is(0, "[2,2]");
    CHECK_INT(TD_DATA(&got[0].t, int64_t)[3], 4);
    const struct td_json_field two[] = {{"a", TD_INT32, false}, {"b", TD_STRING, false}};
    CHECK_OK(parse("{\"instances\":[{\"b\":\"x\",\"a\":1},{\"a\":2,\"b\":{\"b64\":\"/w==\"}}]}", two, 2));
    CHECK_INT(n_got, 2);
    CHECK_INT(TD_DATA(&got[0].t, int32_t)[1], 2);
    size_t len = 0;
    CHECK(td_tensor_str(&got[1].t, 1, &len)[0] == '\xff' && len == 1);
    shape_is(1, "[2]");
}

TEST(every_dtype_is_read_exactly)
{
    CHECK_OK(parse1("{\"inputs\": [18446744073709551615]}", TD_UINT64));
    CHECK(TD_DATA(&got[0].t, uint64_t)[0] == UINT64_MAX);
    CHECK_OK(parse1("{\"inputs\": [-9223372036854775808]}", TD_INT64));
    CHECK(TD_DATA(&got[0].t, int64_t)[0] == INT64_MIN);
    CHECK_OK(parse1("{\"inputs\": [true,false]}", TD_BOOL));
    CHECK(TD_DATA(&got[0].t, td_bool)[0] == 1);
    CHECK_OK(parse1("{\"inputs\": [NaN, -Infinity, 1e39]}", TD_FLOAT));
    CHECK(isnan(TD_DATA(&got[0].t, float)[0]) && isinf(TD_DATA(&got[0].t, float)[2]));
    CHECK_OK(parse1("{\"inputs\": [1, 65504, 0.1]}", TD_HALF));
    CHECK(TD_DATA(&got[0].t, td_half)[1].bits == 0x7bff);
    CHECK_OK(parse1("{\"inputs\": [-128, 127]}", TD_INT8));
    CHECK_OK(parse1("{\"inputs\": [\"\", \"a\\u0000b\"]}", TD_STRING));
    size_t len = 0;
    (void)td_tensor_str(&got[0].t, 1, &len);
    CHECK_INT(len, 3);
}

TEST(wrong_kinds_are_named)
{
    refuses("{\"inputs\": [\"a\"]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "JSON Value: \"a\" Type: String is not of expected type: float");
    refuses("{\"inputs\": [1.0]}", TD_INT32, TD_INVALID_ARGUMENT,
            "Type: Number is not of expected type: int32");
    refuses("{\"inputs\": [300]}", TD_UINT8, TD_INVALID_ARGUMENT, "JSON Value: 300");
    refuses("{\"inputs\": [-1]}", TD_UINT64, TD_INVALID_ARGUMENT, "JSON Value: -1");
    refuses("{\"inputs\": [1]}", TD_BOOL, TD_INVALID_ARGUMENT, "expected type: bool");
    refuses("{\"inputs\": [null]}", TD_STRING, TD_INVALID_ARGUMENT, "Type: Null");
    refuses("{\"inputs\": [{\"b64\":\"!\"}]}", TD_STRING, TD_INVALID_ARGUMENT, "base64");
    refuses("{\"inputs\": [1]}", TD_COMPLEX64, TD_UNIMPLEMENTED, "complex64");
}

TEST(ragged_lists_are_refused)
{
    refuses("{\"inputs\": [[1,2],[3]]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "Encountered list at unexpected size: 1 at level: 1 expected size: 2");
    refuses("{\"inputs\": [1,[2]]}", TD_FLOAT, TD_INVALID_ARGUMENT, "Encountered list at unexpected level");
    refuses("{\"inputs\": [[1],2]}", TD_FLOAT, TD_INVALID_ARGUMENT, "found at incorrect level: 2");
    refuses("{\"instances\": [[1],[2,3]]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "Expecting tensor size: 1 but got: 2");
    refuses("{\"instances\": [[1,2],[[3,4]]]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "Expecting shape [2] but got: [1,2]");
    refuses("{\"inputs\": [[[[[[[[[[[[[[1]]]]]]]]]]]]]]}", TD_FLOAT, TD_INVALID_ARGUMENT, "nested more than");
}

TEST(broken_bodies_are_refused)
{
    refuses("", TD_FLOAT, TD_INVALID_ARGUMENT, "The document is empty");
    refuses("[1]", TD_FLOAT, TD_INVALID_ARGUMENT, "must be an object");
    refuses("{}", TD_FLOAT, TD_INVALID_ARGUMENT, "Missing 'inputs' or 'instances' key");
    refuses("{\"inputs\":1,\"instances\":[1]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "one of 'inputs' and 'instances'");
    refuses("{\"instances\":[]}", TD_FLOAT, TD_INVALID_ARGUMENT, "empty");
    refuses("{\"instances\":{}}", TD_FLOAT, TD_INVALID_ARGUMENT, "list");
    refuses("{\"inputs\":[1}", TD_FLOAT, TD_INVALID_ARGUMENT, "JSON Parse error");
    refuses("{\"inputs\":[1", TD_FLOAT, TD_INVALID_ARGUMENT, "JSON Parse error");
    refuses("{\"inputs\":1 2}", TD_FLOAT, TD_INVALID_ARGUMENT, "JSON Parse error");
    refuses("{\"inputs\":1}x", TD_FLOAT, TD_INVALID_ARGUMENT, "The document root must not be followed");
    refuses("{\"inputs\":1} {\"inputs\":1}", TD_FLOAT, TD_INVALID_ARGUMENT, "The document root must not be");
    refuses("{\"inputs\":{\"y\":1}}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "Missing named input: x in 'inputs' object.");
    refuses("{\"signature_name\":3,\"inputs\":1}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "'signature_name' key must be a string");
    refuses("{\"instances\":[{\"x\":1},{\"y\":1}]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "keys must be equal to: x");
    refuses("{\"instances\":[{\"x\":1},2]}", TD_FLOAT, TD_INVALID_ARGUMENT, "got value/list at index 1");
}

static struct td_tensor tensor(enum td_dtype dtype, struct td_shape shape, const void *bytes)
{
    struct td_tensor t = {0};
    CHECK_OK(td_tensor_new(&t, dtype, &shape, &err));
    memcpy(t.data, bytes, td_tensor_bytes(&t));
    return t;
}

static const char *print(const struct td_named *out, int n, enum td_json_form form)
{
    static struct td_sink s;
    s.n = 0;
    err = (struct td_err){0};
    if (td_json_outputs(&s, out, n, form, &err) || td_sink_put(&s, "", 1, &err)) {
        return err.msg;
    }
    return s.p;
}

TEST(answers_have_tf_servings_shape)
{
    const float x[] = {2.5f, 3, 4.5f};
    const int32_t y[] = {1, 2, 3};
    struct td_named out[] = {{"a", tensor(TD_FLOAT, td_shape_vector(3), x)},
                             {"b", tensor(TD_INT32, td_shape_matrix(3, 1), y)}};
    CHECK_STR(print(out, 1, TD_JSON_ROWS), "{\n    \"predictions\": [2.5, 3.0, 4.5]\n}");
    CHECK_STR(print(out, 1, TD_JSON_COLUMNS), "{\n    \"outputs\": [2.5, 3.0, 4.5]\n}");
    CHECK_STR(print(out, 2, TD_JSON_ROWS), "{\n    \"predictions\": [{\"a\": 2.5, \"b\": [1]}, {\"a\": 3.0, "
                                           "\"b\": [2]}, {\"a\": 4.5, \"b\": [3]}]\n}");
    CHECK_STR(print(out, 2, TD_JSON_COLUMNS),
              "{\n    \"outputs\": {\"a\": [2.5, 3.0, 4.5], \"b\": [[1], [2], [3]]}\n}");
    out[1].t.shape = td_shape_matrix(1, 3);
    CHECK_STR(print(out, 2, TD_JSON_ROWS), "Tensor name: b has inconsistent batch size: 1 expecting: 3");
    out[0].t.shape = td_shape_scalar();
    CHECK_STR(print(out, 1, TD_JSON_ROWS), "Tensor name: a has no shape information ");
    CHECK_STR(print(out, 1, TD_JSON_COLUMNS), "{\n    \"outputs\": 2.5\n}");
    td_tensor_clear(&out[0].t);
    td_tensor_clear(&out[1].t);
}

TEST(bytes_outputs_are_base64)
{
    struct td_tensor t = {0};
    const struct td_shape shape = td_shape_vector(2);
    CHECK_OK(td_tensor_new(&t, TD_STRING, &shape, &err));
    CHECK_OK(td_tensor_set_str(&t, 0, "hi", 2, &err));
    CHECK_OK(td_tensor_set_str(&t, 1, "\xff", 1, &err));
    struct td_named out = {"s", t};
    CHECK_STR(print(&out, 1, TD_JSON_ROWS), "{\n    \"predictions\": [\"hi\", {\"b64\": \"/w==\"}]\n}");
    out.name = "img_bytes";
    CHECK_STR(print(&out, 1, TD_JSON_ROWS),
              "{\n    \"predictions\": [{\"b64\": \"aGk=\"}, {\"b64\": \"/w==\"}]\n}");
    td_tensor_clear(&out.t);
}

enum { TEXT_BYTES = 64 * 1024 };

/* Rows of so many numbers, each in another way of writing, the first of which are brief; want: what strtod
 * makes of them. */
static const char *const forms[] = {"%.0f", "%.1f", "%.3f", "%.9g", "%.17g", "%.12f", "%.19f", "%e"};
enum { BRIEF_FORMS = 3, FORMS = 8 };

static void write_rows(char *text, int rows, int width, const char *between, int n_forms, double *want)
{
    uint64_t seed = 88172645463325252ULL + (uint64_t)width;
    size_t n = (size_t)snprintf(text, TEXT_BYTES, "{\"inputs\": [");
    for (int i = 0; i < rows * width; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        char number[48];
        snprintf(number, sizeof number, forms[seed % (uint64_t)n_forms],
                 ((double)(int64_t)seed / 1e12) / (double)(seed >> 40 | 1));
        want[i] = strpbrk(number, ".e") == NULL && strtod(number, NULL) == 0 ? 0 : strtod(number, NULL);
        n += (size_t)snprintf(text + n, TEXT_BYTES - n, "%s%s",
                              i == 0           ? "["
                              : i % width == 0 ? "], ["
                                               : between,
                              number);
    }
    snprintf(text + n, TEXT_BYTES - n, "]]}");
}

TEST(lists_of_any_width_and_writing_are_read_exactly)
{
    static char text[TEXT_BYTES], again[TEXT_BYTES];
    static double want[1000];
    static const int widths[] = {1, 2, 3, 7, 63, 64, 65, 130};
    for (int i = 0; i < 16; i++) {
        const int width = widths[i / 2], rows = 260 / width + 1;
        write_rows(text, rows, width, i / 2 % 2 ? "," : ", ", i % 2 ? BRIEF_FORMS : FORMS, want);
        CHECK_OK(parse1(text, TD_DOUBLE));
        CHECK_INT(got[0].t.shape.dim[0], rows);
        CHECK_INT(got[0].t.shape.dim[1], width);
        CHECK(memcmp(got[0].t.data, want, (size_t)(rows * width) * sizeof *want) == 0);
        CHECK_OK(parse1(text, TD_FLOAT));
        for (int k = 0; k < rows * width; k++) {
            CHECK(TD_DATA(&got[0].t, float)[k] == (float)want[k]);
            want[k] = (double)(float)want[k];
        }
        struct td_named out = {.name = "y"};
        td_tensor_ref(&out.t, &got[0].t);
        const char *printed = print(&out, 1, TD_JSON_COLUMNS);
        snprintf(again, sizeof again, "{\"inputs\": %s", strchr(printed, '['));
        CHECK_OK(parse1(again, TD_DOUBLE));
        for (int k = 0; k < rows * width; k++) {
            CHECK((float)TD_DATA(&got[0].t, double)[k] == (float)want[k]);
        }
        td_tensor_clear(&out.t);
    }
}

/* Whether the text is read as its spaced form is, whose numbers are read one by one. */
static void reads_as_spaced(const char *text, enum td_dtype dtype)
{
    static char spaced[TEXT_BYTES];
    (void)json_spaced(text, strlen(text), spaced);
    const enum td_code rc = parse1(text, dtype);
    struct td_tensor t = {0};
    if (rc == TD_OK) {
        td_tensor_ref(&t, &got[0].t);
    }
    CHECK_INT(parse1(spaced, dtype), rc);
    if (rc == TD_OK) {
        CHECK(td_shape_equal(&t.shape, &got[0].t.shape));
        CHECK(memcmp(t.data, got[0].t.data, td_tensor_bytes(&t)) == 0);
        td_tensor_clear(&t);
    }
}

/* The text with another character anywhere. */
static void each_reads_as_spaced(const char *start, size_t n, const enum td_dtype dtypes[3])
{
    static const char others[] = "09-.,[] e\tx\"";
    static char text[TEXT_BYTES];
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof others - 1; k++) {
            memcpy(text, start, n + 1);
            text[i] = others[k];
            reads_as_spaced(text, dtypes[(i + k) % 3]);
        }
    }
}

TEST(many_numbers_at_a_time_are_read_as_one_by_one_whatever_is_wrong_among_them)
{
    static const char start[] =
        "{\"inputs\": [[12, 0.25, -3], [4.5, 255, -0], [0, 1.125, 77], [8, -0.0, 9], "
        "[10, 11, 12], [1, 2, 3], [40000, 5, 60], [7, 8, 9], [1.5, 2.25, 3.125], [0.1, 2, 3]]}";
    static const enum td_dtype dtypes[] = {TD_FLOAT, TD_DOUBLE, TD_INT16};
    each_reads_as_spaced(start, sizeof start - 1, dtypes);
}

/* The same of numbers of up to 19 digits, in lists of three. */
TEST(long_numbers_are_read_as_one_by_one_whatever_is_wrong_among_them)
{
    static const char *const numbers[] = {"0.63942679845788375",
                                          "-12.5",
                                          "0.02501075522266694",
                                          "-0.2750293183691193",
                                          "7",
                                          "123.67500305175781",
                                          "0.1",
                                          "-0.8921795677048454876",
                                          "0.0"};
    static const enum td_dtype dtypes[] = {TD_FLOAT, TD_FLOAT, TD_FLOAT};
    static char start[TEXT_BYTES];
    size_t n = (size_t)snprintf(start, sizeof start, "{\"inputs\": [[0.5");
    for (int i = 1; i < 36; i++) {
        n += (size_t)snprintf(start + n, sizeof start - n, "%s%s",
                              i % 3 != 0 ? ", "
                              : i % 2    ? "],["
                                         : "], [",
                              numbers[i % 9]);
    }
    n += (size_t)snprintf(start + n, sizeof start - n, "]]}");
    each_reads_as_spaced(start, n, dtypes);
}

/* Half way between two floats, or as near as a double or some digits more come to it. */
TEST(floats_are_the_nearest_to_the_nearest_doubles)
{
    enum { COUNT = 2000 };
    static char text[TEXT_BYTES];
    static float want[COUNT];
    uint64_t seed = 88172645463325252ULL;
    for (int round = 0; round < 40; round++) {
        size_t n = (size_t)snprintf(text, sizeof text, "{\"inputs\": [");
        for (int i = 0; i < COUNT; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            const float f = (float)(seed >> 44) / (float)(1 << seed % 24);
            const double half = ((double)f + (double)nextafterf(f, INFINITY)) / 2;
            const double off[] = {half, nextafter(half, INFINITY), nextafter(half, 0), (double)f};
            char number[64];
            (void)snprintf(number, sizeof number, "%s%.*f", seed >> 20 & 1 ? "-" : "", (int)(seed >> 21) % 19,
                           off[seed >> 30 & 3]);
            want[i] = strpbrk(number, "123456789.") == NULL ? 0 : (float)strtod(number, NULL);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i == 0 ? "" : ", ", number);
        }
        (void)snprintf(text + n, sizeof text - n, "]}");
        CHECK_OK(parse1(text, TD_FLOAT));
        CHECK(memcmp(got[0].t.data, want, sizeof want) == 0);
    }
}

TEST(integers_in_lists_keep_their_range)
{
    CHECK_INT(parse1("{\"inputs\": [[1, -128], [127, 007]]}", TD_INT8), TD_INVALID_ARGUMENT);
    CHECK_OK(parse1("{\"inputs\": [[1, -128], [127, -0]]}", TD_INT8));
    CHECK_INT(TD_DATA(&got[0].t, int8_t)[1], -128);
    refuses("{\"inputs\": [[1, -128], [128, 0]]}", TD_INT8, TD_INVALID_ARGUMENT,
            "JSON Value: 128 Type: Number is not of expected type: int8");
    refuses("{\"inputs\": [[1, 2], [3.0, 4]]}", TD_INT32, TD_INVALID_ARGUMENT,
            "JSON Value: 3.0 Type: Number");
    CHECK_OK(parse1("{\"inputs\": [[18446744073709551615, 9223372036854775808], [1, 0]]}", TD_UINT64));
    CHECK(TD_DATA(&got[0].t, uint64_t)[1] == UINT64_C(9223372036854775808));
    refuses("{\"inputs\": [[1, -1], [1, 0]]}", TD_UINT64, TD_INVALID_ARGUMENT, "JSON Value: -1 Type");
    CHECK_OK(parse1("{\"inputs\": [[-9223372036854775808], [9223372036854775807]]}", TD_INT64));
    CHECK(TD_DATA(&got[0].t, int64_t)[0] == INT64_MIN);
    refuses("{\"inputs\": [[1, 2], [3], [4, 5]]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "Encountered list at unexpected size: 1 at level: 1 expected size: 2");
    refuses("{\"inputs\": [[1, 2], [3, 4], []]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "Encountered list at unexpected size: 0 at level: 1 expected size: 2");
    refuses("{\"inputs\": [[1, 2], [3, 4], 5]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "found at incorrect level: 2");
    refuses("{\"inputs\": [[1, 2], [3, 4] [5, 6]]}", TD_FLOAT, TD_INVALID_ARGUMENT,
            "Missing a comma or ] after an array element. at offset: 27");
}

TEST_MAIN(RUN(columns_take_scalars_lists_and_named_values) RUN(rows_stack_instances)
              RUN(every_dtype_is_read_exactly) RUN(wrong_kinds_are_named) RUN(ragged_lists_are_refused)
                  RUN(broken_bodies_are_refused) RUN(answers_have_tf_servings_shape)
                      RUN(bytes_outputs_are_base64) RUN(lists_of_any_width_and_writing_are_read_exactly)
                          RUN(many_numbers_at_a_time_are_read_as_one_by_one_whatever_is_wrong_among_them)
                              RUN(long_numbers_are_read_as_one_by_one_whatever_is_wrong_among_them)
                                  RUN(floats_are_the_nearest_to_the_nearest_doubles)
                                      RUN(integers_in_lists_keep_their_range))
