/* kernels/cuda/linalg/eigen.cu - eigenvalues and vectors of self-adjoint matrices, by Jacobi's rotations
 * (rotate.cuh): a block a matrix.
 *
 * A rotation takes two elements off the diagonal; what is left there shrinks quadratically. First the
 * columns of all pairs of a round rotate, then their rows. A vector is unique up to a factor of size 1,
 * which is another than LAPACK's.
 *
 *   room   [n,n] the matrix    [n,n] vectors    [pairs] rotations    [n] values    [n] their places
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/eigen.h"

#include "kernels/cuda/linalg/rotate.cuh"

namespace
{

template <class E> struct bench {
    E *a, *v; /* v: NULL without vectors */
    td_cuda_rotation<E> *rotation;
    double *values;
    int64_t *place;
    int64_t n;
};

template <class E> __device__ bench<E> bench_in(char *room, int64_t n, bool vectors)
{
    E *const a = reinterpret_cast<E *>(room), *const end = a + (vectors ? 2 : 1) * n * n;
    auto *const rotation = reinterpret_cast<td_cuda_rotation<E> *>(end);
    auto *const values = reinterpret_cast<double *>(rotation + td_cuda_pairs(n));
    return {a, vectors ? a + n * n : nullptr, rotation, values, reinterpret_cast<int64_t *>(values + n), n};
}

/* The matrix, by its lower triangle, as multiples of *unit, a power of two; v the identity. False: it has
 * what is not finite. */
template <int T, class D, class E> __device__ bool bring(const bench<E> &w, const D *from, int *unit)
{
    __shared__ double shared[T];
    const int64_t n = w.n;
    double most = 0;
    for (int64_t i = threadIdx.x; i < n * n; i += T) {
        const E x = td_cuda_cell_of(from[i]);
        const double re = fabs(real_part(x)), im = fabs(imaginary_part(x));
        most = all_finite(x) ? fmax(most, fmax(re, im)) : INFINITY;
    }
    most = td_cuda_block_most<T>(most, shared);
    *unit = most > 0 && isfinite(most) ? ilogb(most) : 0;
    for (int64_t i = threadIdx.x; i < n * n; i += T) {
        const int64_t row = i / n, column = i - row * n;
        const E x = td_cuda_cell_of(from[row < column ? column * n + row : i]);
        const double by = scalbn(1.0, -*unit);
        w.a[i] = row == column ? E(real_part(x) * by) : scaled(row < column ? conjugate(x) : x, by);
        if (w.v != nullptr) {
            w.v[i] = E(row == column ? 1 : 0);
        }
    }
    __syncthreads();
    return isfinite(most);
}

/* The rotations of a round; *any becomes 1 where there is one. */
template <int T, class E>
__device__ void find_rotations(const bench<E> &w, int64_t round, double least, int *any)
{
    for (int64_t i = threadIdx.x; i < td_cuda_pairs(w.n); i += T) {
        td_cuda_pair at;
        w.rotation[i] = {1, 0, E(1)};
        if (td_cuda_pair_of(w.n, round, i, &at)) {
            const E off = w.a[at.p * w.n + at.q];
            if (size_of(off) > least) {
                w.rotation[i] = td_cuda_rotation_of(
                    real_part(w.a[at.q * w.n + at.q]) - real_part(w.a[at.p * w.n + at.p]), off);
                (void)atomicExch(any, 1);
            }
        }
    }
    __syncthreads();
}

/* Columns of the matrix, and of the vectors. */
template <int T, class E> __device__ void rotate_columns(const bench<E> &w, int64_t round)
{
    const int64_t n = w.n, pairs = td_cuda_pairs(n);
    for (int64_t at = threadIdx.x; at < n * pairs; at += T) {
        const int64_t row = at / pairs, i = at - row * pairs;
        const td_cuda_rotation<E> r = w.rotation[i];
        td_cuda_pair pair;
        if (td_cuda_pair_of(n, round, i, &pair) && !r.none()) {
            r.apply(&w.a[row * n + pair.p], &w.a[row * n + pair.q]);
            if (w.v != nullptr) {
                r.apply(&w.v[row * n + pair.p], &w.v[row * n + pair.q]);
            }
        }
    }
    __syncthreads();
}

