/* tests/fake_cuda.c - stands in for NVIDIA's driver (libcuda.so.1) where there is no GPU: memory "on the device" is
 * that of a POSIX shared memory object, and a handle is its name. So the server's side of CUDA shared memory is
 * tried with all that comes before the driver; what a real one does is not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAX_OPEN 16

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201 };

struct handle {
    char name[64];
};

static struct {
    char *at;
    size_t size;
} blocks[MAX_OPEN];
static __thread void *current;

API int cuInit(unsigned flags)
{
    return flags == 0 ? SUCCESS : INVALID_VALUE;
}

API int cuDeviceGetCount(int *n)
{
    *n = 1;
    return SUCCESS;
}

API int cuDeviceGet(int *device, int i)
{
    *device = i;
    return i == 0 ? SUCCESS : INVALID_VALUE;
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

API int cuIpcOpenMemHandle_v2(uint64_t *at, struct handle h, unsigned flags)
{
    struct stat st;
    int i = 0;
    const int fd = flags == 1 && h.name[0] == '/' && memchr(h.name, 0, sizeof h.name) != NULL
                       ? shm_open(h.name, O_RDWR, 0)
                       : -1;
    while (i < MAX_OPEN && blocks[i].at != NULL) {
        i++;
    }
    void *p = current != NULL && i < MAX_OPEN && fd >= 0 && fstat(fd, &st) == 0
                  ? mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                  : MAP_FAILED;
    if (fd >= 0) {
        close(fd);
    }
    if (p == MAP_FAILED) {
        return INVALID_VALUE;
    }
    blocks[i].at = p;
    blocks[i].size = (size_t)st.st_size;
    *at = (uint64_t)(uintptr_t)p;
    return SUCCESS;
}

static int find(uint64_t at)
{
    for (int i = 0; i < MAX_OPEN; i++) {
        const uint64_t from = (uint64_t)(uintptr_t)blocks[i].at;
        if (from != 0 && at >= from && at - from < blocks[i].size) {
            return i;
        }
    }
    return -1;
}

API int cuIpcCloseMemHandle(uint64_t at)
{
    const int i = find(at);
    if (i < 0) {
        return INVALID_VALUE;
    }
    munmap(blocks[i].at, blocks[i].size);
    blocks[i].at = NULL;
    return SUCCESS;
}

API int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t at)
{
    const int i = find(at);
    if (i < 0) {
        return INVALID_VALUE;
    }
    *base = (uint64_t)(uintptr_t)blocks[i].at;
    *size = blocks[i].size;
    return SUCCESS;
}

API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n)
{
    if (current == NULL || find(from) < 0) {
        return INVALID_CONTEXT;
    }
    memcpy(to, (const void *)(uintptr_t)from, n);
    return SUCCESS;
}

API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n)
{
    if (current == NULL || find(to) < 0) {
        return INVALID_CONTEXT;
    }
    memcpy((void *)(uintptr_t)to, from, n);
    return SUCCESS;
}
