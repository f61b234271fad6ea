/* tests/unit/server/test_servable.c - the engine on the bundled model: tracing, bound plans, allocations,
 * failures, threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/servable_run.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "server/models/inspect.h"
#include "tests/test.h"

#ifndef DIGITS_DIR
#define DIGITS_DIR "deploy/models/digits/1"
#endif

static struct td_op_table *ops;

static enum td_code load(struct td_servable **s, struct td_err *err)
{
    struct td_servable_opts opts = {.ops = ops};
    return td_servable_load("digits", 1, DIGITS_DIR, &opts, s, err);
}

static struct td_servable *must_load(void)
{
    struct td_err err = {0};
    struct td_servable *s = NULL;
    CHECK_INT(td_op_table_new(td_op_families, &ops, &err), TD_OK);
    CHECK_INT(load(&s, &err), TD_OK);
    return s;
}

static void done(struct td_servable *s)
{
    td_servable_unref(s);
    td_op_table_free(ops);
}

static enum td_code images(int64_t n, struct td_tensor *t, struct td_err *err)
{
    struct td_shape shape = {.rank = 3, .dim = {n, 8, 8}};
    TD_TRY(td_tensor_new(t, TD_FLOAT, &shape, err));
    for (int64_t i = 0; i < n * 64; i++) {
        TD_DATA(t, float)[i] = (float)(i * 7 % 17);
    }
    return TD_OK;
}

static enum td_code ask(struct td_servable *s, const struct td_tensor *in, struct td_tensor *probabilities,
                        struct td_err *err)
{
    struct td_named given = {.name = "images", .t = *in}, out[2] = {{0}};
    struct td_servable_call call = {.sig = td_servable_signature(s, ""), .in = &given, .n_in = 1};
    int n = 0;
    TD_TRY(td_servable_run(s, &call, out, &n, err));
    CHECK_INT(n, 2);
    td_tensor_clear(&out[0].t);
    *probabilities = out[1].t;
    return TD_OK;
}

static void run_batch(struct td_servable *s, int64_t n)
{
    struct td_err err = {0};
    struct td_tensor in, out;
    CHECK_INT(images(n, &in, &err), TD_OK);
    CHECK_INT(ask(s, &in, &out, &err), TD_OK);
    CHECK_INT(out.shape.dim[0], n);
    td_tensor_clear(&in);
    td_tensor_clear(&out);
}

static uint64_t traces(struct td_servable *s)
{
    struct td_callable_stat stat;
    td_callable_stats(td_servable_callable(s, td_servable_signature(s, "")), &stat);
    return stat.traces;
}

TEST(batches_of_any_size_share_one_trace)
{
    struct td_servable *s = must_load();
    for (int64_t n = 0; n <= 64; n++) {
        run_batch(s, n);
    }
    CHECK_INT(traces(s), 1);
    done(s);
}

TEST(rows_do_not_depend_on_their_batch)
{
    struct td_servable *s = must_load();
    struct td_err err = {0};
    struct td_tensor all, one, out_all, out_one;
    CHECK_INT(images(5, &all, &err), TD_OK);
    CHECK_INT(ask(s, &all, &out_all, &err), TD_OK);
    td_tensor_rows(&one, &all, 3, 4);
    CHECK_INT(ask(s, &one, &out_one, &err), TD_OK);
    for (int i = 0; i < 10; i++) {
        float a = TD_DATA(&out_all, float)[30 + i], b = TD_DATA(&out_one, float)[i];
        CHECK(a - b < 1e-5f && b - a < 1e-5f);
    }
    td_tensor_clear(&all);
    td_tensor_clear(&one);
    td_tensor_clear(&out_all);
    td_tensor_clear(&out_one);
    done(s);
}

#ifndef TD_NO_BUFFER_CACHE
TEST(a_warmed_run_asks_the_allocator_for_nothing)
{
    struct td_servable *s = must_load();
    struct td_err err = {0};
    struct td_tensor in, out;
    CHECK_INT(images(4, &in, &err), TD_OK);
    uint64_t before = 0;
    for (int i = 0; i < 8; i++) {
        before = td_mem_allocations();
        CHECK_INT(ask(s, &in, &out, &err), TD_OK);
        td_tensor_clear(&out);
    }
    CHECK_INT(td_mem_allocations() - before, 0);
    td_tensor_clear(&in);
    done(s);
}
#endif

TEST(a_wrong_name_names_what_was_sent_and_what_is_missing)
{
    struct td_servable *s = must_load();
    struct td_err err = {0};
    struct td_named given = {.name = "pixels"}, out[2];
    CHECK_INT(images(1, &given.t, &err), TD_OK);
    struct td_servable_call call = {
        .sig = td_servable_signature(s, "serving_default"), .in = &given, .n_in = 1};
    int n;
    CHECK_INT(td_servable_run(s, &call, out, &n, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "Sent extra: {pixels}. Missing but required: {images}.") != NULL);
    td_tensor_clear(&given.t);
    done(s);
}

TEST(a_wrong_shape_names_the_node)
{
    struct td_servable *s = must_load();
    struct td_err err = {0};
    struct td_tensor in, out;
    struct td_shape shape = {.rank = 2, .dim = {3, 5}};
    CHECK_INT(td_tensor_new(&in, TD_FLOAT, &shape, &err), TD_OK);
    memset(in.data, 0, td_tensor_bytes(&in));
    CHECK_INT(ask(s, &in, &out, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "node '") != NULL);
    td_tensor_clear(&in);
    done(s);
}

TEST(a_run_past_its_deadline_stops)
{
    struct td_servable *s = must_load();
    struct td_err err = {0};
    struct td_named given = {.name = "images"}, out[2];
    CHECK_INT(images(1, &given.t, &err), TD_OK);
    const struct td_run_opts late = {.work.deadline_ns = 1};
    struct td_servable_call call = {
        .sig = td_servable_signature(s, ""), .in = &given, .n_in = 1, .run = &late};
    int n;
    CHECK_INT(td_servable_run(s, &call, out, &n, &err), TD_DEADLINE_EXCEEDED);
    td_tensor_clear(&given.t);
    done(s);
}

static void *run_many(void *servable)
{
    for (int i = 0; i < 40; i++) {
        run_batch(servable, 1 + i % 7);
    }
    return NULL;
}

TEST(concurrent_first_calls_trace_once)
{
    struct td_servable *s = must_load();
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, run_many, s), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_INT(traces(s), 1);
    done(s);
}

/* Load, run and unload with the n-th allocation failing: an error or an answer, never a crash or a leak. */
TEST(every_failed_allocation_is_reported)
{
    struct td_err err = {0};
    CHECK_INT(td_op_table_new(td_op_families, &ops, &err), TD_OK);
    int failures = 0;
    for (long n = 1; n < 20000; n += 1 + n / 8) {
        struct td_servable *s = NULL;
        struct td_tensor in = {0}, out = {0};
        struct td_err why = {0};
        td_mem_fail_at(n);
        enum td_code rc = load(&s, &why);
        rc = rc ? rc : images(2, &in, &why);
        rc = rc ? rc : ask(s, &in, &out, &why);
        td_mem_fail_at(0);
        failures += rc != TD_OK;
        CHECK(rc == TD_OK || why.msg[0] != 0);
        td_tensor_clear(&out);
        td_tensor_clear(&in);
        td_servable_unref(s);
    }
    CHECK(failures > 0);
    td_op_table_free(ops);
}

