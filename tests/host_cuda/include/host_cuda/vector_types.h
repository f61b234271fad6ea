/* tests/host_cuda/include/host_cuda/vector_types.h - dim3, and the short vectors with their alignment.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_VECTOR_TYPES_H
#define HOST_CUDA_VECTOR_TYPES_H

/* T1 to T4 of one element type, and make_T1 to make_T4; align4 is that of the vector of four. */
#define HOST_CUDA_VECTORS(prefix, T, align2, align4)                                                         \
    struct prefix##1                                                                                         \
    {                                                                                                        \
        T x;                                                                                                 \
    };                                                                                                       \
    struct alignas(align2) prefix##2                                                                         \
    {                                                                                                        \
        T x, y;                                                                                              \
    };                                                                                                       \
    struct prefix##3                                                                                         \
    {                                                                                                        \
        T x, y, z;                                                                                           \
    };                                                                                                       \
    struct alignas(align4) prefix##4                                                                         \
    {                                                                                                        \
        T x, y, z, w;                                                                                        \
    };                                                                                                       \
    static inline prefix##1 make_##prefix##1(T x)                                                            \
    {                                                                                                        \
        return {x};                                                                                          \
    }                                                                                                        \
    static inline prefix##2 make_##prefix##2(T x, T y)                                                       \
    {                                                                                                        \
        return {x, y};                                                                                       \
    }                                                                                                        \
    static inline prefix##3 make_##prefix##3(T x, T y, T z)                                                  \
    {                                                                                                        \
        return {x, y, z};                                                                                    \
    }                                                                                                        \
    static inline prefix##4 make_##prefix##4(T x, T y, T z, T w)                                             \
    {                                                                                                        \
        return {x, y, z, w};                                                                                 \
    }

HOST_CUDA_VECTORS(char, signed char, 2, 4)
HOST_CUDA_VECTORS(uchar, unsigned char, 2, 4)
HOST_CUDA_VECTORS(short, short, 4, 8)
HOST_CUDA_VECTORS(ushort, unsigned short, 4, 8)
HOST_CUDA_VECTORS(int, int, 8, 16)
HOST_CUDA_VECTORS(uint, unsigned int, 8, 16)
HOST_CUDA_VECTORS(longlong, long long, 16, 16)
HOST_CUDA_VECTORS(ulonglong, unsigned long long, 16, 16)
HOST_CUDA_VECTORS(float, float, 8, 16)
HOST_CUDA_VECTORS(double, double, 16, 16)

#undef HOST_CUDA_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

#endif
