/* tests/host_cuda/attention_library_test.c - attention by cuDNN's stand-in: which layers it is asked for,
 * what it gives beside the host's kernels, and who goes on where it refuses or the device was lost.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/goes_by.h"

void host_cuda_fail(int error); /* host_cuda.h, which is C++ */

static const enum td_dtype halves[] = {TD_HALF, TD_BFLOAT16};
enum { ILLEGAL_ADDRESS = 700, WAIT_MS = 20 };

/* x: the queries, y: keys, whose values are the same numbers with the other sign. */
#define SCORES "m = BatchMatMulV2 {" T "; adj_y:bool=true} (x, y)\n"
#define VALUES "v = Neg {" T "} (y)\n"
#define SOFTMAX(of) "p = Softmax {" T "} (" of ")\n"
#define ENDS "c = BatchMatMulV2 {" T "} (p, v)\nr = Identity {" T "} (c)\n"
#define SCALE(number)                                                                                        \
    "k = Cast {SrcT:type=float; DstT:type=%s} (float[] " number ")\ns = Mul {" T "} (m, k)\n"

static void goes_by(const char *kernel, const char *format, struct td_shape x, struct td_shape y)
{
    all_go_by(halves, 2, kernel, format, x, y);
}

TEST(attention_with_nothing_but_a_scale_is_the_librarys)
{
    setup();
    goes_by("attention.cudnn", IN_XY SCORES VALUES SOFTMAX("m") ENDS, shape4(2, 3, 17, 64),
            shape4(2, 3, 40, 64));
    goes_by("attention.cudnn", IN_XY SCORES VALUES SCALE("0.125") SOFTMAX("s") ENDS, shape4(2, 3, 9, 32),
            shape4(2, 3, 33, 32));
    goes_by("attention.cudnn", IN_XY SCORES VALUES SCALE("0.25") SOFTMAX("s") ENDS, matrices(3, 5, 16),
            matrices(3, 7, 16));
    goes_by("attention.cudnn", IN_XY SCORES VALUES SOFTMAX("m") ENDS, shape4(1, 1, 1, 8), shape4(1, 1, 1, 8));
}

/* As layers keep their heads: [rows, length, heads, numbers]. */
TEST(heads_lie_where_layers_have_them)
{
    setup();
    goes_by("attention.cudnn",
            IN_XY "q = Transpose {" T "; Tperm:type=int32} (x, int32[4] 0 2 1 3)\n"
                  "h = Transpose {" T "; Tperm:type=int32} (y, int32[4] 0 2 1 3)\n"
                  "n = Neg {" T "} (y)\nv = Transpose {" T "; Tperm:type=int32} (n, int32[4] 0 2 1 3)\n"
                  "m = BatchMatMulV2 {" T "; adj_y:bool=true} (q, h)\n" SCALE("0.25")
                      SOFTMAX("s") "c = BatchMatMulV2 {" T "} (p, v)\n"
                                   "r = Transpose {" T "; Tperm:type=int32} (c, int32[4] 0 2 1 3)\n",
            shape4(2, 6, 3, 16), shape4(2, 9, 3, 16));
}

TEST(other_attention_is_our_own)
{
    setup();
    goes_by("attention.cuda", IN_XY SCORES VALUES SOFTMAX("m") ENDS, shape4(2, 3, 5, 12),
            shape4(2, 3, 7, 12));
    goes_by("attention.cuda", IN_XY SCORES VALUES SOFTMAX("m") ENDS, shape4(1, 2, 5, 264),
            shape4(1, 2, 7, 264)); /* the stand-in has no engine for it */
    goes_by("attention.cuda",
            IN_XY SCORES VALUES "z = Slice {" T
                                "; Index:type=int32} (y, int32[4] 0 0 0 0, int32[4] 2 1 1 7)\n"
                                "a = AddV2 {" T "} (m, z)\n" SOFTMAX("a") ENDS,
            shape4(2, 3, 5, 16), shape4(2, 3, 7, 16));
}

/* It is asked, and refuses each call. */
TEST(what_the_library_refuses_is_our_own)
{
    setup();
    goes_by("attention.cudnn", IN_XY SCORES VALUES SCALE("-1") SOFTMAX("s") ENDS, shape4(2, 3, 5, 16),
            shape4(2, 3, 7, 16));
}

TEST(attention_can_be_recorded)
{
    struct td_err err = {0};
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.graph_run = 1}, &device, &err));
    goes_by("attention.cudnn", IN_XY SCORES VALUES SCALE("0.125") SOFTMAX("s") ENDS, shape4(2, 3, 9, 32),
            shape4(2, 3, 33, 32));
}

/* Its plan went with the device's context. */
TEST(behind_a_restart_it_is_our_own)
{
    const char *const text = graph(IN_XY SCORES VALUES SCALE("0.125") SOFTMAX("s") ENDS, TD_HALF);
    struct td_tensor in[2] = {random_of(TD_HALF, shape4(2, 3, 9, 32)),
                              random_of(TD_HALF, shape4(2, 3, 33, 32))};
    struct td_tensor want = {0}, got = {0};
    struct td_err err = {0};
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    setup();
    passed_open_with(&t, device_ops(), text, "r");
    const struct td_model_opts opts = {.ops = t.ops, .device = device};
    CHECK_OK(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &err));
    CHECK_OK(td_callable_new(m, &t.how, &f, &err));
    CHECK_OK(td_callable_run(f, in, &want, NULL, &err));
    host_cuda_fail(ILLEGAL_ADDRESS);
    CHECK_INT(td_callable_run(f, in, &got, NULL, &err), TD_UNAVAILABLE);
    err = (struct td_err){0};
    CHECK_OK(td_cuda_device_restart(device, WAIT_MS, &err));
    CHECK_OK(td_callable_run(f, in, &got, NULL, &err));
    check_close(text, &want, &got, off_by(TD_HALF));
    td_tensor_clear(&want);
    td_tensor_clear(&got);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    td_model_unref(m);
    passed_close(&t);
    td_cuda_device_close(device);
    CHECK_INT(host_cuda_reports(), 0);
}

TEST_MAIN(RUN(attention_with_nothing_but_a_scale_is_the_librarys) RUN(heads_lie_where_layers_have_them)
              RUN(other_attention_is_our_own) RUN(what_the_library_refuses_is_our_own)
                  RUN(attention_can_be_recorded) RUN(behind_a_restart_it_is_our_own))
