/* kernels/cuda/linalg/qr.cu - orthogonal and triangular factors by reflections, a block a matrix.
 *
 * Reflection k takes column k of what is left to a multiple of its first element's axis, of the sign that
 * LAPACK chooses: real, and against that element's real part. A column that is there already keeps its
 * sign.
 *
 *   H = 1 - tau v v^H,  v[k] = 1        R = H[last]^H .. H[0]^H A        Q = H[0] .. H[last]
 *
 *   room   [m,n] the matrix: R, and below the diagonal the vectors    [m,p] Q    [p] tau
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/qr.h"

#include "kernels/cuda/linalg/matrix.cuh"

namespace
{

constexpr int COLUMNS = 16; /* columns that are reflected at once */

/* The norm of column k of a [m,n], below the diagonal. */
template <int T, class E> __device__ double norm_below(const E *a, int64_t m, int64_t n, int64_t k)
{
    __shared__ double shared[T];
    double most = 0, sum = 0;
    for (int64_t i = k + 1 + threadIdx.x; i < m; i += T) {
        const double size = size_of(a[i * n + k]);
        most = size > most || isnan(size) ? size : most;
    }
    most = td_cuda_fold<T>(most, shared, [](double x, double y) { return x > y || isnan(x) ? x : y; });
    for (int64_t i = k + 1 + threadIdx.x; i < m && most > 0; i += T) {
        sum += power_of(parts_over(a[i * n + k], most));
    }
    sum = td_cuda_block_sum<T>(sum, shared);
    return most > 0 ? most * sqrt(sum) : most;
}

/* tau, v and the diagonal's element of reflection k. */
template <int T, class E> __device__ void make_reflection(E *a, int64_t m, int64_t n, int64_t k, E *tau)
{
    const double below = norm_below<T>(a, m, n, k);
    const E first = a[k * n + k];
    const double re = real_part(first), im = imaginary_part(first);
    __syncthreads();
    if (below == 0 && im == 0) {
        if (threadIdx.x == 0) {
            tau[k] = E(0);
        }
    } else {
        const double onto = -copysign(hypot(hypot(re, im), below), re);
        const E by = over(E(1), first - E(onto));
        for (int64_t i = k + 1 + threadIdx.x; i < m; i += T) {
            a[i * n + k] = times(a[i * n + k], by);
        }
        if (threadIdx.x == 0) {
            a[k * n + k] = E(onto);
            tau[k] = parts_over(E(onto) - first, onto);
        }
    }
    __syncthreads();
}

/* Columns from.. of x [m,width] by 1 - tau v v^H, v being in column k of a [m,n]. */
template <int T, class E>
__device__ void reflect(const E *a, int64_t m, int64_t n, int64_t k, E tau, E *x, int64_t width, int64_t from)
{
    __shared__ E shared[T];
    const int column = threadIdx.x % COLUMNS, row = threadIdx.x / COLUMNS;
    for (int64_t first = from; first < width; first += COLUMNS) {
        const int64_t j = first + column;
        E sum = E(0);
        for (int64_t i = k + row; i < m && j < width; i += T / COLUMNS) {
            sum = sum + (i == k ? x[i * width + j] : times(conjugate(a[i * n + k]), x[i * width + j]));
        }
        shared[threadIdx.x] = sum;
        __syncthreads();
        sum = shared[column];
        for (int r = 1; r < T / COLUMNS; r++) {
            sum = sum + shared[r * COLUMNS + column];
        }
        sum = times(tau, sum);
        for (int64_t i = k + row; i < m && j < width; i += T / COLUMNS) {
            x[i * width + j] = x[i * width + j] - (i == k ? sum : times(a[i * n + k], sum));
        }
        __syncthreads();
    }
}

template <int T, class D> __global__ void qr(td_cuda_qr s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    const int64_t m = s.m, n = s.n, p = s.p, steps = m < n ? m : n;
    E *const a = reinterpret_cast<E *>(td_cuda_room_at(s.room, shared));
    E *const q = a + m * n, *const tau = q + m * p;
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        for (int64_t i = threadIdx.x; i < m * n; i += T) {
            a[i] = td_cuda_cell_of(static_cast<const D *>(s.a)[b * m * n + i]);
        }
        for (int64_t i = threadIdx.x; i < m * p; i += T) {
            q[i] = E(i / p == i % p ? 1 : 0);
        }
        __syncthreads();
        for (int64_t k = 0; k < steps; k++) {
            make_reflection<T>(a, m, n, k, tau);
            reflect<T>(a, m, n, k, conjugate(tau[k]), a, n, k + 1);
        }
        for (int64_t k = steps - 1; k >= 0; k--) {
            reflect<T>(a, m, n, k, tau[k], q, p, k);
        }
        for (int64_t i = threadIdx.x; i < m * p; i += T) {
            static_cast<D *>(s.q)[b * m * p + i] = td_cuda_of_cell<D>(q[i]);
        }
        for (int64_t i = threadIdx.x; i < p * n; i += T) {
            static_cast<D *>(s.r)[b * p * n + i] = td_cuda_of_cell<D>(i % n >= i / n ? a[i] : E(0));
        }
        __syncthreads();
    }
}

template <int T> struct run_qr {
    const td_cuda_qr *s;
    td_cuda_stream *stream;
    template <class D> int operator()(D) const
    {
        return td_cuda_matrix_launch<T>(qr<T, D>, s->room, stream, *s);
    }
};

} // namespace

int td_cuda_qr_all(enum td_cuda_type type, const struct td_cuda_qr *s, struct td_cuda_stream *stream)
{
    return s->m * s->n <= SMALL ? td_cuda_with_matrix(type, run_qr<WARP>{s, stream})
                                : td_cuda_with_matrix(type, run_qr<THREADS>{s, stream});
}
