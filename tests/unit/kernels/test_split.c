/* tests/unit/kernels/test_split.c - one large op on several threads: the same numbers as on one, but for
 * rounding, and where it only computes or copies element by element, the same bits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "tests/unit/core/pool_make.h"
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float} "
enum { ROUNDS = 14 }; /* the first ones pack weights and learn what the op takes */

static float most_off = 1e-4f; /* by which numbers may differ */

/* Runs `text` on one thread and on several; tells whether it was split. */
static bool same_numbers(const char *text, struct td_shape x, struct td_shape y)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct made_pool pool;
    struct td_tensor in[2] = {ramp(&x, -1.5f, 0.25f), ramp(&y, 0.5f, 0.125f)}, want, got;
    const struct td_run_opts opts = {.pool = &pool.pool};
    passed_open(&t, text, "r");
    struct td_model_opts how = {.ops = t.ops};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    test_check_ok(__FILE__, __LINE__, text, td_callable_run(f, in, &want, NULL, &t.err), &t.err);
    pool_start(&pool);
    for (int round = 0; round < ROUNDS; round++) {
        test_check_ok(__FILE__, __LINE__, text, td_callable_run(f, in, &got, &opts, &t.err), &t.err);
        CHECK(td_shape_equal(&want.shape, &got.shape));
        for (int64_t i = 0; i < td_tensor_count(&want); i++) {
            const float a = TD_DATA(&want, float)[i], b = TD_DATA(&got, float)[i];
            if (!(fabsf(a - b) <= most_off * (1 + fabsf(a)))) {
                fprintf(stderr, "%s\nround %d, element %lld: %g on several threads, %g on one\n", text, round,
                        (long long)i, (double)b, (double)a);
                exit(1);
            }
        }
        td_tensor_clear(&got);
    }
    pool_stop(&pool);
    td_tensor_clear(&want);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    td_model_unref(m);
    passed_close(&t);
    return pool.started > 0;
}

static struct td_shape none(void)
{
    return td_shape_scalar();
}

static bool conv(const char *attrs, const char *filter, const char *then, struct td_shape x,
                 struct td_shape y)
{
    char text[2000];
    snprintf(text, sizeof text, XY "c = Conv2D {T:type=float; %s} (x, %s)\n%s", attrs, filter, then);
    return same_numbers(text, x, y);
}

#define SAME "padding:string='SAME'"
#define W3 "float[3,3,16,32] 0.1 -0.2 0.05 0.3 -0.15"
#define RELU "r = Relu " T "(c)\n"

TEST(images_of_a_batch_and_rows_of_an_image)
{
    int split = 0;
    split += (conv("strides:list(int)=[1,1,1,1]; " SAME, W3, RELU, shape4(5, 24, 24, 16), none()));
    split += (conv("strides:list(int)=[1,1,1,1]; " SAME, W3, RELU, shape4(1, 25, 24, 16), none()));
    CHECK(
        conv("strides:list(int)=[1,1,1,1]; padding:string='VALID'", W3, RELU, shape4(1, 29, 24, 16), none()));
    split += (conv("strides:list(int)=[1,2,2,1]; " SAME, W3, RELU, shape4(1, 51, 50, 16), none()));
    split += (conv("strides:list(int)=[1,2,1,1]; padding:string='EXPLICIT'; "
                   "explicit_paddings:list(int)=[0,0,2,5,1,0,0,0]",
                   W3, RELU, shape4(1, 52, 30, 16), none()));
    split += (conv("strides:list(int)=[1,1,1,1]; dilations:list(int)=[1,3,2,1]; " SAME, W3, RELU,
                   shape4(1, 26, 26, 16), none()));
    split += (conv("strides:list(int)=[1,1,1,1]; " SAME, "float[1,1,64,64] 0.1 -0.2 0.05 0.3", RELU,
                   shape4(1, 31, 30, 64), none()));
    split += (conv("strides:list(int)=[1,1,1,1]; " SAME, "float[7,1,16,32] 0.1 -0.2 0.05 0.3", RELU,
                   shape4(1, 31, 30, 16), none()));
    printf("     %d were split\n", split); /* none where oneDNN has no fast convolution */
}

