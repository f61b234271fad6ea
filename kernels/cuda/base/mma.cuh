/* kernels/cuda/base/mma.cuh - products of small matrices by Tensor cores: a warp's d [16,8] += a [16,K] b
 * [K,8].
 *
 *   uint32_t a[4], b[2];  float d[4];            of each thread of the warp
 *   td_mma_left(at, step, a)                     a: 16 rows of 8 words in shared memory, `step` words apart
 *   td_mma_right(at, step, b)                    b, and its neighbour: 16 columns, which are rows there
 *   td_mma_right_across<T>(at, step, b)          the same where the columns are columns there, too
 *   td_mma_left_of<T>(x, a)                      a: what products have left in the accumulators x
 *   td_mma_add<T>(d, a, b)
 *
 * A word is two numbers of half or bfloat16, of which K is 16, or one float, of which K is 8: those are
 * rounded to TF32 first (td_mma_tf32). Sums are floats.
 *
 *   thread = 4 group + place of the warp     d[0], d[1]: row group, columns 2 place and the next
 *                                            d[2], d[3]: row group + 8
 *   a[0] row group, word place;  a[1] row group + 8;  a[2], a[3] the same rows, word place + 4
 *   b[0] column group, word place;  b[1] word place + 4
 *
 * td_mma_left_of makes rows of a from rows of accumulators in the same threads: where a word is one float, K
 * goes over the columns 0 2 4 6 1 3 5 7, and so it does in td_mma_right_across. Only sums see it, to which
 * the order is nothing.
 *
 * Rows in shared memory begin at 16 bytes. Every thread of the warp comes to each call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_MMA_CUH
#define TD_KERNELS_CUDA_BASE_MMA_CUH

#include <type_traits>

#include "kernels/cuda/base/launch.cuh"

/* Numbers of a word, and K. */
template <class T> constexpr int td_mma_per_word = 4 / static_cast<int>(sizeof(T));
template <class T> constexpr int td_mma_depth = 8 * td_mma_per_word<T>;

__device__ inline int td_mma_group()
{
    return threadIdx.x % 32 / 4;
}
__device__ inline int td_mma_place()
{
    return threadIdx.x % 4;
}

/* The nearest number of 10 bits of mantissa. */
__device__ inline uint32_t td_mma_tf32(float x)
{
#ifdef __CUDACC__
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
#else
    const uint32_t bits = __float_as_uint(x);
    return (bits & 0x7F800000) == 0x7F800000 ? bits : (bits + 0x1000) & ~UINT32_C(0x1FFF);
#endif
}

/* Two numbers as a word. */
template <class T> __device__ inline uint32_t td_mma_word(float x, float y)
{
    if constexpr (std::is_same_v<T, __half>) {
        return __half_as_ushort(__float2half_rn(x)) |
               static_cast<uint32_t>(__half_as_ushort(__float2half_rn(y))) << 16;
    } else {
        return __bfloat16_as_ushort(__float2bfloat16_rn(x)) |
               static_cast<uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(y))) << 16;
    }
}

#ifdef __CUDACC__
/* Four matrices of 8 rows of 16 bytes: `row` is where this thread's row begins, of matrix thread / 8. */
__device__ inline void td_mma_load(const uint32_t *row, uint32_t (&to)[4])
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}
__device__ inline void td_mma_load_across(const uint32_t *row, uint32_t (&to)[4])
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}
#endif

__device__ inline void td_mma_left(const uint32_t *at, int step, uint32_t (&a)[4])
{
#ifdef __CUDACC__
    const int me = threadIdx.x % 32;
    td_mma_load(at + me % 16 * step + me / 16 * 4, a);
#else
    const int row = td_mma_group(), word = td_mma_place();
    a[0] = at[row * step + word];
    a[1] = at[(row + 8) * step + word];
    a[2] = at[row * step + word + 4];
    a[3] = at[(row + 8) * step + word + 4];
#endif
}

/* b[0], b[1]: the first 8 columns; b[2], b[3]: those behind. */
__device__ inline void td_mma_right(const uint32_t *at, int step, uint32_t (&b)[4])
{
#ifdef __CUDACC__
    const int me = threadIdx.x % 32;
    td_mma_load(at + (me % 8 + me / 16 * 8) * step + me / 8 % 2 * 4, b);
#else
    const int row = td_mma_group(), word = td_mma_place();
    b[0] = at[row * step + word];
    b[1] = at[row * step + word + 4];
    b[2] = at[(row + 8) * step + word];
    b[3] = at[(row + 8) * step + word + 4];
#endif
}

/* at: K rows, of whose numbers the first 16 are the columns. */
template <class T> __device__ inline void td_mma_right_across(const uint32_t *at, int step, uint32_t (&b)[4])
{
    if constexpr (td_mma_per_word<T> == 1) {
        const uint32_t *const mine = at + 2 * td_mma_place() * step + td_mma_group();
        b[0] = mine[0];
        b[1] = mine[step];
        b[2] = mine[8];
        b[3] = mine[step + 8];
    } else {
#ifdef __CUDACC__
        const int me = threadIdx.x % 32;
        td_mma_load_across(at + me % 16 * step + me / 16 * 4, b);
#else
        const unsigned short *const all = reinterpret_cast<const unsigned short *>(at);
        for (int i = 0; i < 4; i++) {
            const int row = 2 * td_mma_place() + i % 2 * 8, column = td_mma_group() + i / 2 * 8;
            b[i] = all[row * 2 * step + column] | static_cast<uint32_t>(all[(row + 1) * 2 * step + column])
                                                      << 16;
        }
#endif
    }
}

/* x: the accumulators of K columns. */
template <class T> __device__ inline void td_mma_left_of(const float (*x)[4], uint32_t (&a)[4])
{
    if constexpr (td_mma_per_word<T> == 1) {
        a[0] = td_mma_tf32(x[0][0]);
        a[1] = td_mma_tf32(x[0][2]);
        a[2] = td_mma_tf32(x[0][1]);
        a[3] = td_mma_tf32(x[0][3]);
    } else {
        a[0] = td_mma_word<T>(x[0][0], x[0][1]);
        a[1] = td_mma_word<T>(x[0][2], x[0][3]);
        a[2] = td_mma_word<T>(x[1][0], x[1][1]);
        a[3] = td_mma_word<T>(x[1][2], x[1][3]);
    }
}

/* b: two words. */
template <class T> __device__ inline void td_mma_add(float (&d)[4], const uint32_t (&a)[4], const uint32_t *b)
{
#ifdef __CUDACC__
#define TD_MMA(shape, type)                                                                                  \
    asm("mma.sync.aligned." shape ".row.col.f32." type "." type                                              \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                               \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
    if constexpr (std::is_same_v<T, __half>) {
        TD_MMA("m16n8k16", "f16");
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        TD_MMA("m16n8k16", "bf16");
    } else {
        TD_MMA("m16n8k8", "tf32");
    }
#undef TD_MMA
#else
    const auto kind = std::is_same_v<T, __half>          ? host_cuda::numbers::HALF
                      : std::is_same_v<T, __nv_bfloat16> ? host_cuda::numbers::BFLOAT16
                                                         : host_cuda::numbers::TF32;
    host_cuda::warp_product(kind, d, a, b, {__FILE__, __LINE__});
#endif
}

#endif
