/* tests/unit/core/test_expand.c - nodes that stand for others become these when a graph is loaded: with the
 * same values, under the same names; what is not known stays, and says so when it is run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define CONV "{T:type=float; strides:list(int)=[1,1,1,1]; padding:string='SAME'"
#define INPUTS XY "b = " PLACEHOLDER

static const struct td_node *node(struct passed *t, const char *name)
{
    return td_graph_find(&t->g.graph, name, strlen(name));
}

TEST(a_fused_convolution_is_its_parts)
{
    struct passed t;
    passed_open(&t,
                INPUTS "r = _FusedDepthwiseConv2dNative " CONV
                       "; num_args:int=1; fused_ops:list(string)=['BiasAdd','Relu6']} (x, y, b)\n",
                "r");
    const struct td_node *r = node(&t, "r");
    CHECK_STR(r->op_name, "Identity");
    const struct td_node *relu = r->in[0].node, *bias = relu->in[0].node, *conv = bias->in[0].node;
    CHECK_STR(relu->op_name, "Relu6");
    CHECK_STR(bias->op_name, "BiasAdd");
    CHECK_STR(conv->op_name, "DepthwiseConv2dNative");
    CHECK(conv->in[0].node == node(&t, "x") && bias->in[1].node == node(&t, "b"));
    CHECK_STR(td_attr_str(conv, "padding"), "SAME");
    passed_close(&t);
}

TEST(all_outputs_of_a_fused_norm_stay)
{
    struct passed t;
    passed_open(&t,
                INPUTS "r = _FusedBatchNormEx {T:type=float; U:type=float; num_side_inputs:int=1; "
                       "activation_mode:string='Relu'; is_training:bool=false} (x, b, b, b, b, x)\n",
                "r:5");
    const struct td_node *r = node(&t, "r");
    CHECK_STR(r->op_name, "IdentityN");
    CHECK_INT(r->n_out, 6);
    CHECK_STR(r->in[0].node->op_name, "Relu");
    CHECK_STR(r->in[0].node->in[0].node->op_name, "AddV2");
    CHECK(r->in[5].node == r->in[1].node && r->in[5].port == 5);
    CHECK_STR(r->in[1].node->op_name, "FusedBatchNormV3");
    passed_close(&t);
}

TEST(what_is_not_known_stays)
{
    struct passed t;
    passed_open(&t,
                INPUTS "r = _FusedConv2D " CONV
                       "; num_args:int=1; fused_ops:list(string)=['Fuse','Relu']} (x, y, b)\n"
                       "s = _FusedConv2D " CONV
                       "; num_args:int=1; fused_ops:list(string)=['Relu']} (x, y, b)\n",
                "r");
    CHECK_STR(node(&t, "r")->op_name, "_FusedConv2D");
    CHECK_STR(node(&t, "s")->op_name, "_FusedConv2D");
    passed_close(&t);
}

#define ENTER(name, type, from, more)                                                                        \
    name " = Enter {T:type=" type "; frame_name:string='w'" more "} (" from ")\n"
#define STAYS "; is_constant:bool=true"
/* x three times through a node of TensorFlow 1's loops. */
#define LOOP(body)                                                                                           \
    X ENTER("e", "int32", "int32[] 0", "") ENTER("f", "float", "x", "")                                      \
        ENTER("n", "int32", "int32[] 3", STAYS) ENTER("o", "int32", "int32[] 1", STAYS) ENTER(               \
            "w", "float", "float[2,2] 0.5 -1 0.25 2",                                                        \
            STAYS) "m = Merge {T:type=int32; N:int=2} (e, i)\nk = Merge {T:type=float; N:int=2} (f, j)\n"    \
                   "l = Less {T:type=int32} (m, n)\nc = LoopCond {} (l)\ns = Switch {T:type=int32} (m, c)\n" \
                   "t = Switch {T:type=float} (k, c)\na = AddV2 {T:type=int32} (s:1, o)\n" body              \
                   "i = NextIteration {T:type=int32} (a)\nj = NextIteration {T:type=float} (b)\n"            \
                   "r = Exit {T:type=float} (t)\n"

/* A Gelu has constants, which no Enter brings into the loop. */
TEST(in_a_loop_constants_are_the_loops)
{
    struct td_shape square = td_shape_matrix(2, 2);
    struct td_tensor x = ramp(&square, -1.7f, 0.9f);
    const char *const product = "{T:type=float; transpose_b:bool=true} (t:1, w)\n";
    char plain[2000], fused[2000];
    snprintf(plain, sizeof plain,
             LOOP("p = MatMul %sh = Mul {T:type=float} (p, hi)\nq = Mul {T:type=float} (p, ro)\nv = Erf "
                  "{T:type=float} (q)\nu = AddV2 {T:type=float} (v, un)\nb = Mul {T:type=float} (h, "
                  "u)\n" ENTER("hi", "float", "float[] 0.5", STAYS) ENTER(
                      "ro", "float", "float[] 0.70710678", STAYS) ENTER("un", "float", "float[] 1", STAYS)),
             product);
    snprintf(fused, sizeof fused,
             LOOP("b = _FusedMatMul {T:type=float; transpose_b:bool=true; num_args:int=0; "
                  "fused_ops:list(string)=['GeluExact']} (t:1, w)\n"));
    struct td_tensor want = run_with(plain, "r", NULL, TD_KERNELS_FAST, &x);
    for (int off = 0; off < 2; off++) {
        struct td_tensor got = run_with(fused, "r", off ? "all" : NULL, TD_KERNELS_FAST, &x);
        for (int i = 0; i < 4; i++) {
            CHECK(fabsf(TD_DATA(&got, float)[i] - TD_DATA(&want, float)[i]) < 1e-5f);
        }
        td_tensor_clear(&got);
    }
    td_tensor_clear(&want);
    td_tensor_clear(&x);
}

TEST_MAIN(RUN(a_fused_convolution_is_its_parts) RUN(all_outputs_of_a_fused_norm_stay)
              RUN(what_is_not_known_stays) RUN(in_a_loop_constants_are_the_loops))
