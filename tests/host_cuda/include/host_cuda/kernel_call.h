/* tests/host_cuda/include/host_cuda/kernel_call.h - cudaLaunchKernel with a typed kernel.
 *
 * CUDA's driver knows a kernel's parameters from its binary; here the template reads them from the kernel's
 * type. Arguments are copied at the call, as CUDA does. Pointers among them are listed for the check of who
 * uses which memory: a pointer to const as a read, another one as a write, each of its first element, for
 * nobody knows how far the kernel goes; a struct's words as reads.
 *
 * A kernel that is launched through a table of `const void *` is named in it by TD_KERNEL (kernel_macros.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_KERNEL_CALL_H
#define HOST_CUDA_KERNEL_CALL_H

#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "host_cuda/runtime_api.h"

namespace host_cuda
{

struct pointer_use {
    uintptr_t at;
    size_t bytes;
    bool writes;
};

struct kernel_args {
    std::shared_ptr<const void> values;
    std::vector<pointer_use> pointers;
};

/* How to call one kernel. */
struct kernel_type {
    const void *kernel;
    kernel_args (*copy)(void **args);
    void (*call)(const void *kernel, const void *values);
};

struct launch_shape {
    dim3 grid, block;
    size_t shared;
};

cudaError_t launch(const kernel_type &type, const launch_shape &shape, void **args, cudaStream_t stream);
/* The kernel's address. name: NULL: its symbol's */
const void *remember(const kernel_type &type, const char *name = nullptr);

template <class T> constexpr size_t size_of()
{
    if constexpr (std::is_void_v<T>) {
        return 1;
    } else {
        return sizeof(T);
    }
}

template <class T> void list_pointers(const T &value, std::vector<pointer_use> &list)
{
    if constexpr (std::is_pointer_v<T>) {
        using target = std::remove_pointer_t<T>;
        list.push_back({reinterpret_cast<uintptr_t>(value), size_of<target>(), !std::is_const_v<target>});
    } else if constexpr (std::is_class_v<T> && sizeof(T) >= sizeof(uintptr_t)) {
        for (size_t i = 0; i + sizeof(uintptr_t) <= sizeof(T); i += sizeof(uintptr_t)) {
            uintptr_t word;
            memcpy(&word, reinterpret_cast<const char *>(&value) + i, sizeof word);
            list.push_back({word, 1, false});
        }
    }
}

template <class... P> struct typed {
    using values = std::tuple<std::remove_cv_t<P>...>;

    template <size_t... I> static kernel_args copy_all(void **args, std::index_sequence<I...>)
    {
        (void)args;
        auto v = std::make_shared<values>(*static_cast<std::remove_cv_t<P> *>(args[I])...);
        kernel_args all = {v, {}};
        (list_pointers(std::get<I>(*v), all.pointers), ...);
        return all;
    }
    static kernel_args copy(void **args) { return copy_all(args, std::index_sequence_for<P...>()); }
    static void call(const void *kernel, const void *v)
    {
        const auto f = reinterpret_cast<void (*)(P...)>(const_cast<void *>(kernel));
        std::apply(f, *static_cast<const values *>(v));
    }
    static kernel_type of(void (*kernel)(P...))
    {
        return {reinterpret_cast<const void *>(kernel), copy, call};
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
