/* tests/fake_nvml.c - stands in for NVIDIA's management library (libnvidia-ml.so.1): two GPUs, where the
 * tests' host-run CUDA device says that its own are, busier and warmer the higher their number. The second
 * does not tell its temperature. With FAKE_CUDA_MIG both are split (fake_cuda.c), and each has a part, which
 * tells its memory and which GPU it is of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static struct device {
    char pci[16];
    unsigned number;
    bool part;
} devices[] = {{"0000:01:00.0", 0, false}, {"0000:02:00.0", 1, false}},
  parts[] = {{"", 0, true}, {"", 1, true}};

static bool is_split(void)
{
    return getenv("FAKE_CUDA_MIG") != NULL;
}

API int nvmlInit_v2(void)
{
    return SUCCESS;
}

API int nvmlShutdown(void)
{
    return SUCCESS;
}

API int nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    const int n = snprintf(text, room, "580.65.06");
    return n > 0 && (unsigned)n < room ? SUCCESS : INVALID_ARGUMENT;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, struct device **out)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (strcmp(devices[i].pci, pci) == 0) {
            *out = &devices[i];
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

API int nvmlDeviceGetUtilizationRates(struct device *d, unsigned percent[2])
{
    percent[0] = 40 + 10 * d->number;
    percent[1] = 20;
    return is_split() ? NOT_SUPPORTED : SUCCESS;
}

API int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned *celsius)
{
    *celsius = 50;
    return d->number == 0 && sensor == 0 && !d->part ? SUCCESS : NOT_SUPPORTED;
}

API int nvmlDeviceGetMemoryInfo(struct device *d, unsigned long long total_unused_used[3])
{
    total_unused_used[0] = (d->part ? 10ULL : 80ULL) << 30;
    total_unused_used[2] = (d->part ? 2ULL : 20ULL + d->number) << 30;
    total_unused_used[1] = total_unused_used[0] - total_unused_used[2];
    return SUCCESS;
}

API int nvmlDeviceGetPowerUsage(struct device *d, unsigned *milliwatts)
{
    *milliwatts = 300500 + d->number;
    return d->part ? NOT_SUPPORTED : SUCCESS;
}

API int nvmlDeviceGetUUID(struct device *d, char *text, unsigned room)
{
    const int n = snprintf(text, room, "%s-0000-0000-0000-00000000000%u",
                           d->part ? "MIG-a1000000" : "GPU-00000000", d->number);
    return n > 0 && (unsigned)n < room ? SUCCESS : INVALID_ARGUMENT;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out)
{
    char text[96];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (is_split() && nvmlDeviceGetUUID(&parts[i], text, sizeof text) == SUCCESS &&
            strcmp(text, uuid) == 0) {
            *out = &parts[i];
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

API int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *part, struct device **out)
{
    *out = &devices[part->number];
    return part->part ? SUCCESS : INVALID_ARGUMENT;
}

API int nvmlDeviceGetMigMode(struct device *d, unsigned *now, unsigned *after_reset)
{
    *now = *after_reset = is_split();
    return d->part ? INVALID_ARGUMENT : SUCCESS;
}
