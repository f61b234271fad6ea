/* tests/host_cuda/host_cuda_streams_test.cu - streams, events, stream-ordered memory, graphs and errors keep
 * CUDA's promises. On a GPU the tests of limits and of failures do not apply.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/host_cuda.h"
#include "tests/host_cuda/kernel_macros.h"
#include "tests/host_cuda/run_kernels.h"

/* y [n] = y * a + b */
static __global__ void scale(float *y, float a, float b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = y[i] * a + b;
    }
}

static cudaError_t run_scale(float *y, float a, float b, int n, cudaStream_t s)
{
    void *args[] = {&y, &a, &b, &n};
    return cudaLaunchKernel(scale, dim3((n + 63) / 64), dim3(64), args, 0, s);
}

static cudaStream_t new_stream()
{
    cudaStream_t s;
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t new_event(unsigned flags = cudaEventDisableTiming)
{
    cudaEvent_t e;
    CHECK_CUDA(cudaEventCreateWithFlags(&e, flags));
    return e;
}

static void order(cudaStream_t first, cudaStream_t then)
{
    const cudaEvent_t e = new_event();
    CHECK_CUDA(cudaEventRecord(e, first));
    CHECK_CUDA(cudaStreamWaitEvent(then, e, 0));
    CHECK_CUDA(cudaEventDestroy(e)); /* what waits for it still does */
}

TEST(a_stream_keeps_its_order_and_events_order_streams)
{
    const int n = 300;
    const cudaStream_t a = new_stream(), b = new_stream();
    float *y = nullptr;
    std::vector<float> got(n);
    for (int round = 0; round < 10; round++) {
        CHECK_CUDA(cudaMallocAsync(&y, n * sizeof *y, a));
        CHECK_CUDA(cudaMemsetAsync(y, 0, n * sizeof *y, a));
        for (int i = 0; i < 5; i++) {
            CHECK_CUDA(run_scale(y, 2, 1, n, a));
            order(a, b);
            CHECK_CUDA(run_scale(y, 3, 0, n, b));
            order(b, a);
        }
        CHECK_CUDA(cudaMemcpyAsync(got.data(), y, n * sizeof *y, cudaMemcpyDeviceToHost, a));
        CHECK_CUDA(cudaFreeAsync(y, a));
        float want = 0;
        for (int i = 0; i < 5; i++) {
            want = (want * 2 + 1) * 3;
        }
        CHECK(got[0] == want && got[n - 1] == want); /* into pageable memory: done by now */
    }
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
}

TEST(pinned_memory_is_read_by_the_queue_and_pageable_memory_at_the_call)
{
    const cudaStream_t s = new_stream();
    float *pinned, *y = new_array<float>(2);
    CHECK_CUDA(cudaMallocHost(&pinned, 2 * sizeof(float)));
    float pageable = 5;
    CHECK_CUDA(cudaMemcpyAsync(y, &pageable, sizeof pageable, cudaMemcpyHostToDevice, s));
    pageable = 6;
    CHECK_CUDA(run_scale(y, 10, 0, 1, s));
    pinned[0] = 7;
    CHECK_CUDA(cudaMemcpyAsync(y + 1, pinned, sizeof *pinned, cudaMemcpyHostToDevice, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK_CUDA(cudaMemcpyAsync(pinned, y, 2 * sizeof *pinned, cudaMemcpyDeviceToHost, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK(pinned[0] == 50 && pinned[1] == 7);
    CHECK_CUDA(cudaFreeHost(pinned));
}

static void count(void *data)
{
    ++*static_cast<int *>(data);
}

TEST(host_functions_run_in_order_and_events_tell_time)
{
    const cudaStream_t s = new_stream();
    const cudaEvent_t begin = new_event(cudaEventDefault), end = new_event(cudaEventDefault);
    int calls = 0;
    float ms = -1;
    CHECK_CUDA(cudaEventRecord(begin, s));
    CHECK_CUDA(cudaLaunchHostFunc(s, count, &calls));
    CHECK_CUDA(cudaLaunchHostFunc(s, count, &calls));
    CHECK_CUDA(cudaEventRecord(end, s));
    CHECK_CUDA(cudaEventSynchronize(end));
    CHECK_INT(calls, 2);
    CHECK_CUDA(cudaEventQuery(end));
    CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
    CHECK(ms >= 0 && ms < 10000);
    CHECK_CUDA(cudaEventDestroy(begin));
    CHECK_CUDA(cudaEventDestroy(end));
}

TEST(the_legacy_stream_waits_for_blocking_streams_and_they_for_it)
{
    cudaStream_t s;
    CHECK_CUDA(cudaStreamCreate(&s));
    float *y = new_array_of(std::vector<float>(64));
    for (int i = 0; i < 4; i++) {
        CHECK_CUDA(run_scale(y, 2, 1, 64, s));
        CHECK_CUDA(run_scale(y, 3, 0, 64, nullptr));
    }
    CHECK_INT(read_array(y, 64)[63], 777);
}

TEST(rows_are_copied_by_their_pitch)
{
    std::vector<float> x(6 * 4), got(3 * 4);
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = static_cast<float>(i);
    }
    float *y = new_array_of(x);
    CHECK_CUDA(cudaMemcpy2DAsync(got.data(), 12, y, 24, 12, 4, cudaMemcpyDeviceToHost, nullptr));
    for (int i = 0; i < 12; i++) {
        CHECK_INT(got[i], i / 3 * 6 + i % 3);
    }
}

TEST(a_captured_graph_is_replayed_with_the_arguments_of_its_capture)
{
    const int n = 200;
    const cudaStream_t a = new_stream(), b = new_stream();
    float *x = new_array_of(std::vector<float>(n)), *y = new_array_of(std::vector<float>(n));
    CHECK_CUDA(cudaDeviceSynchronize());
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    CHECK_CUDA(run_scale(x, 1, 1, n, a)); /* x += 1 */
    order(a, b);
    CHECK_CUDA(run_scale(x, 2, 0, n, a)); /* x *= 2 */
    CHECK_CUDA(run_scale(y, 1, 3, n, b)); /* y += 3, at any time */
    order(b, a);
    CHECK_CUDA(cudaMemcpyAsync(y, x, sizeof *x, cudaMemcpyDeviceToDevice, a)); /* y[0] = x[0] */
    CHECK_CUDA(cudaStreamEndCapture(a, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK_INT(read_array(x, 1)[0], 0);
    for (int i = 0; i < 4; i++) {
        CHECK_CUDA(cudaGraphLaunch(exec, b));
    }
    const auto gx = read_array(x, n), gy = read_array(y, n);
    CHECK(gx[0] == 30 && gx[n - 1] == 30 && gy[0] == 30 && gy[n - 1] == 12);
    CHECK_CUDA(cudaGraphExecDestroy(exec));
}

TEST(what_a_capture_does_not_permit_spoils_it)
{
    const cudaStream_t a = new_stream(), b = new_stream();
    cudaGraph_t graph;
    float *y = new_array<float>(64);
    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK_ERROR(cudaStreamSynchronize(a), cudaErrorStreamCaptureUnsupported);
    enum cudaStreamCaptureStatus status;
    CHECK_CUDA(cudaStreamIsCapturing(a, &status));
    CHECK_INT(status, cudaStreamCaptureStatusInvalidated);
    CHECK_ERROR(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    order(a, b);
    CHECK_CUDA(run_scale(y, 1, 1, 64, b));
    CHECK_ERROR(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureUnjoined);
    CHECK_CUDA(run_scale(y, 1, 1, 64, a));
    CHECK_CUDA(cudaStreamSynchronize(a));
}

TEST(launches_beyond_the_limits_are_refused)
{
    float *y = new_array<float>(64);
    float a = 1, b = 0;
    int n = 0;
    void *args[] = {&y, &a, &b, &n};
    CHECK_ERROR(cudaLaunchKernel(scale, dim3(1), dim3(1025), args, 0, nullptr),
                cudaErrorInvalidConfiguration);
    CHECK_ERROR(cudaLaunchKernel(scale, dim3(0), dim3(32), args, 0, nullptr), cudaErrorInvalidConfiguration);
    CHECK_ERROR(cudaLaunchKernel(scale, dim3(1, 65536), dim3(32), args, 0, nullptr),
                cudaErrorInvalidConfiguration);
    CHECK_ERROR(cudaLaunchKernel(scale, dim3(1), dim3(32), args, 64 << 10, nullptr), cudaErrorInvalidValue);
    CHECK_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    CHECK_CUDA(cudaLaunchKernel(scale, dim3(1), dim3(32), args, 64 << 10, nullptr));
    CHECK_CUDA(cudaDeviceSynchronize());
}

TEST(memory_ends_at_the_limit)
{
    host_cuda_set("HOST_CUDA_MEMORY", "1000000");
    size_t left, all;
    void *a, *b;
    CHECK_CUDA(cudaMalloc(&a, 600000));
    CHECK_ERROR(cudaMalloc(&b, 600000), cudaErrorMemoryAllocation);
    CHECK(b == NULL);
    CHECK_ERROR(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_CUDA(cudaMemGetInfo(&left, &all));
    CHECK(left == 400000 && all == 1000000);
    CHECK_CUDA(cudaFreeAsync(a, nullptr));
    CHECK_CUDA(cudaMallocAsync(&b, 1000000, nullptr));
    CHECK_CUDA(cudaFree(b));
    CHECK_ERROR(cudaFree(b), cudaErrorInvalidValue);
}

TEST(a_failure_sticks)
{
    float *y = new_array_of(std::vector<float>(64));
    host_cuda_fail(cudaErrorLaunchFailure);
    CHECK_CUDA(run_scale(y, 1, 1, 64, nullptr));
    CHECK_ERROR(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    void *more;
    CHECK_ERROR(cudaMalloc(&more, 8), cudaErrorLaunchFailure);
    CHECK_ERROR(cudaGetLastError(), cudaErrorLaunchFailure);
    CHECK_ERROR(cudaGetLastError(), cudaErrorLaunchFailure);
    host_cuda_reset();
    CHECK_CUDA(cudaMalloc(&more, 8));
    CHECK_INT(read_array(y, 64)[5], 0); /* what failed did nothing */
}

/* All that it had is gone, the error with it, and it works. */
TEST(a_reset_gives_a_device_a_new_context)
{
    size_t left, all;
    float *pinned, *y = new_array_of(std::vector<float>(64));
    const cudaStream_t before = new_stream();
    CHECK_CUDA(cudaMallocHost(&pinned, 4096));
    CHECK_CUDA(run_scale(y, 1, 1, 64, before));
    CHECK_CUDA(cudaStreamSynchronize(before));
    host_cuda_fail(cudaErrorIllegalAddress);
    CHECK_CUDA(run_scale(y, 1, 1, 64, before));
    CHECK_ERROR(cudaStreamSynchronize(before), cudaErrorIllegalAddress);
    CHECK_CUDA(cudaDeviceReset());
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaMemGetInfo(&left, &all));
    CHECK(left == all);
    const cudaStream_t after = new_stream();
    y = new_array_of(std::vector<float>(64, 2));
    CHECK_CUDA(run_scale(y, 3, 1, 64, after));
    CHECK_CUDA(cudaStreamSynchronize(after));
    CHECK_INT(read_array(y, 64)[5], 7);
    CHECK_CUDA(cudaStreamDestroy(after));
    CHECK_CUDA(cudaFree(y));
    CHECK_INT(host_cuda_reports(), 0);
}

TEST_MAIN(RUN(a_stream_keeps_its_order_and_events_order_streams)
              RUN(pinned_memory_is_read_by_the_queue_and_pageable_memory_at_the_call)
                  RUN(host_functions_run_in_order_and_events_tell_time)
                      RUN(the_legacy_stream_waits_for_blocking_streams_and_they_for_it)
                          RUN(rows_are_copied_by_their_pitch)
                              RUN(a_captured_graph_is_replayed_with_the_arguments_of_its_capture)
                                  RUN(what_a_capture_does_not_permit_spoils_it)
                                      RUN(launches_beyond_the_limits_are_refused)
                                          RUN(memory_ends_at_the_limit) RUN(a_failure_sticks)
                                              RUN(a_reset_gives_a_device_a_new_context))
