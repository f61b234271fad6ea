/* tests/unit/kernels/test_as_string.c - AsString's usual formats, which are written without printf: as that
 * has them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "tests/unit/core/pass_make.h"

enum { N = 20000 };

/* Floats of all sizes, and those that are ties at the sixth place. */
static float number(int i)
{
    static uint32_t seed = 1;
    static const float some[] = {0,          -0.0f, 1,         -1,         0.5f,       0.0078125f,
                                 0.0234375f, 1e-7f, 4.999e-7f, 0.9999999f, 9.9999995f, 16777216.f,
                                 1e9f,       4e15f, 9.1e15f,   1e16f,      3e38f,      INFINITY,
                                 -INFINITY,  NAN,   1e-45f};
    if (i < (int)(sizeof some / sizeof some[0])) {
        return some[i];
    }
    seed = seed * 1664525u + 1013904223u;
    float v;
    if (i % 3 == 0) {
        memcpy(&v, &seed, sizeof v);
        return v;
    }
    return i % 3 == 1 ? (float)(seed >> 8) * 0x1p-7f : (float)(int32_t)seed * 0x1p-20f;
}

static void texts(const char *graph, void (*print)(char *text, size_t bytes, float v))
{
    struct td_err err = {0};
    struct td_tensor x;
    const struct td_shape shape = td_shape_vector(N);
    CHECK_OK(td_tensor_new(&x, TD_FLOAT, &shape, &err));
    for (int i = 0; i < N; i++) {
        TD_DATA(&x, float)[i] = number(i);
    }
    struct td_tensor y = run_with(graph, "r", NULL, TD_KERNELS_FAST, &x);
    for (int i = 0; i < N; i++) {
        char want[400];
        size_t n;
        print(want, sizeof want, TD_DATA(&x, float)[i]);
        CHECK_STR(td_tensor_str(&y, i, &n), want);
    }
    td_tensor_clear(&x);
    td_tensor_clear(&y);
}

static void as_float(char *text, size_t bytes, float v)
{
    snprintf(text, bytes, "%f", (double)v);
}
static void as_third(char *text, size_t bytes, float v)
{
    snprintf(text, bytes, "%f", (double)v / 3.0);
}
static void as_int(char *text, size_t bytes, float v)
{
    snprintf(text, bytes, "%" PRId64, v >= -0x1p63f && v < 0x1p63f ? (int64_t)v : INT64_MIN);
}

TEST(floats)
{
    texts(X "r = AsString {T:type=float} (x)\n", as_float);
}
TEST(doubles)
{
    texts(X "d = Cast {SrcT:type=float; DstT:type=double} (x)\nt = RealDiv {T:type=double} (d, double[] 3)\n"
            "r = AsString {T:type=double} (t)\n",
          as_third);
}
TEST(integers)
{
    texts(X "d = Cast {SrcT:type=float; DstT:type=int64} (x)\nr = AsString {T:type=int64} (d)\n", as_int);
}

TEST_MAIN(RUN(floats) RUN(doubles) RUN(integers))
