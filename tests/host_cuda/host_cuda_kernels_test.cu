/* tests/host_cuda/host_cuda_kernels_test.cu - kernels of the usual kinds give what plain loops give: sizes
 * that fill no block, shared memory, barriers, shuffles, votes, atomics.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/kernel_macros.h"
#include "tests/host_cuda/run_kernels.h"

constexpr unsigned ALL = 0xFFFFFFFFu;

static std::vector<float> ramp(size_t n)
{
    std::vector<float> v(n);
    for (size_t i = 0; i < n; i++) {
        v[i] = static_cast<float>(i % 97) - 40;
    }
    return v;
}

/* a [n]  b [n]  ->  c [n] */
static __global__ void add(float *c, const float *a, const float *b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

TEST(vectors_are_added)
{
    int n = 1000;
    const auto a = ramp(n);
    const float *da = new_array_of(a), *db = new_array_of(a);
    float *dc = new_array<float>(n);
    void *args[] = {&dc, &da, &db, &n};
    CHECK_CUDA(cudaLaunchKernel(add, dim3(8), dim3(128), args, 0, nullptr));
    n = 0; /* copied at the call */
    const auto c = read_array(dc, 1000);
    for (int i = 0; i < 1000; i++) {
        CHECK(c[i] == 2 * a[i]);
    }
}

/* x [rows,columns]  ->  y [columns,rows] */
template <class T> static __global__ void transpose(T *y, const T *x, int rows, int columns)
{
    __shared__ T tile[32][33];
    const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) {
        if (c < columns && r + i < rows) {
            tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * columns + c];
        }
    }
    __syncthreads();
    const int to_c = blockIdx.y * 32 + threadIdx.x, to_r = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) {
        if (to_c < rows && to_r + i < columns) {
            y[(to_r + i) * rows + to_c] = tile[threadIdx.x][threadIdx.y + i];
        }
    }
}

TEST(a_matrix_is_transposed_by_tiles)
{
    int rows = 70, columns = 45;
    const auto x = ramp(rows * columns);
    const float *dx = new_array_of(x);
    float *dy = new_array<float>(rows * columns);
    void *args[] = {&dy, &dx, &rows, &columns};
    CHECK_CUDA(cudaLaunchKernel(TD_KERNEL(transpose<float>), dim3(2, 3), dim3(32, 8), args, 0, nullptr));
    const auto y = read_array(dy, rows * columns);
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            CHECK(y[c * rows + r] == x[r * columns + c]);
        }
    }
    cudaFuncAttributes facts;
    CHECK_CUDA(cudaFuncGetAttributes(&facts, transpose<float>));
    CHECK_INT(facts.sharedSizeBytes, 32 * 33 * 4);
}

/* x [n]  ->  sum [1], by one block */
static __global__ void sum(float *y, const float *x, int n)
{
    __shared__ float part[32];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        s += x[i];
    }
    for (int d = 16; d > 0; d /= 2) {
        s += __shfl_down_sync(ALL, s, d);
    }
    if (threadIdx.x % 32 == 0) {
        part[threadIdx.x / 32] = s;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int d = 16; d > 0; d /= 2) {
            s += __shfl_xor_sync(ALL, s, d);
        }
        if (threadIdx.x == 0) {
            *y = s;
        }
    }
}

TEST(a_block_sums_by_shuffles)
{
    int n = 5000;
    const auto x = ramp(n);
    float want = 0; /* exact: small whole numbers */
    for (const float v : x) {
        want += v;
    }
    const float *dx = new_array_of(x);
    float *dy = new_array<float>(1);
    void *args[] = {&dy, &dx, &n};
    CHECK_CUDA(cudaLaunchKernel(sum, dim3(1), dim3(256), args, 0, nullptr));
    CHECK_INT(read_array(dy, 1)[0], want);
}

