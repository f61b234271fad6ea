/* tests/unit/server/test_duration_hint.c - short requests and long ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/duration_hint.h"

#include "tests/test.h"

static struct td_duration_hints hints;

TEST(what_was_never_seen_is_long)
{
    CHECK(!td_duration_hint_is_short(&hints, td_duration_hint_kind("GET", "/a", 0), 1000000));
}

TEST(kinds_differ_by_method_target_and_magnitude_of_the_body)
{
    const uint64_t kind = td_duration_hint_kind("POST", "/a", 1000);
    CHECK(kind == td_duration_hint_kind("POST", "/a", 1001));
    CHECK(kind != td_duration_hint_kind("GET", "/a", 1000));
    CHECK(kind != td_duration_hint_kind("POST", "/b", 1000));
    CHECK(kind != td_duration_hint_kind("POST", "/a", 4000));
}

TEST(one_long_time_among_short_ones_is_left_out)
{
    const uint64_t kind = td_duration_hint_kind("POST", "/c", 10);
    for (int i = 0; i < 20; i++) {
        td_duration_hint_remember(&hints, kind, i % 4 == 3 ? 4000000 : 1000);
        CHECK(td_duration_hint_is_short(&hints, kind, 300000));
    }
    td_duration_hint_remember(&hints, td_duration_hint_kind("POST", "/d", 10), 4000000); /* the first one */
    CHECK(!td_duration_hint_is_short(&hints, td_duration_hint_kind("POST", "/d", 10), 300000));
}

TEST(two_long_times_count_until_many_short_ones)
{
    const uint64_t kind = td_duration_hint_kind("POST", "/a", 10);
    td_duration_hint_remember(&hints, kind, 1000);
    CHECK(td_duration_hint_is_short(&hints, kind, 300000));
    td_duration_hint_remember(&hints, kind, 900000);
    td_duration_hint_remember(&hints, kind, 900000);
    CHECK(!td_duration_hint_is_short(&hints, kind, 300000));
    int n = 0;
    for (; !td_duration_hint_is_short(&hints, kind, 300000); n++) {
        td_duration_hint_remember(&hints, kind, 1000);
    }
    CHECK(n > 3 && n < 30);
    td_duration_hint_remember(&hints, kind, INT64_MAX);
    td_duration_hint_remember(&hints, kind, INT64_MAX);
    CHECK(!td_duration_hint_is_short(&hints, kind, 300000));
}

TEST_MAIN(RUN(what_was_never_seen_is_long) RUN(kinds_differ_by_method_target_and_magnitude_of_the_body)
              RUN(one_long_time_among_short_ones_is_left_out) RUN(two_long_times_count_until_many_short_ones))
