/* tests/unit/core/test_build.c - calls inlined, feeds cut, cycles and mistyped calls of hostile files
 * refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/graph_make.h"

TEST(a_call_is_inlined_and_leaves_no_node)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    struct td_function *f = made_function(&m, "flip", 1, "n:y:0", TD_FLOAT);
    made_add(&f->body, "n", "Neg", "a");
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "c", "flip", "x");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "c", &ir), TD_OK);
    CHECK_INT(made_count(&ir, "Neg"), 1);
    CHECK_INT(made_count(&ir, "flip"), 0);
    CHECK_STR(ir.fetches[0].node->name, "c/n");
    made_end(&m);
}

TEST(a_call_that_feeds_itself_is_a_cycle)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    struct td_function *f = made_function(&m, "flip", 1, "n:y:0", TD_FLOAT);
    made_add(&f->body, "n", "Neg", "a");
    made_add(&m.graph, "c", "flip", "c");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "", "c", &ir), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "cycle") != NULL);
    made_end(&m);
}

TEST(calls_that_feed_each_other_are_a_cycle)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    struct td_function *f = made_function(&m, "flip", 1, "a", TD_FLOAT);
    (void)f;
    made_add(&m.graph, "c", "flip", "d");
    made_add(&m.graph, "d", "flip", "c");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "", "c", &ir), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "cycle") != NULL);
    made_end(&m);
}

static enum td_code self_feeding(const char *inputs)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", inputs);
    CHECK_INT(made_resolve(&m), TD_OK);
    enum td_code rc = made_ir(&m, "x", "n", &ir);
    made_end(&m);
    return rc;
}

TEST(a_node_may_not_wait_for_itself)
{
    CHECK_INT(self_feeding("n"), TD_INVALID_ARGUMENT);
    CHECK_INT(self_feeding("x ^n"), TD_INVALID_ARGUMENT);
    CHECK_INT(self_feeding("x ^x"), TD_OK);
}

TEST(a_result_of_another_type_than_declared_is_refused)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    struct td_function *f = made_function(&m, "lie", 1, "n:y:0", TD_STRING);
    made_add(&f->body, "n", "Neg", "a");
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "c", "lie", "x");
    made_add(&m.graph, "t", "Text", "c");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "t", &ir), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "is float, the call says string") != NULL);
    made_end(&m);
}

TEST(a_feed_in_place_of_an_unknown_op_has_the_type_its_consumer_takes)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "u", "Mystery", "x");
    made_add(&m.graph, "t", "Text", "u");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "u", "t", &ir), TD_OK);
    CHECK_INT(ir.feeds[0]->out_type[0], TD_STRING);
    made_end(&m);
}

TEST(a_fetch_may_be_a_feed_and_a_value_may_be_fed_twice)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    CHECK_INT(made_resolve(&m), TD_OK);
    struct td_value twice[2] = {made_value(&m, "x"), made_value(&m, "x")}, want = twice[0];
    struct td_callable_opts opts = {.feeds = twice, .n_feeds = 2, .fetches = &want, .n_fetches = 1};
    CHECK_INT(td_ir_build(&ir, m.arena, &m.graph, &m.lib, &opts, TD_IR_INLINE, &m.err), TD_OK);
    CHECK(ir.fetches[0].node == ir.feeds[0]);
    made_end(&m);
}

TEST(a_function_may_have_no_results)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_function(&m, "none", 0, NULL, TD_FLOAT);
    made_add(&m.graph, "c", "none", "");
    made_add(&m.graph, "x", "One", "^c");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "", "x", &ir), TD_OK);
    CHECK_INT(ir.n_nodes, 1);
    made_end(&m);
}

TEST(functions_that_call_each_other_end_with_an_error)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_add(&made_function(&m, "f", 1, "c:r:0", TD_FLOAT)->body, "c", "g", "a");
    made_add(&made_function(&m, "g", 1, "c:r:0", TD_FLOAT)->body, "c", "f", "a");
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "c", "f", "x");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "c", &ir), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "recursion") != NULL);
    made_end(&m);
}

TEST(calls_that_double_at_each_level_end_with_an_error)
{
    struct made m;
    struct td_ir ir;
    char name[16] = "f0", next[16];
    made_start(&m);
    for (int i = 0; i < 40; i++) {
        struct td_function *f = made_function(&m, name, 1, "d:r:0", TD_FLOAT);
        snprintf(next, sizeof next, "f%d", i + 1);
        made_add(&f->body, "c", next, "a");
        made_add(&f->body, "d", next, "c");
        snprintf(name, sizeof name, "%s", next);
    }
    made_function(&m, name, 1, "a", TD_FLOAT);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "c", "f0", "x");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "c", &ir), TD_RESOURCE_EXHAUSTED);
    made_end(&m);
}

/* c0 + (c1 + (... + x)), where every constant is given twice: how many stand in the IR? */
static int constants_of(struct made *m, unsigned how, struct td_ir *ir)
{
    struct td_value feed = made_value(m, "x"), want = made_value(m, "s599");
    struct td_callable_opts opts = {.feeds = &feed, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    CHECK_INT(td_ir_build(ir, m->arena, &m->graph, &m->lib, &opts, how, &m->err), TD_OK);
    return made_count(ir, "Const");
}

TEST(equal_small_constants_are_one_node)
{
    struct made m;
    struct td_ir ir;
    char c[16], s[16], in[40] = "x";
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    for (int i = 0; i < 600; i++) {
        snprintf(c, sizeof c, "c%d", i);
        snprintf(s, sizeof s, "s%d", i);
        made_const(&m.graph, c, i < 20 ? 17 : 1, (float)(i / 2)); /* the first 20 are too large: 68 bytes */
        struct td_node *last = m.graph.nodes[m.graph.n_nodes - 1];
        if (i == 598) { /* it waits: not like its twin */
            last->inputs[0] = "^x";
            last->n_inputs = 1;
        } else if (i == 597) { /* nor is one that lies elsewhere */
            last->device = "/device:GPU:0";
        }
        snprintf(in + strlen(in), sizeof in - strlen(in), " %s", c);
        made_add(&m.graph, s, "Add", in);
        snprintf(in, sizeof in, "%s", s);
    }
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(constants_of(&m, 0, &ir), 600);
    CHECK_INT(constants_of(&m, TD_IR_SHARE, &ir), 20 + 290 + 2);
    for (int i = 0; i < ir.n_nodes; i++) { /* and each sum still adds its own number */
        int k;
        if (sscanf(ir.nodes[i]->name, "s%d", &k) == 1) {
            CHECK(TD_DATA(ir.nodes[i]->in[1].node->value, float)[0] == (float)(k / 2));
        }
    }
    made_end(&m);
}

TEST(a_loop_body_may_be_a_call_that_reads_the_switch)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    struct td_function *f = made_function(&m, "flip", 1, "n:y:0", TD_FLOAT);
    made_add(&f->body, "n", "Neg", "a");
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "p", "True", "");
    made_add(&m.graph, "enter", "Enter", "x");
    made_add(&m.graph, "merge", "Merge", "enter next");
    made_add(&m.graph, "switch", "Switch", "merge p");
    made_add(&m.graph, "body", "flip", "switch:1");
    made_add(&m.graph, "next", "Next", "body");
    made_add(&m.graph, "exit", "Exit", "switch");
    CHECK_INT(made_resolve(&m), TD_OK);
    struct td_value feed = made_value(&m, "x"), want = made_value(&m, "exit");
    struct td_callable_opts opts = {.feeds = &feed, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    CHECK_INT(td_ir_build(&ir, m.arena, &m.graph, &m.lib, &opts, TD_IR_INLINE, &m.err), TD_OK);
    CHECK_INT(td_ir_check_types(&ir, &m.err), TD_OK);
    CHECK_INT(made_count(&ir, "Neg"), 1);
    made_end(&m);
}

