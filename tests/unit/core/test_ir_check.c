/* tests/unit/core/test_ir_check.c - broken graphs that the checks between passes catch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/ir_check.h"

#include "core/graph/fused.h"
#include "tests/unit/core/graph_make.h"

static struct made m;
static struct td_ir ir;
static struct td_err err;

/* x -> n -> p -> y, and y reads n too */
static void make_graph(void)
{
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", "x");
    made_add(&m.graph, "p", "Neg", "n ^n");
    made_add(&m.graph, "y", "Add", "p n");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "y", &ir), TD_OK);
    CHECK_INT(td_ir_check(&ir, &err), TD_OK);
}

static struct td_node *node(const char *name)
{
    for (int i = 0; i < ir.n_nodes; i++) {
        if (strcmp(ir.nodes[i]->name, name) == 0) {
            return ir.nodes[i];
        }
    }
    CHECK(false);
    return NULL;
}

static void says(enum td_code code, const char *words)
{
    CHECK_INT(code, TD_INTERNAL);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
    err = (struct td_err){0};
}

TEST(a_node_out_of_its_place_is_seen)
{
    make_graph();
    struct td_node *n = node("n"), *p = node("p");
    ir.nodes[n->id] = p;
    ir.nodes[p->id] = n;
    says(td_ir_check(&ir, &err), "and says");
    const int id = n->id;
    n->id = p->id;
    p->id = id;
    says(td_ir_check(&ir, &err), "reads 'n', which is not before it");
    made_end(&m);
}

TEST(edges_from_what_is_not_there_are_seen)
{
    make_graph();
    struct td_node *p = node("p"), stray = *node("n"), *n = p->in[0].node;
    p->in[0].node = &stray;
    says(td_ir_check(&ir, &err), "node 'p' (Neg) reads 'n', which is not before it");
    p->in[0] = (struct td_value){n, 1};
    says(td_ir_check(&ir, &err), "reads output 1 of 'n', which has 1");
    p->in[0].port = 0;
    p->control[0] = &stray;
    says(td_ir_check(&ir, &err), "node 'p' (Neg) waits for 'n'");
    p->control[0] = n;
    ir.fetches[0].node = &stray;
    says(td_ir_check(&ir, &err), "fetch 0 is output 0 of 'n', which is not in the graph");
    made_end(&m);
}

TEST(a_fused_node_whose_inner_value_is_read_is_seen)
{
    make_graph();
    struct td_node *p = node("p"), *n = node("n");
    int from_n[1] = {0}, from_p[1] = {1};
    const struct td_stage *any = (const void *)&m; /* core never looks into one */
    struct td_part parts[2] = {{n, any, from_n}, {p, any, from_p}};
    struct td_fused fused = {.parts = parts, .n_parts = 2};
    p->fused = &fused;
    p->in[0] = n->in[0];
    says(td_ir_check(&ir, &err), "its part 'n' is still read by others");
    CHECK_INT(td_fused_check(p, &err), TD_OK);
    from_n[0] = 1;
    says(td_fused_check(p, &err), "part 0, 'n', reads value 1");
    from_n[0] = 0;
    fused.has_head = true;
    says(td_fused_check(p, &err), "part 0, 'n', has a stage");
    made_end(&m);
}

TEST(an_order_of_effects_that_is_lost_is_seen)
{
    make_graph();
    struct td_node *n = node("n"), *p = node("p"), *y = node("y");
    struct td_op effect = *n->op;
    effect.flags |= TD_OP_STATEFUL;
    n->op = y->op = &effect;
    struct td_pass_promise promise;
    td_pass_promise(&ir, &promise);
    CHECK_INT(td_pass_check(&ir, &promise, &err), TD_OK);
    y->in[1] = p->in[0]; /* still behind n, through p */
    CHECK_INT(td_pass_check(&ir, &promise, &err), TD_OK);
    y->in[0] = y->in[1] = n->in[0];
    says(td_pass_check(&ir, &promise, &err), "node 'y' (Add) no longer comes behind 'n'");
    made_end(&m);
}

/* x and e pass b together: s reads e of it, z reads x. t reads x of c, which waits for e. */
static void make_pairs(void)
{
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "e", "Effect", "x");
    made_add(&m.graph, "b", "Pair", "e x");
    made_add(&m.graph, "c", "Pair", "x b:1 ^e");
    made_add(&m.graph, "s", "Effect", "b");
    made_add(&m.graph, "z", "Effect", "b:1");
    made_add(&m.graph, "t", "Effect", "c:1");
    made_add(&m.graph, "u", "Add", "s z");
    made_add(&m.graph, "y", "Add", "u t");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "y", &ir), TD_OK);
}

TEST(values_that_pass_one_node_together_are_not_behind_each_other)
{
    make_pairs();
    struct td_node *x = node("x"), *e = node("e");
    struct td_pass_promise promise;
    td_pass_promise(&ir, &promise);
    node("z")->in[0] = (struct td_value){x, 0};
    node("s")->in[0] = (struct td_value){e, 0};
    CHECK_INT(td_pass_check(&ir, &promise, &err), TD_OK);
    node("t")->in[0] = (struct td_value){x, 0};
    says(td_pass_check(&ir, &promise, &err), "node 't' (Effect) no longer comes behind 'e'");
    node("t")->in[0] = (struct td_value){e, 0};
    node("s")->in[0] = (struct td_value){x, 0};
    says(td_pass_check(&ir, &promise, &err), "node 's' (Effect) no longer comes behind 'e'");
    made_end(&m);
}

TEST(a_fetch_of_another_type_is_seen)
{
    make_graph();
    struct td_pass_promise promise;
    td_pass_promise(&ir, &promise);
    enum td_dtype other = TD_INT32;
    node("y")->out_type = &other;
    says(td_pass_check(&ir, &promise, &err), "fetch 0 is int32 and was float");
    made_end(&m);
}

TEST_MAIN(RUN(a_node_out_of_its_place_is_seen) RUN(edges_from_what_is_not_there_are_seen)
              RUN(a_fused_node_whose_inner_value_is_read_is_seen)
                  RUN(an_order_of_effects_that_is_lost_is_seen)
                      RUN(values_that_pass_one_node_together_are_not_behind_each_other)
                          RUN(a_fetch_of_another_type_is_seen))
