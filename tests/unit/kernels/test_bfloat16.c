/* tests/unit/kernels/test_bfloat16.c - products of bfloat16, by the processor's instructions for it and as
 * floats, on one thread and on several: the numbers of the reference kernels but for the last bit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/cpu/bfloat16.h"
#include "tests/unit/core/pool_make.h"
#include "tests/unit/kernels/run_make.h"

#define B "{SrcT:type=float; DstT:type=bfloat16} "
#define CASTS XY "a = Cast " B "(x)\nb = Cast " B "(y)\n"
#define BACK "\nr = Cast {SrcT:type=bfloat16; DstT:type=float} (c)\n"
enum { ROUNDS = 8 }; /* the first ones pack weights and learn what the op takes */

static void check_close(const char *text, const struct td_tensor *want, const struct td_tensor *got)
{
    CHECK(td_shape_equal(&want->shape, &got->shape));
    for (int64_t i = 0; i < td_tensor_count(want); i++) {
        const float a = TD_DATA(want, float)[i], b = TD_DATA(got, float)[i];
        if (!(fabsf(a - b) <= 0.008f * fabsf(a) + 1e-3f)) {
            fprintf(stderr, "%s\nelement %lld: %g, not %g\n", text, (long long)i, (double)b, (double)a);
            exit(1);
        }
    }
}

/* Runs on `in` by `way`, some of them with idle threads at hand; the results are `want`. */
static void check_way(const char *text, const struct td_tensor *in, const struct td_tensor *want,
                      enum td_bfloat16_way way)
{
    struct run r;
    struct made_pool pool;
    struct td_tensor got;
    const struct td_run_opts together = {.pool = &pool.pool};
    td_bfloat16_set(way);
    open_run(&r, text, TD_KERNELS_FAST);
    pool_start(&pool);
    for (int i = 0; i < ROUNDS; i++) {
        test_check_ok(__FILE__, __LINE__, text,
                      td_callable_run(r.f, in, &got, i < 2 ? NULL : &together, &r.t.err), &r.t.err);
        check_close(text, want, &got);
        td_tensor_clear(&got);
    }
    pool_stop(&pool);
    close_run(&r);
}

