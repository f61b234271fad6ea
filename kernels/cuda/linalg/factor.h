/* kernels/cuda/linalg/factor.h - launchers of factor.cu; they return CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_FACTOR_H
#define TD_KERNELS_CUDA_LINALG_FACTOR_H

#include "kernels/cuda/linalg/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CHOLESKY: y the lower factor, NaN where there is none. DETERMINANT: y [batch]. LOG_DETERMINANT: y the
 * signs, z the logarithms. LU: y both factors, z the permutation. SOLVE: y [n,m] of right-hand sides b;
 * INVERSE: y. */
enum td_cuda_factor {
    TD_CUDA_CHOLESKY,
    TD_CUDA_DETERMINANT,
    TD_CUDA_LOG_DETERMINANT,
    TD_CUDA_LU,
    TD_CUDA_SOLVE,
    TD_CUDA_INVERSE
};

/* a [batch,n,n]. LU, SOLVE and INVERSE refuse a singular one (*fault = 1). */
struct td_cuda_factors {
    enum td_cuda_factor what;
    const void *a, *b;
    void *y, *z;
    int64_t batch, n, m;
    bool adjoint, wide_index; /* of a; z of LU has 64 bits */
    int32_t *fault;
    struct td_cuda_room room;
};
int td_cuda_factor_all(enum td_cuda_type type, const struct td_cuda_factors *s,
                       struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
