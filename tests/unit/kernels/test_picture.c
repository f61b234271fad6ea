/* tests/unit/kernels/test_picture.c - colours of pictures that are not between 0 and 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define HUE "r = AdjustHue {T:type=float} (x, float[] 0.33333334)"

static void shifts_hue(struct td_tensor *x, const float *rgb, const float *want)
{
    memcpy(x->data, rgb, 3 * sizeof *rgb);
    struct td_tensor r = run_with(X HUE, "r", NULL, TD_KERNELS_FAST, x);
    for (int i = 0; i < 3; i++) {
        CHECK(fabsf(TD_DATA(&r, float)[i] - want[i]) < 1e-5f);
    }
    td_tensor_clear(&r);
}

/* A third of the way around takes red to green, whatever the colours' sign: pictures may be of -1 .. 1. */
TEST(a_shifted_hue_keeps_the_range_of_colours)
{
    const struct td_shape shape = shape4(1, 1, 1, 3);
    struct td_tensor x = ramp(&shape, 0, 1);
    shifts_hue(&x, (const float[]){0.75f, 0.5f, 0.25f}, (const float[]){0.25f, 0.75f, 0.5f});
    shifts_hue(&x, (const float[]){0.75f, -0.5f, -0.75f}, (const float[]){-0.75f, 0.75f, -0.5f});
    shifts_hue(&x, (const float[]){-0.25f, -0.5f, -0.75f}, (const float[]){-0.75f, -0.25f, -0.5f});
    shifts_hue(&x, (const float[]){0, -0.5f, -1}, (const float[]){-1, 0, -0.5f});
    shifts_hue(&x, (const float[]){-2, -2, -2}, (const float[]){-2, -2, -2});
    td_tensor_clear(&x);
}

TEST_MAIN(RUN(a_shifted_hue_keeps_the_range_of_colours))
