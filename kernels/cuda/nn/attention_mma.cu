/* kernels/cuda/nn/attention_mma.cu - attention by Tensor cores (kernels/cuda/base/mma.cuh): half, bfloat16,
 * and floats whose factors are rounded to TF32.
 *
 *   a block   64 queries of one batch entry, 16 a warp, WIDE columns of the result; it goes over the keys:
 *               KEYS keys and their values come to shared memory
 *               scores = query key^T, their stages       in registers, where the products leave them
 *               exponentials                             a row is in four threads of its warp
 *               result += exponentials value             rounded to the type: products' left side
 *   in the end the result is divided by the sums
 *
 * The queries pass through the same memory first, and stay in registers. What is beyond depth, width, or the
 * last key is zero there. Rows of shared memory are 16 bytes longer than they need be: so those that a warp
 * reads at once lie in different banks.
 *
 * Each row keeps its largest score so far, as in attention.cu; a thread sums the exponentials of its own
 * columns, and the four sums of a row meet in the end. Scores are floats throughout: of half and bfloat16,
 * the nodes that this stands for would have rounded them between one and the next.
 *
 * A score beyond the last key is -inf, and what a stage has for it is not looked at: it is read where the
 * last one's is. A row without a sum, all of it -inf, is NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/attention_mma.h"

#include <cmath>

#include "kernels/cuda/base/mma.cuh"
#include "kernels/cuda/nn/attention.cuh"

namespace
{

constexpr int WARP = 32, WARPS = 4, EACH = WARPS * WARP, ROWS = 16, QUERIES = WARPS * ROWS;
constexpr unsigned ALL = 0xffffffff;

/* Words of a row of N numbers in shared memory. */
template <class T, int N> constexpr int row_words = N / td_mma_per_word<T> + 4;

template <class T> struct lines {
    const T *at;
    int64_t row, column; /* steps */
    int64_t rows, columns;
};

/* Numbers left .. of a line, as many as 16 bytes hold. */
template <class T>
__device__ inline uint4 fetch_words(const lines<T> &from, int64_t row, int64_t left, bool whole)
{
    constexpr int SOME = 16 / sizeof(T);
    const T *const at = from.at + row * from.row + left * from.column;
    union {
        uint4 words;
        T part[SOME];
    } found;
    if (whole && left + SOME <= from.columns) {
        return *reinterpret_cast<const uint4 *>(at);
    }
    found.words = make_uint4(0, 0, 0, 0);
    TD_UNROLL
    for (int i = 0; i < SOME; i++) {
        if (left + i < from.columns) {
            found.part[i] = at[i * from.column];
        }
    }
    return found.words;
}

__device__ inline uint4 as_tf32(uint4 x)
{
    return make_uint4(td_mma_tf32(__uint_as_float(x.x)), td_mma_tf32(__uint_as_float(x.y)),
                      td_mma_tf32(__uint_as_float(x.z)), td_mma_tf32(__uint_as_float(x.w)));
}

/* Lines first .. first + HIGH - 1, and of each the numbers left .. left + WIDE - 1; 0 where there are none.
 * */
template <int HIGH, int WIDE, class T>
__device__ void fetch(const lines<T> &from, int64_t first, int64_t left, uint32_t *to)
{
    constexpr int SOME = 16 / sizeof(T), ACROSS = WIDE / SOME;
    const bool whole = from.column == 1 && from.row % SOME == 0 && left % SOME == 0 &&
                       reinterpret_cast<uintptr_t>(from.at) % 16 == 0;
    TD_UNROLL
    for (int e = threadIdx.x; e < HIGH * ACROSS; e += EACH) {
        const int row = e / ACROSS, at = e % ACROSS;
        uint4 words = make_uint4(0, 0, 0, 0);
        if (first + row < from.rows) {
            words = fetch_words(from, first + row, left + at * SOME, whole);
        }
        if constexpr (std::is_same_v<T, float>) {
            words = as_tf32(words);
        }
        *reinterpret_cast<uint4 *>(to + row * row_words<T, WIDE> + at * 4) = words;
    }
}

/* Element `part` of an accumulator: row part / 2, column 2 place + part % 2. */
struct spot {
    int64_t query[2], key; /* of this thread's two rows, and its first column of the first accumulator */
};

