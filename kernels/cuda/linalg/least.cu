/* kernels/cuda/linalg/least.cu - least squares, a block a matrix: by the normal equations of the smaller kind
 * (A^H A x = A^H b, or x = A^H y with A A^H y = b), or by singular values (svd.cuh).
 *
 * The normal equations are the host's, step by step, so that they are definite here where they are there.
 *
 *   room, fast    [m,n] the matrix    [m,k] right-hand sides    [p,p] squares    [p,k] solution
 *   room, else    the bench of svd.cuh    [p,k] the right-hand sides along its vectors
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/svd.cuh"
#include "kernels/cuda/linalg/svd.h"

namespace
{

/* y [rows,columns] = the sums over i < n of f(row, i) g(i, column), one by one. */
template <int T, class E, class F, class G>
__device__ void multiply(E *y, int64_t rows, int64_t n, int64_t columns, F f, G g)
{
    for (int64_t at = threadIdx.x; at < rows * columns; at += T) {
        const int64_t row = at / columns, column = at - row * columns;
        E sum = E(0);
        for (int64_t i = 0; i < n; i++) {
            sum = sum + times(f(row, i), g(i, column));
        }
        y[at] = sum;
    }
    __syncthreads();
}

template <int T, class D> __device__ void look_at_l2(const td_cuda_ls &s)
{
    if (!(*s.l2 >= 0)) {
        td_cuda_refuse(s.fault);
    }
}

template <int T, class D> __global__ void normal(td_cuda_ls s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    const int64_t m = s.m, n = s.n, k = s.k, p = m < n ? m : n;
    const bool deep = m >= n;
    E *const a = reinterpret_cast<E *>(td_cuda_room_at(s.room, shared)), *const b = a + m * n;
    E *const square = b + m * k, *const x = square + p * p;
    const auto of_a = [a, n](int64_t row, int64_t column) { return a[row * n + column]; };
    const auto of_adjoint = [a, n](int64_t row, int64_t column) { return conjugate(a[column * n + row]); };
    const auto of_b = [b, k](int64_t row, int64_t column) { return b[row * k + column]; };
    const auto of_x = [x, k](int64_t row, int64_t column) { return x[row * k + column]; };
    look_at_l2<T, D>(s);
    for (int64_t at = blockIdx.x; at < s.batch; at += gridDim.x) {
        for (int64_t i = threadIdx.x; i < m * n; i += T) {
            a[i] = td_cuda_cell_of(static_cast<const D *>(s.a)[at * m * n + i]);
        }
        for (int64_t i = threadIdx.x; i < m * k; i += T) {
            b[i] = td_cuda_cell_of(static_cast<const D *>(s.b)[at * m * k + i]);
            if (!deep) {
                x[i] = b[i];
            }
        }
        __syncthreads();
        if (deep) {
            multiply<T>(square, n, m, n, of_adjoint, of_a);
            multiply<T>(x, n, m, k, of_adjoint, of_b);
        } else {
            multiply<T>(square, m, n, m, of_a, of_adjoint);
        }
        for (int64_t i = threadIdx.x; i < p; i += T) {
            square[i * p + i] = square[i * p + i] + E(*s.l2);
        }
        __syncthreads();
        if (!td_cuda_cholesky<T, true>(square, p)) {
            td_cuda_refuse(s.fault);
            __syncthreads();
            continue;
        }
        const auto lower = [square, p](int64_t row, int64_t column) { return square[row * p + column]; };
        const auto upper = [square, p](int64_t row, int64_t column) {
            return conjugate(square[column * p + row]);
        };
        td_cuda_solve_triangle<T>(lower, x, p, k, true, false, p);
        td_cuda_solve_triangle<T>(upper, x, p, k, false, false, p);
        D *const y = static_cast<D *>(s.x) + at * n * k;
        for (int64_t i = threadIdx.x; i < n * k; i += T) {
            E v = deep ? x[i] : E(0);
            for (int64_t r = 0; r < m && !deep; r++) {
                v = v + times(of_adjoint(i / k, r), of_x(r, i % k));
            }
            y[i] = td_cuda_of_cell<D>(v);
        }
        __syncthreads();
    }
}

