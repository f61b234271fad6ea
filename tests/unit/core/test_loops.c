/* tests/unit/core/test_loops.c - TF1 loops lifted into one node, and what is no loop refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/loops.h"

#include "tests/unit/core/graph_make.h"

/* while p: x = body_op(x), as Enter, Merge, Switch, Next and Exit; `exit_from` is what Exit reads. */
static void make_loop_of(struct made *m, const char *exit_from, bool cond, const char *body_op,
                         const char *body_in)
{
    made_add(&m->graph, "x", "X", "");
    made_add(&m->graph, "enter", "Enter", "x");
    made_add(&m->graph, "merge", "Merge", "enter next");
    made_add(&m->graph, "p", "Positive", "merge");
    made_add(&m->graph, "cond", cond ? "LoopCond" : "SameBool", "p");
    made_add(&m->graph, "switch", "Switch", "merge cond");
    made_add(&m->graph, "body", body_op, body_in);
    made_add(&m->graph, "next", "Next", "body");
    made_add(&m->graph, "exit", "Exit", exit_from);
    made_add(&m->graph, "out", "Neg", "exit");
    CHECK_INT(made_resolve(m), TD_OK);
}

static void make_loop(struct made *m, const char *exit_from, bool cond)
{
    made_start(m);
    make_loop_of(m, exit_from, cond, "Neg", "switch:1");
}

static enum td_code lift(struct made *m, struct td_ir *ir)
{
    struct td_value feed = made_value(m, "x"), want = made_value(m, "out");
    struct td_callable_opts opts = {.feeds = &feed, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    struct td_model *model;
    struct td_model_opts how = {.ops = m->ops};
    CHECK_INT(td_model_new(&how, NULL, &m->graph, &m->lib, &model, &m->err), TD_OK);
    CHECK_INT(td_ir_build(ir, m->arena, &m->graph, &m->lib, &opts, TD_IR_INLINE, &m->err), TD_OK);
    enum td_code rc = td_loops_lift(ir, model, &m->err);
    td_model_unref(model);
    return rc;
}

TEST(a_loop_becomes_one_node)
{
    struct made m;
    struct td_ir ir;
    make_loop(&m, "switch", true);
    CHECK_INT(lift(&m, &ir), TD_OK);
    CHECK_INT(td_ir_sort(&ir, &m.err), TD_OK);
    CHECK_INT(ir.n_nodes, 3);
    CHECK_INT(made_count(&ir, "_Loop"), 1);
    CHECK_INT(made_count(&ir, "Exit"), 0);
    made_end(&m);
}

TEST(a_loop_without_a_condition_is_refused)
{
    struct made m;
    struct td_ir ir;
    make_loop(&m, "switch", false);
    CHECK_INT(lift(&m, &ir), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "has no LoopCond") != NULL);
    made_end(&m);
}

TEST(an_exit_that_reads_no_switch_is_refused)
{
    struct made m;
    struct td_ir ir;
    make_loop(&m, "body", true);
    CHECK_INT(lift(&m, &ir), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "does not leave the loop") != NULL);
    made_end(&m);
}

/* No edge enters a function for its constants, and what must run in it is a root. */
TEST(a_function_called_in_a_loop_brings_its_constants_and_its_effects)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    struct td_function *f = made_function(&m, "plus", 1, "sum:z:0", TD_FLOAT);
    made_const(&f->body, "k", 1, 7);
    made_add(&f->body, "sum", "Add", "a k");
    static const char *effects[] = {"sum"};
    f->control_texts = effects;
    f->n_control_rets = 1;
    make_loop_of(&m, "switch", true, "plus", "switch:1");
    CHECK_INT(lift(&m, &ir), TD_OK);
    CHECK_INT(td_ir_sort(&ir, &m.err), TD_OK);
    CHECK_INT(made_count(&ir, "_Loop"), 1);
    CHECK_INT(ir.n_nodes, 3); /* x, the loop, out: the constant went into the loop */
    CHECK(ir.n_roots == 1 && strcmp(ir.roots[0]->op_name, "_Loop") == 0);
    made_end(&m);
}

TEST(a_loop_that_reads_a_constant_without_an_enter_is_refused)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_const(&m.graph, "k", 1, 7);
    make_loop_of(&m, "switch", true, "Add", "switch:1 k");
    CHECK_INT(lift(&m, &ir), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "without an Enter") != NULL);
    made_end(&m);
}

TEST_MAIN(RUN(a_function_called_in_a_loop_brings_its_constants_and_its_effects)
              RUN(a_loop_that_reads_a_constant_without_an_enter_is_refused) RUN(a_loop_becomes_one_node)
                  RUN(a_loop_without_a_condition_is_refused) RUN(an_exit_that_reads_no_switch_is_refused))
