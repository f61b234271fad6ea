/* tests/unit/kernels/test_panels.c - matmul.panels and conv2d.panels as nodes against the loops: which they
 * take, what follows, weights that are packed and weights that change, threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/timings.h"
#include "kernels/dense/gemm_panels.h"
#include "kernels/nn/conv_panels.h"
#include "tests/unit/core/pool_make.h"
#include "tests/unit/kernels/drawn_make.h"

#define T "{T:type=float} "
/* Weights of the file: those that are fed are not packed. */
#define WEIGHTS(dims) "float" dims " 0.13 -0.27 0.05 0.31 -0.15 0.02 0.44 -0.38 0.21 -0.09 0.17"
#define CONV(strides, padding, dims)                                                                         \
    "c = Conv2D {T:type=float; strides:list(int)=" strides "; padding:string='" padding                      \
    "'} (x, " WEIGHTS(dims) ")\n"

static struct td_window window(int64_t in, int64_t k, int64_t stride)
{
    return (struct td_window){
        .in = in, .k = k, .stride = stride, .dilation = 1, .out = (in - k) / stride + 1};
}

static struct td_conv conv_of(int64_t batch, int64_t in, int64_t k, int64_t stride, int64_t ic, int64_t oc)
{
    const struct td_window w = window(in, k, stride);
    return (struct td_conv){batch, ic, oc, 1, {window(1, 1, 1), w, w}};
}

static bool is_offered(const struct td_conv *g, int64_t trial_ns)
{
    const struct td_tensor *no_value[2] = {NULL, NULL};
    const struct td_kernel_query q = {.value = no_value, .lasting = true, .target.trial_ns = trial_ns};
    struct td_kernel_offer o = {0};
    struct td_err err = {0};
    CHECK_INT(td_conv_panels_offer(g, &q, &o, &err), TD_OK);
    if (o.state != NULL) {
        td_gemm_panels_free(o.state);
    }
    return o.refusal == NULL;
}

/* Where there are 512-bit registers. */
static bool are_there(void)
{
    const struct td_kernel_query q = {0};
    return td_gemm_panels_are_faster(&(struct td_gemm){.m = 49, .k = 1024, .n = 1024}, &q);
}

/* Weights behind layers of sums, each of all sums of the layer before: 32 ^ 9 ways lead there. */
TEST(where_weights_come_from_is_looked_for_in_no_time)
{
    enum { LAYERS = 10, WIDE = 32 };
    static struct td_node nodes[LAYERS][WIDE];
    static struct td_value in[LAYERS][WIDE];
    static const struct td_op sum = {.name = "AddN"};
    for (int l = 0; l < LAYERS; l++) {
        for (int k = 0; k < WIDE; k++) {
            in[l][k].node = &nodes[l][k];
            nodes[l][k] =
                (struct td_node){.op = &sum, .in = l == 0 ? NULL : in[l - 1], .n_in = l == 0 ? 0 : WIDE};
        }
    }
    const struct td_node product = {.in = in[LAYERS - 1], .n_in = 2};
    const struct td_tensor *no_value[2] = {NULL, NULL};
    const struct td_kernel_query q = {.node = &product, .value = no_value};
    const int64_t from_ns = td_now_ns();
    const bool faster = td_gemm_panels_are_faster(&(struct td_gemm){.m = 49, .k = 1024, .n = 1024}, &q);
    CHECK(faster == are_there());
    CHECK(td_now_ns() - from_ns < 1000000000);
}

TEST(convolutions_of_many_weights_and_few_cells)
{
    struct td_conv g = conv_of(1, 7, 1, 1, 512, 2048);
    CHECK(is_offered(&g, 0) == are_there());
    g = conv_of(64, 7, 1, 1, 512, 2048);
    CHECK(is_offered(&g, 0) == are_there());
    g = conv_of(1, 9, 3, 1, 512, 512);
    CHECK(is_offered(&g, 0) == are_there());
    g = conv_of(1, 28, 3, 1, 512, 512); /* many cells, several taps */
    CHECK(!is_offered(&g, 0));
    CHECK(is_offered(&g, 1000));
    g = conv_of(1, 112, 3, 1, 512, 512);
    CHECK(!is_offered(&g, 1000)); /* 55 million numbers of patches */
    g = conv_of(1, 7, 1, 1, 64, 64);
    CHECK(!is_offered(&g, 0));
    g = conv_of(1, 7, 1, 1, 512, 2048);
    g.groups = 2;
    CHECK(!is_offered(&g, 1000));
}

