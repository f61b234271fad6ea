/* tests/unit/kernels/test_tensor_array_lists.c - TensorArrays of TF1 loops that become lists
 * (core/compile/array_lists.h), and those that stay.
 *
 * The loop: out[i] = tanh(rows[i]) for each of 3 rows of x, as tf.while_loop writes it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/array_lists.h"

#include <stdio.h>

#include "tests/unit/core/pass_make.h"

#define ENTER(name, type, of) name " = Enter {T:type=" type "; frame_name:string='f'} (" of ")\n"
#define STEADY(name, type, of)                                                                               \
    name " = Enter {T:type=" type "; frame_name:string='f'; is_constant:bool=true} (" of ")\n"
#define ONE(op, name, type, of) name " = " op " {T:type=" type "} (" of ")\n"

/* size: of the array of rows, whose first `rows` are filled. at: the index that results are written to. */
static const char *loop(const char *size, const char *rows, const char *at)
{
    static char text[8192];
    (void)snprintf(
        text, sizeof text,
        X
        "s = Reshape {T:type=float; Tshape:type=int32} (x, int32[2] -1 2)\n"
        "c3 = Identity {T:type=float} (float[3] 1)\n"
        "f3 = Einsum {T:type=float; N:int=2; equation:string='i,i->'} (c3, c3)\n"
        "f9 = Einsum {T:type=float; N:int=2; equation:string='i,j->'} (c3, c3)\n"
        "n3 = Cast {SrcT:type=float; DstT:type=int32} (f3)\nn9 = Cast {SrcT:type=float; DstT:type=int32} "
        "(f9)\n"
        "a = TensorArrayV3 {dtype:type=float} (%s)\n"
        "rg = Range {Tidx:type=int32} (int32[] 0, %s, int32[] 1)\n"
        "sc = TensorArrayScatterV3 {T:type=float} (a, rg, s, a:1)\n"
        "o = TensorArrayV3 {dtype:type=float} (int32[] 3)\n" ENTER("i0", "int32", "int32[] 0") ENTER(
            "of", "float", "o:1") STEADY("ah", "resource", "a") STEADY("af", "float", "sc")
            STEADY("oh", "resource", "o") STEADY("one", "int32", "int32[] 1") STEADY(
                "lim", "int32",
                "int32[] 3") "im = Merge {N:int=2; T:type=int32} (i0, nx)\n"
                             "om = Merge {N:int=2; T:type=float} (of, on)\n"
                             "c = Less {T:type=int32} (im, lim)\n"
                             "lc = LoopCond (c)\n"
                             "is = Switch {T:type=int32} (im, lc)\n"
                             "os = Switch {T:type=float} (om, lc)\n"
                             "e = TensorArrayReadV3 {dtype:type=float} (ah, is:1, af)\n"
                             "t = Tanh {T:type=float} (e)\n"
                             "w = TensorArrayWriteV3 {T:type=float} (oh, %s, t, os:1)\n"
                             "k = AddV2 {T:type=int32} (is:1, one)\n" ONE("NextIteration", "nx", "int32", "k")
                                 ONE("NextIteration", "on", "float", "w")
                                     ONE("Exit", "oe", "float",
                                         "os") "n = TensorArraySizeV3 (o, oe)\n"
                                               "all = Range {Tidx:type=int32} (int32[] 0, n, int32[] 1)\n"
                                               "r = TensorArrayGatherV3 {dtype:type=float} (o, all, oe)\n",
        size, rows, at);
    return text;
}

/* How many nodes have an op whose name begins so, behind td_array_lists. */
static int left(const char *text, const char *op)
{
    struct passed t;
    struct td_model *m;
    int n = 0;
    passed_open(&t, text, "r");
    const struct td_model_opts opts = {.ops = t.ops};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_ir_build(&t.ir, t.g.arena, &t.g.graph, &t.g.lib, &t.how, TD_IR_INLINE, &t.err), TD_OK);
    CHECK_INT(td_ir_check_types(&t.ir, &t.err), TD_OK);
    CHECK_INT(td_array_lists(&t.ir, m, &t.err), TD_OK);
    for (int i = 0; i < t.ir.n_nodes; i++) {
        n += strncmp(t.ir.nodes[i]->op_name, op, strlen(op)) == 0;
    }
    td_model_unref(m);
    passed_close(&t);
    return n;
}

