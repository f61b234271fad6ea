/* tests/host_cuda/device.cc - what there is and what it says of itself: an imagined device of compute
 * capability 8.0 with as many multiprocessors as workers; and the tests' hooks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/device.h"

#include "tests/host_cuda/block.h"
#include "tests/host_cuda/memory.h"
#include "tests/host_cuda/host_cuda.h"
#include "tests/host_cuda/settings.h"

#include <atomic>
#include <cstdio>

namespace host_cuda
{

static thread_local int device_of_thread;
static std::atomic<unsigned> resets[MAX_DEVICES];

int current_device()
{
    return device_of_thread;
}

unsigned context_of(int device)
{
    return resets[device];
}

cudaError_t used_when_gone(const char *what)
{
    report(current_device(), cudaErrorIllegalAddress,
           text("%s is used that went when its device was reset", what));
    return cudaErrorContextIsDestroyed;
}

static bool is_device(int device)
{
    return device >= 0 && device < config().devices;
}

} // namespace host_cuda

using namespace host_cuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = config().devices;
    return note(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (!is_device(device)) {
        return note(cudaErrorInvalidDevice);
    }
    device_of_thread = device;
    return sticky(device);
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned)
{
    return is_device(device) ? cudaSuccess : note(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (!is_device(device)) {
        return note(cudaErrorInvalidDevice);
    }
    *prop = {};
    snprintf(prop->name, sizeof prop->name, "CUDA on the host (for tests) %d", device);
    prop->totalGlobalMem = config().memory;
    prop->sharedMemPerBlock = SHARED;
    prop->sharedMemPerBlockOptin = SHARED_OPT_IN;
    prop->sharedMemPerMultiprocessor = SHARED_PROCESSOR;
    prop->regsPerBlock = 65536;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = MAX_THREADS;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = MAX_THREADS;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7FFFFFFF;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 0xFFFF;
    prop->major = device == config().old ? 7 : 8;
    prop->pciBusID = device + 1;
    prop->multiProcessorCount = config().workers;
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->concurrentKernels = 1;
    prop->l2CacheSize = 1 << 20;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    if (!is_device(device)) {
        return note(cudaErrorInvalidDevice);
    }
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = MAX_THREADS;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = SHARED;
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = config().workers;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 8;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = SHARED_OPT_IN;
        break;
    case cudaDevAttrMemoryPoolsSupported:
        *value = 1;
        break;
    default:
        return note(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = config().driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* An error that stays is no reason to refuse, unless HOST_CUDA_RESETS says so. */
cudaError_t cudaDeviceReset(void)
{
    const quiet q;
    const int device = current_device();
    if (in_callback() || (!config().resets && sticky(device) != cudaSuccess)) {
        return note(in_callback() ? cudaErrorNotPermitted : sticky(device));
    }
    locked l(mu);
    end_streams(l, device);
    end_events(device);
    end_graphs(device);
    end_allocations(device);
    set_sticky(device, cudaSuccess);
    resets[device]++;
    return cudaSuccess;
}

void host_cuda_fail(cudaError_t error)
{
    const quiet q;
    const locked l(mu);
    fail_later(current_device(), error);
}

void host_cuda_reset(void)
{
    host_cuda_fail(cudaSuccess);
    set_sticky(current_device(), cudaSuccess);
    cudaGetLastError();
}
}
