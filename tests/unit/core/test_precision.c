/* tests/unit/core/test_precision.c - core/compile/pass_precision.c: which products are marked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/run/precision.h"
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float} "
#define MATMUL "MatMul " T

struct seen {
    char weights[400]; /* of each product that ran: its name, or - */
    int n;
};

static void see(void *ctx, const struct td_observed *what)
{
    struct seen *s = ctx;
    if (what->node->op->flags & TD_OP_PRODUCT) {
        const char *name = td_attr_str(what->node, "_weights");
        const size_t used = strlen(s->weights);
        snprintf(s->weights + used, sizeof s->weights - used, "%s ", name[0] == 0 ? "-" : name);
        s->n++;
    }
}

/* Result r of the graph, whose x is [2, 2] and y likewise. */
static float first_of(const char *text, const struct td_precision *p, struct seen *s)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_shape two = td_shape_matrix(2, 2);
    struct td_tensor in[2] = {ramp(&two, 0.1f, 0.3f), ramp(&two, 0.2f, 0.7f)}, out;
    passed_open(&t, text, "r");
    const struct td_model_opts how = {.ops = t.ops, .passes_off = "fuse", .precision = p};
    const struct td_run_opts run = {.observe = see, .ctx = s};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    CHECK_INT(td_callable_run(f, in, &out, &run, &t.err), TD_OK);
    const float first = TD_DATA(&out, float)[0];
    td_tensor_clear(&out);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    td_model_unref(m);
    passed_close(&t);
    return first;
}

static struct td_precision *made(enum td_precision_kind kind, const struct td_precision_range *r, int n)
{
    struct td_precision *p;
    struct td_err err = {0};
    CHECK_INT(td_precision_new(kind, r, n, &p, &err), TD_OK);
    return p;
}

TEST(products_with_weights_are_named_by_them)
{
    struct td_precision *look = made(TD_PRECISION_LOOK, NULL, 0);
    struct seen s = {0};
    first_of(XY "r = " MATMUL "(x, float[2,2] 1 2 3 4)\n", look, &s);
    CHECK_STR(s.weights, "value0 ");
    s = (struct seen){0}; /* what was computed is no weight */
    first_of(XY "r = " MATMUL "(x, y)\n", look, &s);
    CHECK_STR(s.weights, "- ");
    s = (struct seen){0}; /* as is a weight on the left */
    first_of(XY "r = " MATMUL "(float[2,2] 1 2 3 4, x)\n", look, &s);
    CHECK_STR(s.weights, "- ");
    td_precision_unref(look);
}

TEST(bytes_are_for_the_weights_that_are_listed)
{
    static const char text[] = XY "r = " MATMUL "(x, float[2,2] 1 2 3 4)\n"; /* 0.1 + 3 * 2.2 = 6.7 */
    struct seen s = {0};
    const struct td_precision_range small = {(char *)"value0", 0, 1}, other = {(char *)"v", 0, 1};
    struct td_precision *listed = made(TD_PRECISION_INT8, &small, 1),
                        *not_listed = made(TD_PRECISION_INT8, &other, 1);
    CHECK(fabsf(first_of(text, listed, &s) - 3.1f) < 0.1f); /* 2.2 is cut to 1 */
    CHECK(fabsf(first_of(text, not_listed, &s) - 6.7f) < 1e-4f);
    CHECK(fabsf(first_of(text, NULL, &s) - 6.7f) < 1e-4f);
    td_precision_unref(listed);
    td_precision_unref(not_listed);
}

TEST(ranges_are_found_by_name)
{
    const struct td_precision_range r[] = {{(char *)"b", 0, 1}, {(char *)"a", 0, 2}, {(char *)"c/d", 0, 3}};
    struct td_precision *p = made(TD_PRECISION_INT8, r, 3);
    CHECK(td_precision_find(p, "a")->max == 2);
    CHECK(td_precision_find(p, "b")->max == 1);
    CHECK(td_precision_find(p, "c/d")->max == 3);
    CHECK(td_precision_find(p, "c") == NULL);
    CHECK(td_precision_ref(NULL) == NULL);
    td_precision_unref(NULL);
    td_precision_unref(p);
}

TEST_MAIN(RUN(products_with_weights_are_named_by_them) RUN(bytes_are_for_the_weights_that_are_listed)
              RUN(ranges_are_found_by_name))
