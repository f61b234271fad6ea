/* tests/host_cuda/steps_test.c - steps that change variables, recorded (core/run/device_home.h): what they
 * compute, and what others see meanwhile.
 *
 * There are two variables, w and m. A step is  m' = m / 2 + x w,  w' = w - m' / 8,  its result x w + m'. One
 * takes both, as training does; one reads them, and assigns what it has read nothing of in between.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>

#include "core/base/timings.h"
#include "core/run/device_graph.h"
#include "core/run/variable.h"
#include "kernels/cuda/base/device.h"
#include "kernels/math/philox.h"
#include "tests/host_cuda/device_ops.h"
#include "tests/unit/core/pass_make.h"

int host_cuda_reports(void); /* host_cuda.h, which is C++ */

enum { N = 300, STEPS = 9, READS = 60, FEW = 8, MIB = 1 << 20 };
#define MOST_NS ((int64_t)10000000000)

#define FLOAT " {T:type=float} "
#define OF " {dtype:type=float} "
#define HANDLE(name)                                                                                         \
    name " = VarHandleOp {dtype:type=float; shape:shape=[300]; shared_name:string='" name "'} ()\n"
#define START_AND_LOOK                                                                                       \
    X HANDLE("w") HANDLE("m") "s1 = AssignVariableOp" OF "(m, x)\n"                                          \
                              "s2 = AssignVariableOp" OF "(w, x)\n"                                          \
                              "s = Neg" FLOAT "(x)\n"                                                        \
                              "a0 = ReadVariableOp" OF "(w)\n"                                               \
                              "a1 = Mul" FLOAT "(a0, x)\n"                                                   \
                              "a = Exp" FLOAT "(a1)\n"                                                       \
                              "l = ReverseV2 {T:type=float; Tidx:type=int32} (a, int32[1] 0)\n"              \
                              "g0 = Slice {T:type=float; Index:type=int32} (x, int32[1] 0, int32[1] 2)\n"    \
                              "g = Cast {SrcT:type=float; DstT:type=int32} (g0)\n"                           \
                              "u = StatelessRandomUniform {T:type=int32; Tseed:type=int32} "                 \
                              "(int32[1] 300, g)\n"                                                          \
                              "q = Neg" FLOAT "(u)\n"                                                        \
                              "z0 = ReadVariableOp" OF "(w)\n"                                               \
                              "z = Mul" FLOAT "(z0, float[] 0.75)\n"                                         \
                              "s3 = AssignVariableOp" OF "(w, z)\n"
#define RESULT "r = AddV2" FLOAT "(p, m1)\n"
#define REVERSED                                                                                             \
    "r0 = ReverseV2 {T:type=float; Tidx:type=int32} (m1, int32[1] 0)\n"                                      \
    "r = Neg" FLOAT "(r0)\n"
/* From w0 and m0, which are w and m as they were, to w1 and m1. */
#define UPDATE                                                                                               \
    "p = Mul" FLOAT "(x, w0)\n"                                                                              \
    "h0 = Mul" FLOAT "(m0, float[] 0.5)\n"                                                                   \
    "m1 = AddV2" FLOAT "(h0, p)\n"                                                                           \
    "d = Mul" FLOAT "(m1, float[] 0.125)\n"                                                                  \
    "w1 = Sub" FLOAT "(w0, d)\n"                                                                             \
    "e1 = AssignVariableOp" OF "(m, m1)\n"                                                                   \
    "e2 = AssignVariableOp" OF "(w, w1, ^seen)\n"

static const char *const takes = START_AND_LOOK "seen = ReadVariableOp" OF "(w)\n"
                                                "w0 = _TakeVariable" OF "(w, ^seen)\n"
                                                "m0 = _TakeVariable" OF "(m)\n" UPDATE RESULT;
