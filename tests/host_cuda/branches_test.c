/* tests/host_cuda/branches_test.c - If and Case on a GPU: where the branch is chosen there
 * (core/run/device_inner.c), and that they give what they give on the host.
 *
 * The sum of x, which grows from run to run, says which branch is taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/function/placement.h"
#include "tests/host_cuda/there.h"

#define FLOAT " {T:type=float} "
#define OF_TWO "(a:float, b:float)"
#define SUM                                                                                                  \
    X "flat = Reshape {T:type=float; Tshape:type=int32} (x, int32[1] -1)\n"                                  \
      "s = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=false} (flat, int32[] 0)\n"
/* Of a square whether the sum is above so much; it is -6.75, -4.5, -2.25 and 0. */
#define ABOVE(n) SUM "p = Greater" FLOAT "(s, float[] " n ")\n"
#define IF(cond)                                                                                             \
    "y0 = AddV2" FLOAT "(x, x)\n"                                                                            \
    "f = StatelessIf {Tcond:type=" cond "; Tin:list(type)=[float,float]; Tout:list(type)=[float,float]; "    \
    "then_branch:string='@then'; else_branch:string='@else'} (p, x, y0)\n"                                   \
    "r = Sub" FLOAT "(f:0, f:1)\n"

static const char two[] = "@then " OF_TWO " -> (u:float, v:float) = [ t = Tanh" FLOAT "(a)\n"
                          "m = MatMul {T:type=float} (t:y:0, b) ] (m:product:0, b)\n"
                          "@else " OF_TWO " -> (u:float, v:float) = [ t = AddV2" FLOAT "(a, b)\n"
                          "w = Mul" FLOAT "(t:z:0, float[] 0.5) ] (w:z:0, t:z:0)\n";

static const char *text_of(const char *functions, const char *graph)
{
    static _Thread_local char text[8000];
    (void)snprintf(text, sizeof text, "%s%s", functions, graph);
    return text;
}

TEST(a_branch_is_chosen_there)
{
    decided_there(text_of(two, ABOVE("-3") IF("bool")), &square);
    decided_there(text_of(two, ABOVE("-100") IF("bool")), &square);
    decided_there(text_of(two, ABOVE("100") IF("bool")), &square);
}

/* A number is true that is not zero. */
TEST(numbers_are_conditions)
{
    decided_there(text_of(two, SUM "p = AddV2" FLOAT "(s, float[] 0)\n" IF("float")), &square);
    decided_there(text_of(two, SUM "p = Mul" FLOAT "(s, float[] 0)\n" IF("float")), &square); /* -0, too */
    decided_there(text_of(two, SUM "p = Cast {SrcT:type=float; DstT:type=int64} (s)\n" IF("int64")), &square);
    decided_there(text_of(two, SUM "p = Cast {SrcT:type=float; DstT:type=half} (s)\n" IF("half")), &square);
}

