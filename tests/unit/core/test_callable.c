/* tests/unit/core/test_callable.c - polymorphic functions: what traces again, what is kept, first calls at
 * once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "core/run/bound_plan.h"
#include "tests/unit/core/graph_make.h"

static struct made m;
static struct td_model *model;

/* Of the graph in m: x -> fetch. */
static enum td_code compile(const char *fetch, struct td_callable **f)
{
    CHECK_INT(made_resolve(&m), TD_OK);
    model = made_model(&m);
    struct td_value at = made_value(&m, "x"), want = made_value(&m, fetch);
    struct td_callable_opts opts = {
        .name = "f", .feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    return td_callable_new(model, &opts, f, &m.err);
}

/* y = -x + -x */
static struct td_callable *start(void)
{
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "n", "Neg", "x");
    made_add(&m.graph, "y", "Add", "n n");
    made_add(&m.graph, "lost", "Mystery", "n");
    struct td_callable *f;
    CHECK_INT(compile("y", &f), TD_OK);
    return f;
}

static void end(void)
{
    td_model_unref(model);
    made_end(&m);
}

static enum td_code call(struct td_callable *f, int64_t rows, int64_t width, struct td_err *err)
{
    struct td_shape shape = td_shape_matrix(rows, width);
    struct td_tensor x, y;
    TD_TRY(td_tensor_new(&x, TD_FLOAT, &shape, err));
    for (int64_t i = 0; i < rows * width; i++) {
        TD_DATA(&x, float)[i] = (float)i;
    }
    enum td_code rc = td_callable_run(f, &x, &y, NULL, err);
    if (rc == TD_OK) {
        CHECK(td_shape_equal(&y.shape, &shape));
        CHECK(rows * width == 0 || TD_DATA(&y, float)[rows * width - 1] == -2 * (float)(rows * width - 1));
        td_tensor_clear(&y);
    }
    td_tensor_clear(&x);
    return rc;
}

static struct td_callable_stat stat_of(struct td_callable *f)
{
    struct td_callable_stat s;
    td_callable_stats(f, &s);
    return s;
}

TEST(a_new_leading_dimension_is_no_new_trace)
{
    struct td_err err = {0};
    struct td_callable *f = start();
    CHECK_INT(stat_of(f).traces, 0);
    for (int64_t rows = 0; rows < 40; rows++) { /* more than the bound plans that are kept */
        CHECK_OK(call(f, rows, 3, &err));
        CHECK_OK(call(f, 39 - rows, 3, &err));
    }
    CHECK_INT(stat_of(f).traces, 1);
    CHECK_OK(call(f, 1, 4, &err));
    CHECK_INT(stat_of(f).traces, 2);
    CHECK_OK(call(f, 7, 3, &err));
    CHECK_INT(stat_of(f).traces, 2);
    end();
}

TEST(the_least_recently_used_goes)
{
    struct td_err err = {0};
    struct td_callable *f = start();
    for (int64_t width = 1; width <= 64; width++) {
        CHECK_OK(call(f, 2, width, &err));
    }
    CHECK(stat_of(f).traces == 64 && stat_of(f).evictions == 0);
    CHECK_OK(call(f, 2, 1, &err)); /* the oldest is used again */
    CHECK_OK(call(f, 2, 65, &err));
    CHECK(stat_of(f).evictions == 1 && stat_of(f).n_concrete == 64);
    CHECK_OK(call(f, 2, 1, &err)); /* still there */
    CHECK_INT(stat_of(f).traces, 65);
    CHECK_OK(call(f, 2, 2, &err)); /* that one went */
    CHECK_INT(stat_of(f).traces, 66);
    end();
}

