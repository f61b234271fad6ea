/* tests/unit/core/test_arithmetic.c - core/compile/pass_arithmetic.c: each rule where it fires, and where it
 * must not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

/* Nodes left of a graph of one input x, its result r, after the pass alone. */
static int left(const char *body, const char *op)
{
    struct passed t;
    char text[1024];
    snprintf(text, sizeof text, X "%s", body);
    passed(&t, text, "r", "arithmetic");
    int n = count(&t, op);
    passed_close(&t);
    return n;
}

TEST(products_and_sums_with_neutral_elements_go)
{
    CHECK_INT(left("r = Mul {T:type=float} (x, float[] 1)", "Mul"), 0);
    CHECK_INT(left("r = Mul {T:type=float} (float[] 1, x)", "Mul"), 0);
    CHECK_INT(left("r = RealDiv {T:type=float} (x, float[] 1)", "RealDiv"), 0);
    CHECK_INT(left("r = Sub {T:type=float} (x, float[] 0)", "Sub"), 0);
    CHECK_INT(left("r = AddV2 {T:type=float} (x, float[] -0.0)", "AddV2"), 0);
    CHECK_INT(left("r = Pow {T:type=float} (x, float[] 1)", "Pow"), 0);
    CHECK_INT(left("i = Cast {SrcT:type=float; DstT:type=int32} (x)\nr = AddV2 {T:type=int32} (i, int32[] 0)",
                   "AddV2"),
              0);
}

TEST(what_would_change_a_bit_stays)
{
    CHECK_INT(left("r = AddV2 {T:type=float} (x, float[] 0)", "AddV2"), 1); /* -0 + 0 is 0 */
    CHECK_INT(left("r = Sub {T:type=float} (x, float[] -0.0)", "Sub"), 1);
    CHECK_INT(left("r = Sub {T:type=float} (float[] 0, x)", "Sub"), 1);
    CHECK_INT(left("r = RealDiv {T:type=float} (float[] 1, x)", "RealDiv"), 1);
    CHECK_INT(left("r = Mul {T:type=float} (x, float[] 2)", "Mul"), 1);
    CHECK_INT(left("r = RealDiv {T:type=float} (x, float[] 3)", "RealDiv"), 1);
    CHECK_INT(left("r = Pow {T:type=float} (x, float[] 0.5)", "Pow"), 1); /* sqrt(-inf) is no number */
    CHECK_INT(left("c = Cast {SrcT:type=float; DstT:type=complex64} (x)\none = Cast {SrcT:type=float; "
                   "DstT:type=complex64} (float[] 1)\n"
                   "r = Mul {T:type=complex64} (c, one)",
                   "Mul"),
              1);
}

TEST(a_constant_that_may_broaden_the_result_stays)
{
    CHECK_INT(left("r = Mul {T:type=float} (x, float[3] 1)", "Mul"), 1);
    CHECK_INT(left("r = Mul {T:type=float} (x, float[1] 1)", "Mul"), 1); /* x may be a scalar */
    CHECK_INT(
        left("m = MatMul {T:type=float} (x, float[2,3] 1)\nr = Mul {T:type=float} (m, float[3] 1)", "Mul"),
        0);
    CHECK_INT(
        left("m = MatMul {T:type=float} (x, float[2,3] 1)\nr = Mul {T:type=float} (m, float[2,3] 1)", "Mul"),
        1);
}

TEST(functions_that_undo_or_repeat_themselves_go)
{
    CHECK_INT(left("a = Neg {T:type=float} (x)\nr = Neg {T:type=float} (a)", "Neg"), 0);
    CHECK_INT(left("a = Relu {T:type=float} (x)\nr = Relu {T:type=float} (a)", "Relu"), 1);
    CHECK_INT(left("a = Neg {T:type=float} (x)\nr = Relu {T:type=float} (a)", "Neg"), 1);
    CHECK_INT(left("r = Cast {SrcT:type=float; DstT:type=float} (x)", "Cast"), 0);
    CHECK_INT(left("r = Cast {SrcT:type=float; DstT:type=double} (x)", "Cast"), 1);
    CHECK_INT(left("r = AddN {N:int=1; T:type=float} (x)", "AddN"), 0);
}

#define CUBE "c = Reshape {T:type=float} (x, int32[3] 2 3 4)\n"
#define TRANSPOSE "Transpose {T:type=float; Tperm:type=int32} "