/* Results that are inputs as they are, constants, and of shapes of their own; and of several dtypes. */
TEST(results_are_what_they_are)
{
    static const char plain[] =
        "@then " OF_TWO " -> (u:float, v:float) = [ i = Identity" FLOAT "(a) ] (b, i:output:0)\n"
        "@else " OF_TWO " -> (u:float, v:float) = [ c = Fill {T:type=float; index_type:type=int32} "
        "(int32[2] 3 3, float[] 7) ] (c:output:0, a)\n";
    const struct td_shape shapes[] = {td_shape_vector(1), td_shape_vector(1031), td_shape_matrix(5, 70)};
    decided_there(text_of(plain, ABOVE("-3") IF("bool")), &square);
    static const char same[] =
        "@then " OF_TWO " -> (u:float, v:float) = [ ] (b, a)\n"
        "@else " OF_TWO " -> (u:float, v:float) = [ t = Abs" FLOAT "(a) ] (t:y:0, b)\n";
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        decided_there(text_of(same, ABOVE("3") IF("bool")), &shapes[k]);
    }
    static const char mixed[] =
        "@then (a:float) -> (u:int32, v:float) = [ t = Cast {SrcT:type=float; DstT:type=int32} (a)\n"
        "m = Max {T:type=float; Tidx:type=int32; keep_dims:bool=false} (a, int32[1] 0) ] (t:y:0, "
        "m:output:0)\n"
        "@else (a:float) -> (u:int32, v:float) = [ t = Fill {T:type=int32; index_type:type=int32} "
        "(int32[2] 3 3, int32[] 7)\n"
        "m = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=false} (a, int32[1] 1) ] "
        "(t:output:0, m:output:0)\n";
    decided_there(text_of(mixed,
                          ABOVE("-3") "f = StatelessIf {Tcond:type=bool; Tin:list(type)=[float]; "
                                      "Tout:list(type)=[int32,float]; then_branch:string='@then'; "
                                      "else_branch:string='@else'} (p, x)\n"
                                      "c = Cast {SrcT:type=int32; DstT:type=float} (f:0)\nr = AddV2" FLOAT
                                      "(c, f:1)\n"),
                  &square);
}

/* One behind the other, and one in another. */
TEST(branches_stand_in_branches)
{
    static const char nested[] =
        "@low (a:float) -> (u:float) = [ t = Neg" FLOAT "(a) ] (t:y:0)\n"
        "@high (a:float) -> (u:float) = [ t = Square" FLOAT "(a) ] (t:y:0)\n"
        "@then (a:float, q:bool) -> (u:float) = [ t = Tanh" FLOAT "(a)\n"
        "f = StatelessIf {Tcond:type=bool; Tin:list(type)=[float]; Tout:list(type)=[float]; "
        "then_branch:string='@low'; else_branch:string='@high'} (q, t:y:0) ] (f:output:0)\n"
        "@else (a:float, q:bool) -> (u:float) = [ t = Abs" FLOAT "(a)\n"
        "f = StatelessIf {Tcond:type=bool; Tin:list(type)=[float]; Tout:list(type)=[float]; "
        "then_branch:string='@high'; else_branch:string='@low'} (q, t:y:0) ] (f:output:0)\n";
    decided_there(text_of(nested, ABOVE("-3") "q = Greater" FLOAT "(s, float[] -5)\n"
                                              "f = If {Tcond:type=bool; Tin:list(type)=[float,bool]; "
                                              "Tout:list(type)=[float]; then_branch:string='@then'; "
                                              "else_branch:string='@else'} (p, x, q)\n"
                                              "g = If {Tcond:type=bool; Tin:list(type)=[float,bool]; "
                                              "Tout:list(type)=[float]; then_branch:string='@else'; "
                                              "else_branch:string='@then'} (q, f:0, p)\n"
                                              "r = AddV2" FLOAT "(f:0, g:0)\n"),
                  &square);
}

#define LESS "k = Sub" FLOAT "(b, float[] 1)\np = Greater" FLOAT "(k:z:0, float[] 0)\n"
#define CALL(name, function, a)                                                                              \
    name " = StatelessIf {Tcond:type=bool; Tin:list(type)=[float,float]; Tout:list(type)=[float]; "          \
         "then_branch:string='@" function "'; else_branch:string='@stop'} (p:z:0, " a ", k:z:0)\n"
