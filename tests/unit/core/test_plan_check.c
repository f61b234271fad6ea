/* tests/unit/core/test_plan_check.c - broken plans and memory plans that the checks catch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/plan_check.h"

#include "core/run/bound_plan_check.h"
#include "tests/unit/core/graph_make.h"

static struct made m;
static struct td_model *model;
static struct td_plan *plan;
static struct td_bound_plan *bound;
static struct td_err err;

/* x -> a -> b -> c -> y, and y reads a too: values 0 to 4, steps 0 to 3 */
static void make_plan(void)
{
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "a", "Neg", "x");
    made_add(&m.graph, "b", "Neg", "a");
    made_add(&m.graph, "c", "Neg", "b");
    made_add(&m.graph, "y", "Add", "c a");
    CHECK_INT(made_resolve(&m), TD_OK);
    model = made_model(&m);
    struct td_value at = made_value(&m, "x"), want = made_value(&m, "y");
    struct td_callable_opts f = {.feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    struct td_plan_opts opts = {.inline_calls = true, .passes_off = "all"};
    struct td_shape shape = td_shape_vector(100);
    CHECK_OK(td_plan_make(model, &m.graph, &f, &opts, &plan, &err));
    CHECK_OK(td_bound_plan_new(plan, &shape, &bound, &err));
    CHECK_OK(td_plan_check(plan, &err));
    CHECK_OK(td_bound_plan_check(bound, &err));
}

static void end(void)
{
    td_bound_plan_unref(bound);
    td_plan_unref(plan);
    td_model_unref(model);
    made_end(&m);
}

static void says(enum td_code code, const char *words)
{
    CHECK_INT(code, TD_INTERNAL);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
    err = (struct td_err){0};
}

TEST(a_step_that_reads_what_is_not_made_yet_is_seen)
{
    make_plan();
    int *in = (int *)plan->steps[1].in;
    in[0] = 3;
    says(td_plan_check(plan, &err), "step 1, node 'b' (Neg), reads value 3 and makes 2");
    in[0] = 1;
    plan->steps[2].out0 = 4;
    says(td_plan_check(plan, &err), "makes value 4 where 3 is next");
    plan->steps[2].out0 = 3;
    end();
}

TEST(releases_that_are_early_double_or_missing_are_seen)
{
    make_plan();
    int *release = (int *)plan->steps[2].release;
    CHECK_INT(plan->steps[2].n_release, 1);
    CHECK_INT(release[0], 2);
    release[0] = 1;
    says(td_plan_check(plan, &err), "releases value 1, whose last use is step 3");
    release[0] = 2;
    plan->steps[2].n_release = 0;
    says(td_plan_check(plan, &err), "2 values are released, of 3");
    plan->steps[2].n_release = 1;
    int *last = (int *)plan->last_use;
    last[1] = 1;
    says(td_plan_check(plan, &err), "reads value 1, whose last use is step 1");
    last[1] = 3;
    bool *escapes = (bool *)plan->escapes;
    escapes[4] = false;
    says(td_plan_check(plan, &err), "fetch 0, value 4, does not outlive the run");
    escapes[4] = true;
    end();
}

TEST(regions_whose_groups_need_each_other_are_seen)
{
    make_plan();
    struct td_region r = {.first = 0, .n_groups = 2, .end = {1, 2}};
    plan->regions = &r;
    plan->n_regions = 1;
    says(td_regions_check(plan, &err), "step 1, node 'b' (Neg), reads value 1 of another group");
    r = (struct td_region){.first = 2, .n_groups = 1, .end = {4}};
    says(td_regions_check(plan, &err), "region 0 of 1 groups");
    r = (struct td_region){.first = 2, .n_groups = 2, .end = {2, 4}};
    says(td_regions_check(plan, &err), "group 0 of region 0 has no step");
    plan->n_regions = 0;
    end();
}

TEST(a_shared_value_that_a_group_releases_is_seen)
{
    make_plan();
    int *in = (int *)plan->steps[2].in, *last = (int *)plan->last_use;
    struct td_region r = {.first = 1, .n_groups = 2, .end = {2, 3}};
    plan->regions = &r;
    plan->n_regions = 1;
    in[0] = 1;   /* b and c both read a, side by side */
    last[1] = 2; /* ... and c, in the second group, says it is the last */
    says(td_regions_check(plan, &err), "step 1, node 'b' (Neg), reads value 1, which another group");
    last[1] = 3;
    CHECK_OK(td_regions_check(plan, &err));
    plan->n_regions = 0;
    in[0] = 2;
    end();
}

TEST(values_that_share_bytes_while_both_live_are_seen)
{
    make_plan();
    CHECK(bound->offset[1] >= 0 && bound->offset[2] >= 0);
    CHECK_INT(bound->offset[2], bound->offset[3]); /* c is written over b, which ends there */
    bound->offset[2] = bound->offset[1];
    says(td_bound_plan_check(bound, &err), "value 2 of node 'b' (Neg) shares bytes with value 1");
    bound->offset[2] = bound->offset[3] + 64; /* they overlap, but not as one in the other's place */
    bound->block_bytes += 64;
    says(td_bound_plan_check(bound, &err), "value 3 of node 'c' (Neg) shares bytes with value 2");
    bound->offset[2] = (int64_t)bound->block_bytes;
    says(td_bound_plan_check(bound, &err), "value 2 of node 'b' (Neg) lies at");
    end();
}

TEST(groups_that_share_bytes_are_seen)
{
    make_plan();
    int *in = (int *)plan->steps[2].in, *last = (int *)plan->last_use;
    struct td_region r = {.first = 1, .n_groups = 2, .end = {2, 3}};
    in[0] = 1;
    last[1] = 3;
    last[2] =
        1; /* b ends with its own step, c is made behind it: apart, but for their running side by side */
    CHECK_OK(td_bound_plan_check(bound, &err));
    plan->regions = &r;
    plan->n_regions = 1;
    says(td_bound_plan_check(bound, &err), "value 3 of node 'c' (Neg) shares bytes with value 2");
    plan->n_regions = 0;
    end();
}

TEST_MAIN(RUN(a_step_that_reads_what_is_not_made_yet_is_seen)
              RUN(releases_that_are_early_double_or_missing_are_seen)
                  RUN(regions_whose_groups_need_each_other_are_seen)
                      RUN(a_shared_value_that_a_group_releases_is_seen)
                          RUN(values_that_share_bytes_while_both_live_are_seen)
                              RUN(groups_that_share_bytes_are_seen))
