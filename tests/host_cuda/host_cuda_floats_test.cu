/* tests/host_cuda/host_cuda_floats_test.cu - __half and __nv_bfloat16 round as they should: every value of 16
 * bits comes back; between any two neighbours the middle goes to the even one, and what lies a little below
 * or above to the nearest. What is wanted is worked out with doubles, in which all of it is exact.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/host_cuda/kernel_macros.h"
#include "tests/host_cuda/run_kernels.h"

#include <math.h>

constexpr int ALL = 1 << 16;

static __device__ unsigned short bits_of(__half x)
{
    return __half_as_ushort(x);
}

static __device__ unsigned short bits_of(__nv_bfloat16 x)
{
    return __bfloat16_as_ushort(x);
}

static __device__ void from_bits(unsigned short bits, __half *x)
{
    *x = __ushort_as_half(bits);
}

static __device__ void from_bits(unsigned short bits, __nv_bfloat16 *x)
{
    *x = __ushort_as_bfloat16(bits);
}

template <class T> static __global__ void as_float(float *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < ALL; i += gridDim.x * blockDim.x) {
        T x;
        from_bits(static_cast<unsigned short>(i), &x);
        y[i] = static_cast<float>(x);
    }
}

template <class T> static __global__ void rounded(unsigned short *y, const float *x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = bits_of(T(x[i]));
    }
}

template <class T> static __global__ void rounded_double(unsigned short *y, const double *x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = bits_of(T(x[i]));
    }
}

/* The value of a pattern with so many bits of exponent and of mantissa. */
static double value_of(int bits, int exponent, int mantissa)
{
    const int e = bits >> mantissa & ((1 << exponent) - 1), m = bits & ((1 << mantissa) - 1);
    const int bias = (1 << (exponent - 1)) - 1;
    const double size =
        e == 0 ? ldexp(m, 1 - bias - mantissa) : ldexp(m + (1 << mantissa), e - bias - mantissa);
    return (bits & 0x8000) != 0 ? -size : size;
}

template <class T> static std::vector<unsigned short> round_all(const std::vector<float> &x)
{
    int n = static_cast<int>(x.size());
    const float *dx = new_array_of(x);
    unsigned short *y = new_array<unsigned short>(n);
    void *args[] = {&y, &dx, &n};
    CHECK_CUDA(cudaLaunchKernel(TD_KERNEL(rounded<T>), dim3(4), dim3(64), args, 0, nullptr));
    return read_array(y, n);
}

template <class T> static void every_value_comes_back(int exponent, int mantissa)
{
    float *y = new_array<float>(ALL);
    void *args[] = {&y};
    CHECK_CUDA(cudaLaunchKernel(TD_KERNEL(as_float<T>), dim3(4), dim3(64), args, 0, nullptr));
    const auto values = read_array(y, ALL);
    const auto back = round_all<T>(values);
    const int infinity = ((1 << exponent) - 1) << mantissa;
    for (int i = 0; i < ALL; i++) {
        const int size = i & 0x7FFF;
        if (size < infinity) {
            CHECK(values[i] == value_of(i, exponent, mantissa) && !!signbit(values[i]) == (i >= 0x8000));
        } else {
            CHECK(size == infinity ? isinf(values[i]) : isnan(values[i]));
        }
        CHECK_INT(back[i], size > infinity ? 0x7FFF : i);
    }
}

template <class T> static void middles_go_to_the_even(int exponent, int mantissa)
{
    const int infinity = ((1 << exponent) - 1) << mantissa;
    std::vector<float> x;
    for (int i = 0; i < infinity; i++) {
        const double low = value_of(i, exponent, mantissa), high = value_of(i + 1, exponent, mantissa);
        const float middle = static_cast<float>((low + high) / 2);
        CHECK(middle == (low + high) / 2 || middle == INFINITY);
        for (const float v : {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)}) {
            x.push_back(v);
            x.push_back(-v);
        }
    }
    const auto got = round_all<T>(x);
    for (size_t k = 0; k < got.size(); k++) {
        const int i = static_cast<int>(k / 6), way = static_cast<int>(k % 6 / 2), sign = k % 2 ? 0x8000 : 0;
        CHECK_INT(got[k], sign | (way == 0 ? i : way == 2 ? i + 1 : i + i % 2));
    }
}

TEST(every_half_comes_back)
{
    every_value_comes_back<__half>(5, 10);
}

TEST(every_bfloat16_comes_back)
{
    every_value_comes_back<__nv_bfloat16>(8, 7);
}

TEST(halves_round_to_the_nearest_even)
{
    middles_go_to_the_even<__half>(5, 10);
}

TEST(bfloat16s_round_to_the_nearest_even)
{
    middles_go_to_the_even<__nv_bfloat16>(8, 7);
}

TEST(a_double_is_rounded_once)
{
    /* Just above the middle of 1 and its neighbour; as a float it would be the middle. */
    const std::vector<double> x = {1 + ldexp(1, -11) + ldexp(1, -40), 1 + 3 * ldexp(1, -11) - ldexp(1, -40),
                                   1e300};
    const double *dx = new_array_of(x);
    int n = static_cast<int>(x.size());
    unsigned short *y = new_array<unsigned short>(n);
    void *args[] = {&y, &dx, &n};
    CHECK_CUDA(cudaLaunchKernel(TD_KERNEL(rounded_double<__half>), dim3(1), dim3(32), args, 0, nullptr));
    const auto got = read_array(y, n);
    CHECK_INT(got[0], 0x3C01);
    CHECK_INT(got[1], 0x3C01);
    CHECK_INT(got[2], 0x7C00);
}

static __global__ void arithmetic(float *y)
{
    const __half a = __float2half(1.5f), b = __float2half(2049.0f);
    y[0] = __half2float(a * b);
    y[1] = __half2float(a + b);
    const __half2 two = __hadd2(__floats2half2_rn(1, 2), __half2half2(a));
    y[2] = __low2float(two) + 10 * __high2float(two);
    y[3] = __bfloat162float(__float2bfloat16(257.0f) - __float2bfloat16(1.0f));
    y[4] = a < b && !(a > b) && __hisnan(__float2half(NAN));
}

TEST(arithmetic_rounds_each_result)
{
    float *y = new_array<float>(5);
    void *args[] = {&y};
    CHECK_CUDA(cudaLaunchKernel(arithmetic, dim3(1), dim3(1), args, 0, nullptr));
    const auto got = read_array(y, 5);
    CHECK(got[0] == 3072 && got[1] == 2050 && got[2] == 2.5f + 35 && got[3] == 255 && got[4] == 1);
}

TEST_MAIN(RUN(every_half_comes_back) RUN(every_bfloat16_comes_back) RUN(halves_round_to_the_nearest_even)
              RUN(bfloat16s_round_to_the_nearest_even) RUN(a_double_is_rounded_once)
                  RUN(arithmetic_rounds_each_result))
