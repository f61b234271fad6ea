/* kernels/dense/gemm_cpu.h - general matrix product on the CPU:  c [m,n] = op(a) [m,k] * op(b) [k,n],
 * row-major.
 *
 * Three bodies: OpenBLAS (float, double, complex), own loops for few rows and small products (float), and
 * plain C for every dtype.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_GEMM_CPU_H
#define TD_KERNELS_CPU_GEMM_CPU_H

#include "core/graph/op.h"

struct td_tile_posts;

enum td_trans { TD_PLAIN, TD_TRANSPOSED, TD_ADJOINT };

struct td_gemm {
    enum td_trans ta, tb;
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc; /* elements between rows as stored */
    bool add;              /* c += instead of c = */
    /* done to c, whose place in posts->y tells rows and channels; PANELS alone. NULL: nothing is */
    const struct td_tile_posts *posts;
};

/* OpenBLAS; float, double, complex64, complex128 (others, and sizes beyond its 32-bit integers, go to plain).
 */
void td_gemm_blas(enum td_dtype dtype, const struct td_gemm *g);
/* Plain C; float, double, complex, int16, int32, int64 (wrapping). The reference the others are tested
 * against. */
void td_gemm_plain(enum td_dtype dtype, const struct td_gemm *g);
/* Floats: vectorised loops that read b once for up to eight rows, and pack nothing (gemm_few.c). Any m works;
 * a is not transposed. A row's result does not depend on m, bit for bit. */
void td_gemm_small(const struct td_gemm *g);
/* So many columns, b not transposed, td_gemm_small has in registers over all of k: better than panels, which
 * are wider. */
bool td_gemm_is_slim(int64_t n);
/* Whether td_gemm_small beats any library: one row, or a small product. */
bool td_gemm_is_small(const struct td_gemm *g);
/* Whether it beats a library that is given the operands as they are: a few rows, too. */
bool td_gemm_is_few(const struct td_gemm *g);
/* The best of the above for floats: for kernels that multiply on the side. */
void td_gemm_f32(const struct td_gemm *g);
/* Whether td_gemm_blas calls OpenBLAS for it. */
bool td_gemm_blas_serves(enum td_dtype dtype, const struct td_gemm *g);

/* Floats as they are with the body that the kernel's row stands for; large products on idle threads too
 * (gemm_split.c). DNNL wants k > 0, PANELS b as in gemm_panels.h. Ends early, c's parts not all set, when
 * the run is stopped: look at td_stopped. */
enum td_gemm_body { TD_GEMM_SMALL, TD_GEMM_DNNL, TD_GEMM_BLAS, TD_GEMM_PANELS };
TD_MUST enum td_code td_gemm_spread(struct td_call *c, const struct td_gemm *g, enum td_gemm_body body,
                                    struct td_err *err);

#endif