static void check_product(const char *op, struct td_shape x, struct td_shape y)
{
    char text[2000];
    struct run r;
    struct td_tensor in[2] = {ramp(&x, -1.5f, 0.25f), ramp(&y, 0.5f, 0.125f)}, want;
    const enum td_bfloat16_way here = td_bfloat16_way();
    snprintf(text, sizeof text, CASTS "c = %s" BACK, op);
    open_run(&r, text, TD_KERNELS_REFERENCE);
    test_check_ok(__FILE__, __LINE__, text, td_callable_run(r.f, in, &want, NULL, &r.t.err), &r.t.err);
    close_run(&r);
    check_way(text, in, &want, TD_BFLOAT16_AS_FLOAT);
    if (here != TD_BFLOAT16_AS_FLOAT) { /* oneDNN has no such primitives else, and other kernels serve */
        check_way(text, in, &want, TD_BFLOAT16_NATIVE);
    }
    td_bfloat16_set(here);
    td_tensor_clear(&want);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

#define T "{T:type=bfloat16} "

TEST(matrices)
{
    check_product("MatMul " T "(a, b)", td_shape_matrix(200, 96), td_shape_matrix(96, 130));
    check_product("MatMul {T:type=bfloat16; transpose_a:bool=true} (a, b)", td_shape_matrix(150, 99),
                  td_shape_matrix(150, 160));
    check_product("MatMul {T:type=bfloat16; transpose_b:bool=true} (a, b)", td_shape_matrix(97, 256),
                  td_shape_matrix(100, 256));
    check_product("MatMul {T:type=bfloat16; transpose_a:bool=true; transpose_b:bool=true} (a, b)",
                  td_shape_matrix(64, 33), td_shape_matrix(70, 64));
    check_product("MatMul " T "(a, b)", td_shape_matrix(1, 7), td_shape_matrix(7, 3));
    check_product("MatMul " T "(a, b)", td_shape_matrix(3, 0), td_shape_matrix(0, 4));
    check_product("Einsum {T:type=bfloat16; N:int=2; equation:string='ab,cb->ac'} (a, b)",
                  td_shape_matrix(40, 64), td_shape_matrix(50, 64));
}

TEST(lists_of_matrices)
{
    check_product("BatchMatMulV2 " T "(a, b)", shape4(3, 4, 65, 32), shape4(3, 4, 32, 48));
    check_product("BatchMatMulV2 {T:type=bfloat16; adj_y:bool=true} (a, b)", shape4(3, 4, 65, 32),
                  shape4(3, 1, 48, 32));
    check_product("BatchMatMulV2 {T:type=bfloat16; adj_x:bool=true} (a, b)", shape4(1, 4, 32, 65),
                  shape4(5, 1, 32, 48));
    check_product("BatchMatMulV2 {T:type=bfloat16; adj_x:bool=true} (a, b)", shape4(2, 4, 32, 65),
                  td_shape_matrix(32, 48));
    check_product("BatchMatMulV3 {Ta:type=bfloat16; Tb:type=bfloat16; Tout:type=bfloat16} (a, b)",
                  shape4(2, 4, 32, 65), td_shape_matrix(65, 48));
}

#define CONV(op, strides)                                                                                    \
    op " {T:type=bfloat16; strides:list(int)=[1," strides "," strides ",1]; padding:string='SAME'} "

TEST(convolutions_and_their_gradients)
{
    const struct td_shape x = shape4(3, 14, 14, 16), w = shape4(3, 3, 16, 32), y = shape4(3, 14, 14, 32),
                          half = shape4(3, 7, 7, 32), depth = shape4(3, 3, 16, 1);
    check_product(CONV("Conv2D", "1") "(a, b)", x, w);
    check_product(CONV("Conv2D", "2") "(a, b)", x, w);
    check_product(CONV("DepthwiseConv2dNative", "1") "(a, b)", x, depth);
    check_product(CONV("Conv2DBackpropInput", "1") "(int32[4] 3 14 14 16, b, a)", y, w);
    check_product(CONV("Conv2DBackpropInput", "2") "(int32[4] 3 14 14 16, b, a)", half, w);
    check_product(CONV("DepthwiseConv2dNativeBackpropInput", "1") "(int32[4] 3 14 14 16, b, a)", x, depth);
    check_product(CONV("Conv2DBackpropFilter", "1") "(a, int32[4] 3 3 16 32, b)", x, y);
    check_product(CONV("Conv2DBackpropFilter", "2") "(a, int32[4] 3 3 16 32, b)", x, half);
    check_product(CONV("DepthwiseConv2dNativeBackpropFilter", "1") "(a, int32[4] 3 3 16 1, b)", x, x);
    check_product("Conv2D {T:type=bfloat16; strides:list(int)=[1,1,1,1]; padding:string='VALID'; "
                  "data_format:string='NCHW'} (a, b)",
                  shape4(2, 16, 12, 12), w);
}

/* What oneDNN 2.6 is wrong with. */
TEST(filters_whose_taps_do_not_all_meet_the_input)
{
    const char *three = "Conv3DBackpropFilterV2 {T:type=bfloat16; strides:list(int)=[1,1,3,1,1]; "
                        "padding:string='SAME'} (a, int32[5] 3 3 2 16 8, b)";
    struct td_shape x = {.rank = 5, .dim = {3, 2, 1, 4, 16}}, y = {.rank = 5, .dim = {3, 2, 1, 4, 8}};
    check_product(three, x, y);
    check_product(CONV("Conv2DBackpropFilter", "2") "(a, int32[4] 3 4 16 32, b)", shape4(3, 9, 1, 16),
                  shape4(3, 5, 1, 32));
    check_product(
        "Conv2DBackpropFilter {T:type=bfloat16; strides:list(int)=[1,1,1,1]; padding:string='SAME'; "
        "dilations:list(int)=[1,2,1,1]} (a, int32[4] 4 3 40 16, b)",
        shape4(3, 8, 6, 40), shape4(3, 8, 6, 16));
}

/* And what it broke on. */
TEST(windows_that_lie_in_the_padding)
{
    check_product("Conv2D {T:type=bfloat16; strides:list(int)=[1,2,1,1]; padding:string='EXPLICIT'; "
                  "explicit_paddings:list(int)=[0,0,0,2,1,2,0,0]} (a, b)",
                  shape4(1, 4, 8, 12), shape4(1, 3, 12, 33));
    check_product("Conv3D {T:type=bfloat16; strides:list(int)=[1,1,1,1,1]; padding:string='SAME'} (a, b)",
                  (struct td_shape){.rank = 5, .dim = {2, 3, 6, 5, 24}},
                  (struct td_shape){.rank = 5, .dim = {3, 2, 3, 24, 20}});
}

TEST_MAIN(RUN(matrices) RUN(lists_of_matrices) RUN(convolutions_and_their_gradients)
              RUN(filters_whose_taps_do_not_all_meet_the_input) RUN(windows_that_lie_in_the_padding))
