/* tests/unit/core/test_select.c - kernel rows added to an op: which one serves which shapes, and why not the
 * others; workspace, state, errors of prepare, rows that compete.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/select.h"

#include "core/base/mem.h"
#include "core/base/timings.h"
#include "core/function/placement.h"
#include "core/run/trial.h"
#include "tests/unit/core/graph_make.h"

enum { MANY = 8, WORKSPACE = 1000 };

/* ------------------------------------------------------------------ rows for Neg and LateNeg */

static int states, prepared, spins;
static bool was_lasting;

static enum td_code for_many(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    was_lasting = q->lasting;
    o->refusal = td_shape_count(&q->in[0]) < MANY ? "too few elements" : NULL;
    o->state = td_calloc(1, sizeof(int64_t));
    CHECK(o->state != NULL && o->row->prepare == for_many);
    *(int64_t *)o->state = td_shape_count(&q->in[0]);
    states++;
    prepared++;
    o->workspace_bytes = WORKSPACE;
    return TD_OK;
}

static void release(void *state)
{
    states--;
    td_free(state);
}

static enum td_code negate_many(struct td_call *c, struct td_err *err)
{
    CHECK_INT(*(const int64_t *)c->state, td_tensor_count(c->in[0]));
    CHECK(c->workspace != NULL && (uintptr_t)c->workspace % 64 == 0);
    memset(c->workspace, 0xee, WORKSPACE);
    return make_late_negate(c, err);
}

static enum td_code never(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)o;
    TD_FAIL(err, INVALID_ARGUMENT, "%s: no pattern", TD_NODE_STR(q->node));
}

static enum td_code spin(struct td_call *c, struct td_err *err)
{
    const int64_t until_ns = td_now_ns() + 200000;
    while (td_now_ns() < until_ns) {
    }
    spins++;
    return make_negate(c, err);
}

static const struct td_kernel rows[] = {
    {.name = "neg.fails", .prepare = never, .run = make_negate},
    {.name = "neg.many", .library = TD_LIB_DNNL, .prepare = for_many, .release = release, .run = negate_many},
    {.name = NULL},
};
static const struct td_kernel hopeless[] = {
    {.name = "one.fails", .prepare = never, .run = make_one},
    {.name = NULL},
};
static const struct td_kernel rivals[] = {
    {.name = "neg.slow", .competes = true, .run = spin},
    {.name = "neg.fast", .competes = true, .run = make_negate},
    {.name = NULL},
};

/* ------------------------------------------------------------------ x -> n (Neg or LateNeg) */

struct one {
    struct made m;
    struct td_model *model;
    struct td_callable *f;
};