/* spread [p,k]: of each singular vector, how much of each right-hand side is along it, over its value; 0 for
 * those of values that count as zero. */
template <int T, class D, class E>
__device__ void spread_out(const td_cuda_ls &s, const td_cuda_svd_bench<E> &w, const D *b, int unit,
                           E *spread)
{
    __shared__ double most_of[T];
    const E *const left = w.adjoint ? w.v : w.g;
    double most = 0;
    for (int64_t i = threadIdx.x; i < w.wide; i += T) {
        most = fmax(most, w.norm[i]);
    }
    most = td_cuda_block_most<T>(most, most_of);
    for (int64_t at = threadIdx.x; at < w.wide * s.k; at += T) {
        const int64_t i = at / s.k, column = at - i * s.k;
        E sum = E(0);
        for (int64_t r = 0; r < s.m; r++) {
            sum = sum + times(conjugate(left[i * s.m + r]), td_cuda_cell_of(b[r * s.k + column]));
        }
        spread[at] = w.norm[i] > s.epsilon * most ? parts_over(sum, scalbn(w.norm[i], unit)) : E(0);
    }
    __syncthreads();
}

template <int T, class D> __global__ void by_values(td_cuda_ls s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    const int64_t m = s.m, n = s.n, k = s.k;
    char *const room = td_cuda_room_at(s.room, shared);
    const td_cuda_svd_bench<E> w = td_cuda_svd_bench_in<E>(room, m, n, 0);
    E *const spread = reinterpret_cast<E *>(w.there + w.width + w.width % 2);
    const E *const right = w.adjoint ? w.g : w.v;
    look_at_l2<T, D>(s);
    for (int64_t at = blockIdx.x; at < s.batch; at += gridDim.x) {
        D *const x = static_cast<D *>(s.x) + at * n * k;
        int unit;
        const bool there = td_cuda_svd_bring<T>(w, static_cast<const D *>(s.a) + at * m * n, &unit);
        if (there) {
            td_cuda_svd_rotate<T>(w);
            td_cuda_svd_norms<T>(w);
            spread_out<T>(s, w, static_cast<const D *>(s.b) + at * m * k, unit, spread);
        }
        for (int64_t i = threadIdx.x; i < n * k; i += T) {
            E sum = E(0); /* of what is not finite: no value is greater than another */
            for (int64_t r = 0; r < w.wide && there; r++) {
                sum = sum + times(right[r * n + i / k], spread[r * k + i % k]);
            }
            x[i] = td_cuda_of_cell<D>(sum);
        }
        __syncthreads();
    }
}

template <int T> struct run_least {
    const td_cuda_ls *s;
    td_cuda_stream *stream;
    template <class D> int operator()(D) const
    {
        return s->fast ? td_cuda_matrix_launch<T>(normal<T, D>, s->room, stream, *s)
                       : td_cuda_matrix_launch<T>(by_values<T, D>, s->room, stream, *s);
    }
};

} // namespace

int64_t td_cuda_least_bytes(const struct td_cuda_ls *s, int64_t cell)
{
    const int64_t m = s->m, n = s->n, k = s->k, p = m < n ? m : n, tall = m < n ? n : m;
    return s->fast ? (m * n + m * k + p * p + p * k) * cell
                   : (td_cuda_svd_cells(tall, p, p) + p * k) * cell +
                         (3 * p + p % 2) * static_cast<int64_t>(sizeof(double));
}

int td_cuda_least_squares(enum td_cuda_type type, const struct td_cuda_ls *s, struct td_cuda_stream *stream)
{
    return s->m * s->n <= SMALL ? td_cuda_with_matrix(type, run_least<WARP>{s, stream})
                                : td_cuda_with_matrix(type, run_least<THREADS>{s, stream});
}
