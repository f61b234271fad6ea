/* tests/unit/proto/test_tensor_pb.c - TensorProto to tensor and back, every dtype, from text and from bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/tensor_pb.h"

#include "proto/pb/guard.h"
#include "proto/schema/tensorflow.pb-c.h"
#include "proto/pb/textpb.h"
#include "tests/test.h"

enum { MIB = 1 << 20 };

static struct td_sink bytes_of(const char *text)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    CHECK_OK(td_textpb_to_bytes(&tensorflow__tensor_proto__descriptor, text, strlen(text), false, &s, &err));
    return s;
}

static struct td_tensor decode(const char *text)
{
    struct td_err err = {0};
    struct td_sink s = bytes_of(text);
    struct td_tensor t = {0};
    CHECK_OK(td_tensor_from_bytes(s.p, s.n, MIB, &t, &err));
    td_sink_fini(&s);
    return t;
}

static void refuses(const char *text, enum td_code code, const char *part)
{
    struct td_err err = {0};
    struct td_sink s = bytes_of(text);
    struct td_tensor t = {0};
    CHECK_INT(td_tensor_from_bytes(s.p, s.n, MIB, &t, &err), code);
    CHECK(strstr(err.msg, part) != NULL);
    td_sink_fini(&s);
}

TEST(the_last_value_repeats)
{
    struct td_tensor t =
        decode("dtype: DT_FLOAT tensor_shape { dim { size: 4 } } float_val: 1 float_val: 2.5");
    CHECK(TD_DATA(&t, float)[0] == 1 && TD_DATA(&t, float)[1] == 2.5f && TD_DATA(&t, float)[3] == 2.5f);
    td_tensor_clear(&t);
    t = decode("dtype: DT_INT64 tensor_shape { dim { size: 3 } }");
    CHECK_INT(TD_DATA(&t, int64_t)[2], 0);
    td_tensor_clear(&t);
    t = decode("dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: [1, 2, 3]");
    CHECK_INT(TD_DATA(&t, int32_t)[1], 2);
    td_tensor_clear(&t);
    t = decode("dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: 'ab'");
    size_t n;
    CHECK_STR(td_tensor_str(&t, 2, &n), "ab");
    td_tensor_clear(&t);
    t = decode("dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: [1, -2]");
    CHECK(TD_DATA(&t, td_c64)[1].re == 1 && TD_DATA(&t, td_c64)[1].im == -2);
    td_tensor_clear(&t);
}

TEST(every_dtype_has_its_field)
{
    struct td_tensor t = decode("dtype: DT_UINT8 tensor_shape { dim { size: 2 } } int_val: [255, 256]");
    CHECK(TD_DATA(&t, uint8_t)[0] == 255 && TD_DATA(&t, uint8_t)[1] == 0);
    td_tensor_clear(&t);
    t = decode("dtype: DT_INT8 tensor_shape {} int_val: -3");
    CHECK_INT(TD_DATA(&t, int8_t)[0], -3);
    td_tensor_clear(&t);
    t = decode("dtype: DT_HALF tensor_shape {} half_val: 15360");
    CHECK(td_half_to_float(TD_DATA(&t, td_half)[0]) == 1);
    td_tensor_clear(&t);
    t = decode("dtype: DT_BFLOAT16 tensor_shape {} half_val: 16256");
    CHECK(td_bf16_to_float(TD_DATA(&t, td_bf16)[0]) == 1);
    td_tensor_clear(&t);
    t = decode("dtype: DT_BOOL tensor_shape { dim { size: 2 } } bool_val: [true, false]");
    CHECK(TD_DATA(&t, td_bool)[0] == 1 && TD_DATA(&t, td_bool)[1] == 0);
    td_tensor_clear(&t);
    t = decode("dtype: DT_UINT64 tensor_shape {} uint64_val: 18446744073709551615");
    CHECK(TD_DATA(&t, uint64_t)[0] == UINT64_MAX);
    td_tensor_clear(&t);
    t = decode("dtype: DT_COMPLEX128 tensor_shape {} dcomplex_val: [0.5, 4]");
    CHECK(TD_DATA(&t, td_c128)[0].im == 4);
    td_tensor_clear(&t);
    t = decode("dtype: DT_DOUBLE double_val: nan");
    CHECK(TD_DATA(&t, double)[0] != TD_DATA(&t, double)[0] && t.shape.rank == 0);
    td_tensor_clear(&t);
}

TEST(content_is_taken_as_it_is)
{
    struct td_tensor t =
        decode("dtype: DT_INT16 tensor_shape { dim { size: 2 } } tensor_content: '\\001\\000\\377\\377'");
    CHECK(TD_DATA(&t, int16_t)[0] == 1 && TD_DATA(&t, int16_t)[1] == -1);
    td_tensor_clear(&t);
    t = decode("dtype: DT_STRING tensor_shape { dim { size: 2 } } tensor_content: '\\002\\001abc'");
    size_t n;
    CHECK_STR(td_tensor_str(&t, 0, &n), "ab");
    CHECK_STR(td_tensor_str(&t, 1, &n), "c");
    td_tensor_clear(&t);
    t = decode("dtype: DT_BOOL tensor_shape { dim { size: 1 } } tensor_content: '\\200'");
    CHECK_INT(TD_DATA(&t, td_bool)[0], 1);
    td_tensor_clear(&t);
    refuses("dtype: DT_FLOAT tensor_shape { dim { size: 2 } } tensor_content: 'abc'", TD_INVALID_ARGUMENT,
            "TensorProto of float [2]: tensor_content has 3 bytes, want 8");
    refuses("dtype: DT_STRING tensor_shape { dim { size: 2 } } tensor_content: '\\002\\001ab'",
            TD_INVALID_ARGUMENT, "length");
    refuses("dtype: DT_STRING tensor_shape { dim { size: 1 } } tensor_content: '\\001abc'",
            TD_INVALID_ARGUMENT, "tensor_content holds 3 bytes of text, its lengths say 1");
}

TEST(nonsense_is_refused)
{
    refuses("tensor_shape {}", TD_INVALID_ARGUMENT, "dtype is not set");
    refuses("dtype: DT_VARIANT", TD_UNIMPLEMENTED, "TensorProto of variant []");
    refuses("dtype: DT_FLOAT8_E5M2", TD_UNIMPLEMENTED, "dtype number 24");
    refuses("dtype: DT_FLOAT tensor_shape { unknown_rank: true }", TD_INVALID_ARGUMENT, "unknown rank");
    refuses("dtype: DT_FLOAT tensor_shape { dim { size: -1 } }", TD_INVALID_ARGUMENT, "negative dimension");
    refuses("dtype: DT_FLOAT tensor_shape { dim { size: 4000000000 } dim { size: 4000000000 } }",
            TD_INVALID_ARGUMENT, "overflows");
    refuses("dtype: DT_FLOAT tensor_shape { dim { size: 1000000 } }", TD_INVALID_ARGUMENT,
            "more than the 1048576 bytes allowed");
}

/* Encodes, decodes, and compares; both forms. */
static void round_trip(const char *text)
{
    for (int as_content = 0; as_content < 2; as_content++) {
        struct td_err err = {0};
        struct td_tensor t = decode(text), back = {0};
        struct td_sink s = {0};
        CHECK_OK(td_tensor_to_bytes(&t, as_content != 0, &s, &err));
        CHECK_INT(s.n, td_tensor_pb_size(&t, as_content != 0));
        CHECK_OK(td_tensor_from_bytes(s.p, s.n, MIB, &back, &err));
        CHECK(back.dtype == t.dtype && td_shape_equal(&t.shape, &back.shape));
        size_t a, b;
        for (int64_t i = 0; t.dtype == TD_STRING && i < td_tensor_count(&t); i++) {
            const char *p = td_tensor_str(&t, i, &a), *q = td_tensor_str(&back, i, &b);
            CHECK(a == b && memcmp(p, q, a) == 0);
        }
        if (t.dtype != TD_STRING && td_tensor_bytes(&t) > 0) {
            CHECK(memcmp(t.data, back.data, td_tensor_bytes(&t)) == 0);
        }
        td_tensor_clear(&t);
        td_tensor_clear(&back);
        td_sink_fini(&s);
    }
}

