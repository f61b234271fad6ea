/* tests/unit/core/test_grad_program.c - core/grad/program.c: what a differentiated part gives, and what its
 * plan holds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/program.h"
#include "tests/unit/core/pass_make.h"

enum { MOST = 64 };

/* A part of a graph whose feeds are the Placeholders x, w0, w1, .., and the program made of it. */
struct made {
    struct op_graph g;
    struct td_op_table *ops;
    struct td_model *base;
    struct td_program *p;
    struct td_value feed[MOST], fetch;
    int n_feeds;
    struct td_tensor in[MOST], out[MOST];
    struct td_err err;
};

static void open_part(struct made *m, const char *text, const char *passes_off)
{
    *m = (struct made){0};
    CHECK(op_graph_open(&m->g));
    CHECK_INT(td_op_table_new(td_op_families, &m->ops, &m->err), TD_OK);
    test_check_ok(__FILE__, __LINE__, text, op_graph_read(&m->g, text, true, &m->err), &m->err);
    test_check_ok(__FILE__, __LINE__, text, td_graph_resolve(&m->g.graph, &m->g.lib, m->ops, &m->err),
                  &m->err);
    for (int i = 0; i < m->g.graph.n_nodes; i++) {
        struct td_node *n = m->g.graph.nodes[i];
        if (strcmp(n->op_name, "Placeholder") == 0) {
            m->feed[m->n_feeds++] = (struct td_value){n, 0};
        }
    }
    struct td_model_opts opts = {.ops = m->ops, .passes_off = passes_off};
    CHECK_INT(td_model_new(&opts, NULL, &m->g.graph, &m->g.lib, &m->base, &m->err), TD_OK);
}

/* A struct made that is zeroed is closed, too. */
static void close_part(struct made *m)
{
    for (int i = 0; i < MOST; i++) {
        td_tensor_clear(&m->in[i]);
        td_tensor_clear(&m->out[i]);
    }
    td_program_unref(m->p);
    td_model_unref(m->base);
    if (m->ops != NULL) {
        op_graph_close(&m->g);
        td_op_table_free(m->ops);
    }
    *m = (struct made){0};
}

/* Of node y, by all feeds but x. */
static enum td_code differentiate(struct made *m, enum td_grad_kind kind, bool recompute, int64_t limit_bytes)
{
    struct td_grad_source source[MOST];
    const int target = 0;
    const char *name = "y";
    test_check_ok(__FILE__, __LINE__, "y", td_graph_value(&m->g.graph, "y", &m->fetch, &m->err), &m->err);
    for (int i = 1; i < m->n_feeds; i++) {
        source[i - 1] = (struct td_grad_source){.feed = i, .dtype = TD_FLOAT};
    }
    const struct td_program_opts o = {
        .name = "f",
        .part = {.name = "f", .feeds = m->feed, .n_feeds = m->n_feeds, .fetches = &m->fetch, .n_fetches = 1},
        .kind = kind,
        .target = &target,
        .target_name = &name,
        .n_targets = 1,
        .source = source,
        .n_sources = m->n_feeds - 1,
        .recompute = recompute,
        .limit_bytes = limit_bytes};
    return td_program_new(m->base, &o, &m->p, &m->err);
}

static void run_program(struct made *m)
{
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof m->out / sizeof m->out[0]; i++) {
            td_tensor_clear(&m->out[i]); /* of the round before */
        }
        test_check_ok(__FILE__, __LINE__, "run",
                      td_callable_run(td_program_callable(m->p), m->in, m->out, NULL, &m->err), &m->err);
    }
}

static void add_bytes(void *ctx, const struct td_concrete_stat *c)
{
    *(size_t *)ctx += c->bytes;
}

static size_t plan_bytes(const struct made *m)
{
    size_t bytes = 0;
    td_callable_each(td_program_callable(m->p), add_bytes, &bytes);
    return bytes;
}

/* ------------------------------------------------------------------ a deep MLP */

/* Rows enough that what kernels keep for themselves is little beside an activation. */
enum { LAYERS = 48, ROWS = 2048, WIDTH = 64 };

