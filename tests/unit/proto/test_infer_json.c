/* tests/unit/proto/test_infer_json.c - KServe v2 requests and answers over HTTP, and classification.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/infer_json.h"

#include <math.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/request/infer_request.h"
#include "tests/test.h"

static struct td_err err;
static struct td_infer_json p;

/* The body: JSON, then n bytes. */
static enum td_code read_body(const char *json, const char *tail, size_t n)
{
    static char body[4096];
    static struct td_arena *arena; /* what p points into, until the next body */
    td_arena_free(arena);
    arena = td_arena_new(1 << 20);
    const size_t len = strlen(json);
    memcpy(body, json, len);
    memcpy(body + len, tail, n);
    body[len + n] = '\0';
    err = (struct td_err){0};
    const struct td_infer_json_known known = {0};
    return td_infer_json_read(body, len + n, len, arena, &known, &p, &err);
}

/* The tensor of a request with one input whose members are these. */
static enum td_code tensor(const char *members, struct td_tensor *out)
{
    char json[2048];
    (void)snprintf(json, sizeof json, "{\"inputs\":[{\"name\":\"x\",%s}]}", members);
    TD_TRY(read_body(json, "", 0));
    return td_infer_json_tensor(&p.in[0], 1 << 20, out, &err);
}

static void refuses(enum td_code got, enum td_code want, const char *words)
{
    CHECK_INT(got, want);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
}

TEST(parts_may_stand_in_any_order)
{
    CHECK_OK(read_body(
        "{\"outputs\":[{\"name\":\"a\"},{\"parameters\":{\"binary_data\":false,\"classification\":3},"
        "\"name\":\"b\"}], \"inputs\":[], \"parameters\":{\"binary_data_output\":true,"
        "\"other\":[{}],\"signature_name\":\"s\\u00e9\"}, \"id\":\"7\"}",
        "", 0));
    CHECK_STR(p.id, "7");
    CHECK_STR(p.opts.signature, "s\xc3\xa9");
    CHECK_INT(p.n_in, 0);
    CHECK_INT(p.n_out, 2);
    CHECK(p.out[0].place.binary && !p.out[1].place.binary);
    CHECK_INT(p.out[1].place.classes, 3);
    CHECK_STR(p.out[1].name, "b");
}

TEST(parameters_have_types)
{
    CHECK_OK(
        read_body("{\"parameters\":{\"priority\":3,\"timeout\":18446744073709551615,\"sequence_id\":\"a\","
                  "\"sequence_start\":true,\"x\":null,\"y\":1.5,\"z\":false}}",
                  "", 0));
    CHECK_INT(p.opts.priority, 3);
    CHECK(p.opts.timeout_us == UINT64_MAX);
    static const char *const wrong[] = {"\"priority\":-1",  "\"priority\":1.5",      "\"timeout\":\"1\"",
                                        "\"timeout\":null", "\"sequence_id\":false", "\"sequence_end\":1",
                                        "\"triton_x\":1",   "\"signature_name\":1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char json[200];
        (void)snprintf(json, sizeof json, "{\"parameters\":{%s}}", wrong[i]);
        refuses(read_body(json, "", 0), TD_INVALID_ARGUMENT, i == 6 ? "reserved" : "must be");
    }
}

TEST(data_is_nested_or_flat)
{
    static const char *const forms[] = {"[1,2,3,4,5,6]", "[[1,2,3],[4,5,6]]", "[[[1],[2]],[3,4],5,[[[6]]]]"};
    for (int i = 0; i < 3; i++) {
        struct td_tensor t;
        char text[200];
        (void)snprintf(text, sizeof text, "\"data\":%s,\"datatype\":\"INT16\",\"shape\":[2,3]", forms[i]);
        CHECK_OK(tensor(text, &t));
        CHECK_STR(TD_SHAPE_STR(&t.shape), "[2,3]");
        for (int k = 0; k < 6; k++) {
            CHECK_INT(TD_DATA(&t, int16_t)[k], k + 1);
        }
        td_tensor_clear(&t);
    }
}

TEST(tensors_without_elements_and_scalars)
{
    struct td_tensor t;
    CHECK_OK(tensor("\"data\":[],\"datatype\":\"FP32\",\"shape\":[0,3]", &t));
    CHECK_STR(TD_SHAPE_STR(&t.shape), "[0,3]");
    td_tensor_clear(&t);
    CHECK_OK(tensor("\"data\":[[],[]],\"datatype\":\"BYTES\",\"shape\":[2,0]", &t));
    td_tensor_clear(&t);
    CHECK_OK(tensor("\"data\":[7],\"datatype\":\"FP32\",\"shape\":[]", &t));
    CHECK(*TD_DATA(&t, float) == 7);
    td_tensor_clear(&t);
    CHECK_OK(tensor("\"data\":7,\"datatype\":\"BF16\",\"shape\":[]", &t));
    td_tensor_clear(&t);
}

