/* tests/host_cuda/loops_test.c - While on a GPU: which loops go round there (core/run/device_loop.h), that
 * they give what they give on the host, and how they end.
 *
 * A loop carries i (int32), x and y (floats of x's shape). Its condition, and what a round makes of the
 * three, are text; the result is x, y and i as one vector.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/there.h"

#define CARRIED "(i:int32, x:float, y:float)"
#define COUNT "j = AddV2 {T:type=int32} (i, int32[] 1)\n"
#define FLOAT " {T:type=float} "
#define BELOW(n) "b = Less {T:type=int32} (i, int32[] " n ") ] (b:z:0)"

struct how {
    const char *cond, *body; /* from behind "[ " on, with the results */
    const char *start;       /* of i; NULL: 0 */
    const char *before;      /* nodes; y0 is what y begins as; NULL: 2 x */
};

static const char *loop(const struct how *how)
{
    static _Thread_local char text[4000];
    (void)snprintf(text, sizeof text,
                   "@go " CARRIED " -> (b:bool) = [ %s\n"
                   "@body " CARRIED " -> (j:int32, u:float, v:float) = [ %s\n" X "%s"
                   "n = StatelessWhile {T:list(type)=[int32,float,float]; cond:string='@go'; "
                   "body:string='@body'} (int32[] %s, x, y0)\n"
                   "f0 = Cast {SrcT:type=int32; DstT:type=float} (n:0)\n"
                   "f1 = Reshape {T:type=float; Tshape:type=int32} (f0, int32[1] -1)\n"
                   "f2 = Reshape {T:type=float; Tshape:type=int32} (n:1, int32[1] -1)\n"
                   "f3 = Reshape {T:type=float; Tshape:type=int32} (n:2, int32[1] -1)\n"
                   "r = ConcatV2 {N:int=3; T:type=float; Tidx:type=int32} (f1, f2, f3, int32[] 0)\n",
                   how->cond, how->body, how->before != NULL ? how->before : "y0 = AddV2" FLOAT "(x, x)\n",
                   how->start != NULL ? how->start : "0");
    return text;
}

/* That it goes round there: no round of a recorded run brings anything to the host. */
static void goes_round(const struct how *how, int rounds)
{
    const struct td_device_counts stepped = same_there(loop(how), &square, &never),
                                  c = same_there(loop(how), &square, &recorded);
    CHECK(stepped.graphs_made == 0 && c.graphs_made >= 1 && c.graph_launches >= RUNS - 1);
    CHECK(rounds < 3 || c.copies[TD_COPY_TO_HOST] < stepped.copies[TD_COPY_TO_HOST]);
}

/* That the host goes round, and sees as much of it as where nothing is recorded. */
static void stays(const struct how *how)
{
    const struct td_device_counts stepped = same_there(loop(how), &square, &never),
                                  c = same_there(loop(how), &square, &recorded);
    CHECK_INT((long long)c.copies[TD_COPY_TO_HOST], (long long)stepped.copies[TD_COPY_TO_HOST]);
}

/* ------------------------------------------------------------------ what goes round */

#define TANH "m = MatMul {T:type=float} (x, y)\nu = Tanh" FLOAT "(m:product:0) ] (j:z:0, u:y:0, y)"

TEST(a_loop_goes_round_there_as_often_as_on_the_host)
{
    const struct {
        const char *cond;
        int rounds;
    } all[] = {{BELOW("0"), 0}, {BELOW("1"), 1}, {BELOW("5"), 5}, {BELOW("20"), 20}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        const struct how how = {.cond = all[k].cond, .body = COUNT TANH};
        goes_round(&how, all[k].rounds);
    }
}

TEST(shapes_are_what_they_are)
{
    const struct how how = {.cond = BELOW("6"), .body = COUNT "u = Sub" FLOAT "(y, x)\n] (j:z:0, y, u:z:0)"};
    const struct td_shape shapes[] = {td_shape_scalar(), td_shape_vector(0), td_shape_vector(1),
                                      td_shape_vector(1031), td_shape_matrix(5, 70)};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        const struct td_device_counts c = same_there(loop(&how), &shapes[k], &recorded);
        CHECK(c.graphs_made >= 1);
    }
}

