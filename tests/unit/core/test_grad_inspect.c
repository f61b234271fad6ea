/* tests/unit/core/test_grad_inspect.c - core/grad/inspect.c: by what a fetch can be differentiated, and what
 * stands in the way; held against core/grad/program.c, which builds the gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/inspect.h"

#include "core/base/mem.h"
#include "core/grad/program.h"
#include "tests/unit/core/pass_make.h"

/* The node z of a text by its feeds x and y. */
struct asked {
    struct passed t;
    struct td_model *model;
    struct td_grad_inspection *x;
    struct td_grad_ways ways;
};

static void open_text(struct asked *a, const char *text)
{
    *a = (struct asked){0};
    passed_open(&a->t, text, "z");
    const struct td_model_opts opts = {.ops = a->t.ops};
    CHECK_INT(td_model_new(&opts, NULL, &a->t.g.graph, &a->t.g.lib, &a->model, &a->t.err), TD_OK);
    test_check_ok(__FILE__, __LINE__, text, td_grad_inspect(a->model, &a->t.how, &a->x, &a->t.err),
                  &a->t.err);
}

static void close_text(struct asked *a)
{
    td_grad_inspection_free(a->x);
    td_model_unref(a->model);
    passed_close(&a->t);
}

/* What a program by feed i comes to. */
static enum td_grad_way built(struct asked *a, int i, struct td_err *err)
{
    const int target = 0;
    const char *name = "z";
    const struct td_grad_source source = {.feed = i, .dtype = TD_FLOAT};
    const struct td_program_opts o = {.name = "z",
                                      .part = a->t.how,
                                      .target = &target,
                                      .target_name = &name,
                                      .n_targets = 1,
                                      .source = &source,
                                      .n_sources = 1};
    struct td_program *p = NULL;
    if (td_program_new(a->model, &o, &p, err) != TD_OK) {
        CHECK_INT(err->code, TD_UNIMPLEMENTED);
        return TD_WAY_BLOCKED;
    }
    const enum td_grad_way way = td_program_fetch(p, 0) < 0 ? TD_WAY_NONE : TD_WAY_OPEN;
    td_program_unref(p);
    return way;
}

/* The ways from x and y, as the program has them too, and the reason, if one is blocked. */
static void ways_are(const char *text, enum td_grad_way x, enum td_grad_way y, const char *node)
{
    static struct asked a;
    const enum td_grad_way want[] = {x, y};
    open_text(&a, text);
    for (int round = 0; round < 2; round++) { /* nothing is left of the round before */
        CHECK_INT(td_grad_inspect_fetch(a.x, 0, &a.ways, &a.t.err), TD_OK);
        for (int i = 0; i < 2; i++) {
            struct td_err err = {0};
            CHECK_INT(a.ways.feed[i], want[i]);
            CHECK_INT(built(&a, i, &err), want[i]);
            if (want[i] == TD_WAY_BLOCKED) {
                CHECK(strncmp(a.ways.why, err.msg, strlen(err.msg)) == 0);
                CHECK(strstr(err.msg, node) != NULL);
            }
        }
        CHECK_INT(a.ways.why[0] != 0, x == TD_WAY_BLOCKED || y == TD_WAY_BLOCKED);
        CHECK_INT(a.ways.open + a.ways.blocked, 0);
    }
    close_text(&a);
}

#define T "{T:type=float} "
#define NONE TD_WAY_NONE
#define OPEN TD_WAY_OPEN
#define BLOCKED TD_WAY_BLOCKED

TEST(a_way_is_open_through_gradients_and_ends_where_there_is_none_to_have)
{
    ways_are(XY "z = Mul " T "(x, y)", OPEN, OPEN, NULL);
    ways_are(XY "s = Neg " T "(y)\nz = Mul " T "(x, x)", OPEN, NONE, NULL);
    ways_are(XY "s = StopGradient " T "(y)\nz = Mul " T "(x, s)", OPEN, NONE, NULL);
    ways_are(XY "i = Cast {SrcT:type=float; DstT:type=int32} (y)\n"
                "f = Cast {SrcT:type=int32; DstT:type=float} (i)\nz = Mul " T "(x, f)",
             OPEN, NONE, NULL);
    ways_are(XY "n = IdentityN {T:list(type)=[float,float]} (x, y)\nz = Neg " T "(n:1)", NONE, OPEN, NULL);
}

TEST(a_node_without_gradient_blocks_what_lies_above_it)
{
    ways_are(XY "l = Lu " T "(y)\nz = Mul " T "(x, l)", OPEN, BLOCKED, "'l' (Lu)");
    ways_are(XY "l = Lu " T "(y)\nm = Mul " T "(y, l)\nz = Mul " T "(x, m)", OPEN, BLOCKED, "'l' (Lu)");
    ways_are(XY "l = Lu " T "(float[2,2] 1 2 3 5)\nm = Mul " T "(y, l)\nz = Mul " T "(x, m)", OPEN, OPEN,
             NULL);
    ways_are(XY "l = Lu " T "(y)\ns = StopGradient " T "(l)\nz = Mul " T "(x, s)", OPEN, NONE, NULL);
}