TEST(wrong_inputs_are_refused)
{
    struct td_tensor t;
    refuses(tensor("\"data\":[1,2,3],\"datatype\":\"FP32\",\"shape\":[2]", &t), TD_INVALID_ARGUMENT,
            "input 'x': 'data' has 3 values, shape [2] has 2 elements");
    refuses(tensor("\"data\":[1,],\"datatype\":\"FP32\",\"shape\":[1]", &t), TD_INVALID_ARGUMENT,
            "input 'x'");
    refuses(tensor("\"data\":[1]],\"datatype\":\"FP32\",\"shape\":[1]", &t), TD_INVALID_ARGUMENT,
            "JSON Parse error");
    refuses(tensor("\"data\":[256],\"datatype\":\"UINT8\",\"shape\":[1]", &t), TD_INVALID_ARGUMENT, "256");
    refuses(tensor("\"data\":[1],\"datatype\":\"FP31\",\"shape\":[1]", &t), TD_INVALID_ARGUMENT,
            "datatype 'FP31' is unknown");
    refuses(tensor("\"data\":[1],\"datatype\":\"FP32\"", &t), TD_INVALID_ARGUMENT, "has no 'shape'");
    refuses(tensor("\"datatype\":\"FP32\",\"shape\":[1]", &t), TD_INVALID_ARGUMENT, "neither 'data' nor");
    refuses(tensor("\"shape\":[1.5]", &t), TD_INVALID_ARGUMENT, "whole number");
    refuses(
        tensor("\"shape\":[4611686018427387904,4611686018427387904],\"datatype\":\"INT8\",\"data\":[]", &t),
        TD_INVALID_ARGUMENT, "input 'x'");
    refuses(tensor("\"parameters\":{\"shared_memory_region\":\"r\"},\"shape\":[1]", &t), TD_INVALID_ARGUMENT,
            "tensor 'x': 'shared_memory_region' needs 'shared_memory_byte_size'");
    refuses(
        tensor("\"parameters\":{\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":4},\"shape\":[1],"
               "\"data\":[1]",
               &t),
        TD_INVALID_ARGUMENT, "input 'x': 'data' and 'shared_memory_region' exclude each other");
    refuses(tensor("\"parameters\":{\"shared_memory_byte_size\":4},\"shape\":[1],\"data\":[1]", &t),
            TD_INVALID_ARGUMENT, "need 'shared_memory_region'");
    refuses(read_body("", "", 0), TD_INVALID_ARGUMENT, "The document is empty.");
    refuses(read_body("{\"id\":\"1\"", "}", 1), TD_INVALID_ARGUMENT, "JSON Parse error");
    refuses(read_body("{}{}", "", 0), TD_INVALID_ARGUMENT, "must not be followed");
}

#define TWO                                                                                                  \
    "{\"inputs\":[{\"name\":\"a\",\"shape\":[2],\"datatype\":\"INT16\",\"parameters\":{\"binary_data_"       \
    "size\":4}},"                                                                                            \
    "{\"name\":\"j\",\"shape\":[1],\"datatype\":\"BOOL\",\"data\":[true]},"                                  \
    "{\"name\":\"s\",\"shape\":[2],\"datatype\":\"BYTES\",\"parameters\":{\"binary_data_size\":10}}]}"

TEST(binary_tensors_follow_in_order)
{
    struct td_tensor t;
    size_t len = 0;
    CHECK_OK(read_body(TWO, "\1\0\xff\xff\2\0\0\0a\0\0\0\0\0", 14));
    CHECK_OK(td_infer_json_tensor(&p.in[0], 100, &t, &err));
    CHECK_INT(TD_DATA(&t, int16_t)[1], -1);
    td_tensor_clear(&t);
    CHECK_OK(td_infer_json_tensor(&p.in[2], 100, &t, &err));
    CHECK(memcmp(td_tensor_str(&t, 0, &len), "a\0", 2) == 0 && len == 2);
    CHECK(td_tensor_str(&t, 1, &len) != NULL && len == 0);
    td_tensor_clear(&t);
    refuses(read_body(TWO, "\1\0\xff\xff\2\0\0\0a\0\0\0\0", 13), TD_INVALID_ARGUMENT,
            "unexpected size for input 's', expecting 1 additional bytes");
    refuses(read_body(TWO, "\1\0\xff\xff\2\0\0\0a\0\0\0\0\0!", 15), TD_INVALID_ARGUMENT,
            "unexpected additional input data for model: 1 bytes");
}

