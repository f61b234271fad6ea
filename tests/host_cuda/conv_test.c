/* tests/host_cuda/conv_test.c - convolutions as a model has them, on the host and on the host-run device:
 * what they give, which kernel a GPU runs for them, and how it is found out which is fastest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/goes_by.h"

static const enum td_dtype library_types[] = {TD_FLOAT, TD_HALF, TD_BFLOAT16};
enum { LIBRARY_TYPES = 3 };

static void goes_by(const char *kernel, const char *format, struct td_shape x, struct td_shape y)
{
    all_go_by(library_types, LIBRARY_TYPES, kernel, format, x, y);
}

#define CONV(strides, padding)                                                                               \
    "c = Conv2D {" T "; strides:list(int)=[1," strides ",1]; padding:string='" padding "'} (x, y)\n"
#define BIAS                                                                                                 \
    "k = Range {Tidx:type=float} (float[] -1, float[] 1, float[] 0.25)\n"                                    \
    "b = Cast {SrcT:type=float; DstT:type=%s} (k)\na = BiasAdd {" T "} (c, b)\n"

/* ------------------------------------------------------------------ what is behind a convolution */

TEST(what_is_behind_a_convolution_is_done_by_one_call)
{
    const struct td_shape x = shape4(2, 5, 6, 8), y = shape4(3, 3, 8, 8);
    setup();
    goes_by("fused(conv.cudnn + 1 of 1 steps)", IN_XY CONV("1,1", "SAME") BIAS "r = Identity {" T "} (a)\n",
            x, y);
    goes_by("fused(conv.cudnn + 2 of 2 steps)", IN_XY CONV("1,1", "SAME") BIAS "r = Relu {" T "} (a)\n", x,
            y);
    goes_by("fused(conv.cudnn + 3 of 3 steps)",
            IN_XY CONV("1,1", "SAME") BIAS "s = AddV2 {" T "} (a, x)\nr = Relu {" T "} (s)\n", x, y);
    goes_by("fused(conv.cudnn + 2 of 2 steps)", IN_XY CONV("1,1", "SAME") BIAS "r = AddV2 {" T "} (x, a)\n",
            x, y);
}

TEST(the_steps_that_are_left_are_a_kernel_behind_it)
{
    const struct td_shape x = shape4(2, 5, 6, 8), y = shape4(3, 3, 8, 8);
    setup();
    goes_by("fused(conv.cudnn + 1 of 2 steps, ", IN_XY CONV("1,1", "SAME") BIAS "r = Tanh {" T "} (a)\n", x,
            y);
    goes_by("fused(conv.cudnn + 0 of 1 steps, ", IN_XY CONV("1,1", "SAME") "r = Relu {" T "} (c)\n", x, y);
}

/* Groups, which the stand-in refuses with a bias: when it is called, and from then on. */
TEST(what_the_library_refuses_goes_on_as_two_steps)
{
    setup();
    goes_by("fused(conv.cudnn + 2 of 2 steps)", IN_XY CONV("1,1", "SAME") BIAS "r = Relu {" T "} (a)\n",
            shape4(2, 5, 6, 8), shape4(3, 3, 4, 8));
}

/* ------------------------------------------------------------------ padding */

#define GRADIENT(what, of, dy)                                                                               \
    "c = Conv2DBackprop" what " {" T "; strides:list(int)=[1,2,2,1]; padding:string='SAME'} (" of ", " dy    \
    ")\nr = Identity {" T "} (c)\n"

/* SAME with a step of 2 on even sizes, of which the library has the even part. */
TEST(uneven_padding_goes_by_the_library)
{
    setup();
    goes_by("fused(conv.cudnn + 2 of 2 steps)", IN_XY CONV("2,2", "SAME") BIAS "r = Relu {" T "} (a)\n",
            shape4(2, 6, 8, 8), shape4(3, 3, 8, 8));
    goes_by("conv.cudnn", IN_XY CONV("2,1", "SAME") "r = Identity {" T "} (c)\n", shape4(2, 6, 5, 3),
            shape4(3, 2, 3, 5));
    goes_by("conv.cudnn", IN_XY GRADIENT("Input", "int32[4] 2 6 8 3, x", "y"), shape4(3, 3, 3, 5),
            shape4(2, 3, 4, 5));
    goes_by("conv.cudnn", IN_XY GRADIENT("Filter", "x, int32[4] 3 3 3 5", "y"), shape4(2, 6, 8, 3),
            shape4(2, 3, 4, 5));
}

/* ------------------------------------------------------------------ trials */

static uint64_t copies_in_a_trial(const char *format)
{
    const char *const text = graph(format, TD_FLOAT);
    struct td_tensor in[2] = {random_of(TD_FLOAT, shape4(2, 5, 6, 8)),
                              random_of(TD_FLOAT, shape4(3, 3, 8, 8))},
                     got;
    struct td_device_counts before, behind;
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_err err = {0};
    passed_open_with(&t, device_ops(), text, "r");
    const struct td_model_opts opts = {.ops = t.ops, .device = device, .trial_ns = 1000000000};
    CHECK_OK(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &err));
    CHECK_OK(td_callable_new(m, &t.how, &f, &err));
    td_cuda_device_count(device, &before);
    CHECK_OK(td_callable_run(f, in, &got, NULL, &err));
    td_cuda_device_count(device, &behind);
    td_model_unref(m);
    passed_close(&t);
    td_tensor_clear(&got);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    return behind.copies[TD_COPY_ON_DEVICE] - before.copies[TD_COPY_ON_DEVICE];
}

/* A copy stands for the pass over a result that one kernel leaves, and another does not; where all leave one
 * they are equals. */
TEST(a_trial_counts_the_pass_that_others_do_not_need)
{
    setup();
    CHECK(copies_in_a_trial(IN_XY CONV("1,1", "SAME") BIAS "r = Tanh {" T "} (a)\n") > 0);
    CHECK_INT((long long)copies_in_a_trial(IN_XY CONV("1,1", "SAME") BIAS "t = Tanh {" T "} (a)\nr = Exp {" T
                                                                          "} (t)\n"),
              0);
}

TEST_MAIN(RUN(uneven_padding_goes_by_the_library) RUN(what_is_behind_a_convolution_is_done_by_one_call)
              RUN(the_steps_that_are_left_are_a_kernel_behind_it)
                  RUN(what_the_library_refuses_goes_on_as_two_steps)
                      RUN(a_trial_counts_the_pass_that_others_do_not_need))