/* Functions that call themselves and each other: the host goes as deep as it must. */
TEST(what_calls_itself_is_decided_on_the_host)
{
    static const char itself[] =
        "@stop " OF_TWO " -> (u:float) = [ t = Neg" FLOAT "(a) ] (t:y:0)\n"
        "@other " OF_TWO " -> (u:float) = [ " LESS " h = Tanh" FLOAT
        "(a)\n" CALL("f", "down", "h:y:0") " ] (f:output:0)\n"
                                           "@down " OF_TWO " -> (u:float) = [ " LESS " h = AddV2" FLOAT
                                           "(a, b)\n" CALL("f", "down", "h:z:0")
                                               CALL("g", "other", "f:output:0") " ] (g:output:0)\n";
    (void)same_there(text_of(itself, ABOVE("-3") "n = Neg" FLOAT "(s)\n"
                                                 "f = StatelessIf {Tcond:type=bool; "
                                                 "Tin:list(type)=[float,float]; Tout:list(type)=[float]; "
                                                 "then_branch:string='@stop'; else_branch:string='@down'} "
                                                 "(p, x, n)\nr = Neg" FLOAT "(f:0)\n"),
                     &square, &recorded);
}

/* ------------------------------------------------------------------ Case */

#define CASE(more)                                                                                           \
    SUM "d = Div" FLOAT "(s, float[] 2.25)\n" /* -3, -2, -1, 0 */                                            \
        "e = AddV2" FLOAT "(d, float[] " more ")\n"                                                          \
        "n = Cast {SrcT:type=float; DstT:type=int32} (e)\n"                                                  \
        "f = StatelessCase {Tin:list(type)=[float]; Tout:list(type)=[float]; "                               \
        "branches:list(string)=['@zero','@one','@two']} (n, x)\nr = AddV2" FLOAT "(f:0, x)\n"

static const char three[] = "@zero (a:float) -> (u:float) = [ t = Neg" FLOAT "(a) ] (t:y:0)\n"
                            "@one (a:float) -> (u:float) = [ t = Square" FLOAT "(a) ] (t:y:0)\n"
                            "@two (a:float) -> (u:float) = [ t = Mul" FLOAT "(a, float[] 9) ] (t:z:0)\n";

/* 0, 1, 2, 3; negative ones; large ones: what there is no branch of takes the last. */
TEST(a_number_chooses_a_branch)
{
    decided_there(text_of(three, CASE("3")), &square);
    decided_there(text_of(three, CASE("1")), &square);
    decided_there(text_of(three, CASE("-5")), &square);
    decided_there(text_of(three, CASE("1000000")), &square);
}

/* ------------------------------------------------------------------ what is refused */

#define GATHER                                                                                               \
    "g = GatherV2 {Tparams:type=float; Tindices:type=int32; Taxis:type=int32; batch_dims:int=0} "            \
    "(a, n, int32[] 0)\n"
/* The index is 5, which x has not. */
#define CHOSEN(n)                                                                                            \
    ABOVE(n)                                                                                                 \
    "z = Mul" FLOAT "(s, float[] 0)\ne = AddV2" FLOAT "(z, float[] 5)\n"                                     \
    "n = Cast {SrcT:type=float; DstT:type=int32} (e)\n"                                                      \
    "f = StatelessIf {Tcond:type=bool; Tin:list(type)=[float,int32]; Tout:list(type)=[float]; "              \
    "then_branch:string='@then'; else_branch:string='@else'} (p, x, n)\n"
#define USED "r = AddV2" FLOAT "(f:0, x)\n"

static const char refusing[] = "@then (a:float, n:int32) -> (u:float) = [ " GATHER " ] (g:output:0)\n"
                               "@else (a:float, n:int32) -> (u:float) = [ m = Sum {T:type=float; "
                               "Tidx:type=int32; keep_dims:bool=false} (a, int32[1] 0) ] (m:output:0)\n";

TEST(an_index_is_refused_in_the_branch_that_is_taken)
{
    refused_there(text_of(refusing, CHOSEN("-100") USED), "indices = 5 is not in [0, 3)");
    chosen_there(text_of(refusing, CHOSEN("100") USED), &square, true);
    (void)same_there(text_of(refusing, CHOSEN("-3") USED), &square, &recorded); /* in some runs */
}

