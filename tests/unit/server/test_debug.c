/* tests/unit/server/test_debug.c - the debugger on the bundled model: listing, watching, comparing, placing,
 * failing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/debug/debug.h"

#include <jansson.h>
#include <math.h>

#include "core/run/variable.h"
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "tests/test.h"

static struct td_op_table *ops;
static struct td_servable *model;

static void setup(void)
{
    struct td_err err = {0};
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    struct td_servable_opts opts = {.ops = ops};
    CHECK_OK(td_servable_load("digits", 1, DIGITS_DIR, &opts, &model, &err));
}

static void teardown(void)
{
    td_servable_unref(model);
    td_op_table_free(ops);
}

/* The document for one image whose pixels are all `pixel`. */
static json_t *debug(const char *options, float pixel)
{
    struct td_err err = {0};
    struct td_arena *arena = td_arena_new(1 << 20);
    struct td_json_body body;
    struct td_debug_opts opts;
    struct td_named in = {.name = "images"};
    const struct td_shape shape = {.rank = 3, .dim = {1, 8, 8}};
    CHECK_OK(td_tensor_new(&in.t, TD_FLOAT, &shape, &err));
    for (int i = 0; i < 64; i++) {
        TD_DATA(&in.t, float)[i] = pixel;
    }
    CHECK_OK(td_json_body(options, strlen(options), arena, &body, &err));
    CHECK_OK(td_debug_read(&body, arena, &opts, &err));
    const struct td_servable_call call = {.sig = td_servable_signature(model, ""), .in = &in, .n_in = 1};
    struct td_sink out = {0};
    CHECK_OK(td_debug_run(model, &call, &opts, &out, &err));
    json_error_t bad;
    json_t *doc = json_loadb(out.p, out.n, 0, &bad);
    if (doc == NULL) {
        CHECK_STR(bad.text, "");
    }
    td_sink_fini(&out);
    td_tensor_clear(&in.t);
    td_arena_free(arena);
    return doc;
}

static const json_t *node(const json_t *doc, const char *name)
{
    size_t i;
    json_t *n;
    json_array_foreach(json_object_get(doc, "nodes"), i, n)
    {
        if (strcmp(json_string_value(json_object_get(n, "name")), name) == 0) {
            return n;
        }
    }
    return NULL;
}

TEST(eager_lists_every_node_with_its_values)
{
    setup();
    json_t *doc = debug("{}", 3);
    const json_t *softmax = node(doc, "Softmax"),
                 *out = json_array_get(json_object_get(softmax, "outputs"), 0);
    CHECK_INT(json_array_size(json_object_get(doc, "nodes")),
              json_integer_value(json_object_get(doc, "nodes_run")));
    CHECK_STR(json_string_value(json_object_get(out, "dtype")), "DT_FLOAT");
    CHECK(fabs(json_number_value(json_object_get(out, "mean")) - 0.1) < 1e-6);
    CHECK(json_is_null(json_object_get(out, "value")));
    CHECK(json_object_size(json_object_get(doc, "outputs")) == 2);
    json_decref(doc);
    teardown();
}

TEST(watching_and_limits_choose_what_is_listed)
{
    setup();
    json_t *doc = debug("{\"watch\": [\"Soft*\", \"MatMul:0\"], \"values\": \"full\"}", 3);
    CHECK_INT(json_array_size(json_object_get(doc, "nodes")), 2);
    const json_t *value =
        json_object_get(json_array_get(json_object_get(node(doc, "Softmax"), "outputs"), 0), "value");
    CHECK_INT(json_array_size(json_array_get(value, 0)), 10);
    CHECK(!json_is_true(json_object_get(doc, "truncated")));
    json_decref(doc);
    doc = debug("{\"max_nodes\": 2, \"values\": \"none\"}", 3);
    CHECK_INT(json_array_size(json_object_get(doc, "nodes")), 2);
    CHECK(json_is_true(json_object_get(doc, "truncated")));
    json_decref(doc);
    teardown();
}

TEST(a_value_that_is_not_finite_stops_the_run)
{
    setup();
    json_t *doc = debug("{\"stop_on_nonfinite\": true, \"values\": \"none\"}", INFINITY);
    CHECK(strstr(json_string_value(json_object_get(doc, "stopped")), "64 infinite elements") != NULL);
    CHECK(json_is_null(json_object_get(doc, "outputs")));
    CHECK(json_is_null(json_object_get(doc, "error")));
    json_decref(doc);
    teardown();
}

