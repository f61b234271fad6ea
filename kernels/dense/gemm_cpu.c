/* kernels/dense/gemm_cpu.c - matrix products: the only file that calls OpenBLAS's cblas.
 *
 * OpenBLAS packs both operands at every call, which for few rows costs more than the product; those and small
 * ones are gemm_few.c's. int16 products are computed in 32 bits and cut.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/gemm_cpu.h"

#include <complex.h>

#include "core/base/status.h"
#include "kernels/dense/blas.h"
#include "kernels/cpu/vecmath.h"

#define SELF(x) (x)
#define NAME plain_f32
#define T float
#define CONJ SELF
#include "kernels/dense/gemm_plain.inc"
#define NAME plain_f64
#define T double
#define CONJ SELF
#include "kernels/dense/gemm_plain.inc"
#define NAME plain_i32 /* unsigned arithmetic wraps, as the signed one is meant to */
#define T uint32_t
#define CONJ SELF
#include "kernels/dense/gemm_plain.inc"
#define NAME plain_i64
#define T uint64_t
#define CONJ SELF
#include "kernels/dense/gemm_plain.inc"
#define NAME plain_c64
#define T float _Complex
#define CONJ conjf
#include "kernels/dense/gemm_plain.inc"
#define NAME plain_c128
#define T double _Complex
#define CONJ conj
#include "kernels/dense/gemm_plain.inc"

static void plain_i16(const struct td_gemm *g)
{
    const uint16_t *a = g->a, *b = g->b;
    for (int64_t i = 0; i < g->m; i++) {
        uint16_t *c = (uint16_t *)g->c + i * g->ldc;
        for (int64_t j = 0; j < g->n; j++) {
            uint32_t sum = g->add ? c[j] : 0;
            for (int64_t p = 0; p < g->k; p++) {
                uint32_t x = g->ta == TD_PLAIN ? a[i * g->lda + p] : a[p * g->lda + i];
                uint32_t y = g->tb == TD_PLAIN ? b[p * g->ldb + j] : b[j * g->ldb + p];
                sum += x * y;
            }
            c[j] = (uint16_t)sum;
        }
    }
}

void td_gemm_plain(enum td_dtype dtype, const struct td_gemm *g)
{
    switch (dtype) {
    case TD_FLOAT:
        plain_f32(g);
        return;
    case TD_DOUBLE:
        plain_f64(g);
        return;
    case TD_INT16:
        plain_i16(g);
        return;
    case TD_INT32:
        plain_i32(g);
        return;
    case TD_INT64:
        plain_i64(g);
        return;
    case TD_COMPLEX64:
        plain_c64(g);
        return;
    case TD_COMPLEX128:
        plain_c128(g);
        return;
    default:
        TD_CHECK(false);
    }
}

/* ------------------------------------------------------------------ OpenBLAS */

static enum CBLAS_TRANSPOSE trans(enum td_trans t)
{
    return t == TD_PLAIN ? CblasNoTrans : t == TD_TRANSPOSED ? CblasTrans : CblasConjTrans;
}

static bool fits(const struct td_gemm *g)
{
    const int64_t big = INT32_MAX;
    return g->m <= big && g->n <= big && g->k <= big && g->lda <= big && g->ldb <= big && g->ldc <= big;
}

bool td_gemm_blas_serves(enum td_dtype dtype, const struct td_gemm *g)
{
    const bool real = dtype == TD_FLOAT || dtype == TD_DOUBLE,
               cplx = dtype == TD_COMPLEX64 || dtype == TD_COMPLEX128;
    return (real || cplx) && fits(g) && g->m > 0 && g->n > 0 && g->k > 0 && td_blas() != NULL;
}

void td_gemm_blas(enum td_dtype dtype, const struct td_gemm *g)
{
    const struct td_blas *blas = td_blas();
    if (!td_gemm_blas_serves(dtype, g)) {
        td_gemm_plain(dtype, g);
        return;
    }
    enum CBLAS_TRANSPOSE ta = trans(g->ta), tb = trans(g->tb);
    int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    const double one[2] = {1, 0}, beta[2] = {g->add, 0};
    const float onef[2] = {1, 0}, betaf[2] = {g->add, 0};
    if (dtype == TD_FLOAT) {
        blas->sgemm(CblasRowMajor, ta, tb, m, n, k, 1, g->a, lda, g->b, ldb, betaf[0], g->c, ldc);
    } else if (dtype == TD_DOUBLE) {
        blas->dgemm(CblasRowMajor, ta, tb, m, n, k, 1, g->a, lda, g->b, ldb, beta[0], g->c, ldc);
    } else if (dtype == TD_COMPLEX64) {
        blas->cgemm(CblasRowMajor, ta, tb, m, n, k, onef, g->a, lda, g->b, ldb, betaf, g->c, ldc);
    } else {
        blas->zgemm(CblasRowMajor, ta, tb, m, n, k, one, g->a, lda, g->b, ldb, beta, g->c, ldc);
    }
}

void td_gemm_f32(const struct td_gemm *g)
{
    if (td_gemm_is_few(g)) {
        td_gemm_small(g);
    } else {
        td_gemm_blas(TD_FLOAT, g);
    }
}
