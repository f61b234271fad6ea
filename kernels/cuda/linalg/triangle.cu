/* kernels/cuda/linalg/triangle.cu - triangular, banded and tridiagonal systems, and tridiagonal products.
 *
 *   triangles      a block has some columns of the right-hand side of a matrix; coefficients are read where
 *                  they are, each once
 *   tridiagonal    a warp has a matrix: one thread eliminates, then each has columns of its own
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/triangle.h"

#include "kernels/cuda/linalg/matrix.cuh"

namespace
{

/* ------------------------------------------------------------------ triangles */

/* Coefficients of a whole matrix, and of one that is kept as its bands. */
template <class D> struct dense {
    const D *a;
    int64_t n;
    __device__ D operator()(int64_t row, int64_t column) const { return a[row * n + column]; }
};
template <class D> struct banded {
    const D *a;
    int64_t n, bands;
    bool lower;
    __device__ D operator()(int64_t row, int64_t column) const
    {
        const int64_t band = lower ? row - column : bands - 1 - (column - row);
        return a[band * n + row];
    }
};

template <int T, class D, class A>
__device__ void solve_columns(const td_cuda_triangles &s, A a, typename td_cuda_cell<D>::type *x, int64_t m,
                              int64_t reach)
{
    const bool adjoint = s.adjoint;
    td_cuda_solve_triangle<T>(
        [a, adjoint](int64_t row, int64_t column) {
            const auto v = td_cuda_cell_of(adjoint ? a(column, row) : a(row, column));
            return adjoint ? conjugate(v) : v;
        },
        x, s.n, m, s.lower != s.adjoint, false, reach);
}

template <int T, class D> __device__ void look_at_diagonal(const td_cuda_triangles &s, const banded<D> &a)
{
    for (int64_t i = threadIdx.x; i < s.n; i += T) {
        if (td_cuda_cell_of(a(i, i)) == typename td_cuda_cell<D>::type(0)) {
            td_cuda_refuse(s.fault);
        }
    }
}

template <int T, class D> __global__ void triangles(td_cuda_triangles s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    E *const x = reinterpret_cast<E *>(td_cuda_room_at(s.room, shared));
    const int64_t tiles = (s.m + s.width - 1) / s.width, n = s.n;
    for (int64_t at = blockIdx.x; at < s.batch * tiles; at += gridDim.x) {
        const int64_t matrix = at / tiles, first = (at - matrix * tiles) * s.width;
        const int64_t m = s.m - first < s.width ? s.m - first : s.width;
        const td_cuda_place place = td_cuda_place_of(s.batches, matrix);
        const D *const b = static_cast<const D *>(s.b) + place.b * n * s.m + first;
        D *const y = static_cast<D *>(s.y) + matrix * n * s.m + first;
        for (int64_t i = threadIdx.x; i < n * m; i += T) {
            x[i] = td_cuda_cell_of(b[i / m * s.m + i % m]);
        }
        __syncthreads();
        if (s.bands > 0) {
            const banded<D> a = {static_cast<const D *>(s.a) + place.a * s.bands * n, n, s.bands, s.lower};
            look_at_diagonal<T>(s, a);
            solve_columns<T, D>(s, a, x, m, s.bands - 1);
        } else {
            solve_columns<T, D>(s, dense<D>{static_cast<const D *>(s.a) + place.a * n * n, n}, x, m, n);
        }
        for (int64_t i = threadIdx.x; i < n * m; i += T) {
            y[i / m * s.m + i % m] = td_cuda_of_cell<D>(x[i]);
        }
        __syncthreads();
    }
}

template <int T> struct run_triangles {
    const td_cuda_triangles *s;
    td_cuda_stream *stream;
    template <class D> int operator()(D) const
    {
        return td_cuda_matrix_launch<T>(triangles<T, D>, s->room, stream, *s);
    }
};

/* ------------------------------------------------------------------ three diagonals */

/* The matrix while it is eliminated: row i holds main[i] at column i, then up[i] and beyond[i]; what is
 * taken off row i + 1 is below[i + 1] times row i, after both have changed places where swapped[i]. */
template <class E> struct three {
    E *up, *main, *below, *beyond, *x;
    int32_t *swapped;
};

template <class E> __device__ three<E> three_in(char *room, int64_t n, int64_t m)
{
    E *const at = reinterpret_cast<E *>(room);
    return {at, at + n, at + 2 * n, at + 3 * n, at + 4 * n, reinterpret_cast<int32_t *>(at + 4 * n + n * m)};
}

template <class E> __device__ void exchange(E *a, E *b)
{
    const E t = *a;
    *a = *b;
    *b = t;
}