static const char *const reads = START_AND_LOOK "seen = ReadVariableOp" OF "(w)\n"
                                                "w0 = ReadVariableOp" OF "(w)\n"
                                                "m0 = ReadVariableOp" OF "(m)\n" UPDATE RESULT;
/* Its result is w as it was. */
static const char *const keeps = START_AND_LOOK "seen = ReadVariableOp" OF "(w)\n"
                                                "r = Reshape {T:type=float; Tshape:type=int32} "
                                                "(seen, int32[1] -1)\n"
                                                "w0 = _TakeVariable" OF "(w, ^r)\n"
                                                "m0 = _TakeVariable" OF "(m)\n" UPDATE;

/* m' is w as it was, and w' something new: w is assigned first. */
static const char *const moves = START_AND_LOOK "w0 = ReadVariableOp" OF "(w)\n"
                                                "m0 = ReadVariableOp" OF "(m)\n"
                                                "p = Mul" FLOAT "(x, w0)\n"
                                                "h0 = Mul" FLOAT "(m0, float[] 0.5)\n"
                                                "m1 = AddV2" FLOAT "(h0, p)\n"
                                                "e2 = AssignVariableOp" OF "(w, m1)\n"
                                                "e1 = AssignVariableOp" OF "(m, w0, ^e2)\n" RESULT;
/* The same, of which w is taken. */
static const char *const moves_taken = START_AND_LOOK "seen = ReadVariableOp" OF "(w)\n"
                                                      "w0 = _TakeVariable" OF "(w, ^seen)\n"
                                                      "m0 = ReadVariableOp" OF "(m)\n"
                                                      "p = Mul" FLOAT "(x, w0)\n"
                                                      "h0 = Mul" FLOAT "(m0, float[] 0.5)\n"
                                                      "m1 = AddV2" FLOAT "(h0, p)\n"
                                                      "e2 = AssignVariableOp" OF "(w, m1)\n"
                                                      "e1 = AssignVariableOp" OF "(m, seen, ^e2)\n" RESULT;
/* m' is w, which no recorded step reads. */
static const char *const copies = START_AND_LOOK "w0 = ReadVariableOp" OF "(w)\n"
                                                 "p = Mul" FLOAT "(x, float[] 0.5)\n"
                                                 "m1 = Neg" FLOAT "(p)\n"
                                                 "e1 = AssignVariableOp" OF "(m, w0)\n"
                                                 "e2 = NoOp {} ()\n" REVERSED;
/* m' is w in another shape and back, which recorded steps read. */
static const char *const shows =
    START_AND_LOOK "w0 = ReadVariableOp" OF "(w)\n"
                   "v0 = Reshape {T:type=float; Tshape:type=int32} (w0, int32[2] 100 3)\n"
                   "v = Reshape {T:type=float; Tshape:type=int32} (v0, int32[1] -1)\n"
                   "p = Mul" FLOAT "(x, v)\n"
                   "m1 = Neg" FLOAT "(p)\n"
                   "e1 = AssignVariableOp" OF "(m, v)\n"
                   "e2 = NoOp {} ()\n" REVERSED;

/* Behind the assignments w as it was is used, and then w is read again: two stretches. */
static const char *const reads_again =
    START_AND_LOOK "w0 = ReadVariableOp" OF "(w)\n"
                   "p = Mul" FLOAT "(x, w0)\n"
                   "m1 = ReverseV2 {T:type=float; Tidx:type=int32} (p, int32[1] 0)\n"
                   "p1 = AddV2" FLOAT "(m1, x)\n"
                   "e2 = AssignVariableOp" OF "(w, p1)\n"
                   "e1 = AssignVariableOp" OF "(m, m1, ^e2)\n"
                   "m2 = ReadVariableOp" OF "(m, ^e1, ^e2)\n"
                   "q0 = Mul" FLOAT "(w0, m2)\n"
                   "v = ReverseV2 {T:type=float; Tidx:type=int32} (q0, int32[1] 0)\n"
                   "w2 = ReadVariableOp" OF "(w, ^e2)\n"
                   "r = Sub" FLOAT "(v, w2)\n";