/* The stages before or after the softmax, of a thread's scores. */
template <class T, int N>
__device__ void all_stages(const td_cuda_attention &a, const td_cuda_attention_bases &b, bool after,
                           const spot &at, float (&x)[N][4])
{
    for (int i = 0; i < a.n_stages; i++) {
        const td_cuda_attention_stage &g = a.stage[i];
        if (g.after != after) {
            continue;
        }
        const bool chooses = g.kind >= TD_CUDA_ATTENTION_KEEP, adds = g.kind <= TD_CUDA_ATTENTION_SUB;
        TD_UNROLL
        for (int e = 0; e < 4 * N; e++) {
            const int j = e / 4, part = e % 4;
            const int64_t key = at.key + 8 * j + part % 2, s = key < a.dim[0] ? key : a.dim[0] - 1;
            const int64_t from = b.stage[i] + at.query[part / 2] * g.step.at[1] + s * g.step.at[0];
            if (chooses) {
                x[j][part] = td_cuda_attention_chosen(g, from) ? x[j][part] : g.number;
            } else {
                float by = td_cuda_attention_operand<T>(g, from);
                by = g.kind == TD_CUDA_ATTENTION_SUB ? -by : g.kind == TD_CUDA_ATTENTION_DIV ? 1.0f / by : by;
                x[j][part] = adds ? x[j][part] + by : x[j][part] * by;
            }
        }
    }
}

/* Those behind the last key become `with`. */
template <int N> __device__ void cut(const td_cuda_attention &a, const spot &at, float with, float (&x)[N][4])
{
    if (at.key - 2 * td_mma_place() + 8 * N <= a.dim[0]) {
        return;
    }
    TD_UNROLL
    for (int e = 0; e < 4 * N; e++) {
        x[e / 4][e % 4] = at.key + e / 4 * 8 + e % 2 < a.dim[0] ? x[e / 4][e % 4] : with;
    }
}

/* What a thread's two rows have come to: the largest score, and the sum of this thread's exponentials. */
struct running {
    float most[2], sum[2];
};

/* Scores to exponentials; shrink: what was added up is to be scaled by this. */
template <int N> __device__ void soften(running *r, float (&x)[N][4], float (&shrink)[2])
{
    TD_UNROLL
    for (int row = 0; row < 2; row++) {
        float most = r->most[row], sum = 0;
        TD_UNROLL
        for (int j = 0; j < N; j++) {
            most = fmaxf(most, fmaxf(x[j][2 * row], x[j][2 * row + 1]));
        }
        most = fmaxf(most, __shfl_xor_sync(ALL, most, 1));
        most = fmaxf(most, __shfl_xor_sync(ALL, most, 2));
        const float shift = most == -INFINITY ? 0 : most;
        TD_UNROLL
        for (int j = 0; j < N; j++) {
            x[j][2 * row] = __expf(x[j][2 * row] - shift);
            x[j][2 * row + 1] = __expf(x[j][2 * row + 1] - shift);
            sum += x[j][2 * row] + x[j][2 * row + 1];
        }
        shrink[row] = __expf(r->most[row] - shift);
        r->most[row] = most;
        r->sum[row] = r->sum[row] * shrink[row] + sum;
    }
}

template <int N> __device__ void scale(const float (&by)[2], float (&x)[N][4])
{
    TD_UNROLL
    for (int e = 0; e < 4 * N; e++) {
        x[e / 4][e % 4] *= by[e % 4 / 2];
    }
}

template <class T, int DEPTH, int WIDE, int KEYS> struct sizes {
    static constexpr int KEY_WORDS = row_words<T, DEPTH>, VALUE_WORDS = row_words<T, WIDE>,
                         STEPS = DEPTH / td_mma_depth<T>, /* products of a score, and of a result */
        WEIGHT_STEPS = KEYS / td_mma_depth<T>, ACROSS = KEYS / 8, COLUMNS = WIDE / 8,
                         KEY_ROOM = KEYS * KEY_WORDS + KEYS * VALUE_WORDS, QUERY_ROOM = QUERIES * KEY_WORDS,
                         ROOM = KEY_ROOM > QUERY_ROOM ? KEY_ROOM : QUERY_ROOM;
};

