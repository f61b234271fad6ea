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

TEST_MAIN(RUN(a_fused_convolution_is_its_parts) RUN(all_outputs_of_a_fused_norm_stay)
              RUN(what_is_not_known_stays))
