/* tests/unit/core/test_parallel_regions.c - parallel branches: what the pass makes of a plan's order, the
 * invariants that runs on several threads rely on, and that such runs give the same bits.
 *
 * Longer, under ThreadSanitizer: TD_TEST_SECONDS=100 test_parallel_regions random
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/parallel_regions.h"

#include "core/run/bound_plan.h"
#include "core/function/callable_impl.h"
#include "tests/unit/core/pool_make.h"
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float} "
#define M "MatMul {T:type=float} "
#define W "float[8,8] 0.1 -0.2 0.3 0.05 -0.1 0.2 0.15"

static struct td_shape none(void)
{
    return td_shape_scalar();
}

/* ------------------------------------------------------------------ what the pass finds */

struct compiled {
    struct passed t;
    struct td_model *model;
    struct td_callable *f;
    const struct td_plan *plan;
};

static void compile(struct compiled *c, const char *text, const char *fetch, const char *off)
{
    passed_open(&c->t, text, fetch);
    struct td_model_opts opts = {.ops = c->t.ops, .passes_off = off};
    CHECK_INT(td_model_new(&opts, NULL, &c->t.g.graph, &c->t.g.lib, &c->model, &c->t.err), TD_OK);
    CHECK_INT(td_callable_new(c->model, &c->t.how, &c->f, &c->t.err), TD_OK);
    test_check_ok(__FILE__, __LINE__, text, td_callable_plan(c->f, &c->plan, &c->t.err), &c->t.err);
}

static void drop(struct compiled *c)
{
    td_model_unref(c->model);
    passed_close(&c->t);
}

/* The steps in their order, regions in brackets: "x1 (a1 a2 | b1) join". */
static void spell(const struct td_plan *p, char *out, size_t bytes)
{
    out[0] = '\0';
    int r = 0, g = 0;
    for (int k = 0; k < p->n_steps; k++) {
        const struct td_region *region = r < p->n_regions ? &p->regions[r] : NULL;
        const char *before = k == 0 ? "" : " ";
        if (region != NULL && k == region->first) {
            before = k == 0 ? "(" : " (";
        } else if (region != NULL && g < region->n_groups - 1 && k == region->end[g]) {
            before = " | ";
            g++;
        }
        const bool ends = region != NULL && k + 1 == td_region_end(region);
        snprintf(out + strlen(out), bytes - strlen(out), "%s%s%s", before, p->steps[k].node->name,
                 ends ? ")" : "");
        r += ends;
        g = ends ? 0 : g;
    }
}

static void order_is(const char *text, const char *fetch, const char *off, const char *want)
{
    struct compiled c;
    char got[4096];
    compile(&c, text, fetch, off);
    spell(c.plan, got, sizeof got);
    CHECK_STR(got, want);
    drop(&c);
}

#define OTHERS "identity,fold,arithmetic,cse,dependency,fuse"

TEST(interleaved_branches_become_groups)
{
    const char *text = X "f = " M "(x, " W ")\n"
                         "p1 = " M "(f, " W ")\nq1 = " M "(f, " W ")\n"
                         "p2 = Relu " T "(p1)\nq2 = Relu " T "(q1)\n"
                         "s = AddV2 " T "(p1, q1)\nt = AddV2 " T "(p2, q2)\nr = AddV2 " T "(s, t)\n";
    order_is(text, "r", OTHERS ",parallel", "f p1 q1 s p2 q2 t r");
    order_is(text, "r", OTHERS, "f (p1 | q1) s p2 q2 t r");
    const char *four = X "p1 = " M "(x, " W ")\nq1 = " M "(x, " W ")\np2 = " M "(p1, " W ")\nq2 = " M
                         "(q1, " W ")\nr = AddN {T:type=float; N:int=4} (p1, q1, p2, q2)\n";
    order_is(four, "r", OTHERS ",parallel", "p1 q1 p2 q2 r");
    order_is(four, "r", OTHERS, "(p1 p2 | q1 q2) r");
}

