/* tests/unit/kernels/test_example_reader.c - tf.Example and tf.SequenceExample bytes read in place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/example_reader.h"

#include "proto/schema/tensorflow.pb-c.h"
#include "proto/pb/textpb.h"
#include "proto/pb/wire.h"
#include "tests/test.h"

static struct td_sink bytes_of(const char *text)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    CHECK_OK(td_textpb_to_bytes(&tensorflow__example__descriptor, text, strlen(text), false, &s, &err));
    return s;
}

/* What map `field` of the message holds under `name`; false for malformed bytes. */
static bool find_in(const void *p, size_t n, uint32_t field, const char *name, struct td_example_span *out)
{
    const struct td_bytes key = {name, strlen(name)};
    struct td_example_keys keys;
    int32_t slots[8];
    CHECK_INT(td_example_slots(1), 8);
    td_example_keys_init(&keys, &key, 1, slots);
    return td_example_map(p, n, field, &keys, out);
}

static struct td_example_span find(const struct td_sink *s, const char *name)
{
    struct td_example_span feature;
    CHECK(find_in(s->p, s->n, 1, name, &feature));
    return feature;
}

/* The values of a feature, which must be of the type. The caller clears the tensor. */
static struct td_tensor values_of(struct td_example_span feature, enum td_dtype type)
{
    struct td_err err = {0};
    struct td_tensor t;
    enum td_dtype is;
    CHECK(td_example_type(feature, &is));
    CHECK_INT(is, type);
    const struct td_shape shape = td_shape_vector(td_example_count(feature));
    CHECK_OK(td_tensor_new(&t, type, &shape, &err));
    CHECK_OK(td_example_copy(feature, &t, 0, &err));
    return t;
}

static void check_ints(struct td_example_span feature, const int64_t *want, int64_t n)
{
    struct td_tensor t = values_of(feature, TD_INT64);
    CHECK_INT(td_tensor_count(&t), n);
    for (int64_t i = 0; i < n; i++) {
        CHECK_INT(TD_DATA(&t, int64_t)[i], want[i]);
    }
    td_tensor_clear(&t);
}

static void check_floats(struct td_example_span feature, float first, float second)
{
    struct td_tensor t = values_of(feature, TD_FLOAT);
    CHECK_INT(td_tensor_count(&t), 2);
    CHECK(TD_DATA(&t, float)[0] == first && TD_DATA(&t, float)[1] == second);
    td_tensor_clear(&t);
}

TEST(features_of_every_kind)
{
    struct td_sink s = bytes_of("features { feature { key: 'f' value { float_list { value: [1.5, -2] } } }"
                                "  feature { key: 'i' value { int64_list { value: -1 value: 5 } } }"
                                "  feature { key: 'b' value { bytes_list { value: 'x' value: '' } } }"
                                "  feature { key: 'none' value { } } }");
    enum td_dtype none;
    size_t len;
    check_floats(find(&s, "f"), 1.5f, -2);
    check_ints(find(&s, "i"), (const int64_t[]){-1, 5}, 2);
    struct td_tensor t = values_of(find(&s, "b"), TD_STRING);
    CHECK(td_tensor_count(&t) == 2 && *td_tensor_str(&t, 0, &len) == 'x' && len == 1);
    CHECK(td_tensor_str(&t, 1, &len) != NULL && len == 0);
    td_tensor_clear(&t);
    CHECK(td_example_type(find(&s, "none"), &none) && none == TD_DTYPE_NONE);
    CHECK(find(&s, "other").p == NULL);
    td_sink_fini(&s);
}

TEST(joined_bytes_merge_and_the_later_feature_counts)
{
    struct td_err err = {0};
    struct td_sink a = bytes_of("features { feature { key: 'x' value { int64_list { value: 1 } } }"
                                "           feature { key: 'only' value { int64_list { value: 7 } } } }");
    struct td_sink b = bytes_of("features { feature { key: 'x' value { int64_list { value: [2, 3] } } } }");
    CHECK_OK(td_sink_put(&a, b.p, b.n, &err));
    check_ints(find(&a, "x"), (const int64_t[]){2, 3}, 2);
    check_ints(find(&a, "only"), (const int64_t[]){7}, 1);
    td_sink_fini(&a);
    td_sink_fini(&b);
}

TEST(packed_and_single_values_are_read)
{
    /* int64_list { value = 1: packed -1, 300; then 5 alone } */
    static const uint8_t ints[] = {0x1a, 0x10, 0x0a, 0x0c, 0xff, 0xff, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0xff, 0x01, 0xac, 0x02, 0x08, 0x05};
    /* float_list { value = 1: 1.0 alone; then packed 2.0 } */
    static const uint8_t floats[] = {0x12, 0x0b, 0x0d, 0, 0, 0x80, 0x3f, 0x0a, 4, 0, 0, 0, 0x40};
    check_ints((struct td_example_span){ints, sizeof ints}, (const int64_t[]){-1, 300, 5}, 3);
    check_floats((struct td_example_span){floats, sizeof floats}, 1, 2);
}

TEST(feature_lists_of_a_sequence)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    static const float x[] = {4, 5};
    for (int list = 0; list < 2; list++) { /* 2 { 1 { 1 name, 2 { 1 Feature, 1 Feature } } } */
        size_t lists = td_put_mark(&s), entry = td_put_mark(&s);
        CHECK_OK(td_put_text(&s, 1, list ? "b" : "a", &err));
        size_t value = td_put_mark(&s);
        for (int i = 0; i < 2; i++) {
            size_t feature = td_put_mark(&s), floats = td_put_mark(&s);
            CHECK_OK(td_put_bytes(&s, 1, x, sizeof x, &err));
            CHECK_OK(td_put_end(&s, 2, floats, &err));
            CHECK_OK(td_put_end(&s, 1, feature, &err));
        }
        CHECK_OK(td_put_end(&s, 2, value, &err));
        CHECK_OK(td_put_end(&s, 1, entry, &err));
        CHECK_OK(td_put_end(&s, 2, lists, &err));
    }
    for (int list = 0; list < 2; list++) {
        struct td_example_span features, feature;
        int n = 0;
        CHECK(find_in(s.p, s.n, 2, list ? "b" : "a", &features));
        while (td_example_list_next(&features, &feature) == 1) {
            check_floats(feature, 4, 5);
            n++;
        }
        CHECK_INT(n, 2);
    }
    td_sink_fini(&s);
}

TEST(malformed_bytes_are_told)
{
    static const char *const bad[] = {"\x0a\x05\x0a\x01", "\x0b", "\x0a\x02\x0a\x05"};
    static const uint8_t half_a_float[] = {0x12, 4, 0x0a, 2, 1, 2};
    struct td_example_span feature;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!find_in(bad[i], strlen(bad[i]), 1, "x", &feature));
    }
    CHECK_INT(td_example_count((struct td_example_span){half_a_float, sizeof half_a_float}), -1);
    CHECK(find_in(NULL, 0, 1, "x", &feature) && feature.p == NULL);
}

TEST_MAIN(RUN(features_of_every_kind) RUN(joined_bytes_merge_and_the_later_feature_counts)
              RUN(packed_and_single_values_are_read) RUN(feature_lists_of_a_sequence)
                  RUN(malformed_bytes_are_told))
