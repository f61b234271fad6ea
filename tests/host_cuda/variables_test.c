/* tests/host_cuda/variables_test.c - variables of recorded plans that somebody else looks at: kernels that
 * judge what is written over (core/run/device_home.h), loops (core/run/device_loop.h); and updates as nodes
 * (core/compile/pass_update.c). Generators that nodes keep (core/run/device_draws.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/there.h"

enum { MORE = 12 };

#define FLOAT " {T:type=float} "
#define INT " {T:type=int32} "
#define OF(type) " {dtype:type=" type "} "
#define HANDLE(type, shape)                                                                                  \
    "h = VarHandleOp {dtype:type=" type "; shape:shape=[" shape "]; shared_name:string='v'} ()\n"

/* In run k the variable is k, three times, before the step, and 1 behind it. */
#define INDICES                                                                                              \
    X HANDLE("int32", "3,1") "i0 = Mul" FLOAT "(x, float[] 4)\n"                                             \
                             "i1 = AddV2" FLOAT "(i0, float[] 4)\n"                                          \
                             "i2 = Cast {SrcT:type=float; DstT:type=int32} (i1)\n"                           \
                             "i = Reshape {T:type=int32; Tshape:type=int32} (i2, int32[2] 3 1)\n"            \
                             "e0 = AssignVariableOp" OF("int32") "(h, i)\n"
#define PICK(of)                                                                                             \
    "g = GatherV2 {Tparams:type=float; Tindices:type=int32; Taxis:type=int32; batch_dims:int=0} "            \
    "(x, " of ", int32[] 0)\n"                                                                               \
    "z = Mul" INT "(t, int32[] 0)\n"                                                                         \
    "n = AddV2" INT "(z, int32[] 1)\n"                                                                       \
    "e1 = AssignVariableOp" OF("int32") "(h, n)\n"                                                           \
                                        "r = AddV2" FLOAT "(g, x, ^e1)\n"

/* An index that is not there is refused in the host's words, though what lies there is written over by the
 * time that somebody looks; x has three numbers. */
static void refuses_what_it_was(const char *text)
{
    const struct td_shape three = td_shape_vector(3);
    for (int graph_run = 1; graph_run < 3; graph_run++) {
        const struct td_device_opts opts = {.pinned = MIB, .graph_run = graph_run};
        const struct td_device_counts c = same_there(text, &three, &opts);
        CHECK(c.graph_launches >= 4 && c.graphs_made <= 4);
    }
}

TEST(what_is_judged_and_taken_is_refused_as_it_was)
{
    refuses_what_it_was(INDICES "t = _TakeVariable" OF("int32") "(h, ^e0)\n" PICK("t"));
}

TEST(what_is_judged_in_another_shape_is_refused_as_it_was)
{
    refuses_what_it_was(INDICES "t = _TakeVariable" OF(
        "int32") "(h, ^e0)\n"
                 "u = Reshape {T:type=int32; Tshape:type=int32} (t, int32[1] -1)\n"
                 "w = Reshape {T:type=int32; Tshape:type=int32} (u, int32[2] 1 3)\n" PICK("w"));
}

TEST(what_is_judged_and_read_is_refused_as_it_was)
{
    refuses_what_it_was(INDICES "t = ReadVariableOp" OF("int32") "(h, ^e0)\n" PICK("t"));
    refuses_what_it_was(
        INDICES "s = ReadVariableOp" OF("int32") "(h, ^e0)\n"
                                                 "t = _TakeVariable" OF("int32") "(h, ^s)\n" PICK("s"));
}

/* The index is judged in a branch. */
TEST(what_a_branch_judges_is_refused_as_it_was)
{
    if (!has_conditional_nodes()) {
        return;
    }
    refuses_what_it_was(
        "@then (a:float, n:int32) -> (u:float) = [ g = GatherV2 {Tparams:type=float; Tindices:type=int32; "
        "Taxis:type=int32; batch_dims:int=0} (a, n, int32[] 0) ] (g:output:0)\n"
        "@else (a:float, n:int32) -> (u:float) = [ m = ExpandDims {T:type=float; "
        "Tdim:type=int32} (a, int32[] 1) ] (m:output:0)\n" INDICES "t = _TakeVariable" OF(
            "int32") "(h, ^e0)\n"
                     "s = Max {T:type=float; Tidx:type=int32; keep_dims:bool=false} (x, int32[1] 0)\n"
                     "p = Greater" FLOAT "(s, float[] -100)\n"
                     "f = StatelessIf {Tcond:type=bool; Tin:list(type)=[float,int32]; "
                     "Tout:list(type)=[float]; "
                     "then_branch:string='@then'; else_branch:string='@else'} (p, x, t)\n"
                     "z = Mul" INT "(t, int32[] 0)\n"
                     "n = AddV2" INT "(z, int32[] 1)\n"
                     "e1 = AssignVariableOp" OF("int32") "(h, n)\n"
                                                         "r = AddV2" FLOAT "(f:0, x, ^e1)\n");
}

