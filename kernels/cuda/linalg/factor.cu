/* kernels/cuda/linalg/factor.cu - Cholesky and LU factors of small matrices, and what is made of them: a
 * block a matrix.
 *
 * A column is eliminated from all rows below at once, so that each element sees the same steps in the same
 * order as on the host.
 *
 *   room   [n,n] the matrix    [n,m] right-hand sides    [n] which row each is (LU)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/factor.h"

#include "kernels/cuda/linalg/matrix.cuh"

namespace
{

/* ------------------------------------------------------------------ LU */

/* The row of the greatest element of column k, from the diagonal down; of equal ones the first. */
template <int T, class E> __device__ int64_t pivot_row(const E *a, int64_t n, int64_t k)
{
    __shared__ td_cuda_top_place shared[T];
    td_cuda_top_place best = {-1, n};
    for (int64_t i = k + threadIdx.x; i < n; i += T) {
        const double size = size_of(a[i * n + k]);
        best = size > best.size ? td_cuda_top_place{size, i} : best;
    }
    const int64_t top = td_cuda_block_top<T>(best, shared);
    return isnan(size_of(a[k * n + k])) ? k : top; /* nothing is greater */
}

/* a [n,n] becomes both factors, row i of which was row p[i]; *sign is the permutation's. False when a
 * pivot is zero, or the first one NaN. */
template <int T, class E> __device__ bool eliminate(E *a, int64_t n, int64_t *p, double *sign)
{
    const td_cuda_tile t = td_cuda_tile_of<T>(n);
    bool regular = true;
    *sign = 1;
    for (int64_t i = threadIdx.x; i < n; i += T) {
        p[i] = i;
    }
    __syncthreads();
    for (int64_t k = 0; k < n; k++) {
        const int64_t top = pivot_row<T>(a, n, k);
        if (a[top * n + k] == 0) {
            regular = false;
            continue;
        }
        __syncthreads();
        for (int64_t j = threadIdx.x; j < n && top != k; j += T) {
            const E x = a[k * n + j];
            a[k * n + j] = a[top * n + j];
            a[top * n + j] = x;
        }
        if (top != k && threadIdx.x == 0) {
            const int64_t row = p[k];
            p[k] = p[top];
            p[top] = row;
        }
        *sign = top != k ? -*sign : *sign;
        __syncthreads();
        for (int64_t i = k + 1 + threadIdx.x; i < n; i += T) {
            a[i * n + k] = over(a[i * n + k], a[k * n + k]);
        }
        __syncthreads();
        for (int64_t i = k + 1 + t.row; i < n; i += t.rows) {
            const E f = a[i * n + k];
            for (int64_t j = k + 1 + t.column; j < n && f != E(0); j += t.columns) {
                a[i * n + j] = td_cuda_less(a[i * n + j], f, a[k * n + j]);
            }
        }
        __syncthreads();
    }
    return regular && (n == 0 || !isnan(size_of(a[0])));
}

/* Matrix b, or its adjoint, of those of s. */
template <int T, class D, class E> __device__ void bring(const td_cuda_factors &s, int64_t b, E *a)
{
    const D *const from = static_cast<const D *>(s.a) + b * s.n * s.n;
    for (int64_t i = threadIdx.x; i < s.n * s.n; i += T) {
        const int64_t row = i / s.n, column = i - row * s.n;
        const E x = td_cuda_cell_of(from[i]);
        a[s.adjoint ? column * s.n + row : i] = s.adjoint ? conjugate(x) : x;
    }
    __syncthreads();
}

template <int T, class D, class E> __device__ void put(const E *x, D *to, int64_t n)
{
    for (int64_t i = threadIdx.x; i < n; i += T) {
        to[i] = td_cuda_of_cell<D>(x[i]);
    }
}

/* By one thread, in the order of the diagonal. */
template <class D, class E>
__device__ void determinant(const td_cuda_factors &s, int64_t b, const E *a, double sign)
{
    const bool logarithm = s.what == TD_CUDA_LOG_DETERMINANT;
    E det = E(sign);
    double sum = 0;
    for (int64_t i = 0; i < s.n; i++) {
        const E d = a[i * s.n + i];
        if (logarithm) {
            const double size = size_of(d);
            sum += log(size);
            det = times(det, size > 0 ? parts_over(d, size) : E(0));
        } else {
            det = times(det, d);
        }
    }
    static_cast<D *>(s.y)[b] = td_cuda_of_cell<D>(det);
    if (logarithm) {
        static_cast<D *>(s.z)[b] = td_cuda_of_cell<D>(E(sum));
    }
}

