/* kernels/cuda/runtime.cu - runtime.h on CUDA's runtime library. A thread's current device is set before each
 * call: threads serve many models, and setting what is set costs nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/runtime.h"

#include <cuda_runtime.h>

#include <cstring>

namespace
{

cudaStream_t of(td_cuda_stream *s)
{
    return reinterpret_cast<cudaStream_t>(s);
}

cudaEvent_t of(td_cuda_event *e)
{
    return reinterpret_cast<cudaEvent_t>(e);
}

/* An error that only this call had is taken off the thread, so that no launch finds it. */
int said(cudaError_t error)
{
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
    }
    return static_cast<int>(error);
}

/* f on the device. */
template <class F> int on(int device, F f)
{
    const cudaError_t error = cudaSetDevice(device);
    return said(error == cudaSuccess ? f() : error);
}

} // namespace

const char *td_cuda_error_name(int error)
{
    return cudaGetErrorName(static_cast<cudaError_t>(error));
}

const char *td_cuda_error_text(int error)
{
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}

bool td_cuda_is_memory(int error)
{
    return error == cudaErrorMemoryAllocation;
}

/* Of an error that stays, CUDA tells with every later call; the process cannot use the device any more. */
bool td_cuda_is_sticky(int error)
{
    return error == cudaErrorIllegalAddress || error == cudaErrorLaunchFailure ||
           error == cudaErrorLaunchTimeout || error == cudaErrorHardwareStackError ||
           error == cudaErrorIllegalInstruction || error == cudaErrorMisalignedAddress ||
           error == cudaErrorInvalidAddressSpace || error == cudaErrorInvalidPc || error == cudaErrorAssert ||
           error == cudaErrorECCUncorrectable;
}

int td_cuda_count(int *error)
{
    int n = 0;
    *error = static_cast<int>(cudaGetDeviceCount(&n));
    if (*error != cudaSuccess) {
        (void)cudaGetLastError();
        n = 0;
    }
    return n;
}

void td_cuda_versions(int *driver, int *built, int *capability)
{
    *driver = 0;
    (void)said(cudaDriverGetVersion(driver));
    *built = CUDART_VERSION;
    *capability = 80;
}

int td_cuda_use(int device)
{
    return static_cast<int>(cudaSetDevice(device));
}

int td_cuda_describe(int device, struct td_cuda_facts *out)
{
    cudaDeviceProp p;
    size_t unused = 0, all;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    error = error != cudaSuccess ? error : cudaSetDevice(device);
    error = error != cudaSuccess ? error : cudaMemGetInfo(&unused, &all);
    if (error == cudaSuccess) {
        memcpy(out->name, p.name, sizeof out->name);
        out->name[sizeof out->name - 1] = '\0';
        out->memory = p.totalGlobalMem;
        out->unused = unused;
        out->multiprocessors = p.multiProcessorCount;
        out->major = p.major;
        out->minor = p.minor;
    }
    return said(error);
}

int td_cuda_allocate(int device, td_cuda_stream *stream, size_t bytes, void **out)
{
    return on(device, [&] { return cudaMallocAsync(out, bytes, of(stream)); });
}

int td_cuda_free(int device, td_cuda_stream *stream, void *p)
{
    return on(device, [&] { return cudaFreeAsync(p, of(stream)); });
}

int td_cuda_keep(int device, uint64_t bytes)
{
    return on(device, [&] {
        cudaMemPool_t pool;
        const cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, device);
        return error == cudaSuccess ? cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes)
                                    : error;
    });
}

int td_cuda_trim(int device)
{
    return on(device, [&] {
        cudaMemPool_t pool;
        const cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, device);
        return error == cudaSuccess ? cudaMemPoolTrimTo(pool, 0) : error;
    });
}

int td_cuda_copy(int device, td_cuda_stream *stream, enum td_cuda_copy which, void *dst, const void *src,
                 size_t bytes)
{
    static const cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                           cudaMemcpyDeviceToDevice};
    return on(device, [&] { return cudaMemcpyAsync(dst, src, bytes, kinds[which], of(stream)); });
}

int td_cuda_stream_new(int device, td_cuda_stream **out)
{
    return on(device, [&] {
        return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t *>(out), cudaStreamNonBlocking);
    });
}

int td_cuda_stream_wait(int device, td_cuda_stream *stream)
{
    return on(device, [&] { return cudaStreamSynchronize(of(stream)); });
}

int td_cuda_stream_free(td_cuda_stream *stream)
{
    return said(cudaStreamDestroy(of(stream)));
}

int td_cuda_event_new(int device, td_cuda_event **out)
{
    return on(device, [&] {
        return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t *>(out),
                                        cudaEventDisableTiming | cudaEventBlockingSync);
    });
}

int td_cuda_event_record(int device, td_cuda_event *event, td_cuda_stream *stream)
{
    return on(device, [&] { return cudaEventRecord(of(event), of(stream)); });
}

int td_cuda_event_wait(int device, td_cuda_event *event)
{
    return on(device, [&] { return cudaEventSynchronize(of(event)); });
}

int td_cuda_event_free(td_cuda_event *event)
{
    return said(cudaEventDestroy(of(event)));
}
