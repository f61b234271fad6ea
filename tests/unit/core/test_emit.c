/* tests/unit/core/test_emit.c - the node builder: what it tells from inputs, what it refuses, and how errors
 * stick.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/emit.h"

#include "tests/unit/core/pass_make.h"

static struct passed t;

static struct td_emitter opened(void)
{
    passed_open(&t, XY "a = Add {T:type=float} (x, y)\n", "a");
    CHECK_INT(td_ir_build(&t.ir, t.g.arena, &t.g.graph, &t.g.lib, &t.how, 0, &t.err), TD_OK);
    struct td_emitter e = td_ir_emitter(&t.ir, NULL, t.ops, &t.err);
    e.at = result(&t);
    return e;
}

static struct td_value feed(int i)
{
    return (struct td_value){t.ir.feeds[i], 0};
}

TEST(types_and_counts_follow_from_the_inputs)
{
    struct td_emitter e = opened();
    const struct td_value sum = td_emit(&e, "AddN", TD_IN(feed(0), feed(1), feed(0)), TD_NO_ATTRS);
    CHECK(sum.node != NULL);
    CHECK_INT(td_attr_int(sum.node, "N"), 3);
    CHECK_INT(td_attr_type(sum.node, "T"), TD_FLOAT);
    CHECK_INT(td_dtype_of(sum), TD_FLOAT);
    CHECK_STR(sum.node->name, "a");
    const struct td_value cast = td_emit(&e, "Cast", TD_IN(sum), TD_ATTRS(TD_ATTR_OF_TYPE("DstT", TD_INT32)));
    CHECK_INT(td_dtype_of(cast), TD_INT32);
    CHECK_INT(td_attr_bool(cast.node, "Truncate"), false);
    const struct td_value parts = td_emit(&e, "Split", TD_IN(td_emit_int(&e, TD_INT32, 0), sum),
                                          TD_ATTRS(TD_ATTR_OF_INT("num_split", 4)));
    CHECK_INT(parts.node->n_out, 4);
    CHECK_INT(td_emit_close(&e), TD_OK);
    passed_close(&t);
}

TEST(equal_constants_are_one_node)
{
    struct td_emitter e = opened();
    const struct td_value one = td_emit_number(&e, TD_FLOAT, 1), same = td_emit_number(&e, TD_FLOAT, 1);
    const struct td_value other = td_emit_number(&e, TD_DOUBLE, 1), list = td_emit_int(&e, TD_INT64, 1);
    CHECK(one.node == same.node && one.node != other.node && list.node != one.node);
    CHECK(TD_DATA(td_known_value(one), float)[0] == 1.0f);
    td_emit_forget(&e);
    CHECK(td_emit_number(&e, TD_FLOAT, 1).node != one.node);
    CHECK(td_emit_literal(&e, td_known_value(one)).node != one.node);
    CHECK_INT(td_emit_close(&e), TD_OK);
    passed_close(&t);
}

TEST(the_first_error_sticks)
{
    struct td_emitter e = opened();
    const int before = t.ir.n_nodes;
    const struct td_value wrong = td_emit(&e, "NoSuchOp", TD_IN(feed(0)), TD_NO_ATTRS);
    CHECK(wrong.node == NULL && e.rc == TD_INTERNAL);
    const struct td_value later =
        td_emit(&e, "Mul", TD_IN(wrong, td_emit_number(&e, TD_FLOAT, 2)), TD_NO_ATTRS);
    CHECK(later.node == NULL && t.ir.n_nodes == before);
    CHECK_INT(td_emit_close(&e), TD_INTERNAL);
    CHECK(strstr(t.err.msg, "NoSuchOp") != NULL);
    passed_close(&t);
}

TEST(what_does_not_fit_is_refused)
{
    struct td_emitter e = opened();
    td_emit(&e, "Mul", TD_IN(feed(0), td_emit_int(&e, TD_INT32, 2)), TD_NO_ATTRS);
    CHECK(td_emit_close(&e) != TD_OK);
    passed_close(&t);
    e = opened();
    td_emit(&e, "Mul", TD_IN(feed(0)), TD_NO_ATTRS);
    CHECK(td_emit_close(&e) != TD_OK);
    passed_close(&t);
    e = opened();
    td_emit(&e, "Cast", TD_IN(feed(0)), TD_NO_ATTRS);
    CHECK(td_emit_close(&e) != TD_OK);
    CHECK(strstr(t.err.msg, "DstT") != NULL);
    passed_close(&t);
}

TEST(a_node_may_get_more_outputs)
{
    struct td_emitter e = opened();
    const struct td_value parts = td_emit(&e, "Split", TD_IN(td_emit_int(&e, TD_INT32, 0), feed(0)),
                                          TD_ATTRS(TD_ATTR_OF_INT("num_split", 2)));
    const struct td_value in[2] = {parts.node->in[0], parts.node->in[1]};
    td_emit_again(&e, parts.node, parts.node->def, in, 2, TD_ATTRS(TD_ATTR_OF_INT("num_split", 3)));
    CHECK_INT(parts.node->n_out, 3);
    CHECK_INT(e.rc, TD_OK);
    td_emit_again(&e, parts.node, parts.node->def, in, 2, TD_ATTRS(TD_ATTR_OF_INT("num_split", 1)));
    CHECK_INT(td_emit_close(&e), TD_INTERNAL);
    passed_close(&t);
}

TEST(a_loaded_graph_takes_nodes_too)
{
    passed_open(&t, XY "a = Add {T:type=float} (x, y)\n", "a");
    struct td_emitter e = td_graph_emitter(&t.g.graph, "gradients", t.ops, &t.err);
    const struct td_value y = td_emit(&e, "Neg", TD_IN(t.fetch), TD_NO_ATTRS);
    CHECK(y.node != NULL && strncmp(y.node->name, "gradients/Neg_", 14) == 0);
    t.fetch = y; /* compiled as if it had been loaded */
    CHECK_INT(td_ir_build(&t.ir, t.g.arena, &t.g.graph, &t.g.lib, &t.how, 0, &t.err), TD_OK);
    CHECK_STR(result(&t)->op_name, "Neg");
    CHECK_INT(td_emit_close(&e), TD_OK);
    passed_close(&t);
}

TEST_MAIN(RUN(types_and_counts_follow_from_the_inputs) RUN(equal_constants_are_one_node)
              RUN(the_first_error_sticks) RUN(what_does_not_fit_is_refused) RUN(a_node_may_get_more_outputs)
                  RUN(a_loaded_graph_takes_nodes_too))