/* Both are assigned one value. */
#define ONE_FOR_BOTH                                                                                         \
    "p = Mul" FLOAT "(x, w0)\n"                                                                              \
    "h0 = Mul" FLOAT "(m0, float[] 0.5)\n"                                                                   \
    "m1 = AddV2" FLOAT "(h0, p)\n"                                                                           \
    "e1 = AssignVariableOp" OF "(m, m1)\n"                                                                   \
    "e2 = AssignVariableOp" OF "(w, m1)\n"
static const char *const shares = START_AND_LOOK "w0 = ReadVariableOp" OF "(w)\n"
                                                 "m0 = ReadVariableOp" OF "(m)\n" ONE_FOR_BOTH RESULT;
static const char *const shares_taken = START_AND_LOOK "w0 = _TakeVariable" OF "(w)\n"
                                                       "m0 = _TakeVariable" OF "(m)\n" ONE_FOR_BOTH RESULT;

/* ------------------------------------------------------------------ a model, and its functions */

enum { START, STEP, LOOK, DRAW, SHRINK, FUNCTIONS };

static const struct {
    const char *fetch, *effect[2];
} made_of[] = {[START] = {"s", {"s1", "s2"}},
               [STEP] = {"r", {"e1", "e2"}},
               [LOOK] = {"l", {NULL, NULL}},
               [DRAW] = {"q", {NULL, NULL}},
               [SHRINK] = {"z", {"s3", NULL}}}; /* one launch, which nobody records */

struct there {
    struct passed t;
    struct td_value fetch[FUNCTIONS];
    struct td_node *effect[FUNCTIONS][2];
    struct td_device *device;
    struct td_model *m;
    struct td_callable *f[FUNCTIONS];
};

static void open(struct there *d, const char *text, const struct td_device_opts *opts)
{
    struct td_err err = {0};
    *d = (struct there){.device = NULL};
    passed_open_with(&d->t, device_ops(), text, "r");
    CHECK_OK(td_cuda_device_open(opts, &d->device, &err));
    const struct td_model_opts of = {.ops = d->t.ops, .device = d->device};
    const struct td_graph *g = &d->t.g.graph;
    CHECK_OK(td_model_new(&of, NULL, &d->t.g.graph, &d->t.g.lib, &d->m, &err));
    for (int i = 0; i < FUNCTIONS; i++) {
        struct td_callable_opts how = d->t.how;
        CHECK_OK(td_graph_value(g, made_of[i].fetch, &d->fetch[i], &err));
        how.fetches = &d->fetch[i];
        how.targets = d->effect[i];
        for (int k = 0; k < 2 && made_of[i].effect[k] != NULL; k++) {
            d->effect[i][how.n_targets++] = td_graph_find(g, made_of[i].effect[k], 2);
        }
        CHECK_OK(td_callable_new(d->m, &how, &d->f[i], &err));
    }
}

static struct td_device_counts close_there(struct there *d)
{
    struct td_device_counts c, end;
    td_cuda_device_count(d->device, &c);
    td_model_unref(d->m);
    passed_close(&d->t);
    td_cuda_device_count(d->device, &end);
    CHECK(end.held == 0 && end.graphs == 0);
    td_cuda_device_close(d->device);
    CHECK_INT(host_cuda_reports(), 0);
    return c;
}

/* What the function gives for n numbers: rising from `first`, or all the same. */
static enum td_code ask(struct there *d, int function, int64_t n, float first, float rise, float *out,
                        struct td_err *err)
{
    const struct td_shape shape = td_shape_vector(n);
    struct td_tensor in = ramp(&shape, first, rise), r = {0};
    const enum td_code rc = td_callable_run(d->f[function], &in, &r, NULL, err);
    if (rc == TD_OK) {
        memcpy(out, r.data, (size_t)n * sizeof *out);
    }
    td_tensor_clear(&in);
    td_tensor_clear(&r);
    return rc;
}