static struct td_tensor floats(const float *v, int64_t rows, int64_t cols)
{
    struct td_tensor t;
    const struct td_shape shape = rows > 0 ? td_shape_matrix(rows, cols) : td_shape_vector(cols);
    err = (struct td_err){0};
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &shape, &err));
    memcpy(t.data, v, td_tensor_bytes(&t));
    return t;
}

TEST(answers_are_json_or_binary)
{
    struct td_named out[] = {{"y", floats((const float[]){1, 0.1f}, 0, 2)},
                             {"z\"", floats((const float[]){2}, 1, 1)}};
    struct td_sink s = {0};
    size_t n_json = 1;
    struct td_infer_json_answer a = {"m", "i\"d", 3, out, (const bool[]){false, false}, 2, NULL};
    CHECK_OK(td_infer_json_write(&a, &s, &n_json, &err));
    CHECK_OK(td_sink_put(&s, "", 1, &err));
    CHECK_INT(n_json, 0);
    CHECK_STR(s.p,
              "{\"model_name\":\"m\",\"model_version\":\"3\",\"id\":\"i\\\"d\",\"outputs\":[{\"name\":\"y\","
              "\"datatype\":\"FP32\",\"shape\":[2],\"data\":[1.0, 0.1]},{\"name\":\"z\\\"\",\"datatype\":"
              "\"FP32\",\"shape\":[1,1],\"data\":[2.0]}]}");
    td_sink_fini(&s);
    a = (struct td_infer_json_answer){"m", "", 3, out, (const bool[]){false, true}, 2, NULL};
    CHECK_OK(td_infer_json_write(&a, &s, &n_json, &err));
    CHECK_INT(s.n, n_json + 4);
    CHECK(strstr(s.p, "\"id\"") == NULL);
    CHECK(memmem(s.p, n_json, "\"parameters\":{\"binary_data_size\":4}}]}", 38) == s.p + n_json - 38);
    CHECK(memcmp(s.p + n_json, out[1].t.data, 4) == 0);
    td_sink_fini(&s);
    td_tensor_clear(&out[0].t);
    td_tensor_clear(&out[1].t);
}

static void top_is(const struct td_tensor *t, bool rows, int64_t k, int64_t i, const char *want)
{
    struct td_tensor out;
    size_t len = 0;
    CHECK_OK(td_infer_top(t, rows, k, NULL, &out, &err));
    CHECK_STR(td_tensor_str(&out, i, &len), want);
    td_tensor_clear(&out);
}

TEST(classification_ranks_values)
{
    struct td_tensor t = floats((const float[]){1, NAN, 3, 3, -INFINITY, 7}, 2, 3);
    top_is(&t, true, 1, 0, "3.000000:2");
    top_is(&t, true, 3, 2, "nan:1");
    top_is(&t, true, 9, 5, "-inf:1");
    top_is(&t, false, 3, 0, "7.000000:5");
    top_is(&t, false, 3, 1, "3.000000:2"); /* of equal ones the first */
    top_is(&t, false, 3, 2, "3.000000:3");
    struct td_tensor big;
    const struct td_shape two = td_shape_vector(2);
    CHECK_OK(td_tensor_new(&big, TD_UINT64, &two, &err));
    TD_DATA(&big, uint64_t)[0] = UINT64_MAX - 1;
    TD_DATA(&big, uint64_t)[1] = UINT64_MAX;
    top_is(&big, true, 1, 0, "18446744073709551615:1");
    big.dtype = TD_COMPLEX64;
    struct td_tensor none;
    refuses(td_infer_top(&big, true, 1, NULL, &none, &err), TD_INVALID_ARGUMENT,
            "unsupported type 'complex64'");
    td_tensor_clear(&big);
    td_tensor_clear(&t);
}

TEST_MAIN(RUN(parts_may_stand_in_any_order) RUN(parameters_have_types) RUN(data_is_nested_or_flat)
              RUN(tensors_without_elements_and_scalars) RUN(wrong_inputs_are_refused)
                  RUN(binary_tensors_follow_in_order) RUN(answers_are_json_or_binary)
                      RUN(classification_ranks_values))
