/* kernels/cuda/math/top.cu - the greatest elements of rows.
 *
 * Elements become unsigned keys of the same order. A block has a row:
 *
 *   select    the k-th greatest key is found from its highest eight bits on, by counting; what is above it,
 *             and the first of its equals, are gathered in the row's order and sorted in shared memory
 *   sort      of a k that is no small one, the whole row is sorted by a bitonic network in global memory,
 *             whose steps within TILE entries are made in shared memory
 *
 * Entries of equal keys are told apart by their index, so there is one answer whatever the number of threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/top.h"

#include <type_traits>

#include "kernels/cuda/base/fold.cuh"

namespace
{

constexpr int BINS = 256, WARP = 32, WARPS = THREADS / WARP, SMALL = TD_CUDA_TOP_SMALL, TILE = 1024;

int64_t power_of_two(int64_t n)
{
    int64_t m = 1;
    while (m < n) {
        m *= 2;
    }
    return m;
}

/* ------------------------------------------------------------------ keys */

template <class T> using key_of_type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

__device__ uint32_t key_of(float v)
{
    uint32_t u = v != v ? 0x7fffffffu : 0;
    if (v == v && v != 0) {
        memcpy(&u, &v, sizeof u);
    }
    return u >> 31 ? ~u : u | 0x80000000u;
}
__device__ uint64_t key_of(double v)
{
    uint64_t u = v != v ? 0x7fffffffffffffffu : 0;
    if (v == v && v != 0) {
        memcpy(&u, &v, sizeof u);
    }
    return u >> 63 ? ~u : u | 0x8000000000000000u;
}
template <class T> __device__ key_of_type<T> key_at(const T *x, int64_t i)
{
    using K = key_of_type<T>;
    if constexpr (std::is_integral_v<T>) {
        constexpr K top = std::is_signed_v<T> ? K(1) << (8 * sizeof(K) - 1) : K(0);
        return static_cast<K>(x[i]) ^ top;
    } else {
        return key_of(td_cuda_load(x[i]));
    }
}

/* ------------------------------------------------------------------ the k-th greatest key */

/* *left: how many of its equals belong to the k greatest. All threads of the block are there. */
template <class T>
__device__ key_of_type<T> nth_key(const T *x, int64_t n, int64_t k, key_of_type<T> flip, int64_t *left)
{
    using K = key_of_type<T>;
    __shared__ int bins[BINS], chosen, rest;
    K found = 0, decided = 0; /* bits: the key's, and which of them are known */
    for (int shift = 8 * (sizeof(K) - 1); shift >= 0; shift -= 8) {
        bins[threadIdx.x] = 0;
        __syncthreads();
        for (int64_t i = threadIdx.x; i < n; i += THREADS) {
            const K key = key_at(x, i) ^ flip;
            if ((key & decided) == found) {
                atomicAdd(&bins[key >> shift & (BINS - 1)], 1);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int bin = BINS - 1, want = static_cast<int>(k);
            for (; bins[bin] < want; bin--) {
                want -= bins[bin];
            }
            chosen = bin;
            rest = want;
        }
        __syncthreads();
        found |= static_cast<K>(chosen) << shift;
        decided |= static_cast<K>(BINS - 1) << shift;
        k = rest;
        __syncthreads();
    }
    *left = k;
    return found;
}

/* How many threads before this one say yes, and in all of the block: *all. */
__device__ int count_before(bool yes, int *shared, int *all)
{
    const int mine = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const unsigned votes = __ballot_sync(0xffffffffu, yes);
    if (mine == 0) {
        shared[warp] = __popc(votes);
    }
    __syncthreads();
    int before = __popc(votes & ((1u << mine) - 1));
    *all = 0;
    for (int w = 0; w < WARPS; w++) {
        before += w < warp ? shared[w] : 0;
        *all += shared[w];
    }
    __syncthreads();
    return before;
}

/* ------------------------------------------------------------------ sorting in shared memory */

template <class K> struct entry {
    K key;
    uint32_t index;
};

template <class K> __device__ bool is_after(const entry<K> &a, const entry<K> &b)
{
    return a.key < b.key || (a.key == b.key && a.index > b.index);
}

template <class K> __device__ void order(entry<K> *a, entry<K> *b, bool forth)
{
    if (is_after(*a, *b) == forth) {
        const entry<K> t = *a;
        *a = *b;
        *b = t;
    }
}

/* Pair p of those `apart`. */
__device__ int64_t first_of_pair(int64_t p, int64_t apart)
{
    return p / apart * apart * 2 + p % apart;
}

/* One merge of runs of `size`, from pairs `apart` on, of n entries that begin at `from` of what is sorted. */
template <class K>
__device__ void merge(entry<K> *e, int n, int64_t from, int64_t mask, int64_t size, int apart)
{
    for (; apart > 0; apart /= 2) {
        for (int p = threadIdx.x; p < n / 2; p += THREADS) {
            const int64_t i = first_of_pair(p, apart);
            order(&e[i], &e[i + apart], ((from + i) & mask & size) == 0);
        }
        __syncthreads();
    }
}

/* ------------------------------------------------------------------ select */

__device__ void store_index(void *indices, int bytes, int64_t i, uint32_t v)
{
    if (bytes == 8) {
        static_cast<int64_t *>(indices)[i] = v;
    } else if (bytes == 4) {
        static_cast<int32_t *>(indices)[i] = static_cast<int32_t>(v);
    } else {
        static_cast<int16_t *>(indices)[i] = static_cast<int16_t>(v);
    }
}

/* best[0, k) = the k best of the row, the equals of the worst behind the others. */
template <class T> __device__ void gather_best(const T *x, int64_t n, int64_t k, entry<key_of_type<T>> *best)
{
    using K = key_of_type<T>;
    __shared__ int shared[WARPS];
    int64_t left;
    const K worst = nth_key(x, n, k, K(0), &left);
    int64_t above = 0, equal = k - left;
    for (int64_t from = 0; from < n; from += THREADS) {
        const int64_t i = from + threadIdx.x;
        const K key = i < n ? key_at(x, i) : K(0);
        int all_above, all_equal;
        const bool is_above = i < n && key > worst, is_equal = i < n && key == worst;
        const int64_t at = above + count_before(is_above, shared, &all_above);
        const int64_t of_equals = equal + count_before(is_equal, shared, &all_equal);
        if (is_above || (is_equal && of_equals < k)) {
            best[is_above ? at : of_equals] = {key, static_cast<uint32_t>(i)};
        }
        above += all_above;
        equal += all_equal;
    }
    __syncthreads();
}

/* m: the power of two that k has to fit in. */
template <class T> __global__ void select(td_cuda_top s, int m)
{
    using K = key_of_type<T>;
    TD_DYNAMIC_SHARED(entry<K>, best); /* m of them */
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        const T *const x = static_cast<const T *>(s.x) + row * s.n;
        for (int i = threadIdx.x; i < m; i += THREADS) {
            best[i] = {K(0), UINT32_MAX};
        }
        __syncthreads();
        gather_best(x, s.n, s.k, best);
        for (int size = 2; size <= m; size *= 2) {
            merge(best, m, 0, m - 1, size, size / 2);
        }
        for (int64_t i = threadIdx.x; i < s.k; i += THREADS) {
            static_cast<T *>(s.values)[row * s.k + i] = x[best[i].index];
            store_index(s.indices, s.index_bytes, row * s.k + i, best[i].index);
        }
        __syncthreads();
    }
}