TEST(what_follows_a_convolution_is_split_with_it)
{
    int split = 0;
    const char *residual =
        "b = BiasAdd " T "(c, float[32] 0.5 -1 0.25)\ns = AddV2 " T "(b, y)\nr = Relu " T "(s)\n";
    split += (conv("strides:list(int)=[1,1,1,1]; " SAME, W3, residual, shape4(1, 25, 24, 16),
                   shape4(1, 25, 24, 32)));
    split += (conv("strides:list(int)=[1,1,1,1]; " SAME, W3, residual, shape4(3, 25, 24, 16),
                   shape4(3, 25, 24, 32)));
    const char *norm =
        "n = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=false} "
        "(c, float[32] 1 2, float[32] 0.5, float[32] 0.1 -0.3, float[32] 1 0.25 4)\nr = Relu6 " T "(n)\n";
    split += (conv("strides:list(int)=[1,1,1,1]; " SAME, W3, norm, shape4(1, 25, 24, 16), none()));
    printf("     %d were split\n", split); /* none where oneDNN has no fast convolution */
}

/* oneDNN may like other weights for a half than for the whole (2.6 does here, with AVX-512). */
TEST(convolutions_that_look_at_single_cells)
{
    static const char *const then[] = {
        "b = BiasAdd " T "(c, float[256] 0.5 -1 0.25)\nr = Relu " T "(b)\n",
        "b = BiasAdd " T "(c, float[256] 0.5 -1 0.25)\ns = AddV2 " T "(b, y)\nr = Relu " T "(s)\n",
        "n = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=false} (c, float[256] 1 2, "
        "float[256] 0.5, float[256] 0.1 -0.3, float[256] 1 0.25 4)\nr = Relu6 " T "(n)\n"};
    int split = 0;
    for (int i = 0; i < 3; i++) {
        split += (conv("strides:list(int)=[1,1,1,1]; " SAME, "float[1,1,256,256] 0.1 -0.2 0.05 0.3", then[i],
                       shape4(1, 14, 14, 256), i == 1 ? shape4(1, 14, 14, 256) : none()));
    }
    printf("     %d were split\n", split); /* none where oneDNN has no fast convolution */
}

TEST(grouped_convolutions)
{
    int split = 0;
    const char *depth = X "c = DepthwiseConv2dNative {T:type=float; strides:list(int)=[1,1,1,1]; " SAME "} "
                          "(x, float[3,3,64,1] 0.1 -0.2 0.05)\nr = Relu6 " T "(c)\n";
    split += same_numbers(depth, shape4(1, 63, 64, 64), none());
    printf("     %d were split\n", split); /* none where oneDNN has no fast convolution */
}

TEST(images_of_a_convolution_towards_its_input)
{
    int split = 0;
    const char *towards = X "c = Conv2DBackpropInput {T:type=float; strides:list(int)=[1,%d,%d,1]; " SAME "} "
                            "(int32[4] 5 24 24 16, " W3 ", x)\nr = Relu " T "(c)\n";
    char text[2000];
    for (int stride = 1; stride <= 2; stride++) {
        snprintf(text, sizeof text, towards, stride, stride);
        split += same_numbers(text, shape4(5, 24 / stride, 24 / stride, 32), none());
    }
    printf("     %d were split\n", split); /* none where oneDNN has no fast convolution */
}

