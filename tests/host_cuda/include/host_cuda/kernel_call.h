/* tests/host_cuda/include/host_cuda/kernel_call.h - cudaLaunchKernel with a typed kernel.
 *
 * CUDA's driver knows a kernel's parameters from its binary; here the template reads them from the kernel's
 * type: where each lies among the others, and what it is. Little of it is made for each type of kernel, for
 * there are some thousands. Arguments are copied at the call, as CUDA does. Pointers among them are listed
 * for the check of who uses which memory: a pointer to const as a read, another one as a write, each of its
 * first element, for nobody knows how far the kernel goes; a struct's words as reads.
 *
 * A kernel that is launched through a table of `const void *` is named in it by TD_KERNEL (kernel_macros.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_KERNEL_CALL_H
#define HOST_CUDA_KERNEL_CALL_H

#include <cstdint>
#include <type_traits>
#include <utility>

#include "host_cuda/runtime_api.h"

namespace host_cuda
{

enum class param_kind : uint8_t {
    VALUE,
    READ,
    WRITE,
    STRUCT
}; /* READ, WRITE: a pointer to const, to another */

struct param {
    uint32_t at, bytes; /* among the arguments */
    param_kind kind;
    uint32_t target; /* a pointer's: bytes of its first element */
};

/* How to call one kernel. */
struct kernel_type {
    const void *kernel;
    const param *params;
    uint32_t n, bytes; /* params; all arguments */
    void (*call)(const void *kernel, const char *values);
};

struct launch_shape {
    dim3 grid, block;
    size_t shared;
};

cudaError_t launch(const kernel_type &type, const launch_shape &shape, void **args, cudaStream_t stream);
/* The kernel's address. name: NULL: its symbol's */
const void *remember(const kernel_type &type, const char *name = nullptr);

template <class T> constexpr param param_of(uint32_t *end)
{
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16, "an argument is copied as bytes");
    const uint32_t at = (*end + alignof(T) - 1) / alignof(T) * alignof(T), bytes = sizeof(T);
    *end = at + bytes;
    if constexpr (std::is_pointer_v<T>) {
        using target = std::remove_pointer_t<T>;
        const auto kind = std::is_const_v<target> ? param_kind::READ : param_kind::WRITE;
        if constexpr (std::is_void_v<target>) {
            return {at, bytes, kind, 1};
        } else {
            return {at, bytes, kind, sizeof(target)};
        }
    } else {
        return {at, bytes, std::is_class_v<T> ? param_kind::STRUCT : param_kind::VALUE, 0};
    }
}

template <size_t N> struct params {
    param p[N > 0 ? N : 1];
    uint32_t bytes;
};

template <class... P> constexpr params<sizeof...(P)> params_of()
{
    params<sizeof...(P)> all = {};
    uint32_t n = 0;
    ((all.p[n++] = param_of<std::remove_cv_t<P>>(&all.bytes)), ...);
    return all;
}

template <class... P> struct typed {
    static constexpr params<sizeof...(P)> list = params_of<P...>();

    template <size_t... I> static void call_all(void (*f)(P...), const char *v, std::index_sequence<I...>)
    {
        (void)v;
        f(*reinterpret_cast<const std::remove_cv_t<P> *>(v + list.p[I].at)...);
    }
    static void call(const void *kernel, const char *v)
    {
        call_all(reinterpret_cast<void (*)(P...)>(const_cast<void *>(kernel)), v,
                 std::index_sequence_for<P...>());
    }
    static kernel_type of(void (*kernel)(P...))
    {
        return {reinterpret_cast<const void *>(kernel), list.p, sizeof...(P), list.bytes, call};
    }
};

template <class... P> const void *known(void (*kernel)(P...))
{
    return remember(typed<P...>::of(kernel));
}

} // namespace host_cuda

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **args, size_t shared = 0,
                             cudaStream_t stream = nullptr)
{
    return host_cuda::launch(host_cuda::typed<P...>::of(kernel), {grid, block, shared}, args, stream);
}

template <class... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), enum cudaFuncAttribute attr, int value)
{
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attr, value);
}

template <class... P> cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, void (*kernel)(P...))
{
    return cudaFuncGetAttributes(attr, reinterpret_cast<const void *>(kernel));
}

template <class... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(P...), int threads,
                                                          size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void *>(kernel),
                                                         threads, shared);
}

template <class T> cudaError_t cudaMalloc(T **at, size_t bytes)
{
    return cudaMalloc(reinterpret_cast<void **>(at), bytes);
}

template <class T> cudaError_t cudaMallocAsync(T **at, size_t bytes, cudaStream_t stream)
{
    return cudaMallocAsync(reinterpret_cast<void **>(at), bytes, stream);
}

template <class T> cudaError_t cudaMallocHost(T **at, size_t bytes, unsigned flags = 0)
{
    return cudaHostAlloc(reinterpret_cast<void **>(at), bytes, flags);
}

template <class T> cudaError_t cudaHostAlloc(T **at, size_t bytes, unsigned flags)
{
    return cudaHostAlloc(reinterpret_cast<void **>(at), bytes, flags);
}

#endif