TEST(towers_win_over_the_forks_inside_them)
{
    const char *text =
        XY "a = " M "(x, " W ")\na1 = " M "(a, " W ")\na2 = " M "(a, " W ")\na3 = AddV2 " T "(a1, a2)\n"
           "b = " M "(y, " W ")\nb1 = " M "(b, " W ")\nb2 = " M "(b, " W ")\nb3 = AddV2 " T "(b1, b2)\n"
           "r = AddV2 " T "(a3, b3)\nlast = " M "(r, " W ")\n";
    order_is(text, "last", OTHERS, "(a a1 a2 a3 | b b1 b2 b3) r last");
}

TEST(what_is_one_chain_or_light_is_left_alone)
{
    const char *residual = X "a = " M "(x, " W ")\nb = " M "(a, " W ")\nc = AddV2 " T "(a, b)\n"
                             "d = " M "(c, " W ")\nr = AddV2 " T "(c, d)\n";
    order_is(residual, "r", OTHERS, "a b c d r");
    const char *light = XY "a = Relu " T "(x)\nb = Neg " T "(y)\nr = AddV2 " T "(a, b)\n";
    order_is(light, "r", OTHERS, "a b r");
    const char *shortcut =
        X "f = " M "(x, " W ")\na = " M "(f, " W ")\nb = Relu " T "(f)\nr = AddV2 " T "(a, b)\n";
    order_is(shortcut, "r", OTHERS, "f a b r");
}

TEST(parts_that_weigh_nothing_leave_no_group_empty)
{
    const char *view = "Reshape {T:type=float; Tshape:type=int32} ";
    char text[2000];
    snprintf(text, sizeof text,
             XY "a = " M "(x, " W ")\nb = " M "(y, " W ")\nv = %s(x, int32[2] 8 8)\nw = %s(y, int32[2] 8 8)\n"
                "r = AddN {T:type=float; N:int=4} (a, b, v, w)\n",
             view, view);
    order_is(text, "r", OTHERS, "(a | b | v | w) r");
}

TEST(a_step_with_an_effect_is_in_no_region)
{
    const char *random = "RandomUniform {T:type=int32; dtype:type=float} (int32[2] 8 8)\n";
    char text[2000];
    snprintf(text, sizeof text,
             XY "a = " M "(x, " W ")\nu = %sb = " M "(y, u)\nc = " M "(b, " W ")\nr = AddV2 " T "(a, c)\n",
             random);
    order_is(text, "r", OTHERS, "a u b c r");
}

/* ------------------------------------------------------------------ invariants */

/* The group of a region that a step is in; -1: none. */
static int group_at(const struct td_region *r, int step)
{
    for (int g = 0; g < r->n_groups; g++) {
        if (step >= td_region_start(r, g) && step < r->end[g]) {
            return g;
        }
    }
    return -1;
}

static int maker_of(const struct td_plan *p, int v)
{
    for (int k = 0; k < p->n_steps; k++) {
        if (v >= p->steps[k].out0 && v < p->steps[k].out0 + p->steps[k].n_out) {
            return k;
        }
    }
    return -1;
}

/* The value whose bytes v shows. */
static int root_of(const struct td_plan *p, int v)
{
    const int k = maker_of(p, v);
    const bool view = k >= 0 && (p->steps[k].flags & TD_OP_VIEW) && v == p->steps[k].out0;
    return view ? root_of(p, p->steps[k].in[0]) : v;
}

static bool overlap(const struct td_bound_plan *l, int a, int b)
{
    const int64_t bytes_a = td_shape_count(&l->shape[a]) * (int64_t)td_dtype_size(l->plan->dtype[a]);
    const int64_t bytes_b = td_shape_count(&l->shape[b]) * (int64_t)td_dtype_size(l->plan->dtype[b]);
    return l->offset[a] >= 0 && l->offset[b] >= 0 && l->offset[a] < l->offset[b] + bytes_b &&
           l->offset[b] < l->offset[a] + bytes_a;
}

/* What group g of r makes, no other group reads or makes the bytes of. */
static void check_step(const struct td_bound_plan *l, const struct td_region *r, int made_by, int other)
{
    const struct td_plan *p = l->plan;
    const struct td_step *a = &p->steps[made_by], *b = &p->steps[other];
    for (int o = 0; o < a->n_out; o++) {
        const int mine = root_of(p, a->out0 + o);
        for (int i = 0; i < b->n_in + b->n_out; i++) {
            const int v = i < b->n_in ? b->in[i] : b->out0 + i - b->n_in;
            CHECK(v != a->out0 + o);
            CHECK(maker_of(p, mine) < r->first || !overlap(l, mine, root_of(p, v)));
        }
    }
    for (int i = 0; i < a->n_in; i++) {
        for (int k = 0; k < b->n_in; k++) {
            CHECK(a->in[i] != b->in[k] || p->last_use[a->in[i]] >= td_region_end(r));
        }
    }
}

