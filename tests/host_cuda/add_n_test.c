/* tests/host_cuda/add_n_test.c - AddN on a device is the host's to the bit: where terms cancel, what is left
 * is the order in which they were added. Also where there are more of them than a launch takes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/elementwise.h"
#include "tests/host_cuda/same_bits.h"

enum { COLUMNS = 60, LONG_TEXT = 8000, MOST = 48 /* that a graph's text gives a node */ };

/* r = the sum of the rows of x. */
static const char *sum_of_rows(int n, const char *type)
{
    static char text[LONG_TEXT];
    int at =
        snprintf(text, sizeof text,
                 "x = Placeholder {dtype:type=float} ()\n"
                 "c = Cast {SrcT:type=float; DstT:type=%s} (x)\n"
                 "u = Unpack {num:int=%d; axis:int=0; T:type=%s} (c)\nr = AddN {N:int=%d; T:type=%s} (u:0",
                 type, n, type, n, type);
    for (int i = 1; i < n; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, ", u:%d", i);
        CHECK(at + 32 < LONG_TEXT);
    }
    snprintf(text + at, sizeof text - (size_t)at, ")\n");
    return text;
}

/* Numbers of which two in each column, far apart and other ones in each, are large and cancel. */
static struct td_tensor cancelling(int n)
{
    struct td_tensor x = floats(td_shape_matrix(n, COLUMNS));
    for (int64_t i = 0; i < td_tensor_count(&x); i++) {
        TD_DATA(&x, float)[i] = (float)number();
    }
    for (int64_t k = 0; k < COLUMNS; k++) {
        TD_DATA(&x, float)[k % n * COLUMNS + k] = 3e4F;
        TD_DATA(&x, float)[(k % n + 1 + k / n) % n * COLUMNS + k] = -3e4F;
    }
    return x;
}

static void same_sum(int n)
{
    static const char *const names[] = {"float", "double", "half", "bfloat16", "complex64"};
    struct td_tensor x = cancelling(n);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint64_t before = launches();
        struct outcome want, got;
        const char *const text = sum_of_rows(n, names[i]);
        compute(text, NULL, &x, &want);
        compute(text, device, &x, &got);
        CHECK_INT(want.rc, TD_OK);
        CHECK_INT(got.rc, TD_OK);
        CHECK(launches() > before);
        CHECK_INT(memcmp(want.r.data, got.r.data, td_tensor_bytes(&want.r)), 0);
        td_tensor_clear(&want.r);
        td_tensor_clear(&got.r);
    }
    td_tensor_clear(&x);
}

TEST(eights_are_added_by_themselves)
{
    setup();
    for (int n = 3; n < TD_CUDA_ADDENDS; n++) {
        same_sum(n);
    }
}

TEST(more_addends_than_a_launch_takes)
{
    setup();
    CHECK(MOST > TD_CUDA_ADDENDS + 2 * TD_CUDA_ADDED_AT_ONCE - 1);
    for (int n = TD_CUDA_ADDENDS - 1; n <= MOST; n++) {
        same_sum(n);
    }
}

TEST_MAIN(RUN(eights_are_added_by_themselves) RUN(more_addends_than_a_launch_takes))
