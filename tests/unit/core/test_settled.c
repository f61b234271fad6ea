/* tests/unit/core/test_settled.c - core/run/settled.c: what follows from variables runs once, until they hold
 * something else.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <unistd.h>

#include "core/base/budget.h"
#include "core/base/buffer.h"
#include "core/run/bound_plan.h"
#include "core/run/model.h"
#include "tests/unit/core/pass_make.h"

static int n_counted;                          /* runs of Counted */
static td_stop stopped, *stops_at_once = NULL; /* that one of them sets, if any */
static enum td_code count_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0; i < td_tensor_count(y); i++) {
        TD_DATA(y, float)[i] = -TD_DATA(c->in[0], float)[i];
    }
    n_counted++;
    if (stops_at_once != NULL) {
        atomic_store(stops_at_once, TD_DEADLINE_EXCEEDED);
    }
    return TD_OK;
}
/* Within a run: on_pause, if there is one. */
static void (*on_pause)(void *ctx);
static void *paused;
static enum td_code pause_run(struct td_call *c, struct td_err *err)
{
    void (*const fn)(void *) = on_pause;
    on_pause = NULL;
    if (fn != NULL) {
        fn(paused);
    }
    return td_out_view(c, 0, 0, NULL, err);
}

static const struct td_op counted_ops[] = {
    {.name = "Pause",
     .sig = "(x:float) -> (y:float)",
     .flags = TD_OP_VIEW,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("pause", pause_run)},
    {.name = "Counted",
     .sig = "(x:float) -> (y:float)",
     .infer = td_infer_same,
     .kernels = TD_KERNEL("counted", count_run)},
    {.name = NULL},
};

#define T "{T:type=float} "
#define VARIABLE "b = VarHandleOp {dtype:type=float; shape:shape=[2]; shared_name:string='b'} ()\n"
#define READ(name, more) name " = ReadVariableOp {dtype:type=float} (b" more ")\n"
#define ASSIGN "d = AssignVariableOp {dtype:type=float} (b, y)\n"

/* A graph of x and y that fetches r, and has d to assign y to its variable. */
struct learnt {
    struct passed t;
    struct td_op_table *ops;
    struct td_model *model;
    struct td_callable *read, *write;
};

static void start(struct learnt *l, const char *text)
{
    struct td_err err = {0};
    CHECK_OK(td_op_table_new(td_op_families, &l->ops, &err));
    CHECK_OK(td_op_table_add(l->ops, counted_ops, &err));
    passed_open_with(&l->t, l->ops, text, "r");
    struct td_model_opts opts = {.ops = l->ops};
    CHECK_OK(td_model_new(&opts, NULL, &l->t.g.graph, &l->t.g.lib, &l->model, &err));
    CHECK_OK(td_callable_new(l->model, &l->t.how, &l->read, &err));
    struct td_node *assign = td_graph_find(&l->t.g.graph, "d", 1);
    struct td_callable_opts write = l->t.how;
    write.n_fetches = 0;
    write.targets = &assign;
    write.n_targets = 1;
    CHECK_OK(td_callable_new(l->model, &write, &l->write, &err));
    n_counted = 0;
}

static void end(struct learnt *l)
{
    td_model_unref(l->model);
    passed_close(&l->t);
    td_op_table_free(l->ops);
}

static struct td_tensor pair(float a, float b)
{
    struct td_shape two = td_shape_vector(2);
    return ramp(&two, a, (b - a) / 7);
}

