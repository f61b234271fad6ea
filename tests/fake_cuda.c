/* tests/fake_cuda.c - stands in for NVIDIA's driver (libcuda.so.1) where there is no GPU: memory "on the
 * device" is that of a POSIX shared memory object, and a handle is its name. So the server's side of CUDA
 * shared memory is tried with all that comes before the driver; what a real one does is not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAX_OPEN 16

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, NOT_FOUND = 500 };

struct handle {
    char name[64];
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* a driver may be called on any thread */
static struct {
    char *at;
    size_t size;
} blocks[MAX_OPEN]; /* under mu */
/* In the threads' own block: ThreadSanitizer takes the end of a block that is allocated later for a race. */
static __thread void *current __attribute__((tls_model("initial-exec")));

API int cuInit(unsigned flags)
{
    return flags == 0 ? SUCCESS : INVALID_VALUE;
}

/* What NVIDIA's libraries ask of each other: there is none of it, and NVRTC does without. */
API int cuGetExportTable(const void **table, const void *id)
{
    *table = NULL;
    return id == NULL ? INVALID_VALUE : NOT_FOUND;
}

API int cuDeviceGetCount(int *n)
{
    *n = 1;
    return SUCCESS;
}

API int cuDeviceGet(int *device, int i)
{
    *device = i;
    return i >= 0 && i < MAX_OPEN ? SUCCESS : INVALID_VALUE;
}

/* FAKE_CUDA_MIG: it is a part of a GPU, and that is what the second version tells. */
static int tell_uuid(unsigned char uuid[16], int device, bool part)
{
    memset(uuid, 0, 16);
    uuid[0] = part && getenv("FAKE_CUDA_MIG") != NULL ? 0xA1 : 0;
    uuid[15] = (unsigned char)device;
    return SUCCESS;
}

API int cuDeviceGetUuid(unsigned char uuid[16], int device)
{
    return tell_uuid(uuid, device, false);
}

API int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
    return tell_uuid(uuid, device, true);
}

API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = &blocks[device];
    return SUCCESS;
}

API int cuCtxSetCurrent(void *context)
{
    current = context;
    return SUCCESS;
}

/* False when there is no more room. */
static bool keep(char *p, size_t size)
{
    int i = 0;
    pthread_mutex_lock(&mu);
    while (i < MAX_OPEN && blocks[i].at != NULL) {
        i++;
    }
    if (i < MAX_OPEN) {
        blocks[i].at = p;
        blocks[i].size = size;
    }
    pthread_mutex_unlock(&mu);
    return i < MAX_OPEN;
}

API int cuIpcOpenMemHandle_v2(uint64_t *at, struct handle h, unsigned flags)
{
    struct stat st;
    const int fd = flags == 1 && h.name[0] == '/' && memchr(h.name, 0, sizeof h.name) != NULL
                       ? shm_open(h.name, O_RDWR, 0)
                       : -1;
    void *p = current != NULL && fd >= 0 && fstat(fd, &st) == 0
                  ? mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                  : MAP_FAILED;
    if (fd >= 0) {
        close(fd);
    }
    if (p == MAP_FAILED) {
        return INVALID_VALUE;
    }
    if (!keep(p, (size_t)st.st_size)) {
        munmap(p, (size_t)st.st_size);
        return INVALID_VALUE;
    }
    *at = (uint64_t)(uintptr_t)p;
    return SUCCESS;
}

/* The block that holds `at`; forgotten where it is taken. */
static bool find(uint64_t at, bool take, char **base, size_t *size)
{
    bool found = false;
    pthread_mutex_lock(&mu);
    for (int i = 0; i < MAX_OPEN && !found; i++) {
        const uint64_t from = (uint64_t)(uintptr_t)blocks[i].at;
        found = from != 0 && at >= from && at - from < blocks[i].size;
        if (found) {
            *base = blocks[i].at;
            *size = blocks[i].size;
            blocks[i].at = take ? NULL : blocks[i].at;
        }
    }
    pthread_mutex_unlock(&mu);
    return found;
}

API int cuIpcCloseMemHandle(uint64_t at)
{
    char *base;
    size_t size;
    if (!find(at, true, &base, &size)) {
        return INVALID_VALUE;
    }
    munmap(base, size);
    return SUCCESS;
}

API int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t at)
{
    char *from;
    if (!find(at, false, &from, size)) {
        return INVALID_VALUE;
    }
    *base = (uint64_t)(uintptr_t)from;
    return SUCCESS;
}

static bool is_mapped(uint64_t at)
{
    char *base;
    size_t size;
    return current != NULL && find(at, false, &base, &size);
}

API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n)
{
    if (!is_mapped(from)) {
        return INVALID_CONTEXT;
    }
    memcpy(to, (const void *)(uintptr_t)from, n);
    return SUCCESS;
}

API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n)
{
    if (!is_mapped(to)) {
        return INVALID_CONTEXT;
    }
    memcpy((void *)(uintptr_t)to, from, n);
    return SUCCESS;
}