#ifdef TD_NO_BUFFER_CACHE
#define RUN_WARMED
#else
#define RUN_WARMED RUN(a_warmed_run_asks_the_allocator_for_nothing)
#endif
static bool holds(const char *text, const char *words)
{
    return text != NULL && strstr(text, words) != NULL;
}

/* What tensorctl inspect prints. */
TEST(a_document_says_by_what_an_output_can_be_differentiated)
{
    struct td_servable *s = must_load();
    char *text = td_inspect_model_json(s);
    CHECK(holds(text, "\"digit\": {\n     \"differentiable\": false,\n     \"why\": \"int64\"\n    }"));
    CHECK(holds(text, "\"probabilities\": {\n     \"differentiable\": true,\n     \"inputs\": [\n"
                      "      \"images\"\n     ],\n     \"variables\": "));
    CHECK(!holds(text, "\"variables\": 0"));
    CHECK(!holds(text, "blocked"));
    free(text);
    done(s);
}

TEST_MAIN(RUN(a_document_says_by_what_an_output_can_be_differentiated)
              RUN_WARMED RUN(batches_of_any_size_share_one_trace) RUN(rows_do_not_depend_on_their_batch)
                  RUN(a_wrong_name_names_what_was_sent_and_what_is_missing) RUN(a_wrong_shape_names_the_node)
                      RUN(a_run_past_its_deadline_stops) RUN(concurrent_first_calls_trace_once)
                          RUN(every_failed_allocation_is_reported))
