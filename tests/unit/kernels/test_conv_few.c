/* tests/unit/kernels/test_conv_few.c - against the loops: depthwise convolutions of several results a
 * channel, transposed ones of few channels, pools whose windows lie inside and over the edge, and short runs
 * of copies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pool_make.h"
#include "tests/unit/kernels/drawn_make.h"

#define T "{T:type=float} "

static void compare_drawn(const char *text, struct td_shape x, struct td_shape y)
{
    struct td_tensor in[2] = {drawn(&x, 1), drawn(&y, 2)};
    compare(text, in, 1e-5f);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

static void same_on_threads(const char *text, struct td_shape x, struct td_shape y)
{
    struct td_tensor in[2] = {drawn(&x, 5), drawn(&y, 7)};
    struct made_pool pool;
    pool_start(&pool);
    struct td_tensor alone = run_on(NULL, text, in), together = run_on(&pool.pool, text, in);
    check_same(&alone, &together, 1e-5f, text);
    pool_stop(&pool);
    td_tensor_clear(&alone);
    td_tensor_clear(&together);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

#define DEPTHWISE(strides, padding)                                                                          \
    XY "c = DepthwiseConv2dNative {T:type=float; strides:list(int)=" strides "; padding:string='" padding    \
       "'} (x, y)\nr = Relu " T "(c)\n"

TEST(depthwise_with_several_results_a_channel)
{
    for (int64_t times = 1; times < 6; times++) {
        compare_drawn(DEPTHWISE("[1,1,1,1]", "SAME"), shape4(2, 7, 6, 9), shape4(3, 3, 9, times));
        compare_drawn(DEPTHWISE("[1,2,2,1]", "VALID"), shape4(1, 9, 8, 16), shape4(3, 2, 16, times));
    }
    same_on_threads(DEPTHWISE("[1,1,1,1]", "SAME"), shape4(3, 40, 40, 16), shape4(3, 3, 16, 2));
}

/* Of x [.., high, wide, oc] towards an image of so many rows and columns. */
static void transposed(struct td_shape x, struct td_shape w, const char *sizes, const char *how)
{
    char text[1000];
    snprintf(text, sizeof text, XY "r = Conv2DBackpropInput {T:type=float; %s} (int32[4] %s, y, x)\n", how,
             sizes);
    compare_drawn(text, x, w);
}

TEST(transposed_ones_of_few_channels)
{
    const char *two = "strides:list(int)=[1,2,2,1]; padding:string='SAME'";
    transposed(shape4(2, 5, 4, 20), shape4(4, 4, 1, 20), "2 10 8 1", two);
    transposed(shape4(2, 5, 4, 20), shape4(4, 4, 1, 20), "2 9 7 1", two);
    transposed(shape4(1, 5, 4, 33), shape4(5, 3, 3, 33), "1 10 8 3", two);
    transposed(shape4(3, 5, 4, 16), shape4(4, 4, 2, 16), "3 12 10 2",
               "strides:list(int)=[1,2,2,1]; padding:string='VALID'");
    transposed(shape4(1, 6, 5, 16), shape4(3, 3, 2, 16), "1 6 5 2",
               "strides:list(int)=[1,1,1,1]; padding:string='SAME'");
    transposed(shape4(1, 6, 5, 16), shape4(3, 3, 2, 16), "1 6 5 2",
               "strides:list(int)=[1,1,1,1]; dilations:list(int)=[1,2,2,1]; padding:string='SAME'");
    same_on_threads(
        XY "r = Conv2DBackpropInput {T:type=float; strides:list(int)=[1,2,2,1]; padding:string='SAME'} "
           "(int32[4] 6 64 64 1, y, x)\n",
        shape4(6, 32, 32, 64), shape4(4, 4, 1, 64));
}

/* ------------------------------------------------------------------ pools */

struct pool {
    const char *op;
    int64_t k, high, wide; /* of the window, and its steps */
    bool same, average;
};