/* Values that change places, or are another one's view; one that is a constant after a round. */
TEST(values_change_places)
{
    goes_round(&(struct how){.cond = BELOW("5"), .body = COUNT " ] (j:z:0, y, x)"}, 5);
    goes_round(&(struct how){.cond = BELOW("4"),
                             .body = COUNT "s = Reshape {T:type=float; Tshape:type=int32} (x, int32[1] 9)\n"
                                           "t = Reshape {T:type=float; Tshape:type=int32} (s:output:0, "
                                           "int32[2] 3 3)\n] (j:z:0, y, t:output:0)"},
               4);
    goes_round(&(struct how){.cond = BELOW("3"),
                             .body = COUNT "v = AddV2" FLOAT "(x, y)\nc = Fill {T:type=float; "
                                           "index_type:type=int32} (int32[2] 3 3, float[] 0.25)\n"
                                           "] (j:z:0, v:z:0, c:output:0)"},
               3);
}

/* maximum_iterations, as TensorFlow writes it into the condition; and what the data say. */
TEST(the_data_say_when_it_is_over)
{
    const struct how how = {
        .cond = "q = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=false} (y, int32[2] 0 1)\n"
                "l = Less" FLOAT "(q:output:0, float[] 400)\nm = Less {T:type=int32} (i, int32[] 12)\n"
                "b = LogicalAnd {} (l:z:0, m:z:0) ] (b:z:0)",
        .body = COUNT "a = Abs" FLOAT "(y)\nu = AddV2" FLOAT "(a:y:0, a:y:0)\n] (j:z:0, x, u:z:0)"};
    goes_round(&how, 12);
}

/* A gather whose index is carried. */
static const char gather[] =
    COUNT "g = GatherV2 {Tparams:type=float; Tindices:type=int32; Taxis:type=int32; batch_dims:int=0} "
          "(x, i, int32[] 0)\nv = AddV2" FLOAT "(y, g:output:0) ] (j:z:0, x, v:z:0)";

TEST(an_index_is_carried)
{
    goes_round(&(struct how){.cond = BELOW("3"), .body = gather}, 3);
}

/* Refused in the host's words: the index that was, not the next one. */
TEST(an_index_that_is_not_there_ends_it)
{
    refused_there(loop(&(struct how){.cond = BELOW("9"), .body = gather}), "indices = 3 is not in [0, 3)");
}

/* x[i], as TensorFlow writes it: begin and end are made of what is carried; `at` is a vector of one. */
#define VECTOR(name, of) name " = ExpandDims {T:type=int32; Tdim:type=int32} (" of ", int32[] 0)\n"
#define ROW                                                                                                  \
    "StridedSlice {T:type=float; Index:type=int32; begin_mask:int=0; end_mask:int=0; ellipsis_mask:int=0; "  \
    "new_axis_mask:int=0; shrink_axis_mask:int=1} "

TEST(a_row_is_taken_at_the_counter)
{
    static const char row[] =
        COUNT VECTOR("e", "i") VECTOR("t", "j:z:0") "g = " ROW "(x, e:output:0, t:output:0, int32[1] 1)"
                                                    "\nv = AddV2" FLOAT "(y, g:output:0) ] (j:z:0, x, v:z:0)";
    goes_round(&(struct how){.cond = BELOW("3"), .body = row}, 3);
    /* from the end; more rounds than there are rows, both ways */
    goes_round(&(struct how){.cond = BELOW("3"), .body = row, .start = "-3"}, 6);
    refused_there(loop(&(struct how){.cond = BELOW("9"), .body = row}),
                  "slice index 3 of dimension 0 out of bounds");
    refused_there(loop(&(struct how){.cond = BELOW("9"), .body = row, .start = "-4"}),
                  "slice index -4 of dimension 0 out of bounds");
}

/* x[:, i], x[i, ..., i], x[::-1, i, newaxis]: whole axes beside. */
TEST(a_column_is_taken_at_the_counter)
{
    goes_round(&(struct how){.cond = BELOW("3"),
                             .body = COUNT
                             "at = Pack {N:int=2; T:type=int32} (int32[] 0, i)\n"
                             "g = StridedSlice {T:type=float; Index:type=int32; begin_mask:int=1; "
                             "end_mask:int=1; ellipsis_mask:int=0; new_axis_mask:int=0; "
                             "shrink_axis_mask:int=2} (x, at:output:0, at:output:0, int32[2] -1 1)\n"
                             "v = AddV2" FLOAT "(y, g:output:0) ] (j:z:0, x, v:z:0)"},
               3);
    goes_round(&(struct how){.cond = BELOW("3"),
                             .body = COUNT
                             "at = Pack {N:int=3; T:type=int32} (i, int32[] 0, i)\n"
                             "g = StridedSlice {T:type=float; Index:type=int32; begin_mask:int=0; "
                             "end_mask:int=0; ellipsis_mask:int=2; new_axis_mask:int=0; "
                             "shrink_axis_mask:int=5} (x, at:output:0, at:output:0, int32[3] 1 1 1)\n"
                             "v = AddV2" FLOAT "(y, g:output:0) ] (j:z:0, x, v:z:0)"},
               3);
}

