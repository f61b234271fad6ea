/* tests/host_cuda/include/host_cuda/device_atomics.h - atomicAdd and its kind: real atomics, relaxed as
 * CUDA's are. They order nothing else, and ThreadSanitizer holds a kernel to that; what came before a
 * __threadfence is seen by whoever does an atomic operation after it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_DEVICE_ATOMICS_H
#define HOST_CUDA_DEVICE_ATOMICS_H

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace host_cuda
{

void after_atomic(); /* sees what was fenced */

template <class T>
using bits_of =
    std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

template <class To, class From> To same_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(static_cast<void *>(&to), &from, sizeof to);
    return to;
}

/* *at = change(*at) at once; the old value. */
template <class T, class F> T atomic_change(T *at, F change)
{
    using bits = bits_of<T>;
    bits *const place = reinterpret_cast<bits *>(at);
    bits old = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(place, &old,
                                        same_bits<bits>(static_cast<T>(change(same_bits<T>(old)))), false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
#ifdef HOST_CUDA_TSAN
    after_atomic();
#endif
    return same_bits<T>(old);
}

} // namespace host_cuda

#define HOST_CUDA_ATOMIC(name, T, expression)                                                                \
    static inline T name(T *at, T value)                                                                     \
    {                                                                                                        \
        return host_cuda::atomic_change(at, [value](T old) { return expression; });                          \
    }

#define HOST_CUDA_ATOMICS_INT(T)                                                                             \
    HOST_CUDA_ATOMIC(atomicMax, T, old > value ? old : value)                                                \
    HOST_CUDA_ATOMIC(atomicMin, T, old < value ? old : value)                                                \
    HOST_CUDA_ATOMIC(atomicExch, T, (static_cast<void>(old), value))                                         \
    HOST_CUDA_ATOMIC(atomicAnd, T, old &value)                                                               \
    HOST_CUDA_ATOMIC(atomicOr, T, old | value)                                                               \
    HOST_CUDA_ATOMIC(atomicXor, T, old ^ value)                                                              \
    static inline T atomicCAS(T *at, T compare, T value)                                                     \
    {                                                                                                        \
        return host_cuda::atomic_change(at, [=](T old) { return old == compare ? value : old; });            \
    }

HOST_CUDA_ATOMICS_INT(int)
HOST_CUDA_ATOMICS_INT(unsigned int)
HOST_CUDA_ATOMICS_INT(unsigned long long)
/* Sums of int wrap, as the device's do. */
HOST_CUDA_ATOMIC(atomicAdd, int, static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)))
HOST_CUDA_ATOMIC(atomicSub, int, static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)))
HOST_CUDA_ATOMIC(atomicAdd, unsigned int, old + value)
HOST_CUDA_ATOMIC(atomicSub, unsigned int, old - value)
HOST_CUDA_ATOMIC(atomicInc, unsigned int, old >= value ? 0 : old + 1)
HOST_CUDA_ATOMIC(atomicDec, unsigned int, old == 0 || old > value ? value : old - 1)
HOST_CUDA_ATOMIC(atomicAdd, unsigned long long, old + value)
HOST_CUDA_ATOMIC(atomicAdd, float, old + value)
HOST_CUDA_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
HOST_CUDA_ATOMIC(atomicAdd, double, old + value)

#undef HOST_CUDA_ATOMICS_INT
#undef HOST_CUDA_ATOMIC

#endif
