/* tests/unit/proto/test_gradient_json.c - what a body of :gradient asks for, and its answer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/test.h"

#include "proto/json/gradient_json.h"

static struct td_arena *arena;

static enum td_code read_body(const char *text, struct td_gradient_json *out, struct td_err *err)
{
    struct td_json_body body;
    td_arena_free(arena);
    arena = td_arena_new((size_t)1 << 20);
    const enum td_code rc = td_json_body(text, strlen(text), arena, &body, err);
    return rc ? rc : td_gradient_json_read(body.root, arena, out, err);
}

TEST(names_and_tensors_are_found_wherever_they_stand)
{
    struct td_err err = {0};
    struct td_gradient_json g;
    struct td_named made[2];
    const struct td_json_field fields[2] = {{.name = "z", .dtype = TD_DOUBLE},
                                            {.name = "y", .dtype = TD_FLOAT}};
    int n;
    CHECK_OK(read_body(
        "{\"output_gradients\": {\"z\": 2, \"y\": [[1], [3]]}, \"else\": [{}], \"recompute\": true, "
        "\"wrt\": \"x\", \"inputs\": {\"target\": 1}, \"unconnected\": \"zero\", "
        "\"target\": [\"y\", \"\\u007a\"]}",
        &g, &err));
    CHECK_INT(g.target.n, 2);
    CHECK_STR(g.target.name[1], "z");
    CHECK_INT(g.wrt.n, 1);
    CHECK_STR(g.wrt.name[0], "x");
    CHECK_STR(g.kind, "");
    CHECK(g.zeros && g.recompute);
    CHECK_INT(g.vector.names.n, 0);
    CHECK_INT(g.output_gradients.names.n, 2);
    CHECK_OK(td_json_inputs(&g.output_gradients.body, fields, 2, made, &n, &err));
    CHECK_INT(n, 2);
    CHECK(TD_DATA(&made[0].t, double)[0] == 2 && TD_DATA(&made[1].t, float)[1] == 3);
    td_tensor_clear(&made[0].t);
    td_tensor_clear(&made[1].t);
}

TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *text, *words;
    } rows[] = {{"{\"target\": 1}", "'target' must be a string or a list of strings"},
                {"{\"wrt\": [\"x\", null]}", "'wrt' must be a string or a list of strings"},
                {"{\"wrt\": [], \"wrt\": []}", "'wrt' is given twice"},
                {"{\"kind\": []}", "'kind' must be a string"},
                {"{\"vector\": [1]}", "'vector' must be an object, a tensor for each name"},
                {"{\"unconnected\": \"no\"}", "'unconnected' is \"no\""},
                {"{\"recompute\": 1}", "'recompute' must be true or false"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct td_err err = {0};
        struct td_gradient_json g;
        CHECK_INT(read_body(rows[i].text, &g, &err), TD_INVALID_ARGUMENT);
        CHECK(strstr(err.msg, rows[i].words) != NULL);
    }
}

TEST(null_is_a_gradient_that_is_none_and_an_output_without_a_form)
{
    struct td_err err = {0};
    struct td_sink s = {.limit = 1 << 16};
    const struct td_shape scalar = td_shape_scalar();
    struct td_named g[2] = {{.name = "x"}, {.name = "w"}}, out = {.name = "c"};
    CHECK_OK(td_tensor_new(&g[1].t, TD_FLOAT, &scalar, &err));
    CHECK_OK(td_tensor_new(&out.t, TD_COMPLEX64, &scalar, &err));
    TD_DATA(&g[1].t, float)[0] = 0.5f;
    CHECK_OK(td_gradient_json_write(&s, g, 2, &out, 1, &err));
    CHECK_OK(td_sink_put(&s, "", 1, &err));
    CHECK_STR(s.p, "{\n    \"gradients\": {\"x\": null, \"w\": 0.5},\n    \"outputs\": {\"c\": null}\n}");
    td_sink_fini(&s);
    CHECK_INT(td_gradient_json_write(&s, &out, 1, g, 0, &err), TD_UNIMPLEMENTED);
    td_sink_fini(&s);
    td_tensor_clear(&g[1].t);
    td_tensor_clear(&out.t);
    td_arena_free(arena);
}

TEST_MAIN(RUN(names_and_tensors_are_found_wherever_they_stand) RUN(what_is_wrong_is_named)
              RUN(null_is_a_gradient_that_is_none_and_an_output_without_a_form))