static int check_regions(const struct td_plan *p, const struct td_shape *feeds)
{
    struct td_bound_plan *l;
    struct td_err err = {0};
    CHECK_OK(td_bound_plan_new(p, feeds, &l, &err));
    for (int i = 0; i < p->n_regions; i++) {
        const struct td_region *r = &p->regions[i];
        CHECK(r->n_groups >= 2 && r->n_groups <= TD_REGION_GROUPS);
        CHECK(i == 0 || td_region_end(&p->regions[i - 1]) <= r->first);
        CHECK(td_region_end(r) <= p->n_steps);
        for (int a = r->first; a < td_region_end(r); a++) {
            for (int b = r->first; b < td_region_end(r); b++) {
                if (group_at(r, a) != group_at(r, b)) {
                    check_step(l, r, a, b);
                }
            }
        }
    }
    for (int k = 0; k < p->n_steps; k++) {
        for (int i = 0; i < p->steps[k].n_in; i++) {
            CHECK(maker_of(p, p->steps[k].in[i]) < k);
        }
    }
    td_bound_plan_unref(l);
    return p->n_regions;
}

/* ------------------------------------------------------------------ the same bits */

enum { ROUNDS = 14 }; /* the first ones learn what the groups take */

/* Runs text with its groups on several threads, and without the pass: the same bits. Returns the regions
 * found. */
static int same_bits(const char *text, struct td_shape x, struct td_shape y)
{
    struct compiled c, plain;
    struct made_pool pool;
    struct td_tensor in[2] = {ramp(&x, -1.5f, 0.25f), ramp(&y, 0.5f, 0.125f)}, want, got;
    const struct td_run_opts opts = {.pool = &pool.pool};
    compile(&plain, text, "r", "parallel");
    CHECK_INT(plain.plan->n_regions, 0);
    test_check_ok(__FILE__, __LINE__, text, td_callable_run(plain.f, in, &want, NULL, &plain.t.err),
                  &plain.t.err);
    pool_start(&pool);
    compile(&c, text, "r", NULL);
    const int found = check_regions(c.plan, (const struct td_shape[]){x, y});
    for (int round = 0; round < ROUNDS; round++) {
        test_check_ok(__FILE__, __LINE__, text, td_callable_run(c.f, in, &got, &opts, &c.t.err), &c.t.err);
        CHECK(td_shape_equal(&want.shape, &got.shape));
        if (memcmp(want.data, got.data, td_tensor_bytes(&want)) != 0) {
            fprintf(stderr, "round %d differs of\n%s", round, text);
            exit(1);
        }
        td_tensor_clear(&got);
    }
    pool_stop(&pool);
    CHECK((found > 0) == (pool.started > 0));
    td_tensor_clear(&want);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    drop(&plain);
    drop(&c);
    return found;
}

TEST(convolution_towers_give_the_same_bits)
{
#define CONV "Conv2D {T:type=float; strides:list(int)=[1,1,1,1]; padding:string='SAME'} "
    const char *text = X "f = Relu " T "(x)\n"
                         "a = " CONV "(f, float[1,1,4,4] 0.1 0.2 -0.3)\na1 = Relu " T "(a)\n"
                         "b = " CONV "(f, float[1,1,4,4] 0.2 -0.1)\nb1 = Relu " T "(b)\nb2 = " CONV
                         "(b1, float[3,3,4,4] 0.05 -0.02)\n"
                         "c = " CONV "(f, float[1,1,4,4] -0.3 0.1)\nc1 = "
                         "Relu " T "(c)\nc2 = " CONV "(c1, "
                         "float[5,5,4,4] "
                         "0.01 -0.03)\n"
                         "p = MaxPool "
                         "{T:type=float; "
                         "ksize:list(int)="
                         "[1,3,3,1]; "
                         "strides:list("
                         "int)=[1,1,1,1]; "
                         "padding:string='"
                         "SAME'} (f)\n"
                         "r = ConcatV2 "
                         "{N:int=4; "
                         "T:type=float; "
                         "Tidx:type=int32}"
                         " (a1, b2, c2, "
                         "p, int32[] 3)\n";
    CHECK_INT(same_bits(text, shape4(2, 9, 9, 4), none()), 1);
}

