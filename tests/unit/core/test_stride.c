/* tests/unit/core/test_stride.c - core/compile/pass_stride.c: which convolutions make fewer pixels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float}"
#define CONV(stride, padding)                                                                                \
    "Conv2D {T:type=float; strides:list(int)=[1," #stride "," #stride ",1]; padding:string='" padding "'} "
#define RELU "Relu {T:type=float} "
#define ADD "AddV2 {T:type=float} "
#define THREE "float[3,3,2,2] 1 -2 0.5 3 -1 2 0.25)\n"
#define ONE "float[1,1,2,2] 1 -1 0.5 2)\n"
#define TWO_READERS                                                                                          \
    "f = " CONV(2, "VALID") "(e, " ONE "g = " CONV(2, "SAME") "(e, float[1,1,2,2] 2 1 0 -1)\n"               \
                                                              "r = " ADD "(f, g)\n"

/* strides[1] of the convolution whose name it is, 0: it is gone. */
static int64_t stride_of(const struct passed *t, const char *name)
{
    for (int k = 0; k < t->ir.n_nodes; k++) {
        int count;
        if (strcmp(t->ir.nodes[k]->name, name) == 0) {
            return td_attr_ints(t->ir.nodes[k], "strides", &count)[1];
        }
    }
    return 0;
}

/* The graph of x (an image of two channels), whose `name` strides so much in the end, with so many slices
 * beside. The result is what it was, for images of odd and even sizes. */
static void strides(const char *text, const char *name, int64_t want, int slices)
{
    struct passed t;
    passed(&t, text, "r", "stride");
    CHECK_INT(stride_of(&t, name), want);
    CHECK_INT(count(&t, "StridedSlice"), slices);
    passed_close(&t);
    for (int size = 4; size < 9; size++) {
        same_results(text, "r", shape4(2, size, 11 - size, 2), td_shape_scalar());
    }
}

TEST(the_convolutions_before_a_stride_of_single_pixels_take_it)
{
    strides(X "c = " CONV(1, "SAME") "(x, " THREE "e = " RELU "(c)\n" TWO_READERS, "c", 2, 0);
    strides(X "c = " CONV(1, "VALID") "(x, " THREE "e = " RELU "(c)\n" TWO_READERS, "c", 2, 0);
    strides(X "c = " CONV(1, "SAME") "(x, " THREE "e = " RELU "(c)\n" TWO_READERS, "f", 1, 0);
    /* through single pixels to the one before */
    const char *chain = X "c = " CONV(1, "SAME") "(x, " THREE "d = " CONV(
        1, "VALID") "(c, " ONE "b = BiasAdd {T:type=float} (d, float[2] 1 2)\ne = " RELU "(b)\n" TWO_READERS;
    strides(chain, "c", 2, 0);
    strides(chain, "d", 1, 0);
    /* twice over */
    strides(X "c = " CONV(1, "SAME") "(x, " THREE "d = " CONV(2, "VALID") "(c, " ONE
                                                                          "r = " CONV(2, "SAME") "(d, " ONE,
            "c", 4, 0);
    strides(X "c = " CONV(3, "VALID") "(x, " THREE "r = " CONV(2, "VALID") "(c, " ONE, "c", 6, 0);
}

TEST(a_residual_that_others_read_whole_is_sliced)
{
    const char *block = X "v = " CONV(1, "SAME") "(x, " THREE "b = " RELU "(v)\nc = " CONV(
        1, "SAME") "(b, " THREE "d = " CONV(1, "SAME") "(c, " ONE "a = " ADD "(d, b)\ne = " RELU
                                                       "(a)\n" TWO_READERS;
    strides(block, "c", 2, 1);
    strides(block, "d", 1, 1);
    strides(block, "v", 1, 1);
    /* a scale and one for each channel are the same for all pixels */
    strides(X "c = " CONV(1, "SAME") "(x, " THREE "a = Mul " T " (c, float[1,1,1,2] 2 3)\nb = " ADD
                                     "(float[] 0.5, a)\ne = Sub " T " (b, float[2] 1 0)\n" TWO_READERS,
            "c", 2, 0);
}

TEST(what_is_read_whole_stays)
{
    /* by a reader of more than one pixel */
    strides(X "c = " CONV(1, "SAME") "(x, " THREE "e = " RELU "(c)\nf = " CONV(
                2, "VALID") "(e, " ONE "g = " CONV(2, "SAME") "(e, " THREE "r = " ADD "(f, g)\n",
            "c", 1, 0);
    /* as the result */
    strides(X "r = " CONV(1, "SAME") "(x, " THREE "e = " RELU "(r)\nf = " CONV(2, "VALID") "(e, " ONE, "r", 1,
            0);
    /* by readers of other strides */
    strides(X "c = " CONV(1, "SAME") "(x, " THREE "f = " CONV(2, "VALID") "(c, " ONE "g = " CONV(
                3, "VALID") "(c, " ONE "i = Sum {T:type=float; Tidx:type=int32} (f, int32[2] 1 2)\n"
                            "k = Sum {T:type=float; Tidx:type=int32} (g, int32[2] 1 2)\nr = " ADD "(i, k)\n",
            "c", 1, 0);
    /* where no convolution would do less: the reader goes on to stride */
    strides(X "e = " RELU "(x)\n" TWO_READERS, "f", 2, 0);
    /* SAME and strided: where it begins follows from the image's size */
    strides(X "c = " CONV(2, "SAME") "(x, " THREE "r = " CONV(2, "VALID") "(c, " ONE, "c", 2, 0);
    /* an operand that differs by column */
    strides(X "c = " CONV(1, "SAME") "(x, float[1,3,2,2] 1 2 3)\ns = Shape {T:type=float} (c)\n"
                                     "w = StridedSlice {T:type=int32; Index:type=int32; "
                                     "shrink_axis_mask:int=0} (s, int32[1] 2, int32[1] 4, "
                                     "int32[1] 1)\no = Fill {T:type=float} (w, float[] 2)\ne = " ADD
                                     "(c, o)\n" TWO_READERS,
            "c", 1, 1);
}

TEST_MAIN(RUN(the_convolutions_before_a_stride_of_single_pixels_take_it)
              RUN(a_residual_that_others_read_whole_is_sliced) RUN(what_is_read_whole_stays))
