/* kernels/cuda/base/launch.cuh - how device code is written and launched, for nvcc and for the tests'
 * compiler alike.
 *
 *   TD_DYNAMIC_SHARED(float, tile);         in a kernel: float *tile, the launch's dynamic shared memory,
 *                                           aligned to 16 bytes
 *   TD_UNROLL                               before a loop: no turn is a jump, however long it is
 *   TD_ROLLED                               before a loop: it is written once, what is seldom done
 * TD_NOT_INLINE                           a function that is called, so that its registers are not the
 * caller's td_cuda_first, td_cuda_stride           in a kernel: the thread's first element, and how far to
 * the next td_cuda_place_of(steps, i)              in a kernel: where element i is in two operands
 * td_cuda_over(kernel, n, stream, ...)    launches it with a thread an element, or fewer that go round
 * td_cuda_blocks(kernel, n, stream, ...)  with so many blocks, or fewer that go round
 * td_cuda_blocks_of<EACH>(kernel, n, bytes, stream, ..) of so many threads, and bytes of dynamic shared
 * memory
 *
 * Arithmetic: half and bfloat16 are computed in float (td_cuda_wide), as the CPU has it. nvcc is told
 * -ftz=true: denormal floats are zeros, as the host's kernels have it (core/base/float_mode.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_LAUNCH_CUH
#define TD_KERNELS_CUDA_BASE_LAUNCH_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

#ifdef __CUDACC__
extern __shared__ __align__(16) unsigned char td_dynamic_shared_bytes[];
#define TD_DYNAMIC_SHARED(T, name) T *const name = reinterpret_cast<T *>(td_dynamic_shared_bytes)
#define TD_UNROLL _Pragma("unroll")
#define TD_ROLLED _Pragma("unroll 1")
#else
#define TD_UNROLL
#define TD_ROLLED
#define TD_DYNAMIC_SHARED(T, name) T *const name = static_cast<T *>(host_cuda::dynamic_shared())
#endif

/* CUDA's __noinline__ by what it stands for: standard headers use the same word, and do not stand a macro
 * of it. */
#define TD_NOT_INLINE __attribute__((noinline))

constexpr int THREADS = 256;
constexpr int64_t MOST_BLOCKS = 4096; /* enough for any GPU's processors */

inline cudaStream_t td_cuda_queue(struct td_cuda_stream *s)
{
    return reinterpret_cast<cudaStream_t>(s);
}

/* This thread's first element, and how far it is to its next. */
__device__ inline int64_t td_cuda_first()
{
    return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t td_cuda_stride()
{
    return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

/* Where element i is in both operands. With one dim no index is taken apart. */
struct td_cuda_place {
    int64_t a, b;
};
__device__ inline td_cuda_place td_cuda_place_of(const struct td_cuda_steps &s, int64_t i)
{
    if (s.rank <= 1) {
        return {i * s.a[0], i * s.b[0]};
    }
    td_cuda_place at = {0, 0};
    for (int d = 0; d < s.rank; d++) {
        const int64_t up = i / s.dim[d], k = i - up * s.dim[d];
        at.a += k * s.a[d];
        at.b += k * s.b[d];
        i = up;
    }
    return at;
}

template <int EACH, class... P, class... A>
int td_cuda_blocks_of(void (*kernel)(P...), int64_t blocks, size_t shared, struct td_cuda_stream *stream,
                      A... given)
{
    if (blocks == 0) {
        return 0;
    }
    const dim3 grid(static_cast<unsigned>(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS));
    const auto run = [&](P... p) {
        void *args[] = {const_cast<void *>(static_cast<const void *>(&p))...};
        return cudaLaunchKernel(kernel, grid, dim3(EACH), args, shared, td_cuda_queue(stream));
    };
    return static_cast<int>(run(static_cast<P>(given)...));
}

template <class... P, class... A>
int td_cuda_blocks(void (*kernel)(P...), int64_t blocks, struct td_cuda_stream *stream, A... given)
{
    return td_cuda_blocks_of<THREADS>(kernel, blocks, 0, stream, given...);
}

template <class... P, class... A>
int td_cuda_over(void (*kernel)(P...), int64_t n, struct td_cuda_stream *stream, A... given)
{
    return td_cuda_blocks(kernel, (n + THREADS - 1) / THREADS, stream, given...);
}

/* The type that numbers of type T are computed in. */
template <class T> struct td_cuda_wide {
    using type = T;
};
template <> struct td_cuda_wide<__half> {
    using type = float;
};
template <> struct td_cuda_wide<__nv_bfloat16> {
    using type = float;
};

template <class T> __device__ inline typename td_cuda_wide<T>::type td_cuda_load(T x)
{
    return x;
}
template <> __device__ inline float td_cuda_load(__half x)
{
    return __half2float(x);
}
template <> __device__ inline float td_cuda_load(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

template <class T> struct td_cuda_store {
    template <class W> __device__ static T of(W x) { return static_cast<T>(x); }
};
template <> struct td_cuda_store<__half> {
    __device__ static __half of(float x) { return __float2half_rn(x); }
};
template <> struct td_cuda_store<__nv_bfloat16> {
    __device__ static __nv_bfloat16 of(float x) { return __float2bfloat16_rn(x); }
};

/* f(T()) for the type of that number. The rows list the types that a family has. */
template <class F> int td_cuda_with_float(int type, F f)
{
    switch (type) {
    case TD_CUDA_FLOAT:
        return f(float());
    case TD_CUDA_DOUBLE:
        return f(double());
    case TD_CUDA_HALF:
        return f(__half());
    case TD_CUDA_BFLOAT16:
        return f(__nv_bfloat16());
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}

template <class F> int td_cuda_with_wide(int type, F f)
{
    return type == TD_CUDA_FLOAT    ? f(float())
           : type == TD_CUDA_DOUBLE ? f(double())
                                    : static_cast<int>(cudaErrorInvalidValue);
}

template <class F> int td_cuda_with_bool(int type, F f)
{
    return type == TD_CUDA_BOOL ? f(bool()) : static_cast<int>(cudaErrorInvalidValue);
}

template <class F> int td_cuda_with_number(int type, F f)
{
    switch (type) {
    case TD_CUDA_INT32:
        return f(int32_t());
    case TD_CUDA_INT64:
        return f(int64_t());
    default:
        return td_cuda_with_float(type, f);
    }
}

/* The integers that are seldom met: all but int32 and int64. */
inline bool td_cuda_is_rare(int type)
{
    return type >= TD_CUDA_INT8 && type <= TD_CUDA_UINT64;
}

template <class F> int td_cuda_with_rare(int type, F f)
{
    switch (type) {
    case TD_CUDA_INT8:
        return f(int8_t());
    case TD_CUDA_INT16:
        return f(int16_t());
    case TD_CUDA_UINT8:
        return f(uint8_t());
    case TD_CUDA_UINT16:
        return f(uint16_t());
    case TD_CUDA_UINT32:
        return f(uint32_t());
    case TD_CUDA_UINT64:
        return f(uint64_t());
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}

template <class F> int td_cuda_with_real(int type, F f)
{
    return td_cuda_is_rare(type) ? td_cuda_with_rare(type, f) : td_cuda_with_number(type, f);
}

#endif
