/* tests/host_cuda/include/host_cuda/device_code.h - what a kernel's text is written in: qualifiers, the
 * thread's place, barriers, votes and shuffles.
 *
 * A static __shared__ variable is one of the OS thread that runs the block: all of the block's threads are
 * fibers of that one. ASan puts no red zones around such variables.
 *
 * __activemask is the threads of the warp that have not ended; they need not be together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_DEVICE_CODE_H
#define HOST_CUDA_DEVICE_CODE_H

#include <cstdint>
#include <cstring>

#include "host_cuda/vector_types.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __shared__ static thread_local __attribute__((tls_model("local-dynamic")))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#ifndef __restrict__
#define __restrict__ __restrict
#endif

/* Of the thread that runs now. */
extern __thread uint3 threadIdx __attribute__((visibility("default"), tls_model("initial-exec")));
extern __thread uint3 blockIdx __attribute__((visibility("default"), tls_model("initial-exec")));
extern __thread uint3 blockDim __attribute__((visibility("default"), tls_model("initial-exec")));
extern __thread uint3 gridDim __attribute__((visibility("default"), tls_model("initial-exec")));
static constexpr int warpSize = 32;

namespace host_cuda
{

/* Where in the source a thread waits; two places of one call do not make two of it. */
struct site {
    const char *file;
    int line;
};

enum class meet { BARRIER, BARRIER_COUNT, BARRIER_AND, BARRIER_OR, WARP_SYNC, BALLOT, SHUFFLE };

int block_barrier(meet kind, int predicate, site at);

/* What one thread brings to its warp: a value, and for a shuffle the place (0 .. 31) that it reads from. */
struct warp_part {
    unsigned mask;
    uint64_t value;
    int from;
};
uint64_t warp_meet(meet kind, const warp_part &part, site at);

/* d [16,8] += a b by all threads of a warp: what each holds, kernels/cuda/base/mma.cuh says. */
enum class numbers { HALF, BFLOAT16, TF32 };
void warp_product(numbers kind, float *d, const uint32_t *a, const uint32_t *b, site at);

unsigned warp_active();
int warp_place();
void *dynamic_shared();
void fence();
void set_condition(unsigned long long number, unsigned value);

/* Threads of a warp read from another one's place, within segments of width; out of the segment: from
 * itself. */
template <class T> T shuffle(unsigned mask, T value, int from, site at)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 8 bytes");
    warp_part part = {mask, 0, from};
    memcpy(&part.value, &value, sizeof value);
    const uint64_t bits = warp_meet(meet::SHUFFLE, part, at);
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline int segment(int place, int width)
{
    return place & ~(width - 1);
}

} // namespace host_cuda

#define HOST_CUDA_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(HOST_CUDA_SITE)
{
    host_cuda::block_barrier(host_cuda::meet::BARRIER, 0, {file, line});
}

static inline int __syncthreads_count(int predicate, HOST_CUDA_SITE)
{
    return host_cuda::block_barrier(host_cuda::meet::BARRIER_COUNT, predicate, {file, line});
}

static inline int __syncthreads_and(int predicate, HOST_CUDA_SITE)
{
    return host_cuda::block_barrier(host_cuda::meet::BARRIER_AND, predicate, {file, line});
}

static inline int __syncthreads_or(int predicate, HOST_CUDA_SITE)
{
    return host_cuda::block_barrier(host_cuda::meet::BARRIER_OR, predicate, {file, line});
}

static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, HOST_CUDA_SITE)
{
    host_cuda::warp_meet(host_cuda::meet::WARP_SYNC, {mask, 0, 0}, {file, line});
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, HOST_CUDA_SITE)
{
    return host_cuda::warp_meet(host_cuda::meet::BALLOT, {mask, predicate != 0, 0}, {file, line});
}

static inline int __any_sync(unsigned mask, int predicate, HOST_CUDA_SITE)
{
    return __ballot_sync(mask, predicate, file, line) != 0;
}

static inline int __all_sync(unsigned mask, int predicate, HOST_CUDA_SITE)
{
    return __ballot_sync(mask, predicate == 0, file, line) == 0;
}

static inline unsigned __activemask()
{
    return host_cuda::warp_active();
}

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, HOST_CUDA_SITE)
{
    const int base = host_cuda::segment(host_cuda::warp_place(), width);
    return host_cuda::shuffle(mask, value, base + (from & (width - 1)), {file, line});
}

template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, HOST_CUDA_SITE)
{
    const int me = host_cuda::warp_place();
    const int from = me - static_cast<int>(delta);
    return host_cuda::shuffle(mask, value, from < host_cuda::segment(me, width) ? me : from, {file, line});
}

template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, HOST_CUDA_SITE)
{
    const int me = host_cuda::warp_place();
    const int from = me + static_cast<int>(delta);
    return host_cuda::shuffle(mask, value, from >= host_cuda::segment(me, width) + width ? me : from,
                              {file, line});
}

template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, HOST_CUDA_SITE)
{
    const int me = host_cuda::warp_place();
    const int from = me ^ with;
    return host_cuda::shuffle(mask, value, from >= host_cuda::segment(me, width) + width ? me : from,
                              {file, line});
}

#undef HOST_CUDA_SITE

static inline void __threadfence()
{
    host_cuda::fence();
}

static inline void __threadfence_block()
{
    host_cuda::fence();
}

static inline void __threadfence_system()
{
    host_cuda::fence();
}

static inline void cudaGraphSetConditional(unsigned long long handle, unsigned value)
{
    host_cuda::set_condition(handle, value);
}

template <class T> static inline T __ldg(const T *at)
{
    return *at;
}

#endif