TEST(groups_that_own_buffers_do_not_take_what_is_shared)
{
    /* the rows of x with a positive sum: their number is not known before the run */
    const char *text =
        X "s = Sum {T:type=float; Tidx:type=int32} (x, int32[1] 1)\nm = Greater " T "(s, float[] 0)\n"
          "w = Where {T:type=bool} (m)\nq = Squeeze {T:type=int64; squeeze_dims:list(int)=[1]} (w)\n"
          "d = GatherV2 {Tparams:type=float; Tindices:type=int64; Taxis:type=int32} (x, q, int32[] 0)\n"
          "v = Reshape {T:type=float; Tshape:type=int32} (d, int32[2] -1 8)\n"
          "a = Neg " T "(d)\na1 = " M "(a, " W ")\na2 = Exp " T "(a1)\na3 = Neg " T "(a2)\n"
          "b = Exp " T "(v)\nb1 = " M "(b, " W ")\nb2 = Neg " T "(b1)\nb3 = Abs " T "(b2)\n"
          "r = AddN {T:type=float; N:int=2} (a3, b3)\n";
    CHECK_INT(same_bits(text, td_shape_matrix(16, 8), none()), 1);
}

/* A random graph over [n, 8] matrices, of products and element-wise steps, with more or less to fork and
 * join. */
static void random_graph(unsigned *seed, char *text, size_t bytes)
{
    const int n = 6 + rand_r(seed) % 40, near = 2 + rand_r(seed) % 6;
    char open[64] = {0}; /* nothing uses it yet */
    int last = 0;
    snprintf(text, bytes, "%sv0 = Neg " T "(x)\n", XY);
    open[0] = 1;
    for (int i = 1; i < n; i++) {
        const int back = rand_r(seed) % 4 == 0 ? rand_r(seed) % i
                                               : (i > near ? i - 1 - rand_r(seed) % near : rand_r(seed) % i);
        const int other = rand_r(seed) % i, kind = rand_r(seed) % 6;
        char line[200];
        open[i] = 1;
        open[back] = 0;
        if (kind < 2) {
            snprintf(line, sizeof line, "v%d = " M "(v%d, " W " %d)\n", i, back, i % 5);
        } else if (kind == 2) {
            open[other] = 0;
            snprintf(line, sizeof line, "v%d = Sub " T "(v%d, v%d)\n", i, back, other);
        } else if (kind == 3) {
            snprintf(line, sizeof line,
                     "v%d = Reshape {T:type=float; Tshape:type=int32} (v%d, int32[2] -1 8)\n", i, back);
        } else {
            snprintf(line, sizeof line, "v%d = %s " T "(v%d)\n", i, kind == 4 ? "Tanh" : "Softsign", back);
        }
        (void)snprintf(text + strlen(text), bytes - strlen(text), "%s", line);
        last = i;
    }
    char names[600] = "";
    int joined = 0;
    for (int i = 0; i <= last; i++) {
        if (open[i]) {
            snprintf(names + strlen(names), sizeof names - strlen(names), "%sv%d", joined++ > 0 ? ", " : "",
                     i);
        }
    }
    snprintf(text + strlen(text), bytes - strlen(text), "r = AddN {T:type=float; N:int=%d} (%s)\n", joined,
             names);
}

TEST(random_graphs_give_the_same_bits)
{
    static char text[16384];
    const char *seconds = getenv("TD_TEST_SECONDS");
    const int64_t until_ns = td_now_ns() + (int64_t)((seconds != NULL ? strtod(seconds, NULL) : 0) * 1e9);
    unsigned seed = 1;
    int graphs = 0, regions = 0;
    for (; graphs < 60 || td_now_ns() < until_ns; graphs++) {
        random_graph(&seed, text, sizeof text);
        regions += same_bits(text, td_shape_matrix(1 + rand_r(&seed) % 40, 8), none());
    }
    printf("     %d graphs, %d regions\n", graphs, regions);
    CHECK(regions > graphs / 2);
}