/* x [n] of 0 .. 9  ->  counts [10] */
static __global__ void histogram(unsigned *counts, const int *x, int n)
{
    TD_DYNAMIC_SHARED(unsigned, mine);
    if (threadIdx.x < 10) {
        mine[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&mine[x[i]], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 10) {
        atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
    }
}

TEST(a_histogram_counts_by_atomics_in_dynamic_shared_memory)
{
    int n = 3000;
    std::vector<int> x(n);
    std::vector<unsigned> want(10);
    for (int i = 0; i < n; i++) {
        x[i] = i * i % 10;
        want[x[i]]++;
    }
    const int *dx = new_array_of(x);
    unsigned *counts = new_array<unsigned>(10);
    CHECK_CUDA(cudaMemsetAsync(counts, 0, 10 * sizeof *counts, nullptr));
    void *args[] = {&counts, &dx, &n};
    CHECK_CUDA(cudaLaunchKernel(histogram, dim3(4), dim3(96), args, 10 * sizeof(unsigned), nullptr));
    const auto got = read_array(counts, 10);
    for (int i = 0; i < 10; i++) {
        CHECK_INT(got[i], want[i]);
    }
}

/* Each thread's answers of the calls by which threads meet. */
static __global__ void meet(int *y)
{
    const int i = threadIdx.x;
    int *const mine = y + i * 8;
    mine[0] = __syncthreads_count(i % 3 == 0);
    mine[1] = __syncthreads_and(i < 40);
    mine[2] = __syncthreads_or(i == 5);
    if (i >= 32) {
        return;
    }
    mine[3] = static_cast<int>(__ballot_sync(ALL, i % 2));
    mine[4] = __shfl_up_sync(ALL, i, 1, 8);
    mine[5] = __shfl_sync(ALL, i, 3, 16);
    if (i < 8) {
        mine[6] = __any_sync(0xFFu, i == 7) + 2 * __all_sync(0xFFu, i < 8);
        mine[7] = static_cast<int>(__shfl_xor_sync(0xFFu, 1000000000000ll + i, 1) - 1000000000000ll);
    }
}

TEST(votes_and_shuffles_answer)
{
    int *y = new_array<int>(40 * 8);
    void *args[] = {&y};
    CHECK_CUDA(cudaLaunchKernel(meet, dim3(1), dim3(40), args, 0, nullptr));
    const auto got = read_array(y, 40 * 8);
    for (int i = 0; i < 40; i++) {
        const int *const mine = &got[i * 8];
        CHECK_INT(mine[0], 14);
        CHECK(mine[1] != 0 && mine[2] != 0);
        if (i < 32) {
            CHECK_INT(static_cast<unsigned>(mine[3]), 0xAAAAAAAAu);
            CHECK_INT(mine[4], i % 8 == 0 ? i : i - 1);
            CHECK_INT(mine[5], i / 16 * 16 + 3);
        }
        if (i < 8) {
            CHECK_INT(mine[6], 3);
            CHECK_INT(mine[7], i ^ 1);
        }
    }
}

/* Blocks write, the last one to be done reads: what fences are for. */
static __global__ void last_block_sums(float *y, float *parts, unsigned *n_done, int one)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = static_cast<float>(blockIdx.x + one);
        __threadfence();
        last = atomicInc(n_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        *y = 0;
        for (unsigned i = 0; i < gridDim.x; i++) {
            *y += parts[i];
        }
    }
}

TEST(the_last_block_sees_what_the_others_fenced)
{
    float *y = new_array<float>(1), *parts = new_array<float>(50);
    unsigned *n_done = new_array_of(std::vector<unsigned>(1));
    int one = 1;
    void *args[] = {&y, &parts, &n_done, &one};
    CHECK_CUDA(cudaLaunchKernel(last_block_sums, dim3(50), dim3(32), args, 0, nullptr));
    CHECK_INT(read_array(y, 1)[0], 50 * 51 / 2);
    CHECK_INT(read_array(n_done, 1)[0], 0);
}

static __global__ void atomics(int *i, unsigned *u, float *f, double *d, unsigned long long *l)
{
    const int t = threadIdx.x;
    atomicMax(&i[0], t);
    atomicMin(&i[1], -t);
    atomicAdd(&i[2], -1);
    atomicOr(&u[0], 1u << (t % 32));
    atomicAnd(&u[1], ~(1u << (t % 32)));
    if (atomicCAS(&u[2], 0u, 7u) == 0u) {
        atomicExch(&u[3], 99u);
    }
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicAdd(l, 1ull << 33);
}

TEST(atomics_of_every_type_count)
{
    int *i = new_array_of(std::vector<int>(3));
    unsigned *u = new_array_of(std::vector<unsigned>{0, 0xFFFFFFFFu, 0, 0});
    float *f = new_array_of(std::vector<float>(1));
    double *d = new_array_of(std::vector<double>(1));
    unsigned long long *l = new_array_of(std::vector<unsigned long long>(1));
    void *args[] = {&i, &u, &f, &d, &l};
    CHECK_CUDA(cudaLaunchKernel(atomics, dim3(1), dim3(64), args, 0, nullptr));
    const auto gi = read_array(i, 3);
    const auto gu = read_array(u, 4);
    CHECK(gi[0] == 63 && gi[1] == -63 && gi[2] == -64);
    CHECK(gu[0] == 0xFFFFFFFFu && gu[1] == 0 && gu[2] == 7 && gu[3] == 99);
    CHECK(read_array(f, 1)[0] == 32 && read_array(d, 1)[0] == 16);
    CHECK(read_array(l, 1)[0] == 64ull << 33);
}

TEST_MAIN(RUN(vectors_are_added) RUN(a_matrix_is_transposed_by_tiles) RUN(a_block_sums_by_shuffles)
              RUN(a_histogram_counts_by_atomics_in_dynamic_shared_memory) RUN(votes_and_shuffles_answer)
                  RUN(the_last_block_sees_what_the_others_fenced) RUN(atomics_of_every_type_count))