/* The first of its equals that makes k is the one that counts: -0 and 0 are equals. */
template <class T> __global__ void nth(td_cuda_top s, bool least)
{
    using K = key_of_type<T>;
    __shared__ int shared[WARPS];
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        const T *const x = static_cast<const T *>(s.x) + row * s.n;
        const K flip = least ? static_cast<K>(~K(0)) : K(0);
        int64_t left, seen = 0;
        const K key = nth_key(x, s.n, s.k, flip, &left);
        for (int64_t from = 0; from < s.n; from += THREADS) {
            const int64_t i = from + threadIdx.x;
            const bool is_it = i < s.n && (key_at(x, i) ^ flip) == key;
            int all;
            if (seen + count_before(is_it, shared, &all) == left - 1 && is_it) {
                static_cast<T *>(s.values)[row] = x[i];
            }
            seen += all;
        }
    }
}

/* ------------------------------------------------------------------ sort */

using wide_entry = entry<uint64_t>;

template <class T> __global__ void make_entries(td_cuda_top s, int64_t m)
{
    wide_entry *const e = static_cast<wide_entry *>(s.workspace);
    for (int64_t i = td_cuda_first(); i < s.rows * m; i += td_cuda_stride()) {
        const int64_t row = i / m, at = i % m;
        e[i] = {at < s.n ? key_at(static_cast<const T *>(s.x) + row * s.n, at) : 0,
                at < s.n ? static_cast<uint32_t>(at) : UINT32_MAX};
    }
}

__global__ void sort_apart(wide_entry *e, int64_t pairs, int64_t mask, int64_t size, int64_t apart)
{
    for (int64_t p = td_cuda_first(); p < pairs; p += td_cuda_stride()) {
        const int64_t i = first_of_pair(p, apart);
        order(&e[i], &e[i + apart], (i & mask & size) == 0);
    }
}

/* size 0: all merges within the tile; else the last steps of that one. */
__global__ void sort_tiles(wide_entry *e, int64_t tiles, int64_t mask, int64_t size)
{
    __shared__ wide_entry tile[TILE];
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        for (int i = threadIdx.x; i < TILE; i += THREADS) {
            tile[i] = e[t * TILE + i];
        }
        __syncthreads();
        for (int64_t of = size == 0 ? 2 : size; of <= (size == 0 ? TILE : size); of *= 2) {
            merge(tile, TILE, t * TILE, mask, of, static_cast<int>(of < TILE ? of / 2 : TILE / 2));
        }
        for (int i = threadIdx.x; i < TILE; i += THREADS) {
            e[t * TILE + i] = tile[i];
        }
        __syncthreads();
    }
}