static void tell(struct there *d, int function, float first, float *out)
{
    struct td_err err = {0};
    CHECK_OK(ask(d, function, N, first, 0.0625f, out, &err));
}

/* The variable's value, on the host. */
static void get(struct there *d, const char *name, float *out)
{
    struct td_err err = {0};
    struct td_tensor t;
    struct td_variable *v = (struct td_variable *)td_model_resource(d->m, &td_variable_type, name);
    CHECK(v != NULL);
    CHECK_OK(td_variable_read(v, &t, &err));
    memcpy(out, t.data, N * sizeof *out);
    td_tensor_clear(&t);
}

/* ------------------------------------------------------------------ the same bits */

struct seen {
    float r[STEPS][N], look[STEPS][N], w[N], m[N];
};

/* Steps, with what happens between them in a job: someone looks at a variable there, a checkpoint reads it,
 * and its value is set from the host. */
static struct td_device_counts go(const char *step, int graph_run, struct seen *out)
{
    static struct there d;
    memset(out, 0, sizeof *out);
    open(&d, step, &(struct td_device_opts){.pinned = MIB, .graph_run = graph_run});
    tell(&d, START, 0.5f, out->look[0]);
    for (int i = 0; i < STEPS; i++) {
        tell(&d, STEP, 0.25f + 0.125f * (float)i, out->r[i]);
        tell(&d, LOOK, 1.0f, out->look[i]);
        if (i == 4) {
            get(&d, "w", out->w);
        }
        if (i == 5) {
            tell(&d, START, -0.5f, out->w);
        }
    }
    get(&d, "w", out->w);
    get(&d, "m", out->m);
    return close_there(&d);
}

static void same_bits(const char *step)
{
    static struct seen plain, recorded;
    CHECK_INT((int)go(step, 0, &plain).graph_launches, 0);
    for (int graph_run = 1; graph_run < 4; graph_run++) {
        const struct td_device_counts c = go(step, graph_run, &recorded);
        CHECK_INT(memcmp(&plain, &recorded, sizeof plain), 0);
        CHECK(c.graph_launches >= 8 && c.graphs_made <= 8);
    }
}

TEST(steps_that_take_their_variables_give_the_same_bits)
{
    same_bits(takes);
}

TEST(steps_that_read_and_assign_give_the_same_bits)
{
    same_bits(reads);
}

TEST(a_value_that_is_used_behind_the_update_stays_what_it_was)
{
    same_bits(keeps);
}

/* The same steps with w shrunk before each of them, if so. */
static struct td_device_counts move(const char *step, int graph_run, bool shrinks, struct seen *out)
{
    static struct there d;
    memset(out, 0, sizeof *out);
    open(&d, step, &(struct td_device_opts){.pinned = MIB, .graph_run = graph_run});
    tell(&d, START, 0.5f, out->look[0]);
    for (int i = 0; i < STEPS; i++) {
        if (shrinks) {
            tell(&d, SHRINK, 1.0f, out->look[i]);
        }
        tell(&d, STEP, 0.25f + 0.125f * (float)i, out->r[i]);
    }
    get(&d, "w", out->w);
    get(&d, "m", out->m);
    return close_there(&d);
}

static void same_when_moved(const char *step, bool shrinks)
{
    static struct seen plain, recorded;
    (void)move(step, 0, shrinks, &plain);
    for (int graph_run = 1; graph_run < 4; graph_run++) {
        CHECK(move(step, graph_run, shrinks, &recorded).graph_launches > 0);
        CHECK_INT(memcmp(&plain, &recorded, sizeof plain), 0);
    }
}

TEST(what_was_read_of_a_variable_is_assigned_to_another_behind_its_update)
{
    same_when_moved(moves, false);
}

TEST(what_was_read_before_it_was_taken_is_assigned_to_another_behind_its_update)
{
    same_when_moved(moves_taken, false);
}