template <int T, class D> __global__ void factors(td_cuda_factors s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    E *const a = reinterpret_cast<E *>(td_cuda_room_at(s.room, shared));
    auto *const p = reinterpret_cast<int64_t *>(a + s.n * s.n);
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        double sign;
        bring<T, D>(s, b, a);
        const bool regular = eliminate<T>(a, s.n, p, &sign);
        if (s.what != TD_CUDA_LU) {
            if (threadIdx.x == 0) {
                determinant<D>(s, b, a, sign);
            }
        } else if (!regular) {
            td_cuda_refuse(s.fault);
        } else {
            put<T>(a, static_cast<D *>(s.y) + b * s.n * s.n, s.n * s.n);
            for (int64_t i = threadIdx.x; i < s.n; i += T) {
                if (s.wide_index) {
                    static_cast<int64_t *>(s.z)[b * s.n + i] = p[i];
                } else {
                    static_cast<int32_t *>(s.z)[b * s.n + i] = static_cast<int32_t>(p[i]);
                }
            }
        }
        __syncthreads();
    }
}

/* ------------------------------------------------------------------ solving */

template <int T, class D> __global__ void solve(td_cuda_factors s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    const int64_t n = s.n, m = s.m;
    E *const a = reinterpret_cast<E *>(td_cuda_room_at(s.room, shared)), *const x = a + n * n;
    auto *const p = reinterpret_cast<int64_t *>(x + n * m);
    const auto at = [a, n](int64_t row, int64_t column) { return a[row * n + column]; };
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        double sign;
        bring<T, D>(s, b, a);
        if (!eliminate<T>(a, n, p, &sign)) {
            td_cuda_refuse(s.fault);
            __syncthreads();
            continue;
        }
        for (int64_t i = threadIdx.x; i < n * m; i += T) {
            const int64_t row = i / m, column = i - row * m;
            x[i] = s.what == TD_CUDA_INVERSE
                       ? E(p[row] == column ? 1 : 0)
                       : td_cuda_cell_of(static_cast<const D *>(s.b)[b * n * m + p[row] * m + column]);
        }
        __syncthreads();
        td_cuda_solve_triangle<T>(at, x, n, m, true, true, n);
        td_cuda_solve_triangle<T>(at, x, n, m, false, false, n);
        put<T>(x, static_cast<D *>(s.y) + b * n * m, n * m);
        __syncthreads();
    }
}

/* ------------------------------------------------------------------ Cholesky */

template <int T, class D> __global__ void cholesky(td_cuda_factors s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    const int64_t n = s.n;
    E *const a = reinterpret_cast<E *>(td_cuda_room_at(s.room, shared));
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        D *const y = static_cast<D *>(s.y) + b * n * n;
        bring<T, D>(s, b, a);
        const bool definite = td_cuda_cholesky<T, false>(a, n);
        for (int64_t i = threadIdx.x; i < n * n; i += T) {
            y[i] = td_cuda_of_cell<D>(!definite ? E(NAN) : i % n > i / n ? E(0) : a[i]);
        }
        __syncthreads();
    }
}

template <int T> struct run_factor {
    const td_cuda_factors *s;
    td_cuda_stream *stream;
    template <class D> int operator()(D) const
    {
        return s->what == TD_CUDA_CHOLESKY ? td_cuda_matrix_launch<T>(cholesky<T, D>, s->room, stream, *s)
               : s->what < TD_CUDA_SOLVE   ? td_cuda_matrix_launch<T>(factors<T, D>, s->room, stream, *s)
                                           : td_cuda_matrix_launch<T>(solve<T, D>, s->room, stream, *s);
    }
};

} // namespace

int td_cuda_factor_all(enum td_cuda_type type, const struct td_cuda_factors *s, struct td_cuda_stream *stream)
{
    return s->n * (s->n + s->m) <= SMALL ? td_cuda_with_matrix(type, run_factor<WARP>{s, stream})
                                         : td_cuda_with_matrix(type, run_factor<THREADS>{s, stream});
}