template <class T> __global__ void take_entries(td_cuda_top s, int64_t m)
{
    const wide_entry *const e = static_cast<const wide_entry *>(s.workspace);
    for (int64_t i = td_cuda_first(); i < s.rows * s.k; i += td_cuda_stride()) {
        const int64_t row = i / s.k;
        const uint32_t at = e[row * m + i % s.k].index;
        static_cast<T *>(s.values)[i] = static_cast<const T *>(s.x)[row * s.n + at];
        store_index(s.indices, s.index_bytes, i, at);
    }
}

int sort_entries(const td_cuda_top &s, int64_t m, td_cuda_stream *stream)
{
    wide_entry *const e = static_cast<wide_entry *>(s.workspace);
    const int64_t n = s.rows * m, mask = m - 1;
    int error = td_cuda_blocks(sort_tiles, n / TILE, stream, e, n / TILE, mask, 0);
    for (int64_t size = 2 * TILE; error == 0 && size <= m; size *= 2) {
        for (int64_t apart = size / 2; error == 0 && apart >= TILE; apart /= 2) {
            error = td_cuda_over(sort_apart, n / 2, stream, e, n / 2, mask, size, apart);
        }
        error = error != 0 ? error : td_cuda_blocks(sort_tiles, n / TILE, stream, e, n / TILE, mask, size);
    }
    return error;
}

struct run_top {
    const td_cuda_top *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        if (s->k <= SMALL) {
            const int m = static_cast<int>(power_of_two(s->k));
            return td_cuda_blocks_of<THREADS>(select<T>, s->rows, m * sizeof(entry<key_of_type<T>>), stream,
                                              *s, m);
        }
        const int64_t m = power_of_two(s->n);
        int error = td_cuda_over(make_entries<T>, s->rows * m, stream, *s, m);
        error = error != 0 ? error : sort_entries(*s, m, stream);
        return error != 0 ? error : td_cuda_over(take_entries<T>, s->rows * s->k, stream, *s, m);
    }
};

struct run_nth {
    const td_cuda_top *s;
    bool least;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const { return td_cuda_blocks(nth<T>, s->rows, stream, *s, least); }
};

/* ------------------------------------------------------------------ a class among the first */

template <class I> __global__ void in_top(td_cuda_in_top s)
{
    __shared__ int64_t shared[THREADS];
    const int64_t k = s.k_at != nullptr ? static_cast<int64_t>(*static_cast<const I *>(s.k_at)) : s.k;
    const int mine = threadIdx.x % WARP;
    for (int64_t from = static_cast<int64_t>(blockIdx.x) * WARPS; from < s.rows;
         from += static_cast<int64_t>(gridDim.x) * WARPS) {
        const int64_t row = from + threadIdx.x / WARP;
        const int64_t target = row < s.rows ? static_cast<const I *>(s.targets)[row] : -1;
        const bool there = target >= 0 && target < s.n;
        const float *const x = s.x + row * s.n;
        int64_t better = 0;
        for (int64_t i = mine; there && i < s.n; i += WARP) {
            /* one that is no number outweighs all */
            better += x[i] - x[i] != 0 ? s.n + 1 : x[i] > x[target] ? 1 : 0;
        }
        better = td_cuda_fold<WARP>(better, shared, [](int64_t a, int64_t b) { return a + b; });
        if (row < s.rows && mine == 0) {
            s.y[row] = there && better <= s.n && better < k;
        }
    }
}

} // namespace

bool td_cuda_top_workspace(int64_t rows, int64_t n, int64_t k, size_t *bytes)
{
    *bytes = 0;
    if (k <= SMALL) {
        return true;
    }
    const int64_t m = power_of_two(n);
    *bytes = static_cast<size_t>(rows) * static_cast<size_t>(m) * sizeof(wide_entry);
    return rows <= INT64_MAX / static_cast<int64_t>(sizeof(wide_entry)) / m;
}

int td_cuda_top_of(enum td_cuda_type type, const struct td_cuda_top *s, struct td_cuda_stream *stream)
{
    return td_cuda_with_real(type, run_top{s, stream});
}

int td_cuda_nth(enum td_cuda_type type, const struct td_cuda_top *s, bool least,
                struct td_cuda_stream *stream)
{
    return td_cuda_with_real(type, run_nth{s, least, stream});
}

int td_cuda_in_top_of(const struct td_cuda_in_top *s, struct td_cuda_stream *stream)
{
    const int64_t blocks = (s->rows + WARPS - 1) / WARPS;
    return s->wide ? td_cuda_blocks(in_top<int64_t>, blocks, stream, *s)
                   : td_cuda_blocks(in_top<int32_t>, blocks, stream, *s);
}