static void deep(struct made *m, bool recompute)
{
    static char text[LAYERS * 200];
    size_t n = (size_t)snprintf(text, sizeof text, X);
    for (int i = 0; i < LAYERS; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "w%d = " PLACEHOLDER, i);
    }
    for (int i = 0; i < LAYERS; i++) {
        char from[16];
        snprintf(from, sizeof from, i == 0 ? "x" : "a%d", i - 1);
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "m%d = MatMul {T:type=float} (%s, w%d)\nz%d = AddV2 {T:type=float} (m%d, "
                              "float[64] 0.1)\na%d = Relu {T:type=float} (z%d)\n",
                              i, from, i, i, i, i, i);
    }
    snprintf(text + n, sizeof text - n, "y = Sum {T:type=float; Tidx:type=int32} (a%d, int32[2] 0 1)\n",
             LAYERS - 1);
    open_part(m, text, NULL);
    test_check_ok(__FILE__, __LINE__, "deep", differentiate(m, TD_GRADIENT, recompute, 0), &m->err);
    const struct td_shape x = td_shape_matrix(ROWS, WIDTH), w = td_shape_matrix(WIDTH, WIDTH);
    for (int i = 0; i < m->n_feeds; i++) {
        m->in[i] = ramp(i == 0 ? &x : &w, -0.1f, 0.01f);
    }
    run_program(m);
}

/* Of the forward pass one activation a layer has to be kept, and a few values more. */
TEST(an_activation_is_freed_at_its_last_use)
{
    struct made m;
    deep(&m, false);
    const double activations = (double)plan_bytes(&m) / (ROWS * WIDTH * sizeof(float));
    fprintf(stderr, "     %.1f activations of %d layers\n", activations, LAYERS);
    CHECK(activations < LAYERS + 8);
    close_part(&m);
}

TEST(recomputing_keeps_about_the_square_root_of_it)
{
    static struct made kept, again;
    deep(&kept, false);
    deep(&again, true);
    const double activations = (double)plan_bytes(&again) / (ROWS * WIDTH * sizeof(float));
    fprintf(stderr, "     %.1f activations of %d layers\n", activations, LAYERS);
    CHECK(activations < 2 * sqrt(LAYERS) + 16);
    for (int i = 0; i < LAYERS + 1; i++) {
        CHECK(td_tensor_same(&kept.out[i], &again.out[i]));
    }
    close_part(&kept);
    close_part(&again);
}

/* ------------------------------------------------------------------ gates in another order */

enum { STEPS = 3, BATCH = 2, IN = 3, CELL = 4 };

/* x [3,2,3]; w0 [7,16] and w1 [16]: weights and biases of the gates i, c, f, o, which V2 wants as i, f, c,
 * o. */
static void block_lstm(struct made *m, bool v2)
{
    static char text[2048];
    snprintf(text, sizeof text,
             X "w0 = " PLACEHOLDER "w1 = " PLACEHOLDER
               "sw = Split {num_split:int=4; T:type=float} (int32[] 1, w0)\n"
               "sb = Split {num_split:int=4; T:type=float} (int32[] 0, w1)\n"
               "w = ConcatV2 {N:int=4; T:type=float} (sw, sw:%d, sw:%d, sw:3, int32[] 1)\n"
               "b = ConcatV2 {N:int=4; T:type=float} (sb, sb:%d, sb:%d, sb:3, int32[] 0)\n"
               "s = Fill {T:type=float; index_type:type=int32} (int32[2] 2 4, float[] 0.5)\n"
               "p = Fill {T:type=float; index_type:type=int32} (int32[1] 4, float[] 0)\n"
               "l = %s cell_clip:float=0.0; use_peephole:bool=false; T:type=float} "
               "(int64[] 3, x, s, s, w, p, p, p, b)\n"
               "y = Sum {T:type=float; Tidx:type=int32} (l:6, int32[3] 0 1 2)\n",
             v2 ? 2 : 1, v2 ? 1 : 2, v2 ? 2 : 1, v2 ? 1 : 2,
             v2 ? "BlockLSTMV2 {" : "BlockLSTM {forget_bias:float=0.0; ");
    open_part(m, text, NULL);
    test_check_ok(__FILE__, __LINE__, "y", differentiate(m, TD_GRADIENT, false, 0), &m->err);
    const struct td_shape x = {3, {STEPS, BATCH, IN}}, w = td_shape_matrix(IN + CELL, 4 * CELL);
    const struct td_shape b = td_shape_vector(4 * CELL);
    m->in[0] = ramp(&x, -0.7f, 0.11f);
    m->in[1] = ramp(&w, -0.9f, 0.017f);
    m->in[2] = ramp(&b, 0.3f, -0.05f);
    run_program(m);
}

