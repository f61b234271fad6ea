/* kernels/cuda/sparse/cut.cu - the part of a sparse tensor within a box, and where the part's entries were: a
 * thread an entry.
 *
 * Entries of the part are looked for by halves, which is right where the tensor's are sorted, none twice,
 * as they are meant to be. Where they are not, which is seen on the way, one thread goes through both in
 * order, as the host does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/cut.h"

#include "kernels/cuda/base/bytes.cuh"
#include "kernels/cuda/base/lines.cuh"

namespace
{

/* ------------------------------------------------------------------ the part */

__global__ void mark(td_cuda_cut s)
{
    const int depth = s.size.depth;
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        bool inside = true;
        for (int d = 0; d < depth; d++) {
            const int64_t v = s.indices[i * depth + d];
            inside = inside && v >= s.start[d] && v - s.start[d] < s.size.dim[d];
        }
        s.ranks.at[i] = inside ? 1 : 0;
    }
}

__global__ void tell(td_cuda_cut s, int32_t *from, int64_t *to, int64_t *shape)
{
    const int depth = s.size.depth;
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int64_t row = s.ranks.at[i];
        for (int d = 0; s.ranks.at[i + 1] != row && d < depth; d++) {
            from[row] = static_cast<int32_t>(i);
            to[row * depth + d] = s.indices[i * depth + d] - s.start[d];
        }
    }
    for (int d = 0; td_cuda_first() == 0 && d < depth; d++) {
        shape[d] = s.size.dim[d];
    }
}

/* ------------------------------------------------------------------ all parts */

__global__ void part_keys(td_cuda_parts s, int32_t *keys, int32_t *fault)
{
    const int depth = s.size.depth;
    const int64_t across = s.longer * (s.each + 1);
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        bool inside = true;
        for (int d = 0; d < depth; d++) {
            const int64_t v = s.indices[i * depth + d];
            inside = inside && v >= 0 && v < s.size.dim[d];
        }
        const int64_t v = inside ? s.indices[i * depth + s.axis] : 0;
        keys[i] = static_cast<int32_t>(v < across ? v / (s.each + 1) : s.longer + (v - across) / s.each);
        if (!inside) {
            td_cuda_refuse(fault);
        }
    }
}

__global__ void tell_part(td_cuda_parts s, const int32_t *from, int64_t n, int64_t first, int64_t length,
                          int64_t *to, int64_t *shape)
{
    const int depth = s.size.depth;
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        for (int d = 0; d < depth; d++) {
            to[i * depth + d] = s.indices[from[i] * depth + d] - (d == s.axis ? first : 0);
        }
    }
    for (int d = 0; td_cuda_first() == 0 && d < depth; d++) {
        shape[d] = d == s.axis ? length : s.size.dim[d];
    }
}

/* ------------------------------------------------------------------ where it was */

/* Coordinate d of what entry k of the part was. */
__device__ int64_t wanted(const td_cuda_cut_grad &s, int64_t k, int d)
{
    return static_cast<int64_t>(static_cast<uint64_t>(s.out[k * s.depth + d]) +
                                static_cast<uint64_t>(s.start[d]));
}

/* -1, 0, 1: entry i is before entry k of the part, the same, behind it. */
__device__ int order(const td_cuda_cut_grad &s, int64_t i, int64_t k)
{
    int is = 0;
    for (int d = 0; is == 0 && d < s.depth; d++) {
        const int64_t a = s.in[i * s.depth + d], b = wanted(s, k, d);
        is = a < b ? -1 : a > b ? 1 : 0;
    }
    return is;
}

/* Whether entry i is behind the one before it. */
__device__ bool ascends(const td_cuda_cut_grad &s, int64_t i)
{
    int is = 0;
    for (int d = 0; is == 0 && d < s.depth; d++) {
        const int64_t a = s.in[(i - 1) * s.depth + d], b = s.in[i * s.depth + d];
        is = a < b ? -1 : a > b ? 1 : 0;
    }
    return is < 0;
}

