/* tests/unit/server/test_cost.c - what a batch will take, learnt from runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/cost.h"

#include "tests/test.h"

static void learn(struct td_cost *c, int64_t fixed_ns, int64_t each_ns, int64_t rows)
{
    td_cost_learn(c, rows, fixed_ns + each_ns * rows);
}

TEST(nothing_is_known_at_first)
{
    struct td_cost c = {0};
    CHECK_INT(td_cost_of(&c, 10), 0);
    CHECK_INT(td_cost_worth(&c), 1);
}

TEST(one_size_alone_makes_the_next_one_be_tried)
{
    struct td_cost c = {0};
    learn(&c, 0, 1000, 1);
    CHECK_INT(td_cost_of(&c, 1), 1000);
    CHECK_INT(td_cost_worth(&c), 2);
}

TEST(a_line_is_found)
{
    struct td_cost c = {0};
    for (int i = 0; i < 20; i++) {
        learn(&c, 3000000, 100000, 1 + i % 8);
    }
    CHECK(td_cost_of(&c, 4) > 3300000 && td_cost_of(&c, 4) < 3500000);
}

TEST(batches_grow_where_the_fixed_part_is_large)
{
    struct td_cost c = {0};
    int64_t rows = 1;
    for (int i = 0; i < 40; i++) {
        learn(&c, 3000000, 100000, 1);
        learn(&c, 3000000, 100000, rows);
        rows = td_cost_worth(&c);
    }
    CHECK(rows > 60 && rows < 240); /* 8 * 3.0 / 0.1, or four lone runs of 3.1 ms */
}

TEST(batches_stay_small_where_every_row_costs_the_same)
{
    struct td_cost c = {0};
    for (int i = 0; i < 20; i++) {
        learn(&c, 0, 5000000, 1 + i % 2);
    }
    CHECK_INT(td_cost_worth(&c), 1);
}

/* Two rows were measured while the machine was busy: that must not keep all others alone. */
TEST(one_slow_batch_does_not_keep_quick_runs_apart)
{
    struct td_cost c = {0};
    td_cost_learn(&c, 1, 5000);
    td_cost_learn(&c, 1, 5000);
    td_cost_learn(&c, 2, 80000);
    CHECK(td_cost_worth(&c) >= 2);
    td_cost_learn(&c, 4, 20000);
    CHECK(td_cost_worth(&c) >= 4);
}

TEST(one_slow_run_is_not_believed)
{
    struct td_cost c = {0};
    for (int i = 0; i < 10; i++) {
        learn(&c, 0, 1000, 1);
    }
    td_cost_learn(&c, 1, 1000000000);
    CHECK(td_cost_of(&c, 1) < 3000);
}

TEST(a_machine_that_became_slow_is_noticed)
{
    struct td_cost c = {0};
    for (int i = 0; i < 10; i++) {
        learn(&c, 0, 1000, 1);
    }
    for (int i = 0; i < 60; i++) {
        learn(&c, 0, 4000, 1);
    }
    CHECK(td_cost_of(&c, 1) > 3900);
}

TEST_MAIN(RUN(nothing_is_known_at_first) RUN(one_size_alone_makes_the_next_one_be_tried) RUN(a_line_is_found)
              RUN(batches_grow_where_the_fixed_part_is_large)
                  RUN(batches_stay_small_where_every_row_costs_the_same)
                      RUN(one_slow_batch_does_not_keep_quick_runs_apart) RUN(one_slow_run_is_not_believed)
                          RUN(a_machine_that_became_slow_is_noticed))