/* BlockLSTM's gradient is TensorFlow's (tests/property/grad_draws.py); of V2 TensorFlow's is none. */
TEST(block_lstm_v2_has_the_gradient_of_its_own_order_of_gates)
{
    static struct made one, two;
    block_lstm(&one, false);
    block_lstm(&two, true);
    for (int i = 0; i < 3; i++) {
        const float *a = TD_DATA(&one.out[i], const float), *b = TD_DATA(&two.out[i], const float);
        bool any = false;
        for (int64_t k = 0; k < td_tensor_count(&one.out[i]); k++) {
            CHECK(fabsf(a[k] - b[k]) < 1e-5f);
            any |= a[k] != 0;
        }
        CHECK(any);
    }
    close_part(&one);
    close_part(&two);
}

/* ------------------------------------------------------------------ second orders, jacobians */

static void feed(struct made *m, int i, struct td_shape shape)
{
    m->in[i] = ramp(&shape, -0.7f, 0.1f);
}

/* y = x w: the derivative of y[i,j] by w[a,b] is x[i,a] where j is b. */
TEST(a_jacobian_has_a_row_for_each_element_of_the_target)
{
    static struct made m;
    open_part(&m, X "w = " PLACEHOLDER "y = MatMul {T:type=float} (x, w)\n", NULL);
    test_check_ok(__FILE__, __LINE__, "jacobian", differentiate(&m, TD_JACOBIAN, false, 0), &m.err);
    feed(&m, 0, td_shape_matrix(2, 3));
    feed(&m, 1, td_shape_matrix(3, 4));
    run_program(&m);
    const struct td_shape want = {.rank = 4, .dim = {2, 4, 3, 4}};
    const int fetch = td_program_fetch(m.p, 0);
    CHECK(td_program_bytes(m.p) > plan_bytes(&m)); /* the backward pass has a plan of its own */
    CHECK(td_shape_equal(&m.out[fetch].shape, &want));
    for (int e = 0; e < 96; e++) {
        const int i = e / 48, j = e / 12 % 4, a = e / 4 % 3, b = e % 4;
        const float x = j == b ? TD_DATA(&m.in[0], float)[i * 3 + a] : 0;
        CHECK(fabsf(TD_DATA(&m.out[fetch], float)[e] - x) < 1e-6f);
    }
    close_part(&m);
}

TEST(a_jacobian_past_its_limit_is_refused_by_its_shapes)
{
    static struct made m;
    open_part(&m, X "w = " PLACEHOLDER "y = MatMul {T:type=float} (x, w)\n", NULL);
    test_check_ok(__FILE__, __LINE__, "jacobian", differentiate(&m, TD_JACOBIAN, false, 96 * 4 - 1), &m.err);
    feed(&m, 0, td_shape_matrix(2, 3));
    feed(&m, 1, td_shape_matrix(3, 4));
    CHECK_INT(td_callable_run(td_program_callable(m.p), m.in, m.out, NULL, &m.err), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(m.err.msg, "jacobian of 'y' [2,4]") != NULL && strstr(m.err.msg, "384 bytes") != NULL);
    close_part(&m);
}