/* What is behind it, and would be refused, too, is not what is told. */
TEST(what_was_refused_first_is_told)
{
    refused_there(text_of(refusing, CHOSEN("-100") "t = AddV2 {T:type=int32} (n, int32[] 2)\n"
                                                   "h = GatherV2 {Tparams:type=float; Tindices:type=int32; "
                                                   "Taxis:type=int32; batch_dims:int=0} (f:0, t, int32[] 0)\n"
                                                   "r = AddV2" FLOAT "(h, x)\n"),
                  "indices = 5 is not in [0, 3)");
}

/* ------------------------------------------------------------------ what the host decides */

static void stays(const char *text)
{
    const struct td_device_counts stepped = same_there(text, &square, &never),
                                  c = same_there(text, &square, &recorded);
    CHECK(c.copies[TD_COPY_TO_HOST] >= stepped.copies[TD_COPY_TO_HOST]);
}

TEST(what_differs_or_draws_is_left_to_the_host)
{
#define ONE                                                                                                  \
    "f = StatelessIf {Tcond:type=bool; Tin:list(type)=[float]; Tout:list(type)=[float]; "                    \
    "then_branch:string='@then'; else_branch:string='@else'} (p, x)\nr = Neg" FLOAT "(f:0)\n"
    stays(text_of("@then (a:float) -> (u:float) = [ m = Sum {T:type=float; Tidx:type=int32; "
                  "keep_dims:bool=false} (a, int32[1] 0) ] (m:output:0)\n"
                  "@else (a:float) -> (u:float) = [ m = Neg" FLOAT "(a) ] (m:y:0)\n",
                  ABOVE("-3") ONE));
    stays(text_of("@then (a:float) -> (u:float) = [ d = RandomUniform {T:type=int32; dtype:type=float; "
                  "seed:int=7; seed2:int=9} (int32[2] 3 3)\nm = Mul" FLOAT
                  "(d:output:0, float[] 0) ] (m:z:0)\n"
                  "@else (a:float) -> (u:float) = [ m = Neg" FLOAT "(a) ] (m:y:0)\n",
                  ABOVE("-3") ONE));
}

static void find_words(void *ctx, const struct td_placement *p)
{
    if (strcmp(p->node->op_name, "StatelessIf") == 0) {
        (void)snprintf(ctx, 400, "%s", p->why);
    }
}

static void says(const char *functions, bool there)
{
    struct there d;
    struct td_tensor out = {0};
    struct td_err err = {0};
    char why[400] = "";
    open_there(&d, text_of(functions, ABOVE("-3") IF("bool")), &recorded);
    CHECK_OK(ask(&d, &square, 0, &out, &err));
    td_tensor_clear(&out);
    CHECK_INT(td_placement_each(d.f, find_words, why, &err), TD_OK);
    CHECK((strstr(why, "its branch chosen on the device, from run 2 on") != NULL) == there);
    (void)close_there(&d);
}

TEST(placement_says_where_it_is_decided)
{
    says(two, true);
    says("@then " OF_TWO " -> (u:float, v:float) = [ ] (b, a)\n"
         "@else " OF_TWO " -> (u:float, v:float) = [ d = RandomUniform {T:type=int32; dtype:type=float; "
         "seed:int=7; seed2:int=9} (int32[2] 3 3) ] (d:output:0, b)\n",
         false);
}

TEST(a_device_without_conditional_nodes_leaves_it_to_the_host)
{
    const char *const text = text_of(two, ABOVE("-3") IF("bool"));
    if (!has_conditional_nodes()) {
        stays(text);
    } else {
        decided_there(text, &square);
    }
}

/* ------------------------------------------------------------------ loops in branches */

#define COUNTS "(i:int32, a:float, b:float)"
#define BELOW(n) "@go" n " " COUNTS " -> (c:bool) = [ c = Less {T:type=int32} (i, int32[] " n ") ] (c:z:0)\n"
#define WHILE(name, cond, body, a)                                                                           \
    name " = StatelessWhile {T:list(type)=[int32,float,float]; cond:string='" cond "'; body:string='" body   \
         "'} (int32[] 0, " a ", b)\n"