TEST(what_is_encoded_decodes_to_the_same)
{
    round_trip(
        "dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 3 } } float_val: [1, 2, 3, 4, 5, 6]");
    round_trip("dtype: DT_INT8 tensor_shape { dim { size: 300 } } int_val: [-128, 127]");
    round_trip("dtype: DT_QINT8 tensor_shape { dim { size: 3 } } int_val: [-128, 127, 5]");
    round_trip("dtype: DT_QUINT16 tensor_shape { dim { size: 2 } } int_val: [65535, 5]");
    round_trip("dtype: DT_BOOL tensor_shape { dim { size: 3 } } bool_val: [true, false, true]");
    round_trip("dtype: DT_HALF tensor_shape { dim { size: 2 } } half_val: [15360, 65535]");
    round_trip("dtype: DT_UINT64 tensor_shape { dim { size: 1 } } uint64_val: 18446744073709551615");
    round_trip("dtype: DT_INT64 tensor_shape { dim { size: 2 } } int64_val: [-9223372036854775808, 5]");
    round_trip("dtype: DT_COMPLEX128 tensor_shape { dim { size: 2 } } dcomplex_val: [1, 2, 3, 4]");
    round_trip("dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: ['a', '', 'b\\000c']");
    round_trip("dtype: DT_STRING");
    round_trip("dtype: DT_FLOAT tensor_shape { dim { size: 0 } dim { size: 7 } }");
}

TEST_MAIN(RUN(the_last_value_repeats) RUN(every_dtype_has_its_field) RUN(content_is_taken_as_it_is)
              RUN(nonsense_is_refused) RUN(what_is_encoded_decodes_to_the_same))