/* tf.slice, whose size is known: rows from the counter on, and the same of columns. */
#define SLICE "Slice {T:type=float; Index:type=int32} "
TEST(a_range_is_taken_from_the_counter_on)
{
    static const char rows[] =
        COUNT "at = Pack {N:int=2; T:type=int32} (i, int32[] 0)\n"
              "g = " SLICE "(x, at:output:0, int32[2] 2 3)\n"
              "s = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=false} (g:output:0, int32[1] 0)\n"
              "v = AddV2" FLOAT "(y, s:output:0) ] (j:z:0, x, v:z:0)";
    goes_round(&(struct how){.cond = BELOW("2"), .body = rows}, 2);
    goes_round(&(struct how){.cond = BELOW("3"),
                             .body = COUNT "at = Pack {N:int=2; T:type=int32} (int32[] 0, i)\n"
                                           "g = " SLICE "(x, at:output:0, int32[2] 3 1)\n"
                                           "v = AddV2" FLOAT "(y, g:output:0) ] (j:z:0, x, v:z:0)"},
               3);
    refused_there(loop(&(struct how){.cond = BELOW("9"), .body = rows}),
                  "Expected size[0] in [0, 1], but got 2");
    refused_there(loop(&(struct how){.cond = BELOW("9"), .body = rows, .start = "-1"}),
                  "Expected begin[0] in [0, 3], but got -1");
}

/* XlaDynamicUpdateSlice, as caches of keys are written: what does not fit is moved so far that it does. */
TEST(a_block_is_put_at_the_counter)
{
    static const char put[] =
        COUNT "at = Pack {N:int=2; T:type=int32} (i, int32[] 1)\n"
              "b0 = " SLICE "(y, int32[2] 1 0, int32[2] 2 2)\nb = Neg" FLOAT "(b0:output:0)\n"
              "v = XlaDynamicUpdateSlice {T:type=float; Tindices:type=int32} (x, b:y:0, at:output:0)\n"
              "w = AddV2" FLOAT "(v:output:0, y) ] (j:z:0, v:output:0, w:z:0)";
    goes_round(&(struct how){.cond = BELOW("5"), .body = put}, 5);
    goes_round(&(struct how){.cond = BELOW("3"), .body = put, .start = "-4"}, 7);
}

/* ------------------------------------------------------------------ control flow in it */

static const char *with(const char *functions, const struct how *how)
{
    static _Thread_local char text[9000];
    (void)snprintf(text, sizeof text, "%s%s", functions, loop(how));
    return text;
}

/* No round brings anything to the host: each launch of the loop says whether it is over, and each run has a
 * result. */
