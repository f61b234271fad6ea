/* tests/unit/core/test_layout.c - core/compile/pass_layout.c: graphs before and after, and what must stay.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define TRANSPOSE "Transpose {T:type=float; Tperm:type=int32} "
#define TO_LAST ", int32[4] 0 2 3 1)\n"
#define TO_FIRST ", int32[4] 0 3 1 2)\n"
/* a: channels first, made of channels last */
#define FIRST "c = Reshape {T:type=float} (x, int32[4] 2 4 5 3)\na = " TRANSPOSE "(c" TO_FIRST
#define LAST(from) "r = " TRANSPOSE "(" from TO_LAST

/* Transposes left in X + body after the pass and folding; the result is what it was. */
static int left(const char *body)
{
    struct passed t;
    char text[2048];
    snprintf(text, sizeof text, X "%s", body);
    passed(&t, text, "r", "layout,fold");
    int n = count(&t, "Transpose");
    passed_close(&t);
    same_results(text, "r", td_shape_vector(120), td_shape_scalar());
    return n;
}

TEST(transposes_meet_through_element_wise_nodes)
{
    CHECK_INT(left(FIRST "b = Relu {T:type=float} (a)\n" LAST("b")), 0);
    CHECK_INT(left(FIRST "b = Relu {T:type=float} (a)\nd = Neg {T:type=float} (a)\n"
                         "e = Mul {T:type=float} (b, d)\n" LAST("e")),
              0);
    CHECK_INT(left(FIRST "b = Mul {T:type=float} (a, float[] 2)\n" LAST("b")), 0);
    CHECK_INT(left(FIRST "b = Mul {T:type=float} (a, float[3,1,1] 1 2 3)\n" LAST("b")), 0);
    CHECK_INT(left(FIRST "b = Mul {T:type=float} (a, float[1,3,4,1] 1 2 3 4)\n" LAST("b")), 0);
    CHECK_INT(left(FIRST "b = Greater {T:type=float} (a, float[] 0)\n"
                         "d = SelectV2 {T:type=float} (b, a, float[] 0)\n" LAST("d")),
              0);
}

TEST(axes_come_along)
{
    CHECK_INT(
        left(FIRST
             "b = Pad {T:type=float; Tpaddings:type=int32} (a, int32[4,2] 0 0 1 0 2 3 0 1)\n" LAST("b")),
        0);
    CHECK_INT(
        left(FIRST "b = ConcatV2 {N:int=2; T:type=float; Tidx:type=int32} (a, a, int32[] 1)\n" LAST("b")), 0);
    CHECK_INT(
        left(FIRST "b = ConcatV2 {N:int=2; T:type=float; Tidx:type=int32} (a, a, int32[] -1)\n" LAST("b")),
        0);
    CHECK_INT(left(FIRST "b = Split {num_split:int=3; T:type=float} (int32[] 1, a)\n"
                         "d = Sub {T:type=float} (b:2, b:0)\n" LAST("d")),
              0);
    CHECK_INT(left(FIRST "b = Mean {keep_dims:bool=true; T:type=float; Tidx:type=int32} (a, int32[2] 2 3)\n"
                         "d = Sub {T:type=float} (a, b)\n" LAST("d")),
              0);
    CHECK_INT(left(FIRST "b = Cumsum {T:type=float; Tidx:type=int32} (a, int32[] 2)\n" LAST("b")), 0);
    CHECK_INT(
        left(FIRST
             "b = Slice {T:type=float; Index:type=int32} (a, int32[4] 0 1 0 2, int32[4] -1 2 -1 3)\n" LAST(
                 "b")),
        0);
    CHECK_INT(left(FIRST
                   "b = StridedSlice {T:type=float; Index:type=int32; begin_mask:int=4; end_mask:int=9} "
                   "(a, int32[4] 0 1 3 2, int32[4] 2 2 4 3, int32[4] 1 1 2 1)\n" LAST("b")),
              0);
    CHECK_INT(
        left(FIRST "b = BiasAdd {T:type=float; data_format:string='NCHW'} (a, float[3] 1 2 3)\n" LAST("b")),
        0);
    CHECK_INT(left(FIRST "b = FusedBatchNormV3 {T:type=float; U:type=float; data_format:string='NCHW'; "
                         "is_training:bool=false} (a, float[3] 1 2 3, float[3] 0 1 0, float[3] 0 0 1, "
                         "float[3] 1 2 3)\n" LAST("b")),
              0);
    CHECK_INT(
        left("c = Reshape {T:type=float} (x, int32[4] 1 5 6 4)\na = " TRANSPOSE "(c" TO_FIRST
             "b = DepthToSpace {T:type=float; block_size:int=2; data_format:string='NCHW'} (a)\n" LAST("b")),
        0);
}

