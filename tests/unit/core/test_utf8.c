/* tests/unit/core/test_utf8.c - what UTF-8 is, at the borders of what it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/utf8.h"

#include "tests/test.h"

TEST(characters_of_each_length)
{
    CHECK(td_utf8("", 0) && td_utf8("a\0b", 3));
    CHECK(td_utf8("abc\xc3\xa9\xf0\x9f\x98\x80", 9));
    CHECK_INT(td_utf8_char("a", 1), 1);
    CHECK_INT(td_utf8_char("\xc3\xa9x", 3), 2);
    CHECK_INT(td_utf8_char("\xe2\x82\xac", 3), 3);
    CHECK_INT(td_utf8_char("\xf0\x9f\x98\x80", 4), 4);
}

TEST(cut_and_lone_bytes_are_none)
{
    CHECK(!td_utf8("\xff", 1) && !td_utf8("\x80", 1) && !td_utf8("\xc3", 1));
    CHECK(!td_utf8("\xe2\x82", 2) && !td_utf8("\xf0\x9f\x98", 3) && !td_utf8("\xe2(\xa1", 3));
    CHECK_INT(td_utf8_char("\xf0\x9f\x98\x80", 3), 0);
}

TEST(overlong_forms_surrogates_and_what_is_past_the_last_are_none)
{
    CHECK(!td_utf8("\xc0\x80", 2) && !td_utf8("\xe0\x9f\xbf", 3) && !td_utf8("\xf0\x8f\xbf\xbf", 4));
    CHECK(td_utf8("\xe0\xa0\x80", 3) && td_utf8("\xf0\x90\x80\x80", 4));
    CHECK(!td_utf8("\xed\xa0\x80", 3) && td_utf8("\xed\x9f\xbf", 3));
    CHECK(!td_utf8("\xf4\x90\x80\x80", 4) && !td_utf8("\xf5\x80\x80\x80", 4));
    CHECK(td_utf8("\xf4\x8f\xbf\xbf", 4));
}

TEST_MAIN(RUN(characters_of_each_length) RUN(cut_and_lone_bytes_are_none)
              RUN(overlong_forms_surrogates_and_what_is_past_the_last_are_none))