static void learn(struct learnt *l, float a, float b)
{
    struct td_err err = {0};
    struct td_tensor in[2] = {pair(0, 0), pair(a, b)};
    CHECK_OK(td_callable_run(l->write, in, NULL, NULL, &err));
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

static enum td_code ask(struct learnt *l, const struct td_run_opts *opts, float *r, struct td_err *err)
{
    struct td_tensor in[2] = {pair(10, 20), pair(0, 0)}, out = {0};
    const enum td_code rc = td_callable_run(l->read, in, &out, opts, err);
    if (rc == TD_OK) {
        memcpy(r, out.data, 2 * sizeof *r);
    }
    td_tensor_clear(&out);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    return rc;
}

/* The answer to x = 10, 20. */
static void answers(struct learnt *l, float a, float b)
{
    struct td_err err = {0};
    float r[2] = {0};
    CHECK_OK(ask(l, NULL, r, &err));
    CHECK(r[0] == a && r[1] == b);
}

#define SUM XY VARIABLE ASSIGN READ("v", "") "c = Counted (v)\nr = AddV2 " T "(x, c)\n"

TEST(it_runs_until_variables_have_stayed_and_no_more)
{
    struct learnt l;
    start(&l, SUM);
    learn(&l, 1, 2);
    for (int i = 0; i < 5; i++) {
        answers(&l, 9, 18);
    }
    CHECK_INT(n_counted, 2);
    learn(&l, 3, 4); /* seen at once */
    answers(&l, 7, 16);
    CHECK_INT(n_counted, 3);
    for (int i = 0; i < 5; i++) {
        answers(&l, 7, 16);
    }
    CHECK_INT(n_counted, 4);
    end(&l);
}

TEST(a_variable_that_changes_each_time_is_read_each_time)
{
    struct learnt l;
    start(&l, SUM);
    for (int i = 0; i < 6; i++) {
        learn(&l, (float)i, 0);
        answers(&l, 10 - (float)i, 20);
        CHECK_INT(n_counted, i + 1);
    }
    end(&l);
}

TEST(one_model_keeps_its_values_while_others_learn)
{
    struct learnt l, other;
    start(&l, SUM);
    start(&other, SUM);
    learn(&l, 1, 2);
    for (int i = 0; i < 3; i++) {
        answers(&l, 9, 18);
    }
    for (int i = 0; i < 3; i++) {
        learn(&other, (float)i, 0);
        answers(&l, 9, 18);
    }
    CHECK_INT(n_counted, 2);
    end(&other);
    end(&l);
}

TEST(what_is_read_behind_a_write_is_what_was_written)
{
    struct learnt l;
    start(&l, XY VARIABLE ASSIGN READ("v", "") "c = Counted (v)\n"
                                               "o = AssignAddVariableOp {dtype:type=float} (b, x, ^c)\n" READ(
                                                   "w", ", ^o") "r = AddV2 " T "(c, w)\n");
    learn(&l, 1, 2);
    for (int i = 0; i < 4; i++) { /* -b + (b + x) */
        answers(&l, 10, 20);
    }
    CHECK_INT(n_counted, 4);
    end(&l);
}

TEST(a_run_that_is_stopped_works_nothing_out_and_the_next_does)
{
    struct learnt l;
    struct td_err err = {0};
    float r[2];
    start(&l, XY VARIABLE ASSIGN READ("v", "") "n = Counted (v)\nc = Counted (n)\nr = AddV2 " T "(x, c)\n");
    learn(&l, 1, 2);
    answers(&l, 11, 22);
    stops_at_once = &stopped;
    CHECK_INT(ask(&l, &(struct td_run_opts){.work.stop = &stopped}, r, &err), TD_DEADLINE_EXCEEDED);
    CHECK_INT(n_counted, 3);
    stops_at_once = NULL;
    for (int i = 0; i < 5; i++) {
        answers(&l, 11, 22);
    }
    CHECK(n_counted <= 3 + 2 * 3);
    end(&l);
}

static void on_step(void *ctx, const struct td_observed *o)
{
    *(int *)ctx += strcmp(o->node->op_name, "Counted") == 0;
}

TEST(who_observes_sees_every_step)
{
    struct learnt l;
    struct td_err err = {0};
    float r[2];
    int seen = 0;
    start(&l, SUM);
    learn(&l, 1, 2);
    for (int i = 0; i < 3; i++) {
        answers(&l, 9, 18);
    }
    CHECK_OK(ask(&l, &(struct td_run_opts){.observe = on_step, .ctx = &seen}, r, &err));
    CHECK(seen == 1 && r[0] == 9 && r[1] == 18);
    answers(&l, 9, 18);
    CHECK_INT(n_counted, 3);
    end(&l);
}

TEST(an_unset_variable_is_the_runs_error)
{
    struct learnt l;
    float r[2];
    start(&l, SUM);
    for (int i = 0; i < 3; i++) {
        struct td_err err = {0};
        CHECK_INT(ask(&l, NULL, r, &err), TD_FAILED_PRECONDITION);
    }
    CHECK_INT(n_counted, 0);
    learn(&l, 1, 2);
    for (int i = 0; i < 3; i++) {
        answers(&l, 9, 18);
    }
    CHECK_INT(n_counted, 2);
    end(&l);
}

TEST(results_that_are_fetched_stay_the_callers)
{
    struct learnt l;
    struct td_err err = {0};
    start(&l, XY VARIABLE ASSIGN READ("v", "") "r = Counted (v)\n");
    learn(&l, 1, 2);
    struct td_tensor in[2] = {pair(0, 0), pair(0, 0)}, out[4];
    for (int i = 0; i < 4; i++) {
        CHECK_OK(td_callable_run(l.read, in, &out[i], NULL, &err));
    }
    learn(&l, 3, 4);
    answers(&l, -3, -4);
    for (int i = 0; i < 4; i++) {
        CHECK(TD_DATA(&out[i], float)[0] == -1 && TD_DATA(&out[i], float)[1] == -2);
        td_tensor_clear(&out[i]);
    }
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    end(&l);
}

/* What is kept, w, is 8000 bytes, enough to be looked for among others' values. */
#define LARGE                                                                                                \
    XY VARIABLE ASSIGN READ("v",                                                                             \
                            "") "w = Tile {T:type=float; Tmultiples:type=int32} (v, int32[1] 1000)\n"        \
                                "p = Pause (x)\n"                                                            \
                                "q = Tile {T:type=float; Tmultiples:type=int32} (p, int32[1] 1000)\n"        \
                                "m = AddV2 " T "(q, w)\n"                                                    \
                                "r = Slice {T:type=float; Index:type=int32} (m, int32[1] 0, int32[1] 2)\n"

static void ask_beside(void *l)
{
    answers(l, 11, 22);
}

TEST(frames_that_idle_hold_no_values_of_before)
{
    struct learnt l;
    start(&l, LARGE);
    learn(&l, 1, 2);
    answers(&l, 11, 22);
    on_pause = ask_beside;
    paused = &l;
    answers(&l, 11, 22); /* two frames */
    on_pause = ask_beside;
    answers(&l, 11, 22);
    const uint64_t bytes = td_buffer_live_bytes();
    learn(&l, 3, 4);
    for (int i = 0; i < 3; i++) {
        answers(&l, 13, 24);
    }
    CHECK_INT(td_buffer_live_bytes(), bytes);
    end(&l);
}

static void let_go(void *unused, size_t bytes)
{
    (void)unused;
    (void)bytes;
    td_frames_trim();
}

/* Whichever allocation it is that finds memory short: an alarm ends the test where it waits for itself. */
TEST(values_go_while_others_are_worked_out)
{
    enum { PART = 64 };
    struct learnt l, other;
    start(&l, LARGE);
    start(&other, LARGE);
    learn(&l, 1, 2);
    learn(&other, 3, 4);
    td_budget_on_shortage(let_go, NULL);
    alarm(120);
    for (int64_t bytes = 0; bytes < TD_BUDGET_STEP; bytes += PART) {
        struct td_err err = {0};
        struct td_tensor in[2] = {pair(10, 20), pair(0, 0)}, out = {0};
        td_frames_trim();
        answers(&other, 13, 24);
        td_budget_limit(1, "the test's limit");
        td_budget_add((size_t)bytes);
        const enum td_code rc = td_callable_run(l.read, in, &out, NULL, &err);
        td_budget_limit(0, "");
        td_budget_give((size_t)bytes);
        CHECK(rc == TD_RESOURCE_EXHAUSTED ||
              (rc == TD_OK && TD_DATA(&out, float)[0] == 11 && TD_DATA(&out, float)[1] == 22));
        td_tensor_clear(&in[0]);
        td_tensor_clear(&in[1]);
        td_tensor_clear(&out);
    }
    alarm(0);
    td_budget_on_shortage(NULL, NULL);
    end(&other);
    end(&l);
}

enum { READERS = 3, ROUNDS = 300 };

struct reader {
    pthread_t thread;
    struct learnt *l;
};

/* Answers are of one value of the variable each, which is (n, 2n). */
static void *read_often(void *arg)
{
    const struct reader *me = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct td_err err = {0};
        float r[2] = {0};
        CHECK_OK(ask(me->l, NULL, r, &err));
        CHECK(20 - r[1] == 2 * (10 - r[0]));
    }
    return NULL;
}

