/* server/base/nvml.c - the library's functions, found by name. Each is asked for on its own: one that a
 * driver lacks, or refuses for a GPU, leaves its number out and no other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

#define LIBRARY "libnvidia-ml.so.1"

struct device; /* nvmlDevice_t points to one */

struct rates {
    unsigned gpu, memory; /* percent */
};

struct memory {
    unsigned long long total, unused, used;
};

struct td_nvml {
    void *library;
    /* 0: it went well */
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver)(char *text, unsigned room);
    int (*device)(const char *pci, struct device **out);
    int (*rates)(struct device *d, struct rates *out);
    int (*temperature)(struct device *d, int sensor, unsigned *celsius);
    int (*memory)(struct device *d, struct memory *out);
    int (*power)(struct device *d, unsigned *milliwatts);
    int (*uuid)(struct device *d, char *text, unsigned room);
    int (*by_uuid)(const char *uuid, struct device **out);
    int (*whole)(struct device *part, struct device **out);
    int (*split)(struct device *d, unsigned *now, unsigned *after_reset);
};

/* *to is a pointer to a function: ISO C casts no object's pointer to one. NULL where there is none. */
static void find(const struct td_nvml *n, const char *name, void *to)
{
    void *symbol = dlsym(n->library, name);
    memcpy(to, &symbol, sizeof symbol);
}

struct td_nvml *td_nvml_open(void)
{
    struct td_nvml *n = td_calloc(1, sizeof *n);
    if (n == NULL) {
        return NULL;
    }
    n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (n->library != NULL) {
        find(n, "nvmlInit_v2", &n->init);
        find(n, "nvmlShutdown", &n->shutdown);
        find(n, "nvmlSystemGetDriverVersion", &n->driver);
        find(n, "nvmlDeviceGetHandleByPciBusId_v2", &n->device);
        find(n, "nvmlDeviceGetUtilizationRates", &n->rates);
        find(n, "nvmlDeviceGetTemperature", &n->temperature);
        find(n, "nvmlDeviceGetMemoryInfo", &n->memory);
        find(n, "nvmlDeviceGetPowerUsage", &n->power);
        find(n, "nvmlDeviceGetUUID", &n->uuid);
        find(n, "nvmlDeviceGetHandleByUUID", &n->by_uuid);
        find(n, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", &n->whole);
        find(n, "nvmlDeviceGetMigMode", &n->split);
    }
    if (n->init == NULL || n->init() != 0) {
        n->shutdown = NULL;
        td_nvml_close(n);
        return NULL;
    }
    return n;
}

void td_nvml_close(struct td_nvml *n)
{
    if (n == NULL) {
        return;
    }
    if (n->shutdown != NULL) {
        (void)n->shutdown();
    }
    if (n->library != NULL) {
        dlclose(n->library);
    }
    td_free(n);
}

void td_nvml_driver(const struct td_nvml *n, char *text, size_t room)
{
    if (n == NULL || n->driver == NULL || n->driver(text, (unsigned)room) != 0) {
        text[0] = '\0';
    }
}

static void read_memory(const struct td_nvml *n, struct device *d, struct td_nvml_reading *out)
{
    struct memory memory;
    if (n->memory != NULL && n->memory(d, &memory) == 0) {
        out->memory = (double)memory.total;
        out->memory_used = (double)memory.used;
    }
}

static void read_warmth(const struct td_nvml *n, struct device *d, struct td_nvml_reading *out)
{
    unsigned number;
    if (n->temperature != NULL && n->temperature(d, 0, &number) == 0) {
        out->celsius = (double)number;
    }
}

/* Of a whole GPU, which is one's own. */
static void read_device(const struct td_nvml *n, struct device *d, struct td_nvml_reading *out)
{
    struct rates rates;
    unsigned number;
    if (n->rates != NULL && n->rates(d, &rates) == 0) {
        out->busy = (double)rates.gpu / 100;
    }
    read_warmth(n, d, out);
    if (n->power != NULL && n->power(d, &number) == 0) {
        out->watts = (double)number / 1000;
    }
    read_memory(n, d, out);
    if (n->uuid == NULL || n->uuid(d, out->uuid, sizeof out->uuid) != 0) {
        out->uuid[0] = '\0';
    }
}

static void read_part(const struct td_nvml *n, struct device *part, struct td_nvml_reading *out)
{
    struct device *gpu = NULL;
    read_memory(n, part, out);
    if (n->whole != NULL && n->whole(part, &gpu) == 0) {
        read_warmth(n, gpu, out);
    }
}

/* Whether the GPU is split, and somebody else may have its other parts. */
static bool is_split(const struct td_nvml *n, struct device *d)
{
    unsigned now = 0, after;
    return n->split != NULL && n->split(d, &now, &after) == 0 && now != 0;
}

void td_nvml_read(const struct td_nvml *n, const char *uuid, const char *pci, struct td_nvml_reading *out)
{
    struct device *d = NULL;
    *out = (struct td_nvml_reading){
        .busy = NAN, .celsius = NAN, .watts = NAN, .memory = NAN, .memory_used = NAN};
    const bool part = strncmp(uuid, "MIG-", 4) == 0;
    if (part && n != NULL && n->by_uuid != NULL && n->by_uuid(uuid, &d) == 0) {
        read_part(n, d, out);
    } else if (!part && n != NULL && n->device != NULL && n->device(pci, &d) == 0) {
        is_split(n, d) ? read_warmth(n, d, out) : read_device(n, d, out);
    }
    if (*uuid != '\0') {
        (void)snprintf(out->uuid, sizeof out->uuid, "%s", uuid);
    }
}
