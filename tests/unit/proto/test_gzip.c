/* tests/unit/proto/test_gzip.c - bodies packed and unpacked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/gzip.h"

#include "tests/test.h"

static struct td_sink body_of(const char *byte, size_t n)
{
    struct td_sink s = {.limit = 0};
    struct td_err err = {0};
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(td_sink_put(&s, byte, 1, &err));
    }
    return s;
}

TEST(what_is_packed_unpacks_to_the_same)
{
    const char *const ways[] = {"gzip", "deflate"};
    const size_t sizes[] = {50, 70000, 1000000};
    for (int i = 0; i < 6; i++) {
        struct td_sink s = body_of("x", sizes[i / 2]);
        struct td_err err = {0};
        const char *way = td_gzip_pack(ways[i % 2], &s);
        CHECK_STR(way, ways[i % 2]);
        CHECK(s.n < sizes[i / 2]);
        CHECK_OK(td_gzip_unpack(way, sizes[i / 2], &s, &err));
        CHECK_INT(s.n, sizes[i / 2]);
        for (size_t k = 0; k < s.n; k++) {
            CHECK(s.p[k] == 'x');
        }
        td_sink_fini(&s);
    }
}

TEST(members_count_as_one_and_nothing_may_follow)
{
    struct td_err err = {0};
    struct td_sink one = body_of("a", 500), two = body_of("b", 700), both = {.limit = 0};
    CHECK_STR(td_gzip_pack("gzip", &one), "gzip");
    CHECK_STR(td_gzip_pack("gzip", &two), "gzip");
    CHECK_OK(td_sink_put(&both, one.p, one.n, &err));
    CHECK_OK(td_sink_put(&both, two.p, two.n, &err));
    CHECK_OK(td_gzip_unpack("gzip", 1200, &both, &err));
    CHECK_INT(both.n, 1200);
    CHECK(both.p[499] == 'a' && both.p[500] == 'b' && both.p[1199] == 'b');
    CHECK_OK(td_sink_put(&one, "junk", 4, &err));
    CHECK_INT(td_gzip_unpack("gzip", 1200, &one, &err), TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, "inflating the body: 4 bytes behind the end of gzip or zlib");
    td_sink_fini(&one);
    td_sink_fini(&two);
    td_sink_fini(&both);
}

struct blocks {
    const char *p;
    size_t n, each;
};

static bool next_block(void *ctx, const void **bytes, size_t *n)
{
    struct blocks *b = ctx;
    *bytes = b->p;
    *n = b->n < b->each ? b->n : b->each;
    b->p += *n;
    b->n -= *n;
    return *n > 0;
}

TEST(blocks_are_one_text)
{
    static char text[100000];
    struct td_err err = {0};
    struct td_sink body = {0};
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(i * i >> 7);
    }
    CHECK_OK(td_sink_put(&body, text, sizeof text, &err));
    CHECK_STR(td_gzip_pack("gzip", &body), "gzip");
    for (size_t each = 1; each < body.n; each = each * 3 + 1) {
        struct td_sink whole = {0}, cut = {0}, small = {0};
        struct blocks all = {body.p, body.n, each}, less = {body.p, body.n - 1, each}, again = all;
        CHECK_OK(td_gzip_unpack_blocks(next_block, &all, sizeof text, &whole, &err));
        CHECK(whole.n == sizeof text && memcmp(whole.p, text, sizeof text) == 0);
        CHECK_INT(td_gzip_unpack_blocks(next_block, &less, sizeof text, &cut, &(struct td_err){0}),
                  TD_INVALID_ARGUMENT);
        CHECK_INT(td_gzip_unpack_blocks(next_block, &again, sizeof text - 1, &small, &(struct td_err){0}),
                  TD_RESOURCE_EXHAUSTED);
        td_sink_fini(&whole);
        td_sink_fini(&cut);
        td_sink_fini(&small);
    }
    CHECK_OK(td_sink_put(&body, "x", 1, &err));
    struct blocks more = {body.p, body.n, body.n - 1};
    struct td_sink out = {0};
    CHECK_INT(td_gzip_unpack_blocks(next_block, &more, sizeof text, &out, &err), TD_INVALID_ARGUMENT);
    td_sink_fini(&out);
    td_sink_fini(&body);
}

TEST(only_what_is_accepted_is_used)
{
    const struct {
        const char *header, *want;
    } cases[] = {{NULL, NULL},
                 {"", NULL},
                 {"identity", NULL},
                 {"br, zstd", NULL},
                 {"gzip", "gzip"},
                 {"GZIP", "gzip"},
                 {"deflate", "deflate"},
                 {"deflate, gzip", "gzip"},
                 {"br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip"},
                 {"gzip;q=0", NULL},
                 {"gzip;q=0.0, deflate", "deflate"},
                 {"gzip ; q=0", NULL},
                 {"xgzip, gzipx", NULL},
                 {",, gzip", "gzip"},
                 {"gzip;", "gzip"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct td_sink s = body_of("y", 1000);
        const char *way = td_gzip_pack(cases[i].header, &s);
        if ((way == NULL) != (cases[i].want == NULL) || (way != NULL && strcmp(way, cases[i].want) != 0)) {
            fprintf(stderr, "'%s': %s\n", cases[i].header, way != NULL ? way : "none");
            CHECK(!"another encoding was expected");
        }
        td_sink_fini(&s);
    }
}

TEST(a_body_that_would_not_shrink_stays_as_it_is)
{
    struct td_sink s = body_of("z", 5);
    CHECK(td_gzip_pack("gzip", &s) == NULL);
    CHECK_INT(s.n, 5);
    td_sink_fini(&s);
}

TEST(unpacking_is_bounded)
{
    const size_t limits[] = {99999, 100000};
    for (int i = 0; i < 2; i++) {
        struct td_sink s = body_of("x", 100000);
        struct td_err err = {0};
        CHECK(td_gzip_pack("gzip", &s) != NULL);
        CHECK_INT(td_gzip_unpack("gzip", limits[i], &s, &err), i == 0 ? TD_RESOURCE_EXHAUSTED : TD_OK);
        td_sink_fini(&s);
    }
}

TEST(other_encodings_are_left_alone)
{
    struct td_sink s = body_of("x", 10);
    struct td_err err = {0};
    CHECK_OK(td_gzip_unpack(NULL, 5, &s, &err));
    CHECK_OK(td_gzip_unpack("br", 5, &s, &err));
    CHECK_INT(s.n, 10);
    CHECK_INT(td_gzip_unpack("gzip", 100, &s, &err), TD_INVALID_ARGUMENT);
    td_sink_fini(&s);
}

TEST_MAIN(RUN(what_is_packed_unpacks_to_the_same) RUN(members_count_as_one_and_nothing_may_follow)
              RUN(blocks_are_one_text) RUN(only_what_is_accepted_is_used)
                  RUN(a_body_that_would_not_shrink_stays_as_it_is) RUN(unpacking_is_bounded)
                      RUN(other_encodings_are_left_alone))
