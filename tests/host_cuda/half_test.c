/* tests/host_cuda/half_test.c - what the compiler makes of nodes of half and bfloat16 for a GPU: a product or
 * convolution with steps behind it, and attention, against the host's kernels.
 *
 * With the libraries' stand-ins, which add a bias themselves, and (HOST_CUDA_LIBRARIES=0) by our own kernels.
 * Both sides round between the nodes, and sum up in other orders: numbers differ by a rounding or two.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/both_sides.h"

static const enum td_dtype halves[] = {TD_HALF, TD_BFLOAT16};

/* Within three roundings of the largest number, and as so many steps. */
static void few_steps(const char *format, struct td_shape x, struct td_shape y, uint64_t steps)
{
    for (int i = 0; i < 2; i++) {
        const char *const text = graph(format, halves[i]);
        struct td_tensor in[2] = {random_of(halves[i], x), random_of(halves[i], y)};
        const uint64_t before = launches();
        compare(text, in, halves[i] == TD_HALF ? 3e-3 : 2.4e-2);
        CHECK_INT(launches() - before, steps);
        td_tensor_clear(&in[0]);
        td_tensor_clear(&in[1]);
    }
}

#define SUM_OF_Y "b = Sum {" T "; Tidx:type=int32} (y, int32[1] 0)\n" /* a step */

TEST(a_product_with_its_bias_and_what_follows)
{
    const struct td_shape x = td_shape_matrix(9, 16), y = td_shape_matrix(16, 24);
    setup();
    few_steps(IN_XY "m = MatMul {" T "} (x, y)\n" SUM_OF_Y "a = BiasAdd {" T "} (m, b)\nr = Relu {" T
                    "} (a)\n",
              x, y, 2);
    few_steps(IN_XY "m = MatMul {" T "} (x, y)\n" SUM_OF_Y "a = BiasAdd {" T "} (m, b)\ne = Erf {" T
                    "} (a)\ng = AddV2 {" T "} (e, m)\nr = Mul {" T "} (g, a)\n",
              x, y, 2);
    few_steps(IN_XY "m = MatMul {" T "} (x, y)\n" SUM_OF_Y "a = BiasAdd {" T "} (m, b)\nn = Relu {" T
                    "} (x)\nk = MatMul {" T "} (n, y)\nr = AddV2 {" T "} (k, a)\n",
              x, y, 4);
    few_steps(IN_XY "m = BatchMatMulV2 {" T "; adj_y:bool=true} (x, y)\nc = Sigmoid {" T "} (m)\nr = Mul {" T
                    "} (m, c)\n",
              matrices(3, 5, 8), matrices(3, 7, 8), 1);
}

TEST(a_result_that_is_larger_than_the_product)
{
    setup();
    few_steps(IN_XY "m = BatchMatMulV2 {" T "} (x, y)\na = AddV2 {" T "} (m, x)\nr = Tanh {" T "} (a)\n",
              matrices(3, 4, 4), matrices(1, 4, 4), 1);
    few_steps(IN_XY "m = MatMul {" T "} (y, y)\na = AddV2 {" T "} (m, x)\nr = Tanh {" T "} (a)\n",
              matrices(3, 4, 4), td_shape_matrix(4, 4), 1);
}

TEST(a_convolution)
{
    setup();
    few_steps(IN_XY "m = Conv2D {" T
                    "; strides:list(int)=[1,1,1,1]; padding:string='SAME'} (x, y)\na = AddV2 {" T
                    "} (m, x)\nr = Relu {" T "} (a)\n",
              shape4(2, 5, 6, 8), shape4(3, 3, 8, 8), 1);
}

#define SCORES "m = BatchMatMulV2 {" T "; adj_y:bool=true} (x, y)\n"
#define VALUES "v = Neg {" T "} (y)\n" /* a step */

TEST(attention)
{
    setup();
    few_steps(IN_XY SCORES "p = Softmax {" T "} (m)\n" VALUES "r = BatchMatMulV2 {" T "} (p, v)\n",
              shape4(2, 3, 17, 64), shape4(2, 3, 80, 64), 2);
    few_steps(IN_XY "c = Cast {SrcT:type=float; DstT:type=%s} (float[] 0.125)\n" SCORES "s = Mul {" T
                    "} (m, c)\n" VALUES "k = Sum {" T
                    "; Tidx:type=int32; keep_dims:bool=true} (y, int32[1] 3)\n"
                    "t = Transpose {" T "} (k, int32[4] 0 1 3 2)\na = AddV2 {" T "} (s, t)\np = Softmax {" T
                    "} (a)\nr = BatchMatMulV2 {" T "} (p, v)\n",
              shape4(2, 1, 9, 128), shape4(2, 1, 33, 128), 4);
}

/* As Keras's layers have it whose policy is half or bfloat16: softmax and normalisation are of floats. */
TEST(casts_within_a_layer)
{
    setup();
    few_steps(IN_XY SCORES "f = Cast {SrcT:type=%s; DstT:type=float} (m)\n"
                           "s = Mul {T:type=float} (f, float[] 0.125)\nq = Softmax {T:type=float} (s)\n"
                           "p = Cast {SrcT:type=float; DstT:type=%s} (q)\n" VALUES "r = BatchMatMulV2 {" T
                           "} (p, v)\n",
              shape4(2, 3, 17, 64), shape4(2, 3, 80, 64), 2);
    few_steps(IN_XY "z = Cast {SrcT:type=%s; DstT:type=float} (x)\n"
                    "m = Mean {T:type=float; Tidx:type=int32; keep_dims:bool=true} (z, int32[1] 1)\n"
                    "d = SquaredDifference {T:type=float} (z, m)\n"
                    "v = Mean {T:type=float; Tidx:type=int32; keep_dims:bool=true} (d, int32[1] 1)\n"
                    "e = AddV2 {T:type=float} (v, float[] 0.001)\nw = Rsqrt {T:type=float} (e)\n"
                    "b = Range {Tidx:type=float} (float[] -1, float[] 3, float[] 0.0625)\n"
                    "o = Sub {T:type=float} (z, m)\nk = Mul {T:type=float} (o, w)\n"
                    "n = Mul {T:type=float} (k, b)\na = AddV2 {T:type=float} (n, b)\n"
                    "r = Cast {SrcT:type=float; DstT:type=%s} (a)\n",
              td_shape_matrix(19, 64), td_shape_matrix(1, 1), 1);
}

TEST_MAIN(RUN(casts_within_a_layer) RUN(a_product_with_its_bias_and_what_follows)
              RUN(a_result_that_is_larger_than_the_product) RUN(a_convolution) RUN(attention))
