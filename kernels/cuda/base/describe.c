/* kernels/cuda/base/describe.c - what runtime.h says of the driver and its devices, as the engine has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/describe.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/base/device.h"
#include "kernels/cuda/base/runtime.h"

/* ------------------------------------------------------------------ its uuid */

/* Of a part of a GPU (MIG) the first version of the driver's function gives the GPU's, and the second the
 * part's; of a whole one both the same. CUDA's runtime has one of them, and does not say which. */
struct uuid_calls {
    int (*device)(int *device, int number);
    int (*of_gpu)(unsigned char uuid[16], int device);
    int (*of_part)(unsigned char uuid[16], int device);
};

static bool find(void *library, const char *name, void *function)
{
    void *at = dlsym(library, name);
    memcpy(function, &at, sizeof at);
    return at != NULL;
}

static void write_uuid(char out[48], const char *kind, const unsigned char u[16])
{
    (void)snprintf(out, 48, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", kind,
                   u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
                   u[14], u[15]);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct uuid_calls call;
static bool can_tell;

/* The driver's library stays: the runtime has it open for as long. */
static void find_calls(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    can_tell = library != NULL && find(library, "cuDeviceGet", &call.device) &&
               find(library, "cuDeviceGetUuid", &call.of_gpu) &&
               find(library, "cuDeviceGetUuid_v2", &call.of_part);
}

static void read_uuid(int number, char out[48])
{
    unsigned char gpu[16], part[16];
    int device;
    out[0] = '\0';
    (void)pthread_once(&once, find_calls);
    if (can_tell && call.device(&device, number) == 0 && call.of_gpu(gpu, device) == 0 &&
        call.of_part(part, device) == 0) {
        write_uuid(out, memcmp(gpu, part, sizeof gpu) == 0 ? "GPU" : "MIG", part);
    }
}

/* ------------------------------------------------------------------ the rest */

/* 12040 is 12.4. */
static void version_text(int version, char *text, size_t room)
{
    (void)snprintf(text, room, "%d.%d", version / 1000, version % 1000 / 10);
}

enum td_code td_cuda_device_number(int *n, struct td_err *err)
{
    int error, driver, built, capability;
    char has[16], wants[16];
    td_cuda_versions(&driver, &built, &capability);
    version_text(driver, has, sizeof has);
    version_text(built, wants, sizeof wants);
    TD_FAIL_IF(driver > 0 && driver / 1000 < built / 1000, err, FAILED_PRECONDITION,
               "the driver is too old: it serves CUDA %s, and the module was built with CUDA %s", has, wants);
    *n = td_cuda_count(&error);
    TD_FAIL_IF(*n == 0, err, FAILED_PRECONDITION, "no GPU is found: %s (%s)",
               error != 0 ? td_cuda_error_text(error) : "the driver shows none",
               error != 0 ? td_cuda_error_name(error) : "0 devices");
    return TD_OK;
}

enum td_code td_cuda_device_describe(int number, struct td_device_facts *out, struct td_err *err)
{
    int n, capability;
    struct td_cuda_facts facts;
    TD_TRY(td_cuda_device_number(&n, err));
    TD_FAIL_IF(number < 0 || number >= n, err, FAILED_PRECONDITION,
               "/device:GPU:%d is not there: the driver shows %d", number, n);
    TD_TRY(td_cuda_fail(td_cuda_describe(number, &facts), "describing the GPU", err));
    *out = (struct td_device_facts){.memory = facts.memory,
                                    .unused = facts.unused,
                                    .multiprocessors = facts.multiprocessors,
                                    .major = facts.major,
                                    .minor = facts.minor};
    (void)snprintf(out->name, sizeof out->name, "%s", facts.name);
    (void)snprintf(out->pci, sizeof out->pci, "%s", facts.pci);
    read_uuid(number, out->uuid);
    td_cuda_versions(&out->driver, &out->built, &capability);
    return TD_OK;
}

enum td_code td_cuda_device_check(int number, const struct td_device_facts *facts, struct td_err *err)
{
    int driver, built, capability;
    td_cuda_versions(&driver, &built, &capability);
    TD_FAIL_IF(facts->major * 10 + facts->minor < capability, err, FAILED_PRECONDITION,
               "/device:GPU:%d (%s) has compute capability %d.%d, the kernels need %d.%d at least", number,
               facts->name, facts->major, facts->minor, capability / 10, capability % 10);
    return TD_OK;
}
