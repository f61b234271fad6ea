/* kernels/cuda/base/describe.c - what runtime.h says of the driver and its devices, as the engine has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/describe.h"

#include <stdio.h>

#include "kernels/cuda/base/device.h"
#include "kernels/cuda/base/runtime.h"

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