static const char loops[] = BELOW("5") BELOW("2")
    BELOW("0") "@body " COUNTS " -> (j:int32, u:float, v:float) = [ "
               "j = AddV2 {T:type=int32} (i, int32[] 1)\nt = Tanh" FLOAT "(a)\nu = Sub" FLOAT "(b, t:y:0) ] "
               "(j:z:0, u:z:0, b)\n"
               "@more " COUNTS
               " -> (j:int32, u:float, v:float) = [ j = AddV2 {T:type=int32} (i, int32[] 1)\n" WHILE(
                   "w", "@go2", "@body",
                   "a") "u = Mul" FLOAT "(w:output:1, float[] 0.5) ] (j:z:0, b, u:z:0)\n"
                        /* steps, a loop, steps, one with a loop in it, steps */
                        "@then " OF_TWO " -> (u:float, v:float) = [ t = AddV2" FLOAT "(a, b)\n" WHILE(
                            "w", "@go5", "@body",
                            "t:z:0") "s = Mul" FLOAT
                                     "(w:output:1, float[] 0.25)\n" WHILE(
                                         "x", "@go2", "@more",
                                         "s:z:0") "z = Abs" FLOAT "(x:output:2) ] (z:y:0, s:z:0)\n"
                                                  "@none " OF_TWO " -> (u:float, v:float) = [ " WHILE(
                                                      "w", "@go0", "@body",
                                                      "a") "] (w:output:1, b)\n"
                                                           "@else " OF_TWO
                                                           " -> (u:float, v:float) = [ t = Neg" FLOAT
                                                           "(a) ] (t:y:0, b)\n";

