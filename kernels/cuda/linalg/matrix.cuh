/* kernels/cuda/linalg/matrix.cuh - matrices in a kernel: a block has one at a time, row-major, in shared
 * memory or a part of the workspace (matrix.h).
 *
 * Everything is computed in double, or complex numbers of two, whatever the type, as on the host
 * (kernels/linalg/zmatrix.h): and a pivot is zero here where it is zero there, so products and
 * sums are rounded one by one (exact.cuh) or together (td_cuda_less) as there, and quotients of complex
 * numbers are found as the host finds them.
 *
 * A block has so many threads, T: a warp for small matrices, else THREADS.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_MATRIX_CUH
#define TD_KERNELS_CUDA_LINALG_MATRIX_CUH

#include "kernels/cuda/base/exact.cuh"
#include "kernels/cuda/base/fold.cuh"
#include "kernels/cuda/base/lines.cuh"
#include "kernels/cuda/linalg/matrix.h"
#include "kernels/cuda/math/complex.cuh"

/* ------------------------------------------------------------------ numbers */

using td_cuda_zc = td_cuda_complex<double>;

#ifndef __CUDACC__
/* Whether the host's loops have clones (TD_CLONES in kernels/cpu/vecmath.h), and this processor's rounds
 * once. */
inline bool td_cuda_host_rounds_once()
{
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                          \
    !defined(__SANITIZE_THREAD__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}
#endif

/* What numbers of type D are computed in. */
template <class D> struct td_cuda_cell {
    using type = double;
};
template <class F> struct td_cuda_cell<td_cuda_complex<F>> {
    using type = td_cuda_zc;
};

template <class E> struct td_cuda_number;
template <> struct td_cuda_number<double> {
    template <class D> __device__ static double load(D x) { return x; }
    template <class D> __device__ static D store(double x) { return static_cast<D>(x); }
};
template <> struct td_cuda_number<td_cuda_zc> {
    template <class F> __device__ static td_cuda_zc load(td_cuda_complex<F> x) { return {x.re, x.im}; }
    template <class D> __device__ static D store(td_cuda_zc x)
    {
        using F = decltype(D().re);
        return {static_cast<F>(x.re), static_cast<F>(x.im)};
    }
};
template <class D> __device__ typename td_cuda_cell<D>::type td_cuda_cell_of(D x)
{
    return td_cuda_number<typename td_cuda_cell<D>::type>::load(x);
}
template <class D> __device__ D td_cuda_of_cell(typename td_cuda_cell<D>::type x)
{
    return td_cuda_number<typename td_cuda_cell<D>::type>::template store<D>(x);
}

__device__ inline double times(double a, double b)
{
    return td_cuda_times(a, b);
}
__device__ inline td_cuda_zc times(td_cuda_zc a, td_cuda_zc b)
{
    return {td_cuda_times(a.re, b.re) - td_cuda_times(a.im, b.im),
            td_cuda_times(a.re, b.im) + td_cuda_times(a.im, b.re)};
}
__device__ inline td_cuda_zc scaled(td_cuda_zc a, double by)
{
    return {td_cuda_times(a.re, by), td_cuda_times(a.im, by)};
}
__device__ inline double scaled(double a, double by)
{
    return td_cuda_times(a, by);
}

__device__ inline double parts_over(double a, double b)
{
    return a / b;
}
__device__ inline td_cuda_zc parts_over(td_cuda_zc a, double b)
{
    return {a.re / b, a.im / b};
}
/* y - f x. Of reals as the host's loops have it (kernels/linalg/dmatrix.c), which round once where their
 * processor does: so does every GPU. */
__device__ inline double td_cuda_less(double y, double f, double x)
{
#ifdef __CUDACC__
    return __fma_rn(-f, x, y);
#else
    static const bool once = td_cuda_host_rounds_once();
    return once ? fma(-f, x, y) : y - f * x;
#endif
}
__device__ inline td_cuda_zc td_cuda_less(td_cuda_zc y, td_cuda_zc f, td_cuda_zc x)
{
    return y - times(f, x);
}
/* The same, of either rounded twice: what the host computes in complex numbers whatever the type. */
template <class E> __device__ E td_cuda_less_twice(E y, E f, E x)
{
    return y - times(f, x);
}

/* By the greater part of the divisor: as td_zmatrix_quotient. */
__device__ inline double over(double a, double b)
{
    return a / b;
}
__device__ inline td_cuda_zc over(td_cuda_zc a, td_cuda_zc b)
{
    if (fabs(b.re) < fabs(b.im)) {
        const double ratio = b.re / b.im, of = times(b.re, ratio) + b.im;
        return {(times(a.re, ratio) + a.im) / of, (times(a.im, ratio) - a.re) / of};
    }
    const double ratio = b.im / b.re, of = times(b.im, ratio) + b.re;
    return {(times(a.im, ratio) + a.re) / of, (a.im - times(a.re, ratio)) / of};
}

__device__ inline double conjugate(double x)
{
    return x;
}
__device__ inline double size_of(double x)
{
    return fabs(x);
}
__device__ inline double size_of(td_cuda_zc x)
{
    return hypot(x.re, x.im);
}
/* The square of it. */
__device__ inline double power_of(double x)
{
    return x * x;
}
__device__ inline double power_of(td_cuda_zc x)
{
    return x.re * x.re + x.im * x.im;
}
__device__ inline double real_part(double x)
{
    return x;
}
__device__ inline double real_part(td_cuda_zc x)
{
    return x.re;
}
__device__ inline double imaginary_part(double)
{
    return 0;
}
__device__ inline double imaginary_part(td_cuda_zc x)
{
    return x.im;
}
__device__ inline bool all_finite(double x)
{
    return isfinite(x);
}
__device__ inline bool all_finite(td_cuda_zc x)
{
    return isfinite(x.re) && isfinite(x.im);
}

/* ------------------------------------------------------------------ a block's threads */

/* As rows and columns: as many columns as a matrix of that width fills, sixteen at most. */
struct td_cuda_tile {
    int64_t row, column, rows, columns;
};
template <int T> __device__ td_cuda_tile td_cuda_tile_of(int64_t width)
{
    int shift = 0;
    while (shift < 4 && (int64_t(1) << shift) < width) {
        shift++;
    }
    const int t = threadIdx.x, columns = 1 << shift;
    return {t >> shift, t & (columns - 1), T >> shift, columns};
}

/* The sum over the block of v, on each thread, in one order. shared [T]. */
template <int T> __device__ double td_cuda_block_sum(double v, double *shared)
{
    return td_cuda_fold<T>(v, shared, [](double a, double b) { return a + b; });
}
template <int T> __device__ double td_cuda_block_most(double v, double *shared)
{
    return td_cuda_fold<T>(v, shared, [](double a, double b) { return a > b ? a : b; });
}

/* The greatest of the block's sizes, of equal ones that with the lowest place. Places are from 0; -1 is less
 * than all. */
struct td_cuda_top_place {
    double size;
    int64_t place;
};
template <int T> __device__ int64_t td_cuda_block_top(td_cuda_top_place v, td_cuda_top_place *shared)
{
    return td_cuda_fold<T>(v, shared,
                           [](td_cuda_top_place a, td_cuda_top_place b) {
                               return b.size > a.size || (b.size == a.size && b.place < a.place) ? b : a;
                           })
        .place;
}

/* This block's room. */
__device__ inline char *td_cuda_room_at(const td_cuda_room &r, unsigned char *shared)
{
    return r.at != nullptr ? r.at + blockIdx.x * r.bytes : reinterpret_cast<char *>(shared);
}

/* Launches kernel, of T threads, with that room. */
template <int T, class... P, class... A>
int td_cuda_matrix_launch(void (*kernel)(P...), const td_cuda_room &r, struct td_cuda_stream *stream,
                          A... given)
{
    return td_cuda_blocks_of<T>(kernel, r.blocks, r.at != nullptr ? 0 : static_cast<size_t>(r.bytes), stream,
                                given...);
}

/* f(T()) for the type of matrices' elements. */
template <class F> int td_cuda_with_matrix(int type, F f)
{
    return td_cuda_is_complex(type) ? td_cuda_with_complex(type, f) : td_cuda_with_wide(type, f);
}

/* Which number of threads a matrix of so many cells is worth. */
constexpr int WARP = 32;
constexpr int64_t SMALL = 1024;

/* ------------------------------------------------------------------ solving */

/* x [n,m] becomes the solution of a x = x, a(row, column) triangular. forward: from the first unknown on.
 * reach: no coefficient is farther from the diagonal. x is there, and is there for all at the end. */
template <int T, class E, class A>
__device__ void td_cuda_solve_triangle(A a, E *x, int64_t n, int64_t m, bool forward, bool unit,
                                       int64_t reach)
{
    const td_cuda_tile t = td_cuda_tile_of<T>(m);
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = forward ? k : n - 1 - k;
        if (!unit) {
            const E d = a(i, i);
            for (int64_t j = threadIdx.x; j < m; j += T) {
                x[i * m + j] = over(x[i * m + j], d);
            }
            __syncthreads();
        }
        const int64_t from = forward ? i + 1 : i > reach ? i - reach : 0;
        const int64_t to = !forward ? i : i + 1 + reach < n ? i + 1 + reach : n;
        for (int64_t r = from + t.row; r < to; r += t.rows) {
            const E f = a(r, i);
            for (int64_t j = t.column; j < m; j += t.columns) {
                x[r * m + j] = td_cuda_less(x[r * m + j], f, x[i * m + j]);
            }
        }
        __syncthreads();
    }
}

/* Lower factor of a hermitian a [n,n], of which the lower triangle is read and written; false where a is not
 * positive definite. As on the host, step by step; TWICE: rounded so. */
template <int T, bool TWICE, class E> __device__ bool td_cuda_cholesky(E *a, int64_t n)
{
    const td_cuda_tile t = td_cuda_tile_of<T>(n);
    for (int64_t k = 0; k < n; k++) {
        const double pivot = real_part(a[k * n + k]);
        if (!(pivot > 0)) {
            return false;
        }
        const double root = sqrt(pivot);
        __syncthreads();
        for (int64_t i = k + threadIdx.x; i < n; i += T) {
            a[i * n + k] = i == k ? E(root) : parts_over(a[i * n + k], root);
        }
        __syncthreads();
        for (int64_t i = k + 1 + t.row; i < n; i += t.rows) {
            for (int64_t j = k + 1 + t.column; j <= i; j += t.columns) {
                const E x = a[i * n + j], f = a[i * n + k], of = conjugate(a[j * n + k]);
                a[i * n + j] = TWICE ? td_cuda_less_twice(x, f, of) : td_cuda_less(x, f, of);
            }
        }
        __syncthreads();
    }
    return true;
}

#endif