TEST(another_dtype_is_refused_with_tensorflows_words)
{
    struct td_callable *f = start();
    int32_t value = 1;
    struct td_tensor x = {.data = &value, .dtype = TD_INT32, .shape = td_shape_vector(1)}, y;
    CHECK_INT(td_callable_run(f, &x, &y, NULL, &m.err), TD_INVALID_ARGUMENT);
    CHECK_STR(
        m.err.msg,
        "cannot compute f as input #0(zero-based) was expected to be a float tensor but is a int32 tensor");
    end();
}

static void on_concrete(void *ctx, const struct td_concrete_stat *c)
{
    uint64_t *calls = ctx;
    CHECK(c->n_in == 1 && c->dtype[0] == TD_FLOAT && c->shape[0].dim[0] == -1 && c->plan_steps > 0 &&
          c->n_kernels > 0);
    calls[c->shape[0].dim[1]] += c->calls;
}

static void on_bytes(void *ctx, const struct td_concrete_stat *c)
{
    size_t *bytes = ctx;
    bytes[c->shape[0].dim[1]] = c->bytes;
}

static size_t enough;

static bool is_less(void *f)
{
    return td_callable_bytes(f) < enough;
}

static bool is_never(void *unused)
{
    (void)unused;
    return false;
}

TEST(short_of_memory_plans_go_by_age)
{
    struct td_err err = {0};
    struct td_callable *f = start();
    size_t bytes[4] = {0};
    for (int64_t width = 1; width <= 3; width++) {
        CHECK_OK(call(f, 2, width, &err));
        CHECK_INT(usleep(100000), 0);
    }
    CHECK_OK(call(f, 2, 1, &err));                         /* the oldest is used again */
    CHECK(td_bound_plans_bytes() >= td_callable_bytes(f)); /* frames idle, too */
    enough = td_callable_bytes(f);                         /* any less */
    td_callables_trim(is_less, f);
    td_callable_each(f, on_bytes, bytes);
    CHECK(bytes[1] > 0 && bytes[2] == 0 && bytes[3] > 0);
    td_callables_trim(is_never, NULL);
    CHECK_INT(td_callable_bytes(f), 0);
    CHECK_INT(td_bound_plans_bytes(), 0);
    for (int64_t width = 1; width <= 3; width++) {
        CHECK_OK(call(f, 2, width, &err));
    }
    CHECK(stat_of(f).traces == 3 && td_callable_bytes(f) > 0);
    end();
}

static bool is_room(void *bytes)
{
    return td_budget_fits(*(const size_t *)bytes);
}

static void on_shortage(void *unused, size_t bytes)
{
    (void)unused;
    td_callables_trim(is_room, &bytes);
}

/* Running more shapes than the budget has room for: old ones go, and no call is refused. */
TEST(a_new_shape_takes_the_room_of_old_ones)
{
    struct td_err err = {0};
    struct td_callable *f = start();
    CHECK_OK(call(f, 1, 1, &err));
    const size_t one = td_callable_bytes(f);
    td_budget_limit(td_budget_held() + TD_BUDGET_STEP + 200 * one, "--such_a_limit");
    td_budget_on_shortage(on_shortage, NULL);
    for (int64_t rows = 1; rows <= 16; rows++) {
        for (int64_t width = 1; width <= 50; width++) {
            CHECK_OK(call(f, rows, width, &err));
        }
    }
    td_budget_limit(0, "");
    CHECK(td_callable_bytes(f) < 400 * one);
    end();
}

/* The type of what an unknown op gives is not known, and passes move it to where another type was. */
TEST(an_op_that_is_not_known_is_refused_behind_an_identity)
{
    static const char *const fetched[] = {"same", "neg"};
    for (int i = 0; i < 2; i++) {
        made_start(&m);
        made_add(&m.graph, "x", "X", "");
        made_add(&m.graph, "lost", "Mystery", "x");
        made_add(&m.graph, "same", "Same", "lost");
        made_add(&m.graph, "neg", "Neg", "same");
        struct td_callable *f;
        const enum td_code rc = compile(fetched[i], &f);
        CHECK_INT(rc ? rc : call(f, 1, 4, &m.err), TD_UNIMPLEMENTED);
        CHECK(strstr(m.err.msg, "Mystery") != NULL);
        end();
    }
}