/* score = query key^T */
template <class T, class S>
__device__ void score_keys(const uint32_t (&query)[S::STEPS][4], const uint32_t *key,
                           float (&score)[S::ACROSS][4])
{
    TD_UNROLL
    for (int k = 0; k < S::STEPS; k++) {
        TD_UNROLL
        for (int j = 0; j < S::ACROSS; j += 2) {
            uint32_t b[4];
            td_mma_right(key + j * 8 * S::KEY_WORDS + k * 8, S::KEY_WORDS, b);
            td_mma_add<T>(score[j], query[k], b);
            td_mma_add<T>(score[j + 1], query[k], b + 2);
        }
    }
}

/* sum += weight value */
template <class T, class S>
__device__ void add_values(const float (&weight)[S::ACROSS][4], const uint32_t *value,
                           float (&sum)[S::COLUMNS][4])
{
    constexpr int DEEP = td_mma_depth<T>;
    TD_UNROLL
    for (int k = 0; k < S::WEIGHT_STEPS; k++) {
        uint32_t a[4];
        td_mma_left_of<T>(&weight[k * DEEP / 8], a);
        TD_UNROLL
        for (int j = 0; j < S::COLUMNS; j += 2) {
            uint32_t b[4];
            td_mma_right_across<T>(value + k * DEEP * S::VALUE_WORDS + j * 8 / td_mma_per_word<T>,
                                   S::VALUE_WORDS, b);
            td_mma_add<T>(sum[j], a, b);
            td_mma_add<T>(sum[j + 1], a, b + 2);
        }
    }
}

/* Two neighbours of a row. */
template <class T> __device__ inline void put_two(T *to, int64_t step, int64_t left, float x, float y)
{
    if (sizeof(T) == 2 && left > 1 && step == 1 && reinterpret_cast<uintptr_t>(to) % 4 == 0) {
        *reinterpret_cast<uint32_t *>(to) = td_mma_word<T>(x, y);
        return;
    }
    if (left > 0) {
        to[0] = td_cuda_store<T>::of(x);
    }
    if (left > 1) {
        to[step] = td_cuda_store<T>::of(y);
    }
}

/* top: of the warp's rows; left: of the block's columns. */
template <class T, int N>
__device__ void put(const td_cuda_attention &a, const td_cuda_attention_bases &b, int64_t top, int64_t left,
                    const running &r, const float (&sum)[N][4])
{
    const int64_t t = top + td_mma_group(), column = left + 2 * td_mma_place();
    float all[2];
    TD_UNROLL
    for (int row = 0; row < 2; row++) {
        all[row] = r.sum[row] + __shfl_xor_sync(ALL, r.sum[row], 1);
        all[row] += __shfl_xor_sync(ALL, all[row], 2);
        if (t + 8 * row >= a.dim[1]) {
            continue;
        }
        const float by = a.dim[0] == 0 ? 0 : a.copies / all[row];
        T *const to = static_cast<T *>(a.out) + b.out + (t + 8 * row) * a.of_out.at[1];
        TD_UNROLL
        for (int j = 0; j < N; j++) {
            const int64_t d = column + 8 * j;
            put_two(to + d * a.of_out.at[0], a.of_out.at[0], a.width - d, sum[j][2 * row] * by,
                    sum[j][2 * row + 1] * by);
        }
    }
    if (!td_cuda_attention_again(a, all[0]) && !td_cuda_attention_again(a, all[1])) {
        return;
    }
    TD_ROLLED
    for (int e = 0; e < 4 * N; e++) {
        const int64_t query = t + 8 * (e % 2), d = column + e / 4 * 8 + e / 2 % 2;
        if (query < a.dim[1] && d < a.width && td_cuda_attention_again(a, e % 2 == 0 ? all[0] : all[1])) {
            td_cuda_attention_put_again<T>(a, b, query, d);
        }
    }
}

template <class T>
__device__ lines<T> lines_of(const void *from, int64_t base, const td_cuda_attention_steps &step,
                             int64_t rows, int64_t columns)
{
    return {static_cast<const T *>(from) + base, step.at[1], step.at[0], rows, columns};
}

/* MOST: keys at a time; for sm_100 the compiler wants more registers than there are for 64 of depth 128. */
template <class T, int DEPTH, int WIDE, int MOST>
__global__ void __launch_bounds__(EACH)
    attention(const __grid_constant__ td_cuda_attention a, int64_t high, int64_t across, int64_t n)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    constexpr int KEYS = DEPTH > 64 && MOST > 32 ? 32 : MOST;
