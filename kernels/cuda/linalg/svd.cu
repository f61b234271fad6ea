/* kernels/cuda/linalg/svd.cu - singular values and vectors (svd.cuh), a block a matrix. Vectors are unique up
 * to a factor of size 1, which is another than LAPACK's. A matrix with what is not finite has values and
 * vectors of NaN, as on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/svd.h"

#include "kernels/cuda/linalg/svd.cuh"

namespace
{

template <int T, class D> __device__ void fill(D *to, int64_t n)
{
    using E = typename td_cuda_cell<D>::type;
    for (int64_t i = threadIdx.x; i < n; i += T) {
        to[i] = td_cuda_of_cell<D>(E(NAN));
    }
}

/* Columns of `rows` elements to y [rows,width], each where it belongs. */
template <int T, class D, class E>
__device__ void put(const E *columns, const int64_t *place, D *y, int64_t rows, int64_t width)
{
    for (int64_t i = threadIdx.x; i < rows * width; i += T) {
        const int64_t column = i / rows, row = i - column * rows;
        y[row * width + place[column]] = td_cuda_of_cell<D>(columns[i]);
    }
}

template <int T, class D> __global__ void svd(td_cuda_svd s)
{
    using E = typename td_cuda_cell<D>::type;
    TD_DYNAMIC_SHARED(unsigned char, shared);
    const int64_t p = s.m < s.n ? s.m : s.n;
    const td_cuda_svd_bench<E> w =
        td_cuda_svd_bench_in<E>(td_cuda_room_at(s.room, shared), s.m, s.n, s.m < s.n ? s.v_width : s.u_width);
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        D *const values = static_cast<D *>(s.values) + b * p;
        D *const u = static_cast<D *>(s.u) + b * s.m * s.u_width;
        D *const v = static_cast<D *>(s.v) + b * s.n * s.v_width;
        int unit;
        if (!td_cuda_svd_bring<T>(w, static_cast<const D *>(s.a) + b * s.m * s.n, &unit)) {
            fill<T>(values, p);
            fill<T>(u, s.m * s.u_width);
            fill<T>(v, s.n * s.v_width);
            continue;
        }
        td_cuda_svd_rotate<T>(w);
        td_cuda_svd_norms<T>(w);
        for (int64_t i = threadIdx.x; i < p; i += T) {
            values[w.place[i]] = td_cuda_of_cell<D>(E(scalbn(w.norm[i], unit)));
        }
        if (s.u_width > 0) {
            td_cuda_svd_complete<T>(w);
            put<T>(w.g, w.place, w.adjoint ? v : u, w.tall, w.width);
            put<T>(w.v, w.place, w.adjoint ? u : v, w.wide, w.wide);
        }
        __syncthreads();
    }
}

template <int T> struct run_svd {
    const td_cuda_svd *s;
    td_cuda_stream *stream;
    template <class D> int operator()(D) const
    {
        return td_cuda_matrix_launch<T>(svd<T, D>, s->room, stream, *s);
    }
};

} // namespace

int64_t td_cuda_svd_bytes(const struct td_cuda_svd *s, int64_t cell)
{
    const int64_t tall = s->m < s->n ? s->n : s->m, wide = s->m < s->n ? s->m : s->n;
    const int64_t wanted = s->m < s->n ? s->v_width : s->u_width, width = wanted < wide ? wide : wanted;
    return td_cuda_svd_cells(tall, wide, width) * cell + 3 * width * static_cast<int64_t>(sizeof(double));
}

int td_cuda_svd_all(enum td_cuda_type type, const struct td_cuda_svd *s, struct td_cuda_stream *stream)
{
    return s->m * s->n <= SMALL ? td_cuda_with_matrix(type, run_svd<WARP>{s, stream})
                                : td_cuda_with_matrix(type, run_svd<THREADS>{s, stream});
}