/* A loop reads a variable that each run assigns, on the host, before it: it goes round there in every run. */
TEST(a_loop_reads_what_each_run_assigns)
{
    static const char text[] =
        "@go (i:int32, a:float, w:float) -> (b:bool) = [ b = Less" INT "(i, int32[] 4) ] (b:z:0)\n"
        "@body (i:int32, a:float, w:float) -> (j:int32, u:float, v:float) = [\n"
        "j = AddV2" INT "(i, int32[] 1)\nu = Sub" FLOAT
        "(w, a) ] (j:z:0, u:z:0, w)\n" X HANDLE("float", "3,3") "e0 = AssignVariableOp" OF(
            "float") "(h, x)\n"
                     "w = ReadVariableOp" OF(
                         "float") "(h, ^e0)\n"
                                  "l = StatelessWhile {T:list(type)=[int32,float,float]; cond:string='@go'; "
                                  "body:string='@body'} (int32[] 0, x, w)\n"
                                  "r = Neg" FLOAT "(l:1)\n";
    struct there here, there;
    if (!has_conditional_nodes()) {
        return;
    }
    open_there(&here, text, NULL);
    open_there(&there, text, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    for (int k = 0; k < MORE; k++) {
        struct td_tensor want = {0}, got = {0};
        struct td_err err = {0};
        CHECK_OK(ask(&here, &square, k, &want, &err));
        CHECK_OK(ask(&there, &square, k, &got, &err));
        check_same(&want, &got);
        td_tensor_clear(&want);
        td_tensor_clear(&got);
    }
    (void)close_there(&here);
    const struct td_device_counts c = close_there(&there);
    CHECK_INT((long long)c.graphs_made, 1);
    CHECK(c.graph_launches >= MORE);
}

/* ------------------------------------------------------------------ updates */

/* The text, in which every % is the type. */
static const char *of_type(const char *format, const char *type)
{
    static char text[4000];
    size_t at = 0;
    for (const char *c = format; *c != '\0'; c++) {
        at += (size_t)snprintf(text + at, sizeof text - at, *c == '%' ? "%s" : "%.1s", *c == '%' ? type : c);
        CHECK(at + 20 < sizeof text);
    }
    return text;
}

/* Variables that the run sets, four of nine numbers; they are updated by `op`, and read. */
#define VARIABLE(name)                                                                                       \
    name " = VarHandleOp {dtype:type=%; shape:shape=[9]; shared_name:string='" name "'} ()\n"
#define SET(e, name, value) e " = AssignVariableOp {dtype:type=%} (" name ", " value ")\n"
#define SEEN(r, name) r " = ReadVariableOp {dtype:type=%} (" name ", ^e)\n"
#define UPDATED(op, inputs)                                                                                  \
    X VARIABLE("v") VARIABLE("m") VARIABLE("u") VARIABLE(                                                    \
        "w") "d = Cast {SrcT:type=float; DstT:type=%} (x)\n"                                                 \
             "a = Abs {T:type=%} (d)\nq = Square {T:type=%} (d)\n"                                           \
             "g = Sub {T:type=%} (q, %[] 0.3)\n" SET("e1", "v", "d") SET("e2", "m", "a") SET(                \
                 "e3", "u", "q") SET("e4", "w",                                                              \
                                     "a") "e = " op " (" inputs ", ^e1, ^e2, ^e3, ^e4)\n" SEEN("r1", "v")    \
                 SEEN("r2", "m") SEEN("r3", "u") SEEN(                                                       \
                     "r4",                                                                                   \
                     "w") "c = ConcatV2 {N:int=4; T:type=%; Tidx:type=int32} (r1, r2, r3, r4, int32[] 0)\n"  \
                          "k = Mul {T:type=%} (c, %[] 1024)\n"                                               \
                          "r = Cast {SrcT:type=%; DstT:type=float} (k)\n"

/* The numbers are the host's, to the bit; and nothing is brought there but the result. */
static void updates_there(const char *format)
{
    static const char *const types[] = {"float", "double"};
    const struct td_shape nine = td_shape_vector(9);
    for (int t = 0; t < 2; t++) {
        const char *const text = of_type(format, types[t]);
        struct there here, there;
        struct td_device_counts c;
        open_there(&here, text, NULL);
        open_there_as(&there, text, &(struct td_device_opts){.pinned = MIB, .graph_run = 2}, true);
        for (int k = 0; k < RUNS; k++) {
            struct td_tensor want = {0}, got = {0};
            struct td_err err = {0};
            CHECK_OK(ask(&here, &nine, k, &want, &err));
            CHECK_OK(ask(&there, &nine, k, &got, &err));
            if (!td_tensor_same(&want, &got)) {
                (void)fprintf(stderr, "%s", text);
            }
            CHECK(td_tensor_same(&want, &got));
            td_tensor_clear(&want);
            td_tensor_clear(&got);
        }
        td_cuda_device_count(there.device, &c);
        CHECK_INT((long long)c.copies[TD_COPY_TO_HOST], RUNS);
        (void)close_there(&here);
        (void)close_there(&there);
    }
}

#define APPLY(name) "ResourceApply" name " {T:type=%} "
#define NESTEROV(name) "ResourceApply" name " {T:type=%; use_nesterov:bool=true} "
#define STILL(name) "ResourceApply" name " {T:type=%; update_slots:bool=false} "

TEST(a_jobs_variables_are_updated_there)
{
    updates_there(UPDATED("AssignAddVariableOp {dtype:type=%}", "v, g"));
    updates_there(UPDATED("AssignSubVariableOp {dtype:type=%}", "v, g"));
    updates_there(UPDATED(APPLY("GradientDescent"), "v, %[] 0.3, g"));
    updates_there(UPDATED(APPLY("Momentum"), "v, m, %[] 0.3, g, %[] 0.9"));
    updates_there(UPDATED(NESTEROV("Momentum"), "v, m, %[] 0.3, g, %[] 0.9"));
    updates_there(UPDATED(APPLY("KerasMomentum"), "v, m, %[] 0.3, g, %[] 0.9"));
    updates_there(UPDATED(NESTEROV("KerasMomentum"), "v, m, %[] 0.3, g, %[] 0.9"));
    updates_there(UPDATED(APPLY("Adadelta"), "v, m, u, %[] 0.3, %[] 0.9, %[] 0.001, g"));
    updates_there(UPDATED(APPLY("Adagrad"), "v, m, %[] 0.3, g"));
    updates_there(UPDATED(STILL("Adagrad"), "v, m, %[] 0.3, g"));
    updates_there(UPDATED(APPLY("AdagradV2"), "v, m, %[] 0.3, %[] 0.001, g"));
    updates_there(UPDATED(APPLY("RMSProp"), "v, m, u, %[] 0.3, %[] 0.9, %[] 0.7, %[] 0.001, g"));
    updates_there(UPDATED(APPLY("CenteredRMSProp"), "v, w, m, u, %[] 0.3, %[] 0.9, %[] 0.7, %[] 1.5, g"));
#define RATES "%[] 0.81, %[] 0.99, %[] 0.3, %[] 0.9, %[] 0.995, %[] 0.001, g"
    updates_there(UPDATED(APPLY("Adam"), "v, m, u, " RATES));
    updates_there(UPDATED(NESTEROV("Adam"), "v, m, u, " RATES));
}

/* What is of another shape is refused there, too, and does not go over the whole variable. */
TEST(an_update_of_another_shape_is_refused)
{
    static const char *const wrong[] = {UPDATED("AssignAddVariableOp {dtype:type=%}", "v, %[] 2"),
                                        UPDATED(APPLY("GradientDescent"), "v, g, g")};
    const struct td_shape nine = td_shape_vector(9);
    for (int i = 0; i < 2; i++) {
        struct there d;
        struct td_tensor out = {0};
        struct td_err err = {0};
        open_there_as(&d, of_type(wrong[i], "float"), &recorded, true);
        CHECK_INT(ask(&d, &nine, 0, &out, &err), TD_INVALID_ARGUMENT);
        (void)close_there(&d);
    }
}

/* What a job's model gives is what the host gives, with steps that are recorded and without. */
static void agrees_alone(const char *text)
{
    const struct td_shape nine = td_shape_vector(9);
    struct there here, there;
    open_there(&here, text, NULL);
    open_there_as(&there, text, &recorded, true);
    for (int k = 0; k < RUNS; k++) {
        struct td_tensor want = {0}, got = {0};
        struct td_err err = {0};
        CHECK_OK(ask(&here, &nine, k, &want, &err));
        CHECK_OK(ask(&there, &nine, k, &got, &err));
        check_same(&want, &got);
        td_tensor_clear(&want);
        td_tensor_clear(&got);
    }
    (void)close_there(&here);
    (void)close_there(&there);
}

/* Each of two counts, whoever comes first. */
#define LONE X HANDLE("float", "9") "e0 = AssignVariableOp" OF("float") "(h, x)\n"
#define END(e) "r0 = ReadVariableOp" OF("float") "(h, " e ")\nr = Neg" FLOAT "(r0)\n"

TEST(two_updates_that_nothing_orders_both_count)
{
    agrees_alone(LONE "e1 = AssignAddVariableOp" OF("float") "(h, x, ^e0)\n"
                                                             "q = Square" FLOAT "(x)\n"
                                                             "e2 = AssignSubVariableOp" OF(
                                                                 "float") "(h, q, ^e0)\n" END("^e1, ^e2"));
}

/* The second one waits for the first by what it is given alone. */
TEST(an_update_by_what_another_has_made_comes_behind_it)
{
    agrees_alone(LONE "e1 = AssignAddVariableOp" OF(
        "float") "(h, x, ^e0)\n"
                 "s = ReadVariableOp" OF(
                     "float") "(h, ^e1)\n"
                              "q = Cumsum {T:type=float; Tidx:type=int32} (s, int32[] 0)\n"
                              "e2 = AssignAddVariableOp" OF("float") "(h, q)\n" END("^e2"));
}

/* ------------------------------------------------------------------ generators */

/* Draws of nodes' own generators are recorded with what reads them, and are the same numbers as step by step,
 * also where some runs are not recorded. */
TEST(kept_generators_draw_in_what_is_recorded)
{
    static const char text[] = X
        "u = RandomUniform {T:type=int32; dtype:type=float; seed:int=7; seed2:int=9} (int32[2] 3 3)\n"
        "v = RandomStandardNormal {T:type=int32; dtype:type=double; seed:int=3; seed2:int=5} (int32[2] 3 "
        "3)\n"
        "t = TruncatedNormal {T:type=int32; dtype:type=half; seed:int=3; seed2:int=5} (int32[1] 3)\n"
        "k = RandomUniformInt {T:type=int32; Tout:type=int64; seed:int=1; seed2:int=2} "
        "(int32[2] 3 3, int64[] -50, int64[] 50)\n"
        "vf = Cast {SrcT:type=double; DstT:type=float} (v)\ntf = Cast {SrcT:type=half; DstT:type=float} (t)\n"
        "kf = Cast {SrcT:type=int64; DstT:type=float} (k)\n"
        "a = AddV2" FLOAT "(u, x)\nb = Mul" FLOAT "(a, vf)\nc = Sub" FLOAT "(b, tf)\nr = AddV2" FLOAT
        "(c, kf)\n";
    chosen_there(text, &square, false);
    for (int graph_run = 2; graph_run <= RUNS; graph_run++) {
        const struct td_device_counts c =
            same_there(text, &square, &(struct td_device_opts){.pinned = MIB, .graph_run = graph_run});
        CHECK_INT((long long)c.graph_launches, RUNS + 1 - graph_run);
    }
}

TEST_MAIN(RUN(what_is_judged_and_taken_is_refused_as_it_was)
              RUN(what_is_judged_in_another_shape_is_refused_as_it_was)
                  RUN(what_is_judged_and_read_is_refused_as_it_was)
                      RUN(what_a_branch_judges_is_refused_as_it_was) RUN(a_loop_reads_what_each_run_assigns)
                          RUN(a_jobs_variables_are_updated_there) RUN(an_update_of_another_shape_is_refused)
                              RUN(two_updates_that_nothing_orders_both_count)
                                  RUN(an_update_by_what_another_has_made_comes_behind_it)
                                      RUN(kept_generators_draw_in_what_is_recorded))
