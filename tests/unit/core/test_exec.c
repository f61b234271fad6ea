/* tests/unit/core/test_exec.c - the step loop: order, stopping, kernels that break their promises, memory
 * that runs out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/exec.h"
#include "core/run/lone.h"

#include "core/base/mem.h"
#include "tests/unit/core/graph_make.h"

static enum td_code make_nothing(struct td_call *c, struct td_err *err)
{
    (void)c;
    (void)err;
    return TD_OK;
}

static enum td_code make_wrong_shape(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_shape shape = td_shape_vector(td_tensor_count(c->in[0]) + 1);
    return td_out(c, 0, &shape, &y, err);
}

static enum td_code make_wrong_type(struct td_call *c, struct td_err *err)
{
    struct td_tensor t;
    TD_TRY(td_tensor_new(&t, TD_INT32, &c->in[0]->shape, err));
    td_out_move(c, 0, &t);
    return TD_OK;
}

static enum td_code make_failure(struct td_call *c, struct td_err *err)
{
    return td_fail(err, TD_OUT_OF_RANGE, "%s: refuses", TD_NODE_STR(c->node));
}

/* Keeps its input, as a variable would, and the bytes it was given are another's afterwards. */
static struct td_tensor kept;
static enum td_code make_kept(struct td_call *c, struct td_err *err)
{
    TD_TRY(td_keep(c, 0, &kept, err));
    return make_negate(c, err);
}

static enum td_code make_scratch(struct td_call *c, struct td_err *err)
{
    void *p, *q;
    TD_TRY(td_scratch(c, 100, &p, err));
    TD_TRY(td_scratch(c, 100, &q, err));
    CHECK(p != q && (uintptr_t)p % 64 == 0);
    memset(p, 1, 100);
    memset(q, 2, 100);
    return make_negate(c, err);
}

static td_stop stop_word;
static enum td_code make_stop(struct td_call *c, struct td_err *err)
{
    atomic_store(&stop_word, TD_CANCELLED);
    CHECK(td_stopped(c));
    return make_negate(c, err);
}

#define ROW(op_name, op_infer, op_flags, fn)                                                                 \
    {                                                                                                        \
        .name = op_name, .sig = "(x:float) -> (y:float)", .flags = op_flags, .infer = op_infer,              \
        .kernels = TD_KERNEL(op_name, fn)                                                                    \
    }
static const struct td_op own_ops[] = {
    ROW("Nothing", td_infer_same, 0, make_nothing),     ROW("WrongShape", td_infer_same, 0, make_wrong_shape),
    ROW("WrongType", NULL, 0, make_wrong_type),         ROW("Failure", td_infer_same, 0, make_failure),
    ROW("Kept", td_infer_same, TD_OP_KEEPS, make_kept), ROW("Scratch", td_infer_same, 0, make_scratch),
    ROW("Stop", td_infer_same, 0, make_stop),           {.name = NULL},
};

static struct made m;
static struct td_model *model;

/* x -> a (Neg) -> b (op) -> y (Neg) */
static struct td_callable *start(const char *op)
{
    made_start(&m);
    CHECK_INT(td_op_table_add(m.ops, own_ops, &m.err), TD_OK);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "a", "Neg", "x");
    made_add(&m.graph, "b", op, "a");
    made_add(&m.graph, "y", "Neg", "b");
    CHECK_INT(made_resolve(&m), TD_OK);
    model = made_model(&m);
    struct td_value at = made_value(&m, "x"), want = made_value(&m, "y");
    struct td_callable_opts opts = {
        .name = "f", .feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    struct td_callable *f;
    CHECK_INT(td_callable_new(model, &opts, &f, &m.err), TD_OK);
    return f;
}

static void end(void)
{
    td_model_unref(model);
    made_end(&m);
}

struct trail {
    char names[100];
    int64_t ns;
};

static void on_step(void *ctx, const struct td_observed *o)
{
    struct trail *t = ctx;
    size_t n = strlen(t->names);
    snprintf(t->names + n, sizeof t->names - n, "%s(%g) ", o->node->name,
             (double)TD_DATA(&o->out[0], float)[0]);
    t->ns += o->ns;
    CHECK_STR(o->device, "cpu");
}

/* Both ways of running end alike. */
static void run_both(const char *op, enum td_code code, const char *words, const char *trail)
{
    for (int eager = 0; eager < 2; eager++) {
        struct td_callable *f = start(op);
        struct trail t = {0};
        struct td_err err = {0};
        struct td_run_opts opts = {.eager = eager, .observe = on_step, .ctx = &t, .work.stop = &stop_word};
        struct td_tensor x = made_tensor(4, 1), y = {0};
        atomic_store(&stop_word, 0);
        CHECK_INT(td_callable_run(f, &x, &y, &opts, &err), code);
        if (strstr(err.msg, words) == NULL) {
            CHECK_STR(err.msg, words);
        }
        CHECK_STR(t.names, trail);
        CHECK(code == TD_OK ? TD_DATA(&y, float)[3] == -4 : y.buf == NULL);
        td_tensor_clear(&x);
        td_tensor_clear(&y);
        end();
    }
}

