/* tests/unit/server/test_name_list.c - names in a sentence.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/name_list.h"

#include <string.h>

#include "tests/test.h"

TEST(names_stand_behind_one_another)
{
    struct td_name_list l = {.n = 0};
    CHECK_STR(l.s, "");
    td_name_list_add(&l, "'%.3s'", "abcde");
    CHECK_STR(l.s, "'abc'");
    td_name_list_add(&l, "%s", "x/y");
    CHECK_STR(l.s, "'abc', x/y");
    CHECK_INT(l.n, strlen(l.s));
}

TEST(what_does_not_fit_is_left_out_whole)
{
    struct td_name_list l = {.n = 0};
    char name[101] = "";
    memset(name, 'n', 100);
    for (int i = 0; i < 7; i++) { /* six of 102 bytes, but for the first, leave room for 89 */
        td_name_list_add(&l, "%s", name);
        CHECK_INT(l.n, i < 6 ? 102 * i + 100 : 610);
        CHECK_INT(l.n, strlen(l.s));
    }
    td_name_list_add(&l, "%.87s", name); /* all but the 0 */
    CHECK_INT(l.n, sizeof l.s - 1);
    td_name_list_add(&l, "%s", "a");
    CHECK_INT(l.n, sizeof l.s - 1);
    CHECK_INT(strlen(l.s), l.n);
}

TEST_MAIN(RUN(names_stand_behind_one_another) RUN(what_does_not_fit_is_left_out_whole))