/* What element c of output cell (i, j) of image n is, by the book. */
static float pooled(const struct pool *p, const struct td_tensor *x, const int64_t at[4],
                    const int64_t before[2])
{
    const int64_t *d = x->shape.dim;
    float sum = 0, most = -INFINITY;
    int count = 0;
    for (int64_t a = 0; a < p->k; a++) {
        for (int64_t b = 0; b < p->k; b++) {
            const int64_t row = at[1] * p->high - before[0] + a, column = at[2] * p->wide - before[1] + b;
            if (row >= 0 && row < d[1] && column >= 0 && column < d[2]) {
                const float v = TD_DATA(x, float)[((at[0] * d[1] + row) * d[2] + column) * d[3] + at[3]];
                sum += v;
                most = v > most ? v : most;
                count++;
            }
        }
    }
    return p->average ? sum / (float)count : most;
}

static int64_t before_of(const struct pool *p, int64_t in, int64_t out, int64_t step)
{
    const int64_t need = (out - 1) * step + p->k - in;
    return p->same && need > 0 ? need / 2 : 0;
}

static void pools(struct pool p, struct td_shape shape)
{
    char text[500];
    snprintf(text, sizeof text,
             X "r = %s {T:type=float; ksize:list(int)=[1,%d,%d,1]; strides:list(int)=[1,%d,%d,1]; "
               "padding:string='%s'} "
               "(x)\n",
             p.op, (int)p.k, (int)p.k, (int)p.high, (int)p.wide, p.same ? "SAME" : "VALID");
    struct td_tensor x = drawn(&shape, 3), y = run_with(text, "r", NULL, TD_KERNELS_FAST, &x);
    const int64_t *d = y.shape.dim, before[2] = {before_of(&p, shape.dim[1], d[1], p.high),
                                                 before_of(&p, shape.dim[2], d[2], p.wide)};
    for (int64_t i = 0; i < td_tensor_count(&y); i++) {
        const int64_t at[4] = {i / d[3] / d[2] / d[1], i / d[3] / d[2] % d[1], i / d[3] % d[2], i % d[3]};
        CHECK(fabsf(TD_DATA(&y, float)[i] - pooled(&p, &x, at, before)) < 1e-6f);
    }
    td_tensor_clear(&x);
    td_tensor_clear(&y);
}

TEST(pools_inside_and_over_the_edge)
{
    for (int64_t channels = 1; channels < 40; channels += 9) {
        for (int average = 0; average < 2; average++) {
            const char *op = average ? "AvgPool" : "MaxPool";
            pools((struct pool){op, 2, 2, 2, false, average}, shape4(2, 6, 9, channels));
            pools((struct pool){op, 3, 2, 1, true, average}, shape4(2, 7, 6, channels));
            pools((struct pool){op, 3, 1, 3, true, average}, shape4(1, 2, 8, channels));
            pools((struct pool){op, 5, 3, 2, true, average}, shape4(1, 4, 4, channels));
        }
    }
}

/* ------------------------------------------------------------------ copies */

TEST(short_runs_are_copied_whole)
{
    for (int64_t n = 1; n < 80; n++) {
        const int64_t rows = 7, beside = 3;
        struct td_shape a = {.rank = 2, .dim = {rows, n}}, b = {.rank = 2, .dim = {rows, beside}};
        struct td_tensor in[2] = {drawn(&a, 1), drawn(&b, 2)};
        struct td_tensor y =
            run_with(XY "r = ConcatV2 {N:int=2; T:type=float; Tidx:type=int32} (y, x, int32[] 1)\n", "r",
                     NULL, TD_KERNELS_FAST, in);
        for (int64_t i = 0; i < rows; i++) {
            const float *row = TD_DATA(&y, float) + i * (n + beside);
            CHECK(memcmp(row, TD_DATA(&in[1], float) + i * beside, (size_t)beside * sizeof *row) == 0);
            CHECK(memcmp(row + beside, TD_DATA(&in[0], float) + i * n, (size_t)n * sizeof *row) == 0);
        }
        td_tensor_clear(&y);
        td_tensor_clear(&in[0]);
        td_tensor_clear(&in[1]);
    }
}

TEST_MAIN(RUN(depthwise_with_several_results_a_channel) RUN(transposed_ones_of_few_channels)
              RUN(pools_inside_and_over_the_edge) RUN(short_runs_are_copied_whole))
