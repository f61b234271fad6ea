/* kernels/dense/blas.h - OpenBLAS, loaded when the first kernel needs it.
 *
 * Most models never do: linked in the ordinary way it would take half of the time a process needs to start
 * (its relocations), 60 KB of every thread (its thread-local storage) and a thread of its own.
 *
 * Threads: any; the library is loaded once. It computes in as many threads as td_threads says: the
 * caller's alone unless told otherwise.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_BLAS_H
#define TD_KERNELS_CPU_BLAS_H

#include <complex.h>
#include <cblas.h>
#include <lapacke.h>

#include "core/base/status.h"

struct td_blas {
    __typeof__(&cblas_sgemm) sgemm;
    __typeof__(&cblas_dgemm) dgemm;
    __typeof__(&cblas_cgemm) cgemm;
    __typeof__(&cblas_zgemm) zgemm;
    __typeof__(&LAPACK_zgeqrf) zgeqrf;
    __typeof__(&LAPACK_zungqr) zungqr;
    __typeof__(&LAPACK_zgesdd_base) zgesdd; /* these three take the lengths of their job letters last */
    __typeof__(&LAPACK_zheevd_base) zheevd;
    __typeof__(&LAPACK_zgeev_base) zgeev;
};

/* NULL where the library is not installed. */
const struct td_blas *td_blas(void);
/* The same, with an error that says so. */
enum td_code td_blas_get(const struct td_blas **out, struct td_err *err);

#endif
