/* kernels/linalg/dmatrix.c - zmatrix.c's algorithms of matrices of doubles.
 *
 * A product and what it is taken off are rounded once where the processor does both in one (TD_CLONES): a GPU
 * follows (td_cuda_less in kernels/cuda/linalg/matrix.cuh).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/upcast.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/linalg/zmatrix.h"

void td_dmatrix_load(double *y, const struct td_tensor *t, int64_t from, int64_t n)
{
    if (n > 0) {
        td_upcast_doubles(y, (const char *)t->data + (size_t)from * td_dtype_size(t->dtype), t->dtype, n);
    }
}

void td_dmatrix_store(struct td_tensor *t, int64_t from, const double *x, int64_t n)
{
    if (n > 0) {
        td_downcast_doubles((char *)t->data + (size_t)from * td_dtype_size(t->dtype), x, t->dtype, n);
    }
}

#define E double
#define NAME(x) td_dmatrix_##x
#define CONJ(x) (x)
#define SIZE(x) fabs(x)
#define REAL(x) (x)
#define OVER(x, y) ((x) / (y))
#include "kernels/linalg/matrix_plain.inc"
