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
#include "core/base/disk.h"
#include "core/base/tensor.h"
#include "core/graph/graph.h"
#include "core/graph/op.h"
#include "core/run/device_run.h"
#include "core/run/select.h"

#define TD_DEVICE_MODULE_ENTRY "td_device_module"
enum { TD_DEVICE_MODULE_VERSION = 1 };

struct td_module_host {
#define CALL(type, name, parameters, given) type(*name) parameters;
#include "core/run/device_module.def"
};
extern const struct td_module_host td_module_host;

struct td_device_facts {
    char name[256];
    char pci[16];            /* "0000:1b:00.0" */
    char uuid[48];           /* "GPU-..", of a part of one "MIG-.."; "": the driver does not tell */
    uint64_t memory, unused; /* bytes: that the device has, and that nobody holds now */
    int multiprocessors, major, minor;
    int driver, built; /* CUDA's version that the driver serves, and the module's: 12040 is 12.4 */
};

struct td_device_opts {
    int number;       /* the module's, from 0 */
    uint64_t limit;   /* bytes that models may hold; 0: what the device has */
    double fraction;  /* of the device's memory, when limit is 0; 0: all of it */
    uint64_t pinned;  /* bytes of the host's memory that may be pinned for copies; 0: none */
    int streams;      /* that runs share; 0: one a run */
    int graph_run;    /* as struct td_device has it */
    const char *kept; /* a folder for what it has made and may want again: kernels; copied; NULL: none */
    bool tf32;        /* float products and convolutions may round their factors to TF32 */
};

struct td_device_counts {
    uint64_t limit, held, most; /* bytes */
    /* bytes of the host's memory: that may be pinned, that are, and that a run or an answer has of it; and
     * times that no more could be had */
    uint64_t pinned_limit, pinned, pinned_used, pinned_refusals;
    uint64_t launches;
    uint64_t graphs, graphs_made, graph_launches; /* that there are, and were ever; launches of one */
    uint64_t graph_kernels;                       /* of `launches` */
    uint64_t copies[TD_COPY_KINDS], copied[TD_COPY_KINDS]; /* by enum td_copy; copied: bytes */
    int streams, most_streams; /* that are made, and that may be; 0: one for each run */
    int used, runs;            /* streams that runs are on, and these */
    bool lost;                 /* an error has left it unusable for this process */
};

struct td_op_rows {
    const char *op;               /* NULL: the end */
    const struct td_kernel *rows; /* end with a row without a name */
};

/* ---- sums over the devices of several processes, one device a process */

enum { TD_DEVICE_GROUP_NAME = 128 };
struct td_device_group;

struct td_device_seat {
    int rank, size;
    const char *name; /* TD_DEVICE_GROUP_NAME bytes that one of the processes has made, and all have */
};

struct td_device_sum {
    const void *from;
    void *to; /* may be from; all else apart */
    int64_t n;
    enum td_dtype dtype; /* float or double */
};

struct td_device_groups {
    /* Of the library that sums, which must be one in all processes; 0: it cannot be used. said: its version,
     * or what is missing. */
    int (*version)(const struct td_device *d, char *said, size_t room);
    TD_MUST enum td_code (*name)(const struct td_device *d, char out[TD_DEVICE_GROUP_NAME],
                                 struct td_err *err);
    /* A group that is not joined yet: what may fail without the others. Returns new. */
    TD_MUST enum td_code (*open)(const struct td_device *d, struct td_device_group **out, struct td_err *err);
    /* Begins to join the others, who all call it, and returns at once. */
    TD_MUST enum td_code (*join)(struct td_device_group *g, const struct td_device_seat *seat,
                                 struct td_err *err);
    /* *in: all have joined; false: not yet. */
    TD_MUST enum td_code (*joined)(struct td_device_group *g, bool *in, struct td_err *err);
    void (*leave)(struct td_device_group *g); /* waits for its sums, not for others to join; accepts NULL */
    /* Queues n sums behind what stream has queued so far, beside what it queues from then on. All processes
     * ask for the same ones in the same order. mark: a number of the caller's, for after. */
    TD_MUST enum td_code (*sum)(struct td_device_group *g, struct td_stream *stream,
                                const struct td_device_sum *s, int n, int mark, struct td_err *err);
    /* What stream queues from now on comes after the sums of that mark, the last ones. */
    TD_MUST enum td_code (*after)(struct td_device_group *g, struct td_stream *stream, int mark,
                                  struct td_err *err);
    /* All of its sums are done, or were ended. */
    TD_MUST enum td_code (*wait)(struct td_device_group *g, struct td_err *err);
    /* UNAVAILABLE: what was summed is worth nothing, as other processes are gone. */
    TD_MUST enum td_code (*check)(struct td_device_group *g, struct td_err *err);
    /* Ends sums that are under way, from any thread: their results are anything, and there are no more.
     * False: a thread waits for other processes within a call, and cannot be reached. */
    bool (*abort)(struct td_device_group *g);
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
    /* Of one that counts says is lost: waits so long for runs to end, and gives it another context
     * (struct td_device). FAILED_PRECONDITION: it is not lost. UNAVAILABLE: it stays so: somebody uses it
     * still, or its driver refuses. */
    TD_MUST enum td_code (*restart)(struct td_device *d, unsigned wait_ms, struct td_err *err);
    void (*counts)(const struct td_device *d, struct td_device_counts *out);
    /* For the log: what the device makes with library i, from 0, or what of it is missing (*there: false).
     * False: there are no more. */
    bool (*library)(const struct td_device *d, int i, char *text, size_t room, bool *there);
    const struct td_op_rows *const *families; /* NULL at the end */
    const struct td_device_groups *groups;    /* NULL: its devices sum nothing with others */
};

typedef const struct td_device_module *td_device_module_entry(const struct td_module_host *host);

/* Differs where a struct that both sides read does. */
static inline uint32_t td_device_module_layout(void)
{
    static const size_t sizes[] = {sizeof(struct td_module_host),
                                   sizeof(struct td_device_module),
                                   sizeof(struct td_device),
                                   sizeof(struct td_launch),
                                   sizeof(struct td_kernel),
                                   sizeof(struct td_kernel_query),
                                   sizeof(struct td_kernel_offer),
                                   sizeof(struct td_call),
                                   sizeof(struct td_tensor),
                                   sizeof(struct td_node),
                                   sizeof(struct td_op),
                                   sizeof(struct td_err),
                                   sizeof(struct td_device_opts),
                                   sizeof(struct td_device_facts),
                                   sizeof(struct td_device_counts),
                                   sizeof(struct td_device_groups),
                                   sizeof(struct td_device_sum)};
    uint32_t hash = 2166136261U; /* FNV-1a, a size at a time */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hash = (hash ^ (uint32_t)sizes[i]) * 16777619U;
    }
    return hash;
}

#endif
