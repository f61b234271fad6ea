/* kernels/cuda/linalg/svd.cuh - singular values in a block, by Jacobi's rotations from one side
 * (rotate.cuh).
 *
 * The columns of the matrix, or of its adjoint where that is the taller, rotate until they are orthogonal:
 * then their norms are the values, and they are the vectors of one side; the rotations, gathered, those of
 * the other. Columns lie one behind the other. Two of them are a warp's.
 *
 * Where a norm is zero, and where a whole base is wanted, vectors are made up: of the axis that is
 * farthest from those that are there, what is orthogonal to them.
 *
 *   bench     g [width][tall] the columns    v [wide][wide]    spare [width]
 *             norm [width]    place [width] of the column among the results    there [width]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_SVD_CUH
#define TD_KERNELS_CUDA_LINALG_SVD_CUH

#include "kernels/cuda/linalg/rotate.cuh"

constexpr double NOTHING = 1e-140; /* a norm, where the greatest element is about 1 */

template <class E> struct td_cuda_svd_bench {
    E *g, *v, *spare;
    double *norm;
    int64_t *place, *there;
    int64_t tall, wide, width; /* width: columns wanted of g's side, at least wide */
    bool adjoint;              /* it is the adjoint's */
};

inline __host__ __device__ int64_t td_cuda_svd_cells(int64_t tall, int64_t wide, int64_t width)
{
    return width * tall + wide * wide + width;
}

template <class E>
__device__ td_cuda_svd_bench<E> td_cuda_svd_bench_in(char *room, int64_t m, int64_t n, int64_t width)
{
    td_cuda_svd_bench<E> w = {};
    w.adjoint = m < n;
    w.tall = w.adjoint ? n : m;
    w.wide = w.adjoint ? m : n;
    w.width = width < w.wide ? w.wide : width;
    w.g = reinterpret_cast<E *>(room);
    w.v = w.g + w.width * w.tall;
    w.spare = w.v + w.wide * w.wide;
    w.norm = reinterpret_cast<double *>(w.spare + w.width);
    w.place = reinterpret_cast<int64_t *>(w.norm + w.width);
    w.there = w.place + w.width;
    return w;
}

/* ------------------------------------------------------------------ a warp's sums */

__device__ inline double td_cuda_warp_sum(double x)
{
    for (int apart = 16; apart > 0; apart /= 2) {
        x += __shfl_xor_sync(0xFFFFFFFF, x, apart);
    }
    return x;
}
__device__ inline td_cuda_zc td_cuda_warp_sum(td_cuda_zc x)
{
    return {td_cuda_warp_sum(x.re), td_cuda_warp_sum(x.im)};
}

/* x^H y */
template <class E> __device__ E td_cuda_warp_product(const E *x, const E *y, int64_t n)
{
    E sum = E(0);
    for (int64_t i = threadIdx.x % WARP; i < n; i += WARP) {
        sum = sum + times(conjugate(x[i]), y[i]);
    }
    return td_cuda_warp_sum(sum);
}
template <class E> __device__ double td_cuda_warp_power(const E *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = threadIdx.x % WARP; i < n; i += WARP) {
        sum += power_of(x[i]);
    }
    return td_cuda_warp_sum(sum);
}

/* ------------------------------------------------------------------ rotations */

/* The columns, as multiples of *unit, a power of two; v the identity. False: there is what is not finite. */
template <int T, class D, class E>
__device__ bool td_cuda_svd_bring(const td_cuda_svd_bench<E> &w, const D *from, int *unit)
{
    __shared__ double shared[T];
    const int64_t n = w.tall * w.wide;
    double most = 0;
    for (int64_t i = threadIdx.x; i < n; i += T) {
        const E x = td_cuda_cell_of(from[i]);
        most = all_finite(x) ? fmax(most, fmax(fabs(real_part(x)), fabs(imaginary_part(x)))) : INFINITY;
    }
    most = td_cuda_block_most<T>(most, shared);
    *unit = most > 0 && isfinite(most) ? ilogb(most) : 0;
    const double by = scalbn(1.0, -*unit);
    for (int64_t i = threadIdx.x; i < n; i += T) {
        const int64_t column = i / w.tall, row = i - column * w.tall;
        const E x = td_cuda_cell_of(from[w.adjoint ? i : row * w.wide + column]);
        w.g[i] = scaled(w.adjoint ? conjugate(x) : x, by);
    }
    for (int64_t i = threadIdx.x; i < w.wide * w.wide; i += T) {
        w.v[i] = E(i % (w.wide + 1) == 0 ? 1 : 0);
    }
    __syncthreads();
    return isfinite(most);
}

/* By a warp. True: they did. */
template <class E>
__device__ bool td_cuda_svd_rotate_pair(const td_cuda_svd_bench<E> &w, td_cuda_pair at, double enough)
{
    E *const x = w.g + at.p * w.tall, *const y = w.g + at.q * w.tall;
    const double a = td_cuda_warp_power(x, w.tall), b = td_cuda_warp_power(y, w.tall);
    const E both = td_cuda_warp_product(x, y, w.tall);
    if (!(size_of(both) > enough * sqrt(a) * sqrt(b)) || a == 0 || b == 0) {
        return false;
    }
    const td_cuda_rotation<E> r = td_cuda_rotation_of(b - a, both);
    for (int64_t i = threadIdx.x % WARP; i < w.tall; i += WARP) {
        r.apply(&x[i], &y[i]);
    }
    for (int64_t i = threadIdx.x % WARP; i < w.wide; i += WARP) {
        r.apply(&w.v[at.p * w.wide + i], &w.v[at.q * w.wide + i]);
    }
    return true;
}

