/* tests/unit/core/test_bound_plan.c - how steps run, and that no two values that live at once share bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/bound_plan.h"
#include "core/run/frame.h"

#include "tests/unit/core/graph_make.h"

static struct made m;
static struct td_model *model;
static struct td_plan *plan;
static struct td_bound_plan *bound;

/* Lays `fetch`, fed at x, out for a vector of n (negative: of unknown length). */
static void lay_out(const char *fetch, int64_t n)
{
    struct td_err err = {0};
    CHECK_INT(made_resolve(&m), TD_OK);
    model = made_model(&m);
    struct td_value at = made_value(&m, "x"), want = made_value(&m, fetch);
    struct td_callable_opts f = {.feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    struct td_plan_opts opts = {.inline_calls = true, .passes_off = "all"};
    struct td_shape shape = td_shape_vector(n);
    CHECK_OK(td_plan_make(model, &m.graph, &f, &opts, &plan, &err));
    CHECK_OK(td_bound_plan_new(plan, &shape, &bound, &err));
}

static void end(void)
{
    td_bound_plan_unref(bound);
    td_plan_unref(plan);
    td_model_unref(model);
    made_end(&m);
}

static int mode_of(const char *name)
{
    for (int k = 0; k < plan->n_steps; k++) {
        if (strcmp(plan->steps[k].node->name, name) == 0) {
            return bound->mode[k];
        }
    }
    return -1;
}

static void make_mixed(void)
{
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", "x");
    made_add(&m.graph, "late", "LateNeg", "n");
    made_add(&m.graph, "after", "Neg", "late");
    made_add(&m.graph, "y", "Add", "n after");
}

TEST(what_a_shape_function_tells_is_known_ahead)
{
    make_mixed();
    lay_out("y", 6);
    CHECK_INT(mode_of("n"), TD_STEP_READY);
    CHECK_INT(mode_of("late"), TD_STEP_INFER);
    CHECK_INT(mode_of("after"), TD_STEP_INFER);
    CHECK(bound->shape[plan->steps[0].out0].dim[0] == 6 && !bound->uses_device);
    end();
}

TEST(an_unknown_feed_leaves_everything_to_the_run)
{
    make_mixed();
    lay_out("y", -1);
    CHECK(mode_of("n") == TD_STEP_INFER && mode_of("y") == TD_STEP_INFER);
    CHECK_INT(bound->block_bytes, 0);
    end();
}

static bool overlap(int a, int b)
{
    int64_t from_a = bound->offset[a], from_b = bound->offset[b];
    int64_t bytes_a = 4 * td_shape_count(&bound->shape[a]), bytes_b = 4 * td_shape_count(&bound->shape[b]);
    return from_a >= 0 && from_b >= 0 && from_a < from_b + bytes_b && from_b < from_a + bytes_a;
}

/* An output may take the place of an input of its own step when that dies there. */
static void check_disjoint(void)
{
    for (int k = 0; k < plan->n_steps; k++) {
        int v = plan->steps[k].out0;
        CHECK(bound->offset[v] < 0 || bound->offset[v] % 64 == 0);
        CHECK(bound->offset[v] < 0 ||
              bound->offset[v] + 4 * td_shape_count(&bound->shape[v]) <= (int64_t)bound->block_bytes);
        for (int j = 0; j < k; j++) {
            int u = plan->steps[j].out0; /* made before v */
            CHECK(!overlap(u, v) || plan->last_use[u] <= k);
            bool input = false;
            for (int i = 0; i < plan->steps[k].n_in; i++) {
                input |= plan->steps[k].in[i] == u;
            }
            CHECK(!overlap(u, v) || plan->last_use[u] < k || input);
        }
    }
}

TEST(values_that_live_at_once_never_share_bytes)
{
    uint32_t seed = 1;
    for (int draw = 0; draw < 200; draw++) {
        char name[20] = "", a[20], b[20], inputs[50];
        int nodes = 3 + draw % 40;
        made_start(&m);
        made_add(&m.graph, "x", "X", "");
        for (int i = 0; i < nodes; i++) {
            seed = seed * 1664525u + 1013904223u;
            int from = i == 0 ? -1 : (int)(seed >> 16) % i, with = i == 0 ? -1 : i - 1;
            snprintf(a, sizeof a, from < 0 ? "x" : "v%d", from);
            snprintf(b, sizeof b, with < 0 ? "x" : "v%d", with);
            snprintf(name, sizeof name, "v%d", i);
            snprintf(inputs, sizeof inputs, "%s %s", a, b);
            made_add(&m.graph, name, "Add", inputs);
        }
        lay_out(name, 1 + draw % 70);
        check_disjoint();
        end();
    }
}

TEST(a_chain_needs_one_place)
{
    char name[20], before[20] = "x";
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "n%d", i);
        made_add(&m.graph, name, "Neg", before);
        memcpy(before, name, sizeof before);
    }
    lay_out(name, 16);
    CHECK_INT(bound->block_bytes, 64);
    end();
}

TEST(frames_are_used_again)
{
    struct td_err err = {0};
    struct td_frame *a, *b, *again;
    make_mixed();
    lay_out("y", 6);
    CHECK_OK(td_frame_take(bound, &a, &err));
    CHECK_OK(td_frame_take(bound, &b, &err));
    CHECK(a != b && a->block != b->block);
    td_frame_give(bound, a);
    CHECK_OK(td_frame_take(bound, &again, &err));
    CHECK(again == a);
    td_frame_give(bound, again);
    td_frame_give(bound, b);
    end();
}

TEST(a_bound_plan_lives_as_long_as_somebody_holds_it)
{
    make_mixed();
    lay_out("y", 6);
    struct td_bound_plan *mine = td_bound_plan_ref(bound);
    td_bound_plan_unref(bound);
    CHECK_INT(mine->shape[0].dim[0], 6);
    bound = mine;
    end();
}

TEST_MAIN(RUN(what_a_shape_function_tells_is_known_ahead) RUN(an_unknown_feed_leaves_everything_to_the_run)
              RUN(values_that_live_at_once_never_share_bytes) RUN(a_chain_needs_one_place)
                  RUN(frames_are_used_again) RUN(a_bound_plan_lives_as_long_as_somebody_holds_it))