/* Of sizes apart: what products take is learnt by size. */
TEST(products_by_rows_and_by_columns)
{
    int split = 0;
    const char *ab = XY "r = MatMul {T:type=float} (x, y)\n";
    split += (same_numbers(ab, td_shape_matrix(100, 256), td_shape_matrix(256, 300)));
    split += (same_numbers(ab, td_shape_matrix(1000, 150), td_shape_matrix(150, 77)));
    split += (same_numbers(XY "r = MatMul {T:type=float; transpose_b:bool=true} (x, y)\n",
                           td_shape_matrix(200, 512), td_shape_matrix(300, 512)));
    split += (same_numbers(XY "r = MatMul {T:type=float; transpose_a:bool=true} (x, y)\n",
                           td_shape_matrix(256, 1700), td_shape_matrix(256, 160)));
    split += (same_numbers(XY "r = Einsum {T:type=float; N:int=2; equation:string='ab,bc->ac'} (x, y)\n",
                           td_shape_matrix(130, 1024), td_shape_matrix(1024, 300)));
    const char *dense =
        X "m = MatMul " T "(x, float[256,256] 0.1 0.2 -0.3)\nb = BiasAdd " T "(m, float[256] 1 2)\n"
          "r = Tanh " T "(b)\n";
    split += same_numbers(dense, td_shape_matrix(130, 256), none());
    CHECK(split > 0);
}

/* ------------------------------------------------------------------ stopping */

static void *stop_soon(void *word)
{
    const struct timespec soon = {.tv_nsec = 20000000};
    (void)nanosleep(&soon, NULL);
    atomic_store((td_stop *)word, TD_CANCELLED);
    return NULL;
}

/* One that takes more than a second is computed in parts: the same numbers, and the run can be stopped. */
TEST(a_long_product_is_stopped_in_its_middle)
{
    enum { ROWS = 4200, DEPTH = 4200 };
    const struct td_shape x = td_shape_matrix(ROWS, DEPTH), y = td_shape_matrix(DEPTH, ROWS);
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_tensor in[2] = {ramp(&x, -1.5f, 0.25f), ramp(&y, 0.5f, 0.125f)}, got;
    td_stop word = 0;
    pthread_t other;
    passed_open(&t, XY "r = MatMul " T "(x, y)\n", "r");
    struct td_model_opts how = {.ops = t.ops};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    CHECK_INT(td_callable_run(f, in, &got, NULL, &t.err), TD_OK);
    for (int i = 0; i < ROWS; i += 97) {
        const int j = ROWS - 1 - i;
        double want = 0;
        for (int k = 0; k < DEPTH; k++) {
            want += (double)TD_DATA(&in[0], float)[i * DEPTH + k] * TD_DATA(&in[1], float)[k * ROWS + j];
        }
        CHECK(fabs(TD_DATA(&got, float)[i * ROWS + j] - want) <= 1e-4 * (DEPTH + fabs(want)));
    }
    td_tensor_clear(&got);
    CHECK_INT(pthread_create(&other, NULL, stop_soon, &word), 0);
    const struct td_run_opts opts = {.work.stop = &word};
    CHECK_INT(td_callable_run(f, in, &got, &opts, &t.err), TD_CANCELLED);
    pthread_join(other, NULL);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    td_model_unref(m);
    passed_close(&t);
}

