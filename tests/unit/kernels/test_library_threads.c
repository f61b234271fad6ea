/* tests/unit/kernels/test_library_threads.c - kernels/dense/library_threads.h: helper threads of libraries
 * compute as the run does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "kernels/dense/blas.h"
#include "kernels/dense/dnnl.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/ops.h"
#include "kernels/dense/library_threads.h"
#include "tests/test.h"

enum { SIDE = 512 };

static bool by_openblas(const struct td_gemm *g)
{
    td_gemm_blas(TD_FLOAT, g);
    return true;
}

/* Products that all are denormal must come out as 0 in every part of the result, whichever thread makes it.
 */
static void check_flushed(bool (*multiply)(const struct td_gemm *g))
{
    float *a = td_calloc(SIDE * SIDE, sizeof *a), *c = td_calloc(SIDE * SIDE, sizeof *c);
    CHECK(a != NULL && c != NULL);
    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = 1e-20f;
        c[i] = 1;
    }
    struct td_gemm g = {
        .m = SIDE, .n = SIDE, .k = 64, .a = a, .b = a, .c = c, .lda = SIDE, .ldb = SIDE, .ldc = SIDE};
    for (int round = 0; round < 3; round++) {
        unsigned long before = td_float_mode_enter();
        CHECK(multiply(&g));
        td_float_mode_leave(before);
        int wrong = 0;
        for (int i = 0; i < SIDE * SIDE; i++) {
            wrong += c[i] != 0;
        }
        CHECK_INT(wrong, 0);
    }
    td_free(a);
    td_free(c);
}

TEST(helper_threads_flush_denormals)
{
    td_threads_set(2);
    td_kernels_warm(); /* starts threads outside of any run */
    if (td_blas() != NULL) {
        check_flushed(by_openblas);
    }
    check_flushed(td_dnnl_gemm);
}

TEST_MAIN(RUN(helper_threads_flush_denormals))