TEST(readers_see_one_value_while_it_is_written)
{
    struct learnt l;
    struct reader reader[READERS];
    start(&l, XY VARIABLE ASSIGN READ("v", "") "c = Neg " T "(v)\nr = AddV2 " T "(x, c)\n");
    learn(&l, 1, 2);
    for (int i = 0; i < READERS; i++) {
        reader[i].l = &l;
        CHECK(pthread_create(&reader[i].thread, NULL, read_often, &reader[i]) == 0);
    }
    for (int i = 0; i < ROUNDS / 10; i++) {
        learn(&l, (float)i, 2 * (float)i);
        for (int k = 0; k < 10; k++) {
            answers(&l, 10 - (float)i, 20 - 2 * (float)i);
        }
    }
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_join(reader[i].thread, NULL) == 0);
    }
    end(&l);
}

TEST_MAIN(RUN(it_runs_until_variables_have_stayed_and_no_more)
              RUN(a_variable_that_changes_each_time_is_read_each_time)
                  RUN(one_model_keeps_its_values_while_others_learn)
                      RUN(what_is_read_behind_a_write_is_what_was_written)
                          RUN(a_run_that_is_stopped_works_nothing_out_and_the_next_does)
                              RUN(who_observes_sees_every_step) RUN(an_unset_variable_is_the_runs_error)
                                  RUN(results_that_are_fetched_stay_the_callers)
                                      RUN(frames_that_idle_hold_no_values_of_before)
                                          RUN(values_go_while_others_are_worked_out)
                                              RUN(readers_see_one_value_while_it_is_written))
