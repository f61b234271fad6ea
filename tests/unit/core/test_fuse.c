/* tests/unit/core/test_fuse.c - core/compile/pass_fuse.c and kernels/fused/fused_*.c: what becomes one
 * step, what must not, and that results stay.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float} "
#define CONV                                                                                                 \
    "c = Conv2D {T:type=float; strides:list(int)=[1,1,1,1]; padding:string='SAME'} (x, float[3,3,4,8] 0.1 "  \
    "-0.2 0.05)\n"
#define BIAS "b = BiasAdd " T "(c, float[8] 0.5 -1 0.25)\n"

static struct td_shape none(void)
{
    return td_shape_scalar();
}

static int fused(const char *text, const char *fetch, const char *op)
{
    struct passed t;
    passed(&t, text, fetch, "fuse");
    int n = count(&t, op);
    passed_close(&t);
    return n;
}

TEST(a_convolution_takes_bias_activation_and_residual)
{
    const char *text = XY CONV BIAS "s = AddV2 " T "(b, y)\nr = Relu " T "(s)";
    CHECK_INT(fused(text, "r", "Conv2D+BiasAdd+AddV2+Relu"), 1);
    same_results(text, "r", shape4(2, 5, 6, 4), shape4(2, 5, 6, 8));
    same_results(text, "r", shape4(2, 5, 6, 4), shape4(1, 1, 1, 8));
    same_results(text, "r", shape4(1, 5, 6, 4),
                 shape4(3, 5, 6, 8)); /* larger than what the convolution makes */
    same_results(text, "r", shape4(0, 5, 6, 4), shape4(1, 1, 1, 8));
}

TEST(a_fused_node_keeps_name_and_parts)
{
    struct passed t;
    passed(&t, X CONV BIAS "r = Relu " T "(b)", "r", "fuse");
    CHECK_STR(result(&t)->name, "r");
    CHECK(result(&t)->fused != NULL && result(&t)->fused->has_head);
    CHECK_INT(result(&t)->fused->n_parts, 3);
    CHECK_STR(result(&t)->fused->parts[1].node->name, "b");
    CHECK_INT(result(&t)->n_in, 3);
    passed_close(&t);
}

TEST(batch_norm_goes_into_the_convolution)
{
    const char *text =
        X CONV "n = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=false} "
               "(c, float[8] 1 2, float[8] 0.5, float[8] 0.1 -0.3, float[8] 1 0.25 4)\nr = Relu6 " T "(n)";
    CHECK_INT(fused(text, "r", "Conv2D+FusedBatchNormV3+Relu6"), 1);
    same_results(text, "r", shape4(2, 5, 6, 4), none());
    const char *apart =
        X CONV "m = Mul " T "(c, float[1,1,1,8] 1 2)\na = AddV2 " T "(m, float[8] 0.5 -1)\nr = Elu " T "(a)";
    CHECK_INT(fused(apart, "r", "Conv2D+Mul+AddV2+Elu"), 1);
    same_results(apart, "r", shape4(2, 5, 6, 4), none());
}

TEST(batch_norm_that_trains_stays)
{
    CHECK_INT(fused(X CONV "r = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=true} "
                           "(c, float[8] 1, float[8] 0.5, float[8] 0.1, float[8] 1)",
                    "r", "FusedBatchNormV3"),
              1);
}

TEST(other_heads_are_taken)
{
    const char *dense = X "m = MatMul " T "(x, float[6,5] 0.1 0.2 -0.3)\nb = BiasAdd " T
                          "(m, float[5] 1 2)\nr = Tanh " T "(b)";
    CHECK_INT(fused(dense, "r", "MatMul+BiasAdd+Tanh"), 1);
    same_results(dense, "r", td_shape_matrix(7, 6), none());
    same_results(dense, "r", td_shape_matrix(1, 6), none());
    const char *depth =
        X "d = DepthwiseConv2dNative {T:type=float; strides:list(int)=[1,1,1,1]; padding:string='SAME'} "
          "(x, float[3,3,4,2] 0.1 -0.2 0.05)\nb = BiasAdd " T "(d, float[8] 1 2)\ns = Sigmoid " T
          "(b)\nr = Mul " T "(b, s)";
    CHECK_INT(fused(depth, "r", "DepthwiseConv2dNative+BiasAdd+Sigmoid+Mul"), 1);
    same_results(depth, "r", shape4(2, 5, 6, 4), none());
}

TEST(a_norm_whose_statistics_are_read_stays)
{
    const char *text = X CONV "n = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=false} "
                              "(c, float[8] 1, float[8] 2, float[8] 3, float[8] 4)\n"
                              "s = Neg " T "(n:1)\nr = AddV2 " T "(n, s)";
    CHECK_INT(fused(text, "r", "Conv2D+FusedBatchNormV3"), 0);
    same_results(text, "r", shape4(2, 5, 6, 4), none());
    CHECK_INT(fused(text, "n:1", "Conv2D+FusedBatchNormV3"), 0);
}

TEST(a_reshape_behind_a_product_is_passed)
{
    const char *text = X "f = Reshape " T "(x, int32[2] -1 6)\nm = MatMul " T "(f, float[6,8] 0.1 0.2 -0.3)\n"
                         "v = Reshape " T "(m, int32[4] -1 3 2 4)\nr = AddV2 " T "(v, float[2,4] 1 2 3)";
    CHECK_INT(fused(text, "r", "MatMul+Reshape+AddV2"), 1);
    same_results(text, "r", (struct td_shape){.rank = 3, .dim = {2, 3, 6}}, none());
}