TEST(steps_run_in_order_and_are_seen)
{
    run_both("Scratch", TD_OK, "", "a(-1) b(1) y(-1) ");
}

TEST(a_failing_kernel_ends_the_run)
{
    run_both("Failure", TD_OUT_OF_RANGE, "node 'b' (Failure): refuses", "a(-1) ");
}

TEST(a_kernel_that_breaks_its_promise_is_caught)
{
    run_both("Nothing", TD_INTERNAL, "node 'b' (Nothing) did not make its output 0", "a(-1) ");
    run_both("WrongType", TD_INVALID_ARGUMENT,
             "node 'b' (WrongType) made output 0 of dtype int32 where float was declared", "a(-1) ");
    struct td_callable *f = start("WrongShape");
    struct td_tensor x = made_tensor(4, 1), y;
    CHECK_INT(td_callable_run(f, &x, &y, NULL, &m.err), TD_INTERNAL);
    CHECK(strstr(m.err.msg, "node 'b' (WrongShape)") != NULL && strstr(m.err.msg, "[5]") != NULL);
    td_tensor_clear(&x);
    end();
}

TEST(a_stop_word_ends_the_run_before_the_next_step)
{
    run_both("Stop", TD_CANCELLED, "the request was cancelled", "a(-1) b(1) ");
}

TEST(a_deadline_that_has_passed_runs_nothing)
{
    struct td_callable *f = start("Neg");
    struct trail t = {0};
    struct td_run_opts opts = {.work.deadline_ns = td_now_ns() - 1, .observe = on_step, .ctx = &t};
    struct td_tensor x = made_tensor(4, 1), y;
    CHECK_INT(td_callable_run(f, &x, &y, &opts, &m.err), TD_DEADLINE_EXCEEDED);
    CHECK_STR(t.names, "");
    opts.work.deadline_ns = td_now_ns() + (int64_t)60 * 1000000000;
    m.err = (struct td_err){0};
    CHECK_INT(td_callable_run(f, &x, &y, &opts, &m.err), TD_OK);
    td_tensor_clear(&x);
    td_tensor_clear(&y);
    end();
}

TEST(what_a_kernel_keeps_stays_as_it_was)
{
    struct td_callable *f = start("Kept");
    struct td_tensor x = made_tensor(4, 1), y;
    for (int round = 0; round < 3; round++) {
        CHECK_INT(td_callable_run(f, &x, &y, NULL, &m.err), TD_OK);
        struct td_tensor first = kept;
        td_tensor_clear(&y);
        CHECK_INT(td_callable_run(f, &x, &y, NULL, &m.err), TD_OK); /* the frame is used again */
        for (int i = 0; i < 4; i++) {
            CHECK_INT(TD_DATA(&first, float)[i], -(i + 1));
        }
        td_tensor_clear(&first);
        td_tensor_clear(&kept);
        td_tensor_clear(&y);
    }
    td_tensor_clear(&x);
    end();
}

TEST(every_failed_allocation_is_reported)
{
    int failures = 0;
    for (long n = 1; n < 400; n++) {
        struct td_callable *f = start("Scratch");
        struct td_tensor x = made_tensor(4, 1), y = {0};
        struct td_err err = {0};
        td_mem_fail_at(n);
        enum td_code rc = td_callable_run(f, &x, &y, NULL, &err);
        td_mem_fail_at(0);
        CHECK(rc == TD_OK || (rc == TD_RESOURCE_EXHAUSTED && err.msg[0] != 0 && y.buf == NULL));
        failures += rc != TD_OK;
        struct td_err again = {0};
        td_tensor_clear(&y);
        CHECK(td_callable_run(f, &x, &y, NULL, &again) == TD_OK &&
              TD_DATA(&y, float)[3] == -4); /* nothing is left broken */
        td_tensor_clear(&x);
        td_tensor_clear(&y);
        end();
        if (rc == TD_OK) {
            break;
        }
    }
    CHECK(failures > 3);
}

TEST(a_lone_node_runs_without_a_plan)
{
    struct td_err err = {0};
    struct td_callable *f = start("Neg");
    (void)f;
    struct td_tensor x = made_tensor(3, 1), y = {0};
    const struct td_tensor *in[] = {&x};
    const struct td_node *n = td_graph_find(td_model_graph(model), "b", 1);
    CHECK_OK(td_lone_node(model, n, in, &y, &err));
    CHECK(TD_DATA(&y, float)[2] == -3 && TD_DATA(&x, float)[2] == 3);
    td_tensor_clear(&y);
    td_tensor_clear(&x);
    end();
}

TEST_MAIN(RUN(steps_run_in_order_and_are_seen) RUN(a_failing_kernel_ends_the_run)
              RUN(a_kernel_that_breaks_its_promise_is_caught)
                  RUN(a_stop_word_ends_the_run_before_the_next_step)
                      RUN(a_deadline_that_has_passed_runs_nothing) RUN(what_a_kernel_keeps_stays_as_it_was)
                          RUN(every_failed_allocation_is_reported) RUN(a_lone_node_runs_without_a_plan))