TEST(what_was_read_of_a_variable_is_assigned_to_another)
{
    same_when_moved(copies, true);
}

TEST(what_is_read_again_behind_an_update_leaves_what_it_was)
{
    same_when_moved(reads_again, false);
}

TEST(what_shows_a_variable_is_assigned_to_another)
{
    same_when_moved(shows, true);
}

/* Once it is recorded a step is one launch, with nothing copied on the device beside it but what is assigned
 * by itself: w is at its home, and in the recording of those who look at it. */
TEST(a_recorded_step_is_one_launch_and_what_it_assigns_is_at_home)
{
    static struct there d;
    static float r[N];
    const char *const step[] = {takes, reads};
    for (int i = 0; i < 2; i++) {
        struct td_device_counts before, after;
        open(&d, step[i], &(struct td_device_opts){.pinned = MIB, .graph_run = 2});
        tell(&d, START, 0.5f, r);
        for (int k = 0; k < 4; k++) {
            tell(&d, STEP, 0.25f, r);
            tell(&d, LOOK, 1.0f, r);
        }
        td_cuda_device_count(d.device, &before);
        tell(&d, STEP, 0.25f, r);
        tell(&d, LOOK, 1.0f, r);
        td_cuda_device_count(d.device, &after);
        CHECK_INT((int)(after.graph_launches - before.graph_launches), 2);
        CHECK_INT((int)(after.launches - before.launches), (int)(after.graph_kernels - before.graph_kernels));
        CHECK_INT((int)(after.copies[TD_COPY_ON_DEVICE] - before.copies[TD_COPY_ON_DEVICE]), i == 0 ? 0 : 2);
        (void)close_there(&d);
    }
}

/* What two variables are assigned at once has a home for each: a recording or two, and no step but is
 * launched by one from there on. */
TEST(two_variables_that_are_assigned_one_value_have_a_home_each)
{
    static const char *const step[] = {shares, shares_taken};
    static struct seen plain, recorded;
    for (int i = 0; i < 2; i++) {
        (void)move(step[i], 0, false, &plain);
        for (int graph_run = 2; graph_run < 4; graph_run++) {
            const struct td_device_counts c = move(step[i], graph_run, false, &recorded);
            CHECK_INT(memcmp(&plain, &recorded, sizeof plain), 0);
            CHECK(c.graphs_made <= 2 && c.graph_launches >= STEPS - 5);
        }
    }
}

/* Dropout of a step draws by the step's number: the recording reads the seeds anew in each launch. */
TEST(recorded_draws_are_those_of_the_seeds_of_each_run)
{
    static struct there d;
    static float r[N];
    open(&d, takes, &(struct td_device_opts){.pinned = MIB, .graph_run = 2});
    for (int i = 0; i < STEPS; i++) {
        struct td_err err = {0};
        CHECK_OK(
            ask(&d, DRAW, N, (float)-i, 1.0f, r, &err)); /* 7 is what the ramp's second number rises by */
        struct td_philox g = td_philox_from_seeds((uint64_t)-i, (uint64_t)(7 - i));
        uint32_t words[4];
        for (int k = 0; k < N; k++) {
            if (k % 4 == 0) {
                td_philox_next(&g, words);
            }
            CHECK(r[k] == -td_philox_float(words[k % 4]));
        }
    }
    CHECK_INT((int)close_there(&d).graph_launches, STEPS - 1);
}

/* ------------------------------------------------------------------ what others see */

static struct there shared;
static atomic_bool over;

/* All numbers of w are the same at any time, for whoever sees it whole. */
static void *keep_looking(void *none)
{
    float r[N];
    while (!atomic_load(&over)) {
        struct td_err err = {0};
        const enum td_code rc = ask(&shared, LOOK, N, 1.0f, 0.0f, r, &err);
        CHECK(rc == TD_OK || rc == TD_FAILED_PRECONDITION); /* it is taken */
        for (int i = 1; i < N && rc == TD_OK; i++) {
            CHECK(r[i] == r[0]);
        }
    }
    return none;
}

