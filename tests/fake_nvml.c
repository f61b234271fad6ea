/* tests/fake_nvml.c - stands in for NVIDIA's management library (libnvidia-ml.so.1): two GPUs, where the
 * tests' host-run CUDA device says that its own are, busier and warmer the higher their number. The second
 * does not tell its temperature, as a part of a GPU does not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static struct device {
    char pci[16];
    unsigned number;
} devices[] = {{"0000:01:00.0", 0}, {"0000:02:00.0", 1}};

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
    return SUCCESS;
}

API int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned *celsius)
{
    *celsius = 50;
    return d->number == 0 && sensor == 0 ? SUCCESS : NOT_SUPPORTED;
}

API int nvmlDeviceGetMemoryInfo(struct device *d, unsigned long long total_unused_used[3])
{
    total_unused_used[0] = 80ULL << 30;
    total_unused_used[1] = 60ULL << 30;
    total_unused_used[2] = (20ULL + d->number) << 30;
    return SUCCESS;
}

API int nvmlDeviceGetPowerUsage(struct device *d, unsigned *milliwatts)
{
    *milliwatts = 300500 + d->number;
    return SUCCESS;
}

API int nvmlDeviceGetUUID(struct device *d, char *text, unsigned room)
{
    const int n = snprintf(text, room, "GPU-00000000-0000-0000-0000-00000000000%u", d->number);
    return n > 0 && (unsigned)n < room ? SUCCESS : INVALID_ARGUMENT;
}