#define GO                                                                                                   \
    "@go (a:float, b:float, c:float) -> (r:bool) = [ s = Sum {T:type=float; Tidx:type=int32} (a, int32[2] "  \
    "0 1)\ng = Greater {T:type=float} (s, float[] 1e30) ] (g:z:0)\n"
#define LOOP "w = While {T:list(type)=[float,float,float]; cond:string='@go'; body:string='@body'} "

/* Variables: a <- b, b <- c, c <- Lu(c), so that rounds bring what a holds from c. */
TEST(a_loop_is_followed_round_by_round_and_its_body_looked_into)
{
    const char *chain = GO "@body (a:float, b:float, c:float) -> (p:float, q:float, r:float) = [ n = Neg "
                           "{T:type=float} (b)\nm = Neg {T:type=float} (c) ] (n:y:0, m:y:0, c)\n" XY LOOP
                           "(float[2,2] 1, x, y)\nz = Neg " T "(w:0)";
    const char *lu = GO "@body (a:float, b:float, c:float) -> (p:float, q:float, r:float) = [ n = Neg "
                        "{T:type=float} (b)\nl = Lu {T:type=float} (c) ] (n:y:0, b, l:lu:0)\n" XY LOOP;
    static char text[2000];
    ways_are(chain, OPEN, OPEN, NULL);
    (void)snprintf(text, sizeof text, "%s(float[2,2] 1, x, y)\nz = Neg " T "(w:0)", lu);
    ways_are(text, OPEN, OPEN, NULL); /* y has zeros, as of TensorFlow */
    (void)snprintf(text, sizeof text, "%s(float[2,2] 1, x, y)\nz = Neg " T "(w:2)", lu);
    ways_are(text, OPEN, BLOCKED, "'l' (Lu) in function 'body'");
}

TEST(a_branch_blocks_the_arguments_that_it_leads_to_in_any_function)
{
    const char *text =
        "@then (a:float, b:float) -> (p:float, q:float) = [ n = Neg {T:type=float} (a) ] (n:y:0, b)\n"
        "@else (a:float, b:float) -> (p:float, q:float) = [ l = Lu {T:type=float} (b) ] (a, l:lu:0)\n" XY
        "i = If {Tcond:type=bool; Tin:list(type)=[float,float]; Tout:list(type)=[float,float]; "
        "then_branch:string='@then'; else_branch:string='@else'} (bool[] 1, x, y)\nz = Neg " T "(i:%d)";
    static char each[2000];
    (void)snprintf(each, sizeof each, text, 0);
    ways_are(each, OPEN, NONE, NULL);
    (void)snprintf(each, sizeof each, text, 1);
    ways_are(each, NONE, BLOCKED, "'l' (Lu) in function 'else'");
}

TEST(functions_without_end_are_refused_each_time)
{
    static struct asked a;
    open_text(&a,
              "@f (a:float) -> (p:float) = [ i = If {Tcond:type=bool; Tin:list(type)=[float]; "
              "Tout:list(type)=[float]; then_branch:string='@f'; else_branch:string='@f'} (bool[] 1, a) ] "
              "(i:output:0)\n" XY "z = If {Tcond:type=bool; Tin:list(type)=[float]; Tout:list(type)=[float]; "
              "then_branch:string='@f'; else_branch:string='@f'} (bool[] 1, x)");
    for (int round = 0; round < 2; round++) {
        struct td_err err = {0};
        CHECK_INT(td_grad_inspect_fetch(a.x, 0, &a.ways, &err), TD_UNIMPLEMENTED);
        CHECK(strstr(err.msg, "nested more than 64 deep") != NULL);
    }
    close_text(&a);
}

TEST(a_fetch_of_integers_cannot_be_differentiated)
{
    static struct asked a;
    open_text(&a, XY "s = Mul " T "(x, y)\nz = Cast {SrcT:type=float; DstT:type=int64} (s)");
    CHECK_INT(td_grad_inspect_fetch(a.x, 0, &a.ways, &a.t.err), TD_INVALID_ARGUMENT);
    CHECK_STR(a.t.err.msg, "int64");
    close_text(&a);
}

TEST_MAIN(RUN(a_way_is_open_through_gradients_and_ends_where_there_is_none_to_have)
              RUN(a_node_without_gradient_blocks_what_lies_above_it)
                  RUN(a_loop_is_followed_round_by_round_and_its_body_looked_into)
                      RUN(a_branch_blocks_the_arguments_that_it_leads_to_in_any_function)
                          RUN(functions_without_end_are_refused_each_time)
                              RUN(a_fetch_of_integers_cannot_be_differentiated))