/* The one node gives what the formula's nodes give. */
static void adam_is_its_chain(struct td_shape shape)
{
    static const char head[] = XY "v = Square " T "(y)\n";
    static const char *const tail[] = {
        "a = _Adam {rest_1:float=0.25; rest_2:float=0.125; epsilon:float=0.5} (x, y, v, x, float[] 3)\n"
        "w = Identity " T "(a:0)\nm1 = Identity " T "(a:1)\nv1 = Identity " T "(a:2)\n",
        "dm = Sub " T "(x, y)\nem = Mul " T "(dm, float[] 0.25)\nm1 = AddV2 " T "(y, em)\n"
        "gg = Mul " T "(x, x)\ndv = Sub " T "(gg, v)\nev = Mul " T "(dv, float[] 0.125)\nv1 = AddV2 " T
        "(v, ev)\n"
        "up = Mul " T "(m1, float[] 3)\nq = Sqrt " T "(v1)\nbelow = AddV2 " T "(q, float[] 0.5)\n"
        "d = RealDiv " T "(up, below)\nw = Sub " T "(x, d)\n"};
    static const char *const result[] = {"r = Identity " T "(w)", "r = Identity " T "(m1)",
                                         "r = Identity " T "(v1)"};
    struct td_tensor in[2] = {ramp(&shape, -1.5f, 0.25f), ramp(&shape, 0.5f, 0.125f)};
    for (int k = 0; k < 3; k++) {
        struct td_tensor got[2];
        for (int i = 0; i < 2; i++) {
            char text[2000];
            struct passed t;
            struct td_model *m;
            struct td_callable *f;
            snprintf(text, sizeof text, "%s%s%s\n", head, tail[i], result[k]);
            passed_open(&t, text, "r");
            struct td_model_opts how = {.ops = t.ops};
            CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
            CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
            test_check_ok(__FILE__, __LINE__, text, td_callable_run(f, in, &got[i], NULL, &t.err), &t.err);
            td_model_unref(m);
            passed_close(&t);
        }
        CHECK(memcmp(got[0].data, got[1].data, td_tensor_bytes(&got[0])) == 0);
        td_tensor_clear(&got[0]);
        td_tensor_clear(&got[1]);
    }
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

TEST(element_wise_work_gives_the_same_bits)
{
    const struct td_shape large = shape4(7, 50, 49, 33), row = shape4(1, 1, 1, 33),
                          plane = shape4(7, 1, 49, 33);
    most_off = 0;
    CHECK(same_numbers(X "r = Tanh " T "(x)\n", large, none()));
    CHECK(same_numbers(XY "r = Sub " T "(x, y)\n", large, large));
    CHECK(same_numbers(XY "r = Mul " T "(x, y)\n", large, row));
    CHECK(same_numbers(XY "r = Mul " T "(y, x)\n", large, plane));
    CHECK(same_numbers(XY "r = RealDiv " T "(x, float[] 3)\n", large, none()));
    CHECK(same_numbers(X "r = Softmax " T "(x)\n", large, none()));
    /* chains: operands of the output's size, rows of tiles, spread ones, values read twice */
    const char *chain =
        XY "a = Mul " T "(x, y)\nb = Tanh " T "(a)\nc = AddV2 " T "(b, x)\nr = Mul " T "(c, b)\n";
    CHECK(same_numbers(chain, large, large));
    CHECK(same_numbers(chain, large, row));
    CHECK(same_numbers(chain, large, plane));
    CHECK(same_numbers(X "r = Einsum {N:int=1; T:type=float; equation:string='abcd->dbca'} (x)\n", large,
                       none()));
    CHECK(same_numbers(X "r = Einsum {N:int=1; T:type=float; equation:string='abcd->abdc'} (x)\n",
                       shape4(1, 1, 900, 700), none()));
    /* the update of adam: w and m go with x, v with y, which is never negative */
    const char *adam =
        XY "v = Square " T "(y)\na = _Adam {rest_1:float=0.1; rest_2:float=0.001; epsilon:float=1e-7} "
           "(x, y, v, x, float[] 0.25)\ns = AddV2 " T "(a:0, a:1)\nr = AddV2 " T "(s, a:2)\n";
    CHECK(same_numbers(adam, large, large));
    adam_is_its_chain(large);
    most_off = 1e-4f;
}

TEST_MAIN(RUN(element_wise_work_gives_the_same_bits) RUN(images_of_a_batch_and_rows_of_an_image)
              RUN(what_follows_a_convolution_is_split_with_it) RUN(convolutions_that_look_at_single_cells)
                  RUN(grouped_convolutions) RUN(images_of_a_convolution_towards_its_input)
                      RUN(products_by_rows_and_by_columns) RUN(a_long_product_is_stopped_in_its_middle))