#else
    constexpr int KEYS = MOST;
#endif
    using S = sizes<T, DEPTH, WIDE, KEYS>;
    __shared__ uint4 room[S::ROOM / 4];
    __shared__ td_cuda_attention_bases b;
    uint32_t *const key = reinterpret_cast<uint32_t *>(room), *const value = key + KEYS * S::KEY_WORDS;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const int64_t left = i % across * WIDE, block = i / across % high * QUERIES;
        const int64_t top = block + threadIdx.x / WARP * ROWS;
        const bool mine = top < a.dim[1]; /* all of the warp's threads or none */
        __syncthreads();
        td_cuda_attention_find(a, i / across / high, &b);
        __syncthreads();
        fetch<QUERIES, DEPTH>(lines_of<T>(a.query, b.query, a.of_query, a.dim[1], a.depth), block, 0, key);
        __syncthreads();
        uint32_t query[S::STEPS][4];
        TD_UNROLL
        for (int k = 0; k < S::STEPS; k++) {
            td_mma_left(key + threadIdx.x / WARP * ROWS * S::KEY_WORDS + k * 8, S::KEY_WORDS, query[k]);
        }
        running r = {{-INFINITY, -INFINITY}, {0, 0}};
        float sum[S::COLUMNS][4] = {};
        for (int64_t first = 0; first < a.dim[0]; first += KEYS) {
            __syncthreads();
            fetch<KEYS, DEPTH>(lines_of<T>(a.key, b.key, a.of_key, a.dim[0], a.depth), first, 0, key);
            fetch<KEYS, WIDE>(lines_of<T>(a.value, b.value, a.of_value, a.dim[0], a.width), first, left,
                              value);
            __syncthreads();
            if (!mine) {
                continue;
            }
            const int64_t t = top + td_mma_group(), last = a.dim[1] - 1;
            const spot at = {{t < last ? t : last, t + 8 < last ? t + 8 : last}, first + 2 * td_mma_place()};
            float score[S::ACROSS][4] = {}, shrink[2];
            score_keys<T, S>(query, key, score);
            all_stages<T>(a, b, false, at, score);
            cut(a, at, -INFINITY, score);
            soften(&r, score, shrink);
            scale(shrink, sum);
            all_stages<T>(a, b, true, at, score);
            cut(a, at, 0, score);
            add_values<T, S>(score, value, sum);
        }
        if (mine) {
            put<T>(a, b, top, left, r, sum);
        }
    }
}

template <class T, int DEPTH, int WIDE, int KEYS>
int launch(const td_cuda_attention &a, td_cuda_stream *stream)
{
    const int64_t high = (a.dim[1] + QUERIES - 1) / QUERIES, across = (a.width + WIDE - 1) / WIDE;
    const int64_t n = a.batches * high * across;
    return td_cuda_blocks_of<EACH>(attention<T, DEPTH, WIDE, KEYS>, n, 0, stream, a, high, across, n);
}

/* What queries and keys of the depth leave room for, in registers and in shared memory. */
template <class T> int run(const td_cuda_attention &a, td_cuda_stream *stream)
{
    if (a.depth <= 64 && a.width <= 64) {
        return launch<T, 64, 64, 64>(a, stream);
    }
    if constexpr (sizeof(T) == 4) {
        return launch<T, 128, 128, 32>(a, stream);
    } else {
        return a.depth <= 128 ? launch<T, 128, 128, 64>(a, stream) : launch<T, 256, 128, 32>(a, stream);
    }
}

} // namespace

bool td_cuda_attention_mma_takes(const struct td_cuda_attention *a)
{
    return a->type == TD_CUDA_FLOAT
               ? a->tf32 && a->depth <= 128
               : (a->type == TD_CUDA_HALF || a->type == TD_CUDA_BFLOAT16) && a->depth <= 256;
}

int td_cuda_attend_mma(const struct td_cuda_attention *a, struct td_cuda_stream *stream)
{
    return a->type == TD_CUDA_FLOAT  ? run<float>(*a, stream)
           : a->type == TD_CUDA_HALF ? run<__half>(*a, stream)
                                     : run<__nv_bfloat16>(*a, stream);
}