TEST(arrays_that_a_loop_reads_and_fills_become_lists)
{
    const char *text = loop("int32[] 3", "int32[] 3", "is:1");
    CHECK_INT(left(text, "TensorArray"), 0);
    CHECK_INT(left(text, "TensorListFromTensor"), 1);
    CHECK_INT(left(text, "TensorListStack"), 1);
    CHECK_INT(left(text, "TensorList"), 7); /* GetItem, SetItem, Length, two of Reserve: one is not read */
    same_results(text, "r", td_shape_vector(6), td_shape_vector(1));
}

/* The array of results alone becomes a list: the other is longer than its rows. */
TEST(an_array_of_another_size_than_its_rows_stays)
{
    const char *text = loop("int32[] 4", "int32[] 3", "is:1");
    CHECK_INT(left(text, "TensorArray"), 3);
    same_results(text, "r", td_shape_vector(6), td_shape_vector(1));
}

/* Numbers that are computed: by one op, of one input, of which an attribute differs. */
TEST(sizes_that_are_computed_are_compared)
{
    CHECK_INT(left(loop("n3", "n3", "is:1"), "TensorArray"), 0);
    CHECK_INT(left(loop("n9", "n3", "is:1"), "TensorArray"), 3);
}

/* Written at one place again and again, which an array refuses. */
TEST(an_array_that_is_not_filled_by_the_counter_stays)
{
    CHECK_INT(left(loop("int32[] 3", "int32[] 3", "one"), "TensorArray"), 4);
}

/* What is read behind the write in the same round: the list's shape is a constant of the loop. */
TEST(an_array_is_filled_and_read_in_one_loop)
{
    const char *text =
        X "s = Reshape {T:type=float; Tshape:type=int32} (x, int32[2] -1 2)\n"
          "o = TensorArrayV3 {dtype:type=float; clear_after_read:bool=false} (int32[] 3)\n" ENTER(
              "i0", "int32", "int32[] 0") ENTER("of", "float", "o:1") ENTER("h0", "float", "float[2] 0 0")
              STEADY("oh", "resource", "o") STEADY("one", "int32", "int32[] 1")
                  STEADY("lim", "int32", "int32[] 3") STEADY("ax", "int32", "int32[] 0")
                      STEADY("sl", "float", "s") "im = Merge {N:int=2; T:type=int32} (i0, nx)\n"
                                                 "om = Merge {N:int=2; T:type=float} (of, on)\n"
                                                 "hm = Merge {N:int=2; T:type=float} (h0, hn)\n"
                                                 "c = Less {T:type=int32} (im, lim)\n"
                                                 "lc = LoopCond (c)\n"
                                                 "is = Switch {T:type=int32} (im, lc)\n"
                                                 "os = Switch {T:type=float} (om, lc)\n"
                                                 "hs = Switch {T:type=float} (hm, lc)\n"
                                                 "e = GatherV2 {Tparams:type=float; Tindices:type=int32; "
                                                 "Taxis:type=int32} (sl, is:1, ax)\n"
                                                 "w = TensorArrayWriteV3 {T:type=float} (oh, is:1, e, os:1)\n"
                                                 "q = TensorArrayReadV3 {dtype:type=float} (oh, is:1, w)\n"
                                                 "h = AddV2 {T:type=float} (hs:1, q)\n"
                                                 "k = AddV2 {T:type=int32} (is:1, one)\n" ONE(
                                                     "NextIteration", "nx", "int32", "k")
                                                     ONE("NextIteration", "on", "float", "w")
                                                         ONE("NextIteration", "hn", "float", "h")
                                                             ONE("Exit", "r", "float", "hs");
    CHECK_INT(left(text, "TensorArray"), 0);
    same_results(text, "r", td_shape_vector(6), td_shape_vector(1));
}

TEST_MAIN(RUN(arrays_that_a_loop_reads_and_fills_become_lists)
              RUN(an_array_of_another_size_than_its_rows_stays) RUN(sizes_that_are_computed_are_compared)
                  RUN(an_array_that_is_not_filled_by_the_counter_stays)
                      RUN(an_array_is_filled_and_read_in_one_loop))