TEST(what_waits_for_a_fed_argument_waits_for_nothing)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "z", "X", "");
    made_add(&m.graph, "n", "Neg", "x ^z");
    CHECK_INT(made_resolve(&m), TD_OK);
    struct td_value feeds[] = {made_value(&m, "x"), made_value(&m, "z")}, want = made_value(&m, "n");
    struct td_callable_opts opts = {.feeds = feeds, .n_feeds = 2, .fetches = &want, .n_fetches = 1};
    CHECK_INT(td_ir_build(&ir, m.arena, &m.graph, &m.lib, &opts, TD_IR_INLINE, &m.err), TD_OK);
    CHECK_INT(made_count(&ir, "X"), 0);
    CHECK_INT(ir.fetches[0].node->n_control, 0);
    made_end(&m);
}

TEST_MAIN(RUN(what_waits_for_a_fed_argument_waits_for_nothing) RUN(a_call_is_inlined_and_leaves_no_node)
              RUN(a_call_that_feeds_itself_is_a_cycle) RUN(calls_that_feed_each_other_are_a_cycle)
                  RUN(a_node_may_not_wait_for_itself) RUN(a_result_of_another_type_than_declared_is_refused)
                      RUN(a_feed_in_place_of_an_unknown_op_has_the_type_its_consumer_takes)
                          RUN(a_fetch_may_be_a_feed_and_a_value_may_be_fed_twice)
                              RUN(a_function_may_have_no_results)
                                  RUN(functions_that_call_each_other_end_with_an_error)
                                      RUN(calls_that_double_at_each_level_end_with_an_error)
                                          RUN(equal_small_constants_are_one_node)
                                              RUN(a_loop_body_may_be_a_call_that_reads_the_switch))
