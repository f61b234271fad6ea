/* tests/unit/test_example.c - tf.Example bytes read in place and written.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/example.h"

#include "proto/tensorflow.pb-c.h"
#include "proto/textpb.h"
#include "tests/test.h"

static struct td_sink bytes_of(const char *text)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    CHECK_OK(td_textpb_to_bytes(&tensorflow__example__descriptor, text, strlen(text), false, &s, &err));
    return s;
}

static bool find(const struct td_sink *s, const char *name, struct td_feature *out)
{
    struct td_features it = td_features_of(s->p, s->n);
    struct td_feature f;
    bool found = false;
    while (td_features_next(&it, &f)) {
        if (f.name_len == strlen(name) && memcmp(f.name, name, f.name_len) == 0) {
            *out = f; /* the later one counts */
            found = true;
        }
    }
    CHECK(!it.bad);
    return found;
}

TEST(features_of_every_kind)
{
    struct td_sink s = bytes_of("features { feature { key: 'f' value { float_list { value: [1.5, -2] } } }"
                                "  feature { key: 'i' value { int64_list { value: -1 value: 5 } } }"
                                "  feature { key: 'b' value { bytes_list { value: 'x' value: '' } } }"
                                "  feature { key: 'none' value { } } }");
    struct td_feature f;
    float x[2];
    int64_t i[2];
    const char *p;
    size_t len;
    CHECK(find(&s, "f", &f) && f.kind == TD_FEATURE_FLOAT && f.count == 2);
    td_feature_floats(&f, x, 2);
    CHECK(x[0] == 1.5f && x[1] == -2);
    CHECK(find(&s, "i", &f) && f.kind == TD_FEATURE_INT64 && f.count == 2);
    td_feature_ints(&f, i, 2);
    CHECK(i[0] == -1 && i[1] == 5);
    CHECK(find(&s, "b", &f) && f.kind == TD_FEATURE_BYTES && f.count == 2);
    struct td_scan values = td_feature_values(&f);
    CHECK(td_feature_bytes_next(&values, &p, &len) && len == 1 && *p == 'x');
    CHECK(td_feature_bytes_next(&values, &p, &len) && len == 0 && !td_feature_bytes_next(&values, &p, &len));
    CHECK(find(&s, "none", &f) && f.kind == TD_FEATURE_NONE && f.count == 0);
    CHECK(!find(&s, "other", &f));
    td_sink_fini(&s);
}

TEST(joined_bytes_merge_and_the_later_feature_counts)
{
    struct td_err err = {0};
    struct td_sink a = bytes_of("features { feature { key: 'x' value { int64_list { value: 1 } } }"
                                "           feature { key: 'only' value { int64_list { value: 7 } } } }");
    struct td_sink b = bytes_of("features { feature { key: 'x' value { int64_list { value: [2, 3] } } } }");
    struct td_feature f;
    CHECK_OK(td_sink_put(&a, b.p, b.n, &err));
    CHECK(find(&a, "x", &f) && f.count == 2);
    CHECK(find(&a, "only", &f) && f.count == 1);
    td_sink_fini(&a);
    td_sink_fini(&b);
}

TEST(packed_values_are_read_too)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    struct td_example_writer w = td_example_begin(&s);
    static const float x[] = {1, 2, 3};
    static const int64_t i[] = {INT64_MIN, 0, INT64_MAX};
    static const struct td_bytes b[] = {{"ab", 2}, {"", 0}};
    struct td_feature f;
    float xs[3];
    int64_t is[3];
    CHECK_OK(td_example_floats(&w, "x", x, 3, &err));
    CHECK_OK(td_example_ints(&w, "i", i, 3, &err));
    CHECK_OK(td_example_bytes(&w, "b", b, 2, &err));
    CHECK_OK(td_example_ints(&w, "e", NULL, 0, &err));
    CHECK_OK(td_example_end(&w, &err));
    CHECK(find(&s, "x", &f) && f.count == 3);
    td_feature_floats(&f, xs, 3);
    CHECK(memcmp(xs, x, sizeof x) == 0);
    CHECK(find(&s, "i", &f) && f.count == 3);
    td_feature_ints(&f, is, 3);
    CHECK(memcmp(is, i, sizeof i) == 0);
    CHECK(find(&s, "b", &f) && f.count == 2);
    CHECK(find(&s, "e", &f) && f.count == 0 && f.kind == TD_FEATURE_INT64);
    td_sink_fini(&s);
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
    struct td_feature_lists it = td_feature_lists_of(s.p, s.n);
    struct td_feature_list list;
    struct td_feature f;
    int lists = 0, features = 0;
    while (td_feature_lists_next(&it, &list)) {
        CHECK_INT(list.count, 2);
        lists++;
        while (td_feature_list_next(&list, &f)) {
            CHECK(f.kind == TD_FEATURE_FLOAT && f.count == 2);
            features++;
        }
    }
    CHECK(!it.bad && lists == 2 && features == 4);
    td_sink_fini(&s);
}

TEST(malformed_bytes_are_told)
{
    static const char *const bad[] = {"\x0a\x05\x0a\x01", "\x0b", "\x0a\x02\x0a\x05",
                                      "\x0a\x0a\x0a\x08\x12\x06\x12\x04\x0a\x02\x01\x02"}; /* half a float */
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct td_features it = td_features_of(bad[i], strlen(bad[i]));
        struct td_feature f;
        while (td_features_next(&it, &f)) {
        }
        CHECK(it.bad);
    }
    struct td_features none = td_features_of(NULL, 0);
    struct td_feature f;
    CHECK(!td_features_next(&none, &f) && !none.bad);
}

TEST_MAIN(RUN(features_of_every_kind) RUN(joined_bytes_merge_and_the_later_feature_counts)
              RUN(packed_values_are_read_too) RUN(feature_lists_of_a_sequence) RUN(malformed_bytes_are_told))
