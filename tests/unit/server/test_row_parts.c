/* tests/unit/server/test_row_parts.c - server/models/row_parts.c: which calls are cut, and that their answers
 * are those of the whole.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "server/models/row_parts.h"
#include "tests/unit/core/pool_make.h"
#include "tests/unit/kernels/run_make.h"

#define F "{T:type=float} "
enum { RUNS = 12, ROWS = 7, WIDTH = 16 };

struct cut {
    struct run run;
    struct td_row_parts *parts;
    struct td_tensor in[2];
};

static void open_cut(struct cut *c, const char *text)
{
    struct td_shape x = td_shape_matrix(ROWS, WIDTH);
    open_run(&c->run, text, TD_KERNELS_FAST);
    CHECK_INT(td_row_parts_new(&c->parts, &c->run.t.err), TD_OK);
    c->parts->least_ns = 0;
    c->parts->part_ns = 1;
    c->in[0] = ramp(&x, -0.5f, 0.125f);
    c->in[1] = ramp(&x, 0.25f, 0.5f);
}

static void close_cut(struct cut *c)
{
    td_tensor_clear(&c->in[0]);
    td_tensor_clear(&c->in[1]);
    td_row_parts_free(c->parts);
    close_run(&c->run);
}

static enum td_code run_cut(struct cut *c, const struct td_run_opts *opts, struct td_tensor *out)
{
    const struct td_row_parts_call call = {c->run.f, c->in, 2, 1, opts};
    return td_row_parts_run(c->parts, &call, out, &c->run.t.err);
}

/* Runs often, on idle threads too; every answer is that of the callable itself. Returns how many were cut. */
static unsigned runs_of(const char *text)
{
    struct cut c;
    struct made_pool pool;
    struct td_tensor want, got;
    const struct td_run_opts together = {.pool = &pool.pool};
    open_cut(&c, text);
    pool_start(&pool);
    CHECK_INT(td_callable_run(c.run.f, c.in, &want, NULL, &c.run.t.err), TD_OK);
    for (int i = 0; i < RUNS; i++) {
        test_check_ok(__FILE__, __LINE__, text, run_cut(&c, i % 2 ? &together : NULL, &got), &c.run.t.err);
        CHECK(td_shape_equal(&want.shape, &got.shape) && want.dtype == got.dtype);
        for (int64_t k = 0; want.dtype == TD_FLOAT && k < td_tensor_count(&want); k++) {
            CHECK(fabsf(TD_DATA(&want, float)[k] - TD_DATA(&got, float)[k]) < 1e-4f);
        }
        for (int64_t k = 0; want.dtype == TD_STRING && k < td_tensor_count(&want); k++) {
            size_t n, m;
            const char *a = td_tensor_str(&want, k, &n), *b = td_tensor_str(&got, k, &m);
            CHECK(n == m && memcmp(a, b, n) == 0);
        }
        td_tensor_clear(&got);
    }
    const unsigned cut = atomic_load(&c.parts->cut);
    pool_stop(&pool);
    td_tensor_clear(&want);
    close_cut(&c);
    return cut;
}

TEST(rows_are_cut_where_they_do_not_meet)
{
    CHECK(runs_of(XY "r = Mul " F "(x, y)\n") >= 3);
    CHECK(runs_of(XY "s = Softmax " F "(x)\nr = AddV2 " F "(s, y)\n") >= 3);
    CHECK(runs_of(XY "s = AddV2 " F "(x, y)\nr = AsString {T:type=float} (s)\n") >= 3);
}

TEST(rows_that_meet_stay_together)
{
    CHECK_INT(runs_of(XY "m = Mean {T:type=float} (x, int32[1] 0)\nr = AddV2 " F "(m, y)\n"), 0);
    CHECK_INT(runs_of(XY "r = MatMul {T:type=float; transpose_a:bool=true} (x, y)\n"), 0);
    CHECK_INT(runs_of(XY "r = Shape {T:type=float} (x)\n"), 0);
}

static void look(void *ctx, const struct td_observed *what)
{
    (void)what;
    ++*(int *)ctx;
}

TEST(calls_that_are_looked_on_are_not_cut)
{
    struct cut c;
    struct td_tensor got;
    int seen = 0;
    const struct td_run_opts watched = {.observe = look, .ctx = &seen};
    open_cut(&c, XY "r = Mul " F "(x, y)\n");
    for (int i = 0; i < RUNS; i++) {
        CHECK_INT(run_cut(&c, &watched, &got), TD_OK);
        td_tensor_clear(&got);
    }
    CHECK_INT(atomic_load(&c.parts->cut), 0);
    CHECK(seen >= RUNS);
    close_cut(&c);
}

TEST(an_error_of_a_part_is_the_calls)
{
    struct cut c;
    struct td_tensor got;
    open_cut(&c, XY "s = Cast {SrcT:type=float; DstT:type=int32} (x)\nr = GatherV2 {Tparams:type=float; "
                    "Tindices:type=int32; Taxis:type=int32} (float[4] 1 2 3 4, s, int32[] 0)\n");
    for (int i = 0; i < 5; i++) {
        CHECK_INT(run_cut(&c, NULL, &got), TD_OK);
        td_tensor_clear(&got);
    }
    CHECK(atomic_load(&c.parts->cut) > 0);
    TD_DATA(&c.in[0], float)[5 * WIDTH] = 99;
    for (int i = 0; i < RUNS; i++) {
        CHECK_INT(run_cut(&c, NULL, &got), TD_INVALID_ARGUMENT);
        CHECK(strstr(c.run.t.err.msg, "99 is not in [0, 4)") != NULL);
    }
    close_cut(&c);
}

/* A call without options of its own, as a warm-up's, ends with the work at hand, whole or in parts. */
TEST(parts_end_with_the_work_at_hand)
{
    struct cut c;
    struct td_tensor got;
    td_stop stop = TD_OK;
    const struct td_work work = {.stop = &stop};
    open_cut(&c, XY "r = Mul " F "(x, y)\n");
    const struct td_work *before = td_work_enter(&work);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(run_cut(&c, NULL, &got), TD_OK);
        td_tensor_clear(&got);
    }
    CHECK(atomic_load(&c.parts->cut) > 0);
    atomic_store(&stop, TD_CANCELLED);
    for (int i = 0; i < RUNS; i++) {
        CHECK_INT(run_cut(&c, NULL, &got), TD_CANCELLED);
    }
    td_work_enter(before);
    close_cut(&c);
}

TEST_MAIN(RUN(rows_are_cut_where_they_do_not_meet) RUN(rows_that_meet_stay_together)
              RUN(calls_that_are_looked_on_are_not_cut) RUN(an_error_of_a_part_is_the_calls)
                  RUN(parts_end_with_the_work_at_hand))
