/* tests/host_cuda/loops_test.c - While on a GPU: which loops go round there (core/run/device_loop.h), that
 * they give what they give on the host, and how they end.
 *
 * A loop carries i (int32), x and y (floats of x's shape). Its condition, and what a round makes of the
 * three, are text; the result is x, y and i as one vector.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "core/base/timings.h"
#include "core/run/device_graph.h"
#include "kernels/cuda/base/device.h"
#include "kernels/cuda/rows.h"
#include "tests/unit/core/pass_make.h"

enum { RUNS = 4, THREADS = 3, MIB = 1 << 20 };

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

/* ------------------------------------------------------------------ with a device, and without */

struct there {
    struct passed t;
    struct td_device *device;
    struct td_model *m;
    struct td_callable *f;
};

static void open(struct there *d, const struct how *how, const struct td_device_opts *opts)
{
    *d = (struct there){.device = NULL};
    passed_open(&d->t, loop(how), "r");
    for (int f = 0; opts != NULL && td_cuda_families[f] != NULL; f++) {
        for (const struct td_op_rows *r = td_cuda_families[f]; r->op != NULL; r++) {
            CHECK_INT(td_op_table_add_kernels(d->t.ops, r->op, r->rows, &d->t.err), TD_OK);
        }
    }
    if (opts != NULL) {
        CHECK_INT(td_cuda_device_open(opts, &d->device, &d->t.err), TD_OK);
    }
    const struct td_model_opts of = {.ops = d->t.ops, .device = d->device};
    CHECK_INT(td_model_new(&of, NULL, &d->t.g.graph, &d->t.g.lib, &d->m, &d->t.err), TD_OK);
    CHECK_INT(td_callable_new(d->m, &d->t.how, &d->f, &d->t.err), TD_OK);
}

static struct td_device_counts close_there(struct there *d)
{
    struct td_device_counts c = {0};
    td_model_unref(d->m);
    passed_close(&d->t);
    if (d->device != NULL) {
        td_cuda_device_count(d->device, &c);
        CHECK(c.held == 0 && c.graphs == 0);
    }
    td_cuda_device_close(d->device);
    return c;
}

static struct td_tensor input(const struct td_shape *shape, int k)
{
    return ramp(shape, -1.0f + 0.25f * (float)k, 0.0625f);
}

static enum td_code ask(struct there *d, const struct td_shape *shape, int k, struct td_tensor *out,
                        struct td_err *err)
{
    struct td_tensor in = input(shape, k);
    const enum td_code rc = td_callable_run(d->f, &in, out, NULL, err);
    td_tensor_clear(&in);
    return rc;
}

static void check_same(const struct td_tensor *want, const struct td_tensor *got)
{
    CHECK(td_shape_equal(&want->shape, &got->shape));
    for (int64_t i = 0; i < td_tensor_count(want); i++) {
        const float a = TD_DATA(want, float)[i], b = TD_DATA(got, float)[i];
        CHECK(fabsf(a - b) <= 1e-5f * (1 + fabsf(a)));
    }
}

static const struct td_device_opts recorded = {.pinned = MIB, .graph_run = 2},
                                   never = {.pinned = MIB, .graph_run = 0};

/* Some runs with other inputs each, there and on the host. What the device did; made: recordings. */
static struct td_device_counts same_as_on_the_host(const struct how *how, const struct td_shape *shape,
                                                   const struct td_device_opts *opts)
{
    struct there here, there;
    struct td_device_counts c;
    open(&here, how, NULL);
    open(&there, how, opts);
    for (int k = 0; k < RUNS; k++) {
        struct td_tensor want = {0}, got = {0};
        struct td_err a = {0}, b = {0};
        CHECK_INT(ask(&there, shape, k, &got, &b), ask(&here, shape, k, &want, &a));
        CHECK_STR(b.msg, a.msg);
        if (a.code == TD_OK) {
            check_same(&want, &got);
        }
        td_tensor_clear(&want);
        td_tensor_clear(&got);
    }
    (void)close_there(&here);
    td_cuda_device_count(there.device, &c);
    (void)close_there(&there);
    return c;
}

