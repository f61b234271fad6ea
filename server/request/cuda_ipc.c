/* server/request/cuda_ipc.c - GPU memory of other processes, through the driver library that is there or not.
 *
 * The driver's functions are found by name, so that nothing of CUDA is needed to build or to start; the
 * library is loaded once, when first asked, and counts as absent unless every function is found. Each device
 * has its primary context, retained when first used and kept; a thread makes it its own before every call,
 * since requests come on any thread.
 *
 * What a handle opens is asked of the driver again: the size that a client claims must lie in the block that
 * it really is. Copies are synchronous and go through host memory.
 *
 * Locks: `mu` guards the table of contexts and is held for retaining only. Does not: run kernels, keep a list
 * of regions (server/request/shm.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/cuda_ipc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define MAX_DEVICES 64
#define LAZY_PEER_ACCESS 1u /* CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS */

struct handle {
    char bytes[TD_CUDA_HANDLE_BYTES];
};

/* cuda.h's functions; each returns 0 when it went well. */
static struct {
    int (*init)(unsigned flags);
    int (*count)(int *n);
    int (*device)(int *device, int i);
    int (*retain)(void **context, int device);
    int (*use)(void *context);
    int (*open)(uint64_t *at, struct handle h, unsigned flags);
    int (*close)(uint64_t at);
    int (*range)(uint64_t *base, size_t *size, uint64_t at);
    int (*to_host)(void *to, uint64_t from, size_t n);
    int (*to_device)(uint64_t to, const void *from, size_t n);
} cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards contexts */
static void *contexts[MAX_DEVICES];
static int n_devices;

static bool find(void *library, const char *name, void *function)
{
    void *at = dlsym(library, name);
    memcpy(function, &at, sizeof at);
    return at != NULL;
}

static void load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int n = 0;
    const bool whole =
        lib != NULL && find(lib, "cuInit", &cu.init) && find(lib, "cuDeviceGetCount", &cu.count) &&
        find(lib, "cuDeviceGet", &cu.device) && find(lib, "cuDevicePrimaryCtxRetain", &cu.retain) &&
        find(lib, "cuCtxSetCurrent", &cu.use) && find(lib, "cuIpcOpenMemHandle_v2", &cu.open) &&
        find(lib, "cuIpcCloseMemHandle", &cu.close) && find(lib, "cuMemGetAddressRange_v2", &cu.range) &&
        find(lib, "cuMemcpyDtoH_v2", &cu.to_host) && find(lib, "cuMemcpyHtoD_v2", &cu.to_device);
    if (whole && cu.init(0) == 0 && cu.count(&n) == 0) {
        n_devices = n < MAX_DEVICES ? n : MAX_DEVICES;
    }
}

int td_cuda_devices(void)
{
    (void)pthread_once(&once, load);
    return n_devices;
}

/* Makes the device the calling thread's. */
static bool use(int i)
{
    int device = 0;
    pthread_mutex_lock(&mu);
    if (contexts[i] == NULL && (cu.device(&device, i) != 0 || cu.retain(&contexts[i], device) != 0)) {
        contexts[i] = NULL;
    }
    void *context = contexts[i];
    pthread_mutex_unlock(&mu);
    return context != NULL && cu.use(context) == 0;
}

enum td_code td_cuda_open(const void *handle, size_t n, int64_t device, uint64_t byte_size,
                          struct td_cuda_block *out, struct td_err *err)
{
    struct handle h;
    struct td_cuda_block b = {0};
    uint64_t base = 0;
    size_t size = 0;
    TD_FAIL_IF(td_cuda_devices() == 0, err, UNIMPLEMENTED, "GPUs not supported");
    TD_FAIL_IF(device < 0 || device >= n_devices, err, INVALID_ARGUMENT, "device_id %lld, there are %d GPUs",
               (long long)device, n_devices);
    TD_FAIL_IF(n != sizeof h, err, INVALID_ARGUMENT, "raw_handle has %zu bytes, want %zu", n, sizeof h);
    memcpy(&h, handle, sizeof h);
    b.device = (int)device;
    TD_FAIL_IF(!use(b.device), err, UNAVAILABLE, "GPU %d cannot be used", b.device);
    const int rc = cu.open(&b.at, h, LAZY_PEER_ACCESS);
    TD_FAIL_IF(rc != 0 || b.at == 0, err, INVALID_ARGUMENT, "failed to open CUDA IPC handle: driver error %d",
               rc);
    const bool fits = cu.range(&base, &size, b.at) == 0 && b.at >= base && b.at - base <= size &&
                      byte_size > 0 && byte_size <= size - (b.at - base);
    if (!fits) {
        td_cuda_close(&b);
        TD_FAIL(err, INVALID_ARGUMENT,
                "invalid args: byte_size %llu does not lie in the %zu bytes of the handle",
                (unsigned long long)byte_size, size);
    }
    *out = b;
    return TD_OK;
}

void td_cuda_close(const struct td_cuda_block *b)
{
    if (b->at != 0 && use(b->device)) {
        (void)cu.close(b->at);
    }
}

void td_cuda_forget(int device)
{
    pthread_mutex_lock(&mu);
    if (device >= 0 && device < MAX_DEVICES) {
        contexts[device] = NULL;
    }
    pthread_mutex_unlock(&mu);
}

bool td_cuda_read(const struct td_cuda_block *b, uint64_t offset, void *to, uint64_t n)
{
    return use(b->device) && cu.to_host(to, b->at + offset, (size_t)n) == 0;
}

bool td_cuda_write(const struct td_cuda_block *b, uint64_t offset, const void *from, uint64_t n)
{
    return use(b->device) && cu.to_device(b->at + offset, from, (size_t)n) == 0;
}
