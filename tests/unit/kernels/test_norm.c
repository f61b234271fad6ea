/* tests/unit/kernels/test_norm.c - batch normalisation, and its gradient, of no rows at all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define NORM(format)                                                                                         \
    "n = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=true; data_format:string='" format   \
    "'} (x, float[2] 3, float[2] 1, float[0], float[0])\n"                                                   \
    "g = FusedBatchNormGradV3 {T:type=float; U:type=float; is_training:bool=true; "                          \
    "data_format:string='" format "'} (x, x, float[2] 3, n:3, n:4, n:5)\n"

/* r, by default and with all passes off, is n zeros. */
static void gives_zeros(const char *text, struct td_shape shape, int n)
{
    const struct td_tensor x = ramp(&shape, 1, 0.25f);
    static const char *const off[] = {NULL, "all"};
    for (int k = 0; k < 2; k++) {
        struct td_tensor r = run_with(text, "r", off[k], TD_KERNELS_FAST, &x);
        CHECK_INT(td_tensor_count(&r), n);
        for (int i = 0; i < n; i++) {
            CHECK(TD_DATA(&r, float)[i] == 0);
        }
        td_tensor_clear(&r);
    }
    struct td_tensor mine = x;
    td_tensor_clear(&mine);
}

/* The mean and variance of nothing are NaN, the gradients by scale and offset sums of nothing. */
TEST(of_no_rows_the_gradients_by_scale_and_offset_are_zeros)
{
    gives_zeros(X NORM("NHWC") "r = Identity {T:type=float} (g:1)", shape4(0, 2, 3, 2), 2);
    gives_zeros(X NORM("NHWC") "r = Identity {T:type=float} (g:2)", shape4(0, 2, 3, 2), 2);
    gives_zeros(X NORM("NCHW") "r = Identity {T:type=float} (g:1)", shape4(3, 2, 0, 4), 2);
    gives_zeros(X NORM("NCHW") "r = Identity {T:type=float} (g:2)", shape4(3, 2, 0, 4), 2);
    gives_zeros(X NORM("NHWC") "r = Identity {T:type=float} (g)", shape4(0, 2, 3, 2), 0);
}

TEST_MAIN(RUN(of_no_rows_the_gradients_by_scale_and_offset_are_zeros))
