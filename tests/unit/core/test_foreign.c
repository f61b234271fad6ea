/* tests/unit/core/test_foreign.c - what libraries take is charged, refused and given back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/foreign.h"

#include <stdint.h>

#include "core/base/mem.h"
#include "core/base/work.h"
#include "tests/test.h"

enum { MIB = 1 << 20 };

TEST(blocks_are_charged_to_process_and_request)
{
    td_account_limit(3 * MIB, "--of_a_request");
    const struct td_work w = {.account = td_account_open()};
    const struct td_work *before = td_work_enter(&w);
    const uint64_t held = td_budget_held();
    char *p = td_foreign_alloc(MIB), *kept = td_foreign_keep(MIB);
    CHECK(p != NULL && kept != NULL && (uintptr_t)p % 16 == 0);
    p[MIB - 1] = 7;
    CHECK_INT(td_foreign_bytes(p), MIB);
    CHECK(td_budget_held() - held >= 2 * MIB);
    CHECK_INT(td_account_held(w.account), MIB);
    p = td_foreign_realloc(p, 2 * MIB);
    CHECK(p != NULL && p[MIB - 1] == 7);
    CHECK_INT(td_account_held(w.account), 2 * MIB);
    CHECK(td_foreign_realloc(p, 4 * MIB) == NULL); /* past the request's limit; p is still there */
    CHECK_INT(td_account_held(w.account), 2 * MIB);
    CHECK(td_foreign_alloc(2 * MIB) == NULL && td_foreign_alloc(SIZE_MAX) == NULL);
    p = td_foreign_realloc(p, 1000);
    CHECK_INT(td_account_held(w.account), 1000);
    td_work_enter(before);
    td_account_close(w.account);
    td_foreign_free(p); /* by nobody in particular: the account goes with it */
    td_foreign_free(kept);
    td_foreign_free(NULL);
    td_account_limit(0, "");
    CHECK(td_budget_held() < held + TD_BUDGET_STEP);
}

TEST(what_a_library_takes_itself_is_charged_beforehand)
{
    struct td_err err = {0};
    struct td_foreign f = {0};
    const uint64_t held = td_budget_held();
    td_budget_limit(held + 10 * MIB, "--such_a_limit");
    CHECK_OK(td_foreign_take(&f, 4 * MIB, "a picture", &err));
    CHECK_OK(td_foreign_take(&f, 4 * MIB, "a picture", &err));
    CHECK_INT(td_foreign_take(&f, 4 * MIB, "a picture", &err), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "a picture") != NULL && strstr(err.msg, "--such_a_limit is ") != NULL);
    td_foreign_give(&f);
    td_foreign_give(&f); /* nothing more to give */
    td_budget_limit(0, "");
    CHECK(td_budget_held() < held + TD_BUDGET_STEP);
}

TEST(zlib_gets_its_blocks)
{
    char *p = td_foreign_zalloc(NULL, 100, 10);
    CHECK_INT(td_foreign_bytes(p), 1000);
    td_foreign_zfree(NULL, p);
}

TEST_MAIN(RUN(blocks_are_charged_to_process_and_request)
              RUN(what_a_library_takes_itself_is_charged_beforehand) RUN(zlib_gets_its_blocks))