static const struct td_shape square = {.rank = 2, .dim = {3, 3}};

/* That it goes round there: no round of a recorded run brings anything to the host. */
static void goes_round(const struct how *how, int rounds)
{
    const struct td_device_counts stepped = same_as_on_the_host(how, &square, &never),
                                  c = same_as_on_the_host(how, &square, &recorded);
    CHECK(stepped.graphs_made == 0 && c.graphs_made >= 1 && c.graph_launches >= RUNS - 1);
    CHECK(rounds < 3 || c.copies[TD_COPY_TO_HOST] < stepped.copies[TD_COPY_TO_HOST]);
}

/* That the host goes round, and sees as much of it as where nothing is recorded. */
static void stays(const struct how *how)
{
    const struct td_device_counts stepped = same_as_on_the_host(how, &square, &never),
                                  c = same_as_on_the_host(how, &square, &recorded);
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
        const struct td_device_counts c = same_as_on_the_host(&how, &shapes[k], &recorded);
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
    const struct how how = {.cond = BELOW("9"), .body = gather};
    struct there d;
    struct td_tensor out;
    same_as_on_the_host(&how, &square, &recorded);
    open(&d, &how, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    struct td_err err = {0};
    CHECK_INT(ask(&d, &square, 0, &out, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "indices = 3 is not in [0, 3)") != NULL);
    const struct td_device_counts c = close_there(&d);
    CHECK(c.graph_launches >= 1);
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
    const struct how how = {.cond = BELOW("5"), .body = COUNT TANH};
    const char *const without = getenv("HOST_CUDA_CONDITIONS");
    if (without != NULL && strcmp(without, "0") == 0) {
        stays(&how);
    } else {
        goes_round(&how, 5);
    }
}

/* ------------------------------------------------------------------ endless ones */

/* i stays what it is. */
static const struct how endless = {.cond = BELOW("1"), .body = "u = Tanh" FLOAT "(x)\n] (i, u:y:0, y)"};

TEST(an_endless_loop_ends_at_the_runs_deadline)
{
    struct there d;
    struct td_tensor out, in = input(&square, 0);
    open(&d, &endless, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    const int64_t start = td_now_ns();
    const struct td_run_opts opts = {.work = {.deadline_ns = start + 1000000000}};
    CHECK_INT(td_callable_run(d.f, &in, &out, &opts, &d.t.err), TD_DEADLINE_EXCEEDED);
    CHECK(td_now_ns() - start < 10000000000);
    struct td_device_counts c;
    td_cuda_device_count(d.device, &c);
    CHECK(c.graph_launches >= 2);
    td_tensor_clear(&in);
    (void)close_there(&d);
}

static void *stop_soon(void *word)
{
    const struct timespec some = {.tv_nsec = 200000000};
    (void)nanosleep(&some, NULL);
    atomic_store((td_stop *)word, TD_CANCELLED);
    return NULL;
}

TEST(an_endless_loop_can_be_cancelled)
{
    struct there d;
    pthread_t thread;
    td_stop stop = 0;
    struct td_tensor out, in = input(&square, 0);
    open(&d, &endless, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    const struct td_run_opts opts = {.work = {.stop = &stop}};
    CHECK_INT(pthread_create(&thread, NULL, stop_soon, &stop), 0);
    CHECK_INT(td_callable_run(d.f, &in, &out, &opts, &d.t.err), TD_CANCELLED);
    CHECK_INT(pthread_join(thread, NULL), 0);
    td_tensor_clear(&in);
    (void)close_there(&d);
}

/* More rounds than the first launch may begin. */
TEST(a_long_loop_is_launched_more_than_once)
{
    const struct how how = {.cond = BELOW("100"),
                            .body = COUNT "u = Mul" FLOAT "(x, float[] 0.5)\n] (j:z:0, y, u:z:0)"};
    const struct td_device_counts c =
        same_as_on_the_host(&how, &square, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    CHECK(c.graphs_made >= 1 && c.graph_launches > RUNS + 1);
}

/* ------------------------------------------------------------------ beside others */

static struct there shared;
static struct td_tensor wanted[RUNS];

static void *ask_often(void *from)
{
    const int x = (int)(uintptr_t)from;
    for (int i = 0; i < 3 * RUNS; i++) {
        const int k = (i + x) % RUNS;
        struct td_tensor got = {0};
        struct td_err err = {0};
        CHECK_OK(ask(&shared, &square, k, &got, &err));
        check_same(&wanted[k], &got);
        td_tensor_clear(&got);
        if (i % 5 == x) {
            (void)td_device_graphs_trim(shared.device);
        }
    }
    return NULL;
}

TEST(runs_at_once_have_loops_of_their_own)
{
    pthread_t threads[THREADS];
    const struct how how = {.cond = BELOW("7"), .body = COUNT TANH};
    struct there here;
    struct td_err err = {0};
    open(&here, &how, NULL);
    open(&shared, &how, &(struct td_device_opts){.pinned = MIB, .streams = 2, .graph_run = 1});
    for (int k = 0; k < RUNS; k++) {
        CHECK_OK(ask(&here, &square, k, &wanted[k], &err));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, ask_often, (void *)(uintptr_t)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_join(threads[i], NULL), 0);
    }
    for (int k = 0; k < RUNS; k++) {
        td_tensor_clear(&wanted[k]);
    }
    (void)close_there(&here);
    (void)close_there(&shared);
}

/* Where the arena finds no room the loop is stepped, or the run refused, as without. */
TEST(a_loop_finds_no_room)
{
    const struct how how = {.cond = BELOW("3"), .body = COUNT "u = Sub" FLOAT "(y, x)\n] (j:z:0, y, u:z:0)"};
    const struct td_shape large = td_shape_matrix(100, 100);
    for (uint64_t limit = 64 << 10; limit < 640 << 10; limit += 32 << 10) {
        struct there here, there;
        open(&here, &how, NULL);
        open(&there, &how, &(struct td_device_opts){.limit = limit, .pinned = MIB, .graph_run = 1});
        for (int k = 0; k < RUNS; k++) {
            struct td_tensor want = {0}, got = {0};
            struct td_err err = {0};
            CHECK_OK(ask(&here, &large, k, &want, &err));
            const enum td_code rc = ask(&there, &large, k, &got, &err);
            CHECK(rc == TD_OK || rc == TD_RESOURCE_EXHAUSTED);
            if (rc == TD_OK) {
                check_same(&want, &got);
            }
            td_tensor_clear(&want);
            td_tensor_clear(&got);
        }
        (void)close_there(&here);
        (void)close_there(&there);
    }
}

int main(int argc, char **argv)
{
    const char *const only = argc > 1 ? argv[1] : NULL, *const conditions = getenv("HOST_CUDA_CONDITIONS");
    int bad = 0;
    RUN(a_device_without_conditional_nodes_goes_step_by_step)
    if (conditions != NULL && strcmp(conditions, "0") == 0) {
        return bad != 0;
    }
    RUN(a_loop_goes_round_there_as_often_as_on_the_host)
    RUN(shapes_are_what_they_are)
    RUN(values_change_places)
    RUN(the_data_say_when_it_is_over)
    RUN(an_index_is_carried)
    RUN(an_index_that_is_not_there_ends_it)
    RUN(what_the_host_must_see_in_each_round_stays)
    RUN(an_endless_loop_ends_at_the_runs_deadline)
    RUN(an_endless_loop_can_be_cancelled)
    RUN(a_long_loop_is_launched_more_than_once)
    RUN(runs_at_once_have_loops_of_their_own)
    RUN(a_loop_finds_no_room)
    return bad != 0;
}