TEST(calls_are_counted_by_concrete_function)
{
    struct td_err err = {0};
    struct td_callable *f = start();
    uint64_t calls[4] = {0};
    for (int i = 0; i < 6; i++) {
        CHECK_OK(call(f, 1 + i, 1 + i % 3, &err));
    }
    CHECK_OK(call(f, 1, 3, &err));
    td_callable_each(f, on_concrete, calls);
    CHECK(calls[1] == 2 && calls[2] == 2 && calls[3] == 3);
    end();
}

TEST(what_is_missing_is_named)
{
    struct td_callable *f = start(), *lost;
    struct td_missing rows[2];
    CHECK_INT(td_callable_missing(f, rows, 2), 0);
    struct td_value at = made_value(&m, "x"), want = made_value(&m, "lost");
    struct td_callable_opts opts = {
        .feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1, .once = true};
    CHECK_INT(td_callable_new(model, &opts, &lost, &m.err), TD_OK);
    CHECK_INT(td_callable_missing(lost, rows, 2), 1);
    CHECK_STR(rows[0].node, "lost");
    CHECK_STR(rows[0].op, "Mystery");
    struct td_tensor x = made_tensor(1, 1), y;
    CHECK_INT(td_callable_run(lost, &x, &y, NULL, &m.err), TD_UNIMPLEMENTED);
    CHECK(strstr(m.err.msg, "Op type not registered 'Mystery'") != NULL &&
          strstr(m.err.msg, "'lost'") != NULL);
    td_tensor_clear(&x);
    td_callable_drop(lost);
    end();
}

static void *first_call(void *f)
{
    struct td_err err = {0};
    for (int i = 0; i < 200; i++) {
        CHECK_OK(call(f, 1 + i % 20, 5, &err));
    }
    return NULL;
}

TEST(first_calls_at_once_trace_once)
{
    struct td_callable *f = start();
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        CHECK_INT(pthread_create(&t[i], NULL, first_call, f), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
    }
    CHECK_INT(stat_of(f).traces, 1);
    end();
}

/* Whether a run of `op` may be had again, once two have been. */
static bool repeats(const char *op)
{
    struct td_callable *f;
    const struct td_shape shape = td_shape_vector(3);
    struct td_tensor x, y;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "y", op, "x");
    CHECK_INT(compile("y", &f), TD_OK);
    CHECK(!td_callable_repeats(f));
    CHECK_INT(td_tensor_new(&x, TD_FLOAT, &shape, &m.err), TD_OK);
    memset(x.data, 0, td_tensor_bytes(&x));
    for (int i = 0; i < 2; i++) {
        CHECK_INT(td_callable_run(f, &x, &y, NULL, &m.err), TD_OK);
        td_tensor_clear(&y);
    }
    const bool yes = td_callable_repeats(f);
    td_tensor_clear(&x);
    end();
    return yes;
}

TEST(a_run_may_be_had_again_unless_it_has_effects)
{
    CHECK(repeats("Neg"));
    CHECK(repeats("Draw"));
    CHECK(!repeats("Effect"));
}

TEST_MAIN(RUN(a_new_leading_dimension_is_no_new_trace) RUN(the_least_recently_used_goes)
              RUN(short_of_memory_plans_go_by_age) RUN(a_new_shape_takes_the_room_of_old_ones)
                  RUN(another_dtype_is_refused_with_tensorflows_words)
                      RUN(calls_are_counted_by_concrete_function) RUN(what_is_missing_is_named)
                          RUN(an_op_that_is_not_known_is_refused_behind_an_identity)
                              RUN(first_calls_at_once_trace_once)
                                  RUN(a_run_may_be_had_again_unless_it_has_effects))
