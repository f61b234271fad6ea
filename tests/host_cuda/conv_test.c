/* tests/host_cuda/conv_test.c - convolutions as a model has them, on the host and on the host-run device:
 * what they give, and which kernel a GPU runs for them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/function/placement.h"
#include "tests/host_cuda/both_sides.h"

int host_cuda_reports(void); /* host_cuda.h, which is C++ */

static const enum td_dtype library_types[] = {TD_FLOAT, TD_HALF, TD_BFLOAT16};
enum { LIBRARY_TYPES = 3, NAME = 120 };

static double off_by(enum td_dtype t)
{
    return t == TD_FLOAT ? 1e-5 : t == TD_HALF ? 3e-3 : 2.4e-2;
}

struct wanted {
    const char *node;
    char kernel[NAME];
};

static void note_kernel(void *ctx, const struct td_placement *p)
{
    struct wanted *w = ctx;
    if (strcmp(p->node->name, w->node) == 0) {
        (void)snprintf(w->kernel, sizeof w->kernel, "%s", p->kernel == NULL ? "none" : p->kernel);
    }
}

/* r of the graph on the device, run twice, and what ran node c. */
static void compute_there(const char *text, const struct td_model_opts *with, const struct td_tensor *in,
                          struct td_tensor *r, char kernel[NAME])
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct wanted w = {.node = "c"};
    struct td_err err = {0};
    passed_open_with(&t, device_ops(), text, "r");
    struct td_model_opts opts = *with;
    opts.ops = t.ops;
    opts.device = device;
    CHECK_OK(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &err));
    CHECK_OK(td_callable_new(m, &t.how, &f, &err));
    CHECK_OK(td_callable_run(f, in, r, NULL, &err));
    td_tensor_clear(r);
    CHECK_OK(td_callable_run(f, in, r, NULL, &err));
    CHECK_OK(td_placement_each(f, note_kernel, &w, &err));
    memcpy(kernel, w.kernel, NAME);
    td_model_unref(m);
    passed_close(&t);
}

/* The same on both sides, of each type that cuDNN takes; node c goes by a kernel whose name begins so. */
static void goes_by(const char *kernel, const char *format, struct td_shape x, struct td_shape y)
{
    for (int i = 0; i < LIBRARY_TYPES; i++) {
        const enum td_dtype type = library_types[i];
        const char *const text = graph(format, type);
        const struct td_model_opts plain = {0};
        struct td_tensor in[2] = {random_of(type, x), random_of(type, y)}, got;
        struct outcome want;
        char ran[NAME];
        compute(text, NULL, in, &want);
        CHECK_INT(want.rc, TD_OK);
        compute_there(text, &plain, in, &got, ran);
        if (strncmp(ran, kernel, strlen(kernel)) != 0) {
            CHECK_STR(ran, kernel);
        }
        check_close(text, &want.r, &got, off_by(type));
        td_tensor_clear(&want.r);
        td_tensor_clear(&got);
        td_tensor_clear(&in[0]);
        td_tensor_clear(&in[1]);
    }
    CHECK_INT(host_cuda_reports(), 0);
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

TEST_MAIN(RUN(uneven_padding_goes_by_the_library) RUN(what_is_behind_a_convolution_is_done_by_one_call)
              RUN(the_steps_that_are_left_are_a_kernel_behind_it)
                  RUN(what_the_library_refuses_goes_on_as_two_steps))
