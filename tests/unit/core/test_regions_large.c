/* tests/unit/core/test_regions_large.c - core/compile/pass_inline.c, core/compile/pass_dead_branch.c,
 * core/compile/pass_dead_switch.c and core/compile/pass_dependency.c on graphs before and after.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float} "
#define NEGATE "@negate (a:float) -> (r:float) = [ n = Neg " T "(a) ] (n:y:0)\n"
#define DOUBLE "@twice (a:float) -> (r:float) = [ n = AddV2 " T "(a, a) ] (n:z:0)\n"
#define CALL "PartitionedCall {Tin:list(type)=[float]; Tout:list(type)=[float]; f:string='@negate'} "
#define IF(cond)                                                                                             \
    "If {Tcond:type=bool; Tin:list(type)=[float]; Tout:list(type)=[float]; then_branch:string='@negate'; "   \
    "else_branch:string='@twice'} (" cond ", x)\n"

static struct td_shape pair(void)
{
    return td_shape_matrix(2, 3);
}

static int left(const char *text, const char *fetch, const char *only, const char *op)
{
    struct passed t;
    passed(&t, text, fetch, only);
    int n = count(&t, op);
    passed_close(&t);
    return n;
}

TEST(calls_are_inlined_unless_switched_off)
{
    const char *text = NEGATE X "c = " CALL "(x)\nr = " CALL "(c)";
    CHECK_INT(left(text, "r", "inline", "Neg"), 2);
    CHECK_INT(left(text, "r", "inline", "PartitionedCall"), 0);
    CHECK_INT(left(text, "r", "", "PartitionedCall"), 2);
    same_results(text, "r", pair(), pair());
}

TEST(the_branch_of_a_constant_condition_stays)
{
    const char *yes = NEGATE DOUBLE X "r = " IF("bool[] 1"), *no = NEGATE DOUBLE X "r = " IF("bool[] 0");
    CHECK_INT(left(yes, "r", "dead_branch", "Neg"), 1);
    CHECK_INT(left(yes, "r", "dead_branch", "If"), 0);
    CHECK_INT(left(no, "r", "dead_branch", "AddV2"), 1);
    CHECK_INT(left(no, "r", "dead_branch", "Neg"), 0);
    same_results(yes, "r", pair(), pair());
    same_results(no, "r", pair(), pair());
}

TEST(a_condition_that_folding_finds_is_constant_in_the_next_round)
{
    const char *text = NEGATE DOUBLE X "c = LogicalNot {} (bool[] 0)\nr = " IF("c");
    CHECK_INT(left(text, "r", "dead_branch", "If"), 1);
    CHECK_INT(left(text, "r", "dead_branch,fold", "If"), 0);
    CHECK_INT(left(text, "r", "dead_branch,fold", "Neg"), 1);
}

TEST(a_condition_of_the_request_stays)
{
    const char *text = NEGATE DOUBLE X "s = Sum {T:type=float; Tidx:type=int32} (x, int32[2] 0 1)\n"
                                       "c = Greater {T:type=float} (s, float[] 0)\nr = " IF("c");
    CHECK_INT(left(text, "r", NULL, "If"), 1);
    same_results(text, "r", pair(), pair());
}

TEST(case_takes_its_branch_and_the_last_beyond)
{
#define CASE(i)                                                                                              \
    NEGATE DOUBLE X "r = Case {Tin:list(type)=[float]; Tout:list(type)=[float]; "                            \
                    "branches:list(string)=['@negate','@twice']} (int32[] " i ", x)"
    CHECK_INT(left(CASE("0"), "r", "dead_branch", "Neg"), 1);
    CHECK_INT(left(CASE("1"), "r", "dead_branch", "AddV2"), 1);
    CHECK_INT(left(CASE("7"), "r", "dead_branch", "AddV2"), 1);
}

TEST(a_loop_that_never_runs_goes)
{
    const char *never =
        NEGATE "@never (a:float) -> (r:bool) = [ k = Identity {T:type=bool} (bool[] 0) ] (k:output:0)\n" X
               "r = While {T:list(type)=[float]; cond:string='@never'; body:string='@negate'} (x)";
    CHECK_INT(left(never, "r", "dead_branch", "While"), 0);
    same_results(never, "r", pair(), pair());
    const char *text =
        NEGATE "@go (a:float) -> (r:bool) = [ s = Sum {T:type=float; Tidx:type=int32} (a, int32[2] 0 1)\n"
               "g = Greater {T:type=float} (s, float[] 1e30) ] (g:z:0)\n" X
               "r = While {T:list(type)=[float]; cond:string='@go'; body:string='@negate'} (x)";
    CHECK_INT(left(text, "r", "dead_branch", "While"), 1);
    same_results(text, "r", pair(), pair());
}

TEST(a_switch_that_is_certain_goes_with_its_dead_side)
{
    const char *text = X "s = Switch " T "(x, bool[] 1)\na = Neg " T "(s:1)\nb = Exp " T "(s:0)\n"
                         "m = Merge {T:type=float; N:int=2} (b, a)\nr = Abs " T "(m)";
    CHECK_INT(left(text, "r", "dead_branch", "Merge"), 0);
    CHECK_INT(left(text, "r", "dead_branch", "Switch"), 0);
    CHECK_INT(left(text, "r", "dead_branch", "Exp"), 0);
    CHECK_INT(left(text, "r", "dead_branch", "Neg"), 1);
    same_results(text, "r", pair(), pair());
    struct passed t;
    passed(&t, text, "m:1", "dead_branch");
    CHECK(td_node_const(result(&t)) != NULL && TD_DATA(td_node_const(result(&t)), int32_t)[0] == 1);
    passed_close(&t);
}

TEST(a_dead_value_that_is_fetched_keeps_the_switch)
{
    CHECK_INT(left(X "s = Switch " T "(x, bool[] 1)\nr = Neg " T "(s:0)", "r", "dead_branch", "Switch"), 1);
}

TEST(a_switch_of_the_request_keeps_all)
{
    const char *text = X "q = Sum {T:type=float; Tidx:type=int32} (x, int32[2] 0 1)\nc = Greater "
                         "{T:type=float} (q, float[] 0)\n"
                         "o = Switch " T "(x, c)\nm0 = Merge {T:type=float; N:int=2} (o, o:1)\ns = Switch " T
                         "(m0, bool[] 1)\n"
                         "a = Neg " T "(s:1)\nb = Exp " T "(s:0)\nr = Merge {T:type=float; N:int=2} (b, a)";
    CHECK_INT(left(text, "r", "dead_branch", "Merge"), 2);
    same_results(text, "r", pair(), pair());
}

TEST(control_edges_that_order_nothing_go)
{
    struct passed t;
    const char *text = X "a = Exp " T "(x)\nb = NoOp {} (^a)\nc = NoOp {} (^b)\nr = Neg " T "(x, ^c, ^a)";
    passed(&t, text, "r", "");
    CHECK_INT(t.ir.n_nodes, 5);
    passed_close(&t);
    passed(&t, text, "r", "dependency");
    CHECK_INT(t.ir.n_nodes, 2);
    CHECK_INT(result(&t)->n_control, 0);
    passed_close(&t);
}

TEST(control_edges_from_effects_stay)
{
    struct passed t;
    passed(&t, X "p = PrintV2 {} (string[] hello)\nb = NoOp {} (^p)\nr = Neg " T "(x, ^b)", "r",
           "dependency");
    CHECK_INT(count(&t, "PrintV2"), 1);
    CHECK_INT(count(&t, "NoOp"), 0);
    CHECK_INT(result(&t)->n_control, 1);
    CHECK_STR(result(&t)->control[0]->name, "p");
    passed_close(&t);
}

TEST(effects_of_an_inlined_branch_stay)
{
    const char *loud =
        "@loud (a:float) -> (r:float) = [ p = PrintV2 {} (string[] hello)\nn = Neg " T "(a, ^p) ] (n:y:0)\n";
    char text[1024];
    snprintf(text, sizeof text,
             "%s" NEGATE X "i = If {Tcond:type=bool; Tin:list(type)=[float]; Tout:list(type)=[float]; "
             "then_branch:string='@loud'; else_branch:string='@negate'} (bool[] 1, x)\nr = Abs " T "(x, ^i)",
             loud);
    struct passed t;
    passed(&t, text, "r", "");
    CHECK_INT(count(&t, "If"), 1);
    passed_close(&t);
    passed(&t, text, "i", "dead_branch,dependency");
    CHECK_INT(count(&t, "PrintV2"), 1);
    CHECK_INT(count(&t, "If"), 0);
    passed_close(&t);
}

TEST_MAIN(RUN(calls_are_inlined_unless_switched_off) RUN(the_branch_of_a_constant_condition_stays)
              RUN(a_condition_that_folding_finds_is_constant_in_the_next_round)
                  RUN(a_condition_of_the_request_stays) RUN(case_takes_its_branch_and_the_last_beyond)
                      RUN(a_loop_that_never_runs_goes) RUN(a_switch_that_is_certain_goes_with_its_dead_side)
                          RUN(a_dead_value_that_is_fetched_keeps_the_switch)
                              RUN(a_switch_of_the_request_keeps_all) RUN(control_edges_that_order_nothing_go)
                                  RUN(control_edges_from_effects_stay) RUN(effects_of_an_inlined_branch_stay))