TEST(transposes_join_and_go)
{
    CHECK_INT(
        left(CUBE "a = " TRANSPOSE "(c, int32[3] 1 2 0)\nr = " TRANSPOSE "(a, int32[3] 2 0 1)", "Transpose"),
        0);
    CHECK_INT(
        left(CUBE "a = " TRANSPOSE "(c, int32[3] 1 2 0)\nr = " TRANSPOSE "(a, int32[3] 1 2 0)", "Transpose"),
        1);
    CHECK_INT(left(CUBE "r = " TRANSPOSE "(c, int32[3] 0 1 2)", "Transpose"), 0);
    CHECK_INT(left("r = " TRANSPOSE "(x, int32[3] 0 1 2)", "Transpose"), 0);
    CHECK_INT(left("r = " TRANSPOSE "(x, int32[3] 0 1 2)", "EnsureShape"), 1); /* x may have another rank */
    same_results(X "r = " TRANSPOSE "(x, int32[2] 0 1)", "r", td_shape_matrix(4, 6), td_shape_scalar());
    CHECK_INT(left(CUBE "r = " TRANSPOSE "(c, int32[2] 0 1)", "Transpose"), 1);
    same_results(X CUBE "a = " TRANSPOSE "(c, int32[3] 1 2 0)\nr = " TRANSPOSE "(a, int32[3] 1 2 0)", "r",
                 td_shape_matrix(4, 6), td_shape_scalar());
}

#define IMAGE "c = Reshape {T:type=float} (x, int32[4] 1 5 5 2)\n"
#define PAD "Pad {T:type=float; Tpaddings:type=int32} "
#define PADDED(paddings) IMAGE "p = " PAD "(c, int32[4,2] " paddings ")\n"
#define CONV(padding)                                                                                        \
    "r = Conv2D {T:type=float; strides:list(int)=[1,2,2,1]; padding:string='" padding "'} (p, "              \
    "float[3,3,2,1] 1)"

TEST(a_convolution_pads_for_the_pad_before_it)
{
    CHECK_INT(left(PADDED("0 0 1 1 0 2 0 0") CONV("VALID"), "Pad"), 0);
    CHECK_INT(left(PADDED("0 0 1 1 0 2 0 0") CONV("VALID"), "Conv2D"), 1);
    CHECK_INT(left(PADDED("0 0 1 1 0 2 0 0") CONV("SAME"), "Pad"), 1); /* pads by its input's size */
    CHECK_INT(left(PADDED("0 1 1 1 0 2 0 0") CONV("VALID"), "Pad"), 1);
    CHECK_INT(left(PADDED("0 0 1 1 0 2 0 1") "r = Relu {T:type=float} (p)", "Pad"), 1);
    CHECK_INT(left(PADDED("0 0 1 1 0 0 0 0") "r = DepthwiseConv2dNative {T:type=float; "
                                             "strides:list(int)=[1,1,1,1]; padding:string='EXPLICIT'; "
                                             "explicit_paddings:list(int)=[0,0,0,1,2,0,0,0]} (p, "
                                             "float[3,3,2,1] 1)",
                   "Pad"),
              0);
    CHECK_INT(left(IMAGE "p = PadV2 {T:type=float; Tpaddings:type=int32} (c, int32[4,2] 0 0 1 1 1 1 0 0, "
                         "float[] 0)\n" CONV("VALID"),
                   "PadV2"),
              0);
    CHECK_INT(left(IMAGE "p = PadV2 {T:type=float; Tpaddings:type=int32} (c, int32[4,2] 0 0 1 1 1 1 0 0, "
                         "float[] 1)\n" CONV("VALID"),
                   "PadV2"),
              1);
}

TEST(views_that_end_where_they_began_go)
{
    CHECK_INT(
        left(CUBE
             "a = Reshape {T:type=float} (c, int32[1] 24)\nr = Reshape {T:type=float} (a, int32[3] 2 3 4)",
             "Reshape"),
        1);
    CHECK_INT(
        left("a = Reshape {T:type=float} (x, int32[1] 24)\nr = Reshape {T:type=float} (a, int32[2] -1 4)",
             "Reshape"),
        2);
}

TEST(squares_and_powers_of_two_are_products)
{
    CHECK_INT(left("r = Pow {T:type=float} (x, float[] 2)", "Square"), 1);
    CHECK_INT(left("r = RealDiv {T:type=float} (x, float[] 255)", "RealDiv"), 1);
    CHECK_INT(left("r = RealDiv {T:type=float} (x, float[2] 128 -0.25)", "Mul"), 1);
    same_results(X "r = RealDiv {T:type=float} (x, float[] 8)", "r", td_shape_matrix(3, 5),
                 td_shape_scalar());
}

TEST(nodes_that_wait_for_others_stay)
{
    CHECK_INT(left("n = NoOp {} ()\nr = Mul {T:type=float} (x, float[] 1, ^n)", "Mul"), 1);
}

TEST_MAIN(RUN(products_and_sums_with_neutral_elements_go) RUN(what_would_change_a_bit_stays)
              RUN(a_constant_that_may_broaden_the_result_stays)
                  RUN(functions_that_undo_or_repeat_themselves_go) RUN(transposes_join_and_go)
                      RUN(a_convolution_pads_for_the_pad_before_it) RUN(views_that_end_where_they_began_go)
                          RUN(squares_and_powers_of_two_are_products) RUN(nodes_that_wait_for_others_stay))
