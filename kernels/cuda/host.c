/* kernels/cuda/host.c - the engine's functions as the module calls them: each goes to the engine that has
 * loaded it. Tests that link engine and kernels together have no need of this file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/disk.h"
#include "core/base/mem.h"
#include "core/run/device_module.h"
#include "core/run/lone.h"
#include "kernels/cuda/module.h"

const struct td_module_host *td_cuda_host; /* set once, by the entry */

#define CALL(type, name, parameters, given)                                                                  \
    type name parameters                                                                                     \
    {                                                                                                        \
        return td_cuda_host->name given;                                                                     \
    }
#include "core/run/device_module.def"