/* Rows of the matrix, by the adjoints. What was to become zero does. */
template <int T, class E> __device__ void rotate_rows(const bench<E> &w, int64_t round)
{
    const int64_t n = w.n, pairs = td_cuda_pairs(n);
    for (int64_t at = threadIdx.x; at < n * pairs; at += T) {
        const int64_t i = at / n, column = at - i * n;
        td_cuda_rotation<E> r = w.rotation[i];
        r.phase = conjugate(r.phase);
        td_cuda_pair pair;
        if (td_cuda_pair_of(n, round, i, &pair) && !r.none()) {
            E *const x = &w.a[pair.p * n + column], *const y = &w.a[pair.q * n + column];
            r.apply(x, y);
            *x = column == pair.q ? E(0) : column == pair.p ? E(real_part(*x)) : *x;
            *y = column == pair.p ? E(0) : column == pair.q ? E(real_part(*y)) : *y;
        }
    }
    __syncthreads();
}

template <int T, class E> __device__ void make_diagonal(const bench<E> &w)
{
    __shared__ double shared[T];
    __shared__ int any;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < w.n * w.n; i += T) {
        sum += power_of(w.a[i]);
    }
    const double least = 1e-17 * sqrt(td_cuda_block_sum<T>(sum, shared));
    bool more = true;
    for (int sweep = 0; sweep < MOST_SWEEPS && more; sweep++) {
        if (threadIdx.x == 0) {
            any = 0;
        }
        __syncthreads();
        for (int64_t round = 0; round < td_cuda_rounds(w.n); round++) {
            find_rotations<T>(w, round, least, &any);
            rotate_columns<T>(w, round);
            rotate_rows<T>(w, round);
        }
        more = any != 0;
        __syncthreads();
    }
}

/* values, and where each stands among them, from the least. */
template <int T, class E> __device__ void sort_values(const bench<E> &w, int unit)
{
    for (int64_t i = threadIdx.x; i < w.n; i += T) {
        w.values[i] = scalbn(real_part(w.a[i * w.n + i]), unit);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < w.n; i += T) {
        int64_t before = 0;
        for (int64_t j = 0; j < w.n; j++) {
            before += w.values[j] < w.values[i] || (w.values[j] == w.values[i] && j < i);
        }
        w.place[i] = before;
    }
    __syncthreads();
}

template <int T, class D> __global__ void eigen(td_cuda_eigen s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    const int64_t n = s.n;
    const bench<E> w = bench_in<E>(td_cuda_room_at(s.room, shared), n, s.vectors != nullptr);
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        int unit;
        if (!bring<T>(w, static_cast<const D *>(s.a) + b * n * n, &unit)) {
            td_cuda_refuse(s.fault);
            continue;
        }
        make_diagonal<T>(w);
        sort_values<T>(w, unit);
        for (int64_t i = threadIdx.x; i < n; i += T) {
            static_cast<D *>(s.values)[b * n + w.place[i]] = td_cuda_of_cell<D>(E(w.values[i]));
        }
        for (int64_t i = threadIdx.x; w.v != nullptr && i < n * n; i += T) {
            static_cast<D *>(s.vectors)[b * n * n + i / n * n + w.place[i % n]] = td_cuda_of_cell<D>(w.v[i]);
        }
        __syncthreads();
    }
}

template <int T> struct run_eigen {
    const td_cuda_eigen *s;
    td_cuda_stream *stream;
    template <class D> int operator()(D) const
    {
        return td_cuda_matrix_launch<T>(eigen<T, D>, s->room, stream, *s);
    }
};

} // namespace

int td_cuda_eigen_all(enum td_cuda_type type, const struct td_cuda_eigen *s, struct td_cuda_stream *stream)
{
    return s->n * s->n <= SMALL ? td_cuda_with_matrix(type, run_eigen<WARP>{s, stream})
                                : td_cuda_with_matrix(type, run_eigen<THREADS>{s, stream});
}
