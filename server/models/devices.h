/* server/models/devices.h - the device that models run on: which there is, and the module that drives it.
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

struct td_devices_opts {
    const char *devices; /* NULL: "cpu" */
    const char *module;  /* its path; NULL or "": where it is looked for */
    struct td_device_opts device;
};

struct td_devices;

/* Opens what there is and adds the module's kernels to the engine, before its first model. INVALID_ARGUMENT:
 * devices says something else; FAILED_PRECONDITION: "gpu", and something is missing. Returns new. */
TD_MUST enum td_code td_devices_open(const struct td_devices_opts *o, struct td_engine *engine,
                                     struct td_devices **out, struct td_err *err);
/* No model that used it may be left; the engine may. Accepts NULL. */
void td_devices_close(struct td_devices *d);

/* NULL: models run on the host. */
const struct td_device *td_devices_device(const struct td_devices *d);
struct td_device_counts td_devices_counts(const struct td_devices *d);      /* zeros without a device */
const struct td_device_facts *td_devices_facts(const struct td_devices *d); /* NULL without one */

#endif