TEST(comparing_finds_the_first_node_beyond_the_tolerance)
{
    setup();
    json_t *doc = debug("{\"mode\": \"compare\"}", 3);
    CHECK(json_is_null(json_object_get(doc, "first_difference")));
    CHECK(json_integer_value(json_object_get(doc, "compared_nodes")) > 10);
    CHECK_STR(json_string_value(json_object_get(doc, "state")), "shared");
    json_decref(doc);
    teardown();
}

TEST(placement_runs_nothing_and_tells_kernels)
{
    setup();
    json_t *doc = debug("{\"mode\": \"placement\"}", 3);
    const json_t *matmul = node(doc, "MatMul");
    CHECK(strncmp(json_string_value(json_object_get(matmul, "kernel")), "matmul", 6) == 0);
    CHECK_STR(json_string_value(json_object_get(matmul, "placed")), "step");
    CHECK_INT(json_integer_value(json_object_get(doc, "nodes_run")), 0);
    CHECK(json_is_null(json_object_get(doc, "outputs")));
    json_decref(doc);
    teardown();
}

TEST(a_copy_has_the_same_variables_and_a_life_of_its_own)
{
    setup();
    struct td_err err = {0};
    struct td_servable *copy = NULL;
    CHECK_OK(td_servable_copy(model, &copy, &err));
    CHECK_INT(td_variable_total_bytes(td_servable_engine(copy)),
              td_variable_total_bytes(td_servable_engine(model)));
    td_servable_unref(model);
    model = copy;
    json_t *doc = debug("{\"values\": \"none\"}", 3);
    CHECK(json_is_object(json_object_get(doc, "outputs")));
    json_decref(doc);
    teardown();
}

static void refuses(const char *options, const char *words)
{
    struct td_err err = {0};
    struct td_arena *arena = td_arena_new(1 << 20);
    struct td_json_body body;
    struct td_debug_opts opts;
    CHECK_OK(td_json_body(options, strlen(options), arena, &body, &err));
    CHECK_INT(td_debug_read(&body, arena, &opts, &err), TD_INVALID_ARGUMENT);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
    td_arena_free(arena);
}

TEST(options_of_the_wrong_kind_are_named)
{
    refuses("{\"mode\": \"fast\"}", "'mode' is \"fast\"");
    refuses("{\"mode\": 1}", "'mode' must be a string");
    refuses("{\"watch\": \"a\"}", "'watch' must be a list");
    refuses("{\"watch\": [1]}", "'watch' must be a list");
    refuses("{\"rtol\": -1}", "'rtol' is -1");
    refuses("{\"rtol\": NaN}", "'rtol' is");
    refuses("{\"max_nodes\": \"x\"}", "'max_nodes' must be a number");
    refuses("{\"stop_on_nonfinite\": 1}", "must be true or false");
}

static struct td_tensor floats(float a, float b)
{
    struct td_err err = {0};
    struct td_tensor t;
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &(struct td_shape){.rank = 1, .dim = {2}}, &err));
    TD_DATA(&t, float)[0] = a;
    TD_DATA(&t, float)[1] = b;
    return t;
}

TEST(differences_know_nan_and_infinity)
{
    struct td_debug_diff d;
    struct td_tensor a = floats(NAN, INFINITY), b = floats(NAN, INFINITY), c = floats(NAN, -INFINITY),
                     e = floats(1, 2.5f), f = floats(1, 2.25f);
    td_debug_diff(&a, &b, 0, 0, &d);
    CHECK_INT(d.n, 0);
    td_debug_diff(&a, &c, 1, 1, &d);
    CHECK_INT(d.first, 1);
    td_debug_diff(&e, &f, 0.01, 0, &d);
    CHECK_INT(d.n, 1);
    CHECK(d.max_abs == 0.25 && d.a == 2.5 && d.b == 2.25);
    td_debug_diff(&e, &f, 0, 0.25, &d);
    CHECK_INT(d.n, 0);
    struct td_debug_stat s;
    td_debug_stat(&a, &s);
    CHECK(s.nan == 1 && s.inf == 1 && !s.ordered);
    td_tensor_clear(&a);
    td_tensor_clear(&b);
    td_tensor_clear(&c);
    td_tensor_clear(&e);
    td_tensor_clear(&f);
}

TEST_MAIN(RUN(eager_lists_every_node_with_its_values) RUN(watching_and_limits_choose_what_is_listed)
              RUN(a_value_that_is_not_finite_stops_the_run)
                  RUN(comparing_finds_the_first_node_beyond_the_tolerance)
                      RUN(placement_runs_nothing_and_tells_kernels)
                          RUN(a_copy_has_the_same_variables_and_a_life_of_its_own)
                              RUN(options_of_the_wrong_kind_are_named) RUN(differences_know_nan_and_infinity))
