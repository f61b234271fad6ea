/* tests/unit/core/test_half.c - core/compile/pass_half.c: which nodes of halves are computed in float, and
 * that their results are those of halves.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define H "{T:type=half} "
#define TO_HALF(from) "Cast {SrcT:type=float; DstT:type=half} (" from ")\n"
#define TO_FLOAT(from) "Cast {SrcT:type=half; DstT:type=float} (" from ")\n"
#define CONV                                                                                                 \
    "Conv2D {T:type=half; strides:list(int)=[1,1,1,1]; padding:string='SAME'} (h, half[3,3,2,2] 1 -2 0.5 3 " \
    "-1 2 0.25)\n"
#define IN X "h = " TO_HALF("x")

static int halves(const struct passed *t)
{
    int n = 0;
    for (int i = 0; i < t->ir.n_nodes; i++) {
        n += t->ir.nodes[i]->n_out > 0 && t->ir.nodes[i]->out_type[0] == TD_HALF;
    }
    return n;
}

/* After the pass so many values are halves yet, and so many are rounded. */
static void in_float(const char *text, int want_halves, int want_rounded)
{
    struct passed t;
    passed(&t, text, "r", "half");
    CHECK_INT(halves(&t), want_halves);
    CHECK_INT(count(&t, "_RoundHalf"), want_rounded);
    passed_close(&t);
}

/* r, a float, is what it is without the pass, up to so much of itself. */
static void stays(const char *text, struct td_shape x, float close)
{
    struct td_tensor in = ramp(&x, -1.7f, 0.233f);
    struct td_tensor want = run_with(text, "r", "half", TD_KERNELS_FAST, &in);
    struct td_tensor got = run_with(text, "r", NULL, TD_KERNELS_FAST, &in);
    CHECK(td_shape_equal(&want.shape, &got.shape) && want.dtype == TD_FLOAT && got.dtype == TD_FLOAT);
    for (int64_t i = 0; i < td_tensor_count(&want); i++) {
        const float a = TD_DATA(&want, float)[i], b = TD_DATA(&got, float)[i];
        if (!(fabsf(a - b) <= close * (0.01f + fabsf(a)) || a == b)) {
            fprintf(stderr, "%s\nelement %lld: %g widened, %g as halves\n", text, (long long)i, (double)b,
                    (double)a);
            exit(1);
        }
    }
    td_tensor_clear(&want);
    td_tensor_clear(&got);
    td_tensor_clear(&in);
}

TEST(a_layer_rounds_its_input_and_its_result)
{
    const char *layer =
        IN "c = " CONV "b = BiasAdd " H "(c, half[2] 0.3 -0.7)\na = Relu " H "(b)\nr = " TO_FLOAT("a");
    in_float(layer, 0, 2);
    stays(layer, shape4(2, 5, 4, 2), 0x1p-9f);
}

TEST(each_arithmetic_node_rounds_and_gives_what_halves_give)
{
    const char *chain = IN "m = Mul " H "(h, h)\ne = Exp " H "(m)\nn = Neg " H "(e)\nq = Mul " H
                           "(n, half[] 0.37)\nr = " TO_FLOAT("q");
    in_float(chain, 0, 4);
    stays(chain, shape4(2, 3, 4, 2), 0);
    const char *product = IN "v = Reshape {T:type=half; Tshape:type=int32} (h, int32[2] -1 2)\np = MatMul " H
                             "(v, half[2,3] 1 -2 0.5)\nw = AddV2 " H "(p, half[3] 0.1 0.2 0.3)\nu = Mul " H
                             "(w, w)\ns = Softmax " H "(u)\nr = " TO_FLOAT("s");
    stays(product, shape4(2, 3, 4, 2), 0x1p-8f);
}

TEST(what_moves_elements_rounds_nothing)
{
    const char *moves = IN
        "m = MaxPool {T:type=half; ksize:list(int)=[1,2,2,1]; strides:list(int)=[1,2,2,1]; "
        "padding:string='VALID'} (h)\nt = Transpose {T:type=half; Tperm:type=int32} (m, int32[4] 0 3 1 2)\n"
        "j = ConcatV2 {N:int=2; T:type=half; Tidx:type=int32} (t, t, int32[] 1)\nr = " TO_FLOAT("j");
    in_float(moves, 0, 1);
    stays(moves, shape4(2, 6, 4, 2), 0);
}

TEST(a_lone_node_of_halves_stays)
{
    const char *lone =
        X "h = " TO_HALF("x") "p = ReverseV2 {T:type=half; Tidx:type=int32} (h, int32[1] 0)\n"
                              "b = Relu " H "(p)\nr = ReverseV2 {T:type=half; Tidx:type=int32} "
                              "(b, int32[1] 0)\n";
    struct passed t;
    passed(&t, lone, "r", "half");
    CHECK_INT(count(&t, "_RoundHalf"), 0);
    CHECK_INT(count(&t, "Relu"), 1);
    CHECK_INT(halves(&t), 4);
    passed_close(&t);
}

TEST(others_read_the_value_as_half)
{
    const char *both =
        IN "e = Exp " H "(h)\nv = ReverseV2 {T:type=half; Tidx:type=int32} (e, int32[1] 0)\ns = "
           "Mul " H "(e, v)\nr = " TO_FLOAT("s");
    stays(both, shape4(2, 3, 4, 2), 0);
}

TEST_MAIN(RUN(a_layer_rounds_its_input_and_its_result)
              RUN(each_arithmetic_node_rounds_and_gives_what_halves_give)
                  RUN(what_moves_elements_rounds_nothing) RUN(a_lone_node_of_halves_stays)
                      RUN(others_read_the_value_as_half))