TEST(results_of_other_ranks_end_a_region)
{
    CHECK_INT(left(FIRST "r = Mean {T:type=float; Tidx:type=int32} (a, int32[2] 2 3)\n"), 0);
    CHECK_INT(
        left(FIRST "r = ArgMax {T:type=float; Tidx:type=int32; output_type:type=int64} (a, int32[] 1)\n"), 0);
    CHECK_INT(left(FIRST "b = Mean {keep_dims:bool=true; T:type=float; Tidx:type=int32} (a, int32[2] 2 3)\n"
                         "r = Squeeze {T:type=float; squeeze_dims:list(int)=[2,3]} (b)\n"),
              0);
    CHECK_INT(left(FIRST "r = Shape {T:type=float; out_type:type=int32} (a)\n"), 0);
    CHECK_INT(left(FIRST "r = Mean {T:type=float; Tidx:type=int32} (a, int32[1] 2)\n"),
              1); /* [N,C,W] is no [N,W,C] */
    CHECK_INT(left(FIRST "r = Softmax {T:type=float} (a)\n"), 1);
}

TEST(what_saves_nothing_stays)
{
    CHECK_INT(left(FIRST "b = Relu {T:type=float} (a)\nr = Neg {T:type=float} (b)\n"), 1);
    CHECK_INT(left(FIRST "b = Relu {T:type=float} (a)\nr = Reshape {T:type=float} (b, int32[1] -1)\n"), 1);
    /* of unknown rank, so that only the Transpose checks it */
    struct passed t;
    passed(&t, X "a = " TRANSPOSE "(x" TO_FIRST "b = Relu {T:type=float} (a)\n" LAST("b"), "r", "layout");
    CHECK_INT(count(&t, "Transpose"), 1);
    passed_close(&t);
}

#define CONV(data_format)                                                                                    \
    "Conv2D {T:type=float; strides:list(int)=[1,1,1,1]; padding:string='SAME'; "                             \
    "data_format:string='" data_format "'} "

TEST(an_exported_network_keeps_its_channels_last)
{
    const char *text =
        X "c = Reshape {T:type=float} (x, int32[4] 2 3 4 5)\n"
          "c1 = " TRANSPOSE "(c" TO_LAST
          "c2 = " CONV("NHWC") "(c1, float[3,3,3,2] 0.1 0.2 -0.1 0.3)\n"
                               "c3 = " TRANSPOSE "(c2" TO_FIRST
                               "c4 = AddV2 {T:type=float} (c3, float[1,2,1,1] 0.5 -0.5)\n"
                               "c5 = Relu {T:type=float} (c4)\n"
                               "c6 = " TRANSPOSE "(c5" TO_LAST "c7 = " CONV(
                                   "NHWC") "(c6, float[1,1,2,2] 1 0.5 -1)\n"
                                           "c8 = " TRANSPOSE "(c7" TO_FIRST
                                           "c9 = AddV2 {T:type=float} (c8, c5)\n"
                                           "r = Mean {T:type=float; Tidx:type=int32} (c9, int32[2] 2 3)\n";
    struct passed t;
    passed(&t, text, "r", "layout,fold");
    CHECK_INT(count(&t, "Transpose"), 1);
    passed_close(&t);
    passed(&t, text, "r", NULL);
    CHECK_INT(count(&t, "Conv2D+AddV2+Relu"), 1);
    passed_close(&t);
    same_results(text, "r", td_shape_vector(120), td_shape_scalar());
}

TEST(channels_first_ops_become_channels_last)
{
    const char *text =
        X "c = Reshape {T:type=float} (x, int32[4] 2 3 4 5)\n"
          "c1 = Conv2D {T:type=float; strides:list(int)=[1,1,2,1]; padding:string='EXPLICIT'; "
          "explicit_paddings:list(int)=[0,0,0,0,1,1,2,0]; data_format:string='NCHW'} "
          "(c, float[3,2,3,2] 0.1 0.2 -0.1 0.3)\n"
          "c2 = BiasAdd {T:type=float; data_format:string='NCHW'} (c1, float[2] 0.5 -0.5)\n"
          "c3 = MaxPool {T:type=float; ksize:list(int)=[1,1,2,1]; strides:list(int)=[1,1,1,2]; "
          "padding:string='SAME'; data_format:string='NCHW'} (c2)\n"
          "r = Mean {T:type=float; Tidx:type=int32} (c3, int32[2] 2 3)\n";
    struct passed t;
    passed(&t, text, "r", "layout,fold");
    CHECK_INT(count(&t, "Transpose"), 1);
    passed_close(&t);
    same_results(text, "r", td_shape_vector(120), td_shape_scalar());
    same_results(X
                 "c = Reshape {T:type=float} (x, int32[4] 1 2 4 5)\n"
                 "r = Conv2DBackpropInput {T:type=float; strides:list(int)=[1,1,2,2]; padding:string='SAME'; "
                 "data_format:string='NCHW'} (int32[4] 1 3 8 10, float[3,3,3,2] 0.1 0.2 -0.1 0.3, c)\n",
                 "r", td_shape_vector(40), td_shape_scalar());
}

TEST_MAIN(RUN(transposes_meet_through_element_wise_nodes) RUN(axes_come_along)
              RUN(results_of_other_ranks_end_a_region) RUN(what_saves_nothing_stays)
                  RUN(an_exported_network_keeps_its_channels_last)
                      RUN(channels_first_ops_become_channels_last))
