/* tests/unit/core/test_rewrite.c - each compiler pass on a graph before and after.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/rewrite.h"

#include "tests/unit/core/graph_make.h"

/* Runs all passes but those of `off` over x -> Same -> Same -> Neg, Neg -> Add, One -> Neg -> Add. */
static void rewrite(struct made *m, const char *off, struct td_ir *ir)
{
    made_start(m);
    made_add(&m->graph, "x", "X", "");
    made_add(&m->graph, "i", "Same", "x");
    made_add(&m->graph, "j", "Same", "i");
    made_add(&m->graph, "n1", "Neg", "j");
    made_add(&m->graph, "n2", "Neg", "i");
    made_add(&m->graph, "sum", "Add", "n1 n2");
    made_add(&m->graph, "one", "One", "");
    made_add(&m->graph, "less", "Neg", "one");
    made_add(&m->graph, "out", "Add", "sum less");
    CHECK_INT(made_resolve(m), TD_OK);
    CHECK_INT(made_ir(m, "x", "out", ir), TD_OK);
    CHECK_INT(ir->n_nodes, 9);
    struct td_model *model;
    struct td_model_opts opts = {.ops = m->ops};
    CHECK_INT(td_model_new(&opts, NULL, &m->graph, &m->lib, &model, &m->err), TD_OK);
    CHECK_INT(td_rewrite_run(ir, model, off, &m->err), TD_OK);
    td_model_unref(model);
}

TEST(without_passes_the_graph_stays)
{
    struct made m;
    struct td_ir ir;
    rewrite(&m, "all", &ir);
    CHECK_INT(ir.n_nodes, 9);
    made_end(&m);
}

TEST(identities_go)
{
    struct made m;
    struct td_ir ir;
    rewrite(&m, "fold,cse", &ir);
    CHECK_INT(made_count(&ir, "Same"), 0);
    CHECK_INT(made_count(&ir, "Neg"), 3);
    CHECK(ir.fetches[0].node->in[0].node->in[0].node->in[0].node == ir.feeds[0]);
    made_end(&m);
}

/* x -> Effect;  x -> Same (behind the effect) -> Neg -> Effect: the second must not run before the first */
TEST(an_identity_that_waits_stays_where_an_effect_follows)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "first", "Effect", "x");
    made_add(&m.graph, "wait", "Same", "x ^first");
    made_add(&m.graph, "n", "Neg", "wait");
    made_add(&m.graph, "second", "Effect", "n");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "second", &ir), TD_OK);
    struct td_model *model;
    struct td_model_opts opts = {.ops = m.ops};
    CHECK_INT(td_model_new(&opts, NULL, &m.graph, &m.lib, &model, &m.err), TD_OK);
    CHECK_INT(td_rewrite_run(&ir, model, "", &m.err), TD_OK);
    td_model_unref(model);
    CHECK_INT(made_count(&ir, "Same"), 1);
    made_end(&m);
}

TEST(a_huge_constant_is_not_made)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_add(&m.graph, "big", "Big", "");
    made_add(&m.graph, "out", "Neg", "big");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "", "out", &ir), TD_OK);
    struct td_model *model;
    struct td_model_opts opts = {.ops = m.ops};
    CHECK_INT(td_model_new(&opts, NULL, &m.graph, &m.lib, &model, &m.err), TD_OK);
    made_big = TD_OK;
    CHECK_INT(td_rewrite_run(&ir, model, "", &m.err), TD_OK);
    CHECK_INT(made_big, TD_RESOURCE_EXHAUSTED);
    CHECK_INT(made_count(&ir, "Big"), 1);
    td_model_unref(model);
    made_end(&m);
}

TEST(constant_chains_fold_into_one_value)
{
    struct made m;
    struct td_ir ir;
    rewrite(&m, "identity,cse", &ir);
    CHECK_INT(made_count(&ir, "One"), 0);
    CHECK_INT(made_count(&ir, "Neg"), 2);
    const struct td_tensor *t = td_node_const(ir.fetches[0].node->in[1].node);
    CHECK(t != NULL && TD_DATA(t, float)[0] == -1);
    made_end(&m);
}

TEST(equal_nodes_merge)
{
    struct made m;
    struct td_ir ir;
    rewrite(&m, "fold", &ir);
    CHECK_INT(made_count(&ir, "Neg"), 2);
    const struct td_node *sum = ir.fetches[0].node->in[0].node;
    CHECK(sum->in[0].node == sum->in[1].node);
    made_end(&m);
}

TEST(a_chain_of_many_identities_goes_in_linear_time)
{
    struct made m;
    struct td_ir ir;
    enum { N = 60000 };
    char name[16] = "x", last[16];
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    for (int i = 0; i < N; i++) {
        snprintf(last, sizeof last, "%s", name);
        snprintf(name, sizeof name, "i%d", i);
        made_add(&m.graph, name, "Same", last);
    }
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", name, &ir), TD_OK);
    CHECK_INT(td_rewrite_run(&ir, NULL, "fold,cse", &m.err), TD_OK);
    CHECK(ir.fetches[0].node == ir.feeds[0]);
    made_end(&m);
}

TEST(names_of_no_pass_are_refused)
{
    struct td_err err = {0};
    CHECK_OK(td_rewrite_check(NULL, &err));
    CHECK_OK(td_rewrite_check("all", &err));
    CHECK_OK(td_rewrite_check("fuse,inline", &err));
    CHECK_INT(td_rewrite_check("fuse,layouts", &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "'layouts'") != NULL && strstr(err.msg, "dead_branch") != NULL);
    CHECK_INT(td_rewrite_check("handles", &err), TD_INVALID_ARGUMENT);
}

TEST_MAIN(RUN(without_passes_the_graph_stays) RUN(identities_go)
              RUN(an_identity_that_waits_stays_where_an_effect_follows) RUN(a_huge_constant_is_not_made)
                  RUN(constant_chains_fold_into_one_value) RUN(equal_nodes_merge)
                      RUN(names_of_no_pass_are_refused) RUN(a_chain_of_many_identities_goes_in_linear_time))
