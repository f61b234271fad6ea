/* tests/unit/core/test_effects.c - core/function/effects.h: what may be run again, through the functions that
 * are called.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float} "
#define NEGATE "@negate (a:float) -> (r:float) = [ n = Neg " T "(a) ] (n:y:0)\n"
#define CHECKED                                                                                              \
    "@checked (a:float) -> (r:float) = [ c = CheckNumerics {T:type=float; message:string='no'} (a) ] "       \
    "(c:output:0)\n"
#define PRINTED                                                                                              \
    "@printed (a:float) -> (r:float) = [ p = Print {T:type=float; U:list(type)=[float]} (a, a) ] "           \
    "(p:output:0)\n"
#define ENDLESS "@ever (a:float) -> (r:bool) = [ k = Identity {T:type=bool} (bool[] 0) ] (k:output:0)\n"
#define CALL(f) "PartitionedCall {Tin:list(type)=[float]; Tout:list(type)=[float]; f:string='@" f "'} "
#define LOOP(cond, body)                                                                                     \
    "While {T:list(type)=[float]; cond:string='@" cond "'; body:string='@" body "'} (x)\n"
#define IF(then, other)                                                                                      \
    "c = Greater {T:type=float} (float[] 0, float[] 1)\nr = If {Tcond:type=bool; Tin:list(type)=[float]; "   \
    "Tout:list(type)=[float]; then_branch:string='@" then "'; else_branch:string='@" other "'} (c, x)\n"

/* Whether a run of r may be had again; no pass takes anything away. */
static bool repeats(const char *text)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_tensor out;
    const struct td_shape shape = td_shape_matrix(2, 3);
    struct td_tensor x = ramp(&shape, 0.5f, 0.25f);
    passed_open(&t, text, "r");
    struct td_model_opts opts = {.ops = t.ops, .passes_off = "all"};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    test_check_ok(__FILE__, __LINE__, text, td_callable_run(f, &x, &out, NULL, &t.err), &t.err);
    const bool yes = td_callable_repeats(f);
    td_tensor_clear(&out);
    td_tensor_clear(&x);
    td_model_unref(m);
    passed_close(&t);
    return yes;
}

TEST(a_check_is_no_effect_and_a_print_is_one)
{
    CHECK(repeats(X "r = CheckNumerics {T:type=float; message:string='no'} (x)"));
    CHECK(!repeats(X "r = Print {T:type=float; U:list(type)=[float]} (x, x)"));
}

TEST(branches_have_the_effects_of_their_functions)
{
    CHECK(repeats(NEGATE CHECKED X IF("negate", "checked")));
    CHECK(!repeats(NEGATE PRINTED X IF("negate", "printed")));
    CHECK(!repeats(NEGATE PRINTED X IF("printed", "negate")));
}

TEST(loops_have_the_effects_of_their_functions)
{
    CHECK(repeats(NEGATE ENDLESS X "r = " LOOP("ever", "negate")));
    CHECK(!repeats(PRINTED ENDLESS X "r = " LOOP("ever", "printed")));
    CHECK(!repeats(NEGATE PRINTED "@said (a:float) -> (r:bool) = [ c = " CALL(
        "printed") "(a)\n"
                   "k = Identity {T:type=bool} (bool[] 0) ] (k:output:0)\n" X "r = " LOOP("said", "negate")));
}

TEST(a_function_that_is_called_from_a_branch_counts)
{
    const char *const outer = "@outer (a:float) -> (r:float) = [ c = " CALL("inner") "(a) ] (c:output:0)\n";
    char text[2048];
    snprintf(text, sizeof text, "%s%s%s", "@inner (a:float) -> (r:float) = [ n = Neg " T "(a) ] (n:y:0)\n",
             outer, NEGATE X IF("outer", "negate"));
    CHECK(repeats(text));
    snprintf(text, sizeof text, "%s%s%s",
             "@inner (a:float) -> (r:float) = [ p = Print {T:type=float; U:list(type)=[float]} (a, a) ] "
             "(p:output:0)\n",
             outer, NEGATE X IF("outer", "negate"));
    CHECK(!repeats(text));
}

/* Each function calls the one before twice: 2^24 nodes, which nobody looks through. */
TEST(functions_that_double_are_given_up)
{
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "%s",
                                "@f0 (a:float) -> (r:float) = [ n = Neg " T "(a) ] (n:y:0)\n");
    for (int i = 1; i <= 24; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "@f%d (a:float) -> (r:float) = [ c = PartitionedCall {Tin:list(type)=[float]; "
                              "Tout:list(type)=[float]; f:string='@f%d'} (a)\nd = PartitionedCall "
                              "{Tin:list(type)=[float]; Tout:list(type)=[float]; f:string='@f%d'} (c:0) ] "
                              "(d:output:0)\n",
                              i, i - 1, i - 1);
    }
    snprintf(text + n, sizeof text - n, "%s", NEGATE X IF("f24", "negate"));
    CHECK(!repeats(text));
}

TEST_MAIN(RUN(a_check_is_no_effect_and_a_print_is_one) RUN(branches_have_the_effects_of_their_functions)
              RUN(loops_have_the_effects_of_their_functions)
                  RUN(a_function_that_is_called_from_a_branch_counts) RUN(functions_that_double_are_given_up))