static void open_one(struct one *o, const char *op, const struct td_kernel *added,
                     const struct td_model_opts *how)
{
    struct td_err err = {0};
    made_start(&o->m);
    CHECK_OK(td_op_table_add_kernels(o->m.ops, op, added, &err));
    made_add(&o->m.graph, "x", "X", "");
    made_add(&o->m.graph, "n", op, "x");
    CHECK_INT(made_resolve(&o->m), TD_OK);
    struct td_model_opts opts = *how;
    opts.ops = o->m.ops;
    CHECK_OK(td_model_new(&opts, o->m.arena, &o->m.graph, &o->m.lib, &o->model, &err));
    o->m.arena = NULL;
    struct td_value at = made_value(&o->m, "x"), want = made_value(&o->m, "n");
    const struct td_callable_opts f = {
        .name = "f", .feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    CHECK_OK(td_callable_new(o->model, &f, &o->f, &err));
}

static void close_one(struct one *o)
{
    td_model_unref(o->model);
    made_end(&o->m);
}

static void note_kernel(void *ctx, const struct td_observed *o)
{
    snprintf(ctx, 40, "%s", o->kernel);
}

/* The kernel that negated n numbers. */
static const char *kernel_for(struct one *o, int64_t n)
{
    static char seen[40];
    struct td_err err = {0};
    const struct td_run_opts watch = {.observe = note_kernel, .ctx = seen};
    struct td_tensor x = made_tensor(n, 1), y;
    CHECK_OK(td_callable_run(o->f, &x, &y, &watch, &err));
    CHECK(td_tensor_count(&y) == n && TD_DATA(&y, float)[n - 1] == -TD_DATA(&x, float)[n - 1]);
    td_tensor_clear(&x);
    td_tensor_clear(&y);
    return seen;
}

static void note_placement(void *ctx, const struct td_placement *p)
{
    if (strcmp(p->node->name, "n") == 0) {
        snprintf(ctx, 200, "%s (%s)", p->kernel, p->why);
    }
}

TEST(the_row_that_serves_the_shapes_runs_and_the_others_say_why_not)
{
    struct td_err err = {0};
    char placed[200];
    struct one o;
    open_one(&o, "Neg", rows, &(struct td_model_opts){0});
    CHECK_OK(td_placement_each(o.f, note_placement, placed, &err));
    CHECK_STR(placed, "neg.fails ()"); /* nobody knows a shape yet */
    CHECK_STR(kernel_for(&o, MANY), "neg.many");
    CHECK_OK(td_placement_each(o.f, note_placement, placed, &err));
    CHECK_STR(placed, "neg.many (neg.fails: node 'n' (Neg): no pattern)");
    CHECK_STR(kernel_for(&o, MANY - 1), "neg");
    CHECK_OK(td_placement_each(o.f, note_placement, placed, &err));
    CHECK_STR(placed, "neg (neg.fails: node 'n' (Neg): no pattern; neg.many: too few elements)");
    CHECK_INT(states, 1);
    close_one(&o);
    CHECK_INT(states, 0);
}

TEST(shapes_found_in_the_run_choose_there_and_keep_the_choice)
{
    struct one o;
    open_one(&o, "LateNeg", rows, &(struct td_model_opts){0});
    prepared = 0;
    CHECK_STR(kernel_for(&o, MANY), "neg.many");
    CHECK_STR(kernel_for(&o, MANY), "neg.many");
    CHECK(was_lasting);
    CHECK_INT(prepared, 1);
    CHECK_INT(states, 1);
    CHECK_STR(kernel_for(&o, 1), "late");
    close_one(&o);
    CHECK_INT(states, 0);
}

TEST(rows_are_left_out_by_their_library)
{
    struct one o;
    open_one(&o, "Neg", rows, &(struct td_model_opts){.kernels = TD_KERNELS_OPENBLAS});
    CHECK_STR(kernel_for(&o, MANY), "neg");
    close_one(&o);
}

TEST(when_no_row_is_left_the_run_says_what_the_last_said)
{
    static const struct td_op ops[] = {
        {.name = "Lost", .sig = "(x:float) -> (y:float)", .infer = td_infer_same, .kernels = hopeless},
        {.name = NULL}};
    struct td_err err = {0};
    struct made m;
    made_start(&m);
    CHECK_OK(td_op_table_add(m.ops, ops, &err));
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Lost", "x");
    CHECK_INT(made_resolve(&m), TD_OK);
    struct td_model *model;
    struct td_model_opts opts = {.ops = m.ops};
    CHECK_OK(td_model_new(&opts, m.arena, &m.graph, &m.lib, &model, &err));
    m.arena = NULL;
    struct td_value at = made_value(&m, "x"), want = made_value(&m, "n");
    struct td_callable *f;
    const struct td_callable_opts fo = {
        .name = "f", .feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    CHECK_OK(td_callable_new(model, &fo, &f, &err));
    struct td_tensor x = made_tensor(3, 1), y;
    CHECK_INT(td_callable_run(f, &x, &y, NULL, &err), TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, "node 'n' (Lost): no pattern");
    td_tensor_clear(&x);
    td_model_unref(model);
    made_end(&m);
}

TEST(of_rows_that_compete_the_first_runs_unless_trials_are_allowed)
{
    struct td_err err = {0};
    struct td_timings *t;
    CHECK_OK(td_timings_open(NULL, "here", &t, &err));
    struct one o;
    open_one(&o, "Neg", rivals, &(struct td_model_opts){0});
    CHECK_STR(kernel_for(&o, 100), "neg.slow");
    close_one(&o);
    spins = 0;
    open_one(&o, "Neg", rivals, &(struct td_model_opts){.trial_ns = 20000000, .timings = t});
    CHECK_STR(kernel_for(&o, 100), "neg.fast");
    CHECK(spins >= 2);
    close_one(&o);
    spins = 0; /* what was learnt is found again */
    open_one(&o, "Neg", rivals, &(struct td_model_opts){.trial_ns = 20000000, .timings = t});
    CHECK_STR(kernel_for(&o, 100), "neg.fast");
    CHECK_INT(spins, 0);
    close_one(&o);
    td_timings_close(t);
}

TEST(rows_for_an_op_that_is_not_there_are_refused)
{
    struct made m;
    struct td_err err = {0}, none = {0};
    made_start(&m);
    CHECK_INT(td_op_table_add_kernels(m.ops, "Absent", rows, &err), TD_NOT_FOUND);
    CHECK_STR(err.msg, "kernels for op 'Absent': there is no such op");
    CHECK_INT(td_op_table_add_kernels(m.ops, "Neg", rows + 2, &none), TD_INVALID_ARGUMENT);
    td_arena_free(m.arena);
    m.arena = NULL;
    made_end(&m);
}

TEST_MAIN(RUN(the_row_that_serves_the_shapes_runs_and_the_others_say_why_not)
              RUN(shapes_found_in_the_run_choose_there_and_keep_the_choice)
                  RUN(rows_are_left_out_by_their_library)
                      RUN(when_no_row_is_left_the_run_says_what_the_last_said)
                          RUN(of_rows_that_compete_the_first_runs_unless_trials_are_allowed)
                              RUN(rows_for_an_op_that_is_not_there_are_refused))