template <int T, class E> __device__ void td_cuda_svd_rotate(const td_cuda_svd_bench<E> &w)
{
    __shared__ int any;
    const double enough = 2.3e-16 * sqrt(static_cast<double>(w.tall));
    bool more = true;
    for (int sweep = 0; sweep < MOST_SWEEPS && more; sweep++) {
        if (threadIdx.x == 0) {
            any = 0;
        }
        __syncthreads();
        for (int64_t round = 0; round < td_cuda_rounds(w.wide); round++) {
            for (int64_t i = threadIdx.x / WARP; i < td_cuda_pairs(w.wide); i += T / WARP) {
                td_cuda_pair at;
                if (td_cuda_pair_of(w.wide, round, i, &at) && td_cuda_svd_rotate_pair(w, at, enough)) {
                    (void)atomicExch(&any, 1);
                }
            }
            __syncthreads();
        }
        more = any != 0;
        __syncthreads();
    }
}

/* Norms and their places, from the greatest; columns of norm 1, but for those of nothing, which are not
 * there. */
template <int T, class E> __device__ void td_cuda_svd_norms(const td_cuda_svd_bench<E> &w)
{
    for (int64_t i = threadIdx.x / WARP; i < w.width; i += T / WARP) {
        const double norm = i < w.wide ? sqrt(td_cuda_warp_power(w.g + i * w.tall, w.tall)) : 0;
        if (threadIdx.x % WARP == 0) {
            w.norm[i] = norm;
            w.there[i] = norm > NOTHING;
        }
        for (int64_t k = threadIdx.x % WARP; norm > NOTHING && k < w.tall; k += WARP) {
            w.g[i * w.tall + k] = parts_over(w.g[i * w.tall + k], norm);
        }
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < w.width; i += T) {
        int64_t before = 0;
        for (int64_t j = 0; j < w.wide && i < w.wide; j++) {
            before += w.norm[j] > w.norm[i] || (w.norm[j] == w.norm[i] && j < i);
        }
        w.place[i] = i < w.wide ? before : i;
    }
    __syncthreads();
}

/* ------------------------------------------------------------------ a whole base */

/* The axis of which least is in the columns that are there. */
template <int T, class E> __device__ int64_t td_cuda_svd_axis(const td_cuda_svd_bench<E> &w)
{
    __shared__ td_cuda_top_place shared[T];
    td_cuda_top_place best = {-1, w.tall};
    for (int64_t i = threadIdx.x; i < w.tall; i += T) {
        double left = 1;
        for (int64_t k = 0; k < w.width; k++) {
            left -= w.there[k] ? power_of(w.g[k * w.tall + i]) : 0;
        }
        left = left > 0 ? left : 0;
        best = left > best.size ? td_cuda_top_place{left, i} : best;
    }
    return td_cuda_block_top<T>(best, shared);
}

/* Column c less what of it is in those that are there; then of norm 1. */
template <int T, class E> __device__ void td_cuda_svd_straighten(const td_cuda_svd_bench<E> &w, int64_t c)
{
    __shared__ double shared[T];
    E *const x = w.g + c * w.tall;
    for (int64_t k = threadIdx.x / WARP; k < w.width; k += T / WARP) {
        const E in = w.there[k] ? td_cuda_warp_product(w.g + k * w.tall, x, w.tall) : E(0);
        if (threadIdx.x % WARP == 0) {
            w.spare[k] = in;
        }
    }
    __syncthreads();
    double sum = 0;
    for (int64_t i = threadIdx.x; i < w.tall; i += T) {
        E v = x[i];
        for (int64_t k = 0; k < w.width; k++) {
            v = w.there[k] ? v - times(w.g[k * w.tall + i], w.spare[k]) : v;
        }
        x[i] = v;
        sum += power_of(v);
    }
    const double norm = sqrt(td_cuda_block_sum<T>(sum, shared));
    for (int64_t i = threadIdx.x; i < w.tall; i += T) {
        x[i] = parts_over(x[i], norm);
    }
    __syncthreads();
}

template <int T, class E> __device__ void td_cuda_svd_complete(const td_cuda_svd_bench<E> &w)
{
    for (int64_t c = 0; c < w.width; c++) {
        if (w.there[c]) {
            continue;
        }
        const int64_t axis = td_cuda_svd_axis<T>(w);
        for (int64_t i = threadIdx.x; i < w.tall; i += T) {
            w.g[c * w.tall + i] = E(i == axis ? 1 : 0);
        }
        __syncthreads();
        td_cuda_svd_straighten<T>(w, c);
        td_cuda_svd_straighten<T>(w, c);
        if (threadIdx.x == 0) {
            w.there[c] = 1;
        }
        __syncthreads();
    }
}

#endif