/* That no round and no branch is the host's: beside the results each launch says whether it is over. */
static void goes_there(const char *functions, const char *graph)
{
    const struct td_device_counts c = same_there(text_of(functions, graph), &square,
                                                 &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    const uint64_t others = RUNS * (c.graphs_made - 1);
    CHECK(c.graphs_made >= 1 && c.graphs_made <= 3 && c.graph_launches >= RUNS + others);
    CHECK_INT((long long)c.copies[TD_COPY_TO_HOST], (long long)(RUNS + c.graph_launches - others));
}

TEST(a_branch_has_loops)
{
    goes_there(loops, ABOVE("-3") IF("bool"));
    goes_there(loops, ABOVE("-100") IF("bool"));
    goes_there(loops, ABOVE("100") IF("bool"));
    goes_there(loops, SUM "d = Div" FLOAT "(s, float[] 2.25)\n" /* -3, -2, -1, 0 */
                          "e = AddV2" FLOAT "(d, float[] 3)\n"
                          "n = Cast {SrcT:type=float; DstT:type=int32} (e)\ny0 = AddV2" FLOAT "(x, x)\n"
                          "f = StatelessCase {Tin:list(type)=[float,float]; Tout:list(type)=[float,float]; "
                          "branches:list(string)=['@then','@none','@else']} (n, x, y0)\n"
                          "r = Sub" FLOAT "(f:0, f:1)\n");
}

/* More rounds than a launch may begin. */
static const char many[] =
    BELOW("2000") "@body " COUNTS " -> (j:int32, u:float, v:float) = [ "
                  "j = AddV2 {T:type=int32} (i, int32[] 1)\nu = Sub" FLOAT "(b, a) ] (j:z:0, u:z:0, b)\n"
                  "@then " OF_TWO " -> (u:float, v:float) = [ t = AddV2" FLOAT
                  "(a, b)\n" WHILE("w", "@go2000", "@body",
                                   "t:z:0") "s = Mul" FLOAT "(w:output:1, float[] 0.25) ] (s:z:0, b)\n"
                                            "@else " OF_TWO " -> (u:float, v:float) = [ ] (b, a)\n";

TEST(a_branch_goes_on_in_its_loop_by_another_launch)
{
    const struct td_device_counts c = same_there(text_of(many, ABOVE("-3") IF("bool")), &square,
                                                 &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    CHECK(c.graph_launches > 2 * RUNS);
}

static const char endless[] =
    "@go " COUNTS " -> (c:bool) = [ c = Less {T:type=int32} (i, int32[] 2000000000) ] (c:z:0)\n"
    "@body " COUNTS " -> (j:int32, u:float, v:float) = [ j = Mul {T:type=int32} (i, int32[] 1)\n"
    "u = Neg" FLOAT "(a) ] (j:z:0, u:y:0, b)\n"
    "@then " OF_TWO
    " -> (u:float, v:float) = [ " WHILE("w", "@go", "@body", "a") "] (w:output:1, b)\n"
                                                                  "@else " OF_TWO
                                                                  " -> (u:float, v:float) = [ ] (b, a)\n";

TEST(an_endless_branch_can_be_ended)
{
    can_be_cancelled(text_of(endless, ABOVE("-100") IF("bool")));
    ends_at_the_deadline(text_of(endless, ABOVE("-100") IF("bool")));
}

/* An index that is not there, in a round. */
TEST(what_a_loop_in_a_branch_refuses)
{
    static const char refuses[] =
        BELOW("9") "@body " COUNTS " -> (j:int32, u:float, v:float) = [ "
                   "j = AddV2 {T:type=int32} (i, int32[] 1)\n"
                   "g = GatherV2 {Tparams:type=float; Tindices:type=int32; Taxis:type=int32; "
                   "batch_dims:int=0} (b, i, int32[] 0)\nu = AddV2" FLOAT
                   "(a, g:output:0) ] (j:z:0, u:z:0, b)\n"
                   "@then " OF_TWO " -> (u:float, v:float) = [ " WHILE(
                       "w", "@go9", "@body", "a") "] (w:output:1, b)\n@else " OF_TWO
                                                  " -> (u:float, v:float) = [ ] (b, a)\n";
    refused_there(text_of(refuses, ABOVE("-100") IF("bool")), "indices = 3 is not in [0, 3)");
    (void)same_there(text_of(refuses, ABOVE("-3") IF("bool")), &square, &recorded);
}

/* ------------------------------------------------------------------ beside others */

TEST(shapes_change_from_run_to_run)
{
    struct there here, there;
    const char *const text = text_of(three, CASE("3"));
    open_there(&here, text, NULL);
    open_there(&there, text, &recorded);
    for (int k = 0; k < 4 * RUNS; k++) {
        const struct td_shape shapes[] = {square, td_shape_matrix(2 + k % 3, 5), td_shape_vector(7)};
        struct td_tensor want = {0}, got = {0};
        struct td_err a = {0}, b = {0};
        CHECK_INT(ask(&there, &shapes[k % 3], k % RUNS, &got, &b), TD_OK);
        CHECK_INT(ask(&here, &shapes[k % 3], k % RUNS, &want, &a), TD_OK);
        check_same(&want, &got);
        td_tensor_clear(&want);
        td_tensor_clear(&got);
    }
    (void)close_there(&here);
    CHECK(close_there(&there).graphs_made >= 3);
}

TEST(runs_at_once_have_branches_of_their_own)
{
    runs_at_once(text_of(two, ABOVE("-3") IF("bool")));
    runs_at_once(text_of(loops, ABOVE("-3") IF("bool")));
}

/* A size is computed of x's, for so long that somebody looks whether the run is over. */
static const char *long_sizes(void)
{
    static char text[4000];
    (void)snprintf(text, sizeof text,
                   "@then " OF_TWO
                   " -> (u:float, v:float) = [ s = Size {T:type=float; out_type:type=int32} (a)\n"
                   "c = Cast {SrcT:type=int32; DstT:type=float} (s:output:0)\n"
                   "d0 = Fill {T:type=float; index_type:type=int32} (int32[1] 512, c:y:0)\n");
    for (int i = 0; i < 20; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "d%d = Softmax" FLOAT "(d%d:%s:0)\n", i + 1, i,
                       i == 0 ? "output" : "softmax");
    }
    const size_t used = strlen(text);
    (void)snprintf(
        text + used, sizeof text - used, "%s",
        "q = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=false} (d20:softmax:0, int32[] 0)\n"
        "t = Mul" FLOAT "(q:output:0, float[] 3)\n"
        "e = Cast {SrcT:type=float; DstT:type=int32} (t:z:0)\n"
        "g = Pack {N:int=2; T:type=int32} (e:y:0, e:y:0)\n"
        "h = Fill {T:type=float; index_type:type=int32} (g:output:0, float[] 7)\n"
        "m = AddV2" FLOAT "(h:output:0, a) ] (m:z:0, b)\n"
        "@else " OF_TWO " -> (u:float, v:float) = [ ] (b, a)\n");
    return text;
}

/* The run that binds a branch is cancelled meanwhile: what was left to the host for that is tried again. */
TEST(a_branch_that_was_cut_short_is_tried_again)
{
    const char *const text = text_of(long_sizes(), ABOVE("-3") IF("bool"));
    td_stop stop = TD_CANCELLED;
    const struct td_run_opts opts = {.work = {.stop = &stop}};
    const struct td_shape other = td_shape_matrix(3, 1);
    struct there d;
    struct td_device_counts before, after;
    struct td_tensor out = {0}, in = input(&square, 0);
    struct td_err err = {0};
    open_there(&d, text, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    CHECK_OK(ask(&d, &other, 0, &out, &err)); /* so that it is compiled */
    td_tensor_clear(&out);
    CHECK_INT(td_callable_run(d.f, &in, &out, &opts, &err), TD_CANCELLED);
    td_tensor_clear(&in);
    for (int k = 0; k < RUNS; k++) {
        td_cuda_device_count(d.device, &before);
        CHECK_INT(ask(&d, &square, k, &out, &err), TD_OK);
        td_tensor_clear(&out);
    }
    td_cuda_device_count(d.device, &after);
    CHECK_INT((int)(after.graph_launches - before.graph_launches), 1);
    CHECK_INT((int)(after.copies[TD_COPY_TO_HOST] - before.copies[TD_COPY_TO_HOST]), 1);
    (void)close_there(&d);
}

TEST(a_branch_finds_no_room)
{
    finds_no_room(text_of(two, ABOVE("-3") IF("bool")), 64 << 10, 768 << 10);
    finds_no_room(text_of(loops, ABOVE("-3") IF("bool")), 64 << 10, 768 << 10);
}

int main(int argc, char **argv)
{
    const char *const only = argc > 1 ? argv[1] : NULL;
    int bad = 0;
    RUN(a_device_without_conditional_nodes_leaves_it_to_the_host)
    if (!has_conditional_nodes()) {
        return bad != 0;
    }
    RUN(a_branch_is_chosen_there)
    RUN(numbers_are_conditions)
    RUN(results_are_what_they_are)
    RUN(branches_stand_in_branches)
    RUN(what_calls_itself_is_decided_on_the_host)
    RUN(a_number_chooses_a_branch)
    RUN(an_index_is_refused_in_the_branch_that_is_taken)
    RUN(what_was_refused_first_is_told)
    RUN(what_differs_or_draws_is_left_to_the_host)
    RUN(placement_says_where_it_is_decided)
    RUN(a_branch_has_loops)
    RUN(a_branch_goes_on_in_its_loop_by_another_launch)
    RUN(an_endless_branch_can_be_ended)
    RUN(what_a_loop_in_a_branch_refuses)
    RUN(shapes_change_from_run_to_run)
    RUN(runs_at_once_have_branches_of_their_own)
    RUN(a_branch_that_was_cut_short_is_tried_again)
    RUN(a_branch_finds_no_room)
    return bad != 0;
}
