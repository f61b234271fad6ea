/* core/run/device_module.h - what a device's shared object and the engine that loads it say to each other.
 *
 *   engine   td_device_module_entry(&td_module_host)   its functions, for the module to call
 *   module   struct td_device_module                   its devices, and rows for td_engine_add_kernels
 *
 * A module is built from the sources of the engine that loads it: both see the same structs. Whoever loads
 * one checks `version`, `layout` and `build` first, and reads nothing else of a module where one differs.
 *
 * Threads: any, but for the entry, which is called once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_MODULE_H
#define TD_CORE_RUN_DEVICE_MODULE_H

#include <stdint.h>

#include "core/base/device.h"
#include "core/base/tensor.h"
#include "core/graph/graph.h"
#include "core/graph/op.h"
#include "core/run/device_run.h"

#define TD_DEVICE_MODULE_ENTRY "td_device_module"
enum { TD_DEVICE_MODULE_VERSION = 1 };

struct td_module_host {
#define CALL(type, name, parameters, given) type(*name) parameters;
#include "core/run/device_module.def"
};
extern const struct td_module_host td_module_host;

struct td_device_facts {
    char name[256];
    uint64_t memory, unused; /* bytes: that the device has, and that nobody holds now */
    int multiprocessors, major, minor;
};

struct td_device_opts {
    int number;      /* the module's, from 0 */
    uint64_t limit;  /* bytes that models may hold; 0: what the device has */
    double fraction; /* of the device's memory, when limit is 0; 0: all of it */
    int streams;     /* that runs share; 0: one a run */
};

struct td_device_counts {
    uint64_t limit, held, most;        /* bytes */
    uint64_t launches, copies, copied; /* copied: bytes */
};

struct td_op_rows {
    const char *op;               /* NULL: the end */
    const struct td_kernel *rows; /* end with a row without a name */
};

struct td_device_module {
    uint32_t version, layout; /* TD_DEVICE_MODULE_VERSION, td_device_module_layout() */
    const char *build;        /* tensord's version */
    /* FAILED_PRECONDITION says what is missing: a device, a driver that is not too old. */
    TD_MUST enum td_code (*count)(int *n, struct td_err *err);
    TD_MUST enum td_code (*describe)(int number, struct td_device_facts *out, struct td_err *err);
    /* FAILED_PRECONDITION: no such device, one that the kernels were not made for, or too little memory. */
    TD_MUST enum td_code (*open)(const struct td_device_opts *o, struct td_device **out, struct td_err *err);
    void (*close)(struct td_device *d); /* nothing may be queued or allocated any more; accepts NULL */
    void (*counts)(const struct td_device *d, struct td_device_counts *out);
    const struct td_op_rows *const *families; /* NULL at the end */
};

typedef const struct td_device_module *td_device_module_entry(const struct td_module_host *host);

/* Differs where a struct that both sides read does. */
static inline uint32_t td_device_module_layout(void)
{
    static const size_t sizes[] = {sizeof(struct td_module_host),  sizeof(struct td_device_module),
                                   sizeof(struct td_device),       sizeof(struct td_launch),
                                   sizeof(struct td_kernel),       sizeof(struct td_kernel_query),
                                   sizeof(struct td_kernel_offer), sizeof(struct td_call),
                                   sizeof(struct td_tensor),       sizeof(struct td_node),
                                   sizeof(struct td_op),           sizeof(struct td_err)};
    uint32_t hash = 2166136261U; /* FNV-1a, a size at a time */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hash = (hash ^ (uint32_t)sizes[i]) * 16777619U;
    }
    return hash;
}

#endif