static void goes_round_in(const char *functions, const struct how *how)
{
    const struct td_device_counts c =
        same_there(with(functions, how), &square, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    const uint64_t others = RUNS * (c.graphs_made - 1); /* what is behind the loop */
    CHECK(c.graphs_made >= 1 && c.graphs_made <= 3 && c.graph_launches >= RUNS + others);
    CHECK_INT((long long)c.copies[TD_COPY_TO_HOST], (long long)(RUNS + c.graph_launches - others));
}

static const char odd_even[] = "@odd (a:float) -> (u:float) = [ t = Neg" FLOAT "(a) ] (t:y:0)\n"
                               "@even (a:float) -> (u:float) = [ t = Tanh" FLOAT "(a) ] (t:y:0)\n";

TEST(a_branch_is_in_a_round)
{
    goes_round_in(odd_even,
                  &(struct how){.cond = BELOW("7"),
                                .body = COUNT "t = FloorMod {T:type=int32} (i, int32[] 2)\n"
                                              "f = StatelessIf {Tcond:type=int32; Tin:list(type)=[float]; "
                                              "Tout:list(type)=[float]; then_branch:string='@odd'; "
                                              "else_branch:string='@even'} (t:z:0, y)\n"
                                              "v = AddV2" FLOAT "(f:output:0, x) ] (j:z:0, x, v:z:0)"});
}

/* In a loop, as often as `i` says: m rounds. */
#define INNER_NAMED(name, cond, body)                                                                        \
    "@" name "_go (k:int32, m:int32, a:float, w:float) -> (b:bool) = [ " cond "\n"                           \
    "@" name "_body (k:int32, m:int32, a:float, w:float) -> (l:int32, n:int32, u:float, v:float) = [ " body  \
    "\n"
#define ONE_MORE "l = AddV2 {T:type=int32} (k, int32[] 1)\n"
#define BELOW_M "b = Less {T:type=int32} (k, m) ] (b:z:0)"
#define GO(node, name, from, m, a)                                                                           \
    node " = StatelessWhile {T:list(type)=[int32,int32,float,float]; cond:string='@" name "_go'; "           \
         "body:string='@" name "_body'} (int32[] " from ", " m ", " a ", x)\n"
#define TWISTS ONE_MORE "c = MatMul {T:type=float} (a, w)\nu = Tanh" FLOAT "(c:product:0)"
#define DOUBLES ONE_MORE "u = Sub" FLOAT "(a, w)\nq = Sin" FLOAT "(u:z:0)"

static const char inner[] = INNER_NAMED("one", BELOW_M, TWISTS " ] (l:z:0, m, u:y:0, w)")
    INNER_NAMED("two", BELOW_M, DOUBLES " ] (l:z:0, m, q:y:0, w)");

TEST(a_loop_is_in_a_round)
{
    goes_round_in(inner, &(struct how){.cond = BELOW("5"),
                                       .body = COUNT "h = Mul" FLOAT "(y, float[] 0.5)\n" GO(
                                           "n", "one", "0", "i",
                                           "h:z:0") "v = AddV2" FLOAT "(n:output:2, x) ] (j:z:0, x, v:z:0)"});
    /* two, one behind the other, with steps before, between and behind; more rounds than one launch has */
    goes_round_in(inner,
                  &(struct how){.cond = BELOW("9"),
                                .body = COUNT "h = Mul" FLOAT "(y, float[] 0.5)\n" GO(
                                    "n", "one", "0", "i",
                                    "h:z:0") "h2 = AddV2" FLOAT
                                             "(n:output:2, h:z:0)\n" GO(
                                                 "n2", "two", "2", "int32[] 7",
                                                 "h2:z:0") "v = AddV2" FLOAT
                                                           "(n2:output:2, h:z:0)\nv2 = AddV2" FLOAT
                                                           "(v:z:0, n:output:2) ] (j:z:0, x, v2:z:0)"});
    /* what comes of it is carried as it is, also what it leaves as it was; it changes places with another */
    goes_round_in(inner, &(struct how){.cond = BELOW("9"),
                                       .body = COUNT GO("n", "one", "0", "i",
                                                        "y") " ] (j:z:0, n:output:3, n:output:2)"});
    goes_round_in(inner, &(struct how){.cond = BELOW("6"),
                                       .body = COUNT GO("n", "two", "1", "j:z:0",
                                                        "x") " ] (n:output:0, y, n:output:2)"});
}

/* Three deep; and in a branch, which is left in the middle. */
TEST(loops_are_in_loops_and_branches)
{
    static const char deep[] = INNER_NAMED("one", BELOW_M, TWISTS " ] (l:z:0, m, u:y:0, w)") INNER_NAMED(
        "mid", BELOW_M,
        ONE_MORE "z = Neg" FLOAT "(a)\nn = StatelessWhile {T:list(type)=[int32,int32,float,float]; "
                 "cond:string='@one_go'; body:string='@one_body'} (int32[] 0, k, z:y:0, w)\n"
                 "u = Sub" FLOAT "(n:output:2, z:y:0) ] (l:z:0, m, u:z:0, w)");
    const struct how how = {.cond = BELOW("7"),
                            .body = COUNT "h = Cos" FLOAT "(y)\n" GO(
                                "n", "mid", "0", "i", "h:y:0") "v = AddV2" FLOAT
                                                               "(n:output:2, h:y:0) ] (j:z:0, x, v:z:0)"};
    goes_round_in(deep, &how);
    static const char branch[] = INNER_NAMED(
        "one", BELOW_M,
        TWISTS " ] (l:z:0, m, u:y:0, w)") "@then (m:int32, a:float, w:float) -> (u:float) = [ z = Neg" FLOAT
                                          "(a)\nn = StatelessWhile {T:list(type)=[int32,int32,float,float]; "
                                          "cond:string='@one_go'; "
                                          "body:string='@one_body'} (int32[] 0, m, z:y:0, w)\nu = Sub" FLOAT
                                          "(n:output:2, z:y:0) ] (u:z:0)\n"
                                          "@else (m:int32, a:float, w:float) -> (u:float) = [ z = Cos" FLOAT
                                          "(a) ] (z:y:0)\n";
    const struct how in_branch = {
        .cond = BELOW("12"),
        .body = COUNT "t = FloorMod {T:type=int32} (i, int32[] 3)\nh = Sin" FLOAT "(y)\n"
                      "f = StatelessIf {Tcond:type=int32; Tin:list(type)=[int32,float,float]; "
                      "Tout:list(type)=[float]; then_branch:string='@then'; else_branch:string='@else'} "
                      "(t:z:0, i, h:y:0, x)\nv = AddV2" FLOAT "(f:output:0, h:y:0) ] (j:z:0, x, v:z:0)"};
    goes_round_in(branch, &in_branch);
}

/* In a round of the inner one: what is judged there. */
TEST(an_index_is_refused_in_an_inner_loop)
{
    static const char judging[] = INNER_NAMED(
        "one", BELOW_M,
        ONE_MORE "g = GatherV2 {Tparams:type=float; Tindices:type=int32; Taxis:type=int32; batch_dims:int=0} "
                 "(w, k, int32[] 0)\nu = AddV2" FLOAT "(a, g:output:0) ] (l:z:0, m, u:z:0, w)");
    const struct how how = {.cond = BELOW("20"),
                            .body = COUNT "h = Neg" FLOAT "(y)\n" GO(
                                "n", "one", "0", "i", "h:y:0") "v = AddV2" FLOAT
                                                               "(n:output:2, h:y:0) ] (j:z:0, x, v:z:0)"};
    refused_there(with(judging, &how), "indices = 3 is not in [0, 3)");
    const struct how ends = {.cond = BELOW("4"), .body = how.body};
    (void)same_there(with(judging, &ends), &square, &recorded);
}

TEST(an_endless_inner_loop_ends_with_its_run)
{
    static const char never_over[] = INNER_NAMED("one", "b = Less {T:type=int32} (k, int32[] 1) ] (b:z:0)",
                                                 "u = Tanh" FLOAT "(a) ] (k, m, u:y:0, w)");
    const struct how how = {.cond = BELOW("3"),
                            .body = COUNT GO("n", "one", "0", "i", "y") " ] (j:z:0, x, n:output:2)"};
    ends_at_the_deadline(with(never_over, &how));
    can_be_cancelled(with(never_over, &how));
}

TEST(nested_loops_run_at_once_and_without_room)
{
    const struct how how = {.cond = BELOW("7"),
                            .body = COUNT "h = Mul" FLOAT "(y, float[] 0.5)\n" GO(
                                "n", "one", "0", "i", "h:z:0") "v = AddV2" FLOAT
                                                               "(n:output:2, h:z:0) ] (j:z:0, x, v:z:0)"};
    runs_at_once(with(inner, &how));
#ifndef __SANITIZE_THREAD__ /* a minute and a half, and one thread */
    const struct how few = {.cond = BELOW("3"),
                            .body = COUNT GO("n", "two", "0", "i", "y") " ] (j:z:0, x, n:output:2)"};
    finds_no_room(with(inner, &few), 96 << 10, 768 << 10);
#endif
}

/* ------------------------------------------------------------------ what does not */

#define AT(op, more)                                                                                         \
    COUNT "e = ExpandDims {T:type=int32; Tdim:type=int32} (i, int32[] 0)\n" op " ] (j:z:0, " more ")"

TEST(what_the_host_must_see_in_each_round_stays)
{
    /* a number in the shape's place */
    stays(
        &(struct how){.cond = BELOW("2"),
                      .body = AT("z = ConcatV2 {N:int=2; T:type=int32; Tidx:type=int32} (e:output:0, "
                                 "int32[1] 0, int32[] 0)\n"
                                 "s = Slice {T:type=float; Index:type=int32} (x, z:output:0, int32[2] 1 3)\n"
                                 "v = AddV2" FLOAT "(y, s:output:0)",
                                 "x, v:z:0")});
    /* a shape that grows */
    stays(&(struct how){.cond = BELOW("3"),
                        .body =
                            COUNT "v = ConcatV2 {N:int=2; T:type=float; Tidx:type=int32} (y, y, int32[] 0)"
                                  "\n ] (j:z:0, x, v:output:0)"});
    /* draws */
    stays(&(struct how){.cond = BELOW("3"),
                        .body = COUNT "d = RandomUniform {T:type=int32; dtype:type=float; seed:int=7; "
                                      "seed2:int=9} (int32[2] 3 3)\nz = Mul" FLOAT
                                      "(d:output:0, float[] 0)\nv = AddV2" FLOAT
                                      "(y, z:z:0)\n ] (j:z:0, x, v:z:0)"});
}

TEST(a_device_without_conditional_nodes_goes_step_by_step)
{
    const struct how how = {.cond = BELOW("5"), .body = COUNT TANH},
                     more = {.cond = BELOW("20"), .body = COUNT TANH};
    if (!has_conditional_nodes()) {
        stays(&how);
        const struct td_device_counts c = same_there(loop(&more), &square, &recorded);
        CHECK(c.graphs_made == 1 && c.graph_launches == 20 * RUNS - 1); /* a round from the second one on */
    } else {
        goes_round(&how, 5);
    }
}

/* ------------------------------------------------------------------ endless ones */

/* i stays what it is. */
static const struct how endless = {.cond = BELOW("1"), .body = "u = Tanh" FLOAT "(x)\n] (i, u:y:0, y)"};

TEST(an_endless_loop_ends_at_the_runs_deadline)
{
    ends_at_the_deadline(loop(&endless));
}

TEST(an_endless_loop_can_be_cancelled)
{
    can_be_cancelled(loop(&endless));
}

/* More rounds than the first launch may begin. */
TEST(a_long_loop_is_launched_more_than_once)
{
    const struct how how = {.cond = BELOW("100"),
                            .body = COUNT "u = Mul" FLOAT "(x, float[] 0.5)\n] (j:z:0, y, u:z:0)"};
    const struct td_device_counts c =
        same_there(loop(&how), &square, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    CHECK(c.graphs_made >= 1 && c.graph_launches > RUNS + 1);
}

/* ------------------------------------------------------------------ beside others */

TEST(runs_at_once_have_loops_of_their_own)
{
    runs_at_once(loop(&(struct how){.cond = BELOW("7"), .body = COUNT TANH}));
}

TEST(a_loop_finds_no_room)
{
    finds_no_room(
        loop(&(struct how){.cond = BELOW("3"), .body = COUNT "u = Sub" FLOAT "(y, x)\n] (j:z:0, y, u:z:0)"}),
        64 << 10, 640 << 10);
}

int main(int argc, char **argv)
{
    const char *const only = argc > 1 ? argv[1] : NULL;
    int bad = 0;
    RUN(a_device_without_conditional_nodes_goes_step_by_step)
    if (!has_conditional_nodes()) {
        return bad != 0;
    }
    RUN(a_loop_goes_round_there_as_often_as_on_the_host)
    RUN(shapes_are_what_they_are)
    RUN(values_change_places)
    RUN(the_data_say_when_it_is_over)
    RUN(an_index_is_carried)
    RUN(an_index_that_is_not_there_ends_it)
    RUN(a_row_is_taken_at_the_counter)
    RUN(a_column_is_taken_at_the_counter)
    RUN(a_range_is_taken_from_the_counter_on)
    RUN(a_block_is_put_at_the_counter)
    RUN(a_branch_is_in_a_round)
    RUN(a_loop_is_in_a_round)
    RUN(loops_are_in_loops_and_branches)
    RUN(an_index_is_refused_in_an_inner_loop)
    RUN(an_endless_inner_loop_ends_with_its_run)
    RUN(nested_loops_run_at_once_and_without_room)
    RUN(what_the_host_must_see_in_each_round_stays)
    RUN(an_endless_loop_ends_at_the_runs_deadline)
    RUN(an_endless_loop_can_be_cancelled)
    RUN(a_long_loop_is_launched_more_than_once)
    RUN(runs_at_once_have_loops_of_their_own)
    RUN(a_loop_finds_no_room)
    return bad != 0;
}