static void others_see_it_whole(const char *step)
{
    float r[N];
    struct td_err err = {0};
    pthread_t thread[2];
    atomic_store(&over, false);
    open(&shared, step, &(struct td_device_opts){.pinned = MIB, .streams = 3, .graph_run = 2});
    CHECK_OK(ask(&shared, START, N, 0.5f, 0.0f, r, &err));
    for (int i = 0; i < 2; i++) {
        CHECK_INT(pthread_create(&thread[i], NULL, keep_looking, NULL), 0);
    }
    const int64_t end = td_now_ns() + MOST_NS; /* enough of it, where everything is slow */
    for (int i = 0; i < READS && (i < FEW || td_now_ns() < end); i++) {
        CHECK_OK(ask(&shared, STEP, N, 0.25f, 0.0f, r, &err));
        CHECK(r[1] == r[0] && r[N - 1] == r[0]);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(pthread_join(thread[i], NULL), 0);
    }
    (void)close_there(&shared);
}

TEST(a_run_beside_sees_the_old_value_or_the_new_one_whole)
{
    others_see_it_whole(reads);
}

TEST(a_run_beside_sees_what_was_not_taken_whole)
{
    others_see_it_whole(takes);
}

/* Two variables that share bytes: neither is written over. */
TEST(a_value_that_two_variables_have_stays_what_it_is)
{
    static struct there d;
    static float r[N], want[N], got[N];
    struct td_err err = {0};
    open(&d, takes, &(struct td_device_opts){.pinned = MIB, .graph_run = 2});
    tell(&d, START, 0.5f, r);
    for (int i = 0; i < 4; i++) {
        tell(&d, STEP, 0.25f, r);
    }
    struct td_variable *m = (struct td_variable *)td_model_resource(d.m, &td_variable_type, "m");
    struct td_tensor kept;
    get(&d, "m", want);
    pthread_mutex_lock(&m->mu); /* somebody has what lies there */
    td_tensor_ref(&kept, &m->there);
    pthread_mutex_unlock(&m->mu);
    for (int i = 0; i < 4; i++) {
        tell(&d, STEP, 0.25f, r);
    }
    struct td_tensor here;
    CHECK_OK(td_device_bring(&kept, NULL, &here, &err));
    memcpy(got, here.data, sizeof got);
    CHECK_INT(memcmp(got, want, sizeof got), 0);
    td_tensor_clear(&here);
    td_tensor_clear(&kept);
    get(&d, "m", got);
    CHECK(memcmp(got, want, sizeof got) != 0);
    (void)close_there(&d);
}

TEST_MAIN(
    RUN(steps_that_take_their_variables_give_the_same_bits) RUN(steps_that_read_and_assign_give_the_same_bits)
        RUN(a_value_that_is_used_behind_the_update_stays_what_it_was)
            RUN(what_was_read_of_a_variable_is_assigned_to_another_behind_its_update)
                RUN(what_was_read_before_it_was_taken_is_assigned_to_another_behind_its_update)
                    RUN(what_was_read_of_a_variable_is_assigned_to_another)
                        RUN(what_is_read_again_behind_an_update_leaves_what_it_was)
                            RUN(what_shows_a_variable_is_assigned_to_another)
                                RUN(a_recorded_step_is_one_launch_and_what_it_assigns_is_at_home)
                                    RUN(two_variables_that_are_assigned_one_value_have_a_home_each)
                                        RUN(recorded_draws_are_those_of_the_seeds_of_each_run)
                                            RUN(a_run_beside_sees_the_old_value_or_the_new_one_whole)
                                                RUN(a_run_beside_sees_what_was_not_taken_whole)
                                                    RUN(a_value_that_two_variables_have_stays_what_it_is))
