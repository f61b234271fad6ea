/* tests/unit/core/test_arena.c - arenas keep to their limit, clean up in reverse, and survive a lack of
 * memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"

#include <stdint.h>

#include "core/base/mem.h"
#include "tests/test.h"

static int order[3], n_order;

static void note(void *at)
{
    order[n_order++] = *(int *)at;
}

TEST(bytes_are_zeroed_and_aligned)
{
    struct td_arena *a = td_arena_new(1 << 20);
    for (size_t n = 1; n < 300; n++) {
        const unsigned char *p = td_arena_alloc(a, n, 1);
        CHECK(p != NULL && (uintptr_t)p % 16 == 0 && p[0] == 0 && p[n - 1] == 0);
    }
    td_arena_free(a);
}

TEST(what_does_not_fit_is_refused)
{
    struct td_arena *a = td_arena_new(1 << 16);
    CHECK(td_arena_alloc(a, SIZE_MAX / 2, 3) == NULL);
    CHECK(td_arena_alloc(a, SIZE_MAX, 1) == NULL);
    CHECK(td_arena_alloc(a, (1 << 16) + 1, 1) == NULL);
    CHECK(td_arena_alloc(a, 1 << 16, 1) != NULL);
    CHECK(td_arena_alloc(a, 1, 1) == NULL);
    td_arena_free(a);
}

TEST(cleanups_run_last_first)
{
    int rows[3] = {1, 2, 3};
    struct td_arena *a = td_arena_new(1 << 16);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(td_arena_defer(a, note, &rows[i]), 0);
    }
    td_arena_free(a);
    CHECK(order[0] == 3 && order[1] == 2 && order[2] == 1);
}

TEST(without_memory_there_is_no_block)
{
    struct td_arena *a = td_arena_new(1 << 20);
    td_mem_fail_at(1);
    CHECK(td_arena_alloc(a, 1, 1) == NULL);
    CHECK(td_arena_strdup(a, "text") == NULL);
    td_mem_fail_at(0);
    CHECK_STR(td_arena_strdup(a, "text"), "text");
    td_arena_free(a);
}

TEST_MAIN(RUN(bytes_are_zeroed_and_aligned) RUN(what_does_not_fit_is_refused) RUN(cleanups_run_last_first)
              RUN(without_memory_there_is_no_block))
