/* tests/unit/core/test_plan.c - plans and their memory: limits, lifetimes, reuse of dying inputs, views.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/plan_make.h"

#include "core/run/bound_plan.h"
#include "tests/unit/core/graph_make.h"

static enum td_code compile(struct made *m, struct td_model *model, const char *fetch, struct td_plan **out)
{
    struct td_value at = made_value(m, "x"), want = made_value(m, fetch);
    struct td_callable_opts f = {.feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    return td_plan_make(model, &m->graph, &f,
                        &(struct td_plan_opts){.inline_calls = true, .passes_off = "all"}, out, &m->err);
}

TEST(nodes_of_very_many_outputs_are_bounded_together)
{
    struct made m;
    struct td_plan *p;
    int64_t count = 1 << 16;
    struct td_attr a = {.name = "N", .kind = TD_ATTR_INT, .n = 1, .i = &count};
    char name[16], after[16] = "^x";
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    for (int i = 0; i < 160; i++) {
        snprintf(name, sizeof name, "w%d", i);
        struct td_node *w = made_add(&m.graph, name, "Wide", after);
        w->attrs = &a;
        w->n_attrs = 1;
        snprintf(after, sizeof after, "^w%d", i);
    }
    CHECK_INT(made_resolve(&m), TD_OK);
    struct td_model *model = made_model(&m);
    CHECK_INT(compile(&m, model, name, &p), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(m.err.msg, "values") != NULL);
    td_model_unref(model);
    made_end(&m);
}

/* Runs `fetch` of a graph whose feed x is [1 2 3 4] and compares with want. */
static void runs_to(struct made *m, const char *fetch, const float *want)
{
    CHECK_INT(made_resolve(m), TD_OK);
    struct td_model *model = made_model(m);
    struct td_value at = made_value(m, "x"), out = made_value(m, fetch);
    struct td_callable_opts opts = {.name = "f", .feeds = &at, .n_feeds = 1, .fetches = &out, .n_fetches = 1};
    struct td_callable *f;
    struct td_tensor x = made_tensor(4, 1), y;
    CHECK_INT(td_callable_new(model, &opts, &f, &m->err), TD_OK);
    for (int round = 0; round < 3; round++) {
        test_check_ok(__FILE__, __LINE__, "run", td_callable_run(f, &x, &y, NULL, &m->err), &m->err);
        for (int i = 0; i < 4; i++) {
            CHECK_INT(TD_DATA(&y, float)[i], want[i]);
            CHECK_INT(TD_DATA(&x, float)[i], i + 1);
        }
        td_tensor_clear(&y);
    }
    td_tensor_clear(&x);
    td_model_unref(model);
    made_end(m);
}

TEST(a_value_that_is_both_inputs_may_be_overwritten)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", "x");
    made_add(&m.graph, "twice", "Add", "n n");
    made_add(&m.graph, "out", "Neg", "twice");
    runs_to(&m, "out", (const float[]){2, 4, 6, 8});
}

TEST(a_value_read_later_is_not_overwritten)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", "x");
    made_add(&m.graph, "p", "Neg", "n");
    made_add(&m.graph, "q", "Add", "p n");
    made_add(&m.graph, "out", "Add", "q n");
    runs_to(&m, "out", (const float[]){-1, -2, -3, -4});
}

TEST(bytes_live_as_long_as_views_of_their_views)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", "x");
    made_add(&m.graph, "v", "View", "n");
    made_add(&m.graph, "w", "View", "v");
    made_add(&m.graph, "p", "Neg", "n");
    made_add(&m.graph, "q", "Neg", "p");
    made_add(&m.graph, "out", "Add", "q w");
    runs_to(&m, "out", (const float[]){-2, -4, -6, -8});
}

TEST(a_fetched_view_owns_its_bytes)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", "x");
    made_add(&m.graph, "v", "View", "n");
    made_add(&m.graph, "out", "View", "v");
    runs_to(&m, "out", (const float[]){-1, -2, -3, -4});
}

TEST(a_feed_is_never_overwritten)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "v", "View", "x");
    made_add(&m.graph, "out", "Neg", "v");
    runs_to(&m, "out", (const float[]){-1, -2, -3, -4});
}

TEST(an_output_that_is_a_borrowed_input_is_a_copy)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "v", "View", "x");
    CHECK_INT(made_resolve(&m), TD_OK);
    struct td_model *model = made_model(&m);
    struct td_value at = made_value(&m, "x"), out = made_value(&m, "v");
    struct td_callable_opts opts = {.name = "f", .feeds = &at, .n_feeds = 1, .fetches = &out, .n_fetches = 1};
    struct td_callable *f;
    float bytes[2] = {1, 2};
    struct td_tensor x = {.data = bytes, .dtype = TD_FLOAT, .shape = td_shape_vector(2)}, y;
    CHECK_INT(td_callable_new(model, &opts, &f, &m.err), TD_OK);
    CHECK_INT(td_callable_run(f, &x, &y, NULL, &m.err), TD_OK);
    CHECK(y.data != bytes && y.buf != NULL);
    td_tensor_clear(&y);
    td_model_unref(model);
    made_end(&m);
}

TEST_MAIN(RUN(nodes_of_very_many_outputs_are_bounded_together)
              RUN(a_value_that_is_both_inputs_may_be_overwritten) RUN(a_value_read_later_is_not_overwritten)
                  RUN(bytes_live_as_long_as_views_of_their_views) RUN(a_fetched_view_owns_its_bytes)
                      RUN(a_feed_is_never_overwritten) RUN(an_output_that_is_a_borrowed_input_is_a_copy))