static void compare_drawn(const char *text, struct td_shape x, struct td_shape y)
{
    struct td_tensor in[2] = {drawn(&x, 1), drawn(&y, 2)};
    compare(text, in, 1e-5f);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

static struct td_shape matrix(int64_t rows, int64_t columns)
{
    return (struct td_shape){.rank = 2, .dim = {rows, columns}};
}

/* 800 * 700 weights, of which some fill no whole panel, and sums in two blocks. */
#define RELU "r = Relu " T "(c)\n"
#define MATMUL(transpose, y) "c = MatMul {T:type=float; transpose_b:bool=" transpose "} (x, " y ")\n"

TEST(products)
{
    static const int64_t rows[] = {2, 5, 31, 130};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct td_shape x = matrix(rows[i], 800), none = td_shape_scalar();
        compare_drawn(X MATMUL("false", WEIGHTS("[800,700]")) RELU, x, none);
        compare_drawn(X MATMUL("true", WEIGHTS("[700,800]")) "r = Tanh " T "(c)\n", x, none);
        compare_drawn(XY MATMUL("false", "y") RELU, x, matrix(800, 700));
        compare_drawn(XY MATMUL("true", "y") "r = Tanh " T "(c)\n", x, matrix(700, 800));
    }
}

TEST(convolutions)
{
    const struct td_shape none = td_shape_scalar();
    compare_drawn(X CONV("[1,1,1,1]", "VALID", "[1,1,512,1100]") RELU, shape4(2, 5, 6, 512), none);
    compare_drawn(X CONV("[1,2,2,1]", "VALID", "[1,1,512,1100]") RELU, shape4(1, 9, 7, 512), none);
    compare_drawn(X CONV("[1,1,1,1]", "SAME", "[3,3,256,256]") RELU, shape4(1, 7, 6, 256), none);
    compare_drawn(X CONV("[1,2,1,1]", "SAME", "[3,5,200,190]") RELU, shape4(2, 8, 6, 200), none);
}

/* Weights of the file, with what takes their place in a network: a shift, a sum, an activation. */
TEST(what_follows)
{
    const char *const posts[] = {
        "b = BiasAdd " T "(c, float[600] 0.5 -1 0.25)\ns = AddV2 " T "(b, y)\nr = Relu " T "(s)\n",
        "n = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=false} (c, float[600] 1 2, "
        "float[600] 0.5, float[600] 0.1 -0.3, float[600] 1 0.25 4)\nr = Relu6 " T "(n)\n",
        "s = Sigmoid " T "(c)\nr = Mul " T "(c, s)\n",
        "r = Elu " T "(c)\n" /* not done to tiles */,
    };
    for (size_t i = 0; i < sizeof posts / sizeof posts[0]; i++) {
        char text[2000];
        snprintf(text, sizeof text,
                 XY
                 "c = Conv2D {T:type=float; strides:list(int)=[1,1,1,1]; padding:string='SAME'} (x, " WEIGHTS(
                     "[1,1,900,600]") ")\n%s",
                 posts[i]);
        compare_drawn(text, shape4(1, 6, 7, 900), shape4(1, 6, 7, 600));
    }
}

TEST(the_same_bits_on_several_threads)
{
    const char *const text = X CONV("[1,1,1,1]", "SAME", "[3,3,256,320]") RELU;
    const struct td_shape shape[2] = {shape4(2, 7, 7, 256), td_shape_scalar()};
    struct td_tensor in[2] = {drawn(&shape[0], 5), drawn(&shape[1], 7)};
    struct made_pool pool;
    pool_start(&pool);
    struct td_tensor alone = run_on(NULL, text, in), together = run_on(&pool.pool, text, in);
    CHECK(pool.started > 0);
    if (are_there()) { /* oneDNN promises no such thing */
        CHECK(memcmp(alone.data, together.data, (size_t)td_tensor_count(&alone) * sizeof(float)) == 0);
    }
    check_same(&alone, &together, 1e-5f, text);
    pool_stop(&pool);
    td_tensor_clear(&alone);
    td_tensor_clear(&together);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

TEST_MAIN(RUN(where_weights_come_from_is_looked_for_in_no_time)
              RUN(convolutions_of_many_weights_and_few_cells) RUN(products) RUN(convolutions)
                  RUN(what_follows) RUN(the_same_bits_on_several_threads))