/* ------------------------------------------------------------------ errors and ends */

#define PICK "GatherV2 {Tparams:type=float; Tindices:type=int32; Taxis:type=int32} "
#define TO_INT "Cast {SrcT:type=float; DstT:type=int32} (y)\n"

TEST(the_error_is_that_of_the_first_step)
{
    const char *text =
        XY "i = " TO_INT "a = " M "(x, " W ")\na1 = " PICK "(a, i, int32[] 0)\na2 = " M "(a1, " W ")\n"
           "b = " M "(x, " W " 2)\nb1 = " PICK "(b, i, int32[] 0)\nb2 = " M "(b1, " W ")\n"
           "c = " M "(x, " W " 3)\nr = AddN {T:type=float; N:int=3} (c, a2, b2)\n";
    struct compiled c;
    struct made_pool pool;
    const struct td_shape x = td_shape_matrix(4, 8), y = td_shape_vector(4);
    struct td_tensor in[2] = {ramp(&x, 1, 1), ramp(&y, 0, 0)}, out;
    const struct td_run_opts opts = {.pool = &pool.pool};
    pool_start(&pool);
    compile(&c, text, "r", NULL);
    CHECK(check_regions(c.plan, (const struct td_shape[]){x, y}) > 0);
    for (int round = 0; round < 30; round++) {
        const bool fails = round % 3 == 2;
        TD_DATA(&in[1], float)[3] = fails ? 100 : 1;
        c.t.err = (struct td_err){0};
        const enum td_code rc = td_callable_run(c.f, in, &out, &opts, &c.t.err);
        CHECK_INT(rc, fails ? TD_INVALID_ARGUMENT : TD_OK);
        CHECK(!fails || strstr(c.t.err.msg, "'a1'") != NULL);
        td_tensor_clear(&out);
        memset(&out, 0, sizeof out);
    }
    CHECK(pool.started > 0);
    pool_stop(&pool);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    drop(&c);
}

static void count_steps(void *ctx, const struct td_observed *what)
{
    (void)what;
    ++*(int *)ctx;
}

TEST(a_run_that_is_stopped_or_watched_stays_in_order)
{
    const char *text =
        XY "a = " M "(x, " W ")\nb = " M "(y, " W ")\nr = AddN {T:type=float; N:int=2} (a, b)\n";
    struct compiled c;
    struct made_pool pool;
    const struct td_shape x = td_shape_matrix(4, 8);
    struct td_tensor in[2] = {ramp(&x, 1, 1), ramp(&x, 0, 0)}, out;
    int seen = 0;
    td_stop stop;
    atomic_init(&stop, 0);
    struct td_run_opts opts = {.pool = &pool.pool, .work.stop = &stop};
    pool_start(&pool);
    compile(&c, text, "r", NULL);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_INT(td_callable_run(c.f, in, &out, &opts, &c.t.err), TD_OK);
        td_tensor_clear(&out);
    }
    const int started = pool.started;
    CHECK(started > 0);
    opts.observe = count_steps;
    opts.ctx = &seen;
    CHECK_INT(td_callable_run(c.f, in, &out, &opts, &c.t.err), TD_OK);
    td_tensor_clear(&out);
    CHECK_INT(seen, c.plan->n_steps);
    CHECK_INT(pool.started, started);
    opts.observe = NULL;
    atomic_store(&stop, TD_CANCELLED);
    CHECK_INT(td_callable_run(c.f, in, &out, &opts, &c.t.err), TD_CANCELLED);
    pool_stop(&pool);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    drop(&c);
}

TEST_MAIN(RUN(interleaved_branches_become_groups) RUN(towers_win_over_the_forks_inside_them)
              RUN(what_is_one_chain_or_light_is_left_alone) RUN(parts_that_weigh_nothing_leave_no_group_empty)
                  RUN(a_step_with_an_effect_is_in_no_region) RUN(convolution_towers_give_the_same_bits)
                      RUN(groups_that_own_buffers_do_not_take_what_is_shared)
                          RUN(random_graphs_give_the_same_bits) RUN(the_error_is_that_of_the_first_step)
                              RUN(a_run_that_is_stopped_or_watched_stays_in_order))
