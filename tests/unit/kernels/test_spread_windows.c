/* tests/unit/kernels/test_spread_windows.c - pads and pools that several threads share: as one thread has
 * them, to the bit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/core/pool_make.h"
#include "tests/unit/kernels/drawn_make.h"

static struct td_tensor counted(const struct td_shape *shape)
{
    struct td_err err = {0};
    struct td_tensor t;
    CHECK_INT(td_tensor_new(&t, TD_FLOAT, shape, &err), TD_OK);
    for (int64_t i = 0; i < td_tensor_count(&t); i++) {
        TD_DATA(&t, float)[i] = (float)((i * 7919) % 10007) - 5000;
    }
    return t;
}

#define PAD "{T:type=float; Tpaddings:type=int32} "
#define POOL "{T:type=float; ksize:list(int)=[1,3,2,1]; strides:list(int)=[1,2,1,1]; padding:string="
static const char *const graphs[] = {
    X "r = Pad " PAD "(x, int32[4,2] 0 0 1 2 3 0 0 0)\n",
    X "r = PadV2 " PAD "(x, int32[4,2] 1 0 0 0 0 1 2 1, float[] 2.5)\n",
    X "r = Pad " PAD "(x, int32[4,2] 2 1 0 0 1 0 0 0)\n",
    X "r = MaxPool " POOL "'SAME'} (x)\n",
    X "r = MaxPool " POOL "'VALID'} (x)\n",
    X "r = AvgPool " POOL "'SAME'} (x)\n",
    X "m = MaxPoolWithArgmax {T:type=float; Targmax:type=int64; ksize:list(int)=[1,2,2,1]; "
      "strides:list(int)=[1,2,2,1]; padding:string='SAME'} (x)\n"
      "r = Identity {T:type=int64} (m:1)\n",
};

TEST(the_same_bits_on_several_threads)
{
    const struct td_shape shape = {.rank = 4, .dim = {3, 61, 47, 24}};
    struct td_tensor x = counted(&shape);
    struct made_pool pool;
    pool_start(&pool);
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        const int before = pool.started;
        struct td_tensor alone = run_on(NULL, graphs[i], &x), together = run_on(&pool.pool, graphs[i], &x);
        CHECK(pool.started > before);
        CHECK_STR(TD_SHAPE_STR(&together.shape), TD_SHAPE_STR(&alone.shape));
        CHECK(memcmp(alone.data, together.data, td_tensor_bytes(&alone)) == 0);
        td_tensor_clear(&alone);
        td_tensor_clear(&together);
    }
    pool_stop(&pool);
    td_tensor_clear(&x);
}

/* Where each number of y comes from, by the definition of Pad. */
TEST(borders_are_where_they_belong)
{
    const struct td_shape shape = {.rank = 4, .dim = {2, 5, 3, 4}};
    struct td_tensor x = counted(&shape), y = run_on(NULL, graphs[1], &x);
    CHECK_STR(TD_SHAPE_STR(&y.shape), "[3,5,4,7]");
    for (int64_t i = 0; i < td_tensor_count(&y); i++) {
        const int64_t d = i % 7 - 2, c = i / 7 % 4, b = i / 28 % 5, a = i / 140 - 1;
        const bool inside = d >= 0 && d < 4 && c < 3 && a >= 0;
        const float want = inside ? TD_DATA(&x, float)[((a * 5 + b) * 3 + c) * 4 + d] : 2.5f;
        CHECK(TD_DATA(&y, float)[i] == want);
    }
    td_tensor_clear(&x);
    td_tensor_clear(&y);
}

TEST_MAIN(RUN(the_same_bits_on_several_threads) RUN(borders_are_where_they_belong))
