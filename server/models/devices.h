/* server/models/devices.h - the devices that models run on: which there are, and the module that drives them.
 *
 *   devices   "cpu"    the host alone
 *             "auto"   a GPU where there is one and its module can use it, else the host: a line in the log
 *                      says which, and why
 *             "gpu"    a GPU, or an error that says what is missing
 *
 * NVIDIA's driver (libcuda.so.1) is looked for first: without it no module is loaded. The module is
 * tensord_cuda.so, in the folder of the program or library that this is part of, or in its lib/tensord.
 *
 * Threads: td_devices_open and td_devices_close at the start and end; the rest any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_DEVICES_H
#define TD_SERVER_MODELS_DEVICES_H

#include "core/run/device_module.h"
#include "core/run/engine.h"
#include "server/base/nvml.h"
#include "server/models/replicas.h"

/* Where nobody says: bytes of pinned memory for each; which run of a plan is recorded. */
enum { TD_DEVICES_PINNED = 256 << 20, TD_DEVICES_GRAPH_RUN = 3 };

struct td_devices_opts {
    const char *devices;          /* NULL: "cpu" */
    const char *why_not;          /* of "cpu": why nothing else was asked for; NULL: that it was not */
    const char *module;           /* its path; NULL or "": where it is looked for */
    struct td_device_opts device; /* of each; number counts for nothing */
    int most;                     /* that are opened; 0: all that there are */
    int first; /* the number of the first that is tried, behind the last come those before it */
};

/* "streams=4,memory_limit=BYTES,memory_fraction=0.5,pinned_memory=BYTES,graph_run=3,tf32=1" (NULL: nothing)
 * into *out. INVALID_ARGUMENT names what is not understood. */
TD_MUST enum td_code td_devices_options(const char *text, struct td_device_opts *out, struct td_err *err);

struct td_devices;

/* What one is and does now. */
struct td_device_state {
    const struct td_device *device; /* NULL: it was not opened */
    int number;
    struct td_device_facts facts;   /* unused: as it is now */
    struct td_device_counts counts; /* zeros where it was not opened */
    struct td_nvml_reading reading;
};

/* Opens what there is and adds the module's kernels to the engine, before its first model. INVALID_ARGUMENT:
 * devices says something else; FAILED_PRECONDITION: "gpu", and something is missing. Returns new. */
TD_MUST enum td_code td_devices_open(const struct td_devices_opts *o, struct td_engine *engine,
                                     struct td_devices **out, struct td_err *err);
/* Looks for all that could be opened, and opens none: of o only the module is read. What is missing is no
 * error. Returns new. */
TD_MUST enum td_code td_devices_look(const struct td_devices_opts *o, struct td_devices **out,
                                     struct td_err *err);
/* No model that used it may be left; the engine may. Accepts NULL. */
void td_devices_close(struct td_devices *d);

/* Those that models run on: none, but the host. */
struct td_devices_list td_devices_opened(const struct td_devices *d);

/* What its devices sum with those of other processes; NULL: nothing. */
const struct td_device_groups *td_devices_groups(const struct td_devices *d);

/* NOT_FOUND; FAILED_PRECONDITION: the device of that name is in service. *number: CUDA's. */
TD_MUST enum td_code td_devices_lost(const struct td_devices *d, const char *name, int *number,
                                     struct td_err *err);
/* Gives one that is lost another context, when runs have ended: at most so long. As struct td_device_module
 * has it. *out: it, borrowed. */
TD_MUST enum td_code td_devices_restart(const struct td_devices *d, const char *name, unsigned wait_ms,
                                        const struct td_device **out, struct td_err *err);
/* How many there are, and one of them, from 0. */
int td_devices_number(const struct td_devices *d);
void td_devices_state(const struct td_devices *d, int i, struct td_device_state *out);
/* Why there is none; "" where there is one. */
const char *td_devices_missing(const struct td_devices *d);
/* The driver's version, "580.65.06", where it tells it. */
void td_devices_driver(const struct td_devices *d, char *text, size_t room);

#endif
