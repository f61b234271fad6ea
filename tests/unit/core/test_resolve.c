/* tests/unit/core/test_resolve.c - what a graph must be to be linked, and the words for what it is not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/graph_make.h"

/* Resolves x, n (Neg of x) and a node "y" of the given op and inputs; the message is left in msg. */
static enum td_code resolve(const char *op, const char *inputs, char *msg)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", "x");
    made_add(&m.graph, "y", op, inputs);
    enum td_code rc = made_resolve(&m);
    snprintf(msg, 1024, "%s", m.err.msg);
    made_end(&m);
    return rc;
}

#define REFUSES(op, inputs, words)                                                                           \
    do {                                                                                                     \
        char msg[1024];                                                                                      \
        CHECK_INT(resolve(op, inputs, msg), TD_INVALID_ARGUMENT);                                            \
        if (strstr(msg, words) == NULL) {                                                                    \
            CHECK_STR(msg, words);                                                                           \
        }                                                                                                    \
    } while (0)

#define ACCEPTS(op, inputs)                                                                                  \
    do {                                                                                                     \
        char msg[1024];                                                                                      \
        CHECK_INT(resolve(op, inputs, msg), TD_OK);                                                          \
    } while (0)

TEST(edges_are_written_in_four_ways)
{
    ACCEPTS("Neg", "x");
    ACCEPTS("Neg", "x:0");
    ACCEPTS("Neg", "x:y");
    ACCEPTS("Neg", "x:y:0 ^n");
}

TEST(edges_to_nothing_are_refused)
{
    REFUSES("Neg", "z", "has no node 'z'");
    REFUSES("Neg", "x:1", "has 1 outputs");
    REFUSES("Neg", "x:z:0", "has no output of that name");
    REFUSES("Neg", "x:y:1", "has length 1");
    REFUSES("Neg", "x:y:z", "not of the form");
    REFUSES("Neg", "x:", "has no output of that name");
    REFUSES("Neg", "x ^z", "names no node");
}

TEST(arity_order_and_types_are_checked)
{
    REFUSES("Neg", "", "has 0 inputs, its definition wants 1");
    REFUSES("Neg", "x x", "has 2 inputs, its definition wants 1");
    REFUSES("Neg", "^n x", "comes after a control input");
    REFUSES("Text", "x", "incompatible with expected string");
    REFUSES("Wide", "", "NodeDef missing attr 'N'");
}

TEST(names_are_unique)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "x", "X", "");
    CHECK_INT(made_resolve(&m), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "Duplicate node name") != NULL);
    made_end(&m);
}

TEST(an_unknown_op_has_the_outputs_its_consumers_name)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "u", "Mystery", "");
    made_add(&m.graph, "t", "Text", "u:7");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(m.graph.nodes[0]->n_out, 8);
    made_end(&m);
    REFUSES("Neg", "n:999999", "has 1 outputs");
}

TEST(an_unknown_op_has_a_bounded_number_of_outputs)
{
    struct made m;
    made_start(&m);
    made_add(&m.graph, "u", "Mystery", "");
    made_add(&m.graph, "t", "Text", "u:999999");
    CHECK_INT(made_resolve(&m), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "out of range") != NULL);
    made_end(&m);
}

TEST(a_repetition_of_absurd_length_is_refused)
{
    struct made m;
    int64_t counts[] = {-1, 1 << 20, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        made_start(&m);
        struct td_node *w = made_add(&m.graph, "w", "Wide", "");
        struct td_attr a = {.name = "N", .kind = TD_ATTR_INT, .n = 1, .i = &counts[i]};
        w->attrs = &a;
        w->n_attrs = 1;
        CHECK_INT(made_resolve(&m), TD_INVALID_ARGUMENT);
        CHECK(strstr(m.err.msg, "must be in [0, 65536]") != NULL);
        made_end(&m);
    }
}

TEST(a_function_that_calls_itself_is_refused)
{
    struct made m;
    made_start(&m);
    made_add(&made_function(&m, "f", 1, "c:r:0", TD_FLOAT)->body, "c", "f", "a");
    CHECK_INT(made_resolve(&m), TD_INVALID_ARGUMENT);
    CHECK(strstr(m.err.msg, "recursion") != NULL);
    made_end(&m);
}

TEST_MAIN(RUN(edges_are_written_in_four_ways) RUN(edges_to_nothing_are_refused)
              RUN(arity_order_and_types_are_checked) RUN(names_are_unique)
                  RUN(an_unknown_op_has_the_outputs_its_consumers_name)
                      RUN(an_unknown_op_has_a_bounded_number_of_outputs)
                          RUN(a_repetition_of_absurd_length_is_refused)
                              RUN(a_function_that_calls_itself_is_refused))
