/* tests/unit/kernels/test_winograd.c - kernels/dense/winograd.h against the loops of
 * kernels/dense/conv_loops.c: sizes
 * and edges, what follows, batches, threads, and numbers that are not finite.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/dense/winograd.h"
#include "tests/unit/core/pool_make.h"
#include "tests/unit/kernels/drawn_make.h"

#define T "{T:type=float} "

/* A convolution of single steps, and what it is offered. */
static struct td_conv conv_of(int64_t batch, int64_t in, int64_t ic, int64_t oc)
{
    const struct td_window one = {.in = 1, .k = 1, .stride = 1, .dilation = 1, .out = 1};
    struct td_window three = {
        .in = in, .k = 3, .stride = 1, .dilation = 1, .out = in, .before = 1, .after = 1};
    return (struct td_conv){batch, ic, oc, 1, {one, three, three}};
}

static bool is_offered(const struct td_conv *g)
{
    const struct td_tensor *no_value[2] = {NULL, NULL};
    const struct td_kernel_query q = {.value = no_value, .lasting = true};
    struct td_kernel_offer o = {0};
    struct td_err err = {0};
    CHECK_INT(td_winograd_offer(g, &q, &o, &err), TD_OK);
    if (o.state != NULL) {
        td_winograd_free(o.state);
    }
    return o.refusal == NULL;
}

TEST(it_takes_what_it_can_do)
{
    struct td_conv g = conv_of(1, 28, 64, 64);
    CHECK(is_offered(&g));
    g.axis[1].stride = 2;
    CHECK(!is_offered(&g));
    g = conv_of(1, 28, 64, 64);
    g.axis[2].dilation = 2;
    CHECK(!is_offered(&g));
    g = conv_of(1, 28, 64, 64);
    g.groups = 2;
    CHECK(!is_offered(&g));
    g = conv_of(1, 28, 60, 64);
    CHECK(!is_offered(&g));
    g = conv_of(1, 7, 512, 512);
    CHECK(!is_offered(&g));
    g = conv_of(32, 7, 512, 512);
    CHECK(is_offered(&g));
}

/* Sizes here save 100 multiplications a weight and more, as td_winograd_offer asks for. y is what a
 * residual sum adds, and the weights are as drawn as a constant can be here. */
static void compare_shapes(const char *attrs, int ic, int oc, const char *then, struct td_shape x,
                           struct td_shape y)
{
    char text[2000];
    snprintf(text, sizeof text,
             XY "c = Conv2D {T:type=float; strides:list(int)=[1,1,1,1]; %s} (x, float[3,3,%d,%d] "
                "0.13 -0.27 0.05 0.31 -0.15 0.02 0.44 -0.38 0.21 -0.09 0.17)\n%s",
             attrs, ic, oc, then);
    struct td_tensor in[2] = {drawn(&x, 1), drawn(&y, 2)};
    compare(text, in, 1e-5f);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

#define SAME "padding:string='SAME'"
#define VALID "padding:string='VALID'"
#define RELU "r = Relu " T "(c)\n"

TEST(sizes_and_edges)
{
    compare_shapes(SAME, 32, 32, RELU, shape4(1, 28, 28, 32), td_shape_scalar());
    compare_shapes(SAME, 64, 48, RELU, shape4(4, 13, 17, 64), td_shape_scalar());
    compare_shapes(VALID, 32, 96, RELU, shape4(4, 14, 15, 32), td_shape_scalar());
    compare_shapes(SAME, 48, 32, RELU, shape4(6, 9, 12, 48), td_shape_scalar());
    compare_shapes("padding:string='EXPLICIT'; explicit_paddings:list(int)=[0,0,2,1,0,2,0,0]", 32, 32, RELU,
                   shape4(2, 18, 16, 32), td_shape_scalar());
    compare_shapes(SAME, 128, 160, RELU, shape4(60, 5, 3, 128), td_shape_scalar());
}

TEST(what_follows)
{
    const struct td_shape x = shape4(4, 14, 14, 32), y = shape4(4, 14, 14, 64);
    compare_shapes(SAME, 32, 64,
                   "b = BiasAdd " T "(c, float[64] 0.5 -1 0.25)\ns = AddV2 " T "(b, y)\nr = Relu " T "(s)\n",
                   x, y);
    compare_shapes(
        SAME, 32, 64,
        "n = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=false} (c, float[64] 1 2, "
        "float[64] 0.5, float[64] 0.1 -0.3, float[64] 1 0.25 4)\nr = Relu6 " T "(n)\n",
        x, y);
    compare_shapes(SAME, 32, 64, "s = Sigmoid " T "(c)\nr = Mul " T "(c, s)\n", x, y);
    compare_shapes(SAME, 32, 64,
                   "s = AddV2 " T "(c, y)\nb = Relu " T "(s)\nt = Tanh " T "(b)\nr = AddV2 " T "(t, y)\n", x,
                   y);
}

#define BARE XY "r = Conv2D {T:type=float; strides:list(int)=[1,1,1,1]; " SAME "} (x, y)\n"

TEST(what_is_not_finite_stays_where_it_belongs)
{
    const struct td_shape x = shape4(3, 16, 16, 32), w = shape4(3, 3, 32, 32);

    struct td_tensor in[2] = {drawn(&x, 3), drawn(&w, 4)};
    TD_DATA(&in[0], float)[(5 * 16 + 7) * 32 + 3] = INFINITY;
    TD_DATA(&in[0], float)[(12 * 16 + 1) * 32 + 9] = NAN;
    TD_DATA(&in[0], float)[(9 * 16 + 15) * 32 + 30] = 3e38f;
    TD_DATA(&in[0], float)[(9 * 16 + 14) * 32 + 30] = -3e38f;
    compare(BARE, in, 1e-5f);
    TD_DATA(&in[1], float)[17] = INFINITY;
    compare(BARE, in, 1e-5f);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

TEST(the_same_bits_on_several_threads_and_in_any_batch)
{
    const struct td_shape w = shape4(3, 3, 32, 96), many = shape4(5, 28, 22, 32), one = shape4(1, 28, 22, 32);
    struct td_tensor x = drawn(&many, 5), first = drawn(&one, 6), filter = drawn(&w, 7);
    const size_t image = (size_t)td_tensor_count(&first), result = 28 * 22 * 96;
    struct made_pool pool;
    pool_start(&pool);
    struct td_tensor in[2] = {x, filter}, alone = run_on(NULL, BARE, in),
                     together = run_on(&pool.pool, BARE, in);
    CHECK(pool.started > 0);
    CHECK(memcmp(alone.data, together.data, 5 * result * sizeof(float)) == 0);
    for (size_t i = 0; i < 5; i++) {
        memcpy(first.data, TD_DATA(&x, float) + i * image, image * sizeof(float));
        in[0] = first;
        struct td_tensor single = run_on(i % 2 == 0 ? NULL : &pool.pool, BARE, in);
        CHECK(memcmp(single.data, TD_DATA(&alone, float) + i * result, result * sizeof(float)) == 0);
        td_tensor_clear(&single);
    }
    pool_stop(&pool);
    td_tensor_clear(&alone);
    td_tensor_clear(&together);
    td_tensor_clear(&x);
    td_tensor_clear(&first);
    td_tensor_clear(&filter);
}

TEST_MAIN(RUN(it_takes_what_it_can_do) RUN(sizes_and_edges) RUN(what_follows)
              RUN(what_is_not_finite_stays_where_it_belongs)
                  RUN(the_same_bits_on_several_threads_and_in_any_batch))