/* y = sum of w^3: its second derivatives are 6 w on the diagonal. */
TEST(a_hessian_is_of_one_number)
{
    static struct made m, many;
    const char *cube = X "w = " PLACEHOLDER "s = Square {T:type=float} (w)\nc = Mul {T:type=float} (s, w)\n";
    char text[400];
    snprintf(text, sizeof text, "%sy = Sum {T:type=float; Tidx:type=int32} (c, int32[1] 0)\n", cube);
    open_part(&m, text, NULL);
    test_check_ok(__FILE__, __LINE__, "hessian", differentiate(&m, TD_HESSIAN, false, 0), &m.err);
    feed(&m, 0, td_shape_scalar());
    feed(&m, 1, td_shape_vector(5));
    run_program(&m);
    for (int e = 0; e < 25; e++) {
        const float want = e / 5 == e % 5 ? 6 * TD_DATA(&m.in[1], float)[e / 5] : 0;
        CHECK(fabsf(TD_DATA(&m.out[td_program_fetch(m.p, 0)], float)[e] - want) < 1e-5f);
    }
    snprintf(text, sizeof text, "%sy = Neg {T:type=float} (c)\n", cube);
    open_part(&many, text, NULL);
    test_check_ok(__FILE__, __LINE__, "hessian", differentiate(&many, TD_HESSIAN, false, 0), &many.err);
    feed(&many, 0, td_shape_scalar());
    feed(&many, 1, td_shape_vector(5));
    CHECK_INT(td_callable_run(td_program_callable(many.p), many.in, many.out, NULL, &many.err),
              TD_INVALID_ARGUMENT);
    CHECK(strstr(many.err.msg, "'y' has shape [5]") != NULL);
    close_part(&m);
    close_part(&many);
}

/* The same function: 6 w times the vector. */
TEST(a_vector_is_multiplied_with_the_hessian)
{
    static struct made m;
    open_part(&m, X "w = " PLACEHOLDER "s = Square {T:type=float} (w)\ny = Mul {T:type=float} (s, w)\n",
              NULL);
    test_check_ok(__FILE__, __LINE__, "hvp", differentiate(&m, TD_HVP, false, 0), &m.err);
    CHECK_INT(td_program_further_feeds(m.p), 1);
    feed(&m, 0, td_shape_scalar());
    feed(&m, 1, td_shape_vector(5));
    feed(&m, 2, td_shape_vector(5));
    run_program(&m);
    for (int e = 0; e < 5; e++) {
        const float want = 6 * TD_DATA(&m.in[1], float)[e] * TD_DATA(&m.in[2], float)[e];
        CHECK(fabsf(TD_DATA(&m.out[td_program_fetch(m.p, 0)], float)[e] - want) < 1e-5f);
    }
    close_part(&m);
}

/* ------------------------------------------------------------------ large graphs */

enum { LARGE = 10000 };

/* y = w + w + .. + w, one after the other: as deep as it is long, and all of it reads one value. */
TEST(a_long_chain_and_a_value_with_many_readers)
{
    static char text[(LARGE + 4) * 64];
    static struct made m;
    size_t n = (size_t)snprintf(text, sizeof text, X "w = " PLACEHOLDER "a0 = Neg {T:type=float} (w)\n");
    for (int i = 1; i <= LARGE; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "a%d = AddV2 {T:type=float} (a%d, w)\n", i, i - 1);
    }
    snprintf(text + n, sizeof text - n, "y = Neg {T:type=float} (a%d)\n", LARGE);
    open_part(&m, text, "");
    test_check_ok(__FILE__, __LINE__, "y", differentiate(&m, TD_GRADIENT, false, 0), &m.err);
    feed(&m, 0, td_shape_scalar());
    feed(&m, 1, td_shape_scalar());
    run_program(&m);
    CHECK(fabsf(TD_DATA(&m.out[td_program_fetch(m.p, 0)], float)[0] - (1 - LARGE)) < 0.5f);
    close_part(&m);
}

TEST_MAIN(RUN(a_long_chain_and_a_value_with_many_readers)
              RUN(block_lstm_v2_has_the_gradient_of_its_own_order_of_gates)
                  RUN(recomputing_keeps_about_the_square_root_of_it)
                      RUN(an_activation_is_freed_at_its_last_use)
                          RUN(a_jacobian_has_a_row_for_each_element_of_the_target)
                              RUN(a_jacobian_past_its_limit_is_refused_by_its_shapes)
                                  RUN(a_hessian_is_of_one_number)
                                      RUN(a_vector_is_multiplied_with_the_hessian))