TEST(gelu_and_layer_norm_are_one_step_each)
{
    const char *gelu =
        X "m = MatMul " T "(x, float[6,64] 0.1 0.2 -0.3)\nh = Mul " T "(float[] 0.5, m)\nn = Neg " T "(m)\n"
          "k = Mul " T "(n, float[] 0.70710678)\ne = Erfc " T "(k)\nr = Mul " T "(h, e)";
    CHECK_INT(fused(gelu, "r", "MatMul+Mul+Neg+Mul+Erfc+Mul"), 1);
    same_results(gelu, "r", td_shape_matrix(40, 6), none());
    const char *norm =
        XY "s = Mul " T "(y, float[3] 1 2 3)\na = Mul " T "(x, s)\nn = Neg " T "(y)\nb = Mul " T "(n, s)\n"
           "c = AddV2 " T "(b, float[3] 1)\nr = AddV2 " T "(a, c)";
    CHECK_INT(fused(norm, "r", "Mul+Mul+Neg+Mul+AddV2+AddV2"), 1);
    same_results(norm, "r", td_shape_matrix(50, 3), td_shape_matrix(50, 1));
}

TEST(small_operands_are_worked_out_once)
{
    const char *text = XY "e = Exp " T "(y)\nm = Mul " T "(x, e)\nr = Maximum " T "(m, float[] -0.5)";
    same_results(text, "r", shape4(2, 3, 4, 5), shape4(2, 1, 1, 5));
    same_results(text, "r", shape4(2, 1, 4, 1), shape4(1, 3, 1, 5));
    same_results(text, "r", shape4(2, 30, 40, 50), td_shape_vector(50));
    same_results(text, "r", td_shape_scalar(), td_shape_scalar());
}

TEST(values_that_are_read_elsewhere_end_a_group)
{
    struct passed t;
    passed(&t,
           X CONV BIAS
           "a = Relu " T "(b)\nz = Reshape " T
           "(b, int32[1] -1)\ns = Shape {T:type=float} (z)\nk = Cast {SrcT:type=int32; DstT:type=float} (s)\n"
           "r = AddV2 " T "(a, k)",
           "r", "fuse");
    CHECK_INT(count(&t, "Conv2D+BiasAdd"), 1);
    passed_close(&t);
    CHECK_INT(fused(X CONV BIAS "r = Relu " T "(b)", "b", "Conv2D+BiasAdd"), 1); /* fetched */
}

TEST(other_types_and_formats_stay)
{
    CHECK_INT(fused(X "d = Cast {SrcT:type=float; DstT:type=double} (x)\na = Neg {T:type=double} (d)\nr = "
                      "Abs {T:type=double} (a)",
                    "r", "Neg"),
              1);
    CHECK_INT(fused(X "b = BiasAdd {T:type=float; data_format:string='NCHW'} (x, float[8] 1)\nr = Relu " T
                      "(b)",
                    "r", "Relu"),
              1);
    CHECK_INT(fused(X "n = NoOp {} ()\na = Neg " T "(x, ^n)\nr = Abs " T "(a)", "r", "Abs"), 1);
}

TEST(a_vector_is_not_fused_into_what_it_scales)
{
    struct passed t;
    passed(&t,
           X "m = MatMul " T "(x, float[2,3] 1)\nv = MatMul " T "(float[1,2] 1 2, float[2,3] 3)\ne = Exp " T
             "(v)\nr = Mul " T "(m, e)",
           "r", "fuse");
    CHECK_INT(count(&t, "MatMul+Exp"), 1);
    CHECK_INT(count(&t, "MatMul+Mul"), 1);
    passed_close(&t);
}

TEST(errors_name_the_original_node)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_shape shape = shape4(1, 4, 4, 4);
    struct td_tensor in = ramp(&shape, 0, 1), out;
    passed_open(&t, X CONV "wrong = BiasAdd " T "(c, float[7] 1)\nr = Relu " T "(wrong)", "r");
    struct td_model_opts opts = {.ops = t.ops};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    CHECK_INT(td_callable_run(f, &in, &out, NULL, &t.err), TD_INVALID_ARGUMENT);
    CHECK(strstr(t.err.msg, "'wrong' (BiasAdd)") != NULL);
    td_tensor_clear(&in);
    td_model_unref(m);
    passed_close(&t);
}

TEST_MAIN(RUN(a_convolution_takes_bias_activation_and_residual) RUN(a_fused_node_keeps_name_and_parts)
              RUN(batch_norm_goes_into_the_convolution) RUN(batch_norm_that_trains_stays)
                  RUN(other_heads_are_taken) RUN(a_reshape_behind_a_product_is_passed)
                      RUN(a_norm_whose_statistics_are_read_stays) RUN(gelu_and_layer_norm_are_one_step_each)
                          RUN(small_operands_are_worked_out_once)
                              RUN(values_that_are_read_elsewhere_end_a_group)
                                  RUN(other_types_and_formats_stay)
                                      RUN(a_vector_is_not_fused_into_what_it_scales)
                                          RUN(errors_name_the_original_node))