/* By one thread; false when a pivot is zero. */
template <class E> __device__ bool eliminate(const three<E> &t, int64_t n, bool pivots)
{
    for (int64_t i = 0; i < n; i++) {
        const bool last = i + 1 == n,
                   change = pivots && !last && size_of(t.below[i + 1]) > size_of(t.main[i]);
        t.beyond[i] = E(0);
        t.swapped[i] = change;
        if (change) {
            exchange(&t.main[i], &t.below[i + 1]);
            exchange(&t.up[i], &t.main[i + 1]);
            t.beyond[i] = i + 2 < n ? t.up[i + 1] : E(0);
            t.up[i + 1] = i + 2 < n ? E(0) : t.up[i + 1];
        }
        if (t.main[i] == E(0)) {
            return false;
        }
        if (!last) {
            const E f = over(t.below[i + 1], t.main[i]);
            t.below[i + 1] = f;
            t.main[i + 1] = t.main[i + 1] - times(f, t.up[i]);
            t.up[i + 1] = t.up[i + 1] - times(f, t.beyond[i]);
        }
    }
    return true;
}

/* Column x of the right-hand sides, elements `apart`, becomes that of the solution. */
template <class E> __device__ void substitute(const three<E> &t, E *x, int64_t n, int64_t apart)
{
    for (int64_t i = 0; i + 1 < n; i++) {
        if (t.swapped[i]) {
            exchange(&x[i * apart], &x[(i + 1) * apart]);
        }
        x[(i + 1) * apart] = x[(i + 1) * apart] - times(t.below[i + 1], x[i * apart]);
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        E v = x[i * apart];
        v = i + 1 < n ? v - times(t.up[i], x[(i + 1) * apart]) : v;
        v = i + 2 < n ? v - times(t.beyond[i], x[(i + 2) * apart]) : v;
        x[i * apart] = over(v, t.main[i]);
    }
}

template <class D> __global__ void tridiagonal_solve(td_cuda_tridiagonal s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    __shared__ bool regular;
    const int64_t n = s.n, m = s.m;
    const three<E> t = three_in<E>(td_cuda_room_at(s.room, shared), n, m);
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        const D *const diagonals = static_cast<const D *>(s.main) + b * 3 * n;
        for (int64_t i = threadIdx.x; i < 3 * n; i += WARP) { /* up, main and below lie like that, too */
            t.up[i] = i == n - 1 ? E(0) : td_cuda_cell_of(diagonals[i]);
        }
        for (int64_t i = threadIdx.x; i < n * m; i += WARP) {
            t.x[i] = td_cuda_cell_of(static_cast<const D *>(s.b)[b * n * m + i]);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            regular = eliminate(t, n, s.pivots);
        }
        __syncthreads();
        if (!regular) {
            td_cuda_refuse(s.fault);
        }
        for (int64_t k = threadIdx.x; regular && k < m; k += WARP) {
            substitute(t, t.x + k, n, m);
        }
        __syncthreads();
        for (int64_t i = threadIdx.x; regular && i < n * m; i += WARP) {
            static_cast<D *>(s.y)[b * n * m + i] = td_cuda_of_cell<D>(t.x[i]);
        }
        __syncthreads();
    }
}

template <class D> __global__ void tridiagonal_times(td_cuda_tridiagonal s)
{
    using E = typename td_cuda_cell<D>::type;
    for (int64_t at = td_cuda_first(); at < s.batch * s.n * s.m; at += td_cuda_stride()) {
        const int64_t row = at / s.m, i = row % s.n;
        const D *const x = static_cast<const D *>(s.b) + at;
        const auto term = [row, x](const void *diagonal, int64_t apart) {
            return times(td_cuda_cell_of(static_cast<const D *>(diagonal)[row]), td_cuda_cell_of(x[apart]));
        };
        E v = term(s.main, 0);
        v = i > 0 ? v + term(s.below, -s.m) : v;
        v = i + 1 < s.n ? v + term(s.above, s.m) : v;
        static_cast<D *>(s.y)[at] = td_cuda_of_cell<D>(v);
    }
}

struct run_tridiagonal {
    const td_cuda_tridiagonal *s;
    td_cuda_stream *stream;
    bool solves;
    template <class D> int operator()(D) const
    {
        return solves ? td_cuda_matrix_launch<WARP>(tridiagonal_solve<D>, s->room, stream, *s)
                      : td_cuda_over(tridiagonal_times<D>, s->batch * s->n * s->m, stream, *s);
    }
};

} // namespace

int td_cuda_triangle_solve(enum td_cuda_type type, const struct td_cuda_triangles *s,
                           struct td_cuda_stream *stream)
{
    return s->n * (s->m < s->width ? s->m : s->width) <= SMALL
               ? td_cuda_with_matrix(type, run_triangles<WARP>{s, stream})
               : td_cuda_with_matrix(type, run_triangles<THREADS>{s, stream});
}

int td_cuda_tridiagonal_solve(enum td_cuda_type type, const struct td_cuda_tridiagonal *s,
                              struct td_cuda_stream *stream)
{
    return td_cuda_with_matrix(type, run_tridiagonal{s, stream, true});
}

int td_cuda_tridiagonal_times(enum td_cuda_type type, const struct td_cuda_tridiagonal *s,
                              struct td_cuda_stream *stream)
{
    return td_cuda_with_matrix(type, run_tridiagonal{s, stream, false});
}