__global__ void begin(int32_t *plain)
{
    if (threadIdx.x == 0) {
        *plain = 1;
    }
}

__global__ void look(td_cuda_cut_grad s)
{
    bool plain = true;
    for (int64_t i = td_cuda_first() + 1; i < s.n; i += td_cuda_stride()) {
        plain = plain && ascends(s, i);
    }
    for (int64_t k = td_cuda_first(); k < s.m; k += td_cuda_stride()) {
        int64_t from = 0, to = s.n;
        while (from < to) {
            const int64_t mid = from + (to - from) / 2;
            if (order(s, mid, k) < 0) {
                from = mid + 1;
            } else {
                to = mid;
            }
        }
        plain = plain && from < s.n && order(s, from, k) == 0;
        s.found[k] = static_cast<int32_t>(from);
    }
    if (!plain) {
        (void)atomicExch(s.plain, 0);
    }
}

__global__ void look_at_order(td_cuda_cut_grad s)
{
    bool plain = true;
    for (int64_t k = td_cuda_first() + 1; k < s.m; k += td_cuda_stride()) {
        plain = plain && s.found[k] > s.found[k - 1];
    }
    if (!plain) {
        (void)atomicExch(s.plain, 0);
    }
}

/* By one thread. */
template <class T> __device__ void put_in_order(const td_cuda_cut_grad &s)
{
    int64_t k = 0;
    for (int64_t i = 0; i < s.n && k < s.m; i++) {
        if (order(s, i, k) == 0) {
            static_cast<T *>(s.y)[i] = static_cast<const T *>(s.values)[k];
            k++;
        }
    }
    if (k < s.m) {
        td_cuda_refuse(s.fault);
    }
}

template <class T> __global__ void put(td_cuda_cut_grad s)
{
    const bool plain = *s.plain != 0;
    for (int64_t k = td_cuda_first(); plain && k < s.m; k += td_cuda_stride()) {
        static_cast<T *>(s.y)[s.found[k]] = static_cast<const T *>(s.values)[k];
    }
    if (!plain && td_cuda_first() == 0) {
        put_in_order<T>(s);
    }
}

struct run_put {
    const td_cuda_cut_grad *s;
    td_cuda_stream *stream;
    template <class T> int with() const { return td_cuda_over(put<T>, s->m, stream, *s); }
};

} // namespace

int td_cuda_cut_mark(const struct td_cuda_cut *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(mark, s->n, stream, *s);
}

int td_cuda_cut_tell(const struct td_cuda_cut *s, int32_t *from, int64_t *to, int64_t *shape,
                     struct td_cuda_stream *stream)
{
    return td_cuda_over(tell, s->n, stream, *s, from, to, shape);
}

int td_cuda_parts_keys(const struct td_cuda_parts *s, int32_t *keys, int32_t *fault,
                       struct td_cuda_stream *stream)
{
    return td_cuda_over(part_keys, s->n, stream, *s, keys, fault);
}

int td_cuda_parts_tell(const struct td_cuda_parts *s, const int32_t *from, int64_t n, int64_t first,
                       int64_t length, int64_t *to, int64_t *shape, struct td_cuda_stream *stream)
{
    return td_cuda_over(tell_part, n > 0 ? n : 1, stream, *s, from, n, first, length, to, shape);
}

int td_cuda_cut_grad_put(const struct td_cuda_cut_grad *s, size_t bytes, struct td_cuda_stream *stream)
{
    int error = td_cuda_blocks(begin, 1, stream, s->plain);
    error = error != 0 ? error : td_cuda_over(look, s->n > s->m ? s->n : s->m, stream, *s);
    error = error != 0 ? error : td_cuda_over(look_at_order, s->m, stream, *s);
    return error != 0 ? error : td_cuda_with_bytes(bytes, run_put{s, stream});
}
